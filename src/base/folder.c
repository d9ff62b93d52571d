/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - folders: made, removed, brought to the disk. */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

#define LOCK_BYTES (PATH_BYTES + 8)

/* Its file that is locked; 0: the path is too long. */
static int lock_of(const char *path, char file[LOCK_BYTES]) {
    return strlen(path) < PATH_BYTES && snprintf(file, LOCK_BYTES, "%s/.lock", path) > 0;
}

/* Whether the open file is still the one of that name: who had it before removes it. */
static int is_still(int fd, const char *path) {
    struct stat mine, now;
    return fstat(fd, &mine) == 0 && stat(path, &now) == 0 && mine.st_dev == now.st_dev &&
           mine.st_ino == now.st_ino;
}

/* Who has locked the open file; 0: it is not known, or nobody any more. */
static long holder(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK ? (long)whole.l_pid : 0;
}

oct_status oct__folder_take(const char *path, int *key) {
    enum { TRIES = 100 };
    char file[LOCK_BYTES];
    *key = 0;
    if (!lock_of(path, file)) {
        OCT_FAIL(INVALID, "'%s' cannot be a folder: its path is too long", shown(path));
    }
    for (int i = 0; i < TRIES; i++) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        const int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) {
            return OCT_OK; /* whoever writes into it will say why */
        }
        if (fcntl(fd, F_SETLK, &whole) != 0) {
            const int is_held = errno == EACCES || errno == EAGAIN;
            const long other = is_held ? holder(fd) : 0;
            close(fd);
            if (is_held) {
                OCT_FAIL(IO,
                         "%s: process %ld is writing into it; let that end, or use another folder",
                         shown(path), other);
            }
            return OCT_OK;
        }
        if (is_still(fd, file)) {
            *key = fd + 1;
            return OCT_OK;
        }
        close(fd);
    }
    return OCT_OK;
}

void oct__folder_leave(const char *path, int key) {
    char file[LOCK_BYTES];
    if (key > 0 && lock_of(path, file)) {
        (void)unlink(file);
        close(key - 1);
    }
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
