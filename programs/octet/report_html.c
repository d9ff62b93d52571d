/* SPDX-License-Identifier: Apache-2.0 */
/* report_html.c - a report as one page: it needs no other file, no network and no script to be read.
 *
 * Every text from a record is escaped.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/octet.h>

enum { OPEN_RUNS = 3 }; /* of more, configurations are folded up */

/* --- words --------------------------------------------------------------------------------------- */

static void put(FILE *out, const char *text) {
    svg_escape(out, text);
}

static const char *outcome_class(const struct report_run *run) {
    const char *outcome = run->facts.outcome;
    return strcmp(outcome, "done") == 0                                         ? "good"
           : strncmp(outcome, "running", 7) == 0 || !strcmp(outcome, "stopped") ? ""
                                                                                : "bad";
}

/* --- the summary ----------------------------------------------------------------------------------- */

static void put_fact(FILE *out, const char *name, const char *value, const char *note) {
    fputs("<div><dt>", out);
    put(out, name);
    fputs("</dt><dd>", out);
    put(out, value);
    if (note && *note) {
        fputs("<small>", out);
        put(out, note);
        fputs("</small>", out);
    }
    fputs("</dd></div>\n", out);
}

static void spread_text(const struct report_run *run, char *out, size_t bytes) {
    const struct report_spread nodes = report_node_accuracy(run);
    out[0] = '\0';
    if (isfinite(nodes.least)) {
        snprintf(out, bytes, "%.2f to %.2f %%", nodes.least, nodes.most);
    }
}

static void ratio_text(const struct report_run *run, char *out, size_t bytes) {
    const double ratio = report_dense_ratio(run);
    out[0] = '\0';
    if (isfinite(ratio)) {
        snprintf(out, bytes, "%s of plain floats%s", cli_part(ratio).text,
                 cli_every_step(report_option(run, "gossip-every")));
    }
}

static void put_facts(FILE *out, const struct report_run *run) {
    const struct oct_run *facts = &run->facts;
    char note[96], epochs[48];
    fputs("<dl class=\"facts\">\n", out);
    put_fact(out, "Accuracy", runs_percent(facts->accuracy, 2).text,
             report_has_nodes(run) ? "of the average model" : "on the test set");
    if (report_has_nodes(run)) {
        spread_text(run, note, sizeof note);
        put_fact(out, "Nodes, mean", runs_percent(report_node_accuracy(run).mean, 2).text, note);
    }
    put_fact(out, "Loss", cli_decimals(facts->loss, 4).text, "on the test set");
    if (report_has_nodes(run)) {
        put_fact(out, "Consensus distance", runs_number(facts->consensus_distance).text,
                 "of the nodes from their average");
        ratio_text(run, note, sizeof note);
        put_fact(out, "Sent", report_bytes(run).text, note);
    }
    if (facts->bytes_final > 0) {
        put_fact(out, "At the end", cli_bytes(facts->bytes_final).text, RUNS_FINAL_NOTE);
    }
    put_fact(out, "Samples/s",
             facts->samples_per_s > 0 ? cli_count(facts->samples_per_s).text : "-", "training");
    put_fact(out, "Time", facts->seconds > 0 ? cli_time(facts->seconds).text : "-",
             "with evaluation");
    snprintf(epochs, sizeof epochs, "%d of %d", facts->epochs, facts->n_epochs);
    put_fact(out, "Epochs", epochs, NULL);
    fputs("</dl>\n", out);
}

static void put_cell(FILE *out, const char *class_name, const char *text) {
    fprintf(out, "<td class=\"%s\">", class_name);
    put(out, text);
    fputs("</td>", out);
}

