/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - the options of compressors that drop most elements. */
#include "compress/sparse.h"

const struct oct__sparse oct__sparse_defaults = {.drop = 0.99};

static const char *const names[] = {"f32", "bf16", "int8", NULL};

const struct oct__spec_option oct__sparse_table[] = {
    {"drop", OCT_SPEC_REAL, offsetof(struct oct__sparse, drop), 0, 1, NULL},
    {"values", OCT_SPEC_CHOICE, offsetof(struct oct__sparse, values), 0, 0, names},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

void oct__sparse_choose(const struct oct__sparse *options, enum oct__select select,
                        struct oct__compression *out) {
    static const enum oct__coding codings[] = {OCT_CODING_F32, OCT_CODING_BF16, OCT_CODING_S8};
    out->select = select;
    out->coding = codings[options->values];
    out->drop = options->drop;
}
