/* SPDX-License-Identifier: Apache-2.0 */
/* absent.c - the database of runs in a build without SQLite: it says what is missing. */
#include <octet/runs.h>

#ifndef OCT_HAVE_SQLITE

#include "base/fail.h"

static oct_status unavailable(void) {
    OCT_FAIL(UNSUPPORTED, "this build keeps no database of runs: it was built without SQLite "
                          "(Debian's libsqlite3-dev)");
}

int oct_runs_available(void) {
    return 0;
}

void oct_runs_close(struct oct_runs *runs) {
    (void)runs;
}

#define ABSENT(function, arguments, unused)                                                        \
    oct_status function arguments {                                                                \
        unused;                                                                                    \
        return unavailable();                                                                      \
    }

ABSENT(oct_runs_open, (const char *path, struct oct_runs **out), ((void)path, (void)out))
ABSENT(oct_runs_open_to_read, (const char *path, struct oct_runs **out), ((void)path, (void)out))
ABSENT(oct_runs_begin,
       (struct oct_runs * runs, const struct oct_config *config, const struct oct_trainer *trainer,
        int64_t *run),
       ((void)runs, (void)config, (void)trainer, (void)run))
ABSENT(oct_runs_epoch,
       (struct oct_runs * runs, int64_t run, const struct oct_progress *progress,
        const struct oct_trainer *trainer),
       ((void)runs, (void)run, (void)progress, (void)trainer))
ABSENT(oct_runs_end,
       (struct oct_runs * runs, int64_t run, const char *outcome, const struct oct_result *result,
        const struct oct_trainer *trainer),
       ((void)runs, (void)run, (void)outcome, (void)result, (void)trainer))
ABSENT(oct_runs_delete, (struct oct_runs * runs, int64_t number), ((void)runs, (void)number))
ABSENT(oct_runs_at, (struct oct_runs * runs, int64_t index, struct oct_run *out),
       ((void)runs, (void)index, (void)out))
ABSENT(oct_runs_find, (struct oct_runs * runs, int64_t number, struct oct_run *out),
       ((void)runs, (void)number, (void)out))
ABSENT(oct_runs_epoch_at,
       (struct oct_runs * runs, int64_t number, int index, struct oct_run_epoch *out),
       ((void)runs, (void)number, (void)index, (void)out))
ABSENT(oct_runs_option_at,
       (struct oct_runs * runs, int64_t number, int index, const char **name, const char **value,
        int *is_set),
       ((void)runs, (void)number, (void)index, (void)name, (void)value, (void)is_set))
ABSENT(oct_runs_option_find,
       (struct oct_runs * runs, int64_t number, const char *name, const char **value),
       ((void)runs, (void)number, (void)name, (void)value))
ABSENT(oct_runs_node_at,
       (struct oct_runs * runs, int64_t number, int epoch, int node, struct oct_run_node *out),
       ((void)runs, (void)number, (void)epoch, (void)node, (void)out))
ABSENT(oct_runs_edge_at,
       (struct oct_runs * runs, int64_t number, int epoch, int64_t index, struct oct_run_edge *out),
       ((void)runs, (void)number, (void)epoch, (void)index, (void)out))
ABSENT(oct_runs_class_at,
       (struct oct_runs * runs, int64_t number, int node, int label, int64_t *count),
       ((void)runs, (void)number, (void)node, (void)label, (void)count))

#endif
