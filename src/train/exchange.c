/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - rounds of gossip over a transport, or by reference; counting bytes. */
#include "train/exchange.h"

#include "base/alloc.h"
#include "compress/wire.h"

static oct_status make_ledger(struct oct__exchange *exchange) {
    const struct oct__gossip_config *config = &exchange->gossip->config;
    struct oct_topology_info info = {.n_edges = 0};
    if (config->topology) {
        oct_topology_info(config->topology, &info);
    } else if (config->algorithm->mixing == OCT_MIXING_AVERAGE) {
        info.n_edges = 2 * (config->n_nodes - 1);
    }
    return oct__ledger_init(&exchange->ledger, config->n_nodes, info.n_edges);
}

/* A message of a gossip's rows as plain floats. */
static uint64_t dense_bytes(const struct oct__gossip *gossip) {
    size_t n_values = 0;
    for (size_t i = 0; i < gossip->config.n_spans; i++) {
        n_values += gossip->config.spans[i].count;
    }
    return oct__wire_dense(n_values);
}

oct_status oct__exchange_create(struct oct__gossip *gossip, const char *transport, uint64_t run,
                                struct oct__exchange **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__exchange), "exchange", &memory));
    struct oct__exchange *exchange = memory;
    exchange->gossip = gossip;
    exchange->ranks = oct__ranks_alone();
    exchange->run = run;
    exchange->dense_bytes = dense_bytes(gossip);
    oct_status status =
        oct__transport_open(transport, gossip->config.n_nodes, &exchange->transport);
    if (status == OCT_OK) {
        status = make_ledger(exchange);
    }
    if (status != OCT_OK) {
        oct__exchange_destroy(exchange);
        return status;
    }
    *out = exchange;
    return OCT_OK;
}

void oct__exchange_destroy(struct oct__exchange *exchange) {
    if (!exchange) {
        return;
    }
    if (exchange->arrived) {
        struct oct__engine *engine = exchange->gossip->config.engine;
        engine->free(engine, exchange->arrived);
    }
    oct__across_destroy(exchange);
    oct__transport_close(exchange->transport);
    oct__faults_destroy(exchange->faults);
    oct__ledger_fini(&exchange->ledger);
    oct__free(exchange->message);
    oct__free(exchange->packet);
    oct__free(exchange->index);
    oct__free(exchange);
}

oct_status oct__exchange_break(struct oct__exchange *exchange, struct oct__fault_plan *take,
                               uint64_t seed) {
    if (!exchange->transport->kind->simulates_faults) {
        OCT_FAIL(UNSUPPORTED, "fault: transport %s has faults of its own; use inproc or loopback",
                 exchange->transport->kind->plugin.name);
    }
    return oct__faults_create(take, seed, &exchange->faults);
}

static oct_status host_room(void **at, size_t *capacity, size_t bytes) {
    if (*capacity >= bytes) {
        return OCT_OK;
    }
    void *memory;
    OCT_TRY(oct__alloc(bytes, "message", &memory));
    oct__free(*at);
    *at = memory;
    *capacity = bytes;
    return OCT_OK;
}

static oct_status arrived_room(struct oct__exchange *exchange, size_t bytes) {
    struct oct__engine *engine = exchange->gossip->config.engine;
    if (exchange->arrived_capacity >= bytes) {
        return OCT_OK;
    }
    if (exchange->arrived) {
        engine->free(engine, exchange->arrived);
        exchange->arrived = NULL;
        exchange->arrived_capacity = 0;
    }
    OCT_TRY(engine->alloc(engine, bytes, "received packets", &exchange->arrived));
    exchange->arrived_capacity = bytes;
    return OCT_OK;
}

/* The packet that goes over an edge, where the host can read it. */
static oct_status packet_on_host(struct oct__exchange *exchange, int edge, const void **out) {
    struct oct__gossip *gossip = exchange->gossip;
    struct oct__engine *engine = gossip->config.engine;
    const size_t bytes = oct__gossip_edge_form(gossip, edge)->n_bytes;
    if (engine->uses_host_memory) {
        *out = oct__gossip_packet(gossip, edge);
        return OCT_OK;
    }
    OCT_TRY(host_room(&exchange->packet, &exchange->packet_capacity, bytes));
    OCT_TRY(engine->read(engine, exchange->packet, oct__gossip_packet(gossip, edge), bytes));
    *out = exchange->packet;
    return OCT_OK;
}

