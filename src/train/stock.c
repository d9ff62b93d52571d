/* SPDX-License-Identifier: Apache-2.0 */
/* stock.c - what a run consists of, for its checkpoints: each node's rows, and a few numbers.
 *
 * A node's rows are x, momentum, the two of slow momentum, statistics (running ranges among them),
 * whatever memory its gossip has, and a replica for each edge it has sent over ("edge.3"). z follows
 * from x and the push-sum weight; samplers, schedules and random streams follow from the step.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/checkpoint.h"
#include "train/trainer.h"

/* The numbers that say where a run stands; weights and figures of the nodes follow them. */
#define COUNTERS(X)                                                                                \
    X("epochs", epochs_done, int)                                                                  \
    X("final_rounds", final_done, int)                                                             \
    X("epoch_loss", epoch_loss, double)                                                            \
    X("epoch_hits", epoch_hits, int64_t)                                                           \
    X("epoch_samples", epoch_samples, int64_t)                                                     \
    X("samples", samples_seen, int64_t)                                                            \
    X("messages", exchange->traffic.messages, uint64_t)                                            \
    X("bytes", exchange->traffic.bytes, uint64_t)                                                  \
    X("bytes_dense", exchange->traffic.dense, uint64_t)                                            \
    X("final_messages", final_traffic.messages, uint64_t)                                          \
    X("final_bytes", final_traffic.bytes, uint64_t)                                                \
    X("final_dense", final_traffic.dense, uint64_t)                                                \
    X("seconds", seconds, double)                                                                  \
    X("train_seconds", train_seconds, double)                                                      \
    X("gossip_seconds", gossip_seconds, double)

/* What checkpoints of the first versions do not have. */
#define NEWER_COUNTERS(X) X("checkpoint_seconds", checkpoint_seconds, double) /* before this one */

#define ONE(name, member, type) +1
enum { N_COUNTERS = 0 COUNTERS(ONE) NEWER_COUNTERS(ONE) };
#undef ONE

/* --- rows ------------------------------------------------------------------------------------ */

/* One of a node's rows: its name, and where it lies. */
struct place {
    char name[32];
    const struct oct__row *row;
    void *at;
};

static void set_place(struct place *place, const char *name, const struct oct__row *row,
                      void *first, int index) {
    snprintf(place->name, sizeof place->name, "%s", name);
    place->row = row;
    place->at = index < 0 ? NULL : (char *)first + (size_t)index * row->n_elements * sizeof(float);
}

/* Row `index` of a node; 0 past the end. Those of a node that another rank hosts are nowhere. */
static int place_at(const struct oct_trainer *trainer, int node, int index, struct place *out) {
    const struct oct__cohort *cohort = trainer->cohort;
    const struct oct__gossip *gossip = trainer->gossip;
    const struct oct__row *params = &trainer->graph.params;
    const int at = oct__gossip_hosts(gossip, node) ? node - trainer->first_node : -1;
    if (index-- == 0) {
        set_place(out, "x", params, oct__cohort_x(cohort), at);
        return 1;
    }
    if (index-- == 0) {
        set_place(out, "momentum", params, cohort->state[OCT_HOME_MOMENTUM], at);
        return 1;
    }
    if (cohort->state[OCT_HOME_ANCHOR] && index-- == 0) {
        set_place(out, "anchor", params, cohort->state[OCT_HOME_ANCHOR], at);
        return 1;
    }
    if (cohort->state[OCT_HOME_SLOW] && index-- == 0) {
        set_place(out, "slow", params, cohort->state[OCT_HOME_SLOW], at);
        return 1;
    }
    if (trainer->graph.stats.n_items > 0 && index-- == 0) {
        set_place(out, "statistics", &trainer->graph.stats, cohort->state[OCT_HOME_STAT], at);
        return 1;
    }
    for (int memory = 0; memory < OCT_MEMORY_COUNT; memory++) {
        if (gossip->memory[memory] && index-- == 0) {
            set_place(out, oct__memory_name[memory], params, gossip->memory[memory], at);
            return 1;
        }
    }
    for (int i = 0; i < gossip->n_replicas; i++) {
        if (gossip->replicas[i].from == node && index-- == 0) {
            set_place(out, "", params, gossip->replicas[i].own, 0);
            snprintf(out->name, sizeof out->name, "edge.%d", gossip->replicas[i].to);
            return 1;
        }
    }
    return 0;
}

