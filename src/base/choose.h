/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h - a plug-in by name from its kind's list, the same way for every kind.
 *
 * A list is an array of pointers to the kind's constants, ended by NULL; each constant begins with
 * its struct oct_plugin.
 */
#ifndef OCT_BASE_CHOOSE_H
#define OCT_BASE_CHOOSE_H

#include <octet/plugin.h>

#include "base/fail.h"
#include "base/spec.h"

/* Cuts "name:options" and finds the name; *options may be NULL. NOT_FOUND lists the names,
 * UNSUPPORTED says why one is not in this build. `what` opens the messages: "topology". */
OCT_MUST_CHECK oct_status oct__choose(const char *what, const char *text, const void *const *list,
                                      const void **kind, const char **options);

/* Entry `index` of a list of `n` entries (its NULL not counted); NULL past the end. */
static inline const void *oct__choice_at(const void *const *list, size_t n, int index) {
    return index >= 0 && (size_t)index < n ? list[index] : NULL;
}

#endif
