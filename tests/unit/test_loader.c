/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c - src/data/loader.c: slots hold what a step needs, whoever decodes it and whenever;
 * failures arrive with their message; ending is clean at any moment.
 *
 * The pictures are made up: every byte tells which picture it is of and how it was asked for. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/parallel.h"
#include "data/crop.h"
#include "data/loader.h"
#include "support/check.h"

enum { SIDE = 4, SAMPLES = 23, BYTES = SIDE * SIDE * 3, NODES = 3, BATCH = 5 };

static atomic_int n_readers, n_fetched;
static int is_slow;
static int64_t bad_row = -1;

static oct_status reader_create(void **out) {
    atomic_fetch_add(&n_readers, 1);
    return oct__alloc(1, "reader", out);
}

static void reader_destroy(void *reader) {
    atomic_fetch_sub(&n_readers, 1);
    oct__free(reader);
}

static uint8_t byte_of(int64_t row, const struct oct__augment *augment, int i) {
    const uint32_t key = augment ? augment->node * 31 + augment->permutation * 7 + 1 : 0;
    return (uint8_t)((uint32_t)row * 5 + key + (uint32_t)i);
}

static oct_status fetch(const struct oct_dataset *dataset, void *reader, int64_t row,
                        const struct oct__augment *augment, uint8_t *out) {
    (void)dataset;
    ++*(uint8_t *)reader; /* two threads with one reader are a race that a sanitizer sees */
    atomic_fetch_add(&n_fetched, 1);
    if (is_slow) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (row == bad_row) {
        OCT_FAIL(CORRUPT, "picture %lld is damaged", (long long)row);
    }
    for (int i = 0; i < BYTES; i++) {
        out[i] = byte_of(row, augment, i);
    }
    return OCT_OK;
}

static const struct oct__streamed streamed = {reader_create, reader_destroy, fetch, NULL};

/* --- a loader and all it needs ------------------------------------------------------------------ */

struct rig {
    struct oct_dataset *dataset;
    struct oct__sampler samplers[NODES], others[NODES]; /* the loader's; for what is expected */
    struct oct__loader *loader;
    void *readers[NODES];
    int is_augmented;
};

static uint32_t rows[SAMPLES];

static void rig_open(struct rig *rig, int n_threads, int is_augmented) {
    EXPECT_OK(oct__dataset_alloc_streamed("made up", SAMPLES, SIDE, SIDE, 3, 2, &streamed, NULL,
                                          &rig->dataset));
    rig->is_augmented = is_augmented;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        rows[i] = i;
        rig->dataset->labels[i] = i % 2;
    }
    for (uint32_t node = 0; node < NODES; node++) {
        EXPECT_OK(oct__sampler_init(&rig->samplers[node], 9, node, rows, SAMPLES - node));
        EXPECT_OK(oct__sampler_init(&rig->others[node], 9, node, rows, SAMPLES - node));
        EXPECT_OK(reader_create(&rig->readers[node]));
    }
    const struct oct__loader_config config = {.dataset = rig->dataset,
                                              .samplers = rig->samplers,
                                              .n_nodes = NODES,
                                              .batch = BATCH,
                                              .n_threads = n_threads,
                                              .is_augmented = is_augmented};
    EXPECT_OK(oct__loader_create(&config, &rig->loader));
    assert_int_equal(oct__loader_bytes(rig->loader), NODES * BATCH * BYTES);
}

static void rig_close(struct rig *rig) {
    oct__loader_destroy(rig->loader);
    for (int node = 0; node < NODES; node++) {
        oct__sampler_fini(&rig->samplers[node]);
        oct__sampler_fini(&rig->others[node]);
        reader_destroy(rig->readers[node]);
    }
    oct_dataset_close(rig->dataset);
    assert_int_equal(atomic_load(&n_readers), 0);
}

