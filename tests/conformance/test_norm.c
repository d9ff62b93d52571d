/* SPDX-License-Identifier: Apache-2.0 */
/* test_norm.c - what every norm owes: parameters of the right size, and finite results.
 *
 * Zeros, constants, huge values, a batch of one and maps of one position are where a variance is 0
 * or overflows. Every result of every operation of a step is looked at right after it, forward and
 * backward, on every engine. The gradients' values are checked in tests/grad.
 */
#include <math.h>
#include <stdlib.h>

#include "nn/layer.h"
#include "support/check.h"
#include "support/rig.h"

enum { CLASSES = 3, N_IMAGES = 5, MOST_PIXELS = 4 * 4 * 4, MOST_BATCH = 19 };

static void names_and_parameters(void **state) {
    (void)state;
    int n_norms = 0;
    for (const struct oct_norm_kind *kind; (kind = oct__norm_at(n_norms)); n_norms++) {
        assert_true(strlen(kind->plugin.name) > 0);
        assert_true(strlen(kind->plugin.summary) > 3);
        assert_non_null(kind->plugin.reference);
        assert_null(kind->plugin.unavailable);
        assert_ptr_equal(oct__norm_find(kind->plugin.name), kind);
        static const int channels[] = {1, 2, 3, 7, 8, 12, 16, 64};
        for (size_t i = 0; i < OCT_COUNT_OF(channels); i++) {
            const int c = channels[i];
            struct oct_graph g;
            EXPECT_OK(oct__graph_init(&g, 4, 5, c, CLASSES, kind));
            int x = oct_graph_norm(&g, "norm", oct_graph_input(&g));
            int y = oct_graph_activation(&g, "act", x), shape[3];
            oct_graph_shape(&g, y, shape);
            assert_int_equal(g.status, OCT_OK);
            assert_int_equal(y == x, kind->has_activation != 0);
            assert_int_equal(shape[0], 4);
            assert_int_equal(shape[1], 5);
            assert_int_equal(shape[2], c);
            assert_true(g.params.n_items >= 1);
            for (size_t p = 0; p < g.params.n_items; p++) {
                assert_int_equal(g.params.items[p].count, c);
                assert_int_equal(strncmp(g.params.items[p].name, "norm.", 5), 0);
            }
            for (size_t s = 0; s < g.stats.n_items; s++) {
                assert_int_equal(g.stats.items[s].count, c);
            }
            int groups = g.layers[x].attr.norm.groups;
            assert_int_equal(groups > 0, kind->groups > 0);
            if (groups > 0) {
                assert_true(groups <= kind->groups);
                assert_int_equal(c % groups, 0);
            }
            oct__graph_fini(&g);
        }
        print_message("%s: %s\n", kind->plugin.name, kind->plugin.summary);
    }
    assert_true(n_norms >= 3);
    assert_null(oct__norm_at(-1));
    assert_null(oct__norm_at(n_norms));
    assert_null(oct__norm_find("layernorm"));
}

/* Runs a step call by call; every float that a call writes must be finite. */
static void check_finite(struct rig *rig, const char *what) {
    for (size_t i = 0; i < rig->program->n_calls; i++) {
        const struct oct__program_call *call = &rig->program->calls[i];
        const char *operands = oct__op_info[call->op].operands;
        rig_run(rig, i, i + 1);
        for (int j = 0; operands[j]; j++) {
            int tensor = call->tensors[j];
            if (tensor < 0 || operands[j] == 'i' || operands[j] == 'I' ||
                rig->program->tensors[tensor].shape.dtype != OCT_DTYPE_F32) {
                continue;
            }
            size_t n = oct__tensor_count(&rig->program->tensors[tensor].shape);
            float *values = calloc(n, sizeof *values);
            assert_non_null(values);
            rig_read(rig, tensor, 0, values);
            for (size_t k = 0; k < n; k++) {
                if (!isfinite(values[k])) {
                    fail_msg("%s: operation %s: element %zu of operand %d is %g", what,
                             oct__op_info[call->op].name, k, j, (double)values[k]);
                }
            }
            free(values);
        }
    }
}

