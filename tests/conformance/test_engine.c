/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine.c - what every engine owes: each operation of ops.def, on random shapes.
 *
 *   - the same bits on 1, 2 and 3 threads;
 *   - the same bits for three nodes in one launch and for three launches of one node (but for a
 *     mean over nodes);
 *   - within TOLERANCE of `portable`, relative to the largest element of the result (integers and rows
 *     of parameters exactly): engines may sum in another order, and nothing more;
 *   - inputs, the memory between nodes and that beyond the scratch are left alone;
 *   - in place where ops.def allows it, with the same bits.
 *
 * Batches end with a short shard, optional operands are there or not, nodes are further apart than
 * they are large. A new row in engines.def is tested as it stands; a new row in ops.def fails here
 * until `describe` says what its operands look like.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include <octet/cpu.h>

#include "engine/cpu.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/rig.h"

#define TOLERANCE 1e-5

enum { N_NODES = 3, SHARD = 16, ROUNDS = 3, CANARY = 0xA5, GAP = 192 };

/* One call: shapes, attributes and what the buffers hold before it. */
struct call {
    enum oct__op op;
    struct oct__args args; /* shapes; at and stride are filled in by `run` */
    int is_shared[OCT_ARGS_MOST];
    int alias[OCT_ARGS_MOST]; /* operand i lies where operand alias[i] does; -1: on its own */
    uint8_t *before[OCT_ARGS_MOST];
};

/* --- shapes ---------------------------------------------------------------------------------- */

