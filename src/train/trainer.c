/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - a run: steps and rounds of gossip, epochs, evaluation, checkpoints on the way. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "train/config.h"

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

/* The round that follows training step `step`. */
static oct_status gossip(struct oct_trainer *trainer, int64_t step) {
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

void oct__trainer_end(struct oct_trainer *trainer, oct_status status) {
    if (status == OCT_OK) {
        return;
    }
    trainer->status = status;
    snprintf(trainer->reason, sizeof trainer->reason, "%s", oct_last_error());
    if (trainer->group->n > 1 && status != OCT_STATUS_CANCELLED) {
        oct__cohort_stand(trainer->cohort, status, trainer->reason);
    }
}

void oct__trainer_begin(struct oct_trainer *trainer) {
    if (!trainer->is_torn) {
        trainer->status = trainer->cohort->status;
    }
}

oct_status oct__trainer_ending(const struct oct_trainer *trainer) {
    return trainer->status == OCT_OK ? OCT_OK : oct__fail(trainer->status, "%s", trainer->reason);
}

/* The first run that has not ended for some reason, from number `from`; NULL: there is none. All
 * of them are after the same step. */
static struct oct_trainer *next_of(const struct oct__group *group, int from) {
    for (int i = from; i < group->n; i++) {
        if (group->runs[i]->status == OCT_OK) {
            return group->runs[i];
        }
    }
    return NULL;
}

#define EACH(run, group)                                                                           \
    struct oct_trainer *run = next_of((group), 0);                                                 \
    (run);                                                                                         \
    (run) = next_of((group), (run)->number + 1)

static void end_all(struct oct__group *group, oct_status status) {
    for (EACH(run, group)) {
        oct__trainer_end(run, status);
    }
}

/* In the middle of a step: some of its nodes are ahead of others, and of the counters. */
static void tear(struct oct_trainer *run, oct_status status) {
    oct__trainer_end(run, status);
    run->is_torn |= status != OCT_OK;
}

static void tear_all(struct oct__group *group, oct_status status) {
    for (EACH(run, group)) {
        tear(run, status);
    }
}

/* What an engine that does not wait has found out since about a run's last round; of one that was
 * stopped meanwhile, too. */
static void hear(struct oct__group *group) {
    struct oct__engine *engine = group->engine;
    int number;
    oct_status status = OCT_OK;
    while (engine->is_shared && engine->verdict &&
           (status = engine->verdict(engine, &number)) != OCT_OK) {
        struct oct_trainer *run = group->runs[number - 1];
        if (run->status == OCT_OK || run->status == OCT_STATUS_CANCELLED) {
            oct__trainer_end(run,
                             oct__fail_within(status, "step %lld: ", (long long)run->step - 1));
        }
    }
}

/* The same of all that was launched so far: before the runs are tested, and kept. */
static void hear_all(struct oct__group *group) {
    struct oct__engine *engine = group->engine;
    if (engine->is_shared && engine->finish) {
        end_all(group, engine->finish(engine));
    }
    hear(group);
}

/* What the step that follows is, for all: they fit, and are after the same step. */
static struct oct__step begin_step(struct oct_trainer *first) {
    const int64_t n_steps = first->epoch_steps * first->n_epochs;
    int watches = 0;
    for (EACH(run, first->group)) {
        run->last_rate =
            oct__schedule_rate(&run->schedule, run->rate, run->step, n_steps, run->epoch_steps);
        watches |= run->watches;
    }
    const int is_round = (first->step + 1) % first->gossip_every == 0;
    const struct oct__step step = {
        .number = (uint32_t)first->step,
        .rate = (float)first->last_rate,
        .watch = watches && (first->step + 1) % first->epoch_steps == 0,
        .is_round = is_round,
        .is_leap = is_round && can_leap(first),
    };
    for (EACH(run, first->group)) {
        oct__trainer_end(run, oct__absence_begin(run));
    }
    return step;
}

/* Local steps are done: what they found out, then the round of gossip. */
static oct_status talk(struct oct_trainer *run, const struct oct__step *step) {
    const struct oct__cohort *cohort = run->cohort;
    memcpy(run->nodes + run->first_node, cohort->crew->found + cohort->first_row,
           (size_t)run->n_hosted * sizeof *run->nodes);
    OCT_TRY(oct__cohort_standing(cohort));
    return step->is_round ? gossip(run, run->step) : OCT_OK;
}

static oct_status end_step(struct oct_trainer *run, const struct oct__step *step) {
    OCT_TRY(oct__cohort_standing(run->cohort)); /* settling may have failed */
    OCT_TRY(oct__absence_end(run));
    run->has_watched |= run->watches && step->watch;
    OCT_TRY(oct__together_step(run));
    const int64_t samples = (int64_t)run->batch * oct__absence_present(run);
    run->epoch_samples += samples;
    run->samples_seen += samples;
    run->step++;
    return OCT_OK;
}

/* One step of all runs that there are; nothing more once there is none. */
static void step_all(struct oct__group *group) {
    struct oct_trainer *first = next_of(group, 0);
    const double begun = oct__seconds();
    const struct oct__step step = begin_step(first);
    if (next_of(group, 0)) {
        tear_all(group, oct__crew_step(first->cohort->crew, &step));
        hear(group);
    }
    for (EACH(run, group)) {
        tear(run, talk(run, &step));
    }
    if (next_of(group, 0)) {
        tear_all(group, oct__crew_settle(first->cohort->crew, &step));
    }
    for (EACH(run, group)) {
        tear(run, end_step(run, &step));
    }
    const double taken = oct__seconds() - begun;
    for (EACH(run, group)) {
        run->train_seconds += taken;
    }
}

oct_status oct__trainer_step(struct oct_trainer *trainer) {
    struct oct__group *group = trainer->group;
    for (int i = 0; i < group->n; i++) {
        oct__trainer_begin(group->runs[i]);
    }
    if (trainer->status == OCT_OK) {
        step_all(group);
    }
    return oct__trainer_ending(trainer);
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
    const struct oct__step settled = {.number = (uint32_t)trainer->step}; /* no round of training */
    while (trainer->final_done < trainer->n_final) {
        const struct oct__traffic before = trainer->exchange->traffic;
        const int64_t round = oct__trainer_rounds(trainer) + trainer->final_done;
        OCT_TRY(
            oct__exchange_round(trainer->exchange, (uint32_t)round, (uint32_t)trainer->step, 1));
        /* the other runs' nodes, too, which changes nothing: theirs are settled */
        OCT_TRY(oct__crew_settle(trainer->cohort->crew, &settled));
        OCT_TRY(oct__cohort_standing(trainer->cohort));
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

static void begin_epoch(struct oct_trainer *run) {
    run->epoch_loss = 0;
    run->epoch_hits = run->epoch_samples = 0;
    run->together.loss = 0;
    run->together.hits = run->together.samples = 0;
    oct__nodes_begin_epoch(run);
}

/* All steps of the epoch are done. */
static oct_status end_epoch(struct oct_trainer *run) {
    OCT_TRY(oct__exchange_count(run->exchange));
    if (run->epochs_done + 1 == run->n_epochs) {
        OCT_TRY(final_rounds(run));
    }
    OCT_TRY(test_epoch(run));
    run->epochs_done++;
    oct__nodes_end_epoch(run);
    return oct__trainer_report(run, OCT_PHASE_EPOCH_END, run->epoch_steps, run->epoch_steps);
}

/* Steps of this epoch that are done. */
static int64_t steps_done(const struct oct_trainer *run) {
    return run->step - run->epochs_done * run->epoch_steps;
}

static int goes_on(const struct oct_trainer *run) {
    return run->status == OCT_OK && run->epochs_done < run->n_epochs;
}

/* The first that does; NULL: none. */
static struct oct_trainer *next_going(const struct oct__group *group) {
    struct oct_trainer *run = next_of(group, 0);
    while (run && !goes_on(run)) {
        run = next_of(group, run->number + 1);
    }
    return run;
}

/* One that wants to stop stops all that go on, so that they can do so side by side. */
static void end_or_stop(struct oct_trainer *run, oct_status status) {
    oct__trainer_end(run, status);
    for (EACH(other, run->group)) {
        if (status == OCT_STATUS_CANCELLED && goes_on(other)) {
            oct__trainer_end(other, status);
        }
    }
}

static void run_steps(struct oct__group *group) {
    for (EACH(run, group)) {
        if (steps_done(run) == 0) {
            begin_epoch(run);
        }
    }
    for (const struct oct_trainer *first = next_of(group, 0);
         first && steps_done(first) < first->epoch_steps; first = next_of(group, 0)) {
        step_all(group);
        for (EACH(run, group)) {
            end_or_stop(
                run, oct__trainer_report(run, OCT_PHASE_TRAIN, steps_done(run), run->epoch_steps));
        }
    }
}

/* Goes on inside the epoch where a caller stopped the runs. Where that was at its end, some have
 * ended it, the whole run perhaps, and some have not: those first. */
static void run_epoch(struct oct__group *group) {
    int is_at_end = 0;
    for (EACH(run, group)) {
        is_at_end |= goes_on(run) && steps_done(run) == run->epoch_steps;
    }
    if (!is_at_end) {
        run_steps(group);
    }
    hear_all(group);
    for (EACH(run, group)) {
        if (goes_on(run) && steps_done(run) == run->epoch_steps) {
            end_or_stop(run, end_epoch(run));
        }
    }
    hear_all(group);
}

/* A run that is left to choose when it writes a checkpoint (option every: 0) does so after as many times
 * what the last one took, and not before some seconds have gone by. */
#define KEEP_TIMES 50.0
#define KEEP_LEAST_S 10.0

/* Whether those that go on keep what they have. Clocks differ, so rank 0's says. */
static oct_status is_due(const struct oct_trainer *run, int *due) {
    const int64_t every = run->config->every;
    if (every > 0) {
        *due = run->epochs_done % every == 0;
        return OCT_OK;
    }
    const struct oct__group *group = run->group;
    const double gone = oct__seconds() - group->kept_at;
    *due = gone >= KEEP_LEAST_S && gone >= KEEP_TIMES * group->kept_seconds;
    return oct__ranks_spread(run->ranks, 0, due, sizeof *due);
}

static oct_status keep(struct oct_trainer *run) {
    OCT_TRY(oct__exchange_count(run->exchange));
    OCT_TRY(oct__together_sync(run));
    const double began = oct__seconds();
    run->is_behind = 1;
    OCT_TRY(oct__trainer_keep(run, run->config->checkpoint));
    run->is_behind = 0;
    const double taken = oct__seconds() - began;
    run->checkpoint_seconds += taken;
    run->group->kept_seconds += taken;
    return OCT_OK;
}

/* Whether those that go on keep what they have; that is one question for all of them. */
static int are_due(struct oct__group *group) {
    int due = 0;
    for (EACH(run, group)) {
        if (goes_on(run) && run->config->checkpoint[0]) {
            oct__trainer_end(run, is_due(run, &due));
            return due;
        }
    }
    return 0;
}

/* A checkpoint is due after every so many epochs, after the last, and when the caller stops. Runs
 * side by side write theirs after the same epochs. */
static void keep_all(struct oct__group *group) {
    const int due = are_due(group);
    const double before = group->kept_seconds;
    group->kept_seconds = 0;
    for (int i = 0; i < group->n; i++) {
        struct oct_trainer *run = group->runs[i];
        const int is_stopped = run->status == OCT_STATUS_CANCELLED;
        const int is_done = run->status == OCT_OK && run->epochs_done == run->n_epochs;
        if (run->config->checkpoint[0] && (is_stopped || is_done || (due && goes_on(run)))) {
            oct__trainer_end(run, keep(run));
            group->kept_at = oct__seconds();
        }
    }
    group->kept_seconds = group->kept_seconds > 0 ? group->kept_seconds : before;
}

/* Time goes by in pieces, so that a checkpoint has all of it. */
static void count_seconds(struct oct__group *group) {
    const double now = oct__seconds();
    for (int i = 0; i < group->n; i++) {
        struct oct_trainer *run = group->runs[i];
        const int counts = run->status == OCT_OK || run->status == OCT_STATUS_CANCELLED;
        run->seconds += counts ? now - run->started : 0;
        run->started = now;
    }
}

void oct__trainer_run_all(struct oct__group *group) {
    const double now = oct__seconds();
    group->kept_at = group->kept_at > 0 ? group->kept_at : now;
    for (int i = 0; i < group->n; i++) {
        group->runs[i]->started = now;
    }
    while (next_going(group)) {
        run_epoch(group);
        count_seconds(group);
        keep_all(group);
        count_seconds(group);
    }
    for (EACH(run, group)) { /* all is done but what failed at the end of an earlier call */
        if (run->is_behind) {
            oct__trainer_end(run, keep(run));
        }
    }
}
