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
 *     NUMERATOR WEIGHT
 *     ANCHOR SLOW
 *     GRAD                  gradient row       the lane
 *     WORK                  everything else    the lane; places are used again by later tensors
 *     KEPT                  made of parameters shared by the lanes that run the same parameters
 *     DATA                  dataset and table  shared by all
 *
 * A gradient is taken at z (PARAM), the update goes to x (NUMERATOR), and z = x / u (WEIGHT) after
 * gossip. Where z and x never differ while anybody looks, they are one row in one place.
 *
 * Where parameters stay the same from batch to batch, at evaluation, what depends on them alone need
 * not be computed with each: such a program *keeps* it. Its first n_once calls quantize weights and
 * bring them into the form that products read; they are run when parameters are set, all others for
 * every batch.
 *
 *     calls   [weight_quantize, keep, weight_quantize, keep, … | batch, conv, norm, … loss]
 *              0                                                 n_once                    n_calls
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
    OCT_HOME_NUMERATOR,
    OCT_HOME_WEIGHT, /* one float: the push-sum weight */
    OCT_HOME_ANCHOR, /* where the node was after the last round, */
    OCT_HOME_SLOW,   /* … and its slow momentum */
    OCT_HOME_STATES, /* those before it are a node's state */
    OCT_HOME_GRAD = OCT_HOME_STATES,
    OCT_HOME_WORK,
    OCT_HOME_KEPT,
    OCT_HOME_DATA,
    OCT_HOME_COUNT
};

enum oct__mode { OCT_MODE_TRAIN, OCT_MODE_EVAL };

/* A part of a layer's gradient in int8: floats, or integers with their scale. */
struct oct__arrival {
    int tensor, scale; /* scale -1: floats */
    int is_masked;     /* already 0 where the layer's value was clipped */
};

/* What an int8 program knows about a layer besides its value in floats. */
struct oct__layer_int8 {
    int bytes, grid; /* its value, quantized; -1: not */
    struct oct__arrival arrived[2];
    int n_arrived;
    int vectors[OCT_LAYER_PARAMS]; /* its parameters on 256 steps */
    int weights, weight_scale;
};

/* A quantizer that can be watched. */
struct oct__watch {
    int layer;
    int is_gradient;
    int tensor; /* four floats, written by QUANT_COUNT */
};

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
    int keeps_for;  /* the call for which this one makes what it keeps; -1: an ordinary call */
    size_t kept_at; /* in KEPT, where plan.kept_bytes is not 0 */
};

struct oct__program {
    struct oct__engine *engine;
    uint64_t number; /* of all programs that the engine has had */
    const struct oct_graph *graph;
    struct oct__lane_form form;
    enum oct__mode mode;
    int batch;

    struct oct__program_tensor *tensors;
    size_t n_tensors, tensor_capacity;
    struct oct__program_call *calls;
    size_t n_calls, call_capacity;
    size_t n_once;     /* calls that depend on parameters alone, where they are kept; else 0 */
    size_t n_gathered; /* calls at the front that read parameters alone, sorted by operation */
    size_t n_forward;  /* calls up to and including the loss */
    size_t n_backward; /* calls before the update */
    size_t n_update;   /* calls up to and including the update, */
    size_t n_slow;     /* … slow momentum's, where a round of gossip follows, */
    size_t n_anchored; /* … what it keeps of the round; the rest settles what gossip left */
    int *values;       /* [n_layers] tensor of each layer's value */
    int *gradients;    /* [n_layers] tensor of the gradient that has arrived so far; -1: none */
    int (*saved)[OCT_LAYER_SAVED]; /* [n_layers] what norms and pooling keep for backward */
    struct oct__layer_int8 *int8;  /* [n_layers]; NULL in fp32 */
    struct oct__watch *watches;    /* one for each quantizer */
    size_t n_watches, watch_capacity;
    oct_status status;
    char detail[OCT_DETAIL_BYTES];

    /* tensors that the outside writes and reads */
    int images, lut, picks, labels, loss, hit, logits, flag;

    struct oct__plan search_plan; /* of NONFINITE on any of the tensors */

    size_t work_bytes, kept_bytes; /* of one node */
    size_t shared_scratch_bytes, thread_scratch_bytes;
};

