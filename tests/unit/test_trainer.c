/* SPDX-License-Identifier: Apache-2.0 */
/* test_trainer.c - src/train/trainer.c: a run from configuration to result, through the public API.
 *
 * What goes wrong with memory, files and numbers is in tests/fault; what does not depend on threads
 * in tests/conformance.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "nn/layer.h"
#include "scratch.h"
#include "support/check.h"
#include "support/solo.h"
#include "train/trainer.h"

/* A configuration of a small, quick run; pairs of name and value change it. The last is NULL. */
static struct oct_config *configure(const char *first, ...) {
    static const char *const basis[][2] = {{"model", "resnet20:width=4,blocks=1"},
                                           {"data", "synthetic:samples=50,size=8,classes=4"},
                                           {"batch", "8"},
                                           {"epochs", "2"},
                                           {"threads", "1"},
                                           {"lr", "0.02"},
                                           {"norm", "groupnorm"}};
    struct oct_config *config = NULL;
    va_list rest;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 1));
    for (size_t i = 0; i < OCT_COUNT_OF(basis); i++) {
        EXPECT_OK(oct_config_set(config, basis[i][0], basis[i][1]));
    }
    va_start(rest, first);
    for (const char *name = first; name; name = va_arg(rest, const char *)) {
        EXPECT_OK(oct_config_set(config, name, va_arg(rest, const char *)));
    }
    va_end(rest);
    return config;
}

static struct oct_trainer *create(struct oct_config *config, const struct oct_hooks *hooks) {
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    oct_config_destroy(config);
    return trainer;
}

static void expect_refused(struct oct_config *config, const struct oct_hooks *hooks,
                           oct_status status, const char *piece) {
    struct oct_trainer *trainer = NULL;
    EXPECT_FAILURE(oct_trainer_create(config, hooks, &trainer), status, piece);
    assert_null(trainer);
    oct_config_destroy(config);
}

/* --- a run ----------------------------------------------------------------------------------- */

struct diary {
    int n_calls, n_train, n_evaluate, n_ends;
    struct oct_progress last;
    int64_t stop_after; /* steps; 0: never */
    int stop_in;        /* phase */
};

static int write_down(const struct oct_progress *p, void *context) {
    struct diary *diary = context;
    diary->n_calls++;
    assert_int_equal(p->n_epochs, 2);
    assert_int_equal(p->n_steps, 14); /* two epochs of ceil(50 / 8) */
    assert_true(p->seconds >= 0 && p->seconds_left >= 0);
    switch (p->phase) {
    case OCT_PHASE_TRAIN:
        diary->n_train++;
        assert_int_equal(p->step, diary->n_train);
        assert_int_equal(p->epoch_step, (p->step - 1) % 7 + 1);
        assert_int_equal(p->epoch_steps, 7);
        assert_int_equal(p->epoch, (p->step - 1) / 7 + 1);
        assert_true(isfinite(p->loss) && p->loss > 0);
        assert_true(p->accuracy >= 0 && p->accuracy <= 100);
        assert_true(p->learning_rate > 0 && p->learning_rate <= 0.1);
        assert_true(p->samples_per_s > 0);
        break;
    case OCT_PHASE_GOSSIP:
        fail_msg("one node has nobody to talk to");
        break;
    case OCT_PHASE_EVALUATE:
        diary->n_evaluate++;
        assert_true(p->epoch_step <= p->epoch_steps);
        assert_int_equal(p->epoch, diary->n_ends + 1);
        break;
    case OCT_PHASE_EPOCH_END:
        diary->n_ends++;
        assert_int_equal(p->epoch, diary->n_ends);
        assert_int_equal(p->step, 7 * diary->n_ends);
        assert_true(isfinite(p->test_loss));
        assert_true(p->test_accuracy >= 0 && p->test_accuracy <= 100);
        break;
    }
    diary->last = *p;
    return diary->stop_after && p->step >= diary->stop_after && (int)p->phase == diary->stop_in;
}

