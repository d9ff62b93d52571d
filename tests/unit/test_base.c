/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - src/base: status, memory, arena, randomness, threads, SHA-256, CPU levels, log.
 *
 * Numbers that other people published (Philox, SHA-256) are compared with theirs; the rest with
 * what the headers promise.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef OCT_HAVE_THREADS
#include <pthread.h>
#endif

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/sha256.h"

/* --- status -------------------------------------------------------------------------------- */

static oct_status fail_with(const char *text, int value) {
    OCT_FAIL(SHAPE, "%s is %d; use another", text, value);
}

static oct_status forward(int *reached) {
    OCT_TRY(fail_with("width", 7));
    *reached = 1;
    return OCT_OK;
}

static void status_names_and_meanings(void **state) {
    (void)state;
    assert_string_equal(oct_status_name(OCT_OK), "OK");
    assert_string_equal(oct_status_name(OCT_STATUS_CORRUPT), "CORRUPT");
    assert_string_equal(oct_status_name((oct_status)OCT_STATUS_COUNT), "UNKNOWN");
    assert_string_equal(oct_status_name((oct_status)-1), "UNKNOWN");
    for (int i = 0; i < OCT_STATUS_COUNT; i++) {
        assert_true(strlen(oct_status_name((oct_status)i)) > 1);
        assert_true(strlen(oct_status_meaning((oct_status)i)) > 3);
    }
    assert_string_equal(oct_status_meaning((oct_status)999), "not a status of this version");
}

static void status_detail_is_kept_and_forwarded(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(forward(&reached), OCT_STATUS_SHAPE);
    assert_int_equal(reached, 0);
    assert_string_equal(oct_last_error(), "width is 7; use another");
    oct_status status = oct__fail_within(OCT_STATUS_SHAPE, "layer %d: ", 3);
    assert_int_equal(status, OCT_STATUS_SHAPE);
    assert_string_equal(oct_last_error(), "layer 3: width is 7; use another");
    /* The old detail may be an argument of the new one. */
    status = oct__fail(OCT_STATUS_IO, "[%s]", oct_last_error());
    assert_int_equal(status, OCT_STATUS_IO);
    assert_string_equal(oct_last_error(), "[layer 3: width is 7; use another]");
}

static void status_detail_is_cut_at_its_size(void **state) {
    (void)state;
    char text[2 * OCT_DETAIL_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    oct_status status = oct__fail(OCT_STATUS_IO, "%s", text);
    assert_int_equal(status, OCT_STATUS_IO);
    assert_int_equal(strlen(oct_last_error()), OCT_DETAIL_BYTES - 1);
    status = oct__fail_within(OCT_STATUS_IO, "%s", "epoch 1: ");
    assert_int_equal(status, OCT_STATUS_IO);
    assert_int_equal(strlen(oct_last_error()), OCT_DETAIL_BYTES - 1);
    assert_memory_equal(oct_last_error(), "epoch 1: xxx", 12);
}

static void version_of_header_and_library_agree(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", OCT_VERSION_MAJOR, OCT_VERSION_MINOR,
             OCT_VERSION_PATCH);
    assert_string_equal(oct_version(), text);
    assert_string_equal(oct_version(), OCT_VERSION);
}

/* --- memory -------------------------------------------------------------------------------- */

static int all_zero(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static void alloc_gives_zeroed_aligned_memory(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100001};
    for (size_t i = 0; i < OCT_COUNT_OF(sizes); i++) {
        void *memory = NULL;
        assert_int_equal(oct__alloc(sizes[i], "test", &memory), OCT_OK);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        assert_true(all_zero(memory, sizes[i]));
        memset(memory, 0xa5, sizes[i]); /* so that a reused block would show */
        oct__free(memory);
    }
    oct__free(NULL);
}

static void alloc_refuses_what_cannot_be(void **state) {
    (void)state;
    void *memory = &memory;
    assert_int_equal(oct__alloc(SIZE_MAX, "a table", &memory), OCT_STATUS_NO_MEMORY);
    assert_ptr_equal(memory, &memory);
    assert_non_null(strstr(oct_last_error(), "a table: 18446744073709551615 bytes"));
    assert_int_equal(oct__alloc(SIZE_MAX - 62, "a table", &memory), OCT_STATUS_NO_MEMORY);
    assert_int_equal(oct__alloc_array(SIZE_MAX / 4, 5, "a table", &memory), OCT_STATUS_NO_MEMORY);
    assert_non_null(strstr(oct_last_error(), "elements of 5 bytes"));
    assert_int_equal(oct__alloc_array(3, 0, "nothing", &memory), OCT_OK);
    oct__free(memory);
}

