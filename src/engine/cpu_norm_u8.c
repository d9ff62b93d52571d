/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_norm_u8.c - Range EvoNorm on bytes, and its gradient, on the CPU.
 *
 * A sample is read three times forward, as bytes: for the spread of its chunks, which gives the
 * scales; for the range of what comes out, which gives the grid; and to write that. None of the
 * passes leaves floats in memory, except where bytes are rounded by chance: there values go through
 * a block. The gradient needs one pass, and a few elements once more.
 */
#include <string.h>

#include "engine/cpu_quant.h"
#include "engine/grid.h"
#include "kernels/chunks.h"
#include "kernels/kernels.h"

void oct__cpu_norm_u8_scratch(enum oct__op op, const struct oct__lane_form *form,
                              const struct oct__args *args, struct oct__plan *plan) {
    const struct oct__tensor *x = &args->t[0];
    size_t shared, block = 0;
    switch (op) {
    case OCT_OP_RANGE_EVONORM_U8: /* extremes of samples */
        shared = 2 * (size_t)x->n;
        block = args->attr.norm.quant.stochastic ? oct__quant_floats(oct__block_elements(x)) : 0;
        break;
    case OCT_OP_RANGE_EVONORM_U8_GRAD: /* sums of shards */
        shared = (size_t)oct__shard_count(form, x->n) * 3 * (size_t)x->c;
        break;
    default:
        return;
    }
    plan->shared_bytes = (size_t)form->n_nodes * shared * sizeof(float);
    plan->thread_bytes = (oct__quant_work_floats(x) + block) * sizeof(float);
}

/* --- forward --------------------------------------------------------------------------------- */

/* Operands. */
enum { X, X_GRID, GAMMA, BETA, V, RUNNING, SCALE, USED, Y, Y_GRID };

/* Of a sample: positions, channels, elements. */
struct sample {
    size_t hw, c, size, groups;
};

static struct sample sample_of(const struct oct__shard *s) {
    const struct oct__tensor *x = &s->args->t[X];
    return (struct sample){(size_t)x->h * (size_t)x->w, (size_t)x->c, oct__sample_elements(x),
                           (size_t)s->args->attr.norm.groups};
}

/* The scale of each group: of whole samples, because a chunk runs through one. Bytes do not show a
 * spread below one step of their grid, so that is the least it is taken to be: values that differ
 * by less all become the same byte, and a spread of 0 would blow that byte up a hundred thousand
 * times. Nor do they show one beyond the ends of the grid: a sample larger than others has channels
 * that are all 0 or all 255, and chunks without a spread. norm.reach is for these. */
static oct_status spread_shard(const struct oct__shard *s) {
    const struct sample n = sample_of(s);
    const struct oct__grid *grid = oct__node_at(s, X_GRID);
    const size_t values = n.size / n.groups;
    const float factor = oct__range_factor(values / oct__chunk_count(values));
    const float least = oct__spread_least(s->args->attr.norm.reach, factor);
    const uint8_t *q = oct__shard_at(s, X);
    float *scale = oct__shard_at(s, SCALE), *used = oct__shard_at(s, USED);
    for (size_t i = 0; i < (size_t)s->count; i++, scale += n.groups, used += n.groups) {
        oct__kernels()->chunk_spread_u8(n.hw, n.c, n.groups, q + i * n.size, grid->scale,
                                        grid->zero, least, scale, oct__quant_work(s));
        for (size_t g = 0; g < n.groups; g++) {
            const float spread = scale[g] < grid->scale ? grid->scale : scale[g];
            used[g] = scale[g] = 1.0F / (spread * factor + s->args->attr.norm.eps);
        }
    }
    return OCT_OK;
}

static oct_status used_scale_node(const struct oct__shard *s) {
    oct__vector_quantize(oct__tensor_count(&s->args->t[SCALE]), oct__node_at(s, SCALE),
                         oct__node_at(s, USED));
    return OCT_OK;
}

static oct_status extremes_shard(const struct oct__shard *s) {
    const struct sample n = sample_of(s);
    const struct oct__grid *grid = oct__node_at(s, X_GRID);
    const uint8_t *q = oct__shard_at(s, X);
    const float *used = oct__shard_at(s, USED);
    float *extremes = oct__quant_extremes(s);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        float range[2];
        oct__range_begin(range);
        oct__kernels()->range_evonorm_minmax_u8(n.hw, n.c, n.groups, q + i * n.size, grid->scale,
                                                grid->zero, oct__node_at(s, GAMMA),
                                                oct__node_at(s, BETA), oct__node_at(s, V),
                                                used + i * n.groups, range, oct__quant_work(s));
        memcpy(extremes + 2 * i, range, sizeof range);
    }
    return OCT_OK;
}