static void a_run_from_end_to_end(void **state) {
    (void)state;
    struct diary diary = {0};
    const struct oct_hooks hooks = {.progress = write_down, .progress_context = &diary};
    struct oct_trainer *trainer = create(configure(NULL), &hooks);
    struct oct_result result, again;
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("%d train, %d evaluate, %d end; accuracy %.2f %%, loss %.4f, %.0f samples/s\n",
                  diary.n_train, diary.n_evaluate, diary.n_ends, result.accuracy, result.loss,
                  result.samples_per_s);
    assert_int_equal(diary.n_train, 14);
    assert_int_equal(diary.n_ends, 2);
    assert_true(diary.n_evaluate >= 2);
    assert_int_equal(diary.last.phase, OCT_PHASE_EPOCH_END);
    assert_true(result.accuracy == diary.last.test_accuracy);
    assert_true(result.accuracy_nodes == result.accuracy);
    assert_true(result.loss == diary.last.test_loss);
    assert_true(result.consensus_distance == 0.0);
    assert_int_equal(result.bytes_sent, 0);
    assert_int_equal(result.epochs, 2);
    assert_true(result.train_loss > 0 && isfinite(result.train_loss));
    assert_true(result.samples_per_s > 0 && result.seconds > 0);
    assert_int_equal(result.n_parameters, oct__row_count(&trainer->graph.params));
    /* Parameters and momentum, each a row with its gaps, and the ranges of quantizers. */
    assert_int_equal(result.state_bytes,
                     4 * (2 * trainer->graph.params.n_elements + trainer->graph.stats.n_elements));
    assert_true(result.workspace_bytes > result.state_bytes / 2);

    /* Done is done: neither a second run nor a second look changes anything. */
    const int n_calls = diary.n_calls;
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &again));
    assert_int_equal(diary.n_calls, n_calls);
    assert_string_equal(again.model_sha256, result.model_sha256);
    assert_true(again.accuracy == result.accuracy && again.loss == result.loss);
    oct_trainer_destroy(trainer);
}

/* Stopped anywhere and run again, a run is the run that never stopped. */
static void a_stop_is_a_pause(void **state) {
    (void)state;
    struct oct_result expected, result;
    struct oct_trainer *trainer = create(configure(NULL), NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &expected));
    oct_trainer_destroy(trainer);
    static const struct {
        int64_t step;
        enum oct_phase phase;
    } stops[] = {{3, OCT_PHASE_TRAIN},     {7, OCT_PHASE_TRAIN},  {7, OCT_PHASE_EVALUATE},
                 {7, OCT_PHASE_EPOCH_END}, {11, OCT_PHASE_TRAIN}, {14, OCT_PHASE_EPOCH_END}};
    for (size_t i = 0; i < OCT_COUNT_OF(stops); i++) {
        struct diary diary = {.stop_after = stops[i].step, .stop_in = (int)stops[i].phase};
        const struct oct_hooks hooks = {.progress = write_down, .progress_context = &diary};
        trainer = create(configure(NULL), &hooks);
        EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_CANCELLED, "stopped");
        assert_int_equal(trainer->step, stops[i].step);
        EXPECT_OK(oct_trainer_result(trainer, &result));
        assert_int_equal(result.epochs, diary.n_ends);
        diary.stop_after = 0;
        EXPECT_OK(oct_trainer_run(trainer));
        EXPECT_OK(oct_trainer_result(trainer, &result));
        print_message("stopped after step %lld, in phase %d: %.16s… and %.16s…; %lld steps\n",
                      (long long)stops[i].step, (int)stops[i].phase, result.model_sha256,
                      expected.model_sha256, (long long)trainer->step);
        assert_int_equal(trainer->step, 14);
        assert_string_equal(result.model_sha256, expected.model_sha256);
        assert_true(result.loss == expected.loss && result.accuracy == expected.accuracy);
        assert_true(result.train_loss == expected.train_loss);
        assert_int_equal(result.epochs, 2);
        oct_trainer_destroy(trainer);
    }
}

