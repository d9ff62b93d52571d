/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - four arrays in a folder of the user's: what `npy` and `idx` have in common.
 *
 *     FOLDER/training images   [n][h][w] or [n][h][w][c], bytes     FOLDER/test images   the same h, w, c
 *     FOLDER/training labels   [n], integers from 0                 FOLDER/test labels
 *
 * A form knows the names of the files and reads their headers; here the four are found and held
 * against one another and against their lengths, and then labels are read, and images straight into
 * the dataset's table. There is one class more than the largest label of both halves, so that neither
 * half has to have them all.
 */
#ifndef OCT_DATA_ARRAYS_H
#define OCT_DATA_ARRAYS_H

#include "base/spec.h"
#include "data/reader.h"

#define OCT_ARRAY_DIMS 4
#define OCT_ARRAY_CLASSES 65536

enum oct__array_role { OCT_ARRAY_IMAGES, OCT_ARRAY_LABELS };

/* What a header says. Images have 3 or 4 dimensions and items of a byte, labels 1 (or a second one
 * of size 1). */
struct oct__array {
    int n_dims;
    uint64_t dims[OCT_ARRAY_DIMS];
    size_t item_bytes; /* 1, 2, 4 or 8 */
    bool is_signed, is_big_endian;
};

/* Options of such a dataset; the table is oct__arrays_table. */
struct oct__arrays_options {
    char path[OCT_SPEC_TEXT_MOST];
    char prefix[OCT_SPEC_TEXT_MOST]; /* of every file name */
    int64_t pad;                     /* black pixels on every side */
};
extern const struct oct__spec_option oct__arrays_table[];

#define OCT_ARRAYS_OPTIONS "path=FOLDER, prefix=TEXT, pad=N (0)"

struct oct__arrays_form {
    const char *const *names[2][2]; /* by split and role; each list ends with NULL */
    const char *hint;               /* what to do when the files are not there */
    /* Reads up to the first item; INVALID or CORRUPT for what cannot be used as `role`. */
    oct_status (*read_header)(struct oct__reader *reader, enum oct__array_role role,
                              struct oct__array *out);
};

/* As oct_dataset_kind has them. */
OCT_MUST_CHECK oct_status oct__arrays_open(const struct oct_dataset_kind *kind,
                                           const struct oct__arrays_form *form, const char *text,
                                           enum oct_split split,
                                           const struct oct__data_choice *choice,
                                           struct oct_dataset **out);
OCT_MUST_CHECK oct_status oct__arrays_locate(const struct oct_dataset_kind *kind, const char *text,
                                             char out[OCT_PATH_BYTES]);

/* Bytes of all items; false when a size is 0 or they are more than a file can have. */
bool oct__array_bytes(const struct oct__array *array, uint64_t *out);

/* Item `i` of labels; false when it is no class. */
bool oct__array_label(const struct oct__array *array, const uint8_t *items, size_t i,
                      uint16_t *out);

/* The rest of a header of `n_bytes`, or CORRUPT saying where the file ends. */
OCT_MUST_CHECK oct_status oct__array_need(struct oct__reader *reader, void *into, size_t n_bytes);

#endif
