/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.c - every model against PyTorch in double precision.
 *
 *     test_reference_models [FOLDER [PATTERN]]     goldens from FOLDER; only tests like PATTERN
 *
 * Every engine there is runs the step program on the inputs of a golden file: logits, loss, every
 * gradient, BatchNorm's running statistics, the parameters after two updates, the losses of up to ten
 * steps, and the loss of an evaluation afterwards (`portable` takes two steps of the full ResNet-20
 * and leaves out other full models). The largest error of each quantity is printed beside the one that
 * is allowed; README.md says where the allowed ones come from. The environment variable OCT_CPU limits
 * instruction sets, as it does for the command.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <octet/octet.h>

#include "golden.h"
#include "models/model.h"
#include "nn/layer.h"
#include "train/cohort.h"

enum quantity {
    INPUTS,
    LOGITS,
    LOSS,
    GRADIENTS,
    STATISTICS,
    UPDATES,
    LOSSES,
    EVALUATION,
    N_QUANTITIES
};

static const char *const quantity_name[N_QUANTITIES] = {"inputs",
                                                        "logits",
                                                        "loss",
                                                        "gradients",
                                                        "running statistics",
                                                        "parameters after two steps",
                                                        "losses of later steps",
                                                        "evaluation afterwards"};

/* Allowed errors. The first three are rounding alone. ReLU has a corner: one input within rounding of 0
 * may fall on its other side, which moves the gradient by a jump, and further steps of a small batch
 * magnify that. EvoNorm-S0 is smooth. Deep networks, and those whose BatchNorm sees a dozen values, magnify
 * more. README.md has the measurements. */
#define ALLOWED(logits, loss, gradients, statistics, updates, losses, evaluation)                  \
    {                                                                                              \
        [INPUTS] = 1e-12, [LOGITS] = (logits), [LOSS] = (loss), [GRADIENTS] = (gradients),         \
        [STATISTICS] = (statistics), [UPDATES] = (updates), [LOSSES] = (losses),                   \
        [EVALUATION] = (evaluation)                                                                \
    }
#define SMOOTH ALLOWED(5e-6, 1e-6, 4e-5, 2e-6, 5e-6, 1e-5, 1e-5)
#define NARROW ALLOWED(5e-6, 1e-6, 1.5e-5, 2e-6, 1e-6, 5e-4, 1e-3)
#define FULL ALLOWED(2e-6, 1e-6, 1.5e-5, 2e-6, 1e-6, 5e-3, 1e-2)
#define DEEP ALLOWED(1e-5, 2e-6, 5e-4, 1e-5, 5e-4, 5e-3, 1e-2)

#define NARROW20 "resnet20:width=8,blocks=1"
#define NARROW54 "resnet54:width=4,blocks=8"
#define NARROW18 "resnet18:width=8"
#define NARROW11 "vgg11:width=8,dropout=0"
#define FULL11 "vgg11:dropout=0"
#define MOBILE "mobilenetv2"

static const struct subject {
    const char *golden; /* name of its file: MODEL-FORM-NORM */
    const char *model;
    int side; /* of its images */
    size_t n_params;
    float learning_rate;
    double allowed[N_QUANTITIES];
} subjects[] = {
    {"resnet20-narrow-evonorm-s0", NARROW20, 32, 20122, 0.05F, SMOOTH},
    {"resnet20-narrow-batchnorm", NARROW20, 32, 19954, 0.005F, NARROW},
    {"resnet20-narrow-groupnorm", NARROW20, 32, 19954, 0.005F, NARROW},
    {"resnet20-full-evonorm-s0", "resnet20", 32, 273258, 0.05F, SMOOTH},
    {"resnet20-full-batchnorm", "resnet20", 32, 272474, 0.001F, FULL},
    {"resnet20-full-groupnorm", "resnet20", 32, 272474, 0.001F, FULL},
    {"resnet54-narrow-evonorm-s0", NARROW54, 32, 48810, 0.02F, SMOOTH},
    {"resnet54-narrow-batchnorm", NARROW54, 32, 48334, 0.0001F, DEEP},
    {"resnet54-full-evonorm-s0", "resnet54", 32, 760458, 0.02F, SMOOTH},
    {"resnet18-narrow-evonorm-s0", NARROW18, 64, 177962, 0.02F, SMOOTH},
    {"resnet18-narrow-batchnorm", NARROW18, 64, 177362, 0.001F, NARROW},
    {"resnet18-narrow-groupnorm", NARROW18, 64, 177362, 0.001F, NARROW},
    {"resnet18-full-evonorm-s0", "resnet18", 64, 11186442, 0.01F, SMOOTH},
    {"resnet18-full-batchnorm", "resnet18", 64, 11181642, 0.001F, DEEP},
    {"vgg11-narrow-evonorm-s0", NARROW11, 64, 150058, 0.02F, SMOOTH},
    {"vgg11-narrow-batchnorm", NARROW11, 64, 149714, 0.001F, NARROW},
    {"vgg11-full-evonorm-s0", FULL11, 32, 9493770, 0.01F, SMOOTH},
    {"vgg11-full-batchnorm", FULL11, 32, 9491018, 0.001F, DEEP},
    {"mobilenetv2-narrow-evonorm-s0", MOBILE ":percent=25", 80, 170954, 0.02F, SMOOTH},
    {"mobilenetv2-narrow-batchnorm", MOBILE ":percent=25,blocks=1", 80, 86730, 0.0001F, DEEP},
    {"mobilenetv2-full-evonorm-s0", MOBILE, 32, 2314466, 0.01F, SMOOTH},
};

