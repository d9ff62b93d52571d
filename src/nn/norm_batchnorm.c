/* SPDX-License-Identifier: Apache-2.0 */
/* norm_batchnorm.c - BatchNorm (Ioffe and Szegedy, arXiv 1502.03167).
 *
 *     y = gamma * (x - mean) / sqrt(var + eps) + beta       over the batch, channel by channel
 *
 * At evaluation running statistics are used, run = 0.9 * run + 0.1 * new. They belong to their node
 * and are not gossiped: that is what makes this norm a poor choice when nodes hold different
 * classes.
 */
#include "nn/layer.h"

static void declare(struct oct_graph *graph, struct oct__layer *layer) {
    layer->attr.norm.eps = 1e-5F;
    layer->attr.norm.momentum = 0.1F;
    layer->param[0] = oct__graph_param(graph, layer, "gamma", oct__vector_param(layer->c, 1));
    layer->param[1] = oct__graph_param(graph, layer, "beta", oct__vector_param(layer->c, 0));
    layer->stat[0] = oct__graph_stat(graph, layer, "running_mean", layer->c, 0);
    layer->stat[1] = oct__graph_stat(graph, layer, "running_var", layer->c, 1);
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int gamma = oct__program_vector(program, layer, 0),
        beta = oct__program_vector(program, layer, 1);
    int run_mean = oct__program_stat(program, layer, 0);
    int run_var = oct__program_stat(program, layer, 1);
    if (program->mode == OCT_MODE_EVAL) {
        oct__program_call(program, OCT_OP_BATCH_NORM_EVAL, layer, layer->attr, 6,
                          (int[]){x, gamma, beta, run_mean, run_var, y});
        return;
    }
    int mean = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1, layer->c);
    int rstd = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1, layer->c);
    program->saved[layer->id][0] = mean;
    program->saved[layer->id][1] = rstd;
    oct__program_call(program, OCT_OP_BATCH_NORM, layer, layer->attr, 8,
                      (int[]){x, gamma, beta, run_mean, run_var, mean, rstd, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), gamma = oct__program_vector(program, layer, 0);
    int mean = program->saved[layer->id][0], rstd = program->saved[layer->id][1];
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    int dgamma = oct__program_grad(program, layer, 0), dbeta = oct__program_grad(program, layer, 1);
    oct__program_call(program, OCT_OP_BATCH_NORM_GRAD, layer, layer->attr, 8,
                      (int[]){x, gamma, mean, rstd, dy, dx, dgamma, dbeta});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct_norm_kind oct_norm_batchnorm = {
    .plugin = {.name = "batchnorm",
               .summary = "mean and variance over the batch, channel by channel; ReLU follows",
               .reference = "Ioffe and Szegedy, arXiv 1502.03167"},
    .declare = declare,
    .forward = forward,
    .backward = backward,
};
