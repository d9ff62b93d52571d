/* SPDX-License-Identifier: Apache-2.0 */
/* resnet18.c - the ImageNet ResNet with 18 layers: two blocks a stage, widths 64, 128, 256, 512.
 *
 * The stem and its pooling make a quarter of each side before the first stage, so it is meant for
 * images of 64 pixels and more; smaller ones work, and lose most of their detail at once.
 * 11,181,642 parameters with BatchNorm, three input channels and ten classes.
 */
#include "base/spec.h"
#include "models/resnet.h"

struct options {
    int64_t width;
};

static const struct oct__spec_option table[] = {
    {"width", OCT_SPEC_INT, offsetof(struct options, width), 1, 1024, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *text) {
    struct options options = {.width = 64};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    const int width = (int)options.width;
    int x = oct_graph_input(graph);
    x = oct_graph_conv(graph, "stem", x,
                       (struct oct_conv){.channels = width, .kernel = 7, .stride = 2, .pad = 3});
    x = oct_graph_norm(graph, "stem_norm", x);
    x = oct_graph_activation(graph, "stem_act", x);
    x = oct_graph_max_pool(graph, "stem_pool", x,
                           (struct oct_pool){.kernel = 3, .stride = 2, .pad = 1});
    x = oct__resnet_stage(graph, "stage1", x, 2, width, 1);
    x = oct__resnet_stage(graph, "stage2", x, 2, 2 * width, 2);
    x = oct__resnet_stage(graph, "stage3", x, 2, 4 * width, 2);
    x = oct__resnet_stage(graph, "stage4", x, 2, 8 * width, 2);
    x = oct_graph_global_pool(graph, "pool", x);
    x = oct_graph_linear(graph, "classifier", x, oct_graph_classes(graph));
    oct_graph_output(graph, x);
    return OCT_OK;
}

const struct oct_model_kind oct_model_resnet18 = {
    .plugin = {.name = "resnet18",
               .summary = "ImageNet ResNet, 18 layers, 11.2 M parameters",
               .reference = "He, Zhang, Ren and Sun, arXiv 1512.03385",
               .options = "width=64"},
    .build = build,
};
