/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - the k largest of n words: a guess, the candidates above it, and radix selection.
 *
 * Radix selection alone would count every word's digits four times, a word at a time. So it is
 * first asked about one word in seventeen, for a bound that a little more than k words should
 * exceed; a kernel finds those at the speed of memory; and radix selection finds the k-th among
 * them, exactly. Where the bound was too high for k, everything is a candidate. So the guess decides
 * about time alone, and the worst case is still linear.
 *
 *     words    . # . . # # . . . # . .      # above the guess
 *     keys     # # # #        their bits     ┐ candidates,
 *     places   1 4 5 9                       ┘ in order of place
 */
#include "engine/select.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "kernels/kernels.h"

/* Below this, a guess costs more than it saves. The step is odd so that it meets all channels. */
enum { GUESS_FROM = 1024, GUESS_STEP = 17, DIGIT = 8, DIGITS = 1 << DIGIT };

struct work {
    uint32_t *keys, *places, *rest, *bits;
};

static size_t whole_lines(size_t n) {
    return (n + 15) / 16 * 16;
}

size_t oct__select_bytes(size_t n) {
    return (3 * whole_lines(n) + whole_lines((n + 31) / 32)) * sizeof(uint32_t);
}

static struct work work_at(void *memory, size_t n) {
    const size_t step = whole_lines(n);
    uint32_t *first = memory;
    return (struct work){first, first + step, first + 2 * step, first + 3 * step};
}

static uint32_t key_at(const void *words, size_t i, uint32_t mask) {
    uint32_t word;
    memcpy(&word, (const char *)words + i * sizeof word, sizeof word);
    return word & mask;
}

/* A bound with fewer than k keys above it and, with *ties of those equal to it, k. */
static uint32_t bound_of(size_t n, const uint32_t *keys, size_t k, uint32_t *rest, size_t *ties) {
    uint32_t bound = 0;
    const uint32_t *from = keys;
    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        uint32_t counts[DIGITS] = {0}, digit = DIGITS - 1;
        for (size_t i = 0; i < n; i++) {
            counts[from[i] >> shift & (DIGITS - 1)]++;
        }
        for (; counts[digit] < k; digit--) {
            k -= counts[digit];
        }
        bound |= digit << shift;
        if (counts[digit] == k) {
            break; /* all of these: what their other digits are does not matter */
        }
        size_t n_rest = 0;
        for (size_t i = 0; i < n; i++) {
            const uint32_t key = from[i];
            rest[n_rest] = key;
            n_rest += (key >> shift & (DIGITS - 1)) == digit;
        }
        from = rest;
        n = n_rest;
    }
    *ties = k;
    return bound;
}

/* A bound that some more than k words should reach, from a sample; 0 where that is not worth it. */
static uint32_t guess(size_t n, const void *words, uint32_t mask, size_t k, struct work *work) {
    if (n < GUESS_FROM) {
        return 0;
    }
    size_t n_sample = 0, ties;
    for (size_t i = 0; i < n; i += GUESS_STEP) {
        work->keys[n_sample++] = key_at(words, i, mask);
    }
    /* The number of the k in the sample spreads like a Poisson number; three spreads are enough. */
    const double mean = (double)k * (double)n_sample / (double)n;
    const double rank = mean + 3.0 * sqrt(mean) + 2.0;
    if (rank > (double)n_sample / 4.0) {
        return 0;
    }
    return bound_of(n_sample, work->keys, (size_t)rank, work->rest, &ties);
}

static size_t find_candidates(size_t n, const void *words, uint32_t mask, uint32_t least,
                              struct work *work) {
    if (least == 0) {
        for (size_t i = 0; i < n; i++) {
            work->keys[i] = key_at(words, i, mask);
            work->places[i] = (uint32_t)i;
        }
        return n;
    }
    size_t count = 0;
    oct__kernels()->above_u32(n, words, mask, least, work->bits);
    for (size_t i = 0; i < (n + 31) / 32; i++) {
        for (uint32_t bits = work->bits[i]; bits != 0; bits &= bits - 1) {
            const size_t place = 32 * i + oct__lowest_bit(bits);
            work->keys[count] = key_at(words, place, mask);
            work->places[count++] = (uint32_t)place;
        }
    }
    return count;
}

static uint32_t largest_place(size_t n, const void *words, uint32_t mask) {
    size_t best = 0;
    uint32_t largest = key_at(words, 0, mask);
    for (size_t i = 1; i < n; i++) {
        const uint32_t key = key_at(words, i, mask);
        if (key > largest) {
            largest = key;
            best = i;
        }
    }
    return (uint32_t)best;
}

void oct__select_largest(size_t n, const void *words, uint32_t mask, size_t k, void *work,
                         uint32_t *places) {
    if (k == 1) {
        places[0] = largest_place(n, words, mask);
        return;
    }
    struct work own = work_at(work, n);
    const uint32_t least = guess(n, words, mask, k, &own);
    size_t count = find_candidates(n, words, mask, least, &own);
    if (count < k) {
        count = find_candidates(n, words, mask, 0, &own);
    }
    size_t ties, taken = 0;
    const uint32_t bound = bound_of(count, own.keys, k, own.rest, &ties);
    for (size_t i = 0; i < count && taken < k; i++) {
        const uint32_t key = own.keys[i];
        if (key > bound || (key == bound && ties > 0)) {
            ties -= key == bound;
            places[taken++] = own.places[i];
        }
    }
}
