/* SPDX-License-Identifier: Apache-2.0 */
/* norm_groupnorm.c - GroupNorm (Wu and He, arXiv 1803.08494), two groups.
 *
 *     y = gamma * (x - mean) / sqrt(var + eps) + beta       over each sample's group of channels
 */
#include "nn/layer.h"

static void declare(struct oct_graph *graph, struct oct__layer *layer) {
    layer->attr.norm.eps = 1e-5F;
    layer->param[0] = oct__graph_param(graph, layer, "gamma", oct__vector_param(layer->c, 1));
    layer->param[1] = oct__graph_param(graph, layer, "beta", oct__vector_param(layer->c, 0));
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int gamma = oct__program_vector(program, layer, 0),
        beta = oct__program_vector(program, layer, 1);
    int groups = layer->attr.norm.groups;
    int mean = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    int rstd = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    program->saved[layer->id][0] = mean;
    program->saved[layer->id][1] = rstd;
    oct__program_call(program, OCT_OP_GROUP_NORM, layer, layer->attr, 6,
                      (int[]){x, gamma, beta, mean, rstd, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), gamma = oct__program_vector(program, layer, 0);
    int mean = program->saved[layer->id][0], rstd = program->saved[layer->id][1];
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    int dgamma = oct__program_grad(program, layer, 0), dbeta = oct__program_grad(program, layer, 1);
    oct__program_call(program, OCT_OP_GROUP_NORM_GRAD, layer, layer->attr, 8,
                      (int[]){x, gamma, mean, rstd, dy, dx, dgamma, dbeta});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct_norm_kind oct_norm_groupnorm = {
    .plugin = {.name = "groupnorm",
               .summary = "mean and variance over half of a sample's channels; ReLU follows",
               .reference = "Wu and He, arXiv 1803.08494"},
    .groups = 2,
    .declare = declare,
    .forward = forward,
    .backward = backward,
};
