/* SPDX-License-Identifier: Apache-2.0 */
/* methods.c - the three ways in which algorithms make a message: see methods.h.
 *
 * Notation of gossip.h: x~ is a node's row after its local step, C compresses, D decodes, and every
 * method ends in x_i = x~_i + gamma * sum_j (W_ij - I_ij) * m_j.
 */
#include "gossip/methods.h"

#include <math.h>

/* --- plain: m = D[C[x~]] ---------------------------------------------------------------------- */

oct_status oct__plain_send(const struct oct__turn *turn) {
    return oct__turn_pack(turn, &(struct oct__outgoing){.row = oct__turn_x(turn)});
}

oct_status oct__plain_merge(const struct oct__turn *turn) {
    return oct__turn_fold_all(turn, turn->gossip->gamma, oct__turn_x(turn), 0.0, NULL);
}

/* --- feedback: m = D[C[v]], v = x~ + e, e = v - D[C[v]] --------------------------------------- */

/* v is formed in the error's own row, which then loses what was sent. */
oct_status oct__feedback_send(const struct oct__turn *turn) {
    void *error = oct__turn_memory(turn, OCT_MEMORY_ERROR);
    OCT_TRY(oct__turn_add(turn, oct__turn_x(turn), error));
    return oct__turn_pack(turn,
                          &(struct oct__outgoing){.row = error, .factor = -1.0, .memory = error});
}

oct_status oct__feedback_merge(const struct oct__turn *turn) {
    return oct__plain_merge(turn);
}

/* --- replica: m = r after r += D[C[x~ - r]], r = 0 at the start ------------------------------- */

/* On a graph that changes, what a node's neighbours know of it depends on when they were
 * neighbours. So each edge j -> i has a replica of its own, at both ends. */

/* With faults an end takes a message in when it is known to have arrived: in the other half. */
static oct_status send_edges(const struct oct__turn *turn) {
    const struct oct__gossip *gossip = turn->gossip;
    const struct oct__mix *mix = gossip->mix;
    for (int e = mix->out_start[turn->node]; e < mix->out_start[turn->node + 1]; e++) {
        const int edge = mix->out_edge[e];
        struct oct__outgoing out = {.row = oct__turn_x(turn)};
        if (!gossip->inbox[edge].is_repair) {
            void *replica = oct__turn_replica(turn, turn->node, mix->to[e])->own;
            out.base = replica;
            out.factor = 1.0;
            out.memory = gossip->away ? NULL : replica;
        }
        OCT_TRY(oct__turn_pack_edge(turn, edge, &out));
    }
    return OCT_OK;
}

/* x_i += gamma * W_ij * r_ji of the in-edges, senders ascending, then x_i -= gamma * W_ki * r_ik of
 * the out-edges, receivers ascending: what one end adds, the other takes off. */
static oct_status merge_edges(const struct oct__turn *turn) {
    const struct oct__gossip *gossip = turn->gossip;
    const struct oct__mix *mix = gossip->mix;
    void *x = oct__turn_x(turn);
    for (int e = mix->in_start[turn->node]; e < mix->in_start[turn->node + 1]; e++) {
        const struct oct__edge_replica *replica = oct__turn_replica(turn, mix->from[e], turn->node);
        if (gossip->inbox[e].is_lost) {
            continue;
        }
        if (replica->theirs != replica->own) {
            OCT_TRY(oct__turn_commit_received(turn, e));
        }
        if (!gossip->inbox[e].is_void) {
            const float share = oct__gossip_share(gossip, e, gossip->gamma);
            OCT_TRY(oct__turn_axpy(turn, (double)share, replica->theirs, x));
        }
    }
    for (int e = mix->out_start[turn->node]; e < mix->out_start[turn->node + 1]; e++) {
        const struct oct__edge_replica *replica = oct__turn_replica(turn, turn->node, mix->to[e]);
        const int edge = mix->out_edge[e];
        if (gossip->inbox[edge].is_lost) {
            continue;
        }
        if (gossip->away) {
            OCT_TRY(oct__turn_commit_sent(turn, edge, mix->to[e]));
        }
        if (!gossip->inbox[edge].is_void) {
            const float share = oct__gossip_share(gossip, edge, gossip->gamma);
            OCT_TRY(oct__turn_axpy(turn, -(double)share, replica->own, x));
        }
    }
    return OCT_OK;
}

oct_status oct__replica_send(const struct oct__turn *turn) {
    if (oct__gossip_sends_by_edge(turn->gossip)) {
        return send_edges(turn);
    }
    void *replica = oct__turn_memory(turn, OCT_MEMORY_REPLICA);
    return oct__turn_pack(
        turn, &(struct oct__outgoing){
                  .row = oct__turn_x(turn), .base = replica, .factor = 1.0, .memory = replica});
}

/* The sum is kept with the node's own replica taken off, sum_j (W_ij - I_ij) r_j. It is small where
 * nodes agree, and so are its roundings; those of sum_j W_ij r_j would be as large as x's, and add
 * up over a run to a change of the nodes' mean. */
oct_status oct__replica_merge(const struct oct__turn *turn) {
    if (oct__gossip_sends_by_edge(turn->gossip)) {
        return merge_edges(turn);
    }
    void *sum = oct__turn_memory(turn, OCT_MEMORY_SUM);
    return oct__turn_fold_all(turn, 1.0, sum, turn->gossip->gamma, oct__turn_x(turn));
}

/* --- default gamma: docs/howto/algorithms.md says how these were found ------------------------ */

/* Elements of the largest layer of a ResNet-20: QSGD's error grows with a tensor's length. */
#define LONG_TENSOR 36864.0

/* Roughly the part of a row's energy that arrives. */
static double kept(const struct oct__compression *c) {
    if (c->select != OCT_SELECT_ALL) {
        return 1.0 - c->drop;
    }
    if (c->coding == OCT_CODING_LEVELS) {
        const double s = (double)((1 << c->bits) - 1);
        return 1.0 / (1.0 + fmin(LONG_TENSOR / (s * s), sqrt(LONG_TENSOR) / s));
    }
    return c->coding == OCT_CODING_SIGN ? 0.1 : 1.0;
}

/* Top-k chooses; the others leave it to chance what arrives. */
static int is_by_chance(const struct oct__compression *c) {
    return c->select == OCT_SELECT_RANDOM ||
           (c->select == OCT_SELECT_ALL && c->coding == OCT_CODING_LEVELS);
}

/* Around a directed ring a replica that is late turns a disagreement further than it shrinks it: it
 * grows above 2.5 times the part of a tensor that is sent, by a thousandth a round, which a short run
 * never sees. A tensor so short that k was rounded down sends as little as half of its part. */
#define TOP 1.25

double oct__plain_gamma(const struct oct__compression *compression) {
    return oct__replica_gamma(compression);
}

double oct__feedback_gamma(const struct oct__compression *compression) {
    return kept(compression) / (is_by_chance(compression) ? 3.0 : 1.0);
}

double oct__replica_gamma(const struct oct__compression *compression) {
    const int is_top = compression->select == OCT_SELECT_LARGEST;
    return fmin(1.0, kept(compression) * (is_top ? TOP : 1.0));
}