static struct oct__tensor shape(enum oct__dtype dtype, int n, int h, int w, int c) {
    return (struct oct__tensor){.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
}

static struct oct__tensor f32(int n, int h, int w, int c) {
    return shape(OCT_DTYPE_F32, n, h, w, c);
}

static struct oct__tensor vector(int c) {
    return f32(1, 1, 1, c);
}

static struct oct__tensor as(struct oct__tensor t, enum oct__dtype dtype) {
    t.dtype = dtype;
    return t;
}

static const struct oct__tensor absent = {.n = 0};

static int slide(int size, int kernel, int stride, int pad) {
    return (size + 2 * pad - kernel) / stride + 1;
}

/* A convolution's sizes. */
struct conv_shape {
    int kernel, stride, pad, groups, n, h, w, in, out;
};

static void place_conv(struct call *call, const struct conv_shape *s, int has_bias, int is_bf16) {
    struct oct__args *a = &call->args;
    struct oct__tensor x = f32(s->n, s->h, s->w, s->in);
    struct oct__tensor y = f32(s->n, slide(s->h, s->kernel, s->stride, s->pad),
                               slide(s->w, s->kernel, s->stride, s->pad), s->out);
    struct oct__tensor weight = f32(s->out, s->kernel, s->kernel, s->in / s->groups);
    struct oct__tensor bias = has_bias ? vector(s->out) : absent;
    a->attr.conv = (struct oct__conv_attr){s->kernel, s->stride, s->pad, s->groups, 0};
    switch (call->op) {
    case OCT_OP_CONV:
        a->t[0] = x, a->t[1] = weight, a->t[2] = bias, a->t[3] = y;
        break;
    case OCT_OP_CONV_DGRAD:
        a->t[0] = y, a->t[1] = weight, a->t[2] = x;
        break;
    case OCT_OP_CONV_WGRAD:
        a->t[0] = x, a->t[1] = y, a->t[2] = weight, a->t[3] = bias;
        break;
    case OCT_OP_CONV_U8:
        a->t[0] = as(x, OCT_DTYPE_U8), a->t[1] = vector(OCT_GRID);
        a->t[2] = as(weight, OCT_DTYPE_S8), a->t[3] = as(y, OCT_DTYPE_S32);
        break;
    case OCT_OP_CONV_S8_DGRAD:
        a->t[0] = as(y, OCT_DTYPE_E8), a->t[1] = as(weight, OCT_DTYPE_S8);
        a->t[2] = as(x, OCT_DTYPE_S32);
        break;
    default: /* CONV_U8_WGRAD */
        a->t[0] = as(x, OCT_DTYPE_U8), a->t[1] = vector(OCT_GRID);
        a->t[2] = as(y, is_bf16 ? OCT_DTYPE_BF16 : OCT_DTYPE_F32);
        a->t[3] = weight, a->t[4] = bias;
        break;
    }
}

static void describe_conv(struct call *call, struct dice *dice, int n, int h, int w) {
    static const int kernels[] = {1, 3, 5, 3}, groupings[] = {1, 1, 2, 4};
    static const int widths[] = {1, 2, 3, 5, 8, 16};
    const int k = kernels[dice_below(dice, 4)], stride = 1 + dice_below(dice, 2);
    const int pad = k == 1 ? 0 : dice_below(dice, k), groups = groupings[dice_below(dice, 4)];
    const int in = groups * widths[dice_below(dice, 6)], out = groups * widths[dice_below(dice, 6)];
    const int has_bias = dice_below(dice, 2), is_bf16 = dice_below(dice, 2);
    const struct conv_shape s = {k, stride, pad, groups, n, h + k - 1, w + k - 1, in, out};
    place_conv(call, &s, has_bias, is_bf16);
}

/* Windows of rows x columns over a map. */
static void place_pool(struct call *call, struct oct__tensor x, int rows, int columns, int stride,
                       int pad) {
    struct oct__args *a = &call->args;
    struct oct__tensor y =
        f32(x.n, slide(x.h, rows, stride, pad), slide(x.w, columns, stride, pad), x.c);
    struct oct__tensor which = y;
    which.dtype = OCT_DTYPE_U8;
    a->attr.pool.kernel_h = rows;
    a->attr.pool.kernel_w = columns;
    a->attr.pool.stride = stride;
    a->attr.pool.pad = pad;
    switch (call->op) {
    case OCT_OP_MAX_POOL:
        a->t[0] = x, a->t[1] = y, a->t[2] = which;
        break;
    case OCT_OP_MAX_POOL_GRAD:
        a->t[0] = which, a->t[1] = y, a->t[2] = x;
        break;
    case OCT_OP_AVG_POOL:
        a->t[0] = x, a->t[1] = y;
        break;
    default:
        a->t[0] = y, a->t[1] = x;
        break;
    }
}

static void describe_pool(struct call *call, struct dice *dice, int n, int h, int w, int c) {
    const int k = 1 + dice_below(dice, 4), stride = 1 + dice_below(dice, 3);
    const int is_mean = call->op == OCT_OP_AVG_POOL || call->op == OCT_OP_AVG_POOL_GRAD;
    const int is_all = is_mean && dice_below(dice, 3) == 0; /* one window is the whole map */
    const int pad = is_all ? 0 : dice_below(dice, k / 2 + 1);
    h += k;
    w += k;
    c = is_all && dice_below(dice, 2) ? 16 : c;
    const int rows = is_all ? h : k, columns = is_all ? w : k;
    place_pool(call, f32(n, h, w, c), rows, columns, stride, pad);
}

static void describe_norm(struct call *call, struct dice *dice, int n, int h, int w) {
    struct oct__args *a = &call->args;
    const int groups = 1 + dice_below(dice, 4), is_broad = dice_below(dice, 3) == 0;
    const int c = groups * (is_broad ? 4 * (1 + 32 / groups) : 1 + dice_below(dice, 9));
    const int is_batch = call->op <= OCT_OP_BATCH_NORM_GRAD;
    struct oct__tensor x = f32(n, h, w, c), v = vector(c);
    struct oct__tensor s = is_batch ? v : f32(n, 1, 1, groups); /* statistics */
    a->attr.norm.groups = groups;
    a->attr.norm.eps = 1e-5F;
    a->attr.norm.momentum = 0.1F;
    const struct oct__tensor operands[][OCT_ARGS_MOST] = {
        [OCT_OP_BATCH_NORM - OCT_OP_BATCH_NORM] = {x, v, v, v, v, s, s, x},
        [OCT_OP_BATCH_NORM_EVAL - OCT_OP_BATCH_NORM] = {x, v, v, v, v, x},
        [OCT_OP_BATCH_NORM_GRAD - OCT_OP_BATCH_NORM] = {x, v, s, s, x, x, v, v},
        [OCT_OP_GROUP_NORM - OCT_OP_BATCH_NORM] = {x, v, v, s, s, x},
        [OCT_OP_GROUP_NORM_GRAD - OCT_OP_BATCH_NORM] = {x, v, s, s, x, x, v, v},
        [OCT_OP_EVONORM - OCT_OP_BATCH_NORM] = {x, v, v, v, s, s, x},
        [OCT_OP_EVONORM_GRAD - OCT_OP_BATCH_NORM] = {x, v, v, s, s, x, x, v, v, v},
    };
    memcpy(a->t, operands[call->op - OCT_OP_BATCH_NORM], sizeof a->t);
}

static void describe_range(struct call *call, struct dice *dice, int n, int h, int w) {
    struct oct__args *a = &call->args;
    const int groups = 1 + dice_below(dice, 4), c = groups * (1 + dice_below(dice, 9));
    struct oct__tensor x = f32(n, h, w, c), v = vector(c);
    struct oct__tensor s = f32(n, 1, 1, groups); /* scales */
    a->attr.norm.groups = groups;
    a->attr.norm.eps = 1e-5F;
    a->attr.norm.momentum = 0.9F;
    a->attr.norm.quantize_scale = dice_below(dice, 2);
    const struct oct__tensor operands[][OCT_ARGS_MOST] = {
        [OCT_OP_RANGE_EVONORM - OCT_OP_RANGE_EVONORM] = {x, v, v, v, s, s, x},
        [OCT_OP_RANGE_EVONORM_GRAD - OCT_OP_RANGE_EVONORM] = {x, v, v, s, s, x, x, v, v, v},
        [OCT_OP_RANGE_BATCH_NORM - OCT_OP_RANGE_EVONORM] = {x, v, v, v, v, v, v, v, x},
        [OCT_OP_RANGE_BATCH_NORM_EVAL - OCT_OP_RANGE_EVONORM] = {x, v, v, v, v, x},
        [OCT_OP_RANGE_BATCH_NORM_GRAD - OCT_OP_RANGE_EVONORM] = {x, v, v, v, v, x, x, v, v},
    };
    memcpy(a->t, operands[call->op - OCT_OP_RANGE_EVONORM], sizeof a->t);
}

/* Operations that read or write bytes, gradients apart. */
static void describe_quant(struct call *call, struct dice *dice, struct oct__tensor x) {
    struct oct__args *a = &call->args;
    const struct oct__tensor q = as(x, OCT_DTYPE_U8), sums = as(x, OCT_DTYPE_S32);
    const struct oct__tensor grid = vector(OCT_GRID), running = vector(2);
    const struct oct__tensor scale = vector(dice_below(dice, 2) ? x.c : 1); /* of w */
    const struct oct__tensor bias = dice_below(dice, 2) ? vector(x.c) : absent;
    const struct oct__tensor w = f32(x.c, 3, 3, 1 + dice_below(dice, 5));
    const struct oct__quant_attr quant = {.range = (enum oct__range)dice_below(dice, 3),
                                          .stochastic = dice_below(dice, 2)};
    const int groups = x.c % 3 == 0 ? 3 : 1;
    const struct oct__tensor v = vector(x.c), stat = f32(x.n, 1, 1, groups);
    const struct oct__tensor operands[][OCT_ARGS_MOST] = {
        [OCT_OP_QUANTIZE - OCT_OP_QUANTIZE] = {x, running, q, grid},
        [OCT_OP_DEQUANTIZE - OCT_OP_QUANTIZE] = {q, grid, x},
        [OCT_OP_SUMS_QUANTIZE - OCT_OP_QUANTIZE] = {sums, grid, scale, bias, running, q, grid},
        [OCT_OP_SUMS_DEQUANTIZE - OCT_OP_QUANTIZE] = {sums, grid, scale, bias, x},
        [OCT_OP_WEIGHT_QUANTIZE - OCT_OP_QUANTIZE] = {w, as(w, OCT_DTYPE_S8), scale},
        [OCT_OP_VECTOR_QUANTIZE - OCT_OP_QUANTIZE] = {v, v},
        [OCT_OP_ADD_DEQUANTIZE - OCT_OP_QUANTIZE] = {q, grid, q, grid, x},
        [OCT_OP_ADD_U8 - OCT_OP_QUANTIZE] = {q, grid, q, grid, running, q, grid},
        [OCT_OP_RANGE_EVONORM_U8 -
            OCT_OP_QUANTIZE] = {q, grid, v, v, v, running, stat, stat, q, grid},
    };
    memcpy(a->t, operands[call->op - OCT_OP_QUANTIZE], sizeof a->t);
    a->attr.quant = quant;
    if (call->op == OCT_OP_RANGE_EVONORM_U8) {
        a->attr.norm = (struct oct__norm_attr){.groups = groups,
                                               .eps = 1e-5F,
                                               .reach = dice_below(dice, 2) ? 2.0F : 0.0F,
                                               .quantize_scale = dice_below(dice, 2),
                                               .quant = quant};
    }
}

/* Gradients: parts of any type, masked or not. */
static void describe_quant_grad(struct call *call, struct dice *dice, struct oct__tensor x) {
    static const enum oct__dtype types[] = {OCT_DTYPE_F32, OCT_DTYPE_BF16, OCT_DTYPE_S32,
                                            OCT_DTYPE_S8};
    struct oct__args *a = &call->args;
    const struct oct__tensor one = vector(1), each = f32(x.n, 1, 1, 1), grid = vector(OCT_GRID);
    const struct oct__tensor s8 = as(x, OCT_DTYPE_S8), u8 = as(x, OCT_DTYPE_U8);
    const struct oct__tensor out = as(x, dice_below(dice, 2) ? OCT_DTYPE_F32 : OCT_DTYPE_BF16);
    const struct oct__tensor scale = dice_below(dice, 2) ? one : each, v = vector(x.c);
    const int groups = x.c % 3 == 0 ? 3 : 1;
    const struct oct__tensor stat = f32(x.n, 1, 1, groups);
    switch (call->op) {
    case OCT_OP_RANGE_EVONORM_U8_GRAD:
        a->attr.norm = (struct oct__norm_attr){.groups = groups, .eps = 1e-5F};
        a->attr.norm.quant.mask = dice_below(dice, 2);
        memcpy(a->t,
               (struct oct__tensor[OCT_ARGS_MOST]){u8, grid, v, v, stat, stat, s8, scale, out, v, v,
                                                   v},
               sizeof a->t);
        return;
    case OCT_OP_GRAD_MASK:
        a->t[0] = a->t[3] = s8, a->t[1] = u8, a->t[2] = grid;
        return;
    case OCT_OP_QUANT_COUNT:
        a->t[0] = dice_below(dice, 2) ? u8 : dice_below(dice, 2) ? s8 : as(x, OCT_DTYPE_E8);
        a->t[1] = a->t[0].dtype == OCT_DTYPE_U8 ? grid : scale;
        a->t[2] = vector(4);
        return;
    default:
        break;
    }
    for (int part = 0; part < 2; part++) {
        const struct oct__tensor t = as(x, types[dice_below(dice, 4)]);
        const int has_scale = t.dtype == OCT_DTYPE_S32 || t.dtype == OCT_DTYPE_S8;
        if (part == 0 || dice_below(dice, 3)) {
            a->t[2 * part] = t;
            a->t[2 * part + 1] = has_scale ? dice_below(dice, 2) ? one : each : absent;
        }
    }
    if (dice_below(dice, 2)) {
        a->t[4] = u8, a->t[5] = grid;
    }
    if (call->op == OCT_OP_GRAD_JOIN) {
        a->t[6] = out;
    } else {
        a->t[6] = dice_below(dice, 3) == 0 ? absent : dice_below(dice, 2) ? one : v;
        a->t[7] = dice_below(dice, 2) ? s8 : as(x, OCT_DTYPE_E8);
        a->t[8] = scale;
    }
}

static void begin(struct call *call, enum oct__op op) {
    memset(call, 0, sizeof *call);
    call->op = op;
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        call->alias[i] = -1;
    }
}

