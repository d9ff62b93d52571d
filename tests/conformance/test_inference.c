/* SPDX-License-Identifier: Apache-2.0 */
/* test_inference.c - weights that were quantized and packed once give the logits that they give when
 * it is done anew for every batch, to the bit: every engine, precision, norm and model, one thread or
 * two, before and after parameters change. So do weights that went through a file of bytes. */
#include <stdlib.h>

#include <octet/cpu.h>
#include <octet/octet.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/narrow.h"
#include "support/rig.h"
#include "support/solo.h"
#include "train/inference.h"
#include "train/trainer.h"

enum { BATCH = 19, CLASSES = 4, N_LOGITS = BATCH * CLASSES };

/* Of the networks that `train` makes in 8 bits, and how many nodes learn together. */
static const char *recipe = "octet";
static int n_nodes = 1;

/* Sums of its last stage are long enough to pass 2^24, and its input's channels are padded. */
#define PLAIN "resnet20:width=16,blocks=1"

static struct oct_trainer *train(const char *model, const char *engine, const char *precision,
                                 const char *norm, int n_threads) {
    char threads[16];
    snprintf(threads, sizeof threads, "%d", n_threads);
    /* MobileNetV2 makes maps eight times smaller: of 8x8 images a range norm would see single values,
       whose spread is 0. */
    const char *data = strncmp(model, "mobilenet", 9) == 0
                           ? "synthetic:samples=64,size=16,classes=4"
                           : "synthetic:samples=64,size=8,classes=4";
    const char *const pairs[][2] = {{"model", model},   {"data", data},           {"batch", "8"},
                                    {"engine", engine}, {"precision", precision}, {"norm", norm},
                                    {"lr", "0.05"},     {"threads", threads}};
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, n_nodes));
    if (strcmp(precision, "fp32") != 0) {
        EXPECT_OK(oct_config_set(config, "precision-recipe", recipe));
    }
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(oct__trainer_step(trainer));
    }
    oct_config_destroy(config);
    return trainer;
}

static struct oct__inference *infer(struct oct_trainer *trainer, int batch) {
    const struct oct__inference_config config = {
        .engine = trainer->engine,
        .graph = &trainer->graph,
        .data = &trainer->cohort->crew->train,
        .batch = batch,
        .n_threads = trainer->n_threads,
    };
    struct oct__inference *inference = NULL;
    EXPECT_OK(oct__inference_create(&config, &inference));
    return inference;
}

static void set(struct oct__inference *inference, struct oct_trainer *trainer) {
    EXPECT_OK(oct__inference_set(inference, trainer->cohort->state[OCT_HOME_PARAM],
                                 trainer->cohort->state[OCT_HOME_STAT]));
}

static void fill_rows(uint32_t rows[BATCH]) {
    for (int i = 0; i < BATCH; i++) {
        rows[i] = (uint32_t)(i * 7 % 64);
    }
}

/* What the ordinary program says, chunk by chunk. */
static void evaluate(struct oct_trainer *trainer, int chunk, float logits[N_LOGITS]) {
    const struct oct_dataset *data = trainer->train;
    const struct rig_form form = {
        .mode = OCT_MODE_EVAL, .batch = chunk, .n_nodes = 1, .n_threads = 1, .shard = OCT_SHARD};
    struct oct__cohort *cohort = trainer->cohort;
    float lut[RIG_LUT], *chunk_logits = calloc((size_t)chunk * CLASSES, sizeof *chunk_logits);
    struct oct__pick *picks = calloc((size_t)chunk, sizeof *picks);
    uint32_t rows[BATCH];
    struct rig rig;
    assert_non_null(chunk_logits);
    assert_non_null(picks);
    fill_rows(rows);
    oct__dataset_lut(data, lut);
    rig_open(&rig, trainer->engine, &trainer->graph, &form, data->images, (int)data->n_samples,
             lut);
    rig_write_row(&rig, OCT_HOME_PARAM, 0, cohort->state[OCT_HOME_PARAM]);
    rig_write_row(&rig, OCT_HOME_STAT, 0, cohort->state[OCT_HOME_STAT]);
    for (int first = 0; first < BATCH; first += chunk) {
        const int n = BATCH - first < chunk ? BATCH - first : chunk;
        for (int i = 0; i < chunk; i++) {
            picks[i] = (struct oct__pick){.row = (int32_t)rows[first + (i < n ? i : 0)]};
        }
        rig_write_picks(&rig, 0, picks);
        rig_forward(&rig);
        rig_read(&rig, rig.program->logits, 0, chunk_logits);
        memcpy(logits + first * CLASSES, chunk_logits, (size_t)n * CLASSES * sizeof *chunk_logits);
    }
    rig_close(&rig);
    free(chunk_logits);
    free(picks);
}

