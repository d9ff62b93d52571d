/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_range.c - Range EvoNorm and Range BatchNorm on floats on the CPU, forward and backward.
 *
 * Both divide by what chunks.h makes of the spread of K chunks:  scale = 1 / (spread * f(L) + eps).
 * The *used* scale is that one, or with attr.norm.quantize_scale the nearest of 256 steps between
 * the extremes of all the node's scales (grid.h); gradients go through the scale as it was before.
 *
 * Range EvoNorm looks at one sample at a time, so its kernels do the work, shard by shard.
 *
 * Range BatchNorm takes the values of a channel over the node's batch in (sample, row, column)
 * order: x is [n * h * w][c], a chunk is L rows of it. Chunks do not respect shards, so threads
 * share (node, chunk) pieces there. Every formula rounds after each operation, in this order:
 *
 *     mean   = (column sums of the samples, folded in shard order) / m,       m = n * h * w
 *     spread = (sum_k (max_k - mean)) / K - (sum_k (min_k - mean)) / K,       chunks ascending
 *     y      = x * (gamma * used) + (beta - mean * (gamma * used))
 *     run    = (1 - momentum) * run + momentum * new,                         mean and scale
 *
 *     P = sum dy,  Q = sum dy * (x - mean), in samples and shards as the mean's sums
 *     dbeta  = P,  dgamma = Q * used
 *     dx     = dy * (gamma * used) + -((gamma * used) * (P / m))
 *     share  = -(((gamma * Q) * (scale * scale)) * f(L)) / K,  to dx at each chunk's first largest
 *              value and from dx at its first smallest
 *
 *     shared scratch: [node][shard][quantity][channel], then [node][chunk][low, high][channel] or
 *                     [node][channel] of shares
 */
#include <string.h>

#include "engine/cpu.h"
#include "engine/grid.h"
#include "kernels/chunks.h"
#include "kernels/kernels.h"

/* Quantities that a shard sums, and floats a channel that a node keeps besides; nothing for other
 * operations. */
static const struct {
    int is_range, n_sums, n_kept;
} forms[OCT_OP_COUNT] = {
    [OCT_OP_RANGE_EVONORM] = {1, 0, 0},         [OCT_OP_RANGE_EVONORM_GRAD] = {1, 3, 0},
    [OCT_OP_RANGE_BATCH_NORM] = {1, 1, 2 * 16}, [OCT_OP_RANGE_BATCH_NORM_EVAL] = {1, 0, 0},
    [OCT_OP_RANGE_BATCH_NORM_GRAD] = {1, 2, 1},
};

static size_t shard_floats(enum oct__op op, const struct oct__tensor *x) {
    return (size_t)forms[op].n_sums * (size_t)x->c;
}

static size_t kept_floats(enum oct__op op, const struct oct__tensor *x) {
    return (size_t)forms[op].n_kept * (size_t)x->c;
}

void oct__cpu_range_scratch(enum oct__op op, const struct oct__lane_form *form,
                            const struct oct__args *args, struct oct__plan *plan) {
    if (!forms[op].is_range) {
        return;
    }
    const struct oct__tensor *x = &args->t[0];
    size_t shards = (size_t)oct__shard_count(form, x->n);
    plan->shared_bytes =
        (size_t)form->n_nodes * (shards * shard_floats(op, x) + kept_floats(op, x)) * sizeof(float);
    plan->thread_bytes = OCT_RANGE_WORK * (size_t)x->c * sizeof(float);
}

/* Where shard `index` of the shard's node sums. */
static float *sums_of(const struct oct__shard *s, enum oct__op op, int index) {
    const struct oct__tensor *x = &s->args->t[0];
    size_t shards = (size_t)oct__shard_count(&s->lane->form, x->n);
    size_t row = (size_t)s->node * shards + (size_t)index;
    return (float *)s->lane->shared_scratch + row * shard_floats(op, x);
}

/* What node `node` keeps besides. */
static float *kept_of(const struct oct__lane *lane, const struct oct__args *args, enum oct__op op,
                      size_t node) {
    const struct oct__tensor *x = &args->t[0];
    size_t shards = (size_t)lane->form.n_nodes * (size_t)oct__shard_count(&lane->form, x->n);
    return (float *)lane->shared_scratch + shards * shard_floats(op, x) + node * kept_floats(op, x);
}

