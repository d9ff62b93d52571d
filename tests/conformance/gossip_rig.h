/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_rig.h - one gossip on one engine, with rows of its own: what tests of algorithms drive.
 *
 * Rows are small and have gaps, as a model's have. Everything goes through the engine's memory, so a
 * rig works on every engine. Failures fail the test, but for rig_try's.
 */
#ifndef OCT_TESTS_GOSSIP_RIG_H
#define OCT_TESTS_GOSSIP_RIG_H

#include "gossip/gossip.h"
#include "support/check.h"
#include "train/exchange.h"

/* Three tensors of 5, 40 and 1,100 elements. */
enum { ROW = 1200, MOST_NODES = 8 };

extern const struct oct__span gossip_spans[3];
#define N_SPANS (sizeof gossip_spans / sizeof gossip_spans[0])

/* Whether element `i` of a row belongs to a tensor. */
int is_element(int i);

struct gossip_form {
    const char *algorithm, *topology, *compress;
    const char *weights; /* NULL: what suits the topology */
    int n_nodes;
    int n_threads; /* 0: 1 */
    int hold;
    double gamma;
    int has_dense_rounds, has_two_ends;
    const char *fault;     /* what goes wrong: option fault's text; NULL: nothing can */
    const char *transport; /* with `fault`, what carries messages; NULL: inproc */
};

struct gossip_rig {
    struct oct__engine *engine;
    struct gossip_form form;
    struct oct_topology *topology;
    struct oct__gossip *gossip;
    struct oct__exchange *exchange; /* with `fault`, which goes through it; else NULL */
    void *x;
    float *host; /* [n_nodes][ROW] for the tests' own use */
};

/* Opens it; a failure leaves nothing behind. The engine is borrowed. */
OCT_MUST_CHECK oct_status gossip_rig_try(struct gossip_rig *rig, struct oct__engine *engine,
                                         const struct gossip_form *form);
void gossip_rig_open(struct gossip_rig *rig, struct oct__engine *engine,
                     const struct gossip_form *form);
/* Opens an algorithm on a graph; 0 when it is refused for its W, and only for that. */
int gossip_rig_opens(struct gossip_rig *rig, struct oct__engine *engine,
                     const struct gossip_form *form);
void gossip_rig_close(struct gossip_rig *rig);

/* All rows of x, or of another [n_nodes][ROW] of the engine's memory. */
void gossip_rig_read(const struct gossip_rig *rig, const void *from, float *to);
void gossip_rig_write(const struct gossip_rig *rig, void *to, const float *from);

/* A whole round. */
void gossip_rig_round(struct gossip_rig *rig, uint32_t round, int is_dense);

/* Normal numbers with the given spread around a mean that all nodes share (which is 0 with spread 1
 * and more); gaps are zero. */
void gossip_fill(float *rows, int n_nodes, double spread, uint32_t seed);

/* Every node's x moves a little, as by a local step: other elements by other amounts each round. */
void gossip_wander(struct gossip_rig *rig, uint32_t round);

/* The largest magnitude, and each element's sum over the nodes. */
double gossip_largest(const float *rows, int n_nodes);
void gossip_sum(const float *rows, int n_nodes, double *sums);

/* The algorithm at *index or the first after it that sends messages; NULL past the end. */
const struct oct_algorithm_kind *gossip_at(int *index);

/* For each algorithm that sends messages. */
#define EACH_GOSSIP(kind, i) for (int i = 0; ((kind) = gossip_at(&(i))); (i)++)

/* Every graph of the registry that this number of nodes can have, the changing forms of random ones
 * and a file's included. Calls `fn` with the topology's text and weights; returns how many. */
typedef void gossip_graph_fn(const char *topology, const char *weights, void *context);
int gossip_each_graph(int n_nodes, gossip_graph_fn *fn, void *context);

/* The compressors of the registry at strengths that small rows show; NULL past the end. */
const char *gossip_compressor_at(int index);

#endif
