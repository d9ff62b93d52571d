/* SPDX-License-Identifier: Apache-2.0 */
/* paper_table.c - the papers' tables as data: which rows, which columns, which numbers.
 *
 *     index.csv     the experiments: name, kind, title, what it is held against, a note
 *     methods.csv   what a column means: its heading, and the options that it sets
 *     NAME.csv      a table: row, block, title, file, short, overrides, then a column a method
 *
 * `file` is a run file with all options that the rows of a block share, `short` another that is put
 * over it with --scale short, `overrides` what is the row's own ("skew=0.8;compress=topk:0.99").
 */
#include "paper.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- CSV -------------------------------------------------------------------------------------- */

static const struct paper_file *find_file(const char *name) {
    for (const struct paper_file *file = paper_files; file->name; file++) {
        if (strcmp(file->name, name) == 0) {
            return file;
        }
    }
    return NULL;
}

/* Cuts the cell at `*at` off, in place: quotes go, what follows it is behind `*at`. `*ends` says
 * whether it was the last of its line. */
static char *cut_cell(char **at, int *ends) {
    char *from = *at, *to = from, *cell = from;
    int is_quoted = 0;
    for (; *from && (is_quoted || (*from != ',' && *from != '\n')); from++) {
        if (*from == '"') {
            is_quoted = !is_quoted;
        } else {
            *to++ = *from;
        }
    }
    *ends = *from != ',';
    *at = from + (*from != '\0');
    *to = '\0';
    return cell;
}

void paper_csv_open(struct paper_csv *csv, const char *name) {
    const struct paper_file *file = find_file(name);
    memset(csv, 0, sizeof *csv);
    if (!file) {
        return;
    }
    csv->text = cli_alloc(file->n_bytes + 1);
    memcpy(csv->text, file->text, file->n_bytes);
    csv->text[file->n_bytes] = '\0';
    size_t n_cells = 1;
    for (const char *c = csv->text; *c; c++) {
        n_cells += *c == ',' || *c == '\n';
    }
    csv->heads = cli_alloc(n_cells * sizeof *csv->heads);
    size_t n = 0;
    for (char *at = csv->text; *at;) {
        int ends = 0;
        csv->heads[n++] = cut_cell(&at, &ends);
        if (ends && csv->n_columns == 0) {
            csv->n_columns = (int)n;
        }
    }
    csv->cells = csv->heads + csv->n_columns;
    csv->n_rows = csv->n_columns ? (int)n / csv->n_columns - 1 : 0;
}

void paper_csv_close(struct paper_csv *csv) {
    free(csv->heads);
    free(csv->text);
    memset(csv, 0, sizeof *csv);
}

const char *paper_csv_at(const struct paper_csv *csv, int row, const char *head) {
    for (int c = 0; row < csv->n_rows && c < csv->n_columns; c++) {
        if (strcmp(csv->heads[c], head) == 0) {
            return csv->cells[row * csv->n_columns + c];
        }
    }
    return "";
}

/* --- a table ---------------------------------------------------------------------------------- */

/* Columns before those of the methods. */
enum { FIXED = 6 };

static void read_columns(struct paper_table *table) {
    table->n_columns = table->csv.n_columns > FIXED ? table->csv.n_columns - FIXED : 0;
    table->columns = cli_alloc((size_t)(table->n_columns + 1) * sizeof *table->columns);
    for (int c = 0; c < table->n_columns; c++) {
        struct paper_method *method = &table->columns[c];
        method->name = table->csv.heads[FIXED + c];
        method->head = method->overrides = "";
        for (int i = 0; i < table->methods.n_rows; i++) {
            if (strcmp(paper_csv_at(&table->methods, i, "method"), method->name) == 0) {
                method->head = paper_csv_at(&table->methods, i, "head");
                method->overrides = paper_csv_at(&table->methods, i, "overrides");
            }
        }
    }
}

