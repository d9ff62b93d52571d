/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - the CPU engines: host memory, our element-wise kernels, and a set of products.
 *
 * `cpu` takes its products from oneDNN, `portable` from plain C loops; everything else is the same
 * code, which is also what an accelerator's empty slots fall back to. Operations are written per
 * *shard*: a piece of one node's batch, small enough that a few of its rows stay in cache, and the
 * unit that threads share.
 */
#ifndef OCT_ENGINE_CPU_H
#define OCT_ENGINE_CPU_H

#include "base/parallel.h"
#include "engine/engine.h"

/* Where convolutions come from. `context` is what open returned. Only product operations are passed
 * to these. */
struct oct__products {
    const char *name;
    oct_status (*open)(int n_threads, void **context);
    void (*close)(void *context);
    oct_status (*prepare)(void *context, enum oct__op op, const struct oct__lane_form *form,
                          const struct oct__args *args, struct oct__plan *plan);
    void (*release)(void *handle);
    enum oct__dtype (*gradient)(void); /* becomes the engine's; NULL: F32 */
    oct__op_fn *run[OCT_OP_COUNT];     /* the products; the other places are empty */
    oct__op_fn *keep; /* as an engine's, for calls whose plan has kept_bytes; NULL: none has */
};

extern const struct oct__products oct__products_portable;
extern const struct oct__products oct__products_onednn;

/* exact.c: integer products that are right on every CPU, for `portable` and for `cpu` where oneDNN
 * has none or, without VNNI, saturates. They need scratch and no handle. */
void oct__exact_scratch(enum oct__op op, const struct oct__lane_form *form,
                        const struct oct__args *args, struct oct__plan *plan);
oct__op_fn oct__exact_conv_u8, oct__exact_conv_s8_dgrad;

/* wgrad.c: CONV_U8_WGRAD from pairs of bf16, for the shapes it serves; slow, but the same bits, on
 * a CPU that does not multiply them. It needs scratch and no handle. */
int oct__wgrad_serves(const struct oct__args *args);
void oct__wgrad_scratch(const struct oct__lane_form *form, const struct oct__args *args,
                        struct oct__plan *plan);
oct__op_fn oct__wgrad_conv_u8;

/* pack.c: weights s8, of which output o's for input i and tap t lies at o * out_step + i * in_step + t, in
 * blocks of OCT_PACK_SIDE outputs and inputs, as pack.c draws them, and their sums behind. */
enum { OCT_PACK_SIDE = 16 };
struct oct__pack {
    int out, in, taps;
    size_t out_step, in_step;
};
void oct__pack_s8(const struct oct__pack *pack, const int8_t *weights, void *to);

struct oct__cpu_engine {
    struct oct__engine engine; /* first, so that a pointer to one is a pointer to the other */
    const struct oct__products *products;
    void *products_context;
};

/* Fills a CPU engine over `products`. */
OCT_MUST_CHECK oct_status oct__cpu_open(const struct oct_engine_kind *kind, int n_threads,
                                        const struct oct__products *products,
                                        struct oct__engine **out);

/* One shard of one node in a launch. */
struct oct__shard {
    const struct oct__lane *lane;
    const struct oct__args *args;
    int node;         /* in the launch, from 0 */
    int index;        /* of the shard in its node's batch */
    int first, count; /* samples */
    int worker;       /* thread of the lane */
};

typedef oct_status oct__shard_fn(const struct oct__shard *shard);

static inline int oct__shard_count(const struct oct__lane_form *form, int batch) {
    return (batch + form->shard - 1) / form->shard;
}

/* Calls `fn` for every shard of every node of the launch, side by side where the lane has threads.
 */
OCT_MUST_CHECK oct_status oct__each_shard(const struct oct__lane *lane,
                                          const struct oct__args *args, int batch,
                                          oct__shard_fn *fn);

/* Calls `fn` once a node (count and first are 0). */
OCT_MUST_CHECK oct_status oct__each_node(const struct oct__lane *lane, const struct oct__args *args,
                                         oct__shard_fn *fn);

/* Operand `index` of the shard's node, from the shard's first sample on. */
static inline void *oct__shard_at(const struct oct__shard *shard, int index) {
    const struct oct__tensor *t = &shard->args->t[index];
    size_t sample = (size_t)t->h * (size_t)t->w * (size_t)t->c * oct__dtype_bytes(t->dtype);
    return (char *)t->at + (size_t)shard->node * t->stride + (size_t)shard->first * sample;
}

