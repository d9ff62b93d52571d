/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_norm.c - BatchNorm, GroupNorm and EvoNorm-S0 on the CPU, forward and backward.
 *
 * GroupNorm and EvoNorm look at one sample at a time, so a shard is done in one go and a sample's
 * passes hit the cache. BatchNorm needs sums over the whole batch: each shard sums its samples, the
 * sums are folded in shard order, and a second sweep applies the result.
 *
 * Gradients of the parameters are summed in shared scratch, a row a shard, and folded at the end:
 *
 *     shared scratch: [node][shard][quantity][channel]
 */
#include <math.h>
#include <string.h>

#include "engine/cpu.h"
#include "kernels/kernels.h"

/* Which operations are norms; how many quantities a shard sums, a float for each channel. */
static const struct {
    int is_norm, n_sums;
} norms[OCT_OP_COUNT] = {
    [OCT_OP_BATCH_NORM] = {1, 1},      [OCT_OP_BATCH_NORM_EVAL] = {1, 0},
    [OCT_OP_BATCH_NORM_GRAD] = {1, 2}, [OCT_OP_GROUP_NORM] = {1, 0},
    [OCT_OP_GROUP_NORM_GRAD] = {1, 2}, [OCT_OP_EVONORM] = {1, 0},
    [OCT_OP_EVONORM_GRAD] = {1, 3},
};

static size_t n_sums(enum oct__op op) {
    return (size_t)norms[op].n_sums;
}

void oct__cpu_norm_scratch(enum oct__op op, const struct oct__lane_form *form,
                           const struct oct__args *args, struct oct__plan *plan) {
    if (!norms[op].is_norm) {
        return;
    }
    size_t channels = (size_t)args->t[0].c;
    size_t shards = (size_t)oct__shard_count(form, args->t[0].n);
    plan->shared_bytes = (size_t)form->n_nodes * shards * n_sums(op) * channels * sizeof(float);
    plan->thread_bytes = 8 * channels * sizeof(float); /* the most that a kernel asks for */
}

static float *sums_of(const struct oct__shard *s, enum oct__op op, int index) {
    size_t channels = (size_t)s->args->t[0].c;
    size_t shards = (size_t)oct__shard_count(&s->lane->form, s->args->t[0].n);
    size_t row = (size_t)s->node * shards + (size_t)index;
    return (float *)s->lane->shared_scratch + row * n_sums(op) * channels;
}

/* Folds quantity `which` of all shards of a node, in shard order. */
static void fold_sums(const struct oct__shard *s, enum oct__op op, int which, float *out) {
    size_t channels = (size_t)s->args->t[0].c;
    size_t shards = (size_t)oct__shard_count(&s->lane->form, s->args->t[0].n);
    oct__kernels()->fold_f32(channels, shards, n_sums(op) * channels,
                             sums_of(s, op, 0) + (size_t)which * channels, out);
}

static size_t rows_of(const struct oct__tensor *x) {
    return (size_t)x->h * (size_t)x->w;
}

/* --- BatchNorm ------------------------------------------------------------------------------- */

void oct__batch_sum(const struct oct__shard *s, float *sum) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x);
    const float *from = oct__shard_at(s, 0);
    memset(sum, 0, c * sizeof *sum);
    for (int i = 0; i < s->count; i++) {
        oct__kernels()->column_sum_f32(hw, c, from + (size_t)i * hw * c, sum);
    }
}

static oct_status batch_sum_shard(const struct oct__shard *s) {
    oct__batch_sum(s, sums_of(s, OCT_OP_BATCH_NORM, s->index));
    return OCT_OK;
}

static oct_status batch_mean_node(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    float *mean = oct__node_at(s, 5);
    fold_sums(s, OCT_OP_BATCH_NORM, 0, mean);
    for (int c = 0; c < x->c; c++) {
        mean[c] /= (float)x->n * (float)rows_of(x);
    }
    return OCT_OK;
}

static oct_status batch_square_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x);
    const float *from = oct__shard_at(s, 0), *mean = oct__node_at(s, 5);
    float *sum = sums_of(s, OCT_OP_BATCH_NORM, s->index);
    memset(sum, 0, c * sizeof *sum);
    for (int i = 0; i < s->count; i++) {
        oct__kernels()->column_square_f32(hw, c, from + (size_t)i * hw * c, mean, sum);
    }
    return OCT_OK;
}

