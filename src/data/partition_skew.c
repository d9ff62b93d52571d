/* SPDX-License-Identifier: Apache-2.0 */
/* partition_skew.c - a share of every class is dealt out class by class, the rest at random.
 *
 * Aketi, Kodge, Roy, "Low precision decentralized distributed training with heterogeneous data",
 * arXiv 2111.09389, figure 2. With share s and class c of m(c) samples:
 *
 *     sorted list:   of class 0 the first floor(s m(0)) samples, then of class 1, …
 *     mixed list:    all others, shuffled
 *     node i:        its consecutive 1/n of both
 *
 * s = 0 gives every node the same mixture by chance, s = 1 each node its own classes.
 *
 * What the published code drops because it does not divide evenly is kept here: with N = q n + r
 * samples the first r nodes have q + 1 and the others q. The sorted list is cut by the same rule,
 * so a node's part of it is never more than its all, and the mixed list fills up the difference.
 */
#include <stddef.h>

#include "base/rng.h"
#include "data/partition.h"

struct options {
    double share;
};

static const struct options defaults = {.share = 0.8};

static const struct oct__spec_option table[] = {
    {"share", OCT_SPEC_REAL, offsetof(struct options, share), 0, 1, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* floor(share * n) of the number that was typed: 0.29 of 100 is 29, though the nearest double times
 * 100 is a little less. The largest k whose k / n, rounded to a double, is not above the share. */
static uint32_t part_of(double share, uint32_t n) {
    uint32_t k = (uint32_t)(share * (double)n);
    while (k < n && (double)(k + 1) / (double)n <= share) {
        k++;
    }
    while (k > 0 && (double)k / (double)n > share) {
        k--;
    }
    return k;
}

/* Where node i's part of a list of n entries begins: the first n % n_nodes parts are one longer. */
static uint32_t cut(uint32_t n, int n_nodes, int i) {
    uint32_t nodes = (uint32_t)n_nodes, node = (uint32_t)i;
    uint32_t longer = n % nodes;
    return node * (n / nodes) + (node < longer ? node : longer);
}

static oct_status deal_skewed(const struct oct__deal *deal, uint32_t *owner) {
    const struct options *options = deal->options;
    /* Both lists in one array of positions: the sorted one from the front, the mixed one behind. */
    void *memory;
    OCT_TRY(oct__alloc_array(deal->n_rows, 2 * sizeof(uint32_t), "a partition's lists", &memory));
    uint32_t *list = memory, *order = list + deal->n_rows;
    uint32_t n_sorted = 0, n_mixed = 0, at = 0;
    for (int c = 0; c < deal->n_classes; c++) {
        uint32_t size = deal->class_start[c + 1] - deal->class_start[c];
        n_sorted += part_of(options->share, size);
    }
    for (int c = 0; c < deal->n_classes; c++) {
        uint32_t first = deal->class_start[c], size = deal->class_start[c + 1] - first;
        uint32_t n_front = part_of(options->share, size);
        for (uint32_t i = 0; i < size; i++) {
            list[i < n_front ? at++ : n_sorted + n_mixed++] = first + i;
        }
    }
    struct oct__stream stream = oct__stream(deal->seed, OCT_PURPOSE_PARTITION, 0, 0, 0);
    oct__permutation(&stream, n_mixed, order);
    for (int node = 0; node < deal->n_nodes; node++) {
        uint32_t from = cut(n_sorted, deal->n_nodes, node);
        uint32_t to = cut(n_sorted, deal->n_nodes, node + 1);
        for (uint32_t i = from; i < to; i++) {
            owner[list[i]] = (uint32_t)node;
        }
        uint32_t mixed_from = cut(deal->n_rows, deal->n_nodes, node) - from;
        uint32_t mixed_to = cut(deal->n_rows, deal->n_nodes, node + 1) - to;
        for (uint32_t i = mixed_from; i < mixed_to; i++) {
            owner[list[n_sorted + order[i]]] = (uint32_t)node;
        }
    }
    oct__free(list);
    return OCT_OK;
}

const struct oct_partition_kind oct_partition_skew = {
    .plugin = {.name = "skew",
               .summary =
                   "that share of every class is dealt out class by class, the rest at random",
               .reference = "Aketi, Kodge, Roy, arXiv 2111.09389",
               .options = "share=S"},
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .deal = deal_skewed,
};