static void expect_same(const char *what, const float *found, const float *expected) {
    for (int i = 0; i < N_LOGITS; i++) {
        if (memcmp(&found[i], &expected[i], sizeof *found) != 0) {
            fail_msg("%s: logit %d of sample %d is %.9g, expected %.9g", what, i % CLASSES,
                     i / CLASSES, (double)found[i], (double)expected[i]);
        }
    }
}

/* Every parameter half as large again and a little off. */
static void change_parameters(struct oct_trainer *trainer) {
    const size_t n = trainer->graph.params.n_elements;
    float *row = calloc(n, sizeof *row);
    assert_non_null(row);
    struct oct__engine *engine = trainer->engine;
    EXPECT_OK(engine->read(engine, row, trainer->cohort->state[OCT_HOME_PARAM], n * sizeof *row));
    for (size_t i = 0; i < trainer->graph.params.n_items; i++) {
        const struct oct__param *p = &trainer->graph.params.items[i];
        for (size_t j = p->offset; j < p->offset + p->count; j++) {
            row[j] = 1.5F * row[j] + 0.01F * (float)(j % 7);
        }
    }
    EXPECT_OK(oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, row));
    free(row);
}

static void check(const char *model, const char *engine, const char *precision, const char *norm) {
    float first[N_LOGITS];
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        struct oct_trainer *trainer = train(model, engine, precision, norm, n_threads);
        struct oct__inference *inference = infer(trainer, BATCH);
        float expected[N_LOGITS], found[N_LOGITS], later[N_LOGITS];
        uint32_t rows[BATCH];
        char what[160];
        snprintf(what, sizeof what, "%s, %s, %s, %s, %d threads", model, engine, precision, norm,
                 n_threads);
        fill_rows(rows);
        set(inference, trainer);
        for (int again = 0; again < 2; again++) { /* a batch leaves nothing behind */
            EXPECT_OK(oct__inference_run(inference, rows, found));
            evaluate(trainer, inference->program->batch, expected);
            expect_same(what, found, expected);
        }
        if (n_threads == 1) {
            memcpy(first, found, sizeof first);
        }
        expect_same(what, found, first);

        change_parameters(trainer);
        EXPECT_OK(oct__inference_run(inference, rows, later));
        if (strcmp(precision, "fp32") != 0) { /* all that is read has been kept */
            expect_same(what, later, found);
        }
        set(inference, trainer);
        EXPECT_OK(oct__inference_run(inference, rows, later));
        evaluate(trainer, inference->program->batch, expected);
        expect_same(what, later, expected);
        assert_true(memcmp(later, found, sizeof later) != 0);
        print_message(
            "%s: first logit %.7g, then %.7g; %llu bytes of weights, %zu calls run once\n", what,
            (double)found[0], (double)later[0], (unsigned long long)inference->weight_bytes,
            inference->program->n_once);
        oct__inference_destroy(inference);
        oct_trainer_destroy(trainer);
    }
}

