/* SPDX-License-Identifier: Apache-2.0 */
/* test_arrays.c - people's own arrays, `npy` and `idx`: what is read, and what is said about the
 * rest.
 *
 * Files are made here, byte by byte: NumPy is not needed, and nothing that it would not write is out
 * of reach.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "data/idx.h"
#include "data/npy.h"
#include "scratch.h"
#include "support/check.h"
#include "train/trainer.h"

enum { N_TRAIN = 6, N_TEST = 3, SIDE_H = 4, SIDE_W = 5, MOST_BYTES = 4096 };

static char folder[SCRATCH_PATH];

static int set_up(void **state) {
    (void)state;
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct__alloc_fail_after(0);
    scratch_remove(folder);
    return 0;
}

static void write_file(const char *name, const uint8_t *bytes, size_t n) {
    assert_int_equal(scratch_write(scratch_at(folder, name), bytes, n), 0);
}

/* "npy:FOLDER" + more, in one of two static buffers. */
static const char *spec(const char *kind, const char *more) {
    static char texts[2][2 * SCRATCH_PATH];
    static int next;
    char *text = texts[next++ % 2];
    snprintf(text, sizeof texts[0], "%s:%s%s", kind, folder, more);
    return text;
}

static oct_status open_npy(enum oct_split split, struct oct_dataset **out) {
    return oct_dataset_open(spec("npy", ""), NULL, split, out);
}

/* --- files -------------------------------------------------------------------------------------- */

/* Magic, version, length and text; returns how many bytes. The text is padded as NumPy does it. */
static size_t npy_begin(uint8_t *out, int major, const char *text) {
    size_t n_length = major == 1 ? 2 : 4, length = strlen(text);
    size_t n = 8 + n_length;
    memcpy(out, "\223NUMPY", 6);
    out[6] = (uint8_t)major;
    out[7] = 0;
    memcpy(out + n, text, length);
    n += length;
    while ((n + 1) % 64) {
        out[n++] = ' ';
    }
    out[n++] = '\n';
    for (size_t i = 0; i < n_length; i++) {
        out[8 + i] = (uint8_t)((n - 8 - n_length) >> 8 * i);
    }
    return n;
}

static size_t npy_header(uint8_t *out, int major, const char *descr, const char *shape) {
    char text[200];
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
             shape);
    return npy_begin(out, major, text);
}

/* An integer in the bytes of a dtype such as ">i4". */
static size_t put_item(uint8_t *out, const char *descr, int64_t value) {
    size_t n = (size_t)(descr[2] - '0');
    for (size_t b = 0; b < n; b++) {
        out[descr[0] == '>' ? n - 1 - b : b] = (uint8_t)((uint64_t)value >> 8 * b);
    }
    return n;
}

static int64_t label_of(enum oct_split split, int i) {
    return split == OCT_SPLIT_TRAIN ? i * 3 % 5 : i + 4; /* 0 … 4 and 4 … 6 */
}

static int count_of(enum oct_split split) {
    return split == OCT_SPLIT_TRAIN ? N_TRAIN : N_TEST;
}

static const char *const npy_names[2][2] = {{"train_images.npy", "train_labels.npy"},
                                            {"test_images.npy", "test_labels.npy"}};

static size_t npy_images(uint8_t *out, int major, int channels, enum oct_split split) {
    char shape[64];
    int n = count_of(split), c = channels ? channels : 1;
    snprintf(shape, sizeof shape, channels ? "(%d, %d, %d, %d)" : "(%d, %d, %d)", n, SIDE_H, SIDE_W,
             channels);
    size_t at = npy_header(out, major, "|u1", shape);
    size_t n_items = (size_t)n * SIDE_H * SIDE_W * (size_t)c;
    scratch_fill(out + at, n_items, (uint32_t)split + 7);
    return at + n_items;
}

static size_t npy_labels(uint8_t *out, int major, const char *descr, int column,
                         enum oct_split split) {
    char shape[64];
    snprintf(shape, sizeof shape, column ? "(%d, 1)" : "(%d,)", count_of(split));
    size_t n = npy_header(out, major, descr, shape);
    for (int i = 0; i < count_of(split); i++) {
        n += put_item(out + n, descr, label_of(split, i));
    }
    return n;
}

/* The four files, good ones. `channels` 0: images without that axis. */
static void write_npy(int major, int channels, const char *descr, int column) {
    uint8_t bytes[MOST_BYTES];
    for (int split = 0; split < 2; split++) {
        size_t n = npy_images(bytes, major, channels, (enum oct_split)split);
        write_file(npy_names[split][0], bytes, n);
        n = npy_labels(bytes, major, descr, column, (enum oct_split)split);
        write_file(npy_names[split][1], bytes, n);
    }
}

static size_t idx_file(uint8_t *out, int type, int n_dims, const uint32_t *dims) {
    const uint8_t begin[] = {0, 0, (uint8_t)type, (uint8_t)n_dims};
    memcpy(out, begin, 4);
    for (int d = 0; d < n_dims; d++) {
        for (int k = 0; k < 4; k++) {
            out[4 + 4 * d + k] = (uint8_t)(dims[d] >> (24 - 8 * k));
        }
    }
    return 4 + 4 * (size_t)n_dims;
}

static size_t idx_images(uint8_t *out, int channels, enum oct_split split) {
    const uint32_t dims[] = {(uint32_t)count_of(split), SIDE_H, SIDE_W, (uint32_t)channels};
    size_t at = idx_file(out, 8, channels ? 4 : 3, dims);
    size_t n = (size_t)count_of(split) * SIDE_H * SIDE_W * (size_t)(channels ? channels : 1);
    scratch_fill(out + at, n, (uint32_t)split + 7);
    return at + n;
}