/* What the look-up table turns bytes into. */
static const struct {
    const char *name;
    double scale, offset;
} inputs[] = {
    {"zeros", 0, 0},
    {"the constant 1", 0, 1},
    {"the constant -3e4", 0, -3e4},
    {"the constant 1e12", 0, 1e12},
    {"tiny values", 1e-30, 0},
    {"nearly a constant", 1e-4, 1e3},
    {"values around 1", 1, 0},
    {"values around 1e6", 1e6, 0},
    {"values around 1e15, whose squares are 1e30", 1e15, 0},
    {"all negative", 0.1, -3},
    {"all positive", 0.1, 3},
};

/* --- a norm in a small network ---------------------------------------------------------------- */

/* input, norm, activation, (norm again,) a convolution as large as the map. */
static void build(struct oct_graph *g, const struct oct_norm_kind *kind, const char *recipe,
                  int side, int channels, int is_twice) {
    EXPECT_OK(oct__graph_init(g, side, side, channels, CLASSES, kind));
    if (recipe) {
        struct oct__recipe read;
        EXPECT_OK(oct__recipe_read(recipe, &read));
        oct__graph_quantize(g, &read);
    }
    int x = oct_graph_norm(g, "norm", oct_graph_input(g));
    x = oct_graph_activation(g, "act", x);
    if (is_twice) {
        x = oct_graph_norm(g, "again", x);
    }
    x = oct_graph_conv(g, "head", x, (struct oct_conv){.channels = CLASSES, .kernel = side});
    oct_graph_output(g, x);
    EXPECT_OK(oct__graph_check(g));
}

/* Statistics as they start, but ranges as if values between -4 and 4 had been seen. */
static void write_stats(struct rig *rig, const struct oct_graph *g) {
    float *stats = calloc(g->stats.n_elements + 1, sizeof *stats);
    assert_non_null(stats);
    oct__row_init(&g->stats, 7, stats);
    for (size_t i = 0; i < g->n_layers; i++) {
        if (g->layers[i].range >= 0) {
            float *range = stats + g->stats.items[g->layers[i].range].offset;
            range[0] = -4.0F;
            range[1] = 4.0F;
        }
    }
    rig_write_row(rig, OCT_HOME_STAT, 0, stats);
    free(stats);
}

/* Opens a rig over `g` with its initial parameters and random images. */
static void open_rig(struct rig *rig, struct oct__engine *engine, const struct oct_graph *g,
                     enum oct__mode mode, int batch, double scale, double offset) {
    const struct rig_form form = {.mode = mode,
                                  .batch = batch,
                                  .n_nodes = 1,
                                  .n_threads = 1,
                                  .shard = 16,
                                  .learning_rate = 1e-3F};
    uint8_t images[N_IMAGES * MOST_PIXELS];
    float lut[RIG_LUT];
    float *params = calloc(g->params.n_elements, sizeof *params);
    struct dice dice = dice_of(1);
    assert_non_null(params);
    assert_true(g->height * g->width * g->channels <= MOST_PIXELS);
    for (size_t i = 0; i < sizeof images; i++) {
        images[i] = (uint8_t)dice_below(&dice, 256);
    }
    for (int i = 0; i < RIG_LUT; i++) {
        lut[i] = (float)(scale * (i % 256 - 128) / 64 + offset);
    }
    oct__row_init(&g->params, 7, params);
    rig_open(rig, engine, g, &form, images, N_IMAGES, lut);
    rig_write_row(rig, OCT_HOME_PARAM, 0, params);
    write_stats(rig, g);
    free(params);
}

static void write_picks(struct rig *rig, int first) {
    struct oct__pick picks[MOST_BATCH];
    for (int i = 0; i < rig->program->batch; i++) {
        picks[i] = (struct oct__pick){.row = (first + i) % N_IMAGES, .label = i % CLASSES};
    }
    rig_write_picks(rig, 0, picks);
}

