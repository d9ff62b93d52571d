/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c - octet bench: how fast the training step and the kernels are.
 *
 * A benchmark reports a floor beside its number: what the products alone would take in the same
 * run, on the same machine. So a result means something on a machine nobody has seen.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/bench.h"
#include "train/bench.h"

/* --- bench step ----------------------------------------------------------------------------- */

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
    {.name = "seconds",
     .placeholder = "X",
     .fallback = "3",
     .summary = "time for each row",
     .group = "Benchmark",
     .type = OCT_OPTION_REAL,
     .least = 0.01,
     .most = 3600},
    {.name = "profile",
     .summary = "also the time of every layer and operation",
     .group = "Benchmark"},
    {.name = NULL},
};

static const char *const step_options[] = {"model",
                                           "norm",
                                           "precision-recipe",
                                           "activation-rounding",
                                           "data",
                                           "data-dir",
                                           "augment",
                                           "batch",
                                           "topology",
                                           "algorithm",
                                           "compress",
                                           "transport",
                                           "momentum",
                                           "engine",
                                           NULL};

/* Made-up images: a benchmark needs their size only, and no files. */
static const char *const step_defaults[] = {"data",      "synthetic:samples=1024",
                                            "partition", "skew:0",
                                            "algorithm", "none",
                                            "momentum",  "local",
                                            NULL};

static const struct cli_example step_examples[] = {
    {"bench step", "ResNet-20 at batch 32, floats beside bytes"},
    {"bench step --precision int8 --batch 128 --profile", "where the time goes"},
    {"bench step --nodes 8 --algorithm choco --compress topk:0.99", "what gossip adds"},
    {NULL, NULL},
};

struct profile {
    const char *precision;
    int named; /* rows say of which precision they are */
    struct cli_table *table;
    struct cli_json *rows;
};

static int profile_row(const struct oct__step_profile_row *row, void *context) {
    struct profile *profile = context;
    if (profile->rows) {
        struct cli_json *object = cli_json_object();
        cli_json_text(object, "precision", profile->precision);
        cli_json_text(object, "layer", row->layer);
        cli_json_text(object, "op", row->op);
        cli_json_real(object, "ms", row->ms);
        cli_json_real(object, "share", row->share);
        cli_json_flag(object, "is_product", row->is_product);
        cli_json_add(profile->rows, object);
    } else {
        if (profile->named) {
            cli_table_cell(profile->table, "%s", profile->precision);
        }
        cli_table_cell(profile->table, "%s", row->layer);
        cli_table_cell(profile->table, "%s", row->op);
        cli_table_cell(profile->table, "%s", cli_decimals(row->ms, 3).text);
        cli_table_cell(profile->table, "%s %%", cli_decimals(100 * row->share, 1).text);
        cli_table_cell(profile->table, "%s", row->is_product ? "product" : "");
    }
    return 0;
}

static double share_of_floor(const struct oct__step_time *time) {
    return time->floor_samples_per_s > 0 ? time->samples_per_s / time->floor_samples_per_s
                                         : (double)NAN;
}

/* One row: what was measured, and with which norm, for that may depend on the precision. */
struct step_row {
    struct oct__step_time time;
    const char *precision;
    char norm[64];
};

static double speedup(const struct step_row *row, const struct step_row *first) {
    return row->time.samples_per_s / first->time.samples_per_s;
}

static double workspace_ratio(const struct step_row *row, const struct step_row *first) {
    return (double)row->time.workspace_bytes / (double)first->time.workspace_bytes;
}