/* Folds quantity `which` of all shards of a node, in shard order. */
static void fold_sums(const struct oct__shard *s, enum oct__op op, int which, float *out) {
    const struct oct__tensor *x = &s->args->t[0];
    oct__kernels()->fold_f32((size_t)x->c, (size_t)oct__shard_count(&s->lane->form, x->n),
                             shard_floats(op, x), sums_of(s, op, 0) + which * x->c, out);
}

static size_t rows_of(const struct oct__tensor *x) {
    return (size_t)x->h * (size_t)x->w;
}

/* What the spread of `values` values is multiplied with. */
static float factor_of(size_t values) {
    return oct__range_factor(values / oct__chunk_count(values));
}

static void use_scale(const struct oct__shard *s, size_t n, const float *scale, float *used) {
    if (s->args->attr.norm.quantize_scale) {
        oct__vector_quantize(n, scale, used);
    } else {
        memcpy(used, scale, n * sizeof *used);
    }
}

/* --- Range EvoNorm --------------------------------------------------------------------------- */

static void evonorm_scale(const struct oct__shard *s, size_t sample) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float factor = factor_of(hw * c / groups), *from = oct__shard_at(s, 0);
    float *scale = (float *)oct__shard_at(s, 4) + sample * groups;
    oct__kernels()->chunk_spread_f32(hw, c, groups, from + sample * hw * c, scale,
                                     oct__thread_scratch(s));
    for (size_t g = 0; g < groups; g++) {
        scale[g] = 1.0F / (scale[g] * factor + s->args->attr.norm.eps);
    }
}

static void evonorm_apply(const struct oct__shard *s, size_t sample) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0), *used = oct__shard_at(s, 5);
    float *y = oct__shard_at(s, 6);
    oct__kernels()->range_evonorm_f32(
        hw, c, groups, from + sample * hw * c, oct__node_at(s, 1), oct__node_at(s, 2),
        oct__node_at(s, 3), used + sample * groups, y + sample * hw * c, oct__thread_scratch(s));
}

/* Both passes over a sample while it is in the cache. */
static oct_status evonorm_shard(const struct oct__shard *s) {
    const size_t groups = (size_t)s->args->attr.norm.groups;
    for (size_t i = 0; i < (size_t)s->count; i++) {
        evonorm_scale(s, i);
        use_scale(s, groups, (float *)oct__shard_at(s, 4) + i * groups,
                  (float *)oct__shard_at(s, 5) + i * groups);
        evonorm_apply(s, i);
    }
    return OCT_OK;
}

static oct_status evonorm_scale_shard(const struct oct__shard *s) {
    for (size_t i = 0; i < (size_t)s->count; i++) {
        evonorm_scale(s, i);
    }
    return OCT_OK;
}

static oct_status evonorm_used_node(const struct oct__shard *s) {
    use_scale(s, oct__tensor_count(&s->args->t[4]), oct__node_at(s, 4), oct__node_at(s, 5));
    return OCT_OK;
}

static oct_status evonorm_apply_shard(const struct oct__shard *s) {
    for (size_t i = 0; i < (size_t)s->count; i++) {
        evonorm_apply(s, i);
    }
    return OCT_OK;
}

oct_status oct__cpu_range_evonorm(const struct oct__lane *lane, const struct oct__args *args) {
    const int batch = args->t[0].n;
    if (!args->attr.norm.quantize_scale) {
        return oct__each_shard(lane, args, batch, evonorm_shard);
    }
    OCT_TRY(oct__each_shard(lane, args, batch, evonorm_scale_shard));
    OCT_TRY(oct__each_node(lane, args, evonorm_used_node));
    return oct__each_shard(lane, args, batch, evonorm_apply_shard);
}

static oct_status evonorm_grad_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x), groups = (size_t)s->args->attr.norm.groups;
    const float *from = oct__shard_at(s, 0), *scale = oct__shard_at(s, 3);
    const float *used = oct__shard_at(s, 4), *dy = oct__shard_at(s, 5);
    float *dx = oct__shard_at(s, 6), *sums = sums_of(s, OCT_OP_RANGE_EVONORM_GRAD, s->index);
    memset(sums, 0, 3 * c * sizeof *sums);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        size_t at = i * hw * c;
        oct__kernels()->range_evonorm_grad_f32(hw, c, groups, from + at, oct__node_at(s, 1),
                                               oct__node_at(s, 2), scale + i * groups,
                                               used + i * groups, dy + at, sums, sums + c,
                                               sums + 2 * c, dx + at, oct__thread_scratch(s));
    }
    return OCT_OK;
}

