/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - integers in vectors: bytes and sums on their way to floats and back.
 *
 * wide.h's companion. A vector of LANES 32-bit integers is an `ints`; narrower types are widened to
 * it when loaded and narrowed from it when stored, with `full` and `n` as wide_get has them.
 * Narrowing four vectors at once is a matter of two packing steps, which work within 128-bit
 * parts, and of one permutation that puts the parts in order.
 */
#ifndef OCT_KERNELS_X86_BYTES_H
#define OCT_KERNELS_X86_BYTES_H

#include <string.h>

#include "kernels/x86/wide.h"

#if defined(__AVX512F__)

typedef __m512i ints;

INLINE ints ints_of(int32_t value) {
    return _mm512_set1_epi32(value);
}

INLINE ints ints_load(const void *p) {
    return _mm512_loadu_si512(p);
}

INLINE ints ints_get(const int32_t *p, int full, size_t n) {
    return full ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi32(wide_first(n), p);
}

INLINE ints ints_get_u8(const uint8_t *p, int full, size_t n) {
    __m128i bytes = full ? _mm_loadu_si128((const __m128i *)(const void *)p)
                         : _mm_maskz_loadu_epi8(wide_first(n), p);
    return _mm512_cvtepu8_epi32(bytes);
}

INLINE ints ints_get_s8(const int8_t *p, int full, size_t n) {
    __m128i bytes = full ? _mm_loadu_si128((const __m128i *)(const void *)p)
                         : _mm_maskz_loadu_epi8(wide_first(n), p);
    return _mm512_cvtepi8_epi32(bytes);
}

INLINE ints ints_get_u16(const uint16_t *p, int full, size_t n) {
    __m256i halves = full ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                          : _mm256_maskz_loadu_epi16(wide_first(n), p);
    return _mm512_cvtepu16_epi32(halves);
}

/* The lowest 8 or 16 bits of each. */
INLINE void ints_put_8(void *p, ints v, int full, size_t n) {
    _mm_mask_storeu_epi8(p, full ? (__mmask16)0xffff : wide_first(n), _mm512_cvtepi32_epi8(v));
}

INLINE void ints_put_16(uint16_t *p, ints v, int full, size_t n) {
    _mm256_mask_storeu_epi16(p, full ? (__mmask16)0xffff : wide_first(n), _mm512_cvtepi32_epi16(v));
}

INLINE ints ints_add(ints a, ints b) {
    return _mm512_add_epi32(a, b);
}

INLINE ints ints_sub(ints a, ints b) {
    return _mm512_sub_epi32(a, b);
}

INLINE ints ints_multiply(ints a, ints b) {
    return _mm512_mullo_epi32(a, b);
}

INLINE ints ints_and(ints a, ints b) {
    return _mm512_and_si512(a, b);
}

INLINE ints ints_or(ints a, ints b) {
    return _mm512_or_si512(a, b);
}

INLINE ints ints_xor(ints a, ints b) {
    return _mm512_xor_si512(a, b);
}

INLINE ints ints_larger(ints a, ints b) {
    return _mm512_max_epi32(a, b);
}

/* Without a sign. */
INLINE ints ints_larger_bits(ints a, ints b) {
    return _mm512_max_epu32(a, b);
}

INLINE ints ints_smaller_bits(ints a, ints b) {
    return _mm512_min_epu32(a, b);
}

/* 2 * LANES halves, without a sign. */
INLINE ints ints_larger_u16(ints a, ints b) {
    return _mm512_max_epu16(a, b);
}

/* |v|; that of the most negative has no sign. */
INLINE ints ints_magnitude(ints v) {
    return _mm512_abs_epi32(v);
}

#define ints_shift_left(v, by) _mm512_slli_epi32(v, by)
#define ints_shift_right(v, by) _mm512_srli_epi32(v, by)
#define ints_shift_arithmetic(v, by) _mm512_srai_epi32(v, by)

INLINE ints ints_bits(wide v) {
    return _mm512_castps_si512(v);
}

INLINE wide wide_bits(ints v) {
    return _mm512_castsi512_ps(v);
}

/* Converted, to the nearest where that is needed. */
INLINE wide wide_ints(ints v) {
    return _mm512_cvtepi32_ps(v);
}

