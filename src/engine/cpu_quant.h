/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_quant.h - what cpu_quant.c and cpu_quant_grad.c share: pieces of a sample, and their scratch.
 *
 * Both make real values from integers, use them, and forget them: in blocks that stay in the
 * first-level cache, or, for the norms, which need all of it, a sample at a time.
 *
 *     thread scratch: [tables and kernels' working space][block][second block, for gradients]
 */
#ifndef OCT_ENGINE_CPU_QUANT_H
#define OCT_ENGINE_CPU_QUANT_H

#include "engine/cpu.h"
#include "kernels/chunks.h"

/* Elements of a block, about: it holds whole positions (c elements), at least one. */
#define OCT_QUANT_BLOCK 4096

/* `count` elements from `first` on, whole positions, of the shard's sample `sample`. */
struct oct__piece {
    size_t sample, first, count;
};

static inline size_t oct__sample_elements(const struct oct__tensor *t) {
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

static inline size_t oct__block_elements(const struct oct__tensor *t) {
    const size_t c = (size_t)t->c;
    return c < OCT_QUANT_BLOCK ? OCT_QUANT_BLOCK / c * c : c;
}

/* The piece of a sample that begins at `first`, at most a block. */
static inline struct oct__piece oct__piece_at(const struct oct__tensor *t, size_t sample,
                                              size_t first) {
    const size_t left = oct__sample_elements(t) - first, block = oct__block_elements(t);
    return (struct oct__piece){sample, first, left < block ? left : block};
}

/* Its first element, counted from the shard's. */
static inline size_t oct__piece_offset(const struct oct__tensor *t, struct oct__piece p) {
    return p.sample * oct__sample_elements(t) + p.first;
}

/* Its first element, counted from the first of the node's batch: the name of its random bits. */
static inline uint64_t oct__piece_number(const struct oct__shard *s, const struct oct__tensor *t,
                                         struct oct__piece p) {
    return (uint64_t)s->first * oct__sample_elements(t) + oct__piece_offset(t, p);
}

/* Floats up to the next cache line. */
static inline size_t oct__quant_floats(size_t count) {
    return (count + 15) / 16 * 16;
}

static inline size_t oct__quant_work_floats(const struct oct__tensor *t) {
    return oct__quant_floats(OCT_RANGE_WORK * (size_t)t->c);
}

static inline float *oct__quant_work(const struct oct__shard *s) {
    return oct__thread_scratch(s);
}

/* Room for a block; a second lies oct__quant_floats(elements of a block) further. */
static inline float *oct__quant_block(const struct oct__shard *s) {
    return oct__quant_work(s) + oct__quant_work_floats(&s->args->t[0]);
}

#endif
