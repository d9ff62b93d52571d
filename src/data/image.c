/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - picture files as samples: reading them, and finding their decoder; see image.h. */
#include "data/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/codec.h"
#include "data/files.h"

/* No picture that may be decoded is as long as this. */
#define FILE_BYTES ((int64_t)1 << 28)

struct oct__image_reader {
    uint8_t *file, *line;
    size_t file_capacity, line_capacity;
    struct oct__resampler resampler;
};

oct_status oct__image_reader_create(struct oct__image_reader **out) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct__image_reader), "image reader", &memory));
    *out = memory;
    return OCT_OK;
}

void oct__image_reader_destroy(struct oct__image_reader *reader) {
    if (!reader) {
        return;
    }
    oct__resample_fini(&reader->resampler);
    oct__free(reader->file);
    oct__free(reader->line);
    oct__free(reader);
}

oct_status oct__image_check_size(const char *path, uint32_t width, uint32_t height) {
    if (width == 0 || height == 0 || (uint64_t)width * height > OCT_IMAGE_PIXELS) {
        OCT_FAIL(CORRUPT, "%s: a picture of %u x %u pixels, expected 1 to %d in all",
                 oct__path_shown(path), width, height, OCT_IMAGE_PIXELS);
    }
    return OCT_OK;
}

static oct_status read_all(int fd, const char *path, uint8_t *bytes, size_t n_bytes) {
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t got = read(fd, bytes + done, n_bytes - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
        }
        if (got == 0) {
            OCT_FAIL(CORRUPT, "%s: became shorter while it was read", oct__path_shown(path));
        }
        done += (size_t)got;
    }
    return OCT_OK;
}

static oct_status load(struct oct__image_reader *reader, const char *path, size_t *n_bytes) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(path), strerror(errno));
    }
    oct_status status = OCT_OK;
    struct stat facts;
    void *memory = reader->file;
    if (fstat(fd, &facts) != 0) {
        OCT_FAIL_TO(out, IO, "%s: %s", oct__path_shown(path), strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        OCT_FAIL_TO(out, CORRUPT, "%s: not a file", oct__path_shown(path));
    }
    if (facts.st_size > FILE_BYTES) {
        OCT_FAIL_TO(out, CORRUPT, "%s: %lld bytes, more than a picture has", oct__path_shown(path),
                    (long long)facts.st_size);
    }
    *n_bytes = (size_t)facts.st_size;
    status = oct__alloc_grow(&memory, &reader->file_capacity, *n_bytes, 1, "an image file");
    reader->file = memory;
    if (status == OCT_OK) {
        status = read_all(fd, path, reader->file, *n_bytes);
    }
out:
    close(fd);
    return status;
}

static oct_status decode(struct oct__image_reader *reader, struct oct__decoding *d) {
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G'};
    d->resampler = &reader->resampler;
    d->line = &reader->line;
    d->line_capacity = &reader->line_capacity;
    if (d->n_bytes >= sizeof jpeg && memcmp(d->bytes, jpeg, sizeof jpeg) == 0) {
        return oct__jpeg_decode(d);
    }
    if (d->n_bytes >= sizeof png && memcmp(d->bytes, png, sizeof png) == 0) {
        return oct__png_decode(d);
    }
    OCT_FAIL(CORRUPT, "%s: %s", oct__path_shown(d->path),
             d->n_bytes == 0 ? "an empty file" : "neither a JPEG nor a PNG file");
}

oct_status oct__image_decode(struct oct__image_reader *reader, const char *path,
                             const uint8_t *bytes, size_t n_bytes, int size,
                             const struct oct__augment *augment, uint32_t row, uint8_t *out) {
    struct oct__decoding decoding = {.path = path,
                                     .bytes = bytes,
                                     .n_bytes = n_bytes,
                                     .size = size,
                                     .augment = augment,
                                     .row = row,
                                     .out = out};
    return decode(reader, &decoding);
}

oct_status oct__image_check_bytes(struct oct__image_reader *reader, const char *path,
                                  const uint8_t *bytes, size_t n_bytes) {
    struct oct__decoding decoding = {
        .path = path, .bytes = bytes, .n_bytes = n_bytes, .is_check = 1};
    return decode(reader, &decoding);
}

oct_status oct__image_read(struct oct__image_reader *reader, const char *path, int size,
                           const struct oct__augment *augment, uint32_t row, uint8_t *out) {
    size_t n_bytes = 0;
    OCT_TRY(load(reader, path, &n_bytes));
    return oct__image_decode(reader, path, reader->file, n_bytes, size, augment, row, out);
}

oct_status oct__image_check(struct oct__image_reader *reader, const char *path) {
    size_t n_bytes = 0;
    OCT_TRY(load(reader, path, &n_bytes));
    return oct__image_check_bytes(reader, path, reader->file, n_bytes);
}
