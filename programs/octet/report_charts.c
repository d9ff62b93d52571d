/* SPDX-License-Identifier: Apache-2.0 */
/* report_charts.c - what is known of the runs, as series of charts.
 *
 * Up to FEW runs share a chart for test and training, and show bands over their nodes; more would hide
 * each other, so they get a chart each, and of the nodes the distance from the least to the most.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 3, LABELLED_MOST = 8 };

/* --- building series --------------------------------------------------------------------------- */

static double *array(struct report_chart *c, int n) {
    double *values = cli_alloc((size_t)(n > 0 ? n : 1) * sizeof *values);
    c->arrays[c->n_arrays++] = (struct report_array){values, n};
    return values;
}

static const char *name_of(struct report_chart *c, const struct report_run *run, const char *what,
                           int is_alone) {
    size_t bytes = strlen(run->title) + strlen(what) + 4;
    char *name = cli_alloc(bytes);
    snprintf(name, bytes, "%s%s%s", is_alone ? "" : run->title, is_alone || !*what ? "" : ", ",
             what);
    c->names[c->n_names++] = name;
    return name;
}

static struct chart_series *next_series(struct report_chart *c) {
    struct chart_series *s = &c->series[c->chart.n_series++];
    memset(s, 0, sizeof *s);
    return s;
}

/* A number of an epoch. */
typedef double (*epoch_value)(const struct report_epoch *epoch);

static double epoch_number(const struct report_epoch *e) {
    return e->row.epoch;
}
static double accuracy(const struct report_epoch *e) {
    return e->row.accuracy;
}
static double train_accuracy(const struct report_epoch *e) {
    return e->row.train_accuracy;
}
static double loss(const struct report_epoch *e) {
    return e->row.loss;
}
static double train_loss(const struct report_epoch *e) {
    return e->row.train_loss;
}
static double consensus(const struct report_epoch *e) {
    return e->row.consensus_distance;
}
static double bytes_sent(const struct report_epoch *e) {
    return (double)e->row.bytes_sent;
}
static double clipped(const struct report_epoch *e) {
    return 100 * e->row.clipped;
}
static double zero(const struct report_epoch *e) {
    return 100 * e->row.zero;
}
static double node_loss(const struct report_epoch *e) {
    return e->loss.mean;
}
static double node_loss_least(const struct report_epoch *e) {
    return e->loss.least;
}
static double node_loss_most(const struct report_epoch *e) {
    return e->loss.most;
}
static double node_loss_spread(const struct report_epoch *e) {
    return e->loss.most - e->loss.least;
}
static double node_accuracy(const struct report_epoch *e) {
    return e->accuracy.mean;
}
static double node_accuracy_least(const struct report_epoch *e) {
    return e->accuracy.least;
}
static double node_accuracy_most(const struct report_epoch *e) {
    return e->accuracy.most;
}
static double node_accuracy_spread(const struct report_epoch *e) {
    return e->accuracy.most - e->accuracy.least;
}

static const double *values_of(struct report_chart *c, const struct report_run *run,
                               epoch_value value) {
    double *values = array(c, run->n_epochs);
    for (int i = 0; i < run->n_epochs; i++) {
        values[i] = value(&run->epochs[i]);
    }
    return values;
}

/* A curve of a run; `what` tells several of its own apart. */
static struct chart_series *add_curve(struct report_chart *c, const struct report *report, int r,
                                      epoch_value x, epoch_value y, const char *what) {
    const struct report_run *run = &report->runs[r];
    const int is_alone = report->n_runs == 1;
    struct chart_series *s = next_series(c);
    s->name = name_of(c, run, what, is_alone);
    s->group = r;
    s->colour = r;
    s->x = values_of(c, run, x);
    s->y = values_of(c, run, y);
    s->n = run->n_epochs;
    if (report->n_runs > 1 && report->n_runs <= LABELLED_MOST) {
        s->label = run->name;
    }
    return s;
}

