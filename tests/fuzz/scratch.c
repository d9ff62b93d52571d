/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - see scratch.h. Nothing here waits for the disk: millions of inputs are tried, and none
 * must outlast a power cut. */
#include "scratch.h"

#include <unistd.h>

#include "base/folder.h"
#include "fuzz.h"

__attribute__((visibility("default"))) int fsync(int fd) {
    (void)fd;
    return 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd) {
    (void)fd;
    return 0;
}

static char folder[400];

static void remove_folder(void) {
    (void)oct__folder_remove(folder);
}

const char *fuzz_folder(void) {
    if (!folder[0]) {
        const char *above = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.300s/octet-fuzz-XXXXXX",
                 above && above[0] ? above : "/tmp");
        FUZZ_CHECK(mkdtemp(folder));
        FUZZ_CHECK(atexit(remove_folder) == 0);
    }
    return folder;
}

const char *fuzz_path(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%.100s", fuzz_folder(), name);
    return path;
}

const char *fuzz_put(const char *name, const uint8_t *bytes, size_t n_bytes) {
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, n_bytes, file) == n_bytes && fclose(file) == 0);
    return path;
}
