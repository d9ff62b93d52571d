/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - blocks of base/rng.h's Philox4x32 side by side.
 *
 * A round multiplies 32-bit words to 64 bits, and the instruction for that reads the even words of
 * its operands and writes over the odd ones. So a block's words are kept in even places from the
 * first round to the last, whatever stands beside them, and blocks are spread over twice as many
 * vectors: even blocks in one, odd blocks in the next. Only the result is put together, block b in
 * lane b. A round waits for the one before it, so as many vectors go through the rounds together as
 * there are registers for: four, or two.
 */
#ifndef OCT_KERNELS_X86_PHILOX_H
#define OCT_KERNELS_X86_PHILOX_H

#include "base/rng.h"
#include "kernels/x86/bytes.h"

/* Blocks that are drawn at once, and how many vectors hold a word of them. */
enum { PHILOX_VECTORS = 2, PHILOX_BLOCKS = PHILOX_VECTORS * LANES };

/* What all blocks of a stream share, in every lane. */
struct philox {
    ints key[OCT_PHILOX_ROUNDS][2], counter[3];
};

INLINE void philox_init(struct philox *of, const struct oct__stream *stream) {
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < OCT_PHILOX_ROUNDS; round++) {
        of->key[round][0] = ints_of((int32_t)k0);
        of->key[round][1] = ints_of((int32_t)k1);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    for (int i = 0; i < 3; i++) {
        of->counter[i] = ints_of((int32_t)stream->counter[i]);
    }
}

#if defined(__AVX512F__)

#define philox_multiply(a, b) _mm512_mul_epu32(a, b)
#define philox_upper(product) _mm512_srli_epi64(product, 32)
#define philox_xor(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0x96)

/* Blocks first, first + 2, …, one in each even lane. */
INLINE ints philox_indices(uint32_t first) {
    return _mm512_add_epi32(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), ints_of((int32_t)first));
}

INLINE ints philox_join(ints even, ints odd) {
    return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}

#else

#define philox_multiply(a, b) _mm256_mul_epu32(a, b)
#define philox_upper(product) _mm256_srli_epi64(product, 32)
#define philox_xor(a, b, c) _mm256_xor_si256(_mm256_xor_si256(b, c), a)

INLINE ints philox_indices(uint32_t first) {
    return _mm256_add_epi32(_mm256_setr_epi64x(0, 2, 4, 6), ints_of((int32_t)first));
}

INLINE ints philox_join(ints even, ints odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

#endif

struct philox_state {
    ints c0, c1, c2, c3;
};

/* LANES / 2 blocks: every other one from `first` on. */
INLINE struct philox_state philox_begin(const struct philox *of, uint32_t first) {
    return (struct philox_state){philox_indices(first), of->counter[0], of->counter[1],
                                 of->counter[2]};
}

INLINE void philox_round(const struct philox *of, int round, struct philox_state *at) {
    const ints m0 = ints_of((int32_t)0xD2511F53U), m1 = ints_of((int32_t)0xCD9E8D57U);
    ints p0 = philox_multiply(at->c0, m0), p1 = philox_multiply(at->c2, m1);
    at->c0 = philox_xor(philox_upper(p1), at->c1, of->key[round][0]);
    at->c1 = p1;
    at->c2 = philox_xor(philox_upper(p0), at->c3, of->key[round][1]);
    at->c3 = p0;
}

INLINE void philox_end(const struct philox_state *even, const struct philox_state *odd,
                       ints word[4]) {
    word[0] = philox_join(even->c0, odd->c0);
    word[1] = philox_join(even->c1, odd->c1);
    word[2] = philox_join(even->c2, odd->c2);
    word[3] = philox_join(even->c3, odd->c3);
}

/* Blocks first … first + PHILOX_BLOCKS - 1 of so many rounds: word[v][w] holds word w of blocks
 * first + v * LANES and following. */
INLINE void philox_draw(const struct philox *of, int n_rounds, uint32_t first,
                        ints word[PHILOX_VECTORS][4]) {
    struct philox_state a = philox_begin(of, first), b = philox_begin(of, first + 1);
    struct philox_state c = philox_begin(of, first + (uint32_t)LANES);
    struct philox_state d = philox_begin(of, first + (uint32_t)LANES + 1);
#if defined(__AVX512F__)
    for (int round = 0; round < n_rounds; round++) {
        philox_round(of, round, &a);
        philox_round(of, round, &b);
        philox_round(of, round, &c);
        philox_round(of, round, &d);
    }
#else
    for (int round = 0; round < n_rounds; round++) {
        philox_round(of, round, &a);
        philox_round(of, round, &b);
    }
    for (int round = 0; round < n_rounds; round++) {
        philox_round(of, round, &c);
        philox_round(of, round, &d);
    }
#endif
    philox_end(&a, &b, word[0]);
    philox_end(&c, &d, word[1]);
}

#endif
