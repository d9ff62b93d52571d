/* SPDX-License-Identifier: Apache-2.0 */
/* paper_figures.c - the papers' figures: curves of runs, who holds what, graphs, costs.
 *
 * Their parts are drawn by whoever draws them for other commands; here they are put side by side.
 */
#include "paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/partition.h>
#include <octet/topology.h>

#include "chart.h"
#include "draw_classes.h"
#include "draw_graph.h"
#include "svg.h"

/* A drawing in a file that is complete or not there. */
struct page {
    struct cli_output output;
    struct svg *svg;
};

/* Reports a place that cannot be written to; returns the exit code. */
static int page_open(struct page *page, const struct cli *cli, const char *path, double width,
                     double height, const char *title) {
    int error = cli_output_open(&page->output, path);
    if (error) {
        return cli_output_say(cli, path, error);
    }
    page->svg = svg_begin_alone(page->output.file, width, height, title);
    svg_text(page->svg, "title", 's', 16, 30, "%s", title);
    return CLI_DONE;
}

static int page_close(struct page *page, const struct cli *cli) {
    const int error = svg_close(page->svg);
    const int late = cli_output_close(&page->output, !error);
    return cli_output_say(cli, page->output.path, error ? error : late);
}

/* Figures have rows but no columns, and are not run. */
static int refuse_table_options(const struct paper_table *table, const struct cli *cli) {
    static const char *const names[] = {"rows",    "columns", "seeds", "again",
                                        "at-once", "dry-run", "md",    "csv"};
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        if (paper_is_given(cli, names[i])) {
            return cli_usage(cli, "--%s is for tables; %s is a figure that needs no runs", names[i],
                             table->name);
        }
    }
    return CLI_DONE;
}

/* --- curves ----------------------------------------------------------------------------------- */

/* Names of curves are as long as "Range BatchNorm, CHOCO fp32". */
struct curve {
    char name[96];
    const struct paper_cell *cell;
};

static int list_curves(const struct paper_table *table, struct curve *curves) {
    int n = 0;
    for (int i = 0; i < table->n_cells; i++) { /* of one seed */
        const struct paper_method *method = &table->columns[i % table->n_columns];
        if (table->cells[i].state != PAPER_LEFT_OUT) {
            curves[n].cell = &table->cells[i];
            snprintf(curves[n++].name, sizeof curves[0].name, "%s%s%s",
                     table->rows[i / table->n_columns].title, table->n_columns > 1 ? ", " : "",
                     table->n_columns > 1 ? method->head : "");
        }
    }
    return n;
}

int paper_draw_curves(const struct paper_table *table, const struct cli *cli, const char *path) {
    enum { WIDTH = 760, HEIGHT = 460, TOP = 48 };
    const size_t n_cells = (size_t)table->n_rows * (size_t)table->n_columns;
    struct curve *curves = cli_alloc(n_cells * sizeof *curves);
    struct chart_series *series = cli_alloc(n_cells * sizeof *series);
    const int n = list_curves(table, curves);
    int n_epochs = 1;
    for (int i = 0; i < n; i++) {
        n_epochs = curves[i].cell->n_errors > n_epochs ? curves[i].cell->n_errors : n_epochs;
    }
    double *epochs = cli_alloc((size_t)n_epochs * sizeof *epochs);
    for (int e = 0; e < n_epochs; e++) {
        epochs[e] = e + 1;
    }
    for (int i = 0; i < n; i++) {
        series[i] = (struct chart_series){.name = curves[i].name,
                                          .label = curves[i].name,
                                          .group = i,
                                          .colour = i,
                                          .style = CHART_CURVE,
                                          .x = epochs,
                                          .y = curves[i].cell->errors,
                                          .n = curves[i].cell->n_errors};
    }
    struct chart chart = {
        .box = {8, TOP, WIDTH - 16, HEIGHT - TOP},
        .x = {.kind = CHART_WHOLE, .label = "epoch"},
        .y = {.kind = CHART_PERCENT, .label = "test error", .floor = 0, .ceiling = 100},
        .series = series,
        .n_series = n};
    struct page page;
    char title[256];
    paper_title(table, title, sizeof title);
    int code = page_open(&page, cli, path, WIDTH, HEIGHT, title);
    if (code == CLI_DONE) {
        chart_fit(&chart);
        chart_draw(page.svg, &chart);
        code = page_close(&page, cli);
    }
    free(epochs);
    free(series);
    free(curves);
    return code;
}

