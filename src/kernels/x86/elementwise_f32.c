/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_f32.c - flat arrays, a vector at a time.
 *
 * Written out because the arrays may coincide: a compiler that vectorizes the plain loop must test
 * for overlap first, and may take its scalar copy just when the kernel works in place. A whole step
 * is read from every input before it is written, so coinciding is harmless. Two vectors a step: a
 * shorter loop's speed depends on where the linker puts it.
 *
 * For avx2 alone: these wait for L2 or memory, and avx512 measured no faster.
 */
#include "kernels/x86/wide.h"

#if !defined(__AVX512F__)

INLINE void add_step(const float *a, const float *b, float *y, int full, size_t n) {
    wide_put(y, wide_get(a, full, n) + wide_get(b, full, n), full, n);
}

void OCT_WIDE(add_f32)(size_t n, const float *a, const float *b, float *y) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide low = wide_load(a + i) + wide_load(b + i);
        wide high = wide_load(a + i + LANES) + wide_load(b + i + LANES);
        wide_store(y + i, low);
        wide_store(y + i + LANES, high);
    }
    if (i + LANES <= n) {
        add_step(a + i, b + i, y + i, 1, 0);
        i += LANES;
    }
    if (i < n) {
        add_step(a + i, b + i, y + i, 0, n - i);
    }
}

/* 0 > x ? 0 : x: NaN and -0 pass. */
INLINE wide relu(wide x) {
    return wide_larger(wide_of(0.0f), x);
}

void OCT_WIDE(relu_f32)(size_t n, const float *x, float *y) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide low = relu(wide_load(x + i)), high = relu(wide_load(x + i + LANES));
        wide_store(y + i, low);
        wide_store(y + i + LANES, high);
    }
    if (i + LANES <= n) {
        wide_store(y + i, relu(wide_load(x + i)));
        i += LANES;
    }
    if (i < n) {
        wide_store_first(y + i, relu(wide_load_first(x + i, n - i)), n - i);
    }
}

INLINE void relu_grad_step(const float *y, const float *dy, float *dx, int full, size_t n) {
    wide_put(dx, wide_where_positive(wide_get(y, full, n), wide_get(dy, full, n)), full, n);
}

void OCT_WIDE(relu_grad_f32)(size_t n, const float *y, const float *dy, float *dx) {
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide low = wide_where_positive(wide_load(y + i), wide_load(dy + i));
        wide high = wide_where_positive(wide_load(y + i + LANES), wide_load(dy + i + LANES));
        wide_store(dx + i, low);
        wide_store(dx + i + LANES, high);
    }
    if (i + LANES <= n) {
        relu_grad_step(y + i, dy + i, dx + i, 1, 0);
        i += LANES;
    }
    if (i < n) {
        relu_grad_step(y + i, dy + i, dx + i, 0, n - i);
    }
}

/* Four vectors side by side: each part is visited 4 * LANES floats at a time, and the chains of
 * additions along the parts overlap. */
void OCT_WIDE(fold_f32)(size_t n, size_t n_parts, size_t stride, const float *parts, float *out) {
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        const float *from = parts + i;
        wide t0 = wide_load(from), t1 = wide_load(from + LANES);
        wide t2 = wide_load(from + 2 * LANES), t3 = wide_load(from + 3 * LANES);
        for (size_t p = 1; p < n_parts; p++) {
            from = parts + p * stride + i;
            t0 += wide_load(from);
            t1 += wide_load(from + LANES);
            t2 += wide_load(from + 2 * LANES);
            t3 += wide_load(from + 3 * LANES);
        }
        wide_store(out + i, t0);
        wide_store(out + i + LANES, t1);
        wide_store(out + i + 2 * LANES, t2);
        wide_store(out + i + 3 * LANES, t3);
    }
    for (; i + LANES <= n; i += LANES) {
        wide total = wide_load(parts + i);
        for (size_t p = 1; p < n_parts; p++) {
            total += wide_load(parts + p * stride + i);
        }
        wide_store(out + i, total);
    }
    if (i < n) {
        wide total = wide_load_first(parts + i, n - i);
        for (size_t p = 1; p < n_parts; p++) {
            total += wide_load_first(parts + p * stride + i, n - i);
        }
        wide_store_first(out + i, total, n - i);
    }
}

/* n is a multiple of LANES. */
INLINE size_t count_block(size_t n, const float *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i largest = _mm256_set1_epi32(0x7f7fffff);
    __m256i counts = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        __m256i low = _mm256_and_si256(_mm256_castps_si256(wide_load(x + i)), magnitude);
        __m256i high = _mm256_and_si256(_mm256_castps_si256(wide_load(x + i + LANES)), magnitude);
        __m256i found =
            _mm256_add_epi32(_mm256_cmpgt_epi32(low, largest), _mm256_cmpgt_epi32(high, largest));
        counts = _mm256_sub_epi32(counts, found);
    }
    if (i < n) {
        __m256i bits = _mm256_and_si256(_mm256_castps_si256(wide_load(x + i)), magnitude);
        counts = _mm256_sub_epi32(counts, _mm256_cmpgt_epi32(bits, largest));
    }
    uint32_t lane[LANES];
    _mm256_storeu_si256((__m256i *)lane, counts);
    size_t found = 0;
    for (size_t k = 0; k < LANES; k++) {
        found += lane[k];
    }
    return found;
}

/* In blocks, so that a lane's 32-bit count cannot overflow. */
void OCT_WIDE(nonfinite_f32)(size_t n, const float *x, size_t *count) {
    enum { BLOCK = 1 << 24 };
    size_t found = 0, i = 0;
    while (n - i >= LANES) {
        size_t whole = (n - i) / LANES * LANES;
        size_t block = whole < BLOCK ? whole : BLOCK;
        found += count_block(block, x + i);
        i += block;
    }
    float last[LANES] = {0};
    for (size_t k = 0; i + k < n; k++) {
        last[k] = x[i + k];
    }
    *count = found + count_block(LANES, last);
}

#endif
