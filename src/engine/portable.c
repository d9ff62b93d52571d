/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c - convolution in plain C, and the engine `portable` built on it.
 *
 * What every machine can run, and what oneDNN's products are checked against. One layout trick
 * makes it bearable: weights are repacked once a call so that the innermost loop runs over
 * neighbouring output channels,
 *
 *     forward:          y[o] += x[i] * w[i][o]       packed [row][column][in][out]
 *     data gradient:    dx[i] += dy[o] * w[o][i]     packed [row][column][out][in]
 *     weight gradient:  dw[i][o] += x[i] * dy[o]     packed as forward, unpacked when folded
 *
 * which any compiler turns into vector code. Sums run in a fixed order (rows, columns, channels),
 * so results depend on neither threads nor vector width.
 *
 * Integer products are exact.c's. The weight gradient of bytes is the float one: x - zero and a
 * gradient in bf16 are widened sample by sample, and x's scale waits until the shards are folded.
 */
#include <string.h>

#include "base/alloc.h"
#include "engine/cpu.h"
#include "kernels/kernels.h"

/* Sizes of one convolution, read once from its operands. */
struct form {
    int h, w, out_h, out_w;
    int kernel, stride, pad, groups;
    int in, out; /* channels of a group */
    size_t in_all, out_all;
};

static struct form form_of(const struct oct__args *a, const struct oct__tensor *x,
                           const struct oct__tensor *y) {
    int groups = a->attr.conv.groups;
    struct form f = {
        .h = x->h,
        .w = x->w,
        .out_h = y->h,
        .out_w = y->w,
        .kernel = a->attr.conv.kernel,
        .stride = a->attr.conv.stride,
        .pad = a->attr.conv.pad,
        .groups = groups,
        .in = x->c / groups,
        .out = y->c / groups,
        .in_all = (size_t)x->c,
        .out_all = (size_t)y->c,
    };
    return f;
}

static size_t weight_count(const struct form *f) {
    return (size_t)f->groups * (size_t)f->out * (size_t)f->in * (size_t)f->kernel *
           (size_t)f->kernel;
}

/* Place of weight (group, out, in, row, column) in the canonical layout. */
static size_t canonical(const struct form *f, int g, int o, int i, int r, int q) {
    size_t out = (size_t)g * (size_t)f->out + (size_t)o;
    return ((out * (size_t)f->in + (size_t)i) * (size_t)f->kernel + (size_t)r) * (size_t)f->kernel +
           (size_t)q;
}

/* Place in the packed layouts: [group][row][column][slow][fast]. */
static size_t packed(const struct form *f, int g, int r, int q, int slow, int fast, int n_fast) {
    size_t tap = ((size_t)g * (size_t)f->kernel + (size_t)r) * (size_t)f->kernel + (size_t)q;
    return (tap * (size_t)f->in * (size_t)f->out) + (size_t)slow * (size_t)n_fast + (size_t)fast;
}

/* `unpack` goes back to the canonical layout; `in_fast` chooses which channel is innermost. */
static void repack(const struct form *f, const float *from, float *to, int in_fast, int unpack) {
    for (int g = 0; g < f->groups; g++) {
        for (int r = 0; r < f->kernel; r++) {
            for (int q = 0; q < f->kernel; q++) {
                for (int o = 0; o < f->out; o++) {
                    for (int i = 0; i < f->in; i++) {
                        size_t plain = canonical(f, g, o, i, r, q);
                        size_t other = in_fast ? packed(f, g, r, q, o, i, f->in)
                                               : packed(f, g, r, q, i, o, f->out);
                        to[unpack ? plain : other] = from[unpack ? other : plain];
                    }
                }
            }
        }
    }
}

static oct_status portable_open(int n_threads, void **context) {
    (void)n_threads;
    *context = NULL;
    return OCT_OK;
}

static void portable_close(void *context) {
    (void)context;
}

static void portable_release(void *handle) {
    (void)handle;
}

/* Where a weight gradient's operands are. */
struct wgrad_operands {
    int x, grid, dy, dw, db;
};

static struct wgrad_operands wgrad_operands(enum oct__op op) {
    static const struct wgrad_operands floats = {0, -1, 1, 2, 3}, bytes = {0, 1, 2, 3, 4};
    return op == OCT_OP_CONV_U8_WGRAD ? bytes : floats;
}

