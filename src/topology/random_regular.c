/* SPDX-License-Identifier: Apache-2.0 */
/* random_regular.c - a random graph in which every node has the same number of neighbours.
 *
 * Steger and Wormald's pairing: every node has `degree` loose ends; the ends are shuffled and tied
 * in twos, ties that would double a connection or lead back to the node are undone, and what is
 * left is shuffled again. When nothing more can be tied, or the graph is not connected, it begins
 * anew. Streams are (seed, TOPOLOGY, node = attempt, step = number of the graph, layer = pass).
 *
 * A graph with more neighbours than not is made as the complement of one with few, because pairing
 * gets stuck when almost all pairs are taken. Such a graph is connected by itself.
 */
#include "base/rng.h"
#include "topology/topology.h"

struct options {
    int64_t degree; /* 0: three where that is possible */
    int change;
};

static const struct options defaults = {0, 0};
static const char *const no_yes[] = {"no", "yes", NULL};

static const struct oct__spec_option table[] = {
    {"degree", OCT_SPEC_INT, offsetof(struct options, degree), 1, 65536, NULL},
    {"change", OCT_SPEC_CHOICE, offsetof(struct options, change), 0, 0, no_yes},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* With degree 2 about one attempt in sqrt(n) is connected, with more almost every one. */
#define ATTEMPTS_MOST 4000
/* Passes that tie nothing before an attempt is given up. */
#define IDLE_MOST 10

/* Three neighbours, or as near as the number of nodes allows: n * degree must be even. */
static int degree_of(const struct oct__topology_request *request) {
    const struct options *options = request->options;
    const int n = request->n_nodes;
    if (options->degree > 0) {
        return (int)options->degree;
    }
    return n <= 4 ? n - 1 : 3 + n % 2;
}

static oct_status period(const struct oct__topology_request *request, int *out) {
    const struct options *options = request->options;
    const int n = request->n_nodes, degree = degree_of(request);
    if (degree > 0 && degree >= n) {
        OCT_FAIL(INVALID, "random-regular: degree=%d needs at least %d nodes, there are %d", degree,
                 degree + 1, n);
    }
    if (n % 2 && degree % 2) {
        OCT_FAIL(INVALID,
                 "random-regular: %d nodes cannot have %d neighbours each, because %d*%d is odd; "
                 "change one of them by 1",
                 n, degree, n, degree);
    }
    if (degree == 1 && n > 2) {
        OCT_FAIL(INVALID, "random-regular: degree=1 makes pairs, which are connected only for 2 "
                          "nodes; take degree=2 or more");
    }
    *out = options->change ? 0 : 1;
    return OCT_OK;
}

/* A graph under construction. */
struct ties {
    int n, degree;
    int *n_peers;    /* [n] */
    int *peers;      /* [n][degree] */
    uint32_t *ends;  /* [n * degree] nodes that loose ends belong to */
    uint32_t *order; /* [n * degree] */
};

static int is_tied(const struct ties *ties, int a, int b) {
    const int *peers = ties->peers + (size_t)a * (size_t)ties->degree;
    for (int k = 0; k < ties->n_peers[a]; k++) {
        if (peers[k] == b) {
            return 1;
        }
    }
    return 0;
}

static void tie(struct ties *ties, int a, int b) {
    ties->peers[(size_t)a * (size_t)ties->degree + (size_t)ties->n_peers[a]++] = b;
    ties->peers[(size_t)b * (size_t)ties->degree + (size_t)ties->n_peers[b]++] = a;
}

/* Ties all ends; 0 when it got stuck. */
static int pair_up(struct ties *ties, const struct oct__topology_request *request, uint32_t attempt,
                   uint32_t index) {
    uint32_t n_ends = 0;
    for (int i = 0; i < ties->n; i++) {
        ties->n_peers[i] = 0;
        for (int k = 0; k < ties->degree; k++) {
            ties->ends[n_ends++] = (uint32_t)i;
        }
    }
    int n_idle = 0;
    for (uint32_t pass = 0; n_ends > 0 && n_idle < IDLE_MOST; pass++) {
        const struct oct__stream stream =
            oct__stream(request->seed, OCT_PURPOSE_TOPOLOGY, attempt, index, pass);
        oct__permutation(&stream, n_ends, ties->order);
        for (uint32_t e = 0; e < n_ends; e++) {
            ties->order[e] = ties->ends[ties->order[e]];
        }
        uint32_t n_left = 0;
        for (uint32_t e = 0; e + 1 < n_ends; e += 2) {
            int a = (int)ties->order[e], b = (int)ties->order[e + 1];
            if (a == b || is_tied(ties, a, b)) {
                ties->ends[n_left++] = (uint32_t)a;
                ties->ends[n_left++] = (uint32_t)b;
            } else {
                tie(ties, a, b);
            }
        }
        n_idle = n_left == n_ends ? n_idle + 1 : 0;
        n_ends = n_left;
    }
    return n_ends == 0;
}

/* The ties as edges, or the pairs that are not tied. */
static oct_status write_edges(const struct ties *ties, int is_complement,
                              struct oct__edge_list *out) {
    out->n_edges = 0;
    for (int i = 0; i < ties->n; i++) {
        const int *peers = ties->peers + (size_t)i * (size_t)ties->degree;
        for (int k = 0; !is_complement && k < ties->degree; k++) {
            OCT_TRY(oct__edge_add(out, i, peers[k], 0));
        }
        for (int j = 0; is_complement && j < ties->n; j++) {
            if (j != i && !is_tied(ties, i, j)) {
                OCT_TRY(oct__edge_add(out, i, j, 0));
            }
        }
    }
    return OCT_OK;
}

static oct_status draw(struct ties *ties, const struct oct__topology_request *request,
                       uint32_t index, int is_complement, struct oct__edge_list *out) {
    for (uint32_t attempt = 0; attempt < ATTEMPTS_MOST; attempt++) {
        if (!pair_up(ties, request, attempt, index)) {
            continue;
        }
        int is_connected = 0;
        OCT_TRY(write_edges(ties, is_complement, out));
        OCT_TRY(oct__edges_connect(out, ties->n, &is_connected));
        if (is_connected) {
            return OCT_OK;
        }
    }
    OCT_FAIL(INVALID,
             "random-regular: none of %d graphs of %d nodes with degree=%d was connected; take a "
             "larger degree",
             ATTEMPTS_MOST, request->n_nodes, degree_of(request));
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    const int n = request->n_nodes, degree = degree_of(request);
    if ((int64_t)n * degree > OCT_EDGES_MOST) {
        OCT_FAIL(INVALID, "random-regular: %d nodes with degree=%d have more than %d edges", n,
                 degree, OCT_EDGES_MOST);
    }
    const int is_complement = degree > (n - 1) / 2;
    struct ties ties = {.n = n, .degree = is_complement ? n - 1 - degree : degree};
    const size_t n_ends = (size_t)n * (size_t)ties.degree;
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)n + 3 * n_ends, sizeof(int), "a random graph", &memory));
    ties.n_peers = memory;
    ties.peers = ties.n_peers + n;
    ties.ends = (uint32_t *)(ties.peers + n_ends);
    ties.order = ties.ends + n_ends;
    oct_status status = draw(&ties, request, index, is_complement, out);
    oct__free(memory);
    return status;
}

const struct oct_topology_kind oct_topology_random_regular = {
    .plugin = {.name = "random-regular",
               .summary = "a random graph in which all have the same number of neighbours",
               .reference = "Steger and Wormald, Generating random regular graphs quickly, 1999",
               .options = "degree=N, change=no|yes"},
    .is_undirected = 1,
    .is_regular = 1,
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .period = period,
    .edges = edges,
};
