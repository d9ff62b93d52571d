/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_quant.c - values to bytes and back on the CPU: quantizers, sums of products and of values.
 *
 * Four operations end in a quantizer and differ only in where the real values come from:
 *
 *     QUANTIZE           the floats themselves
 *     SUMS_QUANTIZE      a product's s32 sums, times scales, plus bias
 *     ADD_U8             two tensors of bytes
 *     RANGE_EVONORM_U8   bytes, normalized (cpu_norm_u8.c)
 *
 * A grid must be known before the first byte is written, so each takes two passes over its values
 * with a decision between them (grid.h):
 *
 *     shards: values -> extremes of each sample     shared scratch: [node][sample][2]
 *     nodes:  extremes -> range -> grid
 *     shards: values -> bytes
 *
 * A running range needs no first pass. The values are computed twice rather than kept: a block of
 * them stays in the first-level cache, where a batch of floats would go to memory and back, four
 * times the size of the bytes that they came from.
 */
#include "engine/cpu_quant.h"

#include <string.h>

#include "base/rng.h"
#include "engine/grid.h"
#include "kernels/kernels.h"

void oct__cpu_quant_scratch(enum oct__op op, const struct oct__lane_form *form,
                            const struct oct__args *args, struct oct__plan *plan) {
    const struct oct__tensor *x = &args->t[0];
    const size_t n = (size_t)x->n, block = oct__block_elements(x);
    size_t shared = 0, n_blocks = 1;
    switch (op) {
    case OCT_OP_QUANTIZE:
    case OCT_OP_SUMS_QUANTIZE:
    case OCT_OP_ADD_U8:
        shared = 2 * n;
        break;
    case OCT_OP_SUMS_DEQUANTIZE: /* the table alone */
        n_blocks = 0;
        break;
    case OCT_OP_GRAD_JOIN:
        n_blocks = 2;
        break;
    case OCT_OP_GRAD_QUANTIZE:
        n_blocks = 2;
        shared = n;
        break;
    default:
        return;
    }
    plan->shared_bytes = (size_t)form->n_nodes * shared * sizeof(float);
    plan->thread_bytes =
        (oct__quant_work_floats(x) + n_blocks * oct__quant_floats(block)) * sizeof(float);
}

static size_t shard_elements(const struct oct__shard *s, int index) {
    return (size_t)s->count * oct__sample_elements(&s->args->t[index]);
}

/* --- quantizers ------------------------------------------------------------------------------ */

/* A call of one of the four, with what its passes need. */
struct call {
    struct oct__args args; /* first, so that a shard's args lead here */
    const struct oct__quantizer *quantizer;
    struct oct__quant_attr attr;
};

static const struct call *call_of(const struct oct__shard *s) {
    return (const struct call *)s->args;
}

static oct_status extremes_shard(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *t = &s->args->t[0];
    float *extremes = oct__quant_extremes(s), *block = oct__quant_block(s);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        float range[2];
        struct oct__piece p;
        oct__range_begin(range);
        for (size_t at = 0; at < oct__sample_elements(t); at += p.count) {
            p = oct__piece_at(t, i, at);
            k->minmax_f32(p.count, call_of(s)->quantizer->values(s, p, block), range);
        }
        memcpy(extremes + 2 * i, range, sizeof range);
    }
    return OCT_OK;
}

static oct_status grid_node(const struct oct__shard *s) {
    const struct call *call = call_of(s);
    struct oct__grid *grid = oct__node_at(s, call->quantizer->grid);
    *grid = oct__grid_choose(call->attr.range, (size_t)s->args->t[0].n, oct__quant_extremes(s),
                             oct__node_at(s, call->quantizer->running));
    return OCT_OK;
}

static oct_status bytes_shard(const struct oct__shard *s) {
    const struct call *call = call_of(s);
    const struct oct__quantizer *z = call->quantizer;
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *t = &s->args->t[0];
    const struct oct__grid *grid = oct__node_at(s, z->grid);
    const int by_chance = call->attr.stochastic && call->attr.range != OCT_RANGE_RUNNING;
    const struct oct__stream stream =
        oct__lane_stream(s->lane, OCT_PURPOSE_ROUND_VALUE, s->node, (uint32_t)s->args->layer);
    uint8_t *q = oct__shard_at(s, z->q);
    if (!by_chance && z->nearest && z->nearest(s, grid, q)) {
        return OCT_OK;
    }
    for (size_t i = 0; i < (size_t)s->count; i++) {
        struct oct__piece p;
        for (size_t at = 0; at < oct__sample_elements(t); at += p.count, q += p.count) {
            p = oct__piece_at(t, i, at);
            const float *x = z->values(s, p, oct__quant_block(s));
            if (by_chance) {
                k->quantize_u8_random_f32(p.count, oct__piece_number(s, t, p), x, grid->inverse,
                                          grid->zero, &stream, q);
            } else {
                k->quantize_u8_f32(p.count, x, grid->inverse, grid->zero, q);
            }
        }
    }
    return OCT_OK;
}

