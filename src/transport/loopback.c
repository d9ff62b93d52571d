/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.c - one process whose messages really travel: written as bytes, kept, read again.
 *
 * It is to a network what a dress rehearsal is to a play: the same encoding, checks and order, so a
 * run with it has the same bits as any other, and what it carried is what `bytes_sent` says.
 */
#include <string.h>

#include "base/alloc.h"
#include "transport/transport.h"

/* The last message of an edge. Edges are found by searching a sender's few. */
struct edge {
    int to;
    int is_waiting;
    uint8_t *bytes;
    size_t n_bytes, capacity;
};

struct sender {
    struct edge *edges;
    int n_edges, capacity;
};

struct loopback {
    struct oct__transport transport;
    int n_nodes;
    struct sender *senders;
};

static void loopback_close(struct oct__transport *transport) {
    struct loopback *loopback = (struct loopback *)transport;
    for (int i = 0; loopback->senders && i < loopback->n_nodes; i++) {
        for (int j = 0; j < loopback->senders[i].n_edges; j++) {
            oct__free(loopback->senders[i].edges[j].bytes);
        }
        oct__free(loopback->senders[i].edges);
    }
    oct__free(loopback->senders);
    oct__free(loopback);
}

static oct_status loopback_open(int n_nodes, struct oct__transport **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct loopback), "transport", &memory));
    struct loopback *loopback = memory;
    loopback->n_nodes = n_nodes;
    oct_status status =
        oct__alloc_array((size_t)n_nodes, sizeof *loopback->senders, "transport", &memory);
    if (status != OCT_OK) {
        oct__free(loopback);
        return status;
    }
    loopback->senders = memory;
    *out = &loopback->transport;
    return OCT_OK;
}

static struct edge *edge_find(const struct sender *sender, int to) {
    for (int i = 0; i < sender->n_edges; i++) {
        if (sender->edges[i].to == to) {
            return &sender->edges[i];
        }
    }
    return NULL;
}

static oct_status edge_make(struct sender *sender, int to, struct edge **out) {
    if (sender->n_edges == sender->capacity) {
        int capacity = sender->capacity ? 2 * sender->capacity : 4;
        void *memory;
        OCT_TRY(oct__alloc_array((size_t)capacity, sizeof(struct edge), "edges", &memory));
        if (sender->n_edges > 0) {
            memcpy(memory, sender->edges, (size_t)sender->n_edges * sizeof(struct edge));
        }
        oct__free(sender->edges);
        sender->edges = memory;
        sender->capacity = capacity;
    }
    *out = &sender->edges[sender->n_edges++];
    **out = (struct edge){.to = to};
    return OCT_OK;
}

static oct_status loopback_send(struct oct__transport *transport, int from, int to,
                                const uint8_t *bytes, size_t n_bytes) {
    struct loopback *loopback = (struct loopback *)transport;
    struct edge *edge = edge_find(&loopback->senders[from], to);
    if (!edge) {
        OCT_TRY(edge_make(&loopback->senders[from], to, &edge));
    }
    if (edge->is_waiting) {
        OCT_FAIL(INVALID, "node %d has not received node %d's last message", to, from);
    }
    if (edge->capacity < n_bytes) {
        void *memory;
        OCT_TRY(oct__alloc(n_bytes, "message", &memory));
        oct__free(edge->bytes);
        edge->bytes = memory;
        edge->capacity = n_bytes;
    }
    if (n_bytes > 0) {
        memcpy(edge->bytes, bytes, n_bytes);
    }
    edge->n_bytes = n_bytes;
    edge->is_waiting = 1;
    transport->n_messages++;
    transport->n_bytes += n_bytes;
    return OCT_OK;
}

static oct_status loopback_receive(struct oct__transport *transport, int from, int to,
                                   const uint8_t **bytes, size_t *n_bytes) {
    struct loopback *loopback = (struct loopback *)transport;
    struct edge *edge = edge_find(&loopback->senders[from], to);
    if (!edge || !edge->is_waiting) {
        OCT_FAIL(NOT_FOUND, "node %d waits for a message that node %d has not sent", to, from);
    }
    edge->is_waiting = 0;
    *bytes = edge->bytes;
    *n_bytes = edge->n_bytes;
    return OCT_OK;
}

const struct oct_transport_kind oct_transport_loopback = {
    .plugin = {.name = "loopback",
               .summary = "one process whose messages are encoded, carried and decoded as bytes"},
    .simulates_faults = 1,
    .open = loopback_open,
    .close = loopback_close,
    .send = loopback_send,
    .receive = loopback_receive,
};
