/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - a run: steps and rounds of gossip, epochs, evaluation, checkpoints on the way. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "train/config.h"

oct_status oct_trainer_create(const struct oct_config *config, const struct oct_hooks *hooks,
                              struct oct_trainer **out) {
    if (!config || !out) {
        OCT_FAIL(INVALID, "a trainer needs a configuration and a place to be returned");
    }
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_trainer), "trainer", &memory));
    struct oct_trainer *trainer = memory;
    if (hooks) {
        trainer->hooks = *hooks;
    }
    oct_status status = oct__trainer_set_up(trainer, config);
    if (status != OCT_OK) {
        oct_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return OCT_OK;
}

void oct_trainer_destroy(struct oct_trainer *trainer) {
    if (!trainer) {
        return;
    }
    oct__exchange_destroy(trainer->exchange);
    oct__gossip_destroy(trainer->gossip);
    oct__gossip_destroy(trainer->statistics);
    oct__cohort_destroy(trainer->cohort);
    oct__engine_close(trainer->engine);
    oct_topology_destroy(trainer->topology);
    oct_partition_destroy(trainer->partition);
    oct__graph_fini(&trainer->graph);
    oct_dataset_close(trainer->owned_train);
    oct_dataset_close(trainer->owned_test);
    oct_config_destroy(trainer->config);
    oct__free(trainer->test_rows);
    oct__free(trainer->nodes);
    oct__nodes_free(trainer);
    oct__absence_free(trainer);
    oct__together_free(trainer);
    oct__free(trainer);
}

const struct oct_dataset *oct_trainer_data(const struct oct_trainer *trainer,
                                           enum oct_split split) {
    return !trainer ? NULL : split == OCT_SPLIT_TRAIN ? trainer->train : trainer->test;
}

/* --- telling how far it is ------------------------------------------------------------------- */

double oct__trainer_samples_per_s(const struct oct_trainer *trainer) {
    return trainer->train_seconds > 0 ? (double)trainer->samples_seen / trainer->train_seconds : 0;
}

/* Whether an epoch, which counts from 1, is tested: every so many are, and the last one is. */
static int is_tested(const struct oct_trainer *trainer, int64_t epoch) {
    return epoch % trainer->config->test_every == 0 || epoch == trainer->n_epochs;
}

/* Time that the rest would take at the pace so far: training steps, and the tests to come. */
static double seconds_left(const struct oct_trainer *trainer) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    double rate = oct__trainer_samples_per_s(trainer);
    if (rate <= 0) {
        return 0;
    }
    double samples = (double)(n_steps - trainer->step) * trainer->batch * trainer->n_nodes;
    const int64_t every = trainer->config->test_every;
    const int64_t n_tests = (trainer->n_epochs + every - 1) / every - trainer->epochs_done / every;
    return samples / rate + trainer->eval_seconds * (double)n_tests;
}

oct_status oct__trainer_report(struct oct_trainer *trainer, enum oct_phase phase, int64_t at,
                               int64_t most) {
    const int is_alone = trainer->ranks->n_ranks == 1;
    const int is_heard = trainer->hooks.progress && trainer->ranks->rank == 0;
    if (is_alone && !is_heard) {
        return OCT_OK;
    }
    const struct oct__together *own = &trainer->together;
    const int is_own = own->n_steps > 0; /* figures of all nodes come when ranks are together */
    const double samples = (double)(is_own ? own->samples : trainer->epoch_samples);
    const double loss = is_own ? own->loss : trainer->epoch_loss;
    const double hits = (double)(is_own ? own->hits : trainer->epoch_hits);
    struct oct_progress progress = {
        .phase = phase,
        .epoch = trainer->epochs_done + (phase == OCT_PHASE_EPOCH_END ? 0 : 1),
        .n_epochs = trainer->n_epochs,
        .step = trainer->step,
        .n_steps = trainer->epoch_steps * trainer->n_epochs,
        .epoch_step = at,
        .epoch_steps = most,
        .loss = samples > 0 ? loss / samples : 0,
        .accuracy = samples > 0 ? 100.0 * hits / samples : 0,
        .learning_rate = trainer->last_rate,
        .samples_per_s = oct__trainer_samples_per_s(trainer),
        .seconds = trainer->seconds + oct__seconds() - trainer->started,
        .seconds_left = seconds_left(trainer),
        .test_loss = trainer->test_loss,
        .test_accuracy = trainer->test_accuracy,
        .consensus_distance = trainer->distance,
        .bytes_sent = trainer->exchange->traffic.bytes,
    };
    int stops = is_heard && trainer->hooks.progress(&progress, trainer->hooks.progress_context);
    if (!is_alone) {
        return oct__together_stop(trainer, phase, at == most, stops);
    }
    if (stops) {
        OCT_FAIL(CANCELLED, "stopped after step %lld of %lld", (long long)progress.step,
                 (long long)progress.n_steps);
    }
    return OCT_OK;
}

