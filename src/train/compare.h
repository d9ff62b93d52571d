/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - how far int8 gradients are from fp32's, layer by layer: what a recipe costs.
 *
 * One fp32 run trains for some steps. Then, at those very parameters and on the same batches,
 * gradients are computed in fp32 and under each recipe, and compared tensor by tensor:
 *
 *     error = sqrt(sum |g8 - g|^2 / sum |g|^2)       over the batches
 *
 * The mean of g8 over many draws of the rounding should be g; what is left besides noise is bias,
 * which hurts training far more than its size suggests. So a second figure, the cosine between the
 * two gradients summed over all batches, is given beside the error.
 */
#ifndef OCT_TRAIN_COMPARE_H
#define OCT_TRAIN_COMPARE_H

#include "base/fail.h"

struct oct_config;

struct oct__compare_row {
    const char *recipe;
    const char *parameter; /* "stage1.block0.conv1.weight"; NULL: all of them together */
    double error;          /* of single batches' gradients, relative */
    double cosine;         /* between the sums over the batches */
};

struct oct__compare_quantizer {
    const char *recipe, *layer;
    int is_gradient;
    double clipped, zero, scale; /* as struct oct_quantizer, of the last batch */
};

/* Rows of a recipe come together: parameters in graph order, then all of them together, then
 * quantizers. Nonzero stops. */
typedef int oct__compare_fn(const struct oct__compare_row *row,
                            const struct oct__compare_quantizer *quantizer, void *context);

/* `config` says model, norm (an int8 run's default), data, batch, seed; its precision and recipe
 * are not looked at. `recipes` are texts as --precision-recipe takes them. */
OCT_MUST_CHECK oct_status oct__compare_gradients(const struct oct_config *config, int n_recipes,
                                                 const char *const *recipes, int n_steps,
                                                 int n_batches, oct__compare_fn *row,
                                                 void *context);

#endif
