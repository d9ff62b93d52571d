/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - a round without some of its messages, or some of its nodes: docs/FAULTS.md.
 *
 * Rounds are synchronous, and a sender learns before it merges whether its message of the round has
 * arrived. So a message that is not there in its round is lost for both ends alike, and each end can
 * leave out exactly what the other leaves out. What an edge e = j -> i comes to then:
 *
 *   with push-sum    It is void: W_ij goes to the sender's own share, for x and for u. The columns of W
 *                    still sum to 1, so both sums stay what they are; x / u takes care of the rows.
 *   without          A row that does not sum to 1 would shrink the model, or blow it up. Where i -> j is
 *                    there, too, with the same weight, the exchange is whole or not at all: both edges
 *                    are void, and W stays doubly stochastic. Else both ends have their own row in the
 *                    place of what was lost: i adds share * x~_i, j takes share * x~_j off. Rows sum to
 *                    1, nodes that agree go on agreeing, and the sum moves by share * (x~_i - x~_j),
 *                    which is nothing where they do.
 *
 * Error feedback keeps what a message left out, e = v - m, for the next. Of a message that took no part
 * in the mixing nothing was left out: for the share of its edges that are void, e is what it was before.
 *
 * A node that is away is no sender or receiver at all: the graph closes over it (topology/closing.c), and
 * nothing touches its state.
 *
 * Replicas change by messages that have arrived, at both ends or at neither: what was lost is still in
 * the difference that goes next. Both ends count by rounds (versions). Where they differ, because a node
 * has forgotten its end, the next message is the sender's whole row, and both ends are set to it. So is
 * the first message over an edge that is new when others are not: differences would take many rounds to
 * make a replica out of nothing, while the weights count in full.
 */
#include "base/alloc.h"
#include "base/crc32c.h"
#include "gossip/inside.h"

static size_t row_bytes(const struct oct__gossip *gossip) {
    return gossip->config.n_elements * sizeof(float);
}

/* --- edges that a round does without ---------------------------------------------------------- */

oct_status oct__gossip_close(struct oct__gossip *gossip) {
    gossip->is_closed = 0;
    for (int node = 0; node < gossip->config.n_nodes; node++) {
        gossip->is_closed |= gossip->away[node];
    }
    if (!gossip->is_closed) {
        return OCT_OK;
    }
    struct oct__mix closed;
    OCT_TRY(oct__mix_close(gossip->mix, gossip->away, &closed));
    oct__mix_fini(&gossip->closed);
    gossip->closed = closed;
    gossip->mix = &gossip->closed;
    return OCT_OK;
}

