/* SPDX-License-Identifier: Apache-2.0 */
/* draw_graph.c - nodes on a circle or in a grid, and arrows between them. */
#include "draw_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STROKES_MOST = 5000 /* edges that a drawing shows */ };

/* Whether all edges of the graph are those of a torus with so many columns. */
static int is_grid(int n_nodes, const struct oct_edge *edges, int n_edges, int columns) {
    const int rows = n_nodes / columns;
    for (int e = 0; e < n_edges; e++) {
        int across = abs(edges[e].from % columns - edges[e].to % columns);
        int down = abs(edges[e].from / columns - edges[e].to / columns);
        int beside = across == 1 || across == columns - 1, below = down == 1 || down == rows - 1;
        if (!((down == 0 && beside) || (across == 0 && below))) {
            return 0;
        }
    }
    return 1;
}

struct graph_layout graph_lay_out(const char *topology, int n_nodes, const struct oct_edge *edges,
                                  int n_edges, double size) {
    struct graph_layout layout = {n_nodes, 0, size, 0};
    const int n = layout.n;
    if (strncmp(topology, "torus", 5) == 0) {
        for (int c = 2; c <= n / 2 && !layout.columns; c++) {
            layout.columns = n % c == 0 && is_grid(n, edges, n_edges, c) ? c : 0;
        }
    }
    const int rows = layout.columns ? n / layout.columns : 0;
    const int longer = rows > layout.columns ? rows : layout.columns;
    const double room = (longer ? 0.67 * size / longer : 0.74 * 3.14 * size / n) / 2.6;
    layout.node_radius = room > 13 ? 13 : (room < 1.2 ? 1.2 : room);
    return layout;
}

static struct svg_point place(const struct graph_layout *layout, int node) {
    const double middle = layout->size / 2;
    if (layout->columns) {
        const int columns = layout->columns, rows = layout->n / columns;
        const int column = node % columns, row = node / columns;
        const double pitch = 0.67 * layout->size / ((rows > columns ? rows : columns) - 1);
        return (struct svg_point){middle + pitch * (column - (columns - 1) / 2.0),
                                  middle + pitch * (row - (rows - 1) / 2.0)};
    }
    const double radius = layout->n > 1 ? 0.42 * layout->size : 0;
    const double angle = 2 * 3.14159265358979323846 * node / layout->n;
    return (struct svg_point){middle + radius * sin(angle), middle - radius * cos(angle)};
}

/* Points of a line at the rims of its two nodes rather than in their middles. */
static void draw_edge(struct svg *svg, const struct graph_layout *layout, struct svg_point origin,
                      const struct oct_edge *edge, int both_ways, double width,
                      const char *class_name) {
    struct svg_point a = place(layout, edge->from), b = place(layout, edge->to);
    const double dx = b.x - a.x, dy = b.y - a.y, length = hypot(dx, dy);
    double bend = both_ways ? 0 : -0.08 * length; /* inwards, where there is room */
    if (layout->columns) { /* edges that wrap around go past the nodes between */
        const int c = layout->columns;
        int is_far =
            abs(edge->from % c - edge->to % c) > 1 || abs(edge->from / c - edge->to / c) > 1;
        bend = is_far ? 0.14 * length : 0;
    }
    /* The curve leaves at this angle from the straight line; its tangents meet the nodes there. */
    const double lean = atan2(2 * bend, length / 2), away = layout->node_radius + 1;
    const double along = atan2(dy, dx);
    const double head = both_ways ? 0 : 5 + layout->node_radius / 3;
    const struct svg_arrow arrow = {
        .x1 = origin.x + a.x + away * cos(along - lean),
        .y1 = origin.y + a.y + away * sin(along - lean),
        .x2 = origin.x + b.x - away * cos(along + lean),
        .y2 = origin.y + b.y - away * sin(along + lean),
        .bend = bend,
        .head = head,
        .width = width,
    };
    svg_arrow(svg, class_name, &arrow);
}

static void draw_nodes(struct svg *svg, const struct graph_layout *layout,
                       const struct graph *graph, struct svg_point origin) {
    for (int node = 0; node < layout->n; node++) {
        struct svg_point at = place(layout, node);
        char text[160];
        graph->tell(graph->context, node, text, sizeof text);
        svg_group_begin(svg, "%s", text);
        svg_circle(svg, "node", origin.x + at.x, origin.y + at.y, layout->node_radius);
        if (layout->node_radius >= 7) {
            svg_text(svg, "label", 'm', origin.x + at.x, origin.y + at.y + 4, "%d", node);
        }
        svg_group_end(svg);
    }
}

int graph_draw(struct svg *svg, const struct graph_layout *layout, const struct graph *graph,
               struct svg_point origin) {
    const int n_edges = graph->n_edges;
    double most = 0;
    int n_drawn = 0;
    for (int e = 0; e < n_edges; e++) {
        most = graph->edges[e].weight > most ? graph->edges[e].weight : most;
    }
    const int is_dense = n_edges > 16 * layout->n || n_edges > 300;
    const char *class_name = is_dense ? "faint" : "edge";
    const double stroke = n_edges > 3 * layout->n ? 0.8 : 1.4;
    const int n_strokes = graph->is_undirected ? n_edges / 2 : n_edges;
    const int every = 1 + n_strokes / (STROKES_MOST + 1); /* of too many, every so many-th */
    for (int e = 0, stroke_number = 0; e < n_edges; e++) {
        const struct oct_edge *edge = &graph->edges[e];
        if (graph->is_undirected && edge->from > edge->to) {
            continue; /* its reverse is drawn */
        }
        if (stroke_number++ % every != 0) {
            continue;
        }
        draw_edge(svg, layout, origin, edge, graph->is_undirected,
                  stroke * (0.4 + (most > 0 ? edge->weight / most : 1)), class_name);
        n_drawn++;
    }
    draw_nodes(svg, layout, graph, origin);
    return n_strokes - n_drawn;
}
