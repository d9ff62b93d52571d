/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - folders and files of checkpoints: written whole, checked whole, the newest two kept.
 *
 * The order in which things reach the disk is what a crash cannot undo:
 *
 *     step-N.partial/node-*      written and synced, one after another
 *     step-N.partial/manifest    written and synced; then the folder
 *     step-N.partial -> step-N   renamed; then DIR synced
 *     older ones                 removed only now
 *
 * So under its own name a checkpoint is complete, and until it is, the one before it stays. Where a
 * checkpoint of the same step is there already (a run that was resumed and stopped at once, or
 * stopped in the rounds after its last epoch) it steps aside as step-N.old first, under which name
 * it is still found.
 *
 * What is read is not trusted: it may have been cut by a full disk or altered by a bad one.
 */
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/parallel.h"
#include "data/stage.h"
#include "train/safetensors.h"

#define MANIFEST "manifest"
#define PARTIAL ".partial"
#define OLD ".old"
#define CHUNK ((size_t)1 << 20) /* bytes that are read at once when sums are compared */

/* Whether errno says that a file is not there, rather than that nobody can tell. */
static int is_absent(void) {
    return errno == ENOENT || errno == ENOTDIR;
}

/* --- names ----------------------------------------------------------------------------------- */

static oct_status step_path(const char *folder, uint64_t step, const char *suffix,
                            char out[OCT_PATH_BYTES]) {
    char name[40];
    snprintf(name, sizeof name, "step-%012llu", (unsigned long long)step);
    return oct__path_join(folder, name, suffix, out);
}

enum form { FORM_WHOLE, FORM_OLD, FORM_PARTIAL };

static const char *const suffixes[] = {"", OLD, PARTIAL};

/* A checkpoint's folder, as its name says. */
struct candidate {
    uint64_t step;
    enum form form;
};

/* Exactly the names that step_path makes. */
static int read_name(const char *name, struct candidate *out) {
    if (strncmp(name, "step-", 5) != 0) {
        return 0;
    }
    char expected[64];
    errno = 0;
    out->step = strtoull(name + 5, NULL, 10); /* compared with what was read, below */
    for (out->form = FORM_WHOLE; errno == 0 && out->form <= FORM_PARTIAL; out->form++) {
        snprintf(expected, sizeof expected, "step-%012llu%s", (unsigned long long)out->step,
                 suffixes[out->form]);
        if (strcmp(name, expected) == 0) {
            return 1;
        }
    }
    return 0;
}

struct listing {
    struct candidate *items; /* newest first; of one step, the whole before the old */
    size_t n, capacity;
    int n_others; /* entries that are none of ours */
};

static int newer_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->step != y->step) {
        return x->step > y->step ? -1 : 1;
    }
    return (int)x->form - (int)y->form;
}

/* The folder's checkpoints, finished or not; the caller frees items. */
static oct_status list(const char *folder, struct listing *out) {
    memset(out, 0, sizeof *out);
    DIR *directory = opendir(folder);
    if (!directory && is_absent()) {
        OCT_FAIL(NOT_FOUND,
                 "%s: no such folder; a run writes checkpoints into the folder that its option "
                 "checkpoint names",
                 oct__path_shown(folder));
    }
    if (!directory) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(folder), strerror(errno));
    }
    oct_status status = OCT_OK;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        struct candidate candidate;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (!read_name(entry->d_name, &candidate)) {
            out->n_others++;
            continue;
        }
        void *memory = out->items;
        status = oct__alloc_grow(&memory, &out->capacity, out->n + 1, sizeof candidate,
                                 "a list of checkpoints");
        if (status != OCT_OK) {
            break;
        }
        out->items = memory;
        out->items[out->n++] = candidate;
    }
    closedir(directory);
    if (status != OCT_OK) {
        oct__free(out->items);
        out->items = NULL;
        return status;
    }
    if (out->n > 1) {
        qsort(out->items, out->n, sizeof *out->items, newer_first);
    }
    return OCT_OK;
}

/* --- checking -------------------------------------------------------------------------------- */

/* Opens a regular file and tells its length; a pipe in its place must not make us wait. */
static oct_status open_file(const char *path, int *out, uint64_t *n_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && is_absent()) {
        OCT_FAIL(CORRUPT, "%s: is missing", oct__path_shown(path));
    }
    if (fd < 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
    }
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0) {
        close(fd);
        OCT_FAIL(CORRUPT, "%s: is no file", oct__path_shown(path));
    }
    *out = fd;
    *n_bytes = (uint64_t)facts.st_size;
    return OCT_OK;
}

