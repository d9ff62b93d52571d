/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a trained network put to use: images in, logits out.
 *
 *     struct oct_model *model;
 *     struct oct_model_info info;
 *     oct_model_open("model.safetensors", NULL, &model)
 *     oct_model_info(model, &info);                    what it takes: info.height, width, channels
 *     float logits[info.n_classes];
 *     oct_model_run(model, image, 1, logits)           the largest is the class
 *     oct_model_close(model);
 *
 * A model file that oct_trainer_save has written says of what network it is, in which arithmetic it
 * was trained, and how pixels enter it, so nothing else is needed: no data, no run file, no memory
 * for training. A model of a network that the program has built itself does not know how it was
 * built; load that into a trainer (oct_trainer_load).
 */
#ifndef OCTET_MODEL_H
#define OCTET_MODEL_H

#include <stdint.h>

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_model;

/* How it is to be used; what is 0 or NULL is left to the library. */
struct oct_model_options {
    int batch;     /* images that go through it together, at most (64). More are faster an image,
                           one has its answer soonest where batch is 1. */
    int n_threads; /* (all cores) */
    const char *engine; /* ("cpu") */
};

struct oct_model_info {
    int height, width, channels, n_classes;
    const char *model, *norm, *precision; /* "resnet20", "range-evonorm", "int8"; the model's own */
    int64_t n_parameters;
    int batch;
    float mean[4], deviation[4]; /* a pixel enters as (byte / 255 - mean) / deviation */
    uint64_t memory_bytes;       /* of parameters and workspace */
};

/* CORRUPT, SHAPE and NOT_FINITE as oct_trainer_load; UNSUPPORTED for a file that does not say of what
 * network it is. `options` may be NULL. */
OCT_API OCT_MUST_CHECK oct_status oct_model_open(const char *path,
                                                 const struct oct_model_options *options,
                                                 struct oct_model **out);
OCT_API void oct_model_close(struct oct_model *model);

OCT_API OCT_MUST_CHECK oct_status oct_model_info(const struct oct_model *model,
                                                 struct oct_model_info *out);

/* Logits [n][n_classes] of `n` images of any number, [n][height][width][channels] bytes as a dataset
 * has them. An image's logits do not depend on those beside it. */
OCT_API OCT_MUST_CHECK oct_status oct_model_run(struct oct_model *model, const uint8_t *images,
                                                int64_t n, float *logits);

#ifdef __cplusplus
}
#endif

#endif
