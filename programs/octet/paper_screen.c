/* SPDX-License-Identifier: Apache-2.0 */
/* paper_screen.c - the table while it fills up.
 *
 * On a terminal: as much of the table as fits, finished cells in place, and below it two lines
 * about the cells that run and the table. In a pipe: a line when a cell begins, one now and then
 * while it runs, and one when it has ended.
 *
 * Cells that run side by side are spoken of as one: losses and accuracies are means, samples/s and
 * bytes sums.
 *
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

/* --- what cells side by side come to together ------------------------------------------------- */

/* How far a cell is: all epochs, then the final rounds and the tests. */
static double share_of(const struct oct_progress *p) {
    if (p->n_steps <= 0) {
        return 0;
    }
    const double share = (double)p->step / (double)p->n_steps;
    return share < 1 ? share : 1;
}

static double mean_share(const struct paper_group *group) {
    double sum = 0;
    for (int i = 0; i < group->n; i++) {
        sum += group->running[i].cell->share;
    }
    return sum / group->n;
}

static double expected_of(const struct paper_group *group) {
    double sum = 0;
    for (int i = 0; i < group->n; i++) {
        sum += group->running[i].cell->expected_s;
    }
    return sum;
}

/* What one cell has just told, with those beside it. One that lags behind has failed, which is
 * said at the end, and counts no more. */
static struct oct_progress together(const struct paper_group *group, const struct oct_progress *p) {
    struct oct_progress sum = *p;
    int n = 0;
    sum.loss = sum.accuracy = sum.consensus_distance = sum.samples_per_s = 0;
    sum.bytes_sent = 0;
    for (int i = 0; i < group->n; i++) {
        const struct oct_progress *one = &group->running[i].last;
        if (one->n_steps <= 0 || one->step + 1 < p->step) {
            continue;
        }
        n++;
        sum.loss += one->loss;
        sum.accuracy += one->accuracy;
        sum.consensus_distance += one->consensus_distance;
        sum.samples_per_s += one->samples_per_s;
        sum.bytes_sent += one->bytes_sent;
        sum.seconds_left =
            one->seconds_left > sum.seconds_left ? one->seconds_left : sum.seconds_left;
    }
    sum.loss /= n; /* the one that has just told is among them */
    sum.accuracy /= n;
    sum.consensus_distance /= n;
    return sum;
}

/* "r1 choco-int8 and 7 more", where `first` is "r1 choco-int8" */
static void name_group(const struct paper_group *group, const char *first, char *out,
                       size_t bytes) {
    if (group->n > 1) {
        snprintf(out, bytes, "%s and %d more", first, group->n - 1);
    } else {
        snprintf(out, bytes, "%s", first);
    }
}

/* --- the two lines ---------------------------------------------------------------------------- */

/* Seconds until the whole table is done: those of the cells that run, and for the others what is
 * expected of them, corrected by how those until now have kept to it. */
static double table_left(const struct paper_screen *screen, const struct oct_progress *p) {
    const double here = p->seconds + p->seconds_left, expected = expected_of(screen->group);
    double scale = NAN;
    if (screen->expected_ended > 0) {
        scale = screen->taken / screen->expected_ended;
    } else if (expected > 0 && isfinite(here) && p->step > 0) {
        scale = here / expected;
    }
    return screen->expected_left > 0 ? p->seconds_left + screen->expected_left * scale
                                     : p->seconds_left;
}

/* Where in the table the cell is. */
struct place {
    int row, column, seed;
};

static struct place place_of(const struct paper_table *table, const struct paper_cell *cell) {
    const int index = (int)(cell - table->cells), at = index / table->n_seeds;
    return (struct place){at / table->n_columns, at % table->n_columns, index % table->n_seeds};
}

