/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that is freed all at once: graphs, programs, tables built during set-up.
 *
 *     chunk 0                    chunk 1
 *     [used used used | free]    [used | free          ]
 *                                        ^ next request
 *
 * A request larger than a chunk gets a chunk of its own. Nothing is freed singly, so whoever owns
 * the arena owns everything in it, and a half-built object is cleaned up with one call.
 */
#ifndef OCT_BASE_ARENA_H
#define OCT_BASE_ARENA_H

#include "base/alloc.h"

struct oct__arena_chunk;

struct oct__arena {
    struct oct__arena_chunk *chunks;
    size_t total_bytes; /* handed out, the high-water mark too: nothing is given back */
};

void oct__arena_init(struct oct__arena *arena);
void oct__arena_fini(struct oct__arena *arena);

/* Zeroed, 64-byte aligned. */
OCT_MUST_CHECK oct_status oct__arena_take(struct oct__arena *arena, size_t bytes, void **out);

/* printf into the arena; the text lives as long as the arena. */
OCT_MUST_CHECK oct_status oct__arena_text(struct oct__arena *arena, const char **out,
                                          const char *format, ...) OCT_PRINTF(3, 4);

#endif