/* Exactly so many bytes from `offset` on. */
static oct_status read_at(int fd, const char *path, uint64_t offset, void *bytes, size_t n_bytes) {
    uint8_t *to = bytes;
    while (n_bytes > 0) {
        ssize_t got = pread(fd, to, n_bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EIO) {
            OCT_FAIL(CORRUPT, "%s: cannot be read from byte %llu on: %s", oct__path_shown(path),
                     (unsigned long long)offset, strerror(errno));
        }
        if (got < 0) {
            OCT_FAIL(IO, "%s: reading failed: %s", oct__path_shown(path), strerror(errno));
        }
        if (got == 0) {
            OCT_FAIL(CORRUPT, "%s: ends at byte %llu: truncated", oct__path_shown(path),
                     (unsigned long long)offset);
        }
        to += got;
        offset += (uint64_t)got;
        n_bytes -= (size_t)got;
    }
    return OCT_OK;
}

/* Reads and parses the manifest in the checkpoint's folder `path`. */
static oct_status read_manifest(const char *path, uint64_t step, struct oct__manifest **out) {
    char file[OCT_PATH_BYTES];
    oct_status status = OCT_OK;
    int fd = -1;
    uint64_t n_bytes = 0;
    void *bytes = NULL;
    struct oct__manifest *manifest = NULL;
    OCT_TRY(oct__path_join(path, MANIFEST, "", file));
    OCT_TRY(open_file(file, &fd, &n_bytes));
    if (n_bytes > OCT_MANIFEST_MOST) {
        OCT_FAIL_TO(out, CORRUPT, "%s: %llu bytes are too many for a manifest",
                    oct__path_shown(file), (unsigned long long)n_bytes);
    }
    OCT_TRY_TO(out, oct__alloc((size_t)n_bytes, "a manifest", &bytes));
    OCT_TRY_TO(out, read_at(fd, file, 0, bytes, (size_t)n_bytes));
    OCT_TRY_TO(out, oct__manifest_parse(oct__path_shown(file), bytes, (size_t)n_bytes, &manifest));
    if (manifest->step != step) {
        OCT_FAIL_TO(out, CORRUPT, "%s: it is of step %llu, which its folder's name is not",
                    oct__path_shown(file), (unsigned long long)manifest->step);
    }
    OCT_TRY_TO(out, oct__alloc_text(path, "a path", &manifest->path));
    *out = manifest;
    manifest = NULL;
out:
    oct__manifest_close(manifest);
    oct__free(bytes);
    close(fd);
    return status;
}

static oct_status node_path(const struct oct__manifest *manifest, int node,
                            char out[OCT_PATH_BYTES]) {
    char name[OCT_NODE_FILE];
    oct__node_file(node, name);
    return oct__path_join(manifest->path, name, "", out);
}

/* Opens a node's file, whose length must be the manifest's. */
static oct_status open_node(const struct oct__manifest *manifest, int node,
                            char path[OCT_PATH_BYTES], int *fd) {
    uint64_t n_bytes;
    OCT_TRY(node_path(manifest, node, path));
    OCT_TRY(open_file(path, fd, &n_bytes));
    if (n_bytes != manifest->files[node].bytes) {
        close(*fd);
        OCT_FAIL(CORRUPT, "%s: %llu bytes, expected %llu: truncated or altered",
                 oct__path_shown(path), (unsigned long long)n_bytes,
                 (unsigned long long)manifest->files[node].bytes);
    }
    return OCT_OK;
}

struct verification {
    const struct oct__manifest *manifest;
    uint8_t *buffers; /* [workers][CHUNK] */
};