/* To the nearest, ties to even; what does not fit, NaN too, gives the most negative. */
INLINE ints ints_nearest(wide v) {
    return _mm512_cvtps_epi32(v);
}

INLINE ints ints_floor(wide v) {
    return _mm512_cvt_roundps_epi32(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* a * b + c, where the product is exact */
INLINE wide wide_exact_add(wide a, wide b, wide c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* Four vectors to 4 * LANES bytes: v + zero (halves, up to 255) held to [0, 255], or v held to
 * [-128, 127]. */
INLINE ints ints_in_order(ints v) {
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

INLINE ints ints_pack_u8(ints a, ints b, ints c, ints d, ints zero) {
    ints ab = _mm512_add_epi16(_mm512_packs_epi32(a, b), zero);
    ints cd = _mm512_add_epi16(_mm512_packs_epi32(c, d), zero);
    return ints_in_order(_mm512_packus_epi16(ab, cd));
}

INLINE ints ints_pack_s8(ints a, ints b, ints c, ints d) {
    return ints_in_order(_mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

/* 2 * LANES and as many halves to bytes, held to [-128, 127]. */
INLINE ints ints_pack_halves_s8(ints a, ints b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                    _mm512_packs_epi16(a, b));
}

/* The upper halves of both, those of `odd` where they are and those of `even` below them. */
INLINE ints ints_upper_halves(ints even, ints odd) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, ints_shift_right(even, 16), odd);
}

/* Two vectors of numbers below 2^16 to 2 * LANES halves. */
INLINE ints ints_pack_u16(ints a, ints b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                    _mm512_packus_epi32(a, b));
}

/* Bytes in a vector. */
INLINE ints ints_of_8(int value) {
    return _mm512_set1_epi8((char)value);
}

INLINE ints ints_add_8(ints a, ints b) {
    return _mm512_add_epi8(a, b);
}

INLINE ints ints_larger_s8(ints a, ints b) {
    return _mm512_max_epi8(a, b);
}

INLINE void ints_store(void *p, ints v) {
    _mm512_storeu_si512(p, v);
}

#else

typedef __m256i ints;

INLINE ints ints_of(int32_t value) {
    return _mm256_set1_epi32(value);
}

INLINE ints ints_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE ints ints_get(const int32_t *p, int full, size_t n) {
    return full ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                : _mm256_maskload_epi32(p, wide_first(n));
}

/* n bytes, the others 0. */
INLINE __m128i few_bytes(const void *p, size_t n) {
    unsigned char bytes[16] = {0};
    memcpy(bytes, p, n);
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

INLINE __m128i eight_bytes(const void *p, int full, size_t n) {
    return full ? _mm_loadl_epi64((const __m128i *)p) : few_bytes(p, n);
}

INLINE ints ints_get_u8(const uint8_t *p, int full, size_t n) {
    return _mm256_cvtepu8_epi32(eight_bytes(p, full, n));
}

INLINE ints ints_get_s8(const int8_t *p, int full, size_t n) {
    return _mm256_cvtepi8_epi32(eight_bytes(p, full, n));
}

INLINE ints ints_get_u16(const uint16_t *p, int full, size_t n) {
    return _mm256_cvtepu16_epi32(full ? _mm_loadu_si128((const __m128i *)(const void *)p)
                                      : few_bytes(p, 2 * n));
}

INLINE void ints_put_8(void *p, ints v, int full, size_t n) {
    const __m256i first =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    v = _mm256_shuffle_epi8(v, first);
    __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    if (full) {
        _mm_storel_epi64((__m128i *)p, bytes);
    } else {
        unsigned char all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        memcpy(p, all, n);
    }
}

INLINE void ints_put_16(uint16_t *p, ints v, int full, size_t n) {
    v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    if (full) {
        _mm_storeu_si128((__m128i *)(void *)p, halves);
    } else {
        uint16_t all[8];
        _mm_storeu_si128((__m128i *)(void *)all, halves);
        memcpy(p, all, 2 * n);
    }
}

INLINE ints ints_add(ints a, ints b) {
    return _mm256_add_epi32(a, b);
}

INLINE ints ints_sub(ints a, ints b) {
    return _mm256_sub_epi32(a, b);
}

INLINE ints ints_multiply(ints a, ints b) {
    return _mm256_mullo_epi32(a, b);
}

INLINE ints ints_and(ints a, ints b) {
    return _mm256_and_si256(a, b);
}

INLINE ints ints_or(ints a, ints b) {
    return _mm256_or_si256(a, b);
}

INLINE ints ints_xor(ints a, ints b) {
    return _mm256_xor_si256(a, b);
}

INLINE ints ints_larger(ints a, ints b) {
    return _mm256_max_epi32(a, b);
}

INLINE ints ints_larger_bits(ints a, ints b) {
    return _mm256_max_epu32(a, b);
}

INLINE ints ints_smaller_bits(ints a, ints b) {
    return _mm256_min_epu32(a, b);
}

INLINE ints ints_larger_u16(ints a, ints b) {
    return _mm256_max_epu16(a, b);
}

INLINE ints ints_magnitude(ints v) {
    return _mm256_abs_epi32(v);
}

#define ints_shift_left(v, by) _mm256_slli_epi32(v, by)
#define ints_shift_right(v, by) _mm256_srli_epi32(v, by)
#define ints_shift_arithmetic(v, by) _mm256_srai_epi32(v, by)

INLINE ints ints_bits(wide v) {
    return _mm256_castps_si256(v);
}

INLINE wide wide_bits(ints v) {
    return _mm256_castsi256_ps(v);
}

INLINE wide wide_ints(ints v) {
    return _mm256_cvtepi32_ps(v);
}

INLINE ints ints_nearest(wide v) {
    return _mm256_cvtps_epi32(v);
}

INLINE ints ints_floor(wide v) {
    return _mm256_cvtps_epi32(_mm256_floor_ps(v));
}

INLINE wide wide_exact_add(wide a, wide b, wide c) {
    return _mm256_fmadd_ps(a, b, c);
}

INLINE ints ints_in_order(ints v) {
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE ints ints_pack_u8(ints a, ints b, ints c, ints d, ints zero) {
    ints ab = _mm256_add_epi16(_mm256_packs_epi32(a, b), zero);
    ints cd = _mm256_add_epi16(_mm256_packs_epi32(c, d), zero);
    return ints_in_order(_mm256_packus_epi16(ab, cd));
}

INLINE ints ints_pack_s8(ints a, ints b, ints c, ints d) {
    return ints_in_order(_mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)));
}

INLINE ints ints_pack_halves_s8(ints a, ints b) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
}

INLINE ints ints_upper_halves(ints even, ints odd) {
    return _mm256_blend_epi16(ints_shift_right(even, 16), odd, 0xaa);
}

INLINE ints ints_pack_u16(ints a, ints b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

INLINE ints ints_of_8(int value) {
    return _mm256_set1_epi8((char)value);
}

INLINE ints ints_add_8(ints a, ints b) {
    return _mm256_add_epi8(a, b);
}

INLINE ints ints_larger_s8(ints a, ints b) {
    return _mm256_max_epi8(a, b);
}

INLINE void ints_store(void *p, ints v) {
    _mm256_storeu_si256((__m256i *)p, v);
}

#endif

/* --- bf16 ------------------------------------------------------------------------------------- */

/* The bits with every NaN made the quiet one that has no more bits than bf16 keeps. */
INLINE ints ints_tame(wide x) {
    const ints quiet = ints_of(0x7fc00000), sign = ints_of(INT32_MIN);
    ints bits = ints_bits(x);
#if defined(__AVX512F__)
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_ternarylogic_epi32(bits, nan, sign, quiet, 0xea); /* bits & sign | quiet */
#else
    wide nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    ints replaced = _mm256_or_si256(_mm256_and_si256(bits, sign), quiet);
    return ints_bits(_mm256_blendv_ps(x, wide_bits(replaced), nan));
#endif
}

/* bf16, in the lower half. */
INLINE ints ints_round_bf16(wide x) {
    ints bits = ints_tame(x);
    ints odd = ints_and(ints_shift_right(bits, 16), ints_of(1));
    return ints_shift_right(ints_add(ints_add(bits, ints_of(0x7fff)), odd), 16);
}

#endif
