/* SPDX-License-Identifier: Apache-2.0 */
/* topology.h - who talks to whom: graphs over nodes, their mixing weights, and what they are good
 * for.
 *
 * A topology is asked for by name and number of nodes; it is one graph, or one for each step of a
 * period, or a new one every step. Edge j -> i means that j sends to i, and its weight is the share
 * of j's message that i takes. A node keeps what it does not give away, so the weights of a sender
 * always sum to 1 (the matrix is column-stochastic).
 */
#ifndef OCTET_TOPOLOGY_H
#define OCTET_TOPOLOGY_H

#include <stdint.h>

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_topology;

struct oct_topology_options {
    const char *name;    /* "directed-ring", "erdos-renyi:p=0.3", "file:graph.txt" */
    const char *weights; /* "out-degree" or "metropolis"; NULL or "": what suits the topology */
    int n_nodes;
    int hold;      /* steps that each graph of a changing topology stays; 0: 1 */
    uint64_t seed; /* of the random ones */
};

struct oct_edge {
    int from, to;
    double weight;
};

struct oct_topology_info {
    int n_nodes;
    int period;                                     /* 1: always the same graph; 0: never repeats */
    int hold;                                       /* steps that each graph stays */
    int is_column_stochastic, is_doubly_stochastic; /* every graph of the period */
    int is_strongly_connected;                      /* the union over the period */
    int is_undirected;             /* every edge of the period's graphs has its reverse */
    int has_own_weights;           /* they came with the graph, not from a rule */
    int n_edges;                   /* distinct ones over the period, self-loops not counted */
    int least_degree, most_degree; /* of a node's out-edges, in any graph of the period */
};

/* A topology that never repeats has no period to count over: its edges and degrees are those of the
 * first graph; it is doubly stochastic when its rule of weights makes every graph so; and it counts
 * as strongly connected when its first graphs (up to 64) together are. */

/* Builds and checks it. INVALID for a number of nodes that the topology cannot have, weights that do
 * not fit it, or a graph that is not strongly connected over its period, naming two nodes that
 * cannot reach each other. */
OCT_API OCT_MUST_CHECK oct_status oct_topology_create(const struct oct_topology_options *options,
                                                      struct oct_topology **out);
OCT_API void oct_topology_destroy(struct oct_topology *topology);

OCT_API void oct_topology_info(const struct oct_topology *topology, struct oct_topology_info *out);

/* Edge `index` of the graph at `step`, ordered by receiver and then by sender; 0 past the end. A
 * topology that never repeats makes the graph of another step here: call from one thread at a time;
 * 0 also when there is no memory for it. */
OCT_API int oct_topology_edge(const struct oct_topology *topology, uint32_t step, int index,
                              struct oct_edge *out);

/* Share of its own message that `node` keeps at `step`; NAN when there is no such node. As for
 * threads and memory (then NAN), the same. */
OCT_API double oct_topology_self_weight(const struct oct_topology *topology, uint32_t step,
                                        int node);

/* 1 - |second eigenvalue| of the product of the period's matrices, each taken `hold` times when
 * there are several: 0 never agrees, 1 agrees at once. So disagreement shrinks by 1 - gap every
 * period * hold steps (every step when the graph stays the same). Takes time with the cube of the
 * number of nodes, which nothing else here does. UNSUPPORTED in a build without LAPACK, for a
 * topology without a period and for more than 4,096 nodes. */
OCT_API OCT_MUST_CHECK oct_status oct_topology_spectral_gap(const struct oct_topology *topology,
                                                            double *out);

#ifdef __cplusplus
}
#endif

#endif
