/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.h - the nodes that a process hosts: their state, the lanes that work on them, one step.
 *
 *     state, as long as the run:     params    [node][element]     workspace, a lane's own:
 *                                    momentum  [node][element]     activations, gradients, scratch
 *                                    stats     [node][element]
 *                                    numerator [node][element]     with push-sum or qgm
 *                                    anchor, slow [node][element]  with slow momentum
 *
 * So memory is nodes × state + lanes × workspace. A cohort does one step of every node, settles what
 * gossip made of it, and classifies samples with a given row of parameters; messages are
 * exchange.c's, and what a run is (epochs, schedule) lies above, in trainer.c.
 *
 * Where a run has several ranks, a cohort is the share of one. Rows and `nodes` of a step are then
 * those that it hosts; random streams go by a node's number in the whole run. The average model and its
 * evaluation belong to all ranks: each calls them, and each gets the same.
 */
#ifndef OCT_TRAIN_COHORT_H
#define OCT_TRAIN_COHORT_H

#include "data/loader.h"
#include "data/partition.h"
#include "data/sampler.h"
#include "nn/program.h"
#include "transport/ranks.h"

/* Samples in a shard: a constant, never derived from the thread count (engine.h says why). */
#define OCT_SHARD 16

/* Samples that are classified at once: results do not depend on it, so it is what is fast. */
#define OCT_EVAL_BATCH 32
#define OCT_EVAL_BATCH_WIDE 500

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
    int is_global, settles;                /* as in struct oct__program_config, */
    double own, slow_beta, slow_rate;      /* … all of them */
    const struct oct_partition *partition; /* which samples of `train` each node has */
    const uint32_t *test_rows; /* [n_test_rows] samples of `test` that are used; NULL: all */
    uint32_t n_test_rows;
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

struct oct__cohort_lane {
    struct oct__lane lane;
    struct oct__bases bases; /* GRAD, WORK and DATA; state is filled in for each launch */
    void *work, *grad, *scratch;
    struct oct__pick *picks; /* [node][batch], on the host */
    float *results;          /* [node][batch] losses, then hits, on the host */
    double *seconds;         /* [n_calls] of a step, summed up; the caller's, NULL: not measured */
    /* of images that are decoded when they are needed: */
    const struct oct__streamed *streamed; /* NULL: they are not */
    void *reader;
    uint8_t *decoded; /* [batch] images on the host, of a program that evaluates */
    void *table;      /* what BATCH reads, in the memory of an engine that has its own; else NULL */
};

/* Memory for a lane of `program` that reads `data`: a cohort's, or that of whoever runs a program of
 * its own. Closing takes what opening left behind, also where it failed. */
OCT_MUST_CHECK oct_status oct__cohort_lane_open(const struct oct__program *program,
                                                const struct oct__resident *data, int first_thread,
                                                uint64_t seed, struct oct__cohort_lane *lane);
void oct__cohort_lane_close(struct oct__engine *engine, struct oct__cohort_lane *lane);

/* Brings the images of picks 0 … n - 1 of a lane that evaluates to where BATCH reads them, and lets
 * the picks point there; the others point at the first. Nothing to do where all images are there. */
OCT_MUST_CHECK oct_status oct__cohort_lane_fetch(const struct oct__program *program,
                                                 struct oct__cohort_lane *lane,
                                                 const struct oct_dataset *dataset, int n);

/* Images of the table that a program's BATCH reads. */
int oct__cohort_table(const struct oct_dataset *dataset, int n_nodes, int batch);

struct oct__cohort {
    struct oct__cohort_config config;
    struct oct__engine *engine;
    struct oct__resident train, test;
    struct oct__program *step_program, *eval_program;

    void *state[OCT_HOME_STATES]; /* params, momentum, stats … of all nodes */
    size_t stride[OCT_HOME_STATES];
    void *average[OCT_HOME_STATES]; /* one row of params and of stats */
    float *host_row;                /* one row of parameters on the host */
    double *host_sum;
    const unsigned char
        *away; /* [n_nodes] nodes that an average leaves out; NULL: none. The owner of
                                  the run says so, and keeps it */

    struct oct__cohort_lane *lanes, *eval_lanes;
    void *kept; /* what evaluation makes of parameters, once for all its batches and lanes */
    int n_lanes, n_eval_lanes;
    int watch;      /* the next steps look at the quantizers, too */
    int is_round;   /* the next step, with what settles it, has a round of gossip, */
    int is_leap;    /* … before which slow momentum takes its step */
    float *watched; /* [n_total][n_watches][4] what QUANT_COUNT found in the last watched step */
    double *apart;  /* [n_total] squared distances from the average model */
    struct oct__sampler *samplers; /* [n_nodes] */
    struct oct__loader *loader;    /* of training images that are decoded ahead; else NULL */
    size_t n_batch;                /* calls up to the one that reads images */
    int eval_batch;
    int64_t n_eval_batches;
    double *batch_loss; /* of an evaluation, [n_eval_batches] */
    int *batch_hits;
    uint64_t workspace_bytes, state_bytes;
};

OCT_MUST_CHECK oct_status oct__cohort_create(const struct oct__cohort_config *config,
                                             struct oct__cohort **out);
void oct__cohort_destroy(struct oct__cohort *cohort);

/* The array that an update changes and gossip mixes: [node][element]. */
void *oct__cohort_x(const struct oct__cohort *cohort);

/* One local step of every node: forward, backward, update. `nodes` receives n_nodes results. */
OCT_MUST_CHECK oct_status oct__cohort_step(struct oct__cohort *cohort, uint32_t step,
                                           float learning_rate, struct oct__node_step *nodes);

/* What slow momentum keeps of a round; then z = x / u and quasi-global momentum, after gossip or in its
 * place. Nothing where neither is. `weights` are the nodes' push-sum weights u. */
OCT_MUST_CHECK oct_status oct__cohort_settle(struct oct__cohort *cohort, uint32_t step,
                                             float learning_rate, const double *weights);

/* Where a launch of `lane` that begins with node `first_node` finds its tensors. */
struct oct__bases oct__cohort_bases(const struct oct__cohort *cohort,
                                    const struct oct__cohort_lane *lane, int first_node);

/* Called when `batch` of `n_batches` batches are done; nonzero stops the evaluation with CANCELLED.
 * */
typedef int oct__evaluate_fn(int64_t batch, int64_t n_batches, void *context);

/* Classifies the test set with the parameters of row `node`, or with the average model when `node` is
 * -1 (oct__cohort_average first): then ranks share the batches. `accuracy` in per cent. */
OCT_MUST_CHECK oct_status oct__cohort_evaluate(struct oct__cohort *cohort, int node,
                                               oct__evaluate_fn *progress, void *context,
                                               double *loss, double *accuracy);

/* Forms the average model, sum x / sum u, and the relative distance of the nodes from it, which is
 * NaN when a parameter is not finite. `weights` [n_total]; NULL: all are 1. `distances` [n_total] (may
 * be NULL) receives that of each node; `distance` is their mean. */
OCT_MUST_CHECK oct_status oct__cohort_average(struct oct__cohort *cohort, const double *weights,
                                              double *distances, double *distance);

/* Copies a row of the average model (home PARAM or STAT) to the host. */
OCT_MUST_CHECK oct_status oct__cohort_read_average(struct oct__cohort *cohort, enum oct__home home,
                                                   float *row);

/* Gives every node the same row of `home`; parameters become the numerator too, whose weight is 1. */
OCT_MUST_CHECK oct_status oct__cohort_write(struct oct__cohort *cohort, enum oct__home home,
                                            const float *row);

#endif
