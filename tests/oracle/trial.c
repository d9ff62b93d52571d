/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - operands for every 8-bit operation: see trial.h.
 *
 * Rounds walk through what the data looks like (ordinary, zeros, one constant, one huge outlier, all
 * negative, tiny, full range, few levels, not finite), through batches (1, one shard, with a short last one),
 * and through the attributes. A new row in ops.def fails here until `describe` knows its operands.
 */
#include "oracle/trial.h"

#include <math.h>
#include <stdlib.h>

#include "support/check.h"

enum { N_NODES = 2, SHARD = 4 };

enum look {
    ORDINARY,
    ZEROS,
    CONSTANT,
    OUTLIER,
    NEGATIVE,
    TINY,
    FULL,
    LEVELS,
    INFINITE,
    NOT_A_NUMBER,
    N_LOOKS
};

static const char *const looks[N_LOOKS] = {
    "ordinary", "zeros",      "one constant", "one huge outlier", "all negative",
    "tiny",     "full range", "few levels",   "an infinity",      "a NaN",
};

/* What the float operands of an operation mean: f any numbers, p positive ones, g a grid, r a running
 * range, . written only or not floats. The first f is the one that the look is about. */
static const struct {
    enum oct__op op;
    const char *roles;
} kinds[] = {
    {OCT_OP_RANGE_EVONORM, "ffff..."},
    {OCT_OP_RANGE_EVONORM_GRAD, "fffppf...."},
    {OCT_OP_RANGE_BATCH_NORM, "ffffp...."},
    {OCT_OP_RANGE_BATCH_NORM_EVAL, "ffffp."},
    {OCT_OP_RANGE_BATCH_NORM_GRAD, "fffppf..."},
    {OCT_OP_CONV_U8, ".g.."},
    {OCT_OP_CONV_S8_DGRAD, "..."},
    {OCT_OP_CONV_U8_WGRAD, ".gf.."},
    {OCT_OP_QUANTIZE, "fr.."},
    {OCT_OP_DEQUANTIZE, ".g."},
    {OCT_OP_SUMS_QUANTIZE, ".gpfr.."},
    {OCT_OP_SUMS_DEQUANTIZE, ".gpf."},
    {OCT_OP_WEIGHT_QUANTIZE, "f.."},
    {OCT_OP_VECTOR_QUANTIZE, "f."},
    {OCT_OP_ADD_DEQUANTIZE, ".g.g."},
    {OCT_OP_ADD_U8, ".g.gr.."},
    {OCT_OP_RANGE_EVONORM_U8, ".gfffr...."},
    {OCT_OP_RANGE_EVONORM_U8_GRAD, ".gffpp.p...."},
    {OCT_OP_GRAD_JOIN, "fpfp.g."},
    {OCT_OP_GRAD_QUANTIZE, "fpfp.gp.."},
    {OCT_OP_GRAD_MASK, "..g."},
    {OCT_OP_QUANT_COUNT, ".g."},
};

static const char *roles_of(enum oct__op op) {
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        if (kinds[i].op == op) {
            return kinds[i].roles;
        }
    }
    fail_msg("%s: trial.c does not know its operands", oct__op_info[op].name);
    return NULL;
}

int trial_is_for(enum oct__op op) {
    int n;
    oct__sim_outputs(op, &n);
    return n > 0;
}

/* --- shapes ------------------------------------------------------------------------------------ */

