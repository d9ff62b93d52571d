/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - a run: data, network and cohort from a configuration; epochs, evaluation, result. */
#include <octet/trainer.h>

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "models/model.h"
#include "nn/layer.h"
#include "train/cohort.h"
#include "train/config.h"
#include "train/safetensors.h"
#include "train/schedule.h"
#include "train/trainer.h"

#define CROP_PAD 4

/* --- set-up ---------------------------------------------------------------------------------- */

static oct_status open_data(struct oct_trainer *trainer, const struct oct_config *config) {
    const struct oct_hooks *hooks = &trainer->hooks;
    if (!hooks->train != !hooks->test) {
        OCT_FAIL(INVALID, "your own data: both a training and a test set are needed");
    }
    if (hooks->train) {
        trainer->train = hooks->train;
        trainer->test = hooks->test;
        return OCT_OK;
    }
    const char *folder = config->data_dir[0] ? config->data_dir : NULL;
    OCT_TRY(oct_dataset_open(config->data, folder, OCT_SPLIT_TRAIN, &trainer->owned_train));
    OCT_TRY(oct_dataset_open(config->data, folder, OCT_SPLIT_TEST, &trainer->owned_test));
    trainer->train = trainer->owned_train;
    trainer->test = trainer->owned_test;
    return OCT_OK;
}

static oct_status choose_samples(struct oct_trainer *trainer, const struct oct_config *config) {
    const int64_t n = trainer->train->n_samples;
    if (n < 1 || trainer->test->n_samples < 1) {
        OCT_FAIL(INVALID, "the %s set has no samples", n < 1 ? "training" : "test");
    }
    if (config->samples > n) {
        OCT_FAIL(INVALID, "samples: %lld, but the training set has %lld",
                 (long long)config->samples, (long long)n);
    }
    trainer->n_rows = (uint32_t)(config->samples ? config->samples : n);
    void *memory;
    OCT_TRY(oct__alloc_array(trainer->n_rows, sizeof *trainer->rows, "samples", &memory));
    trainer->rows = memory;
    return oct__subset((uint64_t)config->seed, (uint32_t)n, trainer->n_rows, trainer->rows);
}

/* int8-sim is int8 on the engine that computes it in double. */
static const char *engine_name(const struct oct_config *config) {
    return strcmp(config->precision, "int8-sim") == 0 ? "sim" : config->engine;
}

static oct_status build_network(struct oct_trainer *trainer, const struct oct_config *config) {
    const char *name = oct__config_norm(config);
    const struct oct_norm_kind *norm = oct__norm_find(name);
    if (!norm) {
        OCT_FAIL(NOT_FOUND, "norm '%s' is not known; octet info lists them", name);
    }
    const struct oct_dataset *data = trainer->train;
    OCT_TRY(oct__graph_init(&trainer->graph, data->height, data->width, data->channels,
                            data->n_classes, norm));
    if (oct__config_is_int8(config)) {
        struct oct__recipe recipe;
        OCT_TRY(oct__recipe_read(config->precision_recipe, &recipe));
        recipe.stochastic = strcmp(config->activation_rounding, "stochastic") == 0;
        oct__graph_quantize(&trainer->graph, &recipe);
    }
    if (trainer->hooks.model) {
        oct_status status = trainer->hooks.model(&trainer->graph, trainer->hooks.model_context);
        OCT_TRY(trainer->graph.status == OCT_OK ? OCT_OK : oct__graph_check(&trainer->graph));
        if (status != OCT_OK) {
            return oct__fail(status, "your own model's builder returned %s",
                             oct_status_name(status));
        }
    } else {
        OCT_TRY(oct__model_build(config->model, &trainer->graph));
    }
    return oct__graph_check(&trainer->graph);
}

