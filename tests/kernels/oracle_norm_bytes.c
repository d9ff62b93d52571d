/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_norm_bytes.c - Range EvoNorm on bytes against the same in floats, step by step in memory.
 *
 * kernels.def defines these kernels by others: dequantize, the norm of floats, then what becomes of
 * its result. oracle_range.c and oracle_bytes.c hold those to their definitions; here they are called
 * one after the other, and the kernels on bytes must give the same bits, ref's and every variant's.
 *
 * Variants take short cuts that depend on the data: which bytes can be extremes, what cannot be a
 * NaN. So the data is made to lie where short cuts end: grids with their zero anywhere, few different
 * bytes, v of either sign that put the lowest point of x * h(v * x) on the grid or off it, parameters
 * that are 0, denormal, huge or not finite.
 */
#include "check.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/chunks.h"
#include "kernels/kernels.h"

enum { MOST = 2304, CHANNELS = 70, TRIALS = 4000 };

/* What a call is given. */
static struct {
    size_t hw, c, groups;
    uint8_t q[MOST];
    int8_t dy[MOST];
    float scale, zero, least, dy_scale, inverse, y_zero;
    float gamma[CHANNELS], beta[CHANNELS], v[CHANNELS];
    float spread_scale[CHANNELS], used[CHANNELS];
    int mask;
} of;

/* What it leaves; NaNs are made alike before two of these are compared. */
struct results {
    float spread[CHANNELS], range[2];
    float dgamma[CHANNELS], dbeta[CHANNELS], dv[CHANNELS], dx[MOST];
    uint16_t halves[MOST];
    uint8_t y[MOST];
};

static float work[OCT_RANGE_WORK * CHANNELS];

/* --- data ------------------------------------------------------------------------------------- */

static struct oct__stream stream;
static uint32_t n_drawn;

static uint32_t below(uint32_t n) {
    uint32_t word[4];
    oct__stream_block(&stream, n_drawn++, word);
    return oct__below(word[0], n);
}

static float between(float low, float high) {
    return low + (high - low) * ((float)below(1 << 24) * 0x1p-24f);
}

/* One in `rarity` is odd; the others lie in [low, high). */
static float parameter(float low, float high, uint32_t rarity) {
    static const float odd[] = {0.0f,   -0.0f, 1e-42f, -1e-42f, 1e-38f,   -1e-30f,   1e30f,
                                -1e38f, 3e38f, 1e10f,  -1e-10f, INFINITY, -INFINITY, NAN,
                                1.0f,   -1.0f, 0.5f,   -3.0f,   1e5f,     -1e5f};
    return below(rarity) == 0 ? odd[below(sizeof odd / sizeof odd[0])] : between(low, high);
}

static void draw_bytes(void) {
    const size_t n = of.hw * of.c;
    const uint32_t kind = below(4), first = below(256), span = 1 + below(below(2) ? 256 : 12);
    uint8_t few[4];
    for (int i = 0; i < 4; i++) {
        few[i] = (uint8_t)below(256);
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t byte = first + below(span);
        of.q[i] = kind == 0   ? (uint8_t)below(256)
                  : kind == 1 ? few[below(4)]
                  : kind == 2 ? (uint8_t)(byte < 255 ? byte : 255)
                              : (uint8_t)(i % of.c * 37 + below(3));
        of.dy[i] = (int8_t)((int)below(255) - 127);
    }
}