static int is_full(const struct subject *subject) {
    return strstr(subject->golden, "-full-") != NULL;
}

/* What follows the second '-' of its name. */
static const char *norm_of(const struct subject *subject) {
    return strchr(strchr(subject->golden, '-') + 1, '-') + 1;
}

static const char *folder = OCT_TEST_FOLDER "/golden";

/* One subject on one engine. */
struct trial {
    const struct subject *subject;
    const char *engine_name;
    int most_steps;

    struct golden *golden;
    int n_steps; /* of the golden file, or fewer */
    struct oct_dataset *dataset;
    struct oct_partition *partition;
    struct oct_graph graph;
    struct oct__engine *engine;
    struct oct__cohort *cohort;
    struct oct__bases bases;
    float *row; /* parameters or gradients, on the host */
    double worst[N_QUANTITIES];
    char where[N_QUANTITIES][128];
};

static void check(oct_status status, const char *what) {
    if (status != OCT_OK) {
        fail_msg("%s: %s: %s", what, oct_status_name(status), oct_last_error());
    }
}

/* --- setting up ------------------------------------------------------------------------------ */

static int get_sample(void *context, int64_t index, uint8_t *image, int *label) {
    const struct trial *t = context;
    golden_image(t->golden->seed, (uint32_t)index, t->subject->side, image);
    *label = golden_label(t->golden->seed, (uint32_t)index);
    return 0;
}

static void build(struct oct_graph *graph, const struct subject *subject) {
    check(oct__graph_init(graph, subject->side, subject->side, GOLDEN_CHANNELS, GOLDEN_CLASSES,
                          oct__norm_find(norm_of(subject))),
          "graph");
    check(oct__model_build(subject->model, graph), subject->model);
    check(oct__graph_check(graph), subject->model);
}

static void open_trial(struct trial *t) {
    t->golden = golden_open(folder, t->subject->golden);
    const int n_samples = GOLDEN_BATCHES * (int)t->golden->batch;
    struct oct_dataset_custom custom = {
        .name = t->subject->golden,
        .n_samples = n_samples,
        .height = t->subject->side,
        .width = t->subject->side,
        .channels = GOLDEN_CHANNELS,
        .n_classes = GOLDEN_CLASSES,
        .mean = {0.4914F, 0.4822F, 0.4465F},
        .deviation = {0.2023F, 0.1994F, 0.2010F},
        .get = get_sample,
        .context = t,
    };
    check(oct_dataset_create(&custom, &t->dataset), "dataset");
    build(&t->graph, t->subject);
    check(oct__engine_open(t->engine_name, 1, &t->engine), t->engine_name);
    t->row = calloc(t->graph.params.n_elements, sizeof *t->row);
    assert_non_null(t->row);
    const struct oct_partition_options deal = {.name = "skew:0", .n_nodes = 1};
    check(oct_partition_create(t->dataset, &deal, &t->partition), "partition");
    struct oct__cohort_config config = {
        .engine = t->engine,
        .graph = &t->graph,
        .train = t->dataset,
        .test = t->dataset,
        .n_nodes = 1,
        .n_threads = 1,
        .batch = (int)t->golden->batch,
        .beta = 0.9F,
        .decay = 1e-4F,
        .partition = t->partition,
    };
    check(oct__cohort_create(&config, &t->cohort), "cohort");
    t->bases = t->cohort->crew->lanes[0].bases;
    for (int home = 0; home <= OCT_HOME_STAT; home++) {
        t->bases.at[home] = t->cohort->state[home];
        t->bases.stride[home] = t->cohort->stride[home];
    }
}

static void close_trial(struct trial *t) {
    oct__cohort_destroy(t->cohort);
    oct_partition_destroy(t->partition);
    oct__engine_close(t->engine);
    oct__graph_fini(&t->graph);
    oct_dataset_close(t->dataset);
    golden_close(t->golden);
    free(t->row);
}

/* --- comparing ------------------------------------------------------------------------------- */

