/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - columns that line up, and numbers as people read them. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Columns a text takes: characters, not bytes. */
static int display_width(const char *text) {
    int width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

/* Bytes of the control character at `text`, which could move the cursor or end the line; 0: it is
 * none. Those beyond ASCII take two. */
int cli_control_bytes(const char *text) {
    const unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;
    return first < 0x20 || first == 0x7f                      ? 1
           : first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2
                                                              : 0;
}

/* Control characters are blanks. */
static char *copy_text(const char *text, size_t length) {
    char *copy = cli_alloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    for (char *c = copy; *c; c++) {
        memset(c, ' ', (size_t)cli_control_bytes(c));
    }
    return copy;
}

void cli_put(FILE *out, const char *text) {
    for (int n; *text; text += n > 1 ? n : 1) {
        n = cli_control_bytes(text);
        fputc(n ? ' ' : *text, out);
    }
}

static void add_cell(struct cli_table *table, char *cell) {
    size_t at = (size_t)table->n_rows * (size_t)table->n_columns + (size_t)table->next;
    if (at >= table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = cli_alloc(capacity * sizeof *cells);
        if (at > 0) {
            memcpy(cells, table->cells, at * sizeof *cells);
        }
        free(table->cells);
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[at] = cell;
    table->next++;
    if (table->next == table->n_columns) {
        table->next = 0;
        table->n_rows++;
    }
}

void cli_table_init(struct cli_table *table, const char *heads) {
    memset(table, 0, sizeof *table);
    table->n_columns = 1;
    for (const char *c = heads; *c; c++) {
        table->n_columns += *c == '|';
    }
    for (int i = 0; i < table->n_columns; i++) {
        table->align[i] = *heads && strchr(">~.", *heads) ? *heads++ : '<';
        size_t length = strcspn(heads, "|");
        add_cell(table, copy_text(heads, length));
        heads += length + (heads[length] == '|');
    }
}

void cli_table_cell(struct cli_table *table, const char *format, ...) {
    char cell[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cell, sizeof cell, format, arguments);
    va_end(arguments);
    add_cell(table, copy_text(cell, strlen(cell)));
}

static void pad(FILE *out, int n, const char *with) {
    for (int i = 0; i < n; i++) {
        fputs(with, out);
    }
}

/* A line of no more than so many columns. */
static void print_cut(FILE *out, const char *text, int width) {
    int cut = display_width(text) > width;
    for (int column = 0; *text; text++) {
        column += ((unsigned char)*text & 0xc0) != 0x80;
        if (cut && column > width - 3) {
            fputs("...", out);
            break;
        }
        fputc(*text, out);
    }
    fputc('\n', out);
}

void cli_table_print(const struct cli_table *table, FILE *out) {
    int width[CLI_TABLE_COLUMNS] = {0}, total = 0;
    int n = table->n_columns;
    int heading = 0;
    for (int c = 0; c < n; c++) {
        for (int r = 0; r < table->n_rows; r++) {
            int w = display_width(table->cells[r * n + c]);
            width[c] = w > width[c] ? w : width[c];
        }
        heading |= table->cells[c][0] != '\0';
        total += width[c] + (c ? 2 : 0);
    }
    int screen = cli_width(out, 0);
    int last_at = total - width[n - 1];
    int fits = screen > 0 && total > screen && last_at + 20 < screen;
    int wraps = fits && table->align[n - 1] == '~', cuts = fits && table->align[n - 1] == '.';
    for (int r = heading ? 0 : 1; r < table->n_rows; r++) {
        int gap = 0; /* blanks owed; paid only when something follows */
        fputs(r == 0 ? cli_style(out, CLI_BOLD) : "", out);
        for (int c = 0; c < n; c++) {
            const char *cell = table->cells[r * n + c];
            int room = width[c] - display_width(cell);
            gap += (c ? 2 : 0) + (table->align[c] == '>' ? room : 0);
            if (cell[0] != '\0') {
                pad(out, gap, " ");
                gap = 0;
            }
            if (c == n - 1 && wraps) {
                cli_wrap(out, cell, last_at, last_at, screen);
            } else if (c == n - 1 && cuts) {
                print_cut(out, cell, screen - last_at);
            } else {
                fputs(cell, out);
                fputs(c == n - 1 ? "\n" : "", out);
            }
            gap += table->align[c] == '>' ? 0 : room;
        }
        if (r == 0) {
            fputs(cli_style(out, CLI_PLAIN), out);
            int rule = screen > 0 ? screen : 120;
            pad(out, total < rule ? total : rule, cli_utf8() ? "─" : "-");
            fputc('\n', out);
        }
    }
}

void cli_table_fini(struct cli_table *table) {
    int n_cells = table->n_rows * table->n_columns + table->next;
    for (int i = 0; i < n_cells; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    memset(table, 0, sizeof *table);
}

int cli_wrap(FILE *out, const char *text, int at, int indent, int width) {
    int lines = 1, fresh = 1;
    while (*text) {
        size_t length = strcspn(text, " \n");
        char *word = copy_text(text, length);
        int columns = display_width(word);
        if (!fresh && at + 1 + columns > width) {
            fputc('\n', out);
            pad(out, indent, " ");
            at = indent;
            fresh = 1;
            lines++;
        }
        fprintf(out, "%s%s", fresh ? "" : " ", word);
        at += columns + !fresh;
        fresh = 0;
        free(word);
        text += length;
        if (*text == '\n') {
            fputc('\n', out);
            pad(out, text[1] && text[1] != '\n' ? indent : 0, " ");
            at = indent;
            fresh = 1;
            lines++;
        }
        text += *text != '\0';
    }
    fputc('\n', out);
    return lines;
}

void cli_quote(FILE *out, const char *text) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-./,:=+@%";
    if (*text && text[strspn(text, safe)] == '\0') {
        fputs(text, out);
        return;
    }
    int has_controls = 0;
    for (const char *c = text; *c; c++) {
        has_controls |= cli_control_bytes(c) > 0;
    }
    fputs(has_controls ? "$'" : "'", out);
    for (int n = 0; *text; text++) {
        n = n > 1 ? n - 1 : cli_control_bytes(text); /* bytes of this character that are left */
        if (n > 0) {
            fprintf(out, "\\%03o", (unsigned)(unsigned char)*text);
        } else if (has_controls && (*text == '\'' || *text == '\\')) {
            fprintf(out, "\\%c", *text);
        } else if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            fputc(*text, out);
        }
    }
    fputc('\'', out);
}

struct cli_text cli_count(double number) {
    struct cli_text out;
    if (!isfinite(number) || fabs(number) >= 1e15) {
        snprintf(out.text, sizeof out.text, "%s", isfinite(number) ? "huge" : "-");
        return out;
    }
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(number));
    int at = 0;
    if (number <= -0.5) {
        out.text[at++] = '-';
    }
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            out.text[at++] = ',';
        }
        out.text[at++] = digits[i];
    }
    out.text[at] = '\0';
    return out;
}

