/* SPDX-License-Identifier: Apache-2.0 */
/* imagenette.c - Imagenette: ten easy classes of ImageNet, 13,394 photographs, as JPEG files.
 *
 * The archives (whole, or with a shorter side of 320 or 160 pixels) hold imagenette2…/train and
 * imagenette2…/val. Nobody published SHA-256 sums, so that what is checked is that every file can be
 * decoded and how many there are of each class.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/spec.h"
#include "data/files.h"
#include "data/image_tree.h"

enum { CLASSES = 10, N_TRAIN = 9469, N_TEST = 3925 };

static const char *const folders[] = {"n01440764", "n02102040", "n02979186", "n03000684",
                                      "n03028079", "n03394916", "n03417042", "n03425413",
                                      "n03445777", "n03888257", NULL};

static const char *const words[CLASSES] = {
    "tench",       "English springer", "cassette player", "chain saw", "church",
    "French horn", "garbage truck",    "gas pump",        "golf ball", "parachute"};

static const int train_counts[CLASSES] = {963, 955, 993, 858, 941, 956, 961, 931, 951, 960};
static const int test_counts[CLASSES] = {387, 395, 357, 386, 409, 394, 389, 419, 399, 390};

/* 320 pixels are enough for samples of 224 and what is cut off around them. */
static const struct oct__data_source sources[] = {
    {OCT_SOURCE_ARCHIVE, "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz", NULL,
     NULL, (uint64_t)2 << 30},
    {OCT_SOURCE_FILES, NULL, NULL, NULL, 0},
};

struct options {
    int64_t size;
};

static const struct oct__spec_option table[] = {
    {"size", OCT_SPEC_INT, offsetof(struct options, size), 64, 512, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static int is_here(const char *root) {
    char path[OCT_PATH_BYTES];
    struct stat facts;
    return oct__path_join(root, "train", "", path) == OCT_OK && stat(path, &facts) == 0 &&
           S_ISDIR(facts.st_mode);
}

/* In its own folder, or where somebody has unpacked an archive: there, or beside it. */
static oct_status locate(const struct oct_dataset_kind *kind, const char *folder, char *out,
                         size_t out_bytes) {
    static const char *const archives[] = {"imagenette2", "imagenette2-320", "imagenette2-224",
                                           "imagenette2-160"};
    char own[OCT_PATH_BYTES], path[OCT_PATH_BYTES];
    if (!folder) {
        OCT_FAIL(NOT_FOUND, "%s: no data folder was named to look in; get it with: %s",
                 kind->plugin.name, kind->remedy);
    }
    OCT_TRY(oct__path_join(folder, kind->folder, "", own));
    memcpy(path, own, sizeof own);
    for (size_t i = 0; !is_here(path); i++) {
        if (i == 2 * OCT_COUNT_OF(archives)) {
            OCT_FAIL(NOT_FOUND, "%s: no folder train in %s; get it with: %s", kind->plugin.name,
                     oct__path_shown(own), kind->remedy);
        }
        OCT_TRY(oct__path_join(i % 2 ? folder : own, archives[i / 2], "", path));
    }
    const int wrote = snprintf(out, out_bytes, "%s", path);
    if (wrote < 0 || (size_t)wrote >= out_bytes) {
        OCT_FAIL(INVALID, "%s: its path is longer than %zu bytes", oct__path_shown(path),
                 out_bytes - 1);
    }
    return OCT_OK;
}

static oct_status open_split(const struct oct_dataset_kind *kind, const char *text,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)choice; /* none is held */
    char root[OCT_PATH_BYTES];
    struct options options = {.size = 224};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, &options));
    OCT_TRY(locate(kind, folder, root, sizeof root));
    const struct oct__image_tree_form form = {.name = kind->plugin.name,
                                              .remedy = kind->remedy,
                                              .root = root,
                                              .size = (int)options.size,
                                              .counts = {train_counts, test_counts},
                                              .folders = folders,
                                              .words = words};
    return oct__image_tree_open(&form, split, out);
}

static const struct oct__data_tree tree = {
    .halves = {"train", "val"}, .n_files = N_TRAIN + N_TEST, .locate = locate};

const struct oct_dataset_kind oct_dataset_imagenette = {
    .plugin = {.name = "imagenette",
               .summary = "13,394 photographs, 10 classes of ImageNet, cropped to 224x224",
               .reference = "Howard, Imagenette, 2019, github.com/fastai/imagenette; of ImageNet, "
                            "whose terms allow research",
               .options = "size=N (224)",
#ifndef OCT_HAVE_JPEG
               .unavailable = "built without libjpeg-turbo"
#endif
    },
    .tree = &tree,
    .folder = "imagenette",
    .remedy = "octet data get imagenette",
    .sources = sources,
    .open = open_split,
};
