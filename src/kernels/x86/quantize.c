/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - the wide kernels that turn floats into bytes, and clear what the borders cut off.
 *
 * Of ref's two borders only the upper one is held in floats: a float too large would convert to the
 * most negative integer, as a NaN and one too small do, and those the packing to bytes holds to the
 * lower border, where they belong.
 */
#include "kernels/x86/philox.h"

/* rint(t) + zero, t = x * inverse, not below 0 after packing. */
INLINE ints round_nearest(wide x, wide inverse, wide high, ints zero) {
    return ints_add(ints_nearest(wide_smaller(high, x * inverse)), zero);
}

/* A few at the end: to be held to `low` here. */
INLINE void put_held(void *q, ints v, int32_t low, size_t n) {
    ints_put_8(q, ints_larger(v, ints_of(low)), n == LANES, n);
}

void OCT_WIDE(quantize_u8_f32)(size_t n, const float *x, float inverse, float zero, uint8_t *q) {
    const wide by = wide_of(inverse), high = wide_of(255.0f - zero);
    const ints add = ints_of((int32_t)zero);
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        ints a = round_nearest(wide_load(x + i), by, high, add);
        ints b = round_nearest(wide_load(x + i + LANES), by, high, add);
        ints c = round_nearest(wide_load(x + i + 2 * LANES), by, high, add);
        ints d = round_nearest(wide_load(x + i + 3 * LANES), by, high, add);
        ints_store(q + i, ints_pack_u8(a, b, c, d));
    }
    for (; i + LANES <= n; i += LANES) {
        put_held(q + i, round_nearest(wide_load(x + i), by, high, add), 0, LANES);
    }
    if (i < n) {
        put_held(q + i, round_nearest(wide_load_first(x + i, n - i), by, high, add), 0, n - i);
    }
}

void OCT_WIDE(quantize_s8_f32)(size_t n, const float *x, float inverse, int8_t *q) {
    const wide by = wide_of(inverse), high = wide_of(127.0f);
    const ints add = ints_of(0), low = ints_of_8(-127);
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        ints a = round_nearest(wide_load(x + i), by, high, add);
        ints b = round_nearest(wide_load(x + i + LANES), by, high, add);
        ints c = round_nearest(wide_load(x + i + 2 * LANES), by, high, add);
        ints d = round_nearest(wide_load(x + i + 3 * LANES), by, high, add);
        ints_store(q + i, ints_larger_s8(ints_pack_s8(a, b, c, d), low));
    }
    for (; i + LANES <= n; i += LANES) {
        put_held(q + i, round_nearest(wide_load(x + i), by, high, add), -127, LANES);
    }
    if (i < n) {
        put_held(q + i, round_nearest(wide_load_first(x + i, n - i), by, high, add), -127, n - i);
    }
}

/* --- rounding by chance ----------------------------------------------------------------------- */

enum { TILE = 128 };

struct chance {
    struct philox blocks;
    wide inverse, high;
    ints zero;
    int is_signed;
};

/* floor(x * inverse + (k + 0.5) * 2^-16) + zero; what is added to the product is exact. */
INLINE ints round_chance(const struct chance *of, const float *x, ints k) {
    wide dither = wide_exact_add(wide_ints(k), wide_of(0x1p-16f), wide_of(0x1p-17f));
    wide t = wide_load(x) * of->inverse + dither;
    return ints_add(ints_floor(wide_smaller(of->high, t)), of->zero);
}

/* Elements 0 … 127 of a tile. Element 16 w + b takes the lower half of word w of block b, element
 * 64 + 16 w + b its upper half. */
INLINE void quantize_tile(const struct chance *of, uint64_t tile, const float *x, void *q) {
    const ints lower = ints_of(0xffff), low = ints_of_8(-127);
    ints word[4][PHILOX_VECTORS];
    philox_draw(&of->blocks, (uint32_t)(PHILOX_BLOCKS * tile), word);
    for (size_t at = 0; at < TILE; at += 4 * LANES) {
        ints v[4];
        for (size_t i = 0; i < 4; i++) {
            size_t j = at + i * LANES;
            ints w = word[j / 16 % 4][j % 16 / LANES];
            ints k = j < 64 ? ints_and(w, lower) : ints_shift_right(w, 16);
            v[i] = round_chance(of, x + j, k);
        }
        ints bytes = of->is_signed ? ints_larger_s8(ints_pack_s8(v[0], v[1], v[2], v[3]), low)
                                   : ints_pack_u8(v[0], v[1], v[2], v[3]);
        ints_store((char *)q + at, bytes);
    }
}

/* Elements from … from + n - 1 of a tile. */
static __attribute__((__noinline__)) void quantize_part(const struct chance *of, uint64_t tile,
                                                        size_t from, size_t n, const float *x,
                                                        void *q) {
    float in[TILE] = {0};
    unsigned char out[TILE];
    memcpy(in + from, x, n * sizeof *x);
    quantize_tile(of, tile, in, out);
    memcpy(q, out + from, n);
}

INLINE void quantize_random(const struct chance *of, size_t n, uint64_t first, const float *x,
                            unsigned char *q) {
    size_t i = 0, from = first % TILE;
    if (from != 0 && n != 0) {
        i = n < TILE - from ? n : TILE - from;
        quantize_part(of, first / TILE, from, i, x, q);
    }
    for (; n - i >= TILE; i += TILE) {
        quantize_tile(of, (first + i) / TILE, x + i, q + i);
    }
    if (i < n) {
        quantize_part(of, (first + i) / TILE, 0, n - i, x + i, q + i);
    }
}

void OCT_WIDE(quantize_u8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      float zero, const struct oct__stream *stream, uint8_t *q) {
    struct chance of = {.inverse = wide_of(inverse),
                        .high = wide_of(255.0f - zero),
                        .zero = ints_of((int32_t)zero)};
    philox_init(&of.blocks, stream);
    quantize_random(&of, n, first, x, q);
}

void OCT_WIDE(quantize_s8_random_f32)(size_t n, uint64_t first, const float *x, float inverse,
                                      const struct oct__stream *stream, int8_t *q) {
    struct chance of = {
        .inverse = wide_of(inverse), .high = wide_of(127.0f), .zero = ints_of(0), .is_signed = 1};
    philox_init(&of.blocks, stream);
    quantize_random(&of, n, first, x, (unsigned char *)q);
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

INLINE ints load_bytes(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
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
        ints clear = clipped(load_bytes(q + i), low);
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
        ints clear = clipped(load_bytes(q + i), low);
        ints_store(x + i, _mm256_andnot_si256(clear, load_bytes(x + i)));
    }
    if (i < n) {
        uint8_t from[32] = {0};
        int8_t to[32] = {0};
        memcpy(from, q + i, n - i);
        memcpy(to, x + i, n - i);
        ints_store(to, _mm256_andnot_si256(clipped(load_bytes(from), low), load_bytes(to)));
        memcpy(x + i, to, n - i);
    }
}

#endif
