/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - describing a network: layers from input to logits.
 *
 *     int x = oct_graph_input(g);
 *     x = oct_graph_conv(g, "stem", x, (struct oct_conv){.channels = 16, .kernel = 3, .pad = 1});
 *     x = oct_graph_norm(g, "stem_norm", x);
 *     x = oct_graph_activation(g, "stem_act", x);
 *     x = oct_graph_global_pool(g, "pool", x);
 *     x = oct_graph_linear(g, "head", x, oct_graph_classes(g));
 *     oct_graph_output(g, x);
 *
 * A layer is named, takes values and gives a value, which is a small number. The first mistake
 * sticks: later calls do nothing and return -1, and the trainer reports it with the layer's name.
 * So a builder needs no checks of its own.
 *
 * Which norm is used is the run's choice (`--norm`), not the network's: `oct_graph_norm` asks for
 * "the norm". The EvoNorms contain their non-linearity, so `oct_graph_activation` adds a ReLU after
 * the other norms and nothing after those.
 */
#ifndef OCTET_GRAPH_H
#define OCTET_GRAPH_H

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_graph;

/* Builds a network on an empty graph; called once by the trainer. A status other than OCT_OK stops
 * the trainer's creation. */
typedef oct_status oct_graph_build_fn(struct oct_graph *graph, void *context);

struct oct_conv {
    int channels; /* output channels */
    int kernel;   /* side of the square kernel */
    int stride;   /* 0 means 1 */
    int pad;      /* zeros around the input */
    int groups;   /* 0 means 1; the input's channels: depth-wise */
    int bias;     /* nonzero: a bias per output channel */
};

struct oct_pool {
    int kernel, stride, pad; /* stride 0 means kernel */
};

OCT_API int oct_graph_input(struct oct_graph *graph);
OCT_API int oct_graph_classes(const struct oct_graph *graph);

OCT_API int oct_graph_conv(struct oct_graph *graph, const char *name, int x, struct oct_conv conv);
OCT_API int oct_graph_linear(struct oct_graph *graph, const char *name, int x, int channels);
OCT_API int oct_graph_norm(struct oct_graph *graph, const char *name, int x);
OCT_API int oct_graph_activation(struct oct_graph *graph, const char *name, int x);
OCT_API int oct_graph_relu(struct oct_graph *graph, const char *name, int x);
OCT_API int oct_graph_add(struct oct_graph *graph, const char *name, int a, int b);
OCT_API int oct_graph_max_pool(struct oct_graph *graph, const char *name, int x,
                               struct oct_pool pool);
OCT_API int oct_graph_avg_pool(struct oct_graph *graph, const char *name, int x,
                               struct oct_pool pool);
OCT_API int oct_graph_global_pool(struct oct_graph *graph, const char *name, int x);
OCT_API int oct_graph_dropout(struct oct_graph *graph, const char *name, int x, double rate);

/* Names the logits: a value of one row and column with one channel a class. */
OCT_API void oct_graph_output(struct oct_graph *graph, int x);

/* The shape of a value: rows, columns, channels. Zeros when there is no such value. */
OCT_API void oct_graph_shape(const struct oct_graph *graph, int x, int shape[3]);

#ifdef __cplusplus
}
#endif

#endif
