/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_bytes.c - ref's conversions between floats, bytes, sums and bf16, a second time in double.
 *
 * All of these are exact: the product of two floats is exact in double, and the sum of two rounds
 * to the same float from there, so what ref must give is known to the bit. Rounding, ordering and
 * the places of random bits are written here from their definitions, not from ref's code.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"

enum { MOST = 4096 };

static uint64_t bytes_seed;
static uint32_t n_drawn;

/* What was compared, and the first that was wrong. */
struct tally {
    const char *name;
    long compared, wrong;
};

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Integers, exactly. */
static void expect(struct tally *tally, double got, double wanted, double x, long at) {
    tally->compared++;
    if (!(got == wanted) && tally->wrong++ == 0) {
        fprintf(stderr, "WRONG: %s, element %ld (from %.9g): ref %.9g, in double %.9g, seed %llu\n",
                tally->name, at, x, got, wanted, (unsigned long long)bytes_seed);
    }
}

/* Floats by their bits, so that the two zeros differ; computed NaNs are equal. */
static void expect_float(struct tally *tally, float got, float wanted, long at) {
    tally->compared++;
    if (bits_of(got) != bits_of(wanted) && !(isnan(got) && isnan(wanted)) && tally->wrong++ == 0) {
        fprintf(stderr, "WRONG: %s, element %ld: ref %.9g (%08x), in double %.9g (%08x)\n",
                tally->name, at, (double)got, (unsigned)bits_of(got), (double)wanted,
                (unsigned)bits_of(wanted));
    }
}

static int verdict(const struct tally *tally) {
    printf("%-26s %-34s %ld compared, %ld wrong%s\n", tally->name, "exactly", tally->compared,
           tally->wrong, tally->wrong ? "  WRONG" : "");
    return tally->wrong != 0 || tally->compared == 0;
}

static const struct oct__kernels *ref(void) {
    return oct__kernels_at(OCT_CPU_REF);
}

static void draw_words(uint32_t *out, size_t n) {
    struct oct__stream stream = oct__stream(bytes_seed, OCT_PURPOSE_TEST, 0xdddd, n_drawn++, 0);
    oct__stream_words(&stream, 0, n, out);
}

/* Ordinary values, halves (ties), any bits at all, and the borders of the type. */
static void draw_floats(float *out, size_t n) {
    static const float borders[] = {
        0.0f,   -0.0f,         1e-45f,  -1e-45f, 3.4e38f,     -3.4e38f,   127.5f,   -127.5f,
        254.5f, 255.5f,        -128.5f, 0.5f,    -0.5f,       1.5f,       INFINITY, -INFINITY,
        NAN,    2147483648.0f, -3e9f,   126.5f,  0.49999997f, 8388609.0f, -0.25f,   16777216.0f};
    uint32_t word[2];
    for (size_t i = 0; i < n; i++) {
        struct oct__stream stream =
            oct__stream(bytes_seed, OCT_PURPOSE_TEST, 0xdddd, n_drawn, 1 + (uint32_t)(i >> 20));
        oct__stream_words(&stream, 2 * i, 2, word);
        switch (i % 4) {
        case 0:
            out[i] = 4.0f * oct__unit_float(word[0]) - 2.0f;
            break;
        case 1:
            out[i] = 0.5f * (float)((int)oct__below(word[0], 1281) - 640);
            break;
        case 2:
            out[i] = float_of(word[0]);
            break;
        default:
            out[i] = borders[word[0] % (sizeof borders / sizeof borders[0])];
            break;
        }
    }
    n_drawn++;
}

/* --- extremes --------------------------------------------------------------------------------- */

/* a < b in the order -NaN < -inf < … < -0 < +0 < … < +inf < +NaN. */
static int before(float a, float b) {
    if (!signbit(a) != !signbit(b)) {
        return signbit(a) != 0;
    }
    if (isnan(a) || isnan(b)) { /* of two NaNs the one with the larger payload is the larger */
        int larger = isnan(a) && isnan(b) ? bits_of(b) > bits_of(a) : isnan(b);
        int smaller = isnan(a) && isnan(b) ? bits_of(a) > bits_of(b) : isnan(a);
        return signbit(a) ? smaller : larger;
    }
    return a < b;
}

