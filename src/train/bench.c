/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - times steps and their floors in turn on one trainer; looks at its memory and cost. */
#include "train/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "compress/wire.h"
#include "train/config.h"
#include "train/trainer.h"

#define ROUNDS_LEAST 3
#define ROUNDS_LEAST_PROFILED 15
#define ROUNDS_MOST 500

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* --- time of every call ---------------------------------------------------------------------- */

/* What lanes measure in a round, and what became of it in every round. */
struct call_times {
    size_t n_calls;
    int n_lanes;
    double *lanes;          /* [lane][call] of the current round */
    double *steps, *floors; /* [call][round] seconds, summed over the lanes */
};

static oct_status call_times_init(struct call_times *times, const struct oct__cohort *cohort) {
    void *memory;
    *times = (struct call_times){cohort->crew->step_program->n_calls, cohort->crew->n_lanes, NULL,
                                 NULL, NULL};
    const size_t lanes = (size_t)times->n_lanes * times->n_calls;
    const size_t rounds = (size_t)ROUNDS_MOST * times->n_calls;
    OCT_TRY(oct__alloc_array(lanes + 2 * rounds, sizeof(double), "profile", &memory));
    times->lanes = memory;
    times->steps = times->lanes + lanes;
    times->floors = times->steps + rounds;
    return OCT_OK;
}

static double *lane_times(const struct call_times *times, int lane) {
    return times->lanes ? times->lanes + (size_t)lane * times->n_calls : NULL;
}

/* Adds the lanes up and leaves them at 0 for the next round; returns what calls took of it. */
static double keep_round(const struct call_times *times, double *rounds, int round) {
    double all = 0.0;
    for (size_t i = 0; times->lanes && i < times->n_calls; i++) {
        double sum = 0.0;
        for (int lane = 0; lane < times->n_lanes; lane++) {
            sum += lane_times(times, lane)[i];
            lane_times(times, lane)[i] = 0.0;
        }
        rounds[i * ROUNDS_MOST + (size_t)round] = sum;
        all += sum / times->n_lanes;
    }
    return all;
}

/* With NULL: no more. */
static void time_lanes(struct oct__cohort *cohort, const struct call_times *times) {
    for (int lane = 0; lane < cohort->crew->n_lanes; lane++) {
        cohort->crew->lanes[lane].seconds = times ? lane_times(times, lane) : NULL;
    }
}

/* What the engine's ceilings leave a call at least. */
static void find_floor(const struct oct__ceilings *ceilings, enum oct__unit unit,
                       struct oct__profile_call *call) {
    call->bytes_ms = 1e3 * (double)call->bytes / ceilings->bytes_per_s;
    call->operations_ms = 2e3 * (double)call->madds / ceilings->operations_per_s[unit];
    call->floor_ms = call->bytes_ms > call->operations_ms ? call->bytes_ms : call->operations_ms;
}

/* A median a call; calls that only look at quantizers have not run. */
static oct_status fill_profile(const struct oct_trainer *trainer, const struct call_times *times,
                               int n_rounds, struct oct__step_profile *profile) {
    const struct oct__program *program = trainer->cohort->crew->step_program;
    const double unit = 1e3 / times->n_lanes;
    const struct oct__crew *crew = trainer->cohort->crew;
    const uint64_t n_launches = (uint64_t)(oct__crew_rows(crew) / program->form.n_nodes);
    void *memory;
    OCT_TRY(oct__arena_take(&profile->arena, times->n_calls * sizeof *profile->calls, &memory));
    profile->calls = memory;
    profile->n_steps = n_rounds;
    for (size_t i = 0; i < times->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        if (call->op == OCT_OP_QUANT_COUNT) {
            continue;
        }
        const char *layer = call->layer >= 0 ? trainer->graph.layers[call->layer].name : "update";
        const struct oct__call_products products = oct__call_products(program, call);
        struct oct__profile_call *out = &profile->calls[profile->n_calls++];
        *out = (struct oct__profile_call){
            .op = oct__op_info[call->op].name,
            .layer_id = call->layer,
            .work = oct__work_of(call->op),
            .ms = unit * median(times->steps + i * ROUNDS_MOST, n_rounds),
            .floor_ms = unit * median(times->floors + i * ROUNDS_MOST, n_rounds),
            .madds = (uint64_t)oct__crew_rows(crew) * products.madds,
            .bytes = n_launches * oct__call_bytes(program, call),
        };
        if (oct__profile_has_ceilings(profile)) {
            find_floor(&profile->ceilings, oct__products_unit(&products), out);
        }
        OCT_TRY(oct__arena_text(&profile->arena, &out->layer, "%s", layer));
    }
    return OCT_OK;
}

