/* SPDX-License-Identifier: Apache-2.0 */
/* resnet.c - basic blocks and stages of residual networks (He, Zhang, Ren, Sun, arXiv 1512.03385).
 */
#include "models/resnet.h"

#include <stdio.h>

#include "base/spec.h"

#define NAME_BYTES 64

static int block(struct oct_graph *graph, const char *name, int x, int channels, int stride) {
    char layer[NAME_BYTES + 32];
#define NAMED(suffix) (snprintf(layer, sizeof layer, "%s.%s", name, suffix), layer)
    struct oct_conv first = {.channels = channels, .kernel = 3, .stride = stride, .pad = 1};
    struct oct_conv second = {.channels = channels, .kernel = 3, .pad = 1};
    int shape[3];
    oct_graph_shape(graph, x, shape);
    int y = oct_graph_conv(graph, NAMED("conv1"), x, first);
    y = oct_graph_norm(graph, NAMED("norm1"), y);
    y = oct_graph_activation(graph, NAMED("act1"), y);
    y = oct_graph_conv(graph, NAMED("conv2"), y, second);
    y = oct_graph_norm(graph, NAMED("norm2"), y);
    if (stride != 1 || shape[2] != channels) {
        struct oct_conv fit = {.channels = channels, .kernel = 1, .stride = stride};
        x = oct_graph_conv(graph, NAMED("shortcut"), x, fit);
        x = oct_graph_norm(graph, NAMED("shortcut_norm"), x);
    }
    y = oct_graph_add(graph, NAMED("sum"), y, x);
    return oct_graph_activation(graph, NAMED("act2"), y);
#undef NAMED
}

int oct__resnet_stage(struct oct_graph *graph, const char *name, int x, int n_blocks, int channels,
                      int stride) {
    for (int i = 0; i < n_blocks; i++) {
        char named[NAME_BYTES];
        snprintf(named, sizeof named, "%s.block%d", name, i);
        x = block(graph, named, x, channels, i == 0 ? stride : 1);
    }
    return x;
}

struct options {
    int64_t width, blocks;
};

static const struct oct__spec_option table[] = {
    {"width", OCT_SPEC_INT, offsetof(struct options, width), 1, 1024, NULL},
    {"blocks", OCT_SPEC_INT, offsetof(struct options, blocks), 1, 64, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

oct_status oct__resnet_cifar(const struct oct_model_kind *kind, struct oct_graph *graph,
                             const char *text, int n_blocks) {
    struct options options = {.width = 16, .blocks = n_blocks};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    const int width = (int)options.width, blocks = (int)options.blocks;
    int x = oct_graph_input(graph);
    x = oct_graph_conv(graph, "stem", x,
                       (struct oct_conv){.channels = width, .kernel = 3, .pad = 1});
    x = oct_graph_norm(graph, "stem_norm", x);
    x = oct_graph_activation(graph, "stem_act", x);
    x = oct__resnet_stage(graph, "stage1", x, blocks, width, 1);
    x = oct__resnet_stage(graph, "stage2", x, blocks, 2 * width, 2);
    x = oct__resnet_stage(graph, "stage3", x, blocks, 4 * width, 2);
    x = oct_graph_global_pool(graph, "pool", x);
    x = oct_graph_linear(graph, "classifier", x, oct_graph_classes(graph));
    oct_graph_output(graph, x);
    return OCT_OK;
}