int oct__trainer_report_evaluation(int64_t batch, int64_t n_batches, void *context) {
    struct oct_trainer *trainer = context;
    return oct__trainer_report(trainer, OCT_PHASE_EVALUATE, batch, n_batches) != OCT_OK;
}

/* --- steps and rounds ------------------------------------------------------------------------ */

/* The round that follows training step `step`, if one does. */
static oct_status gossip(struct oct_trainer *trainer, int64_t step) {
    if (!trainer->cohort->is_round) {
        return OCT_OK;
    }
    const int64_t round = step / trainer->gossip_every, n_rounds = oct__trainer_rounds(trainer);
    /* a benchmark goes on after the last round of the run */
    const int is_dense = round >= n_rounds - trainer->compensation && round < n_rounds;
    double begun = oct__seconds();
    oct_status status =
        oct__exchange_round(trainer->exchange, (uint32_t)round, (uint32_t)step, is_dense);
    trainer->gossip_seconds += oct__seconds() - begun;
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "step %lld: ", (long long)step);
}

/* Whether slow momentum follows the way that ends with this step. Not one of the warm-up, whose
 * gradients it would follow ten times as far, nor one on which the rate has fallen to less than half:
 * its steps and its rate do not belong together. */
static int can_leap(const struct oct_trainer *trainer) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    const int64_t first = trainer->step + 1 - trainer->gossip_every;
    return first >= oct__schedule_warm_up(n_steps, trainer->epoch_steps) &&
           oct__schedule_rate(&trainer->schedule, trainer->rate, first, n_steps,
                              trainer->epoch_steps) <= 2.0 * trainer->last_rate;
}

oct_status oct__trainer_step(struct oct_trainer *trainer) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    double begun = oct__seconds();
    trainer->last_rate = oct__schedule_rate(&trainer->schedule, trainer->rate, trainer->step,
                                            n_steps, trainer->epoch_steps);
    trainer->cohort->watch = trainer->watches && (trainer->step + 1) % trainer->epoch_steps == 0;
    trainer->cohort->is_round = (trainer->step + 1) % trainer->gossip_every == 0;
    trainer->cohort->is_leap = trainer->cohort->is_round && can_leap(trainer);
    const uint32_t step = (uint32_t)trainer->step;
    const float rate = (float)trainer->last_rate;
    const double *weights = trainer->gossip->u + trainer->first_node;
    OCT_TRY(oct__absence_begin(trainer));
    OCT_TRY(oct__cohort_step(trainer->cohort, step, rate, trainer->nodes + trainer->first_node));
    OCT_TRY(gossip(trainer, trainer->step));
    OCT_TRY(oct__cohort_settle(trainer->cohort, step, rate, weights));
    OCT_TRY(oct__absence_end(trainer));
    trainer->has_watched |= trainer->cohort->watch;
    OCT_TRY(oct__together_step(trainer));
    int64_t samples = (int64_t)trainer->batch * oct__absence_present(trainer);
    trainer->epoch_samples += samples;
    trainer->samples_seen += samples;
    trainer->step++;
    trainer->train_seconds += oct__seconds() - begun;
    return OCT_OK;
}

/* With push-sum a row has become a numerator: z = x / u takes its place. */
static oct_status divide_statistics(struct oct_trainer *trainer) {
    struct oct__engine *engine = trainer->engine;
    const struct oct__cohort *cohort = trainer->cohort;
    const size_t bytes = cohort->stride[OCT_HOME_STAT], n = bytes / sizeof(float);
    float *row = cohort->host_row;
    for (int i = 0; i < trainer->n_hosted; i++) {
        void *at = (char *)cohort->state[OCT_HOME_STAT] + (size_t)i * bytes;
        const double weight = trainer->statistics->u[trainer->first_node + i];
        OCT_TRY(engine->read(engine, row, at, bytes));
        for (size_t k = 0; k < n; k++) {
            row[k] = (float)((double)row[k] / weight);
        }
        OCT_TRY(engine->write(engine, at, row, bytes));
    }
    return OCT_OK;
}

