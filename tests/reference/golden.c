/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c - golden files in, Philox inputs out: see golden.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "golden.h"

enum stream_kind { STREAM_PARAMS, STREAM_IMAGES, STREAM_LABELS, STREAM_POSITIONS };

enum { LEVELS = 4 * 4 * GOLDEN_CHANNELS };

static void draw(uint64_t seed, enum stream_kind kind, uint32_t layer, size_t count,
                 uint32_t *words) {
    struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_TEST, (uint32_t)kind, 0, layer);
    oct__stream_words(&stream, 0, count, words);
}

static void *take(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fail_msg("no memory for %zu elements of %zu bytes", count, size);
    }
    return memory;
}

/* --- inputs ---------------------------------------------------------------------------------- */

void golden_image(uint64_t seed, uint32_t index, int side, uint8_t *bytes) {
    const int pixels = side * side * GOLDEN_CHANNELS, patch = side / 4;
    uint32_t *words = take((size_t)(LEVELS + pixels), sizeof *words);
    draw(seed, STREAM_IMAGES, index, (size_t)(LEVELS + pixels), words);
    for (int i = 0; i < pixels; i++) {
        int c = i % GOLDEN_CHANNELS, column = i / GOLDEN_CHANNELS % side;
        int row = i / GOLDEN_CHANNELS / side;
        int level = (row / patch * 4 + column / patch) * GOLDEN_CHANNELS + c;
        bytes[i] = (uint8_t)(oct__below(words[level], 192) + oct__below(words[LEVELS + i], 64));
    }
    free(words);
}

int golden_label(uint64_t seed, uint32_t index) {
    uint32_t block[4];
    struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_TEST, STREAM_LABELS, 0, 0);
    oct__stream_block(&stream, index / 4, block);
    return (int)oct__below(block[index % 4], GOLDEN_CLASSES);
}

void golden_param(uint64_t seed, uint32_t index, const struct oct__param *param, float *values) {
    const char *leaf = strrchr(param->name, '.');
    assert_non_null(leaf);
    double scale = 0.4, shift = -0.2;
    if (strcmp(leaf, ".weight") == 0) {
        double bound = sqrt(6.0 / (double)(param->count / (size_t)param->n)) / (1 << index % 3);
        scale = 2.0 * bound;
        shift = -bound;
    } else if (strcmp(leaf, ".gamma") == 0 || strcmp(leaf, ".v") == 0) {
        scale = 0.5;
        shift = 0.75;
    }
    uint32_t *words = take(param->count, sizeof *words);
    draw(seed, STREAM_PARAMS, index, param->count, words);
    for (size_t i = 0; i < param->count; i++) {
        values[i] = (float)(scale * (double)oct__unit_float(words[i]) + shift);
    }
    free(words);
}

/* --- files ----------------------------------------------------------------------------------- */

struct reader {
    const char *path;
    uint8_t *bytes;
    size_t n_bytes, at;
};

static const uint8_t *next(struct reader *reader, size_t n) {
    if (n > reader->n_bytes - reader->at) {
        fail_msg("%s: ends at offset %zu, %zu bytes are missing", reader->path, reader->n_bytes,
                 n - (reader->n_bytes - reader->at));
    }
    reader->at += n;
    return reader->bytes + reader->at - n;
}

