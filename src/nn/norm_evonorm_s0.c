/* SPDX-License-Identifier: Apache-2.0 */
/* norm_evonorm_s0.c - EvoNorm-S0 (Liu, Brock, Simonyan, Le, arXiv 2004.02967), eight groups.
 *
 *     y = gamma * x * sigmoid(v * x) / sqrt(var + eps) + beta
 *
 * with the biased variance of each sample's group of channels. Norm and non-linearity in one, and
 * no statistics over the batch, so nodes with different data do not disturb it: the default in
 * fp32.
 */
#include "nn/layer.h"

static void declare(struct oct_graph *graph, struct oct__layer *layer) {
    layer->attr.norm.eps = 1e-5F;
    layer->param[0] = oct__graph_param(graph, layer, "gamma", oct__vector_param(layer->c, 1));
    layer->param[1] = oct__graph_param(graph, layer, "beta", oct__vector_param(layer->c, 0));
    layer->param[2] = oct__graph_param(graph, layer, "v", oct__vector_param(layer->c, 1));
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int gamma = oct__program_vector(program, layer, 0),
        beta = oct__program_vector(program, layer, 1);
    int v = oct__program_vector(program, layer, 2);
    int groups = layer->attr.norm.groups;
    int mean = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    int rstd = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, groups);
    program->saved[layer->id][0] = mean;
    program->saved[layer->id][1] = rstd;
    oct__program_call(program, OCT_OP_EVONORM, layer, layer->attr, 7,
                      (int[]){x, gamma, beta, v, mean, rstd, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), gamma = oct__program_vector(program, layer, 0);
    int v = oct__program_vector(program, layer, 2);
    int mean = program->saved[layer->id][0], rstd = program->saved[layer->id][1];
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    int dgamma = oct__program_grad(program, layer, 0), dbeta = oct__program_grad(program, layer, 1);
    int dv = oct__program_grad(program, layer, 2);
    oct__program_call(program, OCT_OP_EVONORM_GRAD, layer, layer->attr, 10,
                      (int[]){x, gamma, v, mean, rstd, dy, dx, dgamma, dbeta, dv});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct_norm_kind oct_norm_evonorm_s0 = {
    .plugin = {.name = "evonorm-s0",
               .summary = "variance of each sample's groups, with its own non-linearity",
               .reference = "Liu, Brock, Simonyan and Le, arXiv 2004.02967"},
    .has_activation = 1,
    .groups = 8,
    .declare = declare,
    .forward = forward,
    .backward = backward,
};