/* A sample of `t` as floats. */
static size_t sample_values(const struct oct__tensor *t) {
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

/* Shared scratch: packed weights of each node; for weight gradients, those of each shard, and after
 * them the bias sums of each shard. A thread's: a sample of x and of dy, where those are widened.
 */
static oct_status portable_prepare(void *context, enum oct__op op,
                                   const struct oct__lane_form *form, const struct oct__args *args,
                                   struct oct__plan *plan) {
    (void)context;
    if (op == OCT_OP_CONV_U8 || op == OCT_OP_CONV_S8_DGRAD) {
        oct__exact_scratch(op, form, args, plan);
        return OCT_OK;
    }
    const size_t nodes = (size_t)form->n_nodes;
    if (op != OCT_OP_CONV_WGRAD && op != OCT_OP_CONV_U8_WGRAD) {
        plan->shared_bytes = nodes * oct__tensor_count(&args->t[1]) * sizeof(float);
        return OCT_OK;
    }
    const struct wgrad_operands at = wgrad_operands(op);
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy];
    const size_t sums = oct__tensor_count(&args->t[at.dw]) + (size_t)dy->c;
    plan->shared_bytes = nodes * (size_t)oct__shard_count(form, x->n) * sums * sizeof(float);
    if (op == OCT_OP_CONV_U8_WGRAD) {
        plan->thread_bytes = (sample_values(x) + sample_values(dy)) * sizeof(float);
    }
    return OCT_OK;
}

static float *packed_weights(const struct oct__shard *s, const struct form *f) {
    return (float *)s->lane->shared_scratch + (size_t)s->node * weight_count(f);
}

/* --- forward --------------------------------------------------------------------------------- */

static oct_status pack_forward(const struct oct__shard *s) {
    struct form f = form_of(s->args, &s->args->t[0], &s->args->t[3]);
    repack(&f, oct__node_at(s, 1), packed_weights(s, &f), 0, 0);
    return OCT_OK;
}

/* Whether tap (r, q) of the kernel at an output position lies inside the input, and where: the input's
 * position times its channels. */
static int tap_inside(const struct form *f, int row, int column, int r, int q, size_t *at) {
    int in_row = row * f->stride - f->pad + r, in_column = column * f->stride - f->pad + q;
    if (in_row < 0 || in_row >= f->h || in_column < 0 || in_column >= f->w) {
        return 0;
    }
    *at = ((size_t)in_row * (size_t)f->w + (size_t)in_column) * f->in_all;
    return 1;
}

static void forward_position(const struct form *f, const float *x, const float *weights, int row,
                             int column, float *y) {
    size_t at;
    for (int g = 0; g < f->groups; g++) {
        float *to = y + (size_t)g * (size_t)f->out;
        for (int r = 0; r < f->kernel; r++) {
            for (int q = 0; q < f->kernel; q++) {
                if (!tap_inside(f, row, column, r, q, &at)) {
                    continue;
                }
                const float *from = x + at + (size_t)g * (size_t)f->in;
                const float *tap = weights + packed(f, g, r, q, 0, 0, f->out);
                for (int i = 0; i < f->in; i++, tap += f->out) {
                    for (int o = 0; o < f->out; o++) {
                        to[o] += from[i] * tap[o];
                    }
                }
            }
        }
    }
}

static oct_status forward_shard(const struct oct__shard *s) {
    struct form f = form_of(s->args, &s->args->t[0], &s->args->t[3]);
    const float *weights = packed_weights(s, &f);
    const float *bias = s->args->t[2].n ? oct__node_at(s, 2) : NULL;
    const float *x = oct__shard_at(s, 0);
    float *y = oct__shard_at(s, 3);
    for (int i = 0; i < s->count; i++, x += (size_t)f.h * (size_t)f.w * f.in_all) {
        for (int row = 0; row < f.out_h; row++) {
            for (int column = 0; column < f.out_w; column++, y += f.out_all) {
                if (bias) {
                    memcpy(y, bias, f.out_all * sizeof *y);
                } else {
                    memset(y, 0, f.out_all * sizeof *y);
                }
                forward_position(&f, x, weights, row, column, y);
            }
        }
    }
    return OCT_OK;
}

static oct_status portable_conv(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(lane->bare ? OCT_OK : oct__each_node(lane, args, pack_forward));
    return oct__each_shard(lane, args, args->t[0].n, forward_shard);
}