struct cli_text cli_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct cli_text out;
    double value = (double)bytes;
    int unit = 0;
    while (value >= 999.5 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value,
             units[unit]);
    return out;
}

struct cli_text cli_time(double seconds) {
    struct cli_text out;
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        snprintf(out.text, sizeof out.text, "-:--");
        return out;
    }
    long whole = (long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(out.text, sizeof out.text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                 whole % 60);
    } else {
        snprintf(out.text, sizeof out.text, "%ld:%02ld", whole / 60, whole % 60);
    }
    return out;
}

struct cli_text cli_decimals(double x, int digits) {
    struct cli_text out;
    if (!isfinite(x)) {
        snprintf(out.text, sizeof out.text, "-");
    } else if (fabs(x) >= 1e7) {
        snprintf(out.text, sizeof out.text, "%.3g", x);
    } else {
        snprintf(out.text, sizeof out.text, "%.*f", digits, x);
    }
    return out;
}

struct cli_text cli_percent(double share, int digits) {
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "%.28s %%", cli_decimals(100 * share, digits).text);
    return out;
}

struct cli_text cli_times(double ratio) {
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "%.28s%s", cli_decimals(ratio, 2).text,
             isfinite(ratio) ? " x" : "");
    return out;
}

struct cli_text cli_part(double ratio) {
    if (!(ratio > 0 && ratio < 1)) {
        return cli_times(ratio);
    }
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "1/%.28s", cli_decimals(1 / ratio, 2).text);
    return out;
}

static double steps_of(const char *every) {
    const double steps = strtod(every, NULL);
    return steps > 1.0 ? steps : 1.0;
}

double cli_of_dense(uint64_t sent, uint64_t final, uint64_t dense, const char *every) {
    return dense == 0 || sent <= final ? (double)NAN
                                       : (double)(sent - final) / ((double)dense * steps_of(every));
}

const char *cli_every_step(const char *every) {
    return steps_of(every) > 1.0 ? " after every step" : "";
}