static uint64_t next_uint(struct reader *reader, int n) {
    const uint8_t *bytes = next(reader, (size_t)n);
    uint64_t value = 0;
    for (int i = n; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static double next_double(struct reader *reader) {
    uint64_t bits = next_uint(reader, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float next_float(struct reader *reader) {
    uint32_t bits = (uint32_t)next_uint(reader, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void read_all(struct reader *reader) {
    FILE *file = fopen(reader->path, "rb");
    if (!file) {
        fail_msg("%s: cannot be opened; make_goldens.py writes it", reader->path);
    }
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
        fail_msg("%s: its size cannot be found", reader->path);
    }
    reader->n_bytes = (size_t)size;
    reader->bytes = take(reader->n_bytes, 1);
    if (fread(reader->bytes, 1, reader->n_bytes, file) != reader->n_bytes) {
        fail_msg("%s: cannot be read", reader->path);
    }
    fclose(file);
}

static void read_record(struct reader *reader, uint64_t seed, uint32_t index,
                        struct golden_record *record) {
    size_t name_bytes = (size_t)next_uint(reader, 4);
    record->count = (uint32_t)next_uint(reader, 4);
    record->n_stored = (uint32_t)next_uint(reader, 4);
    char *name = take(name_bytes + 1, 1);
    memcpy(name, next(reader, name_bytes), name_bytes);
    record->name = name;
    if (record->n_stored == 0 || record->n_stored > record->count) {
        fail_msg("%s: %s has %u of %u elements", reader->path, name, record->n_stored,
                 record->count);
    }
    record->sum = next_double(reader);
    record->norm = next_double(reader);
    float *values = take(record->n_stored, sizeof *values);
    uint32_t *place = take(record->n_stored, sizeof *place);
    int is_sample = record->n_stored < record->count;
    if (is_sample) {
        draw(seed, STREAM_POSITIONS, index, record->n_stored, place);
    }
    for (uint32_t i = 0; i < record->n_stored; i++) {
        values[i] = next_float(reader);
        place[i] = is_sample ? oct__below(place[i], record->count) : i;
    }
    record->values = values;
    record->place = place;
}

static void choose_scales(struct golden *golden) {
    static const char prefix[] = "grad/";
    double largest = 0.0;
    for (uint32_t i = 0; i < golden->n_records; i++) {
        struct golden_record *record = &golden->records[i];
        record->scale = record->norm;
        if (strncmp(record->name, prefix, strlen(prefix)) == 0) {
            largest = record->norm > largest ? record->norm : largest;
        }
    }
    for (uint32_t i = 0; i < golden->n_records; i++) {
        struct golden_record *record = &golden->records[i];
        if (strncmp(record->name, prefix, strlen(prefix)) == 0 && record->norm < 1e-9 * largest) {
            record->scale = 0.1 * largest;
        }
    }
}

struct golden *golden_open(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.golden", folder, name);
    struct reader reader = {.path = path};
    read_all(&reader);
    if (memcmp(next(&reader, 8), "octgold1", 8) != 0) {
        fail_msg("%s: is no golden file", path);
    }
    struct golden *golden = take(1, sizeof *golden);
    golden->seed = next_uint(&reader, 8);
    golden->batch = (uint32_t)next_uint(&reader, 4);
    golden->n_records = (uint32_t)next_uint(&reader, 4);
    golden->records = take(golden->n_records, sizeof *golden->records);
    for (uint32_t i = 0; i < golden->n_records; i++) {
        read_record(&reader, golden->seed, i, &golden->records[i]);
    }
    if (reader.at != reader.n_bytes) {
        fail_msg("%s: has %zu bytes too many", path, reader.n_bytes - reader.at);
    }
    free(reader.bytes);
    choose_scales(golden);
    return golden;
}

static void free_const(const void *memory) {
    union {
        const void *in;
        void *out;
    } both = {memory};
    free(both.out);
}

void golden_close(struct golden *golden) {
    if (!golden) {
        return;
    }
    for (uint32_t i = 0; i < golden->n_records; i++) {
        free_const(golden->records[i].name);
        free_const(golden->records[i].values);
        free_const(golden->records[i].place);
    }
    free(golden->records);
    free(golden);
}

const struct golden_record *golden_find(const struct golden *golden, const char *name) {
    for (uint32_t i = 0; i < golden->n_records; i++) {
        if (strcmp(golden->records[i].name, name) == 0) {
            return &golden->records[i];
        }
    }
    return NULL;
}

double golden_error(const struct golden_record *record, const float *values) {
    double sum = 0.0, squares = 0.0, off = 0.0, count = record->count;
    for (uint32_t i = 0; i < record->count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    for (uint32_t i = 0; i < record->n_stored; i++) {
        double d = (double)values[record->place[i]] - (double)record->values[i];
        off += d * d;
    }
    double of_sum = fabs(sum - record->sum) / (record->scale * sqrt(count));
    double of_norm = fabs(sqrt(squares) - record->norm) / record->scale;
    double of_entries = sqrt(off / record->n_stored) / (record->scale / sqrt(count));
    double error = of_sum > of_norm ? of_sum : of_norm;
    error = of_entries > error ? of_entries : error;
    return isfinite(of_sum + of_norm + of_entries) ? error : INFINITY;
}
