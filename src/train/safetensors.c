/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - writing and reading parameter files.
 *
 * The header is JSON, but of one fixed form, so it is read by a cursor that accepts that form and
 * nothing else: a file comes from outside, and every number in it is checked before it is used.
 */
#include "train/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/little.h"
#include "base/replace.h"
#include "base/text.h"

#define HEADER_MOST ((size_t)16 << 20)
#define NAME_BYTES 256
#define CHECKSUM "crc32c" /* of the metadata: of all bytes behind the header */
#define BEGIN "{\"__metadata__\":{\"format\":\"octet\""

/* --- writing --------------------------------------------------------------------------------- */

/* Bytes of an element in a file: 4, or 1 of a weight where those are bytes. */
static size_t width_of(const struct oct__param *p, int has_bytes) {
    return has_bytes && p->n_dims > 1 ? 1 : sizeof(float);
}

/* One tensor of a row, its name after `prefix`, its bytes at *offset. */
static oct_status add_tensor(const struct oct__param *p, const char *prefix, size_t width,
                             uint64_t *offset, struct oct__text *text) {
    OCT_TRY(oct__text_add(text, ",\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", prefix, p->name,
                          width == 1 ? "I8" : "F32"));
    if (p->n_dims == 4) {
        OCT_TRY(oct__text_add(text, "%d,%d,%d,%d", p->n, p->c, p->h, p->w));
    } else if (p->n_dims == 2) {
        OCT_TRY(oct__text_add(text, "%d,%d", p->n, p->c));
    } else {
        OCT_TRY(oct__text_add(text, "%d", p->c));
    }
    uint64_t end = *offset + p->count * width;
    OCT_TRY(oct__text_add(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
                          (unsigned long long)end));
    *offset = end;
    return OCT_OK;
}

static oct_status end_header(struct oct__text *text) {
    OCT_TRY(oct__text_add(text, "}"));
    while (text->n_bytes % 8 != 0) { /* the tensors begin at a multiple of eight bytes */
        OCT_TRY(oct__text_add(text, " "));
    }
    return OCT_OK;
}

/* `metadata` is what follows the checksum, "" or further pairs. */
static oct_status make_header(const struct oct__row *row, int has_bytes, uint32_t sum,
                              const char *metadata, struct oct__text *text) {
    uint64_t offset = 0;
    OCT_TRY(oct__text_add(text, BEGIN ",\"" CHECKSUM "\":\"%08x\"%s%s}", sum,
                          metadata[0] ? "," : "", metadata));
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        OCT_TRY(add_tensor(p, "", width_of(p, has_bytes), &offset, text));
    }
    return end_header(text);
}

/* `n` elements as a file has them; how many bytes. */
static size_t encode(const float *from, size_t n, size_t width, uint8_t *bytes) {
    for (size_t i = 0; i < n; i++) {
        if (width == 1) {
            bytes[i] = (uint8_t)(int)from[i];
        } else {
            oct__put_little(bytes + 4 * i, oct__float_bits(from[i]), 4);
        }
    }
    return n * width;
}

/* The tensors' bytes go into `file` and `sum`, each of which may be NULL: the header stands before
 * them and says their sum, so they are made twice, a piece at a time, rather than kept. */
static int put_tensors(const struct oct__row *row, int has_bytes, const float *values, FILE *file,
                       uint32_t *sum) {
    enum { PIECE = 256 };
    uint8_t bytes[4 * PIECE];
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        for (size_t j = 0; j < p->count; j += PIECE) {
            const size_t n = p->count - j < PIECE ? p->count - j : PIECE;
            const size_t n_bytes = encode(values + p->offset + j, n, width_of(p, has_bytes), bytes);
            if (sum) {
                *sum = oct__crc32c(*sum, bytes, n_bytes);
            }
            if (file && fwrite(bytes, 1, n_bytes, file) != n_bytes) {
                return 0;
            }
        }
    }
    return 1;
}

