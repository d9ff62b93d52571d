/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - finding, reading and checking dataset files; see files.h. */
#include "data/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "data/reader.h"

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

oct_status oct__place_check(const char *name, const char *path) {
    struct stat facts;
    if (stat(path, &facts) != 0) {
        OCT_FAIL(NOT_FOUND, "%s: %s: %s%s", name, oct__path_shown(path), strerror(errno),
                 path[0] == '~' ? "; write the home folder out, nobody expands ~ here" : "");
    }
    if (!S_ISDIR(facts.st_mode)) {
        size_t length = strlen(path);
        OCT_FAIL(
            INVALID, "%s: %s is no folder%s", name, oct__path_shown(path),
            length > 4 && strcmp(path + length - 4, ".npz") == 0
                ? ": write its arrays out as .npy files, z = np.load(F); np.save('train_images', "
                  "z['x_train']) and so on, and name their folder"
                : "; name the one that has the files");
    }
    return OCT_OK;
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

/* Counts the files of the dataset that `dir` has and names the first it has not (NULL: all there).
 */
static oct_status survey(const struct oct_dataset_kind *kind, const char *dir, int *n_present,
                         const char **missing) {
    *n_present = 0;
    *missing = NULL;
    for (const struct oct__data_file *file = kind->files; file->name; file++) {
        enum oct__presence presence;
        OCT_TRY(oct__file_find(dir, file->name, &presence));
        if (presence != OCT_ABSENT) {
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

/* All of the file, which must be as long as the table says. */
static oct_status read_all(struct oct__reader *reader, const struct oct__data_file *file,
                           uint8_t *bytes) {
    if (!reader->is_gzipped && reader->most_bytes != file->n_bytes) {
        return wrong_size(reader->path, reader->most_bytes, file, reader->remedy);
    }
    size_t got, n_excess = 0;
    OCT_TRY(oct__reader_read(reader, bytes, (size_t)file->n_bytes, &got));
    if (got == file->n_bytes) {
        uint8_t excess;
        OCT_TRY(oct__reader_read(reader, &excess, 1, &n_excess));
    }
    return got + n_excess == file->n_bytes
               ? OCT_OK
               : wrong_size(reader->path, got + n_excess, file, reader->remedy);
}

oct_status oct__files_load(const char *dir, const struct oct__data_file *file, const char *remedy,
                           struct oct__loaded *out) {
    struct oct__reader reader;
    OCT_TRY(oct__reader_open(dir, file->name, remedy, &reader));
    memcpy(out->path, reader.path, sizeof out->path);
    void *memory = NULL;
    oct_status status = oct__alloc((size_t)file->n_bytes, file->name, &memory);
    if (status == OCT_OK) {
        status = read_all(&reader, file, memory);
    }
    oct__reader_close(&reader);
    if (status != OCT_OK) {
        oct__free(memory);
        return status;
    }
    out->bytes = memory;
    out->n_bytes = (size_t)file->n_bytes;
    return OCT_OK;
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
