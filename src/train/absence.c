/* SPDX-License-Identifier: Apache-2.0 */
/* absence.c - nodes that are away for some steps, and those that come back: docs/FAULTS.md.
 *
 * Nodes are computed together, so a step is done for those that are away, too; afterwards their rows are
 * put back, as a disk would have kept them, and nobody counts what they found. A node that comes back
 * without its memory starts as every node does, with a model, weight 1 and no momentum; the model is that
 * of a neighbour, sent whole.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/spec.h"
#include "compress/wire.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

/* Rows of a node that a step changes. */
static const int homes[] = {OCT_HOME_PARAM,     OCT_HOME_MOMENTUM, OCT_HOME_STAT,
                            OCT_HOME_NUMERATOR, OCT_HOME_ANCHOR,   OCT_HOME_SLOW};

static const struct oct__fault_plan *plan_of(const struct oct_trainer *trainer) {
    return &trainer->exchange->faults->plan;
}

static size_t node_bytes(const struct oct__cohort *cohort) {
    size_t bytes = 0;
    for (size_t i = 0; i < OCT_COUNT_OF(homes); i++) {
        bytes += cohort->stride[homes[i]];
    }
    return bytes;
}

/* Room for the rows of as many nodes as are ever away, at most. */
static oct_status make_room(struct oct_trainer *trainer) {
    size_t n = 0;
    void *memory;
    for (int node = 0; node < trainer->n_nodes; node++) {
        n += oct__fault_steps_away(plan_of(trainer), node, 0, INT64_MAX) > 0;
    }
    OCT_TRY(
        oct__alloc_array(n, node_bytes(trainer->cohort), "rows of nodes that are away", &memory));
    trainer->away_rows = memory;
    return OCT_OK;
}

oct_status oct__absence_make(struct oct_trainer *trainer, const struct oct_config *config) {
    struct oct__fault_plan plan;
    void *memory;
    oct_status status = oct__fault_read(config->fault, &plan);
    if (status == OCT_OK && oct__fault_is_any(&plan)) {
        status = oct__exchange_break(trainer->exchange, &plan, (uint64_t)config->seed);
    }
    oct__fault_fini(&plan);
    OCT_TRY(status);
    if (!trainer->exchange->faults || plan_of(trainer)->n_crashes == 0) {
        return OCT_OK;
    }
    OCT_TRY(oct__alloc((size_t)trainer->n_nodes, "nodes that are away", &memory));
    trainer->away = memory;
    trainer->cohort->away = trainer->away;
    return make_room(trainer);
}

void oct__absence_free(struct oct_trainer *trainer) {
    oct__free(trainer->away);
    oct__free(trainer->away_rows);
}

int64_t oct__absence_present(const struct oct_trainer *trainer) {
    int64_t n = 0;
    for (int node = 0; node < trainer->n_nodes; node++) {
        n += !(trainer->away && trainer->away[node]);
    }
    return n;
}

/* --- coming back ------------------------------------------------------------------------------ */

static int returns_empty(const struct oct_trainer *trainer, int node, int64_t step) {
    return oct__fault_forgets(plan_of(trainer), node, step);
}

/* Whoever has a model to give at this step. */
static int can_give(const struct oct_trainer *trainer, int node, int64_t step) {
    return !trainer->away[node] && !returns_empty(trainer, node, step);
}

/* The lowest in-neighbour of the coming round that has a model, else the lowest node that does; -1
 * where there is nobody to ask. */
static oct_status find_giver(const struct oct_trainer *trainer, int node, int64_t step, int *out) {
    *out = -1;
    if (trainer->algorithm->mixing == OCT_MIXING_NONE) {
        return OCT_OK;
    }
    if (trainer->topology) {
        const struct oct__mix *mix;
        OCT_TRY(
            oct__topology_mix(trainer->topology, (uint32_t)(step / trainer->gossip_every), &mix));
        for (int e = mix->in_start[node]; e < mix->in_start[node + 1]; e++) {
            if (can_give(trainer, mix->from[e], step)) {
                *out = mix->from[e];
                return OCT_OK;
            }
        }
    }
    for (int other = 0; other < trainer->n_nodes && *out < 0; other++) {
        *out = other != node && can_give(trainer, other, step) ? other : -1;
    }
    return OCT_OK;
}