static void describe(struct call *call, enum oct__op op, struct dice *dice) {
    begin(call, op);
    struct oct__args *a = &call->args;
    static const int batches[] = {1, 16, 19, 37, 5};
    const int n = batches[dice_below(dice, 5)];
    const int h = 1 + dice_below(dice, 5), w = 1 + dice_below(dice, 5), c = 1 + dice_below(dice, 9);
    const struct oct__tensor x = f32(n, h, w, c);
    a->layer = dice_below(dice, 100);
    switch (op) {
    case OCT_OP_BATCH:
        a->t[0] = shape(OCT_DTYPE_U8, 11, h, w, 1 + c % 4);
        a->t[1] = shape(OCT_DTYPE_S32, n, 1, 1, 5);
        a->t[2] = f32(1, 1, 4, 256);
        a->t[3] = f32(n, h, w, 1 + c % 4);
        a->t[4] = shape(OCT_DTYPE_S32, n, 1, 1, 1);
        call->is_shared[0] = call->is_shared[2] = 1;
        break;
    case OCT_OP_CONV:
    case OCT_OP_CONV_DGRAD:
    case OCT_OP_CONV_WGRAD:
    case OCT_OP_CONV_U8:
    case OCT_OP_CONV_S8_DGRAD:
    case OCT_OP_CONV_U8_WGRAD:
        describe_conv(call, dice, n, h, w);
        break;
    case OCT_OP_RELU:
        a->t[0] = a->t[1] = x;
        break;
    case OCT_OP_RELU_GRAD:
    case OCT_OP_ADD:
        a->t[0] = a->t[1] = a->t[2] = x;
        break;
    case OCT_OP_DROPOUT:
        a->t[0] = a->t[1] = x;
        a->attr.dropout.rate = 0.1F * (float)dice_below(dice, 10);
        break;
    case OCT_OP_MAX_POOL:
    case OCT_OP_MAX_POOL_GRAD:
    case OCT_OP_AVG_POOL:
    case OCT_OP_AVG_POOL_GRAD:
        describe_pool(call, dice, n, h, w, c);
        break;
    case OCT_OP_BATCH_NORM:
    case OCT_OP_BATCH_NORM_EVAL:
    case OCT_OP_BATCH_NORM_GRAD:
    case OCT_OP_GROUP_NORM:
    case OCT_OP_GROUP_NORM_GRAD:
    case OCT_OP_EVONORM:
    case OCT_OP_EVONORM_GRAD:
        describe_norm(call, dice, n, h, w);
        break;
    case OCT_OP_RANGE_EVONORM:
    case OCT_OP_RANGE_EVONORM_GRAD:
    case OCT_OP_RANGE_BATCH_NORM:
    case OCT_OP_RANGE_BATCH_NORM_EVAL:
    case OCT_OP_RANGE_BATCH_NORM_GRAD:
        describe_range(call, dice, n, h, w);
        break;
    case OCT_OP_QUANTIZE:
    case OCT_OP_DEQUANTIZE:
    case OCT_OP_SUMS_QUANTIZE:
    case OCT_OP_SUMS_DEQUANTIZE:
    case OCT_OP_WEIGHT_QUANTIZE:
    case OCT_OP_VECTOR_QUANTIZE:
    case OCT_OP_ADD_DEQUANTIZE:
    case OCT_OP_ADD_U8:
    case OCT_OP_RANGE_EVONORM_U8:
        describe_quant(call, dice, x);
        break;
    case OCT_OP_RANGE_EVONORM_U8_GRAD:
    case OCT_OP_GRAD_JOIN:
    case OCT_OP_GRAD_QUANTIZE:
    case OCT_OP_GRAD_MASK:
    case OCT_OP_QUANT_COUNT:
        describe_quant_grad(call, dice, x);
        break;
    case OCT_OP_LOSS:
        a->t[0] = f32(n, 1, 1, 2 + c);
        a->t[1] = shape(OCT_DTYPE_S32, n, 1, 1, 1);
        a->t[2] = a->t[3] = f32(n, 1, 1, 1);
        a->t[4] = dice_below(dice, 2) ? a->t[0] : absent;
        break;
    case OCT_OP_CLIP: /* a piece or many; norms of 70 to 430, and of 0.7 to 4.3 (fill) */
        a->t[0] = vector(n * 5000 + dice_below(dice, 5));
        a->attr.clip.norm = (double[]){1e-3, 40.0, 1e6}[dice_below(dice, 3)];
        break;
    case OCT_OP_SGD: /* longer than the pieces that threads share */
        a->t[0] = a->t[1] = a->t[2] = vector(n * 1000);
        a->attr.sgd.beta = 0.9F;
        a->attr.sgd.decay = 0.01F;
        a->attr.sgd.is_global = dice_below(dice, 2);
        a->attr.sgd.own = a->attr.sgd.is_global && dice_below(dice, 2) ? 0.05F : 0.0F;
        break;
    case OCT_OP_DIFFERENCE:
        a->t[0] = a->t[1] = a->t[2] = vector(n * 1000);
        break;
    case OCT_OP_AXPY:
        a->t[0] = a->t[1] = vector(n * 1000);
        a->attr.row.factor = 0.1F * (float)(dice_below(dice, 20) - 10);
        break;
    case OCT_OP_SETTLE:
        a->t[0] = a->t[2] = vector(n * 1000);
        a->t[1] = vector(1);
        a->t[3] = dice_below(dice, 2) ? a->t[0] : absent;
        a->attr.settle.beta = 0.9F;
        a->attr.settle.share = 0.1;
        break;
    case OCT_OP_SLOW:
        a->t[0] = a->t[1] = a->t[2] = vector(n * 1000 + dice_below(dice, 5));
        a->attr.slow.beta = 0.9F;
        a->attr.slow.rate = 0.7;
        break;
    case OCT_OP_COPY:
        a->t[0] = a->t[1] = vector(n * 1000 + dice_below(dice, 5));
        break;
    case OCT_OP_MEAN:
        a->t[0] = vector(n * 1000);
        break;
    case OCT_OP_NONFINITE:
        a->t[0] = x;
        a->t[1] = shape(OCT_DTYPE_S32, 1, 1, 1, 1);
        break;
    case OCT_OP_PACK: /* test_compressor.c's: a packet is no tensor of any bytes */
    case OCT_OP_FOLD:
    case OCT_OP_COUNT:
        break;
    }
    if (a->t[0].n == 0) {
        fail_msg("%s: test_engine.c does not know its operands", oct__op_info[op].name);
    }
}

