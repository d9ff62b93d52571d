/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - what GroupNorm and EvoNorm share: statistics of a sample's groups, wide over channels.
 *
 * A group may be one or two channels wide (16 channels, 8 groups), far less than a vector. So
 * nothing is done group by group but a few scalars: columns are summed wide, a group's columns are
 * added in ascending order, and the group's result is written out once per channel, where the next
 * pass reads it as a per-channel parameter.
 */
#ifndef OCT_KERNELS_X86_GROUPS_H
#define OCT_KERNELS_X86_GROUPS_H

#include <math.h>

#include "kernels/x86/columns.h"

/* out[j] = value[group of j] */
INLINE void spread(size_t c, size_t groups, const float *value, float *out) {
    size_t width = c / groups;
    for (size_t g = 0; g < groups; g++) {
        for (size_t j = 0; j < width; j++) {
            out[g * width + j] = value[g];
        }
    }
}

INLINE float group_total(const float *column, size_t width) {
    float total = 0.0f;
    for (size_t j = 0; j < width; j++) {
        total += column[j];
    }
    return total;
}

/* mean[g] and rstd[g]; leaves each channel's mean in channel_mean[c] and destroys sums[c]. */
INLINE void group_statistics(size_t hw, size_t c, size_t groups, const float *x, float eps,
                             float *mean, float *rstd, float *channel_mean, float *sums) {
    size_t width = c / groups;
    float m = (float)(hw * width);
    memset(sums, 0, c * sizeof(float));
    OCT_WIDE(column_sum_f32)(hw, c, x, sums);
    for (size_t g = 0; g < groups; g++) {
        mean[g] = group_total(sums + g * width, width) / m;
    }
    spread(c, groups, mean, channel_mean);
    memset(sums, 0, c * sizeof(float));
    OCT_WIDE(column_square_f32)(hw, c, x, channel_mean, sums);
    for (size_t g = 0; g < groups; g++) {
        rstd[g] = 1.0f / sqrtf(group_total(sums + g * width, width) / m + eps);
    }
}

#endif
