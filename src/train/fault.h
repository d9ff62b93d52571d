/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - faults in simulation: what goes wrong, when, and what became of it. docs/FAULTS.md.
 *
 *     --fault drop:p=0.01+crash:node=3,step=100,back=150
 *
 * Faults are joined by '+'. What happens to a message is a function of (seed, sender, receiver, round)
 * and nothing else, so a run under faults has the same bits on any number of threads, over any
 * transport that can lose messages, and when it is resumed.
 *
 * fault.c reads a text into a plan and answers questions about it. fault_round.c keeps a run's books
 * and, where a transport carries bytes, holds back what is late. absence.c sees to nodes that are away.
 * What algorithms do about it all is gossip/loss.c's.
 */
#ifndef OCT_TRAIN_FAULT_H
#define OCT_TRAIN_FAULT_H

#include <octet/trainer.h>

#include "gossip/gossip.h"
#include "transport/transport.h"

/* Node `node` neither trains nor sends nor receives in steps step … back - 1. */
struct oct__crash {
    int64_t node, step, back; /* back INT64_MAX: it stays away */
    int forgets;              /* it comes back without its memory */
};

struct oct__fault_plan {
    double drop, delay, duplicate, reorder; /* chance for each message */
    int64_t delay_rounds;                   /* how late */
    struct oct__crash *crashes;             /* by step */
    size_t n_crashes, capacity;
};

/* Reads a text; "" is no fault. INVALID says what is wrong with it. _fini frees a plan, also where
 * this failed. */
OCT_MUST_CHECK oct_status oct__fault_read(const char *text, struct oct__fault_plan *out);
void oct__fault_fini(struct oct__fault_plan *plan);

/* Whether there is any fault in it. */
int oct__fault_is_any(const struct oct__fault_plan *plan);

/* INVALID when a run of so many nodes and steps cannot have it (no such node, no such step, nobody
 * left who has a model). `n_steps` 0: not known yet. */
OCT_MUST_CHECK oct_status oct__fault_check(const struct oct__fault_plan *plan, int n_nodes,
                                           int64_t n_steps);

/* What becomes of a message. The first that applies, in this order: */
enum oct__fate {
    OCT_FATE_ARRIVES,
    OCT_FATE_UNSENT,    /* there is none: an end is away, or has nothing to answer */
    OCT_FATE_DROPPED,   /* it never arrives */
    OCT_FATE_LATE,      /* it arrives so many rounds late */
    OCT_FATE_OVERTAKEN, /* it arrives behind the next message of its edge */
    OCT_FATE_TWICE,     /* it arrives, and once more */
};

int oct__fault_is_away(const struct oct__fault_plan *plan, int node, int64_t step);

/* Whether a node comes back at this step without its memory. */
int oct__fault_forgets(const struct oct__fault_plan *plan, int node, int64_t step);

/* Steps from … to - 1 in which a node is away. */
int64_t oct__fault_steps_away(const struct oct__fault_plan *plan, int node, int64_t from,
                              int64_t to);

/* Of a message whose ends are both there. */
enum oct__fate oct__fault_fate(const struct oct__fault_plan *plan, uint64_t seed, int from, int to,
                               uint32_t round);

/* --- a run under faults (fault_round.c) ------------------------------------------------------- */

/* A message that is under way. */
struct oct__held {
    int from, to;
    uint32_t round;
    uint64_t due; /* UINT64_MAX: behind the next one of its edge */
    uint8_t *bytes;
    size_t n_bytes;
};

struct oct__faults {
    struct oct__fault_plan plan;
    uint64_t seed;
    struct oct_fault_counts counts;
    unsigned char *fates; /* [edge of the round] enum oct__fate; of an average, see below */
    size_t fates_capacity;
    struct oct__held *held;
    size_t n_held, held_capacity;
    uint64_t n_discarded; /* messages that a receiver has found old or double, by their headers */
};

/* Takes the plan over. */
OCT_MUST_CHECK oct_status oct__faults_create(struct oct__fault_plan *take, uint64_t seed,
                                             struct oct__faults **out);
void oct__faults_destroy(struct oct__faults *faults);

/* Before a gossip's begin: who is away. Between begin and send: what will not arrive. Both count. */
void oct__faults_present(struct oct__faults *faults, struct oct__gossip *gossip, uint32_t step);
OCT_MUST_CHECK oct_status oct__faults_begin(struct oct__faults *faults, struct oct__gossip *gossip);

/* How many copies of the message over edge `edge` of the round are sent: 1 or 2. The edges of an average
 * are 2 i, from node i to the lowest that is not away, and 2 i + 1, back; they may be 0. */
int oct__faults_copies(const struct oct__faults *faults, int edge);

/* Sends a message as its fate has it: to the transport, or into the held ones. */
OCT_MUST_CHECK oct_status oct__faults_send(struct oct__faults *faults,
                                           struct oct__transport *transport,
                                           const struct oct__gossip *gossip, int to, int edge,
                                           const uint8_t *bytes, size_t n_bytes);

/* Lets held messages of an edge arrive: those that are due before the round's own message, or those
 * that come behind it. The receiver has only their headers to go by, and must find each of them to be
 * of the past, or double (`has_own`: the round's own message is here); INTERNAL otherwise. */
OCT_MUST_CHECK oct_status oct__faults_deliver(struct oct__faults *faults,
                                              struct oct__transport *transport, uint64_t run,
                                              uint32_t round, int from, int to, int is_behind,
                                              int has_own);

#endif
