/* SPDX-License-Identifier: Apache-2.0 */
/* norm_range_evonorm.c - Range EvoNorm (Aketi, Kodge and Roy, arXiv 2111.09389), eight groups.
 *
 *     y = gamma * x * h(v * x) * s + beta,     h(a) = a / 6 + 1/2 held to [0, 1]
 *     s = 1 / (R * f(L) + eps),                R = mean_k max - mean_k min
 *
 * EvoNorm-S0 without what bytes do badly: the deviation of a sample's group of channels is
 * estimated from the range of its values, cut into at most sixteen chunks (kernels/chunks.h), and
 * the sigmoid is three straight lines. Norm and non-linearity in one, and no statistics over the
 * batch: the default in int8, where it reads and writes bytes.
 *
 * eps is 1e-5, as published, where a recipe does not say otherwise. It lets s be 100,000 where a group
 * of channels has died and all its values are alike, and one such gradient ends a run. EvoNorm-S0 has
 * its 1e-5 under the root, so it multiplies by 316 at the most; 3.2e-3 is the same for a range.
 *
 * A range has a blind spot of its own: chunks follow channels, and one sample that is larger than the
 * others of its batch leaves the grid of its bytes, channel by channel: all 0, all 255. Its chunks have
 * no spread, s is large where it should be small, and the gradient with it a hundred times what it
 * was. The bytes of y are clipped, so the loss shows nothing. A recipe's `reach` holds x * s: in a trained
 * network one group of 500 has a value beyond 22 deviations; such a sample had 176.
 */
#include "nn/layer.h"

static void declare(struct oct_graph *graph, struct oct__layer *layer) {
    layer->attr.norm.eps = graph->is_int8 ? (float)graph->recipe.eps : 1e-5F;
    layer->attr.norm.reach = graph->is_int8 ? (float)graph->recipe.reach : 0.0F;
    layer->param[0] = oct__graph_param(graph, layer, "gamma", oct__vector_param(layer->c, 1));
    layer->param[1] = oct__graph_param(graph, layer, "beta", oct__vector_param(layer->c, 0));
    layer->param[2] = oct__graph_param(graph, layer, "v", oct__vector_param(layer->c, 1));
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    const int groups = layer->attr.norm.groups;
    int gamma = oct__program_vector(program, layer, 0);
    int beta = oct__program_vector(program, layer, 1), v = oct__program_vector(program, layer, 2);
    int scale = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    int used = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    union oct__attr attr = oct__norm_attr(program, layer);
    program->saved[layer->id][0] = scale;
    program->saved[layer->id][1] = used;
    if (oct__is_int8(program)) {
        int grid, q_grid, x = oct__bytes_in(program, layer, 0, &grid);
        int range = oct__range_of(program, layer), q = oct__bytes_new(program, layer, &q_grid);
        oct__program_call(program, OCT_OP_RANGE_EVONORM_U8, layer, attr, 10,
                          (int[]){x, grid, gamma, beta, v, range, scale, used, q, q_grid});
        oct__watch(program, layer, 0, q, q_grid);
        return;
    }
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_RANGE_EVONORM, layer, attr, 7,
                      (int[]){x, gamma, beta, v, scale, used, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int gamma = oct__program_vector(program, layer, 0), v = oct__program_vector(program, layer, 2);
    int scale = program->saved[layer->id][0], used = program->saved[layer->id][1];
    int dgamma = oct__program_grad(program, layer, 0), dbeta = oct__program_grad(program, layer, 1);
    int dv = oct__program_grad(program, layer, 2);
    union oct__attr attr = oct__norm_attr(program, layer);
    if (oct__is_int8(program)) {
        const struct oct__layer *from = &program->graph->layers[layer->in[0]];
        int grid, dy_scale, x = oct__bytes_in(program, layer, 0, &grid);
        int dy = oct__gradient_bytes(program, layer, &dy_scale);
        int dx = oct__program_work(program, program->engine->gradient, program->batch, from->h,
                                   from->w, from->c);
        oct__program_call(
            program, OCT_OP_RANGE_EVONORM_U8_GRAD, layer, attr, 12,
            (int[]){x, grid, gamma, v, scale, used, dy, dy_scale, dx, dgamma, dbeta, dv});
        oct__gradient_arrive(program, layer, 0, (struct oct__arrival){dx, -1, 1});
        return;
    }
    int x = oct__value_in(program, layer, 0);
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    oct__program_call(program, OCT_OP_RANGE_EVONORM_GRAD, layer, attr, 10,
                      (int[]){x, gamma, v, scale, used, dy, dx, dgamma, dbeta, dv});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct_norm_kind oct_norm_range_evonorm = {
    .plugin = {.name = "range-evonorm",
               .summary = "range of each sample's groups, with its own non-linearity; for 8 bits",
               .reference = "Aketi, Kodge and Roy, arXiv 2111.09389"},
    .has_activation = 1,
    .groups = 8,
    .writes_bytes = 1,
    .declare = declare,
    .forward = forward,
    .backward = backward,
};
