/* SPDX-License-Identifier: Apache-2.0 */
/* test_layers.c - gradients of pooling, sums, ReLU, dropout and the loss; crops and flips. */
#include "gradcheck.h"
#include "support/check.h"

static int front(struct oct_graph *g, int x, int channels) {
    return oct_graph_conv(
        g, "front", x, (struct oct_conv){.channels = channels, .kernel = 3, .pad = 1, .bias = 1});
}

static int conv(struct oct_graph *g, const char *name, int x, int channels) {
    return oct_graph_conv(g, name, x,
                          (struct oct_conv){.channels = channels, .kernel = 3, .pad = 1});
}

static void check(const char *name, int (*build)(struct oct_graph *, int), int height, int width) {
    const struct grad_case c = {
        .name = name,
        .build = build,
        .height = height,
        .width = width,
        .channels = 2,
        .batch = 7,
        .shard = 4,
        .n_checked = 60,
    };
    grad_check(&c);
}

/* --- pooling --------------------------------------------------------------------------------- */

static struct oct_pool pooling;
static int pools_by_mean;

static int build_pool(struct oct_graph *g, int x) {
    x = front(g, x, 5);
    return pools_by_mean ? oct_graph_avg_pool(g, "tested", x, pooling)
                         : oct_graph_max_pool(g, "tested", x, pooling);
}

static void pools(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct oct_pool pool;
        int height, width;
    } cases[] = {
        {"2", {.kernel = 2}, 6, 8},
        {"2 with an unused row", {.kernel = 2}, 7, 5},
        {"3 every 2, padded", {.kernel = 3, .stride = 2, .pad = 1}, 7, 8},
        {"3 every 1, overlapping", {.kernel = 3, .stride = 1}, 6, 5},
        {"3 every 1, overlapping and padded", {.kernel = 3, .stride = 1, .pad = 1}, 5, 6},
        {"4 every 3, padded by half", {.kernel = 4, .stride = 3, .pad = 2}, 7, 6},
        {"2 every 3, gaps", {.kernel = 2, .stride = 3}, 8, 8},
        {"1", {.kernel = 1}, 4, 5},
    };
    for (pools_by_mean = 0; pools_by_mean < 2; pools_by_mean++) {
        for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
            char name[64];
            snprintf(name, sizeof name, "%s pool %s", pools_by_mean ? "average" : "max",
                     cases[i].name);
            pooling = cases[i].pool;
            check(name, build_pool, cases[i].height, cases[i].width);
        }
    }
}

static int build_global(struct oct_graph *g, int x) {
    x = front(g, x, 6);
    return oct_graph_global_pool(g, "tested", x);
}

static void global_pool(void **state) {
    (void)state;
    check("global pool", build_global, 4, 7);
}

/* --- sums ------------------------------------------------------------------------------------ */

static int build_add(struct oct_graph *g, int x) {
    x = front(g, x, 4);
    return oct_graph_add(g, "tested", conv(g, "left", x, 3), conv(g, "right", x, 3));
}

/* Both inputs are one value, which so gets its gradient twice. */
static int build_twice(struct oct_graph *g, int x) {
    x = front(g, x, 3);
    return oct_graph_add(g, "tested", x, x);
}

/* A value read by a convolution, by a sum with itself, and by the sum after it. */
static int build_three(struct oct_graph *g, int x) {
    x = front(g, x, 4);
    int a = conv(g, "a", x, 4);
    int b = oct_graph_add(g, "b", a, x);
    int c = conv(g, "c", x, 4);
    int d = oct_graph_add(g, "d", x, x);
    int e = oct_graph_add(g, "e", b, c);
    return oct_graph_add(g, "f", e, d);
}

/* A sum whose value is read twice again, so that shared gradients are summed with fresh ones in
 * both orders. */
static int build_chain(struct oct_graph *g, int x) {
    x = front(g, x, 4);
    int a = oct_graph_add(g, "a", x, conv(g, "a_conv", x, 4));
    int b = oct_graph_add(g, "b", conv(g, "b_conv", a, 4), a);
    int c = oct_graph_add(g, "c", a, b);
    int d = oct_graph_relu(g, "d", c);
    return oct_graph_add(g, "e", d, c);
}

/* The images themselves in a sum: nobody wants their gradient. */
static int build_images(struct oct_graph *g, int x) {
    return oct_graph_add(g, "tested", conv(g, "front", x, 2), x);
}

static void sums(void **state) {
    (void)state;
    check("sum of two branches", build_add, 5, 6);
    check("sum of a value with itself", build_twice, 5, 6);
    check("three branches", build_three, 4, 5);
    check("sums of sums", build_chain, 4, 5);
    check("sum with the input", build_images, 5, 5);
}

/* --- ReLU and dropout ------------------------------------------------------------------------ */

static int build_relu(struct oct_graph *g, int x) {
    return oct_graph_relu(g, "tested", front(g, x, 5));
}

/* Not in place: the value before it is read by others too, or is another ReLU's. */
static int build_relus(struct oct_graph *g, int x) {
    x = front(g, x, 4);
    int a = oct_graph_relu(g, "a", x);
    int b = oct_graph_relu(g, "b", a);
    return oct_graph_add(g, "sum", oct_graph_add(g, "inner", a, b), conv(g, "c", x, 4));
}

/* ReLU first of all: on the images. */
static int build_relu_first(struct oct_graph *g, int x) {
    x = oct_graph_relu(g, "tested", x);
    return front(g, x, 4);
}

static void relus(void **state) {
    (void)state;
    check("relu", build_relu, 5, 6);
    check("relu of values that others read", build_relus, 5, 4);
    check("relu of the images", build_relu_first, 5, 4);
}

static int build_dropout(struct oct_graph *g, int x) {
    x = oct_graph_dropout(g, "first", front(g, x, 4), 0.3);
    x = conv(g, "between", x, 4);
    x = oct_graph_relu(g, "relu", oct_graph_dropout(g, "second", x, 0.5));
    return oct_graph_dropout(g, "none", x, 0.0);
}

static void dropout(void **state) {
    (void)state;
    check("dropout", build_dropout, 5, 5);
}

/* --- loss and input -------------------------------------------------------------------------- */

static int build_plain(struct oct_graph *g, int x) {
    return front(g, x, 4);
}

static void blank_labels(void **state) {
    (void)state;
    struct grad_case c = {
        .name = "labels of -1",
        .build = build_plain,
        .height = 4,
        .width = 5,
        .channels = 3,
        .batch = 19,
        .shard = 16,
        .n_blank = 5,
    };
    grad_check(&c);
}

static void crops_and_flips(void **state) {
    (void)state;
    struct grad_case c = {
        .name = "crops and flips",
        .build = build_plain,
        .height = 6,
        .width = 5,
        .channels = 4,
        .batch = 19,
        .shard = 16,
        .is_cropped = 1,
    };
    grad_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),
        cmocka_unit_test(global_pool),
        cmocka_unit_test(sums),
        cmocka_unit_test(relus),
        cmocka_unit_test(dropout),
        cmocka_unit_test(blank_labels),
        cmocka_unit_test(crops_and_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
