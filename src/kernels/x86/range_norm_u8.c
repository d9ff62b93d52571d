/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm_u8.c - Range EvoNorm on bytes, forward: bytes in, bytes out, and two kinds of extremes.
 *
 * Extremes are looked for among bytes, and only what is found becomes floats. For the spread that
 * is plain: dequantizing keeps the order. For the range of the normalized values
 *
 *     y = gamma * e * used + beta,  e = x * h(v * x)
 *
 * takes two facts. y is monotone in e, roundings included, because each operation is. And e over x
 * is a valley (v > 0; a hill for v < 0), never two:
 *
 *        e |                          /       e = 0                          v x <= -3
 *          |                        /         e = x (v x / 6 + 1/2)   -3 <=  v x <= 3
 *     -----+-------------.--------/----- x    e = x                    3 <=  v x
 *     -3/v |  '.       .'
 *          |     '---'                        lowest at v x = -3/2
 *
 * so a channel's extremes of e are at its smallest byte, at its largest, or at one of the two that
 * lie around the lowest point: four reductions of bytes, and y of four bytes a channel. Rounding
 * does not disturb the order: the grid contains 0, so where the lowest point lies between its bytes,
 * v x moves by more than 1.5 / 255 from one byte to the next, and e beside the lowest point by more
 * than 1e-5 of itself, of which rounding is a thirtieth. It does not matter either if the lowest
 * point is found a little off: then a byte beside it counts as lying on its other side, where it is
 * still the nearest.
 */
#include <float.h>

#include "kernels/x86/byte_columns.h"
#include "kernels/x86/columns.h"
#include "kernels/x86/groups.h"
#include "kernels/x86/pieces.h"

/* Steps of a grid between these are all different as floats, and none of them overflows. */
INLINE int grid_is_sound(float scale) {
    return scale >= 1e-30f && scale <= 1e30f;
}

/* --- the spread ------------------------------------------------------------------------------- */

/* Smallest and largest of each column of x[rows][c]; `end` is where x's memory ends. */
static void column_extremes(size_t rows, size_t c, const uint8_t *x, const uint8_t *end,
                            uint8_t *low, uint8_t *high) {
    const struct byte_steps steps = byte_steps_of(rows, c);
    for (size_t first = 0; first < steps.width; first += BYTES) {
        const uint8_t *at = x + first;
        ints low0 = bytes_get(at, end), high0 = low0, low1 = low0, high1 = low0;
        size_t k = 1;
        for (at += steps.stride; k + 2 <= steps.n; k += 2, at += 2 * steps.stride) {
            ints a = bytes_get(at, end), b = bytes_get(at + steps.stride, end);
            low0 = bytes_smaller(low0, a);
            high0 = bytes_larger(high0, a);
            low1 = bytes_smaller(low1, b);
            high1 = bytes_larger(high1, b);
        }
        if (k < steps.n) {
            ints a = bytes_get(at, end);
            low0 = bytes_smaller(low0, a);
            high0 = bytes_larger(high0, a);
        }
        bytes_put_columns(bytes_smaller(low0, low1), &steps, first, c, 0, low);
        bytes_put_columns(bytes_larger(high0, high1), &steps, first, c, 1, high);
    }
}

/* Chunks of several pieces: extremes of chunk k of group g in low and high[g * n_chunks + k];
 * `columns`: 2 * c bytes. */
static void scattered_extremes(const struct chunks *s, const uint8_t *x, uint8_t *low,
                               uint8_t *high, uint8_t *columns) {
    const size_t c = s->c, k = s->n_chunks;
    const uint8_t *end = x + s->hw * c;
    const struct mixed column_step = mixed_of(s->per_column, s->per_chunk);
    memset(low, 255, k * s->groups);
    memset(high, 0, k * s->groups);
    for (size_t b = 0; b < s->per_column; b++) {
        const struct mixed first = mixed_of(b, s->per_chunk); /* chunk, piece in it */
        column_extremes(s->rows, c, x + b * s->rows * c, end, columns, columns + c);
        for (size_t g = 0, j = 0; g < s->groups; g++) {
            struct mixed at = first;
            for (size_t last = j + s->width; j < last; j++) {
                uint8_t *to_low = &low[g * k + at.whole], *to_high = &high[g * k + at.whole];
                *to_low = columns[j] < *to_low ? columns[j] : *to_low;
                *to_high = columns[c + j] > *to_high ? columns[c + j] : *to_high;
                at = mixed_add(at, column_step, s->per_chunk);
            }
        }
    }
}

