/* SPDX-License-Identifier: Apache-2.0 */
/* column_f32.c - the specification of the kernels over columns: x[rows][c], one parameter or one
 * sum a column. BatchNorm is made of them, and bias gradients. */
#include "kernels/ref/statistics.h"
#include "kernels/variants.h"

void oct_column_sum_f32__ref(size_t rows, size_t c, const float *x, float *sum) {
    for (size_t j = 0; j < c; j++) {
        sum[j] += column_total(rows, c, x + j);
    }
}

void oct_column_square_f32__ref(size_t rows, size_t c, const float *x, const float *mean,
                                float *sum) {
    for (size_t j = 0; j < c; j++) {
        sum[j] += column_squares(rows, c, x + j, mean[j]);
    }
}

void oct_column_affine_f32__ref(size_t rows, size_t c, const float *x, const float *scale,
                                const float *shift, float *y) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < c; j++) {
            y[r * c + j] = x[r * c + j] * scale[j] + shift[j];
        }
    }
}

void oct_column_norm_sums_f32__ref(size_t rows, size_t c, const float *x, const float *mean,
                                   const float *rstd, const float *dy, float *dscale,
                                   float *dshift) {
    for (size_t j = 0; j < c; j++) {
        float p[4] = {0}, q[4] = {0};
        for (size_t r = 0; r < rows; r++) {
            float xhat = (x[r * c + j] - mean[j]) * rstd[j];
            p[r % 4] += dy[r * c + j];
            q[r % 4] += dy[r * c + j] * xhat;
        }
        dshift[j] += fold4(p);
        dscale[j] += fold4(q);
    }
}

void oct_column_norm_grad_f32__ref(size_t rows, size_t c, const float *x, const float *mean,
                                   const float *rstd, const float *k, const float *a,
                                   const float *b, const float *dy, float *dx) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < c; j++) {
            float xhat = (x[r * c + j] - mean[j]) * rstd[j];
            dx[r * c + j] = k[j] * ((dy[r * c + j] - a[j]) - xhat * b[j]);
        }
    }
}
