/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - each node's own figures, and those of the edges between them.
 *
 * Steps add up in `sums`; at an epoch's end they become what oct_trainer_node tells, until the next
 * epoch has ended. Bytes are the ledger's (exchange.h), classes are counted when somebody asks.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/checkpoint.h"
#include "train/trainer.h"

oct_status oct__nodes_make(struct oct_trainer *trainer) {
    const size_t n = (size_t)trainer->n_nodes;
    void *memory;
    OCT_TRY(oct__alloc_array(n, sizeof *trainer->sums, "figures of the nodes", &memory));
    trainer->sums = memory;
    OCT_TRY(oct__alloc_array(n, sizeof *trainer->distances, "figures of the nodes", &memory));
    trainer->distances = memory;
    OCT_TRY(oct__alloc_array(n, sizeof *trainer->shown, "figures of the nodes", &memory));
    trainer->shown = memory;
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->shown[node] = (struct oct_node){
            .loss = (double)NAN,
            .accuracy = (double)NAN,
            .consensus_distance = (double)NAN,
            .test_accuracy = (double)NAN,
            .n_samples = oct_partition_size(trainer->partition, node),
        };
    }
    return OCT_OK;
}

void oct__nodes_free(struct oct_trainer *trainer) {
    oct__free(trainer->sums);
    oct__free(trainer->distances);
    oct__free(trainer->shown);
}

void oct__nodes_begin_epoch(struct oct_trainer *trainer) {
    memset(trainer->sums, 0, (size_t)trainer->n_nodes * sizeof *trainer->sums);
    trainer->sum_steps = 0;
}

void oct__nodes_add_step(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->sums[node].loss += trainer->nodes[node].loss * trainer->batch;
        trainer->sums[node].n_hits += trainer->nodes[node].n_hits;
    }
    trainer->sum_steps++;
}

/* Own models that were tested are no longer these. */
void oct__nodes_evaluated(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->shown[node].consensus_distance = trainer->distances[node];
        trainer->shown[node].test_accuracy = (double)NAN;
    }
}

/* Steps of this epoch that a node did. */
static int64_t steps_of(const struct oct_trainer *trainer, int node) {
    const struct oct__faults *faults = trainer->exchange->faults;
    const int64_t first = trainer->step - trainer->sum_steps;
    return trainer->sum_steps -
           (faults ? oct__fault_steps_away(&faults->plan, node, first, trainer->step) : 0);
}

void oct__nodes_end_epoch(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        const struct oct__node_sum *sum = &trainer->sums[node];
        const double samples = (double)steps_of(trainer, node) * trainer->batch;
        trainer->shown[node].loss = samples > 0 ? sum->loss / samples : (double)NAN;
        trainer->shown[node].accuracy =
            samples > 0 ? 100.0 * (double)sum->n_hits / samples : (double)NAN;
    }
}

oct_status oct_trainer_node(const struct oct_trainer *trainer, int node, struct oct_node *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "a node needs a trainer and a place to be returned");
    }
    if (node < 0 || node >= trainer->n_nodes) {
        OCT_FAIL(NOT_FOUND, "node %d: the run has nodes 0 to %d", node, trainer->n_nodes - 1);
    }
    *out = trainer->shown[node];
    out->bytes_sent = trainer->exchange->ledger.sent[node];
    return OCT_OK;
}

oct_status oct_trainer_edge(const struct oct_trainer *trainer, int64_t index,
                            struct oct_traffic *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "an edge needs a trainer and a place to be returned");
    }
    const struct oct__ledger *ledger = &trainer->exchange->ledger;
    const int n = oct__ledger_edges(ledger);
    if (index < 0 || index >= n) {
        OCT_FAIL(NOT_FOUND, "edge %lld: %d edges have carried something", (long long)index, n);
    }
    const int edge = (int)index;
    *out = (struct oct_traffic){
        .from = oct__ledger_from(ledger, edge),
        .to = ledger->to[edge],
        .bytes = ledger->counts[edge].bytes,
        .messages = ledger->counts[edge].messages,
    };
    return OCT_OK;
}

