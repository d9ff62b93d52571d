/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - the network that a configuration names, for samples of a shape. */
#ifndef OCT_TRAIN_NETWORK_H
#define OCT_TRAIN_NETWORK_H

#include "data/data.h"
#include "nn/graph.h"
#include "train/config.h"

/* Its engine: int8-sim is int8 on the one that computes it in double. */
const char *oct__network_engine(const struct oct_config *config);

/* The graph before its first layer: norm and precision. `shape` is a dataset, of which height, width,
 * channels and classes count. */
OCT_MUST_CHECK oct_status oct__network_begin(const struct oct_config *config,
                                             const struct oct_dataset *shape,
                                             struct oct_graph *graph);

/* The layers of the model that it names. */
OCT_MUST_CHECK oct_status oct__network_build(const struct oct_config *config,
                                             struct oct_graph *graph);

/* Parameters and statistics in one row, as a model file has them. */
struct oct__whole {
    struct oct__row row;
    float *values, *stats; /* the statistics follow the parameters */
};

OCT_MUST_CHECK oct_status oct__whole_init(const struct oct_graph *graph, struct oct__whole *whole);
void oct__whole_fini(struct oct__whole *whole);

#endif
