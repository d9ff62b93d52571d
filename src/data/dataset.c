/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - the table of images and labels itself: making, filling, reading, closing.
 *
 * Images that fit are held in memory as bytes: CIFAR-10 is 184 MB, and a step that waits for a disk
 * is slower than the arithmetic it feeds. One of many processes holds those that it trains on, and
 * says so rather than give another's. Larger sets stay in their files and are decoded ahead of the
 * step that needs them (loader.h).
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/spec.h"
#include "data/data.h"

oct_status oct__dataset_alloc_labels(const char *name, int64_t n_samples, int height, int width,
                                     int channels, int n_classes, struct oct_dataset **out) {
    if (n_samples < 1 || n_samples > INT32_MAX) {
        OCT_FAIL(INVALID, "%s: %lld samples, expected 1 to %d", name, (long long)n_samples,
                 INT32_MAX);
    }
    if (height < 1 || width < 1 || channels < 1 || channels > OCT_DATA_CHANNELS ||
        height > INT_MAX / width / channels) {
        OCT_FAIL(INVALID,
                 "%s: images of %dx%dx%d, expected at least 1x1, 1 to %d channels, and less "
                 "than 2 GiB",
                 name, height, width, channels, OCT_DATA_CHANNELS);
    }
    if (n_classes < 2 || n_classes > UINT16_MAX + 1) {
        OCT_FAIL(INVALID, "%s: %d class%s, expected 2 to %d, to tell apart", name, n_classes,
                 n_classes == 1 ? "" : "es", UINT16_MAX + 1);
    }
    oct_status status;
    struct oct_dataset *dataset = NULL;
    void *memory;
    OCT_TRY(oct__alloc(sizeof *dataset, "dataset", &memory));
    dataset = memory;
    OCT_TRY_TO(fail, oct__alloc_text(name, "dataset name", &dataset->name));
    OCT_TRY_TO(fail, oct__alloc_array((size_t)n_samples, sizeof dataset->labels[0],
                                      "dataset labels", &memory));
    dataset->labels = memory;
    dataset->n_samples = n_samples;
    dataset->height = height;
    dataset->width = width;
    dataset->channels = channels;
    dataset->n_classes = n_classes;
    for (int c = 0; c < OCT_DATA_CHANNELS; c++) {
        dataset->deviation[c] = 1;
    }
    *out = dataset;
    return OCT_OK;
fail:
    oct_dataset_close(dataset);
    return status;
}

/* Kept samples lie in their order. */
static oct_status make_places(struct oct_dataset *dataset, const struct oct__data_choice *choice) {
    const size_t n = (size_t)dataset->n_samples;
    void *memory;
    OCT_TRY(oct__alloc_array(n, sizeof *dataset->place, "places of samples", &memory));
    dataset->place = memory;
    OCT_TRY(oct__alloc(n, "kept samples", &memory));
    uint8_t *keep = memory;
    oct_status status = choice->mark(choice->context, dataset, keep);
    uint32_t n_held = 0;
    for (size_t i = 0; i < n; i++) {
        dataset->place[i] = keep[i] ? n_held++ : OCT_NOT_HELD;
    }
    dataset->n_held = n_held;
    oct__free(keep);
    return status;
}

oct_status oct__dataset_hold(struct oct_dataset *dataset, const struct oct__data_choice *choice) {
    void *memory;
    if (choice) {
        OCT_TRY(make_places(dataset, choice));
    } else {
        dataset->n_held = dataset->n_samples;
    }
    OCT_TRY(oct__alloc_array((size_t)dataset->n_held, oct__sample_bytes(dataset), "dataset images",
                             &memory));
    dataset->images = memory;
    return OCT_OK;
}

oct_status oct__dataset_alloc(const char *name, int64_t n_samples, int height, int width,
                              int channels, int n_classes, struct oct_dataset **out) {
    struct oct_dataset *dataset;
    OCT_TRY(
        oct__dataset_alloc_labels(name, n_samples, height, width, channels, n_classes, &dataset));
    oct_status status = oct__dataset_hold(dataset, NULL);
    if (status != OCT_OK) {
        oct_dataset_close(dataset);
        return status;
    }
    *out = dataset;
    return OCT_OK;
}

