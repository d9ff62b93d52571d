/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - model files: a network's parameters and statistics, as floats or in 8 bits.
 *
 * The form `f32` is the row as it is, every tensor under its name (safetensors.h). The form `int8` is
 * what an int8 network computes with: weights of convolutions and linear layers as I8 under their
 * names, and everything else in one F32 tensor, because names and offsets of a hundred short vectors
 * would take a twentieth of a small network's file:
 *
 *     octet.vectors   [a scale for each weight tensor, or each of its outputs, in the row's order]
 *                     [every vector and statistic, in the row's order]
 *     NAME            I8 [out][in][row][column]: the weight is scale * byte
 *
 * The header's metadata say, beside the checksum of the bytes (safetensors.h), {"form": "int8",
 * "scales": "tensor" or "channel", "layout": a checksum of the names and shapes of all tensors, so
 * that a file of another network is refused}.
 *
 * A network that reads such a file quantizes its weights to the same bytes and the same scales again:
 * logits of an int8 network are the same, bit for bit, when its recipe has scales of that kind.
 */
#ifndef OCT_TRAIN_MODEL_H
#define OCT_TRAIN_MODEL_H

#include <octet/trainer.h>

#include "nn/graph.h"
#include "train/config.h"

struct oct_dataset;

/* `by_channel`: of an int8 file, a scale for each output. `about` is more for the header's metadata, as
 * JSON pairs; "": nothing. NOT_FINITE for a model that is not. */
OCT_MUST_CHECK oct_status oct__model_save(const char *path, enum oct_model_form form,
                                          int by_channel, const char *about,
                                          const struct oct__row *row, const float *values);

/* What a file says of the network that it is of: the options that make it, the shape of its samples,
 * and how their pixels enter it. */
#define OCT_MODEL_ABOUT 640
OCT_MUST_CHECK oct_status oct__model_about(const struct oct_config *config,
                                           const struct oct_dataset *data,
                                           char out[OCT_MODEL_ABOUT]);

/* The same from a file: sets the options, and fills in of `shape` what samples look like. UNSUPPORTED
 * for one that does not say it. */
OCT_MUST_CHECK oct_status oct__model_recall(const char *name, const uint8_t *bytes, size_t n_bytes,
                                            struct oct_config *config, struct oct_dataset *shape);

/* A file of either form; `values` is written only when all of it is right. */
OCT_MUST_CHECK oct_status oct__model_load(const char *path, const struct oct__row *row,
                                          float *values);

/* The same from memory. */
OCT_MUST_CHECK oct_status oct__model_read(const char *name, const uint8_t *bytes, size_t n_bytes,
                                          const struct oct__row *row, float *values);

/* … where the numbers may be any: what the fuzzer drives. `name` opens the messages. */
OCT_MUST_CHECK oct_status oct__model_parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                                           const struct oct__row *row, float *values);

#endif
