/* SPDX-License-Identifier: Apache-2.0 */
/* topology.h - inside of a topology: graphs as lists by receiver and by sender, and the plug-ins.
 *
 * A plug-in only says which edges there are at a step; weights, checks and the spectral gap are the
 * same for all (mixing.c, spectral.c). One that needs weights of its own (base-k) gives them with its
 * edges. A plug-in is one file with one exported `const struct oct_topology_kind oct_topology_NAME`
 * and one row in topologies.def.
 */
#ifndef OCT_TOPOLOGY_TOPOLOGY_H
#define OCT_TOPOLOGY_TOPOLOGY_H

#include <octet/plugin.h>
#include <octet/topology.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/spec.h"

/* One graph with its weights. Edges are sorted; there are no self-loops and no doubles: two edges
 * between the same nodes become one with both weights. */
struct oct__mix {
    int n_nodes, n_edges;
    int has_own_weights; /* the edges came with them */
    double *self;        /* [n_nodes] what a node keeps: 1 - the sum of what it gives away */
    int *in_start;  /* [n_nodes + 1] into from and weight: node i's in-edges, ascending senders */
    int *from;      /* [n_edges] */
    double *weight; /* [n_edges] */
    int *out_start; /* [n_nodes + 1] into to and out_edge: j's out-edges, ascending receivers */
    int *to;        /* [n_edges] */
    int *out_edge;  /* [n_edges] the same edge's place in from and weight */
};

/* What a plug-in fills: edges in any order, doubles allowed, self-loops not. */
struct oct__edge_list {
    struct oct_edge *edges; /* weight 0, all or none: to be weighted by the rule */
    int n_edges;
    size_t capacity;
};

/* The most edges of one graph: a complete one of 5,793 nodes. */
#define OCT_EDGES_MOST (1 << 25)

/* INVALID past OCT_EDGES_MOST. */
OCT_MUST_CHECK oct_status oct__edge_add(struct oct__edge_list *list, int from, int to,
                                        double weight);
/* Both directions. */
OCT_MUST_CHECK oct_status oct__edge_add_pair(struct oct__edge_list *list, int a, int b,
                                             double weight);
/* Whether the edges hold all nodes together, directions apart: for random graphs, which are drawn
 * until they do. */
OCT_MUST_CHECK oct_status oct__edges_connect(const struct oct__edge_list *list, int n_nodes,
                                             int *out);

struct oct__topology_request {
    int n_nodes;
    uint64_t seed;
    const void *options; /* the plug-in's own struct, as read by its table */
    const char *text;    /* what follows "name:", for a kind that reads it itself; NULL: nothing */
};

struct oct_topology_kind {
    struct oct_plugin plugin;
    int is_undirected;    /* every edge has its reverse: Metropolis weights are possible */
    int is_regular;       /* all nodes send and receive the same number of edges in every graph:
                             out-degree weights are doubly stochastic */
    int has_own_weights;  /* comes with weights; other rules are refused */
    int reads_text;       /* takes request.text as it stands instead of a table */
    size_t options_bytes; /* of its options, 0: none */
    const void *defaults; /* … at their defaults */
    const struct oct__spec_option *table; /* … and how they are read */
    /* Graphs before it repeats: 1 static, 0 never. INVALID for numbers of nodes it cannot have.
     * NULL: 1, for any number of nodes. */
    oct_status (*period)(const struct oct__topology_request *request, int *out);
    /* The edges of graph `index` (below the period, or any number when it never repeats). */
    oct_status (*edges)(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out);
};

const struct oct_topology_kind *oct__topology_at(int index);

/* Finds the kind that a text names; *options is what follows the ':' or NULL. */
OCT_MUST_CHECK oct_status oct__topology_choose(const char *text,
                                               const struct oct_topology_kind **kind,
                                               const char **options);

/* --- weights and checks (mixing.c) ------------------------------------------------------------ */

/* How far a sum of weights may be from 1. */
#define OCT_WEIGHT_ERROR 1e-12

enum oct__weight_rule {
    OCT_WEIGHTS_BY_ITSELF, /* the topology's own, else out-degree */
    OCT_WEIGHTS_OUT_DEGREE,
    OCT_WEIGHTS_METROPOLIS,
};

/* "out-degree", "metropolis"; NULL or "": by itself. */
OCT_MUST_CHECK oct_status oct__weight_rule_read(const char *text, enum oct__weight_rule *out);

/* The graph of `list` with its weights. On failure *out has nothing to be freed. */
OCT_MUST_CHECK oct_status oct__mix_init(struct oct__mix *out, int n_nodes,
                                        const struct oct__edge_list *list,
                                        enum oct__weight_rule rule);
void oct__mix_fini(struct oct__mix *mix);

/* The graph that is left when some nodes are away (closing.c); at least one must be. Their self weight is
 * 1, and they have no edges. On failure *out has nothing to be freed. */
OCT_MUST_CHECK oct_status oct__mix_close(const struct oct__mix *mix, const unsigned char *away,
                                         struct oct__mix *out);

/* No weight below 0; the sums by sender, and by receiver, are 1 to OCT_WEIGHT_ERROR. */
int oct__mix_is_column_stochastic(const struct oct__mix *mix);
int oct__mix_is_doubly_stochastic(const struct oct__mix *mix);

/* Every edge has its reverse. */
int oct__mix_is_undirected(const struct oct__mix *mix);

/* Whether every node can reach every other over the edges of all `n` graphs together. If not,
 * `from` cannot reach `to`. */
struct oct__reach {
    int is_strong, from, to;
};

OCT_MUST_CHECK oct_status oct__mixes_reach(const struct oct__mix *mixes, int n,
                                           struct oct__reach *out);

/* Edges that are in any of the graphs. */
OCT_MUST_CHECK oct_status oct__mixes_count(const struct oct__mix *mixes, int n, int *out);

/* --- the topology (topology.c) ---------------------------------------------------------------- */

/* The graph that a never-repeating topology made last. */
struct oct__made {
    uint32_t index;
    struct oct__mix mix;
};

struct oct_topology {
    const struct oct_topology_kind *kind;
    struct oct__topology_request request;
    enum oct__weight_rule rule;
    int hold;
    char *name;             /* as it was asked for */
    void *options;          /* of the request */
    struct oct__mix *mixes; /* [period]; NULL when it never repeats */
    struct oct__made *made; /* … and then this; else NULL */
    struct oct_topology_info info;
};

/* How many graphs of a never-repeating topology must together be strongly connected: it is accepted
 * as soon as the first few are, and refused when the first OCT_UNION_MOST are not. Later graphs
 * come from the same distribution. */
#define OCT_UNION_MOST 64

/* The graph of gossip round `round`: number round / hold, modulo the period. A never-repeating
 * topology makes it on demand (this allocates) and keeps the last one: so this is called from one
 * thread, before the round; the pointer is good until the next call with another round. */
OCT_MUST_CHECK oct_status oct__topology_mix(const struct oct_topology *topology, uint32_t round,
                                            const struct oct__mix **out);

#endif
