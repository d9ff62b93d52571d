/* SPDX-License-Identifier: Apache-2.0 */
/* test_data.c - datasets: tables, readers of idx and CIFAR files, and what they say about bad ones.
 *
 * The readers are driven by a table of files, so small files of the real form stand in for the real
 * ones: same code, other table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/cifar.h"
#include "data/files.h"
#include "data/get.h"
#include "data/idx.h"
#include "scratch.h"
#include "stand_in.h"

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

/* The failure and what its message must say. */
static void assert_fails(oct_status status, oct_status expected, const char *says) {
    print_message("%s: %s\n", oct_status_name(status), oct_last_error());
    assert_int_equal(status, expected);
    if (!strstr(oct_last_error(), says)) {
        fail_msg("the message does not say '%s'", says);
    }
}

/* --- registry and table ----------------------------------------------------------------------- */

static void registry_lists_the_datasets(void **state) {
    (void)state;
    static const char *const expected[] = {"fashion-mnist", "cifar10",   "cifar100", "imagenette",
                                           "folder",        "synthetic", "npy",      "idx"};
    int n = 0;
    for (; oct__dataset_at(n); n++) {
        const struct oct_dataset_kind *kind = oct__dataset_at(n);
        print_message("%s: %s\n", kind->plugin.name, kind->plugin.summary);
        assert_true((size_t)n < OCT_COUNT_OF(expected));
        assert_string_equal(kind->plugin.name, expected[n]);
        assert_non_null(kind->plugin.summary);
        assert_non_null(kind->open);
        assert_ptr_equal(oct__dataset_find(kind->plugin.name), kind);
        if (kind->files) {
            assert_non_null(kind->folder);
            assert_non_null(kind->remedy);
            for (const struct oct__data_file *file = kind->files; file->name; file++) {
                assert_int_equal(strlen(file->sha256), 64);
                assert_true(file->n_bytes > 0);
            }
        }
    }
    assert_int_equal(n, OCT_COUNT_OF(expected));
    assert_null(oct__dataset_at(-1));
    assert_null(oct__dataset_find("mnist"));
}

