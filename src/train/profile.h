/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h - where a step's time goes: its calls, and their sums by kind of work and by layer.
 *
 * Times are milliseconds of a step of all nodes. Where lanes work side by side, a call's time is
 * summed over the lanes and divided by their number, so that calls, messages and what happens around
 * them (drawing samples, reading losses, lanes that wait for others) add up to the step. Each is a
 * median of its own: where something disturbs the machine, they add up to less, because that meets few
 * of a step's calls and is in none of their medians.
 *
 * Where an engine knows its ceilings (engine.h), every call has a floor: the longer of the times that
 * its bytes and its operations take at the ceilings. Elsewhere a product's floor is measured, and
 * other calls have none. There, too, calls are timed in steps of their own, with stamps between them,
 * which make a step longer: they may add up to more than the step.
 */
#ifndef OCT_TRAIN_PROFILE_H
#define OCT_TRAIN_PROFILE_H

#include "base/arena.h"
#include "train/cost.h"

struct oct__profile_call {
    const char *layer, *op;
    int layer_id; /* -1: the update */
    enum oct__work work;
    double ms, floor_ms; /* floor without ceilings: a product alone, in a pass of its own; 0 for all
                            else */
    uint64_t madds, bytes;          /* of all nodes */
    double bytes_ms, operations_ms; /* at the ceilings; 0 where nobody knows them */
};

struct oct__step_profile {
    struct oct__arena arena;         /* calls and names */
    struct oct__profile_call *calls; /* those that run, in their order */
    size_t n_calls;
    double step_ms;                /* of whole steps */
    double gossip_ms, around_ms;   /* of messages; of what is neither a call nor a message */
    int n_steps;                   /* times are medians over so many */
    struct oct__ceilings ceilings; /* bytes_per_s 0: nobody knows them */
};

static inline int oct__profile_has_ceilings(const struct oct__step_profile *profile) {
    return profile->ceilings.bytes_per_s > 0;
}

void oct__step_profile_fini(struct oct__step_profile *profile);

struct oct__profile_sum {
    size_t n_calls;
    double ms, floor_ms; /* floors are summed call by call */
    uint64_t madds, bytes;
    double bytes_ms, operations_ms;
};

/* Adds a call, or another sum. */
void oct__profile_add(struct oct__profile_sum *sum, const struct oct__profile_call *call);
void oct__profile_join(struct oct__profile_sum *sum, const struct oct__profile_sum *other);

/* By kind of work; returns the sum of all calls. */
struct oct__profile_sum oct__profile_kinds(const struct oct__step_profile *profile,
                                           struct oct__profile_sum kinds[OCT_WORK_COUNT]);

/* What the step takes more than its parts together; not below 0. */
double oct__profile_disturbed(const struct oct__step_profile *profile);

struct oct__profile_layer {
    const char *name;
    int id;
    double product_ms[OCT_WORK_PRODUCTS];
    double element_ms;
    struct oct__profile_sum all;
};

/* By layer in the order of the network, the update last; `layers` has room for one a call. Returns
 * how many there are. */
size_t oct__profile_layers(const struct oct__step_profile *profile,
                           struct oct__profile_layer *layers);

/* The kind of work that costs most above its floor, and how much. */
enum oct__work oct__profile_gap(const struct oct__profile_sum kinds[OCT_WORK_COUNT], double *ms);

#endif
