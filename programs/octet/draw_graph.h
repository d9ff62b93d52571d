/* SPDX-License-Identifier: Apache-2.0 */
/* draw_graph.h - a graph of nodes in a square: octet topology draws shares, a report draws traffic. */
#ifndef OCTET_DRAW_GRAPH_H
#define OCTET_DRAW_GRAPH_H

#include <octet/topology.h>

#include "svg.h"

/* How the nodes lie: on a circle, or in a grid of so many columns. */
struct graph_layout {
    int n, columns;
    double size, node_radius; /* of the square, of a node */
};

/* `topology` is its name, which says whether a grid is looked for. */
struct graph_layout graph_lay_out(const char *topology, int n_nodes, const struct oct_edge *edges,
                                  int n_edges, double size);

/* What is drawn: a line is the wider, the larger the edge's weight beside the largest. */
struct graph {
    const struct oct_edge *edges;
    int n_edges;
    int is_undirected; /* every edge has its reverse: one line stands for both */
    /* What a node says when it is pointed at. */
    void (*tell)(const void *context, int node, char *out, size_t bytes);
    const void *context;
};

/* Says how many lines were left out, because there are too many to see. */
int graph_draw(struct svg *svg, const struct graph_layout *layout, const struct graph *graph,
               struct svg_point origin);

#endif