/* 0, or errno. */
static int write_all(FILE *file, const char *header, size_t n_header, const struct oct__row *row,
                     int has_bytes, const float *values) {
    uint8_t length[8];
    oct__put_little(length, n_header, 8);
    errno = 0;
    if (fwrite(length, 1, 8, file) != 8 || fwrite(header, 1, n_header, file) != n_header ||
        !put_tensors(row, has_bytes, values, file, NULL) || fflush(file) != 0) {
        return errno ? errno : EIO;
    }
    /* A pipe or a device cannot be synchronized, and need not be. */
    return fsync(fileno(file)) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

static oct_status save(const char *path, const struct oct__row *row, int has_bytes,
                       const float *values, const char *metadata) {
    oct_status status = OCT_OK;
    struct oct__text header = {0};
    struct oct__replacement model;
    uint32_t sum = 0;
    (void)put_tensors(row, has_bytes, values, NULL, &sum);
    OCT_TRY_TO(out, make_header(row, has_bytes, sum, metadata, &header));
    int error = oct__replacement_open(&model, path);
    if (error) {
        OCT_FAIL_TO(out, IO, "%s: cannot be written: %s", path, strerror(error));
    }
    error = write_all(model.file, header.at, header.n_bytes, row, has_bytes, values);
    const int late = oct__replacement_close(&model, !error);
    if (error || late) {
        OCT_FAIL_TO(out, IO, "%s: writing failed: %s", path, strerror(error ? error : late));
    }
out:
    oct__text_fini(&header);
    return status;
}

oct_status oct__safetensors_save(const char *path, const struct oct__row *row,
                                 const float *values) {
    return save(path, row, 0, values, "");
}

oct_status oct__safetensors_save_with(const char *path, const struct oct__row *row,
                                      const float *values, const char *metadata) {
    return save(path, row, 0, values, metadata);
}

oct_status oct__safetensors_save_bytes(const char *path, const struct oct__row *row,
                                       const float *values, const char *metadata) {
    return save(path, row, 1, values, metadata);
}

oct_status oct__section_check(const char *name) {
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (length == 0 || name[length] || length >= OCT_SECTION_NAME) {
        OCT_FAIL(INVALID,
                 "'%.40s' cannot name a row of a checkpoint; expected up to 31 letters, digits, "
                 "'.', '_' and '-'",
                 name);
    }
    return OCT_OK;
}

static oct_status add_section(const struct oct__section *section, uint64_t *offset,
                              struct oct__text *text) {
    char prefix[OCT_SECTION_NAME + 1];
    OCT_TRY(oct__section_check(section->name));
    snprintf(prefix, sizeof prefix, "%s/", section->name);
    for (size_t i = 0; i < section->row->n_items; i++) {
        const struct oct__param *p = &section->row->items[i];
        if (strlen(prefix) + strlen(p->name) >= NAME_BYTES) {
            OCT_FAIL(INVALID,
                     "tensor %.60s…: its name is too long for a checkpoint; use a shorter "
                     "name for its layer",
                     p->name);
        }
        OCT_TRY(add_tensor(p, prefix, sizeof(float), offset, text));
    }
    return OCT_OK;
}

oct_status oct__sections_head(const struct oct__section *sections, size_t n_sections,
                              uint8_t **head, size_t *n_head, uint64_t *n_data) {
    oct_status status = OCT_OK;
    struct oct__text text = {0};
    void *bytes = NULL;
    uint64_t offset = 0;
    OCT_TRY_TO(out, oct__text_add(&text, BEGIN "}")); /* the manifest has its SHA-256 */
    for (size_t i = 0; i < n_sections; i++) {
        OCT_TRY_TO(out, add_section(&sections[i], &offset, &text));
    }
    OCT_TRY_TO(out, end_header(&text));
    if (text.n_bytes > HEADER_MOST) {
        OCT_FAIL_TO(out, UNSUPPORTED,
                    "a node has %zu rows; the names of their tensors take %zu bytes, more than "
                    "the %zu that a file's header may have",
                    n_sections, text.n_bytes, HEADER_MOST);
    }
    OCT_TRY_TO(out, oct__alloc(8 + text.n_bytes, "header", &bytes));
    oct__put_little(bytes, text.n_bytes, 8);
    memcpy((uint8_t *)bytes + 8, text.at, text.n_bytes);
    *head = bytes;
    *n_head = 8 + text.n_bytes;
    *n_data = offset;
out:
    oct__text_fini(&text);
    return status;
}

void oct__section_pack(const struct oct__row *row, const float *values, uint8_t *bytes) {
    for (size_t i = 0; i < row->n_items; i++) {
        const float *from = values + row->items[i].offset;
        for (size_t j = 0; j < row->items[i].count; j++, bytes += 4) {
            oct__put_little(bytes, oct__float_bits(from[j]), 4);
        }
    }
}

void oct__section_unpack(const struct oct__row *row, const uint8_t *bytes, float *values) {
    memset(values, 0, row->n_elements * sizeof *values);
    for (size_t i = 0; i < row->n_items; i++) {
        float *to = values + row->items[i].offset;
        for (size_t j = 0; j < row->items[i].count; j++, bytes += 4) {
            to[j] = oct__bits_float(oct__get_little_32(bytes));
        }
    }
}

/* --- reading --------------------------------------------------------------------------------- */

/* A pair of the metadata that is looked for. */
struct wanted {
    const char *key;
    char text[NAME_BYTES];
    int n_found;
};

struct cursor {
    const char *file;
    const uint8_t *bytes;
    size_t at, end;
    struct wanted *wanted; /* or NULL */
};

static oct_status malformed(const struct cursor *c, const char *expected) {
    OCT_FAIL(CORRUPT, "%s: byte %zu: %s expected", c->file, c->at + 8, expected);
}

static void skip_space(struct cursor *c) {
    while (c->at < c->end && strchr(" \t\r\n", c->bytes[c->at]) && c->bytes[c->at]) {
        c->at++;
    }
}

static int peek(struct cursor *c) {
    skip_space(c);
    return c->at < c->end ? c->bytes[c->at] : -1;
}

static oct_status take(struct cursor *c, char wanted) {
    if (peek(c) != wanted) {
        char expected[4] = {'\'', wanted, '\'', 0};
        return malformed(c, expected);
    }
    c->at++;
    return OCT_OK;
}

/* A string without its quotes; escapes are kept as they stand. */
static oct_status take_string(struct cursor *c, char text[NAME_BYTES]) {
    size_t used = 0;
    OCT_TRY(take(c, '"'));
    while (c->at < c->end && c->bytes[c->at] != '"') {
        int escaped = c->bytes[c->at] == '\\';
        for (int i = 0; i <= escaped; i++) {
            if (c->at >= c->end || c->bytes[c->at] < 0x20 || used + 1 >= NAME_BYTES) {
                return malformed(c, "a string of at most 255 bytes");
            }
            text[used++] = (char)c->bytes[c->at++];
        }
    }
    text[used] = 0;
    return take(c, '"');
}

static oct_status take_number(struct cursor *c, uint64_t *out) {
    uint64_t value = 0;
    int digit = peek(c);
    if (digit < '0' || digit > '9') {
        return malformed(c, "a whole number");
    }
    while (c->at < c->end && c->bytes[c->at] >= '0' && c->bytes[c->at] <= '9') {
        if (value > (UINT64_MAX - 9) / 10) {
            return malformed(c, "a smaller number");
        }
        value = value * 10 + (uint64_t)(c->bytes[c->at++] - '0');
    }
    *out = value;
    return OCT_OK;
}

static oct_status take_numbers(struct cursor *c, uint64_t numbers[4], int *n) {
    *n = 0;
    OCT_TRY(take(c, '['));
    while (peek(c) != ']') {
        if (*n == 4) {
            return malformed(c, "at most four numbers");
        }
        OCT_TRY(*n ? take(c, ',') : OCT_OK);
        OCT_TRY(take_number(c, &numbers[(*n)++]));
    }
    return take(c, ']');
}

struct entry {
    char name[NAME_BYTES];
    uint64_t shape[4], offsets[4];
    int n_dims, n_offsets;
    size_t width; /* 4: F32, 1: I8, 0: something else */
};

/* {"dtype":"F32","shape":[…],"data_offsets":[begin,end]} in any order. */
static oct_status take_entry(struct cursor *c, struct entry *entry) {
    OCT_TRY(take(c, '{'));
    for (int i = 0; peek(c) != '}'; i++) {
        char key[NAME_BYTES], value[NAME_BYTES];
        OCT_TRY(i ? take(c, ',') : OCT_OK);
        OCT_TRY(take_string(c, key));
        OCT_TRY(take(c, ':'));
        if (strcmp(key, "dtype") == 0) {
            OCT_TRY(take_string(c, value));
            entry->width = strcmp(value, "F32") == 0 ? 4 : strcmp(value, "I8") == 0;
        } else if (strcmp(key, "shape") == 0) {
            OCT_TRY(take_numbers(c, entry->shape, &entry->n_dims));
        } else if (strcmp(key, "data_offsets") == 0) {
            OCT_TRY(take_numbers(c, entry->offsets, &entry->n_offsets));
        } else {
            return malformed(c, "dtype, shape or data_offsets");
        }
    }
    return take(c, '}');
}

static oct_status take_metadata(struct cursor *c) {
    OCT_TRY(take(c, '{'));
    for (int i = 0; peek(c) != '}'; i++) {
        char name[NAME_BYTES], text[NAME_BYTES];
        OCT_TRY(i ? take(c, ',') : OCT_OK);
        OCT_TRY(take_string(c, name));
        OCT_TRY(take(c, ':'));
        OCT_TRY(take_string(c, text));
        if (c->wanted && strcmp(name, c->wanted->key) == 0) {
            memcpy(c->wanted->text, text, strlen(text) + 1);
            c->wanted->n_found++;
        }
    }
    return take(c, '}');
}

static int shape_fits(const struct oct__param *p, const struct entry *e) {
    const int wanted[3][4] = {{p->c, 0, 0, 0}, {p->n, p->c, 0, 0}, {p->n, p->c, p->h, p->w}};
    const int *shape = wanted[p->n_dims == 1 ? 0 : p->n_dims == 2 ? 1 : 2];
    if (e->n_dims != p->n_dims) {
        return 0;
    }
    for (int i = 0; i < p->n_dims; i++) {
        if (e->shape[i] != (uint64_t)shape[i]) {
            return 0;
        }
    }
    return 1;
}

/* `begins[i]` is where tensor i begins, plus 1; 0: not seen yet. */
static oct_status store(const struct cursor *c, const struct entry *e, size_t n_data,
                        const struct oct__row *row, int has_bytes, size_t *begins, float *values) {
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        if (strcmp(p->name, e->name) != 0) {
            continue;
        }
        if (begins[i]) {
            OCT_FAIL(CORRUPT, "%s: tensor %s occurs twice", c->file, p->name);
        }
        const size_t width = width_of(p, has_bytes);
        if (e->width != width || !shape_fits(p, e)) {
            OCT_FAIL(SHAPE,
                     "%s: tensor %s is not %s with the shape this model has; was it saved "
                     "from another model or norm?",
                     c->file, p->name, width == 1 ? "I8" : "F32");
        }
        if (e->n_offsets != 2 || e->offsets[0] > e->offsets[1] || e->offsets[1] > n_data ||
            e->offsets[1] - e->offsets[0] != p->count * width) {
            OCT_FAIL(CORRUPT, "%s: tensor %s lies outside the file", c->file, p->name);
        }
        const uint8_t *from = c->bytes + c->end + e->offsets[0];
        for (size_t j = 0; j < p->count; j++) {
            values[p->offset + j] = width == 1 ? (float)(from[j] < 128 ? from[j] : from[j] - 256)
                                               : oct__bits_float(oct__get_little_32(from + 4 * j));
        }
        begins[i] = (size_t)e->offsets[0] + 1;
        return OCT_OK;
    }
    OCT_FAIL(SHAPE, "%s: tensor %s is not part of this model", c->file, e->name);
}

