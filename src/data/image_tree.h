/* SPDX-License-Identifier: Apache-2.0 */
/* image_tree.h - folders of pictures, one a class, as a dataset whose images stay on the disk.
 *
 *     ROOT/train/CLASS/NAME.jpg                  classes: the folders of train, sorted by their bytes
 *     ROOT/test/CLASS/NAME.png (or ROOT/val)     samples: class by class, files sorted by their bytes
 *
 * Files are .jpg, .jpeg or .png, in large letters or small; links are followed; hidden entries are
 * ignored, and so are others, which the log counts. Every picture is decoded once when the dataset is
 * opened: one that cannot be is named and left out, so that training never meets it.
 */
#ifndef OCT_DATA_IMAGE_TREE_H
#define OCT_DATA_IMAGE_TREE_H

#include "data/data.h"

struct oct__image_tree_form {
    const char *name;   /* of the dataset, for messages */
    const char *remedy; /* what to do about missing files; NULL: the message shows the layout */
    const char *root;
    int size;                   /* of the samples, both ways */
    const int *counts[2];       /* [n_classes] files of each half's classes; NULL: any */
    const char *const *folders; /* of the classes, sorted, ends with NULL; NULL: any */
    const char *const *words;   /* for those classes, [n_classes]; NULL: the folders' names */
};

OCT_MUST_CHECK oct_status oct__image_tree_open(const struct oct__image_tree_form *form,
                                               enum oct_split split, struct oct_dataset **out);

/* Why a build cannot read pictures at all; NULL: it can. */
#if defined(OCT_HAVE_JPEG) || defined(OCT_HAVE_PNG)
#define OCT_NO_IMAGES NULL
#else
#define OCT_NO_IMAGES "built without libjpeg-turbo and libpng"
#endif

#endif
