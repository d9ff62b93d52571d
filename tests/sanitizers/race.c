/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - two workers write one variable without a lock: ThreadSanitizer must say so.
 *
 * Run only in the `tsan` build, where the test passes if this fails: a build in which the pool's
 * own synchronization hides races between tasks would let it through.
 */
#include <stdio.h>

#include "base/parallel.h"

static int shared_count;

static oct_status count(void *context, int item, int worker) {
    (void)context;
    (void)item;
    (void)worker;
    shared_count++;
    return OCT_OK;
}

int main(void) {
    oct_status status = oct__parallel(2, 10000, count, NULL);
    printf("counted %d of 10000, status %s\n", shared_count, oct_status_name(status));
    return 0;
}