static size_t idx_labels(uint8_t *out, int type, enum oct_split split) {
    const uint32_t dims[] = {(uint32_t)count_of(split)};
    size_t n = idx_file(out, type, 1, dims);
    const char *descr = type == 0x0c ? ">i4" : type == 0x0b ? ">i2" : ">i1";
    for (int i = 0; i < count_of(split); i++) {
        n += put_item(out + n, descr, label_of(split, i));
    }
    return n;
}

static void write_idx(const char *const names[4], int channels, int label_type, int gzipped) {
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[MOST_BYTES], packed[MOST_BYTES + 64];
        enum oct_split split = (enum oct_split)(i / 2);
        size_t n =
            i % 2 ? idx_labels(bytes, label_type, split) : idx_images(bytes, channels, split);
        size_t n_packed = gzipped ? scratch_gzip(bytes, n, packed) : 0;
        write_file(names[i], gzipped ? packed : bytes, gzipped ? n_packed : n);
    }
}

/* --- what was read ------------------------------------------------------------------------------ */

/* The half as it was written: every byte, label and number, and normalization measured. */
static void expect_half(const char *what, enum oct_split split, int channels, int pad,
                        struct oct_dataset *dataset) {
    const int n = count_of(split), c = channels ? channels : 1;
    struct oct_dataset_info info;
    oct_dataset_info(dataset, &info);
    print_message("%s: %lld images of %dx%dx%d, %d classes\n", what, (long long)info.n_samples,
                  info.height, info.width, info.channels, info.n_classes);
    assert_int_equal(info.n_samples, n);
    assert_int_equal(info.height, SIDE_H + 2 * pad);
    assert_int_equal(info.width, SIDE_W + 2 * pad);
    assert_int_equal(info.channels, c);
    assert_int_equal(info.n_classes, 7);
    uint8_t expected[N_TRAIN * SIDE_H * SIDE_W * 4];
    scratch_fill(expected, (size_t)n * SIDE_H * SIDE_W * (size_t)c, (uint32_t)split + 7);
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(oct_dataset_label(dataset, i), label_of(split, i));
        const uint8_t *pixel = oct_dataset_image(dataset, i);
        for (int y = -pad; y < SIDE_H + pad; y++) {
            for (int x = -pad; x < SIDE_W + pad; x++) {
                int inside = y >= 0 && y < SIDE_H && x >= 0 && x < SIDE_W;
                for (int k = 0; k < c; k++, pixel++) {
                    int want = inside ? expected[((i * SIDE_H + y) * SIDE_W + x) * c + k] : 0;
                    assert_int_equal(*pixel, want);
                    sum += k == c - 1 ? want / 255.0 : 0;
                    squares += k == c - 1 ? want / 255.0 * (want / 255.0) : 0;
                }
            }
        }
    }
    double n_pixels = (double)n * (SIDE_H + 2 * pad) * (SIDE_W + 2 * pad), mean = sum / n_pixels;
    double variance = squares / n_pixels - mean * mean;
    assert_float_equal(dataset->mean[c - 1], mean, 1e-6);
    assert_float_equal(dataset->deviation[c - 1] * dataset->deviation[c - 1], variance, 1e-6);
}

static void expect_both(const char *text, int channels, int pad) {
    for (int split = 0; split < 2; split++) {
        struct oct_dataset *dataset = NULL;
        EXPECT_OK(oct_dataset_open(text, NULL, (enum oct_split)split, &dataset));
        expect_half(text, (enum oct_split)split, channels, pad, dataset);
        oct_dataset_close(dataset);
    }
}

static void npy_every_version_shape_and_dtype(void **state) {
    (void)state;
    static const char *const descrs[] = {"|i1", "|u1", "<i1", ">u1", "<i2", ">i2", "<u2", ">u2",
                                         "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"};
    for (int major = 1; major <= 3; major++) {
        for (int channels = 0; channels <= 4; channels++) {
            write_npy(major, channels, "<i8", channels & 1);
            expect_both(spec("npy", ""), channels, 0);
        }
    }
    for (size_t i = 0; i < OCT_COUNT_OF(descrs); i++) {
        print_message("labels of %s\n", descrs[i]);
        write_npy(1, 3, descrs[i], (int)i & 1);
        expect_both(spec("npy", ""), 3, 0);
    }
    expect_both(spec("npy", ",pad=2"), 3, 2);
}

