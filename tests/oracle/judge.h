/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - the results of one operation, held against the oracle's formulas (engine/sim.h).
 *
 *     sums (s32), masked bytes     equal
 *     quantized bytes              equal, unless the number in double lies within BORDER of where the
 *                                  rounding changes: then one step off is an exception, and counted
 *     zero points, steps           the same rule
 *     grids, scales                within SCALE_ERROR of themselves (of a range norm: see uncertainty)
 *     other floats                 within VALUE_ERROR of the largest of their tensor; bf16 as near
 *                                  as its rounding allows
 *
 * Each output is judged given those before it as the engine stored them, so an exception in one does
 * not spread.
 */
#ifndef OCT_TESTS_JUDGE_H
#define OCT_TESTS_JUDGE_H

#include "engine/sim.h"

#define BORDER 0x1p-12
#define SCALE_ERROR 1e-6
#define VALUE_ERROR 1e-5
#define EXCEPTION_SHARE 1e-3

struct verdict {
    long n_elements; /* looked at */
    long n_bytes;    /* quantized ones */
    long n_exceptions, n_wrong;
    double worst_value, worst_scale; /* errors that were accepted */
    char first[320];                 /* what was wrong first */
};

/* Judges all outputs of a call on all nodes of the launch. `args` lie in the host's memory: what is read
 * (i, I, b of ops.def) as it was before the call, what is only written (o, O) as it is after it; `run`
 * are the operands of letter b after the call, NULL for the others. `where` names the call. */
void judge(const struct oct__lane *lane, enum oct__op op, const struct oct__args *args,
           void *const *run, const char *where, struct verdict *verdict);

/* Adds `part` to `sum`. */
void verdict_add(struct verdict *sum, const struct verdict *part);

/* True when nothing is wrong and the exceptions are few. */
int verdict_is_good(const struct verdict *verdict);

#endif