static void alloc_fails_on_demand(void **state) {
    (void)state;
    void *memory[4] = {NULL};
    uint64_t before = oct__alloc_count();
    oct__alloc_fail_after(3);
    assert_int_equal(oct__alloc(8, "one", &memory[0]), OCT_OK);
    assert_int_equal(oct__alloc(8, "two", &memory[1]), OCT_OK);
    assert_int_equal(oct__alloc(8, "three", &memory[2]), OCT_STATUS_NO_MEMORY);
    assert_non_null(strstr(oct_last_error(), "three"));
    assert_int_equal(oct__alloc(8, "four", &memory[3]), OCT_STATUS_NO_MEMORY);
    oct__alloc_fail_after(0);
    assert_int_equal(oct__alloc(8, "five", &memory[2]), OCT_OK);
    assert_int_equal(oct__alloc_count() - before, 5);
    assert_null(memory[3]);
    for (int i = 0; i < 3; i++) {
        oct__free(memory[i]);
    }
}

static void alloc_grow_keeps_what_was_there(void **state) {
    (void)state;
    void *array = NULL;
    size_t capacity = 0;
    uint64_t before = oct__alloc_count();
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(oct__alloc_grow(&array, &capacity, i + 1, sizeof i, "numbers"), OCT_OK);
        ((uint32_t *)array)[i] = i;
    }
    assert_true(capacity >= 1000);
    assert_true(oct__alloc_count() - before <= 8); /* it doubles: 16, 32 … 1024 */
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(((uint32_t *)array)[i], i);
    }
    void *kept = array;
    size_t kept_capacity = capacity;
    oct__alloc_fail_after(1);
    assert_int_equal(oct__alloc_grow(&array, &capacity, capacity + 1, 4, "numbers"),
                     OCT_STATUS_NO_MEMORY);
    oct__alloc_fail_after(0);
    assert_ptr_equal(array, kept);
    assert_int_equal(capacity, kept_capacity);
    oct__free(array);

    char *text = NULL;
    assert_int_equal(oct__alloc_text("eight bits", "text", &text), OCT_OK);
    assert_string_equal(text, "eight bits");
    oct__free(text);
}

static void arena_hands_out_separate_aligned_pieces(void **state) {
    (void)state;
    struct oct__arena arena;
    oct__arena_init(&arena);
    enum { PIECES = 300 };
    unsigned char *pieces[PIECES];
    size_t sizes[PIECES], total = 0;
    for (int i = 0; i < PIECES; i++) {
        sizes[i] = i % 100 == 99 ? 200000 : (size_t)(1 + i * 7 % 900);
        void *piece = NULL;
        assert_int_equal(oct__arena_take(&arena, sizes[i], &piece), OCT_OK);
        assert_int_equal((uintptr_t)piece % 64, 0);
        assert_true(all_zero(piece, sizes[i]));
        pieces[i] = piece;
        memset(piece, i % 251 + 1, sizes[i]);
        total += (sizes[i] + 63) / 64 * 64;
    }
    for (int i = 0; i < PIECES; i++) { /* nobody wrote into a neighbour */
        assert_int_equal(pieces[i][0], i % 251 + 1);
        assert_int_equal(pieces[i][sizes[i] - 1], i % 251 + 1);
    }
    assert_int_equal(arena.total_bytes, total);
    const char *text = NULL;
    assert_int_equal(oct__arena_text(&arena, &text, "layer %d of %s", 4, "resnet20"), OCT_OK);
    assert_string_equal(text, "layer 4 of resnet20");
    oct__arena_fini(&arena);
    assert_null(arena.chunks);
    assert_int_equal(arena.total_bytes, 0);
}

static void arena_survives_a_failed_request(void **state) {
    (void)state;
    struct oct__arena arena;
    oct__arena_init(&arena);
    void *first = NULL, *second = NULL;
    assert_int_equal(oct__arena_take(&arena, 100, &first), OCT_OK);
    memset(first, 7, 100);
    oct__alloc_fail_after(1);
    assert_int_equal(oct__arena_take(&arena, 1 << 20, &second), OCT_STATUS_NO_MEMORY);
    const char *text = NULL;
    assert_int_equal(oct__arena_text(&arena, &text, "%0100000d", 1), OCT_STATUS_NO_MEMORY);
    oct__alloc_fail_after(0);
    assert_null(second);
    assert_null(text);
    assert_int_equal(oct__arena_take(&arena, SIZE_MAX - 5, &second), OCT_STATUS_NO_MEMORY);
    assert_int_equal(oct__arena_take(&arena, 100, &second), OCT_OK);
    assert_int_equal(((unsigned char *)first)[99], 7);
    oct__arena_fini(&arena);
}

