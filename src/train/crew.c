/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c - programs and lanes for one cohort or several; a step of all their nodes. */
#include "train/crew.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "train/cohort.h"

/* --- memory ---------------------------------------------------------------------------------- */

oct_status oct__resident_open(struct oct__engine *engine, const struct oct_dataset *dataset,
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

void oct__resident_close(struct oct__engine *engine, struct oct__resident *resident) {
    oct__engine_free(engine, resident->lut);
    if (!resident->is_borrowed) {
        oct__engine_free(engine, resident->images);
    }
}

int oct__crew_table(const struct oct_dataset *dataset, int n_nodes, int batch) {
    return dataset->images ? (int)dataset->n_held : n_nodes * batch;
}

/* Room for the images of a launch, which are decoded when they are needed. */
static oct_status open_table(const struct oct__program *program, const struct oct_dataset *dataset,
                             struct oct__crew_lane *lane) {
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

oct_status oct__crew_lane_open(const struct oct__program *program, const struct oct__resident *data,
                               int first_thread, uint64_t seed, struct oct__crew_lane *lane) {
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
    OCT_TAKE(lane->picks, nodes * (size_t)program->batch, "crew");
    OCT_TAKE(lane->results, 2 * nodes * (size_t)program->batch, "crew");
    return data->dataset->images ? OCT_OK : open_table(program, data->dataset, lane);
}

void oct__crew_lane_close(struct oct__engine *engine, struct oct__crew_lane *lane) {
    oct__engine_free(engine, lane->work);
    oct__engine_free(engine, lane->grad);
    oct__engine_free(engine, lane->scratch);
    oct__engine_free(engine, lane->table);
    oct__free(lane->decoded);
    oct__free(lane->picks);
    oct__free(lane->results);
    if (lane->streamed) {
        lane->streamed->reader_destroy(lane->reader);
    }
}

oct_status oct__crew_lane_fetch(const struct oct__program *program, struct oct__crew_lane *lane,
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

int oct__crew_rows(const struct oct__crew *crew) {
    return crew->n_cohorts * crew->config.n_nodes;
}

/* Whether a launch goes over several cohorts. */
static int spans(const struct oct__crew *crew) {
    return crew->engine->is_wide && crew->n_cohorts > 1;
}

static oct_status make_programs(struct oct__crew *crew) {
    const struct oct__cohort_config *c = &crew->config;
    /* one launch for all nodes, threads inside it */
    const int together = crew->engine->is_wide || c->n_nodes < c->n_threads;
    const int n_nodes = spans(crew) ? oct__crew_rows(crew) : together ? c->n_nodes : 1;
    struct oct__program_config step = {
        .mode = OCT_MODE_TRAIN,
        .batch = c->batch,
        .form = {.n_nodes = n_nodes, .n_threads = together ? c->n_threads : 1, .shard = OCT_SHARD},
        .dataset_images = oct__crew_table(c->train, n_nodes, c->batch),
        .dataset_height = c->train->height,
        .dataset_width = c->train->width,
        .clip = c->clip,
        .beta = c->beta,
        .decay = c->decay,
        .is_global = c->is_global,
        .own = c->own,
        .keep = c->keep,
        .settles = c->settles,
        .slow_beta = c->slow_beta,
        .slow_rate = c->slow_rate,
    };
    struct oct__program_config eval = step;
    eval.mode = OCT_MODE_EVAL;
    eval.batch = crew->eval_batch;
    eval.keeps = 1;
    eval.form.n_nodes = eval.form.n_threads = 1;
    eval.dataset_images = oct__crew_table(c->test, 1, crew->eval_batch);
    OCT_TRY(oct__program_create(crew->engine, c->graph, &step, &crew->step_program));
    OCT_TRY(oct__program_create(crew->engine, c->graph, &eval, &crew->eval_program));
    crew->n_lanes = together ? 1 : c->n_threads;
    crew->n_eval_batches = (c->n_test_rows + crew->eval_batch - 1) / crew->eval_batch;
    crew->n_eval_lanes = crew->engine->is_wide                 ? 1
                         : crew->n_eval_batches < c->n_threads ? (int)crew->n_eval_batches
                                                               : c->n_threads;
    return OCT_OK;
}

static oct_status make_lanes(struct oct__crew *crew) {
    OCT_TAKE(crew->lanes, crew->n_lanes, "crew");
    OCT_TAKE(crew->eval_lanes, crew->n_eval_lanes, "crew");
    for (int i = 0; i < crew->n_lanes; i++) {
        OCT_TRY(oct__crew_lane_open(crew->step_program, &crew->train, i, crew->config.seed,
                                    &crew->lanes[i]));
    }
    const size_t kept = oct__program_need(crew->eval_program).kept_stride;
    OCT_TRY(crew->engine->alloc(crew->engine, kept, "weights", &crew->kept));
    for (int i = 0; i < crew->n_eval_lanes; i++) {
        OCT_TRY(oct__crew_lane_open(crew->eval_program, &crew->test, i, crew->config.seed,
                                    &crew->eval_lanes[i]));
        crew->eval_lanes[i].bases.at[OCT_HOME_KEPT] = crew->kept;
    }
    crew->workspace_bytes =
        (uint64_t)crew->n_lanes * oct__program_need(crew->step_program).total_bytes;
    return OCT_OK;
}

static oct_status make_state(struct oct__crew *crew) {
    const struct oct_graph *graph = crew->config.graph;
    size_t params = graph->params.n_elements, stats = graph->stats.n_elements;
    crew->stride[OCT_HOME_PARAM] = crew->stride[OCT_HOME_MOMENTUM] = params * sizeof(float);
    crew->stride[OCT_HOME_STAT] = stats * sizeof(float);
    if (crew->config.settles) {
        crew->stride[OCT_HOME_NUMERATOR] = params * sizeof(float);
        crew->stride[OCT_HOME_WEIGHT] = sizeof(float);
    }
    if (crew->config.slow_beta > 0.0) {
        crew->stride[OCT_HOME_ANCHOR] = crew->stride[OCT_HOME_SLOW] = params * sizeof(float);
    }
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        size_t bytes = (size_t)oct__crew_rows(crew) * crew->stride[home];
        if (bytes > 0 || home < OCT_HOME_NUMERATOR) {
            OCT_TRY(crew->engine->alloc(crew->engine, bytes, "state", &crew->state[home]));
        }
    }
    return OCT_OK;
}

/* Threads that decode ahead compete with those that train where there are only cores for those; they
 * are worth it all the same, because gossip, evaluation and nodes that are no multiple of the threads
 * leave cores idle. A run on one thread has none. */
static oct_status make_loader(struct oct__crew *crew) {
    const struct oct__cohort_config *c = &crew->config;
    const struct oct__program *program = crew->step_program;
    const struct oct__loader_config loader = {
        .dataset = c->train,
        .samplers = crew->samplers,
        .n_nodes = oct__crew_rows(crew),
        .batch = c->batch,
        .n_threads = c->n_threads > 1 ? c->n_threads : 0,
        .is_augmented = c->pad > 0,
    };
    if (c->train->images) {
        return OCT_OK;
    }
    OCT_TRY(oct__loader_create(&loader, &crew->loader));
    crew->workspace_bytes += oct__loader_bytes(crew->loader);
    while (program->calls[crew->n_batch++].op != OCT_OP_BATCH) {
    }
    return OCT_OK;
}

static oct_status check_data(const struct oct__cohort_config *c) {
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
    return OCT_OK;
}

/* Seeds of the runs where a launch goes over several. */
static oct_status make_seeds(struct oct__crew *crew) {
    OCT_TAKE(crew->seeds, crew->n_cohorts, "crew");
    return spans(crew)
               ? crew->engine->alloc(crew->engine, (size_t)crew->n_cohorts * sizeof *crew->seeds,
                                     "seeds", &crew->seeds_there)
               : OCT_OK;
}

static oct_status fill(struct oct__crew *crew) {
    const struct oct__cohort_config *c = &crew->config;
    void *memory;
    OCT_TRY(check_data(c));
    OCT_TRY(oct__resident_open(crew->engine, c->train, c->train, &crew->train));
    OCT_TRY(oct__resident_open(crew->engine, c->test, c->train, &crew->test));
    OCT_TRY(make_programs(crew));
    OCT_TRY(make_lanes(crew));
    OCT_TRY(make_state(crew));
    OCT_TRY(make_seeds(crew));
    OCT_TRY(
        oct__alloc_array((size_t)crew->n_cohorts, sizeof(struct oct__cohort *), "crew", &memory));
    crew->cohorts = memory;
    OCT_TAKE(crew->samplers, oct__crew_rows(crew), "crew");
    OCT_TAKE(crew->found, oct__crew_rows(crew), "crew");
    return OCT_OK;
}

oct_status oct__crew_create(const struct oct__cohort_config *config, int n_cohorts,
                            struct oct__crew **out) {
    void *memory;
    if (n_cohorts > OCT_RUNS_MOST) {
        OCT_FAIL(INVALID, "%d runs side by side: %d are the most", n_cohorts, OCT_RUNS_MOST);
    }
    OCT_TRY(oct__alloc(sizeof(struct oct__crew), "crew", &memory));
    struct oct__crew *crew = memory;
    crew->config = *config;
    crew->n_cohorts = n_cohorts;
    if (!config->test_rows) {
        crew->config.n_test_rows = (uint32_t)config->test->n_samples;
    }
    crew->engine = config->engine;
    crew->eval_batch = config->engine->is_wide ? OCT_EVAL_BATCH_WIDE : OCT_EVAL_BATCH;
    oct_status status = fill(crew);
    if (status != OCT_OK) {
        oct__crew_destroy(crew);
        return status;
    }
    *out = crew;
    return OCT_OK;
}

void oct__crew_destroy(struct oct__crew *crew) {
    if (!crew) {
        return;
    }
    struct oct__engine *engine = crew->engine;
    oct__loader_destroy(crew->loader);
    for (int i = 0; crew->lanes && i < crew->n_lanes; i++) {
        oct__crew_lane_close(engine, &crew->lanes[i]);
    }
    for (int i = 0; crew->eval_lanes && i < crew->n_eval_lanes; i++) {
        oct__crew_lane_close(engine, &crew->eval_lanes[i]);
    }
    for (int row = 0; crew->samplers && row < oct__crew_rows(crew); row++) {
        oct__sampler_fini(&crew->samplers[row]);
    }
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        oct__engine_free(engine, crew->state[home]);
    }
    oct__engine_free(engine, crew->kept);
    oct__engine_free(engine, crew->seeds_there);
    oct__program_destroy(crew->step_program);
    oct__program_destroy(crew->eval_program);
    oct__resident_close(engine, &crew->train);
    oct__resident_close(engine, &crew->test);
    oct__free(crew->lanes);
    oct__free(crew->eval_lanes);
    oct__free(crew->samplers);
    oct__free(crew->cohorts);
    oct__free(crew->found);
    oct__free(crew->seeds);
    oct__free(crew);
}

/* --- cohorts come aboard --------------------------------------------------------------------- */

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

oct_status oct__crew_board(struct oct__crew *crew, struct oct__cohort *cohort) {
    const struct oct__cohort_config *c = &cohort->config;
    for (int node = 0; node < c->n_nodes; node++) {
        const int number = c->first_node + node;
        OCT_TRY(check_held(c->train, c->partition, number));
        OCT_TRY(oct__sampler_init(&crew->samplers[cohort->first_row + node], c->seed,
                                  (uint32_t)number, oct_partition_rows(c->partition, number),
                                  (uint32_t)oct_partition_size(c->partition, number)));
    }
    crew->seeds[crew->n_aboard] = c->seed;
    crew->cohorts[crew->n_aboard] = cohort;
    if (++crew->n_aboard < crew->n_cohorts) {
        return OCT_OK;
    }
    if (crew->seeds_there) {
        OCT_TRY(crew->engine->write(crew->engine, crew->seeds_there, crew->seeds,
                                    (size_t)crew->n_cohorts * sizeof *crew->seeds));
    }
    return make_loader(crew);
}

/* The cohort of a row, and the row's node in it. */
static struct oct__cohort *cohort_of(const struct oct__crew *crew, int row) {
    return crew->cohorts[row / crew->config.n_nodes];
}

static int node_of(const struct oct__crew *crew, int row) {
    return row % crew->config.n_nodes;
}

/* --- a step ---------------------------------------------------------------------------------- */

/* What all nodes do in a step, or in settling it; where launches do not span cohorts, those of one.
 */
struct step_job {
    struct oct__crew *crew;
    const struct oct__cohort *cohort;
    const struct oct__step *step;
};

struct oct__bases oct__crew_bases(const struct oct__crew *crew, const struct oct__crew_lane *lane,
                                  int row) {
    struct oct__bases bases = lane->bases;
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        if (crew->state[home]) {
            bases.at[home] = (char *)crew->state[home] + (size_t)row * crew->stride[home];
            bases.stride[home] = crew->stride[home];
        }
    }
    return bases;
}

