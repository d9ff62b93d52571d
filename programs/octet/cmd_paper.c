/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_paper.c - octet paper: the papers' tables and figures, ours beside theirs.
 *
 * A table is many runs. Each is an ordinary run in the database, so a table that was stopped, or a
 * machine that went down, costs no more than the cell that was under way: what is on record is taken
 * over, and a checkpoint goes on.
 */
#include "paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/log.h>

static const struct oct_option own[] = {
    {.name = "rows",
     .placeholder = "LIST",
     .summary = "only these rows, as in 1,5-8",
     .group = "Table"},
    {.name = "columns",
     .placeholder = "LIST",
     .summary = "only these columns, as in choco-fp32,choco-int8",
     .group = "Table"},
    {.name = "seeds",
     .placeholder = "LIST",
     .summary = "every cell once with each of these seeds, as in 1-3: the table has their mean and "
                "standard deviation",
     .group = "Table"},
    {.name = "scale",
     .placeholder = "full|short",
     .fallback = "full",
     .summary = "the paper's settings, or a reduction that ends in minutes",
     .group = "Table"},
    {.name = "at-once",
     .placeholder = "N",
     .summary =
         "train up to so many cells side by side, in one cohort: what a GPU wants, and sooner "
         "done than one after the other",
     .fallback = "1",
     .group = "Table",
     .type = OCT_OPTION_INT,
     .least = 1,
     .most = PAPER_AT_ONCE},
    {.name = "again", .summary = "run cells again that are on record as done", .group = "Table"},
    {.name = "dry-run", .summary = "only say what would be run", .group = "Table"},
    {.name = "svg", .placeholder = "FILE", .summary = "draw a figure", .group = "Output"},
    {.name = "md",
     .placeholder = "FILE",
     .summary = "write the table in Markdown too",
     .group = "Output"},
    {.name = "csv",
     .placeholder = "FILE",
     .summary = "write a line for each run",
     .group = "Output"},
    {.name = NULL},
};

static const char *const table_options[] = {
    "data",        "data-dir",         "samples",   "test-samples",
    "strict",      "epochs",           "batch",     "lr",
    "gamma",       "final-statistics", "momentum",  "own-momentum",
    "global-beta", "slow-momentum",    "slow-rate", "clip-gradient",
    "engine",      "precision-recipe", "every",     "test-every",
    "db",          "record",           NULL,
};

static const struct cli_example examples[] = {
    {"paper", "all tables and figures, and how long they take here"},
    {"paper table2 --scale short --rows 1-8", "the first block of table 2, in minutes"},
    {"paper table2 --rows 1,5 --columns choco-fp32,choco-int8", "four runs as the paper did them"},
    {"paper table2 --rows 1-8 --seeds 1-3", "mean and deviation over three seeds"},
    {"paper table2 --rows 1-8 --engine cuda --at-once 8", "eight cells side by side on a GPU"},
    {"paper table2 --scale short --json >table2.json", "for a program to read"},
    {"paper fig1 --scale short --svg fig1.svg", "test error over time with five norms"},
    {"paper fig2 --svg fig2.svg", "which node holds which classes"},
    {NULL, NULL},
};

int paper_is_given(const struct cli *cli, const char *name) {
    for (int i = 0; own[i].name; i++) {
        if (strcmp(own[i].name, name) == 0) {
            return cli->own[i] != NULL;
        }
    }
    return 0;
}

/* --- the list --------------------------------------------------------------------------------- */

/* Cells of an experiment and the seconds they take, without those that this build cannot run. */
struct cost {
    int n_cells;
    double seconds;
    char reason[256];
};

static struct cost cost_of(const struct cli *cli, const char *name, int is_short) {
    struct cost cost = {0, 0, ""};
    struct paper_table table;
    if (!paper_table_open(&table, name)) {
        return cost;
    }
    table.is_short = is_short;
    for (int i = 0; i < table.n_cells; i++) { /* of one seed */
        if (paper_cell_configure(&table, i / table.n_columns, i % table.n_columns, 0, cli) ==
            OCT_OK) {
            cost.n_cells++;
            cost.seconds += table.cells[i].expected_s;
        } else {
            snprintf(cost.reason, sizeof cost.reason, "%.250s", oct_last_error());
        }
    }
    paper_table_close(&table);
    return cost;
}

