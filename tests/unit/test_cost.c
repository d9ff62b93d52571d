/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - src/train/cost.c and profile.c: counts against arithmetic done by hand, sums of calls.
 *
 * The numbers expected here are worked out in comments from the network's shapes, never from the
 * program.
 */
#include <math.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "train/bench.h"

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    return oct__engine_open("portable", 1, &engine) == OCT_OK ? 0 : -1;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

static struct oct__program *plan_for(const struct oct_graph *graph, int batch, int n_nodes) {
    struct oct__program *program = NULL;
    const struct oct__program_config config = {
        .mode = OCT_MODE_TRAIN,
        .batch = batch,
        .form = {n_nodes, 1, 16},
        .dataset_images = 1000,
        .dataset_height = graph->height,
        .dataset_width = graph->width,
        .beta = 0.9F,
    };
    EXPECT_OK(oct__program_create(engine, graph, &config, &program));
    return program;
}

static struct oct__program *plan(const struct oct_graph *graph, int batch) {
    return plan_for(graph, batch, 1);
}

/* On an engine whose weight gradients come from such numbers; portable's are f32. */
static struct oct__program *plan_with(const struct oct_graph *graph, int batch,
                                      enum oct__dtype gradient) {
    const enum oct__dtype own = engine->gradient;
    engine->gradient = gradient;
    struct oct__program *program = plan(graph, batch);
    engine->gradient = own;
    return program;
}

static void quantize(struct oct_graph *graph) {
    struct oct__recipe recipe;
    EXPECT_OK(oct__recipe_read("octet", &recipe));
    oct__graph_quantize(graph, &recipe);
}

static void expect_count(const char *what, uint64_t found, uint64_t expected) {
    print_message("%s: %llu, expected %llu\n", what, (unsigned long long)found,
                  (unsigned long long)expected);
    assert_true(found == expected);
}

static void expect_near(const char *what, double found, double expected) {
    print_message("%s: %.9g, expected %.9g\n", what, found, expected);
    assert_true(fabs(found - expected) <= 1e-9 * fabs(expected));
}

/* conv a: 3 -> 4, 3x3 on 8x8, pad 1; conv b: 4 -> 8 in 2 groups, 3x3, stride 2, to 4x4; global
 * pool; linear 8 -> 5. Batch 3.
 *
 *     weights   a 4*3*9 = 108      b 8*2*9 = 144    head 8*5 = 40, bias 5
 *     forward   a 64*108 = 6,912   b 16*144 = 2,304  head 40          sum 9,256 a sample */
enum { BATCH = 3, FORWARD = 6912 + 2304 + 40, DATA = 2304 + 40 };

static void small_network(struct oct_graph *graph, int is_int8) {
    EXPECT_OK(oct__graph_init(graph, 8, 8, 3, 5, oct__norm_at(0)));
    if (is_int8) {
        quantize(graph);
    }
    int x = oct_graph_conv(graph, "a", oct_graph_input(graph),
                           (struct oct_conv){.channels = 4, .kernel = 3, .pad = 1});
    x = oct_graph_conv(
        graph, "b", x,
        (struct oct_conv){.channels = 8, .kernel = 3, .stride = 2, .pad = 1, .groups = 2});
    x = oct_graph_global_pool(graph, "pool", x);
    oct_graph_output(graph, oct_graph_linear(graph, "head", x, 5));
    EXPECT_OK(oct__graph_check(graph));
}

static void products_in_floats(void **state) {
    (void)state;
    struct oct_graph graph;
    struct oct__cost cost;
    small_network(&graph, 0);
    struct oct__program *program = plan(&graph, BATCH);
    oct__cost_count(program, &cost);
    expect_count("forward", cost.madds[OCT_WORK_FORWARD], (uint64_t)BATCH * FORWARD);
    /* the image has no gradient */
    expect_count("data gradient", cost.madds[OCT_WORK_DATA_GRADIENT], (uint64_t)BATCH * DATA);
    expect_count("weight gradient", cost.madds[OCT_WORK_WEIGHT_GRADIENT],
                 (uint64_t)BATCH * FORWARD);
    assert_int_equal(cost.n_types, 1);
    expect_count("f32 with f32", cost.types[0].madds, (uint64_t)BATCH * (2 * FORWARD + DATA));
    expect_near("energy of the products", cost.product_pj,
                (3.7 + 0.9) * BATCH * (2 * FORWARD + DATA));
    expect_near("energy of one", cost.least_pj, 4.6);
    expect_near("energy of a mean one", cost.mean_pj, 4.6);
    expect_count("parameters", cost.parameter_bytes, 4 * (108 + 144 + 40 + 5));
    /* the image, a's value and the pooled value: the weight gradients read them */
    expect_count("kept", cost.kept_bytes, 4 * BATCH * (8 * 8 * 3 + 8 * 8 * 4 + 8));
    /* batch: 5 numbers a pick, image, label. pool: 4*4*8 + 8. loss: 5 logits, label, loss, hit, 5
     * gradients. pool's gradient as pool. update: parameters, momentum and gradients in rows whose
     * tensors begin at multiples of 16: 112 + 144 + 48 + 16. */
    expect_count("element operations", cost.elements,
                 BATCH * (5 + 192 + 1 + 2 * (128 + 8) + 5 + 3 + 5) + 3 * (112 + 144 + 48 + 16));
    expect_near("energy of the rest", cost.element_pj, 4.6 * (double)cost.elements);
    expect_count("gradients of parameters", cost.gradient_bytes, 4 * (112 + 144 + 48 + 16));
    expect_count("work", cost.work_bytes, program->work_bytes);
    assert_int_equal(cost.batch, BATCH);
    oct__program_destroy(program);
    oct__graph_fini(&graph);
}

