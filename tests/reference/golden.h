/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h - reading golden files, and drawing the inputs they were computed from.
 *
 * README.md beside this file has both rules: how every input follows from a seed, and what lies
 * where in a file. make_goldens.py follows the same rules in Python. Whatever is wrong with a file
 * fails the running test.
 */
#ifndef OCT_TESTS_REFERENCE_GOLDEN_H
#define OCT_TESTS_REFERENCE_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#include "nn/graph.h"

enum { GOLDEN_CHANNELS = 3, GOLDEN_CLASSES = 10, GOLDEN_BATCHES = 2 };

struct golden_record {
    const char *name;      /* "grad/stem.weight" */
    uint32_t count;        /* elements of the tensor */
    uint32_t n_stored;     /* all of them, or a sample */
    double sum, norm;      /* of the tensor */
    double scale;          /* what errors are relative to: the norm, see golden_open */
    const float *values;   /* [n_stored] */
    const uint32_t *place; /* [n_stored] where in the tensor each was taken from */
};

struct golden {
    uint64_t seed;
    uint32_t batch;
    uint32_t n_records;
    struct golden_record *records;
};

/* A gradient that is 0 by construction, as that of a shift which a norm removes again, is only rounding
 * in both: errors of one whose norm is below 1e-9 of the file's largest are relative to a tenth of that. */
struct golden *golden_open(const char *folder, const char *name);
void golden_close(struct golden *golden);

/* NULL when there is none. */
const struct golden_record *golden_find(const struct golden *golden, const char *name);

/* The relative error of `values`, the largest of three: of the sum (to norm * sqrt(count), which
 * bounds what the sum can be off by), of the norm, and of the stored entries (root mean square to
 * root mean square). With all entries stored the last is |values - golden| / |golden|. */
double golden_error(const struct golden_record *record, const float *values);

/* Image `index` of side x side pixels (row, column, channel), and label `index`. */
void golden_image(uint64_t seed, uint32_t index, int side, uint8_t *bytes);
int golden_label(uint64_t seed, uint32_t index);

/* Starting values of parameter `index`. */
void golden_param(uint64_t seed, uint32_t index, const struct oct__param *param, float *values);

#endif
