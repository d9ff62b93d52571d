/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - what the library has to say while it works. It never prints; a program that wants to hear
 * it installs a callback. */
#ifndef OCTET_LOG_H
#define OCTET_LOG_H

#include <octet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oct_log_level {
    OCT_LOG_ERROR,
    OCT_LOG_WARNING,
    OCT_LOG_INFO,
    OCT_LOG_DEBUG, /* which kernel or primitive was chosen, and why */
};

/* `text` is one line without its newline, valid during the call. The callback may be called from
 * any thread, one call at a time. It must not call back into the library. */
typedef void oct_log_fn(enum oct_log_level level, const char *text, void *context);

/* Messages up to `most` go to `fn`; NULL silences the library (the default). Thread-safe, but a
 * callback already running on another thread may finish after this returns. */
OCT_API void oct_log_set(oct_log_fn *fn, void *context, enum oct_log_level most);

#ifdef __cplusplus
}
#endif

#endif
