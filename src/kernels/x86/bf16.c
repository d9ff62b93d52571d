/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.c - the wide kernels to and from bf16, in integers as ref has them. */
#include "kernels/x86/bytes.h"

void OCT_WIDE(round_bf16_f32)(size_t n, const float *x, uint16_t *y) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        ints a = ints_round_bf16(wide_load(x + i)), b = ints_round_bf16(wide_load(x + i + LANES));
        ints_store(y + i, ints_pack_u16(a, b));
    }
    if (i + LANES <= n) {
        ints_put_16(y + i, ints_round_bf16(wide_load(x + i)), 1, 0);
        i += LANES;
    }
    if (i < n) {
        ints_put_16(y + i, ints_round_bf16(wide_load_first(x + i, n - i)), 0, n - i);
    }
}

#if !defined(__AVX512F__) /* avx512 measured no faster */

INLINE wide widen(const uint16_t *x, int full, size_t n) {
    return wide_bits(ints_shift_left(ints_get_u16(x, full, n), 16));
}

void OCT_WIDE(widen_bf16_f32)(size_t n, const uint16_t *x, float *y) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide a = widen(x + i, 1, 0), b = widen(x + i + LANES, 1, 0);
        wide_store(y + i, a);
        wide_store(y + i + LANES, b);
    }
    if (i + LANES <= n) {
        wide_store(y + i, widen(x + i, 1, 0));
        i += LANES;
    }
    if (i < n) {
        wide_store_first(y + i, widen(x + i, 0, n - i), n - i);
    }
}

/* Bytes in pairs: the even ones become the lower half of a place, the odd ones the upper half,
 * where a float has its bf16 already. */
INLINE ints center(__m128i bytes, wide zero) {
    ints pairs = _mm256_cvtepu16_epi32(bytes);
    wide even = wide_ints(ints_and(pairs, ints_of(0xff))) - zero;
    wide odd = wide_ints(ints_shift_right(pairs, 8)) - zero;
    return _mm256_blend_epi16(ints_shift_right(ints_bits(even), 16), ints_bits(odd), 0xaa);
}

void OCT_WIDE(center_u8_bf16)(size_t n, const uint8_t *q, float zero, uint16_t *y) {
    const wide off = wide_of(zero);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        ints_store(y + i, center(_mm_loadu_si128((const __m128i *)(const void *)(q + i)), off));
    }
    if (i < n) {
        uint16_t last[16];
        ints_store(last, center(few_bytes(q + i, n - i), off));
        memcpy(y + i, last, (n - i) * sizeof *y);
    }
}

#endif
