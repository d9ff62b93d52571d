/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - what a program costs, counted from its calls and tensors: nothing here is timed.
 *
 * Every figure is of one node and one step. Multiply-adds are counted as is usual for convolutions:
 * positions of the output times elements of the weights, taps that fall on the padding included.
 *
 * Energy is modelled, in picojoules at 45 nm (M. Horowitz, "Computing's energy problem", ISSCC 2014):
 *
 *                 f32    16-bit float    s32    8-bit integer
 *     multiply    3.7    1.1             3.1    0.2
 *     add         0.9    0.4             0.1    0.03
 *
 * It is arithmetic alone: fetching operands, which costs more on a real machine, is not in it.
 */
#ifndef OCT_TRAIN_COST_H
#define OCT_TRAIN_COST_H

#include "nn/program.h"

/* What a call works on. */
enum oct__work {
    OCT_WORK_FORWARD, /* products */
    OCT_WORK_DATA_GRADIENT,
    OCT_WORK_WEIGHT_GRADIENT,
    OCT_WORK_PRODUCTS, /* those before it are products */
    OCT_WORK_NORM = OCT_WORK_PRODUCTS,
    OCT_WORK_NORM_GRADIENT,
    OCT_WORK_VALUES,    /* values to bytes and back */
    OCT_WORK_GRADIENTS, /* gradients joined and to bytes */
    OCT_WORK_SUM,
    OCT_WORK_PARAMETERS, /* to bytes */
    OCT_WORK_UPDATE,
    OCT_WORK_INPUT,
    OCT_WORK_REST, /* ReLU, pooling, dropout, loss */
    OCT_WORK_COUNT
};

enum oct__work oct__work_of(enum oct__op op);
const char *oct__work_name(enum oct__work work); /* "weight_gradient" */

/* Multiply-adds of a call, and the types that it multiplies; 0 for what is no product. */
struct oct__call_products {
    uint64_t madds;
    enum oct__dtype a, b;
};

struct oct__call_products oct__call_products(const struct oct__program *program,
                                             const struct oct__program_call *call);

/* The unit that does them: a byte that meets a float is a float. */
enum oct__unit oct__products_unit(const struct oct__call_products *products);

/* Bytes between memory and the engine that no launch of a call can do without, whatever it keeps to
 * itself: of all its nodes every operand read once, every result written once; of the dataset the
 * batch. */
uint64_t oct__call_bytes(const struct oct__program *program, const struct oct__program_call *call);

/* Elements that a call which is no product reads and writes, without the dataset; 0 for products and
 * for calls that only look. */
uint64_t oct__call_elements(const struct oct__program *program,
                            const struct oct__program_call *call);

#define OCT_PJ_F32_MULTIPLY 3.7
#define OCT_PJ_F32_ADD 0.9
#define OCT_PJ_F16_MULTIPLY 1.1
#define OCT_PJ_S32_MULTIPLY 3.1
#define OCT_PJ_S32_ADD 0.1
#define OCT_PJ_S8_MULTIPLY 0.2
#define OCT_PJ_S8_ADD 0.03

/* A multiply-add of two numbers as our products do it: bytes are summed in s32, bf16 (taken for a
 * 16-bit float) and f32 in f32. A byte that meets a float is a float. */
double oct__multiply_add_pj(enum oct__dtype a, enum oct__dtype b);

/* The same with the narrowest sum: that of bytes is 8-bit too. It is what is meant when 8-bit
 * arithmetic is called twenty times cheaper, and no product of ours can use it. */
double oct__multiply_add_least_pj(enum oct__dtype a, enum oct__dtype b);

#define OCT_COST_TYPES 8

struct oct__cost {
    int batch;
    uint64_t madds[OCT_WORK_PRODUCTS];
    struct oct__call_products types[OCT_COST_TYPES]; /* by what is multiplied, in order of use */
    int n_types;
    uint64_t elements;
    uint64_t parameter_bytes; /* as the step computes with them */
    uint64_t kept_bytes;      /* activations that wait for the backward pass */
    uint64_t work_bytes;     /* planned for activations and their gradients together: the most alive
                                 at once, and what the placement loses */
    uint64_t gradient_bytes; /* of parameters */
    uint64_t scratch_bytes;  /* of a lane, all its threads */
    double product_pj, element_pj;
    double least_pj; /* of a forward multiply-add, with the narrowest sum; and a mean one: */
    double mean_pj;
};

/* Of a training program. */
void oct__cost_count(const struct oct__program *program, struct oct__cost *out);

#endif