oct_status oct__quantize(const struct oct__lane *lane, const struct oct__args *args,
                         const struct oct__quantizer *quantizer,
                         const struct oct__quant_attr *attr) {
    const struct call call = {*args, quantizer, *attr};
    if (attr->range != OCT_RANGE_RUNNING) {
        OCT_TRY(oct__each_shard(lane, &call.args, args->t[0].n, quantizer->extremes));
    }
    OCT_TRY(oct__each_node(lane, &call.args, grid_node));
    return oct__each_shard(lane, &call.args, args->t[0].n, bytes_shard);
}

/* --- floats ---------------------------------------------------------------------------------- */

static const float *float_values(const struct oct__shard *s, struct oct__piece p, float *block) {
    (void)block;
    return (const float *)oct__shard_at(s, 0) + oct__piece_offset(&s->args->t[0], p);
}

static const struct oct__quantizer floats = {
    .values = float_values, .extremes = extremes_shard, .running = 1, .q = 2, .grid = 3};

oct_status oct__cpu_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__quantize(lane, args, &floats, &args->attr.quant);
}

static oct_status dequantize_shard(const struct oct__shard *s) {
    const struct oct__grid *grid = oct__node_at(s, 1);
    oct__kernels()->dequantize_u8_f32(shard_elements(s, 0), oct__shard_at(s, 0), grid->scale,
                                      grid->zero, oct__shard_at(s, 2));
    return OCT_OK;
}

oct_status oct__cpu_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, dequantize_shard);
}

/* --- sums ------------------------------------------------------------------------------------ */

/* x = m * sum with one m for all channels, or x = m[c] * sum + bias[c]. */
static int has_one_factor(const struct oct__args *args) {
    return oct__tensor_count(&args->t[2]) == 1 && args->t[3].n == 0;
}

static float factor_of(const struct oct__shard *s) {
    const struct oct__grid *grid = oct__node_at(s, 1);
    return grid->scale * *(const float *)oct__node_at(s, 2);
}

static const float *sum_values(const struct oct__shard *s, struct oct__piece p, float *block) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *t = s->args->t;
    const size_t c = (size_t)t[0].c;
    const int32_t *sums = (const int32_t *)oct__shard_at(s, 0) + oct__piece_offset(t, p);
    if (has_one_factor(s->args)) {
        k->dequantize_s32_f32(p.count, sums, factor_of(s), block);
        return block;
    }
    const struct oct__grid *grid = oct__node_at(s, 1);
    const float *scale = oct__node_at(s, 2), *bias = t[3].n ? oct__node_at(s, 3) : NULL;
    const size_t step = oct__tensor_count(&t[2]) > 1;
    float *m = oct__quant_work(s), *shift = m + c;
    for (size_t o = 0; o < c; o++) {
        m[o] = grid->scale * scale[o * step];
        shift[o] = bias ? bias[o] : 0.0F;
    }
    k->column_dequantize_s32_f32(p.count / c, c, sums, m, shift, block);
    return block;
}

/* With one factor, which is not negative, the extremes are those of the sums times it. */
static oct_status sum_extremes_shard(const struct oct__shard *s) {
    if (!has_one_factor(s->args)) {
        return extremes_shard(s);
    }
    const size_t size = oct__sample_elements(&s->args->t[0]);
    const int32_t *sums = oct__shard_at(s, 0);
    const float m = factor_of(s);
    float *extremes = oct__quant_extremes(s);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        int32_t range[2] = {INT32_MAX, INT32_MIN};
        oct__kernels()->minmax_s32(size, sums + i * size, range);
        extremes[2 * i] = m * (float)range[0];
        extremes[2 * i + 1] = m * (float)range[1];
    }
    return OCT_OK;
}

static int sum_nearest(const struct oct__shard *s, const struct oct__grid *grid, uint8_t *q) {
    if (!has_one_factor(s->args)) {
        return 0;
    }
    oct__kernels()->quantize_u8_s32(shard_elements(s, 0), oct__shard_at(s, 0), factor_of(s),
                                    grid->inverse, grid->zero, q);
    return 1;
}

static const struct oct__quantizer sums_quantizer = {.values = sum_values,
                                                     .extremes = sum_extremes_shard,
                                                     .nearest = sum_nearest,
                                                     .running = 4,
                                                     .q = 5,
                                                     .grid = 6};

oct_status oct__cpu_sums_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__quantize(lane, args, &sums_quantizer, &args->attr.quant);
}

static oct_status sums_dequantize_shard(const struct oct__shard *s) {
    sum_values(s, (struct oct__piece){.count = shard_elements(s, 0)}, oct__shard_at(s, 4));
    return OCT_OK;
}

oct_status oct__cpu_sums_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, sums_dequantize_shard);
}

/* --- the sum of two values -------------------------------------------------------------------- */

static const float *add_values(const struct oct__shard *s, struct oct__piece p, float *block) {
    const size_t at = oct__piece_offset(&s->args->t[0], p);
    const uint8_t *a = oct__shard_at(s, 0), *b = oct__shard_at(s, 2);
    const struct oct__grid *a_grid = oct__node_at(s, 1), *b_grid = oct__node_at(s, 3);
    oct__kernels()->dequantize_u8_f32(p.count, a + at, a_grid->scale, a_grid->zero, block);
    oct__kernels()->dequantize_add_u8_f32(p.count, b + at, b_grid->scale, b_grid->zero, block);
    return block;
}

