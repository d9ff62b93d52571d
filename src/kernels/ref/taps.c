/* SPDX-License-Identifier: Apache-2.0 */
/* taps.c - the specification of the exact integer products: widening, and one row of a kernel.
 *
 * Sums are taken modulo 2^32, which is what vector instructions do; whoever calls sees to it that
 * nothing that matters comes near the border (engine/exact.c counts the terms).
 */
#include "kernels/variants.h"

void oct_center_u8_s16__ref(size_t n, const uint8_t *q, int zero, int16_t *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (int16_t)(q[i] - zero);
    }
}

static uint32_t product(int16_t a, int16_t b) {
    return (uint32_t)((int32_t)a * b);
}

void oct_taps_s16_s32__ref(size_t positions, size_t step, size_t pairs, size_t out,
                           size_t out_stride, const int16_t *x, const int16_t *w, int32_t *sums) {
    for (size_t p = 0; p < positions; p++) {
        int32_t *to = sums + p * out_stride;
        const int16_t *from = x + p * step;
        for (size_t i = 0; i < pairs; i++) {
            const int16_t *tap = w + i * out * 2;
            for (size_t o = 0; o < out; o++) {
                uint32_t pair =
                    product(from[2 * i], tap[2 * o]) + product(from[2 * i + 1], tap[2 * o + 1]);
                to[o] = (int32_t)((uint32_t)to[o] + pair);
            }
        }
    }
}