void paper_print_curves(const struct paper_table *table) {
    char heads[512] = ">test error after epoch";
    struct curve *curves =
        cli_alloc((size_t)table->n_rows * (size_t)table->n_columns * sizeof *curves);
    struct cli_table rows;
    int n_epochs = 0, n = list_curves(table, curves);
    n = n < CLI_TABLE_COLUMNS ? n : CLI_TABLE_COLUMNS - 1;
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "|>%s", curves[i].name);
        for (int e = 0; e < curves[i].cell->n_errors; e++) {
            n_epochs = isfinite(curves[i].cell->errors[e]) && e >= n_epochs ? e + 1 : n_epochs;
        }
    }
    cli_table_init(&rows, heads);
    const int stride = n_epochs <= 20 ? 1 : (n_epochs + 19) / 20;
    for (int epoch = 1; epoch <= n_epochs; epoch++) {
        if (epoch % stride && epoch != 1 && epoch != n_epochs) {
            continue;
        }
        cli_table_cell(&rows, "%d", epoch);
        for (int i = 0; i < n; i++) {
            const struct paper_cell *cell = curves[i].cell;
            cli_table_cell(
                &rows, "%s",
                cli_decimals(epoch <= cell->n_errors ? cell->errors[epoch - 1] : NAN, 2).text);
        }
    }
    putchar('\n');
    cli_table_print(&rows, stdout);
    cli_table_fini(&rows);
    free(curves);
}

/* --- who holds what --------------------------------------------------------------------------- */

struct holding {
    int n_nodes, n_classes;
    uint32_t *counts; /* [node][class] */
};

static oct_status hold(const struct oct_config *config, const struct oct_dataset *data,
                       struct holding *out) {
    const struct oct_partition_options options = {
        .name = oct_config_get(config, "partition"),
        .n_nodes = cli_nodes(config),
        .n_samples = strtoll(oct_config_get(config, "samples"), NULL, 10),
        .seed = strtoull(oct_config_get(config, "seed"), NULL, 10),
    };
    struct oct_partition *partition = NULL;
    struct oct_dataset_info info;
    oct_status status = oct_partition_create(data, &options, &partition);
    if (status != OCT_OK) {
        return status;
    }
    oct_dataset_info(data, &info);
    out->n_nodes = options.n_nodes;
    out->n_classes = info.n_classes;
    const size_t bytes = (size_t)out->n_nodes * (size_t)out->n_classes * sizeof *out->counts;
    out->counts = cli_alloc(bytes);
    memset(out->counts, 0, bytes);
    for (int node = 0; node < out->n_nodes; node++) {
        const uint32_t *rows = oct_partition_rows(partition, node);
        for (int64_t i = 0; i < oct_partition_size(partition, node); i++) {
            out->counts[node * out->n_classes + oct_dataset_label(data, rows[i])]++;
        }
    }
    oct_partition_destroy(partition);
    return OCT_OK;
}

/* The end of a figure: with --json its rows, taken here, as an object. */
static int finish(const struct paper_table *table, struct cli_json *rows, const char *path,
                  int code) {
    if (code != CLI_DONE || !rows) {
        cli_json_destroy(rows);
        return code;
    }
    struct cli_json *root = cli_json_object();
    cli_json_text(root, "name", table->name);
    cli_json_text(root, "title", table->title);
    cli_json_text(root, "svg", path);
    cli_json_put(root, "rows", rows);
    return cli_json_print(root);
}

