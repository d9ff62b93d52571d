/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - a database of runs: what was asked for, how each epoch went, how it ended.
 *
 * One SQLite file. A writer adds a run when it begins, a row when an epoch ends, and the outcome;
 * each is one transaction, so a program that is killed loses nothing that it had written. Several
 * processes may write to one file. In a build without SQLite everything here is UNSUPPORTED.
 *
 *     oct_runs_open(path, &runs)
 *     oct_runs_begin(runs, config, &run)      run is its number
 *     oct_runs_epoch(runs, run, &progress)    from the progress callback, at OCT_PHASE_EPOCH_END
 *     oct_runs_end(runs, run, "done", &result)
 */
#ifndef OCTET_RUNS_H
#define OCTET_RUNS_H

#include <stdint.h>

#include <octet/config.h>
#include <octet/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oct_runs; /* belongs to one thread at a time */

/* Zero in a build without SQLite. */
OCT_API int oct_runs_available(void);

/* Opens the file, making it (and its folder) when it is not there. CORRUPT for a file that is no
 * database of ours, UNSUPPORTED for one of a newer version, IO when it cannot be opened, or is locked
 * by another process for longer than ten seconds. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_open(const char *path, struct oct_runs **out);
OCT_API void oct_runs_close(struct oct_runs *runs);

OCT_API OCT_MUST_CHECK oct_status oct_runs_begin(struct oct_runs *runs,
                                                 const struct oct_config *config, int64_t *run);
OCT_API OCT_MUST_CHECK oct_status oct_runs_epoch(struct oct_runs *runs, int64_t run,
                                                 const struct oct_progress *progress);
/* `outcome` is "done", "stopped" or what went wrong; `result` may be NULL. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_end(struct oct_runs *runs, int64_t run,
                                               const char *outcome,
                                               const struct oct_result *result);

/* What is not known is NaN or 0. Texts are valid until the next call with this `runs`. */
struct oct_run {
    int64_t number;
    int64_t started;     /* seconds since 1970, UTC */
    double seconds;      /* of training and evaluation so far */
    const char *outcome; /* "running" until it has ended */
    const char *version; /* of the Octet that ran it */
    const char *options; /* "--nodes 8 --lr 0.1": those that were set, for people to read; without
                          * those that say where it is kept (checkpoint, every, resume, db) */
    int epochs, n_epochs;
    int has_result; /* the next are set: from the result, or else from the last epoch */
    double accuracy, accuracy_nodes, accuracy_least, accuracy_most, loss, train_loss;
    double consensus_distance, samples_per_s;
    uint64_t bytes_sent, bytes_final, bytes_dense;
    int64_t n_parameters;
    const char *model_sha256; /* NULL: the run has not ended well */
};

/* Run `index`, the newest first; NOT_FOUND past the end. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_at(struct oct_runs *runs, int64_t index,
                                              struct oct_run *out);
/* Run by number; NOT_FOUND says which numbers there are. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_find(struct oct_runs *runs, int64_t number,
                                                struct oct_run *out);

struct oct_run_epoch {
    int epoch;
    double train_loss, train_accuracy, loss, accuracy, consensus_distance, learning_rate;
    double samples_per_s, seconds;
    uint64_t bytes_sent;
};

/* Epoch `index` of a run, in order; NOT_FOUND past the end. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_epoch_at(struct oct_runs *runs, int64_t number,
                                                    int index, struct oct_run_epoch *out);

/* Option `index` of a run as it was in force, by the option table's order; NOT_FOUND past the end.
 * `is_set` (may be NULL): it was set, rather than left to its default. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_option_at(struct oct_runs *runs, int64_t number,
                                                     int index, const char **name,
                                                     const char **value, int *is_set);

#ifdef __cplusplus
}
#endif

#endif
