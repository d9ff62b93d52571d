/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c - convolutions, and linear layers as convolutions over a map of one position. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int weight = oct__program_param(program, layer, 0);
    int bias = oct__program_param(program, layer, 1);
    oct__program_call(program, OCT_OP_CONV, layer, layer->attr, 4, (int[]){x, weight, bias, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), dy = oct__gradient_out(program, layer);
    int weight = oct__program_param(program, layer, 0);
    int dweight = oct__program_grad(program, layer, 0);
    int dbias = oct__program_grad(program, layer, 1);
    oct__program_call(program, OCT_OP_CONV_WGRAD, layer, layer->attr, 4,
                      (int[]){x, dy, dweight, dbias});
    if (oct__gradient_wanted(program, layer, 0)) {
        int dx = oct__gradient_new(program, layer, 0);
        oct__program_call(program, OCT_OP_CONV_DGRAD, layer, layer->attr, 3,
                          (int[]){dy, weight, dx});
        oct__gradient_give(program, layer, 0, dx, 1);
    }
}

const struct oct__layer_kind oct__layer_conv = {
    .name = "conv", .forward = forward, .backward = backward};
