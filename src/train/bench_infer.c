/* SPDX-License-Identifier: Apache-2.0 */
/* bench_infer.c - networks of several precisions classify the same samples in turn. */
#include "train/bench_infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "train/config.h"
#include "train/inference.h"
#include "train/trainer.h"

#define WARM_UP_STEPS 3 /* of training: by then every quantizer has a range */
#define TURN 0.02       /* seconds of a precision before it is another's turn */
#define RUNS_LEAST 5
#define PASSES_LEAST 5 /* of a profile */
#define PASSES_MOST 100

/* Times of one row, as many as there was time for. */
struct times {
    double *values;
    size_t n, capacity;
};

/* One precision. */
struct racer {
    struct oct_trainer *trainer;
    struct oct__inference *inference; /* of the batch size under way */
    struct times runs, floors;
};

struct race {
    const struct oct__infer_bench *bench;
    const struct oct__infer_report *report;
    struct racer racers[OCT_INFER_PRECISIONS];
    uint32_t *rows; /* of a batch */
    float *logits;
};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least time that a share of all runs did not exceed. */
static double quantile(struct times *times, double share) {
    qsort(times->values, times->n, sizeof *times->values, compare);
    size_t at = (size_t)(share * (double)times->n);
    return times->values[at < times->n ? at : times->n - 1];
}

static oct_status keep_time(struct times *times, double seconds) {
    void *values = times->values;
    oct_status status =
        oct__alloc_grow(&values, &times->capacity, times->n + 1, sizeof *times->values, "times");
    times->values = values;
    OCT_TRY(status);
    times->values[times->n++] = seconds;
    return OCT_OK;
}

/* --- one precision --------------------------------------------------------------------------- */

static oct_status open_racer(const struct oct_config *config, const char *precision,
                             struct racer *racer) {
    struct oct_config *own;
    OCT_TRY(oct_config_recast(config, precision, &own));
    oct_status status = oct_config_set(own, "nodes", "1");
    if (status == OCT_OK) {
        status = oct_trainer_create(own, NULL, &racer->trainer);
    }
    oct_config_destroy(own);
    for (int i = 0; i < WARM_UP_STEPS && status == OCT_OK; i++) {
        status = oct__trainer_step(racer->trainer);
    }
    return status;
}

static oct_status begin(struct racer *racer, int batch) {
    struct oct__cohort *cohort = racer->trainer->cohort;
    const struct oct__inference_config config = {
        .engine = racer->trainer->engine,
        .graph = &racer->trainer->graph,
        .data = &cohort->crew->train,
        .batch = batch,
        .n_threads = racer->trainer->n_threads,
    };
    racer->runs.n = racer->floors.n = 0;
    OCT_TRY(oct__inference_create(&config, &racer->inference));
    return oct__inference_set(racer->inference, cohort->state[OCT_HOME_PARAM],
                              cohort->state[OCT_HOME_STAT]);
}

static void end(struct racer *racer) {
    oct__inference_destroy(racer->inference);
    racer->inference = NULL;
}

/* The first run brings weights back into the caches and is not counted. */
static oct_status turn(const struct race *race, struct racer *racer, int of_floor, double seconds) {
    struct times *times = of_floor ? &racer->floors : &racer->runs;
    const double end_of_turn = oct__seconds() + seconds;
    for (int i = 0; i < 2 || oct__seconds() < end_of_turn; i++) {
        const double start = oct__seconds();
        OCT_TRY(of_floor ? oct__inference_floor(racer->inference)
                         : oct__inference_run(racer->inference, race->rows, race->logits));
        if (i > 0) {
            OCT_TRY(keep_time(times, oct__seconds() - start));
        }
    }
    return OCT_OK;
}

/* --- rows ------------------------------------------------------------------------------------ */

static oct_status stopped(void) {
    OCT_FAIL(CANCELLED, "inference benchmark: stopped");
}

static int is_stopped(const struct race *race) {
    const struct oct__infer_report *report = race->report;
    return report->is_stopped && report->is_stopped(report->context);
}

static oct_status tell(const struct race *race, int index, int batch) {
    const struct racer *racer = &race->racers[index];
    struct times runs = racer->runs, floors = racer->floors;
    struct oct__infer_time row = {
        .precision = race->bench->precisions[index],
        .batch = batch,
        .n_runs = (int)runs.n,
        .median = quantile(&runs, 0.5),
        .p99 = quantile(&runs, 0.99),
        .floor = quantile(&floors, 0.5),
        .weight_bytes = racer->inference->weight_bytes,
        .workspace_bytes = racer->inference->workspace_bytes,
    };
    snprintf(row.norm, sizeof row.norm, "%s", oct__config_norm(racer->trainer->config));
    return race->report->row(&row, race->report->context) ? stopped() : OCT_OK;
}