/* The task of one file: its length and its sum. */
static oct_status verify_node(void *context, int node, int worker) {
    const struct verification *v = context;
    const struct oct__manifest_file *file = &v->manifest->files[node];
    uint8_t *buffer = v->buffers + (size_t)worker * CHUNK;
    char path[OCT_PATH_BYTES], sum[OCT_SHA256_TEXT];
    struct oct__sha256 sha;
    int fd;
    OCT_TRY(open_node(v->manifest, node, path, &fd));
    oct_status status = OCT_OK;
    oct__sha256_init(&sha);
    for (uint64_t at = 0; at < file->bytes && status == OCT_OK;) {
        size_t n = file->bytes - at < CHUNK ? (size_t)(file->bytes - at) : CHUNK;
        status = read_at(fd, path, at, buffer, n);
        if (status == OCT_OK) {
            oct__sha256_add(&sha, buffer, n);
        }
        at += n;
    }
    close(fd);
    OCT_TRY(status);
    oct__sha256_text(&sha, sum);
    if (strcmp(sum, file->sha256) != 0) {
        OCT_FAIL(CORRUPT, "%s: altered: its SHA-256 is %s, expected %s", oct__path_shown(path), sum,
                 file->sha256);
    }
    return OCT_OK;
}

static oct_status verify(const struct oct__manifest *manifest) {
    const int width = oct__parallel_width();
    const int n_workers = width < manifest->n_nodes ? width : manifest->n_nodes;
    void *buffers;
    OCT_TRY(oct__alloc_array((size_t)n_workers, CHUNK, "buffers for checking", &buffers));
    struct verification verification = {manifest, buffers};
    oct_status status = oct__parallel(n_workers, manifest->n_nodes, verify_node, &verification);
    oct__free(buffers);
    return status;
}

/* A checkpoint of which every byte is right. */
static oct_status open_candidate(const char *folder, const struct candidate *candidate,
                                 struct oct__manifest **out) {
    char path[OCT_PATH_BYTES];
    struct oct__manifest *manifest;
    OCT_TRY(step_path(folder, candidate->step, suffixes[candidate->form], path));
    OCT_TRY(read_manifest(path, candidate->step, &manifest));
    oct_status status = verify(manifest);
    if (status != OCT_OK) {
        oct__manifest_close(manifest);
        return status;
    }
    *out = manifest;
    return OCT_OK;
}

/* A failure that says nothing about the checkpoint: there is no memory, no descriptor, no permission. To go
 * on as if it were damaged would lose what is in it. */
static int is_ours(oct_status status) {
    return status == OCT_STATUS_NO_MEMORY || status == OCT_STATUS_IO;
}

/* Nonzero when the folder has a manifest at all: it was finished once. */
static int has_manifest(const char *folder, const struct candidate *candidate) {
    char path[OCT_PATH_BYTES], file[OCT_PATH_BYTES];
    struct stat facts;
    return step_path(folder, candidate->step, suffixes[candidate->form], path) == OCT_OK &&
           oct__path_join(path, MANIFEST, "", file) == OCT_OK &&
           (lstat(file, &facts) == 0 || !is_absent());
}

static oct_status find_usable(const char *folder, const struct listing *listing,
                              struct oct__manifest **out) {
    char first[OCT_DETAIL_BYTES] = "";
    int n_damaged = 0, n_unfinished = 0;
    for (size_t i = 0; i < listing->n; i++) {
        const struct candidate *candidate = &listing->items[i];
        if (candidate->form == FORM_PARTIAL || !has_manifest(folder, candidate)) {
            n_unfinished++;
            continue;
        }
        oct_status status = open_candidate(folder, candidate, out);
        if (status == OCT_OK) {
            if (n_damaged > 0) {
                oct__log(OCT_LOG_WARNING, "%s; going back to step %llu", first,
                         (unsigned long long)candidate->step);
            }
            return OCT_OK;
        }
        if (is_ours(status)) {
            return status;
        }
        if (n_damaged++ == 0) {
            oct__detail_take(first);
        }
    }
    if (n_damaged > 0) {
        OCT_FAIL(CORRUPT, "%s; no other checkpoint in %s is usable: start the run anew", first,
                 oct__path_shown(folder));
    }
    if (n_unfinished > 0) {
        OCT_FAIL(NOT_FOUND,
                 "%s: of %d checkpoint%s none was finished: the run ended while it was being "
                 "written; start it anew",
                 oct__path_shown(folder), n_unfinished, n_unfinished == 1 ? "" : "s");
    }
    OCT_FAIL(NOT_FOUND, "%s: no checkpoint in it%s; expected folders called step-…",
             oct__path_shown(folder),
             listing->n_others > 0 ? ", though other files are" : ", it is empty");
}

