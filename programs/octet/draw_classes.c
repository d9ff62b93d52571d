/* SPDX-License-Identifier: Apache-2.0 */
/* draw_classes.c - circles over a grid of nodes and classes, with axes and a key to their areas. */
#include "draw_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void classes_lay_out(struct classes_figure *f) {
    const int longer = f->n_nodes > f->n_classes ? f->n_nodes : f->n_classes;
    f->cell = f->room / longer;
    f->cell = f->cell > f->most_cell ? f->most_cell : f->cell < 6 ? 6 : f->cell;
    f->right = f->left + f->cell * f->n_nodes;
    f->end = f->top + f->cell * f->n_classes;
    f->largest = 0.47 * f->cell;
    f->most = 1;
    for (size_t i = 0; i < (size_t)f->n_nodes * (size_t)f->n_classes; i++) {
        f->most = f->counts[i] > f->most ? f->counts[i] : f->most;
    }
}

double classes_bottom(const struct classes_figure *f) {
    return f->end + 82 + 2 * f->largest;
}

static uint32_t count_of(const struct classes_figure *f, int node, int label) {
    return f->counts[(size_t)node * (size_t)f->n_classes + (size_t)label];
}

static double radius_of(const struct classes_figure *f, double count) {
    return f->largest * sqrt(count / f->most);
}

/* Every so many a label, so that they stay `room` pixels apart: 1, 2, 5, 10, … */
static int label_stride(const struct classes_figure *f, double room) {
    static const int steps[] = {1, 2, 5};
    int stride = 1;
    for (int i = 0; stride * f->cell < room && stride < 100000; i++) {
        stride = steps[i % 3];
        for (int ten = 0; ten < i / 3; ten++) {
            stride *= 10;
        }
    }
    return stride;
}

static void draw_axes(struct svg *svg, const struct classes_figure *f) {
    char text[32];
    int stride = label_stride(f, 10.0 + 8 * snprintf(text, sizeof text, "%d", f->n_nodes));
    for (int node = 0; node < f->n_nodes; node++) {
        double x = f->left + f->cell * (node + 0.5);
        if (node % stride == 0) {
            svg_line(svg, "grid", x, f->top, x, f->end);
            svg_text(svg, "ink", 'm', x, f->end + 20, "%d", node);
        }
    }
    stride = label_stride(f, 15);
    for (int c = 0; c < f->n_classes; c++) {
        double y = f->end - f->cell * (c + 0.5);
        if (c % stride == 0) {
            svg_line(svg, "grid", f->left, y, f->right, y);
            svg_text(svg, "ink", 'e', f->left - 10, y + 4.5, "%d", c);
        }
    }
    svg_line(svg, "line", f->left, f->end, f->right, f->end);
    svg_line(svg, "line", f->left, f->top, f->left, f->end);
    svg_text(svg, "dim", 's', f->left > 60 ? f->left - 54 : 4, f->top - 8, "class");
    svg_text(svg, "dim", 's', f->left, f->end + 40, "node");
}

static void draw_circles(struct svg *svg, const struct classes_figure *f) {
    const size_t n = (size_t)f->n_nodes * (size_t)f->n_classes;
    int n_circles = 0;
    for (size_t i = 0; i < n; i++) {
        n_circles += f->counts[i] > 0;
    }
    const int is_told = n_circles <= f->most_told;
    for (int node = 0; node < f->n_nodes; node++) {
        for (int c = 0; c < f->n_classes; c++) {
            const uint32_t count = count_of(f, node, c);
            char colour[8];
            if (count == 0) {
                continue;
            }
            if (is_told) {
                svg_group_begin(svg, "node %d, class %d: %s sample%s", node, c,
                                cli_count(count).text, count == 1 ? "" : "s");
            }
            snprintf(colour, sizeof colour, "c%d", c % SVG_SERIES);
            svg_circle(svg, colour, f->left + f->cell * (node + 0.5), f->end - f->cell * (c + 0.5),
                       radius_of(f, count));
            if (is_told) {
                svg_group_end(svg);
            }
        }
    }
}

