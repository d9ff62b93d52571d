/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - building a network: shapes are checked and parameters declared as layers are added. */
#include "nn/graph.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/layer.h"

/* Parameters begin at multiples of a cache line, so that kernels and copies start aligned. */
#define ROW_ALIGN 16

#define SIDE_MOST 16384
#define CHANNELS_MOST 65536
#define NAME_MOST 200

/* Remembers the first mistake together with its detail. */
static void mistake(struct oct_graph *graph, oct_status status) {
    if (graph->status == OCT_OK) {
        graph->status = status;
        oct__detail_take(graph->detail);
    }
}

oct_status oct__graph_init(struct oct_graph *graph, int height, int width, int channels,
                           int n_classes, const struct oct_norm_kind *norm) {
    memset(graph, 0, sizeof *graph);
    oct__arena_init(&graph->arena);
    graph->height = height;
    graph->width = width;
    graph->channels = channels;
    graph->n_classes = n_classes;
    graph->norm = norm;
    graph->output = -1;
    if (height < 1 || width < 1 || channels < 1 || height > SIDE_MOST || width > SIDE_MOST ||
        channels > CHANNELS_MOST || n_classes < 2) {
        OCT_FAIL(SHAPE,
                 "network: input %dx%dx%d with %d classes; sides must be 1 to %d, classes at "
                 "least 2",
                 height, width, channels, n_classes, SIDE_MOST);
    }
    return OCT_OK;
}

void oct__graph_quantize(struct oct_graph *graph, const struct oct__recipe *recipe) {
    graph->is_int8 = 1;
    graph->recipe = *recipe;
}

void oct__graph_fini(struct oct_graph *graph) {
    oct__arena_fini(&graph->arena);
    oct__free(graph->layers);
    oct__free(graph->params.items);
    oct__free(graph->stats.items);
    memset(graph, 0, sizeof *graph);
}

/* --- int8 ------------------------------------------------------------------------------------ */

/* The running range of a value's quantizer starts as (0, 0). */
static void declare_range(struct oct_graph *graph, struct oct__layer *layer) {
    if (layer->range < 0) {
        layer->range = oct__graph_stat(graph, layer, "range", 2, 0);
    }
}

/* A value is quantized when a layer reads it as bytes, or when its norm writes nothing else. */
static void declare_ranges(struct oct_graph *graph) {
    for (size_t i = 0; i < graph->n_layers; i++) {
        struct oct__layer *layer = &graph->layers[i];
        for (int j = 0; layer->kind->reads_bytes && j < layer->n_in; j++) {
            declare_range(graph, &graph->layers[layer->in[j]]);
        }
        if (layer->norm && layer->norm->writes_bytes) {
            declare_range(graph, layer);
        }
    }
}

/* The paper starts a block as the identity (gamma of its last norm 0) and the classifier small. */
static void init_as_paper(struct oct_graph *graph) {
    for (size_t i = 0; i < graph->n_layers; i++) {
        const struct oct__layer *layer = &graph->layers[i];
        if (layer->kind == &oct__layer_add) {
            const struct oct__layer *last = &graph->layers[layer->in[0]];
            if (last->kind == &oct__layer_norm) {
                graph->params.items[last->param[0]].init_value = 0;
            }
        } else if (layer->id == graph->output && layer->kind == &oct__layer_conv &&
                   layer->param[1] >= 0) {
            struct oct__param *weight = &graph->params.items[layer->param[0]];
            weight->init = OCT_INIT_NORMAL;
            weight->init_value = 0.01;
            graph->params.items[layer->param[1]].init_value = 0;
        }
    }
}

oct_status oct__graph_check(struct oct_graph *graph) {
    if (graph->status != OCT_OK) {
        oct__detail_give(graph->detail);
        return graph->status;
    }
    if (graph->output < 0) {
        OCT_FAIL(INVALID, "network: it has no output; call oct_graph_output with its logits");
    }
    const struct oct__layer *last = &graph->layers[graph->output];
    if (last->h != 1 || last->w != 1 || last->c != graph->n_classes) {
        OCT_FAIL(SHAPE, "network: its output %s is %dx%dx%d; logits must be 1x1x%d", last->name,
                 last->h, last->w, last->c, graph->n_classes);
    }
    if (graph->params.n_items == 0) {
        OCT_FAIL(INVALID, "network: it has no parameters, so there is nothing to train");
    }
    if (graph->is_int8) {
        declare_ranges(graph);
        if (graph->recipe.init == OCT_INIT_PAPER) {
            init_as_paper(graph);
        }
    }
    return graph->status;
}

