/* SPDX-License-Identifier: Apache-2.0 */
/* test_images.c - picture files as samples: the law of boxes, resampling, both decoders, and what is
 * done about files that are damaged or hostile. */
#include <math.h>
#include <stdlib.h>

#include "data/image.h"
#include "support/check.h"
#include "support/pictures.h"

/* --- boxes ------------------------------------------------------------------------------------ */

/* A box as the law is usually written down, with the C library's functions. */
static struct oct__box plain_box(const struct oct__augment *a, uint32_t row, int width,
                                 int height) {
    for (uint32_t try = 0; try < 10; try++) {
        uint32_t words[4];
        struct oct__stream stream =
            oct__stream(a->seed, OCT_PURPOSE_AUGMENT, a->node, a->permutation, 1 + try);
        oct__stream_block(&stream, row, words);
        double area = (double)width * height * (0.08 + 0.92 * (words[0] / 4294967296.0));
        double low = log(3.0 / 4.0), high = log(4.0 / 3.0);
        double ratio = exp(low + (high - low) * (words[1] / 4294967296.0));
        int64_t w = lround(sqrt(area * ratio)), h = lround(sqrt(area / ratio));
        if (w > 0 && w <= width && h > 0 && h <= height) {
            int64_t y = (int64_t)((uint64_t)words[2] * (uint64_t)(height - h + 1) >> 32);
            int64_t x = (int64_t)((uint64_t)words[3] * (uint64_t)(width - w + 1) >> 32);
            return (struct oct__box){x * 65536, y * 65536, w * 65536, h * 65536};
        }
    }
    return (struct oct__box){0, 0, 0, 0};
}

static void boxes_follow_their_law(void **state) {
    (void)state;
    enum { N = 20000, W = 500, H = 500 };
    const struct oct__augment a = {.seed = 7, .node = 3, .permutation = 2};
    int n_flips = 0, n_below[2] = {0, 0};
    double at = 0.0, log_ratio = 0.0, least = 2.0, most = 0.0, least_area = 2.0;
    for (uint32_t row = 0; row < N; row++) {
        struct oct__box box = oct__crop_random(&a, row, W, H), plain = plain_box(&a, row, W, H);
        if (plain.width > 0) {
            assert_memory_equal(&box, &plain, sizeof box);
        }
        assert_true(box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0);
        assert_true(box.x + box.width <= (int64_t)W * OCT_PIXEL);
        assert_true(box.y + box.height <= (int64_t)H * OCT_PIXEL);
        const double w = (double)box.width / OCT_PIXEL, h = (double)box.height / OCT_PIXEL;
        const double area = w * h / (W * H), ratio = w / h;
        least = ratio < least ? ratio : least;
        most = ratio > most ? ratio : most;
        least_area = area < least_area ? area : least_area;
        log_ratio += log(ratio) / N;
        n_below[0] += area < 0.2;
        n_below[1] += area >= 0.2 && area < 0.32;
        at += w < W ? (double)box.x / OCT_PIXEL / (W - w) / N : 0.5 / N;
        n_flips += oct__crop_flip(&a, row);
    }
    print_message("ratios %.4f to %.4f, mean of their logarithms %.4f; areas from %.4f, %d below "
                  "0.2 and %d to 0.32; left %.4f of the room; %d flips of %d\n",
                  least, most, log_ratio, least_area, n_below[0], n_below[1], at, n_flips, N);
    assert_true(least > 0.74 && least < 0.76 && most > 1.32 && most < 1.35);
    assert_true(fabs(log_ratio) < 0.02);
    assert_true(least_area > 0.0795 && least_area < 0.081);
    /* Large boxes are turned away more often; among small ones all areas are alike. */
    assert_true(n_below[0] > 2609 && abs(n_below[0] - n_below[1]) < 300);
    assert_true(fabs(at - 0.5) < 0.02);
    assert_true(abs(n_flips - N / 2) < 300);
}