/* --- steps and floors ------------------------------------------------------------------------ */

static oct_status floor_launch(void *context, int item, int worker) {
    struct oct__crew *crew = context;
    const struct oct__program *program = crew->step_program;
    struct oct__crew_lane *lane = &crew->lanes[worker];
    struct oct__bases bases = oct__crew_bases(crew, lane, item * program->form.n_nodes);
    const struct oct__profile profile = {lane->seconds};
    return oct__program_run_floor(program, &lane->lane, &bases, lane->seconds ? &profile : NULL);
}

/* One pass of all nodes over the products of a step. */
static oct_status run_floor(struct oct__cohort *cohort) {
    struct oct__crew *crew = cohort->crew;
    const int n_launches = oct__crew_rows(crew) / crew->step_program->form.n_nodes;
    return oct__parallel(crew->n_lanes, n_launches, floor_launch, crew);
}

/* What all runs spend on messages. */
static double gossip_seconds(const struct oct__group *group) {
    double seconds = 0;
    for (int i = 0; i < group->n; i++) {
        seconds += group->runs[i]->gossip_seconds;
    }
    return seconds;
}

struct oct__step_bench {
    struct oct_trainer *trainer;
    int with_profile;
    int with_stamps; /* calls are timed in steps of their own */
    int n_ahead;     /* steps of a round */
    struct oct__ceilings ceilings;
    struct call_times times;
    int n_rounds;
    double steps[ROUNDS_MOST], floors[ROUNDS_MOST]; /* seconds of a round */
    double gossips[ROUNDS_MOST];                    /* share of the step */
    double arounds[ROUNDS_MOST];                    /* seconds that no call and no message took */
};

/* Steps of a round: where launches return before they are done, one step's beginning hides behind the
 * end of another's, and only several together take the time that they take. Long ones hide little. */
enum { STEPS_AHEAD = 16 };
#define AHEAD_SECONDS 0.1

static oct_status finish(struct oct__engine *engine) {
    return engine->finish ? engine->finish(engine) : OCT_OK;
}

static oct_status count_ahead(struct oct__step_bench *bench) {
    struct oct__engine *engine = bench->trainer->engine;
    bench->n_ahead = 1;
    if (!engine->finish || (bench->with_profile && !bench->with_stamps)) {
        return OCT_OK;
    }
    OCT_TRY(finish(engine));
    const double start = oct__seconds();
    OCT_TRY(oct__trainer_step(bench->trainer));
    OCT_TRY(finish(engine));
    const double n = AHEAD_SECONDS / (oct__seconds() - start);
    bench->n_ahead = n < 1 ? 1 : n > STEPS_AHEAD ? STEPS_AHEAD : (int)n;
    return OCT_OK;
}

