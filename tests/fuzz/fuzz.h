/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what a fuzz target is: one function that libFuzzer, or replay.c, calls with bytes.
 *
 * A target aborts when the code under test says OK to what it should not, so that a wrong answer
 * counts as much as a crash.
 */
#ifndef OCT_TESTS_FUZZ_H
#define OCT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
