/* SPDX-License-Identifier: Apache-2.0 */
/* crop_u8_f32.c - the specification of augmentation: shift, mirror, bytes to floats by table. */
#include "kernels/variants.h"

void oct_crop_u8_f32__ref(int h, int w, int c, const uint8_t *src, int dy, int dx, int flip,
                          const float *lut, float *dst) {
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            /* In 64 bits: any shift is allowed, and one past the edge only reads black. */
            int64_t from_y = (int64_t)y + dy, from_x = (int64_t)x + dx;
            int inside = from_y >= 0 && from_y < h && from_x >= 0 && from_x < w;
            int to_x = flip ? w - 1 - x : x;
            for (int k = 0; k < c; k++) {
                uint8_t byte = 0;
                if (inside) {
                    byte = src[(size_t)((from_y * w + from_x) * c + k)];
                }
                dst[((size_t)y * (size_t)w + (size_t)to_x) * (size_t)c + (size_t)k] =
                    lut[k * 256 + byte];
            }
        }
    }
}
