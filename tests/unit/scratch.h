/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - folders and files that a test makes and throws away. */
#ifndef OCT_TESTS_SCRATCH_H
#define OCT_TESTS_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

#define SCRATCH_PATH 512

/* A new, empty folder; NULL with a message on stderr when there is no room for one. */
char *scratch_make(char path[SCRATCH_PATH]);

/* Removes the folder and all that is in it. */
void scratch_remove(const char *path);

/* FOLDER/NAME, in one of a few static buffers. */
const char *scratch_at(const char *folder, const char *name);

/* Writes a file, making the folder above it. Returns 0. */
int scratch_write(const char *path, const void *bytes, size_t n_bytes);

/* Number of entries in a folder, at any depth; -1 when there is no such folder. */
int scratch_count(const char *path);

void scratch_sha256(const void *bytes, size_t n_bytes, char out[OCT_SHA256_TEXT]);

/* Bytes 0 … n-1 in gzip's form, stored rather than compressed, so that tests need no zlib. `out`
 * must hold n + 5 * (n / 65535 + 1) + 18 bytes. Returns how many were used. */
size_t scratch_gzip(const uint8_t *bytes, size_t n, uint8_t *out);

/* Appends a tar member to `out` (1,024 bytes and the content, rounded up, at most) and returns the
 * bytes used. `type` is '0' for a file, '2' for a symbolic link, '5' for a folder. */
size_t scratch_tar(const char *name, char type, const uint8_t *bytes, size_t n, uint8_t *out);

/* The end of an archive: 1,024 zeros. */
size_t scratch_tar_end(uint8_t *out);

/* Repeatable bytes for file contents. */
void scratch_fill(uint8_t *bytes, size_t n, uint32_t seed);

#endif
