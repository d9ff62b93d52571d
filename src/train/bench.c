/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - times steps and their floors in turn on one trainer. */
#include "train/bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "train/config.h"
#include "train/trainer.h"

#define ROUNDS_LEAST 5
#define ROUNDS_MOST 500

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* One pass of all nodes over the step's program: its products alone, or every call with its time.
 */
struct pass {
    struct oct__cohort *cohort;
    double *seconds; /* [lane][call]; NULL: the floor */
};

static oct_status pass_launch(void *context, int item, int worker) {
    const struct pass *pass = context;
    struct oct__cohort *cohort = pass->cohort;
    const struct oct__program *program = cohort->step_program;
    struct oct__cohort_lane *lane = &cohort->lanes[worker];
    struct oct__bases bases = oct__cohort_bases(cohort, lane, item * program->form.n_nodes);
    if (!pass->seconds) {
        return oct__program_run_floor(program, &lane->lane, &bases);
    }
    struct oct__profile profile = {pass->seconds + (size_t)worker * program->n_calls};
    return oct__program_run(program, &lane->lane, &bases, 0, program->n_calls, &profile);
}

static oct_status run_pass(struct pass *pass) {
    struct oct__cohort *cohort = pass->cohort;
    int n_launches = cohort->config.n_nodes / cohort->step_program->form.n_nodes;
    return oct__parallel(cohort->n_lanes, n_launches, pass_launch, pass);
}

#define PROFILE_PASSES 5

static oct_status profile(struct oct_trainer *trainer, oct__step_profile_fn *row, void *context) {
    struct oct__cohort *cohort = trainer->cohort;
    const struct oct__program *program = cohort->step_program;
    const size_t n_calls = program->n_calls;
    void *memory;
    OCT_TRY(
        oct__alloc_array((size_t)cohort->n_lanes * n_calls, sizeof(double), "profile", &memory));
    double *seconds = memory;
    struct pass pass = {cohort, seconds};
    oct_status status = OCT_OK;
    for (int i = 0; i < PROFILE_PASSES && status == OCT_OK; i++) {
        status = run_pass(&pass);
    }
    double total = 0.0;
    for (size_t i = 0; status == OCT_OK && i < n_calls; i++) {
        for (int lane = 1; lane < cohort->n_lanes; lane++) {
            seconds[i] += seconds[(size_t)lane * n_calls + i];
        }
        total += seconds[i];
    }
    for (size_t i = 0; status == OCT_OK && i < n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        struct oct__step_profile_row out = {
            .layer = call->layer >= 0 ? trainer->graph.layers[call->layer].name : "update",
            .op = oct__op_info[call->op].name,
            .ms = 1e3 * seconds[i] / PROFILE_PASSES,
            .share = seconds[i] / total,
            .is_product = oct__op_info[call->op].is_product,
        };
        if (row(&out, context)) {
            break;
        }
    }
    oct__free(seconds);
    return status;
}

static oct_status measure(struct oct_trainer *trainer, double seconds, struct oct__step_time *out) {
    double steps[ROUNDS_MOST], floors[ROUNDS_MOST], gossips[ROUNDS_MOST];
    struct pass floor_pass = {trainer->cohort, NULL};
    int rounds = 0;
    OCT_TRY(oct__trainer_step(trainer)); /* first touch of all memory */
    OCT_TRY(run_pass(&floor_pass));
    double begun = oct__seconds();
    while (rounds < ROUNDS_MOST && (rounds < ROUNDS_LEAST || oct__seconds() - begun < seconds)) {
        double start = oct__seconds(), gossip_before = trainer->gossip_seconds;
        OCT_TRY(oct__trainer_step(trainer));
        double middle = oct__seconds();
        OCT_TRY(run_pass(&floor_pass));
        steps[rounds] = middle - start;
        floors[rounds] = oct__seconds() - middle;
        gossips[rounds] = (trainer->gossip_seconds - gossip_before) / steps[rounds];
        rounds++;
    }
    const double samples = (double)trainer->n_nodes * trainer->batch;
    out->samples_per_s = samples / median(steps, rounds);
    out->floor_samples_per_s = samples / median(floors, rounds);
    out->gossip_share = median(gossips, rounds);
    const struct oct__traffic *traffic = &trainer->exchange->traffic;
    if (traffic->messages > 0) {
        out->wire_bytes = traffic->bytes / traffic->messages;
    }
    return OCT_OK;
}

static oct_status open_trainer(const struct oct_config *config, int n_nodes,
                               struct oct_trainer **out) {
    struct oct_config *own;
    char number[16];
    OCT_TRY(oct_config_copy(config, &own));
    snprintf(number, sizeof number, "%d", n_nodes);
    oct_status status = oct_config_set(own, "nodes", number);
    if (status == OCT_OK) {
        status = oct_trainer_create(own, NULL, out);
    }
    oct_config_destroy(own);
    return status;
}

oct_status oct__bench_step(const struct oct_config *config, int n_nodes, double seconds,
                           struct oct__step_time *out, oct__step_profile_fn *profile_row,
                           void *context) {
    struct oct_trainer *trainer;
    OCT_TRY(open_trainer(config, n_nodes, &trainer));
    struct oct__step_time time = {
        .precision = config->precision,
        .workspace_bytes = trainer->cohort->workspace_bytes + trainer->gossip->workspace_bytes,
        .state_bytes = trainer->cohort->state_bytes + trainer->gossip->state_bytes,
        .wire_bytes = (uint64_t)oct__row_count(&trainer->graph.params) * sizeof(float),
    };
    oct_status status = measure(trainer, seconds, &time);
    if (status == OCT_OK && profile_row) {
        status = profile(trainer, profile_row, context);
    }
    oct_trainer_destroy(trainer);
    if (status == OCT_OK) {
        *out = time;
    }
    return status;
}
