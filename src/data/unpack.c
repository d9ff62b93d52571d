/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - members of a tar archive (libarchive) and gzipped files (zlib) into a stage. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/fetch.h"

#ifdef OCT_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif
#ifdef OCT_HAVE_ZLIB
#include <zlib.h>
#endif

#define CHUNK_BYTES 32768

#ifdef OCT_HAVE_ARCHIVE

/* A member this large belongs to no dataset of ours and is not worth the time to skip it. */
static const int64_t most_member_bytes = (int64_t)1 << 30;

static oct_status damaged(struct archive *archive, const char *origin) {
    const char *text = archive_error_string(archive);
    char at[OCT_GROUPED_BYTES];
    if (archive_errno(archive) == ENOMEM) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to unpack it", oct__path_shown(origin));
    }
    OCT_FAIL(CORRUPT, "%s: damaged or truncated near its byte %s: %.120s", oct__path_shown(origin),
             oct__grouped((uint64_t)archive_filter_bytes(archive, -1), at), text ? text : "");
}

/* The row of the table that the member is, NULL: none of ours. */
static const struct oct__data_file *match(struct archive_entry *entry,
                                          const struct oct__data_file *files) {
    const char *path = archive_entry_pathname(entry);
    if (!path || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) {
        return NULL;
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (; files->name; files++) {
        if (strcmp(files->name, name) == 0) {
            return files;
        }
    }
    return NULL;
}

static oct_status take_member(struct archive *archive, const char *origin,
                              const struct oct__data_file *file, const char *stage) {
    struct oct__incoming incoming;
    OCT_TRY(oct__incoming_open(&incoming, stage, file->name, file->n_bytes));
    oct_status status;
    for (;;) {
        char chunk[CHUNK_BYTES];
        la_ssize_t got = archive_read_data(archive, chunk, sizeof chunk);
        if (got < 0) {
            status = damaged(archive, origin);
            goto fail;
        }
        if (got == 0) {
            break;
        }
        status = oct__incoming_write(&incoming, chunk, (size_t)got);
        if (status == OCT_STATUS_CORRUPT) {
            status = oct__fail_within(status, "%s: %s is ", oct__path_shown(origin), file->name);
        }
        if (status != OCT_OK) {
            goto fail;
        }
    }
    return oct__incoming_finish(&incoming, origin, file);
fail:
    oct__incoming_drop(&incoming);
    return status;
}

static oct_status take_members(struct archive *archive, const char *origin,
                               const struct oct__data_file *files, const char *stage) {
    uint64_t taken = 0; /* bit i: row i of the table was found */
    for (;;) {
        struct archive_entry *entry;
        int result = archive_read_next_header(archive, &entry);
        if (result == ARCHIVE_EOF) {
            break;
        }
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
            return damaged(archive, origin);
        }
        if (archive_entry_size(entry) > most_member_bytes) {
            OCT_FAIL(CORRUPT, "%s: holds a member of %lld bytes, which no dataset has: not used",
                     oct__path_shown(origin), (long long)archive_entry_size(entry));
        }
        const struct oct__data_file *file = match(entry, files);
        if (!file) {
            continue;
        }
        uint64_t bit = (uint64_t)1 << ((file - files) & 63);
        if (taken & bit) {
            OCT_FAIL(CORRUPT, "%s: holds %s twice: not used", oct__path_shown(origin), file->name);
        }
        taken |= bit;
        OCT_TRY(take_member(archive, origin, file, stage));
    }
    for (const struct oct__data_file *file = files; file->name; file++) {
        if (!(taken >> ((file - files) & 63) & 1)) {
            OCT_FAIL(CORRUPT, "%s: has no %s: not used", oct__path_shown(origin), file->name);
        }
    }
    return OCT_OK;
}

oct_status oct__unpack_has_tar(const char *origin) {
    (void)origin;
    return OCT_OK;
}

oct_status oct__unpack_tar(const char *path, const char *origin, const struct oct__data_file *files,
                           const char *stage) {
    struct archive *archive = archive_read_new();
    if (!archive) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to unpack it", oct__path_shown(origin));
    }
    oct_status status;
    if (archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
        archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        archive_read_open_filename(archive, path, 1 << 17) != ARCHIVE_OK) {
        status = damaged(archive, origin);
    } else {
        status = take_members(archive, origin, files, stage);
    }
    archive_read_free(archive);
    return status;
}

#else

oct_status oct__unpack_has_tar(const char *origin) {
    OCT_FAIL(UNSUPPORTED, "%s: this build has no libarchive to unpack it", oct__path_shown(origin));
}

oct_status oct__unpack_tar(const char *path, const char *origin, const struct oct__data_file *files,
                           const char *stage) {
    (void)path;
    (void)files;
    (void)stage;
    return oct__unpack_has_tar(origin);
}

#endif

#ifdef OCT_HAVE_ZLIB

oct_status oct__unpack_has_gzip(const char *origin) {
    (void)origin;
    return OCT_OK;
}

oct_status oct__unpack_gzip(const char *path, const char *origin, const struct oct__data_file *file,
                            const char *stage) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(origin), strerror(errno));
    }
    gzFile stream = gzdopen(fd, "rb");
    if (!stream) {
        close(fd);
        OCT_FAIL(NO_MEMORY, "%s: no memory to unpack it", oct__path_shown(origin));
    }
    struct oct__incoming incoming;
    oct_status status = oct__incoming_open(&incoming, stage, file->name, file->n_bytes);
    while (status == OCT_OK) {
        char chunk[CHUNK_BYTES];
        int got = gzread(stream, chunk, sizeof chunk);
        int code;
        const char *text = gzerror(stream, &code);
        if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
            const char *colon = strstr(text, ": "); /* before it is a name we know better */
            text = colon ? colon + 2 : text;
            char at[OCT_GROUPED_BYTES];
            status = oct__fail(OCT_STATUS_CORRUPT, "%s: damaged or truncated near its byte %s: %s",
                               oct__path_shown(origin),
                               oct__grouped((uint64_t)gzoffset(stream), at), text);
            break;
        }
        if (got == 0) {
            break;
        }
        status = oct__incoming_write(&incoming, chunk, (size_t)got);
        if (status == OCT_STATUS_CORRUPT) {
            status = oct__fail_within(status, "%s: ", oct__path_shown(origin));
        }
    }
    gzclose_r(stream);
    if (status == OCT_OK) {
        return oct__incoming_finish(&incoming, origin, file);
    }
    oct__incoming_drop(&incoming);
    return status;
}

#else

oct_status oct__unpack_has_gzip(const char *origin) {
    OCT_FAIL(UNSUPPORTED, "%s: this build has no zlib to unpack it", oct__path_shown(origin));
}

oct_status oct__unpack_gzip(const char *path, const char *origin, const struct oct__data_file *file,
                            const char *stage) {
    (void)path;
    (void)file;
    (void)stage;
    return oct__unpack_has_gzip(origin);
}

#endif
