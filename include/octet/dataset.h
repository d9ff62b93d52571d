/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - labelled images: the ones Octet knows, and your own.
 *
 * A dataset is a table of equally sized images of bytes (row, column, channel) with a class each.
 * Known ones are opened by name; `oct_plugin_at(OCT_PLUGIN_DATASET, i)` lists them. Your own comes
 * from a folder of pictures ("folder:/path"), or from one callback that copies sample i.
 *
 * Most datasets are held in memory. Folders of pictures stay on the disk: training decodes each
 * picture when a step needs it.
 *
 * Thread-safety: an open dataset is never modified; any number of threads and trainers may read it.
 */
#ifndef OCTET_DATASET_H
#define OCTET_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_dataset;

enum oct_split { OCT_SPLIT_TRAIN, OCT_SPLIT_TEST };

struct oct_dataset_info {
    const char *name;
    int64_t n_samples;
    int height, width, channels;
    int n_classes;
    int64_t n_skipped; /* damaged pictures that were left out; the log names them */
};

/* Opens a known dataset, its files checked first. `spec` is a name with options ("cifar10",
 * "synthetic:samples=512"). `folder` is where `octet data get` put it; NULL looks only at the
 * places the system's packages use. A missing file is NOT_FOUND and says which command gets it; an
 * altered or truncated one is CORRUPT and says where. A damaged picture is left out, and the log
 * says so. */
OCT_API OCT_MUST_CHECK oct_status oct_dataset_open(const char *spec, const char *folder,
                                                   enum oct_split split, struct oct_dataset **out);

/* Copies sample `index` into `image` (height * width * channels bytes) and `label`. Nonzero stops
 * the reading, which then fails with IO. */
typedef int oct_dataset_get_fn(void *context, int64_t index, uint8_t *image, int *label);

struct oct_dataset_custom {
    const char *name;
    int64_t n_samples;
    int height, width, channels, n_classes; /* 2 classes or more */
    /* A pixel enters the network as (byte / 255 - mean) / deviation, channel by channel. All
     * deviations 0: both are measured from the samples. A run uses its training set's for its test
     * set too. */
    float mean[4], deviation[4];
    oct_dataset_get_fn *get;
    void *context;
};

/* Your own data. Every sample is read once, here; the callback is not called afterwards. */
OCT_API OCT_MUST_CHECK oct_status oct_dataset_create(const struct oct_dataset_custom *custom,
                                                     struct oct_dataset **out);

OCT_API void oct_dataset_info(const struct oct_dataset *dataset, struct oct_dataset_info *out);

/* The bytes of sample `index`, borrowed; NULL when there is no such sample, when the dataset is not
 * held in memory, or when this sample is not: a trainer's set, in one of many processes. */
OCT_API const uint8_t *oct_dataset_image(const struct oct_dataset *dataset, int64_t index);

/* Copies sample `index` of any dataset into `image` (height * width * channels bytes), as it is
 * tested: of a picture its middle. NOT_FOUND for one that another process holds. */
OCT_API OCT_MUST_CHECK oct_status oct_dataset_read(const struct oct_dataset *dataset, int64_t index,
                                                   uint8_t *image);

/* The class of sample `index`; -1 when there is no such sample. */
OCT_API int oct_dataset_label(const struct oct_dataset *dataset, int64_t index);

/* What class `label` is called, borrowed; NULL where that is not known. */
OCT_API const char *oct_dataset_class_name(const struct oct_dataset *dataset, int label);

OCT_API void oct_dataset_close(struct oct_dataset *dataset);

/* Download and check. `progress` may be NULL; nonzero from it cancels. */
typedef int oct_download_fn(const char *file, uint64_t done_bytes, uint64_t total_bytes,
                            void *context);

/* Fetches the dataset called `name` into `folder` (made if it is missing). Nothing is used, and
 * nothing replaces an older file, before its checksum is right; of imagenette, which has none,
 * before all its pictures are there and can be decoded. `source` is NULL for the dataset's own
 * addresses, or one address or path to use instead. Downloads obey the environment's proxies, and a dataset
 * that is also an npm package (cifar10) is fetched by the program npm where its addresses fail. */
OCT_API OCT_MUST_CHECK oct_status oct_dataset_get(const char *name, const char *folder,
                                                  const char *source, oct_download_fn *progress,
                                                  void *context);

/* Reads every file of `name` and compares checksums; a dataset of your own is named with its folder
 * ("npy:/srv/mine") and read in full. What is wrong with either half is told together. On success
 * `path` (if not NULL) receives where the files are. */
OCT_API OCT_MUST_CHECK oct_status oct_dataset_verify(const char *name, const char *folder,
                                                     char *path, size_t path_bytes);

#ifdef __cplusplus
}
#endif

#endif
