/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - what every model owes: it builds with every norm, has the parameters that its
 * paper counts, trains a step, can be kept in files, and refuses options that it does not know. Its gradient
 * is checked in tests/grad, its numbers in tests/reference. */
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/narrow.h"
#include "support/solo.h"
#include "train/trainer.h"

/* Parameters with BatchNorm for images of 32x32x3 and ten classes; what publications count. */
static const struct {
    const char *name;
    size_t n_params;
    int n_products; /* convolutions and linear layers */
    int n_relus;    /* that it has whatever the norm */
} known[] = {
    {"resnet20", 272474, 22, 0}, {"resnet54", 758554, 52, 0},     {"resnet18", 11181642, 21, 0},
    {"vgg11", 9491018, 10, 1},   {"mobilenetv2", 2296922, 58, 0},
};

static void build(struct oct_graph *g, const char *spec, const char *norm, int side, int channels,
                  int classes) {
    const struct oct_norm_kind *kind = oct__norm_find(norm);
    assert_non_null(kind);
    EXPECT_OK(oct__graph_init(g, side, side, channels, classes, kind));
    EXPECT_OK(oct__model_build(spec, g));
    EXPECT_OK(oct__graph_check(g));
}

static size_t count_layers(const struct oct_graph *g, const char *kind) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_layers; i++) {
        n += strcmp(g->layers[i].kind->name, kind) == 0;
    }
    return n;
}

static void names_and_counts(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        const struct oct_plugin *plugin = &oct__model_at(i)->plugin;
        size_t row = 0;
        while (row < OCT_COUNT_OF(known) && strcmp(known[row].name, plugin->name) != 0) {
            row++;
        }
        if (row == OCT_COUNT_OF(known)) {
            fail_msg("%s: write its number of parameters into test_model.c", plugin->name);
        }
        assert_non_null(plugin->reference);
        assert_true(strlen(plugin->summary) > 3);
        struct oct_graph g;
        build(&g, plugin->name, "batchnorm", 32, 3, 10);
        print_message("%s: %zu parameters, %zu products\n", plugin->name, oct__row_count(&g.params),
                      count_layers(&g, "conv"));
        assert_int_equal(oct__row_count(&g.params), known[row].n_params);
        assert_int_equal(count_layers(&g, "conv"), known[row].n_products);
        oct__graph_fini(&g);
    }
    assert_null(oct__model_at(-1));
    assert_null(oct__model_at(1000));
}

/* Every norm, several inputs; the norms account for the difference in parameters. */
static void every_norm_and_input(void **state) {
    (void)state;
    static const struct {
        int side, channels, classes;
    } inputs[] = {{32, 3, 10}, {28, 1, 10}, {32, 3, 100}, {33, 4, 2}, {8, 3, 5}};
    for (int i = 0; oct__model_at(i); i++) {
        const char *name = oct__model_at(i)->plugin.name;
        for (size_t k = 0; k < OCT_COUNT_OF(inputs); k++) {
            size_t without_norms = 0;
            for (int j = 0; oct__norm_at(j); j++) {
                struct oct_graph g;
                build(&g, name, oct__norm_at(j)->plugin.name, inputs[k].side, inputs[k].channels,
                      inputs[k].classes);
                const struct oct__layer *out = &g.layers[g.output];
                assert_int_equal(out->h, 1);
                assert_int_equal(out->w, 1);
                assert_int_equal(out->c, inputs[k].classes);
                assert_int_equal(count_layers(&g, "relu") > (size_t)known[i].n_relus,
                                 !oct__norm_at(j)->has_activation);
                size_t norms = 0;
                for (size_t l = 0; l < g.n_layers; l++) {
                    for (int p = 0; p < OCT_LAYER_PARAMS; p++) {
                        if (strcmp(g.layers[l].kind->name, "norm") == 0 &&
                            g.layers[l].param[p] >= 0) {
                            norms += g.params.items[g.layers[l].param[p]].count;
                        }
                    }
                }
                size_t rest = oct__row_count(&g.params) - norms;
                print_message("%s, %s, %dx%dx%d, %d classes: %zu + %zu parameters\n", name,
                              oct__norm_at(j)->plugin.name, inputs[k].side, inputs[k].side,
                              inputs[k].channels, inputs[k].classes, rest, norms);
                assert_int_equal(rest, j == 0 ? rest : without_norms);
                without_norms = rest;
                oct__graph_fini(&g);
            }
        }
    }
}