static int shelf_at(void *context, int node, int index, struct oct__shelf *out) {
    struct place place;
    if (!place_at(context, node, index, &place)) {
        return 0;
    }
    memcpy(out->name, place.name, sizeof out->name);
    out->row = place.row;
    return 1;
}

static oct_status shelf_read(void *context, int node, int index, float *values) {
    const struct oct_trainer *trainer = context;
    struct place place;
    if (!place_at(trainer, node, index, &place)) {
        OCT_FAIL(INTERNAL, "node %d has no row %d", node, index);
    }
    return trainer->engine->read(trainer->engine, values, place.at,
                                 place.row->n_elements * sizeof *values);
}

/* "edge.3" of a checkpoint may be a replica that this run has not made yet. */
static int edge_of(const struct oct_trainer *trainer, const char *name, int *to) {
    int64_t number;
    char exactly[32];
    if (strncmp(name, "edge.", 5) != 0 || !oct__gossip_has_edge_replicas(trainer->gossip) ||
        oct__spec_int("edge", name + 5, 0, trainer->n_nodes - 1, &number) != OCT_OK) {
        return 0;
    }
    *to = (int)number;
    snprintf(exactly, sizeof exactly, "edge.%d", *to);
    return strcmp(name, exactly) == 0;
}

static int place_find(const struct oct_trainer *trainer, int node, const char *name,
                      struct place *out) {
    for (int i = 0; place_at(trainer, node, i, out); i++) {
        if (strcmp(out->name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

static const struct oct__row *shelf_row(void *context, int node, const char *name) {
    const struct oct_trainer *trainer = context;
    struct place place;
    int to;
    if (place_find(trainer, node, name, &place)) {
        return place.row;
    }
    return edge_of(trainer, name, &to) ? &trainer->graph.params : NULL;
}

static oct_status shelf_write(void *context, int node, const char *name, const struct oct__row *row,
                              const float *values) {
    struct oct_trainer *trainer = context;
    struct oct__engine *engine = trainer->engine;
    const size_t bytes = row->n_elements * sizeof *values;
    struct place place;
    int to;
    if (edge_of(trainer, name, &to)) {
        struct oct__edge_replica *replica;
        OCT_TRY(oct__gossip_replica(trainer->gossip, node, to, &replica));
        if (replica->own) {
            OCT_TRY(engine->write(engine, replica->own, values, bytes));
        }
        return !replica->theirs || replica->theirs == replica->own
                   ? OCT_OK
                   : engine->write(engine, replica->theirs, values, bytes);
    }
    if (!place_find(trainer, node, name, &place)) {
        OCT_FAIL(NOT_FOUND, "node %d has no row called %s", node, name);
    }
    return engine->write(engine, place.at, values, bytes);
}

/* Of a node that another rank hosts, what nodes here know of it. */
static int shelf_wanted(void *context, int node, const char *name) {
    const struct oct_trainer *trainer = context;
    int to;
    return oct__gossip_hosts(trainer->gossip, node) ||
           (edge_of(trainer, name, &to) && oct__gossip_hosts(trainer->gossip, to));
}

/* --- numbers --------------------------------------------------------------------------------- */

static struct oct__stock stock_of(struct oct_trainer *trainer) {
    return (struct oct__stock){
        .config = trainer->config,
        .step = (uint64_t)trainer->step,
        .n_nodes = trainer->n_nodes,
        .ranks = trainer->ranks,
        .first_node = trainer->first_node,
        .n_hosted = trainer->n_hosted,
        .reads_others = oct__gossip_has_edge_replicas(trainer->gossip),
        .wanted = shelf_wanted,
        .context = trainer,
        .shelf = shelf_at,
        .read = shelf_read,
        .write = shelf_write,
        .row = shelf_row,
    };
}

static void weight_name(int node, char name[32]) {
    snprintf(name, 32, "weight.%05d", node);
}

oct_status oct__trainer_keep(struct oct_trainer *trainer, const char *folder) {
    struct oct__stock stock = stock_of(trainer);
    void *memory;
    stock.n_counters = N_COUNTERS + (size_t)trainer->n_nodes + oct__nodes_counters(trainer) +
                       oct__absence_counters(trainer);
    OCT_TRY(oct__alloc_array(stock.n_counters, sizeof *stock.counters, "counters", &memory));
    stock.counters = memory;
    struct oct__counter *counter = stock.counters;
#define PUT(title, member, type)                                                                   \
    *counter++ = (struct oct__counter){.name = title, .value = (double)trainer->member};
    COUNTERS(PUT)
    NEWER_COUNTERS(PUT)
#undef PUT
    for (int node = 0; node < trainer->n_nodes; node++, counter++) {
        weight_name(node, counter->name);
        counter->value = trainer->gossip->u[node];
    }
    oct__nodes_put(trainer, counter);
    oct__absence_put(trainer, counter + oct__nodes_counters(trainer));
    oct_status status = oct__checkpoint_save(folder, &stock);
    oct__free(stock.counters);
    return status;
}

/* The largest value that a counter can have had: what was counted is exact as a number of the
 * manifest, what was added up may be anything finite. */
#define MOST(type) _Generic((type)0, int : (double)INT_MAX, double : DBL_MAX, default : 0x1p53)

static int has_counter(const struct oct__manifest *manifest, const char *name) {
    double value;
    return oct__manifest_counter(manifest, name, &value) == OCT_OK;
}

static oct_status take_counters(struct oct_trainer *trainer, const struct oct__manifest *manifest) {
    double value;
#define TAKE(title, member, type)                                                                  \
    OCT_TRY(oct__manifest_counter(manifest, title, &value));                                       \
    if (!(value >= 0 && value <= MOST(type))) {                                                    \
        OCT_FAIL(CORRUPT, "%s: " title " is %g", manifest->path, value);                           \
    }                                                                                              \
    trainer->member = (type)value;
    COUNTERS(TAKE)
#define TAKE_NEWER(title, member, type)                                                            \
    if (has_counter(manifest, title)) {                                                            \
        TAKE(title, member, type)                                                                  \
    }
    NEWER_COUNTERS(TAKE_NEWER)
#undef TAKE_NEWER
#undef TAKE
    for (int node = 0; node < trainer->n_nodes; node++) {
        char name[32];
        weight_name(node, name);
        OCT_TRY(oct__manifest_counter(manifest, name, &value));
        if (!(isfinite(value) && value > 0.0)) {
            OCT_FAIL(CORRUPT, "%s: %s is %g", manifest->path, name, value);
        }
        trainer->gossip->u[node] = value;
    }
    return OCT_OK;
}

/* --- going on -------------------------------------------------------------------------------- */

static oct_status resume(struct oct_trainer *trainer, const struct oct__manifest *manifest) {
    const int64_t n_steps = trainer->epoch_steps * trainer->n_epochs;
    if (manifest->n_nodes != trainer->n_nodes) {
        OCT_FAIL(INVALID, "%s is a run of %d nodes, and this one has %d", manifest->path,
                 manifest->n_nodes, trainer->n_nodes);
    }
    if (manifest->step > (uint64_t)n_steps) {
        OCT_FAIL(INVALID, "%s is after step %llu, and this run ends at step %lld", manifest->path,
                 (unsigned long long)manifest->step, (long long)n_steps);
    }
    OCT_TRY(take_counters(trainer, manifest));
    trainer->step = (int64_t)manifest->step;
    const int64_t first = trainer->epochs_done * trainer->epoch_steps;
    if (trainer->step < first || trainer->step > first + trainer->epoch_steps ||
        trainer->final_done > trainer->n_final ||
        (trainer->final_done > 0 && trainer->step < n_steps)) {
        OCT_FAIL(CORRUPT, "%s: %d epochs and %d final rounds after step %lld of %lld an epoch",
                 manifest->path, trainer->epochs_done, trainer->final_done,
                 (long long)trainer->step, (long long)trainer->epoch_steps);
    }
    struct oct__stock stock = stock_of(trainer);
    OCT_TRY(oct__checkpoint_load(manifest, &stock));
    OCT_TRY(oct__absence_take(trainer, manifest));
    OCT_TRY(oct__nodes_take(trainer, manifest));
    oct__together_begin(trainer);
    const struct oct__step now = {.number = (uint32_t)trainer->step};
    OCT_TRY(oct__crew_settle(trainer->cohort->crew, &now));
    return oct__cohort_standing(trainer->cohort);
}

oct_status oct__trainer_resume(struct oct_trainer *trainer, const char *folder) {
    struct oct__manifest *manifest;
    OCT_TRY(oct__manifest_open(folder, &manifest));
    oct_status status = resume(trainer, manifest);
    oct__manifest_close(manifest);
    return status;
}
