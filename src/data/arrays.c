/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c - datasets of four arrays in a folder; see arrays.h. */
#include "data/arrays.h"

#include <limits.h>
#include <string.h>

const struct oct__spec_option oct__arrays_table[] = {
    {"path", OCT_SPEC_TEXT, offsetof(struct oct__arrays_options, path), 0, 0, NULL},
    {"prefix", OCT_SPEC_TEXT, offsetof(struct oct__arrays_options, prefix), 0, 0, NULL},
    {"pad", OCT_SPEC_INT, offsetof(struct oct__arrays_options, pad), 0, 1024, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static const char *const split_names[] = {"training", "test"};
static const char *const role_names[] = {"images", "labels"};

bool oct__array_bytes(const struct oct__array *array, uint64_t *out) {
    uint64_t n = array->item_bytes;
    for (int d = 0; d < array->n_dims; d++) {
        if (array->dims[d] == 0 || array->dims[d] > (uint64_t)INT64_MAX / n) {
            return false;
        }
        n *= array->dims[d];
    }
    *out = n;
    return true;
}

/* The item's bits, its sign carried on to the top. */
static uint64_t item_at(const struct oct__array *array, const uint8_t *items, size_t i) {
    const uint8_t *bytes = items + i * array->item_bytes;
    uint64_t value = 0;
    for (size_t b = 0; b < array->item_bytes; b++) {
        size_t from = array->is_big_endian ? b : array->item_bytes - 1 - b;
        value = value << 8 | bytes[from];
    }
    size_t n_bits = 8 * array->item_bytes;
    if (array->is_signed && n_bits > 0 && n_bits < 64 && value >> (n_bits - 1)) {
        value |= UINT64_MAX << n_bits;
    }
    return value;
}

bool oct__array_label(const struct oct__array *array, const uint8_t *items, size_t i,
                      uint16_t *out) {
    uint64_t value = item_at(array, items, i);
    *out = (uint16_t)value;
    return value < OCT_ARRAY_CLASSES;
}

oct_status oct__array_need(struct oct__reader *reader, void *into, size_t n_bytes) {
    size_t got;
    OCT_TRY(oct__reader_read(reader, into, n_bytes, &got));
    if (got < n_bytes) {
        OCT_FAIL(CORRUPT, "%s: ends at byte %llu, inside its header: truncated; write it again",
                 oct__path_shown(reader->path), (unsigned long long)reader->at);
    }
    return OCT_OK;
}

/* --- the four files --------------------------------------------------------------------------- */

/* One of them, read up to its first item. */
struct part {
    struct oct__reader reader;
    struct oct__array array;
};

struct parts {
    struct part of[2][2]; /* by split and role */
};

static void close_parts(struct parts *parts) {
    for (int i = 0; i < 4; i++) {
        oct__reader_close(&parts->of[i / 2][i % 2].reader);
    }
}

/* Opens the first of the names that is there. */
static oct_status open_named(const struct oct__arrays_form *form,
                             const struct oct__arrays_options *options, enum oct_split split,
                             enum oct__array_role role, struct oct__reader *out) {
    const char *const *names = form->names[split][role];
    char name[OCT_PATH_BYTES];
    for (int i = 0; names[i]; i++) {
        size_t n_prefix = strlen(options->prefix), length = strlen(names[i]);
        if (n_prefix + length >= sizeof name) {
            OCT_FAIL(INVALID, "prefix: %zu bytes, too long for a file name", n_prefix);
        }
        memcpy(name, options->prefix, n_prefix);
        memcpy(name + n_prefix, names[i], length + 1);
        enum oct__presence presence;
        OCT_TRY(oct__file_find(options->path, name, &presence));
        if (presence != OCT_ABSENT) {
            return oct__reader_open(options->path, name, NULL, out);
        }
    }
    OCT_FAIL(NOT_FOUND, "%s: no %s %s, called %.40s%s or %.40s%s; %s",
             oct__path_shown(options->path), split_names[split], role_names[role], options->prefix,
             names[0], options->prefix, names[1], form->hint);
}

static oct_status check_length(const struct part *part) {
    const struct oct__reader *reader = &part->reader;
    uint64_t n_bytes = 0;
    char a[OCT_GROUPED_BYTES], b[OCT_GROUPED_BYTES], c[OCT_GROUPED_BYTES];
    if (!oct__array_bytes(&part->array, &n_bytes)) {
        OCT_FAIL(CORRUPT, "%s: its header before byte %s gives it no items, or more than any file",
                 oct__path_shown(reader->path), oct__grouped(reader->at, a));
    }
    uint64_t total = reader->at + n_bytes; /* no overflow: half of the range and a short header */
    if (reader->is_gzipped ? total > reader->most_bytes : total != reader->most_bytes) {
        OCT_FAIL(CORRUPT,
                 "%s: %s%s bytes, but its header, which ends at byte %s, says %s: %s; "
                 "write it again",
                 oct__path_shown(reader->path), reader->is_gzipped ? "unpacks to less than " : "",
                 oct__grouped(reader->most_bytes, a), oct__grouped(reader->at, b),
                 oct__grouped(total, c), total > reader->most_bytes ? "truncated" : "too long");
    }
    return OCT_OK;
}

static uint64_t channels_of(const struct oct__array *images) {
    return images->n_dims == 4 ? images->dims[3] : 1;
}

static oct_status open_parts(const struct oct__arrays_form *form,
                             const struct oct__arrays_options *options, struct parts *parts) {
    for (int i = 0; i < 4; i++) {
        struct part *part = &parts->of[i / 2][i % 2];
        enum oct__array_role role = (enum oct__array_role)(i % 2);
        OCT_TRY(open_named(form, options, (enum oct_split)(i / 2), role, &part->reader));
        OCT_TRY(form->read_header(&part->reader, role, &part->array));
        OCT_TRY(check_length(part));
    }
    for (int split = 0; split < 2; split++) {
        const struct part *images = &parts->of[split][0], *labels = &parts->of[split][1];
        if (images->array.dims[0] != labels->array.dims[0]) {
            OCT_FAIL(CORRUPT, "%s: %llu labels, but the %s images are %llu: write both again",
                     oct__path_shown(labels->reader.path),
                     (unsigned long long)labels->array.dims[0], split_names[split],
                     (unsigned long long)images->array.dims[0]);
        }
    }
    const struct oct__array *train = &parts->of[0][0].array, *test = &parts->of[1][0].array;
    if (train->dims[1] != test->dims[1] || train->dims[2] != test->dims[2] ||
        channels_of(train) != channels_of(test)) {
        OCT_FAIL(CORRUPT,
                 "%s: images of %llux%llux%llu, but the training images are %llux%llux%llu: bring "
                 "them to one size",
                 oct__path_shown(parts->of[1][0].reader.path), (unsigned long long)test->dims[1],
                 (unsigned long long)test->dims[2], (unsigned long long)channels_of(test),
                 (unsigned long long)train->dims[1], (unsigned long long)train->dims[2],
                 (unsigned long long)channels_of(train));
    }
    return OCT_OK;
}

/* --- items ------------------------------------------------------------------------------------ */

static oct_status read_items(struct oct__reader *reader, void *into, size_t n_bytes) {
    size_t got;
    OCT_TRY(oct__reader_read(reader, into, n_bytes, &got));
    if (got < n_bytes) {
        char at[OCT_GROUPED_BYTES];
        OCT_FAIL(CORRUPT, "%s: ends at byte %s, before all its items: truncated; write it again",
                 oct__path_shown(reader->path), oct__grouped(reader->at, at));
    }
    return OCT_OK;
}

static oct_status read_end(struct oct__reader *reader) {
    uint8_t excess;
    size_t got;
    uint64_t end = reader->at;
    OCT_TRY(oct__reader_read(reader, &excess, 1, &got));
    if (got > 0) {
        char at[OCT_GROUPED_BYTES];
        OCT_FAIL(CORRUPT, "%s: goes on at byte %s, behind its last item: too long; write it again",
                 oct__path_shown(reader->path), oct__grouped(end, at));
    }
    return OCT_OK;
}

/* One image after the other through `image`, which has room for one: all are added to the sums, and
 * those that are held find their place, rows inside the border. */
static oct_status read_each(struct part *part, int64_t pad, uint8_t *image,
                            struct oct_dataset *dataset, struct oct__data_sums *sums) {
    const size_t height = (size_t)part->array.dims[1], width = (size_t)part->array.dims[2];
    const size_t channels = (size_t)dataset->channels, row = width * channels;
    const size_t table_row = (size_t)dataset->width * channels;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        OCT_TRY(read_items(&part->reader, image, height * row));
        oct__data_sums_add(sums, image, height * width, dataset->channels);
        uint8_t *to = oct__dataset_room(dataset, i);
        for (size_t y = 0; to && y < height; y++) {
            memcpy(to + ((size_t)pad + y) * table_row + (size_t)pad * channels, image + y * row,
                   row);
        }
    }
    return OCT_OK;
}

/* Without a border the table of all images is the file's content as it is. */
static oct_status read_images(struct part *part, int64_t pad, struct oct_dataset *dataset) {
    struct oct__data_sums sums = {{0}, {0}};
    if (pad == 0 && !dataset->place) {
        const size_t n_bytes = (size_t)dataset->n_samples * oct__sample_bytes(dataset);
        OCT_TRY(read_items(&part->reader, dataset->images, n_bytes));
        oct__data_sums_add(&sums, dataset->images, n_bytes / (size_t)dataset->channels,
                           dataset->channels);
    } else {
        void *image;
        OCT_TRY(oct__alloc_array((size_t)(part->array.dims[1] * part->array.dims[2]),
                                 (size_t)dataset->channels, "an image", &image));
        oct_status status = read_each(part, pad, image, dataset, &sums);
        oct__free(image);
        OCT_TRY(status);
    }
    oct__dataset_normalize(dataset, &sums);
    return read_end(&part->reader);
}

/* The labels of both halves. */
struct range {
    int least, most;
};

/* Labels of one half; `into` may be NULL. The range grows. */
static oct_status read_labels(struct part *part, uint16_t *into, struct range *range) {
    const struct oct__array *array = &part->array;
    uint8_t chunk[8192];
    size_t per_chunk = sizeof chunk / array->item_bytes;
    uint64_t n = array->dims[0];
    for (uint64_t done = 0; done < n;) {
        size_t now = n - done < per_chunk ? (size_t)(n - done) : per_chunk;
        uint64_t at = part->reader.at;
        OCT_TRY(read_items(&part->reader, chunk, now * array->item_bytes));
        for (size_t i = 0; i < now; i++, done++) {
            uint16_t label;
            if (!oct__array_label(array, chunk, i, &label)) {
                uint64_t value = item_at(array, chunk, i);
                bool negative = array->is_signed && value >> 63;
                OCT_FAIL(INVALID,
                         "%s: label %s%llu of sample %llu at byte %llu, expected 0 to %d: number "
                         "the classes from 0",
                         oct__path_shown(part->reader.path), negative ? "-" : "",
                         (unsigned long long)(negative ? 0 - value : value),
                         (unsigned long long)done, (unsigned long long)(at + i * array->item_bytes),
                         OCT_ARRAY_CLASSES - 1);
            }
            range->least = label < range->least ? label : range->least;
            range->most = label > range->most ? label : range->most;
            if (into) {
                into[done] = label;
            }
        }
    }
    return read_end(&part->reader);
}

/* There is nothing to learn from one class. */
static oct_status check_range(const struct parts *parts, const struct range *range) {
    if (range->least == range->most) {
        OCT_FAIL(
            INVALID,
            "%s: every label is %d, and so are those of the test half: one class, expected 2 or "
            "more to tell apart",
            oct__path_shown(parts->of[OCT_SPLIT_TRAIN][OCT_ARRAY_LABELS].reader.path), range->most);
    }
    return OCT_OK;
}

/* --- the dataset ------------------------------------------------------------------------------ */

static oct_status read_options(const struct oct_dataset_kind *kind, const char *text,
                               struct oct__arrays_options *out) {
    memset(out, 0, sizeof *out);
    OCT_TRY(oct__spec_read(kind->plugin.name, text, oct__arrays_table, out));
    if (!out->path[0]) {
        OCT_FAIL(NOT_FOUND, "%s: names no folder; bring your own with --data %s:FOLDER",
                 kind->plugin.name, kind->plugin.name);
    }
    return OCT_OK;
}

oct_status oct__arrays_locate(const struct oct_dataset_kind *kind, const char *text,
                              char out[OCT_PATH_BYTES]) {
    struct oct__arrays_options options;
    OCT_TRY(read_options(kind, text, &options));
    memcpy(out, options.path, strlen(options.path) + 1);
    return OCT_OK;
}

/* The table for the images, border included; how many classes there are, the labels say later. */
static oct_status make_table(const char *name, const struct part *images, int64_t pad,
                             struct oct_dataset **out) {
    const struct oct__array *array = &images->array;
    const uint64_t border = 2 * (uint64_t)pad;
    if (array->dims[1] > INT_MAX - border || array->dims[2] > INT_MAX - border) {
        OCT_FAIL(INVALID, "%s: images of %llux%llu are too large",
                 oct__path_shown(images->reader.path), (unsigned long long)array->dims[1],
                 (unsigned long long)array->dims[2]);
    }
    return oct__dataset_alloc_labels(name, (int64_t)array->dims[0], (int)(array->dims[1] + border),
                                     (int)(array->dims[2] + border), (int)channels_of(array), 2,
                                     out);
}

oct_status oct__arrays_open(const struct oct_dataset_kind *kind,
                            const struct oct__arrays_form *form, const char *text,
                            enum oct_split split, const struct oct__data_choice *choice,
                            struct oct_dataset **out) {
    struct oct__arrays_options options;
    OCT_TRY(read_options(kind, text, &options));
    OCT_TRY(oct__place_check(kind->plugin.name, options.path));
    struct parts parts;
    memset(&parts, 0, sizeof parts);
    for (int i = 0; i < 4; i++) {
        parts.of[i / 2][i % 2].reader.fd = -1;
    }
    struct oct_dataset *dataset = NULL;
    struct range range = {.least = OCT_ARRAY_CLASSES, .most = -1};
    oct_status status;
    OCT_TRY_TO(out, open_parts(form, &options, &parts));
    struct part *images = &parts.of[split][OCT_ARRAY_IMAGES];
    OCT_TRY_TO(out, make_table(kind->plugin.name, images, options.pad, &dataset));
    for (int half = 0; half < 2; half++) {
        uint16_t *into = half == (int)split ? dataset->labels : NULL;
        OCT_TRY_TO(out, read_labels(&parts.of[half][OCT_ARRAY_LABELS], into, &range));
    }
    OCT_TRY_TO(out, check_range(&parts, &range));
    dataset->n_classes = range.most + 1;
    OCT_TRY_TO(out, oct__dataset_hold(dataset, choice));
    OCT_TRY_TO(out, read_images(images, options.pad, dataset));
    *out = dataset;
    dataset = NULL;
out:
    oct_dataset_close(dataset);
    close_parts(&parts);
    return status;
}