/* Running values take the unbiased variance, the normalization the biased one, as is usual. */
static oct_status batch_variance_node(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const float eps = s->args->attr.norm.eps, momentum = s->args->attr.norm.momentum;
    const float m = (float)x->n * (float)rows_of(x);
    float *run_mean = oct__node_at(s, 3), *run_var = oct__node_at(s, 4);
    float *mean = oct__node_at(s, 5), *rstd = oct__node_at(s, 6);
    fold_sums(s, OCT_OP_BATCH_NORM, 0, rstd);
    for (int c = 0; c < x->c; c++) {
        float square = rstd[c], unbiased = square / (m > 1.0F ? m - 1.0F : 1.0F);
        run_mean[c] = (1.0F - momentum) * run_mean[c] + momentum * mean[c];
        run_var[c] = (1.0F - momentum) * run_var[c] + momentum * unbiased;
        rstd[c] = 1.0F / sqrtf(square / m + eps);
    }
    return OCT_OK;
}

void oct__batch_apply(const struct oct__shard *s, const float *mean, const float *factor,
                      float *y) {
    const struct oct__tensor *x = &s->args->t[0];
    const float *gamma = oct__node_at(s, 1), *beta = oct__node_at(s, 2);
    float *scale = oct__thread_scratch(s), *shift = scale + x->c;
    for (int c = 0; c < x->c; c++) {
        scale[c] = gamma[c] * factor[c];
        shift[c] = beta[c] - mean[c] * scale[c];
    }
    oct__kernels()->column_affine_f32((size_t)s->count * rows_of(x), (size_t)x->c,
                                      oct__shard_at(s, 0), scale, shift, y);
}

static oct_status batch_apply_shard(const struct oct__shard *s) {
    oct__batch_apply(s, oct__node_at(s, 5), oct__node_at(s, 6), oct__shard_at(s, 7));
    return OCT_OK;
}

oct_status oct__cpu_batch_norm(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_sum_shard));
    OCT_TRY(oct__each_node(lane, args, batch_mean_node));
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_square_shard));
    OCT_TRY(oct__each_node(lane, args, batch_variance_node));
    return oct__each_shard(lane, args, args->t[0].n, batch_apply_shard);
}

static oct_status batch_eval_shard(const struct oct__shard *s) {
    const int channels = s->args->t[0].c;
    const float *run_var = oct__node_at(s, 4);
    float *rstd = (float *)oct__thread_scratch(s) + (size_t)2 * (size_t)channels;
    for (int c = 0; c < channels; c++) {
        rstd[c] = 1.0F / sqrtf(run_var[c] + s->args->attr.norm.eps);
    }
    oct__batch_apply(s, oct__node_at(s, 3), rstd, oct__shard_at(s, 5));
    return OCT_OK;
}

oct_status oct__cpu_batch_norm_eval(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, batch_eval_shard);
}

static oct_status batch_grad_sum_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x);
    const float *from = oct__shard_at(s, 0), *dy = oct__shard_at(s, 4);
    float *sums = sums_of(s, OCT_OP_BATCH_NORM_GRAD, s->index);
    memset(sums, 0, 2 * c * sizeof *sums);
    for (int i = 0; i < s->count; i++) {
        size_t at = (size_t)i * hw * c;
        oct__kernels()->column_norm_sums_f32(hw, c, from + at, oct__node_at(s, 2),
                                             oct__node_at(s, 3), dy + at, sums, sums + c);
    }
    return OCT_OK;
}

static oct_status batch_grad_fold_node(const struct oct__shard *s) {
    fold_sums(s, OCT_OP_BATCH_NORM_GRAD, 0, oct__node_at(s, 6));
    fold_sums(s, OCT_OP_BATCH_NORM_GRAD, 1, oct__node_at(s, 7));
    return OCT_OK;
}

/* dx = gamma * rstd * (dy - dbeta / m - xhat * dgamma / m) */
static oct_status batch_grad_apply_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const float *gamma = oct__node_at(s, 1), *rstd = oct__node_at(s, 3);
    const float *dgamma = oct__node_at(s, 6), *dbeta = oct__node_at(s, 7);
    const float m = (float)x->n * (float)rows_of(x);
    float *k = oct__thread_scratch(s), *a = k + x->c, *b = a + x->c;
    for (int c = 0; c < x->c; c++) {
        k[c] = gamma[c] * rstd[c];
        a[c] = dbeta[c] / m;
        b[c] = dgamma[c] / m;
    }
    oct__kernels()->column_norm_grad_f32((size_t)s->count * rows_of(x), (size_t)x->c,
                                         oct__shard_at(s, 0), oct__node_at(s, 2), rstd, k, a, b,
                                         oct__shard_at(s, 4), oct__shard_at(s, 5));
    return OCT_OK;
}

