/* SPDX-License-Identifier: Apache-2.0 */
/* inference.h - a trained network put to use: samples in, logits out, parameters as they are.
 *
 * Weights are quantized when parameters are set, never with a batch, and packed then by engines that
 * keep them so (oneDNN's products; our own integer products pack them with every batch). Samples of
 * a batch have nothing to do with each other (ranges and statistics are the running ones), so a batch is
 * cut into chunks that threads walk through the whole network on their own: no thread waits for
 * another between layers, and what a layer writes is still in the cache when the next one reads it.
 * The size of a chunk follows from the batch alone, so the thread count changes no bit.
 */
#ifndef OCT_TRAIN_INFERENCE_H
#define OCT_TRAIN_INFERENCE_H

#include "train/cohort.h"

/* Samples of a chunk, at most. */
#define OCT_INFERENCE_CHUNK 8

struct oct__inference_config {
    struct oct__engine *engine;    /* borrowed, as is all else here */
    const struct oct_graph *graph; /* checked */
    const struct oct__resident *data;
    int batch, n_threads;
};

struct oct__inference {
    struct oct__inference_config config;
    struct oct__program *program; /* of a chunk */
    int n_chunks;
    struct oct__crew_lane *lanes;
    int n_lanes;
    void *kept;
    const uint32_t *rows; /* of the batch under way, and where its logits go */
    float *logits;
    const struct oct__profile *profile; /* of a batch that is timed by call; else NULL */
    uint64_t weight_bytes;              /* that a batch reads: packed, quantized, or as they are */
    uint64_t workspace_bytes;           /* of all lanes */
};

OCT_MUST_CHECK oct_status oct__inference_create(const struct oct__inference_config *config,
                                                struct oct__inference **out);
void oct__inference_destroy(struct oct__inference *inference);

/* From now on batches are classified with these rows of the engine's memory, which must stay. To be
 * called again whenever the parameters in them have changed. */
OCT_MUST_CHECK oct_status oct__inference_set(struct oct__inference *inference, void *params,
                                             void *stats);

/* Logits [batch][class] of the samples `rows` [batch] of the dataset; where its images are not in
 * memory, they are decoded for it. */
OCT_MUST_CHECK oct_status oct__inference_run(struct oct__inference *inference, const uint32_t *rows,
                                             float *logits);

/* The same of the first `n` samples alone, in as many chunks as that takes; the other logits of the last
 * of them mean nothing. */
OCT_MUST_CHECK oct_status oct__inference_some(struct oct__inference *inference,
                                              const uint32_t *rows, int n, float *logits);

/* The same on one thread, adding the time of every call to profile->seconds. */
OCT_MUST_CHECK oct_status oct__inference_profile(struct oct__inference *inference,
                                                 const uint32_t *rows, float *logits,
                                                 const struct oct__profile *profile);

/* The products of a batch and nothing else: the floor. */
OCT_MUST_CHECK oct_status oct__inference_floor(struct oct__inference *inference);

#endif
