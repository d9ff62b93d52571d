/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - finding, reading and checking the files that a dataset consists of.
 *
 *     DATA FOLDER/cifar10/data_batch_1.bin            what `octet data get` writes
 *     /usr/share/datasets/fashion-mnist/….gz          what a system package installs
 *
 * A dataset is taken from the first of these places that has all its files, each plain or (with
 * zlib) as NAME.gz. Sizes are known beforehand, so nothing a file claims decides how much memory is
 * taken. Readers parse first and compare the checksum afterwards: a parser can say at which byte a
 * file is wrong, a checksum only that it is.
 */
#ifndef OCT_DATA_FILES_H
#define OCT_DATA_FILES_H

#include "data/data.h"

/* "FOLDER/NAME" + suffix; INVALID when that is too long. */
OCT_MUST_CHECK oct_status oct__path_join(const char *folder, const char *name, const char *suffix,
                                         char out[OCT_PATH_BYTES]);

/* The end of a long path: what an error message has room for. */
const char *oct__path_shown(const char *path);

/* Refuses a path of the user's that is no folder: NOT_FOUND or INVALID. `name` is the dataset's. */
OCT_MUST_CHECK oct_status oct__place_check(const char *name, const char *path);

#define OCT_GROUPED_BYTES 32

/* "30,730,000" */
const char *oct__grouped(uint64_t number, char out[OCT_GROUPED_BYTES]);

/* The folder that has every file of the dataset. */
OCT_MUST_CHECK oct_status oct__files_locate(const struct oct_dataset_kind *kind, const char *folder,
                                            char out[OCT_PATH_BYTES]);

/* A file in memory. */
struct oct__loaded {
    uint8_t *bytes;
    size_t n_bytes;
    char path[OCT_PATH_BYTES]; /* where it came from, for messages */
};

/* Reads `file` from `dir`, unpacking it where only NAME.gz is there; exactly file->n_bytes, or
 * CORRUPT. `remedy` is what the message tells to do about it. */
OCT_MUST_CHECK oct_status oct__files_load(const char *dir, const struct oct__data_file *file,
                                          const char *remedy, struct oct__loaded *out);
void oct__loaded_fini(struct oct__loaded *loaded);

/* Compares the checksum; OK when none is known. */
OCT_MUST_CHECK oct_status oct__files_check(const struct oct__loaded *loaded,
                                           const struct oct__data_file *file, const char *remedy);

#endif
