/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what a model plug-in provides: a builder over a graph.
 *
 * One file with one exported `const struct oct_model_kind oct_model_NAME`, one row in models.def. A
 * model describes layers and never mentions batch, precision, norm or engine.
 */
#ifndef OCT_MODELS_MODEL_H
#define OCT_MODELS_MODEL_H

#include <octet/graph.h>
#include <octet/plugin.h>

#include "base/fail.h"

struct oct_model_kind {
    struct oct_plugin plugin;
    /* `options` is what followed ':' in the spec; NULL: nothing. Mistakes in the graph stick to it;
     * the status is for mistakes in the options. */
    oct_status (*build)(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *options);
};

const struct oct_model_kind *oct__model_at(int index);

/* Builds the model called by `spec` ("resnet20", "resnet20:width=8"). */
OCT_MUST_CHECK oct_status oct__model_build(const char *spec, struct oct_graph *graph);

#endif