/* --- values ---------------------------------------------------------------------------------- */

static size_t stride_of(const struct oct__tensor *t) {
    return (oct__tensor_bytes(t) + 63) / 64 * 64 + GAP;
}

static size_t buffer_bytes(const struct call *call, int i) {
    const struct oct__tensor *t = &call->args.t[i];
    return call->is_shared[i] ? oct__tensor_bytes(t) : N_NODES * stride_of(t);
}

/* Integers that mean something: which sample, which class, which place in a window. */
static void fill_integers(const struct call *call, int i, struct dice *dice, void *to) {
    const struct oct__args *a = &call->args;
    const size_t n = oct__tensor_count(&a->t[i]);
    int32_t *words = to;
    uint16_t *halves = to;
    uint8_t *bytes = to;
    for (size_t j = 0; j < n; j++) {
        if (call->op == OCT_OP_BATCH && i == 0) {
            bytes[j] = (uint8_t)dice_below(dice, 256);
        } else if (call->op == OCT_OP_BATCH) {
            static const int range[5] = {11, 9, 9, 2, 10}, least[5] = {0, -4, -4, 0, 0};
            words[j] = dice_below(dice, range[j % 5]) + least[j % 5];
        } else if (call->op == OCT_OP_LOSS) {
            words[j] = dice_below(dice, a->t[0].c + 1) - 1;
        } else if (a->t[i].dtype == OCT_DTYPE_S32) {
            words[j] = dice_below(dice, 200001) - 100000;
        } else if (a->t[i].dtype == OCT_DTYPE_BF16) { /* ±0.5 … 2 */
            halves[j] = (uint16_t)(0x3f00 + dice_below(dice, 256) + 0x8000 * dice_below(dice, 2));
        } else if (call->op >= OCT_OP_CONV_U8 && call->op <= OCT_OP_QUANT_COUNT) {
            bytes[j] = (uint8_t)dice_below(dice, 256);
        } else { /* MAX_POOL_GRAD: place 0 exists in every window */
            bytes[j] = 0;
        }
    }
}

/* Operands that cannot be just any floats: + must be positive (deviations, variances, scales), g is
 * a grid. */
static const char *const meanings[OCT_OP_COUNT] = {
    [OCT_OP_BATCH_NORM] = "....+",
    [OCT_OP_BATCH_NORM_EVAL] = "....+",
    [OCT_OP_BATCH_NORM_GRAD] = "...+",
    [OCT_OP_GROUP_NORM_GRAD] = "...+",
    [OCT_OP_EVONORM_GRAD] = "....+",
    [OCT_OP_RANGE_EVONORM_GRAD] = "...++",
    [OCT_OP_RANGE_BATCH_NORM] = "....+",
    [OCT_OP_RANGE_BATCH_NORM_EVAL] = "....+",
    [OCT_OP_RANGE_BATCH_NORM_GRAD] = "...++",
    [OCT_OP_CONV_U8] = ".g",
    [OCT_OP_CONV_U8_WGRAD] = ".g",
    [OCT_OP_DEQUANTIZE] = ".g",
    [OCT_OP_SUMS_QUANTIZE] = ".g+",
    [OCT_OP_SUMS_DEQUANTIZE] = ".g+",
    [OCT_OP_ADD_DEQUANTIZE] = ".g.g",
    [OCT_OP_ADD_U8] = ".g.g",
    [OCT_OP_RANGE_EVONORM_U8] = ".g",
    [OCT_OP_RANGE_EVONORM_U8_GRAD] = ".g..++.+",
    [OCT_OP_GRAD_JOIN] = ".+.+.g",
    [OCT_OP_GRAD_QUANTIZE] = ".+.+.g+",
    [OCT_OP_GRAD_MASK] = "..g",
    [OCT_OP_QUANT_COUNT] = ".g",
    [OCT_OP_SETTLE] = ".+",
};

static char meaning_of(const struct call *call, int i) {
    const char *letters = meanings[call->op];
    char letter = letters && (size_t)i < strlen(letters) ? letters[i] : '.';
    /* QUANT_COUNT has a grid for u8, scales for s8 and e8. */
    return letter == 'g' && call->args.t[i].c != OCT_GRID ? '+' : letter;
}

static void fill(struct call *call, struct dice *dice) {
    const char *operands = oct__op_info[call->op].operands;
    for (int i = 0; operands[i]; i++) {
        const struct oct__tensor *t = &call->args.t[i];
        if (t->n == 0) {
            continue;
        }
        call->before[i] = malloc(buffer_bytes(call, i));
        assert_non_null(call->before[i]);
        memset(call->before[i], CANARY, buffer_bytes(call, i));
        if (operands[i] == 'o' || operands[i] == 'O') {
            continue;
        }
        for (int node = 0; node < (call->is_shared[i] ? 1 : N_NODES); node++) {
            void *to = call->before[i] + (size_t)node * stride_of(t);
            float *values = to;
            if (t->dtype != OCT_DTYPE_F32) {
                fill_integers(call, i, dice, to);
                continue;
            }
            if (meaning_of(call, i) == 'g') {
                float scale = 0.01F + 0.001F * (float)dice_below(dice, 20);
                const float grid[OCT_GRID] = {scale, 1 / scale, (float)(85 * dice_below(dice, 4))};
                memcpy(values, grid, sizeof grid);
                continue;
            }
            for (size_t j = 0; j < oct__tensor_count(t); j++) {
                double v = dice_normal(dice);
                values[j] = (float)(meaning_of(call, i) == '+' ? 0.3 + fabs(v) : v);
                if (call->op == OCT_OP_CLIP && node == 1) { /* one is shortened, one is not */
                    values[j] *= 0.01F;
                }
                if (call->op == OCT_OP_MAX_POOL && j % 3 > 0) { /* equals, among them 0 and -0 */
                    values[j] = rintf(values[j]);
                }
                if (call->op == OCT_OP_NONFINITE && j % 7 == (size_t)node) {
                    values[j] = j % 2 ? NAN : -INFINITY;
                }
            }
        }
    }
}

static void empty(struct call *call) {
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        free(call->before[i]);
        call->before[i] = NULL;
    }
}

