/* SPDX-License-Identifier: Apache-2.0 */
/* deepsqueeze.c - Deep-Squeeze: compressed messages with error feedback.
 *
 *     v = x~ + e,  m = D[C[v]],  e = v - m
 *
 * What one message leaves out waits in e for the next. Nodes that have agreed still send different
 * parts of x, so a noise of agreement remains, the larger the larger gamma is.
 */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_deepsqueeze = {
    .plugin =
        {
            .name = "deepsqueeze",
            .summary = "error feedback: what a message leaves out goes into the next",
            .reference = "Tang et al. 2019, arXiv:1907.07346",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .push_sum = "sparse-push",
    .memory = 1U << OCT_MEMORY_ERROR,
    .gamma = oct__feedback_gamma,
    .send = oct__feedback_send,
    .merge = oct__feedback_merge,
};
