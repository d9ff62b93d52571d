/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - making a program from a graph: calls, tensors, memory places. */
#include "nn/program.h"

#include <string.h>

#include "nn/layer.h"

/* --- building -------------------------------------------------------------------------------- */

void oct__program_mistake(struct oct__program *program, oct_status status) {
    if (program->status == OCT_OK) {
        program->status = status;
        oct__detail_take(program->detail);
    }
}

static int tensor_new(struct oct__program *program, enum oct__home home, enum oct__dtype dtype,
                      int n, int h, int w, int c, size_t offset) {
    if (program->status != OCT_OK) {
        return -1;
    }
    void *tensors = program->tensors;
    oct_status status = oct__alloc_grow(&tensors, &program->tensor_capacity, program->n_tensors + 1,
                                        sizeof *program->tensors, "tensor list");
    program->tensors = tensors;
    if (status != OCT_OK) {
        oct__program_mistake(program, status);
        return -1;
    }
    struct oct__program_tensor *tensor = &program->tensors[program->n_tensors];
    memset(tensor, 0, sizeof *tensor);
    tensor->home = home;
    tensor->shape = (struct oct__tensor){.dtype = dtype, .n = n, .h = h, .w = w, .c = c};
    tensor->offset = offset;
    tensor->first = tensor->last = -1;
    return (int)program->n_tensors++;
}

int oct__program_work(struct oct__program *program, enum oct__dtype dtype, int n, int h, int w,
                      int c) {
    return tensor_new(program, OCT_HOME_WORK, dtype, n, h, w, c, 0);
}

int oct__program_pinned(struct oct__program *program, enum oct__dtype dtype, int n, int c) {
    int tensor = oct__program_work(program, dtype, n, 1, 1, c);
    if (tensor >= 0) {
        program->tensors[tensor].is_pinned = 1;
    }
    return tensor;
}

int oct__program_row(struct oct__program *program, const struct oct__row *row, enum oct__home home,
                     int index) {
    if (index < 0) {
        return -1;
    }
    const struct oct__param *p = &row->items[index];
    return tensor_new(program, home, OCT_DTYPE_F32, p->n, p->h, p->w, p->c,
                      p->offset * sizeof(float));
}

int oct__program_param(struct oct__program *program, const struct oct__layer *layer, int index) {
    return oct__program_row(program, &program->graph->params, OCT_HOME_PARAM, layer->param[index]);
}

int oct__program_grad(struct oct__program *program, const struct oct__layer *layer, int index) {
    return oct__program_row(program, &program->graph->params, OCT_HOME_GRAD, layer->param[index]);
}

int oct__program_stat(struct oct__program *program, const struct oct__layer *layer, int index) {
    return oct__program_row(program, &program->graph->stats, OCT_HOME_STAT, layer->stat[index]);
}

void oct__program_touch(struct oct__program *program, int tensor, int call) {
    struct oct__program_tensor *t = &program->tensors[tensor];
    t->first = t->first < 0 ? call : t->first;
    t->last = call;
}

void oct__program_call(struct oct__program *program, enum oct__op op,
                       const struct oct__layer *layer, union oct__attr attr, int n,
                       const int *tensors) {
    if (program->status != OCT_OK) {
        return;
    }
    if ((size_t)n != strlen(oct__op_info[op].operands)) {
        oct__program_mistake(program,
                             oct__fail(OCT_STATUS_INTERNAL, "%s: %d operands, %s expected",
                                       oct__op_info[op].name, n, oct__op_info[op].operands));
        return;
    }
    void *calls = program->calls;
    oct_status status = oct__alloc_grow(&calls, &program->call_capacity, program->n_calls + 1,
                                        sizeof *program->calls, "call list");
    program->calls = calls;
    if (status != OCT_OK) {
        oct__program_mistake(program, status);
        return;
    }
    int index = (int)program->n_calls++;
    struct oct__program_call *call = &program->calls[index];
    memset(call, 0, sizeof *call);
    call->op = op;
    call->layer = layer ? layer->id : -1;
    call->attr = attr;
    call->keeps_for = -1;
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        call->tensors[i] = i < n ? tensors[i] : -1;
        if (call->tensors[i] >= 0) {
            oct__program_touch(program, call->tensors[i], index);
        }
    }
}