oct_status oct__cpu_batch_norm_grad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_grad_sum_shard));
    OCT_TRY(oct__each_node(lane, args, batch_grad_fold_node));
    return oct__each_shard(lane, args, args->t[0].n, batch_grad_apply_shard);
}

/* --- GroupNorm ------------------------------------------------------------------------------- */

static oct_status group_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0);
    float *mean = oct__shard_at(s, 3), *rstd = oct__shard_at(s, 4), *y = oct__shard_at(s, 5);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        oct__kernels()->group_norm_f32(hw, c, groups, from + i * hw * c, oct__node_at(s, 1),
                                       oct__node_at(s, 2), s->args->attr.norm.eps,
                                       mean + i * groups, rstd + i * groups, y + i * hw * c,
                                       oct__thread_scratch(s));
    }
    return OCT_OK;
}

oct_status oct__cpu_group_norm(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, group_shard);
}

static oct_status group_grad_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0), *mean = oct__shard_at(s, 2);
    const float *rstd = oct__shard_at(s, 3), *dy = oct__shard_at(s, 4);
    float *dx = oct__shard_at(s, 5), *sums = sums_of(s, OCT_OP_GROUP_NORM_GRAD, s->index);
    memset(sums, 0, 2 * c * sizeof *sums);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        size_t at = i * hw * c;
        oct__kernels()->group_norm_grad_f32(hw, c, groups, from + at, oct__node_at(s, 1),
                                            mean + i * groups, rstd + i * groups, dy + at, sums,
                                            sums + c, dx + at, oct__thread_scratch(s));
    }
    return OCT_OK;
}

static oct_status group_grad_fold_node(const struct oct__shard *s) {
    fold_sums(s, OCT_OP_GROUP_NORM_GRAD, 0, oct__node_at(s, 6));
    fold_sums(s, OCT_OP_GROUP_NORM_GRAD, 1, oct__node_at(s, 7));
    return OCT_OK;
}

oct_status oct__cpu_group_norm_grad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, group_grad_shard));
    return oct__each_node(lane, args, group_grad_fold_node);
}

/* --- EvoNorm-S0 ------------------------------------------------------------------------------ */

static oct_status evonorm_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0);
    float *mean = oct__shard_at(s, 4), *rstd = oct__shard_at(s, 5), *y = oct__shard_at(s, 6);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        oct__kernels()->evonorm_f32(hw, c, groups, from + i * hw * c, oct__node_at(s, 1),
                                    oct__node_at(s, 2), oct__node_at(s, 3), s->args->attr.norm.eps,
                                    mean + i * groups, rstd + i * groups, y + i * hw * c,
                                    oct__thread_scratch(s));
    }
    return OCT_OK;
}

oct_status oct__cpu_evonorm(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, evonorm_shard);
}

static oct_status evonorm_grad_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0), *mean = oct__shard_at(s, 3);
    const float *rstd = oct__shard_at(s, 4), *dy = oct__shard_at(s, 5);
    float *dx = oct__shard_at(s, 6), *sums = sums_of(s, OCT_OP_EVONORM_GRAD, s->index);
    memset(sums, 0, 3 * c * sizeof *sums);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        size_t at = i * hw * c;
        oct__kernels()->evonorm_grad_f32(hw, c, groups, from + at, oct__node_at(s, 1),
                                         oct__node_at(s, 2), mean + i * groups, rstd + i * groups,
                                         dy + at, sums, sums + c, sums + 2 * c, dx + at,
                                         oct__thread_scratch(s));
    }
    return OCT_OK;
}

static oct_status evonorm_grad_fold_node(const struct oct__shard *s) {
    for (int i = 0; i < 3; i++) {
        fold_sums(s, OCT_OP_EVONORM_GRAD, i, oct__node_at(s, 7 + i));
    }
    return OCT_OK;
}

oct_status oct__cpu_evonorm_grad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, evonorm_grad_shard));
    return oct__each_node(lane, args, evonorm_grad_fold_node);
}
