/* SPDX-License-Identifier: Apache-2.0 */
/* outer_avx512bf16.c - weight gradients in bf16: pairs of samples, and the loop that multiplies them.
 *
 * vdpbf16ps adds two products to each of 16 sums. A vector of g (a pixel's 16 outputs, two samples
 * each) meets one broadcast pair of x after another: 8 inputs at up to 3 taps of the kernel, whose
 * 24 sums stay in registers over all pixels, rows and images. So a pixel is a load and 24 products,
 * and one product a cycle is all that the processors that have the instruction can do.
 *
 * The instruction is written out because GCC 12 does not put a broadcast into its memory operand,
 * and loads each pair into a register first.
 */
#include "kernels/outer.h"
#include "kernels/x86/wide.h"

/* --- pairs ----------------------------------------------------------------------------------- */

/* 16 bytes as they count, in the upper halves of floats. */
INLINE __m512i centered(const uint8_t *p, __m512 zero) {
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_castps_si512(_mm512_sub_ps(_mm512_cvtepi32_ps(bytes), zero));
}

void OCT_WIDE(pair_center_u8_bf16)(size_t pixels, size_t c, size_t step, size_t plane,
                                   const uint8_t *a, const uint8_t *b, float zero, uint32_t *y) {
    const __m512 off = _mm512_set1_ps(zero);
    for (size_t i = 0; i < c; i += OCT_OUTER_OUT, y += plane) {
        for (size_t p = 0; p < pixels; p++) {
            __m512i lower = _mm512_srli_epi32(centered(a + p * step + i, off), 16);
            __m512i upper = centered(b + p * step + i, off);
            _mm512_storeu_si512(y + p * OCT_OUTER_OUT,
                                _mm512_mask_blend_epi16(0xaaaaaaaa, lower, upper));
        }
    }
}

void OCT_WIDE(pair_bf16)(size_t pixels, size_t c, size_t plane, const uint16_t *a,
                         const uint16_t *b, uint32_t *y) {
    for (size_t i = 0; i < c; i += OCT_OUTER_OUT, y += plane) {
        for (size_t p = 0; p < pixels; p++) {
            const void *from_a = a + p * c + i, *from_b = b + p * c + i;
            __m512i lower = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from_a));
            __m512i upper = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from_b));
            _mm512_storeu_si512(y + p * OCT_OUTER_OUT,
                                _mm512_or_si512(lower, _mm512_slli_epi32(upper, 16)));
        }
    }
}

/* --- products -------------------------------------------------------------------------------- */

/* Named one by one: compilers keep arrays of them in memory. */
struct eight {
    __m512 s0, s1, s2, s3, s4, s5, s6, s7;
};

INLINE struct eight eight_load(const float *p) {
    return (struct eight){wide_load(p),      wide_load(p + 16), wide_load(p + 32),
                          wide_load(p + 48), wide_load(p + 64), wide_load(p + 80),
                          wide_load(p + 96), wide_load(p + 112)};
}

INLINE void eight_store(float *p, struct eight s) {
    wide_store(p, s.s0);
    wide_store(p + 16, s.s1);
    wide_store(p + 32, s.s2);
    wide_store(p + 48, s.s3);
    wide_store(p + 64, s.s4);
    wide_store(p + 80, s.s5);
    wide_store(p + 96, s.s6);
    wide_store(p + 112, s.s7);
}

/* What the loop below reads of x. */
struct pairs {
    uint32_t pair[OCT_OUTER_IN];
};

#define ADD_ONE(sum, offset) "vdpbf16ps " #offset "(%[x])%{1to16%}, %[g], %[" #sum "]\n\t"

/* A pixel's outputs with the 8 pairs at x. */
INLINE struct eight eight_add(struct eight s, __m512i g, const uint32_t *x) {
    __asm__(ADD_ONE(s0, 0) ADD_ONE(s1, 4) ADD_ONE(s2, 8) ADD_ONE(s3, 12) ADD_ONE(s4, 16)
                ADD_ONE(s5, 20) ADD_ONE(s6, 24) ADD_ONE(s7, 28)
            : [s0] "+v"(s.s0), [s1] "+v"(s.s1), [s2] "+v"(s.s2), [s3] "+v"(s.s3), [s4] "+v"(s.s4),
              [s5] "+v"(s.s5), [s6] "+v"(s.s6), [s7] "+v"(s.s7)
            : [g] "v"(g), [x] "r"(x), "m"(*(const struct pairs *)(const void *)x));
    return s;
}

