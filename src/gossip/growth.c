/* SPDX-License-Identifier: Apache-2.0 */
/* growth.c - quasi-global momentum without gradients, a number a node: see growth.h. */
#include "gossip/growth.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"

/* Rounds of a quarter of the experiment; fewer on graphs with very many edges. */
#define QUARTER_MOST 1000
#define QUARTER_LEAST 50
#define WORK 20000000

struct nodes {
    int n;
    double *x, *u, *z, *momentum, *sent_x, *sent_u;
};

/* What a step leaves of the momentum. */
static double kept(const struct oct__qgm *qgm) {
    return qgm->keep > 0.0 ? qgm->keep : qgm->beta;
}

/* Everybody's message to everybody's neighbours, as in gossip.h. */
static void mix_row(const struct oct__mix *mix, double gamma, const double *sent, double *row) {
    for (int i = 0; i < mix->n_nodes; i++) {
        double change = (mix->self[i] - 1.0) * sent[i];
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            change += mix->weight[e] * sent[mix->from[e]];
        }
        row[i] = sent[i] + gamma * change;
    }
}

/* The steps between two rounds, at once: each moves x by beta^2 times the momentum, of which a part is
 * left that is the same in all of them. */
static void carry_on(struct nodes *nodes, const struct oct__qgm *qgm) {
    const double beta = qgm->beta, n = (double)(qgm->every - 1);
    double u = 0.0, at_last = 0.0, way = 0.0; /* of the nodes before, on regular graphs of all */
    for (int i = 0; i < nodes->n; i++) {
        if (nodes->u[i] != u) {
            u = nodes->u[i];
            const double own = qgm->own + (1.0 - qgm->own) / u;
            const double left = kept(qgm) + (1.0 - kept(qgm)) * beta * beta * own;
            at_last = fmin(pow(left, n), 1e100); /* above 1 where u is small */
            way = beta * beta * (left == 1.0 ? n : (1.0 - at_last) / (1.0 - left));
        }
        nodes->x[i] -= way * nodes->momentum[i];
        nodes->z[i] = nodes->x[i] / u;
        nodes->momentum[i] *= at_last;
    }
}

/* One round with a rate of 1: the update is beta^2 times the momentum, as Nesterov has it. */
static void do_round(struct nodes *nodes, const struct oct__mix *mix, double gamma,
                     const struct oct__qgm *qgm) {
    const double beta = qgm->beta, keep = kept(qgm), fresh = 1.0 - keep;
    if (qgm->every > 1) {
        carry_on(nodes, qgm);
    }
    for (int i = 0; i < nodes->n; i++) {
        const double step = beta * beta * nodes->momentum[i];
        nodes->sent_x[i] = nodes->x[i] - step;
        nodes->sent_u[i] = nodes->u[i];
        nodes->momentum[i] = keep * nodes->momentum[i] + fresh * qgm->own * step;
    }
    mix_row(mix, gamma, nodes->sent_x, nodes->x);
    mix_row(mix, gamma, nodes->sent_u, nodes->u);
    for (int i = 0; i < nodes->n; i++) {
        const double after = nodes->x[i] / nodes->u[i];
        nodes->momentum[i] += fresh * (1.0 - qgm->own) * (nodes->z[i] - after);
        nodes->z[i] = after;
    }
}

/* The length of z without its common part, and of the momentum, which is then made 1: what is left
 * is a direction. A common part of z is what nodes agree on; one of the momentum dies out by itself,
 * by keep + (1 - keep) * beta^2 a round, and on irregular graphs is not common for long. */
static double normalize(struct nodes *nodes) {
    double mean = 0.0, sum = 0.0;
    for (int i = 0; i < nodes->n; i++) {
        mean += nodes->z[i] / nodes->n;
    }
    for (int i = 0; i < nodes->n; i++) {
        nodes->z[i] -= mean;
        sum += nodes->z[i] * nodes->z[i] + nodes->momentum[i] * nodes->momentum[i];
    }
    const double length = sqrt(sum);
    for (int i = 0; length > 0.0 && i < nodes->n; i++) {
        nodes->z[i] /= length;
        nodes->momentum[i] /= length;
        nodes->x[i] = nodes->z[i] * nodes->u[i];
    }
    return length;
}

static oct_status measure(struct nodes *nodes, const struct oct_topology *topology, int quarter,
                          double gamma, const struct oct__qgm *qgm, double *out) {
    const struct oct__stream stream = oct__stream(1, OCT_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < nodes->n; i++) {
        uint32_t words[4];
        oct__stream_block(&stream, (uint32_t)i, words);
        nodes->u[i] = 1.0;
        nodes->x[i] = nodes->z[i] = (double)oct__unit_float(words[0]);
        nodes->momentum[i] = (double)oct__unit_float(words[1]);
    }
    /* A disagreement turns as it grows, and its length swings: so the longest of the last quarter is
     * compared with the longest of the second. */
    double grown = 0.0, longest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}; /* logarithms */
    for (int round = 0; round < 4 * quarter; round++) {
        const struct oct__mix *mix;
        OCT_TRY(oct__topology_mix(topology, (uint32_t)round, &mix));
        do_round(nodes, mix, gamma, qgm);
        const double length = normalize(nodes);
        if (!(length > 0.0)) { /* all agree, and nothing is left of a momentum: for good */
            *out = 0.0;
            return OCT_OK;
        }
        grown += log(length);
        longest[round / quarter] = fmax(longest[round / quarter], grown);
    }
    *out = exp((longest[3] - longest[1]) / (2 * quarter));
    return OCT_OK;
}

oct_status oct__qgm_growth(const struct oct_topology *topology, double gamma,
                           const struct oct__qgm *qgm, double *out) {
    const double beta = qgm->beta, keep = kept(qgm);
    struct oct_topology_info info;
    oct_topology_info(topology, &info);
    const int is_drawn = info.period == 0; /* another one each time, which takes a while */
    if (is_drawn && info.is_undirected && qgm->every <= 1) {
        *out = keep + (1.0 - keep) * beta * beta; /* nothing travels round such a graph */
        return OCT_OK;
    }
    const size_t n = (size_t)info.n_nodes;
    int64_t quarter = WORK / (4 * ((int64_t)info.n_nodes * (info.most_degree + 4)));
    quarter = quarter < QUARTER_LEAST || is_drawn ? QUARTER_LEAST : quarter;
    quarter = quarter > QUARTER_MOST ? QUARTER_MOST : quarter;
    void *memory;
    OCT_TRY(oct__alloc_array(6 * n, sizeof(double), "growth", &memory));
    double *at = memory;
    struct nodes nodes = {.n = info.n_nodes,
                          .x = at,
                          .u = at + n,
                          .z = at + 2 * n,
                          .momentum = at + 3 * n,
                          .sent_x = at + 4 * n,
                          .sent_u = at + 5 * n};
    oct_status status = measure(&nodes, topology, (int)quarter, gamma, qgm, out);
    oct__free(memory);
    return status;
}
