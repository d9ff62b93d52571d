/* SPDX-License-Identifier: Apache-2.0 */
/* test_nonfinite.c - a NaN or an infinity stops the run and is named: step, node, parameter or
 * layer and operation where it first appeared. */
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "engine/engine.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/solo.h"
#include "train/trainer.h"

static struct oct_trainer *create(const char *engine, const char *norm, int n_nodes,
                                  const char *threads, const char *rate) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=4,blocks=1"));
    EXPECT_OK(oct_config_set(config, "data", "synthetic:samples=40,size=8"));
    EXPECT_OK(oct_config_set(config, "batch", "20"));
    EXPECT_OK(oct_config_set(config, "epochs", "20"));
    EXPECT_OK(oct_config_set(config, "schedule", "constant"));
    EXPECT_OK(oct_config_set(config, "lr", rate));
    EXPECT_OK(oct_config_set(config, "engine", engine));
    EXPECT_OK(oct_config_set(config, "norm", norm));
    EXPECT_OK(oct_config_set(config, "threads", threads));
    EXPECT_OK(solo(config, n_nodes));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    oct_config_destroy(config);
    return trainer;
}

/* The initial parameters of a trainer; the caller frees them. */
static float *initial(const struct oct_trainer *trainer) {
    float *row = calloc(trainer->graph.params.n_elements, sizeof *row);
    assert_non_null(row);
    oct__row_init(&trainer->graph.params, 1, row);
    return row;
}

static const char *engine_name(int index) {
    for (int i = 0; oct__engine_at(i); i++) {
        if (!oct__engine_at(i)->plugin.unavailable && index-- == 0) {
            return oct__engine_at(i)->plugin.name;
        }
    }
    return NULL;
}

/* --- a learning rate that is far too high ----------------------------------------------------- */

static void a_huge_learning_rate(void **state) {
    (void)state;
    for (int e = 0; engine_name(e); e++) {
        for (int i = 0; oct__norm_at(i); i++) {
            struct oct_trainer *trainer =
                create(engine_name(e), oct__norm_at(i)->plugin.name, 1, "1", "0.1");
            struct oct__node_step node;
            oct_status status = OCT_OK;
            uint32_t step = 0;
            for (; step < 20 && status == OCT_OK; step++) {
                status = oct__cohort_step(trainer->cohort,
                                          &(struct oct__step){step, 1e30F, 0, 0, 0}, &node);
            }
            char where[64];
            snprintf(where, sizeof where, "step %u: node 0: ", step - 1);
            print_message("%s, %s: %s: %s\n", engine_name(e), oct__norm_at(i)->plugin.name,
                          oct_status_name(status), oct_last_error());
            assert_int_equal(status, OCT_STATUS_NOT_FINITE);
            assert_int_equal(strncmp(oct_last_error(), where, strlen(where)), 0);
            assert_true(strstr(oct_last_error(), "layer ") ||
                        strstr(oct_last_error(), "parameter "));
            assert_non_null(strstr(oct_last_error(), "(lr)")); /* the remedy */
            oct_trainer_destroy(trainer);
        }
    }
}

/* The same through the public API, with the highest rate that it takes. Afterwards the trainer
 * still gives a result and saves. */
static void the_run_stops(void **state) {
    (void)state;
    struct folder folder;
    folder_open(&folder);
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=4,blocks=1"));
    EXPECT_OK(oct_config_set(config, "data", "synthetic:samples=40,size=8"));
    EXPECT_OK(oct_config_set(config, "batch", "20"));
    EXPECT_OK(solo(config, 1));
    EXPECT_OK(oct_config_set(config, "epochs", "200"));
    EXPECT_OK(oct_config_set(config, "lr", "1e6"));
    EXPECT_OK(oct_config_set(config, "beta", "0.9999"));
    EXPECT_OK(oct_config_set(config, "weight-decay", "1"));
    EXPECT_OK(oct_config_set(config, "threads", "2"));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_NOT_FINITE, ": node 0: ");
    unsigned step = 0;
    assert_int_equal(sscanf(oct_last_error(), "step %u", &step), 1);
    assert_int_equal(step, trainer->step); /* the step that was not finished */
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("stopped at step %u: loss %g, accuracy %.1f %%\n", step, result.loss,
                  result.accuracy);
    assert_true(result.accuracy >= 0 && result.accuracy <= 100);
    EXPECT_FAILURE(oct_trainer_save(trainer, folder_file(&folder, "model")), OCT_STATUS_NOT_FINITE,
                   "has an element that is");
    assert_int_equal(folder_count(&folder), 0);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    folder_close(&folder);
}

