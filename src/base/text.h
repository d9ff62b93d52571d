/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - a text that grows: headers, manifests, command lines. Begins as {0}. */
#ifndef OCT_BASE_TEXT_H
#define OCT_BASE_TEXT_H

#include "base/fail.h"

struct oct__text {
    char *at; /* ends with NUL once something was added */
    size_t n_bytes, capacity;
};

/* printf to its end; on failure it stays as it was. */
OCT_MUST_CHECK oct_status oct__text_add(struct oct__text *text, const char *format, ...)
    OCT_PRINTF(2, 3);

/* Empty again, keeping its memory. */
void oct__text_clear(struct oct__text *text);
void oct__text_fini(struct oct__text *text);

#endif