/* The first loss of a network that knows nothing is a small multiple of ln(classes), larger with the
 * number of residual blocks, whose sums grow; a few
 * small steps on the same samples make it smaller. */
static void trains(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        struct oct_config *config = NULL;
        struct oct_trainer *trainer = NULL;
        EXPECT_OK(oct_config_create(&config));
        EXPECT_OK(solo(config, 1));
        EXPECT_OK(oct_config_set(config, "model", oct__model_at(i)->plugin.name));
        EXPECT_OK(oct_config_set(config, "data", "synthetic:samples=8,size=16"));
        EXPECT_OK(oct_config_set(config, "batch", "8"));
        EXPECT_OK(oct_config_set(config, "augment", "none"));
        EXPECT_OK(oct_config_set(config, "lr", "0.003"));
        EXPECT_OK(oct_config_set(config, "schedule", "constant"));
        EXPECT_OK(oct_config_set(config, "epochs", "12"));
        EXPECT_OK(oct_config_set(config, "threads", "1"));
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        double first = 0, last = 0;
        for (int step = 0; step < 12; step++) {
            EXPECT_OK(oct__trainer_step(trainer));
            last = trainer->nodes[0].loss;
            first = step == 0 ? last : first;
        }
        print_message("%s: loss %.4f (ln 10 = 2.3026), after 12 steps %.4f\n",
                      oct__model_at(i)->plugin.name, first, last);
        assert_true(first > 1.5 && first < 10);
        assert_true(last < 0.9 * first);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static struct oct_trainer *two_nodes(const char *model, const char *precision, const char *seed,
                                     const char *folder_of_checkpoint, const char *resume,
                                     const struct oct_hooks *hooks) {
    const char *const pairs[][2] = {
        {"model", model},         {"data", "synthetic:samples=24,size=8"},
        {"precision", precision}, {"nodes", "2"},
        {"batch", "6"},           {"epochs", "3"},
        {"lr", "0.01"},           {"threads", "1"},
        {"seed", seed},           {"checkpoint", folder_of_checkpoint},
    };
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    if (resume) {
        EXPECT_OK(oct_config_resume(config, resume));
    }
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    oct_config_destroy(config);
    return trainer;
}

static int stop_after_an_epoch(const struct oct_progress *progress, void *context) {
    (void)context;
    return progress->epoch >= 1;
}

/* A checkpoint goes on to the bits of a run that was never stopped, and a saved model gives the loss
 * that it gave. */
static void keeps(const char *model, const char *precision) {
    const struct oct_hooks stopping = {.progress = stop_after_an_epoch};
    struct oct_result whole, resumed, loaded;
    struct folder folder;
    char path[FOLDER_PATH];
    folder_open(&folder);
    struct oct_trainer *trainer = two_nodes(model, precision, "1", "", NULL, NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &whole));
    snprintf(path, sizeof path, "%s", folder_file(&folder, "model.safetensors"));
    EXPECT_OK(oct_trainer_save(trainer, path));
    oct_trainer_destroy(trainer);

    trainer = two_nodes(model, precision, "2", "", NULL, NULL);
    EXPECT_OK(oct_trainer_load(trainer, path));
    EXPECT_OK(oct_trainer_result(trainer, &loaded));
    oct_trainer_destroy(trainer);

    snprintf(path, sizeof path, "%s", folder_file(&folder, "checkpoint"));
    trainer = two_nodes(model, precision, "1", path, NULL, &stopping);
    assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
    oct_trainer_destroy(trainer);
    trainer = two_nodes(model, precision, "1", path, path, NULL);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &resumed));
    oct_trainer_destroy(trainer);
    folder_close(&folder);
    print_message("%s, %s: %.16s… and resumed %.16s…; loss %.9g, saved and loaded %.9g\n", model,
                  precision, whole.model_sha256, resumed.model_sha256, whole.loss, loaded.loss);
    assert_string_equal(resumed.model_sha256, whole.model_sha256);
    assert_string_equal(loaded.model_sha256, whole.model_sha256);
    assert_memory_equal(&loaded.loss, &whole.loss, sizeof whole.loss);
}

