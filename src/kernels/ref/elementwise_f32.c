/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_f32.c - the specification of the kernels that see a flat array. */
#include "kernels/variants.h"

#include <string.h>

void oct_add_f32__ref(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

void oct_relu_f32__ref(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}

void oct_relu_grad_f32__ref(size_t n, const float *y, const float *dy, float *dx) {
    for (size_t i = 0; i < n; i++) {
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    }
}

void oct_fold_f32__ref(size_t n, size_t n_parts, size_t stride, const float *parts, float *out) {
    for (size_t i = 0; i < n; i++) {
        float total = parts[i];
        for (size_t p = 1; p < n_parts; p++) {
            total += parts[p * stride + i];
        }
        out[i] = total;
    }
}

/* By the bits: an exponent of all ones is a NaN or an infinity. */
void oct_nonfinite_f32__ref(size_t n, const float *x, size_t *count) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found += (bits & 0x7f800000U) == 0x7f800000U;
    }
    *count = found;
}
