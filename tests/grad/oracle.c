/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c - the double-precision forward pass: see oracle.h. */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "nn/layer.h"
#include "support/check.h"

static void *zeros(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    assert_non_null(memory);
    return memory;
}

static size_t map_elements(const struct oct__layer *layer) {
    return (size_t)layer->h * (size_t)layer->w * (size_t)layer->c;
}

void oracle_open(struct oracle *oracle, const struct oct_graph *graph, int batch) {
    memset(oracle, 0, sizeof *oracle);
    oracle->graph = graph;
    oracle->batch = batch;
    oracle->params = zeros(graph->params.n_elements, sizeof(double));
    oracle->stats = zeros(graph->stats.n_elements, sizeof(double));
    oracle->new_stats = zeros(graph->stats.n_elements, sizeof(double));
    oracle->sample_loss = zeros((size_t)batch, sizeof(double));
    oracle->values = zeros(graph->n_layers, sizeof(double *));
    oracle->sides = zeros(graph->n_layers, sizeof(int *));
    for (size_t i = 0; i < graph->n_layers; i++) {
        size_t elements = (size_t)batch * map_elements(&graph->layers[i]);
        oracle->values[i] = zeros(elements, sizeof(double));
        oracle->sides[i] = zeros(elements, sizeof(int));
    }
    oracle->input = oracle->values[0];
    for (size_t i = 0; i < graph->stats.n_items; i++) {
        const struct oct__param *stat = &graph->stats.items[i];
        for (size_t j = 0; j < stat->count; j++) {
            oracle->stats[stat->offset + j] = stat->init_value;
        }
    }
}

void oracle_close(struct oracle *oracle) {
    for (size_t i = 0; i < oracle->graph->n_layers; i++) {
        free(oracle->values[i]);
        free(oracle->sides[i]);
    }
    free(oracle->values);
    free(oracle->sides);
    free(oracle->params);
    free(oracle->stats);
    free(oracle->new_stats);
    free(oracle->sample_loss);
}

void oracle_input(struct oracle *oracle, const uint8_t *images, const float *lut,
                  const struct oct__pick *picks) {
    const struct oct_graph *g = oracle->graph;
    assert_string_equal(g->layers[0].kind->name, "input");
    for (int n = 0; n < oracle->batch; n++) {
        const struct oct__pick *pick = &picks[n];
        for (int y = 0; y < g->height; y++) {
            for (int x = 0; x < g->width; x++) {
                int from_y = y + pick->dy, from_x = x + pick->dx;
                int to_x = pick->flip ? g->width - 1 - x : x;
                for (int c = 0; c < g->channels; c++) {
                    int byte = 0;
                    if (from_y >= 0 && from_y < g->height && from_x >= 0 && from_x < g->width) {
                        byte = images[((pick->row * g->height + from_y) * g->width + from_x) *
                                          g->channels +
                                      c];
                    }
                    oracle->input[((n * g->height + y) * g->width + to_x) * g->channels + c] =
                        (double)lut[c * 256 + byte];
                }
            }
        }
    }
}

/* --- layers ---------------------------------------------------------------------------------- */

static const double *param_of(const struct oracle *o, const struct oct__layer *layer, int index) {
    int param = layer->param[index];
    return param < 0 ? NULL : o->params + o->graph->params.items[param].offset;
}

/* An element of [n][h][w][c]. */
static double at(const double *v, const struct oct__layer *layer, int n, int y, int x, int c) {
    return v[((n * layer->h + y) * layer->w + x) * layer->c + c];
}

/* The weight [out][in/groups][row][column] as [row][column][in/groups][out]: outputs side by side, so that
 * a compiler may take several at once. */
static double *turned(const double *weight, int out, int in, int kernel) {
    double *taps = zeros((size_t)(out * in * kernel * kernel), sizeof *taps);
    for (int c = 0; c < out; c++) {
        for (int i = 0; i < in; i++) {
            for (int tap = 0; tap < kernel * kernel; tap++) {
                taps[(tap * in + i) * out + c] = weight[(c * in + i) * kernel * kernel + tap];
            }
        }
    }
    return taps;
}

