/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm.c - the specification of the range norms: chunk extremes, Range EvoNorm of one sample
 * and its gradient, and what Range BatchNorm does with a chunk of rows.
 *
 * y = gamma * e * s + beta with e = x * h(v * x), h(a) = a / 6 + 1/2 held to [0, 1], and
 * s = 1 / (spread * f + eps). x acts through e, and through the spread at the extremes of each
 * chunk alone: ds/dspread = -f * s^2, dspread/dx = +1/K at a chunk's largest value and -1/K at its
 * smallest. A clamp's derivative includes its borders, ties go to the first: both arbitrary, both
 * fixed, so that bytes and floats agree.
 */
#include "kernels/chunks.h"
#include "kernels/ref/statistics.h"
#include "kernels/variants.h"

struct extremes {
    float low, high;
    size_t low_at, high_at; /* elements of x */
};

/* Of values first … first + length - 1 of a group, which begins at column x[0] and is counted down
 * each channel, one after the other. */
static struct extremes chunk_extremes(size_t hw, size_t c, const float *x, size_t first,
                                      size_t length) {
    size_t at = first % hw * c + first / hw;
    struct extremes e = {x[at], x[at], at, at};
    for (size_t i = first + 1; i < first + length; i++) {
        at = i % hw * c + i / hw;
        if (x[at] > e.high) {
            e.high = x[at];
            e.high_at = at;
        }
        if (x[at] < e.low) {
            e.low = x[at];
            e.low_at = at;
        }
    }
    return e;
}

/* A chunk of equal values has no spread to change; adding and taking away a large share there would
 * only round the rest of dx away. */
static void give(const struct extremes *e, float share, float *dx) {
    if (e->high_at != e->low_at) {
        dx[e->high_at] += share;
        dx[e->low_at] -= share;
    }
}

void oct_chunk_spread_f32__ref(size_t hw, size_t c, size_t groups, const float *x, float *spread,
                               float *work) {
    (void)work;
    size_t width = c / groups, m = hw * width;
    size_t n_chunks = oct__chunk_count(m), length = m / n_chunks;
    for (size_t g = 0; g < groups; g++) {
        float high = 0.0f, low = 0.0f;
        for (size_t k = 0; k < n_chunks && m > 0; k++) {
            struct extremes e = chunk_extremes(hw, c, x + g * width, k * length, length);
            high += e.high;
            low += e.low;
        }
        spread[g] = high / (float)n_chunks - low / (float)n_chunks;
    }
}

#define SIXTH (1.0f / 6.0f)

/* t = (v * x) / 6 + 1/2, and h: t held to [0, 1]. */
static float held(float t) {
    t = t > 0.0f ? t : 0.0f;
    return t < 1.0f ? t : 1.0f;
}

void oct_range_evonorm_f32__ref(size_t hw, size_t c, size_t groups, const float *x,
                                const float *gamma, const float *beta, const float *v,
                                const float *scale, float *y, float *work) {
    (void)work;
    size_t width = c / groups;
    for (size_t r = 0; r < hw; r++) {
        for (size_t j = 0; j < c; j++) {
            float at = x[r * c + j];
            float e = at * held((v[j] * at) * SIXTH + 0.5f);
            y[r * c + j] = (gamma[j] * e) * scale[j / width] + beta[j];
        }
    }
}

void oct_range_evonorm_grad_f32__ref(size_t hw, size_t c, size_t groups, const float *x,
                                     const float *gamma, const float *v, const float *scale,
                                     const float *used, const float *dy, float *dgamma,
                                     float *dbeta, float *dv, float *dx, float *work) {
    (void)work;
    size_t width = c / groups, m = hw * width;
    size_t n_chunks = oct__chunk_count(m), length = m / n_chunks;
    float factor = oct__range_factor(length);
    for (size_t g = 0; g < groups; g++) {
        float total = 0.0f; /* D of kernels.def */
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            float p[4] = {0}, q[4] = {0}, u[4] = {0};
            for (size_t r = 0; r < hw; r++) {
                float at = x[r * c + j], d = dy[r * c + j], a = v[j] * at;
                float t = a * SIXTH + 0.5f, h = held(t);
                float slope = t >= 0.0f && t <= 1.0f ? SIXTH : 0.0f;
                p[r % 4] += d;
                q[r % 4] += d * (at * h);
                u[r % 4] += (d * at) * (at * slope);
                dx[r * c + j] = ((gamma[j] * used[g]) * d) * (h + a * slope);
            }
            dbeta[j] += fold4(p);
            dgamma[j] += fold4(q) * used[g];
            dv[j] += (gamma[j] * used[g]) * fold4(u);
            total += gamma[j] * fold4(q);
        }
        float share = -((total * (scale[g] * scale[g])) * factor) / (float)n_chunks;
        for (size_t k = 0; k < n_chunks && m > 0; k++) {
            struct extremes e = chunk_extremes(hw, c, x + g * width, k * length, length);
            give(&e, share, dx + g * width);
        }
    }
}

void oct_column_minmax_f32__ref(size_t rows, size_t c, const float *x, float *low, float *high) {
    for (size_t j = 0; j < c; j++) {
        struct extremes e = {0};
        if (rows > 0) {
            e = chunk_extremes(rows, c, x + j, 0, rows);
        }
        low[j] = e.low + 0.0f;
        high[j] = e.high + 0.0f;
    }
}

void oct_column_extremes_grad_f32__ref(size_t rows, size_t c, const float *x, const float *share,
                                       float *dx) {
    for (size_t j = 0; j < c && rows > 0; j++) {
        struct extremes e = chunk_extremes(rows, c, x + j, 0, rows);
        give(&e, share[j], dx + j);
    }
}