static void kept_weights_change_nothing(void **state) {
    (void)state;
    static const char *const ways[][2] = {
        {"cpu", "fp32"}, {"cpu", "int8"}, {"portable", "fp32"}, {"portable", "int8"}};
    for (size_t i = 0; i < OCT_COUNT_OF(ways); i++) {
        for (int norm = 0; oct__norm_at(norm); norm++) {
            check(PLAIN, ways[i][0], ways[i][1], oct__norm_at(norm)->plugin.name);
        }
    }
    check(PLAIN, "cpu", "int8-sim", "range-evonorm");
}

static void every_model(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        const char *model = narrow_model(oct__model_at(i)->plugin.name);
        check(model, "cpu", "fp32", "batchnorm");
        check(model, "cpu", "int8", "range-evonorm");
        check(model, "portable", "int8", "range-batchnorm");
    }
}

/* Batches of one, of whole chunks, and of one sample too many for them. */
static void batches_of_every_size(void **state) {
    (void)state;
    static const int batches[] = {1, 7, 8, 9, 16, 17, 64, 65};
    struct oct_trainer *trainer = train(PLAIN, "cpu", "int8", "range-evonorm", 2);
    uint32_t rows[65];
    float logits[65 * CLASSES], alone[65 * CLASSES];
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        rows[i] = (uint32_t)((i * 5 + 3) % 64);
    }
    struct oct__inference *one = infer(trainer, 1);
    set(one, trainer);
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        EXPECT_OK(oct__inference_run(one, &rows[i], &alone[i * CLASSES]));
    }
    for (size_t i = 0; i < OCT_COUNT_OF(batches); i++) {
        struct oct__inference *inference = infer(trainer, batches[i]);
        memset(logits, 0, sizeof logits);
        set(inference, trainer);
        EXPECT_OK(oct__inference_run(inference, rows, logits));
        print_message("batch %d: %d chunks of %d on %d lanes; last logit %.7g, alone %.7g\n",
                      batches[i], inference->n_chunks, inference->program->batch,
                      inference->n_lanes, (double)logits[batches[i] * CLASSES - 1],
                      (double)alone[batches[i] * CLASSES - 1]);
        assert_true(inference->program->batch <= OCT_INFERENCE_CHUNK);
        assert_memory_equal(logits, alone, (size_t)batches[i] * CLASSES * sizeof *logits);
        oct__inference_destroy(inference);
    }
    oct__inference_destroy(one);
    const struct oct__inference_config none = {.batch = 0, .n_threads = 1};
    struct oct__inference *refused = NULL;
    EXPECT_FAILURE(oct__inference_create(&none, &refused), OCT_STATUS_INVALID, "batch 0");
    oct_trainer_destroy(trainer);
}

/* Bytes take a quarter of the room, and a program that keeps nothing pays nothing. */
static void bytes_are_smaller(void **state) {
    (void)state;
    struct oct_trainer *floats = train(PLAIN, "cpu", "fp32", "evonorm-s0", 1);
    struct oct_trainer *bytes = train(PLAIN, "cpu", "int8", "range-evonorm", 1);
    struct oct__inference *a = infer(floats, 1), *b = infer(bytes, 1);
    const double ratio = (double)a->weight_bytes / (double)b->weight_bytes;
    print_message("weights: %llu bytes as floats, %llu in int8: 1/%.2f\n",
                  (unsigned long long)a->weight_bytes, (unsigned long long)b->weight_bytes, ratio);
    const size_t params = oct__row_count(&floats->graph.params) * sizeof(float);
    assert_true(a->weight_bytes >= params);
    assert_true(ratio > 2.5); /* of 4: vectors stay floats, and packing pads channels */
    assert_int_equal(oct__program_need(floats->cohort->crew->step_program).kept_stride, 0);
    assert_int_equal(oct__program_need(bytes->cohort->crew->step_program).kept_stride, 0);
    oct__inference_destroy(a);
    oct__inference_destroy(b);
    oct_trainer_destroy(floats);
    oct_trainer_destroy(bytes);
}

