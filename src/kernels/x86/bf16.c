/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.c - the wide kernels to and from bf16, in integers as ref has them. */
#include "kernels/x86/bytes.h"

/* The bits with every NaN made the quiet one that has no more bits than bf16 keeps. */
INLINE ints tame(wide x) {
    const ints quiet = ints_of(0x7fc00000), sign = ints_of(INT32_MIN);
    ints bits = ints_bits(x);
#if defined(__AVX512F__)
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_ternarylogic_epi32(bits, nan, sign, quiet, 0xea); /* bits & sign | quiet */
#else
    wide nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    ints replaced = _mm256_or_si256(_mm256_and_si256(bits, sign), quiet);
    return ints_bits(_mm256_blendv_ps(x, wide_bits(replaced), nan));
#endif
}

INLINE ints round_bits(wide x) {
    ints bits = tame(x);
    ints odd = ints_and(ints_shift_right(bits, 16), ints_of(1));
    return ints_shift_right(ints_add(ints_add(bits, ints_of(0x7fff)), odd), 16);
}

void OCT_WIDE(round_bf16_f32)(size_t n, const float *x, uint16_t *y) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        ints a = round_bits(wide_load(x + i)), b = round_bits(wide_load(x + i + LANES));
        ints_store(y + i, ints_pack_u16(a, b));
    }
    if (i + LANES <= n) {
        ints_put_16(y + i, round_bits(wide_load(x + i)), 1, 0);
        i += LANES;
    }
    if (i < n) {
        ints_put_16(y + i, round_bits(wide_load_first(x + i, n - i)), 0, n - i);
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
