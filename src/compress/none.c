/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - no compression: every element, as a float.
 *
 * `none:values=bf16` sends the upper halves of the floats alone, rounded to the nearest. Eight bits
 * for every element are the compressor `int8`, so that a run's name says what it is.
 */
#include "compress/compress.h"

struct options {
    int values;
};

static const char *const names[] = {"f32", "bf16", NULL};

static const struct oct__spec_option table[] = {
    {"values", OCT_SPEC_CHOICE, offsetof(struct options, values), 0, 0, names},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static const struct options defaults = {0};

static void choose(const void *options, struct oct__compression *out) {
    const struct options *o = options;
    out->select = OCT_SELECT_ALL;
    out->coding = o->values ? OCT_CODING_BF16 : OCT_CODING_F32;
}

const struct oct_compressor_kind oct_compressor_none = {
    .plugin =
        {
            .name = "none",
            .summary = "every element, as a float",
            .options = "values=f32|bf16",
        },
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .choose = choose,
};
