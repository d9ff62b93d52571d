/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_report.c - octet report: one run or several beside each other, as a page, tables or numbers. */
#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const table_options[] = {"db", NULL};

static const struct oct_option own[] = {
    {.name = "html",
     .placeholder = "FILE",
     .summary = "write a page that stands alone: tables, charts, graphs, configuration",
     .group = "Output"},
    {.name = "md", .placeholder = "FILE", .summary = "write Markdown", .group = "Output"},
    {.name = "csv",
     .placeholder = "FILE",
     .summary = "write a line for each epoch of each run",
     .group = "Output"},
    {.name = "csv-nodes",
     .placeholder = "FILE",
     .summary = "write a line for each node and epoch of each run",
     .group = "Output"},
    {.name = "svg", .placeholder = "FILE", .summary = "draw the curves", .group = "Output"},
    {.name = "where",
     .placeholder = "KEY=PATTERN",
     .summary = "the runs whose option (or outcome, version, machine) fits",
     .group = "Which"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"report", "the newest run: a table and its curves"},
    {"report 12 --html run12.html", "a page about run 12, to look at or to send"},
    {"report 3 7 9 --html compared.html --md compared.md", "three runs beside each other"},
    {"report --where 'label=table2/*' --csv epochs.csv", "all runs of a table, for a spreadsheet"},
    {NULL, NULL},
};

/* --- which runs ----------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Their numbers in order, none twice. */
static int sort_out(const struct runs_listing *list, int64_t *numbers) {
    int n = 0;
    for (size_t i = 0; i < list->n; i++) {
        numbers[i] = list->at[i].run.number;
    }
    qsort(numbers, list->n, sizeof *numbers, by_number);
    for (size_t i = 0; i < list->n; i++) {
        if (n == 0 || numbers[i] != numbers[n - 1]) {
            numbers[n++] = numbers[i];
        }
    }
    return n;
}

static int nothing_fits(const struct cli *cli, const char *path) {
    char where[256];
    snprintf(where, sizeof where, "%s", cli_own(cli, "where"));
    for (char *joint = where; (joint = strchr(joint, CLI_JOINT)) != NULL;) {
        *joint = ' ';
    }
    return cli_error(cli, CLI_FAILED, OCT_STATUS_NOT_FOUND,
                     "no run in %s fits %s; octet runs lists them", path, where);
}

/* The runs that --where means, or the newest. */
static int find_runs(const struct cli *cli, struct oct_runs *runs, const char *path,
                     struct runs_listing *list) {
    struct runs_filter filter;
    int code = runs_filter_read(&filter, cli, cli_own(cli, "where"));
    oct_status status = OCT_OK;
    if (code == CLI_DONE) {
        status = runs_select(runs, &filter, 0, filter.n > 0 ? SIZE_MAX : 1, list);
    }
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (code == CLI_DONE && list->n == 0) {
        code = filter.n > 0 ? nothing_fits(cli, path)
                            : cli_error(cli, CLI_FAILED, OCT_STATUS_NOT_FOUND,
                                        "no runs in %s yet; octet train adds one", path);
    }
    runs_filter_fini(&filter);
    return code;
}

/* --- which files ---------------------------------------------------------------------------------- */

static oct_status write_html(const struct report *report, struct oct_runs *runs, FILE *out) {
    (void)runs;
    report_html(report, out);
    return OCT_OK;
}

static oct_status write_markdown(const struct report *report, struct oct_runs *runs, FILE *out) {
    (void)runs;
    report_markdown(report, out);
    return OCT_OK;
}

static oct_status write_csv(const struct report *report, struct oct_runs *runs, FILE *out) {
    (void)runs;
    report_csv(report, out);
    return OCT_OK;
}

static oct_status write_svg(const struct report *report, struct oct_runs *runs, FILE *out) {
    (void)runs;
    report_svg(report, out);
    return OCT_OK;
}

static const struct form {
    const char *option;
    oct_status (*write)(const struct report *report, struct oct_runs *runs, FILE *out);
} forms[] = {
    {"html", write_html}, {"md", write_markdown},
    {"csv", write_csv},   {"csv-nodes", report_csv_nodes},
    {"svg", write_svg},
};

enum { N_FORMS = CLI_COUNT_OF(forms) };

