/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - the wide kernels that turn floats into bytes, and clear what the borders cut off.
 *
 * Of ref's two borders only the upper one is held in floats: a float too large would convert to the
 * most negative integer, as a NaN and one too small do, and those the packing to bytes holds to the
 * lower border, where they belong.
 */
#include <math.h>

#include "kernels/x86/philox.h"
#include "kernels/x86/source.h"

/* --- to the nearest ---------------------------------------------------------------------------- */

/* q = rint(x * inverse) + zero; below the lower border is where packing stops. */
struct nearest {
    wide inverse, high;
    ints zero; /* in halves */
    int is_signed;
};

INLINE struct nearest nearest_u8(float inverse, float zero) {
    return (struct nearest){wide_of(inverse), wide_of(255.0f - zero),
                            ints_of((int32_t)zero * 0x10001), 0};
}

INLINE struct nearest nearest_s8(float inverse) {
    return (struct nearest){wide_of(inverse), wide_of(127.0f), ints_of(0), 1};
}

INLINE ints round_nearest(const struct nearest *of, const struct source *x, size_t i, int full,
                          size_t n) {
    wide t = source_get(x, i, full, n) * of->inverse;
    return ints_nearest(wide_smaller(of->high, t));
}

INLINE ints pack_bytes(int is_signed, ints zero, ints a, ints b, ints c, ints d) {
    return is_signed ? ints_larger_s8(ints_pack_s8(a, b, c, d), ints_of_8(-127))
                     : ints_pack_u8(a, b, c, d, zero);
}

/* A few at the end: to be held to the lower border here. */
INLINE void put_few(const struct nearest *of, const struct source *x, size_t i, int full, size_t n,
                    unsigned char *q) {
    const ints low = ints_of(of->is_signed ? -127 : 0);
    ints v = ints_add(round_nearest(of, x, i, full, n), ints_and(of->zero, ints_of(0xffff)));
    ints_put_8(q + i, ints_larger(v, low), full, n);
}

INLINE void quantize_nearest(struct nearest of, size_t n, struct source x, void *bytes) {
    unsigned char *q = bytes;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        ints a = round_nearest(&of, &x, i, 1, 0);
        ints b = round_nearest(&of, &x, i + LANES, 1, 0);
        ints c = round_nearest(&of, &x, i + 2 * LANES, 1, 0);
        ints d = round_nearest(&of, &x, i + 3 * LANES, 1, 0);
        ints_store(q + i, pack_bytes(of.is_signed, of.zero, a, b, c, d));
    }
    for (; i + LANES <= n; i += LANES) {
        put_few(&of, &x, i, 1, 0, q);
    }
    if (i < n) {
        put_few(&of, &x, i, 0, n - i, q);
    }
}

void OCT_WIDE(quantize_u8_f32)(size_t n, const float *x, float inverse, float zero, uint8_t *q) {
    quantize_nearest(nearest_u8(inverse, zero), n, source_f32(x), q);
}

void OCT_WIDE(quantize_s8_f32)(size_t n, const float *x, float inverse, int8_t *q) {
    quantize_nearest(nearest_s8(inverse), n, source_f32(x), q);
}

void OCT_WIDE(quantize_u8_s32)(size_t n, const int32_t *x, float scale, float inverse, float zero,
                               uint8_t *q) {
    quantize_nearest(nearest_u8(inverse, zero), n, source_s32(x, scale), q);
}

void OCT_WIDE(quantize_sum_u8)(size_t n, const uint8_t *a, float scale_a, float zero_a,
                               const uint8_t *b, float scale_b, float zero_b, float inverse,
                               float zero, uint8_t *q) {
    const struct source x = source_u8_u8(a, scale_a, zero_a, b, scale_b, zero_b);
    quantize_nearest(nearest_u8(inverse, zero), n, x, q);
}

/* --- rounding by chance ----------------------------------------------------------------------- */

/* Elements whose bits are drawn at once: one tile or two. */
enum { TILE = 128, DRAW = 8 * PHILOX_BLOCKS };

/* Everything is counted in steps of 2^-16. A product with `lifted` is the lifted product, unless
 * that overflows: then ref computes it. */
struct chance {
    struct philox blocks;
    wide lifted, high;
    ints zero; /* in halves; of signed ones in bytes */
    int is_signed;
};

INLINE int chance_can(float inverse) {
    return inverse * 0x1p16f < INFINITY;
}

INLINE void chance_u8(struct chance *of, float inverse, float zero,
                      const struct oct__stream *stream) {
    of->lifted = wide_of(inverse * 0x1p16f);
    of->high = wide_of((255.0f - zero) * 0x1p16f);
    of->zero = ints_of((int32_t)zero * 0x10001);
    of->is_signed = 0;
    philox_init(&of->blocks, stream);
}

