/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - seconds since some fixed moment, for measuring how long things take. */
#ifndef OCT_BASE_CLOCK_H
#define OCT_BASE_CLOCK_H

#include <time.h>

static inline double oct__seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
