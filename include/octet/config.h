/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what a run is: options by name, from one table.
 *
 * The table behind these calls also drives the command line, `--help` and the man page, so a name
 * that works in one place works in all. Names may be written with '-' or '_'.
 */
#ifndef OCTET_CONFIG_H
#define OCTET_CONFIG_H

#include <stddef.h>

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_config;

enum oct_option_type {
    OCT_OPTION_TEXT,
    OCT_OPTION_INT,
    OCT_OPTION_REAL,
    OCT_OPTION_CHOICE, /* one of `choices`, which come from a plug-in registry or a fixed list */
};

struct oct_option {
    const char *name;        /* "weight-decay" */
    const char *placeholder; /* "N", "NAME" */
    const char *fallback;    /* the default as text; "" when it depends on the rest */
    const char *summary;     /* one line */
    const char *group;       /* heading in the help: "Model", "Data" … */
    enum oct_option_type type;
    double least, most; /* of a number, both allowed */
};

/* Every option there is, in the order of the help; NULL past the end. */
OCT_API const struct oct_option *oct_option_at(int index);
OCT_API const struct oct_option *oct_option_find(const char *name);

/* Choice `index` of an option of type CHOICE, or NULL past the end. */
OCT_API const char *oct_option_choice(const struct oct_option *option, int index);

/* Nonzero for an option that changes nothing about a run's result: threads, checkpoint, db … */
OCT_API int oct_option_is_incidental(const char *name);

/* What runs of versions that did not have the option were like, as a value of it: its default, unless
 * the option came with a change of what runs do. NULL for what is no option. */
OCT_API const char *oct_option_before(const struct oct_option *option);

/* A configuration with every option at its default. */
OCT_API OCT_MUST_CHECK oct_status oct_config_create(struct oct_config **out);
OCT_API void oct_config_destroy(struct oct_config *config);

/* Another with the same options set; what was left to its default is left to it again. */
OCT_API OCT_MUST_CHECK oct_status oct_config_copy(const struct oct_config *config,
                                                  struct oct_config **out);

/* Another in that precision. What means nothing there (precision-recipe and activation-rounding in
 * fp32, engine in int8-sim), and would be refused by oct_trainer_create, is left to its default. */
OCT_API OCT_MUST_CHECK oct_status oct_config_recast(const struct oct_config *config,
                                                    const char *precision, struct oct_config **out);

/* Whether runs of the two may go side by side (oct_trainers_create): they may differ in their
 * seed, in how data is dealt out, in who sends what to whom, and in what changes nothing about a
 * result. INVALID names the first option in which they differ and must not. */
OCT_API OCT_MUST_CHECK oct_status oct_config_fits(const struct oct_config *a,
                                                  const struct oct_config *b);

/* Sets one option from text. NOT_FOUND for a name that is no option (the nearest is suggested),
 * INVALID for a value that cannot be used, with what was expected; the old value then stays. */
OCT_API OCT_MUST_CHECK oct_status oct_config_set(struct oct_config *config, const char *name,
                                                 const char *value);

/* Sets the options that a run file names: YAML, `name: value` lines with the option table's names.
 * Options that were set before stay as they are, so that a command line overrides its file; and what
 * the file says that means nothing in a precision that was set before is left to its default, as by
 * oct_config_recast. Every complaint begins with FILE:LINE; then nothing of the file has been set.
 * UNSUPPORTED in a build without libyaml. */
OCT_API OCT_MUST_CHECK oct_status oct_config_read(struct oct_config *config, const char *path);

/* The same from memory; `name` stands for the file in messages. */
OCT_API OCT_MUST_CHECK oct_status oct_config_parse(struct oct_config *config, const char *name,
                                                   const char *text, size_t n_bytes);

/* What oct_trainer_create finds wrong with options that cannot go together, before it opens any data;
 * and its warnings, into the log, of what goes together and was hardly meant. */
OCT_API OCT_MUST_CHECK oct_status oct_config_check(const struct oct_config *config);

/* For a failure with options that a run file has set: puts file and line before oct_last_error()
 * where that begins with the name of one, or of the plug-in it chose, or names one further on
 * (INVALID and UNSUPPORTED alone). Trainers do so, and twice does no harm; a program that opens data
 * or makes a graph by itself may. Returns `status`. */
OCT_API OCT_MUST_CHECK oct_status oct_config_locate(const struct oct_config *config,
                                                    oct_status status);

/* Sets the options of the run whose newest checkpoint is in `folder`, and `resume`. An option that
 * was set before and says otherwise is refused (INVALID), and then nothing has been set, save those
 * that change nothing about the result: threads, checkpoint, every, db, record, label, eval_nodes,
 * test_every, transport, data_dir. `checkpoint` becomes `folder` where it was set for that run and is not now. */
OCT_API OCT_MUST_CHECK oct_status oct_config_resume(struct oct_config *config, const char *folder);

/* The value as text (of an option that depends on others: what it comes to), valid until it becomes
 * another; NULL when there is no such option. */
OCT_API const char *oct_config_get(const struct oct_config *config, const char *name);

/* How far a round of gossip moves: the option gamma, or where that is 0 what a run makes of it. 0
 * where nobody talks, and where the options make no graph. */
OCT_API double oct_config_gamma(const struct oct_config *config);

/* Nonzero when the option was set by oct_config_set rather than left at its default. */
OCT_API int oct_config_is_set(const struct oct_config *config, const char *name);

#ifdef __cplusplus
}
#endif

#endif
