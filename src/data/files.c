/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - finding, reading and checking dataset files; see files.h. */
#include "data/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef OCT_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/sha256.h"

oct_status oct__path_join(const char *folder, const char *name, const char *suffix,
                          char out[OCT_PATH_BYTES]) {
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    int wrote = snprintf(out, OCT_PATH_BYTES, "%s%s%s%s", folder, slash, name, suffix);
    if (wrote < 0 || wrote >= OCT_PATH_BYTES) {
        OCT_FAIL(INVALID, "%s: a path is longer than %d bytes; use a shorter folder",
                 oct__path_shown(folder), OCT_PATH_BYTES - 1);
    }
    return OCT_OK;
}

const char *oct__path_shown(const char *path) {
    enum { MOST = 200 };
    size_t length = strlen(path);
    return length > MOST ? path + (length - MOST) : path;
}

const char *oct__grouped(uint64_t number, char out[OCT_GROUPED_BYTES]) {
    char *at = out + (OCT_GROUPED_BYTES - 1);
    *at = '\0';
    for (int digit = 0; digit == 0 || number > 0; digit++, number /= 10) {
        if (digit > 0 && digit % 3 == 0) {
            *--at = ',';
        }
        *--at = (char)('0' + number % 10);
    }
    return at;
}

/* How a file lies in a folder. */
enum presence { ABSENT, PLAIN, GZIPPED };

static oct_status find_file(const char *dir, const char *name, enum presence *out) {
    char path[OCT_PATH_BYTES];
    struct stat facts;
    for (enum presence form = PLAIN; form <= GZIPPED; form++) {
        OCT_TRY(oct__path_join(dir, name, form == PLAIN ? "" : ".gz", path));
        if (stat(path, &facts) == 0) {
            *out = form;
            return OCT_OK;
        }
        if (errno != ENOENT && errno != ENOTDIR) {
            OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
        }
    }
    *out = ABSENT;
    return OCT_OK;
}

/* Counts the files of the dataset that `dir` has and names the first it has not (NULL: all there).
 */
static oct_status survey(const struct oct_dataset_kind *kind, const char *dir, int *n_present,
                         const char **missing) {
    *n_present = 0;
    *missing = NULL;
    for (const struct oct__data_file *file = kind->files; file->name; file++) {
        enum presence presence;
        OCT_TRY(find_file(dir, file->name, &presence));
        if (presence != ABSENT) {
            ++*n_present;
        } else if (!*missing) {
            *missing = file->name;
        }
    }
    return OCT_OK;
}

oct_status oct__files_locate(const struct oct_dataset_kind *kind, const char *folder,
                             char out[OCT_PATH_BYTES]) {
    const char *name = kind->plugin.name;
    char own[OCT_PATH_BYTES] = "";
    const char *missing = kind->files[0].name;
    int n_present = 0;
    if (folder) {
        OCT_TRY(oct__path_join(folder, kind->folder, "", own));
        OCT_TRY(survey(kind, own, &n_present, &missing));
        if (!missing) {
            memcpy(out, own, sizeof own);
            return OCT_OK;
        }
    }
    if (kind->package_folder) {
        int n_packaged;
        const char *missing_packaged;
        OCT_TRY(survey(kind, kind->package_folder, &n_packaged, &missing_packaged));
        if (!missing_packaged) {
            snprintf(out, OCT_PATH_BYTES, "%s", kind->package_folder);
            return OCT_OK;
        }
    }
    if (n_present > 0) {
        OCT_FAIL(NOT_FOUND, "%s: %s has %d of its files but no %s; get it with: %s", name,
                 oct__path_shown(own), n_present, missing, kind->remedy);
    }
    if (!folder && !kind->package_folder) {
        OCT_FAIL(NOT_FOUND, "%s: no data folder was named to look for %s in; get it with: %s", name,
                 missing, kind->remedy);
    }
    OCT_FAIL(NOT_FOUND, "%s: %s is not in %s%s%s; get it with: %s", name, missing,
             oct__path_shown(own), folder && kind->package_folder ? " nor in " : "",
             kind->package_folder ? kind->package_folder : "", kind->remedy);
}

static oct_status wrong_size(const char *path, uint64_t found, const struct oct__data_file *file,
                             const char *remedy) {
    char a[OCT_GROUPED_BYTES], b[OCT_GROUPED_BYTES];
    OCT_FAIL(CORRUPT, "%s: %s bytes, expected %s: %s; get it again with: %s", oct__path_shown(path),
             oct__grouped(found, a), oct__grouped(file->n_bytes, b),
             found < file->n_bytes ? "truncated" : "too long", remedy);
}