/* Without an epoch nothing is learnt, and the result is that of the initial model. */
static void no_epochs(void **state) {
    (void)state;
    struct oct_result result;
    struct oct_trainer *trainer = create(configure("epochs", "0", NULL), NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("loss %.4f, accuracy %.1f %%\n", result.loss, result.accuracy);
    assert_int_equal(result.epochs, 0);
    assert_true(isnan(result.train_loss) && isnan(result.samples_per_s)); /* there was none */
    assert_true(isfinite(result.loss));
    float *row = calloc(trainer->graph.params.n_elements, sizeof *row);
    float *found = calloc(trainer->graph.params.n_elements, sizeof *found);
    assert_non_null(row);
    assert_non_null(found);
    oct__row_init(&trainer->graph.params, 1, row);
    EXPECT_OK(oct__cohort_read_average(trainer->cohort, OCT_HOME_PARAM, found));
    assert_memory_equal(found, row, trainer->graph.params.n_elements * sizeof *row);
    free(row);
    free(found);
    oct_trainer_destroy(trainer);
}

/* A graph that changes wants memory in every round, when local steps are done: a run that fails there
 * cannot go on, and says so again instead of taking the step twice. */
static void a_failure_in_a_step(void **state) {
    (void)state;
    char whole[65] = "";
    int n_torn = 0;
    for (uint64_t n = 0; n == 0 || n_torn < 3; n++) {
        struct oct_result result;
        struct oct_trainer *trainer = create(
            configure("nodes", "4", "topology", "random-regular:degree=2,change=yes", "algorithm",
                      "dpsgd", "compress", "none", "batch", "4", "epochs", "1", NULL),
            NULL);
        oct__alloc_fail_after(n);
        oct_status first = oct_trainer_run(trainer);
        oct__alloc_fail_after(0);
        oct_status second = oct_trainer_run(trainer);
        if (first == OCT_OK) {
            assert_true(n == 0 || n_torn > 0); /* it is still looked for */
        }
        if (second == OCT_OK) {
            EXPECT_OK(oct_trainer_result(trainer, &result));
            snprintf(whole, sizeof whole, "%s", whole[0] ? whole : result.model_sha256);
            assert_string_equal(result.model_sha256, whole);
        } else {
            assert_int_equal(second, OCT_STATUS_NO_MEMORY);
            n_torn++;
        }
        print_message("request %d: %s, then %s\n", (int)n, oct_status_name(first),
                      oct_status_name(second));
        oct_trainer_destroy(trainer);
        if (n > 0 && first == OCT_OK) {
            break;
        }
    }
    assert_true(n_torn > 0);
}

/* Patterns that a linear model cannot separate: far above the third that guessing gets. */
static void it_learns(void **state) {
    (void)state;
    struct oct_result result;
    struct oct_trainer *trainer =
        create(configure("data", "synthetic:samples=600,size=12,classes=3,noise=0", "model",
                         "resnet20:width=8,blocks=1", "epochs", "8", "batch", "16", "lr", "0.02",
                         "norm", "evonorm-s0", "augment", "none", NULL),
               NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("accuracy %.1f %% of 150 unseen samples, loss %.3f, training loss %.3f\n",
                  result.accuracy, result.loss, result.train_loss);
    assert_true(result.accuracy >= 85);
    oct_trainer_destroy(trainer);
}

/* A batch larger than the dataset is filled from the next permutation. */
static void batch_larger_than_the_data(void **state) {
    (void)state;
    struct oct_trainer *trainer = create(configure("batch", "64", NULL), NULL);
    assert_int_equal(trainer->epoch_steps, 1);
    EXPECT_OK(oct_trainer_run(trainer));
    assert_int_equal(trainer->step, 2);
    oct_trainer_destroy(trainer);
}

static void fewer_samples(void **state) {
    (void)state;
    struct oct_trainer *trainer = create(configure("samples", "17", "batch", "5", NULL), NULL);
    assert_int_equal(trainer->n_rows, 17);
    assert_int_equal(trainer->epoch_steps, 4);
    assert_int_equal(oct_partition_size(trainer->partition, 0), 17);
    const uint32_t *rows = oct_partition_rows(trainer->partition, 0);
    for (uint32_t i = 1; i < 17; i++) {
        assert_true(rows[i] > rows[i - 1] && rows[i] < 50);
    }
    EXPECT_OK(oct_trainer_run(trainer));
    oct_trainer_destroy(trainer);
}

/* --- saving ---------------------------------------------------------------------------------- */

/* What the sum is of: the first numbers of the file, as they lie there. Statistics follow. */
static void expect_sum_of_file(const char *path, const struct oct_result *result, size_t n_stats) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = (size_t)result->n_parameters + n_stats;
    uint8_t length[8], *data = malloc(4 * n);
    char sum[OCT_SHA256_TEXT];
    assert_non_null(data);
    assert_int_equal(fread(length, 1, 8, file), 8);
    assert_int_equal(fseek(file, (long)(length[0] | length[1] << 8), SEEK_CUR), 0);
    assert_int_equal(fread(data, 4, n, file), n);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    scratch_sha256(data, 4 * (size_t)result->n_parameters, sum);
    free(data);
    print_message("sum of the file's numbers %.16s…, of the result %.16s…\n", sum,
                  result->model_sha256);
    assert_string_equal(sum, result->model_sha256);
}

/* A model that is loaded is the model that was saved, running statistics included; momentum starts
 * anew. */
static void save_and_load(void **state) {
    (void)state;
    for (int i = 0; oct__norm_at(i); i++) {
        const char *norm = oct__norm_at(i)->plugin.name;
        char folder[SCRATCH_PATH];
        assert_non_null(scratch_make(folder));
        const char *path = scratch_at(folder, "model.safetensors");
        struct oct_result saved, other, loaded;
        struct oct_trainer *trainer = create(configure("norm", norm, NULL), NULL);
        EXPECT_OK(oct_trainer_run(trainer));
        EXPECT_OK(oct_trainer_result(trainer, &saved));
        EXPECT_OK(oct_trainer_save(trainer, path));
        expect_sum_of_file(path, &saved, oct__row_count(&trainer->graph.stats));
        oct_trainer_destroy(trainer);

        trainer = create(configure("seed", "9", "norm", norm, NULL), NULL);
        EXPECT_OK(oct__trainer_step(trainer));
        EXPECT_OK(oct_trainer_result(trainer, &other));
        assert_string_not_equal(other.model_sha256, saved.model_sha256);
        EXPECT_OK(oct_trainer_load(trainer, path));
        EXPECT_OK(oct_trainer_result(trainer, &loaded));
        print_message("%s: accuracy %.1f %% saved, %.1f %% loaded; loss %.6f and %.6f\n", norm,
                      saved.accuracy, loaded.accuracy, saved.loss, loaded.loss);
        assert_string_equal(loaded.model_sha256, saved.model_sha256);
        assert_true(loaded.accuracy == saved.accuracy && loaded.loss == saved.loss);
        const size_t n = trainer->graph.params.n_elements;
        float *momentum = calloc(n, sizeof *momentum);
        assert_non_null(momentum);
        EXPECT_OK(trainer->engine->read(trainer->engine, momentum,
                                        trainer->cohort->state[OCT_HOME_MOMENTUM],
                                        n * sizeof *momentum));
        for (size_t k = 0; k < n; k++) {
            assert_true(momentum[k] == 0.0F);
        }
        free(momentum);
        oct_trainer_destroy(trainer);
        scratch_remove(folder);
    }
}

/* What a progress callback may and may not ask for. */
struct visitor {
    struct oct_trainer *trainer;
    char path[SCRATCH_PATH + 32];
    int n_visits;
};

static int visit(const struct oct_progress *p, void *context) {
    struct visitor *visitor = context;
    struct oct_result result;
    if (visitor->n_visits++ == 0) {
        assert_true(isnan(p->test_loss) && isnan(p->test_accuracy) && isnan(p->consensus_distance));
    }
    EXPECT_FAILURE(oct_trainer_run(visitor->trainer), OCT_STATUS_INVALID, "not from a progress");
    EXPECT_FAILURE(oct_trainers_run(&visitor->trainer, 1, NULL), OCT_STATUS_INVALID,
                   "not from a progress");
    EXPECT_FAILURE(oct_trainer_result(visitor->trainer, &result), OCT_STATUS_INVALID,
                   "not from a progress");
    EXPECT_FAILURE(oct_trainer_load(visitor->trainer, visitor->path), OCT_STATUS_INVALID,
                   "not from a progress");
    if (p->phase == OCT_PHASE_EPOCH_END) {
        EXPECT_OK(oct_trainer_save(visitor->trainer, visitor->path));
    }
    return 0;
}

static void a_callback_looks_on(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    struct visitor visitor = {.n_visits = 0};
    const struct oct_hooks hooks = {.progress = visit, .progress_context = &visitor};
    struct oct_result alone, visited;
    assert_non_null(scratch_make(folder));
    snprintf(visitor.path, sizeof visitor.path, "%s", scratch_at(folder, "model"));
    struct oct_trainer *trainer = create(configure("nodes", "2", NULL), NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &alone));
    oct_trainer_destroy(trainer);
    visitor.trainer = create(configure("nodes", "2", NULL), &hooks);
    EXPECT_OK(oct_trainer_run(visitor.trainer));
    EXPECT_OK(oct_trainer_result(visitor.trainer, &visited));
    assert_string_equal(visited.model_sha256, alone.model_sha256);
    assert_true(visited.loss == alone.loss && visited.accuracy_nodes == alone.accuracy_nodes);
    EXPECT_OK(oct_trainer_load(visitor.trainer, visitor.path)); /* the last epoch's */
    EXPECT_OK(oct_trainer_result(visitor.trainer, &visited));
    assert_string_equal(visited.model_sha256, alone.model_sha256);
    oct_trainer_destroy(visitor.trainer);
    scratch_remove(folder);
}

