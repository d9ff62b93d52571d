/* SPDX-License-Identifier: Apache-2.0 */
/* test_evaluation.c - what a trained model says afterwards: the same when it comes from a file, normalized as
 * it was trained, and never a number that is none; and of which epochs it is asked. */
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

enum { EPOCHS = 7, NODES = 3 };

/* What the epochs of a run said, and where it is to be stopped. */
struct epochs {
    struct oct_progress at[EPOCHS + 1];
    int n, stop_after;
    const struct oct_trainer *trainer;
    double apart[EPOCHS + 1]; /* a node's distance from the average */
};

static int note_epoch(const struct oct_progress *p, void *context) {
    struct epochs *epochs = context;
    if (p->phase != OCT_PHASE_EPOCH_END) {
        return 0;
    }
    struct oct_node node;
    EXPECT_OK(oct_trainer_node(epochs->trainer, 1, &node));
    epochs->at[p->epoch] = *p;
    epochs->apart[p->epoch] = node.consensus_distance;
    epochs->n = p->epoch;
    return p->epoch == epochs->stop_after;
}

static struct oct_trainer *train_some(const char *test_every, struct epochs *epochs,
                                      oct_status expected) {
    struct oct_config *config = configure("range-evonorm", "0.05");
    struct oct_hooks hooks = {.progress = note_epoch, .progress_context = epochs};
    struct oct_trainer *trainer = NULL;
    char n_epochs[8], n_nodes[8];
    snprintf(n_epochs, sizeof n_epochs, "%d", EPOCHS);
    snprintf(n_nodes, sizeof n_nodes, "%d", NODES);
    EXPECT_OK(oct_config_set(config, "epochs", n_epochs));
    EXPECT_OK(oct_config_set(config, "nodes", n_nodes));
    EXPECT_OK(oct_config_set(config, "batch", "4"));
    EXPECT_OK(oct_config_set(config, "test-every", test_every));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    epochs->trainer = trainer;
    assert_int_equal(oct_trainer_run(trainer), expected);
    oct_config_destroy(config);
    return trainer;
}

/* Tests look and change nothing: those that are made say the same, whichever are left out. */
static void tests_are_made_when_asked_for(void **state) {
    (void)state;
    struct epochs all = {.n = 0};
    struct oct_result expected, result;
    struct oct_trainer *trainer = train_some("1", &all, OCT_OK);
    EXPECT_OK(oct_trainer_result(trainer, &expected));
    oct_trainer_destroy(trainer);
    for (int every = 2; every <= EPOCHS + 1; every++) {
        char text[16];
        struct epochs some = {.n = 0};
        snprintf(text, sizeof text, "%d", every);
        trainer = train_some(text, &some, OCT_OK);
        EXPECT_OK(oct_trainer_result(trainer, &result));
        oct_trainer_destroy(trainer);
        assert_string_equal(result.model_sha256, expected.model_sha256);
        assert_true(result.accuracy == expected.accuracy && result.loss == expected.loss);
        assert_true(result.accuracy_nodes == expected.accuracy_nodes);
        assert_true(result.consensus_distance == expected.consensus_distance);
        for (int epoch = 1; epoch <= EPOCHS; epoch++) {
            const struct oct_progress *a = &all.at[epoch], *b = &some.at[epoch];
            print_message("every %d, epoch %d: test loss %g (%g), distance %g (%g)\n", every, epoch,
                          b->test_loss, a->test_loss, b->consensus_distance, a->consensus_distance);
            assert_true(a->loss == b->loss && a->accuracy == b->accuracy);
            if (epoch % every == 0 || epoch == EPOCHS) {
                assert_true(a->test_loss == b->test_loss && a->test_accuracy == b->test_accuracy);
                assert_true(a->consensus_distance == b->consensus_distance);
                assert_true(all.apart[epoch] == some.apart[epoch]);
            } else {
                assert_true(isnan(b->test_loss) && isnan(b->test_accuracy));
                assert_true(isnan(b->consensus_distance) && isnan(some.apart[epoch]));
            }
        }
    }
}

/* A run that is stopped after an epoch that was passed over can be asked all the same. */
static void a_stopped_run_is_tested_when_it_is_asked(void **state) {
    (void)state;
    struct epochs all = {.n = 0}, some = {.stop_after = 4};
    struct oct_result result;
    oct_trainer_destroy(train_some("1", &all, OCT_OK));
    struct oct_trainer *trainer = train_some("3", &some, OCT_STATUS_CANCELLED);
    assert_int_equal(some.n, 4);
    assert_true(isnan(some.at[4].test_loss));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("loss %g, expected %g\n", result.loss, all.at[4].test_loss);
    assert_true(result.loss == all.at[4].test_loss);
    assert_true(result.accuracy == all.at[4].test_accuracy);
    assert_true(result.consensus_distance == all.at[4].consensus_distance);
    some.stop_after = 0;
    EXPECT_OK(oct_trainer_run(trainer));
    assert_int_equal(some.n, EPOCHS);
    assert_true(isnan(some.at[5].test_loss));
    assert_true(some.at[6].test_loss == all.at[6].test_loss);
    assert_true(some.at[EPOCHS].test_loss == all.at[EPOCHS].test_loss);
    oct_trainer_destroy(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_model_is_the_saved_one),
        cmocka_unit_test(the_test_set_is_normalized_as_the_training_set),
        cmocka_unit_test(an_overflow_in_the_last_update_is_noticed),
        cmocka_unit_test(tests_are_made_when_asked_for),
        cmocka_unit_test(a_stopped_run_is_tested_when_it_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
