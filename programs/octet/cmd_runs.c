/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_runs.c - octet runs: what was run, how it went, how to run it again; and octet runs delete. */
#include "runs_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const table_options[] = {"db", NULL};

/* --- the list ------------------------------------------------------------------------------- */

struct columns {
    int is_wide, has_labels;
};

static void list_row(struct cli_table *table, const struct oct_run *run,
                     const struct columns *columns) {
    const int is_wide = columns->is_wide;
    cli_table_cell(table, "%lld", (long long)run->number);
    if (is_wide || !columns->has_labels) {
        cli_table_cell(table, "%s",
                       runs_date(run->started, is_wide ? "%Y-%m-%d %H:%M" : "%d %b %H:%M", 0).text);
    }
    cli_table_cell(table, "%s", runs_outcome(run->outcome).text);
    cli_table_cell(table, "%d/%d", run->epochs, run->n_epochs);
    cli_table_cell(table, "%s", runs_percent(run->accuracy, 2).text);
    if (is_wide) {
        cli_table_cell(table, "%s", runs_percent(run->accuracy_nodes, 2).text);
        cli_table_cell(table, "%s", cli_decimals(run->loss, 4).text);
    }
    cli_table_cell(table, "%s", run->has_result ? cli_bytes(runs_sent(run)).text : "-");
    if (is_wide) {
        cli_table_cell(table, "%s", cli_count(run->samples_per_s).text);
    }
    if (columns->has_labels) {
        cli_table_cell(table, "%s", is_wide || run->label[0] ? run->label : run->options);
    }
    if (is_wide || !columns->has_labels) {
        cli_table_cell(table, "%s", run->options);
    }
}

/* A label says what a run is, so in a narrow terminal it takes the room of date and options. */
static void list_heads(struct cli_table *table, const struct columns *columns) {
    char heads[160];
    if (columns->is_wide) {
        snprintf(heads, sizeof heads,
                 ">run|started|outcome|>epochs|>accuracy|>nodes|>loss|>sent|>samples/s%s|"
                 ".options that were set",
                 columns->has_labels ? "|label" : "");
    } else {
        snprintf(heads, sizeof heads, ">run%s|outcome|>epochs|>accuracy|>sent|.%s",
                 columns->has_labels ? "" : "|started",
                 columns->has_labels ? "label, or options" : "options");
    }
    cli_table_init(table, heads);
}

static void print_list(const struct runs_listing *list, FILE *out) {
    const int width = cli_width(out, 0);
    struct columns columns = {.is_wide = width == 0 || width >= 120};
    struct cli_table table;
    for (size_t i = 0; i < list->n; i++) {
        columns.has_labels |= list->at[i].run.label[0] != '\0';
    }
    list_heads(&table, &columns);
    for (size_t i = 0; i < list->n; i++) {
        list_row(&table, &list->at[i].run, &columns);
    }
    cli_table_print(&table, out);
    cli_table_fini(&table);
}

static int print_list_json(const struct runs_listing *list, const char *path) {
    struct cli_json *root = cli_json_object(), *array = cli_json_array();
    for (size_t i = 0; i < list->n; i++) {
        cli_json_add(array, runs_json(&list->at[i].run));
    }
    cli_json_text(root, "db", path);
    cli_json_put(root, "runs", array);
    return cli_json_print(root);
}

static int list_runs(const struct cli *cli, struct oct_runs *runs, const char *path) {
    const size_t limit = (size_t)cli_own_number(cli, "limit");
    struct runs_filter filter;
    struct runs_listing list = {.at = NULL};
    int sort = 0, code = runs_find_sort(cli, &sort);
    if (code != CLI_DONE) {
        return code;
    }
    code = runs_filter_read(&filter, cli, cli_own(cli, "where"));
    if (code == CLI_DONE) {
        oct_status status = runs_select(runs, &filter, sort, limit + 1, &list);
        const int has_more = list.n > limit;
        runs_listing_cut(&list, limit);
        if (status != OCT_OK) {
            code = cli_fail(cli, status);
        } else if (cli->json) {
            code = print_list_json(&list, path);
        } else if (list.n == 0 && filter.n > 0) {
            printf("no run in %s fits\n", path);
        } else if (list.n == 0) {
            printf("no runs in %s yet; octet train adds one\n", path);
        } else {
            print_list(&list, stdout);
            fflush(stdout);
            fputs(has_more && !cli->quiet ? "there are more; --limit N lists them\n" : "", stderr);
        }
    }
    runs_filter_fini(&filter);
    runs_listing_fini(&list);
    return code;
}

