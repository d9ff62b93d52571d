/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - the header of NumPy's .npy files (numpy.lib.format), versions 1.0, 2.0 and 3.0.
 *
 *     offset 0   0x93 'N' 'U' 'M' 'P' 'Y', major version, minor version
 *     offset 8   length of the text: 2 bytes in version 1, 4 bytes in 2 and 3, little-endian
 *     then       the text, a Python dictionary padded with spaces:
 *                {'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *     then       the items
 *
 * The dictionary is read by its own small grammar; nothing is evaluated, and what np.save does not
 * write is refused.
 */
#ifndef OCT_DATA_NPY_H
#define OCT_DATA_NPY_H

#include "data/arrays.h"

enum {
    OCT_NPY_BEGIN = 8,         /* magic and version */
    OCT_NPY_MOST_TEXT = 10000, /* NumPy itself reads no longer one without being asked to */
    OCT_NPY_DESCR = 24,
};

struct oct__npy {
    char descr[OCT_NPY_DESCR]; /* "<i8"; "" for a structured type */
    bool is_fortran;
    int n_dims; /* may be more than `dims` holds */
    uint64_t dims[OCT_ARRAY_DIMS];
    size_t descr_at, order_at, shape_at; /* where in the file, for messages */
};

/* From magic and version, how many bytes the text's length has; `bytes` are OCT_NPY_BEGIN. */
OCT_MUST_CHECK oct_status oct__npy_begin(const char *file, const uint8_t *bytes, size_t *n_length);

/* From those bytes, how long the text is. */
OCT_MUST_CHECK oct_status oct__npy_length(const char *file, const uint8_t *bytes, size_t n_length,
                                          size_t *n_text);

/* The text, which begins at byte `at` of the file. */
OCT_MUST_CHECK oct_status oct__npy_text(const char *file, const char *text, size_t n_text,
                                        size_t at, struct oct__npy *out);

/* Whether it can be used as images or labels; INVALID says what to do in NumPy. */
OCT_MUST_CHECK oct_status oct__npy_array(const char *file, const struct oct__npy *npy,
                                         enum oct__array_role role, struct oct__array *out);

#endif