static void count(struct oct__exchange *exchange, int from, int to, uint64_t length) {
    exchange->traffic.messages++;
    exchange->traffic.bytes += length;
    exchange->traffic.dense += exchange->dense_bytes;
    oct__ledger_count(&exchange->ledger, from, to, length);
}

oct_status oct__exchange_count_other(struct oct__exchange *exchange, int from, int to,
                                     uint64_t bytes) {
    OCT_TRY(oct__ledger_enter_edge(&exchange->ledger, from, to));
    count(exchange, from, to, bytes);
    return OCT_OK;
}

/* The copies of a message that are sent. */
static void count_copies(struct oct__exchange *exchange, int from, int to, int edge,
                         uint64_t length) {
    const int n = exchange->faults ? oct__faults_copies(exchange->faults, edge) : 1;
    for (int i = 0; i < n; i++) {
        count(exchange, from, to, length);
    }
}

static int is_per_edge(const struct oct__exchange *exchange) {
    return oct__gossip_sends_by_edge(exchange->gossip);
}

/* Counts what every message of the round would be on the wire. Messages to several receivers are
 * one packet, whose length is worked out once; dense ones all have the same length. */
static void count_edges(struct oct__exchange *exchange) {
    const struct oct__gossip *gossip = exchange->gossip;
    const struct oct__packet_form *form = oct__gossip_form(gossip);
    const struct oct__mix *mix = gossip->mix;
    const int is_same = form->select == OCT_SELECT_ALL;
    uint64_t length = is_same ? oct__wire_length(form, NULL) : 0;
    for (int i = 0; i < gossip->config.n_hosted; i++) {
        const int node = gossip->config.first_node + i;
        const int first = mix->out_start[node], end = mix->out_start[node + 1];
        for (int at = first; at < end; at++) {
            const int edge = mix->out_edge[at];
            if (gossip->inbox[edge].is_repair) {
                count_copies(exchange, node, mix->to[at], edge,
                             oct__wire_length(gossip->dense_form, NULL));
                continue;
            }
            if (!is_same && exchange->is_counting && (is_per_edge(exchange) || at == first)) {
                const uint32_t *index = exchange->index;
                length = oct__wire_length_of(form, index + (size_t)oct__gossip_slot(gossip, edge) *
                                                               form->n_kept);
            } else if (!is_same && (is_per_edge(exchange) || at == first)) {
                length = oct__wire_length(form, oct__gossip_packet(gossip, edge));
            }
            count_copies(exchange, node, mix->to[at], edge, length);
        }
    }
}

oct_status oct__exchange_count(struct oct__exchange *exchange) {
    if (exchange->is_counting) {
        OCT_TRY(oct__engine_await(exchange->gossip->config.engine));
        count_edges(exchange);
        exchange->is_counting = 0;
    }
    return OCT_OK;
}

/* Counts the round, or sets off what is needed to do so. */
static oct_status count_round(struct oct__exchange *exchange) {
    const struct oct__gossip *gossip = exchange->gossip;
    struct oct__engine *engine = gossip->config.engine;
    const struct oct__packet_form *form = oct__gossip_form(gossip);
    if (engine->uses_host_memory || form->select == OCT_SELECT_ALL) {
        count_edges(exchange);
        return OCT_OK;
    }
    const int first = gossip->config.first_node, n_hosted = gossip->config.n_hosted;
    const int *start = gossip->mix->out_start;
    const int n_slots = is_per_edge(exchange) ? start[first + n_hosted] - start[first] : n_hosted;
    const size_t bytes = form->n_kept * sizeof(uint32_t);
    OCT_TRY(host_room(&exchange->index, &exchange->index_capacity, (size_t)n_slots * bytes));
    OCT_TRY(oct__engine_fetch_rows(engine, exchange->index,
                                   (const char *)gossip->packets + form->index_at,
                                   gossip->packet_bytes, bytes, n_slots));
    exchange->is_counting = 1;
    return OCT_OK;
}

/* What is sent of the average's messages, under faults. */
static oct_status count_some(struct oct__exchange *exchange) {
    const int n_nodes = exchange->gossip->config.n_nodes;
    int root = 0;
    while (root + 1 < n_nodes && exchange->gossip->away[root]) {
        root++;
    }
    for (int node = root + 1; node < n_nodes; node++) {
        OCT_TRY(oct__ledger_enter_edge(&exchange->ledger, node, root));
        OCT_TRY(oct__ledger_enter_edge(&exchange->ledger, root, node));
        count_copies(exchange, node, root, 2 * node, exchange->dense_bytes);
        count_copies(exchange, root, node, 2 * node + 1, exchange->dense_bytes);
    }
    return OCT_OK;
}

