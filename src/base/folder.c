/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - folders: made, removed, brought to the disk. */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define SHOWN 200 /* of a long path, its end: what a message has room for */

static const char *shown(const char *path) {
    size_t length = strlen(path);
    return length > SHOWN ? path + (length - SHOWN) : path;
}

static oct_status fail_errno(const char *what, const char *path) {
    OCT_FAIL(IO, "%s: %s: %s", shown(path), what, strerror(errno));
}

/* Brings the entry of a folder that was just made to the disk, where the one above can be opened. */
static void sync_above(char *path) {
    char *slash = strrchr(path, '/');
    const char *above = !slash ? "." : slash == path ? "/" : path;
    if (slash && slash != path) {
        *slash = '\0';
    }
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (slash && slash != path) {
        *slash = '/';
    }
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

oct_status oct__folder_make(const char *path) {
    char part[PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        OCT_FAIL(INVALID, "'%s' cannot be a folder: its path is empty or too long", shown(path));
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0') {
            continue;
        }
        char held = part[i];
        part[i] = '\0';
        struct stat facts;
        if (mkdir(part, 0777) == 0) {
            sync_above(part);
        } else {
            int error = errno; /* a read-only file system says so even of what is there */
            int is_there = stat(part, &facts) == 0;
            if (!is_there || !S_ISDIR(facts.st_mode)) {
                errno = is_there ? ENOTDIR : error;
                return fail_errno("making the folder", part);
            }
        }
        part[i] = held;
    }
    return OCT_OK;
}

oct_status oct__folder_make_above(const char *path) {
    char above[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length == 0) {
        return OCT_OK; /* the current folder, or the root */
    }
    if (length >= sizeof above) {
        OCT_FAIL(INVALID, "'%s' cannot be a file: its path is too long", shown(path));
    }
    memcpy(above, path, length);
    above[length] = '\0';
    return oct__folder_make(above);
}

/* Removes `name` in the open folder `at`, whatever it is. */
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

int oct__folder_remove(const char *path) {
    struct stat facts;
    remove_tree(AT_FDCWD, path, 0);
    return lstat(path, &facts) == 0 ? -1 : 0;
}

oct_status oct__folder_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno("opening the folder", path);
    }
    /* Some file systems cannot sync a folder (EINVAL); the files' own data is safe already. */
    int failed = fsync(fd) != 0 && errno != EINVAL;
    int error = errno;
    close(fd);
    errno = error;
    return failed ? fail_errno("bringing the folder to the disk", path) : OCT_OK;
}
