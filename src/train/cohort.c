/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - state and lanes of a process's nodes; steps and evaluations over them. */
#include "train/cohort.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"

/* --- memory ---------------------------------------------------------------------------------- */

/* Host memory that a cohort keeps; everything here is freed in oct__cohort_destroy. */
#define TAKE(pointer, count)                                                                       \
    do {                                                                                           \
        void *memory_;                                                                             \
        OCT_TRY(oct__alloc_array((size_t)(count), sizeof *(pointer), "cohort", &memory_));         \
        (pointer) = memory_;                                                                       \
    } while (0)

static void engine_free(struct oct__engine *engine, void *at) {
    if (at) {
        engine->free(engine, at);
    }
}

/* Training and test images are normalized alike, by what was measured on the training images. */
static oct_status make_resident(struct oct__engine *engine, const struct oct_dataset *dataset,
                                const struct oct_dataset *normalization,
                                struct oct__resident *resident) {
    float lut[OCT_DATA_CHANNELS * 256];
    oct__dataset_lut(normalization, lut);
    resident->dataset = dataset;
    OCT_TRY(engine->alloc(engine, sizeof lut, "look-up table", &resident->lut));
    OCT_TRY(engine->write(engine, resident->lut, lut, sizeof lut));
    if (engine->uses_host_memory || !dataset->images) {
        resident->images = dataset->images;
        resident->is_borrowed = 1;
        return OCT_OK;
    }
    size_t bytes = (size_t)dataset->n_held * oct__sample_bytes(dataset);
    OCT_TRY(engine->alloc(engine, bytes, "dataset", &resident->images));
    return engine->write(engine, resident->images, dataset->images, bytes);
}

static void drop_resident(struct oct__engine *engine, struct oct__resident *resident) {
    engine_free(engine, resident->lut);
    if (!resident->is_borrowed) {
        engine_free(engine, resident->images);
    }
}

int oct__cohort_table(const struct oct_dataset *dataset, int n_nodes, int batch) {
    return dataset->images ? (int)dataset->n_held : n_nodes * batch;
}

/* Room for the images of a launch, which are decoded when they are needed. */
static oct_status open_table(const struct oct__program *program, const struct oct_dataset *dataset,
                             struct oct__cohort_lane *lane) {
    struct oct__engine *engine = program->engine;
    const size_t n = (size_t)program->form.n_nodes * (size_t)program->batch;
    void *memory;
    OCT_TRY(dataset->streamed->reader_create(&lane->reader));
    lane->streamed = dataset->streamed;
    if (!engine->uses_host_memory) {
        OCT_TRY(engine->alloc(engine, n * oct__sample_bytes(dataset), "images", &lane->table));
    }
    if (program->mode == OCT_MODE_EVAL) { /* training has the loader's slots */
        OCT_TRY(oct__alloc_array(n, oct__sample_bytes(dataset), "images", &memory));
        lane->decoded = memory;
    }
    lane->bases.images = lane->table ? lane->table : lane->decoded;
    return OCT_OK;
}

oct_status oct__cohort_lane_open(const struct oct__program *program,
                                 const struct oct__resident *data, int first_thread, uint64_t seed,
                                 struct oct__cohort_lane *lane) {
    struct oct__engine *engine = program->engine;
    struct oct__lane_need need = oct__program_need(program);
    size_t nodes = (size_t)program->form.n_nodes, threads = (size_t)program->form.n_threads;
    lane->lane = (struct oct__lane){
        .engine = engine,
        .form = program->form,
        .first_thread = first_thread,
        .seed = seed,
        .thread_scratch_bytes = need.thread_scratch,
    };
    OCT_TRY(engine->alloc(engine, nodes * need.work_stride, "activations", &lane->work));
    OCT_TRY(engine->alloc(engine, nodes * need.grad_stride, "gradients", &lane->grad));
    OCT_TRY(engine->alloc(engine, need.shared_scratch + threads * need.thread_scratch, "scratch",
                          &lane->scratch));
    lane->lane.shared_scratch = lane->scratch;
    lane->lane.thread_scratch = (char *)lane->scratch + need.shared_scratch;
    lane->bases.at[OCT_HOME_WORK] = lane->work;
    lane->bases.at[OCT_HOME_GRAD] = lane->grad;
    lane->bases.stride[OCT_HOME_WORK] = need.work_stride;
    lane->bases.stride[OCT_HOME_GRAD] = need.grad_stride;
    lane->bases.images = data->images;
    lane->bases.lut = data->lut;
    TAKE(lane->picks, nodes * (size_t)program->batch);
    TAKE(lane->results, 2 * nodes * (size_t)program->batch);
    return data->dataset->images ? OCT_OK : open_table(program, data->dataset, lane);
}

