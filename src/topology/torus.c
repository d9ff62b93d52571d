/* SPDX-License-Identifier: Apache-2.0 */
/* torus.c - nodes in rows and columns, each exchanging with up, down, left and right; the grid
 * wraps around at its edges.
 *
 *     node = row * columns + column
 *
 * By itself the grid is the squarest one: the largest number of rows that divides n and is not above
 * its square root. With two rows, up and down are the same node: the connection counts twice, in the
 * degree and in the weight. A grid of one row is no torus; that is the ring's to be.
 */
#include "topology/topology.h"

struct options {
    int64_t rows; /* 0: the squarest */
};

static const struct options defaults = {0};

static const struct oct__spec_option table[] = {
    {"rows", OCT_SPEC_INT, offsetof(struct options, rows), 2, 1048576, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* The most rows that are no more than the columns; 0: there is no grid. */
static int squarest(int n) {
    int rows = 0;
    for (int r = 2; r <= n / r; r++) {
        rows = n % r == 0 ? r : rows;
    }
    return rows;
}

static oct_status shape(const struct oct__topology_request *request, int *rows) {
    const struct options *options = request->options;
    const int n = request->n_nodes, wanted = (int)options->rows;
    *rows = wanted ? wanted : squarest(n);
    if (*rows > 0 && n % *rows == 0 && n / *rows >= 2) {
        return OCT_OK;
    }
    if (squarest(n) == 0) {
        OCT_FAIL(INVALID,
                 "torus: %d nodes make no grid of two rows or more; use ring, or another number "
                 "of nodes",
                 n);
    }
    OCT_FAIL(INVALID,
             "torus: %d nodes make no grid of %d rows with two columns or more; rows=%d would do",
             n, wanted, squarest(n));
}

static oct_status edges(const struct oct__topology_request *request, uint32_t index,
                        struct oct__edge_list *out) {
    (void)index;
    int rows = 0;
    OCT_TRY(shape(request, &rows));
    const int columns = request->n_nodes / rows;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            OCT_TRY(oct__edge_add_pair(out, r * columns + c, r * columns + (c + 1) % columns, 0));
            OCT_TRY(oct__edge_add_pair(out, r * columns + c, (r + 1) % rows * columns + c, 0));
        }
    }
    return OCT_OK;
}

const struct oct_topology_kind oct_topology_torus = {
    .plugin = {.name = "torus",
               .summary = "rows and columns that wrap around",
               .reference = "Koloskova et al., Decentralized stochastic optimization and gossip "
                            "algorithms with compressed communication, ICML 2019",
               .options = "rows=N"},
    .is_undirected = 1,
    .is_regular = 1,
    .options_bytes = sizeof(struct options),
    .defaults = &defaults,
    .table = table,
    .edges = edges,
};
