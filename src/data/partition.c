/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - from a dataset to the rows of every node.
 *
 * A plug-in only says which node gets which sample. Here is what all of them share: which samples
 * are used at all, sorting them by class, a sample for nodes that came out empty, and the rows of each
 * node in ascending order, so that a single node has exactly what it would have without a partition.
 */
#include "data/partition.h"

#include <string.h>

#include "data/sampler.h"

union options {
    double real;
    int64_t whole;
    unsigned char bytes[OCT_PARTITION_OPTIONS];
};

static oct_status read_options(const char *text, const struct oct_partition_kind **kind,
                               union options *options) {
    const char *rest;
    OCT_TRY(oct__partition_find(text, kind, &rest));
    if ((*kind)->options_bytes > sizeof *options) {
        OCT_FAIL(INTERNAL, "partition %s: %zu bytes of options, room is for %zu",
                 (*kind)->plugin.name, (*kind)->options_bytes, sizeof *options);
    }
    memcpy(options, (*kind)->defaults, (*kind)->options_bytes);
    return oct__spec_read((*kind)->plugin.name, rest, (*kind)->table, options);
}

oct_status oct__partition_check(const char *text) {
    const struct oct_partition_kind *kind;
    union options options;
    return read_options(text, &kind, &options);
}

/* --- samples by class ----------------------------------------------------------------------- */

/* What is needed between the dataset and the finished partition. */
struct work {
    uint32_t *used;        /* [n_rows] the samples, ascending */
    uint32_t *sorted;      /* [n_rows] the same by class */
    uint32_t *place;       /* [n_rows] sorted[place[i]] is used[i] */
    uint32_t *class_start; /* [n_classes + 1] */
    uint32_t *owner;       /* [n_rows] of sorted[i] */
};

static void work_fini(struct work *work) {
    oct__free(work->used);
    oct__free(work->sorted);
    oct__free(work->place);
    oct__free(work->class_start);
    oct__free(work->owner);
}

static oct_status take(size_t count, const char *what, uint32_t **out) {
    void *memory;
    OCT_TRY(oct__alloc_array(count, sizeof **out, what, &memory));
    *out = memory;
    return OCT_OK;
}

static oct_status work_init(struct work *work, uint32_t n_rows, int n_classes) {
    OCT_TRY(take(n_rows, "the samples of a partition", &work->used));
    OCT_TRY(take(n_rows, "samples by class", &work->sorted));
    OCT_TRY(take(n_rows, "places by class", &work->place));
    OCT_TRY(take((size_t)n_classes + 1, "classes", &work->class_start));
    return take(n_rows, "owners of samples", &work->owner);
}

/* Counting sort: linear, and stable. */
static oct_status sort_by_class(const struct oct_dataset *dataset, uint32_t n_rows,
                                struct work *work) {
    uint32_t *next;
    OCT_TRY(take((size_t)dataset->n_classes, "classes", &next));
    for (uint32_t i = 0; i < n_rows; i++) {
        work->class_start[dataset->labels[work->used[i]] + 1]++;
    }
    for (int c = 0; c < dataset->n_classes; c++) {
        next[c] = work->class_start[c];
        work->class_start[c + 1] += work->class_start[c];
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        work->place[i] = next[dataset->labels[work->used[i]]]++;
        work->sorted[work->place[i]] = work->used[i];
    }
    oct__free(next);
    return OCT_OK;
}

/* --- nodes that came out empty --------------------------------------------------------------- */

#define NONE UINT32_MAX

/* Who gives a sample to whom, as linked lists of nodes. Nodes lie in piles by how many samples they
 * have left; the next gift is from the top of the highest pile, who then moves one pile down. So it
 * is linear in nodes and samples, and the same every time. */
struct gifts {
    uint32_t *pile;  /* [n_rows + 1] top node of those with so many samples */
    uint32_t *below; /* [n_nodes] next node in the same pile */
    uint32_t *first; /* [n_nodes] first receiver of what this node gives */
    uint32_t *after; /* [n_nodes] next receiver from the same giver */
};