static void open_refuses_what_it_does_not_know(void **state) {
    (void)state;
    struct oct_dataset *dataset = NULL;
    assert_fails(oct_dataset_open("cifar", NULL, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_NOT_FOUND,
                 "there are: fashion-mnist, cifar10, cifar100, imagenette, folder, synthetic");
    assert_fails(oct_dataset_open("cifar10:samples=3", NULL, OCT_SPLIT_TRAIN, &dataset),
                 OCT_STATUS_INVALID, "cifar10 takes no options");
    assert_fails(oct_dataset_open("", NULL, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_INVALID,
                 "is no name");
    assert_fails(oct_dataset_open(NULL, NULL, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_INVALID,
                 "needs a spec");
    assert_fails(oct_dataset_open("synthetic", NULL, (enum oct_split)2, &dataset),
                 OCT_STATUS_INVALID, "split");
    assert_fails(oct_dataset_open("cifar10", folder, OCT_SPLIT_TRAIN, &dataset),
                 OCT_STATUS_NOT_FOUND, "octet data get cifar10");
    assert_fails(oct_dataset_open("cifar100", NULL, OCT_SPLIT_TEST, &dataset), OCT_STATUS_NOT_FOUND,
                 "octet data get cifar100");
    assert_null(dataset);
}

static void alloc_refuses_impossible_sizes(void **state) {
    (void)state;
    struct oct_dataset *dataset = NULL;
    static const struct {
        int64_t n;
        int h, w, c, k;
    } bad[] = {
        {0, 4, 4, 3, 10},        {-1, 4, 4, 3, 10},
        {1, 0, 4, 3, 10},        {1, 4, -4, 3, 10},
        {1, 4, 4, 0, 10},        {1, 4, 4, 5, 10},
        {1, 4, 4, 3, 0},         {1, 4, 4, 3, 65537},
        {1, 65536, 65536, 1, 2}, {(int64_t)INT32_MAX + 1, 1, 1, 1, 2},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        assert_fails(
            oct__dataset_alloc("it", bad[i].n, bad[i].h, bad[i].w, bad[i].c, bad[i].k, &dataset),
            OCT_STATUS_INVALID, "it: ");
    }
    assert_null(dataset);
    assert_int_equal(oct__dataset_alloc("it", 3, 2, 5, 4, 65536, &dataset), OCT_OK);
    assert_null(oct_dataset_image(dataset, 3));
    assert_null(oct_dataset_image(dataset, -1));
    assert_ptr_equal(oct_dataset_image(dataset, 2), dataset->images + 80);
    assert_int_equal(oct_dataset_label(dataset, 3), -1);
    assert_int_equal(oct_dataset_label(dataset, -1), -1);
    oct_dataset_close(dataset);
    oct_dataset_close(NULL);
}

/* --- a dataset of one's own ---------------------------------------------------------------------
 */

struct made_up {
    int fail_at, bad_label_at;
    int n_calls;
};

static int get_made_up(void *context, int64_t index, uint8_t *image, int *label) {
    struct made_up *made_up = context;
    made_up->n_calls++;
    if (index == made_up->fail_at) {
        return 42;
    }
    for (int p = 0; p < 4; p++) { /* channel 0: 0 and 255 in turn; channel 1: always 51 */
        image[2 * p] = (uint8_t)(p % 2 * 255);
        image[2 * p + 1] = 51;
    }
    *label = index == made_up->bad_label_at ? 3 : (int)(index % 3);
    return 0;
}

static void custom_dataset(void **state) {
    (void)state;
    struct made_up made_up = {.fail_at = -1, .bad_label_at = -1};
    struct oct_dataset_custom custom = {.name = "mine",
                                        .n_samples = 5,
                                        .height = 2,
                                        .width = 2,
                                        .channels = 2,
                                        .n_classes = 3,
                                        .get = get_made_up,
                                        .context = &made_up};
    struct oct_dataset *dataset;
    assert_int_equal(oct_dataset_create(&custom, &dataset), OCT_OK);
    assert_int_equal(made_up.n_calls, 5);
    struct oct_dataset_info info;
    oct_dataset_info(dataset, &info);
    assert_string_equal(info.name, "mine");
    assert_int_equal(info.n_samples, 5);
    assert_int_equal(info.height * 100 + info.width * 10 + info.channels, 222);
    assert_int_equal(info.n_classes, 3);
    assert_int_equal(oct_dataset_label(dataset, 4), 1);
    assert_int_equal(oct_dataset_image(dataset, 4)[2], 255);
    /* measured: channel 0 has mean and deviation 1/2; channel 1 never changes */
    print_message("mean %g %g, deviation %g %g\n", (double)dataset->mean[0],
                  (double)dataset->mean[1], (double)dataset->deviation[0],
                  (double)dataset->deviation[1]);
    assert_true(dataset->mean[0] == 0.5F && dataset->deviation[0] == 0.5F);
    assert_true(dataset->mean[1] == 0.2F && dataset->deviation[1] == 1.0F);
    float lut[OCT_DATA_CHANNELS * 256];
    oct__dataset_lut(dataset, lut);
    assert_true(lut[0] == -1 && lut[255] == 1);
    assert_true(lut[256 + 51] == 0 && fabsf(lut[256 + 255] - 0.8F) < 1e-6F);
    assert_true(lut[511 + 1] == 0); /* a channel that the dataset does not have */
    oct_dataset_close(dataset);

    custom.mean[0] = 0.25F;
    custom.deviation[0] = 0.125F;
    custom.deviation[1] = 2;
    assert_int_equal(oct_dataset_create(&custom, &dataset), OCT_OK);
    assert_true(dataset->mean[0] == 0.25F && dataset->deviation[0] == 0.125F);
    assert_true(dataset->mean[1] == 0 && dataset->deviation[1] == 2);
    oct_dataset_close(dataset);
}

static void custom_dataset_refusals(void **state) {
    (void)state;
    struct made_up made_up = {.fail_at = 3, .bad_label_at = -1};
    struct oct_dataset_custom custom = {.name = "mine",
                                        .n_samples = 5,
                                        .height = 2,
                                        .width = 2,
                                        .channels = 2,
                                        .n_classes = 3,
                                        .get = get_made_up,
                                        .context = &made_up};
    struct oct_dataset *dataset = NULL;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_IO,
                 "sample 3 failed: its get function returned 42");
    made_up = (struct made_up){.fail_at = -1, .bad_label_at = 2};
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID,
                 "sample 2 has label 3, expected 0 to 2");
    made_up.bad_label_at = -1;
    custom.deviation[1] = 1;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID,
                 "1 of 2 deviations are 0");
    custom.deviation[0] = -1;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID, "deviation -1");
    custom.deviation[0] = NAN;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID, "nan");
    custom.n_classes = 1;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID,
                 "1 class, expected 2 to 65536");
    custom.channels = 5;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID, "1 to 4 channels");
    custom.get = NULL;
    assert_fails(oct_dataset_create(&custom, &dataset), OCT_STATUS_INVALID, "get function");
    assert_null(dataset);
}

