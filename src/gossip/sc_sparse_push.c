/* SPDX-License-Identifier: Apache-2.0 */
/* sc_sparse_push.c - skew-compensated Sparse-Push: sparse-push that ends in dense averaging.
 *
 * What is published about it gives no formula; this is a reading of it: the last rounds of a run
 * are dense push-sum, enough of them that what data skew has driven apart is averaged. Whoever runs
 * the rounds (train/) counts them, by `compensates`; their bytes are counted like all others.
 */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_sc_sparse_push = {
    .plugin =
        {
            .name = "sc-sparse-push",
            .summary = "sparse-push whose last rounds are dense (our reading)",
            .reference = "Aketi et al. 2021, arXiv:2102.05715",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .is_push_sum = 1,
    .memory = 1U << OCT_MEMORY_ERROR,
    .compensates = 1,
    .gamma = oct__feedback_gamma,
    .send = oct__feedback_send,
    .merge = oct__feedback_merge,
};
