/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - buffers and call of every kernel, in the order of kernels.def.
 *
 * The shapes timed are those of ResNet-20: one sample of the first stage (32 × 32 × 16) and of the
 * last (8 × 8 × 64), which live in L2; flat arrays and columns also larger than that,
 * where the best a kernel can do is to keep up with memory.
 */
#include "kernels/cases.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "kernels/chunks.h"
#include "kernels/outer.h"

/* A buffer; what a macro below does not name is 0. */
#define BUFFER(name_, role_, per_, type_, ...)                                                     \
    {                                                                                              \
        .name = name_, .role = OCT_BUFFER_##role_, .per = OCT_PER_##per_,                          \
        .type = OCT_TYPE_##type_, __VA_ARGS__                                                      \
    }

#define IN_OF(type, name, per) BUFFER(name, IN, per, type, .times = 0)
#define OUT_OF(type, name, per) BUFFER(name, OUT, per, type, .times = 0)
#define OUT_OF_OR(type, name, per, same) BUFFER(name, OUT, per, type, .in_place = same)
#define BOTH_OF(type, name, per) BUFFER(name, BOTH, per, type, .times = 0)

#define IN(name, per) IN_OF(F32, name, per)
#define IN_POSITIVE(name, per) BUFFER(name, IN, per, F32, .positive = 1)
#define OUT(name, per) OUT_OF(F32, name, per)
#define OUT_OR(name, per, same) OUT_OF_OR(F32, name, per, same)
#define BOTH(name, per) BOTH_OF(F32, name, per)
#define WORK(times_) BUFFER("work", WORK, CHANNEL, F32, .times = times_)

#define CALL(kernel)                                                                               \
    static void call_##kernel(const struct oct__kernels *k, const struct oct__case_shape *s,       \
                              void *const *p)

static const struct oct__case_shape bench_flat[] = {
    {.rows = 16384, .c = 1}, {.rows = 4 << 20, .c = 1}, {0}};

static const struct oct__case_shape bench_sgd[] = {
    {.rows = 16384, .c = 1, .lr = 0.1f, .beta = 0.9f, .decay = 1e-4f},
    {.rows = 4 << 20, .c = 1, .lr = 0.1f, .beta = 0.9f, .decay = 1e-4f},
    {0}};

static const struct oct__case_shape bench_parts[] = {
    {.rows = 16384, .c = 1, .parts = 4, .stride = 16384},
    {.rows = 272474, .c = 1, .parts = 8, .stride = 272480},
    {0}};

static const struct oct__case_shape bench_image[] = {
    {.rows = 32, .w = 32, .c = 3, .dy = -2, .dx = 3, .flip = 0},
    {.rows = 32, .w = 32, .c = 3, .dy = -2, .dx = 3, .flip = 1},
    {.rows = 32, .w = 32, .c = 1, .dy = -2, .dx = 3, .flip = 1},
    {0}};

static const struct oct__case_shape bench_columns[] = {
    {.rows = 1024, .c = 16}, {.rows = 64, .c = 64}, {.rows = 32768, .c = 64}, {0}};

static const struct oct__case_shape bench_groups[] = {
    {.rows = 1024, .c = 16, .groups = 8, .eps = 1e-5f},
    {.rows = 256, .c = 32, .groups = 8, .eps = 1e-5f},
    {.rows = 64, .c = 64, .groups = 8, .eps = 1e-5f},
    {0}};

static const struct oct__case_buffer buffers_add_f32[] = {IN("a", ELEMENT), IN("b", ELEMENT),
                                                          OUT_OR("y", ELEMENT, 1U << 0 | 1U << 1)};

