/* SPDX-License-Identifier: Apache-2.0 */
/* test_dropout.c - the law of dropout's mask, on every engine: how many elements it drops, that they
 * have nothing to do with one another, what names them, and what becomes of those it keeps.
 *
 * That whole networks drop what the formula says is tests/grad's; golden files leave dropout out, because
 * the mask is Octet's own choice.
 */
#include <math.h>
#include <stdlib.h>

#include "support/launch.h"

enum { BATCH = 37, PIXELS = BATCH * 8 * 8, CHANNELS = 16, ELEMENTS = PIXELS * CHANNELS };

/* Shares of `n` fair trials lie within this many standard deviations in all but one of 15,000 tests. */
#define DEVIATIONS 4.0

static struct oct__tensor dropped(struct oct__engine *engine, struct oct__tensor x, float rate,
                                  struct launch_way way) {
    struct oct__tensor y = tensor_like(x, OCT_DTYPE_F32);
    LAUNCH(engine, DROPOUT, (union oct__attr){.dropout = {.rate = rate}}, way, x, y);
    return y;
}

static void expect_share(const char *who, const char *what, double found, double expected,
                         double trials) {
    const double off = fabs(found - expected) / sqrt(expected * (1.0 - expected) / trials);
    print_message("%s: %s: %.5f, expected %.5f, %.1f deviations\n", who, what, found, expected,
                  off);
    assert_true(off < DEVIATIONS);
}

/* Share of elements that both masks keep. `shift`: element i of one beside element i + shift of the
 * other. */
static double both(const float *a, const float *b, size_t shift) {
    size_t n = 0;
    for (size_t i = 0; i + shift < ELEMENTS; i++) {
        n += a[i] != 0.0F && b[i + shift] != 0.0F;
    }
    return (double)n / (double)(ELEMENTS - shift);
}

static void check_rate(struct oct__engine *engine, float rate) {
    struct dice dice = dice_of(3);
    struct oct__tensor x = tensor_new(OCT_DTYPE_F32, BATCH, 8, 8, CHANNELS);
    fill_positive(x, &dice, 1.0);
    assert_int_equal(count(x), ELEMENTS);
    struct oct__tensor y = dropped(engine, x, rate, launch_plain);
    const double keep = 1.0 - (double)rate;
    char who[64];
    snprintf(who, sizeof who, "%s, rate %g", engine->kind->plugin.name, (double)rate);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        double sum = 0.0, scaled = 0.0, kept = 0.0, channels[CHANNELS] = {0};
        for (size_t i = 0; i < ELEMENTS; i++) {
            const double from = (double)floats(x, node)[i], to = (double)floats(y, node)[i];
            assert_true(to == 0.0 || fabs(to * keep / from - 1.0) < 1e-6);
            kept += to != 0.0;
            channels[i % CHANNELS] += to != 0.0;
            sum += from;
            scaled += to;
        }
        expect_share(who, "kept", kept / ELEMENTS, keep, ELEMENTS);
        for (int c = 0; c < CHANNELS; c++) {
            expect_share(who, "kept of a channel", channels[c] / PIXELS, keep, PIXELS);
        }
        print_message("%s: the mean was %.4f and is %.4f\n", who, sum / ELEMENTS,
                      scaled / ELEMENTS);
        assert_true(fabs(scaled / sum - 1.0) < 0.05);
        static const size_t shifts[] = {1, 2, 4, 16, 64, 1024};
        for (size_t j = 0; j < OCT_COUNT_OF(shifts); j++) {
            expect_share(who, "kept with a neighbour",
                         both(floats(y, node), floats(y, node), shifts[j]), keep * keep,
                         (double)(ELEMENTS - shifts[j]));
        }
    }
    expect_share(who, "kept by two nodes", both(floats(y, 0), floats(y, 1), 0), keep * keep,
                 ELEMENTS);
    struct launch_way other = launch_plain;
    other.step++;
    expect_share(who, "kept in two steps",
                 both(floats(y, 0), floats(dropped(engine, x, rate, other), 0), 0), keep * keep,
                 ELEMENTS);
    other = launch_plain;
    other.seed++;
    expect_share(who, "kept with two seeds",
                 both(floats(y, 0), floats(dropped(engine, x, rate, other), 0), 0), keep * keep,
                 ELEMENTS);
}

/* What was kept forward is what has a gradient: the same call on other numbers, whatever the threads. */
static void check_mask(struct oct__engine *engine) {
    struct dice dice = dice_of(4);
    struct oct__tensor x = tensor_new(OCT_DTYPE_F32, BATCH, 3, 5, 7);
    struct oct__tensor dy = tensor_like(x, OCT_DTYPE_F32);
    fill_positive(x, &dice, 1.0);
    fill_positive(dy, &dice, 3.0);
    struct launch_way wide = launch_plain;
    wide.n_threads = 3;
    struct oct__tensor y = dropped(engine, x, 0.5F, launch_plain);
    struct oct__tensor dx = dropped(engine, dy, 0.5F, wide);
    for (int node = 0; node < LAUNCH_NODES; node++) {
        for (size_t i = 0; i < count(x); i++) {
            if ((floats(y, node)[i] == 0.0F) != (floats(dx, node)[i] == 0.0F)) {
                fail_msg("%s: element %zu of node %d is %g forward and %g backward",
                         engine->kind->plugin.name, i, node, (double)floats(y, node)[i],
                         (double)floats(dx, node)[i]);
            }
        }
    }
    expect_bits(engine->kind->plugin.name, "rate 0", dropped(engine, x, 0.0F, launch_plain), x);
}

static void law(struct oct__engine *engine) {
    static const float rates[] = {0.1F, 0.5F, 0.9F};
    for (size_t i = 0; i < OCT_COUNT_OF(rates); i++) {
        check_rate(engine, rates[i]);
    }
}

static void law_of_the_mask(void **state) {
    (void)state;
    launch_engines(law);
}

static void one_mask_both_ways(void **state) {
    (void)state;
    launch_engines(check_mask);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(law_of_the_mask, tensors_free),
        cmocka_unit_test_teardown(one_mask_both_ways, tensors_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
