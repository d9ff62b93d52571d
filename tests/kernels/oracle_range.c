/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_range.c - ref's range norms against their definitions, a second time and in double.
 *
 * The definitions are written the way people state them: a group's values are copied out in
 * (channel, row) order and cut up. Gradients are central differences of L = sum of dy * y, with two
 * things held where they are at the point looked at: which value of a chunk is the extreme, and on
 * which side of its borders the clamp is. Both are places where a derivative jumps and the kernels'
 * choice is fixed by ties and borders, which are checked with small cases by hand.
 *
 * y is made with `used`, the gradient goes through the unrounded scale: so used moves along with
 * the scale, used(x) = used + scale(x) - scale.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/chunks.h"
#include "kernels/kernels.h"
#include "oracle.h"

enum { MOST = 1024, CHANNELS = 64 };

static uint64_t range_seed;
static uint32_t n_drawn;

static void draw(float *out, size_t n, float low, float high) {
    struct oct__stream stream = oct__stream(range_seed, OCT_PURPOSE_TEST, 0xddddU, n_drawn++, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        oct__stream_block(&stream, (uint32_t)i, word);
        out[i] = low + (high - low) * oct__unit_float(word[0]);
    }
}

static const struct oct__kernels *ref(void) {
    return oct__kernels_at(OCT_CPU_REF);
}

static int verdict(const char *name, const char *what, const struct error *error,
                   double tolerance) {
    return judge(name, what, error, tolerance, range_seed);
}

static int fact(const char *name, const char *what, double got, double wanted) {
    struct error error = {0};
    compare(&error, got, wanted, 1.0, 0);
    return verdict(name, what, &error, 0.0);
}

/* --- one sample ------------------------------------------------------------------------------- */

struct sample {
    size_t rows, c, groups;
    double x[MOST], gamma[CHANNELS], beta[CHANNELS], v[CHANNELS], used[CHANNELS];
    size_t n_chunks, length;
    /* held while differences are taken: elements of x, and the clamp's side: -1, 0, 1 */
    size_t largest[CHANNELS * 16], smallest[CHANNELS * 16];
    int side[MOST];
    double scale[CHANNELS];
};

static const double eps = 1e-5;

/* The largest K of at most 16 that divides m and leaves two values a chunk. */
static size_t chunks_of(size_t m) {
    size_t most = 1;
    for (size_t k = 2; k <= 16; k++) {
        if (m % k == 0 && 2 * k <= m) {
            most = k;
        }
    }
    return most;
}

static double factor_of(size_t length) {
    const double pi = acos(-1.0);
    return 0.175 * (1.0 + sqrt(pi * log(4.0))) / sqrt(2.0 * log((double)(length < 2 ? 2 : length)));
}

static double spread_of(const struct sample *s, size_t g) {
    double high = 0.0, low = 0.0;
    for (size_t k = 0; k < s->n_chunks; k++) {
        high += s->x[s->largest[g * 16 + k]];
        low += s->x[s->smallest[g * 16 + k]];
    }
    return (high - low) / (double)s->n_chunks;
}

static double scale_of(const struct sample *s, size_t g) {
    return 1.0 / (spread_of(s, g) * factor_of(s->length) + eps);
}

/* Finds what is held. From the end to the start, so that the first of equals is what remains. */
static void hold(struct sample *s) {
    size_t width = s->c / s->groups, m = s->rows * width;
    static size_t order[MOST];
    s->n_chunks = chunks_of(m);
    s->length = m / s->n_chunks;
    for (size_t g = 0; g < s->groups; g++) {
        size_t n = 0;
        for (size_t channel = g * width; channel < (g + 1) * width; channel++) {
            for (size_t row = 0; row < s->rows; row++) {
                order[n++] = row * s->c + channel;
            }
        }
        for (size_t i = n; i-- > 0;) {
            size_t k = g * 16 + i / s->length;
            int is_last = i % s->length == s->length - 1;
            if (is_last || s->x[order[i]] >= s->x[s->largest[k]]) {
                s->largest[k] = order[i];
            }
            if (is_last || s->x[order[i]] <= s->x[s->smallest[k]]) {
                s->smallest[k] = order[i];
            }
        }
        s->scale[g] = scale_of(s, g);
    }
    for (size_t i = 0; i < s->rows * s->c; i++) {
        double a = s->v[i % s->c] * s->x[i];
        s->side[i] = a < -3.0 ? -1 : a > 3.0 ? 1 : 0;
    }
}

static double y_of(const struct sample *s, size_t i) {
    size_t j = i % s->c, g = j / (s->c / s->groups);
    double a = s->v[j] * s->x[i];
    double gate = s->side[i] < 0 ? 0.0 : s->side[i] > 0 ? 1.0 : a / 6.0 + 0.5;
    double used = s->used[g] + scale_of(s, g) - s->scale[g];
    return s->gamma[j] * s->x[i] * gate * used + s->beta[j];
}

