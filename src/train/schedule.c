/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the schedules there are: too small to be files of their own. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

/* ResNets: a tenth at half of the epochs, a hundredth at three quarters. */
static double step_factor(double progress) {
    return progress < 0.5 ? 1.0 : progress < 0.75 ? 0.1 : 0.01;
}

/* VGG: halved every 15 % (30 of 200 epochs). */
static double halving_factor(double progress) {
    return pow(0.5, floor(progress / 0.15 + 1e-9));
}

static double cosine_factor(double progress) {
    return 0.5 * (1.0 + cos(3.14159265358979323846 * progress));
}

static double constant_factor(double progress) {
    (void)progress;
    return 1.0;
}

static const struct oct__schedule schedules[] = {
    {{.name = "step", .summary = "a tenth at 50 % and again at 75 % of the epochs"}, step_factor},
    {{.name = "halving", .summary = "half every 15 % of the epochs"}, halving_factor},
    {{.name = "cosine", .summary = "down to 0 along a cosine"}, cosine_factor},
    {{.name = "constant", .summary = "the same rate throughout"}, constant_factor},
};

const struct oct__schedule *oct__schedule_at(int index) {
    return index >= 0 && (size_t)index < OCT_COUNT_OF(schedules) ? &schedules[index] : NULL;
}

const struct oct__schedule *oct__schedule_find(const char *name) {
    for (size_t i = 0; i < OCT_COUNT_OF(schedules); i++) {
        if (strcmp(schedules[i].plugin.name, name) == 0) {
            return &schedules[i];
        }
    }
    return NULL;
}

double oct__schedule_rate(const struct oct__schedule *schedule, double rate, int64_t step,
                          int64_t n_steps, int64_t epoch_steps) {
    int64_t warm_up = n_steps / 20 < epoch_steps ? n_steps / 20 : epoch_steps;
    if (step < warm_up) {
        return 0.1 * rate;
    }
    return rate * schedule->factor((double)step / (double)n_steps);
}
