/* SPDX-License-Identifier: Apache-2.0 */
/* test_trained.c - src/train/trained.c: a model file put to use gives what its run gave, whatever is
 * beside an image, and files that are none, or do not say what they are, are refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/solo.h"
#include "train/safetensors.h"
#include "train/trainer.h"

#define DATA "synthetic:samples=64,size=8,classes=3"

static struct folder folder;

static struct oct_trainer *trained(const char *precision, const char *norm,
                                   const struct oct_hooks *hooks) {
    struct oct_config *config;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 2));
    EXPECT_OK(oct_config_set(config, "precision", precision));
    EXPECT_OK(oct_config_set(config, "norm", norm));
    EXPECT_OK(oct_config_set(config, "data", DATA));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=4,blocks=1"));
    EXPECT_OK(oct_config_set(config, "batch", "8"));
    EXPECT_OK(oct_config_set(config, "epochs", "2"));
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    oct_config_destroy(config);
    return trainer;
}

/* --- the same results ------------------------------------------------------------------------- */

static float *logits_of(struct oct_model *model, const struct oct_dataset *data, int64_t n) {
    struct oct_model_info info;
    EXPECT_OK(oct_model_info(model, &info));
    const size_t bytes = (size_t)info.height * (size_t)info.width * (size_t)info.channels;
    uint8_t *images = malloc((size_t)n * bytes);
    float *logits = calloc((size_t)n * (size_t)info.n_classes, sizeof *logits);
    assert_non_null(images);
    assert_non_null(logits);
    for (int64_t i = 0; i < n; i++) {
        EXPECT_OK(oct_dataset_read(data, i, images + (size_t)i * bytes));
    }
    EXPECT_OK(oct_model_run(model, images, n, logits));
    free(images);
    return logits;
}

/* As a run tests: of the average model, on all samples. */
static void expect_result(const float *logits, const struct oct_dataset *data, int n_classes,
                          const struct oct_result *result, const char *what) {
    double loss = 0;
    int n_right = 0;
    for (int64_t i = 0; i < data->n_samples; i++) {
        const float *own = logits + i * n_classes;
        double sum = 0;
        int best = 0;
        for (int k = 0; k < n_classes; k++) {
            best = own[k] > own[best] ? k : best;
            sum += exp((double)own[k]);
        }
        loss += log(sum) - (double)own[data->labels[i]];
        n_right += best == data->labels[i];
    }
    loss /= (double)data->n_samples;
    print_message("%s: accuracy %.2f and %.2f %%, loss %.6f and %.6f\n", what,
                  100.0 * n_right / (double)data->n_samples, result->accuracy, loss, result->loss);
    assert_true(fabs(100.0 * n_right / (double)data->n_samples - result->accuracy) < 1e-9);
    assert_true(fabs(loss - result->loss) < 1e-5 * fabs(result->loss));
}

/* Of one file: the results of the run, whatever the batch, the threads and the neighbours are. */
static void check_file(const char *path, const struct oct_dataset *data,
                       const struct oct_result *result, const char *what) {
    static const struct oct_model_options ways[] = {{0, 0, NULL}, {1, 1, NULL}, {3, 2, NULL}};
    for (size_t w = 0; w < OCT_COUNT_OF(ways); w++) {
        struct oct_model *model;
        struct oct_model_info info;
        EXPECT_OK(oct_model_open(path, w ? &ways[w] : NULL, &model));
        EXPECT_OK(oct_model_info(model, &info));
        assert_string_equal(info.model, "resnet20:width=4,blocks=1");
        assert_int_equal(info.n_classes, 3);
        assert_int_equal(info.batch, w ? ways[w].batch : 64);
        assert_int_equal(info.n_parameters, result->n_parameters);
        float *logits = logits_of(model, data, data->n_samples);
        expect_result(logits, data, info.n_classes, result, what);
        for (int64_t n = 1; n <= 5; n += 2) {
            float *few = logits_of(model, data, n);
            assert_memory_equal(few, logits, (size_t)n * 3 * sizeof *few);
            free(few);
        }
        free(logits);
        oct_model_close(model);
    }
}