/* Everybody's row to one node and the average back: what a reduction cannot do without. A message is
 * counted where its sender is. */
static oct_status count_average(struct oct__exchange *exchange) {
    struct oct__ledger *ledger = &exchange->ledger;
    const int n_nodes = exchange->gossip->config.n_nodes;
    if (exchange->faults) {
        return count_some(exchange);
    }
    for (int node = 1; node < n_nodes && oct__ledger_edges(ledger) < 2 * (n_nodes - 1); node++) {
        OCT_TRY(oct__ledger_enter_edge(ledger, 0, node));
        OCT_TRY(oct__ledger_enter_edge(ledger, node, 0));
    }
    for (int node = 1; node < n_nodes; node++) {
        if (oct__gossip_hosts(exchange->gossip, node)) {
            count(exchange, node, 0, exchange->dense_bytes);
        }
        if (oct__gossip_hosts(exchange->gossip, 0)) {
            count(exchange, 0, node, exchange->dense_bytes);
        }
    }
    return OCT_OK;
}

oct_status oct__exchange_encode(struct oct__exchange *exchange, int from, int edge, uint8_t *bytes,
                                size_t capacity, size_t *length) {
    const struct oct__gossip *gossip = exchange->gossip;
    const struct oct__packet_form *form = oct__gossip_edge_form(gossip, edge);
    const struct oct__wire_header header = {.run = exchange->run,
                                            .sender = (uint32_t)from,
                                            .round = gossip->round,
                                            .weight = gossip->sent_u[from]};
    const void *packet;
    OCT_TRY(packet_on_host(exchange, edge, &packet));
    return oct__wire_encode(form, &header, packet, bytes, capacity, length);
}

static oct_status send_edge(struct oct__exchange *exchange, int from, int to, int edge) {
    struct oct__transport *transport = exchange->transport;
    struct oct__faults *faults = exchange->faults;
    size_t length;
    if (faults) { /* what is late arrives before what is sent now */
        OCT_TRY(oct__faults_deliver(faults, transport, exchange->run, exchange->gossip->round, from,
                                    to, 0, 0));
    }
    OCT_TRY(oct__exchange_encode(exchange, from, edge, exchange->message,
                                 exchange->message_capacity, &length));
    count_copies(exchange, from, to, edge, length);
    return faults ? oct__faults_send(faults, transport, exchange->gossip, to, edge,
                                     exchange->message, length)
                  : transport->kind->send(transport, from, to, exchange->message, length);
}

oct_status oct__exchange_deliver(struct oct__exchange *exchange, int from, int edge, int place,
                                 const uint8_t *bytes, size_t n_bytes) {
    struct oct__gossip *gossip = exchange->gossip;
    struct oct__engine *engine = gossip->config.engine;
    const struct oct__packet_form *form = oct__gossip_edge_form(gossip, edge);
    struct oct__wire_header header;
    OCT_TRY(oct__wire_decode(form, bytes, n_bytes, &header, exchange->packet));
    if (header.run != exchange->run || header.sender != (uint32_t)from ||
        header.round != gossip->round) {
        OCT_FAIL(CORRUPT,
                 "a message from node %u of run %016llx, round %u, where node %d of run %016llx, "
                 "round %u was expected: do all nodes run the same configuration?",
                 header.sender, (unsigned long long)header.run, header.round, from,
                 (unsigned long long)exchange->run, gossip->round);
    }
    char *at = (char *)exchange->arrived + (size_t)place * gossip->packet_bytes;
    OCT_TRY(engine->write(engine, at, exchange->packet, form->n_bytes));
    gossip->inbox[edge].packet = at;
    gossip->inbox[edge].weight = header.weight;
    return OCT_OK;
}

static oct_status receive_own(struct oct__exchange *exchange, int from, int to, int edge) {
    const uint8_t *bytes;
    size_t n_bytes;
    OCT_TRY(exchange->transport->kind->receive(exchange->transport, from, to, &bytes, &n_bytes));
    return oct__exchange_deliver(exchange, from, edge, edge, bytes, n_bytes);
}