static struct oct__tensor shape(enum oct__dtype dtype, int n, int h, int w, int c) {
    return (struct oct__tensor){.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
}

static struct oct__tensor as(struct oct__tensor t, enum oct__dtype dtype) {
    t.dtype = dtype;
    return t;
}

static struct oct__tensor vector(int c) {
    return shape(OCT_DTYPE_F32, 1, 1, 1, c);
}

static const struct oct__tensor absent = {.n = 0};

static int slide(int size, int kernel, int stride, int pad) {
    return (size + 2 * pad - kernel) / stride + 1;
}

static void describe_conv(struct trial *trial, struct dice *dice, int n, int h, int w) {
    static const int kernels[] = {1, 3, 5, 3}, groupings[] = {1, 1, 2, 4};
    static const int widths[] = {1, 2, 3, 5, 8, 16};
    struct oct__args *a = &trial->args;
    const int k = kernels[dice_below(dice, 4)], stride = 1 + dice_below(dice, 2);
    const int pad = k == 1 ? 0 : dice_below(dice, k), is_depthwise = dice_below(dice, 4) == 0;
    const int groups = is_depthwise ? 1 + dice_below(dice, 40) : groupings[dice_below(dice, 4)];
    const int in = is_depthwise ? groups : groups * widths[dice_below(dice, 6)];
    const int out = is_depthwise ? groups : groups * widths[dice_below(dice, 6)];
    h += k - 1;
    w += k - 1;
    const struct oct__tensor x = shape(OCT_DTYPE_U8, n, h, w, in);
    const struct oct__tensor y =
        shape(OCT_DTYPE_S32, n, slide(h, k, stride, pad), slide(w, k, stride, pad), out);
    const struct oct__tensor weight = shape(OCT_DTYPE_S8, out, k, k, in / groups);
    a->attr.conv = (struct oct__conv_attr){k, stride, pad, groups, 0};
    switch (trial->op) {
    case OCT_OP_CONV_U8:
        a->t[0] = x, a->t[1] = vector(OCT_GRID), a->t[2] = weight, a->t[3] = y;
        break;
    case OCT_OP_CONV_S8_DGRAD:
        a->t[0] = as(y, OCT_DTYPE_E8), a->t[1] = weight, a->t[2] = as(x, OCT_DTYPE_S32);
        break;
    default:
        a->t[0] = x, a->t[1] = vector(OCT_GRID),
        a->t[2] = as(y, dice_below(dice, 2) ? OCT_DTYPE_F32 : OCT_DTYPE_BF16);
        a->t[3] = as(weight, OCT_DTYPE_F32);
        a->t[4] = dice_below(dice, 2) ? vector(out) : absent;
        break;
    }
}

/* A gradient in any of its types, and the scale that belongs to it. */
static void describe_gradient(struct oct__tensor *t, struct dice *dice, struct oct__tensor x) {
    static const enum oct__dtype types[] = {OCT_DTYPE_F32, OCT_DTYPE_BF16, OCT_DTYPE_S8,
                                            OCT_DTYPE_S32};
    t[0] = as(x, types[dice_below(dice, 4)]);
    const int has_scale = t[0].dtype == OCT_DTYPE_S8 || t[0].dtype == OCT_DTYPE_S32;
    const struct oct__tensor scale = shape(OCT_DTYPE_F32, dice_below(dice, 2) ? x.n : 1, 1, 1, 1);
    t[1] = has_scale ? scale : absent;
}

static void describe(struct trial *trial, int round, struct dice *dice) {
    static const int batches[] = {1, 4, 6, 11, 2};
    struct oct__args *a = &trial->args;
    struct oct__tensor *t = a->t;
    const int n = batches[dice_below(dice, 5)];
    const int h = 1 + dice_below(dice, 6), w = 1 + dice_below(dice, 6),
              c = 1 + dice_below(dice, 17);
    const struct oct__tensor x = shape(OCT_DTYPE_F32, n, h, w, c);
    const struct oct__tensor u8 = as(x, OCT_DTYPE_U8), s8 = as(x, OCT_DTYPE_S8);
    const struct oct__tensor e8 = as(x, OCT_DTYPE_E8);
    const struct oct__tensor grid = vector(OCT_GRID), run = vector(2);
    const struct oct__tensor bias = dice_below(dice, 2) ? vector(c) : absent;
    const struct oct__tensor w_scale = vector(dice_below(dice, 2) ? c : 1);
    const struct oct__quant_attr quant = {
        .range = (enum oct__range)(round % 3),
        .stochastic = dice_below(dice, 2),
        .mask = dice_below(dice, 3) > 0,
    };
    const int groups = 1 + dice_below(dice, 4), wide = groups * (1 + dice_below(dice, 9));
    const struct oct__tensor y = shape(OCT_DTYPE_F32, n, h, w, wide), v = vector(wide);
    const struct oct__tensor each = shape(OCT_DTYPE_F32, n, 1, 1, groups);
    const struct oct__tensor y8 = as(y, OCT_DTYPE_U8);
    const struct oct__norm_attr norm = {
        .groups = groups,
        .eps = 1e-5F,
        .reach = (float[]){0.0F, 2.0F, 24.0F}[dice_below(dice, 3)],
        .momentum = 0.9F,
        .quantize_scale = dice_below(dice, 3) > 0,
        .quant = quant,
    };
    const struct oct__tensor dx = as(y, dice_below(dice, 2) ? OCT_DTYPE_F32 : OCT_DTYPE_BF16);
    const struct oct__tensor dy_scale = shape(OCT_DTYPE_F32, dice_below(dice, 2) ? n : 1, 1, 1, 1);
#define OPERANDS(...) memcpy(t, (const struct oct__tensor[OCT_ARGS_MOST]){__VA_ARGS__}, sizeof a->t)
    a->attr.quant = quant;
    switch (trial->op) {
    case OCT_OP_CONV_U8:
    case OCT_OP_CONV_S8_DGRAD:
    case OCT_OP_CONV_U8_WGRAD:
        describe_conv(trial, dice, n, h, w);
        break;
    case OCT_OP_QUANTIZE:
        OPERANDS(x, run, u8, grid);
        break;
    case OCT_OP_DEQUANTIZE:
        OPERANDS(u8, grid, x);
        break;
    case OCT_OP_SUMS_QUANTIZE:
        OPERANDS(as(x, OCT_DTYPE_S32), grid, w_scale, bias, run, u8, grid);
        break;
    case OCT_OP_SUMS_DEQUANTIZE:
        OPERANDS(as(x, OCT_DTYPE_S32), grid, w_scale, bias, x);
        break;
    case OCT_OP_WEIGHT_QUANTIZE:
        OPERANDS(x, s8, vector(dice_below(dice, 2) ? n : 1));
        break;
    case OCT_OP_VECTOR_QUANTIZE:
        OPERANDS(vector(n * c), vector(n * c));
        break;
    case OCT_OP_ADD_DEQUANTIZE:
        OPERANDS(u8, grid, u8, grid, x);
        break;
    case OCT_OP_ADD_U8:
        OPERANDS(u8, grid, u8, grid, run, u8, grid);
        break;
    case OCT_OP_GRAD_JOIN:
    case OCT_OP_GRAD_QUANTIZE:
        describe_gradient(t, dice, x);
        if (dice_below(dice, 2)) {
            describe_gradient(t + 2, dice, x);
        }
        if (dice_below(dice, 3)) {
            t[4] = u8, t[5] = grid;
        }
        if (trial->op == OCT_OP_GRAD_JOIN) {
            t[6] = as(x, dice_below(dice, 2) ? OCT_DTYPE_F32 : OCT_DTYPE_BF16);
        } else {
            t[6] = dice_below(dice, 2) ? w_scale : absent, t[7] = dice_below(dice, 2) ? s8 : e8;
            t[8] = dy_scale;
        }
        break;
    case OCT_OP_GRAD_MASK:
        OPERANDS(s8, u8, grid, s8);
        break;
    case OCT_OP_QUANT_COUNT:
        t[0] = dice_below(dice, 2) ? u8 : dice_below(dice, 2) ? s8 : e8;
        t[1] = t[0].dtype == OCT_DTYPE_U8 ? grid : dy_scale;
        t[2] = vector(4);
        break;
    case OCT_OP_RANGE_EVONORM:
        OPERANDS(y, v, v, v, each, each, y);
        break;
    case OCT_OP_RANGE_EVONORM_GRAD:
        OPERANDS(y, v, v, each, each, y, y, v, v, v);
        break;
    case OCT_OP_RANGE_EVONORM_U8:
        OPERANDS(y8, grid, v, v, v, run, each, each, y8, grid);
        break;
    case OCT_OP_RANGE_EVONORM_U8_GRAD:
        OPERANDS(y8, grid, v, v, each, each, as(y, OCT_DTYPE_S8), dy_scale, dx, v, v, v);
        break;
    case OCT_OP_RANGE_BATCH_NORM:
        OPERANDS(y, v, v, v, v, v, v, v, y);
        break;
    case OCT_OP_RANGE_BATCH_NORM_EVAL:
        OPERANDS(y, v, v, v, v, y);
        break;
    case OCT_OP_RANGE_BATCH_NORM_GRAD:
        OPERANDS(y, v, v, v, v, y, y, v, v);
        break;
    default:
        fail_msg("%s: trial.c does not know its operands", oct__op_info[trial->op].name);
    }
#undef OPERANDS
    if (trial->op >= OCT_OP_RANGE_EVONORM && trial->op <= OCT_OP_RANGE_BATCH_NORM_GRAD) {
        a->attr.norm = norm;
    }
    if (trial->op == OCT_OP_RANGE_EVONORM_U8 || trial->op == OCT_OP_RANGE_EVONORM_U8_GRAD) {
        a->attr.norm = norm;
    }
}

/* --- values ------------------------------------------------------------------------------------ */

static double draw(enum look look, struct dice *dice, size_t i) {
    const double x = dice_normal(dice);
    switch (look) {
    case ZEROS:
        return 0.0;
    case CONSTANT:
        return 1.7;
    case OUTLIER:
        return i == 3 ? 1e6 : x;
    case NEGATIVE:
        return -0.25 - fabs(x);
    case TINY:
        return x * 1e-20;
    case FULL:
        return x * 1e3;
    case LEVELS: /* not at even places between the extremes, where whole levels would be ties */
        return 0.25 * rint(4.0 * x) + 0.0137;
    case INFINITE:
        return i == 3 ? -(double)INFINITY : x;
    case NOT_A_NUMBER:
        return i == 3 ? (double)NAN : x;
    case ORDINARY:
    case N_LOOKS:
        break;
    }
    return x;
}

/* A byte of 0 … 255: often at an end, which is where values were clipped. */
static int draw_byte(enum look look, struct dice *dice) {
    const int any = dice_below(dice, 256), kind = dice_below(dice, 8);
    switch (look) {
    case ZEROS:
        return 0;
    case CONSTANT:
        return 200;
    case FULL:
        return any < 128 ? 0 : 255;
    case LEVELS:
        return 64 * (any % 4);
    default:
        return kind == 0 ? 0 : kind == 1 ? 255 : any;
    }
}

static void fill_integers(const struct oct__tensor *t, enum look look, struct dice *dice,
                          void *to) {
    const int is_finite = look != OUTLIER && look != INFINITE && look != NOT_A_NUMBER;
    for (size_t i = 0; i < oct__tensor_count(t); i++) {
        const int byte = draw_byte(look, dice);
        switch (t->dtype) {
        case OCT_DTYPE_U8:
            ((uint8_t *)to)[i] = (uint8_t)byte;
            break;
        case OCT_DTYPE_E8: /* never -128 */
            ((uint8_t *)to)[i] = (uint8_t)(byte == 0 ? (look == ZEROS ? OCT_EXCESS : 1) : byte);
            break;
        case OCT_DTYPE_S8: /* never -128 */
            ((int8_t *)to)[i] = (int8_t)(byte == 0 ? (look == ZEROS ? 0 : -127) : byte - 128);
            break;
        default:
            ((int32_t *)to)[i] = (int32_t)(3000.0 * draw(is_finite ? look : ORDINARY, dice, i));
            break;
        }
    }
}

static uint16_t upper_half(double x) {
    const float rounded = (float)x;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void fill_floats(const struct oct__tensor *t, char role, enum look look, struct dice *dice,
                        void *to) {
    float *values = to;
    const size_t n = oct__tensor_count(t);
    if (role == 'g') {
        static const int zeros[] = {0, 255, 128, 1, 97};
        const double scale = 0.002 + 0.05 * fabs(dice_normal(dice));
        const struct oct__grid grid = {(float)scale, 1.0F / (float)scale,
                                       (float)zeros[dice_below(dice, 5)], 0.0F};
        memcpy(to, &grid, sizeof grid);
    } else if (role == 'r') {
        const int is_new = dice_below(dice, 4) == 0;
        values[0] = is_new ? 0.0F : -(float)fabs(dice_normal(dice));
        values[1] = is_new ? 0.0F : 0.1F + (float)fabs(dice_normal(dice));
    } else if (t->dtype == OCT_DTYPE_BF16) {
        for (size_t i = 0; i < n; i++) {
            ((uint16_t *)to)[i] = upper_half(draw(look, dice, i));
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            const double x = draw(role == 'p' ? ORDINARY : look, dice, i);
            values[i] = (float)(role == 'p' ? 0.01 + 0.3 * fabs(x) : x);
        }
    }
}

static size_t stride_of(const struct oct__tensor *t) {
    return (oct__tensor_bytes(t) + 127) / 64 * 64;
}

void trial_make(struct trial *trial, enum oct__op op, int round) {
    struct dice dice = dice_of((uint32_t)(1000 + op * 100 + round));
    const enum look look = (enum look)(round % N_LOOKS);
    const char *operands = oct__op_info[op].operands, *roles = roles_of(op);
    memset(trial, 0, sizeof *trial);
    trial->op = op;
    snprintf(trial->what, sizeof trial->what, "round %d, %s", round, looks[look]);
    describe(trial, round, &dice);
    trial->args.layer = dice_below(&dice, 50);
    int is_first = 1;
    for (int i = 0; operands[i]; i++) {
        const struct oct__tensor *t = &trial->args.t[i];
        if (t->n == 0) {
            continue;
        }
        trial->before[i] = calloc(N_NODES, stride_of(t));
        assert_non_null(trial->before[i]);
        if (operands[i] == 'o' || operands[i] == 'O') {
            memset(trial->before[i], 0xA5, N_NODES * stride_of(t));
            continue;
        }
        for (int node = 0; node < N_NODES; node++) {
            void *to = (char *)trial->before[i] + (size_t)node * stride_of(t);
            if (t->dtype == OCT_DTYPE_F32 || t->dtype == OCT_DTYPE_BF16) {
                fill_floats(t, roles[i], is_first ? look : ORDINARY, &dice, to);
            } else {
                fill_integers(t, look, &dice, to);
            }
        }
        is_first = 0;
    }
}

void trial_drop(struct trial *trial) {
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        free(trial->before[i]);
    }
}

/* --- running ----------------------------------------------------------------------------------- */

void trial_run(const struct trial *trial, struct oct__engine *engine, struct verdict *verdict) {
    const char *operands = oct__op_info[trial->op].operands;
    struct oct__args args = trial->args, known = trial->args;
    struct oct__lane lane = {
        .engine = engine,
        .form = {N_NODES, engine->n_threads, SHARD},
        .first_node = 5,
        .seed = 77,
        .step = 12,
    };
    struct oct__plan plan;
    void *scratch = NULL, *after[OCT_ARGS_MOST] = {NULL}, *run[OCT_ARGS_MOST] = {NULL};
    EXPECT_OK(oct__engine_prepare(engine, trial->op, &lane.form, &args, &plan));
    args.handle = plan.handle;
    const size_t shared = (plan.shared_bytes + 63) / 64 * 64;
    lane.thread_scratch_bytes = (plan.thread_bytes + 63) / 64 * 64;
    EXPECT_OK(engine->alloc(engine,
                            shared + (size_t)lane.form.n_threads * lane.thread_scratch_bytes,
                            "scratch", &scratch));
    lane.shared_scratch = scratch;
    lane.thread_scratch = (char *)scratch + shared;
    for (int i = 0; operands[i]; i++) {
        const size_t bytes = N_NODES * stride_of(&args.t[i]);
        if (args.t[i].n > 0) {
            args.t[i].stride = known.t[i].stride = stride_of(&args.t[i]);
            EXPECT_OK(engine->alloc(engine, bytes, "operand", &args.t[i].at));
            EXPECT_OK(engine->write(engine, args.t[i].at, trial->before[i], bytes));
        }
    }
    EXPECT_OK(oct__engine_run(&lane, trial->op, &args));
    for (int i = 0; operands[i]; i++) {
        const size_t bytes = N_NODES * stride_of(&args.t[i]);
        if (args.t[i].n > 0) {
            after[i] = malloc(bytes);
            assert_non_null(after[i]);
            EXPECT_OK(engine->read(engine, after[i], args.t[i].at, bytes));
            engine->free(engine, args.t[i].at);
            known.t[i].at = strchr("oO", operands[i]) ? after[i] : trial->before[i];
            run[i] = operands[i] == 'b' ? after[i] : NULL;
        }
    }
    judge(&lane, trial->op, &known, run, trial->what, verdict);
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        free(after[i]);
    }
    engine->free(engine, scratch);
    oct__engine_release(engine, trial->op, plan.handle);
}
