/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - what a run has come to: figures, quantizers, the average model as a file. */
#include <math.h>
#include <string.h>

#include "base/sha256.h"
#include "nn/layer.h"
#include "train/config.h"
#include "train/model.h"
#include "train/network.h"
#include "train/trainer.h"

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

/* Accuracies of the nodes' own models: the first `eval_nodes` of them, by itself all but at most
 * NODES_MOST. One node is its own average. */
#define NODES_MOST 64

/* Up to which node they are tested: `wanted` of them, not counting those that nobody can ask. */
static int nodes_end(const struct oct_trainer *trainer, int64_t wanted) {
    int node = 0;
    while (node < trainer->n_nodes && wanted > 0) {
        wanted -= !(trainer->away && trainer->away[node]);
        node++;
    }
    return node;
}

static oct_status test_node(struct oct_trainer *trainer, int hosted) {
    const int node = trainer->first_node + hosted;
    double loss, own = trainer->test_accuracy;
    if (trainer->away && trainer->away[node]) {
        return OCT_OK;
    }
    if (trainer->n_nodes > 1) {
        OCT_TRY(oct__cohort_evaluate(trainer->cohort, hosted, oct__trainer_report_evaluation,
                                     trainer, &loss, &own));
    }
    trainer->shown[node].test_accuracy = own;
    return OCT_OK;
}

/* Each rank tests the nodes that it hosts; everybody gets all. The first nodes may all be one rank's, so
 * ranks come together after each: nobody waits for longer than one takes. */
static oct_status test_nodes(struct oct_trainer *trainer, struct oct_result *result) {
    const int64_t wanted = trainer->config->eval_nodes ? trainer->config->eval_nodes : NODES_MOST;
    const int end = nodes_end(trainer, wanted);
    double sum = 0.0, least = INFINITY, most = -INFINITY;
    int n_tested = 0;
    const int n_ranks = trainer->ranks->n_ranks;
    const int most_hosted = (trainer->n_nodes + n_ranks - 1) / n_ranks;
    for (int i = 0; i < most_hosted && i < end; i++) {
        const int is_own = i < trainer->n_hosted && trainer->first_node + i < end;
        OCT_TRY(oct__ranks_agree(trainer->ranks, is_own ? test_node(trainer, i) : OCT_OK));
    }
    OCT_TRY(
        oct__ranks_share(trainer->ranks, trainer->shown, trainer->n_nodes, sizeof *trainer->shown));
    for (int node = 0; node < end; node++) {
        const double own = trainer->shown[node].test_accuracy;
        if (trainer->away && trainer->away[node]) {
            continue;
        }
        sum += own;
        least = own < least ? own : least;
        most = own > most ? own : most;
        n_tested++;
    }
    result->accuracy_nodes = sum / n_tested; /* somebody is always there */
    result->accuracy_least = least;
    result->accuracy_most = most;
    result->nodes_tested = n_tested;
    return OCT_OK;
}

static oct_status fill_result(struct oct_trainer *trainer, struct oct_result *out) {
    OCT_TRY(oct__exchange_count(trainer->exchange));
    OCT_TRY(oct__together_sync(trainer));
    if (!trainer->is_evaluated || trainer->evaluated_at != trainer->step + trainer->final_done) {
        OCT_TRY(oct__trainer_evaluate(trainer));
    }
    const struct oct__traffic *all = &trainer->exchange->traffic, *last = &trainer->final_traffic;
    const uint64_t statistics = trainer->statistics ? trainer->statistics->workspace_bytes : 0;
    uint64_t bytes[2] = {oct__cohort_workspace(trainer->cohort) + trainer->gossip->workspace_bytes +
                             statistics,
                         trainer->cohort->state_bytes + trainer->gossip->state_bytes};
    OCT_TRY(oct__ranks_count(trainer->ranks, bytes, 2));
    struct oct_result result = {
        .accuracy = trainer->test_accuracy,
        .loss = trainer->test_loss,
        .train_loss =
            trainer->epoch_samples ? trainer->epoch_loss / (double)trainer->epoch_samples : NAN,
        .consensus_distance = trainer->distance,
        .bytes_sent = all->bytes,
        .bytes_final = last->bytes,
        .bytes_dense = all->dense - last->dense,
        .messages = all->messages - last->messages,
        .samples_per_s = trainer->samples_seen ? oct__trainer_samples_per_s(trainer) : NAN,
        .seconds = trainer->seconds,
        .gossip_share =
            trainer->train_seconds > 0 ? trainer->gossip_seconds / trainer->train_seconds : 0,
        .checkpoint_seconds = trainer->checkpoint_seconds,
        .epochs = trainer->epochs_done,
        .n_parameters = (int64_t)oct__row_count(&trainer->graph.params),
        .workspace_bytes = bytes[0],
        .state_bytes = bytes[1],
        .has_faults = trainer->has_faults,
    };
    if (trainer->exchange->faults) {
        result.faults = trainer->exchange->faults->counts;
    }
    OCT_TRY(test_nodes(trainer, &result));
    OCT_TRY(hash_average(trainer, result.model_sha256));
    *out = result;
    return OCT_OK;
}

oct_status oct_trainer_result(struct oct_trainer *trainer, struct oct_result *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "a result needs a trainer and a place to be returned");
    }
    OCT_TRY(oct__trainer_rests(trainer, "a result"));
    oct__ranks_enter(trainer->ranks);
    oct_progress_fn *progress = trainer->hooks.progress;
    trainer->hooks.progress = NULL; /* it may still ask to stop */
    oct_status status = fill_result(trainer, out);
    trainer->hooks.progress = progress;
    return oct__ranks_leave(trainer->ranks, status);
}

