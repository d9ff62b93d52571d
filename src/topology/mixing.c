/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.c - from a list of edges to a mixing matrix, and what such a matrix must hold.
 *
 *     out-degree    W_ij = 1 / (outdeg_j + 1)                  any graph
 *     metropolis    W_ij = 1 / (1 + max(deg_i, deg_j))         every edge has its reverse
 *     own           as the edges say
 *     W_jj = 1 - sum_i W_ij                                    so every column sums to 1
 *
 * An edge that stands in the list twice (a torus of two rows, where up and down are the same node)
 * counts as two in the degrees, and becomes one edge with both weights.
 *
 * Lists are sorted by counting, first by sender and then by receiver: linear, stable, and without
 * the memory that the C library's sort would ask for behind our back.
 */
#include <math.h>
#include <string.h>

#include "topology/topology.h"

/* --- lists of edges --------------------------------------------------------------------------- */

oct_status oct__edge_add(struct oct__edge_list *list, int from, int to, double weight) {
    if (list->n_edges >= OCT_EDGES_MOST) {
        OCT_FAIL(INVALID, "the graph has more than %d edges; use fewer nodes or a sparser topology",
                 OCT_EDGES_MOST);
    }
    void *edges = list->edges;
    oct_status status = oct__alloc_grow(&edges, &list->capacity, (size_t)list->n_edges + 1,
                                        sizeof *list->edges, "edges");
    list->edges = edges;
    OCT_TRY(status);
    list->edges[list->n_edges++] = (struct oct_edge){from, to, weight};
    return OCT_OK;
}

oct_status oct__edge_add_pair(struct oct__edge_list *list, int a, int b, double weight) {
    OCT_TRY(oct__edge_add(list, a, b, weight));
    return oct__edge_add(list, b, a, weight);
}

/* The representative of a node's part, with the way there shortened. */
static int part_of(int *parent, int node) {
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

oct_status oct__edges_connect(const struct oct__edge_list *list, int n_nodes, int *out) {
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)n_nodes, sizeof(int), "a search", &memory));
    int *parent = memory, n_parts = n_nodes;
    for (int i = 0; i < n_nodes; i++) {
        parent[i] = i;
    }
    for (int e = 0; e < list->n_edges; e++) {
        int a = part_of(parent, list->edges[e].from), b = part_of(parent, list->edges[e].to);
        parent[a] = b;
        n_parts -= a != b;
    }
    oct__free(memory);
    *out = n_parts == 1;
    return OCT_OK;
}

/* --- weights ---------------------------------------------------------------------------------- */

oct_status oct__weight_rule_read(const char *text, enum oct__weight_rule *out) {
    static const struct {
        const char *name;
        enum oct__weight_rule rule;
    } names[] = {{"", OCT_WEIGHTS_BY_ITSELF},
                 {"out-degree", OCT_WEIGHTS_OUT_DEGREE},
                 {"metropolis", OCT_WEIGHTS_METROPOLIS}};
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        if (strcmp(text ? text : "", names[i].name) == 0) {
            *out = names[i].rule;
            return OCT_OK;
        }
    }
    OCT_FAIL(INVALID, "weights is '%.40s', expected one of: out-degree, metropolis", text);
}

void oct__mix_fini(struct oct__mix *mix) {
    oct__free(mix->self); /* the others lie behind it */
    memset(mix, 0, sizeof *mix);
}

/* All seven arrays in one piece of memory. */
static oct_status mix_alloc(struct oct__mix *mix, int n_nodes, int n_edges) {
    const size_t n = (size_t)n_nodes, m = (size_t)n_edges;
    void *memory;
    OCT_TRY(oct__alloc((n + m) * sizeof(double) + (2 * (n + 1) + 3 * m) * sizeof(int), "a graph",
                       &memory));
    mix->n_nodes = n_nodes;
    mix->n_edges = n_edges;
    mix->self = memory;
    mix->weight = mix->self + n;
    mix->in_start = (int *)(mix->weight + m);
    mix->out_start = mix->in_start + n + 1;
    mix->from = mix->out_start + n + 1;
    mix->to = mix->from + m;
    mix->out_edge = mix->to + m;
    return OCT_OK;
}

/* One pass of the sort; `start` has room for n_nodes + 1. */
static void sort_pass(const struct oct_edge *in, int n_edges, struct oct_edge *out, int n_nodes,
                      int by_receiver, int *start) {
    memset(start, 0, ((size_t)n_nodes + 1) * sizeof *start);
    for (int e = 0; e < n_edges; e++) {
        start[(by_receiver ? in[e].to : in[e].from) + 1]++;
    }
    for (int i = 0; i < n_nodes; i++) {
        start[i + 1] += start[i];
    }
    for (int e = 0; e < n_edges; e++) {
        out[start[by_receiver ? in[e].to : in[e].from]++] = in[e];
    }
}

