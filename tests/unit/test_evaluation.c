/* SPDX-License-Identifier: Apache-2.0 */
/* test_evaluation.c - what a trained model says afterwards: the same when it comes from a file, normalized as
 * it was trained, and never a number that is none. */
#include <math.h>

#include <octet/octet.h>

#include "scratch.h"
#include "support/check.h"
#include "support/solo.h"

static struct oct_config *configure(const char *norm, const char *lr) {
    const char *const pairs[][2] = {{"model", "resnet20:width=4,blocks=1"},
                                    {"data", "synthetic:samples=64,size=8,classes=4"},
                                    {"batch", "16"},
                                    {"epochs", "3"},
                                    {"threads", "1"},
                                    {"norm", norm},
                                    {"lr", lr}};
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 1));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    return config;
}

/* Every norm, because BatchNorm's running statistics are part of the model too. */
static void a_loaded_model_is_the_saved_one(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    assert_non_null(scratch_make(folder));
    const struct oct_plugin *norm;
    for (int i = 0; (norm = oct_plugin_at(OCT_PLUGIN_NORM, i)) != NULL; i++) {
        struct oct_config *config = configure(norm->name, "0.05");
        struct oct_trainer *trained = NULL, *loaded = NULL;
        struct oct_result before, fresh, after;
        EXPECT_OK(oct_trainer_create(config, NULL, &trained));
        EXPECT_OK(oct_trainer_create(config, NULL, &loaded));
        EXPECT_OK(oct_trainer_run(trained));
        EXPECT_OK(oct_trainer_result(trained, &before));
        EXPECT_OK(oct_trainer_result(loaded, &fresh));
        EXPECT_OK(oct_trainer_save(trained, scratch_at(folder, "model")));
        EXPECT_OK(oct_trainer_load(loaded, scratch_at(folder, "model")));
        EXPECT_OK(oct_trainer_result(loaded, &after));
        print_message("%s: trained %.6f, untrained %.6f, loaded %.6f\n", norm->name, before.loss,
                      fresh.loss, after.loss);
        assert_true(before.loss != fresh.loss);
        assert_true(before.loss == after.loss);
        assert_string_equal(before.model_sha256, after.model_sha256);
        oct_trainer_destroy(trained);
        oct_trainer_destroy(loaded);
        oct_config_destroy(config);
    }
    scratch_remove(folder);
}

/* Class 0 is dark and class 1 bright; `context` tells which classes there are. */
static int shade(void *context, int64_t index, uint8_t *image, int *label) {
    const int *classes = context;
    *label = classes[index % 2];
    for (int i = 0; i < 8 * 8; i++) {
        image[i] = (uint8_t)((*label ? 180 : 40) + (index * 7 + i * 13) % 20);
    }
    return 0;
}

static struct oct_dataset *shades(int classes[2]) {
    struct oct_dataset_custom custom = {.name = "shades",
                                        .n_samples = 64,
                                        .height = 8,
                                        .width = 8,
                                        .channels = 1,
                                        .n_classes = 2,
                                        .get = shade,
                                        .context = classes};
    struct oct_dataset *dataset = NULL;
    EXPECT_OK(oct_dataset_create(&custom, &dataset));
    return dataset;
}

/* A test set that is all bright must still look bright: it is normalized by the training set's mean, not by its
 * own, which would make it look like anything. */
static void the_test_set_is_normalized_as_the_training_set(void **state) {
    (void)state;
    int both[2] = {0, 1};
    struct oct_dataset *train = shades(both);
    for (int only = 0; only < 2; only++) {
        int classes[2] = {only, only};
        struct oct_hooks hooks = {.train = train, .test = shades(classes)};
        struct oct_config *config = configure("groupnorm", "0.05");
        struct oct_trainer *trainer = NULL;
        struct oct_result result;
        EXPECT_OK(oct_config_set(config, "augment", "none"));
        EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
        EXPECT_OK(oct_trainer_run(trainer));
        EXPECT_OK(oct_trainer_result(trainer, &result));
        print_message("only class %d: accuracy %.1f, training loss %.4f\n", only, result.accuracy,
                      result.train_loss);
        assert_true(result.accuracy == 100.0);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
        struct oct_dataset *test;
        memcpy(&test, &hooks.test, sizeof test);
        oct_dataset_close(test);
    }
    oct_dataset_close(train);
}

/* One step, whose update overflows: no training loss follows that could show it. */
static void an_overflow_in_the_last_update_is_noticed(void **state) {
    (void)state;
    struct oct_config *config = configure("batchnorm", "1e6");
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_set(config, "batch", "64"));
    EXPECT_OK(oct_config_set(config, "epochs", "1"));
    EXPECT_OK(oct_config_set(config, "lr", "1e6"));
    EXPECT_OK(oct_config_set(config, "weight-decay", "1"));
    EXPECT_OK(oct_config_set(config, "precision", "fp32")); /* 8 bits do not overflow so easily */
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_NOT_FINITE, "after step 1");
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_model_is_the_saved_one),
        cmocka_unit_test(the_test_set_is_normalized_as_the_training_set),
        cmocka_unit_test(an_overflow_in_the_last_update_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