static void note(struct trial *t, enum quantity quantity, double error, const char *where) {
    if (!(error <= t->worst[quantity]) || t->where[quantity][0] == '\0') {
        t->worst[quantity] = error;
        snprintf(t->where[quantity], sizeof t->where[quantity], "%s", where);
    }
}

static void compare(struct trial *t, enum quantity quantity, const char *prefix, const char *name,
                    const float *values, size_t count) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct golden_record *record = golden_find(t->golden, full);
    if (!record || record->count != count) {
        fail_msg("%s: %zu elements here, %u in the golden file", full, count,
                 record ? record->count : 0);
    }
    note(t, quantity, golden_error(record, values), full);
}

/* Every tensor of a row that lies in the engine's memory. */
static void compare_row(struct trial *t, enum quantity quantity, const char *prefix,
                        const struct oct__row *row, const void *at) {
    check(t->engine->read(t->engine, t->row, at, row->n_elements * sizeof *t->row), prefix);
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *item = &row->items[i];
        compare(t, quantity, prefix, item->name, t->row + item->offset, item->count);
    }
}

/* The file's tensors under `prefix` are the graph's, in its order: none is left uncompared. */
static void check_names(const struct trial *t, const char *prefix, const struct oct__row *row) {
    size_t n = 0;
    for (uint32_t i = 0; i < t->golden->n_records; i++) {
        const char *name = t->golden->records[i].name;
        if (strncmp(name, prefix, strlen(prefix)) == 0) {
            assert_true(n < row->n_items);
            assert_string_equal(name + strlen(prefix), row->items[n].name);
            n++;
        }
    }
    assert_int_equal(n, row->n_items);
}

/* Images, labels and parameters are the same in both languages, to the last bit. */
static void compare_inputs(struct trial *t) {
    const struct oct__row *params = &t->graph.params;
    check_names(t, "start/", params);
    check_names(t, "grad/", params);
    check_names(t, "after2/", params);
    check_names(t, "stat/", &t->graph.stats);
    size_t n_samples = (size_t)t->dataset->n_samples;
    size_t n_bytes = n_samples * (size_t)(t->subject->side * t->subject->side) * GOLDEN_CHANNELS;
    float *values = calloc(n_bytes, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n_bytes; i++) {
        values[i] = t->dataset->images[i];
    }
    compare(t, INPUTS, "", "images", values, n_bytes);
    for (size_t i = 0; i < n_samples; i++) {
        values[i] = t->dataset->labels[i];
    }
    compare(t, INPUTS, "", "labels", values, n_samples);
    free(values);
    for (size_t i = 0; i < params->n_items; i++) {
        const struct oct__param *param = &params->items[i];
        golden_param(t->golden->seed, (uint32_t)i, param, t->row + param->offset);
    }
    check(oct__cohort_write(t->cohort, OCT_HOME_PARAM, t->row), "parameters");
    compare_row(t, INPUTS, "start/", params, t->cohort->state[OCT_HOME_PARAM]);
}

/* --- running --------------------------------------------------------------------------------- */

static void run(struct trial *t, size_t from, size_t to) {
    struct oct__lane *lane = &t->cohort->crew->lanes[0].lane;
    lane->learning_rate = t->subject->learning_rate;
    check(oct__program_run(t->cohort->crew->step_program, lane, &t->bases, from, to, NULL), "step");
}

static void read_tensor(struct trial *t, int tensor, float *values) {
    const struct oct__program *program = t->cohort->crew->step_program;
    check(t->engine->read(t->engine, values, oct__program_at(program, &t->bases, tensor, 0),
                          oct__tensor_bytes(&program->tensors[tensor].shape)),
          "tensor");
}

/* Forward; the logits lie where they are until the backward pass begins. Returns the mean loss. */
static double forward(struct trial *t, int step, float *logits) {
    const struct oct__program *program = t->cohort->crew->step_program;
    const int batch = program->batch;
    struct oct__pick *picks = t->cohort->crew->lanes[0].picks;
    for (int i = 0; i < batch; i++) {
        int row = step % GOLDEN_BATCHES * batch + i;
        picks[i] = (struct oct__pick){.row = row, .label = t->dataset->labels[row]};
    }
    check(t->engine->write(t->engine, oct__program_at(program, &t->bases, program->picks, 0), picks,
                           (size_t)batch * sizeof *picks),
          "picks");
    run(t, 0, program->n_forward);
    float *losses = t->cohort->crew->lanes[0].results;
    read_tensor(t, program->loss, losses);
    read_tensor(t, program->logits, logits);
    double sum = 0.0;
    for (int i = 0; i < batch; i++) {
        sum += (double)losses[i];
    }
    return sum / batch;
}

