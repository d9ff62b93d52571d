/* SPDX-License-Identifier: Apache-2.0 */
/* chart.c - ranges, round ticks, and the marks of a chart.
 *
 * Ticks are 1, 2 or 5 times a power of ten; those of bytes are so within a unit (1, 10, 100 MiB, then
 * 1 GiB). A plain axis begins and ends at a tick; a logarithmic one, and one of whole numbers, at the data.
 */
#include "chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOP = 10,
    BOTTOM = 40,        /* room for ticks and the label below */
    RIGHT = 14,         /* without labels there */
    CHARACTER = 6,      /* width of one, of a tick or label, on average */
    LABEL_PITCH = 13,   /* labels at the ends stay so far apart */
    DOTTED_POINTS = 40, /* a curve of so few points shows them */
    LABEL_CHARACTERS = 16
};

/* --- ranges --------------------------------------------------------------------------------- */

static int is_visible(const struct chart_axis *axis, double value) {
    return isfinite(value) && (!axis->is_log || value > 0);
}

static int point_is_visible(const struct chart *chart, const struct chart_series *s, int i) {
    return is_visible(&chart->x, s->x[i]) && is_visible(&chart->y, s->y[i]) &&
           (s->style != CHART_BAND || is_visible(&chart->y, s->low[i]));
}

int chart_has_data(const struct chart *chart) {
    for (int s = 0; s < chart->n_series; s++) {
        for (int i = 0; i < chart->series[s].n; i++) {
            if (point_is_visible(chart, &chart->series[s], i)) {
                return 1;
            }
        }
    }
    return 0;
}

static void widen(double *least, double *most, double value) {
    *least = value < *least ? value : *least;
    *most = value > *most ? value : *most;
}

static void find_ranges(const struct chart *chart, double x[2], double y[2]) {
    int has_dots = 0;
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (int s = 0; s < chart->n_series; s++) {
        const struct chart_series *series = &chart->series[s];
        for (int i = 0; i < series->n; i++) {
            if (!point_is_visible(chart, series, i)) {
                continue;
            }
            widen(&x[0], &x[1], series->x[i]);
            widen(&y[0], &y[1], series->y[i]);
            if (series->style == CHART_BAND) {
                widen(&y[0], &y[1], series->low[i]);
            }
            has_dots |= series->style == CHART_DOTS;
        }
    }
    if (has_dots && !chart->y.is_log) { /* none is cut in half by the frame */
        const double air = 0.03 * (y[1] - y[0]);
        y[0] -= air;
        y[1] += air;
    }
}

/* --- ticks ---------------------------------------------------------------------------------- */

static void add_tick(struct chart_axis *axis, double value) {
    if (axis->n_ticks < CHART_TICKS) {
        axis->ticks[axis->n_ticks++] = value;
    }
}

/* The smallest of 1, 2, 5, 10, … that makes no more than so many steps of `span`. */
static double round_step(double span, int most_steps) {
    static const double steps[] = {1, 2, 5, 10};
    const double rough = span / most_steps, power = pow(10, floor(log10(rough)));
    for (int i = 0; i < 4; i++) {
        if (steps[i] * power >= rough * (1 - 1e-9)) {
            return steps[i] * power;
        }
    }
    return 10 * power;
}

