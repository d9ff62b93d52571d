/* SPDX-License-Identifier: Apache-2.0 */
/* group_norm_f32.c - GroupNorm of one sample, wide over channels. */
#include "kernels/x86/groups.h"

struct group_norm {
    size_t c;
    const float *x, *dy, *gamma, *beta;
    const float *mean, *rstd, *a, *b; /* per channel, in `work` */
    float *out;
};

/* A panel's parameters in registers. */
struct channels {
    wide mean, rstd, gamma, beta, a, b;
};

INLINE wide normalize(const struct channels *of, const float *x, int full, size_t n) {
    return ((wide_get(x, full, n) - of->mean) * of->rstd) * of->gamma + of->beta;
}

INLINE void group_norm_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct group_norm *args = arguments;
    const int full = at->full;
    const size_t n = at->n, c = args->c;
    const size_t start = at->row * c + at->column;
    const float *x = args->x + start;
    float *y = args->out + start;
    const struct channels of = {
        .mean = wide_get(args->mean + at->column, full, n),
        .rstd = wide_get(args->rstd + at->column, full, n),
        .gamma = wide_get(args->gamma + at->column, full, n),
        .beta = wide_get(args->beta + at->column, full, n),
    };
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, y += 4 * c) {
        wide y0 = normalize(&of, x, full, n);
        wide y1 = normalize(&of, x + c, full, n);
        wide y2 = normalize(&of, x + 2 * c, full, n);
        wide y3 = normalize(&of, x + 3 * c, full, n);
        put_rows(y, c, y0, y1, y2, y3, full, n);
    }
    for (; r < at->rows; r++, x += c, y += c) {
        wide_put(y, normalize(&of, x, full, n), full, n);
    }
}

void OCT_WIDE(group_norm_f32)(size_t hw, size_t c, size_t groups, const float *x,
                              const float *gamma, const float *beta, float eps, float *mean,
                              float *rstd, float *y, float *work) {
    float *channel_mean = work, *channel_rstd = work + c;
    group_statistics(hw, c, groups, x, eps, mean, rstd, channel_mean, channel_rstd);
    spread(c, groups, rstd, channel_rstd);
    struct group_norm arguments = {
        .c = c,
        .x = x,
        .gamma = gamma,
        .beta = beta,
        .mean = channel_mean,
        .rstd = channel_rstd,
        .out = y,
    };
    column_map(hw, c, group_norm_panel, &arguments);
}

INLINE wide normalize_grad(const struct channels *of, const float *x, const float *dy, int full,
                           size_t n) {
    wide xhat = (wide_get(x, full, n) - of->mean) * of->rstd;
    return of->rstd * ((of->gamma * wide_get(dy, full, n) - of->a) - xhat * of->b);
}

INLINE void group_norm_grad_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct group_norm *args = arguments;
    const int full = at->full;
    const size_t n = at->n, c = args->c;
    const size_t start = at->row * c + at->column;
    const float *x = args->x + start, *dy = args->dy + start;
    float *dx = args->out + start;
    const struct channels of = {
        .mean = wide_get(args->mean + at->column, full, n),
        .rstd = wide_get(args->rstd + at->column, full, n),
        .gamma = wide_get(args->gamma + at->column, full, n),
        .a = wide_get(args->a + at->column, full, n),
        .b = wide_get(args->b + at->column, full, n),
    };
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, dy += 4 * c, dx += 4 * c) {
        wide d0 = normalize_grad(&of, x, dy, full, n);
        wide d1 = normalize_grad(&of, x + c, dy + c, full, n);
        wide d2 = normalize_grad(&of, x + 2 * c, dy + 2 * c, full, n);
        wide d3 = normalize_grad(&of, x + 3 * c, dy + 3 * c, full, n);
        put_rows(dx, c, d0, d1, d2, d3, full, n);
    }
    for (; r < at->rows; r++, x += c, dy += c, dx += c) {
        wide_put(dx, normalize_grad(&of, x, dy, full, n), full, n);
    }
}

/* `work`: each channel's mean, rstd, then the column sums p and q, which become A/m and B/m. */
void OCT_WIDE(group_norm_grad_f32)(size_t hw, size_t c, size_t groups, const float *x,
                                   const float *gamma, const float *mean, const float *rstd,
                                   const float *dy, float *dgamma, float *dbeta, float *dx,
                                   float *work) {
    float *channel_mean = work, *channel_rstd = work + c, *p = work + 2 * c, *q = work + 3 * c;
    size_t width = c / groups;
    float m = (float)(hw * width);
    spread(c, groups, mean, channel_mean);
    spread(c, groups, rstd, channel_rstd);
    memset(p, 0, 2 * c * sizeof(float));
    OCT_WIDE(column_norm_sums_f32)(hw, c, x, channel_mean, channel_rstd, dy, q, p);
    for (size_t g = 0; g < groups; g++) {
        float sum_a = 0.0f, sum_b = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            dbeta[j] += p[j];
            dgamma[j] += q[j];
            sum_a += gamma[j] * p[j];
            sum_b += gamma[j] * q[j];
        }
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            p[j] = sum_a / m;
            q[j] = sum_b / m;
        }
    }
    struct group_norm arguments = {c, x, dy, gamma, NULL, channel_mean, channel_rstd, p, q, dx};
    column_map(hw, c, group_norm_grad_panel, &arguments);
}
