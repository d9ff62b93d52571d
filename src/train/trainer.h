/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - inside of a trainer, for the benchmark and for tests that step by hand. */
#ifndef OCT_TRAIN_TRAINER_H
#define OCT_TRAIN_TRAINER_H

#include <octet/trainer.h>

#include "nn/graph.h"
#include "train/cohort.h"
#include "train/schedule.h"

struct oct_trainer {
    struct oct_hooks hooks;
    struct oct_dataset *owned_train, *owned_test;
    const struct oct_dataset *train, *test;
    uint32_t *rows; /* samples that are used */
    uint32_t n_rows;
    struct oct_graph graph;
    struct oct__engine *engine;
    struct oct__cohort *cohort;
    const struct oct__schedule *schedule;
    int n_nodes, batch, n_epochs;
    double rate;
    int64_t epoch_steps;
    struct oct__node_step *nodes; /* [n_nodes] results of the last step */
    int watches, has_watched;     /* quantizers are watched, and have been */

    int64_t step; /* next to do */
    int epochs_done;
    double epoch_loss; /* summed over samples */
    int64_t epoch_hits, epoch_samples, samples_seen;
    double last_rate;
    double started, seconds, train_seconds, eval_seconds;
    double test_loss, test_accuracy, distance;
    int is_evaluated;
    int64_t evaluated_step; /* the test figures belong to the model after this many steps */
};

/* As oct_trainer_create, with `n_nodes` nodes that do not talk to each other. */
OCT_MUST_CHECK oct_status oct__trainer_create(const struct oct_config *config,
                                              const struct oct_hooks *hooks, int n_nodes,
                                              struct oct_trainer **out);

/* One step of every node. */
OCT_MUST_CHECK oct_status oct__trainer_step(struct oct_trainer *trainer);

#endif