void oct__cohort_lane_close(struct oct__engine *engine, struct oct__cohort_lane *lane) {
    engine_free(engine, lane->work);
    engine_free(engine, lane->grad);
    engine_free(engine, lane->scratch);
    engine_free(engine, lane->table);
    oct__free(lane->decoded);
    oct__free(lane->picks);
    oct__free(lane->results);
    if (lane->streamed) {
        lane->streamed->reader_destroy(lane->reader);
    }
}

oct_status oct__cohort_lane_fetch(const struct oct__program *program, struct oct__cohort_lane *lane,
                                  const struct oct_dataset *dataset, int n) {
    struct oct__engine *engine = program->engine;
    const size_t bytes = oct__sample_bytes(dataset);
    if (!lane->streamed) {
        return OCT_OK;
    }
    for (int i = 0; i < n; i++) {
        OCT_TRY(lane->streamed->fetch(dataset, lane->reader, lane->picks[i].row, NULL,
                                      lane->decoded + (size_t)i * bytes));
    }
    for (int i = 0; i < program->batch; i++) {
        lane->picks[i].row = i < n ? i : 0;
    }
    return lane->table ? engine->write(engine, lane->table, lane->decoded, (size_t)n * bytes)
                       : OCT_OK;
}

static oct_status make_programs(struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    /* one launch for all nodes, threads inside it */
    const int together = cohort->engine->is_wide || c->n_nodes < c->n_threads;
    struct oct__program_config step = {
        .mode = OCT_MODE_TRAIN,
        .batch = c->batch,
        .form = {.n_nodes = together ? c->n_nodes : 1,
                 .n_threads = together ? c->n_threads : 1,
                 .shard = OCT_SHARD},
        .dataset_images = oct__cohort_table(c->train, together ? c->n_nodes : 1, c->batch),
        .dataset_height = c->train->height,
        .dataset_width = c->train->width,
        .clip = c->clip,
        .beta = c->beta,
        .decay = c->decay,
        .is_global = c->is_global,
        .own = c->own,
        .settles = c->settles,
        .slow_beta = c->slow_beta,
        .slow_rate = c->slow_rate,
    };
    struct oct__program_config eval = step;
    eval.mode = OCT_MODE_EVAL;
    eval.batch = cohort->eval_batch;
    eval.keeps = 1;
    eval.form.n_nodes = eval.form.n_threads = 1;
    eval.dataset_images = oct__cohort_table(c->test, 1, cohort->eval_batch);
    OCT_TRY(oct__program_create(cohort->engine, c->graph, &step, &cohort->step_program));
    OCT_TRY(oct__program_create(cohort->engine, c->graph, &eval, &cohort->eval_program));
    cohort->n_lanes = together ? 1 : c->n_threads;
    cohort->n_eval_batches = (c->n_test_rows + cohort->eval_batch - 1) / cohort->eval_batch;
    cohort->n_eval_lanes = cohort->engine->is_wide                 ? 1
                           : cohort->n_eval_batches < c->n_threads ? (int)cohort->n_eval_batches
                                                                   : c->n_threads;
    return OCT_OK;
}