static void make_cells(struct paper_table *table, int n_seeds) {
    table->n_seeds = n_seeds;
    table->n_cells = table->n_rows * table->n_columns * n_seeds;
    const size_t bytes = (size_t)(table->n_cells + 1) * sizeof *table->cells;
    table->cells = cli_alloc(bytes);
    memset(table->cells, 0, bytes);
    for (int i = 0; i < table->n_cells; i++) {
        const int place = i / n_seeds;
        const char *number = paper_csv_at(&table->csv, place / table->n_columns,
                                          table->columns[place % table->n_columns].name);
        table->cells[i].paper = *number ? strtod(number, NULL) : NAN;
    }
}

static void read_rows(struct paper_table *table) {
    table->n_rows = table->csv.n_rows;
    table->rows = cli_alloc((size_t)(table->n_rows + 1) * sizeof *table->rows);
    for (int r = 0; r < table->n_rows; r++) {
        table->rows[r] = (struct paper_row){
            .number = (int)strtol(paper_csv_at(&table->csv, r, "row"), NULL, 10),
            .block = paper_csv_at(&table->csv, r, "block"),
            .title = paper_csv_at(&table->csv, r, "title"),
            .file = paper_csv_at(&table->csv, r, "file"),
            .short_file = paper_csv_at(&table->csv, r, "short"),
            .overrides = paper_csv_at(&table->csv, r, "overrides"),
        };
    }
    make_cells(table, 1);
}

int paper_table_open(struct paper_table *table, const char *name) {
    memset(table, 0, sizeof *table);
    paper_csv_open(&table->index, "index.csv");
    int i = 0;
    while (i < table->index.n_rows && strcmp(paper_csv_at(&table->index, i, "name"), name) != 0) {
        i++;
    }
    if (i == table->index.n_rows) {
        paper_table_close(table);
        return 0;
    }
    const char *against = paper_csv_at(&table->index, i, "against");
    char file[64];
    table->name = paper_csv_at(&table->index, i, "name");
    table->kind = paper_csv_at(&table->index, i, "kind");
    table->title = paper_csv_at(&table->index, i, "title");
    table->note = paper_csv_at(&table->index, i, "note");
    table->against = strcmp(against, "paper") == 0 ? PAPER_AGAINST_PAPER
                     : *against                    ? PAPER_AGAINST_FIRST
                                                   : PAPER_AGAINST_NOTHING;
    snprintf(file, sizeof file, "%.50s.csv", table->name);
    paper_csv_open(&table->csv, file);
    paper_csv_open(&table->methods, "methods.csv");
    read_columns(table);
    read_rows(table);
    return 1;
}

void paper_table_close(struct paper_table *table) {
    for (int i = 0; i < table->n_cells; i++) {
        oct_config_destroy(table->cells[i].config);
        free(table->cells[i].errors);
    }
    free(table->cells);
    free(table->seeds);
    free(table->rows);
    free(table->columns);
    paper_csv_close(&table->csv);
    paper_csv_close(&table->methods);
    paper_csv_close(&table->index);
    memset(table, 0, sizeof *table);
}

struct paper_cell *paper_cell_at(const struct paper_table *table, int row, int column, int seed) {
    return &table->cells[(row * table->n_columns + column) * table->n_seeds + seed];
}

int paper_row_is_in(const struct paper_table *table, int row) {
    for (int c = 0; c < table->n_columns; c++) {
        if (paper_cell_at(table, row, c, 0)->state != PAPER_LEFT_OUT) {
            return 1;
        }
    }
    return 0;
}

int paper_column_is_in(const struct paper_table *table, int column) {
    for (int r = 0; r < table->n_rows; r++) {
        if (paper_cell_at(table, r, column, 0)->state != PAPER_LEFT_OUT) {
            return 1;
        }
    }
    return 0;
}

/* --- what is asked for ------------------------------------------------------------------------ */

/* Takes "5-8" or "1" off the list at `*text`; 0 when neither stands there. */
static int cut_range(const char **text, long long *from, long long *to) {
    const char *at = *text;
    char *end;
    errno = 0;
    *to = *from = strtoll(at, &end, 10);
    if (end != at && *end == '-') {
        at = end + 1;
        *to = strtoll(at, &end, 10);
    }
    if (end == at || (*end && *end != ',') || (*end == ',' && !end[1]) || *to < *from || errno) {
        return 0;
    }
    *text = end + (*end == ',');
    return 1;
}