/* What a norm or a quantizer has seen on the way is its node's own data, which fits no other; a model
 * that all nodes have needs statistics that all have. All rounds of it at once, in the last one without
 * training, so that a checkpoint has either none of them or all. */
static oct_status mix_statistics(struct oct_trainer *trainer) {
    struct oct__gossip *statistics = trainer->statistics;
    if (!statistics) {
        return OCT_OK;
    }
    if (trainer->away) {
        memcpy(statistics->away, trainer->away, (size_t)trainer->n_nodes);
    }
    for (int i = 0; i < trainer->n_final; i++) {
        const int64_t round = oct__trainer_rounds(trainer) + i;
        OCT_TRY(oct__exchange_round_of(trainer->exchange, statistics, (uint32_t)round,
                                       (uint32_t)trainer->step));
    }
    return trainer->algorithm->is_push_sum ? divide_statistics(trainer) : OCT_OK;
}

/* Uncompressed rounds without training, after the last step. Momentum is left as it is. */
static oct_status final_rounds(struct oct_trainer *trainer) {
    if (trainer->n_final > 0 && trainer->final_done == 0) {
        OCT_TRY(oct__absence_return(trainer));
    }
    trainer->cohort->is_round = 0; /* none of training */
    while (trainer->final_done < trainer->n_final) {
        const struct oct__traffic before = trainer->exchange->traffic;
        const int64_t round = oct__trainer_rounds(trainer) + trainer->final_done;
        OCT_TRY(
            oct__exchange_round(trainer->exchange, (uint32_t)round, (uint32_t)trainer->step, 1));
        OCT_TRY(oct__cohort_settle(trainer->cohort, (uint32_t)trainer->step, 0.0F,
                                   trainer->gossip->u + trainer->first_node));
        if (trainer->final_done + 1 == trainer->n_final) {
            OCT_TRY(mix_statistics(trainer));
        }
        const struct oct__traffic *now = &trainer->exchange->traffic;
        trainer->final_traffic.messages += now->messages - before.messages;
        trainer->final_traffic.bytes += now->bytes - before.bytes;
        trainer->final_traffic.dense += now->dense - before.dense;
        trainer->final_done++;
        OCT_TRY(
            oct__trainer_report(trainer, OCT_PHASE_GOSSIP, trainer->final_done, trainer->n_final));
    }
    return OCT_OK;
}

/* --- epochs ---------------------------------------------------------------------------------- */

oct_status oct__trainer_evaluate(struct oct_trainer *trainer) {
    double begun = oct__seconds();
    OCT_TRY(oct__together_sync(trainer));
    OCT_TRY(oct__cohort_average(trainer->cohort, trainer->gossip->u, trainer->distances,
                                &trainer->distance));
    OCT_TRY(oct__cohort_evaluate(trainer->cohort, -1, oct__trainer_report_evaluation, trainer,
                                 &trainer->test_loss, &trainer->test_accuracy));
    if (!isfinite(trainer->distance)) {
        trainer->test_loss = (double)NAN; /* bytes cannot show that a parameter is not a number */
    }
    trainer->eval_seconds = oct__seconds() - begun;
    trainer->evaluated_at = trainer->step + trainer->final_done;
    trainer->is_evaluated = 1;
    oct__nodes_evaluated(trainer);
    return OCT_OK;
}

/* An epoch without a test: what the last one found out is not of this model. */
static oct_status pass_over(struct oct_trainer *trainer) {
    OCT_TRY(oct__together_sync(trainer));
    trainer->test_loss = trainer->test_accuracy = trainer->distance = (double)NAN;
    trainer->is_evaluated = 0;
    for (int node = 0; node < trainer->n_nodes; node++) {
        trainer->distances[node] = (double)NAN;
    }
    oct__nodes_evaluated(trainer);
    return OCT_OK;
}

static oct_status test_epoch(struct oct_trainer *trainer) {
    if (!is_tested(trainer, trainer->epochs_done + 1)) {
        return pass_over(trainer);
    }
    OCT_TRY(oct__trainer_evaluate(trainer));
    if (!isfinite(trainer->test_loss)) {
        OCT_FAIL(NOT_FINITE,
                 "after step %lld: the test loss is %g: the last update overflowed; lower the "
                 "learning rate (lr)",
                 (long long)trainer->step, fabs(trainer->test_loss)); /* no "-nan" */
    }
    return OCT_OK;
}