static oct_status make_lanes(struct oct__cohort *cohort) {
    TAKE(cohort->lanes, cohort->n_lanes);
    TAKE(cohort->eval_lanes, cohort->n_eval_lanes);
    for (int i = 0; i < cohort->n_lanes; i++) {
        OCT_TRY(oct__cohort_lane_open(cohort->step_program, &cohort->train, i, cohort->config.seed,
                                      &cohort->lanes[i]));
    }
    const size_t kept = oct__program_need(cohort->eval_program).kept_stride;
    OCT_TRY(cohort->engine->alloc(cohort->engine, kept, "weights", &cohort->kept));
    for (int i = 0; i < cohort->n_eval_lanes; i++) {
        OCT_TRY(oct__cohort_lane_open(cohort->eval_program, &cohort->test, i, cohort->config.seed,
                                      &cohort->eval_lanes[i]));
        cohort->eval_lanes[i].bases.at[OCT_HOME_KEPT] = cohort->kept;
    }
    cohort->workspace_bytes =
        (uint64_t)cohort->n_lanes * oct__program_need(cohort->step_program).total_bytes;
    return OCT_OK;
}

/* Every node starts with the same parameters. */
static oct_status make_state(struct oct__cohort *cohort) {
    struct oct__engine *engine = cohort->engine;
    const struct oct_graph *graph = cohort->config.graph;
    size_t params = graph->params.n_elements, stats = graph->stats.n_elements;
    cohort->stride[OCT_HOME_PARAM] = cohort->stride[OCT_HOME_MOMENTUM] = params * sizeof(float);
    cohort->stride[OCT_HOME_STAT] = stats * sizeof(float);
    if (cohort->config.settles) {
        cohort->stride[OCT_HOME_NUMERATOR] = params * sizeof(float);
        cohort->stride[OCT_HOME_WEIGHT] = sizeof(float);
    }
    if (cohort->config.slow_beta > 0.0) {
        cohort->stride[OCT_HOME_ANCHOR] = cohort->stride[OCT_HOME_SLOW] = params * sizeof(float);
    }
    size_t longest = params > stats ? params : stats;
    TAKE(cohort->host_row, longest);
    TAKE(cohort->host_sum, longest);
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        size_t bytes = (size_t)cohort->config.n_nodes * cohort->stride[home];
        if (bytes == 0 && home >= OCT_HOME_NUMERATOR) {
            continue;
        }
        OCT_TRY(engine->alloc(engine, bytes, "state", &cohort->state[home]));
        cohort->state_bytes += bytes;
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

/* A row of the image table is not looked at again in the step: this is where a sample that another
 * rank holds would be noticed. */
static oct_status check_held(const struct oct_dataset *train, const struct oct_partition *partition,
                             int node) {
    const uint32_t *rows = oct_partition_rows(partition, node);
    const int64_t n = oct_partition_size(partition, node);
    for (int64_t i = 0; i < n; i++) {
        if (oct__dataset_place(train, rows[i]) == OCT_NOT_HELD) {
            OCT_FAIL(INVALID,
                     "node %d trains on sample %u, which is not in this process's memory: its data "
                     "is that of another rank's nodes",
                     node, rows[i]);
        }
    }
    return OCT_OK;
}

static oct_status make_samplers(struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    TAKE(cohort->samplers, c->n_nodes);
    for (int node = 0; node < c->n_nodes; node++) {
        const int number = c->first_node + node;
        OCT_TRY(check_held(c->train, c->partition, number));
        OCT_TRY(oct__sampler_init(&cohort->samplers[node], c->seed, (uint32_t)number,
                                  oct_partition_rows(c->partition, number),
                                  (uint32_t)oct_partition_size(c->partition, number)));
    }
    return OCT_OK;
}

/* Threads that decode ahead compete with those that train where there are only cores for those; they
 * are worth it all the same, because gossip, evaluation and nodes that are no multiple of the threads
 * leave cores idle. A run on one thread has none. */
static oct_status make_loader(struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    const struct oct__program *program = cohort->step_program;
    const struct oct__loader_config loader = {
        .dataset = c->train,
        .samplers = cohort->samplers,
        .n_nodes = c->n_nodes,
        .batch = c->batch,
        .n_threads = c->n_threads > 1 ? c->n_threads : 0,
        .is_augmented = c->pad > 0,
    };
    if (c->train->images) {
        return OCT_OK;
    }
    OCT_TRY(oct__loader_create(&loader, &cohort->loader));
    cohort->workspace_bytes += oct__loader_bytes(cohort->loader);
    while (program->calls[cohort->n_batch++].op != OCT_OP_BATCH) {
    }
    return OCT_OK;
}

static oct_status fill(struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    if (c->train->height != c->test->height || c->train->width != c->test->width ||
        c->train->channels != c->test->channels) {
        OCT_FAIL(SHAPE, "training images are %dx%dx%d and test images %dx%dx%d", c->train->height,
                 c->train->width, c->train->channels, c->test->height, c->test->width,
                 c->test->channels);
    }
    if (c->train->n_classes != c->test->n_classes) {
        OCT_FAIL(SHAPE, "the training set has %d classes and the test set %d", c->train->n_classes,
                 c->test->n_classes);
    }
    if (c->test->images && c->test->n_held < c->test->n_samples) {
        OCT_FAIL(INVALID, "%lld of %lld test samples are in memory, and nodes are tested on all",
                 (long long)c->test->n_held, (long long)c->test->n_samples);
    }
    OCT_TRY(make_resident(cohort->engine, c->train, c->train, &cohort->train));
    OCT_TRY(make_resident(cohort->engine, c->test, c->train, &cohort->test));
    OCT_TRY(make_programs(cohort));
    OCT_TRY(make_lanes(cohort));
    OCT_TRY(make_state(cohort));
    OCT_TRY(make_samplers(cohort));
    OCT_TRY(make_loader(cohort));
    TAKE(cohort->watched, (size_t)c->n_total * cohort->step_program->n_watches * 4);
    TAKE(cohort->apart, c->n_total);
    TAKE(cohort->batch_loss, cohort->n_eval_batches);
    TAKE(cohort->batch_hits, cohort->n_eval_batches);
    return OCT_OK;
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
    cohort->eval_batch = config->engine->is_wide ? OCT_EVAL_BATCH_WIDE : OCT_EVAL_BATCH;
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
    struct oct__engine *engine = cohort->engine;
    oct__loader_destroy(cohort->loader);
    for (int i = 0; cohort->lanes && i < cohort->n_lanes; i++) {
        oct__cohort_lane_close(engine, &cohort->lanes[i]);
    }
    for (int i = 0; cohort->eval_lanes && i < cohort->n_eval_lanes; i++) {
        oct__cohort_lane_close(engine, &cohort->eval_lanes[i]);
    }
    for (int node = 0; cohort->samplers && node < cohort->config.n_nodes; node++) {
        oct__sampler_fini(&cohort->samplers[node]);
    }
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        engine_free(engine, cohort->state[home]);
        engine_free(engine, cohort->average[home]);
    }
    engine_free(engine, cohort->kept);
    oct__program_destroy(cohort->step_program);
    oct__program_destroy(cohort->eval_program);
    drop_resident(engine, &cohort->train);
    drop_resident(engine, &cohort->test);
    oct__free(cohort->lanes);
    oct__free(cohort->eval_lanes);
    oct__free(cohort->samplers);
    oct__free(cohort->host_row);
    oct__ranks_free(cohort->config.ranks, cohort->host_sum);
    oct__ranks_free(cohort->config.ranks, cohort->watched);
    oct__free(cohort->apart);
    oct__free(cohort->batch_loss);
    oct__free(cohort->batch_hits);
    oct__free(cohort);
}

