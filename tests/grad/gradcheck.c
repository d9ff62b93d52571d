/* SPDX-License-Identifier: Apache-2.0 */
/* gradcheck.c - the comparison of an engine with the oracle.
 *
 * Tolerances. An f32 sum of a few hundred products of numbers near 1 is off by a few times 1e-7 of
 * the largest of them; a backward pass through five layers adds up such errors. Errors are
 * therefore measured against the largest gradient of the same parameter tensor, and against a
 * tenth of the largest in the network where a tensor's true gradient is (nearly) zero, as that
 * of a bias before BatchNorm is. The worst measured is 8e-6 in small networks (a norm over the four
 * values of a group, nearly equal) and 7e-5 in a ResNet-18 with Range BatchNorm on a GPU, whose values
 * are as exact as a CPU's; a mistake in a formula shows as 1e-2 and more.
 *
 * Deep networks magnify rounding, some more than others: what one unit in the last place of the
 * parameters does to the logits is measured, in double, and TIMES_ROUNDING of it is allowed besides.
 * Data for which that is more than MOST_ROUNDING is not used.
 */
#include "gradcheck.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "nn/layer.h"
#include "oracle.h"
#include "support/check.h"
#include "support/rig.h"

#define VALUE_TOLERANCE 5e-6
#define GRADIENT_TOLERANCE 1e-4
#define LEAST_MARGIN 1e-5  /* from a kink, in values of order 1 */
#define MOST_ROUNDING 3e-6 /* as it comes out of the network */
#define TIMES_ROUNDING 10

enum { N_IMAGES = 40, CLASSES = 3, N_NODES = 2, NODE = 1, FIRST_NODE = 3 };

/* What one case computes with: the same for the oracle and every engine. */
struct subject {
    const struct grad_case *c;
    struct oct_graph graph;
    uint8_t *images;
    float lut[RIG_LUT];
    struct oct__pick *picks;
    int *labels;
    float *params, *other_params; /* rows of the node looked at, and of its neighbour */
    struct oracle oracle;
    double rounding;     /* what it does to the logits, see sensitivity */
    double *derivatives; /* [params.n_elements]; only those that are checked are set */
    uint8_t *is_checked;
};

static void *zeros(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    assert_non_null(memory);
    return memory;
}

static void build(struct subject *s) {
    const struct grad_case *c = s->c;
    const struct oct_norm_kind *norm = oct__norm_find(c->norm ? c->norm : "groupnorm");
    assert_non_null(norm);
    struct oct_graph *g = &s->graph;
    EXPECT_OK(oct__graph_init(g, c->height, c->width, c->channels, CLASSES, norm));
    int x = c->build(g, c->is_whole ? -1 : oct_graph_input(g));
    if (!c->is_whole) {
        int shape[3];
        oct_graph_shape(g, x, shape);
        int kernel = shape[0] < shape[1] ? shape[0] : shape[1];
        struct oct_conv head = {.channels = CLASSES, .kernel = kernel, .bias = 1};
        x = oct_graph_conv(g, "head", x, head);
        x = oct_graph_global_pool(g, "head_pool", x);
        oct_graph_output(g, x);
    }
    EXPECT_OK(oct__graph_check(g));
}

/* Parameters that hide nothing: no gamma is 1, no bias 0. */
static void draw_params(const struct oct__row *row, struct dice *dice, float *values) {
    for (size_t p = 0; p < row->n_items; p++) {
        const struct oct__param *param = &row->items[p];
        for (size_t i = 0; i < param->count; i++) {
            double v = param->n_dims == 1 ? param->init_value + 0.3 * dice_normal(dice)
                                          : param->init_value * 0.7 * dice_normal(dice);
            values[param->offset + i] = (float)v;
        }
    }
}

