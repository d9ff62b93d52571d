/* SPDX-License-Identifier: Apache-2.0 */
/* across.c - the messages of a round that go from one process to another.
 *
 *     expect     every message that will come has its place before anything is packed
 *     send       a sender's packet is encoded once, and goes to whoever is elsewhere
 *     receive    in the order of the edges, whatever the order of arrival
 *
 * Both ends walk the edges of the round in the same order, by receiver and then sender. Messages
 * between two ranks arrive in the order in which they were sent, so no message says which edge it
 * belongs to; that it is the right one is checked by what every message says of itself (wire.h).
 *
 * A rank does not go on before its own messages have been taken over: MPI moves long ones only while
 * somebody calls it, and a rank that went on to compute would keep its neighbours waiting.
 */
#include <string.h>

#include "base/alloc.h"
#include "compress/wire.h"
#include "train/exchange.h"

/* A message that is on its way here. */
struct arrival {
    int from, to, edge, ticket;
};

struct oct__across {
    struct arrival *arrivals;
    size_t n_arrivals, arrival_capacity;
    uint8_t *incoming, *outgoing; /* [arrival], [slot] a longest message each */
    size_t incoming_bytes, outgoing_bytes, most;
    size_t *lengths; /* [slot] of what was encoded; 0: not yet */
    size_t n_lengths;
    int *tickets; /* of what was sent */
    size_t n_tickets, ticket_capacity;
    float *row; /* of averages: a row as floats, and the sum of all */
    double *sum;
};

oct_status oct__exchange_join(struct oct__exchange *exchange, struct oct__ranks *ranks) {
    exchange->ranks = ranks;
    if (ranks->n_ranks == 1) {
        return OCT_OK;
    }
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__across), "messages between ranks", &memory));
    exchange->across = memory;
    return OCT_OK;
}

void oct__across_destroy(struct oct__exchange *exchange) {
    struct oct__across *across = exchange->across;
    if (!across) {
        return;
    }
    oct__free(across->arrivals);
    oct__ranks_free(exchange->ranks, across->incoming);
    oct__ranks_free(exchange->ranks, across->outgoing);
    oct__ranks_free(exchange->ranks, across->sum);
    oct__free(across->lengths);
    oct__free(across->tickets);
    oct__free(across->row);
    oct__free(across);
}

/* --- messages --------------------------------------------------------------------------------- */

static oct_status fit(uint8_t **at, size_t *capacity, size_t bytes) {
    void *memory;
    if (*capacity >= bytes) {
        return OCT_OK;
    }
    OCT_TRY(oct__alloc(bytes, "messages between ranks", &memory));
    oct__free(*at);
    *at = memory;
    *capacity = bytes;
    return OCT_OK;
}

typedef oct_status edge_fn(struct oct__exchange *exchange, int from, int to, int edge);

/* The edges of the round of which one end is here: the receiver, or the sender. */
static oct_status each_edge(struct oct__exchange *exchange, int is_in, edge_fn *task) {
    const struct oct__gossip *gossip = exchange->gossip;
    const struct oct__mix *mix = gossip->mix;
    for (int to = 0; to < mix->n_nodes; to++) {
        const int is_here = oct__gossip_hosts(gossip, to);
        for (int edge = mix->in_start[to]; is_here == is_in && edge < mix->in_start[to + 1];
             edge++) {
            const int from = mix->from[edge];
            if (oct__gossip_hosts(gossip, from) != is_in) {
                OCT_TRY(task(exchange, from, to, edge));
            }
        }
    }
    return OCT_OK;
}

static oct_status note_arrival(struct oct__exchange *exchange, int from, int to, int edge) {
    struct oct__across *across = exchange->across;
    void *memory = across->arrivals;
    OCT_TRY(oct__alloc_grow(&memory, &across->arrival_capacity, across->n_arrivals + 1,
                            sizeof *across->arrivals, "messages between ranks"));
    across->arrivals = memory;
    across->arrivals[across->n_arrivals++] = (struct arrival){from, to, edge, -1};
    return OCT_OK;
}

static int host_of(const struct oct__exchange *exchange, int node) {
    return oct__ranks_host(exchange->gossip->config.n_nodes, exchange->ranks->n_ranks, node);
}

oct_status oct__across_expect(struct oct__exchange *exchange) {
    struct oct__across *across = exchange->across;
    struct oct__ranks *ranks = exchange->ranks;
    across->most = oct__wire_most(oct__gossip_form(exchange->gossip));
    if (across->most > OCT_RANK_MESSAGE_MOST) {
        OCT_FAIL(UNSUPPORTED, "a message of %zu bytes between ranks; %zu are the most",
                 across->most, OCT_RANK_MESSAGE_MOST);
    }
    across->n_arrivals = 0;
    OCT_TRY(each_edge(exchange, 1, note_arrival));
    OCT_TRY(oct__exchange_room(exchange, (int)across->n_arrivals));
    OCT_TRY(fit(&across->incoming, &across->incoming_bytes, across->n_arrivals * across->most));
    for (size_t i = 0; i < across->n_arrivals; i++) {
        struct arrival *arrival = &across->arrivals[i];
        OCT_TRY(ranks->receive(ranks, host_of(exchange, arrival->from), OCT_TAG_EDGE,
                               across->incoming + i * across->most, across->most,
                               &arrival->ticket));
    }
    return OCT_OK;
}

