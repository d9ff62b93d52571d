/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c - ref against the same mathematics written a second time, in double.
 *
 * Forward formulas are the textbook's, summed in double in plain order. Gradients are not derived
 * again but measured: central differences of L = sum of dy * y through the double forward, so that
 * a mistake in a derivation cannot hide in both places. Tolerances are stated with each check, and
 * the largest error found is printed beside them.
 *
 * What is compared is a float's rounding error, relative to the size of the terms that were
 * added (`scale`), not to the result: a sum that cancels is allowed the error of its terms.
 */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/exp.h"
#include "kernels/kernels.h"
#include "oracle.h"

enum { MOST = 4096, CHANNELS = 32 };

static uint64_t oracle_seed;
static uint32_t n_draws;

static int verdict(const char *name, const char *what, const struct error *error,
                   double tolerance) {
    return judge(name, what, error, tolerance, oracle_seed);
}

static void draw(float *out, size_t n, float low, float high) {
    struct oct__stream stream = oct__stream(oracle_seed, OCT_PURPOSE_TEST, 0xeeee, n_draws++, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        oct__stream_block(&stream, (uint32_t)i, word);
        out[i] = low + (high - low) * oct__unit_float(word[0]);
    }
}

static const struct oct__kernels *ref(void) {
    return oct__kernels_at(OCT_CPU_REF);
}

/* --- exp, and the flat kernels ---------------------------------------------------------------- */

static int check_exp(void) {
    struct error error = {0};
    /* Every 997th float of either sign, from the least that moves exp off 1 up to the limit. */
    uint32_t low, high;
    float least = 1e-9f, limit = OCT_EXP_LIMIT;
    memcpy(&low, &least, sizeof low);
    memcpy(&high, &limit, sizeof high);
    for (uint32_t bits = low; bits <= high; bits += 997) {
        for (int sign = 0; sign < 2; sign++) {
            uint32_t signed_bits = bits | (uint32_t)sign << 31;
            float x;
            memcpy(&x, &signed_bits, sizeof x);
            double wanted = exp((double)x);
            int exponent;
            frexp(wanted, &exponent);
            compare(&error, (double)oct__exp_f32(x), wanted, ldexp(1.0, exponent - FLT_MANT_DIG),
                    (int)(bits - low));
        }
    }
    int failures = verdict("exp_f32", "in units of the last place", &error, 0.98);
    const struct {
        const char *what;
        int holds;
    } facts[] = {
        {"exp(0) = 1", oct__exp_f32(0.0f) == 1.0f && oct__exp_f32(-0.0f) == 1.0f},
        {"exp(NaN) is NaN", isnan(oct__exp_f32(NAN))},
        {"exp(+inf) = exp(87), finite",
         oct__exp_f32(INFINITY) == oct__exp_f32(87.0f) && isfinite(oct__exp_f32(FLT_MAX))},
        {"exp(-inf) = exp(-87), normal",
         oct__exp_f32(-INFINITY) == oct__exp_f32(-87.0f) && isnormal(oct__exp_f32(-FLT_MAX))},
        {"sigmoid(0) = 1/2", oct__sigmoid_f32(0.0f) == 0.5f},
        {"sigmoid(100) = 1", oct__sigmoid_f32(100.0f) == 1.0f},
        {"sigmoid(-100) normal, below 1e-37",
         isnormal(oct__sigmoid_f32(-100.0f)) && oct__sigmoid_f32(-100.0f) < 1e-37f},
        {"sigmoid(NaN) is NaN", isnan(oct__sigmoid_f32(NAN))},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        if (!facts[i].holds) {
            fprintf(stderr, "WRONG: exp_f32: %s does not hold\n", facts[i].what);
            failures++;
        }
    }
    return failures;
}

