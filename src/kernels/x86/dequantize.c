/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize.c - the wide kernels that turn bytes and sums into floats.
 *
 * One loop serves all types: what differs is how LANES values are loaded, and whether the
 * result is added to what is there.
 */
#include "kernels/x86/bytes.h"
#include "kernels/x86/columns.h"

enum from { FROM_U8, FROM_S8, FROM_S32 };

INLINE wide load_as(enum from from, const void *p, size_t i, int full, size_t n) {
    switch (from) {
    case FROM_U8:
        return wide_ints(ints_get_u8((const uint8_t *)p + i, full, n));
    case FROM_S8:
        return wide_ints(ints_get_s8((const int8_t *)p + i, full, n));
    default:
        return wide_ints(ints_get((const int32_t *)p + i, full, n));
    }
}

struct grid {
    enum from from;
    int add;
    wide scale, zero; /* zero of bytes without a sign alone */
};

INLINE wide value(const struct grid *g, const void *p, const float *y, size_t i, int full,
                  size_t n) {
    wide v = load_as(g->from, p, i, full, n);
    if (g->from == FROM_U8) {
        v -= g->zero;
    }
    v = g->scale * v;
    if (g->add) {
        v = wide_get(y + i, full, n) + v;
    }
    return v;
}

/* Four vectors are computed before the first is stored: sums may turn into floats in place. */
INLINE void dequantize(size_t n, struct grid g, const void *p, float *y) {
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        wide a = value(&g, p, y, i, 1, 0), b = value(&g, p, y, i + LANES, 1, 0);
        wide c = value(&g, p, y, i + 2 * LANES, 1, 0), d = value(&g, p, y, i + 3 * LANES, 1, 0);
        wide_store(y + i, a);
        wide_store(y + i + LANES, b);
        wide_store(y + i + 2 * LANES, c);
        wide_store(y + i + 3 * LANES, d);
    }
    for (; i + LANES <= n; i += LANES) {
        wide_store(y + i, value(&g, p, y, i, 1, 0));
    }
    if (i < n) {
        wide_store_first(y + i, value(&g, p, y, i, 0, n - i), n - i);
    }
}

void OCT_WIDE(dequantize_add_u8_f32)(size_t n, const uint8_t *q, float scale, float zero,
                                     float *y) {
    dequantize(n, (struct grid){FROM_U8, 1, wide_of(scale), wide_of(zero)}, q, y);
}

#if !defined(__AVX512F__) /* avx512 measured no faster */

void OCT_WIDE(dequantize_u8_f32)(size_t n, const uint8_t *q, float scale, float zero, float *y) {
    dequantize(n, (struct grid){FROM_U8, 0, wide_of(scale), wide_of(zero)}, q, y);
}

void OCT_WIDE(dequantize_s8_f32)(size_t n, const int8_t *q, float scale, float *y) {
    dequantize(n, (struct grid){FROM_S8, 0, wide_of(scale), wide_of(0.0f)}, q, y);
}

void OCT_WIDE(dequantize_add_s8_f32)(size_t n, const int8_t *q, float scale, float *y) {
    dequantize(n, (struct grid){FROM_S8, 1, wide_of(scale), wide_of(0.0f)}, q, y);
}

void OCT_WIDE(dequantize_s32_f32)(size_t n, const int32_t *x, float scale, float *y) {
    dequantize(n, (struct grid){FROM_S32, 0, wide_of(scale), wide_of(0.0f)}, x, y);
}

void OCT_WIDE(dequantize_add_s32_f32)(size_t n, const int32_t *x, float scale, float *y) {
    dequantize(n, (struct grid){FROM_S32, 1, wide_of(scale), wide_of(0.0f)}, x, y);
}

/* --- columns ---------------------------------------------------------------------------------- */

struct column_value {
    size_t c;
    const int32_t *sums; /* or NULL: floats */
    const float *x, *scale, *shift;
    float *y;
};

INLINE wide column_value(const struct column_value *of, size_t i, wide scale, wide shift, int full,
                         size_t n) {
    if (of->sums) {
        return scale * wide_ints(ints_get(of->sums + i, full, n)) + shift;
    }
    return wide_get(of->x + i, full, n) * scale;
}

INLINE void column_values(const struct column_value *of, const struct panel *at) {
    const int full = at->full;
    const size_t n = at->n, c = of->c;
    const wide scale = wide_get(of->scale + at->column, full, n);
    const wide shift = of->shift ? wide_get(of->shift + at->column, full, n) : wide_of(0.0f);
    size_t i = at->row * c + at->column, r = 0;
    for (; r + 4 <= at->rows; r += 4, i += 4 * c) {
        wide y0 = column_value(of, i, scale, shift, full, n);
        wide y1 = column_value(of, i + c, scale, shift, full, n);
        wide y2 = column_value(of, i + 2 * c, scale, shift, full, n);
        wide y3 = column_value(of, i + 3 * c, scale, shift, full, n);
        put_rows(of->y + i, c, y0, y1, y2, y3, full, n);
    }
    for (; r < at->rows; r++, i += c) {
        wide_put(of->y + i, column_value(of, i, scale, shift, full, n), full, n);
    }
}

INLINE void column_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    column_values(arguments, at);
}

void OCT_WIDE(column_dequantize_s32_f32)(size_t rows, size_t c, const int32_t *x,
                                         const float *scale, const float *shift, float *y) {
    struct column_value of = {.c = c, .sums = x, .scale = scale, .shift = shift, .y = y};
    column_map(rows, c, column_panel, &of);
}

void OCT_WIDE(column_scale_f32)(size_t rows, size_t c, const float *x, const float *scale,
                                float *y) {
    struct column_value of = {.c = c, .x = x, .scale = scale, .y = y};
    column_map(rows, c, column_panel, &of);
}

#endif
