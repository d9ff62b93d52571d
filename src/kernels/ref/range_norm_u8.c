/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm_u8.c - the specification of Range EvoNorm on bytes: what range_norm.c says of floats,
 * with every value made from its byte where it is used.
 *
 * The result is that of the float kernels one after the other, dequantize_u8, the norm, then
 * quantize_u8, minmax, or clip_mask and round_bf16; but no float is stored on the way. A gradient
 * that ends as bf16 must get its share before it is rounded, so the few elements that get one are
 * computed again.
 */
#include <string.h>

#include "kernels/chunks.h"
#include "kernels/ref/statistics.h"
#include "kernels/variants.h"

#define SIXTH (1.0f / 6.0f)

struct sample {
    size_t hw, c, groups;
    const uint8_t *q;
    float scale, zero; /* the grid's */
};

static float value_at(const struct sample *s, size_t at) {
    return s->scale * ((float)s->q[at] - s->zero);
}

struct extremes {
    float low, high;
    size_t low_at, high_at; /* elements of the sample */
};

/* Of values first … first + length - 1 of the group that begins at column `group`. */
static struct extremes chunk_extremes(const struct sample *s, size_t group, size_t first,
                                      size_t length) {
    struct extremes e = {0};
    for (size_t i = first; s->hw > 0 && i < first + length; i++) {
        size_t at = i % s->hw * s->c + group + i / s->hw;
        float value = value_at(s, at);
        if (i == first || value > e.high) {
            e.high = value;
            e.high_at = at;
        }
        if (i == first || value < e.low) {
            e.low = value;
            e.low_at = at;
        }
    }
    return e;
}

void oct_chunk_spread_u8__ref(size_t hw, size_t c, size_t groups, const uint8_t *q, float scale,
                              float zero, float least, float *spread, float *work) {
    (void)work;
    const struct sample s = {hw, c, groups, q, scale, zero};
    size_t width = c / groups, m = hw * width;
    size_t n_chunks = oct__chunk_count(m), length = m / n_chunks;
    for (size_t g = 0; g < groups; g++) {
        float high = 0.0f, low = 0.0f, far = 0.0f;
        for (size_t k = 0; k < n_chunks && m > 0; k++) {
            struct extremes e = chunk_extremes(&s, g * width, k * length, length);
            high += e.high;
            low += e.low;
            far = e.high > far ? e.high : far;
            far = -e.low > far ? -e.low : far;
        }
        spread[g] = high / (float)n_chunks - low / (float)n_chunks;
        spread[g] = least * far > spread[g] ? least * far : spread[g];
    }
}

static float held(float t) {
    t = t > 0.0f ? t : 0.0f;
    return t < 1.0f ? t : 1.0f;
}

struct channels {
    const float *gamma, *beta, *v, *used;
};

static float norm_at(const struct sample *s, const struct channels *of, size_t at) {
    size_t j = at % s->c;
    float x = value_at(s, at);
    float e = x * held((of->v[j] * x) * SIXTH + 0.5f);
    return (of->gamma[j] * e) * of->used[j / (s->c / s->groups)] + of->beta[j];
}

void oct_range_evonorm_minmax_u8__ref(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                      float scale, float zero, const float *gamma,
                                      const float *beta, const float *v, const float *used,
                                      float *range, float *work) {
    (void)work;
    const struct sample s = {hw, c, groups, q, scale, zero};
    const struct channels of = {gamma, beta, v, used};
    for (size_t at = 0; at < hw * c; at++) {
        float y = norm_at(&s, &of, at);
        oct_minmax_f32__ref(1, &y, range);
    }
}

void oct_range_evonorm_u8__ref(size_t hw, size_t c, size_t groups, const uint8_t *q, float scale,
                               float zero, const float *gamma, const float *beta, const float *v,
                               const float *used, float y_inverse, float y_zero, uint8_t *y,
                               float *work) {
    (void)work;
    const struct sample s = {hw, c, groups, q, scale, zero};
    const struct channels of = {gamma, beta, v, used};
    for (size_t at = 0; at < hw * c; at++) {
        float value = norm_at(&s, &of, at);
        oct_quantize_u8_f32__ref(1, &value, y_inverse, y_zero, &y[at]);
    }
}

