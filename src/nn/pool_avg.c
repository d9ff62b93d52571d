/* SPDX-License-Identifier: Apache-2.0 */
/* pool_avg.c - the mean of each window (padding is not counted); the global pool is one window. */
#include "nn/layer.h"

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_AVG_POOL, layer, layer->attr, 2, (int[]){x, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    int dy = oct__gradient_out(program, layer), dx = oct__gradient_new(program, layer, 0);
    oct__program_call(program, OCT_OP_AVG_POOL_GRAD, layer, layer->attr, 2, (int[]){dy, dx});
    oct__gradient_give(program, layer, 0, dx, 1);
}

const struct oct__layer_kind oct__layer_pool_avg = {
    .name = "avg_pool", .forward = forward, .backward = backward};