/* A checkpoint that could not be written is still owed. */
static void the_last_checkpoint_is_owed(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], kept[SCRATCH_PATH + 32];
    struct oct_config *config;
    assert_non_null(scratch_make(folder));
    snprintf(kept, sizeof kept, "%s", scratch_at(folder, "kept"));
    struct oct_trainer *trainer = create(configure("checkpoint", kept, "every", "100", NULL), NULL);
    scratch_remove(kept);
    assert_int_equal(scratch_write(kept, "in the way", 10), 0);
    EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_IO, "kept");
    EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_IO, "kept");
    assert_int_equal(unlink(kept), 0);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_resume(config, kept));
    oct_config_destroy(config);
    oct_trainer_destroy(trainer);
    scratch_remove(folder);
}

static float *row_of(struct oct_trainer *trainer, int home) {
    const size_t bytes = trainer->cohort->stride[home];
    float *row = malloc(bytes);
    assert_non_null(row);
    EXPECT_OK(trainer->engine->read(trainer->engine, row, trainer->cohort->state[home], bytes));
    return row;
}

/* After every third step a node goes on from where it was three steps before, by 0.7 of the way it has
 * come and what momentum adds; where it comes to is where the next three steps are counted from. */
static void slow_momentum(void **state) {
    (void)state;
    struct oct_trainer *plain =
        create(configure("momentum", "local", "gossip-every", "3", "lr", "0.05", NULL), NULL);
    struct oct_trainer *slow = create(configure("momentum", "local", "gossip-every", "3", "lr",
                                                "0.05", "slow-momentum", "0.5", NULL),
                                      NULL);
    const size_t n = plain->graph.params.n_elements;
    float *begin = row_of(slow, OCT_HOME_ANCHOR), *first = row_of(plain, OCT_HOME_PARAM);
    assert_memory_equal(begin, first, n * sizeof *begin); /* the model they begin with */
    free(first);
    for (int step = 0; step < 3; step++) {
        EXPECT_OK(oct__trainer_step(plain));
        EXPECT_OK(oct__trainer_step(slow));
    }
    float *usual = row_of(plain, OCT_HOME_PARAM), *far = row_of(slow, OCT_HOME_PARAM);
    double worst = 0.0, longest = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double way = (double)usual[i] - (double)begin[i];
        worst = fmax(worst, fabs((double)far[i] - (double)begin[i] - 0.7 * 1.5 * way));
        longest = fmax(longest, fabs(way));
    }
    print_message("%g off a way of %g\n", worst, longest);
    assert_true(longest > 1e-3 && worst < 1e-6);
    float *anchor = row_of(slow, OCT_HOME_ANCHOR);
    assert_memory_equal(anchor, far, n * sizeof *anchor);
    EXPECT_OK(oct__trainer_step(slow));
    float *next = row_of(slow, OCT_HOME_ANCHOR);
    assert_memory_equal(anchor, next, n * sizeof *anchor);

    char folder[SCRATCH_PATH];
    assert_non_null(scratch_make(folder));
    const char *path = scratch_at(folder, "model.safetensors");
    EXPECT_OK(oct_trainer_save(plain, path));
    EXPECT_OK(oct_trainer_load(slow, path)); /* which begins anew */
    float *loaded = row_of(slow, OCT_HOME_ANCHOR), *momentum = row_of(slow, OCT_HOME_SLOW);
    assert_memory_equal(loaded, usual, n * sizeof *loaded);
    for (size_t i = 0; i < n; i++) {
        assert_true(momentum[i] == 0.0F);
    }
    scratch_remove(folder);
    free(begin);
    free(usual);
    free(far);
    free(anchor);
    free(next);
    free(loaded);
    free(momentum);
    oct_trainer_destroy(plain);
    oct_trainer_destroy(slow);
}

