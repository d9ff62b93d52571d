/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - JPEG and PNG files that a test makes for itself; see pictures.h. */
#include "support/pictures.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "support/check.h"
#include "support/folder.h"

#ifdef OCT_HAVE_JPEG

#include <jpeglib.h>

static uint8_t *encode_jpeg(const struct picture_form *form, const uint8_t *pixels,
                            size_t *n_bytes) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    info.err = jpeg_std_error(&errors); /* ends the test program */
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &bytes, &n);
    info.image_width = (JDIMENSION)form->width;
    info.image_height = (JDIMENSION)form->height;
    info.input_components = form->channels;
    info.in_color_space = form->channels == 1   ? JCS_GRAYSCALE
                          : form->channels == 4 ? JCS_CMYK
                                                : JCS_RGB;
    jpeg_set_defaults(&info);
    if (form->channels == 4) {
        jpeg_set_colorspace(&info, form->is_adobe ? JCS_YCCK : JCS_CMYK);
        info.write_Adobe_marker = (boolean)form->is_adobe;
    }
    jpeg_set_quality(&info, 98, TRUE);
    if (form->across > 0) {
        info.comp_info[0].h_samp_factor = form->across;
        info.comp_info[0].v_samp_factor = form->down;
    }
    if (form->is_progressive) {
        jpeg_simple_progression(&info);
    }
    static const jpeg_scan_info scans[] = {{1, {0, 0, 0, 0}, 0, 63, 0, 0},
                                           {1, {1, 0, 0, 0}, 0, 63, 0, 0},
                                           {1, {2, 0, 0, 0}, 0, 63, 0, 0}};
    if (form->is_apart) {
        info.scan_info = scans;
        info.num_scans = 3;
    }
    jpeg_start_compress(&info, TRUE);
    const size_t row_bytes = (size_t)form->width * (size_t)form->channels;
    uint8_t *row = malloc(row_bytes);
    assert_non_null(row);
    while (info.next_scanline < info.image_height) {
        memcpy(row, pixels + info.next_scanline * row_bytes, row_bytes);
        jpeg_write_scanlines(&info, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    *n_bytes = (size_t)n;
    return bytes;
}

uint8_t *picture_decode(const uint8_t *bytes, size_t n_bytes) {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes, (unsigned long)n_bytes);
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    uint8_t *pixels = malloc((size_t)info.output_width * info.output_height * 3);
    assert_non_null(pixels);
    while (info.output_scanline < info.output_height) {
        uint8_t *row = pixels + (size_t)info.output_scanline * info.output_width * 3;
        jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    return pixels;
}

#else

uint8_t *picture_decode(const uint8_t *bytes, size_t n_bytes) {
    (void)bytes;
    (void)n_bytes;
    return NULL;
}

static uint8_t *encode_jpeg(const struct picture_form *form, const uint8_t *pixels,
                            size_t *n_bytes) {
    (void)form;
    (void)pixels;
    *n_bytes = 0;
    return NULL;
}

#endif

#ifdef OCT_HAVE_PNG

#include <png.h>

struct target {
    uint8_t *bytes;
    size_t n, capacity;
};

static void on_write(png_structp png, png_bytep bytes, size_t n) {
    struct target *target = png_get_io_ptr(png);
    if (target->n + n > target->capacity) {
        target->capacity = 2 * (target->n + n);
        target->bytes = realloc(target->bytes, target->capacity);
        assert_non_null(target->bytes);
    }
    memcpy(target->bytes + target->n, bytes, n);
    target->n += n;
}

static void on_flush(png_structp png) {
    (void)png;
}

static int colour_type(const struct picture_form *form) {
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    return form->has_palette ? PNG_COLOR_TYPE_PALETTE : types[form->channels];
}

static uint8_t *encode_png(const struct picture_form *form, const uint8_t *pixels,
                           size_t *n_bytes) {
    struct target target = {NULL, 0, 0};
    const int bits = form->bits ? form->bits : 8;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    assert_non_null(png);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_set_write_fn(png, &target, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)form->width, (png_uint_32)form->height, bits,
                 colour_type(form), form->is_progressive ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (form->has_palette) {
        png_color palette[256];
        for (int i = 0; i < 256; i++) {
            palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2)};
        }
        png_set_PLTE(png, info, palette, 256);
    }
    png_write_info(png, info);
    const size_t row_bytes = (size_t)form->width * (size_t)form->channels * (size_t)(bits / 8);
    png_bytep *rows = calloc((size_t)form->height, sizeof *rows);
    uint8_t *copy = malloc((size_t)form->height * row_bytes);
    assert_non_null(rows);
    assert_non_null(copy);
    memcpy(copy, pixels, (size_t)form->height * row_bytes);
    for (int y = 0; y < form->height; y++) {
        rows[y] = copy + (size_t)y * row_bytes;
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(copy);
    free(rows);
    *n_bytes = target.n;
    return target.bytes;
}