static oct_status run_round(struct oct__step_bench *bench) {
    struct oct_trainer *trainer = bench->trainer;
    struct oct__engine *engine = trainer->engine;
    const struct call_times *times = &bench->times;
    const int round = bench->n_rounds;
    const int n = bench->n_ahead;
    double start = oct__seconds(), gossip_before = gossip_seconds(trainer->group);
    for (int i = 0; i < n; i++) {
        OCT_TRY(oct__trainer_step(trainer));
    }
    OCT_TRY(finish(engine));
    const double step = (oct__seconds() - start) / n;
    for (int i = 0; i < trainer->group->n; i++) {
        OCT_TRY(oct__trainer_ending(trainer->group->runs[i]));
    }
    const double gossip = (gossip_seconds(trainer->group) - gossip_before) / n / step;
    bench->steps[round] = step;
    bench->gossips[round] = gossip;
    if (bench->with_stamps) {
        time_lanes(trainer->cohort, times);
        OCT_TRY(oct__trainer_step(trainer));
        time_lanes(trainer->cohort, NULL);
    }
    bench->arounds[round] = step * (1 - gossip) - keep_round(times, times->steps, round);
    start = oct__seconds();
    for (int i = 0; i < n; i++) {
        OCT_TRY(run_floor(trainer->cohort));
    }
    OCT_TRY(finish(engine));
    bench->floors[round] = (oct__seconds() - start) / n;
    keep_round(times, times->floors, round);
    bench->n_rounds++;
    return OCT_OK;
}

oct_status oct__step_bench_run(struct oct__step_bench *bench, double seconds) {
    const double begun = oct__seconds();
    do {
        if (bench->n_rounds == ROUNDS_MOST) {
            return OCT_OK;
        }
        OCT_TRY(run_round(bench));
    } while (oct__seconds() - begun < seconds);
    return OCT_OK;
}