uint8_t *oct__dataset_room(const struct oct_dataset *dataset, int64_t row) {
    if (row < 0 || row >= dataset->n_samples || !dataset->images) {
        return NULL;
    }
    const uint32_t place = oct__dataset_place(dataset, (uint32_t)row);
    return place == OCT_NOT_HELD ? NULL
                                 : dataset->images + (size_t)place * oct__sample_bytes(dataset);
}

oct_status oct__dataset_alloc_streamed(const char *name, int64_t n_samples, int height, int width,
                                       int channels, int n_classes,
                                       const struct oct__streamed *streamed, void *context,
                                       struct oct_dataset **out) {
    OCT_TRY(oct__dataset_alloc_labels(name, n_samples, height, width, channels, n_classes, out));
    (*out)->streamed = streamed;
    (*out)->context = context;
    return OCT_OK;
}

void oct_dataset_close(struct oct_dataset *dataset) {
    if (!dataset) {
        return;
    }
    if (dataset->streamed && dataset->streamed->close) {
        dataset->streamed->close(dataset->context);
    }
    oct__free(dataset->skipped);
    oct__free(dataset->labels);
    oct__free(dataset->place);
    oct__free(dataset->images);
    oct__free(dataset->name);
    oct__free(dataset);
}

void oct__data_sums_add(struct oct__data_sums *sums, const uint8_t *pixels, size_t n_pixels,
                        int channels) {
    for (size_t i = 0; i < n_pixels; i++) {
        for (int c = 0; c < channels; c++, pixels++) {
            sums->sum[c] += *pixels;
            sums->squares[c] += (uint64_t)*pixels * *pixels;
        }
    }
}

void oct__dataset_normalize(struct oct_dataset *dataset, const struct oct__data_sums *sums) {
    size_t n_pixels = (size_t)dataset->n_samples * (size_t)dataset->height * (size_t)dataset->width;
    for (int c = 0; c < dataset->channels; c++) {
        double mean = (double)sums->sum[c] / (double)n_pixels;
        double variance = (double)sums->squares[c] / (double)n_pixels - mean * mean;
        dataset->mean[c] = (float)(mean / 255.0);
        dataset->deviation[c] = variance > 1e-6 ? (float)(sqrt(variance) / 255.0) : 1.0F;
    }
}

void oct__dataset_lut(const struct oct_dataset *dataset, float lut[OCT_DATA_CHANNELS * 256]) {
    memset(lut, 0, sizeof(float) * OCT_DATA_CHANNELS * 256);
    for (int c = 0; c < dataset->channels; c++) {
        for (int byte = 0; byte < 256; byte++) {
            float unit = (float)byte / 255.0F;
            lut[c * 256 + byte] = (unit - dataset->mean[c]) / dataset->deviation[c];
        }
    }
}

oct_status oct__dataset_open_some(const char *spec, const char *folder, enum oct_split split,
                                  const struct oct__data_choice *choice, struct oct_dataset **out) {
    if (!spec || !out || (split != OCT_SPLIT_TRAIN && split != OCT_SPLIT_TEST)) {
        OCT_FAIL(INVALID, "oct_dataset_open: needs a spec, a split and a place for the result");
    }
    char name[OCT_SPEC_NAME];
    const char *options;
    OCT_TRY(oct__spec_split(spec, name, &options));
    const struct oct_dataset_kind *kind;
    OCT_TRY(oct__dataset_need(name, &kind));
    OCT_TRY(oct__dataset_takes(kind, options));
    return kind->open(kind, options, folder, split, choice, out);
}

oct_status oct_dataset_open(const char *spec, const char *folder, enum oct_split split,
                            struct oct_dataset **out) {
    return oct__dataset_open_some(spec, folder, split, NULL, out);
}

static oct_status check_normalization(const struct oct_dataset_custom *custom, int *measured) {
    int n_zero = 0;
    for (int c = 0; c < custom->channels; c++) {
        float deviation = custom->deviation[c];
        if (!isfinite(custom->mean[c]) || !isfinite(deviation) || deviation < 0) {
            OCT_FAIL(INVALID,
                     "%s: channel %d has mean %g and deviation %g, expected finite ones "
                     "and no negative deviation",
                     custom->name, c, (double)custom->mean[c], (double)deviation);
        }
        n_zero += deviation == 0;
    }
    if (n_zero != 0 && n_zero != custom->channels) {
        OCT_FAIL(INVALID, "%s: %d of %d deviations are 0; set all, or none to have them measured",
                 custom->name, n_zero, custom->channels);
    }
    *measured = n_zero != 0;
    return OCT_OK;
}

