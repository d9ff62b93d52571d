/* SPDX-License-Identifier: Apache-2.0 */
/* replace.c - files that are complete or not there; see replace.h. */
#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 40  /* as many as the kernel follows */
#define MOST_NAMES 100 /* that others have taken */

/* The place that a link leads to: its text, which is seen from where it lies. 0, or errno. */
static int follow_link(char place[OCT_REPLACE_PATH]) {
    char text[OCT_REPLACE_PATH];
    const ssize_t n = readlink(place, text, sizeof text);
    if (n < 0) {
        return errno;
    }
    const char *slash = strrchr(place, '/');
    const size_t n_above = text[0] == '/' || !slash ? 0 : (size_t)(slash + 1 - place);
    if (n_above + (size_t)n >= OCT_REPLACE_PATH) {
        return ENAMETOOLONG;
    }
    memcpy(place + n_above, text, (size_t)n);
    place[n_above + (size_t)n] = '\0';
    return 0;
}

/* "/proc/self/fd/1": a link whose text may lead elsewhere, or nowhere. */
static int is_open_file(const char *link) {
    return strncmp(link, "/proc/", 6) == 0 || strncmp(link, "/dev/fd/", 8) == 0;
}

/* Where the file lies, and whether it is replaced as a whole. 0, or errno. */
static int find_place(const char *path, char place[OCT_REPLACE_PATH], int *is_whole) {
    struct stat facts;
    if (!*path || strlen(path) >= OCT_REPLACE_PATH) {
        return *path ? ENAMETOOLONG : ENOENT;
    }
    strcpy(place, path);
    *is_whole = stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
    for (int i = 0; *is_whole && lstat(place, &facts) == 0 && S_ISLNK(facts.st_mode); i++) {
        if (is_open_file(place)) {
            strcpy(place, path);
            *is_whole = 0;
            break;
        }
        const int error = i < MOST_LINKS ? follow_link(place) : ELOOP;
        if (error) {
            return error;
        }
    }
    return 0;
}

/* A file that nobody has: "model.partial", "model.partial-2" … Its descriptor, or -1. */
static int open_beside(struct oct__replacement *out) {
    for (int i = 1; i <= MOST_NAMES; i++) {
        char number[16] = "";
        if (i > 1) {
            snprintf(number, sizeof number, "-%d", i);
        }
        const int n = snprintf(out->beside, sizeof out->beside, "%s.partial%s", out->place, number);
        if (n < 0 || (size_t)n >= sizeof out->beside) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int descriptor = open(out->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) {
            return descriptor;
        }
    }
    return -1;
}

int oct__replacement_open(struct oct__replacement *out, const char *path) {
    struct stat facts;
    int is_whole;
    out->file = NULL;
    out->beside[0] = '\0';
    int error = find_place(path, out->place, &is_whole);
    if (error) {
        return error;
    }
    if (!is_whole) {
        out->file = fopen(out->place, "wb");
        return out->file ? 0 : errno;
    }
    const int is_there = stat(out->place, &facts) == 0;
    if (is_there && access(out->place, W_OK) != 0) {
        return errno;
    }
    const int descriptor = open_beside(out);
    if (descriptor < 0) {
        return errno;
    }
    if (is_there) {
        (void)fchmod(descriptor, facts.st_mode & 07777);
    }
    out->file = fdopen(descriptor, "wb");
    if (!out->file) {
        error = errno;
        close(descriptor);
        unlink(out->beside);
    }
    return error;
}

int oct__replacement_close(struct oct__replacement *replacement, int is_good) {
    int error = fclose(replacement->file) == 0 ? 0 : errno;
    replacement->file = NULL;
    if (!replacement->beside[0]) {
        return error;
    }
    if (!error && is_good && rename(replacement->beside, replacement->place) != 0) {
        error = errno;
    }
    if (error || !is_good) {
        unlink(replacement->beside);
    }
    return error;
}