/* The places that a max pool of the same shape found, for its gradient. */
static void fill_which(struct call *call, struct dice *dice) {
    struct oct__args *a = &call->args;
    for (int node = 0; node < N_NODES; node++) {
        uint8_t *to = call->before[0] + (size_t)node * stride_of(&a->t[0]);
        const int k = a->attr.pool.kernel_h, stride = a->attr.pool.stride, pad = a->attr.pool.pad;
        size_t j = 0;
        for (int n = 0; n < a->t[0].n; n++) {
            for (int row = 0; row < a->t[0].h; row++) {
                for (int column = 0; column < a->t[0].w; column++) {
                    int top = row * stride - pad, left = column * stride - pad;
                    int bottom = top + k < a->t[2].h ? top + k : a->t[2].h;
                    int right = left + k < a->t[2].w ? left + k : a->t[2].w;
                    int area = (bottom - (top > 0 ? top : 0)) * (right - (left > 0 ? left : 0));
                    for (int c = 0; c < a->t[0].c; c++) {
                        to[j++] = (uint8_t)dice_below(dice, area);
                    }
                }
            }
        }
    }
}

/* --- running --------------------------------------------------------------------------------- */

struct result {
    uint8_t *after[OCT_ARGS_MOST];
};

/* Runs the call for nodes `first` … `first` + `n_nodes` - 1 of it, in one launch. */
static oct_status run(struct oct__engine *engine, const struct call *call, int first, int n_nodes,
                      int n_threads, struct result *result) {
    const char *operands = oct__op_info[call->op].operands;
    struct oct__args args = call->args;
    struct oct__lane lane = {
        .engine = engine,
        .form = {n_nodes, n_threads, SHARD},
        .first_node = 20 + first,
        .seed = 9,
        .step = 4,
        .learning_rate = 0.05F,
    };
    struct oct__plan plan;
    void *at[OCT_ARGS_MOST] = {NULL}, *scratch = NULL;
    EXPECT_OK(oct__engine_prepare(engine, call->op, &lane.form, &args, &plan));
    args.handle = plan.handle;
    const size_t shared = (plan.shared_bytes + 63) / 64 * 64;
    lane.thread_scratch_bytes = (plan.thread_bytes + 63) / 64 * 64;
    const size_t scratch_bytes = shared + (size_t)n_threads * lane.thread_scratch_bytes;
    uint8_t beyond[GAP];
    memset(beyond, CANARY, sizeof beyond);
    EXPECT_OK(engine->alloc(engine, scratch_bytes + GAP, "scratch", &scratch));
    EXPECT_OK(engine->write(engine, (char *)scratch + scratch_bytes, beyond, GAP));
    lane.shared_scratch = scratch;
    lane.thread_scratch = (char *)scratch + shared;
    for (int i = 0; operands[i]; i++) {
        struct oct__tensor *t = &args.t[i];
        if (t->n == 0) {
            continue;
        }
        int from = call->alias[i] >= 0 ? call->alias[i] : i;
        if (from == i) {
            EXPECT_OK(engine->alloc(engine, buffer_bytes(call, i), "operand", &at[i]));
            EXPECT_OK(engine->write(engine, at[i], call->before[i], buffer_bytes(call, i)));
        }
        t->stride = call->is_shared[i] ? 0 : stride_of(t);
        t->at = (char *)at[from] + (size_t)first * t->stride;
    }
    oct_status status = oct__engine_run(&lane, call->op, &args);
    if (status == OCT_OK && engine->finish) {
        status = engine->finish(engine);
    }
    for (int i = 0; operands[i]; i++) {
        if (at[i]) {
            result->after[i] = malloc(buffer_bytes(call, i));
            assert_non_null(result->after[i]);
            EXPECT_OK(engine->read(engine, result->after[i], at[i], buffer_bytes(call, i)));
        }
    }
    for (int i = 0; operands[i]; i++) {
        if (at[i]) {
            engine->free(engine, at[i]);
        }
    }
    EXPECT_OK(engine->read(engine, beyond, (char *)scratch + scratch_bytes, GAP));
    for (size_t i = 0; i < GAP; i++) {
        if (beyond[i] != CANARY) {
            fail_msg("%s, %s: wrote to byte %zu beyond its scratch of %zu",
                     engine->kind->plugin.name, oct__op_info[call->op].name, i, scratch_bytes);
        }
    }
    engine->free(engine, scratch);
    oct__engine_release(engine, call->op, plan.handle);
    return status;
}

static void discard(struct result *result) {
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        free(result->after[i]);
        result->after[i] = NULL;
    }
}

/* --- comparing ------------------------------------------------------------------------------- */

static int is_written(const struct call *call, int i) {
    const char letter = oct__op_info[call->op].operands[i];
    if (letter != 'i' && letter != 'I') {
        return 1;
    }
    for (int j = 0; oct__op_info[call->op].operands[j]; j++) {
        if (call->alias[j] == i) {
            return 1;
        }
    }
    return 0;
}

/* Inputs, gaps and the nodes that were not launched hold what they held. */
static void check_untouched(const char *who, const struct call *call, const struct result *result,
                            int first, int n_nodes) {
    for (int i = 0; oct__op_info[call->op].operands[i]; i++) {
        if (!result->after[i]) {
            continue;
        }
        const size_t stride = stride_of(&call->args.t[i]);
        const size_t bytes = oct__tensor_bytes(&call->args.t[i]);
        for (size_t j = 0; j < buffer_bytes(call, i); j++) {
            int node = (int)(j / stride), inside = j % stride < bytes;
            int may_change =
                is_written(call, i) && inside && node >= first && node < first + n_nodes;
            if (!may_change && result->after[i][j] != call->before[i][j]) {
                fail_msg("%s, %s: byte %zu of operand %d (node %d, %s) became %d from %d", who,
                         oct__op_info[call->op].name, j, i, node, inside ? "inside" : "the gap",
                         result->after[i][j], call->before[i][j]);
            }
        }
    }
}

static int place_of(const struct call *call, int i) {
    return call->alias[i] >= 0 ? call->alias[i] : i;
}

/* The written operands of one node, bit by bit. `plain` has no operand in another's place. */
static void check_bits(const char *who, const char *why, const struct call *call,
                       const struct result *found, const struct result *plain, int node) {
    const char *operands = oct__op_info[call->op].operands;
    for (int i = 0; operands[i]; i++) {
        const struct oct__tensor *t = &call->args.t[i];
        if (t->n == 0 || operands[i] == 'i' || operands[i] == 'I') {
            continue;
        }
        const uint8_t *a = found->after[place_of(call, i)] + (size_t)node * stride_of(t);
        const uint8_t *b = plain->after[i] + (size_t)node * stride_of(t);
        if (memcmp(a, b, oct__tensor_bytes(t)) != 0) {
            size_t j = 0;
            while (a[j] == b[j]) {
                j++;
            }
            float x, y;
            memcpy(&x, a + j / 4 * 4, sizeof x);
            memcpy(&y, b + j / 4 * 4, sizeof y);
            fail_msg("%s, %s: %s: operand %d, node %d: %.9g and %.9g at element %zu", who,
                     oct__op_info[call->op].name, why, i, node, (double)x, (double)y, j / 4);
        }
    }
}

