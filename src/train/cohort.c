/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - state of a run's nodes; evaluations, the average model. */
#include "train/cohort.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"

/* --- memory ---------------------------------------------------------------------------------- */

/* Its nodes' place in the crew's memory. Every node starts with the same parameters. */
static oct_status make_state(struct oct__cohort *cohort) {
    struct oct__engine *engine = cohort->engine;
    const struct oct__crew *crew = cohort->crew;
    const struct oct_graph *graph = cohort->config.graph;
    size_t params = graph->params.n_elements, stats = graph->stats.n_elements;
    size_t longest = params > stats ? params : stats;
    OCT_TAKE(cohort->host_row, longest, "cohort");
    OCT_TAKE(cohort->host_sum, longest, "cohort");
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        cohort->stride[home] = crew->stride[home];
        if (crew->state[home]) {
            cohort->state[home] =
                (char *)crew->state[home] + (size_t)cohort->first_row * crew->stride[home];
            cohort->state_bytes += (size_t)cohort->config.n_nodes * crew->stride[home];
        }
    }
    OCT_TRY(engine->alloc(engine, cohort->stride[OCT_HOME_PARAM], "average",
                          &cohort->average[OCT_HOME_PARAM]));
    OCT_TRY(engine->alloc(engine, cohort->stride[OCT_HOME_STAT], "average",
                          &cohort->average[OCT_HOME_STAT]));
    oct__row_init(&graph->stats, cohort->config.seed, cohort->host_row);
    OCT_TRY(oct__cohort_write(cohort, OCT_HOME_STAT, cohort->host_row));
    oct__row_init(&graph->params, cohort->config.seed, cohort->host_row);
    return oct__cohort_write(cohort, OCT_HOME_PARAM, cohort->host_row);
}

static oct_status fill(struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    struct oct__crew *crew = cohort->crew;
    if (!crew) {
        OCT_TRY(oct__crew_create(c, 1, &crew));
        cohort->crew = crew;
        cohort->owns_crew = 1;
    }
    cohort->first_row = crew->n_aboard * c->n_nodes;
    OCT_TRY(make_state(cohort));
    OCT_TAKE(cohort->watched, (size_t)c->n_total * crew->step_program->n_watches * 4, "cohort");
    OCT_TAKE(cohort->apart, c->n_total, "cohort");
    OCT_TAKE(cohort->batch_loss, crew->n_eval_batches, "cohort");
    OCT_TAKE(cohort->batch_hits, crew->n_eval_batches, "cohort");
    return oct__crew_board(crew, cohort);
}

oct_status oct__cohort_create(const struct oct__cohort_config *config, struct oct__cohort **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__cohort), "cohort", &memory));
    struct oct__cohort *cohort = memory;
    cohort->config = *config;
    if (!config->ranks) {
        cohort->config.ranks = oct__ranks_alone();
        cohort->config.first_node = 0;
        cohort->config.n_total = config->n_nodes;
    }
    if (!config->test_rows) {
        cohort->config.n_test_rows = (uint32_t)config->test->n_samples;
    }
    cohort->engine = config->engine;
    cohort->crew = config->crew;
    oct_status status = fill(cohort);
    if (status != OCT_OK) {
        oct__cohort_destroy(cohort);
        return status;
    }
    *out = cohort;
    return OCT_OK;
}

void oct__cohort_destroy(struct oct__cohort *cohort) {
    if (!cohort) {
        return;
    }
    if (cohort->owns_crew) {
        oct__crew_destroy(cohort->crew); /* first of all: it may be decoding images */
    }
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        oct__engine_free(cohort->engine, cohort->average[home]);
    }
    oct__free(cohort->host_row);
    oct__ranks_free(cohort->config.ranks, cohort->host_sum);
    oct__ranks_free(cohort->config.ranks, cohort->watched);
    oct__free(cohort->apart);
    oct__free(cohort->batch_loss);
    oct__free(cohort->batch_hits);
    oct__free(cohort);
}

/* --- a step ---------------------------------------------------------------------------------- */

void oct__cohort_stand(struct oct__cohort *cohort, oct_status status, const char *reason) {
    if (cohort->status == OCT_OK) {
        cohort->status = status;
        snprintf(cohort->reason, sizeof cohort->reason, "%s", reason);
    }
}

oct_status oct__cohort_standing(const struct oct__cohort *cohort) {
    return cohort->status == OCT_OK ? OCT_OK : oct__fail(cohort->status, "%s", cohort->reason);
}

uint64_t oct__cohort_workspace(const struct oct__cohort *cohort) {
    return cohort->crew->workspace_bytes / (uint64_t)cohort->crew->n_cohorts;
}

oct_status oct__cohort_step(struct oct__cohort *cohort, const struct oct__step *step,
                            struct oct__node_step *nodes) {
    OCT_TRY(oct__crew_step(cohort->crew, step));
    memcpy(nodes, cohort->crew->found, (size_t)cohort->config.n_nodes * sizeof *nodes);
    return OCT_OK;
}

