/* SPDX-License-Identifier: Apache-2.0 */
/* crop.h - which part of a picture becomes a sample, where pictures have sizes of their own.
 *
 *     to test     the shorter side is thought of as 8/7 of the sample's, and the middle is taken:
 *                 256 and 224, as is usual; in the picture's own pixels, a square of 7/8 of its
 *                 shorter side
 *     to train    a box of 8 % to 100 % of the area, uniform, and a ratio of 3/4 to 4/3 of width
 *                 to height, uniform in its logarithm, anywhere; ten tries to find one that fits,
 *                 then the largest middle part whose ratio is allowed; mirrored or not
 *
 * Szegedy and others, "Going deeper with convolutions", 2015, for the law; its numbers and the ten
 * tries are those that everybody uses.
 *
 * A box is a function of (seed, node, permutation, row) and of the picture's size: try t takes the
 * words 4 row … 4 row + 3 (area, ratio, top, left) of the stream (seed, AUGMENT, node, permutation,
 * layer 1 + t); the flip is word 4 row + 2 of layer 0, as for images that are all of one size
 * (sampler.h). Arithmetic is integers, sums, products and square roots in double, and so the same on
 * every machine.
 */
#ifndef OCT_DATA_CROP_H
#define OCT_DATA_CROP_H

#include <stdint.h>

/* Part of a picture, in 1/65536 of its pixels; inside it, and never empty. */
struct oct__box {
    int64_t x, y, width, height;
};

#define OCT_PIXEL 65536

/* Names the random part of a sample. */
struct oct__augment {
    uint64_t seed;
    uint32_t node, permutation;
};

/* Pictures have at least one pixel each way, and at most 2^26 in all. */
struct oct__box oct__crop_middle(int width, int height);
struct oct__box oct__crop_random(const struct oct__augment *augment, uint32_t row, int width,
                                 int height);

/* 1: mirrored. */
int oct__crop_flip(const struct oct__augment *augment, uint32_t row);

#endif