static int show_words(const struct cli *cli, struct oct_runs *runs, const char *path) {
    struct runs_listing list = {.at = NULL};
    int64_t numbers[RUNS_COMPARE_MOST];
    int code = runs_read_words(cli, runs, &list);
    for (size_t i = 0; i < list.n && i < RUNS_COMPARE_MOST; i++) {
        numbers[i] = list.at[i].run.number;
    }
    if (code == CLI_DONE && list.n == 1) {
        code = runs_show(cli, runs, path, numbers[0]);
    } else if (code == CLI_DONE && list.n > RUNS_COMPARE_MOST) {
        code = cli_usage(cli, "%zu runs are too many to stand side by side; expected up to %d",
                         list.n, RUNS_COMPARE_MOST);
    } else if (code == CLI_DONE) {
        code = runs_compare(cli, runs, path, numbers, (int)list.n);
    }
    runs_listing_fini(&list);
    return code;
}

/* --- the command ---------------------------------------------------------------------------- */

/* Nothing has been recorded: that is no mistake, unless something in particular was asked for. */
static int no_database(const struct cli *cli, const struct cli_database *database) {
    if (database->is_named || cli->n_words > 0 || cli->command == &cli_report_command) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_NOT_FOUND, "%s; octet train%s%s makes it",
                         oct_last_error(), database->is_named ? " --db " : "",
                         database->is_named ? database->path : "");
    }
    if (cli->json) {
        struct cli_json *root = cli_json_object();
        cli_json_text(root, "db", database->path);
        cli_json_put(root, cli->command == &cli_runs ? "runs" : "deleted", cli_json_array());
        return cli_json_print(root);
    }
    printf("no runs are on record yet; octet train puts one into %s\n", database->path);
    return CLI_DONE;
}

int runs_open(const struct cli *cli, struct cli_database *database, struct oct_runs **runs) {
    if (!cli_database(cli->config, database)) {
        return cli_usage(cli, "no database of runs is named; give --db FILE");
    }
    oct_status status = oct_runs_open_to_read(database->path, runs);
    if (status == OCT_STATUS_NOT_FOUND) {
        return no_database(cli, database);
    }
    return status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
}

static int show_runs(struct cli *cli) {
    struct cli_database database;
    struct oct_runs *runs = NULL;
    int code = runs_check_words(cli);
    if (code == CLI_DONE && cli->n_words > 0 && cli_own(cli, "where")) {
        code = cli_usage(cli, "--where chooses from the list; runs are named already");
    }
    if (code == CLI_DONE) {
        code = runs_open(cli, &database, &runs);
    }
    if (code == CLI_DONE && runs) {
        code = cli->n_words > 0 ? show_words(cli, runs, database.path)
                                : list_runs(cli, runs, database.path);
    }
    oct_runs_close(runs);
    return code;
}

static const struct oct_option own[] = {
    {.name = "where",
     .placeholder = "KEY=PATTERN",
     .summary = "only runs whose option (or outcome, version, machine) fits",
     .group = "Which"},
    {.name = "sort",
     .placeholder = "KEY",
     .fallback = "number",
     .summary = "best first: accuracy, nodes, loss, sent, time, samples/s, consensus",
     .group = "Which"},
    {.name = "limit",
     .placeholder = "N",
     .fallback = "20",
     .summary = "list no more than N runs",
     .group = "Which",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 1e9},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"runs", "the latest runs, the newest first"},
    {"runs 12", "all about run 12, and the command that repeats it"},
    {"runs 3 7 9", "side by side: results, and the options that differ"},
    {"runs --where algorithm=choco,outcome=done --sort accuracy", "the best of some"},
    {"runs --where 'label=table2/*' --limit 1000 --json", "many, for a program to read"},
    {NULL, NULL},
};

const struct cli_command cli_runs = {
    .name = "runs",
    .arguments = "[N...]",
    .most_words = CLI_WORDS_MOST,
    .summary = "what was run, how it went, and how to run it again",
    .about =
        "Lists the runs that octet train has recorded, the newest first. Given a run's number, "
        "all about it: the result, every epoch, every node, every option as it was in force, "
        "and the command that repeats it. Given several (also as 3-9), they stand side by "
        "side. --where takes KEY=PATTERN, or KEY!=PATTERN for the others, with * and ? as a "
        "shell has them; all must hold where there are several, in one with commas or in "
        "many. A run is 'lost' when its process is gone without having said how it ended.",
    .own = own,
    .repeats = "where",
    .options = table_options,
    .examples = examples,
    .json = "db, runs (number, label, started, outcome, version, machine, epochs, n_epochs, "
            "accuracy, accuracy_nodes, loss, train_loss, consensus_distance, bytes_sent, "
            "samples_per_s, seconds, model_sha256, options); of several runs also differs (each "
            "option's values); of one run: these, and accuracy_least, accuracy_most, bytes_final, "
            "bytes_dense, sent_of_dense (as octet train has it), gossip_share, n_parameters, "
            "command, rows (epoch, accuracy, loss, "
            "train_accuracy, train_loss, consensus_distance, learning_rate, bytes_sent, "
            "samples_per_s, seconds, clipped, zero), nodes (node, n_samples, accuracy, "
            "train_accuracy, train_loss, consensus_distance, bytes_sent, classes), edges (from, "
            "to, bytes, messages), config",
    .run = show_runs,
};