static void files(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        keeps(narrow_model(oct__model_at(i)->plugin.name), "fp32");
        keeps(narrow_model(oct__model_at(i)->plugin.name), "int8");
    }
}

static void impossible_options(void **state) {
    (void)state;
    struct oct_graph g;
    EXPECT_OK(oct__graph_init(&g, 32, 32, 3, 10, oct__norm_at(0)));
    for (int i = 0; oct__model_at(i); i++) {
        static const char *const wrong[] = {"nonsense=1",   "=",        ",", "width=", "1x",
                                            "width=1e9999", "width=nan"};
        for (size_t j = 0; j < OCT_COUNT_OF(wrong); j++) {
            char spec[96];
            snprintf(spec, sizeof spec, "%s:%s", oct__model_at(i)->plugin.name, wrong[j]);
            oct_status status = oct__model_build(spec, &g);
            print_message("%s: %s: %s\n", spec, oct_status_name(status), oct_last_error());
            assert_int_equal(status, OCT_STATUS_INVALID);
            assert_int_equal(g.n_layers, 0);
        }
    }
    EXPECT_FAILURE(oct__model_build("resnet20:width=0", &g), OCT_STATUS_INVALID, "width");
    EXPECT_FAILURE(oct__model_build("resnet20:width=1025", &g), OCT_STATUS_INVALID, "width");
    EXPECT_FAILURE(oct__model_build("resnet20:blocks=0", &g), OCT_STATUS_INVALID, "blocks");
    EXPECT_FAILURE(oct__model_build("resnet20:blocks=65", &g), OCT_STATUS_INVALID, "blocks");
    EXPECT_FAILURE(oct__model_build("resnet20:blocks=2.5", &g), OCT_STATUS_INVALID, "blocks");
    EXPECT_FAILURE(oct__model_build("resnet2000", &g), OCT_STATUS_NOT_FOUND, "resnet20");
    EXPECT_FAILURE(oct__model_build("", &g), OCT_STATUS_INVALID, "");
    assert_int_equal(g.n_layers, 0);
    assert_int_equal(g.status, OCT_OK);
    oct__graph_fini(&g);
}

/* Options change what they say: width and blocks of the residual network, by its own formula. */
static void options_of_resnet20(void **state) {
    (void)state;
    for (int width = 1; width <= 9; width += 4) {
        for (int blocks = 1; blocks <= 3; blocks++) {
            char spec[64];
            snprintf(spec, sizeof spec, "resnet20:width=%d,blocks=%d", width, blocks);
            struct oct_graph g;
            build(&g, spec, "batchnorm", 32, 3, 10);
            size_t w = (size_t)width, n = (size_t)blocks;
            size_t expected = 27 * w + 2 * w;            /* stem */
            expected += n * 2 * (9 * w * w + 2 * w);     /* stage 1 */
            for (size_t c = 2 * w; c <= 4 * w; c *= 2) { /* stages 2 and 3 */
                expected += 9 * c * (c / 2) + 2 * c + (2 * n - 1) * (9 * c * c + 2 * c);
                expected += c * (c / 2) + 2 * c; /* shortcut */
            }
            expected += 4 * w * 10 + 10;
            print_message("%s: %zu parameters\n", spec, oct__row_count(&g.params));
            assert_int_equal(oct__row_count(&g.params), expected);
            oct__graph_fini(&g);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_counts),
        cmocka_unit_test(every_norm_and_input),
        cmocka_unit_test(trains),
        cmocka_unit_test(files),
        cmocka_unit_test(impossible_options),
        cmocka_unit_test(options_of_resnet20),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