/* Ways that begin in the warm-up, 7 steps of 140 here, are not followed: those of rounds 1 to 3. */
static void slow_momentum_and_the_rate(void **state) {
    (void)state;
    struct oct_trainer *plain =
        create(configure("momentum", "local", "gossip-every", "3", "epochs", "20", NULL), NULL);
    struct oct_trainer *slow = create(configure("momentum", "local", "gossip-every", "3", "epochs",
                                                "20", "slow-momentum", "0.5", NULL),
                                      NULL);
    const size_t bytes = plain->graph.params.n_elements * sizeof(float);
    assert_int_equal(plain->epoch_steps, 7);
    for (int step = 1; step <= 12; step++) {
        EXPECT_OK(oct__trainer_step(plain));
        EXPECT_OK(oct__trainer_step(slow));
        float *usual = row_of(plain, OCT_HOME_PARAM), *far = row_of(slow, OCT_HOME_PARAM);
        assert_int_equal(memcmp(usual, far, bytes) != 0, step >= 12);
        free(usual);
        free(far);
    }
    /* The rate falls to a tenth with step 70, on the way from step 69 to 71: that is not followed. */
    while (slow->step < 69) {
        EXPECT_OK(oct__trainer_step(slow));
    }
    for (int round = 0; round < 2; round++) {
        float *before = row_of(slow, OCT_HOME_SLOW);
        for (int step = 0; step < 3; step++) {
            EXPECT_OK(oct__trainer_step(slow));
        }
        float *after = row_of(slow, OCT_HOME_SLOW);
        assert_int_equal(memcmp(before, after, bytes) != 0, round);
        free(before);
        free(after);
    }
    oct_trainer_destroy(plain);
    oct_trainer_destroy(slow);
}