/* In int8 a value that has a quantizer is seen through it by everybody: as bytes, or as floats made
 * of them for layers that compute in floats. */
int oct__value_of(struct oct__program *program, const struct oct__layer *layer) {
    int *value = &program->values[layer->id];
    if (oct__is_int8(program) && oct__bytes_wanted(layer)) {
        oct__bytes_of(program, layer);
    }
    if (*value < 0 && oct__is_int8(program) && program->int8[layer->id].bytes >= 0) {
        const struct oct__layer_int8 *from = &program->int8[layer->id];
        oct__value_new(program, layer);
        oct__program_call(program, OCT_OP_DEQUANTIZE, layer, (union oct__attr){0}, 3,
                          (int[]){from->bytes, from->grid, *value});
    }
    return *value;
}

int oct__value_in(struct oct__program *program, const struct oct__layer *layer, int index) {
    return oct__value_of(program, &program->graph->layers[layer->in[index]]);
}

int oct__value_new(struct oct__program *program, const struct oct__layer *layer) {
    return program->values[layer->id] = oct__program_work(program, OCT_DTYPE_F32, program->batch,
                                                          layer->h, layer->w, layer->c);
}

int oct__value_in_place(struct oct__program *program, const struct oct__layer *layer) {
    const struct oct__layer *from = &program->graph->layers[layer->in[0]];
    /* The loss reads the output, whoever else does. */
    if (from->n_uses > 1 || from->kind->keeps_output || from->id == program->graph->output) {
        return oct__value_new(program, layer);
    }
    program->values[layer->id] = oct__value_of(program, from);
    if (oct__is_int8(program)) {
        program->values[from->id] = -1; /* its bytes, if it has any, are not overwritten */
    }
    return program->values[layer->id];
}

/* In int8, norms and sums see the gradient through 8 bits, as their native forms do. */
int oct__gradient_out(struct oct__program *program, const struct oct__layer *layer) {
    if (!oct__is_int8(program)) {
        return program->gradients[layer->id];
    }
    if (layer->kind->quantizes_gradient) {
        struct oct__arrival quantized = {.is_masked = 1};
        quantized.tensor = oct__gradient_bytes(program, layer, &quantized.scale);
        program->int8[layer->id].arrived[0] = quantized;
        program->int8[layer->id].n_arrived = 1;
    }
    return oct__gradient_floats(program, layer, OCT_DTYPE_F32);
}

int oct__gradient_wanted(const struct oct__program *program, const struct oct__layer *layer,
                         int index) {
    return program->graph->layers[layer->in[index]].kind != &oct__layer_input;
}

int oct__gradient_new(struct oct__program *program, const struct oct__layer *layer, int index) {
    const struct oct__layer *from = &program->graph->layers[layer->in[index]];
    return oct__program_work(program, OCT_DTYPE_F32, program->batch, from->h, from->w, from->c);
}

/* A sum is formed in the place of a fresh contribution, never of one that others may still read. */
void oct__gradient_give(struct oct__program *program, const struct oct__layer *layer, int index,
                        int tensor, int is_fresh) {
    if (oct__is_int8(program)) {
        oct__gradient_arrive(program, layer, index, (struct oct__arrival){tensor, -1, 0});
        return;
    }
    int *gradient = &program->gradients[layer->in[index]];
    if (*gradient < 0) {
        *gradient = tensor;
        return;
    }
    int sum = is_fresh ? tensor : oct__gradient_new(program, layer, index);
    oct__program_call(program, OCT_OP_ADD, layer, (union oct__attr){0}, 3,
                      (int[]){*gradient, tensor, sum});
    *gradient = sum;
}

/* --- memory places --------------------------------------------------------------------------- */

static int overlap(const struct oct__program_tensor *a, const struct oct__program_tensor *b) {
    return a->is_pinned || b->is_pinned || (a->first <= b->last && b->first <= a->last);
}