/* --- idx files ----------------------------------------------------------------------------------
 */

static void idx_headers(void **state) {
    (void)state;
    uint8_t bytes[16 + 2 * 3 * 4];
    const uint32_t dims[] = {2, 3, 4};
    size_t n = stand_in_idx(bytes, 3, dims, 1);
    assert_int_equal(n, sizeof bytes);
    struct oct__idx idx;
    assert_int_equal(oct__idx_parse("f", bytes, n, 3, &idx), OCT_OK);
    assert_int_equal(idx.dims[0] * 100 + idx.dims[1] * 10 + idx.dims[2], 234);
    assert_ptr_equal(idx.elements, bytes + 16);
    assert_int_equal(idx.n_elements, 24);
    for (size_t cut = 0; cut < n; cut++) { /* on the heap, so that a read too far is noticed */
        uint8_t *copy = malloc(cut + 1);
        assert_non_null(copy);
        uint8_t *end = copy + 1; /* not aligned, and the last byte is the allocation's last */
        memcpy(end, bytes, cut);
        assert_int_equal(oct__idx_parse("f", end, cut, 3, &idx), OCT_STATUS_CORRUPT);
        free(copy);
    }
    assert_fails(oct__idx_parse("f", bytes, 10, 3, &idx), OCT_STATUS_CORRUPT,
                 "f: ends at byte 10, inside the header of 16");
    assert_fails(oct__idx_parse("f", bytes, n - 1, 3, &idx), OCT_STATUS_CORRUPT, "f: ");
    assert_fails(oct__idx_parse("f", bytes, n, 1, &idx), OCT_STATUS_CORRUPT,
                 "begins with 00 00 08 03 at byte 0, expected 00 00 08 01");
    bytes[2] = 9;
    assert_fails(oct__idx_parse("f", bytes, n, 3, &idx), OCT_STATUS_CORRUPT, "at byte 0");
    bytes[2] = 8;
    bytes[7] = 3;
    assert_fails(oct__idx_parse("f", bytes, n, 3, &idx), OCT_STATUS_CORRUPT,
                 "size 4 at byte 12 does not fit the 24 bytes");
    bytes[7] = 1;
    assert_fails(oct__idx_parse("f", bytes, n, 3, &idx), OCT_STATUS_CORRUPT,
                 "24 bytes behind the header, which ends at byte 16 and says 12");
    memset(bytes + 4, 0xff, 12); /* a product of 2^96 must not wrap around */
    assert_fails(oct__idx_parse("f", bytes, n, 3, &idx), OCT_STATUS_CORRUPT, "at byte 4");
    memset(bytes + 4, 0, 12);
    assert_fails(oct__idx_parse("f", bytes, n, 3, &idx), OCT_STATUS_CORRUPT, "size 0 at byte 4");
}

static void idx_pairs_become_datasets(void **state) {
    (void)state;
    static uint8_t images[16 + 3 * 28 * 28], labels[8 + 3];
    const uint32_t dims[] = {3, 28, 28};
    struct oct__idx_pair pair = {"images", "labels", images, labels, 0, 0};
    pair.n_image_bytes = stand_in_idx(images, 3, dims, 5);
    pair.n_label_bytes = stand_in_idx(labels, 1, dims, 0);
    labels[8] = 9;
    labels[9] = 0;
    labels[10] = 4;
    struct oct_dataset *dataset = NULL;
    assert_int_equal(oct__idx_dataset("it", &pair, 28, 2, 10, NULL, &dataset), OCT_OK);
    assert_int_equal(dataset->n_samples, 3);
    assert_int_equal(dataset->height * 100 + dataset->width, 3232);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dataset->labels[i], labels[8 + i]);
        const uint8_t *image = oct_dataset_image(dataset, i);
        for (int y = 0; y < 32; y++) {
            for (int x = 0; x < 32; x++) {
                int inside = y >= 2 && y < 30 && x >= 2 && x < 30;
                int expected = inside ? images[16 + (i * 28 + y - 2) * 28 + x - 2] : 0;
                assert_int_equal(image[y * 32 + x], expected);
            }
        }
    }
    oct_dataset_close(dataset);
    dataset = NULL;
    labels[9] = 10;
    assert_fails(oct__idx_dataset("it", &pair, 28, 2, 10, NULL, &dataset), OCT_STATUS_CORRUPT,
                 "labels: label 10 of record 1 at byte 9, expected 0 to 9");
    assert_fails(oct__idx_dataset("it", &pair, 32, 0, 10, NULL, &dataset), OCT_STATUS_CORRUPT,
                 "images: images of 28x28 at byte 8, expected 32x32");
    labels[7] = 2;
    pair.n_label_bytes--;
    assert_fails(oct__idx_dataset("it", &pair, 28, 2, 10, NULL, &dataset), OCT_STATUS_CORRUPT,
                 "labels: 2 labels at byte 4 for 3 images");
    assert_null(dataset);
}

