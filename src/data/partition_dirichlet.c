/* SPDX-License-Identifier: Apache-2.0 */
/* partition_dirichlet.c - every class is spread over the nodes in random proportions.
 *
 * Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated visual
 * classification", arXiv 1909.06335; by class, as later work does. For class c of m samples and n nodes:
 *
 *     g(i) ~ Gamma(alpha, 1)              independent for every class and node
 *     p(i) = g(i) / sum g                 so p ~ Dirichlet(alpha, …, alpha)
 *     cut(i) = round(m (p(0) + … + p(i - 1)))
 *     node i gets entries cut(i) … cut(i + 1) - 1 of the class's samples in a random order
 *
 * A small alpha gives a class to few nodes, a large one spreads it evenly; nodes differ in size as well as
 * in mixture. Drawing again until every node has many samples, which is common, is not done: a node
 * left with none receives one (see partition.c).
 */
#include <math.h>
#include <stddef.h>

#include "base/rng.h"
#include "data/partition.h"

enum { LAYER_GAMMA = 1, LAYER_ORDER }; /* of the stream; `step` is the class; 0 is skew's */

struct options {
    double alpha;
};

static const struct options defaults = {.alpha = 0.1};

static const struct oct__spec_option table[] = {
    {"alpha", OCT_SPEC_REAL, offsetof(struct options, alpha), 1e-6, 1e6, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static double unit(uint32_t word) {
    return ((double)word + 0.5) * 0x1p-32; /* never 0, never 1 */
}

/* The logarithm of a Gamma(shape, 1) value: for shape 0.001 the value itself is below the smallest
 * double more often than not.
 *
 * Marsaglia, Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000: for
 * shape >= 1; a smaller one is raised by 1 and the value multiplied by U^(1 / shape). Block 0 of the
 * stream has U; each attempt takes a block more. */
static double log_gamma_value(const struct oct__stream *stream, double shape) {
    uint32_t words[4];
    double boost = 0;
    if (shape < 1) {
        oct__stream_block(stream, 0, words);
        boost = log(unit(words[0])) / shape;
        shape += 1;
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (uint32_t attempt = 1;; attempt++) {
        double normal[2];
        oct__stream_block(stream, attempt, words);
        oct__normal_pair(words[0], words[1], normal);
        double x = normal[0], root = 1 + c * x;
        if (root <= 0) {
            continue;
        }
        double log_v = 3 * log(root);
        if (log(unit(words[2])) < 0.5 * x * x + d - d * exp(log_v) + d * log_v) {
            return log(d) + log_v + boost;
        }
    }
}

/* The proportions of a class as running sums: share[i] is what nodes 0 … i have together. */
static void draw_shares(const struct oct__deal *deal, int class_number, double alpha,
                        double *share) {
    double largest = -INFINITY;
    for (int node = 0; node < deal->n_nodes; node++) {
        struct oct__stream stream = oct__stream(deal->seed, OCT_PURPOSE_PARTITION, (uint32_t)node,
                                                (uint32_t)class_number, LAYER_GAMMA);
        share[node] = log_gamma_value(&stream, alpha);
        largest = share[node] > largest ? share[node] : largest;
    }
    double sum = 0;
    for (int node = 0; node < deal->n_nodes; node++) {
        sum += exp(share[node] - largest); /* one of them is 1, so the sum is not 0 */
        share[node] = sum;
    }
    for (int node = 0; node < deal->n_nodes; node++) {
        share[node] /= sum; /* the last becomes 1 exactly */
    }
}

static oct_status deal_dirichlet(const struct oct__deal *deal, uint32_t *owner) {
    const struct options *options = deal->options;
    oct_status status;
    void *memory, *shares = NULL;
    OCT_TRY(oct__alloc_array(deal->n_rows, sizeof(uint32_t), "a class's order", &memory));
    uint32_t *order = memory;
    OCT_TRY_TO(
        out, oct__alloc_array((size_t)deal->n_nodes, sizeof(double), "shares of a class", &shares));
    double *share = shares;
    for (int c = 0; c < deal->n_classes; c++) {
        uint32_t first = deal->class_start[c], size = deal->class_start[c + 1] - first;
        if (size == 0) {
            continue;
        }
        draw_shares(deal, c, options->alpha, share);
        struct oct__stream stream =
            oct__stream(deal->seed, OCT_PURPOSE_PARTITION, 0, (uint32_t)c, LAYER_ORDER);
        oct__permutation(&stream, size, order);
        uint32_t at = 0;
        for (int node = 0; node < deal->n_nodes; node++) {
            uint32_t end = (uint32_t)floor(share[node] * (double)size + 0.5);
            for (; at < end; at++) {
                owner[first + order[at]] = (uint32_t)node;
            }
        }
    }
out:
    oct__free(shares);
    oct__free(order);
    return status;
}

const struct oct_partition_kind oct_partition_dirichlet = {
    .plugin = {.name = "dirichlet",
               .summary = "each class in random proportions; the smaller alpha, the less alike",
               .reference = "Hsu, Qi, Brown, arXiv 1909.06335",
               .options = "alpha=A"},
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .deal = deal_dirichlet,
};
