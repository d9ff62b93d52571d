/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - what compressors that drop most elements have in common: their options. */
#ifndef OCT_COMPRESS_SPARSE_H
#define OCT_COMPRESS_SPARSE_H

#include "compress/compress.h"

#define OCT_SPARSE_OPTIONS "drop=0.99, values=f32|bf16|int8"

struct oct__sparse {
    double drop; /* the fraction that is dropped */
    int values;  /* how the kept ones travel: f32, bf16, int8 */
};

extern const struct oct__sparse oct__sparse_defaults;
extern const struct oct__spec_option oct__sparse_table[];

void oct__sparse_choose(const struct oct__sparse *options, enum oct__select select,
                        struct oct__compression *out);

#endif