static int write_file(const struct cli *cli, const struct form *form, const struct report *report,
                      struct oct_runs *runs) {
    const char *path = cli_own(cli, form->option);
    struct cli_output output;
    int error = cli_output_open(&output, path);
    oct_status status = OCT_OK;
    if (!error) {
        status = form->write(report, runs, output.file);
        error = cli_output_close(&output, status == OCT_OK);
    }
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    return cli_output_say(cli, path, error);
}

static int write_all(const struct cli *cli, const struct report *report, struct oct_runs *runs,
                     int n_files) {
    int code = CLI_DONE;
    for (int i = 0; i < N_FORMS && code == CLI_DONE; i++) {
        if (cli_own(cli, forms[i].option)) {
            code = write_file(cli, &forms[i], report, runs);
        }
    }
    if (code == CLI_DONE && cli->json) {
        struct cli_json *root = cli_json_object(), *files = cli_json_object(),
                        *list = cli_json_array();
        for (int i = 0; i < N_FORMS; i++) {
            cli_json_text(files, forms[i].option, cli_own(cli, forms[i].option));
        }
        for (int r = 0; r < report->n_runs; r++) {
            const struct report_run *run = &report->runs[r];
            cli_json_add(list, runs_json_all(runs, &run->facts, run->command));
        }
        cli_json_text(root, "db", report->database);
        cli_json_put(root, "files", files);
        cli_json_put(root, "runs", list);
        code = cli_json_print(root);
    } else if (code == CLI_DONE && n_files == 0) {
        report_text(report, stdout);
    }
    return code;
}

/* --- the command ---------------------------------------------------------------------------------- */

static int report_on(const struct cli *cli, struct oct_runs *runs, const char *path,
                     const struct runs_listing *list, int n_files) {
    int64_t *numbers = cli_alloc(list->n * sizeof *numbers);
    const int n = sort_out(list, numbers);
    struct report report = {.database = path};
    int code;
    if (n > REPORT_RUNS_MOST) {
        code = cli_usage(cli, "%d runs are too many for a report; expected up to %d", n,
                         REPORT_RUNS_MOST);
    } else {
        oct_status status = report_read(runs, numbers, n, &report);
        code = status == OCT_OK ? write_all(cli, &report, runs, n_files) : cli_fail(cli, status);
    }
    report_fini(&report);
    free(numbers);
    return code;
}

static int make_report(const struct cli *cli, struct oct_runs *runs, const char *path,
                       int n_files) {
    struct runs_listing list = {0};
    int code =
        cli->n_words > 0 ? runs_read_words(cli, runs, &list) : find_runs(cli, runs, path, &list);
    if (code == CLI_DONE) {
        code = report_on(cli, runs, path, &list, n_files);
    }
    runs_listing_fini(&list);
    return code;
}

static int report_runs(struct cli *cli) {
    const char *files[N_FORMS + 1] = {NULL};
    for (int i = 0; i < N_FORMS; i++) {
        files[i] = forms[i].option;
    }
    struct cli_database database;
    struct oct_runs *runs = NULL;
    int n_files, code = runs_check_words(cli);
    if (code == CLI_DONE) {
        code = cli_output_check(cli, files, &n_files);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (cli->n_words > 0 && cli_own(cli, "where")) {
        return cli_usage(cli, "either numbers of runs or --where, not both");
    }
    code = runs_open(cli, &database, &runs);
    if (code == CLI_DONE) {
        code = make_report(cli, runs, database.path, n_files);
    }
    oct_runs_close(runs);
    return code;
}

const struct cli_command cli_report_command = {
    .name = "report",
    .arguments = "[NUMBER...]",
    .most_words = CLI_WORDS_MOST,
    .summary = "runs as a page with charts, as Markdown, CSV or drawings",
    .about =
        "Reports on runs that octet train has recorded: the newest one, those whose numbers are "
        "given, or those that --where finds. Without a file to write it prints a table and the "
        "curves in small; FILE may be - for stdout. The page needs no other file and no network.",
    .own = own,
    .repeats = "where",
    .options = table_options,
    .examples = examples,
    .json =
        "db, files (html, md, csv, csv-nodes, svg), runs (each as octet runs NUMBER --json has it)",
    .run = report_runs,
};