static void run_conv(struct oracle *o, const struct oct__layer *layer) {
    const struct oct__conv_attr *conv = &layer->attr.conv;
    const struct oct__layer *from = &o->graph->layers[layer->in[0]];
    const double *bias = param_of(o, layer, 1);
    const int k = conv->kernel, in = from->c / conv->groups, out = layer->c / conv->groups;
    assert_int_equal(layer->h, (from->h + 2 * conv->pad - k) / conv->stride + 1);
    assert_int_equal(layer->w, (from->w + 2 * conv->pad - k) / conv->stride + 1);
    double *taps = turned(param_of(o, layer, 0), layer->c, in, k), *y = o->values[layer->id];
    for (int i = 0; i < o->batch * layer->h * layer->w; i++, y += layer->c) {
        const int n = i / (layer->h * layer->w), row = i / layer->w % layer->h;
        const int column = i % layer->w;
        for (int c = 0; c < layer->c; c++) {
            y[c] = bias ? bias[c] : 0.0;
        }
        for (int tap = 0; tap < k * k; tap++) {
            const int x_row = row * conv->stride - conv->pad + tap / k;
            const int x_column = column * conv->stride - conv->pad + tap % k;
            if (x_row < 0 || x_row >= from->h || x_column < 0 || x_column >= from->w) {
                continue; /* 0 outside the map */
            }
            const double *x =
                o->values[from->id] + ((n * from->h + x_row) * from->w + x_column) * from->c;
            for (int g = 0; g < conv->groups; g++) {
                for (int c = 0; c < in; c++) {
                    const double *weight = taps + (tap * in + c) * layer->c + g * out;
                    const double value = x[g * in + c];
                    double *to = y + g * out;
                    for (int j = 0; j < out; j++) {
                        to[j] += weight[j] * value;
                    }
                }
            }
        }
    }
    free(taps);
}

static void note_margin(struct oracle *o, double distance) {
    if (!o->is_frozen && distance < o->margin) {
        o->margin = distance;
    }
}

static void run_relu(struct oracle *o, const struct oct__layer *layer) {
    const double *x = o->values[layer->in[0]];
    double *y = o->values[layer->id];
    int *side = o->sides[layer->id];
    for (size_t i = 0; i < (size_t)o->batch * map_elements(layer); i++) {
        if (!o->is_frozen) {
            side[i] = x[i] > 0;
            note_margin(o, x[i] == 0.0 ? DBL_MAX : fabs(x[i])); /* 0 by construction stays 0 */
        }
        y[i] = side[i] ? x[i] : 0.0;
    }
}

static void run_add(struct oracle *o, const struct oct__layer *layer) {
    const double *a = o->values[layer->in[0]], *b = o->values[layer->in[1]];
    for (size_t i = 0; i < (size_t)o->batch * map_elements(layer); i++) {
        o->values[layer->id][i] = a[i] + b[i];
    }
}

/* Padding is never the maximum and is not counted in a mean. Values that are equal were computed alike
 * from alike inputs, as those of a black border, or are zeros of a ReLU: which of them is first makes
 * no difference to any parameter, so the margin is that to the next smaller one. */
static void run_pool(struct oracle *o, const struct oct__layer *layer, int is_max) {
    const struct oct__layer *from = &o->graph->layers[layer->in[0]];
    const double *x = o->values[layer->in[0]];
    double *to = o->values[layer->id];
    int *side = o->sides[layer->id];
    const int stride = layer->attr.pool.stride, pad = layer->attr.pool.pad;
    for (int n = 0; n < o->batch; n++) {
        for (int row = 0; row < layer->h; row++) {
            for (int column = 0; column < layer->w; column++) {
                for (int c = 0; c < layer->c; c++, to++, side++) {
                    double best = -DBL_MAX, second = -DBL_MAX, sum = 0.0;
                    int place = -1, count = 0;
                    for (int r = 0; r < layer->attr.pool.kernel_h; r++) {
                        for (int q = 0; q < layer->attr.pool.kernel_w; q++) {
                            int y = row * stride - pad + r, z = column * stride - pad + q;
                            if (y < 0 || y >= from->h || z < 0 || z >= from->w) {
                                continue;
                            }
                            double v = at(x, from, n, y, z, c);
                            count++;
                            sum += v;
                            if (v > best) {
                                second = best;
                                best = v;
                                place = y * from->w + z;
                            } else if (v > second && v < best) {
                                second = v;
                            }
                        }
                    }
                    assert_true(count > 0);
                    if (!is_max) {
                        *to = sum / count;
                        continue;
                    }
                    if (!o->is_frozen) {
                        *side = place;
                        note_margin(o, second > -DBL_MAX ? best - second : DBL_MAX);
                    }
                    *to = at(x, from, n, *side / from->w, *side % from->w, c);
                }
            }
        }
    }
}

/* An element is kept when its word of the layer's stream, as a number in [0, 1), is at least the
 * rate. */
