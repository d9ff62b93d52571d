/* SPDX-License-Identifier: Apache-2.0 */
/* int8.c - every element in eight bits, with a scale for each tensor.
 *
 *     scale = max |v| / 127,   code = floor(v / scale + u),   u uniform in (0, 1)
 *
 * Rounding by chance keeps the mean: E[scale * code] = v, so that what many rounds add up does not
 * drift. What it costs is variance, at most scale^2 / 4 an element.
 */
#include "compress/compress.h"

static const struct oct__spec_option table[] = {{NULL, OCT_SPEC_INT, 0, 0, 0, NULL}};

static void choose(const void *options, struct oct__compression *out) {
    (void)options;
    out->select = OCT_SELECT_ALL;
    out->coding = OCT_CODING_S8;
}

const struct oct_compressor_kind oct_compressor_int8 = {
    .plugin =
        {
            .name = "int8",
            .summary = "every element in 8 bits, rounded by chance, a scale for each tensor",
        },
    .table = table,
    .choose = choose,
};
