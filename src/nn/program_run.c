/* SPDX-License-Identifier: Apache-2.0 */
/* program_run.c - running a program: resolve each call's tensors, hand it to the engine. */
#include <string.h>

#include "base/clock.h"
#include "nn/layer.h"
#include "nn/program.h"

void *oct__program_at(const struct oct__program *program, const struct oct__bases *bases,
                      int tensor, int node) {
    const struct oct__program_tensor *t = &program->tensors[tensor];
    if (t->home == OCT_HOME_DATA) {
        return tensor == program->images ? bases->images : bases->lut;
    }
    return (char *)bases->at[t->home] + (size_t)node * bases->stride[t->home] + t->offset;
}

static struct oct__tensor resolve(const struct oct__program *program,
                                  const struct oct__bases *bases, int tensor) {
    struct oct__tensor t = program->tensors[tensor].shape;
    t.at = oct__program_at(program, bases, tensor, 0);
    t.stride = bases->stride[program->tensors[tensor].home];
    return t;
}

/* The call whose plan counts: the one for which this one makes what it keeps, or itself. */
static const struct oct__program_call *user_of(const struct oct__program *program,
                                               const struct oct__program_call *call) {
    return call->keeps_for < 0 ? call : &program->calls[call->keeps_for];
}

static struct oct__args args_of(const struct oct__program *program,
                                const struct oct__program_call *call,
                                const struct oct__bases *bases) {
    struct oct__args args;
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        if (call->tensors[i] >= 0) {
            args.t[i] = resolve(program, bases, call->tensors[i]);
        } else {
            memset(&args.t[i], 0, sizeof args.t[i]);
        }
    }
    const struct oct__program_call *user = user_of(program, call);
    args.attr = call->attr;
    args.layer = call->layer;
    args.handle = user->plan.handle;
    args.kept = NULL;
    args.kept_stride = bases->stride[OCT_HOME_KEPT];
    if (user->plan.kept_bytes > 0) {
        args.kept = (char *)bases->at[OCT_HOME_KEPT] + user->kept_at;
    }
    return args;
}

static oct_status run_call(const struct oct__program *program, size_t index,
                           const struct oct__lane *lane, const struct oct__bases *bases) {
    const struct oct__program_call *call = &program->calls[index];
    const struct oct__args args = args_of(program, call, bases);
    return user_of(program, call) == call ? oct__engine_run(lane, call->op, &args)
                                          : lane->engine->keep(lane, call->op, &args);
}

/* How many calls from `index` on, all before `to`, are one for the engine. */
static size_t together(const struct oct__program *program, size_t index, size_t to) {
    const size_t end = to < program->n_gathered ? to : program->n_gathered;
    size_t n = 1;
    while (index + n < end && program->calls[index + n].op == program->calls[index].op) {
        n++;
    }
    return n;
}

/* The most that are handed over at once. */
#define MANY 32

static oct_status run_many(const struct oct__program *program, size_t index, size_t n,
                           const struct oct__lane *lane, const struct oct__bases *bases) {
    const enum oct__op op = program->calls[index].op;
    struct oct__args args[MANY];
    const struct oct__args *list[MANY];
    for (size_t done = 0; done < n;) {
        const size_t left = n - done, count = left < MANY ? left : MANY;
        for (size_t i = 0; i < count; i++, done++) {
            args[i] = args_of(program, &program->calls[index + done], bases);
            list[i] = &args[i];
        }
        OCT_TRY(lane->engine->run_many[op](lane, list, (int)count));
    }
    return OCT_OK;
}

/* Runs `n` calls that are one for the engine. */
static oct_status run_group(const struct oct__program *program, size_t index, size_t n,
                            const struct oct__lane *lane, const struct oct__bases *bases) {
    return n > 1 ? run_many(program, index, n, lane, bases) : run_call(program, index, lane, bases);
}

/* Their time counts for each of them alike. */
static void add_time(const struct oct__profile *profile, size_t index, size_t n, double seconds) {
    for (size_t i = index; i < index + n; i++) {
        profile->seconds[i] += seconds / (double)n;
    }
}

/* The same by the host's clock, for which the engine has to finish. */
static oct_status time_group(const struct oct__program *program, size_t index, size_t n,
                             const struct oct__lane *lane, const struct oct__bases *bases,
                             const struct oct__profile *profile) {
    const double start = oct__seconds();
    OCT_TRY(run_group(program, index, n, lane, bases));
    if (lane->engine->finish) {
        OCT_TRY(lane->engine->finish(lane->engine));
    }
    add_time(profile, index, n, oct__seconds() - start);
    return OCT_OK;
}

