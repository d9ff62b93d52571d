/* SPDX-License-Identifier: Apache-2.0 */
/* wide.h - one vector of floats as wide as the CPU level has it, and the few things done with it.
 *
 * Every file of this folder is compiled for avx2 and for avx512, or for the level that its name
 * ends in, with OCT_ISA naming the level and the level's compiler flags; LANES is 8 under avx2 and
 * 16 under avx512. `+ - * /` are the compiler's own on these types. No operation here may round
 * differently from its scalar counterpart: that is what keeps variants bit-identical to ref/. (The
 * one fused multiply-add is where the product is exact.)
 */
#ifndef OCT_KERNELS_X86_WIDE_H
#define OCT_KERNELS_X86_WIDE_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/exp.h"
#include "kernels/variants.h"

#define OCT_WIDE_PASTE(op, isa) oct_##op##__##isa
#define OCT_WIDE_EXPAND(op, isa) OCT_WIDE_PASTE(op, isa)
#define OCT_WIDE(op) OCT_WIDE_EXPAND(op, OCT_ISA)

/* Small functions must vanish into their loops, and a constant argument with them. */
#define INLINE static inline __attribute__((__always_inline__))

#if defined(__AVX512F__)

#define LANES ((size_t)16)
typedef __m512 wide;

INLINE wide wide_of(float value) {
    return _mm512_set1_ps(value);
}

INLINE wide wide_load(const float *p) {
    return _mm512_loadu_ps(p);
}

INLINE void wide_store(float *p, wide v) {
    _mm512_storeu_ps(p, v);
}

INLINE __mmask16 wide_first(size_t n) {
    return (__mmask16)((1U << n) - 1U);
}

/* The first n < LANES elements, the others 0 and not touched. */
INLINE wide wide_load_first(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(wide_first(n), p);
}

INLINE void wide_store_first(float *p, wide v, size_t n) {
    _mm512_mask_storeu_ps(p, wide_first(n), v);
}

/* a < b ? a : b, so b when either is a NaN. */
INLINE wide wide_smaller(wide a, wide b) {
    return _mm512_min_ps(a, b);
}

/* a > b ? a : b, so b when either is a NaN. */
INLINE wide wide_larger(wide a, wide b) {
    return _mm512_max_ps(a, b);
}

/* test > 0 ? v : 0 */
INLINE wide wide_where_positive(wide test, wide v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(test, _mm512_setzero_ps(), _CMP_GT_OQ), v);
}

/* -(n * a) - x */
INLINE wide wide_exact_reduce(wide n, wide a, wide x) {
    return _mm512_fnmsub_ps(n, a, x);
}

/* p * 2^n; `shifted` holds n in its low bits, see exp.h. p * 2^n is never denormal here. */
INLINE wide wide_scale(wide p, wide n, wide shifted) {
    (void)shifted;
    return _mm512_scalef_ps(p, n);
}

#else

#define LANES ((size_t)8)
typedef __m256 wide;

INLINE wide wide_of(float value) {
    return _mm256_set1_ps(value);
}

INLINE wide wide_load(const float *p) {
    return _mm256_loadu_ps(p);
}

INLINE void wide_store(float *p, wide v) {
    _mm256_storeu_ps(p, v);
}

INLINE __m256i wide_first(size_t n) {
    static const int32_t window[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(window + 8 - n));
}

INLINE wide wide_load_first(const float *p, size_t n) {
    return _mm256_maskload_ps(p, wide_first(n));
}

/* In pieces of 4, 2 and 1: AVX2's masked store is several times slower on some processors. */
INLINE void wide_store_first(float *p, wide v, size_t n) {
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_epi64((__m128i *)(void *)p, _mm_castps_si128(part));
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1) {
        _mm_store_ss(p, part);
    }
}

INLINE wide wide_smaller(wide a, wide b) {
    return _mm256_min_ps(a, b);
}

INLINE wide wide_larger(wide a, wide b) {
    return _mm256_max_ps(a, b);
}

INLINE wide wide_where_positive(wide test, wide v) {
    return _mm256_and_ps(_mm256_cmp_ps(test, _mm256_setzero_ps(), _CMP_GT_OQ), v);
}

INLINE wide wide_exact_reduce(wide n, wide a, wide x) {
    return _mm256_fnmsub_ps(n, a, x);
}

INLINE wide wide_scale(wide p, wide n, wide shifted) {
    (void)n;
    __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    bits = _mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000));
    return p * _mm256_castsi256_ps(bits);
}

#endif

/* A whole vector, or the first `n` of one: `full` is a constant where this is inlined. */
INLINE wide wide_get(const float *p, int full, size_t n) {
    return full ? wide_load(p) : wide_load_first(p, n);
}

INLINE void wide_put(float *p, wide v, int full, size_t n) {
    if (full) {
        wide_store(p, v);
    } else {
        wide_store_first(p, v, n);
    }
}

/* sigmoid(a) = 1 / (1 + exp_f32(-a)): exp.h's sequence for x = -a with the minus signs carried
 * along, which changes no rounding. n * OCT_EXP_LN2_HIGH is exact, so fusing it changes none
 * either. */
INLINE wide wide_sigmoid(wide a) {
    a = wide_smaller(wide_of(OCT_EXP_LIMIT), a);
    a = wide_larger(wide_of(-OCT_EXP_LIMIT), a);
    wide shifted = wide_of(OCT_EXP_SHIFT) - a * wide_of(OCT_EXP_LOG2E);
    wide n = shifted - wide_of(OCT_EXP_SHIFT);
    wide r = wide_exact_reduce(n, wide_of(OCT_EXP_LN2_HIGH), a) - n * wide_of(OCT_EXP_LN2_LOW);
    wide q = wide_of(OCT_EXP_C6) * r + wide_of(OCT_EXP_C5);
    q = q * r + wide_of(OCT_EXP_C4);
    q = q * r + wide_of(OCT_EXP_C3);
    q = q * r + wide_of(OCT_EXP_C2);
    wide p = (q * (r * r) + r) + wide_of(1.0f);
    return wide_of(1.0f) / (wide_of(1.0f) + wide_scale(p, n, shifted));
}

#endif
