/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - an int8 program on an engine, call by call, each 8-bit call judged.
 *
 * The program runs as it would in training, on its own bytes and random bits; before each 8-bit call
 * its operands are read back, after it its results, and the oracle is asked about exactly these. So
 * a difference is found in the call where it arises and does not add up over layers.
 */
#ifndef OCT_TESTS_WALK_H
#define OCT_TESTS_WALK_H

#include "oracle/judge.h"

struct walk_form {
    const char *norm, *recipe;
    int stochastic;    /* values are rounded by chance */
    const char *model; /* NULL: the odd network of walk.c */
};

/* NULL past the end. Good until the next call. */
const struct walk_form *walk_form_at(int index);

/* Two training steps of two nodes, then a batch of evaluation. `verdicts` has OCT_OP_COUNT of them,
 * which are added to. */
void walk(struct oct__engine *engine, const struct walk_form *form, struct verdict *verdicts);

#endif
