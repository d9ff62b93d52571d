/* SPDX-License-Identifier: Apache-2.0 */
/* erdos_renyi.c - each pair of nodes is connected with probability p.
 *
 *     pair (i, j), i < j, is connected when word number (pairs before it) of the stream is below
 *     p * 2^32
 *
 * Streams are (seed, TOPOLOGY, node = attempt, step = number of the graph). A graph that stays the
 * same is drawn again until it is connected. One that changes every round (change=yes) is taken as
 * it comes, so a node may have no neighbour in a round: what must be connected is the union of the
 * rounds.
 */
#include <math.h>

#include "base/rng.h"
#include "topology/topology.h"

struct options {
    double p;
    int change;
};

static const struct options defaults = {0.3, 0};
static const char *const no_yes[] = {"no", "yes", NULL};

static const struct oct__spec_option table[] = {
    {"p", OCT_SPEC_REAL, offsetof(struct options, p), 0, 1, NULL},
    {"change", OCT_SPEC_CHOICE, offsetof(struct options, change), 0, 0, no_yes},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* Attempts at a connected graph, and the pairs that all of them together may look at. */
#define ATTEMPTS_MOST 1000
#define PAIRS_MOST 400000000

static oct_status period(const struct oct__topology_request *request, int *out) {
    const struct options *options = request->options;
    *out = options->change ? 0 : 1;
    return OCT_OK;
}

static oct_status draw(const struct oct__topology_request *request, uint32_t attempt,
                       uint32_t index, struct oct__edge_list *out) {
    const struct options *options = request->options;
    const struct oct__stream stream =
        oct__stream(request->seed, OCT_PURPOSE_TOPOLOGY, attempt, index, 0);
    const uint64_t limit = (uint64_t)(options->p * 0x1p32);
    uint32_t words[4];
    uint64_t w = 0;
    out->n_edges = 0;
    for (int i = 0; i < request->n_nodes; i++) {
        for (int j = i + 1; j < request->n_nodes; j++, w++) {
            if (w % 4 == 0) {
                oct__stream_block(&stream, (uint32_t)(w / 4), words);
            }
            if (words[w % 4] < limit) {
                OCT_TRY(oct__edge_add_pair(out, i, j, 0));
            }
        }
    }
    return OCT_OK;
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    const struct options *options = request->options;
    if (options->change) {
        return draw(request, 0, index, out);
    }
    const double n = request->n_nodes;
    const double affordable = PAIRS_MOST / (n * n / 2 + 1);
    const uint32_t most = affordable < 4               ? 4
                          : affordable > ATTEMPTS_MOST ? ATTEMPTS_MOST
                                                       : (uint32_t)affordable;
    for (uint32_t attempt = 0; attempt < most; attempt++) {
        int is_connected = 0;
        OCT_TRY(draw(request, attempt, index, out));
        OCT_TRY(oct__edges_connect(out, request->n_nodes, &is_connected));
        if (is_connected) {
            return OCT_OK;
        }
    }
    OCT_FAIL(
        INVALID,
        "erdos-renyi: with p=%g none of %u graphs of %d nodes was connected; take p well above "
        "ln(n)/n = %.3g, or change=yes",
        options->p, most, request->n_nodes, log(n) / n);
}

const struct oct_topology_kind oct_topology_erdos_renyi = {
    .plugin = {.name = "erdos-renyi",
               .summary = "each pair is connected with probability p",
               .reference = "Erdos and Renyi, On random graphs I, 1959",
               .options = "p=X, change=no|yes"},
    .is_undirected = 1,
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .period = period,
    .edges = edges,
};
