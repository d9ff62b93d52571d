/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - the status map and the per-thread detail behind oct_last_error(). */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_detail[OCT_DETAIL_BYTES];

static const char *const names[] = {
#define X(name, meaning) #name,
    OCT_STATUS_LIST(X)
#undef X
};

static const char *const meanings[] = {
#define X(name, meaning) meaning,
    OCT_STATUS_LIST(X)
#undef X
};

const char *oct_status_name(oct_status status) {
    return (unsigned)status < OCT_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *oct_status_meaning(oct_status status) {
    return (unsigned)status < OCT_STATUS_COUNT ? meanings[status] : "not a status of this version";
}

const char *oct_last_error(void) {
    return last_detail;
}

oct_status oct__fail(oct_status status, const char *format, ...) {
    /* Formatted aside first: an argument may be the old detail itself. */
    char detail[OCT_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    memcpy(last_detail, detail, sizeof detail);
    return status;
}

oct_status oct__fail_within(oct_status status, const char *format, ...) {
    char detail[OCT_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof detail) {
        snprintf(detail + used, sizeof detail - (size_t)used, "%s", last_detail);
    }
    memcpy(last_detail, detail, sizeof detail);
    return status;
}

void oct__detail_take(char detail[OCT_DETAIL_BYTES]) {
    memcpy(detail, last_detail, OCT_DETAIL_BYTES);
}

void oct__detail_give(const char detail[OCT_DETAIL_BYTES]) {
    memcpy(last_detail, detail, OCT_DETAIL_BYTES);
}