#else

static uint8_t *encode_png(const struct picture_form *form, const uint8_t *pixels,
                           size_t *n_bytes) {
    (void)form;
    (void)pixels;
    *n_bytes = 0;
    return NULL;
}

#endif

uint8_t *picture_encode(enum picture_format format, const struct picture_form *form,
                        const uint8_t *pixels, size_t *n_bytes) {
    return (format == PICTURE_JPEG ? encode_jpeg : encode_png)(form, pixels, n_bytes);
}

void picture_gradient(int width, int height, uint8_t *pixels) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixels += 3) {
            pixels[0] = (uint8_t)(20 + 200 * x / width);
            pixels[1] = (uint8_t)(20 + 200 * y / height);
            pixels[2] = (uint8_t)(235 - 100 * x / width - 100 * y / height);
        }
    }
}

int pictures_are_there(void) {
#if defined(OCT_HAVE_JPEG) || defined(OCT_HAVE_PNG)
    return 1;
#else
    return 0;
#endif
}

/* One hue a class, brighter or darker, on a grid that no two pictures share. */
static void draw(int label, int number, int width, int height, uint8_t *pixels) {
    static const uint8_t hues[6][3] = {{230, 40, 40},  {40, 230, 40},  {40, 40, 230},
                                       {220, 220, 30}, {30, 220, 220}, {220, 30, 220}};
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixels += 3) {
            const int shade = 140 + (x * (3 + number % 5) + y * (2 + number % 7)) % 100;
            for (int c = 0; c < 3; c++) {
                pixels[c] = (uint8_t)(hues[label % 6][c] * shade / 255);
            }
        }
    }
}

static void write_one(const char *path, const char *name, int label, int number) {
#ifdef OCT_HAVE_JPEG
    const enum picture_format format = PICTURE_JPEG;
#else
    const enum picture_format format = PICTURE_PNG;
#endif
    const struct picture_form form = {
        .width = 20 + number * 7 % 21, .height = 20 + number * 5 % 21, .channels = 3};
    uint8_t pixels[40 * 40 * 3];
    char file[FOLDER_PATH];
    size_t n = 0;
    draw(label, number, form.width, form.height, pixels);
    uint8_t *bytes = picture_encode(format, &form, pixels, &n);
    snprintf(file, sizeof file, "%s/%s%03d.%s", path, name, number,
             format == PICTURE_JPEG ? "JPEG" : "png");
    file_write(file, bytes, n);
    free(bytes);
}

void picture_tree(const char *folder, int n_classes, int n_train, int n_test) {
    static const char *const halves[] = {"train", "val"};
    const int counts[] = {n_train, n_test};
    for (int half = 0; half < 2; half++) {
        char path[FOLDER_PATH];
        snprintf(path, sizeof path, "%s/%s", folder, halves[half]);
        assert_int_equal(mkdir(path, 0777), 0);
        for (int label = 0; label < n_classes; label++) {
            snprintf(path, sizeof path, "%s/%s/class%d", folder, halves[half], label);
            assert_int_equal(mkdir(path, 0777), 0);
            for (int i = 0; i < counts[half]; i++) {
                write_one(path, "p", label, i + 500 * half);
            }
        }
    }
}
