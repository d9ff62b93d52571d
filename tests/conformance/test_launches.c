/* SPDX-License-Identifier: Apache-2.0 */
/* test_launches.c - a step has the same bits however its calls are launched, on every engine: one by
 * one; several as one (run_many); recorded and replayed, with another step and rate each time (begin,
 * end). Engines that have neither are run as they are, twice.
 *
 * And quantizers, replayed: their blocks may meet in memory that must be as it was before after each
 * of them. What a replay leaves there is seen by the next, whose values are larger or smaller. */
#include <stdlib.h>

#include "nn/layer.h"
#include "support/launch.h"
#include "support/rig.h"

/* --- steps ------------------------------------------------------------------------------------ */

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

/* --- quantizers ------------------------------------------------------------------------------- */

/* An operand's two places: the test's, where `cpu` computes, and the engine's. */
struct place {
    struct oct__tensor here;
    void *there;
};

static struct place places[64];
static int n_places;

static void *there_of(struct oct__engine *engine, struct oct__tensor t) {
    void *there = NULL;
    if (t.n == 0) {
        return NULL;
    }
    for (int i = 0; i < n_places; i++) {
        if (places[i].here.at == t.at) {
            return places[i].there;
        }
    }
    assert_true(n_places < (int)OCT_COUNT_OF(places));
    EXPECT_OK(engine->alloc(engine, LAUNCH_NODES * t.stride, "operand", &there));
    EXPECT_OK(engine->write(engine, there, t.at, LAUNCH_NODES * t.stride));
    places[n_places++] = (struct place){t, there};
    return there;
}

struct call {
    enum oct__op op;
    union oct__attr attr;
    struct oct__tensor t[OCT_ARGS_MOST];
};

/* The same on the lane's engine, and scratch for any of them, which the caller frees. */
static void prepare(struct oct__lane *lane, const struct call *calls, int n,
                    struct oct__args *args) {
    struct oct__engine *engine = lane->engine;
    size_t shared = 0, own = 0;
    for (int i = 0; i < n; i++) {
        struct oct__plan plan;
        args[i] = (struct oct__args){.attr = calls[i].attr, .layer = LAUNCH_LAYER};
        memcpy(args[i].t, calls[i].t, sizeof calls[i].t);
        for (int j = 0; j < OCT_ARGS_MOST; j++) {
            args[i].t[j].at = NULL;
        }
        EXPECT_OK(oct__engine_prepare(engine, calls[i].op, &lane->form, &args[i], &plan));
        args[i].handle = plan.handle;
        for (int j = 0; j < OCT_ARGS_MOST; j++) {
            args[i].t[j].at = there_of(engine, calls[i].t[j]);
        }
        shared = plan.shared_bytes > shared ? plan.shared_bytes : shared;
        own = plan.thread_bytes > own ? plan.thread_bytes : own;
    }
    shared = (shared + 63) / 64 * 64;
    EXPECT_OK(engine->alloc(engine, shared + own + 1, "scratch", &lane->shared_scratch));
    lane->thread_scratch = (char *)lane->shared_scratch + shared;
    lane->thread_scratch_bytes = own;
}

/* As a program runs a piece of a step; whether it was replayed. */
static int run_piece(const struct oct__lane *lane, const struct call *calls,
                     const struct oct__args *args, int from, int to) {
    struct oct__engine *engine = lane->engine;
    const int key[2] = {from, to};
    oct_status status = OCT_OK;
    int is_replayed = 0;
    if (engine->begin) {
        EXPECT_OK(engine->begin(lane, key, sizeof key, &is_replayed));
    }
    for (int i = from; i < to && status == OCT_OK && !is_replayed; i++) {
        status = oct__engine_run(lane, calls[i].op, &args[i]);
    }
    EXPECT_OK(engine->begin && !is_replayed ? engine->end(lane, status) : status);
    return is_replayed;
}

/* What the engine has written, against what `cpu` makes of the same. */
static void expect_calls(struct oct__engine *engine, struct oct__engine *cpu, struct launch_way way,
                         const struct call *calls, const struct oct__args *args, int n) {
    for (int i = 0; i < n; i++) {
        const char *letters = oct__op_info[calls[i].op].operands;
        launch(cpu, calls[i].op, calls[i].attr, way, calls[i].t);
        for (int j = 0; letters[j]; j++) {
            const struct oct__tensor wanted = calls[i].t[j];
            if (wanted.n == 0 || letters[j] == 'i' || letters[j] == 'I') {
                continue;
            }
            struct oct__tensor found = wanted;
            char who[96];
            found.at = calloc(LAUNCH_NODES, wanted.stride);
            assert_non_null(found.at);
            EXPECT_OK(
                engine->read(engine, found.at, args[i].t[j].at, LAUNCH_NODES * wanted.stride));
            snprintf(who, sizeof who, "%s, round %u, call %d, operand %d",
                     engine->kind->plugin.name, way.step, i, j);
            expect_bits(who, oct__op_info[calls[i].op].name, found, wanted);
            free(found.at);
        }
    }
}