static void products_in_bytes(void **state) {
    (void)state;
    struct oct_graph graph;
    struct oct__cost cost;
    small_network(&graph, 1);
    const enum oct__dtype gradients[] = {OCT_DTYPE_F32, OCT_DTYPE_BF16};
    const double pj[] = {3.7 + 0.9, 1.1 + 0.9};
    for (int i = 0; i < 2; i++) {
        struct oct__program *program = plan_with(&graph, BATCH, gradients[i]);
        oct__cost_count(program, &cost);
        assert_int_equal(cost.n_types, 3);
        assert_int_equal(cost.types[0].a, OCT_DTYPE_U8);
        assert_int_equal(cost.types[0].b, OCT_DTYPE_S8);
        assert_int_equal(cost.types[1].a, OCT_DTYPE_U8);
        assert_int_equal(cost.types[1].b, gradients[i]);
        assert_int_equal(cost.types[2].a, OCT_DTYPE_E8);
        assert_int_equal(cost.types[2].b, OCT_DTYPE_S8);
        expect_count("forward", cost.types[0].madds, (uint64_t)BATCH * FORWARD);
        expect_count("weight gradient", cost.types[1].madds, (uint64_t)BATCH * FORWARD);
        expect_count("data gradient", cost.types[2].madds, (uint64_t)BATCH * DATA);
        expect_near("energy of the products", cost.product_pj,
                    BATCH * ((0.2 + 0.1) * (FORWARD + DATA) + pj[i] * FORWARD));
        expect_near("energy of one", cost.least_pj, 0.23);
        /* bytes, a scale for each tensor of weights, the bias as floats */
        expect_count("parameters", cost.parameter_bytes, 108 + 144 + 40 + 3 * 4 + 5 * 4);
        /* the image, a's value and the pooled value, each with its grid of 4 floats */
        expect_count("kept", cost.kept_bytes, BATCH * (8 * 8 * 3 + 8 * 8 * 4 + 8) + 3 * 16);
        oct__program_destroy(program);
    }
    oct__graph_fini(&graph);
}

/* Of the layer's call of this kind. */
static void expect_moved(const struct oct__program *program, enum oct__op op, const char *layer,
                         enum oct__unit unit, uint64_t expected) {
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        const char *name = call->layer >= 0 ? program->graph->layers[call->layer].name : "update";
        if (call->op == op && strcmp(name, layer) == 0) {
            const struct oct__call_products products = oct__call_products(program, call);
            print_message("%s of %s, ", oct__op_info[op].name, layer);
            expect_count("bytes", oct__call_bytes(program, call), expected);
            assert_int_equal(oct__products_unit(&products), unit);
            return;
        }
    }
    fail_msg("no %s of %s", oct__op_info[op].name, layer);
}