oct_status oct__manifest_open(const char *folder, struct oct__manifest **out) {
    struct listing listing;
    OCT_TRY(list(folder, &listing));
    oct_status status = find_usable(folder, &listing, out);
    oct__free(listing.items);
    return status;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Nothing in the way: no file where a folder must go, no checkpoint that ours would hide behind. */
static oct_status check_place(const char *folder, uint64_t step, const struct listing *listing) {
    char path[OCT_PATH_BYTES];
    struct stat facts;
    OCT_TRY(step_path(folder, step, "", path));
    if (lstat(path, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
        OCT_FAIL(IO, "%s: is in the way of a checkpoint; move it", oct__path_shown(path));
    }
    for (size_t i = 0; i < listing->n && listing->items[i].step > step; i++) {
        struct oct__manifest *later;
        if (listing->items[i].form == FORM_PARTIAL) {
            continue;
        }
        oct_status status = open_candidate(folder, &listing->items[i], &later);
        if (is_ours(status)) {
            return status;
        }
        if (status != OCT_OK) {
            continue; /* damaged: nobody will take it for ours */
        }
        oct__manifest_close(later);
        OCT_FAIL(INVALID,
                 "%s: has a checkpoint of step %llu, and this run is at step %llu: another run's; "
                 "go on from it with --resume, or use another folder",
                 oct__path_shown(folder), (unsigned long long)listing->items[i].step,
                 (unsigned long long)step);
    }
    return OCT_OK;
}

oct_status oct__checkpoint_prepare(const char *folder, uint64_t step) {
    struct listing listing;
    OCT_TRY(oct__folder_make(folder));
    if (access(folder, W_OK | X_OK) != 0) {
        OCT_FAIL(IO, "%s: checkpoints cannot be written into it: %s", oct__path_shown(folder),
                 strerror(errno));
    }
    OCT_TRY(list(folder, &listing));
    oct_status status = check_place(folder, step, &listing);
    oct__free(listing.items);
    return status;
}

/* Memory for one row, as floats and as bytes, and for the list of a node's rows. */
struct desk {
    float *values;
    uint8_t *bytes;
    struct oct__section *sections;
    int *shelves; /* [n_sections] index of each with its owner */
    size_t n_values, n_bytes, n_sections, section_capacity, shelf_capacity;
};

static void desk_fini(struct desk *desk) {
    oct__free(desk->values);
    oct__free(desk->bytes);
    oct__free(desk->sections);
    oct__free(desk->shelves);
}

/* Room for a row; what was there is lost. */
static oct_status desk_fit(struct desk *desk, const struct oct__row *row) {
    void *values = desk->values, *bytes = desk->bytes;
    OCT_TRY(oct__alloc_grow(&values, &desk->n_values, row->n_elements, sizeof(float), "a row"));
    desk->values = values;
    OCT_TRY(oct__alloc_grow(&bytes, &desk->n_bytes, oct__row_count(row) * sizeof(float), 1,
                            "a row's bytes"));
    desk->bytes = bytes;
    return OCT_OK;
}

static oct_status desk_section(struct desk *desk, const char *name, const struct oct__row *row,
                               int shelf) {
    void *sections = desk->sections, *shelves = desk->shelves;
    OCT_TRY(oct__alloc_grow(&sections, &desk->section_capacity, desk->n_sections + 1,
                            sizeof *desk->sections, "a node's rows"));
    desk->sections = sections;
    OCT_TRY(oct__alloc_grow(&shelves, &desk->shelf_capacity, desk->n_sections + 1,
                            sizeof *desk->shelves, "a node's rows"));
    desk->shelves = shelves;
    struct oct__section *section = &desk->sections[desk->n_sections];
    snprintf(section->name, sizeof section->name, "%s", name);
    section->row = row;
    desk->shelves[desk->n_sections++] = shelf;
    return OCT_OK;
}

static oct_status write_node(struct oct__incoming *file, const struct oct__stock *stock, int node,
                             struct desk *desk) {
    uint8_t *head = NULL;
    size_t n_head = 0;
    uint64_t n_data = 0;
    struct oct__shelf shelf;
    desk->n_sections = 0;
    for (int i = 0; stock->shelf(stock->context, node, i, &shelf); i++) {
        if (shelf.row->n_items > 0) { /* an empty row has no tensors to name it by */
            OCT_TRY(desk_section(desk, shelf.name, shelf.row, i));
        }
    }
    OCT_TRY(oct__sections_head(desk->sections, desk->n_sections, &head, &n_head, &n_data));
    oct_status status = oct__incoming_write(file, head, n_head);
    oct__free(head);
    for (size_t i = 0; i < desk->n_sections && status == OCT_OK; i++) {
        const struct oct__row *row = desk->sections[i].row;
        OCT_TRY(desk_fit(desk, row));
        OCT_TRY(stock->read(stock->context, node, desk->shelves[i], desk->values));
        oct__section_pack(row, desk->values, desk->bytes);
        status = oct__incoming_write(file, desk->bytes, oct__row_count(row) * sizeof(float));
    }
    return status;
}

/* The nodes that are ours to write and read: all, where there is one rank. */
static int first_of(const struct oct__stock *stock) {
    return stock->ranks ? stock->first_node : 0;
}

static int end_of(const struct oct__stock *stock) {
    return stock->ranks ? stock->first_node + stock->n_hosted : stock->n_nodes;
}

static oct_status write_nodes(const char *partial, const struct oct__stock *stock,
                              struct oct__manifest_file *files) {
    struct desk desk = {0};
    oct_status status = OCT_OK;
    for (int node = first_of(stock); node < end_of(stock) && status == OCT_OK; node++) {
        struct oct__incoming file;
        char name[OCT_NODE_FILE];
        oct__node_file(node, name);
        status = oct__incoming_open(&file, partial, name, INT64_MAX);
        if (status == OCT_OK) {
            status = write_node(&file, stock, node, &desk);
        }
        if (status == OCT_OK) {
            files[node].bytes = file.n_bytes;
            status = oct__incoming_close(&file, files[node].sha256);
        }
        oct__incoming_drop(&file);
    }
    desk_fini(&desk);
    return status;
}

static oct_status write_text(const char *partial, const struct oct__text *text) {
    struct oct__incoming file;
    OCT_TRY(oct__incoming_open(&file, partial, MANIFEST, OCT_MANIFEST_MOST));
    oct_status status = oct__incoming_write(&file, text->at, text->n_bytes);
    if (status == OCT_OK) {
        status = oct__incoming_close(&file, NULL);
    }
    oct__incoming_drop(&file);
    return status;
}

static oct_status write_manifest(const char *partial, const struct oct__stock *stock,
                                 struct oct__manifest_file *files) {
    struct oct__manifest_option options[OCT__OPTION_COUNT];
    for (int i = 0; i < OCT__OPTION_COUNT; i++) {
        options[i].name = oct_option_at(i)->name;
        options[i].value = stock->config->text[i];
        options[i].is_set = stock->config->is_set[i];
    }
    const struct oct__manifest manifest = {
        .step = stock->step,
        .n_nodes = stock->n_nodes,
        .counters = stock->counters,
        .n_counters = stock->n_counters,
        .options = options,
        .n_options = OCT__OPTION_COUNT,
        .files = files,
    };
    struct oct__text text = {0};
    oct_status status = oct__manifest_write(&manifest, &text);
    if (status == OCT_OK) {
        status = write_text(partial, &text);
    }
    oct__text_fini(&text);
    return status;
}

/* Gives the finished folder its name; one of the same step steps aside first. */
static oct_status move_in(const char *folder, uint64_t step, const char *partial) {
    char whole[OCT_PATH_BYTES], old[OCT_PATH_BYTES];
    OCT_TRY(step_path(folder, step, "", whole));
    OCT_TRY(step_path(folder, step, OLD, old));
    struct stat facts;
    int replaces = lstat(whole, &facts) == 0;
    if (replaces) {
        (void)oct__folder_remove(old);
        if (rename(whole, old) != 0) {
            OCT_FAIL(IO, "%s: cannot be replaced: %s", oct__path_shown(whole), strerror(errno));
        }
    }
    if (rename(partial, whole) != 0) {
        int error = errno;
        if (replaces) {
            (void)!rename(old, whole);
        }
        OCT_FAIL(IO, "%s: cannot be put in place: %s", oct__path_shown(whole), strerror(error));
    }
    return oct__folder_sync(folder);
}

/* Whether a checkpoint is there in full, going by lengths: sums were right when it was written. One
 * that cannot be looked at now (no memory, no permission) is not known to be damaged. */
static int looks_whole(const char *folder, const struct candidate *candidate) {
    char path[OCT_PATH_BYTES];
    struct oct__manifest *manifest;
    oct_status status = step_path(folder, candidate->step, suffixes[candidate->form], path);
    if (status == OCT_OK) {
        status = read_manifest(path, candidate->step, &manifest);
    }
    if (status != OCT_OK) {
        return status != OCT_STATUS_CORRUPT;
    }
    int whole = 1;
    for (int node = 0; whole && node < manifest->n_nodes; node++) {
        struct stat facts;
        whole = node_path(manifest, node, path) != OCT_OK ||
                (stat(path, &facts) == 0 ? (uint64_t)facts.st_size == manifest->files[node].bytes
                                         : !is_absent());
    }
    oct__manifest_close(manifest);
    return whole;
}

/* One that is cut down while it is removed must not be taken for a damaged one. */
static void discard(const char *folder, const struct candidate *candidate) {
    char path[OCT_PATH_BYTES], partial[OCT_PATH_BYTES];
    if (step_path(folder, candidate->step, suffixes[candidate->form], path) != OCT_OK ||
        step_path(folder, candidate->step, PARTIAL, partial) != OCT_OK) {
        return;
    }
    int failed;
    if (candidate->form == FORM_PARTIAL) {
        failed = oct__folder_remove(path);
    } else {
        (void)oct__folder_remove(partial);
        failed = rename(path, partial) != 0 || oct__folder_remove(partial) != 0;
    }
    if (failed) {
        oct__log(OCT_LOG_WARNING, "%s: an old checkpoint that cannot be removed",
                 oct__path_shown(path));
    }
}

/* Keeps the one just written and the newest whole one before it. */
static void tidy(const char *folder, uint64_t step) {
    struct listing listing;
    if (list(folder, &listing) != OCT_OK) {
        return; /* the next one will see to it */
    }
    int has_earlier = 0;
    for (size_t i = 0; i < listing.n; i++) {
        const struct candidate *candidate = &listing.items[i];
        const int is_own = candidate->step == step && candidate->form == FORM_WHOLE;
        if (candidate->form != FORM_PARTIAL) {
            if (is_own || candidate->step > step) {
                continue; /* a later one is damaged: see check_place */
            }
            if (!has_earlier && candidate->step < step && looks_whole(folder, candidate)) {
                has_earlier = 1;
                continue;
            }
        }
        discard(folder, candidate);
    }
    oct__free(listing.items);
}

static oct_status begin_partial(const char *folder, uint64_t step, const char *partial) {
    OCT_TRY(oct__checkpoint_prepare(folder, step));
    (void)oct__folder_remove(partial); /* of a run that was killed while it wrote this */
    if (mkdir(partial, 0777) != 0) {
        OCT_FAIL(IO, "%s: making the folder: %s", oct__path_shown(partial), strerror(errno));
    }
    return OCT_OK;
}

static oct_status end_partial(const char *folder, const char *partial,
                              const struct oct__stock *stock, struct oct__manifest_file *files) {
    OCT_TRY(write_manifest(partial, stock, files));
    OCT_TRY(oct__folder_sync(partial));
    return move_in(folder, stock->step, partial);
}

/* Rank 0 makes the folder, every rank writes its files into it, rank 0 brings it to an end: nobody
 * begins before all have done what comes before, and nothing is in place unless all of it is. */
static oct_status save(const char *folder, const char *partial, const struct oct__stock *stock,
                       struct oct__ranks *ranks, struct oct__manifest_file *files) {
    oct_status status = ranks->rank == 0 ? begin_partial(folder, stock->step, partial) : OCT_OK;
    OCT_TRY(oct__ranks_agree(ranks, status));
    OCT_TRY(oct__ranks_agree(ranks, write_nodes(partial, stock, files)));
    OCT_TRY(oct__ranks_share(ranks, files, stock->n_nodes, sizeof *files));
    status = ranks->rank == 0 ? end_partial(folder, partial, stock, files) : OCT_OK;
    return oct__ranks_agree(ranks, status);
}

oct_status oct__checkpoint_save(const char *folder, const struct oct__stock *stock) {
    struct oct__ranks *ranks = stock->ranks ? stock->ranks : oct__ranks_alone();
    char partial[OCT_PATH_BYTES];
    void *files = NULL;
    oct_status status = step_path(folder, stock->step, PARTIAL, partial);
    if (status == OCT_OK) {
        status = oct__alloc_array((size_t)stock->n_nodes, sizeof(struct oct__manifest_file),
                                  "files", &files);
    }
    status = oct__ranks_agree(ranks, status);
    if (status != OCT_OK || !files) {
        oct__free(files);
        return status;
    }
    status = save(folder, partial, stock, ranks, files);
    oct__free(files);
    if (ranks->rank == 0 && status != OCT_OK) {
        (void)oct__folder_remove(partial);
    } else if (ranks->rank == 0) {
        tidy(folder, stock->step);
    }
    return status;
}

/* --- loading --------------------------------------------------------------------------------- */

struct loading {
    const struct oct__stock *stock;
    struct desk desk; /* its sections are those that were found */
    const char *path;
    int node, fd;
    uint64_t first; /* byte of the first tensor */
};

static const struct oct__row *loading_row(void *context, const char *section) {
    const struct loading *l = context;
    return l->stock->row(l->stock->context, l->node, section);
}

static int was_found(const struct desk *desk, const char *name) {
    for (size_t i = 0; i < desk->n_sections; i++) {
        if (strcmp(desk->sections[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

static oct_status loading_read(void *context, const char *section, const struct oct__row *row,
                               uint64_t offset) {
    struct loading *l = context;
    if (was_found(&l->desk, section)) {
        OCT_FAIL(CORRUPT, "%s: row %s stands twice", oct__path_shown(l->path), section);
    }
    OCT_TRY(desk_section(&l->desk, section, row, 0));
    if (l->stock->wanted && !l->stock->wanted(l->stock->context, l->node, section)) {
        return OCT_OK;
    }
    OCT_TRY(desk_fit(&l->desk, row));
    OCT_TRY(read_at(l->fd, l->path, l->first + offset, l->desk.bytes,
                    oct__row_count(row) * sizeof(float)));
    oct__section_unpack(row, l->desk.bytes, l->desk.values);
    oct_status status = l->stock->write(l->stock->context, l->node, section, row, l->desk.values);
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "%s: ", oct__path_shown(l->path));
}

static oct_status load_node(struct loading *l, uint64_t n_bytes) {
    const char *shown = oct__path_shown(l->path);
    const struct oct__section_reader reader = {l, loading_row, loading_read};
    uint8_t first[8];
    size_t n_header = 0;
    void *header;
    if (n_bytes < sizeof first) {
        OCT_FAIL(CORRUPT, "%s: %llu bytes: too short for a safetensors file", shown,
                 (unsigned long long)n_bytes);
    }
    OCT_TRY(read_at(l->fd, l->path, 0, first, sizeof first));
    OCT_TRY(oct__safetensors_length(shown, first, n_bytes, &n_header));
    OCT_TRY(oct__alloc(n_header, "header", &header));
    oct_status status = read_at(l->fd, l->path, sizeof first, header, n_header);
    l->first = sizeof first + n_header;
    l->desk.n_sections = 0;
    if (status == OCT_OK) {
        status = oct__sections_walk(shown, header, n_header, n_bytes - l->first, &reader);
    }
    oct__free(header);
    OCT_TRY(status);
    struct oct__shelf shelf;
    for (int i = 0; l->stock->shelf(l->stock->context, l->node, i, &shelf); i++) {
        if (shelf.row->n_items > 0 && !was_found(&l->desk, shelf.name)) {
            OCT_FAIL(SHAPE, "%s: row %s is missing; was it saved by another algorithm?", shown,
                     shelf.name);
        }
    }
    return OCT_OK;
}

oct_status oct__checkpoint_load(const struct oct__manifest *manifest,
                                const struct oct__stock *stock) {
    struct loading loading = {.stock = stock};
    oct_status status = OCT_OK;
    if (manifest->n_nodes != stock->n_nodes) {
        OCT_FAIL(INVALID, "%s: it has %d nodes, this run %d", oct__path_shown(manifest->path),
                 manifest->n_nodes, stock->n_nodes);
    }
    const int first = stock->reads_others ? 0 : first_of(stock);
    const int end = stock->reads_others ? stock->n_nodes : end_of(stock);
    for (int node = first; node < end && status == OCT_OK; node++) {
        char path[OCT_PATH_BYTES];
        loading.path = path;
        loading.node = node;
        status = open_node(manifest, node, path, &loading.fd);
        if (status == OCT_OK) {
            status = load_node(&loading, manifest->files[node].bytes);
            close(loading.fd);
        }
    }
    desk_fini(&loading.desk);
    return status;
}
