/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - the exact average of all nodes after every step: the other control.
 *
 * No graph and no messages: it is what a cluster with a server would do, and what gossip tries to
 * come near to.
 */
#include "gossip/gossip.h"

const struct oct_algorithm_kind oct_algorithm_allreduce = {
    .plugin = {.name = "allreduce", .summary = "the exact average of all nodes: a control"},
    .mixing = OCT_MIXING_AVERAGE,
};
