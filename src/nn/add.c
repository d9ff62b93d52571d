/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - the sum of two values; its gradient goes to both, unchanged. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int a = oct__value_in(program, layer, 0), b = oct__value_in(program, layer, 1);
    int y = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_ADD, layer, (union oct__attr){0}, 3, (int[]){a, b, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int dy = oct__gradient_out(program, layer);
    for (int i = 0; i < 2; i++) {
        oct__gradient_give(program, layer, i, dy, 0);
    }
}

const struct oct__layer_kind oct__layer_add = {
    .name = "add", .forward = forward, .backward = backward};