/* The tensors fill the rest of the file: no holes, no overlaps, nothing behind them. */
static oct_status check_cover(const struct cursor *c, size_t n_data, const struct oct__row *row,
                              int has_bytes, const size_t *begins) {
    size_t total = 0;
    for (size_t i = 0; i < row->n_items; i++) {
        size_t n = row->items[i].count * width_of(&row->items[i], has_bytes);
        total += n;
        for (size_t j = 0; j < i; j++) {
            const struct oct__param *p = &row->items[j];
            if (begins[i] < begins[j] + p->count * width_of(p, has_bytes) &&
                begins[j] < begins[i] + n) {
                OCT_FAIL(CORRUPT, "%s: tensors %s and %s overlap", c->file, row->items[j].name,
                         row->items[i].name);
            }
        }
    }
    if (total != n_data) {
        OCT_FAIL(CORRUPT, "%s: %zu bytes of tensors where %zu belong", c->file, n_data, total);
    }
    return OCT_OK;
}

/* Files of other tools and of older versions do not say what the sum of their tensors is. */
static oct_status check_sum(const struct cursor *c, size_t n_data) {
    const char *said = c->wanted->text;
    if (c->wanted->n_found == 0) {
        return OCT_OK;
    }
    if (c->wanted->n_found > 1) {
        OCT_FAIL(CORRUPT, "%s: " CHECKSUM " stands twice in its header", c->file);
    }
    if (strlen(said) != 8 || strspn(said, "0123456789abcdef") != 8) {
        OCT_FAIL(CORRUPT,
                 "%s: " CHECKSUM " in its header is '%.40s', expected eight hexadecimal digits, in "
                 "lower case",
                 c->file, said);
    }
    char sum[9];
    snprintf(sum, sizeof sum, "%08x", oct__crc32c(0, c->bytes + c->end, n_data));
    if (strcmp(sum, said) != 0) {
        OCT_FAIL(CORRUPT,
                 "%s: altered: the CRC-32C of its tensors is %s, its header says %s; copy it, or "
                 "save it, again",
                 c->file, sum, said);
    }
    return OCT_OK;
}