/* --- the gradient ----------------------------------------------------------------------------- */

struct gradient {
    struct sample x;
    const float *gamma, *v, *scale, *used;
    const int8_t *dy;
    float dy_scale;
    int mask;
    float *floats; /* where dx goes, as one or the other */
    uint16_t *halves;
};

/* dx without a share. */
static float direct(const struct gradient *d, size_t at) {
    size_t j = at % d->x.c, g = j * d->x.groups / d->x.c;
    float x = value_at(&d->x, at), dy = d->dy_scale * (float)d->dy[at], a = d->v[j] * x;
    float t = a * SIXTH + 0.5f;
    float slope = t >= 0.0f && t <= 1.0f ? SIXTH : 0.0f;
    return ((d->gamma[j] * d->used[g]) * dy) * (held(t) + a * slope);
}

static void put(const struct gradient *d, size_t at, float dx) {
    if (d->mask) {
        oct_clip_mask_f32__ref(1, &d->x.q[at], d->x.zero, &dx);
    }
    if (d->floats) {
        d->floats[at] = dx;
    } else {
        oct_round_bf16_f32__ref(1, &dx, &d->halves[at]);
    }
}

/* Adds column j's sums; returns gamma * Q. */
static float column(const struct gradient *d, size_t j, float *dgamma, float *dbeta, float *dv) {
    size_t c = d->x.c;
    float used = d->used[j / (c / d->x.groups)];
    float p[4] = {0}, q[4] = {0}, u[4] = {0};
    for (size_t r = 0; r < d->x.hw; r++) {
        size_t at = r * c + j;
        float x = value_at(&d->x, at), dy = d->dy_scale * (float)d->dy[at];
        float t = (d->v[j] * x) * SIXTH + 0.5f;
        float slope = t >= 0.0f && t <= 1.0f ? SIXTH : 0.0f;
        p[r % 4] += dy;
        q[r % 4] += dy * (x * held(t));
        u[r % 4] += (dy * x) * (x * slope);
        put(d, at, direct(d, at));
    }
    dbeta[j] += fold4(p);
    dgamma[j] += fold4(q) * used;
    dv[j] += (d->gamma[j] * used) * fold4(u);
    return d->gamma[j] * fold4(q);
}

static void gradient(const struct gradient *d, float *dgamma, float *dbeta, float *dv) {
    size_t width = d->x.c / d->x.groups, m = d->x.hw * width;
    size_t n_chunks = oct__chunk_count(m), length = m / n_chunks;
    float factor = oct__range_factor(length);
    for (size_t g = 0; g < d->x.groups; g++) {
        float total = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            total += column(d, j, dgamma, dbeta, dv);
        }
        float share = -((total * (d->scale[g] * d->scale[g])) * factor) / (float)n_chunks;
        for (size_t k = 0; k < n_chunks && m > 0; k++) {
            struct extremes e = chunk_extremes(&d->x, g * width, k * length, length);
            if (e.high_at != e.low_at) {
                put(d, e.high_at, direct(d, e.high_at) + share);
                put(d, e.low_at, direct(d, e.low_at) - share);
            }
        }
    }
}

void oct_range_evonorm_grad_u8_f32__ref(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                        float q_scale, float q_zero, const float *gamma,
                                        const float *v, const float *scale, const float *used,
                                        const int8_t *dy, float dy_scale, int mask, float *dgamma,
                                        float *dbeta, float *dv, float *dx, float *work) {
    (void)work;
    const struct gradient d = {
        {hw, c, groups, q, q_scale, q_zero}, gamma, v, scale, used, dy, dy_scale, mask, dx, NULL};
    gradient(&d, dgamma, dbeta, dv);
}

void oct_range_evonorm_grad_u8_bf16__ref(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                         float q_scale, float q_zero, const float *gamma,
                                         const float *v, const float *scale, const float *used,
                                         const int8_t *dy, float dy_scale, int mask, float *dgamma,
                                         float *dbeta, float *dv, uint16_t *dx, float *work) {
    (void)work;
    const struct gradient d = {
        {hw, c, groups, q, q_scale, q_zero}, gamma, v, scale, used, dy, dy_scale, mask, NULL, dx};
    gradient(&d, dgamma, dbeta, dv);
}
