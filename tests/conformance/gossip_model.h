/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_model.h - the algorithms a second time, in double and with a whole matrix W.
 *
 * Written from the table of messages, not from the library: it knows no packets, shares or inboxes.
 * Compressors are limited to those without chance, none and top-k with float values.
 */
#ifndef OCT_TESTS_GOSSIP_MODEL_H
#define OCT_TESTS_GOSSIP_MODEL_H

#include "conformance/gossip_rig.h"

struct gossip_model {
    int n_nodes, is_changing, is_push_sum;
    enum { MODEL_PLAIN, MODEL_FEEDBACK, MODEL_REPLICA, MODEL_NONE, MODEL_AVERAGE } method;
    double gamma, drop;              /* drop 0: none */
    double *x, *u, *error, *replica; /* [n_nodes][ROW], u [n_nodes] */
    double *edge;                    /* [from][to][ROW] on a changing graph */
};

/* An algorithm of the registry that the model does not know fails the test. */
void model_open(struct gossip_model *model, const char *algorithm, int n_nodes, int is_changing,
                double gamma, double drop);
void model_close(struct gossip_model *model);

/* One round; `w` is [receiver][sender]. */
void model_round(struct gossip_model *model, const double *w, int is_dense);

/* The matrix of the rig's current round. */
void model_matrix(const struct oct__mix *mix, double *w);

#endif