void *oct__cohort_x(const struct oct__cohort *cohort) {
    return cohort->state[cohort->config.settles ? OCT_HOME_NUMERATOR : OCT_HOME_PARAM];
}

/* --- evaluation ------------------------------------------------------------------------------ */

struct eval_job {
    struct oct__cohort *cohort;
    void *params, *stats;
    int64_t first_batch;
};

static struct oct__bases eval_bases(const struct eval_job *job, const struct oct__crew_lane *lane) {
    struct oct__bases bases = lane->bases;
    bases.at[OCT_HOME_PARAM] = job->params;
    bases.at[OCT_HOME_STAT] = job->stats;
    return bases;
}

/* The last batch is filled up with samples that count for nothing (label -1). */
static oct_status eval_batch(void *context, int item, int worker) {
    const struct eval_job *job = context;
    struct oct__cohort *cohort = job->cohort;
    const struct oct__program *program = cohort->crew->eval_program;
    const struct oct_dataset *test = cohort->config.test;
    struct oct__crew_lane *lane = &cohort->crew->eval_lanes[worker];
    struct oct__bases bases = eval_bases(job, lane);
    int64_t batch = job->first_batch + item, first = batch * program->batch;
    int n = 0;
    for (int i = 0; i < program->batch; i++) {
        lane->picks[i] = (struct oct__pick){.row = 0, .label = -1};
        if (first + i < cohort->config.n_test_rows) {
            n++;
            const uint32_t *rows = cohort->config.test_rows;
            uint32_t row = rows ? rows[first + i] : (uint32_t)(first + i);
            lane->picks[i] = (struct oct__pick){.row = (int32_t)row, .label = test->labels[row]};
        }
    }
    OCT_TRY(oct__crew_lane_fetch(program, lane, test, n));
    OCT_TRY(cohort->engine->write(cohort->engine,
                                  oct__program_at(program, &bases, program->picks, 0), lane->picks,
                                  (size_t)program->batch * sizeof *lane->picks));
    OCT_TRY(
        oct__program_run(program, &lane->lane, &bases, program->n_once, program->n_calls, NULL));
    struct oct__node_step found = {0};
    OCT_TRY(oct__crew_fetch(cohort->crew, program, lane, &bases));
    OCT_TRY(oct__crew_take(cohort->crew, program, lane, &found));
    cohort->batch_loss[batch] = found.loss;
    cohort->batch_hits[batch] = found.n_hits;
    return OCT_OK;
}

/* Batches of a lane between two reports of progress. */
#define EVAL_STRIDE 8

oct_status oct__cohort_evaluate(struct oct__cohort *cohort, int node, oct__evaluate_fn *progress,
                                void *context, double *loss, double *accuracy) {
    struct oct__ranks *ranks = cohort->config.ranks;
    const int64_t n_samples = cohort->config.n_test_rows;
    const int64_t n_batches = cohort->crew->n_eval_batches;
    const int is_shared = node < 0 && ranks->n_ranks > 1, n_items = (int)n_batches;
    const int64_t begin = is_shared ? oct__ranks_first(n_items, ranks->n_ranks, ranks->rank) : 0;
    const int64_t end =
        is_shared ? oct__ranks_first(n_items, ranks->n_ranks, ranks->rank + 1) : n_batches;
    const int64_t stride = (int64_t)cohort->crew->n_eval_lanes * EVAL_STRIDE;
    struct eval_job job = {.cohort = cohort, .first_batch = begin};
    void **from = node < 0 ? cohort->average : cohort->state;
    size_t row = node < 0 ? 0 : (size_t)node;
    job.params = (char *)from[OCT_HOME_PARAM] + row * cohort->stride[OCT_HOME_PARAM];
    job.stats = (char *)from[OCT_HOME_STAT] + row * cohort->stride[OCT_HOME_STAT];
    const struct oct__crew_lane *first = &cohort->crew->eval_lanes[0];
    const struct oct__bases bases = eval_bases(&job, first);
    OCT_TRY(oct__program_run(cohort->crew->eval_program, &first->lane, &bases, 0,
                             cohort->crew->eval_program->n_once, NULL));
    while (job.first_batch < end) {
        int64_t left = end - job.first_batch, take = left < stride ? left : stride;
        OCT_TRY(oct__parallel(cohort->crew->n_eval_lanes, (int)take, eval_batch, &job));
        job.first_batch += take;
        if (progress && progress(job.first_batch - begin, end - begin, context)) {
            OCT_FAIL(CANCELLED, "stopped during evaluation");
        }
    }
    if (is_shared) {
        OCT_TRY(oct__ranks_share(ranks, cohort->batch_loss, n_items, sizeof *cohort->batch_loss));
        OCT_TRY(oct__ranks_share(ranks, cohort->batch_hits, n_items, sizeof *cohort->batch_hits));
    }
    double loss_sum = 0.0;
    int64_t n_hits = 0;
    for (int64_t i = 0; i < n_batches; i++) {
        loss_sum += cohort->batch_loss[i];
        n_hits += cohort->batch_hits[i];
    }
    *loss = loss_sum / (double)n_samples;
    *accuracy = 100.0 * (double)n_hits / (double)n_samples;
    return OCT_OK;
}