static oct_status read_tensors(struct cursor *c, size_t n_data, const struct oct__row *row,
                               int has_bytes, size_t *begins, float *values) {
    OCT_TRY(take(c, '{'));
    for (int i = 0; peek(c) != '}'; i++) {
        struct entry entry = {.n_dims = 0};
        OCT_TRY(i ? take(c, ',') : OCT_OK);
        OCT_TRY(take_string(c, entry.name));
        OCT_TRY(take(c, ':'));
        if (strcmp(entry.name, "__metadata__") == 0) {
            OCT_TRY(take_metadata(c));
            continue;
        }
        OCT_TRY(take_entry(c, &entry));
        OCT_TRY(store(c, &entry, n_data, row, has_bytes, begins, values));
    }
    OCT_TRY(take(c, '}'));
    skip_space(c);
    if (c->at != c->end) {
        return malformed(c, "the end of the header");
    }
    for (size_t i = 0; i < row->n_items; i++) {
        if (!begins[i]) {
            OCT_FAIL(SHAPE, "%s: tensor %s is missing; was it saved from another model or norm?",
                     c->file, row->items[i].name);
        }
    }
    OCT_TRY(check_cover(c, n_data, row, has_bytes, begins));
    return check_sum(c, n_data);
}

oct_status oct__safetensors_length(const char *name, const uint8_t first[8], uint64_t n_bytes,
                                   size_t *n_header) {
    uint64_t length = oct__get_little(first, 8);
    if (length > HEADER_MOST || length > n_bytes - 8) {
        OCT_FAIL(CORRUPT,
                 "%s: header of %llu bytes in a file of %llu: truncated, or no safetensors "
                 "file",
                 name, (unsigned long long)length, (unsigned long long)n_bytes);
    }
    *n_header = (size_t)length;
    return OCT_OK;
}

