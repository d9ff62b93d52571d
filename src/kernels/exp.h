/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h - the exponential and the sigmoid of the kernels, defined down to the last bit.
 *
 * libm's expf differs between machines and has no wide form, so two CPU levels (or two machines of
 * one run) would not agree. This one is multiplications and additions in a fixed order, each
 * rounded on its own, plus one shift; x86/wide.h does the same sequence sixteen wide.
 *
 *   x clamped to [-87, 87]
 *   n = round(x / ln 2)                by adding and taking away 1.5 * 2^23: n sits in the low bits
 *   r = (x - n * hi) - n * lo          hi + lo = ln 2; n * hi is exact (hi has 15 bits, n has 7)
 *   q = (((c6 * r + c5) * r + c4) * r + c3) * r + c2
 *   exp = ((q * (r * r) + r) + 1) * 2^n
 *
 * The coefficients are the minimax fit of relative error on |r| <= ln 2 / 2 (2^-28.3), rounded to
 * float. Over every float in [-87, 87] the result is within 0.98 ulp of the true value (compared
 * with exp in double; the kernel checker compares a sample of them).
 *
 * The clamp keeps the result, and the sigmoid made from it, finite and normal (1.6e-38 … 6.1e37):
 * a saturated sigmoid is exactly 1, or 1.6e-38 instead of 0, and never costs a denormal's time. An
 * infinite x counts as +-87; NaN gives NaN.
 */
#ifndef OCT_KERNELS_EXP_H
#define OCT_KERNELS_EXP_H

#include <stdint.h>
#include <string.h>

#include "base/anywhere.h"

#define OCT_EXP_LIMIT 87.0f
#define OCT_EXP_LOG2E 0x1.715476p+0f
#define OCT_EXP_SHIFT 0x1.8p+23f
#define OCT_EXP_LN2_HIGH 0x1.62e4p-1f
#define OCT_EXP_LN2_LOW 0x1.7f7d1cp-20f
#define OCT_EXP_C2 0x1.fffffcp-2f
#define OCT_EXP_C3 0x1.555492p-3f
#define OCT_EXP_C4 0x1.5558f2p-5f
#define OCT_EXP_C5 0x1.123a20p-7f
#define OCT_EXP_C6 0x1.6a23d0p-10f

OCT_ANYWHERE float oct__exp_f32(float x) {
    /* Both comparisons are false for a NaN, which so passes through. */
    x = OCT_EXP_LIMIT < x ? OCT_EXP_LIMIT : x;
    x = -OCT_EXP_LIMIT > x ? -OCT_EXP_LIMIT : x;
    float shifted = x * OCT_EXP_LOG2E + OCT_EXP_SHIFT;
    float n = shifted - OCT_EXP_SHIFT;
    float r = (x - n * OCT_EXP_LN2_HIGH) - n * OCT_EXP_LN2_LOW;
    float q = OCT_EXP_C6 * r + OCT_EXP_C5;
    q = q * r + OCT_EXP_C4;
    q = q * r + OCT_EXP_C3;
    q = q * r + OCT_EXP_C2;
    float p = (q * (r * r) + r) + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000U; /* n + 127 as an exponent: 2^n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

OCT_ANYWHERE float oct__sigmoid_f32(float a) {
    return 1.0f / (1.0f + oct__exp_f32(-a));
}

#endif
