/* SPDX-License-Identifier: Apache-2.0 */
/* quant_sgp.c - quantized stochastic gradient push: choco on any graph, with push-sum weights. */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_quant_sgp = {
    .plugin =
        {
            .name = "quant-sgp",
            .summary = "choco on directed graphs, by push-sum",
            .reference = "Taheri et al. 2020, arXiv:2002.09964",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .is_push_sum = 1,
    .memory = 1U << OCT_MEMORY_REPLICA | 1U << OCT_MEMORY_SUM,
    .has_edge_replicas = 1,
    .gamma = oct__replica_gamma,
    .send = oct__replica_send,
    .merge = oct__replica_merge,
};
