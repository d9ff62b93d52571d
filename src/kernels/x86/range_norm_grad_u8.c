/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm_grad_u8.c - the gradient of Range EvoNorm on bytes, in one pass and a few corrections.
 *
 * The pass goes from bytes to dx and the three column sums in registers. Only at its end is the
 * share known that goes to each chunk's first largest and first smallest value. So these are looked
 * for among the bytes meanwhile, with the gradient that arrived at them, and their dx is computed
 * again, LANES chunks at a time. A found element is one number,
 *
 *     bits 31 … 24: byte of x | 23 … 8: place in its piece | 7 … 0: byte of dy
 *
 * the smallest of which is the first smallest; for the first largest, places are turned around.
 *
 * The pass leaves out what cannot happen with ordinary numbers (a NaN on its way to bf16, an
 * infinity that meets a slope of 0). Others go to ref.
 */
#include "kernels/x86/byte_columns.h"
#include "kernels/x86/groups.h"
#include "kernels/x86/pieces.h"

struct gradient {
    size_t hw, c, groups;
    const uint8_t *q;
    float q_scale, q_zero;
    const float *gamma, *v, *scale, *used;
    const int8_t *dy;
    float dy_scale;
    int mask;
    float *floats; /* dx, as one or the other */
    uint16_t *halves;
    const float *channel_scale; /* gamma * used */
};

/* --- one element ------------------------------------------------------------------------------ */

#if defined(__AVX512F__)

typedef __mmask16 lanes;