static oct_status find_time(struct oct__step_bench *bench, struct oct__step_time *out,
                            struct oct__step_profile *profile) {
    const struct oct_trainer *trainer = bench->trainer;
    OCT_TRY(oct__exchange_count(trainer->exchange));
    const struct oct__traffic *traffic = &trainer->exchange->traffic;
    const int rounds = bench->n_rounds;
    const uint64_t n_runs = (uint64_t)trainer->group->n;
    const double samples = (double)oct__crew_rows(trainer->cohort->crew) * trainer->batch;
    const double step = median(bench->steps, rounds);
    *out = (struct oct__step_time){
        .samples_per_s = samples / step,
        .floor_samples_per_s = samples / median(bench->floors, rounds),
        .workspace_bytes =
            n_runs * (oct__cohort_workspace(trainer->cohort) + trainer->gossip->workspace_bytes),
        .state_bytes = n_runs * (trainer->cohort->state_bytes + trainer->gossip->state_bytes),
        .wire_bytes = traffic->messages > 0
                          ? traffic->bytes / traffic->messages
                          : (uint64_t)oct__row_count(&trainer->graph.params) * sizeof(float),
        .gossip_share = median(bench->gossips, rounds),
    };
    if (profile) {
        profile->step_ms = 1e3 * step;
        profile->gossip_ms = 1e3 * step * out->gossip_share;
        profile->around_ms = 1e3 * median(bench->arounds, rounds);
        if (bench->with_stamps && profile->around_ms < 0) {
            profile->around_ms = 0; /* stamps take longer than what is around the calls */
        }
        profile->ceilings = bench->ceilings;
        OCT_TRY(fill_profile(trainer, &bench->times, rounds, profile));
    }
    return OCT_OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

#define CHUNK 4096

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How far a step of the first node of a lane writes, by what is left of a pattern. */
static oct_status written(struct oct__engine *engine, const void *work, size_t bytes,
                          uint8_t pattern, uint64_t *used) {
    uint8_t found[CHUNK];
    for (size_t at = 0; at < bytes; at += CHUNK) {
        const size_t n = least(CHUNK, bytes - at);
        OCT_TRY(engine->read(engine, found, (const char *)work + at, n));
        for (size_t i = 0; i < n; i++) {
            if (found[i] != pattern && *used < at + i + 1) {
                *used = at + i + 1;
            }
        }
    }
    return OCT_OK;
}

/* Two patterns, because what a step writes may happen to be one of them. The calls that look at
 * quantizers, which few steps have, do not run. */
static oct_status measure_use(struct oct_trainer *trainer, uint64_t *used) {
    static const uint8_t patterns[] = {0xa5, 0x5a};
    struct oct__cohort *cohort = trainer->cohort;
    struct oct__engine *engine = trainer->engine;
    const size_t bytes = oct__program_need(cohort->crew->step_program).work_stride;
    *used = 0;
    for (size_t p = 0; p < OCT_COUNT_OF(patterns); p++) {
        uint8_t chunk[CHUNK];
        memset(chunk, patterns[p], sizeof chunk);
        for (int lane = 0; lane < cohort->crew->n_lanes; lane++) {
            for (size_t at = 0; at < bytes; at += CHUNK) {
                OCT_TRY(engine->write(engine, (char *)cohort->crew->lanes[lane].work + at, chunk,
                                      least(CHUNK, bytes - at)));
            }
        }
        OCT_TRY(oct__trainer_step(trainer));
        for (int lane = 0; lane < cohort->crew->n_lanes; lane++) {
            OCT_TRY(written(engine, cohort->crew->lanes[lane].work, bytes, patterns[p], used));
        }
    }
    return OCT_OK;
}

/* A message of all parameters under a compressor that sends them all. */
static oct_status dense_message(const struct oct_trainer *trainer, const char *compressor,
                                uint64_t *bytes) {
    const struct oct__gossip *gossip = trainer->gossip;
    struct oct__compression compression;
    struct oct__packet_form *form;
    OCT_TRY(oct__compression_read(compressor, &compression));
    OCT_TRY(oct__packet_form_create(&compression, gossip->spans, gossip->config.n_spans,
                                    gossip->config.n_elements, &form));
    *bytes = oct__wire_length(form, NULL);
    oct__packet_form_destroy(form);
    return OCT_OK;
}

static oct_status find_cost(struct oct_trainer *trainer, uint64_t wire_bytes,
                            struct oct__step_cost *out) {
    const struct oct__cohort *cohort = trainer->cohort;
    oct__cost_count(cohort->crew->step_program, &out->counted);
    out->workspace_bytes =
        out->counted.work_bytes + out->counted.gradient_bytes +
        out->counted.scratch_bytes / (uint64_t)cohort->crew->step_program->form.n_nodes;
    out->state_bytes = cohort->state_bytes / (uint64_t)trainer->n_nodes;
    out->wire_bytes = wire_bytes;
    if (trainer->exchange->traffic.messages == 0) {
        OCT_TRY(dense_message(trainer, trainer->graph.is_int8 ? "int8" : "none", &out->wire_bytes));
    }
    return measure_use(trainer, &out->used_bytes);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* The runs have seeds from the configuration's on. */
static oct_status open_runs(const struct oct_config *config, int n_nodes, int n_runs,
                            struct oct_trainer **first) {
    struct oct_config *configs[OCT_RUNS_MOST] = {NULL};
    struct oct_trainer *runs[OCT_RUNS_MOST];
    char number[24];
    oct_status status = OCT_OK;
    for (int i = 0; i < n_runs && status == OCT_OK; i++) {
        status = oct_config_recast(config, config->precision, &configs[i]);
        if (status == OCT_OK) {
            snprintf(number, sizeof number, "%d", n_nodes);
            status = oct_config_set(configs[i], "nodes", number);
        }
        if (status == OCT_OK && i > 0) {
            snprintf(number, sizeof number, "%lld", (long long)config->seed + i);
            status = oct_config_set(configs[i], "seed", number);
        }
    }
    if (status == OCT_OK) {
        status = oct_trainers_create((const struct oct_config *const *)configs, NULL, n_runs, runs);
        *first = status == OCT_OK ? runs[0] : NULL;
    }
    for (int i = 0; i < n_runs; i++) {
        oct_config_destroy(configs[i]);
    }
    return status;
}

static void close_runs(struct oct_trainer *first) {
    struct oct_trainer *runs[OCT_RUNS_MOST];
    const int n = first ? first->group->n : 0;
    for (int i = 0; i < n; i++) { /* the last of them takes the group along */
        runs[i] = first->group->runs[i];
    }
    for (int i = 0; i < n; i++) {
        oct_trainer_destroy(runs[i]);
    }
}

void oct__step_bench_close(struct oct__step_bench *bench) {
    if (bench) {
        oct__free(bench->times.lanes);
        close_runs(bench->trainer);
        oct__free(bench);
    }
}

oct_status oct__step_bench_open(const struct oct_config *config, int n_nodes, int n_runs,
                                int with_profile, struct oct__step_bench **out) {
    oct_status status;
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__step_bench), "benchmark", &memory));
    struct oct__step_bench *bench = memory;
    bench->with_profile = with_profile;
    OCT_TRY_TO(fail, open_runs(config, n_nodes, n_runs, &bench->trainer));
    if (with_profile) {
        OCT_TRY_TO(fail, call_times_init(&bench->times, bench->trainer->cohort));
    }
    struct oct__engine *engine = bench->trainer->engine;
    bench->with_stamps = with_profile && engine->stamp;
    if (with_profile && engine->ceilings) {
        OCT_TRY_TO(fail, engine->ceilings(engine, &bench->ceilings));
    }
    OCT_TRY_TO(fail, oct__trainer_step(bench->trainer)); /* first touch of all memory */
    OCT_TRY_TO(fail, run_floor(bench->trainer->cohort));
    OCT_TRY_TO(fail, count_ahead(bench));
    time_lanes(bench->trainer->cohort, bench->with_stamps ? NULL : &bench->times);
    *out = bench;
    return OCT_OK;
