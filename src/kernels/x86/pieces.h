/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h - what the wide range norms share: their gate, and how a sample's chunks are found among
 * its rows.
 *
 * A chunk is a run of values in (channel, row) order, while memory has a row's channels side by
 * side. Where chunks divide a channel (L divides hw, as in every map of 8 x 8 and larger here) all
 * columns are cut at the same rows, and a chunk's extremes are those of a column through a block of
 * rows. Elsewhere columns are cut into *pieces* of gcd(L, hw) rows, so that again all cuts lie at
 * the same rows, and a chunk is several pieces:
 *
 *     hw = 6, L = 4: pieces of 2 rows     rows 0-1   chunk 0 | chunk 1 | chunk 3 …
 *                                         rows 2-3   chunk 0 | chunk 2 | chunk 3
 *                                         rows 4-5   chunk 1 | chunk 2 | chunk 4
 */
#ifndef OCT_KERNELS_X86_PIECES_H
#define OCT_KERNELS_X86_PIECES_H

#include "kernels/chunks.h"
#include "kernels/x86/wide.h"

#define SIXTH (1.0f / 6.0f)

/* h of t = (v * x) / 6 + 1/2 */
INLINE wide held(wide t) {
    return wide_smaller(wide_larger(t, wide_of(0.0f)), wide_of(1.0f));
}

struct chunks {
    size_t hw, c, groups, width; /* columns of a group */
    size_t n_chunks, length;     /* of a group, of a chunk */
    size_t rows;                 /* of a piece */
    size_t per_column, per_chunk;
};

INLINE struct chunks chunks_of(size_t hw, size_t c, size_t groups) {
    struct chunks s = {.hw = hw, .c = c, .groups = groups, .width = c / groups};
    s.n_chunks = oct__chunk_count(hw * s.width);
    s.length = hw * s.width / s.n_chunks;
    size_t a = hw, b = s.length; /* hw >= 1, so length >= 1 */
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    s.rows = a;
    s.per_column = hw / s.rows;
    s.per_chunk = s.length / s.rows;
    return s;
}

/* A count of pieces as wholes and rest, so that walking needs no division. */
struct mixed {
    size_t whole, rest;
};

INLINE struct mixed mixed_of(size_t count, size_t unit) {
    return (struct mixed){count / unit, count % unit};
}

INLINE struct mixed mixed_add(struct mixed a, struct mixed b, size_t unit) {
    struct mixed sum = {a.whole + b.whole, a.rest + b.rest};
    if (sum.rest >= unit) {
        sum.rest -= unit;
        sum.whole++;
    }
    return sum;
}

/* The spread of a group: its chunks in ascending order, down one column after the other. */
INLINE float mean_spread(const float *low, const float *high, size_t columns, size_t per_column,
                         size_t stride) {
    float low_sum = 0.0f, high_sum = 0.0f;
    for (size_t j = 0; j < columns; j++) {
        for (size_t b = 0; b < per_column; b++) {
            low_sum += low[b * stride + j];
            high_sum += high[b * stride + j];
        }
    }
    float k = (float)(columns * per_column);
    return high_sum / k - low_sum / k;
}

#endif
