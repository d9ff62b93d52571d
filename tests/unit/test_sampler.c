/* SPDX-License-Identifier: Apache-2.0 */
/* test_sampler.c - which samples a step uses: each once a permutation, the same bits every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/sampler.h"

enum { N = 101 }; /* a node's samples: a prime, so that batches never end with a permutation */

static struct oct_dataset *dataset;
static uint32_t rows[N];

static int get_sample(void *context, int64_t index, uint8_t *image, int *label) {
    (void)context;
    *image = (uint8_t)index;
    *label = (int)(index * 7 % 13);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    struct oct_dataset_custom custom = {.name = "dots",
                                        .n_samples = 3 * N,
                                        .height = 1,
                                        .width = 1,
                                        .channels = 1,
                                        .n_classes = 13,
                                        .get = get_sample};
    for (uint32_t i = 0; i < N; i++) {
        rows[i] = 3 * i + 1; /* this node holds every third sample */
    }
    return oct_dataset_create(&custom, &dataset) == OCT_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct_dataset_close(dataset);
    return 0;
}

/* The first `n_steps` batches, one after the other. */
static void draw(uint64_t seed, uint32_t node, int batch, int pad, uint32_t n_steps,
                 struct oct__pick *picks) {
    struct oct__sampler sampler;
    assert_int_equal(oct__sampler_init(&sampler, seed, node, rows, N), OCT_OK);
    for (uint32_t step = 0; step < n_steps; step++) {
        oct__sampler_batch(&sampler, dataset, step, batch, pad, picks + step * (size_t)batch);
    }
    oct__sampler_fini(&sampler);
}

static void each_sample_once_a_permutation(void **state) {
    (void)state;
    enum { BATCH = 16, STEPS = 64, TOTAL = BATCH * STEPS };
    static struct oct__pick picks[TOTAL];
    draw(5, 2, BATCH, 0, STEPS, picks);
    int previous_first = -1;
    for (int p = 0; (p + 1) * N <= TOTAL; p++) {
        int seen[3 * N] = {0};
        for (int i = 0; i < N; i++) {
            const struct oct__pick *pick = &picks[p * N + i];
            assert_in_range(pick->row, 0, 3 * N - 1);
            seen[pick->row]++;
            assert_int_equal(pick->label, pick->row * 7 % 13);
            assert_int_equal(pick->dy | pick->dx | pick->flip, 0);
        }
        for (int row = 0; row < 3 * N; row++) {
            assert_int_equal(seen[row], row % 3 == 1);
        }
        print_message("permutation %d begins with row %d\n", p, picks[p * N].row);
        assert_int_not_equal(picks[p * N].row, previous_first);
        previous_first = picks[p * N].row;
    }
}

/* The documented stream: permutation k is Fisher-Yates over (seed, SHUFFLE, node, k). */
static void follows_the_documented_stream(void **state) {
    (void)state;
    enum { BATCH = 30, STEPS = 8 };
    static struct oct__pick picks[BATCH * STEPS];
    draw(99, 7, BATCH, 0, STEPS, picks);
    for (int i = 0; i < BATCH * STEPS; i++) {
        uint32_t order[N];
        struct oct__stream stream = oct__stream(99, OCT_PURPOSE_SHUFFLE, 7, (uint32_t)(i / N), 0);
        oct__permutation(&stream, N, order);
        assert_int_equal(picks[i].row, rows[order[i % N]]);
    }
}

static void same_bits_however_it_is_asked(void **state) {
    (void)state;
    enum { BATCH = 24, STEPS = 40 };
    static struct oct__pick forward[BATCH * STEPS], other[BATCH * STEPS];
    draw(1, 0, BATCH, 4, STEPS, forward);
    struct oct__sampler sampler;
    assert_int_equal(oct__sampler_init(&sampler, 1, 0, rows, N), OCT_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t step = (i * 17 + 5) % STEPS; /* a resumed run begins anywhere */
        oct__sampler_batch(&sampler, dataset, step, BATCH, 4, other + step * (size_t)BATCH);
    }
    oct__sampler_fini(&sampler);
    assert_memory_equal(forward, other, sizeof forward);
    draw(2, 0, BATCH, 4, STEPS, other);
    assert_memory_not_equal(forward, other, sizeof forward);
    draw(1, 1, BATCH, 4, STEPS, other);
    assert_memory_not_equal(forward, other, sizeof forward);
}

static void batch_larger_than_the_data(void **state) {
    (void)state;
    static struct oct__pick large[3 * N + 5], small[3 * N + 5];
    draw(3, 0, 3 * N + 5, 0, 1, large);
    draw(3, 0, 1, 0, 3 * N + 5, small);
    for (int i = 0; i < 3 * N + 5; i++) {
        assert_int_equal(large[i].row, small[i].row);
    }
}

