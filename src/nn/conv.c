/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c - convolutions, and linear layers as convolutions over a map of one position.
 *
 * In int8 the gradient forks here: what goes on to the input is a product of s8 with s8, the
 * weights' own gradient comes from the arriving floats as they are.
 */
#include "nn/layer.h"

static void forward_int8(struct oct__program *program, const struct oct__layer *layer) {
    int grid, scale, q_grid;
    int x = oct__bytes_in(program, layer, 0, &grid);
    int weights = oct__program_weights(program, layer, &scale);
    int bias = oct__program_vector(program, layer, 1);
    int sums =
        oct__program_work(program, OCT_DTYPE_S32, program->batch, layer->h, layer->w, layer->c);
    union oct__attr conv = layer->attr, attr = {.quant = oct__quant_attr(program)};
    conv.conv.as_floats = 1;
    oct__program_call(program, OCT_OP_CONV_U8, layer, conv, 4, (int[]){x, grid, weights, sums});
    if (!oct__bytes_wanted(layer)) {
        oct__program_call(program, OCT_OP_SUMS_DEQUANTIZE, layer, attr, 5,
                          (int[]){sums, grid, scale, bias, oct__value_new(program, layer)});
        return;
    }
    int q = oct__bytes_new(program, layer, &q_grid);
    oct__program_call(program, OCT_OP_SUMS_QUANTIZE, layer, attr, 7,
                      (int[]){sums, grid, scale, bias, oct__range_of(program, layer), q, q_grid});
    oct__watch(program, layer, 0, q, q_grid);
}

static void backward_int8(struct oct__program *program, const struct oct__layer *layer) {
    int grid, scale, dy_scale;
    int x = oct__bytes_in(program, layer, 0, &grid);
    int dy = oct__gradient_floats(program, layer, program->engine->gradient);
    oct__program_call(program, OCT_OP_CONV_U8_WGRAD, layer, layer->attr, 5,
                      (int[]){x, grid, dy, oct__program_grad(program, layer, 0),
                              oct__program_grad(program, layer, 1)});
    if (!oct__gradient_wanted(program, layer, 0)) {
        return;
    }
    const struct oct__layer *from = &program->graph->layers[layer->in[0]];
    int weights = oct__program_weights(program, layer, &scale);
    int bytes = oct__gradient_folded(program, layer, dy, scale, &dy_scale);
    int sums = oct__program_work(program, OCT_DTYPE_S32, program->batch, from->h, from->w, from->c);
    oct__program_call(program, OCT_OP_CONV_S8_DGRAD, layer, layer->attr, 3,
                      (int[]){bytes, weights, sums});
    oct__gradient_arrive(program, layer, 0, (struct oct__arrival){sums, dy_scale, 0});
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    if (oct__is_int8(program)) {
        forward_int8(program, layer);
        return;
    }
    int x = oct__value_in(program, layer, 0), y = oct__value_new(program, layer);
    int weight = oct__program_param(program, layer, 0);
    int bias = oct__program_param(program, layer, 1);
    oct__program_call(program, OCT_OP_CONV, layer, layer->attr, 4, (int[]){x, weight, bias, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    if (oct__is_int8(program)) {
        backward_int8(program, layer);
        return;
    }
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
    .name = "conv", .forward = forward, .backward = backward, .reads_bytes = 1};
