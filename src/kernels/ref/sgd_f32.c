/* SPDX-License-Identifier: Apache-2.0 */
/* sgd_f32.c - the specification of the optimizer's update. */
#include "kernels/variants.h"

void oct_sgd_f32__ref(size_t n, float *x, float *m, const float *g, float lr, float beta,
                      float decay) {
    for (size_t i = 0; i < n; i++) {
        float d = g[i] + decay * x[i];
        m[i] = beta * m[i] + d;
        x[i] = x[i] - lr * (d + beta * m[i]);
    }
}

void oct_sgd_global_f32__ref(size_t n, float *x, float *m, const float *g, float lr, float beta,
                             float decay, float own) {
    for (size_t i = 0; i < n; i++) {
        float d = g[i] + decay * x[i];
        float old = beta * m[i];
        float step = d + beta * (old + d);
        x[i] = x[i] - lr * step;
        m[i] = own != 0.0F ? old + own * step : m[i];
    }
}
