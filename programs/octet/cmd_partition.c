/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_partition.c - octet partition: who holds what, before anything is trained.
 *
 * A table of nodes and classes as long as a person can read one, a line for each node beyond that.
 * One number says how unlike the nodes are: the share of a node's samples that would have to be of
 * other classes for its mixture to be that of all nodes together (the total variation distance),
 * averaged over the nodes.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/dataset.h>
#include <octet/partition.h>

#include "draw_classes.h"

enum {
    MATRIX_CLASSES = CLI_TABLE_COLUMNS - 2, /* with more, a node is a line of its largest classes */
    MOST_ROWS = 32,                         /* with more nodes, the first and the last */
    FIRST_ROWS = 16,
    LAST_ROWS = 8,
    SHOWN_CLASSES = 3,
};

/* Who holds what. */
struct holdings {
    struct oct_dataset_info info;
    const char *name; /* of the partition */
    int n_nodes;
    int64_t n_samples;
    uint32_t *counts; /* [node][class] */
    int64_t *sizes;   /* [node] */
    int64_t *whole;   /* [class] on all nodes */
    double *distance; /* [node] */
};

static void *alloc_zero(size_t count, size_t size) {
    void *memory = cli_alloc(count * size);
    memset(memory, 0, count * size);
    return memory;
}

static const uint32_t *counts_of(const struct holdings *h, int node) {
    return h->counts + (size_t)node * (size_t)h->info.n_classes;
}

static void holdings_init(struct holdings *h, const struct oct_dataset *dataset,
                          const struct oct_partition *partition, const char *name, int n_nodes) {
    memset(h, 0, sizeof *h);
    oct_dataset_info(dataset, &h->info);
    size_t nodes = (size_t)n_nodes, classes = (size_t)h->info.n_classes;
    h->name = name;
    h->n_nodes = n_nodes;
    h->counts = alloc_zero(nodes * classes, sizeof *h->counts);
    h->sizes = alloc_zero(nodes, sizeof *h->sizes);
    h->whole = alloc_zero(classes, sizeof *h->whole);
    h->distance = alloc_zero(nodes, sizeof *h->distance);
    for (int node = 0; node < n_nodes; node++) {
        const uint32_t *rows = oct_partition_rows(partition, node);
        h->sizes[node] = oct_partition_size(partition, node);
        h->n_samples += h->sizes[node];
        for (int64_t i = 0; i < h->sizes[node]; i++) {
            int label = oct_dataset_label(dataset, rows[i]);
            h->counts[(size_t)node * classes + (size_t)label]++;
            h->whole[label]++;
        }
    }
    for (int node = 0; node < n_nodes; node++) {
        for (size_t c = 0; c < classes; c++) {
            h->distance[node] += 0.5 * fabs((double)counts_of(h, node)[c] / (double)h->sizes[node] -
                                            (double)h->whole[c] / (double)h->n_samples);
        }
    }
}

static void holdings_fini(struct holdings *h) {
    free(h->counts);
    free(h->sizes);
    free(h->whole);
    free(h->distance);
}

static int n_classes_of(const struct holdings *h, int node) {
    int n = 0;
    for (int c = 0; c < h->info.n_classes; c++) {
        n += counts_of(h, node)[c] > 0;
    }
    return n;
}

/* Least, mean and most of something over the nodes. */
struct spread {
    double least, mean, most;
};

static void spread_add(struct spread *spread, double value, int node, int n_nodes) {
    spread->least = node == 0 || value < spread->least ? value : spread->least;
    spread->most = node == 0 || value > spread->most ? value : spread->most;
    spread->mean += value / n_nodes;
}

struct summary {
    struct spread sizes, classes, distance;
};

static struct summary sum_up(const struct holdings *h) {
    struct summary s;
    memset(&s, 0, sizeof s);
    for (int node = 0; node < h->n_nodes; node++) {
        spread_add(&s.sizes, (double)h->sizes[node], node, h->n_nodes);
        spread_add(&s.classes, n_classes_of(h, node), node, h->n_nodes);
        spread_add(&s.distance, h->distance[node], node, h->n_nodes);
    }
    return s;
}

/* --- on the terminal ------------------------------------------------------------------------ */

/* The node of a row of the table, counting the rows that are left out; -1: "and so on". */
static int node_of_row(const struct holdings *h, int row) {
    if (h->n_nodes <= MOST_ROWS || row < FIRST_ROWS) {
        return row;
    }
    return row == FIRST_ROWS ? -1 : h->n_nodes - LAST_ROWS + (row - FIRST_ROWS - 1);
}

static int n_rows_of(const struct holdings *h) {
    return h->n_nodes <= MOST_ROWS ? h->n_nodes : FIRST_ROWS + 1 + LAST_ROWS;
}

/* The row that stands for those left out. */
static void add_gap(struct cli_table *table, int n_cells) {
    for (int i = 0; i < n_cells; i++) {
        cli_table_cell(table, "%s", i == 0 ? "..." : "");
    }
}