static oct_status make_cohort(struct oct_trainer *trainer, const struct oct_config *config,
                              int n_nodes) {
    int n_threads = config->threads ? (int)config->threads : oct__parallel_width();
    n_threads = n_threads < OCT_PARALLEL_MOST ? n_threads : OCT_PARALLEL_MOST;
    OCT_TRY(oct__engine_open(engine_name(config), n_threads, &trainer->engine));
    struct oct__cohort_config cohort = {
        .engine = trainer->engine,
        .graph = &trainer->graph,
        .train = trainer->train,
        .test = trainer->test,
        .n_nodes = n_nodes,
        .n_threads = n_threads,
        .batch = (int)config->batch,
        .pad = strcmp(config->augment, "crop-flip") == 0 ? CROP_PAD : 0,
        .seed = (uint64_t)config->seed,
        .beta = strcmp(config->momentum, "none") == 0 ? 0.0F : (float)config->beta,
        .decay = (float)config->weight_decay,
        .rows = trainer->rows,
        .n_rows = trainer->n_rows,
    };
    return oct__cohort_create(&cohort, &trainer->cohort);
}

static oct_status set_up(struct oct_trainer *trainer, const struct oct_config *config,
                         int n_nodes) {
    trainer->schedule = oct__schedule_find(config->schedule);
    if (!trainer->schedule) {
        OCT_FAIL(NOT_FOUND, "schedule '%s' is not known; octet info lists them", config->schedule);
    }
    OCT_TRY(open_data(trainer, config));
    OCT_TRY(choose_samples(trainer, config));
    OCT_TRY(build_network(trainer, config));
    OCT_TRY(make_cohort(trainer, config, n_nodes));
    trainer->n_nodes = n_nodes;
    trainer->batch = (int)config->batch;
    trainer->n_epochs = (int)config->epochs;
    trainer->rate = config->lr;
    int64_t samples_a_step = (int64_t)n_nodes * trainer->batch;
    trainer->epoch_steps = (trainer->n_rows + samples_a_step - 1) / samples_a_step;
    if (trainer->epoch_steps * trainer->n_epochs > UINT32_MAX) {
        OCT_FAIL(INVALID, "epochs: %d epochs of %lld steps are more than %u steps",
                 trainer->n_epochs, (long long)trainer->epoch_steps, UINT32_MAX);
    }
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)n_nodes, sizeof *trainer->nodes, "results", &memory));
    trainer->nodes = memory;
    return OCT_OK;
}

oct_status oct__trainer_create(const struct oct_config *config, const struct oct_hooks *hooks,
                               int n_nodes, struct oct_trainer **out) {
    if (!config || !out) {
        OCT_FAIL(INVALID, "a trainer needs a configuration and a place to be returned");
    }
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_trainer), "trainer", &memory));
    struct oct_trainer *trainer = memory;
    if (hooks) {
        trainer->hooks = *hooks;
    }
    oct_status status = set_up(trainer, config, n_nodes);
    if (status != OCT_OK) {
        oct_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return OCT_OK;
}

oct_status oct_trainer_create(const struct oct_config *config, const struct oct_hooks *hooks,
                              struct oct_trainer **out) {
    return oct__trainer_create(config, hooks, 1, out);
}

void oct_trainer_destroy(struct oct_trainer *trainer) {
    if (!trainer) {
        return;
    }
    oct__cohort_destroy(trainer->cohort);
    oct__engine_close(trainer->engine);
    oct__graph_fini(&trainer->graph);
    oct_dataset_close(trainer->owned_train);
    oct_dataset_close(trainer->owned_test);
    oct__free(trainer->rows);
    oct__free(trainer->nodes);
    oct__free(trainer);
}

/* --- running --------------------------------------------------------------------------------- */

static double samples_per_s(const struct oct_trainer *trainer) {
    return trainer->train_seconds > 0 ? (double)trainer->samples_seen / trainer->train_seconds : 0;
}

/* Time that the rest would take at the pace so far: training steps, and an evaluation an epoch. */
static double seconds_left(const struct oct_trainer *trainer) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    double rate = samples_per_s(trainer);
    if (rate <= 0) {
        return 0;
    }
    double samples = (double)(n_steps - trainer->step) * trainer->batch * trainer->n_nodes;
    return samples / rate + trainer->eval_seconds * (trainer->n_epochs - trainer->epochs_done);
}