static oct_status open_header(const char *name, const uint8_t *bytes, size_t n_bytes,
                              struct cursor *out) {
    if (n_bytes < 8) {
        OCT_FAIL(CORRUPT, "%s: %zu bytes: too short for a safetensors file", name, n_bytes);
    }
    size_t n_header = 0;
    OCT_TRY(oct__safetensors_length(name, bytes, n_bytes, &n_header));
    *out = (struct cursor){.file = name, .bytes = bytes + 8, .end = n_header};
    return OCT_OK;
}

static oct_status parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                        const struct oct__row *row, int has_bytes, float *values) {
    struct cursor cursor;
    struct wanted sum = {.key = CHECKSUM};
    OCT_TRY(open_header(name, bytes, n_bytes, &cursor));
    cursor.wanted = &sum;
    const size_t n_data = n_bytes - 8 - cursor.end;
    oct_status status = OCT_OK;
    void *begins = NULL, *copy = NULL;
    OCT_TRY_TO(out, oct__alloc_array(row->n_items, sizeof(size_t), "tensor list", &begins));
    OCT_TRY_TO(out, oct__alloc_array(row->n_elements, sizeof *values, "parameters", &copy));
    OCT_TRY_TO(out, read_tensors(&cursor, n_data, row, has_bytes, begins, copy));
    memcpy(values, copy, row->n_elements * sizeof *values);
out:
    oct__free(copy);
    oct__free(begins);
    return status;
}