/* Largest first, each at the lowest place where it disturbs none of those already placed that live
 * at the same time. Quadratic in the number of tensors, of which there are a few hundred. */
static oct_status place_work(struct oct__program *program) {
    void *memory;
    size_t n = 0;
    OCT_TRY(oct__alloc_array(program->n_tensors, sizeof(struct oct__program_tensor *), "placement",
                             &memory));
    struct oct__program_tensor **order = memory;
    for (size_t i = 0; i < program->n_tensors; i++) {
        struct oct__program_tensor *tensor = &program->tensors[i];
        if (tensor->home != OCT_HOME_WORK || (tensor->first < 0 && !tensor->is_pinned)) {
            continue;
        }
        size_t at = n++;
        while (at > 0 &&
               oct__tensor_bytes(&order[at - 1]->shape) < oct__tensor_bytes(&tensor->shape)) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = tensor;
    }
    program->work_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = oct__rounded(oct__tensor_bytes(&order[i]->shape)), offset = 0;
        for (size_t j = 0; j < i;) {
            size_t end = order[j]->offset + oct__rounded(oct__tensor_bytes(&order[j]->shape));
            if (overlap(order[i], order[j]) && offset < end && order[j]->offset < offset + bytes) {
                offset = end; /* begin again: an earlier one may lie there */
                j = 0;
            } else {
                j++;
            }
        }
        order[i]->offset = offset;
        if (program->work_bytes < offset + bytes) {
            program->work_bytes = offset + bytes;
        }
    }
    oct__free(order);
    return OCT_OK;
}

static void fill_args(const struct oct__program *program, const struct oct__program_call *call,
                      struct oct__args *args) {
    memset(args, 0, sizeof *args);
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        if (call->tensors[i] >= 0) {
            args->t[i] = program->tensors[call->tensors[i]].shape;
        }
    }
    args->attr = call->attr;
    args->layer = call->layer;
    args->handle = call->plan.handle;
}

static oct_status prepare(struct oct__program *program, enum oct__op op,
                          const struct oct__args *args, struct oct__plan *plan) {
    OCT_TRY(oct__engine_prepare(program->engine, op, &program->form, args, plan));
    size_t shared = oct__rounded(plan->shared_bytes), thread = oct__rounded(plan->thread_bytes);
    if (program->shared_scratch_bytes < shared) {
        program->shared_scratch_bytes = shared;
    }
    if (program->thread_scratch_bytes < thread) {
        program->thread_scratch_bytes = thread;
    }
    return OCT_OK;
}

/* Every call, and the search for a NaN in the largest tensor there is. */
static oct_status prepare_calls(struct oct__program *program, int keeps) {
    struct oct__args args;
    for (size_t i = 0; i < program->n_calls; i++) {
        struct oct__program_call *call = &program->calls[i];
        fill_args(program, call, &args);
        OCT_TRY(prepare(program, call->op, &args, &call->plan));
        if (!keeps) {
            call->plan.kept_bytes = 0;
        }
    }
    memset(&args, 0, sizeof args);
    args.t[1] = program->tensors[program->flag].shape;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const struct oct__tensor *shape = &program->tensors[i].shape;
        if (shape->dtype == OCT_DTYPE_F32 &&
            oct__tensor_count(shape) > oct__tensor_count(&args.t[0])) {
            args.t[0] = *shape;
        }
    }
    return prepare(program, OCT_OP_NONFINITE, &args, &program->search_plan);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void write_forward(struct oct__program *program) {
    for (size_t i = 0; i < program->graph->n_layers; i++) {
        const struct oct__layer *layer = &program->graph->layers[i];
        layer->kind->forward(program, layer);
    }
    program->logits = oct__value_of(program, &program->graph->layers[program->graph->output]);
}

/* What waits for backward in int8 waits as bytes: floats that were made of it on the way are
 * forgotten. */
static void forget_floats(struct oct__program *program) {
    for (size_t i = 0; i < program->graph->n_layers; i++) {
        if (program->int8[i].bytes >= 0) {
            program->values[i] = -1;
        }
    }
}

