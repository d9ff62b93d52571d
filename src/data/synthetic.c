/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c - images made up on the spot, for tests, demos and benchmarks without files.
 *
 * Each class has a pattern: a coarse grid of random colours, blown up to the image's size with
 * linear interpolation and wrapped around at the edges. A sample is its class's pattern
 *
 *     moved by a random number of rows and columns (wrapping),
 *     as it is or as its negative, at a random contrast, around a random brightness,
 *     plus noise on every byte.
 *
 * Negatives and shifts make the mean image of every class the same grey, so that nothing linear
 * separates the classes and only a network that found the patterns does; samples of the two halves
 * share patterns and nothing else, so that labels which were mixed up cannot be learnt by heart.
 *
 * Integers only, all from Philox: sample i of a half is the same bytes on every machine, however
 * many samples are asked for.
 */
#include <stddef.h>

#include "base/rng.h"
#include "base/spec.h"
#include "data/data.h"

enum {
    GRID = 4,          /* cells of a pattern, each way */
    LAYER_PATTERN = 2, /* stream layers 0 and 1 are the halves */
    MOST_SIZE = 256,
    MOST_CLASSES = 1000,
};

struct options {
    int64_t samples, classes, size, channels;
    double noise;
};

static const struct oct__spec_option table[] = {
    {"samples", OCT_SPEC_INT, offsetof(struct options, samples), 1, 10000000, NULL},
    {"classes", OCT_SPEC_INT, offsetof(struct options, classes), 2, MOST_CLASSES, NULL},
    {"size", OCT_SPEC_INT, offsetof(struct options, size), 4, MOST_SIZE, NULL},
    {"channels", OCT_SPEC_INT, offsetof(struct options, channels), 1, OCT_DATA_CHANNELS, NULL},
    {"noise", OCT_SPEC_REAL, offsetof(struct options, noise), 0, 1, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

/* The pattern of a class at size x size x channels, bytes. */
static void draw_pattern(int label, int size, int channels, uint8_t *out) {
    struct oct__stream stream =
        oct__stream(0, OCT_PURPOSE_SYNTHETIC, 0, (uint32_t)label, LAYER_PATTERN);
    uint8_t grid[GRID][GRID][OCT_DATA_CHANNELS];
    for (uint32_t cell = 0; cell < GRID * GRID; cell++) {
        uint32_t words[4];
        oct__stream_block(&stream, cell, words);
        for (int c = 0; c < OCT_DATA_CHANNELS; c++) {
            grid[cell / GRID][cell % GRID][c] = (uint8_t)(words[c] >> 24);
        }
    }
    for (int y = 0; y < size; y++) {
        int v = y * GRID * 256 / size; /* row in the grid, in 1/256 cells */
        int v0 = v / 256, v1 = (v0 + 1) % GRID, fv = v % 256;
        for (int x = 0; x < size; x++) {
            int u = x * GRID * 256 / size;
            int u0 = u / 256, u1 = (u0 + 1) % GRID, fu = u % 256;
            for (int c = 0; c < channels; c++) {
                int upper = grid[v0][u0][c] * (256 - fu) + grid[v0][u1][c] * fu;
                int lower = grid[v1][u0][c] * (256 - fu) + grid[v1][u1][c] * fu;
                *out++ = (uint8_t)((upper * (256 - fv) + lower * fv) / 65536);
            }
        }
    }
}

static uint8_t clamp_byte(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* A sum of four bytes less its mean has a deviation of 147.8; `noise_256` is the wanted deviation
 * in 1/256 grey levels. */
static int noise_of(uint32_t word, int noise_256) {
    int sum = (int)(word & 255) + (int)(word >> 8 & 255) + (int)(word >> 16 & 255) +
              (int)(word >> 24) - 510;
    return sum * noise_256 / (148 * 256);
}

static void draw_sample(const struct options *options, const uint8_t *pattern, uint32_t index,
                        enum oct_split split, int noise_256, uint8_t *out) {
    int size = (int)options->size, channels = (int)options->channels;
    struct oct__stream stream =
        oct__stream(0, OCT_PURPOSE_SYNTHETIC, 0, index, split == OCT_SPLIT_TRAIN ? 0 : 1);
    uint32_t words[4];
    oct__stream_block(&stream, 0, words);
    int down = (int)oct__below(words[0], (uint32_t)size);
    int right = (int)oct__below(words[1], (uint32_t)size);
    int contrast = 160 + (int)oct__below(words[2], 97); /* in 1/256 */
    int sign = words[3] & 1 ? 1 : -1;
    int brightness = 128 - 24 + (int)oct__below(words[3], 49);
    uint32_t n_words = 0;
    for (int y = 0; y < size; y++) {
        for (int x = 0; x < size; x++) {
            const uint8_t *from =
                pattern + (ptrdiff_t)((y + down) % size * size + (x + right) % size) * channels;
            for (int c = 0; c < channels; c++, n_words++) {
                if (n_words % 4 == 0) {
                    oct__stream_block(&stream, 1 + n_words / 4, words);
                }
                int signal = sign * (from[c] - 128) * contrast / 256;
                *out++ = clamp_byte(brightness + signal + noise_of(words[n_words % 4], noise_256));
            }
        }
    }
}

/* Classes take turns. Samples that are not held are not drawn. */
static oct_status draw(const struct options *options, enum oct_split split, const uint8_t *patterns,
                       const struct oct__data_choice *choice, struct oct_dataset *dataset) {
    const size_t sample_bytes = oct__sample_bytes(dataset);
    const int noise_256 = (int)(options->noise * 255.0 * 256.0 + 0.5);
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        dataset->labels[i] = (uint16_t)(i % options->classes);
    }
    OCT_TRY(oct__dataset_hold(dataset, choice));
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        uint8_t *to = oct__dataset_room(dataset, i);
        if (to) {
            draw_sample(options, patterns + dataset->labels[i] * sample_bytes, (uint32_t)i, split,
                        noise_256, to);
        }
    }
    /* By construction, nearly: both halves must use the same, so neither is measured. */
    for (int c = 0; c < dataset->channels; c++) {
        dataset->mean[c] = 0.5F;
        dataset->deviation[c] = 0.2F;
    }
    return OCT_OK;
}

static oct_status open_split(const struct oct_dataset_kind *kind, const char *text,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)folder;
    struct options options = {
        .samples = 2048, .classes = 10, .size = 32, .channels = 3, .noise = 0.1};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    int64_t n_samples = split == OCT_SPLIT_TRAIN ? options.samples : (options.samples + 3) / 4;
    int size = (int)options.size, channels = (int)options.channels;
    size_t sample_bytes = (size_t)size * (size_t)size * (size_t)channels;
    void *patterns;
    OCT_TRY(oct__alloc_array((size_t)options.classes, sample_bytes, "class patterns", &patterns));
    for (int label = 0; label < options.classes; label++) {
        draw_pattern(label, size, channels, (uint8_t *)patterns + (size_t)label * sample_bytes);
    }
    struct oct_dataset *dataset = NULL;
    oct_status status = oct__dataset_alloc_labels(kind->plugin.name, n_samples, size, size,
                                                  channels, (int)options.classes, &dataset);
    if (status == OCT_OK) {
        status = draw(&options, split, patterns, choice, dataset);
    }
    oct__free(patterns);
    if (status != OCT_OK) {
        oct_dataset_close(dataset);
        return status;
    }
    *out = dataset;
    return OCT_OK;
}

const struct oct_dataset_kind oct_dataset_synthetic = {
    .plugin = {.name = "synthetic",
               .summary = "made-up patterns; needs no files",
               .options = "samples=N (2048), classes=N (10), size=N (32), channels=N (3), "
                          "noise=X (0.1)"},
    .open = open_split,
};
