/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - parameter files, read for a model of three tensors, as floats and as a model file
 * of either form.
 *
 * What is accepted must hold every word of the file's data exactly once, and have the checksum that
 * it says it has; what is refused must leave the parameters as they were. Most seeds have no
 * checksum, like files of older versions: with one, hardly a changed number would get past it to
 * what lies behind.
 */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "base/crc32c.h"
#include "data/data.h"
#include "train/model.h"
#include "train/safetensors.h"

enum { N_ELEMENTS = 48, N_VALUES = 4 + 3 + 6 };

static struct oct__param params[] = {
    {.name = "a.weight", .n = 2, .h = 1, .w = 2, .c = 1, .n_dims = 4, .count = 4, .offset = 0},
    {.name = "a.bias", .n = 1, .h = 1, .w = 1, .c = 3, .n_dims = 1, .count = 3, .offset = 16},
    {.name = "b.weight", .n = 3, .h = 1, .w = 1, .c = 2, .n_dims = 2, .count = 6, .offset = 32},
};

static const struct oct__row row = {.items = params, .n_items = 3, .n_elements = N_ELEMENTS};

static uint32_t word_at(const void *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static void check_sum(const uint8_t *bytes, size_t n_bytes) {
    char said[OCT_METADATA_BYTES], sum[OCT_METADATA_BYTES];
    size_t n_header = 0;
    FUZZ_CHECK(oct__safetensors_metadata("file", bytes, n_bytes, "crc32c", said) == OCT_OK);
    FUZZ_CHECK(oct__safetensors_length("file", bytes, n_bytes, &n_header) == OCT_OK);
    snprintf(sum, sizeof sum, "%08x", oct__crc32c(0, bytes + 8 + n_header, n_bytes - 8 - n_header));
    FUZZ_CHECK(!said[0] || strcmp(said, sum) == 0);
}

/* What a header says of its network is refused, or is options and a shape that there can be. */
static void read_about(const uint8_t *bytes, size_t n_bytes) {
    struct oct_config *config = NULL;
    struct oct_dataset shape = {.name = NULL};
    FUZZ_CHECK(oct_config_create(&config) == OCT_OK);
    if (oct__model_recall("file", bytes, n_bytes, config, &shape) == OCT_OK) {
        FUZZ_CHECK(shape.height >= 1 && shape.width >= 1 && shape.n_classes >= 2);
        FUZZ_CHECK(shape.channels >= 1 && shape.channels <= OCT_DATA_CHANNELS);
        for (int i = 0; i < shape.channels; i++) {
            FUZZ_CHECK(isfinite(shape.mean[i]) && shape.deviation[i] > 0);
        }
    }
    oct_config_destroy(config);
}

/* Weights of a file of bytes are finite, whatever its scales say. */
static void read_model(const uint8_t *bytes, size_t n_bytes, const float before[N_ELEMENTS]) {
    float values[N_ELEMENTS];
    char form[OCT_METADATA_BYTES];
    memcpy(values, before, sizeof values);
    if (oct__model_parse("file", bytes, n_bytes, &row, values) != OCT_OK) {
        FUZZ_CHECK(memcmp(values, before, sizeof values) == 0);
        return;
    }
    check_sum(bytes, n_bytes);
    read_about(bytes, n_bytes);
    FUZZ_CHECK(oct__safetensors_metadata("file", bytes, n_bytes, "form", form) == OCT_OK);
    for (size_t p = 0; p < row.n_items && form[0]; p++) {
        for (size_t i = 0; i < params[p].count && params[p].n_dims > 1; i++) {
            FUZZ_CHECK(isfinite(values[params[p].offset + i]));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    float values[N_ELEMENTS], before[N_ELEMENTS];
    memset(before, 0x5A, sizeof before);
    memcpy(values, before, sizeof values);
    read_model(bytes, n_bytes, before);
    if (oct__safetensors_parse("file", bytes, n_bytes, &row, values) != OCT_OK) {
        FUZZ_CHECK(memcmp(values, before, sizeof values) == 0);
        return 0;
    }
    check_sum(bytes, n_bytes);
    FUZZ_CHECK(n_bytes >= 8 + 4 * N_VALUES);
    uint64_t expected = 0, total = 0;
    for (size_t i = n_bytes - 4 * N_VALUES; i < n_bytes; i += 4) {
        uint32_t word = (uint32_t)bytes[i] | (uint32_t)bytes[i + 1] << 8 |
                        (uint32_t)bytes[i + 2] << 16 | (uint32_t)bytes[i + 3] << 24;
        expected += (uint64_t)word * word % 1000003;
    }
    for (size_t p = 0; p < row.n_items; p++) {
        for (size_t i = 0; i < params[p].count; i++) {
            uint32_t word = word_at(&values[params[p].offset + i]);
            total += (uint64_t)word * word % 1000003;
        }
    }
    FUZZ_CHECK(total == expected);
    FUZZ_CHECK(values[params[0].count] == 0.0F); /* gaps are 0 */
    return 0;
}
