/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_topology.c - octet topology: a graph, its weights, what they are good for, and a drawing. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <octet/topology.h>

#include "draw_graph.h"

enum {
    GRAPHS_SHOWN = 8, /* of a topology that never repeats */
    ROWS_MOST = 40,   /* of the table of nodes */
    PANELS_MOST = 12, /* of the drawing */
};

/* A topology as it was asked for, and all that is known of it. */
struct view {
    const char *name;
    struct oct_topology *topology;
    struct oct_topology_info info;
    int n_graphs;       /* to show: the period, or the first few */
    const char *rule;   /* of the weights */
    double gap, rounds; /* NAN: not known; INFINITY: never */
    char reason[512];   /* why the gap is not known */
};

/* The step at which graph number `graph` begins. */
static uint32_t step_of(const struct view *view, int graph) {
    return (uint32_t)graph * (uint32_t)view->info.hold;
}

/* --- text ----------------------------------------------------------------------------------- */

static const char *yes_no(int is) {
    return is ? "yes" : "no";
}

static void print_row(const char *key, const char *format, ...) OCT_PRINTF(2, 3);

static void print_row(const char *key, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("  %-19s ", key);
    cli_wrap(stdout, text, 22, 22, cli_width(stdout, 100));
}

/* "a new one every round", "3, then again from the first" */
static void print_graphs(const struct view *view) {
    const struct oct_topology_info *info = &view->info;
    char held[64] = "";
    if (info->hold > 1 && info->period != 1) {
        snprintf(held, sizeof held, "; each stays for %d rounds", info->hold);
    }
    if (info->period == 1) {
        print_row("graphs", "1, always the same");
    } else if (info->period == 0) {
        print_row("graphs", "a new one every round%s", held);
    } else {
        print_row("graphs", "%d in turn%s", info->period, held);
    }
}

static void print_gap(const struct view *view) {
    if (isnan(view->gap)) {
        print_row("spectral gap", "not known: %s", view->reason);
    } else if (isinf(view->rounds)) {
        print_row("spectral gap", "0: these nodes never agree");
    } else if (view->gap > 1 - 1e-9) {
        print_row("spectral gap", "1: all nodes have the exact average after %s round%s",
                  cli_count(view->rounds).text, view->rounds > 1 ? "s" : "");
    } else {
        print_row("spectral gap", "%.6g%s: disagreement shrinks 100 times in %s rounds", view->gap,
                  view->info.period > 1 ? " a period" : "", cli_count(view->rounds).text);
    }
}

static void print_summary(const struct view *view) {
    const struct oct_topology_info *info = &view->info;
    printf("%s%s%s, %s node%s\n", cli_style(stdout, CLI_BOLD), view->name,
           cli_style(stdout, CLI_PLAIN), cli_count(info->n_nodes).text,
           info->n_nodes == 1 ? "" : "s");
    print_graphs(view);
    print_row("edges", "%s%s%s", cli_count(info->n_edges).text,
              info->period > 1    ? " different ones"
              : info->period == 0 ? " in the first graph"
                                  : "",
              info->is_undirected ? ", every one with its reverse" : ", one way");
    char degree[64];
    snprintf(degree, sizeof degree, info->least_degree == info->most_degree ? "%d" : "%d to %d",
             info->least_degree, info->most_degree);
    print_row("messages", "%s a node and round", degree);
    print_row("weights", "%s", view->rule);
    print_row("column-stochastic", "%s%s", yes_no(info->is_column_stochastic),
              info->is_column_stochastic ? ": nothing gets lost on the way" : "");
    print_row("doubly stochastic", "%s: %s", yes_no(info->is_doubly_stochastic),
              info->is_doubly_stochastic
                  ? "plain averaging comes to the mean of all nodes"
                  : (info->is_undirected ? "needs a push-sum algorithm, or --weights metropolis"
                                         : "needs a push-sum algorithm"));
    print_row("strongly connected", "%s%s", yes_no(info->is_strongly_connected),
              info->period == 1 ? ": every node reaches every other"
                                : ": over time every node reaches every other");
    print_gap(view);
}

