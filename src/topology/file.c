/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - a graph from a text file: one directed edge a line.
 *
 *     # from to [weight]
 *     0 1 0.5
 *     1 2 0.25
 *
 * Fields are separated by blanks or tabs; '#' begins a comment; empty lines are skipped. Weights
 * stand on all lines or on none; a node keeps what it does not give away, so its own share is not
 * written. What a file says is taken literally or refused with file and line: a connection that
 * goes both ways is two lines, and the same edge twice is taken for a mistake.
 *
 * Everything after "file:" is the path (after "path=", if that is there): paths hold commas and
 * equal signs, and are longer than a value of base/spec.h may be.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topology/topology.h"

/* The longest line, with its newline and NUL; and how much of a path messages show. */
enum { LINE_BYTES = 256, SHOWN = 160 };

struct reader {
    const char *path;
    int n_nodes, line, n_weighted;
    struct oct__edge_list *out;
    int *lines; /* of each edge, for messages */
    size_t capacity;
};

/* The end of a long path: what messages have room for. */
static const char *shown(const char *path) {
    size_t length = strlen(path);
    return length > SHOWN ? path + length - SHOWN : path;
}

/* Cuts the line into words; how many there are, counting no further than one past `most`. */
static int cut(char *line, char **words, int most) {
    int n = 0;
    char *at = line;
    at[strcspn(at, "#\r\n")] = '\0';
    for (at += strspn(at, " \t"); *at && n <= most; at += strspn(at, " \t")) {
        if (n < most) {
            words[n] = at;
        }
        n++;
        at += strcspn(at, " \t");
        if (*at) {
            *at++ = '\0';
        }
    }
    return n;
}

static oct_status add_edge(struct reader *reader, const struct oct_edge *edge) {
    struct oct__edge_list *out = reader->out;
    void *lines = reader->lines;
    oct_status status = oct__alloc_grow(&lines, &reader->capacity, (size_t)out->n_edges + 1,
                                        sizeof *reader->lines, "line numbers");
    reader->lines = lines;
    OCT_TRY(status);
    reader->lines[out->n_edges] = reader->line;
    return oct__edge_add(out, edge->from, edge->to, edge->weight);
}

static oct_status read_line(struct reader *reader, char *line) {
    char *words[3], what[SHOWN + 48];
    const char *path = shown(reader->path);
    struct oct_edge edge = {0};
    int n = cut(line, words, 3);
    if (n == 0) {
        return OCT_OK;
    }
    if (n == 1 || n > 3) {
        OCT_FAIL(INVALID, "%s:%d: %s, expected: from to [weight]", path, reader->line,
                 n == 1 ? "one word" : "more than three words");
    }
    for (int i = 0; i < 2; i++) {
        int64_t node = 0;
        snprintf(what, sizeof what, "%s:%d: %s", path, reader->line, i ? "to" : "from");
        OCT_TRY(oct__spec_int(what, words[i], 0, reader->n_nodes - 1, &node));
        *(i ? &edge.to : &edge.from) = (int)node;
    }
    if (edge.from == edge.to) {
        OCT_FAIL(INVALID,
                 "%s:%d: an edge from %d to itself; a node keeps what it does not give away", path,
                 reader->line, edge.from);
    }
    if (n == 3) {
        snprintf(what, sizeof what, "%s:%d: weight", path, reader->line);
        OCT_TRY(oct__spec_real(what, words[2], 0, 1, &edge.weight));
        if (!(edge.weight > 0)) {
            OCT_FAIL(INVALID, "%s is '%.40s', expected more than 0", what, words[2]);
        }
        reader->n_weighted++;
    }
    if (reader->n_weighted != 0 && reader->n_weighted != reader->out->n_edges + 1) {
        OCT_FAIL(INVALID, "%s:%d: %s weight, unlike the edges before; expected all or none", path,
                 reader->line, n == 3 ? "a" : "no");
    }
    return add_edge(reader, &edge);
}

