/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - one program on one engine, with memory of its own: what tests of layers drive by hand.
 *
 * A cohort would choose samples, parameters and steps itself; here the test sets every one of
 * them, runs any piece of the program, and reads any tensor back. Everything goes through the
 * engine's own memory, so a rig works on every engine. Failures fail the test.
 */
#ifndef OCT_TESTS_RIG_H
#define OCT_TESTS_RIG_H

#include "data/sampler.h"
#include "nn/program.h"

#define RIG_LUT (OCT_DATA_CHANNELS * 256)

struct rig_form {
    enum oct__mode mode;
    int batch, n_nodes, n_threads, shard;
    uint64_t seed;
    uint32_t step;
    int first_node;
    float learning_rate, beta, decay;
};

struct rig {
    struct oct__engine *engine;
    const struct oct_graph *graph;
    struct oct__program *program;
    struct oct__lane lane;
    struct oct__bases bases;
    void *memory[OCT_HOME_COUNT + 3]; /* the homes, scratch, images, look-up table */
};

/* `images` are n_images of the graph's shape; `lut` has RIG_LUT floats. Parameters start at 0,
 * statistics at their constants. */
void rig_open(struct rig *rig, struct oct__engine *engine, const struct oct_graph *graph,
              const struct rig_form *form, const uint8_t *images, int n_images, const float *lut);
void rig_close(struct rig *rig);

/* The whole row of a home (PARAM, MOMENTUM, STAT, GRAD) of the launch's node `node`. */
void rig_write_row(struct rig *rig, enum oct__home home, int node, const float *row);
void rig_read_row(struct rig *rig, enum oct__home home, int node, float *row);

/* [batch] samples of node `node`. */
void rig_write_picks(struct rig *rig, int node, const struct oct__pick *picks);

/* Calls from … to - 1; all of the forward pass; forward and backward without the update. */
void rig_run(struct rig *rig, size_t from, size_t to);
void rig_forward(struct rig *rig);
void rig_backward(struct rig *rig);

/* A tensor of the program, whole. */
void rig_read(struct rig *rig, int tensor, int node, void *to);

/* The engines of the registry that this build has, opened for `n_threads`; NULL past the end.
 * The caller closes them. */
struct oct__engine *rig_engine_at(int index, int n_threads);

#endif
