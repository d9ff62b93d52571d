/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.c - a report to be read where text is: on a terminal, with curves of eight heights, and
 * as Markdown. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARKS = 40 }; /* columns of a curve on a terminal */

/* --- the table of both ---------------------------------------------------------------------------- */

enum { COLUMNS = 12 };

static const char *const heads[COLUMNS] = {"run",      "accuracy",  "nodes",     "least",
                                           "most",     "loss",      "consensus", "sent",
                                           "of dense", "samples/s", "time",      "epochs"};

static void cells_of(const struct report_run *run, struct cli_text cells[COLUMNS]) {
    const struct oct_run *facts = &run->facts;
    const struct report_spread nodes = report_node_accuracy(run);
    const struct cli_text none = {"-"};
    const double ratio = report_dense_ratio(run);
    snprintf(cells[0].text, sizeof cells[0].text, "%lld", (long long)facts->number);
    cells[1] = runs_percent(facts->accuracy, 2);
    cells[2] = runs_percent(nodes.mean, 2);
    cells[3] = runs_percent(nodes.least, 2);
    cells[4] = runs_percent(nodes.most, 2);
    cells[5] = cli_decimals(facts->loss, 4);
    cells[6] = runs_number(facts->consensus_distance);
    cells[7] = report_bytes(run);
    cells[8] = isfinite(ratio) ? cli_part(ratio) : none;
    cells[9] = facts->samples_per_s > 0 ? cli_count(facts->samples_per_s) : none;
    cells[10] = facts->seconds > 0 ? cli_time(facts->seconds) : none;
    snprintf(cells[11].text, sizeof cells[11].text, "%d/%d", facts->epochs, facts->n_epochs);
}

/* --- the terminal ---------------------------------------------------------------------------------- */

/* The k-th of `columns` parts of a curve: the last number in it that is known. */
static double part_at(const double *values, int n, int columns, int k) {
    const int from = (int)((long)n * k / columns), to = (int)((long)n * (k + 1) / columns);
    double value = NAN;
    for (int i = from; i < (to > from ? to : from + 1) && i < n; i++) {
        value = isfinite(values[i]) ? values[i] : value;
    }
    return value;
}

static void put_spark(FILE *out, const double *values, int n, int is_log) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char letters[] = "_.-=+*%#";
    const int columns = n < SPARKS ? n : SPARKS;
    double parts[SPARKS], least = INFINITY, most = -INFINITY;
    for (int k = 0; k < columns; k++) {
        parts[k] = part_at(values, n, columns, k);
        parts[k] = is_log ? (parts[k] > 0 ? log(parts[k]) : (double)NAN) : parts[k];
        least = parts[k] < least ? parts[k] : least;
        most = parts[k] > most ? parts[k] : most;
    }
    for (int k = 0; k < columns; k++) {
        const int height = most > least && isfinite(parts[k])
                               ? (int)(7.999 * (parts[k] - least) / (most - least))
                               : 0;
        if (!isfinite(parts[k])) {
            fputc(' ', out);
        } else if (cli_utf8()) {
            fputs(blocks[height], out);
        } else {
            fputc(letters[height], out);
        }
    }
}

typedef struct cli_text (*number_text)(double value);

static struct cli_text percent_text(double value) {
    return runs_percent(value, 2);
}

static struct cli_text loss_text(double value) {
    return cli_decimals(value, 4);
}

static void put_curve(FILE *out, const struct report_run *run, const char *name,
                      const double *values, int is_log, number_text text) {
    int first = 0, last = run->n_epochs - 1;
    while (first <= last && !(isfinite(values[first]) && (!is_log || values[first] > 0))) {
        first++;
    }
    while (last > first && !(isfinite(values[last]) && (!is_log || values[last] > 0))) {
        last--;
    }
    if (first > last) {
        return;
    }
    fprintf(out, "  %-14s ", name);
    put_spark(out, values, run->n_epochs, is_log);
    if (last > first) {
        fprintf(out, "  %s to %s", text(values[first]).text, text(values[last]).text);
    } else {
        fprintf(out, "  %s", text(values[first]).text);
    }
    fputc('\n', out);
}

/* Rounds without training, where there were any. */
static void put_final(FILE *out, const char *before, const struct report_run *run) {
    if (run->facts.bytes_final > 0) {
        fprintf(out, "%s%s " RUNS_FINAL_NOTE "\n", before, cli_bytes(run->facts.bytes_final).text);
    }
}

static void put_curves(FILE *out, const struct report_run *run) {
    const int n = run->n_epochs;
    double *values = cli_alloc((size_t)(n > 0 ? n : 1) * sizeof *values);
    for (int i = 0; i < n; i++) {
        values[i] = run->epochs[i].row.accuracy;
    }
    put_curve(out, run, "test accuracy", values, 0, percent_text);
    for (int i = 0; i < n; i++) {
        values[i] = run->epochs[i].row.loss;
    }
    put_curve(out, run, "test loss", values, 0, loss_text);
    for (int i = 0; i < n; i++) {
        values[i] = run->epochs[i].row.train_loss;
    }
    put_curve(out, run, "training loss", values, 0, loss_text);
    for (int i = 0; i < n; i++) {
        values[i] = run->epochs[i].row.consensus_distance;
    }
    put_curve(out, run, "consensus, log", values, 1, runs_number);
    free(values);
}

