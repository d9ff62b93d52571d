/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - plain and gzipped files from front to back; see reader.h. */
#include "data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef OCT_HAVE_ZLIB
#include <zlib.h>
#endif

/* The most that deflate packs into a byte: 258 bytes in 2 bits. */
#define DEFLATE_RATIO 1032

static const char *again(const struct oct__reader *reader) {
    return reader->remedy ? "; get it again with: " : "";
}

static const char *remedy(const struct oct__reader *reader) {
    return reader->remedy ? reader->remedy : "";
}

oct_status oct__file_find(const char *dir, const char *name, enum oct__presence *out) {
    char path[OCT_PATH_BYTES];
    struct stat facts;
    for (enum oct__presence form = OCT_PLAIN; form <= OCT_GZIPPED; form++) {
        OCT_TRY(oct__path_join(dir, name, form == OCT_PLAIN ? "" : ".gz", path));
        const int failed = stat(path, &facts) != 0;
        if (!failed && !S_ISDIR(facts.st_mode)) {
            *out = form;
            return OCT_OK;
        }
        if (failed && errno != ENOENT && errno != ENOTDIR) {
            OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
        }
    }
    *out = OCT_ABSENT;
    return OCT_OK;
}

/* Its length, once it is known to be a file: a pipe would be waited for, a device never ends. */
static oct_status measure(struct oct__reader *reader) {
    struct stat facts;
    if (fstat(reader->fd, &facts) != 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(reader->path), strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        OCT_FAIL(CORRUPT, "%s: not a regular file%s%s", oct__path_shown(reader->path),
                 again(reader), remedy(reader));
    }
    uint64_t size = (uint64_t)facts.st_size;
    reader->most_bytes = !reader->is_gzipped                  ? size
                         : size <= UINT64_MAX / DEFLATE_RATIO ? size * DEFLATE_RATIO
                                                              : UINT64_MAX;
    return OCT_OK;
}

oct_status oct__reader_open(const char *dir, const char *name, const char *get_again,
                            struct oct__reader *out) {
    memset(out, 0, sizeof *out);
    out->fd = -1;
    out->remedy = get_again;
    enum oct__presence presence;
    OCT_TRY(oct__file_find(dir, name, &presence));
    out->is_gzipped = presence == OCT_GZIPPED;
    OCT_TRY(oct__path_join(dir, name, out->is_gzipped ? ".gz" : "", out->path));
#ifndef OCT_HAVE_ZLIB
    if (out->is_gzipped) {
        OCT_FAIL(UNSUPPORTED, "%s: this build has no zlib to read it; unpack it with gunzip",
                 oct__path_shown(out->path));
    }
#endif
    out->fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (out->fd < 0 && errno == ENOENT) {
        OCT_FAIL(NOT_FOUND, "%s: no such file%s%s", oct__path_shown(out->path),
                 get_again ? "; get it with: " : "", remedy(out));
    }
    if (out->fd < 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(out->path), strerror(errno));
    }
    oct_status status;
    OCT_TRY_TO(fail, measure(out));
#ifdef OCT_HAVE_ZLIB
    if (out->is_gzipped) {
        gzFile stream = gzdopen(out->fd, "rb");
        if (!stream) {
            OCT_FAIL_TO(fail, NO_MEMORY, "%s: no memory to unpack it", oct__path_shown(out->path));
        }
        out->fd = -1;
        out->stream = stream;
        gzbuffer(stream, 1U << 17);
    }
#endif
    return OCT_OK;
fail:
    oct__reader_close(out);
    return status;
}

void oct__reader_close(struct oct__reader *reader) {
#ifdef OCT_HAVE_ZLIB
    if (reader->stream) {
        gzclose_r(reader->stream);
    }
#endif
    if (reader->fd >= 0) {
        close(reader->fd);
    }
    reader->stream = NULL;
    reader->fd = -1;
}

/* One call of the system's or zlib's; 0 bytes at the end. */
static oct_status read_some(struct oct__reader *reader, uint8_t *into, size_t n_bytes,
                            size_t *got) {
#ifdef OCT_HAVE_ZLIB
    if (reader->stream) {
        int n = gzread(reader->stream, into, n_bytes < (1U << 20) ? (unsigned)n_bytes : 1U << 20);
        int code = Z_OK;
        const char *text = n > 0 ? "" : gzerror(reader->stream, &code);
        if (n < 0 && code == Z_ERRNO) {
            OCT_FAIL(IO, "%s: %s", oct__path_shown(reader->path), strerror(errno));
        }
        /* Also with 0 bytes: that is how zlib tells that the packed file stops in the middle. */
        if (n <= 0 && code != Z_OK && code != Z_STREAM_END) {
            const char *colon = strstr(text, ": "); /* before it is a name we know better */
            char at[OCT_GROUPED_BYTES];
            OCT_FAIL(CORRUPT, "%s: damaged near its byte %s (%s)%s%s",
                     oct__path_shown(reader->path),
                     oct__grouped((uint64_t)gzoffset(reader->stream), at), colon ? colon + 2 : text,
                     again(reader), remedy(reader));
        }
        *got = n > 0 ? (size_t)n : 0;
        return OCT_OK;
    }
#endif
    ssize_t n;
    do {
        n = read(reader->fd, into, n_bytes < ((size_t)1 << 30) ? n_bytes : (size_t)1 << 30);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        char at[OCT_GROUPED_BYTES];
        OCT_FAIL(IO, "%s: at byte %s: %s", oct__path_shown(reader->path),
                 oct__grouped(reader->at, at), strerror(errno));
    }
    *got = (size_t)n;
    return OCT_OK;
}

oct_status oct__reader_read(struct oct__reader *reader, void *into, size_t n_bytes, size_t *got) {
    size_t done = 0;
    while (done < n_bytes) {
        size_t n;
        OCT_TRY(read_some(reader, (uint8_t *)into + done, n_bytes - done, &n));
        if (n == 0) {
            break;
        }
        done += n;
        reader->at += n;
    }
    *got = done;
    return OCT_OK;
}