static void write_backward(struct oct__program *program) {
    for (size_t i = program->graph->n_layers; i-- > 0;) {
        const struct oct__layer *layer = &program->graph->layers[i];
        /* a value that nobody reads has no gradient */
        if (oct__is_int8(program) ? program->int8[i].n_arrived > 0 : program->gradients[i] >= 0) {
            layer->kind->backward(program, layer);
        }
    }
}

static void write_loss(struct oct__program *program) {
    const struct oct__layer *last = &program->graph->layers[program->graph->output];
    int dlogits = -1;
    if (program->mode == OCT_MODE_TRAIN) {
        dlogits = oct__program_work(program, OCT_DTYPE_F32, program->batch, 1, 1, last->c);
        program->gradients[last->id] = dlogits;
        if (oct__is_int8(program)) {
            program->int8[last->id].arrived[0] = (struct oct__arrival){dlogits, -1, 0};
            program->int8[last->id].n_arrived = 1;
        }
    }
    oct__program_call(
        program, OCT_OP_LOSS, last, (union oct__attr){0}, 5,
        (int[]){program->logits, program->labels, program->loss, program->hit, dlogits});
}

static void write_update(struct oct__program *program, const struct oct__program_config *config) {
    const int n = (int)program->graph->params.n_elements;
    const enum oct__home updated = config->settles ? OCT_HOME_NUMERATOR : OCT_HOME_PARAM;
    int x = tensor_new(program, updated, OCT_DTYPE_F32, 1, 1, 1, n, 0);
    int m = tensor_new(program, OCT_HOME_MOMENTUM, OCT_DTYPE_F32, 1, 1, 1, n, 0);
    int g = tensor_new(program, OCT_HOME_GRAD, OCT_DTYPE_F32, 1, 1, 1, n, 0);
    const double own = config->is_global ? config->own : 0.0;
    const double keep = config->keep > 0.0 ? config->keep : (double)config->beta;
    const double fresh = 1.0 - keep;
    union oct__attr sgd = {.sgd = {.beta = config->beta,
                                   .decay = config->decay,
                                   .is_global = config->is_global,
                                   .own = (float)(fresh * own)}};
    program->n_backward = program->n_calls;
    if (config->clip > 0.0) {
        union oct__attr clip = {.clip = {.norm = config->clip}};
        oct__program_call(program, OCT_OP_CLIP, NULL, clip, 1, (int[]){g});
    }
    oct__program_call(program, OCT_OP_SGD, NULL, sgd, 3, (int[]){x, m, g});
    program->n_update = program->n_calls;
    int anchor = -1;
    if (config->slow_beta > 0.0) {
        anchor = tensor_new(program, OCT_HOME_ANCHOR, OCT_DTYPE_F32, 1, 1, 1, n, 0);
        int slow = tensor_new(program, OCT_HOME_SLOW, OCT_DTYPE_F32, 1, 1, 1, n, 0);
        union oct__attr attr = {
            .slow = {.beta = (float)config->slow_beta, .rate = config->slow_rate}};
        oct__program_call(program, OCT_OP_SLOW, NULL, attr, 3, (int[]){x, anchor, slow});
    }
    program->n_slow = program->n_calls;
    if (config->slow_beta > 0.0) {
        oct__program_call(program, OCT_OP_COPY, NULL, (union oct__attr){0}, 2, (int[]){x, anchor});
    }
    program->n_anchored = program->n_calls;
    if (config->settles) {
        int u = tensor_new(program, OCT_HOME_WEIGHT, OCT_DTYPE_F32, 1, 1, 1, 1, 0);
        int z = tensor_new(program, OCT_HOME_PARAM, OCT_DTYPE_F32, 1, 1, 1, n, 0);
        union oct__attr settle = {.settle = {.beta = sgd.sgd.own != 0.0F ? 1.0F : (float)keep,
                                             .share = fresh * (1.0 - own)}};
        oct__program_call(program, OCT_OP_SETTLE, NULL, settle, 4,
                          (int[]){x, u, z, config->is_global ? m : -1});
    }
}