/* The same number of every run, a curve each. */
static void add_curves(struct report_chart *c, const struct report *report, epoch_value x,
                       epoch_value y) {
    for (int r = 0; r < report->n_runs; r++) {
        add_curve(c, report, r, x, y, "");
    }
}

/* On the test set and in training: two curves for each of a few runs, or else only the first. */
static void add_pairs(struct report_chart *c, const struct report *report, epoch_value test,
                      epoch_value train) {
    for (int r = 0; r < report->n_runs; r++) {
        struct chart_series *s =
            add_curve(c, report, r, epoch_number, test, report->n_runs <= FEW ? "test" : "");
        s->label = report->n_runs == 1 ? "test" : s->label;
        if (report->n_runs <= FEW) {
            s = add_curve(c, report, r, epoch_number, train, "training");
            s->style = CHART_THIN;
            s->is_dashed = 1;
            s->label = report->n_runs == 1 ? "training" : NULL;
            s->colour = report->n_runs == 1 ? 1 : r;
        }
    }
}

/* --- spread over the nodes ----------------------------------------------------------------------- */

static void add_bands(struct report_chart *c, const struct report *report, epoch_value least,
                      epoch_value mean, epoch_value most, epoch_value spread) {
    for (int r = 0; r < report->n_runs; r++) {
        if (report->n_runs > FEW) {
            add_curve(c, report, r, epoch_number, spread, "");
            continue;
        }
        struct chart_series *s = add_curve(c, report, r, epoch_number, most, "least to most");
        s->style = CHART_BAND;
        s->label = NULL;
        s->low = values_of(c, &report->runs[r], least);
        s = add_curve(c, report, r, epoch_number, mean, "mean");
        s->label = report->n_runs == 1 ? "mean" : s->label;
    }
}

/* The average model's accuracy as a short line across, so that nodes are seen above or below. */
static void add_level(struct report_chart *c, const struct report_run *run, int r, double from,
                      double to, const char *name) {
    if (!isfinite(run->facts.accuracy)) {
        return;
    }
    struct chart_series *s = next_series(c);
    double *x = array(c, 2), *y = array(c, 2);
    x[0] = from;
    x[1] = to;
    y[0] = y[1] = run->facts.accuracy;
    s->name = name;
    s->group = r;
    s->colour = r;
    s->style = CHART_THIN;
    s->x = x;
    s->y = y;
    s->n = 2;
}

/* Nodes from left to right. */
static void add_nodes_alone(struct report_chart *c, const struct report_run *run) {
    struct chart_series *s = next_series(c);
    double *x = array(c, run->n_nodes), *y = array(c, run->n_nodes);
    int last = 0;
    for (int i = 0; i < run->n_nodes; i++) {
        x[i] = run->nodes[i].node;
        y[i] = run->nodes[i].accuracy;
        last = isfinite(y[i]) ? i : last;
    }
    s->name = "node's own model";
    s->style = CHART_DOTS;
    s->x = x;
    s->y = y;
    s->n = last + 1;
    add_level(c, run, 0, -0.5, last + 0.5, "average model");
    c->series[c->chart.n_series - 1].colour = 1;
    c->series[c->chart.n_series - 1].label = "average";
}

