/* SPDX-License-Identifier: Apache-2.0 */
/* chart.h - curves, bands and dots between two axes, for reports.
 *
 *     struct chart chart = {.box = {0, 0, 420, 260}, .x = {.kind = CHART_WHOLE, .label = "epoch"}, …};
 *     chart.series = series; chart.n_series = 2;
 *     chart_fit(&chart);             ranges and ticks from what is to be seen
 *     chart_draw(svg, &chart);
 *
 * What is not finite is left out, and on a logarithmic axis what is not positive; a curve has a gap
 * there, but for a NaN, which is a number that nobody knows: the line goes on to the next. An axis that the caller gave a range (most > least) keeps it.
 */
#ifndef OCTET_CHART_H
#define OCTET_CHART_H

#include "cli.h"
#include "svg.h"

enum { CHART_TICKS = 16 };

/* What an axis counts: it says which steps are round, and how numbers are written. */
enum chart_kind { CHART_NUMBER, CHART_WHOLE, CHART_PERCENT, CHART_BYTES };

struct chart_axis {
    enum chart_kind kind;
    int is_log;
    const char *label;
    const char *const *names; /* of the whole numbers from 0 on, instead of them; NULL: none */
    double least, most;
    double floor, ceiling; /* a range found here stays within, when ceiling > floor */
    double ticks[CHART_TICKS];
    int n_ticks;
};

enum chart_style {
    CHART_CURVE,
    CHART_THIN, /* a curve beside the ones that matter */
    CHART_BAND, /* from `low` to `y` */
    CHART_DOTS, /* points without a line */
    CHART_MARK  /* one point of weight, such as a mean */
};

struct chart_series {
    const char *name;  /* when pointed at, and (`label`) at the end of the curve */
    const char *label; /* NULL: none */
    int group;         /* series of a group are switched on and off together */
    int colour;        /* 0, 1, …; from SVG_SERIES on with dashes, then dots */
    enum chart_style style;
    int is_dashed; /* whatever the colour says */
    const double *x, *y, *low;
    int n;
};

struct chart_box {
    double x, y, width, height;
};

struct chart {
    struct chart_box box;
    struct chart_axis x, y;
    const struct chart_series *series;
    int n_series;
    /* found by chart_fit: where the plot is inside the box */
    struct chart_box plot;
};

/* Whether there is anything to be seen. */
int chart_has_data(const struct chart *chart);

void chart_fit(struct chart *chart);
void chart_draw(struct svg *svg, const struct chart *chart);

/* Pixels of a value; outside of the plot for one outside of the range. */
double chart_x(const struct chart *chart, double value);
double chart_y(const struct chart *chart, double value);

/* A number of an axis as text: 0.25, 85 %, 10 MiB. */
struct cli_text chart_number(const struct chart_axis *axis, double value);

/* "s3 d1": the stroke of a colour beyond the ten. */
const char *chart_stroke(int colour, char out[16]);

#endif
