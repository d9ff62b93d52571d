/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - one 8-bit operation with operands made up for it, run on an engine and judged. */
#ifndef OCT_TESTS_TRIAL_H
#define OCT_TESTS_TRIAL_H

#include "oracle/judge.h"

enum { TRIAL_ROUNDS = 30 };

struct trial {
    enum oct__op op;
    struct oct__args args; /* shapes and attributes; addresses are filled in for a run */
    char what[64];         /* "round 3, zeros" */
    void *before[OCT_ARGS_MOST];
};

/* Whether `op` is an 8-bit operation. */
int trial_is_for(enum oct__op op);

/* Operands of round `round`. */
void trial_make(struct trial *trial, enum oct__op op, int round);
void trial_drop(struct trial *trial);

/* Runs it on `engine` and judges what comes out. */
void trial_run(const struct trial *trial, struct oct__engine *engine, struct verdict *verdict);

#endif