static void linear_ticks(struct chart_axis *axis, int n_wanted) {
    const int is_whole = axis->kind == CHART_WHOLE;
    if (!(axis->most > axis->least)) {
        const double half = is_whole ? 0.5 : axis->least == 0 ? 0.5 : 0.05 * fabs(axis->least);
        axis->least -= half;
        axis->most += half;
    }
    double step = round_step(axis->most - axis->least, n_wanted);
    step = is_whole && step < 1 ? 1 : step;
    if (!is_whole) {
        axis->least = step * floor(axis->least / step + 1e-9);
        axis->most = step * ceil(axis->most / step - 1e-9);
        if (axis->ceiling > axis->floor) {
            axis->least = axis->least < axis->floor ? axis->floor : axis->least;
            axis->most = axis->most > axis->ceiling ? axis->ceiling : axis->most;
        }
    }
    const double last = axis->most + 1e-6 * step;
    const double first = ceil(axis->least / step - 1e-6);
    for (int i = 0; i < CHART_TICKS && (first + i) * step <= last; i++) {
        add_tick(axis, (first + i) * step + 0.0); /* no -0 */
    }
    /* The first epoch is worth a tick, and with it the last that is not next to another. */
    if (is_whole && step > 1 && axis->least >= 1 && axis->n_ticks > 0 &&
        axis->ticks[0] - axis->least >= 0.6 * step) {
        memmove(axis->ticks + 1, axis->ticks, sizeof axis->ticks - sizeof axis->ticks[0]);
        axis->ticks[0] = axis->least;
        axis->n_ticks += axis->n_ticks < CHART_TICKS;
    }
}

/* 1, 1024, … : what so many bytes are counted in. */
static double unit_of(double bytes) {
    double unit = 1;
    while (bytes / unit >= 1023.5 && unit < 1e18) {
        unit *= 1024;
    }
    return unit;
}

/* Powers of ten; of bytes, 1, 10 and 100 of each unit. `k` counts them. */
static double power_of(const struct chart_axis *axis, int k) {
    if (axis->kind != CHART_BYTES) {
        return pow(10, k);
    }
    const int unit = (int)floor(k / 3.0);
    return pow(1024, unit) * pow(10, k - 3 * unit);
}

static void log_ticks(struct chart_axis *axis, int n_wanted) {
    static const double parts[] = {1, 2, 5};
    if (!(axis->most > axis->least)) {
        axis->least /= 2;
        axis->most *= 2;
    } else { /* a little air; no curve runs along the frame */
        const double air = pow(axis->most / axis->least, 0.05);
        axis->least /= air;
        axis->most *= air;
    }
    int first = (int)floor(log10(axis->least)) - 3, last = (int)ceil(log10(axis->most)) + 3, n = 0;
    for (int k = first; k <= last; k++) {
        n += power_of(axis, k) >= axis->least && power_of(axis, k) <= axis->most;
    }
    const int stride = n > n_wanted ? (n + n_wanted - 1) / n_wanted : 1;
    const int n_parts = n <= 2 ? 3 : 1;
    for (int k = first; k <= last; k++) {
        for (int part = 0; part < n_parts; part++) {
            const double tick = parts[part] * power_of(axis, k);
            if (tick >= axis->least && tick <= axis->most &&
                (n_parts > 1 || (k % stride + stride) % stride == 0)) {
                add_tick(axis, tick);
            }
        }
    }
    if (axis->n_ticks < 3) { /* nearly as on a plain axis */
        const double unit = axis->kind == CHART_BYTES ? unit_of(axis->most) : 1;
        const double step = unit * round_step((axis->most - axis->least) / unit, n_wanted);
        const double first_step = floor(axis->least / step), last_step = ceil(axis->most / step);
        axis->n_ticks = 0;
        for (int i = first_step > 0 ? 0 : 1; i < CHART_TICKS && first_step + i <= last_step; i++) {
            add_tick(axis, (first_step + i) * step);
        }
        widen(&axis->least, &axis->most, axis->ticks[0]);
        widen(&axis->least, &axis->most, axis->ticks[axis->n_ticks - 1]);
    }
}

static void fit_axis(struct chart_axis *axis, const double range[2], int n_wanted) {
    const int is_given = axis->most > axis->least;
    if (!is_given) {
        axis->least = range[0];
        axis->most = range[1];
    }
    axis->n_ticks = 0;
    if (!isfinite(axis->least) || !isfinite(axis->most)) {
        axis->least = axis->is_log ? 1 : 0;
        axis->most = axis->is_log ? 10 : 1;
    }
    if (axis->is_log) {
        log_ticks(axis, n_wanted);
    } else {
        linear_ticks(axis, n_wanted);
    }
}