static void expect_bits(struct tally *tally, float got, float wanted, long at) {
    expect(tally, (double)bits_of(got), (double)bits_of(wanted), (double)wanted, at);
}

static int check_extremes(const char *name) {
    static float x[MOST];
    static int32_t sums[MOST];
    struct tally tally = {name, 0, 0};
    for (long trial = 0; trial < 200; trial++) {
        size_t n = (size_t)(trial % 23);
        draw_floats(x, n + 2);
        draw_words((uint32_t *)sums, n + 2);
        if (strcmp(name, "minmax_s32") == 0) {
            int32_t range[2] = {sums[n], sums[n + 1]};
            double low = (double)range[0], high = (double)range[1];
            ref()->minmax_s32(n, sums, range);
            for (size_t i = 0; i < n; i++) {
                low = fmin(low, (double)sums[i]);
                high = fmax(high, (double)sums[i]);
            }
            expect(&tally, (double)range[0], low, 0.0, trial);
            expect(&tally, (double)range[1], high, 0.0, trial);
        } else if (strcmp(name, "minmax_f32") == 0) {
            float range[2] = {x[n], x[n + 1]}, low = range[0], high = range[1];
            ref()->minmax_f32(n, x, range);
            for (size_t i = 0; i < n; i++) {
                low = before(x[i], low) ? x[i] : low;
                high = before(high, x[i]) ? x[i] : high;
            }
            expect_bits(&tally, range[0], low, trial);
            expect_bits(&tally, range[1], high, trial);
        } else {
            float peak = fabsf(x[n]), wanted = peak;
            ref()->absmax_f32(n, x, &peak);
            for (size_t i = 0; i < n; i++) {
                wanted = before(wanted, fabsf(x[i])) ? fabsf(x[i]) : wanted;
            }
            expect_bits(&tally, peak, wanted, trial);
        }
    }
    return verdict(&tally);
}

/* --- quantizing ------------------------------------------------------------------------------- */

/* The nearest whole number, of two the even one. */
static double nearest(double t) {
    double below = floor(t), rest = t - below;
    return rest > 0.5 || (rest == 0.5 && fmod(below, 2.0) != 0.0) ? below + 1.0 : below;
}

static double hold(double t, double low, double high) {
    return isnan(t) ? low : fmin(fmax(t, low), high);
}

/* x * inverse as a float has it. */
static double product(float x, float inverse) {
    return (double)(float)((double)x * (double)inverse);
}

static const float inverses[] = {1.0f, 2.0f, 63.75f, 0.1f, 0x1p-3f, 1e30f, 0.0f, INFINITY, NAN};
static const float zeros[] = {0.0f, 1.0f, 128.0f, 200.0f, 255.0f};

enum {
    N_INVERSES = sizeof inverses / sizeof inverses[0],
    N_ZEROS = sizeof zeros / sizeof zeros[0]
};

static int check_quantize(const char *name) {
    static float x[MOST];
    static uint8_t q[MOST];
    static int8_t s[MOST];
    struct tally tally = {name, 0, 0};
    for (int trial = 0; trial < N_INVERSES * N_ZEROS; trial++) {
        float inverse = inverses[trial / N_ZEROS], zero = zeros[trial % N_ZEROS];
        double low = -(double)zero, high = 255.0 + low;
        draw_floats(x, MOST);
        if (strcmp(name, "quantize_u8_f32") == 0) {
            ref()->quantize_u8_f32(MOST, x, inverse, zero, q);
        } else {
            ref()->quantize_s8_f32(MOST, x, inverse, s);
        }
        for (int i = 0; i < MOST; i++) {
            double t = product(x[i], inverse);
            if (strcmp(name, "quantize_u8_f32") == 0) {
                expect(&tally, (double)q[i], nearest(hold(t, low, high)) - low, t, i);
            } else {
                expect(&tally, (double)s[i], nearest(hold(t, -127.0, 127.0)), t, i);
            }
        }
    }
    return verdict(&tally);
}

