/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - who has sent how much: bytes of every node, bytes and messages of every edge.
 *
 * Edges are those of the rounds so far, by sender and then receiver, as one list cut into the
 * senders' parts:
 *
 *     start [n_nodes + 1]    to [n_edges] ascending within a sender    counts [n_edges]
 *
 * A round's new edges are entered in one pass. Where it is known how many there will be (a topology
 * with a period), room for them is made at the start, so that rounds ask for no memory. There are at
 * most n (n - 1) of 20 bytes: beyond OCT_LEDGER_NODES nodes only the nodes' sums are kept.
 */
#ifndef OCT_TRAIN_LEDGER_H
#define OCT_TRAIN_LEDGER_H

#include <stdint.h>

#include "topology/topology.h"

/* A complete graph of so many nodes takes 20 MiB. */
#define OCT_LEDGER_NODES 1024

struct oct__carried {
    uint64_t bytes, messages;
};

struct oct__ledger {
    int n_nodes;
    uint64_t *sent; /* [n_nodes] bytes */
    int *start;     /* NULL: edges are not counted */
    int *to;
    struct oct__carried *counts;
    size_t to_capacity, counts_capacity;
};

/* With room for `n_edges`, none of which is entered yet. _fini frees it, also where this failed. */
OCT_MUST_CHECK oct_status oct__ledger_init(struct oct__ledger *ledger, int n_nodes, int n_edges);
void oct__ledger_fini(struct oct__ledger *ledger);

/* Enters the edges of a graph that are not there yet; before its round is counted. */
OCT_MUST_CHECK oct_status oct__ledger_enter(struct oct__ledger *ledger, const struct oct__mix *mix);

/* Enters one edge, for runs whose messages follow no graph, and for checkpoints. */
OCT_MUST_CHECK oct_status oct__ledger_enter_edge(struct oct__ledger *ledger, int from, int to);

/* What an edge has carried; NULL when it was not entered. */
struct oct__carried *oct__ledger_find(const struct oct__ledger *ledger, int from, int to);

/* A message went over an edge that was entered. */
void oct__ledger_count(struct oct__ledger *ledger, int from, int to, uint64_t bytes);

/* Edges that were entered; 0 where they are not counted. */
int oct__ledger_edges(const struct oct__ledger *ledger);

/* Edge `index` of those, in order; its sender. */
int oct__ledger_from(const struct oct__ledger *ledger, int index);

#endif