/* The last update of an epoch went wrong: no step is left to notice, so the evaluation does. */
static struct oct_trainer *spoiled;

static int spoil(const struct oct_progress *progress, void *context) {
    (void)context;
    if (progress->phase == OCT_PHASE_TRAIN && progress->epoch_step == progress->epoch_steps) {
        float *row = initial(spoiled);
        row[0] = NAN;
        oct_status status = oct__cohort_write(spoiled->cohort, OCT_HOME_PARAM, row);
        free(row);
        assert_int_equal(status, OCT_OK);
    }
    return 0;
}

static void the_last_step_of_an_epoch(void **state) {
    (void)state;
    spoiled = create("portable", "evonorm-s0", 1, "1", "0.1");
    spoiled->hooks.progress = spoil;
    EXPECT_FAILURE(oct_trainer_run(spoiled), OCT_STATUS_NOT_FINITE, "after step 2: the test loss");
    oct_trainer_destroy(spoiled);
}

/* --- a parameter that is not a number --------------------------------------------------------- */

/* One element of each parameter tensor in turn, first or last. */
static void planted_in_every_parameter(void **state) {
    (void)state;
    for (int e = 0; engine_name(e); e++) {
        struct oct_trainer *trainer = create(engine_name(e), "evonorm-s0", 1, "1", "0.1");
        const struct oct__row *params = &trainer->graph.params;
        float *row = initial(trainer);
        for (size_t p = 0; p < params->n_items; p++) {
            const struct oct__param *param = &params->items[p];
            float *at = &row[param->offset + (p % 2 ? param->count - 1 : 0)], kept = *at;
            struct oct__node_step node;
            char expected[160];
            *at = NAN;
            EXPECT_OK(oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, row));
            snprintf(expected, sizeof expected, "step 7: node 0: parameter %s has 1 elements",
                     param->name);
            oct_status status =
                oct__cohort_step(trainer->cohort, &(struct oct__step){7, 0.1F, 0, 0, 0}, &node);
            if (status != OCT_STATUS_NOT_FINITE || !strstr(oct_last_error(), expected)) {
                fail_msg("NaN in %s: %s: %s", param->name, oct_status_name(status),
                         oct_last_error());
            }
            *at = kept;
        }
        print_message("%s: %zu parameters, each named; the last: %s\n", engine_name(e),
                      params->n_items, oct_last_error());
        EXPECT_OK(
            oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, row)); /* and all is well again */
        struct oct__node_step node;
        EXPECT_OK(oct__cohort_step(trainer->cohort, &(struct oct__step){8, 0.1F, 0, 0, 0}, &node));
        assert_true(isfinite(node.loss));
        free(row);
        oct_trainer_destroy(trainer);
    }
}

/* --- an infinity that arises inside ----------------------------------------------------------- */

