/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - counts multiply-adds, elements and bytes of a program, and models energy from them. */
#include "train/cost.h"

#include <string.h>

/* --- calls ----------------------------------------------------------------------------------- */

/* Without a default, so that the compiler asks where a new operation belongs. */
enum oct__work oct__work_of(enum oct__op op) {
    switch (op) {
    case OCT_OP_CONV:
    case OCT_OP_CONV_U8:
        return OCT_WORK_FORWARD;
    case OCT_OP_CONV_DGRAD:
    case OCT_OP_CONV_S8_DGRAD:
        return OCT_WORK_DATA_GRADIENT;
    case OCT_OP_CONV_WGRAD:
    case OCT_OP_CONV_U8_WGRAD:
        return OCT_WORK_WEIGHT_GRADIENT;
    case OCT_OP_BATCH_NORM:
    case OCT_OP_BATCH_NORM_EVAL:
    case OCT_OP_GROUP_NORM:
    case OCT_OP_EVONORM:
    case OCT_OP_RANGE_EVONORM:
    case OCT_OP_RANGE_BATCH_NORM:
    case OCT_OP_RANGE_BATCH_NORM_EVAL:
    case OCT_OP_RANGE_EVONORM_U8:
        return OCT_WORK_NORM;
    case OCT_OP_BATCH_NORM_GRAD:
    case OCT_OP_GROUP_NORM_GRAD:
    case OCT_OP_EVONORM_GRAD:
    case OCT_OP_RANGE_EVONORM_GRAD:
    case OCT_OP_RANGE_BATCH_NORM_GRAD:
    case OCT_OP_RANGE_EVONORM_U8_GRAD:
        return OCT_WORK_NORM_GRADIENT;
    case OCT_OP_QUANTIZE:
    case OCT_OP_DEQUANTIZE:
    case OCT_OP_SUMS_QUANTIZE:
    case OCT_OP_SUMS_DEQUANTIZE:
        return OCT_WORK_VALUES;
    case OCT_OP_GRAD_JOIN:
    case OCT_OP_GRAD_QUANTIZE:
    case OCT_OP_GRAD_MASK:
        return OCT_WORK_GRADIENTS;
    case OCT_OP_ADD:
    case OCT_OP_ADD_DEQUANTIZE:
    case OCT_OP_ADD_U8:
        return OCT_WORK_SUM;
    case OCT_OP_WEIGHT_QUANTIZE:
    case OCT_OP_VECTOR_QUANTIZE:
        return OCT_WORK_PARAMETERS;
    case OCT_OP_CLIP:
    case OCT_OP_SGD:
    case OCT_OP_SETTLE:
    case OCT_OP_SLOW:
    case OCT_OP_COPY:
        return OCT_WORK_UPDATE;
    case OCT_OP_BATCH:
        return OCT_WORK_INPUT;
    case OCT_OP_RELU:
    case OCT_OP_RELU_GRAD:
    case OCT_OP_DROPOUT:
    case OCT_OP_MAX_POOL:
    case OCT_OP_MAX_POOL_GRAD:
    case OCT_OP_AVG_POOL:
    case OCT_OP_AVG_POOL_GRAD:
    case OCT_OP_LOSS:
    case OCT_OP_QUANT_COUNT:
    case OCT_OP_PACK:
    case OCT_OP_FOLD:
    case OCT_OP_DIFFERENCE:
    case OCT_OP_AXPY:
    case OCT_OP_MEAN:
    case OCT_OP_NONFINITE:
    case OCT_OP_COUNT:
        return OCT_WORK_REST;
    }
    return OCT_WORK_REST;
}

const char *oct__work_name(enum oct__work work) {
    static const char *const names[OCT_WORK_COUNT] = {
        [OCT_WORK_FORWARD] = "forward",
        [OCT_WORK_DATA_GRADIENT] = "data_gradient",
        [OCT_WORK_WEIGHT_GRADIENT] = "weight_gradient",
        [OCT_WORK_NORM] = "norm",
        [OCT_WORK_NORM_GRADIENT] = "norm_gradient",
        [OCT_WORK_VALUES] = "value_quantizer",
        [OCT_WORK_GRADIENTS] = "gradient_quantizer",
        [OCT_WORK_SUM] = "sum",
        [OCT_WORK_PARAMETERS] = "parameters",
        [OCT_WORK_UPDATE] = "update",
        [OCT_WORK_INPUT] = "input",
        [OCT_WORK_REST] = "rest",
    };
    return names[work];
}

