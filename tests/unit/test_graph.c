/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph.c - src/nn/graph.c: shapes and parameters of a network, and what is refused.
 *
 * The first mistake sticks: later calls do nothing, and the message names the layer that made it.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "nn/layer.h"
#include "support/check.h"

static struct oct_graph g;

static int set_up(void **state) {
    (void)state;
    return oct__graph_init(&g, 8, 10, 3, 5, oct__norm_find("batchnorm")) == OCT_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct__graph_fini(&g);
    return 0;
}

static struct oct_conv conv_of(int channels, int kernel) {
    return (struct oct_conv){.channels = channels, .kernel = kernel};
}

static void expect_shape(int x, int h, int w, int c) {
    int shape[3];
    oct_graph_shape(&g, x, shape);
    print_message("value %d is %dx%dx%d, expected %dx%dx%d\n", x, shape[0], shape[1], shape[2], h,
                  w, c);
    assert_int_equal(shape[0], h);
    assert_int_equal(shape[1], w);
    assert_int_equal(shape[2], c);
}

/* The last call was refused, for that reason; everything after it does nothing. */
static void expect_refused(int x, oct_status status, const char *piece) {
    assert_int_equal(x, -1);
    const size_t n_layers = g.n_layers, n_params = g.params.n_items;
    assert_int_equal(oct_graph_relu(&g, "later", 0), -1);
    assert_int_equal(oct_graph_conv(&g, "later", 0, conv_of(1, 1)), -1);
    assert_int_equal(oct_graph_norm(&g, "later", 0), -1);
    assert_int_equal(oct_graph_linear(&g, "later", 0, 5), -1);
    assert_int_equal(oct_graph_add(&g, "later", 0, 77), -1);
    assert_int_equal(oct_graph_dropout(&g, "later", 0, 9), -1);
    oct_graph_output(&g, 0);
    assert_int_equal(g.n_layers, n_layers);
    assert_int_equal(g.params.n_items, n_params);
    EXPECT_FAILURE(oct__graph_check(&g), status, piece);
    EXPECT_FAILURE(oct__graph_check(&g), status, piece); /* it stays */
}

/* --- what is right --------------------------------------------------------------------------- */

static void shapes(void **state) {
    (void)state;
    int x = oct_graph_input(&g);
    expect_shape(x, 8, 10, 3);
    expect_shape(oct_graph_conv(&g, "a", x, (struct oct_conv){.channels = 4, .kernel = 3}), 6, 8,
                 4);
    x = oct_graph_conv(&g, "b", x,
                       (struct oct_conv){.channels = 6, .kernel = 3, .stride = 2, .pad = 1});
    expect_shape(x, 4, 5, 6);
    expect_shape(oct_graph_norm(&g, "c", x), 4, 5, 6);
    expect_shape(oct_graph_relu(&g, "d", x), 4, 5, 6);
    expect_shape(oct_graph_max_pool(&g, "e", x, (struct oct_pool){.kernel = 2}), 2, 2, 6);
    expect_shape(
        oct_graph_avg_pool(&g, "f", x, (struct oct_pool){.kernel = 3, .stride = 1, .pad = 1}), 4, 5,
        6);
    expect_shape(oct_graph_dropout(&g, "h", x, 0.5), 4, 5, 6);
    expect_shape(oct_graph_add(&g, "i", x, x), 4, 5, 6);
    int pooled = oct_graph_global_pool(&g, "j", x);
    expect_shape(pooled, 1, 1, 6);
    int logits = oct_graph_linear(&g, "k", pooled, oct_graph_classes(&g));
    expect_shape(logits, 1, 1, 5);
    expect_shape(-1, 0, 0, 0);
    expect_shape(1000, 0, 0, 0);
    oct_graph_output(&g, pooled);
    oct_graph_output(&g, logits); /* the last word counts */
    EXPECT_OK(oct__graph_check(&g));
}

