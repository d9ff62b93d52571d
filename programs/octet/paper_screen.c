/* SPDX-License-Identifier: Apache-2.0 */
/* paper_screen.c - the table while it fills up.
 *
 * On a terminal: as much of the table as fits, finished cells in place, and below it two lines about
 * the cell that runs and the table. In a pipe: a line when a cell begins, one now and then while it
 * runs, and one when it has ended.
 */
#include "paper.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* In a pipe, seconds from one line of a cell to the next. */
#define SAY_EVERY_S 30

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void paper_screen_begin(struct paper_screen *screen, struct paper_table *table) {
    memset(screen, 0, sizeof *screen);
    screen->table = table;
    paper_screen_count(screen);
}

void paper_screen_count(struct paper_screen *screen) {
    const struct paper_table *table = screen->table;
    screen->n_cells = screen->n_ended;
    screen->expected_left = 0;
    for (int i = 0; i < table->n_cells; i++) {
        if (table->cells[i].state == PAPER_WAITING) {
            screen->n_cells++;
            screen->expected_left += table->cells[i].expected_s;
        }
    }
}

/* --- the two lines ---------------------------------------------------------------------------- */

/* How far the cell is: all epochs, then the final rounds and the tests. */
static double share_of(const struct oct_progress *p) {
    if (!p || p->n_steps <= 0) {
        return 0;
    }
    const double share = (double)p->step / (double)p->n_steps;
    return share < 1 ? share : 1;
}

/* Seconds until the whole table is done: this cell's, and for the others what is expected of them,
 * corrected by how those until now have kept to it. */
static double table_left(const struct paper_screen *screen, const struct oct_progress *p) {
    const double here = p->seconds + p->seconds_left;
    double scale = NAN;
    if (screen->expected_ended > 0) {
        scale = screen->taken / screen->expected_ended;
    } else if (screen->cell->expected_s > 0 && isfinite(here) && p->step > 0) {
        scale = here / screen->cell->expected_s;
    }
    return screen->expected_left > 0 ? p->seconds_left + screen->expected_left * scale
                                     : p->seconds_left;
}

static void cell_line(const struct paper_screen *screen, const struct oct_progress *p, int width,
                      char *out, size_t bytes) {
    char head[128], loss[48], accuracy[48], consensus[48], left[48];
    const char *tail[] = {loss, accuracy, left, consensus};
    const struct paper_table *table = screen->table;
    char where[64], seed[32] = "";
    if (table->n_seeds > 1) {
        snprintf(seed, sizeof seed, " seed %lld", table->seeds[screen->seed]);
    }
    snprintf(where, sizeof where, "r%d %.24s%s", table->rows[screen->row].number,
             table->columns[screen->column].name, seed);
    const int is_last = p && p->phase == OCT_PHASE_EPOCH_END && p->epoch == p->n_epochs;
    if (!p || is_last || cli_interrupted()) {
        snprintf(out, bytes, "%.*s: %s", width > 32 ? width - 32 : 1, where,
                 cli_interrupted() ? "stopping"
                 : is_last         ? "testing the nodes"
                                   : "setting up");
        return;
    }
    if (p->phase == OCT_PHASE_GOSSIP || p->phase == OCT_PHASE_EVALUATE) {
        snprintf(head, sizeof head, "%s  %s %lld/%lld", where,
                 p->phase == OCT_PHASE_GOSSIP ? "final round" : "test", (long long)p->epoch_step,
                 (long long)p->epoch_steps);
    } else {
        snprintf(head, sizeof head, "%s  epoch %d/%d", where, p->epoch, p->n_epochs);
    }
    snprintf(loss, sizeof loss, "loss %s", cli_decimals(p->loss, 3).text);
    snprintf(accuracy, sizeof accuracy, "acc %s %%", cli_decimals(p->accuracy, 1).text);
    snprintf(left, sizeof left, "%s left", cli_time(p->seconds_left).text);
    snprintf(consensus, sizeof consensus, "consensus %.0e", p->consensus_distance);
    /* How far the nodes are apart is known from the second epoch on, if the last one was tested. */
    const int is_known = p->epoch > 1 && isfinite(p->consensus_distance);
    cli_bar_line(out, bytes, width, head, share_of(p), tail,
                 cli_nodes(screen->cell->config) > 1 && is_known ? 4 : 3);
}

static void table_line(const struct paper_screen *screen, const struct oct_progress *p, int width,
                       char *out, size_t bytes) {
    char head[80], left[48], speed[48], sent[48];
    const char *tail[] = {left, speed, sent};
    snprintf(head, sizeof head, "%s  cell %d of %d", screen->table->name, screen->n_ended + 1,
             screen->n_cells);
    const double share =
        ((double)screen->n_ended + share_of(p)) / (screen->n_cells > 0 ? screen->n_cells : 1);
    snprintf(left, sizeof left, "%s left", p ? cli_time(table_left(screen, p)).text : "-:--");
    snprintf(speed, sizeof speed, "%s samples/s", p ? cli_count(p->samples_per_s).text : "-");
    snprintf(sent, sizeof sent, "%s sent", cli_bytes(p ? p->bytes_sent : 0).text);
    cli_bar_line(out, bytes, width, head, share, tail, 3);
}

/* --- on a terminal ---------------------------------------------------------------------------- */

enum { FRAME = 4 }; /* lines besides the table: its title, a blank one, the two */

/* Which lines of the body are shown when not all fit: those around the row that runs. */
static void choose_window(const struct paper_lines *body, int n_heads, int row, int room, int *from,
                          int *to) {
    int at = n_heads;
    for (int i = n_heads; i < body->n; i++) {
        at = body->rows[i] == row ? i : at;
    }
    *from = at - room / 2;
    *from = *from > n_heads ? *from : n_heads;
    *to = *from + room < body->n ? *from + room : body->n;
    *from = *to - room > n_heads ? *to - room : n_heads;
}

