/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c - one bit for each element: its sign, times the tensor's mean magnitude.
 *
 * Bernstein, Wang, Azizzadenesheli, Anandkumar, "signSGD", ICML 2018; with the scale of Karimireddy,
 * Rebjock, Stich, Jaggi, "Error feedback fixes signSGD", ICML 2019.
 *
 *     value = ||v||_1 / n * sign(v),   sign(0) = +1
 */
#include "compress/compress.h"

static const struct oct__spec_option table[] = {{NULL, OCT_SPEC_INT, 0, 0, 0, NULL}};

static void choose(const void *options, struct oct__compression *out) {
    (void)options;
    out->select = OCT_SELECT_ALL;
    out->coding = OCT_CODING_SIGN;
}

const struct oct_compressor_kind oct_compressor_sign = {
    .plugin =
        {
            .name = "sign",
            .summary = "the sign of every element, times its tensor's mean magnitude",
            .reference = "Karimireddy et al. 2019, arXiv:1901.09847",
        },
    .table = table,
    .choose = choose,
};