/* --- a step ---------------------------------------------------------------------------------- */

/* What all nodes do in a step, or in settling it. */
struct step_job {
    struct oct__cohort *cohort;
    uint32_t step;
    float learning_rate;
    struct oct__node_step *nodes; /* of a step: its results */
    const double *weights;        /* of settling */
};

struct oct__bases oct__cohort_bases(const struct oct__cohort *cohort,
                                    const struct oct__cohort_lane *lane, int first_node) {
    struct oct__bases bases = lane->bases;
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        if (cohort->state[home]) {
            bases.at[home] =
                (char *)cohort->state[home] + (size_t)first_node * cohort->stride[home];
            bases.stride[home] = cohort->stride[home];
        }
    }
    return bases;
}

/* Sets off the losses and hits of a launch. */
static oct_status fetch_results(struct oct__cohort *cohort, const struct oct__program *program,
                                struct oct__cohort_lane *lane, const struct oct__bases *bases) {
    const size_t n = (size_t)program->batch, stride = bases->stride[OCT_HOME_WORK];
    const int n_nodes = program->form.n_nodes;
    const void *losses = oct__program_at(program, bases, program->loss, 0);
    const void *hits = oct__program_at(program, bases, program->hit, 0);
    OCT_TRY(oct__engine_fetch_rows(cohort->engine, lane->results, losses, stride, n * sizeof(float),
                                   n_nodes));
    return oct__engine_fetch_rows(cohort->engine, lane->results + (size_t)n_nodes * n, hits, stride,
                                  n * sizeof(float), n_nodes);
}

