/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - a small pool of threads behind one function.
 *
 *     caller                            pool threads
 *     fill in the job                   look at `round` for a while, then sleep on `wake`
 *     round++, wake sleepers    ──────► take items until none is left
 *     take items until none is left     n_busy--; the last one wakes the caller
 *     wait until n_busy is 0    ◄──────
 *
 * Every thread of the pool answers every round, also when there is nothing for it to do; so once a
 * call returns nobody reads its job any more.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "base/parallel.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

static oct_status in_order(int n_items, oct__task *task, void *context) {
    for (int item = 0; item < n_items; item++) {
        OCT_TRY(task(context, item, 0));
    }
    return OCT_OK;
}

#ifdef OCT_HAVE_THREADS

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* Looks before sleeping: some tens of microseconds, longer than the gaps between the operations of
 * a step, much shorter than the time a scheduler gives to a thread. */
#define LOOKS 2000

struct job {
    oct__task *task;
    void *context;
    int n_items, n_workers;
    atomic_int next_item;
    atomic_int failed_item; /* the lowest so far; later items are skipped */
    pthread_mutex_t failure_lock;
    oct_status status;
    char detail[OCT_DETAIL_BYTES];
};

static struct {
    pthread_mutex_t in_use; /* held by the one caller */
    pthread_mutex_t lock;   /* for the two conditions */
    pthread_cond_t wake, done;
    atomic_uint round;
    atomic_int n_busy, n_sleepers, is_caller_asleep, is_ending;
    int n_threads;    /* the caller not counted */
    int most_threads; /* lowered when the system gives no more */
    pthread_t threads[OCT_PARALLEL_MOST - 1];
    struct job job;
} pool = {
    .in_use = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
    .most_threads = OCT_PARALLEL_MOST - 1,
    .job.failure_lock = PTHREAD_MUTEX_INITIALIZER,
};

static void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_items(struct job *job, int worker) {
    for (;;) {
        int item = atomic_fetch_add(&job->next_item, 1);
        if (item >= job->n_items || item > atomic_load(&job->failed_item)) {
            return;
        }
        oct_status status = job->task(job->context, item, worker);
        if (status != OCT_OK) {
            pthread_mutex_lock(&job->failure_lock);
            if (item < atomic_load(&job->failed_item)) {
                atomic_store(&job->failed_item, item);
                job->status = status;
                oct__detail_take(job->detail);
            }
            pthread_mutex_unlock(&job->failure_lock);
        }
    }
}

/* Returns the number of the round that has begun since `seen`. */
static unsigned await_round(unsigned seen) {
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load(&pool.round) != seen) {
            return atomic_load(&pool.round);
        }
        breathe();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.n_sleepers, 1);
    while (atomic_load(&pool.round) == seen) {
        pthread_cond_wait(&pool.wake, &pool.lock);
    }
    atomic_fetch_sub(&pool.n_sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
    return atomic_load(&pool.round);
}

static void *serve(void *argument) {
    int worker = (int)(intptr_t)argument;
    /* A thread is made while its creator holds `in_use` and before the next round begins. */
    unsigned seen = atomic_load(&pool.round);
    atomic_fetch_sub(&pool.n_busy, 1);
    for (;;) {
        seen = await_round(seen);
        if (atomic_load(&pool.is_ending)) {
            return NULL;
        }
        if (worker < pool.job.n_workers) {
            take_items(&pool.job, worker);
        }
        if (atomic_fetch_sub(&pool.n_busy, 1) == 1 && atomic_load(&pool.is_caller_asleep)) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
}

static void begin_round(void) {
    atomic_fetch_add(&pool.round, 1);
    if (atomic_load(&pool.n_sleepers) > 0) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.lock);
    }
}

static void await_others(void) {
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load(&pool.n_busy) == 0) {
            return;
        }
        breathe();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.is_caller_asleep, 1);
    while (atomic_load(&pool.n_busy) != 0) {
        pthread_cond_wait(&pool.done, &pool.lock);
    }
    atomic_store(&pool.is_caller_asleep, 0);
    pthread_mutex_unlock(&pool.lock);
}