static void cell_line(const struct paper_screen *screen, const struct oct_progress *p, int width,
                      char *out, size_t bytes) {
    char head[160], loss[48], accuracy[48], consensus[48], left[48];
    const char *tail[] = {loss, accuracy, left, consensus};
    const struct paper_table *table = screen->table;
    const struct paper_cell *first = screen->group->running[0].cell;
    const struct place place = place_of(table, first);
    char one[80], where[112], seed[32] = "";
    if (table->n_seeds > 1) {
        snprintf(seed, sizeof seed, " seed %lld", table->seeds[place.seed]);
    }
    snprintf(one, sizeof one, "r%d %.24s%s", table->rows[place.row].number,
             table->columns[place.column].name, seed);
    name_group(screen->group, one, where, sizeof where);
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
    cli_bar_line(out, bytes, width, head, mean_share(screen->group), tail,
                 cli_nodes(first->config) > 1 && is_known ? 4 : 3);
}

static void table_line(const struct paper_screen *screen, const struct oct_progress *p, int width,
                       char *out, size_t bytes) {
    char head[80], last[32] = "", left[48], speed[48], sent[48];
    const char *tail[] = {left, speed, sent};
    const int n = screen->group->n;
    if (n > 1) {
        snprintf(last, sizeof last, " to %d", screen->n_ended + n);
    }
    snprintf(head, sizeof head, "%s  cell%s %d%s of %d", screen->table->name, n > 1 ? "s" : "",
             screen->n_ended + 1, last, screen->n_cells);
    const double share = (screen->n_ended + n * mean_share(screen->group)) /
                         (screen->n_cells > 0 ? screen->n_cells : 1);
    snprintf(left, sizeof left, "%s left", p ? cli_time(table_left(screen, p)).text : "-:--");
    snprintf(speed, sizeof speed, "%s samples/s", p ? cli_count(p->samples_per_s).text : "-");
    snprintf(sent, sizeof sent, "%s sent", cli_bytes(p ? p->bytes_sent : 0).text);
    cli_bar_line(out, bytes, width, head, share, tail, 3);
}

/* --- on a terminal ---------------------------------------------------------------------------- */

enum { FRAME = 4 }; /* lines besides the table: its title, a blank one, the two */

/* Which lines of the body are shown when not all fit: those around the first cell that runs.
 */
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
    paper_lines_table(&body, screen->table, stderr, width);
    int n_heads = 0;
    while (n_heads < body.n && n_heads < 2 && body.rows[n_heads] < 0) {
        n_heads++;
    }
    const char *shown[512];
    const int most = height - 1 < 500 ? height - 1 : 500; /* the last line stays free */
    int n = 0, from = n_heads, to = body.n;
    if (body.n + FRAME > most) {
        const int row = place_of(screen->table, screen->group->running[0].cell).row;
        choose_window(&body, n_heads, row, most - FRAME - n_heads - 1, &from, &to);
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

/* --- from group to group ---------------------------------------------------------------------- */

static void say_begins(const struct paper_screen *screen, int i) {
    const struct paper_group *group = screen->group;
    const struct paper_cell *cell = group->running[i].cell;
    char beside[32] = "";
    if (group->n > 1) {
        snprintf(beside, sizeof beside, ", one of %d at once", group->n);
    }
    cli_progress_say("%s: cell %d of %d%s%s", cell->label, screen->n_ended + 1 + i, screen->n_cells,
                     cell->is_begun ? ", goes on" : "", beside);
}

void paper_screen_group(struct paper_screen *screen, struct paper_group *group) {
    screen->group = group;
    screen->begun = screen->said = now();
    screen->expected_left -= expected_of(group);
    for (int i = 0; i < group->n; i++) {
        struct paper_running *running = &group->running[i];
        *running = (struct paper_running){.screen = screen, .cell = running->cell};
        running->cell->state = PAPER_RUNNING;
        running->cell->share = 0;
    }
    if (cli_progress_is_live()) {
        draw(screen, NULL);
        return;
    }
    for (int i = 0; i < group->n; i++) {
        say_begins(screen, i);
    }
}

/* The accuracy of the last epoch up to this one that was tested; before the first, none. */
static double newest_test(const struct paper_cell *cell, int epoch) {
    double error = NAN;
    for (int e = epoch < cell->n_errors ? epoch : cell->n_errors; e > 0 && isnan(error); e--) {
        error = cell->errors[e - 1];
    }
    return 1 - error / 100;
}

/* The mean over those that have one. */
static struct cli_text newest_tests(const struct paper_group *group, int epoch) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < group->n; i++) {
        const double one = newest_test(group->running[i].cell, epoch);
        sum += isnan(one) ? 0 : one;
        n += !isnan(one);
    }
    return cli_percent(n > 0 ? sum / n : NAN, 2);
}

