/* SPDX-License-Identifier: Apache-2.0 */
/* packet.c - the specification of packing a row of parameters and of adding a packet to one. */
#include <string.h>

#include "base/rng.h"
#include "kernels/variants.h"

void oct_axpy_s8_f32__ref(size_t n, float a, const int8_t *q, float scale, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] + a * (scale * (float)q[i]);
    }
}

void oct_above_u32__ref(size_t n, const void *x, uint32_t mask, uint32_t least, uint32_t *bits) {
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, (const char *)x + i * sizeof word, sizeof word);
        if (i % 32 == 0) {
            bits[i / 32] = 0;
        }
        bits[i / 32] |= (uint32_t)((word & mask) >= least) << i % 32;
    }
}

void oct_draw_u32__ref(size_t n, uint64_t first, const struct oct__stream *stream, uint32_t *y) {
    oct__stream_words(stream, first, n, y);
}
