/* SPDX-License-Identifier: Apache-2.0 */
/* program_keep.c - what a program need not compute with every batch, because parameters stay.
 *
 * A call that reads parameters alone, or what such calls have made, gives the same every time. Those
 * calls are moved to the front, their results into memory of their own (KEPT), where no later call
 * takes their place. Engines also bring weights into a form that their products read faster, and
 * say so in the plan of a call; that form is kept too, made by a call before the batch that ends
 * the use of the weights themselves:
 *
 *     weight_quantize   w f32 -> q s8             q lives in WORK, until …
 *     keep              q s8  -> packed, KEPT     … here
 *     conv_u8           x, packed -> sums         for every batch
 */
#include <string.h>

#include "base/alloc.h"
#include "nn/program.h"

/* Reads parameters alone. `made_once` says which tensors such calls have written. */
static int is_once(const struct oct__program *program, const struct oct__program_call *call,
                   const char *made_once) {
    const char *operands = oct__op_info[call->op].operands;
    int reads = 0;
    for (int i = 0; operands[i]; i++) {
        const int tensor = call->tensors[i];
        if (tensor < 0 || strchr("oO", operands[i])) {
            continue;
        }
        if (strchr("bB", operands[i]) ||
            (program->tensors[tensor].home != OCT_HOME_PARAM && !made_once[tensor])) {
            return 0;
        }
        reads = 1;
    }
    return reads;
}

static void mark_results(const struct oct__program_call *call, char *made_once) {
    const char *operands = oct__op_info[call->op].operands;
    for (int i = 0; operands[i]; i++) {
        if (call->tensors[i] >= 0 && strchr("oO", operands[i])) {
            made_once[call->tensors[i]] = 1;
        }
    }
}

/* The call that makes what `target` keeps; `target` then does without the operand. */
static struct oct__program_call keep_call(struct oct__program_call *target, size_t index) {
    struct oct__program_call call = {
        .op = target->op, .layer = target->layer, .attr = target->attr, .keeps_for = (int)index};
    const int operand = target->plan.kept_operand;
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        call.tensors[i] = i == operand ? target->tensors[i] : -1;
    }
    target->tensors[operand] = -1;
    return call;
}

/* Marks the calls that are run once; returns how many there will be, with those that keep. */
static size_t mark_calls(const struct oct__program *program, char *made_once, char *once) {
    size_t n = 0;
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        once[i] = (char)is_once(program, call, made_once);
        if (once[i]) {
            mark_results(call, made_once);
        }
        n += once[i] || call->plan.kept_bytes > 0;
    }
    return n;
}

/* In the order they had, so that weights do not wait long for the call that packs them. */
static oct_status sort_calls(struct oct__program *program, const char *once, size_t n_once) {
    size_t early = 0, late = n_once, n_calls = n_once;
    for (size_t i = 0; i < program->n_calls; i++) {
        n_calls += !once[i];
    }
    void *memory;
    OCT_TRY(oct__alloc_array(n_calls, sizeof *program->calls, "call list", &memory));
    struct oct__program_call *sorted = memory;
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        if (once[i]) {
            sorted[early++] = *call;
            continue;
        }
        sorted[late] = *call;
        if (call->plan.kept_bytes > 0) {
            sorted[early++] = keep_call(&sorted[late], late);
        }
        late++;
    }
    oct__free(program->calls);
    program->calls = sorted;
    program->n_calls = program->call_capacity = program->n_forward = n_calls;
    program->n_once = n_once;
    return OCT_OK;
}

void oct__program_find_lives(struct oct__program *program) {
    for (size_t i = 0; i < program->n_tensors; i++) {
        program->tensors[i].first = program->tensors[i].last = -1;
    }
    for (size_t i = 0; i < program->n_calls; i++) {
        for (int j = 0; j < OCT_ARGS_MOST; j++) {
            if (program->calls[i].tensors[j] >= 0) {
                oct__program_touch(program, program->calls[i].tensors[j], (int)i);
            }
        }
    }
}

/* Results that batches read, then what calls keep, one after another. */
static void place_kept(struct oct__program *program) {
    const int n_once = (int)program->n_once;
    for (size_t i = 0; i < program->n_tensors; i++) {
        struct oct__program_tensor *tensor = &program->tensors[i];
        if (tensor->home == OCT_HOME_WORK && !tensor->is_pinned && tensor->first >= 0 &&
            tensor->first < n_once && tensor->last >= n_once) {
            tensor->home = OCT_HOME_KEPT;
            tensor->offset = program->kept_bytes;
            program->kept_bytes += oct__rounded(oct__tensor_bytes(&tensor->shape));
        }
    }
    for (size_t i = program->n_once; i < program->n_calls; i++) {
        program->calls[i].kept_at = program->kept_bytes;
        program->kept_bytes += oct__rounded(program->calls[i].plan.kept_bytes);
    }
}

oct_status oct__program_keep(struct oct__program *program) {
    void *memory;
    OCT_TRY(oct__alloc(program->n_tensors + program->n_calls, "call marks", &memory));
    char *made_once = memory, *once = made_once + program->n_tensors;
    const size_t n_once = mark_calls(program, made_once, once);
    oct_status status = sort_calls(program, once, n_once);
    oct__free(memory);
    if (status == OCT_OK) {
        oct__program_find_lives(program);
        place_kept(program);
    }
    return status;
}

size_t oct__program_weight_bytes(const struct oct__program *program) {
    size_t bytes = program->kept_bytes;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const struct oct__program_tensor *tensor = &program->tensors[i];
        if ((tensor->home == OCT_HOME_PARAM || tensor->home == OCT_HOME_STAT) &&
            tensor->last >= (int)program->n_once) {
            bytes += oct__tensor_bytes(&tensor->shape);
        }
    }
    return bytes;
}
