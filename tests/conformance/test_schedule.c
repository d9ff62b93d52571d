/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - what every schedule owes: a factor that starts at 1, never grows and stays
 * positive, after the same warm-up. The values themselves are in unit/test_schedule.c. */
#include <math.h>

#include <octet/octet.h>

#include "support/check.h"
#include "train/schedule.h"

static void every_schedule(void **state) {
    (void)state;
    int n = 0;
    for (const struct oct__schedule *schedule; (schedule = oct__schedule_at(n)); n++) {
        assert_true(strlen(schedule->plugin.name) > 0);
        assert_true(strlen(schedule->plugin.summary) > 3);
        assert_ptr_equal(oct__schedule_find(schedule->plugin.name), schedule);
        assert_string_equal(oct_plugin_at(OCT_PLUGIN_SCHEDULE, n)->name, schedule->plugin.name);
        static const struct {
            int64_t epochs, epoch_steps;
        } runs[] = {{200, 50}, {10, 1563}, {2, 7}, {1, 1}, {1, 1000}, {1000, 1}};
        for (size_t i = 0; i < OCT_COUNT_OF(runs); i++) {
            const int64_t n_steps = runs[i].epochs * runs[i].epoch_steps;
            const int64_t warm_up =
                n_steps / 20 < runs[i].epoch_steps ? n_steps / 20 : runs[i].epoch_steps;
            double before = INFINITY;
            for (int64_t step = 0; step < n_steps; step++) {
                double rate = oct__schedule_rate(schedule, 0.4, step, n_steps, runs[i].epoch_steps);
                if (step < warm_up) {
                    assert_true(fabs(rate - 0.04) < 1e-12);
                    continue;
                }
                if (step == warm_up) {
                    /* What is left of the highest rate after a twentieth of the run at most. */
                    assert_true(rate > 0.98 * 0.4 && rate <= 0.4);
                }
                if (!(rate > 0 && rate <= before)) {
                    fail_msg("%s: step %lld of %lld: %g after %g", schedule->plugin.name,
                             (long long)step, (long long)n_steps, rate, before);
                }
                before = rate;
            }
            print_message("%s, %lld epochs of %lld: warm-up %lld steps, last rate %.4g of 0.4\n",
                          schedule->plugin.name, (long long)runs[i].epochs,
                          (long long)runs[i].epoch_steps, (long long)warm_up, before);
        }
    }
    assert_true(n >= 2);
    assert_null(oct__schedule_at(-1));
    assert_null(oct__schedule_find("zigzag"));
    assert_null(oct_plugin_at(OCT_PLUGIN_SCHEDULE, n));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