static void npy_under_other_names(void **state) {
    (void)state;
    write_npy(1, 0, "<i4", 0);
    static const char *const keras[2][2] = {{"x_train.npy", "y_train.npy"},
                                            {"x_test.npy", "y_test.npy"}};
    char from[2 * SCRATCH_PATH], to[2 * SCRATCH_PATH];
    for (int i = 0; i < 4; i++) { /* one after the other: a mixture is read as well */
        snprintf(from, sizeof from, "%s/%s", folder, npy_names[i / 2][i % 2]);
        snprintf(to, sizeof to, "%s/%s", folder, keras[i / 2][i % 2]);
        assert_int_equal(rename(from, to), 0);
        expect_both(spec("npy", ""), 0, 0);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(from, sizeof from, "%s/%s", folder, keras[i / 2][i % 2]);
        snprintf(to, sizeof to, "%s/mine-%s", folder, keras[i / 2][i % 2]);
        assert_int_equal(rename(from, to), 0);
    }
    expect_both(spec("npy", ",prefix=mine-"), 0, 0);
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(open_npy(OCT_SPLIT_TEST, &dataset), OCT_STATUS_NOT_FOUND,
                   "no training images, called train_images.npy or x_train.npy; write it with "
                   "np.save");
    EXPECT_FAILURE(oct_dataset_open("npy", NULL, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_NOT_FOUND,
                   "npy: names no folder; bring your own with --data npy:FOLDER");
    EXPECT_FAILURE(oct_dataset_open("npy:/no/such", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "npy: /no/such: No such file");
    EXPECT_FAILURE(oct_dataset_open("npy:~/x", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "write the home folder out");
    EXPECT_FAILURE(oct_dataset_open(spec("npy", ",folder=x"), NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "options: path, prefix, pad");
    assert_null(dataset);
}

/* --- what is refused ---------------------------------------------------------------------------- */

/* Puts `bytes` in the place of one good file, and expects both halves to be refused for it. */
static void refused(const char *name, const uint8_t *bytes, size_t n, oct_status status,
                    const char *says) {
    write_file(name, bytes, n);
    for (int split = 0; split < 2; split++) {
        struct oct_dataset *dataset = NULL;
        EXPECT_FAILURE(open_npy((enum oct_split)split, &dataset), status, says);
        assert_null(dataset);
        assert_non_null(strstr(oct_last_error(), name));
    }
}

static void npy_unusable_types_and_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name, *descr, *shape, *says;
    } cases[] = {
        {"train_images.npy", "<f4", "(6, 4, 5)",
         "'<f4' at byte 20, expected uint8 ('|u1'); save (x * 255)"},
        {"train_images.npy", "<f8", "(6, 4, 5)",
         "(x * 255).round().astype(np.uint8) when 1 is white"},
        {"train_images.npy", ">f2", "(6, 4, 5)", "x.round().astype(np.uint8) when 255 is"},
        {"train_images.npy", "<f16", "(6, 4, 5)", "(x * 255)"},
        {"train_images.npy", "|b1", "(6, 4, 5)", "x.astype(np.uint8) * 255"},
        {"train_images.npy", "|i1", "(6, 4, 5)", "x.astype(np.uint8), with values from 0 to 255"},
        {"train_images.npy", "<i8", "(6, 4, 5)", "x.astype(np.uint8), with values from 0 to 255"},
        {"train_images.npy", "<u2", "(6, 4, 5)", "(x >> 8).astype(np.uint8) when 65535 is white"},
        {"train_images.npy", "|O", "(6,)", "np.stack(list(x)).astype(np.uint8)"},
        {"train_images.npy", "<U7", "(6, 4, 5)", "'<U7'"},
        {"train_images.npy", "<M8[ns]", "(6, 4, 5)", "'<M8[ns]'"},
        {"train_images.npy", "|u1", "(6, 3, 32, 32)",
         "shape (6, 3, 32, 32) at byte 60 looks like (n, c, h, w), expected channels last; save "
         "np.ascontiguousarray(x.transpose(0, 2, 3, 1))"},
        {"test_images.npy", "|u1", "(3, 1, 28, 28)", "looks like (n, c, h, w)"},
        {"train_images.npy", "|u1", "(6, 32, 32, 5)", "has 5 channels, expected 1 to 4"},
        {"train_images.npy", "|u1", "(6, 784)",
         "expected (n, h, w) or (n, h, w, c); save x.reshape("},
        {"train_images.npy", "|u1", "()", "shape () at byte 60"},
        {"train_images.npy", "|u1", "(1, 2, 3, 4, 5, 6)", "shape (1, 2, 3, 4, ...)"},
        {"train_images.npy", "|u1", "(0, 4, 5)", "no samples: shape (0, 4, 5) at byte 60"},
        {"train_labels.npy", "<f4", "(6,)",
         "labels of dtype '<f4' at byte 20, expected integers; save y.astype(np.int64)"},
        {"test_labels.npy", "|b1", "(3,)", "y.astype(np.int64)"},
        {"train_labels.npy", "<U7", "(6,)", "np.unique(y, return_inverse=True)[1]"},
        {"train_labels.npy", "|O", "(6,)", "np.unique(y, return_inverse=True)[1]"},
        {"train_labels.npy", "<i3", "(6,)", "'<i3'"},
        {"train_labels.npy", "|i4", "(6,)", "'|i4'"},
        {"train_labels.npy", "", "(6,)", "dtype ''"},
        {"train_labels.npy", "<i8", "(6, 10)",
         "shape (6, 10) at byte 60, expected (n,) or (n, 1); save y.argmax(1)"},
        {"train_labels.npy", "<i8", "(6, 1, 1)", "save y.reshape(-1)"},
        {"train_labels.npy", "<i8", "(0,)", "no samples: shape (0,)"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        write_npy(1, 0, "<i8", 0);
        uint8_t bytes[MOST_BYTES] = {0};
        size_t n = npy_header(bytes, 1, cases[i].descr, cases[i].shape);
        refused(cases[i].name, bytes, n + 64, OCT_STATUS_INVALID, cases[i].says);
    }
    write_npy(1, 0, "<i8", 0);
    uint8_t bytes[MOST_BYTES] = {0};
    size_t n = npy_begin(bytes, 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (6, 4, 5), }");
    refused("train_images.npy", bytes, n + 120, OCT_STATUS_INVALID,
            "Fortran order at byte 44, expected C order; save np.ascontiguousarray(x)");
    n = npy_begin(bytes, 1,
                  "{'descr': [('a', '|u1'), ('b', '<f4')], 'fortran_order': False, "
                  "'shape': (6, 4, 5), }");
    refused("train_images.npy", bytes, n + 600, OCT_STATUS_INVALID, "np.save(F, x['FIELD'])");
    /* One column is the same either way round. */
    write_npy(1, 0, "|i1", 1);
    n = npy_begin(bytes, 1, "{'descr': '|i1', 'fortran_order': True, 'shape': (6, 1), }");
    for (int i = 0; i < N_TRAIN; i++) {
        bytes[n++] = (uint8_t)label_of(OCT_SPLIT_TRAIN, i);
    }
    write_file("train_labels.npy", bytes, n);
    expect_both(spec("npy", ""), 0, 0);
}

static void npy_header_grammar(void **state) {
    (void)state;
    static const char *const good[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5)}",
        "{\"shape\":(6,4,5),\"descr\":\"u1\",\"fortran_order\":False}",
        " {\n'fortran_order' : False ,\t'shape' : ( 6 , 4 , 5 , ) , 'descr' : '<u1' , } ",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6L, 4L, 5L), }",
    };
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "[]",
        "(6, 4, 5)",
        "{'descr'",
        "{'descr':",
        "{'descr': '|u1'",
        "{'descr': '|u1',",
        "{'descr': '|u1', }",
        "{'descr': '|u1', 'fortran_order': False, }",
        "{'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5)",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), } x",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), }}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5),, }",
        "{, 'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5)}",
        "{'descr': '|u1' 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5), 'more': 1, }",
        "{descr: '|u1', 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': |u1, 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1\", 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '\\x7cu1', 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1aaaaaaaaaaaaaaaaaaaaaaaaaaa', 'fortran_order': False, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': 0, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': Falsey, 'shape': (6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': 6, }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': [6, 4, 5], }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6, , 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (, 6), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6.0, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (0x6, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2*3, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6 4 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (18446744073709551616, 4, 5), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999999, 4, 5), }",
    };
    write_npy(1, 0, "<i8", 0);
    uint8_t bytes[MOST_BYTES];
    for (size_t i = 0; i < OCT_COUNT_OF(good); i++) {
        size_t n = npy_begin(bytes, 1 + (int)i % 3, good[i]);
        scratch_fill(bytes + n, N_TRAIN * SIDE_H * SIDE_W, 7);
        write_file("train_images.npy", bytes, n + N_TRAIN * SIDE_H * SIDE_W);
        expect_both(spec("npy", ""), 0, 0);
    }
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        size_t n = npy_begin(bytes, 1 + (int)i % 3, bad[i]);
        memset(bytes + n, 0, 120);
        refused("train_images.npy", bytes, n + 120, OCT_STATUS_CORRUPT, "byte ");
    }
    size_t n = npy_begin(bytes, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 5) ]");
    refused("train_images.npy", bytes, n + 120, OCT_STATUS_CORRUPT,
            "0x5d at byte 70 of the header, expected ',' or '}'");
}

