/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the schedules there are: too small to be files of their own. */
#include "train/schedule.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/spec.h"

/* ResNets: a tenth at half of the epochs, a hundredth at three quarters. */
static double step_factor(double progress, double every) {
    (void)every;
    return progress < 0.5 ? 1.0 : progress < 0.75 ? 0.1 : 0.01;
}

/* VGG: halved every 15 % (30 of 200 epochs). */
static double halving_factor(double progress, double every) {
    return pow(0.5, floor(progress / every + 1e-9));
}

static double cosine_factor(double progress, double every) {
    (void)every;
    return 0.5 * (1.0 + cos(3.14159265358979323846 * progress));
}

static double constant_factor(double progress, double every) {
    (void)progress;
    (void)every;
    return 1.0;
}

static const struct oct__schedule schedules[] = {
    {{.name = "step", .summary = "a tenth at 50 % and again at 75 % of the epochs"},
     step_factor,
     0},
    {{.name = "halving",
      .summary = "half every so often",
      .options = "every=X (0.15, of the epochs)"},
     halving_factor,
     0.15},
    {{.name = "cosine", .summary = "down to 0 along a cosine"}, cosine_factor, 0},
    {{.name = "constant", .summary = "the same rate throughout"}, constant_factor, 0},
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

oct_status oct__schedule_read(const char *spec, struct oct__schedule *out) {
    static const struct oct__spec_option none[] = {{NULL, OCT_SPEC_INT, 0, 0, 0, NULL}};
    static const struct oct__spec_option table[] = {
        {"every", OCT_SPEC_REAL, offsetof(struct oct__schedule, every), 0.001, 1, NULL},
        {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
    };
    char name[OCT_SPEC_NAME];
    const char *options;
    OCT_TRY(oct__spec_split(spec, name, &options));
    const struct oct__schedule *kind = oct__schedule_find(name);
    if (!kind) {
        OCT_FAIL(NOT_FOUND, "schedule '%s' is not known; octet info lists them", name);
    }
    *out = *kind;
    return oct__spec_read(name, options, kind->every > 0 ? table : none, out);
}

int64_t oct__schedule_warm_up(int64_t n_steps, int64_t epoch_steps) {
    return n_steps / 20 < epoch_steps ? n_steps / 20 : epoch_steps;
}

double oct__schedule_rate(const struct oct__schedule *schedule, double rate, int64_t step,
                          int64_t n_steps, int64_t epoch_steps) {
    if (step < oct__schedule_warm_up(n_steps, epoch_steps)) {
        return 0.1 * rate;
    }
    return rate * schedule->factor((double)step / (double)n_steps, schedule->every);
}