oct_status oct__crew_fetch(struct oct__crew *crew, const struct oct__program *program,
                           struct oct__crew_lane *lane, const struct oct__bases *bases) {
    const size_t n = (size_t)program->batch, stride = bases->stride[OCT_HOME_WORK];
    const int n_nodes = program->form.n_nodes;
    const void *losses = oct__program_at(program, bases, program->loss, 0);
    const void *hits = oct__program_at(program, bases, program->hit, 0);
    OCT_TRY(oct__engine_fetch_rows(crew->engine, lane->results, losses, stride, n * sizeof(float),
                                   n_nodes));
    return oct__engine_fetch_rows(crew->engine, lane->results + (size_t)n_nodes * n, hits, stride,
                                  n * sizeof(float), n_nodes);
}

oct_status oct__crew_take(struct oct__crew *crew, const struct oct__program *program,
                          const struct oct__crew_lane *lane, struct oct__node_step *found) {
    const size_t n = (size_t)program->batch;
    const int n_nodes = program->form.n_nodes;
    const float *losses = lane->results, *hits = lane->results + (size_t)n_nodes * n;
    OCT_TRY(oct__engine_await(crew->engine));
    for (int node = 0; node < n_nodes; node++, losses += n, hits += n) {
        found[node] = (struct oct__node_step){0};
        for (size_t i = 0; i < n; i++) {
            found[node].loss += (double)losses[i];
            found[node].n_hits += hits[i] != 0.0F;
        }
    }
    return OCT_OK;
}