static int check_flat(const char *name) {
    static float a[MOST], b[MOST], y[MOST];
    struct error error = {0};
    draw(a, MOST, -2.0f, 2.0f);
    draw(b, MOST, -2.0f, 2.0f);
    if (strcmp(name, "add_f32") == 0) {
        ref()->add_f32(MOST, a, b, y);
        for (int i = 0; i < MOST; i++) { /* a double's sum rounded is the float's sum exactly */
            compare(&error, (double)y[i], (double)(float)((double)a[i] + (double)b[i]), 1.0, i);
        }
    } else if (strcmp(name, "relu_f32") == 0) {
        ref()->relu_f32(MOST, a, y);
        for (int i = 0; i < MOST; i++) {
            compare(&error, (double)y[i], fmax((double)a[i], 0.0), 1.0, i);
        }
    } else {
        ref()->relu_grad_f32(MOST, a, b, y);
        for (int i = 0; i < MOST; i++) {
            compare(&error, (double)y[i], (double)b[i] * (double)(a[i] > 0.0f), 1.0, i);
        }
    }
    return verdict(name, "exactly", &error, 0.0);
}

/* Windows of several places, some of which hold equal values and NaNs, against a search through them. */
static int check_pool(const char *name) {
    enum { N = 77, PLACES = 9 };
    static float x[PLACES][N], y[N], dx[PLACES][N], dy[N];
    static uint8_t which[N];
    struct error error = {0};
    for (int p = 0; p < PLACES; p++) {
        draw(x[p], N, -2.0f, 2.0f);
        for (int i = p; i < N; i += 5) {
            x[p][i] = i % 10 == 3 ? NAN : 0.25f * (float)(i % 4);
        }
    }
    draw(dy, N, -2.0f, 2.0f);
    memcpy(y, x[0], sizeof y);
    memset(which, 0, sizeof which);
    memset(dx, 0, sizeof dx);
    for (int p = 1; p < PLACES; p++) {
        ref()->max_pool_f32(N, (uint8_t)p, x[p], y, which);
    }
    for (int p = 0; p < PLACES; p++) {
        ref()->max_pool_grad_f32(N, (uint8_t)p, which, dy, dx[p]);
    }
    for (int i = 0; i < N; i++) {
        int best = 0;
        for (int p = 1; p < PLACES && !isnan(x[best][i]); p++) {
            best = isnan(x[p][i]) || x[p][i] > x[best][i] ? p : best;
        }
        const int is_same = isnan(x[best][i]) ? isnan(y[i]) : y[i] == x[best][i];
        compare(&error, (double)which[i], (double)best, 1.0, i);
        compare(&error, (double)is_same, 1.0, 1.0, i);
        for (int p = 0; p < PLACES; p++) {
            compare(&error, (double)dx[p][i], p == best ? (double)dy[i] : 0.0, 1.0, i);
        }
    }
    return verdict(name, "exactly", &error, 0.0);
}

static int check_fold(void) {
    enum { N = 100, PARTS = 7, STRIDE = 111 };
    static float parts[PARTS * STRIDE], out[N];
    struct error error = {0};
    draw(parts, PARTS * STRIDE, -2.0f, 2.0f);
    ref()->fold_f32(N, PARTS, STRIDE, parts, out);
    for (int i = 0; i < N; i++) {
        double total = 0.0, size = 0.0;
        for (int p = 0; p < PARTS; p++) {
            total += (double)parts[p * STRIDE + i];
            size += fabs((double)parts[p * STRIDE + i]);
        }
        compare(&error, (double)out[i], total, size, i);
    }
    return verdict("fold_f32", "over the sum of sizes", &error, PARTS * 0x1p-24);
}