static void draw(struct subject *s, uint32_t seed) {
    const struct grad_case *c = s->c;
    struct dice dice = dice_of(seed);
    size_t image_bytes = (size_t)(c->height * c->width * c->channels);
    for (size_t i = 0; i < N_IMAGES * image_bytes; i++) {
        s->images[i] = (uint8_t)dice_below(&dice, 256);
    }
    for (int i = 0; i < RIG_LUT; i++) {
        s->lut[i] = (float)((i % 256 - 128) / 80.0 + 0.1 * (i / 256));
    }
    for (int n = 0; n < c->batch; n++) {
        struct oct__pick *pick = &s->picks[n];
        *pick = (struct oct__pick){.row = dice_below(&dice, N_IMAGES),
                                   .label = dice_below(&dice, CLASSES)};
        if (n % 3 == 1 && n / 3 < c->n_blank) {
            pick->label = -1;
        }
        if (c->is_cropped) {
            pick->dy = dice_below(&dice, 9) - 4;
            pick->dx = dice_below(&dice, 9) - 4;
            pick->flip = dice_below(&dice, 2);
        }
        s->labels[n] = pick->label;
    }
    draw_params(&s->graph.params, &dice, s->params);
    draw_params(&s->graph.params, &dice, s->other_params);
}

/* How much the logits change, to the largest of them, when every parameter moves by up to one unit of
 * f32's last place: what rounding alone does to a network with these parameters and images. */
static double sensitivity(struct subject *s) {
    enum { DRAWS = 3 };
    struct oracle *o = &s->oracle;
    const size_t n = (size_t)(s->c->batch * CLASSES), n_params = s->graph.params.n_elements;
    double *before = zeros(n, sizeof *before), *logits = o->values[s->graph.output];
    double scale = 0.0, worst = 0.0;
    memcpy(before, logits, n * sizeof *before);
    o->is_frozen = 1;
    for (uint32_t draw_of = 1; draw_of <= DRAWS; draw_of++) {
        struct dice dice = dice_of(draw_of);
        for (size_t i = 0; i < n_params; i++) {
            o->params[i] =
                (double)s->params[i] * (1.0 + 0x1p-23 * (dice_below(&dice, 2001) - 1000) / 1000.0);
        }
        oracle_run(o, 0);
        for (size_t i = 0; i < n; i++) {
            scale = fmax(scale, fabs(before[i]));
            worst = fmax(worst, fabs(logits[i] - before[i]));
        }
    }
    for (size_t i = 0; i < n_params; i++) {
        o->params[i] = (double)s->params[i];
    }
    oracle_run(o, 0);
    o->is_frozen = 0;
    free(before);
    return worst / scale;
}

/* Draws until no element is so near a kink that f32 may see it on the other side, and until rounding
 * is not magnified: a norm over a few values that happen to be nearly equal multiplies their errors
 * by up to 1 / sqrt(eps) = 316, and a network of such norms says nothing about its gradients. */
static void draw_clear(struct subject *s) {
    struct oracle *o = &s->oracle;
    double least = 0.0, most = DBL_MAX;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        draw(s, seed);
        for (size_t i = 0; i < s->graph.params.n_elements; i++) {
            o->params[i] = (double)s->params[i];
        }
        oracle_input(o, s->images, s->lut, s->picks);
        oracle_run(o, 0);
        least = fmax(least, o->margin);
        if (!(o->margin > LEAST_MARGIN)) {
            continue;
        }
        s->rounding = sensitivity(s);
        most = fmin(most, s->rounding);
        if (s->rounding < MOST_ROUNDING) {
            print_message("%s: data of seed %u, %zu parameters, loss %.6f, rounding %.1e",
                          s->c->name, seed, oct__row_count(&s->graph.params), o->loss, s->rounding);
            if (o->margin < 1e300) {
                print_message(", kinks at least %.1e away", o->margin);
            }
            print_message("\n");
            return;
        }
    }
    fail_msg("%s: no data keeps clear of the kinks (best %.1e, at least %.1e wanted) and magnifies "
             "rounding little (best %.1e, at most %.1e wanted)",
             s->c->name, least, LEAST_MARGIN, most, MOST_ROUNDING);
}

/* Central differences, once for all engines. */
static void differentiate(struct subject *s) {
    const struct oct__row *row = &s->graph.params;
    struct dice dice = dice_of(99);
    s->oracle.is_frozen = 1;
    for (size_t p = row->n_items; p-- > 0;) {
        const struct oct__param *param = &row->items[p];
        size_t n = s->c->n_checked ? (size_t)s->c->n_checked : param->count;
        for (size_t i = 0; i < n; i++) {
            size_t element = n < param->count ? (size_t)dice_below(&dice, (int)param->count) : i;
            if (element < param->count && !s->is_checked[param->offset + element]) {
                s->derivatives[param->offset + element] =
                    oracle_derivative(&s->oracle, (int)p, element);
                s->is_checked[param->offset + element] = 1;
            }
        }
    }
    s->oracle.is_frozen = 0;
    oracle_run(&s->oracle, 0);
}