/* "3 minutes", "14 hours", "9 days" */
static struct cli_text duration(double seconds) {
    static const struct {
        double least, unit;
        const char *name;
    } units[] = {
        {48 * 3600, 86400, "day"}, {90 * 60, 3600, "hour"}, {90, 60, "minute"}, {0, 1, "second"}};
    struct cli_text out = {""};
    for (size_t i = 0; i < CLI_COUNT_OF(units) && seconds > 0 && !out.text[0]; i++) {
        if (seconds >= units[i].least) {
            const double n = ceil(seconds / units[i].unit);
            snprintf(out.text, sizeof out.text, "%.0f %s%s", n, units[i].name, n == 1 ? "" : "s");
        }
    }
    return out;
}

static void list_json(struct cli_json *list, const struct paper_csv *index, int i,
                      const struct cost *full, const struct cost *brief, double speed) {
    struct cli_json *object = cli_json_object();
    const int is_absent = strcmp(paper_csv_at(index, i, "kind"), "absent") == 0;
    cli_json_text(object, "name", paper_csv_at(index, i, "name"));
    cli_json_text(object, "kind", paper_csv_at(index, i, "kind"));
    cli_json_text(object, "title", paper_csv_at(index, i, "title"));
    cli_json_text(object, "note", paper_csv_at(index, i, "note"));
    cli_json_int(object, "cells", full->n_cells);
    cli_json_real(object, "seconds", full->n_cells ? full->seconds / speed : NAN);
    cli_json_real(object, "seconds_short", full->n_cells ? brief->seconds / speed : NAN);
    cli_json_text(object, "unavailable",
                  is_absent         ? paper_csv_at(index, i, "note")
                  : full->reason[0] ? full->reason
                                    : NULL);
    cli_json_add(list, object);
}

static void list_row(struct cli_table *table, const struct paper_csv *index, int i,
                     const struct cost *full, const struct cost *brief, double speed) {
    const int is_absent = strcmp(paper_csv_at(index, i, "kind"), "absent") == 0;
    char cells[16] = "";
    if (full->n_cells > 0) {
        snprintf(cells, sizeof cells, "%d", full->n_cells);
    }
    cli_table_cell(table, "%s", paper_csv_at(index, i, "name"));
    cli_table_cell(table, "%s", cells);
    cli_table_cell(table, "%s", duration(full->seconds / speed).text);
    cli_table_cell(table, "%s", duration(brief->seconds / speed).text);
    cli_table_cell(table, "%s%s%s", paper_csv_at(index, i, "title"),
                   is_absent || full->reason[0] ? "; " : "",
                   is_absent ? paper_csv_at(index, i, "note") : full->reason);
}

/* The list has no cells to choose from. */
static int refuse_without_name(const struct cli *cli) {
    static const struct {
        const char *name, *value;
    } needs[] = {{"rows", " LIST"}, {"columns", " LIST"}, {"seeds", " LIST"},
                 {"at-once", " 8"}, {"again", ""},        {"dry-run", ""}};
    for (size_t i = 0; i < CLI_COUNT_OF(needs); i++) {
        if (paper_is_given(cli, needs[i].name)) {
            return cli_usage(cli, "--%s needs a table, as in octet paper table2 --%s%s",
                             needs[i].name, needs[i].name, needs[i].value);
        }
    }
    return CLI_DONE;
}