/* Calls of the same operation are one row. */
static oct_status tell_profile(const struct race *race, int index, int batch, const double *calls,
                               int n_passes) {
    const struct oct__program *program = race->racers[index].inference->program;
    double seconds[OCT_OP_COUNT] = {0}, total = 0.0;
    int n_calls[OCT_OP_COUNT] = {0};
    for (size_t i = program->n_once; i < program->n_calls; i++) {
        seconds[program->calls[i].op] += calls[i];
        n_calls[program->calls[i].op]++;
        total += calls[i];
    }
    for (int op = 0; op < OCT_OP_COUNT; op++) {
        const struct oct__infer_profile_row row = {
            .precision = race->bench->precisions[index],
            .op = oct__op_info[op].name,
            .batch = batch,
            .n_calls = n_calls[op],
            .ms = 1e3 * seconds[op] / n_passes,
            .share = seconds[op] / total,
            .is_product = oct__op_info[op].is_product,
        };
        if (n_calls[op] > 0 && race->report->profile(&row, race->report->context)) {
            return stopped();
        }
    }
    return OCT_OK;
}

static oct_status profile(const struct race *race, int index, int batch) {
    struct oct__inference *inference = race->racers[index].inference;
    void *memory;
    OCT_TRY(oct__alloc_array(inference->program->n_calls, sizeof(double), "profile", &memory));
    const struct oct__profile profile = {memory};
    oct_status status = OCT_OK;
    const double until = oct__seconds() + race->bench->seconds;
    int n_passes = 0;
    while (status == OCT_OK && n_passes < PASSES_MOST &&
           (n_passes < PASSES_LEAST || oct__seconds() < until)) {
        status = oct__inference_profile(inference, race->rows, race->logits, &profile);
        n_passes++;
        if (status == OCT_OK && is_stopped(race)) {
            status = stopped();
        }
    }
    if (status == OCT_OK) {
        status = tell_profile(race, index, batch, profile.seconds, n_passes);
    }
    oct__free(memory);
    return status;
}

/* --- the race -------------------------------------------------------------------------------- */

static oct_status run_rounds(struct race *race) {
    const struct oct__infer_bench *bench = race->bench;
    const double until = oct__seconds() + bench->seconds * bench->n_precisions;
    const struct racer *last = &race->racers[bench->n_precisions - 1];
    while (last->runs.n < RUNS_LEAST || oct__seconds() < until) {
        for (int i = 0; i < bench->n_precisions; i++) {
            OCT_TRY(turn(race, &race->racers[i], 0, TURN));
            OCT_TRY(turn(race, &race->racers[i], 1, TURN / 4));
        }
        if (is_stopped(race)) {
            return stopped();
        }
    }
    return OCT_OK;
}

static oct_status run_batch(struct race *race, int batch) {
    const struct oct__infer_bench *bench = race->bench;
    const struct oct_dataset *data = race->racers[0].trainer->train;
    void *memory;
    oct_status status;
    OCT_TRY(oct__alloc_array((size_t)batch, sizeof *race->rows, "samples", &memory));
    race->rows = memory;
    for (int i = 0; i < batch; i++) {
        race->rows[i] = (uint32_t)(i % data->n_samples);
    }
    OCT_TRY_TO(out, oct__alloc_array((size_t)batch * (size_t)data->n_classes, sizeof *race->logits,
                                     "logits", &memory));
    race->logits = memory;
    for (int i = 0; i < bench->n_precisions; i++) {
        OCT_TRY_TO(out, begin(&race->racers[i], batch));
    }
    OCT_TRY_TO(out, run_rounds(race));
    for (int i = 0; i < bench->n_precisions; i++) {
        OCT_TRY_TO(out, tell(race, i, batch));
        if (race->report->profile) {
            OCT_TRY_TO(out, profile(race, i, batch));
        }
    }
out:
    for (int i = 0; i < bench->n_precisions; i++) {
        end(&race->racers[i]);
    }
    oct__free(race->rows);
    oct__free(race->logits);
    race->rows = NULL;
    race->logits = NULL;
    return status;
}

oct_status oct__bench_infer(const struct oct__infer_bench *bench,
                            const struct oct__infer_report *report) {
    struct race race = {.bench = bench, .report = report};
    oct_status status = OCT_OK;
    if (bench->n_precisions < 1 || bench->n_precisions > OCT_INFER_PRECISIONS) {
        OCT_FAIL(INVALID, "inference benchmark: %d precisions; give 1 to %d", bench->n_precisions,
                 OCT_INFER_PRECISIONS);
    }
    for (int i = 0; i < bench->n_precisions && status == OCT_OK; i++) {
        status = open_racer(bench->config, bench->precisions[i], &race.racers[i]);
    }
    for (int i = 0; i < bench->n_batches && status == OCT_OK; i++) {
        status = run_batch(&race, bench->batches[i]);
    }
    for (int i = 0; i < bench->n_precisions; i++) {
        oct_trainer_destroy(race.racers[i].trainer);
        oct__free(race.racers[i].runs.values);
        oct__free(race.racers[i].floors.values);
    }
    return status;
}