static oct_status add_dequantize_shard(const struct oct__shard *s) {
    add_values(s, (struct oct__piece){.count = shard_elements(s, 0)}, oct__shard_at(s, 4));
    return OCT_OK;
}

oct_status oct__cpu_add_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, add_dequantize_shard);
}

static oct_status add_extremes_shard(const struct oct__shard *s) {
    const size_t size = oct__sample_elements(&s->args->t[0]);
    const uint8_t *a = oct__shard_at(s, 0), *b = oct__shard_at(s, 2);
    const struct oct__grid *a_grid = oct__node_at(s, 1), *b_grid = oct__node_at(s, 3);
    float *extremes = oct__quant_extremes(s);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        float range[2];
        oct__range_begin(range);
        oct__kernels()->minmax_sum_u8(size, a + i * size, a_grid->scale, a_grid->zero, b + i * size,
                                      b_grid->scale, b_grid->zero, range);
        memcpy(extremes + 2 * i, range, sizeof range);
    }
    return OCT_OK;
}

static int add_nearest(const struct oct__shard *s, const struct oct__grid *grid, uint8_t *q) {
    const struct oct__grid *a_grid = oct__node_at(s, 1), *b_grid = oct__node_at(s, 3);
    oct__kernels()->quantize_sum_u8(shard_elements(s, 0), oct__shard_at(s, 0), a_grid->scale,
                                    a_grid->zero, oct__shard_at(s, 2), b_grid->scale, b_grid->zero,
                                    grid->inverse, grid->zero, q);
    return 1;
}

static const struct oct__quantizer add_quantizer = {.values = add_values,
                                                    .extremes = add_extremes_shard,
                                                    .nearest = add_nearest,
                                                    .running = 4,
                                                    .q = 5,
                                                    .grid = 6};

oct_status oct__cpu_add_u8(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__quantize(lane, args, &add_quantizer, &args->attr.quant);
}

/* --- parameters ------------------------------------------------------------------------------ */

static oct_status weight_node(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const size_t n_scales = oct__tensor_count(&s->args->t[2]);
    const size_t count = oct__tensor_count(&s->args->t[0]) / n_scales;
    const float *w = oct__node_at(s, 0);
    int8_t *q = oct__node_at(s, 1);
    float *scale = oct__node_at(s, 2);
    for (size_t i = 0; i < n_scales; i++, w += count, q += count) {
        float peak = 0.0F;
        k->absmax_f32(count, w, &peak);
        scale[i] = oct__symmetric_scale(peak);
        k->quantize_s8_f32(count, w, oct__symmetric_inverse(scale[i]), q);
    }
    return OCT_OK;
}

oct_status oct__cpu_weight_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, weight_node);
}

static oct_status vector_node(const struct oct__shard *s) {
    oct__vector_quantize(oct__tensor_count(&s->args->t[0]), oct__node_at(s, 0), oct__node_at(s, 1));
    return OCT_OK;
}

oct_status oct__cpu_vector_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, vector_node);
}

/* --- looking at a quantizer ------------------------------------------------------------------- */

/* How many of n bytes are `value`. Called a few times an epoch, so plain C will do. */
static size_t count_bytes(size_t n, const uint8_t *bytes, uint8_t value) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += bytes[i] == value;
    }
    return count;
}

static oct_status count_node(const struct oct__shard *s) {
    const struct oct__tensor *t = s->args->t;
    const size_t n = oct__tensor_count(&t[0]), n_scales = oct__tensor_count(&t[1]);
    const uint8_t *bytes = oct__node_at(s, 0);
    const float *scale = oct__node_at(s, 1);
    size_t clipped, zeros;
    double mean = 0.0;
    if (t[0].dtype == OCT_DTYPE_U8) {
        const struct oct__grid *grid = oct__node_at(s, 1);
        clipped = count_bytes(n, bytes, 255) + (grid->zero > 0.0F ? count_bytes(n, bytes, 0) : 0);
        zeros = count_bytes(n, bytes, (uint8_t)grid->zero);
        mean = (double)grid->scale;
    } else {
        const int zero = t[0].dtype == OCT_DTYPE_E8 ? OCT_EXCESS : 0;
        clipped = count_bytes(n, bytes, (uint8_t)(zero + 127)) +
                  count_bytes(n, bytes, (uint8_t)(zero - 127));
        zeros = count_bytes(n, bytes, (uint8_t)zero);
        for (size_t i = 0; i < n_scales; i++) {
            mean += (double)scale[i];
        }
        mean /= (double)n_scales;
    }
    const float counts[4] = {(float)((double)clipped / (double)n),
                             (float)((double)zeros / (double)n), (float)mean, 0.0F};
    memcpy(oct__node_at(s, 2), counts, sizeof counts);
    return OCT_OK;
}

oct_status oct__cpu_quant_count(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_node(lane, args, count_node);
}