/* --- rows ------------------------------------------------------------------------------------ */

static oct_status row_add(struct oct_graph *graph, struct oct__row *row, const char *layer,
                          const char *name, struct oct__param param, int *index) {
    void *items = row->items;
    OCT_TRY(oct__alloc_grow(&items, &row->capacity, row->n_items + 1, sizeof *row->items,
                            "parameter list"));
    row->items = items;
    OCT_TRY(oct__arena_text(&graph->arena, &param.name, "%s.%s", layer, name));
    param.count = (size_t)param.n * (size_t)param.h * (size_t)param.w * (size_t)param.c;
    param.offset = row->n_elements;
    row->n_elements += (param.count + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    if (row->n_elements > INT32_MAX) {
        OCT_FAIL(SHAPE, "%s: more than %d parameters in all", param.name, INT32_MAX);
    }
    *index = (int)row->n_items;
    row->items[row->n_items++] = param;
    return OCT_OK;
}

int oct__graph_param(struct oct_graph *graph, const struct oct__layer *layer, const char *name,
                     struct oct__param shape) {
    int index = -1;
    oct_status status = row_add(graph, &graph->params, layer->name, name, shape, &index);
    if (status != OCT_OK) {
        mistake(graph, status);
    }
    return index;
}

int oct__graph_stat(struct oct_graph *graph, const struct oct__layer *layer, const char *name,
                    int channels, double value) {
    int index = -1;
    oct_status status = row_add(graph, &graph->stats, layer->name, name,
                                oct__vector_param(channels, value), &index);
    if (status != OCT_OK) {
        mistake(graph, status);
    }
    return index;
}

struct oct__param oct__vector_param(int channels, double value) {
    struct oct__param param = {.n = 1,
                               .h = 1,
                               .w = 1,
                               .c = channels,
                               .n_dims = 1,
                               .init = OCT_INIT_CONSTANT,
                               .init_value = value};
    return param;
}

void oct__row_init(const struct oct__row *row, uint64_t seed, float *values) {
    memset(values, 0, row->n_elements * sizeof *values);
    for (size_t p = 0; p < row->n_items; p++) {
        const struct oct__param *param = &row->items[p];
        float *to = values + param->offset;
        struct oct__stream stream = oct__stream(seed, OCT_PURPOSE_INIT, 0, 0, (uint32_t)p);
        for (size_t i = 0; i < param->count; i += 4) {
            uint32_t block[4];
            double v[4] = {param->init_value, param->init_value, param->init_value,
                           param->init_value};
            oct__stream_block(&stream, (uint32_t)(i / 4), block);
            if (param->init == OCT_INIT_NORMAL) {
                double normal[4];
                oct__normal_pair(block[0], block[1], normal);
                oct__normal_pair(block[2], block[3], normal + 2);
                for (int j = 0; j < 4; j++) {
                    v[j] *= normal[j];
                }
            } else if (param->init == OCT_INIT_UNIFORM) {
                for (int j = 0; j < 4; j++) {
                    v[j] *= 2.0 * (((double)block[j] + 0.5) * 0x1p-32) - 1.0;
                }
            }
            for (size_t j = 0; j < 4 && i + j < param->count; j++) {
                to[i + j] = (float)v[j];
            }
        }
    }
}

size_t oct__row_count(const struct oct__row *row) {
    size_t count = 0;
    for (size_t p = 0; p < row->n_items; p++) {
        count += row->items[p].count;
    }
    return count;
}

/* --- layers ---------------------------------------------------------------------------------- */

/* Names go into model files as they are, so what needs escaping there is refused. */
static oct_status check_name(const char *name) {
    size_t length = 0;
    for (; name[length]; length++) {
        unsigned char c = (unsigned char)name[length];
        if (length == NAME_MOST || c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
            break;
        }
    }
    if (length == 0 || name[length]) {
        OCT_FAIL(INVALID,
                 "a layer's name '%.40s' is empty, longer than %d bytes, or has a quote, a "
                 "backslash or a control character in it",
                 name, NAME_MOST);
    }
    return OCT_OK;
}

static oct_status layer_push(struct oct_graph *graph, const struct oct__layer_kind *kind,
                             const char *name, int n_in, const int *in, struct oct__layer **out) {
    void *layers = graph->layers;
    OCT_TRY(check_name(name));
    for (size_t i = 0; i < graph->n_layers; i++) {
        if (strcmp(graph->layers[i].name, name) == 0) {
            OCT_FAIL(INVALID, "%s: two layers have this name", name);
        }
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] < 0 || (size_t)in[i] >= graph->n_layers) {
            OCT_FAIL(INVALID, "%s: its input %d is no value of this graph", name, in[i]);
        }
    }
    OCT_TRY(oct__alloc_grow(&layers, &graph->layer_capacity, graph->n_layers + 1,
                            sizeof *graph->layers, "layer list"));
    graph->layers = layers;
    struct oct__layer *layer = &graph->layers[graph->n_layers];
    memset(layer, 0, sizeof *layer);
    OCT_TRY(oct__arena_text(&graph->arena, &layer->name, "%s", name));
    layer->kind = kind;
    layer->id = (int)graph->n_layers++;
    layer->n_in = n_in;
    layer->range = -1;
    for (int i = 0; i < OCT_LAYER_PARAMS; i++) {
        layer->param[i] = -1;
    }
    for (int i = 0; i < OCT_LAYER_STATS; i++) {
        layer->stat[i] = -1;
    }
    for (int i = 0; i < n_in; i++) {
        struct oct__layer *from = &graph->layers[in[i]];
        from->n_uses++;
        layer->in[i] = in[i];
        layer->h = from->h;
        layer->w = from->w;
        layer->c = from->c;
    }
    *out = layer;
    return OCT_OK;
}

