/* SPDX-License-Identifier: Apache-2.0 */
/* packets.h - rows of parameters, their packets' forms and the packets, for tests of compressors.
 * Failures fail the test. */
#ifndef OCT_TESTS_PACKETS_H
#define OCT_TESTS_PACKETS_H

#include "compress/compress.h"
#include "support/launch.h"

/* Calls `check` with every compressor, in several variants: "topk:0.9,values=bf16". */
void each_compressor(void (*check)(const char *variant));

/* Whether each_compressor has variants of this one. */
int compressor_is_known(const char *name);

/* Tensors of a row, each beginning at a multiple of 16 floats, as a graph lays them out. */
struct layout {
    struct oct__span spans[256];
    size_t n_spans, n_elements, n_params;
};

struct layout layout_of(const size_t *counts, size_t n_counts);

/* The parameters of a model for images of 32x32x3, ten classes. */
struct layout layout_of_model(const char *model, const char *norm);

/* The form of "topk:0.99" on it; the caller destroys it. */
struct oct__packet_form *form_of(const char *compressor, const struct layout *layout);

/* For LAUNCH_NODES nodes. */
struct oct__tensor row_new(const struct layout *layout);
struct oct__tensor packet_new(const struct oct__packet_form *form);

union oct__attr pack_attr(const struct oct__packet_form *form, uint32_t salt);
union oct__attr fold_attr(const struct oct__packet_form *form, float factor);

#endif
