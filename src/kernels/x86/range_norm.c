/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm.c - the range norms, wide over channels.
 *
 * Extremes may be searched in any order and still be ref's: every search begins with its chunk's
 * first value, so a NaN there wins everywhere and one elsewhere never does; and the sign of a zero,
 * the only way in which equal extremes can differ, is lost in a sum from +0. The places of
 * extremes are another matter: there, rows go strictly in order.
 */
#include "kernels/x86/evonorm.h"
#include "kernels/x86/pieces.h"

#if defined(__AVX512F__)

/* a > b ? yes : no */
INLINE wide wide_where_greater(wide a, wide b, wide yes, wide no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), yes);
}

/* a == b ? yes : 0 */
INLINE wide wide_where_equal(wide a, wide b, wide yes) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), yes);
}

#else

INLINE wide wide_where_greater(wide a, wide b, wide yes, wide no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

INLINE wide wide_where_equal(wide a, wide b, wide yes) {
    return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ), yes);
}

#endif

/* --- extremes of columns ---------------------------------------------------------------------- */

struct extremes {
    size_t c;
    const float *x;
    float *low, *high; /* per column; what they hold counts as a row */
};

INLINE void extremes_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct extremes *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const float *x = a->x + at->row * c + at->column;
    wide low0 = wide_get(a->low + at->column, full, n), low1 = low0, low2 = low0, low3 = low0;
    wide high0 = wide_get(a->high + at->column, full, n), high1 = high0, high2 = high0,
         high3 = high0;
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, x += 4 * c) {
        wide x0 = wide_get(x, full, n), x1 = wide_get(x + c, full, n);
        wide x2 = wide_get(x + 2 * c, full, n), x3 = wide_get(x + 3 * c, full, n);
        low0 = wide_smaller(x0, low0);
        low1 = wide_smaller(x1, low1);
        low2 = wide_smaller(x2, low2);
        low3 = wide_smaller(x3, low3);
        high0 = wide_larger(x0, high0);
        high1 = wide_larger(x1, high1);
        high2 = wide_larger(x2, high2);
        high3 = wide_larger(x3, high3);
    }
    for (; r < at->rows; r++, x += c) {
        low0 = wide_smaller(wide_get(x, full, n), low0);
        high0 = wide_larger(wide_get(x, full, n), high0);
    }
    low0 = wide_smaller(wide_smaller(low1, low0), wide_smaller(low3, low2));
    high0 = wide_larger(wide_larger(high1, high0), wide_larger(high3, high2));
    wide_put(a->low + at->column, low0, full, n);
    wide_put(a->high + at->column, high0, full, n);
}

/* Adds x[rows][c] to the extremes in low[c] and high[c]. */
static void add_extremes(size_t rows, size_t c, const float *x, float *low, float *high) {
    struct extremes arguments = {c, x, low, high};
    in_tiles(c <= LANES ? rows : TILE_ROWS, rows, 0, c, extremes_panel, &arguments, NULL);
}

void OCT_WIDE(column_minmax_f32)(size_t rows, size_t c, const float *x, float *low, float *high) {
    if (rows == 0) {
        memset(low, 0, c * sizeof *low);
        memset(high, 0, c * sizeof *high);
        return;
    }
    memcpy(low, x, c * sizeof *low);
    memcpy(high, x, c * sizeof *high);
    add_extremes(rows, c, x, low, high);
    for (size_t j = 0; j < c; j++) {
        low[j] += 0.0f;
        high[j] += 0.0f;
    }
}

/* --- places of extremes ----------------------------------------------------------------------- */

/* Rows are counted in floats, exactly up to here. */
#define MOST_ROWS ((size_t)1 << 24)

/* For CHUNK columns: the extreme so far, and its row. */
enum { LOW, LOW_ROW, HIGH, HIGH_ROW, N_PLACES };

struct places {
    size_t c, first; /* columns; the first one looked at */
    const float *x;
    float (*at)[CHUNK]; /* [N_PLACES] */
};

INLINE void places_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct places *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c, column = at->column - a->first;
    const float *x = a->x + at->row * c + at->column;
    wide low = wide_get(a->at[LOW] + column, full, n);
    wide low_row = wide_get(a->at[LOW_ROW] + column, full, n);
    wide high = wide_get(a->at[HIGH] + column, full, n);
    wide high_row = wide_get(a->at[HIGH_ROW] + column, full, n);
    wide row = wide_of((float)at->row);
    for (size_t r = 0; r < at->rows; r++, x += c) {
        wide value = wide_get(x, full, n);
        low_row = wide_where_greater(low, value, row, low_row);
        low = wide_smaller(value, low);
        high_row = wide_where_greater(value, high, row, high_row);
        high = wide_larger(value, high);
        row += wide_of(1.0f);
    }
    wide_put(a->at[LOW] + column, low, full, n);
    wide_put(a->at[LOW_ROW] + column, low_row, full, n);
    wide_put(a->at[HIGH] + column, high, full, n);
    wide_put(a->at[HIGH_ROW] + column, high_row, full, n);
}