int64_t oct_trainer_holding(const struct oct_trainer *trainer, int node, int label) {
    if (!trainer || node < 0 || node >= trainer->n_nodes || label < 0 ||
        label >= trainer->train->n_classes) {
        return -1;
    }
    const uint32_t *rows = oct_partition_rows(trainer->partition, node);
    const int64_t n_rows = oct_partition_size(trainer->partition, node);
    int64_t count = 0;
    for (int64_t i = 0; i < n_rows; i++) {
        count += oct_dataset_label(trainer->train, rows[i]) == label;
    }
    return count;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

/* "node.00003.loss", "edge.00003.00017.bytes" */
#define NODE_COUNTERS 3

static int edges_kept(const struct oct_trainer *trainer) {
    const int n = oct__ledger_edges(&trainer->exchange->ledger);
    return n <= OCT_EDGES_KEPT ? n : 0;
}

size_t oct__nodes_counters(const struct oct_trainer *trainer) {
    return 1 + NODE_COUNTERS * (size_t)trainer->n_nodes + 2 * (size_t)edges_kept(trainer);
}

static struct oct__counter *put_node(struct oct__counter *at, int node, const char *what,
                                     double value) {
    snprintf(at->name, sizeof at->name, "node.%05d.%s", node, what);
    at->value = value;
    return at + 1;
}

void oct__nodes_put(const struct oct_trainer *trainer, struct oct__counter *counters) {
    const struct oct__ledger *ledger = &trainer->exchange->ledger;
    struct oct__counter *at = counters;
    *at++ = (struct oct__counter){.name = "node_steps", .value = (double)trainer->sum_steps};
    for (int node = 0; node < trainer->n_nodes; node++) {
        at = put_node(at, node, "loss", trainer->sums[node].loss);
        at = put_node(at, node, "hits", (double)trainer->sums[node].n_hits);
        at = put_node(at, node, "sent", (double)ledger->sent[node]);
    }
    for (int edge = 0; edge < edges_kept(trainer); edge++, at += 2) {
        const int from = oct__ledger_from(ledger, edge), to = ledger->to[edge];
        snprintf(at[0].name, sizeof at[0].name, "edge.%05d.%05d.bytes", from, to);
        snprintf(at[1].name, sizeof at[1].name, "edge.%05d.%05d.messages", from, to);
        at[0].value = (double)ledger->counts[edge].bytes;
        at[1].value = (double)ledger->counts[edge].messages;
    }
}

static oct_status strange(const struct oct__manifest *manifest,
                          const struct oct__counter *counter) {
    OCT_FAIL(CORRUPT, "%s: %s is %g", manifest->path, counter->name, counter->value);
}

/* A loss may be anything finite; the others count. */
static int is_count(double value) {
    return value >= 0 && value <= 0x1p53 && floor(value) == value;
}

/* ".00003": a node, as five digits behind a dot. Moves *at behind it; zero when there is none. */
static int read_index(const char **at, int n_nodes, int *out) {
    const char *digits = *at + 1;
    int value = 0;
    if (**at != '.') {
        return 0;
    }
    for (int i = 0; i < 5; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return 0;
        }
        value = 10 * value + (digits[i] - '0');
    }
    *at = digits + 5;
    *out = value;
    return value < n_nodes;
}

static oct_status take_node(struct oct_trainer *trainer, const struct oct__manifest *manifest,
                            const struct oct__counter *counter) {
    const char *what = counter->name + 4;
    int node;
    if (!read_index(&what, trainer->n_nodes, &node) || !isfinite(counter->value)) {
        return strange(manifest, counter);
    }
    if (strcmp(what, ".loss") == 0) {
        trainer->sums[node].loss = counter->value;
    } else if (strcmp(what, ".hits") == 0 && is_count(counter->value)) {
        trainer->sums[node].n_hits = (int64_t)counter->value;
    } else if (strcmp(what, ".sent") == 0 && is_count(counter->value)) {
        trainer->exchange->ledger.sent[node] = (uint64_t)counter->value;
    } else {
        return strange(manifest, counter);
    }
    return OCT_OK;
}

static oct_status take_edge(struct oct_trainer *trainer, const struct oct__manifest *manifest,
                            const struct oct__counter *counter) {
    const char *what = counter->name + 4;
    int from, to;
    if (!read_index(&what, trainer->n_nodes, &from) || !read_index(&what, trainer->n_nodes, &to) ||
        from == to || !is_count(counter->value)) {
        return strange(manifest, counter);
    }
    const int is_bytes = strcmp(what, ".bytes") == 0;
    if (!is_bytes && strcmp(what, ".messages") != 0) {
        return strange(manifest, counter);
    }
    struct oct__carried *carried;
    OCT_TRY(oct__ledger_enter_edge(&trainer->exchange->ledger, from, to));
    carried = oct__ledger_find(&trainer->exchange->ledger, from, to);
    if (carried) {
        *(is_bytes ? &carried->bytes : &carried->messages) = (uint64_t)counter->value;
    }
    return OCT_OK;
}

oct_status oct__nodes_take(struct oct_trainer *trainer, const struct oct__manifest *manifest) {
    for (size_t i = 0; i < manifest->n_counters; i++) {
        const struct oct__counter *counter = &manifest->counters[i];
        if (strncmp(counter->name, "node.", 5) == 0) {
            OCT_TRY(take_node(trainer, manifest, counter));
        } else if (strncmp(counter->name, "edge.", 5) == 0) {
            OCT_TRY(take_edge(trainer, manifest, counter));
        } else if (strcmp(counter->name, "node_steps") == 0) {
            if (!is_count(counter->value)) {
                return strange(manifest, counter);
            }
            trainer->sum_steps = (int64_t)counter->value;
        }
    }
    if (trainer->epochs_done > 0 && trainer->sum_steps > 0 &&
        trainer->step == trainer->epochs_done * trainer->epoch_steps) {
        oct__nodes_end_epoch(trainer); /* it was written between two epochs */
    }
    return OCT_OK;
}