/* Operand `index` of the shard's node, whole (parameters, statistics). */
static inline void *oct__node_at(const struct oct__shard *shard, int index) {
    const struct oct__tensor *t = &shard->args->t[index];
    return (char *)t->at + (size_t)shard->node * t->stride;
}

static inline void *oct__thread_scratch(const struct oct__shard *shard) {
    const struct oct__lane *lane = shard->lane;
    return (char *)lane->thread_scratch + (size_t)shard->worker * lane->thread_scratch_bytes;
}

/* cpu_simple.c: input, element-wise operations, search for NaN */
oct__op_fn oct__cpu_batch, oct__cpu_relu, oct__cpu_relu_grad, oct__cpu_add, oct__cpu_dropout,
    oct__cpu_nonfinite;

/* cpu_rows.c: the optimizer's and gossip's operations on rows of parameters */
oct__op_fn oct__cpu_clip, oct__cpu_sgd, oct__cpu_difference, oct__cpu_axpy, oct__cpu_settle,
    oct__cpu_slow, oct__cpu_copy, oct__cpu_mean;

void oct__cpu_rows_scratch(enum oct__op op, const struct oct__lane_form *form,
                           const struct oct__args *args, struct oct__plan *plan);

/* cpu_pool.c */
oct__op_fn oct__cpu_max_pool, oct__cpu_max_pool_grad, oct__cpu_avg_pool, oct__cpu_avg_pool_grad;

/* cpu_loss.c */
oct__op_fn oct__cpu_loss;

/* cpu_norm.c */
oct__op_fn oct__cpu_batch_norm, oct__cpu_batch_norm_eval, oct__cpu_batch_norm_grad,
    oct__cpu_group_norm, oct__cpu_group_norm_grad, oct__cpu_evonorm, oct__cpu_evonorm_grad;

/* What both BatchNorms do with a shard of x (operand 0): sum its columns into `sum`, and
 * y = x * scale + shift, scale = gamma * factor, shift = beta - mean * scale, gamma and beta being
 * operands 1 and 2. */
void oct__batch_sum(const struct oct__shard *shard, float *sum);
void oct__batch_apply(const struct oct__shard *shard, const float *mean, const float *factor,
                      float *y);

/* cpu_range.c: the range norms on floats */
oct__op_fn oct__cpu_range_evonorm, oct__cpu_range_evonorm_grad, oct__cpu_range_batch_norm,
    oct__cpu_range_batch_norm_eval, oct__cpu_range_batch_norm_grad;

void oct__cpu_range_scratch(enum oct__op op, const struct oct__lane_form *form,
                            const struct oct__args *args, struct oct__plan *plan);

/* cpu_quant.c: values to bytes and back; cpu_quant_grad.c: gradients */
oct__op_fn oct__cpu_quantize, oct__cpu_dequantize, oct__cpu_sums_quantize, oct__cpu_sums_dequantize,
    oct__cpu_weight_quantize, oct__cpu_vector_quantize, oct__cpu_add_dequantize, oct__cpu_add_u8,
    oct__cpu_grad_join, oct__cpu_grad_quantize, oct__cpu_grad_mask, oct__cpu_quant_count;

void oct__cpu_quant_scratch(enum oct__op op, const struct oct__lane_form *form,
                            const struct oct__args *args, struct oct__plan *plan);

/* cpu_norm_u8.c: Range EvoNorm on bytes */
oct__op_fn oct__cpu_range_evonorm_u8, oct__cpu_range_evonorm_u8_grad;

void oct__cpu_norm_u8_scratch(enum oct__op op, const struct oct__lane_form *form,
                              const struct oct__args *args, struct oct__plan *plan);

/* cpu_packet.c: compressed rows */
oct__op_fn oct__cpu_pack, oct__cpu_fold;

void oct__cpu_packet_scratch(enum oct__op op, const struct oct__lane_form *form,
                             const struct oct__args *args, struct oct__plan *plan);

/* Scratch of the norms: sums of shards that wait to be folded, and kernels' working space. Nothing
 * for other operations. */
void oct__cpu_norm_scratch(enum oct__op op, const struct oct__lane_form *form,
                           const struct oct__args *args, struct oct__plan *plan);

#endif