/* Hyper-parameters that are fixed for a program. */
struct oct__program_config {
    enum oct__mode mode;
    int batch;
    struct oct__lane_form form;
    int dataset_images, dataset_height, dataset_width; /* of the table that BATCH reads */
    double clip;                                       /* longest gradient; 0: any */
    float beta, decay;                                 /* SGD */
    int is_global; /* momentum follows what gossip made of the update (quasi-global momentum), */
    double own;    /* … and the update itself so far: 0, not at all, to 1, alone, */
    double keep;   /* … so much of it staying each time (0: beta; with `own`, beta) */
    int settles;   /* x is a row of its own, and z = x / u follows gossip */
    double slow_beta, slow_rate; /* momentum from round to round; beta 0: none */
    int keeps;                   /* EVAL: what depends on parameters alone is kept */
};

OCT_MUST_CHECK oct_status oct__program_create(struct oct__engine *engine,
                                              const struct oct_graph *graph,
                                              const struct oct__program_config *config,
                                              struct oct__program **out);
void oct__program_destroy(struct oct__program *program);

/* Tensors begin at cache lines. */
static inline size_t oct__rounded(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* --- for layers, while a program is made ------------------------------------------------------ */

/* A new tensor in the lane, for the whole batch. */
int oct__program_work(struct oct__program *program, enum oct__dtype dtype, int n, int h, int w,
                      int c);
/* A layer's parameter, its gradient, its statistic. -1 when the layer has none there. */
int oct__program_param(struct oct__program *program, const struct oct__layer *layer, int index);
int oct__program_grad(struct oct__program *program, const struct oct__layer *layer, int index);
int oct__program_stat(struct oct__program *program, const struct oct__layer *layer, int index);

/* Item `index` of a row, living in `home`; -1 when there is none. */
int oct__program_row(struct oct__program *program, const struct oct__row *row, enum oct__home home,
                     int index);
/* A small tensor [n][c] that keeps its place, because the outside reads or writes it. */
int oct__program_pinned(struct oct__program *program, enum oct__dtype dtype, int n, int c);
/* Call `call` reads or writes a tensor. */
void oct__program_touch(struct oct__program *program, int tensor, int call);
/* Sorts calls that have their plans and keeps what it can: program_keep.c. */
OCT_MUST_CHECK oct_status oct__program_keep(struct oct__program *program);
/* Brings calls to the front that an engine would rather run together: program_gather.c. */
OCT_MUST_CHECK oct_status oct__program_gather(struct oct__program *program);
/* When each tensor is first and last used, found again after calls were sorted. */
void oct__program_find_lives(struct oct__program *program);
/* Remembers the first failure. */
void oct__program_mistake(struct oct__program *program, oct_status status);

/* Appends a call; `tensors` in the order of ops.def, n of them. */
void oct__program_call(struct oct__program *program, enum oct__op op,
                       const struct oct__layer *layer, union oct__attr attr, int n,
                       const int *tensors);

/* The value of the layer's input `index` in floats (in int8 dequantized where need be), the layer's
 * own, and a new tensor for that. */
int oct__value_in(struct oct__program *program, const struct oct__layer *layer, int index);
int oct__value_of(struct oct__program *program, const struct oct__layer *layer);
int oct__value_new(struct oct__program *program, const struct oct__layer *layer);
/* The layer's value takes its input's place: only when nothing else needs that input. */
int oct__value_in_place(struct oct__program *program, const struct oct__layer *layer);

/* The gradient that arrived at the layer's value, in floats. */
int oct__gradient_out(struct oct__program *program, const struct oct__layer *layer);
/* Whether anybody wants the gradient of the layer's input `index`. */
int oct__gradient_wanted(const struct oct__program *program, const struct oct__layer *layer,
                         int index);
/* A new tensor shaped like the layer's input `index`. */
int oct__gradient_new(struct oct__program *program, const struct oct__layer *layer, int index);
/* `tensor` is a contribution to the gradient of the layer's input `index`; `is_fresh`: nobody else
 * reads it, so that a sum may be formed in its place. */
void oct__gradient_give(struct oct__program *program, const struct oct__layer *layer, int index,
                        int tensor, int is_fresh);

/* --- the same in int8 (program_int8.c) -------------------------------------------------------- */

static inline int oct__is_int8(const struct oct__program *program) {
    return program->int8 != NULL;
}

/* How this program's quantizers work. */
struct oct__quant_attr oct__quant_attr(const struct oct__program *program);

/* A range norm's attributes in this program: whether its scale takes 8 bits (not at evaluation,
 * where a result must not depend on the batch it came in), and its quantizer. */
union oct__attr oct__norm_attr(const struct oct__program *program, const struct oct__layer *layer);

/* The layer's input `index` as bytes; quantizes floats that are not yet. */
int oct__bytes_in(struct oct__program *program, const struct oct__layer *layer, int index,
                  int *grid);
/* The layer's own value as bytes. */
int oct__bytes_of(struct oct__program *program, const struct oct__layer *layer);
/* Whether the layer's value has a quantizer: then it is best made as bytes at once, */
int oct__bytes_wanted(const struct oct__layer *layer);
/* … with these new tensors. */
int oct__bytes_new(struct oct__program *program, const struct oct__layer *layer, int *grid);
/* The running range of the layer's quantizer. */
int oct__range_of(struct oct__program *program, const struct oct__layer *layer);
/* Whether a quantizer's range can leave elements out: those of gradients reach to the peak, those
 * of values as the recipe says. */
static inline int oct__watch_clips(const struct oct__program *program,
                                   const struct oct__watch *watch) {
    return !watch->is_gradient && program->graph->recipe.range == OCT_RANGE_MEAN;
}
/* To be called after the call that writes a quantizer's result: lets it be watched. */
void oct__watch(struct oct__program *program, const struct oct__layer *layer, int is_gradient,
                int bytes, int grid);

/* A vector parameter as norms use it: in int8 on 256 steps between its extremes. */
int oct__program_vector(struct oct__program *program, const struct oct__layer *layer, int index);
/* A conv's weights as s8. */
int oct__program_weights(struct oct__program *program, const struct oct__layer *layer, int *scale);

/* The gradient that arrived at the layer's value, as floats of `dtype`, or as s8 with a scale. */
int oct__gradient_floats(struct oct__program *program, const struct oct__layer *layer,
                         enum oct__dtype dtype);
int oct__gradient_bytes(struct oct__program *program, const struct oct__layer *layer, int *scale);
/* The same of `floats`, which oct__gradient_floats gave, times the scale of the weights it will
 * meet. */
int oct__gradient_folded(struct oct__program *program, const struct oct__layer *layer, int floats,
                         int weight_scale, int *scale);
/* A contribution as oct__gradient_give's, in integers, or with its clipped places already 0. */
void oct__gradient_arrive(struct oct__program *program, const struct oct__layer *layer, int index,
                          struct oct__arrival arrival);

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

/* Runs calls `from` … `to` - 1. A step is run in pieces: a loss that is not finite is noticed before
 * the update spreads it (but not before the gradients are under way, which it need not hold up), and gossip comes between the update and what settles it. */
OCT_MUST_CHECK oct_status oct__program_run(const struct oct__program *program,
                                           const struct oct__lane *lane,
                                           const struct oct__bases *bases, size_t from, size_t to,
                                           const struct oct__profile *profile);

/* Only the products, without what surrounds them: the floor. */
OCT_MUST_CHECK oct_status oct__program_run_floor(const struct oct__program *program,
                                                 const struct oct__lane *lane,
                                                 const struct oct__bases *bases,
                                                 const struct oct__profile *profile);

/* Runs call by call until a NaN or an infinity appears and returns NOT_FINITE with the layer and
 * operation; OCT_OK when none does. Parameters are looked at first. */
OCT_MUST_CHECK oct_status oct__program_find_nonfinite(const struct oct__program *program,
                                                      const struct oct__lane *lane,
                                                      const struct oct__bases *bases);

/* The address of a tensor for the launch's node `node`. */
void *oct__program_at(const struct oct__program *program, const struct oct__bases *bases,
                      int tensor, int node);

/* What a lane for this program needs: WORK and GRAD of its nodes, scratch. Lanes that run the same
 * parameters share KEPT. */
struct oct__lane_need {
    size_t work_stride, grad_stride, shared_scratch, thread_scratch;
    size_t total_bytes; /* without KEPT */
    size_t kept_stride;
};

struct oct__lane_need oct__program_need(const struct oct__program *program);

/* The bytes of parameters and statistics, in whatever form, that a batch reads: KEPT, and what is
 * read from the rows of a node's state. */
size_t oct__program_weight_bytes(const struct oct__program *program);

#endif
