/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c - the largest elements of each tensor; the rest counts as 0.
 *
 * Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
 *
 *     k = max(1, floor(n (1 - drop) + 1e-6)) of n elements, by magnitude, of equal ones the first
 *
 * Biased: what is dropped must be remembered, and that belongs to the gossip algorithm. The 1e-6 is
 * there because 1000 * (1 - 0.99) is not quite 10 in binary.
 */
#include "compress/sparse.h"

static void choose(const void *options, struct oct__compression *out) {
    oct__sparse_choose(options, OCT_SELECT_LARGEST, out);
}

const struct oct_compressor_kind oct_compressor_topk = {
    .plugin =
        {
            .name = "topk",
            .summary = "the largest elements of each tensor",
            .reference = "Stich et al. 2018, arXiv:1809.07599",
            .options = OCT_SPARSE_OPTIONS,
        },
    .options_bytes = sizeof(struct oct__sparse),
    .defaults = &oct__sparse_defaults,
    .table = oct__sparse_table,
    .choose = choose,
};