/* A column of dots for each run; from a record without nodes, the span and the mean. */
static void add_nodes_of(struct report_chart *c, const struct report *report, int r) {
    const struct report_run *run = &report->runs[r];
    const struct report_spread spread = report_node_accuracy(run);
    int n = 0;
    double *x = array(c, run->n_nodes), *y = array(c, run->n_nodes);
    for (int i = 0; i < run->n_nodes; i++) {
        if (isfinite(run->nodes[i].accuracy)) {
            const double turn =
                0.618034 * i; /* spread evenly, in no order that the eye would see */
            x[n] = r + 0.5 * (turn - floor(turn) - 0.5);
            y[n++] = run->nodes[i].accuracy;
        }
    }
    struct chart_series *s = next_series(c);
    s->name = name_of(c, run, "nodes", 0);
    s->group = r;
    s->colour = r;
    s->style = CHART_DOTS;
    s->x = x;
    s->y = y;
    s->n = n;
    if (n == 0 && isfinite(spread.least)) {
        double *ends = array(c, 4);
        ends[0] = ends[1] = r;
        ends[2] = spread.least;
        ends[3] = spread.most;
        s->x = ends;
        s->y = ends + 2;
        s->n = 2;
    }
    add_level(c, run, r, r - 0.36, r + 0.36, name_of(c, run, "average model", 0));
}

static void add_node_tests(struct report_chart *c, const struct report *report) {
    int any = 0;
    for (int r = 0; r < report->n_runs; r++) {
        any |= isfinite(report_node_accuracy(&report->runs[r]).least) &&
               report_has_nodes(&report->runs[r]);
    }
    if (!any) {
        return;
    }
    const struct report_run *first = &report->runs[0];
    if (report->n_runs == 1 && first->n_nodes > 1) {
        c->chart.x.label = "node";
        add_nodes_alone(c, first);
        return;
    }
    for (int r = 0; r < report->n_runs; r++) {
        c->ticks[r] = report->runs[r].name + strlen("run ");
        add_nodes_of(c, report, r);
    }
    c->chart.x.label = "run";
    c->chart.x.least = -0.5;
    c->chart.x.most = report->n_runs - 0.5;
    c->chart.x.names = c->ticks;
}

/* --- the charts ----------------------------------------------------------------------------------- */

/* What a chart says of itself; the second text is that of many runs, where it differs. */
struct look {
    const char *title, *about, *about_many, *missing;
    enum chart_kind kind;
    int is_log;
    double ceiling;
};

static const struct look looks[REPORT_VIEWS] = {
    [REPORT_ACCURACY] = {"Accuracy",
                         "per cent; solid: average model on the test set, dashed: training",
                         "per cent; the average model on the test set", "no epoch has ended",
                         CHART_PERCENT, 0, 100},
    [REPORT_TRAIN_ACCURACY] = {"Training accuracy", NULL,
                               "per cent; mean over the nodes and the epoch's steps",
                               "no epoch has ended", CHART_PERCENT, 0, 100},
    [REPORT_LOSS] = {"Loss",
                     "cross-entropy; solid: average model on the test set, dashed: training",
                     "cross-entropy; the average model on the test set", "no epoch has ended",
                     CHART_NUMBER, 0, 1e300},
    [REPORT_TRAIN_LOSS] = {"Training loss", NULL,
                           "cross-entropy; mean over the nodes and the epoch's steps",
                           "no epoch has ended", CHART_NUMBER, 0, 1e300},
    [REPORT_CONSENSUS] = {"Consensus distance",
                          "mean squared distance of the nodes from their average, relative to it",
                          NULL, "a single node, or nodes that never differed", CHART_NUMBER, 1, 0},
    [REPORT_BYTES] = {"Accuracy against bytes",
                      "test accuracy, per cent, by what all nodes have sent so far", NULL,
                      "nothing was sent", CHART_PERCENT, 0, 100},
    [REPORT_CLIPPED] = {"Clipped values", "per cent of quantized values that were out of range",
                        NULL, "no quantizer was watched", CHART_PERCENT, 0, 100},
    [REPORT_ZERO] = {"Gradients that became zero", "per cent, by rounding to 8 bits", NULL,
                     "no quantizer was watched", CHART_PERCENT, 0, 100},
    [REPORT_NODE_ACCURACY] = {"Training accuracy over nodes",
                              "per cent; from the least node to the most",
                              "points from the least node to the most",
                              "no numbers of single nodes are on record", CHART_PERCENT, 0, 100},
    [REPORT_NODE_LOSS] = {"Training loss over nodes",
                          "cross-entropy; from the least node to the most",
                          "cross-entropy from the least node to the most",
                          "no numbers of single nodes are on record", CHART_NUMBER, 0, 1e300},
    [REPORT_NODE_TEST] =
        {"Nodes' own models",
         "test accuracy at the end, per cent: dots are nodes, the line the average model", NULL,
         "nodes' own models have not been tested", CHART_PERCENT, 0, 100},
};