void report_text(const struct report *report, FILE *out) {
    struct cli_table table;
    char all[160] = "";
    const int width = cli_width(out, 0), is_wide = width == 0 || width >= 118;
    for (int i = 0; i < COLUMNS; i++) {
        if (is_wide || (i != 3 && i != 4 && i != 8 && i != 9)) {
            const size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s>%s", used ? "|" : "", heads[i]);
        }
    }
    cli_table_init(&table, all);
    for (int r = 0; r < report->n_runs; r++) {
        struct cli_text cells[COLUMNS];
        cells_of(&report->runs[r], cells);
        for (int i = 0; i < COLUMNS; i++) {
            if (is_wide || (i != 3 && i != 4 && i != 8 && i != 9)) {
                cli_table_cell(&table, "%s", cells[i].text);
            }
        }
    }
    cli_table_print(&table, out);
    cli_table_fini(&table);
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        fprintf(out, "\n%srun %lld%s", cli_style(out, CLI_BOLD), (long long)run->facts.number,
                cli_style(out, CLI_PLAIN));
        const char *const texts[] = {
            *run->facts.label ? ", " : "", run->facts.label, ": ", run->facts.outcome,
            *run->difference ? "; " : "",  run->difference};
        for (size_t i = 0; i < CLI_COUNT_OF(texts); i++) {
            cli_put(out, texts[i]);
        }
        fputc('\n', out);
        put_curves(out, run);
        put_final(out, "  sent at the end  ", run);
    }
    fputs("\n--html FILE writes a page with charts, --md FILE, --csv FILE and --csv-nodes FILE the "
          "numbers.\n",
          out);
}

/* --- Markdown --------------------------------------------------------------------------------------- */

/* Text in a line or a cell, so that it stays text. */
static void put_plain(FILE *out, const char *text) {
    for (int n; *text; text += n > 1 ? n : 1) {
        n = cli_control_bytes(text);
        if (!n && strchr("\\`*_{}[]<>#|~&", *text)) {
            fputc('\\', out);
        }
        fputc(n ? ' ' : *text, out);
    }
}

/* A fence longer than any inside the command. */
static void put_command(FILE *out, const char *command) {
    int longest = 2, n = 0;
    for (const char *c = command; *c; c++) {
        n = *c == '`' ? n + 1 : 0;
        longest = n > longest ? n : longest;
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i <= longest; i++) {
            fputc('`', out);
        }
        fputs(side == 0 ? "sh\n" : "\n", out);
        if (side == 0) {
            fprintf(out, "%s\n", command);
        }
    }
}

static void put_run(FILE *out, const struct report *report, const struct report_run *run) {
    const struct oct_run *facts = &run->facts;
    if (report->n_runs > 1) {
        fputs("\n## ", out);
        put_plain(out, run->title);
        fputc('\n', out);
    }
    fprintf(out, "\n- run %lld, begun %s: ", (long long)facts->number,
            runs_date(facts->started, "%Y-%m-%d %H:%M", 0).text);
    put_plain(out, facts->outcome);
    fputs("\n- octet ", out);
    put_plain(out, facts->version);
    if (*facts->machine) {
        fputs("; ", out);
        put_plain(out, facts->machine);
    }
    fputc('\n', out);
    if (facts->n_parameters > 0) {
        fputs("- ", out);
        put_plain(out, report_option(run, "model"));
        fprintf(out, ", %s parameters, on ", cli_count((double)facts->n_parameters).text);
        put_plain(out, report_option(run, "data"));
        fputc('\n', out);
    }
    put_final(out, "- sent at the end: ", run);
    if (*run->difference) {
        fputs("- unlike the others: ", out);
        put_plain(out, run->difference);
        fputc('\n', out);
    }
    if (facts->model_sha256) {
        fprintf(out, "- model sha256 `%s`\n", facts->model_sha256);
    }
    fputc('\n', out);
    put_command(out, run->command);
}

void report_markdown(const struct report *report, FILE *out) {
    fputs("# ", out);
    if (report->n_runs == 1) {
        put_plain(out, report->runs[0].title);
    } else {
        fprintf(out, "Comparison of %d runs", report->n_runs);
    }
    fputs("\n\n|", out);
    for (int i = 0; i < COLUMNS; i++) {
        fprintf(out, " %s |", heads[i]);
    }
    fputs(" outcome |\n|", out);
    for (int i = 0; i < COLUMNS; i++) {
        fputs(" ---: |", out);
    }
    fputs(" --- |\n", out);
    for (int r = 0; r < report->n_runs; r++) {
        struct cli_text cells[COLUMNS];
        cells_of(&report->runs[r], cells);
        fputc('|', out);
        for (int i = 0; i < COLUMNS; i++) {
            fprintf(out, " %s |", cells[i].text);
        }
        fputc(' ', out);
        put_plain(out, report->runs[r].facts.outcome);
        fputs(" |\n", out);
    }
    fputs("\nAccuracy and loss are those of the average model on the test set; nodes, least and "
          "most those "
          "of the nodes' own models. Sent is while training.\n",
          out);
    for (int r = 0; r < report->n_runs; r++) {
        put_run(out, report, &report->runs[r]);
    }
}
