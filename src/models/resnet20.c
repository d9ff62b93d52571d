/* SPDX-License-Identifier: Apache-2.0 */
/* resnet20.c - the CIFAR ResNet with 20 layers: three blocks a stage, widths 16, 32, 64.
 *
 * 272,474 parameters with BatchNorm, three input channels and ten classes (1×1 convolutions on the
 * shortcuts).
 */
#include "base/spec.h"
#include "models/model.h"
#include "models/resnet.h"

struct options {
    int64_t width, blocks;
};

static const struct oct__spec_option table[] = {
    {"width", OCT_SPEC_INT, offsetof(struct options, width), 1, 1024, NULL},
    {"blocks", OCT_SPEC_INT, offsetof(struct options, blocks), 1, 64, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *text) {
    struct options options = {.width = 16, .blocks = 3};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    oct__resnet_cifar(graph, (int)options.blocks, (int)options.width);
    return OCT_OK;
}

const struct oct_model_kind oct_model_resnet20 = {
    .plugin = {.name = "resnet20",
               .summary = "CIFAR ResNet, 20 layers, 0.27 M parameters",
               .reference = "He, Zhang, Ren and Sun, arXiv 1512.03385",
               .options = "width=16, blocks=3"},
    .build = build,
};