/* --- small stand-ins for the real datasets
 * -------------------------------------------------------- */

static oct_status open_it(const struct stand_in *in, enum oct_split split,
                          struct oct_dataset **out) {
    return in->kind.open(&in->kind, NULL, folder, split, NULL, out);
}

static const char *file_path(const struct stand_in *in, int i) {
    return scratch_at(scratch_at(folder, in->kind.folder), in->files[i].name);
}

static void fashion_mnist_files(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_fashion(&in, folder);
    struct oct_dataset *dataset = NULL;
    for (int round = 0; round < 2; round++) { /* plain files, then gzipped ones */
        for (int split = 0; split < 2; split++) {
            oct_status status = open_it(&in, (enum oct_split)split, &dataset);
            if (round == 1 && status == OCT_STATUS_UNSUPPORTED) {
                assert_non_null(strstr(oct_last_error(), "gunzip"));
                print_message("%s\n", oct_last_error());
                stand_in_fini(&in);
                return;
            }
            assert_int_equal(status, OCT_OK);
            assert_int_equal(dataset->n_samples, split ? 2 : 5);
            assert_true(dataset->mean[0] == 0.2190F && dataset->deviation[0] == 0.3318F);
            assert_memory_equal(dataset->images + 2 * 32 + 2, in.bytes[2 * split] + 16, 28);
            assert_int_equal(dataset->labels[1], in.bytes[2 * split + 1][9]);
            oct_dataset_close(dataset);
        }
        for (int i = 0; round == 0 && i < 4; i++) {
            uint8_t *packed = malloc(in.files[i].n_bytes + 64);
            assert_non_null(packed);
            size_t n = scratch_gzip(in.bytes[i], in.files[i].n_bytes, packed);
            char path[2 * SCRATCH_PATH];
            snprintf(path, sizeof path, "%s.gz", file_path(&in, i));
            assert_int_equal(scratch_write(path, packed, n), 0);
            unlink(file_path(&in, i));
            free(packed);
        }
    }
    /* gzipped files gone wrong: cut, altered, longer and shorter inside than they should be */
    char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s.gz", file_path(&in, 1));
    uint8_t longer[16] = {0}, packed[64];
    memcpy(longer, in.bytes[1], 13);
    size_t n = scratch_gzip(longer, 13, packed);
    assert_int_equal(scratch_write(path, packed, n - 12), 0);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT, "idx1-ubyte.gz: ");
    packed[20] ^= 1;
    assert_int_equal(scratch_write(path, packed, n), 0);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT, "idx1-ubyte.gz: ");
    n = scratch_gzip(longer, 14, packed);
    assert_int_equal(scratch_write(path, packed, n), 0);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "14 bytes, expected 13: too long; get it again with: apt-get install");
    n = scratch_gzip(longer, 12, packed);
    assert_int_equal(scratch_write(path, packed, n), 0);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "12 bytes, expected 13: truncated");
    stand_in_fini(&in);
}

static void package_folder_is_the_second_place(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_fashion(&in, folder);
    struct oct_dataset *dataset = NULL;
    char packaged[SCRATCH_PATH];
    snprintf(packaged, sizeof packaged, "%.400s/%s", folder, in.kind.folder);
    in.kind.package_folder = packaged;
    assert_int_equal(in.kind.open(&in.kind, NULL, NULL, OCT_SPLIT_TEST, NULL, &dataset), OCT_OK);
    oct_dataset_close(dataset);
    assert_int_equal(
        in.kind.open(&in.kind, NULL, scratch_at(folder, "other"), OCT_SPLIT_TEST, NULL, &dataset),
        OCT_OK);
    oct_dataset_close(dataset);
    char path[OCT_PATH_BYTES];
    assert_int_equal(oct__verify(&in.kind, NULL, path), OCT_OK);
    assert_string_equal(path, packaged);
    in.kind.package_folder = "/nonexistent";
    assert_fails(oct__verify(&in.kind, scratch_at(folder, "other"), path), OCT_STATUS_NOT_FOUND,
                 "other/fashion-mnist nor in /nonexistent; get it with: apt-get install "
                 "dataset-fashion-mnist or octet data get fashion-mnist");
    stand_in_fini(&in);
}