static void boxes_are_named_by_their_key(void **state) {
    (void)state;
    const struct oct__augment keys[] = {{1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}};
    struct oct__box boxes[5];
    for (size_t i = 0; i < 4; i++) {
        boxes[i] = oct__crop_random(&keys[i], 5, 300, 200);
    }
    boxes[4] = oct__crop_random(&keys[0], 6, 300, 200);
    struct oct__box again = oct__crop_random(&keys[0], 5, 300, 200);
    assert_memory_equal(&again, &boxes[0], sizeof again);
    for (size_t i = 1; i < 5; i++) {
        assert_memory_not_equal(&boxes[i], &boxes[0], sizeof again);
    }
}

static void odd_pictures_have_boxes_too(void **state) {
    (void)state;
    const struct oct__augment a = {.seed = 1};
    static const int sizes[][2] = {{1, 1}, {1, 900}, {900, 1}, {2, 3}, {1000, 10}, {10, 1000}};
    for (size_t i = 0; i < OCT_COUNT_OF(sizes); i++) {
        for (uint32_t row = 0; row < 50; row++) {
            const int w = sizes[i][0], h = sizes[i][1];
            struct oct__box box = oct__crop_random(&a, row, w, h), mid = oct__crop_middle(w, h);
            assert_true(box.width > 0 && box.height > 0 && mid.width > 0);
            assert_true(box.x >= 0 && box.x + box.width <= (int64_t)w * OCT_PIXEL);
            assert_true(box.y >= 0 && box.y + box.height <= (int64_t)h * OCT_PIXEL);
            assert_true(mid.x >= 0 && mid.x + mid.width <= (int64_t)w * OCT_PIXEL);
            assert_true(mid.y >= 0 && mid.y + mid.height <= (int64_t)h * OCT_PIXEL);
        }
    }
    /* What never fits falls back to the middle. */
    struct oct__box wide = oct__crop_random(&a, 0, 1000, 10);
    print_message("1000 x 10: %lld x %lld at %lld\n", (long long)(wide.width / OCT_PIXEL),
                  (long long)(wide.height / OCT_PIXEL), (long long)(wide.x / OCT_PIXEL));
    assert_int_equal(wide.width, 13 * OCT_PIXEL);
    assert_int_equal(wide.height, 10 * OCT_PIXEL);
    assert_int_equal(wide.x, 493 * OCT_PIXEL);
    struct oct__box middle = oct__crop_middle(640, 256);
    assert_int_equal(middle.width, 224 * OCT_PIXEL);
    assert_int_equal(middle.height, 224 * OCT_PIXEL);
    assert_int_equal(middle.x, 208 * OCT_PIXEL);
    assert_int_equal(middle.y, 16 * OCT_PIXEL);
}

/* --- resampling ------------------------------------------------------------------------------- */

/* One way, in double: the triangle as it is meant. */
static void plain_weights(double start, double length, int n_in, int n_out, double *weights) {
    const double step = length / n_out, reach = step > 1.0 ? step : 1.0;
    for (int i = 0; i < n_out; i++) {
        const double centre = start + (i + 0.5) * step;
        double sum = 0.0;
        for (int p = 0; p < n_in; p++) {
            const double height = 1.0 - fabs(p + 0.5 - centre) / reach;
            weights[i * n_in + p] = height > 0.0 ? height : 0.0;
            sum += weights[i * n_in + p];
        }
        for (int p = 0; p < n_in; p++) {
            weights[i * n_in + p] /= sum;
        }
    }
}

/* The sample in double [size][size][3]; the caller frees it. */
static double *plain_sample(const uint8_t *pixels, int width, int height,
                            const struct oct__box *box, int size) {
    double *across = calloc((size_t)size * (size_t)width, sizeof *across);
    double *down = calloc((size_t)size * (size_t)height, sizeof *down);
    double *lines = calloc((size_t)size * (size_t)width * 3, sizeof *lines);
    double *out = calloc((size_t)size * (size_t)size * 3, sizeof *out);
    assert_true(across && down && lines && out);
    plain_weights((double)box->x / 65536, (double)box->width / 65536, width, size, across);
    plain_weights((double)box->y / 65536, (double)box->height / 65536, height, size, down);
    for (int i = 0; i < size; i++) {
        for (int y = 0; y < height; y++) {
            for (int k = 0; down[i * height + y] > 0 && k < width * 3; k++) {
                lines[i * width * 3 + k] += down[i * height + y] * pixels[y * width * 3 + k];
            }
        }
        for (int j = 0; j < size; j++) {
            for (int x = 0; x < width; x++) {
                for (int c = 0; across[j * width + x] > 0 && c < 3; c++) {
                    out[(i * size + j) * 3 + c] +=
                        across[j * width + x] * lines[(i * width + x) * 3 + c];
                }
            }
        }
    }
    free(across);
    free(down);
    free(lines);
    return out;
}

