/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - your own pictures: folder:/path, with a folder for each class; see image_tree.h. */
#include <stddef.h>
#include <stdio.h>

#include "base/spec.h"
#include "data/files.h"
#include "data/image_tree.h"

struct options {
    char path[OCT_SPEC_TEXT_MOST];
    int64_t size;
};

static const struct oct__spec_option table[] = {
    {"path", OCT_SPEC_TEXT, offsetof(struct options, path), 0, 0, NULL},
    {"size", OCT_SPEC_INT, offsetof(struct options, size), 8, 1024, NULL},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static oct_status read_options(const struct oct_dataset_kind *kind, const char *text,
                               struct options *options) {
    *options = (struct options){.path = "", .size = 224};
    OCT_TRY(oct__spec_read(kind->plugin.name, text, table, options));
    if (!options->path[0]) {
        OCT_FAIL(NOT_FOUND,
                 "%s: no path; expected folder:/path, with train/CLASS/*.jpg and "
                 "test/CLASS/*.jpg (or val) in it",
                 kind->plugin.name);
    }
    return OCT_OK;
}

static oct_status locate(const struct oct_dataset_kind *kind, const char *text,
                         char out[OCT_PATH_BYTES]) {
    struct options options;
    OCT_TRY(read_options(kind, text, &options));
    snprintf(out, OCT_PATH_BYTES, "%s", options.path); /* no longer than that */
    return OCT_OK;
}

static oct_status open_split(const struct oct_dataset_kind *kind, const char *text,
                             const char *folder, enum oct_split split,
                             const struct oct__data_choice *choice, struct oct_dataset **out) {
    (void)folder;
    (void)choice; /* none is held */
    struct options options;
    OCT_TRY(read_options(kind, text, &options));
    OCT_TRY(oct__place_check(kind->plugin.name, options.path));
    const struct oct__image_tree_form form = {
        .name = kind->plugin.name, .root = options.path, .size = (int)options.size};
    return oct__image_tree_open(&form, split, out);
}

const struct oct_dataset_kind oct_dataset_folder = {
    .plugin = {.name = "folder",
               .summary = "your own JPEG and PNG pictures, a folder for each class",
               .options = "PATH (with train/CLASS/ and test/CLASS/ or val/CLASS/), size=N (224)",
               .unavailable = OCT_NO_IMAGES},
    .locate = locate,
    .open = open_split,
};
