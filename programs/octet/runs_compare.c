/* SPDX-License-Identifier: Apache-2.0 */
/* runs_compare.c - several runs side by side: what they came to, and the options that differ. */
#include "runs_view.h"

#include <stdlib.h>
#include <string.h>

/* A row of the table: a cell for each run. */
struct row {
    const char *name;
    char cells[RUNS_COMPARE_MOST][4096]; /* a path has room */
};

enum {
    STARTED,
    OUTCOME,
    EPOCHS,
    ACCURACY,
    NODES,
    LEAST,
    MOST,
    LOSS,
    TRAIN_LOSS,
    CONSENSUS,
    SENT,
    FINAL,
    SPEED,
    TIME,
    LABEL,
    N_ROWS
};

static const char *const row_names[N_ROWS] = {"started",     "outcome",   "epochs", "accuracy",
                                              "nodes: mean", "least",     "most",   "test loss",
                                              "train loss",  "consensus", "sent",   "  at the end",
                                              "samples/s",   "time",      "label"};

#define SET(row, ...) snprintf(rows[row].cells[at], sizeof rows[row].cells[at], __VA_ARGS__)

static void set_rows(struct row *rows, int at, const struct oct_run *run) {
    SET(STARTED, "%s", runs_date(run->started, "%d %b %H:%M", 0).text);
    SET(OUTCOME, "%s", runs_outcome(run->outcome).text);
    SET(EPOCHS, "%d/%d", run->epochs, run->n_epochs);
    SET(ACCURACY, "%s", runs_percent(run->accuracy, 2).text);
    SET(NODES, "%s", runs_percent(run->accuracy_nodes, 2).text);
    SET(LEAST, "%s", runs_percent(run->accuracy_least, 2).text);
    SET(MOST, "%s", runs_percent(run->accuracy_most, 2).text);
    SET(LOSS, "%s", cli_decimals(run->loss, 4).text);
    SET(TRAIN_LOSS, "%s", cli_decimals(run->train_loss, 4).text);
    SET(CONSENSUS, "%s", runs_number(run->consensus_distance).text);
    SET(SENT, "%s", run->has_result ? cli_bytes(runs_sent(run)).text : "-");
    SET(FINAL, "%s", run->bytes_final > 0 ? cli_bytes(run->bytes_final).text : "");
    SET(SPEED, "%s", run->has_result ? cli_count(run->samples_per_s).text : "-");
    SET(TIME, "%s", run->has_result ? cli_time(run->seconds).text : "-");
    SET(LABEL, "%s", run->label);
}

/* The values of an option in all runs; whether they differ. */
static oct_status read_option(struct oct_runs *runs, const int64_t *numbers, int n,
                              const char *name, struct row *row, int *differs) {
    *differs = 0;
    row->name = name;
    for (int i = 0; i < n; i++) {
        const char *value = "-"; /* its Octet had no such option */
        oct_status status = oct_runs_option_find(runs, numbers[i], name, &value);
        if (status != OCT_OK && status != OCT_STATUS_NOT_FOUND) {
            return status;
        }
        snprintf(row->cells[i], sizeof row->cells[i], "%s", status == OCT_OK ? value : "-");
        *differs |= strcmp(row->cells[i], row->cells[0]) != 0;
    }
    return OCT_OK;
}

/* Results first, then the options that differ; both are rows. */
struct comparison {
    const int64_t *numbers;
    int n;
    struct row *rows;
    int n_results, n_options;
};

static oct_status read_all(struct oct_runs *runs, struct comparison *c) {
    for (int i = 0; i < c->n; i++) {
        struct oct_run run;
        oct_status status = oct_runs_find(runs, c->numbers[i], &run);
        if (status != OCT_OK) {
            return status;
        }
        set_rows(c->rows, i, &run);
    }
    for (int r = 0; r < N_ROWS; r++) {
        c->rows[r].name = row_names[r];
    }
    c->n_results = N_ROWS;
    for (int i = 0; oct_option_at(i); i++) {
        const char *name = oct_option_at(i)->name;
        int differs = 0;
        if (!runs_is_keeping(name)) {
            struct row *row = &c->rows[c->n_results + c->n_options];
            oct_status status = read_option(runs, c->numbers, c->n, name, row, &differs);
            if (status != OCT_OK) {
                return status;
            }
        }
        c->n_options += differs;
    }
    return OCT_OK;
}

