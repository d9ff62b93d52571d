/* SPDX-License-Identifier: Apache-2.0 */
/* choco.c - CHOCO-SGD: nodes send compressed differences to what their neighbours know of them.
 *
 *     r_j += D[C[x~_j - r_j]] at both ends,  m_j = r_j
 *
 * As nodes settle, differences go to zero and so does what compression leaves out. As printed, its
 * merge has (r_j - r_i) under W_ij, which keeps the sum over nodes only where W is doubly
 * stochastic; gossip.h's form keeps it always.
 */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_choco = {
    .plugin =
        {
            .name = "choco",
            .summary = "compressed differences to replicas",
            .reference = "Koloskova et al. 2019, arXiv:1907.09356",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .push_sum = "quant-sgp",
    .memory = 1U << OCT_MEMORY_REPLICA | 1U << OCT_MEMORY_SUM,
    .has_edge_replicas = 1,
    .gamma = oct__replica_gamma,
    .send = oct__replica_send,
    .merge = oct__replica_merge,
};
