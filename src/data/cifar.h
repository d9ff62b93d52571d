/* SPDX-License-Identifier: Apache-2.0 */
/* cifar.h - the binary form of CIFAR-10 and CIFAR-100: records without a header.
 *
 *     label byte(s), then 3,072 pixels: red, green, blue planes of 32 rows of 32
 *
 * CIFAR-100 has two label bytes, the coarse class before the fine one; Octet learns the fine one.
 */
#ifndef OCT_DATA_CIFAR_H
#define OCT_DATA_CIFAR_H

#include "data/data.h"

enum { OCT_CIFAR_SIDE = 32, OCT_CIFAR_PIXELS = 32 * 32, OCT_CIFAR_BYTES = 3 * 32 * 32 };

struct oct__cifar_form {
    int n_label_bytes; /* the last one is the class */
    int n_coarse;      /* classes of the first byte where there are two */
    int n_classes;
    float mean[3], deviation[3];
};

/* Reads whole records into samples first, first + 1, … of `dataset`: labels, and planes turned into
 * pixels of those that are held. CORRUPT for bytes that are no whole number of records, more records
 * than there is room for, a label out of range, or one that is another than what to hold was chosen
 * by; `file` is for the message. */
OCT_MUST_CHECK oct_status oct__cifar_parse(const char *file, const uint8_t *bytes, size_t n_bytes,
                                           const struct oct__cifar_form *form, int64_t first,
                                           struct oct_dataset *dataset);

/* Opens the files of one split of `kind`, in the table's order. */
OCT_MUST_CHECK oct_status oct__cifar_open(const struct oct_dataset_kind *kind,
                                          const struct oct__cifar_form *form, const char *folder,
                                          enum oct_split split,
                                          const struct oct__data_choice *choice,
                                          struct oct_dataset **out);

#endif
