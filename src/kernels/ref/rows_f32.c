/* SPDX-License-Identifier: Apache-2.0 */
/* rows_f32.c - the specification of what gossip does with rows of parameters. */
#include "kernels/variants.h"

void oct_difference_f32__ref(size_t n, const float *a, const float *b, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] - b[i];
    }
}

void oct_axpy_f32__ref(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] + a * x[i];
    }
}

void oct_mean_f32__ref(size_t n, size_t n_rows, size_t stride, float *rows) {
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < n_rows; r++) {
            sum += (double)rows[r * stride + i];
        }
        float mean = (float)(sum / (double)n_rows);
        for (size_t r = 0; r < n_rows; r++) {
            rows[r * stride + i] = mean;
        }
    }
}

void oct_divide_f32__ref(size_t n, const float *x, float weight, float *z) {
    for (size_t i = 0; i < n; i++) {
        z[i] = x[i] / weight;
    }
}

void oct_settle_f32__ref(size_t n, const float *x, float weight, float beta, float share, float *z,
                         float *m) {
    for (size_t i = 0; i < n; i++) {
        float after = x[i] / weight;
        m[i] = beta * m[i] + share * (z[i] - after);
        z[i] = after;
    }
}