static void take_steps(struct trial *t) {
    const struct oct__program *program = t->cohort->crew->step_program;
    const size_t update = program->n_calls - 1;
    assert_int_equal(program->calls[update].op, OCT_OP_SGD);
    const struct golden_record *losses = golden_find(t->golden, "losses");
    assert_non_null(losses);
    assert_true(losses->n_stored >= 2);
    t->n_steps = (int)losses->n_stored < t->most_steps ? (int)losses->n_stored : t->most_steps;
    size_t n_logits = (size_t)t->golden->batch * GOLDEN_CLASSES;
    float *logits = calloc(n_logits, sizeof *logits);
    assert_non_null(logits);
    for (int step = 0; step < t->n_steps; step++) {
        char where[64];
        double loss = forward(t, step, logits), golden = (double)losses->values[step];
        snprintf(where, sizeof where, "step %d: %.6f, golden %.6f", step + 1, loss, golden);
        note(t, step == 0 ? LOSS : LOSSES, fabs(loss - golden) / golden, where);
        run(t, program->n_forward, update);
        if (step == 0) {
            compare(t, LOGITS, "", "logits", logits, n_logits);
            compare_row(t, GRADIENTS, "grad/", &t->graph.params, t->bases.at[OCT_HOME_GRAD]);
            compare_row(t, STATISTICS, "stat/", &t->graph.stats, t->bases.at[OCT_HOME_STAT]);
        }
        run(t, update, program->n_calls);
        if (step == 1) {
            compare_row(t, UPDATES, "after2/", &t->graph.params, t->bases.at[OCT_HOME_PARAM]);
        }
    }
    free(logits);
}

/* With running statistics, where there are any. */
static void evaluate(struct trial *t) {
    double loss, accuracy;
    check(oct__cohort_evaluate(t->cohort, 0, NULL, NULL, &loss, &accuracy), "evaluation");
    const float value = (float)loss;
    compare(t, EVALUATION, "", "evaluation", &value, 1);
}

static void golden_test(void **state) {
    struct trial *t = *state;
    open_trial(t);
    compare_inputs(t);
    take_steps(t);
    if (t->n_steps < t->most_steps) {
        evaluate(t);
    }
    int n_wrong = 0;
    for (int q = 0; q < N_QUANTITIES; q++) {
        if (t->where[q][0] == '\0') {
            continue; /* no such quantity here */
        }
        int wrong = !(t->worst[q] <= t->subject->allowed[q]);
        n_wrong += wrong;
        printf("    %-26s %8.1e  allowed %.1e  %s%s\n", quantity_name[q], t->worst[q],
               t->subject->allowed[q], t->where[q], wrong ? "  WRONG" : "");
    }
    close_trial(t);
    assert_int_equal(n_wrong, 0);
}

static void parameter_counts(void **state) {
    (void)state;
    for (size_t i = 0; i < OCT_COUNT_OF(subjects); i++) {
        struct oct_graph graph;
        build(&graph, &subjects[i]);
        size_t count = oct__row_count(&graph.params);
        printf("    %s, %s: %zu parameters\n", subjects[i].model, norm_of(&subjects[i]), count);
        assert_int_equal(count, subjects[i].n_params);
        oct__graph_fini(&graph);
    }
}

int main(int argc, char **argv) {
    enum { MOST = 96, MOST_STEPS = 100 };
    static struct CMUnitTest tests[MOST];
    static struct trial trials[MOST];
    static char names[MOST][96];
    const char *level = getenv("OCT_CPU");
    if (level && oct_cpu_limit(level) != OCT_OK) {
        fprintf(stderr, "OCT_CPU: %s\n", oct_last_error());
        return 2;
    }
    if (argc > 1) {
        folder = argv[1];
    }
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    size_t n = 0;
    tests[n++] = (struct CMUnitTest){.name = "parameter counts", .test_func = parameter_counts};
    for (int e = 0; oct__engine_at(e); e++) {
        const struct oct_plugin *plugin = &oct__engine_at(e)->plugin;
        for (size_t i = 0; i < OCT_COUNT_OF(subjects) && !plugin->unavailable && n < MOST; i++) {
            /* Full models with portable products take minutes under a sanitizer. */
            const int is_slow = strcmp(plugin->name, "cpu") != 0 && is_full(&subjects[i]);
            if ((is_slow || oct__engine_at(e)->is_oracle) &&
                strncmp(subjects[i].golden, "resnet20", strlen("resnet20")) != 0) {
                continue; /* the oracle's floats are the portable ones */
            }
            trials[n] = (struct trial){.subject = &subjects[i],
                                       .engine_name = plugin->name,
                                       .most_steps = is_slow ? 2 : MOST_STEPS};
            snprintf(names[n], sizeof names[n], "%s on %s", subjects[i].golden, plugin->name);
            tests[n] = (struct CMUnitTest){
                .name = names[n], .test_func = golden_test, .initial_state = &trials[n]};
            n++;
        }
    }
    return _cmocka_run_group_tests("models", tests, n, NULL, NULL);
}