/* What t is rounded to as element e, from the definition. */
static double by_chance(const struct oct__stream *stream, uint64_t e, double t) {
    uint64_t tile = e / 128, j = e % 128;
    uint32_t word[4];
    oct__rounding_block(stream, (uint32_t)(16 * tile + j % 32 / 2), word);
    uint32_t whole = word[j / 32];
    double k = (double)(j % 2 == 0 ? whole & 65535U : whole >> 16);
    return floor((nearest(65536.0 * t) + k) / 65536.0);
}

static int check_quantize_random(const char *name) {
    static const uint64_t firsts[] = {0,
                                      1,
                                      77,
                                      127,
                                      128,
                                      4095,
                                      0xffffffffU,
                                      0x100000000U - 100,
                                      (UINT64_C(1) << 35) - 130,
                                      (UINT64_C(1) << 36) + 5};
    static float x[MOST];
    static uint8_t q[MOST];
    static int8_t s[MOST];
    int bytes = strcmp(name, "quantize_u8_random_f32") == 0;
    struct tally tally = {name, 0, 0};
    for (int trial = 0; trial < N_INVERSES * N_ZEROS; trial++) {
        float inverse = inverses[trial / N_ZEROS], zero = zeros[trial % N_ZEROS];
        double low = bytes ? -(double)zero : -127.0, high = bytes ? 255.0 + low : 127.0;
        uint64_t first = firsts[(size_t)trial % (sizeof firsts / sizeof firsts[0])];
        struct oct__stream stream =
            oct__stream(bytes_seed, OCT_PURPOSE_ROUND_VALUE, 3, (uint32_t)trial, 11);
        draw_floats(x, MOST);
        if (bytes) {
            ref()->quantize_u8_random_f32(MOST, first, x, inverse, zero, &stream, q);
        } else {
            ref()->quantize_s8_random_f32(MOST, first, x, inverse, &stream, s);
        }
        for (int i = 0; i < MOST; i++) {
            double t = product(x[i], inverse);
            double wanted = by_chance(&stream, first + (uint64_t)i, hold(t, low, high));
            expect(&tally, bytes ? (double)q[i] + low : (double)s[i], wanted, t, i);
        }
    }
    /* On average nothing is lost: 16 times MOST elements of one value, six deviations allowed. */
    for (int trial = 0; trial < 20; trial++) {
        float value = -1.0f + 0.1037f * (float)trial;
        double sum = 0.0, part = (double)value - floor((double)value);
        for (int i = 0; i < MOST; i++) {
            x[i] = value;
        }
        for (uint32_t step = 0; step < 16; step++) {
            struct oct__stream stream = oct__stream(bytes_seed, OCT_PURPOSE_ROUND_VALUE, 4,
                                                    16 * (uint32_t)trial + step, 11);
            if (bytes) {
                ref()->quantize_u8_random_f32(MOST, 0, x, 1.0f, 128.0f, &stream, q);
            } else {
                ref()->quantize_s8_random_f32(MOST, 0, x, 1.0f, &stream, s);
            }
            for (int i = 0; i < MOST; i++) {
                sum += bytes ? (double)q[i] - 128.0 : (double)s[i];
            }
        }
        double mean = sum / (16 * MOST), allowed = 6.0 * sqrt(part * (1.0 - part) / (16 * MOST));
        tally.compared++;
        if (!(fabs(mean - (double)value) <= allowed + 1e-5)) {
            fprintf(stderr, "WRONG: %s: the mean of %.6g rounded by chance is %.6g +- %.2g\n", name,
                    (double)value, mean, allowed / 6.0);
            tally.wrong++;
        }
    }
    return verdict(&tally);
}

/* --- back to floats --------------------------------------------------------------------------- */

static const float scales[] = {1.0f, 1.0f / 63.0f, 0.0123f, 1e-41f, 3e36f, 0.0f, INFINITY, NAN};