/* --- data gradient --------------------------------------------------------------------------- */

static oct_status pack_dgrad(const struct oct__shard *s) {
    struct form f = form_of(s->args, &s->args->t[2], &s->args->t[0]);
    repack(&f, oct__node_at(s, 1), packed_weights(s, &f), 1, 0);
    return OCT_OK;
}

/* Scatters one output position's gradient to the inputs it came from. */
static void dgrad_position(const struct form *f, const float *dy, const float *weights, int row,
                           int column, float *dx) {
    size_t at;
    for (int g = 0; g < f->groups; g++) {
        const float *from = dy + (size_t)g * (size_t)f->out;
        for (int r = 0; r < f->kernel; r++) {
            for (int q = 0; q < f->kernel; q++) {
                if (!tap_inside(f, row, column, r, q, &at)) {
                    continue;
                }
                float *to = dx + at + (size_t)g * (size_t)f->in;
                const float *tap = weights + packed(f, g, r, q, 0, 0, f->in);
                for (int o = 0; o < f->out; o++, tap += f->in) {
                    for (int i = 0; i < f->in; i++) {
                        to[i] += from[o] * tap[i];
                    }
                }
            }
        }
    }
}

static oct_status dgrad_shard(const struct oct__shard *s) {
    struct form f = form_of(s->args, &s->args->t[2], &s->args->t[0]);
    const float *weights = packed_weights(s, &f);
    const float *dy = oct__shard_at(s, 0);
    float *dx = oct__shard_at(s, 2);
    size_t image = (size_t)f.h * (size_t)f.w * f.in_all;
    memset(dx, 0, (size_t)s->count * image * sizeof *dx);
    for (int i = 0; i < s->count; i++, dx += image) {
        for (int row = 0; row < f.out_h; row++) {
            for (int column = 0; column < f.out_w; column++, dy += f.out_all) {
                dgrad_position(&f, dy, weights, row, column, dx);
            }
        }
    }
    return OCT_OK;
}

static oct_status portable_dgrad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(lane->bare ? OCT_OK : oct__each_node(lane, args, pack_dgrad));
    return oct__each_shard(lane, args, args->t[0].n, dgrad_shard);
}

/* --- weight gradient ------------------------------------------------------------------------- */

static float *shard_gradient(const struct oct__shard *s, const struct form *f, int index) {
    size_t shards = (size_t)oct__shard_count(&s->lane->form, s->args->t[0].n);
    size_t row = (size_t)s->node * shards + (size_t)index;
    return (float *)s->lane->shared_scratch + row * (weight_count(f) + f->out_all);
}

static void wgrad_position(const struct form *f, const float *x, const float *dy, int row,
                           int column, float *dw) {
    size_t at;
    for (int g = 0; g < f->groups; g++) {
        const float *gradient = dy + (size_t)g * (size_t)f->out;
        for (int r = 0; r < f->kernel; r++) {
            for (int q = 0; q < f->kernel; q++) {
                if (!tap_inside(f, row, column, r, q, &at)) {
                    continue;
                }
                const float *from = x + at + (size_t)g * (size_t)f->in;
                float *tap = dw + packed(f, g, r, q, 0, 0, f->out);
                for (int i = 0; i < f->in; i++, tap += f->out) {
                    for (int o = 0; o < f->out; o++) {
                        tap[o] += from[i] * gradient[o];
                    }
                }
            }
        }
    }
}

static void wgrad_sample(const struct form *f, const float *x, const float *dy, float *dw,
                         float *db) {
    for (int row = 0; row < f->out_h; row++) {
        for (int column = 0; column < f->out_w; column++, dy += f->out_all) {
            wgrad_position(f, x, dy, row, column, dw);
            for (size_t o = 0; o < f->out_all; o++) {
                db[o] += dy[o];
            }
        }
    }
}

static oct_status wgrad_shard(const struct oct__shard *s) {
    struct form f = form_of(s->args, &s->args->t[0], &s->args->t[1]);
    float *dw = shard_gradient(s, &f, s->index), *db = dw + weight_count(&f);
    memset(dw, 0, (weight_count(&f) + f.out_all) * sizeof *dw);
    const float *x = oct__shard_at(s, 0), *dy = oct__shard_at(s, 1);
    const size_t x_sample = sample_values(&s->args->t[0]),
                 dy_sample = sample_values(&s->args->t[1]);
    for (int i = 0; i < s->count; i++, x += x_sample, dy += dy_sample) {
        wgrad_sample(&f, x, dy, dw, db);
    }
    return OCT_OK;
}

