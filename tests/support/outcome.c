/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c - training on any engine, to be compared: see outcome.h. */
#include "support/outcome.h"

#include <stdlib.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"

void run_open(struct run *run, struct oct__engine *engine, const struct run_form *form) {
    memset(run, 0, sizeof *run);
    EXPECT_OK(oct_dataset_open(form->data, NULL, OCT_SPLIT_TRAIN, &run->train));
    EXPECT_OK(oct_dataset_open(form->data, NULL, OCT_SPLIT_TEST, &run->test));
    EXPECT_OK(oct__graph_init(&run->graph, run->train->height, run->train->width,
                              run->train->channels, run->train->n_classes,
                              oct__norm_find(form->norm)));
    if (form->recipe) {
        struct oct__recipe recipe;
        EXPECT_OK(oct__recipe_read(form->recipe, &recipe));
        oct__graph_quantize(&run->graph, &recipe);
    }
    EXPECT_OK(oct__model_build(form->model, &run->graph));
    EXPECT_OK(oct__graph_check(&run->graph));
    const struct oct_partition_options deal = {.name = "skew:0", .n_nodes = form->n_nodes};
    EXPECT_OK(oct_partition_create(run->train, &deal, &run->partition));
    const struct oct__cohort_config config = {
        .engine = engine,
        .graph = &run->graph,
        .train = run->train,
        .test = run->test,
        .n_nodes = form->n_nodes,
        .n_threads = form->n_threads,
        .batch = form->batch,
        .pad = 4,
        .seed = 3,
        .beta = 0.9F,
        .decay = 1e-4F,
        .partition = run->partition,
    };
    EXPECT_OK(oct__cohort_create(&config, &run->cohort));
}

void run_close(struct run *run) {
    oct__cohort_destroy(run->cohort);
    oct_partition_destroy(run->partition);
    oct__graph_fini(&run->graph);
    oct_dataset_close(run->train);
    oct_dataset_close(run->test);
}

void run_train(struct run *run, struct outcome *out) {
    memset(out, 0, sizeof *out);
    assert_true(run->cohort->config.n_nodes <= OUTCOME_NODES);
    for (uint32_t step = 0; step < OUTCOME_STEPS; step++) {
        struct oct__node_step nodes[OUTCOME_NODES];
        EXPECT_OK(oct__cohort_step(run->cohort, &(struct oct__step){step, 0.1F, 0, 0, 0}, nodes));
        for (int node = 0; node < run->cohort->config.n_nodes; node++) {
            out->losses[step][node] = nodes[node].loss;
        }
    }
    EXPECT_OK(oct__cohort_average(run->cohort, NULL, NULL, &out->distance));
    EXPECT_OK(
        oct__cohort_evaluate(run->cohort, -1, NULL, NULL, &out->test_loss, &out->test_accuracy));
    out->n_params = run->graph.params.n_elements;
    out->params = calloc(out->n_params, sizeof *out->params);
    assert_non_null(out->params);
    EXPECT_OK(oct__cohort_read_average(run->cohort, OCT_HOME_PARAM, out->params));
}

struct outcome outcome_on(struct oct__engine *engine, const struct run_form *form) {
    struct run run;
    struct outcome outcome;
    run_open(&run, engine, form);
    run_train(&run, &outcome);
    run_close(&run);
    oct__engine_close(engine);
    return outcome;
}

void outcome_compare(const char *name, const struct outcome *found,
                     const struct outcome *expected) {
    print_message("%s: losses %.9g, %.9g, %.9g; plain %.9g, %.9g, %.9g; test loss %.9g, %.9g\n",
                  name, found->losses[0][0], found->losses[1][0], found->losses[2][0],
                  expected->losses[0][0], expected->losses[1][0], expected->losses[2][0],
                  found->test_loss, expected->test_loss);
    assert_memory_equal(found->losses, expected->losses, sizeof found->losses);
    assert_memory_equal(&found->test_loss, &expected->test_loss, sizeof found->test_loss);
    assert_memory_equal(&found->test_accuracy, &expected->test_accuracy,
                        sizeof found->test_accuracy);
    assert_memory_equal(&found->distance, &expected->distance, sizeof found->distance);
    assert_int_equal(found->n_params, expected->n_params);
    assert_memory_equal(found->params, expected->params,
                        expected->n_params * sizeof *expected->params);
}

void outcome_free(struct outcome *outcome) {
    free(outcome->params);
    outcome->params = NULL;
}

struct oct__engine *plain_engine(const char *name, int n_threads) {
    struct oct__engine *engine = NULL;
    EXPECT_OK(oct__engine_open(name, n_threads, &engine));
    return engine;
}