static oct_status read_lines(struct reader *reader, FILE *file) {
    char line[LINE_BYTES];
    size_t length = 0;
    int c;
    do {
        c = getc(file);
        if (c == '\n' || (c == EOF && length > 0)) {
            reader->line++;
            line[length] = '\0';
            length = 0;
            OCT_TRY(read_line(reader, line));
        } else if (c == '\0' || length + 1 == sizeof line) {
            OCT_FAIL(INVALID, "%s:%d: the line has more than %d characters, or a NUL",
                     shown(reader->path), reader->line + 1, LINE_BYTES - 1);
        } else if (c != EOF) {
            line[length++] = (char)c;
        }
    } while (c != EOF);
    if (ferror(file)) {
        OCT_FAIL(IO, "%s: cannot be read: %s", shown(reader->path), strerror(errno));
    }
    return OCT_OK;
}

/* Finds an edge that stands twice and a sender that gives away too much, with their lines. */
static oct_status check(const struct reader *reader) {
    oct_status status = OCT_OK;
    const struct oct__edge_list *list = reader->out;
    const size_t n = (size_t)reader->n_nodes;
    void *start_memory = NULL, *order_memory = NULL, *last_memory = NULL;
    OCT_TRY_TO(out, oct__alloc_array(n + 1, sizeof(int), "a check", &start_memory));
    OCT_TRY_TO(out, oct__alloc_array((size_t)list->n_edges, sizeof(int), "a check", &order_memory));
    OCT_TRY_TO(out, oct__alloc_array(n, sizeof(int), "a check", &last_memory));
    int *start = start_memory, *order = order_memory, *last = last_memory;
    for (int e = 0; e < list->n_edges; e++) {
        start[list->edges[e].from + 1]++;
    }
    for (size_t i = 0; i < n; i++) {
        start[i + 1] += start[i];
    }
    for (int e = 0; e < list->n_edges; e++) { /* start[i] becomes where node i's edges end */
        order[start[list->edges[e].from]++] = e;
    }
    for (int from = 0, o = 0; from < reader->n_nodes; from++) {
        double given = 0;
        for (; o < start[from]; o++) {
            const struct oct_edge *edge = &list->edges[order[o]];
            const int line = reader->lines[order[o]], before = last[edge->to];
            if (before > 0 && list->edges[before - 1].from == from) {
                OCT_FAIL_TO(out, INVALID, "%s:%d: the edge from %d to %d stands already at line %d",
                            shown(reader->path), line, from, edge->to, reader->lines[before - 1]);
            }
            last[edge->to] = order[o] + 1;
            given += edge->weight;
            if (given > 1 + OCT_WEIGHT_ERROR) {
                OCT_FAIL_TO(out, INVALID,
                            "%s:%d: here the weights from node %d come to %.15g, expected 1 at the "
                            "most",
                            shown(reader->path), line, from, given);
            }
        }
    }
out:
    oct__free(start_memory);
    oct__free(order_memory);
    oct__free(last_memory);
    return status;
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    const char *path = request->text ? request->text : "";
    path += strncmp(path, "path=", 5) == 0 ? 5 : 0;
    if (*path == '\0') {
        OCT_FAIL(INVALID, "file: has no path, expected file:PATH");
    }
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) {
        OCT_FAIL(NOT_FOUND, "file: there is no %s", shown(path));
    }
    if (!file) {
        OCT_FAIL(IO, "file: %s cannot be opened: %s", shown(path), strerror(errno));
    }
    struct reader reader = {.path = path, .n_nodes = request->n_nodes, .out = out};
    oct_status status = read_lines(&reader, file);
    fclose(file);
    if (status == OCT_OK && reader.lines) {
        status = check(&reader);
    }
    oct__free(reader.lines);
    return status;
}

const struct oct_topology_kind oct_topology_file = {
    .plugin = {.name = "file",
               .summary = "edges from a text file, a line \"from to [weight]\" each",
               .options = "PATH"},
    .reads_text = 1,
    .edges = edges,
};
