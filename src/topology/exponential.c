/* SPDX-License-Identifier: Apache-2.0 */
/* exponential.c - each node sends 1, 2, 4, 8 … places ahead, all at once.
 *
 *     i -> i + 2^k (mod n)     for all 2^k < n
 *
 * log2(n) messages a round, and a spectral gap that shrinks only with 1/log n.
 */
#include "topology/topology.h"

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    const int n = request->n_nodes;
    for (int i = 0; i < n; i++) {
        for (int hop = 1; hop < n; hop *= 2) {
            OCT_TRY(oct__edge_add(out, i, (i + hop) % n, 0));
        }
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_exponential = {
    .plugin = {.name = "exponential",
               .summary = "each node sends 1, 2, 4, 8 ... places ahead",
               .reference = "Ying et al., Exponential graph is provably efficient for "
                            "decentralized deep training, NeurIPS 2021"},
    .is_regular = 1,
    .edges = edges,
};
