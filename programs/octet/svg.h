/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - a small writer of SVG drawings, for commands that take --svg FILE.
 *
 *     struct svg *svg = svg_open("graph.svg", 400, 300, "eight nodes");
 *     svg_circle(svg, "node", 100, 100, 12);
 *     svg_text(svg, "label", 'm', 100, 104, "%d", 7);
 *     if (svg_close(svg) != 0) …
 *
 * A drawing stands by itself and follows the reader's light or dark mode: colours belong to
 * classes, and each class has one for either. Coordinates are pixels from the upper left corner.
 * Texts are escaped here. Errors wait: svg_close reports the first.
 *
 *     texts    title (large)  ink  dim (small, grey)  label (small, for the middle of a node)
 *     strokes  line (axis, frame)  grid (fainter)  edge (graph)  faint (graph with many edges)
 *     fills    panel (a ground to draw on)  node  bar  c0 … c9 (ten classes of anything)
 *
 * A page of several drawings holds the style sheet once (svg_style), and each of them between
 * svg_begin and svg_close. Its sheet also has curves, in classes that add up:
 *
 *     curve (a line in a chart)  s0 … s9 (strokes, as c0 … c9)  d1 d2 (dashes, dots)  thin
 *     tick (text of an axis)  band (c0 … c9, seen through)  rim (sets a dot off from what is below it)
 */
#ifndef OCTET_SVG_H
#define OCTET_SVG_H

#include <stdio.h>

#include <octet/export.h>

enum { SVG_SERIES = 10 }; /* c0 … c9 */

struct svg;

/* Never NULL; a file that cannot be written is reported by svg_close. `title` is what a screen
 * reader says. */
struct svg *svg_open(const char *path, double width, double height, const char *title);

/* A drawing in the middle of something else, which stays open: it has no style sheet and no ground.
 * `description` (may be NULL) is what a screen reader says on request. */
struct svg *svg_begin(FILE *out, double width, double height, const char *title,
                      const char *description);
void svg_style(FILE *out);

/* One that stands by itself, as svg_open's, in a file that stays open; its sheet has curves too. */
struct svg *svg_begin_alone(FILE *out, double width, double height, const char *title);

/* Text as HTML and XML take it, between tags and inside quotes. Control characters, which XML cannot
 * hold, become blanks, and bytes that are no UTF-8 (a path may have them) question marks. */
void svg_escape(FILE *out, const char *text);

/* 0, or the errno of the first thing that went wrong. */
int svg_close(struct svg *svg);

/* `anchor` says which part of the text is at x: 's' start, 'm' middle, 'e' end. y is its baseline. */
void svg_text(struct svg *svg, const char *class_name, char anchor, double x, double y,
              const char *format, ...) OCT_PRINTF(6, 7);

/* Upwards, its middle at x, y. */
void svg_turned_text(struct svg *svg, const char *class_name, double x, double y, const char *text);
void svg_line(struct svg *svg, const char *class_name, double x1, double y1, double x2, double y2);
void svg_circle(struct svg *svg, const char *class_name, double x, double y, double radius);
void svg_rect(struct svg *svg, const char *class_name, double x, double y, double width,
              double height);

struct svg_point {
    double x, y;
};

void svg_polyline(struct svg *svg, const char *class_name, const struct svg_point *points, int n);
void svg_polygon(struct svg *svg, const char *class_name, const struct svg_point *points, int n);

/* Many rectangles of one class, in little space. */
struct svg_box {
    double x, y, width, height;
};

void svg_boxes(struct svg *svg, const char *class_name, const struct svg_box *boxes, int n);

/* A line from one point to another that bulges by `bend` pixels to its left (negative: right), with
 * a head of `head` pixels at its end (0: none). */
struct svg_arrow {
    double x1, y1, x2, y2, bend, head, width;
};

void svg_arrow(struct svg *svg, const char *class_name, const struct svg_arrow *arrow);

/* What is drawn until the end of the group shows this text when it is pointed at. */
void svg_group_begin(struct svg *svg, const char *format, ...) OCT_PRINTF(2, 3);

/* A group with data for scripts: name, value, … , NULL become data-name="value". */
void svg_data_begin(struct svg *svg, const char *class_name, const char *const *pairs);
void svg_group_end(struct svg *svg);

#endif
