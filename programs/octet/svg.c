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
    int error; /* errno of the first failure */
};

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "font-size:13px;fill:#1b2530}\n"
    ".title{font-size:17px;font-weight:600}\n"
    ".dim{font-size:12px;fill:#5b6876}\n"
    ".label{font-size:11px}\n"
    ".paper{fill:#ffffff}\n"
    ".panel{fill:#f5f7fa}\n"
    ".line{stroke:#8794a3;fill:none}\n"
    ".grid{stroke:#d8dee6;fill:none}\n"
    ".edge{stroke:#3d6ea8;fill:none}\n"
    ".faint{stroke:#3d6ea8;fill:none;stroke-opacity:.35}\n"
    ".edge-head{fill:#3d6ea8}\n"
    ".faint-head{fill:#3d6ea8;fill-opacity:.55}\n"
    ".node{fill:#ffffff;stroke:#2a3948;stroke-width:1.5}\n"
    ".bar{fill:#3d6ea8}\n"
    ".c0{fill:#3b73c4}.c1{fill:#dd7a2c}.c2{fill:#3f9a5f}.c3{fill:#c74f53}.c4{fill:#8a68b8}\n"
    ".c5{fill:#8d7158}.c6{fill:#cf6cae}.c7{fill:#7c8794}.c8{fill:#a89a2a}.c9{fill:#2f9eae}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e4eaf1}.dim{fill:#9aa8b7}.paper{fill:#11161d}.panel{fill:#1a212b}\n"
    ".line{stroke:#74818f}.grid{stroke:#2f3945}.edge,.faint{stroke:#79aee8}\n"
    ".edge-head,.faint-head{fill:#79aee8}.node{fill:#222c38;stroke:#c3cfdc}.bar{fill:#79aee8}\n"
    ".c0{fill:#6b9fe8}.c1{fill:#f0954f}.c2{fill:#5dbb80}.c3{fill:#e5787b}.c4{fill:#ab8ddb}\n"
    ".c5{fill:#b89a7e}.c6{fill:#e28fc6}.c7{fill:#a0abb8}.c8{fill:#cbbd4c}.c9{fill:#53c2d1}\n"
    "}\n"
    "</style>\n";

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

/* Text between tags; control characters, which XML cannot hold, become blanks, and bytes that are
 * no UTF-8 (a path may have them) question marks. */
static void put_escaped(struct svg *svg, const char *text) {
    for (; *text; text++) {
        int n = character_bytes(text);
        if (n != 1) {
            put(svg, "%.*s", n ? n : 1, n ? text : "?");
            text += n ? n - 1 : 0;
            continue;
        }
        switch (*text) {
        case '&':
            put(svg, "&amp;");
            break;
        case '<':
            put(svg, "&lt;");
            break;
        case '>':
            put(svg, "&gt;");
            break;
        case '"':
            put(svg, "&quot;");
            break;
        default:
            put(svg, "%c", (unsigned char)*text < 0x20 ? ' ' : *text);
        }
    }
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

struct svg *svg_open(const char *path, double width, double height, const char *title) {
    struct svg *svg = cli_alloc(sizeof *svg);
    errno = 0;
    svg->error = 0;
    svg->file = fopen(path, "w");
    note_error(svg);
    put(svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=\"%s\" "
        "height=\"%s\" role=\"img\">\n<title>",
        N(width), N(height), N(width), N(height));
    put_escaped(svg, title);
    put(svg, "</title>\n%s", style);
    svg_rect(svg, "paper", 0, 0, width, height);
    return svg;
}

int svg_close(struct svg *svg) {
    put(svg, "</svg>\n");
    errno = 0;
    if (svg->file && fclose(svg->file) != 0 && !svg->error) {
        svg->error = errno ? errno : EIO;
    }
    int error = svg->error;
    free(svg);
    return error;
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

void svg_group_end(struct svg *svg) {
    put(svg, "</g>\n");
}
