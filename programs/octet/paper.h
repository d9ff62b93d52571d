/* SPDX-License-Identifier: Apache-2.0 */
/* paper.h - what the parts of octet paper share.
 *
 *     cmd_paper.c      the command: what is asked for, the list of experiments
 *     paper_table.c    tables from experiments/, which the program carries with it
 *     paper_cells.c    a cell is a training run: its options, its record, how it goes on
 *     paper_time.c     how long runs will take
 *     paper_screen.c   the table while it fills up
 *     paper_text.c     the table as text, for the screen, the end and --md
 *     paper_export.c   the table as JSON and CSV
 *     paper_figures.c  the papers' figures
 */
#ifndef OCTET_PAPER_H
#define OCTET_PAPER_H

#include "cli.h"

/* --- experiments/ (paper_table.c) ------------------------------------------------------------- */

struct paper_file {
    const char *name; /* "table2/resnet20-ring8.yaml" */
    const unsigned char *text;
    size_t n_bytes;
};

/* All of them; ends with a NULL name (made by cmake/embed.cmake). */
extern const struct paper_file paper_files[];

/* A CSV file in memory; every row has as many cells as the headings. */
struct paper_csv {
    char *text;         /* what the cells lie in */
    const char **cells; /* [n_rows][n_columns], without the headings */
    const char **heads; /* [n_columns] */
    int n_rows, n_columns;
};

/* A file that is not there has no rows. */
void paper_csv_open(struct paper_csv *csv, const char *name);
void paper_csv_close(struct paper_csv *csv);
const char *paper_csv_at(const struct paper_csv *csv, int row, const char *head); /* "": none */

/* --- a table ---------------------------------------------------------------------------------- */

enum paper_state {
    PAPER_LEFT_OUT, /* nobody asked for it */
    PAPER_WAITING,
    PAPER_RUNNING,
    PAPER_DONE,
    PAPER_FAILED,
    PAPER_STOPPED, /* half done, with a checkpoint */
    PAPER_BUSY,    /* another process is at it */
};

/* What a run came to, now or on record. */
struct paper_result {
    double accuracy, accuracy_nodes, loss, consensus_distance, samples_per_s, seconds;
    uint64_t bytes_sent, bytes_final, bytes_dense;
    int epochs;
};

/* One run: a row of the table in a column, with a seed. */
struct paper_cell {
    enum paper_state state;
    int is_taken;      /* it was on record, and was not run now */
    int is_begun;      /* a checkpoint of it waits */
    int is_unrecorded; /* it was run, and its record is not complete, which has been reported */
    int at_most;       /* cells at once that it may be one of */
    double share;      /* of it that is done, 0 to 1, while it runs */
    double paper;      /* the published number; NAN: there is none */
    char label[96];    /* "table2/short/r5/choco-int8", with a seed other than 1 "…-seed2" */
    int n_base;        /* bytes of the label without the seed */
    char folder[4096]; /* of its checkpoints; "": none */
    int key;           /* of the lock that this process has on it; -1: none */
    struct oct_config *config;
    int64_t run; /* in the database; 0: not there */
    struct paper_result result;
    char reason[512]; /* why it failed */
    double *errors;   /* [n_errors] test error after each epoch, per cent; NAN: not known */
    int n_errors;
    double expected_s; /* of a run of its own on the machine of rates.csv */
};

struct paper_method {
    const char *name, *head, *overrides;
};

struct paper_row {
    int number;
    const char *block, *title, *file, *short_file, *overrides;
};

enum paper_against {
    PAPER_AGAINST_NOTHING,
    PAPER_AGAINST_PAPER,
    PAPER_AGAINST_FIRST, /* the first column */
};

struct paper_table {
    const char *name, *kind, *title, *note;
    enum paper_against against;
    int is_short;
    struct paper_csv index, csv, methods;
    struct paper_row *rows;
    int n_rows;
    struct paper_method *columns;
    int n_columns;
    long long *seeds; /* [n_seeds]; NULL: the one that --seed says */
    int n_seeds;
    struct paper_cell *cells; /* [n_rows][n_columns][n_seeds] */
    int n_cells;
};

/* Finds the experiment; 0 when there is none of that name. Rows and columns are all left out. */
int paper_table_open(struct paper_table *table, const char *name);
void paper_table_close(struct paper_table *table);

/* Every cell once for each seed of the list, as in "1,5-8". Before anything is selected. Reports what is
 * wrong with it and returns the exit code. */
int paper_table_repeat(struct paper_table *table, const struct cli *cli, const char *seeds);

/* `seed` counts from 0. */
struct paper_cell *paper_cell_at(const struct paper_table *table, int row, int column, int seed);

/* Whether any cell of the row, of the column, was asked for. */
int paper_row_is_in(const struct paper_table *table, int row);
int paper_column_is_in(const struct paper_table *table, int column);

/* Marks the rows ("1,5-8") and columns ("choco-int8,…") that are wanted; NULL: all. Reports what is
 * not there and returns the exit code. */
int paper_table_select(struct paper_table *table, const struct cli *cli, const char *rows,
                       const char *columns);

/* Instead of a seed: the mean over those that are done. */
#define PAPER_MEAN (-1)

int paper_n_done(const struct paper_table *table, int row, int column); /* seeds */

/* What a cell came to, in per cent; NAN before. The published numbers are means over the nodes. A cell of
 * which any seed failed has no mean: what is left would be the better half. */
double paper_ours(const struct paper_table *table, int row, int column, int seed);

/* The standard deviation over seeds, of the sample; NAN below two. */
double paper_deviation(const struct paper_table *table, int row, int column);

