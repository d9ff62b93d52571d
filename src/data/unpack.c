/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - members of a tar archive (libarchive) and gzipped files (zlib) into a stage. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
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
static const int64_t most_tree_member_bytes = (int64_t)1 << 26;

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

/* Copies a member into a file that was opened for it, and drops the file when that fails. */
static oct_status copy_member(struct archive *archive, const char *origin, const char *name,
                              struct oct__incoming *incoming) {
    oct_status status;
    for (;;) {
        char chunk[CHUNK_BYTES];
        la_ssize_t got = archive_read_data(archive, chunk, sizeof chunk);
        if (got < 0) {
            status = damaged(archive, origin);
            break;
        }
        if (got == 0) {
            return OCT_OK;
        }
        status = oct__incoming_write(incoming, chunk, (size_t)got);
        if (status == OCT_STATUS_CORRUPT) {
            status = oct__fail_within(status, "%s: %s is ", oct__path_shown(origin), name);
        }
        if (status != OCT_OK) {
            break;
        }
    }
    oct__incoming_drop(incoming);
    return status;
}

static oct_status take_member(struct archive *archive, const char *origin,
                              const struct oct__data_file *file, const char *stage) {
    struct oct__incoming incoming;
    OCT_TRY(oct__incoming_open(&incoming, stage, file->name, file->n_bytes));
    OCT_TRY(copy_member(archive, origin, file->name, &incoming));
    return oct__incoming_finish(&incoming, origin, file);
}

/* The next member; *entry is NULL behind the last. */
static oct_status next_member(struct archive *archive, const char *origin,
                              struct archive_entry **entry) {
    int result = archive_read_next_header(archive, entry);
    if (result == ARCHIVE_EOF) {
        *entry = NULL;
        return OCT_OK;
    }
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        return damaged(archive, origin);
    }
    if (archive_entry_size(*entry) > most_member_bytes) {
        OCT_FAIL(CORRUPT, "%s: holds a member of %lld bytes, which no dataset has: not used",
                 oct__path_shown(origin), (long long)archive_entry_size(*entry));
    }
    return OCT_OK;
}

static oct_status take_members(struct archive *archive, const char *origin,
                               const struct oct__data_file *files, const char *stage) {
    uint64_t taken = 0; /* bit i: row i of the table was found */
    for (;;) {
        struct archive_entry *entry;
        OCT_TRY(next_member(archive, origin, &entry));
        if (!entry) {
            break;
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

/* --- trees ----------------------------------------------------------------------------------- */

/* Longest name of a class or file. */
#define NAME_BYTES 128

/* The last three parts of a member's path. */
struct place {
    enum oct_split half;
    char class_name[NAME_BYTES], file_name[NAME_BYTES];
};

/* Copies a part of a path if it is a plain name: nothing that leads elsewhere. */
static int take_name(const char *from, size_t length, char to[NAME_BYTES]) {
    if (length == 0 || length >= NAME_BYTES || from[0] == '.') {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        const char c = from[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-' && c != '.') {
            return 0;
        }
        to[i] = c;
    }
    to[length] = '\0';
    return 1;
}

/* Whether a member is a file of the tree, and which. */
static int find_place(struct archive_entry *entry, const struct oct__data_tree *tree,
                      struct place *out) {
    const char *path = archive_entry_pathname(entry);
    if (!path || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) {
        return 0;
    }
    const char *ends[4] = {path + strlen(path)}, *begins[3];
    for (int i = 0; i < 3; i++) {
        const char *at = ends[i];
        while (at > path && at[-1] != '/') {
            at--;
        }
        begins[i] = at;
        if (at == path && i < 2) {
            return 0;
        }
        ends[i + 1] = at > path ? at - 1 : at;
    }
    char half[NAME_BYTES];
    if (!take_name(begins[0], (size_t)(ends[0] - begins[0]), out->file_name) ||
        !take_name(begins[1], (size_t)(ends[1] - begins[1]), out->class_name) ||
        !take_name(begins[2], (size_t)(ends[2] - begins[2]), half)) {
        return 0;
    }
    out->half = strcmp(half, tree->halves[0]) == 0 ? OCT_SPLIT_TRAIN : OCT_SPLIT_TEST;
    return strcmp(half, tree->halves[out->half]) == 0;
}

static oct_status take_tree_member(struct archive *archive, const char *origin,
                                   const struct oct__data_tree *tree, const struct place *place,
                                   const char *stage) {
    char half[OCT_PATH_BYTES], folder[OCT_PATH_BYTES], path[OCT_PATH_BYTES];
    struct oct__incoming incoming;
    OCT_TRY(oct__path_join(stage, tree->halves[place->half], "", half));
    OCT_TRY(oct__path_join(half, place->class_name, "", folder));
    OCT_TRY(oct__path_join(folder, place->file_name, "", path));
    OCT_TRY(oct__folder_make(folder));
    if (access(path, F_OK) == 0) {
        OCT_FAIL(CORRUPT, "%s: holds %s/%s/%s twice: not used", oct__path_shown(origin),
                 tree->halves[place->half], place->class_name, place->file_name);
    }
    OCT_TRY(
        oct__incoming_open(&incoming, folder, place->file_name, (uint64_t)most_tree_member_bytes));
    OCT_TRY(copy_member(archive, origin, place->file_name, &incoming));
    return oct__incoming_leave(&incoming);
}

static oct_status take_tree(struct archive *archive, const char *origin,
                            const struct oct__data_tree *tree, const char *stage) {
    int n_files = 0;
    for (;;) {
        struct archive_entry *entry;
        struct place place;
        OCT_TRY(next_member(archive, origin, &entry));
        if (!entry) {
            break;
        }
        if (!find_place(entry, tree, &place)) {
            continue;
        }
        if (n_files++ == tree->n_files) {
            OCT_FAIL(CORRUPT, "%s: holds more than the %d files of the dataset: not used",
                     oct__path_shown(origin), tree->n_files);
        }
        OCT_TRY(take_tree_member(archive, origin, tree, &place, stage));
    }
    if (n_files < tree->n_files) {
        OCT_FAIL(CORRUPT,
                 "%s: holds %d files %s/CLASS/NAME and %s/CLASS/NAME, expected %d: not used",
                 oct__path_shown(origin), n_files, tree->halves[0], tree->halves[1], tree->n_files);
    }
    return OCT_OK;
}

/* --- archives -------------------------------------------------------------------------------- */

oct_status oct__unpack_has_tar(const char *origin) {
    (void)origin;
    return OCT_OK;
}

/* The files of a table, or where that is NULL those of a tree. */
static oct_status unpack(const char *path, const char *origin, const struct oct__data_file *files,
                         const struct oct__data_tree *tree, const char *stage) {
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
        status = files ? take_members(archive, origin, files, stage)
                       : take_tree(archive, origin, tree, stage);
    }
    archive_read_free(archive);
    return status;
}

oct_status oct__unpack_tar(const char *path, const char *origin, const struct oct__data_file *files,
                           const char *stage) {
    return unpack(path, origin, files, NULL, stage);
}

oct_status oct__unpack_tree(const char *path, const char *origin, const struct oct__data_tree *tree,
                            const char *stage) {
    return unpack(path, origin, NULL, tree, stage);
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

oct_status oct__unpack_tree(const char *path, const char *origin, const struct oct__data_tree *tree,
                            const char *stage) {
    (void)path;
    (void)tree;
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
