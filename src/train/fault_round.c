/* SPDX-License-Identifier: Apache-2.0 */
/* fault_round.c - rounds under faults: what becomes of each message, and the books about it.
 *
 * Where packets are read by reference nothing but flags is needed. A transport that carries bytes gets
 * what the network would do to them: a dropped message is never handed to it, a late one is held back,
 * a second copy is sent. The receiver then has to tell them apart by what they say of themselves.
 */
#include <string.h>

#include "base/alloc.h"
#include "compress/wire.h"
#include "train/fault.h"

oct_status oct__faults_create(struct oct__fault_plan *take, uint64_t seed,
                              struct oct__faults **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__faults), "faults", &memory));
    struct oct__faults *faults = memory;
    faults->plan = *take;
    faults->seed = seed;
    memset(take, 0, sizeof *take);
    *out = faults;
    return OCT_OK;
}

void oct__faults_destroy(struct oct__faults *faults) {
    if (!faults) {
        return;
    }
    for (size_t i = 0; i < faults->n_held; i++) {
        oct__free(faults->held[i].bytes);
    }
    oct__free(faults->held);
    oct__free(faults->fates);
    oct__fault_fini(&faults->plan);
    oct__free(faults);
}

/* --- a round's fates -------------------------------------------------------------------------- */

static enum oct__fate fate_of(const struct oct__faults *faults, const struct oct__gossip *gossip,
                              int from, int to) {
    return gossip->away[from] || gossip->away[to]
               ? OCT_FATE_UNSENT
               : oct__fault_fate(&faults->plan, faults->seed, from, to, gossip->round);
}

static void count_fate(struct oct__faults *faults, enum oct__fate fate) {
    struct oct_fault_counts *counts = &faults->counts;
    counts->dropped += fate == OCT_FATE_DROPPED;
    counts->late += fate == OCT_FATE_LATE;
    counts->overtaken += fate == OCT_FATE_OVERTAKEN;
    counts->doubled += fate == OCT_FATE_TWICE;
}

static int is_lost(enum oct__fate fate) {
    return fate != OCT_FATE_ARRIVES && fate != OCT_FATE_TWICE;
}

int oct__faults_copies(const struct oct__faults *faults, int edge) {
    const unsigned char fate = faults->fates[edge];
    return fate == OCT_FATE_UNSENT ? 0 : fate == OCT_FATE_TWICE ? 2 : 1;
}

/* Whoever cannot give its row to the reduction, or cannot get the mean back, takes no part in it: the
 * mean is that of the others. The lowest node that is there adds up. */
static void begin_average(struct oct__faults *faults, struct oct__gossip *gossip) {
    const int n_nodes = gossip->config.n_nodes;
    int root = 0;
    memset(faults->fates, OCT_FATE_UNSENT, 2 * (size_t)n_nodes);
    while (root < n_nodes && gossip->away[root]) {
        root++;
    }
    for (int node = root + 1; node < n_nodes; node++) {
        enum oct__fate there = fate_of(faults, gossip, node, root), back = OCT_FATE_UNSENT;
        if (!is_lost(there)) {
            back = fate_of(faults, gossip, root, node);
            count_fate(faults, back);
        }
        count_fate(faults, there);
        faults->fates[2 * node] = (unsigned char)there;
        faults->fates[2 * node + 1] = (unsigned char)back;
        gossip->away[node] = (unsigned char)is_lost(back);
    }
}

void oct__faults_present(struct oct__faults *faults, struct oct__gossip *gossip, uint32_t step) {
    for (int node = 0; node < gossip->config.n_nodes; node++) {
        gossip->away[node] = (unsigned char)oct__fault_is_away(&faults->plan, node, step);
        faults->counts.absent += gossip->away[node];
    }
}