/* Whether a node's slot and picks are those of `step`. Other threads may look, so nothing asserts. */
static int is_right(struct rig *rig, int node, uint32_t step, const struct oct__pick *picks) {
    struct oct__pick expected[BATCH];
    oct__sampler_batch(&rig->others[node], rig->dataset, step, BATCH, 0, expected);
    const uint8_t *slot = oct__loader_slot(rig->loader, node);
    for (int b = 0; b < BATCH; b++) {
        const struct oct__augment augment = {
            9, (uint32_t)node, oct__sampler_permutation(&rig->others[node], step, BATCH, b)};
        const uint32_t row = (uint32_t)expected[b].row;
        if (picks[b].row != b || picks[b].label != expected[b].label || picks[b].dy != 0 ||
            picks[b].dx != 0 ||
            picks[b].flip != (rig->is_augmented ? oct__crop_flip(&augment, row) : 0)) {
            return 0;
        }
        for (int i = 0; i < BYTES; i++) {
            if (slot[b * BYTES + i] != byte_of(row, rig->is_augmented ? &augment : NULL, i)) {
                return 0;
            }
        }
    }
    return 1;
}

static void take(struct rig *rig, int node, uint32_t step) {
    struct oct__pick picks[BATCH];
    EXPECT_OK(oct__loader_take(rig->loader, node, step, rig->readers[node], picks));
    if (!is_right(rig, node, step, picks)) {
        fail_msg("node %d, step %u: its slot holds something else", node, step);
    }
}

/* --- tests ------------------------------------------------------------------------------------ */

static void slots_hold_what_a_step_needs(void **state) {
    (void)state;
    for (int n_threads = 0; n_threads < 5; n_threads++) {
        for (int is_augmented = 0; is_augmented < 2; is_augmented++) {
            struct rig rig;
            atomic_store(&n_fetched, 0);
            rig_open(&rig, n_threads, is_augmented);
            for (uint32_t step = 0; step < 30; step++) {
                for (int node = 0; node < NODES; node++) {
                    take(&rig, node, step);
                    oct__loader_release(rig.loader, node, step + 1);
                }
            }
            rig_close(&rig);
            print_message("%d threads: %d pictures for %d\n", n_threads, atomic_load(&n_fetched),
                          30 * NODES * BATCH);
            assert_in_range(atomic_load(&n_fetched), 30 * NODES * BATCH, 31 * NODES * BATCH);
        }
    }
}

/* A run that goes on elsewhere, a step that is looked at again, a guess that was wrong. */
static void any_step_may_be_taken(void **state) {
    (void)state;
    static const uint32_t steps[] = {7, 3, 3, 4000000000U, 0, 12, 13};
    for (int n_threads = 0; n_threads < 3; n_threads++) {
        struct rig rig;
        rig_open(&rig, n_threads, 1);
        for (size_t i = 0; i < OCT_COUNT_OF(steps); i++) {
            take(&rig, 1, steps[i]);
            take(&rig, 2, steps[OCT_COUNT_OF(steps) - 1 - i]);
            if (i % 2) {
                oct__loader_release(rig.loader, 1, 99);
            }
        }
        rig_close(&rig);
    }
}

struct lanes {
    struct rig *rig;
    uint32_t step;
};

static oct_status take_and_release(void *context, int item, int worker) {
    const struct lanes *lanes = context;
    struct rig *rig = lanes->rig;
    struct oct__pick picks[BATCH];
    (void)worker;
    OCT_TRY(oct__loader_take(rig->loader, item, lanes->step, rig->readers[item], picks));
    if (!is_right(rig, item, lanes->step, picks)) {
        OCT_FAIL(CORRUPT, "node %d, step %u: its slot holds something else", item, lanes->step);
    }
    oct__loader_release(rig->loader, item, lanes->step + 1);
    return OCT_OK;
}

static void nodes_are_taken_side_by_side(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 2, 1);
    for (uint32_t step = 0; step < 200; step++) {
        struct lanes lanes = {&rig, step};
        EXPECT_OK(oct__parallel(3, NODES, take_and_release, &lanes));
    }
    rig_close(&rig);
}

