/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.c - the specification of floats and bytes becoming bf16, and of the way back.
 *
 * In integers: the instructions some processors have for it flush denormals to zero, and the bits
 * must not depend on the processor.
 */
#include <string.h>

#include "kernels/variants.h"

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Adding just under half of what is cut off, and that half itself where the last bit kept is odd,
 * carries into the upper half exactly when rounding goes up; the largest become infinite so. */
static uint16_t round_bits(uint32_t bits) {
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return (uint16_t)(0x7fc0U | (bits >> 16 & 0x8000U));
    }
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

void oct_round_bf16_f32__ref(size_t n, const float *x, uint16_t *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = round_bits(bits_of(x[i]));
    }
}

void oct_widen_bf16_f32__ref(size_t n, const uint16_t *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        memcpy(&y[i], &bits, sizeof bits);
    }
}

/* A whole number up to 255 has eight bits, as many as bf16 keeps. */
void oct_center_u8_bf16__ref(size_t n, const uint8_t *q, float zero, uint16_t *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (uint16_t)(bits_of((float)q[i] - zero) >> 16);
    }
}
