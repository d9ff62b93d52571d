/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - slots of images, and the threads that fill them; see loader.h.
 *
 * One lock guards all that is not pixels; it is held for microseconds, and a picture takes half a
 * millisecond. A picture is claimed under the lock (n_begun), decoded without it into its own place,
 * and counted (n_done) under it again, so whoever sees n_done == batch sees the pixels.
 *
 * A slot is begun for a step only while nobody writes to it (n_begun == n_done). Whoever begins it
 * asks the node's sampler, which keeps a permutation, under the lock.
 */
#include "data/loader.h"

#include <string.h>

#include "data/crop.h"

#ifdef OCT_HAVE_THREADS
#include <pthread.h>
#endif

enum { NO_STEP = -1 };

struct slot {
    int64_t step; /* what it is for; NO_STEP: nothing yet */
    int n_begun, n_done;
    int failed; /* the first picture that could not be decoded; batch: none */
    oct_status status;
    struct oct__pick *picks; /* [batch]; row: of the dataset */
};

struct oct__loader {
    struct oct__loader_config config;
    size_t sample_bytes;
    uint8_t *table;
    struct oct__pick *picks; /* [n_nodes][batch] */
    struct slot *slots;
    char (*details)[OCT_DETAIL_BYTES]; /* [n_nodes] of what failed */
#ifdef OCT_HAVE_THREADS
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    int has_lock, is_ending;
    struct helper {
        struct oct__loader *loader;
        pthread_t thread;
        void *reader;
    } * helpers;
    int n_helpers, n_threads; /* with a reader; running */
#endif
};

#ifdef OCT_HAVE_THREADS
static void lock(struct oct__loader *loader) {
    pthread_mutex_lock(&loader->lock);
}
static void unlock(struct oct__loader *loader) {
    pthread_mutex_unlock(&loader->lock);
}
static void await_done(struct oct__loader *loader) {
    pthread_cond_wait(&loader->done, &loader->lock);
}
static void tell_work(struct oct__loader *loader) {
    pthread_cond_broadcast(&loader->work);
}
static void tell_done(struct oct__loader *loader) {
    pthread_cond_broadcast(&loader->done);
}
#else /* nobody else is there */
static void lock(struct oct__loader *loader) {
    (void)loader;
}
static void unlock(struct oct__loader *loader) {
    (void)loader;
}
static void await_done(struct oct__loader *loader) {
    (void)loader;
}
static void tell_work(struct oct__loader *loader) {
    (void)loader;
}
static void tell_done(struct oct__loader *loader) {
    (void)loader;
}
#endif

/* --- slots, under the lock -------------------------------------------------------------------- */

static int is_quiet(const struct slot *slot) {
    return slot->n_begun == slot->n_done;
}

static int has_work(const struct oct__loader *loader, const struct slot *slot) {
    return slot->step != NO_STEP && slot->n_begun < loader->config.batch && slot->status == OCT_OK;
}

/* Only a quiet slot. */
static void begin(struct oct__loader *loader, int node, uint32_t step) {
    const struct oct__loader_config *c = &loader->config;
    struct slot *slot = &loader->slots[node];
    slot->step = step;
    slot->n_begun = slot->n_done = 0;
    slot->failed = c->batch;
    slot->status = OCT_OK;
    oct__sampler_batch(&c->samplers[node], c->dataset, step, c->batch, 0, slot->picks);
}

/* Decodes picture `i` of a slot, which the caller has claimed; the lock is let go meanwhile. */
static void fill(struct oct__loader *loader, int node, int i, void *reader) {
    const struct oct__loader_config *c = &loader->config;
    struct slot *slot = &loader->slots[node];
    const struct oct__sampler *sampler = &c->samplers[node];
    const struct oct__augment augment = {
        sampler->seed, sampler->node,
        oct__sampler_permutation(sampler, (uint32_t)slot->step, c->batch, i)};
    struct oct__pick *pick = &slot->picks[i];
    uint8_t *to = oct__loader_slot(loader, node) + (size_t)i * loader->sample_bytes;
    unlock(loader);
    pick->flip = c->is_augmented ? oct__crop_flip(&augment, (uint32_t)pick->row) : 0;
    oct_status status = c->dataset->streamed->fetch(c->dataset, reader, pick->row,
                                                    c->is_augmented ? &augment : NULL, to);
    lock(loader);
    if (status != OCT_OK && i < slot->failed) {
        slot->failed = i;
        slot->status = status;
        oct__detail_take(loader->details[node]);
    }
    slot->n_done++;
    if (is_quiet(slot)) {
        tell_done(loader);
    }
}

/* --- threads --------------------------------------------------------------------------------- */

#ifdef OCT_HAVE_THREADS

/* The slot that is needed first: steps take nodes in ascending order. -1: nothing to do. */
static int find_work(const struct oct__loader *loader) {
    int best = -1;
    for (int node = 0; node < loader->config.n_nodes; node++) {
        if (has_work(loader, &loader->slots[node]) &&
            (best < 0 || loader->slots[node].step < loader->slots[best].step)) {
            best = node;
        }
    }
    return best;
}

static void *help(void *argument) {
    const struct helper *helper = argument;
    struct oct__loader *loader = helper->loader;
    lock(loader);
    while (!loader->is_ending) {
        const int node = find_work(loader);
        if (node < 0) {
            pthread_cond_wait(&loader->work, &loader->lock);
        } else {
            fill(loader, node, loader->slots[node].n_begun++, helper->reader);
        }
    }
    unlock(loader);
    return NULL;
}

