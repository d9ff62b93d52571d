/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - files on their way into a dataset's folder; see stage.h. */
#include "data/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static oct_status fail_errno(const char *what, const char *path) {
    OCT_FAIL(IO, "%s: %s: %s", oct__path_shown(path), what, strerror(errno));
}

oct_status oct__stage_make_folders(const char *path) {
    char part[OCT_PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        OCT_FAIL(INVALID, "'%s' cannot be a data folder: its path is empty or too long",
                 oct__path_shown(path));
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0') {
            continue;
        }
        char held = part[i];
        part[i] = '\0';
        struct stat facts;
        if (mkdir(part, 0777) != 0 &&
            (errno != EEXIST || stat(part, &facts) != 0 || !S_ISDIR(facts.st_mode))) {
            return fail_errno("making the folder", part);
        }
        part[i] = held;
    }
    return OCT_OK;
}

oct_status oct__stage_open(const char *dir, char stage[OCT_PATH_BYTES]) {
    OCT_TRY(oct__path_join(dir, ".incoming-XXXXXX", "", stage));
    if (!mkdtemp(stage)) {
        return fail_errno("making a folder for the download", dir);
    }
    return OCT_OK;
}

/* Removes `name` in the open folder `at`, whatever it is; links are removed, never followed. */
static void remove_tree(int at, const char *name, int depth) {
    enum { DEEPEST = 64 };
    if (unlinkat(at, name, 0) == 0 || depth > DEEPEST) {
        return;
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return;
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove_tree(fd, entry->d_name, depth + 1);
        }
    }
    closedir(folder);
    unlinkat(at, name, AT_REMOVEDIR);
}

void oct__stage_remove(const char *stage) {
    remove_tree(AT_FDCWD, stage, 0);
}

oct_status oct__stage_install(const char *stage, const char *dir, const char *name) {
    char from[OCT_PATH_BYTES], to[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(stage, name, "", from));
    OCT_TRY(oct__path_join(dir, name, "", to));
    if (rename(from, to) != 0) {
        return fail_errno("moving the checked file there", to);
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno("opening the folder", dir);
    }
    /* Some file systems cannot sync a folder (EINVAL); the file's own data is safe already. */
    int failed = fsync(fd) != 0 && errno != EINVAL;
    int error = errno;
    close(fd);
    errno = error;
    return failed ? fail_errno("bringing the folder to the disk", dir) : OCT_OK;
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
            OCT_FAIL(IO, "%s: writing at byte %s: %s; make room or use another data folder",
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