/* The image is 8*8*3 = 192, a's value 8*8*4 = 256 and b's 4*4*8 = 128 numbers a sample. */
static void bytes_that_move(void **state) {
    (void)state;
    struct oct_graph graph;
    small_network(&graph, 0);
    for (int n = 1; n <= 3; n += 2) {
        struct oct__program *program = plan_for(&graph, BATCH, n);
        const uint64_t nodes = (uint64_t)n;
        /* bytes of images, five numbers a pick, floats, labels; a table of up to four channels for all nodes */
        expect_moved(program, OCT_OP_BATCH, "input", OCT_UNIT_F32,
                     nodes * BATCH * (192 + 5 * 4 + 192 * 4 + 4) + 4 * 256 * 4);
        expect_moved(program, OCT_OP_CONV, "a", OCT_UNIT_F32,
                     nodes * 4 * (BATCH * (192 + 256) + 108));
        expect_moved(program, OCT_OP_CONV, "head", OCT_UNIT_F32,
                     nodes * 4 * (BATCH * (8 + 5) + 40 + 5)); /* with its bias */
        expect_moved(program, OCT_OP_CONV_DGRAD, "b", OCT_UNIT_F32,
                     nodes * 4 * (BATCH * (128 + 256) + 144));
        /* parameters and momentum are read and written, gradients read */
        expect_moved(program, OCT_OP_SGD, "update", OCT_UNIT_F32, nodes * 4 * 5 * (112 + 144 + 64));
        oct__program_destroy(program);
    }
    oct__graph_fini(&graph);
    small_network(&graph, 1);
    struct oct__program *program = plan_with(&graph, BATCH, OCT_DTYPE_BF16);
    /* a grid is four floats, a range two */
    expect_moved(program, OCT_OP_CONV_U8, "a", OCT_UNIT_S8, BATCH * (192 + 256 * 4) + 16 + 108);
    expect_moved(program, OCT_OP_CONV_S8_DGRAD, "b", OCT_UNIT_S8, BATCH * (128 + 256 * 4) + 144);
    expect_moved(program, OCT_OP_CONV_U8_WGRAD, "a", OCT_UNIT_BF16,
                 BATCH * (192 + 256 * 2) + 16 + 108 * 4);
    expect_moved(program, OCT_OP_QUANTIZE, "input", OCT_UNIT_F32,
                 BATCH * 192 * (4 + 1) + 2 * 8 + 16);
    oct__program_destroy(program);
    oct__graph_fini(&graph);
}

/* Multiply-adds and parameters of ResNet-20 as its paper's tables have them. */
static void resnet20(void **state) {
    (void)state;
    /* stem 1,024*16*27; six 3x3 of 16 on 32x32; 16 -> 32, five of 32 on 16x16, a 1x1 shortcut;
     * the same from 32 to 64 on 8x8; the classifier */
    const uint64_t forward = 1024 * 16 * 27 + 6 * 1024 * 16 * 144 +
                             256 * 32 * (144 + 5 * 288 + 16) + 64 * 64 * (288 + 5 * 576 + 32) + 640;
    double step_pj[2];
    for (int is_int8 = 0; is_int8 < 2; is_int8++) {
        struct oct_graph graph;
        struct oct__cost cost;
        EXPECT_OK(oct__graph_init(&graph, 32, 32, 3, 10,
                                  oct__norm_find(is_int8 ? "range-evonorm" : "evonorm-s0")));
        if (is_int8) {
            quantize(&graph);
        }
        EXPECT_OK(oct__model_build("resnet20", &graph));
        EXPECT_OK(oct__graph_check(&graph));
        struct oct__program *program = plan_with(&graph, 32, OCT_DTYPE_BF16);
        oct__cost_count(program, &cost);
        expect_count("forward, a sample", cost.madds[OCT_WORK_FORWARD] / 32, forward);
        assert_true(forward / 100000 == 408); /* 40.8 M */
        expect_count("weight gradient, a sample", cost.madds[OCT_WORK_WEIGHT_GRADIENT] / 32,
                     forward);
        expect_count("data gradient, a sample", cost.madds[OCT_WORK_DATA_GRADIENT] / 32,
                     forward - 1024 * 16 * 27);
        assert_true(cost.kept_bytes < cost.work_bytes);
        step_pj[is_int8] = cost.product_pj + cost.element_pj;
        oct__program_destroy(program);
        oct__graph_fini(&graph);
    }
    print_message("energy of a step: %.3g and %.3g pJ, %.2f times\n", step_pj[0], step_pj[1],
                  step_pj[0] / step_pj[1]);
    assert_true(step_pj[0] / step_pj[1] > 4.5 && step_pj[0] / step_pj[1] < 5.4);
}

/* Horowitz's figures, and that a multiply-add of bytes is 20 times cheaper. */
static void energy(void **state) {
    (void)state;
    const struct {
        enum oct__dtype a, b;
        double pj, least;
    } rows[] = {
        {OCT_DTYPE_F32, OCT_DTYPE_F32, 4.6, 4.6}, {OCT_DTYPE_U8, OCT_DTYPE_S8, 0.3, 0.23},
        {OCT_DTYPE_S8, OCT_DTYPE_S8, 0.3, 0.23},  {OCT_DTYPE_U8, OCT_DTYPE_BF16, 2.0, 2.0},
        {OCT_DTYPE_BF16, OCT_DTYPE_U8, 2.0, 2.0}, {OCT_DTYPE_BF16, OCT_DTYPE_BF16, 2.0, 2.0},
        {OCT_DTYPE_U8, OCT_DTYPE_F32, 4.6, 4.6},  {OCT_DTYPE_F32, OCT_DTYPE_BF16, 4.6, 4.6},
        {OCT_DTYPE_S32, OCT_DTYPE_S32, 3.2, 3.2},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        expect_near("as it is done", oct__multiply_add_pj(rows[i].a, rows[i].b), rows[i].pj);
        expect_near("at least", oct__multiply_add_least_pj(rows[i].a, rows[i].b), rows[i].least);
    }
    expect_near("floats to bytes",
                oct__multiply_add_pj(OCT_DTYPE_F32, OCT_DTYPE_F32) /
                    oct__multiply_add_least_pj(OCT_DTYPE_U8, OCT_DTYPE_S8),
                20.0);
}

