/* SPDX-License-Identifier: Apache-2.0 */
/* partitions.c - the ways of dealing samples out there are. */
#include "base/choose.h"
#include "data/partition.h"

#define OCT_PARTITION(name) extern const struct oct_partition_kind oct_partition_##name;
#include "data/partitions.def"
#undef OCT_PARTITION

static const void *const kinds[] = {
#define OCT_PARTITION(name) &oct_partition_##name,
#include "data/partitions.def"
#undef OCT_PARTITION
    NULL};

const struct oct_partition_kind *oct__partition_at(int index) {
    return oct__choice_at(kinds, OCT_COUNT_OF(kinds) - 1, index);
}

oct_status oct__partition_find(const char *text, const struct oct_partition_kind **kind,
                               const char **options) {
    const void *found;
    OCT_TRY(oct__choose("partition", text, kinds, &found, options));
    *kind = found;
    return OCT_OK;
}
