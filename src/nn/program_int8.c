/* SPDX-License-Identifier: Apache-2.0 */
/* program_int8.c - what layers need to add 8-bit calls to a program.
 *
 * A value that somebody reads as bytes is quantized once, by its own quantizer, for all its
 * readers; layers that know bytes (conv, the sum, Range EvoNorm) read and write them, all others
 * are given floats made from the bytes, and their result is quantized if one of its readers wants
 * bytes. So every layer works in int8, and those that matter for speed work in it natively.
 *
 *     conv:  u8 · s8 -> s32 -> u8        norm, sum:  u8 -> u8        pool, dropout, ReLU:  float
 *
 * Gradients arrive in parts, from each reader one: floats, s8, or s32 sums of a data-gradient
 * product. They are summed in floats by the call that needs the sum, which also sets it to 0 where
 * the value was clipped.
 */
#include "nn/layer.h"
#include "nn/program.h"

#include "base/alloc.h"

struct oct__quant_attr oct__quant_attr(const struct oct__program *program) {
    const struct oct__recipe *recipe = &program->graph->recipe;
    const int is_training = program->mode == OCT_MODE_TRAIN;
    return (struct oct__quant_attr){
        .range = is_training ? (enum oct__range)recipe->range : OCT_RANGE_RUNNING,
        .stochastic = is_training && recipe->stochastic,
        .mask = recipe->mask && recipe->range == OCT_RANGE_MEAN, /* full ranges clip nothing */
    };
}

static union oct__attr quant(const struct oct__program *program) {
    return (union oct__attr){.quant = oct__quant_attr(program)};
}

union oct__attr oct__norm_attr(const struct oct__program *program, const struct oct__layer *layer) {
    union oct__attr attr = layer->attr;
    if (oct__is_int8(program)) {
        attr.norm.quantize_scale = program->mode == OCT_MODE_TRAIN;
        attr.norm.quant = oct__quant_attr(program);
    }
    return attr;
}

/* --- values ---------------------------------------------------------------------------------- */

int oct__bytes_wanted(const struct oct__layer *layer) {
    return layer->range >= 0;
}

int oct__range_of(struct oct__program *program, const struct oct__layer *layer) {
    const struct oct__row *stats = &program->graph->stats;
    return oct__program_row(program, stats, OCT_HOME_STAT, layer->range);
}

int oct__bytes_new(struct oct__program *program, const struct oct__layer *layer, int *grid) {
    struct oct__layer_int8 *of = &program->int8[layer->id];
    of->bytes =
        oct__program_work(program, OCT_DTYPE_U8, program->batch, layer->h, layer->w, layer->c);
    of->grid = *grid = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1, OCT_GRID);
    return of->bytes;
}

/* The floats that the bytes were made of are forgotten: from here on the bytes are the value. */
int oct__bytes_of(struct oct__program *program, const struct oct__layer *layer) {
    struct oct__layer_int8 *of = &program->int8[layer->id];
    if (of->bytes < 0) {
        int x = program->values[layer->id], grid, q = oct__bytes_new(program, layer, &grid);
        oct__program_call(program, OCT_OP_QUANTIZE, layer, quant(program), 4,
                          (int[]){x, oct__range_of(program, layer), q, grid});
        oct__watch(program, layer, 0, q, grid);
        program->values[layer->id] = -1;
    }
    return of->bytes;
}

int oct__bytes_in(struct oct__program *program, const struct oct__layer *layer, int index,
                  int *grid) {
    const struct oct__layer *from = &program->graph->layers[layer->in[index]];
    int bytes = oct__bytes_of(program, from);
    *grid = program->int8[from->id].grid;
    return bytes;
}

void oct__watch(struct oct__program *program, const struct oct__layer *layer, int is_gradient,
                int bytes, int grid) {
    if (program->mode != OCT_MODE_TRAIN) {
        return;
    }
    void *watches = program->watches;
    oct_status status = oct__alloc_grow(&watches, &program->watch_capacity, program->n_watches + 1,
                                        sizeof *program->watches, "quantizer list");
    program->watches = watches;
    if (status != OCT_OK) {
        oct__program_mistake(program, status);
        return;
    }
    int tensor = oct__program_pinned(program, OCT_DTYPE_F32, 1, 4);
    program->watches[program->n_watches++] = (struct oct__watch){layer->id, is_gradient, tensor};
    oct__program_call(program, OCT_OP_QUANT_COUNT, layer, (union oct__attr){0}, 3,
                      (int[]){bytes, grid, tensor});
}

/* --- parameters ------------------------------------------------------------------------------ */

int oct__program_vector(struct oct__program *program, const struct oct__layer *layer, int index) {
    int parameter = oct__program_param(program, layer, index);
    if (!oct__is_int8(program) || layer->param[index] < 0) {
        return parameter;
    }
    int *vector = &program->int8[layer->id].vectors[index];
    if (*vector < 0) {
        *vector = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1,
                                    program->graph->params.items[layer->param[index]].c);
        oct__program_call(program, OCT_OP_VECTOR_QUANTIZE, layer, (union oct__attr){0}, 2,
                          (int[]){parameter, *vector});
    }
    return *vector;
}

