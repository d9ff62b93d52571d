/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - folders and files for targets whose code under test reads from the disk. */
#ifndef OCT_TESTS_FUZZ_SCRATCH_H
#define OCT_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

/* This process's own folder, empty when it is asked for first; gone at exit. */
const char *fuzz_folder(void);

/* FOLDER/NAME, in one of a few static buffers. */
const char *fuzz_path(const char *name);

/* Puts a file there, in place of an older one. */
const char *fuzz_put(const char *name, const uint8_t *bytes, size_t n_bytes);

#endif
