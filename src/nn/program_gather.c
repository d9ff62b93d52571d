/* SPDX-License-Identifier: Apache-2.0 */
/* program_gather.c - what a step makes of its parameters, all at once at its beginning.
 *
 * In int8 every layer quantizes its parameters where it needs them: some eighty small calls. On a CPU
 * that is best, for they are used while they are in the cache. A GPU would spend more time launching
 * them than computing; where an engine can run calls of an operation together (run_many), they are
 * moved to the front, by operation, and oct__program_run hands them over as one.
 *
 *     vector_quantize a, weight_quantize b, conv, vector_quantize c, …
 *     vector_quantize a, c, … | weight_quantize b, … | conv, …
 */
#include <string.h>

#include "base/alloc.h"
#include "nn/program.h"

/* The number of the group that a call belongs to: its operation; -1: none. */
static int group_of(const struct oct__program *program, const struct oct__program_call *call) {
    const char *operands = oct__op_info[call->op].operands;
    if (!program->engine->run_many[call->op]) {
        return -1;
    }
    for (int i = 0; operands[i]; i++) {
        const int tensor = call->tensors[i];
        if (tensor >= 0 && !strchr("oO", operands[i]) &&
            program->tensors[tensor].home != OCT_HOME_PARAM) {
            return -1;
        }
    }
    return (int)call->op;
}

oct_status oct__program_gather(struct oct__program *program) {
    size_t n = 0, before_backward = 0;
    for (size_t i = 0; i < program->n_backward; i++) { /* the update changes parameters */
        const int is_gathered = group_of(program, &program->calls[i]) >= 0;
        n += (size_t)is_gathered;
        before_backward += is_gathered && i >= program->n_forward;
    }
    if (n == 0) {
        return OCT_OK;
    }
    void *memory;
    OCT_TRY(oct__alloc_array(program->n_calls, sizeof *program->calls, "call list", &memory));
    struct oct__program_call *sorted = memory;
    size_t done = 0;
    for (int op = 0; op <= OCT_OP_COUNT; op++) { /* the last: all that is not gathered */
        for (size_t i = 0; i < program->n_calls; i++) {
            const int group = i < program->n_backward ? group_of(program, &program->calls[i]) : -1;
            if (group == (op < OCT_OP_COUNT ? op : -1)) {
                sorted[done++] = program->calls[i];
            }
        }
    }
    oct__free(program->calls);
    program->calls = sorted;
    program->call_capacity = program->n_calls;
    program->n_gathered = n;
    program->n_forward += before_backward;
    oct__program_find_lives(program);
    return OCT_OK;
}