/* --- the average model ----------------------------------------------------------------------- */

static oct_status read_row(struct oct__cohort *cohort, int home, int node) {
    const char *at = (char *)cohort->state[home] + (size_t)node * cohort->stride[home];
    return cohort->engine->read(cohort->engine, cohort->host_row, at, cohort->stride[home]);
}

static int is_away(const struct oct__cohort *cohort, int node) {
    return cohort->away && cohort->away[node];
}

struct row_sum {
    struct oct__cohort *cohort;
    int from; /* home of the rows */
};

/* Adds a piece of every row, in node order, beginning with the first node itself: one node's average
 * is that node to the bit, negative zeros included. Nodes are away in one process alone. */
static oct_status add_rows(void *context, size_t first, size_t n, double *sum) {
    const struct row_sum *job = context;
    struct oct__cohort *cohort = job->cohort;
    int is_first = cohort->config.first_node == 0;
    for (int node = 0; node < cohort->config.n_nodes; node++) {
        if (is_away(cohort, node)) {
            continue;
        }
        const char *at = (char *)cohort->state[job->from] +
                         (size_t)node * cohort->stride[job->from] + first * sizeof(float);
        OCT_TRY(cohort->engine->read(cohort->engine, cohort->host_row, at, n * sizeof(float)));
        for (size_t i = 0; i < n; i++) {
            const double value = (double)cohort->host_row[i];
            sum[i] = is_first ? value : sum[i] + value;
        }
        is_first = 0;
    }
    return OCT_OK;
}

static oct_status average_row(struct oct__cohort *cohort, int home, int from, double weight) {
    const size_t n = cohort->stride[home] / sizeof(float);
    struct row_sum job = {cohort, from};
    OCT_TRY(oct__ranks_fold(cohort->config.ranks, cohort->host_sum, n, add_rows, &job));
    for (size_t i = 0; i < n; i++) {
        cohort->host_sum[i] /= weight;
        cohort->host_row[i] = (float)cohort->host_sum[i];
    }
    return cohort->engine->write(cohort->engine, cohort->average[home], cohort->host_row,
                                 cohort->stride[home]);
}

oct_status oct__cohort_average(struct oct__cohort *cohort, const double *weights, double *distances,
                               double *distance) {
    const int first = cohort->config.first_node, n_total = cohort->config.n_total;
    double weight = 0.0;
    int n_present = 0;
    for (int node = 0; node < n_total; node++) {
        if (!is_away(cohort, node)) {
            weight += weights ? weights[node] : 1.0;
            n_present++;
        }
    }
    OCT_TRY(average_row(cohort, OCT_HOME_STAT, OCT_HOME_STAT, n_present));
    OCT_TRY(average_row(cohort, OCT_HOME_PARAM,
                        cohort->config.settles ? OCT_HOME_NUMERATOR : OCT_HOME_PARAM, weight));
    const size_t n = cohort->stride[OCT_HOME_PARAM] / sizeof(float);
    double apart = 0.0, norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        norm += cohort->host_sum[i] * cohort->host_sum[i];
    }
    for (int node = 0; node < cohort->config.n_nodes; node++) {
        double own = 0.0;
        OCT_TRY(read_row(cohort, OCT_HOME_PARAM, node));
        for (size_t i = 0; i < n; i++) {
            double d = (double)cohort->host_row[i] - cohort->host_sum[i];
            own += d * d;
        }
        cohort->apart[first + node] = own;
    }
    OCT_TRY(oct__ranks_share(cohort->config.ranks, cohort->apart, n_total, sizeof *cohort->apart));
    for (int node = 0; node < n_total; node++) {
        apart += is_away(cohort, node) ? 0.0 : cohort->apart[node];
        if (distances) {
            distances[node] = norm == 0.0 ? 0.0 : cohort->apart[node] / norm;
        }
    }
    *distance = norm == 0.0 ? 0.0 : apart / n_present / norm;
    return OCT_OK;
}

oct_status oct__cohort_read_average(struct oct__cohort *cohort, enum oct__home home, float *row) {
    return cohort->engine->read(cohort->engine, row, cohort->average[home], cohort->stride[home]);
}

oct_status oct__cohort_write(struct oct__cohort *cohort, enum oct__home home, const float *row) {
    const size_t bytes = cohort->stride[home];
    for (int node = 0; node < cohort->config.n_nodes; node++) {
        char *at = (char *)cohort->state[home] + (size_t)node * bytes;
        OCT_TRY(cohort->engine->write(cohort->engine, at, row, bytes));
    }
    if (home == OCT_HOME_PARAM && cohort->state[OCT_HOME_ANCHOR]) {
        OCT_TRY(oct__cohort_write(cohort, OCT_HOME_ANCHOR, row));
    }
    return home == OCT_HOME_PARAM && cohort->config.settles
               ? oct__cohort_write(cohort, OCT_HOME_NUMERATOR, row)
               : OCT_OK;
}
