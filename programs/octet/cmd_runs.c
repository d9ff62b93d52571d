/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_runs.c - octet runs: what was run, how it went, and how to run it again. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char *const table_options[] = {"db", NULL};

static const struct oct_option own[] = {
    {.name = "limit",
     .placeholder = "N",
     .fallback = "20",
     .summary = "list no more than N runs",
     .group = "Output",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = 1e9},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"runs", "the latest runs, the newest first"},
    {"runs 12", "all about run 12, and the command that repeats it"},
    {"runs --limit 1000 --json", "many, for a program to read"},
    {NULL, NULL},
};

/* --- texts ---------------------------------------------------------------------------------- */

static struct cli_text date_of(int64_t seconds, const char *format, int is_utc) {
    struct cli_text out = {"-"};
    time_t when = (time_t)seconds;
    struct tm parts;
    if (is_utc ? gmtime_r(&when, &parts) : localtime_r(&when, &parts)) {
        strftime(out.text, sizeof out.text, format, &parts);
    }
    return out;
}

static struct cli_text percent(double value, int digits) {
    return isfinite(value) ? cli_percent(value / 100, digits) : (struct cli_text){"-"};
}

/* 1.3e-05 */
static struct cli_text short_number(double value) {
    struct cli_text out = {"-"};
    if (isfinite(value)) {
        snprintf(out.text, sizeof out.text, "%.3g", value);
    }
    return out;
}

/* "NOT_FINITE" of "NOT_FINITE: step 7 …"; others are one word. */
static struct cli_text outcome_word(const char *outcome) {
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "%.*s", (int)strcspn(outcome, ":"), outcome);
    return out;
}

/* Where a run was kept is not part of what it was. */
static int is_about_keeping(const char *name) {
    const struct oct_option *option = oct_option_find(name);
    return option && strcmp(option->group, "Keeping") == 0;
}