static void npy_before_the_text(void **state) {
    (void)state;
    write_npy(1, 0, "<i8", 0);
    uint8_t bytes[MOST_BYTES];
    size_t n = npy_images(bytes, 1, 0, OCT_SPLIT_TRAIN);
    bytes[3] = 'X';
    refused("train_images.npy", bytes, n, OCT_STATUS_CORRUPT,
            "begins with 93 4e 55 58 50 59 at byte 0, not as np.save writes");
    memcpy(bytes, "PK\003\004", 4);
    refused("train_images.npy", bytes, n, OCT_STATUS_INVALID,
            "save each array alone: z = np.load(F)");
    for (int version = 0; version < 256; version++) {
        n = npy_images(bytes, 2, 0, OCT_SPLIT_TRAIN);
        bytes[6] = (uint8_t)version;
        bytes[7] = version == 3;
        if (version != 1 && version != 2) {
            refused("train_images.npy", bytes, n, OCT_STATUS_CORRUPT,
                    "at byte 6, expected 1.0, 2.0");
        }
    }
    n = npy_images(bytes, 2, 0, OCT_SPLIT_TRAIN);
    memset(bytes + 8, 0xff, 4);
    refused("train_images.npy", bytes, n, OCT_STATUS_CORRUPT,
            "a header of 4294967295 bytes at byte 8, expected at most 10000");
    /* An archive in the place of the folder. */
    struct oct_dataset *dataset = NULL;
    write_file("all.npz", (const uint8_t *)"PK\003\004", 4);
    EXPECT_FAILURE(oct_dataset_open(spec("npy", "/all.npz"), NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "all.npz is no folder: write its arrays out as .npy files");
    EXPECT_FAILURE(
        oct_dataset_open(spec("npy", "/train_images.npy"), NULL, OCT_SPLIT_TRAIN, &dataset),
        OCT_STATUS_INVALID, "is no folder; name the one that has the files");
    assert_null(dataset);
}

/* Cut behind every byte, and a byte too long; all four files, both halves. */
static void npy_every_length(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        write_npy(1, 0, "<i2", 0);
        uint8_t bytes[MOST_BYTES];
        enum oct_split split = (enum oct_split)(i / 2);
        size_t n = i % 2 ? npy_labels(bytes, 1, "<i2", 0, split) : npy_images(bytes, 1, 0, split);
        bytes[n] = 0;
        for (size_t length = 0; length <= n + 1; length++) {
            write_file(npy_names[i / 2][i % 2], bytes, length);
            for (int half = 0; half < 2; half++) {
                struct oct_dataset *dataset = NULL;
                oct_status status = open_npy((enum oct_split)half, &dataset);
                assert_int_equal(status, length == n ? OCT_OK : OCT_STATUS_CORRUPT);
                if (status != OCT_OK) {
                    assert_null(dataset);
                    assert_non_null(strstr(oct_last_error(), npy_names[i / 2][i % 2]));
                    assert_non_null(strstr(oct_last_error(), "write it again"));
                }
                oct_dataset_close(dataset);
            }
            if (length == 5 || length == n - 1 || length == n + 1) {
                print_message("%s\n", oct_last_error());
            }
        }
    }
}

