/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - the learning rate over a run. */
#ifndef OCT_TRAIN_SCHEDULE_H
#define OCT_TRAIN_SCHEDULE_H

#include <stdint.h>

#include <octet/plugin.h>

#include "base/fail.h"

struct oct__schedule {
    struct oct_plugin plugin;
    /* Factor of the highest rate at `progress` in [0, 1): the share of the run that is done. */
    double (*factor)(double progress, double every);
    double
        every; /* an option of some: the share of the run from one change to the next; 0: of none */
};

const struct oct__schedule *oct__schedule_at(int index);
const struct oct__schedule *oct__schedule_find(const char *name);

/* The schedule that "halving:0.3" means. */
OCT_MUST_CHECK oct_status oct__schedule_read(const char *spec, struct oct__schedule *out);

/* Steps of warm-up: the first epoch or the first twentieth of the run, whichever is shorter. */
int64_t oct__schedule_warm_up(int64_t n_steps, int64_t epoch_steps);

/* The rate of step `step` of `n_steps`, a tenth of `rate` while it warms up. Progress counts steps, so
 * that a run of two epochs has a whole schedule too; with the papers' 200 epochs the changes fall on
 * the ends of epochs. */
double oct__schedule_rate(const struct oct__schedule *schedule, double rate, int64_t step,
                          int64_t n_steps, int64_t epoch_steps);

#endif
