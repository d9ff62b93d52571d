/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize.c - the specification of bytes and sums becoming floats again.
 *
 * Sums of a product need not fit a float's 24 bits; their conversion rounds to the nearest, ties to
 * even.
 */
#include "kernels/variants.h"

void oct_dequantize_u8_f32__ref(size_t n, const uint8_t *q, float scale, float zero, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = scale * ((float)q[i] - zero);
    }
}

void oct_dequantize_add_u8_f32__ref(size_t n, const uint8_t *q, float scale, float zero, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] + scale * ((float)q[i] - zero);
    }
}

void oct_dequantize_s8_f32__ref(size_t n, const int8_t *q, float scale, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = scale * (float)q[i];
    }
}

void oct_dequantize_add_s8_f32__ref(size_t n, const int8_t *q, float scale, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] + scale * (float)q[i];
    }
}

void oct_dequantize_s32_f32__ref(size_t n, const int32_t *x, float scale, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = scale * (float)x[i];
    }
}

void oct_dequantize_add_s32_f32__ref(size_t n, const int32_t *x, float scale, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] + scale * (float)x[i];
    }
}

void oct_column_dequantize_s32_f32__ref(size_t rows, size_t c, const int32_t *x, const float *scale,
                                        const float *shift, float *y) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < c; j++) {
            y[r * c + j] = scale[j] * (float)x[r * c + j] + shift[j];
        }
    }
}

void oct_column_scale_f32__ref(size_t rows, size_t c, const float *x, const float *scale,
                               float *y) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < c; j++) {
            y[r * c + j] = x[r * c + j] * scale[j];
        }
    }
}
