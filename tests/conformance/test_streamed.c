/* SPDX-License-Identifier: Apache-2.0 */
/* test_streamed.c - training on pictures that are decoded while it runs.
 *
 * It is training on the same images held in memory, to the bit; its bits do not depend on threads, on
 * where it was stopped, or on who owns the memory; and what happens to a file meanwhile is said.
 */
#include <stdlib.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/folder.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/folder.h"
#include "support/outcome.h"
#include "support/pictures.h"
#include "support/solo.h"
#include "train/inference.h"
#include "train/trainer.h"

enum { CLASSES = 3, TRAIN = 13, TEST = 15, SIZE = 16, BYTES = SIZE * SIZE * 3 };

static struct folder home;
static char spec[FOLDER_PATH + 32];

static int set_up(void **state) {
    (void)state;
    folder_open(&home);
    if (pictures_are_there()) {
        picture_tree(home.path, CLASSES, TRAIN, TEST);
    }
    snprintf(spec, sizeof spec, "folder:%s,size=%d", home.path, SIZE);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    assert_int_equal(oct__folder_remove(home.path), 0);
    return 0;
}

static void need_pictures(void) {
    if (!pictures_are_there()) {
        print_message("this build reads no pictures\n");
        skip();
    }
}

struct options {
    const char *precision, *augment, *engine, *model;
    int n_nodes, n_threads, n_epochs;
};

static const struct options plain = {.precision = "fp32",
                                     .augment = "crop-flip",
                                     .engine = "cpu",
                                     .model = "resnet20:width=8,blocks=1",
                                     .n_nodes = 2,
                                     .n_threads = 1,
                                     .n_epochs = 2};

static struct oct_config *configure(const struct options *o) {
    struct oct_config *config = NULL;
    char number[16];
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, o->n_nodes));
    EXPECT_OK(oct_config_set(config, "model", o->model));
    EXPECT_OK(oct_config_set(config, "data", spec));
    EXPECT_OK(oct_config_set(config, "batch", "5"));
    EXPECT_OK(oct_config_set(config, "precision", o->precision));
    EXPECT_OK(oct_config_set(config, "augment", o->augment));
    EXPECT_OK(oct_config_set(config, "engine", o->engine));
    snprintf(number, sizeof number, "%d", o->n_epochs);
    EXPECT_OK(oct_config_set(config, "epochs", number));
    snprintf(number, sizeof number, "%d", o->n_threads);
    EXPECT_OK(oct_config_set(config, "threads", number));
    return config;
}

static struct oct_result train_with(const struct options *o, const struct oct_hooks *hooks) {
    struct oct_config *config = configure(o);
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void expect_same(const struct oct_result *a, const struct oct_result *b) {
    assert_string_equal(a->model_sha256, b->model_sha256);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->accuracy, &b->accuracy, sizeof a->accuracy);
    assert_memory_equal(&a->train_loss, &b->train_loss, sizeof a->train_loss);
}

/* --- the same images in memory ------------------------------------------------------------------ */

static int copy_sample(void *context, int64_t index, uint8_t *image, int *label) {
    const struct oct_dataset *from = context;
    *label = oct_dataset_label(from, index);
    return oct_dataset_read(from, index, image) != OCT_OK;
}

static struct oct_dataset *in_memory(struct oct_dataset *from) {
    struct oct_dataset *dataset = NULL;
    struct oct_dataset_custom custom = {.name = "copy",
                                        .n_samples = from->n_samples,
                                        .height = SIZE,
                                        .width = SIZE,
                                        .channels = 3,
                                        .n_classes = CLASSES,
                                        .get = copy_sample,
                                        .context = from};
    memcpy(custom.mean, from->mean, sizeof custom.mean);
    memcpy(custom.deviation, from->deviation, sizeof custom.deviation);
    EXPECT_OK(oct_dataset_create(&custom, &dataset));
    assert_non_null(dataset->images);
    return dataset;
}

static void it_is_training_on_the_same_images(void **state) {
    (void)state;
    need_pictures();
    struct oct_dataset *files[2] = {NULL, NULL}, *copies[2];
    for (int split = 0; split < 2; split++) {
        EXPECT_OK(oct_dataset_open(spec, NULL, (enum oct_split)split, &files[split]));
        assert_int_equal(files[split]->n_samples, CLASSES * (split ? TEST : TRAIN));
        copies[split] = in_memory(files[split]);
    }
    const struct oct_hooks streamed = {.train = files[0], .test = files[1]};
    const struct oct_hooks resident = {.train = copies[0], .test = copies[1]};
    for (int nodes = 1; nodes <= 4; nodes += 3) {
        struct options o = plain;
        o.augment = "none";
        o.n_nodes = nodes;
        o.n_threads = 2;
        struct oct_result a = train_with(&o, &streamed), b = train_with(&o, &resident);
        print_message("%d nodes: %.16s… from files, %.16s… from memory; loss %.6f, %.6f\n", nodes,
                      a.model_sha256, b.model_sha256, a.loss, b.loss);
        expect_same(&a, &b);
        assert_true(a.workspace_bytes == b.workspace_bytes + (uint64_t)nodes * 5 * BYTES);
    }
    for (int split = 0; split < 2; split++) {
        oct_dataset_close(files[split]);
        oct_dataset_close(copies[split]);
    }
}