/* The largest error over all written operands and nodes, relative to each one's largest element. */
/* Rows of parameters and max pools have the same bits on every engine: ops.def says in which order
 * all is done. */
static int is_exact(enum oct__op op) {
    return op == OCT_OP_CLIP || op == OCT_OP_SGD || op == OCT_OP_DIFFERENCE || op == OCT_OP_AXPY ||
           op == OCT_OP_SETTLE || op == OCT_OP_SLOW || op == OCT_OP_COPY || op == OCT_OP_MEAN ||
           op == OCT_OP_MAX_POOL || op == OCT_OP_MAX_POOL_GRAD;
}

static double largest_error(const char *who, const struct call *call, const struct result *found,
                            const struct result *expected) {
    const char *operands = oct__op_info[call->op].operands;
    double worst = 0.0;
    for (int i = 0; operands[i]; i++) {
        const struct oct__tensor *t = &call->args.t[i];
        if (t->n == 0 || operands[i] == 'i' || operands[i] == 'I') {
            continue;
        }
        for (int node = 0; node < N_NODES; node++) {
            const void *a = found->after[i] + (size_t)node * stride_of(t);
            const void *b = expected->after[i] + (size_t)node * stride_of(t);
            const float *x = a, *y = b;
            double scale = DBL_MIN;
            if (t->dtype != OCT_DTYPE_F32) {
                if (memcmp(a, b, oct__tensor_bytes(t)) != 0) {
                    fail_msg("%s, %s: operand %d, node %d differs from portable's", who,
                             oct__op_info[call->op].name, i, node);
                }
                continue;
            }
            for (size_t j = 0; j < oct__tensor_count(t); j++) {
                scale = fmax(scale, fabs((double)y[j]));
            }
            for (size_t j = 0; j < oct__tensor_count(t); j++) {
                double error = fabs((double)x[j] - (double)y[j]) / scale;
                if (!(error <= (is_exact(call->op) ? 0.0 : TOLERANCE))) {
                    fail_msg("%s, %s: operand %d, node %d, element %zu is %.9g, portable's %.9g",
                             who, oct__op_info[call->op].name, i, node, j, (double)x[j],
                             (double)y[j]);
                }
                worst = fmax(worst, error);
            }
        }
    }
    return worst;
}

/* --- the tests ------------------------------------------------------------------------------- */

/* The engines of the registry, then the one that has only memory. */
static struct oct__engine *engine_at(int index, int n_threads) {
    struct oct__engine *engine = rig_engine_at(index, n_threads);
    if (!engine && (index == 0 || (engine = rig_engine_at(index - 1, n_threads)))) {
        oct__engine_close(engine);
        engine = NULL;
        EXPECT_OK(hollow_open(n_threads, &engine));
    }
    return engine;
}

static void check_in_place(const char *who, struct oct__engine *engine, struct call *call,
                           const struct result *plain) {
    const int is_sum = call->op == OCT_OP_ADD || call->op == OCT_OP_DIFFERENCE;
    for (int to = 0; call->op == OCT_OP_RELU ? to < 1 : is_sum && to < 2; to++) {
        struct result found = {{NULL}};
        call->alias[call->op == OCT_OP_RELU ? 1 : 2] = to;
        EXPECT_OK(run(engine, call, 0, N_NODES, 1, &found));
        check_untouched(who, call, &found, 0, N_NODES);
        for (int node = 0; node < N_NODES; node++) {
            check_bits(who, "in place", call, &found, plain, node);
        }
        discard(&found);
        call->alias[call->op == OCT_OP_RELU ? 1 : 2] = -1;
    }
}

static double check_call(int index, struct call *call, const struct result *expected) {
    struct oct__engine *engine = engine_at(index, 1);
    const char *who = engine->kind->plugin.name;
    struct result one = {{NULL}};
    EXPECT_OK(run(engine, call, 0, N_NODES, 1, &one));
    check_untouched(who, call, &one, 0, N_NODES);
    double error = engine->kind->is_oracle ? 0 : largest_error(who, call, &one, expected);
    for (int node = 0; call->op != OCT_OP_MEAN && node < N_NODES; node++) {
        struct result alone = {{NULL}};
        EXPECT_OK(run(engine, call, node, 1, 1, &alone));
        check_untouched(who, call, &alone, node, 1);
        check_bits(who, "a launch of its own", call, &alone, &one, node);
        discard(&alone);
    }
    check_in_place(who, engine, call, &one);
    oct__engine_close(engine);
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        struct result more = {{NULL}};
        struct oct__engine *wide = engine_at(index, n_threads);
        EXPECT_OK(run(wide, call, 0, N_NODES, n_threads, &more));
        check_untouched(who, call, &more, 0, N_NODES);
        for (int node = 0; node < N_NODES; node++) {
            check_bits(who, n_threads == 2 ? "2 threads" : "3 threads", call, &more, &one, node);
        }
        discard(&more);
        oct__engine_close(wide);
    }
    discard(&one);
    return error;
}

/* The call on every engine, against portable's; the largest error. */
static double check_engines(struct call *call, struct dice *dice) {
    double worst = 0.0;
    struct result expected = {{NULL}};
    struct oct__engine *portable = NULL, *engine;
    fill(call, dice);
    if (call->op == OCT_OP_MAX_POOL_GRAD) {
        fill_which(call, dice);
    }
    EXPECT_OK(oct__engine_open("portable", 1, &portable));
    EXPECT_OK(run(portable, call, 0, N_NODES, 1, &expected));
    oct__engine_close(portable);
    for (int i = 0; (engine = engine_at(i, 1)); i++) {
        oct__engine_close(engine);
        worst = fmax(worst, check_call(i, call, &expected));
    }
    discard(&expected);
    empty(call);
    return worst;
}

static void every_operation(void **state) {
    (void)state;
    int n_engines = 0;
    for (struct oct__engine *engine; (engine = engine_at(n_engines, 1)); n_engines++) {
        print_message("engine %d: %s\n", n_engines, engine->kind->plugin.name);
        oct__engine_close(engine);
    }
    assert_true(n_engines >= 2);
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        if (op == OCT_OP_PACK || op == OCT_OP_FOLD) {
            continue;
        }
        double worst = 0.0;
        for (int round = 0; round < ROUNDS * (oct__op_info[op].is_product ? 3 : 1); round++) {
            struct dice dice = dice_of((uint32_t)(op * 100 + round));
            struct call call;
            describe(&call, (enum oct__op)op, &dice);
            worst = fmax(worst, check_engines(&call, &dice));
        }
        print_message("%-16s at most %.1e from portable\n", oct__op_info[op].name, worst);
    }
}

/* Convolutions as narrow models have them, on maps large enough that a library works on them in
 * blocks: one was found to write beyond its scratch, with a stride and fewer channels than a vector
 * holds. */