/* Gigantic but finite weights of one convolution: its own output is the first to overflow. */
static void the_first_layer_is_named(void **state) {
    (void)state;
    for (int e = 0; engine_name(e); e++) {
        struct oct_trainer *trainer = create(engine_name(e), "groupnorm", 1, "1", "0.1");
        const struct oct_graph *g = &trainer->graph;
        int n_layers = 0;
        for (size_t l = 0; l < g->n_layers; l++) {
            const struct oct__layer *layer = &g->layers[l];
            if (strcmp(layer->kind->name, "conv") != 0) {
                continue;
            }
            const struct oct__param *weight = &g->params.items[layer->param[0]];
            float *row = initial(trainer);
            for (size_t i = 0; i < weight->count; i++) {
                row[weight->offset + i] = i % 2 ? 3e38F : -3e38F;
            }
            EXPECT_OK(oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, row));
            memset(row, 0, trainer->cohort->stride[OCT_HOME_STAT]); /* no ranges of the last one */
            EXPECT_OK(oct__cohort_write(trainer->cohort, OCT_HOME_STAT, row));
            free(row);
            struct oct__node_step node;
            char expected[160];
            snprintf(expected, sizeof expected, "step 3: node 0: layer %s, operation ",
                     layer->name);
            oct_status status =
                oct__cohort_step(trainer->cohort, &(struct oct__step){3, 0.1F, 0, 0, 0}, &node);
            if (status != OCT_STATUS_NOT_FINITE || !strstr(oct_last_error(), expected)) {
                fail_msg("%s: %s: %s", layer->name, oct_status_name(status), oct_last_error());
            }
            n_layers++;
        }
        print_message("%s: %d convolutions, each named; the last: %s\n", engine_name(e), n_layers,
                      oct_last_error());
        assert_true(n_layers >= 9);
        oct_trainer_destroy(trainer);
    }
}

/* A norm whose scale overflows: the norm is named, not the convolution after it. */
static void a_norm_is_named(void **state) {
    (void)state;
    for (int i = 0; oct__norm_at(i); i++) {
        struct oct_trainer *trainer =
            create("portable", oct__norm_at(i)->plugin.name, 1, "1", "0.1");
        const struct oct_graph *g = &trainer->graph;
        float *row = initial(trainer);
        struct oct__node_step node;
        for (size_t p = 0; p < g->params.n_items; p++) {
            if (strcmp(g->params.items[p].name, "stage2.block0.norm1.gamma") == 0) {
                for (size_t j = 0; j < g->params.items[p].count; j++) {
                    row[g->params.items[p].offset + j] = 3.4e38F;
                }
            }
        }
        EXPECT_OK(oct__cohort_write(trainer->cohort, OCT_HOME_PARAM, row));
        EXPECT_FAILURE(
            oct__cohort_step(trainer->cohort, &(struct oct__step){0, 0.1F, 0, 0, 0}, &node),
            OCT_STATUS_NOT_FINITE, "layer stage2.block0.norm1, operation ");
        free(row);
        oct_trainer_destroy(trainer);
    }
}

/* --- several nodes ---------------------------------------------------------------------------- */

/* The lowest node in trouble is named, however nodes are laid over threads. */
static void the_node_is_named(void **state) {
    (void)state;
    static const char *const threads[] = {"1", "2", "4"};
    for (size_t t = 0; t < OCT_COUNT_OF(threads); t++) {
        struct oct_trainer *trainer = create("portable", "batchnorm", 3, threads[t], "0.1");
        float *row = initial(trainer);
        row[trainer->graph.params.items[2].offset] = NAN;
        for (size_t node = 1; node < 3; node++) {
            char *at = (char *)trainer->cohort->state[OCT_HOME_PARAM] +
                       node * trainer->cohort->stride[OCT_HOME_PARAM];
            EXPECT_OK(trainer->engine->write(trainer->engine, at, row,
                                             trainer->cohort->stride[OCT_HOME_PARAM]));
        }
        free(row);
        char expected[160];
        snprintf(expected, sizeof expected, "step 0: node 1: parameter %s has 1 elements",
                 trainer->graph.params.items[2].name);
        EXPECT_FAILURE(oct__trainer_step(trainer), OCT_STATUS_NOT_FINITE, expected);
        oct_trainer_destroy(trainer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_huge_learning_rate),      cmocka_unit_test(the_run_stops),
        cmocka_unit_test(the_last_step_of_an_epoch), cmocka_unit_test(planted_in_every_parameter),
        cmocka_unit_test(the_first_layer_is_named),  cmocka_unit_test(a_norm_is_named),
        cmocka_unit_test(the_node_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