static double loss_of(const struct sample *s, const float *dy) {
    double total = 0.0;
    for (size_t i = 0; i < s->rows * s->c; i++) {
        total += (double)dy[i] * y_of(s, i);
    }
    return total;
}

/* The step is small against the smallest spread: a scale of 1 / spread bends that fast. */
static double slope_of(struct sample *s, const float *dy, double *parameter) {
    double largest = 1.0;
    for (size_t g = 0; g < s->groups; g++) {
        largest = fmax(largest, spread_of(s, g) > 0.0 ? s->scale[g] : 0.0);
    }
    const double h = 1e-4 / largest, at = *parameter;
    *parameter = at + h;
    double above = loss_of(s, dy);
    *parameter = at - h;
    double below = loss_of(s, dy);
    *parameter = at;
    return (above - below) / (2.0 * h);
}

/* The same numbers as the kernels get them. */
struct floats {
    float x[MOST], dy[MOST], y[MOST], dx[MOST];
    float gamma[CHANNELS], beta[CHANNELS], v[CHANNELS], scale[CHANNELS], used[CHANNELS];
    float spread[CHANNELS], before[CHANNELS];
    float dgamma[CHANNELS], dbeta[CHANNELS], dv[CHANNELS], work[OCT_RANGE_WORK * CHANNELS];
};

static void to_double(double *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = (double)in[i];
    }
}

static void draw_sample(struct sample *s, struct floats *f, size_t rows, size_t c, size_t groups) {
    draw(f->x, rows * c, -4.0f, 5.0f);
    draw(f->dy, rows * c, -1.0f, 1.0f);
    draw(f->gamma, c, 0.5f, 1.5f);
    draw(f->beta, c, -1.0f, 1.0f);
    draw(f->v, c, -1.5f, 1.5f);
    draw(f->before, c, -1.0f, 1.0f);
    draw(f->used, groups, -0.01f, 0.01f);
    for (size_t i = 0; i < rows * c; i++) { /* clear of the clamp's borders */
        double a = (double)f->v[i % c] * (double)f->x[i];
        if (fabs(fabs(a) - 3.0) < 0.01) {
            f->x[i] *= 1.05f;
        }
    }
    s->rows = rows;
    s->c = c;
    s->groups = groups;
    to_double(s->x, f->x, rows * c);
    to_double(s->gamma, f->gamma, c);
    to_double(s->beta, f->beta, c);
    to_double(s->v, f->v, c);
    hold(s);
    for (size_t g = 0; g < groups; g++) {
        f->scale[g] = (float)s->scale[g];
        f->used[g] = f->scale[g] * (1.0f + f->used[g]);
        s->used[g] = (double)f->used[g];
    }
}

static int check_spread(const char *name, struct sample *s, struct floats *f) {
    struct error error = {0};
    char what[64];
    ref()->chunk_spread_f32(s->rows, s->c, s->groups, f->x, f->spread, f->work);
    for (size_t g = 0; g < s->groups; g++) {
        compare(&error, (double)f->spread[g], spread_of(s, g), 9.0, g);
    }
    snprintf(what, sizeof what, "%zux%zu/%zu, over 9", s->rows, s->c, s->groups);
    return verdict(name, what, &error, 20 * 0x1p-24);
}

static int check_forward(const char *name, struct sample *s, struct floats *f) {
    struct error error = {0};
    char what[64];
    ref()->range_evonorm_f32(s->rows, s->c, s->groups, f->x, f->gamma, f->beta, f->v, f->used, f->y,
                             f->work);
    for (size_t i = 0; i < s->rows * s->c; i++) {
        double wanted = y_of(s, i);
        double ungated = s->gamma[i % s->c] * s->x[i] * s->used[i % s->c / (s->c / s->groups)];
        compare(&error, (double)f->y[i], wanted, 1.0 + fabs(ungated), i);
    }
    snprintf(what, sizeof what, "%zux%zu/%zu y", s->rows, s->c, s->groups);
    return verdict(name, what, &error, 1e-6);
}

/* Errors are measured against the terms that a slope is the sum of: the path through the scale has
 * its square as a factor, unless there is no spread to move. */
static void compare_slopes(struct error *error, struct sample *s, const float *dy, double *at,
                           size_t n, const float *got, const float *before) {
    for (size_t i = 0; i < n; i++) {
        size_t g = i % s->c / (s->c / s->groups);
        double wanted = slope_of(s, dy, &at[i]), scale = s->scale[g];
        double size = 1.0 + fabs(wanted) + (spread_of(s, g) > 0.0 ? scale * scale : scale);
        compare(error, (double)got[i] - (before ? (double)before[i] : 0.0), wanted, size, i);
    }
}