static double farthest(const uint8_t *found, const double *expected, int size) {
    double most = 0.0;
    for (int i = 0; i < size * size * 3; i++) {
        const double apart = fabs(found[i] - expected[i]);
        most = apart > most ? apart : most;
    }
    return most;
}

static void resample(struct oct__resampler *r, const uint8_t *pixels, int width, int height,
                     const struct oct__box *box, int size, uint8_t *out) {
    EXPECT_OK(oct__resample_begin(r, box, width, height, size, out));
    assert_true(r->x.first >= 0 && r->x.past <= width && r->y.first >= 0 && r->y.past <= height);
    for (int y = r->y.first; y < r->y.past; y++) {
        oct__resample_row(r, pixels + ((size_t)y * (size_t)width + (size_t)r->x.first) * 3);
    }
    assert_int_equal(r->next_out, size);
}

static void resampling_is_the_triangle(void **state) {
    (void)state;
    enum { MOST = 97, SIZE = 40 };
    static uint8_t pixels[MOST * MOST * 3], out[SIZE * SIZE * 3];
    struct oct__resampler r = {0};
    struct dice dice = dice_of(5);
    const struct oct__augment a = {.seed = 11};
    double most = 0.0;
    for (uint32_t turn = 0; turn < 120; turn++) {
        const int width = 1 + dice_below(&dice, MOST), height = 1 + dice_below(&dice, MOST);
        const int size = 1 + dice_below(&dice, SIZE);
        for (int i = 0; i < width * height * 3; i++) {
            pixels[i] = (uint8_t)dice_below(&dice, 256);
        }
        const struct oct__box box =
            turn % 2 ? oct__crop_random(&a, turn, width, height) : oct__crop_middle(width, height);
        double *expected = plain_sample(pixels, width, height, &box, size);
        resample(&r, pixels, width, height, &box, size, out);
        const double apart = farthest(out, expected, size);
        most = apart > most ? apart : most;
        if (apart > 0.6) {
            fail_msg("%d x %d to %d: %.3f apart", width, height, size, apart);
        }
        free(expected);
    }
    print_message("at most %.3f from what it is in double, of which 0.5 are rounding\n", most);
    oct__resample_fini(&r);
}

static void what_needs_no_change_is_unchanged(void **state) {
    (void)state;
    enum { SIDE = 24 };
    uint8_t pixels[SIDE * SIDE * 3], out[SIDE * SIDE * 3], white[9 * 9 * 3];
    struct oct__resampler r = {0};
    struct dice dice = dice_of(6);
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)dice_below(&dice, 256);
    }
    const struct oct__box whole = {0, 0, (int64_t)SIDE * OCT_PIXEL, (int64_t)SIDE * OCT_PIXEL};
    resample(&r, pixels, SIDE, SIDE, &whole, SIDE, out);
    assert_memory_equal(out, pixels, sizeof pixels);
    /* One colour stays that colour, however much larger or smaller. */
    memset(white, 255, sizeof white);
    const struct oct__augment a = {.seed = 1};
    for (uint32_t row = 0; row < 40; row++) {
        const struct oct__box box = oct__crop_random(&a, row, 9, 9);
        resample(&r, white, 9, 9, &box, 1 + (int)row % 20, out);
        for (int i = 0; i < (1 + (int)row % 20) * (1 + (int)row % 20) * 3; i++) {
            assert_int_equal(out[i], 255);
        }
    }
    oct__resample_fini(&r);
}

