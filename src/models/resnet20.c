/* SPDX-License-Identifier: Apache-2.0 */
/* resnet20.c - the CIFAR ResNet with 20 layers: three blocks a stage, widths 16, 32, 64.
 *
 * 272,474 parameters with BatchNorm, three input channels and ten classes (1×1 convolutions on the
 * shortcuts).
 */
#include "models/resnet.h"

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *options) {
    return oct__resnet_cifar(kind, graph, options, 3);
}

const struct oct_model_kind oct_model_resnet20 = {
    .plugin = {.name = "resnet20",
               .summary = "CIFAR ResNet, 20 layers, 0.27 M parameters",
               .reference = "He, Zhang, Ren and Sun, arXiv 1512.03385",
               .options = "width=16, blocks=3"},
    .build = build,
};