/* Every operation that the floor is made of has multiply-adds, and no other has. */
static void kinds_of_work(void **state) {
    (void)state;
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        const enum oct__work work = oct__work_of((enum oct__op)op);
        if ((work < OCT_WORK_PRODUCTS) != (oct__op_info[op].is_product != 0)) {
            fail_msg("%s is of kind %s", oct__op_info[op].name, oct__work_name(work));
        }
    }
    for (int work = 0; work < OCT_WORK_COUNT; work++) {
        assert_non_null(oct__work_name((enum oct__work)work));
    }
}

/* Six calls of three layers; the first layer's gradient comes last, as in a step. */
static struct oct__profile_call calls[] = {
    {"a", "conv", 1, OCT_WORK_FORWARD, 4, 3, 400, 10, 3, 2},
    {"n", "norm", 2, OCT_WORK_NORM, 2, 0, 0, 20, 0, 0},
    {"n", "norm_grad", 2, OCT_WORK_NORM_GRADIENT, 5, 0, 0, 30, 0, 0},
    {"a", "conv_wgrad", 1, OCT_WORK_WEIGHT_GRADIENT, 8, 7.5, 400, 15, 5, 7.5},
    {"update", "sgd", -1, OCT_WORK_UPDATE, 0.5, 0, 0, 3, 0, 0},
    {"i", "batch", 0, OCT_WORK_INPUT, 0.25, 0, 0, 1, 0, 0},
};

static void sums_of_a_profile(void **state) {
    (void)state;
    struct oct__step_profile profile = {.calls = calls,
                                        .n_calls = OCT_COUNT_OF(calls),
                                        .step_ms = 21,
                                        .gossip_ms = 1,
                                        .around_ms = 0.125};
    struct oct__profile_sum kinds[OCT_WORK_COUNT];
    const struct oct__profile_sum all = oct__profile_kinds(&profile, kinds);
    expect_near("all calls", all.ms, 19.75);
    expect_near("their floor", all.floor_ms, 10.5);
    expect_count("their multiply-adds", all.madds, 800);
    expect_count("their bytes", all.bytes, 79);
    expect_count("how many", all.n_calls, 6);
    expect_near("forward", kinds[OCT_WORK_FORWARD].ms, 4);
    expect_near("norm's gradient", kinds[OCT_WORK_NORM_GRADIENT].ms, 5);
    expect_count("sums of layers", kinds[OCT_WORK_SUM].n_calls, 0);
    expect_near("more than its parts", oct__profile_disturbed(&profile), 0.125);
    profile.step_ms = 10; /* medians may add up to more */
    assert_true(oct__profile_disturbed(&profile) == 0);

    struct oct__profile_layer layers[OCT_COUNT_OF(calls)];
    assert_int_equal(oct__profile_layers(&profile, layers), 4);
    const char *const names[] = {"i", "a", "n", "update"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(layers[i].name, names[i]);
    }
    expect_near("a", layers[1].all.ms, 12);
    /* each call's own floor: 3 by its bytes and 7.5 by its operations */
    expect_near("a, floor", layers[1].all.floor_ms, 10.5);
    expect_near("a, at the bytes' ceiling", layers[1].all.bytes_ms, 8);
    expect_near("a, at the operations'", layers[1].all.operations_ms, 9.5);
    expect_count("a, bytes", layers[1].all.bytes, 25);
    expect_near("a, forward", layers[1].product_ms[OCT_WORK_FORWARD], 4);
    expect_near("a, weight gradient", layers[1].product_ms[OCT_WORK_WEIGHT_GRADIENT], 8);
    assert_true(layers[1].element_ms == 0);
    expect_near("n, element-wise", layers[2].element_ms, 7);

    double gap;
    assert_int_equal(oct__profile_gap(kinds, &gap), OCT_WORK_NORM_GRADIENT);
    expect_near("largest gap", gap, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_floats),
        cmocka_unit_test(products_in_bytes),
        cmocka_unit_test(bytes_that_move),
        cmocka_unit_test(resnet20),
        cmocka_unit_test(energy),
        cmocka_unit_test(kinds_of_work),
        cmocka_unit_test(sums_of_a_profile),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