static void cifar10_files(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_cifar10(&in, folder);
    struct oct_dataset *dataset = NULL;
    assert_int_equal(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_OK);
    assert_int_equal(dataset->n_samples, 8);
    assert_int_equal(dataset->n_classes, 10);
    assert_true(dataset->mean[2] == 0.4465F && dataset->deviation[1] == 0.1994F);
    for (int i = 0; i < 8; i++) {
        const uint8_t *record = in.bytes[i / 4] + (size_t)(i % 4) * 3073;
        assert_int_equal(oct_dataset_label(dataset, i), record[0]);
        const uint8_t *image = oct_dataset_image(dataset, i);
        for (int y = 0; y < 32; y++) {
            for (int x = 0; x < 32; x++) {
                for (int c = 0; c < 3; c++) {
                    assert_int_equal(image[(y * 32 + x) * 3 + c],
                                     record[1 + c * 1024 + y * 32 + x]);
                }
            }
        }
    }
    oct_dataset_close(dataset);
    assert_int_equal(open_it(&in, OCT_SPLIT_TEST, &dataset), OCT_OK);
    assert_int_equal(dataset->n_samples, 3);
    assert_int_equal(oct_dataset_label(dataset, 2), in.bytes[2][2 * 3073]);
    oct_dataset_close(dataset);
    char path[OCT_PATH_BYTES];
    assert_int_equal(oct__verify(&in.kind, folder, path), OCT_OK);
    assert_string_equal(path, scratch_at(folder, "cifar10"));
    stand_in_fini(&in);
}

static void cifar10_bad_files(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_cifar10(&in, folder);
    struct oct_dataset *dataset = NULL;
    size_t n = in.files[1].n_bytes;
    scratch_write(file_path(&in, 1), in.bytes[1], n - 1000);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "cifar10/data_batch_2.bin: 11,292 bytes, expected 12,292: truncated; get it again "
                 "with: octet data get cifar10");
    scratch_write(file_path(&in, 1), in.bytes[1], 0);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "data_batch_2.bin: 0 bytes, expected 12,292: truncated");
    uint8_t *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, in.bytes[1], n);
    copy[n] = 0;
    scratch_write(file_path(&in, 1), copy, n + 1);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "12,293 bytes, expected 12,292: too long");
    copy[3 * 3073] = 10;
    scratch_write(file_path(&in, 1), copy, n);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "cifar10/data_batch_2.bin: label 10 of record 3 at byte 9,219, expected 0 to 9");
    copy[3 * 3073] = in.bytes[1][3 * 3073];
    copy[700] ^= 4; /* one bit of one pixel */
    scratch_write(file_path(&in, 1), copy, n);
    char sum[OCT_SHA256_TEXT];
    scratch_sha256(copy, n, sum);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "cifar10/data_batch_2.bin: altered: its SHA-256 is ");
    assert_non_null(strstr(oct_last_error(), sum));
    assert_non_null(strstr(oct_last_error(), in.sums[1]));
    free(copy);
    char path[OCT_PATH_BYTES];
    assert_fails(oct__verify(&in.kind, folder, path), OCT_STATUS_CORRUPT, "data_batch_2.bin");
    assert_int_equal(open_it(&in, OCT_SPLIT_TEST, &dataset), OCT_OK); /* the other half is right */
    oct_dataset_close(dataset);
    unlink(file_path(&in, 1));
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_NOT_FOUND,
                 "has 2 of its files but no data_batch_2.bin; get it with: octet data get cifar10");
    mkdir(file_path(&in, 1), 0777);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_NOT_FOUND,
                 "no data_batch_2.bin");
    stand_in_fini(&in);
}

