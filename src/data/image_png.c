/* SPDX-License-Identifier: Apache-2.0 */
/* image_png.c - PNG files through libpng.
 *
 * Rows go to the resampler as they come; only an interlaced file is decoded as a whole first. The
 * library's warnings are about notes in a file (profiles, texts), never about its pixels, and are
 * not heard; damaged pixels are errors.
 */
#include "data/codec.h"
#include "data/files.h"

#ifdef OCT_HAVE_PNG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

enum { TEXT_BYTES = 120, CHUNK_BYTES = 8 << 20, MOST_CHUNKS = 1000 };

struct decoder {
    const struct oct__decoding *decoding;
    png_structp png;
    png_infop info;
    uint8_t *whole; /* of an interlaced file */
    png_bytep *rows;
    size_t n_taken; /* bytes of the file */
    int has_no_memory;
    char text[TEXT_BYTES];
};

static void on_error(png_structp png, png_const_charp text) {
    struct decoder *decoder = png_get_error_ptr(png);
    snprintf(decoder->text, sizeof decoder->text, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

/* The library's own memory comes from where all of ours does. */
static png_voidp on_alloc(png_structp png, png_alloc_size_t bytes) {
    struct decoder *decoder = png_get_mem_ptr(png);
    void *memory = NULL;
    if (oct__alloc(bytes, "PNG decoder", &memory) != OCT_OK) {
        decoder->has_no_memory = 1;
        return NULL;
    }
    return memory;
}

static void on_free(png_structp png, png_voidp memory) {
    (void)png;
    oct__free(memory);
}

static void on_read(png_structp png, png_bytep out, size_t bytes) {
    struct decoder *decoder = png_get_io_ptr(png);
    const struct oct__decoding *d = decoder->decoding;
    if (bytes > d->n_bytes - decoder->n_taken) {
        png_error(png, "the file ends too early");
    }
    memcpy(out, d->bytes + decoder->n_taken, bytes);
    decoder->n_taken += bytes;
}

/* Everything as red, green, blue, and alpha where the file has it, a byte each. */
static void choose_form(struct decoder *decoder) {
    png_structp png = decoder->png;
    png_set_expand(png); /* palettes, 1 to 7 bits, a transparent colour */
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
}

/* In its place, over black. */
static void lay_over_black(uint8_t *line, size_t n_pixels) {
    const uint8_t *from = line;
    for (size_t i = 0; i < n_pixels; i++, from += 4, line += 3) {
        const uint32_t alpha = from[3];
        for (int c = 0; c < 3; c++) {
            line[c] = (uint8_t)((from[c] * alpha + 127) / 255);
        }
    }
}

static void give_row(const struct decoder *decoder, uint8_t *row, int y) {
    const struct oct__decoding *d = decoder->decoding;
    if (d->is_check || y < d->resampler->y.first || y >= d->resampler->y.past) {
        return;
    }
    if (png_get_channels(decoder->png, decoder->info) == 4) {
        lay_over_black(row, png_get_image_width(decoder->png, decoder->info));
    }
    oct__resample_row(d->resampler, row + (size_t)d->resampler->x.first * 3);
}

static oct_status read_interlaced(struct decoder *decoder, int height, size_t row_bytes) {
    void *memory;
    OCT_TRY(oct__alloc_array((size_t)height, row_bytes, "an interlaced picture", &memory));
    decoder->whole = memory;
    OCT_TRY(
        oct__alloc_array((size_t)height, sizeof *decoder->rows, "an interlaced picture", &memory));
    decoder->rows = memory;
    for (int y = 0; y < height; y++) {
        decoder->rows[y] = decoder->whole + (size_t)y * row_bytes;
    }
    png_read_image(decoder->png, decoder->rows);
    for (int y = 0; y < height; y++) {
        give_row(decoder, decoder->rows[y], y);
    }
    return OCT_OK;
}

static oct_status read_rows(struct decoder *decoder, int height, size_t row_bytes) {
    const struct oct__decoding *d = decoder->decoding;
    OCT_TRY(oct__decoding_line(d, row_bytes));
    const int past = d->is_check ? height : d->resampler->y.past;
    for (int y = 0; y < past; y++) {
        png_read_row(decoder->png, *d->line, NULL);
        give_row(decoder, *d->line, y);
    }
    return OCT_OK;
}

static oct_status decode(struct decoder *decoder) {
    const struct oct__decoding *d = decoder->decoding;
    png_structp png = decoder->png;
    png_set_read_fn(png, decoder, on_read);
    png_set_user_limits(png, OCT_IMAGE_PIXELS, OCT_IMAGE_PIXELS);
    png_set_chunk_malloc_max(png, CHUNK_BYTES);
    png_set_chunk_cache_max(png, MOST_CHUNKS);
    png_read_info(png, decoder->info);
    const uint32_t width = png_get_image_width(png, decoder->info);
    const uint32_t height = png_get_image_height(png, decoder->info);
    OCT_TRY(oct__image_check_size(d->path, width, height));
    choose_form(decoder);
    const int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, decoder->info);
    if (!d->is_check) {
        const struct oct__box box = oct__decoding_box(d, (int)width, (int)height);
        OCT_TRY(oct__resample_begin(d->resampler, &box, (int)width, (int)height, d->size, d->out));
    }
    const size_t row_bytes = png_get_rowbytes(png, decoder->info);
    OCT_TRY((n_passes > 1 ? read_interlaced : read_rows)(decoder, (int)height, row_bytes));
    if (d->is_check) {
        png_read_end(png, NULL);
    }
    return OCT_OK;
}

static oct_status refused(const struct decoder *decoder) {
    const char *path = oct__path_shown(decoder->decoding->path);
    if (decoder->has_no_memory) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to decode it", path);
    }
    OCT_FAIL(CORRUPT, "%s: not a whole PNG file: %s", path, decoder->text);
}

/* What changes after setjmp lies in the caller's frame. */
static oct_status guarded(struct decoder *decoder) {
    if (setjmp(png_jmpbuf(decoder->png))) {
        return refused(decoder);
    }
    return decode(decoder);
}

oct_status oct__png_decode(const struct oct__decoding *decoding) {
    struct decoder decoder = {.decoding = decoding};
    decoder.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning,
                                           &decoder, on_alloc, on_free);
    if (!decoder.png) {
        OCT_FAIL(NO_MEMORY, "%s: no memory to decode it", oct__path_shown(decoding->path));
    }
    decoder.info = png_create_info_struct(decoder.png);
    oct_status status = decoder.info ? guarded(&decoder) : refused(&decoder);
    png_destroy_read_struct(&decoder.png, &decoder.info, NULL);
    oct__free(decoder.rows);
    oct__free(decoder.whole);
    return status;
}

#else

oct_status oct__png_decode(const struct oct__decoding *decoding) {
    OCT_FAIL(UNSUPPORTED, "%s: this build has no libpng to decode it",
             oct__path_shown(decoding->path));
}

#endif
