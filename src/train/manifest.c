/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - the text that makes a folder of files a checkpoint: written, and read back strictly.
 *
 *     octet checkpoint 1
 *     step 1234
 *     nodes 2
 *     set topology ring
 *     default lr 0.02
 *     counter epoch_loss 3ff8000000000000
 *     file 1085512 9f86d0…0a08 node-00000.safetensors
 *     file 1085512 60303a…a752 node-00001.safetensors
 *     end 2c26b4…e7ae
 *
 * Every line is wanted in this order and in this one form: a manifest that was cut, altered or
 * written by hand is refused rather than understood by half. docs/formats/checkpoint.md is the
 * specification.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

#define VERSION "1"
#define NODES_MOST 65536
#define OPTIONS_MOST 1000
#define NAME_MOST 63                              /* of an option */
#define END_BYTES (4 + (OCT_SHA256_TEXT - 1) + 1) /* "end ", the sum, a newline */
#define FILE_LEAST (5 + 1 + 1 + 64 + 1 + 22 + 1)  /* the shortest line of a file */

void oct__node_file(int node, char name[OCT_NODE_FILE]) {
    snprintf(name, OCT_NODE_FILE, "node-%05d.safetensors", node);
}

static void sum_of(const void *bytes, size_t n_bytes, char out[OCT_SHA256_TEXT]) {
    struct oct__sha256 sha;
    oct__sha256_init(&sha);
    oct__sha256_add(&sha, bytes, n_bytes);
    oct__sha256_text(&sha, out);
}

/* --- writing --------------------------------------------------------------------------------- */

/* Bytes that a line cannot carry as they are: control characters, and the mark itself. */
static int is_escaped(unsigned char c) {
    return c < 0x20 || c == 0x7f || c == '%';
}

static oct_status write_value(struct oct__text *out, const char *value) {
    while (*value) {
        size_t plain = 0;
        while (value[plain] && !is_escaped((unsigned char)value[plain])) {
            plain++;
        }
        OCT_TRY(oct__text_add(out, "%.*s", (int)plain, value));
        value += plain;
        if (*value) {
            OCT_TRY(oct__text_add(out, "%%%02X", (unsigned)(unsigned char)*value++));
        }
    }
    return oct__text_add(out, "\n");
}

static int compare_counters(const void *a, const void *b) {
    return strcmp(((const struct oct__counter *)a)->name, ((const struct oct__counter *)b)->name);
}

/* Sorted by name, so that a name is found quickly and cannot stand twice. */
static oct_status write_counters(struct oct__text *out, const struct oct__counter *counters,
                                 size_t n) {
    oct_status status = OCT_OK;
    void *memory = NULL;
    OCT_TRY(oct__alloc_array(n, sizeof *counters, "counters", &memory));
    struct oct__counter *sorted = memory;
    if (n > 0) {
        memcpy(sorted, counters, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, compare_counters);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &sorted[i].value, sizeof bits);
        OCT_TRY_TO(done, oct__section_check(sorted[i].name));
        if (i > 0 && strcmp(sorted[i].name, sorted[i - 1].name) == 0) {
            OCT_FAIL_TO(done, INTERNAL, "counter %s stands twice", sorted[i].name);
        }
        OCT_TRY_TO(done, oct__text_add(out, "counter %s %016llx\n", sorted[i].name,
                                       (unsigned long long)bits));
    }
done:
    oct__free(memory);
    return status;
}

