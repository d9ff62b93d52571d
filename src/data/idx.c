/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - idx files (see idx.h), and your own images in that form.
 *
 * The folder has the four files under MNIST's names, gzipped or not, with a dash or a dot before
 * "idx": train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images.idx3-ubyte.gz … For relatives
 * such as EMNIST, which call the halves train and test and put a word before, there is `prefix`.
 */
#include "data/idx.h"

#include <string.h>

static uint32_t read_be32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

oct_status oct__idx_parse(const char *file, const uint8_t *bytes, size_t n_bytes, int n_dims,
                          struct oct__idx *out) {
    file = oct__path_shown(file);
    size_t header_bytes = 4 + 4 * (size_t)n_dims;
    if (n_bytes < header_bytes) {
        OCT_FAIL(CORRUPT, "%s: ends at byte %zu, inside the header of %zu", file, n_bytes,
                 header_bytes);
    }
    if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != n_dims) {
        OCT_FAIL(CORRUPT, "%s: begins with %02x %02x %02x %02x at byte 0, expected 00 00 08 %02x",
                 file, bytes[0], bytes[1], bytes[2], bytes[3], (unsigned)n_dims);
    }
    size_t left = n_bytes - header_bytes;
    size_t n_elements = 1;
    for (int d = 0; d < n_dims; d++) {
        uint32_t size = read_be32(bytes + 4 + (size_t)4 * (size_t)d);
        if (size == 0 || size > left / n_elements) {
            OCT_FAIL(CORRUPT, "%s: size %u at byte %d does not fit the %zu bytes behind the header",
                     file, size, 4 + 4 * d, left);
        }
        out->dims[d] = size;
        n_elements *= size;
    }
    if (n_elements != left) {
        OCT_FAIL(CORRUPT, "%s: %zu bytes behind the header, which ends at byte %zu and says %zu",
                 file, left, header_bytes, n_elements);
    }
    out->elements = bytes + header_bytes;
    out->n_elements = n_elements;
    return OCT_OK;
}

static oct_status copy_labels(const char *file, const struct oct__idx *labels,
                              struct oct_dataset *dataset) {
    for (size_t i = 0; i < labels->dims[0]; i++) {
        uint8_t label = labels->elements[i];
        if (label >= dataset->n_classes) {
            OCT_FAIL(CORRUPT, "%s: label %d of record %zu at byte %zu, expected 0 to %d",
                     oct__path_shown(file), label, i, i + 8, dataset->n_classes - 1);
        }
        dataset->labels[i] = label;
    }
    return OCT_OK;
}

static void copy_images(const struct oct__idx *images, size_t side, size_t border,
                        struct oct_dataset *dataset) {
    const size_t padded = side + 2 * border;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        const uint8_t *from = images->elements + (size_t)i * side * side;
        uint8_t *to = oct__dataset_room(dataset, i);
        for (size_t y = 0; to && y < side; y++) {
            memcpy(to + (y + border) * padded + border, from + y * side, side);
        }
    }
}

oct_status oct__idx_dataset(const char *name, const struct oct__idx_pair *pair, int side,
                            int border, int n_classes, const struct oct__data_choice *choice,
                            struct oct_dataset **out) {
    struct oct__idx images, labels;
    OCT_TRY(oct__idx_parse(pair->image_file, pair->images, pair->n_image_bytes, 3, &images));
    OCT_TRY(oct__idx_parse(pair->label_file, pair->labels, pair->n_label_bytes, 1, &labels));
    if (images.dims[1] != (uint32_t)side || images.dims[2] != (uint32_t)side) {
        OCT_FAIL(CORRUPT, "%s: images of %ux%u at byte 8, expected %dx%d",
                 oct__path_shown(pair->image_file), images.dims[1], images.dims[2], side, side);
    }
    if (images.dims[0] != labels.dims[0]) {
        OCT_FAIL(CORRUPT, "%s: %u labels at byte 4 for %u images",
                 oct__path_shown(pair->label_file), labels.dims[0], images.dims[0]);
    }
    int padded = side + 2 * border;
    struct oct_dataset *dataset;
    OCT_TRY(
        oct__dataset_alloc_labels(name, images.dims[0], padded, padded, 1, n_classes, &dataset));
    oct_status status = copy_labels(pair->label_file, &labels, dataset);
    if (status == OCT_OK) {
        status = oct__dataset_hold(dataset, choice);
    }
    if (status != OCT_OK) {
        oct_dataset_close(dataset);
        return status;
    }
    copy_images(&images, (size_t)side, (size_t)border, dataset);
    *out = dataset;
    return OCT_OK;
}

