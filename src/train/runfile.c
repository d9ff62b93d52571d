/* SPDX-License-Identifier: Apache-2.0 */
/* runfile.c - run files: YAML, one `name: value` for each option, over the option table.
 *
 * libyaml's events are read one by one: a run file is one mapping of plain values, so there is no tree to
 * build, every event carries its line, and what has no place here (lists, nested mappings, aliases,
 * tags, a second document) is refused at the line where it begins. Aliases being refused, a small
 * file cannot unfold into a large one.
 *
 * A value is given to the option table as text, the way the command line does. What YAML makes of it
 * (0x10 as 16, 1_000 as 1000, `no` as false) does not count: `8x` and `nan` are refused for the same
 * reason and in the same words wherever they are typed.
 */
#include "train/runfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/files.h"

#ifdef OCT_HAVE_YAML

#include <yaml.h>

/* --- the bytes -------------------------------------------------------------------------------- */

/* The whole text is UTF-8 and free of control characters. Counts its lines; there is always one. */
static oct_status check_bytes(const char *name, const unsigned char *bytes, size_t n_bytes,
                              size_t *n_lines) {
    size_t line = 1;
    if (n_bytes > OCT_RUNFILE_MOST_BYTES) {
        OCT_FAIL(INVALID, "%s:1: more than %zu bytes: this is no run file", name,
                 OCT_RUNFILE_MOST_BYTES);
    }
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code = 0;
        size_t length = oct__utf8_read(bytes + i, n_bytes - i, &code);
        if (length == 0) {
            OCT_FAIL(INVALID, "%s:%zu: byte 0x%02x is not UTF-8; save the file in that encoding",
                     name, line, bytes[i]);
        }
        int ends_line = code == '\r' && i + 1 < n_bytes && bytes[i + 1] == '\n';
        int is_mark = code == 0xfeff && i > 0; /* a byte-order mark that is not the first thing */
        if ((oct__utf8_is_strange(code) && !ends_line) || is_mark) {
            OCT_FAIL(INVALID, "%s:%zu: character U+%04X has no place in a run file", name, line,
                     (unsigned)code);
        }
        line += code == '\n';
        i += length;
    }
    *n_lines = line > 1 && bytes[n_bytes - 1] == '\n' ? line - 1 : line;
    return OCT_OK;
}

/* --- events ----------------------------------------------------------------------------------- */

struct reader {
    const char *name; /* of the file, as messages show it */
    size_t n_lines;
    yaml_parser_t parser;
    yaml_event_t event;
    int has_event; /* the event must be given back */
    const struct oct_config *given;
    struct oct_config *trial;       /* every value of the file: to see whether it can be used */
    struct oct_config *merged;      /* what was given, and of the file what was not */
    size_t line[OCT__OPTION_COUNT]; /* where the file set an option; 0: it did not */
    int by_skew[OCT__OPTION_COUNT]; /* it did so under its short name */
};

/* libyaml puts the end of a file on a line of its own; for people that is the last one. */
static size_t line_of(const struct reader *reader, const yaml_mark_t *mark) {
    return mark->line < reader->n_lines ? mark->line + 1 : reader->n_lines;
}

static oct_status fail_parser(const struct reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to read it", reader->name);
    }
    /* What has no end is reported at the end of the file: its beginning says more. */
    const char *problem = parser->problem ? parser->problem : "not YAML";
    int endless = parser->context && (strstr(problem, "could not find expected ':'") ||
                                      strstr(problem, "unexpected end of stream"));
    OCT_FAIL(INVALID, "%s:%zu: %s%s%s; expected lines such as 'nodes: 8'", reader->name,
             line_of(reader, endless ? &parser->context_mark : &parser->problem_mark), problem,
             parser->context ? " " : "", parser->context ? parser->context : "");
}

static oct_status next_event(struct reader *reader) {
    if (reader->has_event) {
        yaml_event_delete(&reader->event);
        reader->has_event = 0;
    }
    if (!yaml_parser_parse(&reader->parser, &reader->event)) {
        return fail_parser(reader);
    }
    reader->has_event = 1;
    return OCT_OK;
}

/* Anchors, aliases and tags, wherever they are. */
static oct_status check_plain(const struct reader *reader) {
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_ALIAS_EVENT:
        anchor = event->data.alias.anchor;
        break;
    default:
        break;
    }
    if (anchor || tag) {
        OCT_FAIL(INVALID, "%s:%zu: run files have no %s; quote a value that begins with '%s'",
                 reader->name, line_of(reader, &event->start_mark),
                 tag                               ? "tags"
                 : event->type == YAML_ALIAS_EVENT ? "aliases"
                                                   : "anchors",
                 tag                               ? "!"
                 : event->type == YAML_ALIAS_EVENT ? "*"
                                                   : "&");
    }
    return OCT_OK;
}

