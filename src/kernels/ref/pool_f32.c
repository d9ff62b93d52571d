/* SPDX-License-Identifier: Apache-2.0 */
/* pool_f32.c - the specification of max pooling: one place of the window, channel by channel. */
#include "kernels/variants.h"

void oct_max_pool_f32__ref(size_t n, uint8_t place, const float *x, float *y, uint8_t *which) {
    for (size_t i = 0; i < n; i++) {
        if (x[i] > y[i] || (x[i] != x[i] && y[i] == y[i])) {
            y[i] = x[i];
            which[i] = place;
        }
    }
}

void oct_max_pool_grad_f32__ref(size_t n, uint8_t place, const uint8_t *which, const float *dy,
                                float *dx) {
    for (size_t i = 0; i < n; i++) {
        if (which[i] == place) {
            dx[i] = dx[i] + dy[i];
        }
    }
}
