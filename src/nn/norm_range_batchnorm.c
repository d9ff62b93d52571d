/* SPDX-License-Identifier: Apache-2.0 */
/* norm_range_batchnorm.c - Range BatchNorm (Banner, Hubara, Hoffer and Soudry, arXiv 1805.11046).
 *
 *     y = gamma * (x - mean) * s + beta        over the batch, channel by channel
 *     s = 1 / (R * f(L) + eps),                R = mean_k max - mean_k min
 *
 * BatchNorm without squares: the deviation is estimated from the range of a channel's values, cut
 * into at most sixteen chunks (kernels/chunks.h). At evaluation running mean and scale are used,
 * run = 0.1 * run + 0.9 * new. They belong to their node, as BatchNorm's do, with the same
 * consequence when nodes hold different classes.
 */
#include "nn/layer.h"

static void declare(struct oct_graph *graph, struct oct__layer *layer) {
    layer->attr.norm.eps = 1e-5F;
    layer->attr.norm.momentum = 0.9F;
    layer->param[0] = oct__graph_param(graph, layer, "gamma", oct__vector_param(layer->c, 1));
    layer->param[1] = oct__graph_param(graph, layer, "beta", oct__vector_param(layer->c, 0));
    layer->stat[0] = oct__graph_stat(graph, layer, "running_mean", layer->c, 0);
    layer->stat[1] = oct__graph_stat(graph, layer, "running_scale", layer->c, 1);
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int gamma = oct__program_vector(program, layer, 0),
        beta = oct__program_vector(program, layer, 1);
    int run_mean = oct__program_stat(program, layer, 0);
    int run_scale = oct__program_stat(program, layer, 1);
    if (program->mode == OCT_MODE_EVAL) {
        oct__program_call(program, OCT_OP_RANGE_BATCH_NORM_EVAL, layer, layer->attr, 6,
                          (int[]){x, gamma, beta, run_mean, run_scale, y});
        return;
    }
    int *saved = program->saved[layer->id];
    for (int i = 0; i < 3; i++) { /* mean, scale, used scale */
        saved[i] = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1, layer->c);
    }
    oct__program_call(
        program, OCT_OP_RANGE_BATCH_NORM, layer, oct__norm_attr(program, layer), 9,
        (int[]){x, gamma, beta, run_mean, run_scale, saved[0], saved[1], saved[2], y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), gamma = oct__program_vector(program, layer, 0);
    const int *saved = program->saved[layer->id];
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    int dgamma = oct__program_grad(program, layer, 0), dbeta = oct__program_grad(program, layer, 1);
    oct__program_call(program, OCT_OP_RANGE_BATCH_NORM_GRAD, layer, oct__norm_attr(program, layer),
                      9, (int[]){x, gamma, saved[0], saved[1], saved[2], dy, dx, dgamma, dbeta});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct_norm_kind oct_norm_range_batchnorm = {
    .plugin = {.name = "range-batchnorm",
               .summary = "mean and range over the batch, channel by channel; ReLU follows",
               .reference = "Banner, Hubara, Hoffer and Soudry, arXiv 1805.11046"},
    .declare = declare,
    .forward = forward,
    .backward = backward,
};
