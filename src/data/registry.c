/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the datasets of this build, from datasets.def. */
#include <string.h>

#include "data/data.h"

static const struct oct_dataset_kind *const kinds[] = {
#define OCT_DATASET(row) &oct_dataset_##row,
#include "data/datasets.def"
#undef OCT_DATASET
};

const struct oct_dataset_kind *oct__dataset_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(kinds) ? kinds[index] : NULL;
}

const struct oct_dataset_kind *oct__dataset_find(const char *name) {
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i]->plugin.name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

oct_status oct__dataset_need(const char *name, const struct oct_dataset_kind **out) {
    const struct oct_dataset_kind *kind = oct__dataset_find(name);
    if (!kind) {
        char list[200] = "";
        for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
            strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
            strncat(list, kinds[i]->plugin.name, sizeof list - strlen(list) - 1);
        }
        OCT_FAIL(NOT_FOUND, "no dataset is called '%.48s'; there are: %s", name, list);
    }
    if (kind->plugin.unavailable) {
        OCT_FAIL(UNSUPPORTED, "%s: %s", name, kind->plugin.unavailable);
    }
    *out = kind;
    return OCT_OK;
}

oct_status oct__dataset_takes(const struct oct_dataset_kind *kind, const char *options) {
    if (options && !kind->plugin.options) {
        OCT_FAIL(INVALID, "%s takes no options, got ':%.48s'", kind->plugin.name, options);
    }
    return OCT_OK;
}
