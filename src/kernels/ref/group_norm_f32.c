/* SPDX-License-Identifier: Apache-2.0 */
/* group_norm_f32.c - the specification of GroupNorm (Wu, He 2018), one sample, and its gradient.
 *
 * With xhat = (x - mean) * rstd over a group of m values, y = xhat * gamma + beta:
 *   dL/dx = rstd * (gamma * dy - mean(gamma * dy) - xhat * mean(gamma * dy * xhat))
 */
#include "kernels/ref/statistics.h"
#include "kernels/variants.h"

void oct_group_norm_f32__ref(size_t hw, size_t c, size_t groups, const float *x, const float *gamma,
                             const float *beta, float eps, float *mean, float *rstd, float *y,
                             float *work) {
    (void)work;
    size_t width = c / groups;
    group_statistics(hw, c, groups, x, eps, mean, rstd);
    for (size_t r = 0; r < hw; r++) {
        for (size_t j = 0; j < c; j++) {
            size_t g = j / width;
            y[r * c + j] = ((x[r * c + j] - mean[g]) * rstd[g]) * gamma[j] + beta[j];
        }
    }
}

void oct_group_norm_grad_f32__ref(size_t hw, size_t c, size_t groups, const float *x,
                                  const float *gamma, const float *mean, const float *rstd,
                                  const float *dy, float *dgamma, float *dbeta, float *dx,
                                  float *work) {
    (void)work;
    size_t width = c / groups;
    float m = (float)(hw * width);
    for (size_t g = 0; g < groups; g++) {
        float sum_a = 0.0f, sum_b = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            float p[4] = {0}, q[4] = {0};
            for (size_t r = 0; r < hw; r++) {
                float xhat = (x[r * c + j] - mean[g]) * rstd[g];
                p[r % 4] += dy[r * c + j];
                q[r % 4] += dy[r * c + j] * xhat;
            }
            dbeta[j] += fold4(p);
            dgamma[j] += fold4(q);
            sum_a += gamma[j] * fold4(p);
            sum_b += gamma[j] * fold4(q);
        }
        float a = sum_a / m, b = sum_b / m;
        for (size_t r = 0; r < hw; r++) {
            for (size_t j = g * width; j < (g + 1) * width; j++) {
                float xhat = (x[r * c + j] - mean[g]) * rstd[g];
                dx[r * c + j] = rstd[g] * ((gamma[j] * dy[r * c + j] - a) - xhat * b);
            }
        }
    }
}