static void every_norm_and_form(void **state) {
    (void)state;
    static const char *const precisions[] = {"fp32", "int8"};
    struct oct_dataset *data;
    EXPECT_OK(oct_dataset_open(DATA, NULL, OCT_SPLIT_TEST, &data));
    for (int i = 0; oct__norm_at(i); i++) {
        for (size_t p = 0; p < OCT_COUNT_OF(precisions); p++) {
            const char *norm = oct__norm_at(i)->plugin.name;
            char what[64];
            struct oct_result result;
            struct oct_trainer *trainer = trained(precisions[p], norm, NULL);
            EXPECT_OK(oct_trainer_result(trainer, &result));
            for (int form = OCT_MODEL_F32; form <= (p ? OCT_MODEL_INT8 : OCT_MODEL_F32); form++) {
                const char *path = folder_file(&folder, "model");
                snprintf(what, sizeof what, "%s, %s, form %d", norm, precisions[p], form);
                EXPECT_OK(oct_trainer_save_as(trainer, path, (enum oct_model_form)form));
                check_file(path, data, &result, what);
            }
            oct_trainer_destroy(trainer);
        }
    }
    oct_dataset_close(data);
}

/* --- what is refused --------------------------------------------------------------------------- */

static oct_status build(struct oct_graph *graph, void *context) {
    (void)context;
    int x = oct_graph_conv(graph, "conv", oct_graph_input(graph),
                           (struct oct_conv){.channels = 4, .kernel = 3});
    x = oct_graph_global_pool(graph, "pool", oct_graph_activation(graph, "act", x));
    oct_graph_output(graph, oct_graph_linear(graph, "head", x, oct_graph_classes(graph)));
    return OCT_OK;
}

static void what_is_no_model(void **state) {
    (void)state;
    struct oct_model *model = NULL;
    struct oct_model_info info;
    struct oct_trainer *trainer = trained("fp32", "batchnorm", NULL);
    const char *path = folder_file(&folder, "model");
    EXPECT_FAILURE(oct_model_open("/nowhere/model", NULL, &model), OCT_STATUS_NOT_FOUND,
                   "/nowhere/model");
    EXPECT_FAILURE(oct_model_open(NULL, NULL, &model), OCT_STATUS_INVALID, "file name");
    EXPECT_FAILURE(oct_model_open(path, NULL, NULL), OCT_STATUS_INVALID, "place");
    float *row = calloc(trainer->graph.params.n_elements, sizeof *row);
    assert_non_null(row);
    EXPECT_OK(oct__safetensors_save(path, &trainer->graph.params, row)); /* which says nothing */
    EXPECT_FAILURE(oct_model_open(path, NULL, &model), OCT_STATUS_UNSUPPORTED,
                   "does not say of what network it is");
    free(row);
    EXPECT_OK(oct_trainer_save(trainer, path));
    EXPECT_FAILURE(oct_model_open(path, &(struct oct_model_options){.batch = -1}, &model),
                   OCT_STATUS_INVALID, "batch is -1");
    EXPECT_FAILURE(oct_model_open(path, &(struct oct_model_options){.n_threads = -1}, &model),
                   OCT_STATUS_INVALID, "-1 threads");
    EXPECT_FAILURE(oct_model_open(path, &(struct oct_model_options){.engine = "steam"}, &model),
                   OCT_STATUS_INVALID, "steam");
    assert_null(model);
    EXPECT_OK(oct_model_open(path, NULL, &model));
    EXPECT_FAILURE(oct_model_info(NULL, &info), OCT_STATUS_INVALID, "a model");
    EXPECT_FAILURE(oct_model_run(model, NULL, 1, NULL), OCT_STATUS_INVALID, "images");
    EXPECT_FAILURE(oct_model_run(NULL, NULL, 0, NULL), OCT_STATUS_INVALID, "images");
    EXPECT_OK(oct_model_run(model, NULL, 0, NULL));
    oct_model_close(model);
    oct_model_close(NULL);
    oct_trainer_destroy(trainer);
    model = NULL;
    const struct oct_hooks hooks = {.model = build};
    trainer = trained("fp32", "batchnorm", &hooks);
    EXPECT_OK(oct_trainer_save(trainer, path));
    EXPECT_FAILURE(oct_model_open(path, NULL, &model), OCT_STATUS_UNSUPPORTED,
                   "does not say of what network it is");
    assert_null(model);
    oct_trainer_destroy(trainer);
}

