/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - SHA-256: plain, about 250 MB/s, and with the processor's own instructions, about five
 * times that. A checkpoint of a thousand nodes is gigabytes, all of which is summed.
 */
#include "base/sha256.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <octet/cpu.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits) {
    return x >> bits | x << (32 - bits);
}

static void compress_plain(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++) {
        const uint8_t *b = block + (ptrdiff_t)4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, state, sizeof v);
/* One round; the eight values change places by name instead of being moved. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
    do {                                                                                           \
        uint32_t t1 = v[h] + (rotate(v[e], 6) ^ rotate(v[e], 11) ^ rotate(v[e], 25)) +             \
                      ((v[e] & v[f]) ^ (~v[e] & v[g])) + k[i] + w[i];                              \
        v[d] += t1;                                                                                \
        v[h] = t1 + (rotate(v[a], 2) ^ rotate(v[a], 13) ^ rotate(v[a], 22)) +                      \
               ((v[a] & v[b]) ^ (v[a] & v[c]) ^ (v[b] & v[c]));                                    \
    } while (0)
    for (int i = 0; i < 64; i += 8) {
        ROUND(0, 1, 2, 3, 4, 5, 6, 7, i);
        ROUND(7, 0, 1, 2, 3, 4, 5, 6, i + 1);
        ROUND(6, 7, 0, 1, 2, 3, 4, 5, i + 2);
        ROUND(5, 6, 7, 0, 1, 2, 3, 4, i + 3);
        ROUND(4, 5, 6, 7, 0, 1, 2, 3, i + 4);
        ROUND(3, 4, 5, 6, 7, 0, 1, 2, i + 5);
        ROUND(2, 3, 4, 5, 6, 7, 0, 1, i + 6);
        ROUND(1, 2, 3, 4, 5, 6, 7, 0, i + 7);
    }
#undef ROUND
    for (int i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

#if defined(__x86_64__)

/* The same with the SHA extensions. They keep the eight values as {a, b, e, f} and {c, d, g, h}, the
 * first in the highest place, and do two rounds an instruction; w holds the message schedule, four
 * words a register. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
compress_extended(uint32_t state[8], const uint8_t *blocks, size_t n_blocks) {
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i dcba = _mm_loadu_si128((const __m128i *)&state[0]);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; n_blocks > 0; n_blocks--, blocks += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[16];
        for (int i = 0; i < 16; i++) {
            if (i < 4) {
                w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)blocks + i), swap);
            } else {
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                            _mm_alignr_epi8(w[i - 1], w[i - 2], 4));
                w[i] = _mm_sha256msg2_epu32(sum, w[i - 1]);
            }
            __m128i wk = _mm_add_epi32(w[i], _mm_loadu_si128((const __m128i *)&k[4 * i]));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)&state[0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)&state[4], _mm_alignr_epi8(dchg, feba, 8));
}

static int has_extensions(void) {
    static atomic_int found = -1; /* asking is slow on a virtual machine */
    int has = atomic_load_explicit(&found, memory_order_relaxed);
    if (has < 0) {
        unsigned a, b, c, d, b7;
        has = __get_cpuid(1, &a, &b, &c, &d) && (c >> 9 & 1) && (c >> 19 & 1) &&
              __get_cpuid_count(7, 0, &a, &b7, &c, &d) && (b7 >> 29 & 1);
        atomic_store_explicit(&found, has, memory_order_relaxed);
    }
    return has && oct_cpu_level() > OCT_CPU_REF;
}

#endif

static void compress(uint32_t state[8], const uint8_t *blocks, size_t n_blocks) {
#if defined(__x86_64__)
    if (has_extensions()) {
        compress_extended(state, blocks, n_blocks);
        return;
    }
#endif
    for (; n_blocks > 0; n_blocks--, blocks += 64) {
        compress_plain(state, blocks);
    }
}

void oct__sha256_init(struct oct__sha256 *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->n_bytes = 0;
}

void oct__sha256_add(struct oct__sha256 *sha, const void *bytes, size_t n_bytes) {
    const uint8_t *from = bytes;
    while (n_bytes > 0) {
        size_t filled = sha->n_bytes % 64;
        size_t take = n_bytes;
        if (filled == 0 && n_bytes >= 64) {
            take -= n_bytes % 64;
            compress(sha->state, from, take / 64);
        } else {
            take = 64 - filled < n_bytes ? 64 - filled : n_bytes;
            memcpy(sha->block + filled, from, take);
            if (filled + take == 64) {
                compress(sha->state, sha->block, 1);
            }
        }
        sha->n_bytes += take;
        from += take;
        n_bytes -= take;
    }
}

void oct__sha256_text(struct oct__sha256 *sha, char out[OCT_SHA256_TEXT]) {
    uint64_t bits = sha->n_bytes * 8;
    uint8_t tail[72] = {0x80};
    size_t zeros = (119 - sha->n_bytes % 64) % 64; /* up to byte 56 of a block */
    for (int i = 0; i < 8; i++) {
        tail[1 + zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    oct__sha256_add(sha, tail, 1 + zeros + 8);
    for (int i = 0; i < 8; i++) {
        snprintf(out + (ptrdiff_t)8 * i, 9, "%08x", sha->state[i]);
    }
}
