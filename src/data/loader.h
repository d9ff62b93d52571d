/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - a training step's images, decoded while the step before it runs.
 *
 *     table  [node][batch][height][width][channels]: a slot for each node
 *
 *     step t of a node               threads of the loader
 *     take: slot holds step t
 *     BATCH reads the slot
 *     release ─────────────────────► decode step t + 1 into it, slot by slot in order of need
 *     forward, backward, update
 *     take: decodes what nobody
 *     has begun, waits for the rest
 *
 * So memory is a batch for each node, and a step waits only where decoding takes longer than
 * training. What a slot holds is a function of (seed, node, step): no bit depends on who decoded it
 * or when, any step may be taken at any time, and a run that goes on elsewhere has nothing to bring.
 *
 * A picture that fails makes `take` fail, with the message of the batch's first one.
 */
#ifndef OCT_DATA_LOADER_H
#define OCT_DATA_LOADER_H

#include "data/sampler.h"

struct oct__loader_config {
    const struct oct_dataset *dataset; /* streamed; borrowed */
    struct oct__sampler *samplers;     /* [n_nodes], borrowed: nobody else uses them meanwhile */
    int n_nodes, batch;
    int n_threads;    /* that decode; 0: only who takes does */
    int is_augmented; /* random parts of pictures, mirrored by chance; else their middles */
};

struct oct__loader;

OCT_MUST_CHECK oct_status oct__loader_create(const struct oct__loader_config *config,
                                             struct oct__loader **out);

/* Waits for the pictures that are being decoded, not for those that are still to be. */
void oct__loader_destroy(struct oct__loader *loader);

/* Sees to it that the slot of `node` holds training step `step`, and copies its picks: `row` is the
 * image's place in the slot. `reader` is the caller's (struct oct__streamed). One caller a node at a
 * time; the slot stays as it is until it is released, or another step is taken. */
OCT_MUST_CHECK oct_status oct__loader_take(struct oct__loader *loader, int node, uint32_t step,
                                           void *reader, struct oct__pick *picks);

/* The slot has been read, and `next_step` is what it will be taken for. */
void oct__loader_release(struct oct__loader *loader, int node, uint32_t next_step);

/* The slot of a node; those of all nodes follow one another. */
uint8_t *oct__loader_slot(const struct oct__loader *loader, int node);

/* Memory that the slots take. */
uint64_t oct__loader_bytes(const struct oct__loader *loader);

#endif