/* --- numbers -------------------------------------------------------------------------------- */

/* Decimals that tell the ticks of an axis apart. */
static int digits_of(const struct chart_axis *axis) {
    double step = axis->n_ticks > 1 ? axis->ticks[1] - axis->ticks[0] : axis->most - axis->least;
    int digits = 0;
    for (; digits < 6 && step > 0 && fabs(step - round(step)) > 1e-6 * step; digits++) {
        step *= 10;
    }
    return digits;
}

static struct cli_text bytes_text(double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct cli_text out;
    int unit = 0;
    while (bytes >= 1023.5 && unit < 6) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out.text, sizeof out.text, "%.3g %s", bytes, units[unit]);
    return out;
}

/* 0.02, 500; or 2e-4, 1e6 where an axis goes that far. */
static struct cli_text log_text(const struct chart_axis *axis, double value) {
    struct cli_text out;
    if (axis->least >= 0.0005 && axis->most <= 99999) {
        snprintf(out.text, sizeof out.text, "%.*f", value < 0.01 ? 4 : value < 1 ? 3 : 0, value);
        char *point = strchr(out.text, '.');
        for (char *end = out.text + strlen(out.text) - 1; point && end >= point; end--) {
            if (*end != '0' && *end != '.') {
                break;
            }
            *end = '\0';
        }
        return out;
    }
    int power = (int)floor(log10(value) + 1e-9);
    if (power == 0) {
        snprintf(out.text, sizeof out.text, "%.2g", value);
    } else {
        snprintf(out.text, sizeof out.text, "%.2ge%d", value / pow(10, power), power);
    }
    return out;
}

struct cli_text chart_number(const struct chart_axis *axis, double value) {
    struct cli_text out;
    if (axis->names) {
        snprintf(out.text, sizeof out.text, "%s", axis->names[lround(value)]);
        return out;
    }
    if (axis->kind == CHART_BYTES) {
        return bytes_text(value);
    }
    if (axis->is_log) {
        return log_text(axis, value);
    }
    out = cli_decimals(value, digits_of(axis));
    if (axis->kind == CHART_WHOLE && fabs(value) >= 10000) {
        out = cli_count(value);
    }
    return out;
}

/* --- pixels --------------------------------------------------------------------------------- */

static double part_of(const struct chart_axis *axis, double value) {
    if (axis->is_log) {
        return log(value / axis->least) / log(axis->most / axis->least);
    }
    return (value - axis->least) / (axis->most - axis->least);
}

double chart_x(const struct chart *chart, double value) {
    return chart->plot.x + chart->plot.width * part_of(&chart->x, value);
}

double chart_y(const struct chart *chart, double value) {
    return chart->plot.y + chart->plot.height * (1 - part_of(&chart->y, value));
}

