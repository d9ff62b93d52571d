/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - between image.c and the two decoders: what is to be decoded, and where it goes.
 *
 * Both libraries report errors by longjmp. It never crosses our own functions with something to
 * clean up: what a decoder holds is in its own struct, and oct__resample_row cannot fail.
 */
#ifndef OCT_DATA_CODEC_H
#define OCT_DATA_CODEC_H

#include "data/image.h"

/* One file on its way. */
struct oct__decoding {
    const char *path; /* for messages */
    const uint8_t *bytes;
    size_t n_bytes;
    int is_check; /* to be decoded to its end, for nothing */
    int size;     /* else: of the sample, */
    const struct oct__augment *augment;
    uint32_t row;
    uint8_t *out;
    struct oct__resampler *resampler;
    uint8_t **line; /* a buffer that lives as long as the reader */
    size_t *line_capacity;
};

OCT_MUST_CHECK oct_status oct__jpeg_decode(const struct oct__decoding *decoding);
OCT_MUST_CHECK oct_status oct__png_decode(const struct oct__decoding *decoding);

/* CORRUPT for a picture without pixels, or with too many. */
OCT_MUST_CHECK oct_status oct__image_check_size(const char *path, uint32_t width, uint32_t height);

/* The part of a picture that is wanted. */
static inline struct oct__box oct__decoding_box(const struct oct__decoding *d, int width,
                                                int height) {
    return d->augment ? oct__crop_random(d->augment, d->row, width, height)
                      : oct__crop_middle(width, height);
}

/* Room for a line of so many bytes. */
static inline oct_status oct__decoding_line(const struct oct__decoding *d, size_t bytes) {
    void *memory = *d->line;
    oct_status status = oct__alloc_grow(&memory, d->line_capacity, bytes, 1, "a row of pixels");
    *d->line = memory;
    return status;
}

#endif
