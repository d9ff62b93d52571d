/* SPDX-License-Identifier: Apache-2.0 */
/* vgg11.c - VGG with 11 layers and norms, as the papers' CIFAR-10 and Imagenette experiments use it.
 *
 * Eight 3×3 convolutions, each with a norm, and five poolings that halve the map; then what is left
 * of it is averaged (1×1 of an image of 32×32, 7×7 of one of 224×224), and two linear layers follow
 * instead of VGG's three. 9,491,018 parameters with BatchNorm, three input channels and ten classes.
 * A pooling that no longer fits, because the image was small, is left out.
 */
#include <stdio.h>

#include "base/spec.h"
#include "models/model.h"

struct options {
    int64_t width;
    double dropout;
};

static const struct oct__spec_option table[] = {
    {"width", OCT_SPEC_INT, offsetof(struct options, width), 1, 1024, NULL},
    {"dropout", OCT_SPEC_REAL, offsetof(struct options, dropout), 0, 0.99, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* Channels in units of `width`; 0 is a pooling. */
static const int plan[] = {1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0};

static int pool(struct oct_graph *graph, const char *name, int x) {
    int shape[3];
    oct_graph_shape(graph, x, shape);
    return shape[0] < 2 || shape[1] < 2
               ? x
               : oct_graph_max_pool(graph, name, x, (struct oct_pool){.kernel = 2});
}

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *text) {
    struct options options = {.width = 64, .dropout = 0.5};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    const int width = (int)options.width;
    int x = oct_graph_input(graph), n_convs = 0, n_pools = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(plan); i++) {
        char name[32];
        if (plan[i] == 0) {
            snprintf(name, sizeof name, "pool%d", ++n_pools);
            x = pool(graph, name, x);
            continue;
        }
        snprintf(name, sizeof name, "conv%d", ++n_convs);
        x = oct_graph_conv(graph, name, x,
                           (struct oct_conv){.channels = plan[i] * width, .kernel = 3, .pad = 1});
        snprintf(name, sizeof name, "norm%d", n_convs);
        x = oct_graph_norm(graph, name, x);
        snprintf(name, sizeof name, "act%d", n_convs);
        x = oct_graph_activation(graph, name, x);
    }
    x = oct_graph_global_pool(graph, "pool", x);
    if (options.dropout > 0) {
        x = oct_graph_dropout(graph, "dropout", x, options.dropout);
    }
    x = oct_graph_linear(graph, "hidden", x, 8 * width);
    x = oct_graph_relu(graph, "hidden_act", x);
    x = oct_graph_linear(graph, "classifier", x, oct_graph_classes(graph));
    oct_graph_output(graph, x);
    return OCT_OK;
}

const struct oct_model_kind oct_model_vgg11 = {
    .plugin = {.name = "vgg11",
               .summary = "VGG with norms, 11 layers, 9.49 M parameters",
               .reference = "Simonyan and Zisserman, arXiv 1409.1556",
               .options = "width=64, dropout=0.5"},
    .build = build,
};