static oct_status wgrad_u8_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0], *dy = &s->args->t[2];
    struct form f = form_of(s->args, x, dy);
    float *dw = shard_gradient(s, &f, s->index), *db = dw + weight_count(&f);
    memset(dw, 0, (weight_count(&f) + f.out_all) * sizeof *dw);
    const struct oct__kernels *k = oct__kernels();
    const struct oct__grid *grid = oct__node_at(s, 1);
    const size_t x_sample = sample_values(x), dy_sample = sample_values(dy);
    float *wide_x = oct__thread_scratch(s), *wide_dy = wide_x + x_sample;
    const uint8_t *bytes = oct__shard_at(s, 0);
    const char *gradient = oct__shard_at(s, 2);
    for (int i = 0; i < s->count; i++) {
        k->dequantize_u8_f32(x_sample, bytes + (size_t)i * x_sample, 1.0F, grid->zero, wide_x);
        const void *from = gradient + (size_t)i * dy_sample * oct__dtype_bytes(dy->dtype);
        if (dy->dtype == OCT_DTYPE_BF16) {
            k->widen_bf16_f32(dy_sample, from, wide_dy);
        }
        wgrad_sample(&f, wide_x, dy->dtype == OCT_DTYPE_BF16 ? wide_dy : from, dw, db);
    }
    return OCT_OK;
}

static oct_status fold_node(const struct oct__shard *s, enum oct__op op) {
    const struct wgrad_operands at = wgrad_operands(op);
    struct form f = form_of(s->args, &s->args->t[at.x], &s->args->t[at.dy]);
    size_t count = weight_count(&f);
    float *sum = shard_gradient(s, &f, 0);
    for (int shard = 1; shard < oct__shard_count(&s->lane->form, s->args->t[0].n); shard++) {
        const float *part = shard_gradient(s, &f, shard);
        for (size_t i = 0; i < count + f.out_all; i++) {
            sum[i] += part[i];
        }
    }
    if (at.grid >= 0) {
        const struct oct__grid *grid = oct__node_at(s, at.grid);
        for (size_t i = 0; i < count; i++) {
            sum[i] *= grid->scale;
        }
    }
    repack(&f, sum, oct__node_at(s, at.dw), 0, 1);
    if (s->args->t[at.db].n) {
        memcpy(oct__node_at(s, at.db), sum + count, f.out_all * sizeof *sum);
    }
    return OCT_OK;
}

static oct_status wgrad_fold_node(const struct oct__shard *s) {
    return fold_node(s, OCT_OP_CONV_WGRAD);
}

static oct_status wgrad_u8_fold_node(const struct oct__shard *s) {
    return fold_node(s, OCT_OP_CONV_U8_WGRAD);
}

static oct_status portable_wgrad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, wgrad_shard));
    return lane->bare ? OCT_OK : oct__each_node(lane, args, wgrad_fold_node);
}

static oct_status portable_wgrad_u8(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, wgrad_u8_shard));
    return lane->bare ? OCT_OK : oct__each_node(lane, args, wgrad_u8_fold_node);
}

const struct oct__products oct__products_portable = {
    .name = "plain C",
    .open = portable_open,
    .close = portable_close,
    .prepare = portable_prepare,
    .release = portable_release,
    .run =
        {
            [OCT_OP_CONV] = portable_conv,
            [OCT_OP_CONV_DGRAD] = portable_dgrad,
            [OCT_OP_CONV_WGRAD] = portable_wgrad,
            [OCT_OP_CONV_U8] = oct__exact_conv_u8,
            [OCT_OP_CONV_S8_DGRAD] = oct__exact_conv_s8_dgrad,
            [OCT_OP_CONV_U8_WGRAD] = portable_wgrad_u8,
        },
};

static oct_status engine_open(const struct oct_engine_kind *kind, int n_threads,
                              struct oct__engine **out) {
    return oct__cpu_open(kind, n_threads, &oct__products_portable, out);
}

const struct oct_engine_kind oct_engine_portable = {
    .plugin =
        {
            .name = "portable",
            .summary = "plain C products: any machine, and the reference for the others",
        },
    .open = engine_open,
};
