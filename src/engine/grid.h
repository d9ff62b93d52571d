/* SPDX-License-Identifier: Apache-2.0 */
/* grid.h - how 256 steps are laid over real numbers: from extremes to a scale and a zero.
 *
 * Three kinds of tensors become bytes, each in its own way.
 *
 * Values (activations) are u8 on a *grid*: real = scale * (byte - zero).
 *
 *            lo            0                        hi
 *     reals  |-------------|------------------------|
 *     bytes  0            zero                     255        scale = (hi - lo) / 255
 *
 * The range [lo, hi] always contains 0, and `zero` is a whole byte, so that the real 0 is on the grid
 * exactly: padding and what a ReLU cuts off must not become a small something. One huge value would
 * spread the grid thin for all others, so the range of a batch may be the *mean* of its samples'
 * extremes (MEAN), and what lies beyond is clipped to byte 0 or 255; FULL covers everything.
 * Evaluation must not depend on the batch a sample comes in: it takes a running range (RUNNING)
 * that training leaves behind.
 *
 * Weights and gradients are s8, symmetric: real = scale * byte, bytes -127 … 127, scale = peak /
 * 127. Nothing is clipped and there is no zero to subtract in products.
 *
 * Vectors that stay f32 in memory (a norm's parameters and scales) take one of 256 values between
 * their own extremes.
 *
 * A NaN or an infinity must not vanish in a byte. Extremes are found by the order of floats' bits
 *
 *     -NaN < -inf < … < -0 < +0 < … < +inf < +NaN
 *
 * which has a place for NaNs and does not depend on who comes first; so the extremes, then the span
 * and then the scale are not finite, and stay so in everything that is computed from them.
 *
 * All arithmetic is in f32, one rounding an operation, except where `double` is written. These few
 * lines are the same for every engine; the passes over elements are kernels (kernels.def, "bytes").
 */
#ifndef OCT_ENGINE_GRID_H
#define OCT_ENGINE_GRID_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/anywhere.h"
#include "engine/engine.h"

/* --- ranges ---------------------------------------------------------------------------------- */

/* A range is two floats, lo and hi, as kernels and running ranges have them. */

/* A float's place in the order above. */
OCT_ANYWHERE int32_t oct__float_order(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

/* The range of nothing: whatever is added to it becomes both of its ends. */
OCT_ANYWHERE void oct__range_begin(float range[2]) {
    const uint32_t last = 0x7fffffffU, first = 0xffffffffU; /* the outermost NaNs */
    memcpy(&range[0], &last, sizeof last);
    memcpy(&range[1], &first, sizeof first);
}

OCT_ANYWHERE void oct__range_add(float range[2], float lo, float hi) {
    range[0] = oct__float_order(lo) < oct__float_order(range[0]) ? lo : range[0];
    range[1] = oct__float_order(hi) > oct__float_order(range[1]) ? hi : range[1];
}

/* The range of a batch from the extremes of its n >= 1 samples, [n][2]. Not for RUNNING. */
OCT_ANYWHERE void oct__range_of_batch(enum oct__range how, size_t n, const float *samples,
                                      float range[2]) {
    double lo = 0.0, hi = 0.0;
    oct__range_begin(range);
    for (size_t i = 0; i < n; i++) {
        lo += (double)samples[2 * i];
        hi += (double)samples[2 * i + 1];
        oct__range_add(range, samples[2 * i], samples[2 * i + 1]);
    }
    if (how == OCT_RANGE_MEAN) {
        range[0] = (float)(lo / (double)n);
        range[1] = (float)(hi / (double)n);
    }
}

/* Makes 0 a part of it. A NaN stays. */
OCT_ANYWHERE void oct__range_widen(float range[2]) {
    range[0] = range[0] >= 0.0F ? 0.0F : range[0];
    range[1] = range[1] <= 0.0F ? 0.0F : range[1];
}

/* The running range after another batch: it follows quickly, because weights move. (0, 0) has seen
 * nothing yet. */
OCT_ANYWHERE void oct__range_observe(float running[2], const float range[2]) {
    const int is_first = running[0] == 0.0F && running[1] == 0.0F;
    for (int i = 0; i < 2; i++) {
        running[i] = is_first ? range[i] : 0.1F * running[i] + 0.9F * range[i];
    }
}

/* --- the grid of values ---------------------------------------------------------------------- */

/* A span so small that its steps could not be divided by counts as this. */
#define OCT_SPAN_LEAST 1e-8F

/* The scale that cuts a span into 255 steps. */
OCT_ANYWHERE float oct__span_scale(float span) {
    return (span < OCT_SPAN_LEAST ? OCT_SPAN_LEAST : span) / 255.0F;
}

/* The grid over a range that contains 0. */
OCT_ANYWHERE struct oct__grid oct__grid_over(const float range[2]) {
    const float scale = oct__span_scale(range[1] - range[0]);
    const float zero = rintf(-range[0] / scale);
    const float held = zero > 0.0F ? (zero < 255.0F ? zero : 255.0F) : 0.0F; /* 0 for a NaN */
    const struct oct__grid grid = {scale, 1.0F / scale, held, 0.0F};
    return grid;
}

/* All of it: the grid of a batch whose samples have these extremes. The running range is brought up
 * to date, or with RUNNING is what the grid comes from (`samples` is not read). */
OCT_ANYWHERE struct oct__grid oct__grid_choose(enum oct__range how, size_t n, const float *samples,
                                               float running[2]) {
    float range[2] = {running[0], running[1]};
    if (how != OCT_RANGE_RUNNING) {
        oct__range_of_batch(how, n, samples, range);
    }
    oct__range_widen(range);
    if (how != OCT_RANGE_RUNNING) {
        oct__range_observe(running, range);
    }
    return oct__grid_over(range);
}

/* --- symmetric scales ------------------------------------------------------------------------- */

/* The scale of values whose largest magnitude is `peak`. Where it would be denormal its inverse would
 * overflow: such values are all 0, and so is the scale. */
OCT_ANYWHERE float oct__symmetric_scale(float peak) {
    const float scale = peak / 127.0F;
    return scale < FLT_MIN ? 0.0F : scale;
}

OCT_ANYWHERE float oct__symmetric_inverse(float scale) {
    return scale < FLT_MIN ? 0.0F : 1.0F / scale;
}

/* --- vectors ---------------------------------------------------------------------------------- */

/* y = x, each value moved to the nearest of 256 that lie evenly from the least to the largest; y may
 * be x. A constant vector stays as it is. For short ones: parameters, scales of a norm. */
OCT_ANYWHERE void oct__vector_quantize(size_t n, const float *x, float *y) {
    float range[2];
    oct__range_begin(range);
    for (size_t i = 0; i < n; i++) {
        oct__range_add(range, x[i], x[i]);
    }
    const float lo = range[0], span = range[1] - lo;
    const float scale = oct__span_scale(span), inverse = 1.0F / scale;
    for (size_t i = 0; i < n; i++) {
        y[i] = span == 0.0F ? x[i] : lo + scale * rintf((x[i] - lo) * inverse);
    }
}

#endif
