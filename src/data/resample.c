/* SPDX-License-Identifier: Apache-2.0 */
/* resample.c - triangle filter in integers over rows that come one by one; see resample.h. */
#include "data/resample.h"

#include <string.h>

enum { CHANNELS = 3, LINE_BITS = 6, OUT_BITS = 22 };

/* --- weights --------------------------------------------------------------------------------- */

/* Height of the triangle over source pixel `p`. */
static int64_t height_at(int64_t centre, int64_t reach, int64_t p) {
    const int64_t at = p * OCT_PIXEL + OCT_PIXEL / 2;
    const int64_t apart = at < centre ? centre - at : at - centre;
    return apart < reach ? reach - apart : 0;
}

/* Weights of one new pixel from `*first` on; returns how many there are, none of them 0. Rounding
 * must not make a pixel brighter, so the largest takes the rest. */
static int fill_weights(int64_t centre, int64_t reach, int *first, int count, int16_t *weights) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += height_at(centre, reach, *first + i);
    }
    sum = sum > 0 ? sum : 1; /* a box inside its picture always reaches a pixel */
    int rest = OCT_RESAMPLE_UNIT, largest = 0, low = 0;
    for (int i = 0; i < count; i++) {
        const int64_t height = height_at(centre, reach, *first + i);
        weights[i] = (int16_t)((height * OCT_RESAMPLE_UNIT + sum / 2) / sum);
        rest -= weights[i];
        largest = weights[i] > weights[largest] ? i : largest;
    }
    weights[largest] = (int16_t)(weights[largest] + rest);
    while (weights[low] == 0) {
        low++;
    }
    while (weights[count - 1] == 0) {
        count--;
    }
    count -= low;
    memmove(weights, weights + low, (size_t)count * sizeof *weights);
    *first += low;
    return count;
}

oct_status oct__axis_make(struct oct__axis *axis, int64_t start, int64_t length, int n_in,
                          int n_out) {
    const int64_t step = length / n_out;
    const int64_t reach = step > OCT_PIXEL ? step : OCT_PIXEL;
    const int most = (int)(2 * reach / OCT_PIXEL) + 2;
    void *memory = axis->spans;
    OCT_TRY(oct__alloc_grow(&memory, &axis->span_capacity, (size_t)n_out, sizeof *axis->spans,
                            "resampling"));
    axis->spans = memory;
    memory = axis->weights;
    OCT_TRY(oct__alloc_grow(&memory, &axis->weight_capacity, (size_t)n_out * (size_t)most,
                            sizeof *axis->weights, "resampling"));
    axis->weights = memory;
    axis->n_out = n_out;
    axis->most = most;
    axis->first = n_in;
    axis->past = 0;
    for (int i = 0; i < n_out; i++) {
        const int64_t centre = start + (2 * (int64_t)i + 1) * length / (2 * (int64_t)n_out);
        const int64_t low = centre - reach, high = centre + reach;
        int first = low < 0 ? 0 : (int)(low / OCT_PIXEL);
        int past = high / OCT_PIXEL < n_in ? (int)(high / OCT_PIXEL) + 1 : n_in;
        const int count = fill_weights(centre, reach, &first, past - first,
                                       axis->weights + (size_t)i * (size_t)most);
        axis->spans[i] = (struct oct__axis_span){first, count};
        past = first + count;
        axis->first = first < axis->first ? first : axis->first;
        axis->past = past > axis->past ? past : axis->past;
    }
    return OCT_OK;
}

