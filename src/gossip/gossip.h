/* SPDX-License-Identifier: Apache-2.0 */
/* gossip.h - nodes mix their parameters with their neighbours': the algorithms, and a round of them.
 *
 * One form holds for all (W column-stochastic, m_j the message of node j as its receivers decode
 * it, a node treating its own like a neighbour's):
 *
 *     x_i = x~_i + gamma * sum_j (W_ij - I_ij) * m_j
 *     u_i = u_i  + gamma * sum_j (W_ij - I_ij) * u_j          with push-sum, z = x / u
 *
 * so that the sums of x and of u over the nodes stay what they are, whatever is lost in compression.
 * An algorithm says what m_j is. A round has two halves: every node *sends* (packs its message),
 * then every node *merges* those of its in-neighbours, in node order. How packets get from one half
 * to the other is not known here: train/exchange.c carries them.
 *
 *     oct__gossip_begin    the graph of the round, room for packets, an inbox of references
 *     oct__gossip_send     all nodes, side by side
 *     …                    a transport may replace what is in the inbox
 *     oct__gossip_merge    all nodes, side by side
 *
 * Everything is launches on an engine; nothing here reads a tensor.
 *
 * An algorithm is a plug-in: one file with one exported `const struct oct_algorithm_kind
 * oct_algorithm_NAME` and one row in algorithms.def.
 */
#ifndef OCT_GOSSIP_GOSSIP_H
#define OCT_GOSSIP_GOSSIP_H

#include <octet/plugin.h>

#include "compress/compress.h"
#include "engine/engine.h"
#include "topology/topology.h"

struct oct__gossip;
struct oct__turn;

/* Rows that gossip keeps for each node, besides x. */
enum oct__memory {
    OCT_MEMORY_ERROR,   /* what compression has left out so far */
    OCT_MEMORY_REPLICA, /* what the neighbours know of this node */
    OCT_MEMORY_SUM,     /* sum_j (W_ij - I_ij) replica_j, kept up as messages arrive */
    OCT_MEMORY_COUNT
};

/* "error", "replica", "sum": their names in a checkpoint. */
extern const char *const oct__memory_name[OCT_MEMORY_COUNT];

enum oct__mixing {
    OCT_MIXING_NONE,    /* nothing is sent */
    OCT_MIXING_GOSSIP,  /* messages to neighbours */
    OCT_MIXING_AVERAGE, /* the exact average of all nodes: a control, not a gossip */
};

struct oct_algorithm_kind {
    struct oct_plugin plugin;
    enum oct__mixing mixing;
    int is_push_sum;       /* any column-stochastic W; else W must be doubly stochastic */
    const char *push_sum;  /* name of its push-sum form; NULL: it is one, or there is none */
    unsigned memory;       /* bits 1 << OCT_MEMORY_… on a graph that stays the same */
    int has_edge_replicas; /* on changing graphs: a replica for each edge instead of REPLICA and
                              SUM, and a message of its own for each */
    int compensates;       /* its last rounds are dense */
    double (*gamma)(const struct oct__compression *compression); /* the default */
    oct_status (*send)(const struct oct__turn *turn);
    oct_status (*merge)(const struct oct__turn *turn);
};

const struct oct_algorithm_kind *oct__algorithm_at(int index);
/* NOT_FOUND lists the names. */
OCT_MUST_CHECK oct_status oct__algorithm_find(const char *name,
                                              const struct oct_algorithm_kind **out);

/* INVALID where the algorithm cannot mix on such a graph, with what would do instead. */
OCT_MUST_CHECK oct_status oct__algorithm_check(const struct oct_algorithm_kind *algorithm,
                                               const struct oct_topology_info *info);

struct oct__gossip_config {
    struct oct__engine *engine; /* borrowed, as are the others */
    const struct oct_algorithm_kind *algorithm;
    struct oct_topology *topology; /* NULL is enough for NONE and AVERAGE */
    struct oct__compression compression;
    const struct oct__span *spans; /* the row's tensors; copied */
    size_t n_spans, n_elements;
    int n_nodes, n_threads;
    int first_node, n_hosted; /* nodes whose rows are here, n_hosted of them; 0: all */
    uint64_t seed;
    int run;              /* of runs side by side: as in struct oct__lane */
    double gamma;         /* 0: the algorithm's default */
    int has_dense_rounds; /* some rounds will be dense (final rounds, compensation) */
    int has_two_ends;     /* receivers keep edge replicas of their own, as on two machines */
    int has_faults;       /* messages may be lost, nodes away: see loss.c */
    void *x;              /* [n_hosted][n_elements] the rows that are mixed */
};

