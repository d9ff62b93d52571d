/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_kernels.c - octet bench kernels: every kernel in every variant, beside the portable one.
 */
#include "cli.h"

#include "kernels/bench.h"

static const struct oct_option own[] = {
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

static const char *const options[] = {NULL};

static const struct cli_example examples[] = {
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
    .own = own,
    .options = options,
    .examples = examples,
    .json = "rows (name, variant, shape, ns, gb_per_s, speedup), interrupted",
    .run = bench_kernels,
};
