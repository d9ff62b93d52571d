/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - a training step written down: a list of calls on tensors, made once, run every step.
 *
 * Layers add calls; then memory is planned from when each tensor is first and last used, the engine
 * prepares each call, and a run is a walk down the list. Because the whole step is a list, the same
 * few lines time every call, look for the first NaN, or hand the step to an accelerator as one
 * graph.
 *
 *     tensors by home                          lives in
 *     PARAM MOMENTUM STAT   state of a node    the cohort's arrays, [node][row]
 *     GRAD                  gradient row       the lane
 *     WORK                  everything else    the lane; places are used again by later tensors
 *     DATA                  dataset and table  shared by all
 *
 * Building is sticky like a graph's: after the first failure the calls do nothing, and
 * oct__program_create reports it.
 */
#ifndef OCT_NN_PROGRAM_H
#define OCT_NN_PROGRAM_H

#include "nn/graph.h"

enum oct__home {
    OCT_HOME_PARAM,
    OCT_HOME_MOMENTUM,
    OCT_HOME_STAT,
    OCT_HOME_GRAD,
    OCT_HOME_WORK,
    OCT_HOME_DATA,
    OCT_HOME_COUNT
};

enum oct__mode { OCT_MODE_TRAIN, OCT_MODE_EVAL };

struct oct__program_tensor {
    enum oct__home home;
    struct oct__tensor shape; /* address and stride are filled in for a run */
    size_t offset;            /* bytes from the home's start */
    int first, last;          /* calls that touch it */
    int is_pinned;            /* read or written from outside: keeps its place all the time */
};

struct oct__program_call {
    enum oct__op op;
    int layer;                  /* of the graph; -1: none */
    int tensors[OCT_ARGS_MOST]; /* -1: absent */
    union oct__attr attr;
    struct oct__plan plan;
};

struct oct__program {
    struct oct__engine *engine;
    const struct oct_graph *graph;
    struct oct__lane_form form;
    enum oct__mode mode;
    int batch;

    struct oct__program_tensor *tensors;
    size_t n_tensors, tensor_capacity;
    struct oct__program_call *calls;
    size_t n_calls, call_capacity;
    size_t n_forward; /* calls up to and including the loss */
    int *values;      /* [n_layers] tensor of each layer's value */
    int *gradients;   /* [n_layers] tensor of the gradient that has arrived so far; -1: none */
    int (*saved)[OCT_LAYER_SAVED]; /* [n_layers] what norms and pooling keep for backward */
    oct_status status;
    char detail[OCT_DETAIL_BYTES];

    /* tensors that the outside writes and reads */
    int images, lut, picks, labels, loss, hit, logits, flag;

    struct oct__plan search_plan; /* of NONFINITE on any of the tensors */

    size_t work_bytes; /* of one node */
    size_t shared_scratch_bytes, thread_scratch_bytes;
};

/* Hyper-parameters that are fixed for a program. */
struct oct__program_config {
    enum oct__mode mode;
    int batch;
    struct oct__lane_form form;
    int dataset_images, dataset_height, dataset_width; /* of the table that BATCH reads */
    float beta, decay;                                 /* SGD */
};

OCT_MUST_CHECK oct_status oct__program_create(struct oct__engine *engine,
                                              const struct oct_graph *graph,
                                              const struct oct__program_config *config,
                                              struct oct__program **out);
void oct__program_destroy(struct oct__program *program);

/* --- for layers, while a program is made ------------------------------------------------------ */

/* A new tensor in the lane, for the whole batch. */
int oct__program_work(struct oct__program *program, enum oct__dtype dtype, int n, int h, int w,
                      int c);
/* A layer's parameter, its gradient, its statistic. -1 when the layer has none there. */
int oct__program_param(struct oct__program *program, const struct oct__layer *layer, int index);
int oct__program_grad(struct oct__program *program, const struct oct__layer *layer, int index);
int oct__program_stat(struct oct__program *program, const struct oct__layer *layer, int index);

/* Appends a call; `tensors` in the order of ops.def, n of them. */
void oct__program_call(struct oct__program *program, enum oct__op op,
                       const struct oct__layer *layer, union oct__attr attr, int n,
                       const int *tensors);

/* The value of the layer's input `index`, and a new tensor for its own value. */
int oct__value_in(const struct oct__program *program, const struct oct__layer *layer, int index);
int oct__value_new(struct oct__program *program, const struct oct__layer *layer);
/* The layer's value takes its input's place: only when nothing else needs that input. */
int oct__value_in_place(struct oct__program *program, const struct oct__layer *layer);

/* The gradient that arrived at the layer's value. */
int oct__gradient_out(const struct oct__program *program, const struct oct__layer *layer);
/* Whether anybody wants the gradient of the layer's input `index`. */
int oct__gradient_wanted(const struct oct__program *program, const struct oct__layer *layer,
                         int index);
/* A new tensor shaped like the layer's input `index`. */
int oct__gradient_new(struct oct__program *program, const struct oct__layer *layer, int index);
/* `tensor` is a contribution to the gradient of the layer's input `index`; `is_fresh`: nobody else
 * reads it, so that a sum may be formed in its place. */
void oct__gradient_give(struct oct__program *program, const struct oct__layer *layer, int index,
                        int tensor, int is_fresh);

/* --- running --------------------------------------------------------------------------------- */

/* Where each home begins for the launch's first node, and how far nodes are apart. */
struct oct__bases {
    void *at[OCT_HOME_COUNT];
    size_t stride[OCT_HOME_COUNT];
    void *images, *lut; /* the two tensors of home DATA */
};

/* Time per call, summed over runs; NULL: not measured. */
struct oct__profile {
    double *seconds; /* [n_calls] */
};

/* Runs calls `from` … `to` - 1. A step is run in two pieces, so that a loss that is not finite is noticed
 * before the update spreads it. */
OCT_MUST_CHECK oct_status oct__program_run(const struct oct__program *program,
                                           const struct oct__lane *lane,
                                           const struct oct__bases *bases, size_t from, size_t to,
                                           const struct oct__profile *profile);

/* Only the products, without what surrounds them: the floor. */
OCT_MUST_CHECK oct_status oct__program_run_floor(const struct oct__program *program,
                                                 const struct oct__lane *lane,
                                                 const struct oct__bases *bases);

/* Runs call by call until a NaN or an infinity appears and returns NOT_FINITE with the layer and
 * operation; OCT_OK when none does. Parameters are looked at first. */
OCT_MUST_CHECK oct_status oct__program_find_nonfinite(const struct oct__program *program,
                                                      const struct oct__lane *lane,
                                                      const struct oct__bases *bases);

/* The address of a tensor for the launch's node `node`. */
void *oct__program_at(const struct oct__program *program, const struct oct__bases *bases,
                      int tensor, int node);

/* What a lane for this program needs: WORK and GRAD of its nodes, scratch. */
struct oct__lane_need {
    size_t work_stride, grad_stride, shared_scratch, thread_scratch;
    size_t total_bytes;
};

struct oct__lane_need oct__program_need(const struct oct__program *program);

#endif