/* A new layer with the shape of its last input, or NULL after a mistake. */
static struct oct__layer *layer_new(struct oct_graph *graph, const struct oct__layer_kind *kind,
                                    const char *name, int n_in, const int *in) {
    struct oct__layer *layer = NULL;
    if (graph->status == OCT_OK) {
        oct_status status = layer_push(graph, kind, name ? name : "", n_in, in, &layer);
        if (status != OCT_OK) {
            mistake(graph, status);
            return NULL;
        }
    }
    return layer;
}

static int refuse(struct oct_graph *graph, oct_status status) {
    mistake(graph, status);
    return -1;
}

/* A finished layer's value, or -1 when declaring its parameters went wrong. Values stay small
 * enough that sizes times any batch and number of nodes fit 64 bits. */
static int done(struct oct_graph *graph, const struct oct__layer *layer) {
    if ((int64_t)layer->h * layer->w > INT32_MAX / layer->c) {
        return refuse(graph, oct__fail(OCT_STATUS_SHAPE, "%s: its value of %dx%dx%d is too large",
                                       layer->name, layer->h, layer->w, layer->c));
    }
    return graph->status == OCT_OK ? layer->id : -1;
}

int oct_graph_input(struct oct_graph *graph) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_input, "input", 0, NULL);
    if (!layer) {
        return -1;
    }
    layer->h = graph->height;
    layer->w = graph->width;
    layer->c = graph->channels;
    return done(graph, layer);
}

int oct_graph_classes(const struct oct_graph *graph) {
    return graph->n_classes;
}