/* node, class 0, class 1, …, all */
static void print_matrix(const struct holdings *h) {
    char heads[16 * CLI_TABLE_COLUMNS] = ">node";
    struct cli_table table;
    for (int c = 0; c < h->info.n_classes; c++) {
        size_t used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "|>%d", c);
    }
    strcat(heads, "|>samples");
    cli_table_init(&table, heads);
    for (int row = 0; row < n_rows_of(h); row++) {
        int node = node_of_row(h, row);
        if (node < 0) {
            add_gap(&table, h->info.n_classes + 2);
            continue;
        }
        cli_table_cell(&table, "%d", node);
        for (int c = 0; c < h->info.n_classes; c++) {
            char count[16];
            snprintf(count, sizeof count, "%u", counts_of(h, node)[c]);
            cli_table_cell(&table, "%s", counts_of(h, node)[c] ? count : ".");
        }
        cli_table_cell(&table, "%s", cli_count((double)h->sizes[node]).text);
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

/* "class 7 41 %, class 3 20 %": the largest of a node. */
static void name_largest(const struct holdings *h, int node, char *out, size_t bytes) {
    const uint32_t *counts = counts_of(h, node);
    int shown[SHOWN_CLASSES] = {0};
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < SHOWN_CLASSES; i++) {
        int best = -1;
        for (int c = 0; c < h->info.n_classes; c++) {
            int taken = 0;
            for (int j = 0; j < i; j++) {
                taken |= shown[j] == c;
            }
            if (!taken && counts[c] > 0 && (best < 0 || counts[c] > counts[best])) {
                best = c;
            }
        }
        shown[i] = best;
        if (best < 0 || used >= bytes) {
            return;
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s%d (%s)", i ? ", " : "", best,
                                 cli_percent(counts[best] / (double)h->sizes[node], 0).text);
    }
}