static void print_holding(const struct paper_row *row, const struct holding *h) {
    char heads[16 * CLI_TABLE_COLUMNS] = ">node";
    struct cli_table table;
    const int n_classes =
        h->n_classes < CLI_TABLE_COLUMNS - 1 ? h->n_classes : CLI_TABLE_COLUMNS - 1;
    for (int c = 0; c < n_classes; c++) {
        const size_t used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "|>%d", c);
    }
    cli_table_init(&table, heads);
    for (int node = 0; node < h->n_nodes; node++) {
        cli_table_cell(&table, "%d", node);
        for (int c = 0; c < n_classes; c++) {
            cli_table_cell(&table, "%u", h->counts[node * h->n_classes + c]);
        }
    }
    printf("%s%s: %s%s, samples of each class\n", cli_style(stdout, CLI_BOLD), row->block,
           row->title, cli_style(stdout, CLI_PLAIN));
    cli_table_print(&table, stdout);
    putchar('\n');
    cli_table_fini(&table);
}

static struct cli_json *holding_json(const struct paper_row *row, const struct holding *h) {
    struct cli_json *object = cli_json_object(), *histogram = cli_json_array();
    for (int node = 0; node < h->n_nodes; node++) {
        struct cli_json *counts = cli_json_array();
        for (int c = 0; c < h->n_classes; c++) {
            cli_json_add_int(counts, h->counts[node * h->n_classes + c]);
        }
        cli_json_add(histogram, counts);
    }
    cli_json_int(object, "row", row->number);
    cli_json_text(object, "title", row->title);
    cli_json_int(object, "nodes", h->n_nodes);
    cli_json_put(object, "histogram", histogram);
    return object;
}

enum { PANEL_GAP = 36, PANEL_LEFT = 70, PANEL_TOP = 96, MOST_PANELS = 8 };

static struct classes_figure lay_out_panel(const struct holding *holding, double left) {
    struct classes_figure figure = {
        .n_nodes = holding->n_nodes,
        .n_classes = holding->n_classes,
        .counts = holding->counts,
        .left = left + PANEL_LEFT,
        .top = PANEL_TOP,
        .room = 300,
        .most_cell = 30,
        .most_told = 20000,
    };
    classes_lay_out(&figure);
    return figure;
}

static int draw_holdings(const struct paper_table *table, const struct cli *cli,
                         const struct holding *holdings, const char *path) {
    double lefts[MOST_PANELS + 1] = {0}, bottom = 0;
    char title[256];
    struct page page;
    for (int i = 0; i < table->n_rows; i++) {
        const struct classes_figure figure = lay_out_panel(&holdings[i], lefts[i]);
        lefts[i + 1] = figure.right + PANEL_GAP;
        bottom = classes_bottom(&figure) > bottom ? classes_bottom(&figure) : bottom;
    }
    paper_title(table, title, sizeof title);
    int code = page_open(&page, cli, path, lefts[table->n_rows], bottom, title);
    if (code != CLI_DONE) {
        return code;
    }
    for (int i = 0; i < table->n_rows; i++) {
        const struct classes_figure figure = lay_out_panel(&holdings[i], lefts[i]);
        svg_text(page.svg, "ink", 's', figure.left, 60, "%s", table->rows[i].title);
        classes_draw(page.svg, &figure);
    }
    return page_close(&page, cli);
}

static int show_holdings(const struct paper_table *table, const struct cli *cli,
                         const struct holding *holdings) {
    const char *path = cli_own(cli, "svg");
    int code = path ? draw_holdings(table, cli, holdings, path) : CLI_DONE;
    struct cli_json *rows = cli->json ? cli_json_array() : NULL;
    for (int i = 0; i < table->n_rows && code == CLI_DONE; i++) {
        if (rows) {
            cli_json_add(rows, holding_json(&table->rows[i], &holdings[i]));
        } else if (!cli_is_stdout(path)) {
            print_holding(&table->rows[i], &holdings[i]);
        }
    }
    return finish(table, rows, path, code);
}

