/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c - sums of a step's calls; bench.c times them. */
#include "train/profile.h"

#include <string.h>

void oct__step_profile_fini(struct oct__step_profile *profile) {
    oct__arena_fini(&profile->arena);
    memset(profile, 0, sizeof *profile);
}

void oct__profile_join(struct oct__profile_sum *sum, const struct oct__profile_sum *other) {
    sum->n_calls += other->n_calls;
    sum->ms += other->ms;
    sum->floor_ms += other->floor_ms;
    sum->madds += other->madds;
    sum->bytes += other->bytes;
    sum->bytes_ms += other->bytes_ms;
    sum->operations_ms += other->operations_ms;
}

void oct__profile_add(struct oct__profile_sum *sum, const struct oct__profile_call *call) {
    const struct oct__profile_sum alone = {
        .n_calls = 1,
        .ms = call->ms,
        .floor_ms = call->floor_ms,
        .madds = call->madds,
        .bytes = call->bytes,
        .bytes_ms = call->bytes_ms,
        .operations_ms = call->operations_ms,
    };
    oct__profile_join(sum, &alone);
}

struct oct__profile_sum oct__profile_kinds(const struct oct__step_profile *profile,
                                           struct oct__profile_sum kinds[OCT_WORK_COUNT]) {
    struct oct__profile_sum all = {0};
    memset(kinds, 0, OCT_WORK_COUNT * sizeof *kinds);
    for (size_t i = 0; i < profile->n_calls; i++) {
        oct__profile_add(&kinds[profile->calls[i].work], &profile->calls[i]);
        oct__profile_add(&all, &profile->calls[i]);
    }
    return all;
}

double oct__profile_disturbed(const struct oct__step_profile *profile) {
    double left = profile->step_ms - profile->gossip_ms - profile->around_ms;
    for (size_t i = 0; i < profile->n_calls; i++) {
        left -= profile->calls[i].ms;
    }
    return left > 0 ? left : 0;
}

/* The place of a layer in the list, which is kept in order; the update has the largest number. */
static struct oct__profile_layer *find(struct oct__profile_layer *layers, size_t *n,
                                       const struct oct__profile_call *call) {
    const unsigned id = (unsigned)call->layer_id;
    size_t at = 0;
    while (at < *n && (unsigned)layers[at].id < id) {
        at++;
    }
    if (at == *n || layers[at].id != call->layer_id) {
        memmove(layers + at + 1, layers + at, (*n - at) * sizeof *layers);
        layers[at] = (struct oct__profile_layer){.name = call->layer, .id = call->layer_id};
        (*n)++;
    }
    return &layers[at];
}

size_t oct__profile_layers(const struct oct__step_profile *profile,
                           struct oct__profile_layer *layers) {
    size_t n = 0;
    for (size_t i = 0; i < profile->n_calls; i++) {
        const struct oct__profile_call *call = &profile->calls[i];
        struct oct__profile_layer *layer = find(layers, &n, call);
        *(call->work < OCT_WORK_PRODUCTS ? &layer->product_ms[call->work] : &layer->element_ms) +=
            call->ms;
        oct__profile_add(&layer->all, call);
    }
    return n;
}

enum oct__work oct__profile_gap(const struct oct__profile_sum kinds[OCT_WORK_COUNT], double *ms) {
    enum oct__work worst = OCT_WORK_FORWARD;
    for (int i = 0; i < OCT_WORK_COUNT; i++) {
        const double gap = kinds[i].ms - kinds[i].floor_ms;
        if (gap > kinds[worst].ms - kinds[worst].floor_ms) {
            worst = (enum oct__work)i;
        }
    }
    *ms = kinds[worst].ms - kinds[worst].floor_ms;
    return worst;
}
