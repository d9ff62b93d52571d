/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - what works for cohorts: programs, lanes with their memory, the data as the engine reads
 * it.
 *
 * A crew takes the steps of one run's nodes, or those of several runs side by side. Then their
 * cohorts have the same form, and their nodes lie one cohort after the other in the same arrays:
 *
 *     state [row]      | node 0 … n - 1 of run 0 | node 0 … n - 1 of run 1 | …
 *
 * On an engine that is wide one launch covers them all; elsewhere lanes go from one cohort to the
 * next. What a node computes does not depend on who else is there: its random streams go by its
 * own run's seed and its own number in it, and no sum goes over several nodes. So a run has the
 * bits that it has alone.
 *
 * A run that fails *stands*: it takes no further step, and the others go on. In a wide launch its
 * nodes are still computed, which changes nothing but their own rows.
 */
#ifndef OCT_TRAIN_CREW_H
#define OCT_TRAIN_CREW_H

#include "data/loader.h"
#include "data/partition.h"
#include "data/sampler.h"
#include "nn/program.h"
#include "transport/ranks.h"

struct oct__cohort;

/* Samples in a shard: a constant, never derived from the thread count (engine.h says why). */
#define OCT_SHARD 16

/* Samples that are classified at once: results do not depend on it, so it is what is fast. */
#define OCT_EVAL_BATCH 32
#define OCT_EVAL_BATCH_WIDE 500

/* What a cohort is, and with it the crew that works for it and for others like it. */
struct oct__cohort_config {
    struct oct__engine *engine;    /* borrowed, as are the graph and the datasets */
    const struct oct_graph *graph; /* checked */
    const struct oct_dataset *train, *test;
    int n_nodes, n_threads, batch;
    struct oct__ranks *ranks; /* borrowed; NULL: there is one, which hosts all nodes */
    int first_node, n_total;  /* of several: the number of its first node, and of all nodes */
    int pad; /* of the random crop (of pictures: that there is one); 0: no augmentation */
    uint64_t seed;
    double clip; /* longest gradient; 0: any */
    float beta, decay;
    int is_global, settles;                 /* as in struct oct__program_config, */
    double own, keep, slow_beta, slow_rate; /* … all of them */
    const struct oct_partition *partition;  /* which samples of `train` each node has */
    const uint32_t *test_rows; /* [n_test_rows] samples of `test` that are used; NULL: all */
    uint32_t n_test_rows;
    struct oct__crew *crew; /* works for this cohort and others; borrowed. NULL: one of its own */
};

/* What a step found out about a node. */
struct oct__node_step {
    double loss; /* mean over the batch */
    int n_hits;
};

/* A dataset as the engine reads it. */
struct oct__resident {
    const struct oct_dataset *dataset;
    void *images, *lut; /* images NULL: they are decoded when they are needed */
    int is_borrowed;    /* the images are the dataset's own */
};

/* Training and test images are normalized alike, by what was measured on the training images
 * (`normalization`). Closing takes what opening left behind, also where it failed. */
OCT_MUST_CHECK oct_status oct__resident_open(struct oct__engine *engine,
                                             const struct oct_dataset *dataset,
                                             const struct oct_dataset *normalization,
                                             struct oct__resident *resident);
void oct__resident_close(struct oct__engine *engine, struct oct__resident *resident);

struct oct__crew_lane {
    struct oct__lane lane;
    struct oct__bases bases; /* GRAD, WORK and DATA; state is filled in for each launch */
    void *work, *grad, *scratch;
    int row;                 /* of all nodes that the crew works for, the launch's first */
    struct oct__pick *picks; /* [node][batch], on the host */
    float *results;          /* [node][batch] losses, then hits, on the host */
    double *seconds;         /* [n_calls] of a step, summed up; the caller's, NULL: not measured */
    /* of images that are decoded when they are needed: */
    const struct oct__streamed *streamed; /* NULL: they are not */
    void *reader;
    uint8_t *decoded; /* [batch] images on the host, of a program that evaluates */
    void *table;      /* what BATCH reads, in the memory of an engine that has its own; else NULL */
};

/* Memory for a lane of `program` that reads `data`: a crew's, or that of whoever runs a program of
 * its own. Closing takes what opening left behind, also where it failed. */
