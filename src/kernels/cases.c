/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - buffers and call of every kernel, in the order of kernels.def.
 *
 * The shapes timed are those of ResNet-20: one sample of the first stage (32 × 32 × 16) and of the
 * last (8 × 8 × 64), which live in L2; flat arrays and columns also larger than that,
 * where the best a kernel can do is to keep up with memory.
 */
#include "kernels/cases.h"

#include <stdio.h>

#include "base/fail.h"

#define IN(name, per)                                                                              \
    { name, OCT_BUFFER_IN, OCT_PER_##per, 0, 0, 0, OCT_TYPE_F32 }
#define IN_POSITIVE(name, per)                                                                     \
    { name, OCT_BUFFER_IN, OCT_PER_##per, 0, 1, 0, OCT_TYPE_F32 }
#define OUT(name, per)                                                                             \
    { name, OCT_BUFFER_OUT, OCT_PER_##per, 0, 0, 0, OCT_TYPE_F32 }
#define OUT_OR(name, per, same)                                                                    \
    { name, OCT_BUFFER_OUT, OCT_PER_##per, 0, 0, same, OCT_TYPE_F32 }
#define BOTH(name, per)                                                                            \
    { name, OCT_BUFFER_BOTH, OCT_PER_##per, 0, 0, 0, OCT_TYPE_F32 }
#define WORK(times)                                                                                \
    { "work", OCT_BUFFER_WORK, OCT_PER_CHANNEL, times, 0, 0, OCT_TYPE_F32 }

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

static const struct oct__case_buffer buffers_nonfinite_f32[] = {
    IN("x", ELEMENT), {"count", OCT_BUFFER_OUT, OCT_ONCE, 0, 0, 0, OCT_TYPE_SIZE}};

CALL(nonfinite_f32) {
    k->nonfinite_f32(s->rows, p[0], p[1]);
}

static const struct oct__case_buffer buffers_crop_u8_f32[] = {
    {"src", OCT_BUFFER_IN, OCT_PER_ELEMENT, 0, 0, 0, OCT_TYPE_U8},
    IN("lut", BYTE),
    OUT("dst", ELEMENT)};

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

/* Kind and timed shapes of each; the rest of a case follows from its name. */
#define CASES_OF_add_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_relu_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_relu_grad_f32 OCT_CASE_FLAT, bench_flat
#define CASES_OF_fold_f32 OCT_CASE_PARTS, bench_parts
#define CASES_OF_sgd_f32 OCT_CASE_FLAT, bench_sgd
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
    case OCT_ONCE:
        count = 1;
        break;
    }
    return count * (size_t)(buffer->times ? buffer->times : 1);
}

size_t oct__case_element_bytes(const struct oct__case_buffer *buffer) {
    switch (buffer->type) {
    case OCT_TYPE_U8:
        return 1;
    case OCT_TYPE_SIZE:
        return sizeof(size_t);
    default:
        return sizeof(float);
    }
}

void oct__case_fill(const struct oct__case_buffer *buffer, size_t count,
                    const struct oct__stream *stream, void *memory) {
    float *floats = memory;
    uint8_t *bytes = memory;
    size_t *sizes = memory;
    uint32_t word[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0) {
            oct__stream_block(stream, (uint32_t)(i / 4), word);
        }
        float unit = oct__unit_float(word[i % 4]);
        switch (buffer->type) {
        case OCT_TYPE_F32:
            floats[i] = buffer->positive ? 0.5f + unit : 4.0f * unit - 2.0f;
            break;
        case OCT_TYPE_U8:
            bytes[i] = (uint8_t)(word[i % 4] >> 24);
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
    }
}
