/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_quant_grad.c - gradients of an int8 step on the CPU: sums of parts, s8.
 *
 * A gradient arrives in one or two parts, each as floats (f32, bf16) or as integers with a scale
 * for the tensor or one for each sample (s8, or s32 sums of a product). GRAD_JOIN writes their sum
 * as floats, GRAD_QUANTIZE as s8 or e8 rounded by chance. As with values, parts become floats a
 * block at a time, and are made twice rather than kept: once for the peak, once for the bytes. What
 * a step has most of, kernels make in registers, with the same bits.
 */
#include <string.h>

#include "base/rng.h"
#include "engine/cpu_quant.h"
#include "engine/grid.h"
#include "kernels/kernels.h"

/* --- parts ----------------------------------------------------------------------------------- */

/* Operands of GRAD_JOIN and GRAD_QUANTIZE; the scale of w is GRAD_QUANTIZE's alone. */
enum { PART_A, SCALE_A, PART_B, SCALE_B, BYTES, GRID, SCALE_W };

/* The piece's place in part `operand`. */
static const void *part_at(const struct oct__shard *s, int operand, struct oct__piece p) {
    const struct oct__tensor *t = &s->args->t[operand];
    return (const char *)oct__shard_at(s, operand) +
           oct__piece_offset(t, p) * oct__dtype_bytes(t->dtype);
}

/* y = the part; y may be where an f32 part lies. */
static void load_part(const struct oct__shard *s, int operand, struct oct__piece p, float *y) {
    const struct oct__kernels *k = oct__kernels();
    const void *x = part_at(s, operand, p);
    switch (s->args->t[operand].dtype) {
    case OCT_DTYPE_S8:
        k->dequantize_s8_f32(p.count, x, oct__quant_scale(s, operand + 1, p.sample), y);
        break;
    case OCT_DTYPE_S32:
        k->dequantize_s32_f32(p.count, x, oct__quant_scale(s, operand + 1, p.sample), y);
        break;
    case OCT_DTYPE_BF16:
        k->widen_bf16_f32(p.count, x, y);
        break;
    default:
        if (x != y) {
            memcpy(y, x, p.count * sizeof *y);
        }
        break;
    }
}

/* y = y + the part */
static void add_part(const struct oct__shard *s, int operand, struct oct__piece p, float *spare,
                     float *y) {
    const struct oct__kernels *k = oct__kernels();
    const void *x = part_at(s, operand, p);
    switch (s->args->t[operand].dtype) {
    case OCT_DTYPE_S8:
        k->dequantize_add_s8_f32(p.count, x, oct__quant_scale(s, operand + 1, p.sample), y);
        break;
    case OCT_DTYPE_S32:
        k->dequantize_add_s32_f32(p.count, x, oct__quant_scale(s, operand + 1, p.sample), y);
        break;
    case OCT_DTYPE_BF16:
        k->widen_bf16_f32(p.count, x, spare);
        k->add_f32(p.count, y, spare, y);
        break;
    default:
        k->add_f32(p.count, y, x, y);
        break;
    }
}

/* The sum of the parts, 0 where the value was clipped, in `block`; or where it already is. */
static const float *join(const struct oct__shard *s, struct oct__piece p, float *spare,
                         float *block) {
    const struct oct__tensor *t = s->args->t;
    const int has_b = t[PART_B].n != 0, has_mask = t[BYTES].n != 0;
    if (t[PART_A].dtype == OCT_DTYPE_F32 && !has_b && !has_mask) {
        return part_at(s, PART_A, p);
    }
    /* The sum is the same in either order, and adding floats to a block saves copying them into it.
     * */
    const int a_last = has_b && t[PART_A].dtype == OCT_DTYPE_F32;
    load_part(s, a_last ? PART_B : PART_A, p, block);
    if (has_b) {
        add_part(s, a_last ? PART_A : PART_B, p, spare, block);
    }
    if (has_mask) {
        const struct oct__grid *grid = oct__node_at(s, GRID);
        oct__kernels()->clip_mask_f32(p.count, part_at(s, BYTES, p), grid->zero, block);
    }
    return block;
}

/* --- floats ---------------------------------------------------------------------------------- */

static oct_status join_shard(const struct oct__shard *s) {
    const struct oct__tensor *t = &s->args->t[0];
    const int is_bf16 = s->args->t[6].dtype == OCT_DTYPE_BF16;
    float *block = oct__quant_block(s), *spare = block + oct__quant_floats(oct__block_elements(t));
    float *floats = oct__shard_at(s, 6);
    uint16_t *halves = oct__shard_at(s, 6);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        struct oct__piece p;
        for (size_t at = 0; at < oct__sample_elements(t); at += p.count) {
            p = oct__piece_at(t, i, at);
            const size_t to = oct__piece_offset(t, p);
            const float *sum = join(s, p, spare, is_bf16 ? block : floats + to);
            if (is_bf16) {
                oct__kernels()->round_bf16_f32(p.count, sum, halves + to);
            } else if (sum != floats + to) {
                memcpy(floats + to, sum, p.count * sizeof *sum);
            }
        }
    }
    return OCT_OK;
}