/* --- octet runs delete ---------------------------------------------------------------------- */

/* The person at the terminal, or --yes. */
static int confirm(const struct cli *cli, const struct runs_listing *list) {
    if (cli_own(cli, "yes")) {
        return CLI_DONE;
    }
    if (cli->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        return cli_usage(cli, "there is nobody to ask: give --yes");
    }
    char answer[16] = "";
    print_list(list, stderr);
    fprintf(stderr, "delete %s? [y/N] ", list->n == 1 ? "this run" : "these runs");
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
        fputs("nothing was deleted\n", stderr);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

/* The same, to be written: what is not there is not made for it. */
static int open_to_delete(const struct cli *cli, struct cli_database *database,
                          struct oct_runs **runs) {
    int code = runs_open(cli, database, runs);
    if (code == CLI_DONE && *runs) {
        oct_runs_close(*runs);
        *runs = NULL;
        oct_status status = oct_runs_open(database->path, runs);
        code = status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
    }
    return code;
}

static int delete_runs(const struct cli *cli, struct oct_runs *runs, const char *path,
                       const struct runs_listing *list) {
    int code = CLI_DONE;
    for (size_t i = 0; i < list->n && code == CLI_DONE; i++) { /* one that would go on writing */
        if (strcmp(list->at[i].run.outcome, "running") == 0) {
            code =
                cli_error(cli, CLI_FAILED, OCT_STATUS_INVALID, "run %lld is running; stop it first",
                          (long long)list->at[i].run.number);
        }
    }
    if (code == CLI_DONE && list->n > 0) {
        code = confirm(cli, list);
    }
    struct cli_json *root = cli_json_object(), *array = cli_json_array();
    int n_deleted = 0;
    for (size_t i = 0; code == CLI_DONE && i < list->n; i++) {
        oct_status status = oct_runs_delete(runs, list->at[i].run.number);
        if (status == OCT_OK) {
            cli_json_add_int(array, list->at[i].run.number);
            n_deleted++;
        } else if (status != OCT_STATUS_NOT_FOUND) { /* named twice, or another was faster */
            code = cli_fail(cli, status);
        }
    }
    cli_json_text(root, "db", path);
    cli_json_put(root, "deleted", array);
    if (code == CLI_DONE && cli->json) {
        return cli_json_print(root);
    }
    cli_json_destroy(root);
    if (code == CLI_DONE && !cli->quiet) {
        printf("%d run%s deleted from %s\n", n_deleted, n_deleted == 1 ? "" : "s", path);
    }
    return code;
}

static int delete_command(struct cli *cli) {
    struct cli_database database;
    struct oct_runs *runs = NULL;
    struct runs_filter filter = {.text = NULL};
    struct runs_listing list = {.at = NULL};
    const char *text = cli_own(cli, "where");
    int code = runs_check_words(cli);
    if (code == CLI_DONE && (cli->n_words > 0) == (text != NULL)) {
        code = cli_usage(cli, "which runs? expected numbers, or --where KEY=PATTERN");
    }
    if (code == CLI_DONE) {
        code = runs_filter_read(&filter, cli, text);
    }
    if (code == CLI_DONE) {
        code = open_to_delete(cli, &database, &runs);
    }
    if (code == CLI_DONE && runs) {
        code = runs_read_words(cli, runs, &list);
        if (code == CLI_DONE && text) {
            oct_status status = runs_select(runs, &filter, 0, SIZE_MAX, &list);
            code = status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
        }
        if (code == CLI_DONE) {
            code = delete_runs(cli, runs, database.path, &list);
        }
    }
    oct_runs_close(runs);
    runs_filter_fini(&filter);
    runs_listing_fini(&list);
    return code;
}

static const struct oct_option delete_own[] = {
    {.name = "where",
     .placeholder = "KEY=PATTERN",
     .summary = "the runs whose option (or outcome, version, machine) fits",
     .group = "Which"},
    {.name = "yes", .summary = "do not ask", .group = "Which"},
    {.name = NULL},
};

static const struct cli_example delete_examples[] = {
    {"runs delete 3 7-9", "these, after asking"},
    {"runs delete --where outcome=lost --yes", "all that were killed"},
    {NULL, NULL},
};

const struct cli_command cli_runs_delete = {
    .name = "runs delete",
    .arguments = "[N...]",
    .most_words = CLI_WORDS_MOST,
    .summary = "take runs out of the database",
    .about = "Takes runs, and all that belongs to them, out of the database of runs: those with "
             "the numbers given (also as 3-9), or those that --where chooses as in octet runs. "
             "Asks before it does; where there is nobody to ask it wants --yes. Numbers are not "
             "given again. A run that is still running stays.",
    .own = delete_own,
    .repeats = "where",
    .options = table_options,
    .examples = delete_examples,
    .json = "db, deleted (numbers)",
    .run = delete_command,
};