static void cifar100_files(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_cifar100(&in, folder);
    struct oct_dataset *dataset = NULL;
    assert_int_equal(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_OK);
    assert_int_equal(dataset->n_samples, 4);
    assert_int_equal(dataset->n_classes, 100);
    for (int i = 0; i < 4; i++) {
        const uint8_t *record = in.bytes[0] + (size_t)i * 3074;
        assert_int_equal(oct_dataset_label(dataset, i), record[1]);
        assert_int_equal(oct_dataset_image(dataset, i)[3 * 1023 + 2], record[2 + 3071]);
    }
    oct_dataset_close(dataset);
    /* Where no sum is known, form is still checked, and any pixel is taken. */
    in.files[0].sha256 = NULL;
    in.bytes[0][100] ^= 1;
    scratch_write(file_path(&in, 0), in.bytes[0], in.files[0].n_bytes);
    assert_int_equal(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_OK);
    oct_dataset_close(dataset);
    in.bytes[0][2 * 3074] = 20;
    scratch_write(file_path(&in, 0), in.bytes[0], in.files[0].n_bytes);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "train.bin: label 20 of record 2 at byte 6,148, expected 0 to 19");
    in.bytes[0][2 * 3074] = 19;
    in.bytes[0][2 * 3074 + 1] = 100;
    scratch_write(file_path(&in, 0), in.bytes[0], in.files[0].n_bytes);
    assert_fails(open_it(&in, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_CORRUPT,
                 "train.bin: label 100 of record 2 at byte 6,149, expected 0 to 99");
    stand_in_fini(&in);
}

static void cifar_parse_checks_lengths(void **state) {
    (void)state;
    static const struct oct__cifar_form form = {.n_label_bytes = 1, .n_classes = 10};
    struct oct_dataset *dataset;
    assert_int_equal(oct__dataset_alloc("it", 2, 32, 32, 3, 10, &dataset), OCT_OK);
    static uint8_t bytes[3 * 3073];
    assert_int_equal(oct__cifar_parse("f", bytes, 0, &form, 0, dataset), OCT_OK);
    assert_int_equal(oct__cifar_parse("f", bytes, 2 * 3073, &form, 0, dataset), OCT_OK);
    assert_fails(oct__cifar_parse("f", bytes, 3073 + 5, &form, 0, dataset), OCT_STATUS_CORRUPT,
                 "f: record 1 at byte 3,073 is cut off: 5 of 3073 bytes");
    assert_fails(oct__cifar_parse("f", bytes, 3 * 3073, &form, 0, dataset), OCT_STATUS_CORRUPT,
                 "f: 3 records, room for 2");
    assert_fails(oct__cifar_parse("f", bytes, 2 * 3073, &form, 1, dataset), OCT_STATUS_CORRUPT,
                 "f: 2 records, room for 1");
    assert_fails(oct__cifar_parse("f", bytes, 3073, &form, 3, dataset), OCT_STATUS_CORRUPT,
                 "f: 1 records, room for 0");
    oct_dataset_close(dataset);
}

/* --- failing memory
 * ------------------------------------------------------------------------------- */

/* Every request for memory fails once, until the opening succeeds. */
static void open_without_memory(const struct oct_dataset_kind *kind, const char *options) {
    int n_failed = 0;
    for (;; n_failed++) {
        assert_in_range(n_failed, 0, 100);
        struct oct_dataset *dataset = NULL;
        oct__alloc_fail_after((uint64_t)n_failed + 1);
        oct_status status = kind->open(kind, options, folder, OCT_SPLIT_TRAIN, NULL, &dataset);
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            oct_dataset_close(dataset);
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_null(dataset);
    }
    print_message("%s: opened after %d failures\n", kind->plugin.name, n_failed);
    assert_true(n_failed >= 4);
}

static void failing_memory(void **state) {
    (void)state;
    struct stand_in in;
    stand_in_fashion(&in, folder);
    open_without_memory(&in.kind, NULL);
    stand_in_fini(&in);
    stand_in_cifar10(&in, folder);
    open_without_memory(&in.kind, NULL);
    stand_in_fini(&in);
    open_without_memory(&oct_dataset_synthetic, "samples=8,size=8");
    struct made_up made_up = {.fail_at = -1, .bad_label_at = -1};
    struct oct_dataset_custom custom = {.name = "mine",
                                        .n_samples = 5,
                                        .height = 2,
                                        .width = 2,
                                        .channels = 2,
                                        .n_classes = 3,
                                        .get = get_made_up,
                                        .context = &made_up};
    for (uint64_t n = 1; n <= 4; n++) {
        struct oct_dataset *dataset = NULL;
        oct__alloc_fail_after(n);
        oct_status status = oct_dataset_create(&custom, &dataset);
        oct__alloc_fail_after(0);
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_null(dataset);
    }
}

/* --- synthetic
 * ------------------------------------------------------------------------------------- */