static oct_status read_watches(struct oct__crew *crew, const struct oct__crew_lane *lane,
                               const struct oct__bases *bases) {
    const struct oct__program *program = crew->step_program;
    for (int i = 0; i < program->form.n_nodes; i++) {
        const struct oct__cohort *cohort = cohort_of(crew, lane->row + i);
        const int number = cohort->config.first_node + node_of(crew, lane->row + i);
        float *to = cohort->watched + (size_t)number * program->n_watches * 4;
        for (size_t w = 0; w < program->n_watches; w++, to += 4) {
            const void *at = oct__program_at(program, bases, program->watches[w].tensor, i);
            OCT_TRY(crew->engine->read(crew->engine, to, at, 4 * sizeof *to));
        }
    }
    return OCT_OK;
}

/* Points a lane at the nodes of launch `item`. */
static struct oct__bases begin_launch(const struct step_job *job, int item,
                                      struct oct__crew_lane *lane) {
    struct oct__crew *crew = job->crew;
    const int first = item * crew->step_program->form.n_nodes;
    lane->row = job->cohort->first_row + first;
    lane->lane.first_node = job->cohort->config.first_node + first;
    lane->lane.seed = job->cohort->config.seed;
    if (spans(crew)) {
        lane->lane.seeds = crew->seeds;
        lane->lane.seeds_there = crew->seeds_there;
        lane->lane.n_each = crew->config.n_nodes;
    }
    lane->lane.step = job->step->number;
    lane->lane.learning_rate = job->step->rate;
    lane->lane.watch = job->step->watch;
    struct oct__bases bases = oct__crew_bases(crew, lane, lane->row);
    if (crew->loader && !lane->table) {
        bases.images = oct__loader_slot(crew->loader, lane->row);
    }
    return bases;
}