/* Tells the caller where the run stands; CANCELLED when it wants to stop. */
static oct_status report(struct oct_trainer *trainer, enum oct_phase phase, int64_t at,
                         int64_t most) {
    if (!trainer->hooks.progress) {
        return OCT_OK;
    }
    const double samples = (double)trainer->epoch_samples;
    struct oct_progress progress = {
        .phase = phase,
        .epoch = trainer->epochs_done + (phase == OCT_PHASE_EPOCH_END ? 0 : 1),
        .n_epochs = trainer->n_epochs,
        .step = trainer->step,
        .n_steps = trainer->epoch_steps * trainer->n_epochs,
        .epoch_step = at,
        .epoch_steps = most,
        .loss = samples > 0 ? trainer->epoch_loss / samples : 0,
        .accuracy = samples > 0 ? 100.0 * (double)trainer->epoch_hits / samples : 0,
        .learning_rate = trainer->last_rate,
        .samples_per_s = samples_per_s(trainer),
        .seconds = trainer->seconds + oct__seconds() - trainer->started,
        .seconds_left = seconds_left(trainer),
        .test_loss = trainer->test_loss,
        .test_accuracy = trainer->test_accuracy,
    };
    if (trainer->hooks.progress(&progress, trainer->hooks.progress_context)) {
        OCT_FAIL(CANCELLED, "stopped after step %lld of %lld", (long long)progress.step,
                 (long long)progress.n_steps);
    }
    return OCT_OK;
}

static int report_evaluation(int64_t batch, int64_t n_batches, void *context) {
    struct oct_trainer *trainer = context;
    return report(trainer, OCT_PHASE_EVALUATE, batch, n_batches) != OCT_OK;
}

oct_status oct__trainer_step(struct oct_trainer *trainer) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    double begun = oct__seconds();
    trainer->last_rate = oct__schedule_rate(trainer->schedule, trainer->rate, trainer->step,
                                            n_steps, trainer->epoch_steps);
    trainer->cohort->watch = trainer->watches && (trainer->step + 1) % trainer->epoch_steps == 0;
    OCT_TRY(oct__cohort_step(trainer->cohort, (uint32_t)trainer->step, (float)trainer->last_rate,
                             trainer->nodes));
    trainer->has_watched |= trainer->cohort->watch;
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->epoch_loss += trainer->nodes[node].loss * trainer->batch;
        trainer->epoch_hits += trainer->nodes[node].n_hits;
    }
    int64_t samples = (int64_t)trainer->batch * trainer->n_nodes;
    trainer->epoch_samples += samples;
    trainer->samples_seen += samples;
    trainer->step++;
    trainer->train_seconds += oct__seconds() - begun;
    return OCT_OK;
}

static oct_status evaluate(struct oct_trainer *trainer) {
    double begun = oct__seconds();
    OCT_TRY(oct__cohort_average(trainer->cohort, &trainer->distance));
    OCT_TRY(oct__cohort_evaluate(trainer->cohort, -1, report_evaluation, trainer,
                                 &trainer->test_loss, &trainer->test_accuracy));
    if (!isfinite(trainer->distance)) {
        trainer->test_loss = (double)NAN; /* bytes cannot show that a parameter is not a number */
    }
    trainer->eval_seconds = oct__seconds() - begun;
    trainer->evaluated_step = trainer->step;
    trainer->is_evaluated = 1;
    return OCT_OK;
}

/* Goes on inside the epoch where a caller stopped the run. */
static oct_status run_epoch(struct oct_trainer *trainer) {
    const int64_t done = trainer->step - trainer->epochs_done * trainer->epoch_steps;
    if (done == 0) {
        trainer->epoch_loss = 0;
        trainer->epoch_hits = trainer->epoch_samples = 0;
    }
    for (int64_t i = done; i < trainer->epoch_steps; i++) {
        OCT_TRY(oct__trainer_step(trainer));
        OCT_TRY(report(trainer, OCT_PHASE_TRAIN, i + 1, trainer->epoch_steps));
    }
    OCT_TRY(evaluate(trainer));
    if (!isfinite(trainer->test_loss)) {
        OCT_FAIL(NOT_FINITE,
                 "after step %lld: the test loss is %g: the last update overflowed; lower the "
                 "learning rate (lr)",
                 (long long)trainer->step, fabs(trainer->test_loss)); /* no "-nan" */
    }
    trainer->epochs_done++;
    return report(trainer, OCT_PHASE_EPOCH_END, trainer->epoch_steps, trainer->epoch_steps);
}

