/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_quant.h - what the operations on bytes share (cpu_quant.c, cpu_quant_grad.c, cpu_norm_u8.c):
 * pieces of a sample, their scratch, and quantizers.
 *
 * All make real values from integers, use them, and forget them: in registers where a kernel does
 * both, else in blocks that stay in the first-level cache.
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

/* The scale of the shard's sample `sample`: its own, or the tensor's. */
static inline float oct__quant_scale(const struct oct__shard *s, int operand, size_t sample) {
    const float *scale = oct__node_at(s, operand);
    return scale[oct__tensor_count(&s->args->t[operand]) > 1 ? (size_t)s->first + sample : 0];
}

/* --- quantizers ------------------------------------------------------------------------------ */

/* Finds the real values of a piece. They are where it says: in `block`, or where they were. */
typedef const float *oct__values_fn(const struct oct__shard *s, struct oct__piece p, float *block);

struct oct__quantizer {
    oct__values_fn *values;
    oct__shard_fn *extremes; /* the first pass */
    /* The bytes of a shard, rounded to the nearest, where a kernel has no need of the values in
     * memory; 0: there is none for this call. May be NULL. */
    int (*nearest)(const struct oct__shard *s, const struct oct__grid *grid, uint8_t *q);
    int running, q, grid; /* operands */
};

/* Extremes of the shard's samples, [sample][2]: what a first pass leaves in shared scratch. */
static inline float *oct__quant_extremes(const struct oct__shard *s) {
    size_t sample = (size_t)s->node * (size_t)s->args->t[0].n + (size_t)s->first;
    return (float *)s->lane->shared_scratch + 2 * sample;
}

/* Both passes, and the grid between them. */
OCT_MUST_CHECK oct_status oct__quantize(const struct oct__lane *lane, const struct oct__args *args,
                                        const struct oct__quantizer *quantizer,
                                        const struct oct__quant_attr *attr);

#endif
