/* SPDX-License-Identifier: Apache-2.0 */
/* pool_max.c - the largest value of each window; backward goes to where it was, kept as one byte.
 */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int which =
        oct__program_work(program, OCT_DTYPE_U8, program->batch, layer->h, layer->w, layer->c);
    program->saved[layer->id][0] = which;
    oct__program_call(program, OCT_OP_MAX_POOL, layer, layer->attr, 3, (int[]){x, y, which});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    oct__program_call(program, OCT_OP_MAX_POOL_GRAD, layer, layer->attr, 3,
                      (int[]){program->saved[layer->id][0], dy, dx});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct__layer_kind oct__layer_pool_max = {
    .name = "max_pool", .forward = forward, .backward = backward};