static struct oct_dataset *open_synthetic(const char *spec, enum oct_split split) {
    struct oct_dataset *dataset = NULL;
    oct_status status = oct_dataset_open(spec, NULL, split, &dataset);
    if (status != OCT_OK) {
        fail_msg("%s: %s", spec, oct_last_error());
    }
    return dataset;
}

static void synthetic_options(void **state) {
    (void)state;
    struct oct_dataset *dataset = open_synthetic("synthetic", OCT_SPLIT_TRAIN);
    struct oct_dataset_info info;
    oct_dataset_info(dataset, &info);
    assert_int_equal(info.n_samples, 2048);
    assert_int_equal(info.n_classes, 10);
    assert_int_equal(info.height * 10000 + info.width * 100 + info.channels, 323203);
    oct_dataset_close(dataset);
    dataset =
        open_synthetic("synthetic:samples=50,classes=7,size=9,channels=4,noise=0", OCT_SPLIT_TEST);
    oct_dataset_info(dataset, &info);
    assert_int_equal(info.n_samples, 13);
    assert_int_equal(info.n_classes, 7);
    assert_int_equal(info.height * 10000 + info.width * 100 + info.channels, 90904);
    oct_dataset_close(dataset);
    dataset = NULL;
    static const char *const bad[] = {"samples=0",   "samples=8x", "classes=1", "size=3",
                                      "size=100000", "channels=5", "noise=nan", "noise=0,8",
                                      "noise=-0.1",  "sample=5",   ""};
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "synthetic:%s", bad[i]);
        assert_fails(oct_dataset_open(spec, NULL, OCT_SPLIT_TRAIN, &dataset), OCT_STATUS_INVALID,
                     "synthetic: ");
    }
    assert_null(dataset);
}

/* The same bytes on every machine and for ever: results with this dataset can be compared. */
static void synthetic_is_the_same_everywhere(void **state) {
    (void)state;
    struct oct_dataset *train = open_synthetic("synthetic:samples=64", OCT_SPLIT_TRAIN);
    struct oct_dataset *test = open_synthetic("synthetic:samples=64", OCT_SPLIT_TEST);
    char train_sum[OCT_SHA256_TEXT], test_sum[OCT_SHA256_TEXT];
    scratch_sha256(train->images, (size_t)64 * 3072, train_sum);
    scratch_sha256(test->images, (size_t)16 * 3072, test_sum);
    print_message("train %s\ntest  %s\n", train_sum, test_sum);
    assert_string_equal(train_sum,
                        "12924171357b2969ff6073c86921cf99dd589cc94b60ae378711422a677892db");
    assert_string_equal(test_sum,
                        "a2ff17d40e890d23f4394cf10fbb5f610fa95b9ec397ee6d4df5325118ea9dd5");
    assert_memory_not_equal(train->images, test->images, 3072);
    /* fewer samples are the first ones of many */
    struct oct_dataset *few = open_synthetic("synthetic:samples=5", OCT_SPLIT_TRAIN);
    assert_memory_equal(few->images, train->images, (size_t)5 * 3072);
    oct_dataset_close(few);
    oct_dataset_close(test);
    oct_dataset_close(train);
}

enum { FEATURES = 4 };

/* How the colours of an image go together: ratios that no shift, no negative and no contrast
 * changes. */
static void colour_ratios(const uint8_t *image, double out[FEATURES]) {
    double mean[3] = {0}, covariance[3][3] = {{0}};
    for (int p = 0; p < 1024; p++) {
        for (int c = 0; c < 3; c++) {
            mean[c] += image[3 * p + c] / 1024.0;
        }
    }
    for (int p = 0; p < 1024; p++) {
        for (int a = 0; a < 3; a++) {
            for (int b = a; b < 3; b++) {
                covariance[a][b] += (image[3 * p + a] - mean[a]) * (image[3 * p + b] - mean[b]);
            }
        }
    }
    double total = covariance[0][0] + covariance[1][1] + covariance[2][2];
    out[0] = covariance[0][0] / total;
    out[1] = covariance[0][1] / total;
    out[2] = covariance[0][2] / total;
    out[3] = covariance[1][2] / total;
}

/* Per cent of the test half that is nearest to its class's mean over the training half, by the
 * features above or by the plain pixels; `wrong` gives training samples another sample's class. */