void oct_trainer_watch(struct oct_trainer *trainer) {
    if (trainer) {
        trainer->watches = 1;
    }
}

/* Whether a node took part in the step that was watched last, the last one of an epoch. */
static int was_there(const struct oct_trainer *trainer, int node) {
    const int64_t step = trainer->step / trainer->epoch_steps * trainer->epoch_steps - 1;
    return !trainer->away || !oct__fault_is_away(&trainer->exchange->faults->plan, node, step);
}

oct_status oct_trainer_quantizer(const struct oct_trainer *trainer, int index,
                                 struct oct_quantizer *out) {
    if (!trainer || !out) {
        OCT_FAIL(INVALID, "a quantizer needs a trainer and a place to be returned");
    }
    const struct oct__program *program = trainer->cohort->crew->step_program;
    if (!trainer->has_watched || index < 0 || (size_t)index >= program->n_watches) {
        OCT_FAIL(NOT_FOUND, "quantizer %d: %s", index,
                 trainer->has_watched ? "there are fewer" : "none has been watched yet");
    }
    double sums[3] = {0};
    int n_there = 0;
    for (int node = 0; node < trainer->n_nodes; node++) {
        n_there += was_there(trainer, node);
    }
    for (int node = 0; node < trainer->n_nodes; node++) {
        const float *found =
            trainer->cohort->watched + ((size_t)node * program->n_watches + (size_t)index) * 4;
        for (int i = 0; i < 3 && was_there(trainer, node); i++) {
            sums[i] += (double)found[i] / n_there;
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

/* What a program has built no file can say. */
static oct_status write_model(const struct oct_trainer *trainer, const char *path,
                              enum oct_model_form form, const struct oct__whole *whole) {
    char about[OCT_MODEL_ABOUT] = "";
    if (!trainer->hooks.model) {
        OCT_TRY(oct__model_about(trainer->config, trainer->train, about));
    }
    return oct__model_save(path, form, trainer->graph.recipe.weights, about, &whole->row,
                           whole->values);
}

oct_status oct_trainer_save_as(struct oct_trainer *trainer, const char *path,
                               enum oct_model_form form) {
    if (!trainer || !path) {
        OCT_FAIL(INVALID, "saving needs a trainer and a file name");
    }
    if (form != OCT_MODEL_F32 && (form != OCT_MODEL_INT8 || !trainer->graph.is_int8)) {
        OCT_FAIL(INVALID, "%s",
                 form == OCT_MODEL_INT8
                     ? "a model file of bytes needs a run that computes with them; save floats, or "
                       "train with precision int8"
                     : "a model file has floats or bytes");
    }
    oct_status status;
    struct oct__cohort *cohort = trainer->cohort;
    struct oct__whole whole;
    double distance;
    oct__ranks_enter(trainer->ranks);
    OCT_TRY_TO(out, oct__whole_init(&trainer->graph, &whole));
    OCT_TRY_TO(out, oct__together_sync(trainer));
    OCT_TRY_TO(out, oct__cohort_average(cohort, trainer->gossip->u, NULL, &distance));
    OCT_TRY_TO(out, oct__cohort_read_average(cohort, OCT_HOME_PARAM, whole.values));
    OCT_TRY_TO(out, oct__cohort_read_average(cohort, OCT_HOME_STAT, whole.stats));
    if (trainer->ranks->rank == 0) {
        status = write_model(trainer, path, form, &whole);
    }
    status = oct__ranks_agree(trainer->ranks, status);
out:
    oct__whole_fini(&whole);
    return oct__ranks_leave(trainer->ranks, status);
}

oct_status oct_trainer_save(struct oct_trainer *trainer, const char *path) {
    return oct_trainer_save_as(trainer, path, OCT_MODEL_F32);
}

/* Momentum, and what neighbours know of each other, belong to the steps that led to the old
 * parameters, so they start anew. */
static oct_status take(struct oct_trainer *trainer, const struct oct__whole *whole) {
    struct oct__cohort *cohort = trainer->cohort;
    OCT_TRY(oct__cohort_write(cohort, OCT_HOME_PARAM, whole->values));
    OCT_TRY(oct__cohort_write(cohort, OCT_HOME_STAT, whole->stats));
    memset(whole->values, 0, trainer->graph.params.n_elements * sizeof *whole->values);
    OCT_TRY(oct__cohort_write(cohort, OCT_HOME_MOMENTUM, whole->values));
    if (cohort->state[OCT_HOME_SLOW]) {
        OCT_TRY(oct__cohort_write(cohort, OCT_HOME_SLOW, whole->values));
    }
    OCT_TRY(oct__gossip_forget(trainer->gossip));
    trainer->is_evaluated = 0;
    return OCT_OK;
}

/* No rank changes anything before all have the model. */
oct_status oct_trainer_load(struct oct_trainer *trainer, const char *path) {
    if (!trainer || !path) {
        OCT_FAIL(INVALID, "loading needs a trainer and a file name");
    }
    OCT_TRY(oct__trainer_rests(trainer, "loading"));
    struct oct__whole whole = {.values = NULL};
    oct__ranks_enter(trainer->ranks);
    oct_status status = oct__whole_init(&trainer->graph, &whole);
    if (status == OCT_OK) {
        status = oct__model_load(path, &whole.row, whole.values);
    }
    status = oct__ranks_agree(trainer->ranks, status);
    if (status == OCT_OK && whole.values) {
        status = oct__ranks_agree(trainer->ranks, take(trainer, &whole));
    }
    oct__whole_fini(&whole);
    return status;
}
