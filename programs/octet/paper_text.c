/* SPDX-License-Identifier: Apache-2.0 */
/* paper_text.c - a table of the paper beside ours, in as many columns as there is room for.
 *
 *     row                     DeepSq fp32           DeepSq int8
 *                             ours  paper   diff    ours  paper   diff
 *     ResNet-20, directed ring, 8 nodes
 *       1  dense, skew 0     90.31  90.56  -0.25   90.40  90.57  -0.17
 *
 * With less room the paper's numbers go, which ours and the difference imply; with less still the
 * differences. Of several seeds ours is the mean, and its standard deviation, "dev", stands beside it, or
 * how many of them are done.
 */
#include "paper.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- lines ------------------------------------------------------------------------------------ */

static void add_line(struct paper_lines *lines, int row, const char *text) {
    if (lines->n == lines->capacity) {
        const int capacity = lines->capacity ? 2 * lines->capacity : 64;
        char **texts = cli_alloc((size_t)capacity * sizeof *texts);
        int *rows = cli_alloc((size_t)capacity * sizeof *rows);
        if (lines->n > 0) {
            memcpy(texts, lines->lines, (size_t)lines->n * sizeof *texts);
            memcpy(rows, lines->rows, (size_t)lines->n * sizeof *rows);
        }
        free(lines->lines);
        free(lines->rows);
        lines->lines = texts;
        lines->rows = rows;
        lines->capacity = capacity;
    }
    size_t length = strlen(text);
    lines->lines[lines->n] = cli_alloc(length + 1);
    memcpy(lines->lines[lines->n], text, length + 1);
    lines->rows[lines->n++] = row;
}

void paper_lines_fini(struct paper_lines *lines) {
    for (int i = 0; i < lines->n; i++) {
        free(lines->lines[i]);
    }
    free(lines->lines);
    free(lines->rows);
    memset(lines, 0, sizeof *lines);
}

/* A line under construction; `columns` counts what is seen, without styles. */
struct line {
    char text[2048];
    size_t used;
    int columns;
};

static void put(struct line *line, int columns, const char *format, ...) OCT_PRINTF(3, 4);

/* `columns` is how many the text takes; 0 for a style. */
static void put(struct line *line, int columns, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (line->used < sizeof line->text) {
        line->used += (size_t)vsnprintf(line->text + line->used, sizeof line->text - line->used,
                                        format, arguments);
    }
    va_end(arguments);
    line->columns += columns;
}

/* A text in a field of so many columns: to the right, or to the left, cut where it is too long. */
static void put_field(struct line *line, int columns, int to_right, const char *text) {
    int width = 0; /* characters, not bytes */
    size_t bytes = 0;
    for (; text[bytes] && (width < columns || ((unsigned char)text[bytes] & 0xc0) == 0x80);
         bytes++) {
        width += ((unsigned char)text[bytes] & 0xc0) != 0x80;
    }
    put(line, 0, "%*s", to_right ? columns - width : 0, "");
    put(line, 0, "%.*s", (int)bytes, text);
    put(line, columns, "%*s", to_right ? 0 : columns - width, "");
}

static void end_line(struct line *line, struct paper_lines *lines, int row) {
    while (line->used > 0 && line->used < sizeof line->text && line->text[line->used - 1] == ' ') {
        line->text[--line->used] = '\0';
    }
    add_line(lines, row, line->text);
    memset(line, 0, sizeof *line);
}

/* --- what a column shows ---------------------------------------------------------------------- */

enum part { OURS, DEVIATION, PAPER, DELTA, SENT, N_PARTS };

static const int part_width[N_PARTS] = {
    [OURS] = 5, [DEVIATION] = 5, [PAPER] = 5, [DELTA] = 7, [SENT] = 6};

struct layout {
    int title; /* columns that the rows' titles take */
    int parts[N_PARTS], n_parts;
    int gap; /* between columns */
};

enum { NUMBER = 3 }; /* columns of a row's number */

