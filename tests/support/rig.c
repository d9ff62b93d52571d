/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - memory for a program, filled in by hand: see rig.h. */
#include "support/rig.h"

#include <stdlib.h>

#include "support/check.h"

enum { SCRATCH = OCT_HOME_COUNT, IMAGES, LUT };

static void *take(struct rig *rig, int slot, size_t bytes) {
    EXPECT_OK(rig->engine->alloc(rig->engine, bytes, "rig", &rig->memory[slot]));
    return rig->memory[slot];
}

static size_t row_elements(const struct rig *rig, enum oct__home home) {
    return home == OCT_HOME_STAT ? rig->graph->stats.n_elements : rig->graph->params.n_elements;
}

void rig_open(struct rig *rig, struct oct__engine *engine, const struct oct_graph *graph,
              const struct rig_form *form, const uint8_t *images, int n_images, const float *lut) {
    memset(rig, 0, sizeof *rig);
    rig->engine = engine;
    rig->graph = graph;
    struct oct__program_config config = {
        .mode = form->mode,
        .batch = form->batch,
        .form = {form->n_nodes, form->n_threads, form->shard},
        .dataset_images = n_images,
        .dataset_height = graph->height,
        .dataset_width = graph->width,
        .beta = form->beta,
        .decay = form->decay,
    };
    EXPECT_OK(oct__program_create(engine, graph, &config, &rig->program));
    struct oct__lane_need need = oct__program_need(rig->program);
    size_t nodes = (size_t)form->n_nodes;
    struct oct__bases *bases = &rig->bases;
    for (int home = 0; home <= OCT_HOME_WORK; home++) {
        size_t bytes = row_elements(rig, (enum oct__home)home) * sizeof(float);
        bases->stride[home] = home == OCT_HOME_WORK ? need.work_stride : bytes;
        bases->at[home] = take(rig, home, nodes * bases->stride[home]);
    }
    char *scratch =
        take(rig, SCRATCH, need.shared_scratch + (size_t)form->n_threads * need.thread_scratch);
    size_t image_bytes =
        (size_t)graph->height * (size_t)graph->width * (size_t)graph->channels * (size_t)n_images;
    bases->images = take(rig, IMAGES, image_bytes);
    bases->lut = take(rig, LUT, RIG_LUT * sizeof *lut);
    EXPECT_OK(engine->write(engine, bases->images, images, image_bytes));
    EXPECT_OK(engine->write(engine, bases->lut, lut, RIG_LUT * sizeof *lut));
    rig->lane = (struct oct__lane){
        .engine = engine,
        .form = config.form,
        .first_node = form->first_node,
        .seed = form->seed,
        .step = form->step,
        .learning_rate = form->learning_rate,
        .shared_scratch = scratch,
        .thread_scratch = scratch + need.shared_scratch,
        .thread_scratch_bytes = need.thread_scratch,
    };
    float *stats = calloc(graph->stats.n_elements + 1, sizeof *stats);
    assert_non_null(stats);
    oct__row_init(&graph->stats, 0, stats);
    for (int node = 0; node < form->n_nodes; node++) {
        rig_write_row(rig, OCT_HOME_STAT, node, stats);
    }
    free(stats);
}

void rig_close(struct rig *rig) {
    for (size_t i = 0; i < OCT_COUNT_OF(rig->memory); i++) {
        if (rig->memory[i]) {
            rig->engine->free(rig->engine, rig->memory[i]);
        }
    }
    oct__program_destroy(rig->program);
}

static char *row_at(const struct rig *rig, enum oct__home home, int node) {
    return (char *)rig->bases.at[home] + (size_t)node * rig->bases.stride[home];
}

void rig_write_row(struct rig *rig, enum oct__home home, int node, const float *row) {
    EXPECT_OK(rig->engine->write(rig->engine, row_at(rig, home, node), row,
                                 row_elements(rig, home) * sizeof *row));
}

void rig_read_row(struct rig *rig, enum oct__home home, int node, float *row) {
    EXPECT_OK(rig->engine->read(rig->engine, row, row_at(rig, home, node),
                                row_elements(rig, home) * sizeof *row));
}

void rig_write_picks(struct rig *rig, int node, const struct oct__pick *picks) {
    EXPECT_OK(rig->engine->write(
        rig->engine, oct__program_at(rig->program, &rig->bases, rig->program->picks, node), picks,
        (size_t)rig->program->batch * sizeof *picks));
}

void rig_run(struct rig *rig, size_t from, size_t to) {
    EXPECT_OK(oct__program_run(rig->program, &rig->lane, &rig->bases, from, to, NULL));
}

void rig_forward(struct rig *rig) {
    rig_run(rig, 0, rig->program->n_forward);
}

void rig_backward(struct rig *rig) {
    size_t last = rig->program->n_calls - 1;
    assert_int_equal(rig->program->calls[last].op, OCT_OP_SGD);
    rig_run(rig, rig->program->n_forward, last);
}

void rig_read(struct rig *rig, int tensor, int node, void *to) {
    EXPECT_OK(rig->engine->read(rig->engine, to,
                                oct__program_at(rig->program, &rig->bases, tensor, node),
                                oct__tensor_bytes(&rig->program->tensors[tensor].shape)));
}

struct oct__engine *rig_engine_at(int index, int n_threads) {
    for (int i = 0; oct__engine_at(i); i++) {
        const struct oct_plugin *plugin = &oct__engine_at(i)->plugin;
        if (!plugin->unavailable && index-- == 0) {
            struct oct__engine *engine = NULL;
            EXPECT_OK(oct__engine_open(plugin->name, n_threads, &engine));
            return engine;
        }
    }
    return NULL;
}