/* Names, sizes and places of the parameters: each begins at a multiple of 16 floats. */
static void parameters(void **state) {
    (void)state;
    int x = oct_graph_conv(
        &g, "conv", oct_graph_input(&g),
        (struct oct_conv){.channels = 6, .kernel = 3, .pad = 1, .groups = 3, .bias = 1});
    x = oct_graph_norm(&g, "norm", x);
    x = oct_graph_global_pool(&g, "pool", x);
    oct_graph_output(&g, oct_graph_linear(&g, "head", x, 5));
    EXPECT_OK(oct__graph_check(&g));
    static const struct {
        const char *name;
        size_t count;
        int n_dims;
    } expected[] = {
        {"conv.weight", 6 * 1 * 9, 4}, {"conv.bias", 6, 1},       {"norm.gamma", 6, 1},
        {"norm.beta", 6, 1},           {"head.weight", 5 * 6, 2}, {"head.bias", 5, 1},
    };
    assert_int_equal(g.params.n_items, OCT_COUNT_OF(expected));
    size_t total = 0, end = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(expected); i++) {
        const struct oct__param *p = &g.params.items[i];
        print_message("%s: %zu elements at %zu\n", p->name, p->count, p->offset);
        assert_string_equal(p->name, expected[i].name);
        assert_int_equal(p->count, expected[i].count);
        assert_int_equal(p->n_dims, expected[i].n_dims);
        assert_int_equal(p->offset % 16, 0);
        assert_true(p->offset >= end);
        end = p->offset + p->count;
        total += p->count;
    }
    assert_true(g.params.n_elements >= end);
    assert_int_equal(oct__row_count(&g.params), total);
    assert_int_equal(g.stats.n_items, 2);
    assert_string_equal(g.stats.items[0].name, "norm.running_mean");
    assert_string_equal(g.stats.items[1].name, "norm.running_var");
}

/* Deviations are those of the formulas, gaps are 0, seeds matter and tensors differ. */
static void initial_values(void **state) {
    (void)state;
    int x = oct_graph_conv(&g, "a", oct_graph_input(&g), conv_of(64, 5));
    x = oct_graph_conv(&g, "b", x, conv_of(64, 3));
    x = oct_graph_norm(&g, "norm", x);
    x = oct_graph_global_pool(&g, "pool", x);
    oct_graph_output(&g, oct_graph_linear(&g, "head", x, 5));
    EXPECT_OK(oct__graph_check(&g));
    const size_t n = g.params.n_elements;
    float *values = malloc(n * sizeof *values), *others = malloc(n * sizeof *others);
    assert_non_null(values);
    assert_non_null(others);
    memset(values, 0xFF, n * sizeof *values);
    oct__row_init(&g.params, 5, values);
    oct__row_init(&g.params, 6, others);
    assert_memory_not_equal(values, others, n * sizeof *values);
    oct__row_init(&g.params, 5, others);
    assert_memory_equal(values, others, n * sizeof *values);
    size_t at = 0;
    for (size_t p = 0; p < g.params.n_items; p++) {
        const struct oct__param *param = &g.params.items[p];
        double sum = 0, square = 0, largest = 0;
        for (; at < param->offset; at++) {
            assert_true(values[at] == 0.0F);
        }
        for (; at < param->offset + param->count; at++) {
            sum += (double)values[at];
            square += (double)values[at] * (double)values[at];
            largest = fmax(largest, fabs((double)values[at]));
        }
        double mean = sum / (double)param->count;
        double deviation = sqrt(square / (double)param->count - mean * mean);
        print_message("%s: mean %.4f, deviation %.4f, largest %.4f\n", param->name, mean, deviation,
                      largest);
        if (strcmp(param->name, "a.weight") == 0) {
            assert_true(fabs(deviation / sqrt(2.0 / (25 * 64)) - 1) < 0.05);
        } else if (strcmp(param->name, "b.weight") == 0) {
            assert_true(fabs(deviation / sqrt(2.0 / (9 * 64)) - 1) < 0.05);
        } else if (strcmp(param->name, "norm.gamma") == 0) {
            assert_true(mean == 1.0 && largest == 1.0);
        } else if (strcmp(param->name, "norm.beta") == 0) {
            assert_true(largest == 0.0);
        } else if (strcmp(param->name, "head.weight") == 0) {
            assert_true(largest <= 1.0 / 8 && largest > 0.12);
            assert_true(fabs(deviation / (1.0 / 8 / sqrt(3.0)) - 1) < 0.1);
        } else {
            assert_string_equal(param->name, "head.bias");
            assert_true(largest <= 1.0 / 8);
        }
    }
    for (; at < n; at++) {
        assert_true(values[at] == 0.0F);
    }
    free(values);
    free(others);
}

/* --- mistakes -------------------------------------------------------------------------------- */

static void unknown_value(void **state) {
    (void)state;
    oct_graph_input(&g);
    expect_refused(oct_graph_relu(&g, "lost", 7), OCT_STATUS_INVALID,
                   "lost: its input 7 is no value of this graph");
}

