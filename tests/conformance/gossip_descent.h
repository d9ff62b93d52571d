/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_descent.h - nodes that minimize the average of their quadratics, step by step.
 *
 *     f_i(z) = 1/2 (z - b_i)' A_i (z - b_i),   A_i = diag(a_i) + c v v'
 *
 * with a_i between 0.5 and 1.5 and b_i around a common point, `skew` apart: so much do the nodes
 * disagree about where to go. The minimum of the average is known. A step is what training does:
 * gradient at z, the engine's SGD, a round of gossip, the engine's SETTLE.
 */
#ifndef OCT_TESTS_GOSSIP_DESCENT_H
#define OCT_TESTS_GOSSIP_DESCENT_H

#include "conformance/gossip_rig.h"

struct descent {
    struct gossip_rig rig;
    int is_global; /* quasi-global momentum */
    void *z, *momentum, *gradient, *u;
    struct oct__args sgd, settle;
    struct oct__lane lane;
    double *a, *b, *v, *optimum; /* [n_nodes][ROW] twice, [ROW] twice */
    double c;
    float *host_z, *host_gradient;
    uint32_t step;
};

void descent_open(struct descent *descent, struct oct__engine *engine,
                  const struct gossip_form *form, int is_global, double skew);
void descent_close(struct descent *descent);

/* Quasi-global momentum with so much of the nodes' own steps. */
void descent_own(struct descent *descent, double own);

/* Quasi-global momentum of which a round leaves so much. */
void descent_keep(struct descent *descent, double keep);

/* Starts x = z where the caller wants it. */
void descent_start(struct descent *descent, const float *x);

/* One step; `is_idle`: as if every gradient were zero. */
void descent_step(struct descent *descent, double rate, int is_idle, int is_dense);

/* Distances over the elements, relative to the optimum's length: of the mean sum x / sum u, and
 * the root of the nodes' mean square. */
void descent_distances(const struct descent *descent, double *mean, double *nodes);

#endif
