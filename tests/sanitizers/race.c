/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - two workers write one variable without a lock: ThreadSanitizer must say so.
 *
 * Run only in the `tsan` build, where the test passes if this fails: a build in which the pool's
 * own synchronization hides races between tasks would let it through. The two wait for each other
 * first, by relaxed atomics, which order nothing: on a busy machine one worker might otherwise do
 * all of the work before the other wakes.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/parallel.h"

enum { PATIENCE_MS = 30000 };

static atomic_int n_arrived;
static int shared_count;

static oct_status count(void *context, int item, int worker) {
    (void)context;
    (void)item;
    (void)worker;
    atomic_fetch_add_explicit(&n_arrived, 1, memory_order_relaxed);
    for (int i = 0; i < PATIENCE_MS && atomic_load_explicit(&n_arrived, memory_order_relaxed) < 2;
         i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    shared_count++;
    return OCT_OK;
}

int main(void) {
    oct_status status = oct__parallel(2, 2, count, NULL);
    printf("counted %d of 2, status %s\n", shared_count, oct_status_name(status));
    return 0;
}