static oct_status gifts_init(struct gifts *gifts, uint32_t n_rows, uint32_t n_nodes) {
    OCT_TRY(take((size_t)n_rows + 1, "piles of nodes", &gifts->pile));
    OCT_TRY(take(n_nodes, "piles of nodes", &gifts->below));
    OCT_TRY(take(n_nodes, "receivers", &gifts->first));
    OCT_TRY(take(n_nodes, "receivers", &gifts->after));
    memset(gifts->pile, 0xff, ((size_t)n_rows + 1) * sizeof *gifts->pile);
    memset(gifts->first, 0xff, n_nodes * sizeof *gifts->first);
    return OCT_OK;
}

/* One sample for each empty node, each from the node that has most at that moment: the last by class
 * of what it has. There are not fewer samples than nodes, so a giver always keeps one. */
static oct_status fill_empty(uint32_t n_rows, uint32_t n_nodes, const uint32_t *size,
                             uint32_t *owner) {
    struct gifts gifts = {NULL, NULL, NULL, NULL};
    oct_status status;
    OCT_TRY_TO(out, gifts_init(&gifts, n_rows, n_nodes));
    for (uint32_t node = n_nodes; node-- > 0;) { /* the lowest number comes to lie on top */
        gifts.below[node] = gifts.pile[size[node]];
        gifts.pile[size[node]] = node;
    }
    uint32_t most = n_rows;
    for (uint32_t node = 0; node < n_nodes; node++) {
        if (size[node] > 0) {
            continue;
        }
        while (gifts.pile[most] == NONE) {
            most--;
        }
        uint32_t giver = gifts.pile[most];
        gifts.pile[most] = gifts.below[giver];
        gifts.below[giver] = gifts.pile[most - 1];
        gifts.pile[most - 1] = giver;
        gifts.after[node] = gifts.first[giver];
        gifts.first[giver] = node;
    }
    for (uint32_t i = n_rows; i-- > 0;) {
        uint32_t giver = owner[i], receiver = gifts.first[giver];
        if (receiver != NONE) {
            owner[i] = receiver;
            gifts.first[giver] = gifts.after[receiver];
        }
    }
out:
    oct__free(gifts.pile);
    oct__free(gifts.below);
    oct__free(gifts.first);
    oct__free(gifts.after);
    return status;
}

/* --- all together ----------------------------------------------------------------------------- */

/* start[node + 1] = the node's size, and whether any is empty. */
static int count_sizes(const uint32_t *owner, uint32_t n_rows, uint32_t n_nodes, uint32_t *start) {
    int any_empty = 0;
    memset(start, 0, ((size_t)n_nodes + 1) * sizeof *start);
    for (uint32_t i = 0; i < n_rows; i++) {
        start[owner[i] + 1]++;
    }
    for (uint32_t node = 0; node < n_nodes; node++) {
        any_empty |= start[node + 1] == 0;
    }
    return any_empty;
}

static oct_status check_request(const struct oct_dataset *dataset,
                                const struct oct_partition_options *options) {
    const int64_t n = dataset->n_samples;
    const int64_t n_used = options->n_samples ? options->n_samples : n;
    if (n > INT32_MAX) {
        OCT_FAIL(INVALID, "a partition of %lld samples; at most %d can be dealt out", (long long)n,
                 INT32_MAX);
    }
    if (options->n_samples < 0 || n_used > n) {
        OCT_FAIL(INVALID, "samples: %lld, but the training set has %lld", (long long)n_used,
                 (long long)n);
    }
    if (options->n_nodes < 1) {
        OCT_FAIL(INVALID, "a partition over %d nodes; at least 1 is needed", options->n_nodes);
    }
    if (options->n_nodes > n_used) {
        OCT_FAIL(INVALID,
                 "nodes: %d, and only %lld samples; use at most %lld nodes, or more samples",
                 options->n_nodes, (long long)n_used, (long long)n_used);
    }
    return OCT_OK;
}