static void fill(struct report_chart *c, const struct report *report, enum report_view view) {
    switch (view) {
    case REPORT_ACCURACY:
        add_pairs(c, report, accuracy, train_accuracy);
        break;
    case REPORT_LOSS:
        add_pairs(c, report, loss, train_loss);
        break;
    case REPORT_TRAIN_ACCURACY:
    case REPORT_TRAIN_LOSS:
        if (report->n_runs > FEW) {
            add_curves(c, report, epoch_number,
                       view == REPORT_TRAIN_LOSS ? train_loss : train_accuracy);
        }
        break;
    case REPORT_CONSENSUS:
        add_curves(c, report, epoch_number, consensus);
        break;
    case REPORT_BYTES:
        add_curves(c, report, bytes_sent, accuracy);
        break;
    case REPORT_CLIPPED:
        add_curves(c, report, epoch_number, clipped);
        break;
    case REPORT_ZERO:
        add_curves(c, report, epoch_number, zero);
        break;
    case REPORT_NODE_ACCURACY:
        add_bands(c, report, node_accuracy_least, node_accuracy, node_accuracy_most,
                  node_accuracy_spread);
        break;
    case REPORT_NODE_LOSS:
        add_bands(c, report, node_loss_least, node_loss, node_loss_most, node_loss_spread);
        break;
    default:
        add_node_tests(c, report);
    }
}

/* A loss that no model of use has. */
enum { LOSS_MOST = 50 };

static int n_beyond(const struct chart_series *s) {
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        n += isfinite(s->y[i]) && s->y[i] > LOSS_MOST;
    }
    return n;
}

/* Beside a run that diverged the others would lie on the axis: it leaves the chart, unless there is
 * no other, and the axis becomes a logarithmic one. */
static void see_to_divergence(struct report_chart *c) {
    int n_sane = 0, n_diverged = 0;
    for (int s = 0; s < c->chart.n_series; s++) {
        const int is_diverged = n_beyond(&c->series[s]) > 0;
        n_diverged += is_diverged;
        n_sane += !is_diverged && c->series[s].n > 0;
    }
    c->chart.y.is_log |= n_diverged > 0 && n_sane == 0;
    c->note = n_diverged > 0 && n_sane > 0 ? "what is above 50 is left out" : "";
    for (int a = 0; a < c->n_arrays && *c->note; a++) {
        for (int i = 0; i < c->arrays[a].n; i++) {
            double *value = &c->arrays[a].at[i];
            *value = *value > LOSS_MOST ? (double)NAN : *value;
        }
    }
}

int report_chart(const struct report *report, enum report_view view, struct chart_box box,
                 struct report_chart *out) {
    const struct look *look = &looks[view];
    const size_t n = (size_t)report->n_runs;
    memset(out, 0, sizeof *out);
    out->note = "";
    out->series = cli_alloc(2 * n * sizeof *out->series);
    out->arrays = cli_alloc(8 * n * sizeof *out->arrays);
    out->names = cli_alloc(2 * n * sizeof *out->names);
    out->ticks = cli_alloc(n * sizeof *out->ticks);
    out->chart.box = box;
    out->chart.series = out->series;
    out->chart.x = (struct chart_axis){.kind = CHART_WHOLE, .label = "epoch"};
    out->chart.y =
        (struct chart_axis){.kind = look->kind, .is_log = look->is_log, .ceiling = look->ceiling};
    if (view == REPORT_BYTES) {
        out->chart.x = (struct chart_axis){.kind = CHART_BYTES, .is_log = 1, .label = "sent"};
    }
    fill(out, report, view);
    if (look->kind == CHART_NUMBER && !look->is_log) {
        see_to_divergence(out);
    }
    const int is_wanted = look->about || report->n_runs > FEW;
    const int is_there = chart_has_data(&out->chart);
    if (is_there) {
        chart_fit(&out->chart);
    } else {
        report_chart_fini(out);
        out->note = "";
        out->missing = is_wanted ? look->missing : NULL;
    }
    out->title = look->title;
    out->about = report->n_runs > FEW && look->about_many ? look->about_many : look->about;
    return is_there;
}

