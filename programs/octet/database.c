/* SPDX-License-Identifier: Apache-2.0 */
/* database.c - where the database of runs is: what --db says, or a file in the state folder. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* $XDG_STATE_HOME is where programs keep what they did, beside data and configuration. */
int cli_database(const struct oct_config *config, struct cli_database *out) {
    const char *named = oct_config_get(config, "db");
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    out->path[0] = '\0';
    out->is_named = named && *named;
    if (out->is_named && strcmp(named, "none") == 0) {
        return 0;
    }
    if (out->is_named) {
        n = snprintf(out->path, sizeof out->path, "%s", named);
    } else if (state && *state == '/') {
        n = snprintf(out->path, sizeof out->path, "%s/octet/runs.db", state);
    } else if (home && *home == '/') {
        n = snprintf(out->path, sizeof out->path, "%s/.local/state/octet/runs.db", home);
    }
    if (n <= 0 || (size_t)n >= sizeof out->path) {
        out->path[0] = '\0';
        return 0;
    }
    return 1;
}
