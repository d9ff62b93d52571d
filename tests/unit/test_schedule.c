/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - src/train/schedule.c: the learning rates of each schedule, by number. */
#include <math.h>

#include "support/check.h"
#include "train/schedule.h"

static double rate_at(const char *name, double rate, int64_t step, int64_t n_steps,
                      int64_t epoch_steps) {
    struct oct__schedule schedule;
    assert_int_equal(oct__schedule_read(name, &schedule), OCT_OK);
    return oct__schedule_rate(&schedule, rate, step, n_steps, epoch_steps);
}

static void expect(const char *name, int64_t step, int64_t n_steps, int64_t epoch_steps,
                   double expected) {
    double found = rate_at(name, 0.1, step, n_steps, epoch_steps);
    print_message("%s, step %lld of %lld: %.9g, expected %.9g\n", name, (long long)step,
                  (long long)n_steps, found, expected);
    assert_true(fabs(found - expected) <= 1e-12);
}

/* The papers' 200 epochs: warm-up is the first epoch, and the rate falls between epochs 100 and
 * 101, and 150 and 151. */
static void two_hundred_epochs(void **state) {
    (void)state;
    const int64_t epoch = 196, n = 200 * epoch;
    expect("step", 0, n, epoch, 0.01);
    expect("step", epoch - 1, n, epoch, 0.01);
    expect("step", epoch, n, epoch, 0.1);
    expect("step", 100 * epoch - 1, n, epoch, 0.1);
    expect("step", 100 * epoch, n, epoch, 0.01);
    expect("step", 150 * epoch - 1, n, epoch, 0.01);
    expect("step", 150 * epoch, n, epoch, 0.001);
    expect("step", n - 1, n, epoch, 0.001);
}

/* A short run: warm-up is a twentieth of it, and the rate falls inside an epoch. */
static void two_epochs(void **state) {
    (void)state;
    expect("step", 0, 200, 100, 0.01);
    expect("step", 9, 200, 100, 0.01);
    expect("step", 10, 200, 100, 0.1);
    expect("step", 99, 200, 100, 0.1);
    expect("step", 100, 200, 100, 0.01);
    expect("step", 149, 200, 100, 0.01);
    expect("step", 150, 200, 100, 0.001);
    expect("step", 199, 200, 100, 0.001);
}

/* Fewer than twenty steps have no warm-up. */
static void a_few_steps(void **state) {
    (void)state;
    expect("step", 0, 1, 1, 0.1);
    expect("step", 0, 19, 19, 0.1);
    expect("step", 0, 20, 20, 0.01);
    expect("step", 1, 20, 20, 0.1);
    expect("constant", 18, 19, 19, 0.1);
}

/* Half every 30 of 200 epochs: six times. Rounding must not move a change by a step. */
static void halving(void **state) {
    (void)state;
    const int64_t epoch = 195, n = 200 * epoch;
    for (int k = 1; k <= 6; k++) {
        expect("halving", 30 * k * epoch - 1, n, epoch, 0.1 * pow(0.5, k - 1));
        expect("halving", 30 * k * epoch, n, epoch, 0.1 * pow(0.5, k));
    }
    expect("halving", n - 1, n, epoch, 0.1 / 64);
    /* 30 of 100 epochs: three times */
    for (int k = 1; k <= 3; k++) {
        expect("halving:0.3", 30 * k * epoch - 1, 100 * epoch, epoch, 0.1 * pow(0.5, k - 1));
        expect("halving:every=0.3", 30 * k * epoch, 100 * epoch, epoch, 0.1 * pow(0.5, k));
    }
    expect("halving:0.3", 100 * epoch - 1, 100 * epoch, epoch, 0.1 / 8);
}

static void wrong_options(void **state) {
    (void)state;
    static const char *const wrong[] = {"halving:0",   "halving:1.5",       "halving:x",
                                        "step:0.3",    "halving:often=0.3", "halving:0.3x",
                                        "constant:1,", "halving:nan"};
    for (size_t i = 0; i < OCT_COUNT_OF(wrong); i++) {
        struct oct__schedule schedule;
        oct_status status = oct__schedule_read(wrong[i], &schedule);
        print_message("%s: %s\n", wrong[i], oct_last_error());
        assert_int_equal(status, OCT_STATUS_INVALID);
    }
    struct oct__schedule schedule;
    assert_int_equal(oct__schedule_read("zigzag:0.1", &schedule), OCT_STATUS_NOT_FOUND);
}

static void cosine(void **state) {
    (void)state;
    expect("cosine", 100, 1000, 100, 0.1 * 0.5 * (1 + cos(acos(-1.0) * 0.1)));
    expect("cosine", 250, 1000, 100, 0.05 * (1 + sqrt(0.5)));
    expect("cosine", 500, 1000, 100, 0.05);
    expect("cosine", 750, 1000, 100, 0.05 * (1 - sqrt(0.5)));
    double last = rate_at("cosine", 0.1, 999, 1000, 100);
    print_message("cosine, last step: %g\n", last);
    assert_true(last > 0 && last < 1e-6);
}

static void constant(void **state) {
    (void)state;
    expect("constant", 49, 1000, 200, 0.01);
    expect("constant", 50, 1000, 200, 0.1);
    expect("constant", 500, 1000, 200, 0.1);
    expect("constant", 999, 1000, 200, 0.1);
}

/* The rate is a factor: no schedule looks at its size. */
static void rates_scale(void **state) {
    (void)state;
    for (int i = 0; oct__schedule_at(i); i++) {
        const char *name = oct__schedule_at(i)->plugin.name;
        for (int64_t step = 0; step < 300; step += 7) {
            double one = rate_at(name, 1, step, 300, 30), much = rate_at(name, 1e6, step, 300, 30);
            assert_true(fabs(much - 1e6 * one) <= 1e-9 * much);
            assert_true(rate_at(name, 0, step, 300, 30) == 0.0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_epochs), cmocka_unit_test(two_epochs),
        cmocka_unit_test(a_few_steps),        cmocka_unit_test(halving),
        cmocka_unit_test(wrong_options),      cmocka_unit_test(cosine),
        cmocka_unit_test(constant),           cmocka_unit_test(rates_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
