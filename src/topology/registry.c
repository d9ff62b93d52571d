/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the topologies there are. */
#include "base/choose.h"
#include "topology/topology.h"

#define OCT_TOPOLOGY(name) extern const struct oct_topology_kind oct_topology_##name;
#include "topology/topologies.def"
#undef OCT_TOPOLOGY

static const void *const kinds[] = {
#define OCT_TOPOLOGY(name) &oct_topology_##name,
#include "topology/topologies.def"
#undef OCT_TOPOLOGY
    NULL};

const struct oct_topology_kind *oct__topology_at(int index) {
    return oct__choice_at(kinds, OCT_COUNT_OF(kinds) - 1, index);
}

oct_status oct__topology_choose(const char *text, const struct oct_topology_kind **kind,
                                const char **options) {
    const void *found;
    OCT_TRY(oct__choose("topology", text, kinds, &found, options));
    *kind = found;
    return OCT_OK;
}