static struct cli_json *step_json(const struct step_row *row, const struct step_row *first) {
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
static void print_step_table(const struct step_row *rows, int n_rows, int with_norm,
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

enum { PRECISIONS_MOST = 8 };

/* Cuts "fp32,int8" in place; every name is checked before the first is timed. */
static int read_precisions(struct cli *cli, char *list, const char **names, int *n_names) {
    *n_names = 0;
    for (char *at = list; at;) {
        char *comma = strchr(at, ',');
        if (comma) {
            *comma = '\0';
        }
        if (*n_names == PRECISIONS_MOST) {
            return cli_usage(cli, "--precision has more than %d names", PRECISIONS_MOST);
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

static int print_steps(const struct cli *cli, const struct step_row *rows, int n_rows, int n_nodes,
                       const struct profile *profile) {
    if (cli->json) {
        struct cli_json *root = cli_json_object(), *array = cli_json_array();
        for (int i = 0; i < n_rows; i++) {
            cli_json_add(array, step_json(&rows[i], rows));
        }
        cli_json_int(root, "nodes", n_nodes);
        cli_json_real(root, "seconds", cli_own_number(cli, "seconds"));
        cli_json_put(root, "rows", array);
        cli_json_put(root, "profile", profile->rows);
        cli_json_put(root, "config", cli_json_config(cli->config));
        return cli_json_print(root);
    }
    int norms_differ = 0;
    for (int i = 1; i < n_rows; i++) {
        norms_differ |= strcmp(rows[i].norm, rows[0].norm) != 0;
    }
    const char *algorithm = oct_config_get(cli->config, "algorithm");
    const int gossips = strcmp(algorithm, "none") != 0;
    printf("%s%s%s%s%s: batch %s, %d node%s", cli_style(stdout, CLI_BOLD),
           oct_config_get(cli->config, "model"), norms_differ ? "" : ", ",
           norms_differ ? "" : rows[0].norm, cli_style(stdout, CLI_PLAIN),
           oct_config_get(cli->config, "batch"), n_nodes, n_nodes == 1 ? "" : "s");
    if (gossips) {
        printf(", %s, %s, %s", oct_config_get(cli->config, "topology"), algorithm,
               oct_config_get(cli->config, "compress"));
    }
    putchar('\n');
    print_step_table(rows, n_rows, norms_differ, gossips);
    if (cli_own(cli, "profile")) {
        putchar('\n');
        cli_table_print(profile->table, stdout);
    }
    return CLI_DONE;
}

static int bench_step(struct cli *cli) {
    char list[256];
    const char *names[PRECISIONS_MOST];
    struct step_row rows[PRECISIONS_MOST];
    int n_names = 0, n_nodes = count_nodes(cli);
    snprintf(list, sizeof list, "%s", cli_own(cli, "precision"));
    int code = read_precisions(cli, list, names, &n_names);
    if (code != CLI_DONE) {
        return code;
    }
    double seconds = cli_own_number(cli, "seconds");
    struct cli_table layers;
    cli_table_init(&layers, n_names > 1 ? "precision|layer|operation|>ms|>share|"
                                        : "layer|operation|>ms|>share|");
    struct profile profile = {
        .table = &layers, .rows = cli->json ? cli_json_array() : NULL, .named = n_names > 1};
    oct_status status = OCT_OK;
    for (int i = 0; i < n_names && status == OCT_OK; i++) {
        cli_progress_note("timing %s, about %g s", names[i], seconds);
        profile.precision = names[i];
        status = oct_config_set(cli->config, "precision", names[i]);
        rows[i].precision = names[i];
        snprintf(rows[i].norm, sizeof rows[i].norm, "%s", oct_config_get(cli->config, "norm"));
        if (status == OCT_OK) {
            status = oct__bench_step(cli->config, n_nodes, seconds, &rows[i].time,
                                     cli_own(cli, "profile") ? profile_row : NULL, &profile);
        }
    }
    cli_progress_clear();
    if (status == OCT_OK) {
        code = print_steps(cli, rows, n_names, n_nodes, &profile);
    } else {
        cli_json_destroy(profile.rows);
        code = cli_fail(cli, status);
    }
    cli_table_fini(&layers);
    return code;
}

const struct cli_command cli_bench_step = {
    .name = "bench step",
    .summary = "time the training step against its products alone",
    .about = "Times whole training steps, and in the same run the matrix and convolution products "
             "they contain and nothing else: the floor that no step can beat with the same "
             "products. Speed and ratio (of the workspace) are against the first row. Nodes do not "
             "talk unless --algorithm says how; then a column has gossip's share of the step.",
    .own = step_own,
    .options = step_options,
    .defaults = step_defaults,
    .examples = step_examples,
    .json = "nodes, seconds, rows (precision, norm, samples_per_s, speedup, floor_samples_per_s, "
            "share_of_floor, workspace_bytes, workspace_ratio, state_bytes, wire_bytes, "
            "gossip_share), profile "
            "(precision, layer, op, ms, share, "
            "is_product), config",
    .run = bench_step,
};

/* --- bench kernels -------------------------------------------------------------------------- */

static const struct oct_option kernels_own[] = {
    {.name = "only",
     .placeholder = "NAME",
     .summary = "only kernels with this name",
     .group = "Benchmark"},
    {.name = "seconds",
     .placeholder = "X",
     .fallback = "0.1",
     .summary = "time for each row",
     .group = "Benchmark",
     .type = OCT_OPTION_REAL,
     .least = 0.001,
     .most = 60},
    {.name = NULL},
};

static const char *const no_options[] = {NULL};

static const struct cli_example kernels_examples[] = {
    {"bench kernels", "every kernel, every variant this machine runs"},
    {"bench kernels --only add_f32 --json", "one kernel, for a program"},
    {NULL, NULL},
};

struct kernel_rows {
    struct cli_table table;
    struct cli_json *rows;
    int n;
};

static int kernel_row(const struct oct__kernel_time *time, void *context) {
    struct kernel_rows *rows = context;
    rows->n++;
    cli_progress_note("timing kernels: %s, %s", time->name, time->variant);
    if (rows->rows) {
        struct cli_json *row = cli_json_object();
        cli_json_text(row, "name", time->name);
        cli_json_text(row, "variant", time->variant);
        cli_json_text(row, "shape", time->shape);
        cli_json_real(row, "ns", time->ns);
        cli_json_real(row, "gb_per_s", time->gb_per_s);
        cli_json_real(row, "speedup", time->speedup);
        cli_json_add(rows->rows, row);
    } else {
        cli_table_cell(&rows->table, "%s", time->name);
        cli_table_cell(&rows->table, "%s", time->shape);
        cli_table_cell(&rows->table, "%s", time->variant);
        cli_table_cell(&rows->table, "%s", cli_count(time->ns).text);
        cli_table_cell(&rows->table, "%s", cli_decimals(time->gb_per_s, 2).text);
        cli_table_cell(&rows->table, "%s x", cli_decimals(time->speedup, 2).text);
    }
    return cli_interrupted();
}

static int bench_kernels(struct cli *cli) {
    cli_interrupt_catch();
    struct kernel_rows rows = {.rows = cli->json ? cli_json_array() : NULL};
    cli_table_init(&rows.table, "kernel|shape|variant|>ns|>GB/s|>against ref");
    cli_progress_note("timing kernels");
    oct_status status =
        oct__kernels_bench(cli_own(cli, "only"), cli_own_number(cli, "seconds"), kernel_row, &rows);
    cli_progress_clear();
    int stopped = cli_interrupted();
    int code = CLI_DONE;
    if (status != OCT_OK && !(stopped && status == OCT_STATUS_CANCELLED)) {
        cli_json_destroy(rows.rows);
        code = cli_fail(cli, status);
    } else if (cli->json) {
        struct cli_json *root = cli_json_object();
        cli_json_put(root, "rows", rows.rows);
        cli_json_flag(root, "interrupted", stopped);
        code = cli_json_print(root);
    } else {
        cli_table_print(&rows.table, stdout);
    }
    cli_table_fini(&rows.table);
    return stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

const struct cli_command cli_bench_kernels = {
    .name = "bench kernels",
    .summary = "time the CPU kernels, variant by variant",
    .about = "Times every kernel in every variant up to the level in use (see OCT_CPU), on one "
             "thread. The last column is its speed against the portable C version.",
    .own = kernels_own,
    .options = no_options,
    .examples = kernels_examples,
    .json = "rows (name, variant, shape, ns, gb_per_s, speedup), interrupted",
    .run = bench_kernels,
};