oct_status oct__cpu_grad_join(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, join_shard);
}

/* --- s8 -------------------------------------------------------------------------------------- */

/* Operands that GRAD_QUANTIZE writes. */
enum { Q = 7, SCALE_Q };

static const float *joined(const struct oct__shard *s, struct oct__piece p) {
    float *block = oct__quant_block(s);
    return join(s, p, block + oct__quant_floats(oct__block_elements(&s->args->t[0])), block);
}

/* … times the scale of the weights that it will be multiplied with, itself times `factor`. */
static const float *folded(const struct oct__shard *s, struct oct__piece p, float factor) {
    const struct oct__tensor *t = s->args->t;
    const size_t c = (size_t)t[0].c;
    const float *x = joined(s, p);
    if (t[SCALE_W].n == 0) {
        return x;
    }
    const float *scale = oct__node_at(s, SCALE_W);
    const size_t step = oct__tensor_count(&t[SCALE_W]) > 1;
    float *columns = oct__quant_work(s);
    for (size_t i = 0; i < c; i++) {
        columns[i] = scale[i * step] * factor;
    }
    oct__kernels()->column_scale_f32(p.count / c, c, x, columns, oct__quant_block(s));
    return oct__quant_block(s);
}

static float *peaks_of(const struct oct__shard *s) {
    return (float *)s->lane->shared_scratch + (size_t)s->node * (size_t)s->args->t[0].n;
}

/* What kernels make in registers, so that nothing of it is written: one part in bf16 or s32, or one
 * in s32 and one in s8, not masked, with at most one scale of w; of sums without, and to s8. */
enum form { ANY, BF16, S32, S32_S8 };

static enum form form_of(const struct oct__tensor *t) {
    const enum oct__dtype a = t[PART_A].dtype, b = t[PART_B].dtype;
    const int has_w = t[SCALE_W].n != 0, has_b = t[PART_B].n != 0;
    if (t[BYTES].n != 0 || (has_w && oct__tensor_count(&t[SCALE_W]) > 1)) {
        return ANY;
    }
    if (a == OCT_DTYPE_BF16 && !has_b) {
        return BF16;
    }
    if (has_w || t[Q].dtype != OCT_DTYPE_S8) {
        return ANY;
    }
    if (a == OCT_DTYPE_S32 && !has_b) {
        return S32;
    }
    return has_b && (a == OCT_DTYPE_S32 || b == OCT_DTYPE_S32) &&
                   (a == OCT_DTYPE_S8 || b == OCT_DTYPE_S8)
               ? S32_S8
               : ANY;
}

/* Of S32_S8, the sum being the same in either order. */
static int part_of(const struct oct__tensor *t, enum oct__dtype dtype) {
    return t[PART_A].dtype == dtype ? PART_A : PART_B;
}

/* Of all channels. */
static float scale_of_w(const struct oct__shard *s) {
    return s->args->t[SCALE_W].n != 0 ? *(const float *)oct__node_at(s, SCALE_W) : 1.0F;
}

static struct oct__piece whole_sample(const struct oct__tensor *t, size_t sample) {
    return (struct oct__piece){.sample = sample, .count = oct__sample_elements(t)};
}

/* The largest of products with one scale is the product of the largest: that is rounded as they
 * are, and saves their pass. */
static float peak_of(const struct oct__shard *s, size_t sample) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *t = s->args->t;
    const int has_one_scale = t[SCALE_W].n != 0 && oct__tensor_count(&t[SCALE_W]) == 1;
    struct oct__piece p = whole_sample(t, sample);
    const int sums = part_of(t, OCT_DTYPE_S32), bytes = part_of(t, OCT_DTYPE_S8);
    uint32_t largest = 0;
    float peak = 0.0F;
    switch (form_of(t)) {
    case BF16:
        k->absmax_bf16(p.count, part_at(s, PART_A, p), &peak);
        return peak * scale_of_w(s);
    case S32:
        k->absmax_s32(p.count, part_at(s, PART_A, p), &largest);
        return oct__quant_scale(s, SCALE_A, sample) * (float)largest;
    case S32_S8:
        k->absmax_s32_s8(p.count, part_at(s, sums, p), oct__quant_scale(s, sums + 1, sample),
                         part_at(s, bytes, p), oct__quant_scale(s, bytes + 1, sample), &peak);
        return peak;
    case ANY:
        break;
    }
    for (size_t at = 0; at < oct__sample_elements(t); at += p.count) {
        p = oct__piece_at(t, sample, at);
        k->absmax_f32(p.count, has_one_scale ? joined(s, p) : folded(s, p, 1.0F), &peak);
    }
    return has_one_scale ? peak * scale_of_w(s) : peak;
}