static int check_inputs(struct oct__engine *engine, const struct oct_norm_kind *kind,
                        const char *recipe, int side, int channels, int batch) {
    struct oct_graph g;
    build(&g, kind, recipe, side, channels, 1);
    for (size_t i = 0; i < OCT_COUNT_OF(inputs); i++) {
        struct rig rig;
        char what[160];
        snprintf(what, sizeof what, "%s, %s, %s, %dx%dx%dx%d, %s", engine->kind->plugin.name,
                 kind->plugin.name, recipe ? recipe : "fp32", batch, side, side, channels,
                 inputs[i].name);
        open_rig(&rig, engine, &g, OCT_MODE_TRAIN, batch, inputs[i].scale, inputs[i].offset);
        write_picks(&rig, 0);
        check_finite(&rig, what);
        rig_close(&rig);
    }
    oct__graph_fini(&g);
    return (int)OCT_COUNT_OF(inputs);
}

static const char *const recipes[] = {NULL, "octet", "paper", "octet:range=mean"};

static void odd_inputs(void **state) {
    (void)state;
    static const struct {
        int side, channels, batch;
    } shapes[] = {{1, 1, 1}, {1, 4, 1}, {4, 3, 1}, {1, 4, MOST_BATCH}, {3, 4, MOST_BATCH}};
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 1)); e++) {
        int n_steps = 0;
        for (int i = 0; oct__norm_at(i); i++) {
            for (size_t s = 0; s < OCT_COUNT_OF(shapes); s++) {
                for (size_t r = 0; r < OCT_COUNT_OF(recipes); r++) {
                    n_steps += check_inputs(engine, oct__norm_at(i), recipes[r], shapes[s].side,
                                            shapes[s].channels, shapes[s].batch);
                }
            }
        }
        print_message("%s: %d steps, every result finite\n", engine->kind->plugin.name, n_steps);
        oct__engine_close(engine);
    }
}

/* In evaluation, batches of one and of many give each sample the same logits: no norm looks at its
 * neighbours then. */
static void check_alone(struct oct__engine *engine, const struct oct_norm_kind *kind,
                        const char *recipe) {
    struct oct_graph g;
    struct rig rig;
    float together[N_IMAGES * CLASSES], alone[CLASSES];
    build(&g, kind, recipe, 3, 4, 0);
    open_rig(&rig, engine, &g, OCT_MODE_EVAL, N_IMAGES, 1, 0.3);
    write_picks(&rig, 0);
    rig_forward(&rig);
    rig_read(&rig, rig.program->logits, 0, together);
    rig_close(&rig);
    open_rig(&rig, engine, &g, OCT_MODE_EVAL, 1, 1, 0.3);
    for (int i = 0; i < N_IMAGES; i++) {
        write_picks(&rig, i);
        rig_forward(&rig);
        rig_read(&rig, rig.program->logits, 0, alone);
        for (int k = 0; k < CLASSES; k++) {
            double a = (double)alone[k], b = (double)together[i * CLASSES + k];
            if (!(fabs(a - b) <= 1e-5 * (1 + fabs(b)))) {
                fail_msg("%s, %s: logit %d of sample %d is %.9g alone and %.9g among others",
                         engine->kind->plugin.name, kind->plugin.name, k, i, a, b);
            }
        }
    }
    print_message("%s, %s, %s: first logit %.7g\n", engine->kind->plugin.name, kind->plugin.name,
                  recipe ? "int8" : "fp32", (double)together[0]);
    rig_close(&rig);
    oct__graph_fini(&g);
}

static void evaluation_sees_one_sample_at_a_time(void **state) {
    (void)state;
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 1)); e++) {
        for (int i = 0; oct__norm_at(i); i++) {
            check_alone(engine, oct__norm_at(i), NULL);
            check_alone(engine, oct__norm_at(i), "octet");
        }
        oct__engine_close(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_parameters),
        cmocka_unit_test(odd_inputs),
        cmocka_unit_test(evaluation_sees_one_sample_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
