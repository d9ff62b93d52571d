/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - the 8-bit operations a second time, as formulas in double: what the fast ones are held to.
 *
 * For every output of an operation there is one function that says what each of its elements should
 * be *before it is rounded*. It reads the inputs, and those outputs that come before it in the
 * operation's list, from where they are stored. The engine `sim` asks for the outputs in that order,
 * rounds and stores each. A test runs another engine's operation and asks the same functions about
 * *its* results: an output is judged given the ones before it (a byte given the grid that was
 * stored, the grid given the values), so that a last bit of a grid does not make a thousand bytes
 * wrong; and as nothing is rounded yet, the test sees how near to a border a byte was.
 *
 * Nothing here uses the kernels or the CPU's operations.
 */
#ifndef OCT_ENGINE_SIM_H
#define OCT_ENGINE_SIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/engine.h"

/* One operation on one node. */
struct oct__sim_call {
    enum oct__op op;
    const struct oct__lane *lane;
    const struct oct__args *args; /* in the host's memory */
    int node;                     /* in the launch, from 0 */
};

/* How a number becomes what is stored. */
enum oct__sim_form {
    OCT_SIM_VALUE,   /* the nearest that the operand's type has */
    OCT_SIM_GRID,    /* as it is, but the third number, the zero point, is rounded to 0 … 255 */
    OCT_SIM_STEPS,   /* lo + step * rint(number) */
    OCT_SIM_NEAREST, /* u8: rint(number) + zero, held to 0 … 255; signed: rint(number), to ±127 */
    OCT_SIM_CHANCE,  /* the same with floor: the random share is in the number */
};

/* Fills `to` with row `row` of the output: elements row * h * w * c and so on. Rows do not depend on
 * one another. */
typedef void oct__sim_exact_fn(const struct oct__sim_call *call, size_t row, double *to);

struct oct__sim_output {
    int operand;
    enum oct__sim_form form;
    int source;   /* of NEAREST: the operand with the grid; of STEPS: the one with the vector */
    int is_scale; /* a factor, to be right relative to itself */
    int is_whole; /* row 0 stands for all of them */
    oct__sim_exact_fn *exact;
};

#define OCT_SIM_OUTPUTS 6

/* The outputs of an operation in the order in which they are found; n == 0: not an 8-bit one. */
const struct oct__sim_output *oct__sim_outputs(enum oct__op op, int *n);

/* The output's form in this call: attributes choose between two. */
enum oct__sim_form oct__sim_form_of(const struct oct__sim_call *call,
                                    const struct oct__sim_output *output);

/* The 256 steps between the extremes of a vector. */
void oct__sim_steps(const struct oct__sim_call *call, int operand, double *lo, double *step);

/* --- for the formulas ------------------------------------------------------------------------ */

static inline const struct oct__tensor *oct__sim_tensor(const struct oct__sim_call *call,
                                                        int operand) {
    return &call->args->t[operand];
}

static inline int oct__sim_has(const struct oct__sim_call *call, int operand) {
    return call->args->t[operand].n > 0;
}

/* Elements of a row: of a sample, or of one output's weights. */
static inline size_t oct__sim_row(const struct oct__sim_call *call, int operand) {
    const struct oct__tensor *t = &call->args->t[operand];
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

static inline void *oct__sim_at(const struct oct__sim_call *call, int operand) {
    const struct oct__tensor *t = &call->args->t[operand];
    return (char *)t->at + (size_t)call->node * t->stride;
}

/* Element `i` of an operand of any type. */
static inline double oct__sim_get(const struct oct__sim_call *call, int operand, size_t i) {
    const void *at = oct__sim_at(call, operand);
    uint32_t bits;
    float widened;
    switch (call->args->t[operand].dtype) {
    case OCT_DTYPE_F32:
        return (double)((const float *)at)[i];
    case OCT_DTYPE_S32:
        return (double)((const int32_t *)at)[i];
    case OCT_DTYPE_U8:
        return (double)((const uint8_t *)at)[i];
    case OCT_DTYPE_S8:
        return (double)((const int8_t *)at)[i];
    case OCT_DTYPE_E8:
        return (double)((const uint8_t *)at)[i] - OCT_EXCESS;
    case OCT_DTYPE_BF16:
        bits = (uint32_t)((const uint16_t *)at)[i] << 16;
        memcpy(&widened, &bits, sizeof widened);
        return (double)widened;
    case OCT_DTYPE_COUNT:
        break;
    }
    return 0.0;
}

/* The same where one element may stand for all: scales of tensors, samples and outputs. */
static inline double oct__sim_get_of(const struct oct__sim_call *call, int operand, size_t i) {
    return oct__sim_get(call, operand, oct__tensor_count(&call->args->t[operand]) > 1 ? i : 0);
}

/* scale * (byte - zero) of operand `bytes` with the grid in operand `grid`. */
static inline double oct__sim_dequantize(const struct oct__sim_call *call, int bytes, int grid,
                                         size_t i) {
    const double scale = oct__sim_get(call, grid, 0), zero = oct__sim_get(call, grid, 2);
    return scale * (oct__sim_get(call, bytes, i) - zero);
}

/* Whether the byte says that its value was clipped: 255, or 0 where zero is not at the end. */
static inline int oct__sim_is_clipped(const struct oct__sim_call *call, int bytes, int grid,
                                      size_t i) {
    const double byte = oct__sim_get(call, bytes, i), zero = oct__sim_get(call, grid, 2);
    return byte == 255.0 || (byte == 0.0 && zero > 0.0);
}

/* sim_conv.c */
oct__sim_exact_fn oct__sim_conv_u8, oct__sim_conv_s8_dgrad, oct__sim_conv_u8_wgrad,
    oct__sim_conv_u8_wgrad_bias;

/* sim_quant.c: values to bytes and back; gradients */
oct__sim_exact_fn oct__sim_range, oct__sim_grid, oct__sim_bytes, oct__sim_values,
    oct__sim_weight_scale, oct__sim_weight_bytes, oct__sim_vector, oct__sim_gradient_scale,
    oct__sim_gradient_bytes, oct__sim_gradient, oct__sim_gradient_mask, oct__sim_quant_count;

/* sim_range.c: the range norms */
oct__sim_exact_fn oct__sim_evonorm_scale, oct__sim_evonorm_used, oct__sim_evonorm_y,
    oct__sim_evonorm_dx, oct__sim_evonorm_dgamma, oct__sim_evonorm_dbeta, oct__sim_evonorm_dv,
    oct__sim_batch_mean, oct__sim_batch_scale, oct__sim_batch_used, oct__sim_batch_run_mean,
    oct__sim_batch_run_scale, oct__sim_batch_y, oct__sim_batch_y_eval, oct__sim_batch_dx,
    oct__sim_batch_dgamma, oct__sim_batch_dbeta;

/* The norm's value at one element of a sample, for those who quantize it. */
double oct__sim_evonorm_value(const struct oct__sim_call *call, size_t sample, size_t element);

#endif
