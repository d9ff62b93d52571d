/* SPDX-License-Identifier: Apache-2.0 */
/* paper_export.c - a table for other programs: JSON and CSV with an entry for every run, Markdown. */
#include "paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *state_name(enum paper_state state, int is_begun) {
    switch (state) {
    case PAPER_DONE:
        return "done";
    case PAPER_FAILED:
        return "failed";
    case PAPER_STOPPED:
        return "stopped";
    case PAPER_BUSY:
        return "busy";
    default:
        return is_begun ? "begun" : "waiting";
    }
}

static double result_of(const struct paper_cell *cell, double value) {
    return cell->state == PAPER_DONE ? value : NAN;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static struct cli_json *errors_json(const struct paper_cell *cell) {
    struct cli_json *list = cli_json_array();
    for (int e = 0; e < cell->n_errors; e++) {
        cli_json_add_real(list, cell->errors[e]);
    }
    return list;
}

/* Of the run; dry runs have one, too. */
static double seed_of(const struct paper_cell *cell) {
    return strtod(oct_config_get(cell->config, "seed"), NULL);
}

static struct cli_json *cell_json(const struct paper_table *table, int r, int c, int s) {
    const struct paper_row *row = &table->rows[r];
    const struct paper_cell *cell = paper_cell_at(table, r, c, s);
    const struct paper_result *result = &cell->result;
    struct cli_json *object = cli_json_object();
    cli_json_int(object, "row", row->number);
    cli_json_text(object, "block", row->block);
    cli_json_text(object, "title", row->title);
    cli_json_text(object, "method", table->columns[c].name);
    cli_json_int(object, "seed", (int64_t)seed_of(cell));
    cli_json_real(object, "paper", cell->paper);
    cli_json_real(object, "ours", paper_ours(table, r, c, s));
    cli_json_real(object, "delta", paper_delta(table, r, c, s));
    cli_json_real(object, "mean", paper_ours(table, r, c, PAPER_MEAN));
    cli_json_real(object, "deviation", paper_deviation(table, r, c));
    cli_json_text(object, "state", state_name(cell->state, cell->is_begun));
    cli_json_text(object, "reason", cell->state == PAPER_FAILED ? cell->reason : NULL);
    cli_json_real(object, "accuracy", result_of(cell, result->accuracy));
    cli_json_real(object, "accuracy_nodes", result_of(cell, result->accuracy_nodes));
    cli_json_real(object, "loss", result_of(cell, result->loss));
    cli_json_real(object, "consensus_distance", result_of(cell, result->consensus_distance));
    cli_json_int(object, "bytes_sent", (int64_t)result->bytes_sent);
    cli_json_int(object, "bytes_final", (int64_t)result->bytes_final);
    cli_json_int(object, "bytes_dense", (int64_t)result->bytes_dense);
    cli_json_real(object, "sent_of_dense", paper_sent(cell));
    cli_json_real(object, "samples_per_s", result_of(cell, result->samples_per_s));
    cli_json_real(object, "seconds", result_of(cell, result->seconds));
    cli_json_int(object, "epochs", result->epochs);
    cli_json_text(object, "label", cell->label);
    if (cell->run > 0) {
        cli_json_int(object, "run", cell->run);
    } else {
        cli_json_text(object, "run", NULL);
    }
    cli_json_flag(object, "taken_over", cell->is_taken);
    cli_json_text(object, "file", row->file);
    cli_json_text(object, "short_file", table->is_short ? row->short_file : NULL);
    cli_json_put(object, "errors", errors_json(cell));
    cli_json_put(object, "settings", cli_json_config(cell->config));
    return object;
}

int paper_print_json(const struct paper_table *table, const struct cli *cli) {
    struct cli_json *root = cli_json_object(), *rows = cli_json_array();
    struct cli_database database;
    int n_left = 0, n_failed = 0;
    for (int i = 0; i < table->n_cells; i++) {
        const struct paper_cell *cell = &table->cells[i];
        const int place = i / table->n_seeds;
        if (cell->state == PAPER_LEFT_OUT) {
            continue;
        }
        cli_json_add(rows, cell_json(table, place / table->n_columns, place % table->n_columns,
                                     i % table->n_seeds));
        n_failed += cell->state == PAPER_FAILED;
        n_left += cell->state == PAPER_WAITING || cell->state == PAPER_STOPPED ||
                  cell->state == PAPER_BUSY;
    }
    cli_json_text(root, "name", table->name);
    cli_json_text(root, "title", table->title);
    cli_json_text(root, "note", *table->note ? table->note : NULL);
    cli_json_text(root, "scale", table->is_short ? "short" : "full");
    cli_json_flag(root, "comparable", !table->is_short);
    cli_json_text(root, "against",
                  table->against == PAPER_AGAINST_PAPER   ? "paper"
                  : table->against == PAPER_AGAINST_FIRST ? table->columns[0].name
                                                          : NULL);
    cli_json_text(root, "db", cli_database(cli->config, &database) ? database.path : NULL);
    cli_json_int(root, "failed", n_failed);
    cli_json_int(root, "left", n_left);
    cli_json_put(root, "rows", rows);
    return cli_json_print(root);
}

/* --- CSV -------------------------------------------------------------------------------------- */

/* ",90.31"; nothing behind the comma when it is not known. */
static void put_number(FILE *out, const char *format, double value) {
    fputc(',', out);
    if (isfinite(value)) {
        char text[64];
        snprintf(text, sizeof text, format, value);
        fputs(text, out);
    }
}

static void put_csv_line(FILE *out, const struct paper_table *table, int r, int c, int s) {
    const struct paper_cell *cell = paper_cell_at(table, r, c, s);
    const struct paper_result *result = &cell->result;
    fprintf(out, "%s,%s,%d,", table->name, table->is_short ? "short" : "full",
            table->rows[r].number);
    cli_csv_text(out, table->rows[r].block);
    fputc(',', out);
    cli_csv_text(out, table->rows[r].title);
    fprintf(out, ",%s", table->columns[c].name);
    put_number(out, "%.2f", cell->paper);
    put_number(out, "%.4f", paper_ours(table, r, c, s));
    put_number(out, "%.4f", paper_delta(table, r, c, s));
    fprintf(out, ",%s", state_name(cell->state, cell->is_begun));
    put_number(out, "%.4f", result_of(cell, result->accuracy));
    put_number(out, "%.4f", result_of(cell, result->accuracy_nodes));
    put_number(out, "%.6f", result_of(cell, result->loss));
    put_number(out, "%.4e", result_of(cell, result->consensus_distance));
    put_number(out, "%.0f", result_of(cell, (double)result->bytes_sent));
    put_number(out, "%.0f", result_of(cell, (double)result->bytes_final));
    put_number(out, "%.0f", result_of(cell, (double)result->bytes_dense));
    put_number(out, "%.1f", result_of(cell, result->samples_per_s));
    put_number(out, "%.1f", result_of(cell, result->seconds));
    fprintf(out, ",%s", cell->label);
    put_number(out, "%.0f", cell->run > 0 ? (double)cell->run : NAN);
    put_number(out, "%.0f", seed_of(cell));
    fputc('\n', out);
}

int paper_write_csv(const struct paper_table *table, const struct cli *cli, const char *path) {
    struct cli_output output;
    const int code = cli_output_say(cli, path, cli_output_open(&output, path));
    FILE *out = output.file;
    if (code != CLI_DONE) {
        return code;
    }
    fputs("table,scale,row,block,title,method,paper,ours,delta,state,accuracy,accuracy_nodes,loss,"
          "consensus_distance,bytes_sent,bytes_final,bytes_dense,samples_per_s,seconds,label,run,"
          "seed\n",
          out);
    for (int i = 0; i < table->n_cells; i++) {
        const int place = i / table->n_seeds;
        if (table->cells[i].state != PAPER_LEFT_OUT) {
            put_csv_line(out, table, place / table->n_columns, place % table->n_columns,
                         i % table->n_seeds);
        }
    }
    return cli_output_say(cli, path, cli_output_close(&output, 1));
}

/* --- Markdown --------------------------------------------------------------------------------- */

static void put_md(FILE *out, double value, const char *format, const char *otherwise) {
    char text[64];
    snprintf(text, sizeof text, format, value);
    fprintf(out, " %s |", isfinite(value) ? text : otherwise);
}

static void put_md_heads(FILE *out, const struct paper_table *table) {
    fputs("| row | |", out);
    for (int c = 0; c < table->n_columns; c++) {
        if (!paper_column_is_in(table, c)) {
            continue;
        }
        const char *head = table->columns[c].head;
        fprintf(out, " %s |", head);
        if (table->against == PAPER_AGAINST_PAPER) {
            fprintf(out, " paper | %s |", table->is_short ? "(short)" : "diff");
        } else if (table->against == PAPER_AGAINST_FIRST) {
            fputs(" diff | sent |", out);
        }
    }
    fputs("\n| ---: | --- |", out);
    for (int c = 0; c < table->n_columns; c++) {
        if (paper_column_is_in(table, c)) {
            fputs(table->against == PAPER_AGAINST_NOTHING ? " ---: |" : " ---: | ---: | ---: |",
                  out);
        }
    }
    fputc('\n', out);
}

/* "87.91", "87.91 ± 0.21", "87.91 (1 of 3)", or how it stands */
static void put_md_ours(FILE *out, const struct paper_table *table, int r, int c) {
    const enum paper_state state = paper_state_at(table, r, c);
    const int n = paper_n_done(table, r, c);
    if (state == PAPER_LEFT_OUT) {
        fputs("  |", out);
    } else if (state != PAPER_DONE) {
        fprintf(out, " %s |", state_name(state, paper_cell_at(table, r, c, 0)->is_begun));
    } else if (n < table->n_seeds) {
        fprintf(out, " %.2f (%d of %d) |", paper_ours(table, r, c, PAPER_MEAN), n, table->n_seeds);
    } else if (n > 1) {
        fprintf(out, " %.2f ± %.2f |", paper_ours(table, r, c, PAPER_MEAN),
                paper_deviation(table, r, c));
    } else {
        fprintf(out, " %.2f |", paper_ours(table, r, c, PAPER_MEAN));
    }
}

static void put_md_row(FILE *out, const struct paper_table *table, int r) {
    fprintf(out, "| %d | %s |", table->rows[r].number, table->rows[r].title);
    for (int c = 0; c < table->n_columns; c++) {
        const struct paper_cell *cell = paper_done_at(table, r, c);
        if (!paper_column_is_in(table, c)) {
            continue;
        }
        put_md_ours(out, table, r, c);
        if (table->against == PAPER_AGAINST_PAPER) {
            put_md(out, cell->state == PAPER_LEFT_OUT ? NAN : cell->paper, "%.2f", "");
        }
        if (table->against != PAPER_AGAINST_NOTHING) {
            put_md(out, paper_delta(table, r, c, PAPER_MEAN), "%+.2f", "");
        }
        if (table->against == PAPER_AGAINST_FIRST) {
            put_md(out, 1 / paper_sent(cell), "1/%.3g", "");
        }
    }
    fputc('\n', out);
}

int paper_write_md(const struct paper_table *table, const struct cli *cli, const char *path) {
    struct cli_output output;
    const int code = cli_output_say(cli, path, cli_output_open(&output, path));
    FILE *out = output.file;
    if (code != CLI_DONE) {
        return code;
    }
    char title[256];
    const char *block = "";
    paper_title(table, title, sizeof title);
    fprintf(out, "# %s\n", title);
    for (int r = 0; r < table->n_rows; r++) {
        if (!paper_row_is_in(table, r)) {
            continue;
        }
        if (strcmp(block, table->rows[r].block) != 0) {
            block = table->rows[r].block;
            fprintf(out, "\n## %s\n\n", block);
            put_md_heads(out, table);
        }
        put_md_row(out, table, r);
    }
    if (table->is_short) {
        fputs("\nShort: fewer samples, epochs and final rounds, and another learning rate than the "
              "paper's. Differences from the paper are not comparable.\n",
              out);
    }
    if (*table->note) {
        fprintf(out, "\n%s\n", table->note);
    }
    return cli_output_say(cli, path, cli_output_close(&output, 1));
}
