/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h - inside of a partition: the rows of every node, and the plug-ins that deal them out.
 *
 * A plug-in is one file partition_NAME.c with one exported `const struct oct_partition_kind
 * oct_partition_NAME` and one row in partitions.def.
 */
#ifndef OCT_DATA_PARTITION_H
#define OCT_DATA_PARTITION_H

#include <octet/partition.h>

#include "base/spec.h"
#include "data/data.h"

struct oct_partition {
    int n_nodes;
    uint32_t n_rows;
    uint32_t *rows;  /* [n_rows] node after node */
    uint32_t *start; /* [n_nodes + 1] where each node's begin */
};

/* What a plug-in works on: the samples that are used, sorted by class (stable). */
struct oct__deal {
    int n_nodes, n_classes;
    uint64_t seed;
    uint32_t n_rows;             /* not fewer than nodes */
    const uint32_t *sorted;      /* [n_rows] rows of the dataset */
    const uint32_t *class_start; /* [n_classes + 1] into sorted */
    const void *options;
};

/* The most that a plug-in's options may take. */
#define OCT_PARTITION_OPTIONS 64

struct oct_partition_kind {
    struct oct_plugin plugin;
    size_t options_bytes;
    const void *defaults;
    const struct oct__spec_option *table;
    /* owner[i] = the node that gets sorted[i]; nodes may come out empty, which is repaired. */
    oct_status (*deal)(const struct oct__deal *deal, uint32_t *owner);
};

const struct oct_partition_kind *oct__partition_at(int index);

/* The kind that "skew:0.8" names and what follows its ':' (NULL: nothing). NOT_FOUND lists the names. */
OCT_MUST_CHECK oct_status oct__partition_find(const char *text,
                                              const struct oct_partition_kind **kind,
                                              const char **options);

/* Reads the options of "skew:0.8" and forgets them: is the text right? */
OCT_MUST_CHECK oct_status oct__partition_check(const char *text);

#endif