static int print_json(const struct cli *cli, struct oct_runs *runs, const char *path,
                      const struct comparison *c) {
    struct cli_json *root = cli_json_object(), *list = cli_json_array(),
                    *differs = cli_json_object();
    oct_status status = OCT_OK;
    for (int i = 0; i < c->n && status == OCT_OK; i++) {
        struct oct_run run;
        status = oct_runs_find(runs, c->numbers[i], &run);
        if (status == OCT_OK) {
            cli_json_add(list, runs_json(&run));
        }
    }
    for (int r = 0; r < c->n_options; r++) {
        const struct row *row = &c->rows[c->n_results + r];
        struct cli_json *values = cli_json_array();
        for (int i = 0; i < c->n; i++) {
            cli_json_add_text(values, row->cells[i]);
        }
        cli_json_put(differs, row->name, values);
    }
    cli_json_text(root, "db", path);
    cli_json_put(root, "runs", list);
    cli_json_put(root, "differs", differs);
    if (status != OCT_OK) {
        cli_json_destroy(root);
        return cli_fail(cli, status);
    }
    return cli_json_print(root);
}

/* Some rows of runs `first` to `end`, under "HEAD|>run 3|>run 7". */
static void print_rows(const struct comparison *c, const char *head, const struct row *rows, int n,
                       int first, int end) {
    char heads[32 * (RUNS_COMPARE_MOST + 1)];
    struct cli_table table;
    size_t used = (size_t)snprintf(heads, sizeof heads, "%s", head);
    for (int i = first; i < end; i++) {
        used += (size_t)snprintf(heads + used, sizeof heads - used, "|>run %lld",
                                 (long long)c->numbers[i]);
    }
    cli_table_init(&table, heads);
    for (int r = 0; r < n; r++) {
        int is_empty = 1;
        for (int i = 0; i < c->n; i++) {
            is_empty &= rows[r].cells[i][0] == '\0';
        }
        if (is_empty) {
            continue;
        }
        cli_table_cell(&table, "%s", rows[r].name);
        for (int i = first; i < end; i++) {
            cli_table_cell(&table, "%s", rows[r].cells[i]);
        }
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

/* Columns that a run takes. */
static int width_of(const struct comparison *c, int run) {
    size_t width = 8;
    for (int r = 0; r < c->n_results + c->n_options; r++) {
        size_t length = strlen(c->rows[r].cells[run]);
        width = length > width ? length : width;
    }
    return (int)width + 2;
}

/* As many runs beside one another as the screen has room for, then the next. */
static void print_all(const struct comparison *c) {
    enum { NAMES = 20 };
    const int screen = cli_width(stdout, 0);
    for (int first = 0, end; first < c->n; first = end) {
        int width = NAMES + width_of(c, first);
        for (end = first + 1; end < c->n; end++) {
            width += width_of(c, end);
            if (screen > 0 && width > screen) {
                break;
            }
        }
        fputs(first > 0 ? "\n\n" : "", stdout);
        print_rows(c, "result", c->rows, c->n_results, first, end);
        putchar('\n');
        if (c->n_options > 0) {
            print_rows(c, "options that differ", c->rows + c->n_results, c->n_options, first, end);
        }
    }
    if (c->n_options == 0) {
        puts("no options differ");
    }
}

int runs_compare(const struct cli *cli, struct oct_runs *runs, const char *path,
                 const int64_t *numbers, int n) {
    int n_rows = N_ROWS;
    while (oct_option_at(n_rows - N_ROWS)) {
        n_rows++;
    }
    struct comparison c = {.numbers = numbers, .n = n};
    c.rows = cli_alloc((size_t)(n_rows + 1) * sizeof *c.rows);
    memset(c.rows, 0, (size_t)(n_rows + 1) * sizeof *c.rows);
    oct_status status = read_all(runs, &c);
    int code = CLI_DONE;
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli->json) {
        code = print_json(cli, runs, path, &c);
    } else {
        print_all(&c);
    }
    free(c.rows);
    return code;
}
