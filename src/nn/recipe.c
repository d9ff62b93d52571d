/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.c - the list of recipes and the reading of their options. */
#include "nn/recipe.h"

#include <stdio.h>
#include <string.h>

#include "base/spec.h"

#define OPTIONS                                                                                    \
    "range=mean|full, mask=yes|no, weights=tensor|channel, gradients=tensor|sample, "              \
    "init=equal|paper, eps=X, reach=X"

static const struct oct_recipe_kind kinds[] = {
#define OCT_RECIPE(title, range_, mask_, weights_, gradients_, init_, eps_, line)                  \
    {.plugin = {.name = #title, .summary = line, .options = OPTIONS},                              \
     .recipe = {.range = OCT_RANGE_##range_,                                                       \
                .mask = mask_,                                                                     \
                .weights = weights_,                                                               \
                .gradients = gradients_,                                                           \
                .init = OCT_INIT_##init_,                                                          \
                .eps = eps_}},
#include "nn/recipes.def"
#undef OCT_RECIPE
};

static const char *const ranges[] = {"mean", "full", NULL}; /* in the order of enum oct__range */
static const char *const switches[] = {"no", "yes", NULL};
static const char *const weights[] = {"tensor", "channel", NULL};
static const char *const gradients[] = {"tensor", "sample", NULL};
static const char *const inits[] = {"equal", "paper", NULL};

#define NUMBER(member, least, most)                                                                \
    { #member, OCT_SPEC_REAL, offsetof(struct oct__recipe, member), least, most, NULL }
#define ROW(member, choices)                                                                       \
    { #member, OCT_SPEC_CHOICE, offsetof(struct oct__recipe, member), 0, 0, choices }

static const struct oct__spec_option table[] = {
    ROW(range, ranges),    ROW(mask, switches),
    ROW(weights, weights), ROW(gradients, gradients),
    ROW(init, inits),      NUMBER(eps, 1e-9, 1),
    NUMBER(reach, 0, 1e9), {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

const struct oct_recipe_kind *oct__recipe_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(kinds) ? &kinds[index] : NULL;
}

oct_status oct__recipe_read(const char *text, struct oct__recipe *out) {
    char name[OCT_SPEC_NAME], known[128] = "";
    const char *options;
    OCT_TRY(oct__spec_split(text, name, &options));
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i].plugin.name, name) == 0) {
            struct oct__recipe recipe = kinds[i].recipe;
            OCT_TRY(oct__spec_read(name, options, table, &recipe));
            *out = recipe;
            return OCT_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", kinds[i].plugin.name);
    }
    OCT_FAIL(NOT_FOUND, "precision-recipe '%s' is not known; there are %s", name, known);
}
