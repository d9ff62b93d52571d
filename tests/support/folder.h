/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a folder for a test's files, gone afterwards. Failures fail the test. */
#ifndef OCT_TESTS_FOLDER_H
#define OCT_TESTS_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#define FOLDER_PATH 512

struct folder {
    char path[FOLDER_PATH];
    char file[FOLDER_PATH]; /* what folder_file made last */
};

void folder_open(struct folder *folder);
void folder_close(struct folder *folder); /* with all that is in it */

/* FOLDER/NAME, valid until the next call. */
const char *folder_file(struct folder *folder, const char *name);

/* How many files and folders there are. */
int folder_count(const struct folder *folder);

/* A whole file; the caller frees it. */
uint8_t *file_read(const char *path, size_t *n_bytes);
void file_write(const char *path, const void *bytes, size_t n_bytes);

#endif
