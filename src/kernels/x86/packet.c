/* SPDX-License-Identifier: Apache-2.0 */
/* packet.c - the wide kernels that pack rows of parameters and add packets to them. */
#include "kernels/x86/philox.h"

/* --- which words are large ------------------------------------------------------------------- */

#if defined(__AVX512F__)

INLINE uint32_t above(const char *x, ints mask, ints least) {
    const ints a = _mm512_and_si512(_mm512_loadu_si512(x), mask);
    const ints b = _mm512_and_si512(_mm512_loadu_si512(x + 64), mask);
    return (uint32_t)_mm512_cmpge_epu32_mask(a, least) | (uint32_t)_mm512_cmpge_epu32_mask(b, least)
                                                             << 16;
}

#else

/* Not less is: the larger of both is the word itself. */
INLINE uint32_t above_eight(const char *x, ints mask, ints least) {
    const ints v = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)x), mask);
    const ints large = _mm256_cmpeq_epi32(_mm256_max_epu32(v, least), v);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(large));
}

INLINE uint32_t above(const char *x, ints mask, ints least) {
    return above_eight(x, mask, least) | above_eight(x + 32, mask, least) << 8 |
           above_eight(x + 64, mask, least) << 16 | above_eight(x + 96, mask, least) << 24;
}

#endif

void OCT_WIDE(above_u32)(size_t n, const void *x, uint32_t mask, uint32_t least, uint32_t *bits) {
    const ints masks = ints_of((int32_t)mask), leasts = ints_of((int32_t)least);
    const char *from = x;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        bits[i / 32] = above(from + 4 * i, masks, leasts);
    }
    if (i < n) {
        char last[128] = {0};
        memcpy(last, from + 4 * i, 4 * (n - i));
        bits[i / 32] = above(last, masks, leasts) & ((1U << (n - i)) - 1U);
    }
}

/* --- random words ---------------------------------------------------------------------------- */

enum { DRAW = 4 * PHILOX_BLOCKS }; /* words */

/* Words in order: those of a block side by side. */
#if defined(__AVX512F__)

INLINE void store_blocks(uint32_t *y, ints w0, ints w1, ints w2, ints w3) {
    const ints low01 = _mm512_unpacklo_epi32(w0, w1), high01 = _mm512_unpackhi_epi32(w0, w1);
    const ints low23 = _mm512_unpacklo_epi32(w2, w3), high23 = _mm512_unpackhi_epi32(w2, w3);
    /* blocks b, b + 4, b + 8, b + 12 */
    const ints b0 = _mm512_unpacklo_epi64(low01, low23), b1 = _mm512_unpackhi_epi64(low01, low23);
    const ints b2 = _mm512_unpacklo_epi64(high01, high23);
    const ints b3 = _mm512_unpackhi_epi64(high01, high23);
    const ints front01 = _mm512_shuffle_i32x4(b0, b1, 0x44);
    const ints front23 = _mm512_shuffle_i32x4(b2, b3, 0x44);
    const ints back01 = _mm512_shuffle_i32x4(b0, b1, 0xee);
    const ints back23 = _mm512_shuffle_i32x4(b2, b3, 0xee);
    ints_store(y, _mm512_shuffle_i32x4(front01, front23, 0x88));
    ints_store(y + 16, _mm512_shuffle_i32x4(front01, front23, 0xdd));
    ints_store(y + 32, _mm512_shuffle_i32x4(back01, back23, 0x88));
    ints_store(y + 48, _mm512_shuffle_i32x4(back01, back23, 0xdd));
}

#else

INLINE void store_blocks(uint32_t *y, ints w0, ints w1, ints w2, ints w3) {
    const ints low01 = _mm256_unpacklo_epi32(w0, w1), high01 = _mm256_unpackhi_epi32(w0, w1);
    const ints low23 = _mm256_unpacklo_epi32(w2, w3), high23 = _mm256_unpackhi_epi32(w2, w3);
    /* blocks b, b + 4 */
    const ints b0 = _mm256_unpacklo_epi64(low01, low23), b1 = _mm256_unpackhi_epi64(low01, low23);
    const ints b2 = _mm256_unpacklo_epi64(high01, high23);
    const ints b3 = _mm256_unpackhi_epi64(high01, high23);
    ints_store(y, _mm256_permute2x128_si256(b0, b1, 0x20));
    ints_store(y + 8, _mm256_permute2x128_si256(b2, b3, 0x20));
    ints_store(y + 16, _mm256_permute2x128_si256(b0, b1, 0x31));
    ints_store(y + 24, _mm256_permute2x128_si256(b2, b3, 0x31));
}

#endif

INLINE void draw(const struct philox *blocks, uint32_t first, uint32_t *y) {
    ints word[PHILOX_VECTORS][4];
    philox_draw(blocks, OCT_PHILOX_ROUNDS, first, word);
    for (size_t v = 0; v < PHILOX_VECTORS; v++) {
        store_blocks(y + 4 * LANES * v, word[v][0], word[v][1], word[v][2], word[v][3]);
    }
}

/* The words from `skip` on of the blocks drawn at once. */
static __attribute__((__noinline__)) void draw_part(const struct philox *blocks, uint32_t first,
                                                    size_t skip, size_t n, uint32_t *y) {
    uint32_t all[DRAW];
    draw(blocks, first, all);
    memcpy(y, all + skip, n * sizeof *y);
}

void OCT_WIDE(draw_u32)(size_t n, uint64_t first, const struct oct__stream *stream, uint32_t *y) {
    struct philox blocks;
    philox_init(&blocks, stream);
    uint32_t block = (uint32_t)(first / 4);
    size_t i = 0, skip = first % 4;
    if (skip != 0 && n != 0) {
        i = n < DRAW - skip ? n : DRAW - skip;
        draw_part(&blocks, block, skip, i, y);
        block += PHILOX_BLOCKS;
    }
    for (; n - i >= DRAW; i += DRAW, block += PHILOX_BLOCKS) {
        draw(&blocks, block, y + i);
    }
    if (i < n) {
        draw_part(&blocks, block, 0, n - i, y + i);
    }
}

/* --- adding a packet ------------------------------------------------------------------------- */

#if !defined(__AVX512F__) /* avx512 measured no faster */

INLINE wide added(const int8_t *q, wide scale, wide a, const float *y, int full, size_t n) {
    return wide_get(y, full, n) + a * (scale * wide_ints(ints_get_s8(q, full, n)));
}

void OCT_WIDE(axpy_s8_f32)(size_t n, float a, const int8_t *q, float scale, float *y) {
    const wide scales = wide_of(scale), factors = wide_of(a);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const wide u = added(q + i, scales, factors, y + i, 1, 0);
        const wide v = added(q + i + LANES, scales, factors, y + i + LANES, 1, 0);
        wide_store(y + i, u);
        wide_store(y + i + LANES, v);
    }
    if (i + LANES <= n) {
        wide_store(y + i, added(q + i, scales, factors, y + i, 1, 0));
        i += LANES;
    }
    if (i < n) {
        wide_store_first(y + i, added(q + i, scales, factors, y + i, 0, n - i), n - i);
    }
}

#endif