/* --- randomness ---------------------------------------------------------------------------- */

/* The known answers of the authors' own implementation (Random123, kat_vectors, philox4x32 10 and
 * philox4x32 7). */
static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4], rounding[4];
    } rows[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
         {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
         {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        struct oct__stream stream = {
            .key = {rows[i].key[0], rows[i].key[1]},
            .counter = {rows[i].counter[1], rows[i].counter[2], rows[i].counter[3]},
        };
        uint32_t out[4], rounding[4];
        oct__stream_block(&stream, rows[i].counter[0], out);
        oct__rounding_block(&stream, rows[i].counter[0], rounding);
        for (int word = 0; word < 4; word++) {
            assert_int_equal(out[word], rows[i].expected[word]);
            assert_int_equal(rounding[word], rows[i].rounding[word]);
        }
    }
}

/* 16 bits of each of BITS elements, two to a word. */
enum { BITS = 1 << 21 };

static uint16_t *rounding_bits(uint32_t node, uint32_t step, uint32_t layer) {
    const struct oct__stream stream = oct__stream(1, OCT_PURPOSE_ROUND_GRADIENT, node, step, layer);
    uint16_t *bits = calloc(BITS, sizeof *bits);
    assert_non_null(bits);
    for (uint32_t block = 0; block < BITS / 8; block++) {
        uint32_t words[4];
        oct__rounding_block(&stream, block, words);
        for (size_t half = 0; half < 8; half++) {
            bits[8 * block + half] = (uint16_t)(words[half / 2] >> 16 * (half % 2));
        }
    }
    return bits;
}

/* How many deviations the counts of `n_cells` values (bits >> shift) are from even ones. */
static double unevenness(const uint16_t *bits, int shift, size_t n_cells) {
    static uint32_t counts[65536];
    const double each = (double)BITS / (double)n_cells, freedom = (double)n_cells - 1.0;
    double sum = 0.0;
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < BITS; i++) {
        counts[(size_t)(bits[i] >> shift) % n_cells]++;
    }
    for (size_t i = 0; i < n_cells; i++) {
        sum += ((double)counts[i] - each) * ((double)counts[i] - each) / each;
    }
    return (sum - freedom) / sqrt(2.0 * freedom);
}

/* How many deviations the correlation of a[i] and b[i + lag] is from none. */
static double relation(const uint16_t *a, const uint16_t *b, size_t lag) {
    double sum = 0.0;
    for (size_t i = 0; i + lag < BITS; i++) {
        sum += ((double)a[i] - 32767.5) * ((double)b[i + lag] - 32767.5);
    }
    return sum / (65536.0 * 65536.0 / 12.0) / sqrt((double)(BITS - lag));
}

/* What rounding asks of its seven rounds: values even, their mean in the middle, neighbours and
 * streams with neighbouring names unrelated. The stream is fixed, so five deviations are no chance.
 */
static void rounding_bits_are_even(void **state) {
    (void)state;
    static const size_t lags[] = {1, 2, 3, 7, 8, 16, 32, 64, 128, 1024};
    uint16_t *bits = rounding_bits(0, 0, 0);
    double mean = 0.0;
    for (size_t i = 0; i < BITS; i++) {
        mean += ((double)bits[i] - 32767.5) / (65536.0 / sqrt(12.0)) / sqrt((double)BITS);
    }
    const double found[] = {mean, unevenness(bits, 0, 65536), unevenness(bits, 8, 256),
                            unevenness(bits, 0, 256), unevenness(bits, 0, 2)};
    for (size_t i = 0; i < OCT_COUNT_OF(found); i++) {
        print_message("rounding bits: test %zu, %.2f deviations\n", i, found[i]);
        assert_true(fabs(found[i]) < 5.0);
    }
    for (size_t i = 0; i < OCT_COUNT_OF(lags); i++) {
        const double deviations = relation(bits, bits, lags[i]);
        print_message("rounding bits: lag %zu, %.2f deviations\n", lags[i], deviations);
        assert_true(fabs(deviations) < 5.0);
    }
    for (uint32_t other = 0; other < 3; other++) {
        uint16_t *next = rounding_bits(other == 0, other == 1, other == 2);
        const double deviations = relation(bits, next, 0);
        print_message("rounding bits: next %s, %.2f deviations\n",
                      other == 0   ? "node"
                      : other == 1 ? "step"
                                   : "layer",
                      deviations);
        assert_true(fabs(deviations) < 5.0);
        free(next);
    }
    free(bits);
}

