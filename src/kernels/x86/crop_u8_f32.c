/* SPDX-License-Identifier: Apache-2.0 */
/* crop_u8_f32.c - augmentation with the tests for the border taken out of the loop.
 *
 * A row is black on one side, copied in the middle; the middle is a plain look-up for each byte.
 * Nothing in it is wide (gathers measured no faster), so avx512 uses what avx2 has.
 */
#include "kernels/x86/wide.h"

#if !defined(__AVX512F__)

/* Pixels first … last − 1 of a row in the source's order, mirrored if asked. */
INLINE void black(float *row, int64_t w, int c, int64_t first, int64_t last, int flip,
                  const float *lut) {
    for (int64_t x = first; x < last; x++) {
        float *to = row + (flip ? w - 1 - x : x) * c;
        for (int k = 0; k < c; k++) {
            to[k] = lut[k * 256];
        }
    }
}

/* One pixel: source pixel x of the row to where it belongs. */
INLINE void look_up(float *row, const uint8_t *src, int64_t w, int c, int64_t x, int flip,
                    const float *lut) {
    float *to = row + (flip ? w - 1 - x : x) * c;
    for (int k = 0; k < c; k++) {
        to[k] = lut[k * 256 + src[k]];
    }
}

INLINE void copy(float *row, const uint8_t *src, int64_t w, int c, int64_t first, int64_t last,
                 int flip, const float *lut) {
    int64_t x = first;
    if (c == 1) { /* a loop of one look-up would be mostly loop */
        for (; x + 4 <= last; x += 4, src += 4) {
            look_up(row, src, w, 1, x, flip, lut);
            look_up(row, src + 1, w, 1, x + 1, flip, lut);
            look_up(row, src + 2, w, 1, x + 2, flip, lut);
            look_up(row, src + 3, w, 1, x + 3, flip, lut);
        }
    }
    for (; x < last; x++, src += c) {
        look_up(row, src, w, c, x, flip, lut);
    }
}

INLINE void crop(int h, int w, int c, const uint8_t *src, int dy, int dx, int flip,
                 const float *lut, float *dst) {
    int64_t first = -(int64_t)dx, last = (int64_t)w - dx;
    first = first < 0 ? 0 : first > w ? w : first;
    last = last > w ? w : last < first ? first : last;
    for (int y = 0; y < h; y++) {
        float *row = dst + (int64_t)y * w * c;
        int64_t from_y = (int64_t)y + dy;
        if (from_y < 0 || from_y >= h || first == last) {
            black(row, w, c, 0, w, 0, lut);
            continue;
        }
        black(row, w, c, 0, first, flip, lut);
        copy(row, src + (from_y * w + first + dx) * c, w, c, first, last, flip, lut);
        black(row, w, c, last, w, flip, lut);
    }
}

/* One and three channels get loops of their own, with c a constant. */
void OCT_WIDE(crop_u8_f32)(int h, int w, int c, const uint8_t *src, int dy, int dx, int flip,
                           const float *lut, float *dst) {
    if (c == 1) {
        crop(h, w, 1, src, dy, dx, flip, lut, dst);
    } else if (c == 3) {
        crop(h, w, 3, src, dy, dx, flip, lut, dst);
    } else {
        crop(h, w, c, src, dy, dx, flip, lut, dst);
    }
}

#endif
