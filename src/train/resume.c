/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - the options of a run that is to go on, from its newest checkpoint.
 *
 * A run is resumed to the same bits, so every option that decides them is the checkpoint's. One that
 * the caller set, too, must say the same: going on with another learning rate is a new run, and is
 * refused rather than done in silence. What was left to its default then is left to it again, unless
 * the default has changed since: then the old one is set. An option that came later is set to what the
 * older version did without it. Options that change nothing about the result
 * (oct_option_is_incidental) are the caller's where they were set.
 */
#include <string.h>

#include "train/checkpoint.h"
#include "train/config.h"

static oct_status refuse(const struct oct_config *config, const char *folder, const char *name,
                         const char *value) {
    OCT_FAIL(INVALID,
             "%s is '%.60s', but the run in %.120s has %s%.60s%s; leave the option out, or start "
             "another run without resume",
             name, oct_config_get(config, name), folder, value[0] ? "'" : "left it to its default",
             value, value[0] ? "'" : "");
}

/* One option of the checkpoint. */
static oct_status apply(struct oct_config *config, const char *folder,
                        const struct oct__manifest_option *saved) {
    const struct oct_option *option = oct_option_find(saved->name);
    if (!option) {
        OCT_FAIL(UNSUPPORTED,
                 "%s: its run has the option %s, which this Octet does not know; resume it with "
                 "the version that wrote it",
                 folder, saved->name);
    }
    const int is_given = oct_config_is_set(config, option->name);
    if (is_given) {
        return oct_option_is_incidental(option->name) ||
                       oct__option_same(option, oct_config_get(config, option->name), saved->value)
                   ? OCT_OK
                   : refuse(config, folder, option->name, saved->value);
    }
    if (strcmp(option->name, "resume") == 0 ||
        (!saved->is_set && oct__option_same(option, option->fallback, saved->value))) {
        return OCT_OK;
    }
    /* The folder may have been moved since; where it is now is where the run goes on. */
    const char *value = strcmp(option->name, "checkpoint") == 0 ? folder : saved->value;
    oct_status status = oct_config_set(config, option->name, value);
    return status == OCT_OK ? OCT_OK : oct__fail_within(status, "%s: ", folder);
}

static oct_status apply_all(struct oct_config *config, const char *folder,
                            const struct oct__manifest *manifest) {
    const struct oct_option *option;
    for (size_t i = 0; i < manifest->n_options; i++) {
        OCT_TRY(apply(config, folder, &manifest->options[i]));
    }
    /* Options that came after the version which wrote the checkpoint. */
    for (int row = 0; (option = oct_option_at(row)) != NULL; row++) {
        int is_saved = 0;
        for (size_t i = 0; i < manifest->n_options && !is_saved; i++) {
            is_saved = oct_option_find(manifest->options[i].name) == option;
        }
        if (!is_saved) {
            OCT_TRY(
                apply(config, folder,
                      &(struct oct__manifest_option){option->name, oct_option_before(option), 0}));
        }
    }
    return oct_config_set(config, "resume", folder);
}

oct_status oct_config_resume(struct oct_config *config, const char *folder) {
    if (!config || !folder || !folder[0]) {
        OCT_FAIL(INVALID, "oct_config_resume: the %s is missing",
                 !config ? "configuration" : "folder");
    }
    struct oct_config *copy = NULL;
    struct oct__manifest *manifest = NULL;
    OCT_TRY(oct__manifest_open(folder, &manifest));
    oct_status status = oct_config_copy(config, &copy);
    if (status == OCT_OK) {
        status = apply_all(copy, folder, manifest);
    }
    oct__manifest_close(manifest);
    if (status == OCT_OK) { /* all or nothing */
        oct__config_swap(config, copy);
    }
    oct_config_destroy(copy);
    return status;
}