static void draw(const struct paper_screen *screen, const struct oct_progress *p) {
    const int width = cli_width(stderr, 80) - 1, height = cli_height(stderr, 24);
    struct paper_lines body = {NULL, NULL, 0, 0};
    char title[256], lines[2][2048];
    paper_title(screen->table, title, sizeof title);
    title[width > 0 && (size_t)width < sizeof title ? width : 80] = '\0';
    paper_lines_table(&body, screen->table, stderr, width, screen->cell, share_of(p));
    int n_heads = 0;
    while (n_heads < body.n && n_heads < 2 && body.rows[n_heads] < 0) {
        n_heads++;
    }
    const char *shown[512];
    const int most = height - 1 < 500 ? height - 1 : 500; /* the last line stays free */
    int n = 0, from = n_heads, to = body.n;
    if (body.n + FRAME > most) {
        choose_window(&body, n_heads, screen->row, most - FRAME - n_heads - 1, &from, &to);
    }
    shown[n++] = title;
    for (int i = 0; i < n_heads; i++) {
        shown[n++] = body.lines[i];
    }
    for (int i = from; i < to; i++) {
        shown[n++] = body.lines[i];
    }
    char more[64] = "";
    if (to - from < body.n - n_heads) {
        snprintf(more, sizeof more, "  %d more lines", body.n - n_heads - (to - from));
        shown[n++] = more;
    }
    shown[n++] = "";
    cell_line(screen, p, width - 2, lines[0], sizeof lines[0]); /* room for an echoed "^C" */
    table_line(screen, p, width - 2, lines[1], sizeof lines[1]);
    shown[n++] = lines[0];
    shown[n++] = lines[1];
    if (most < FRAME + 3 || width < 20) { /* no room for a table */
        cli_progress_lines(&shown[n - 2], 1);
    } else {
        cli_progress_lines(shown, n);
    }
    paper_lines_fini(&body);
}

/* --- cell by cell ----------------------------------------------------------------------------- */

void paper_screen_cell(struct paper_screen *screen, int row, int column, int seed) {
    screen->row = row;
    screen->column = column;
    screen->seed = seed;
    screen->cell = paper_cell_at(screen->table, row, column, seed);
    screen->begun = screen->said = now();
    screen->expected_left -= screen->cell->expected_s;
    if (cli_progress_is_live()) {
        draw(screen, NULL);
    } else {
        cli_progress_say("%s: cell %d of %d%s", screen->cell->label, screen->n_ended + 1,
                         screen->n_cells, screen->cell->is_begun ? ", goes on" : "");
    }
}

/* The accuracy of the last epoch up to this one that was tested; before the first, none. */
static struct cli_text newest_test(const struct paper_cell *cell, int epoch) {
    double error = NAN;
    for (int e = epoch < cell->n_errors ? epoch : cell->n_errors; e > 0 && isnan(error); e--) {
        error = cell->errors[e - 1];
    }
    return cli_percent(1 - error / 100, 2);
}

int paper_screen_show(const struct oct_progress *p, void *context) {
    struct paper_screen *screen = context;
    struct paper_cell *cell = screen->cell;
    const int is_end = p->phase == OCT_PHASE_EPOCH_END;
    if (is_end && p->epoch >= 1 && p->epoch <= cell->n_errors) {
        cell->errors[p->epoch - 1] = 100 - p->test_accuracy;
    }
    if (cli_progress_is_live()) {
        if (cli_progress_due() || cli_interrupted() || (is_end && p->epoch == p->n_epochs)) {
            draw(screen, p);
        }
    } else if (is_end && now() - screen->said > SAY_EVERY_S) {
        screen->said = now();
        cli_progress_say("%s: epoch %d/%d, loss %s, test accuracy %s, %s samples/s, %s left, %s "
                         "for the table",
                         cell->label, p->epoch, p->n_epochs, cli_decimals(p->loss, 4).text,
                         newest_test(cell, p->epoch).text, cli_count(p->samples_per_s).text,
                         cli_time(p->seconds_left).text, cli_time(table_left(screen, p)).text);
    }
    return 0;
}

void paper_screen_ended(struct paper_screen *screen) {
    const struct paper_cell *cell = screen->cell;
    const double seconds = now() - screen->begun;
    if (cell->state == PAPER_DONE && !cell->is_begun) {
        screen->expected_ended += cell->expected_s;
        screen->taken += seconds;
    }
    if (cell->state != PAPER_STOPPED) {
        screen->n_ended++;
    }
    if (cli_progress_is_live()) {
        return;
    }
    if (cell->state == PAPER_DONE) {
        char against[96] = "";
        const double delta = paper_delta(screen->table, screen->row, screen->column, screen->seed);
        if (isfinite(cell->paper)) {
            snprintf(against, sizeof against, ", paper %.2f, %+.2f%s", cell->paper, delta,
                     screen->table->is_short ? " (short)" : "");
        } else if (isfinite(delta)) {
            snprintf(against, sizeof against, ", %+.2f against %s", delta,
                     screen->table->columns[0].name);
        }
        cli_progress_say("%s: %.2f %%%s, %.0f s", cell->label, cell->result.accuracy_nodes, against,
                         seconds);
    } else if (cell->state == PAPER_FAILED) {
        cli_progress_say("%s: failed: %s", cell->label, cell->reason);
    } else if (cell->state == PAPER_STOPPED) {
        cli_progress_say("%s: stopped", cell->label);
    }
}

void paper_screen_busy(const struct paper_cell *cell) {
    if (!cli_progress_is_live()) { /* the table shows it */
        cli_progress_say("%s: another octet paper is at this cell", cell->label);
    }
}
