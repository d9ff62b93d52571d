/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - each element is dropped with a probability, the rest scaled up; nothing at
 * evaluation. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0);
    if (program->mode == OCT_MODE_EVAL) {
        program->values[layer->id] = x;
        return;
    }
    int y = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_DROPOUT, layer, layer->attr, 2, (int[]){x, y});
}

/* The mask is a function of (seed, node, step, layer, element): the same operation applies it to
 * dy. */
static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    oct__program_call(program, OCT_OP_DROPOUT, layer, layer->attr, 2, (int[]){dy, dx});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct__layer_kind oct__layer_dropout = {
    .name = "dropout", .forward = forward, .backward = backward, .keeps_output = 1};
