/* SPDX-License-Identifier: Apache-2.0 */
/* compress.h - compressors: what of a row of parameters is kept, and how it is coded.
 *
 * A compressor describes; engines pack (engine/packet.h). A plug-in is one file with one exported
 * `const struct oct_compressor_kind oct_compressor_NAME` and one row in compressors.def.
 *
 *     none   int8   topk:0.99,values=int8   randk:0.99   qsgd:4   sign
 */
#ifndef OCT_COMPRESS_COMPRESS_H
#define OCT_COMPRESS_COMPRESS_H

#include <octet/plugin.h>

#include "base/fail.h"
#include "base/spec.h"
#include "engine/packet.h"

/* Tensors with fewer elements share a scale when few values are kept. */
#define OCT_SMALL_TENSOR 1024

struct oct__compression {
    enum oct__select select;
    enum oct__coding coding;
    int bits;    /* of LEVELS */
    double drop; /* fraction of each tensor that is dropped; 0 with ALL */
};

struct oct_compressor_kind {
    struct oct_plugin plugin;
    size_t options_bytes;
    const void *defaults;
    const struct oct__spec_option *table;
    void (*choose)(const void *options, struct oct__compression *out);
};

const struct oct_compressor_kind *oct__compressor_at(int index);

/* The kind that "topk:0.99" names, and what stands behind its ':' (NULL: nothing). */
OCT_MUST_CHECK oct_status oct__compressor_find(const char *text,
                                               const struct oct_compressor_kind **kind,
                                               const char **options);

/* The most bytes that a plug-in's options may have. */
#define OCT_COMPRESSOR_OPTIONS 64

/* Reads "topk:0.99,values=int8"; NOT_FOUND lists the names. */
OCT_MUST_CHECK oct_status oct__compression_read(const char *text, struct oct__compression *out);

/* A tensor of the row that is compressed. */
struct oct__span {
    size_t offset, count;
};

/* The form of the packets of a row under a compression: k = max(1, floor(n(1 - drop) + 1e-6)) of
 * each tensor. Spans are in ascending order and do not overlap; INVALID otherwise. The form owns its
 * parts. */
OCT_MUST_CHECK oct_status oct__packet_form_create(const struct oct__compression *compression,
                                                  const struct oct__span *spans, size_t n_spans,
                                                  size_t n_elements, struct oct__packet_form **out);
void oct__packet_form_destroy(struct oct__packet_form *form);

#endif