static void put_row(FILE *out, const struct report_run *run) {
    const struct oct_run *facts = &run->facts;
    const struct report_spread nodes = report_node_accuracy(run);
    char text[64];
    fprintf(out, "<tr><th scope=\"row\"><a href=\"#run-%lld\">", (long long)facts->number);
    put(out, run->title);
    fputs("</a>", out);
    if (*facts->label) {
        fprintf(out, "<small>%s</small>", run->name);
    }
    fputs("</th>", out);
    put_cell(out, "number", runs_percent(facts->accuracy, 2).text);
    put_cell(out, "number", runs_percent(nodes.mean, 2).text);
    put_cell(out, "number", runs_percent(nodes.least, 2).text);
    put_cell(out, "number", runs_percent(nodes.most, 2).text);
    put_cell(out, "number", cli_decimals(facts->loss, 4).text);
    put_cell(out, "number", runs_number(facts->consensus_distance).text);
    put_cell(out, "number", report_bytes(run).text);
    const double ratio = report_dense_ratio(run);
    put_cell(out, "number", isfinite(ratio) ? cli_part(ratio).text : "-");
    put_cell(out, "number", facts->samples_per_s > 0 ? cli_count(facts->samples_per_s).text : "-");
    put_cell(out, "number", facts->seconds > 0 ? cli_time(facts->seconds).text : "-");
    snprintf(text, sizeof text, "%d/%d", facts->epochs, facts->n_epochs);
    put_cell(out, "number", text);
    snprintf(text, sizeof text, "text %s", outcome_class(run));
    put_cell(out, text, facts->outcome);
    fputs("</tr>\n", out);
}

static void put_summary(FILE *out, const struct report *report) {
    static const char *const heads[] = {"accuracy",  "nodes: mean", "least", "most",
                                        "loss",      "consensus",   "sent",  "of dense",
                                        "samples/s", "time",        "epochs"};
    fputs("<section>\n<h2>Summary</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Summary\"><table>\n<thead><tr><th scope=\"col\">run</th>",
          out);
    for (size_t i = 0; i < CLI_COUNT_OF(heads); i++) {
        fprintf(out, "<th scope=\"col\" class=\"number\">%s</th>", heads[i]);
    }
    fputs("<th scope=\"col\">outcome</th></tr></thead>\n<tbody>\n", out);
    for (int r = 0; r < report->n_runs; r++) {
        put_row(out, &report->runs[r]);
    }
    fputs("</tbody></table></div>\n<p class=\"note\">Accuracy and loss are those of the average "
          "model "
          "on the test set; least and most those of the nodes' own models. Consensus is the nodes' "
          "mean "
          "squared distance from their average, relative to it. Sent is while training; of dense: "
          "beside plain floats after every step.</p>\n</section>\n",
          out);
}

/* --- configuration --------------------------------------------------------------------------------- */

static void put_differences(FILE *out, const struct report *report) {
    int n = 0;
    for (int i = 0; report->n_runs > 1 && i < report->runs[0].n_options; i++) {
        if (!report_differs(report, i)) {
            continue;
        }
        if (n++ == 0) {
            fputs("<section>\n<h2>What differs</h2>\n<div class=\"wide\" tabindex=\"0\" "
                  "role=\"region\" "
                  "aria-label=\"What differs\"><table>\n<thead><tr><th scope=\"col\">option</th>",
                  out);
            for (int r = 0; r < report->n_runs; r++) {
                fprintf(out, "<th scope=\"col\">%s</th>", report->runs[r].name);
            }
            fputs("</tr></thead>\n<tbody>\n", out);
        }
        fputs("<tr><th scope=\"row\">", out);
        put(out, report->runs[0].options[i].name);
        fputs("</th>", out);
        for (int r = 0; r < report->n_runs; r++) {
            put_cell(out, "text", report_option(&report->runs[r], report->runs[0].options[i].name));
        }
        fputs("</tr>\n", out);
    }
    if (n > 0) {
        fputs("</tbody></table></div>\n</section>\n", out);
    }
}

static const char *group_of(const char *name) {
    const struct oct_option *option = oct_option_find(name);
    return option ? option->group : "Other";
}

