/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - the wide kernels that turn floats into bytes, and clear what the borders cut off.
 *
 * Of ref's two borders only the upper one is held in floats: a float too large would convert to the
 * most negative integer, as a NaN and one too small do, and those the packing to bytes holds to the
 * lower border, where they belong.
 */
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
                     : ints_pack_from_u8(a, b, c, d, zero);
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

enum { TILE = 128 };

struct chance {
    struct philox blocks;
    wide inverse, high;
    ints zero; /* in halves */
    int is_signed;
};

INLINE void chance_u8(struct chance *of, float inverse, float zero,
                      const struct oct__stream *stream) {
    of->inverse = wide_of(inverse);
    of->high = wide_of(255.0f - zero);
    of->zero = ints_of((int32_t)zero * 0x10001);
    of->is_signed = 0;
    philox_init(&of->blocks, stream);
}

INLINE void chance_s8(struct chance *of, float inverse, const struct oct__stream *stream) {
    of->inverse = wide_of(inverse);
    of->high = wide_of(127.0f);
    of->zero = ints_of(0);
    of->is_signed = 1;
    philox_init(&of->blocks, stream);
}

/* floor(x * inverse + (k + 0.5) * 2^-16) + zero; what is added to the product is exact. */
INLINE ints round_chance(const struct chance *of, wide x, ints k) {
    wide dither = wide_exact_add(wide_ints(k), wide_of(0x1p-16f), wide_of(0x1p-17f));
    wide t = x * of->inverse + dither;
    return ints_floor(wide_smaller(of->high, t));
}

/* Elements 0 … 127 of a tile, which begins at element i. Element 16 w + b takes the lower half of
 * word w of block b, element 64 + 16 w + b its upper half. */
INLINE void quantize_tile(const struct chance *of, uint64_t tile, const struct source *x, size_t i,
                          unsigned char *q) {
    const ints lower = ints_of(0xffff);
    ints word[4][PHILOX_VECTORS];
    philox_draw(&of->blocks, (uint32_t)(PHILOX_BLOCKS * tile), word);
    for (size_t at = 0; at < TILE; at += 4 * LANES) {
        ints v[4];
        for (size_t part = 0; part < 4; part++) {
            size_t j = at + part * LANES;
            ints w = word[j / 16 % 4][j % 16 / LANES];
            ints k = j < 64 ? ints_and(w, lower) : ints_shift_right(w, 16);
            v[part] = round_chance(of, source_get(x, i + j, 1, 0), k);
        }
        ints_store(q + i + at, pack_bytes(of->is_signed, of->zero, v[0], v[1], v[2], v[3]));
    }
}

/* Elements from … from + n - 1 of a tile: x's elements i … i + n - 1. Rare, so that one function
 * serves all sources. */
static __attribute__((__noinline__)) void quantize_part(const struct chance *of, uint64_t tile,
                                                        size_t from, size_t n,
                                                        const struct source *x, size_t i,
                                                        unsigned char *q) {
    const size_t a = source_bytes_a(x->kind), b = source_bytes_b(x->kind);
    unsigned char in_a[4 * TILE] = {0}, in_b[TILE] = {0}, out[TILE];
    struct source in = *x;
    memcpy(in_a + a * from, (const char *)x->a + a * i, a * n);
    in.a = in_a;
    if (b != 0) {
        memcpy(in_b + b * from, (const char *)x->b + b * i, b * n);
        in.b = in_b;
    }
    quantize_tile(of, tile, &in, 0, out);
    memcpy(q + i, out + from, n);
}

INLINE void quantize_random(const struct chance *of, size_t n, uint64_t first, struct source x,
                            void *bytes) {
    unsigned char *q = bytes;
    size_t i = 0, from = first % TILE;
    if (from != 0 && n != 0) {
        i = n < TILE - from ? n : TILE - from;
        quantize_part(of, first / TILE, from, i, &x, 0, q);
    }
    for (; n - i >= TILE; i += TILE) {
        quantize_tile(of, (first + i) / TILE, &x, i, q);
    }
    if (i < n) {
        quantize_part(of, (first + i) / TILE, 0, n - i, &x, i, q);
    }
}

void OCT_WIDE(quantize_u8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      float zero, const struct oct__stream *stream, uint8_t *q) {
    struct chance of;
    chance_u8(&of, inverse, zero, stream);
    quantize_random(&of, n, first, source_f32(x), q);
}

void OCT_WIDE(quantize_s8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      const struct oct__stream *stream, int8_t *q) {
    struct chance of;
    chance_s8(&of, inverse, stream);
    quantize_random(&of, n, first, source_f32(x), q);
}

void OCT_WIDE(quantize_s8_random_bf16)(size_t n, uint64_t first, const uint16_t *x, float scale,
                                       float inverse, const struct oct__stream *stream, int8_t *q) {
    struct chance of;
    chance_s8(&of, inverse, stream);
    quantize_random(&of, n, first, source_bf16(x, scale), q);
}

void OCT_WIDE(quantize_s8_random_s32)(size_t n, uint64_t first, const int32_t *x, float scale,
                                      float inverse, const struct oct__stream *stream, int8_t *q) {
    struct chance of;
    chance_s8(&of, inverse, stream);
    quantize_random(&of, n, first, source_s32(x, scale), q);
}

void OCT_WIDE(quantize_s8_random_s32_s8)(size_t n, uint64_t first, const int32_t *a, float scale_a,
                                         const int8_t *b, float scale_b, float inverse,
                                         const struct oct__stream *stream, int8_t *q) {
    struct chance of;
    chance_s8(&of, inverse, stream);
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
