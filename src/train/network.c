/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - see network.h. */
#include "train/network.h"

#include <string.h>

#include "models/model.h"
#include "nn/layer.h"

const char *oct__network_engine(const struct oct_config *config) {
    return strcmp(config->precision, "int8-sim") == 0 ? "sim" : config->engine;
}

oct_status oct__network_begin(const struct oct_config *config, const struct oct_dataset *shape,
                              struct oct_graph *graph) {
    const char *name = oct__config_norm(config);
    const struct oct_norm_kind *norm = oct__norm_find(name);
    if (!norm) {
        OCT_FAIL(NOT_FOUND, "norm '%s' is not known; octet info lists them", name);
    }
    OCT_TRY(oct__graph_init(graph, shape->height, shape->width, shape->channels, shape->n_classes,
                            norm));
    if (oct__config_is_int8(config)) {
        struct oct__recipe recipe;
        OCT_TRY(oct__recipe_read(config->precision_recipe, &recipe));
        recipe.stochastic = strcmp(config->activation_rounding, "stochastic") == 0;
        oct__graph_quantize(graph, &recipe);
    }
    return OCT_OK;
}

oct_status oct__network_build(const struct oct_config *config, struct oct_graph *graph) {
    OCT_TRY(oct__model_build(config->model, graph));
    return oct__graph_check(graph);
}

/* --- a row of all ----------------------------------------------------------------------------- */

void oct__whole_fini(struct oct__whole *whole) {
    oct__free(whole->row.items);
    oct__free(whole->values);
}

oct_status oct__whole_init(const struct oct_graph *graph, struct oct__whole *whole) {
    const struct oct__row *parts[2] = {&graph->params, &graph->stats};
    void *memory;
    memset(whole, 0, sizeof *whole);
    whole->row.n_elements = graph->params.n_elements + graph->stats.n_elements;
    OCT_TRY(oct__alloc_array(graph->params.n_items + graph->stats.n_items, sizeof *whole->row.items,
                             "tensor list", &memory));
    whole->row.items = memory;
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; i < parts[part]->n_items; i++) {
            struct oct__param *item = &whole->row.items[whole->row.n_items++];
            *item = parts[part]->items[i];
            item->offset += part ? graph->params.n_elements : 0;
        }
    }
    oct_status status = oct__alloc_array(whole->row.n_elements, sizeof *whole->values,
                                         "parameters and statistics", &memory);
    if (status != OCT_OK) {
        oct__whole_fini(whole);
        memset(whole, 0, sizeof *whole);
        return status;
    }
    whole->values = memory;
    whole->stats = whole->values + graph->params.n_elements;
    return OCT_OK;
}