/* Where seed, purpose, node, step and layer go: golden files and stored runs depend on it. */
static void streams_are_named_as_documented(void **state) {
    (void)state;
    struct oct__stream stream =
        oct__stream(0x0123456789abcdefU, OCT_PURPOSE_SHUFFLE, 3 /* node */, 11, 7 /* layer */);
    uint32_t out[4];
    oct__stream_block(&stream, 5, out);
    static const uint32_t expected[4] = {0xd0122790, 0xe59ddb9e, 0xd2cfb457, 0xd54aab17};
    for (int word = 0; word < 4; word++) {
        assert_int_equal(out[word], expected[word]);
    }
}

static void streams_differ_in_every_name(void **state) {
    (void)state;
    struct oct__stream streams[] = {
        oct__stream(1, OCT_PURPOSE_TEST, 0, 0, 0),
        oct__stream(2, OCT_PURPOSE_TEST, 0, 0, 0),
        oct__stream((uint64_t)1 << 32 | 1, OCT_PURPOSE_TEST, 0, 0, 0),
        oct__stream(1, OCT_PURPOSE_INIT, 0, 0, 0),
        oct__stream(1, OCT_PURPOSE_TEST, 1, 0, 0),
        oct__stream(1, OCT_PURPOSE_TEST, 0, 1, 0),
        oct__stream(1, OCT_PURPOSE_TEST, 0, 0, 1),
    };
    for (size_t i = 0; i < OCT_COUNT_OF(streams); i++) {
        uint32_t a[4], b[4];
        oct__stream_block(&streams[i], 0, a);
        for (size_t j = 0; j < i; j++) {
            oct__stream_block(&streams[j], 0, b);
            assert_memory_not_equal(a, b, sizeof a);
        }
    }
}

static void stream_words_are_words_of_blocks(void **state) {
    (void)state;
    struct oct__stream stream = oct__stream(9, OCT_PURPOSE_TEST, 1, 2, 3);
    uint32_t all[64], part[64], block[4];
    oct__stream_words(&stream, 0, 64, all);
    for (uint32_t i = 0; i < 16; i++) {
        oct__stream_block(&stream, i, block);
        assert_memory_equal(all + (size_t)4 * i, block, sizeof block);
    }
    for (size_t first = 0; first < 12; first++) {
        for (size_t count = 0; count + first <= 24; count++) {
            oct__stream_words(&stream, first, count, part);
            assert_memory_equal(part, all + first, count * sizeof part[0]);
        }
    }
}

static void small_distributions(void **state) {
    (void)state;
    assert_true(oct__unit_float(0) == 0.0F);
    assert_true(oct__unit_float(UINT32_MAX) < 1.0F);
    assert_true(oct__unit_float(UINT32_MAX) == 1.0F - 0x1p-24F);
    assert_int_equal(oct__below(0, 10), 0);
    assert_int_equal(oct__below(UINT32_MAX, 10), 9);
    assert_int_equal(oct__below(UINT32_MAX, 1), 0);
    assert_int_equal(oct__below(0x80000000U, 10), 5);

    double pair[2];
    oct__normal_pair(0, 0, pair); /* the largest radius there is, and it is finite */
    assert_true(isfinite(pair[0]) && isfinite(pair[1]));
    enum { PAIRS = 100000 };
    struct oct__stream stream = oct__stream(4, OCT_PURPOSE_TEST, 0, 0, 0);
    double sum = 0, square = 0, cube = 0, fourth = 0, product = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint32_t words[4];
        oct__stream_block(&stream, i, words);
        oct__normal_pair(words[0], words[1], pair);
        for (int j = 0; j < 2; j++) {
            double x = pair[j];
            sum += x;
            square += x * x;
            cube += x * x * x;
            fourth += x * x * x * x;
        }
        product += pair[0] * pair[1];
    }
    double n = 2.0 * PAIRS;
    print_message("normal: mean %.4f variance %.4f skewness %.4f kurtosis %.4f correlation %.4f\n",
                  sum / n, square / n, cube / n, fourth / n, product / PAIRS);
    /* Five standard errors each: 1, sqrt 2, sqrt 15, sqrt 96 over sqrt n. */
    assert_true(fabs(sum / n) < 5.0 / sqrt(n));
    assert_true(fabs(square / n - 1) < 5.0 * sqrt(2.0 / n));
    assert_true(fabs(cube / n) < 5.0 * sqrt(15.0 / n));
    assert_true(fabs(fourth / n - 3) < 5.0 * sqrt(96.0 / n));
    assert_true(fabs(product / PAIRS) < 5.0 / sqrt(PAIRS));
}