static void weights_sum_to_one(void **state) {
    (void)state;
    struct oct__axis axis = {0};
    static const struct {
        int64_t start, length;
        int n_in, n_out;
    } cases[] = {{0, 65536, 1, 7}, {0, (int64_t)8192 * 65536, 8192, 8}, {12345, 3 * 65536, 5, 64}};
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        EXPECT_OK(
            oct__axis_make(&axis, cases[i].start, cases[i].length, cases[i].n_in, cases[i].n_out));
        for (int j = 0; j < axis.n_out; j++) {
            int sum = 0;
            assert_in_range(axis.spans[j].count, 1, axis.most);
            for (int k = 0; k < axis.spans[j].count; k++) {
                assert_true(axis.weights[j * axis.most + k] > 0);
                sum += axis.weights[j * axis.most + k];
            }
            assert_int_equal(sum, OCT_RESAMPLE_UNIT);
        }
    }
    oct__axis_fini(&axis);
}

/* --- decoders --------------------------------------------------------------------------------- */

static struct oct__image_reader *reader;

static int open_reader(void **state) {
    (void)state;
    EXPECT_OK(oct__image_reader_create(&reader));
    return 0;
}

static int close_reader(void **state) {
    (void)state;
    oct__image_reader_destroy(reader);
    return 0;
}

static uint8_t *encode(enum picture_format format, const struct picture_form *form,
                       const uint8_t *pixels, size_t *n) {
    uint8_t *bytes = picture_encode(format, form, pixels, n);
    if (!bytes) {
        print_message("this build has no decoder for it\n");
        skip();
    }
    return bytes;
}

/* Encodes, decodes the middle of 64 x 64 at 56 x 56, which needs no resampling, and compares with
 * the colours that pixel (x, y) of the picture stands for. */
static void expect_colours(enum picture_format format, struct picture_form form,
                           const uint8_t *pixels, const uint8_t *colours, int tolerance,
                           const char *what) {
    enum { SIDE = 64, SIZE = 56, EDGE = 4 };
    uint8_t out[SIZE * SIZE * 3];
    size_t n;
    form.width = form.height = SIDE;
    for (form.is_progressive = 0; form.is_progressive < 2; form.is_progressive++) {
        uint8_t *bytes = encode(format, &form, pixels, &n);
        EXPECT_OK(oct__image_check_bytes(reader, what, bytes, n));
        EXPECT_OK(oct__image_decode(reader, what, bytes, n, SIZE, NULL, 0, out));
        int most = 0;
        for (int y = 0; y < SIZE; y++) {
            for (int k = 0; k < SIZE * 3; k++) {
                const int expected = colours[(y + EDGE) * SIDE * 3 + EDGE * 3 + k];
                const int apart = abs(out[y * SIZE * 3 + k] - expected);
                most = apart > most ? apart : most;
            }
        }
        print_message("%s, %s: at most %d apart\n", what,
                      form.is_progressive ? "progressive" : "row by row", most);
        assert_true(most <= tolerance);
        free(bytes);
    }
}

static void colours_come_out_right(void **state) {
    (void)state;
    enum { N = 64 * 64 };
    static uint8_t colour[N * 3], grey[N], grey3[N * 3], ink[N * 4], dark[N * 3];
    picture_gradient(64, 64, colour);
    for (int i = 0; i < N; i++) {
        grey[i] = colour[3 * i];
        const uint8_t key = (uint8_t)(255 - i / 64);
        ink[4 * i + 3] = key;
        for (int c = 0; c < 3; c++) {
            grey3[3 * i + c] = grey[i];
            ink[4 * i + c] = colour[3 * i + c];
            dark[3 * i + c] = (uint8_t)((colour[3 * i + c] * key + 127) / 255);
        }
    }
    expect_colours(PICTURE_JPEG, (struct picture_form){.channels = 3}, colour, colour, 4, "colour");
    expect_colours(PICTURE_JPEG, (struct picture_form){.channels = 1}, grey, grey3, 3, "grey");
    expect_colours(PICTURE_JPEG, (struct picture_form){.channels = 4, .is_adobe = 1}, ink, dark, 6,
                   "CMYK by Adobe");
    for (int i = 0; i < N * 4; i++) {
        ink[i] = (uint8_t)(255 - ink[i]); /* the right way up: 255 is all ink */
    }
    expect_colours(PICTURE_JPEG, (struct picture_form){.channels = 4}, ink, dark, 6, "CMYK");
}