/* A message as it arrives. */
struct oct__delivery {
    const void *packet; /* in the engine's memory */
    double weight;      /* the sender's u */
    /* with has_faults; loss.c says what follows from them */
    unsigned char is_lost;   /* it does not arrive in its round */
    unsigned char is_void;   /* its edge takes no part in the mixing, at either end */
    unsigned char stands_in; /* … but both ends have their own row in its place */
    unsigned char is_repair; /* it is the sender's whole row, and both ends are set to it */
};

/* A replica of an edge. Without has_two_ends `theirs` is `own`. An end that is not hosted here is NULL,
 * and then the other is its own. */
struct oct__edge_replica {
    int from, to;
    void *own, *theirs; /* the sender's row, the receiver's row */
    /* With has_faults: the round after that of the last message each end took in; 0: none yet, or
     * forgotten. Ends that differ are repaired by the next message. */
    uint32_t own_version, their_version;
};

struct oct__gossip {
    struct oct__gossip_config config;
    struct oct__span *spans;
    double gamma;
    struct oct__packet_form *form, *dense_form;
    void *memory[OCT_MEMORY_COUNT]; /* [n_hosted][n_elements]; NULL: not needed */
    double *u,
        *sent_u;   /* [n_nodes] push-sum weights, now and as sent; those of others may be old */
    void *packets; /* [slot] a slot for each sender, or each edge of the round, that is hosted */
    size_t packet_bytes; /* from one slot to the next */
    int n_slots;
    struct oct__edge_replica *replicas; /* of edges seen so far, sorted by (from, to) */
    int n_replicas;
    size_t replica_capacity;
    struct oct__gossip_call *calls; /* what `prepare` made for each operation */
    struct oct__gossip_lane *lanes; /* [n_lanes] of turns that are taken side by side */
    int n_lanes;
    struct oct__lane_form lane_form; /* n_nodes: of a turn */
    int is_changing;                 /* the graph, from round to round */
    uint64_t state_bytes;            /* memory and replicas */
    uint64_t workspace_bytes;

    /* of the current round */
    const struct oct__mix *mix;
    uint32_t round, step;
    int is_dense;
    struct oct__delivery *inbox; /* [mix->n_edges] by edge, in the order of mix->from */
    int inbox_capacity;
    unsigned char *away; /* [n_nodes] with has_faults: it takes no part in the round; else NULL */
    struct oct__mix closed; /* the graph without those */
    int is_closed;
    uint32_t n_new_rounds; /* edges may be new in so many rounds */
};

/* INVALID when the algorithm needs a doubly stochastic W and the topology has none: the message
 * names the push-sum form and, for an undirected graph, metropolis. */
OCT_MUST_CHECK oct_status oct__gossip_create(const struct oct__gossip_config *config,
                                             struct oct__gossip **out);
void oct__gossip_destroy(struct oct__gossip *gossip);

/* Memory, replicas and push-sum weights as at the start, for a row x that comes from elsewhere. */
OCT_MUST_CHECK oct_status oct__gossip_forget(struct oct__gossip *gossip);

/* --- a round ---------------------------------------------------------------------------------- */

/* Takes the graph of this round and makes room. `step` names the round's random streams, with the
 * node. `is_dense`: no compression, gamma 1, and no memory is read or changed. Fills the inbox with
 * references to the senders' own packets. */
OCT_MUST_CHECK oct_status oct__gossip_begin(struct oct__gossip *gossip, uint32_t round,
                                            uint32_t step, int is_dense);
OCT_MUST_CHECK oct_status oct__gossip_send(struct oct__gossip *gossip);
OCT_MUST_CHECK oct_status oct__gossip_merge(struct oct__gossip *gossip);

static inline int oct__gossip_hosts(const struct oct__gossip *gossip, int node) {
    return node >= gossip->config.first_node &&
           node < gossip->config.first_node + gossip->config.n_hosted;
}

/* The form of this round's packets, and the packet that goes over edge `edge` of the round's mix
 * (edges of a sender share one unless oct__gossip_sends_by_edge). */
const struct oct__packet_form *oct__gossip_form(const struct oct__gossip *gossip);
void *oct__gossip_packet(const struct oct__gossip *gossip, int edge);
/* Its slot; the edge's sender is hosted. */
int oct__gossip_slot(const struct oct__gossip *gossip, int edge);
/* Whether a sender's edges of this round have packets of their own. */
int oct__gossip_sends_by_edge(const struct oct__gossip *gossip);
/* Whether rounds that are not dense have replicas and packets for each edge. */
int oct__gossip_has_edge_replicas(const struct oct__gossip *gossip);

/* The form of what goes over one edge: a repair is dense, the others are as above. */
const struct oct__packet_form *oct__gossip_edge_form(const struct oct__gossip *gossip, int edge);