static void npy_sizes_that_overflow(void **state) {
    (void)state;
    static const char *const shapes[] = {
        "(18446744073709551615, 4, 5)",
        "(4294967296, 4294967296, 1)",
        "(4294967296, 4294967296, 4294967296)",
        "(6, 9223372036854775808, 2)",
        "(6, 4611686018427387904, 4)",
        "(3, 6148914691236517206, 1)", /* 3 * (2^64 + 2) / 3 = 2 modulo 2^64 */
        "(6, 0, 5)",
        "(6, 4, 0)",
        "(9223372036854775807, 1, 1)",
        "(6, 4, 6)",
        "(1000000000, 4, 5)",
    };
    uint8_t bytes[MOST_BYTES] = {0};
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        write_npy(1, 0, "<i8", 0);
        size_t n = npy_header(bytes, 1, "|u1", shapes[i]);
        uint64_t before = oct__alloc_count();
        refused("train_images.npy", bytes, n + 120, OCT_STATUS_CORRUPT, "header");
        assert_int_equal(oct__alloc_count(), before); /* nothing was taken on its word */
    }
    write_npy(1, 0, "<i8", 0);
    size_t n =
        npy_header(bytes, 1, "<i8", "(2305843009213693958,)"); /* times 8 is 48 modulo 2^64 */
    refused("train_labels.npy", bytes, n + 48, OCT_STATUS_CORRUPT, "or more than any file");
    n = npy_header(bytes, 1, "|u1", "(1, 1, 2147483648, 1)");
    struct oct__npy npy;
    struct oct__array array;
    EXPECT_OK(oct__npy_text("f", (const char *)bytes + 10, n - 10, 10, &npy));
    EXPECT_OK(oct__npy_array("f", &npy, OCT_ARRAY_IMAGES, &array));
    uint64_t total = 0;
    assert_true(oct__array_bytes(&array, &total) && total == (uint64_t)1 << 31);
}

static void halves_that_do_not_fit(void **state) {
    (void)state;
    uint8_t bytes[MOST_BYTES] = {0};
    write_npy(1, 0, "<i8", 0);
    size_t n = npy_header(bytes, 1, "|u1", "(5,)");
    refused("train_labels.npy", bytes, n + 5, OCT_STATUS_CORRUPT,
            "5 labels, but the training images are 6: write both again");
    write_npy(1, 0, "<i8", 0);
    n = npy_header(bytes, 1, "|u1", "(4,)");
    refused("test_labels.npy", bytes, n + 4, OCT_STATUS_CORRUPT,
            "4 labels, but the test images are 3");
    static const char *const shapes[] = {"(3, 5, 4)", "(3, 4, 5, 3)", "(3, 4, 6)"};
    for (size_t i = 0; i < OCT_COUNT_OF(shapes); i++) {
        write_npy(1, 0, "<i8", 0);
        n = npy_header(bytes, 1, "|u1", shapes[i]);
        refused("test_images.npy", bytes,
                n + (i == 0   ? 60
                     : i == 1 ? 180
                              : 72),
                OCT_STATUS_CORRUPT, "but the training images are 4x5x1: bring them to one size");
    }
    /* (n, h, w) and (n, h, w, 1) are the same images. */
    write_npy(1, 0, "<i8", 0);
    n = npy_images(bytes, 1, 1, OCT_SPLIT_TEST);
    write_file("test_images.npy", bytes, n);
    expect_both(spec("npy", ""), 0, 0);
    EXPECT_OK(oct_dataset_verify(spec("npy", ""), NULL, NULL, 0));
}

/* Labels that are no class, in each dtype that can hold them, in either half. */
static void labels_out_of_range(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        int64_t value;
        const char *says;
    } cases[] = {
        {"|i1", -1, "label -1 of sample 2 at byte 130, expected 0 to 65535"},
        {"<i2", -32768, "label -32768 of sample 2 at byte 132"},
        {">i2", -2, "label -2 of"},
        {"<i4", 65536, "label 65536 of sample 2 at byte 136"},
        {">i4", -2147483647, "label -2147483647 of"},
        {"<u4", 4294967295, "label 4294967295 of"},
        {"<i8", INT64_MIN, "label -9223372036854775808 of sample 2 at byte 144"},
        {">i8", (int64_t)1 << 32, "label 4294967296 of"},
        {"<u8", -1, "label 18446744073709551615 of"},
        {">u8", 65536, "number the classes from 0"},
    };
    for (size_t i = 0; i < 2 * OCT_COUNT_OF(cases); i++) {
        enum oct_split split = (enum oct_split)(i % 2);
        const char *descr = cases[i / 2].descr;
        write_npy(1, 0, "<i8", 0);
        uint8_t bytes[MOST_BYTES];
        size_t n = npy_labels(bytes, 1, descr, 0, split);
        size_t n_item = (size_t)(descr[2] - '0');
        put_item(bytes + n - n_item * (size_t)(count_of(split) - 2), descr, cases[i / 2].value);
        refused(npy_names[split][1], bytes, n, OCT_STATUS_INVALID, cases[i / 2].says);
    }
    /* The largest class there can be, seen from both halves. */
    write_npy(1, 0, "<u2", 0);
    uint8_t bytes[MOST_BYTES];
    size_t n = npy_labels(bytes, 1, "<u2", 0, OCT_SPLIT_TEST);
    put_item(bytes + n - 2, "<u2", 65535);
    write_file("test_labels.npy", bytes, n);
    for (int split = 0; split < 2; split++) {
        struct oct_dataset *dataset = NULL;
        EXPECT_OK(open_npy((enum oct_split)split, &dataset));
        assert_int_equal(dataset->n_classes, 65536);
        assert_int_equal(oct_dataset_label(dataset, 2),
                         split ? 65535 : label_of(OCT_SPLIT_TRAIN, 2));
        oct_dataset_close(dataset);
    }
}