/* The largest magnitude among extremes low and high[rows][stride], columns 0 … n - 1. */
static float farthest(const float *low, const float *high, size_t n, size_t rows, size_t stride) {
    float far = 0.0f;
    for (size_t r = 0; r < rows; r++, low += stride, high += stride) {
        for (size_t i = 0; i < n; i++) {
            far = high[i] > far ? high[i] : far;
            far = -low[i] > far ? -low[i] : far;
        }
    }
    return far;
}

/* `work`: extremes of all chunks, at most 16 a group, as floats and as bytes; then 2 * c bytes, for
 * which there is room where chunks are of several pieces, since groups are of several columns. */
void OCT_WIDE(chunk_spread_u8)(size_t hw, size_t c, size_t groups, const uint8_t *q, float scale,
                               float zero, float least, float *spread, float *work) {
    if (hw == 0 || !grid_is_sound(scale)) {
        oct_chunk_spread_u8__ref(hw, c, groups, q, scale, zero, least, spread, work);
        return;
    }
    const struct chunks s = chunks_of(hw, c, groups);
    const size_t n = s.n_chunks * groups;
    uint8_t *low = (uint8_t *)(work + 2 * n), *high = low + n;
    if (s.per_chunk == 1) {
        for (size_t b = 0; b < s.per_column; b++) {
            column_extremes(s.rows, c, q + b * s.rows * c, q + hw * c, low + b * c, high + b * c);
        }
    } else {
        scattered_extremes(&s, q, low, high, high + n);
    }
    oct_dequantize_u8_f32__avx2(2 * n, low, scale, zero, work);
    const int is_column = s.per_chunk == 1; /* or a piece of one: extremes lie as columns do */
    const size_t width = is_column ? s.width : s.n_chunks, rows = is_column ? s.per_column : 1;
    const float *lows = work, *highs = work + n;
    for (size_t g = 0; g < groups; g++, lows += width, highs += width) {
        spread[g] = mean_spread(lows, highs, width, rows, c);
        if (least > 0.0f) {
            const float held = least * farthest(lows, highs, width, rows, c);
            spread[g] = held > spread[g] ? held : spread[g];
        }
    }
}

/* --- y ---------------------------------------------------------------------------------------- */

struct norm {
    size_t c;
    const uint8_t *q;
    float scale, zero;
    const float *gamma, *beta, *v, *used; /* per channel */
    float y_inverse, y_zero;
    uint8_t *y;
};

/* A panel's parameters in registers. */
struct channels {
    struct byte_grid grid;
    wide gamma, beta, v, used;
};

INLINE struct channels channels_of(const struct norm *a, size_t column, int full, size_t n) {
    return (struct channels){
        .grid = byte_grid_of(a->scale, a->zero),
        .gamma = wide_get(a->gamma + column, full, n),
        .beta = wide_get(a->beta + column, full, n),
        .v = wide_get(a->v + column, full, n),
        .used = wide_get(a->used + column, full, n),
    };
}

/* `shifted`: as wide_get_u8 gives it. */
INLINE wide gated(const struct channels *of, wide shifted) {
    wide x = byte_value(&of->grid, shifted);
    wide t = (of->v * x) * wide_of(SIXTH) + wide_of(0.5f);
    return x * held(t);
}

INLINE wide scaled(const struct channels *of, wide e) {
    return (of->gamma * e) * of->used + of->beta;
}

/* rint(y * inverse), held to 255 - zero unless packing does that, too; from below it always does:
 * quantize.c. */
