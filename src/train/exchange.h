/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - a round of gossip from one node's memory to another's, and what it costs in bytes.
 *
 *     gossip packs  ->  wire encodes  ->  transport carries  ->  wire decodes  ->  gossip merges
 *
 * In one process the middle three can be left out: a receiver reads the packet where it lies, and
 * only its exact length on the wire is worked out. Both ways give the same bits and the same count.
 * Where nodes live in several processes, what goes from one to another is carried by their ranks
 * (across.c).
 */
#ifndef OCT_TRAIN_EXCHANGE_H
#define OCT_TRAIN_EXCHANGE_H

#include "gossip/gossip.h"
#include "train/fault.h"
#include "train/ledger.h"
#include "transport/transport.h"

/* What has travelled. */
struct oct__traffic {
    uint64_t messages, bytes; /* over all edges, headers included */
    uint64_t dense;           /* what as many messages of plain floats would be */
};

struct oct__exchange {
    struct oct__gossip *gossip;       /* borrowed */
    struct oct__transport *transport; /* owned */
    struct oct__faults *faults;       /* what goes wrong; owned, NULL: nothing */
    struct oct__ranks *ranks;         /* borrowed */
    struct oct__across *across;       /* what carrying between them needs; NULL: there is one */
    uint64_t run;                     /* names the run in every message */
    uint64_t dense_bytes;             /* of a message of plain floats */
    struct oct__traffic traffic;
    struct oct__ledger ledger; /* the same by node and by edge */
    uint8_t *message;          /* room for one */
    size_t message_capacity;
    void *packet; /* room for one on the host */
    size_t packet_capacity;
    void *index; /* [slot][n_kept] places that the last round's packets keep, still to be counted */
    size_t index_capacity;
    int is_counting;
    void *arrived; /* packets that were carried, one for each edge of the round; engine memory */
    size_t arrived_capacity;
};

OCT_MUST_CHECK oct_status oct__exchange_create(struct oct__gossip *gossip, const char *transport,
                                               uint64_t run, struct oct__exchange **out);
void oct__exchange_destroy(struct oct__exchange *exchange);

/* From now on rounds go wrong as `plan`, which is taken over, has it: for a gossip with has_faults.
 * UNSUPPORTED for a transport that cannot simulate it. */
OCT_MUST_CHECK oct_status oct__exchange_break(struct oct__exchange *exchange,
                                              struct oct__fault_plan *take, uint64_t seed);

/* Counts a message of `bytes` that follows no graph: a node that comes back is sent a model. */
OCT_MUST_CHECK oct_status oct__exchange_count_other(struct oct__exchange *exchange, int from,
                                                    int to, uint64_t bytes);

/* One round: see oct__gossip_begin for the arguments. Where packets lie in memory of a device, their
 * lengths are counted when they have arrived: by the next round, or by oct__exchange_count, which
 * whoever wants to know what has travelled calls first. */
OCT_MUST_CHECK oct_status oct__exchange_round(struct oct__exchange *exchange, uint32_t round,
                                              uint32_t step, int is_dense);
OCT_MUST_CHECK oct_status oct__exchange_count(struct oct__exchange *exchange);

/* One round of another gossip of the same nodes, whose rows are not the model. Its messages go the same
 * way and are counted with the others, but nothing goes wrong with them. */
OCT_MUST_CHECK oct_status oct__exchange_round_of(struct oct__exchange *exchange,
                                                 struct oct__gossip *other, uint32_t round,
                                                 uint32_t step);

/* --- several ranks (across.c) ----------------------------------------------------------------- */

/* The exchange's gossip hosts the share of its rank (oct__ranks_first); before the first round. */
OCT_MUST_CHECK oct_status oct__exchange_join(struct oct__exchange *exchange,
                                             struct oct__ranks *ranks);

/* Parts of a round: gets ready for what will arrive, before anything is packed; sends what was
 * packed; takes in what arrives; or the average of all ranks' rows, to the bit what the operation MEAN
 * makes of them. */
OCT_MUST_CHECK oct_status oct__across_expect(struct oct__exchange *exchange);
OCT_MUST_CHECK oct_status oct__across_send(struct oct__exchange *exchange);
OCT_MUST_CHECK oct_status oct__across_receive(struct oct__exchange *exchange);
OCT_MUST_CHECK oct_status oct__across_average(struct oct__exchange *exchange);
void oct__across_destroy(struct oct__exchange *exchange);

/* What exchange.c does for it: the message of an edge as bytes; a message checked, decoded, and put
 * into the inbox, in place `place` of the packets that have arrived; room for `n_places` of those. */
OCT_MUST_CHECK oct_status oct__exchange_encode(struct oct__exchange *exchange, int from, int edge,
                                               uint8_t *bytes, size_t capacity, size_t *length);
OCT_MUST_CHECK oct_status oct__exchange_deliver(struct oct__exchange *exchange, int from, int edge,
                                                int place, const uint8_t *bytes, size_t n_bytes);
OCT_MUST_CHECK oct_status oct__exchange_room(struct oct__exchange *exchange, int n_places);

#endif
