/* SPDX-License-Identifier: Apache-2.0 */
/* test_traffic.c - what has travelled is counted alike on every engine, also of a run that was stopped
 * in the middle of an epoch: an engine that works ahead counts a round's bytes only when they have
 * arrived. */
#include <stdlib.h>

#include "engine/engine.h"
#include "support/check.h"

#include <octet/octet.h>

enum { STEPS = 3, N_NODES = 3 };

static int stop_after(const struct oct_progress *progress, void *context) {
    (void)context;
    return progress->step >= STEPS;
}

static struct oct_result run(const char *engine, const char *compress) {
    static const char *const pairs[][2] = {{"model", "resnet20:width=4,blocks=1"},
                                           {"data", "synthetic:samples=48,size=8,classes=4"},
                                           {"nodes", "3"},
                                           {"batch", "2"},
                                           {"epochs", "2"},
                                           {"threads", "1"},
                                           {"algorithm", "choco"},
                                           {"lr", "0.01"},
                                           {"precision", "fp32"},
                                           {"db", "none"},
                                           {"momentum", "local"}};
    const struct oct_hooks hooks = {.progress = stop_after};
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    EXPECT_OK(oct_config_set(config, "engine", engine));
    EXPECT_OK(oct_config_set(config, "compress", compress));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
    EXPECT_OK(oct_trainer_result(trainer, &result));
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void stopped_runs(void **state) {
    (void)state;
    static const char *const compress[] = {"none", "topk:0.9"};
    for (size_t c = 0; c < OCT_COUNT_OF(compress); c++) {
        const struct oct_result wanted = run("portable", compress[c]);
        assert_int_equal(wanted.messages, STEPS * N_NODES);
        for (int e = 0; oct__engine_at(e); e++) {
            const struct oct_engine_kind *kind = oct__engine_at(e);
            if (kind->plugin.unavailable || kind->is_oracle) {
                continue;
            }
            const struct oct_result got = run(kind->plugin.name, compress[c]);
            print_message("%s, %s: %llu bytes in %llu messages, %llu dense\n", kind->plugin.name,
                          compress[c], (unsigned long long)got.bytes_sent,
                          (unsigned long long)got.messages, (unsigned long long)got.bytes_dense);
            assert_int_equal(got.messages, wanted.messages);
            assert_int_equal(got.bytes_dense, wanted.bytes_dense);
            /* which elements are largest may hang on the last bit of a gradient */
            assert_in_range(got.bytes_sent, wanted.bytes_sent - wanted.bytes_sent / 50,
                            wanted.bytes_sent + wanted.bytes_sent / 50);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stopped_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