static int column_width(const struct paper_table *table, const struct layout *layout, int column) {
    int width = layout->n_parts - 1;
    for (int i = 0; i < layout->n_parts; i++) {
        width += part_width[layout->parts[i]];
    }
    const int head = (int)strlen(table->columns[column].head);
    return width > head ? width : head;
}

static int total_width(const struct paper_table *table, const struct layout *layout) {
    int width = NUMBER + 1 + layout->title;
    for (int c = 0; c < table->n_columns; c++) {
        width += paper_column_is_in(table, c) ? layout->gap + column_width(table, layout, c) : 0;
    }
    return width;
}

static void choose_parts(const struct paper_table *table, int has_paper, struct layout *layout) {
    const int is_paper = table->against == PAPER_AGAINST_PAPER;
    const int is_first = table->against == PAPER_AGAINST_FIRST;
    const int is_in[N_PARTS] = {[OURS] = 1,
                                [DEVIATION] = table->n_seeds > 1,
                                [PAPER] = is_paper && has_paper,
                                [DELTA] = is_paper || is_first,
                                [SENT] = is_first};
    layout->n_parts = 0;
    for (int part = 0; part < N_PARTS; part++) {
        if (is_in[part]) {
            layout->parts[layout->n_parts++] = part;
        }
    }
}

static void lay_out(const struct paper_table *table, int width, struct layout *layout) {
    memset(layout, 0, sizeof *layout);
    choose_parts(table, 1, layout);
    layout->gap = 3;
    for (int r = 0; r < table->n_rows; r++) {
        const int length = (int)strlen(table->rows[r].title);
        layout->title = length > layout->title ? length : layout->title;
    }
    if (width <= 0 || total_width(table, layout) <= width) {
        return;
    }
    layout->gap = 2;
    choose_parts(table, 0, layout);
    while (layout->n_parts > 1 && total_width(table, layout) > width) {
        layout->n_parts--;
    }
}

/* --- a cell ----------------------------------------------------------------------------------- */

static struct cli_text signed_points(double x) {
    struct cli_text out = {""};
    if (isfinite(x)) {
        snprintf(out.text, sizeof out.text, "%+.2f", x);
    }
    return out;
}

static struct cli_text share_text(double share) {
    struct cli_text out = {""};
    if (share > 0 && share < 0.95) {
        snprintf(out.text, sizeof out.text, 1 / share >= 100 ? "1/%.0f" : "1/%.1f", 1 / share);
    } else if (isfinite(share)) {
        snprintf(out.text, sizeof out.text, "%.2f", share);
    }
    return out;
}

static int is_running(const struct paper_table *table, int row, int column) {
    const struct paper_cell *cell = paper_cell_at(table, row, column, 0);
    int n = 0;
    for (int s = 0; s < table->n_seeds; s++) {
        n += cell[s].state == PAPER_RUNNING;
    }
    return n > 0;
}

/* How much of all its seeds is done, while any of them runs. */
static struct cli_text progress_text(const struct paper_table *table, int row, int column) {
    const struct paper_cell *cell = paper_cell_at(table, row, column, 0);
    struct cli_text out = {""};
    double done = paper_n_done(table, row, column);
    for (int s = 0; s < table->n_seeds; s++) {
        done += cell[s].state == PAPER_RUNNING ? cell[s].share : 0;
    }
    snprintf(out.text, sizeof out.text, "%.0f %%", 100 * done / table->n_seeds);
    return out;
}

static struct cli_text ours_text(const struct paper_table *table, int row, int column) {
    struct cli_text out = {""};
    if (is_running(table, row, column)) {
        return progress_text(table, row, column);
    }
    switch (paper_state_at(table, row, column)) {
    case PAPER_DONE:
        return cli_decimals(paper_ours(table, row, column, PAPER_MEAN), 2);
    case PAPER_FAILED:
        snprintf(out.text, sizeof out.text, "fails");
        break;
    case PAPER_STOPPED:
        snprintf(out.text, sizeof out.text, "half");
        break;
    case PAPER_BUSY:
        snprintf(out.text, sizeof out.text, "busy");
        break;
    case PAPER_WAITING:
    case PAPER_RUNNING:
        snprintf(out.text, sizeof out.text, "%s", cli_utf8() ? "·" : ".");
        break;
    case PAPER_LEFT_OUT:
        break;
    }
    return out;
}