enum { N_SCALES = sizeof scales / sizeof scales[0] };

static int check_dequantize(const char *name) {
    static float y[MOST], y0[MOST];
    static uint32_t word[MOST];
    static uint8_t u8[MOST];
    static int8_t s8[MOST];
    static int32_t s32[MOST];
    int add = strstr(name, "_add_") != NULL;
    struct tally tally = {name, 0, 0};
    for (int trial = 0; trial < N_SCALES * N_ZEROS; trial++) {
        float scale = scales[trial / N_ZEROS], zero = zeros[trial % N_ZEROS];
        draw_floats(y0, MOST);
        memcpy(y, y0, sizeof y);
        draw_words(word, MOST);
        for (int i = 0; i < MOST; i++) {
            u8[i] = (uint8_t)i;
            s8[i] = (int8_t)(i % 256 - 128);
            memcpy(&s32[i], &word[i], sizeof s32[i]);
            s32[i] /= 1 << i % 24;
        }
        if (strstr(name, "u8")) {
            (add ? ref()->dequantize_add_u8_f32 : ref()->dequantize_u8_f32)(MOST, u8, scale, zero,
                                                                            y);
        } else if (strstr(name, "s8")) {
            (add ? ref()->dequantize_add_s8_f32 : ref()->dequantize_s8_f32)(MOST, s8, scale, y);
        } else {
            (add ? ref()->dequantize_add_s32_f32 : ref()->dequantize_s32_f32)(MOST, s32, scale, y);
        }
        for (int i = 0; i < MOST; i++) {
            double whole = strstr(name, "u8")   ? (double)u8[i] - (double)zero
                           : strstr(name, "s8") ? (double)s8[i]
                                                : (double)(float)(double)s32[i];
            float value = (float)((double)scale * whole);
            expect_float(&tally, y[i], add ? (float)((double)y0[i] + (double)value) : value, i);
        }
    }
    return verdict(&tally);
}

static int check_columns(const char *name) {
    enum { ROWS = 61, C = 13 };
    static float x[ROWS * C], y[ROWS * C], scale[C], shift[C];
    static uint32_t word[ROWS * C];
    static int32_t sums[ROWS * C];
    struct tally tally = {name, 0, 0};
    for (int trial = 0; trial < 20; trial++) {
        draw_floats(x, ROWS * C);
        draw_floats(scale, C);
        draw_floats(shift, C);
        draw_words(word, ROWS * C);
        for (int i = 0; i < ROWS * C; i++) {
            memcpy(&sums[i], &word[i], sizeof sums[i]);
            sums[i] /= 1 << i % 24;
        }
        int integers = strcmp(name, "column_dequantize_s32_f32") == 0;
        if (integers) {
            ref()->column_dequantize_s32_f32(ROWS, C, sums, scale, shift, y);
        } else {
            ref()->column_scale_f32(ROWS, C, x, scale, y);
        }
        for (int i = 0; i < ROWS * C; i++) {
            float from = integers ? (float)(double)sums[i] : x[i];
            double value = (double)(float)((double)scale[i % C] * (double)from);
            expect_float(&tally, y[i], (float)(integers ? value + (double)shift[i % C] : value), i);
        }
    }
    return verdict(&tally);
}

static int check_clip(const char *name) {
    static uint8_t q[256];
    static float x[256], x0[256];
    static int8_t s[256], s0[256];
    int floats = strcmp(name, "clip_mask_f32") == 0;
    struct tally tally = {name, 0, 0};
    for (int zero = 0; zero < 256; zero++) {
        draw_floats(x0, 256);
        for (int i = 0; i < 256; i++) {
            q[i] = (uint8_t)i;
            s0[i] = (int8_t)(i - 128 + (i == 128));
        }
        memcpy(x, x0, sizeof x);
        memcpy(s, s0, sizeof s);
        if (floats) {
            ref()->clip_mask_f32(256, q, (float)zero, x);
        } else {
            ref()->clip_mask_s8(256, q, (float)zero, s);
        }
        for (int i = 0; i < 256; i++) {
            int keep = i != 255 && (i != 0 || zero == 0);
            if (floats) {
                expect_bits(&tally, x[i], keep ? x0[i] : 0.0f, i);
            } else {
                expect(&tally, (double)s[i], keep ? (double)s0[i] : 0.0, 0.0, i);
            }
        }
    }
    return verdict(&tally);
}