INLINE void chance_s8(struct chance *of, float inverse, int zero,
                      const struct oct__stream *stream) {
    of->lifted = wide_of(inverse * 0x1p16f);
    of->high = wide_of(0x7fp16f);
    of->zero = ints_of_8(zero);
    of->is_signed = 1;
    philox_init(&of->blocks, stream);
}

/* The bits of DRAW elements in their order: they are the halves of one word of a tile's sixteen
 * blocks after the other. */
INLINE void chance_draw(const struct chance *of, uint64_t number, uint16_t k[DRAW]) {
    ints word[PHILOX_VECTORS][4];
    philox_draw(&of->blocks, OCT_PHILOX_FEW_ROUNDS, (uint32_t)(PHILOX_BLOCKS * number), word);
    for (size_t v = 0; v < PHILOX_VECTORS; v++) {
        for (size_t w = 0; w < 4; w++) {
            const size_t block = v * LANES;
            ints_store(k + block / 16 * TILE + w * 32 + block % 16 * 2, word[v][w]);
        }
    }
}

INLINE ints chance_steps(const struct chance *of, wide x) {
    return ints_nearest(wide_smaller(of->high, x * of->lifted));
}

INLINE ints round_chance(const struct chance *of, const struct source *x, size_t i,
                         const uint16_t *k) {
    const ints steps = chance_steps(of, source_get(x, i, 1, 0));
    return ints_shift_arithmetic(ints_add(steps, ints_get_u16(k, 1, 0)), 16);
}

/* 2 * LANES bf16, which need no widening: of two that share a lane one is where a float has it, and
 * so are their bits. What is rounded are halves again. */
INLINE ints round_pairs(const struct chance *of, const struct source *x, size_t i,
                        const uint16_t *k) {
    const ints pairs = ints_load((const uint16_t *)x->a + i), bits = ints_load(k);
    const wide even = wide_bits(ints_shift_left(pairs, 16));
    const wide odd = wide_bits(ints_and(pairs, ints_of(-0x10000)));
    ints low = ints_add(chance_steps(of, even), ints_and(bits, ints_of(0xffff)));
    ints high = ints_add(chance_steps(of, odd), ints_shift_right(bits, 16));
    return ints_upper_halves(low, high);
}

/* Elements i … i + DRAW - 1, which are draw `number` of their tensor. */
INLINE void quantize_draw(const struct chance *of, uint64_t number, const struct source *x,
                          size_t i, unsigned char *q) {
    uint16_t k[DRAW] __attribute__((__aligned__(64)));
    chance_draw(of, number, k);
    for (size_t at = 0; at < DRAW; at += 4 * LANES) {
        ints bytes;
        if (x->kind == SOURCE_BF16) { /* signed */
            bytes = ints_pack_halves_s8(round_pairs(of, x, i + at, k + at),
                                        round_pairs(of, x, i + at + 2 * LANES, k + at + 2 * LANES));
            bytes = ints_add_8(ints_larger_s8(bytes, ints_of_8(-127)), of->zero);
        } else {
            ints v[4];
            for (size_t part = 0; part < 4; part++) {
                const size_t j = at + part * LANES;
                v[part] = round_chance(of, x, i + j, k + j);
            }
            bytes = pack_bytes(of->is_signed, of->zero, v[0], v[1], v[2], v[3]);
        }
        ints_store(q + i + at, bytes);
    }
}

/* Elements from … from + n - 1 of a draw: x's elements i … i + n - 1. Rare, so that one function
 * serves all sources. */
static __attribute__((__noinline__)) void quantize_part(const struct chance *of, uint64_t number,
                                                        size_t from, size_t n,
                                                        const struct source *x, size_t i,
                                                        unsigned char *q) {
    const size_t a = source_bytes_a(x->kind), b = source_bytes_b(x->kind);
    unsigned char in_a[4 * DRAW] = {0}, in_b[DRAW] = {0}, out[DRAW];
    struct source in = *x;
    memcpy(in_a + a * from, (const char *)x->a + a * i, a * n);
    in.a = in_a;
    if (b != 0) {
        memcpy(in_b + b * from, (const char *)x->b + b * i, b * n);
        in.b = in_b;
    }
    quantize_draw(of, number, &in, 0, out);
    memcpy(q + i, out + from, n);
}

INLINE void quantize_random(const struct chance *of, size_t n, uint64_t first, struct source x,
                            void *bytes) {
    unsigned char *q = bytes;
    size_t i = 0, from = first % DRAW;
    if (from != 0 && n != 0) {
        i = n < DRAW - from ? n : DRAW - from;
        quantize_part(of, first / DRAW, from, i, &x, 0, q);
    }
    for (; n - i >= DRAW; i += DRAW) {
        quantize_draw(of, (first + i) / DRAW, &x, i, q);
    }
    if (i < n) {
        quantize_part(of, (first + i) / DRAW, 0, n - i, &x, i, q);
    }
}

