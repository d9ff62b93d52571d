/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - what every test begins with: cmocka, statuses with their sentences, random numbers. */
#ifndef OCT_TESTS_CHECK_H
#define OCT_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "base/rng.h"

/* Sanitizers replace the C library's allocation functions, keep freed memory, and slow things. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* The engine that is wide is emulated, thread by thread: tests/cuda. What is repeated thousands of times
 * is left to the others, or to a GPU. */
#ifdef OCT_EMULATED
#define IS_EMULATED 1
#else
#define IS_EMULATED 0
#endif

/* Fails the test with the library's own sentence. */
#define EXPECT_OK(expression)                                                                      \
    do {                                                                                           \
        oct_status expect_status_ = (expression);                                                  \
        if (expect_status_ != OCT_OK) {                                                            \
            fail_msg("%s: %s: %s", #expression, oct_status_name(expect_status_),                   \
                     oct_last_error());                                                            \
        }                                                                                          \
    } while (0)

/* A failure of that status whose sentence contains `piece`. */
#define EXPECT_FAILURE(expression, expected, piece)                                                \
    check_failure(#expression, (expression), (expected), (piece))

static inline void check_failure(const char *what, oct_status status, oct_status expected,
                                 const char *piece) {
    print_message("%s: %s: %s\n", what, oct_status_name(status),
                  status == OCT_OK ? "" : oct_last_error());
    if (status != expected) {
        fail_msg("%s: %s, expected %s", what, oct_status_name(status), oct_status_name(expected));
    }
    if (!strstr(oct_last_error(), piece)) {
        fail_msg("%s: '%s' is not in '%s'", what, piece, oct_last_error());
    }
}

/* Random numbers of a test: the stream is named by `seed`, so that a failure repeats. */
struct dice {
    struct oct__stream stream;
    uint32_t next;
};

static inline struct dice dice_of(uint32_t seed) {
    return (struct dice){oct__stream(seed, OCT_PURPOSE_TEST, 0, 0, 0), 0};
}

static inline double dice_normal(struct dice *dice) {
    uint32_t words[4];
    double pair[2];
    oct__stream_block(&dice->stream, dice->next++, words);
    oct__normal_pair(words[0], words[1], pair);
    return pair[0];
}

/* 0 … n - 1. */
static inline int dice_below(struct dice *dice, int n) {
    uint32_t words[4];
    oct__stream_block(&dice->stream, dice->next++, words);
    return (int)oct__below(words[0], (uint32_t)n);
}

#endif
