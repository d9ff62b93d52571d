/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the gossip algorithms there are. */
#include "base/choose.h"
#include "gossip/gossip.h"

#define OCT_ALGORITHM(name) extern const struct oct_algorithm_kind oct_algorithm_##name;
#include "gossip/algorithms.def"
#undef OCT_ALGORITHM

static const void *const kinds[] = {
#define OCT_ALGORITHM(name) &oct_algorithm_##name,
#include "gossip/algorithms.def"
#undef OCT_ALGORITHM
    NULL};

const struct oct_algorithm_kind *oct__algorithm_at(int index) {
    return oct__choice_at(kinds, OCT_COUNT_OF(kinds) - 1, index);
}

oct_status oct__algorithm_find(const char *name, const struct oct_algorithm_kind **out) {
    const void *kind;
    const char *options;
    OCT_TRY(oct__choose("algorithm", name, kinds, &kind, &options));
    if (options) {
        OCT_FAIL(INVALID, "algorithm '%s': it takes no options", name);
    }
    *out = kind;
    return OCT_OK;
}
