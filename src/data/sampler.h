/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.h - which samples a node's step uses, and how each is cropped and flipped.
 *
 * Everything is a function of (seed, node, step): no state beyond one cached permutation, so a
 * resumed run, or one laid over other threads, draws the same.
 *
 *     node's stream:  permutation 0 of its samples, permutation 1, permutation 2, …
 *     step t:         positions t*batch … t*batch + batch - 1 of the stream
 *
 * So every sample is seen once per permutation, and a batch that is cut short by the end of one is
 * filled from the next.
 */
#ifndef OCT_DATA_SAMPLER_H
#define OCT_DATA_SAMPLER_H

#include "data/data.h"

/* One sample of a batch, as the engine's batch operation reads it: row of the image table (which has
 * the samples that are held), crop offset, mirrored or not, class. */
struct oct__pick {
    int32_t row, dy, dx, flip, label;
};

struct oct__sampler {
    uint64_t seed;
    uint32_t node;
    uint32_t n_samples;
    const uint32_t *rows; /* [n_samples] rows of the dataset that this node holds; borrowed */
    uint32_t *order;      /* [n_samples] the cached permutation */
    int64_t order_number; /* which one it is; -1: none yet */
};

OCT_MUST_CHECK oct_status oct__sampler_init(struct oct__sampler *sampler, uint64_t seed,
                                            uint32_t node, const uint32_t *rows,
                                            uint32_t n_samples);
void oct__sampler_fini(struct oct__sampler *sampler);

/* The picks of training step `step`. `pad` > 0: random crop with that padding and a random flip,
 * a function of (seed, node, permutation, row): words 4 row … 4 row + 2 of the stream (seed, AUGMENT,
 * node, permutation). So an image is cropped alike whatever the batch size. */
void oct__sampler_batch(struct oct__sampler *sampler, const struct oct_dataset *dataset,
                        uint32_t step, int batch, int pad, struct oct__pick *picks);

/* Which permutation sample `b` of training step `step` comes from. */
static inline uint32_t oct__sampler_permutation(const struct oct__sampler *sampler, uint32_t step,
                                                int batch, int b) {
    return (uint32_t)(((uint64_t)step * (uint64_t)batch + (uint64_t)b) / sampler->n_samples);
}

/* The first `n_keep` entries of a fixed random order of 0 … n-1 (stream SUBSET), ascending: what
 * `--samples` keeps. */
OCT_MUST_CHECK oct_status oct__subset(uint64_t seed, uint32_t n, uint32_t n_keep, uint32_t *rows);

#endif