static void permutations_are_fisher_yates(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1, 2, 3, 5, 100, 1001};
    uint32_t out[1002], expected[1002], words[1002];
    for (size_t i = 0; i < OCT_COUNT_OF(sizes); i++) {
        uint32_t n = sizes[i];
        struct oct__stream stream = oct__stream(6, OCT_PURPOSE_SHUFFLE, 2, n, 0);
        out[n] = 0xabcdef;
        oct__permutation(&stream, n, out);
        assert_int_equal(out[n], 0xabcdef);
        oct__stream_words(&stream, 0, n, words);
        for (uint32_t j = 0; j < n; j++) {
            expected[j] = j;
        }
        for (uint32_t j = 0; j + 1 < n; j++) {
            uint32_t k = j + (uint32_t)(((uint64_t)words[j] * (n - j)) >> 32);
            uint32_t held = expected[j];
            expected[j] = expected[k];
            expected[k] = held;
        }
        assert_memory_equal(out, expected, n * sizeof out[0]);
    }
}

static void permutations_are_even(void **state) {
    (void)state;
    enum { DRAWS = 24000 };
    int seen[256] = {0};
    for (uint32_t step = 0; step < DRAWS; step++) {
        struct oct__stream stream = oct__stream(7, OCT_PURPOSE_SHUFFLE, 0, step, 0);
        uint32_t p[4];
        oct__permutation(&stream, 4, p);
        seen[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
    }
    int kinds = 0;
    double chi = 0;
    for (int i = 0; i < 256; i++) {
        if (seen[i] > 0) {
            kinds++;
            chi += (seen[i] - 1000.0) * (seen[i] - 1000.0) / 1000.0;
        }
    }
    print_message("permutations of 4: %d kinds, chi-square %.1f (23 degrees of freedom)\n", kinds,
                  chi);
    assert_int_equal(kinds, 24);
    assert_true(chi < 49.7); /* exceeded by chance once in a thousand, and the seed is fixed */
}

/* --- threads ------------------------------------------------------------------------------- */

enum { ITEMS = 200 };

struct visit {
    int fail_a, fail_b; /* items that fail; -1: none */
    int times[ITEMS];   /* written by one task each, read after the join */
    int worker[ITEMS];  /* that ran it */
};

static oct_status visit_item(void *context, int item, int worker) {
    struct visit *visit = context;
    visit->times[item]++;
    visit->worker[item] = worker;
    if (item == visit->fail_a || item == visit->fail_b) {
        OCT_FAIL(CORRUPT, "item %d is bad", item);
    }
    return OCT_OK;
}

static void parallel_runs_every_item_once(void **state) {
    (void)state;
    static const int workers[] = {0, 1, 2, 3, 8};
    for (size_t i = 0; i < OCT_COUNT_OF(workers); i++) {
        struct visit visit = {.fail_a = -1, .fail_b = -1};
        assert_int_equal(oct__parallel(workers[i], ITEMS, visit_item, &visit), OCT_OK);
        for (int item = 0; item < ITEMS; item++) {
            assert_int_equal(visit.times[item], 1);
            assert_in_range(visit.worker[item], 0, workers[i] > 0 ? workers[i] - 1 : 0);
        }
    }
    struct visit visit = {.fail_a = -1, .fail_b = -1};
    assert_int_equal(oct__parallel(4, 0, visit_item, &visit), OCT_OK);
    assert_int_equal(visit.times[0], 0);
}

static void parallel_reports_the_lowest_failure(void **state) {
    (void)state;
    for (int round = 0; round < 100; round++) {
        int low = round % 50, high = low + 1 + round % 7;
        struct visit visit = {.fail_a = high, .fail_b = low};
        assert_int_equal(oct__fail(OCT_STATUS_IO, "older"), OCT_STATUS_IO);
        assert_int_equal(oct__parallel(1 + round % 4, ITEMS, visit_item, &visit),
                         OCT_STATUS_CORRUPT);
        char expected[64];
        snprintf(expected, sizeof expected, "item %d is bad", low);
        assert_string_equal(oct_last_error(), expected);
        for (int item = 0; item <= low; item++) {
            assert_int_equal(visit.times[item], 1);
        }
        for (int item = low + 1; item < ITEMS; item++) {
            assert_in_range(visit.times[item], 0, 1);
        }
    }
}

static void parallel_skips_what_has_not_started(void **state) {
    (void)state;
    struct visit visit = {.fail_a = 0, .fail_b = -1};
    assert_int_equal(oct__parallel(1, ITEMS, visit_item, &visit), OCT_STATUS_CORRUPT);
    for (int item = 1; item < ITEMS; item++) {
        assert_int_equal(visit.times[item], 0);
    }
    const int width = oct__parallel_width();
    assert_true(width >= 1);
    oct__parallel_share(2);
    assert_int_equal(oct__parallel_width(), width > 1 ? width / 2 : 1);
    oct__parallel_share(1000000);
    assert_int_equal(oct__parallel_width(), 1);
    oct__parallel_share(1);
    assert_int_equal(oct__parallel_width(), width);
    if (!oct__parallel_available()) {
        assert_int_equal(oct__parallel_width(), 1);
    }
}

static atomic_int n_met;

/* Waits for the other of two items, so that each runs on a thread of its own. */
static oct_status meet_and_fail_elsewhere(void *context, int item, int worker) {
    (void)context;
    (void)item;
    atomic_fetch_add(&n_met, 1);
    for (long spin = 0; atomic_load(&n_met) < 2; spin++) {
        if (spin > 2000000000L) {
            OCT_FAIL(INTERNAL, "two workers were asked for and only one came");
        }
    }
    if (worker != 0) { /* worker 0 is the caller's thread */
        oct_status status = oct__fail(OCT_STATUS_IO, "worker %d's own", worker);
        return status == OCT_STATUS_IO ? OCT_OK : OCT_STATUS_INTERNAL;
    }
    return OCT_OK;
}

static void details_belong_to_their_threads(void **state) {
    (void)state;
    if (!oct__parallel_available()) {
        skip();
    }
    atomic_store(&n_met, 0);
    assert_int_equal(oct__fail(OCT_STATUS_IO, "the caller's own"), OCT_STATUS_IO);
    assert_int_equal(oct__parallel(2, 2, meet_and_fail_elsewhere, NULL), OCT_OK);
    assert_int_equal(atomic_load(&n_met), 2);
    assert_string_equal(oct_last_error(), "the caller's own");
}

static oct_status call_again(void *context, int item, int worker) {
    (void)worker;
    struct visit *visits = context;
    return oct__parallel(4, ITEMS, visit_item, &visits[item]);
}

static void parallel_may_be_called_from_a_task(void **state) {
    (void)state;
    struct visit visits[6];
    for (int i = 0; i < 6; i++) {
        visits[i] = (struct visit){.fail_a = -1, .fail_b = i == 4 ? 7 : -1};
    }
    assert_int_equal(oct__parallel(3, 6, call_again, visits), OCT_STATUS_CORRUPT);
    assert_string_equal(oct_last_error(), "item 7 is bad");
    for (int i = 0; i < 4; i++) {
        for (int item = 0; item < ITEMS; item++) {
            assert_int_equal(visits[i].times[item], 1);
        }
    }
}

/* Rounds so short that threads are woken, find nothing to do, and go to sleep again in every order.
 */
static void parallel_survives_many_short_rounds(void **state) {
    (void)state;
    struct visit visit = {.fail_a = -1, .fail_b = -1};
    int expected[ITEMS] = {0};
    for (int round = 0; round < 5000; round++) {
        int n_items = 1 + round % 5;
        assert_int_equal(oct__parallel(2 + round % 3, n_items, visit_item, &visit), OCT_OK);
        for (int item = 0; item < n_items; item++) {
            expected[item]++;
        }
    }
    for (int item = 0; item < ITEMS; item++) {
        assert_int_equal(visit.times[item], expected[item]);
    }
}

static oct_status visit_of_many(void *context, int item, int worker) {
    struct visit *visits = context;
    return visit_item(&visits[item / ITEMS], item % ITEMS, worker);
}

/* Last of all: the threads it makes stay, and take part in every later round. */
static void parallel_limits_its_threads(void **state) {
    (void)state;
    enum { MANY = 2 * OCT_PARALLEL_MOST };
    struct visit visits[MANY / ITEMS + 1];
    memset(visits, 0, sizeof visits);
    for (size_t i = 0; i < OCT_COUNT_OF(visits); i++) {
        visits[i].fail_a = visits[i].fail_b = -1;
    }
    assert_int_equal(oct__parallel(MANY, MANY, visit_of_many, visits), OCT_OK);
    for (int item = 0; item < MANY; item++) {
        assert_int_equal(visits[item / ITEMS].times[item % ITEMS], 1);
        assert_in_range(visits[item / ITEMS].worker[item % ITEMS], 0, OCT_PARALLEL_MOST);
    }
}

#ifdef OCT_HAVE_THREADS

static void *call_often(void *context) {
    int *n_wrong = context;
    for (int round = 0; round < 200; round++) {
        int low = round % 60;
        struct visit visit = {.fail_a = low, .fail_b = -1};
        char expected[64];
        snprintf(expected, sizeof expected, "item %d is bad", low);
        *n_wrong += oct__parallel(3, ITEMS, visit_item, &visit) != OCT_STATUS_CORRUPT;
        *n_wrong += strcmp(oct_last_error(), expected) != 0;
        *n_wrong += visit.times[0] != 1;
    }
    return NULL;
}

static void parallel_serves_callers_on_several_threads(void **state) {
    (void)state;
    pthread_t threads[3];
    int n_wrong[4] = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &n_wrong[i]), 0);
    }
    call_often(&n_wrong[3]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(n_wrong[i], 0);
    }
}