/* Runs a piece of the step, timed where somebody wants to know. */
static oct_status run_piece(const struct oct__crew *crew, const struct oct__crew_lane *lane,
                            const struct oct__bases *bases, size_t from, size_t to) {
    const struct oct__profile profile = {lane->seconds};
    return oct__program_run(crew->step_program, &lane->lane, bases, from, to,
                            lane->seconds ? &profile : NULL);
}

/* The picks of node `i` of a launch, and its images to where BATCH reads them. */
static oct_status pick_batch(const struct step_job *job, struct oct__crew_lane *lane, int i) {
    struct oct__crew *crew = job->crew;
    const int batch = crew->step_program->batch, row = lane->row + i;
    struct oct__pick *picks = lane->picks + (size_t)i * (size_t)batch;
    if (!crew->loader) {
        oct__sampler_batch(&crew->samplers[row], crew->train.dataset, job->step->number, batch,
                           crew->config.pad, picks);
        return OCT_OK;
    }
    OCT_TRY(oct__loader_take(crew->loader, row, job->step->number, lane->reader, picks));
    for (int b = 0; b < batch; b++) {
        picks[b].row += i * batch; /* a launch reads one table for all its nodes */
    }
    if (!lane->table) {
        return OCT_OK;
    }
    const size_t bytes = (size_t)batch * oct__sample_bytes(crew->train.dataset);
    return crew->engine->write(crew->engine, (char *)lane->table + (size_t)i * bytes,
                               oct__loader_slot(crew->loader, row), bytes);
}