static void negative_value(void **state) {
    (void)state;
    oct_graph_input(&g);
    expect_refused(oct_graph_conv(&g, "lost", -3, conv_of(4, 3)), OCT_STATUS_INVALID,
                   "lost: its input -3 is no value");
}

static void unknown_value_in_a_sum(void **state) {
    (void)state;
    int x = oct_graph_input(&g);
    expect_refused(oct_graph_add(&g, "sum", x, x + 1), OCT_STATUS_INVALID, "sum: its input 1");
}

static void two_of_a_name(void **state) {
    (void)state;
    int x = oct_graph_conv(&g, "same", oct_graph_input(&g), conv_of(4, 3));
    expect_refused(oct_graph_relu(&g, "same", x), OCT_STATUS_INVALID,
                   "same: two layers have this name");
}

static void two_inputs(void **state) {
    (void)state;
    oct_graph_input(&g);
    expect_refused(oct_graph_input(&g), OCT_STATUS_INVALID, "input: two layers have this name");
}

/* Names end up in model files: what these cannot hold is refused at once. */
static void impossible_names(void **state) {
    (void)state;
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const names[] = {"", NULL, "a\"b", "a\\b", "line\nbreak", "\x7f", longest};
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        struct oct_graph other;
        EXPECT_OK(oct__graph_init(&other, 8, 8, 3, 5, oct__norm_at(0)));
        int x = oct_graph_conv(&other, names[i], oct_graph_input(&other), conv_of(4, 3));
        assert_int_equal(x, -1);
        EXPECT_FAILURE(oct__graph_check(&other), OCT_STATUS_INVALID, "name");
        oct__graph_fini(&other);
    }
    assert_true(oct_graph_conv(&g, "größe/1 [a]", oct_graph_input(&g), conv_of(4, 3)) > 0);
}

static void sum_of_unequal_shapes(void **state) {
    (void)state;
    int x = oct_graph_input(&g);
    int a = oct_graph_conv(&g, "a", x, conv_of(4, 3));
    int b = oct_graph_conv(&g, "b", x, conv_of(5, 3));
    expect_refused(oct_graph_add(&g, "sum", a, b), OCT_STATUS_SHAPE,
                   "sum: sum of a (6x8x4) and b (6x8x5)");
}

static void sum_of_unequal_sides(void **state) {
    (void)state;
    int x = oct_graph_input(&g);
    int a = oct_graph_conv(&g, "a", x, conv_of(4, 3));
    int b = oct_graph_conv(&g, "b", x, conv_of(4, 5));
    expect_refused(oct_graph_add(&g, "sum", b, a), OCT_STATUS_SHAPE, "(4x6x4) and a (6x8x4)");
}

static void kernel_too_large(void **state) {
    (void)state;
    expect_refused(oct_graph_conv(&g, "wide", oct_graph_input(&g), conv_of(4, 9)), OCT_STATUS_SHAPE,
                   "wide: kernel 9 does not fit an input of 8x10");
}

static void pool_too_large(void **state) {
    (void)state;
    expect_refused(
        oct_graph_max_pool(&g, "wide", oct_graph_input(&g), (struct oct_pool){.kernel = 9}),
        OCT_STATUS_SHAPE, "wide: kernel 9 does not fit an input of 8x10");
}

static void groups_that_do_not_divide(void **state) {
    (void)state;
    struct oct_conv conv = conv_of(6, 3);
    conv.groups = 2;
    expect_refused(oct_graph_conv(&g, "split", oct_graph_input(&g), conv), OCT_STATUS_SHAPE,
                   "split: 2 groups do not divide 3 input and 6 output channels");
}

static void groups_that_do_not_divide_the_output(void **state) {
    (void)state;
    struct oct_conv conv = conv_of(4, 3);
    conv.groups = 3;
    expect_refused(oct_graph_conv(&g, "split", oct_graph_input(&g), conv), OCT_STATUS_SHAPE,
                   "split: 3 groups do not divide 3 input and 4 output channels");
}