oct_status oct__safetensors_parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                                  const struct oct__row *row, float *values) {
    return parse(name, bytes, n_bytes, row, 0, values);
}

oct_status oct__safetensors_parse_bytes(const char *name, const uint8_t *bytes, size_t n_bytes,
                                        const struct oct__row *row, float *values) {
    return parse(name, bytes, n_bytes, row, 1, values);
}

oct_status oct__safetensors_read(const char *path, uint8_t **out, size_t *n_bytes) {
    oct_status status = OCT_OK;
    void *bytes = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) {
        OCT_FAIL(NOT_FOUND, "%s: cannot be read: %s", path, strerror(errno));
    }
    struct stat about;
    if (fstat(fileno(file), &about) == 0 && S_ISDIR(about.st_mode)) {
        OCT_FAIL_TO(out, IO, "%s: is a folder, expected a safetensors file", path);
    }
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
        OCT_FAIL_TO(out, IO, "%s: its size cannot be found: %s", path, strerror(errno));
    }
    OCT_TRY_TO(out, oct__alloc((size_t)size, "parameter file", &bytes));
    if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        OCT_FAIL_TO(out, IO, "%s: reading failed: %s", path, strerror(errno));
    }
    *out = bytes;
    *n_bytes = (size_t)size;
    bytes = NULL;
out:
    fclose(file);
    oct__free(bytes);
    return status;
}

oct_status oct__safetensors_load(const char *path, const struct oct__row *row, float *values) {
    uint8_t *bytes;
    size_t n_bytes;
    OCT_TRY(oct__safetensors_read(path, &bytes, &n_bytes));
    oct_status status = oct__safetensors_parse(path, bytes, n_bytes, row, values);
    oct__free(bytes);
    return status;
}

/* --- several rows ---------------------------------------------------------------------------- */

/* "x/conv.weight": the part before the first '/'. */
static oct_status section_of(const struct cursor *c, const char *tensor,
                             char name[OCT_SECTION_NAME]) {
    const char *slash = strchr(tensor, '/');
    size_t length = slash ? (size_t)(slash - tensor) : 0;
    if (length < OCT_SECTION_NAME) {
        memcpy(name, tensor, length);
        name[length] = '\0';
        if (oct__section_check(name) == OCT_OK) {
            return OCT_OK;
        }
    }
    OCT_FAIL(CORRUPT, "%s: tensor %s does not say which row it belongs to", c->file, tensor);
}

