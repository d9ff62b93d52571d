/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - how the wide kernels walk x[rows][c]: vectors over channels, in tiles of rows.
 *
 *               column 0      LANES   2·LANES          c
 *     tile 0   row 0  [panel ][panel ][panel ] … [rest ]
 *              …
 *     tile 1   row 16 [panel ][panel ][panel ] … [rest ]
 *
 * A panel is one vector of columns through one tile's rows: its per-channel parameters and its sums
 * stay in registers for as long. Tall tiles load those less often, but jump c floats at each step,
 * and jumping is what the processor's prefetching bears badly: measured, 16 rows are right for
 * sums of any size; a map over arrays too large for L2 is best row by row (its time is memory's
 * anyway); and when one vector is all the columns there are, every order is sequential.
 *
 * Sums wait for the next tile in `partial`: float [n_sums][4][CHUNK], the four being rows-by-4's
 * partial sums (row r belongs to partial r % 4, and tiles begin at multiples of four).
 */
#ifndef OCT_KERNELS_X86_COLUMNS_H
#define OCT_KERNELS_X86_COLUMNS_H

#include <string.h>

#include "kernels/x86/wide.h"

enum { CHUNK = 64, TILE_ROWS = 16, LARGE_FLOATS = 1 << 19 };

/* Where a panel lies; `full` says that it is LANES wide, else `n` < LANES columns are left. */
struct panel {
    size_t row, rows, column, n;
    int full;
};

/* What a kernel does with a panel. `partial` points to the panel's first column; NULL without
 * sums. */
typedef void panel_work(const void *arguments, const struct panel *panel, float *partial);

/* The panels of rows row … row + rows - 1. */
INLINE void across(size_t row, size_t rows, size_t first, size_t width, panel_work *work,
                   const void *arguments, float *partial) {
    size_t j = 0;
    for (; j + LANES <= width; j += LANES) {
        struct panel panel = {row, rows, first + j, LANES, 1};
        work(arguments, &panel, partial ? partial + j : NULL);
    }
    if (j < width) {
        struct panel panel = {row, rows, first + j, width - j, 0};
        work(arguments, &panel, partial ? partial + j : NULL);
    }
}

INLINE void in_tiles(size_t tile, size_t rows, size_t first, size_t width, panel_work *work,
                     const void *arguments, float *partial) {
    for (size_t row = 0; row < rows; row += tile) {
        size_t count = rows - row < tile ? rows - row : tile;
        across(row, count, first, width, work, arguments, partial);
    }
}

/* `work` on every panel of x[rows][c]. */
INLINE void column_map(size_t rows, size_t c, panel_work *work, const void *arguments) {
    if (c > LANES && rows * c > LARGE_FLOATS) {
        for (size_t row = 0; row < rows; row++) {
            across(row, 1, 0, c, work, arguments, NULL);
        }
    } else {
        in_tiles(c <= LANES ? rows : TILE_ROWS, rows, 0, c, work, arguments, NULL);
    }
}

/* The same with n_sums sums a column: out[s][j] += the fold of column j's four partial sums. `tile`
 * is a multiple of four. */
INLINE void column_sums_in(size_t tile, size_t rows, size_t c, panel_work *work,
                           const void *arguments, int n_sums, float *const *out) {
    enum { MOST = 3 };
    float partial[MOST * 4 * CHUNK];
    for (size_t first = 0; first < c; first += CHUNK) {
        size_t width = c - first < CHUNK ? c - first : CHUNK;
        memset(partial, 0, (size_t)n_sums * 4 * CHUNK * sizeof(float));
        in_tiles(width <= LANES ? rows : tile, rows, first, width, work, arguments, partial);
        for (int s = 0; s < n_sums; s++) {
            const float *p = partial + s * 4 * CHUNK;
            for (size_t j = 0; j < width; j++) {
                out[s][first + j] += (p[j] + p[CHUNK + j]) + (p[2 * CHUNK + j] + p[3 * CHUNK + j]);
            }
        }
    }
}

INLINE void column_sums(size_t rows, size_t c, panel_work *work, const void *arguments, int n_sums,
                        float *const *out) {
    column_sums_in(TILE_ROWS, rows, c, work, arguments, n_sums, out);
}

/* Four partial sums between memory and registers. Rows beyond a multiple of four are added in
 * memory, after the registers went back. */
struct sums {
    wide p0, p1, p2, p3;
};

INLINE struct sums sums_load(const float *partial, int full, size_t n) {
    struct sums s = {
        wide_get(partial, full, n),
        wide_get(partial + CHUNK, full, n),
        wide_get(partial + 2 * CHUNK, full, n),
        wide_get(partial + 3 * CHUNK, full, n),
    };
    return s;
}

INLINE void sums_store(float *partial, const struct sums *s, int full, size_t n) {
    wide_put(partial, s->p0, full, n);
    wide_put(partial + CHUNK, s->p1, full, n);
    wide_put(partial + 2 * CHUNK, s->p2, full, n);
    wide_put(partial + 3 * CHUNK, s->p3, full, n);
}

INLINE void sums_add_row(float *partial, size_t row, wide term, int full, size_t n) {
    float *p = partial + row % 4 * CHUNK;
    wide_put(p, wide_get(p, full, n) + term, full, n);
}

/* Four rows' results, written after all four were computed: a load that follows a store to an
 * address equal in its low 12 bits waits for it, and where two arrays lie so that this happens it
 * happens once in four loads. */
INLINE void put_rows(float *y, size_t c, wide y0, wide y1, wide y2, wide y3, int full, size_t n) {
    wide_put(y, y0, full, n);
    wide_put(y + c, y1, full, n);
    wide_put(y + 2 * c, y2, full, n);
    wide_put(y + 3 * c, y3, full, n);
}

#endif
