/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h - which node holds which samples.
 *
 *     skew:S        S in 0 … 1: that share of every class is dealt out class by class, the rest at
 *                   random; 0 gives all nodes the same mixture, 1 each node its own classes;
 *                   sizes differ by one at most
 *     dirichlet:A   A in 1e-6 … 1e6: each class is spread over the nodes in proportions drawn from
 *                   Dirichlet(A): the smaller A, the more the nodes differ, in mixture and in size
 *
 * Every sample lands on exactly one node, and every node has at least one.
 */
#ifndef OCTET_PARTITION_H
#define OCTET_PARTITION_H

#include <octet/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_partition;

struct oct_partition_options {
    const char *name; /* "skew:0.8", "dirichlet:0.1" */
    int n_nodes;
    int64_t n_samples; /* use only so many of the dataset's, chosen at random; 0: all */
    uint64_t seed;
};

/* INVALID for more nodes than samples and for options out of range. The dataset is read, not kept. */
OCT_API OCT_MUST_CHECK oct_status oct_partition_create(const struct oct_dataset *dataset,
                                                       const struct oct_partition_options *options,
                                                       struct oct_partition **out);
OCT_API void oct_partition_destroy(struct oct_partition *partition);

/* How many samples `node` holds; 0 when there is no such node. */
OCT_API int64_t oct_partition_size(const struct oct_partition *partition, int node);

/* Its samples' numbers in the dataset, ascending; borrowed. NULL when there is no such node. */
OCT_API const uint32_t *oct_partition_rows(const struct oct_partition *partition, int node);

#ifdef __cplusplus
}
#endif

#endif
