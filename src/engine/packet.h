/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - a compressed row of parameters, as it lies in an engine's memory.
 *
 * A compressor is two choices: which elements of each tensor are kept, and how their values are
 * coded. So packing (OCT_OP_PACK) and adding packets to a row (OCT_OP_FOLD) are operations that an
 * engine can have for itself, and a new compressor is a new pair. All that a packet's shape depends
 * on is fixed for a run and described by a *form*; packets of a form have the same size:
 *
 *     scales  f32 [n_scales]      S8, LEVELS, SIGN: value = scale * code
 *     index   u32 [n_kept]        not with ALL: place inside its tensor, ascending
 *     values  f32, bf16 or s8 [n_kept], tensor after tensor, without a row's gaps
 *     zeros   up to whole cache lines
 *
 * On the wire a packet is smaller: compress/wire.h.
 */
#ifndef OCT_ENGINE_PACKET_H
#define OCT_ENGINE_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

enum oct__select {
    OCT_SELECT_ALL,
    OCT_SELECT_LARGEST, /* magnitudes; of equal ones the first */
    OCT_SELECT_RANDOM,  /* the largest of one random word for each element */
};

enum oct__coding {
    OCT_CODING_F32,
    OCT_CODING_BF16, /* to the nearest, ties to even */
    OCT_CODING_S8,   /* scale = largest magnitude / 127, rounded by chance */
    OCT_CODING_LEVELS, /* QSGD: 2^bits - 1 levels of the 2-norm, by chance, divided by 1 + min(n/s^2, sqrt(n)/s) */
    OCT_CODING_SIGN, /* scale = mean magnitude; code +1 or -1, 0 counting as +1 */
    OCT_CODING_COUNT
};

/* One tensor of the row. */
struct oct__part {
    size_t offset, count; /* in the row */
    size_t keep;          /* elements that are kept; all of them with ALL */
    size_t first;         /* place of its first kept value among all kept values */
    int scale; /* number of its scale; small tensors share one when few values are kept */
};

struct oct__packet_form {
    enum oct__select select;
    enum oct__coding coding;
    int bits; /* of LEVELS: 1 … 7 */
    const struct oct__part *parts;
    size_t n_parts, n_scales, n_kept;
    size_t n_elements;                   /* of the row, gaps included */
    size_t index_at, values_at, n_bytes; /* places inside a packet; scales come first */
};

/* One of the packets that a node folds, and how much of it. */
struct oct__share {
    const void *packet; /* in the engine's memory */
    float factor;
};

/* What node `node` of a FOLD's launch folds, `n` of them; `own` is room for the operand as a share. */
static inline const struct oct__share *oct__shares_of(const struct oct__args *args, int node,
                                                      struct oct__share *own, int *n) {
    const int *start = args->attr.packet.start;
    if (args->attr.packet.shares) {
        *n = start[node + 1] - start[node];
        return args->attr.packet.shares + start[node];
    }
    own->packet = (const char *)args->t[0].at + (size_t)node * args->t[0].stride;
    own->factor = args->attr.packet.factor;
    *n = 1;
    return own;
}

static inline size_t oct__coding_bytes(enum oct__coding coding) {
    return coding == OCT_CODING_F32 ? 4 : coding == OCT_CODING_BF16 ? 2 : 1;
}

static inline int oct__coding_has_scales(enum oct__coding coding) {
    return coding >= OCT_CODING_S8;
}

#endif