static void crops_and_flips(void **state) {
    (void)state;
    enum { BATCH = 64, STEPS = 200, PAD = 4, TOTAL = BATCH * STEPS };
    static struct oct__pick picks[TOTAL];
    draw(11, 3, BATCH, PAD, STEPS, picks);
    int n_flips = 0, dy_seen[2 * PAD + 1] = {0}, dx_seen[2 * PAD + 1] = {0};
    for (int i = 0; i < TOTAL; i++) {
        const struct oct__pick *pick = &picks[i];
        assert_true(pick->dy >= -PAD && pick->dy <= PAD);
        assert_true(pick->dx >= -PAD && pick->dx <= PAD);
        assert_true(pick->flip == 0 || pick->flip == 1);
        n_flips += pick->flip;
        dy_seen[pick->dy + PAD]++;
        dx_seen[pick->dx + PAD]++;
        /* words 4r, 4r + 1, 4r + 2 of (seed, AUGMENT, node, permutation), r the sample's row */
        uint32_t words[3];
        struct oct__stream stream = oct__stream(11, OCT_PURPOSE_AUGMENT, 3, (uint32_t)(i / N), 0);
        oct__stream_words(&stream, 4 * (uint64_t)pick->row, 3, words);
        assert_int_equal(pick->dy, (int)oct__below(words[0], 2 * PAD + 1) - PAD);
        assert_int_equal(pick->dx, (int)oct__below(words[1], 2 * PAD + 1) - PAD);
        assert_int_equal(pick->flip, oct__below(words[2], 2));
    }
    /* Bounds of six standard deviations; the draws are fixed, so these cannot flicker. */
    print_message("%d of %d flipped\n", n_flips, TOTAL);
    assert_in_range(n_flips, TOTAL / 2 - 340, TOTAL / 2 + 340);
    for (int d = 0; d <= 2 * PAD; d++) {
        print_message("offset %d: %d rows, %d columns\n", d - PAD, dy_seen[d], dx_seen[d]);
        assert_in_range(dy_seen[d], TOTAL / 9 - 215, TOTAL / 9 + 215);
        assert_in_range(dx_seen[d], TOTAL / 9 - 215, TOTAL / 9 + 215);
    }
}

static void refuses_no_samples(void **state) {
    (void)state;
    struct oct__sampler sampler;
    assert_int_equal(oct__sampler_init(&sampler, 1, 4, rows, 0), OCT_STATUS_INVALID);
    print_message("%s\n", oct_last_error());
    assert_non_null(strstr(oct_last_error(), "node 4"));
}

static void subset_is_a_fixed_ascending_choice(void **state) {
    (void)state;
    uint32_t all[1000], few[100], again[100], other[100];
    assert_int_equal(oct__subset(1, 1000, 1000, all), OCT_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(all[i], i);
    }
    assert_int_equal(oct__subset(1, 1000, 100, few), OCT_OK);
    assert_int_equal(oct__subset(1, 1000, 100, again), OCT_OK);
    assert_int_equal(oct__subset(2, 1000, 100, other), OCT_OK);
    assert_memory_equal(few, again, sizeof few);
    assert_memory_not_equal(few, other, sizeof few);
    uint32_t order[1000];
    struct oct__stream stream = oct__stream(1, OCT_PURPOSE_SUBSET, 0, 0, 0);
    oct__permutation(&stream, 1000, order);
    for (int i = 0; i < 100; i++) {
        assert_true(i == 0 || few[i] > few[i - 1]);
        int found = 0;
        for (int j = 0; j < 100; j++) {
            found += order[j] == few[i];
        }
        assert_int_equal(found, 1);
    }
    print_message("kept %u, %u, … %u\n", few[0], few[1], few[99]);
    assert_int_equal(oct__subset(1, 10, 0, few), OCT_OK);
    assert_int_equal(oct__subset(1, 10, 11, few), OCT_STATUS_INVALID);
    print_message("%s\n", oct_last_error());
}

static void survives_failing_memory(void **state) {
    (void)state;
    struct oct__sampler sampler;
    uint32_t few[5];
    oct__alloc_fail_after(1);
    oct_status init = oct__sampler_init(&sampler, 1, 0, rows, N);
    oct__alloc_fail_after(1);
    oct_status first = oct__subset(1, 10, 5, few);
    oct__alloc_fail_after(2);
    oct_status second = oct__subset(1, 10, 5, few);
    oct__alloc_fail_after(0);
    assert_int_equal(init, OCT_STATUS_NO_MEMORY);
    assert_int_equal(first, OCT_STATUS_NO_MEMORY);
    assert_int_equal(second, OCT_STATUS_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_once_a_permutation),
        cmocka_unit_test(follows_the_documented_stream),
        cmocka_unit_test(same_bits_however_it_is_asked),
        cmocka_unit_test(batch_larger_than_the_data),
        cmocka_unit_test(crops_and_flips),
        cmocka_unit_test(refuses_no_samples),
        cmocka_unit_test(subset_is_a_fixed_ascending_choice),
        cmocka_unit_test(survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