/* The other form of Nesterov's momentum: the step is the sum of the two momenta's steps. */
static int check_sgd(void) {
    static float x[MOST], m[MOST], g[MOST], x0[MOST], m0[MOST];
    const float lr = 0.1f, beta = 0.9f, decay = 5e-4f;
    struct error error_x = {0}, error_m = {0};
    draw(x0, MOST, -2.0f, 2.0f);
    draw(m0, MOST, -2.0f, 2.0f);
    draw(g, MOST, -2.0f, 2.0f);
    memcpy(x, x0, sizeof x);
    memcpy(m, m0, sizeof m);
    ref()->sgd_f32(MOST, x, m, g, lr, beta, decay);
    for (int i = 0; i < MOST; i++) {
        double d = (double)g[i] + (double)decay * (double)x0[i];
        double momentum = (double)beta * (double)m0[i] + d;
        double at = (double)x0[i] - (double)lr * d - (double)lr * (double)beta * momentum;
        compare(&error_m, (double)m[i], momentum, 4.0, i);
        compare(&error_x, (double)x[i], at, 4.0, i);
    }
    return verdict("sgd_f32", "m, over 4", &error_m, 3 * 0x1p-24) +
           verdict("sgd_f32", "x, over 4", &error_x, 3 * 0x1p-24);
}

static int check_nonfinite(void) {
    static float x[1000];
    int wanted = 0;
    draw(x, 1000, -3e38f, 3e38f);
    for (int i = 0; i < 1000; i += 7) {
        x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    }
    for (int i = 0; i < 1000; i++) {
        wanted += !isfinite(x[i]);
    }
    size_t found = 77;
    ref()->nonfinite_f32(1000, x, &found);
    struct error error = {0};
    compare(&error, (double)found, (double)wanted, 1.0, 0);
    return verdict("nonfinite_f32", "exactly", &error, 0.0);
}

/* The definition the other way round: for each place in the result, where did it come from? */
static int check_crop(void) {
    enum { H = 6, W = 7, C = 3 };
    static uint8_t src[H * W * C];
    static float lut[C * 256], dst[H * W * C];
    struct error error = {0};
    draw(lut, C * 256, -2.0f, 2.0f);
    for (int i = 0; i < H * W * C; i++) {
        src[i] = (uint8_t)(37 * i + 11);
    }
    for (int trial = 0; trial < 2 * 9 * 9; trial++) {
        int flip = trial % 2, dy = trial / 2 % 9 - 4, dx = trial / 18 - 4;
        ref()->crop_u8_f32(H, W, C, src, dy, dx, flip, lut, dst);
        for (int i = 0; i < H * W * C; i++) {
            int k = i % C, column = i / C % W, row = i / C / W;
            int x = (flip ? W - 1 - column : column) + dx, y = row + dy;
            int black = x < 0 || x >= W || y < 0 || y >= H;
            compare(&error, (double)dst[i],
                    (double)lut[k * 256 + (black ? 0 : src[(y * W + x) * C + k])], 1.0, i);
        }
    }
    return verdict("crop_u8_f32", "exactly", &error, 0.0);
}

/* --- columns: BatchNorm ----------------------------------------------------------------------- */

enum { ROWS = 53, COLUMNS = 5, CELLS = ROWS * COLUMNS };

static int check_column_sums(const char *name) {
    static float x[CELLS], mean[COLUMNS], sum[COLUMNS], sum0[COLUMNS];
    int squares = strcmp(name, "column_square_f32") == 0;
    struct error error = {0};
    draw(x, CELLS, -2.0f, 2.0f);
    draw(mean, COLUMNS, -1.0f, 1.0f);
    draw(sum0, COLUMNS, -1.0f, 1.0f);
    memcpy(sum, sum0, sizeof sum);
    if (squares) {
        ref()->column_square_f32(ROWS, COLUMNS, x, mean, sum);
    } else {
        ref()->column_sum_f32(ROWS, COLUMNS, x, sum);
    }
    for (int j = 0; j < COLUMNS; j++) {
        double total = (double)sum0[j], size = fabs(total);
        for (int r = 0; r < ROWS; r++) {
            double value = (double)x[r * COLUMNS + j];
            double term = squares ? pow(value - (double)mean[j], 2.0) : value;
            total += term;
            size += fabs(term);
        }
        compare(&error, (double)sum[j], total, size, j);
    }
    /* ROWS / 4 additions a partial, three to fold, and the rounding of a term */
    return verdict(name, "over the sum of sizes", &error, (ROWS / 4.0 + 7.0) * 0x1p-24);
}

