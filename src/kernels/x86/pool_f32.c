/* SPDX-License-Identifier: Apache-2.0 */
/* pool_f32.c - max pooling, a vector of channels at a time: no branch depends on the data, which is what
 * made the plain loop slow.
 */
#include "kernels/x86/bytes.h"

#if defined(__AVX512F__)

typedef __mmask16 choice;

/* x > y, or a NaN where y is none: not x <= y with both of them numbers, unless y is a NaN */
INLINE choice is_larger(wide x, wide y) {
    return (choice)(_mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ) & _mm512_cmp_ps_mask(y, y, _CMP_ORD_Q));
}

INLINE choice is_place(ints which, ints place) {
    return _mm512_cmpeq_epi32_mask(which, place);
}

INLINE wide wide_choose(choice take, wide a, wide b) {
    return _mm512_mask_mov_ps(b, take, a);
}

INLINE ints ints_choose(choice take, ints a, ints b) {
    return _mm512_mask_mov_epi32(b, take, a);
}

#else

typedef wide choice;

INLINE choice is_larger(wide x, wide y) {
    return _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_NLE_UQ), _mm256_cmp_ps(y, y, _CMP_ORD_Q));
}

INLINE choice is_place(ints which, ints place) {
    return wide_bits(_mm256_cmpeq_epi32(which, place));
}

INLINE wide wide_choose(choice take, wide a, wide b) {
    return _mm256_blendv_ps(b, a, take);
}

INLINE ints ints_choose(choice take, ints a, ints b) {
    return ints_bits(_mm256_blendv_ps(wide_bits(b), wide_bits(a), take));
}

#endif

INLINE void step(ints place, const float *x, float *y, uint8_t *which, int full, size_t n) {
    const wide from = wide_get(x, full, n), best = wide_get(y, full, n);
    const choice take = is_larger(from, best);
    wide_put(y, wide_choose(take, from, best), full, n);
    ints_put_8(which, ints_choose(take, place, ints_get_u8(which, full, n)), full, n);
}

void OCT_WIDE(max_pool_f32)(size_t n, uint8_t place, const float *x, float *y, uint8_t *which) {
    const ints number = ints_of(place);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        step(number, x + i, y + i, which + i, 1, 0);
    }
    if (i < n) {
        step(number, x + i, y + i, which + i, 0, n - i);
    }
}

INLINE void grad_step(ints place, const uint8_t *which, const float *dy, float *dx, int full,
                      size_t n) {
    const wide to = wide_get(dx, full, n);
    const choice take = is_place(ints_get_u8(which, full, n), place);
    wide_put(dx, wide_choose(take, to + wide_get(dy, full, n), to), full, n);
}

void OCT_WIDE(max_pool_grad_f32)(size_t n, uint8_t place, const uint8_t *which, const float *dy,
                                 float *dx) {
    const ints number = ints_of(place);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        grad_step(number, which + i, dy + i, dx + i, 1, 0);
    }
    if (i < n) {
        grad_step(number, which + i, dy + i, dx + i, 0, n - i);
    }
}