/* A header of somebody else's: whatever it says, there is a sentence, or a model that works. */
static void headers_that_lie(void **state) {
    (void)state;
    static const char *const lies[][2] = {
        {"\"input\":\"8x8x3\"", "\"input\":\"8x8x9\""},
        {"\"input\":\"8x8x3\"", "\"input\":\"0x8x3\""},
        {"\"input\":\"8x8x3\"", "\"input\":\"8x8\"  "},
        {"\"input\":\"8x8x3\"", "\"input\":\"9x9x1\""},
        {"\"classes\":\"3\"", "\"classes\":\"1\""},
        {"\"classes\":\"3\"", "\"classes\":\"4\""},
        {"\"classes\":\"3\"", "\"classes\":\"x\""},
        {"\"mean\":\"0.5 0.5 0.5\"", "\"mean\":\"0.5 0.5 nan\""},
        {"\"mean\":\"0.5 0.5 0.5\"", "\"mean\":\"0.5 0.5 0.4\""},
        {"\"mean\":\"0.5 0.5 0.5\"", "\"mean\":\"0.5 0.5    \""},
        {"\"model\":\"resnet20:width=4", "\"model\":\"resnet20:width=5"},
        {"\"model\":\"resnet20:width=4", "\"model\":\"resnet99:width=4"},
        {"\"norm\":\"batchnorm\"", "\"norm\":\"groupnorm\""},
        {"\"precision\":\"fp32\"", "\"precision\":\"fp33\""},
        {"\"precision-recipe\":\"octet\"", "\"precision-recipe\":\"paper\""},
    };
    struct oct_trainer *trainer = trained("fp32", "batchnorm", NULL);
    const char *path = folder_file(&folder, "model");
    EXPECT_OK(oct_trainer_save(trainer, path));
    oct_trainer_destroy(trainer);
    size_t n;
    uint8_t *bytes = file_read(path, &n), *other = malloc(n);
    assert_non_null(other);
    for (size_t i = 0; i < OCT_COUNT_OF(lies); i++) {
        struct oct_model *model = NULL;
        const size_t length = strlen(lies[i][0]);
        size_t at = 8;
        assert_int_equal(length, strlen(lies[i][1]));
        memcpy(other, bytes, n);
        while (at < 2000 && memcmp(other + at, lies[i][0], length) != 0) {
            at++;
        }
        assert_true(at < 2000); /* it is what files say */
        memcpy(other + at, lies[i][1], length);
        file_write(path, other, n);
        oct_status status = oct_model_open(path, NULL, &model);
        print_message("%s: %s: %s\n", lies[i][1], oct_status_name(status), oct_last_error());
        assert_int_not_equal(status, OCT_OK);
        assert_non_null(strstr(oct_last_error(), "model"));
        assert_null(model);
    }
    free(bytes);
    free(other);
}

static void failing_memory(void **state) {
    (void)state;
    struct oct_trainer *trainer = trained("int8", "range-evonorm", NULL);
    const char *path = folder_file(&folder, "model");
    EXPECT_OK(oct_trainer_save_as(trainer, path, OCT_MODEL_INT8));
    oct_trainer_destroy(trainer);
    for (uint64_t n = 1;; n++) {
        struct oct_model *model = NULL;
        const struct oct_model_options options = {.batch = 2, .n_threads = 1, .engine = "portable"};
        oct__alloc_fail_after(n);
        oct_status status = oct_model_open(path, &options, &model);
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            oct_model_close(model);
            print_message("opened after %d failures\n", (int)n - 1);
            assert_true(n > 30);
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_null(model);
    }
}

static int set_up(void **state) {
    (void)state;
    folder_open(&folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    folder_close(&folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_norm_and_form),
        cmocka_unit_test(what_is_no_model),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