/* Both halves are of one class, whichever; one is enough when the other has a second. */
static void labels_of_one_class(void **state) {
    (void)state;
    uint8_t bytes[MOST_BYTES];
    struct oct_dataset *dataset = NULL;
    for (int label = 0; label < 8; label += 7) {
        char says[64];
        write_npy(1, 0, "|u1", 0);
        for (int split = 0; split < 2; split++) {
            size_t n = npy_labels(bytes, 1, "|u1", 0, (enum oct_split)split);
            memset(bytes + n - count_of((enum oct_split)split), label,
                   (size_t)count_of((enum oct_split)split));
            write_file(npy_names[split][1], bytes, n);
            if (split == 0) {
                EXPECT_OK(open_npy(OCT_SPLIT_TRAIN, &dataset));
                oct_dataset_close(dataset);
            }
        }
        snprintf(says, sizeof says, "train_labels.npy: every label is %d, and so are", label);
        for (int split = 0; split < 2; split++) {
            EXPECT_FAILURE(open_npy((enum oct_split)split, &dataset), OCT_STATUS_INVALID, says);
        }
        EXPECT_FAILURE(oct_dataset_verify(spec("npy", ""), NULL, NULL, 0), OCT_STATUS_INVALID,
                       says);
    }
}

/* More labels than are read at a time. */
static void many_labels(void **state) {
    (void)state;
    enum { N = 20001 };
    uint8_t *bytes = malloc(8 * N + 256);
    assert_non_null(bytes);
    for (int split = 0; split < 2; split++) {
        size_t n = npy_header(bytes, 1, "|u1", "(20001, 1, 1)");
        memset(bytes + n, 9, N);
        write_file(npy_names[split][0], bytes, n + N);
        n = npy_header(bytes, 1, ">i8", "(20001,)");
        for (int i = 0; i < N; i++) {
            n += put_item(bytes + n, ">i8", i % 997);
        }
        write_file(npy_names[split][1], bytes, n);
    }
    struct oct_dataset *dataset = NULL;
    EXPECT_OK(open_npy(OCT_SPLIT_TRAIN, &dataset));
    assert_int_equal(dataset->n_classes, 997);
    for (int i = 0; i < N; i++) {
        assert_int_equal(oct_dataset_label(dataset, i), i % 997);
    }
    assert_true(dataset->deviation[0] == 1.0F); /* a channel that never changes */
    oct_dataset_close(dataset);
    put_item(bytes + 128 + 8 * 19999, ">i8", -7);
    write_file("train_labels.npy", bytes, 128 + 8 * N);
    dataset = NULL;
    EXPECT_FAILURE(open_npy(OCT_SPLIT_TEST, &dataset), OCT_STATUS_INVALID,
                   "label -7 of sample 19999 at byte 160120");
    free(bytes);
}

