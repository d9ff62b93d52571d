/* SPDX-License-Identifier: Apache-2.0 */
/* evonorm.h - how the two EvoNorms walk a sample: four rows at a time, parameters in registers.
 *
 *     y = gamma * (x * h(v * x)) * scale + beta
 *
 * They differ in h, a sigmoid or three straight lines, which is in the function for one row that
 * each hands over; it vanishes into these loops.
 */
#ifndef OCT_KERNELS_X86_EVONORM_H
#define OCT_KERNELS_X86_EVONORM_H

#include "kernels/x86/groups.h"

struct evonorm {
    size_t c;
    const float *x, *dy, *gamma, *beta, *v;
    const float *scale, *mean, *k; /* per channel, in `work` */
    float *out;
};

/* A panel's parameters in registers. */
struct channels {
    wide gamma, beta, v, scale;
};

/* y of one row. */
typedef wide evonorm_value(const struct channels *of, const float *x, int full, size_t n);

/* One row of the gradient: adds to the three sums, returns the direct term. Here `scale` is gamma
 * times the norm's scale. */
typedef wide evonorm_gradient(const struct channels *of, const float *x, const float *dy, wide *p,
                              wide *q, wide *u, int full, size_t n);

INLINE void evonorm_walk(const struct evonorm *a, const struct panel *at, evonorm_value *value) {
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start;
    float *y = a->out + start;
    const struct channels of = {
        .gamma = wide_get(a->gamma + at->column, full, n),
        .beta = wide_get(a->beta + at->column, full, n),
        .v = wide_get(a->v + at->column, full, n),
        .scale = wide_get(a->scale + at->column, full, n),
    };
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, y += 4 * c) {
        wide y0 = value(&of, x, full, n);
        wide y1 = value(&of, x + c, full, n);
        wide y2 = value(&of, x + 2 * c, full, n);
        wide y3 = value(&of, x + 3 * c, full, n);
        put_rows(y, c, y0, y1, y2, y3, full, n);
    }
    for (; r < at->rows; r++, x += c, y += c) {
        wide_put(y, value(&of, x, full, n), full, n);
    }
}

INLINE void evonorm_grad_walk(const struct evonorm *a, const struct panel *at, float *partial,
                              evonorm_gradient *gradient) {
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
        wide d0 = gradient(&of, x, dy, &p.p0, &q.p0, &u.p0, full, n);
        wide d1 = gradient(&of, x + c, dy + c, &p.p1, &q.p1, &u.p1, full, n);
        wide d2 = gradient(&of, x + 2 * c, dy + 2 * c, &p.p2, &q.p2, &u.p2, full, n);
        wide d3 = gradient(&of, x + 3 * c, dy + 3 * c, &p.p3, &q.p3, &u.p3, full, n);
        put_rows(dx, c, d0, d1, d2, d3, full, n);
    }
    sums_store(partial, &p, full, n);
    sums_store(partial_q, &q, full, n);
    sums_store(partial_u, &u, full, n);
    for (; r < at->rows; r++, x += c, dy += c, dx += c) {
        wide pr = wide_of(0.0f), qr = pr, ur = pr;
        wide_put(dx, gradient(&of, x, dy, &pr, &qr, &ur, full, n), full, n);
        sums_add_row(partial, r, pr, full, n);
        sums_add_row(partial_q, r, qr, full, n);
        sums_add_row(partial_u, r, ur, full, n);
    }
}

#endif
