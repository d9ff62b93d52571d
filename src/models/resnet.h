/* SPDX-License-Identifier: Apache-2.0 */
/* resnet.h - the stages that every ResNet here is made of. */
#ifndef OCT_MODELS_RESNET_H
#define OCT_MODELS_RESNET_H

#include "models/model.h"

/* `n_blocks` basic blocks of `channels` channels, the first with `stride`; `name` prefixes its
 * layers ("stage1"). Returns the stage's value.
 *
 *     x ─┬─ conv 3×3 ─ norm ─ act ─ conv 3×3 ─ norm ───┬─ + ─ act
 *        └─ (conv 1×1 ─ norm, where the shape changes) ┘
 */
int oct__resnet_stage(struct oct_graph *graph, const char *name, int x, int n_blocks, int channels,
                      int stride);

/* Builds the CIFAR form of He et al.: 3×3 stem, three stages of width, 2·width, 4·width, mean, linear.
 * `options` are a model's own: "width=16, blocks=N", where N by itself is `n_blocks`. */
OCT_MUST_CHECK oct_status oct__resnet_cifar(const struct oct_model_kind *kind,
                                            struct oct_graph *graph, const char *options,
                                            int n_blocks);

#endif