/* s8 in excess 128, in place: the highest bit is turned. */
static void to_excess(size_t n, void *bytes) {
    uint8_t *q = bytes;
    for (size_t i = 0; i < n; i++) {
        q[i] ^= OCT_EXCESS;
    }
}

static void write_bytes(const struct oct__shard *s, size_t sample) {
    const struct oct__kernels *k = oct__kernels();
    const struct oct__tensor *t = &s->args->t[0];
    const float inverse = oct__symmetric_inverse(oct__quant_scale(s, SCALE_Q, sample));
    const struct oct__stream stream =
        oct__lane_stream(s->lane, OCT_PURPOSE_ROUND_GRADIENT, s->node, (uint32_t)s->args->layer);
    struct oct__piece p = whole_sample(t, sample);
    const int sums = part_of(t, OCT_DTYPE_S32), bytes = part_of(t, OCT_DTYPE_S8);
    const uint64_t first = oct__piece_number(s, t, p);
    const int is_excess = t[Q].dtype == OCT_DTYPE_E8;
    int8_t *q = (int8_t *)oct__shard_at(s, Q) + oct__piece_offset(t, p);
    switch (form_of(t)) {
    case BF16:
        k->quantize_s8_random_bf16(p.count, first, part_at(s, PART_A, p), scale_of_w(s) * inverse,
                                   is_excess ? OCT_EXCESS : 0, &stream, q);
        return;
    case S32:
        k->quantize_s8_random_s32(p.count, first, part_at(s, PART_A, p),
                                  oct__quant_scale(s, SCALE_A, sample), inverse, &stream, q);
        return;
    case S32_S8:
        k->quantize_s8_random_s32_s8(p.count, first, part_at(s, sums, p),
                                     oct__quant_scale(s, sums + 1, sample), part_at(s, bytes, p),
                                     oct__quant_scale(s, bytes + 1, sample), inverse, &stream, q);
        return;
    case ANY:
        break;
    }
    for (size_t at = 0; at < oct__sample_elements(t); at += p.count) {
        p = oct__piece_at(t, sample, at);
        k->quantize_s8_random_f32(p.count, first + at, folded(s, p, inverse),
                                  t[SCALE_W].n != 0 ? 1.0F : inverse, &stream, q + at);
        if (is_excess) {
            to_excess(p.count, q + at);
        }
    }
}

static oct_status peaks_shard(const struct oct__shard *s) {
    for (size_t i = 0; i < (size_t)s->count; i++) {
        peaks_of(s)[(size_t)s->first + i] = peak_of(s, i);
    }
    return OCT_OK;
}

static oct_status scale_node(const struct oct__shard *s) {
    float peak = 0.0F;
    oct__kernels()->absmax_f32((size_t)s->args->t[0].n, peaks_of(s), &peak);
    *(float *)oct__node_at(s, SCALE_Q) = oct__symmetric_scale(peak);
    return OCT_OK;
}

static oct_status bytes_shard(const struct oct__shard *s) {
    for (size_t i = 0; i < (size_t)s->count; i++) {
        write_bytes(s, i);
    }
    return OCT_OK;
}

/* A sample with a scale of its own needs no other: both passes while it is in the cache. */
static oct_status samples_shard(const struct oct__shard *s) {
    float *scale = oct__shard_at(s, SCALE_Q);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        scale[i] = oct__symmetric_scale(peak_of(s, i));
        write_bytes(s, i);
    }
    return OCT_OK;
}

oct_status oct__cpu_grad_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    const int batch = args->t[0].n;
    if (oct__tensor_count(&args->t[SCALE_Q]) > 1) {
        return oct__each_shard(lane, args, batch, samples_shard);
    }
    OCT_TRY(oct__each_shard(lane, args, batch, peaks_shard));
    OCT_TRY(oct__each_node(lane, args, scale_node));
    return oct__each_shard(lane, args, batch, bytes_shard);
}

static oct_status mask_shard(const struct oct__shard *s) {
    const size_t n = (size_t)s->count * oct__sample_elements(&s->args->t[0]);
    const struct oct__grid *grid = oct__node_at(s, 2);
    const int8_t *x = oct__shard_at(s, 0);
    int8_t *y = oct__shard_at(s, 3);
    if (y != x) {
        memcpy(y, x, n);
    }
    oct__kernels()->clip_mask_s8(n, oct__shard_at(s, 1), grid->zero, y);
    return OCT_OK;
}

oct_status oct__cpu_grad_mask(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, mask_shard);
}
