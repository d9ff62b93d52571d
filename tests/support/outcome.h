/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - a few training steps on a given engine, and everything they lead to, for comparing
 * engines bit by bit. A trainer opens its engine by name; this drives a cohort on any. */
#ifndef OCT_TESTS_OUTCOME_H
#define OCT_TESTS_OUTCOME_H

#include "train/cohort.h"

enum { OUTCOME_STEPS = 3, OUTCOME_NODES = 4 };

struct run_form {
    const char *model, *data, *norm;
    const char *recipe; /* of int8; NULL: fp32 */
    int n_nodes, n_threads, batch;
};

struct run {
    struct oct_graph graph;
    struct oct_dataset *train, *test;
    struct oct_partition *partition;
    struct oct__cohort *cohort;
};

struct outcome {
    double losses[OUTCOME_STEPS][OUTCOME_NODES], test_loss, test_accuracy, distance;
    float *params; /* of the average model */
    size_t n_params;
};

/* The engine is borrowed. */
void run_open(struct run *run, struct oct__engine *engine, const struct run_form *form);
void run_close(struct run *run);

/* OUTCOME_STEPS steps and an evaluation. */
void run_train(struct run *run, struct outcome *out);

/* Opens, trains, closes, the engine too. */
struct outcome outcome_on(struct oct__engine *engine, const struct run_form *form);

/* Fails the test unless all bits are equal. */
void outcome_compare(const char *name, const struct outcome *found, const struct outcome *expected);
void outcome_free(struct outcome *outcome);

/* An engine of the registry. */
struct oct__engine *plain_engine(const char *name, int n_threads);

#endif
