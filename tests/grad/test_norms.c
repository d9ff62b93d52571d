/* SPDX-License-Identifier: Apache-2.0 */
/* test_norms.c - gradients of every norm of the registry, of residual blocks, of every model. */
#include "gradcheck.h"
#include "models/model.h"
#include "models/resnet.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/narrow.h"

static int channels;

static int build_norm(struct oct_graph *g, int x) {
    x = oct_graph_conv(g, "front", x,
                       (struct oct_conv){.channels = channels, .kernel = 3, .pad = 1, .bias = 1});
    x = oct_graph_norm(g, "tested", x);
    return oct_graph_activation(g, "act", x);
}

/* Batches of 16 + 3 and of 2 * 16 + 5 samples: sums over the batch cross shards. */
static void norms(void **state) {
    (void)state;
    static const struct {
        int channels, batch, shard, height, width;
    } cases[] = {
        {16, 19, 16, 4, 5}, {6, 37, 16, 3, 4}, {5, 7, 4, 4, 3}, {8, 5, 2, 1, 1}, {12, 2, 16, 3, 3},
    };
    for (int i = 0; oct__norm_at(i); i++) {
        for (size_t j = 0; j < OCT_COUNT_OF(cases); j++) {
            char name[96];
            channels = cases[j].channels;
            snprintf(name, sizeof name, "%s, %d channels, batch %d", oct__norm_at(i)->plugin.name,
                     channels, cases[j].batch);
            const struct grad_case c = {
                .name = name,
                .build = build_norm,
                .norm = oct__norm_at(i)->plugin.name,
                .height = cases[j].height,
                .width = cases[j].width,
                .channels = 2,
                .batch = cases[j].batch,
                .shard = cases[j].shard,
                .n_checked = 40,
            };
            grad_check(&c);
        }
    }
}

/* Two norms in a row without anything between, the first one read by a sum as well. */
static int build_two(struct oct_graph *g, int x) {
    x = oct_graph_conv(g, "front", x, (struct oct_conv){.channels = 6, .kernel = 3, .pad = 1});
    int a = oct_graph_norm(g, "a", x);
    int b = oct_graph_norm(g, "b", a);
    return oct_graph_add(g, "sum", a, b);
}

/* One block that changes the shape and one that does not. */
static int build_blocks(struct oct_graph *g, int x) {
    x = oct_graph_conv(g, "front", x, (struct oct_conv){.channels = 4, .kernel = 3, .pad = 1});
    return oct__resnet_stage(g, "stage", x, 2, 6, 2);
}

static void blocks(void **state) {
    (void)state;
    for (int i = 0; oct__norm_at(i); i++) {
        struct grad_case c = {
            .norm = oct__norm_at(i)->plugin.name,
            .height = 6,
            .width = 5,
            .channels = 2,
            .batch = 19,
            .shard = 16,
            .n_checked = 8,
        };
        char name[64];
        snprintf(name, sizeof name, "%s twice", c.norm);
        c.name = name;
        c.build = build_two;
        grad_check(&c);
        snprintf(name, sizeof name, "residual blocks, %s", c.norm);
        c.build = build_blocks;
        grad_check(&c);
    }
}

static const char *model_spec;

static int build_model(struct oct_graph *g, int x) {
    (void)x;
    EXPECT_OK(oct__model_build(model_spec, g));
    return g->output;
}

/* Models as they are, made narrow where they can be; a few elements of every tensor. Images are so
 * large that the last norms see more than a value or two, see gradcheck.c. */
static void models(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int side, batch, n_checked;
    } sizes[] = {
        {"resnet20", 8, 5, 4}, {"resnet54", 8, 5, 4},     {"resnet18", 40, 4, 2},
        {"vgg11", 32, 4, 3},   {"mobilenetv2", 16, 4, 2},
    };
    for (int i = 0; oct__model_at(i); i++) {
        const char *name = oct__model_at(i)->plugin.name;
        size_t size = 0;
        while (size < OCT_COUNT_OF(sizes) && strcmp(sizes[size].name, name) != 0) {
            size++;
        }
        if (size == OCT_COUNT_OF(sizes)) {
            fail_msg("%s: write the size of its images into test_norms.c", name);
        }
        model_spec = narrow_model(name);
        for (int j = 0; oct__norm_at(j); j++) {
            const struct grad_case c = {
                .name = model_spec,
                .build = build_model,
                .is_whole = 1,
                .norm = oct__norm_at(j)->plugin.name,
                .height = sizes[size].side,
                .width = sizes[size].side,
                .channels = 3,
                .batch = sizes[size].batch,
                .shard = 3,
                .is_cropped = 1,
                .n_checked = sizes[size].n_checked,
            };
            grad_check(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),
        cmocka_unit_test(blocks),
        cmocka_unit_test(models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