static oct_status evonorm_grad_fold_node(const struct oct__shard *s) {
    for (int i = 0; i < 3; i++) {
        fold_sums(s, OCT_OP_RANGE_EVONORM_GRAD, i, oct__node_at(s, 7 + i));
    }
    return OCT_OK;
}

oct_status oct__cpu_range_evonorm_grad(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, evonorm_grad_shard));
    return oct__each_node(lane, args, evonorm_grad_fold_node);
}

/* --- chunks of a batch ------------------------------------------------------------------------ */

/* The chunks of Range BatchNorm: of each node, `n_chunks` of `rows` rows. */
struct chunk_job {
    const struct oct__lane *lane;
    const struct oct__args *args;
    size_t n_chunks, rows, c;
};

static struct chunk_job chunk_job(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    const size_t m = (size_t)x->n * rows_of(x), n_chunks = oct__chunk_count(m);
    return (struct chunk_job){lane, args, n_chunks, m / n_chunks, (size_t)x->c};
}

static oct_status each_chunk(struct chunk_job *job, oct__task *task) {
    const struct oct__lane_form *form = &job->lane->form;
    return oct__parallel(form->n_threads, form->n_nodes * (int)job->n_chunks, task, job);
}

/* The chunk's first element in operand `index`. */
static float *chunk_at(const struct chunk_job *job, int item, int index) {
    const struct oct__tensor *t = &job->args->t[index];
    const size_t node = (size_t)item / job->n_chunks, chunk = (size_t)item % job->n_chunks;
    return (float *)((char *)t->at + node * t->stride) + chunk * job->rows * job->c;
}

static oct_status extremes_chunk(void *context, int item, int worker) {
    (void)worker;
    const struct chunk_job *job = context;
    const size_t node = (size_t)item / job->n_chunks, chunk = (size_t)item % job->n_chunks;
    float *low = kept_of(job->lane, job->args, OCT_OP_RANGE_BATCH_NORM, node) + 2 * chunk * job->c;
    oct__kernels()->column_minmax_f32(job->rows, job->c, chunk_at(job, item, 0), low, low + job->c);
    return OCT_OK;
}

static oct_status shares_chunk(void *context, int item, int worker) {
    (void)worker;
    const struct chunk_job *job = context;
    const float *share =
        kept_of(job->lane, job->args, OCT_OP_RANGE_BATCH_NORM_GRAD, (size_t)item / job->n_chunks);
    oct__kernels()->column_extremes_grad_f32(job->rows, job->c, chunk_at(job, item, 0), share,
                                             chunk_at(job, item, 6));
    return OCT_OK;
}

/* --- Range BatchNorm ------------------------------------------------------------------------- */

static oct_status batch_sum_shard(const struct oct__shard *s) {
    oct__batch_sum(s, sums_of(s, OCT_OP_RANGE_BATCH_NORM, s->index));
    return OCT_OK;
}

static oct_status batch_scale_node(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const struct oct__norm_attr *attr = &s->args->attr.norm;
    const struct chunk_job job = chunk_job(s->lane, s->args);
    const size_t c = job.c, m = job.n_chunks * job.rows;
    const float factor = factor_of(m), n_chunks = (float)job.n_chunks;
    const float *low = kept_of(s->lane, s->args, OCT_OP_RANGE_BATCH_NORM, (size_t)s->node);
    float *run_mean = oct__node_at(s, 3), *run_scale = oct__node_at(s, 4);
    float *mean = oct__node_at(s, 5), *scale = oct__node_at(s, 6);
    fold_sums(s, OCT_OP_RANGE_BATCH_NORM, 0, mean);
    for (size_t j = 0; j < c; j++) {
        float low_sum = 0.0F, high_sum = 0.0F;
        mean[j] /= (float)x->n * (float)rows_of(x);
        for (size_t k = 0; k < job.n_chunks; k++) {
            low_sum += low[2 * k * c + j] - mean[j];
            high_sum += low[(2 * k + 1) * c + j] - mean[j];
        }
        float spread = high_sum / n_chunks - low_sum / n_chunks;
        scale[j] = 1.0F / (spread * factor + attr->eps);
        run_mean[j] = (1.0F - attr->momentum) * run_mean[j] + attr->momentum * mean[j];
        run_scale[j] = (1.0F - attr->momentum) * run_scale[j] + attr->momentum * scale[j];
    }
    use_scale(s, c, scale, oct__node_at(s, 7));
    return OCT_OK;
}

