/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h - the only place that knows about threads: run `n_items` independent tasks on up to
 * `n_workers` threads.
 *
 * Which worker runs an item is left open, so a task must never let its worker's number influence a
 * result: the number only picks working memory. That, and summing results in item order afterwards,
 * is what makes a run's bits independent of the thread count.
 *
 * Items start in ascending order. When tasks fail, the caller gets the status and the detail of the
 * lowest failing item, and items not yet started are skipped.
 *
 * A step makes hundreds of these calls, each a fraction of a millisecond, so the pool is kept and
 * its threads wait for the next call by looking for it briefly, then sleeping. (OpenMP's runtimes
 * look for milliseconds: where other programs wanted the cores too, that once made two threads six
 * times slower than one.)
 *
 * The pool serves one caller at a time. A second caller, or a task that calls again, runs its items
 * on its own thread: slower, never wrong.
 */
#ifndef OCT_BASE_PARALLEL_H
#define OCT_BASE_PARALLEL_H

#include <stdint.h>

#include "base/fail.h"

/* No more threads than this work at once, whatever is asked for. */
#define OCT_PARALLEL_MOST 256

typedef oct_status oct__task(void *context, int item, int worker);

OCT_MUST_CHECK oct_status oct__parallel(int n_workers, int n_items, oct__task *task, void *context);

/* How many threads this process may run at once: its cores, or its share of them; 1 in a build without
 * threads. */
int oct__parallel_width(void);

/* Names the cores that these threads may run on: processes of one machine with the same name share
 * them. How many there are, this one included, is for whoever knows the others to say. */
uint64_t oct__parallel_place(void);
void oct__parallel_share(int n_processes);

/* False in a build without threads: everything then runs on the caller's thread. */
int oct__parallel_available(void);

#endif