static int check_column_affine(void) {
    static float x[CELLS], scale[COLUMNS], shift[COLUMNS], y[CELLS];
    struct error error = {0};
    draw(x, CELLS, -2.0f, 2.0f);
    draw(scale, COLUMNS, -2.0f, 2.0f);
    draw(shift, COLUMNS, -2.0f, 2.0f);
    ref()->column_affine_f32(ROWS, COLUMNS, x, scale, shift, y);
    for (int i = 0; i < CELLS; i++) {
        int j = i % COLUMNS;
        compare(&error, (double)y[i], fma((double)x[i], (double)scale[j], (double)shift[j]), 6.0,
                i);
    }
    return verdict("column_affine_f32", "over 6", &error, 0x1p-24);
}

/* A norm of one sample, or BatchNorm of one batch, in double, to be differentiated numerically. */
struct norm {
    size_t rows, c, groups;
    int evonorm;
    double eps;
    double x[MOST], gamma[CHANNELS], beta[CHANNELS], v[CHANNELS];
    double mean[CHANNELS], rstd[CHANNELS]; /* per group, left by norm_forward */
};

static void norm_forward(struct norm *norm, double *y) {
    size_t width = norm->c / norm->groups;
    for (size_t g = 0; g < norm->groups; g++) {
        double sum = 0.0, squares = 0.0, count = (double)(norm->rows * width);
        for (size_t r = 0; r < norm->rows; r++) {
            for (size_t j = g * width; j < (g + 1) * width; j++) {
                sum += norm->x[r * norm->c + j];
            }
        }
        norm->mean[g] = sum / count;
        for (size_t r = 0; r < norm->rows; r++) {
            for (size_t j = g * width; j < (g + 1) * width; j++) {
                squares += pow(norm->x[r * norm->c + j] - norm->mean[g], 2.0);
            }
        }
        norm->rstd[g] = 1.0 / sqrt(squares / count + norm->eps);
    }
    for (size_t i = 0; i < norm->rows * norm->c; i++) {
        size_t j = i % norm->c, g = j * norm->groups / norm->c;
        double x = norm->x[i];
        double inner = norm->evonorm ? x / (1.0 + exp(-norm->v[j] * x)) : x - norm->mean[g];
        y[i] = norm->gamma[j] * inner * norm->rstd[g] + norm->beta[j];
    }
}

static double loss(struct norm *norm, const float *dy) {
    static double y[MOST];
    double total = 0.0;
    norm_forward(norm, y);
    for (size_t i = 0; i < norm->rows * norm->c; i++) {
        total += (double)dy[i] * y[i];
    }
    return total;
}

/* dL / d *parameter. */
static double slope(struct norm *norm, const float *dy, double *parameter) {
    const double h = 1e-4, at = *parameter;
    *parameter = at + h;
    double above = loss(norm, dy);
    *parameter = at - h;
    double below = loss(norm, dy);
    *parameter = at;
    return (above - below) / (2.0 * h);
}

static void to_double(double *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = (double)in[i];
    }
}

static void compare_slopes(struct error *error, struct norm *norm, const float *dy,
                           double *parameters, size_t n, const float *got, const float *before) {
    for (size_t i = 0; i < n; i++) {
        double wanted = slope(norm, dy, &parameters[i]) + (before ? (double)before[i] : 0.0);
        compare(error, (double)got[i], wanted, 1.0 + fabs(wanted), (int)i);
    }
}

