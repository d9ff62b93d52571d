/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the models there are, and building one by name. */
#include <stdio.h>
#include <string.h>

#include "base/spec.h"
#include "models/model.h"

#define OCT_MODEL(name) extern const struct oct_model_kind oct_model_##name;
#include "models/models.def"
#undef OCT_MODEL

static const struct oct_model_kind *const kinds[] = {
#define OCT_MODEL(name) &oct_model_##name,
#include "models/models.def"
#undef OCT_MODEL
};

const struct oct_model_kind *oct__model_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(kinds) ? kinds[index] : NULL;
}

oct_status oct__model_build(const char *spec, struct oct_graph *graph) {
    char name[OCT_SPEC_NAME], known[256] = "";
    const char *options;
    OCT_TRY(oct__spec_split(spec, name, &options));
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i]->plugin.name, name) == 0) {
            return kinds[i]->build(kinds[i], graph, options);
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", kinds[i]->plugin.name);
    }
    OCT_FAIL(NOT_FOUND, "model '%s' is not known; there are %s", name, known);
}
