/* SPDX-License-Identifier: Apache-2.0 */
/* outer.c - the specification of a weight gradient in bf16: pairs of samples, and sums of products.
 *
 * The sums are those of the instruction vdpbf16ps: each product is exact and added with one
 * rounding, to the nearest whatever the thread's rounding mode; denormals count as zero, before and
 * after.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/outer.h"
#include "kernels/variants.h"

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float flush(float value) {
    return fabsf(value) < FLT_MIN ? copysignf(0.0f, value) : value;
}

static float half(uint32_t upper) {
    float value;
    memcpy(&value, &upper, sizeof value);
    return flush(value);
}

static size_t place(size_t p, size_t i, size_t plane) {
    return i / OCT_OUTER_OUT * plane + p * OCT_OUTER_OUT + i % OCT_OUTER_OUT;
}

void oct_pair_center_u8_bf16__ref(size_t pixels, size_t c, size_t step, size_t plane,
                                  const uint8_t *a, const uint8_t *b, float zero, uint32_t *y) {
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < c; i++) {
            uint32_t lower = bits_of((float)a[p * step + i] - zero) >> 16;
            uint32_t upper = bits_of((float)b[p * step + i] - zero) >> 16;
            y[place(p, i, plane)] = lower | upper << 16;
        }
    }
}

void oct_pair_bf16__ref(size_t pixels, size_t c, size_t plane, const uint16_t *a, const uint16_t *b,
                        uint32_t *y) {
    for (size_t p = 0; p < pixels; p++) {
        for (size_t i = 0; i < c; i++) {
            y[place(p, i, plane)] = (uint32_t)a[p * c + i] | (uint32_t)b[p * c + i] << 16;
        }
    }
}

/* One pixel at one tap. */
static void add_products(const uint32_t *x, const uint32_t *g, float *sums) {
    for (size_t i = 0; i < OCT_OUTER_IN; i++, sums += OCT_OUTER_OUT) {
        const float upper = half(x[i] & 0xffff0000U), lower = half(x[i] << 16);
        for (size_t o = 0; o < OCT_OUTER_OUT; o++) {
            float sum = flush(fmaf(upper, half(g[o] & 0xffff0000U), flush(sums[o])));
            sums[o] = flush(fmaf(lower, half(g[o] << 16), sum));
        }
    }
}

void oct_outer_bf16_f32__ref(const struct oct__outer *form, const uint32_t *x, const uint32_t *g,
                             float *sums) {
    for (size_t t = 0; t < form->taps; t++) {
        const struct oct__outer_tap *tap = &form->tap[t];
        for (size_t image = 0; image < form->images; image++) {
            for (size_t row = 0; row < form->rows; row++) {
                const size_t x_at = image * form->x_image + row * form->x_row + (size_t)tap->shift;
                const size_t g_at = image * form->g_image + row * form->g_row;
                for (size_t p = tap->first; p < tap->end; p++) {
                    add_products(x + (x_at + p * form->x_step), g + (g_at + p * OCT_OUTER_OUT),
                                 sums + t * OCT_OUTER_SUMS);
                }
            }
        }
    }
}