/* Calls that look at quantizers run where somebody wants to know. */
static int is_run(const struct oct__program *program, const struct oct__lane *lane, size_t index) {
    return program->calls[index].op != OCT_OP_QUANT_COUNT || lane->watch;
}

static int is_stamped(const struct oct__lane *lane, const struct oct__profile *profile) {
    return profile && lane->engine->stamp;
}

static oct_status run_calls(const struct oct__program *program, const struct oct__lane *lane,
                            const struct oct__bases *bases, size_t from, size_t to,
                            const struct oct__profile *profile) {
    for (size_t i = from, n; i < to; i += n) {
        n = together(program, i, to);
        if (is_run(program, lane, i)) {
            OCT_TRY(profile ? time_group(program, i, n, lane, bases, profile)
                            : run_group(program, i, n, lane, bases));
        }
    }
    return OCT_OK;
}

/* With a stamp before the first call and after each; a stamp's number is that of the next call. */
static oct_status stamp_calls(const struct oct__program *program, const struct oct__lane *lane,
                              const struct oct__bases *bases, size_t from, size_t to) {
    struct oct__engine *engine = lane->engine;
    OCT_TRY(engine->stamp(engine, from));
    for (size_t i = from, n; i < to; i += n) {
        n = together(program, i, to);
        if (is_run(program, lane, i)) {
            OCT_TRY(run_group(program, i, n, lane, bases));
            OCT_TRY(engine->stamp(engine, i + n));
        }
    }
    return OCT_OK;
}

static oct_status read_stamps(const struct oct__program *program, const struct oct__lane *lane,
                              size_t from, size_t to, const struct oct__profile *profile) {
    struct oct__engine *engine = lane->engine;
    size_t last = from;
    OCT_TRY(engine->finish(engine));
    for (size_t i = from, n; i < to; i += n) {
        n = together(program, i, to);
        if (is_run(program, lane, i)) {
            double seconds;
            OCT_TRY(engine->stamped(engine, last, i + n, &seconds));
            add_time(profile, i, n, seconds);
            last = i + n;
        }
    }
    return OCT_OK;
}

/* All that the launches of a piece depend on, but for the lane's step and rate. */
struct piece {
    struct oct__bases bases;
    uint64_t program, from, to, seed;
    const void *seeds;
    void *scratch;
    int64_t first_node, n_nodes, n_each, watch, is_stamped;
};

/* Runs the calls, or has the engine replay them. */
static oct_status run_piece(const struct oct__program *program, const struct oct__lane *lane,
                            const struct oct__bases *bases, size_t from, size_t to,
                            int is_stamped) {
    const struct piece piece = {.bases = *bases,
                                .program = program->number,
                                .from = from,
                                .to = to,
                                .seed = lane->seed,
                                .seeds = lane->seeds,
                                .scratch = lane->shared_scratch,
                                .first_node = lane->first_node,
                                .n_nodes = lane->form.n_nodes,
                                .n_each = lane->n_each,
                                .watch = lane->watch,
                                .is_stamped = is_stamped};
    int is_replayed;
    OCT_TRY(lane->engine->begin(lane, &piece, sizeof piece, &is_replayed));
    if (is_replayed) {
        return OCT_OK;
    }
    return lane->engine->end(lane, is_stamped ? stamp_calls(program, lane, bases, from, to)
                                              : run_calls(program, lane, bases, from, to, NULL));
}

oct_status oct__program_run(const struct oct__program *program, const struct oct__lane *lane,
                            const struct oct__bases *bases, size_t from, size_t to,
                            const struct oct__profile *profile) {
    if (is_stamped(lane, profile)) {
        /* One call is replayed, too: else its time would have the host's for launching it. */
        OCT_TRY(lane->engine->begin ? run_piece(program, lane, bases, from, to, 1)
                                    : stamp_calls(program, lane, bases, from, to));
        return read_stamps(program, lane, from, to, profile);
    }
    if (!lane->engine->begin || profile || to - from < 2) {
        return run_calls(program, lane, bases, from, to, profile);
    }
    return run_piece(program, lane, bases, from, to, 0);
}

