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

static void philox(const struct oct__stream *stream, int n_rounds, uint32_t index,
                   uint32_t out[4]) {
    uint32_t c0 = index, c1 = stream->counter[0], c2 = stream->counter[1], c3 = stream->counter[2];
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < n_rounds; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void oct__stream_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]) {
    philox(stream, OCT_PHILOX_ROUNDS, index, out);
}

void oct__rounding_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]) {
    philox(stream, OCT_PHILOX_FEW_ROUNDS, index, out);
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