/* Waits for them and sums each node's, in sample order. */
static oct_status take_results(struct oct__cohort *cohort, const struct oct__program *program,
                               const struct oct__cohort_lane *lane, struct oct__node_step *found) {
    const size_t n = (size_t)program->batch;
    const int n_nodes = program->form.n_nodes;
    const float *losses = lane->results, *hits = lane->results + (size_t)n_nodes * n;
    OCT_TRY(oct__engine_await(cohort->engine));
    for (int node = 0; node < n_nodes; node++, losses += n, hits += n) {
        found[node] = (struct oct__node_step){0};
        for (size_t i = 0; i < n; i++) {
            found[node].loss += (double)losses[i];
            found[node].n_hits += hits[i] != 0.0F;
        }
    }
    return OCT_OK;
}

static oct_status read_watches(struct oct__cohort *cohort, const struct oct__bases *bases,
                               int first_node) {
    const struct oct__program *program = cohort->step_program;
    for (int i = 0; i < program->form.n_nodes; i++) {
        const int number = cohort->config.first_node + first_node + i;
        float *to = cohort->watched + (size_t)number * program->n_watches * 4;
        for (size_t w = 0; w < program->n_watches; w++, to += 4) {
            const void *at = oct__program_at(program, bases, program->watches[w].tensor, i);
            OCT_TRY(cohort->engine->read(cohort->engine, to, at, 4 * sizeof *to));
        }
    }
    return OCT_OK;
}

/* Points a lane at the nodes of launch `item`. */
static struct oct__bases begin_launch(const struct step_job *job, int item,
                                      struct oct__cohort_lane *lane) {
    const int first = item * job->cohort->step_program->form.n_nodes;
    lane->lane.first_node = job->cohort->config.first_node + first;
    lane->lane.step = job->step;
    lane->lane.learning_rate = job->learning_rate;
    lane->lane.watch = job->cohort->watch;
    struct oct__bases bases = oct__cohort_bases(job->cohort, lane, first);
    if (job->cohort->loader && !lane->table) {
        bases.images = oct__loader_slot(job->cohort->loader, first);
    }
    return bases;
}

/* Runs a piece of the step, timed where somebody wants to know. */
static oct_status run_piece(const struct oct__cohort *cohort, const struct oct__cohort_lane *lane,
                            const struct oct__bases *bases, size_t from, size_t to) {
    const struct oct__profile profile = {lane->seconds};
    return oct__program_run(cohort->step_program, &lane->lane, bases, from, to,
                            lane->seconds ? &profile : NULL);
}

/* The row of a launch's first node. */
static int row_of(const struct oct__cohort *cohort, const struct oct__cohort_lane *lane) {
    return lane->lane.first_node - cohort->config.first_node;
}

static oct_status each_launch(struct step_job *job, oct__task *task) {
    struct oct__cohort *cohort = job->cohort;
    int n_launches = cohort->config.n_nodes / cohort->step_program->form.n_nodes;
    return oct__parallel(cohort->n_lanes, n_launches, task, job);
}

