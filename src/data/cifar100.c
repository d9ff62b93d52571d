/* SPDX-License-Identifier: Apache-2.0 */
/* cifar100.c - CIFAR-100: 60,000 colour pictures in a hundred (fine) classes, binary form.
 *
 * The archive's checksum is the one that several projects publish for the official download.
 */
#include "data/cifar.h"

enum { RECORD_BYTES = 2 + OCT_CIFAR_BYTES };

static const struct oct__data_file files[] = {
    {"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
     (uint64_t)50000 * RECORD_BYTES, OCT_SPLIT_TRAIN},
    {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
     (uint64_t)10000 * RECORD_BYTES, OCT_SPLIT_TEST},
    {NULL, NULL, 0, OCT_SPLIT_TRAIN},
};

static const struct oct__data_source sources[] = {
    {OCT_SOURCE_ARCHIVE, "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", NULL,
     "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 256 << 20},
    {OCT_SOURCE_FILES, NULL, NULL, NULL, 0},
};

static const struct oct__cifar_form form = {
    .n_label_bytes = 2,
    .n_coarse = 20,
    .n_classes = 100,
    .mean = {0.5071F, 0.4867F, 0.4408F},
    .deviation = {0.2675F, 0.2565F, 0.2761F},
};

static oct_status open_split(const struct oct_dataset_kind *kind, const char *options,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)options;
    return oct__cifar_open(kind, &form, folder, split, choice, out);
}

const struct oct_dataset_kind oct_dataset_cifar100 = {
    .plugin = {.name = "cifar100",
               .summary = "60,000 colour pictures of 32x32, 100 classes",
               .reference = "Krizhevsky, Learning multiple layers of features from tiny images, "
                            "2009"},
    .files = files,
    .folder = "cifar100",
    .remedy = "octet data get cifar100",
    .sources = sources,
    .open = open_split,
};