/* The average of several nodes is what is saved, and every node gets what is loaded. */
static void several_nodes(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    assert_non_null(scratch_make(folder));
    const char *path = scratch_at(folder, "average");
    struct oct_config *config = configure("nodes", "3", NULL);
    struct oct_trainer *trainer = NULL;
    struct oct_result before, after;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    oct_config_destroy(config);
    assert_int_equal(trainer->epoch_steps, 3); /* ceil(50 / (3 * 8)) */
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &before));
    EXPECT_OK(oct_trainer_save(trainer, path));
    EXPECT_OK(oct_trainer_load(trainer, path));
    EXPECT_OK(oct_trainer_result(trainer, &after));
    print_message("distance %.3e, then %.3e; accuracy of the nodes %.2f, then %.2f %%\n",
                  before.consensus_distance, after.consensus_distance, before.accuracy_nodes,
                  after.accuracy_nodes);
    assert_true(before.consensus_distance > 0);
    assert_true(after.consensus_distance == 0);
    assert_string_equal(before.model_sha256, after.model_sha256);
    assert_true(before.accuracy == after.accuracy && before.loss == after.loss);
    assert_true(after.accuracy_nodes == after.accuracy);
    assert_int_equal(before.state_bytes,
                     3 * 4 *
                         (2 * trainer->graph.params.n_elements + trainer->graph.stats.n_elements));
    oct_trainer_destroy(trainer);
    scratch_remove(folder);
}

/* --- one's own data and model ---------------------------------------------------------------- */

struct own_data {
    int height, width, channels, n_classes, n_samples;
};

static int get_sample(void *context, int64_t index, uint8_t *image, int *label) {
    const struct own_data *own = context;
    *label = (int)(index % own->n_classes);
    for (int i = 0; i < own->height * own->width * own->channels; i++) {
        image[i] = (uint8_t)(*label * 50 + i % 7 + index % 5);
    }
    return 0;
}

static struct oct_dataset *own_dataset(const struct own_data *own) {
    struct oct_dataset *dataset = NULL;
    const struct oct_dataset_custom custom = {
        .name = "own",
        .n_samples = own->n_samples,
        .height = own->height,
        .width = own->width,
        .channels = own->channels,
        .n_classes = own->n_classes,
        .get = get_sample,
        .context = (void *)(uintptr_t)own,
    };
    EXPECT_OK(oct_dataset_create(&custom, &dataset));
    return dataset;
}

static oct_status own_model(struct oct_graph *g, void *context) {
    const int *channels = context;
    int x = oct_graph_input(g);
    x = oct_graph_conv(g, "only", x,
                       (struct oct_conv){.channels = *channels, .kernel = 3, .pad = 1});
    x = oct_graph_activation(g, "act", oct_graph_norm(g, "norm", x));
    x = oct_graph_global_pool(g, "pool", x);
    oct_graph_output(g, oct_graph_linear(g, "head", x, oct_graph_classes(g)));
    return OCT_OK;
}

static oct_status wrong_model(struct oct_graph *g, void *context) {
    (void)context;
    int x = oct_graph_conv(g, "much-too-wide", oct_graph_input(g),
                           (struct oct_conv){.channels = 4, .kernel = 99});
    oct_graph_output(g, oct_graph_relu(g, "later", x));
    return OCT_OK;
}

static oct_status unhappy_model(struct oct_graph *g, void *context) {
    (void)g;
    (void)context;
    return OCT_STATUS_UNSUPPORTED;
}

