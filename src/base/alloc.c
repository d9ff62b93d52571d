/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c - aligned, zeroed, counted memory with fault injection. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t n_requests;
static atomic_uint_fast64_t fail_from; /* request number that fails; 0: none */

void oct__alloc_fail_after(uint64_t n) {
    atomic_store(&fail_from, n ? atomic_load(&n_requests) + n : 0);
}

uint64_t oct__alloc_count(void) {
    return atomic_load(&n_requests);
}

oct_status oct__alloc(size_t bytes, const char *what, void **out) {
    uint64_t number = atomic_fetch_add(&n_requests, 1) + 1;
    uint64_t limit = atomic_load(&fail_from);
    size_t rounded = bytes < SIZE_MAX - 63 ? (bytes + 63) & ~(size_t)63 : 0;
    if (rounded == 0) {
        rounded = bytes == 0 ? 64 : 0;
    }
    void *memory = NULL;
    if (rounded != 0 && !(limit != 0 && number >= limit)) {
        memory = aligned_alloc(64, rounded);
    }
    if (!memory) {
        OCT_FAIL(NO_MEMORY, "%s: %zu bytes of memory could not be had", what, bytes);
    }
    memset(memory, 0, rounded);
    *out = memory;
    return OCT_OK;
}

oct_status oct__alloc_array(size_t count, size_t size, const char *what, void **out) {
    if (size != 0 && count > SIZE_MAX / size) {
        OCT_FAIL(NO_MEMORY, "%s: %zu elements of %zu bytes are more than memory can address", what,
                 count, size);
    }
    return oct__alloc(count * size, what, out);
}

oct_status oct__alloc_grow(void **array, size_t *capacity, size_t need, size_t size,
                           const char *what) {
    if (need <= *capacity) {
        return OCT_OK;
    }
    size_t larger = *capacity ? *capacity * 2 : 16;
    if (larger < need) {
        larger = need;
    }
    void *memory;
    OCT_TRY(oct__alloc_array(larger, size, what, &memory));
    if (*array) {
        memcpy(memory, *array, *capacity * size);
    }
    oct__free(*array);
    *array = memory;
    *capacity = larger;
    return OCT_OK;
}

oct_status oct__alloc_text(const char *text, const char *what, char **out) {
    size_t bytes = strlen(text) + 1;
    void *copy;
    OCT_TRY(oct__alloc(bytes, what, &copy));
    memcpy(copy, text, bytes);
    *out = copy;
    return OCT_OK;
}

void oct__free(void *memory) {
    free(memory);
}
