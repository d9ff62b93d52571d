/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - inside of a trainer, for its own files, the benchmark and tests that step by hand.
 *
 *     set_up.c    everything a run needs, from its configuration
 *     trainer.c   running: steps, rounds, epochs
 *     group.c     runs side by side, or one: making them, letting them run, giving back what they took
 *     together.c  what several ranks settle among themselves: figures, and when to stop
 *     nodes.c     each node's own figures, and those of the edges between them
 *     result.c    what came out; the average model as a file
 *     stock.c     checkpoints: what a run consists of
 *     absence.c   nodes that are away (option fault)
 *
 */
#ifndef OCT_TRAIN_TRAINER_H
#define OCT_TRAIN_TRAINER_H

#include <octet/trainer.h>

#include "nn/graph.h"
#include "train/cohort.h"
#include "train/exchange.h"
#include "train/schedule.h"

/* What the steps of an epoch found out about a node. */
struct oct__node_sum {
    double loss; /* summed over samples */
    int64_t n_hits;
};

/* What a rank has counted and the others do not know yet (together.c). */
struct oct__together {
    struct oct__node_step *steps; /* [n_steps][n_hosted] results since ranks were last together */
    size_t n_steps, capacity;
    double loss; /* of this epoch's steps, hosted nodes alone: what progress shows meanwhile */
    int64_t hits, samples;
    struct oct__traffic traffic, final_traffic; /* what all together had then */
    int wants_stop, is_stopping, is_awaited;
};

/* Runs side by side. A run by itself is a group of one. */
struct oct__group {
    struct oct_trainer **runs; /* [n], NULL where one is not made yet */
    int n, n_held;             /* of them not given back by their owner */
    struct oct__engine *engine;
    int is_running;               /* and a progress callback may be asking for more */
    struct oct__crew *crew;       /* NULL: a run by itself has its cohort's own */
    double kept_at, kept_seconds; /* when checkpoints were last finished, and how long they took */
};

/* Runs of these configurations. `take` is an engine for them, which is taken over, however this
 * ends: that of a test; NULL: the one that the first configuration names. */
OCT_MUST_CHECK oct_status oct__group_make(const struct oct_config *const *configs,
                                          const struct oct_hooks *hooks, int n,
                                          struct oct__engine *take, struct oct__group **out);

struct oct_trainer {
    struct oct__group *group;
    int number;                    /* in it */
    oct_status status;             /* OK while it goes on, or why it does not, */
    char reason[OCT_DETAIL_BYTES]; /* … in words */
    int is_torn;                   /* a step has failed half-way, so none can follow it */
    struct oct_hooks hooks;
    struct oct_config *config; /* its own copy */
    int is_behind;             /* the checkpoint that was last due could not be written */
    int key;                   /* of its folder of checkpoints; 0: none */
    struct oct_dataset *owned_train, *owned_test;
    const struct oct_dataset *train, *test;
    struct oct_partition *partition;
    int64_t n_rows;      /* training samples in use, all nodes together */
    uint32_t *test_rows; /* test samples in use */
    uint32_t n_test_rows;
    struct oct_graph graph;
    struct oct__engine *engine; /* the group's */
    struct oct__cohort *cohort;
    const struct oct_algorithm_kind *algorithm;
    struct oct_topology *topology; /* NULL: nobody talks */
    struct oct__gossip *gossip;
    struct oct__gossip *statistics; /* of the nodes' statistics, after training; NULL: they stay */
    struct oct__exchange *exchange;
    struct oct__ranks *ranks; /* borrowed */
    int first_node, n_hosted; /* this rank's share of the nodes; all where there is one rank */
    struct oct__together together;
    struct oct__schedule schedule;
    int n_nodes, n_threads, batch, n_epochs;
    double rate;
    int64_t epoch_steps;
    int64_t gossip_every; /* steps from round to round */
    int64_t compensation; /* last rounds of training that are dense */
    int n_final;          /* dense rounds after training */
    int has_faults;       /* the option fault names some */
    struct oct__node_step
        *nodes;                 /* [n_nodes] results of the last step; hosted ones are up to date */
    struct oct__node_sum *sums; /* [n_nodes] of this epoch's steps */
    struct oct_node *shown;     /* [n_nodes] what oct_trainer_node tells */
    double *distances;          /* [n_nodes] from the average model, at the last evaluation */
    int watches, has_watched;   /* quantizers are watched, and have been */
    unsigned char *away;        /* [n_nodes] in this step; NULL: nobody ever is */
    char *away_rows;            /* what those nodes had before it */

    /* where the run stands: all of it goes into a checkpoint */
    int64_t step; /* next to do */
    int epochs_done, final_done;
    double epoch_loss; /* summed over samples */
    int64_t epoch_hits, epoch_samples, samples_seen;
    int64_t sum_steps; /* steps in `sums`, which a checkpoint of an older Octet does not have */
    struct oct__traffic final_traffic; /* of the rounds after training */
    double seconds, train_seconds, gossip_seconds;

    double started, eval_seconds, last_rate;
    double checkpoint_seconds; /* a checkpoint does not have its own */
    double test_loss, test_accuracy, distance;
    int is_evaluated;
    int64_t evaluated_at; /* the test figures belong to the model after so many steps and rounds */
};

/* Rounds of gossip that a run has while it trains. */
static inline int64_t oct__trainer_rounds(const struct oct_trainer *trainer) {
    return trainer->epoch_steps * trainer->n_epochs / trainer->gossip_every;
}

OCT_MUST_CHECK oct_status oct__trainer_set_up(struct oct_trainer *trainer,
                                              const struct oct_config *config);