/* The next tensor of the file must be `p` of the section, and begin where the last one ended. */
static oct_status check_member(const struct cursor *c, const struct entry *e, const char *section,
                               const struct oct__param *p, uint64_t offset) {
    size_t length = strlen(section);
    if (strncmp(e->name, section, length) != 0 || e->name[length] != '/' ||
        strcmp(e->name + length + 1, p->name) != 0) {
        OCT_FAIL(SHAPE, "%s: tensor %s where %s/%s belongs; was it saved from another model?",
                 c->file, e->name[0] ? e->name : "(none)", section, p->name);
    }
    if (e->width != sizeof(float) || !shape_fits(p, e)) {
        OCT_FAIL(SHAPE,
                 "%s: tensor %s is not F32 with the shape this model has; was it saved from "
                 "another model or norm?",
                 c->file, e->name);
    }
    if (e->n_offsets != 2 || e->offsets[0] != offset ||
        e->offsets[1] != offset + p->count * sizeof(float)) {
        OCT_FAIL(CORRUPT, "%s: tensor %s does not lie where the one before it ends", c->file,
                 e->name);
    }
    return OCT_OK;
}

/* The next tensor; an empty name when there is none. Metadata on the way is looked through. */
static oct_status next_entry(struct cursor *c, int *n_taken, struct entry *entry) {
    memset(entry, 0, sizeof *entry);
    while (peek(c) != '}') {
        OCT_TRY((*n_taken)++ ? take(c, ',') : OCT_OK);
        OCT_TRY(take_string(c, entry->name));
        OCT_TRY(take(c, ':'));
        if (strcmp(entry->name, "__metadata__") == 0) {
            OCT_TRY(take_metadata(c));
            entry->name[0] = '\0';
            continue;
        }
        if (!entry->name[0]) {
            return malformed(c, "a tensor with a name");
        }
        return take_entry(c, entry);
    }
    return OCT_OK;
}

oct_status oct__safetensors_metadata(const char *name, const uint8_t *bytes, size_t n_bytes,
                                     const char *key, char out[OCT_METADATA_BYTES]) {
    struct cursor cursor;
    struct wanted wanted = {.key = key};
    struct entry entry;
    int n_taken = 0;
    out[0] = '\0';
    OCT_TRY(open_header(name, bytes, n_bytes, &cursor));
    cursor.wanted = &wanted;
    OCT_TRY(take(&cursor, '{'));
    do {
        OCT_TRY(next_entry(&cursor, &n_taken, &entry));
    } while (entry.name[0]);
    OCT_TRY(take(&cursor, '}'));
    if (strlen(wanted.text) < OCT_METADATA_BYTES) {
        memcpy(out, wanted.text, strlen(wanted.text) + 1);
    }
    return OCT_OK;
}

oct_status oct__sections_walk(const char *name, const uint8_t *header, size_t n_header,
                              uint64_t n_data, const struct oct__section_reader *reader) {
    struct cursor cursor = {.file = name, .bytes = header, .end = n_header};
    struct entry entry;
    uint64_t offset = 0;
    int n_taken = 0;
    OCT_TRY(take(&cursor, '{'));
    OCT_TRY(next_entry(&cursor, &n_taken, &entry));
    while (entry.name[0]) {
        char section[OCT_SECTION_NAME];
        OCT_TRY(section_of(&cursor, entry.name, section));
        const struct oct__row *row = reader->row(reader->context, section);
        if (!row || row->n_items == 0) {
            OCT_FAIL(SHAPE, "%s: row %s is not part of this run", name, section);
        }
        const uint64_t begin = offset;
        for (size_t i = 0; i < row->n_items; i++) {
            OCT_TRY(check_member(&cursor, &entry, section, &row->items[i], offset));
            offset = entry.offsets[1];
            if (offset > n_data) {
                OCT_FAIL(CORRUPT, "%s: tensor %s lies outside the file", name, entry.name);
            }
            OCT_TRY(next_entry(&cursor, &n_taken, &entry));
        }
        OCT_TRY(reader->read(reader->context, section, row, begin));
    }
    OCT_TRY(take(&cursor, '}'));
    skip_space(&cursor);
    if (cursor.at != cursor.end) {
        return malformed(&cursor, "the end of the header");
    }
    if (offset != n_data) {
        OCT_FAIL(CORRUPT, "%s: %llu bytes of tensors where %llu belong", name,
                 (unsigned long long)n_data, (unsigned long long)offset);
    }
    return OCT_OK;
}
