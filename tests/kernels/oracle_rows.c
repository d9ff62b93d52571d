/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_rows.c - kernels on rows of parameters against the same mathematics in double.
 *
 * A difference, a mean and a quotient are one rounding of a number that double has (nearly) exactly,
 * so they are held to half a unit of the last place; the others to the roundings that they are made
 * of.
 */
#include "check.h"
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"

enum { MOST = 3000 };

static uint64_t rows_seed;
static uint32_t n_draws;

static void draw(float *out, size_t n) {
    struct oct__stream stream = oct__stream(rows_seed, OCT_PURPOSE_TEST, 0xeeef, n_draws++, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        oct__stream_block(&stream, (uint32_t)i, word);
        out[i] = 4.0f * oct__unit_float(word[0]) - 2.0f;
    }
}

static const struct oct__kernels *ref(void) {
    return oct__kernels_at(OCT_CPU_REF);
}

/* A unit of the last place of a float near `x`. */
static double unit_at(double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, exponent - FLT_MANT_DIG);
}

static int check_difference(void) {
    static float a[MOST], b[MOST], y[MOST];
    struct error error = {0};
    draw(a, MOST);
    draw(b, MOST);
    for (size_t i = 0; i < MOST; i++) {
        b[i] *= 0.37f; /* other exponents, so that differences are rounded */
    }
    ref()->difference_f32(MOST, a, b, y);
    for (size_t i = 0; i < MOST; i++) {
        double wanted = (double)a[i] - (double)b[i];
        compare(&error, (double)y[i], wanted, unit_at(wanted), i);
    }
    return judge("difference_f32", "in units of the last place", &error, 0.5, rows_seed);
}

static int check_axpy(void) {
    static float x[MOST], y[MOST], before[MOST];
    const float a = -0.37f;
    struct error error = {0};
    draw(x, MOST);
    draw(before, MOST);
    memcpy(y, before, sizeof y);
    ref()->axpy_f32(MOST, a, x, y);
    for (size_t i = 0; i < MOST; i++) {
        compare(&error, (double)y[i], (double)before[i] + (double)a * (double)x[i], 4.0, i);
    }
    return judge("axpy_f32", "over 4", &error, 2 * 0x1p-24, rows_seed);
}

/* Rows, and what lies between them. */
static int check_mean(void) {
    enum { N = 100, STRIDE = 107, ROWS = 7 };
    static float rows[ROWS * STRIDE], before[ROWS * STRIDE];
    struct error error = {0};
    draw(before, ROWS * STRIDE);
    memcpy(rows, before, sizeof rows);
    ref()->mean_f32(N, ROWS, STRIDE, rows);
    for (size_t i = 0; i < ROWS * STRIDE; i++) {
        double wanted = (double)before[i];
        if (i % STRIDE < N) {
            wanted = 0.0;
            for (size_t r = 0; r < ROWS; r++) {
                wanted += (double)before[r * STRIDE + i % STRIDE] / ROWS;
            }
        }
        compare(&error, (double)rows[i], wanted, unit_at(wanted), i);
    }
    return judge("mean_f32", "in units of the last place", &error, 0.5 + 1e-6, rows_seed);
}

/* x / 1 is x to the bit. */
static int check_divide(void) {
    static const float weights[] = {1.0f, 0.3f, 2.75f, 1e-9f, 1e9f};
    static float x[MOST], z[MOST];
    int failures = 0;
    draw(x, MOST);
    for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++) {
        struct error error = {0};
        ref()->divide_f32(MOST, x, weights[w], z);
        for (size_t i = 0; i < MOST; i++) {
            double wanted = (double)x[i] / (double)weights[w];
            compare(&error, (double)z[i], wanted, unit_at(wanted), i);
        }
        failures += judge("divide_f32", "in units of the last place", &error, w == 0 ? 0.0 : 0.5,
                          rows_seed);
    }
    return failures;
}

static int check_settle(void) {
    static float x[MOST], z[MOST], m[MOST], z0[MOST], m0[MOST];
    const float beta = 0.9f, share = 1.5f, weight = 0.8f;
    struct error error_z = {0}, error_m = {0};
    draw(x, MOST);
    draw(z0, MOST);
    draw(m0, MOST);
    memcpy(z, z0, sizeof z);
    memcpy(m, m0, sizeof m);
    ref()->settle_f32(MOST, x, weight, beta, share, z, m);
    for (size_t i = 0; i < MOST; i++) {
        double after = (double)x[i] / (double)weight;
        double momentum = (double)beta * (double)m0[i] + (double)share * ((double)z0[i] - after);
        compare(&error_z, (double)z[i], after, unit_at(after), i);
        compare(&error_m, (double)m[i], momentum, 8.0, i);
    }
    return judge("settle_f32", "z, in units of the last place", &error_z, 0.5, rows_seed) +
           judge("settle_f32", "m, over 8", &error_m, 4 * 0x1p-24, rows_seed);
}

/* The step in closed form: (1 + beta) * d + beta^2 * m. */
static int check_sgd_global_with(float own) {
    static float x[MOST], m[MOST], g[MOST], x0[MOST], m0[MOST];
    const float lr = 0.1f, beta = 0.9f, decay = 5e-4f;
    struct error error = {0}, error_m = {0};
    draw(x0, MOST);
    draw(m0, MOST);
    draw(g, MOST);
    memcpy(x, x0, sizeof x);
    memcpy(m, m0, sizeof m);
    ref()->sgd_global_f32(MOST, x, m, g, lr, beta, decay, own);
    for (size_t i = 0; i < MOST; i++) {
        double d = (double)g[i] + (double)decay * (double)x0[i], old = (double)beta * (double)m0[i];
        double step = (1.0 + (double)beta) * d + (double)beta * old;
        compare(&error, (double)x[i], (double)x0[i] - (double)lr * step, 4.0, i);
        compare(&error_m, (double)m[i], own != 0.0F ? old + (double)own * step : (double)m0[i], 4.0,
                i);
    }
    return judge("sgd_global_f32", "x, over 4", &error, 3 * 0x1p-24, rows_seed) +
           judge("sgd_global_f32", "m, over 4", &error_m, own != 0.0F ? 3 * 0x1p-24 : 0, rows_seed);
}

static int check_sgd_global(void) {
    return check_sgd_global_with(0.0F) + check_sgd_global_with(0.06F);
}

int check_rows(const char *name, uint64_t seed) {
    static const struct {
        const char *name;
        int (*check)(void);
    } checks[] = {
        {"difference_f32", check_difference},
        {"axpy_f32", check_axpy},
        {"mean_f32", check_mean},
        {"divide_f32", check_divide},
        {"settle_f32", check_settle},
        {"sgd_global_f32", check_sgd_global},
    };
    rows_seed = seed;
    n_draws = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (strcmp(checks[i].name, name) == 0) {
            return checks[i].check();
        }
    }
    fprintf(stderr, "WRONG: %s: oracle_rows.c does not know it\n", name);
    return 1;
}
