/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - reading idx files; see idx.h. */
#include "data/idx.h"

#include <string.h>

#include "data/files.h"

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

oct_status oct__idx_dataset(const char *name, const struct oct__idx_pair *pair, int side,
                            int border, int n_classes, struct oct_dataset **out) {
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
    OCT_TRY(oct__dataset_alloc(name, images.dims[0], padded, padded, 1, n_classes, &dataset));
    size_t sample_bytes = (size_t)padded * (size_t)padded;
    const uint8_t *from = images.elements;
    for (size_t i = 0; i < images.dims[0]; i++) {
        uint8_t label = labels.elements[i];
        if (label >= n_classes) {
            oct_dataset_close(dataset);
            OCT_FAIL(CORRUPT, "%s: label %d of record %zu at byte %zu, expected 0 to %d",
                     oct__path_shown(pair->label_file), label, i, i + 8, n_classes - 1);
        }
        dataset->labels[i] = label;
        uint8_t *to = dataset->images + i * sample_bytes + (size_t)border * (size_t)(padded + 1);
        for (int y = 0; y < side; y++, from += side, to += padded) {
            memcpy(to, from, (size_t)side);
        }
    }
    *out = dataset;
    return OCT_OK;
}