oct_status oct__manifest_write(const struct oct__manifest *manifest, struct oct__text *out) {
    OCT_TRY(oct__text_add(out, "octet checkpoint " VERSION "\nstep %llu\nnodes %d\n",
                          (unsigned long long)manifest->step, manifest->n_nodes));
    for (size_t i = 0; i < manifest->n_options; i++) {
        const struct oct__manifest_option *option = &manifest->options[i];
        OCT_TRY(oct__text_add(out, "%s %s ", option->is_set ? "set" : "default", option->name));
        OCT_TRY(write_value(out, option->value));
    }
    OCT_TRY(write_counters(out, manifest->counters, manifest->n_counters));
    for (int i = 0; i < manifest->n_nodes; i++) {
        char name[OCT_NODE_FILE];
        oct__node_file(i, name);
        OCT_TRY(oct__text_add(out, "file %llu %s %s\n",
                              (unsigned long long)manifest->files[i].bytes,
                              manifest->files[i].sha256, name));
    }
    char sum[OCT_SHA256_TEXT];
    sum_of(out->at, out->n_bytes, sum);
    return oct__text_add(out, "end %s\n", sum);
}

/* --- reading --------------------------------------------------------------------------------- */

struct lines {
    const char *file;
    const char *bytes;
    size_t at, end; /* of the text before the last line */
    int number;     /* of the line that begins at `at` */
};

static oct_status malformed(const struct lines *l, const char *expected) {
    OCT_FAIL(CORRUPT, "%s: line %d: %s expected", l->file, l->number, expected);
}

static int begins(const struct lines *l, const char *word) {
    size_t n = strlen(word);
    return l->end - l->at >= n && memcmp(l->bytes + l->at, word, n) == 0;
}

static oct_status take(struct lines *l, const char *word) {
    if (!begins(l, word)) {
        char expected[48];
        snprintf(expected, sizeof expected, "'%s'", strcmp(word, "\n") == 0 ? "end of line" : word);
        return malformed(l, expected);
    }
    l->at += strlen(word);
    l->number += word[0] == '\n';
    return OCT_OK;
}

