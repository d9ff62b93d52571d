/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - what moves while something runs.
 *
 * On a terminal: one line on stderr, redrawn at most ten times a second, never wider than the
 * window, wiped when it is done; finished epochs stay above it as rows of a table.
 *
 *     epoch   test acc  test loss  train acc  train loss  samples/s      time    rate
 *      1/10    85.10 %     0.4110    79.83 %      0.5520      1,204      0:52     0.1
 *     epoch  2/10 ━━━━━━━━━────────────   41 %  loss 0.4010  acc  85.3 %   7:31 left   1,210/s
 *
 * In a pipe: one plain line an epoch, nothing else.
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
    int shown;      /* a line is on the screen */
    int has_header; /* of the table of epochs */
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

void cli_progress_clear(void) {
    if (state.shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        state.shown = 0;
    }
}

/* Whether a redraw is due; the first always is. */
static int is_due(void) {
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

/* "head ━━━━──── tail": the bar takes what the texts leave; parts of the tail are dropped from its
 * end until the bar has room. */
static void draw_line(const char *head, double share, const char *const *tail, int n_tail) {
    int width = usable_width();
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
        fprintf(stderr, "\r\033[K%.*s", width, head);
    } else {
        char bar[1024];
        share = share > 0 ? (share < 1 ? share : 1) : 0; /* a NaN is 0 too */
        draw_bar(bar, sizeof bar, columns < 60 ? columns : 60, share);
        fprintf(stderr, "\r\033[K%s %s%s", head, bar, text);
    }
    fflush(stderr);
    state.shown = 1;
}

void cli_progress_bytes(const char *file, uint64_t done_bytes, uint64_t total_bytes) {
    if (state.quiet || !state.live || !is_due()) {
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

/* A finished epoch as a row; columns are dropped from the right when the window is narrow, so what
 * was asked for comes before what is always there. */
static void print_row(const struct oct_progress *p, const struct cli_quantizers *quantizers) {
    struct {
        const char *head;
        int width;
        char cell[40];
    } columns[] = {
        {"epoch", 2 * digits_of(p->n_epochs) + 1, ""},
        {"test acc", 9, ""},
        {"test loss", 9, ""},
        {quantizers ? "clip val" : NULL, 8, ""},
        {quantizers ? "zero grad" : NULL, 9, ""},
        {"train acc", 9, ""},
        {"train loss", 10, ""},
        {"samples/s", 9, ""},
        {"time", 8, ""},
        {"rate", 6, ""},
    };
    const int n = (int)(sizeof columns / sizeof columns[0]);
    int width = cli_width(stderr, 80);
    enum { BYTES = sizeof columns[0].cell };
    snprintf(columns[0].cell, BYTES, "%*d/%d", digits_of(p->n_epochs), p->epoch, p->n_epochs);
    snprintf(columns[1].cell, BYTES, "%s %%", cli_decimals(p->test_accuracy, 2).text);
    snprintf(columns[2].cell, BYTES, "%s", cli_decimals(p->test_loss, 4).text);
    for (int i = 0; quantizers && i < 2; i++) {
        struct cli_clips clips = cli_quantizers_clips(quantizers, i);
        snprintf(columns[3 + i].cell, BYTES, "%s",
                 cli_percent(i ? clips.zero : clips.clipped, 2).text);
    }
    snprintf(columns[5].cell, BYTES, "%s %%", cli_decimals(p->accuracy, 2).text);
    snprintf(columns[6].cell, BYTES, "%s", cli_decimals(p->loss, 4).text);
    snprintf(columns[7].cell, BYTES, "%s", cli_count(p->samples_per_s).text);
    snprintf(columns[8].cell, BYTES, "%s", cli_time(p->seconds).text);
    snprintf(columns[9].cell, BYTES, "%.3g", p->learning_rate);
    cli_progress_clear();
    for (int header = !state.has_header; header >= 0; header--) {
        int at = 0;
        fputs(header ? cli_style(stderr, CLI_BOLD) : "", stderr);
        for (int i = 0; i < n; i++) {
            if (!columns[i].head) {
                continue;
            }
            int column = columns[i].width;
            int least = (int)strlen(columns[i].head);
            column = column > least ? column : least;
            if (at + column + (i ? 2 : 0) > width) {
                break;
            }
            fprintf(stderr, "%s%*s", i ? "  " : "", column,
                    header ? columns[i].head : columns[i].cell);
            at += column + (i ? 2 : 0);
        }
        fputs(header ? cli_style(stderr, CLI_PLAIN) : "", stderr);
        fputc('\n', stderr);
    }
    state.has_header = 1;
    fflush(stderr);
}

static void print_plain(const struct oct_progress *p, const struct cli_quantizers *quantizers) {
    fprintf(stderr,
            "epoch %d/%d: loss %s, accuracy %s %%, test loss %s, test accuracy %s %%, "
            "%.0f samples/s, %.1f s",
            p->epoch, p->n_epochs, cli_decimals(p->loss, 4).text, cli_decimals(p->accuracy, 2).text,
            cli_decimals(p->test_loss, 4).text, cli_decimals(p->test_accuracy, 2).text,
            p->samples_per_s, p->seconds);
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
    if (!state.live || !is_due()) {
        return;
    }
    char head[48], percent[16], loss[48], accuracy[48], rate[48], left[48];
    const char *tail[] = {percent, loss, accuracy, left, rate};
    int testing = p->phase == OCT_PHASE_EVALUATE;
    double share = p->epoch_steps > 0 ? (double)p->epoch_step / (double)p->epoch_steps : 0;
    snprintf(head, sizeof head, "%s %*d/%d", testing ? "test " : "epoch", digits_of(p->n_epochs),
             p->epoch, p->n_epochs);
    snprintf(percent, sizeof percent, "%3.0f %%", 100 * share);
    snprintf(loss, sizeof loss, "loss %s", cli_decimals(p->loss, 4).text);
    snprintf(accuracy, sizeof accuracy, "acc %5s %%", cli_decimals(p->accuracy, 1).text);
    snprintf(rate, sizeof rate, "%6s/s", cli_count(p->samples_per_s).text);
    snprintf(left, sizeof left, "%5s left", cli_time(p->seconds_left).text);
    draw_line(head, share, tail, testing ? 1 : 5);
}
