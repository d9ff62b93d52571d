/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - a text that grows. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

oct_status oct__text_add(struct oct__text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        OCT_FAIL(INTERNAL, "a text could not be formatted");
    }
    void *memory = text->at;
    OCT_TRY(
        oct__alloc_grow(&memory, &text->capacity, text->n_bytes + (size_t)length + 1, 1, "a text"));
    text->at = memory;
    va_start(arguments, format);
    vsnprintf(text->at + text->n_bytes, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->n_bytes += (size_t)length;
    return OCT_OK;
}

void oct__text_clear(struct oct__text *text) {
    text->n_bytes = 0;
    if (text->at) {
        text->at[0] = '\0';
    }
}

void oct__text_fini(struct oct__text *text) {
    oct__free(text->at);
    *text = (struct oct__text){0};
}