static void png_pixels_are_exact(void **state) {
    (void)state;
    enum { N = 64 * 64 };
    static uint8_t colour[N * 3], grey[N], grey3[N * 3], wide[N * 6], clear[N * 4], dark[N * 3];
    static uint8_t grey_clear[N * 2], grey_dark[N * 3], palette[N * 3];
    struct dice dice = dice_of(8);
    for (int i = 0; i < N; i++) {
        const uint8_t alpha = (uint8_t)dice_below(&dice, 256);
        grey[i] = (uint8_t)dice_below(&dice, 256);
        grey_clear[2 * i] = grey[i];
        grey_clear[2 * i + 1] = clear[4 * i + 3] = alpha;
        palette[3 * i] = grey[i];
        palette[3 * i + 1] = (uint8_t)(255 - grey[i]);
        palette[3 * i + 2] = grey[i] / 2;
        for (int c = 0; c < 3; c++) {
            colour[3 * i + c] = clear[4 * i + c] = (uint8_t)dice_below(&dice, 256);
            grey3[3 * i + c] = grey[i];
            dark[3 * i + c] = (uint8_t)((colour[3 * i + c] * alpha + 127) / 255);
            grey_dark[3 * i + c] = (uint8_t)((grey[i] * alpha + 127) / 255);
            /* of 16 bits the nearest 8: v * 257 is v, and half a step more or less still */
            wide[6 * i + 2 * c] = wide[6 * i + 2 * c + 1] = colour[3 * i + c];
        }
    }
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 3}, colour, colour, 0, "colour");
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 1}, grey, grey3, 0, "grey");
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 3, .bits = 16}, wide, colour, 0,
                   "16 bits");
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 4}, clear, dark, 0, "alpha");
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 2}, grey_clear, grey_dark, 0,
                   "grey with alpha");
    expect_colours(PICTURE_PNG, (struct picture_form){.channels = 1, .has_palette = 1}, grey,
                   palette, 0, "palette");
}

/* Leaving out rows and columns that a box does not need changes nothing in it. */
static void parts_are_parts_of_the_whole(void **state) {
    (void)state;
    enum { W = 150, H = 117, SIZE = 64 }; /* too small to be decoded at half their size */
    static uint8_t pixels[W * H * 3], out[SIZE * SIZE * 3];
    struct picture_form form = {.width = W, .height = H, .channels = 3};
    struct dice dice = dice_of(9);
    picture_gradient(W, H, pixels);
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(pixels[i] / 2 + dice_below(&dice, 128)); /* edges everywhere */
    }
    double most = 0.0;
    for (form.is_progressive = 0; form.is_progressive < 2; form.is_progressive++) {
        size_t n;
        uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n);
        uint8_t *whole = picture_decode(bytes, n);
        for (uint32_t row = 0; row < 100; row++) {
            const struct oct__augment a = {.seed = 3};
            const struct oct__box box = oct__crop_random(&a, row, W, H);
            double *expected = plain_sample(whole, W, H, &box, SIZE);
            EXPECT_OK(oct__image_decode(reader, "part", bytes, n, SIZE, &a, row, out));
            const double apart = farthest(out, expected, SIZE);
            most = apart > most ? apart : most;
            free(expected);
        }
        free(whole);
        free(bytes);
    }
    print_message("at most %.3f apart\n", most);
    assert_true(most < 0.6);
}

/* A picture that is too large is decoded at a half or an eighth of its size, and shows the same, however
 * coarse its colours are. */
