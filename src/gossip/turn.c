/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - a turn in a round: its rows, its coefficients, its launches. */
#include <math.h>

#include "gossip/inside.h"

/* --- coefficients ----------------------------------------------------------------------------- */

/* With every share a multiple of q = 2^-23 * 2^e, 2^e > factor / 2, sums of a sender's shares are
 * multiples of q, at most about 2^24 of them: a float holds them exactly. */
static double quantum(double factor) {
    int exponent;
    (void)frexp(factor, &exponent); /* factor = fraction * 2^exponent, fraction in [0.5, 1) */
    return ldexp(1.0, exponent - 1 - 23);
}

float oct__gossip_full_share(const struct oct__gossip *gossip, int edge, double factor) {
    const double q = quantum(factor);
    return (float)(rint(factor * gossip->mix->weight[edge] / q) * q);
}

float oct__gossip_share(const struct oct__gossip *gossip, int edge, double factor) {
    return gossip->inbox[edge].is_void ? 0.0F : oct__gossip_full_share(gossip, edge, factor);
}

float oct__gossip_self_share(const struct oct__gossip *gossip, int node, double factor) {
    const struct oct__mix *mix = gossip->mix;
    double given = 0.0;
    for (int e = mix->out_start[node]; e < mix->out_start[node + 1]; e++) {
        given += (double)oct__gossip_share(gossip, mix->out_edge[e], factor);
    }
    return (float)-given;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void *row_of(const struct oct__turn *turn, void *rows) {
    const struct oct__gossip_config *config = &turn->gossip->config;
    return (char *)rows +
           (size_t)(turn->node - config->first_node) * config->n_elements * sizeof(float);
}

void *oct__turn_x(const struct oct__turn *turn) {
    return row_of(turn, turn->gossip->config.x);
}

void *oct__turn_memory(const struct oct__turn *turn, enum oct__memory which) {
    return row_of(turn, turn->gossip->memory[which]);
}

const struct oct__edge_replica *oct__turn_replica(const struct oct__turn *turn, int from, int to) {
    return &turn->gossip->replicas[oct__gossip_find_replica(turn->gossip, from, to)];
}

/* --- launches --------------------------------------------------------------------------------- */

static void *address(const void *at) {
    return (void *)(uintptr_t)at;
}

/* `at` has an address for each operand; NULL: it is absent, which only some may be. */
static oct_status launch(const struct oct__turn *turn, enum oct__gossip_call_id id,
                         const union oct__attr *attr, const void *const *at) {
    const struct oct__gossip_call *call = &turn->gossip->calls[id];
    struct oct__args args = call->args;
    args.attr = *attr;
    for (int i = 0; oct__op_info[call->op].operands[i]; i++) {
        args.t[i].at = address(at[i]);
        args.t[i].n = at[i] ? args.t[i].n : 0;
    }
    return oct__engine_run(&turn->lane->lane, call->op, &args);
}

#define LAUNCH(turn, id, attr, ...)                                                                \
    launch(turn, id, attr, (const void *const[OCT_ARGS_MOST]){__VA_ARGS__})

oct_status oct__turn_add(const struct oct__turn *turn, const void *a, void *row) {
    return LAUNCH(turn, OCT_CALL_ADD, &(union oct__attr){0}, a, row, row);
}

oct_status oct__turn_difference(const struct oct__turn *turn, const void *a, const void *b,
                                void *out) {
    return LAUNCH(turn, OCT_CALL_DIFFERENCE, &(union oct__attr){0}, a, b, out);
}

oct_status oct__turn_axpy(const struct oct__turn *turn, double factor, const void *a, void *row) {
    const union oct__attr attr = {.row = {.factor = (float)factor}};
    return LAUNCH(turn, OCT_CALL_AXPY, &attr, a, row);
}

static oct_status pack(const struct oct__turn *turn, const struct oct__packet_form *form,
                       const struct oct__outgoing *out, uint32_t salt, void *packet) {
    const union oct__attr attr = {
        .packet = {.form = form, .factor = (float)out->factor, .salt = salt}};
    const int is_dense = form == turn->gossip->dense_form;
    return LAUNCH(turn, is_dense ? OCT_CALL_PACK_DENSE : OCT_CALL_PACK, &attr, out->row, out->base,
                  packet, out->memory);
}

static enum oct__gossip_call_id fold_call(const struct oct__gossip *gossip,
                                          const struct oct__packet_form *form) {
    return form == gossip->dense_form ? OCT_CALL_FOLD_DENSE : OCT_CALL_FOLD;
}

static oct_status fold(const struct oct__turn *turn, const struct oct__packet_form *form,
                       const void *packet, double factor, void *row) {
    const union oct__attr attr = {.packet = {.form = form, .factor = (float)factor}};
    return LAUNCH(turn, fold_call(turn->gossip, form), &attr, packet, row, NULL);
}

static void *packet_of(const struct oct__gossip *gossip, int node) {
    return (char *)gossip->packets +
           (size_t)(node - gossip->config.first_node) * gossip->packet_bytes;
}

static void *own_packet(const struct oct__turn *turn) {
    return packet_of(turn->gossip, turn->node);
}

oct_status oct__turn_pack(const struct oct__turn *turn, const struct oct__outgoing *out) {
    return pack(turn, oct__gossip_form(turn->gossip), out, 0, own_packet(turn));
}

oct_status oct__turn_fold_own(const struct oct__turn *turn, double factor, void *row) {
    return fold(turn, oct__gossip_form(turn->gossip), own_packet(turn), factor, row);
}

/* What a node folds, in node order: its in-neighbours' packets and, in between, its own. */
static int list_shares(const struct oct__turn *turn, int node, double factor,
                       struct oct__share *out) {
    const struct oct__gossip *gossip = turn->gossip;
    const struct oct__mix *mix = gossip->mix;
    const struct oct__share own = {packet_of(gossip, node),
                                   oct__gossip_self_share(gossip, node, factor)};
    int n = 0, has_own = 0;
    for (int e = mix->in_start[node]; e < mix->in_start[node + 1]; e++) {
        if (!has_own && mix->from[e] > node) {
            out[n++] = own;
            has_own = 1;
        }
        if (!gossip->inbox[e].is_void) {
            out[n++] =
                (struct oct__share){gossip->inbox[e].packet, oct__gossip_share(gossip, e, factor)};
        }
    }
    if (!has_own) {
        out[n++] = own;
    }
    return n;
}

oct_status oct__turn_fold_all(const struct oct__turn *turn, double factor, void *row, double onto,
                              void *x) {
    const struct oct__packet_form *form = oct__gossip_form(turn->gossip);
    struct oct__gossip_lane *lane = turn->lane;
    for (int i = 0; i < turn->n_nodes; i++) {
        const int first = lane->start[i];
        lane->start[i + 1] =
            first + list_shares(turn, turn->node + i, factor, lane->shares + first);
    }
    const union oct__attr attr = {
        .packet = {
            .form = form, .shares = lane->shares, .start = lane->start, .onto = (float)onto}};
    return LAUNCH(turn, fold_call(turn->gossip, form), &attr, NULL, row, x);
}

/* Packets of different edges differ in their random choices, too: the receiver names the stream. */
oct_status oct__turn_pack_edge(const struct oct__turn *turn, int edge,
                               const struct oct__outgoing *out) {
    const struct oct__gossip *gossip = turn->gossip;
    const struct oct__mix *mix = gossip->mix;
    int e = mix->out_start[turn->node];
    while (mix->out_edge[e] != edge) {
        e++;
    }
    return pack(turn, oct__gossip_edge_form(gossip, edge), out, (uint32_t)mix->to[e] + 1,
                oct__gossip_packet(gossip, edge));
}

oct_status oct__turn_fold_sent(const struct oct__turn *turn, int edge, double factor, void *row) {
    return fold(turn, oct__gossip_edge_form(turn->gossip, edge),
                oct__gossip_packet(turn->gossip, edge), factor, row);
}

oct_status oct__turn_fold_received(const struct oct__turn *turn, int edge, double factor,
                                   void *row) {
    return fold(turn, oct__gossip_edge_form(turn->gossip, edge), turn->gossip->inbox[edge].packet,
                factor, row);
}

/* A repair replaces what the row was. */
static oct_status begin_commit(const struct oct__turn *turn, int edge, void *row) {
    return turn->gossip->inbox[edge].is_repair ? oct__turn_difference(turn, row, row, row) : OCT_OK;
}

oct_status oct__turn_commit_sent(const struct oct__turn *turn, int edge, int to) {
    struct oct__gossip *gossip = turn->gossip;
    struct oct__edge_replica *replica =
        &gossip->replicas[oct__gossip_find_replica(gossip, turn->node, to)];
    OCT_TRY(begin_commit(turn, edge, replica->own));
    replica->own_version = gossip->round + 1;
    return oct__turn_fold_sent(turn, edge, 1.0, replica->own);
}

oct_status oct__turn_commit_received(const struct oct__turn *turn, int edge) {
    struct oct__gossip *gossip = turn->gossip;
    struct oct__edge_replica *replica =
        &gossip->replicas[oct__gossip_find_replica(gossip, gossip->mix->from[edge], turn->node)];
    OCT_TRY(begin_commit(turn, edge, replica->theirs));
    replica->their_version = gossip->round + 1;
    return oct__turn_fold_received(turn, edge, 1.0, replica->theirs);
}

oct_status oct__gossip_average(struct oct__gossip *gossip) {
    struct oct__args args = gossip->calls[OCT_CALL_MEAN].args;
    args.t[0].at = gossip->config.x;
    return oct__engine_run(&gossip->lanes[0].lane, OCT_OP_MEAN, &args);
}
