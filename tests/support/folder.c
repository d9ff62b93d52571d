/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - a test's own folder: see folder.h. */
#include "support/folder.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"

void folder_open(struct folder *folder) {
    const char *above = getenv("TMPDIR");
    snprintf(folder->path, sizeof folder->path, "%s/octet-fault-XXXXXX",
             above && above[0] ? above : "/tmp");
    if (!mkdtemp(folder->path)) {
        fail_msg("%s: cannot be made", folder->path);
    }
}

static int count_entries(const char *path) {
    DIR *directory = opendir(path);
    assert_non_null(directory);
    int count = 0;
    while (readdir(directory)) {
        count++;
    }
    closedir(directory);
    return count - 2; /* . and .. */
}

/* Checkpoints are folders in folders. */
static void remove_all(const char *path, int depth) {
    DIR *directory = opendir(path);
    assert_non_null(directory);
    assert_true(depth < 4);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char inside[2 * FOLDER_PATH];
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
            if (unlink(inside) != 0) {
                remove_all(inside, depth + 1);
            }
        }
    }
    closedir(directory);
    assert_int_equal(rmdir(path), 0);
}

void folder_close(struct folder *folder) {
    remove_all(folder->path, 0);
}

int folder_count(const struct folder *folder) {
    return count_entries(folder->path);
}

const char *folder_file(struct folder *folder, const char *name) {
    int length = snprintf(folder->file, sizeof folder->file, "%s/%s", folder->path, name);
    assert_true(length > 0 && (size_t)length < sizeof folder->file);
    return folder->file;
}

uint8_t *file_read(const char *path, size_t *n_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s: cannot be read", path);
        return NULL;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    *n_bytes = (size_t)size;
    return bytes;
}

void file_write(const char *path, const void *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        fail_msg("%s: cannot be written", path);
        return;
    }
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}