/* The four column kernels put together as the engine does it for BatchNorm. */
static int check_batch_norm(const char *name) {
    static struct norm norm;
    static float x[CELLS], dy[CELLS], dx[CELLS], gamma[COLUMNS], mean[COLUMNS], rstd[COLUMNS];
    static float dscale[COLUMNS], dshift[COLUMNS], k[COLUMNS], a[COLUMNS], b[COLUMNS];
    draw(x, CELLS, -2.0f, 3.0f);
    draw(dy, CELLS, -1.0f, 1.0f);
    draw(gamma, COLUMNS, 0.5f, 1.5f);
    memset(mean, 0, sizeof mean);
    memset(rstd, 0, sizeof rstd);
    memset(dscale, 0, sizeof dscale);
    memset(dshift, 0, sizeof dshift);
    ref()->column_sum_f32(ROWS, COLUMNS, x, mean);
    for (int j = 0; j < COLUMNS; j++) {
        mean[j] /= ROWS;
    }
    ref()->column_square_f32(ROWS, COLUMNS, x, mean, rstd);
    for (int j = 0; j < COLUMNS; j++) {
        rstd[j] = 1.0f / sqrtf(rstd[j] / ROWS + 1e-5f);
    }
    ref()->column_norm_sums_f32(ROWS, COLUMNS, x, mean, rstd, dy, dscale, dshift);
    for (int j = 0; j < COLUMNS; j++) {
        k[j] = gamma[j] * rstd[j];
        a[j] = dshift[j] / ROWS;
        b[j] = dscale[j] / ROWS;
    }
    ref()->column_norm_grad_f32(ROWS, COLUMNS, x, mean, rstd, k, a, b, dy, dx);
    norm = (struct norm){.rows = ROWS, .c = COLUMNS, .groups = COLUMNS, .eps = 1e-5};
    to_double(norm.x, x, CELLS);
    to_double(norm.gamma, gamma, COLUMNS);
    if (strcmp(name, "column_norm_sums_f32") == 0) {
        struct error error_scale = {0}, error_shift = {0};
        compare_slopes(&error_scale, &norm, dy, norm.gamma, COLUMNS, dscale, NULL);
        compare_slopes(&error_shift, &norm, dy, norm.beta, COLUMNS, dshift, NULL);
        return verdict(name, "dscale, finite differences", &error_scale, 5e-6) +
               verdict(name, "dshift, finite differences", &error_shift, 5e-6);
    }
    struct error error = {0};
    compare_slopes(&error, &norm, dy, norm.x, CELLS, dx, NULL);
    return verdict(name, "dx, finite differences", &error, 5e-6);
}

/* --- GroupNorm and EvoNorm -------------------------------------------------------------------- */

