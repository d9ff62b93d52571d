/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - the engine `sim`: 8-bit operations as sim.h's formulas say, everything else as `portable`.
 *
 * It trains an int8 network in double where the other engines use bytes, kernels and floats, and
 * stores what they store: bytes, grids, sums. Slow on purpose: one element at a time, nothing kept
 * that can be worked out again.
 */
#include "engine/sim.h"

#include "base/alloc.h"
#include "base/parallel.h"

/* --- what there is ----------------------------------------------------------------------------- */

static const struct {
    struct oct__sim_output outputs[OCT_SIM_OUTPUTS];
} formulas[OCT_OP_COUNT] = {
#define VALUE(at, fn)                                                                              \
    { .operand = (at), .form = OCT_SIM_VALUE, .exact = oct__sim_##fn }
#define WHOLE(at, fn)                                                                              \
    { .operand = (at), .form = OCT_SIM_VALUE, .is_whole = 1, .exact = oct__sim_##fn }
#define SCALE(at, fn)                                                                              \
    { .operand = (at), .form = OCT_SIM_VALUE, .is_scale = 1, .exact = oct__sim_##fn }
#define STEPS(at, of, fn)                                                                          \
    { .operand = (at), .form = OCT_SIM_STEPS, .source = (of), .exact = oct__sim_##fn }
#define GRID(at, fn)                                                                               \
    { .operand = (at), .form = OCT_SIM_GRID, .is_scale = 1, .exact = oct__sim_##fn }
#define BYTES(at, on, fn)                                                                          \
    { .operand = (at), .form = OCT_SIM_NEAREST, .source = (on), .exact = oct__sim_##fn }
    [OCT_OP_RANGE_EVONORM] = {{SCALE(4, evonorm_scale), STEPS(5, 4, evonorm_used),
                               VALUE(6, evonorm_y)}},
    [OCT_OP_RANGE_EVONORM_GRAD] = {{VALUE(6, evonorm_dx), VALUE(7, evonorm_dgamma),
                                    VALUE(8, evonorm_dbeta), VALUE(9, evonorm_dv)}},
    [OCT_OP_RANGE_BATCH_NORM] = {{VALUE(5, batch_mean), SCALE(6, batch_scale),
                                  STEPS(7, 6, batch_used), VALUE(8, batch_y),
                                  VALUE(3, batch_run_mean), SCALE(4, batch_run_scale)}},
    [OCT_OP_RANGE_BATCH_NORM_EVAL] = {{VALUE(5, batch_y_eval)}},
    [OCT_OP_RANGE_BATCH_NORM_GRAD] = {{WHOLE(6, batch_dx), VALUE(7, batch_dgamma),
                                       VALUE(8, batch_dbeta)}},
    [OCT_OP_CONV_U8] = {{VALUE(3, conv_u8)}},
    [OCT_OP_CONV_S8_DGRAD] = {{VALUE(2, conv_s8_dgrad)}},
    [OCT_OP_CONV_U8_WGRAD] = {{VALUE(3, conv_u8_wgrad), VALUE(4, conv_u8_wgrad_bias)}},
    [OCT_OP_QUANTIZE] = {{VALUE(1, range), GRID(3, grid), BYTES(2, 3, bytes)}},
    [OCT_OP_DEQUANTIZE] = {{VALUE(2, values)}},
    [OCT_OP_SUMS_QUANTIZE] = {{VALUE(4, range), GRID(6, grid), BYTES(5, 6, bytes)}},
    [OCT_OP_SUMS_DEQUANTIZE] = {{VALUE(4, values)}},
    [OCT_OP_WEIGHT_QUANTIZE] = {{SCALE(2, weight_scale), BYTES(1, 2, weight_bytes)}},
    [OCT_OP_VECTOR_QUANTIZE] = {{STEPS(1, 0, vector)}},
    [OCT_OP_ADD_DEQUANTIZE] = {{VALUE(4, values)}},
    [OCT_OP_ADD_U8] = {{VALUE(4, range), GRID(6, grid), BYTES(5, 6, bytes)}},
    [OCT_OP_RANGE_EVONORM_U8] = {{SCALE(6, evonorm_scale), STEPS(7, 6, evonorm_used),
                                  VALUE(5, range), GRID(9, grid), BYTES(8, 9, bytes)}},
    [OCT_OP_RANGE_EVONORM_U8_GRAD] = {{VALUE(8, evonorm_dx), VALUE(9, evonorm_dgamma),
                                       VALUE(10, evonorm_dbeta), VALUE(11, evonorm_dv)}},
    [OCT_OP_GRAD_JOIN] = {{VALUE(6, gradient)}},
    [OCT_OP_GRAD_QUANTIZE] = {{SCALE(8, gradient_scale), BYTES(7, 8, gradient_bytes)}},
    [OCT_OP_GRAD_MASK] = {{VALUE(3, gradient_mask)}},
    [OCT_OP_QUANT_COUNT] = {{VALUE(2, quant_count)}},
#undef VALUE
#undef WHOLE
#undef SCALE
#undef STEPS
#undef GRID
#undef BYTES
};

const struct oct__sim_output *oct__sim_outputs(enum oct__op op, int *n) {
    const struct oct__sim_output *outputs = formulas[op].outputs;
    *n = 0;
    while (*n < OCT_SIM_OUTPUTS && outputs[*n].exact) {
        ++*n;
    }
    return outputs;
}

enum oct__sim_form oct__sim_form_of(const struct oct__sim_call *call,
                                    const struct oct__sim_output *output) {
    const union oct__attr *attr = &call->args->attr;
    if (output->form == OCT_SIM_STEPS) {
        const int is_norm = call->op != OCT_OP_VECTOR_QUANTIZE;
        return is_norm && !attr->norm.quantize_scale ? OCT_SIM_VALUE : OCT_SIM_STEPS;
    }
    if (output->form != OCT_SIM_NEAREST || call->op == OCT_OP_WEIGHT_QUANTIZE) {
        return output->form;
    }
    const struct oct__quant_attr *quant =
        call->op == OCT_OP_RANGE_EVONORM_U8 ? &attr->norm.quant : &attr->quant;
    const int is_chance = call->op == OCT_OP_GRAD_QUANTIZE ||
                          (quant->stochastic && quant->range != OCT_RANGE_RUNNING);
    return is_chance ? OCT_SIM_CHANCE : OCT_SIM_NEAREST;
}

/* --- storing ----------------------------------------------------------------------------------- */

/* A NaN goes to the lower end, as in every quantizer. */
static double hold(double x, double lo, double hi) {
    return x > lo ? (x < hi ? x : hi) : lo;
}

/* To the nearest upper half of a float, from a float: ties to the even one. */
static uint16_t to_bf16(double x) {
    const float rounded = (float)x;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    if (isnan(x)) {
        return (uint16_t)(bits >> 16 & 0x8000U) | 0x7fc0U;
    }
    const uint32_t rest = bits & 0xffffU, half = 0x8000U;
    bits >>= 16;
    if (rest > half || (rest == half && bits % 2 == 1)) {
        bits++;
    }
    return (uint16_t)bits;
}

static void put(const struct oct__tensor *t, void *at, size_t i, double x) {
    switch (t->dtype) {
    case OCT_DTYPE_F32:
        ((float *)at)[i] = (float)x;
        break;
    case OCT_DTYPE_S32:
        ((int32_t *)at)[i] = (int32_t)x;
        break;
    case OCT_DTYPE_U8:
        ((uint8_t *)at)[i] = (uint8_t)x;
        break;
    case OCT_DTYPE_S8:
        ((int8_t *)at)[i] = (int8_t)x;
        break;
    case OCT_DTYPE_E8:
        ((uint8_t *)at)[i] = (uint8_t)(x + OCT_EXCESS);
        break;
    case OCT_DTYPE_BF16:
        ((uint16_t *)at)[i] = to_bf16(x);
        break;
    case OCT_DTYPE_COUNT:
        break;
    }
}

/* Rounds `n` numbers and stores them from element `first` on. */
static void store(const struct oct__sim_call *call, const struct oct__sim_output *output,
                  size_t first, size_t n, const double *from) {
    const struct oct__tensor *t = oct__sim_tensor(call, output->operand);
    const enum oct__sim_form form = oct__sim_form_of(call, output);
    const int is_value = t->dtype == OCT_DTYPE_U8;
    void *at = oct__sim_at(call, output->operand);
    double lo = 0.0, step = 1.0, zero = 0.0;
    if (form == OCT_SIM_STEPS) {
        oct__sim_steps(call, output->source, &lo, &step);
    } else if (is_value && (form == OCT_SIM_NEAREST || form == OCT_SIM_CHANCE)) {
        zero = oct__sim_get(call, output->source, 2);
    }
    for (size_t i = 0; i < n; i++) {
        double x = from[i];
        if (form == OCT_SIM_GRID && i == 2) {
            x = hold(rint(x), 0.0, 255.0);
        } else if (form == OCT_SIM_STEPS) {
            x = lo + step * rint(x);
        } else if (form == OCT_SIM_NEAREST || form == OCT_SIM_CHANCE) {
            x = (form == OCT_SIM_CHANCE ? floor(x) : rint(x)) + zero;
            x = is_value ? hold(x, 0.0, 255.0) : hold(x, -127.0, 127.0);
        }
        put(t, at, first + i, x);
    }
}

/* --- running ----------------------------------------------------------------------------------- */

struct job {
    struct oct__sim_call call; /* of any node */
    const struct oct__sim_output *output;
    int n_rows;
};

static oct_status run_row(void *context, int item, int worker) {
    const struct job *job = context;
    const struct oct__lane *lane = job->call.lane;
    struct oct__sim_call call = job->call;
    call.node = item / job->n_rows;
    const size_t row = (size_t)(item % job->n_rows);
    const size_t each = oct__sim_row(&call, job->output->operand);
    const size_t n = job->output->is_whole
                         ? oct__tensor_count(oct__sim_tensor(&call, job->output->operand))
                         : each;
    double *numbers =
        (void *)((char *)lane->thread_scratch + (size_t)worker * lane->thread_scratch_bytes);
    job->output->exact(&call, row, numbers);
    store(&call, job->output, row * each, n, numbers);
    return OCT_OK;
}

static oct_status run(enum oct__op op, const struct oct__lane *lane, const struct oct__args *args) {
    int n;
    const struct oct__sim_output *outputs = oct__sim_outputs(op, &n);
    for (int i = 0; i < n; i++) {
        const struct oct__tensor *t = &args->t[outputs[i].operand];
        if (t->n == 0 || oct__op_only_reads(op, args, outputs[i].operand)) {
            continue;
        }
        struct job job = {{op, lane, args, 0}, &outputs[i], outputs[i].is_whole ? 1 : t->n};
        OCT_TRY(
            oct__parallel(lane->form.n_threads, lane->form.n_nodes * job.n_rows, run_row, &job));
    }
    return OCT_OK;
}

#define OCT_OP(name, text, product, operands, summary)                                             \
    static oct_status run_##name(const struct oct__lane *lane, const struct oct__args *args) {     \
        return run(OCT_OP_##name, lane, args);                                                     \
    }
#include "engine/ops.def"
#undef OCT_OP

static oct__op_fn *const operations[OCT_OP_COUNT] = {
#define OCT_OP(name, text, product, operands, summary) run_##name,
#include "engine/ops.def"
#undef OCT_OP
};

/* --- the engine -------------------------------------------------------------------------------- */

struct sim {
    struct oct__engine engine;  /* first, so that a pointer to one is a pointer to the other */
    struct oct__engine *floats; /* `portable`: memory, and all that is not 8-bit */
};

static int is_ours(enum oct__op op) {
    int n;
    oct__sim_outputs(op, &n);
    return n > 0;
}

/* Room for the numbers of the largest row. */
static oct_status sim_prepare(struct oct__engine *engine, enum oct__op op,
                              const struct oct__lane_form *form, const struct oct__args *args,
                              struct oct__plan *plan) {
    int n;
    const struct oct__sim_output *outputs = oct__sim_outputs(op, &n);
    if (n == 0) {
        return oct__engine_prepare(((struct sim *)engine)->floats, op, form, args, plan);
    }
    for (int i = 0; i < n; i++) {
        const struct oct__tensor *t = &args->t[outputs[i].operand];
        const size_t rows = outputs[i].is_whole ? (size_t)t->n : 1;
        const size_t bytes = rows * (size_t)t->h * (size_t)t->w * (size_t)t->c * sizeof(double);
        plan->thread_bytes = bytes > plan->thread_bytes ? bytes : plan->thread_bytes;
    }
    return OCT_OK;
}

static void sim_release(struct oct__engine *engine, enum oct__op op, void *handle) {
    if (!is_ours(op)) {
        oct__engine_release(((struct sim *)engine)->floats, op, handle);
    }
}

static void sim_close(struct oct__engine *engine) {
    oct__engine_close(((struct sim *)engine)->floats);
    oct__free(engine);
}

static oct_status sim_open(const struct oct_engine_kind *kind, int n_threads,
                           struct oct__engine **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct sim), "engine", &memory));
    struct sim *sim = memory;
    oct_status status = oct__engine_open("portable", n_threads, &sim->floats);
    if (status != OCT_OK) {
        oct__free(sim);
        return status;
    }
    struct oct__engine *engine = &sim->engine;
    *engine = *sim->floats;
    engine->kind = kind;
    engine->gradient = OCT_DTYPE_F32;
    engine->prepare = sim_prepare;
    engine->release = sim_release;
    engine->close = sim_close;
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        if (is_ours((enum oct__op)op)) {
            engine->run[op] = operations[op];
        }
    }
    *out = engine;
    return OCT_OK;
}

const struct oct_engine_kind oct_engine_sim = {
    .plugin =
        {
            .name = "sim",
            .summary = "the 8-bit operations in double precision, one element at a time: slow, "
                       "the oracle",
        },
    .is_oracle = 1,
    .open = sim_open,
};
