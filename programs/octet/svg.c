/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - drawings as text: elements are written as they come, colours live in one style sheet.
 *
 * Colours are written out for both modes rather than through CSS variables, which some viewers do
 * not know.
 */
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

struct svg {
    FILE *file;
    struct cli_output output; /* of svg_open; otherwise the file is the caller's, and stays open */
    int is_inside;            /* of a page, which has the style sheet */
    int error;                /* errno of the first failure */
};

/* The ten series and the ground, which several rules share. */
#define C0 "#3b73c4"
#define C1 "#dd7a2c"
#define C2 "#3f9a5f"
#define C3 "#c74f53"
#define C4 "#8a68b8"
#define C5 "#8d7158"
#define C6 "#cf6cae"
#define C7 "#7c8794"
#define C8 "#a89a2a"
#define C9 "#2f9eae"
#define DARK0 "#6b9fe8"
#define DARK1 "#f0954f"
#define DARK2 "#5dbb80"
#define DARK3 "#e5787b"
#define DARK4 "#ab8ddb"
#define DARK5 "#b89a7e"
#define DARK6 "#e28fc6"
#define DARK7 "#a0abb8"
#define DARK8 "#cbbd4c"
#define DARK9 "#53c2d1"
#define PAPER "#ffffff"
#define DARK_PAPER "#11161d"

static const char style[] =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "font-size:13px;fill:#1b2530}\n"
    ".title{font-size:17px;font-weight:600}\n"
    ".dim{font-size:12px;fill:#5b6876}\n"
    ".label{font-size:11px}\n"
    ".paper{fill:" PAPER "}\n"
    ".panel{fill:#f5f7fa}\n"
    ".line{stroke:#8794a3;fill:none}\n"
    ".grid{stroke:#d8dee6;fill:none}\n"
    ".edge{stroke:#3d6ea8;fill:none}\n"
    ".faint{stroke:#3d6ea8;fill:none;stroke-opacity:.35}\n"
    ".edge-head{fill:#3d6ea8}\n"
    ".faint-head{fill:#3d6ea8;fill-opacity:.55}\n"
    ".node{fill:#ffffff;stroke:#2a3948;stroke-width:1.5}\n"
    ".bar{fill:#3d6ea8}\n"
    ".c0{fill:" C0 "}.c1{fill:" C1 "}.c2{fill:" C2 "}.c3{fill:" C3 "}.c4{fill:" C4 "}\n"
    ".c5{fill:" C5 "}.c6{fill:" C6 "}.c7{fill:" C7 "}.c8{fill:" C8 "}.c9{fill:" C9 "}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e4eaf1}.dim{fill:#9aa8b7}.paper{fill:" DARK_PAPER "}.panel{fill:#1a212b}\n"
    ".line{stroke:#74818f}.grid{stroke:#2f3945}.edge,.faint{stroke:#79aee8}\n"
    ".edge-head,.faint-head{fill:#79aee8}.node{fill:#222c38;stroke:#c3cfdc}.bar{fill:#79aee8}\n"
    ".c0{fill:" DARK0 "}.c1{fill:" DARK1 "}.c2{fill:" DARK2 "}.c3{fill:" DARK3 "}.c4{fill:" DARK4
    "}\n"
    ".c5{fill:" DARK5 "}.c6{fill:" DARK6 "}.c7{fill:" DARK7 "}.c8{fill:" DARK8 "}.c9{fill:" DARK9
    "}\n"
    "}\n";