/* "0 -> 1 (0.5), 3 (0.25)" for each node, when there are few. */
static void print_nodes(const struct view *view) {
    const int n = view->info.n_nodes, rows = n * view->n_graphs;
    if (rows > ROWS_MOST || view->info.n_edges > 8 * ROWS_MOST) {
        printf("\n--json lists all edges and weights%s.\n",
               rows > 400 ? "" : ", --svg FILE draws them");
        return;
    }
    struct cli_table table;
    const int is_static = view->info.period == 1;
    cli_table_init(&table, is_static ? ">node|>keeps|~sends to (share)"
                                     : ">graph|>node|>keeps|~sends to (share)");
    for (int g = 0; g < view->n_graphs; g++) {
        for (int node = 0; node < n; node++) {
            char text[1024] = "-";
            size_t used = 0;
            struct oct_edge edge;
            for (int e = 0; oct_topology_edge(view->topology, step_of(view, g), e, &edge); e++) {
                if (edge.from == node && used < sizeof text) {
                    used += (size_t)snprintf(text + used, sizeof text - used, "%s%d (%.3g)",
                                             used ? ", " : "", edge.to, edge.weight);
                }
            }
            if (!is_static) {
                cli_table_cell(&table, "%s", node == 0 ? cli_count(g + 1).text : "");
            }
            cli_table_cell(&table, "%d", node);
            cli_table_cell(&table, "%.3g",
                           oct_topology_self_weight(view->topology, step_of(view, g), node));
            cli_table_cell(&table, "%s", text);
        }
    }
    printf("\n");
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    if (view->info.period == 0) {
        printf("and so on, at random.\n");
    }
}

/* --- JSON ----------------------------------------------------------------------------------- */

/* Edges, weights and the shares that nodes keep of one graph. */
static void graph_json(const struct view *view, int graph, struct cli_json *lists[3]) {
    struct oct_edge edge;
    for (int i = 0; i < 3; i++) {
        lists[i] = cli_json_array();
    }
    for (int e = 0; oct_topology_edge(view->topology, step_of(view, graph), e, &edge); e++) {
        struct cli_json *pair = cli_json_array();
        cli_json_add_int(pair, edge.from);
        cli_json_add_int(pair, edge.to);
        cli_json_add(lists[0], pair);
        cli_json_add_real(lists[1], edge.weight);
    }
    for (int node = 0; node < view->info.n_nodes; node++) {
        cli_json_add_real(lists[2],
                          oct_topology_self_weight(view->topology, step_of(view, graph), node));
    }
}