/* --- bf16 ------------------------------------------------------------------------------------- */

/* The magnitude of a bf16; infinity as the number that would follow the largest. */
static double bf16_size(uint32_t upper) {
    upper &= 0x7fffU;
    return upper == 0x7f80U ? 0x1p128 : (double)float_of(upper << 16);
}

/* Of the two neighbours the nearer one, of two as near the even one. */
static uint32_t bf16_nearest(float x) {
    uint32_t down = bits_of(x) >> 16;
    if (isnan(x)) {
        return 0x7fc0U | (signbit(x) ? 0x8000U : 0U);
    }
    if (isinf(x)) {
        return down;
    }
    double size = fabs((double)x);
    double under = size - bf16_size(down), over = bf16_size(down + 1) - size;
    return under < over || (under == over && down % 2 == 0) ? down : down + 1;
}

static int check_round_bf16(void) {
    static float x[MOST];
    static uint16_t y[MOST];
    struct tally tally = {"round_bf16_f32", 0, 0};
    uint32_t bits = 0;
    for (int block = 0; block < 1024; block++) { /* the whole range in steps of a prime */
        for (int i = 0; i < MOST; i++, bits += 1021) {
            x[i] = float_of(bits);
        }
        ref()->round_bf16_f32(MOST, x, y);
        for (int i = 0; i < MOST; i++) {
            expect(&tally, (double)y[i], (double)bf16_nearest(x[i]), (double)x[i], i);
        }
    }
    for (uint32_t upper = 0; upper < 65536; upper += MOST / 4) { /* ties, and beside them */
        for (uint32_t i = 0; i < MOST; i++) {
            static const uint32_t lower[] = {0x0000, 0x7fff, 0x8000, 0x8001};
            x[i] = float_of((upper + i / 4) << 16 | lower[i % 4]);
        }
        ref()->round_bf16_f32(MOST, x, y);
        for (int i = 0; i < MOST; i++) {
            expect(&tally, (double)y[i], (double)bf16_nearest(x[i]), (double)x[i], i);
        }
    }
    return verdict(&tally);
}

static int check_widen_bf16(void) {
    static uint16_t x[65536];
    static float y[65536];
    struct tally tally = {"widen_bf16_f32", 0, 0};
    for (int i = 0; i < 65536; i++) {
        x[i] = (uint16_t)i;
    }
    ref()->widen_bf16_f32(65536, x, y);
    for (int i = 0; i < 65536; i++) {
        int exponent = i >> 7 & 255, fraction = i & 127;
        double size = exponent == 255 ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexp(fraction, -133)
                                      : ldexp(128 + fraction, exponent - 134);
        expect_float(&tally, y[i], (float)(i >> 15 ? -size : size), i);
        expect(&tally, (double)(bits_of(y[i]) & 0xffffU), 0.0, size, i);
    }
    return verdict(&tally);
}

static int check_center_bf16(void) {
    static uint8_t q[256];
    static uint16_t y[256];
    struct tally tally = {"center_u8_bf16", 0, 0};
    for (int i = 0; i < 256; i++) {
        q[i] = (uint8_t)i;
    }
    for (int zero = 0; zero < 256; zero++) {
        ref()->center_u8_bf16(256, q, (float)zero, y);
        for (int i = 0; i < 256; i++) {
            expect_float(&tally, float_of((uint32_t)y[i] << 16), (float)(i - zero), i);
        }
    }
    return verdict(&tally);
}