fail:
    oct__step_bench_close(bench);
    return status;
}

oct_status oct__step_bench_report(struct oct__step_bench *bench, struct oct__step_time *time,
                                  struct oct__step_profile *profile, struct oct__step_cost *cost) {
    const int fewest = bench->with_profile ? ROUNDS_LEAST_PROFILED : ROUNDS_LEAST;
    oct_status status;
    while (bench->n_rounds < fewest) {
        OCT_TRY(run_round(bench));
    }
    if (profile) {
        memset(profile, 0, sizeof *profile);
        oct__arena_init(&profile->arena);
    }
    OCT_TRY_TO(fail, find_time(bench, time, profile));
    if (cost) {
        memset(cost, 0, sizeof *cost);
        OCT_TRY_TO(fail, find_cost(bench->trainer, time->wire_bytes, cost));
    }
    return OCT_OK;
fail:
    if (profile) {
        oct__step_profile_fini(profile);
    }
    return status;
}

/* Held in memory. */
static uint64_t image_bytes(const struct oct_dataset *data) {
    return (uint64_t)data->n_held * oct__sample_bytes(data);
}

oct_status oct__bench_memory(const struct oct_config *config, int n_nodes, int n_steps,
                             oct__step_memory_fn *look, void *context) {
    struct oct_trainer *trainer;
    OCT_TRY(open_runs(config, n_nodes, 1, &trainer));
    const struct oct__cohort *cohort = trainer->cohort;
    oct_status status = OCT_OK;
    for (int i = 0; i < n_steps && status == OCT_OK; i++) {
        status = oct__trainer_step(trainer);
    }
    if (status == OCT_OK) {
        const struct oct__lane_need evaluation = oct__program_need(cohort->crew->eval_program);
        const struct oct__step_memory asked = {
            .state_bytes = cohort->state_bytes + trainer->gossip->state_bytes,
            .workspace_bytes = oct__cohort_workspace(cohort) + trainer->gossip->workspace_bytes,
            .evaluation_bytes = (uint64_t)cohort->crew->n_eval_lanes * evaluation.total_bytes +
                                evaluation.kept_stride,
            .dataset_bytes = image_bytes(trainer->train) + image_bytes(trainer->test),
        };
        look(&asked, context);
    }
    oct_trainer_destroy(trainer);
    return status;
}