/* Marks the rows of "1,5-8" in `wanted`. */
static int select_rows(const struct paper_table *table, const struct cli *cli, const char *text,
                       char *wanted) {
    const int last = table->n_rows;
    for (const char *at = text; *at;) {
        long long from, to;
        if (!cut_range(&at, &from, &to)) {
            return cli_usage(cli, "--rows is '%.60s', expected numbers as in 1,5-8", text);
        }
        if (from < 1 || to > last) {
            return cli_usage(cli, "--rows: %s has no row %lld; it has 1 to %d", table->name,
                             from < 1 ? from : to, last);
        }
        memset(wanted + from - 1, 1, (size_t)(to - from + 1));
    }
    return CLI_DONE;
}

int paper_table_repeat(struct paper_table *table, const struct cli *cli, const char *seeds) {
    enum { MOST = 100 };
    table->seeds = cli_alloc(MOST * sizeof *table->seeds);
    int n = 0;
    for (const char *at = seeds; *at || n == 0;) {
        long long from, to;
        if (!cut_range(&at, &from, &to) || from < 0) {
            return cli_usage(cli, "--seeds is '%.60s', expected numbers as in 1-3 or 1,5", seeds);
        }
        if (to - from >= MOST - n) {
            return cli_usage(cli, "--seeds is '%.60s': that is more than %d", seeds, MOST);
        }
        /* what is too large for a seed, its option says */
        for (long long k = 0; k <= to - from; k++) {
            int is_new = 1;
            for (int i = 0; i < n; i++) {
                is_new = is_new && table->seeds[i] != from + k;
            }
            if (is_new) {
                table->seeds[n++] = from + k;
            }
        }
    }
    free(table->cells); /* nothing hangs on them yet */
    make_cells(table, n);
    return CLI_DONE;
}

static void list_columns(const struct paper_table *table, char *out, size_t bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (int c = 0; c < table->n_columns && used < bytes; c++) {
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", c ? ", " : "",
                                 table->columns[c].name);
    }
}

static int select_columns(const struct paper_table *table, const struct cli *cli, const char *text,
                          char *wanted) {
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, ",");
        int found = 0;
        for (int c = 0; c < table->n_columns; c++) {
            const char *name = table->columns[c].name;
            if (strlen(name) == length && memcmp(name, at, length) == 0) {
                wanted[c] = 1;
                found = 1;
            }
        }
        if (!found) {
            char names[256];
            list_columns(table, names, sizeof names);
            return cli_usage(cli, "--columns: %s has no column '%.*s'; it has: %s", table->name,
                             length < 40 ? (int)length : 40, at, names);
        }
        at += length + (at[length] == ',');
    }
    return CLI_DONE;
}

int paper_table_select(struct paper_table *table, const struct cli *cli, const char *rows,
                       const char *columns) {
    char *in_rows = cli_alloc((size_t)table->n_rows + 1);
    char *in_columns = cli_alloc((size_t)table->n_columns + 1);
    memset(in_rows, !rows, (size_t)table->n_rows + 1);
    memset(in_columns, !columns, (size_t)table->n_columns + 1);
    int code = rows ? select_rows(table, cli, rows, in_rows) : CLI_DONE;
    if (code == CLI_DONE && columns) {
        code = select_columns(table, cli, columns, in_columns);
    }
    for (int r = 0; code == CLI_DONE && r < table->n_rows; r++) {
        for (int i = 0; i < table->n_columns * table->n_seeds; i++) {
            paper_cell_at(table, r, 0, i)->state =
                in_rows[r] && in_columns[i / table->n_seeds] ? PAPER_WAITING : PAPER_LEFT_OUT;
        }
    }
    free(in_rows);
    free(in_columns);
    return code;
}

/* --- numbers ---------------------------------------------------------------------------------- */

