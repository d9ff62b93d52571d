/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - one callback, one message at a time. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* A spin lock is enough: messages are rare, and it needs no library beyond C11 itself. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static oct_log_fn *callback;
static void *callback_context;
static enum oct_log_level most_level;

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
    }
}

static void unlock(void) {
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

void oct_log_set(oct_log_fn *fn, void *context, enum oct_log_level most) {
    lock();
    callback = fn;
    callback_context = context;
    most_level = most;
    unlock();
}

void oct__log(enum oct_log_level level, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    lock();
    if (callback && level <= most_level) {
        callback(level, text, callback_context);
    }
    unlock();
}
