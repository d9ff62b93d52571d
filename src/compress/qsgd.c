/* SPDX-License-Identifier: Apache-2.0 */
/* qsgd.c - few levels of each tensor's 2-norm.
 *
 * Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: communication-efficient SGD via gradient
 * quantization and encoding", NeurIPS 2017.
 *
 *     s = 2^bits - 1,   level = floor(s |v| / ||v|| + u),   u uniform in (0, 1)
 *     value = ||v|| sign(v) level / (s (1 + min(n / s^2, sqrt(n) / s)))
 *
 * The last factor is Koloskova, Stich, Jaggi's (CHOCO-SGD, ICML 2019): without it the coding is
 * unbiased, with it a contraction, which is what gossip needs. Levels have a fixed number of bits
 * on the wire; Elias's code, with which the paper makes use of the many zeros, is not done.
 */
#include "compress/compress.h"

struct options {
    int64_t bits;
};

static const struct oct__spec_option table[] = {
    {"bits", OCT_SPEC_INT, offsetof(struct options, bits), 1, 7, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static const struct options defaults = {.bits = 4};

static void choose(const void *options, struct oct__compression *out) {
    const struct options *o = options;
    out->select = OCT_SELECT_ALL;
    out->coding = OCT_CODING_LEVELS;
    out->bits = (int)o->bits;
}

const struct oct_compressor_kind oct_compressor_qsgd = {
    .plugin =
        {
            .name = "qsgd",
            .summary = "every element at one of few levels of its tensor's norm",
            .reference = "Alistarh et al. 2017, arXiv:1610.02132",
            .options = "bits=4 (1 to 7)",
        },
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .choose = choose,
};