/* A child process has the pool's memory and none of its threads. */
static void forget_threads(void) {
    pthread_mutex_init(&pool.in_use, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pthread_mutex_init(&pool.job.failure_lock, NULL);
    pool.n_threads = 0;
    atomic_store(&pool.n_busy, 0);
    atomic_store(&pool.n_sleepers, 0);
    atomic_store(&pool.is_caller_asleep, 0);
}

/* Threads up to `wanted`; fewer when the system gives no more, which costs speed and nothing else.
 */
static void grow(int wanted) {
    static int is_registered;
    if (!is_registered) {
        is_registered = pthread_atfork(NULL, NULL, forget_threads) == 0;
    }
    while (pool.n_threads < wanted && pool.n_threads < pool.most_threads) {
        atomic_fetch_add(&pool.n_busy, 1); /* until it serves */
        void *worker = (void *)(intptr_t)(pool.n_threads + 1);
        if (pthread_create(&pool.threads[pool.n_threads], NULL, serve, worker) != 0) {
            atomic_fetch_sub(&pool.n_busy, 1);
            pool.most_threads = pool.n_threads;
            break;
        }
        pool.n_threads++;
    }
    /* A new thread counts itself out once it serves; until then no round may begin. */
    while (atomic_load(&pool.n_busy) != 0) {
        sched_yield();
    }
}

/* At the end of the process, or when the library is unloaded. */
__attribute__((destructor)) static void end_threads(void) {
    if (pthread_mutex_trylock(&pool.in_use) != 0) {
        return; /* the process ends in the middle of a call */
    }
    atomic_store(&pool.is_ending, 1);
    begin_round();
    for (int i = 0; i < pool.n_threads; i++) {
        pthread_join(pool.threads[i], NULL);
    }
    pool.n_threads = 0;
    /* `in_use` stays locked: whoever still calls, late in the process's end, works alone. */
}

oct_status oct__parallel(int n_workers, int n_items, oct__task *task, void *context) {
    if (n_workers > n_items) {
        n_workers = n_items;
    }
    if (n_workers <= 1 || pthread_mutex_trylock(&pool.in_use) != 0) {
        return in_order(n_items, task, context);
    }
    if (pool.n_threads < n_workers - 1 && pool.n_threads < pool.most_threads) {
        grow(n_workers - 1);
    }
    struct job *job = &pool.job;
    job->task = task;
    job->context = context;
    job->n_items = n_items;
    job->n_workers = n_workers;
    job->status = OCT_OK;
    atomic_store(&job->next_item, 0);
    atomic_store(&job->failed_item, INT_MAX);
    atomic_store(&pool.n_busy, pool.n_threads);
    begin_round();
    take_items(job, 0);
    await_others();
    oct_status status = job->status;
    if (status != OCT_OK) {
        oct__detail_give(job->detail);
    }
    pthread_mutex_unlock(&pool.in_use);
    return status;
}

static int cores(void) {
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        return CPU_COUNT(&allowed);
    }
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static atomic_int n_sharing = 1;

void oct__parallel_share(int n_processes) {
    atomic_store(&n_sharing, n_processes > 1 ? n_processes : 1);
}

int oct__parallel_width(void) {
    const int own = cores() / atomic_load(&n_sharing);
    return own > 1 ? own : 1;
}

uint64_t oct__parallel_place(void) {
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a of the set */
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int core = 0; core < CPU_SETSIZE; core++) {
            hash = (hash ^ (uint64_t)(CPU_ISSET(core, &allowed) != 0)) * 0x100000001b3U;
        }
    }
#endif
    return hash;
}

int oct__parallel_available(void) {
    return 1;
}

#else

oct_status oct__parallel(int n_workers, int n_items, oct__task *task, void *context) {
    (void)n_workers;
    return in_order(n_items, task, context);
}

void oct__parallel_share(int n_processes) {
    (void)n_processes;
}

int oct__parallel_width(void) {
    return 1;
}

uint64_t oct__parallel_place(void) {
    return 0;
}

int oct__parallel_available(void) {
    return 0;
}

#endif
