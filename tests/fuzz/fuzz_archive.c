/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_archive.c - downloads: tar archives of files and of folders of pictures, gzipped files.
 *
 *     byte 0        which of the three
 *     the rest      the file
 *
 * What is accepted left exactly the dataset's files, each of its length; whatever an archive says,
 * nothing is made outside the stage, and no link in it.
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "data/fetch.h"
#include "scratch.h"

static const struct oct__data_file files[] = {
    {"train.bin", NULL, 24, OCT_SPLIT_TRAIN},
    {"test.bin", NULL, 10, OCT_SPLIT_TEST},
    {NULL, NULL, 0, OCT_SPLIT_TRAIN},
};
static const struct oct__data_tree tree = {.halves = {"train", "val"}, .n_files = 3};

/* Files below `path`, all of them plain; `depth` folders may follow one another. */
static int count_files(const char *path, int depth) {
    int n = 0;
    DIR *folder = opendir(path);
    FUZZ_CHECK(folder && depth >= 0);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char below[1024];
        struct stat facts;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        const int length = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        FUZZ_CHECK(length > 0 && (size_t)length < sizeof below && lstat(below, &facts) == 0);
        FUZZ_CHECK(S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode));
        n += S_ISDIR(facts.st_mode) ? count_files(below, depth - 1) : 1;
    }
    closedir(folder);
    return n;
}

static int count_entries(const char *path) {
    int n = 0;
    DIR *folder = opendir(path);
    FUZZ_CHECK(folder);
    while (readdir(folder)) {
        n++;
    }
    closedir(folder);
    return n - 2;
}

static void expect_bytes(const char *stage, const struct oct__data_file *file) {
    char path[1024];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", stage, file->name);
    FUZZ_CHECK(stat(path, &facts) == 0 && (uint64_t)facts.st_size == file->n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes < 1) {
        return 0;
    }
    const char *path = fuzz_put("download", bytes + 1, n_bytes - 1);
    const char *stage = fuzz_path("stage");
    FUZZ_CHECK(oct__folder_make(stage) == OCT_OK);
    const int which = bytes[0] % 3;
    oct_status status = which == 0   ? oct__unpack_tar(path, "it", files, stage)
                        : which == 1 ? oct__unpack_tree(path, "it", &tree, stage)
                                     : oct__unpack_gzip(path, "it", &files[0], stage);
    const int n_files = count_files(stage, 2);
    FUZZ_CHECK(count_entries(fuzz_folder()) == 2);
    if (status == OCT_OK) {
        FUZZ_CHECK(n_files == (which == 0 ? 2 : which == 1 ? tree.n_files : 1));
        for (int i = 0; which != 1 && i < (which == 0 ? 2 : 1); i++) {
            expect_bytes(stage, &files[i]);
        }
    } else {
        FUZZ_CHECK(status == OCT_STATUS_CORRUPT || status == OCT_STATUS_UNSUPPORTED ||
                   status == OCT_STATUS_NO_MEMORY);
        FUZZ_CHECK(oct_last_error()[0] && n_files <= tree.n_files);
    }
    FUZZ_CHECK(oct__folder_remove(stage) == 0);
    return 0;
}