static int check_group_norm(const char *name, int evonorm, int gradient, size_t rows, size_t c,
                            size_t groups) {
    static struct norm norm;
    static float x[MOST], dy[MOST], y[MOST], dx[MOST], work[8 * CHANNELS];
    static float gamma[CHANNELS], beta[CHANNELS], v[CHANNELS], mean[CHANNELS], rstd[CHANNELS];
    static float dgamma[CHANNELS], dbeta[CHANNELS], dv[CHANNELS], before[CHANNELS];
    static double wanted[MOST];
    const float eps = 1e-5f;
    draw(x, rows * c, -2.0f, 3.0f);
    draw(dy, rows * c, -1.0f, 1.0f);
    draw(gamma, c, 0.5f, 1.5f);
    draw(beta, c, -1.0f, 1.0f);
    draw(v, c, -1.5f, 1.5f);
    draw(before, c, -1.0f, 1.0f);
    norm = (struct norm){
        .rows = rows, .c = c, .groups = groups, .evonorm = evonorm, .eps = (double)eps};
    to_double(norm.x, x, rows * c);
    to_double(norm.gamma, gamma, c);
    to_double(norm.beta, beta, c);
    to_double(norm.v, v, c);
    if (evonorm) {
        ref()->evonorm_f32(rows, c, groups, x, gamma, beta, v, eps, mean, rstd, y, work);
    } else {
        ref()->group_norm_f32(rows, c, groups, x, gamma, beta, eps, mean, rstd, y, work);
    }
    char what[64];
    if (!gradient) {
        struct error error_y = {0}, error_statistics = {0};
        norm_forward(&norm, wanted);
        for (size_t i = 0; i < rows * c; i++) {
            compare(&error_y, (double)y[i], wanted[i], 1.0 + fabs(wanted[i]), (int)i);
        }
        for (size_t g = 0; g < groups; g++) {
            compare(&error_statistics, (double)mean[g], norm.mean[g], 1.0, (int)g);
            compare(&error_statistics, (double)rstd[g], norm.rstd[g], norm.rstd[g], (int)g);
        }
        snprintf(what, sizeof what, "%zux%zu/%zu y", rows, c, groups);
        int failures = verdict(name, what, &error_y, 2e-6);
        snprintf(what, sizeof what, "%zux%zu/%zu mean and rstd", rows, c, groups);
        return failures + verdict(name, what, &error_statistics, 2e-6);
    }
    struct error error_x = {0}, error_parameters = {0};
    memcpy(dgamma, before, sizeof dgamma);
    memcpy(dbeta, before, sizeof dbeta);
    memcpy(dv, before, sizeof dv);
    if (evonorm) {
        ref()->evonorm_grad_f32(rows, c, groups, x, gamma, v, mean, rstd, dy, dgamma, dbeta, dv, dx,
                                work);
        compare_slopes(&error_parameters, &norm, dy, norm.v, c, dv, before);
    } else {
        ref()->group_norm_grad_f32(rows, c, groups, x, gamma, mean, rstd, dy, dgamma, dbeta, dx,
                                   work);
    }
    compare_slopes(&error_parameters, &norm, dy, norm.gamma, c, dgamma, before);
    compare_slopes(&error_parameters, &norm, dy, norm.beta, c, dbeta, before);
    compare_slopes(&error_x, &norm, dy, norm.x, rows * c, dx, NULL);
    snprintf(what, sizeof what, "%zux%zu/%zu dx, fin. differences", rows, c, groups);
    int failures = verdict(name, what, &error_x, 5e-6);
    snprintf(what, sizeof what, "%zux%zu/%zu parameters, the same", rows, c, groups);
    return failures + verdict(name, what, &error_parameters, 5e-6);
}

static int check_groups(const char *name) {
    static const size_t shapes[][3] = {{13, 16, 8}, {10, 12, 2}, {25, 6, 6}, {9, 5, 1}};
    int evonorm = strncmp(name, "evonorm", 7) == 0, gradient = strstr(name, "_grad") != NULL;
    int failures = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        failures +=
            check_group_norm(name, evonorm, gradient, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    return failures;
}

/* --- exact integer products ------------------------------------------------------------------- */

static int check_center(void) {
    struct error error = {0};
    uint8_t bytes[256];
    int16_t y[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
    }
    for (int zero = 0; zero < 256; zero++) {
        ref()->center_u8_s16(256, bytes, zero, y);
        for (int i = 0; i < 256; i++) {
            compare(&error, (double)y[i], (double)i - (double)zero, 1.0, i);
        }
    }
    return verdict("center_u8_s16", "exactly", &error, 0.0);
}

/* A row of a kernel at a row of positions, as a sum over one run of values at each. */
static int check_taps(void) {
    enum { POSITIONS = 9, STEP = 6, PAIRS = 11, OUT = 5, STRIDE = 7, RUN = 2 * PAIRS };
    static float unit[POSITIONS * STEP + RUN + RUN * OUT];
    int16_t x[POSITIONS * STEP + RUN], w[RUN * OUT];
    int32_t sums[POSITIONS * STRIDE];
    struct error error = {0};
    draw(unit, sizeof unit / sizeof unit[0], -256.0f, 256.0f);
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        x[i] = (int16_t)unit[i];
    }
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        w[i] = (int16_t)(0.5f * unit[sizeof x / sizeof x[0] + i]);
    }
    for (int i = 0; i < POSITIONS * STRIDE; i++) {
        sums[i] = 1000 * i;
    }
    ref()->taps_s16_s32(POSITIONS, STEP, PAIRS, OUT, STRIDE, x, w, sums);
    for (int i = 0; i < POSITIONS * STRIDE; i++) {
        double wanted = 1000.0 * i;
        for (int j = 0; j < RUN && i % STRIDE < OUT; j++) {
            wanted += (double)x[i / STRIDE * STEP + j] *
                      (double)w[(j / 2 * OUT + i % STRIDE) * 2 + j % 2];
        }
        compare(&error, (double)sums[i], wanted, 1.0, i);
    }
    return verdict("taps_s16_s32", "exactly", &error, 0.0);
}