/* Each on a fresh graph: INVALID, with the layer's name. */
static void impossible_convolutions(void **state) {
    (void)state;
    static const struct oct_conv convs[] = {
        {.channels = 0, .kernel = 3},
        {.channels = -4, .kernel = 3},
        {.channels = 1 << 20, .kernel = 3},
        {.channels = 4, .kernel = 0},
        {.channels = 4, .kernel = -1},
        {.channels = 4, .kernel = 3, .stride = -1},
        {.channels = 4, .kernel = 3, .pad = -1},
        {.channels = 4, .kernel = 3, .pad = 3},
        {.channels = 4, .kernel = 3, .groups = -1},
        {.channels = 4, .kernel = INT_MAX, .pad = INT_MAX - 1},
        {.channels = 4, .kernel = 1 << 30, .pad = (1 << 30) - 1},
        {.channels = 4, .kernel = 1 << 20, .pad = (1 << 20) - 1},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(convs); i++) {
        struct oct_graph other;
        EXPECT_OK(oct__graph_init(&other, 8, 8, 3, 5, oct__norm_at(0)));
        assert_int_equal(oct_graph_conv(&other, "conv", oct_graph_input(&other), convs[i]), -1);
        EXPECT_FAILURE(oct__graph_check(&other), OCT_STATUS_INVALID, "conv: ");
        oct__graph_fini(&other);
    }
}

static void impossible_pools(void **state) {
    (void)state;
    static const struct oct_pool pools[] = {
        {.kernel = 0},
        {.kernel = -2},
        {.kernel = 2, .stride = -1},
        {.kernel = 2, .pad = -1},
        {.kernel = 2, .pad = 2},
        {.kernel = 3, .pad = 2},
        {.kernel = INT_MAX, .stride = 1, .pad = INT_MAX / 2},
        {.kernel = 1 << 16, .stride = 1, .pad = 1 << 15}, /* its area is 0 in 32 bits */
    };
    for (size_t i = 0; i < OCT_COUNT_OF(pools); i++) {
        for (int by_mean = 0; by_mean < 2; by_mean++) {
            struct oct_graph other;
            EXPECT_OK(oct__graph_init(&other, 32, 32, 3, 5, oct__norm_at(0)));
            int x = oct_graph_input(&other);
            x = by_mean ? oct_graph_avg_pool(&other, "pool", x, pools[i])
                        : oct_graph_max_pool(&other, "pool", x, pools[i]);
            assert_int_equal(x, -1);
            EXPECT_FAILURE(oct__graph_check(&other), OCT_STATUS_INVALID, "pool: ");
            oct__graph_fini(&other);
        }
    }
}

/* The place of a maximum is kept in a byte. */
static void max_pool_of_more_than_a_byte(void **state) {
    (void)state;
    struct oct_graph other;
    EXPECT_OK(oct__graph_init(&other, 32, 32, 3, 5, oct__norm_at(0)));
    int x = oct_graph_input(&other);
    assert_true(oct_graph_avg_pool(&other, "mean", x, (struct oct_pool){.kernel = 16}) > 0);
    assert_true(oct_graph_max_pool(&other, "fits", x, (struct oct_pool){.kernel = 15}) > 0);
    assert_int_equal(oct_graph_max_pool(&other, "not", x, (struct oct_pool){.kernel = 16}), -1);
    EXPECT_FAILURE(oct__graph_check(&other), OCT_STATUS_INVALID, "not: ");
    oct__graph_fini(&other);
}

static void linear_of_a_map(void **state) {
    (void)state;
    expect_refused(oct_graph_linear(&g, "flat", oct_graph_input(&g), 5), OCT_STATUS_SHAPE,
                   "flat: linear layer from 8x10x3 to 5; pool to 1x1 first");
}

static void linear_to_nothing(void **state) {
    (void)state;
    int x = oct_graph_global_pool(&g, "pool", oct_graph_input(&g));
    expect_refused(oct_graph_linear(&g, "flat", x, 0), OCT_STATUS_SHAPE, "flat: ");
}

static void dropout_rates(void **state) {
    (void)state;
    static const double rates[] = {1.0, 1.5, -0.1, NAN, INFINITY};
    for (size_t i = 0; i < OCT_COUNT_OF(rates); i++) {
        struct oct_graph other;
        EXPECT_OK(oct__graph_init(&other, 8, 8, 3, 5, oct__norm_at(0)));
        assert_int_equal(oct_graph_dropout(&other, "drop", oct_graph_input(&other), rates[i]), -1);
        EXPECT_FAILURE(oct__graph_check(&other), OCT_STATUS_INVALID, "drop: dropout rate");
        oct__graph_fini(&other);
    }
}

