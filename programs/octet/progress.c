/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - what moves while something runs.
 *
 * On a terminal: one line on stderr, redrawn at most ten times a second, never wider than the
 * window, wiped when it is done; finished epochs stay above it as rows of a table.
 *
 *     epoch  test acc  test loss  consensus      sent  samples/s     time  train loss
 *      1/10   85.10 %     0.4110   1.27e-03  61.4 MiB      1,204     0:52      0.5520
 *     epoch  2/10 ━━━━━━━━━──────────   41 %  loss 0.4010  acc  85.3 %   7:31 left   1,210/s
 *
 * Or several lines that are redrawn in place, for a table that fills up (octet paper): they are put
 * together elsewhere and written at once, so that nothing flickers.
 *
 * In a pipe: one plain line an epoch, nothing else. A run of one node has nobody to agree with and
 * nothing to send; it shows more of its training instead.
 */
#include "cli.h"

#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    int quiet;
    int live;       /* stderr is a terminal that can move its cursor */
    int shown;      /* lines that are on the screen; the cursor is at the end of the last */
    int has_header; /* of the table of epochs */
    int n_nodes;
    double drawn_at;
} state;

/* --- the terminal --------------------------------------------------------------------------- */

int cli_width(FILE *stream, int otherwise) {
    struct winsize size;
    int descriptor = fileno(stream);
    if (!isatty(descriptor)) {
        return otherwise;
    }
    int columns = 0;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0) {
        columns = size.ws_col;
    }
    if (columns <= 0) {
        const char *told = getenv("COLUMNS");
        columns = told ? (int)strtol(told, NULL, 10) : 0;
    }
    return columns > 0 && columns < 10000 ? columns : 80;
}

int cli_height(FILE *stream, int otherwise) {
    struct winsize size;
    int descriptor = fileno(stream);
    if (!isatty(descriptor)) {
        return otherwise;
    }
    int rows = ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
    return rows > 0 ? rows : 24;
}

