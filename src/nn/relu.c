/* SPDX-License-Identifier: Apache-2.0 */
/* relu.c - y = max(x, 0). Backward reads y alone, so x may be overwritten; in int8 it reads y from
 * its bytes. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_in_place(program, layer);
    oct__program_call(program, OCT_OP_RELU, layer, (union oct__attr){0}, 2, (int[]){x, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int y = oct__value_of(program, layer), dy = oct__gradient_out(program, layer);
    int dx = oct__gradient_new(program, layer, 0);
    oct__program_call(program, OCT_OP_RELU_GRAD, layer, (union oct__attr){0}, 3,
                      (int[]){y, dy, dx});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct__layer_kind oct__layer_relu = {
    .name = "relu", .forward = forward, .backward = backward, .keeps_output = 1};