void report_chart_fini(struct report_chart *chart) {
    for (int i = 0; i < chart->n_arrays; i++) {
        free(chart->arrays[i].at);
    }
    for (int i = 0; i < chart->n_names; i++) {
        free(chart->names[i]);
    }
    free(chart->arrays);
    free(chart->names);
    free(chart->ticks);
    free(chart->series);
    memset(chart, 0, sizeof *chart);
}

/* --- the charts alone ------------------------------------------------------------------------------ */

enum { SVG_WIDTH = 440, SVG_HEIGHT = 270, SVG_HEAD = 40, SVG_LINE = 20, SVG_TOP = 44 };

/* Place `index` of two columns. */
static struct svg_point place(int index, double pitch) {
    const int column = index % 2, row = index / 2;
    return (struct svg_point){column * (double)SVG_WIDTH, row * pitch};
}

static void draw_legend(struct svg *svg, const struct report *report) {
    for (int r = 0; report->n_runs > 1 && r < report->n_runs; r++) {
        const struct svg_point at = place(r, SVG_LINE);
        const double x = 20 + at.x, y = SVG_TOP + at.y + 8;
        char stroke[16], class_name[32];
        snprintf(class_name, sizeof class_name, "curve %s", chart_stroke(r, stroke));
        svg_line(svg, class_name, x, y, x + 24, y);
        svg_text(svg, "ink", 's', x + 32, y + 4.5, "%.60s", report->runs[r].title);
    }
}

void report_svg(const struct report *report, FILE *out) {
    static const enum report_view views[] = {REPORT_ACCURACY, REPORT_LOSS, REPORT_CONSENSUS,
                                             REPORT_BYTES};
    struct report_chart charts[CLI_COUNT_OF(views)];
    const int n_lines = report->n_runs > 1 ? (report->n_runs + 1) / 2 : 0;
    const double top = SVG_TOP + SVG_LINE * n_lines, pitch = SVG_HEIGHT + SVG_HEAD;
    int n = 0;
    for (size_t i = 0; i < CLI_COUNT_OF(views); i++) {
        const struct svg_point at = place(n, pitch);
        const struct chart_box box = {10 + at.x, top + SVG_HEAD + at.y, SVG_WIDTH - 20, SVG_HEIGHT};
        n += report_chart(report, views[i], box, &charts[n]);
    }
    const char *title = report->n_runs == 1 ? report->runs[0].title : "Runs compared";
    struct svg *svg = svg_begin_alone(out, 2 * SVG_WIDTH, top + place(n + 1, pitch).y + 10, title);
    svg_text(svg, "title", 's', 20, 30, "%.90s", title);
    draw_legend(svg, report);
    for (int i = 0; i < n; i++) {
        const struct chart_box *box = &charts[i].chart.box;
        svg_text(svg, "ink", 's', box->x + 10, box->y - 18, "%s", charts[i].title);
        svg_text(svg, "tick", 's', box->x + 10, box->y - 2, "%s",
                 *charts[i].note ? charts[i].note : charts[i].about);
        chart_draw(svg, &charts[i].chart);
        report_chart_fini(&charts[i]);
    }
    svg_close(svg);
}
