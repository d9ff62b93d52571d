/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - times every variant of every kernel: `octet bench kernels` and the checker's --bench.
 */
#ifndef OCT_KERNELS_BENCH_H
#define OCT_KERNELS_BENCH_H

#include <octet/status.h>

struct oct__kernel_time {
    const char *name, *variant;
    double ns;       /* one call */
    double gb_per_s; /* 10^9 bytes a second, each input and output counted once */
    double speedup;  /* over ref on the same shape */
    const char *shape;
};

/* Calls `row` for each kernel (or `only_or_null` alone), shape and variant up to the CPU level in
 * use, ref first; texts are valid during the call. Each takes about `seconds_each`. A `row` that
 * returns other than 0 ends it with CANCELLED; an unknown name gives NOT_FOUND. */
OCT_MUST_CHECK oct_status oct__kernels_bench(const char *only_or_null, double seconds_each,
                                             int (*row)(const struct oct__kernel_time *, void *ctx),
                                             void *ctx);

#endif
