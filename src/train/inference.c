/* SPDX-License-Identifier: Apache-2.0 */
/* inference.c - lanes that walk chunks of a batch through a program that keeps its weights. */
#include "train/inference.h"

#include "base/alloc.h"
#include "base/parallel.h"

static oct_status make_program(struct oct__inference *inference) {
    const struct oct__inference_config *c = &inference->config;
    const int most = OCT_INFERENCE_CHUNK;
    inference->n_chunks = (c->batch + most - 1) / most;
    const int batch = (c->batch + inference->n_chunks - 1) / inference->n_chunks;
    const struct oct__program_config program = {
        .mode = OCT_MODE_EVAL,
        .batch = batch,
        .form = {.n_nodes = 1, .n_threads = 1, .shard = OCT_SHARD},
        .dataset_images = oct__crew_table(c->data->dataset, 1, batch),
        .dataset_height = c->data->dataset->height,
        .dataset_width = c->data->dataset->width,
        .keeps = 1,
    };
    return oct__program_create(c->engine, c->graph, &program, &inference->program);
}

static oct_status fill(struct oct__inference *inference) {
    const struct oct__inference_config *c = &inference->config;
    void *memory;
    OCT_TRY(make_program(inference));
    const struct oct__lane_need need = oct__program_need(inference->program);
    const int most = c->engine->is_wide ? 1 : c->n_threads;
    const int n_lanes = inference->n_chunks < most ? inference->n_chunks : most;
    OCT_TRY(c->engine->alloc(c->engine, need.kept_stride, "weights", &inference->kept));
    OCT_TRY(oct__alloc_array((size_t)n_lanes, sizeof *inference->lanes, "lanes", &memory));
    inference->lanes = memory;
    inference->n_lanes = n_lanes;
    for (int i = 0; i < n_lanes; i++) {
        OCT_TRY(oct__crew_lane_open(inference->program, c->data, i, 0, &inference->lanes[i]));
        inference->lanes[i].bases.at[OCT_HOME_KEPT] = inference->kept;
    }
    inference->weight_bytes = oct__program_weight_bytes(inference->program);
    inference->workspace_bytes = (uint64_t)n_lanes * need.total_bytes;
    return OCT_OK;
}

oct_status oct__inference_create(const struct oct__inference_config *config,
                                 struct oct__inference **out) {
    void *memory;
    if (config->batch < 1 || config->n_threads < 1) {
        OCT_FAIL(INVALID, "inference: batch %d on %d threads; both must be at least 1",
                 config->batch, config->n_threads);
    }
    OCT_TRY(oct__alloc(sizeof(struct oct__inference), "inference", &memory));
    struct oct__inference *inference = memory;
    inference->config = *config;
    oct_status status = fill(inference);
    if (status != OCT_OK) {
        oct__inference_destroy(inference);
        return status;
    }
    *out = inference;
    return OCT_OK;
}

void oct__inference_destroy(struct oct__inference *inference) {
    if (!inference) {
        return;
    }
    struct oct__engine *engine = inference->config.engine;
    for (int i = 0; i < inference->n_lanes; i++) {
        oct__crew_lane_close(engine, &inference->lanes[i]);
    }
    if (inference->kept) {
        engine->free(engine, inference->kept);
    }
    oct__program_destroy(inference->program);
    oct__free(inference->lanes);
    oct__free(inference);
}

oct_status oct__inference_set(struct oct__inference *inference, void *params, void *stats) {
    for (int i = 0; i < inference->n_lanes; i++) {
        inference->lanes[i].bases.at[OCT_HOME_PARAM] = params;
        inference->lanes[i].bases.at[OCT_HOME_STAT] = stats;
    }
    const struct oct__crew_lane *lane = &inference->lanes[0];
    return oct__program_run(inference->program, &lane->lane, &lane->bases, 0,
                            inference->program->n_once, NULL);
}

/* The last chunk is filled up with its first sample, which counts for nothing there. */
static oct_status run_chunk(void *context, int item, int worker) {
    struct oct__inference *inference = context;
    const struct oct__program *program = inference->program;
    struct oct__engine *engine = inference->config.engine;
    struct oct__crew_lane *lane = &inference->lanes[worker];
    const int first = item * program->batch, left = inference->config.batch - first;
    const int n = left < program->batch ? left : program->batch;
    const size_t classes = (size_t)inference->config.graph->n_classes;
    for (int i = 0; i < program->batch; i++) {
        const uint32_t row = inference->rows[first + (i < n ? i : 0)];
        const uint32_t place = oct__dataset_place(inference->config.data->dataset, row);
        if (place == OCT_NOT_HELD) {
            OCT_FAIL(NOT_FOUND, "inference: sample %u is not in memory here", row);
        }
        lane->picks[i] = (struct oct__pick){.row = (int32_t)place, .label = -1};
    }
    OCT_TRY(oct__crew_lane_fetch(program, lane, inference->config.data->dataset, n));
    OCT_TRY(engine->write(engine, oct__program_at(program, &lane->bases, program->picks, 0),
                          lane->picks, (size_t)program->batch * sizeof *lane->picks));
    OCT_TRY(oct__program_run(program, &lane->lane, &lane->bases, program->n_once, program->n_calls,
                             inference->profile));
    return engine->read(engine, inference->logits + (size_t)first * classes,
                        oct__program_at(program, &lane->bases, program->logits, 0),
                        (size_t)n * classes * sizeof *inference->logits);
}

oct_status oct__inference_some(struct oct__inference *inference, const uint32_t *rows, int n,
                               float *logits) {
    const int batch = inference->program->batch;
    inference->rows = rows;
    inference->logits = logits;
    return oct__parallel(inference->n_lanes, (n + batch - 1) / batch, run_chunk, inference);
}

oct_status oct__inference_run(struct oct__inference *inference, const uint32_t *rows,
                              float *logits) {
    return oct__inference_some(inference, rows, inference->config.batch, logits);
}

oct_status oct__inference_profile(struct oct__inference *inference, const uint32_t *rows,
                                  float *logits, const struct oct__profile *profile) {
    inference->rows = rows;
    inference->logits = logits;
    inference->profile = profile;
    oct_status status = oct__parallel(1, inference->n_chunks, run_chunk, inference);
    inference->profile = NULL;
    return status;
}

static oct_status floor_chunk(void *context, int item, int worker) {
    struct oct__inference *inference = context;
    const struct oct__crew_lane *lane = &inference->lanes[worker];
    (void)item;
    return oct__program_run_floor(inference->program, &lane->lane, &lane->bases, NULL);
}

oct_status oct__inference_floor(struct oct__inference *inference) {
    struct oct__engine *engine = inference->config.engine;
    OCT_TRY(oct__parallel(inference->n_lanes, inference->n_chunks, floor_chunk, inference));
    return engine->finish ? engine->finish(engine) : OCT_OK; /* as reading logits waits */
}