oct_status oct__faults_begin(struct oct__faults *faults, struct oct__gossip *gossip) {
    const struct oct__mix *mix = gossip->mix;
    const int is_average = gossip->config.algorithm->mixing == OCT_MIXING_AVERAGE;
    const int n_edges = is_average ? 2 * gossip->config.n_nodes : mix->n_edges;
    void *fates = faults->fates;
    OCT_TRY(oct__alloc_grow(&fates, &faults->fates_capacity, (size_t)n_edges, 1, "faults"));
    faults->fates = fates;
    if (is_average) {
        begin_average(faults, gossip);
        return OCT_OK;
    }
    for (int to = 0; to < mix->n_nodes; to++) {
        for (int edge = mix->in_start[to]; edge < mix->in_start[to + 1]; edge++) {
            const enum oct__fate fate =
                oct__fault_fate(&faults->plan, faults->seed, mix->from[edge], to, gossip->round);
            struct oct__delivery *delivery = &gossip->inbox[edge];
            faults->fates[edge] = (unsigned char)fate;
            delivery->is_lost = (unsigned char)is_lost(fate);
            count_fate(faults, fate);
            if (delivery->is_repair) {
                const uint64_t n_sent = (uint64_t)oct__faults_copies(faults, edge);
                faults->counts.repairs += n_sent;
                faults->counts.repair_bytes += n_sent * oct__wire_length(gossip->dense_form, NULL);
            }
        }
    }
    oct__gossip_settle_losses(gossip);
    return OCT_OK;
}

/* --- messages under way ----------------------------------------------------------------------- */

static oct_status hold(struct oct__faults *faults, const struct oct__held *held,
                       const uint8_t *bytes) {
    void *list = faults->held, *copy;
    OCT_TRY(oct__alloc_grow(&list, &faults->held_capacity, faults->n_held + 1, sizeof *held,
                            "messages under way"));
    faults->held = list;
    OCT_TRY(oct__alloc(held->n_bytes, "a message under way", &copy));
    memcpy(copy, bytes, held->n_bytes);
    faults->held[faults->n_held] = *held;
    faults->held[faults->n_held++].bytes = copy;
    return OCT_OK;
}

oct_status oct__faults_send(struct oct__faults *faults, struct oct__transport *transport,
                            const struct oct__gossip *gossip, int to, int edge,
                            const uint8_t *bytes, size_t n_bytes) {
    const int from = gossip->mix->from[edge];
    struct oct__held held = {.from = from, .to = to, .round = gossip->round, .n_bytes = n_bytes};
    const enum oct__fate fate = (enum oct__fate)faults->fates[edge];
    if (!is_lost(fate)) {
        OCT_TRY(transport->kind->send(transport, from, to, bytes, n_bytes));
    }
    switch (fate) {
    case OCT_FATE_LATE:
        held.due = gossip->round + (uint64_t)faults->plan.delay_rounds;
        return hold(faults, &held, bytes);
    case OCT_FATE_OVERTAKEN:
        held.due = UINT64_MAX;
        return hold(faults, &held, bytes);
    case OCT_FATE_TWICE:
        held.due = gossip->round;
        return hold(faults, &held, bytes);
    default:
        return OCT_OK;
    }
}

/* A message is new when it is of this round and the first of it. */
static oct_status discard(struct oct__faults *faults, uint64_t run, uint32_t round, int from,
                          int has_own, const uint8_t *bytes, size_t n_bytes) {
    struct oct__wire_header header;
    OCT_TRY(oct__wire_peek(bytes, n_bytes, &header));
    if (header.run != run || header.sender != (uint32_t)from || header.round > round ||
        (header.round == round && !has_own)) {
        OCT_FAIL(INTERNAL, "a message of round %u was held back, and is taken for one of round %u",
                 header.round, round);
    }
    faults->n_discarded++;
    return OCT_OK;
}

oct_status oct__faults_deliver(struct oct__faults *faults, struct oct__transport *transport,
                               uint64_t run, uint32_t round, int from, int to, int is_behind,
                               int has_own) {
    for (size_t i = 0; i < faults->n_held;) {
        struct oct__held *held = &faults->held[i];
        const int is_due = is_behind
                               ? held->round == round ? held->due == round : held->due == UINT64_MAX
                               : held->round < round && held->due <= round;
        if (held->from != from || held->to != to || !is_due) {
            i++;
            continue;
        }
        const uint8_t *bytes;
        size_t n_bytes;
        OCT_TRY(transport->kind->send(transport, from, to, held->bytes, held->n_bytes));
        OCT_TRY(transport->kind->receive(transport, from, to, &bytes, &n_bytes));
        OCT_TRY(discard(faults, run, round, from, has_own, bytes, n_bytes));
        oct__free(held->bytes);
        memmove(held, held + 1, (--faults->n_held - i) * sizeof *held);
    }
    return OCT_OK;
}
