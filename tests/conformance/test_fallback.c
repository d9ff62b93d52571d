/* SPDX-License-Identifier: Apache-2.0 */
/* test_fallback.c - an engine with memory and nothing else trains to the bits of `portable`.
 *
 * Its addresses are no addresses, so nothing else touches them either, on several threads and with
 * several nodes in a launch: where the fence is single-threaded, this is not.
 */
#include "nn/layer.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/outcome.h"

static void compare_with_portable(struct run_form form, int most_threads) {
    form.n_threads = 1;
    struct outcome expected = outcome_on(plain_engine("portable", 1), &form);
    for (form.n_threads = 1; form.n_threads <= most_threads; form.n_threads++) {
        struct oct__engine *hollow = NULL;
        char name[128];
        EXPECT_OK(hollow_open(form.n_threads, &hollow));
        struct outcome found = outcome_on(hollow, &form);
        snprintf(name, sizeof name, "%s, %s, %s, %d nodes, %d threads", form.model,
                 form.recipe ? "int8" : "fp32", form.norm, form.n_nodes, form.n_threads);
        outcome_compare(name, &found, &expected);
        outcome_free(&found);
    }
    outcome_free(&expected);
}

static void every_norm_and_thread_count(const char *recipe) {
    for (int i = 0; oct__norm_at(i); i++) {
        for (int n_nodes = 1; n_nodes <= 3; n_nodes += 2) {
            compare_with_portable((struct run_form){.model = "resnet20:width=4,blocks=1",
                                                    .data = "synthetic:samples=48,size=8",
                                                    .norm = oct__norm_at(i)->plugin.name,
                                                    .recipe = recipe,
                                                    .n_nodes = n_nodes,
                                                    .batch = 20},
                                  n_nodes == 1 ? 2 : 4);
        }
    }
}

static void fp32(void **state) {
    (void)state;
    every_norm_and_thread_count(NULL);
}

static void int8(void **state) {
    (void)state;
    every_norm_and_thread_count("octet:weights=channel,gradients=sample");
}

static void resnet20(void **state) {
    (void)state;
    compare_with_portable((struct run_form){.model = "resnet20",
                                            .data = "synthetic:samples=16,size=8",
                                            .norm = "evonorm-s0",
                                            .n_nodes = 1,
                                            .batch = 5},
                          1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),
        cmocka_unit_test(int8),
        cmocka_unit_test(resnet20),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
