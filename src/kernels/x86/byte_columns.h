/* SPDX-License-Identifier: Apache-2.0 */
/* byte_columns.h - columns of bytes x[rows][c], BYTES lanes at a time.
 *
 * A byte needs no conversion to be compared, so extremes of columns are found four times as wide as
 * floats would be. A *step* is what one vector takes: several whole rows where c divides BYTES, so
 * that no lane is idle,
 *
 *     c = 16, BYTES = 64:   lanes  0 … 15 | 16 … 31 | 32 … 47 | 48 … 63
 *                           row      4 k  | 4 k + 1 | 4 k + 2 | 4 k + 3      at step k
 *
 * and otherwise one row of at most BYTES columns. There the last lanes may be idle: they hold
 * whatever follows in memory, and nobody looks at them.
 */
#ifndef OCT_KERNELS_X86_BYTE_COLUMNS_H
#define OCT_KERNELS_X86_BYTE_COLUMNS_H

#include "kernels/x86/bytes.h"

#define BYTES (4 * LANES)

/* Rows of bytes are short: a tile of these is in the first-level cache. */
enum { BYTE_TILE_ROWS = 128 };

#if defined(__AVX512F__)

INLINE ints bytes_load(const void *p) {
    return _mm512_loadu_si512(p);
}

INLINE ints bytes_smaller(ints a, ints b) {
    return _mm512_min_epu8(a, b);
}

INLINE ints bytes_larger(ints a, ints b) {
    return _mm512_max_epu8(a, b);
}

INLINE ints bytes_subtract(ints a, ints b) {
    return _mm512_sub_epi8(a, b);
}

/* Which lanes of a are not above b's. */
typedef __mmask64 byte_lanes;

INLINE byte_lanes bytes_up_to(ints a, ints b) {
    return _mm512_cmple_epu8_mask(a, b);
}

INLINE ints bytes_where(byte_lanes where, ints yes, ints no) {
    return _mm512_mask_mov_epi8(no, where, yes);
}

INLINE __m256i bytes_half(ints v, int upper) {
    return upper ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

#else

INLINE ints bytes_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE ints bytes_smaller(ints a, ints b) {
    return _mm256_min_epu8(a, b);
}

INLINE ints bytes_larger(ints a, ints b) {
    return _mm256_max_epu8(a, b);
}

INLINE ints bytes_subtract(ints a, ints b) {
    return _mm256_sub_epi8(a, b);
}

typedef __m256i byte_lanes;

INLINE byte_lanes bytes_up_to(ints a, ints b) {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(a, b), a);
}

INLINE ints bytes_where(byte_lanes where, ints yes, ints no) {
    return _mm256_blendv_epi8(no, yes, where);
}

#endif

/* 2^23 + q as a float: its bits are 2^23's with q below. */
INLINE wide wide_get_u8(const uint8_t *p, int full, size_t n) {
    return wide_bits(ints_or(ints_get_u8(p, full, n), ints_of(0x4b000000)));
}

/* |x|, of what is not a NaN. */
INLINE wide magnitude(wide x) {
    return wide_larger(x, wide_of(0.0f) - x);
}

/* The grid of a sample: x = scale * (q - zero). */
struct byte_grid {
    wide scale, offset; /* 2^23 + zero, exact */
};

INLINE struct byte_grid byte_grid_of(float scale, float zero) {
    return (struct byte_grid){wide_of(scale), wide_of(0x1p23f + zero)};
}

/* What wide_get_u8 gives, as a value; the difference is exact. */
INLINE wide byte_value(const struct byte_grid *grid, wide shifted) {
    return grid->scale * (shifted - grid->offset);
}

/* --- steps ------------------------------------------------------------------------------------ */

struct byte_steps {
    size_t n;      /* steps */
    size_t rows;   /* of each */
    size_t stride; /* elements from one to the next */
    size_t width;  /* lanes of all columns */
};

INLINE struct byte_steps byte_steps_of(size_t rows, size_t c) {
    size_t each = c > 0 && c <= BYTES && BYTES % c == 0 ? BYTES / c : 1;
    each = rows % each == 0 ? each : 1;
    return (struct byte_steps){rows / each, each, each * c, each * c};
}

/* A vector of bytes, as far as there are any. */
INLINE ints bytes_get(const void *p, const void *end) {
    size_t left = (size_t)((const char *)end - (const char *)p);
    if (left >= BYTES) {
        return bytes_load(p);
    }
    uint8_t some[BYTES] = {0};
    memcpy(some, p, left);
    return bytes_load(some);
}

INLINE __m128i half_of(__m128i a, __m128i b, int largest) {
    return largest ? _mm_max_epu8(a, b) : _mm_min_epu8(a, b);
}

/* The extremes of lanes of the same column, c apart; c divides BYTES. */
INLINE void bytes_fold(ints v, size_t c, int largest, uint8_t *out) {
#if defined(__AVX512F__)
    if (c == BYTES) {
        ints_store(out, v);
        return;
    }
    __m256i a = bytes_half(v, 0), b = bytes_half(v, 1);
    a = largest ? _mm256_max_epu8(a, b) : _mm256_min_epu8(a, b);
#else
    __m256i a = v;
#endif
    if (c == 32) {
        _mm256_storeu_si256((__m256i *)(void *)out, a);
        return;
    }
    __m128i d = half_of(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1), largest);
    if (c == 16) {
        _mm_storeu_si128((__m128i *)(void *)out, d);
        return;
    }
    uint8_t few[16];
    d = half_of(d, _mm_srli_si128(d, 8), largest);
    d = c < 8 ? half_of(d, _mm_srli_si128(d, 4), largest) : d;
    d = c < 4 ? half_of(d, _mm_srli_si128(d, 2), largest) : d;
    d = c < 2 ? half_of(d, _mm_srli_si128(d, 1), largest) : d;
    _mm_storeu_si128((__m128i *)(void *)few, d);
    memcpy(out, few, c);
}

/* A panel's extremes to its columns first, first + 1, … of out[c]. */
INLINE void bytes_put_columns(ints v, const struct byte_steps *steps, size_t first, size_t c,
                              int largest, uint8_t *out) {
    if (steps->rows > 1 || c == BYTES) {
        bytes_fold(v, c, largest, out);
    } else if (c - first >= BYTES) {
        ints_store(out + first, v);
    } else {
        uint8_t some[BYTES];
        ints_store(some, v);
        memcpy(out + first, some, c - first);
    }
}

#endif
