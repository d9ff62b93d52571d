/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how long a training step takes, against the time of its products alone. */
#ifndef OCT_TRAIN_BENCH_H
#define OCT_TRAIN_BENCH_H

#include <stdint.h>

#include <octet/config.h>

#include "base/fail.h"

struct oct__step_time {
    const char *precision;
    double samples_per_s;       /* whole steps, all nodes together */
    double floor_samples_per_s; /* the same products, without packing, folding and all the rest */
    uint64_t workspace_bytes, state_bytes;
    uint64_t wire_bytes; /* of one node's message, on the wire */
    double gossip_share; /* of the step's time that goes into messages, 0 to 1 */
};

/* Time by call; rows come in the order of the step. */
struct oct__step_profile_row {
    const char *layer, *op;
    double ms;    /* a step, summed over the nodes */
    double share; /* of the step */
    int is_product;
};

typedef int oct__step_profile_fn(const struct oct__step_profile_row *row, void *context);

/* Steps and floors are timed in turn, about `seconds` in all, and the medians reported, so that a
 * noisy machine disturbs both alike. `profile_row` may be NULL; nonzero from it stops the rows. */
OCT_MUST_CHECK oct_status oct__bench_step(const struct oct_config *config, int n_nodes,
                                          double seconds, struct oct__step_time *out,
                                          oct__step_profile_fn *profile_row, void *context);

#endif