static oct_status receive_edge(struct oct__exchange *exchange, int from, int to, int edge) {
    if (!exchange->faults) {
        return receive_own(exchange, from, to, edge);
    }
    const int has_own = !exchange->gossip->inbox[edge].is_lost;
    if (has_own) {
        OCT_TRY(receive_own(exchange, from, to, edge));
    }
    return oct__faults_deliver(exchange->faults, exchange->transport, exchange->run,
                               exchange->gossip->round, from, to, 1, has_own);
}

typedef oct_status edge_fn(struct oct__exchange *exchange, int from, int to, int edge);

static oct_status each_edge(struct oct__exchange *exchange, edge_fn *task) {
    const struct oct__mix *mix = exchange->gossip->mix;
    for (int to = 0; to < mix->n_nodes; to++) {
        for (int edge = mix->in_start[to]; edge < mix->in_start[to + 1]; edge++) {
            oct_status status = task(exchange, mix->from[edge], to, edge);
            if (status != OCT_OK) {
                return oct__fail_within(status,
                                        "message from node %d to node %d: ", mix->from[edge], to);
            }
        }
    }
    return OCT_OK;
}

oct_status oct__exchange_room(struct oct__exchange *exchange, int n_places) {
    const size_t room = exchange->gossip->packet_bytes;
    OCT_TRY(host_room(&exchange->packet, &exchange->packet_capacity, room));
    return arrived_room(exchange, (size_t)n_places * room);
}

static oct_status carry_round(struct oct__exchange *exchange) {
    const size_t most = oct__wire_most(oct__gossip_form(exchange->gossip));
    const size_t dense = exchange->faults ? exchange->dense_bytes : 0; /* of a repair */
    void *message = exchange->message;
    oct_status status =
        host_room(&message, &exchange->message_capacity, most > dense ? most : dense);
    exchange->message = message;
    OCT_TRY(status);
    OCT_TRY(oct__exchange_room(exchange, exchange->gossip->mix->n_edges));
    OCT_TRY(each_edge(exchange, send_edge));
    return each_edge(exchange, receive_edge);
}

oct_status oct__exchange_round(struct oct__exchange *exchange, uint32_t round, uint32_t step,
                               int is_dense) {
    struct oct__gossip *gossip = exchange->gossip;
    const enum oct__mixing mixing = gossip->config.algorithm->mixing;
    if (mixing == OCT_MIXING_NONE) {
        return OCT_OK;
    }
    OCT_TRY(oct__exchange_count(exchange));
    if (exchange->faults) {
        oct__faults_present(exchange->faults, gossip, step);
    }
    OCT_TRY(oct__gossip_begin(gossip, round, step, is_dense));
    if (mixing == OCT_MIXING_GOSSIP) {
        OCT_TRY(oct__ledger_enter(&exchange->ledger, gossip->mix));
        OCT_TRY(exchange->across ? oct__across_expect(exchange) : OCT_OK);
    }
    if (exchange->faults) {
        OCT_TRY(oct__faults_begin(exchange->faults, gossip));
    }
    OCT_TRY(oct__gossip_send(gossip));
    if (mixing == OCT_MIXING_AVERAGE) {
        OCT_TRY(count_average(exchange));
        if (exchange->across) {
            return oct__across_average(exchange);
        }
    } else if (exchange->transport->kind->is_by_reference) {
        OCT_TRY(exchange->across ? oct__across_send(exchange) : OCT_OK);
        OCT_TRY(count_round(exchange)); /* while messages travel */
        OCT_TRY(exchange->across ? oct__across_receive(exchange) : OCT_OK);
    } else {
        OCT_TRY(carry_round(exchange));
    }
    OCT_TRY(oct__gossip_merge(gossip));
    return exchange->faults ? oct__gossip_check_repairs(gossip) : OCT_OK;
}

oct_status oct__exchange_round_of(struct oct__exchange *exchange, struct oct__gossip *other,
                                  uint32_t round, uint32_t step) {
    struct oct__gossip *own = exchange->gossip;
    struct oct__faults *faults = exchange->faults;
    OCT_TRY(oct__exchange_count(exchange)); /* which needs the last round's packets */
    exchange->gossip = other;
    exchange->faults = NULL;
    exchange->dense_bytes = dense_bytes(other);
    oct_status status = oct__exchange_round(exchange, round, step, 0);
    if (status == OCT_OK) {
        status = oct__exchange_count(exchange);
    }
    exchange->gossip = own;
    exchange->faults = faults;
    exchange->dense_bytes = dense_bytes(own);
    exchange->is_counting = 0;
    return status;
}
