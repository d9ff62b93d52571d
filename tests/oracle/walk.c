/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - see walk.h. */
#include "oracle/walk.h"

#include <stdlib.h>

#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/narrow.h"
#include "support/rig.h"

enum { SIDE = 8, CHANNELS = 3, CLASSES = 10, IMAGES = 40, BATCH = 6, NODES = 2, STEPS = 2 };

static const struct walk_form forms[] = {
    {"range-evonorm", "octet", 0, NULL},
    {"range-evonorm", "paper", 0, "resnet20:width=8"},
    {"range-evonorm", "octet:range=full,weights=channel", 1, NULL},
    {"range-batchnorm", "octet:gradients=sample", 0, NULL},
    {"batchnorm", "octet:weights=channel,gradients=sample", 0, NULL},
    {"groupnorm", "paper", 1, NULL},
    {"evonorm-s0", "octet", 0, NULL},
    {"range-batchnorm", "octet", 0, "resnet18:width=8"},
    {"groupnorm", "octet:weights=channel", 0, "vgg11:width=4"},
    {"batchnorm", "paper", 1, "mobilenetv2:percent=25,blocks=1"},
};

/* After those, every model as int8 trains it. */
const struct walk_form *walk_form_at(int index) {
    static struct walk_form plain = {"range-evonorm", "octet", 0, NULL};
    const int model = index - (int)OCT_COUNT_OF(forms);
    if (model < 0) {
        return index < 0 ? NULL : &forms[index];
    }
    plain.model = oct__model_at(model) ? narrow_model(oct__model_at(model)->plugin.name) : NULL;
    return plain.model ? &plain : NULL;
}

/* --- a network with a bit of everything ---------------------------------------------------------- */

/* Odd widths, a grouped convolution, a bias, strides, a sum of two and of three branches, both kinds
 * of pooling, dropout, a map of one position. */
static void build_odd(struct oct_graph *g) {
    int x = oct_graph_input(g);
    x = oct_graph_conv(g, "stem", x, (struct oct_conv){.channels = 16, .kernel = 3, .pad = 1});
    x = oct_graph_norm(g, "stem_norm", x);
    int trunk = oct_graph_activation(g, "stem_act", x);
    x = oct_graph_conv(g, "grouped", trunk,
                       (struct oct_conv){.channels = 16, .kernel = 3, .pad = 1, .groups = 4});
    x = oct_graph_norm(g, "grouped_norm", x);
    int a = oct_graph_add(g, "sum", x, trunk);
    int b =
        oct_graph_conv(g, "side", trunk, (struct oct_conv){.channels = 16, .kernel = 1, .bias = 1});
    x = oct_graph_add(g, "sum_of_sums", a, b);
    x = oct_graph_max_pool(g, "max", x, (struct oct_pool){.kernel = 2});
    x = oct_graph_conv(g, "half", x,
                       (struct oct_conv){.channels = 24, .kernel = 3, .pad = 1, .stride = 2});
    x = oct_graph_norm(g, "half_norm", x);
    x = oct_graph_relu(g, "relu", x);
    x = oct_graph_avg_pool(g, "average", x, (struct oct_pool){.kernel = 2});
    x = oct_graph_conv(g, "point", x, (struct oct_conv){.channels = 32, .kernel = 1});
    x = oct_graph_norm(g, "point_norm", x);
    x = oct_graph_dropout(g, "dropout", x, 0.25);
    x = oct_graph_linear(g, "head", x, oct_graph_classes(g));
    oct_graph_output(g, x);
}

static void build(struct oct_graph *graph, const struct walk_form *form) {
    const struct oct_norm_kind *norm = oct__norm_find(form->norm);
    struct oct__recipe recipe;
    if (!norm) {
        fail_msg("there is no norm %s", form->norm);
    }
    EXPECT_OK(oct__recipe_read(form->recipe, &recipe));
    recipe.stochastic = form->stochastic;
    EXPECT_OK(oct__graph_init(graph, SIDE, SIDE, CHANNELS, CLASSES, norm));
    oct__graph_quantize(graph, &recipe);
    if (form->model) {
        EXPECT_OK(oct__model_build(form->model, graph));
    } else {
        build_odd(graph);
    }
    EXPECT_OK(oct__graph_check(graph));
}

/* --- the walk ------------------------------------------------------------------------------------ */

/* Copies of a call's operands on the host, for all nodes, one after another. */
static void fetch(struct rig *rig, const struct oct__program_call *call, const char *letters,
                  void **copies) {
    const char *operands = oct__op_info[call->op].operands;
    for (int i = 0; operands[i]; i++) {
        copies[i] = NULL;
        if (call->tensors[i] >= 0 && strchr(letters, operands[i])) {
            const size_t bytes = oct__tensor_bytes(&rig->program->tensors[call->tensors[i]].shape);
            copies[i] = malloc((size_t)NODES * bytes);
            assert_non_null(copies[i]);
            for (int node = 0; node < NODES; node++) {
                rig_read(rig, call->tensors[i], node, (char *)copies[i] + (size_t)node * bytes);
            }
        }
    }
}

