/* SPDX-License-Identifier: Apache-2.0 */
/* directed_ring.c - each node sends to the next: the sparsest graph on which all can agree.
 *
 *     i -> i + 1 (mod n)
 *
 * With out-degree weights a node keeps half and gives half; W is doubly stochastic, and its
 * spectral gap is 1 - cos(pi/n). The papers' main graph.
 */
#include "topology/topology.h"

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    const int n = request->n_nodes;
    for (int i = 0; n > 1 && i < n; i++) {
        OCT_TRY(oct__edge_add(out, i, (i + 1) % n, 0));
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_directed_ring = {
    .plugin = {.name = "directed-ring",
               .summary = "each node sends to the next",
               .reference = "Assran et al., Stochastic gradient push, ICML 2019"},
    .is_regular = 1,
    .edges = edges,
};