static void subject_open(struct subject *s, const struct grad_case *c) {
    memset(s, 0, sizeof *s);
    s->c = c;
    build(s);
    const size_t n = s->graph.params.n_elements, batch = (size_t)c->batch;
    s->images = zeros((size_t)(N_IMAGES * c->height * c->width * c->channels), 1);
    s->picks = zeros(batch, sizeof *s->picks);
    s->labels = zeros(batch, sizeof *s->labels);
    s->params = zeros(n, sizeof *s->params);
    s->other_params = zeros(n, sizeof *s->other_params);
    s->derivatives = zeros(n, sizeof *s->derivatives);
    s->is_checked = zeros(n, 1);
    oracle_open(&s->oracle, &s->graph, c->batch);
    s->oracle.labels = s->labels;
    s->oracle.seed = 77;
    s->oracle.step = 5;
    s->oracle.node = FIRST_NODE + NODE;
    draw_clear(s);
    differentiate(s);
}

static void subject_close(struct subject *s) {
    oracle_close(&s->oracle);
    oct__graph_fini(&s->graph);
    free(s->images);
    free(s->picks);
    free(s->labels);
    free(s->params);
    free(s->other_params);
    free(s->derivatives);
    free(s->is_checked);
}

static void open_rig(const struct subject *s, struct oct__engine *engine, enum oct__mode mode,
                     struct rig *rig) {
    const struct rig_form form = {
        .mode = mode,
        .batch = s->c->batch,
        .n_nodes = N_NODES,
        .n_threads = 1,
        .shard = s->c->shard,
        .seed = s->oracle.seed,
        .step = s->oracle.step,
        .first_node = FIRST_NODE,
    };
    rig_open(rig, engine, &s->graph, &form, s->images, N_IMAGES, s->lut);
    for (int node = 0; node < N_NODES; node++) {
        rig_write_row(rig, OCT_HOME_PARAM, node, node == NODE ? s->params : s->other_params);
        rig_write_picks(rig, node, s->picks);
    }
}

/* Compares `n` numbers with the oracle's, against the largest of these. */
static void compare(const struct subject *s, const struct oct__engine *engine, const char *what,
                    size_t n, const float *found, const double *expected) {
    double scale = 1e-3, worst = 0.0;
    size_t place = 0;
    for (size_t i = 0; i < n; i++) {
        scale = fmax(scale, fabs(expected[i]));
    }
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)found[i] - expected[i]) / scale;
        if (!(error <= worst)) {
            worst = error;
            place = i;
        }
    }
    print_message("  %-8s %-20s %.2e  (element %zu: %.9g, oracle %.9g)\n",
                  engine->kind->plugin.name, what, worst, place, (double)found[place],
                  expected[place]);
    const double allowed = VALUE_TOLERANCE + TIMES_ROUNDING * s->rounding;
    if (!(worst <= allowed)) {
        fail_msg("%s, %s, %s: off by %.3g, at most %.1e allowed", s->c->name,
                 engine->kind->plugin.name, what, worst, allowed);
    }
}

static void check_values(struct subject *s, struct rig *rig, const char *mode) {
    const struct oracle *o = &s->oracle;
    const size_t batch = (size_t)s->c->batch;
    float *found = zeros(batch * CLASSES, sizeof *found);
    char what[64];
    rig_read(rig, rig->program->logits, NODE, found);
    snprintf(what, sizeof what, "logits (%s)", mode);
    compare(s, rig->engine, what, batch * CLASSES, found, o->values[s->graph.output]);
    rig_read(rig, rig->program->loss, NODE, found);
    snprintf(what, sizeof what, "losses (%s)", mode);
    compare(s, rig->engine, what, batch, found, o->sample_loss);
    rig_read(rig, rig->program->hit, NODE, found);
    for (size_t n = 0; n < batch; n++) {
        const double *z = o->values[s->graph.output] + n * CLASSES;
        int best = 0;
        for (int c = 1; c < CLASSES; c++) {
            best = z[c] > z[best] ? c : best;
        }
        assert_int_equal((int)found[n], s->labels[n] == best);
    }
    free(found);
}

