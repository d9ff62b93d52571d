/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - a database of runs: what was asked for, on which machine, how each epoch went for the run
 * and for each of its nodes, how it ended.
 *
 * One SQLite file. A writer adds a run when it begins, an epoch when it ends, and the outcome; each
 * is one transaction, so a program that is killed at any moment loses the epoch it was in, and never
 * the database. Several processes may write to one file. In a build without SQLite everything here
 * is UNSUPPORTED.
 *
 *     oct_runs_open(path, &runs)
 *     oct_runs_begin(runs, config, trainer, &run)       run is its number
 *     oct_runs_epoch(runs, run, &progress, trainer)     from the progress callback, at
 *                                                       OCT_PHASE_EPOCH_END
 *     oct_runs_end(runs, run, "done", &result, trainer)
 *
 * A reader opens the file with oct_runs_open_to_read, which leaves it as it is.
 *
 * Where the trainer is given, its nodes, edges and classes are recorded too; not those of runs of
 * more than 1,024 nodes, nor the edges of graphs of more than 16,384.
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

/* Opens the file, making it (and its folder) when it is not there, and bringing one of an older
 * version up to date. CORRUPT for a file that is no database of ours, UNSUPPORTED for one of a newer
 * version, IO when it cannot be opened, or is locked by another process for longer than ten
 * seconds. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_open(const char *path, struct oct_runs **out);
/* Opens a file that is there, makes nothing and changes nothing: one of an older version is read from a
 * copy in memory. (What a writer that was killed left half written is taken back, as by every reader.)
 * NOT_FOUND for a file that is not there or has nothing in it yet; the rest as above. To write with
 * these `runs` is INVALID. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_open_to_read(const char *path, struct oct_runs **out);
OCT_API void oct_runs_close(struct oct_runs *runs);

/* `trainer` may be NULL here and below. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_begin(struct oct_runs *runs,
                                                 const struct oct_config *config,
                                                 const struct oct_trainer *trainer, int64_t *run);

/* An epoch that cannot be written is kept in memory and goes with the next one or with the end: a
 * failure here is final only when oct_runs_end fails too. Clip rates are recorded when the trainer
 * was told to watch (oct_trainer_watch). */
OCT_API OCT_MUST_CHECK oct_status oct_runs_epoch(struct oct_runs *runs, int64_t run,
                                                 const struct oct_progress *progress,
                                                 const struct oct_trainer *trainer);

/* `outcome` is "done", "stopped" or what went wrong; `result` may be NULL. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_end(struct oct_runs *runs, int64_t run,
                                               const char *outcome, const struct oct_result *result,
                                               const struct oct_trainer *trainer);

/* Takes a run and all that belongs to it out; its number is not given again. NOT_FOUND says which
 * there are. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_delete(struct oct_runs *runs, int64_t number);

/* What is not known is NaN or 0. Texts are valid until the next call with this `runs`. */
struct oct_run {
    int64_t number;
    int64_t started;     /* seconds since 1970, UTC */
    double seconds;      /* of training and evaluation so far */
    const char *outcome; /* as it ended; or "running", "lost" when its process is gone, "running?"
                          * when that cannot be told from here (another machine) */
    const char *version; /* of the Octet that ran it */
    const char *machine; /* "CPU, 2 cores, 2 threads, avx2, Linux 6.1 x86_64, gcc 12"; "" unknown */
    const char *label;   /* the option; "" without one */
    const char *options; /* "--nodes 8 --lr 0.1": those that were set, for people to read; without
                          * label and where it is kept (checkpoint, every, resume, db, record) */
    int epochs, n_epochs;
    int has_result; /* the next are set: from the result, or else from the last epoch */
    double accuracy, accuracy_nodes, accuracy_least, accuracy_most, loss, train_loss;
    double consensus_distance, samples_per_s, gossip_share;
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
    double train_loss, train_accuracy, learning_rate;
    double loss, accuracy, consensus_distance; /* NaN: it was not tested (option test_every) */
    double samples_per_s, seconds;
    uint64_t bytes_sent;  /* so far */
    double clipped, zero; /* what int8's quantizers did in its last step, 0 to 1: the mean share of
                           * values clipped, of gradients that became 0; NaN: not watched */
};

/* Epoch `index` of a run, in order; NOT_FOUND past the end. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_epoch_at(struct oct_runs *runs, int64_t number,
                                                    int index, struct oct_run_epoch *out);

/* Option `index` of a run as it was in force, by the option table's order; NOT_FOUND past the end.
 * `is_set` (may be NULL): it was set, rather than left to its default. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_option_at(struct oct_runs *runs, int64_t number,
                                                     int index, const char **name,
                                                     const char **value, int *is_set);
/* One option by name; NOT_FOUND when that run's Octet had none such. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_option_find(struct oct_runs *runs, int64_t number,
                                                       const char *name, const char **value);

struct oct_run_node {
    int node;
    double train_loss, train_accuracy, consensus_distance;
    double accuracy; /* its own model's on the test set; NaN but for the last epoch, if tested */
    uint64_t bytes_sent; /* so far */
    int64_t n_samples;   /* training samples that it holds */
};

/* Node `node` after an epoch; 0: the last one recorded. NOT_FOUND past the last node, and for an
 * epoch that is not recorded. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_node_at(struct oct_runs *runs, int64_t number, int epoch,
                                                   int node, struct oct_run_node *out);

struct oct_run_edge {
    int from, to;
    uint64_t bytes, messages; /* so far */
};

/* Edge `index` that has carried something, by `from` and then `to`, after an epoch (0: the last);
 * NOT_FOUND past the end. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_edge_at(struct oct_runs *runs, int64_t number, int epoch,
                                                   int64_t index, struct oct_run_edge *out);

/* How many training samples of class `label` a node holds; NOT_FOUND past the last node, and past
 * the last class. */
OCT_API OCT_MUST_CHECK oct_status oct_runs_class_at(struct oct_runs *runs, int64_t number, int node,
                                                    int label, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif
