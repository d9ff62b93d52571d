/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - where the kernels that search and quantize take their real numbers from.
 *
 * Numbers that are only looked at need not exist in memory: they are made in registers, from what
 * they are made of, by the loop that uses them. So a loop is written once and compiled for every
 * kind of source, `kind` being a constant where it is inlined.
 */
#ifndef OCT_KERNELS_X86_SOURCE_H
#define OCT_KERNELS_X86_SOURCE_H

#include "kernels/x86/bytes.h"

enum source_kind {
    SOURCE_F32,    /* a */
    SOURCE_BF16,   /* a, widened */
    SOURCE_S32,    /* scale_a * a */
    SOURCE_S32_S8, /* scale_a * a + scale_b * b */
    SOURCE_U8_U8,  /* scale_a * (a - zero_a) + scale_b * (b - zero_b) */
};

struct source {
    enum source_kind kind;
    const void *a, *b;
    wide scale_a, scale_b;
    ints zero_a, zero_b; /* whole, so that they can be taken off before bytes become floats */
};

/* Bytes of an element of a and of b. */
INLINE size_t source_bytes_a(enum source_kind kind) {
    return kind == SOURCE_BF16 ? 2 : kind == SOURCE_U8_U8 ? 1 : 4;
}

INLINE size_t source_bytes_b(enum source_kind kind) {
    return kind == SOURCE_S32_S8 || kind == SOURCE_U8_U8;
}

INLINE struct source source_f32(const float *x) {
    return (struct source){.kind = SOURCE_F32, .a = x};
}

INLINE struct source source_bf16(const uint16_t *x) {
    return (struct source){.kind = SOURCE_BF16, .a = x};
}

INLINE struct source source_s32(const int32_t *x, float scale) {
    return (struct source){.kind = SOURCE_S32, .a = x, .scale_a = wide_of(scale)};
}

INLINE struct source source_s32_s8(const int32_t *a, float scale_a, const int8_t *b,
                                   float scale_b) {
    return (struct source){.kind = SOURCE_S32_S8,
                           .a = a,
                           .b = b,
                           .scale_a = wide_of(scale_a),
                           .scale_b = wide_of(scale_b)};
}

INLINE struct source source_u8_u8(const uint8_t *a, float scale_a, float zero_a, const uint8_t *b,
                                  float scale_b, float zero_b) {
    return (struct source){.kind = SOURCE_U8_U8,
                           .a = a,
                           .b = b,
                           .scale_a = wide_of(scale_a),
                           .scale_b = wide_of(scale_b),
                           .zero_a = ints_of((int32_t)zero_a),
                           .zero_b = ints_of((int32_t)zero_b)};
}

/* Numbers i … i + LANES - 1, or the first n of them. */
INLINE wide source_get(const struct source *of, size_t i, int full, size_t n) {
    switch (of->kind) {
    case SOURCE_F32:
        return wide_get((const float *)of->a + i, full, n);
    case SOURCE_BF16:
        return wide_bits(ints_shift_left(ints_get_u16((const uint16_t *)of->a + i, full, n), 16));
    case SOURCE_S32:
        return of->scale_a * wide_ints(ints_get((const int32_t *)of->a + i, full, n));
    case SOURCE_S32_S8:
        return of->scale_a * wide_ints(ints_get((const int32_t *)of->a + i, full, n)) +
               of->scale_b * wide_ints(ints_get_s8((const int8_t *)of->b + i, full, n));
    default:
        return of->scale_a * wide_ints(ints_sub(ints_get_u8((const uint8_t *)of->a + i, full, n),
                                                of->zero_a)) +
               of->scale_b * wide_ints(ints_sub(ints_get_u8((const uint8_t *)of->b + i, full, n),
                                                of->zero_b));
    }
}

#endif