/* Only what has curves carries these. The classes of a line add up: "curve s3 thin". */
static const char curve_style[] =
    ".tick{font-size:11.5px;fill:#5b6876}\n"
    ".curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
    ".band{stroke:none;fill-opacity:.2}\n"
    ".thin{stroke-width:1.3;stroke-opacity:.8}\n"
    ".d1{stroke-dasharray:6 3.5}.d2{stroke-dasharray:1.5 3.5}\n"
    ".rim{stroke:" PAPER ";stroke-width:1}\n"
    ".s0{stroke:" C0 "}.s1{stroke:" C1 "}.s2{stroke:" C2 "}.s3{stroke:" C3 "}.s4{stroke:" C4 "}\n"
    ".s5{stroke:" C5 "}.s6{stroke:" C6 "}.s7{stroke:" C7 "}.s8{stroke:" C8 "}.s9{stroke:" C9 "}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".tick{fill:#9aa8b7}.rim{stroke:" DARK_PAPER "}\n"
    ".s0{stroke:" DARK0 "}.s1{stroke:" DARK1 "}.s2{stroke:" DARK2 "}.s3{stroke:" DARK3
    "}.s4{stroke:" DARK4 "}\n"
    ".s5{stroke:" DARK5 "}.s6{stroke:" DARK6 "}.s7{stroke:" DARK7 "}.s8{stroke:" DARK8
    "}.s9{stroke:" DARK9 "}\n"
    "}\n";

static void note_error(struct svg *svg) {
    if (!svg->error && (!svg->file || ferror(svg->file))) {
        svg->error = errno ? errno : EIO;
    }
}

static void put(struct svg *svg, const char *format, ...) OCT_PRINTF(2, 3);

static void put(struct svg *svg, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (svg->file) {
        errno = 0;
        vfprintf(svg->file, format, arguments);
    }
    va_end(arguments);
    note_error(svg);
}

/* Bytes of the UTF-8 character at `text`; 0 when there is none. Too long forms and the like, which
 * readers of XML tell apart, are let through: names that people type do not have them. */
static int character_bytes(const char *text) {
    unsigned char first = (unsigned char)*text;
    int n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (int i = 1; i < n; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return first < 0xf5 ? n : 0;
}

void svg_escape(FILE *out, const char *text) {
    for (; *text; text++) {
        int n = character_bytes(text);
        if (n != 1) {
            fprintf(out, "%.*s", n ? n : 1, n ? text : "?");
            text += n ? n - 1 : 0;
            continue;
        }
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
        }
    }
}

static void put_escaped(struct svg *svg, const char *text) {
    if (svg->file) {
        errno = 0;
        svg_escape(svg->file, text);
    }
    note_error(svg);
}

/* A coordinate: two decimals, and none when they are zeros. */
static const char *number(double x, char out[24]) {
    if (!isfinite(x) || fabs(x) > 1e7) {
        x = 0;
    }
    double rounded = round(x * 100) / 100;
    snprintf(out, 24, "%.8g", rounded == 0 ? 0.0 : rounded);
    return out;
}

#define N(x) number((x), (char[24]){""})

/* Inside a page the name space goes without saying. */
static void put_head(struct svg *svg, double width, double height, const char *title) {
    put(svg,
        "<svg%s viewBox=\"0 0 %s %s\" width=\"%s\" "
        "height=\"%s\" role=\"img\">\n<title>",
        svg->is_inside ? "" : " xmlns=\"http://www.w3.org/2000/svg\"", N(width), N(height),
        N(width), N(height));
    put_escaped(svg, title);
    put(svg, "</title>\n");
}

static struct svg *start(FILE *file, int is_inside) {
    struct svg *svg = cli_alloc(sizeof *svg);
    *svg = (struct svg){.file = file, .is_inside = is_inside};
    note_error(svg);
    return svg;
}

struct svg *svg_open(const char *path, double width, double height, const char *title) {
    struct cli_output output;
    errno = cli_output_open(&output, path);
    struct svg *svg = start(output.file, 0);
    svg->output = output;
    put_head(svg, width, height, title);
    put(svg, "<style>\n%s</style>\n", style);
    svg_rect(svg, "paper", 0, 0, width, height);
    return svg;
}

struct svg *svg_begin(FILE *out, double width, double height, const char *title,
                      const char *description) {
    struct svg *svg = start(out, 1);
    put_head(svg, width, height, title);
    if (description && *description) {
        put(svg, "<desc>");
        put_escaped(svg, description);
        put(svg, "</desc>\n");
    }
    return svg;
}

struct svg *svg_begin_alone(FILE *out, double width, double height, const char *title) {
    struct svg *svg = start(out, 0);
    put_head(svg, width, height, title);
    put(svg, "<style>\n%s%s</style>\n", style, curve_style);
    svg_rect(svg, "paper", 0, 0, width, height);
    return svg;
}

void svg_style(FILE *out) {
    fprintf(out, "%s%s", style, curve_style);
}

int svg_close(struct svg *svg) {
    put(svg, "</svg>\n");
    const int error = svg->error;
    const int late = svg->output.file ? cli_output_close(&svg->output, !error) : 0;
    free(svg);
    return error ? error : late;
}

void svg_text(struct svg *svg, const char *class_name, char anchor, double x, double y,
              const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(svg, "<text class=\"%s\" x=\"%s\" y=\"%s\"%s>", class_name, N(x), N(y),
        anchor == 'm'   ? " text-anchor=\"middle\""
        : anchor == 'e' ? " text-anchor=\"end\""
                        : "");
    put_escaped(svg, text);
    put(svg, "</text>\n");
}

void svg_turned_text(struct svg *svg, const char *class_name, double x, double y,
                     const char *text) {
    put(svg,
        "<text class=\"%s\" text-anchor=\"middle\" transform=\"translate(%s %s) rotate(-90)\">",
        class_name, N(x), N(y));
    put_escaped(svg, text);
    put(svg, "</text>\n");
}

void svg_line(struct svg *svg, const char *class_name, double x1, double y1, double x2, double y2) {
    put(svg, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class_name, N(x1),
        N(y1), N(x2), N(y2));
}

void svg_circle(struct svg *svg, const char *class_name, double x, double y, double radius) {
    put(svg, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>\n", class_name, N(x), N(y),
        N(radius));
}

void svg_rect(struct svg *svg, const char *class_name, double x, double y, double width,
              double height) {
    put(svg, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", class_name,
        N(x), N(y), N(width), N(height));
}

static void put_points(struct svg *svg, const struct svg_point *points, int n) {
    for (int i = 0; i < n; i++) {
        put(svg, "%s%s,%s", i ? " " : "", N(points[i].x), N(points[i].y));
    }
}

void svg_polyline(struct svg *svg, const char *class_name, const struct svg_point *points, int n) {
    put(svg, "<polyline class=\"%s\" points=\"", class_name);
    put_points(svg, points, n);
    put(svg, "\"/>\n");
}

void svg_polygon(struct svg *svg, const char *class_name, const struct svg_point *points, int n) {
    put(svg, "<polygon class=\"%s\" points=\"", class_name);
    put_points(svg, points, n);
    put(svg, "\"/>\n");
}

void svg_boxes(struct svg *svg, const char *class_name, const struct svg_box *boxes, int n) {
    put(svg, "<path class=\"%s\" d=\"", class_name);
    for (int i = 0; i < n; i++) {
        put(svg, "M%s %sh%sv%sh%sz", N(boxes[i].x), N(boxes[i].y), N(boxes[i].width),
            N(boxes[i].height), N(-boxes[i].width));
    }
    put(svg, "\"/>\n");
}

void svg_arrow(struct svg *svg, const char *class_name, const struct svg_arrow *arrow) {
    const double dx = arrow->x2 - arrow->x1, dy = arrow->y2 - arrow->y1;
    const double length = hypot(dx, dy);
    if (!(length > 0)) {
        return;
    }
    /* A parabola goes half as far out as its control point. */
    const double cx = (arrow->x1 + arrow->x2) / 2 + 2 * arrow->bend * dy / length;
    const double cy = (arrow->y1 + arrow->y2) / 2 - 2 * arrow->bend * dx / length;
    /* The direction at the end; the line stops inside the head, so that the tip stays sharp. */
    const double ex = arrow->x2 - cx, ey = arrow->y2 - cy, end = hypot(ex, ey);
    const double ux = end > 0 ? ex / end : dx / length, uy = end > 0 ? ey / end : dy / length;
    const double stop = 0.7 * arrow->head;
    put(svg, "<path class=\"%s\" stroke-width=\"%s\" d=\"M%s %sQ%s %s %s %s\"/>\n", class_name,
        N(arrow->width), N(arrow->x1), N(arrow->y1), N(cx), N(cy), N(arrow->x2 - stop * ux),
        N(arrow->y2 - stop * uy));
    if (arrow->head > 0) {
        const double bx = arrow->x2 - arrow->head * ux, by = arrow->y2 - arrow->head * uy;
        const double half = 0.42 * arrow->head;
        put(svg, "<path class=\"%s-head\" d=\"M%s %sL%s %sL%s %sZ\"/>\n", class_name, N(arrow->x2),
            N(arrow->y2), N(bx - half * uy), N(by + half * ux), N(bx + half * uy),
            N(by - half * ux));
    }
}

void svg_group_begin(struct svg *svg, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(svg, "<g><title>");
    put_escaped(svg, text);
    put(svg, "</title>\n");
}

void svg_data_begin(struct svg *svg, const char *class_name, const char *const *pairs) {
    put(svg, "<g class=\"%s\"", class_name);
    for (int i = 0; pairs && pairs[i]; i += 2) {
        put(svg, " data-%s=\"", pairs[i]);
        put_escaped(svg, pairs[i + 1]);
        put(svg, "\"");
    }
    put(svg, ">\n");
}

void svg_group_end(struct svg *svg) {
    put(svg, "</g>\n");
}