/* A copy of the list by receiver, then sender; the caller frees it. */
static oct_status sorted(const struct oct__edge_list *list, int n_nodes, struct oct_edge **out) {
    oct_status status = OCT_OK;
    void *first = NULL, *second = NULL, *start = NULL;
    const size_t n = (size_t)list->n_edges;
    OCT_TRY_TO(out, oct__alloc_array(n, sizeof(struct oct_edge), "sorted edges", &first));
    OCT_TRY_TO(out, oct__alloc_array(n, sizeof(struct oct_edge), "sorted edges", &second));
    OCT_TRY_TO(out, oct__alloc_array((size_t)n_nodes + 1, sizeof(int), "sorted edges", &start));
    sort_pass(list->edges, list->n_edges, first, n_nodes, 0, start);
    sort_pass(first, list->n_edges, second, n_nodes, 1, start);
    *out = second;
    second = NULL;
out:
    oct__free(first);
    oct__free(second);
    oct__free(start);
    return status;
}

/* Weights that the list brings along: 1 for all edges, 0 for none. */
static oct_status check_list(const struct oct__edge_list *list, int n_nodes, int *has_weights) {
    int n_weighted = 0;
    for (int e = 0; e < list->n_edges; e++) {
        const struct oct_edge *edge = &list->edges[e];
        if (edge->from < 0 || edge->from >= n_nodes || edge->to < 0 || edge->to >= n_nodes ||
            edge->from == edge->to) {
            OCT_FAIL(INTERNAL, "an edge from %d to %d in a graph of %d nodes", edge->from, edge->to,
                     n_nodes);
        }
        if (!(edge->weight >= 0 && edge->weight <= 1)) {
            OCT_FAIL(INVALID, "the edge from %d to %d has weight %g, expected more than 0, up to 1",
                     edge->from, edge->to, edge->weight);
        }
        n_weighted += edge->weight > 0;
    }
    if (n_weighted > 0 && n_weighted < list->n_edges) {
        OCT_FAIL(INVALID, "%d of %d edges have a weight, expected all or none", n_weighted,
                 list->n_edges);
    }
    *has_weights = n_weighted > 0;
    return OCT_OK;
}

/* The place of the edge from -> to, or -1. */
static int find_edge(const struct oct__mix *mix, int from, int to) {
    int low = mix->in_start[to], high = mix->in_start[to + 1];
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (mix->from[middle] < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < mix->in_start[to + 1] && mix->from[low] == from ? low : -1;
}

/* Turns multiplicities into weights; `degree` counts every listed edge of a sender. */
static oct_status apply_rule(struct oct__mix *mix, const int *degree, int is_metropolis) {
    for (int i = 0; i < mix->n_nodes; i++) {
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            int j = mix->from[e];
            if (is_metropolis && find_edge(mix, i, j) < 0) {
                OCT_FAIL(INVALID,
                         "metropolis weights need every edge in both directions, and there is %d "
                         "-> %d without %d -> %d; use out-degree",
                         j, i, i, j);
            }
            int most = is_metropolis && degree[i] > degree[j] ? degree[i] : degree[j];
            mix->weight[e] *= 1.0 / (most + 1);
        }
    }
    return OCT_OK;
}

/* What is left to each sender: summed in the order of its receivers. */
static oct_status keep_rest(struct oct__mix *mix) {
    for (int j = 0; j < mix->n_nodes; j++) {
        double given = 0;
        for (int o = mix->out_start[j]; o < mix->out_start[j + 1]; o++) {
            given += mix->weight[mix->out_edge[o]];
        }
        if (given > 1 + OCT_WEIGHT_ERROR) {
            OCT_FAIL(INVALID, "node %d gives away %.15g of its message, expected 1 at the most", j,
                     given);
        }
        mix->self[j] = given < 1 ? 1 - given : 0;
    }
    return OCT_OK;
}

oct_status oct__mix_init(struct oct__mix *out, int n_nodes, const struct oct__edge_list *list,
                         enum oct__weight_rule rule) {
    oct_status status = OCT_OK;
    struct oct_edge *edges = NULL;
    struct oct__mix mix = {0};
    void *memory = NULL;
    int has_weights = 0;
    OCT_TRY(check_list(list, n_nodes, &has_weights));
    if (has_weights && rule != OCT_WEIGHTS_BY_ITSELF) {
        OCT_FAIL(INVALID, "the topology has weights of its own, so none may be asked for");
    }
    OCT_TRY_TO(out, sorted(list, n_nodes, &edges));
    OCT_TRY_TO(out, oct__alloc_array((size_t)n_nodes, sizeof(int), "degrees", &memory));
    int *degree = memory;
    int n_merged = 0;
    for (int e = 0; e < list->n_edges; e++) {
        degree[edges[e].from]++;
        edges[e].weight = has_weights ? edges[e].weight : 1;
        struct oct_edge *last = n_merged > 0 ? &edges[n_merged - 1] : NULL;
        if (last && last->from == edges[e].from && last->to == edges[e].to) {
            last->weight += edges[e].weight;
        } else {
            edges[n_merged++] = edges[e];
        }
    }
    OCT_TRY_TO(out, mix_alloc(&mix, n_nodes, n_merged));
    mix.has_own_weights = has_weights;
    for (int e = 0; e < n_merged; e++) {
        mix.from[e] = edges[e].from;
        mix.weight[e] = edges[e].weight;
        mix.in_start[edges[e].to + 1]++;
        mix.out_start[edges[e].from + 1]++;
    }
    for (int i = 0; i < n_nodes; i++) {
        mix.in_start[i + 1] += mix.in_start[i];
        mix.out_start[i + 1] += mix.out_start[i];
    }
    if (!has_weights) {
        OCT_TRY_TO(out, apply_rule(&mix, degree, rule == OCT_WEIGHTS_METROPOLIS));
    }
    /* Edges come by ascending receivers, so each sender's do too. */
    int *next = degree;
    memcpy(next, mix.out_start, (size_t)n_nodes * sizeof *next);
    for (int e = 0; e < n_merged; e++) {
        int o = next[edges[e].from]++;
        mix.to[o] = edges[e].to;
        mix.out_edge[o] = e;
    }
    OCT_TRY_TO(out, keep_rest(&mix));
    *out = mix;
    memset(&mix, 0, sizeof mix);
out:
    oct__mix_fini(&mix);
    oct__free(edges);
    oct__free(memory);
    return status;
}