static int list_experiments(const struct cli *cli) {
    struct paper_csv index;
    struct cli_table table;
    const int refused = refuse_without_name(cli);
    if (refused != CLI_DONE) {
        return refused;
    }
    struct cli_json *list = cli->json ? cli_json_array() : NULL;
    cli_progress_note("looking how fast this machine is");
    const double speed = paper_speed();
    cli_progress_clear();
    paper_csv_open(&index, "index.csv");
    cli_table_init(&table, "name|>runs|>full|>short|~what it is");
    for (int i = 0; i < index.n_rows; i++) {
        const char *name = paper_csv_at(&index, i, "name");
        const struct cost full = cost_of(cli, name, 0), brief = cost_of(cli, name, 1);
        if (list) {
            list_json(list, &index, i, &full, &brief, speed);
        } else {
            list_row(&table, &index, i, &full, &brief, speed);
        }
    }
    int code = CLI_DONE;
    if (list) {
        struct cli_json *root = cli_json_object();
        cli_json_real(root, "speed", speed);
        cli_json_put(root, "experiments", list);
        code = cli_json_print(root);
    } else {
        cli_table_print(&table, stdout);
        printf("\n'octet paper NAME' runs one; times are estimates for this machine, from half a "
               "second of training.\n");
    }
    cli_table_fini(&table);
    paper_csv_close(&index);
    return code;
}

/* --- a table ---------------------------------------------------------------------------------- */

static int unknown_name(const struct cli *cli, const char *name) {
    struct paper_csv index;
    struct cli_guess guess = {.given = name};
    char names[256] = "";
    paper_csv_open(&index, "index.csv");
    for (int i = 0; i < index.n_rows; i++) {
        const char *candidate = paper_csv_at(&index, i, "name");
        const size_t used = strlen(names);
        cli_guess_from(&guess, candidate);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", candidate);
    }
    int code = guess.name
                   ? cli_usage(cli, "'%.40s' is no table or figure; did you mean %s? There are: %s",
                               name, guess.name, names)
                   : cli_usage(cli, "'%.40s' is no table or figure; there are: %s", name, names);
    paper_csv_close(&index);
    return code;
}

/* A warning that every cell would give is given once. */
static void log_once(enum oct_log_level level, const char *text, void *context) {
    static char said[16][128];
    static int n_said;
    (void)context;
    for (int i = 0; i < n_said; i++) {
        if (strncmp(said[i], text, sizeof said[i] - 1) == 0) {
            return;
        }
    }
    if (n_said < (int)CLI_COUNT_OF(said)) {
        snprintf(said[n_said++], sizeof said[0], "%s", text);
    }
    cli_progress_clear();
    fprintf(stderr, "octet: %s: ", level == OCT_LOG_WARNING ? "warning" : "note");
    cli_put(stderr, text);
    fputc('\n', stderr);
}

/* What several cells share is read once. */
struct library {
    struct {
        const char *name; /* a cell's */
        struct cli_data data;
    } entries[4];
    int n;
};

static void library_close(struct library *library) {
    for (int i = 0; i < library->n; i++) {
        cli_data_close(&library->entries[i].data);
    }
}

static const struct cli_data *library_find(const struct library *library, const char *name) {
    for (int i = 0; i < library->n; i++) {
        if (strcmp(library->entries[i].name, name) == 0) {
            return &library->entries[i].data;
        }
    }
    return NULL;
}

/* Everything that can be wrong with any cell that is to be run, before the first one is. */
static int open_library(struct library *library, const struct paper_table *table,
                        const struct cli *cli) {
    for (int i = 0; i < table->n_cells; i++) {
        const struct paper_cell *cell = &table->cells[i];
        if (cell->state != PAPER_WAITING) {
            continue;
        }
        int code = cli_training_check(cli, cell->config);
        if (code != CLI_DONE) {
            return code;
        }
        const char *name = oct_config_get(cell->config, "data");
        if (library_find(library, name)) {
            continue;
        }
        if (library->n == (int)CLI_COUNT_OF(library->entries)) {
            return cli_error(cli, CLI_FAILED, OCT_STATUS_INTERNAL,
                             "too many datasets in one table");
        }
        library->entries[library->n].name = name;
        oct_status status = cli_data_open(&library->entries[library->n++].data, cli, cell->config);
        cli_progress_clear();
        if (status != OCT_OK) {
            return cli_fail(cli, status);
        }
    }
    return CLI_DONE;
}