static void draw(uint64_t seed, uint32_t trial) {
    static const float scales[] = {1.0f,   0.0123f, 1.0f / 63.0f, 3.7e-5f, 2e-9f,
                                   1e-29f, 1e29f,   1.0f / 16.0f, 1e-41f,  3e38f};
    static const float zeros[] = {0.0f, 1.0f, 254.0f, 255.0f};
    static const size_t rows[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 31, 32};
    stream = oct__stream(seed, OCT_PURPOSE_TEST, 0xbbbbU, trial, 0);
    n_drawn = 0;
    of.c = 1 + trial % CHANNELS;
    of.hw = trial % 97 == 0 ? MOST / of.c : rows[below(sizeof rows / sizeof rows[0])];
    do {
        of.groups = 1 + below((uint32_t)of.c);
    } while (of.c % of.groups != 0);
    draw_bytes();
    of.scale = scales[below(below(4) ? 5 : sizeof scales / sizeof scales[0])];
    of.zero = below(2) ? zeros[below(4)] : (float)below(256);
    of.dy_scale = parameter(1e-6f, 1e-2f, 30);
    of.inverse = parameter(1.0f, 200.0f, 30);
    of.y_zero = below(2) ? zeros[below(4)] : (float)below(256);
    of.mask = (int)below(2);
    /* how far channels lie apart; and mostly, channels that have their lowest values inside */
    const float far = below(2) ? 1.0f : of.scale;
    const float low = below(4) ? 0.7f : -1.0f, steps = below(2) ? 100.0f : 400.0f;
    const uint32_t rarity = below(2) ? 1000000 : 60;
    const size_t alone = below(2) ? below((uint32_t)of.c) : of.c; /* the others are constant */
    for (size_t j = 0; j < of.c; j++) {
        of.gamma[j] = parameter(low, 1.5f, rarity);
        of.beta[j] = far * parameter(-1.0f, 1.0f, rarity);
        /* the lowest point up to `steps` from 0 */
        of.v[j] = parameter(low, 1.0f, rarity) * 1.5f / (of.scale * between(1.0f, steps) * low);
        if (below(4) == 0) { /* on a byte, or between two */
            of.v[j] = (low > 0.0f ? 1.5f : -1.5f) / (of.scale * (0.5f * (float)(1 + below(512))));
        }
    }
    for (size_t j = 0; j < of.c && alone < of.c; j++) {
        of.gamma[j] = j == alone ? of.gamma[j] : 0.0f;
        of.beta[j] = 0.0f;
    }
    of.least = below(2) ? between(0.0f, 2.0f) : 0.0f;
    for (size_t g = 0; g < of.groups; g++) {
        of.spread_scale[g] = parameter(0.1f, 3.0f, rarity);
        of.used[g] = below(5) ? of.spread_scale[g] : parameter(0.1f, 3.0f, rarity);
    }
}

/* --- both ways -------------------------------------------------------------------------------- */

static void begin(struct results *r) {
    const uint32_t last = 0x7fffffffU, first = 0xffffffffU; /* a range that holds nothing yet */
    memset(r, 0, sizeof *r);
    memcpy(&r->range[0], &last, sizeof last);
    memcpy(&r->range[1], &first, sizeof first);
    for (size_t j = 0; j < of.c; j++) {
        r->dgamma[j] = r->dbeta[j] = r->dv[j] = 0.25f * (float)j;
    }
}

/* No spread below `least` of its group's largest magnitude. */
static void hold_spread(const float *x, float *spread) {
    float far[CHANNELS] = {0};
    for (size_t i = 0; i < of.hw * of.c; i++) {
        float *of_group = &far[i % of.c * of.groups / of.c];
        *of_group = fabsf(x[i]) > *of_group ? fabsf(x[i]) : *of_group;
    }
    for (size_t g = 0; g < of.groups; g++) {
        spread[g] = of.least * far[g] > spread[g] ? of.least * far[g] : spread[g];
    }
}

static void by_floats(const char *name, struct results *r) {
    static float x[MOST], y[MOST];
    const struct oct__kernels *k = oct__kernels_at(OCT_CPU_REF);
    const size_t n = of.hw * of.c;
    k->dequantize_u8_f32(n, of.q, of.scale, of.zero, x);
    if (strcmp(name, "chunk_spread_u8") == 0) {
        k->chunk_spread_f32(of.hw, of.c, of.groups, x, r->spread, work);
        hold_spread(x, r->spread);
        return;
    }
    if (strncmp(name, "range_evonorm_grad", 18) == 0) {
        k->dequantize_s8_f32(n, of.dy, of.dy_scale, y);
        k->range_evonorm_grad_f32(of.hw, of.c, of.groups, x, of.gamma, of.v, of.spread_scale,
                                  of.used, y, r->dgamma, r->dbeta, r->dv, r->dx, work);
        if (of.mask) {
            k->clip_mask_f32(n, of.q, of.zero, r->dx);
        }
        if (strcmp(name, "range_evonorm_grad_u8_bf16") == 0) {
            k->round_bf16_f32(n, r->dx, r->halves);
            memset(r->dx, 0, sizeof r->dx);
        }
        return;
    }
    k->range_evonorm_f32(of.hw, of.c, of.groups, x, of.gamma, of.beta, of.v, of.used, y, work);
    if (strcmp(name, "range_evonorm_u8") == 0) {
        k->quantize_u8_f32(n, y, of.inverse, of.y_zero, r->y);
    } else {
        k->minmax_f32(n, y, r->range);
    }
}

