/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - folders and files that a test makes and throws away. */
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *scratch_make(char path[SCRATCH_PATH]) {
    const char *above = getenv("TMPDIR");
    snprintf(path, SCRATCH_PATH, "%s/octet-test-XXXXXX", above && above[0] ? above : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        return NULL;
    }
    return path;
}

static int walk(int at, const char *name, int removing) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        return -1;
    }
    int count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int inside = walk(fd, entry->d_name, removing);
        count += 1 + (inside > 0 ? inside : 0);
        if (removing) {
            unlinkat(fd, entry->d_name, inside < 0 ? 0 : AT_REMOVEDIR);
        }
    }
    closedir(folder);
    return count;
}

void scratch_remove(const char *path) {
    walk(AT_FDCWD, path, 1);
    rmdir(path);
}

int scratch_count(const char *path) {
    return walk(AT_FDCWD, path, 0);
}

const char *scratch_at(const char *folder, const char *name) {
    static char paths[8][2 * SCRATCH_PATH];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int scratch_write(const char *path, const void *bytes, size_t n_bytes) {
    char above[2 * SCRATCH_PATH];
    snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash) {
        *slash = '\0';
        mkdir(above, 0777);
    }
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return -1;
    }
    size_t wrote = fwrite(bytes, 1, n_bytes, file);
    return fclose(file) == 0 && wrote == n_bytes ? 0 : -1;
}

void scratch_sha256(const void *bytes, size_t n_bytes, char out[OCT_SHA256_TEXT]) {
    struct oct__sha256 sha;
    oct__sha256_init(&sha);
    oct__sha256_add(&sha, bytes, n_bytes);
    oct__sha256_text(&sha, out);
}

static void put_le32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

size_t scratch_gzip(const uint8_t *bytes, size_t n, uint8_t *out) {
    static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    memcpy(out, header, sizeof header);
    size_t used = sizeof header;
    size_t done = 0;
    do {
        size_t length = n - done < 65535 ? n - done : 65535;
        out[used] = done + length == n; /* the last block; type 0: stored */
        out[used + 1] = (uint8_t)length;
        out[used + 2] = (uint8_t)(length >> 8);
        out[used + 3] = (uint8_t)~length;
        out[used + 4] = (uint8_t)(~length >> 8);
        memcpy(out + used + 5, bytes + done, length);
        used += 5 + length;
        done += length;
    } while (done < n);
    uint32_t crc = 0xffffffffU;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
        }
    }
    put_le32(out + used, ~crc);
    put_le32(out + used + 4, (uint32_t)n);
    return used + 8;
}

size_t scratch_tar(const char *name, char type, const uint8_t *bytes, size_t n, uint8_t *out) {
    char header[512] = {0};
    snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    snprintf(header + 124, 12, "%011lo", (unsigned long)(type == '0' ? n : 0));
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = type;
    if (type == '2') { /* where the link points to */
        memcpy(header + 157, bytes, n < 99 ? n : 99);
    }
    memcpy(header + 257, "ustar", 6);
    header[263] = header[264] = '0';
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)header[i];
    }
    snprintf(header + 148, 8, "%06o", sum);
    memcpy(out, header, 512);
    if (type != '0') {
        return 512;
    }
    size_t rounded = (n + 511) / 512 * 512;
    memset(out + 512, 0, rounded);
    memcpy(out + 512, bytes, n);
    return 512 + rounded;
}

size_t scratch_tar_end(uint8_t *out) {
    memset(out, 0, 1024);
    return 1024;
}

void scratch_fill(uint8_t *bytes, size_t n, uint32_t seed) {
    uint32_t state = seed * 2654435761U + 12345U;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = (uint8_t)(state >> 24);
    }
}