/* A pipe would wait for somebody to write into it. */
static void no_regular_files(void **state) {
    (void)state;
    write_npy(1, 0, "<i8", 0);
    struct oct_dataset *dataset = NULL;
    unlink(scratch_at(folder, "test_labels.npy"));
    assert_int_equal(mkfifo(scratch_at(folder, "test_labels.npy"), 0600), 0);
    EXPECT_FAILURE(open_npy(OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT, "not a regular file");
    unlink(scratch_at(folder, "test_labels.npy"));
    assert_int_equal(mkdir(scratch_at(folder, "test_labels.npy"), 0700), 0);
    EXPECT_FAILURE(open_npy(OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_NOT_FOUND,
                   "no test labels, called test_labels.npy");
    assert_null(dataset);
}

/* --- idx ---------------------------------------------------------------------------------------- */

static const char *const idx_names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* Whether this build reads gzipped files; if not, the refusal says so. */
static int reads_gzip(const char *text) {
    struct oct_dataset *dataset = NULL;
    oct_status status = oct_dataset_open(text, NULL, OCT_SPLIT_TRAIN, &dataset);
    if (status == OCT_STATUS_UNSUPPORTED) {
        assert_non_null(strstr(oct_last_error(), "gunzip"));
        return 0;
    }
    oct_dataset_close(dataset);
    return 1;
}

static void empty_folder(void) {
    scratch_remove(folder);
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void idx_names_and_types(void **state) {
    (void)state;
    static const char *const dotted[4] = {"train-images.idx3-ubyte", "train-labels.idx1-ubyte",
                                          "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"};
    static const char *const gzipped[4] = {
        "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images.idx3-ubyte.gz",
        "t10k-labels.idx1-ubyte.gz"};
    static const char *const emnist[4] = {
        "emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte",
        "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"};
    static const char *const colour[4] = {"train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                          "test-images.idx4-ubyte", "test-labels.idx1-ubyte"};
    static const int types[] = {0x08, 0x09, 0x0b, 0x0c};
    for (size_t i = 0; i < OCT_COUNT_OF(types); i++) {
        write_idx(idx_names, 0, types[i], 0);
        expect_both(spec("idx", ""), 0, 0);
    }
    expect_both(spec("idx", ",pad=14"), 0, 14);
    empty_folder();
    write_idx(dotted, 0, 8, 0);
    expect_both(spec("idx", ""), 0, 0);
    for (size_t i = 0; i < 4; i++) { /* beside them, as some archives of MNIST have it */
        assert_int_equal(mkdir(scratch_at(folder, idx_names[i]), 0700), 0);
    }
    expect_both(spec("idx", ""), 0, 0);
    empty_folder();
    write_idx(emnist, 0, 8, 0);
    expect_both(spec("idx", ",prefix=emnist-letters-"), 0, 0);
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "a word before these names goes into prefix=");
    for (int channels = 1; channels <= 4; channels++) {
        empty_folder();
        write_idx(colour, channels, 8, 0);
        expect_both(spec("idx", ""), channels, 0);
    }
    empty_folder();
    write_idx(gzipped, 0, 8, 1);
    if (reads_gzip(spec("idx", ""))) {
        expect_both(spec("idx", ""), 0, 0);
    }
}

static void idx_refusals(void **state) {
    (void)state;
    static const struct {
        int file;
        uint8_t type, n_dims;
        uint32_t dims[4];
        size_t n_items;
        oct_status status;
        const char *says;
    } cases[] = {
        {0, 0x0d, 3, {6, 4, 5}, 480, OCT_STATUS_INVALID, "type 0d with 3 dimensions at byte 2"},
        {0, 0x08, 1, {6}, 6, OCT_STATUS_INVALID, "type 08 with 1 dimensions at byte 2"},
        {0,
         0x08,
         4,
         {6, 4, 5, 5},
         600,
         OCT_STATUS_INVALID,
         "5 channels at byte 16, expected 1 to 4"},
        {0, 0x08, 4, {6, 3, 4, 5}, 360, OCT_STATUS_INVALID, "looks like (n, c, h, w)"},
        {0, 0x08, 3, {6, 0, 5}, 0, OCT_STATUS_CORRUPT, "no items"},
        {0,
         0x08,
         3,
         {UINT32_MAX, UINT32_MAX, UINT32_MAX},
         20,
         OCT_STATUS_CORRUPT,
         "more than any file"},
        {0, 0x08, 3, {65536, 65536, 65536}, 120, OCT_STATUS_CORRUPT, "truncated"},
        {1, 0x0d, 1, {6}, 24, OCT_STATUS_INVALID, "expected integers"},
        {1, 0xff, 1, {6}, 24, OCT_STATUS_INVALID, "type ff"},
        {1, 0x08, 2, {6, 10}, 60, OCT_STATUS_INVALID, "type 08 with 2 dimensions"},
        {1, 0x08, 1, {7}, 7, OCT_STATUS_CORRUPT, "7 labels, but the training images are 6"},
        {1, 0x09, 1, {6}, 6, OCT_STATUS_INVALID, "label -1 of sample 0 at byte 8"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        write_idx(idx_names, 0, 8, 0);
        uint8_t bytes[MOST_BYTES];
        size_t at = idx_file(bytes, cases[i].type, cases[i].n_dims, cases[i].dims);
        memset(bytes + at, 0xff, cases[i].n_items);
        write_file(idx_names[cases[i].file], bytes, at + cases[i].n_items);
        struct oct_dataset *dataset = NULL;
        EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TEST, &dataset),
                       cases[i].status, cases[i].says);
        assert_null(dataset);
        assert_non_null(strstr(oct_last_error(), idx_names[cases[i].file]));
    }
    write_idx(idx_names, 0, 8, 0);
    write_file(idx_names[2], (const uint8_t *)"\x1f\x8b\x08\x00", 4);
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_CORRUPT, "begins with 1f 8b 08 00 at byte 0");
}

/* Gzipped: cut behind every byte, every bit of the packed bytes' last ones flipped, longer inside
 * than the header says, and a header that promises what no unpacking gives. */
static void idx_gzipped_gone_wrong(void **state) {
    (void)state;
    static const char *const names[4] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                         "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
    write_idx(names, 0, 8, 1);
    if (!reads_gzip(spec("idx", ""))) {
        return;
    }
    uint8_t bytes[MOST_BYTES], packed[MOST_BYTES + 64];
    struct oct_dataset *dataset = NULL;
    for (int file = 0; file < 2; file++) {
        size_t n =
            file ? idx_labels(bytes, 8, OCT_SPLIT_TRAIN) : idx_images(bytes, 0, OCT_SPLIT_TRAIN);
        size_t n_packed = scratch_gzip(bytes, n, packed);
        for (size_t cut = 0; cut < n_packed; cut++) {
            write_file(names[file], packed, cut);
            oct_status status = oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset);
            if (status != OCT_STATUS_CORRUPT) {
                fail_msg("cut at %zu of %zu: %s", cut, n_packed, oct_status_name(status));
            }
        }
        print_message("%s\n", oct_last_error());
        for (size_t bit = 0; bit < 64; bit++) { /* sum and length at its end */
            packed[n_packed - 8 + bit / 8] ^= (uint8_t)(1U << bit % 8);
            write_file(names[file], packed, n_packed);
            EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                           OCT_STATUS_CORRUPT, "damaged near its byte");
            packed[n_packed - 8 + bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        bytes[n] = 0;
        write_file(names[file], packed, scratch_gzip(bytes, n + 1, packed));
        EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                       OCT_STATUS_CORRUPT, "behind its last item: too long");
        write_file(names[file], packed, scratch_gzip(bytes, n - 1, packed));
        EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                       OCT_STATUS_CORRUPT, "before all its items: truncated");
        write_file(names[file], packed, scratch_gzip(bytes, n, packed));
    }
    const uint32_t dims[] = {6, 40000, 40000};
    size_t n = idx_file(bytes, 8, 3, dims);
    write_file(names[0], packed, scratch_gzip(bytes, n, packed));
    uint64_t before = oct__alloc_count();
    EXPECT_FAILURE(oct_dataset_open(spec("idx", ""), NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_CORRUPT, "unpacks to less than");
    assert_int_equal(oct__alloc_count(), before);
    assert_null(dataset);
}

