/* SPDX-License-Identifier: Apache-2.0 */
/* report_figures.c - the drawings of a report's page: charts, the graph and its traffic, who held what.
 *
 * They are about as wide as a phone's screen and stand in a grid, so that their texts keep their size
 * whether one or three of them fit beside each other.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/topology.h>

#include "draw_classes.h"
#include "draw_graph.h"

enum {
    WIDTH = 420, /* of a drawing */
    HEIGHT = 262,
    SQUARE = 320,      /* of a graph */
    CIRCLE_NODES = 20, /* with more nodes, a drawing takes the whole width, */
    COLUMN_NODES = 96, /* and beyond these columns instead of circles */
    FULL_WIDTH = 1280,
    TOLD_CIRCLES = 2000,
    GRAPH_NODES = 1024, /* with more nodes, a graph is not drawn */
    KEY = 270,          /* width of the key to circles */
    DRAWINGS_MOST = 6,  /* of graphs, and of classes */
    MARKS_MOST = 60000  /* lines and circles of them: some megabytes */
};

static void put(FILE *out, const char *text) {
    svg_escape(out, text);
}

/* "runs 1, 2 and 5 to 9" */
static void put_runs(FILE *out, const struct report *report, const int *runs, int n) {
    fputs(n == 1 ? "run " : "runs ", out);
    for (int i = 0; i < n;) {
        const int64_t number = report->runs[runs[i]].facts.number;
        int last = i;
        while (last + 1 < n &&
               report->runs[runs[last + 1]].facts.number == number + (last + 1 - i)) {
            last++;
        }
        last = last - i < 2 ? i : last;
        fprintf(out, "%s%lld", i == 0 ? "" : last == n - 1 ? " and " : ", ", (long long)number);
        if (last > i) {
            fprintf(out, " to %lld", (long long)report->runs[runs[last]].facts.number);
        }
        i = last + 1;
    }
}

/* --- charts ---------------------------------------------------------------------------------------- */