void OCT_WIDE(quantize_u8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      float zero, const struct oct__stream *stream, uint8_t *q) {
    if (!chance_can(inverse)) {
        oct_quantize_u8_random_f32__ref(n, first, x, inverse, zero, stream, q);
        return;
    }
    struct chance of;
    chance_u8(&of, inverse, zero, stream);
    quantize_random(&of, n, first, source_f32(x), q);
}

void OCT_WIDE(quantize_s8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      const struct oct__stream *stream, int8_t *q) {
    if (!chance_can(inverse)) {
        oct_quantize_s8_random_f32__ref(n, first, x, inverse, stream, q);
        return;
    }
    struct chance of;
    chance_s8(&of, inverse, 0, stream);
    quantize_random(&of, n, first, source_f32(x), q);
}

void OCT_WIDE(quantize_s8_random_bf16)(size_t n, uint64_t first, const uint16_t *x, float factor,
                                       int zero, const struct oct__stream *stream, void *q) {
    if (!chance_can(factor)) {
        oct_quantize_s8_random_bf16__ref(n, first, x, factor, zero, stream, q);
        return;
    }
    struct chance of;
    chance_s8(&of, factor, zero, stream);
    quantize_random(&of, n, first, source_bf16(x), q);
}

void OCT_WIDE(quantize_s8_random_s32)(size_t n, uint64_t first, const int32_t *x, float scale,
                                      float inverse, const struct oct__stream *stream, int8_t *q) {
    if (!chance_can(inverse)) {
        oct_quantize_s8_random_s32__ref(n, first, x, scale, inverse, stream, q);
        return;
    }
    struct chance of;
    chance_s8(&of, inverse, 0, stream);
    quantize_random(&of, n, first, source_s32(x, scale), q);
}

void OCT_WIDE(quantize_s8_random_s32_s8)(size_t n, uint64_t first, const int32_t *a, float scale_a,
                                         const int8_t *b, float scale_b, float inverse,
                                         const struct oct__stream *stream, int8_t *q) {
    if (!chance_can(inverse)) {
        oct_quantize_s8_random_s32_s8__ref(n, first, a, scale_a, b, scale_b, inverse, stream, q);
        return;
    }
    struct chance of;
    chance_s8(&of, inverse, 0, stream);
    quantize_random(&of, n, first, source_s32_s8(a, scale_a, b, scale_b), q);
}

/* --- what was clipped ------------------------------------------------------------------------- */

#if !defined(__AVX512F__) /* avx512 measured no faster */

/* Bytes equal to one of two are clipped; without a lower border to meet, both are the upper one. */
INLINE int lower_border(float zero) {
    return zero > 0.0f ? 0 : 255;
}

INLINE ints clipped(ints q, ints low) {
    return _mm256_or_si256(_mm256_cmpeq_epi8(q, low), _mm256_cmpeq_epi8(q, ints_of_8(255)));
}

/* Eight floats at x, cleared where their bytes say so. */
INLINE void clear_eight(float *x, __m128i bytes, int full, size_t n) {
    __m256 clear = _mm256_castsi256_ps(_mm256_cvtepi8_epi32(bytes));
    wide_put(x, _mm256_andnot_ps(clear, wide_get(x, full, n)), full, n);
}

/* Most bytes are not clipped, so most of x need not be touched. */
void OCT_WIDE(clip_mask_f32)(size_t n, const uint8_t *q, float zero, float *x) {
    const ints low = ints_of_8(lower_border(zero));
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        ints clear = clipped(ints_load(q + i), low);
        if (_mm256_movemask_epi8(clear) != 0) {
            __m128i left = _mm256_castsi256_si128(clear);
            __m128i right = _mm256_extracti128_si256(clear, 1);
            clear_eight(x + i, left, 1, 0);
            clear_eight(x + i + 8, _mm_srli_si128(left, 8), 1, 0);
            clear_eight(x + i + 16, right, 1, 0);
            clear_eight(x + i + 24, _mm_srli_si128(right, 8), 1, 0);
        }
    }
    for (; i < n; i += 8) {
        size_t left = n - i < 8 ? n - i : 8;
        ints bytes = _mm256_castsi128_si256(few_bytes(q + i, left));
        __m128i clear = _mm256_castsi256_si128(clipped(bytes, low));
        if (left == 8) {
            clear_eight(x + i, clear, 1, 0);
        } else {
            clear_eight(x + i, clear, 0, left);
        }
    }
}

void OCT_WIDE(clip_mask_s8)(size_t n, const uint8_t *q, float zero, int8_t *x) {
    const ints low = ints_of_8(lower_border(zero));
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        ints clear = clipped(ints_load(q + i), low);
        ints_store(x + i, _mm256_andnot_si256(clear, ints_load(x + i)));
    }
    if (i < n) {
        uint8_t from[32] = {0};
        int8_t to[32] = {0};
        memcpy(from, q + i, n - i);
        memcpy(to, x + i, n - i);
        ints_store(to, _mm256_andnot_si256(clipped(ints_load(from), low), ints_load(to)));
        memcpy(x + i, to, n - i);
    }
}

#endif
