/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - raising and forwarding failures inside the library.
 *
 *     OCT_FAIL(SHAPE, "linear: weight is %dx%d, …", …);   sets the detail and returns
 *     OCT_TRY(call());                                    forwards a failure
 *
 * A function that must clean up uses OCT_FAIL_TO / OCT_TRY_TO with a local `oct_status status` and
 * one `out:` label. The detail is per thread; `oct__detail_take` and `oct__detail_give` carry it
 * from a worker to the thread that asked for the work (see parallel.h).
 */
#ifndef OCT_BASE_FAIL_H
#define OCT_BASE_FAIL_H

#include <stddef.h>

#include <octet/status.h>

#define OCT_DETAIL_BYTES 512

OCT_MUST_CHECK oct_status oct__fail(oct_status status, const char *format, ...) OCT_PRINTF(2, 3);

/* Prefix the thread's detail with context on the way up ("epoch 3: "). Returns `status`. */
oct_status oct__fail_within(oct_status status, const char *format, ...) OCT_PRINTF(2, 3);

void oct__detail_take(char detail[OCT_DETAIL_BYTES]);
void oct__detail_give(const char detail[OCT_DETAIL_BYTES]);

/* The status is written out rather than taken from oct__fail: a compiler then sees that a caller
 * which tests for OCT_OK never reads an unwritten out-parameter. */
#define OCT_FAIL(name, ...)                                                                        \
    do {                                                                                           \
        (void)!oct__fail(OCT_STATUS_##name, __VA_ARGS__);                                          \
        return OCT_STATUS_##name;                                                                  \
    } while (0)

#define OCT_FAIL_TO(label, name, ...)                                                              \
    do {                                                                                           \
        (void)!oct__fail(OCT_STATUS_##name, __VA_ARGS__);                                          \
        status = OCT_STATUS_##name;                                                                \
        goto label;                                                                                \
    } while (0)

#define OCT_TRY(expression)                                                                        \
    do {                                                                                           \
        oct_status oct_try_status_ = (expression);                                                 \
        if (oct_try_status_ != OCT_OK) {                                                           \
            return oct_try_status_;                                                                \
        }                                                                                          \
    } while (0)

#define OCT_TRY_TO(label, expression)                                                              \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != OCT_OK) {                                                                    \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

#define OCT_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
