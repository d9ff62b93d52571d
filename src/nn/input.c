/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - the network's input: images from the dataset, cropped, flipped and normalized. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_BATCH, layer, (union oct__attr){0}, 5,
                      (int[]){program->images, program->picks, program->lut, x, program->labels});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    (void)program; /* nobody wants the gradient of an image */
    (void)layer;
}

const struct oct__layer_kind oct__layer_input = {
    .name = "input", .forward = forward, .backward = backward, .keeps_output = 1};
