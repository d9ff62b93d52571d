/* SPDX-License-Identifier: Apache-2.0 */
/* taps.c - exact integer products in vectors: pairs of 16-bit numbers multiplied, and added.
 *
 * vpmaddwd multiplies two pairs of a lane and adds the products in 32 bits, where two of them
 * always fit. (Its sister for bytes, vpmaddubsw, adds them in 16 bits and saturates.) A lane is an
 * output; the pair of values that meets all outputs' weights is broadcast from memory:
 *
 *            weights of pair i       A block of positions x vectors of outputs stays in registers
 *     x[0]   sum 0,0     sum 0,1     while i walks along the run: 4 x 2 of the 16 there are under
 *     x[1]   sum 1,0     sum 1,1     AVX2, 8 x 2 of the 32 under AVX-512. Each weight is loaded
 *     …                              once a block.
 */
#include <string.h>

#include "kernels/x86/wide.h"

#if defined(__AVX512F__)

typedef __m512i whole;

INLINE whole whole_pair(const int16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm512_set1_epi32(pair);
}

INLINE whole whole_get(const void *p, int full, size_t n) {
    return full ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi32(wide_first(n), p);
}

INLINE void whole_put(int32_t *p, whole v, int full, size_t n) {
    if (full) {
        _mm512_storeu_si512(p, v);
    } else {
        _mm512_mask_storeu_epi32(p, wide_first(n), v);
    }
}

INLINE whole whole_add_products(whole sum, whole a, whole b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}

#else

typedef __m256i whole;

INLINE whole whole_pair(const int16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm256_set1_epi32(pair);
}

INLINE whole whole_get(const void *p, int full, size_t n) {
    return full ? _mm256_loadu_si256(p) : _mm256_maskload_epi32(p, wide_first(n));
}

/* In pieces, as wide_store_first does. */
INLINE void whole_put(int32_t *p, whole v, int full, size_t n) {
    if (full) {
        _mm256_storeu_si256((__m256i *)(void *)p, v);
        return;
    }
    __m128i part = _mm256_castsi256_si128(v);
    if (n & 4) {
        _mm_storeu_si128((__m128i *)(void *)p, part);
        part = _mm256_extracti128_si256(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_epi64((__m128i *)(void *)p, part);
        part = _mm_unpackhi_epi64(part, part);
        p += 2;
    }
    if (n & 1) {
        *p = _mm_cvtsi128_si32(part);
    }
}

INLINE whole whole_add_products(whole sum, whole a, whole b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

#endif

/* What a block needs to know; x, w and sums point to its first position and output. */
struct row {
    size_t step, pairs, out, out_stride;
    const int16_t *x, *w;
    int32_t *sums;
};

enum { BLOCK = LANES == 16 ? 8 : 4, VECTORS = 2 };

/* `positions` and `vectors` are constants where this is inlined; with one vector it may be the
 * last, `n` outputs wide. */
INLINE void block(const struct row *row, int positions, int vectors, int full, size_t n) {
    whole sum[BLOCK][VECTORS], weight[VECTORS];
    for (int p = 0; p < positions; p++) {
        for (int v = 0; v < vectors; v++) {
            sum[p][v] =
                whole_get(row->sums + (size_t)p * row->out_stride + (size_t)v * LANES, full, n);
        }
    }
    const int16_t *w = row->w, *x = row->x;
    for (size_t i = 0; i < row->pairs; i++, w += 2 * row->out, x += 2) {
        for (int v = 0; v < vectors; v++) {
            weight[v] = whole_get(w + (size_t)v * 2 * LANES, full, n);
        }
        for (int p = 0; p < positions; p++) {
            whole pair = whole_pair(x + (size_t)p * row->step);
            for (int v = 0; v < vectors; v++) {
                sum[p][v] = whole_add_products(sum[p][v], pair, weight[v]);
            }
        }
    }
    for (int p = 0; p < positions; p++) {
        for (int v = 0; v < vectors; v++) {
            whole_put(row->sums + (size_t)p * row->out_stride + (size_t)v * LANES, sum[p][v], full,
                      n);
        }
    }
}

/* All positions, at `vectors` vectors of outputs. */
INLINE void along(struct row row, size_t positions, int vectors, int full, size_t n) {
    for (; positions >= BLOCK; positions -= BLOCK) {
        block(&row, BLOCK, vectors, full, n);
        row.x += BLOCK * row.step;
        row.sums += BLOCK * row.out_stride;
    }
    if (BLOCK > 4 && positions >= 4) {
        block(&row, 4, vectors, full, n);
        row.x += 4 * row.step;
        row.sums += 4 * row.out_stride;
        positions -= 4;
    }
    switch (positions) {
    case 3:
        block(&row, 3, vectors, full, n);
        break;
    case 2:
        block(&row, 2, vectors, full, n);
        break;
    case 1:
        block(&row, 1, vectors, full, n);
        break;
    default:
        break;
    }
}

void OCT_WIDE(taps_s16_s32)(size_t positions, size_t step, size_t pairs, size_t out,
                            size_t out_stride, const int16_t *x, const int16_t *w, int32_t *sums) {
    struct row row = {step, pairs, out, out_stride, x, w, sums};
    size_t o = 0;
    for (; o + VECTORS * LANES <= out; o += VECTORS * LANES) {
        row.w = w + 2 * o;
        row.sums = sums + o;
        along(row, positions, VECTORS, 1, LANES);
    }
    row.w = w + 2 * o;
    row.sums = sums + o;
    if (o + LANES <= out) {
        along(row, positions, 1, 1, LANES);
        o += LANES;
        row.w += 2 * LANES;
        row.sums += LANES;
    }
    if (o < out) {
        along(row, positions, 1, 0, out - o);
    }
}
