/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_step.c - octet bench step: how fast the training step is.
 *
 * A benchmark reports a floor beside its number: what the products alone would take in the same
 * run, on the same machine. So a result means something on a machine nobody has seen.
 */
#include "bench_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"

static const struct oct_option step_own[] = {
    {.name = "precision",
     .placeholder = "NAME[,NAME]",
     .fallback = "fp32,int8",
     .summary = "arithmetic, one row each; the first is the measure",
     .group = "Benchmark",
     .type = OCT_OPTION_CHOICE},
    {.name = "nodes",
     .placeholder = "N",
     .fallback = "0",
     .summary = "nodes that train at once (0: one a thread)",
     .group = "Benchmark",
     .type = OCT_OPTION_INT,
     .least = 0,
     .most = 65536},
    {.name = "at-once",
     .placeholder = "N",
     .fallback = "1",
     .summary = "runs side by side, of so many nodes each",
     .group = "Benchmark",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 256},
    {.name = "seconds",
     .placeholder = "X",
     .fallback = "3",
     .summary = "time for each row",
     .group = "Benchmark",
     .type = OCT_OPTION_REAL,
     .least = 0.01,
     .most = 3600},
    {.name = "profile",
     .summary = "also where the time goes (--verbose: every call)",
     .group = "Benchmark"},
    {.name = "cost",
     .summary = "also what a step costs: work, memory, energy",
     .group = "Benchmark"},
    {.name = "svg",
     .placeholder = "FILE",
     .summary = "draw the cost into FILE (-: stdout)",
     .group = "Benchmark"},
    {.name = NULL},
};

static const char *const step_options[] = {
    "model",    "norm",          "precision-recipe", "activation-rounding",
    "data",     "data-dir",      "augment",          "batch",
    "topology", "algorithm",     "compress",         "transport",
    "momentum", "clip-gradient", "engine",           NULL};

/* Made-up images: a benchmark needs their size only, and no files. */
static const char *const step_defaults[] = {"data",      "synthetic:samples=1024",
                                            "partition", "skew:0",
                                            "algorithm", "none",
                                            "momentum",  "local",
                                            NULL};

static const struct cli_example step_examples[] = {
    {"bench step", "ResNet-20 at batch 32, floats beside bytes"},
    {"bench step --precision int8 --batch 128 --profile", "where the time goes"},
    {"bench step --cost --svg cost.svg", "work, memory and energy of 8 bits against 32"},
    {"bench step --nodes 8 --algorithm choco --compress topk:0.99", "what gossip adds"},
    {NULL, NULL},
};

static double share_of_floor(const struct oct__step_time *time) {
    return time->floor_samples_per_s > 0 ? time->samples_per_s / time->floor_samples_per_s
                                         : (double)NAN;
}

static double speedup(const struct bench_row *row, const struct bench_row *first) {
    return row->time.samples_per_s / first->time.samples_per_s;
}

static double workspace_ratio(const struct bench_row *row, const struct bench_row *first) {
    return (double)row->time.workspace_bytes / (double)first->time.workspace_bytes;
}

static struct cli_json *step_json(const struct bench_row *row, const struct bench_row *first) {
    const struct oct__step_time *time = &row->time;
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "precision", row->precision);
    cli_json_text(object, "norm", row->norm);
    cli_json_real(object, "samples_per_s", time->samples_per_s);
    cli_json_real(object, "speedup", speedup(row, first));
    cli_json_real(object, "floor_samples_per_s", time->floor_samples_per_s);
    cli_json_real(object, "share_of_floor", share_of_floor(time));
    cli_json_int(object, "workspace_bytes", (int64_t)time->workspace_bytes);
    cli_json_real(object, "workspace_ratio", workspace_ratio(row, first));
    cli_json_int(object, "state_bytes", (int64_t)time->state_bytes);
    cli_json_int(object, "wire_bytes", (int64_t)time->wire_bytes);
    cli_json_real(object, "gossip_share", time->gossip_share);
    return object;
}

