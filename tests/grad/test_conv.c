/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv.c - gradients of convolutions of every form, and of linear layers.
 *
 * A convolution stands in front of the one under test: its gradient is right only when the data
 * gradient of the one behind it is. Maps are not square and batches end with a short shard.
 */
#include "gradcheck.h"
#include "support/check.h"

struct conv_case {
    const char *name;
    int front; /* channels before it */
    struct oct_conv conv;
    int height, width;
};

static const struct conv_case conv_cases[] = {
    {"3x3", 3, {.channels = 4, .kernel = 3, .pad = 1}, 5, 7},
    {"3x3 bias", 3, {.channels = 4, .kernel = 3, .pad = 1, .bias = 1}, 7, 5},
    {"3x3 no padding", 4, {.channels = 3, .kernel = 3, .bias = 1}, 6, 7},
    {"3x3 stride 2", 4, {.channels = 5, .kernel = 3, .stride = 2, .pad = 1}, 7, 5},
    {"3x3 stride 2, unused row", 4, {.channels = 5, .kernel = 3, .stride = 2}, 8, 6},
    {"3x3 padding 2", 3, {.channels = 4, .kernel = 3, .pad = 2, .bias = 1}, 4, 6},
    {"1x1", 5, {.channels = 4, .kernel = 1}, 5, 6},
    {"1x1 stride 2", 4, {.channels = 8, .kernel = 1, .stride = 2}, 6, 7},
    {"5x5", 2, {.channels = 3, .kernel = 5, .pad = 2, .bias = 1}, 6, 7},
    {"5x5 stride 2", 3, {.channels = 4, .kernel = 5, .stride = 2, .pad = 2}, 8, 7},
    {"5x5 stride 3", 3, {.channels = 2, .kernel = 5, .stride = 3, .pad = 1, .bias = 1}, 9, 8},
    {"3x3 of 16 channels", 16, {.channels = 16, .kernel = 3, .pad = 1}, 4, 4},
    {"2 groups", 4, {.channels = 6, .kernel = 3, .pad = 1, .groups = 2, .bias = 1}, 5, 6},
    {"2 groups 1x1", 6, {.channels = 4, .kernel = 1, .groups = 2}, 5, 5},
    {"4 groups of 8, stride 2",
     8,
     {.channels = 8, .kernel = 3, .stride = 2, .pad = 1, .groups = 4},
     6,
     5},
    {"depth-wise", 6, {.channels = 6, .kernel = 3, .pad = 1, .groups = 6, .bias = 1}, 5, 6},
    {"depth-wise stride 2",
     8,
     {.channels = 8, .kernel = 3, .stride = 2, .pad = 1, .groups = 8},
     7,
     6},
    {"depth-wise 5x5", 4, {.channels = 4, .kernel = 5, .pad = 2, .groups = 4}, 6, 5},
    {"depth-wise doubling", 4, {.channels = 8, .kernel = 3, .pad = 1, .groups = 4}, 5, 5},
};

static const struct conv_case *current;

static int build_conv(struct oct_graph *g, int x) {
    x = oct_graph_conv(
        g, "front", x,
        (struct oct_conv){.channels = current->front, .kernel = 3, .pad = 1, .bias = 1});
    return oct_graph_conv(g, "tested", x, current->conv);
}

static void convolutions(void **state) {
    (void)state;
    for (size_t i = 0; i < OCT_COUNT_OF(conv_cases); i++) {
        current = &conv_cases[i];
        const struct grad_case c = {
            .name = current->name,
            .build = build_conv,
            .height = current->height,
            .width = current->width,
            .channels = 2,
            .batch = 7,
            .shard = 4,
            .n_checked = 40,
        };
        grad_check(&c);
    }
}

/* The fixed shard of a run, and a batch that ends with three samples. */
static void shards_of_sixteen(void **state) {
    (void)state;
    static const struct conv_case strided = {
        "3x3 stride 2, batch 35",
        4,
        {.channels = 6, .kernel = 3, .stride = 2, .pad = 1, .bias = 1},
        6,
        5};
    current = &strided;
    const struct grad_case c = {
        .name = current->name,
        .build = build_conv,
        .height = 6,
        .width = 5,
        .channels = 3,
        .batch = 35,
        .shard = 16,
        .n_checked = 40,
    };
    grad_check(&c);
}

static int build_linear(struct oct_graph *g, int x) {
    x = oct_graph_conv(g, "front", oct_graph_input(g),
                       (struct oct_conv){.channels = 6, .kernel = 3, .pad = 1, .bias = 1});
    x = oct_graph_relu(g, "front_relu", x);
    x = oct_graph_global_pool(g, "pool", x);
    x = oct_graph_linear(g, "hidden", x, 5);
    x = oct_graph_relu(g, "relu", x);
    x = oct_graph_linear(g, "classifier", x, oct_graph_classes(g));
    oct_graph_output(g, x);
    return x;
}

static void linear_layers(void **state) {
    (void)state;
    const struct grad_case c = {
        .name = "linear",
        .build = build_linear,
        .is_whole = 1,
        .height = 5,
        .width = 4,
        .channels = 3,
        .batch = 19,
        .shard = 16,
    };
    grad_check(&c);
}

/* A linear layer straight on images of one position: its input wants no gradient. */
static int build_single(struct oct_graph *g, int x) {
    x = oct_graph_linear(g, "classifier", oct_graph_input(g), oct_graph_classes(g));
    oct_graph_output(g, x);
    return x;
}

static void one_linear_layer(void **state) {
    (void)state;
    const struct grad_case c = {
        .name = "one linear layer",
        .build = build_single,
        .is_whole = 1,
        .height = 1,
        .width = 1,
        .channels = 4,
        .batch = 1,
        .shard = 16,
    };
    grad_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(shards_of_sixteen),
        cmocka_unit_test(linear_layers),
        cmocka_unit_test(one_linear_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
