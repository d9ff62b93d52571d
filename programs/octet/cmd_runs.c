/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_runs.c - octet runs: what was run, how it went, how to run it again; and octet runs delete. */
#include "runs_view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const table_options[] = {"db", NULL};

/* --- which runs ----------------------------------------------------------------------------- */

/* Runs in the order in which they are to be shown, with copies of their texts: the library's are gone
 * with its next call. */
struct listing {
    struct listed {
        struct oct_run run;
        double key;  /* what it is sorted by */
        char *texts; /* that those of `run` lie in */
    } * at;
    size_t n, capacity;
};

static const char *copy_to(char **end, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *at = *end;
    memcpy(at, text, bytes);
    *end += bytes;
    return at;
}

static void add_run(struct listing *list, const struct oct_run *run, double key) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct listed *at = cli_alloc(capacity * sizeof *at);
        if (list->n > 0) {
            memcpy(at, list->at, list->n * sizeof *at);
        }
        free(list->at);
        list->at = at;
        list->capacity = capacity;
    }
    const char *sum = run->model_sha256 ? run->model_sha256 : "";
    struct listed *item = &list->at[list->n++];
    char *end = cli_alloc(strlen(run->outcome) + strlen(run->version) + strlen(run->machine) +
                          strlen(run->label) + strlen(run->options) + strlen(sum) + 6);
    *item = (struct listed){.run = *run, .key = key, .texts = end};
    item->run.outcome = copy_to(&end, run->outcome);
    item->run.version = copy_to(&end, run->version);
    item->run.machine = copy_to(&end, run->machine);
    item->run.label = copy_to(&end, run->label);
    item->run.options = copy_to(&end, run->options);
    item->run.model_sha256 = run->model_sha256 ? copy_to(&end, sum) : NULL;
}

static void drop_last(struct listing *list) {
    free(list->at[--list->n].texts);
}

static void listing_fini(struct listing *list) {
    while (list->n > 0) {
        drop_last(list);
    }
    free(list->at);
    memset(list, 0, sizeof *list);
}

/* The best first: the key is what grows towards worse. What is not known comes last. */
static const char *const sort_names[] = {"number", "accuracy", "nodes",     "loss",
                                         "sent",   "time",     "samples/s", "consensus"};

static double sort_key(int sort, const struct oct_run *run) {
    const double keys[] = {-(double)run->number,
                           -run->accuracy,
                           -run->accuracy_nodes,
                           run->loss,
                           run->has_result ? (double)run->bytes_sent : (double)NAN,
                           run->seconds,
                           -run->samples_per_s,
                           run->consensus_distance};
    return isfinite(keys[sort]) ? keys[sort] : (double)INFINITY;
}

/* Equal ones stay as they were, the newer first. */
static int compare_listed(const void *a, const void *b) {
    const struct listed *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->run.number > y->run.number ? -1 : x->run.number < y->run.number;
}

static int find_sort(const struct cli *cli, int *out) {
    const char *name = cli_own(cli, "sort");
    char list[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < CLI_COUNT_OF(sort_names); i++) {
        if (strcmp(name, sort_names[i]) == 0) {
            *out = (int)i;
            return CLI_DONE;
        }
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", sort_names[i]);
    }
    return cli_usage(cli, "--sort is '%.40s', expected one of: %s", name, list);
}