/* Which operands of a product are multiplied, which has an element for each output position and
 * channel, and which the shape of the weights. */
struct product_form {
    int a, b, output, weights;
};

static int product_form(enum oct__op op, struct product_form *form) {
    static const struct {
        enum oct__op op;
        struct product_form form;
    } forms[] = {
        {OCT_OP_CONV, {0, 1, 3, 1}},       {OCT_OP_CONV_U8, {0, 2, 3, 2}},
        {OCT_OP_CONV_DGRAD, {0, 1, 0, 1}}, {OCT_OP_CONV_S8_DGRAD, {0, 1, 0, 1}},
        {OCT_OP_CONV_WGRAD, {0, 1, 1, 2}}, {OCT_OP_CONV_U8_WGRAD, {0, 2, 2, 3}},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(forms); i++) {
        if (forms[i].op == op) {
            *form = forms[i].form;
            return 1;
        }
    }
    return 0;
}

static const struct oct__tensor *operand(const struct oct__program *program,
                                         const struct oct__program_call *call, int index) {
    return &program->tensors[call->tensors[index]].shape;
}

struct oct__call_products oct__call_products(const struct oct__program *program,
                                             const struct oct__program_call *call) {
    struct oct__call_products out = {0, OCT_DTYPE_F32, OCT_DTYPE_F32};
    struct product_form form;
    if (product_form(call->op, &form)) {
        const struct oct__tensor *y = operand(program, call, form.output);
        out.madds = (uint64_t)y->n * (uint64_t)y->h * (uint64_t)y->w *
                    oct__tensor_count(operand(program, call, form.weights));
        out.a = operand(program, call, form.a)->dtype;
        out.b = operand(program, call, form.b)->dtype;
    }
    return out;
}

enum oct__unit oct__products_unit(const struct oct__call_products *products) {
    const enum oct__dtype a = products->a, b = products->b;
    return a == OCT_DTYPE_F32 || b == OCT_DTYPE_F32     ? OCT_UNIT_F32
           : a == OCT_DTYPE_BF16 || b == OCT_DTYPE_BF16 ? OCT_UNIT_BF16
                                                        : OCT_UNIT_S8;
}

/* How often a call moves its operand: 2 where it reads and writes it. */
static uint64_t times_moved(const struct oct__program_call *call, int index) {
    const char letter = oct__op_info[call->op].operands[index];
    const struct oct__args args = {.attr = call->attr};
    if (letter != 'b' && letter != 'B') {
        return 1;
    }
    /* a quantizer's range at evaluation; a momentum that gossip's result changes later */
    return oct__op_only_reads(call->op, &args, index) ||
                   (call->op == OCT_OP_SGD && index == 1 && call->attr.sgd.is_global &&
                    call->attr.sgd.own == 0.0F)
               ? 1
               : 2;
}

uint64_t oct__call_bytes(const struct oct__program *program, const struct oct__program_call *call) {
    const uint64_t n_nodes = (uint64_t)program->form.n_nodes;
    uint64_t bytes = 0;
    for (int i = 0; oct__op_info[call->op].operands[i]; i++) {
        if (call->tensors[i] < 0) {
            continue;
        }
        const struct oct__program_tensor *tensor = &program->tensors[call->tensors[i]];
        struct oct__tensor shape = tensor->shape;
        if (call->tensors[i] == program->images) {
            shape.n = program->batch;
        }
        /* the dataset's table, which all nodes share, is looked up once */
        const int is_shared = tensor->home == OCT_HOME_DATA && call->tensors[i] != program->images;
        bytes += (is_shared ? 1 : n_nodes) * times_moved(call, i) * oct__tensor_bytes(&shape);
    }
    return bytes;
}

uint64_t oct__call_elements(const struct oct__program *program,
                            const struct oct__program_call *call) {
    uint64_t elements = 0;
    if (oct__op_info[call->op].is_product || call->op == OCT_OP_QUANT_COUNT) {
        return 0;
    }
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        const int tensor = call->tensors[i];
        if (tensor >= 0 && program->tensors[tensor].home != OCT_HOME_DATA) {
            elements += oct__tensor_count(&program->tensors[tensor].shape);
        }
    }
    return elements;
}

/* --- energy ---------------------------------------------------------------------------------- */

