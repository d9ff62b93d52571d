/* SPDX-License-Identifier: Apache-2.0 */
/* extremes.c - the specification of the kernels that find a tensor's range.
 *
 * Floats are compared by their bits and not by <, because a NaN must come through: a run that has
 * diverged shows it in the scales. The bits of a float are a sign and a magnitude; turning the
 * magnitude around where the sign is set makes them a two's complement number in the same order.
 */
#include <string.h>

#include "kernels/variants.h"

static int32_t order_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits ^= bits >> 31 ? 0x7fffffffU : 0U;
    int32_t order;
    memcpy(&order, &bits, sizeof order);
    return order;
}

static void widen_range(float x, float *range) {
    range[0] = order_of(x) < order_of(range[0]) ? x : range[0];
    range[1] = order_of(x) > order_of(range[1]) ? x : range[1];
}

void oct_minmax_f32__ref(size_t n, const float *x, float *range) {
    for (size_t i = 0; i < n; i++) {
        widen_range(x[i], range);
    }
}

void oct_minmax_sum_u8__ref(size_t n, const uint8_t *a, float scale_a, float zero_a,
                            const uint8_t *b, float scale_b, float zero_b, float *range) {
    for (size_t i = 0; i < n; i++) {
        widen_range(scale_a * ((float)a[i] - zero_a) + scale_b * ((float)b[i] - zero_b), range);
    }
}

void oct_minmax_s32__ref(size_t n, const int32_t *x, int32_t *range) {
    for (size_t i = 0; i < n; i++) {
        range[0] = x[i] < range[0] ? x[i] : range[0];
        range[1] = x[i] > range[1] ? x[i] : range[1];
    }
}

static void raise_peak(float x, float *peak) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7fffffffU;
    float size;
    memcpy(&size, &bits, sizeof size);
    *peak = order_of(size) > order_of(*peak) ? size : *peak;
}

void oct_absmax_f32__ref(size_t n, const float *x, float *peak) {
    for (size_t i = 0; i < n; i++) {
        raise_peak(x[i], peak);
    }
}

void oct_absmax_bf16__ref(size_t n, const uint16_t *x, float *peak) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        raise_peak(wide, peak);
    }
}

void oct_absmax_s32__ref(size_t n, const int32_t *x, uint32_t *peak) {
    for (size_t i = 0; i < n; i++) {
        uint32_t size = x[i] < 0 ? 0U - (uint32_t)x[i] : (uint32_t)x[i];
        *peak = size > *peak ? size : *peak;
    }
}

void oct_absmax_s32_s8__ref(size_t n, const int32_t *a, float scale_a, const int8_t *b,
                            float scale_b, float *peak) {
    for (size_t i = 0; i < n; i++) {
        raise_peak(scale_a * (float)a[i] + scale_b * (float)b[i], peak);
    }
}
