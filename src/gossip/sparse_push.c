/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_push.c - Sparse-Push: deepsqueeze on any graph, with push-sum weights. */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_sparse_push = {
    .plugin =
        {
            .name = "sparse-push",
            .summary = "deepsqueeze on directed graphs, by push-sum",
            .reference = "Aketi et al. 2021, arXiv:2102.05715",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .is_push_sum = 1,
    .memory = 1U << OCT_MEMORY_ERROR,
    .gamma = oct__feedback_gamma,
    .send = oct__feedback_send,
    .merge = oct__feedback_merge,
};
