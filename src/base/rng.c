/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - Philox4x32 and the few distributions drawn from it. */
#include "base/rng.h"

#include <math.h>

struct oct__stream oct__stream(uint64_t seed, enum oct__purpose purpose, uint32_t node,
                               uint32_t step, uint32_t layer) {
    struct oct__stream stream = {
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(uint32_t)purpose << 24 | (layer & 0xffffffU), step, node},
    };
    return stream;
}

void oct__stream_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]) {
    oct__philox(stream, OCT_PHILOX_ROUNDS, index, out);
}

void oct__rounding_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]) {
    oct__philox(stream, OCT_PHILOX_FEW_ROUNDS, index, out);
}

void oct__stream_words(const struct oct__stream *stream, uint64_t first, size_t count,
                       uint32_t *out) {
    uint32_t block[4];
    for (size_t i = 0; i < count; i++) {
        uint64_t word = first + i;
        if (i == 0 || word % 4 == 0) {
            oct__stream_block(stream, (uint32_t)(word / 4), block);
        }
        out[i] = block[word % 4];
    }
}

void oct__normal_pair(uint32_t word_a, uint32_t word_b, double out[2]) {
    const double pi = 3.14159265358979323846;
    double u = ((double)word_a + 0.5) * 0x1p-32; /* never 0, so the logarithm is finite */
    double v = ((double)word_b + 0.5) * 0x1p-32;
    double radius = sqrt(-2.0 * log(u));
    out[0] = radius * cos(2.0 * pi * v);
    out[1] = radius * sin(2.0 * pi * v);
}

void oct__permutation(const struct oct__stream *stream, uint32_t n, uint32_t *out) {
    for (uint32_t i = 0; i < n; i++) {
        out[i] = i;
    }
    uint32_t block[4];
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (i % 4 == 0) {
            oct__stream_block(stream, i / 4, block);
        }
        uint32_t j = i + oct__below(block[i % 4], n - i);
        uint32_t held = out[i];
        out[i] = out[j];
        out[j] = held;
    }
}
