/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - no gossip: every node trains on what it has. A control: what the others should beat. */
#include "gossip/gossip.h"

const struct oct_algorithm_kind oct_algorithm_none = {
    .plugin = {.name = "none", .summary = "nodes on their own: a control"},
    .mixing = OCT_MIXING_NONE,
};