static char *row_at(const struct oct__cohort *cohort, int home, int node) {
    return (char *)cohort->state[home] + (size_t)node * cohort->stride[home];
}

/* A row of one home of a node: the giver's, or the first of a run where there is none; zero. */
static oct_status give(struct oct_trainer *trainer, int from_home, int giver, int to_home,
                       int node) {
    struct oct__cohort *cohort = trainer->cohort;
    struct oct__engine *engine = trainer->engine;
    const size_t bytes = cohort->stride[to_home];
    if (bytes == 0) {
        return OCT_OK;
    }
    if (to_home == OCT_HOME_MOMENTUM || to_home == OCT_HOME_SLOW) {
        memset(cohort->host_row, 0, bytes);
    } else if (giver < 0) {
        const struct oct__row *row =
            to_home == OCT_HOME_STAT ? &trainer->graph.stats : &trainer->graph.params;
        oct__row_init(row, cohort->config.seed, cohort->host_row);
    } else {
        OCT_TRY(engine->read(engine, cohort->host_row, row_at(cohort, from_home, giver), bytes));
    }
    return engine->write(engine, row_at(cohort, to_home, node), cohort->host_row, bytes);
}

/* The giver's z, as x with weight 1. */
static oct_status start_anew(struct oct_trainer *trainer, int node, int64_t step) {
    struct oct__exchange *exchange = trainer->exchange;
    struct oct_fault_counts *counts = &exchange->faults->counts;
    const size_t n_stats = oct__row_count(&trainer->graph.stats);
    int giver;
    OCT_TRY(oct__exchange_count(exchange)); /* which needs the last round's graph */
    OCT_TRY(find_giver(trainer, node, step, &giver));
    OCT_TRY(give(trainer, OCT_HOME_PARAM, giver, OCT_HOME_PARAM, node));
    OCT_TRY(give(trainer, OCT_HOME_PARAM, giver, OCT_HOME_NUMERATOR, node));
    OCT_TRY(give(trainer, OCT_HOME_PARAM, giver, OCT_HOME_ANCHOR, node));
    OCT_TRY(give(trainer, OCT_HOME_SLOW, giver, OCT_HOME_SLOW, node));
    OCT_TRY(give(trainer, OCT_HOME_STAT, giver, OCT_HOME_STAT, node));
    OCT_TRY(give(trainer, OCT_HOME_MOMENTUM, giver, OCT_HOME_MOMENTUM, node));
    OCT_TRY(oct__gossip_forget_node(trainer->gossip, node));
    if (giver < 0) {
        return OCT_OK;
    }
    const uint64_t bytes =
        exchange->dense_bytes + (n_stats > 0 ? (uint64_t)oct__wire_dense(n_stats) : 0);
    counts->repairs++;
    counts->repair_bytes += bytes;
    return oct__exchange_count_other(exchange, giver, node, bytes);
}

/* --- a step ----------------------------------------------------------------------------------- */

void oct__absence_at(struct oct_trainer *trainer, int64_t step) {
    for (int node = 0; trainer->away && node < trainer->n_nodes; node++) {
        trainer->away[node] = (unsigned char)oct__fault_is_away(plan_of(trainer), node, step);
    }
}

/* Moves the rows of nodes that are away to where they are kept, or back. */
static oct_status move_rows(struct oct_trainer *trainer, int is_back) {
    struct oct__cohort *cohort = trainer->cohort;
    struct oct__engine *engine = trainer->engine;
    char *kept = trainer->away_rows;
    for (int node = 0; node < trainer->n_nodes; node++) {
        for (size_t i = 0; trainer->away[node] && i < OCT_COUNT_OF(homes); i++) {
            const size_t bytes = cohort->stride[homes[i]];
            if (bytes > 0) {
                char *row = row_at(cohort, homes[i], node);
                OCT_TRY(is_back ? engine->write(engine, row, kept, bytes)
                                : engine->read(engine, kept, row, bytes));
            }
            kept += bytes;
        }
    }
    return OCT_OK;
}

