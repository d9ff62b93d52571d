/* SPDX-License-Identifier: Apache-2.0 */
/* closing.c - a graph closes over nodes that are away.
 *
 * What would go from j over a to i goes from j to i. With s = 1 - W_aa, what a gives away,
 *
 *     W'_ij = W_ij + W_ia * W_aj / s          for i, j other than a
 *
 * which is the stochastic complement of W: as if a passed on at once whatever it is given. Columns that
 * sum to 1 still do, and rows; what was symmetric is; and whoever could reach another still can (Meyer,
 * "Stochastic complementation, uncoupling Markov chains, and the theory of nearly reducible systems",
 * 1989). So an algorithm that could work on the graph can work on what is left of it. Several nodes are
 * taken out one after another.
 */
#include <string.h>

#include "topology/topology.h"

/* The edges of `mix` without node `gone`, and those that take its place. */
static oct_status without(const struct oct__mix *mix, int gone, struct oct__edge_list *list) {
    double given = 0.0;
    for (int to = 0; to < mix->n_nodes; to++) {
        for (int e = mix->in_start[to]; e < mix->in_start[to + 1]; e++) {
            const int from = mix->from[e];
            given += from == gone ? mix->weight[e] : 0.0;
            if (from != gone && to != gone && mix->weight[e] > 0.0) {
                OCT_TRY(oct__edge_add(list, from, to, mix->weight[e]));
            }
        }
    }
    for (int in = mix->in_start[gone]; in < mix->in_start[gone + 1] && given > 0.0; in++) {
        for (int out = mix->out_start[gone]; out < mix->out_start[gone + 1]; out++) {
            const int from = mix->from[in], to = mix->to[out];
            const double weight = mix->weight[in] * mix->weight[mix->out_edge[out]] / given;
            if (from != to && weight > 0.0) {
                OCT_TRY(oct__edge_add(list, from, to, weight));
            }
        }
    }
    return OCT_OK;
}

oct_status oct__mix_close(const struct oct__mix *mix, const unsigned char *away,
                          struct oct__mix *out) {
    struct oct__edge_list list = {0};
    struct oct__mix now = {0};
    oct_status status = OCT_OK;
    const struct oct__mix *before = mix;
    for (int node = 0; node < mix->n_nodes && status == OCT_OK; node++) {
        struct oct__mix next = {0};
        if (!away[node]) {
            continue;
        }
        list.n_edges = 0;
        status = without(before, node, &list);
        if (status == OCT_OK) {
            status = oct__mix_init(&next, mix->n_nodes, &list, OCT_WEIGHTS_BY_ITSELF);
        }
        oct__mix_fini(&now);
        now = next;
        before = &now;
    }
    oct__free(list.edges);
    if (status != OCT_OK) {
        oct__mix_fini(&now);
        return status;
    }
    *out = now;
    return OCT_OK;
}