static int count(const struct paper_table *table, enum paper_state state) {
    int n = 0;
    for (int i = 0; i < table->n_cells; i++) {
        n += table->cells[i].state == state;
    }
    return n;
}

/* Another process may have been at the table meanwhile. */
static int look_again(struct paper_table *table, const struct cli *cli,
                      struct paper_screen *screen) {
    oct_status status = paper_cells_recall(table, cli, cli_own(cli, "again") != NULL);
    paper_screen_count(screen);
    return status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
}

/* The cell at `index`: one seed after the other, so that the first table is whole soon. */
static struct paper_cell *cell_in_turn(const struct paper_table *table, int index) {
    const int n_places = table->n_rows * table->n_columns, place = index % n_places;
    return paper_cell_at(table, place / table->n_columns, place % table->n_columns,
                         index / n_places);
}

/* Whether the cell may run beside `first`. One that goes on stands after another step than one that
 * begins. */
static int goes_beside(const struct paper_cell *first, const struct paper_cell *cell) {
    return cell->state == PAPER_WAITING && cell->at_most == first->at_most &&
           cell->is_begun == first->is_begun &&
           oct_config_fits(first->config, cell->config) == OCT_OK;
}

/* Takes the next cell that waits and as many as may run beside it; what another process is at is
 * left to that one. Returns 0 when none waits. */
static int take_cells(struct paper_table *table, struct paper_group *group) {
    const struct paper_cell *first = NULL;
    group->n = 0;
    for (int i = 0; i < table->n_cells && (!first || group->n < first->at_most); i++) {
        struct paper_cell *cell = cell_in_turn(table, i);
        if (first ? !goes_beside(first, cell) : cell->state != PAPER_WAITING) {
            continue;
        }
        if (!paper_cell_take(cell)) {
            cell->state = PAPER_BUSY;
            paper_screen_busy(cell);
            continue;
        }
        first = first ? first : cell;
        group->running[group->n++].cell = cell;
    }
    return group->n > 0;
}

/* Those that another process had not done before they were taken; the rest is left. */
static void keep_waiting(struct paper_group *group) {
    const int n_taken = group->n;
    group->n = 0;
    for (int i = 0; i < n_taken; i++) {
        struct paper_cell *cell = group->running[i].cell;
        if (group->n > 0 ? goes_beside(group->running[0].cell, cell)
                         : cell->state == PAPER_WAITING) {
            group->running[group->n++].cell = cell;
        } else {
            paper_cell_leave(cell);
        }
    }
}

/* Cells that do not go side by side. Where there is no room for them half as many may, of all
 * cells like them; or else each is tried alone, which shows the one that cannot be run. */
static void part(const struct paper_table *table, const struct paper_group *group,
                 oct_status reason) {
    const struct paper_cell *first = group->running[0].cell;
    const int at_most = reason == OCT_STATUS_NO_MEMORY ? group->n / 2 : 1;
    cli_progress_say("%d cells at once: %s: %s; going on with %s", group->n,
                     oct_status_name(reason), oct_last_error(),
                     at_most > 1 ? "half as many" : "one at a time");
    if (reason == OCT_STATUS_NO_MEMORY) {
        for (int i = 0; i < table->n_cells; i++) {
            struct paper_cell *cell = &table->cells[i];
            if (cell->state == PAPER_WAITING && cell->at_most > at_most &&
                oct_config_fits(first->config, cell->config) == OCT_OK) {
                cell->at_most = at_most;
            }
        }
    }
    for (int i = 0; i < group->n; i++) {
        group->running[i].cell->at_most = at_most;
    }
}

/* Runs cells that were taken, unless another process has done so before, and leaves them. */
static int run_group(struct paper_group *group, struct paper_screen *screen, const struct cli *cli,
                     const struct library *library) {
    int code = look_again(screen->table, cli, screen);
    keep_waiting(group);
    if (code == CLI_DONE && group->n > 0) {
        const char *data = oct_config_get(group->running[0].cell->config, "data");
        oct_status apart;
        paper_screen_group(screen, group);
        code = paper_cells_run(group, cli, library_find(library, data), &apart);
        if (apart != OCT_OK) {
            part(screen->table, group, apart);
        }
        paper_screen_ended(screen);
    }
    for (int i = 0; i < group->n; i++) {
        paper_cell_leave(group->running[i].cell);
    }
    return code;
}

