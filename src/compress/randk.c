/* SPDX-License-Identifier: Apache-2.0 */
/* randk.c - elements of each tensor that chance picks; the rest counts as 0.
 *
 * Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
 *
 *     k = max(1, floor(n (1 - drop) + 1e-6)) of n elements: those with the largest random words
 *
 * Not scaled by n / k. That would make it unbiased, but it is then no contraction any more, and
 * CHOCO diverges.
 */
#include "compress/sparse.h"

static void choose(const void *options, struct oct__compression *out) {
    oct__sparse_choose(options, OCT_SELECT_RANDOM, out);
}

const struct oct_compressor_kind oct_compressor_randk = {
    .plugin =
        {
            .name = "randk",
            .summary = "elements of each tensor that chance picks, unscaled",
            .reference = "Stich et al. 2018, arXiv:1809.07599",
            .options = OCT_SPARSE_OPTIONS,
        },
    .options_bytes = sizeof(struct oct__sparse),
    .defaults = &oct__sparse_defaults,
    .table = oct__sparse_table,
    .choose = choose,
};