int oct__program_weights(struct oct__program *program, const struct oct__layer *layer, int *scale) {
    struct oct__layer_int8 *of = &program->int8[layer->id];
    if (of->weights < 0) {
        const struct oct__param *p = &program->graph->params.items[layer->param[0]];
        const int n_scales = program->graph->recipe.weights ? p->n : 1;
        of->weights = oct__program_work(program, OCT_DTYPE_S8, p->n, p->h, p->w, p->c);
        of->weight_scale = oct__program_work(program, OCT_DTYPE_F32, 1, 1, 1, n_scales);
        oct__program_call(
            program, OCT_OP_WEIGHT_QUANTIZE, layer, (union oct__attr){0}, 3,
            (int[]){oct__program_param(program, layer, 0), of->weights, of->weight_scale});
    }
    *scale = of->weight_scale;
    return of->weights;
}

/* --- gradients ------------------------------------------------------------------------------- */

/* Operands a, its scale, b, its scale, bytes, grid of a call that sums what has arrived. */
static void sum_operands(const struct oct__program *program, const struct oct__layer *layer,
                         int operands[6]) {
    const struct oct__layer_int8 *of = &program->int8[layer->id];
    const int has_mask = oct__quant_attr(program).mask && of->bytes >= 0;
    int all_masked = 1;
    for (int i = 0; i < 6; i++) {
        operands[i] = -1;
    }
    for (int i = 0; i < of->n_arrived; i++) {
        operands[2 * i] = of->arrived[i].tensor;
        operands[2 * i + 1] = of->arrived[i].scale;
        all_masked &= of->arrived[i].is_masked;
    }
    if (has_mask && !all_masked) {
        operands[4] = of->bytes;
        operands[5] = of->grid;
    }
}

static int gradient_new(struct oct__program *program, const struct oct__layer *layer,
                        enum oct__dtype dtype) {
    return oct__program_work(program, dtype, program->batch, layer->h, layer->w, layer->c);
}

int oct__gradient_floats(struct oct__program *program, const struct oct__layer *layer,
                         enum oct__dtype dtype) {
    const struct oct__layer_int8 *of = &program->int8[layer->id];
    int in[6];
    sum_operands(program, layer, in);
    if (program->status != OCT_OK) {
        return -1;
    }
    if (of->n_arrived == 1 && in[4] < 0 && program->tensors[in[0]].shape.dtype == dtype) {
        return in[0];
    }
    int sum = gradient_new(program, layer, dtype);
    oct__program_call(program, OCT_OP_GRAD_JOIN, layer, (union oct__attr){0}, 7,
                      (int[]){in[0], in[1], in[2], in[3], in[4], in[5], sum});
    return sum;
}

/* Q8 of what arrived, as s8; or times the weights' scale, as the data gradient's product reads it. */
static int quantize_gradient(struct oct__program *program, const struct oct__layer *layer,
                             const int in[6], int weight_scale, int *scale) {
    int bytes = gradient_new(program, layer, weight_scale < 0 ? OCT_DTYPE_S8 : OCT_DTYPE_E8);
    int n_scales = program->graph->recipe.gradients ? program->batch : 1;
    *scale = oct__program_work(program, OCT_DTYPE_F32, n_scales, 1, 1, 1);
    oct__program_call(
        program, OCT_OP_GRAD_QUANTIZE, layer, (union oct__attr){0}, 9,
        (int[]){in[0], in[1], in[2], in[3], in[4], in[5], weight_scale, bytes, *scale});
    oct__watch(program, layer, 1, bytes, *scale);
    return bytes;
}

/* A gradient that is already in s8 is not quantized again. */
int oct__gradient_bytes(struct oct__program *program, const struct oct__layer *layer, int *scale) {
    const struct oct__layer_int8 *of = &program->int8[layer->id];
    int in[6];
    sum_operands(program, layer, in);
    if (program->status != OCT_OK) {
        return *scale = -1;
    }
    if (of->n_arrived > 1 || program->tensors[in[0]].shape.dtype != OCT_DTYPE_S8) {
        return quantize_gradient(program, layer, in, -1, scale);
    }
    *scale = in[1];
    if (in[4] < 0) {
        return in[0];
    }
    int masked = gradient_new(program, layer, OCT_DTYPE_S8);
    oct__program_call(program, OCT_OP_GRAD_MASK, layer, (union oct__attr){0}, 4,
                      (int[]){in[0], in[4], in[5], masked});
    return masked;
}

int oct__gradient_folded(struct oct__program *program, const struct oct__layer *layer, int floats,
                         int weight_scale, int *scale) {
    const int in[6] = {floats, -1, -1, -1, -1, -1};
    return quantize_gradient(program, layer, in, weight_scale, scale);
}

/* Two parts wait as they are; a third has the first two summed. */
void oct__gradient_arrive(struct oct__program *program, const struct oct__layer *layer, int index,
                          struct oct__arrival arrival) {
    const struct oct__layer *from = &program->graph->layers[layer->in[index]];
    struct oct__layer_int8 *of = &program->int8[from->id];
    if (of->n_arrived == 2) {
        struct oct__arrival sum = {.scale = -1, .is_masked = 1};
        sum.tensor = oct__gradient_floats(program, from, OCT_DTYPE_F32);
        of->arrived[0] = sum;
        of->n_arrived = 1;
    }
    of->arrived[of->n_arrived++] = arrival;
}