CALL(add_f32) {
    k->add_f32(s->rows, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_relu_f32[] = {IN("x", ELEMENT),
                                                           OUT_OR("y", ELEMENT, 1U << 0)};

CALL(relu_f32) {
    k->relu_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_relu_grad_f32[] = {IN("y", ELEMENT), IN("dy", ELEMENT),
                                                                OUT_OR("dx", ELEMENT, 1U << 1)};

CALL(relu_grad_f32) {
    k->relu_grad_f32(s->rows, p[0], p[1], p[2]);
}

/* The channels of a pixel. */
static const struct oct__case_shape bench_pool[] = {
    {.rows = 64, .c = 1}, {.rows = 512, .c = 1}, {0}};

static const struct oct__case_buffer buffers_max_pool_f32[] = {
    IN("x", ELEMENT), BUFFER("y", BOTH, ELEMENT, F32, .exact = 1), BOTH_OF(U8, "which", ELEMENT)};

CALL(max_pool_f32) {
    k->max_pool_f32(s->rows, 7, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_max_pool_grad_f32[] = {
    IN_OF(U8, "which", ELEMENT), IN("dy", ELEMENT), BOTH("dx", ELEMENT)};

/* The first element's place, so that there is one. */
CALL(max_pool_grad_f32) {
    const uint8_t *which = p[0];
    k->max_pool_grad_f32(s->rows, s->rows > 0 ? which[0] : 0, which, p[1], p[2]);
}

static const struct oct__case_buffer buffers_fold_f32[] = {IN("parts", PART),
                                                           OUT_OR("out", ELEMENT, 1U << 0)};

CALL(fold_f32) {
    k->fold_f32(s->rows, s->parts, s->stride, p[0], p[1]);
}

static const struct oct__case_buffer buffers_sgd_f32[] = {BOTH("x", ELEMENT), BOTH("m", ELEMENT),
                                                          IN("g", ELEMENT)};

CALL(sgd_f32) {
    k->sgd_f32(s->rows, p[0], p[1], p[2], s->lr, s->beta, s->decay);
}

static const struct oct__case_buffer buffers_sgd_global_f32[] = {
    BOTH("x", ELEMENT), BOTH("m", ELEMENT), IN("g", ELEMENT)};

CALL(sgd_global_f32) {
    k->sgd_global_f32(s->rows, p[0], p[1], p[2], s->lr, s->beta, s->decay, s->own);
}

static const struct oct__case_buffer buffers_nonfinite_f32[] = {IN("x", ELEMENT),
                                                                OUT_OF(SIZE, "count", TENSOR)};

CALL(nonfinite_f32) {
    k->nonfinite_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_crop_u8_f32[] = {IN_OF(U8, "src", ELEMENT),
                                                              IN("lut", BYTE), OUT("dst", ELEMENT)};

CALL(crop_u8_f32) {
    k->crop_u8_f32((int)s->rows, s->w, (int)s->c, p[0], s->dy, s->dx, s->flip, p[1], p[2]);
}

static const struct oct__case_buffer buffers_column_sum_f32[] = {IN("x", ELEMENT),
                                                                 BOTH("sum", CHANNEL)};

CALL(column_sum_f32) {
    k->column_sum_f32(s->rows, s->c, p[0], p[1]);
}

static const struct oct__case_buffer buffers_column_square_f32[] = {
    IN("x", ELEMENT), IN("mean", CHANNEL), BOTH("sum", CHANNEL)};

CALL(column_square_f32) {
    k->column_square_f32(s->rows, s->c, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_column_affine_f32[] = {
    IN("x", ELEMENT), IN("scale", CHANNEL), IN("shift", CHANNEL), OUT_OR("y", ELEMENT, 1U << 0)};

CALL(column_affine_f32) {
    k->column_affine_f32(s->rows, s->c, p[0], p[1], p[2], p[3]);
}

static const struct oct__case_buffer buffers_column_norm_sums_f32[] = {
    IN("x", ELEMENT),  IN("mean", CHANNEL),     IN_POSITIVE("rstd", CHANNEL),
    IN("dy", ELEMENT), BOTH("dscale", CHANNEL), BOTH("dshift", CHANNEL)};

CALL(column_norm_sums_f32) {
    k->column_norm_sums_f32(s->rows, s->c, p[0], p[1], p[2], p[3], p[4], p[5]);
}

static const struct oct__case_buffer buffers_column_norm_grad_f32[] = {
    IN("x", ELEMENT),
    IN("mean", CHANNEL),
    IN_POSITIVE("rstd", CHANNEL),
    IN("k", CHANNEL),
    IN("a", CHANNEL),
    IN("b", CHANNEL),
    IN("dy", ELEMENT),
    OUT_OR("dx", ELEMENT, 1U << 6)};

CALL(column_norm_grad_f32) {
    k->column_norm_grad_f32(s->rows, s->c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

static const struct oct__case_buffer buffers_group_norm_f32[] = {IN("x", ELEMENT),
                                                                 IN("gamma", CHANNEL),
                                                                 IN("beta", CHANNEL),
                                                                 OUT("mean", GROUP),
                                                                 OUT("rstd", GROUP),
                                                                 OUT("y", ELEMENT),
                                                                 WORK(2)};

CALL(group_norm_f32) {
    k->group_norm_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], s->eps, p[3], p[4], p[5], p[6]);
}

static const struct oct__case_buffer buffers_group_norm_grad_f32[] = {
    IN("x", ELEMENT),
    IN("gamma", CHANNEL),
    IN("mean", GROUP),
    IN_POSITIVE("rstd", GROUP),
    IN("dy", ELEMENT),
    BOTH("dgamma", CHANNEL),
    BOTH("dbeta", CHANNEL),
    OUT_OR("dx", ELEMENT, 1U << 4),
    WORK(4)};

CALL(group_norm_grad_f32) {
    k->group_norm_grad_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7],
                           p[8]);
}

static const struct oct__case_buffer buffers_evonorm_f32[] = {
    IN("x", ELEMENT),   IN("gamma", CHANNEL), IN("beta", CHANNEL), IN("v", CHANNEL),
    OUT("mean", GROUP), OUT("rstd", GROUP),   OUT("y", ELEMENT),   WORK(2)};

CALL(evonorm_f32) {
    k->evonorm_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], p[3], s->eps, p[4], p[5], p[6],
                   p[7]);
}

static const struct oct__case_buffer buffers_evonorm_grad_f32[] = {IN("x", ELEMENT),
                                                                   IN("gamma", CHANNEL),
                                                                   IN("v", CHANNEL),
                                                                   IN("mean", GROUP),
                                                                   IN_POSITIVE("rstd", GROUP),
                                                                   IN("dy", ELEMENT),
                                                                   BOTH("dgamma", CHANNEL),
                                                                   BOTH("dbeta", CHANNEL),
                                                                   BOTH("dv", CHANNEL),
                                                                   OUT_OR("dx", ELEMENT, 1U << 5),
                                                                   WORK(8)};

CALL(evonorm_grad_f32) {
    k->evonorm_grad_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7],
                        p[8], p[9], p[10]);
}

/* Rows of 3 x 3 kernels of ResNet-20's three stages, and of its first layer. */
static const struct oct__case_shape bench_taps[] = {
    {.rows = 32, .c = 16, .pairs = 24, .step = 16, .out_stride = 16},
    {.rows = 16, .c = 32, .pairs = 48, .step = 32, .out_stride = 32},
    {.rows = 8, .c = 64, .pairs = 96, .step = 64, .out_stride = 64},
    {.rows = 32, .c = 16, .pairs = 5, .step = 3, .out_stride = 16},
    {0}};

static const struct oct__case_buffer buffers_center_u8_s16[] = {IN_OF(U8, "q", ELEMENT),
                                                                OUT_OF(S16, "y", ELEMENT)};

CALL(center_u8_s16) {
    k->center_u8_s16(s->rows, p[0], (int)s->zero, p[1]);
}

static const struct oct__case_buffer buffers_taps_s16_s32[] = {
    IN_OF(S16, "x", RUN), IN_OF(S16, "w", TAP), BOTH_OF(S32, "sums", SUM)};

CALL(taps_s16_s32) {
    k->taps_s16_s32(s->rows, s->step, s->pairs, s->c, s->out_stride, p[0], p[1], p[2]);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static const struct oct__case_shape bench_grid[] = {{.rows = 16384,
                                                     .c = 1,
                                                     .scale = 1.0f / 63.0f,
                                                     .inverse = 63.0f,
                                                     .zero = 128.0f,
                                                     .stream = {{1, 2}, {3, 4, 5}}},
                                                    {.rows = 4 << 20,
                                                     .c = 1,
                                                     .scale = 1.0f / 63.0f,
                                                     .inverse = 63.0f,
                                                     .zero = 128.0f,
                                                     .stream = {{1, 2}, {3, 4, 5}}},
                                                    {0}};

static const struct oct__case_buffer buffers_minmax_f32[] = {
    IN("x", ELEMENT), BUFFER("range", BOTH, TENSOR, F32, .times = 2, .exact = 1)};

CALL(minmax_f32) {
    k->minmax_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_minmax_s32[] = {
    IN_OF(S32, "x", ELEMENT), BUFFER("range", BOTH, TENSOR, S32, .times = 2)};

CALL(minmax_s32) {
    k->minmax_s32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_minmax_sum_u8[] = {
    IN_OF(U8, "a", ELEMENT), IN_OF(U8, "b", ELEMENT),
    BUFFER("range", BOTH, TENSOR, F32, .times = 2)};

CALL(minmax_sum_u8) {
    k->minmax_sum_u8(s->rows, p[0], s->scale, s->zero, p[1], 0.7f * s->scale, 255.0f - s->zero,
                     p[2]);
}

static const struct oct__case_buffer buffers_absmax_f32[] = {
    IN("x", ELEMENT), BUFFER("peak", BOTH, TENSOR, F32, .exact = 1)};

CALL(absmax_f32) {
    k->absmax_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_absmax_bf16[] = {
    IN_OF(BF16, "x", ELEMENT), BUFFER("peak", BOTH, TENSOR, F32, .exact = 1)};

CALL(absmax_bf16) {
    k->absmax_bf16(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_absmax_s32[] = {IN_OF(S32, "x", ELEMENT),
                                                             BOTH_OF(S32, "peak", TENSOR)};

CALL(absmax_s32) {
    k->absmax_s32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_absmax_s32_s8[] = {
    IN_OF(S32, "a", ELEMENT), IN_OF(S8, "b", ELEMENT), BOTH("peak", TENSOR)};

/* Two scales, from the two that a grid has. */
CALL(absmax_s32_s8) {
    k->absmax_s32_s8(s->rows, p[0], s->scale, p[1], s->inverse, p[2]);
}

static const struct oct__case_buffer buffers_quantize_u8_f32[] = {IN("x", ELEMENT),
                                                                  OUT_OF(U8, "q", ELEMENT)};

CALL(quantize_u8_f32) {
    k->quantize_u8_f32(s->rows, p[0], s->inverse, s->zero, p[1]);
}

static const struct oct__case_buffer buffers_quantize_u8_s32[] = {IN_OF(S32, "x", ELEMENT),
                                                                  OUT_OF(U8, "q", ELEMENT)};

/* Sums up to 2^20 are to be in range, here and below. */
CALL(quantize_u8_s32) {
    k->quantize_u8_s32(s->rows, p[0], s->scale, s->inverse * 0x1p-14f, s->zero, p[1]);
}

static const struct oct__case_buffer buffers_quantize_sum_u8[] = {
    IN_OF(U8, "a", ELEMENT), IN_OF(U8, "b", ELEMENT), OUT_OF(U8, "q", ELEMENT)};

CALL(quantize_sum_u8) {
    k->quantize_sum_u8(s->rows, p[0], s->scale, s->zero, p[1], 0.7f * s->scale, 255.0f - s->zero,
                       0.5f * s->inverse, s->zero, p[2]);
}

static const struct oct__case_buffer buffers_quantize_s8_f32[] = {IN("x", ELEMENT),
                                                                  OUT_OF(S8, "q", ELEMENT)};

CALL(quantize_s8_f32) {
    k->quantize_s8_f32(s->rows, p[0], s->inverse, p[1]);
}

static const struct oct__case_buffer buffers_quantize_u8_random_f32[] = {IN("x", ELEMENT),
                                                                         OUT_OF(U8, "q", ELEMENT)};

CALL(quantize_u8_random_f32) {
    k->quantize_u8_random_f32(s->rows, s->first, p[0], s->inverse, s->zero, &s->stream, p[1]);
}

static const struct oct__case_buffer buffers_quantize_s8_random_f32[] = {IN("x", ELEMENT),
                                                                         OUT_OF(S8, "q", ELEMENT)};

CALL(quantize_s8_random_f32) {
    k->quantize_s8_random_f32(s->rows, s->first, p[0], s->inverse, &s->stream, p[1]);
}

static const struct oct__case_buffer buffers_quantize_s8_random_bf16[] = {IN_OF(BF16, "x", ELEMENT),
                                                                          OUT_OF(S8, "q", ELEMENT)};

CALL(quantize_s8_random_bf16) {
    k->quantize_s8_random_bf16(s->rows, s->first, p[0], s->inverse, s->zero > 0.0f ? 128 : 0,
                               &s->stream, p[1]);
}

static const struct oct__case_buffer buffers_quantize_s8_random_s32[] = {IN_OF(S32, "x", ELEMENT),
                                                                         OUT_OF(S8, "q", ELEMENT)};

CALL(quantize_s8_random_s32) {
    k->quantize_s8_random_s32(s->rows, s->first, p[0], s->scale, s->inverse * 0x1p-14f, &s->stream,
                              p[1]);
}

static const struct oct__case_buffer buffers_quantize_s8_random_s32_s8[] = {
    IN_OF(S32, "a", ELEMENT), IN_OF(S8, "b", ELEMENT), OUT_OF(S8, "q", ELEMENT)};

CALL(quantize_s8_random_s32_s8) {
    k->quantize_s8_random_s32_s8(s->rows, s->first, p[0], s->scale * 0x1p-14f, p[1], s->scale,
                                 s->inverse, &s->stream, p[2]);
}

static const struct oct__case_buffer buffers_dequantize_u8_f32[] = {IN_OF(U8, "q", ELEMENT),
                                                                    OUT("y", ELEMENT)};

CALL(dequantize_u8_f32) {
    k->dequantize_u8_f32(s->rows, p[0], s->scale, s->zero, p[1]);
}

static const struct oct__case_buffer buffers_dequantize_add_u8_f32[] = {IN_OF(U8, "q", ELEMENT),
                                                                        BOTH("y", ELEMENT)};

CALL(dequantize_add_u8_f32) {
    k->dequantize_add_u8_f32(s->rows, p[0], s->scale, s->zero, p[1]);
}

static const struct oct__case_buffer buffers_dequantize_s8_f32[] = {IN_OF(S8, "q", ELEMENT),
                                                                    OUT("y", ELEMENT)};

CALL(dequantize_s8_f32) {
    k->dequantize_s8_f32(s->rows, p[0], s->scale, p[1]);
}

static const struct oct__case_buffer buffers_dequantize_add_s8_f32[] = {IN_OF(S8, "q", ELEMENT),
                                                                        BOTH("y", ELEMENT)};

CALL(dequantize_add_s8_f32) {
    k->dequantize_add_s8_f32(s->rows, p[0], s->scale, p[1]);
}

static const struct oct__case_buffer buffers_dequantize_s32_f32[] = {IN_OF(S32, "x", ELEMENT),
                                                                     OUT_OR("y", ELEMENT, 1U << 0)};

CALL(dequantize_s32_f32) {
    k->dequantize_s32_f32(s->rows, p[0], s->scale, p[1]);
}

static const struct oct__case_buffer buffers_dequantize_add_s32_f32[] = {IN_OF(S32, "x", ELEMENT),
                                                                         BOTH("y", ELEMENT)};

CALL(dequantize_add_s32_f32) {
    k->dequantize_add_s32_f32(s->rows, p[0], s->scale, p[1]);
}

static const struct oct__case_buffer buffers_column_dequantize_s32_f32[] = {
    IN_OF(S32, "x", ELEMENT), IN("scale", CHANNEL), IN("shift", CHANNEL),
    OUT_OR("y", ELEMENT, 1U << 0)};

CALL(column_dequantize_s32_f32) {
    k->column_dequantize_s32_f32(s->rows, s->c, p[0], p[1], p[2], p[3]);
}

static const struct oct__case_buffer buffers_column_scale_f32[] = {
    IN("x", ELEMENT), IN("scale", CHANNEL), OUT_OR("y", ELEMENT, 1U << 0)};

CALL(column_scale_f32) {
    k->column_scale_f32(s->rows, s->c, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_clip_mask_f32[] = {
    IN_OF(U8, "q", ELEMENT), BUFFER("x", BOTH, ELEMENT, F32, .exact = 1)};

CALL(clip_mask_f32) {
    k->clip_mask_f32(s->rows, p[0], s->zero, p[1]);
}

static const struct oct__case_buffer buffers_clip_mask_s8[] = {IN_OF(U8, "q", ELEMENT),
                                                               BOTH_OF(S8, "x", ELEMENT)};

CALL(clip_mask_s8) {
    k->clip_mask_s8(s->rows, p[0], s->zero, p[1]);
}

static const struct oct__case_buffer buffers_round_bf16_f32[] = {
    IN("x", ELEMENT), BUFFER("y", OUT, ELEMENT, BF16, .exact = 1)};

CALL(round_bf16_f32) {
    k->round_bf16_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_widen_bf16_f32[] = {
    IN_OF(BF16, "x", ELEMENT), BUFFER("y", OUT, ELEMENT, F32, .exact = 1)};

CALL(widen_bf16_f32) {
    k->widen_bf16_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_center_u8_bf16[] = {IN_OF(U8, "q", ELEMENT),
                                                                 OUT_OF(BF16, "y", ELEMENT)};

CALL(center_u8_bf16) {
    k->center_u8_bf16(s->rows, p[0], s->zero, p[1]);
}

/* --- weight gradients in bf16 ----------------------------------------------------------------- */

/* Rows of ResNet-20's three stages, */
static const struct oct__case_shape bench_pairs[] = {
    {.rows = 32, .c = 16, .step = 16, .stride = 32 * 16, .zero = 128.0f},
    {.rows = 16, .c = 32, .step = 32, .stride = 16 * 16, .zero = 128.0f},
    {.rows = 8, .c = 64, .step = 64, .stride = 8 * 16, .zero = 128.0f},
    {0}};

/* and two of their samples with 8 channels and a row of a 3 x 3 kernel; the last is a shortcut. */
static const struct oct__case_shape bench_outer[] = {
    {.parts = 1, .rows = 32, .pairs = 32, .w = 32, .c = 3, .dx = -1, .step = 1},
    {.parts = 1, .rows = 16, .pairs = 16, .w = 16, .c = 3, .dx = -1, .step = 1},
    {.parts = 2, .rows = 8, .pairs = 8, .w = 8, .c = 3, .dx = -1, .step = 1},
    {.parts = 2, .rows = 8, .pairs = 8, .w = 8, .c = 1, .dx = 0, .step = 1},
    {0}};

static const struct oct__case_buffer buffers_pair_center_u8_bf16[] = {
    IN_OF(U8, "a", SOURCE), IN_OF(U8, "b", SOURCE), BOTH_OF(S32, "y", PLANE)};

CALL(pair_center_u8_bf16) {
    k->pair_center_u8_bf16(s->rows, s->c, s->step, s->stride, p[0], p[1], s->zero, p[2]);
}

static const struct oct__case_buffer buffers_pair_bf16[] = {
    IN_OF(BF16, "a", ELEMENT), IN_OF(BF16, "b", ELEMENT), BOTH_OF(S32, "y", PLANE)};

CALL(pair_bf16) {
    k->pair_bf16(s->rows, s->c, s->stride, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_outer_bf16_f32[] = {
    IN_OF(WHOLES, "x", IMAGE), IN_OF(PAIR, "g", OUTPUT),
    BUFFER("sums", BOTH, CHANNEL, F32, .times = OCT_OUTER_IN * OCT_OUTER_OUT)};

/* Pixels of x have 16 pairs, of which the taps take the first 8 or, with flip, the last. */
CALL(outer_bf16_f32) {
    const size_t width = (size_t)s->w;
    struct oct__outer form = {
        .images = s->parts,
        .rows = s->rows,
        .x_image = s->rows * width * OCT_OUTER_OUT,
        .x_row = width * OCT_OUTER_OUT,
        .x_step = s->step * OCT_OUTER_OUT,
        .g_image = s->rows * s->pairs * OCT_OUTER_OUT,
        .g_row = s->pairs * OCT_OUTER_OUT,
        .taps = s->c,
    };
    for (size_t t = 0; t < s->c; t++) {
        form.tap[t] = oct__outer_tap(s->dx + (ptrdiff_t)t, s->step, width, s->pairs, OCT_OUTER_OUT,
                                     s->flip ? OCT_OUTER_IN : 0);
    }
    k->outer_bf16_f32(&form, p[0], p[1], p[2]);
}

/* --- range norms ----------------------------------------------------------------------------- */

/* As bench_groups, and a map of 7 x 7, whose chunks lie across channels. */
static const struct oct__case_shape bench_range[] = {{.rows = 1024, .c = 16, .groups = 8},
                                                     {.rows = 256, .c = 32, .groups = 8},
                                                     {.rows = 64, .c = 64, .groups = 8},
                                                     {.rows = 49, .c = 64, .groups = 8},
                                                     {0}};

static const struct oct__case_buffer buffers_chunk_spread_f32[] = {
    IN("x", ELEMENT), OUT("spread", GROUP), WORK(OCT_RANGE_WORK)};

CALL(chunk_spread_f32) {
    k->chunk_spread_f32(s->rows, s->c, s->groups, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_range_evonorm_f32[] = {
    IN("x", ELEMENT),    IN("gamma", CHANNEL),        IN("beta", CHANNEL),
    IN("v", CHANNEL),    IN_POSITIVE("scale", GROUP), OUT_OR("y", ELEMENT, 1U << 0),
    WORK(OCT_RANGE_WORK)};

CALL(range_evonorm_f32) {
    k->range_evonorm_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
}

static const struct oct__case_buffer buffers_range_evonorm_grad_f32[] = {
    IN("x", ELEMENT),           IN("gamma", CHANNEL),
    IN("v", CHANNEL),           IN_POSITIVE("scale", GROUP),
    IN_POSITIVE("used", GROUP), IN("dy", ELEMENT),
    BOTH("dgamma", CHANNEL),    BOTH("dbeta", CHANNEL),
    BOTH("dv", CHANNEL),        OUT_OR("dx", ELEMENT, 1U << 5),
    WORK(OCT_RANGE_WORK)};

CALL(range_evonorm_grad_f32) {
    k->range_evonorm_grad_f32(s->rows, s->c, s->groups, p[0], p[1], p[2], p[3], p[4], p[5], p[6],
                              p[7], p[8], p[9], p[10]);
}

static const struct oct__case_buffer buffers_column_minmax_f32[] = {
    IN("x", ELEMENT), OUT("low", CHANNEL), OUT("high", CHANNEL)};

CALL(column_minmax_f32) {
    k->column_minmax_f32(s->rows, s->c, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_column_extremes_grad_f32[] = {
    IN("x", ELEMENT), IN("share", CHANNEL), BOTH("dx", ELEMENT)};

CALL(column_extremes_grad_f32) {
    k->column_extremes_grad_f32(s->rows, s->c, p[0], p[1], p[2]);
}

/* --- Range EvoNorm on bytes ------------------------------------------------------------------ */

/* A sample's grid is a shape's; what is written goes to one with the zero at the other end, what
 * comes as dy has the inverse for its scale, and every other tensor is masked. */
#define BYTES_SHAPE(rows_, c_)                                                                     \
    { .rows = rows_, .c = c_, .groups = 8, .scale = 1.0f / 63.0f, .inverse = 63.0f, .zero = 100.0f }

static const struct oct__case_shape bench_range_bytes[] = {
    BYTES_SHAPE(1024, 16), BYTES_SHAPE(256, 32), BYTES_SHAPE(64, 64), BYTES_SHAPE(49, 64), {0}};

static const struct oct__case_buffer buffers_chunk_spread_u8[] = {
    IN_OF(U8, "q", ELEMENT), OUT("spread", GROUP), WORK(OCT_RANGE_WORK)};

CALL(chunk_spread_u8) {
    const float least = s->rows % 2 ? 0.0f : 0.9f; /* of a group that is around 0 rarely less */
    k->chunk_spread_u8(s->rows, s->c, s->groups, p[0], s->scale, s->zero, least, p[1], p[2]);
}

static const struct oct__case_buffer buffers_range_evonorm_minmax_u8[] = {
    IN_OF(U8, "q", ELEMENT),    IN("gamma", CHANNEL),
    IN("beta", CHANNEL),        IN("v", CHANNEL),
    IN_POSITIVE("used", GROUP), BUFFER("range", BOTH, TENSOR, F32, .times = 2),
    WORK(OCT_RANGE_WORK)};

CALL(range_evonorm_minmax_u8) {
    k->range_evonorm_minmax_u8(s->rows, s->c, s->groups, p[0], s->scale, s->zero, p[1], p[2], p[3],
                               p[4], p[5], p[6]);
}

static const struct oct__case_buffer buffers_range_evonorm_u8[] = {
    IN_OF(U8, "q", ELEMENT),    IN("gamma", CHANNEL),     IN("beta", CHANNEL), IN("v", CHANNEL),
    IN_POSITIVE("used", GROUP), OUT_OF(U8, "y", ELEMENT), WORK(OCT_RANGE_WORK)};

CALL(range_evonorm_u8) {
    k->range_evonorm_u8(s->rows, s->c, s->groups, p[0], s->scale, s->zero, p[1], p[2], p[3], p[4],
                        s->inverse, 255.0f - s->zero, p[5], p[6]);
}

#define GRADIENT_BUFFERS(type)                                                                     \
    {                                                                                              \
        IN_OF(U8, "q", ELEMENT), IN("gamma", CHANNEL), IN("v", CHANNEL),                           \
            IN_POSITIVE("scale", GROUP), IN_POSITIVE("used", GROUP), IN_OF(S8, "dy", ELEMENT),     \
            BOTH("dgamma", CHANNEL), BOTH("dbeta", CHANNEL), BOTH("dv", CHANNEL),                  \
            OUT_OF(type, "dx", ELEMENT), WORK(OCT_RANGE_WORK)                                      \
    }

static const struct oct__case_buffer buffers_range_evonorm_grad_u8_f32[] = GRADIENT_BUFFERS(F32);

CALL(range_evonorm_grad_u8_f32) {
    k->range_evonorm_grad_u8_f32(s->rows, s->c, s->groups, p[0], s->scale, s->zero, p[1], p[2],
                                 p[3], p[4], p[5], s->inverse, (int)(s->first % 2), p[6], p[7],
                                 p[8], p[9], p[10]);
}

static const struct oct__case_buffer buffers_range_evonorm_grad_u8_bf16[] = GRADIENT_BUFFERS(BF16);

CALL(range_evonorm_grad_u8_bf16) {
    k->range_evonorm_grad_u8_bf16(s->rows, s->c, s->groups, p[0], s->scale, s->zero, p[1], p[2],
                                  p[3], p[4], p[5], s->inverse, (int)(s->first % 2), p[6], p[7],
                                  p[8], p[9], p[10]);
}

/* --- rows of parameters ------------------------------------------------------------------------ */

static const struct oct__case_shape bench_settle[] = {
    {.rows = 16384, .c = 1, .lr = 0.1f, .beta = 0.9f, .weight = 0.75f},
    {.rows = 4 << 20, .c = 1, .lr = 0.1f, .beta = 0.9f, .weight = 0.75f},
    {0}};

static const struct oct__case_buffer buffers_difference_f32[] = {
    IN("a", ELEMENT), IN("b", ELEMENT), OUT_OR("y", ELEMENT, 1U << 0 | 1U << 1)};

CALL(difference_f32) {
    k->difference_f32(s->rows, p[0], p[1], p[2]);
}

static const struct oct__case_buffer buffers_axpy_f32[] = {IN("x", ELEMENT), BOTH("y", ELEMENT)};

CALL(axpy_f32) {
    k->axpy_f32(s->rows, s->lr, p[0], p[1]);
}

static const struct oct__case_buffer buffers_mean_f32[] = {BOTH("rows", PART)};

CALL(mean_f32) {
    k->mean_f32(s->rows, s->parts, s->stride, p[0]);
}

static const struct oct__case_buffer buffers_divide_f32[] = {IN("x", ELEMENT),
                                                             OUT_OR("z", ELEMENT, 1U << 0)};

CALL(divide_f32) {
    k->divide_f32(s->rows, p[0], s->weight, p[1]);
}

static const struct oct__case_buffer buffers_settle_f32[] = {IN("x", ELEMENT), BOTH("z", ELEMENT),
                                                             BOTH("m", ELEMENT)};

CALL(settle_f32) {
    k->settle_f32(s->rows, p[0], s->weight, s->beta, s->lr, p[1], p[2]);
}

/* --- packets --------------------------------------------------------------------------------- */

static const struct oct__case_buffer buffers_axpy_s8_f32[] = {IN_OF(S8, "q", ELEMENT),
                                                              BOTH("y", ELEMENT)};

CALL(axpy_s8_f32) {
    k->axpy_s8_f32(s->rows, s->inverse, p[0], s->scale, p[1]);
}

static const struct oct__case_buffer buffers_above_u32[] = {IN("x", ELEMENT),
                                                            OUT_OF(S32, "bits", MASK)};

/* Magnitudes, or all bits, compared with a grid's scale. */
CALL(above_u32) {
    uint32_t least;
    memcpy(&least, &s->scale, sizeof least);
    k->above_u32(s->rows, p[0], s->first % 2 ? UINT32_MAX : INT32_MAX, least, p[1]);
}

static const struct oct__case_buffer buffers_draw_u32[] = {OUT_OF(S32, "y", ELEMENT)};

CALL(draw_u32) {
    k->draw_u32(s->rows, s->first, &s->stream, p[0]);
}

/* Kind and timed shapes of each; the rest of a case follows from its name. */
#define CASES_OF_add_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_relu_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_relu_grad_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_max_pool_f32 OCT_CASE_FLAT, bench_pool
#define CASES_OF_max_pool_grad_f32 OCT_CASE_FLAT, bench_pool
#define CASES_OF_fold_f32 OCT_CASE_PARTS, bench_parts
#define CASES_OF_sgd_f32 OCT_CASE_FLAT, bench_sgd
#define CASES_OF_sgd_global_f32 OCT_CASE_FLAT, bench_sgd
#define CASES_OF_nonfinite_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_crop_u8_f32 OCT_CASE_IMAGE, bench_image
#define CASES_OF_column_sum_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_square_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_affine_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_norm_sums_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_norm_grad_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_group_norm_f32 OCT_CASE_GROUPS, bench_groups
#define CASES_OF_group_norm_grad_f32 OCT_CASE_GROUPS, bench_groups
#define CASES_OF_evonorm_f32 OCT_CASE_GROUPS, bench_groups
#define CASES_OF_evonorm_grad_f32 OCT_CASE_GROUPS, bench_groups
#define CASES_OF_minmax_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_minmax_s32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_minmax_sum_u8 OCT_CASE_FLAT, bench_grid
#define CASES_OF_absmax_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_absmax_bf16 OCT_CASE_FLAT, bench_grid
#define CASES_OF_absmax_s32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_absmax_s32_s8 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_u8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_u8_s32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_sum_u8 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_s8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_u8_random_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_s8_random_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_s8_random_bf16 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_s8_random_s32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_quantize_s8_random_s32_s8 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_u8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_add_u8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_s8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_add_s8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_s32_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_dequantize_add_s32_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_column_dequantize_s32_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_scale_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_clip_mask_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_clip_mask_s8 OCT_CASE_FLAT, bench_grid
#define CASES_OF_round_bf16_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_widen_bf16_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_center_u8_bf16 OCT_CASE_FLAT, bench_grid
#define CASES_OF_center_u8_s16 OCT_CASE_FLAT, bench_flat
#define CASES_OF_taps_s16_s32 OCT_CASE_TAPS, bench_taps
#define CASES_OF_pair_center_u8_bf16 OCT_CASE_PAIRS, bench_pairs
#define CASES_OF_pair_bf16 OCT_CASE_PAIRS, bench_pairs
#define CASES_OF_outer_bf16_f32 OCT_CASE_OUTER, bench_outer
#define CASES_OF_chunk_spread_f32 OCT_CASE_GROUPS, bench_range
#define CASES_OF_range_evonorm_f32 OCT_CASE_GROUPS, bench_range
#define CASES_OF_range_evonorm_grad_f32 OCT_CASE_GROUPS, bench_range
#define CASES_OF_column_minmax_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_column_extremes_grad_f32 OCT_CASE_COLUMNS, bench_columns
#define CASES_OF_chunk_spread_u8 OCT_CASE_GROUPS, bench_range_bytes
#define CASES_OF_range_evonorm_minmax_u8 OCT_CASE_GROUPS, bench_range_bytes
#define CASES_OF_range_evonorm_u8 OCT_CASE_GROUPS, bench_range_bytes
#define CASES_OF_range_evonorm_grad_u8_f32 OCT_CASE_GROUPS, bench_range_bytes
#define CASES_OF_range_evonorm_grad_u8_bf16 OCT_CASE_GROUPS, bench_range_bytes
#define CASES_OF_difference_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_axpy_f32 OCT_CASE_FLAT, bench_sgd
#define CASES_OF_mean_f32 OCT_CASE_PARTS, bench_parts
#define CASES_OF_divide_f32 OCT_CASE_FLAT, bench_settle
#define CASES_OF_settle_f32 OCT_CASE_FLAT, bench_settle
#define CASES_OF_axpy_s8_f32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_above_u32 OCT_CASE_FLAT, bench_grid
#define CASES_OF_draw_u32 OCT_CASE_FLAT, bench_grid

#define MAKE_CASE(...) MAKE_CASE_OF(__VA_ARGS__)
#define MAKE_CASE_OF(kernel, kind_, shapes)                                                        \
    {.name = #kernel,                                                                              \
     .kind = kind_,                                                                                \
     .n_buffers = (int)OCT_COUNT_OF(buffers_##kernel),                                             \
     .buffers = buffers_##kernel,                                                                  \
     .call = call_##kernel,                                                                        \
     .bench = shapes},

static const struct oct__case cases[] = {
#define OCT_KERNEL(name, parameters) MAKE_CASE(name, CASES_OF_##name)
#include "kernels/kernels.def"
#undef OCT_KERNEL
};

const struct oct__case *oct__case_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(cases) ? &cases[index] : NULL;
}

size_t oct__case_count(const struct oct__case *which, const struct oct__case_shape *shape, int b) {
    const struct oct__case_buffer *buffer = &which->buffers[b];
    size_t pixels = shape->rows * (which->kind == OCT_CASE_IMAGE ? (size_t)shape->w : 1);
    size_t count = 0;
    switch (buffer->per) {
    case OCT_PER_ELEMENT:
        count = pixels * shape->c;
        break;
    case OCT_PER_CHANNEL:
        count = shape->c;
        break;
    case OCT_PER_GROUP:
        count = shape->groups;
        break;
    case OCT_PER_PART:
        count = (shape->parts - 1) * shape->stride + shape->rows;
        break;
    case OCT_PER_BYTE:
        count = 256 * shape->c;
        break;
    case OCT_PER_TENSOR:
        count = 1;
        break;
    case OCT_PER_RUN:
        count = shape->rows ? (shape->rows - 1) * shape->step + 2 * shape->pairs : 0;
        break;
    case OCT_PER_TAP:
        count = 2 * shape->pairs * shape->c;
        break;
    case OCT_PER_SUM:
        count = shape->rows ? (shape->rows - 1) * shape->out_stride + shape->c : 0;
        break;
    case OCT_PER_MASK:
        count = (pixels * shape->c + 31) / 32;
        break;
    case OCT_PER_SOURCE:
        count = shape->rows ? (shape->rows - 1) * shape->step + shape->c : 0;
        break;
    case OCT_PER_PLANE:
        count =
            shape->c ? (shape->c / OCT_OUTER_OUT - 1) * shape->stride + pixels * OCT_OUTER_OUT : 0;
        break;
    case OCT_PER_IMAGE:
        count = shape->parts * shape->rows * (size_t)shape->w * OCT_OUTER_OUT;
        break;
    case OCT_PER_OUTPUT:
        count = shape->parts * shape->rows * shape->pairs * OCT_OUTER_OUT;
        break;
    }
    return count * (size_t)(buffer->times ? buffer->times : 1);
}

size_t oct__case_element_bytes(const struct oct__case_buffer *buffer) {
    switch (buffer->type) {
    case OCT_TYPE_U8:
    case OCT_TYPE_S8:
        return 1;
    case OCT_TYPE_BF16:
    case OCT_TYPE_S16:
        return 2;
    case OCT_TYPE_SIZE:
        return sizeof(size_t);
    default:
        return sizeof(float);
    }
}

/* The upper half of the float's bits: bf16, rounded towards zero. */
static uint32_t upper_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 16;
}

/* Whole numbers of -255 … 255 in bf16, two of them. */
static uint32_t wholes(uint32_t word) {
    return upper_half((float)(int)(word % 511U) - 255.0f) |
           upper_half((float)(int)(word / 511U % 511U) - 255.0f) << 16;
}

void oct__case_fill(const struct oct__case_buffer *buffer, size_t count,
                    const struct oct__stream *stream, void *memory) {
    float *floats = memory;
    uint8_t *bytes = memory;
    uint16_t *halves = memory;
    int16_t *shorts = memory;
    int32_t *sums = memory;
    size_t *sizes = memory;
    uint32_t *pairs = memory;
    uint32_t word[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0) {
            oct__stream_block(stream, (uint32_t)(i / 4), word);
        }
        float unit = oct__unit_float(word[i % 4]);
        float value = buffer->positive ? 0.5f + unit : 4.0f * unit - 2.0f;
        switch (buffer->type) {
        case OCT_TYPE_F32:
            floats[i] = value;
            break;
        case OCT_TYPE_BF16:
            halves[i] = (uint16_t)upper_half(value);
            break;
        case OCT_TYPE_U8:
        case OCT_TYPE_S8:
            bytes[i] = (uint8_t)(word[i % 4] >> 24);
            break;
        case OCT_TYPE_S16:
            shorts[i] = (int16_t)((int)oct__below(word[i % 4], 511) - 255);
            break;
        case OCT_TYPE_S32:
            sums[i] = (int32_t)(word[i % 4] >> 11) - (1 << 20);
            break;
        case OCT_TYPE_PAIR:
            pairs[i] = upper_half(value) | upper_half(1.0f - value) << 16;
            break;
        case OCT_TYPE_WHOLES:
            pairs[i] = wholes(word[i % 4]);
            break;
        case OCT_TYPE_SIZE:
            sizes[i] = word[i % 4];
            break;
        }
    }
}

double oct__case_bytes(const struct oct__case *which, const struct oct__case_shape *shape) {
    double bytes = 0.0;
    for (int b = 0; b < which->n_buffers; b++) {
        const struct oct__case_buffer *buffer = &which->buffers[b];
        double once =
            (double)oct__case_count(which, shape, b) * (double)oct__case_element_bytes(buffer);
        bytes += buffer->role == OCT_BUFFER_WORK   ? 0.0
                 : buffer->role == OCT_BUFFER_BOTH ? 2.0 * once
                                                   : once;
    }
    return bytes;
}

void oct__case_text(const struct oct__case *which, const struct oct__case_shape *shape,
                    char text[64]) {
    switch (which->kind) {
    case OCT_CASE_FLAT:
        snprintf(text, 64, "%zu", shape->rows);
        break;
    case OCT_CASE_PARTS:
        snprintf(text, 64, "%zux%zu", shape->parts, shape->rows);
        break;
    case OCT_CASE_IMAGE:
        snprintf(text, 64, "%zux%dx%zu%s", shape->rows, shape->w, shape->c,
                 shape->flip ? " flip" : "");
        break;
    case OCT_CASE_COLUMNS:
        snprintf(text, 64, "%zux%zu", shape->rows, shape->c);
        break;
    case OCT_CASE_GROUPS:
        snprintf(text, 64, "%zux%zu/%zu", shape->rows, shape->c, shape->groups);
        break;
    case OCT_CASE_TAPS:
        snprintf(text, 64, "%zux%zux%zu", shape->rows, 2 * shape->pairs, shape->c);
        break;
    case OCT_CASE_PAIRS:
        snprintf(text, 64, "%zux%zu", shape->rows, shape->c);
        break;
    case OCT_CASE_OUTER:
        snprintf(text, 64, "%zux%zux%zu*%zu", shape->parts, shape->rows, shape->pairs, shape->c);
        break;
    }
}
