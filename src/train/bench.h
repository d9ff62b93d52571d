/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how long a training step takes, against the time of its products alone; where the time
 * goes (profile.h); what it costs in work and memory (cost.h). */
#ifndef OCT_TRAIN_BENCH_H
#define OCT_TRAIN_BENCH_H

#include <stdint.h>

#include <octet/config.h>

#include "train/profile.h"

struct oct__step_time {
    double samples_per_s;       /* whole steps, all nodes together */
    double floor_samples_per_s; /* the same products, without packing, folding and all the rest */
    uint64_t workspace_bytes, state_bytes;
    uint64_t wire_bytes; /* of one node's message, on the wire */
    double gossip_share; /* of the step's time that goes into messages, 0 to 1 */
};

/* Of one node. */
struct oct__step_cost {
    struct oct__cost counted;
    uint64_t used_bytes; /* measured: how far steps write into the work_bytes that are planned */
    uint64_t workspace_bytes; /* planned: work, gradients of parameters, scratch */
    uint64_t state_bytes;     /* parameters, momentum, statistics: floats in every precision */
    /* of a message; when nodes do not talk, of one with all parameters, as floats or bytes */
    uint64_t wire_bytes;
};

/* A benchmark of one configuration. Several are open side by side and run a little at a time, each
 * in its turn, so that a noisy machine disturbs all alike; steps and floors are timed in turn for
 * the same reason. Medians of all rounds are reported. */
struct oct__step_bench;

/* Of `n_runs` side by side, `n_nodes` each. */
OCT_MUST_CHECK oct_status oct__step_bench_open(const struct oct_config *config, int n_nodes,
                                               int n_runs, int with_profile,
                                               struct oct__step_bench **out);

/* About `seconds` more of rounds, one at least. */
OCT_MUST_CHECK oct_status oct__step_bench_run(struct oct__step_bench *bench, double seconds);

/* Further rounds until there are as many as medians need. `profile` (where the benchmark was opened
 * with one) and `cost` may be NULL; the caller finishes a profile. */
OCT_MUST_CHECK oct_status oct__step_bench_report(struct oct__step_bench *bench,
                                                 struct oct__step_time *time,
                                                 struct oct__step_profile *profile,
                                                 struct oct__step_cost *cost);
void oct__step_bench_close(struct oct__step_bench *bench);

/* What a process that trains asks for: a measurement of the process can be held against it. */
struct oct__step_memory {
    uint64_t state_bytes, workspace_bytes;
    uint64_t evaluation_bytes; /* workspace of evaluations, and the weights they keep */
    uint64_t dataset_bytes;
};

typedef void oct__step_memory_fn(const struct oct__step_memory *asked, void *context);

/* Sets a run up, does `n_steps` steps, calls `look` and gives everything back: for a process of its
 * own, whose memory is then looked at. */
OCT_MUST_CHECK oct_status oct__bench_memory(const struct oct_config *config, int n_nodes,
                                            int n_steps, oct__step_memory_fn *look, void *context);

#endif