/* Decimal, as printed: no sign, no zeros before it. */
static oct_status take_number(struct lines *l, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    size_t begin = l->at;
    while (l->at < l->end && l->bytes[l->at] >= '0' && l->bytes[l->at] <= '9') {
        uint64_t digit = (uint64_t)(l->bytes[l->at] - '0');
        if (digit > most || value > (most - digit) / 10) {
            return malformed(l, "a smaller number");
        }
        value = value * 10 + digit;
        l->at++;
    }
    size_t n_digits = l->at - begin;
    if (n_digits == 0 || (n_digits > 1 && l->bytes[begin] == '0')) {
        return malformed(l, "a whole number");
    }
    *out = value;
    return OCT_OK;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `n` lower-case digits. */
static oct_status take_hex(struct lines *l, size_t n, const char **out) {
    *out = l->bytes + l->at;
    for (size_t i = 0; i < n; i++, l->at++) {
        if (l->at >= l->end || hex_value(l->bytes[l->at]) < 0) {
            return malformed(l, "a hexadecimal digit, lower case,");
        }
    }
    return OCT_OK;
}

/* A name of up to `most` characters, ended by a blank; copied with a NUL. */
static oct_status take_name(struct lines *l, size_t most, char *out) {
    size_t n = 0;
    while (l->at + n < l->end && n < most && l->bytes[l->at + n] > ' ' &&
           l->bytes[l->at + n] < 0x7f) {
        n++;
    }
    if (n == 0 || l->at + n >= l->end || l->bytes[l->at + n] != ' ') {
        return malformed(l, "a name and a blank");
    }
    memcpy(out, l->bytes + l->at, n);
    out[n] = '\0';
    l->at += n + 1;
    return OCT_OK;
}

/* The rest of the line, its %XX turned back; only what must be written so may be. */
static oct_status take_value(struct lines *l, char *out) {
    while (l->at < l->end && l->bytes[l->at] != '\n') {
        unsigned char c = (unsigned char)l->bytes[l->at++];
        if (c == '%') {
            static const char digits[] = "0123456789ABCDEF";
            const char *high =
                l->end - l->at >= 2 && l->bytes[l->at] ? strchr(digits, l->bytes[l->at]) : NULL;
            const char *low =
                high && l->bytes[l->at + 1] ? strchr(digits, l->bytes[l->at + 1]) : NULL;
            c = low ? (unsigned char)((high - digits) * 16 + (low - digits)) : 0;
            if (c == 0 || !is_escaped(c)) {
                return malformed(l, "%XX of a character that needs it");
            }
            l->at += 2;
        } else if (is_escaped(c)) {
            return malformed(l, "%XX instead of a control character");
        }
        *out++ = (char)c;
    }
    *out = '\0';
    return take(l, "\n");
}

/* Texts of options are copied to *store, which has room for all: a line is longer than what is kept
 * of it. */
static oct_status take_options(struct lines *l, struct oct__manifest *m) {
    char *store = m->text;
    size_t capacity = 0;
    while (begins(l, "set ") || begins(l, "default ")) {
        if (m->n_options == OPTIONS_MOST) {
            return malformed(l, "fewer options");
        }
        void *memory = m->options;
        OCT_TRY(
            oct__alloc_grow(&memory, &capacity, m->n_options + 1, sizeof *m->options, "options"));
        m->options = memory;
        struct oct__manifest_option *option = &m->options[m->n_options];
        option->is_set = begins(l, "set ");
        OCT_TRY(take(l, option->is_set ? "set " : "default "));
        option->name = store;
        OCT_TRY(take_name(l, NAME_MOST, store));
        store += strlen(store) + 1;
        option->value = store;
        OCT_TRY(take_value(l, store));
        store += strlen(store) + 1;
        for (size_t i = 0; i < m->n_options; i++) {
            if (strcmp(m->options[i].name, option->name) == 0) {
                OCT_FAIL(CORRUPT, "%s: line %d: option %s stands twice", l->file, l->number - 1,
                         option->name);
            }
        }
        m->n_options++;
    }
    return OCT_OK;
}

static oct_status take_counters(struct lines *l, struct oct__manifest *m) {
    size_t capacity = 0;
    while (begins(l, "counter ")) {
        void *memory = m->counters;
        OCT_TRY(oct__alloc_grow(&memory, &capacity, m->n_counters + 1, sizeof *m->counters,
                                "counters"));
        m->counters = memory;
        struct oct__counter *counter = &m->counters[m->n_counters];
        memset(counter, 0, sizeof *counter);
        const char *hex;
        OCT_TRY(take(l, "counter "));
        OCT_TRY(take_name(l, sizeof counter->name - 1, counter->name));
        if (oct__section_check(counter->name) != OCT_OK) {
            return malformed(l, "a name of letters, digits, '.', '_' and '-'");
        }
        if (m->n_counters > 0 && strcmp(counter[-1].name, counter->name) >= 0) {
            return malformed(l, "a name behind that of the counter before it");
        }
        OCT_TRY(take_hex(l, 16, &hex));
        uint64_t bits = 0;
        for (int i = 0; i < 16; i++) {
            bits = bits << 4 | (uint64_t)hex_value(hex[i]);
        }
        memcpy(&counter->value, &bits, sizeof bits);
        OCT_TRY(take(l, "\n"));
        m->n_counters++;
    }
    return OCT_OK;
}

static oct_status take_files(struct lines *l, struct oct__manifest *m) {
    if ((size_t)m->n_nodes > (l->end - l->at) / FILE_LEAST) {
        OCT_FAIL(CORRUPT, "%s: line %d: too short for the files of %d nodes", l->file, l->number,
                 m->n_nodes);
    }
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)m->n_nodes, sizeof *m->files, "files", &memory));
    m->files = memory;
    for (int i = 0; i < m->n_nodes; i++) {
        char name[OCT_NODE_FILE];
        const char *sum;
        oct__node_file(i, name);
        OCT_TRY(take(l, "file "));
        OCT_TRY(take_number(l, INT64_MAX, &m->files[i].bytes));
        OCT_TRY(take(l, " "));
        OCT_TRY(take_hex(l, OCT_SHA256_TEXT - 1, &sum));
        memcpy(m->files[i].sha256, sum, OCT_SHA256_TEXT - 1);
        OCT_TRY(take(l, " "));
        OCT_TRY(take(l, name));
        OCT_TRY(take(l, "\n"));
    }
    return l->at == l->end ? OCT_OK : malformed(l, "the last line");
}