/* A few circles with their numbers: the largest of the drawing, a quarter and a sixteenth of it. */
static void draw_key(struct svg *svg, const struct classes_figure *f) {
    double x = f->left, y = f->end + 58 + f->largest;
    uint32_t before = 0;
    for (uint32_t part = 1; part <= 16; part *= 4) {
        uint32_t count = f->most / part;
        double radius = radius_of(f, count);
        if (count == 0 || count == before) {
            continue;
        }
        svg_circle(svg, "bar", x + radius, y, radius);
        struct cli_text text = cli_count(count);
        svg_text(svg, "dim", 's', x + 2 * radius + 6, y + 4, "%s", text.text);
        x += 2 * radius + 20 + 7 * (double)strlen(text.text);
        before = count;
    }
    svg_text(svg, "dim", 's', x, y + 4, "samples");
}

void classes_draw(struct svg *svg, const struct classes_figure *f) {
    draw_axes(svg, f);
    draw_circles(svg, f);
    draw_key(svg, f);
}

/* --- columns ---------------------------------------------------------------------------------- */

static double size_of(const struct classes_figure *f, int node, int n_classes) {
    double size = 0;
    for (int c = 0; c < n_classes; c++) {
        size += count_of(f, node, c);
    }
    return size;
}

static void draw_column_axes(struct svg *svg, const struct classes_figure *f, struct svg_box box,
                             double largest) {
    const double pitch = box.width / f->n_nodes, bottom = box.y + box.height;
    const struct classes_figure scale = {.cell = pitch};
    const int stride = label_stride(&scale, 60);
    for (int node = 0; node < f->n_nodes; node += stride) {
        svg_text(svg, "tick", 'm', box.x + pitch * (node + 0.5), bottom + 17, "%d", node);
    }
    svg_line(svg, "line", box.x, bottom, box.x + box.width, bottom);
    svg_text(svg, "tick", 's', box.x, bottom + 34, "node");
    const int n_keys = f->n_classes < SVG_SERIES ? f->n_classes : SVG_SERIES;
    const double keys = box.x + box.width - 34 * n_keys - 10;
    svg_text(svg, "tick", 'e', keys - 8, bottom + 34, "%s",
             f->n_classes > SVG_SERIES ? "class, its last digit" : "class");
    for (int c = 0; c < n_keys; c++) {
        const double x = keys + 34 * c;
        char colour[8];
        snprintf(colour, sizeof colour, "c%d", c % SVG_SERIES);
        svg_rect(svg, colour, x, bottom + 25, 10, 10);
        svg_text(svg, "tick", 's', x + 14, bottom + 34, "%d", c);
    }
    svg_text(svg, "tick", 'e', box.x - 6, box.y + 8, "%s", cli_count(largest).text);
    svg_text(svg, "tick", 'e', box.x - 6, bottom + 4, "0");
}

void classes_draw_columns(struct svg *svg, const struct classes_figure *f, struct svg_box box) {
    const double pitch = box.width / f->n_nodes, width = pitch > 4 ? pitch - 1 : pitch;
    struct svg_box *boxes = cli_alloc((size_t)f->n_nodes * sizeof *boxes);
    double largest = 1;
    for (int node = 0; node < f->n_nodes; node++) {
        const double size = size_of(f, node, f->n_classes);
        largest = size > largest ? size : largest;
    }
    for (int c = 0; c < f->n_classes; c++) {
        char colour[8];
        int n = 0;
        for (int node = 0; node < f->n_nodes; node++) {
            const double height = box.height * count_of(f, node, c) / largest;
            const double below = box.height * size_of(f, node, c) / largest;
            if (height > 0) {
                boxes[n++] = (struct svg_box){box.x + pitch * node,
                                              box.y + box.height - below - height, width, height};
            }
        }
        snprintf(colour, sizeof colour, "c%d", c % SVG_SERIES);
        svg_group_begin(svg, "class %d", c);
        svg_boxes(svg, colour, boxes, n);
        svg_group_end(svg);
    }
    draw_column_axes(svg, f, box, largest);
    free(boxes);
}