static void own_data_and_model(void **state) {
    (void)state;
    static const struct own_data big = {7, 5, 2, 3, 33}, small = {7, 5, 2, 3, 6};
    struct oct_dataset *train = own_dataset(&big), *test = own_dataset(&small);
    int channels = 6;
    const struct oct_hooks hooks = {
        .model = own_model, .model_context = &channels, .train = train, .test = test};
    struct oct_result result;
    struct oct_trainer *trainer =
        create(configure("epochs", "6", "lr", "0.05", "augment", "none", NULL), &hooks);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("%lld parameters, accuracy %.1f %%\n", (long long)result.n_parameters,
                  result.accuracy);
    assert_int_equal(result.n_parameters, 6 * 2 * 9 + 2 * 6 + 6 * 3 + 3);
    assert_true(result.accuracy > 60); /* brightness tells the classes apart */
    oct_trainer_destroy(trainer);
    oct_dataset_close(train);
    oct_dataset_close(test);
}

static void what_does_not_fit(void **state) {
    (void)state;
    static const struct own_data data[] = {
        {7, 5, 2, 3, 12}, {7, 6, 2, 3, 12}, {7, 5, 1, 3, 12}, {7, 5, 2, 4, 12}};
    struct oct_dataset *sets[OCT_COUNT_OF(data)];
    for (size_t i = 0; i < OCT_COUNT_OF(data); i++) {
        sets[i] = own_dataset(&data[i]);
    }
    struct oct_hooks hooks = {.train = sets[0]};
    expect_refused(configure(NULL), &hooks, OCT_STATUS_INVALID, "both");
    hooks = (struct oct_hooks){.test = sets[0]};
    expect_refused(configure(NULL), &hooks, OCT_STATUS_INVALID, "both");
    hooks = (struct oct_hooks){.train = sets[0], .test = sets[1]};
    expect_refused(configure(NULL), &hooks, OCT_STATUS_SHAPE, "7x5x2 and test images 7x6x2");
    hooks.test = sets[2];
    expect_refused(configure(NULL), &hooks, OCT_STATUS_SHAPE, "7x5x2 and test images 7x5x1");
    hooks.test = sets[3];
    expect_refused(configure(NULL), &hooks, OCT_STATUS_SHAPE,
                   "the training set has 3 classes and the test set 4");
    hooks = (struct oct_hooks){.model = wrong_model};
    expect_refused(configure(NULL), &hooks, OCT_STATUS_SHAPE,
                   "much-too-wide: kernel 99 does not fit an input of 8x8");
    hooks = (struct oct_hooks){.model = unhappy_model};
    expect_refused(configure(NULL), &hooks, OCT_STATUS_UNSUPPORTED, "UNSUPPORTED");
    for (size_t i = 0; i < OCT_COUNT_OF(data); i++) {
        oct_dataset_close(sets[i]);
    }
}

static void impossible_runs(void **state) {
    (void)state;
    expect_refused(configure("samples", "51", NULL), NULL, OCT_STATUS_INVALID,
                   "samples: 51, but the training set has 50");
    expect_refused(configure("data", "synthetic:size=3", NULL), NULL, OCT_STATUS_INVALID, "size");
    expect_refused(configure("model", "resnet20:width=0", NULL), NULL, OCT_STATUS_INVALID, "width");
    expect_refused(configure("data", "synthetic:samples=5000,size=4", "batch", "1", "epochs",
                             "1000000", "model", "resnet20:width=1,blocks=1", NULL),
                   NULL, OCT_STATUS_INVALID, "1000000 epochs of 5000 steps");
    struct oct_config *config = configure("samples", "2", "nodes", "3", NULL);
    struct oct_trainer *trainer = NULL;
    EXPECT_FAILURE(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_INVALID,
                   "nodes: 3, and only 2 samples");
    assert_null(trainer);
    oct_config_destroy(config);
}

/* Arguments that are not there are refused, not followed. */
static void missing_arguments(void **state) {
    (void)state;
    struct oct_config *config = configure(NULL);
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_FAILURE(oct_trainer_create(NULL, NULL, &trainer), OCT_STATUS_INVALID, "configuration");
    EXPECT_FAILURE(oct_trainer_create(config, NULL, NULL), OCT_STATUS_INVALID, "place");
    EXPECT_FAILURE(oct_trainer_run(NULL), OCT_STATUS_INVALID, "trainer");
    EXPECT_FAILURE(oct_trainer_result(NULL, &result), OCT_STATUS_INVALID, "trainer");
    EXPECT_FAILURE(oct_trainer_save(NULL, "file"), OCT_STATUS_INVALID, "trainer");
    EXPECT_FAILURE(oct_trainer_load(NULL, "file"), OCT_STATUS_INVALID, "trainer");
    trainer = create(config, NULL);
    EXPECT_FAILURE(oct_trainer_result(trainer, NULL), OCT_STATUS_INVALID, "place");
    EXPECT_FAILURE(oct_trainer_save(trainer, NULL), OCT_STATUS_INVALID, "file");
    EXPECT_FAILURE(oct_trainer_load(trainer, NULL), OCT_STATUS_INVALID, "file");
    oct_trainer_destroy(trainer);
    oct_trainer_destroy(NULL);
}