oct_status oct_trainer_run(struct oct_trainer *trainer) {
    if (!trainer) {
        OCT_FAIL(INVALID, "running needs a trainer");
    }
    trainer->started = oct__seconds();
    oct_status status = OCT_OK;
    while (status == OCT_OK && trainer->epochs_done < trainer->n_epochs) {
        status = run_epoch(trainer);
    }
    trainer->seconds += oct__seconds() - trainer->started;
    return status;
}

/* --- results --------------------------------------------------------------------------------- */

/* SHA-256 of the average model: every parameter tensor's elements as little-endian f32, gaps left
 * out. */
static oct_status hash_average(struct oct_trainer *trainer, char text[OCT_SHA256_TEXT]) {
    const struct oct__row *params = &trainer->graph.params;
    float *values = trainer->cohort->host_row;
    struct oct__sha256 sha;
    OCT_TRY(oct__cohort_read_average(trainer->cohort, OCT_HOME_PARAM, values));
    oct__sha256_init(&sha);
    for (size_t i = 0; i < params->n_items; i++) {
        const float *from = values + params->items[i].offset;
        for (size_t j = 0; j < params->items[i].count; j++) {
            uint32_t bits;
            memcpy(&bits, &from[j], sizeof bits);
            uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                                (uint8_t)(bits >> 24)};
            oct__sha256_add(&sha, bytes, sizeof bytes);
        }
    }
    oct__sha256_text(&sha, text);
    return OCT_OK;
}

/* Mean over the nodes of their own models' accuracies; one node is its own average. */
static oct_status mean_of_nodes(struct oct_trainer *trainer, double *accuracy) {
    *accuracy = trainer->test_accuracy;
    if (trainer->n_nodes == 1) {
        return OCT_OK;
    }
    double sum = 0.0;
    for (int node = 0; node < trainer->n_nodes; node++) {
        double loss, own;
        OCT_TRY(
            oct__cohort_evaluate(trainer->cohort, node, report_evaluation, trainer, &loss, &own));
        sum += own;
    }
    *accuracy = sum / trainer->n_nodes;
    return OCT_OK;
}

static oct_status fill_result(struct oct_trainer *trainer, struct oct_result *out) {
    if (!trainer->is_evaluated || trainer->evaluated_step != trainer->step) {
        OCT_TRY(evaluate(trainer));
    }
    struct oct_result result = {
        .accuracy = trainer->test_accuracy,
        .loss = trainer->test_loss,
        .train_loss =
            trainer->epoch_samples ? trainer->epoch_loss / (double)trainer->epoch_samples : 0,
        .consensus_distance = trainer->distance,
        .bytes_sent = 0,
        .samples_per_s = samples_per_s(trainer),
        .seconds = trainer->seconds,
        .epochs = trainer->epochs_done,
        .n_parameters = (int64_t)oct__row_count(&trainer->graph.params),
        .workspace_bytes = trainer->cohort->workspace_bytes,
        .state_bytes = trainer->cohort->state_bytes,
    };
    OCT_TRY(mean_of_nodes(trainer, &result.accuracy_nodes));
    OCT_TRY(hash_average(trainer, result.model_sha256));
    *out = result;
    return OCT_OK;
}

oct_status oct_trainer_result(struct oct_trainer *trainer, struct oct_result *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "a result needs a trainer and a place to be returned");
    }
    oct_progress_fn *progress = trainer->hooks.progress;
    trainer->hooks.progress = NULL; /* it may still ask to stop */
    oct_status status = fill_result(trainer, out);
    trainer->hooks.progress = progress;
    return status;
}

void oct_trainer_watch(struct oct_trainer *trainer) {
    if (trainer) {
        trainer->watches = 1;
    }
}