/* The picks of node `i` of a launch, and its images to where BATCH reads them. */
static oct_status pick_batch(const struct step_job *job, struct oct__cohort_lane *lane, int i) {
    struct oct__cohort *cohort = job->cohort;
    const int batch = cohort->step_program->batch, node = row_of(cohort, lane) + i;
    struct oct__pick *picks = lane->picks + (size_t)i * (size_t)batch;
    if (!cohort->loader) {
        oct__sampler_batch(&cohort->samplers[node], cohort->train.dataset, job->step, batch,
                           cohort->config.pad, picks);
        return OCT_OK;
    }
    OCT_TRY(oct__loader_take(cohort->loader, node, job->step, lane->reader, picks));
    for (int b = 0; b < batch; b++) {
        picks[b].row += i * batch; /* a launch reads one table for all its nodes */
    }
    if (!lane->table) {
        return OCT_OK;
    }
    const size_t bytes = (size_t)batch * oct__sample_bytes(cohort->train.dataset);
    return cohort->engine->write(cohort->engine, (char *)lane->table + (size_t)i * bytes,
                                 oct__loader_slot(cohort->loader, node), bytes);
}

/* Runs forward, and lets the loader have its slots as soon as they have been read. */
static oct_status run_forward(const struct step_job *job, const struct oct__cohort_lane *lane,
                              const struct oct__bases *bases) {
    struct oct__cohort *cohort = job->cohort;
    const struct oct__program *program = cohort->step_program;
    OCT_TRY(run_piece(cohort, lane, bases, 0, cohort->n_batch));
    for (int i = 0; cohort->loader && i < program->form.n_nodes; i++) {
        oct__loader_release(cohort->loader, row_of(cohort, lane) + i, job->step + 1);
    }
    return run_piece(cohort, lane, bases, cohort->n_batch, program->n_forward);
}

/* Says where a loss became what it is, which takes the step's images once more. */
static oct_status explain_loss(const struct step_job *job, struct oct__cohort_lane *lane,
                               const struct oct__bases *bases, int node, double loss) {
    const struct oct__program *program = job->cohort->step_program;
    for (int i = 0; job->cohort->loader && i < program->form.n_nodes; i++) {
        OCT_TRY(pick_batch(job, lane, i));
    }
    OCT_TRY(oct__program_find_nonfinite(program, &lane->lane, bases));
    OCT_FAIL(NOT_FINITE, "node %d: the loss is %g", node, fabs(loss));
}

static oct_status step_launch(void *context, int item, int worker) {
    const struct step_job *job = context;
    struct oct__cohort *cohort = job->cohort;
    const struct oct__program *program = cohort->step_program;
    struct oct__cohort_lane *lane = &cohort->lanes[worker];
    struct oct__bases bases = begin_launch(job, item, lane);
    const int n = program->form.n_nodes, first = row_of(cohort, lane);
    for (int i = 0; i < n; i++) {
        OCT_TRY(pick_batch(job, lane, i));
    }
    OCT_TRY(oct__engine_write_rows(
        cohort->engine, oct__program_at(program, &bases, program->picks, 0),
        bases.stride[OCT_HOME_WORK], lane->picks, (size_t)program->batch * sizeof *lane->picks, n));
    OCT_TRY(run_forward(job, lane, &bases));
    OCT_TRY(fetch_results(cohort, program, lane, &bases));
    OCT_TRY(run_piece(cohort, lane, &bases, program->n_forward, program->n_backward));
    OCT_TRY(take_results(cohort, program, lane, &job->nodes[first]));
    for (int i = 0; i < n; i++) {
        struct oct__node_step *node = &job->nodes[first + i];
        node->loss /= program->batch;
        if (!isfinite(node->loss)) {
            return explain_loss(job, lane, &bases, lane->lane.first_node + i, node->loss);
        }
    }
    OCT_TRY(run_piece(cohort, lane, &bases, program->n_backward,
                      cohort->is_leap ? program->n_slow : program->n_update));
    return cohort->watch ? read_watches(cohort, &bases, first) : OCT_OK;
}

oct_status oct__cohort_step(struct oct__cohort *cohort, uint32_t step, float learning_rate,
                            struct oct__node_step *nodes) {
    struct step_job job = {cohort, step, learning_rate, nodes, NULL};
    oct_status status = each_launch(&job, step_launch);
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "step %u: ", step);
}