/* The first round is launched call by call, the second recorded, the others replay that. */
static void check_replays(struct oct__engine *engine) {
    static const float sizes[] = {1.0F, 0.02F, 40.0F, 0.3F, 0.004F, 7.0F};
    enum { MIDDLE = 5, N_ROUNDS = OCT_COUNT_OF(sizes) };
    static const union oct__attr mean = {.quant = {OCT_RANGE_MEAN, 1, 0}},
                                 full = {.quant = {OCT_RANGE_FULL, 0, 0}}, none = {0};
    struct dice dice = dice_of(11);
    struct oct__engine *cpu = NULL;
    const struct oct__tensor x = tensor_new(OCT_DTYPE_F32, 3, 20, 20, 16), no = absent;
    const struct oct__tensor sums = tensor_like(x, OCT_DTYPE_S32),
                             more = tensor_like(x, OCT_DTYPE_S32),
                             half = tensor_like(x, OCT_DTYPE_BF16);
    const struct oct__tensor w = vector_new(1), each_w = vector_new(x.c), bias = vector_new(x.c);
    struct oct__tensor q[10], grid[10]; /* or scales */
    for (int i = 0; i < 10; i++) {
        const enum oct__dtype gradient = i < 8 ? OCT_DTYPE_S8 : OCT_DTYPE_E8;
        q[i] = tensor_like(x, i < MIDDLE ? OCT_DTYPE_U8 : gradient);
        grid[i] = vector_new(i < MIDDLE ? OCT_GRID : 1);
    }
    fill_positive(w, &dice, 0.01);
    fill_positive(each_w, &dice, 0.01);
    fill_normal(bias, &dice, 0.01);
    const struct call calls[] = {
        {OCT_OP_QUANTIZE, mean, {x, vector_new(2), q[0], grid[0]}},
        {OCT_OP_QUANTIZE, full, {x, vector_new(2), q[1], grid[1]}},
        {OCT_OP_SUMS_QUANTIZE, mean, {sums, grid[0], w, no, vector_new(2), q[2], grid[2]}},
        {OCT_OP_SUMS_QUANTIZE, full, {sums, grid[1], each_w, bias, vector_new(2), q[3], grid[3]}},
        {OCT_OP_ADD_U8, mean, {q[0], grid[0], q[3], grid[3], vector_new(2), q[4], grid[4]}},
        /* bf16; sums; sums and bytes; sums of both; and what else there is, with a mask */
        {OCT_OP_GRAD_QUANTIZE, none, {half, no, no, no, no, no, no, q[5], grid[5]}},
        {OCT_OP_GRAD_QUANTIZE, none, {sums, w, no, no, no, no, no, q[6], grid[6]}},
        {OCT_OP_GRAD_QUANTIZE, none, {sums, w, q[5], grid[5], no, no, no, q[7], grid[7]}},
        {OCT_OP_GRAD_QUANTIZE, none, {more, w, sums, w, no, no, w, q[8], grid[8]}},
        {OCT_OP_GRAD_QUANTIZE, none, {x, no, half, no, q[4], grid[4], each_w, q[9], grid[9]}},
    };
    enum { N_CALLS = OCT_COUNT_OF(calls) };
    struct oct__lane lane = {.engine = engine,
                             .form = {LAUNCH_NODES, 1, LAUNCH_SHARD},
                             .first_node = LAUNCH_FIRST_NODE,
                             .seed = launch_plain.seed};
    struct oct__args args[N_CALLS];
    int n_replayed = 0;
    EXPECT_OK(oct__engine_open("cpu", 1, &cpu));
    prepare(&lane, calls, N_CALLS, args);
    for (int round = 0; round < N_ROUNDS; round++) {
        const struct oct__tensor fresh[] = {x, sums, more, half};
        struct launch_way way = launch_plain;
        way.step = lane.step = (uint32_t)round;
        fill_normal(x, &dice, (double)sizes[round]);
        fill_sums(sums, &dice, (int)(1e4F * sizes[round]));
        fill_sums(more, &dice, (int)(1e4F * sizes[round]));
        for (size_t i = 0; i < LAUNCH_NODES * count(half); i++) {
            const float value = sizes[round] * (float)dice_normal(&dice);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            ((uint16_t *)half.at)[i] = (uint16_t)(bits >> 16);
        }
        for (size_t i = 0; i < OCT_COUNT_OF(fresh); i++) {
            EXPECT_OK(engine->write(engine, there_of(engine, fresh[i]), fresh[i].at,
                                    LAUNCH_NODES * fresh[i].stride));
        }
        n_replayed += run_piece(&lane, calls, args, 0, MIDDLE);
        n_replayed += run_piece(&lane, calls, args, MIDDLE, N_CALLS);
        if (engine->finish) {
            EXPECT_OK(engine->finish(engine));
        }
        expect_calls(engine, cpu, way, calls, args, N_CALLS);
    }
    print_message("%s: %d calls of quantizers, %d rounds of them, %d of %d pieces replayed\n",
                  engine->kind->plugin.name, N_CALLS, N_ROUNDS, n_replayed, 2 * N_ROUNDS);
    assert_int_equal(n_replayed, engine->begin ? 2 * (N_ROUNDS - 2) : 0);
    for (int i = 0; i < N_CALLS; i++) {
        oct__engine_release(engine, calls[i].op, args[i].handle);
    }
    while (n_places > 0) {
        engine->free(engine, places[--n_places].there);
    }
    engine->free(engine, lane.shared_scratch);
    oct__engine_close(cpu);
    tensors_free(NULL);
}

static void quantizers_are_replayed(void **state) {
    (void)state;
    launch_engines(check_replays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test_teardown(quantizers_are_replayed, tensors_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
