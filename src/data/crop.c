/* SPDX-License-Identifier: Apache-2.0 */
/* crop.c - the law of boxes and flips; see crop.h. */
#include "data/crop.h"

#include <math.h>

#include "base/rng.h"

enum { TRIES = 10 };

static const double least_area = 0.08;
static const double log_ratio = 0.28768207245178092; /* ln(4/3) */

/* exp(t) for |t| <= ln(4/3) to 1e-13: its series. The C library's own differs from one version to
 * the next in the last bit, and a box could differ with it. */
static double exponential(double t) {
    double term = 1.0, sum = 1.0;
    for (int n = 1; n <= 12; n++) {
        term = term * t / n;
        sum += term;
    }
    return sum;
}

static double unit(uint32_t word) {
    return (double)word * 0x1p-32;
}

static struct oct__box in_pixels(int x, int y, int width, int height) {
    return (struct oct__box){(int64_t)x * OCT_PIXEL, (int64_t)y * OCT_PIXEL,
                             (int64_t)width * OCT_PIXEL, (int64_t)height * OCT_PIXEL};
}

struct oct__box oct__crop_middle(int width, int height) {
    const int64_t shorter = width < height ? width : height;
    const int64_t side = shorter * OCT_PIXEL / 8 * 7;
    return (struct oct__box){((int64_t)width * OCT_PIXEL - side) / 2,
                             ((int64_t)height * OCT_PIXEL - side) / 2, side, side};
}

/* Half pixels go up. */
static int rounded(double value) {
    return (int)floor(value + 0.5);
}

/* The largest part in the middle with a ratio of 3/4 to 4/3. */
static struct oct__box widest(int width, int height) {
    int w = width, h = height;
    if (4 * (int64_t)w < 3 * (int64_t)h) {
        h = rounded(w * 4.0 / 3.0);
    } else if (3 * (int64_t)w > 4 * (int64_t)h) {
        w = rounded(h * 4.0 / 3.0);
    }
    return in_pixels((width - w) / 2, (height - h) / 2, w, h);
}

struct oct__box oct__crop_random(const struct oct__augment *augment, uint32_t row, int width,
                                 int height) {
    const double area = (double)width * (double)height;
    for (uint32_t try = 0; try < TRIES; try++) {
        const struct oct__stream stream = oct__stream(augment->seed, OCT_PURPOSE_AUGMENT,
                                                      augment->node, augment->permutation, 1 + try);
        uint32_t words[4];
        oct__stream_block(&stream, row, words);
        const double wanted = area * (least_area + (1.0 - least_area) * unit(words[0]));
        const double ratio = exponential(log_ratio * (2.0 * unit(words[1]) - 1.0));
        const int w = rounded(sqrt(wanted * ratio)), h = rounded(sqrt(wanted / ratio));
        if (w > 0 && h > 0 && w <= width && h <= height) {
            const int y = (int)oct__below(words[2], (uint32_t)(height - h) + 1);
            const int x = (int)oct__below(words[3], (uint32_t)(width - w) + 1);
            return in_pixels(x, y, w, h);
        }
    }
    return widest(width, height);
}

int oct__crop_flip(const struct oct__augment *augment, uint32_t row) {
    const struct oct__stream stream =
        oct__stream(augment->seed, OCT_PURPOSE_AUGMENT, augment->node, augment->permutation, 0);
    uint32_t words[4];
    oct__stream_block(&stream, row, words);
    return (int)oct__below(words[2], 2);
}