/* Rows of the output of a window that slides over `size` padded rows; 0 when it does not fit. */
static int slide(int size, int kernel, int stride, int pad) {
    int room = size + 2 * pad - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

int oct_graph_conv(struct oct_graph *graph, const char *name, int x, struct oct_conv conv) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_conv, name, 1, &x);
    if (!layer) {
        return -1;
    }
    const int in = layer->c;
    conv.stride = conv.stride ? conv.stride : 1;
    conv.groups = conv.groups ? conv.groups : 1;
    if (conv.channels < 1 || conv.channels > CHANNELS_MOST || conv.kernel < 1 || conv.stride < 1 ||
        conv.pad < 0 || conv.groups < 1 || conv.pad >= conv.kernel || conv.kernel > SIDE_MOST) {
        return refuse(
            graph,
            oct__fail(OCT_STATUS_INVALID,
                      "%s: convolution with %d channels, kernel %d, stride %d, padding %d, "
                      "%d groups; all but the padding must be positive, the padding smaller "
                      "than the kernel",
                      layer->name, conv.channels, conv.kernel, conv.stride, conv.pad, conv.groups));
    }
    if (in % conv.groups || conv.channels % conv.groups) {
        return refuse(graph,
                      oct__fail(OCT_STATUS_SHAPE,
                                "%s: %d groups do not divide %d input and %d output channels",
                                layer->name, conv.groups, in, conv.channels));
    }
    const int h = layer->h, w = layer->w;
    layer->h = slide(h, conv.kernel, conv.stride, conv.pad);
    layer->w = slide(w, conv.kernel, conv.stride, conv.pad);
    layer->c = conv.channels;
    layer->attr.conv.kernel = conv.kernel;
    layer->attr.conv.stride = conv.stride;
    layer->attr.conv.pad = conv.pad;
    layer->attr.conv.groups = conv.groups;
    if (layer->h < 1 || layer->w < 1) {
        return refuse(graph,
                      oct__fail(OCT_STATUS_SHAPE, "%s: kernel %d does not fit an input of %dx%d",
                                layer->name, conv.kernel, h, w));
    }
    /* Kaiming's rule with the outputs that one input meets. A depth-wise kernel meets one: with all
       channels in its place, as the formula is often written, its outputs begin so small that
       EvoNorm's x * sigmoid(v x) is all but linear, and MobileNetV2 hardly begins to learn. */
    const int reached = conv.channels / conv.groups;
    const double fan_out = (double)conv.kernel * conv.kernel * reached;
    struct oct__param weight = {
        .n = conv.channels,
        .h = conv.kernel,
        .w = conv.kernel,
        .c = in / conv.groups,
        .n_dims = 4,
        .init = OCT_INIT_NORMAL,
        .init_value = sqrt(2.0 / fan_out),
    };
    layer->param[0] = oct__graph_param(graph, layer, "weight", weight);
    if (conv.bias) {
        layer->param[1] =
            oct__graph_param(graph, layer, "bias", oct__vector_param(conv.channels, 0));
    }
    return done(graph, layer);
}

/* A linear layer is a convolution whose kernel covers the whole map, which must be one position. */
int oct_graph_linear(struct oct_graph *graph, const char *name, int x, int channels) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_conv, name, 1, &x);
    if (!layer) {
        return -1;
    }
    const int in = layer->c;
    if (layer->h != 1 || layer->w != 1 || channels < 1 || channels > CHANNELS_MOST) {
        return refuse(graph, oct__fail(OCT_STATUS_SHAPE,
                                       "%s: linear layer from %dx%dx%d to %d; pool to 1x1 first",
                                       layer->name, layer->h, layer->w, in, channels));
    }
    layer->c = channels;
    layer->attr.conv.kernel = layer->attr.conv.stride = layer->attr.conv.groups = 1;
    const double bound = 1.0 / sqrt((double)in);
    struct oct__param weight = {.n = channels,
                                .h = 1,
                                .w = 1,
                                .c = in,
                                .n_dims = 2,
                                .init = OCT_INIT_UNIFORM,
                                .init_value = bound};
    struct oct__param bias = oct__vector_param(channels, bound);
    bias.init = OCT_INIT_UNIFORM;
    layer->param[0] = oct__graph_param(graph, layer, "weight", weight);
    layer->param[1] = oct__graph_param(graph, layer, "bias", bias);
    return done(graph, layer);
}

/* The norm's number of groups, or the largest smaller one that divides the channels. */
static int norm_groups(const struct oct_norm_kind *norm, int channels) {
    int groups = norm->groups;
    while (groups > 1 && channels % groups != 0) {
        groups--;
    }
    return groups;
}

int oct_graph_norm(struct oct_graph *graph, const char *name, int x) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_norm, name, 1, &x);
    if (!layer) {
        return -1;
    }
    layer->norm = graph->norm;
    layer->attr.norm.groups = norm_groups(graph->norm, layer->c);
    graph->norm->declare(graph, layer);
    return done(graph, layer);
}

int oct_graph_relu(struct oct_graph *graph, const char *name, int x) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_relu, name, 1, &x);
    return layer ? layer->id : -1;
}

int oct_graph_activation(struct oct_graph *graph, const char *name, int x) {
    return graph->norm->has_activation ? x : oct_graph_relu(graph, name, x);
}

