/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_fused.c - kernels that make their floats in registers, against the floats made in double.
 *
 * Such a kernel is one that takes floats (oracle_bytes.c holds those to their definition), given
 * numbers that were made of something else. Here they are made from the kernel's inputs in double,
 * each operation rounded to a float, then passed to the kernel for floats: both must give the same
 * bits. An engine may then take either way.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"

enum { MOST = 1500, TRIALS = 60 };

/* What a call is given, and the floats that it stands for. */
static struct {
    int32_t sums[MOST];
    int8_t bytes[MOST];
    uint16_t halves[MOST];
    uint8_t a[MOST], b[MOST];
    float scale_a, scale_b, zero_a, zero_b;
    float x[MOST];
} of;

static const struct oct__kernels *ref(void) {
    return oct__kernels_at(OCT_CPU_REF);
}

static int ends_with(const char *name, const char *end) {
    const size_t all = strlen(name), last = strlen(end);
    return all >= last && strcmp(name + all - last, end) == 0;
}

static float rounded(double value) {
    return (float)value;
}

static double scaled(float scale, double number) {
    return (double)rounded((double)scale * (double)rounded(number));
}

static void draw(const char *name, uint64_t seed, uint32_t trial) {
    static const float scales[] = {1.0f, 0.0123f, 1.0f / 63.0f, 3.7e-5f, 1e-41f, 0.0f, 3e30f};
    const uint32_t n_scales = sizeof scales / sizeof scales[0];
    const struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_TEST, 0xcccc, trial, 0);
    of.scale_a = scales[trial % n_scales];
    of.scale_b = scales[trial / n_scales % n_scales];
    of.zero_a = (float)(trial * 37 % 256);
    of.zero_b = (float)(trial * 101 % 256);
    for (uint32_t i = 0; i < MOST; i++) {
        uint32_t word[4];
        oct__stream_block(&stream, i, word);
        of.sums[i] = (int32_t)(word[0] - 0x80000000U) / (1 << word[1] % 31);
        of.bytes[i] = (int8_t)(word[2] % 255 - 127);
        of.halves[i] = (uint16_t)((word[3] & 0x807fU) | (115U + word[3] / 65536U % 20U) << 7);
        of.a[i] = (uint8_t)word[2];
        of.b[i] = (uint8_t)(word[2] >> 8);
        if (ends_with(name, "_bf16")) {
            const uint32_t bits = (uint32_t)of.halves[i] << 16;
            float wide;
            memcpy(&wide, &bits, sizeof wide);
            of.x[i] = wide;
        } else if (ends_with(name, "_sum_u8")) {
            of.x[i] = rounded(scaled(of.scale_a, (double)of.a[i] - (double)of.zero_a) +
                              scaled(of.scale_b, (double)of.b[i] - (double)of.zero_b));
        } else if (ends_with(name, "_s32_s8")) {
            of.x[i] = rounded(scaled(of.scale_a, (double)of.sums[i]) +
                              scaled(of.scale_b, (double)of.bytes[i]));
        } else {
            of.x[i] = rounded(scaled(of.scale_a, (double)of.sums[i]));
        }
    }
}

/* The largest magnitude; that of sums as they are is multiplied last. */
static void peaks(const char *name, size_t n, float wanted[1], float got[1]) {
    ref()->absmax_f32(n, of.x, wanted);
    if (ends_with(name, "_bf16")) {
        ref()->absmax_bf16(n, of.halves, got);
    } else if (ends_with(name, "_s32_s8")) {
        ref()->absmax_s32_s8(n, of.sums, of.scale_a, of.bytes, of.scale_b, got);
    } else {
        uint32_t peak = 0;
        ref()->absmax_s32(n, of.sums, &peak);
        *got = of.scale_a * (float)peak;
    }
}

static void range(size_t n, float wanted[2], float got[2]) {
    wanted[0] = got[0] = of.x[0];
    wanted[1] = got[1] = of.x[0];
    ref()->minmax_f32(n, of.x, wanted);
    ref()->minmax_sum_u8(n, of.a, of.scale_a, of.zero_a, of.b, of.scale_b, of.zero_b, got);
}