OCT_MUST_CHECK oct_status oct__crew_lane_open(const struct oct__program *program,
                                              const struct oct__resident *data, int first_thread,
                                              uint64_t seed, struct oct__crew_lane *lane);
void oct__crew_lane_close(struct oct__engine *engine, struct oct__crew_lane *lane);

/* Brings the images of picks 0 … n - 1 of a lane that evaluates to where BATCH reads them, and lets
 * the picks point there; the others point at the first. Nothing to do where all images are there. */
OCT_MUST_CHECK oct_status oct__crew_lane_fetch(const struct oct__program *program,
                                               struct oct__crew_lane *lane,
                                               const struct oct_dataset *dataset, int n);

/* Images of the table that a program's BATCH reads. */
int oct__crew_table(const struct oct_dataset *dataset, int n_nodes, int batch);

/* A step, as all of a crew take it. */
struct oct__step {
    uint32_t number;
    float rate;
    int watch;    /* it looks at the quantizers, too */
    int is_round; /* a round of gossip follows, */
    int is_leap;  /* … before which slow momentum takes its step */
};

struct oct__crew {
    struct oct__cohort_config config; /* of its cohorts, as far as they are alike */
    struct oct__engine *engine;
    struct oct__resident train, test;
    struct oct__program *step_program, *eval_program;

    struct oct__cohort **cohorts; /* [n_cohorts], of which n_aboard are there */
    int n_cohorts, n_aboard;
    void *state[OCT_HOME_STATES]; /* [row] of all cohorts: params, momentum, stats … */
    size_t stride[OCT_HOME_STATES];
    struct oct__sampler *samplers; /* [row] */
    struct oct__node_step *found;  /* [row] what the last step found out */
    uint64_t *seeds;               /* [n_cohorts] */
    void *seeds_there;             /* … in the engine's memory */

    struct oct__crew_lane *lanes, *eval_lanes;
    void *kept; /* what evaluation makes of parameters, once for all its batches and lanes */
    int n_lanes, n_eval_lanes;
    struct oct__loader *loader; /* of training images that are decoded ahead; else NULL */
    size_t n_batch;             /* calls up to the one that reads images */
    int eval_batch;
    int64_t n_eval_batches;
    uint64_t workspace_bytes;
};

/* For `n_cohorts` of the form that `config` describes; its partition is not looked at. */
OCT_MUST_CHECK oct_status oct__crew_create(const struct oct__cohort_config *config, int n_cohorts,
                                           struct oct__crew **out);
void oct__crew_destroy(struct oct__crew *crew);

/* Nodes of all cohorts. */
int oct__crew_rows(const struct oct__crew *crew);

/* Takes a cohort aboard, whose config and place (crew, first_row, state) are thereby known, before
 * its first step: its nodes' samples. When all are there, images begin to be decoded. */
OCT_MUST_CHECK oct_status oct__crew_board(struct oct__crew *crew, struct oct__cohort *cohort);

/* One local step of every node of those that do not stand: forward, backward, update. Its results
 * are in `found`. Where there is one cohort its failure is returned; where there are more it is
 * noted with the one that it concerns (oct__cohort_stand), and what is returned concerns all. */
OCT_MUST_CHECK oct_status oct__crew_step(struct oct__crew *crew, const struct oct__step *step);

/* What slow momentum keeps of a round; then z = x / u and quasi-global momentum, after gossip or
 * in its place, by the weights that cohorts have (`weights`). Nothing where neither is. */
OCT_MUST_CHECK oct_status oct__crew_settle(struct oct__crew *crew, const struct oct__step *step);

/* Where a launch of `lane` that begins with row `row` finds its tensors. */
struct oct__bases oct__crew_bases(const struct oct__crew *crew, const struct oct__crew_lane *lane,
                                  int row);

/* Sets off the losses and hits of a launch; waits for them and sums each node's, in sample order.
 */
OCT_MUST_CHECK oct_status oct__crew_fetch(struct oct__crew *crew,
                                          const struct oct__program *program,
                                          struct oct__crew_lane *lane,
                                          const struct oct__bases *bases);
OCT_MUST_CHECK oct_status oct__crew_take(struct oct__crew *crew, const struct oct__program *program,
                                         const struct oct__crew_lane *lane,
                                         struct oct__node_step *found);

#endif