/* Ours in one column less ours in another: the mean over seeds that both have. */
double paper_difference(const struct paper_table *table, int row, int column, int other);

/* How the place in the table stands: failed when any seed has, done when one is. */
enum paper_state paper_state_at(const struct paper_table *table, int row, int column);

/* Ours less what it is held against; NAN where either is not there. */
double paper_delta(const struct paper_table *table, int row, int column, int seed);

/* What seeds have in common: of one that is done, if any is. */
const struct paper_cell *paper_done_at(const struct paper_table *table, int row, int column);

/* What was sent while training, of plain floats after every step; NAN before it is done. */
double paper_sent(const struct paper_cell *cell);

/* The column that has the same method in fp32, for one in int8; -1: there is none. */
int paper_column_fp32(const struct paper_table *table, int column);

/* --- cells (paper_cells.c) -------------------------------------------------------------------- */

/* The options of a cell: what the command line says, the row and the column, the short form, the run
 * file; and of every cell that was asked for. */
oct_status paper_cell_configure(struct paper_table *table, int row, int column, int seed,
                                const struct cli *cli);
oct_status paper_cells_configure(struct paper_table *table, const struct cli *cli);

/* The options of a row alone, without a column: for figures. */
oct_status paper_row_config(const struct paper_table *table, int row, const struct cli *cli,
                            struct oct_config **out);

/* Finds cells that are on record, done with the same options, and checkpoints of half-done ones; what
 * another process has done meanwhile, too. */
oct_status paper_cells_recall(struct paper_table *table, const struct cli *cli, int again);

/* Cells that wait and whose options cannot go together have failed, before hours are spent on others. */
void paper_cells_check(struct paper_table *table);

/* One process at a time works at a cell: 0 when another does. What is on record, and whether a checkpoint
 * waits, is looked at once the cell is taken; before, another may still change it. */
int paper_cell_take(struct paper_cell *cell);
void paper_cell_leave(struct paper_cell *cell);

/* The most cells that run side by side. */
#define PAPER_AT_ONCE 256

/* Cells that run side by side, and what each has last told. */
struct paper_group {
    struct paper_running {
        struct paper_screen *screen;
        struct paper_cell *cell;
        struct oct_progress last; /* n_steps 0: nothing yet */
    } running[PAPER_AT_ONCE];
    int n;
};

/* Runs cells that were taken; paper_screen_show hears of their progress. Returns CLI_DONE also
 * when some failed or were stopped, which their states say; another exit code when nothing more
 * can be run. `*apart` is OK, or why several do not go side by side (oct_last_error): then all
 * wait again. */
int paper_cells_run(struct paper_group *group, const struct cli *cli, const struct cli_data *data,
                    oct_status *apart);

/* Whether that option of the command was given, rather than left to its default (cmd_paper.c). */
int paper_is_given(const struct cli *cli, const char *name);

/* --- time (paper_time.c) ---------------------------------------------------------------------- */

/* Seconds of a cell on the machine that rates.csv was measured on. */
double paper_expected(const struct oct_config *config);

/* How fast this machine is, as a multiple of that one: measured in half a second. */
double paper_speed(void);

/* --- text (paper_text.c) ---------------------------------------------------------------------- */

struct paper_lines {
    char **lines;
    int *rows; /* which row of the table a line is; -1: a heading */
    int n, capacity;
};

void paper_lines_fini(struct paper_lines *lines);

/* The table in lines of at most `width` columns, in the styles of `stream`. */
void paper_lines_table(struct paper_lines *lines, const struct paper_table *table, FILE *stream,
                       int width);

/* What 8 bits cost, ours and the paper's, line by line; nothing where no row has both. */
void paper_lines_cost(struct paper_lines *lines, const struct paper_table *table, FILE *stream,
                      int width);

/* "Table 2: …, --scale short" */
void paper_title(const struct paper_table *table, char *out, size_t bytes);

/* All of it on stdout. */
void paper_print(const struct paper_table *table);

/* --- the screen (paper_screen.c) -------------------------------------------------------------- */

struct paper_screen {
    struct paper_table *table;
    const struct paper_group *group;      /* the cells that run */
    int n_cells, n_ended;                 /* of those that are run now */
    double begun, said;                   /* times */
    double expected_ended, expected_left; /* without those that run, as in rates.csv */
    double taken;                         /* seconds that the ended ones took */
};

void paper_screen_begin(struct paper_screen *screen, struct paper_table *table);
void paper_screen_count(struct paper_screen *screen); /* those that wait, again */
void paper_screen_group(struct paper_screen *screen, struct paper_group *group); /* they begin */
void paper_screen_ended(struct paper_screen *screen);
void paper_screen_busy(const struct paper_cell *cell); /* it is left to another process */

/* For paper_cells_run: the context is a struct paper_running. */
int paper_screen_show(const struct oct_progress *progress, void *context);

/* --- files and objects (paper_export.c) ------------------------------------------------------- */

int paper_print_json(const struct paper_table *table, const struct cli *cli);
int paper_write_csv(const struct paper_table *table, const struct cli *cli, const char *path);
int paper_write_md(const struct paper_table *table, const struct cli *cli, const char *path);

/* --- figures (paper_figures.c) ---------------------------------------------------------------- */

/* Curves of a table whose cells have been run, as a drawing. */
int paper_draw_curves(const struct paper_table *table, const struct cli *cli, const char *path);
void paper_print_curves(const struct paper_table *table);

int paper_figure_classes(struct paper_table *table, struct cli *cli);
int paper_figure_graphs(struct paper_table *table, struct cli *cli);
int paper_figure_cost(struct paper_table *table, struct cli *cli);

#endif