static int run_waiting(struct paper_screen *screen, const struct cli *cli,
                       const struct library *library) {
    struct paper_group group;
    int code = CLI_DONE;
    while (code == CLI_DONE && !cli_interrupted() && take_cells(screen->table, &group)) {
        code = run_group(&group, screen, cli, library);
    }
    return code;
}

/* Several processes may share a table. What others were at is looked at again when nothing else is left,
 * until all that remain are still at it: it is done, or its process has gone and left a checkpoint.
 * Without a record, or with one that does not count, nobody could tell. */
static int run_cells(struct paper_table *table, const struct cli *cli,
                     const struct library *library) {
    struct cli_database database;
    const int can_tell = cli_database(cli->config, &database) && !cli_own(cli, "again");
    struct paper_screen screen;
    paper_screen_begin(&screen, table);
    for (int i = 0; i < table->n_cells; i++) {
        table->cells[i].at_most = (int)cli_own_number(cli, "at-once");
    }
    int code = run_waiting(&screen, cli, library);
    int n_busy = count(table, PAPER_BUSY), n_before = n_busy + 1;
    while (can_tell && n_busy > 0 && n_busy < n_before && code == CLI_DONE && !cli_interrupted()) {
        for (int i = 0; i < table->n_cells; i++) {
            struct paper_cell *cell = &table->cells[i];
            cell->state = cell->state == PAPER_BUSY ? PAPER_WAITING : cell->state;
        }
        code = run_waiting(&screen, cli, library);
        n_before = n_busy;
        n_busy = count(table, PAPER_BUSY);
    }
    cli_progress_clear();
    return code;
}

/* The command as it was given. */
static void print_command(FILE *out, const struct cli *cli) {
    const struct oct_option *option;
    fprintf(out, "octet paper %s", cli->words[0]);
    for (int i = 0; (option = cli_option_at(cli->command, i)) != NULL; i++) {
        const char *value = i < (int)CLI_COUNT_OF(own) && option == &own[i] ? cli->own[i] : NULL;
        if (!value && oct_option_find(option->name) &&
            oct_config_is_set(cli->config, option->name)) {
            value = oct_config_get(cli->config, option->name);
        }
        if (value && strcmp(option->name, "again") != 0 && strcmp(option->name, "dry-run") != 0) {
            fprintf(out, " --%s", option->name);
            if (option->placeholder) {
                fputc(' ', out);
                cli_quote(out, value);
            }
        }
    }
    fputc('\n', out);
}

/* What the runs would be. */
static int print_plan(const struct paper_table *table, const struct cli *cli) {
    struct cli_table plan;
    double seconds = 0;
    cli_table_init(&plan, "run|state|>here about|~data");
    const double speed = paper_speed();
    for (int i = 0; i < table->n_cells; i++) {
        const struct paper_cell *cell = &table->cells[i];
        if (cell->state == PAPER_LEFT_OUT) {
            continue;
        }
        const double left = cell->state == PAPER_WAITING ? cell->expected_s / speed : 0;
        cli_table_cell(&plan, "%s", cell->label);
        cli_table_cell(&plan, "%s",
                       cell->state == PAPER_DONE     ? "done"
                       : cell->state == PAPER_FAILED ? "cannot run"
                       : cell->is_begun              ? "begun"
                                                     : "to do");
        cli_table_cell(&plan, "%s", duration(left).text);
        cli_table_cell(&plan, "%s", oct_config_get(cell->config, "data"));
        seconds += left;
    }
    cli_table_print(&plan, stdout);
    cli_table_fini(&plan);
    printf("\n%d to run, %d on record%s%s\n", count(table, PAPER_WAITING), count(table, PAPER_DONE),
           seconds > 0 ? "; about " : "", duration(seconds).text);
    if (count(table, PAPER_WAITING) > 0) {
        printf("to run: ");
        print_command(stdout, cli);
    }
    fflush(stdout);
    for (int i = 0; i < table->n_cells; i++) {
        if (table->cells[i].state == PAPER_FAILED) {
            fprintf(stderr, "octet paper: %s: ", table->cells[i].label);
            cli_put(stderr, table->cells[i].reason);
            fputc('\n', stderr);
        }
    }
    return CLI_DONE;
}

