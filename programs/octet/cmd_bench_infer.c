/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_infer.c - octet bench infer: how fast a network classifies, floats beside bytes. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/bench_infer.h"

static const struct oct_option own[] = {
    {.name = "precision",
     .placeholder = "NAME[,NAME]",
     .fallback = "fp32,int8",
     .summary = "arithmetic, one row each; the first is the measure",
     .group = "Benchmark",
     .type = OCT_OPTION_CHOICE},
    {.name = "batch",
     .placeholder = "N[,N]",
     .fallback = "1,64",
     .summary = "samples that are classified at once, one row each",
     .group = "Benchmark"},
    {.name = "seconds",
     .placeholder = "X",
     .fallback = "2",
     .summary = "time for each row",
     .group = "Benchmark",
     .type = OCT_OPTION_REAL,
     .least = 0.01,
     .most = 3600},
    {.name = "profile",
     .summary = "also the time of every kind of operation, on one thread",
     .group = "Benchmark"},
    {.name = NULL},
};

static const char *const options[] = {"model",  "norm", "precision-recipe", "data", "data-dir",
                                      "engine", NULL};

/* Made-up images, as for bench step. */
static const char *const defaults[] = {"data",      "synthetic:samples=1024",
                                       "partition", "skew:0",
                                       "algorithm", "none",
                                       "momentum",  "local",
                                       NULL};

static const struct cli_example examples[] = {
    {"bench infer", "ResNet-20, one image at a time and 64 at once"},
    {"bench infer --precision int8 --batch 1 --profile", "where the time goes"},
    {"bench infer --threads 1 --batch 1,8,32 --json", "one thread, for a program"},
    {NULL, NULL},
};

enum { BATCHES_MOST = 16, BATCH_LARGEST = 65536 };

struct rows {
    const char *model;
    struct cli_table table, layers;
    struct cli_json *rows, *profile;
    struct oct__infer_time first; /* of the batch size under way: the measure */
    int named;                    /* the profile says of which row it is */
};

static double samples_per_s(const struct oct__infer_time *time) {
    return time->batch / time->median;
}

static double share_of_floor(const struct oct__infer_time *time) {
    return time->floor > 0 ? time->floor / time->median : (double)NAN;
}

static void add_json(struct rows *rows, const struct oct__infer_time *time) {
    const struct oct__infer_time *first = &rows->first;
    char variant[64];
    snprintf(variant, sizeof variant, "%s, batch %d", time->precision, time->batch);
    struct cli_json *row = cli_json_object();
    cli_json_text(row, "name", rows->model);
    cli_json_text(row, "variant", variant);
    cli_json_real(row, "ns", 1e9 * time->median);
    cli_json_text(row, "precision", time->precision);
    cli_json_text(row, "norm", time->norm);
    cli_json_int(row, "batch", time->batch);
    cli_json_int(row, "runs", time->n_runs);
    cli_json_real(row, "latency_ms", 1e3 * time->median);
    cli_json_real(row, "latency_p99_ms", 1e3 * time->p99);
    cli_json_real(row, "samples_per_s", samples_per_s(time));
    cli_json_real(row, "speedup", first->median / time->median);
    cli_json_real(row, "floor_samples_per_s", time->batch / time->floor);
    cli_json_real(row, "share_of_floor", share_of_floor(time));
    cli_json_int(row, "weight_bytes", (int64_t)time->weight_bytes);
    cli_json_real(row, "weight_ratio", (double)time->weight_bytes / (double)first->weight_bytes);
    cli_json_int(row, "workspace_bytes", (int64_t)time->workspace_bytes);
    cli_json_real(row, "workspace_ratio",
                  (double)time->workspace_bytes / (double)first->workspace_bytes);
    cli_json_add(rows->rows, row);
}

static void add_cells(struct rows *rows, const struct oct__infer_time *time) {
    struct cli_table *table = &rows->table;
    cli_table_cell(table, "%s", time->precision);
    cli_table_cell(table, "%d", time->batch);
    cli_table_cell(table, "%s", cli_decimals(1e3 * time->median, 3).text);
    cli_table_cell(table, "%s", cli_decimals(1e3 * time->p99, 3).text);
    cli_table_cell(table, "%s", cli_count(samples_per_s(time)).text);
    cli_table_cell(table, "%s", cli_times(rows->first.median / time->median).text);
    cli_table_cell(table, "%s", cli_percent(share_of_floor(time), 0).text);
    cli_table_cell(table, "%s", cli_bytes(time->weight_bytes).text);
    cli_table_cell(table, "%s", cli_bytes(time->workspace_bytes).text);
}

static int take(const struct oct__infer_time *time, void *context) {
    struct rows *rows = context;
    if (time->batch != rows->first.batch) {
        rows->first = *time;
    }
    if (rows->rows) {
        add_json(rows, time);
    } else {
        add_cells(rows, time);
    }
    return 0;
}

static int take_profile(const struct oct__infer_profile_row *time, void *context) {
    struct rows *rows = context;
    if (rows->profile) {
        struct cli_json *row = cli_json_object();
        cli_json_text(row, "precision", time->precision);
        cli_json_int(row, "batch", time->batch);
        cli_json_text(row, "op", time->op);
        cli_json_int(row, "calls", time->n_calls);
        cli_json_real(row, "ms", time->ms);
        cli_json_real(row, "share", time->share);
        cli_json_flag(row, "is_product", time->is_product);
        cli_json_add(rows->profile, row);
        return 0;
    }
    if (rows->named) {
        cli_table_cell(&rows->layers, "%s", time->precision);
        cli_table_cell(&rows->layers, "%d", time->batch);
    }
    cli_table_cell(&rows->layers, "%s", time->op);
    cli_table_cell(&rows->layers, "%d", time->n_calls);
    cli_table_cell(&rows->layers, "%s", cli_decimals(time->ms, 3).text);
    cli_table_cell(&rows->layers, "%s", cli_percent(time->share, 1).text);
    cli_table_cell(&rows->layers, "%s", time->is_product ? "product" : "");
    return 0;
}