static void check_gradients(struct subject *s, struct rig *rig) {
    const struct oct__row *row = &s->graph.params;
    float *found = zeros(row->n_elements, sizeof *found);
    rig_read_row(rig, OCT_HOME_GRAD, NODE, found);
    double largest = 0.0, worst = 0.0;
    const char *worst_name = "";
    size_t n_checked = 0;
    for (size_t i = 0; i < row->n_elements; i++) {
        largest = fmax(largest, fabs(s->derivatives[i]));
    }
    assert_true(largest > 1e-4);
    for (size_t p = 0; p < row->n_items; p++) {
        const struct oct__param *param = &row->items[p];
        double scale = 0.1 * largest;
        for (size_t i = param->offset; i < param->offset + param->count; i++) {
            scale = fmax(scale, fabs(s->derivatives[i]));
        }
        for (size_t i = param->offset; i < param->offset + param->count; i++) {
            if (!s->is_checked[i]) {
                continue;
            }
            double error = fabs((double)found[i] - s->derivatives[i]) / scale;
            n_checked++;
            if (!(error <= GRADIENT_TOLERANCE + TIMES_ROUNDING * s->rounding)) {
                fail_msg("%s, %s: gradient of %s[%zu] is %.9g, by differences %.9g: off by %.3g of "
                         "the tensor's largest",
                         s->c->name, rig->engine->kind->plugin.name, param->name, i - param->offset,
                         (double)found[i], s->derivatives[i], error);
            }
            if (error >= worst) {
                worst = error;
                worst_name = param->name;
            }
        }
    }
    print_message("  %-8s %-20s %.2e  (%zu compared, worst in %s, largest gradient %.3g)\n",
                  rig->engine->kind->plugin.name, "gradients", worst, n_checked, worst_name,
                  largest);
    free(found);
}

static void check_stats(struct subject *s, struct rig *rig, float *stats) {
    rig_read_row(rig, OCT_HOME_STAT, NODE, stats);
    for (size_t i = 0; i < s->graph.stats.n_items; i++) {
        const struct oct__param *stat = &s->graph.stats.items[i];
        compare(s, rig->engine, stat->name, stat->count, stats + stat->offset,
                s->oracle.new_stats + stat->offset);
    }
}

static void check_engine(struct subject *s, struct oct__engine *engine) {
    struct rig rig;
    float *stats = zeros(s->graph.stats.n_elements, sizeof *stats);
    open_rig(s, engine, OCT_MODE_TRAIN, &rig);
    rig_forward(&rig);
    check_values(s, &rig, "training");
    check_stats(s, &rig, stats);
    rig_backward(&rig);
    check_gradients(s, &rig);
    rig_close(&rig);

    /* Evaluation, with the statistics that training has left. */
    struct oracle *o = &s->oracle;
    const size_t bytes = s->graph.stats.n_elements * sizeof *o->stats;
    double *before = zeros(s->graph.stats.n_elements, sizeof *before);
    memcpy(before, o->stats, bytes);
    memcpy(o->stats, o->new_stats, bytes);
    o->is_eval = 1;
    oracle_run(o, 0);
    open_rig(s, engine, OCT_MODE_EVAL, &rig);
    rig_write_row(&rig, OCT_HOME_STAT, NODE, stats);
    rig_forward(&rig);
    check_values(s, &rig, "evaluation");
    rig_close(&rig);
    o->is_eval = 0;
    memcpy(o->stats, before, bytes);
    oracle_run(o, 0);
    free(before);
    free(stats);
}

void grad_check(const struct grad_case *c) {
    struct subject s;
    subject_open(&s, c);
    int n_engines = 0;
    for (struct oct__engine *engine; (engine = rig_engine_at(n_engines, 1)); n_engines++) {
        check_engine(&s, engine);
        oct__engine_close(engine);
    }
    assert_true(n_engines > 0);
    subject_close(&s);
}