oct_status oct_trainer_quantizer(const struct oct_trainer *trainer, int index,
                                 struct oct_quantizer *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "a quantizer needs a trainer and a place to be returned");
    }
    const struct oct__program *program = trainer->cohort->step_program;
    if (!trainer->has_watched || index < 0 || (size_t)index >= program->n_watches) {
        OCT_FAIL(NOT_FOUND, "quantizer %d: %s", index,
                 trainer->has_watched ? "there are fewer" : "none has been watched yet");
    }
    double sums[3] = {0};
    for (int node = 0; node < trainer->n_nodes; node++) {
        const float *found =
            trainer->cohort->watched + ((size_t)node * program->n_watches + (size_t)index) * 4;
        for (int i = 0; i < 3; i++) {
            sums[i] += (double)found[i] / trainer->n_nodes;
        }
    }
    const struct oct__watch *watch = &program->watches[index];
    *out = (struct oct_quantizer){
        .layer = trainer->graph.layers[watch->layer].name,
        .is_gradient = watch->is_gradient,
        .clipped = oct__watch_clips(program, watch) ? sums[0] : 0,
        .zero = sums[1],
        .scale = sums[2],
    };
    return OCT_OK;
}

/* Parameters and statistics as one row, which is what a file holds: a BatchNorm's running mean and
 * variance are as much part of a trained model as its weights. */
struct whole {
    struct oct__row row;
    float *values, *stats; /* the statistics follow the parameters */
};

static void whole_fini(struct whole *whole) {
    oct__free(whole->row.items);
    oct__free(whole->values);
}

static oct_status whole_init(const struct oct_graph *graph, struct whole *whole) {
    const struct oct__row *parts[2] = {&graph->params, &graph->stats};
    void *memory;
    memset(whole, 0, sizeof *whole);
    whole->row.n_elements = graph->params.n_elements + graph->stats.n_elements;
    OCT_TRY(oct__alloc_array(graph->params.n_items + graph->stats.n_items, sizeof *whole->row.items,
                             "tensor list", &memory));
    whole->row.items = memory;
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; i < parts[part]->n_items; i++) {
            struct oct__param *item = &whole->row.items[whole->row.n_items++];
            *item = parts[part]->items[i];
            item->offset += part ? graph->params.n_elements : 0;
        }
    }
    oct_status status = oct__alloc_array(whole->row.n_elements, sizeof *whole->values,
                                         "parameters and statistics", &memory);
    if (status != OCT_OK) {
        whole_fini(whole);
        return status;
    }
    whole->values = memory;
    whole->stats = whole->values + graph->params.n_elements;
    return OCT_OK;
}

oct_status oct_trainer_save(struct oct_trainer *trainer, const char *path) {
    if (!trainer || !path) {
        OCT_FAIL(INVALID, "saving needs a trainer and a file name");
    }
    oct_status status;
    struct oct__cohort *cohort = trainer->cohort;
    struct whole whole;
    double distance;
    OCT_TRY(whole_init(&trainer->graph, &whole));
    OCT_TRY_TO(out, oct__cohort_average(cohort, &distance));
    OCT_TRY_TO(out, oct__cohort_read_average(cohort, OCT_HOME_PARAM, whole.values));
    OCT_TRY_TO(out, oct__cohort_read_average(cohort, OCT_HOME_STAT, whole.stats));
    status = oct__safetensors_save(path, &whole.row, whole.values);
out:
    whole_fini(&whole);
    return status;
}

/* Momentum belongs to the steps that led to the old parameters, so it starts anew. */
oct_status oct_trainer_load(struct oct_trainer *trainer, const char *path) {
    if (!trainer || !path) {
        OCT_FAIL(INVALID, "loading needs a trainer and a file name");
    }
    oct_status status;
    struct oct__cohort *cohort = trainer->cohort;
    struct whole whole;
    OCT_TRY(whole_init(&trainer->graph, &whole));
    OCT_TRY_TO(out, oct__safetensors_load(path, &whole.row, whole.values));
    OCT_TRY_TO(out, oct__cohort_write(cohort, OCT_HOME_PARAM, whole.values));
    OCT_TRY_TO(out, oct__cohort_write(cohort, OCT_HOME_STAT, whole.stats));
    memset(whole.values, 0, trainer->graph.params.n_elements * sizeof *whole.values);
    OCT_TRY_TO(out, oct__cohort_write(cohort, OCT_HOME_MOMENTUM, whole.values));
    trainer->is_evaluated = 0;
out:
    whole_fini(&whole);
    return status;
}