/* --- the plug-in ------------------------------------------------------------------------------ */

/* Bytes of an element of each type that idx knows; 0: there is none, or it is a float's. */
static const uint8_t integer_bytes[16] = {[0x08] = 1, [0x09] = 1, [0x0b] = 2, [0x0c] = 4};

oct_status oct__idx_begin(const char *file, const uint8_t *bytes, enum oct__array_role role,
                          struct oct__array *out) {
    file = oct__path_shown(file);
    const int type = bytes[2], n_dims = bytes[3];
    if (bytes[0] != 0 || bytes[1] != 0) {
        OCT_FAIL(CORRUPT, "%s: begins with %02x %02x %02x %02x at byte 0, which is no idx file",
                 file, bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    if (role == OCT_ARRAY_IMAGES && (type != 0x08 || (n_dims != 3 && n_dims != 4))) {
        OCT_FAIL(INVALID,
                 "%s: type %02x with %d dimensions at byte 2, expected unsigned bytes (08) with 3 "
                 "(n, h, w) or 4 (n, h, w, c)",
                 file, (unsigned)type, n_dims);
    }
    if (role == OCT_ARRAY_LABELS && (type > 15 || integer_bytes[type] == 0 || n_dims != 1)) {
        OCT_FAIL(INVALID,
                 "%s: type %02x with %d dimensions at byte 2, expected integers (08, 09, 0b, 0c) "
                 "with 1",
                 file, (unsigned)type, n_dims);
    }
    *out = (struct oct__array){
        .n_dims = n_dims,
        .item_bytes = integer_bytes[type],
        .is_signed = type != 0x08,
        .is_big_endian = true,
    };
    return OCT_OK;
}

oct_status oct__idx_sizes(const char *file, const uint8_t *bytes, struct oct__array *out) {
    for (int d = 0; d < out->n_dims; d++) {
        out->dims[d] = read_be32(bytes + 4 * (size_t)d);
    }
    if (out->n_dims == 4 && (out->dims[3] < 1 || out->dims[3] > OCT_DATA_CHANNELS)) {
        const bool first = out->dims[1] >= 1 && out->dims[1] <= OCT_DATA_CHANNELS;
        OCT_FAIL(INVALID, "%s: %llu channels at byte 16, expected 1 to %d%s", oct__path_shown(file),
                 (unsigned long long)out->dims[3], OCT_DATA_CHANNELS,
                 first ? "; it looks like (n, c, h, w): write channels last" : "");
    }
    return OCT_OK;
}

static oct_status read_header(struct oct__reader *reader, enum oct__array_role role,
                              struct oct__array *out) {
    uint8_t bytes[4 * OCT_ARRAY_DIMS];
    OCT_TRY(oct__array_need(reader, bytes, 4));
    OCT_TRY(oct__idx_begin(reader->path, bytes, role, out));
    OCT_TRY(oct__array_need(reader, bytes, 4 * (size_t)out->n_dims));
    return oct__idx_sizes(reader->path, bytes, out);
}

#define IMAGE_NAMES(half)                                                                          \
    half "-images-idx3-ubyte", half "-images.idx3-ubyte", half "-images-idx4-ubyte",               \
        half "-images.idx4-ubyte"
#define LABEL_NAMES(half) half "-labels-idx1-ubyte", half "-labels.idx1-ubyte"

static const char *const train_images[] = {IMAGE_NAMES("train"), NULL};
static const char *const train_labels[] = {LABEL_NAMES("train"), NULL};
static const char *const test_images[] = {IMAGE_NAMES("t10k"), IMAGE_NAMES("test"), NULL};
static const char *const test_labels[] = {LABEL_NAMES("t10k"), LABEL_NAMES("test"), NULL};

static const struct oct__arrays_form form = {
    .names = {{train_images, train_labels}, {test_images, test_labels}},
    .hint = "a word before these names goes into prefix=",
    .read_header = read_header,
};

static oct_status open_split(const struct oct_dataset_kind *kind, const char *options,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)folder;
    return oct__arrays_open(kind, &form, options, split, choice, out);
}

const struct oct_dataset_kind oct_dataset_idx = {
    .plugin = {.name = "idx",
               .summary =
                   "your own images in MNIST's form: {train,t10k}-{images,labels}-… in a folder",
               .options = OCT_ARRAYS_OPTIONS},
    .locate = oct__arrays_locate,
    .open = open_split,
};
