/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h - sixteen blocks of base/rng.h's Philox4x32-10 side by side.
 *
 * A round multiplies 32-bit words to 64 bits, and the instruction for that reads the even words of
 * its operands and writes over the odd ones. So a block's words are kept in even places from the
 * first round to the last, whatever stands beside them, and blocks are spread over twice as many
 * vectors: even blocks in one, odd blocks in the next. Only the result is put together, block b in
 * lane b.
 */
#ifndef OCT_KERNELS_X86_PHILOX_H
#define OCT_KERNELS_X86_PHILOX_H

#include "base/rng.h"
#include "kernels/x86/bytes.h"

enum { PHILOX_ROUNDS = 10, PHILOX_BLOCKS = 16 };

/* How many vectors hold a word of sixteen blocks. */
#define PHILOX_VECTORS (PHILOX_BLOCKS / LANES)

/* What all blocks of a stream share, in every lane. */
struct philox {
    ints key[PHILOX_ROUNDS][2], counter[3];
};

INLINE void philox_init(struct philox *of, const struct oct__stream *stream) {
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
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

/* LANES / 2 blocks: every other one from `first` on. */
INLINE void philox_blocks(const struct philox *of, uint32_t first, ints c[4]) {
    const ints m0 = ints_of((int32_t)0xD2511F53U), m1 = ints_of((int32_t)0xCD9E8D57U);
    ints c0 = philox_indices(first), c1 = of->counter[0];
    ints c2 = of->counter[1], c3 = of->counter[2];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        ints p0 = philox_multiply(c0, m0), p1 = philox_multiply(c2, m1);
        c0 = philox_xor(philox_upper(p1), c1, of->key[round][0]);
        c1 = p1;
        c2 = philox_xor(philox_upper(p0), c3, of->key[round][1]);
        c3 = p0;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/* Blocks first … first + 15: word[w][v] holds word w of blocks first + v * LANES and following. */
INLINE void philox_draw(const struct philox *of, uint32_t first, ints word[4][PHILOX_VECTORS]) {
    for (uint32_t v = 0; v < PHILOX_VECTORS; v++) {
        ints even[4], odd[4];
        philox_blocks(of, first + v * (uint32_t)LANES, even);
        philox_blocks(of, first + v * (uint32_t)LANES + 1, odd);
        for (int w = 0; w < 4; w++) {
            word[w][v] = philox_join(even[w], odd[w]);
        }
    }
}

#endif