INLINE ints rounded(const struct channels *of, wide e, wide inverse, wide high, int hold) {
    wide t = scaled(of, e) * inverse;
    return ints_nearest(hold ? wide_smaller(high, t) : t);
}

/* Four rows of bytes, one after the other in a vector. */
#if defined(__AVX512F__)

INLINE ints halves_of(int value) {
    return _mm512_set1_epi16((short)value);
}

INLINE void put_four(uint8_t *y, size_t c, ints rows, int full, size_t n) {
    if (full && c == LANES) {
        ints_store(y, rows);
    } else {
        const __mmask16 some = full ? (__mmask16)0xffff : wide_first(n);
        _mm_mask_storeu_epi8(y, some, _mm512_castsi512_si128(rows));
        _mm_mask_storeu_epi8(y + c, some, _mm512_extracti32x4_epi32(rows, 1));
        _mm_mask_storeu_epi8(y + 2 * c, some, _mm512_extracti32x4_epi32(rows, 2));
        _mm_mask_storeu_epi8(y + 3 * c, some, _mm512_extracti32x4_epi32(rows, 3));
    }
}

#else

INLINE ints halves_of(int value) {
    return _mm256_set1_epi16((short)value);
}

INLINE void put_part(uint8_t *y, __m128i bytes, int full, size_t n) {
    if (full) {
        _mm_storel_epi64((__m128i *)(void *)y, bytes);
    } else {
        uint8_t all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        memcpy(y, all, n);
    }
}

INLINE void put_four(uint8_t *y, size_t c, ints rows, int full, size_t n) {
    if (full && c == LANES) {
        ints_store(y, rows);
    } else {
        __m128i front = _mm256_castsi256_si128(rows), back = _mm256_extracti128_si256(rows, 1);
        put_part(y, front, full, n);
        put_part(y + c, _mm_srli_si128(front, 8), full, n);
        put_part(y + 2 * c, back, full, n);
        put_part(y + 3 * c, _mm_srli_si128(back, 8), full, n);
    }
}

#endif

/* Rows of any width. */
INLINE void norm_panel(const void *arguments, const struct panel *at, float *partial) {
    (void)partial;
    const struct norm *a = arguments;
    const int full = at->full;
    const size_t n = at->n, c = a->c, start = at->row * c + at->column;
    const struct channels of = channels_of(a, at->column, full, n);
    const wide inverse = wide_of(a->y_inverse), high = wide_of(255.0f - a->y_zero);
    const ints zero = halves_of((int)a->y_zero);
    const uint8_t *q = a->q + start;
    uint8_t *y = a->y + start;
    size_t r = 0;
    for (; r + 4 <= at->rows; r += 4, q += 4 * c, y += 4 * c) {
        ints four[4];
        for (size_t i = 0; i < 4; i++) {
            wide e = gated(&of, wide_get_u8(q + i * c, full, n));
            four[i] = rounded(&of, e, inverse, high, 1);
        }
        put_four(y, c, ints_pack_u8(four[0], four[1], four[2], four[3], zero), full, n);
    }
    for (; r < at->rows; r++, q += c, y += c) {
        ints one = rounded(&of, gated(&of, wide_get_u8(q, full, n)), inverse, high, 1);
        one = ints_add(one, ints_of((int32_t)a->y_zero));
        ints_put_8(y, ints_larger(one, ints_of(0)), full, n);
    }
}

/* --- y of whole vectors ----------------------------------------------------------------------- */

/* Bytes are taken apart and put together again in 128-bit parts alone, where no part must change its
 * place: of a vector of BYTES, number k of the four vectors of floats has bytes 4 k … 4 k + 3 of each
 * part. Its parameters are arranged in the same way, which takes rows that fit: c a multiple of 16
 * that divides BYTES, or is a multiple of it. */
INLINE int is_even(size_t c) {
    return c % 16 == 0 && (BYTES % c == 0 || c % BYTES == 0);
}

#if defined(__AVX512F__)