/* Where a tap meets some pixel of a row. */
INLINE const uint32_t *meet(const struct oct__outer *form, size_t t, const uint32_t *row,
                            size_t p) {
    return row + (p * form->x_step + (size_t)form->tap[t].shift);
}

INLINE int meets(const struct oct__outer *form, size_t t, size_t p) {
    return p >= form->tap[t].first && p < form->tap[t].end;
}

INLINE size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

INLINE size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* `taps` is a constant where this is inlined. In the middle of a row all taps meet x, at its borders
 * some: `left` … `from` and `to` … `right`. */
INLINE void along(const struct oct__outer *form, size_t taps, const uint32_t *x, const uint32_t *g,
                  float *sums) {
    const size_t step = form->x_step;
    size_t left = form->tap[0].first, right = form->tap[0].end, from = left, to = right;
    for (size_t t = 1; t < taps; t++) {
        left = smaller(left, form->tap[t].first);
        from = larger(from, form->tap[t].first);
        to = smaller(to, form->tap[t].end);
        right = larger(right, form->tap[t].end);
    }
    if (from >= to) { /* nowhere all of them: no middle */
        from = to = right;
    }
    struct eight a = eight_load(sums), b = a, c = a;
    if (taps > 1) {
        b = eight_load(sums + OCT_OUTER_SUMS);
    }
    if (taps > 2) {
        c = eight_load(sums + 2 * OCT_OUTER_SUMS);
    }
#define BORDER(begin, end)                                                                         \
    for (size_t p = (begin); p < (end); p++) {                                                     \
        const __m512i outputs = _mm512_loadu_si512(g_row + p * OCT_OUTER_OUT);                     \
        if (meets(form, 0, p)) {                                                                   \
            a = eight_add(a, outputs, meet(form, 0, x_row, p));                                    \
        }                                                                                          \
        if (taps > 1 && meets(form, 1, p)) {                                                       \
            b = eight_add(b, outputs, meet(form, 1, x_row, p));                                    \
        }                                                                                          \
        if (taps > 2 && meets(form, 2, p)) {                                                       \
            c = eight_add(c, outputs, meet(form, 2, x_row, p));                                    \
        }                                                                                          \
    }
    for (size_t image = 0; image < form->images; image++) {
        for (size_t row = 0; row < form->rows; row++) {
            const uint32_t *x_row = x + image * form->x_image + row * form->x_row;
            const uint32_t *g_row = g + image * form->g_image + row * form->g_row;
            BORDER(left, from)
            if (from < to) {
                const uint32_t *x_a = meet(form, 0, x_row, from);
                const uint32_t *x_b = taps > 1 ? meet(form, 1, x_row, from) : x_a;
                const uint32_t *x_c = taps > 2 ? meet(form, 2, x_row, from) : x_a;
                const uint32_t *now = g_row + from * OCT_OUTER_OUT;
                const uint32_t *end = g_row + to * OCT_OUTER_OUT;
                for (; now != end; now += OCT_OUTER_OUT) {
                    const __m512i outputs = _mm512_loadu_si512(now);
                    a = eight_add(a, outputs, x_a);
                    x_a += step;
                    if (taps > 1) {
                        b = eight_add(b, outputs, x_b);
                        x_b += step;
                    }
                    if (taps > 2) {
                        c = eight_add(c, outputs, x_c);
                        x_c += step;
                    }
                }
            }
            BORDER(to, right)
        }
    }
#undef BORDER
    eight_store(sums, a);
    if (taps > 1) {
        eight_store(sums + OCT_OUTER_SUMS, b);
    }
    if (taps > 2) {
        eight_store(sums + 2 * OCT_OUTER_SUMS, c);
    }
}

void OCT_WIDE(outer_bf16_f32)(const struct oct__outer *form, const uint32_t *x, const uint32_t *g,
                              float *sums) {
    switch (form->taps) {
    case 1:
        along(form, 1, x, g, sums);
        break;
    case 2:
        along(form, 2, x, g, sums);
        break;
    default:
        along(form, 3, x, g, sums);
        break;
    }
}
