/* SPDX-License-Identifier: Apache-2.0 */
/* complete.c - every node exchanges with every other: one round is the exact average.
 *
 *     W_ij = 1/n
 */
#include "topology/topology.h"

/* Refused before there is a list of them. */
static oct_status period(const struct oct__topology_request *request, int *out) {
    const int64_t n = request->n_nodes;
    if (n * (n - 1) > OCT_EDGES_MOST) {
        OCT_FAIL(INVALID, "complete: %d nodes have more than %d edges; use fewer, or exponential",
                 request->n_nodes, OCT_EDGES_MOST);
    }
    *out = 1;
    return OCT_OK;
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    for (int i = 0; i < request->n_nodes; i++) {
        for (int j = 0; j < i; j++) {
            OCT_TRY(oct__edge_add_pair(out, i, j, 0));
        }
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_complete = {
    .plugin = {.name = "complete", .summary = "every node exchanges with every other"},
    .is_undirected = 1,
    .is_regular = 1,
    .period = period,
    .edges = edges,
};
