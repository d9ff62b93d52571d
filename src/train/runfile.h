/* SPDX-License-Identifier: Apache-2.0 */
/* runfile.h - run files from memory; from a path it is oct_config_read in <octet/config.h>. */
#ifndef OCT_TRAIN_RUNFILE_H
#define OCT_TRAIN_RUNFILE_H

#include <stddef.h>

#include "train/config.h"

/* A run file is a page of text; what is larger is something else. */
#define OCT_RUNFILE_MOST_BYTES ((size_t)1 << 20)

/* Sets the options that the text names and that were not set before; `name` stands for the file in
 * messages, each of which begins NAME:LINE. INVALID for whatever is wrong with the text (UNSUPPORTED
 * for a value that only this build lacks); then nothing has changed. */
OCT_MUST_CHECK oct_status oct__runfile_parse(const char *name, const void *bytes, size_t n_bytes,
                                             struct oct_config *config);

#endif