static int characters(const char *text) {
    int n = 0;
    for (; *text; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static int widest_tick(const struct chart_axis *axis) {
    int widest = 1;
    for (int i = 0; i < axis->n_ticks; i++) {
        int n = characters(chart_number(axis, axis->ticks[i]).text);
        widest = n > widest ? n : widest;
    }
    return widest;
}

static int is_power(const struct chart_axis *axis, double tick) {
    for (int k = -30; k <= 60; k++) {
        if (fabs(tick / power_of(axis, k) - 1) < 1e-9) {
            return 1;
        }
    }
    return 0;
}

/* Pixels that the texts of two neighbours need from middle to middle. */
static double room_of(const struct chart_axis *axis, double a, double b) {
    return 10 +
           0.5 * (CHARACTER + 0.4) *
               (characters(chart_number(axis, a).text) + characters(chart_number(axis, b).text));
}

static int ticks_touch(const struct chart *chart) {
    const struct chart_axis *axis = &chart->x;
    for (int i = 1; i < axis->n_ticks; i++) {
        const double a = axis->ticks[i - 1], b = axis->ticks[i];
        if (chart_x(chart, b) - chart_x(chart, a) < room_of(axis, a, b)) {
            return 1;
        }
    }
    return 0;
}

/* Ticks below whose texts would touch: of a logarithmic axis the powers stay, of others every
 * second. */
static void thin_ticks(struct chart *chart) {
    struct chart_axis *axis = &chart->x;
    if (axis->is_log && ticks_touch(chart)) {
        int n = 0;
        for (int i = 0; i < axis->n_ticks; i++) {
            n += is_power(axis, axis->ticks[i]);
        }
        for (int i = 0, kept = 0; n >= 2 && i < axis->n_ticks; i++) {
            if (is_power(axis, axis->ticks[i])) {
                axis->ticks[kept++] = axis->ticks[i];
            }
        }
        axis->n_ticks = n >= 2 ? n : axis->n_ticks;
    }
    while (axis->n_ticks > 2 && ticks_touch(chart)) {
        for (int i = 0; 2 * i < axis->n_ticks; i++) {
            axis->ticks[i] = axis->ticks[2 * i];
        }
        axis->n_ticks = (axis->n_ticks + 1) / 2;
    }
}

void chart_fit(struct chart *chart) {
    double x[2], y[2];
    int longest = 0;
    find_ranges(chart, x, y);
    const double height = chart->box.height - TOP - BOTTOM;
    fit_axis(&chart->y, y, height > 150 ? 5 : 4);
    fit_axis(&chart->x, x, chart->x.names ? CHART_TICKS - 1 : 6);
    for (int s = 0; s < chart->n_series; s++) {
        const char *label = chart->series[s].label;
        int n = label ? characters(label) : 0;
        n = n > LABEL_CHARACTERS ? LABEL_CHARACTERS : n;
        longest = n > longest ? n : longest;
    }
    const double left = 22 + (CHARACTER + 0.4) * widest_tick(&chart->y);
    const double last = 4 + 0.5 * (CHARACTER + 0.4) * widest_tick(&chart->x);
    const double right = longest ? 24 + (CHARACTER + 0.6) * longest : last > RIGHT ? last : RIGHT;
    chart->plot = (struct chart_box){chart->box.x + left, chart->box.y + TOP,
                                     chart->box.width - left - right, height};
    thin_ticks(chart);
}

/* --- drawing -------------------------------------------------------------------------------- */

const char *chart_stroke(int colour, char out[16]) {
    static const char *const dashes[] = {"", " d1", " d2"};
    snprintf(out, 16, "s%d%s", colour % SVG_SERIES, dashes[colour / SVG_SERIES % 3]);
    return out;
}

static void draw_axes(struct svg *svg, const struct chart *chart) {
    const struct chart_box *p = &chart->plot;
    const double bottom = p->y + p->height;
    for (int i = 0; i < chart->y.n_ticks; i++) {
        const double y = chart_y(chart, chart->y.ticks[i]);
        svg_line(svg, "grid", p->x, y, p->x + p->width, y);
        svg_text(svg, "tick", 'e', p->x - 6, y + 4, "%s",
                 chart_number(&chart->y, chart->y.ticks[i]).text);
    }
    for (int i = 0; i < chart->x.n_ticks; i++) {
        const double x = chart_x(chart, chart->x.ticks[i]);
        svg_line(svg, "line", x, bottom, x, bottom + 4);
        svg_text(svg, "tick", 'm', x, bottom + 17, "%s",
                 chart_number(&chart->x, chart->x.ticks[i]).text);
    }
    svg_line(svg, "line", p->x, bottom, p->x + p->width, bottom);
    if (chart->x.label) {
        svg_text(svg, "tick", 'm', p->x + p->width / 2, bottom + 34, "%s", chart->x.label);
    }
    if (chart->y.label) {
        svg_turned_text(svg, "tick", chart->box.x + 11, p->y + p->height / 2, chart->y.label);
    }
}

static void draw_band(struct svg *svg, const struct chart *chart, const struct chart_series *s,
                      int from, int to) {
    const int n = to - from;
    struct svg_point *points = cli_alloc(2 * (size_t)n * sizeof *points);
    char class_name[16];
    for (int i = 0; i < n; i++) {
        points[i] =
            (struct svg_point){chart_x(chart, s->x[from + i]), chart_y(chart, s->y[from + i])};
        points[2 * n - 1 - i] =
            (struct svg_point){chart_x(chart, s->x[from + i]), chart_y(chart, s->low[from + i])};
    }
    snprintf(class_name, sizeof class_name, "band c%d", s->colour % SVG_SERIES);
    if (n == 1) { /* a bar as wide as a mark */
        svg_rect(svg, class_name, points[0].x - 4, points[0].y, 8, points[1].y - points[0].y);
    } else {
        svg_polygon(svg, class_name, points, 2 * n);
    }
    free(points);
}

static void draw_curve(struct svg *svg, const struct chart *chart, const struct chart_series *s,
                       int from, int to) {
    struct svg_point *points = cli_alloc((size_t)(to - from) * sizeof *points);
    char stroke[16], class_name[48];
    int n = 0;
    for (int i = from; i < to; i++) {
        if (point_is_visible(chart, s, i)) {
            points[n++] = (struct svg_point){chart_x(chart, s->x[i]), chart_y(chart, s->y[i])};
        }
    }
    snprintf(class_name, sizeof class_name, "curve %s%s%s", chart_stroke(s->colour, stroke),
             s->is_dashed ? " d1" : "", s->style == CHART_THIN ? " thin" : "");
    if (n > 0) {
        svg_polyline(svg, class_name, points, n);
    }
    free(points);
}

static void draw_dots(struct svg *svg, const struct chart *chart, const struct chart_series *s) {
    char class_name[16];
    const double radius = s->style == CHART_MARK ? 5 : s->style == CHART_DOTS ? 3.2 : 2.4;
    snprintf(class_name, sizeof class_name, "c%d%s", s->colour % SVG_SERIES,
             s->style == CHART_CURVE || s->style == CHART_THIN ? "" : " rim");
    for (int i = 0; i < s->n; i++) {
        if (point_is_visible(chart, s, i)) {
            svg_circle(svg, class_name, chart_x(chart, s->x[i]), chart_y(chart, s->y[i]), radius);
        }
    }
}

static int n_visible(const struct chart *chart, const struct chart_series *s) {
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        n += point_is_visible(chart, s, i);
    }
    return n;
}

static void draw_series(struct svg *svg, const struct chart *chart, const struct chart_series *s) {
    char group[16];
    snprintf(group, sizeof group, "%d", s->group);
    const char *const pairs[] = {"group", group, "name", s->name ? s->name : "", NULL};
    const int is_line = s->style == CHART_CURVE || s->style == CHART_THIN;
    svg_data_begin(svg, s->style == CHART_BAND ? "series spread" : "series", pairs);
    for (int from = 0; from < s->n && (is_line || s->style == CHART_BAND);) {
        int to = from;
        while (to < s->n && (point_is_visible(chart, s, to) || (is_line && isnan(s->y[to])))) {
            to++;
        }
        if (to > from && s->style == CHART_BAND) {
            draw_band(svg, chart, s, from, to);
        } else if (to > from) {
            draw_curve(svg, chart, s, from, to);
        }
        from = to + 1;
    }
    if (s->style == CHART_DOTS || s->style == CHART_MARK ||
        (s->style == CHART_CURVE && n_visible(chart, s) <= DOTTED_POINTS) ||
        (s->style == CHART_THIN && n_visible(chart, s) == 1)) {
        draw_dots(svg, chart, s);
    }
    svg_group_end(svg);
}

/* --- labels at the ends of curves ----------------------------------------------------------- */

struct end {
    double y;
    const struct chart_series *series;
};

static int by_height(const void *a, const void *b) {
    const struct end *x = a, *y = b;
    return (x->y > y->y) - (x->y < y->y);
}

/* Moves them apart, and back into the plot. */
static void spread_out(struct end *ends, int n, double top, double bottom) {
    for (int i = 1; i < n; i++) {
        if (ends[i].y < ends[i - 1].y + LABEL_PITCH) {
            ends[i].y = ends[i - 1].y + LABEL_PITCH;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        const double most = i == n - 1 ? bottom : ends[i + 1].y - LABEL_PITCH;
        ends[i].y = ends[i].y > most ? most : ends[i].y;
    }
    for (int i = 0; i < n; i++) {
        const double least = i == 0 ? top : ends[i - 1].y + LABEL_PITCH;
        ends[i].y = ends[i].y < least ? least : ends[i].y;
    }
}

static void draw_labels(struct svg *svg, const struct chart *chart) {
    struct end *ends = cli_alloc((size_t)chart->n_series * sizeof *ends);
    int n = 0;
    for (int s = 0; s < chart->n_series; s++) {
        const struct chart_series *series = &chart->series[s];
        int last = series->n - 1;
        while (last >= 0 && !point_is_visible(chart, series, last)) {
            last--;
        }
        if (series->label && last >= 0) {
            ends[n++] = (struct end){chart_y(chart, series->y[last]), series};
        }
    }
    qsort(ends, (size_t)n, sizeof *ends, by_height);
    spread_out(ends, n, chart->plot.y, chart->plot.y + chart->plot.height);
    const double x = chart->plot.x + chart->plot.width + 7;
    for (int i = 0; i < n; i++) {
        char group[16], class_name[32], stroke[16];
        snprintf(group, sizeof group, "%d", ends[i].series->group);
        const char *const pairs[] = {"group", group, NULL};
        svg_data_begin(svg, "series", pairs);
        snprintf(class_name, sizeof class_name, "curve %s%s",
                 chart_stroke(ends[i].series->colour, stroke),
                 ends[i].series->is_dashed ? " d1" : "");
        svg_line(svg, class_name, x, ends[i].y, x + 7, ends[i].y);
        svg_text(svg, "tick", 's', x + 11, ends[i].y + 4, "%.*s", LABEL_CHARACTERS,
                 ends[i].series->label);
        svg_group_end(svg);
    }
    free(ends);
}

/* A script finds the values again from the pixels: scale, range in pixels, range in numbers. */
static void axis_data(const struct chart_axis *axis, double from, double to, char out[160]) {
    static const char *const kinds[] = {"number", "whole", "percent", "bytes"};
    snprintf(out, 160, "%s %s %.2f %.2f %.9g %.9g", axis->is_log ? "log" : "linear",
             kinds[axis->kind], from, to, axis->least, axis->most);
}

void chart_draw(struct svg *svg, const struct chart *chart) {
    const struct chart_box *p = &chart->plot;
    char x[160], y[160];
    axis_data(&chart->x, p->x, p->x + p->width, x);
    axis_data(&chart->y, p->y + p->height, p->y, y);
    const char *const pairs[] = {"x", x, "y", y, "xname", chart->x.label ? chart->x.label : "",
                                 NULL};
    svg_data_begin(svg, "chart", pairs);
    draw_axes(svg, chart);
    for (int s = 0; s < chart->n_series; s++) { /* bands lie below */
        if (chart->series[s].style == CHART_BAND) {
            draw_series(svg, chart, &chart->series[s]);
        }
    }
    for (int s = 0; s < chart->n_series; s++) {
        if (chart->series[s].style != CHART_BAND) {
            draw_series(svg, chart, &chart->series[s]);
        }
    }
    draw_labels(svg, chart);
    svg_group_end(svg);
}
