/* SPDX-License-Identifier: Apache-2.0 */
/* evonorm_f32.c - the specification of EvoNorm-S0 (Liu, Brock, Simonyan, Le 2020), one sample, and
 * its gradient.
 *
 * y = gamma * e * rstd + beta with e = x * sigmoid(v * x). x acts twice: through e, and through
 * rstd, where d rstd / dx = -rstd^3 * (x - mean) / m. The mean itself does not appear in y; it is
 * kept for the gradient.
 */
#include "kernels/exp.h"
#include "kernels/ref/statistics.h"
#include "kernels/variants.h"

void oct_evonorm_f32__ref(size_t hw, size_t c, size_t groups, const float *x, const float *gamma,
                          const float *beta, const float *v, float eps, float *mean, float *rstd,
                          float *y, float *work) {
    (void)work;
    size_t width = c / groups;
    group_statistics(hw, c, groups, x, eps, mean, rstd);
    for (size_t r = 0; r < hw; r++) {
        for (size_t j = 0; j < c; j++) {
            float at = x[r * c + j];
            float e = at * oct__sigmoid_f32(v[j] * at);
            y[r * c + j] = (gamma[j] * e) * rstd[j / width] + beta[j];
        }
    }
}

void oct_evonorm_grad_f32__ref(size_t hw, size_t c, size_t groups, const float *x,
                               const float *gamma, const float *v, const float *mean,
                               const float *rstd, const float *dy, float *dgamma, float *dbeta,
                               float *dv, float *dx, float *work) {
    (void)work;
    size_t width = c / groups;
    float m = (float)(hw * width);
    for (size_t g = 0; g < groups; g++) {
        float total = 0.0f; /* D of kernels.def */
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            float p[4] = {0}, q[4] = {0}, u[4] = {0};
            for (size_t r = 0; r < hw; r++) {
                float at = x[r * c + j], d = dy[r * c + j];
                float s = oct__sigmoid_f32(v[j] * at);
                float w = s * (1.0f - s);
                p[r % 4] += d;
                q[r % 4] += d * (at * s);
                u[r % 4] += (d * (at * at)) * w;
            }
            dbeta[j] += fold4(p);
            dgamma[j] += fold4(q) * rstd[g];
            dv[j] += (gamma[j] * rstd[g]) * fold4(u);
            total += gamma[j] * fold4(q);
        }
        float cube = (rstd[g] * rstd[g]) * rstd[g];
        float k = (total * cube) / m;
        for (size_t r = 0; r < hw; r++) {
            for (size_t j = g * width; j < (g + 1) * width; j++) {
                float at = x[r * c + j], a = v[j] * at;
                float s = oct__sigmoid_f32(a);
                float w = s * (1.0f - s);
                float direct = ((gamma[j] * rstd[g]) * dy[r * c + j]) * (s + a * w);
                dx[r * c + j] = direct - k * (at - mean[g]);
            }
        }
    }
}