/* Columns that differ little between rows are left to wide windows, pipes and JSON. */
static void print_step_table(const struct bench_row *rows, int n_rows, int with_norm,
                             int with_gossip) {
    const int room = cli_width(stdout, 120) - (with_norm ? 15 : 0) - (with_gossip ? 8 : 0);
    const int wide = room >= 83;
    struct cli_table table;
    char heads[160];
    snprintf(heads, sizeof heads,
             "precision%s|>samples/s|>speed|>products|>share%s|>workspace|>ratio%s",
             with_norm ? "|norm" : "", with_gossip ? "|>gossip" : "", wide ? "|>state|>wire" : "");
    cli_table_init(&table, heads);
    for (int i = 0; i < n_rows; i++) {
        const struct oct__step_time *time = &rows[i].time;
        cli_table_cell(&table, "%s", rows[i].precision);
        if (with_norm) {
            cli_table_cell(&table, "%s", rows[i].norm);
        }
        cli_table_cell(&table, "%s", cli_count(time->samples_per_s).text);
        cli_table_cell(&table, "%s", cli_times(speedup(&rows[i], rows)).text);
        cli_table_cell(&table, "%s", cli_count(time->floor_samples_per_s).text);
        cli_table_cell(&table, "%s", cli_percent(share_of_floor(time), 0).text);
        if (with_gossip) {
            cli_table_cell(&table, "%s", cli_percent(time->gossip_share, 1).text);
        }
        cli_table_cell(&table, "%s", cli_bytes(time->workspace_bytes).text);
        cli_table_cell(&table, "%s", cli_part(workspace_ratio(&rows[i], rows)).text);
        if (wide) {
            cli_table_cell(&table, "%s", cli_bytes(time->state_bytes).text);
            cli_table_cell(&table, "%s", cli_bytes(time->wire_bytes).text);
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

int cli_precisions(struct cli *cli, char *list, const char **names, int *n_names) {
    *n_names = 0;
    for (char *at = list; at;) {
        char *comma = strchr(at, ',');
        if (comma) {
            *comma = '\0';
        }
        if (*n_names == CLI_PRECISIONS_MOST) {
            return cli_usage(cli, "--precision has more than %d names", CLI_PRECISIONS_MOST);
        }
        oct_status status = oct_config_set(cli->config, "precision", at);
        if (status == OCT_STATUS_INVALID) {
            return cli_usage(cli, "--%s", oct_last_error());
        }
        if (status != OCT_OK) {
            return cli_fail(cli, status);
        }
        names[(*n_names)++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return CLI_DONE;
}

/* Without --nodes, a node for each thread: what the published tables call "2 cores". */
static int count_nodes(const struct cli *cli) {
    int n_nodes = (int)cli_own_number(cli, "nodes");
    if (n_nodes == 0) {
        n_nodes = (int)strtol(oct_config_get(cli->config, "threads"), NULL, 10);
    }
    return n_nodes ? n_nodes : oct__parallel_width();
}

static int print_json(const struct cli *cli, const struct bench_row *rows, int n_rows,
                      int n_nodes) {
    struct cli_json *root = cli_json_object(), *array = cli_json_array();
    struct cli_json *calls = cli_json_array(), *kinds = cli_json_array();
    struct cli_json *layers = cli_json_array(), *ceilings = cli_json_array();
    for (int i = 0; i < n_rows; i++) {
        cli_json_add(array, step_json(&rows[i], rows));
        if (cli_own(cli, "profile")) {
            bench_profile_json(&rows[i], calls, kinds, layers, ceilings);
        }
    }
    cli_json_int(root, "nodes", n_nodes);
    cli_json_int(root, "at_once", (int64_t)cli_own_number(cli, "at-once"));
    cli_json_real(root, "seconds", cli_own_number(cli, "seconds"));
    cli_json_put(root, "rows", array);
    cli_json_put(root, "profile", calls);
    cli_json_put(root, "kinds", kinds);
    cli_json_put(root, "layers", layers);
    cli_json_put(root, "ceilings", ceilings);
    cli_json_put(root, "cost",
                 cli_own(cli, "cost") ? bench_cost_json(rows, n_rows) : cli_json_array());
    cli_json_text(root, "svg", cli_own(cli, "svg"));
    cli_json_put(root, "config", cli_json_config(cli->config));
    return cli_json_print(root);
}

static int print_text(const struct cli *cli, const struct bench_row *rows, int n_rows,
                      int n_nodes) {
    int norms_differ = 0;
    for (int i = 1; i < n_rows; i++) {
        norms_differ |= strcmp(rows[i].norm, rows[0].norm) != 0;
    }
    const char *algorithm = oct_config_get(cli->config, "algorithm");
    const int gossips = strcmp(algorithm, "none") != 0;
    const int n_runs = (int)cli_own_number(cli, "at-once");
    printf("%s%s%s%s%s: batch %s, %d node%s", cli_style(stdout, CLI_BOLD),
           oct_config_get(cli->config, "model"), norms_differ ? "" : ", ",
           norms_differ ? "" : rows[0].norm, cli_style(stdout, CLI_PLAIN),
           oct_config_get(cli->config, "batch"), n_nodes, n_nodes == 1 ? "" : "s");
    if (n_runs > 1) {
        printf(" in each of %d runs side by side", n_runs);
    }
    if (gossips) {
        printf(", %s, %s, %s", oct_config_get(cli->config, "topology"), algorithm,
               oct_config_get(cli->config, "compress"));
    }
    putchar('\n');
    print_step_table(rows, n_rows, norms_differ, gossips);
    for (int i = 0; i < n_rows && cli_own(cli, "profile"); i++) {
        bench_profile_print(&rows[i], cli->verbose);
    }
    if (cli_own(cli, "cost")) {
        bench_cost_print(rows, n_rows);
    }
    if (cli_own(cli, "svg")) {
        printf("\ndrawn into %s\n", cli_own(cli, "svg"));
    }
    return CLI_DONE;
}

/* Points the configuration at a row's precision, and the norm that goes with it. */
static oct_status choose(struct cli *cli, const char *precision, struct bench_row *row) {
    oct_status status = oct_config_set(cli->config, "precision", precision);
    row->precision = precision;
    snprintf(row->norm, sizeof row->norm, "%s", oct_config_get(cli->config, "norm"));
    return status;
}

/* The precisions take turns of this length; a long step makes them longer. */
#define TURN_SECONDS 0.5

static oct_status measure(struct cli *cli, const char *const *names, int n_names, int n_nodes,
                          struct bench_row *rows) {
    const double seconds = cli_own_number(cli, "seconds");
    for (int i = 0; i < n_names && cli_own(cli, "cost"); i++) {
        cli_progress_note("memory of a process that trains in %s", names[i]);
        oct_status status = choose(cli, names[i], &rows[i]);
        if (status != OCT_OK) {
            return status;
        }
        bench_process_measure(cli, n_nodes, &rows[i].process);
    }
    struct oct__step_bench *benches[CLI_PRECISIONS_MOST] = {NULL};
    oct_status status = OCT_OK;
    for (int i = 0; i < n_names && status == OCT_OK; i++) {
        status = choose(cli, names[i], &rows[i]);
        if (status == OCT_OK) {
            status = oct__step_bench_open(cli->config, n_nodes, (int)cli_own_number(cli, "at-once"),
                                          cli_own(cli, "profile") != NULL, &benches[i]);
        }
    }
    cli_progress_note("timing steps, about %g s", seconds * n_names);
    const double turn = seconds < TURN_SECONDS ? seconds : TURN_SECONDS;
    const double until = oct__seconds() + seconds * n_names;
    while (status == OCT_OK && oct__seconds() < until) {
        for (int i = 0; i < n_names && status == OCT_OK; i++) {
            status = oct__step_bench_run(benches[i], turn);
        }
    }
    for (int i = 0; i < n_names; i++) {
        if (status == OCT_OK) {
            status = oct__step_bench_report(benches[i], &rows[i].time,
                                            cli_own(cli, "profile") ? &rows[i].profile : NULL,
                                            cli_own(cli, "cost") ? &rows[i].cost : NULL);
        }
        oct__step_bench_close(benches[i]);
    }
    return status;
}

static int bench_step(struct cli *cli) {
    char list[256];
    const char *names[CLI_PRECISIONS_MOST];
    struct bench_row rows[CLI_PRECISIONS_MOST];
    int n_names = 0, n_nodes = count_nodes(cli);
    memset(rows, 0, sizeof rows);
    if (cli_own(cli, "svg") && !cli_own(cli, "cost")) {
        return cli_usage(cli, "--svg draws what --cost finds; give --cost too");
    }
    static const char *const files[] = {"svg", NULL};
    int n_files, code = cli_output_check(cli, files, &n_files);
    if (code == CLI_DONE) {
        snprintf(list, sizeof list, "%s", cli_own(cli, "precision"));
        code = cli_precisions(cli, list, names, &n_names);
    }
    if (code != CLI_DONE) {
        return code;
    }
    oct_status status = measure(cli, names, n_names, n_nodes, rows);
    cli_progress_clear();
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli_own(cli, "svg")) {
        code = bench_cost_draw(cli, cli_own(cli, "svg"), rows, n_names);
    }
    if (code == CLI_DONE && !cli_is_stdout(cli_own(cli, "svg"))) {
        code = cli->json ? print_json(cli, rows, n_names, n_nodes)
                         : print_text(cli, rows, n_names, n_nodes);
    }
    for (int i = 0; i < n_names; i++) {
        oct__step_profile_fini(&rows[i].profile);
    }
    return code;
}

const struct cli_command cli_bench_step = {
    .name = "bench step",
    .summary = "time the training step against its products alone",
    .about = "Times whole training steps, and in the same run the matrix and convolution products "
             "they contain and nothing else: the floor that no step can beat with the same "
             "products. Speed and ratio (of the workspace) are against the first row. Nodes do not "
             "talk unless --algorithm says how; then a column has gossip's share.",
    .own = step_own,
    .options = step_options,
    .defaults = step_defaults,
    .examples = step_examples,
    .json = "nodes, at_once, seconds, rows (precision, norm, samples_per_s, speedup, "
            "floor_samples_per_s, "
            "share_of_floor, workspace_bytes, workspace_ratio, state_bytes, wire_bytes, "
            "gossip_share), profile (precision, layer, op, kind, ms, share, is_product, floor_ms, "
            "multiply_adds, bytes, operations, bytes_ms, operations_ms, gap), kinds (precision, "
            "kind, is_product, calls, ms, share, floor_ms, share_of_floor, gmadds_per_s, bytes, "
            "operations, bytes_ms, operations_ms, gap), layers (precision, layer, forward_ms, "
            "data_gradient_ms, weight_gradient_ms, element_ms, ms, share, floor_ms, bytes, "
            "operations, bytes_ms, operations_ms, gap), ceilings of engine cuda (precision, "
            "bytes_per_s, s8_operations_per_s, bf16_operations_per_s, f32_operations_per_s, "
            "launch_us), cost (precision, "
            "forward_multiply_adds_per_sample, multiply_adds, element_operations, "
            "parameter_bytes, activation_bytes, work_bytes, work_used_bytes, workspace_bytes, "
            "state_bytes, peak_rss_bytes, own_rss_bytes, asked_bytes, file_rss_bytes, least_pj, "
            "mean_pj, product_mj, element_mj, step_mj, sample_us, wire_bytes, products, ratios "
            "(the first precision over this one), how (counted, measured or modelled)), svg, "
            "config",
    .run = bench_step,
};