static void large_pictures_are_decoded_smaller(void **state) {
    (void)state;
    enum { SIDE = 600, MOST = 210 };
    static uint8_t pixels[SIDE * SIDE * 3], out[MOST * MOST * 3];
    static const int shared[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {2, 4}};
    struct picture_form form = {.width = SIDE, .height = SIDE, .channels = 3};
    picture_gradient(SIDE, SIDE, pixels);
    const struct oct__box box = oct__crop_middle(SIDE, SIDE);
    for (int size = MOST; size >= 60; size -= 150) {
        double *expected = plain_sample(pixels, SIDE, SIDE, &box, size);
        for (size_t i = 0; i < OCT_COUNT_OF(shared); i++) {
            size_t n;
            form.across = shared[i][0];
            form.down = shared[i][1];
            uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n);
            EXPECT_OK(oct__image_decode(reader, "large", bytes, n, size, NULL, 0, out));
            const double apart = farthest(out, expected, size);
            print_message("%d, colours of %d x %d pixels: at most %.3f apart\n", size, form.across,
                          form.down, apart);
            assert_true(apart < 5.0);
            free(bytes);
        }
        free(expected);
    }
}

/* --- damaged and hostile files ----------------------------------------------------------------- */

static void expect_corrupt(const uint8_t *bytes, size_t n, const char *piece) {
    uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees a read behind its end */
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    oct_status status = oct__image_check_bytes(reader, "it.jpg", exact, n);
    if (status != OCT_STATUS_CORRUPT || !strstr(oct_last_error(), piece)) {
        fail_msg("%zu bytes: %s: %s", n, oct_status_name(status), oct_last_error());
    }
    assert_non_null(strstr(oct_last_error(), "it.jpg"));
    free(exact);
}

static void every_cut_is_noticed(enum picture_format format) {
    static uint8_t pixels[40 * 40 * 3];
    struct picture_form form = {.width = 40, .height = 40, .channels = 3};
    picture_gradient(40, 40, pixels);
    for (form.is_progressive = 0; form.is_progressive < 2; form.is_progressive++) {
        size_t n;
        uint8_t *bytes = encode(format, &form, pixels, &n);
        EXPECT_OK(oct__image_check_bytes(reader, "it.jpg", bytes, n));
        for (size_t cut = 0; cut < n; cut++) {
            expect_corrupt(bytes, cut, "it.jpg: ");
        }
        print_message("%zu lengths, all refused; %s\n", n, oct_last_error());
        EXPECT_OK(oct__image_check_bytes(reader, "it.jpg", bytes, n)); /* the reader is unharmed */
        free(bytes);
    }
}

static void cut_jpeg_files_are_corrupt(void **state) {
    (void)state;
    every_cut_is_noticed(PICTURE_JPEG);
}

static void cut_png_files_are_corrupt(void **state) {
    (void)state;
    every_cut_is_noticed(PICTURE_PNG);
}

static void garbage_is_corrupt(void **state) {
    (void)state;
    uint8_t bytes[64];
    memset(bytes, 'x', sizeof bytes);
    expect_corrupt(bytes, 0, "an empty file");
    expect_corrupt(bytes, sizeof bytes, "neither a JPEG nor a PNG file");
#ifdef OCT_HAVE_JPEG
    memcpy(bytes, "\xff\xd8\xff", 3);
    expect_corrupt(bytes, sizeof bytes, "not a whole JPEG file");
    expect_corrupt(bytes, 3, "not a whole JPEG file");
#endif
#ifdef OCT_HAVE_PNG
    memcpy(bytes, "\x89PNG\r\n\x1a\n", 8);
    expect_corrupt(bytes, sizeof bytes, "not a whole PNG file");
    expect_corrupt(bytes, 8, "not a whole PNG file");
#endif
    EXPECT_FAILURE(oct__image_check(reader, "/nowhere/it.jpg"), OCT_STATUS_IO, "/nowhere/it.jpg");
    EXPECT_FAILURE(oct__image_check(reader, "/"), OCT_STATUS_CORRUPT, "not a file");
}

