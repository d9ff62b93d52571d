/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c - the layer "norm": hands over to the norm that the run chose, and lists those there are.
 *
 * In int8 a norm that knows nothing of bytes computes in floats between two quantizers: its input
 * and its parameters come out of 8 bits, and so does the gradient that arrives at it.
 */
#include <string.h>

#include "nn/layer.h"

#define OCT_NORM(name) extern const struct oct_norm_kind oct_norm_##name;
#include "nn/norms.def"
#undef OCT_NORM

static const struct oct_norm_kind *const kinds[] = {
#define OCT_NORM(name) &oct_norm_##name,
#include "nn/norms.def"
#undef OCT_NORM
};

const struct oct_norm_kind *oct__norm_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(kinds) ? kinds[index] : NULL;
}

const struct oct_norm_kind *oct__norm_find(const char *name) {
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i]->plugin.name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

static void forward(struct oct__program *program, const struct oct__layer *layer) {
    layer->norm->forward(program, layer);
}

static void backward(struct oct__program *program, const struct oct__layer *layer) {
    layer->norm->backward(program, layer);
}

const struct oct__layer_kind oct__layer_norm = {
    .name = "norm",
    .forward = forward,
    .backward = backward,
    .reads_bytes = 1,
    .quantizes_gradient = 1,
};
