/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - each node exchanges with the one before and the one after.
 *
 *     i <-> i + 1 (mod n)
 *
 * Two nodes have one connection, not two: a ring of two is a pair, each keeping half.
 */
#include "topology/topology.h"

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    const int n = request->n_nodes;
    for (int i = 0; i < (n > 2 ? n : n - 1); i++) {
        OCT_TRY(oct__edge_add_pair(out, i, (i + 1) % n, 0));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_ring = {
    .plugin = {.name = "ring",
               .summary = "each node exchanges with its two neighbours on a circle",
               .reference = "Lian et al., Can decentralized algorithms outperform centralized "
                            "algorithms?, NeurIPS 2017"},
    .is_undirected = 1,
    .is_regular = 1,
    .edges = edges,
};