static void products_of_narrow_models(void **state) {
    (void)state;
    static const struct conv_shape shapes[] = {
        {1, 2, 0, 1, 3, 32, 32, 4, 8},  {1, 2, 0, 1, 2, 16, 16, 12, 24},
        {1, 2, 0, 1, 2, 9, 20, 6, 5},   {7, 2, 3, 1, 2, 20, 20, 3, 4},
        {3, 1, 1, 8, 2, 16, 16, 8, 8},  {3, 2, 1, 48, 2, 9, 12, 48, 48},
        {3, 2, 1, 20, 2, 8, 8, 20, 20}, {3, 1, 1, 4, 2, 12, 12, 4, 4},
        {3, 2, 1, 1, 3, 1, 1, 8, 16},   {1, 1, 0, 1, 2, 8, 8, 48, 8},
    };
    static const enum oct__op products[] = {OCT_OP_CONV,          OCT_OP_CONV_DGRAD,
                                            OCT_OP_CONV_WGRAD,    OCT_OP_CONV_U8,
                                            OCT_OP_CONV_S8_DGRAD, OCT_OP_CONV_U8_WGRAD};
    for (size_t i = 0; i < OCT_COUNT_OF(products); i++) {
        double worst = 0.0;
        for (size_t j = 0; j < OCT_COUNT_OF(shapes); j++) {
            struct dice dice = dice_of((uint32_t)(9000 + 100 * i + j));
            struct call call;
            begin(&call, products[i]);
            place_conv(&call, &shapes[j], j % 2 == 0, j % 3 != 0);
            worst = fmax(worst, check_engines(&call, &dice));
        }
        print_message("%-16s at most %.1e from portable\n", oct__op_info[products[i]].name, worst);
    }
}

/* As wide as models are, where engines have kernels of their own: rows that fill a tile and rows
 * that do not, several images in a tile, channels in parts, strides of which taps fall into
 * classes, long rows. */
static void products_of_wide_models(void **state) {
    (void)state;
    static const struct conv_shape shapes[] = {
        {3, 1, 1, 1, 1, 9, 32, 16, 16},  {3, 1, 1, 1, 5, 8, 8, 32, 40},
        {3, 1, 1, 1, 3, 4, 4, 64, 64},   {3, 2, 1, 1, 2, 16, 16, 16, 32},
        {1, 2, 0, 1, 2, 16, 16, 16, 32}, {3, 2, 1, 1, 2, 9, 7, 24, 16},
        {3, 2, 0, 1, 1, 8, 11, 16, 18},  {1, 1, 0, 1, 37, 1, 1, 64, 10},
        {3, 1, 1, 1, 2, 9, 33, 3, 16},   {3, 1, 2, 1, 1, 3, 140, 16, 20},
        {3, 1, 1, 1, 1, 2, 259, 4, 4},   {1, 2, 0, 1, 1, 5, 5, 33, 17},
    };
    static const enum oct__op products[] = {OCT_OP_CONV, OCT_OP_CONV_DGRAD, OCT_OP_CONV_WGRAD};
    for (size_t i = 0; i < OCT_COUNT_OF(products); i++) {
        double worst = 0.0;
        for (size_t j = 0; j < OCT_COUNT_OF(shapes); j++) {
            struct dice dice = dice_of((uint32_t)(9900 + 100 * i + j));
            struct call call;
            begin(&call, products[i]);
            place_conv(&call, &shapes[j], j % 2 == 0, 0);
            worst = fmax(worst, check_engines(&call, &dice));
        }
        print_message("%-16s at most %.1e from portable\n", oct__op_info[products[i]].name, worst);
    }
}

/* Windows of 2 x 2 side by side, which engines have kernels for; maps and channels that these take,
 * and some that they do not. */
static void max_pools_of_models(void **state) {
    (void)state;
    static const int shapes[][4] = {{2, 8, 6, 4},  {5, 2, 2, 32}, {1, 16, 16, 12},
                                    {3, 4, 10, 6}, {2, 7, 4, 8},  {2, 4, 5, 8}};
    static const enum oct__op pools[] = {OCT_OP_MAX_POOL, OCT_OP_MAX_POOL_GRAD};
    for (size_t i = 0; i < OCT_COUNT_OF(pools); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(shapes); j++) {
            const int *s = shapes[j];
            struct dice dice = dice_of((uint32_t)(9800 + 10 * i + j));
            struct call call;
            begin(&call, pools[i]);
            place_pool(&call, f32(s[0], s[1], s[2], s[3]), 2, 2, 2, 0);
            check_engines(&call, &dice);
        }
    }
}

/* A product of floats for node 0, in doubles: `sums`, and `sizes` with every term's absolute value
 * instead. */
static void multiply_exactly(const struct call *call, const struct conv_shape *s, double *sums,
                             double *sizes) {
    const int is_back = call->op == OCT_OP_CONV_DGRAD, is_weights = call->op == OCT_OP_CONV_WGRAD;
    const int y_h = slide(s->h, s->kernel, s->stride, s->pad);
    const int y_w = slide(s->w, s->kernel, s->stride, s->pad);
    const float *first = (const float *)call->before[0], *second = (const float *)call->before[1];
    const size_t terms = (size_t)s->n * y_h * y_w * s->kernel * s->kernel * s->in * s->out;
    for (size_t i = 0; i < terms; i++) {
        size_t rest = i;
        const size_t in = rest % s->in, out = (rest /= s->in) % s->out;
        const size_t column = (rest /= s->out) % s->kernel;
        const size_t row = (rest /= s->kernel) % s->kernel;
        const size_t to_x = (rest /= s->kernel) % y_w, to_y = (rest /= y_w) % y_h, n = rest / y_h;
        const size_t from_y = to_y * s->stride + row, from_x = to_x * s->stride + column;
        const size_t pad = s->pad, h = s->h, w = s->w;
        if (from_y < pad || from_x < pad || from_y - pad >= h || from_x - pad >= w) {
            continue;
        }
        const size_t x = ((n * h + from_y - pad) * w + from_x - pad) * s->in + in;
        const size_t y = ((n * y_h + to_y) * y_w + to_x) * s->out + out;
        const size_t weight = ((out * s->in + in) * s->kernel + row) * s->kernel + column;
        const double product =
            (double)first[is_back ? y : x] * (double)second[is_weights ? y : weight];
        sums[is_back ? x : is_weights ? weight : y] += product;
        sizes[is_back ? x : is_weights ? weight : y] += fabs(product);
    }
}

/* How far products of floats are from what they should be, relative to the sum of all terms' sizes:
 * engines may multiply in parts, but every term must be that of floats. Sums of 32 to 300 terms. */
static void products_of_floats_are_true(void **state) {
    (void)state;
    static const struct conv_shape s = {3, 1, 1, 1, 4, 8, 8, 32, 16};
    static const enum oct__op products[] = {OCT_OP_CONV, OCT_OP_CONV_DGRAD, OCT_OP_CONV_WGRAD};
    static const int results[] = {3, 2, 2};
    for (size_t i = 0; i < OCT_COUNT_OF(products); i++) {
        struct dice dice = dice_of((uint32_t)(77 + i));
        struct call call;
        struct oct__engine *engine;
        begin(&call, products[i]);
        place_conv(&call, &s, 0, 0);
        fill(&call, &dice);
        const size_t n = oct__tensor_count(&call.args.t[results[i]]);
        double *sums = calloc(2 * n, sizeof *sums), *sizes = sums + n;
        assert_non_null(sums);
        multiply_exactly(&call, &s, sums, sizes);
        for (int index = 0; (engine = engine_at(index, 1)); index++) {
            struct result found = {{NULL}};
            double worst = 0.0;
            EXPECT_OK(run(engine, &call, 0, 1, 1, &found));
            const float *y = (const float *)found.after[results[i]];
            for (size_t j = 0; j < n; j++) {
                worst = fmax(worst, fabs((double)y[j] - sums[j]) / sizes[j]);
            }
            print_message("%-10s %s: at most %.1e from the truth\n", oct__op_info[call.op].name,
                          engine->kind->plugin.name, worst);
            assert_true(worst > 0.0 && worst < 0x1p-20);
            discard(&found);
            oct__engine_close(engine);
        }
        free(sums);
        empty(&call);
    }
}