/* Bytes 4 k … 4 k + 3 of each part, shifted as wide_get_u8 does. */
INLINE wide wide_pick_u8(ints bytes, int k) {
    const ints which = _mm512_set1_epi32(0x03020100 + 0x04040404 * k);
    const ints order = _mm512_srlv_epi32(which, _mm512_set4_epi32(24, 16, 8, 0));
    return wide_bits(
        _mm512_mask_shuffle_epi8(ints_of(0x4b000000), 0x1111111111111111U, bytes, order));
}

/* The parameters of the same channels. */
INLINE wide wide_pick(const float *p, size_t c, size_t k) {
    wide v = _mm512_castps128_ps512(_mm_loadu_ps(p + 4 * k));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 16 % c + 4 * k), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 32 % c + 4 * k), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(p + 48 % c + 4 * k), 3);
}

INLINE ints pack_parts(ints r0, ints r1, ints r2, ints r3, ints zero) {
    return _mm512_packus_epi16(_mm512_adds_epi16(_mm512_packs_epi32(r0, r1), zero),
                               _mm512_adds_epi16(_mm512_packs_epi32(r2, r3), zero));
}

#else

INLINE wide wide_pick_u8(ints bytes, int k) {
    const ints which = _mm256_setr_epi32(4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3, 4 * k, 4 * k + 1,
                                         4 * k + 2, 4 * k + 3);
    const ints order = ints_or(which, ints_of((int32_t)0x80808000U));
    return wide_bits(ints_or(_mm256_shuffle_epi8(bytes, order), ints_of(0x4b000000)));
}

INLINE wide wide_pick(const float *p, size_t c, size_t k) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * k)),
                                _mm_loadu_ps(p + 16 % c + 4 * k), 1);
}

INLINE ints pack_parts(ints r0, ints r1, ints r2, ints r3, ints zero) {
    return _mm256_packus_epi16(_mm256_adds_epi16(_mm256_packs_epi32(r0, r1), zero),
                               _mm256_adds_epi16(_mm256_packs_epi32(r2, r3), zero));
}

#endif

INLINE struct channels channels_pick(const struct norm *a, size_t first, size_t k) {
    return (struct channels){
        .grid = byte_grid_of(a->scale, a->zero),
        .gamma = wide_pick(a->gamma + first, a->c, k),
        .beta = wide_pick(a->beta + first, a->c, k),
        .v = wide_pick(a->v + first, a->c, k),
        .used = wide_pick(a->used + first, a->c, k),
    };
}

/* n vectors of the columns from `first` on, `stride` apart. e is computed a vector ahead: one takes
 * so many steps, each waiting for the last, that the processor does not get to the next by itself. */
INLINE void norm_even(const struct norm *a, size_t first, size_t n, size_t stride, int hold) {
    const struct channels of0 = channels_pick(a, first, 0), of1 = channels_pick(a, first, 1);
    const struct channels of2 = channels_pick(a, first, 2), of3 = channels_pick(a, first, 3);
    const wide inverse = wide_of(a->y_inverse), high = wide_of(255.0f - a->y_zero);
    const ints zero = halves_of((int)a->y_zero);
    const uint8_t *q = a->q + first;
    uint8_t *y = a->y + first;
    ints bytes = bytes_load(q);
    wide e0 = gated(&of0, wide_pick_u8(bytes, 0)), e1 = gated(&of1, wide_pick_u8(bytes, 1));
    wide e2 = gated(&of2, wide_pick_u8(bytes, 2)), e3 = gated(&of3, wide_pick_u8(bytes, 3));
    for (size_t i = 1; i <= n; i++, y += stride) {
        q += i < n ? stride : 0; /* after the last, that once more */
        bytes = bytes_load(q);
        ints r0 = rounded(&of0, e0, inverse, high, hold);
        e0 = gated(&of0, wide_pick_u8(bytes, 0));
        ints r1 = rounded(&of1, e1, inverse, high, hold);
        e1 = gated(&of1, wide_pick_u8(bytes, 1));
        ints r2 = rounded(&of2, e2, inverse, high, hold);
        e2 = gated(&of2, wide_pick_u8(bytes, 2));
        ints r3 = rounded(&of3, e3, inverse, high, hold);
        e3 = gated(&of3, wide_pick_u8(bytes, 3));
        ints_store(y, pack_parts(r0, r1, r2, r3, zero));
    }
}