/* Fewer threads than wanted cost speed and nothing else; memory is another matter. */
static oct_status start_threads(struct oct__loader *loader) {
    const struct oct__streamed *streamed = loader->config.dataset->streamed;
    void *memory;
    if (pthread_mutex_init(&loader->lock, NULL) != 0) {
        OCT_FAIL(NO_MEMORY, "loader: no memory for a lock");
    }
    if (pthread_cond_init(&loader->work, NULL) != 0) {
        pthread_mutex_destroy(&loader->lock);
        OCT_FAIL(NO_MEMORY, "loader: no memory for a lock");
    }
    if (pthread_cond_init(&loader->done, NULL) != 0) {
        pthread_cond_destroy(&loader->work);
        pthread_mutex_destroy(&loader->lock);
        OCT_FAIL(NO_MEMORY, "loader: no memory for a lock");
    }
    loader->has_lock = 1;
    OCT_TRY(oct__alloc_array((size_t)loader->config.n_threads, sizeof *loader->helpers, "loader",
                             &memory));
    loader->helpers = memory;
    for (int i = 0; i < loader->config.n_threads; i++) {
        struct helper *helper = &loader->helpers[i];
        helper->loader = loader;
        OCT_TRY(streamed->reader_create(&helper->reader));
        loader->n_helpers++;
        if (pthread_create(&helper->thread, NULL, help, helper) != 0) {
            break;
        }
        loader->n_threads++;
    }
    return OCT_OK;
}

static void stop_threads(struct oct__loader *loader) {
    if (!loader->has_lock) {
        return;
    }
    lock(loader);
    loader->is_ending = 1;
    tell_work(loader);
    unlock(loader);
    for (int i = 0; i < loader->n_threads; i++) {
        pthread_join(loader->helpers[i].thread, NULL);
    }
    for (int i = 0; i < loader->n_helpers; i++) {
        loader->config.dataset->streamed->reader_destroy(loader->helpers[i].reader);
    }
    oct__free(loader->helpers);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->done);
    pthread_mutex_destroy(&loader->lock);
}

#else

static oct_status start_threads(struct oct__loader *loader) {
    (void)loader;
    return OCT_OK;
}

static void stop_threads(struct oct__loader *loader) {
    (void)loader;
}

#endif

/* --- the whole ------------------------------------------------------------------------------- */

static oct_status open_slots(struct oct__loader *loader) {
    const struct oct__loader_config *c = &loader->config;
    const size_t n_images = (size_t)c->n_nodes * (size_t)c->batch;
    void *memory;
    OCT_TRY(oct__alloc_array(n_images, loader->sample_bytes, "images of a step", &memory));
    loader->table = memory;
    OCT_TRY(oct__alloc_array(n_images, sizeof *loader->picks, "loader", &memory));
    loader->picks = memory;
    OCT_TRY(oct__alloc_array((size_t)c->n_nodes, sizeof *loader->slots, "loader", &memory));
    loader->slots = memory;
    OCT_TRY(oct__alloc_array((size_t)c->n_nodes, sizeof *loader->details, "loader", &memory));
    loader->details = memory;
    for (int node = 0; node < c->n_nodes; node++) {
        loader->slots[node].step = NO_STEP;
        loader->slots[node].picks = loader->picks + (size_t)node * (size_t)c->batch;
    }
    return start_threads(loader);
}

oct_status oct__loader_create(const struct oct__loader_config *config, struct oct__loader **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__loader), "loader", &memory));
    struct oct__loader *loader = memory;
    loader->config = *config;
    loader->sample_bytes = oct__sample_bytes(config->dataset);
    oct_status status = open_slots(loader);
    if (status != OCT_OK) {
        oct__loader_destroy(loader);
        return status;
    }
    *out = loader;
    return OCT_OK;
}

void oct__loader_destroy(struct oct__loader *loader) {
    if (!loader) {
        return;
    }
    stop_threads(loader);
    oct__free(loader->details);
    oct__free(loader->slots);
    oct__free(loader->picks);
    oct__free(loader->table);
    oct__free(loader);
}

oct_status oct__loader_take(struct oct__loader *loader, int node, uint32_t step, void *reader,
                            struct oct__pick *picks) {
    const int batch = loader->config.batch;
    struct slot *slot = &loader->slots[node];
    lock(loader);
    if (slot->step != (int64_t)step) {
        slot->step = NO_STEP; /* so that nobody begins any more of what it was for */
        while (!is_quiet(slot)) {
            await_done(loader);
        }
        begin(loader, node, step);
        tell_work(loader);
    }
    while (has_work(loader, slot)) {
        fill(loader, node, slot->n_begun++, reader);
    }
    while (!is_quiet(slot)) {
        await_done(loader);
    }
    const oct_status status = slot->status;
    if (status == OCT_OK) {
        memcpy(picks, slot->picks, (size_t)batch * sizeof *picks);
    } else {
        oct__detail_give(loader->details[node]);
        slot->step = NO_STEP; /* whoever tries again does so from the beginning */
    }
    unlock(loader);
    for (int i = 0; i < batch && status == OCT_OK; i++) {
        picks[i].row = i;
    }
    return status;
}

void oct__loader_release(struct oct__loader *loader, int node, uint32_t next_step) {
    lock(loader);
    begin(loader, node, next_step);
    tell_work(loader);
    unlock(loader);
}

uint8_t *oct__loader_slot(const struct oct__loader *loader, int node) {
    return loader->table + (size_t)node * (size_t)loader->config.batch * loader->sample_bytes;
}

uint64_t oct__loader_bytes(const struct oct__loader *loader) {
    return (uint64_t)loader->config.n_nodes * (uint64_t)loader->config.batch * loader->sample_bytes;
}
