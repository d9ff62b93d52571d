/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - each node's own figures, and those of the edges between them.
 *
 * Steps add up in `sums`; at an epoch's end they become what oct_trainer_node tells, until the next
 * epoch has ended. Bytes are the ledger's (exchange.h), classes are counted when somebody asks.
 */
#include <math.h>
#include <string.h>

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
}

void oct__nodes_add_step(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->sums[node].loss += trainer->nodes[node].loss * trainer->batch;
        trainer->sums[node].n_hits += trainer->nodes[node].n_hits;
    }
}

/* Own models that were tested are no longer these. */
void oct__nodes_evaluated(struct oct_trainer *trainer) {
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->shown[node].consensus_distance = trainer->distances[node];
        trainer->shown[node].test_accuracy = (double)NAN;
    }
}

void oct__nodes_end_epoch(struct oct_trainer *trainer) {
    const double samples = (double)trainer->epoch_samples / trainer->n_nodes;
    for (int node = 0; node < trainer->n_nodes; node++) {
        const struct oct__node_sum *sum = &trainer->sums[node];
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