/* Options by group, in the order of the table; those that came to nothing are left out. */
static void put_options(FILE *out, const struct report_run *run) {
    const char *group = "";
    fputs("<div class=\"options\">\n", out);
    for (int i = 0; i < run->n_options; i++) {
        const struct report_option *option = &run->options[i];
        if (!option->is_set && !*option->value) {
            continue;
        }
        if (strcmp(group, group_of(option->name)) != 0) {
            fputs(*group ? "</table>\n" : "", out);
            group = group_of(option->name);
            fprintf(out, "<table><caption>%s</caption>\n", group);
        }
        fprintf(out, "<tr%s><th scope=\"row\">", option->is_set ? " class=\"set\"" : "");
        put(out, option->name);
        fputs("</th><td>", out);
        put(out, option->value);
        fputs("</td></tr>\n", out);
    }
    fputs(*group ? "</table>\n" : "", out);
    fputs("</div>\n", out);
}

static void put_origin(FILE *out, const struct report_run *run) {
    fputs("<p class=\"meta\">", out);
    fprintf(out, "Run %lld, begun %s; <span class=\"%s\">", (long long)run->facts.number,
            runs_date(run->facts.started, "%Y-%m-%d %H:%M", 0).text, outcome_class(run));
    put(out, run->facts.outcome);
    fputs("</span>; octet ", out);
    put(out, run->facts.version);
    if (*run->facts.machine) {
        fputs("; ", out);
        put(out, run->facts.machine);
    }
    if (run->facts.n_parameters > 0) {
        fprintf(out, "; %s parameters", cli_count((double)run->facts.n_parameters).text);
    }
    if (run->facts.model_sha256) {
        fprintf(out, "; model sha256 %.12s…", run->facts.model_sha256);
    }
    fputs("</p>\n", out);
}

static void put_command(FILE *out, const struct report_run *run) {
    fputs("<div class=\"command\"><pre>", out);
    put(out, run->command);
    fputs("</pre></div>\n", out);
}

static void put_runs_alone(FILE *out, const struct report *report) {
    fputs("<section>\n<h2>Runs</h2>\n<p class=\"note\">Options in bold were set; the others are "
          "defaults, "
          "or follow from the rest.</p>\n",
          out);
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        fprintf(out, "<details id=\"run-%lld\"%s><summary>", (long long)run->facts.number,
                report->n_runs <= OPEN_RUNS ? " open" : "");
        put(out, run->title);
        if (*run->facts.label || *run->difference) {
            fputs(" <small>", out);
            put(out, *run->facts.label ? run->name : run->difference);
            fputs("</small>", out);
        }
        fputs("</summary>\n", out);
        put_origin(out, run);
        put_command(out, run);
        put_options(out, run);
        fputs("</details>\n", out);
    }
    fputs("</section>\n", out);
}

static void put_run_alone(FILE *out, const struct report_run *run) {
    fputs("<section>\n<h2>Repeat it</h2>\n", out);
    put_command(out, run);
    fputs("</section>\n<section>\n<h2>Configuration</h2>\n<p class=\"note\">Options in bold were "
          "set; the "
          "others are defaults, or follow from the rest.</p>\n",
          out);
    put_options(out, run);
    fputs("</section>\n", out);
}

/* --- the page -------------------------------------------------------------------------------------- */

void report_html(const struct report *report, FILE *out) {
    const struct report_run *first = &report->runs[0];
    char title[80];
    snprintf(title, sizeof title, "Comparison of %d runs", report->n_runs);
    const int is_alone = report->n_runs == 1;
    report_page_head(out, is_alone ? first->title : title);
    fputs("<header>\n<h1>", out);
    put(out, is_alone ? first->title : title);
    fputs("</h1>\n", out);
    if (is_alone) {
        put_origin(out, first);
        fputs("</header>\n<section aria-label=\"Summary\">\n", out);
        put_facts(out, first);
        fputs("</section>\n", out);
    } else {
        fputs("</header>\n", out);
        put_summary(out, report);
    }
    report_html_curves(report, out);
    report_html_nodes(report, out);
    if (is_alone) {
        put_run_alone(out, first);
    } else {
        put_differences(out, report);
        put_runs_alone(out, report);
    }
    fprintf(out, "<footer>Written by octet %s.</footer>\n", oct_version());
    report_page_tail(out);
}
