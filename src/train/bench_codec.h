/* SPDX-License-Identifier: Apache-2.0 */
/* bench_codec.h - how long compressors take for a model's parameters, and what they make of them. */
#ifndef OCT_TRAIN_BENCH_CODEC_H
#define OCT_TRAIN_BENCH_CODEC_H

#include <stdint.h>

#include <octet/config.h>

#include "base/fail.h"

struct oct__codec_time {
    const char *name;    /* the compressor, with its options */
    const char *variant; /* pack and fold on the engine; encode and decode on the wire */
    double ns;
    double gb_per_s; /* 10^9 bytes a second of the parameters as floats */
    uint64_t bytes;  /* of the message */
    double ratio;    /* the dense message in floats over it */
};

typedef int oct__codec_row_fn(const struct oct__codec_time *row, void *context);

/* Calls `row` for each compressor (or `only_or_null` alone) and variant; each takes about
 * `seconds_each`. The row of parameters is that of the configuration's model for 32x32x3 images,
 * its values normal. A `row` that returns other than 0 ends it with CANCELLED. */
OCT_MUST_CHECK oct_status oct__bench_codec(const struct oct_config *config,
                                           const char *only_or_null, double seconds_each,
                                           oct__codec_row_fn *row, void *context);

#endif
