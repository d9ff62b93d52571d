/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a fuzz target over files, or over the files of folders, named on the command
 * line: corpora are replayed by every build, also where the compiler has no libFuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

/* Exactly as large as the file, so that a sanitizer sees a read behind its end. */
static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    uint8_t *bytes = NULL;
    long n = -1;
    if (fseek(file, 0, SEEK_END) == 0) {
        n = ftell(file);
    }
    if (n >= 0) {
        rewind(file);
        bytes = malloc(n > 0 ? (size_t)n : 1);
    }
    if (!bytes || fread(bytes, 1, (size_t)n, file) != (size_t)n) {
        perror(path);
        free(bytes);
        fclose(file);
        return -1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)n);
    free(bytes);
    return 0;
}

int main(int n_arguments, char **arguments) {
    int n_run = 0;
    for (int i = 1; i < n_arguments; i++) {
        DIR *folder = opendir(arguments[i]);
        if (!folder) {
            if (run_file(arguments[i]) != 0) {
                return 1;
            }
            n_run++;
            continue;
        }
        for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
            char path[4096];
            int length = snprintf(path, sizeof path, "%s/%s", arguments[i], entry->d_name);
            if (entry->d_name[0] == '.') {
                continue;
            }
            if (length < 0 || (size_t)length >= sizeof path || run_file(path) != 0) {
                closedir(folder);
                return 1;
            }
            n_run++;
        }
        closedir(folder);
    }
    printf("%d inputs\n", n_run);
    return n_run > 0 ? 0 : 1;
}
