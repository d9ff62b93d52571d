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
#include "kernels/x86/source.h"

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

INLINE ints bits_at(const struct source *x, size_t i) {
    return ints_bits(source_get(x, i, 1, 0));
}

/* Where the vector that begins at i < n lies, so that it ends within n >= size. */
INLINE size_t at_most(size_t i, size_t n, size_t size) {
    return i + size <= n ? i : n - size;
}

/* --- range ------------------------------------------------------------------------------------ */

struct extremes {
    ints top, bottom, high; /* largest and smallest unsigned, largest signed */
};

INLINE void extremes_add(struct extremes *e, ints v) {
    e->top = ints_larger_bits(e->top, v);
    e->bottom = ints_smaller_bits(e->bottom, v);
    e->high = ints_larger(e->high, v);
}

INLINE void extremes_into(const struct extremes *e, size_t n, float *range) {
    uint32_t top[LANES], bottom[LANES], high[LANES];
    ints_store(top, e->top);
    ints_store(bottom, e->bottom);
    ints_store(high, e->high);
    for (size_t k = 0; k < n; k++) {
        widen_range(&range[0], &range[1], top[k]);
        widen_range(&range[0], &range[1], bottom[k]);
        widen_range(&range[0], &range[1], high[k]);
    }
}

INLINE void minmax(size_t n, struct source x, float *range) {
    if (n < LANES) {
        ints v = ints_bits(source_get(&x, 0, 0, n));
        extremes_into(&(struct extremes){v, v, v}, n, range);
        return;
    }
    ints v = bits_at(&x, 0);
    struct extremes a = {v, v, v}, b = a;
    size_t i = LANES;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        extremes_add(&a, bits_at(&x, i));
        extremes_add(&b, bits_at(&x, i + LANES));
        extremes_add(&a, bits_at(&x, i + 2 * LANES));
        extremes_add(&b, bits_at(&x, i + 3 * LANES));
    }
    for (; i < n; i += LANES) {
        extremes_add(&a, bits_at(&x, at_most(i, n, LANES)));
    }
    extremes_add(&a, b.top);
    extremes_add(&a, b.bottom);
    extremes_add(&a, b.high);
    extremes_into(&a, LANES, range);
}

void OCT_WIDE(minmax_sum_u8)(size_t n, const uint8_t *a, float scale_a, float zero_a,
                             const uint8_t *b, float scale_b, float zero_b, float *range) {
    minmax(n, source_u8_u8(a, scale_a, zero_a, b, scale_b, zero_b), range);
}

/* --- peak ------------------------------------------------------------------------------------- */

/* Without their signs floats are in order as they are. */
INLINE ints magnitude_at(const struct source *x, size_t i) {
    return ints_and(bits_at(x, i), ints_of(0x7fffffff));
}

INLINE void peak_into(ints found, size_t n, float *peak) {
    uint32_t bits[LANES];
    ints_store(bits, found);
    for (size_t k = 0; k < n; k++) {
        widen_range(NULL, peak, bits[k]);
    }
}

INLINE void absmax(size_t n, struct source x, float *peak) {
    if (n < LANES) {
        const ints all = ints_bits(source_get(&x, 0, 0, n));
        peak_into(ints_and(all, ints_of(0x7fffffff)), n, peak);
        return;
    }
    ints a = ints_of(0), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = ints_larger(a, magnitude_at(&x, i));
        b = ints_larger(b, magnitude_at(&x, i + LANES));
        c = ints_larger(c, magnitude_at(&x, i + 2 * LANES));
        d = ints_larger(d, magnitude_at(&x, i + 3 * LANES));
    }
    for (; i < n; i += LANES) {
        a = ints_larger(a, magnitude_at(&x, at_most(i, n, LANES)));
    }
    peak_into(ints_larger(ints_larger(a, b), ints_larger(c, d)), LANES, peak);
}

void OCT_WIDE(absmax_s32_s8)(size_t n, const int32_t *a, float scale_a, const int8_t *b,
                             float scale_b, float *peak) {
    absmax(n, source_s32_s8(a, scale_a, b, scale_b), peak);
}

#if !defined(__AVX512F__) /* avx512 measured no faster: all of these wait for loads */

void OCT_WIDE(minmax_f32)(size_t n, const float *x, float *range) {
    minmax(n, source_f32(x), range);
}

void OCT_WIDE(absmax_f32)(size_t n, const float *x, float *peak) {
    absmax(n, source_f32(x), peak);
}

INLINE ints smaller(ints a, ints b) {
    return _mm256_min_epi32(a, b);
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
            ints v = ints_get(x + at_most(i, n, LANES), 1, 0);
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

void OCT_WIDE(absmax_s32)(size_t n, const int32_t *x, uint32_t *peak) {
    ints a = ints_of(0), b = a;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a = ints_larger_bits(a, ints_magnitude(ints_load(x + i)));
        b = ints_larger_bits(b, ints_magnitude(ints_load(x + i + LANES)));
    }
    for (; i < n; i += LANES) {
        const size_t left = n - i;
        a = ints_larger_bits(a, ints_magnitude(ints_get(x + i, left >= LANES, left)));
    }
    uint32_t found[LANES];
    ints_store(found, ints_larger_bits(a, b));
    for (size_t k = 0; k < LANES; k++) {
        *peak = found[k] > *peak ? found[k] : *peak;
    }
}

#endif

/* bf16 are in order as floats are, twice as many in a vector. */
void OCT_WIDE(absmax_bf16)(size_t n, const uint16_t *x, float *peak) {
    enum { HALVES = 2 * LANES };
    const ints magnitude = ints_of(0x7fff7fff);
    uint16_t found[HALVES];
    if (n < HALVES) {
        memcpy(found, x, n * sizeof *x);
    } else {
        ints a = ints_of(0), b = a;
        size_t i = 0;
        for (; i + 2 * HALVES <= n; i += 2 * HALVES) {
            a = ints_larger_u16(a, ints_and(ints_load(x + i), magnitude));
            b = ints_larger_u16(b, ints_and(ints_load(x + i + HALVES), magnitude));
        }
        for (; i < n; i += HALVES) {
            a = ints_larger_u16(a, ints_and(ints_load(x + at_most(i, n, HALVES)), magnitude));
        }
        ints_store(found, ints_larger_u16(a, b));
    }
    for (size_t k = 0; k < HALVES && k < n; k++) {
        widen_range(NULL, peak, (found[k] & 0x7fffU) << 16);
    }
}
