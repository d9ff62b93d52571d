/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.h - engines with one mistake each: what a comparison is worth that never failed.
 *
 * A mutant wraps an operation of an engine whose memory the host can read: it changes operands or
 * attributes before the operation, or results after it, as the mistake would have.
 */
#ifndef OCT_TESTS_MUTANTS_H
#define OCT_TESTS_MUTANTS_H

#include "engine/engine.h"

struct mutant {
    const char *name; /* "pad-byte-0" */
    enum oct__op op;
    const char *what;
    oct__op_fn *run;
};

/* NULL past the end. */
const struct mutant *mutant_at(int index);

/* Puts the mutant in its operation's place, for one engine at a time. */
void mutant_install(const struct mutant *mutant, struct oct__engine *engine);

/* Puts in the operation's place one that moves the middle element of operand `operand` of each node
 * by the smallest amount that must be noticed: a step of integers, 1e-4 of the largest float. */
void nudge_install(enum oct__op op, int operand, struct oct__engine *engine);

#endif