static oct_status batch_apply_shard(const struct oct__shard *s) {
    oct__batch_apply(s, oct__node_at(s, 5), oct__node_at(s, 7), oct__shard_at(s, 8));
    return OCT_OK;
}

oct_status oct__cpu_range_batch_norm(const struct oct__lane *lane, const struct oct__args *args) {
    struct chunk_job job = chunk_job(lane, args);
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_sum_shard));
    OCT_TRY(each_chunk(&job, extremes_chunk));
    OCT_TRY(oct__each_node(lane, args, batch_scale_node));
    return oct__each_shard(lane, args, args->t[0].n, batch_apply_shard);
}

static oct_status batch_eval_shard(const struct oct__shard *s) {
    oct__batch_apply(s, oct__node_at(s, 3), oct__node_at(s, 4), oct__shard_at(s, 5));
    return OCT_OK;
}

oct_status oct__cpu_range_batch_norm_eval(const struct oct__lane *lane,
                                          const struct oct__args *args) {
    return oct__each_shard(lane, args, args->t[0].n, batch_eval_shard);
}

/* Q and P are the sums that BatchNorm's kernel takes, with a deviation of 1. */
static oct_status batch_grad_sum_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const size_t c = (size_t)x->c, hw = rows_of(x);
    const float *from = oct__shard_at(s, 0), *dy = oct__shard_at(s, 5);
    float *sums = sums_of(s, OCT_OP_RANGE_BATCH_NORM_GRAD, s->index);
    float *one = oct__thread_scratch(s);
    for (size_t j = 0; j < c; j++) {
        one[j] = 1.0F;
    }
    memset(sums, 0, 2 * c * sizeof *sums);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        size_t at = i * hw * c;
        oct__kernels()->column_norm_sums_f32(hw, c, from + at, oct__node_at(s, 2), one, dy + at,
                                             sums, sums + c);
    }
    return OCT_OK;
}

static oct_status batch_grad_fold_node(const struct oct__shard *s) {
    const struct chunk_job job = chunk_job(s->lane, s->args);
    const float *gamma = oct__node_at(s, 1), *scale = oct__node_at(s, 3);
    const float *used = oct__node_at(s, 4);
    const float factor = oct__range_factor(job.rows);
    float *dgamma = oct__node_at(s, 7), *dbeta = oct__node_at(s, 8);
    float *share = kept_of(s->lane, s->args, OCT_OP_RANGE_BATCH_NORM_GRAD, (size_t)s->node);
    fold_sums(s, OCT_OP_RANGE_BATCH_NORM_GRAD, 0, dgamma);
    fold_sums(s, OCT_OP_RANGE_BATCH_NORM_GRAD, 1, dbeta);
    for (size_t j = 0; j < job.c; j++) {
        float slope = (gamma[j] * dgamma[j]) * (scale[j] * scale[j]);
        share[j] = -(slope * factor) / (float)job.n_chunks;
        dgamma[j] *= used[j];
    }
    return OCT_OK;
}

static oct_status batch_grad_apply_shard(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[0];
    const float *gamma = oct__node_at(s, 1), *used = oct__node_at(s, 4);
    const float *dbeta = oct__node_at(s, 8);
    const float m = (float)x->n * (float)rows_of(x);
    float *scale = oct__thread_scratch(s), *shift = scale + x->c;
    for (int c = 0; c < x->c; c++) {
        scale[c] = gamma[c] * used[c];
        shift[c] = -(scale[c] * (dbeta[c] / m));
    }
    oct__kernels()->column_affine_f32((size_t)s->count * rows_of(x), (size_t)x->c,
                                      oct__shard_at(s, 5), scale, shift, oct__shard_at(s, 6));
    return OCT_OK;
}

oct_status oct__cpu_range_batch_norm_grad(const struct oct__lane *lane,
                                          const struct oct__args *args) {
    struct chunk_job job = chunk_job(lane, args);
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_grad_sum_shard));
    OCT_TRY(oct__each_node(lane, args, batch_grad_fold_node));
    OCT_TRY(oct__each_shard(lane, args, args->t[0].n, batch_grad_apply_shard));
    return each_chunk(&job, shares_chunk);
}
