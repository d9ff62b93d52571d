/* SPDX-License-Identifier: Apache-2.0 */
/* resnet54.c - the deeper CIFAR ResNet of the low-precision paper: eight blocks a stage.
 *
 * Eight blocks of two convolutions in three stages, stem and classifier are 50 layers by the usual
 * count; the paper's name counts otherwise, and its 0.76 M parameters are these.
 */
#include "models/resnet.h"

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *options) {
    return oct__resnet_cifar(kind, graph, options, 8);
}

const struct oct_model_kind oct_model_resnet54 = {
    .plugin = {.name = "resnet54",
               .summary = "CIFAR ResNet, eight blocks a stage, 0.76 M parameters",
               .reference = "He, Zhang, Ren and Sun, arXiv 1512.03385",
               .options = "width=16, blocks=8"},
    .build = build,
};
