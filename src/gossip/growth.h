/* SPDX-License-Identifier: Apache-2.0 */
/* growth.h - whether quasi-global momentum holds on a graph.
 *
 * Quasi-global momentum follows how a node moves *after* gossip, so what gossip does to a
 * disagreement comes back as momentum. On undirected graphs, with a round in every step, that dies
 * out. Around a directed ring disagreements travel, the momentum arrives late, and with many nodes or
 * a small gamma they grow: slowly in a short run, and without bound in a long one. And where rounds
 * are rare the momentum goes on with what the last one did until the next, too far on any graph.
 */
#ifndef OCT_GOSSIP_GROWTH_H
#define OCT_GOSSIP_GROWTH_H

#include "base/fail.h"
#include "topology/topology.h"

/* What may follow: beta, and how far it follows a node's own steps instead of gossip's result; what
 * a step leaves of the momentum (0: beta); steps from one round to the next (0: as 1). */
struct oct__qgm {
    double beta, own, keep;
    int64_t every;
};

/* The factor by which a disagreement and its momentum grow from round to round in the long run
 * when there are no gradients: above 1 quasi-global momentum is unstable there. It is found by letting
 * it happen, with one number a node. */
OCT_MUST_CHECK oct_status oct__qgm_growth(const struct oct_topology *topology, double gamma,
                                          const struct oct__qgm *qgm, double *out);

#endif