/* A product of a float and a byte is exact in double, and so is one of two floats. */
static int check_axpy_s8(void) {
    static const float steps[] = {1.0f / 127.0f, 0.0f, 1e-37f, 3.0f, 1e36f};
    static const float factors[] = {1.0f, -0.25f, 0.3f, 1e-8f, -1.7f};
    static int8_t q[MOST];
    static float y[MOST], start[MOST];
    static uint32_t words[MOST];
    struct tally tally = {"axpy_s8_f32", 0, 0};
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        draw_words(words, MOST);
        draw_floats(start, MOST);
        for (int i = 0; i < MOST; i++) {
            q[i] = (int8_t)((int)(words[i] >> 24) - 128);
        }
        memcpy(y, start, sizeof y);
        ref()->axpy_s8_f32(MOST, factors[k], q, steps[k], y);
        for (int i = 0; i < MOST; i++) {
            float value = (float)((double)steps[k] * (double)q[i]);
            float product = (float)((double)factors[k] * (double)value);
            expect_float(&tally, y[i], (float)((double)start[i] + (double)product), i);
        }
    }
    return verdict(&tally);
}

static int check_above(void) {
    static const uint32_t masks[] = {0x7fffffffU, 0xffffffffU, 0xffU, 0};
    static uint32_t x[MOST], bits[MOST / 32];
    struct tally tally = {"above_u32", 0, 0};
    for (size_t k = 0; k < 4 * sizeof masks / sizeof masks[0]; k++) {
        const uint32_t mask = masks[k / 4];
        draw_words(x, MOST);
        /* One of them, so that some are equal; the extremes. */
        const uint32_t least = k % 4 == 0 ? 0 : k % 4 == 1 ? UINT32_MAX : x[k] & mask;
        const size_t n = MOST - 7 * k;
        memset(bits, 0xa5, sizeof bits);
        ref()->above_u32(n, x, mask, least, bits);
        for (size_t i = 0; i < (n + 31) / 32 * 32; i++) {
            const int wanted = i < n && !((x[i] & mask) < least);
            expect(&tally, (double)(bits[i / 32] >> i % 32 & 1U), (double)wanted, (double)x[i],
                   (long)i);
        }
    }
    return verdict(&tally);
}

static int check_draw(void) {
    static uint32_t y[MOST];
    struct tally tally = {"draw_u32", 0, 0};
    const struct oct__stream stream = oct__stream(bytes_seed, OCT_PURPOSE_TEST, 1, 2, 3);
    for (uint64_t first = 0; first < 6; first++) {
        ref()->draw_u32(MOST - first, first, &stream, y);
        for (uint64_t i = 0; i < MOST - first; i++) {
            uint32_t block[4];
            oct__stream_block(&stream, (uint32_t)((first + i) >> 2), block);
            expect(&tally, (double)y[i], (double)block[(first + i) & 3], (double)first, (long)i);
        }
    }
    return verdict(&tally);
}

int check_bytes(const char *name, uint64_t seed) {
    static const struct {
        const char *prefix;
        int (*check)(const char *name);
    } checks[] = {
        {"minmax_", check_extremes},
        {"absmax_", check_extremes},
        {"quantize_u8_random_", check_quantize_random},
        {"quantize_s8_random_", check_quantize_random},
        {"quantize_", check_quantize},
        {"dequantize_", check_dequantize},
        {"column_", check_columns},
        {"clip_mask_", check_clip},
    };
    bytes_seed = seed;
    n_drawn = 0;
    if (strcmp(name, "axpy_s8_f32") == 0) {
        return check_axpy_s8();
    }
    if (strcmp(name, "above_u32") == 0) {
        return check_above();
    }
    if (strcmp(name, "draw_u32") == 0) {
        return check_draw();
    }
    if (strcmp(name, "round_bf16_f32") == 0) {
        return check_round_bf16();
    }
    if (strcmp(name, "widen_bf16_f32") == 0) {
        return check_widen_bf16();
    }
    if (strcmp(name, "center_u8_bf16") == 0) {
        return check_center_bf16();
    }
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (strncmp(name, checks[i].prefix, strlen(checks[i].prefix)) == 0) {
            return checks[i].check(name);
        }
    }
    fprintf(stderr, "WRONG: %s has no oracle\n", name);
    return 1;
}