void OCT_WIDE(column_extremes_grad_f32)(size_t rows, size_t c, const float *x, const float *share,
                                        float *dx) {
    if (rows < 2 || rows > MOST_ROWS) {
        oct_column_extremes_grad_f32__ref(rows, c, x, share, dx);
        return;
    }
    float at[N_PLACES][CHUNK];
    for (size_t first = 0; first < c; first += CHUNK) {
        size_t width = c - first < CHUNK ? c - first : CHUNK;
        struct places arguments = {c, first, x, at};
        memcpy(at[LOW], x + first, width * sizeof(float));
        memcpy(at[HIGH], x + first, width * sizeof(float));
        memset(at[LOW_ROW], 0, width * sizeof(float));
        memset(at[HIGH_ROW], 0, width * sizeof(float));
        in_tiles(width <= LANES ? rows : TILE_ROWS, rows, first, width, places_panel, &arguments,
                 NULL);
        for (size_t j = 0; j < width; j++) {
            size_t high = (size_t)at[HIGH_ROW][j], low = (size_t)at[LOW_ROW][j];
            if (high != low) {
                dx[high * c + first + j] += share[first + j];
                dx[low * c + first + j] -= share[first + j];
            }
        }
    }
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* Chunks of several pieces: extremes of chunk k of group g in low and high[g * n_chunks + k];
 * `columns`: 2 * c floats. */
static void scattered_extremes(const struct chunks *s, const float *x, float *low, float *high,
                               float *columns) {
    const size_t c = s->c, k = s->n_chunks;
    float *column_low = columns, *column_high = columns + c;
    const struct mixed chunk_step = mixed_of(s->per_chunk, s->per_column);
    struct mixed start = {0, 0}; /* column, piece in it */
    for (size_t i = 0; i < k; i++) {
        for (size_t g = 0; g < s->groups; g++) {
            low[g * k + i] = x[start.rest * s->rows * c + g * s->width + start.whole];
            high[g * k + i] = low[g * k + i];
        }
        start = mixed_add(start, chunk_step, s->per_column);
    }
    const struct mixed column_step = mixed_of(s->per_column, s->per_chunk);
    for (size_t b = 0; b < s->per_column; b++) {
        const struct mixed first = mixed_of(b, s->per_chunk); /* chunk, piece in it */
        for (size_t g = 0, j = 0; g < s->groups; g++) {
            struct mixed at = first;
            for (size_t end = j + s->width; j < end; j++) {
                column_low[j] = low[g * k + at.whole];
                column_high[j] = high[g * k + at.whole];
                at = mixed_add(at, column_step, s->per_chunk);
            }
        }
        add_extremes(s->rows, c, x + b * s->rows * c, column_low, column_high);
        for (size_t g = 0, j = 0; g < s->groups; g++) {
            struct mixed at = first;
            for (size_t end = j + s->width; j < end; j++) {
                float *to_low = &low[g * k + at.whole], *to_high = &high[g * k + at.whole];
                *to_low = column_low[j] < *to_low ? column_low[j] : *to_low;
                *to_high = column_high[j] > *to_high ? column_high[j] : *to_high;
                at = mixed_add(at, column_step, s->per_chunk);
            }
        }
    }
}

/* `work`: extremes of all chunks, at most 16 a group, twice; then 2 * c. */
void OCT_WIDE(chunk_spread_f32)(size_t hw, size_t c, size_t groups, const float *x, float *spread,
                                float *work) {
    if (hw == 0) {
        memset(spread, 0, groups * sizeof *spread);
        return;
    }
    const struct chunks s = chunks_of(hw, c, groups);
    float *low = work, *high = work + s.n_chunks * groups;
    if (s.per_chunk == 1) {
        for (size_t b = 0; b < s.per_column; b++) {
            const float *block = x + b * s.rows * c;
            OCT_WIDE(column_minmax_f32)(s.rows, c, block, low + b * c, high + b * c);
        }
        for (size_t g = 0; g < groups; g++) {
            spread[g] =
                mean_spread(low + g * s.width, high + g * s.width, s.width, s.per_column, c);
        }
    } else {
        scattered_extremes(&s, x, low, high, high + s.n_chunks * groups);
        for (size_t g = 0; g < groups; g++) {
            size_t first = g * s.n_chunks;
            spread[g] = mean_spread(low + first, high + first, s.n_chunks, 1, 0);
        }
    }
}

/* The first of a chunk's values that is `value`; its very first if it begins with a NaN. */
static size_t find(const struct chunks *s, const float *x, struct mixed start, float value) {
    size_t row = start.rest * s->rows, column = start.whole;
    for (size_t left = s->length; left > 0; column++, row = 0) {
        size_t end = s->hw - row < left ? s->hw : row + left;
        left -= end - row;
        for (; row < end; row++) {
            if (x[row * s->c + column] == value) {
                return row * s->c + column;
            }
        }
    }
    return start.rest * s->rows * s->c + start.whole;
}

/* dx += share at each chunk's first largest value, dx -= share at its first smallest. */
static void give_shares(size_t hw, size_t c, size_t groups, const float *x,
                        const float *channel_share, float *dx, float *work) {
    const struct chunks s = chunks_of(hw, c, groups);
    if (s.per_chunk == 1) {
        for (size_t b = 0; b < s.per_column; b++) {
            size_t at = b * s.rows * c;
            OCT_WIDE(column_extremes_grad_f32)(s.rows, c, x + at, channel_share, dx + at);
        }
        return;
    }
    float *low = work, *high = work + s.n_chunks * groups;
    scattered_extremes(&s, x, low, high, high + s.n_chunks * groups);
    const struct mixed chunk_step = mixed_of(s.per_chunk, s.per_column);
    for (size_t g = 0; g < groups; g++) {
        struct mixed start = {g * s.width, 0};
        for (size_t k = g * s.n_chunks; k < (g + 1) * s.n_chunks; k++) {
            size_t high_at = find(&s, x, start, high[k]), low_at = find(&s, x, start, low[k]);
            if (high_at != low_at) {
                dx[high_at] += channel_share[g * s.width];
                dx[low_at] -= channel_share[g * s.width];
            }
            start = mixed_add(start, chunk_step, s.per_column);
        }
    }
}

/* --- Range EvoNorm ---------------------------------------------------------------------------- */

INLINE wide evonorm(const struct channels *of, const float *x, int full, size_t n) {
    wide value = wide_get(x, full, n);
    wide e = value * held((of->v * value) * wide_of(SIXTH) + wide_of(0.5f));
    return (of->gamma * e) * of->scale + of->beta;
}

INLINE void evonorm_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    evonorm_walk(arguments, at, evonorm);
}

