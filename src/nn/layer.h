/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - what a kind of layer and a kind of norm provide.
 *
 * A layer says how it is computed by adding calls to a program: `forward` when the program is made,
 * `backward` in reverse order. It never touches numbers. One file, one exported `const struct
 * oct__layer_kind oct__layer_NAME`, one row in layers.def; norms likewise with norms.def.
 */
#ifndef OCT_NN_LAYER_H
#define OCT_NN_LAYER_H

#include "nn/graph.h"
#include "nn/program.h"

struct oct__layer_kind {
    const char *name;
    void (*forward)(struct oct__program *program, const struct oct__layer *layer);
    void (*backward)(struct oct__program *program, const struct oct__layer *layer);
    int keeps_output;       /* backward reads the value, so nobody may overwrite it */
    int reads_bytes;        /* in int8: its inputs are quantized; others are given floats */
    int quantizes_gradient; /* in int8: the gradient of its value arrives as s8 */
};

#define OCT_LAYER(name) extern const struct oct__layer_kind oct__layer_##name;
#include "nn/layers.def"
#undef OCT_LAYER

struct oct_norm_kind {
    struct oct_plugin plugin;
    int has_activation; /* contains its non-linearity: no ReLU follows */
    int groups;         /* groups it divides channels into; 0: none */
    int writes_bytes;   /* in int8: its value is always made as bytes */
    /* Declares parameters and statistics of a layer just added and completes its attr.norm, where the
     * groups are already filled in. */
    void (*declare)(struct oct_graph *graph, struct oct__layer *layer);
    void (*forward)(struct oct__program *program, const struct oct__layer *layer);
    void (*backward)(struct oct__program *program, const struct oct__layer *layer);
};

const struct oct_norm_kind *oct__norm_at(int index);
const struct oct_norm_kind *oct__norm_find(const char *name);

/* A parameter of `channels` elements that starts at `value`. */
struct oct__param oct__vector_param(int channels, double value);

#endif