static oct_status print_command(struct oct_runs *runs, int64_t number, FILE *out) {
    const char *name, *value;
    int is_set;
    oct_status status;
    fputs("octet train", out);
    for (int i = 0;
         (status = oct_runs_option_at(runs, number, i, &name, &value, &is_set)) == OCT_OK; i++) {
        if (is_set && !is_about_keeping(name)) {
            /* what looks like an option is taken for a value only behind '=' */
            fprintf(out, " --%s%s", name, strncmp(value, "--", 2) == 0 ? "=" : " ");
            cli_quote(out, value);
        }
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

/* The command that does the run again; the caller frees it. */
static oct_status command_of(struct oct_runs *runs, int64_t number, char **out) {
    size_t length = 0;
    FILE *stream = open_memstream(out, &length);
    oct_status status = stream ? print_command(runs, number, stream) : OCT_OK;
    if (!stream || fclose(stream) != 0) {
        fputs("octet: memory ran out\n", stderr);
        exit(CLI_FAILED);
    }
    return status;
}

/* --- the list ------------------------------------------------------------------------------- */

static struct cli_json *run_json(const struct oct_run *run) {
    struct cli_json *object = cli_json_object();
    cli_json_int(object, "number", run->number);
    cli_json_text(object, "started", date_of(run->started, "%Y-%m-%dT%H:%M:%SZ", 1).text);
    cli_json_text(object, "outcome", run->outcome);
    cli_json_text(object, "version", run->version);
    cli_json_int(object, "epochs", run->epochs);
    cli_json_int(object, "n_epochs", run->n_epochs);
    cli_json_real(object, "accuracy", run->accuracy);
    cli_json_real(object, "accuracy_nodes", run->accuracy_nodes);
    cli_json_real(object, "loss", run->loss);
    cli_json_real(object, "train_loss", run->train_loss);
    cli_json_real(object, "consensus_distance", run->consensus_distance);
    cli_json_int(object, "bytes_sent", (int64_t)run->bytes_sent);
    cli_json_real(object, "samples_per_s", run->samples_per_s);
    cli_json_real(object, "seconds", run->seconds);
    cli_json_text(object, "model_sha256", run->model_sha256);
    cli_json_text(object, "options", run->options);
    return object;
}

static void list_row(struct cli_table *table, const struct oct_run *run, int is_wide) {
    cli_table_cell(table, "%lld", (long long)run->number);
    cli_table_cell(table, "%s",
                   date_of(run->started, is_wide ? "%Y-%m-%d %H:%M" : "%d %b %H:%M", 0).text);
    cli_table_cell(table, "%s", outcome_word(run->outcome).text);
    cli_table_cell(table, "%d/%d", run->epochs, run->n_epochs);
    cli_table_cell(table, "%s", percent(run->accuracy, 2).text);
    if (is_wide) {
        cli_table_cell(table, "%s", percent(run->accuracy_nodes, 2).text);
        cli_table_cell(table, "%s", cli_decimals(run->loss, 4).text);
    }
    cli_table_cell(table, "%s", run->has_result ? cli_bytes(run->bytes_sent).text : "-");
    if (is_wide) {
        cli_table_cell(table, "%s", cli_count(run->samples_per_s).text);
    }
    cli_table_cell(table, "%s", run->options);
}

static int list_runs(const struct cli *cli, struct oct_runs *runs, const char *path) {
    const int64_t limit = (int64_t)cli_own_number(cli, "limit");
    const int width = cli_width(stdout, 0), is_wide = width == 0 || width >= 120;
    struct cli_json *list = cli->json ? cli_json_array() : NULL;
    struct cli_table table;
    struct oct_run run;
    oct_status status = OCT_OK;
    cli_table_init(&table, is_wide ? ">run|started|outcome|>epochs|>accuracy|>nodes|>loss|>sent|"
                                     ">samples/s|.options that were set"
                                   : ">run|started|outcome|>epochs|>accuracy|>sent|.options");
    int64_t n = 0;
    while (n < limit && (status = oct_runs_at(runs, n, &run)) == OCT_OK) {
        if (list) {
            cli_json_add(list, run_json(&run));
        } else {
            list_row(&table, &run, is_wide);
        }
        n++;
    }
    int code = CLI_DONE;
    if (status != OCT_OK && status != OCT_STATUS_NOT_FOUND) {
        cli_json_destroy(list);
        code = cli_fail(cli, status);
    } else if (list) {
        struct cli_json *root = cli_json_object();
        cli_json_text(root, "db", path);
        cli_json_put(root, "runs", list);
        code = cli_json_print(root);
    } else if (n == 0) {
        printf("no runs in %s yet; octet train adds one\n", path);
    } else {
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
    return code;
}

/* --- one run -------------------------------------------------------------------------------- */

static struct cli_json *config_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *object = cli_json_object();
    const char *name, *value;
    for (int i = 0; oct_runs_option_at(runs, number, i, &name, &value, NULL) == OCT_OK; i++) {
        cli_json_option(object, name, value);
    }
    return object;
}

static struct cli_json *epochs_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *list = cli_json_array();
    struct oct_run_epoch epoch;
    for (int i = 0; oct_runs_epoch_at(runs, number, i, &epoch) == OCT_OK; i++) {
        struct cli_json *object = cli_json_object();
        cli_json_int(object, "epoch", epoch.epoch);
        cli_json_real(object, "accuracy", epoch.accuracy);
        cli_json_real(object, "loss", epoch.loss);
        cli_json_real(object, "train_accuracy", epoch.train_accuracy);
        cli_json_real(object, "train_loss", epoch.train_loss);
        cli_json_real(object, "consensus_distance", epoch.consensus_distance);
        cli_json_real(object, "learning_rate", epoch.learning_rate);
        cli_json_int(object, "bytes_sent", (int64_t)epoch.bytes_sent);
        cli_json_real(object, "samples_per_s", epoch.samples_per_s);
        cli_json_real(object, "seconds", epoch.seconds);
        cli_json_add(list, object);
    }
    return list;
}

/* An object of one run: as in the list, and all the rest. */
static int print_run_json(struct oct_runs *runs, const struct oct_run *run, const char *path,
                          const char *command) {
    const int64_t number = run->number;
    struct cli_json *root = run_json(run);
    cli_json_text(root, "db", path);
    cli_json_real(root, "accuracy_least", run->accuracy_least);
    cli_json_real(root, "accuracy_most", run->accuracy_most);
    cli_json_int(root, "bytes_final", (int64_t)run->bytes_final);
    cli_json_int(root, "bytes_dense", (int64_t)run->bytes_dense);
    cli_json_int(root, "n_parameters", run->n_parameters);
    cli_json_text(root, "command", command);
    cli_json_put(root, "rows", epochs_json(runs, number));
    cli_json_put(root, "config", config_json(runs, number));
    return cli_json_print(root);
}

static void add_line(struct cli_table *table, const char *name, const char *value,
                     const char *note) {
    cli_table_cell(table, "%s", name);
    cli_table_cell(table, "%s", value);
    cli_table_cell(table, "%s", note);
}

static void print_result(const struct oct_run *run) {
    struct cli_table table;
    char spread[96], sum[16], epochs[32], dense[64] = "over all edges";
    snprintf(epochs, sizeof epochs, "%d of %d", run->epochs, run->n_epochs);
    cli_table_init(&table, "result|>value|~");
    add_line(&table, "epochs", epochs, "");
    if (run->has_result) {
        add_line(&table, "accuracy", percent(run->accuracy, 2).text, "of the average model");
        if (isfinite(run->accuracy_nodes)) {
            snprintf(spread, sizeof spread, "mean over the nodes, from %s to %s",
                     percent(run->accuracy_least, 2).text, percent(run->accuracy_most, 2).text);
            add_line(&table, "nodes", percent(run->accuracy_nodes, 2).text, spread);
        }
        add_line(&table, "loss", cli_decimals(run->loss, 4).text, "on the test set");
        add_line(&table, "train loss", cli_decimals(run->train_loss, 4).text, "last epoch");
        add_line(&table, "consensus", short_number(run->consensus_distance).text,
                 "distance of the nodes from their mean");
        if (run->bytes_dense > 0 && run->bytes_sent > run->bytes_final) {
            snprintf(
                dense, sizeof dense, "over all edges; %s of plain floats",
                cli_part((double)(run->bytes_sent - run->bytes_final) / (double)run->bytes_dense)
                    .text);
        }
        add_line(&table, "sent", cli_bytes(run->bytes_sent).text, dense);
        add_line(&table, "samples/s", cli_count(run->samples_per_s).text, "training");
        add_line(&table, "time", cli_time(run->seconds).text, "with evaluation");
    }
    if (run->model_sha256) {
        snprintf(sum, sizeof sum, "%.12s", run->model_sha256);
        add_line(&table, "model", sum, "begin of its sha256");
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_epochs(struct oct_runs *runs, int64_t number) {
    struct cli_table table;
    struct oct_run_epoch epoch;
    int n = 0;
    cli_table_init(&table, ">epoch|>test acc|>test loss|>train acc|>train loss|>consensus|>sent|"
                           ">samples/s|>time|>rate");
    for (; oct_runs_epoch_at(runs, number, n, &epoch) == OCT_OK; n++) {
        cli_table_cell(&table, "%d", epoch.epoch);
        cli_table_cell(&table, "%s", percent(epoch.accuracy, 2).text);
        cli_table_cell(&table, "%s", cli_decimals(epoch.loss, 4).text);
        cli_table_cell(&table, "%s", percent(epoch.train_accuracy, 2).text);
        cli_table_cell(&table, "%s", cli_decimals(epoch.train_loss, 4).text);
        cli_table_cell(&table, "%s", short_number(epoch.consensus_distance).text);
        cli_table_cell(&table, "%s", cli_bytes(epoch.bytes_sent).text);
        cli_table_cell(&table, "%s", cli_count(epoch.samples_per_s).text);
        cli_table_cell(&table, "%s", cli_time(epoch.seconds).text);
        cli_table_cell(&table, "%s", short_number(epoch.learning_rate).text);
    }
    if (n > 0) {
        putchar('\n');
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
}

static void print_options(struct oct_runs *runs, int64_t number) {
    struct cli_table table;
    const char *name, *value;
    int is_set;
    cli_table_init(&table, "option|value|");
    for (int i = 0; oct_runs_option_at(runs, number, i, &name, &value, &is_set) == OCT_OK; i++) {
        if (is_set || *value) { /* what follows from the rest and came to nothing is left out */
            add_line(&table, name, value, is_set ? "set" : "");
        }
    }
    putchar('\n');
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_run(struct oct_runs *runs, const struct oct_run *run, const char *command) {
    const int64_t number = run->number; /* its texts go with the next call */
    printf("%srun %lld%s of %s: %s (octet %s)\n\n", cli_style(stdout, CLI_BOLD), (long long)number,
           cli_style(stdout, CLI_PLAIN), date_of(run->started, "%Y-%m-%d %H:%M:%S", 0).text,
           run->outcome, run->version);
    print_result(run);
    print_epochs(runs, number);
    print_options(runs, number);
    printf("\nagain: %s\n", command);
}

static int show_run(const struct cli *cli, struct oct_runs *runs, const char *path,
                    int64_t number) {
    char *command = NULL;
    struct oct_run run;
    oct_status status = command_of(runs, number, &command);
    if (status == OCT_OK) {
        status = oct_runs_find(runs, number, &run);
    }
    int code = CLI_DONE;
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli->json) {
        code = print_run_json(runs, &run, path, command);
    } else {
        print_run(runs, &run, command);
    }
    free(command);
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

static int runs_command(struct cli *cli) {
    struct cli_database database;
    struct stat facts;
    char *end = NULL;
    const char *word = cli->n_words ? cli->words[0] : NULL;
    long long number = word ? strtoll(word, &end, 10) : 0;
    if (word && (*end || *word < '1' || *word > '9' || strlen(word) > 18)) {
        return cli_usage(cli, "'%.40s' is no run; expected a number, as octet runs lists them",
                         word);
    }
    if (!cli_database(cli->config, &database)) {
        return cli_usage(cli, "no database of runs is named; give --db FILE");
    }
    if (oct_runs_available() && stat(database.path, &facts) != 0 &&
        (errno == ENOENT || errno == ENOTDIR)) {
        return no_database(cli, &database);
    }
    struct oct_runs *runs = NULL;
    oct_status status = oct_runs_open(database.path, &runs);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    int code =
        word ? show_run(cli, runs, database.path, number) : list_runs(cli, runs, database.path);
    oct_runs_close(runs);
    return code;
}

const struct cli_command cli_runs = {
    .name = "runs",
    .arguments = "[NUMBER]",
    .most_words = 1,
    .summary = "what was run, how it went, and how to run it again",
    .about = "Lists the runs that octet train has recorded, the newest first; or, given a run's "
             "number, all about it: the result, every epoch, every option as it was in force, and "
             "the command that repeats it. A run that was killed stays 'running'.",
    .own = own,
    .options = table_options,
    .examples = examples,
    .json = "db, runs (number, started, outcome, version, epochs, n_epochs, accuracy, "
            "accuracy_nodes, loss, train_loss, consensus_distance, bytes_sent, samples_per_s, "
            "seconds, model_sha256, options); of one run: these, and accuracy_least, "
            "accuracy_most, bytes_final, bytes_dense, n_parameters, command, rows (epoch, "
            "accuracy, loss, train_accuracy, train_loss, consensus_distance, learning_rate, "
            "bytes_sent, samples_per_s, seconds), config",
    .run = runs_command,
};
