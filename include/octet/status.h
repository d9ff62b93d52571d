/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - how functions report failure: a status code, and a sentence for people.
 *
 * Every function that can fail returns an `oct_status`; results leave through out-parameters, and
 * an out-parameter is written only on success. `oct_last_error()` holds the sentence that belongs
 * to the last failure *on the calling thread*: what went wrong, with the values, and the remedy.
 *
 *     oct_status status = oct_dataset_open("cifar10", NULL, OCT_SPLIT_TRAIN, &data);
 *     if (status != OCT_OK) {
 *         fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
 *     }
 */
#ifndef OCTET_STATUS_H
#define OCTET_STATUS_H

#include <octet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one list of failures: enum, names and meanings all come from it. New rows go at the end, so
 * that a code keeps its number (see the ABI policy in octet.h). */
#define OCT_STATUS_LIST(X)                                                                         \
    X(OK, "done")                                                                                  \
    X(INVALID, "an argument or option has a value that cannot be used")                            \
    X(SHAPE, "the shapes of two tensors do not fit")                                               \
    X(UNSUPPORTED, "this build or this machine cannot do that")                                    \
    X(NOT_FOUND, "no such file, dataset, model or option")                                         \
    X(CORRUPT, "a file or message is truncated, altered or malformed")                             \
    X(IO, "reading or writing failed")                                                             \
    X(NO_MEMORY, "memory ran out")                                                                 \
    X(NETWORK, "a download failed")                                                                \
    X(NOT_FINITE, "a NaN or an infinity appeared")                                                 \
    X(CANCELLED, "the caller asked to stop")                                                       \
    X(INTERNAL, "a bug in Octet: please report it")

typedef enum oct_status {
#define OCT_STATUS_ROW(name, meaning) OCT_STATUS_##name,
    OCT_STATUS_LIST(OCT_STATUS_ROW)
#undef OCT_STATUS_ROW
        OCT_STATUS_COUNT
} oct_status;

#define OCT_OK OCT_STATUS_OK

/* "CORRUPT"; never NULL, "UNKNOWN" for a number that is no status. */
OCT_API const char *oct_status_name(oct_status status);

/* "a file or message is truncated, altered or malformed"; never NULL. */
OCT_API const char *oct_status_meaning(oct_status status);

/* The sentence of the calling thread's last failure, "" before any. Valid until the next failing
 * call on this thread. */
OCT_API const char *oct_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