static void norm_all_even(size_t hw, const struct norm *a, int hold) {
    const size_t stride = a->c < BYTES ? BYTES : a->c, n = hw * a->c / stride;
    for (size_t first = 0; first < a->c; first += BYTES) {
        if (hold) {
            norm_even(a, first, n, stride, 1);
        } else {
            norm_even(a, first, n, stride, 0);
        }
    }
}

/* Whether y * inverse can be too large for an integer: |x h| <= |x|, and roundings are far less than
 * what is left to 2^31. */
static int must_hold(const struct norm *a) {
    const wide zero = wide_of(0.0f), inverse = wide_of(a->y_inverse);
    const wide x = magnitude(wide_of(255.0f * a->scale));
    wide most = zero, sum = zero;
    for (size_t j = 0; j < a->c; j += LANES) {
        const int full = a->c - j >= LANES;
        wide gamma = wide_get(a->gamma + j, full, a->c - j);
        wide beta = wide_get(a->beta + j, full, a->c - j);
        wide used = wide_get(a->used + j, full, a->c - j);
        wide y = (magnitude(gamma) * x) * magnitude(used) + magnitude(beta);
        sum += y * zero;
        most = wide_larger(magnitude(y * inverse), most);
    }
    float sizes[LANES], sums[LANES];
    wide_store(sizes, most);
    wide_store(sums, sum);
    int hold = 0;
    for (size_t i = 0; i < LANES; i++) {
        hold |= !(sizes[i] <= 0x1p30f) || !(sums[i] == 0.0f);
    }
    return hold;
}

void OCT_WIDE(range_evonorm_u8)(size_t hw, size_t c, size_t groups, const uint8_t *q, float scale,
                                float zero, const float *gamma, const float *beta, const float *v,
                                const float *used, float y_inverse, float y_zero, uint8_t *y,
                                float *work) {
    spread(c, groups, used, work);
    const struct norm arguments = {c, q, scale, zero, gamma, beta, v, work, y_inverse, y_zero, y};
    if (is_even(c) && hw > 0 && hw * c % BYTES == 0) {
        norm_all_even(hw, &arguments, must_hold(&arguments));
    } else {
        in_tiles(c <= LANES ? hw : BYTE_TILE_ROWS, hw, 0, c, norm_panel, &arguments, NULL);
    }
}

/* --- extremes of y ---------------------------------------------------------------------------- */

/* Where the file's first comment holds: all finite, used above 0, and no beta of -0, beside which
 * y could be zeros of both signs. */
static int is_plain(size_t c, size_t groups, const float *gamma, const float *beta, const float *v,
                    const float *used) {
    int plain = 1;
    for (size_t g = 0; g < groups; g++) {
        plain &= used[g] > 0.0f && used[g] <= FLT_MAX;
    }
    /* What is not finite makes its product with 0, and so the sum, a NaN; -0 has the inverse that no
     * other has. */
    const wide nothing = wide_of(0.0f);
    wide sum = nothing, least = nothing;
    for (size_t j = 0; j < c; j += LANES) {
        const int full = c - j >= LANES;
        wide b = wide_get(beta + j, full, c - j);
        sum += wide_get(gamma + j, full, c - j) * nothing + wide_get(v + j, full, c - j) * nothing;
        sum += b * nothing;
        least = wide_smaller(wide_of(1.0f) / b, least);
    }
    float sums[LANES], inverses[LANES];
    wide_store(sums, sum);
    wide_store(inverses, least);
    for (size_t i = 0; i < LANES; i++) {
        plain &= sums[i] == 0.0f && inverses[i] >= -FLT_MAX;
    }
    return plain;
}

