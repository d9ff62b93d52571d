/* SPDX-License-Identifier: Apache-2.0 */
/* star.c - node 0 in the middle exchanges with all others.
 *
 * With out-degree weights the middle takes half of every leaf and gives each only 1/n: W is not
 * doubly stochastic, and what nodes agree on is the average only with push-sum, or with metropolis
 * weights.
 */
#include "topology/topology.h"

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    for (int i = 1; i < request->n_nodes; i++) {
        OCT_TRY(oct__edge_add_pair(out, 0, i, 0));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_star = {
    .plugin = {.name = "star", .summary = "node 0 exchanges with all others"},
    .is_undirected = 1,
    .edges = edges,
};