/* --- nodes that talk --------------------------------------------------------------------------- */

/* Rounds of sc-sparse-push that are dense when nobody says how many: from the spectral gap. */
static void compensation(void **state) {
    (void)state;
    static const struct {
        const char *nodes, *topology, *hold;
        int64_t expected; /* ceil(ln 100 / -ln cos(pi / n)), or all rounds before it repeats */
    } cases[] = {
        {"8", "directed-ring", "1", 59},
        {"4", "directed-ring", "7", 14},
        {"8", "complete", "1", 1},
        {"8", "one-peer-exponential", "1", 3},
        {"8", "one-peer-exponential", "5", 15},
        {"8", "one-peer-exponential", "1000000000", 3000000000},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config =
            configure("nodes", cases[i].nodes, "topology", cases[i].topology, "graph-hold",
                      cases[i].hold, "algorithm", "sc-sparse-push", NULL);
        struct oct_trainer *trainer = NULL;
        oct_status status = oct_trainer_create(config, NULL, &trainer);
        oct_config_destroy(config);
        if (status == OCT_STATUS_UNSUPPORTED) {
            print_message("%s\n", oct_last_error()); /* no LAPACK */
            assert_non_null(strstr(oct_last_error(), "compensation-rounds: give a number"));
            skip();
        }
        EXPECT_OK(status);
        print_message("%s of %s, hold %s: %lld rounds\n", cases[i].topology, cases[i].nodes,
                      cases[i].hold, (long long)trainer->compensation);
        assert_int_equal(trainer->compensation, cases[i].expected);
        oct_trainer_destroy(trainer);
    }
    char folder[SCRATCH_PATH], spec[SCRATCH_PATH + 8];
    assert_non_null(scratch_make(folder));
    FILE *file = fopen(scratch_at(folder, "swap"), "w"); /* two nodes that only change places */
    assert_non_null(file);
    fputs("0 1 1\n1 0 1\n", file);
    fclose(file);
    snprintf(spec, sizeof spec, "file:%s", scratch_at(folder, "swap"));
    expect_refused(configure("nodes", "2", "topology", spec, "algorithm", "sc-sparse-push", NULL),
                   NULL, OCT_STATUS_INVALID, "never agree");
    expect_refused(configure("nodes", "2", "algorithm", "choco", "compensation-rounds", "3", NULL),
                   NULL, OCT_STATUS_INVALID, "sc-sparse-push");
    scratch_remove(folder);
}

/* A benchmark steps on after the last step of the run, compressed as before. */
static void beyond_the_end(void **state) {
    (void)state;
    struct oct_trainer *trainer =
        create(configure("nodes", "4", "algorithm", "choco", "epochs", "1", NULL), NULL);
    const int64_t n_steps = trainer->epoch_steps;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < n_steps + 3; i++) {
        const uint64_t before = trainer->exchange->traffic.bytes;
        EXPECT_OK(oct__trainer_step(trainer));
        const uint64_t sent = trainer->exchange->traffic.bytes - before;
        assert_true(i == 0 || sent == bytes);
        bytes = sent;
    }
    print_message("%lld steps and 3 more, %llu bytes each\n", (long long)n_steps,
                  (unsigned long long)bytes);
    oct_trainer_destroy(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_from_end_to_end),
        cmocka_unit_test(a_stop_is_a_pause),
        cmocka_unit_test(no_epochs),
        cmocka_unit_test(a_failure_in_a_step),
        cmocka_unit_test(it_learns),
        cmocka_unit_test(batch_larger_than_the_data),
        cmocka_unit_test(fewer_samples),
        cmocka_unit_test(save_and_load),
        cmocka_unit_test(a_callback_looks_on),
        cmocka_unit_test(the_last_checkpoint_is_owed),
        cmocka_unit_test(slow_momentum),
        cmocka_unit_test(slow_momentum_and_the_rate),
        cmocka_unit_test(several_nodes),
        cmocka_unit_test(own_data_and_model),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(impossible_runs),
        cmocka_unit_test(missing_arguments),
        cmocka_unit_test(compensation),
        cmocka_unit_test(beyond_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
