/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what gossip.c, turn.c and loss.c share: lanes, and the operations that they launch. */
#ifndef OCT_GOSSIP_INSIDE_H
#define OCT_GOSSIP_INSIDE_H

#include "gossip/gossip.h"

enum oct__gossip_call_id {
    OCT_CALL_PACK,
    OCT_CALL_FOLD,
    OCT_CALL_PACK_DENSE,
    OCT_CALL_FOLD_DENSE,
    OCT_CALL_ADD,
    OCT_CALL_DIFFERENCE,
    OCT_CALL_AXPY,
    OCT_CALL_MEAN,
    OCT_CALL_COUNT
};

/* An operation with the shapes of a row, and its plan, which all lanes use. */
struct oct__gossip_call {
    enum oct__op op;
    struct oct__args args; /* without addresses */
    struct oct__plan plan;
};

struct oct__gossip_lane {
    struct oct__lane lane;
    void *scratch; /* for operations */
    /* what the nodes of a turn fold, as FOLD has it in its attributes */
    struct oct__share *shares;
    size_t share_capacity;
    int *start; /* [node of a turn, and one]; the first is 0 */
};

int oct__gossip_find_replica(const struct oct__gossip *gossip, int from, int to);

/* Zeros into a row, a piece at a time: nothing is taken, so nothing can be missing. */
OCT_MUST_CHECK oct_status oct__gossip_clear(struct oct__gossip *gossip, void *at, size_t bytes);

/* Takes nodes that are away out of the round's graph. */
OCT_MUST_CHECK oct_status oct__gossip_close(struct oct__gossip *gossip);

/* Whether an edge's next message must be the whole row. */
int oct__gossip_needs_repair(const struct oct__gossip *gossip,
                             const struct oct__edge_replica *replica);

/* The coefficient of an edge, void or not. */
float oct__gossip_full_share(const struct oct__gossip *gossip, int edge, double factor);

/* What a node does about its void edges before it merges. */
OCT_MUST_CHECK oct_status oct__turn_do_without(const struct oct__turn *turn);

/* Every node's x becomes the mean of all; or that of those who take part, while the others keep
 * theirs. */
OCT_MUST_CHECK oct_status oct__gossip_average(struct oct__gossip *gossip);
OCT_MUST_CHECK oct_status oct__gossip_average_some(struct oct__gossip *gossip);

#endif
