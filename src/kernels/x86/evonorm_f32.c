/* SPDX-License-Identifier: Apache-2.0 */
/* evonorm_f32.c - EvoNorm-S0 of one sample, wide over channels.
 *
 * The sigmoid is nearly all of the time, so it is computed once per element: the gradient's
 * first pass, which needs it for the sums, also writes the direct term into dx (where dy
 * is no longer needed once read); the second pass only takes away the statistics' share.
 */
#include "kernels/x86/evonorm.h"

INLINE wide evonorm(const struct channels *of, const float *x, int full, size_t n) {
    wide value = wide_get(x, full, n);
    wide e = value * wide_sigmoid(of->v * value);
    return (of->gamma * e) * of->scale + of->beta;
}

INLINE void evonorm_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    evonorm_walk(arguments, at, evonorm);
}

void OCT_WIDE(evonorm_f32)(size_t hw, size_t c, size_t groups, const float *x, const float *gamma,
                           const float *beta, const float *v, float eps, float *mean, float *rstd,
                           float *y, float *work) {
    float *channel_rstd = work + c;
    group_statistics(hw, c, groups, x, eps, mean, rstd, work, channel_rstd);
    spread(c, groups, rstd, channel_rstd);
    struct evonorm arguments = {
        .c = c,
        .x = x,
        .gamma = gamma,
        .beta = beta,
        .v = v,
        .scale = channel_rstd,
        .out = y,
    };
    column_map(hw, c, evonorm_panel, &arguments);
}

/* One row of the first pass: adds to the three sums, returns the direct term. */
INLINE wide evonorm_row(const struct channels *of, const float *x, const float *dy, wide *p,
                        wide *q, wide *u, int full, size_t n) {
    wide value = wide_get(x, full, n), d = wide_get(dy, full, n);
    wide a = of->v * value;
    wide s = wide_sigmoid(a);
    wide w = s * (wide_of(1.0f) - s);
    *p += d;
    *q += d * (value * s);
    *u += (d * (value * value)) * w;
    return (of->scale * d) * (s + a * w);
}

INLINE void evonorm_sums_panel(const void *arguments, const struct panel *at, float *partial) {
    evonorm_grad_walk(arguments, at, partial, evonorm_row);
}

INLINE void evonorm_grad_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct evonorm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start;
    float *dx = a->out + start;
    const wide mean = wide_get(a->mean + at->column, full, n);
    const wide k = wide_get(a->k + at->column, full, n);
    for (size_t r = 0; r < at->rows; r++, x += c, dx += c) {
        wide_put(dx, wide_get(dx, full, n) - k * (wide_get(x, full, n) - mean), full, n);
    }
}

/* `work`: column sums p, q, u; then per channel gamma * rstd, mean and k. */
void OCT_WIDE(evonorm_grad_f32)(size_t hw, size_t c, size_t groups, const float *x,
                                const float *gamma, const float *v, const float *mean,
                                const float *rstd, const float *dy, float *dgamma, float *dbeta,
                                float *dv, float *dx, float *work) {
    float *p = work, *q = work + c, *u = work + 2 * c;
    float *scale = work + 3 * c, *channel_mean = work + 4 * c, *k = work + 5 * c;
    size_t width = c / groups;
    float m = (float)(hw * width);
    for (size_t j = 0; j < c; j++) {
        scale[j] = gamma[j] * rstd[j / width];
    }
    spread(c, groups, mean, channel_mean);
    memset(work, 0, 3 * c * sizeof(float));
    struct evonorm arguments = {
        .c = c,
        .x = x,
        .dy = dy,
        .v = v,
        .mean = channel_mean,
        .scale = scale,
        .k = k,
        .out = dx,
    };
    float *const out[] = {p, q, u};
    column_sums(hw, c, evonorm_sums_panel, &arguments, 3, out);
    for (size_t g = 0; g < groups; g++) {
        float total = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            dbeta[j] += p[j];
            dgamma[j] += q[j] * rstd[g];
            dv[j] += scale[j] * u[j];
            total += gamma[j] * q[j];
        }
        float cube = (rstd[g] * rstd[g]) * rstd[g];
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            k[j] = (total * cube) / m;
        }
    }
    column_map(hw, c, evonorm_grad_panel, &arguments);
}