oct_status oct_dataset_create(const struct oct_dataset_custom *custom, struct oct_dataset **out) {
    if (!custom || !out || !custom->name || !custom->get) {
        OCT_FAIL(INVALID, "oct_dataset_create: needs a name, a get function and a place for the "
                          "result");
    }
    struct oct_dataset *dataset;
    OCT_TRY(oct__dataset_alloc(custom->name, custom->n_samples, custom->height, custom->width,
                               custom->channels, custom->n_classes, &dataset));
    oct_status status;
    int measured = 0;
    OCT_TRY_TO(fail, check_normalization(custom, &measured));
    size_t sample_bytes = (size_t)custom->height * (size_t)custom->width * (size_t)custom->channels;
    for (int64_t i = 0; i < custom->n_samples; i++) {
        int label = -1;
        int stopped =
            custom->get(custom->context, i, dataset->images + (size_t)i * sample_bytes, &label);
        if (stopped != 0) {
            OCT_FAIL_TO(fail, IO, "%s: reading sample %lld failed: its get function returned %d",
                        custom->name, (long long)i, stopped);
        }
        if (label < 0 || label >= custom->n_classes) {
            OCT_FAIL_TO(fail, INVALID, "%s: sample %lld has label %d, expected 0 to %d",
                        custom->name, (long long)i, label, custom->n_classes - 1);
        }
        dataset->labels[i] = (uint16_t)label;
    }
    if (measured) {
        struct oct__data_sums sums = {{0}, {0}};
        oct__data_sums_add(&sums, dataset->images,
                           (size_t)custom->n_samples * (size_t)custom->height *
                               (size_t)custom->width,
                           custom->channels);
        oct__dataset_normalize(dataset, &sums);
    } else {
        memcpy(dataset->mean, custom->mean, sizeof dataset->mean[0] * (size_t)custom->channels);
        memcpy(dataset->deviation, custom->deviation,
               sizeof dataset->deviation[0] * (size_t)custom->channels);
    }
    *out = dataset;
    return OCT_OK;
fail:
    oct_dataset_close(dataset);
    return status;
}

void oct_dataset_info(const struct oct_dataset *dataset, struct oct_dataset_info *out) {
    *out = (struct oct_dataset_info){
        .name = dataset->name,
        .n_samples = dataset->n_samples,
        .height = dataset->height,
        .width = dataset->width,
        .channels = dataset->channels,
        .n_classes = dataset->n_classes,
        .n_skipped = dataset->n_skipped,
    };
}

const uint8_t *oct_dataset_image(const struct oct_dataset *dataset, int64_t index) {
    return oct__dataset_room(dataset, index);
}

oct_status oct_dataset_read(const struct oct_dataset *dataset, int64_t index, uint8_t *image) {
    if (!dataset || !image || index < 0 || index >= dataset->n_samples) {
        OCT_FAIL(INVALID, "oct_dataset_read: sample %lld, expected 0 to %lld and room for it",
                 (long long)index, dataset ? (long long)dataset->n_samples - 1 : -1LL);
    }
    if (!dataset->streamed) {
        const uint8_t *held = oct_dataset_image(dataset, index);
        if (!held) {
            OCT_FAIL(NOT_FOUND,
                     "%s: sample %lld is not in this process's memory, which holds %lld of %lld: "
                     "it is another rank's",
                     dataset->name, (long long)index, (long long)dataset->n_held,
                     (long long)dataset->n_samples);
        }
        memcpy(image, held, oct__sample_bytes(dataset));
        return OCT_OK;
    }
    void *reader;
    OCT_TRY(dataset->streamed->reader_create(&reader));
    oct_status status = dataset->streamed->fetch(dataset, reader, index, NULL, image);
    dataset->streamed->reader_destroy(reader);
    return status;
}

const char *oct_dataset_class_name(const struct oct_dataset *dataset, int label) {
    return label < 0 || label >= dataset->n_classes || !dataset->class_names
               ? NULL
               : dataset->class_names[label];
}

int oct_dataset_label(const struct oct_dataset *dataset, int64_t index) {
    return index < 0 || index >= dataset->n_samples ? -1 : dataset->labels[index];
}