/* Goes on inside the epoch where a caller stopped the run. */
static oct_status run_epoch(struct oct_trainer *trainer) {
    const int64_t done = trainer->step - trainer->epochs_done * trainer->epoch_steps;
    if (done == 0) {
        trainer->epoch_loss = 0;
        trainer->epoch_hits = trainer->epoch_samples = 0;
        trainer->together.loss = 0;
        trainer->together.hits = trainer->together.samples = 0;
        oct__nodes_begin_epoch(trainer);
    }
    for (int64_t i = done; i < trainer->epoch_steps; i++) {
        OCT_TRY(oct__trainer_step(trainer));
        OCT_TRY(oct__trainer_report(trainer, OCT_PHASE_TRAIN, i + 1, trainer->epoch_steps));
    }
    OCT_TRY(oct__exchange_count(trainer->exchange));
    if (trainer->epochs_done + 1 == trainer->n_epochs) {
        OCT_TRY(final_rounds(trainer));
    }
    OCT_TRY(test_epoch(trainer));
    trainer->epochs_done++;
    oct__nodes_end_epoch(trainer);
    return oct__trainer_report(trainer, OCT_PHASE_EPOCH_END, trainer->epoch_steps,
                               trainer->epoch_steps);
}

/* A run that is left to choose when it writes a checkpoint (option every: 0) does so after as many times
 * what the last one took, and not before some seconds have gone by. */
#define KEEP_TIMES 50.0
#define KEEP_LEAST_S 10.0

/* A checkpoint is due after every so many epochs, after the last, and when the caller stops. Clocks
 * differ, so rank 0's says. */
static oct_status is_due(const struct oct_trainer *trainer, oct_status status, int *due) {
    const int64_t every = trainer->config->every;
    *due = status == OCT_STATUS_CANCELLED ||
           (status == OCT_OK && trainer->epochs_done == trainer->n_epochs);
    if (*due || status != OCT_OK) {
        return OCT_OK;
    }
    if (every > 0) {
        *due = trainer->epochs_done % every == 0;
        return OCT_OK;
    }
    const double gone = oct__seconds() - trainer->kept_at;
    *due = gone >= KEEP_LEAST_S && gone >= KEEP_TIMES * trainer->kept_seconds;
    return oct__ranks_spread(trainer->ranks, 0, due, sizeof *due);
}

static oct_status keep(struct oct_trainer *trainer, oct_status status) {
    const struct oct_config *config = trainer->config;
    int due = 0;
    if (config->checkpoint[0]) {
        OCT_TRY(is_due(trainer, status, &due));
    }
    if (!due) {
        return status;
    }
    char why[OCT_DETAIL_BYTES];
    oct__detail_take(why);
    OCT_TRY(oct__exchange_count(trainer->exchange));
    OCT_TRY(oct__together_sync(trainer));
    const double began = oct__seconds();
    OCT_TRY(oct__trainer_keep(trainer, config->checkpoint));
    trainer->kept_at = oct__seconds();
    trainer->kept_seconds = trainer->kept_at - began;
    trainer->checkpoint_seconds += trainer->kept_seconds;
    oct__detail_give(why);
    return status;
}

/* Time goes by in pieces, so that a checkpoint has all of it. */
static void count_seconds(struct oct_trainer *trainer) {
    const double now = oct__seconds();
    trainer->seconds += now - trainer->started;
    trainer->started = now;
}

oct_status oct_trainer_run(struct oct_trainer *trainer) {
    if (!trainer) {
        OCT_FAIL(INVALID, "running needs a trainer");
    }
    oct__ranks_enter(trainer->ranks);
    trainer->started = oct__seconds();
    trainer->kept_at = trainer->kept_at > 0 ? trainer->kept_at : trainer->started;
    uint64_t watches = trainer->watches != 0; /* anybody's wish is everybody's work */
    oct_status status = oct__ranks_count(trainer->ranks, &watches, 1);
    trainer->watches = watches > 0;
    while (status == OCT_OK && trainer->epochs_done < trainer->n_epochs) {
        status = run_epoch(trainer);
        count_seconds(trainer);
        status = keep(trainer, status);
        count_seconds(trainer);
    }
    return oct__ranks_leave(trainer->ranks, status);
}