static int is_byte(enum oct__dtype dtype) {
    return dtype == OCT_DTYPE_U8 || dtype == OCT_DTYPE_S8 || dtype == OCT_DTYPE_E8;
}

double oct__multiply_add_pj(enum oct__dtype a, enum oct__dtype b) {
    if (a == OCT_DTYPE_F32 || b == OCT_DTYPE_F32) {
        return OCT_PJ_F32_MULTIPLY + OCT_PJ_F32_ADD;
    }
    if (a == OCT_DTYPE_BF16 || b == OCT_DTYPE_BF16) {
        return OCT_PJ_F16_MULTIPLY + OCT_PJ_F32_ADD;
    }
    return (is_byte(a) && is_byte(b) ? OCT_PJ_S8_MULTIPLY : OCT_PJ_S32_MULTIPLY) + OCT_PJ_S32_ADD;
}

double oct__multiply_add_least_pj(enum oct__dtype a, enum oct__dtype b) {
    return is_byte(a) && is_byte(b) ? OCT_PJ_S8_MULTIPLY + OCT_PJ_S8_ADD
                                    : oct__multiply_add_pj(a, b);
}

/* --- a program ------------------------------------------------------------------------------- */

static void add_type(struct oct__cost *cost, struct oct__call_products products) {
    for (int i = 0; i < cost->n_types; i++) {
        if (cost->types[i].a == products.a && cost->types[i].b == products.b) {
            cost->types[i].madds += products.madds;
            return;
        }
    }
    if (cost->n_types < OCT_COST_TYPES) {
        cost->types[cost->n_types++] = products;
    }
}

static int makes_parameters(const struct oct__program_call *call) {
    return oct__work_of(call->op) == OCT_WORK_PARAMETERS;
}

/* Parameters as the forward pass reads them: where they are made into bytes, what is made of them. */
static uint64_t count_parameters(const struct oct__program *program) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < program->n_forward; i++) {
        const struct oct__program_call *call = &program->calls[i];
        const enum oct__home home = makes_parameters(call) ? OCT_HOME_WORK : OCT_HOME_PARAM;
        for (int j = 0; j < OCT_ARGS_MOST; j++) {
            const int tensor = call->tensors[j];
            if (tensor >= 0 && program->tensors[tensor].home == home) {
                bytes += oct__tensor_bytes(&program->tensors[tensor].shape);
            }
        }
    }
    return bytes;
}

/* Tensors that something before the loss touches and something after it, too. Parameters are not
 * among them, nor is what the outside reads and writes. */
static uint64_t count_kept(const struct oct__program *program) {
    const int loss = (int)program->n_forward - 1;
    uint64_t bytes = 0;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const struct oct__program_tensor *tensor = &program->tensors[i];
        if (tensor->home == OCT_HOME_WORK && !tensor->is_pinned && tensor->first >= 0 &&
            tensor->first < loss && tensor->last > loss &&
            !makes_parameters(&program->calls[tensor->first])) {
            bytes += oct__tensor_bytes(&tensor->shape);
        }
    }
    return bytes;
}

void oct__cost_count(const struct oct__program *program, struct oct__cost *out) {
    const struct oct__lane_need need = oct__program_need(program);
    memset(out, 0, sizeof *out);
    out->batch = program->batch;
    uint64_t all = 0;
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        const struct oct__call_products products = oct__call_products(program, call);
        out->elements += oct__call_elements(program, call);
        if (products.madds == 0) {
            continue;
        }
        out->madds[oct__work_of(call->op)] += products.madds;
        out->product_pj += (double)products.madds * oct__multiply_add_pj(products.a, products.b);
        if (all == 0) {
            out->least_pj = oct__multiply_add_least_pj(products.a, products.b);
        }
        all += products.madds;
        add_type(out, products);
    }
    out->mean_pj = all > 0 ? out->product_pj / (double)all : 0.0;
    /* Floats in every precision: scaling, norms, rounding, the update. */
    out->element_pj = (double)out->elements * (OCT_PJ_F32_MULTIPLY + OCT_PJ_F32_ADD);
    out->parameter_bytes = count_parameters(program);
    out->kept_bytes = count_kept(program);
    out->work_bytes = need.work_stride;
    out->gradient_bytes = need.grad_stride;
    out->scratch_bytes =
        need.shared_scratch + (uint64_t)program->form.n_threads * need.thread_scratch;
}