static void run_dropout(struct oracle *o, const struct oct__layer *layer) {
    const double *x = o->values[layer->in[0]];
    const float rate = layer->attr.dropout.rate;
    struct oct__stream stream =
        oct__stream(o->seed, OCT_PURPOSE_DROPOUT, o->node, o->step, (uint32_t)layer->id);
    for (size_t i = 0; i < (size_t)o->batch * map_elements(layer); i++) {
        uint32_t word;
        oct__stream_words(&stream, i, 1, &word);
        int kept = o->is_eval || oct__unit_float(word) >= rate;
        double scale = o->is_eval ? 1.0 : 1.0 / (1.0 - (double)rate);
        o->values[layer->id][i] = kept ? x[i] * scale : 0.0;
    }
}

/* --- norms ----------------------------------------------------------------------------------- */

static const double eps = 1e-5;

static void run_batchnorm(struct oracle *o, const struct oct__layer *layer) {
    const double *x = o->values[layer->in[0]];
    const double *gamma = param_of(o, layer, 0), *beta = param_of(o, layer, 1);
    const size_t positions = (size_t)o->batch * (size_t)layer->h * (size_t)layer->w;
    const size_t channels = (size_t)layer->c;
    const size_t run_mean = o->graph->stats.items[layer->stat[0]].offset;
    const size_t run_var = o->graph->stats.items[layer->stat[1]].offset;
    for (size_t c = 0; c < channels; c++) {
        double mean = 0.0, square = 0.0;
        for (size_t i = 0; i < positions; i++) {
            mean += x[i * channels + c] / (double)positions;
        }
        for (size_t i = 0; i < positions; i++) {
            double d = x[i * channels + c] - mean;
            square += d * d;
        }
        double var = square / (double)positions;
        double unbiased = positions > 1 ? square / (double)(positions - 1) : square;
        o->new_stats[run_mean + c] = 0.9 * o->stats[run_mean + c] + 0.1 * mean;
        o->new_stats[run_var + c] = 0.9 * o->stats[run_var + c] + 0.1 * unbiased;
        if (o->is_eval) {
            mean = o->stats[run_mean + c];
            var = o->stats[run_var + c];
        }
        for (size_t i = 0; i < positions; i++) {
            o->values[layer->id][i * channels + c] =
                gamma[c] * (x[i * channels + c] - mean) / sqrt(var + eps) + beta[c];
        }
    }
}

/* The largest number of groups, at most `wanted`, that divides the channels. */
static int groups_of(int channels, int wanted) {
    while (channels % wanted != 0) {
        wanted--;
    }
    return wanted;
}

static void run_group(struct oracle *o, const struct oct__layer *layer, int wanted, int is_evo) {
    const double *gamma = param_of(o, layer, 0), *beta = param_of(o, layer, 1);
    const double *v = is_evo ? param_of(o, layer, 2) : NULL;
    const int groups = groups_of(layer->c, wanted), width = layer->c / groups;
    const int positions = layer->h * layer->w;
    for (int n = 0; n < o->batch; n++) {
        const double *x = o->values[layer->in[0]] + (size_t)n * map_elements(layer);
        double *y = o->values[layer->id] + (size_t)n * map_elements(layer);
        for (int g = 0; g < groups; g++) {
            double mean = 0.0, var = 0.0;
            for (int i = 0; i < positions; i++) {
                for (int c = g * width; c < (g + 1) * width; c++) {
                    mean += x[i * layer->c + c] / (positions * width);
                }
            }
            for (int i = 0; i < positions; i++) {
                for (int c = g * width; c < (g + 1) * width; c++) {
                    double d = x[i * layer->c + c] - mean;
                    var += d * d / (positions * width);
                }
            }
            for (int i = 0; i < positions; i++) {
                for (int c = g * width; c < (g + 1) * width; c++) {
                    double in = x[i * layer->c + c];
                    double top = is_evo ? in / (1.0 + exp(-v[c] * in)) : in - mean;
                    y[i * layer->c + c] = gamma[c] * top / sqrt(var + eps) + beta[c];
                }
            }
        }
    }
}

/* --- range norms ------------------------------------------------------------------------------ */

/* What `sides` of an element says: how its gate is held, and whether it is its chunk's extreme. */
enum { GATE_OFF = 1, GATE_ON = 2, LARGEST = 4, SMALLEST = 8 };

/* The values that share a scale: how many, in how many chunks, and where they lie. */
struct pool {
    size_t count, n_chunks, length;
    size_t *places; /* [count] elements of the layer's value */
};

static struct pool pool_open(size_t count) {
    struct pool pool = {.count = count, .n_chunks = 1, .places = zeros(count, sizeof(size_t))};
    for (size_t k = 2; k <= 16; k++) {
        if (count % k == 0 && count / k >= 2) {
            pool.n_chunks = k;
        }
    }
    pool.length = count / pool.n_chunks;
    return pool;
}