/* Bytes changed at random: refused or decoded, and the reader goes on either way. */
static void changed_bytes_do_no_harm(void **state) {
    (void)state;
    static uint8_t pixels[32 * 32 * 3], out[24 * 24 * 3];
    struct dice dice = dice_of(10);
    picture_gradient(32, 32, pixels);
    for (int form_number = 0; form_number < 4; form_number++) {
        const struct picture_form form = {
            .width = 32, .height = 32, .channels = 3, .is_progressive = form_number % 2};
        size_t n;
        uint8_t *bytes = encode(form_number / 2 ? PICTURE_PNG : PICTURE_JPEG, &form, pixels, &n);
        uint8_t *copy = malloc(n);
        assert_non_null(copy);
        int n_whole = 0;
        for (int turn = 0; turn < 400; turn++) {
            memcpy(copy, bytes, n);
            for (int k = dice_below(&dice, 4); k >= 0; k--) {
                copy[dice_below(&dice, (int)n)] = (uint8_t)dice_below(&dice, 256);
            }
            oct_status checked = oct__image_check_bytes(reader, "it", copy, n);
            oct_status decoded = oct__image_decode(reader, "it", copy, n, 24, NULL, 0, out);
            assert_true(checked == OCT_OK || checked == OCT_STATUS_CORRUPT);
            assert_true(decoded == OCT_OK || checked == OCT_STATUS_CORRUPT);
            n_whole += checked == OCT_OK;
        }
        print_message("form %d: %d of 400 are still pictures\n", form_number, n_whole);
        free(copy);
        free(bytes);
    }
}

/* Cameras write notes that the library warns of and that say nothing about the pixels: a revision of JFIF
 * that there is not, and a range of coefficients (last of the header of the scan) that is not all. */
static void odd_notes_are_no_damage(void **state) {
    (void)state;
    enum { SIDE = 32, SIZE = 28, REVISION = 11 };
    static uint8_t pixels[SIDE * SIDE * 3], plain[SIZE * SIZE * 3], odd[SIZE * SIZE * 3];
    const struct picture_form form = {.width = SIDE, .height = SIDE, .channels = 3};
    size_t n, scan = 0;
    picture_gradient(SIDE, SIDE, pixels);
    uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n);
    EXPECT_OK(oct__image_decode(reader, "plain", bytes, n, SIZE, NULL, 0, plain));
    while (bytes[scan] != 0xff || bytes[scan + 1] != 0xda) {
        scan++;
    }
    uint8_t *range = bytes + scan + 2 + (bytes[scan + 2] << 8 | bytes[scan + 3]) - 3;
    assert_int_equal(range[1], 63);
    range[1] = 0;
    assert_memory_equal(bytes + 6, "JFIF", 5);
    bytes[REVISION] = 2;
    EXPECT_OK(oct__image_check_bytes(reader, "odd", bytes, n));
    EXPECT_OK(oct__image_decode(reader, "odd", bytes, n, SIZE, NULL, 0, odd));
    assert_memory_equal(plain, odd, sizeof odd);
    free(bytes);
}

/* A file without its tables is no file, also for a reader that has just seen the tables elsewhere. */
static void nothing_is_left_of_the_last_file(void **state) {
    (void)state;
    static uint8_t pixels[32 * 32 * 3];
    const struct picture_form form = {
        .width = 32, .height = 32, .channels = 3, .is_progressive = 1};
    size_t n, n_bare = 0;
    picture_gradient(32, 32, pixels);
    uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n), *bare = malloc(n);
    assert_non_null(bare);
    for (size_t i = 0; i < n;) { /* all but the segments of Huffman tables */
        if (i + 3 < n && bytes[i] == 0xff && bytes[i + 1] == 0xc4) {
            i += 2 + (size_t)(bytes[i + 2] << 8 | bytes[i + 3]);
        } else {
            bare[n_bare++] = bytes[i++];
        }
    }
    assert_true(n_bare < n);
    for (int turn = 0; turn < 2; turn++) {
        EXPECT_OK(oct__image_check_bytes(reader, "it.jpg", bytes, n));
        expect_corrupt(bare, n_bare, "was not defined");
    }
    free(bare);
    free(bytes);
}