/* All runs that pass, the newest first, or as `sort` says; no more than `limit`. */
static oct_status select_runs(struct oct_runs *runs, const struct runs_filter *filter, int sort,
                              size_t limit, struct listing *out) {
    struct oct_run run;
    oct_status status = OCT_OK;
    const size_t enough = sort == 0 ? limit : SIZE_MAX;
    for (int64_t i = 0; out->n < enough && (status = oct_runs_at(runs, i, &run)) == OCT_OK; i++) {
        int passes;
        add_run(out, &run, sort_key(sort, &run));
        status = runs_filter_match(filter, runs, &out->at[out->n - 1].run, &passes);
        if (status != OCT_OK) {
            return status;
        }
        if (!passes) {
            drop_last(out);
        }
    }
    if (sort != 0 && out->n > 1) {
        qsort(out->at, out->n, sizeof *out->at, compare_listed);
        while (out->n > limit) {
            drop_last(out);
        }
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

/* "12", or "3-9"; zero when it is neither. */
static int read_range(const char *word, int64_t *first, int64_t *last) {
    char *end;
    if (strlen(word) > 38 || *word < '1' || *word > '9') {
        return 0;
    }
    errno = 0;
    *first = *last = strtoll(word, &end, 10);
    if (*end == '-' && end[1] >= '1' && end[1] <= '9') {
        *last = strtoll(end + 1, &end, 10);
    }
    return *end == '\0' && errno == 0 && *last >= *first;
}

/* The runs that the words name; of a range, those that there are, the oldest first. */
static int read_words(const struct cli *cli, struct oct_runs *runs, struct listing *out) {
    for (int i = 0; i < cli->n_words; i++) {
        int64_t first = 0, last = 0;
        struct oct_run run;
        const size_t before = out->n;
        oct_status status = OCT_OK;
        (void)read_range(cli->words[i], &first, &last); /* check_words has */
        for (int64_t j = 0;
             first < last && (status = oct_runs_at(runs, j, &run)) == OCT_OK && run.number >= first;
             j++) {
            if (run.number <= last) {
                add_run(out, &run, (double)run.number);
            }
        }
        if (out->n > before) {
            qsort(out->at + before, out->n - before, sizeof *out->at, compare_listed);
        } else if (status == OCT_OK || status == OCT_STATUS_NOT_FOUND) { /* says which there are */
            status = oct_runs_find(runs, first, &run);
            if (status == OCT_OK) {
                add_run(out, &run, 0);
            }
        }
        if (status != OCT_OK && !(status == OCT_STATUS_NOT_FOUND && out->n > before)) {
            return cli_fail(cli, status);
        }
    }
    return CLI_DONE;
}

static int check_words(const struct cli *cli) {
    int64_t first, last;
    for (int i = 0; i < cli->n_words; i++) {
        if (!read_range(cli->words[i], &first, &last)) {
            return cli_usage(cli,
                             "'%.40s' is no run; expected a number, as octet runs lists them, or "
                             "a range of them such as 3-9",
                             cli->words[i]);
        }
    }
    return CLI_DONE;
}

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
    cli_table_cell(table, "%s", run->has_result ? cli_bytes(run->bytes_sent).text : "-");
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

static void print_list(const struct listing *list, FILE *out) {
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

static int print_list_json(const struct listing *list, const char *path) {
    struct cli_json *root = cli_json_object(), *array = cli_json_array();
    for (size_t i = 0; i < list->n; i++) {
        cli_json_add(array, runs_json(&list->at[i].run));
    }
    cli_json_text(root, "db", path);
    cli_json_put(root, "runs", array);
    return cli_json_print(root);
}

static int list_runs(const struct cli *cli, struct oct_runs *runs, const char *path) {
    struct runs_filter filter;
    struct listing list = {.at = NULL};
    int sort = 0, code = find_sort(cli, &sort);
    if (code != CLI_DONE) {
        return code;
    }
    code = runs_filter_read(&filter, cli, cli_own(cli, "where"));
    if (code == CLI_DONE) {
        oct_status status =
            select_runs(runs, &filter, sort, (size_t)cli_own_number(cli, "limit"), &list);
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
        }
    }
    runs_filter_fini(&filter);
    listing_fini(&list);
    return code;
}

static int show_words(const struct cli *cli, struct oct_runs *runs, const char *path) {
    struct listing list = {.at = NULL};
    int64_t numbers[RUNS_COMPARE_MOST];
    int code = read_words(cli, runs, &list);
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
    listing_fini(&list);
    return code;
}

/* --- the command ---------------------------------------------------------------------------- */

/* Nothing has been recorded: that is no mistake, unless something in particular was asked for. */
static int no_database(const struct cli *cli, const struct cli_database *database) {
    if (database->is_named || cli->n_words > 0) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_NOT_FOUND,
                         "%s: no such database of runs; octet train%s%s makes it", database->path,
                         database->is_named ? " --db " : "",
                         database->is_named ? database->path : "");
    }
    if (cli->json) {
        struct cli_json *root = cli_json_object();
        cli_json_text(root, "db", database->path);
        cli_json_put(root, "runs", cli_json_array());
        return cli_json_print(root);
    }
    printf("no runs are on record yet; octet train puts one into %s\n", database->path);
    return CLI_DONE;
}