enum paper_state paper_state_at(const struct paper_table *table, int row, int column) {
    static const enum paper_state order[] = {PAPER_FAILED, PAPER_DONE, PAPER_STOPPED, PAPER_RUNNING,
                                             PAPER_BUSY};
    for (size_t i = 0; i < CLI_COUNT_OF(order); i++) {
        for (int s = 0; s < table->n_seeds; s++) {
            if (paper_cell_at(table, row, column, s)->state == order[i]) {
                return order[i];
            }
        }
    }
    return paper_cell_at(table, row, column, 0)->state;
}

int paper_n_done(const struct paper_table *table, int row, int column) {
    int n = 0;
    for (int s = 0; s < table->n_seeds; s++) {
        n += paper_cell_at(table, row, column, s)->state == PAPER_DONE;
    }
    return n;
}

static double mean_of(const struct paper_table *table, int row, int column) {
    double sum = 0;
    for (int s = 0; s < table->n_seeds; s++) {
        const struct paper_cell *cell = paper_cell_at(table, row, column, s);
        sum += cell->state == PAPER_DONE ? cell->result.accuracy_nodes : 0;
    }
    return paper_state_at(table, row, column) == PAPER_DONE ? sum / paper_n_done(table, row, column)
                                                            : NAN;
}

double paper_ours(const struct paper_table *table, int row, int column, int seed) {
    if (seed == PAPER_MEAN) {
        return mean_of(table, row, column);
    }
    const struct paper_cell *cell = paper_cell_at(table, row, column, seed);
    return cell->state == PAPER_DONE ? cell->result.accuracy_nodes : NAN;
}

double paper_deviation(const struct paper_table *table, int row, int column) {
    const double mean = mean_of(table, row, column);
    double sum = 0;
    int n = 0;
    for (int s = 0; s < table->n_seeds; s++) {
        const double ours = paper_ours(table, row, column, s);
        if (isfinite(ours)) {
            sum += (ours - mean) * (ours - mean);
            n++;
        }
    }
    return n > 1 ? sqrt(sum / (n - 1)) : NAN;
}

double paper_difference(const struct paper_table *table, int row, int column, int other) {
    double sum = 0;
    int n = 0;
    for (int s = 0; s < table->n_seeds; s++) {
        const double seeds = paper_ours(table, row, column, s) - paper_ours(table, row, other, s);
        if (isfinite(seeds)) {
            sum += seeds;
            n++;
        }
    }
    return n > 0 && paper_state_at(table, row, column) == PAPER_DONE &&
                   paper_state_at(table, row, other) == PAPER_DONE
               ? sum / n
               : NAN;
}

double paper_delta(const struct paper_table *table, int row, int column, int seed) {
    const double ours = paper_ours(table, row, column, seed);
    if (table->against == PAPER_AGAINST_PAPER) {
        return ours - paper_cell_at(table, row, column, 0)->paper;
    }
    if (table->against == PAPER_AGAINST_NOTHING || column == 0) {
        return NAN;
    }
    return seed == PAPER_MEAN ? paper_difference(table, row, column, 0)
                              : ours - paper_ours(table, row, 0, seed);
}

const struct paper_cell *paper_done_at(const struct paper_table *table, int row, int column) {
    int s = 0;
    while (s < table->n_seeds - 1 && paper_cell_at(table, row, column, s)->state != PAPER_DONE) {
        s++;
    }
    return paper_cell_at(table, row, column, s);
}

double paper_sent(const struct paper_cell *cell) {
    const struct paper_result *result = &cell->result;
    return cell->state == PAPER_DONE
               ? cli_of_dense(result->bytes_sent, result->bytes_final, result->bytes_dense,
                              oct_config_get(cell->config, "gossip-every"))
               : (double)NAN;
}

int paper_column_fp32(const struct paper_table *table, int column) {
    const char *name = table->columns[column].name;
    const size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 4, "int8") != 0) {
        return -1;
    }
    for (int c = 0; c < table->n_columns; c++) {
        const char *other = table->columns[c].name;
        if (strlen(other) == length && memcmp(other, name, length - 4) == 0 &&
            strcmp(other + length - 4, "fp32") == 0) {
            return c;
        }
    }
    return -1;
}
