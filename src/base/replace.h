/* SPDX-License-Identifier: Apache-2.0 */
/* replace.h - a file that is complete or not there: written beside its place, then put there.
 *
 *     struct oct__replacement model;
 *     int error = oct__replacement_open(&model, "model");    model.partial, which was not there
 *     … fwrite(…, model.file) …
 *     error = oct__replacement_close(&model, is_good);       renamed to model, or gone again
 *
 * A link stays, and what it leads to is replaced. What is no regular file, such as a device or a
 * pipe, and open files that have a name (/dev/stdout) are written to as they are.
 */
#ifndef OCT_BASE_REPLACE_H
#define OCT_BASE_REPLACE_H

#include <stdio.h>

#define OCT_REPLACE_PATH 4096

struct oct__replacement {
    FILE *file;
    char place[OCT_REPLACE_PATH];  /* where it is to lie */
    char beside[OCT_REPLACE_PATH]; /* where it is written; "": there itself */
};

/* 0, or the errno of what went wrong: EACCES, too, for a file that may not be written, though it
 * could be replaced. */
int oct__replacement_open(struct oct__replacement *out, const char *path);

/* Puts it there; when `is_good` is 0, takes it away instead. 0, or errno. */
int oct__replacement_close(struct oct__replacement *replacement, int is_good);

#endif
