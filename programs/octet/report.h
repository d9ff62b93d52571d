/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what the parts of octet report share: the runs that it is about, read from the database
 * once, and the forms that it takes.
 *
 *     cmd_report.c      which runs, which files        report_charts.c   data as charts
 *     report_data.c     reading them                   report_html.c     one page that stands alone
 *     report_text.c     a terminal, Markdown           report_figures.c  its drawings
 *     report_csv.c      CSV                            report_page.c     its style sheet and script
 *
 * Nothing here is sure to be known: a run may have failed in its first epoch, be under way, or come
 * from a version that recorded less. What is not known is NaN, 0, NULL or an empty list, and every form
 * leaves it out or says "-".
 */
#ifndef OCTET_REPORT_H
#define OCTET_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include <octet/runs.h>

#include "chart.h"
#include "cli.h"
#include "runs_view.h"

enum { REPORT_RUNS_MOST = 64 };

/* Over the nodes; NaN without any. */
struct report_spread {
    double least, mean, most;
};

struct report_epoch {
    struct oct_run_epoch row;
    struct report_spread loss, accuracy; /* of the nodes, in training */
};

struct report_option {
    char *name, *value;
    int is_set;
};

struct report_run {
    struct oct_run facts; /* its texts are copies */
    char name[32];        /* "run 12" */
    char *title;          /* what it is called: its label, or else its name */
    char *difference;     /* "precision fp32, seed 2": what sets it apart; "": nothing */
    char *command;        /* that repeats it */
    struct report_epoch *epochs;
    int n_epochs;
    struct oct_run_node *nodes; /* after the last epoch */
    int n_nodes;
    struct oct_run_edge *edges; /* that have carried something */
    int n_edges;
    uint32_t *counts; /* [node][class] */
    int n_counted, n_classes;
    struct report_option *options;
    int n_options;
};

struct report {
    const char *database;
    struct report_run *runs; /* by number */
    int n_runs;
};

/* Reads the runs of those numbers. On a failure the report is empty. */
oct_status report_read(struct oct_runs *runs, const int64_t *numbers, int n, struct report *report);
void report_fini(struct report *report);

/* An option's value as it was in force; "" when the record has none. */
const char *report_option(const struct report_run *run, const char *name);

/* Whether the runs differ in option `index` of the first one's. */
int report_differs(const struct report *report, int index);

/* What was sent beside what plain floats would have been; NaN when either is not known. */
double report_dense_ratio(const struct report_run *run);

/* Whether there is a second node that could differ. */
int report_has_nodes(const struct report_run *run);

/* What was sent while training; "-" when it is not known. */
struct cli_text report_bytes(const struct report_run *run);

/* Least, mean and most of the nodes' own models on the test set; NaN: not tested. */
struct report_spread report_node_accuracy(const struct report_run *run);

/* --- charts (report_charts.c) ---------------------------------------------------------------- */

enum report_view {
    REPORT_ACCURACY,       /* on the test set; of few runs in training too */
    REPORT_TRAIN_ACCURACY, /* of many runs, by itself */
    REPORT_LOSS,
    REPORT_TRAIN_LOSS,
    REPORT_CONSENSUS,
    REPORT_BYTES, /* accuracy against bytes */
    REPORT_CLIPPED,
    REPORT_ZERO,
    REPORT_NODE_ACCURACY, /* in training, over the nodes */
    REPORT_NODE_LOSS,
    REPORT_NODE_TEST, /* of the nodes' own models at the end */
    REPORT_VIEWS
};

struct report_chart {
    const char *title, *about;
    const char *note; /* what follows `about`; "": nothing */
    const char *missing;
    struct chart chart;
    struct chart_series *series;
    struct report_array {
        double *at;
        int n;
    } * arrays; /* what the series point at */
    char **names;
    const char **ticks;
    int n_arrays, n_names;
};

/* Makes a chart, fitted into `box`. 0: there is nothing to be seen; out->missing says why, and is NULL
 * where nobody would look for it. */
int report_chart(const struct report *report, enum report_view view, struct chart_box box,
                 struct report_chart *out);
void report_chart_fini(struct report_chart *chart);

/* --- forms ----------------------------------------------------------------------------------- */

void report_html(const struct report *report, FILE *out);
void report_svg(const struct report *report, FILE *out);
void report_markdown(const struct report *report, FILE *out);
void report_text(const struct report *report, FILE *out);
void report_csv(const struct report *report, FILE *out);
oct_status report_csv_nodes(const struct report *report, struct oct_runs *runs, FILE *out);

/* Of the page: sections of charts, of the nodes and what they held and sent. */
void report_html_curves(const struct report *report, FILE *out);
void report_html_nodes(const struct report *report, FILE *out);

/* Of the page: everything before its heading, and the script at its end. */
void report_page_head(FILE *out, const char *title);
void report_page_tail(FILE *out);

#endif
