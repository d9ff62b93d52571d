/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - finding a plug-in by name; the messages for those who mistyped it. */
#include "base/choose.h"

#include <stdio.h>
#include <string.h>

oct_status oct__choose(const char *what, const char *text, const void *const *list,
                       const void **kind, const char **options) {
    char name[OCT_SPEC_NAME], known[256] = "";
    oct_status status = oct__spec_split(text, name, options);
    if (status != OCT_OK) {
        return oct__fail_within(status, "%s: ", what);
    }
    for (int i = 0; list[i]; i++) {
        const struct oct_plugin *plugin = list[i];
        if (strcmp(plugin->name, name) == 0) {
            if (plugin->unavailable) {
                OCT_FAIL(UNSUPPORTED, "%s '%s' is unavailable: %s", what, name,
                         plugin->unavailable);
            }
            *kind = plugin;
            return OCT_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", plugin->name);
    }
    OCT_FAIL(NOT_FOUND, "%s '%s' is not known; there are %s", what, name, known);
}
