/* SPDX-License-Identifier: Apache-2.0 */
/* rows_f32.c - rows of parameters, a vector at a time.
 *
 * For avx2 alone: they wait for memory. A difference and settle_f32 measured no faster than what the
 * compiler makes of ref.
 */
#include "kernels/x86/wide.h"

#if !defined(__AVX512F__)

void OCT_WIDE(axpy_f32)(size_t n, float a, const float *x, float *y) {
    const wide factor = wide_of(a);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide low = wide_load(y + i) + factor * wide_load(x + i);
        wide high = wide_load(y + i + LANES) + factor * wide_load(x + i + LANES);
        wide_store(y + i, low);
        wide_store(y + i + LANES, high);
    }
    if (i + LANES <= n) {
        wide_store(y + i, wide_load(y + i) + factor * wide_load(x + i));
        i += LANES;
    }
    if (i < n) {
        wide rest = wide_load_first(y + i, n - i) + factor * wide_load_first(x + i, n - i);
        wide_store_first(y + i, rest, n - i);
    }
}

INLINE void mean_step(size_t n_rows, size_t stride, float *rows, int full, size_t n) {
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    for (size_t r = 0; r < n_rows; r++) {
        wide row = wide_get(rows + r * stride, full, n);
        low += _mm256_cvtps_pd(_mm256_castps256_ps128(row));
        high += _mm256_cvtps_pd(_mm256_extractf128_ps(row, 1));
    }
    const __m256d count = _mm256_set1_pd((double)n_rows);
    wide mean = _mm256_set_m128(_mm256_cvtpd_ps(high / count), _mm256_cvtpd_ps(low / count));
    for (size_t r = 0; r < n_rows; r++) {
        wide_put(rows + r * stride, mean, full, n);
    }
}

void OCT_WIDE(mean_f32)(size_t n, size_t n_rows, size_t stride, float *rows) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        mean_step(n_rows, stride, rows + i, 1, 0);
    }
    if (i < n) {
        mean_step(n_rows, stride, rows + i, 0, n - i);
    }
}

void OCT_WIDE(divide_f32)(size_t n, const float *x, float weight, float *z) {
    const wide by = wide_of(weight);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide low = wide_load(x + i) / by, high = wide_load(x + i + LANES) / by;
        wide_store(z + i, low);
        wide_store(z + i + LANES, high);
    }
    if (i + LANES <= n) {
        wide_store(z + i, wide_load(x + i) / by);
        i += LANES;
    }
    if (i < n) {
        wide_store_first(z + i, wide_load_first(x + i, n - i) / by, n - i);
    }
}

#endif
