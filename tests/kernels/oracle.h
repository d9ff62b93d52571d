/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - how the oracles judge a float: its worst error, against what is allowed. */
#ifndef OCT_TESTS_ORACLE_H
#define OCT_TESTS_ORACLE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* One check's worst error. */
struct error {
    double worst, got, wanted;
    size_t at;
};

static inline void compare(struct error *error, double got, double wanted, double scale,
                           size_t at) {
    double relative = fabs(got - wanted) / (scale > 0.0 ? scale : 1.0);
    if (!(relative <= error->worst)) { /* a NaN is the worst there is */
        *error = (struct error){isnan(relative) ? INFINITY : relative, got, wanted, at};
    }
}

static inline int judge(const char *name, const char *what, const struct error *error,
                        double tolerance, uint64_t seed) {
    int failed = !(error->worst <= tolerance);
    printf("%-26s %-34s error %.2e, allowed %.2e%s\n", name, what, error->worst, tolerance,
           failed ? "  WRONG" : "");
    if (failed) {
        fprintf(stderr, "WRONG: %s, %s, element %zu: ref %.9g, in double %.9g, seed %llu\n", name,
                what, error->at, error->got, error->wanted, (unsigned long long)seed);
    }
    return failed;
}

#endif
