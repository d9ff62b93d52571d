/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_outer.c - ref's weight gradient in bf16, a second time in double: from the definition of a
 * convolution, with every place computed anew for every product.
 */
#include "check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/outer.h"
#include "oracle.h"

static uint32_t outer_draws;

static uint32_t draw_word(uint64_t seed) {
    struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_TEST, 0xaaaa, 0, 0);
    uint32_t word;
    oct__stream_words(&stream, outer_draws++, 1, &word);
    return word;
}

static double half_of(uint32_t pair, int upper) {
    uint32_t bits = upper ? pair & 0xffff0000U : pair << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static int check_pairs(int of_bytes, uint64_t seed) {
    enum { PIXELS = 5, C = 48, STEP = 50, PLANE = PIXELS * 16 + 3 };
    uint8_t bytes[2][PIXELS * STEP];
    uint16_t halves[2][PIXELS * C];
    uint32_t y[3 * PLANE];
    struct error error = {0};
    for (int zero = 0; zero < 256; zero += 51) {
        for (int i = 0; i < 2 * PIXELS * STEP; i++) {
            bytes[i % 2][i / 2] = (uint8_t)draw_word(seed);
        }
        for (int i = 0; i < 2 * PIXELS * C; i++) { /* 0.5 … 2, so that numbers compare by value */
            halves[i % 2][i / 2] = (uint16_t)(0x3f00U + draw_word(seed) % 256U);
        }
        if (of_bytes) {
            oct__kernels_at(OCT_CPU_REF)
                ->pair_center_u8_bf16(PIXELS, C, STEP, PLANE, bytes[0], bytes[1], (float)zero, y);
        } else {
            oct__kernels_at(OCT_CPU_REF)->pair_bf16(PIXELS, C, PLANE, halves[0], halves[1], y);
        }
        for (size_t i = 0; i < 2 * PIXELS * C; i++) {
            size_t which = i % 2, channel = i / 2 % C, pixel = i / 2 / C;
            double wanted = of_bytes ? (double)bytes[which][pixel * STEP + channel] - (double)zero
                                     : half_of(halves[which][pixel * C + channel], 0);
            uint32_t pair = y[channel / 16 * PLANE + pixel * 16 + channel % 16];
            compare(&error, half_of(pair, (int)which), wanted, 1.0, i);
        }
    }
    return judge(of_bytes ? "pair_center_u8_bf16" : "pair_bf16", "exactly", &error, 0.0, seed);
}

/* dW of one row of a kernel, `TAPS` wide: column p * STRIDE + t - PAD of x meets pixel p of g. */
static int check_products(uint64_t seed) {
    enum { IMAGES = 2, ROWS = 3, W = 7, PIXELS = 5, TAPS = 3, STRIDE = 2, PAD = 2 };
    static uint32_t x[IMAGES * ROWS * W * 16], g[IMAGES * ROWS * PIXELS * 16];
    static float sums[TAPS * OCT_OUTER_IN * OCT_OUTER_OUT];
    struct error error = {0};
    struct oct__outer form = {
        .images = IMAGES,
        .rows = ROWS,
        .x_image = ROWS * W * 16,
        .x_row = W * 16,
        .x_step = STRIDE * 16,
        .g_image = ROWS * PIXELS * 16,
        .g_row = PIXELS * 16,
        .taps = TAPS,
    };
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) { /* ±128 … 255, whole */
        x[i] = 0x43004300U | (draw_word(seed) & 0x807f807fU);
    }
    for (size_t i = 0; i < sizeof g / sizeof g[0]; i++) { /* ±0.5 … 2 */
        g[i] = 0x3f003f00U | (draw_word(seed) & 0x80ff80ffU);
    }
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        sums[i] = (float)(int)i - 100.0f;
    }
    for (int t = 0; t < TAPS; t++) {
        form.tap[t] = oct__outer_tap(t - PAD, STRIDE, W, PIXELS, 16, OCT_OUTER_IN);
    }
    oct__kernels_at(OCT_CPU_REF)->outer_bf16_f32(&form, x, g, sums);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        const size_t o = i % 16, in = i / 16 % 8;
        const int t = (int)(i / 128);
        double total = (double)(int)i - 100.0, size = fabs(total);
        for (int row = 0; row < IMAGES * ROWS; row++) {
            for (int p = 0; p < PIXELS; p++) {
                int column = p * STRIDE + t - PAD;
                for (int half = 0; half < 2 && column >= 0 && column < W; half++) {
                    double term = half_of(x[(row * W + column) * 16 + 8 + (int)in], half) *
                                  half_of(g[(row * PIXELS + p) * 16 + (int)o], half);
                    total += term;
                    size += fabs(term);
                }
            }
        }
        compare(&error, (double)sums[i], total, size, i);
    }
    return judge("outer_bf16_f32", "over the sum of sizes", &error,
                 2.0 * IMAGES * ROWS * PIXELS * 0x1p-24, seed);
}

int check_outer(const char *name, uint64_t seed) {
    outer_draws = 0;
    return strcmp(name, "outer_bf16_f32") == 0
               ? check_products(seed)
               : check_pairs(strcmp(name, "pair_center_u8_bf16") == 0, seed);
}
