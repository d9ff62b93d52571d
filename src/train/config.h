/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - inside of struct oct_config: a typed field for each row of options.def.
 *
 * The trainer reads the fields (config->batch, config->lr, config->norm); only config.c writes
 * them, always together with the text they came from. TEXT and CHOICE fields are borrowed from that
 * text, so they are valid until the option is set again. A CHOICE may carry options of its own
 * after a colon ("synthetic:samples=512").
 */
#ifndef OCT_TRAIN_CONFIG_H
#define OCT_TRAIN_CONFIG_H

#include <stdint.h>

#include <octet/config.h>
#include <octet/plugin.h>

#include "base/fail.h"

enum oct__option_index {
#define OCT_OPTION(field, ...) OCT__OPTION_##field,
#include "train/options.def"
#undef OCT_OPTION
    OCT__OPTION_COUNT
};

#define OCT__FIELD_TEXT const char *
#define OCT__FIELD_CHOICE const char *
#define OCT__FIELD_INT int64_t
#define OCT__FIELD_REAL double

struct oct_config {
#define OCT_OPTION(field, type, ...) OCT__FIELD_##type field;
#include "train/options.def"
#undef OCT_OPTION
    char *text[OCT__OPTION_COUNT];           /* each option as it was written; owned */
    unsigned char is_set[OCT__OPTION_COUNT]; /* by oct_config_set, not by default */
    char *place[OCT__OPTION_COUNT];          /* "run.yaml:7" of what a file set, else NULL; owned */
};

/* Whether the precision is int8 or its simulation. */
int oct__config_is_int8(const struct oct_config *config);

/* INVALID for options that mean nothing in the precision, unless they are at their defaults. */
OCT_MUST_CHECK oct_status oct__config_check_precision(const struct oct_config *config);

/* Leaves such options to their defaults, up to the first that is set in `given` (NULL: all), which
 * oct__config_check_precision then refuses. */
OCT_MUST_CHECK oct_status oct__config_drop(struct oct_config *config,
                                           const struct oct_config *given);

/* All options become those of `from`, which becomes what the others were; nothing can fail. What stays as
 * it is keeps its text. */
void oct__config_swap(struct oct_config *config, struct oct_config *from);

/* Line `line` of `file` has set the option. What sets it anew forgets that. */
OCT_MUST_CHECK oct_status oct__config_place(struct oct_config *config, int row, const char *file,
                                            size_t line);

/* Whether two values of an option mean the same: "0.1" is "1e-1". */
int oct__option_same(const struct oct_option *option, const char *a, const char *b);

/* The graph that the options ask for. */
struct oct_topology;
OCT_MUST_CHECK oct_status oct__config_topology(const struct oct_config *config,
                                               struct oct_topology **out);

/* The norm that is named, or the precision's own. */
const char *oct__config_norm(const struct oct_config *config);

#endif