static void parallel_works_in_a_forked_child(void **state) {
    (void)state;
    struct visit visit = {.fail_a = -1, .fail_b = -1};
    assert_int_equal(oct__parallel(3, ITEMS, visit_item, &visit), OCT_OK); /* threads exist */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        memset(visit.times, 0, sizeof visit.times);
        int is_right = oct__parallel(3, ITEMS, visit_item, &visit) == OCT_OK;
        for (int item = 0; item < ITEMS; item++) {
            is_right &= visit.times[item] == 1;
        }
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(oct__parallel(3, ITEMS, visit_item, &visit), OCT_OK);
}

#endif

/* --- SHA-256 ------------------------------------------------------------------------------- */

static void sha256_known_answers(void **state) {
    (void)state;
    static const struct {
        size_t n_bytes;
        const char *expected; /* of bytes (7 i + 3) mod 256 */
    } rows[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {1, "084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5"},
        {55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b"},
        {56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27"},
        {57, "35df609437dcfea3279283ab79fd554e2bf78f8f7ae2de532d8ee300b09e8f73"},
        {63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055"},
        {64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241"},
        {65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e"},
        {119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e"},
        {120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5"},
        {128, "d2742f1f4ac6bb7ca2b239ee18402ba8b3f9f8e652d2a72973c2b9ba11c08cf6"},
        {1000, "1e9bc38cbf860b9ec31918b065f9b52476c549a782e0e7990bed8ce3868d2371"},
    };
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + 3);
    }
    char text[OCT_SHA256_TEXT];
    struct oct__sha256 sha;
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        oct__sha256_init(&sha);
        oct__sha256_add(&sha, bytes, rows[i].n_bytes);
        oct__sha256_text(&sha, text);
        assert_string_equal(text, rows[i].expected);
        oct__sha256_init(&sha); /* in pieces of 1, 2, 3 … bytes */
        for (size_t at = 0, piece = 1; at < rows[i].n_bytes; piece++) {
            size_t take = piece < rows[i].n_bytes - at ? piece : rows[i].n_bytes - at;
            oct__sha256_add(&sha, bytes + at, take);
            at += take;
        }
        oct__sha256_text(&sha, text);
        assert_string_equal(text, rows[i].expected);
    }
    /* FIPS 180-4's own examples. */
    oct__sha256_init(&sha);
    oct__sha256_add(&sha, "abc", 3);
    oct__sha256_text(&sha, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    oct__sha256_init(&sha);
    for (int i = 0; i < 15625; i++) {
        oct__sha256_add(&sha, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                        64);
    }
    oct__sha256_text(&sha, text);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* --- CPU ----------------------------------------------------------------------------------- */

static void cpu_levels_can_be_lowered(void **state) {
    (void)state;
    enum oct_cpu_level machine = oct_cpu_machine_level();
    print_message("machine: %s, level %s\n", oct_cpu_brand(), oct_cpu_level_name(machine));
    assert_in_range(machine, 0, OCT_CPU_COUNT - 1);
    assert_int_equal(oct_cpu_level(), machine);
    for (int level = 0; level < OCT_CPU_COUNT; level++) {
        const char *name = oct_cpu_level_name((enum oct_cpu_level)level);
        assert_non_null(oct_cpu_level_meaning((enum oct_cpu_level)level));
        if (level <= (int)machine) {
            assert_int_equal(oct_cpu_limit(name), OCT_OK);
            assert_int_equal(oct_cpu_level(), level);
        } else {
            assert_int_equal(oct_cpu_limit(name), OCT_STATUS_UNSUPPORTED);
            assert_non_null(strstr(oct_last_error(), oct_cpu_level_name(machine)));
            assert_int_equal(oct_cpu_level(), machine);
        }
    }
    assert_int_equal(oct_cpu_machine_level(), machine);
    assert_true(strlen(oct_cpu_brand()) > 0);
}

static void cpu_levels_unknown_are_refused(void **state) {
    (void)state;
    enum oct_cpu_level before = oct_cpu_level();
    static const char *const bad[] = {"", "AVX2", "avx", "avx2 ", NULL};
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        assert_int_equal(oct_cpu_limit(bad[i]), OCT_STATUS_INVALID);
        assert_non_null(strstr(oct_last_error(), "ref, avx2, avx512, avx512vnni, avx512bf16, amx"));
        assert_int_equal(oct_cpu_level(), before);
    }
    assert_null(oct_cpu_level_name(OCT_CPU_COUNT));
    assert_null(oct_cpu_level_meaning((enum oct_cpu_level) - 1));
}

/* --- log ----------------------------------------------------------------------------------- */

struct heard {
    int count;
    int inside; /* nonzero while the callback runs: calls must not overlap */
    int overlaps;
    enum oct_log_level level;
    char text[600];
};

static void hear(enum oct_log_level level, const char *text, void *context) {
    struct heard *heard = context;
    heard->overlaps += heard->inside++;
    heard->count++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
    heard->inside--;
}

static void log_goes_to_the_callback(void **state) {
    (void)state;
    struct heard heard = {0};
    oct__log(OCT_LOG_ERROR, "nobody listens");
    oct_log_set(hear, &heard, OCT_LOG_INFO);
    oct__log(OCT_LOG_INFO, "%d nodes", 8);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, OCT_LOG_INFO);
    assert_string_equal(heard.text, "8 nodes");
    oct__log(OCT_LOG_DEBUG, "too fine");
    assert_int_equal(heard.count, 1);
    oct__log(OCT_LOG_ERROR, "%0700d", 0);
    assert_int_equal(heard.count, 2);
    assert_int_equal(strlen(heard.text), 511);
    oct_log_set(NULL, NULL, OCT_LOG_DEBUG);
    oct__log(OCT_LOG_ERROR, "nobody listens any more");
    assert_int_equal(heard.count, 2);
}

static oct_status speak(void *context, int item, int worker) {
    (void)context;
    oct__log(OCT_LOG_INFO, "item %d on %d", item, worker);
    return OCT_OK;
}

static void log_calls_do_not_overlap(void **state) {
    (void)state;
    struct heard heard = {0};
    oct_log_set(hear, &heard, OCT_LOG_DEBUG);
    assert_int_equal(oct__parallel(4, 2000, speak, NULL), OCT_OK);
    oct_log_set(NULL, NULL, OCT_LOG_ERROR);
    assert_int_equal(heard.count, 2000);
    assert_int_equal(heard.overlaps, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_and_meanings),
        cmocka_unit_test(status_detail_is_kept_and_forwarded),
        cmocka_unit_test(status_detail_is_cut_at_its_size),
        cmocka_unit_test(version_of_header_and_library_agree),
        cmocka_unit_test(alloc_gives_zeroed_aligned_memory),
        cmocka_unit_test(alloc_refuses_what_cannot_be),
        cmocka_unit_test(alloc_fails_on_demand),
        cmocka_unit_test(alloc_grow_keeps_what_was_there),
        cmocka_unit_test(arena_hands_out_separate_aligned_pieces),
        cmocka_unit_test(arena_survives_a_failed_request),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(rounding_bits_are_even),
        cmocka_unit_test(streams_are_named_as_documented),
        cmocka_unit_test(streams_differ_in_every_name),
        cmocka_unit_test(stream_words_are_words_of_blocks),
        cmocka_unit_test(small_distributions),
        cmocka_unit_test(permutations_are_fisher_yates),
        cmocka_unit_test(permutations_are_even),
        cmocka_unit_test(parallel_runs_every_item_once),
        cmocka_unit_test(parallel_reports_the_lowest_failure),
        cmocka_unit_test(parallel_skips_what_has_not_started),
        cmocka_unit_test(details_belong_to_their_threads),
        cmocka_unit_test(parallel_may_be_called_from_a_task),
        cmocka_unit_test(parallel_survives_many_short_rounds),
#ifdef OCT_HAVE_THREADS
        cmocka_unit_test(parallel_serves_callers_on_several_threads),
        cmocka_unit_test(parallel_works_in_a_forked_child),
#endif
        cmocka_unit_test(sha256_known_answers),
        cmocka_unit_test(cpu_levels_can_be_lowered),
        cmocka_unit_test(cpu_levels_unknown_are_refused),
        cmocka_unit_test(log_goes_to_the_callback),
        cmocka_unit_test(log_calls_do_not_overlap),
        cmocka_unit_test(parallel_limits_its_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