/* --- threads, stops, engines -------------------------------------------------------------------- */

static void threads_do_not_matter(void **state) {
    (void)state;
    need_pictures();
    for (int nodes = 1; nodes <= 4; nodes++) {
        struct options o = plain;
        o.n_nodes = nodes;
        o.precision = nodes % 2 ? "int8" : "fp32";
        struct oct_result first = train_with(&o, NULL);
        for (o.n_threads = 2; o.n_threads <= 3; o.n_threads++) {
            struct oct_result other = train_with(&o, NULL);
            print_message("%d nodes, %d threads: %.16s… and %.16s…\n", nodes, o.n_threads,
                          first.model_sha256, other.model_sha256);
            expect_same(&first, &other);
        }
    }
    struct options o = plain;
    o.augment = "none";
    struct oct_result middles = train_with(&o, NULL), parts = train_with(&plain, NULL);
    assert_string_not_equal(middles.model_sha256, parts.model_sha256);
}

static int stop_at(const struct oct_progress *progress, void *context) {
    return progress->phase == OCT_PHASE_TRAIN && progress->step == *(const int *)context;
}

/* Stopped in the middle of an epoch, taken up again by another trainer from its checkpoint. */
static void stops_do_not_matter(void **state) {
    (void)state;
    need_pictures();
    struct options o = plain;
    o.n_threads = 2;
    const struct oct_result whole = train_with(&o, NULL);
    char where[FOLDER_PATH + 16];
    for (int step = 1; step < 8; step += 2) {
        struct oct_config *config = configure(&o);
        struct oct_trainer *trainer = NULL;
        struct oct_result result;
        const struct oct_hooks hooks = {.progress = stop_at, .progress_context = &step};
        snprintf(where, sizeof where, "%s/stop%d", home.path, step);
        EXPECT_OK(oct_config_set(config, "checkpoint", where));
        EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
        assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
        oct_trainer_destroy(trainer);
        EXPECT_OK(oct_config_set(config, "resume", where));
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        EXPECT_OK(oct_trainer_run(trainer));
        EXPECT_OK(oct_trainer_result(trainer, &result));
        print_message("stopped after step %d: %.16s…, never: %.16s…\n", step, result.model_sha256,
                      whole.model_sha256);
        expect_same(&result, &whole);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

/* A run that is given up at once: its threads are in the middle of pictures. */
static void giving_up_is_clean(void **state) {
    (void)state;
    need_pictures();
    struct options o = plain;
    o.n_threads = 3;
    o.n_nodes = 4;
    for (int turn = 0; turn < 5; turn++) {
        struct oct_config *config = configure(&o);
        struct oct_trainer *trainer = NULL;
        int step = 1;
        const struct oct_hooks hooks = {.progress = stop_at, .progress_context = &step};
        EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
        assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

/* An engine whose memory is its own gets what it reads by its own functions. */
static void engines_with_their_own_memory(void **state) {
    (void)state;
    need_pictures();
    for (int nodes = 1; nodes <= 3; nodes += 2) {
        const struct run_form form = {.model = "resnet20:width=8,blocks=1",
                                      .data = spec,
                                      .norm = "evonorm-s0",
                                      .n_nodes = nodes,
                                      .n_threads = 1,
                                      .batch = 6};
        struct outcome expected = outcome_on(plain_engine("cpu", 1), &form), found;
        struct oct__engine *fence = NULL;
        EXPECT_OK(fence_open(&fence));
        struct run run;
        run_open(&run, fence, &form);
        assert_non_null(run.cohort->crew->lanes[0].table);
        run_train(&run, &found);
        outcome_compare("behind the fence", &found, &expected);
        run_close(&run);
        oct__engine_close(fence);
        outcome_free(&found);
        outcome_free(&expected);
    }
}

/* --- inference -------------------------------------------------------------------------------- */

static void inference_decodes_what_it_is_asked_for(void **state) {
    (void)state;
    need_pictures();
    enum { N = 11 };
    struct options o = plain;
    o.n_threads = 2;
    struct oct_config *config = configure(&o);
    struct oct_trainer *trainer = NULL;
    float logits[2][N * CLASSES];
    uint32_t rows[2][N];
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    struct oct__cohort *cohort = trainer->cohort;
    const struct oct__inference_config how = {.engine = trainer->engine,
                                              .graph = &trainer->graph,
                                              .data = &cohort->crew->test,
                                              .batch = N,
                                              .n_threads = 2};
    struct oct__inference *inference = NULL;
    EXPECT_OK(oct__inference_create(&how, &inference));
    EXPECT_OK(
        oct__inference_set(inference, cohort->state[OCT_HOME_PARAM], cohort->state[OCT_HOME_STAT]));
    for (uint32_t i = 0; i < N; i++) {
        rows[0][i] = 3 * i;
        rows[1][i] = 3 * (N - 1 - i);
    }
    EXPECT_OK(oct__inference_run(inference, rows[0], logits[0]));
    EXPECT_OK(oct__inference_run(inference, rows[1], logits[1]));
    for (int i = 0; i < N; i++) {
        assert_memory_equal(&logits[0][i * CLASSES], &logits[1][(N - 1 - i) * CLASSES],
                            CLASSES * sizeof(float));
        assert_memory_not_equal(&logits[0][i * CLASSES], &logits[0][(i + 1) % N * CLASSES],
                                CLASSES * sizeof(float));
    }
    oct__inference_destroy(inference);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

/* --- what goes wrong ---------------------------------------------------------------------------- */

/* The loss is infinite because of the parameters; the layer is found with the step's own images. */
static void a_loss_that_is_not_finite_is_explained(void **state) {
    (void)state;
    need_pictures();
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        struct options o = plain;
        o.n_threads = n_threads;
        struct oct_config *config = configure(&o);
        struct oct_trainer *trainer = NULL;
        EXPECT_OK(oct_config_set(config, "lr", "1e6"));
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        oct_status status = oct_trainer_run(trainer);
        print_message("%s: %s\n", oct_status_name(status), oct_last_error());
        assert_int_equal(status, OCT_STATUS_NOT_FINITE);
        assert_non_null(strstr(oct_last_error(), "learning rate"));
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

static void a_file_that_vanishes_is_named(void **state) {
    (void)state;
    need_pictures();
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        struct options o = plain;
        o.n_threads = n_threads;
        o.n_epochs = 4;
        struct oct_config *config = configure(&o);
        struct oct_trainer *trainer = NULL;
        char path[FOLDER_PATH + 32], away[FOLDER_PATH + 32];
        snprintf(path, sizeof path, "%s/train/class1", home.path);
        snprintf(away, sizeof away, "%s/away", home.path);
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        assert_int_equal(rename(path, away), 0);
        oct_status status = oct_trainer_run(trainer);
        print_message("%s: %s\n", oct_status_name(status), oct_last_error());
        assert_int_equal(rename(away, path), 0);
        assert_int_equal(status, OCT_STATUS_IO);
        assert_non_null(strstr(oct_last_error(), "train/class1/p"));
        assert_non_null(strstr(oct_last_error(), "step "));
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

/* Whatever request for memory fails, while the data is opened and a step and an evaluation run. */
static void missing_memory_is_said(void **state) {
    (void)state;
    need_pictures();
    struct options o = plain;
    o.n_epochs = 1;
    struct oct_config *config = configure(&o);
    EXPECT_OK(oct_config_set(config, "samples", "10"));
    EXPECT_OK(oct_config_set(config, "test-samples", "5"));
    const uint64_t before = oct__alloc_count();
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    oct_trainer_destroy(trainer);
    const uint64_t n = oct__alloc_count() - before;
    for (uint64_t at = 1; at <= n; at += 1 + n / 150) {
        trainer = NULL;
        oct__alloc_fail_after(at);
        oct_status status = oct_trainer_create(config, NULL, &trainer);
        if (status == OCT_OK) {
            status = oct_trainer_run(trainer);
        }
        oct__alloc_fail_after(0);
        if (trainer) {
            oct_trainer_destroy(trainer);
        }
        if (status == OCT_OK && at > n / 2) {
            break; /* threads that check files need more or less, as they share them out */
        }
        if (status != OCT_STATUS_NO_MEMORY) {
            fail_msg("request %llu of %llu: %s: %s", (unsigned long long)at, (unsigned long long)n,
                     oct_status_name(status), oct_last_error());
        }
    }
    print_message("%llu requests\n", (unsigned long long)n);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_training_on_the_same_images),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(stops_do_not_matter),
        cmocka_unit_test(giving_up_is_clean),
        cmocka_unit_test(engines_with_their_own_memory),
        cmocka_unit_test(inference_decodes_what_it_is_asked_for),
        cmocka_unit_test(a_loss_that_is_not_finite_is_explained),
        cmocka_unit_test(a_file_that_vanishes_is_named),
        cmocka_unit_test(missing_memory_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