/* One step of every node, with its round of gossip, of this run and those side by side with it;
 * how it went in this one. */
OCT_MUST_CHECK oct_status oct__trainer_step(struct oct_trainer *trainer);

/* All runs of a group that can, to the last epoch: how each has ended is in its `status`. */
void oct__trainer_run_all(struct oct__group *group);

/* INVALID from a progress callback, where a run is in the middle of things. */
OCT_MUST_CHECK oct_status oct__trainer_rests(const struct oct_trainer *trainer, const char *what);

/* It goes on, unless it cannot: a failure between two steps, with a checkpoint say, is forgiven, one in
 * the middle of a step is not. */
void oct__trainer_begin(struct oct_trainer *trainer);

/* A run does not go on, for the reason that the thread has; nothing where it is OK. */
void oct__trainer_end(struct oct_trainer *trainer, oct_status status);

/* How it ended, with the reason for the caller. */
OCT_MUST_CHECK oct_status oct__trainer_ending(const struct oct_trainer *trainer);

/* Several ranks (together.c). What a step found out is added up: at once where there is one rank, else
 * when they are next together. */
OCT_MUST_CHECK oct_status oct__together_step(struct oct_trainer *trainer);

/* All ranks come here, and then know what each has counted: losses and hits in step and node order,
 * push-sum weights, traffic, watched quantizers. Nothing to do where there is one rank. */
OCT_MUST_CHECK oct_status oct__together_sync(struct oct_trainer *trainer);

/* What was counted so far is known to all: at the start, and after a checkpoint was read. */
void oct__together_begin(struct oct_trainer *trainer);

/* Whether to stop: rank 0 decides, and all stop after the same step. `wish` is its caller's. */
OCT_MUST_CHECK oct_status oct__together_stop(struct oct_trainer *trainer, enum oct_phase phase,
                                             int is_last, int wish);

/* Before the first step: every rank has the same run, and all see the same folder of checkpoints. */
OCT_MUST_CHECK oct_status oct__together_compare(struct oct_trainer *trainer, uint64_t run);
OCT_MUST_CHECK oct_status oct__together_folder(struct oct_trainer *trainer, const char *folder);
void oct__together_free(struct oct_trainer *trainer);

/* Each node's figures (nodes.c): room for them; an epoch's sums begin; a step is added to them; what
 * an evaluation found out; an epoch has ended, and its sums are what is told from now on. */
OCT_MUST_CHECK oct_status oct__nodes_make(struct oct_trainer *trainer);
void oct__nodes_free(struct oct_trainer *trainer);
void oct__nodes_begin_epoch(struct oct_trainer *trainer);
void oct__nodes_add_step(struct oct_trainer *trainer);
void oct__nodes_evaluated(struct oct_trainer *trainer);
void oct__nodes_end_epoch(struct oct_trainer *trainer);

/* A node's figures as numbers of a checkpoint: how many there are, each with its name; and back. What
 * a checkpoint does not have (those of older versions, and more edges than OCT_EDGES_KEPT) begins
 * anew, at 0. */
#define OCT_EDGES_KEPT 262144
struct oct__counter;
struct oct__manifest;
size_t oct__nodes_counters(const struct oct_trainer *trainer);
void oct__nodes_put(const struct oct_trainer *trainer, struct oct__counter *counters);
OCT_MUST_CHECK oct_status oct__nodes_take(struct oct_trainer *trainer,
                                          const struct oct__manifest *manifest);

/* Nodes that are away (absence.c): reads the option fault; who is away in a step; before a step, with
 * what nodes that come back need, and after it; before the rounds after training; how many nodes are
 * there; checkpoints. */
OCT_MUST_CHECK oct_status oct__absence_make(struct oct_trainer *trainer,
                                            const struct oct_config *config);
void oct__absence_free(struct oct_trainer *trainer);
void oct__absence_at(struct oct_trainer *trainer, int64_t step);
OCT_MUST_CHECK oct_status oct__absence_begin(struct oct_trainer *trainer);
OCT_MUST_CHECK oct_status oct__absence_end(struct oct_trainer *trainer);
OCT_MUST_CHECK oct_status oct__absence_return(struct oct_trainer *trainer);
int64_t oct__absence_present(const struct oct_trainer *trainer);
size_t oct__absence_counters(const struct oct_trainer *trainer);
void oct__absence_put(const struct oct_trainer *trainer, struct oct__counter *counters);
OCT_MUST_CHECK oct_status oct__absence_take(struct oct_trainer *trainer,
                                            const struct oct__manifest *manifest);

/* Brings the test figures up to date. */
OCT_MUST_CHECK oct_status oct__trainer_evaluate(struct oct_trainer *trainer);

/* Tells the caller where the run stands, rank 0's where there are several; CANCELLED when it wants to
 * stop. The other is for oct__cohort_evaluate: `context` is the trainer, nonzero stops. */
OCT_MUST_CHECK oct_status oct__trainer_report(struct oct_trainer *trainer, enum oct_phase phase,
                                              int64_t at, int64_t most);
int oct__trainer_report_evaluation(int64_t batch, int64_t n_batches, void *context);

double oct__trainer_samples_per_s(const struct oct_trainer *trainer);

/* Checkpoints: writes one into `folder`; goes on from the newest one there. */
OCT_MUST_CHECK oct_status oct__trainer_keep(struct oct_trainer *trainer, const char *folder);
OCT_MUST_CHECK oct_status oct__trainer_resume(struct oct_trainer *trainer, const char *folder);

#endif