/* --- one option --------------------------------------------------------------------------------- */

/* A key, kept while its value is read. */
struct key {
    char text[64];
    size_t line;
    int row; /* of the option that it sets */
    int is_skew;
};

/* The row that a key sets; `skew` is the short form of `partition`. */
static int row_of(const char *key, int *is_skew) {
    *is_skew = strcmp(key, "skew") == 0;
    const struct oct_option *option = oct_option_find(*is_skew ? "partition" : key);
    for (int row = 0; option && row < OCT__OPTION_COUNT; row++) {
        if (oct_option_at(row) == option) {
            return row;
        }
    }
    return -1;
}

static oct_status fail_at(const struct reader *reader, size_t line, oct_status status) {
    /* A name that is not known is a mistake in the file, as any other. */
    status = status == OCT_STATUS_NOT_FOUND ? OCT_STATUS_INVALID : status;
    return oct__fail_within(status, "%s:%zu: ", reader->name, line);
}

static oct_status read_key(struct reader *reader, struct key *key) {
    const yaml_event_t *event = &reader->event;
    key->line = line_of(reader, &event->start_mark);
    OCT_TRY(check_plain(reader));
    if (event->type != YAML_SCALAR_EVENT) {
        OCT_FAIL(INVALID, "%s:%zu: an option's name was expected, not a %s", reader->name,
                 key->line, event->type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
    }
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (length >= sizeof key->text || memchr(text, '\0', length)) {
        OCT_FAIL(INVALID, "%s:%zu: a name of %zu characters is no option", reader->name, key->line,
                 length);
    }
    memcpy(key->text, text, length + 1);
    key->row = row_of(key->text, &key->is_skew);
    if (key->row < 0) { /* the option table says so, and what was meant */
        oct_status status = oct_config_set(reader->trial, key->text, "");
        if (status == OCT_OK) {
            OCT_FAIL(INTERNAL, "%s:%zu: %s is an option of no row", reader->name, key->line,
                     key->text);
        }
        return fail_at(reader, key->line, status);
    }
    size_t before = reader->line[key->row];
    if (before && reader->by_skew[key->row] != key->is_skew) {
        OCT_FAIL(INVALID, "%s:%zu: %s sets the same as %s in line %zu; keep one of them",
                 reader->name, key->line, key->text, key->is_skew ? "partition" : "skew", before);
    }
    if (before) {
        OCT_FAIL(INVALID, "%s:%zu: %s is given twice, first in line %zu", reader->name, key->line,
                 key->text, before);
    }
    reader->line[key->row] = key->line;
    reader->by_skew[key->row] = key->is_skew;
    return OCT_OK;
}

/* What YAML calls null: nothing, ~ or the word. */
static int is_null(const yaml_event_t *event) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < OCT_COUNT_OF(words); i++) {
        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            strcmp((const char *)event->data.scalar.value, words[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static int has_control(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return 1;
        }
    }
    return 0;
}

static oct_status read_value(struct reader *reader, const struct key *key) {
    const yaml_event_t *event = &reader->event;
    size_t line = line_of(reader, &event->start_mark);
    OCT_TRY(check_plain(reader));
    if (event->type != YAML_SCALAR_EVENT) {
        OCT_FAIL(INVALID, "%s:%zu: %s is a %s, expected one value", reader->name, line, key->text,
                 event->type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
    }
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    yaml_scalar_style_t style = event->data.scalar.style;
    if (is_null(event)) {
        OCT_FAIL(INVALID,
                 "%s:%zu: %s has no value; give one, or leave the line out for the default",
                 reader->name, key->line, key->text);
    }
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE ||
        event->start_mark.line != event->end_mark.line) {
        OCT_FAIL(
            INVALID,
            "%s:%zu: %s has a value of several lines, expected one; is the next line indented?",
            reader->name, line, key->text);
    }
    if (has_control(text, length)) {
        OCT_FAIL(INVALID, "%s:%zu: %s has a control character in its value", reader->name, line,
                 key->text);
    }
    oct_status status = oct_config_set(reader->trial, key->text, text);
    if (status == OCT_OK && !reader->given->is_set[key->row]) {
        status = oct_config_set(reader->merged, key->text, text);
        if (status == OCT_OK) {
            status = oct__config_place(reader->merged, key->row, reader->name, key->line);
        }
    }
    return status == OCT_OK ? OCT_OK : fail_at(reader, line, status);
}

/* --- one file --------------------------------------------------------------------------------- */

static int is_empty_document(const yaml_event_t *event) {
    return event->type == YAML_SCALAR_EVENT && event->data.scalar.length == 0 &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* The document: a mapping, or nothing at all. */
static oct_status read_document(struct reader *reader) {
    OCT_TRY(next_event(reader));
    OCT_TRY(check_plain(reader));
    if (is_empty_document(&reader->event)) {
        return next_event(reader);
    }
    if (reader->event.type != YAML_MAPPING_START_EVENT) {
        OCT_FAIL(INVALID, "%s:%zu: a %s where lines such as 'nodes: 8' were expected", reader->name,
                 line_of(reader, &reader->event.start_mark),
                 reader->event.type == YAML_SEQUENCE_START_EVENT ? "list" : "single value");
    }
    for (;;) {
        struct key key;
        OCT_TRY(next_event(reader));
        if (reader->event.type == YAML_MAPPING_END_EVENT) {
            return next_event(reader);
        }
        OCT_TRY(read_key(reader, &key));
        OCT_TRY(next_event(reader));
        OCT_TRY(read_value(reader, &key));
    }
}

static oct_status read_stream(struct reader *reader) {
    OCT_TRY(next_event(reader)); /* the stream begins */
    OCT_TRY(next_event(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) {
        return OCT_OK; /* empty, or comments alone: all defaults */
    }
    OCT_TRY(read_document(reader));
    OCT_TRY(next_event(reader));
    if (reader->event.type != YAML_STREAM_END_EVENT) {
        OCT_FAIL(INVALID, "%s:%zu: a second document; a run file has one", reader->name,
                 line_of(reader, &reader->event.start_mark));
    }
    return OCT_OK;
}

oct_status oct__runfile_parse(const char *name, const void *bytes, size_t n_bytes,
                              struct oct_config *config) {
    struct reader reader;
    memset(&reader, 0, sizeof reader);
    reader.name = oct__path_shown(name);
    reader.given = config;
    OCT_TRY(check_bytes(reader.name, bytes, n_bytes, &reader.n_lines));
    if (!yaml_parser_initialize(&reader.parser)) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to read it", reader.name);
    }
    oct_status status;
    OCT_TRY_TO(out, oct_config_create(&reader.trial));
    OCT_TRY_TO(out, oct_config_copy(config, &reader.merged));
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, bytes, n_bytes);
    OCT_TRY_TO(out, read_stream(&reader));
    if (oct_config_is_set(config, "precision")) {
        OCT_TRY_TO(out, oct__config_drop(reader.merged, config));
    }
    oct__config_swap(config, reader.merged); /* all or nothing */
out:
    if (reader.has_event) {
        yaml_event_delete(&reader.event);
    }
    yaml_parser_delete(&reader.parser);
    oct_config_destroy(reader.trial);
    oct_config_destroy(reader.merged);
    return status;
}

#else

oct_status oct__runfile_parse(const char *name, const void *bytes, size_t n_bytes,
                              struct oct_config *config) {
    (void)bytes, (void)n_bytes, (void)config;
    OCT_FAIL(UNSUPPORTED,
             "%s: this build reads no run files; install libyaml-dev and build again, "
             "or give the options on the command line",
             oct__path_shown(name));
}

#endif

/* Reads to the end, or one byte more than a run file may have. A pipe is as good as a file. */
static oct_status read_all(int fd, const char *path, unsigned char *bytes, size_t *n_bytes) {
    size_t done = 0;
    while (done <= OCT_RUNFILE_MOST_BYTES) {
        ssize_t got = read(fd, bytes + done, OCT_RUNFILE_MOST_BYTES + 1 - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            OCT_FAIL(IO, "%s: cannot be read: %s", oct__path_shown(path), strerror(errno));
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    *n_bytes = done;
    return OCT_OK;
}

oct_status oct_config_parse(struct oct_config *config, const char *name, const char *text,
                            size_t n_bytes) {
    if (!config || !name || !text) {
        OCT_FAIL(INVALID, "oct_config_parse: the %s is NULL",
                 !config ? "configuration" : (!name ? "name" : "text"));
    }
    return oct__runfile_parse(name, text, n_bytes, config);
}

oct_status oct_config_read(struct oct_config *config, const char *path) {
    if (!config || !path) {
        OCT_FAIL(INVALID, "oct_config_read: the %s is NULL", !config ? "configuration" : "path");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        OCT_FAIL(NOT_FOUND, "%s: no such run file", oct__path_shown(path));
    }
    if (fd < 0) {
        OCT_FAIL(IO, "%s: cannot be read: %s", oct__path_shown(path), strerror(errno));
    }
    void *bytes = NULL;
    size_t n_bytes = 0;
    oct_status status = oct__alloc(OCT_RUNFILE_MOST_BYTES + 1, "a run file", &bytes);
    if (status == OCT_OK) {
        status = read_all(fd, path, bytes, &n_bytes);
    }
    close(fd);
    if (status == OCT_OK) {
        status = oct__runfile_parse(path, bytes, n_bytes, config);
    }
    oct__free(bytes);
    return status;
}