/* Marks the first largest and the first smallest value of a chunk. Two equal ones were computed
 * alike from alike inputs: which is first makes no difference to any parameter. */
static void mark_chunk(struct oracle *o, const double *x, const size_t *places, size_t length,
                       int *side) {
    size_t largest = 0, smallest = 0;
    for (size_t i = 1; i < length; i++) {
        largest = x[places[i]] > x[places[largest]] ? i : largest;
        smallest = x[places[i]] < x[places[smallest]] ? i : smallest;
    }
    side[places[largest]] |= LARGEST;
    side[places[smallest]] |= SMALLEST;
    for (size_t i = 0; i < length; i++) {
        double below = x[places[largest]] - x[places[i]],
               above = x[places[i]] - x[places[smallest]];
        note_margin(o, below > 0 ? below : DBL_MAX);
        note_margin(o, above > 0 ? above : DBL_MAX);
    }
}

/* 1 / (R * f(L) + eps), R from the marked values. */
static double range_scale(struct oracle *o, const struct pool *pool, const double *x, int *side) {
    const double pi = acos(-1.0), length = pool->length < 2 ? 2.0 : (double)pool->length;
    const double f = 0.175 * (1.0 + sqrt(pi * log(4.0))) / sqrt(2.0 * log(length));
    double spread = 0.0;
    for (size_t k = 0; k < pool->n_chunks && !o->is_frozen; k++) {
        mark_chunk(o, x, pool->places + k * pool->length, pool->length, side);
    }
    for (size_t i = 0; i < pool->count; i++) {
        const double value = x[pool->places[i]] / (double)pool->n_chunks;
        spread += side[pool->places[i]] & LARGEST ? value : 0.0;
        spread -= side[pool->places[i]] & SMALLEST ? value : 0.0;
    }
    return 1.0 / (spread * f + eps);
}

static void clear_sides(const struct oracle *o, const struct oct__layer *layer) {
    if (!o->is_frozen) {
        memset(o->sides[layer->id], 0,
               (size_t)o->batch * map_elements(layer) * sizeof *o->sides[layer->id]);
    }
}

static void run_range_evonorm(struct oracle *o, const struct oct__layer *layer) {
    const double *gamma = param_of(o, layer, 0), *beta = param_of(o, layer, 1);
    const double *v = param_of(o, layer, 2), *x = o->values[layer->in[0]];
    const int groups = groups_of(layer->c, 8), width = layer->c / groups;
    const int positions = layer->h * layer->w;
    struct pool pool = pool_open((size_t)(positions * width));
    double *y = o->values[layer->id];
    int *side = o->sides[layer->id];
    clear_sides(o, layer);
    for (int n = 0; n < o->batch; n++) {
        for (int g = 0; g < groups; g++) {
            size_t count = 0;
            for (int c = g * width; c < (g + 1) * width; c++) {
                for (int i = 0; i < positions; i++) {
                    pool.places[count++] = (size_t)((n * positions + i) * layer->c + c);
                }
            }
            const double scale = range_scale(o, &pool, x, side);
            for (size_t i = 0; i < count; i++) {
                const size_t place = pool.places[i], c = place % (size_t)layer->c;
                const double a = v[c] * x[place];
                if (!o->is_frozen) {
                    side[place] |= a < -3.0 ? GATE_OFF : a > 3.0 ? GATE_ON : 0;
                    note_margin(o, fabs(fabs(a) - 3.0));
                }
                double gate = side[place] & GATE_OFF  ? 0.0
                              : side[place] & GATE_ON ? 1.0
                                                      : a / 6.0 + 0.5;
                y[place] = gamma[c] * x[place] * gate * scale + beta[c];
            }
        }
    }
    free(pool.places);
}

