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
 */
#ifndef OCTET_SVG_H
#define OCTET_SVG_H

#include <octet/export.h>

enum { SVG_SERIES = 10 }; /* c0 … c9 */

struct svg;

/* Never NULL; a file that cannot be written is reported by svg_close. `title` is what a screen
 * reader says. */
struct svg *svg_open(const char *path, double width, double height, const char *title);

/* 0, or the errno of the first thing that went wrong. */
int svg_close(struct svg *svg);

/* `anchor` says which part of the text is at x: 's' start, 'm' middle, 'e' end. y is its baseline. */
void svg_text(struct svg *svg, const char *class_name, char anchor, double x, double y,
              const char *format, ...) OCT_PRINTF(6, 7);
void svg_line(struct svg *svg, const char *class_name, double x1, double y1, double x2, double y2);
void svg_circle(struct svg *svg, const char *class_name, double x, double y, double radius);
void svg_rect(struct svg *svg, const char *class_name, double x, double y, double width,
              double height);

/* A line from one point to another that bulges by `bend` pixels to its left (negative: right), with
 * a head of `head` pixels at its end (0: none). */
struct svg_arrow {
    double x1, y1, x2, y2, bend, head, width;
};

void svg_arrow(struct svg *svg, const char *class_name, const struct svg_arrow *arrow);

/* What is drawn until the end of the group shows this text when it is pointed at. */
void svg_group_begin(struct svg *svg, const char *format, ...) OCT_PRINTF(2, 3);
void svg_group_end(struct svg *svg);

#endif