static int is_stopped(void *context) {
    (void)context;
    return cli_interrupted();
}

/* "1,64": each once, since a batch size's first row is the measure of the others. */
static int read_batches(struct cli *cli, int *batches, int *n_batches) {
    const char *list = cli_own(cli, "batch");
    *n_batches = 0;
    for (const char *at = list; at;) {
        const size_t length = strcspn(at, ",");
        char *end;
        const long batch = at[0] >= '0' && at[0] <= '9' ? strtol(at, &end, 10) : 0;
        if (batch < 1 || batch > BATCH_LARGEST || end != at + length) {
            return cli_usage(cli,
                             "--batch is '%s': expected whole numbers from 1 to %d, as in "
                             "--batch 1,64",
                             list, BATCH_LARGEST);
        }
        for (int i = 0; i < *n_batches; i++) {
            if (batches[i] == batch) {
                return cli_usage(cli, "--batch is '%s': %ld is there twice", list, batch);
            }
        }
        if (*n_batches == BATCHES_MOST) {
            return cli_usage(cli, "--batch has more than %d numbers", BATCHES_MOST);
        }
        batches[(*n_batches)++] = (int)batch;
        at = at[length] ? at + length + 1 : NULL;
    }
    return CLI_DONE;
}

static int print(struct cli *cli, struct rows *rows, int stopped) {
    if (cli->json) {
        struct cli_json *root = cli_json_object();
        cli_json_real(root, "seconds", cli_own_number(cli, "seconds"));
        cli_json_put(root, "rows", rows->rows);
        cli_json_put(root, "profile", rows->profile);
        cli_json_flag(root, "interrupted", stopped);
        cli_json_put(root, "config", cli_json_config(cli->config));
        return cli_json_print(root);
    }
    cli_table_print(&rows->table, stdout);
    if (cli_own(cli, "profile")) {
        putchar('\n');
        cli_table_print(&rows->layers, stdout);
    }
    return CLI_DONE;
}

static int infer(struct cli *cli) {
    char list[256];
    int batches[BATCHES_MOST];
    struct oct__infer_bench bench = {
        .config = cli->config, .batches = batches, .seconds = cli_own_number(cli, "seconds")};
    snprintf(list, sizeof list, "%s", cli_own(cli, "precision"));
    int code = cli_precisions(cli, list, bench.precisions, &bench.n_precisions);
    if (code == CLI_DONE) {
        code = read_batches(cli, batches, &bench.n_batches);
    }
    if (code != CLI_DONE) {
        return code;
    }
    cli_interrupt_catch();
    struct rows rows = {.model = oct_config_get(cli->config, "model"),
                        .rows = cli->json ? cli_json_array() : NULL,
                        .profile = cli->json ? cli_json_array() : NULL,
                        .named = bench.n_precisions > 1 || bench.n_batches > 1};
    cli_table_init(&rows.table, "precision|>batch|>ms|>99 %|>samples/s|>speed|>share|>weights|"
                                ">workspace");
    cli_table_init(&rows.layers, rows.named ? "precision|>batch|operation|>calls|>ms|>share|"
                                            : "operation|>calls|>ms|>share|");
    const struct oct__infer_report report = {
        .context = &rows,
        .row = take,
        .profile = cli_own(cli, "profile") ? take_profile : NULL,
        .is_stopped = is_stopped,
    };
    cli_progress_note("timing inference, about %g s",
                      bench.seconds * bench.n_precisions * bench.n_batches);
    oct_status status = oct__bench_infer(&bench, &report);
    cli_progress_clear();
    const int stopped = cli_interrupted();
    if (status != OCT_OK && !(stopped && status == OCT_STATUS_CANCELLED)) {
        cli_json_destroy(rows.rows);
        cli_json_destroy(rows.profile);
        code = cli_fail(cli, status);
    } else {
        code = print(cli, &rows, stopped);
    }
    cli_table_fini(&rows.table);
    cli_table_fini(&rows.layers);
    return stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

const struct cli_command cli_bench_infer = {
    .name = "bench infer",
    .summary = "time inference: samples classified, by precision and batch",
    .about =
        "Classifies batches with weights that are quantized and packed once, the precisions in "
        "turns of a fiftieth of a second, and reports medians: from the images' bytes to the "
        "logits. The network is new, but for three steps of training, which give int8's "
        "quantizers their ranges. Speed is against the first precision at the same batch; "
        "share is the part of the time that the products take alone. Weights are in the form "
        "that a batch reads, the workspace is all threads'. Threads share a batch in chunks "
        "of 8 samples, so one image is one thread's.",
    .own = own,
    .options = options,
    .defaults = defaults,
    .examples = examples,
    .json = "seconds, rows (name, variant, ns, precision, norm, batch, runs, latency_ms, "
            "latency_p99_ms, samples_per_s, speedup, floor_samples_per_s, share_of_floor, "
            "weight_bytes, weight_ratio, workspace_bytes, workspace_ratio), profile (precision, "
            "batch, op, calls, ms, share, is_product), interrupted, config",
    .run = infer,
};
