/* SPDX-License-Identifier: Apache-2.0 */
/* outer.h - how the kernel outer_bf16_f32 walks along its pairs: the inner loop of a weight gradient.
 *
 * A *pair* is 32 bits with two numbers of bf16: the same place of two samples. x has pixels of
 * OCT_OUTER_OUT pairs at least, of which a tap of the kernel meets OCT_OUTER_IN; g has pixels of
 * OCT_OUTER_OUT. A tap that would lie outside the image at some pixel leaves that pixel out, so
 * nothing is ever multiplied by padding.
 */
#ifndef OCT_KERNELS_OUTER_H
#define OCT_KERNELS_OUTER_H

#include <stddef.h>

enum { OCT_OUTER_TAPS = 3, OCT_OUTER_IN = 8, OCT_OUTER_OUT = 16 };

/* What a tap adds to: [in][out]. */
#define OCT_OUTER_SUMS ((size_t)(OCT_OUTER_IN * OCT_OUTER_OUT))

struct oct__outer {
    size_t images, rows;           /* of x and g alike */
    size_t x_image, x_row, x_step; /* pairs from one image, row, pixel of g to the next, in x */
    size_t g_image, g_row;         /* and in g, where pixels are neighbours */
    size_t taps;                   /* 1 … OCT_OUTER_TAPS */
    struct oct__outer_tap {
        ptrdiff_t shift;   /* pairs from pixel 0 of g to where the tap meets x */
        size_t first, end; /* pixels of g at which it meets any */
    } tap[OCT_OUTER_TAPS];
};

/* The tap that meets column p * step + column of x's `width` at pixel p of g's `pixels`; a column of
 * x has `column_pairs`, of which the tap takes those from `from` on. */
static inline struct oct__outer_tap oct__outer_tap(ptrdiff_t column, size_t step, size_t width,
                                                   size_t pixels, size_t column_pairs,
                                                   size_t from) {
    const ptrdiff_t by = (ptrdiff_t)step, most = (ptrdiff_t)pixels;
    const ptrdiff_t room = (ptrdiff_t)width - column; /* p * step < room */
    const ptrdiff_t end = room > 0 ? (room + by - 1) / by : 0;
    const ptrdiff_t first = column < 0 ? (-column + by - 1) / by : 0;
    struct oct__outer_tap tap = {.shift = column * (ptrdiff_t)column_pairs + (ptrdiff_t)from};
    tap.end = (size_t)(end < most ? end : most);
    tap.first = (size_t)first < tap.end ? (size_t)first : tap.end;
    return tap;
}

#endif