int paper_figure_classes(struct paper_table *table, struct cli *cli) {
    struct holding holdings[MOST_PANELS];
    struct oct_dataset *data = NULL;
    char opened[256] = "";
    int code = refuse_table_options(table, cli);
    if (code != CLI_DONE) {
        return code;
    }
    oct_status status = OCT_OK;
    table->n_rows = table->n_rows < MOST_PANELS ? table->n_rows : MOST_PANELS;
    memset(holdings, 0, sizeof holdings);
    for (int i = 0; i < table->n_rows && status == OCT_OK; i++) {
        struct oct_config *config = NULL;
        status = paper_row_config(table, i, cli, &config);
        const char *name = status == OCT_OK ? oct_config_get(config, "data") : opened;
        if (status == OCT_OK && strcmp(name, opened) != 0) {
            oct_dataset_close(data);
            data = NULL;
            cli_progress_note("reading %s", name);
            status = oct_dataset_open(name, cli_data_folder(cli), OCT_SPLIT_TRAIN, &data);
            snprintf(opened, sizeof opened, "%s", name);
        }
        if (status == OCT_OK) {
            status = hold(config, data, &holdings[i]);
        }
        oct_config_destroy(config);
    }
    cli_progress_clear();
    code = status == OCT_OK ? show_holdings(table, cli, holdings) : cli_fail(cli, status);
    for (int i = 0; i < MOST_PANELS; i++) {
        free(holdings[i].counts);
    }
    oct_dataset_close(data);
    return code;
}

/* --- graphs ----------------------------------------------------------------------------------- */

struct drawn {
    const char *name;
    struct oct_edge *edges;
    double gap; /* NAN: not known */
    int n_edges;
    struct oct_topology_info info;
};

static oct_status look_at_graph(const struct oct_config *config, struct drawn *out) {
    struct oct_topology *topology = NULL;
    struct oct_edge edge;
    oct_status status = cli_topology(config, &topology);
    if (status != OCT_OK) {
        return status;
    }
    oct_topology_info(topology, &out->info);
    while (oct_topology_edge(topology, 0, out->n_edges, &edge)) {
        out->n_edges++;
    }
    out->edges = cli_alloc((size_t)(out->n_edges + 1) * sizeof *out->edges);
    for (int e = 0; e < out->n_edges; e++) {
        oct_topology_edge(topology, 0, e, &out->edges[e]);
    }
    if (oct_topology_spectral_gap(topology, &out->gap) != OCT_OK) {
        out->gap = NAN;
    }
    oct_topology_destroy(topology);
    return OCT_OK;
}

static void tell_node(const void *context, int node, char *out, size_t bytes) {
    (void)context;
    snprintf(out, bytes, "node %d", node);
}

static int draw_graphs(const struct paper_table *table, const struct cli *cli,
                       const struct drawn *graphs, const char *path) {
    enum { SIZE = 380, EDGE = 16, TOP = 76 };
    char title[256];
    paper_title(table, title, sizeof title);
    struct page page;
    int code =
        page_open(&page, cli, path, EDGE + table->n_rows * (SIZE + EDGE), TOP + SIZE + EDGE, title);
    for (int i = 0; code == CLI_DONE && i < table->n_rows; i++) {
        const struct svg_point origin = {EDGE + i * (SIZE + EDGE), TOP};
        const struct graph graph = {graphs[i].edges, graphs[i].n_edges,
                                    graphs[i].info.is_undirected, tell_node, NULL};
        const struct graph_layout layout = graph_lay_out(graphs[i].name, graphs[i].info.n_nodes,
                                                         graphs[i].edges, graphs[i].n_edges, SIZE);
        svg_rect(page.svg, "panel", origin.x, origin.y, SIZE, SIZE);
        svg_text(page.svg, "ink", 's', origin.x, TOP - 12, "%s", table->rows[i].title);
        (void)graph_draw(page.svg, &layout, &graph, origin);
    }
    return code == CLI_DONE ? page_close(&page, cli) : code;
}