int cli_utf8(void) {
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int is_terminal(FILE *stream) {
    const char *kind = getenv("TERM");
    return isatty(fileno(stream)) && kind && *kind && strcmp(kind, "dumb") != 0;
}

const char *cli_style(FILE *stream, enum cli_style style) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    const char *refused = getenv("NO_COLOR");
    return is_terminal(stream) && !(refused && *refused) ? codes[style] : "";
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void cli_progress_begin(const struct cli *cli) {
    memset(&state, 0, sizeof state);
    state.quiet = cli->quiet;
    state.live = is_terminal(stderr);
    state.drawn_at = -1;
}

void cli_progress_nodes(int n_nodes) {
    state.n_nodes = n_nodes;
}

void cli_progress_clear(void) {
    if (state.shown > 1) {
        fprintf(stderr, "\r\033[%dA\033[J", state.shown - 1);
    } else if (state.shown) {
        fputs("\r\033[K", stderr);
    }
    fflush(stderr);
    state.shown = 0;
}

int cli_progress_is_live(void) {
    return state.live && !state.quiet;
}

void cli_progress_lines(const char *const *lines, int n_lines) {
    if (!cli_progress_is_live() || n_lines < 1) {
        return;
    }
    size_t bytes = 64, used = 0;
    for (int i = 0; i < n_lines; i++) {
        bytes += strlen(lines[i]) + 8;
    }
    char *text = cli_alloc(bytes); /* one write: the terminal never shows half of it */
    text[0] = '\0';
    if (state.shown > 1) {
        used += (size_t)snprintf(text, bytes, "\r\033[%dA", state.shown - 1);
    } else if (state.shown) {
        used += (size_t)snprintf(text, bytes, "\r");
    }
    for (int i = 0; i < n_lines; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s\033[K%s", lines[i],
                                 i + 1 < n_lines ? "\n" : "");
    }
    used +=
        (size_t)snprintf(text + used, bytes - used, "%s", state.shown > n_lines ? "\033[J" : "");
    fwrite(text, 1, used, stderr);
    fflush(stderr);
    free(text);
    state.shown = n_lines;
}

int cli_progress_due(void) {
    double time = now();
    if (state.shown && time - state.drawn_at < 0.1) {
        return 0;
    }
    state.drawn_at = time;
    return 1;
}

/* Columns for a line that will be redrawn: the terminal may echo "^C" after it. */
static int usable_width(void) {
    int width = cli_width(stderr, 80) - 3;
    return width > 1 ? width : 1;
}

void cli_progress_note(const char *format, ...) {
    if (state.quiet || !state.live) {
        return;
    }
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (state.shown > 1) {
        cli_progress_clear();
    }
    fprintf(stderr, "\r\033[K%.*s", usable_width(), text);
    fflush(stderr);
    state.shown = 1;
}

void cli_progress_say(const char *format, ...) {
    if (state.quiet) {
        return;
    }
    cli_progress_clear();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(stderr);
}

/* --- the bar -------------------------------------------------------------------------------- */

/* `columns` columns of bar, `share` of it done. */
static void draw_bar(char *out, size_t bytes, int columns, double share) {
    int utf8 = cli_utf8();
    double filled = share * columns;
    size_t used = 0;
    used += (size_t)snprintf(out, bytes, "%s", cli_style(stderr, CLI_GREEN));
    int ended = 0;
    for (int i = 0; i < columns && used + 16 < bytes; i++) {
        const char *cell;
        if (filled >= i + 1) {
            cell = utf8 ? "━" : "#";
        } else {
            if (!ended) {
                used += (size_t)snprintf(out + used, bytes - used, "%s%s",
                                         cli_style(stderr, CLI_PLAIN), cli_style(stderr, CLI_DIM));
                ended = 1;
            }
            cell = utf8 ? "─" : ".";
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s", cell);
    }
    snprintf(out + used, bytes - used, "%s", cli_style(stderr, CLI_PLAIN));
}

void cli_bar_line(char *out, size_t bytes, int width, const char *head, double share,
                  const char *const *tail, int n_tail) {
    char text[256];
    int columns = 0;
    for (; n_tail >= 0; n_tail--) {
        size_t used = 0;
        text[0] = '\0';
        for (int i = 0; i < n_tail && used < sizeof text; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "  %s", tail[i]);
        }
        columns = width - (int)strlen(head) - 1 - (int)strlen(text);
        if (columns >= 10) {
            break;
        }
    }
    if (columns < 3) {
        snprintf(out, bytes, "%.*s", width, head);
        return;
    }
    char bar[1024];
    share = share > 0 ? (share < 1 ? share : 1) : 0; /* a NaN is 0 too */
    draw_bar(bar, sizeof bar, columns < 60 ? columns : 60, share);
    snprintf(out, bytes, "%s %s%s", head, bar, text);
}

static void draw_line(const char *head, double share, const char *const *tail, int n_tail) {
    char line[2048];
    cli_bar_line(line, sizeof line, usable_width(), head, share, tail, n_tail);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    state.shown = 1;
}

void cli_progress_bytes(const char *file, uint64_t done_bytes, uint64_t total_bytes) {
    if (state.quiet || !state.live || !cli_progress_due()) {
        return;
    }
    char amount[80], percent[16];
    const char *tail[] = {percent, amount};
    double share = total_bytes ? (double)done_bytes / (double)total_bytes : 0;
    snprintf(percent, sizeof percent, "%3.0f %%", 100 * share);
    snprintf(amount, sizeof amount, "%s of %s", cli_bytes(done_bytes).text,
             total_bytes ? cli_bytes(total_bytes).text : "?");
    draw_line(file, share, tail, 2);
}

/* --- training ------------------------------------------------------------------------------- */

static int digits_of(int number) {
    char text[16];
    return snprintf(text, sizeof text, "%d", number);
}

struct column {
    const char *head; /* NULL: not in this table */
    int width;
    char cell[40];
};

/* The parts of a row. Which come first differs with the number of nodes. */
enum {
    EPOCH,
    TEST,
    TEST_LOSS,
    CLIP,
    ZERO,
    CONSENSUS,
    SENT,
    ACCURACY,
    LOSS,
    SPEED,
    TIME,
    RATE,
    N_COLUMNS
};

static void fill_columns(struct column *columns, const struct oct_progress *p,
                         const struct cli_quantizers *quantizers) {
    const struct column empty[N_COLUMNS] = {
        [EPOCH] = {"epoch", 2 * digits_of(p->n_epochs) + 1, ""},
        [TEST] = {"test acc", 8, ""},
        [TEST_LOSS] = {"test loss", 9, ""},
        [CLIP] = {quantizers ? "clip val" : NULL, 8, ""},
        [ZERO] = {quantizers ? "zero grad" : NULL, 9, ""},
        [CONSENSUS] = {state.n_nodes > 1 ? "consensus" : NULL, 9, ""},
        [SENT] = {state.n_nodes > 1 ? "sent" : NULL, 8, ""},
        [ACCURACY] = {"train acc", 9, ""},
        [LOSS] = {"train loss", 10, ""},
        [SPEED] = {"samples/s", 9, ""},
        [TIME] = {"time", 7, ""},
        [RATE] = {"rate", 6, ""},
    };
    enum { BYTES = sizeof columns[0].cell };
    memcpy(columns, empty, sizeof empty);
    snprintf(columns[EPOCH].cell, BYTES, "%*d/%d", digits_of(p->n_epochs), p->epoch, p->n_epochs);
    snprintf(columns[TEST].cell, BYTES, "%s%s", cli_decimals(p->test_accuracy, 2).text,
             isfinite(p->test_accuracy) ? " %" : "");
    snprintf(columns[TEST_LOSS].cell, BYTES, "%s", cli_decimals(p->test_loss, 4).text);
    if (quantizers) {
        snprintf(columns[CLIP].cell, BYTES, "%s",
                 cli_percent(cli_quantizers_clips(quantizers, 0).clipped, 2).text);
        snprintf(columns[ZERO].cell, BYTES, "%s",
                 cli_percent(cli_quantizers_clips(quantizers, 1).zero, 2).text);
    }
    snprintf(columns[CONSENSUS].cell, BYTES, isfinite(p->consensus_distance) ? "%.2e" : "-",
             p->consensus_distance);
    snprintf(columns[SENT].cell, BYTES, "%s", cli_bytes(p->bytes_sent).text);
    snprintf(columns[ACCURACY].cell, BYTES, "%s %%", cli_decimals(p->accuracy, 2).text);
    snprintf(columns[LOSS].cell, BYTES, "%s", cli_decimals(p->loss, 4).text);
    snprintf(columns[SPEED].cell, BYTES, "%s", cli_count(p->samples_per_s).text);
    snprintf(columns[TIME].cell, BYTES, "%s", cli_time(p->seconds).text);
    snprintf(columns[RATE].cell, BYTES, "%.3g", p->learning_rate);
}

/* A finished epoch as a row; columns are dropped from the right when the window is narrow, so what
 * was asked for comes before what is always there. */
static void print_row(const struct oct_progress *p, const struct cli_quantizers *quantizers) {
    static const signed char one[] = {EPOCH, TEST,  TEST_LOSS, CLIP, ZERO, ACCURACY,
                                      LOSS,  SPEED, TIME,      RATE, -1};
    static const signed char many[] = {EPOCH, TEST, TEST_LOSS, CONSENSUS, SENT, CLIP, ZERO,
                                       SPEED, TIME, LOSS,      ACCURACY,  RATE, -1};
    struct column columns[N_COLUMNS];
    const int width = cli_width(stderr, 80);
    fill_columns(columns, p, quantizers);
    cli_progress_clear();
    for (int header = !state.has_header; header >= 0; header--) {
        int at = 0;
        fputs(header ? cli_style(stderr, CLI_BOLD) : "", stderr);
        for (const signed char *next = state.n_nodes > 1 ? many : one; *next >= 0; next++) {
            const struct column *column = &columns[*next];
            if (!column->head) {
                continue;
            }
            const int least = (int)strlen(column->head), gap = at > 0 ? 2 : 0;
            const int room = column->width > least ? column->width : least;
            if (at + gap + room > width) {
                break;
            }
            fprintf(stderr, "%*s%*s", gap, "", room, header ? column->head : column->cell);
            at += gap + room;
        }
        fputs(header ? cli_style(stderr, CLI_PLAIN) : "", stderr);
        fputc('\n', stderr);
    }
    state.has_header = 1;
    fflush(stderr);
}

static void print_plain(const struct oct_progress *p, const struct cli_quantizers *quantizers) {
    const int is_tested = isfinite(p->test_accuracy), has_others = state.n_nodes > 1;
    fprintf(stderr, "epoch %d/%d: loss %s, accuracy %s %%, ", p->epoch, p->n_epochs,
            cli_decimals(p->loss, 4).text, cli_decimals(p->accuracy, 2).text);
    if (is_tested) {
        fprintf(stderr, "test loss %s, test accuracy %s %%, ", cli_decimals(p->test_loss, 4).text,
                cli_decimals(p->test_accuracy, 2).text);
    }
    if (is_tested && has_others) {
        fprintf(stderr, "consensus %.2e, ", p->consensus_distance);
    }
    if (has_others) {
        fprintf(stderr, "%s sent, ", cli_bytes(p->bytes_sent).text);
    }
    fprintf(stderr, "%.0f samples/s, %.1f s", p->samples_per_s, p->seconds);
    if (quantizers) {
        fprintf(stderr, ", clipped %s of values, zero %s of gradients",
                cli_percent(cli_quantizers_clips(quantizers, 0).clipped, 2).text,
                cli_percent(cli_quantizers_clips(quantizers, 1).zero, 2).text);
    }
    fputc('\n', stderr);
    fflush(stderr);
}

void cli_progress_heading(const char *format, ...) {
    state.has_header = 0;
    if (state.quiet) {
        return;
    }
    cli_progress_clear();
    va_list arguments;
    va_start(arguments, format);
    fputs(cli_style(stderr, CLI_BOLD), stderr);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "%s\n", cli_style(stderr, CLI_PLAIN));
    va_end(arguments);
    fflush(stderr);
}

