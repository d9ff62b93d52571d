/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - files on their way into a dataset's folder; see stage.h. */
#include "data/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"

static oct_status fail_errno(const char *what, const char *path) {
    OCT_FAIL(IO, "%s: %s: %s", oct__path_shown(path), what, strerror(errno));
}

oct_status oct__stage_open(const char *dir, char stage[OCT_PATH_BYTES]) {
    OCT_TRY(oct__path_join(dir, ".incoming-XXXXXX", "", stage));
    if (!mkdtemp(stage)) {
        return fail_errno("making a folder for the download", dir);
    }
    return OCT_OK;
}

oct_status oct__stage_install(const char *stage, const char *dir, const char *name) {
    char from[OCT_PATH_BYTES], to[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(stage, name, "", from));
    OCT_TRY(oct__path_join(dir, name, "", to));
    int failed = rename(from, to) != 0;
    if (failed && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)) { /* a link, too */
        char old[OCT_PATH_BYTES];
        OCT_TRY(oct__path_join(stage, name, ".old", old));
        failed = rename(to, old) != 0;
        if (!failed && rename(from, to) != 0) {
            int error = errno;
            (void)!rename(old, to); /* or it would go with the stage */
            errno = error;
            failed = 1;
        }
    }
    if (failed) {
        return fail_errno("moving the checked file there", to);
    }
    return oct__folder_sync(dir);
}

void oct__stage_put_back(const char *stage, const char *dir, const char *name) {
    char from[OCT_PATH_BYTES], to[OCT_PATH_BYTES], old[OCT_PATH_BYTES];
    if (oct__path_join(stage, name, "", from) == OCT_OK &&
        oct__path_join(dir, name, "", to) == OCT_OK &&
        oct__path_join(stage, name, ".old", old) == OCT_OK && rename(to, from) == 0) {
        (void)!rename(old, to);
    }
}

oct_status oct__incoming_open(struct oct__incoming *incoming, const char *stage, const char *name,
                              uint64_t most_bytes) {
    incoming->fd = -1;
    incoming->n_bytes = 0;
    incoming->most_bytes = most_bytes;
    oct__sha256_init(&incoming->sha);
    OCT_TRY(oct__path_join(stage, name, "", incoming->path));
    incoming->fd = open(incoming->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (incoming->fd < 0) {
        return fail_errno("making the file", incoming->path);
    }
    return OCT_OK;
}

oct_status oct__incoming_write(struct oct__incoming *incoming, const void *bytes, size_t n_bytes) {
    char at[OCT_GROUPED_BYTES];
    if (n_bytes > incoming->most_bytes - incoming->n_bytes) {
        OCT_FAIL(CORRUPT, "longer than the %s bytes it may have",
                 oct__grouped(incoming->most_bytes, at));
    }
    oct__sha256_add(&incoming->sha, bytes, n_bytes);
    const uint8_t *from = bytes;
    while (n_bytes > 0) {
        ssize_t wrote = write(incoming->fd, from, n_bytes);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            OCT_FAIL(IO, "%s: writing at byte %s: %s; make room or use another folder",
                     oct__path_shown(incoming->path), oct__grouped(incoming->n_bytes, at),
                     wrote < 0 ? strerror(errno) : "nothing was written");
        }
        from += wrote;
        n_bytes -= (size_t)wrote;
        incoming->n_bytes += (uint64_t)wrote;
    }
    return OCT_OK;
}

oct_status oct__incoming_close(struct oct__incoming *incoming, char sha256[OCT_SHA256_TEXT]) {
    int failed = fsync(incoming->fd) != 0;
    int error = errno;
    if (close(incoming->fd) != 0 && !failed) {
        failed = 1;
        error = errno;
    }
    incoming->fd = -1;
    if (failed) {
        unlink(incoming->path);
        errno = error;
        return fail_errno("bringing it to the disk", incoming->path);
    }
    if (sha256) {
        oct__sha256_text(&incoming->sha, sha256);
    }
    return OCT_OK;
}

oct_status oct__incoming_leave(struct oct__incoming *incoming) {
    const int failed = close(incoming->fd) != 0;
    incoming->fd = -1;
    return failed ? fail_errno("writing it", incoming->path) : OCT_OK;
}

void oct__incoming_drop(struct oct__incoming *incoming) {
    if (incoming->fd >= 0) {
        close(incoming->fd);
        unlink(incoming->path);
        incoming->fd = -1;
    }
}

oct_status oct__incoming_finish(struct oct__incoming *incoming, const char *origin,
                                const struct oct__data_file *file) {
    char sha256[OCT_SHA256_TEXT];
    uint64_t n_bytes = incoming->n_bytes;
    OCT_TRY(oct__incoming_close(incoming, sha256));
    char a[OCT_GROUPED_BYTES], b[OCT_GROUPED_BYTES];
    if (n_bytes != file->n_bytes) {
        unlink(incoming->path);
        OCT_FAIL(CORRUPT, "%s: %s bytes of %s, expected %s: not used", oct__path_shown(origin),
                 oct__grouped(n_bytes, a), file->name, oct__grouped(file->n_bytes, b));
    }
    if (file->sha256 && strcmp(sha256, file->sha256) != 0) {
        unlink(incoming->path);
        OCT_FAIL(CORRUPT, "%s: SHA-256 of %s is %s, expected %s: not used", oct__path_shown(origin),
                 file->name, sha256, file->sha256);
    }
    return OCT_OK;
}