void OCT_WIDE(range_evonorm_f32)(size_t hw, size_t c, size_t groups, const float *x,
                                 const float *gamma, const float *beta, const float *v,
                                 const float *scale, float *y, float *work) {
    spread(c, groups, scale, work);
    struct evonorm arguments = {
        .c = c, .x = x, .gamma = gamma, .beta = beta, .v = v, .scale = work, .out = y};
    column_map(hw, c, evonorm_panel, &arguments);
}

/* One row of the gradient: adds to the three sums, returns the direct term. */
INLINE wide evonorm_row(const struct channels *of, const float *x, const float *dy, wide *p,
                        wide *q, wide *u, int full, size_t n) {
    wide value = wide_get(x, full, n), d = wide_get(dy, full, n);
    wide a = of->v * value;
    wide t = a * wide_of(SIXTH) + wide_of(0.5f);
    wide h = held(t);
    wide slope = wide_where_equal(t, h, wide_of(SIXTH)); /* within the borders t is held nowhere */
    *p += d;
    *q += d * (value * h);
    *u += (d * value) * (value * slope);
    return (of->scale * d) * (h + a * slope);
}

INLINE void evonorm_grad_panel(const void *arguments, const struct panel *at, float *partial) {
    evonorm_grad_walk(arguments, at, partial, evonorm_row);
}

/* `work`: column sums p, q, u; per channel gamma * used and share; then what chunk_spread needs. */
void OCT_WIDE(range_evonorm_grad_f32)(size_t hw, size_t c, size_t groups, const float *x,
                                      const float *gamma, const float *v, const float *scale,
                                      const float *used, const float *dy, float *dgamma,
                                      float *dbeta, float *dv, float *dx, float *work) {
    float *p = work, *q = work + c, *u = work + 2 * c;
    float *channel_scale = work + 3 * c, *share = work + 4 * c;
    size_t width = c / groups, n_chunks = oct__chunk_count(hw * width);
    float factor = oct__range_factor(hw * width / n_chunks);
    for (size_t j = 0; j < c; j++) {
        channel_scale[j] = gamma[j] * used[j / width];
    }
    memset(work, 0, 3 * c * sizeof(float));
    struct evonorm arguments = {
        .c = c, .x = x, .dy = dy, .v = v, .scale = channel_scale, .out = dx};
    float *const out[] = {p, q, u};
    column_sums(hw, c, evonorm_grad_panel, &arguments, 3, out);
    for (size_t g = 0; g < groups; g++) {
        float total = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            dbeta[j] += p[j];
            dgamma[j] += q[j] * used[g];
            dv[j] += channel_scale[j] * u[j];
            total += gamma[j] * q[j];
        }
        float group_share = -((total * (scale[g] * scale[g])) * factor) / (float)n_chunks;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            share[j] = group_share;
        }
    }
    if (hw > 0) {
        give_shares(hw, c, groups, x, share, dx, work + 5 * c);
    }
}