static void by_bytes(const char *name, const struct oct__kernels *k, struct results *r) {
    if (strcmp(name, "chunk_spread_u8") == 0) {
        k->chunk_spread_u8(of.hw, of.c, of.groups, of.q, of.scale, of.zero, of.least, r->spread,
                           work);
    } else if (strcmp(name, "range_evonorm_minmax_u8") == 0) {
        k->range_evonorm_minmax_u8(of.hw, of.c, of.groups, of.q, of.scale, of.zero, of.gamma,
                                   of.beta, of.v, of.used, r->range, work);
    } else if (strcmp(name, "range_evonorm_u8") == 0) {
        k->range_evonorm_u8(of.hw, of.c, of.groups, of.q, of.scale, of.zero, of.gamma, of.beta,
                            of.v, of.used, of.inverse, of.y_zero, r->y, work);
    } else if (strcmp(name, "range_evonorm_grad_u8_f32") == 0) {
        k->range_evonorm_grad_u8_f32(of.hw, of.c, of.groups, of.q, of.scale, of.zero, of.gamma,
                                     of.v, of.spread_scale, of.used, of.dy, of.dy_scale, of.mask,
                                     r->dgamma, r->dbeta, r->dv, r->dx, work);
    } else {
        k->range_evonorm_grad_u8_bf16(of.hw, of.c, of.groups, of.q, of.scale, of.zero, of.gamma,
                                      of.v, of.spread_scale, of.used, of.dy, of.dy_scale, of.mask,
                                      r->dgamma, r->dbeta, r->dv, r->halves, work);
    }
}

/* Which NaN a sum of several gives is nobody's promise. */
static void one_nan(struct results *r) {
    float *const floats = r->spread;
    const size_t n = offsetof(struct results, halves) / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        floats[i] = isnan(floats[i]) ? NAN : floats[i];
    }
    for (size_t i = 0; i < MOST; i++) {
        r->halves[i] = (r->halves[i] & 0x7fffU) > 0x7f80U ? 0x7fc0U : r->halves[i];
    }
}

/* Whether y is lower or higher at an inner byte than at each channel's smallest and largest. */
static int is_inside(const struct results *wanted) {
    const struct oct__kernels *k = oct__kernels_at(OCT_CPU_REF);
    static struct results ends;
    static uint8_t all[MOST];
    const size_t hw = of.hw;
    memcpy(all, of.q, sizeof all);
    for (size_t j = 0; j < of.c; j++) {
        uint8_t low = 255, high = 0;
        for (size_t r = 0; r < hw; r++) {
            low = all[r * of.c + j] < low ? all[r * of.c + j] : low;
            high = all[r * of.c + j] > high ? all[r * of.c + j] : high;
        }
        of.q[j] = low;
        of.q[(hw > 1 ? of.c : 0) + j] = high;
    }
    of.hw = hw > 1 ? 2 : 1;
    begin(&ends);
    by_bytes("range_evonorm_minmax_u8", k, &ends);
    of.hw = hw;
    memcpy(of.q, all, sizeof all);
    return hw > 2 && isfinite(wanted->range[0]) && isfinite(wanted->range[1]) &&
           memcmp(ends.range, wanted->range, sizeof ends.range) != 0;
}

int check_norm_bytes(const char *name, uint64_t seed) {
    static struct results wanted, got;
    const int is_minmax = strcmp(name, "range_evonorm_minmax_u8") == 0;
    long compared = 0, wrong = 0, inside = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        draw(seed, trial);
        begin(&wanted);
        by_floats(name, &wanted);
        inside += is_minmax && is_inside(&wanted);
        one_nan(&wanted);
        for (int level = OCT_CPU_REF; level <= (int)oct_cpu_machine_level(); level++) {
            begin(&got);
            by_bytes(name, oct__kernels_at((enum oct_cpu_level)level), &got);
            one_nan(&got);
            compared++;
            if (memcmp(&wanted, &got, sizeof got) != 0 && wrong++ == 0) {
                fprintf(stderr,
                        "WRONG: %s at %s, trial %u, shape %zux%zu/%zu, grid %.9g - %g, range %.9g "
                        "... %.9g, from floats %.9g ... %.9g, seed %llu\n",
                        name, oct_cpu_level_name((enum oct_cpu_level)level), (unsigned)trial, of.hw,
                        of.c, of.groups, (double)of.scale, (double)of.zero, (double)got.range[0],
                        (double)got.range[1], (double)wanted.range[0], (double)wanted.range[1],
                        (unsigned long long)seed);
            }
        }
    }
    printf("%-26s %-34s %ld compared, %ld wrong%s\n", name, "exactly, all variants", compared,
           wrong, wrong ? "  WRONG" : "");
    if (is_minmax) {
        printf("%-26s %-34s %ld of %d\n", name, "extremes at an inner byte", inside, TRIALS);
        wrong += inside < TRIALS / 25; /* else the short cut was not looked at */
    }
    return wrong != 0;
}