void oct__axis_fini(struct oct__axis *axis) {
    oct__free(axis->spans);
    oct__free(axis->weights);
    memset(axis, 0, sizeof *axis);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* One more than a new row needs: rows that come of fewer may be behind. */
static size_t ring_rows(const struct oct__resampler *r) {
    return (size_t)r->y.most + 1;
}

oct_status oct__resample_begin(struct oct__resampler *resampler, const struct oct__box *box,
                               int width, int height, int size, uint8_t *out) {
    struct oct__resampler *r = resampler;
    OCT_TRY(oct__axis_make(&r->x, box->x, box->width, width, size));
    OCT_TRY(oct__axis_make(&r->y, box->y, box->height, height, size));
    r->row_bytes = (size_t)(r->x.past - r->x.first) * CHANNELS;
    void *memory = r->ring;
    OCT_TRY(
        oct__alloc_grow(&memory, &r->ring_capacity, ring_rows(r) * r->row_bytes, 1, "resampling"));
    r->ring = memory;
    memory = r->sums;
    OCT_TRY(
        oct__alloc_grow(&memory, &r->sum_capacity, r->row_bytes, sizeof *r->sums, "resampling"));
    r->sums = memory;
    memory = r->line;
    OCT_TRY(
        oct__alloc_grow(&memory, &r->line_capacity, r->row_bytes, sizeof *r->line, "resampling"));
    r->line = memory;
    r->next_in = r->y.first;
    r->next_out = 0;
    r->out = out;
    return OCT_OK;
}

/* Two rows at once: most new rows come of two. */
static void add_rows(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t weight_a,
                     uint32_t weight_b, size_t n, uint32_t *restrict sums) {
    for (size_t i = 0; i < n; i++) {
        sums[i] += a[i] * weight_a + b[i] * weight_b;
    }
}

static void set_rows(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t weight_a,
                     uint32_t weight_b, size_t n, uint32_t *restrict sums) {
    for (size_t i = 0; i < n; i++) {
        sums[i] = a[i] * weight_a + b[i] * weight_b;
    }
}

static void round_line(const uint32_t *restrict sums, size_t n, uint16_t *restrict line) {
    for (size_t i = 0; i < n; i++) {
        line[i] = (uint16_t)((sums[i] + (1U << (LINE_BITS - 1))) >> LINE_BITS);
    }
}

static uint8_t *ring_row(const struct oct__resampler *r, int y) {
    return r->ring + (size_t)y % ring_rows(r) * r->row_bytes;
}

/* Down the columns. */
static void blend(struct oct__resampler *r, struct oct__axis_span span, const int16_t *weights) {
    for (int i = 0; i < span.count; i += 2) {
        const uint8_t *a = ring_row(r, span.first + i);
        const int has_two = i + 1 < span.count;
        const uint8_t *b = has_two ? ring_row(r, span.first + i + 1) : a;
        const uint32_t weight_b = has_two ? (uint32_t)weights[i + 1] : 0;
        (i == 0 ? set_rows : add_rows)(a, b, (uint32_t)weights[i], weight_b, r->row_bytes, r->sums);
    }
    round_line(r->sums, r->row_bytes, r->line);
}

/* Along the row. */
static void squeeze(const struct oct__resampler *r, uint8_t *out) {
    const struct oct__axis *x = &r->x;
    for (int i = 0; i < x->n_out; i++, out += CHANNELS) {
        const struct oct__axis_span span = x->spans[i];
        const uint16_t *from = r->line + (size_t)(span.first - x->first) * CHANNELS;
        const int16_t *weights = x->weights + (size_t)i * (size_t)x->most;
        uint32_t red = 1U << (OUT_BITS - 1), green = red, blue = red;
        for (int k = 0; k < span.count; k++, from += CHANNELS) {
            const uint32_t weight = (uint32_t)weights[k];
            red += from[0] * weight;
            green += from[1] * weight;
            blue += from[2] * weight;
        }
        out[0] = (uint8_t)(red >> OUT_BITS);
        out[1] = (uint8_t)(green >> OUT_BITS);
        out[2] = (uint8_t)(blue >> OUT_BITS);
    }
}

void oct__resample_row(struct oct__resampler *resampler, const uint8_t *pixels) {
    struct oct__resampler *r = resampler;
    const struct oct__axis *y = &r->y;
    memcpy(ring_row(r, r->next_in), pixels, r->row_bytes);
    r->next_in++;
    for (; r->next_out < y->n_out; r->next_out++) {
        const struct oct__axis_span span = y->spans[r->next_out];
        if (span.first + span.count > r->next_in) {
            return;
        }
        blend(r, span, y->weights + (size_t)r->next_out * (size_t)y->most);
        squeeze(r, r->out + (size_t)r->next_out * (size_t)y->n_out * CHANNELS);
    }
}

void oct__resample_fini(struct oct__resampler *resampler) {
    oct__axis_fini(&resampler->x);
    oct__axis_fini(&resampler->y);
    oct__free(resampler->ring);
    oct__free(resampler->sums);
    oct__free(resampler->line);
    memset(resampler, 0, sizeof *resampler);
}
