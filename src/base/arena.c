/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - chunks of 64 KiB, filled front to back. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define HEADER_BYTES 64 /* keeps what follows aligned */

struct oct__arena_chunk {
    struct oct__arena_chunk *next;
    size_t used_bytes, size_bytes; /* header not counted */
};

_Static_assert(sizeof(struct oct__arena_chunk) <= HEADER_BYTES, "the header fits its place");

void oct__arena_init(struct oct__arena *arena) {
    arena->chunks = NULL;
    arena->total_bytes = 0;
}

void oct__arena_fini(struct oct__arena *arena) {
    struct oct__arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct oct__arena_chunk *next = chunk->next;
        oct__free(chunk);
        chunk = next;
    }
    oct__arena_init(arena);
}

oct_status oct__arena_take(struct oct__arena *arena, size_t bytes, void **out) {
    if (bytes > SIZE_MAX / 2) {
        OCT_FAIL(NO_MEMORY, "arena: %zu bytes are more than memory can address", bytes);
    }
    size_t rounded = (bytes + 63) & ~(size_t)63;
    struct oct__arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size_bytes - chunk->used_bytes < rounded) {
        size_t size = rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES;
        void *memory;
        OCT_TRY(oct__alloc(HEADER_BYTES + size, "arena", &memory));
        chunk = memory;
        chunk->size_bytes = size;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    *out = (char *)chunk + HEADER_BYTES + chunk->used_bytes;
    chunk->used_bytes += rounded;
    arena->total_bytes += rounded;
    return OCT_OK;
}

oct_status oct__arena_text(struct oct__arena *arena, const char **out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        OCT_FAIL(INVALID, "a text could not be formatted");
    }
    void *text;
    OCT_TRY(oct__arena_take(arena, (size_t)length + 1, &text));
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    *out = text;
    return OCT_OK;
}
