/* SPDX-License-Identifier: Apache-2.0 */
/* mobilenetv2.c - MobileNetV2: narrow values between blocks, wide ones and depth-wise kernels inside.
 *
 *     x ─┬─ 1×1 to expansion·in ─ norm ─ act ─ 3×3 depth-wise ─ norm ─ act ─ 1×1 to out ─ norm ─┬─ +
 *        └─ (stride 1: the input; 1×1 ─ norm where its channels change) ────────────────────────┘
 *
 * The form of the CIFAR literature: every block expands, also the first, whose factor is 1, and a
 * block of stride 1 always has a shortcut. Neither its third norm nor the sum is followed by an
 * activation. Images of up to 64 pixels keep their size in the stem and in the second row. `percent`
 * scales the widths, `blocks` is the most that a row has.
 * 2,296,922 parameters with BatchNorm, three input channels and ten classes.
 */
#include <stdio.h>

#include "base/spec.h"
#include "models/model.h"

#define SMALL_IMAGE 64
#define MOST_BLOCKS 4 /* of a row, in the table below */

struct options {
    int64_t percent, blocks;
};

static const struct oct__spec_option table[] = {
    {"percent", OCT_SPEC_INT, offsetof(struct options, percent), 25, 400, NULL},
    {"blocks", OCT_SPEC_INT, offsetof(struct options, blocks), 1, MOST_BLOCKS, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static const struct row {
    int expansion, channels, n_blocks, stride;
} rows[] = {
    {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2},  {6, 64, 4, 2},
    {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};

/* Widths are multiples of 8, so that every norm's groups divide them. */
static int scaled(int channels, int64_t percent) {
    const int eighths = (int)((channels * percent + 400) / 800);
    return eighths < 1 ? 8 : 8 * eighths;
}

static int channels_of(const struct oct_graph *graph, int x) {
    int shape[3];
    oct_graph_shape(graph, x, shape);
    return shape[2];
}

/* A convolution and its norm; `part` names both. */
static int conv_norm(struct oct_graph *graph, const char *block, const char *part, int x,
                     struct oct_conv conv) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", block, part);
    x = oct_graph_conv(graph, name, x, conv);
    snprintf(name, sizeof name, "%s%s_norm", block, part);
    return oct_graph_norm(graph, name, x);
}

/* … and an activation. */
static int conv_norm_act(struct oct_graph *graph, const char *block, const char *part, int x,
                         struct oct_conv conv) {
    char name[64];
    x = conv_norm(graph, block, part, x, conv);
    snprintf(name, sizeof name, "%s%s_act", block, part);
    return oct_graph_activation(graph, name, x);
}

static int block(struct oct_graph *graph, const char *name, int x, int expansion, int channels,
                 int stride) {
    const int in = channels_of(graph, x), wide = expansion * in;
    int y =
        conv_norm_act(graph, name, "expand", x, (struct oct_conv){.channels = wide, .kernel = 1});
    y = conv_norm_act(
        graph, name, "depthwise", y,
        (struct oct_conv){
            .channels = wide, .kernel = 3, .stride = stride, .pad = 1, .groups = wide});
    y = conv_norm(graph, name, "project", y, (struct oct_conv){.channels = channels, .kernel = 1});
    if (stride != 1) {
        return y;
    }
    if (in != channels) {
        x = conv_norm(graph, name, "shortcut", x,
                      (struct oct_conv){.channels = channels, .kernel = 1});
    }
    char sum[64];
    snprintf(sum, sizeof sum, "%ssum", name);
    return oct_graph_add(graph, sum, y, x);
}

static oct_status build(const struct oct_model_kind *kind, struct oct_graph *graph,
                        const char *text) {
    struct options options = {.percent = 100, .blocks = MOST_BLOCKS};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    int x = oct_graph_input(graph), shape[3];
    oct_graph_shape(graph, x, shape);
    const int is_small = shape[0] <= SMALL_IMAGE && shape[1] <= SMALL_IMAGE;
    x = conv_norm_act(graph, "", "stem", x,
                      (struct oct_conv){.channels = scaled(32, options.percent),
                                        .kernel = 3,
                                        .stride = is_small ? 1 : 2,
                                        .pad = 1});
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        for (int j = 0; j < row->n_blocks && j < options.blocks; j++) {
            char name[32];
            const int stride = j > 0 || (i == 1 && is_small) ? 1 : row->stride;
            snprintf(name, sizeof name, "row%d.block%d.", (int)i + 1, j);
            x = block(graph, name, x, row->expansion, scaled(row->channels, options.percent),
                      stride);
        }
    }
    x = conv_norm_act(graph, "", "head", x,
                      (struct oct_conv){.channels = scaled(1280, options.percent), .kernel = 1});
    x = oct_graph_global_pool(graph, "pool", x);
    x = oct_graph_linear(graph, "classifier", x, oct_graph_classes(graph));
    oct_graph_output(graph, x);
    return OCT_OK;
}

const struct oct_model_kind oct_model_mobilenetv2 = {
    .plugin = {.name = "mobilenetv2",
               .summary = "MobileNetV2, depth-wise convolutions, 2.3 M parameters",
               .reference = "Sandler, Howard, Zhu, Zhmoginov and Chen, arXiv 1801.04381",
               .options = "percent=100, blocks=4"},
    .build = build,
};
