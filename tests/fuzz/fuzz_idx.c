/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_idx.c - idx files.
 *
 *     byte 0        image side, 1 to 32
 *     bytes 1, 2    length of the image file, little-endian; the label file is the rest
 */
#include "fuzz.h"

#include "data/idx.h"

static void parse_alone(const uint8_t *bytes, size_t n_bytes) {
    for (int n_dims = 1; n_dims <= OCT_IDX_DIMS; n_dims++) {
        struct oct__idx idx;
        if (oct__idx_parse("file", bytes, n_bytes, n_dims, &idx) != OCT_OK) {
            continue;
        }
        size_t n = 1;
        for (int d = 0; d < n_dims; d++) {
            FUZZ_CHECK(idx.dims[d] > 0);
            n *= idx.dims[d];
        }
        FUZZ_CHECK(n == idx.n_elements);
        FUZZ_CHECK(idx.elements + n == bytes + n_bytes);
    }
}

/* As the files of a folder are read: the header alone, then the sizes. */
static void parse_header(const uint8_t *bytes, size_t n_bytes) {
    for (enum oct__array_role role = OCT_ARRAY_IMAGES; role <= OCT_ARRAY_LABELS; role++) {
        struct oct__array array;
        if (n_bytes < 4 || oct__idx_begin("file", bytes, role, &array) != OCT_OK) {
            continue;
        }
        FUZZ_CHECK(array.n_dims >= 1 && array.n_dims <= OCT_ARRAY_DIMS && array.item_bytes > 0);
        uint64_t total;
        if (n_bytes < 4 + 4 * (size_t)array.n_dims ||
            oct__idx_sizes("file", bytes + 4, &array) != OCT_OK ||
            !oct__array_bytes(&array, &total)) {
            continue;
        }
        FUZZ_CHECK(total >= array.dims[0] && total % array.dims[0] == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    parse_alone(bytes, n_bytes);
    parse_header(bytes, n_bytes);
    if (n_bytes < 3) {
        return 0;
    }
    int side = bytes[0] % 32 + 1;
    size_t cut = (size_t)bytes[1] | (size_t)bytes[2] << 8;
    bytes += 3;
    n_bytes -= 3;
    cut = cut < n_bytes ? cut : n_bytes;
    struct oct__idx_pair pair = {.image_file = "images",
                                 .label_file = "labels",
                                 .images = bytes,
                                 .labels = bytes + cut,
                                 .n_image_bytes = cut,
                                 .n_label_bytes = n_bytes - cut};
    struct oct_dataset *dataset = NULL;
    if (oct__idx_dataset("fuzz", &pair, side, 2, 10, NULL, &dataset) != OCT_OK) {
        FUZZ_CHECK(dataset == NULL);
        return 0;
    }
    uint64_t total = 0, expected = 0;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        FUZZ_CHECK(oct_dataset_label(dataset, i) < 10);
        const uint8_t *image = oct_dataset_image(dataset, i);
        for (int p = 0; p < (side + 4) * (side + 4); p++) {
            total += image[p];
        }
    }
    for (size_t i = 16; i < cut; i++) {
        expected += bytes[i];
    }
    FUZZ_CHECK(total == expected); /* every pixel is somewhere, and the border is black */
    oct_dataset_close(dataset);
    return 0;
}
