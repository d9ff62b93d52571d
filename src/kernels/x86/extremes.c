/* SPDX-License-Identifier: Apache-2.0 */
/* extremes.c - the wide kernels that find a tensor's range.
 *
 * The order of ref's bits in three maxima and no conversion. Among floats of one sign the bits
 * without a sign are in order (for negative ones backwards), so
 *
 *     largest unsigned  = the lowest value, where any value is negative
 *     largest signed    = the highest value, where any is not
 *     smallest unsigned = what is missing then: all values have the same sign
 *
 * Finding an extreme twice does no harm: the last vector overlaps the one before it.
 */
#include "kernels/x86/bytes.h"

#if !defined(__AVX512F__) /* avx512 measured no faster: all of these wait for loads */

/* The bits of a float in the order of values, see ref/extremes.c. */
INLINE int32_t order_of(uint32_t bits) {
    return (int32_t)(bits ^ (bits >> 31 ? 0x7fffffffU : 0U));
}

INLINE uint32_t bits_of(const float *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits;
}

/* Adds the float with these bits to the extremes low and high. */
INLINE void widen_range(float *low, float *high, uint32_t bits) {
    if (low && order_of(bits) < order_of(bits_of(low))) {
        memcpy(low, &bits, sizeof bits);
    }
    if (high && order_of(bits) > order_of(bits_of(high))) {
        memcpy(high, &bits, sizeof bits);
    }
}

INLINE ints smaller(ints a, ints b) {
    return _mm256_min_epi32(a, b);
}

/* Without a sign. */
INLINE ints larger_bits(ints a, ints b) {
    return _mm256_max_epu32(a, b);
}

INLINE ints smaller_bits(ints a, ints b) {
    return _mm256_min_epu32(a, b);
}

INLINE ints load_bits(const float *p) {
    return ints_bits(wide_load(p));
}

struct extremes {
    ints top, bottom, high; /* largest and smallest unsigned, largest signed */
};

INLINE void extremes_add(struct extremes *e, ints v) {
    e->top = larger_bits(e->top, v);
    e->bottom = smaller_bits(e->bottom, v);
    e->high = ints_larger(e->high, v);
}

void OCT_WIDE(minmax_f32)(size_t n, const float *x, float *range) {
    if (n < LANES) {
        for (size_t i = 0; i < n; i++) {
            widen_range(&range[0], &range[1], bits_of(&x[i]));
        }
        return;
    }
    ints v = load_bits(x);
    struct extremes a = {v, v, v}, b = a;
    size_t i = LANES;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        extremes_add(&a, load_bits(x + i));
        extremes_add(&b, load_bits(x + i + LANES));
        extremes_add(&a, load_bits(x + i + 2 * LANES));
        extremes_add(&b, load_bits(x + i + 3 * LANES));
    }
    for (; i < n; i += LANES) {
        extremes_add(&a, load_bits(x + (i + LANES <= n ? i : n - LANES)));
    }
    uint32_t top[LANES], bottom[LANES], high[LANES];
    ints_store(top, larger_bits(a.top, b.top));
    ints_store(bottom, smaller_bits(a.bottom, b.bottom));
    ints_store(high, ints_larger(a.high, b.high));
    for (size_t k = 0; k < LANES; k++) {
        widen_range(&range[0], &range[1], top[k]);
        widen_range(&range[0], &range[1], bottom[k]);
        widen_range(&range[0], &range[1], high[k]);
    }
}

void OCT_WIDE(minmax_s32)(size_t n, const int32_t *x, int32_t *range) {
    ints low = ints_of(range[0]), high = ints_of(range[1]), low2 = low, high2 = high;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        ints v = ints_get(x + i, 1, 0), u = ints_get(x + i + LANES, 1, 0);
        low = smaller(low, v);
        high = ints_larger(high, v);
        low2 = smaller(low2, u);
        high2 = ints_larger(high2, u);
    }
    if (n >= LANES) {
        for (; i < n; i += LANES) {
            ints v = ints_get(x + (i + LANES <= n ? i : n - LANES), 1, 0);
            low = smaller(low, v);
            high = ints_larger(high, v);
        }
    }
    int32_t lows[LANES], highs[LANES];
    ints_store(lows, smaller(low, low2));
    ints_store(highs, ints_larger(high, high2));
    for (size_t k = 0; k < LANES; k++) {
        range[0] = lows[k] < range[0] ? lows[k] : range[0];
        range[1] = highs[k] > range[1] ? highs[k] : range[1];
    }
    for (; i < n; i++) { /* fewer than LANES in all */
        range[0] = x[i] < range[0] ? x[i] : range[0];
        range[1] = x[i] > range[1] ? x[i] : range[1];
    }
}

/* Without their signs floats are in order as they are. */
void OCT_WIDE(absmax_f32)(size_t n, const float *x, float *peak) {
    const ints magnitude = ints_of(0x7fffffff);
    if (n < LANES) {
        for (size_t i = 0; i < n; i++) {
            widen_range(NULL, peak, bits_of(&x[i]) & 0x7fffffffU);
        }
        return;
    }
    ints a = ints_of(0), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = ints_larger(a, ints_and(load_bits(x + i), magnitude));
        b = ints_larger(b, ints_and(load_bits(x + i + LANES), magnitude));
        c = ints_larger(c, ints_and(load_bits(x + i + 2 * LANES), magnitude));
        d = ints_larger(d, ints_and(load_bits(x + i + 3 * LANES), magnitude));
    }
    for (; i < n; i += LANES) {
        a = ints_larger(a, ints_and(load_bits(x + (i + LANES <= n ? i : n - LANES)), magnitude));
    }
    uint32_t found[LANES];
    ints_store(found, ints_larger(ints_larger(a, b), ints_larger(c, d)));
    for (size_t k = 0; k < LANES; k++) {
        widen_range(NULL, peak, found[k]);
    }
}

#endif