/* Runs forward, and lets the loader have its slots as soon as they have been read. */
static oct_status run_forward(const struct step_job *job, const struct oct__crew_lane *lane,
                              const struct oct__bases *bases) {
    struct oct__crew *crew = job->crew;
    const struct oct__program *program = crew->step_program;
    OCT_TRY(run_piece(crew, lane, bases, 0, crew->n_batch));
    for (int i = 0; crew->loader && i < program->form.n_nodes; i++) {
        oct__loader_release(crew->loader, lane->row + i, job->step->number + 1);
    }
    return run_piece(crew, lane, bases, crew->n_batch, program->n_forward);
}

/* Says where a loss became what it is, which takes the step's images once more, and a step that is
 * not repeated: where other runs' nodes are in the launch, it is not looked for. */
static oct_status explain_loss(const struct step_job *job, struct oct__crew_lane *lane,
                               const struct oct__bases *bases, int node, double loss) {
    const struct oct__program *program = job->crew->step_program;
    for (int i = 0; job->crew->loader && i < program->form.n_nodes; i++) {
        OCT_TRY(pick_batch(job, lane, i));
    }
    OCT_TRY(oct__program_find_nonfinite(program, &lane->lane, bases));
    OCT_FAIL(NOT_FINITE, "node %d: the loss is %g", node, fabs(loss));
}

/* Notes it with the run that it concerns. */
static void note_loss(const struct oct__crew *crew, int row, uint32_t step, double loss) {
    char reason[128];
    snprintf(reason, sizeof reason,
             "step %u: node %d: the loss is %g; lower the learning rate (lr), or train it alone, "
             "which says where",
             step, node_of(crew, row), fabs(loss));
    oct__cohort_stand(cohort_of(crew, row), OCT_STATUS_NOT_FINITE, reason);
}

static oct_status look_at_losses(const struct step_job *job, struct oct__crew_lane *lane,
                                 const struct oct__bases *bases) {
    struct oct__crew *crew = job->crew;
    for (int i = 0; i < crew->step_program->form.n_nodes; i++) {
        struct oct__node_step *node = &crew->found[lane->row + i];
        node->loss /= crew->step_program->batch;
        if (!isfinite(node->loss) && spans(crew)) {
            note_loss(crew, lane->row + i, job->step->number, node->loss);
        } else if (!isfinite(node->loss)) {
            return explain_loss(job, lane, bases, lane->lane.first_node + i, node->loss);
        }
    }
    return OCT_OK;
}