static int nearest(const struct oct__shard *s, const struct oct__grid *y_grid, uint8_t *y) {
    const struct sample n = sample_of(s);
    const struct oct__grid *grid = oct__node_at(s, X_GRID);
    const uint8_t *q = oct__shard_at(s, X);
    const float *used = oct__shard_at(s, USED);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        oct__kernels()->range_evonorm_u8(n.hw, n.c, n.groups, q + i * n.size, grid->scale,
                                         grid->zero, oct__node_at(s, GAMMA), oct__node_at(s, BETA),
                                         oct__node_at(s, V), used + i * n.groups, y_grid->inverse,
                                         y_grid->zero, y + i * n.size, oct__quant_work(s));
    }
    return 1;
}

static const float *values(const struct oct__shard *s, struct oct__piece p, float *block) {
    const struct oct__kernels *k = oct__kernels();
    const struct sample n = sample_of(s);
    const struct oct__grid *grid = oct__node_at(s, X_GRID);
    const uint8_t *q = (const uint8_t *)oct__shard_at(s, X) + oct__piece_offset(&s->args->t[X], p);
    const float *used = (const float *)oct__shard_at(s, USED) + p.sample * n.groups;
    k->dequantize_u8_f32(p.count, q, grid->scale, grid->zero, block);
    k->range_evonorm_f32(p.count / n.c, n.c, n.groups, block, oct__node_at(s, GAMMA),
                         oct__node_at(s, BETA), oct__node_at(s, V), used, block,
                         oct__quant_work(s));
    return block;
}

static const struct oct__quantizer quantizer = {.values = values,
                                                .extremes = extremes_shard,
                                                .nearest = nearest,
                                                .running = RUNNING,
                                                .q = Y,
                                                .grid = Y_GRID};

oct_status oct__cpu_range_evonorm_u8(const struct oct__lane *lane, const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[X].n, spread_shard));
    if (args->attr.norm.quantize_scale) {
        OCT_TRY(oct__each_node(lane, args, used_scale_node));
    }
    return oct__quantize(lane, args, &quantizer, &args->attr.norm.quant);
}

/* --- gradient -------------------------------------------------------------------------------- */

/* Its operands; x and its grid are where they are forward. */
enum { OF_GAMMA = 2, OF_V, OF_SCALE, OF_USED, DY, DY_SCALE, DX, DGAMMA };

/* Sums of a shard that wait to be folded, [quantity][channel]: dgamma, dbeta, dv. */
static float *sums_of(const struct oct__shard *s, int index) {
    const struct oct__tensor *x = &s->args->t[X];
    const size_t shards = (size_t)oct__shard_count(&s->lane->form, x->n);
    const size_t row = (size_t)s->node * shards + (size_t)index;
    return (float *)s->lane->shared_scratch + row * 3 * (size_t)x->c;
}

static oct_status grad_shard(const struct oct__shard *s) {
    const struct oct__kernels *k = oct__kernels();
    const struct sample n = sample_of(s);
    const int mask = s->args->attr.norm.quant.mask;
    const struct oct__grid *grid = oct__node_at(s, X_GRID);
    const float *gamma = oct__node_at(s, OF_GAMMA), *v = oct__node_at(s, OF_V);
    const float *scale = oct__shard_at(s, OF_SCALE), *used = oct__shard_at(s, OF_USED);
    const uint8_t *q = oct__shard_at(s, X);
    const int8_t *dy = oct__shard_at(s, DY);
    float *sums = sums_of(s, s->index), *dgamma = sums, *dbeta = sums + n.c, *dv = sums + 2 * n.c;
    float *floats = oct__shard_at(s, DX), *work = oct__quant_work(s);
    uint16_t *halves = oct__shard_at(s, DX);
    memset(sums, 0, 3 * n.c * sizeof *sums);
    for (size_t i = 0; i < (size_t)s->count; i++, scale += n.groups, used += n.groups) {
        const size_t at = i * n.size;
        const float dy_scale = oct__quant_scale(s, DY_SCALE, i);
        if (s->args->t[DX].dtype == OCT_DTYPE_BF16) {
            k->range_evonorm_grad_u8_bf16(n.hw, n.c, n.groups, q + at, grid->scale, grid->zero,
                                          gamma, v, scale, used, dy + at, dy_scale, mask, dgamma,
                                          dbeta, dv, halves + at, work);
        } else {
            k->range_evonorm_grad_u8_f32(n.hw, n.c, n.groups, q + at, grid->scale, grid->zero,
                                         gamma, v, scale, used, dy + at, dy_scale, mask, dgamma,
                                         dbeta, dv, floats + at, work);
        }
    }
    return OCT_OK;
}

static oct_status grad_node(const struct oct__shard *s) {
    const size_t c = (size_t)s->args->t[X].c;
    const size_t shards = (size_t)oct__shard_count(&s->lane->form, s->args->t[X].n);
    for (int i = 0; i < 3; i++) {
        oct__kernels()->fold_f32(c, shards, 3 * c, sums_of(s, 0) + (size_t)i * c,
                                 oct__node_at(s, DGAMMA + i));
    }
    return OCT_OK;
}

oct_status oct__cpu_range_evonorm_u8_grad(const struct oct__lane *lane,
                                          const struct oct__args *args) {
    OCT_TRY(oct__each_shard(lane, args, args->t[X].n, grad_shard));
    return oct__each_node(lane, args, grad_node);
}
