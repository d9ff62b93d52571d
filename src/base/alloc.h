/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h - the only place where the library asks the system for memory.
 *
 * Everything goes through here for two reasons: tests make the n-th request fail
 * (oct__alloc_fail_after) and count requests (oct__alloc_count), which is how "a step allocates
 * nothing" is checked.
 */
#ifndef OCT_BASE_ALLOC_H
#define OCT_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

/* Zeroed memory, aligned to 64 bytes (a cache line, an AVX-512 register). Zero bytes give a valid
 * pointer. `what` names the purpose in the error message. */
OCT_MUST_CHECK oct_status oct__alloc(size_t bytes, const char *what, void **out);

/* The same for an array: fails with NO_MEMORY when count * size overflows. */
OCT_MUST_CHECK oct_status oct__alloc_array(size_t count, size_t size, const char *what, void **out);

/* Room for `need` elements in *array, keeping the old ones: doubles, so pushing one at a time is
 * linear. *capacity counts elements. */
OCT_MUST_CHECK oct_status oct__alloc_grow(void **array, size_t *capacity, size_t need, size_t size,
                                          const char *what);

OCT_MUST_CHECK oct_status oct__alloc_text(const char *text, const char *what, char **out);

void oct__free(void *memory);

/* An array for `pointer`, or the caller returns. */
#define OCT_TAKE(pointer, count, what)                                                             \
    do {                                                                                           \
        void *memory_;                                                                             \
        OCT_TRY(oct__alloc_array((size_t)(count), sizeof *(pointer), (what), &memory_));           \
        (pointer) = memory_;                                                                       \
    } while (0)

/* Fault injection: the n-th request from now fails, and every one after it (0: never). */
void oct__alloc_fail_after(uint64_t n);
uint64_t oct__alloc_count(void);

#endif
