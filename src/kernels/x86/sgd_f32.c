/* SPDX-License-Identifier: Apache-2.0 */
/* sgd_f32.c - the optimizer's update, a vector at a time.
 *
 * It moves five floats an element, so memory is its limit; avx512 measured no faster than avx2.
 */
#include "kernels/x86/wide.h"

#if !defined(__AVX512F__)

/* Returns the new momentum. */
INLINE wide sgd_step(float *x, const float *m, const float *g, wide lr, wide beta, wide decay,
                     int full, size_t n) {
    wide at = wide_get(x, full, n);
    wide d = wide_get(g, full, n) + decay * at;
    wide momentum = beta * wide_get(m, full, n) + d;
    wide_put(x, at - lr * (d + beta * momentum), full, n);
    return momentum;
}

/* The same with the node's own part in a momentum that gossip has the other in. */
INLINE void sgd_own_step(float *x, float *m, const float *g, wide lr, wide beta, wide decay,
                         wide own, int full, size_t n) {
    wide at = wide_get(x, full, n);
    wide d = wide_get(g, full, n) + decay * at;
    wide old = beta * wide_get(m, full, n);
    wide step = d + beta * (old + d);
    wide_put(x, at - lr * step, full, n);
    wide_put(m, old + own * step, full, n);
}

void OCT_WIDE(sgd_f32)(size_t n, float *x, float *m, const float *g, float lr, float beta,
                       float decay) {
    wide wide_lr = wide_of(lr), wide_beta = wide_of(beta), wide_decay = wide_of(decay);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        wide_store(m + i, sgd_step(x + i, m + i, g + i, wide_lr, wide_beta, wide_decay, 1, 0));
    }
    if (i < n) {
        wide momentum = sgd_step(x + i, m + i, g + i, wide_lr, wide_beta, wide_decay, 0, n - i);
        wide_store_first(m + i, momentum, n - i);
    }
}

static void own_part(size_t n, float *x, float *m, const float *g, wide lr, wide beta, wide decay,
                     wide own) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        sgd_own_step(x + i, m + i, g + i, lr, beta, decay, own, 1, 0);
    }
    if (i < n) {
        sgd_own_step(x + i, m + i, g + i, lr, beta, decay, own, 0, n - i);
    }
}

void OCT_WIDE(sgd_global_f32)(size_t n, float *x, float *m, const float *g, float lr, float beta,
                              float decay, float own) {
    wide wide_lr = wide_of(lr), wide_beta = wide_of(beta), wide_decay = wide_of(decay);
    if (own != 0.0F) {
        own_part(n, x, m, g, wide_lr, wide_beta, wide_decay, wide_of(own));
        return;
    }
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        (void)sgd_step(x + i, m + i, g + i, wide_lr, wide_beta, wide_decay, 1, 0);
    }
    if (i < n) {
        (void)sgd_step(x + i, m + i, g + i, wide_lr, wide_beta, wide_decay, 0, n - i);
    }
}

#endif
