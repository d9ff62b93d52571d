/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - parameters in a file that other tools read too.
 *
 * The format (github.com/huggingface/safetensors): eight bytes of little-endian header length, a
 * JSON object
 * {"name": {"dtype": "F32", "shape": […], "data_offsets": [begin, end]}, …}, then the tensors'
 * bytes. We write F32 alone, in graph order, convolution weights as [out][in][row][column]: what
 * PyTorch calls them too.
 */
#ifndef OCT_TRAIN_SAFETENSORS_H
#define OCT_TRAIN_SAFETENSORS_H

#include "nn/graph.h"

/* Writes beside `path` first and renames, so that a full disk leaves an older file as it was. What
 * is no regular file (a pipe, a device) is written to as it is. */
OCT_MUST_CHECK oct_status oct__safetensors_save(const char *path, const struct oct__row *row,
                                                const float *values);

/* Every tensor of `row` must be there with its shape; others are refused. `values` is written only
 * when all of the file is right. */
OCT_MUST_CHECK oct_status oct__safetensors_load(const char *path, const struct oct__row *row,
                                                float *values);

/* The same from memory: what the fuzzer drives. `name` opens the messages. */
OCT_MUST_CHECK oct_status oct__safetensors_parse(const char *name, const uint8_t *bytes,
                                                 size_t n_bytes, const struct oct__row *row,
                                                 float *values);

#endif
