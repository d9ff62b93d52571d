/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - randomness as a function: Philox4x32 streams without hidden state.
 *
 * Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 *
 *     block = philox(key = seed, counter = (index, purpose << 24 | layer, step, node))
 *
 * A stream is named by (seed, purpose, node, step, layer); block `index` of it is four 32-bit
 * words, computed from nothing but these numbers. So a run gives the same bits however its nodes
 * are laid over threads and processes, and a resumed run needs no generator state.
 *
 * Philox has ten rounds, as its authors recommend for general use. Rounding by chance needs so many
 * bits that they are a good part of an 8-bit step, and asks little of them: the streams that round
 * have seven rounds, with which it passes all of BigCrush in that paper.
 *
 * What each purpose means by `step` and `layer` is written beside it; word w of a stream is word
 * w % 4 of block w / 4.
 */
#ifndef OCT_BASE_RNG_H
#define OCT_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/anywhere.h"

enum oct__purpose {
    OCT_PURPOSE_INIT = 1,  /* parameter tensor `layer`; step 0, node 0 (all nodes start equal) */
    OCT_PURPOSE_SHUFFLE,   /* permutation number `step` of a node's samples */
    OCT_PURPOSE_AUGMENT,   /* crop and flip of a node's samples in permutation `step`: crop.h */
    OCT_PURPOSE_DROPOUT,   /* mask of layer `layer` in training step `step` */
    OCT_PURPOSE_SYNTHETIC, /* sample `step` of the synthetic dataset, split `layer` */
    OCT_PURPOSE_SUBSET,    /* which samples --samples keeps */
    OCT_PURPOSE_TEST,      /* tests and golden files; layer and step as the test likes */
    OCT_PURPOSE_ROUND_GRADIENT, /* quantizing the gradient of layer `layer` in training step `step` */
    OCT_PURPOSE_ROUND_VALUE,    /* quantizing the layer's value itself, where that is by chance */
    OCT_PURPOSE_TOPOLOGY,       /* random graph number `step` */
    OCT_PURPOSE_PARTITION,      /* dealing samples out; layer as the plug-in likes */
    OCT_PURPOSE_PACK_SELECT, /* one word for each element of the row that random selection packs */
    OCT_PURPOSE_PACK_ROUND,  /* coding a row's values by chance; layer: the packet's salt */
    OCT_PURPOSE_FAULT, /* what becomes of a sender's messages in round `step`: block, the receiver */
};

struct oct__stream {
    uint32_t key[2];
    uint32_t counter[3]; /* the upper three words; the lowest is the block's index */
};

struct oct__stream oct__stream(uint64_t seed, enum oct__purpose purpose, uint32_t node,
                               uint32_t step, uint32_t layer);

/* Rounds of Philox, and of streams that round (ROUND_GRADIENT, ROUND_VALUE, PACK_ROUND). */
enum { OCT_PHILOX_ROUNDS = 10, OCT_PHILOX_FEW_ROUNDS = 7 };

OCT_ANYWHERE void oct__philox(const struct oct__stream *stream, int n_rounds, uint32_t index,
                              uint32_t out[4]) {
    uint32_t c0 = index, c1 = stream->counter[0], c2 = stream->counter[1], c3 = stream->counter[2];
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < n_rounds; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Four words: block `index` of the stream. */
void oct__stream_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]);

/* The same of a stream that rounds. What its bits are for is in kernels.def. */
void oct__rounding_block(const struct oct__stream *stream, uint32_t index, uint32_t out[4]);

/* Words first … first + count − 1 of the stream. */
void oct__stream_words(const struct oct__stream *stream, uint64_t first, size_t count,
                       uint32_t *out);

/* Word `w` as a float in [0, 1): its upper 24 bits. */
OCT_ANYWHERE float oct__unit_float(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

/* A word as an integer in [0, n): the high half of a 64-bit product; the bias is below n/2^32. */
OCT_ANYWHERE uint32_t oct__below(uint32_t word, uint32_t n) {
    return (uint32_t)(((uint64_t)word * n) >> 32);
}

/* Two independent normal values from two words (Box-Muller, in double). */
void oct__normal_pair(uint32_t word_a, uint32_t word_b, double out[2]);

/* A permutation of 0 … n−1 (Fisher-Yates with words 0 … n−2 of the stream). */
void oct__permutation(const struct oct__stream *stream, uint32_t n, uint32_t *out);

#endif