static oct_status step_launch(void *context, int item, int worker) {
    const struct step_job *job = context;
    struct oct__crew *crew = job->crew;
    const struct oct__program *program = crew->step_program;
    struct oct__crew_lane *lane = &crew->lanes[worker];
    struct oct__bases bases = begin_launch(job, item, lane);
    const int n = program->form.n_nodes;
    for (int i = 0; i < n; i++) {
        OCT_TRY(pick_batch(job, lane, i));
    }
    OCT_TRY(oct__engine_write_rows(
        crew->engine, oct__program_at(program, &bases, program->picks, 0),
        bases.stride[OCT_HOME_WORK], lane->picks, (size_t)program->batch * sizeof *lane->picks, n));
    OCT_TRY(run_forward(job, lane, &bases));
    OCT_TRY(oct__crew_fetch(crew, program, lane, &bases));
    OCT_TRY(run_piece(crew, lane, &bases, program->n_forward, program->n_backward));
    OCT_TRY(oct__crew_take(crew, program, lane, &crew->found[lane->row]));
    OCT_TRY(look_at_losses(job, lane, &bases));
    OCT_TRY(run_piece(crew, lane, &bases, program->n_backward,
                      job->step->is_leap ? program->n_slow : program->n_update));
    return job->step->watch ? read_watches(crew, lane, &bases) : OCT_OK;
}

static oct_status settle_launch(void *context, int item, int worker) {
    const struct step_job *job = context;
    struct oct__crew *crew = job->crew;
    const struct oct__program *program = crew->step_program;
    struct oct__crew_lane *lane = &crew->lanes[worker];
    struct oct__bases bases = begin_launch(job, item, lane);
    const int n = program->form.n_nodes;
    if (crew->config.settles) {
        float *weights = lane->results; /* which has room for more than one a node */
        for (int i = 0; i < n; i++) {
            const struct oct__cohort *cohort = cohort_of(crew, lane->row + i);
            const double *from = cohort ? cohort->weights : NULL; /* it may not have come yet */
            weights[i] = from ? (float)from[node_of(crew, lane->row + i)] : 1.0F;
        }
        OCT_TRY(oct__engine_write_rows(crew->engine, bases.at[OCT_HOME_WEIGHT],
                                       bases.stride[OCT_HOME_WEIGHT], weights, sizeof *weights, n));
    }
    return run_piece(crew, lane, &bases,
                     job->step->is_round ? program->n_slow : program->n_anchored, program->n_calls);
}

static oct_status launch(struct step_job *job, int n_lanes, int n_launches, oct__task *task) {
    oct_status status = oct__parallel(n_lanes, n_launches, task, job);
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "step %u: ", job->step->number);
}

/* All launches: one of all rows, or each cohort's own. Of a cohort by itself a failure is
 * returned, of one among others it is noted. */
static oct_status each_launch(struct step_job *job, oct__task *task) {
    struct oct__crew *crew = job->crew;
    const int n_launches = crew->config.n_nodes / crew->step_program->form.n_nodes;
    if (spans(crew)) {
        job->cohort = crew->cohorts[0];
        return launch(job, 1, 1, task);
    }
    for (int i = 0; i < crew->n_aboard; i++) {
        struct oct__cohort *cohort = crew->cohorts[i];
        if (cohort->status != OCT_OK) {
            continue;
        }
        job->cohort = cohort;
        oct_status status = launch(job, crew->n_lanes, n_launches, task);
        if (status != OCT_OK && crew->n_cohorts == 1) {
            return status;
        }
        if (status != OCT_OK) {
            oct__cohort_stand(cohort, status, oct_last_error());
        }
    }
    return OCT_OK;
}

oct_status oct__crew_step(struct oct__crew *crew, const struct oct__step *step) {
    struct step_job job = {crew, NULL, step};
    return each_launch(&job, step_launch);
}

oct_status oct__crew_settle(struct oct__crew *crew, const struct oct__step *step) {
    const struct oct__program *program = crew->step_program;
    if ((step->is_round ? program->n_slow : program->n_anchored) == program->n_calls) {
        return OCT_OK;
    }
    struct step_job job = {crew, NULL, step};
    return each_launch(&job, settle_launch);
}