static int show_graphs(const struct paper_table *table, const struct cli *cli,
                       const struct drawn *graphs) {
    const char *path = cli_own(cli, "svg");
    int code = path ? draw_graphs(table, cli, graphs, path) : CLI_DONE;
    struct cli_json *rows = cli->json ? cli_json_array() : NULL;
    struct cli_table text;
    cli_table_init(&text, "graph|topology|>nodes|>edges|>messages|>spectral gap");
    for (int i = 0; i < table->n_rows && code == CLI_DONE; i++) {
        const struct drawn *graph = &graphs[i];
        if (rows) {
            struct cli_json *object = cli_json_object(), *edges = cli_json_array();
            for (int e = 0; e < graph->n_edges; e++) {
                struct cli_json *pair = cli_json_array();
                cli_json_add_int(pair, graph->edges[e].from);
                cli_json_add_int(pair, graph->edges[e].to);
                cli_json_add(edges, pair);
            }
            cli_json_int(object, "row", table->rows[i].number);
            cli_json_text(object, "title", table->rows[i].title);
            cli_json_text(object, "topology", graph->name);
            cli_json_int(object, "nodes", graph->info.n_nodes);
            cli_json_real(object, "spectral_gap", graph->gap);
            cli_json_put(object, "edges", edges);
            cli_json_add(rows, object);
            continue;
        }
        cli_table_cell(&text, "%s", table->rows[i].title);
        cli_table_cell(&text, "%s", graph->name);
        cli_table_cell(&text, "%d", graph->info.n_nodes);
        cli_table_cell(&text, "%d", graph->n_edges);
        cli_table_cell(&text, "%d a node", graph->info.most_degree);
        cli_table_cell(&text, "%s", cli_decimals(graph->gap, 4).text);
    }
    if (code == CLI_DONE && !rows && !cli_is_stdout(path)) {
        cli_table_print(&text, stdout);
        puts(path ? "" : "\n--svg FILE draws them; 'octet topology' has more about a graph.");
    }
    cli_table_fini(&text);
    return finish(table, rows, path, code);
}

int paper_figure_graphs(struct paper_table *table, struct cli *cli) {
    struct drawn graphs[MOST_PANELS];
    struct oct_config *configs[MOST_PANELS] = {NULL};
    int code = refuse_table_options(table, cli);
    if (code != CLI_DONE) {
        return code;
    }
    oct_status status = OCT_OK;
    table->n_rows = table->n_rows < MOST_PANELS ? table->n_rows : MOST_PANELS;
    memset(graphs, 0, sizeof graphs);
    for (int i = 0; i < table->n_rows && status == OCT_OK; i++) {
        status = paper_row_config(table, i, cli, &configs[i]);
        if (status == OCT_OK) {
            graphs[i].name = oct_config_get(configs[i], "topology");
            status = look_at_graph(configs[i], &graphs[i]);
        }
    }
    code = status == OCT_OK ? show_graphs(table, cli, graphs) : cli_fail(cli, status);
    for (int i = 0; i < MOST_PANELS; i++) {
        free(graphs[i].edges);
        oct_config_destroy(configs[i]);
    }
    return code;
}

/* --- costs ------------------------------------------------------------------------------------ */

/* What the figure shows is what octet bench step --cost finds. */
int paper_figure_cost(struct paper_table *table, struct cli *cli) {
    char model[] = "--model=resnet20", batch[] = "--batch=32",
         precision[] = "--precision=fp32,int8", cost[] = "--cost", threads[64], svg[4200];
    char *arguments[6] = {model, batch, precision, cost, threads};
    int n = 5, code = refuse_table_options(table, cli);
    if (code != CLI_DONE) {
        return code;
    }
    snprintf(threads, sizeof threads, "--threads=%s", oct_config_get(cli->config, "threads"));
    if (cli_own(cli, "svg")) {
        snprintf(svg, sizeof svg, "--svg=%s", cli_own(cli, "svg"));
        arguments[n++] = svg;
    }
    struct cli inner = {.command = &cli_bench_step,
                        .json = cli->json,
                        .quiet = cli->quiet,
                        .verbose = cli->verbose};
    oct_status status = oct_config_create(&inner.config);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    code = cli_parse(&inner, n, arguments);
    if (code == CLI_DONE) {
        code = inner.command->run(&inner);
    }
    if (code == CLI_DONE && !cli->json) {
        printf("\n%s\n", table->note);
    }
    oct_config_destroy(inner.config);
    return code;
}
