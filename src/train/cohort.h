/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.h - the nodes of a run that a process hosts: their state, a step, what they make on
 * average.
 *
 *     state, as long as the run:     params    [node][element]     workspace, the crew's (crew.h):
 *                                    momentum  [node][element]     activations, gradients, scratch
 *                                    stats     [node][element]
 *                                    numerator [node][element]     with push-sum or qgm
 *                                    anchor, slow [node][element]  with slow momentum
 *
 * So memory is nodes × state + lanes × workspace. Its crew does the steps of its nodes and settles
 * what gossip made of them; a cohort averages its nodes, and classifies samples with a given row
 * of parameters. Messages are exchange.c's, and what a run is (epochs, schedule) lies above, in
 * trainer.c.
 *
 * Where a run has several ranks, a cohort is the share of one. Rows and `nodes` of a step are then
 * those that it hosts; random streams go by a node's number in the whole run. The average model
 * and its evaluation belong to all ranks: each calls them, and each gets the same.
 */
#ifndef OCT_TRAIN_COHORT_H
#define OCT_TRAIN_COHORT_H

#include "train/crew.h"

struct oct__cohort {
    struct oct__cohort_config config;
    struct oct__engine *engine;
    struct oct__crew *crew;
    int owns_crew;
    int first_row; /* of the crew's rows */

    void *state[OCT_HOME_STATES]; /* [node] of this cohort, in the crew's memory */
    size_t stride[OCT_HOME_STATES];
    void *average[OCT_HOME_STATES]; /* one row of params and of stats */
    float *host_row;                /* one row of parameters on the host */
    double *host_sum;
    const unsigned char
        *away; /* [n_nodes] nodes that an average leaves out; NULL: none. The owner of
                                  the run says so, and keeps it */
    const double
        *weights; /* [n_nodes] push-sum weights that settling divides by, their owner's; NULL: 1 */

    float *watched; /* [n_total][n_watches][4] what QUANT_COUNT found in the last watched step */
    double *apart;  /* [n_total] squared distances from the average model */
    double *batch_loss; /* of an evaluation, [n_eval_batches] */
    int *batch_hits;
    uint64_t state_bytes;

    oct_status status; /* OK, or why it takes no further step, among others that do */
    char reason[OCT_DETAIL_BYTES];
};

OCT_MUST_CHECK oct_status oct__cohort_create(const struct oct__cohort_config *config,
                                             struct oct__cohort **out);
void oct__cohort_destroy(struct oct__cohort *cohort);

/* It takes no further step; unless it stands already. And why it stands; OK: it does not. */
void oct__cohort_stand(struct oct__cohort *cohort, oct_status status, const char *reason);
OCT_MUST_CHECK oct_status oct__cohort_standing(const struct oct__cohort *cohort);

/* Its part of what its crew works in. */
uint64_t oct__cohort_workspace(const struct oct__cohort *cohort);

/* One local step, of a cohort that has its crew for itself: forward, backward, update. `nodes`
 * receives n_nodes results. */
OCT_MUST_CHECK oct_status oct__cohort_step(struct oct__cohort *cohort, const struct oct__step *step,
                                           struct oct__node_step *nodes);

/* The array that an update changes and gossip mixes: [node][element]. */
void *oct__cohort_x(const struct oct__cohort *cohort);

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
