/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - files on their way into a dataset's folder.
 *
 *     DATA FOLDER/cifar10/.incoming-Ab3xYz/archive           downloads and what is unpacked,
 *     DATA FOLDER/cifar10/.incoming-Ab3xYz/test_batch.bin    on the file system they will stay on
 *                         |  sizes and checksums right, data on the disk
 *                         v  rename: old or new, never half
 *     DATA FOLDER/cifar10/test_batch.bin
 *
 * Whatever goes wrong, the stage is removed with all it holds, and older files are untouched.
 */
#ifndef OCT_DATA_STAGE_H
#define OCT_DATA_STAGE_H

#include "base/sha256.h"
#include "data/files.h"

/* A new, empty folder inside `dir`; its path goes to `stage`. Removed with oct__folder_remove. */
OCT_MUST_CHECK oct_status oct__stage_open(const char *dir, char stage[OCT_PATH_BYTES]);

/* Moves `name` from the stage into `dir`, over an older file of that name; a folder takes an older
 * one's place, which goes to the stage. */
OCT_MUST_CHECK oct_status oct__stage_install(const char *stage, const char *dir, const char *name);

/* Undoes that: `name` goes back to the stage, and what it had replaced to its place. */
void oct__stage_put_back(const char *stage, const char *dir, const char *name);

/* A file being written: counted, hashed, and every result of the system looked at. */
struct oct__incoming {
    int fd; /* -1: closed */
    uint64_t n_bytes, most_bytes;
    struct oct__sha256 sha;
    char path[OCT_PATH_BYTES];
};

/* The file must not exist yet; more than `most_bytes` will be refused as CORRUPT. */
OCT_MUST_CHECK oct_status oct__incoming_open(struct oct__incoming *incoming, const char *stage,
                                             const char *name, uint64_t most_bytes);
OCT_MUST_CHECK oct_status oct__incoming_write(struct oct__incoming *incoming, const void *bytes,
                                              size_t n_bytes);

/* Brings the data to the disk and closes; `sha256` (may be NULL) receives the sum. */
OCT_MUST_CHECK oct_status oct__incoming_close(struct oct__incoming *incoming,
                                              char sha256[OCT_SHA256_TEXT]);

/* Closes without waiting for the disk: for thousands of small files that are checked whenever they
 * are used. */
OCT_MUST_CHECK oct_status oct__incoming_leave(struct oct__incoming *incoming);

/* Closes and removes the file; nothing happens when it is closed already. */
void oct__incoming_drop(struct oct__incoming *incoming);

/* Closes a finished member: its size and checksum must be those of `file`. `origin` says in the
 * message where it came from. The file is removed when they are not. */
OCT_MUST_CHECK oct_status oct__incoming_finish(struct oct__incoming *incoming, const char *origin,
                                               const struct oct__data_file *file);

#endif