static void no_parameters(void **state) {
    (void)state;
    struct oct_graph pool;
    EXPECT_OK(oct__graph_init(&pool, 8, 8, 3, 3, oct__norm_at(0)));
    oct_graph_output(&pool, oct_graph_global_pool(&pool, "pool", oct_graph_input(&pool)));
    EXPECT_FAILURE(oct__graph_check(&pool), OCT_STATUS_INVALID, "it has no parameters");
    oct__graph_fini(&pool);
}

static void no_output(void **state) {
    (void)state;
    oct_graph_global_pool(&g, "pool", oct_graph_input(&g));
    EXPECT_FAILURE(oct__graph_check(&g), OCT_STATUS_INVALID, "it has no output");
}

static void nothing_at_all(void **state) {
    (void)state;
    EXPECT_FAILURE(oct__graph_check(&g), OCT_STATUS_INVALID, "it has no output");
}

static void unknown_output(void **state) {
    (void)state;
    oct_graph_output(&g, oct_graph_input(&g) + 1);
    EXPECT_FAILURE(oct__graph_check(&g), OCT_STATUS_INVALID, "output: 1 is no value");
}

static void output_with_a_map(void **state) {
    (void)state;
    oct_graph_output(&g, oct_graph_conv(&g, "map", oct_graph_input(&g), conv_of(5, 3)));
    EXPECT_FAILURE(oct__graph_check(&g), OCT_STATUS_SHAPE,
                   "output map is 6x8x5; logits must be 1x1x5");
}

static void output_with_other_classes(void **state) {
    (void)state;
    int x = oct_graph_global_pool(&g, "pool", oct_graph_input(&g));
    oct_graph_output(&g, oct_graph_linear(&g, "head", x, 6));
    EXPECT_FAILURE(oct__graph_check(&g), OCT_STATUS_SHAPE,
                   "output head is 1x1x6; logits must be 1x1x5");
}

static void impossible_inputs(void **state) {
    (void)state;
    static const int sizes[][4] = {{0, 8, 3, 5}, {8, 0, 3, 5},       {8, 8, 0, 5},
                                   {8, 8, 3, 1}, {8, 1 << 20, 3, 5}, {-1, 8, 3, 5},
                                   {8, 8, 3, 0}, {8, 8, 1 << 20, 5}};
    for (size_t i = 0; i < OCT_COUNT_OF(sizes); i++) {
        struct oct_graph other;
        EXPECT_FAILURE(oct__graph_init(&other, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                                       oct__norm_at(0)),
                       OCT_STATUS_SHAPE, "network: ");
        oct__graph_fini(&other);
    }
}

/* More parameters than a row can number: refused while building, not when memory runs out. */
static void too_many_parameters(void **state) {
    (void)state;
    int x = oct_graph_conv(&g, "a", oct_graph_input(&g), conv_of(65536, 3));
    assert_true(x > 0);
    expect_refused(oct_graph_conv(&g, "b", x, conv_of(65536, 3)), OCT_STATUS_SHAPE,
                   "b.weight: more than");
}

#define ON_A_GRAPH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_A_GRAPH(shapes),
        ON_A_GRAPH(parameters),
        ON_A_GRAPH(initial_values),
        ON_A_GRAPH(unknown_value),
        ON_A_GRAPH(negative_value),
        ON_A_GRAPH(unknown_value_in_a_sum),
        ON_A_GRAPH(two_of_a_name),
        ON_A_GRAPH(two_inputs),
        ON_A_GRAPH(impossible_names),
        ON_A_GRAPH(sum_of_unequal_shapes),
        ON_A_GRAPH(sum_of_unequal_sides),
        ON_A_GRAPH(kernel_too_large),
        ON_A_GRAPH(pool_too_large),
        ON_A_GRAPH(groups_that_do_not_divide),
        ON_A_GRAPH(groups_that_do_not_divide_the_output),
        cmocka_unit_test(impossible_convolutions),
        cmocka_unit_test(impossible_pools),
        cmocka_unit_test(max_pool_of_more_than_a_byte),
        ON_A_GRAPH(linear_of_a_map),
        ON_A_GRAPH(linear_to_nothing),
        cmocka_unit_test(dropout_rates),
        ON_A_GRAPH(no_output),
        ON_A_GRAPH(no_parameters),
        ON_A_GRAPH(nothing_at_all),
        ON_A_GRAPH(unknown_output),
        ON_A_GRAPH(output_with_a_map),
        ON_A_GRAPH(output_with_other_classes),
        cmocka_unit_test(impossible_inputs),
        ON_A_GRAPH(too_many_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