/* A network saved as bytes and loaded again: the same logits, the same loss. */
static void check_file(const char *engine, const char *norm, struct folder *folder) {
    struct oct_trainer *saved = train(PLAIN, engine, "int8", norm, 1), *read;
    float expected[N_LOGITS], found[N_LOGITS];
    uint32_t rows[BATCH];
    struct oct_result results[2];
    fill_rows(rows);
    const char *path = folder_file(folder, "model.int8");
    EXPECT_OK(oct_trainer_save_as(saved, path, OCT_MODEL_INT8));
    read = train(PLAIN, engine, "int8", norm, 1);
    change_parameters(read);
    EXPECT_OK(oct_trainer_load(read, path));
    EXPECT_OK(oct_trainer_result(saved, &results[0]));
    EXPECT_OK(oct_trainer_result(read, &results[1]));
    print_message("%s, %s, %s, %d nodes: accuracy %g and %g, loss %.17g and %.17g\n", engine, norm,
                  recipe, n_nodes, results[0].accuracy, results[1].accuracy, results[0].loss,
                  results[1].loss);
    assert_true(results[0].accuracy == results[1].accuracy && results[0].loss == results[1].loss);
    assert_string_not_equal(results[0].model_sha256, results[1].model_sha256); /* of the floats */
    if (n_nodes == 1) { /* what is saved is the average of all */
        struct oct__inference *a = infer(saved, BATCH), *b = infer(read, BATCH);
        set(a, saved);
        set(b, read);
        EXPECT_OK(oct__inference_run(a, rows, expected));
        EXPECT_OK(oct__inference_run(b, rows, found));
        expect_same("from a file of bytes", found, expected);
        oct__inference_destroy(a);
        oct__inference_destroy(b);
    }
    oct_trainer_destroy(saved);
    oct_trainer_destroy(read);
}

static void files_of_bytes_change_nothing(void **state) {
    (void)state;
    static const char *const recipes[] = {"octet", "octet:weights=channel", "paper"};
    struct folder folder;
    folder_open(&folder);
    for (size_t i = 0; i < OCT_COUNT_OF(recipes); i++) {
        recipe = recipes[i];
        for (int norm = 0; oct__norm_at(norm); norm++) {
            check_file("cpu", oct__norm_at(norm)->plugin.name, &folder);
        }
        check_file("portable", "range-evonorm", &folder);
    }
    recipe = "octet";
    n_nodes = 3;
    check_file("cpu", "range-evonorm", &folder);
    n_nodes = 1;
    struct oct_trainer *floats = train(PLAIN, "cpu", "fp32", "evonorm-s0", 1);
    EXPECT_FAILURE(oct_trainer_save_as(floats, folder.file, OCT_MODEL_INT8), OCT_STATUS_INVALID,
                   "train with precision int8");
    EXPECT_FAILURE(oct_trainer_save_as(floats, folder.file, (enum oct_model_form)7),
                   OCT_STATUS_INVALID, "floats or bytes");
    oct_trainer_destroy(floats);
    folder_close(&folder);
}

/* OCT_CPU lowers the level, as for the command; a level that this machine lacks is skipped. */
int main(void) {
    enum { SKIPPED = 77 };
    const char *level = getenv("OCT_CPU");
    const oct_status status = level && level[0] ? oct_cpu_limit(level) : OCT_OK;
    if (status != OCT_OK) {
        fprintf(stderr, "OCT_CPU: %s\n", oct_last_error());
        return status == OCT_STATUS_UNSUPPORTED ? SKIPPED : 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_weights_change_nothing),   cmocka_unit_test(every_model),
        cmocka_unit_test(batches_of_every_size),         cmocka_unit_test(bytes_are_smaller),
        cmocka_unit_test(files_of_bytes_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