/* Every row has one; a kernel without does not compile. */
#define ORACLE_add_f32 check_flat("add_f32")
#define ORACLE_relu_f32 check_flat("relu_f32")
#define ORACLE_relu_grad_f32 check_flat("relu_grad_f32")
#define ORACLE_max_pool_f32 check_pool("max_pool_f32")
#define ORACLE_max_pool_grad_f32 check_pool("max_pool_grad_f32")
#define ORACLE_fold_f32 check_fold()
#define ORACLE_sgd_f32 check_sgd()
#define ORACLE_sgd_global_f32 check_rows("sgd_global_f32", seed)
#define ORACLE_nonfinite_f32 check_nonfinite()
#define ORACLE_crop_u8_f32 check_crop()
#define ORACLE_column_sum_f32 check_column_sums("column_sum_f32")
#define ORACLE_column_square_f32 check_column_sums("column_square_f32")
#define ORACLE_column_affine_f32 check_column_affine()
#define ORACLE_column_norm_sums_f32 check_batch_norm("column_norm_sums_f32")
#define ORACLE_column_norm_grad_f32 check_batch_norm("column_norm_grad_f32")
#define ORACLE_group_norm_f32 check_groups("group_norm_f32")
#define ORACLE_group_norm_grad_f32 check_groups("group_norm_grad_f32")
#define ORACLE_evonorm_f32 check_groups("evonorm_f32")
#define ORACLE_evonorm_grad_f32 check_groups("evonorm_grad_f32")
#define ORACLE_minmax_f32 check_bytes("minmax_f32", seed)
#define ORACLE_minmax_s32 check_bytes("minmax_s32", seed)
#define ORACLE_minmax_sum_u8 check_fused("minmax_sum_u8", seed)
#define ORACLE_absmax_f32 check_bytes("absmax_f32", seed)
#define ORACLE_absmax_bf16 check_fused("absmax_bf16", seed)
#define ORACLE_absmax_s32 check_fused("absmax_s32", seed)
#define ORACLE_absmax_s32_s8 check_fused("absmax_s32_s8", seed)
#define ORACLE_quantize_u8_f32 check_bytes("quantize_u8_f32", seed)
#define ORACLE_quantize_u8_s32 check_fused("quantize_u8_s32", seed)
#define ORACLE_quantize_sum_u8 check_fused("quantize_sum_u8", seed)
#define ORACLE_quantize_s8_f32 check_bytes("quantize_s8_f32", seed)
#define ORACLE_quantize_u8_random_f32 check_bytes("quantize_u8_random_f32", seed)
#define ORACLE_quantize_s8_random_f32 check_bytes("quantize_s8_random_f32", seed)
#define ORACLE_quantize_s8_random_bf16 check_fused("quantize_s8_random_bf16", seed)
#define ORACLE_quantize_s8_random_s32 check_fused("quantize_s8_random_s32", seed)
#define ORACLE_quantize_s8_random_s32_s8 check_fused("quantize_s8_random_s32_s8", seed)
#define ORACLE_dequantize_u8_f32 check_bytes("dequantize_u8_f32", seed)
#define ORACLE_dequantize_add_u8_f32 check_bytes("dequantize_add_u8_f32", seed)
#define ORACLE_dequantize_s8_f32 check_bytes("dequantize_s8_f32", seed)
#define ORACLE_dequantize_add_s8_f32 check_bytes("dequantize_add_s8_f32", seed)
#define ORACLE_dequantize_s32_f32 check_bytes("dequantize_s32_f32", seed)
#define ORACLE_dequantize_add_s32_f32 check_bytes("dequantize_add_s32_f32", seed)
#define ORACLE_column_dequantize_s32_f32 check_bytes("column_dequantize_s32_f32", seed)
#define ORACLE_column_scale_f32 check_bytes("column_scale_f32", seed)
#define ORACLE_clip_mask_f32 check_bytes("clip_mask_f32", seed)
#define ORACLE_clip_mask_s8 check_bytes("clip_mask_s8", seed)
#define ORACLE_round_bf16_f32 check_bytes("round_bf16_f32", seed)
#define ORACLE_widen_bf16_f32 check_bytes("widen_bf16_f32", seed)
#define ORACLE_center_u8_bf16 check_bytes("center_u8_bf16", seed)
#define ORACLE_pair_center_u8_bf16 check_outer("pair_center_u8_bf16", seed)
#define ORACLE_pair_bf16 check_outer("pair_bf16", seed)
#define ORACLE_outer_bf16_f32 check_outer("outer_bf16_f32", seed)
#define ORACLE_center_u8_s16 check_center()
#define ORACLE_taps_s16_s32 check_taps()
#define ORACLE_chunk_spread_f32 check_range("chunk_spread_f32", seed)
#define ORACLE_range_evonorm_f32 check_range("range_evonorm_f32", seed)
#define ORACLE_range_evonorm_grad_f32 check_range("range_evonorm_grad_f32", seed)
#define ORACLE_column_minmax_f32 check_range("column_minmax_f32", seed)
#define ORACLE_column_extremes_grad_f32 check_range("column_extremes_grad_f32", seed)
#define ORACLE_chunk_spread_u8 check_norm_bytes("chunk_spread_u8", seed)
#define ORACLE_range_evonorm_minmax_u8 check_norm_bytes("range_evonorm_minmax_u8", seed)
#define ORACLE_range_evonorm_u8 check_norm_bytes("range_evonorm_u8", seed)
#define ORACLE_range_evonorm_grad_u8_f32 check_norm_bytes("range_evonorm_grad_u8_f32", seed)
#define ORACLE_range_evonorm_grad_u8_bf16 check_norm_bytes("range_evonorm_grad_u8_bf16", seed)
#define ORACLE_difference_f32 check_rows("difference_f32", seed)
#define ORACLE_axpy_f32 check_rows("axpy_f32", seed)
#define ORACLE_mean_f32 check_rows("mean_f32", seed)
#define ORACLE_divide_f32 check_rows("divide_f32", seed)
#define ORACLE_settle_f32 check_rows("settle_f32", seed)
#define ORACLE_axpy_s8_f32 check_bytes("axpy_s8_f32", seed)
#define ORACLE_above_u32 check_bytes("above_u32", seed)
#define ORACLE_draw_u32 check_bytes("draw_u32", seed)

int check_oracle(const char *only, uint64_t seed) {
    oracle_seed = seed;
    n_draws = 0;
    int failures = only ? 0 : check_exp();
#define OCT_KERNEL(name, parameters)                                                               \
    if (!only || strcmp(only, #name) == 0) {                                                       \
        failures += ORACLE_##name;                                                                 \
    }
#include "kernels/kernels.def"
#undef OCT_KERNEL
    return failures;
}
