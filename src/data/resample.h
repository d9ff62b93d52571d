/* SPDX-License-Identifier: Apache-2.0 */
/* resample.h - a box of a picture as a square of a given size, from rows that come one by one.
 *
 *     rows of the picture, in order ──► the last few ──► down the columns ──► along the row ──► out
 *                                       (a ring)         sums in 1/256        bytes, rounded
 *
 * The filter is a triangle: between pixels where the picture grows, and as wide as a new pixel where
 * it shrinks, so that what is finer than a new pixel is averaged rather than picked. Pixels beside
 * the box count where the filter reaches them and the picture has them.
 *
 * Weights are integers that sum to 2^14 and everything else follows in integers: the same bytes on
 * every machine. Memory is that of a few rows, whatever the picture's size.
 */
#ifndef OCT_DATA_RESAMPLE_H
#define OCT_DATA_RESAMPLE_H

#include <stddef.h>

#include "base/alloc.h"
#include "data/crop.h"

#define OCT_RESAMPLE_UNIT (1 << 14)

struct oct__axis_span {
    int first, count;
};

/* Which source pixels make each new one, one way. */
struct oct__axis {
    int n_out;
    int most;                     /* source pixels of a new one, at most */
    int first, past;              /* source pixels that any new one needs */
    struct oct__axis_span *spans; /* [n_out] */
    int16_t *weights;             /* [n_out][most], positive; they sum to OCT_RESAMPLE_UNIT */
    size_t span_capacity, weight_capacity;
};

/* A part at `start`, `length` long, in 1/65536 pixels, of a line of `n_in`. */
OCT_MUST_CHECK oct_status oct__axis_make(struct oct__axis *axis, int64_t start, int64_t length,
                                         int n_in, int n_out);
void oct__axis_fini(struct oct__axis *axis);

struct oct__resampler {
    struct oct__axis x, y;
    uint8_t *ring; /* [y.most + 1] rows of the columns that are needed, red, green, blue */
    size_t ring_capacity;
    uint32_t *sums; /* [columns * 3] */
    size_t sum_capacity;
    uint16_t *line; /* [columns * 3] in 1/256 */
    size_t line_capacity;
    size_t row_bytes;
    int next_in, next_out;
    uint8_t *out;
};

/* Begins a picture of `width` x `height`; the result goes to out [size][size][3]. Rows y.first …
 * y.past - 1 are wanted, of which columns x.first … x.past - 1 will be read. */
OCT_MUST_CHECK oct_status oct__resample_begin(struct oct__resampler *resampler,
                                              const struct oct__box *box, int width, int height,
                                              int size, uint8_t *out);

/* Takes the next row; `pixels` is that of column x.first. The last wanted row finishes `out`. */
void oct__resample_row(struct oct__resampler *resampler, const uint8_t *pixels);

void oct__resample_fini(struct oct__resampler *resampler);

#endif
