/* SPDX-License-Identifier: Apache-2.0 */
/* runs_view.h - parts of octet runs, some of which octet report uses too: which runs are meant, and how they
 * are shown.
 *
 *     cmd_runs.c      the list, and the commands themselves
 *     runs_filter.c   --where
 *     runs_select.c   numbers, ranges, and those that pass
 *     runs_show.c     one run in full
 *     runs_compare.c  several, side by side
 */
#ifndef OCTET_RUNS_VIEW_H
#define OCTET_RUNS_VIEW_H

#include "cli.h"

/* Opens what --db means, to read it (cmd_runs.c); *runs stays NULL where there is nothing to open, which has been
 * said. Returns the exit code. */
int runs_open(const struct cli *cli, struct cli_database *database, struct oct_runs **runs);

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

/* Reads "algorithm=choco,label=table2/" and the like, several joined by CLI_JOINT (NULL: no tests). Returns
 * CLI_DONE or the exit code of a mistake that it has reported. */
int runs_filter_read(struct runs_filter *filter, const struct cli *cli, const char *text);
void runs_filter_fini(struct runs_filter *filter);

/* Whether a run passes. The texts of `run` are gone afterwards. */
oct_status runs_filter_match(const struct runs_filter *filter, struct oct_runs *runs,
                             const struct oct_run *run, int *out);

/* --- which ones (runs_select.c) ------------------------------------------------------------- */

/* Runs in the order in which they are to be shown, with copies of their texts: the library's are gone
 * with its next call. */
struct runs_listing {
    struct runs_listed {
        struct oct_run run;
        double key;  /* what it is sorted by */
        char *texts; /* that those of `run` lie in */
    } * at;
    size_t n, capacity;
};

void runs_listing_fini(struct runs_listing *list);

/* Drops what is beyond the first `limit`. */
void runs_listing_cut(struct runs_listing *list, size_t limit);

/* What --sort names; 0: by number, the newest first. Returns CLI_DONE or the exit code of a mistake. */
int runs_find_sort(const struct cli *cli, int *out);

/* All runs that pass, the newest first, or as `sort` says; no more than `limit`. */
oct_status runs_select(struct oct_runs *runs, const struct runs_filter *filter, int sort,
                       size_t limit, struct runs_listing *out);

/* Whether all words are numbers ("12") or ranges ("3-9"); and the runs that they name, of a range those
 * that there are, the oldest first. Both return CLI_DONE or the exit code of what they have reported. */
int runs_check_words(const struct cli *cli);
int runs_read_words(const struct cli *cli, struct oct_runs *runs, struct runs_listing *out);

/* --- showing (runs_show.c, runs_compare.c) --------------------------------------------------- */

/* Bytes sent while training, which is what octet train calls sent, too; final rounds
 * (run->bytes_final) are told beside it. */
uint64_t runs_sent(const struct oct_run *run);

/* What is said of those. */
#define RUNS_FINAL_NOTE "more, in uncompressed rounds without training"

struct cli_text runs_date(int64_t seconds, const char *format, int is_utc);
struct cli_text runs_percent(double value, int digits); /* "-" when it is not known */
struct cli_text runs_number(double value);              /* 1.3e-05 */

/* "NOT_FINITE" of "NOT_FINITE: step 7 …"; others are one word. */
struct cli_text runs_outcome(const char *outcome);

/* Whether an option says where a run is kept rather than what it is. */
int runs_is_keeping(const char *name);

/* The command that does the run again; the caller frees it. */
oct_status runs_command(struct oct_runs *runs, int64_t number, char **out);

/* The object of a run as in the list. */
struct cli_json *runs_json(const struct oct_run *run);

/* And all the rest: epochs, nodes, edges, configuration. */
struct cli_json *runs_json_all(struct oct_runs *runs, const struct oct_run *run,
                               const char *command);

/* Both return the exit code, and report what goes wrong. */
int runs_show(const struct cli *cli, struct oct_runs *runs, const char *path, int64_t number);
int runs_compare(const struct cli *cli, struct oct_runs *runs, const char *path,
                 const int64_t *numbers, int n);

/* Runs that fit beside one another. */
#define RUNS_COMPARE_MOST 10

#endif