/* The bytes of each channel that can give its extremes: found[4][c]. Let turn be the first byte
 * beyond the lowest point, and u = q - turn modulo 256: the smallest u is the nearest byte from there
 * on, or where there is none the smallest byte; the largest u is the nearest below, or the largest.
 */
static void find_bytes(size_t hw, size_t c, const uint8_t *q, const uint8_t *turn, uint8_t *found) {
    const struct byte_steps steps = byte_steps_of(hw, c);
    const uint8_t *end = q + hw * c;
    for (size_t first = 0; first < steps.width; first += BYTES) {
        uint8_t turns[BYTES] = {0};
        for (size_t i = 0; i < steps.width - first && i < BYTES;) {
            size_t left = c - first < BYTES - i ? c - first : BYTES - i;
            memcpy(turns + i, turn + first, left);
            i += left;
        }
        const ints by = bytes_load(turns);
        const uint8_t *at = q + first;
        ints low = bytes_get(at, end), high = low, after = bytes_subtract(low, by), before = after;
        for (size_t k = 1; k < steps.n; k++) {
            at += steps.stride;
            ints a = bytes_get(at, end), u = bytes_subtract(a, by);
            low = bytes_smaller(low, a);
            high = bytes_larger(high, a);
            after = bytes_smaller(after, u);
            before = bytes_larger(before, u);
        }
        bytes_put_columns(low, &steps, first, c, 0, found);
        bytes_put_columns(high, &steps, first, c, 1, found + c);
        bytes_put_columns(after, &steps, first, c, 0, found + 2 * c);
        bytes_put_columns(before, &steps, first, c, 1, found + 3 * c);
    }
    for (size_t j = 0; j < c; j++) {
        found[2 * c + j] = (uint8_t)(found[2 * c + j] + turn[j]);
        found[3 * c + j] = (uint8_t)(found[3 * c + j] + turn[j]);
    }
}

/* turn[c] of find_bytes: the lowest point is at v * x = -1.5. Without one on the grid, or where v is
 * 0, any will do. */
INLINE void find_turns(size_t c, float scale, float zero, const float *v, uint8_t *turn) {
    for (size_t j = 0; j < c; j += LANES) {
        const int full = c - j >= LANES;
        wide step = wide_get(v + j, full, c - j) * wide_of(scale);
        wide at = wide_of(zero) - wide_of(1.5f) / step;
        at = wide_smaller(wide_larger(at, wide_of(0.0f)), wide_of(255.0f)); /* 0 for a NaN */
        ints_put_8(turn + j, ints_add(ints_floor(at), ints_of(1)), full, c - j);
    }
}

/* `work`: used per channel; y of four bytes a channel; these bytes; turns. */
void OCT_WIDE(range_evonorm_minmax_u8)(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                       float scale, float zero, const float *gamma,
                                       const float *beta, const float *v, const float *used,
                                       float *range, float *work) {
    if (hw == 0 || !grid_is_sound(scale) || !is_plain(c, groups, gamma, beta, v, used)) {
        oct_range_evonorm_minmax_u8__ref(hw, c, groups, q, scale, zero, gamma, beta, v, used, range,
                                         work);
        return;
    }
    float *y = work + c;
    uint8_t *found = (uint8_t *)(y + 4 * c), *turn = found + 4 * c;
    spread(c, groups, used, work);
    find_turns(c, scale, zero, v, turn);
    find_bytes(hw, c, q, turn, found);
    const struct norm arguments = {
        .c = c, .scale = scale, .zero = zero, .gamma = gamma, .beta = beta, .v = v, .used = work};
    for (size_t j = 0; j < c; j += LANES) {
        const int full = c - j >= LANES;
        const struct channels of = channels_of(&arguments, j, full, c - j);
        for (size_t i = 0; i < 4; i++) {
            wide e = gated(&of, wide_get_u8(found + i * c + j, full, c - j));
            wide_put(y + i * c + j, scaled(&of, e), full, c - j);
        }
    }
    oct_minmax_f32__avx2(4 * c, y, range);
}