/* A packet to several receivers is encoded once. */
static oct_status send_edge(struct oct__exchange *exchange, int from, int to, int edge) {
    struct oct__across *across = exchange->across;
    struct oct__ranks *ranks = exchange->ranks;
    const size_t slot = (size_t)oct__gossip_slot(exchange->gossip, edge);
    uint8_t *bytes = across->outgoing + slot * across->most;
    if (across->lengths[slot] == 0) {
        OCT_TRY(oct__exchange_encode(exchange, from, edge, bytes, across->most,
                                     &across->lengths[slot]));
    }
    void *memory = across->tickets;
    OCT_TRY(oct__alloc_grow(&memory, &across->ticket_capacity, across->n_tickets + 1,
                            sizeof *across->tickets, "messages between ranks"));
    across->tickets = memory;
    OCT_TRY(ranks->send(ranks, host_of(exchange, to), OCT_TAG_EDGE, bytes, across->lengths[slot],
                        &across->tickets[across->n_tickets]));
    across->n_tickets++;
    exchange->transport->n_messages++;
    exchange->transport->n_bytes += across->lengths[slot];
    return OCT_OK;
}

oct_status oct__across_send(struct oct__exchange *exchange) {
    struct oct__across *across = exchange->across;
    const size_t n_slots = (size_t)exchange->gossip->n_slots;
    if (across->n_lengths < n_slots) {
        void *memory;
        OCT_TRY(
            oct__alloc_array(n_slots, sizeof *across->lengths, "messages between ranks", &memory));
        oct__free(across->lengths);
        across->lengths = memory;
        across->n_lengths = n_slots;
    }
    memset(across->lengths, 0, n_slots * sizeof *across->lengths);
    OCT_TRY(fit(&across->outgoing, &across->outgoing_bytes, n_slots * across->most));
    across->n_tickets = 0;
    return each_edge(exchange, 0, send_edge);
}

oct_status oct__across_receive(struct oct__exchange *exchange) {
    struct oct__across *across = exchange->across;
    struct oct__ranks *ranks = exchange->ranks;
    for (size_t i = 0; i < across->n_arrivals; i++) {
        const struct arrival *arrival = &across->arrivals[i];
        size_t n_bytes;
        oct_status status = ranks->wait(ranks, arrival->ticket, &n_bytes);
        if (status == OCT_OK) {
            status = oct__exchange_deliver(exchange, arrival->from, arrival->edge, (int)i,
                                           across->incoming + i * across->most, n_bytes);
        }
        if (status != OCT_OK && !ranks->is_broken) {
            return oct__fail_within(status, "message from node %d to node %d: ", arrival->from,
                                    arrival->to);
        }
        OCT_TRY(status);
    }
    for (size_t i = 0; i < across->n_tickets; i++) {
        OCT_TRY(ranks->wait(ranks, across->tickets[i], NULL));
    }
    across->n_tickets = 0;
    return OCT_OK;
}

/* --- averages --------------------------------------------------------------------------------- */

static oct_status add_rows(void *context, size_t first, size_t n, double *sum) {
    struct oct__exchange *exchange = context;
    const struct oct__gossip_config *config = &exchange->gossip->config;
    float *row = exchange->across->row;
    for (int node = 0; node < config->n_hosted; node++) {
        const float *at = (const float *)config->x + (size_t)node * config->n_elements + first;
        OCT_TRY(config->engine->read(config->engine, row, at, n * sizeof *row));
        for (size_t i = 0; i < n; i++) {
            sum[i] += (double)row[i];
        }
    }
    return OCT_OK;
}

oct_status oct__across_average(struct oct__exchange *exchange) {
    struct oct__across *across = exchange->across;
    const struct oct__gossip_config *config = &exchange->gossip->config;
    const size_t n = config->n_elements;
    void *memory;
    if (!across->row) {
        OCT_TRY(oct__alloc_array(n, sizeof *across->row, "an average", &memory));
        across->row = memory;
    }
    if (!across->sum) {
        OCT_TRY(oct__alloc_array(n, sizeof *across->sum, "an average", &memory));
        across->sum = memory;
    }
    memset(across->sum, 0, n * sizeof *across->sum);
    OCT_TRY(oct__ranks_fold(exchange->ranks, across->sum, n, add_rows, exchange));
    for (size_t i = 0; i < n; i++) {
        across->row[i] = (float)(across->sum[i] / (double)config->n_nodes);
    }
    for (int node = 0; node < config->n_hosted; node++) {
        float *at = (float *)config->x + (size_t)node * n;
        OCT_TRY(config->engine->write(config->engine, at, across->row, n * sizeof *across->row));
    }
    return OCT_OK;
}