int oct_graph_add(struct oct_graph *graph, const char *name, int a, int b) {
    const int in[2] = {a, b};
    struct oct__layer *layer = layer_new(graph, &oct__layer_add, name, 2, in);
    if (!layer) {
        return -1;
    }
    const struct oct__layer *left = &graph->layers[a];
    if (left->h != layer->h || left->w != layer->w || left->c != layer->c) {
        return refuse(graph,
                      oct__fail(OCT_STATUS_SHAPE, "%s: sum of %s (%dx%dx%d) and %s (%dx%dx%d)",
                                layer->name, left->name, left->h, left->w, left->c,
                                graph->layers[b].name, layer->h, layer->w, layer->c));
    }
    return layer->id;
}

static int pool(struct oct_graph *graph, const struct oct__layer_kind *kind, const char *name,
                int x, int kernel_h, int kernel_w, int stride, int pad) {
    struct oct__layer *layer = layer_new(graph, kind, name, 1, &x);
    if (!layer) {
        return -1;
    }
    const int h = layer->h, w = layer->w;
    if (kernel_h == 0) { /* the whole map */
        kernel_h = h;
        kernel_w = w;
    }
    if (kernel_h < 1 || kernel_w < 1 || stride < 1 || pad < 0 || pad > kernel_h / 2 ||
        kernel_h > SIDE_MOST || (kind == &oct__layer_pool_max && kernel_h * kernel_w > 255)) {
        return refuse(graph,
                      oct__fail(OCT_STATUS_INVALID,
                                "%s: pooling with kernel %d, stride %d, padding %d; the padding "
                                "may be half the kernel, a maximum's kernel at most 15",
                                layer->name, kernel_w, stride, pad));
    }
    layer->h = slide(h, kernel_h, stride, pad);
    layer->w = slide(w, kernel_w, stride, pad);
    layer->attr.pool.kernel_h = kernel_h;
    layer->attr.pool.kernel_w = kernel_w;
    layer->attr.pool.stride = stride;
    layer->attr.pool.pad = pad;
    if (layer->h < 1 || layer->w < 1) {
        return refuse(graph,
                      oct__fail(OCT_STATUS_SHAPE, "%s: kernel %d does not fit an input of %dx%d",
                                layer->name, kernel_h, h, w));
    }
    return done(graph, layer);
}

int oct_graph_max_pool(struct oct_graph *graph, const char *name, int x, struct oct_pool p) {
    return pool(graph, &oct__layer_pool_max, name, x, p.kernel > 0 ? p.kernel : -1, p.kernel,
                p.stride ? p.stride : p.kernel, p.pad);
}

int oct_graph_avg_pool(struct oct_graph *graph, const char *name, int x, struct oct_pool p) {
    return pool(graph, &oct__layer_pool_avg, name, x, p.kernel > 0 ? p.kernel : -1, p.kernel,
                p.stride ? p.stride : p.kernel, p.pad);
}

int oct_graph_global_pool(struct oct_graph *graph, const char *name, int x) {
    return pool(graph, &oct__layer_pool_avg, name, x, 0, 0, 1, 0);
}

int oct_graph_dropout(struct oct_graph *graph, const char *name, int x, double rate) {
    struct oct__layer *layer = layer_new(graph, &oct__layer_dropout, name, 1, &x);
    if (!layer) {
        return -1;
    }
    if (!(rate >= 0.0 && rate < 1.0)) {
        return refuse(graph, oct__fail(OCT_STATUS_INVALID,
                                       "%s: dropout rate %g; it must be at least 0 and below 1",
                                       layer->name, rate));
    }
    layer->attr.dropout.rate = (float)rate;
    return layer->id;
}

void oct_graph_output(struct oct_graph *graph, int x) {
    if (graph->status != OCT_OK) {
        return;
    }
    if (x < 0 || (size_t)x >= graph->n_layers) {
        mistake(graph, oct__fail(OCT_STATUS_INVALID, "output: %d is no value of this graph", x));
        return;
    }
    graph->output = x;
}

void oct_graph_shape(const struct oct_graph *graph, int x, int shape[3]) {
    shape[0] = shape[1] = shape[2] = 0;
    if (x >= 0 && (size_t)x < graph->n_layers) {
        shape[0] = graph->layers[x].h;
        shape[1] = graph->layers[x].w;
        shape[2] = graph->layers[x].c;
    }
}