static oct_status write_program(struct oct__program *program,
                                const struct oct__program_config *config) {
    const struct oct_graph *graph = program->graph;
    size_t n_layers = graph->n_layers;
    void *memory;
    const size_t n_numbers = n_layers * (2 + OCT_LAYER_SAVED);
    OCT_TRY(oct__alloc_array(n_numbers, sizeof(int), "layer tables", &memory));
    program->values = memory;
    program->gradients = program->values + n_layers;
    program->saved = (int(*)[OCT_LAYER_SAVED])(program->gradients + n_layers);
    for (size_t i = 0; i < n_numbers; i++) {
        program->values[i] = -1;
    }
    if (graph->is_int8) {
        OCT_TRY(oct__alloc_array(n_layers, sizeof *program->int8, "layer tables", &memory));
        program->int8 = memory;
        for (size_t i = 0; i < n_layers; i++) {
            struct oct__layer_int8 *of = &program->int8[i];
            of->bytes = of->grid = of->weights = of->weight_scale = -1;
            for (int j = 0; j < OCT_LAYER_PARAMS; j++) {
                of->vectors[j] = -1;
            }
        }
    }
    program->images = tensor_new(program, OCT_HOME_DATA, OCT_DTYPE_U8, config->dataset_images,
                                 config->dataset_height, config->dataset_width, graph->channels, 0);
    program->lut = tensor_new(program, OCT_HOME_DATA, OCT_DTYPE_F32, 1, 1, 4, 256, 0);
    program->picks = oct__program_pinned(program, OCT_DTYPE_S32, program->batch, 5);
    program->labels = oct__program_pinned(program, OCT_DTYPE_S32, program->batch, 1);
    program->loss = oct__program_pinned(program, OCT_DTYPE_F32, program->batch, 1);
    program->hit = oct__program_pinned(program, OCT_DTYPE_F32, program->batch, 1);
    program->flag = oct__program_pinned(program, OCT_DTYPE_S32, 1, 1);
    write_forward(program);
    write_loss(program);
    program->n_forward = program->n_calls;
    if (program->mode == OCT_MODE_TRAIN) {
        if (oct__is_int8(program)) {
            forget_floats(program);
        }
        write_backward(program);
        write_update(program, config);
    }
    if (program->status != OCT_OK) {
        oct__detail_give(program->detail);
        return program->status;
    }
    if (program->mode == OCT_MODE_EVAL && program->logits >= 0) {
        program->tensors[program->logits].is_pinned = 1;
    }
    if (program->mode == OCT_MODE_TRAIN) {
        OCT_TRY(oct__program_gather(program));
    }
    const int keeps = config->keeps && program->mode == OCT_MODE_EVAL;
    OCT_TRY(prepare_calls(program, keeps));
    if (keeps) {
        OCT_TRY(oct__program_keep(program));
    }
    return place_work(program);
}

oct_status oct__program_create(struct oct__engine *engine, const struct oct_graph *graph,
                               const struct oct__program_config *config,
                               struct oct__program **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__program), "program", &memory));
    struct oct__program *program = memory;
    program->engine = engine;
    program->number = ++engine->n_programs;
    program->graph = graph;
    program->form = config->form;
    program->mode = config->mode;
    program->batch = config->batch;
    oct_status status = write_program(program, config);
    if (status != OCT_OK) {
        oct__program_destroy(program);
        return status;
    }
    *out = program;
    return OCT_OK;
}

void oct__program_destroy(struct oct__program *program) {
    if (!program) {
        return;
    }
    for (size_t i = 0; i < program->n_calls; i++) {
        oct__engine_release(program->engine, program->calls[i].op, program->calls[i].plan.handle);
    }
    oct__engine_release(program->engine, OCT_OP_NONFINITE, program->search_plan.handle);
    oct__free(program->calls);
    oct__free(program->tensors);
    oct__free(program->values);
    oct__free(program->int8);
    oct__free(program->watches);
    oct__free(program);
}