static oct_status read_plain(int fd, const char *path, const struct oct__data_file *file,
                             const char *remedy, uint8_t *bytes) {
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        OCT_FAIL(CORRUPT, "%s: not a regular file; get it again with: %s", oct__path_shown(path),
                 remedy);
    }
    if ((uint64_t)facts.st_size != file->n_bytes) {
        return wrong_size(path, (uint64_t)facts.st_size, file, remedy);
    }
    for (uint64_t done = 0; done < file->n_bytes;) {
        ssize_t got = read(fd, bytes + done, (size_t)(file->n_bytes - done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            char at[OCT_GROUPED_BYTES];
            OCT_FAIL(IO, "%s: at byte %s: %s", oct__path_shown(path), oct__grouped(done, at),
                     strerror(errno));
        }
        if (got == 0) { /* someone cut it short while we read */
            return wrong_size(path, done, file, remedy);
        }
        done += (uint64_t)got;
    }
    return OCT_OK;
}

#ifdef OCT_HAVE_ZLIB

/* Takes over `fd`. */
static oct_status read_gzipped(int fd, const char *path, const struct oct__data_file *file,
                               const char *remedy, uint8_t *bytes) {
    gzFile stream = gzdopen(fd, "rb");
    if (!stream) {
        close(fd);
        OCT_FAIL(NO_MEMORY, "%s: no memory to unpack it", oct__path_shown(path));
    }
    gzbuffer(stream, 1U << 17);
    oct_status status = OCT_OK;
    uint64_t done = 0;
    uint8_t excess; /* a byte behind the expected end shows that the file is too long */
    for (;;) {
        uint64_t left = file->n_bytes - done;
        unsigned want = left == 0 ? 1 : left < (1U << 20) ? (unsigned)left : 1U << 20;
        int got = gzread(stream, left == 0 ? &excess : bytes + done, want);
        if (got < 0 || (got == 0 && left > 0)) {
            int code;
            const char *text = gzerror(stream, &code);
            const char *colon = strstr(text, ": "); /* before it is a name we know better */
            text = colon ? colon + 2 : text;
            char at[OCT_GROUPED_BYTES];
            if (code == Z_ERRNO) {
                OCT_FAIL_TO(out, IO, "%s: %s", oct__path_shown(path), strerror(errno));
            }
            if (code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END) {
                status = wrong_size(path, done, file, remedy);
                goto out;
            }
            OCT_FAIL_TO(out, CORRUPT, "%s: damaged near its byte %s (%s); get it again with: %s",
                        oct__path_shown(path), oct__grouped((uint64_t)gzoffset(stream), at), text,
                        remedy);
        }
        if (left == 0) {
            if (got > 0) {
                status = wrong_size(path, done + 1, file, remedy);
            }
            goto out;
        }
        done += (uint64_t)got;
    }
out:
    gzclose_r(stream);
    return status;
}

#endif

oct_status oct__files_load(const char *dir, const struct oct__data_file *file, const char *remedy,
                           struct oct__loaded *out) {
    enum presence presence;
    OCT_TRY(find_file(dir, file->name, &presence));
    OCT_TRY(oct__path_join(dir, file->name, presence == GZIPPED ? ".gz" : "", out->path));
#ifndef OCT_HAVE_ZLIB
    if (presence == GZIPPED) {
        OCT_FAIL(UNSUPPORTED, "%s: this build has no zlib to read it; unpack it with gunzip",
                 oct__path_shown(out->path));
    }
#endif
    void *memory;
    OCT_TRY(oct__alloc((size_t)file->n_bytes, file->name, &memory));
    oct_status status;
    int fd = open(out->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        OCT_FAIL_TO(fail, NOT_FOUND, "%s: no such file; get it with: %s",
                    oct__path_shown(out->path), remedy);
    }
    if (fd < 0) {
        OCT_FAIL_TO(fail, IO, "%s: %s", oct__path_shown(out->path), strerror(errno));
    }
#ifdef OCT_HAVE_ZLIB
    if (presence == GZIPPED) {
        OCT_TRY_TO(fail, read_gzipped(fd, out->path, file, remedy, memory));
    } else
#endif
    {
        status = read_plain(fd, out->path, file, remedy, memory);
        close(fd);
        if (status != OCT_OK) {
            goto fail;
        }
    }
    out->bytes = memory;
    out->n_bytes = (size_t)file->n_bytes;
    return OCT_OK;
fail:
    oct__free(memory);
    return status;
}

void oct__loaded_fini(struct oct__loaded *loaded) {
    oct__free(loaded->bytes);
    loaded->bytes = NULL;
    loaded->n_bytes = 0;
}

oct_status oct__files_check(const struct oct__loaded *loaded, const struct oct__data_file *file,
                            const char *remedy) {
    if (!file->sha256) {
        return OCT_OK;
    }
    struct oct__sha256 sha;
    char text[OCT_SHA256_TEXT];
    oct__sha256_init(&sha);
    oct__sha256_add(&sha, loaded->bytes, loaded->n_bytes);
    oct__sha256_text(&sha, text);
    if (strcmp(text, file->sha256) != 0) {
        OCT_FAIL(CORRUPT, "%s: altered: its SHA-256 is %s, expected %s; get it again with: %s",
                 oct__path_shown(loaded->path), text, file->sha256, remedy);
    }
    return OCT_OK;
}