static void put_legend(FILE *out, const struct report *report) {
    if (report->n_runs < 2) {
        return;
    }
    fputs("<ul class=\"legend\" aria-label=\"Legend\">\n", out);
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        char stroke[16];
        fprintf(out,
                "<li data-group=\"%d\"><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line "
                "class=\"curve %s\" x1=\"1\" y1=\"5\" x2=\"25\" y2=\"5\"/></svg><span>",
                r, chart_stroke(r, stroke));
        put(out, run->title);
        if (*run->facts.label || *run->difference) {
            fputs(" <small>", out);
            put(out, *run->facts.label ? run->name : run->difference);
            fputs("</small>", out);
        }
        fputs("</span></li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void end_figure(FILE *out) {
    fputs("</div></figure>\n", out);
}

/* What there was nothing to draw of, and why. */
struct missing {
    const char *titles[REPORT_VIEWS], *reasons[REPORT_VIEWS];
    int n;
};

static void put_chart(FILE *out, const struct report *report, enum report_view view,
                      struct missing *missing) {
    const struct chart_box box = {0, 0, WIDTH, HEIGHT};
    struct report_chart chart;
    if (!report_chart(report, view, box, &chart)) {
        if (chart.missing) {
            missing->titles[missing->n] = chart.title;
            missing->reasons[missing->n++] = chart.missing;
        }
        return;
    }
    fprintf(out, "<figure><figcaption><h3>%s</h3><p>%s%s%s</p></figcaption><div>", chart.title,
            chart.about, *chart.note ? "; " : "", chart.note);
    struct svg *svg = svg_begin(out, WIDTH, HEIGHT, chart.title, chart.about);
    chart_draw(svg, &chart.chart);
    svg_close(svg);
    end_figure(out);
    report_chart_fini(&chart);
}

/* "Not shown: Loss and Accuracy (no epoch has ended); …": those of one reason together. */
static void put_missing(FILE *out, const struct missing *missing) {
    int n_reasons = 0;
    for (int i = 0; i < missing->n; i++) {
        int is_new = 1, n = 0;
        for (int j = 0; j < i; j++) {
            is_new &= strcmp(missing->reasons[j], missing->reasons[i]) != 0;
        }
        if (!is_new) {
            continue;
        }
        fputs(n_reasons++ ? "; " : "<p class=\"note\">Not shown: ", out);
        for (int j = i; j < missing->n; j++) {
            if (strcmp(missing->reasons[j], missing->reasons[i]) == 0) {
                fprintf(out, "%s%s", n++ ? ", " : "", missing->titles[j]);
            }
        }
        fprintf(out, " (%s)", missing->reasons[i]);
    }
    fputs(n_reasons ? ".</p>\n" : "", out);
}

void report_html_curves(const struct report *report, FILE *out) {
    static const enum report_view views[] = {
        REPORT_ACCURACY,  REPORT_LOSS,  REPORT_TRAIN_ACCURACY, REPORT_TRAIN_LOSS,
        REPORT_CONSENSUS, REPORT_BYTES, REPORT_CLIPPED,        REPORT_ZERO};
    struct missing missing = {.n = 0};
    fputs("<section>\n<h2>Curves</h2>\n", out);
    put_legend(out, report);
    fputs("<div class=\"charts\">\n", out);
    for (size_t i = 0; i < CLI_COUNT_OF(views); i++) {
        put_chart(out, report, views[i], &missing);
    }
    fputs("</div>\n", out);
    put_missing(out, &missing);
    fputs("</section>\n", out);
}

/* --- who holds what ---------------------------------------------------------------------------------- */

static int same_holdings(const struct report_run *a, const struct report_run *b) {
    return a->n_counted == b->n_counted && a->n_classes == b->n_classes &&
           memcmp(a->counts, b->counts,
                  (size_t)a->n_counted * (size_t)a->n_classes * sizeof *a->counts) == 0;
}

static int same_traffic(const struct report_run *a, const struct report_run *b) {
    int same = a->n_edges == b->n_edges && a->n_nodes == b->n_nodes &&
               strcmp(report_option(a, "topology"), report_option(b, "topology")) == 0 &&
               strcmp(report_option(a, "nodes"), report_option(b, "nodes")) == 0;
    for (int e = 0; same && e < a->n_edges; e++) {
        same = a->edges[e].from == b->edges[e].from && a->edges[e].to == b->edges[e].to &&
               a->edges[e].bytes == b->edges[e].bytes;
    }
    /* A graph that was not recorded is drawn from the options: of runs of the same seed, the same. */
    return same &&
           (a->n_edges > 0 || strcmp(report_option(a, "seed"), report_option(b, "seed")) == 0);
}

/* The runs from `r` on that are as it is; 0 when an earlier one is, and stands for it. */
static int alike(const struct report *report, int r,
                 int (*same)(const struct report_run *, const struct report_run *), int *runs) {
    int n = 0;
    for (int i = 0; i < report->n_runs; i++) {
        if (same(&report->runs[r], &report->runs[i])) {
            if (i < r) {
                return 0;
            }
            runs[n++] = i;
        }
    }
    return n;
}

/* Drawings of one kind: some runs' are enough to see, and must not make the page too large. */
struct drawn {
    int n, marks_left, n_left_out, n_too_large;
};

static int may_draw(struct drawn *drawn, int n_marks) {
    if (drawn->n == DRAWINGS_MOST || drawn->marks_left < n_marks) {
        drawn->n_left_out++;
        return 0;
    }
    drawn->n++;
    drawn->marks_left -= n_marks;
    return 1;
}

static void put_left_out(FILE *out, const struct drawn *drawn, const char *what) {
    if (drawn->n_too_large > 0) {
        fprintf(out, "<p class=\"note\">Not drawn: %s of more than %s nodes.</p>\n", what,
                cli_count(GRAPH_NODES).text);
    }
    if (drawn->n_left_out > 0) {
        fprintf(out,
                "<p class=\"note\">%d more %s are left out here; a report of a single run has "
                "its own.</p>\n",
                drawn->n_left_out, what);
    }
}

static void put_title(FILE *out, const struct report *report, const int *runs, int n,
                      const char *title, int is_full) {
    fprintf(out, "<figure%s><figcaption><h3>%s", is_full ? " class=\"full\"" : "", title);
    if (report->n_runs > 1) {
        fputs(", ", out);
        put_runs(out, report, runs, n);
    }
    fputs("</h3><p>", out);
}

static void put_holdings(FILE *out, const struct report *report, int r, struct drawn *drawn) {
    const struct report_run *run = &report->runs[r];
    int runs[REPORT_RUNS_MOST];
    const int n =
        run->n_counted > 0 && run->n_classes > 0 ? alike(report, r, same_holdings, runs) : 0;
    if (n == 0 || !may_draw(drawn, run->n_counted * run->n_classes)) {
        return;
    }
    const int is_full = run->n_counted > CIRCLE_NODES, is_columns = run->n_counted > COLUMN_NODES;
    struct classes_figure figure = {.n_nodes = run->n_counted,
                                    .n_classes = run->n_classes,
                                    .counts = run->counts,
                                    .left = 44,
                                    .top = 24,
                                    .room = (is_full ? FULL_WIDTH : WIDTH) - 60,
                                    .most_cell = 27,
                                    .most_told = TOLD_CIRCLES};
    char text[200];
    classes_lay_out(&figure);
    if (!is_full) { /* in the middle, but the key has room beside it */
        const double room = (WIDTH - 14 - figure.right) / 2, most = WIDTH - KEY - figure.left;
        figure.left += room < most ? room : most;
        classes_lay_out(&figure);
    }
    put_title(out, report, runs, n, "Classes of the nodes", is_full);
    snprintf(text, sizeof text, "training samples: %s",
             is_columns ? "a column is a node, its parts are classes"
                        : "the area of a circle is their number");
    put(out, text);
    fputs("</p></figcaption><div>", out);
    const double width = is_full ? FULL_WIDTH : WIDTH;
    struct svg *svg = svg_begin(out, width, is_columns ? HEIGHT : classes_bottom(&figure),
                                "Classes of the nodes", text);
    if (is_columns) {
        const struct svg_box box = {50, 10, FULL_WIDTH - 60, HEIGHT - 54};
        classes_draw_columns(svg, &figure, box);
    } else {
        classes_draw(svg, &figure);
    }
    svg_close(svg);
    end_figure(out);
}

/* --- the graph ------------------------------------------------------------------------------------- */

/* Edges to draw: those that carried something, else those that the options describe. */
struct edges {
    struct oct_edge *list; /* weight: bytes, or the share of a message */
    int n, n_nodes, is_undirected, is_traffic;
};

static int has_reverse(const struct oct_edge *list, int n, const struct oct_edge *edge) {
    int low = 0, high = n; /* by from, then to */
    while (low < high) {
        const int middle = (low + high) / 2;
        const struct oct_edge *at = &list[middle];
        if (at->from < edge->to || (at->from == edge->to && at->to < edge->from)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && list[low].from == edge->to && list[low].to == edge->from;
}

static int by_ends(const void *a, const void *b) {
    const struct oct_edge *x = a, *y = b;
    const int from = (x->from > y->from) - (x->from < y->from);
    return from ? from : (x->to > y->to) - (x->to < y->to);
}

static void read_topology(const struct report_run *run, struct edges *edges) {
    const struct oct_topology_options options = {
        .name = report_option(run, "topology"),
        .weights = report_option(run, "weights"),
        .n_nodes = edges->n_nodes,
        .hold = (int)strtol(report_option(run, "graph-hold"), NULL, 10),
        .seed = strtoull(report_option(run, "seed"), NULL, 10),
    };
    struct oct_topology *topology = NULL;
    struct oct_edge edge;
    if (oct_topology_create(&options, &topology) != OCT_OK) {
        return; /* a graph in a file that is elsewhere now */
    }
    while (oct_topology_edge(topology, 0, edges->n, &edge)) {
        edges->n++;
    }
    edges->list = cli_alloc((size_t)edges->n * sizeof *edges->list);
    for (int e = 0; e < edges->n; e++) {
        oct_topology_edge(topology, 0, e, &edges->list[e]);
    }
    oct_topology_destroy(topology);
}

static struct edges edges_of(const struct report_run *run) {
    struct edges edges = {.n_nodes = (int)strtol(report_option(run, "nodes"), NULL, 10)};
    edges.n_nodes = run->n_nodes > edges.n_nodes ? run->n_nodes : edges.n_nodes;
    for (int e = 0; e < run->n_edges; e++) {
        int last = run->edges[e].from > run->edges[e].to ? run->edges[e].from : run->edges[e].to;
        last = last < GRAPH_NODES ? last : GRAPH_NODES;
        edges.n_nodes = last >= edges.n_nodes ? last + 1 : edges.n_nodes;
    }
    if (edges.n_nodes < 2 || edges.n_nodes > GRAPH_NODES) {
        return edges;
    }
    if (run->n_edges > 0) {
        edges.is_traffic = 1;
        edges.n = run->n_edges;
        edges.list = cli_alloc((size_t)edges.n * sizeof *edges.list);
        for (int e = 0; e < edges.n; e++) {
            edges.list[e] = (struct oct_edge){run->edges[e].from, run->edges[e].to,
                                              (double)run->edges[e].bytes};
        }
    } else if (run->facts.bytes_sent > 0) { /* controls talk to nobody */
        read_topology(run, &edges);
    }
    if (edges.n > 0) {
        qsort(edges.list, (size_t)edges.n, sizeof *edges.list, by_ends);
    }
    edges.is_undirected = edges.n > 0;
    for (int e = 0; e < edges.n && edges.is_undirected; e++) {
        edges.is_undirected = has_reverse(edges.list, edges.n, &edges.list[e]);
    }
    return edges;
}

static void tell_node(const void *context, int node, char *out, size_t bytes) {
    const struct report_run *run = context;
    size_t used = (size_t)snprintf(out, bytes, "node %d", node);
    for (int i = 0; i < run->n_nodes && used < bytes; i++) {
        const struct oct_run_node *row = &run->nodes[i];
        if (row->node != node) {
            continue;
        }
        used += (size_t)snprintf(out + used, bytes - used, ": %s samples, sent %s",
                                 cli_count((double)row->n_samples).text,
                                 cli_bytes(row->bytes_sent).text);
        if (isfinite(row->accuracy) && used < bytes) {
            snprintf(out + used, bytes - used, ", test accuracy %.2f %%", row->accuracy);
        }
        return;
    }
}

static void about_edges(const struct report_run *run, const struct edges *edges, char *out,
                        size_t bytes) {
    double least = INFINITY, most = 0;
    for (int e = 0; e < edges->n; e++) {
        least = edges->list[e].weight < least ? edges->list[e].weight : least;
        most = edges->list[e].weight > most ? edges->list[e].weight : most;
    }
    size_t used = (size_t)snprintf(out, bytes, "%s, %s nodes; ", report_option(run, "topology"),
                                   cli_count(edges->n_nodes).text);
    if (used >= bytes) {
        return;
    }
    if (!edges->is_traffic) {
        snprintf(out + used, bytes - used, "bytes on edges are not on record");
    } else if (most > least * 1.005) {
        snprintf(out + used, bytes - used, "an edge carried %s to %s: the wider, the more",
                 cli_bytes((uint64_t)least).text, cli_bytes((uint64_t)most).text);
    } else {
        snprintf(out + used, bytes - used, "every edge carried %s", cli_bytes((uint64_t)most).text);
    }
}

static void put_graph(FILE *out, const struct report *report, int r, struct drawn *drawn) {
    const struct report_run *run = &report->runs[r];
    int runs[REPORT_RUNS_MOST];
    struct edges edges = edges_of(run);
    const int n = edges.n > 0 ? alike(report, r, same_traffic, runs) : 0;
    drawn->n_too_large += edges.n_nodes > GRAPH_NODES;
    const int cost = (edges.n < 5000 ? edges.n : 5000) + edges.n_nodes;
    if (n > 0 && may_draw(drawn, cost)) {
        char about[240];
        about_edges(run, &edges, about, sizeof about);
        put_title(out, report, runs, n, "Graph", 0);
        put(out, about);
        fputs("</p></figcaption><div>", out);
        struct svg *svg = svg_begin(out, WIDTH, SQUARE + 8, "Graph", about);
        const struct graph_layout layout = graph_lay_out(
            report_option(run, "topology"), edges.n_nodes, edges.list, edges.n, SQUARE);
        const struct graph graph = {edges.list, edges.n, edges.is_undirected, tell_node, run};
        const int n_left_out =
            graph_draw(svg, &layout, &graph, (struct svg_point){(WIDTH - SQUARE) / 2.0, 4});
        svg_close(svg);
        if (n_left_out > 0) {
            fprintf(out, "<p class=\"note\">%s edges are not drawn.</p>",
                    cli_count(n_left_out).text);
        }
        end_figure(out);
    }
    free(edges.list);
}

void report_html_nodes(const struct report *report, FILE *out) {
    static const enum report_view views[] = {REPORT_NODE_ACCURACY, REPORT_NODE_LOSS,
                                             REPORT_NODE_TEST};
    struct missing missing = {.n = 0};
    struct drawn graphs = {.marks_left = MARKS_MOST}, holdings = {.marks_left = MARKS_MOST};
    int any = 0;
    for (int r = 0; r < report->n_runs; r++) {
        any |= report_has_nodes(&report->runs[r]);
    }
    if (!any) {
        return;
    }
    fputs("<section>\n<h2>Nodes</h2>\n<div class=\"charts\">\n", out);
    for (size_t i = 0; i < CLI_COUNT_OF(views); i++) {
        put_chart(out, report, views[i], &missing);
    }
    for (int r = 0; r < report->n_runs; r++) {
        put_graph(out, report, r, &graphs);
    }
    for (int r = 0; r < report->n_runs; r++) {
        put_holdings(out, report, r, &holdings);
    }
    fputs("</div>\n", out);
    put_left_out(out, &graphs, "graphs");
    put_left_out(out, &holdings, "drawings of classes");
    put_missing(out, &missing);
    fputs("</section>\n", out);
}
