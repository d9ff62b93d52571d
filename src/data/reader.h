/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - a file read once from front to back, plain or (with zlib) gzipped.
 *
 * What comes out goes straight to where the caller wants it: a large array is never held twice.
 */
#ifndef OCT_DATA_READER_H
#define OCT_DATA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/files.h"

/* How a file lies in a folder. */
enum oct__presence { OCT_ABSENT, OCT_PLAIN, OCT_GZIPPED };

/* Looks for DIR/NAME, then for DIR/NAME.gz; folders of that name do not count. */
OCT_MUST_CHECK oct_status oct__file_find(const char *dir, const char *name,
                                         enum oct__presence *out);

struct oct__reader {
    char path[OCT_PATH_BYTES]; /* for messages */
    const char *remedy;        /* the command that gets the file again; NULL: nobody knows one */
    /* Plain: the file's length. Gzipped: more than it can hold, because nothing unpacks to over
     * 1,032 times its size; a header that claims more is wrong before any memory is taken. */
    uint64_t most_bytes;
    uint64_t at; /* bytes read so far */
    bool is_gzipped;
    int fd;
    void *stream; /* zlib's, which then has the descriptor */
};

/* Opens DIR/NAME or DIR/NAME.gz. NOT_FOUND, or UNSUPPORTED for a gzipped one without zlib. On
 * failure there is nothing to close, but `path` is set. */
OCT_MUST_CHECK oct_status oct__reader_open(const char *dir, const char *name, const char *remedy,
                                           struct oct__reader *out);

/* Up to `n_bytes` more; fewer only where the file ends. */
OCT_MUST_CHECK oct_status oct__reader_read(struct oct__reader *reader, void *into, size_t n_bytes,
                                           size_t *got);

void oct__reader_close(struct oct__reader *reader);

#endif