static void absurd_sizes_are_refused(void **state) {
    (void)state;
    static uint8_t pixels[16 * 16 * 3];
    const struct picture_form form = {.width = 16, .height = 16, .channels = 3};
    size_t n;
    uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n);
    for (size_t i = 0; i + 9 < n; i++) {
        if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) { /* the frame: height and width follow */
            memcpy(bytes + i + 5, "\xff\xdc\xff\xdc", 4);
        }
    }
    expect_corrupt(bytes, n, "65500 x 65500 pixels, expected 1 to 67108864");
    free(bytes);
}

/* A scan of a few bytes, repeated: every one is work for the whole picture. */
static void endless_scans_are_refused(void **state) {
    (void)state;
    enum { SIDE = 16, COPIES = 300 };
    static uint8_t pixels[SIDE * SIDE * 3];
    const struct picture_form form = {.width = SIDE, .height = SIDE, .channels = 3, .is_apart = 1};
    size_t n, last = 0;
    uint8_t *bytes = encode(PICTURE_JPEG, &form, pixels, &n);
    EXPECT_OK(oct__image_check_bytes(reader, "it.jpg", bytes, n));
    for (size_t i = 0; i + 1 < n; i++) {
        last = bytes[i] == 0xff && bytes[i + 1] == 0xda ? i : last;
    }
    const size_t scan = n - 2 - last; /* up to the mark of the end */
    uint8_t *more = malloc(n + COPIES * scan);
    assert_non_null(more);
    memcpy(more, bytes, n - 2);
    for (size_t i = 0; i < COPIES; i++) {
        memcpy(more + n - 2 + i * scan, bytes + last, scan);
    }
    memcpy(more + n - 2 + COPIES * scan, bytes + n - 2, 2);
    expect_corrupt(more, n + COPIES * scan, "more than 200 scans");
    free(more);
    free(bytes);
}

/* No memory is no damage. */
static void missing_memory_is_said(void **state) {
    (void)state;
    static uint8_t pixels[64 * 64 * 3], out[40 * 40 * 3];
    picture_gradient(64, 64, pixels);
    for (int format = PICTURE_JPEG; format <= PICTURE_PNG; format++) {
        const struct picture_form form = {
            .width = 64, .height = 64, .channels = 3, .is_progressive = 1};
        size_t n;
        int n_failures = 0;
        uint8_t *bytes = encode((enum picture_format)format, &form, pixels, &n);
        for (uint64_t at = 1;; at++) {
            struct oct__image_reader *own = NULL;
            oct__alloc_fail_after(at);
            oct_status status = oct__image_reader_create(&own);
            if (status == OCT_OK) {
                status = oct__image_decode(own, "it", bytes, n, 40, NULL, 0, out);
            }
            oct__alloc_fail_after(0);
            oct__image_reader_destroy(own);
            if (status == OCT_OK) {
                break;
            }
            if (status != OCT_STATUS_NO_MEMORY) {
                fail_msg("request %llu: %s: %s", (unsigned long long)at, oct_status_name(status),
                         oct_last_error());
            }
            n_failures++;
        }
        print_message("%d requests, each of which failed once\n", n_failures);
        assert_true(n_failures > 4);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_follow_their_law),
        cmocka_unit_test(boxes_are_named_by_their_key),
        cmocka_unit_test(odd_pictures_have_boxes_too),
        cmocka_unit_test(resampling_is_the_triangle),
        cmocka_unit_test(what_needs_no_change_is_unchanged),
        cmocka_unit_test(weights_sum_to_one),
        cmocka_unit_test(colours_come_out_right),
        cmocka_unit_test(png_pixels_are_exact),
        cmocka_unit_test(parts_are_parts_of_the_whole),
        cmocka_unit_test(large_pictures_are_decoded_smaller),
        cmocka_unit_test(cut_jpeg_files_are_corrupt),
        cmocka_unit_test(cut_png_files_are_corrupt),
        cmocka_unit_test(garbage_is_corrupt),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(odd_notes_are_no_damage),
        cmocka_unit_test(nothing_is_left_of_the_last_file),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(missing_memory_is_said),
    };
    return cmocka_run_group_tests(tests, open_reader, close_reader);
}