static int write_results(const struct paper_table *table, const struct cli *cli) {
    const char *csv = cli_own(cli, "csv"), *md = cli_own(cli, "md"), *svg = cli_own(cli, "svg");
    const int has_curves = strcmp(table->kind, "curves") == 0;
    int code = csv ? paper_write_csv(table, cli, csv) : CLI_DONE;
    if (code == CLI_DONE && md) {
        code = paper_write_md(table, cli, md);
    }
    if (code == CLI_DONE && svg) {
        code = paper_draw_curves(table, cli, svg);
    }
    if (code != CLI_DONE || cli_is_stdout(csv) || cli_is_stdout(md) || cli_is_stdout(svg)) {
        return code;
    }
    if (cli->json) {
        return paper_print_json(table, cli);
    }
    paper_print(table);
    if (has_curves) {
        paper_print_curves(table);
    }
    return CLI_DONE;
}

static int end_table(const struct paper_table *table, const struct cli *cli) {
    int code = write_results(table, cli), n_wrong = count(table, PAPER_FAILED);
    const int n_left = count(table, PAPER_WAITING) + count(table, PAPER_STOPPED);
    n_wrong += count(table, PAPER_BUSY);
    if (cli_interrupted() && n_left > 0) {
        if (!cli->quiet) {
            fflush(stdout);
            fprintf(stderr, "stopped with %d cell%s to go; to go on: ", n_left,
                    n_left == 1 ? "" : "s");
            print_command(stderr, cli);
        }
        return CLI_INTERRUPTED;
    }
    for (int i = 0; i < table->n_cells; i++) {
        n_wrong += table->cells[i].is_unrecorded;
    }
    return code == CLI_DONE && n_wrong > 0 ? CLI_FAILED : code;
}

/* Which runs the table is made of. */
static int choose_cells(struct paper_table *table, const struct cli *cli) {
    const char *seeds = cli_own(cli, "seeds");
    int code = CLI_DONE;
    if (seeds && oct_config_is_set(cli->config, "seed")) {
        return cli_usage(cli, "--seeds says which seeds there are; leave --seed out");
    }
    if (seeds && strcmp(table->kind, "curves") == 0) {
        return cli_usage(cli, "--seeds is for tables; %s draws one run a curve: choose with --seed",
                         table->name);
    }
    if (seeds) {
        code = paper_table_repeat(table, cli, seeds);
    }
    return code == CLI_DONE
               ? paper_table_select(table, cli, cli_own(cli, "rows"), cli_own(cli, "columns"))
               : code;
}

static int run_table(struct paper_table *table, struct cli *cli) {
    int code = choose_cells(table, cli);
    if (code != CLI_DONE) {
        return code;
    }
    if (cli_own(cli, "svg") && strcmp(table->kind, "curves") != 0) {
        return cli_usage(cli, "--svg draws figures; %s is a table", table->name);
    }
    oct_status status = paper_cells_configure(table, cli);
    if (status == OCT_OK) {
        status = paper_cells_recall(table, cli, cli_own(cli, "again") != NULL);
    }
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    oct_log_set(log_once, NULL, cli->verbose ? OCT_LOG_INFO : OCT_LOG_WARNING);
    paper_cells_check(table);
    if (cli_own(cli, "dry-run")) {
        code = cli->json ? paper_print_json(table, cli) : print_plan(table, cli);
        return code == CLI_DONE && count(table, PAPER_FAILED) > 0 ? CLI_FAILED : code;
    }
    struct library library;
    memset(&library, 0, sizeof library);
    code = open_library(&library, table, cli);
    if (code == CLI_DONE) {
        cli_interrupt_catch();
        code = run_cells(table, cli, &library);
    }
    if (code == CLI_DONE) {
        code = end_table(table, cli);
    }
    library_close(&library);
    return code;
}