/* Opens what --db means; *runs stays NULL where there is nothing to open, which has been said. */
static int open_database(const struct cli *cli, struct cli_database *database,
                         struct oct_runs **runs) {
    struct stat facts;
    if (!cli_database(cli->config, database)) {
        return cli_usage(cli, "no database of runs is named; give --db FILE");
    }
    if (oct_runs_available() && stat(database->path, &facts) != 0 &&
        (errno == ENOENT || errno == ENOTDIR)) {
        return no_database(cli, database);
    }
    oct_status status = oct_runs_open(database->path, runs);
    return status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
}

static int runs_command(struct cli *cli) {
    struct cli_database database;
    struct oct_runs *runs = NULL;
    int code = check_words(cli);
    if (code == CLI_DONE && cli->n_words > 0 && cli_own(cli, "where")) {
        code = cli_usage(cli, "--where chooses from the list; runs are named already");
    }
    if (code == CLI_DONE) {
        code = open_database(cli, &database, &runs);
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
            "bytes_dense, gossip_share, n_parameters, command, rows (epoch, accuracy, loss, "
            "train_accuracy, train_loss, consensus_distance, learning_rate, bytes_sent, "
            "samples_per_s, seconds, clipped, zero), nodes (node, n_samples, accuracy, "
            "train_accuracy, train_loss, consensus_distance, bytes_sent, classes), edges (from, "
            "to, bytes, messages), config",
    .run = runs_command,
};

/* --- octet runs delete ---------------------------------------------------------------------- */

/* The person at the terminal, or --yes. */
static int confirm(const struct cli *cli, const struct listing *list) {
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

static int delete_runs(const struct cli *cli, struct oct_runs *runs, const char *path,
                       const struct listing *list) {
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
    for (size_t i = 0; code == CLI_DONE && i < list->n; i++) {
        oct_status status = oct_runs_delete(runs, list->at[i].run.number);
        if (status != OCT_OK && status != OCT_STATUS_NOT_FOUND) {
            code = cli_fail(cli, status);
        }
        cli_json_add_int(array, list->at[i].run.number);
    }
    cli_json_text(root, "db", path);
    cli_json_put(root, "deleted", array);
    if (code == CLI_DONE && cli->json) {
        return cli_json_print(root);
    }
    cli_json_destroy(root);
    if (code == CLI_DONE && !cli->quiet) {
        printf("%zu run%s deleted from %s\n", list->n, list->n == 1 ? "" : "s", path);
    }
    return code;
}

static int delete_command(struct cli *cli) {
    struct cli_database database;
    struct oct_runs *runs = NULL;
    struct runs_filter filter = {.text = NULL};
    struct listing list = {.at = NULL};
    const char *text = cli_own(cli, "where");
    int code = check_words(cli);
    if (code == CLI_DONE && (cli->n_words > 0) == (text != NULL)) {
        code = cli_usage(cli, "which runs? expected numbers, or --where KEY=PATTERN");
    }
    if (code == CLI_DONE) {
        code = runs_filter_read(&filter, cli, text);
    }
    if (code == CLI_DONE) {
        code = open_database(cli, &database, &runs);
    }
    if (code == CLI_DONE && runs) {
        code = read_words(cli, runs, &list);
        if (code == CLI_DONE && text) {
            oct_status status = select_runs(runs, &filter, 0, SIZE_MAX, &list);
            code = status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
        }
        if (code == CLI_DONE) {
            code = delete_runs(cli, runs, database.path, &list);
        }
    }
    oct_runs_close(runs);
    runs_filter_fini(&filter);
    listing_fini(&list);
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