void cli_progress_train(const struct oct_progress *p, const struct cli_quantizers *quantizers) {
    if (state.quiet) {
        return;
    }
    if (p->phase == OCT_PHASE_EPOCH_END) {
        if (state.live) {
            print_row(p, quantizers);
        } else {
            print_plain(p, quantizers);
        }
        return;
    }
    if (!state.live || !cli_progress_due()) {
        return;
    }
    char head[48], percent[16], loss[48], accuracy[48], rate[48], left[48], sent[48], consensus[48];
    const char *tail[] = {percent, loss, accuracy, left, rate, sent, consensus};
    const double share = p->epoch_steps > 0 ? (double)p->epoch_step / (double)p->epoch_steps : 0;
    snprintf(percent, sizeof percent, "%3.0f %%", 100 * share);
    snprintf(sent, sizeof sent, "%8s sent", cli_bytes(p->bytes_sent).text);
    if (p->phase == OCT_PHASE_GOSSIP) {
        const char *rest[] = {percent, sent};
        snprintf(head, sizeof head, "final rounds %lld/%lld", (long long)p->epoch_step,
                 (long long)p->epoch_steps);
        draw_line(head, share, rest, 2);
        return;
    }
    const int testing = p->phase == OCT_PHASE_EVALUATE;
    snprintf(head, sizeof head, "%s %*d/%d", testing ? "test " : "epoch", digits_of(p->n_epochs),
             p->epoch, p->n_epochs);
    snprintf(loss, sizeof loss, "loss %s", cli_decimals(p->loss, 4).text);
    snprintf(accuracy, sizeof accuracy, "acc %5s %%", cli_decimals(p->accuracy, 1).text);
    snprintf(rate, sizeof rate, "%6s/s", cli_count(p->samples_per_s).text);
    snprintf(left, sizeof left, "%5s left", cli_time(p->seconds_left).text);
    snprintf(consensus, sizeof consensus, "consensus %.1e", p->consensus_distance);
    /* How far the nodes are apart is known from the second epoch on, if the last one was tested. */
    const int is_known = p->epoch > 1 && isfinite(p->consensus_distance);
    const int n_tail = state.n_nodes > 1 ? (is_known ? 7 : 6) : 5;
    draw_line(head, share, tail, testing ? 1 : n_tail);
}