/* Or, of a mean over fewer seeds than there are, over how many. */
static struct cli_text deviation_text(const struct paper_table *table, int row, int column) {
    const int n = paper_n_done(table, row, column);
    struct cli_text out = {""};
    if (paper_state_at(table, row, column) == PAPER_DONE && n < table->n_seeds) {
        snprintf(out.text, sizeof out.text, "%d/%d", n, table->n_seeds);
    } else if (n > 1) {
        out = cli_decimals(paper_deviation(table, row, column), 2);
    }
    return out;
}

static struct cli_text part_text(const struct paper_table *table, int row, int column,
                                 enum part part) {
    const double paper = paper_cell_at(table, row, column, 0)->paper;
    switch (part) {
    case OURS:
        return ours_text(table, row, column);
    case DEVIATION:
        return deviation_text(table, row, column);
    case PAPER:
        return isfinite(paper) ? cli_decimals(paper, 2) : (struct cli_text){""};
    case DELTA:
        return signed_points(paper_delta(table, row, column, PAPER_MEAN));
    case SENT:
        return share_text(paper_sent(paper_done_at(table, row, column)));
    default:
        return (struct cli_text){""};
    }
}

static enum cli_style part_style(const struct paper_table *table, int row, int column,
                                 enum part part) {
    const enum paper_state state = paper_state_at(table, row, column);
    if (part != OURS) {
        return CLI_DIM;
    }
    if (is_running(table, row, column)) {
        return CLI_GREEN;
    }
    return state == PAPER_FAILED ? CLI_RED : state == PAPER_DONE ? CLI_BOLD : CLI_DIM;
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *part_name(const struct paper_table *table, enum part part) {
    static const char *const names[N_PARTS] = {
        [OURS] = "ours", [DEVIATION] = "dev", [PAPER] = "paper", [DELTA] = "diff", [SENT] = "sent"};
    /* A short run is another experiment than the paper's: that stands where it matters. */
    return part == DELTA && table->is_short && table->against == PAPER_AGAINST_PAPER ? "(short)"
                                                                                     : names[part];
}

static void add_heads(struct paper_lines *lines, const struct paper_table *table,
                      const struct layout *layout, FILE *stream) {
    struct line line;
    memset(&line, 0, sizeof line);
    for (int second = 0; second < 2; second++) {
        put(&line, 0, "%s", cli_style(stream, second ? CLI_DIM : CLI_BOLD));
        put_field(&line, NUMBER + 1 + layout->title, 0, second ? "" : "row");
        for (int c = 0; c < table->n_columns; c++) {
            if (!paper_column_is_in(table, c)) {
                continue;
            }
            const int width = column_width(table, layout, c);
            put(&line, layout->gap, "%*s", layout->gap, "");
            if (!second) {
                put_field(&line, width, layout->n_parts == 1, table->columns[c].head);
                continue;
            }
            int room = width;
            for (int i = 0; i < layout->n_parts; i++) {
                const int own = part_width[layout->parts[i]] + (i > 0);
                put_field(&line, own, 1, part_name(table, (enum part)layout->parts[i]));
                room -= own;
            }
            put_field(&line, room > 0 ? room : 0, 0, "");
        }
        put(&line, 0, "%s", cli_style(stream, CLI_PLAIN));
        if (second && layout->n_parts == 1) {
            break; /* "ours" alone says nothing */
        }
        end_line(&line, lines, -1);
    }
}

static void add_row(struct paper_lines *lines, const struct paper_table *table,
                    const struct layout *layout, FILE *stream, int row) {
    struct line line;
    char number[16];
    memset(&line, 0, sizeof line);
    snprintf(number, sizeof number, "%d", table->rows[row].number);
    put_field(&line, NUMBER, 1, number);
    put(&line, 1, " ");
    put_field(&line, layout->title, 0, table->rows[row].title);
    for (int c = 0; c < table->n_columns; c++) {
        if (!paper_column_is_in(table, c)) {
            continue;
        }
        int room = column_width(table, layout, c);
        put(&line, layout->gap, "%*s", layout->gap, "");
        if (layout->n_parts == 1) { /* numbers below the end of a heading */
            put(&line, 0, "%*s", room - part_width[OURS], "");
            room = part_width[OURS];
        }
        for (int i = 0; i < layout->n_parts; i++) {
            const enum part part = (enum part)layout->parts[i];
            const int own = part_width[part] + (i > 0);
            put(&line, 0, "%s", cli_style(stream, part_style(table, row, c, part)));
            put_field(&line, own, 1, part_text(table, row, c, part).text);
            put(&line, 0, "%s", cli_style(stream, CLI_PLAIN));
            room -= own;
        }
        put_field(&line, room > 0 ? room : 0, 0, "");
    }
    end_line(&line, lines, row);
}

void paper_lines_table(struct paper_lines *lines, const struct paper_table *table, FILE *stream,
                       int width) {
    struct layout layout;
    const char *block = "";
    lay_out(table, width, &layout);
    add_heads(lines, table, &layout, stream);
    for (int r = 0; r < table->n_rows; r++) {
        if (!paper_row_is_in(table, r)) {
            continue;
        }
        if (strcmp(block, table->rows[r].block) != 0) {
            struct line line;
            memset(&line, 0, sizeof line);
            block = table->rows[r].block;
            put_field(&line, width > 0 && width < 100 ? width - 1 : 100, 0, block);
            end_line(&line, lines, -1);
        }
        add_row(lines, table, &layout, stream, r);
    }
}

/* --- what 8 bits cost ------------------------------------------------------------------------- */

static double cost_of(const struct paper_table *table, int row, int column, int is_paper) {
    const int fp32 = paper_column_fp32(table, column);
    return is_paper ? paper_cell_at(table, row, column, 0)->paper -
                          paper_cell_at(table, row, fp32, 0)->paper
                    : paper_difference(table, row, column, fp32);
}

/* Nonzero when some row has both of ours in this column of int8. */
static int has_cost(const struct paper_table *table, int column) {
    for (int r = 0; paper_column_fp32(table, column) >= 0 && r < table->n_rows; r++) {
        if (isfinite(cost_of(table, r, column, 0))) {
            return 1;
        }
    }
    return 0;
}

enum { COST_COLUMN = 8 }; /* of a number, with what keeps it apart from the one before */

static void add_cost_heads(struct paper_lines *lines, const struct paper_table *table, int title,
                           FILE *stream) {
    struct line line;
    for (int second = 0; second < 2; second++) {
        memset(&line, 0, sizeof line);
        put(&line, 0, "%s", cli_style(stream, second ? CLI_DIM : CLI_BOLD));
        put_field(&line, NUMBER + 1 + title, 0, second ? "" : "int8 less fp32");
        for (int c = 0; c < table->n_columns; c++) {
            if (!has_cost(table, c)) {
                continue;
            }
            const char *head = table->columns[c].head;
            char method[64]; /* "CHOCO" of "CHOCO int8" */
            snprintf(method, sizeof method, "%.*s", (int)strcspn(head, " "), head);
            put_field(&line, second ? COST_COLUMN : 2 * COST_COLUMN, 1,
                      second                        ? "ours"
                      : strcmp(method, "int8") == 0 ? ""
                                                    : method);
            put_field(&line, second ? COST_COLUMN : 0, 1, second ? "paper" : "");
        }
        put(&line, 0, "%s", cli_style(stream, CLI_PLAIN));
        end_line(&line, lines, -1);
    }
}

void paper_lines_cost(struct paper_lines *lines, const struct paper_table *table, FILE *stream,
                      int width) {
    struct layout layout;
    struct line line;
    double sums[2] = {0, 0};
    int n = 0, n_sum = 0;
    for (int c = 0; c < table->n_columns; c++) {
        n += has_cost(table, c);
    }
    if (n == 0) {
        return;
    }
    lay_out(table, width, &layout);
    add_cost_heads(lines, table, layout.title, stream);
    for (int r = 0; r < table->n_rows; r++) {
        int is_there = 0;
        char number[16];
        memset(&line, 0, sizeof line);
        snprintf(number, sizeof number, "%d", table->rows[r].number);
        put_field(&line, NUMBER, 1, number);
        put(&line, 1, " ");
        put_field(&line, layout.title, 0, table->rows[r].title);
        for (int c = 0; c < table->n_columns; c++) {
            if (!has_cost(table, c)) {
                continue;
            }
            const double ours = cost_of(table, r, c, 0), paper = cost_of(table, r, c, 1);
            put_field(&line, COST_COLUMN, 1, signed_points(ours).text);
            put_field(&line, COST_COLUMN, 1, isfinite(ours) ? signed_points(paper).text : "");
            is_there |= isfinite(ours);
            if (isfinite(ours) && isfinite(paper)) {
                sums[0] += ours;
                sums[1] += paper;
                n_sum++;
            }
        }
        if (is_there) {
            end_line(&line, lines, r);
        }
    }
    if (n_sum > 1) {
        char text[96];
        snprintf(text, sizeof text, "mean of %d: ours %+.2f, the paper's %+.2f points", n_sum,
                 sums[0] / n_sum, sums[1] / n_sum);
        add_line(lines, -1, text);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

void paper_title(const struct paper_table *table, char *out, size_t bytes) {
    char seeds[48] = "";
    if (table->n_seeds > 1) {
        snprintf(seeds, sizeof seeds, ", mean of %d seeds", table->n_seeds);
    }
    snprintf(out, bytes, "%s: %s%s%s", table->name, table->title, seeds,
             table->is_short ? " (--scale short)" : "");
}

static void print_lines(struct paper_lines *lines) {
    for (int i = 0; i < lines->n; i++) {
        puts(lines->lines[i]);
    }
    paper_lines_fini(lines);
}

static void print_failures(const struct paper_table *table) {
    for (int i = 0; i < table->n_cells; i++) {
        const struct paper_cell *cell = &table->cells[i];
        if (cell->state == PAPER_FAILED) {
            char text[640];
            snprintf(text, sizeof text, "%s failed: %s", cell->label, cell->reason);
            cli_wrap(stdout, text, 0, 2, cli_width(stdout, 100));
        } else if (cell->state == PAPER_BUSY) {
            printf("%s: another octet paper is at this cell\n", cell->label);
        }
    }
}

void paper_print(const struct paper_table *table) {
    const int width = cli_width(stdout, 0), wrap = width > 0 ? width : 100;
    struct paper_lines lines = {NULL, NULL, 0, 0};
    char title[256];
    paper_title(table, title, sizeof title);
    printf("%s%s%s\n", cli_style(stdout, CLI_BOLD), title, cli_style(stdout, CLI_PLAIN));
    paper_lines_table(&lines, table, stdout, width);
    print_lines(&lines);
    print_failures(table);
    if (table->against == PAPER_AGAINST_PAPER) {
        paper_lines_cost(&lines, table, stdout, width);
        if (lines.n > 0) {
            putchar('\n');
        }
        print_lines(&lines);
    }
    putchar('\n');
    if (table->is_short) {
        cli_wrap(stdout,
                 table->against == PAPER_AGAINST_PAPER
                     ? "short: fewer samples, epochs and final rounds, and another learning rate "
                       "than the paper's: differences from the paper are not comparable; what 8 "
                       "bits cost is, in kind. 'octet help paper' says what is short."
                     : "short: fewer samples, epochs and final rounds, and another learning rate "
                       "than the paper's. 'octet help paper' says what is short.",
                 0, 0, wrap);
    }
    if (*table->note) {
        cli_wrap(stdout, table->note, 0, 0, wrap);
    }
}