INLINE lanes lanes_equal(wide a, wide b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

/* Where v has any of these bits. */
INLINE lanes lanes_any(ints v, ints bits) {
    return _mm512_test_epi32_mask(v, bits);
}

/* a, or 0 */
INLINE wide wide_kept(lanes where, wide a) {
    return _mm512_maskz_mov_ps(where, a);
}

/* a + b, or a */
INLINE wide wide_add_where(lanes where, wide a, wide b) {
    return _mm512_mask_add_ps(a, where, a, b);
}

INLINE wide wide_where(lanes where, wide yes, wide no) {
    return _mm512_mask_mov_ps(no, where, yes);
}

/* bf16's bits in the upper half, of any float but a NaN; the lower half is rubbish. */
INLINE ints round_upper(wide x) {
    ints bits = ints_bits(x);
    __mmask16 odd = _mm512_test_epi32_mask(bits, ints_of(0x10000));
    return _mm512_mask_add_epi32(ints_add(bits, ints_of(0x7fff)), odd, bits, ints_of(0x8000));
}

/* Two rows as bf16. */
INLINE void put_halves(uint16_t *y, size_t c, wide r0, wide r1, int full, size_t n) {
#if defined(__AVX512BF16__)
    ints both = (ints)_mm512_cvtne2ps_pbh(r1, r0); /* neither NaN nor denormal */
#else
    const ints odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    ints both = _mm512_permutex2var_epi16(round_upper(r0), odd, round_upper(r1));
#endif
    const __mmask16 some = full ? (__mmask16)0xffff : wide_first(n);
    _mm256_mask_storeu_epi16(y, some, _mm512_castsi512_si256(both));
    _mm256_mask_storeu_epi16(y + c, some, _mm512_extracti64x4_epi64(both, 1));
}

#else

typedef __m256 lanes;

INLINE lanes lanes_equal(wide a, wide b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

INLINE lanes lanes_any(ints v, ints bits) {
    ints none = _mm256_cmpeq_epi32(ints_and(v, bits), ints_of(0));
    return wide_bits(ints_xor(none, ints_of(-1)));
}

INLINE wide wide_kept(lanes where, wide a) {
    return _mm256_and_ps(where, a);
}

INLINE wide wide_add_where(lanes where, wide a, wide b) {
    return a + _mm256_and_ps(where, b); /* a is not -0 here */
}

INLINE wide wide_where(lanes where, wide yes, wide no) {
    return _mm256_blendv_ps(no, yes, where);
}

INLINE ints round_upper(wide x) {
    ints bits = ints_bits(x), odd = ints_and(ints_shift_right(bits, 16), ints_of(1));
    return ints_add(ints_add(bits, ints_of(0x7fff)), odd);
}

INLINE void put_halves(uint16_t *y, size_t c, wide r0, wide r1, int full, size_t n) {
    ints_put_16(y, ints_shift_right(round_upper(r0), 16), full, n);
    ints_put_16(y + c, ints_shift_right(round_upper(r1), 16), full, n);
}

#endif

/* What is the same for a whole call. */
struct grids {
    struct byte_grid x;
    wide dy_scale;
    ints inner; /* bits of which q + 1 has one where q is not clipped */
};

INLINE struct grids grids_of(const struct gradient *a) {
    return (struct grids){byte_grid_of(a->q_scale, a->q_zero), wide_of(a->dy_scale),
                          ints_of(a->q_zero > 0.0f ? 0xfe : 0xff)};
}

/* dx, or 0 where its byte, as wide_get_u8 gives it, is clipped. */
INLINE wide unmasked(const struct grids *of, wide shifted, wide dx) {
    return wide_kept(lanes_any(ints_add(ints_bits(shifted), ints_of(1)), of->inner), dx);
}

/* t and what hangs on it. */
struct gate {
    wide h, tilted; /* h + a * slope */
    lanes inside;   /* where the slope is 1/6 */
};

INLINE struct gate gate_of(wide v, wide x) {
    wide a = (v * x) * wide_of(SIXTH), t = a + wide_of(0.5f);
    wide h = held(t);
    lanes inside = lanes_equal(t, h); /* within the borders t is held nowhere */
    return (struct gate){h, wide_add_where(inside, h, a), inside};
}

/* --- the pass --------------------------------------------------------------------------------- */

/* A row's x and dy. They are loaded two rows ahead: a row takes so long that the processor's window
 * does not reach far into the next. */
struct row {
    wide shifted, x, dy;
};

INLINE struct row row_get(const struct gradient *a, const struct grids *of, size_t i, int full,
                          size_t n) {
    wide shifted = wide_get_u8(a->q + i, full, n);
    wide dy = wide_ints(ints_get_s8(a->dy + i, full, n));
    return (struct row){shifted, byte_value(&of->x, shifted), of->dy_scale * dy};
}

/* Adds to the three sums, returns dx without shares. */
INLINE wide gradient_row(const struct grids *of, wide v, wide scale, const struct row *row, wide *p,
                         wide *s, wide *u, int mask) {
    const wide x = row->x, d = row->dy;
    struct gate gate = gate_of(v, x);
    *p += d;
    *s += d * (x * gate.h);
    *u = wide_add_where(gate.inside, *u, (d * x) * (x * wide_of(SIXTH)));
    wide dx = (scale * d) * gate.tilted;
    return mask ? unmasked(of, row->shifted, dx) : dx;
}

INLINE void put_row(const struct gradient *a, size_t at, wide dx, int is_bf16, int full, size_t n) {
    if (is_bf16) {
        ints_put_16(a->halves + at, ints_shift_right(round_upper(dx), 16), full, n);
    } else {
        wide_put(a->floats + at, dx, full, n);
    }
}

INLINE void gradient_panel(const struct gradient *a, const struct panel *at, float *partial,
                           int is_bf16, int mask) {
    const int full = at->full;
    const size_t n = at->n, c = a->c;
    const struct grids of = grids_of(a);
    const wide v = wide_get(a->v + at->column, full, n);
    const wide scale = wide_get(a->channel_scale + at->column, full, n);
    float *partial_s = partial + 4 * CHUNK, *partial_u = partial + 8 * CHUNK;
    struct sums p = sums_load(partial, full, n), s = sums_load(partial_s, full, n),
                u = sums_load(partial_u, full, n);
    size_t r = 0, i = at->row * c + at->column;
    if (at->rows >= 4) {
        struct row x0 = row_get(a, &of, i, full, n), x1 = row_get(a, &of, i + c, full, n);
        for (; r + 4 <= at->rows; r += 4) {
            const size_t to = i;
            struct row x2 = row_get(a, &of, i + 2 * c, full, n);
            wide d0 = gradient_row(&of, v, scale, &x0, &p.p0, &s.p0, &u.p0, mask);
            struct row x3 = row_get(a, &of, i + 3 * c, full, n);
            wide d1 = gradient_row(&of, v, scale, &x1, &p.p1, &s.p1, &u.p1, mask);
            if (is_bf16) {
                put_halves(a->halves + to, c, d0, d1, full, n);
            }
            i += r + 8 <= at->rows ? 4 * c : 0; /* after the last, these once more */
            x0 = row_get(a, &of, i, full, n);
            wide d2 = gradient_row(&of, v, scale, &x2, &p.p2, &s.p2, &u.p2, mask);
            x1 = row_get(a, &of, i + c, full, n);
            wide d3 = gradient_row(&of, v, scale, &x3, &p.p3, &s.p3, &u.p3, mask);
            if (is_bf16) {
                put_halves(a->halves + to + 2 * c, c, d2, d3, full, n);
            } else {
                put_rows(a->floats + to, c, d0, d1, d2, d3, full, n);
            }
        }
        i += 4 * c;
    }
    sums_store(partial, &p, full, n);
    sums_store(partial_s, &s, full, n);
    sums_store(partial_u, &u, full, n);
    for (; r < at->rows; r++, i += c) {
        wide pr = wide_of(0.0f), sr = pr, ur = pr;
        struct row row = row_get(a, &of, i, full, n);
        wide d = gradient_row(&of, v, scale, &row, &pr, &sr, &ur, mask);
        put_row(a, i, d, is_bf16, full, n);
        sums_add_row(partial, r, pr, full, n);
        sums_add_row(partial_s, r, sr, full, n);
        sums_add_row(partial_u, r, ur, full, n);
    }
}

INLINE void floats_panel(const void *arguments, const struct panel *at, float *partial) {
    gradient_panel(arguments, at, partial, 0, 0);
}

INLINE void masked_floats_panel(const void *arguments, const struct panel *at, float *partial) {
    gradient_panel(arguments, at, partial, 0, 1);
}

INLINE void halves_panel(const void *arguments, const struct panel *at, float *partial) {
    gradient_panel(arguments, at, partial, 1, 0);
}

INLINE void masked_halves_panel(const void *arguments, const struct panel *at, float *partial) {
    gradient_panel(arguments, at, partial, 1, 1);
}

static void pass(const struct gradient *a, float *const *sums) {
    if (a->halves) {
        if (a->mask) {
            column_sums_in(BYTE_TILE_ROWS, a->hw, a->c, masked_halves_panel, a, 3, sums);
        } else {
            column_sums_in(BYTE_TILE_ROWS, a->hw, a->c, halves_panel, a, 3, sums);
        }
    } else if (a->mask) {
        column_sums_in(BYTE_TILE_ROWS, a->hw, a->c, masked_floats_panel, a, 3, sums);
    } else {
        column_sums_in(BYTE_TILE_ROWS, a->hw, a->c, floats_panel, a, 3, sums);
    }
}

/* --- places of extremes ----------------------------------------------------------------------- */

enum { MOST_STEPS = 256, MOST_ROWS = MOST_STEPS * MOST_STEPS };

/* How a piece is walked. The two bytes of a place are digits: step, and row in it; or where a step
 * is a row, the row's own. */
struct places {
    struct byte_steps steps;
    size_t digit; /* rows that one more in the higher digit is */
};

INLINE struct places places_of(size_t rows, size_t c) {
    struct byte_steps steps = byte_steps_of(rows, c);
    if (steps.rows > 1 && c % LANES == 0 && steps.n <= MOST_STEPS) {
        return (struct places){steps, steps.rows};
    }
    return (struct places){{rows, 1, c, c}, MOST_STEPS};
}

/* The row in its piece. */
INLINE uint32_t row_of(const struct places *s, uint32_t number, int turned) {
    uint32_t place = (turned ? ~number : number) >> 8;
    return (place >> 8 & 255) * (uint32_t)s->digit + (place & 255);
}

/* A panel's extremes so far: byte of x, step, byte of dy. */
struct found {
    ints x, step, dy;
};

INLINE void found_add(struct found *f, byte_lanes where, ints x, ints step, ints dy) {
    f->x = x;
    f->step = bytes_where(where, step, f->step);
    f->dy = bytes_where(where, dy, f->dy);
}

/* The panel's first smallest and first largest of steps begin … end - 1. They are taken from the
 * last to the first, so that of equals the first remains. */
INLINE void search(const struct gradient *a, const struct byte_steps *steps, size_t start,
                   size_t begin, size_t end, struct found *least, struct found *most) {
    const size_t total = a->hw * a->c;
    const ints one = ints_of_8(1);
    ints step = ints_of_8((int)(end - begin - 1));
    *least = (struct found){ints_of_8(255), step, step};
    *most = (struct found){ints_of_8(0), step, step};
    for (size_t k = end, at = start + end * steps->stride; k-- > begin;) {
        at -= steps->stride;
        ints x, d;
        if (total - at >= BYTES) {
            x = bytes_load(a->q + at);
            d = bytes_load(a->dy + at);
        } else {
            x = bytes_get(a->q + at, a->q + total);
            d = bytes_get(a->dy + at, a->dy + total);
        }
        found_add(least, bytes_up_to(x, least->x), bytes_smaller(x, least->x), step, d);
        found_add(most, bytes_up_to(most->x, x), bytes_larger(x, most->x), step, d);
        step = bytes_subtract(step, one);
    }
}

/* Bytes of a panel, lane by lane. */
struct found_bytes {
    uint8_t x[BYTES], step[BYTES], dy[BYTES];
};

INLINE void found_store(struct found_bytes *to, const struct found *f) {
    ints_store(to->x, f->x);
    ints_store(to->step, f->step);
    ints_store(to->dy, f->dy);
}

/* Numbers of lanes first … first + LANES - 1. The step is one digit of the place, `other` the other.
 */
INLINE ints numbers_of(const struct found_bytes *f, size_t first, int step_is_higher, size_t other,
                       int turned) {
    const ints last = ints_of(turned ? 255 : 0);
    ints step = ints_xor(ints_get_u8(f->step + first, 1, 0), last);
    ints rest = ints_xor(ints_of((int32_t)other), last);
    ints place = step_is_higher ? ints_or(ints_shift_left(step, 8), rest)
                                : ints_or(ints_shift_left(rest, 8), step);
    ints ends = ints_or(ints_shift_left(ints_get_u8(f->x + first, 1, 0), 24),
                        ints_get_u8(f->dy + first, 1, 0));
    return ints_or(ends, ints_shift_left(place, 8));
}

INLINE ints ints_get_bits(const uint32_t *p, int full, size_t n) {
    return ints_get((const int32_t *)p, full, n);
}

INLINE void ints_put_bits(uint32_t *p, ints v, int full, size_t n) {
    if (full) {
        ints_store(p, v);
    } else {
        uint32_t all[LANES];
        ints_store(all, v);
        memcpy(p, all, n * sizeof *p);
    }
}

/* Numbers of the first smallest and first largest of each column of a piece. */
static void find_places(const struct gradient *a, const struct places *s, size_t first_row,
                        uint32_t *low, uint32_t *high) {
    const struct byte_steps *steps = &s->steps;
    const size_t c = a->c;
    struct found least, most;
    struct found_bytes least_bytes, most_bytes;
    if (steps->rows > 1) {
        search(a, steps, first_row * c, 0, steps->n, &least, &most);
        found_store(&least_bytes, &least);
        found_store(&most_bytes, &most);
        for (size_t j = 0; j < c; j += LANES) {
            ints l = numbers_of(&least_bytes, j, 1, 0, 0);
            ints h = numbers_of(&most_bytes, j, 1, 0, 1);
            for (size_t row = 1; row < steps->rows; row++) {
                const size_t lane = row * c + j;
                l = ints_smaller_bits(l, numbers_of(&least_bytes, lane, 1, row, 0));
                h = ints_larger_bits(h, numbers_of(&most_bytes, lane, 1, row, 1));
            }
            ints_put_bits(low + j, l, 1, 0);
            ints_put_bits(high + j, h, 1, 0);
        }
        return;
    }
    for (size_t first = 0; first < c; first += BYTES) {
        const size_t width = c - first < BYTES ? c - first : BYTES;
        for (size_t begin = 0; begin < steps->n; begin += MOST_STEPS) {
            const size_t end = steps->n - begin < MOST_STEPS ? steps->n : begin + MOST_STEPS;
            search(a, steps, first_row * c + first, begin, end, &least, &most);
            found_store(&least_bytes, &least);
            found_store(&most_bytes, &most);
            for (size_t j = 0; j < width; j += LANES) {
                const int full = width - j >= LANES;
                ints l = numbers_of(&least_bytes, j, 0, begin / MOST_STEPS, 0);
                ints h = numbers_of(&most_bytes, j, 0, begin / MOST_STEPS, 1);
                if (begin > 0) {
                    l = ints_smaller_bits(l, ints_get_bits(low + first + j, full, width - j));
                    h = ints_larger_bits(h, ints_get_bits(high + first + j, full, width - j));
                }
                ints_put_bits(low + first + j, l, full, width - j);
                ints_put_bits(high + first + j, h, full, width - j);
            }
        }
    }
}

/* --- shares ----------------------------------------------------------------------------------- */

/* LANES found elements: numbers, and what their channels have. */
struct chosen {
    ints number;
    wide v, scale;
};

/* Their rows' first elements, from the piece's on. */
INLINE ints offsets_of(const struct places *s, ints number, int turned, size_t c) {
    const ints low = ints_of(255);
    ints place = ints_shift_right(number, 8);
    place = turned ? ints_xor(ints_of(-1), place) : place;
    ints high_offset =
        ints_multiply(ints_and(ints_shift_right(place, 8), low), ints_of((int32_t)(s->digit * c)));
    return ints_add(high_offset, ints_multiply(ints_and(place, low), ints_of((int32_t)c)));
}

/* As wide_get_u8 gives it. */
INLINE wide shifted_of(ints number) {
    return wide_bits(ints_or(ints_shift_right(number, 24), ints_of(0x4b000000)));
}

/* Their dx again, plus or minus the share unless there is none to give: bits, of bf16 the lower 16.
 */
INLINE ints given(const struct gradient *a, const struct grids *of, const struct chosen *to,
                  wide share, int minus, lanes none) {
    wide shifted = shifted_of(to->number), x = byte_value(&of->x, shifted);
    wide d = of->dy_scale * wide_ints(ints_shift_arithmetic(ints_shift_left(to->number, 24), 24));
    wide dx = (to->scale * d) * gate_of(to->v, x).tilted;
    dx = wide_where(none, dx, minus ? dx - share : dx + share);
    dx = a->mask ? unmasked(of, shifted, dx) : dx;
    return a->halves ? ints_round_bf16(dx) : ints_bits(dx);
}

/* New values on their way to places in dx that are anywhere: the smallest of LANES chunks, then the
 * largest. */
struct corrections {
    uint32_t at[2][LANES], bits[2][LANES];
};

/* A chunk of equal bytes has its first largest where it has its first smallest, and gets nothing. */
INLINE void correct(const struct gradient *a, const struct grids *of, const struct chosen *smallest,
                    const struct chosen *largest, wide share, struct corrections *to) {
    lanes equal = lanes_equal(shifted_of(smallest->number), shifted_of(largest->number));
    ints_store(to->bits[0], given(a, of, smallest, share, 1, equal));
    ints_store(to->bits[1], given(a, of, largest, share, 0, equal));
}

/* Writes the first n of each. */
static void put_corrections(const struct gradient *a, size_t count,
                            const struct corrections *corrections, size_t n) {
    for (size_t k = 0; k < 2 * count; k++) {
        const uint32_t *at = corrections[k / 2].at[k % 2], *bits = corrections[k / 2].bits[k % 2];
        if (a->halves) {
            for (size_t i = 0; i < n; i++) {
                a->halves[at[i]] = (uint16_t)bits[i];
            }
        } else {
            for (size_t i = 0; i < n; i++) {
                memcpy(a->floats + at[i], &bits[i], sizeof bits[i]);
            }
        }
    }
}

/* Chunks of one piece: column j's of block b is in low[b * c + j] and high. */
static void give_columns(const struct gradient *a, const struct chunks *s,
                         const struct places *places, const float *share, const uint32_t *low,
                         const uint32_t *high) {
    enum { MOST_BLOCKS = 16 }; /* chunks of a group, at most */
    static const int32_t count[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const struct grids of = grids_of(a);
    const size_t c = a->c;
    struct corrections corrections[MOST_BLOCKS];
    for (size_t j = 0; j < c; j += LANES) {
        const int full = c - j >= LANES;
        const size_t n = full ? LANES : c - j;
        const wide by = wide_get(share + j, full, n);
        struct chosen smallest = {.v = wide_get(a->v + j, full, n),
                                  .scale = wide_get(a->channel_scale + j, full, n)};
        struct chosen largest = smallest;
        for (size_t b = 0; b < s->per_column; b++) {
            const ints first =
                ints_add(ints_get(count, 1, 0), ints_of((int32_t)(b * s->rows * c + j)));
            smallest.number = ints_get_bits(low + b * c + j, full, n);
            largest.number = ints_get_bits(high + b * c + j, full, n);
            struct corrections *to = &corrections[b];
            ints_store(to->at[0], ints_add(offsets_of(places, smallest.number, 0, c), first));
            ints_store(to->at[1], ints_add(offsets_of(places, largest.number, 1, c), first));
            correct(a, &of, &smallest, &largest, by, to);
        }
        put_corrections(a, s->per_column, corrections, n);
    }
}

/* The best of a chunk's pieces so far: its number without the row, and its place in the chunk's
 * order, (channel, row). */
struct best {
    uint32_t low, high, low_order, high_order;
};

/* Chunks of several pieces: their best in best[groups * n_chunks]; `numbers`: 2 * c. */
static void find_scattered(const struct gradient *a, const struct chunks *s,
                           const struct places *places, struct best *best, uint32_t *numbers) {
    const size_t c = s->c, k = s->n_chunks;
    const struct mixed column_step = mixed_of(s->per_column, s->per_chunk);
    for (size_t i = 0; i < k * s->groups; i++) {
        best[i] = (struct best){UINT32_MAX, 0, UINT32_MAX, UINT32_MAX};
    }
    for (size_t b = 0; b < s->per_column; b++) {
        const struct mixed first = mixed_of(b, s->per_chunk); /* chunk, piece in it */
        find_places(a, places, b * s->rows, numbers, numbers + c);
        for (size_t g = 0, j = 0; g < s->groups; g++) {
            struct mixed at = first;
            for (size_t end = j + s->width; j < end; j++) {
                struct best *to = &best[g * k + at.whole];
                const uint32_t low = numbers[j], high = numbers[c + j];
                const uint32_t top = (uint32_t)(j * s->hw + b * s->rows);
                const uint32_t low_order = top + row_of(places, low, 0);
                const uint32_t high_order = top + row_of(places, high, 1);
                if (low >> 24 < to->low >> 24 ||
                    (low >> 24 == to->low >> 24 && low_order < to->low_order)) {
                    to->low = low;
                    to->low_order = low_order;
                }
                if (high >> 24 > to->high >> 24 ||
                    (high >> 24 == to->high >> 24 && high_order < to->high_order)) {
                    to->high = high;
                    to->high_order = high_order;
                }
                at = mixed_add(at, column_step, s->per_chunk);
            }
        }
    }
}

/* What `correct` takes, of LANES chunks one by one. */
struct gathered {
    uint32_t number[LANES];
    float v[LANES], scale[LANES];
};

INLINE uint32_t gather(const struct gradient *a, struct gathered *to, size_t i, uint32_t number,
                       uint32_t order) {
    const size_t column = order / a->hw, row = order % a->hw;
    to->number[i] = number;
    to->v[i] = a->v[column];
    to->scale[i] = a->channel_scale[column];
    return (uint32_t)(row * a->c + column);
}

INLINE struct chosen chosen_of(const struct gathered *from) {
    return (struct chosen){bytes_load(from->number), wide_load(from->v), wide_load(from->scale)};
}

static void give_scattered(const struct gradient *a, const struct chunks *s, const float *share,
                           const struct best *best) {
    const struct grids of = grids_of(a);
    const size_t total = s->n_chunks * s->groups;
    for (size_t i = 0; i < total; i += LANES) {
        const size_t n = total - i < LANES ? total - i : LANES;
        struct gathered low = {.number = {0}}, high = low;
        struct corrections to = {.at = {{0}}};
        float shares[LANES] = {0};
        for (size_t k = 0; k < n; k++) {
            to.at[0][k] = gather(a, &low, k, best[i + k].low, best[i + k].low_order);
            to.at[1][k] = gather(a, &high, k, best[i + k].high, best[i + k].high_order);
            shares[k] = share[(i + k) / s->n_chunks * s->width];
        }
        const struct chosen smallest = chosen_of(&low), largest = chosen_of(&high);
        correct(a, &of, &smallest, &largest, wide_load(shares), &to);
        put_corrections(a, 1, &to, n);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

#if defined(__AVX512BF16__)
/* The instruction that makes bf16 takes denormals for 0, so there may be none. Where h + a * slope is
 * not 0 it is 2^-26 or more: near its zero a is about -1/4, and both terms are multiples of that. */
#define LEAST_SCALE 0x1p-98f
#else
#define LEAST_SCALE 0.0f
#endif

/* v * x, gamma * used * dy and dy * x are finite, so that none of them makes a NaN where a factor of
 * 0 meets it; and values are equal only where bytes are. */
static int is_plain(const struct gradient *a) {
    const float most = 1e38f, x = 255.0f * a->q_scale;
    const float unit = a->dy_scale < 0.0f ? -a->dy_scale : a->dy_scale, dy = 128.0f * unit;
    int plain = a->q_scale >= 1e-30f && a->q_scale <= 1e30f && dy <= 1e30f && dy * x <= most;
    /* What is not finite makes its product with 0, and so the sum, a NaN. */
    const wide zero = wide_of(0.0f);
    wide sum = zero, v_most = zero, scale_most = zero, scale_least = wide_of(most);
    for (size_t j = 0; j < a->c; j += LANES) {
        const int full = a->c - j >= LANES;
        wide v = wide_get(a->v + j, full, a->c - j);
        wide scale = magnitude(wide_get(a->channel_scale + j, full, a->c - j));
        sum += v * zero + scale * zero;
        v_most = wide_larger(magnitude(v), v_most);
        scale_most = wide_larger(scale, scale_most);
        scale_least =
            wide_smaller(wide_where(lanes_equal(scale, zero), scale_least, scale), scale_least);
    }
    float sums[LANES], v_sizes[LANES], scale_sizes[LANES], least[LANES];
    wide_store(sums, sum);
    wide_store(v_sizes, v_most);
    wide_store(scale_sizes, scale_most);
    wide_store(least, scale_least);
    for (size_t i = 0; i < LANES; i++) {
        plain &= sums[i] == 0.0f && v_sizes[i] * x <= most && scale_sizes[i] * dy <= most;
        plain &= unit == 0.0f || least[i] * unit >= LEAST_SCALE;
    }
    return plain;
}

INLINE void add_to(float *sum, wide term, int full, size_t n) {
    wide_put(sum, wide_get(sum, full, n) + term, full, n);
}

/* dgamma, dbeta, dv from the column sums, and share[c]. `used` is per channel. */
static void settle(const struct gradient *a, const struct chunks *s, const float *used,
                   float *const *sums, float *dgamma, float *dbeta, float *dv, float *share) {
    for (size_t j = 0; j < a->c; j += LANES) {
        const int full = a->c - j >= LANES;
        const size_t n = a->c - j;
        wide q = wide_get(sums[1] + j, full, n);
        add_to(dbeta + j, wide_get(sums[0] + j, full, n), full, n);
        add_to(dgamma + j, q * wide_get(used + j, full, n), full, n);
        add_to(dv + j, wide_get(a->channel_scale + j, full, n) * wide_get(sums[2] + j, full, n),
               full, n);
        wide_put(sums[1] + j, wide_get(a->gamma + j, full, n) * q, full, n);
    }
    const float factor = oct__range_factor(s->length);
    for (size_t g = 0; g < a->groups; g++) {
        const float total = group_total(sums[1] + g * s->width, s->width);
        const float each = -((total * (a->scale[g] * a->scale[g])) * factor) / (float)s->n_chunks;
        for (size_t j = g * s->width; j < (g + 1) * s->width; j++) {
            share[j] = each;
        }
    }
}

/* `work`: used, gamma * used and share per channel, three column sums; then numbers of found elements:
 * at most 16 chunks a group have two each, or where chunks are of several pieces, so that a group
 * has several columns, at most 8 chunks a column have a `best`, and 2 * c more are needed. Returns 0
 * and leaves everything as it is where ref must do it. */
static int gradient(struct gradient *a, float *dgamma, float *dbeta, float *dv, float *work) {
    const size_t c = a->c;
    float *used = work, *channel_scale = work + c, *share = work + 2 * c;
    float *const sums[] = {work + 3 * c, work + 4 * c, work + 5 * c};
    if (a->hw == 0 || a->hw * c > INT32_MAX) {
        return 0;
    }
    const struct chunks s = chunks_of(a->hw, c, a->groups);
    spread(c, a->groups, a->used, used);
    for (size_t j = 0; j < c; j++) {
        channel_scale[j] = a->gamma[j] * used[j];
    }
    a->channel_scale = channel_scale;
    if (s.rows > MOST_ROWS || !is_plain(a)) {
        return 0;
    }
    uint32_t *low = (uint32_t *)(work + 6 * c), *high = low + s.n_chunks * a->groups;
    struct best *best = (struct best *)(work + 8 * c);
    memset(sums[0], 0, 3 * c * sizeof(float));
    pass(a, sums);
    settle(a, &s, used, sums, dgamma, dbeta, dv, share);
    const struct places places = places_of(s.rows, c);
    if (s.per_chunk == 1) {
        for (size_t b = 0; b < s.per_column; b++) {
            find_places(a, &places, b * s.rows, low + b * c, high + b * c);
        }
        give_columns(a, &s, &places, share, low, high);
    } else {
        find_scattered(a, &s, &places, best, low);
        give_scattered(a, &s, share, best);
    }
    return 1;
}

#if !defined(__AVX512BF16__)

void OCT_WIDE(range_evonorm_grad_u8_f32)(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                         float q_scale, float q_zero, const float *gamma,
                                         const float *v, const float *scale, const float *used,
                                         const int8_t *dy, float dy_scale, int mask, float *dgamma,
                                         float *dbeta, float *dv, float *dx, float *work) {
    struct gradient a = {hw,    c,    groups, q,        q_scale, q_zero, gamma, v,
                         scale, used, dy,     dy_scale, mask,    dx,     NULL,  NULL};
    if (!gradient(&a, dgamma, dbeta, dv, work)) {
        oct_range_evonorm_grad_u8_f32__ref(hw, c, groups, q, q_scale, q_zero, gamma, v, scale, used,
                                           dy, dy_scale, mask, dgamma, dbeta, dv, dx, work);
    }
}

#endif

void OCT_WIDE(range_evonorm_grad_u8_bf16)(size_t hw, size_t c, size_t groups, const uint8_t *q,
                                          float q_scale, float q_zero, const float *gamma,
                                          const float *v, const float *scale, const float *used,
                                          const int8_t *dy, float dy_scale, int mask, float *dgamma,
                                          float *dbeta, float *dv, uint16_t *dx, float *work) {
    struct gradient a = {hw,    c,    groups, q,        q_scale, q_zero, gamma, v,
                         scale, used, dy,     dy_scale, mask,    NULL,   dx,    NULL};
    if (!gradient(&a, dgamma, dbeta, dv, work)) {
        oct_range_evonorm_grad_u8_bf16__ref(hw, c, groups, q, q_scale, q_zero, gamma, v, scale,
                                            used, dy, dy_scale, mask, dgamma, dbeta, dv, dx, work);
    }
}
