/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - the idx files of MNIST and its relatives.
 *
 *     offset 0   0, 0, element type (8: unsigned byte), number of dimensions d
 *     offset 4   d sizes, 32 bits each, big-endian
 *     then       the elements, last dimension fastest
 */
#ifndef OCT_DATA_IDX_H
#define OCT_DATA_IDX_H

#include "data/arrays.h"

#define OCT_IDX_DIMS 3

struct oct__idx {
    uint32_t dims[OCT_IDX_DIMS];
    const uint8_t *elements; /* inside the parsed bytes */
    size_t n_elements;
};

/* Reads the header and holds it against the length; `file` is for messages. Bytes are hostile. */
OCT_MUST_CHECK oct_status oct__idx_parse(const char *file, const uint8_t *bytes, size_t n_bytes,
                                         int n_dims, struct oct__idx *out);

/* One file of images and one of labels, as found in memory. */
struct oct__idx_pair {
    const char *image_file, *label_file; /* for messages */
    const uint8_t *images, *labels;
    size_t n_image_bytes, n_label_bytes;
};

/* A dataset of one channel from both files: images must be `side` x `side` and get `border` black
 * pixels on every side; those that `choice` marks are held. */
OCT_MUST_CHECK oct_status oct__idx_dataset(const char *name, const struct oct__idx_pair *pair,
                                           int side, int border, int n_classes,
                                           const struct oct__data_choice *choice,
                                           struct oct_dataset **out);

/* Element type and number of dimensions from the first 4 bytes: INVALID for what cannot be `role`.
 */
OCT_MUST_CHECK oct_status oct__idx_begin(const char *file, const uint8_t *bytes,
                                         enum oct__array_role role, struct oct__array *out);

/* The sizes, 4 bytes for each dimension. */
OCT_MUST_CHECK oct_status oct__idx_sizes(const char *file, const uint8_t *bytes,
                                         struct oct__array *out);

#endif