static oct_status settle_launch(void *context, int item, int worker) {
    const struct step_job *job = context;
    struct oct__cohort *cohort = job->cohort;
    const struct oct__program *program = cohort->step_program;
    struct oct__cohort_lane *lane = &cohort->lanes[worker];
    struct oct__bases bases = begin_launch(job, item, lane);
    const int n = program->form.n_nodes, first = row_of(cohort, lane);
    if (cohort->config.settles) {
        float *weights = lane->results; /* which has room for more than one a node */
        for (int i = 0; i < n; i++) {
            weights[i] = (float)job->weights[first + i];
        }
        OCT_TRY(oct__engine_write_rows(cohort->engine, bases.at[OCT_HOME_WEIGHT],
                                       bases.stride[OCT_HOME_WEIGHT], weights, sizeof *weights, n));
    }
    return run_piece(cohort, lane, &bases, cohort->is_round ? program->n_slow : program->n_anchored,
                     program->n_calls);
}

oct_status oct__cohort_settle(struct oct__cohort *cohort, uint32_t step, float learning_rate,
                              const double *weights) {
    const struct oct__program *program = cohort->step_program;
    if ((cohort->is_round ? program->n_slow : program->n_anchored) == program->n_calls) {
        return OCT_OK;
    }
    struct step_job job = {cohort, step, learning_rate, NULL, weights};
    return each_launch(&job, settle_launch);
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

static struct oct__bases eval_bases(const struct eval_job *job,
                                    const struct oct__cohort_lane *lane) {
    struct oct__bases bases = lane->bases;
    bases.at[OCT_HOME_PARAM] = job->params;
    bases.at[OCT_HOME_STAT] = job->stats;
    return bases;
}

/* The last batch is filled up with samples that count for nothing (label -1). */
static oct_status eval_batch(void *context, int item, int worker) {
    const struct eval_job *job = context;
    struct oct__cohort *cohort = job->cohort;
    const struct oct__program *program = cohort->eval_program;
    const struct oct_dataset *test = cohort->test.dataset;
    struct oct__cohort_lane *lane = &cohort->eval_lanes[worker];
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
    OCT_TRY(oct__cohort_lane_fetch(program, lane, test, n));
    OCT_TRY(cohort->engine->write(cohort->engine,
                                  oct__program_at(program, &bases, program->picks, 0), lane->picks,
                                  (size_t)program->batch * sizeof *lane->picks));
    OCT_TRY(
        oct__program_run(program, &lane->lane, &bases, program->n_once, program->n_calls, NULL));
    struct oct__node_step found = {0};
    OCT_TRY(fetch_results(cohort, program, lane, &bases));
    OCT_TRY(take_results(cohort, program, lane, &found));
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
    const int64_t n_batches = cohort->n_eval_batches;
    const int is_shared = node < 0 && ranks->n_ranks > 1, n_items = (int)n_batches;
    const int64_t begin = is_shared ? oct__ranks_first(n_items, ranks->n_ranks, ranks->rank) : 0;
    const int64_t end =
        is_shared ? oct__ranks_first(n_items, ranks->n_ranks, ranks->rank + 1) : n_batches;
    const int64_t stride = (int64_t)cohort->n_eval_lanes * EVAL_STRIDE;
    struct eval_job job = {.cohort = cohort, .first_batch = begin};
    void **from = node < 0 ? cohort->average : cohort->state;
    size_t row = node < 0 ? 0 : (size_t)node;
    job.params = (char *)from[OCT_HOME_PARAM] + row * cohort->stride[OCT_HOME_PARAM];
    job.stats = (char *)from[OCT_HOME_STAT] + row * cohort->stride[OCT_HOME_STAT];
    const struct oct__cohort_lane *first = &cohort->eval_lanes[0];
    const struct oct__bases bases = eval_bases(&job, first);
    OCT_TRY(oct__program_run(cohort->eval_program, &first->lane, &bases, 0,
                             cohort->eval_program->n_once, NULL));
    while (job.first_batch < end) {
        int64_t left = end - job.first_batch, take = left < stride ? left : stride;
        OCT_TRY(oct__parallel(cohort->n_eval_lanes, (int)take, eval_batch, &job));
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
