/* SPDX-License-Identifier: Apache-2.0 */
/* evonorm_f32.c - EvoNorm-S0 of one sample, wide over channels.
 *
 * The sigmoid is nearly all of the time, so it is computed once per element: the gradient's
 * first pass, which needs it for the sums, also writes the direct term into dx (where dy
 * is no longer needed once read); the second pass only takes away the statistics' share.
 */
#include "kernels/x86/groups.h"

struct evonorm {
    size_t c;
    const float *x, *dy, *gamma, *beta, *v;
    const float *mean, *rstd, *scale, *k; /* per channel, in `work` */
    float *out;
};

/* A panel's parameters in registers. */
struct channels {
    wide rstd, gamma, beta, v, scale;
};

INLINE wide evonorm(const struct channels *of, const float *x, int full, size_t n) {
    wide value = wide_get(x, full, n);
    wide e = value * wide_sigmoid(of->v * value);
    return (of->gamma * e) * of->rstd + of->beta;
}

INLINE void evonorm_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct evonorm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start;
    float *y = a->out + start;
    const struct channels of = {
        .rstd = wide_get(a->rstd + at->column, full, n),
        .gamma = wide_get(a->gamma + at->column, full, n),
        .beta = wide_get(a->beta + at->column, full, n),
        .v = wide_get(a->v + at->column, full, n),
    };
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, y += 4 * c) {
        wide y0 = evonorm(&of, x, full, n);
        wide y1 = evonorm(&of, x + c, full, n);
        wide y2 = evonorm(&of, x + 2 * c, full, n);
        wide y3 = evonorm(&of, x + 3 * c, full, n);
        put_rows(y, c, y0, y1, y2, y3, full, n);
    }
    for (; r < at->rows; r++, x += c, y += c) {
        wide_put(y, evonorm(&of, x, full, n), full, n);
    }
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
        .rstd = channel_rstd,
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
    const struct evonorm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start, *dy = a->dy + start;
    float *dx = a->out + start;
    const struct channels of = {
        .v = wide_get(a->v + at->column, full, n),
        .scale = wide_get(a->scale + at->column, full, n),
    };
    float *partial_q = partial + 4 * CHUNK, *partial_u = partial + 8 * CHUNK;
    struct sums p = sums_load(partial, full, n), q = sums_load(partial_q, full, n),
                u = sums_load(partial_u, full, n);
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, dy += 4 * c, dx += 4 * c) {
        wide d0 = evonorm_row(&of, x, dy, &p.p0, &q.p0, &u.p0, full, n);
        wide d1 = evonorm_row(&of, x + c, dy + c, &p.p1, &q.p1, &u.p1, full, n);
        wide d2 = evonorm_row(&of, x + 2 * c, dy + 2 * c, &p.p2, &q.p2, &u.p2, full, n);
        wide d3 = evonorm_row(&of, x + 3 * c, dy + 3 * c, &p.p3, &q.p3, &u.p3, full, n);
        put_rows(dx, c, d0, d1, d2, d3, full, n);
    }
    sums_store(partial, &p, full, n);
    sums_store(partial_q, &q, full, n);
    sums_store(partial_u, &u, full, n);
    for (; r < at->rows; r++, x += c, dy += c, dx += c) {
        wide pr = wide_of(0.0f), qr = pr, ur = pr;
        wide_put(dx, evonorm_row(&of, x, dy, &pr, &qr, &ur, full, n), full, n);
        sums_add_row(partial, r, pr, full, n);
        sums_add_row(partial_q, r, qr, full, n);
        sums_add_row(partial_u, r, ur, full, n);
    }
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
