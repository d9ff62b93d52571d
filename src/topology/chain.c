/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - a ring that is cut open: the slowest undirected graph to agree.
 *
 *     0 <-> 1 <-> 2 ... <-> n - 1
 *
 * The ends have one neighbour, the others two, so out-degree weights are not doubly stochastic;
 * metropolis weights are.
 */
#include "topology/topology.h"

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    for (int i = 0; i + 1 < request->n_nodes; i++) {
        OCT_TRY(oct__edge_add_pair(out, i, i + 1, 0));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_chain = {
    .plugin = {.name = "chain", .summary = "a line, each node exchanging with the next"},
    .is_undirected = 1,
    .edges = edges,
};