static void say_epoch(const struct paper_screen *screen, const struct oct_progress *p) {
    const struct paper_group *group = screen->group;
    char name[128];
    name_group(group, group->running[0].cell->label, name, sizeof name);
    cli_progress_say(
        "%s: epoch %d/%d, loss %s, test accuracy %s, %s samples/s, %s left, %s for the "
        "table",
        name, p->epoch, p->n_epochs, cli_decimals(p->loss, 4).text,
        newest_tests(group, p->epoch).text, cli_count(p->samples_per_s).text,
        cli_time(p->seconds_left).text, cli_time(table_left(screen, p)).text);
}

int paper_screen_show(const struct oct_progress *p, void *context) {
    struct paper_running *running = context;
    struct paper_screen *screen = running->screen;
    struct paper_cell *cell = running->cell;
    const int is_end = p->phase == OCT_PHASE_EPOCH_END;
    if (is_end && p->epoch >= 1 && p->epoch <= cell->n_errors) {
        cell->errors[p->epoch - 1] = 100 - p->test_accuracy;
    }
    running->last = *p;
    cell->share = share_of(p);
    if (cli_progress_is_live()) {
        if (cli_progress_due() || cli_interrupted() || (is_end && p->epoch == p->n_epochs)) {
            const struct oct_progress all = together(screen->group, p);
            draw(screen, &all);
        }
    } else if (is_end && now() - screen->said > SAY_EVERY_S) {
        const struct oct_progress all = together(screen->group, p);
        screen->said = now();
        say_epoch(screen, &all);
    }
    return 0;
}

static void say_ended(const struct paper_screen *screen, const struct paper_cell *cell,
                      double seconds) {
    const struct paper_table *table = screen->table;
    if (cell->state == PAPER_DONE) {
        char against[96] = "";
        const struct place place = place_of(table, cell);
        const double delta = paper_delta(table, place.row, place.column, place.seed);
        if (isfinite(cell->paper)) {
            snprintf(against, sizeof against, ", paper %.2f, %+.2f%s", cell->paper, delta,
                     table->is_short ? " (short)" : "");
        } else if (isfinite(delta)) {
            snprintf(against, sizeof against, ", %+.2f against %s", delta, table->columns[0].name);
        }
        cli_progress_say("%s: %.2f %%%s, %.0f s", cell->label, cell->result.accuracy_nodes, against,
                         seconds);
    } else if (cell->state == PAPER_FAILED) {
        cli_progress_say("%s: failed: %s", cell->label, cell->reason);
    } else if (cell->state == PAPER_STOPPED) {
        cli_progress_say("%s: stopped", cell->label);
    }
}

void paper_screen_ended(struct paper_screen *screen) {
    const struct paper_group *group = screen->group;
    const double seconds = now() - screen->begun;
    double expected = 0; /* of those that were done from start to end */
    for (int i = 0; i < group->n; i++) {
        const struct paper_cell *cell = group->running[i].cell;
        expected += cell->state == PAPER_DONE && !cell->is_begun ? cell->expected_s : 0;
        screen->n_ended += cell->state == PAPER_DONE || cell->state == PAPER_FAILED;
        if (!cli_progress_is_live()) {
            say_ended(screen, cell, seconds);
        }
    }
    if (expected > 0) {
        screen->expected_ended += expected;
        screen->taken += seconds;
    }
    screen->group = NULL;
}

void paper_screen_busy(const struct paper_cell *cell) {
    if (!cli_progress_is_live()) { /* the table shows it */
        cli_progress_say("%s: another octet paper is at this cell", cell->label);
    }
}
