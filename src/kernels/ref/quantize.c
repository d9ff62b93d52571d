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

/* What is added to element j of the tile before the floor, (k + 0.5) * 2^-16, in dither[j]. */
static void draw_tile(const struct oct__stream *stream, uint64_t tile, float dither[TILE]) {
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t word[4];
        oct__stream_block(stream, (uint32_t)(BLOCKS * tile) + b, word);
        for (uint32_t w = 0; w < 4; w++) {
            dither[BLOCKS * w + b] = ((float)(word[w] & 0xffffU) + 0.5f) * 0x1p-16f;
            dither[BLOCKS * (w + 4) + b] = ((float)(word[w] >> 16) + 0.5f) * 0x1p-16f;
        }
    }
}

/* The dither of element `first` + i, whose tile is drawn when its first element is met. */
static float dither_at(const struct oct__stream *stream, uint64_t first, size_t i,
                       float dither[TILE]) {
    const uint64_t e = first + i;
    if (i == 0 || e % TILE == 0) {
        draw_tile(stream, e / TILE, dither);
    }
    return dither[e % TILE];
}

static int8_t round_s8(float x, float inverse, float dither) {
    return (int8_t)hold(floorf(x * inverse + dither), -127.0f, 127.0f);
}

void oct_quantize_u8_random_f32__ref(size_t n, uint64_t first, const float *x, float inverse,
                                     float zero, const struct oct__stream *stream, uint8_t *q) {
    float dither[TILE];
    for (size_t i = 0; i < n; i++) {
        float t = floorf(x[i] * inverse + dither_at(stream, first, i, dither));
        q[i] = (uint8_t)(hold(t, -zero, 255.0f - zero) + zero);
    }
}

void oct_quantize_s8_random_f32__ref(size_t n, uint64_t first, const float *x, float inverse,
                                     const struct oct__stream *stream, int8_t *q) {
    float dither[TILE];
    for (size_t i = 0; i < n; i++) {
        q[i] = round_s8(x[i], inverse, dither_at(stream, first, i, dither));
    }
}

void oct_quantize_s8_random_bf16__ref(size_t n, uint64_t first, const uint16_t *x, float scale,
                                      float inverse, const struct oct__stream *stream, int8_t *q) {
    float dither[TILE];
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        q[i] = round_s8(wide * scale, inverse, dither_at(stream, first, i, dither));
    }
}

void oct_quantize_s8_random_s32__ref(size_t n, uint64_t first, const int32_t *x, float scale,
                                     float inverse, const struct oct__stream *stream, int8_t *q) {
    float dither[TILE];
    for (size_t i = 0; i < n; i++) {
        q[i] = round_s8(scale * (float)x[i], inverse, dither_at(stream, first, i, dither));
    }
}

void oct_quantize_s8_random_s32_s8__ref(size_t n, uint64_t first, const int32_t *a, float scale_a,
                                        const int8_t *b, float scale_b, float inverse,
                                        const struct oct__stream *stream, int8_t *q) {
    float dither[TILE];
    for (size_t i = 0; i < n; i++) {
        const float x = scale_a * (float)a[i] + scale_b * (float)b[i];
        q[i] = round_s8(x, inverse, dither_at(stream, first, i, dither));
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