static void run_range_batchnorm(struct oracle *o, const struct oct__layer *layer) {
    const double *gamma = param_of(o, layer, 0), *beta = param_of(o, layer, 1);
    const double *x = o->values[layer->in[0]];
    const size_t channels = (size_t)layer->c;
    const size_t run_mean = o->graph->stats.items[layer->stat[0]].offset;
    const size_t run_scale = o->graph->stats.items[layer->stat[1]].offset;
    struct pool pool = pool_open((size_t)o->batch * map_elements(layer) / channels);
    clear_sides(o, layer);
    for (size_t c = 0; c < channels; c++) {
        double mean = 0.0;
        for (size_t i = 0; i < pool.count; i++) {
            pool.places[i] = i * channels + c;
            mean += x[pool.places[i]] / (double)pool.count;
        }
        double scale = range_scale(o, &pool, x, o->sides[layer->id]);
        o->new_stats[run_mean + c] = 0.1 * o->stats[run_mean + c] + 0.9 * mean;
        o->new_stats[run_scale + c] = 0.1 * o->stats[run_scale + c] + 0.9 * scale;
        if (o->is_eval) {
            mean = o->stats[run_mean + c];
            scale = o->stats[run_scale + c];
        }
        for (size_t i = 0; i < pool.count; i++) {
            const size_t place = pool.places[i];
            o->values[layer->id][place] = gamma[c] * (x[place] - mean) * scale + beta[c];
        }
    }
    free(pool.places);
}

static void run_norm(struct oracle *o, const struct oct__layer *layer) {
    const char *name = layer->norm->plugin.name;
    if (strcmp(name, "batchnorm") == 0) {
        run_batchnorm(o, layer);
    } else if (strcmp(name, "groupnorm") == 0) {
        run_group(o, layer, 2, 0);
    } else if (strcmp(name, "evonorm-s0") == 0) {
        run_group(o, layer, 8, 1);
    } else if (strcmp(name, "range-evonorm") == 0) {
        run_range_evonorm(o, layer);
    } else if (strcmp(name, "range-batchnorm") == 0) {
        run_range_batchnorm(o, layer);
    } else {
        fail_msg("the oracle does not know the norm %s: write its definition in oracle.c", name);
    }
}

/* --- the whole ------------------------------------------------------------------------------- */

static void run_layer(struct oracle *o, const struct oct__layer *layer) {
    const char *kind = layer->kind->name;
    if (strcmp(kind, "input") == 0) {
        return;
    }
    if (strcmp(kind, "conv") == 0) {
        run_conv(o, layer);
    } else if (strcmp(kind, "relu") == 0) {
        run_relu(o, layer);
    } else if (strcmp(kind, "add") == 0) {
        run_add(o, layer);
    } else if (strcmp(kind, "max_pool") == 0) {
        run_pool(o, layer, 1);
    } else if (strcmp(kind, "avg_pool") == 0) {
        run_pool(o, layer, 0);
    } else if (strcmp(kind, "dropout") == 0) {
        run_dropout(o, layer);
    } else if (strcmp(kind, "norm") == 0) {
        run_norm(o, layer);
    } else {
        fail_msg("the oracle does not know the layer %s: write its definition in oracle.c", kind);
    }
}

/* Cross-entropy; a label of -1 counts for nothing. */
static void run_loss(struct oracle *o) {
    const int classes = o->graph->n_classes;
    const double *z = o->values[o->graph->output];
    o->loss = 0.0;
    for (int n = 0; n < o->batch; n++, z += classes) {
        double most = z[0], sum = 0.0;
        for (int c = 1; c < classes; c++) {
            most = z[c] > most ? z[c] : most;
        }
        for (int c = 0; c < classes; c++) {
            sum += exp(z[c] - most);
        }
        o->sample_loss[n] = o->labels[n] < 0 ? 0.0 : most + log(sum) - z[o->labels[n]];
        o->loss += o->sample_loss[n] / o->batch;
    }
}

void oracle_run(struct oracle *oracle, int first) {
    if (!oracle->is_frozen) {
        oracle->margin = DBL_MAX;
    }
    for (size_t i = (size_t)first; i < oracle->graph->n_layers; i++) {
        run_layer(oracle, &oracle->graph->layers[i]);
    }
    run_loss(oracle);
}

/* The layer that owns parameter `param`: nothing before it changes. */
static int owner(const struct oct_graph *graph, int param) {
    for (size_t i = 0; i < graph->n_layers; i++) {
        for (int j = 0; j < OCT_LAYER_PARAMS; j++) {
            if (graph->layers[i].param[j] == param) {
                return (int)i;
            }
        }
    }
    fail_msg("parameter %d belongs to no layer", param);
    return -1;
}

double oracle_derivative(struct oracle *oracle, int param, size_t element) {
    double *p = oracle->params + oracle->graph->params.items[param].offset + element;
    const int first = owner(oracle->graph, param);
    const double value = *p, h = 1e-5 * fmax(1.0, fabs(value));
    assert_true(oracle->is_frozen);
    *p = value + h;
    oracle_run(oracle, first);
    double above = oracle->loss, upper = *p;
    *p = value - h;
    oracle_run(oracle, first);
    double below = oracle->loss, lower = *p;
    *p = value;
    return (above - below) / (upper - lower);
}
