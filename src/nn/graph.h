/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - a network as data: layers in order, their parameters and statistics.
 *
 * A graph knows shapes and names, no batch and no engine; those come when a program is made from it
 * (program.h). It knows its precision, because that adds statistics: the ranges of quantizers.
 * Layer i gives value i, and its inputs have smaller numbers, so walking the array forwards is a
 * forward pass and backwards a backward pass.
 *
 * Parameters of all layers form one row of floats, the same for every node:
 *
 *     [stem.weight ....][stem_norm.gamma .][stem_norm.beta .] … [head.bias .]
 *      each begins at a multiple of 16 elements; the gaps are 0 and stay 0
 *
 * Statistics (BatchNorm's running mean and variance, quantizers' ranges) form another. Parameters
 * are trained and gossiped, statistics belong to their node.
 */
#ifndef OCT_NN_GRAPH_H
#define OCT_NN_GRAPH_H

#include <octet/graph.h>

#include "base/arena.h"
#include "engine/engine.h"
#include "nn/recipe.h"

enum oct__init {
    OCT_INIT_CONSTANT, /* every element `init_value` */
    OCT_INIT_NORMAL,   /* mean 0, deviation `init_value` */
    OCT_INIT_UNIFORM,  /* within ±`init_value` */
};

/* One tensor of a row: weights are [n][c][h][w] with n outputs, vectors have c alone. */
struct oct__param {
    const char *name; /* "stage1.block0.conv1.weight" */
    int n, h, w, c;
    int n_dims; /* 4: convolution weights, 2: linear weights, 1: vectors */
    size_t count, offset;
    enum oct__init init;
    double init_value;
};

struct oct__row {
    struct oct__param *items;
    size_t n_items, capacity;
    size_t n_elements; /* gaps included */
};

#define OCT_LAYER_PARAMS 3
#define OCT_LAYER_STATS 2
#define OCT_LAYER_SAVED 3 /* tensors that forward keeps for backward, besides values */

struct oct__layer {
    const struct oct__layer_kind *kind;
    const char *name;
    int id;
    int in[2], n_in;
    int h, w, c;          /* of its value */
    int n_uses;           /* how many layers read its value */
    union oct__attr attr; /* what its operations need to know */
    const struct oct_norm_kind *norm;
    int param[OCT_LAYER_PARAMS]; /* indices into the graph's parameters; -1: none */
    int stat[OCT_LAYER_STATS];   /* into its statistics */
    int range; /* of its value's quantizer, among the statistics; -1: the value is not quantized */
};

struct oct_graph {
    struct oct__arena arena; /* names */
    int height, width, channels, n_classes;
    const struct oct_norm_kind *norm;
    int is_int8;
    struct oct__recipe recipe; /* of an int8 graph */
    struct oct__layer *layers;
    size_t n_layers, layer_capacity;
    struct oct__row params, stats;
    int output;        /* -1: not named yet */
    oct_status status; /* of the first mistake, which sticks */
    char detail[OCT_DETAIL_BYTES];
};

OCT_MUST_CHECK oct_status oct__graph_init(struct oct_graph *graph, int height, int width,
                                          int channels, int n_classes,
                                          const struct oct_norm_kind *norm);
void oct__graph_fini(struct oct_graph *graph);

/* Makes it an int8 graph; before the first layer is added. */
void oct__graph_quantize(struct oct_graph *graph, const struct oct__recipe *recipe);

/* After building: the first mistake, or a missing or misshapen output. Gives an int8 graph's
 * quantizers their ranges. */
OCT_MUST_CHECK oct_status oct__graph_check(struct oct_graph *graph);

/* For layers' own use while a layer is added. They return an index, or -1 after a mistake. */
int oct__graph_param(struct oct_graph *graph, const struct oct__layer *layer, const char *name,
                     struct oct__param shape);
int oct__graph_stat(struct oct_graph *graph, const struct oct__layer *layer, const char *name,
                    int channels, double value);

/* Writes the initial parameters of a run into `row` (params.n_elements floats): tensor i from
 * stream (seed, INIT, 0, 0, i). Statistics start at their constants. */
void oct__row_init(const struct oct__row *row, uint64_t seed, float *values);

/* The number of parameters without the gaps. */
size_t oct__row_count(const struct oct__row *row);

#endif