static int check_gradient(const char *name, struct sample *s, struct floats *f) {
    struct error error_x = {0}, error_parameters = {0};
    char what[64];
    memcpy(f->dgamma, f->before, sizeof f->before);
    memcpy(f->dbeta, f->before, sizeof f->before);
    memcpy(f->dv, f->before, sizeof f->before);
    ref()->range_evonorm_grad_f32(s->rows, s->c, s->groups, f->x, f->gamma, f->v, f->scale, f->used,
                                  f->dy, f->dgamma, f->dbeta, f->dv, f->dx, f->work);
    compare_slopes(&error_x, s, f->dy, s->x, s->rows * s->c, f->dx, NULL);
    compare_slopes(&error_parameters, s, f->dy, s->gamma, s->c, f->dgamma, f->before);
    compare_slopes(&error_parameters, s, f->dy, s->beta, s->c, f->dbeta, f->before);
    compare_slopes(&error_parameters, s, f->dy, s->v, s->c, f->dv, f->before);
    snprintf(what, sizeof what, "%zux%zu/%zu dx, fin. differences", s->rows, s->c, s->groups);
    int failures = verdict(name, what, &error_x, 5e-6);
    snprintf(what, sizeof what, "%zux%zu/%zu parameters, the same", s->rows, s->c, s->groups);
    return failures + verdict(name, what, &error_parameters, 5e-6);
}

/* The borders themselves: v * x = -3 and 3 give t = 0 and 1 exactly, where the slope is 1/6; beyond
 * it is 0. Zeros and constants: no spread, and no share of it. */
static int check_borders(void) {
    const char *name = "range_evonorm_grad_f32";
    const float x[4] = {-3.0f, 3.0f, -3.5f, 3.5f}, one = 1.0f, scale = 0.5f;
    const float dy[4] = {0.0f, 1.0f, 0.0f, 0.0f};
    float dgamma = 0.0f, dbeta = 0.0f, dv = 0.0f, dx[4], work[OCT_RANGE_WORK];
    /* K = 2, L = 2; D = 3; share = -(3 / 4) * f(2) / 2: largest 3 and 3.5, smallest -3 and -3.5 */
    ref()->range_evonorm_grad_f32(4, 1, 1, x, &one, &one, &scale, &scale, dy, &dgamma, &dbeta, &dv,
                                  dx, work);
    const double share = -0.75 * (double)(float)factor_of(2) / 2.0;
    struct error error = {0};
    const double wanted[4] = {-share, 0.5 * (1.0 + 0.5) + share, -share, share};
    for (size_t i = 0; i < 4; i++) {
        compare(&error, (double)dx[i], wanted[i], 1.0, i);
    }
    int failures = verdict(name, "dx at the clamp's borders", &error, 4 * 0x1p-24);
    failures += fact(name, "dv at t = 1", (double)dv, (double)(0.5f * (9.0f * (1.0f / 6.0f))));
    const float flat[4] = {2.0f, 2.0f, 2.0f, 2.0f}, huge = 1e5f;
    ref()->range_evonorm_grad_f32(4, 1, 1, flat, &one, &one, &huge, &huge, dy, &dgamma, &dbeta, &dv,
                                  dx, work);
    failures += fact(name, "a constant's dx without dy", (double)dx[0], 0.0);
    compare(&error, (double)dx[1], 1e5 * (5.0 / 6.0 + 1.0 / 3.0), 1e5, 1);
    return failures + verdict(name, "a constant's dx", &error, 4 * 0x1p-24);
}

static int check_odd_spreads(void) {
    const char *name = "chunk_spread_f32";
    float spread = 7.0f, work[OCT_RANGE_WORK * 2];
    const float first[4] = {NAN, 1.0f, 2.0f, 3.0f}, later[4] = {1.0f, NAN, 2.0f, 4.0f};
    int failures = 0;
    ref()->chunk_spread_f32(4, 1, 1, first, &spread, work);
    failures += fact(name, "a chunk's first value is NaN", isnan(spread), 1.0);
    ref()->chunk_spread_f32(4, 1, 1, later, &spread, work); /* chunks (1, NaN) and (2, 4) */
    failures += fact(name, "a later value is NaN", (double)spread, 1.0);
    ref()->chunk_spread_f32(1, 1, 1, later, &spread, work);
    failures += fact(name, "of one value", (double)spread, 0.0);
    ref()->chunk_spread_f32(0, 1, 1, later, &spread, work);
    failures += fact(name, "of none", (double)spread, 0.0);
    /* x[2][2] in (channel, row) order is 1, 2 | 5, 9: chunks (1, 2) and (5, 9) */
    const float square[4] = {1.0f, 5.0f, 2.0f, 9.0f};
    ref()->chunk_spread_f32(2, 2, 1, square, &spread, work);
    return failures + fact(name, "channels come before rows", (double)spread, 2.5);
}

