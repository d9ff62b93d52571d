/* SPDX-License-Identifier: Apache-2.0 */
/* test_launches.c - a step has the same bits however its calls are launched, on every engine: one by
 * one; several as one (run_many); recorded and replayed, with another step and rate each time (begin,
 * end). Engines that have neither are run as they are, twice. */
#include <stdlib.h>

#include "nn/layer.h"
#include "support/check.h"
#include "support/rig.h"

enum { SIDE = 6, CLASSES = 3, N_NODES = 2, BATCH = 4, N_IMAGES = 12, N_STEPS = 5 };
enum { IMAGE = SIDE * SIDE * 3 };

static void build(struct oct_graph *g, const char *recipe, const char *norm) {
    const struct oct_norm_kind *kind = NULL;
    for (int i = 0; oct__norm_at(i); i++) {
        if (strcmp(oct__norm_at(i)->plugin.name, norm) == 0) {
            kind = oct__norm_at(i);
        }
    }
    assert_non_null(kind);
    EXPECT_OK(oct__graph_init(g, SIDE, SIDE, 3, CLASSES, kind));
    if (recipe) {
        struct oct__recipe read;
        EXPECT_OK(oct__recipe_read(recipe, &read));
        read.stochastic = 1; /* more that depends on the step */
        oct__graph_quantize(g, &read);
    }
    int x = oct_graph_conv(g, "stem", oct_graph_input(g),
                           (struct oct_conv){.channels = 4, .kernel = 3, .pad = 1});
    x = oct_graph_activation(g, "act", oct_graph_norm(g, "norm", x));
    int y = oct_graph_conv(g, "conv", x, (struct oct_conv){.channels = 4, .kernel = 3, .pad = 1});
    y = oct_graph_activation(g, "act2", oct_graph_norm(g, "norm2", y));
    x = oct_graph_dropout(g, "dropout", oct_graph_add(g, "sum", x, y), 0.25);
    x = oct_graph_conv(g, "head", x,
                       (struct oct_conv){.channels = CLASSES, .kernel = SIDE, .bias = 1});
    oct_graph_output(g, x);
    EXPECT_OK(oct__graph_check(g));
}

/* Parameters after some steps, node after node. */
static float *train(struct oct__engine *engine, const struct oct_graph *g) {
    static uint8_t images[N_IMAGES * IMAGE];
    static float lut[RIG_LUT];
    for (int i = 0; i < N_IMAGES * IMAGE; i++) {
        images[i] = (uint8_t)(i * 37 + i / 7 * 11);
    }
    for (int i = 0; i < RIG_LUT; i++) {
        lut[i] = (float)(i % 256) / 64.0F - 2.0F;
    }
    const struct rig_form form = {.mode = OCT_MODE_TRAIN,
                                  .batch = BATCH,
                                  .n_nodes = N_NODES,
                                  .n_threads = 1,
                                  .shard = BATCH,
                                  .seed = 5,
                                  .beta = 0.9F,
                                  .decay = 1e-4F};
    struct rig rig;
    rig_open(&rig, engine, g, &form, images, N_IMAGES, lut);
    const size_t n = g->params.n_elements;
    float *rows = calloc(N_NODES * n, sizeof *rows);
    assert_non_null(rows);
    for (int node = 0; node < N_NODES; node++) {
        oct__row_init(&g->params, 9, rows);
        rig_write_row(&rig, OCT_HOME_PARAM, node, rows);
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int node = 0; node < N_NODES; node++) {
            struct oct__pick picks[BATCH];
            for (int i = 0; i < BATCH; i++) {
                const int row = (5 * step + 3 * node + i) % N_IMAGES;
                picks[i] = (struct oct__pick){.row = row, .label = row % CLASSES};
            }
            rig_write_picks(&rig, node, picks);
        }
        rig.lane.step = (uint32_t)step;
        rig.lane.learning_rate = 0.05F / (float)(1 + step);
        const struct oct__program *program = rig.program;
        rig_run(&rig, 0, program->n_forward);
        rig_run(&rig, program->n_forward, program->n_calls);
    }
    for (int node = 0; node < N_NODES; node++) {
        rig_read_row(&rig, OCT_HOME_PARAM, node, rows + (size_t)node * n);
    }
    rig_close(&rig);
    return rows;
}

/* The engine, with what it has to launch calls otherwise, or without. */
static float *train_on(int index, int is_plain, const struct oct_graph *g, int *has_ways) {
    struct oct__engine *engine = rig_engine_at(index, 1);
    *has_ways = engine->begin != NULL;
    if (is_plain) {
        memset(engine->run_many, 0, sizeof engine->run_many);
        engine->begin = NULL;
        engine->end = NULL;
    }
    float *rows = train(engine, g);
    oct__engine_close(engine);
    return rows;
}

static void same_bits(void **state) {
    (void)state;
    static const struct {
        const char *recipe, *norm;
    } kinds[] = {{NULL, "evonorm-s0"}, {"octet", "range-evonorm"}, {"paper", "range-batchnorm"}};
    struct oct__engine *engine;
    for (int e = 0; (engine = rig_engine_at(e, 1)); e++) {
        const char *name = engine->kind->plugin.name;
        oct__engine_close(engine);
        for (size_t k = 0; k < OCT_COUNT_OF(kinds); k++) {
            struct oct_graph g;
            int has_ways;
            build(&g, kinds[k].recipe, kinds[k].norm);
            const size_t n = N_NODES * g.params.n_elements;
            float *plain = train_on(e, 1, &g, &has_ways), *other = train_on(e, 0, &g, &has_ways);
            float start[1], *rows = calloc(g.params.n_elements, sizeof *rows);
            assert_non_null(rows);
            oct__row_init(&g.params, 9, rows);
            start[0] = rows[0];
            print_message("%s, %s, %s%s: weight 0 goes from %.6g to %.6g\n", name,
                          kinds[k].recipe ? kinds[k].recipe : "fp32", kinds[k].norm,
                          has_ways ? ", replayed" : "", (double)start[0], (double)plain[0]);
            assert_true(plain[0] != start[0]);
            for (size_t i = 0; i < n; i++) {
                if (memcmp(&plain[i], &other[i], sizeof plain[i]) != 0) {
                    fail_msg("%s, %s: element %zu is %.9g one by one and %.9g otherwise", name,
                             kinds[k].norm, i, (double)plain[i], (double)other[i]);
                }
            }
            free(rows);
            free(plain);
            free(other);
            oct__graph_fini(&g);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
