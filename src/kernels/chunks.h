/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - how the range norms cut values into chunks, and what a chunk's range is worth.
 *
 * A range norm estimates the deviation of `count` values from the spread between largest and
 * smallest. One spread over all would hang on two outliers, so the values are cut into K equal
 * chunks, and the mean of the chunks' spreads R is taken. For L normal values the expected spread
 * is about 2 * sigma * sqrt(2 ln L); the factor turns it into the deviation.
 */
#ifndef OCT_KERNELS_CHUNKS_H
#define OCT_KERNELS_CHUNKS_H

#include <math.h>
#include <stddef.h>

#include "base/anywhere.h"

/* K: 16, or the largest smaller divisor of `count` that leaves two values or more a chunk; 1 when
 * there is none. */
OCT_ANYWHERE size_t oct__chunk_count(size_t count) {
    for (size_t k = 16; k > 1; k--) {
        if (count % k == 0 && count / k >= 2) {
            return k;
        }
    }
    return 1;
}

/* Floats for each channel that the range norms' kernels want as working space. */
#define OCT_RANGE_WORK 40

/* f(L) = 0.175 * (1 + sqrt(pi * ln 4)) / sqrt(2 * ln L). A single value has no spread; any finite
 * factor will do for it. */
OCT_ANYWHERE float oct__range_factor(size_t length) {
    const double pi = 3.14159265358979323846;
    double l = length < 2 ? 2.0 : (double)length;
    return (float)(0.175 * (1.0 + sqrt(pi * log(4.0))) / sqrt(2.0 * log(l)));
}

/* What a group's spread is at least, of its largest magnitude, if a value is to be `reach` deviations at
 * the most; 0 of anything where there is no limit. */
OCT_ANYWHERE float oct__spread_least(float reach, float factor) {
    return reach > 0.0F ? 1.0F / (reach * factor) : 0.0F;
}

#endif