static double nearest_mean(const struct oct_dataset *train, const struct oct_dataset *test,
                           int pixels, int wrong) {
    size_t n_features = pixels ? 3072 : FEATURES;
    double *means = calloc(10 * n_features, sizeof *means);
    assert_non_null(means);
    int n_right = 0;
    for (int64_t i = 0; i < train->n_samples + test->n_samples; i++) {
        int testing = i >= train->n_samples;
        const struct oct_dataset *dataset = testing ? test : train;
        int64_t sample = testing ? i - train->n_samples : i;
        const uint8_t *image = oct_dataset_image(dataset, sample);
        double features[FEATURES];
        colour_ratios(image, features);
        if (!testing) {
            int64_t label = wrong ? sample / 10 % 10 : oct_dataset_label(dataset, sample);
            for (size_t f = 0; f < n_features; f++) {
                means[(size_t)label * n_features + f] +=
                    (pixels ? image[f] : features[f]) * 10.0 / (double)train->n_samples;
            }
            continue;
        }
        int best = -1;
        double best_distance = INFINITY;
        for (int k = 0; k < 10; k++) {
            double distance = 0;
            for (size_t f = 0; f < n_features; f++) {
                double d = (pixels ? image[f] : features[f]) - means[(size_t)k * n_features + f];
                distance += d * d;
            }
            if (distance < best_distance) {
                best_distance = distance;
                best = k;
            }
        }
        n_right += best == oct_dataset_label(dataset, sample);
    }
    free(means);
    return 100.0 * n_right / (double)test->n_samples;
}

/* It can be learnt, but not from the pixels as they are and not from wrong labels. */
static void synthetic_can_be_learnt(void **state) {
    (void)state;
    struct oct_dataset *train = open_synthetic("synthetic:samples=1000", OCT_SPLIT_TRAIN);
    struct oct_dataset *test = open_synthetic("synthetic:samples=1000", OCT_SPLIT_TEST);
    int per_class[10] = {0};
    for (int64_t i = 0; i < 1000; i++) {
        per_class[oct_dataset_label(train, i)]++;
    }
    for (int k = 0; k < 10; k++) {
        assert_int_equal(per_class[k], 100);
    }
    double right = nearest_mean(train, test, 0, 0);
    double linear = nearest_mean(train, test, 1, 0);
    double wrong = nearest_mean(train, test, 0, 1);
    print_message("by colour ratios %.1f %%, by pixels %.1f %%, with wrong labels %.1f %%\n", right,
                  linear, wrong);
    assert_true(right > 80);
    assert_true(linear < 30);
    assert_true(wrong < 50);
    oct_dataset_close(test);
    oct_dataset_close(train);
}

static void verify_by_name(void **state) {
    (void)state;
    char path[64] = "before";
    assert_int_equal(oct_dataset_verify("synthetic", NULL, path, sizeof path), OCT_OK);
    assert_string_equal(path, "");
    assert_fails(oct_dataset_verify("cifar10", folder, NULL, 0), OCT_STATUS_NOT_FOUND,
                 "octet data get cifar10");
    assert_fails(oct_dataset_verify("nothing", folder, NULL, 0), OCT_STATUS_NOT_FOUND,
                 "no dataset is called 'nothing'");
    assert_fails(oct_dataset_verify("synthetic", NULL, path, 0), OCT_STATUS_INVALID, "room");
}

static void numbers_are_grouped(void **state) {
    (void)state;
    char text[OCT_GROUPED_BYTES];
    assert_string_equal(oct__grouped(0, text), "0");
    assert_string_equal(oct__grouped(999, text), "999");
    assert_string_equal(oct__grouped(1000, text), "1,000");
    assert_string_equal(oct__grouped(30730000, text), "30,730,000");
    assert_string_equal(oct__grouped(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry_lists_the_datasets),
        cmocka_unit_test_setup_teardown(open_refuses_what_it_does_not_know, set_up, tear_down),
        cmocka_unit_test(alloc_refuses_impossible_sizes),
        cmocka_unit_test(custom_dataset),
        cmocka_unit_test(custom_dataset_refusals),
        cmocka_unit_test(idx_headers),
        cmocka_unit_test(idx_pairs_become_datasets),
        cmocka_unit_test_setup_teardown(fashion_mnist_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(package_folder_is_the_second_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cifar10_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cifar10_bad_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cifar100_files, set_up, tear_down),
        cmocka_unit_test(cifar_parse_checks_lengths),
        cmocka_unit_test_setup_teardown(failing_memory, set_up, tear_down),
        cmocka_unit_test(synthetic_options),
        cmocka_unit_test(synthetic_is_the_same_everywhere),
        cmocka_unit_test(synthetic_can_be_learnt),
        cmocka_unit_test_setup_teardown(verify_by_name, set_up, tear_down),
        cmocka_unit_test(numbers_are_grouped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