/* --- the command ------------------------------------------------------------------------------ */

static int run_named(struct paper_table *table, struct cli *cli) {
    if (strcmp(table->kind, "absent") == 0) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_UNSUPPORTED, "%s (%s): %s", table->name,
                         table->title, table->note);
    }
    if (strcmp(table->kind, "classes") == 0) {
        return paper_figure_classes(table, cli);
    }
    if (strcmp(table->kind, "graphs") == 0) {
        return paper_figure_graphs(table, cli);
    }
    if (strcmp(table->kind, "cost") == 0) {
        return paper_figure_cost(table, cli);
    }
    return run_table(table, cli);
}

/* Experiments are run files: a build that reads none has none of them. */
static int has_run_files(void) {
    struct oct_config *config = NULL;
    oct_status status = oct_config_create(&config);
    if (status == OCT_OK) {
        status = oct_config_parse(config, "experiments", "", 0);
    }
    oct_config_destroy(config);
    return status != OCT_STATUS_UNSUPPORTED;
}

static int paper(struct cli *cli) {
    const char *scale = cli_own(cli, "scale");
    struct paper_table table;
    if (!has_run_files()) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_UNSUPPORTED,
                         "the papers' experiments are run files, which this build does not read; "
                         "install libyaml-dev and build again");
    }
    if (strcmp(scale, "full") != 0 && strcmp(scale, "short") != 0) {
        return cli_usage(cli, "--scale is '%.40s', expected one of: full, short", scale);
    }
    static const char *const files[] = {"svg", "md", "csv", NULL};
    int n_files, code = cli_output_check(cli, files, &n_files);
    if (code != CLI_DONE || cli->n_words == 0) {
        return code == CLI_DONE ? list_experiments(cli) : code;
    }
    if (!paper_table_open(&table, cli->words[0])) {
        return unknown_name(cli, cli->words[0]);
    }
    table.is_short = strcmp(scale, "short") == 0;
    code = run_named(&table, cli);
    paper_table_close(&table);
    return code;
}

const struct cli_command cli_paper = {
    .name = "paper",
    .arguments = "[NAME]",
    .most_words = 1,
    .summary = "the papers' tables and figures, ours beside theirs",
    .about =
        "Runs a table of the papers and prints our accuracy (mean over the nodes, as published) "
        "beside theirs with the difference; without NAME it lists all tables and figures. Every "
        "cell is a run of its own in the database, labelled TABLE/SCALE/rROW/COLUMN: one that is "
        "there with the same options is taken over, one that was stopped goes on. --scale short "
        "keeps graph, skew, algorithm, compression and precision and makes the rest small: 4,000 "
        "samples (ResNet-54 and VGG-11 1,500; Imagenette 1,000 of 64x64, VGG-11 500), 4 to 8 "
        "epochs, 32 or 64 samples a step, learning rate 0.02, 20 final rounds; docs/howto/paper.md "
        "has "
        "all of it. Its numbers are not comparable with the paper's, so their difference is marked "
        "(short); what int8 loses against fp32 is shown beside the paper's.",
    .own = own,
    .options = table_options,
    .examples = examples,
    .json = "name, title, note, scale, comparable, against, db, failed, left, rows (row, block, "
            "title, method, seed, paper, ours, delta, mean, deviation, state, reason, accuracy, "
            "accuracy_nodes, loss, "
            "consensus_distance, bytes_sent, bytes_final, bytes_dense, sent_of_dense, "
            "samples_per_s, seconds, epochs, label, run, taken_over, file, short_file, errors, "
            "settings); without NAME: speed, experiments (name, kind, title, note, cells, seconds, "
            "seconds_short, unavailable)",
    .has_settings = 1,
    .keeps_config = 1,
    .run = paper,
};