/* The replica of an edge, made when it is not there yet: rounds and checkpoints ask for it. */
OCT_MUST_CHECK oct_status oct__gossip_replica(struct oct__gossip *gossip, int from, int to,
                                              struct oct__edge_replica **out);

/* --- faults (loss.c) -------------------------------------------------------------------------- */

/* Whoever knows who is away has set `away` before begin, which then closes the graph over them. Between
 * begin and send it sets `is_lost` of deliveries; this works out which edges the round does without. */
void oct__gossip_settle_losses(struct oct__gossip *gossip);

/* After merge: the ends of every edge that was repaired must have the same sum; INTERNAL otherwise. */
OCT_MUST_CHECK oct_status oct__gossip_check_repairs(struct oct__gossip *gossip);

/* A node has lost its memory: what gossip keeps for it, and its ends of replicas. Its weight is 1, as
 * at the start; its row x is the caller's. */
OCT_MUST_CHECK oct_status oct__gossip_forget_node(struct oct__gossip *gossip, int node);

/* CRC-32C of a replica's row at either end. */
OCT_MUST_CHECK oct_status oct__gossip_sums(struct oct__gossip *gossip,
                                           const struct oct__edge_replica *replica, uint32_t *own,
                                           uint32_t *theirs);

/* --- for algorithms --------------------------------------------------------------------------- */

/* One node's half of a round, or that of all nodes where the engine is wide: then a row is a row of
 * each, and a launch does all of them. Per edge there are only turns of one node. */
struct oct__turn {
    struct oct__gossip *gossip;
    struct oct__gossip_lane *lane;
    int node, n_nodes; /* the first, and how many */
};

/* What a node sends: row - base, compressed; base NULL: row. What becomes of it when it is decoded
 * is then added to what the node remembers: memory += factor * it, unless memory is NULL. Memory may
 * be row or base. */
struct oct__outgoing {
    const void *row, *base;
    double factor;
    void *memory;
};

/* Rows by address, and launches on whole rows. */
void *oct__turn_x(const struct oct__turn *turn);
void *oct__turn_memory(const struct oct__turn *turn, enum oct__memory which);

OCT_MUST_CHECK oct_status oct__turn_add(const struct oct__turn *turn, const void *a, void *row);
OCT_MUST_CHECK oct_status oct__turn_difference(const struct oct__turn *turn, const void *a,
                                               const void *b, void *out);
/* row += factor * a */
OCT_MUST_CHECK oct_status oct__turn_axpy(const struct oct__turn *turn, double factor, const void *a,
                                         void *row);
/* Packs this node's message to all its out-neighbours. */
OCT_MUST_CHECK oct_status oct__turn_pack(const struct oct__turn *turn,
                                         const struct oct__outgoing *out);
/* row += factor * a node's own packet. */
OCT_MUST_CHECK oct_status oct__turn_fold_own(const struct oct__turn *turn, double factor,
                                             void *row);
/* row += factor * sum_j (W_ij - I_ij) * m_j over the in-neighbours and the node itself, in node
 * order; then x += onto * row, unless x is NULL. */
OCT_MUST_CHECK oct_status oct__turn_fold_all(const struct oct__turn *turn, double factor, void *row,
                                             double onto, void *x);

/* The same over one edge of the round at a time, by its number in mix->from: packing for it, row +=
 * factor * what was packed for it, and row += factor * what arrived over it. */
OCT_MUST_CHECK oct_status oct__turn_pack_edge(const struct oct__turn *turn, int edge,
                                              const struct oct__outgoing *out);
OCT_MUST_CHECK oct_status oct__turn_fold_sent(const struct oct__turn *turn, int edge, double factor,
                                              void *row);
OCT_MUST_CHECK oct_status oct__turn_fold_received(const struct oct__turn *turn, int edge,
                                                  double factor, void *row);

/* The sender's, or the receiver's, end of an edge's replica takes in what went over it. */
OCT_MUST_CHECK oct_status oct__turn_commit_sent(const struct oct__turn *turn, int edge, int to);
OCT_MUST_CHECK oct_status oct__turn_commit_received(const struct oct__turn *turn, int edge);

/* The replica of an edge of the round; begin has made it. */
const struct oct__edge_replica *oct__turn_replica(const struct oct__turn *turn, int from, int to);

/* factor * W_ij of an edge, as a float. These are rounded to multiples of 2^-23 of the power of two
 * above `factor`, so that what a sender's receivers take adds up without rounding, and the sender's
 * own share is exactly what they leave: no mass comes or goes by the coefficients. 0 of an edge that
 * is void. */
float oct__gossip_share(const struct oct__gossip *gossip, int edge, double factor);
/* factor * (W_ii - 1): minus the shares of the node's out-edges. */
float oct__gossip_self_share(const struct oct__gossip *gossip, int node, double factor);

#endif
