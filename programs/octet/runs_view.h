/* SPDX-License-Identifier: Apache-2.0 */
/* runs_view.h - parts of octet runs: which runs are meant, and how they are shown.
 *
 *     cmd_runs.c      the list, and the commands themselves
 *     runs_filter.c   --where
 *     runs_show.c     one run in full
 *     runs_compare.c  several, side by side
 */
#ifndef OCTET_RUNS_VIEW_H
#define OCTET_RUNS_VIEW_H

#include "cli.h"

/* --- --where (runs_filter.c) ---------------------------------------------------------------- */

/* All of the tests must hold. */
struct runs_filter {
    char *text; /* what keys and patterns lie in */
    struct runs_test {
        const char *key, *pattern;
        int is_not; /* KEY!=PATTERN */
    } tests[32];
    int n;
};

/* Reads "algorithm=choco,label=table2/" and the like (NULL: no tests). Returns CLI_DONE or the exit code of a
 * mistake that it has reported. */
int runs_filter_read(struct runs_filter *filter, const struct cli *cli, const char *text);
void runs_filter_fini(struct runs_filter *filter);

/* Whether a run passes. The texts of `run` are gone afterwards. */
oct_status runs_filter_match(const struct runs_filter *filter, struct oct_runs *runs,
                             const struct oct_run *run, int *out);

/* --- showing (runs_show.c, runs_compare.c) --------------------------------------------------- */

struct cli_text runs_date(int64_t seconds, const char *format, int is_utc);
struct cli_text runs_percent(double value, int digits); /* "-" when it is not known */
struct cli_text runs_number(double value);              /* 1.3e-05 */

/* "NOT_FINITE" of "NOT_FINITE: step 7 …"; others are one word. */
struct cli_text runs_outcome(const char *outcome);

/* Whether an option says where a run is kept rather than what it is. */
int runs_is_keeping(const char *option);

/* The object of a run as in the list. */
struct cli_json *runs_json(const struct oct_run *run);

/* Both return the exit code, and report what goes wrong. */
int runs_show(const struct cli *cli, struct oct_runs *runs, const char *path, int64_t number);
int runs_compare(const struct cli *cli, struct oct_runs *runs, const char *path,
                 const int64_t *numbers, int n);

/* Runs that fit beside one another. */
#define RUNS_COMPARE_MOST 10

#endif