static void judge_call(struct rig *rig, size_t index, struct verdict *verdict) {
    const struct oct__program_call *call = &rig->program->calls[index];
    const char *operands = oct__op_info[call->op].operands;
    void *before[OCT_ARGS_MOST] = {NULL}, *after[OCT_ARGS_MOST] = {NULL}, *run[OCT_ARGS_MOST];
    struct oct__args args = {.attr = call->attr, .layer = call->layer};
    fetch(rig, call, "iIb", before);
    rig_run(rig, index, index + 1);
    fetch(rig, call, "oObB", after);
    for (int i = 0; operands[i]; i++) {
        run[i] = operands[i] == 'b' ? after[i] : NULL;
        if (call->tensors[i] >= 0) {
            args.t[i] = rig->program->tensors[call->tensors[i]].shape;
            args.t[i].at = before[i] ? before[i] : after[i];
            args.t[i].stride = oct__tensor_bytes(&args.t[i]);
        }
    }
    char where[96];
    snprintf(where, sizeof where, "step %u, call %zu, layer %s", rig->lane.step, index,
             call->layer >= 0 ? rig->graph->layers[call->layer].name : "-");
    judge(&rig->lane, call->op, &args, run, where, verdict);
    for (int i = 0; i < OCT_ARGS_MOST; i++) {
        free(before[i]);
        free(after[i]);
    }
}

static void step(struct rig *rig, struct verdict *verdicts) {
    for (size_t i = 0; i < rig->program->n_calls; i++) {
        const enum oct__op op = rig->program->calls[i].op;
        int n;
        oct__sim_outputs(op, &n);
        if (n > 0) {
            judge_call(rig, i, &verdicts[op]);
        } else {
            rig_run(rig, i, i + 1);
        }
    }
}

static void pick(struct rig *rig, uint32_t seed) {
    for (int node = 0; node < NODES; node++) {
        struct dice dice = dice_of(seed + (uint32_t)node);
        struct oct__pick picks[BATCH];
        for (int i = 0; i < BATCH; i++) {
            picks[i] = (struct oct__pick){
                .row = dice_below(&dice, IMAGES),
                .dy = dice_below(&dice, 3) - 1,
                .dx = dice_below(&dice, 3) - 1,
                .flip = dice_below(&dice, 2),
                .label = dice_below(&dice, CLASSES),
            };
        }
        rig_write_picks(rig, node, picks);
    }
}

void walk(struct oct__engine *engine, const struct walk_form *form, struct verdict *verdicts) {
    static uint8_t images[IMAGES * SIDE * SIDE * CHANNELS];
    static float lut[RIG_LUT];
    struct dice dice = dice_of(4);
    for (size_t i = 0; i < sizeof images; i++) {
        images[i] = (uint8_t)dice_below(&dice, 256);
    }
    for (int i = 0; i < RIG_LUT; i++) {
        lut[i] = ((float)(i % 256) - 120.0F) / 60.0F;
    }
    struct oct_graph graph;
    struct rig rig;
    struct rig_form rig_form = {
        .mode = OCT_MODE_TRAIN,
        .batch = BATCH,
        .n_nodes = NODES,
        .n_threads = engine->n_threads,
        .shard = 4,
        .seed = 21,
        .first_node = 3,
        .learning_rate = 0.05F,
        .beta = 0.9F,
        .decay = 1e-4F,
    };
    build(&graph, form);
    float *params[NODES], *stats[NODES];
    rig_open(&rig, engine, &graph, &rig_form, images, IMAGES, lut);
    rig.lane.watch = 1;
    for (int node = 0; node < NODES; node++) {
        params[node] = calloc(graph.params.n_elements + 1, sizeof *params[node]);
        stats[node] = calloc(graph.stats.n_elements + 1, sizeof *stats[node]);
        assert_non_null(params[node]);
        assert_non_null(stats[node]);
        oct__row_init(&graph.params, 7 + (uint64_t)node, params[node]);
        rig_write_row(&rig, OCT_HOME_PARAM, node, params[node]);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        rig.lane.step = 30 + i;
        pick(&rig, 500 + 10 * i);
        step(&rig, verdicts);
    }
    for (int node = 0; node < NODES; node++) {
        rig_read_row(&rig, OCT_HOME_PARAM, node, params[node]);
        rig_read_row(&rig, OCT_HOME_STAT, node, stats[node]);
    }
    rig_close(&rig);

    rig_form.mode = OCT_MODE_EVAL;
    rig_open(&rig, engine, &graph, &rig_form, images, IMAGES, lut);
    for (int node = 0; node < NODES; node++) {
        rig_write_row(&rig, OCT_HOME_PARAM, node, params[node]);
        rig_write_row(&rig, OCT_HOME_STAT, node, stats[node]);
        free(params[node]);
        free(stats[node]);
    }
    pick(&rig, 900);
    step(&rig, verdicts);
    rig_close(&rig);
    oct__graph_fini(&graph);
}
