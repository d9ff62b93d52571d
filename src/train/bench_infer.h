/* SPDX-License-Identifier: Apache-2.0 */
/* bench_infer.h - how long a network takes to classify, precision beside precision. */
#ifndef OCT_TRAIN_BENCH_INFER_H
#define OCT_TRAIN_BENCH_INFER_H

#include <stdint.h>

#include <octet/config.h>

#include "base/fail.h"

#define OCT_INFER_PRECISIONS 8

struct oct__infer_time {
    const char *precision;
    char norm[64];
    int batch;
    int n_runs;
    double median, p99;       /* seconds from the images' bytes to the logits of a batch */
    double floor;             /* the median of its products alone */
    uint64_t weight_bytes;    /* parameters and statistics in the form that a batch reads */
    uint64_t workspace_bytes; /* all else, of all threads */
};

/* A kind of operation in a batch, on one thread. */
struct oct__infer_profile_row {
    const char *precision, *op;
    int batch;
    int n_calls;
    double ms, share;
    int is_product;
};

/* What the caller gets as it becomes known; nonzero ends it with CANCELLED. */
struct oct__infer_report {
    void *context;
    int (*row)(const struct oct__infer_time *row, void *context);
    int (*profile)(const struct oct__infer_profile_row *row,
                   void *context); /* NULL: not measured */
    int (*is_stopped)(void *context);
};

struct oct__infer_bench {
    const struct oct_config *config; /* its precision is not looked at */
    const char *precisions[OCT_INFER_PRECISIONS];
    int n_precisions;
    const int *batches;
    int n_batches;
    double seconds; /* for each row */
};

/* For each batch size a row for each precision. The precisions take turns of a few hundredths of a
 * second, so that a noisy machine disturbs all alike. Networks have trained for a few steps, since
 * their quantizers have no ranges before. */
OCT_MUST_CHECK oct_status oct__bench_infer(const struct oct__infer_bench *bench,
                                           const struct oct__infer_report *report);

#endif