static void unsigned_bytes(const char *name, size_t n, float inverse, uint8_t *wanted,
                           uint8_t *got) {
    ref()->quantize_u8_f32(n, of.x, inverse, of.zero_b, wanted);
    if (ends_with(name, "_s32")) {
        ref()->quantize_u8_s32(n, of.sums, of.scale_a, inverse, of.zero_b, got);
    } else {
        ref()->quantize_sum_u8(n, of.a, of.scale_a, of.zero_a, of.b, of.scale_b, of.zero_b, inverse,
                               of.zero_b, got);
    }
}

static void signed_bytes(const char *name, size_t n, uint64_t first, float inverse,
                         const struct oct__stream *stream, int8_t *wanted, int8_t *got) {
    ref()->quantize_s8_random_f32(n, first, of.x, inverse, stream, wanted);
    if (ends_with(name, "_bf16")) {
        const int zero = first % 2 ? 128 : 0;
        ref()->quantize_s8_random_bf16(n, first, of.halves, inverse, zero, stream, got);
        for (size_t i = 0; i < n; i++) {
            wanted[i] = (int8_t)(wanted[i] ^ zero);
        }
    } else if (ends_with(name, "_s32_s8")) {
        ref()->quantize_s8_random_s32_s8(n, first, of.sums, of.scale_a, of.bytes, of.scale_b,
                                         inverse, stream, got);
    } else {
        ref()->quantize_s8_random_s32(n, first, of.sums, of.scale_a, inverse, stream, got);
    }
}

/* The inverse of a scale that has about a tenth of the magnitudes beyond its ends. */
static float inverse_of(void) {
    double sum = 0.0;
    int count = 0;
    for (size_t i = 0; i < MOST; i++) {
        if (isfinite(of.x[i])) {
            sum += fabs((double)of.x[i]);
            count++;
        }
    }
    return sum > 0.0 ? (float)(127.0 * count / (3.0 * sum)) : 1.0f;
}

int check_fused(const char *name, uint64_t seed) {
    static union {
        float floats[2];
        int8_t bytes[MOST];
        uint8_t values[MOST];
    } wanted, got;
    long compared = 0, wrong = 0, other = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        const struct oct__stream stream =
            oct__stream(seed, OCT_PURPOSE_ROUND_GRADIENT, 1, trial, 2);
        const size_t n = MOST - trial % 2 * (trial * trial % MOST);
        const uint64_t first = (uint64_t)trial * 61;
        size_t bytes = n;
        draw(name, seed, trial);
        memset(&wanted, 0, sizeof wanted);
        memset(&got, 0, sizeof got);
        if (strncmp(name, "absmax", 6) == 0) {
            peaks(name, n, wanted.floats, got.floats);
            bytes = sizeof(float);
        } else if (strncmp(name, "minmax", 6) == 0) {
            range(n, wanted.floats, got.floats);
            bytes = 2 * sizeof(float);
        } else if (strstr(name, "_random_") == NULL) {
            unsigned_bytes(name, n, inverse_of(), wanted.values, got.values);
        } else {
            signed_bytes(name, n, first, inverse_of(), &stream, wanted.bytes, got.bytes);
        }
        for (size_t i = 0; i < bytes; i++) {
            compared++;
            other += wanted.bytes[i] != wanted.bytes[0];
            if (wanted.bytes[i] != got.bytes[i] && wrong++ == 0) {
                fprintf(stderr, "WRONG: %s, trial %u, byte %zu: %d, from floats %d, seed %llu\n",
                        name, (unsigned)trial, i, got.bytes[i], wanted.bytes[i],
                        (unsigned long long)seed);
            }
        }
    }
    printf("%-26s %-34s %ld compared, %ld wrong%s\n", name, "exactly", compared, wrong,
           wrong ? "  WRONG" : "");
    return wrong != 0 || other < compared / 10; /* bytes that are all the same would show nothing */
}