static int print_json(const struct view *view, const char *drawing) {
    static const char *const keys[3] = {"edges", "weights", "self_weights"};
    const struct oct_topology_info *info = &view->info;
    struct cli_json *root = cli_json_object(), *lists[3], *all[3];
    cli_json_text(root, "topology", view->name);
    cli_json_int(root, "nodes", info->n_nodes);
    cli_json_int(root, "period", info->period);
    cli_json_int(root, "hold", info->hold);
    cli_json_text(root, "rule", view->rule);
    cli_json_flag(root, "undirected", info->is_undirected);
    cli_json_flag(root, "column_stochastic", info->is_column_stochastic);
    cli_json_flag(root, "doubly_stochastic", info->is_doubly_stochastic);
    cli_json_flag(root, "strongly_connected", info->is_strongly_connected);
    cli_json_real(root, "spectral_gap", view->gap);
    cli_json_text(root, "spectral_gap_unknown", isnan(view->gap) ? view->reason : NULL);
    cli_json_real(root, "rounds_to_100th", view->rounds);
    cli_json_int(root, "n_edges", info->n_edges);
    cli_json_int(root, "least_degree", info->least_degree);
    cli_json_int(root, "most_degree", info->most_degree);
    cli_json_text(root, "svg", drawing);
    for (int i = 0; i < 3; i++) {
        all[i] = info->period == 1 ? NULL : cli_json_array();
    }
    for (int g = 0; g < view->n_graphs; g++) {
        graph_json(view, g, lists);
        for (int i = 0; i < 3; i++) {
            if (info->period == 1) {
                all[i] = lists[i];
            } else {
                cli_json_add(all[i], lists[i]);
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        cli_json_put(root, keys[i], all[i]);
    }
    return cli_json_print(root);
}

/* --- the drawing ---------------------------------------------------------------------------- */

enum { PANEL = 300, PANEL_ALONE = 500, GAP = 16, HEAD = 84, FOOT = 26 };

/* A graph's edges in one piece; the caller frees them. */
static struct oct_edge *edges_of(const struct view *view, int graph, int *n_edges) {
    struct oct_edge edge, *edges;
    int n = 0;
    while (oct_topology_edge(view->topology, step_of(view, graph), n, &edge)) {
        n++;
    }
    edges = cli_alloc((size_t)n * sizeof *edges);
    for (int e = 0; e < n; e++) {
        oct_topology_edge(view->topology, step_of(view, graph), e, &edges[e]);
    }
    *n_edges = n;
    return edges;
}

/* What a node of that graph says. */
struct told {
    const struct view *view;
    int graph;
};

static void tell(const void *context, int node, char *out, size_t bytes) {
    const struct told *told = context;
    snprintf(
        out, bytes, "node %d keeps %.3g", node,
        oct_topology_self_weight(told->view->topology, step_of(told->view, told->graph), node));
}

static int draw(const struct cli *cli, const struct view *view, const char *path) {
    const int n_panels = view->n_graphs < PANELS_MOST ? view->n_graphs : PANELS_MOST;
    int columns = n_panels < 4 ? n_panels : (n_panels == 4 ? 2 : (n_panels <= 6 ? 3 : 4));
    const int rows = (n_panels + columns - 1) / columns;
    const double size = n_panels == 1 ? PANEL_ALONE : PANEL, row = size + FOOT + GAP;
    const double width = GAP + columns * (size + GAP);
    char about[160];
    snprintf(about, sizeof about, "%s, %d nodes", view->name, view->info.n_nodes);
    struct svg *svg = svg_open(path, width, HEAD + rows * row, about);
    svg_text(svg, "title", 's', GAP, 32, "%s", about);
    snprintf(about, sizeof about, "spectral gap %.4g, ", view->gap);
    svg_text(svg, "dim", 's', GAP, 52, "%s%s weights, %s", isnan(view->gap) ? "" : about,
             view->rule,
             view->info.is_doubly_stochastic ? "doubly stochastic" : "column-stochastic only");
    svg_text(svg, "dim", 's', GAP, 69, "%s%s",
             view->info.is_undirected ? "A line is a connection both ways"
                                      : "An arrow goes from sender to receiver",
             "; the wider, the larger the share.");
    struct graph_layout layout = {0};
    for (int g = 0; g < n_panels; g++) {
        const int across = g % columns, down = g / columns;
        struct svg_point origin = {GAP + across * (size + GAP), HEAD + down * row};
        svg_rect(svg, "panel", origin.x, origin.y, size, size);
        const struct told told = {view, g};
        int n_edges;
        struct oct_edge *edges = edges_of(view, g, &n_edges);
        const struct graph graph = {edges, n_edges, view->info.is_undirected, tell, &told};
        if (g == 0) {
            layout = graph_lay_out(view->name, view->info.n_nodes, edges, n_edges, size);
        }
        int n_left_out = graph_draw(svg, &layout, &graph, origin);
        free(edges);
        char caption[160] = "";
        if (view->info.period != 1) {
            snprintf(caption, sizeof caption, view->info.period ? "graph %d of %d" : "graph %d",
                     g + 1, view->info.period);
        }
        if (g == n_panels - 1 && view->info.period > n_panels) {
            snprintf(caption, sizeof caption, "graph %d; %d more are not drawn", g + 1,
                     view->info.period - n_panels);
        }
        if (n_left_out > 0) {
            snprintf(caption, sizeof caption, "%d edges are not drawn", n_left_out);
        }
        svg_text(svg, "dim", 'm', origin.x + size / 2, origin.y + size + 18, "%s", caption);
    }
    int error = svg_close(svg);
    return cli_output_say(cli, path, error);
}

/* --- the command ---------------------------------------------------------------------------- */

static int list(const struct cli *cli) {
    const struct oct_plugin *plugin;
    struct cli_table table;
    cli_table_init(&table, "topology|options|~who sends to whom");
    struct cli_json *rows = cli->json ? cli_json_array() : NULL;
    for (int i = 0; (plugin = oct_plugin_at(OCT_PLUGIN_TOPOLOGY, i)) != NULL; i++) {
        if (rows) {
            struct cli_json *object = cli_json_object();
            cli_json_text(object, "name", plugin->name);
            cli_json_text(object, "summary", plugin->summary);
            cli_json_text(object, "reference", plugin->reference);
            cli_json_text(object, "options", plugin->options);
            cli_json_flag(object, "available", !plugin->unavailable);
            cli_json_add(rows, object);
            continue;
        }
        cli_table_cell(&table, "%s", plugin->name);
        cli_table_cell(&table, "%s", plugin->options ? plugin->options : "-");
        cli_table_cell(&table, "%s", plugin->summary);
    }
    int code = CLI_DONE;
    if (rows) {
        struct cli_json *root = cli_json_object();
        cli_json_put(root, "topologies", rows);
        code = cli_json_print(root);
    } else {
        cli_table_print(&table, stdout);
        printf("\n'octet topology NAME --nodes N' shows one; options follow a colon, as in "
               "erdos-renyi:p=0.3.\n");
    }
    cli_table_fini(&table);
    return code;
}

/* Rounds until disagreement is a hundredth: a period shrinks it by 1 - gap. */
static double rounds_of(const struct view *view) {
    const double period =
        view->info.period == 1 ? 1 : (double)view->info.period * (double)view->info.hold;
    if (view->gap > 1 - 1e-9) {
        return period;
    }
    return view->gap > 0 ? ceil(period * log(100) / -log1p(-view->gap)) : INFINITY;
}

static void look(struct view *view) {
    oct_topology_info(view->topology, &view->info);
    view->n_graphs = view->info.period > 0 ? view->info.period : GRAPHS_SHOWN;
    if (view->info.n_nodes > 256) {
        cli_progress_note("eigenvalues of %d nodes", view->info.n_nodes);
    }
    if (oct_topology_spectral_gap(view->topology, &view->gap) != OCT_OK) {
        view->gap = view->rounds = NAN;
        snprintf(view->reason, sizeof view->reason, "%s", oct_last_error());
    } else {
        view->rounds = rounds_of(view);
    }
    cli_progress_clear();
}

static int topology(struct cli *cli) {
    const char *drawing = cli_own(cli, "svg");
    if (cli->n_words == 0) {
        return drawing ? cli_usage(cli, "--svg needs a topology to draw: octet topology NAME")
                       : list(cli);
    }
    static const char *const files[] = {"svg", NULL};
    int n_files, code = cli_output_check(cli, files, &n_files);
    if (code != CLI_DONE) {
        return code;
    }
    struct view view = {.name = cli->words[0]};
    oct_status status = oct_config_set(cli->config, "topology", view.name);
    if (status != OCT_OK) {
        return status == OCT_STATUS_INVALID ? cli_usage(cli, "%s", oct_last_error())
                                            : cli_fail(cli, status);
    }
    const struct oct_topology_options options = {
        .name = view.name,
        .weights = oct_config_get(cli->config, "weights"),
        .n_nodes = (int)strtol(oct_config_get(cli->config, "nodes"), NULL, 10),
        .hold = (int)cli_own_number(cli, "hold"),
        .seed = strtoull(oct_config_get(cli->config, "seed"), NULL, 10),
    };
    status = oct_topology_create(&options, &view.topology);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    look(&view);
    view.rule = view.info.has_own_weights             ? "its own"
                : options.weights && *options.weights ? options.weights
                                                      : "out-degree";
    code = drawing ? draw(cli, &view, drawing) : CLI_DONE;
    if (code == CLI_DONE && cli->json) {
        code = print_json(&view, drawing);
    } else if (code == CLI_DONE && !cli_is_stdout(drawing)) {
        print_summary(&view);
        print_nodes(&view);
    }
    oct_topology_destroy(view.topology);
    return code;
}

static const char *const table_options[] = {"nodes", "weights", NULL};

static const struct oct_option own[] = {
    {.name = "hold",
     .placeholder = "N",
     .fallback = "1",
     .summary = "rounds that each graph of a changing topology stays",
     .group = "Network",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 1000000000},
    {.name = "svg", .placeholder = "FILE", .summary = "draw it (-: to stdout)", .group = "Output"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"topology directed-ring", "eight nodes: edges, weights, how fast they agree"},
    {"topology", "all topologies and their options"},
    {"topology torus --nodes 16 --svg torus.svg", "a drawing"},
    {"topology erdos-renyi:p=0.2 --nodes 32 --weights metropolis --seed 3", "a random graph"},
    {NULL, NULL},
};

const struct cli_command cli_topology_command = {
    .name = "topology",
    .arguments = "[NAME]",
    .most_words = 1,
    .summary = "a graph: edges, weights, checks, how fast it agrees",
    .about = "Shows who sends to whom, which share of a message each receiver takes, and the "
             "spectral gap, which says how fast all nodes come to agree. Without NAME it lists "
             "the topologies.",
    .own = own,
    .options = table_options,
    .examples = examples,
    .json = "topology, nodes, period (0: never repeats), hold, rule, undirected, "
            "column_stochastic, doubly_stochastic, strongly_connected, spectral_gap (null: not "
            "known), spectral_gap_unknown (why), rounds_to_100th, n_edges, least_degree, "
            "most_degree, svg, edges ([from, to]; a list for each graph when it changes), "
            "weights, self_weights (likewise); without NAME: topologies (name, summary, "
            "reference, options, available)",
    .run = topology,
};