/* The batch's first damaged picture is named, the same for any number of threads. */
static void failures_arrive(void **state) {
    (void)state;
    for (int n_threads = 0; n_threads < 4; n_threads++) {
        struct rig rig;
        struct oct__pick picks[BATCH];
        rig_open(&rig, n_threads, 1);
        take(&rig, 0, 0);
        oct__sampler_batch(&rig.others[0], rig.dataset, 1, BATCH, 0, picks);
        bad_row = picks[2].row;
        char message[64];
        snprintf(message, sizeof message, "picture %lld is damaged", (long long)bad_row);
        oct__loader_release(rig.loader, 0, 1);
        for (int again = 0; again < 2; again++) {
            EXPECT_FAILURE(oct__loader_take(rig.loader, 0, 1, rig.readers[0], picks),
                           OCT_STATUS_CORRUPT, message);
        }
        bad_row = -1;
        take(&rig, 0, 1); /* it has been repaired */
        take(&rig, 1, 1);
        rig_close(&rig);
    }
}

/* What has been released is decoded without anybody waiting for it. */
static void threads_work_ahead(void **state) {
    (void)state;
    struct rig rig;
    if (!oct__parallel_available()) {
        skip();
    }
    rig_open(&rig, 1, 1);
    for (int node = 0; node < NODES; node++) {
        take(&rig, node, 0);
    }
    atomic_store(&n_fetched, 0);
    for (int node = 0; node < NODES; node++) {
        oct__loader_release(rig.loader, node, 1);
    }
    for (int i = 0; i < 5000 && atomic_load(&n_fetched) < NODES * BATCH; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(atomic_load(&n_fetched), NODES * BATCH);
    for (int node = 0; node < NODES; node++) {
        take(&rig, node, 1);
    }
    assert_int_equal(atomic_load(&n_fetched), NODES * BATCH);
    rig_close(&rig);
}

static void ending_is_prompt(void **state) {
    (void)state;
    is_slow = 1;
    struct rig rig;
    rig_open(&rig, 2, 1);
    for (int node = 0; node < NODES; node++) {
        take(&rig, node, 0);
    }
    atomic_store(&n_fetched, 0);
    for (int node = 0; node < NODES; node++) {
        oct__loader_release(rig.loader, node, 1);
    }
    rig_close(&rig);
    is_slow = 0;
    print_message("%d of %d pictures were begun\n", atomic_load(&n_fetched), NODES * BATCH);
    assert_true(atomic_load(&n_fetched) < NODES * BATCH);
}

static void missing_memory_is_said(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 0, 0);
    const struct oct__loader_config config = {.dataset = rig.dataset,
                                              .samplers = rig.samplers,
                                              .n_nodes = NODES,
                                              .batch = BATCH,
                                              .n_threads = 2};
    int n_failures = 0;
    for (uint64_t at = 1;; at++) {
        struct oct__loader *loader = NULL;
        const int before = atomic_load(&n_readers);
        oct__alloc_fail_after(at);
        oct_status status = oct__loader_create(&config, &loader);
        oct__alloc_fail_after(0);
        oct__loader_destroy(loader);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        /* A reader that failed to be made was counted by the test's own function. */
        assert_true(atomic_load(&n_readers) - before <= 1);
        atomic_store(&n_readers, before);
        n_failures++;
    }
    print_message("%d requests, each of which failed once\n", n_failures);
    assert_true(n_failures >= 5);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_hold_what_a_step_needs), cmocka_unit_test(any_step_may_be_taken),
        cmocka_unit_test(nodes_are_taken_side_by_side), cmocka_unit_test(failures_arrive),
        cmocka_unit_test(threads_work_ahead),           cmocka_unit_test(ending_is_prompt),
        cmocka_unit_test(missing_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