/* The edge to -> from; -1: there is none. */
static int reverse_of(const struct oct__mix *mix, int edge, int to) {
    const int from = mix->from[edge];
    int low = mix->in_start[from], high = mix->in_start[from + 1];
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (mix->from[middle] < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < mix->in_start[from + 1] && mix->from[low] == to ? low : -1;
}

void oct__gossip_settle_losses(struct oct__gossip *gossip) {
    const struct oct__mix *mix = gossip->mix;
    for (int to = 0; to < mix->n_nodes; to++) {
        for (int e = mix->in_start[to]; e < mix->in_start[to + 1]; e++) {
            struct oct__delivery *delivery = &gossip->inbox[e];
            const int reverse = gossip->config.algorithm->is_push_sum ? -1 : reverse_of(mix, e, to);
            const int is_pair = reverse >= 0 && mix->weight[reverse] == mix->weight[e];
            delivery->is_void = delivery->is_lost || (is_pair && gossip->inbox[reverse].is_lost);
            delivery->packet = delivery->is_lost ? NULL : delivery->packet;
            delivery->stands_in =
                delivery->is_lost && !is_pair && !gossip->config.algorithm->is_push_sum;
        }
    }
}

/* e += part * (m - x~): that part of the message took no part; nothing of it did where those that are
 * away have left nobody to send to. */
static oct_status take_back(const struct oct__turn *turn, double given, double all) {
    const double part = all > 0.0 ? 1.0 - given / all : turn->gossip->is_closed;
    void *error = oct__turn_memory(turn, OCT_MEMORY_ERROR);
    if (part == 0.0) {
        return OCT_OK;
    }
    OCT_TRY(oct__turn_fold_own(turn, part, error));
    return oct__turn_axpy(turn, -part, oct__turn_x(turn), error);
}

oct_status oct__turn_do_without(const struct oct__turn *turn) {
    const struct oct__gossip *gossip = turn->gossip;
    const struct oct__mix *mix = gossip->mix;
    const double gamma = gossip->is_dense ? 1.0 : gossip->gamma;
    double given = 0.0, all = 0.0, own = 0.0;
    for (int e = mix->in_start[turn->node]; e < mix->in_start[turn->node + 1]; e++) {
        own += gossip->inbox[e].stands_in ? (double)oct__gossip_full_share(gossip, e, gamma) : 0.0;
    }
    for (int e = mix->out_start[turn->node]; e < mix->out_start[turn->node + 1]; e++) {
        const struct oct__delivery *delivery = &gossip->inbox[mix->out_edge[e]];
        const double share = (double)oct__gossip_full_share(gossip, mix->out_edge[e], gamma);
        all += share;
        given += delivery->is_void ? 0.0 : share;
        own -= delivery->stands_in ? share : 0.0;
    }
    if (gossip->memory[OCT_MEMORY_ERROR] && !gossip->is_dense) {
        OCT_TRY(take_back(turn, given, all));
    }
    return own == 0.0 ? OCT_OK : oct__turn_axpy(turn, own, oct__turn_x(turn), oct__turn_x(turn));
}

/* --- repairs ---------------------------------------------------------------------------------- */

int oct__gossip_needs_repair(const struct oct__gossip *gossip,
                             const struct oct__edge_replica *replica) {
    const int is_late =
        gossip->round >= gossip->n_new_rounds || (gossip->is_closed && gossip->round > 0);
    return replica->own_version != replica->their_version || (replica->own_version == 0 && is_late);
}

static oct_status row_sum(struct oct__gossip *gossip, const void *row, float *host, uint32_t *out) {
    struct oct__engine *engine = gossip->config.engine;
    OCT_TRY(engine->read(engine, host, row, row_bytes(gossip)));
    *out = oct__crc32c(0, host, row_bytes(gossip));
    return OCT_OK;
}

oct_status oct__gossip_sums(struct oct__gossip *gossip, const struct oct__edge_replica *replica,
                            uint32_t *own, uint32_t *theirs) {
    void *host;
    OCT_TRY(oct__alloc(row_bytes(gossip), "a replica", &host));
    oct_status status = row_sum(gossip, replica->own, host, own);
    if (status == OCT_OK) {
        status = row_sum(gossip, replica->theirs, host, theirs);
    }
    oct__free(host);
    return status;
}

oct_status oct__gossip_check_repairs(struct oct__gossip *gossip) {
    const struct oct__mix *mix = gossip->mix;
    for (int to = 0; oct__gossip_sends_by_edge(gossip) && to < mix->n_nodes; to++) {
        for (int e = mix->in_start[to]; e < mix->in_start[to + 1]; e++) {
            if (!gossip->inbox[e].is_repair || gossip->inbox[e].is_lost) {
                continue;
            }
            const int from = mix->from[e];
            uint32_t own = 0, theirs = 0;
            OCT_TRY(oct__gossip_sums(gossip,
                                     &gossip->replicas[oct__gossip_find_replica(gossip, from, to)],
                                     &own, &theirs));
            if (own != theirs) {
                OCT_FAIL(INTERNAL,
                         "round %u: the replica of node %d at node %d was repaired, and its ends "
                         "still differ (%08x and %08x)",
                         gossip->round, from, to, own, theirs);
            }
        }
    }
    return OCT_OK;
}

oct_status oct__gossip_forget_node(struct oct__gossip *gossip, int node) {
    const size_t bytes = row_bytes(gossip);
    gossip->u[node] = gossip->sent_u[node] = 1.0;
    for (int i = 0; i < OCT_MEMORY_COUNT; i++) {
        if (gossip->memory[i]) {
            OCT_TRY(
                oct__gossip_clear(gossip, (char *)gossip->memory[i] + (size_t)node * bytes, bytes));
        }
    }
    for (int i = 0; i < gossip->n_replicas; i++) {
        struct oct__edge_replica *replica = &gossip->replicas[i];
        if (replica->from == node) {
            replica->own_version = 0;
            OCT_TRY(oct__gossip_clear(gossip, replica->own, bytes));
        } else if (replica->to == node) {
            replica->their_version = 0;
            OCT_TRY(oct__gossip_clear(gossip, replica->theirs, bytes));
        }
    }
    return OCT_OK;
}

/* --- the exact average without some ----------------------------------------------------------- */

/* As OCT_OP_MEAN: sums in double, in node order. */
static oct_status average_rows(struct oct__gossip *gossip, int n_present, float *row, double *sum) {
    struct oct__engine *engine = gossip->config.engine;
    const size_t n = gossip->config.n_elements, bytes = row_bytes(gossip);
    char *x = gossip->config.x;
    for (int node = 0; node < gossip->config.n_nodes; node++) {
        if (!gossip->away[node]) {
            OCT_TRY(engine->read(engine, row, x + (size_t)node * bytes, bytes));
            for (size_t i = 0; i < n; i++) {
                sum[i] += (double)row[i];
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        row[i] = (float)(sum[i] / n_present);
    }
    for (int node = 0; node < gossip->config.n_nodes; node++) {
        if (!gossip->away[node]) {
            OCT_TRY(engine->write(engine, x + (size_t)node * bytes, row, bytes));
        }
    }
    return OCT_OK;
}

oct_status oct__gossip_average_some(struct oct__gossip *gossip) {
    int n_present = 0;
    void *row = NULL, *sum = NULL;
    for (int node = 0; node < gossip->config.n_nodes; node++) {
        n_present += !gossip->away[node];
    }
    if (n_present == gossip->config.n_nodes) {
        return oct__gossip_average(gossip);
    }
    oct_status status = OCT_OK;
    OCT_TRY_TO(out, oct__alloc(row_bytes(gossip), "an average", &row));
    OCT_TRY_TO(out,
               oct__alloc_array(gossip->config.n_elements, sizeof(double), "an average", &sum));
    status = average_rows(gossip, n_present, row, sum);
out:
    oct__free(row);
    oct__free(sum);
    return status;
}
