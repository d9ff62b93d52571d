/* SPDX-License-Identifier: Apache-2.0 */
/* column_f32.c - sums and maps over the columns of x[rows][c]; columns.h says how they walk. */
#include "kernels/x86/columns.h"

struct column_sum {
    size_t c;
    const float *x, *mean;
};

INLINE void column_sum_panel(const void *arguments, const struct panel *at, float *partial) {
    const struct column_sum *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const float *x = a->x + at->row * c + at->column;
    struct sums s = sums_load(partial, full, n);
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c) {
        s.p0 += wide_get(x, full, n);
        s.p1 += wide_get(x + c, full, n);
        s.p2 += wide_get(x + 2 * c, full, n);
        s.p3 += wide_get(x + 3 * c, full, n);
    }
    sums_store(partial, &s, full, n);
    for (; r < at->rows; r++, x += c) {
        sums_add_row(partial, r, wide_get(x, full, n), full, n);
    }
}

void OCT_WIDE(column_sum_f32)(size_t rows, size_t c, const float *x, float *sum) {
    struct column_sum arguments = {c, x, NULL};
    column_sums(rows, c, column_sum_panel, &arguments, 1, &sum);
}

INLINE wide square_term(const float *x, wide mean, int full, size_t n) {
    wide d = wide_get(x, full, n) - mean;
    return d * d;
}

INLINE void column_square_panel(const void *arguments, const struct panel *at, float *partial) {
    const struct column_sum *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const float *x = a->x + at->row * c + at->column;
    const wide mean = wide_get(a->mean + at->column, full, n);
    struct sums s = sums_load(partial, full, n);
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c) {
        s.p0 += square_term(x, mean, full, n);
        s.p1 += square_term(x + c, mean, full, n);
        s.p2 += square_term(x + 2 * c, mean, full, n);
        s.p3 += square_term(x + 3 * c, mean, full, n);
    }
    sums_store(partial, &s, full, n);
    for (; r < at->rows; r++, x += c) {
        sums_add_row(partial, r, square_term(x, mean, full, n), full, n);
    }
}

void OCT_WIDE(column_square_f32)(size_t rows, size_t c, const float *x, const float *mean,
                                 float *sum) {
    struct column_sum arguments = {c, x, mean};
    column_sums(rows, c, column_square_panel, &arguments, 1, &sum);
}

#if !defined(__AVX512F__) /* avx512 measured no faster */

struct column_affine {
    size_t c;
    const float *x, *scale, *shift;
    float *y;
};

INLINE wide affine(const float *x, wide scale, wide shift, int full, size_t n) {
    return wide_get(x, full, n) * scale + shift;
}

INLINE void column_affine_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct column_affine *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start;
    float *y = a->y + start;
    const wide scale = wide_get(a->scale + at->column, full, n);
    const wide shift = wide_get(a->shift + at->column, full, n);
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, y += 4 * c) {
        wide y0 = affine(x, scale, shift, full, n);
        wide y1 = affine(x + c, scale, shift, full, n);
        wide y2 = affine(x + 2 * c, scale, shift, full, n);
        wide y3 = affine(x + 3 * c, scale, shift, full, n);
        put_rows(y, c, y0, y1, y2, y3, full, n);
    }
    for (; r < at->rows; r++, x += c, y += c) {
        wide_put(y, affine(x, scale, shift, full, n), full, n);
    }
}

void OCT_WIDE(column_affine_f32)(size_t rows, size_t c, const float *x, const float *scale,
                                 const float *shift, float *y) {
    struct column_affine arguments = {c, x, scale, shift, y};
    column_map(rows, c, column_affine_panel, &arguments);
}

#endif

struct column_norm {
    size_t c;
    const float *x, *mean, *rstd, *dy, *k, *a, *b;
    float *dx;
};

INLINE void norm_term(const float *x, const float *dy, wide mean, wide rstd, wide *p, wide *q,
                      int full, size_t n) {
    wide d = wide_get(dy, full, n);
    *p += d;
    *q += d * ((wide_get(x, full, n) - mean) * rstd);
}

INLINE void column_norm_sums_panel(const void *arguments, const struct panel *at, float *partial) {
    const struct column_norm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start, *dy = a->dy + start;
    const wide mean = wide_get(a->mean + at->column, full, n);
    const wide rstd = wide_get(a->rstd + at->column, full, n);
    float *partial_q = partial + 4 * CHUNK;
    struct sums p = sums_load(partial, full, n), q = sums_load(partial_q, full, n);
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, dy += 4 * c) {
        norm_term(x, dy, mean, rstd, &p.p0, &q.p0, full, n);
        norm_term(x + c, dy + c, mean, rstd, &p.p1, &q.p1, full, n);
        norm_term(x + 2 * c, dy + 2 * c, mean, rstd, &p.p2, &q.p2, full, n);
        norm_term(x + 3 * c, dy + 3 * c, mean, rstd, &p.p3, &q.p3, full, n);
    }
    sums_store(partial, &p, full, n);
    sums_store(partial_q, &q, full, n);
    for (; r < at->rows; r++, x += c, dy += c) {
        wide d = wide_get(dy, full, n);
        wide xhat = (wide_get(x, full, n) - mean) * rstd;
        sums_add_row(partial, r, d, full, n);
        sums_add_row(partial_q, r, d * xhat, full, n);
    }
}

void OCT_WIDE(column_norm_sums_f32)(size_t rows, size_t c, const float *x, const float *mean,
                                    const float *rstd, const float *dy, float *dscale,
                                    float *dshift) {
    struct column_norm arguments = {.c = c, .x = x, .mean = mean, .rstd = rstd, .dy = dy};
    float *const out[] = {dshift, dscale};
    column_sums(rows, c, column_norm_sums_panel, &arguments, 2, out);
}

struct norm_grad {
    wide mean, rstd, k, a, b;
};

INLINE wide norm_grad(const struct norm_grad *of, const float *x, const float *dy, int full,
                      size_t n) {
    wide xhat = (wide_get(x, full, n) - of->mean) * of->rstd;
    return of->k * ((wide_get(dy, full, n) - of->a) - xhat * of->b);
}

INLINE void column_norm_grad_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct column_norm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const size_t start = at->row * c + at->column;
    const float *x = a->x + start, *dy = a->dy + start;
    float *dx = a->dx + start;
    const struct norm_grad of = {
        wide_get(a->mean + at->column, full, n), wide_get(a->rstd + at->column, full, n),
        wide_get(a->k + at->column, full, n),    wide_get(a->a + at->column, full, n),
        wide_get(a->b + at->column, full, n),
    };
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c, dy += 4 * c, dx += 4 * c) {
        wide d0 = norm_grad(&of, x, dy, full, n);
        wide d1 = norm_grad(&of, x + c, dy + c, full, n);
        wide d2 = norm_grad(&of, x + 2 * c, dy + 2 * c, full, n);
        wide d3 = norm_grad(&of, x + 3 * c, dy + 3 * c, full, n);
        put_rows(dx, c, d0, d1, d2, d3, full, n);
    }
    for (; r < at->rows; r++, x += c, dy += c, dx += c) {
        wide_put(dx, norm_grad(&of, x, dy, full, n), full, n);
    }
}

void OCT_WIDE(column_norm_grad_f32)(size_t rows, size_t c, const float *x, const float *mean,
                                    const float *rstd, const float *k, const float *a,
                                    const float *b, const float *dy, float *dx) {
    struct column_norm arguments = {c, x, mean, rstd, dy, k, a, b, dx};
    column_map(rows, c, column_norm_grad_panel, &arguments);
}