/* The rows of each node, ascending because they are handed out in ascending order. */
static void fill_rows(struct oct_partition *partition, const struct work *work) {
    uint32_t *start = partition->start;
    for (int node = 0; node < partition->n_nodes; node++) {
        start[node + 1] += start[node];
    }
    for (uint32_t i = 0; i < partition->n_rows; i++) {
        partition->rows[start[work->owner[work->place[i]]]++] = work->used[i];
    }
    for (int node = partition->n_nodes; node > 0; node--) {
        start[node] = start[node - 1]; /* each had moved on to its node's end */
    }
    start[0] = 0;
}

static oct_status deal_out(const struct oct_dataset *dataset, const struct oct_partition_kind *kind,
                           const union options *options, uint64_t seed,
                           struct oct_partition *partition, struct work *work) {
    const uint32_t n_rows = partition->n_rows, n_nodes = (uint32_t)partition->n_nodes;
    OCT_TRY(work_init(work, n_rows, dataset->n_classes));
    OCT_TRY(take(n_rows, "the rows of a partition", &partition->rows));
    OCT_TRY(take((size_t)n_nodes + 1, "the nodes of a partition", &partition->start));
    OCT_TRY(oct__subset(seed, (uint32_t)dataset->n_samples, n_rows, work->used));
    OCT_TRY(sort_by_class(dataset, n_rows, work));
    const struct oct__deal deal = {
        .n_nodes = partition->n_nodes,
        .n_classes = dataset->n_classes,
        .seed = seed,
        .n_rows = n_rows,
        .sorted = work->sorted,
        .class_start = work->class_start,
        .options = options,
    };
    OCT_TRY(kind->deal(&deal, work->owner));
    for (uint32_t i = 0; i < n_rows; i++) {
        if (work->owner[i] >= n_nodes) {
            OCT_FAIL(INTERNAL, "partition %s: a sample for node %u of %u", kind->plugin.name,
                     work->owner[i], n_nodes);
        }
    }
    if (count_sizes(work->owner, n_rows, n_nodes, partition->start)) {
        OCT_TRY(fill_empty(n_rows, n_nodes, partition->start + 1, work->owner));
        count_sizes(work->owner, n_rows, n_nodes, partition->start);
    }
    fill_rows(partition, work);
    return OCT_OK;
}

oct_status oct_partition_create(const struct oct_dataset *dataset,
                                const struct oct_partition_options *options,
                                struct oct_partition **out) {
    if (!dataset || !options || !options->name || !out) {
        OCT_FAIL(INVALID, "oct_partition_create: the %s is NULL",
                 !dataset   ? "dataset"
                 : !options ? "options"
                 : !out     ? "place"
                            : "name");
    }
    const struct oct_partition_kind *kind;
    union options kind_options;
    OCT_TRY(read_options(options->name, &kind, &kind_options));
    OCT_TRY(check_request(dataset, options));
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_partition), "a partition", &memory));
    struct oct_partition *partition = memory;
    partition->n_nodes = options->n_nodes;
    partition->n_rows = (uint32_t)(options->n_samples ? options->n_samples : dataset->n_samples);
    struct work work = {NULL, NULL, NULL, NULL, NULL};
    oct_status status = deal_out(dataset, kind, &kind_options, options->seed, partition, &work);
    work_fini(&work);
    if (status != OCT_OK) {
        oct_partition_destroy(partition);
        return status;
    }
    *out = partition;
    return OCT_OK;
}

void oct_partition_destroy(struct oct_partition *partition) {
    if (partition) {
        oct__free(partition->rows);
        oct__free(partition->start);
        oct__free(partition);
    }
}

int64_t oct_partition_size(const struct oct_partition *partition, int node) {
    if (!partition || node < 0 || node >= partition->n_nodes) {
        return 0;
    }
    return (int64_t)partition->start[node + 1] - partition->start[node];
}

const uint32_t *oct_partition_rows(const struct oct_partition *partition, int node) {
    if (!partition || node < 0 || node >= partition->n_nodes) {
        return NULL;
    }
    return partition->rows + partition->start[node];
}