static oct_status take_all(struct lines *l, struct oct__manifest *m) {
    uint64_t nodes;
    OCT_TRY(take(l, "octet checkpoint "));
    if (!begins(l, VERSION "\n")) {
        OCT_FAIL(UNSUPPORTED,
                 "%s: a checkpoint of another version; this Octet reads version " VERSION, l->file);
    }
    OCT_TRY(take(l, VERSION));
    OCT_TRY(take(l, "\n"));
    OCT_TRY(take(l, "step "));
    OCT_TRY(take_number(l, UINT64_MAX, &m->step));
    OCT_TRY(take(l, "\n"));
    OCT_TRY(take(l, "nodes "));
    OCT_TRY(take_number(l, NODES_MOST, &nodes));
    if (nodes == 0) {
        return malformed(l, "at least one node");
    }
    m->n_nodes = (int)nodes;
    OCT_TRY(take(l, "\n"));
    OCT_TRY(take_options(l, m));
    OCT_TRY(take_counters(l, m));
    return take_files(l, m);
}

/* The last line has the sum of all before it: whatever was cut or altered shows here. */
static oct_status check_end(const char *name, const char *bytes, size_t n_bytes) {
    const char *end = n_bytes > END_BYTES ? bytes + (n_bytes - END_BYTES) : NULL;
    if (n_bytes > OCT_MANIFEST_MOST) {
        OCT_FAIL(CORRUPT, "%s: %zu bytes are too many for a manifest", name, n_bytes);
    }
    if (!end || memcmp(end, "end ", 4) != 0 || end[-1] != '\n' || end[END_BYTES - 1] != '\n') {
        OCT_FAIL(CORRUPT, "%s: its last line is missing: truncated, or no manifest", name);
    }
    char sum[OCT_SHA256_TEXT];
    sum_of(bytes, n_bytes - END_BYTES, sum);
    if (memcmp(end + 4, sum, OCT_SHA256_TEXT - 1) != 0) {
        OCT_FAIL(CORRUPT, "%s: altered: its SHA-256 is %s, its last line says %.64s", name, sum,
                 end + 4);
    }
    return OCT_OK;
}

oct_status oct__manifest_parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                               struct oct__manifest **out) {
    struct lines lines = {.file = name, .bytes = (const char *)bytes, .number = 1};
    OCT_TRY(check_end(name, lines.bytes, n_bytes));
    lines.end = n_bytes - END_BYTES;
    oct_status status = OCT_OK;
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__manifest), "a manifest", &memory));
    struct oct__manifest *manifest = memory;
    OCT_TRY_TO(out, oct__alloc(lines.end, "options", &memory));
    manifest->text = memory;
    OCT_TRY_TO(out, take_all(&lines, manifest));
    *out = manifest;
    return OCT_OK;
out:
    oct__manifest_close(manifest);
    return status;
}

void oct__manifest_close(struct oct__manifest *manifest) {
    if (!manifest) {
        return;
    }
    oct__free(manifest->counters);
    oct__free(manifest->options);
    oct__free(manifest->files);
    oct__free(manifest->path);
    oct__free(manifest->text);
    oct__free(manifest);
}

oct_status oct__manifest_counter(const struct oct__manifest *manifest, const char *name,
                                 double *out) {
    struct oct__counter key = {.value = 0};
    snprintf(key.name, sizeof key.name, "%s", name);
    const struct oct__counter *found =
        manifest->n_counters > 0
            ? bsearch(&key, manifest->counters, manifest->n_counters, sizeof key, compare_counters)
            : NULL;
    if (!found) {
        OCT_FAIL(NOT_FOUND, "%s: it has no counter %s",
                 manifest->path ? manifest->path : "manifest", name);
    }
    *out = found->value;
    return OCT_OK;
}
