/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in.c - small files in place of the real datasets'; see stand_in.h. */
#include "stand_in.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/cifar.h"
#include "scratch.h"

size_t stand_in_idx(uint8_t *out, int n_dims, const uint32_t *dims, uint32_t seed) {
    size_t n = 1;
    out[0] = out[1] = 0;
    out[2] = 8;
    out[3] = (uint8_t)n_dims;
    for (int d = 0; d < n_dims; d++) {
        for (int k = 0; k < 4; k++) {
            out[4 + 4 * d + k] = (uint8_t)(dims[d] >> (24 - 8 * k));
        }
        n *= dims[d];
    }
    scratch_fill(out + 4 + 4 * n_dims, n, seed);
    return 4 + 4 * (size_t)n_dims + n;
}

static void begin(struct stand_in *in, const struct oct_dataset_kind *real) {
    memset(in, 0, sizeof *in);
    in->kind = *real;
    in->kind.files = in->files;
    in->kind.package_folder = NULL;
}

/* Takes `bytes`, writes them as FOLDER/kind/name and enters them into the table. */
static void add(struct stand_in *in, const char *folder, int i, const char *name,
                enum oct_split split, uint8_t *bytes, size_t n) {
    scratch_sha256(bytes, n, in->sums[i]);
    in->bytes[i] = bytes;
    in->files[i] = (struct oct__data_file){name, in->sums[i], n, split};
    mkdir(scratch_at(folder, in->kind.folder), 0777);
    assert_int_equal(scratch_write(scratch_at(scratch_at(folder, in->kind.folder), name), bytes, n),
                     0);
}

void stand_in_fini(struct stand_in *in) {
    for (int i = 0; i < STAND_IN_FILES; i++) {
        free(in->bytes[i]);
    }
}

void stand_in_fashion(struct stand_in *in, const char *folder) {
    begin(in, &oct_dataset_fashion_mnist);
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; i++) {
        uint32_t dims[] = {i < 2 ? 5 : 2, 28, 28};
        uint8_t *bytes = malloc(16 + (size_t)dims[0] * 784);
        assert_non_null(bytes);
        size_t n = stand_in_idx(bytes, i % 2 ? 1 : 3, dims, (uint32_t)i);
        for (uint32_t k = 0; i % 2 && k < dims[0]; k++) {
            bytes[8 + k] %= 10;
        }
        add(in, folder, i, names[i], i < 2 ? OCT_SPLIT_TRAIN : OCT_SPLIT_TEST, bytes, n);
    }
}

static void make_cifar(struct stand_in *in, const char *folder, const struct oct_dataset_kind *real,
                       int n_label_bytes, int n_train_files, const char *const *names) {
    begin(in, real);
    for (int i = 0; i <= n_train_files; i++) {
        size_t n_records = i < n_train_files ? 4 : 3;
        size_t record = (size_t)n_label_bytes + OCT_CIFAR_BYTES;
        uint8_t *bytes = malloc(n_records * record);
        assert_non_null(bytes);
        scratch_fill(bytes, n_records * record, 50 + (uint32_t)i);
        for (size_t r = 0; r < n_records; r++) {
            bytes[r * record] %= n_label_bytes == 1 ? 10 : 20;
            bytes[r * record + 1] %= n_label_bytes == 1 ? 255 : 100;
        }
        add(in, folder, i, names[i], i < n_train_files ? OCT_SPLIT_TRAIN : OCT_SPLIT_TEST, bytes,
            n_records * record);
    }
}

void stand_in_cifar10(struct stand_in *in, const char *folder) {
    static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"};
    make_cifar(in, folder, &oct_dataset_cifar10, 1, 2, names);
}

void stand_in_cifar100(struct stand_in *in, const char *folder) {
    static const char *const names[] = {"train.bin", "test.bin"};
    make_cifar(in, folder, &oct_dataset_cifar100, 2, 1, names);
}
