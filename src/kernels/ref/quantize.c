/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - the specification of floats becoming bytes, and of what their borders cut off.
 *
 * A value is held to the borders before it is converted, so that no float ever meets an integer it
 * does not fit in: infinities land on a border, and a NaN on the lower one.
 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/variants.h"

static float hold(float t, float low, float high) {
    t = t > low ? t : low;
    return t < high ? t : high;
}

static uint8_t nearest_u8(float x, float inverse, float zero) {
    return (uint8_t)(rintf(hold(x * inverse, -zero, 255.0f - zero)) + zero);
}

void oct_quantize_u8_f32__ref(size_t n, const float *x, float inverse, float zero, uint8_t *q) {
    for (size_t i = 0; i < n; i++) {
        q[i] = nearest_u8(x[i], inverse, zero);
    }
}

void oct_quantize_u8_s32__ref(size_t n, const int32_t *x, float scale, float inverse, float zero,
                              uint8_t *q) {
    for (size_t i = 0; i < n; i++) {
        q[i] = nearest_u8(scale * (float)x[i], inverse, zero);
    }
}

void oct_quantize_sum_u8__ref(size_t n, const uint8_t *a, float scale_a, float zero_a,
                              const uint8_t *b, float scale_b, float zero_b, float inverse,
                              float zero, uint8_t *q) {
    for (size_t i = 0; i < n; i++) {
        const float x = scale_a * ((float)a[i] - zero_a) + scale_b * ((float)b[i] - zero_b);
        q[i] = nearest_u8(x, inverse, zero);
    }
}

void oct_quantize_s8_f32__ref(size_t n, const float *x, float inverse, int8_t *q) {
    for (size_t i = 0; i < n; i++) {
        q[i] = (int8_t)rintf(hold(x[i] * inverse, -127.0f, 127.0f));
    }
}

/* A tile: 128 neighbours, and the sixteen blocks that hold their 16 bits each. */
enum { TILE = 128, BLOCKS = 16 };

static void draw_tile(const struct oct__stream *stream, uint64_t tile, int32_t k[TILE]) {
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t word[4];
        oct__rounding_block(stream, (uint32_t)(BLOCKS * tile) + b, word);
        for (uint32_t w = 0; w < 4; w++) {
            k[2 * (BLOCKS * w + b)] = (int32_t)(word[w] & 0xffffU);
            k[2 * (BLOCKS * w + b) + 1] = (int32_t)(word[w] >> 16);
        }
    }
}

/* The bits of element `first` + i, whose tile is drawn when its first element is met. */
static int32_t bits_at(const struct oct__stream *stream, uint64_t first, size_t i,
                       int32_t k[TILE]) {
    const uint64_t e = first + i;
    if (i == 0 || e % TILE == 0) {
        draw_tile(stream, e / TILE, k);
    }
    return k[e % TILE];
}

/* floor((rint(t * 2^16) + k) / 2^16); 256 is added so that no negative number is shifted. */
static int32_t round_chance(float t, int32_t k) {
    return (((int32_t)rintf(t * 0x1p16f) + (256 << 16) + k) >> 16) - 256;
}

static int8_t chance_s8(float x, float inverse, int32_t k) {
    return (int8_t)round_chance(hold(x * inverse, -127.0f, 127.0f), k);
}

void oct_quantize_u8_random_f32__ref(size_t n, uint64_t first, const float *x, float inverse,
                                     float zero, const struct oct__stream *stream, uint8_t *q) {
    int32_t k[TILE];
    for (size_t i = 0; i < n; i++) {
        const float t = hold(x[i] * inverse, -zero, 255.0f - zero);
        q[i] = (uint8_t)(round_chance(t, bits_at(stream, first, i, k)) + (int32_t)zero);
    }
}

void oct_quantize_s8_random_f32__ref(size_t n, uint64_t first, const float *x, float inverse,
                                     const struct oct__stream *stream, int8_t *q) {
    int32_t k[TILE];
    for (size_t i = 0; i < n; i++) {
        q[i] = chance_s8(x[i], inverse, bits_at(stream, first, i, k));
    }
}

void oct_quantize_s8_random_bf16__ref(size_t n, uint64_t first, const uint16_t *x, float factor,
                                      int zero, const struct oct__stream *stream, void *q) {
    uint8_t *bytes = q;
    int32_t k[TILE];
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)x[i] << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        bytes[i] = (uint8_t)(chance_s8(wide, factor, bits_at(stream, first, i, k)) + zero);
    }
}

void oct_quantize_s8_random_s32__ref(size_t n, uint64_t first, const int32_t *x, float scale,
                                     float inverse, const struct oct__stream *stream, int8_t *q) {
    int32_t k[TILE];
    for (size_t i = 0; i < n; i++) {
        q[i] = chance_s8(scale * (float)x[i], inverse, bits_at(stream, first, i, k));
    }
}

void oct_quantize_s8_random_s32_s8__ref(size_t n, uint64_t first, const int32_t *a, float scale_a,
                                        const int8_t *b, float scale_b, float inverse,
                                        const struct oct__stream *stream, int8_t *q) {
    int32_t k[TILE];
    for (size_t i = 0; i < n; i++) {
        const float x = scale_a * (float)a[i] + scale_b * (float)b[i];
        q[i] = chance_s8(x, inverse, bits_at(stream, first, i, k));
    }
}

static int clipped(uint8_t q, float zero) {
    return q == 255 || (q == 0 && zero > 0.0f);
}

void oct_clip_mask_f32__ref(size_t n, const uint8_t *q, float zero, float *x) {
    for (size_t i = 0; i < n; i++) {
        x[i] = clipped(q[i], zero) ? 0.0f : x[i];
    }
}

void oct_clip_mask_s8__ref(size_t n, const uint8_t *q, float zero, int8_t *x) {
    for (size_t i = 0; i < n; i++) {
        x[i] = clipped(q[i], zero) ? 0 : x[i];
    }
}