oct_status oct__program_run_floor(const struct oct__program *program, const struct oct__lane *lane,
                                  const struct oct__bases *bases,
                                  const struct oct__profile *profile) {
    struct oct__lane bare = *lane;
    bare.bare = 1;
    for (size_t i = program->n_once; i < program->n_calls; i++) {
        if (oct__op_info[program->calls[i].op].is_product) {
            OCT_TRY(profile ? time_group(program, i, 1, &bare, bases, profile)
                            : run_call(program, i, &bare, bases));
        }
    }
    return OCT_OK;
}

/* --- looking for the first NaN ---------------------------------------------------------------- */

/* Node of the launch in which `tensor` has an element that is not finite; -1: none. */
static oct_status search(const struct oct__program *program, const struct oct__lane *lane,
                         const struct oct__bases *bases, struct oct__tensor tensor, int *node,
                         int *count) {
    struct oct__args args;
    memset(&args, 0, sizeof args);
    args.t[0] = tensor;
    args.t[1] = resolve(program, bases, program->flag);
    args.handle = program->search_plan.handle;
    OCT_TRY(oct__engine_run(lane, OCT_OP_NONFINITE, &args));
    *node = -1;
    for (int i = 0; i < lane->form.n_nodes; i++) {
        int32_t found = 0;
        OCT_TRY(program->engine->read(program->engine, &found,
                                      oct__program_at(program, bases, program->flag, i),
                                      sizeof found));
        if (found > 0) {
            *node = i;
            *count = found;
            return OCT_OK;
        }
    }
    return OCT_OK;
}

static oct_status search_params(const struct oct__program *program, const struct oct__lane *lane,
                                const struct oct__bases *bases) {
    const struct oct__row *params = &program->graph->params;
    for (size_t i = 0; i < params->n_items; i++) {
        const struct oct__param *param = &params->items[i];
        struct oct__tensor t = {
            .at = (char *)bases->at[OCT_HOME_PARAM] + param->offset * sizeof(float),
            .stride = bases->stride[OCT_HOME_PARAM],
            .dtype = OCT_DTYPE_F32,
            .n = 1,
            .h = 1,
            .w = 1,
            .c = (int)param->count,
        };
        int node, count;
        OCT_TRY(search(program, lane, bases, t, &node, &count));
        if (node >= 0) {
            OCT_FAIL(NOT_FINITE,
                     "node %d: parameter %s has %d elements that are not finite: an earlier update "
                     "overflowed; lower the learning rate (lr)",
                     lane->first_node + node, param->name, count);
        }
    }
    return OCT_OK;
}

oct_status oct__program_find_nonfinite(const struct oct__program *program,
                                       const struct oct__lane *lane,
                                       const struct oct__bases *bases) {
    OCT_TRY(search_params(program, lane, bases));
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        const char *operands = oct__op_info[call->op].operands;
        OCT_TRY(run_call(program, i, lane, bases));
        for (int j = 0; operands[j]; j++) {
            if (call->tensors[j] < 0 || !strchr("oObB", operands[j])) {
                continue;
            }
            struct oct__tensor t = resolve(program, bases, call->tensors[j]);
            if (t.dtype != OCT_DTYPE_F32) {
                continue;
            }
            int node, count;
            OCT_TRY(search(program, lane, bases, t, &node, &count));
            if (node >= 0) {
                OCT_FAIL(NOT_FINITE,
                         "node %d: layer %s, operation %s: %d of its results are not finite; lower "
                         "the learning rate (lr)",
                         lane->first_node + node,
                         call->layer >= 0 ? program->graph->layers[call->layer].name : "update",
                         oct__op_info[call->op].name, count);
            }
        }
    }
    return OCT_OK;
}

struct oct__lane_need oct__program_need(const struct oct__program *program) {
    size_t nodes = (size_t)program->form.n_nodes, threads = (size_t)program->form.n_threads;
    struct oct__lane_need need = {
        .work_stride = program->work_bytes,
        .grad_stride =
            program->mode == OCT_MODE_TRAIN ? program->graph->params.n_elements * sizeof(float) : 0,
        .shared_scratch = program->shared_scratch_bytes,
        .thread_scratch = program->thread_scratch_bytes,
        .kept_stride = program->kept_bytes,
    };
    need.total_bytes = nodes * (need.work_stride + need.grad_stride) + need.shared_scratch +
                       threads * need.thread_scratch;
    return need;
}
