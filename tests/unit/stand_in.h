/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in.h - small files of the real form, with the real readers: same code, other table. */
#ifndef OCT_TESTS_STAND_IN_H
#define OCT_TESTS_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "data/data.h"

enum { STAND_IN_FILES = 8 };

struct stand_in {
    struct oct_dataset_kind kind; /* the real one, with these files */
    struct oct__data_file files[STAND_IN_FILES];
    char sums[STAND_IN_FILES][OCT_SHA256_TEXT];
    uint8_t *bytes[STAND_IN_FILES];
};

/* Writes the files into the dataset's own folder inside `folder`. CIFAR-10 has 2 files of 4 training
 * records, CIFAR-100 one, both 3 test records; Fashion-MNIST has 5 and 2 images. */
void stand_in_fashion(struct stand_in *in, const char *folder);
void stand_in_cifar10(struct stand_in *in, const char *folder);
void stand_in_cifar100(struct stand_in *in, const char *folder);
void stand_in_fini(struct stand_in *in);

/* An idx file of random bytes; returns how many bytes it has. */
size_t stand_in_idx(uint8_t *out, int n_dims, const uint32_t *dims, uint32_t seed);

#endif
