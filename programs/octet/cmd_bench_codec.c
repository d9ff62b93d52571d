/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_codec.c - octet bench codec: what compressors cost, and what they save. */
#include "cli.h"

#include "train/bench_codec.h"

static const struct oct_option own[] = {
    {.name = "only",
     .placeholder = "NAME",
     .summary = "only this compressor, as --compress of octet train takes it",
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

static const char *const options[] = {"model", "norm", "engine", NULL};

static const struct cli_example examples[] = {
    {"bench codec", "every compressor on ResNet-20's parameters"},
    {"bench codec --only topk:0.9,values=bf16 --json", "one of them, for a program"},
    {NULL, NULL},
};

struct rows {
    struct cli_table table;
    struct cli_json *rows;
};

static int take(const struct oct__codec_time *time, void *context) {
    struct rows *rows = context;
    cli_progress_note("timing compressors: %s, %s", time->name, time->variant);
    if (rows->rows) {
        struct cli_json *row = cli_json_object();
        cli_json_text(row, "name", time->name);
        cli_json_text(row, "variant", time->variant);
        cli_json_real(row, "ns", time->ns);
        cli_json_real(row, "gb_per_s", time->gb_per_s);
        cli_json_int(row, "bytes", (int64_t)time->bytes);
        cli_json_real(row, "ratio", time->ratio);
        cli_json_add(rows->rows, row);
    } else {
        cli_table_cell(&rows->table, "%s", time->name);
        cli_table_cell(&rows->table, "%s", time->variant);
        cli_table_cell(&rows->table, "%s", cli_count(time->ns).text);
        cli_table_cell(&rows->table, "%s", cli_decimals(time->gb_per_s, 2).text);
        cli_table_cell(&rows->table, "%s", cli_count((double)time->bytes).text);
        cli_table_cell(&rows->table, "%s", cli_part(1.0 / time->ratio).text);
    }
    return cli_interrupted();
}

static int codec(struct cli *cli) {
    cli_interrupt_catch();
    struct rows rows = {.rows = cli->json ? cli_json_array() : NULL};
    cli_table_init(&rows.table, "compressor|part|>ns|>GB/s|>bytes|>of dense");
    cli_progress_note("timing compressors");
    oct_status status = oct__bench_codec(cli->config, cli_own(cli, "only"),
                                         cli_own_number(cli, "seconds"), take, &rows);
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
        cli_json_put(root, "config", cli_json_config(cli->config));
        code = cli_json_print(root);
    } else {
        cli_table_print(&rows.table, stdout);
    }
    cli_table_fini(&rows.table);
    return stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

const struct cli_command cli_bench_codec = {
    .name = "bench codec",
    .summary = "time the compressors, and measure their messages",
    .about = "Packs a model's parameters, adds the packet to another row, and encodes and decodes "
             "the message, on one thread. GB/s are of the parameters as floats; the last column is "
             "the message's size against the dense one in floats.",
    .own = own,
    .options = options,
    .examples = examples,
    .json = "rows (name, variant, ns, gb_per_s, bytes, ratio), interrupted, config",
    .run = codec,
};
