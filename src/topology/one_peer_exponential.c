/* SPDX-License-Identifier: Apache-2.0 */
/* one_peer_exponential.c - the exponential graph, one hop a round.
 *
 *     at round t: i -> i + 2^(t mod p) (mod n),   p = ceil(log2 n)
 *
 * One message a round; when n is a power of two, p rounds are the exact average.
 */
#include "topology/topology.h"

static oct_status period(const struct oct__topology_request *request, int *out) {
    *out = 1;
    while ((1 << *out) < request->n_nodes) {
        (*out)++;
    }
    return OCT_OK;
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    const int n = request->n_nodes, hop = 1 << index;
    for (int i = 0; n > 1 && i < n; i++) {
        OCT_TRY(oct__edge_add(out, i, (i + hop) % n, 0));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_one_peer_exponential = {
    .plugin = {.name = "one-peer-exponential",
               .summary = "each node sends 1, then 2, then 4 ... places ahead, one a round",
               .reference = "Assran et al., Stochastic gradient push, ICML 2019; Ying et al., "
                            "NeurIPS 2021"},
    .is_regular = 1,
    .period = period,
    .edges = edges,
};