/* --- as part of the whole ----------------------------------------------------------------------- */

/* Table, name, images, labels: nothing else is asked for, so a large file is in memory once. */
static void failing_memory(void **state) {
    (void)state;
    write_npy(1, 3, "<i8", 0);
    write_idx(idx_names, 3, 8, 0);
    static const char *const kinds[] = {"npy", "idx"};
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        for (int pad = 0; pad < 2; pad++) {
            const char *text = spec(kinds[i], pad ? ",pad=1" : "");
            int n_failed = 0;
            for (;; n_failed++) {
                assert_in_range(n_failed, 0, 100);
                struct oct_dataset *dataset = NULL;
                oct__alloc_fail_after((uint64_t)n_failed + 1);
                oct_status status = oct_dataset_open(text, NULL, OCT_SPLIT_TRAIN, &dataset);
                oct__alloc_fail_after(0);
                if (status == OCT_OK) {
                    oct_dataset_close(dataset);
                    break;
                }
                assert_int_equal(status, OCT_STATUS_NO_MEMORY);
                assert_null(dataset);
            }
            print_message("%s: opened after %d failures\n", text, n_failed);
            assert_int_equal(n_failed, 4 + pad); /* with a border one image more */
        }
    }
}

static void verify_and_get(void **state) {
    (void)state;
    char path[OCT_PATH_BYTES];
    write_npy(1, 0, "<i8", 0);
    EXPECT_OK(oct_dataset_verify(spec("npy", ""), "/nonexistent", path, sizeof path));
    assert_string_equal(path, folder);
    EXPECT_FAILURE(oct_dataset_verify("npy", NULL, path, sizeof path), OCT_STATUS_NOT_FOUND,
                   "bring your own with --data npy:FOLDER");
    EXPECT_FAILURE(oct_dataset_verify("cifar10:3", NULL, path, sizeof path), OCT_STATUS_INVALID,
                   "cifar10 takes no options");
    EXPECT_FAILURE(oct_dataset_get("idx", folder, NULL, NULL, NULL), OCT_STATUS_NOT_FOUND,
                   "bring your own with --data idx:FOLDER");
    write_file("test_labels.npy", (const uint8_t *)"", 0);
    EXPECT_FAILURE(oct_dataset_verify(spec("npy", ""), NULL, path, sizeof path), OCT_STATUS_CORRUPT,
                   "test_labels.npy: ends at byte 0, inside its header");
}

static oct_status tiny_model(struct oct_graph *g, void *context) {
    (void)context;
    int x = oct_graph_global_pool(g, "pool", oct_graph_input(g));
    oct_graph_output(g, oct_graph_linear(g, "head", x, oct_graph_classes(g)));
    return OCT_OK;
}

/* A run normalizes test images by what was measured on the training images. */
static void test_images_use_the_training_normalization(void **state) {
    (void)state;
    write_npy(1, 3, "<i8", 0);
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    const struct oct_hooks hooks = {.model = tiny_model};
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_config_set(config, "data", spec("npy", "")));
    EXPECT_OK(oct_config_set(config, "nodes", "2"));
    EXPECT_OK(oct_config_set(config, "batch", "3"));
    EXPECT_OK(oct_config_set(config, "engine", "portable"));
    EXPECT_OK(oct_config_set(config, "precision", "fp32"));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    float train[OCT_DATA_CHANNELS * 256], test[OCT_DATA_CHANNELS * 256];
    oct__dataset_lut(trainer->train, train);
    oct__dataset_lut(trainer->test, test);
    print_message("means of channel 0: training %g, test %g\n", (double)trainer->train->mean[0],
                  (double)trainer->test->mean[0]);
    assert_memory_not_equal(train, test, sizeof train);
    assert_memory_equal(trainer->cohort->crew->train.lut, train, sizeof train);
    assert_memory_equal(trainer->cohort->crew->test.lut, train, sizeof train);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(npy_every_version_shape_and_dtype, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_under_other_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_unusable_types_and_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_header_grammar, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_before_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_every_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_sizes_that_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(halves_that_do_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_out_of_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_of_one_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_regular_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idx_names_and_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idx_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idx_gzipped_gone_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verify_and_get, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_images_use_the_training_normalization, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