/* --- checks ----------------------------------------------------------------------------------- */

int oct__mix_is_column_stochastic(const struct oct__mix *mix) {
    for (int j = 0; j < mix->n_nodes; j++) {
        double sum = mix->self[j];
        int is_negative = mix->self[j] < 0;
        for (int o = mix->out_start[j]; o < mix->out_start[j + 1]; o++) {
            double weight = mix->weight[mix->out_edge[o]];
            sum += weight;
            is_negative |= weight < 0;
        }
        if (is_negative || !(fabs(sum - 1) <= OCT_WEIGHT_ERROR)) {
            return 0;
        }
    }
    return 1;
}

int oct__mix_is_doubly_stochastic(const struct oct__mix *mix) {
    for (int i = 0; i < mix->n_nodes; i++) {
        double sum = mix->self[i];
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            sum += mix->weight[e];
        }
        if (!(fabs(sum - 1) <= OCT_WEIGHT_ERROR)) {
            return 0;
        }
    }
    return oct__mix_is_column_stochastic(mix);
}

/* A node that is not reached from node 0, going along the edges or against them; -1: none. */
static int unreached(const struct oct__mix *mixes, int n, int against, int *queue, char *seen) {
    const int n_nodes = mixes[0].n_nodes;
    int n_queue = 1;
    memset(seen, 0, (size_t)n_nodes);
    queue[0] = 0;
    seen[0] = 1;
    for (int q = 0; q < n_queue; q++) {
        for (int g = 0; g < n; g++) {
            const int *start = against ? mixes[g].in_start : mixes[g].out_start;
            const int *next = against ? mixes[g].from : mixes[g].to;
            for (int e = start[queue[q]]; e < start[queue[q] + 1]; e++) {
                if (!seen[next[e]]) {
                    seen[next[e]] = 1;
                    queue[n_queue++] = next[e];
                }
            }
        }
    }
    const char *miss = memchr(seen, 0, (size_t)n_nodes);
    return miss ? (int)(miss - seen) : -1;
}

oct_status oct__mixes_reach(const struct oct__mix *mixes, int n, struct oct__reach *out) {
    oct_status status = OCT_OK;
    void *queue = NULL, *seen = NULL;
    const size_t n_nodes = (size_t)mixes[0].n_nodes;
    OCT_TRY_TO(out, oct__alloc_array(n_nodes, sizeof(int), "a search", &queue));
    OCT_TRY_TO(out, oct__alloc(n_nodes, "a search", &seen));
    int lost = unreached(mixes, n, 0, queue, seen), source = -1;
    if (lost < 0) {
        source = unreached(mixes, n, 1, queue, seen);
    }
    *out =
        (struct oct__reach){lost < 0 && source < 0, source < 0 ? 0 : source, lost < 0 ? 0 : lost};
out:
    oct__free(queue);
    oct__free(seen);
    return status;
}

oct_status oct__mixes_count(const struct oct__mix *mixes, int n, int *out) {
    if (n == 1) {
        *out = mixes[0].n_edges;
        return OCT_OK;
    }
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)mixes[0].n_nodes, sizeof(int), "a count", &memory));
    int *last = memory; /* by sender: 1 + the receiver that it was last seen with */
    int count = 0;
    for (int i = 0; i < mixes[0].n_nodes; i++) {
        for (int g = 0; g < n; g++) {
            for (int e = mixes[g].in_start[i]; e < mixes[g].in_start[i + 1]; e++) {
                count += last[mixes[g].from[e]] != i + 1;
                last[mixes[g].from[e]] = i + 1;
            }
        }
    }
    oct__free(memory);
    *out = count;
    return OCT_OK;
}

int oct__mix_is_undirected(const struct oct__mix *mix) {
    for (int i = 0; i < mix->n_nodes; i++) {
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            if (find_edge(mix, i, mix->from[e]) < 0) {
                return 0;
            }
        }
    }
    return 1;
}
