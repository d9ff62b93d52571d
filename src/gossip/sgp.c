/* SPDX-License-Identifier: Apache-2.0 */
/* sgp.c - stochastic gradient push: dpsgd on any graph, with push-sum weights.
 *
 * On a graph where nodes receive more or less than they send, averages of x alone drift towards the
 * nodes that receive much. Each node also mixes a weight u, 1 at the start, in the same way; x / u
 * is the unbiased value, where gradients are taken.
 */
#include "gossip/methods.h"

const struct oct_algorithm_kind oct_algorithm_sgp = {
    .plugin =
        {
            .name = "sgp",
            .summary = "dpsgd on directed graphs, by push-sum",
            .reference = "Assran et al. 2019, arXiv:1811.10792",
        },
    .mixing = OCT_MIXING_GOSSIP,
    .is_push_sum = 1,
    .gamma = oct__plain_gamma,
    .send = oct__plain_send,
    .merge = oct__plain_merge,
};
