/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - the sum of two values; its gradient goes to both, unchanged.
 *
 * In int8 both inputs are bytes with their own grids, and the gradient passes on as s8. The sum is
 * bytes, too, or floats where nobody reads it as bytes.
 */
#include "nn/layer.h"

static void forward_int8(struct oct__program *program, const struct oct__layer *layer) {
    int a_grid, b_grid, q_grid;
    int a = oct__bytes_in(program, layer, 0, &a_grid),
        b = oct__bytes_in(program, layer, 1, &b_grid);
    if (!oct__bytes_wanted(layer)) {
        oct__program_call(program, OCT_OP_ADD_DEQUANTIZE, layer, (union oct__attr){0}, 5,
                          (int[]){a, a_grid, b, b_grid, oct__value_new(program, layer)});
        return;
    }
    int q = oct__bytes_new(program, layer, &q_grid);
    union oct__attr attr = {.quant = oct__quant_attr(program)};
    oct__program_call(program, OCT_OP_ADD_U8, layer, attr, 7,
                      (int[]){a, a_grid, b, b_grid, oct__range_of(program, layer), q, q_grid});
    oct__watch(program, layer, 0, q, q_grid);
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    if (oct__is_int8(program)) {
        forward_int8(program, layer);
        return;
    }
    int a = oct__value_in(program, layer, 0), b = oct__value_in(program, layer, 1);
    int y = oct__value_new(program, layer);
    oct__program_call(program, OCT_OP_ADD, layer, (union oct__attr){0}, 3, (int[]){a, b, y});
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    if (oct__is_int8(program)) {
        struct oct__arrival arrival = {.is_masked = 0};
        arrival.tensor = oct__gradient_bytes(program, layer, &arrival.scale);
        oct__gradient_arrive(program, layer, 0, arrival);
        oct__gradient_arrive(program, layer, 1, arrival);
        return;
    }
    int dy = oct__gradient_out(program, layer);
    for (int i = 0; i < 2; i++) {
        oct__gradient_give(program, layer, i, dy, 0);
    }
}

const struct oct__layer_kind oct__layer_add = {
    .name = "add", .forward = forward, .backward = backward, .reads_bytes = 1};