/* Operands that cannot be: refused with the values, on every engine and thread. */
static void impossible_operands(void **state) {
    (void)state;
    static const struct {
        enum oct__op op;
        int operand, word;
        int32_t value;
        const char *piece;
    } cases[] = {
        {OCT_OP_BATCH, 1, 5, 11, "sample 11 of a dataset of 11"},
        {OCT_OP_BATCH, 1, 0, -1, "sample -1 of a dataset of 11"},
        {OCT_OP_LOSS, 1, 1, -2, "label -2"},
        {OCT_OP_LOSS, 1, 2, 1000, "label 1000"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        for (int index = 0;; index++) {
            struct oct__engine *engine = engine_at(index, 2);
            if (!engine) {
                break;
            }
            struct dice dice = dice_of(5);
            struct call call;
            struct result result = {{NULL}};
            do {
                describe(&call, cases[i].op, &dice);
            } while (call.args.t[1].n < 19);
            fill(&call, &dice);
            memcpy(call.before[1] + 4 * cases[i].word, &cases[i].value, sizeof cases[i].value);
            oct_status status = run(engine, &call, 0, N_NODES, 2, &result);
            print_message("%s: ", engine->kind->plugin.name);
            check_failure(oct__op_info[cases[i].op].name, status, OCT_STATUS_INVALID,
                          cases[i].piece);
            discard(&result);
            empty(&call);
            oct__engine_close(engine);
        }
    }
}

static void names(void **state) {
    (void)state;
    struct oct__engine *engine = NULL;
    for (int i = 0; oct__engine_at(i); i++) {
        const struct oct_plugin *plugin = &oct__engine_at(i)->plugin;
        assert_true(strlen(plugin->name) > 0);
        assert_true(strlen(plugin->summary) > 3);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(plugin->name, oct__engine_at(j)->plugin.name);
        }
        if (plugin->unavailable) {
            EXPECT_FAILURE(oct__engine_open(plugin->name, 1, &engine), OCT_STATUS_UNSUPPORTED,
                           plugin->unavailable);
        }
    }
    assert_null(oct__engine_at(-1));
    assert_null(oct__engine_at(1000));
    EXPECT_FAILURE(oct__engine_open("abacus", 1, &engine), OCT_STATUS_NOT_FOUND,
                   "engine 'abacus' is not known; there are cpu, portable");
    oct__engine_close(NULL);
}

/* Memory comes zeroed and aligned; what is written is read back. */
static void memory(void **state) {
    (void)state;
    for (int index = 0;; index++) {
        struct oct__engine *engine = engine_at(index, 1);
        if (!engine) {
            break;
        }
        for (size_t bytes = 0; bytes < 100000; bytes = bytes * 7 + 1) {
            void *at = NULL;
            uint8_t *here = calloc(bytes + 1, 1);
            assert_non_null(here);
            EXPECT_OK(engine->alloc(engine, bytes, "memory", &at));
            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 64, 0);
            memset(here, 1, bytes + 1);
            EXPECT_OK(engine->read(engine, here, at, bytes));
            for (size_t i = 0; i < bytes; i++) {
                assert_int_equal(here[i], 0);
            }
            assert_int_equal(here[bytes], 1);
            for (size_t i = 0; i < bytes; i++) {
                here[i] = (uint8_t)(i * 31);
            }
            EXPECT_OK(engine->write(engine, at, here, bytes));
            memset(here, 0, bytes);
            EXPECT_OK(engine->read(engine, here, at, bytes));
            for (size_t i = 0; i < bytes; i++) {
                assert_int_equal(here[i], (uint8_t)(i * 31));
            }
            engine->free(engine, at);
            free(here);
        }
        oct__engine_close(engine);
    }
}

/* What is fetched arrives, little or much of it, several at a time and again and again. */
static void fetches(void **state) {
    (void)state;
    enum { ROWS = 3, TURNS = 12, MANY = 40, LARGEST = 700000 };
    static const size_t sizes[] = {100, 4, LARGEST, 90000};
    const size_t stride = LARGEST + 64;
    uint8_t *from = malloc(ROWS * stride), *to = calloc(TURNS, ROWS * (size_t)LARGEST);
    assert_true(from && to);
    for (size_t i = 0; i < ROWS * stride; i++) {
        from[i] = (uint8_t)(i * 31 + i / 251);
    }
    struct oct__engine *engine;
    for (int index = 0; (engine = engine_at(index, 1)); index++) {
        void *at = NULL;
        EXPECT_OK(engine->alloc(engine, ROWS * stride, "memory", &at));
        EXPECT_OK(engine->write(engine, at, from, ROWS * stride));
        memset(to, 0, TURNS * ROWS * (size_t)LARGEST);
        for (size_t i = 0; i < TURNS; i++) {
            EXPECT_OK(oct__engine_fetch_rows(engine, to + i * ROWS * LARGEST, at, stride,
                                             sizes[i % OCT_COUNT_OF(sizes)], ROWS));
            if (i % 7 == 0) {
                EXPECT_OK(oct__engine_await(engine));
            }
        }
        EXPECT_OK(oct__engine_await(engine));
        for (size_t i = 0; i < TURNS; i++) {
            const size_t bytes = sizes[i % OCT_COUNT_OF(sizes)];
            for (size_t row = 0; row < ROWS; row++) {
                assert_memory_equal(to + i * ROWS * LARGEST + row * bytes, from + row * stride,
                                    bytes);
            }
        }
        memset(to, 0, MANY); /* more than can be under way */
        for (size_t i = 0; i < MANY; i++) {
            EXPECT_OK(oct__engine_fetch_rows(engine, to + i, (uint8_t *)at + i, stride, 1, 1));
        }
        EXPECT_OK(oct__engine_await(engine));
        assert_memory_equal(to, from, MANY);
        engine->free(engine, at);
        oct__engine_close(engine);
    }
    free(from);
    free(to);
}

/* OCT_CPU lowers the level, as for the command; a level that this machine lacks is skipped. */
int main(void) {
    enum { SKIPPED = 77 };
    const char *level = getenv("OCT_CPU");
    const oct_status status = level && level[0] ? oct_cpu_limit(level) : OCT_OK;
    if (status != OCT_OK) {
        fprintf(stderr, "OCT_CPU: %s\n", oct_last_error());
        return status == OCT_STATUS_UNSUPPORTED ? SKIPPED : 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(memory),
        cmocka_unit_test(fetches),
        cmocka_unit_test(every_operation),
        cmocka_unit_test(max_pools_of_models),
        cmocka_unit_test(products_of_narrow_models),
        cmocka_unit_test(products_of_wide_models),
        cmocka_unit_test(products_of_floats_are_true),
        cmocka_unit_test(impossible_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
