/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - bytes by node, bytes and messages by edge. */
#include "train/ledger.h"

#include <string.h>

#include "base/alloc.h"

static oct_status make_room(struct oct__ledger *ledger, int n_edges) {
    void *to = ledger->to, *counts = ledger->counts;
    OCT_TRY(oct__alloc_grow(&to, &ledger->to_capacity, (size_t)n_edges, sizeof *ledger->to,
                            "a ledger"));
    ledger->to = to;
    OCT_TRY(oct__alloc_grow(&counts, &ledger->counts_capacity, (size_t)n_edges,
                            sizeof *ledger->counts, "a ledger"));
    ledger->counts = counts;
    return OCT_OK;
}

oct_status oct__ledger_init(struct oct__ledger *ledger, int n_nodes, int n_edges) {
    void *memory;
    *ledger = (struct oct__ledger){.n_nodes = n_nodes};
    OCT_TRY(oct__alloc_array((size_t)n_nodes, sizeof *ledger->sent, "a ledger", &memory));
    ledger->sent = memory;
    if (n_nodes > OCT_LEDGER_NODES) {
        return OCT_OK;
    }
    OCT_TRY(oct__alloc_array((size_t)n_nodes + 1, sizeof *ledger->start, "a ledger", &memory));
    ledger->start = memory;
    return make_room(ledger, n_edges);
}

void oct__ledger_fini(struct oct__ledger *ledger) {
    oct__free(ledger->sent);
    oct__free(ledger->start);
    oct__free(ledger->to);
    oct__free(ledger->counts);
    memset(ledger, 0, sizeof *ledger);
}

int oct__ledger_edges(const struct oct__ledger *ledger) {
    return ledger->start ? ledger->start[ledger->n_nodes] : 0;
}

/* The place of an edge among its sender's: where it is, or where it would be. */
static int place_of(const struct oct__ledger *ledger, int from, int to) {
    int low = ledger->start[from], high = ledger->start[from + 1];
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (ledger->to[middle] < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int has(const struct oct__ledger *ledger, int from, int to, int place) {
    return place < ledger->start[from + 1] && ledger->to[place] == to;
}

/* Merges each sender's list with the graph's, from the last edge to the first, so that one pass
 * does it in place. */
static void merge(struct oct__ledger *ledger, const struct oct__mix *mix, int n_after) {
    int write = n_after;
    for (int from = ledger->n_nodes - 1; from >= 0; from--) {
        int old = ledger->start[from + 1] - 1, new = mix->out_start[from + 1] - 1;
        const int old_first = ledger->start[from], new_first = mix->out_start[from];
        ledger->start[from + 1] = write;
        while (old >= old_first || new >= new_first) {
            const int takes_old =
                new < new_first || (old >= old_first && ledger->to[old] >= mix->to[new]);
            write--;
            if (takes_old) {
                new -= new >= new_first && ledger->to[old] == mix->to[new];
                ledger->to[write] = ledger->to[old];
                ledger->counts[write] = ledger->counts[old--];
            } else {
                ledger->to[write] = mix->to[new --];
                ledger->counts[write] = (struct oct__carried){0, 0};
            }
        }
    }
}

oct_status oct__ledger_enter(struct oct__ledger *ledger, const struct oct__mix *mix) {
    if (!ledger->start) {
        return OCT_OK;
    }
    int n_new = 0;
    for (int from = 0; from < mix->n_nodes; from++) {
        for (int e = mix->out_start[from]; e < mix->out_start[from + 1]; e++) {
            n_new += !has(ledger, from, mix->to[e], place_of(ledger, from, mix->to[e]));
        }
    }
    if (n_new > 0) {
        const int n_after = oct__ledger_edges(ledger) + n_new;
        OCT_TRY(make_room(ledger, n_after));
        merge(ledger, mix, n_after);
    }
    return OCT_OK;
}

oct_status oct__ledger_enter_edge(struct oct__ledger *ledger, int from, int to) {
    if (!ledger->start) {
        return OCT_OK;
    }
    const int place = place_of(ledger, from, to), n = oct__ledger_edges(ledger);
    if (has(ledger, from, to, place)) {
        return OCT_OK;
    }
    OCT_TRY(make_room(ledger, n + 1));
    const size_t behind = (size_t)(n - place);
    memmove(ledger->to + place + 1, ledger->to + place, behind * sizeof *ledger->to);
    memmove(ledger->counts + place + 1, ledger->counts + place, behind * sizeof *ledger->counts);
    ledger->to[place] = to;
    ledger->counts[place] = (struct oct__carried){0, 0};
    for (int node = from; node < ledger->n_nodes; node++) {
        ledger->start[node + 1]++;
    }
    return OCT_OK;
}

struct oct__carried *oct__ledger_find(const struct oct__ledger *ledger, int from, int to) {
    const int place = ledger->start ? place_of(ledger, from, to) : 0;
    return ledger->start && has(ledger, from, to, place) ? &ledger->counts[place] : NULL;
}

void oct__ledger_count(struct oct__ledger *ledger, int from, int to, uint64_t bytes) {
    struct oct__carried *carried = oct__ledger_find(ledger, from, to);
    ledger->sent[from] += bytes;
    if (carried) {
        carried->bytes += bytes;
        carried->messages++;
    }
}

int oct__ledger_from(const struct oct__ledger *ledger, int index) {
    int low = 0, high = ledger->n_nodes - 1;
    while (low < high) { /* the first node whose part ends behind it */
        int middle = low + (high - low) / 2;
        if (ledger->start[middle + 1] <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