oct_status oct__absence_return(struct oct_trainer *trainer) {
    if (!trainer->away) {
        return OCT_OK;
    }
    oct__absence_at(trainer, trainer->step);
    for (int node = 0; node < trainer->n_nodes; node++) {
        if (returns_empty(trainer, node, trainer->step)) {
            oct_status status = start_anew(trainer, node, trainer->step);
            if (status != OCT_OK) {
                return oct__fail_within(status, "node %d comes back: ", node);
            }
        }
    }
    return OCT_OK;
}

oct_status oct__absence_begin(struct oct_trainer *trainer) {
    OCT_TRY(oct__absence_return(trainer));
    return trainer->away ? move_rows(trainer, 0) : OCT_OK;
}

oct_status oct__absence_end(struct oct_trainer *trainer) {
    for (int node = 0; trainer->away && node < trainer->n_nodes; node++) {
        if (trainer->away[node]) {
            trainer->nodes[node] = (struct oct__node_step){0};
        }
    }
    return trainer->away ? move_rows(trainer, 1) : OCT_OK;
}

/* --- checkpoints ------------------------------------------------------------------------------ */

#define COUNTS(X)                                                                                  \
    X(absent)                                                                                      \
    X(dropped)                                                                                     \
    X(late)                                                                                        \
    X(overtaken)                                                                                   \
    X(doubled)                                                                                     \
    X(repairs)                                                                                     \
    X(repair_bytes)

#define ONE(name) +1
enum { N_COUNTS = 0 COUNTS(ONE) };
#undef ONE

size_t oct__absence_counters(const struct oct_trainer *trainer) {
    return trainer->exchange->faults ? N_COUNTS + 2 * (size_t)trainer->gossip->n_replicas : 0;
}

static void version_name(const struct oct__edge_replica *replica, const char *end, char name[32]) {
    snprintf(name, 32, "replica.%05d.%05d.%s", replica->from, replica->to, end);
}

void oct__absence_put(const struct oct_trainer *trainer, struct oct__counter *counters) {
    const struct oct__gossip *gossip = trainer->gossip;
    struct oct__counter *at = counters;
    if (!trainer->exchange->faults) {
        return;
    }
#define PUT(member)                                                                                \
    *at++ = (struct oct__counter){"faults." #member,                                               \
                                  (double)trainer->exchange->faults->counts.member};
    COUNTS(PUT)
#undef PUT
    for (int i = 0; i < gossip->n_replicas; i++, at += 2) {
        version_name(&gossip->replicas[i], "own", at[0].name);
        version_name(&gossip->replicas[i], "their", at[1].name);
        at[0].value = (double)gossip->replicas[i].own_version;
        at[1].value = (double)gossip->replicas[i].their_version;
    }
}

static oct_status take_one(const struct oct__manifest *manifest, const char *name, double most,
                           double *out) {
    OCT_TRY(oct__manifest_counter(manifest, name, out));
    if (!(*out >= 0 && *out <= most && floor(*out) == *out)) {
        OCT_FAIL(CORRUPT, "%s: %s is %g", manifest->path, name, *out);
    }
    return OCT_OK;
}

oct_status oct__absence_take(struct oct_trainer *trainer, const struct oct__manifest *manifest) {
    struct oct__gossip *gossip = trainer->gossip;
    double value;
    oct__absence_at(trainer, trainer->step - (trainer->final_done == 0 && trainer->step > 0));
    if (!trainer->exchange->faults) {
        return OCT_OK;
    }
#define TAKE(member)                                                                               \
    OCT_TRY(take_one(manifest, "faults." #member, 0x1p53, &value));                                \
    trainer->exchange->faults->counts.member = (uint64_t)value;
    COUNTS(TAKE)
#undef TAKE
    for (int i = 0; i < gossip->n_replicas; i++) {
        char name[32];
        version_name(&gossip->replicas[i], "own", name);
        OCT_TRY(take_one(manifest, name, UINT32_MAX, &value));
        gossip->replicas[i].own_version = (uint32_t)value;
        version_name(&gossip->replicas[i], "their", name);
        OCT_TRY(take_one(manifest, name, UINT32_MAX, &value));
        gossip->replicas[i].their_version = (uint32_t)value;
    }
    return OCT_OK;
}
