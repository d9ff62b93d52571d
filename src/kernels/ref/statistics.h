/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.h - mean and 1 / standard deviation of a sample's groups, as the norms specify them.
 *
 * Not the textbook's single pass over a group: columns are summed first (rows-by-4), then a group's
 * columns in ascending order, which is the order a machine that is wide over channels can keep.
 */
#ifndef OCT_KERNELS_REF_STATISTICS_H
#define OCT_KERNELS_REF_STATISTICS_H

#include <math.h>
#include <stddef.h>

/* The end of every rows-by-4 sum. */
static inline float fold4(const float p[4]) {
    return (p[0] + p[1]) + (p[2] + p[3]);
}

static inline float column_total(size_t hw, size_t c, const float *column) {
    float p[4] = {0};
    for (size_t r = 0; r < hw; r++) {
        p[r % 4] += column[r * c];
    }
    return fold4(p);
}

static inline float column_squares(size_t hw, size_t c, const float *column, float mean) {
    float p[4] = {0};
    for (size_t r = 0; r < hw; r++) {
        float d = column[r * c] - mean;
        p[r % 4] += d * d;
    }
    return fold4(p);
}

static inline void group_statistics(size_t hw, size_t c, size_t groups, const float *x, float eps,
                                    float *mean, float *rstd) {
    size_t width = c / groups;
    float m = (float)(hw * width);
    for (size_t g = 0; g < groups; g++) {
        float total = 0.0f, squares = 0.0f;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            total += column_total(hw, c, x + j);
        }
        mean[g] = total / m;
        for (size_t j = g * width; j < (g + 1) * width; j++) {
            squares += column_squares(hw, c, x + j, mean[g]);
        }
        rstd[g] = 1.0f / sqrtf(squares / m + eps);
    }
}

#endif