static void print_lines(const struct holdings *h) {
    struct cli_table table;
    cli_table_init(&table, ">node|>samples|>classes|>distance|largest classes");
    for (int row = 0; row < n_rows_of(h); row++) {
        int node = node_of_row(h, row);
        char largest[128];
        if (node < 0) {
            add_gap(&table, 5);
            continue;
        }
        name_largest(h, node, largest, sizeof largest);
        cli_table_cell(&table, "%d", node);
        cli_table_cell(&table, "%s", cli_count((double)h->sizes[node]).text);
        cli_table_cell(&table, "%d", n_classes_of(h, node));
        cli_table_cell(&table, "%s", cli_decimals(h->distance[node], 2).text);
        cli_table_cell(&table, "%s", largest);
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void add_spread(struct cli_table *table, const char *name, const struct spread *spread,
                       int is_share, const char *note) {
    cli_table_cell(table, "%s", name);
    if (is_share) {
        cli_table_cell(table, "%s", cli_decimals(spread->least, 3).text);
        cli_table_cell(table, "%s", cli_decimals(spread->mean, 3).text);
        cli_table_cell(table, "%s", cli_decimals(spread->most, 3).text);
    } else {
        cli_table_cell(table, "%s", cli_count(spread->least).text);
        cli_table_cell(table, "%s",
                       spread->mean < 100 ? cli_decimals(spread->mean, 1).text
                                          : cli_count(spread->mean).text);
        cli_table_cell(table, "%s", cli_count(spread->most).text);
    }
    cli_table_cell(table, "%s", note);
}

static void print_text(const struct holdings *h) {
    struct summary s = sum_up(h);
    struct cli_table table;
    printf("%s by %s: %s samples of %d classes on %s node%s\n\n", h->info.name, h->name,
           cli_count((double)h->n_samples).text, h->info.n_classes, cli_count(h->n_nodes).text,
           h->n_nodes == 1 ? "" : "s");
    if (h->info.n_classes <= MATRIX_CLASSES) {
        print_matrix(h);
    } else {
        print_lines(h);
    }
    putchar('\n');
    cli_table_init(&table, "a node|>least|>mean|>most|~");
    add_spread(&table, "samples", &s.sizes, 0, "");
    add_spread(&table, "classes", &s.classes, 0, "with a sample there");
    add_spread(&table, "distance", &s.distance, 1,
               "share of samples to exchange to be like the whole");
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static int print_json(const struct cli *cli, const struct holdings *h, const char *drawing) {
    struct cli_json *root = cli_json_object(), *sizes = cli_json_array(),
                    *histogram = cli_json_array(), *distances = cli_json_array();
    for (int node = 0; node < h->n_nodes; node++) {
        struct cli_json *row = cli_json_array();
        for (int c = 0; c < h->info.n_classes; c++) {
            cli_json_add_int(row, counts_of(h, node)[c]);
        }
        cli_json_add(histogram, row);
        cli_json_add_int(sizes, h->sizes[node]);
        cli_json_add_real(distances, h->distance[node]);
    }
    cli_json_text(root, "data", h->info.name);
    cli_json_text(root, "partition", h->name);
    cli_json_int(root, "nodes", h->n_nodes);
    cli_json_int(root, "classes", h->info.n_classes);
    cli_json_int(root, "samples", h->n_samples);
    cli_json_int(root, "seed", strtoll(oct_config_get(cli->config, "seed"), NULL, 10));
    cli_json_real(root, "heterogeneity", sum_up(h).distance.mean);
    cli_json_text(root, "svg", drawing);
    cli_json_put(root, "sizes", sizes);
    cli_json_put(root, "distances", distances);
    cli_json_put(root, "histogram", histogram);
    return cli_json_print(root);
}

/* --- the drawing ---------------------------------------------------------------------------- */

enum { TOLD_CIRCLES = 20000 };

static int draw(const struct cli *cli, const struct holdings *h, const char *path) {
    struct classes_figure figure = {.n_nodes = h->n_nodes,
                                    .n_classes = h->info.n_classes,
                                    .counts = h->counts,
                                    .left = 70,
                                    .top = 84,
                                    .room = 1100,
                                    .most_cell = 46,
                                    .most_told = TOLD_CIRCLES};
    char title[256];
    if (h->n_nodes > CLASSES_NODES_MOST) {
        return cli_usage(cli, "--svg draws up to %d nodes, not %d", CLASSES_NODES_MOST, h->n_nodes);
    }
    classes_lay_out(&figure);
    snprintf(title, sizeof title, "%s by %s on %s node%s", h->info.name, h->name,
             cli_count(h->n_nodes).text, h->n_nodes == 1 ? "" : "s");
    double width = figure.right + 30 > 460 ? figure.right + 30 : 460;
    struct svg *svg = svg_open(path, width, classes_bottom(&figure), title);
    svg_text(svg, "title", 's', 16, 30, "%s", title);
    svg_text(svg, "dim", 's', 16, 50, "%s samples, distance from the whole %s on average",
             cli_count((double)h->n_samples).text, cli_decimals(sum_up(h).distance.mean, 2).text);
    classes_draw(svg, &figure);
    int error = svg_close(svg);
    return cli_output_say(cli, path, error);
}

/* --- the command ------------------------------------------------------------------------------ */

static int show_partition(struct cli *cli) {
    const char *data = oct_config_get(cli->config, "data");
    const struct oct_partition_options options = {
        .name = oct_config_get(cli->config, "partition"),
        .n_nodes = (int)strtol(oct_config_get(cli->config, "nodes"), NULL, 10),
        .n_samples = strtoll(oct_config_get(cli->config, "samples"), NULL, 10),
        .seed = strtoull(oct_config_get(cli->config, "seed"), NULL, 10),
    };
    static const char *const files[] = {"svg", NULL};
    int n_files, code = cli_output_check(cli, files, &n_files);
    if (code != CLI_DONE) {
        return code;
    }
    struct oct_dataset *dataset = NULL;
    struct oct_partition *partition = NULL;
    cli_progress_note("reading %s", data);
    oct_status status = oct_dataset_open(data, cli_data_folder(cli), OCT_SPLIT_TRAIN, &dataset);
    if (status == OCT_OK) {
        status = oct_partition_create(dataset, &options, &partition);
    }
    cli_progress_clear();
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else {
        struct holdings holdings;
        holdings_init(&holdings, dataset, partition, options.name, options.n_nodes);
        const char *drawing = cli_own(cli, "svg");
        code = drawing ? draw(cli, &holdings, drawing) : CLI_DONE;
        if (code == CLI_DONE && cli->json) {
            code = print_json(cli, &holdings, drawing);
        } else if (code == CLI_DONE && !cli_is_stdout(drawing)) {
            print_text(&holdings);
        }
        holdings_fini(&holdings);
    }
    oct_partition_destroy(partition);
    oct_dataset_close(dataset);
    return code;
}

static const char *const taken[] = {"data", "data-dir", "samples", "partition", "nodes", NULL};

static const struct oct_option own[] = {
    {.name = "svg",
     .placeholder = "FILE",
     .summary = "draw it: a circle for every node and class (-: to stdout)",
     .group = "Output"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"partition", "Fashion-MNIST on 8 nodes, mostly classes of their own"},
    {"partition --skew 0 --nodes 16", "all nodes alike"},
    {"partition --skew 0.9 --svg holdings.svg", "a drawing"},
    {"partition --data cifar10 --partition dirichlet:0.1 --json", "for a program to read"},
    {NULL, NULL},
};

const struct cli_command cli_partition = {
    .name = "partition",
    .summary = "which node holds how many samples of which class",
    .about =
        "Deals a dataset's training samples out to the nodes exactly as 'octet train' would, and "
        "shows who holds what and how unlike the nodes are.",
    .own = own,
    .options = taken,
    .examples = examples,
    .json = "data, partition, nodes, classes, samples, seed, heterogeneity (mean of distances), "
            "svg, sizes "
            "[node], distances [node], histogram [node][class]",
    .run = show_partition,
};
