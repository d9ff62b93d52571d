/* SPDX-License-Identifier: Apache-2.0 */
/* dpsgd.c - D-PSGD: nodes average their parameters with their neighbours'.
 *
 *     m_j = D[C[x~_j]],  x_i = x~_i + gamma * sum_j (W_ij - I_ij) * m_j
 *
 * Meant for messages that are whole. With compression, what is left out of one message is not made
 * up for in the next: use choco or deepsqueeze.
 */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_dpsgd = {
    .plugin =
        {
            .name = "dpsgd",
            .summary = "averages with the neighbours",
            .reference = "Lian et al. 2017, arXiv:1705.09056",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .push_sum = "sgp",
    .gamma = oct__plain_gamma,
    .send = oct__plain_send,
    .merge = oct__plain_merge,
};
