/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.h - the choices that 8-bit training leaves open, under one name.
 *
 * What a quantizer's range is, whether a gradient passes a clipped value, how many scales a tensor
 * has, how parameters start, how small a deviation a norm believes in. A recipe is a row of
 * recipes.def; its options change single choices, which is how one is compared with another:
 *
 *     --precision-recipe octet
 *     --precision-recipe octet:weights=channel,gradients=sample
 */
#ifndef OCT_NN_RECIPE_H
#define OCT_NN_RECIPE_H

#include "engine/engine.h"

enum oct__init_style { OCT_INIT_EQUAL, OCT_INIT_PAPER };

struct oct__recipe {
    int range;      /* enum oct__range: MEAN or FULL */
    int mask;       /* a gradient stops where the value was clipped */
    int weights;    /* 1: a scale for each output channel, 0: one for the tensor */
    int gradients;  /* 1: a scale for each sample, 0: one for the tensor */
    int init;       /* enum oct__init_style */
    double eps;     /* what Range EvoNorm adds to a deviation before it divides by it */
    double reach;   /* deviations of its group that a value may be in it; 0: any number */
    int stochastic; /* values are rounded by chance too (activation_rounding) */
};

struct oct_recipe_kind {
    struct oct_plugin plugin;
    struct oct__recipe recipe;
};

const struct oct_recipe_kind *oct__recipe_at(int index);

/* Reads "octet" or "octet:range=full,mask=no"; NOT_FOUND lists the names. */
OCT_MUST_CHECK oct_status oct__recipe_read(const char *text, struct oct__recipe *out);

#endif
