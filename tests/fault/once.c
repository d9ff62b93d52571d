/* SPDX-License-Identifier: Apache-2.0 */
/* once.c - see once.h: aligned_alloc is this program's own. */
#include "once.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long until_failure; /* requests; 0: none fails */

void fail_once(uint64_t n) {
    atomic_store(&until_failure, (long)n);
}

#if CAN_FAIL_ONCE

void *__libc_memalign(size_t alignment, size_t bytes);

/* Weak: test_steady.c has one that counts. */
__attribute__((visibility("default"), weak)) void *aligned_alloc(size_t alignment, size_t bytes) {
    if (atomic_load(&until_failure) > 0 && atomic_fetch_sub(&until_failure, 1) == 1) {
        return NULL;
    }
    return __libc_memalign(alignment, bytes);
}

#endif