/* --- columns ---------------------------------------------------------------------------------- */

static int check_column_minmax(void) {
    enum { ROWS = 53, COLUMNS = 5 };
    static float x[ROWS * COLUMNS], low[COLUMNS], high[COLUMNS];
    struct error error = {0};
    draw(x, ROWS * COLUMNS, -2.0f, 2.0f);
    ref()->column_minmax_f32(ROWS, COLUMNS, x, low, high);
    for (size_t j = 0; j < COLUMNS; j++) {
        double least = INFINITY, most = -INFINITY;
        for (size_t r = 0; r < ROWS; r++) {
            least = fmin(least, (double)x[r * COLUMNS + j]);
            most = fmax(most, (double)x[r * COLUMNS + j]);
        }
        compare(&error, (double)low[j], least, 1.0, j);
        compare(&error, (double)high[j], most, 1.0, j);
    }
    const float zeros[2] = {-0.0f, -0.0f}, later[3] = {1.0f, NAN, 2.0f};
    int failures = verdict("column_minmax_f32", "exactly", &error, 0.0);
    ref()->column_minmax_f32(2, 1, zeros, low, high);
    failures += fact("column_minmax_f32", "zeros are +0", signbit(low[0]) + signbit(high[0]), 0.0);
    ref()->column_minmax_f32(3, 1, later, low, high);
    failures += fact("column_minmax_f32", "a NaN is passed by", (double)(high[0] - low[0]), 1.0);
    ref()->column_minmax_f32(2, 1, later + 1, low, high);
    return failures + fact("column_minmax_f32", "unless it is the first", isnan(high[0]), 1.0);
}

/* Values of which many are equal: the first one counts. */
static int check_column_extremes(void) {
    enum { ROWS = 29, COLUMNS = 6 };
    static float x[ROWS * COLUMNS], dx[ROWS * COLUMNS], before[ROWS * COLUMNS], share[COLUMNS];
    struct error error = {0};
    draw(x, ROWS * COLUMNS, -3.0f, 3.0f);
    draw(before, ROWS * COLUMNS, -1.0f, 1.0f);
    draw(share, COLUMNS, -1.0f, 1.0f);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = i % COLUMNS == 5 ? 1.0f : rintf(x[i]);
    }
    memcpy(dx, before, sizeof dx);
    ref()->column_extremes_grad_f32(ROWS, COLUMNS, x, share, dx);
    for (size_t j = 0; j < COLUMNS; j++) {
        size_t largest = ROWS - 1, smallest = ROWS - 1;
        for (size_t r = ROWS; r-- > 0;) {
            largest = x[r * COLUMNS + j] >= x[largest * COLUMNS + j] ? r : largest;
            smallest = x[r * COLUMNS + j] <= x[smallest * COLUMNS + j] ? r : smallest;
        }
        for (size_t r = 0; r < ROWS; r++) {
            int sign = (r == largest) - (r == smallest);
            double wanted = (double)(before[r * COLUMNS + j] + (float)sign * share[j]);
            compare(&error, (double)dx[r * COLUMNS + j], wanted, 1.0, r * COLUMNS + j);
        }
    }
    return verdict("column_extremes_grad_f32", "exactly", &error, 0.0);
}

int check_range(const char *name, uint64_t seed) {
    static const size_t shapes[][3] = {{13, 16, 8}, {10, 12, 2}, {25, 6, 6}, {9, 5, 1},
                                       {16, 8, 4},  {1, 16, 8},  {4, 32, 4}, {1, 3, 3},
                                       {7, 9, 3},   {49, 16, 2}, {64, 16, 8}};
    static struct sample s;
    static struct floats f;
    int failures = 0;
    range_seed = seed;
    n_drawn = 0;
    if (strcmp(name, "column_minmax_f32") == 0) {
        return check_column_minmax();
    }
    if (strcmp(name, "column_extremes_grad_f32") == 0) {
        return check_column_extremes();
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        draw_sample(&s, &f, shapes[i][0], shapes[i][1], shapes[i][2]);
        failures += strcmp(name, "chunk_spread_f32") == 0    ? check_spread(name, &s, &f)
                    : strcmp(name, "range_evonorm_f32") == 0 ? check_forward(name, &s, &f)
                                                             : check_gradient(name, &s, &f);
    }
    if (strcmp(name, "chunk_spread_f32") == 0) {
        failures += check_odd_spreads();
    } else if (strcmp(name, "range_evonorm_grad_f32") == 0) {
        failures += check_borders();
    }
    return failures;
}
