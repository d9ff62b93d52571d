/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - runs side by side, or one: making them, letting them run, giving back what they took.
 */
#include "train/trainer.h"

#include <stdio.h>

#include "base/folder.h"
#include "train/config.h"

/* --- making and giving back ------------------------------------------------------------------ */

static void free_run(struct oct_trainer *trainer) {
    oct_topology_destroy(trainer->topology);
    oct_partition_destroy(trainer->partition);
    oct__graph_fini(&trainer->graph);
    oct_dataset_close(trainer->owned_train);
    oct_dataset_close(trainer->owned_test);
    if (trainer->config) {
        oct__folder_leave(trainer->config->checkpoint, trainer->key);
    }
    oct_config_destroy(trainer->config);
    oct__free(trainer->test_rows);
    oct__free(trainer->nodes);
    oct__nodes_free(trainer);
    oct__absence_free(trainer);
    oct__together_free(trainer);
    oct__free(trainer);
}

/* What is in the engine's memory goes before the engine, and all that refers to a run before the
 * run. */
static void destroy(struct oct__group *group) {
    int n = 0;
    for (; group->runs && n < group->n && group->runs[n]; n++) {
        oct__exchange_destroy(group->runs[n]->exchange);
        oct__gossip_destroy(group->runs[n]->gossip);
        oct__gossip_destroy(group->runs[n]->statistics);
    }
    oct__crew_destroy(group->crew);
    for (int i = 0; i < n; i++) {
        oct__cohort_destroy(group->runs[i]->cohort);
    }
    oct__engine_close(group->engine);
    for (int i = 0; i < n; i++) {
        free_run(group->runs[i]);
    }
    oct__free(group->runs);
    oct__free(group);
}

/* One more run, from its configuration. */
static oct_status add(struct oct__group *group, int number, const struct oct_config *config,
                      const struct oct_hooks *hooks) {
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_trainer), "trainer", &memory));
    struct oct_trainer *trainer = group->runs[number] = memory;
    trainer->group = group;
    trainer->number = number;
    if (hooks) {
        trainer->hooks = *hooks;
    }
    OCT_TRY(oct__trainer_set_up(trainer, config));
    const int64_t first = group->runs[0]->step;
    if (trainer->step != first) {
        OCT_FAIL(INVALID,
                 "runs side by side are after the same step, and these after steps %lld and %lld: "
                 "let each go on by itself",
                 (long long)first, (long long)trainer->step);
    }
    return OCT_OK;
}

oct_status oct__group_make(const struct oct_config *const *configs, const struct oct_hooks *hooks,
                           int n, struct oct__engine *take, struct oct__group **out) {
    void *memory;
    oct_status status = oct__alloc(sizeof(struct oct__group), "trainer", &memory);
    if (status != OCT_OK) {
        oct__engine_close(take);
        return status;
    }
    struct oct__group *group = memory;
    group->n = n;
    group->engine = take;
    status = oct__alloc_array((size_t)n, sizeof(struct oct_trainer *), "trainer", &memory);
    group->runs = status == OCT_OK ? memory : NULL;
    for (int i = 0; i < n && status == OCT_OK; i++) {
        status = add(group, i, configs[i], hooks ? &hooks[i] : NULL);
    }
    if (status != OCT_OK) {
        destroy(group);
        return status;
    }
    group->n_held = n;
    *out = group;
    return OCT_OK;
}

oct_status oct_trainer_create(const struct oct_config *config, const struct oct_hooks *hooks,
                              struct oct_trainer **out) {
    if (!config || !out) {
        OCT_FAIL(INVALID, "a trainer needs a configuration and a place to be returned");
    }
    struct oct__group *group;
    OCT_TRY(oct__group_make(&config, hooks, 1, NULL, &group));
    *out = group->runs[0];
    return OCT_OK;
}

/* Whether run `i` can go beside the first, as far as it is known before options are complete. */
static oct_status check_hooks(const struct oct_config *const *configs,
                              const struct oct_hooks *hooks, int i) {
    if (!configs[i]) {
        OCT_FAIL(INVALID, "oct_trainers_create: configuration %d is NULL", i);
    }
    if (hooks && (hooks[i].train != hooks[0].train || hooks[i].test != hooks[0].test)) {
        OCT_FAIL(INVALID, "your own data: runs side by side all have the same");
    }
    if (hooks &&
        (hooks[i].model != hooks[0].model || hooks[i].model_context != hooks[0].model_context)) {
        OCT_FAIL(INVALID, "your own model: runs side by side all have the same");
    }
    return OCT_OK;
}

oct_status oct_trainers_create(const struct oct_config *const *configs,
                               const struct oct_hooks *hooks, int n, struct oct_trainer **out) {
    if (!configs || !out || n < 1 || n > OCT_RUNS_MOST) {
        OCT_FAIL(INVALID,
                 "runs side by side need their configurations and a place to be returned, and are "
                 "1 to %d",
                 OCT_RUNS_MOST);
    }
    for (int i = 0; i < n; i++) {
        OCT_TRY(check_hooks(configs, hooks, i));
    }
    struct oct__group *group;
    OCT_TRY(oct__group_make(configs, hooks, n, NULL, &group));
    for (int i = 0; i < n; i++) {
        out[i] = group->runs[i];
    }
    return OCT_OK;
}

void oct_trainer_destroy(struct oct_trainer *trainer) {
    if (trainer && --trainer->group->n_held == 0) {
        destroy(trainer->group);
    }
}

/* --- running --------------------------------------------------------------------------------- */

oct_status oct__trainer_rests(const struct oct_trainer *trainer, const char *what) {
    if (trainer->group->is_running) {
        OCT_FAIL(INVALID, "%s: not from a progress callback; wait until the run has returned",
                 what);
    }
    return OCT_OK;
}

static void run_all(struct oct__group *group) {
    group->is_running = 1;
    oct__trainer_run_all(group);
    group->is_running = 0;
}

oct_status oct_trainer_run(struct oct_trainer *trainer) {
    if (!trainer) {
        OCT_FAIL(INVALID, "running needs a trainer");
    }
    OCT_TRY(oct__trainer_rests(trainer, "running"));
    if (trainer->group->n > 1) {
        OCT_FAIL(INVALID, "this run goes side by side with %d others: oct_trainers_run",
                 trainer->group->n - 1);
    }
    oct__ranks_enter(trainer->ranks);
    uint64_t watches = trainer->watches != 0; /* anybody's wish is everybody's work */
    oct__trainer_begin(trainer);
    oct__trainer_end(trainer, oct__ranks_count(trainer->ranks, &watches, 1));
    trainer->watches = watches > 0;
    run_all(trainer->group);
    return oct__ranks_leave(trainer->ranks, oct__trainer_ending(trainer));
}

static int are_all_of(const struct oct__group *group, struct oct_trainer *const *trainers, int n) {
    int same = n == group->n;
    for (int i = 0; same && i < n; i++) {
        same = trainers[i] == group->runs[i];
    }
    return same;
}

oct_status oct_trainers_run(struct oct_trainer *const *trainers, int n,
                            struct oct_ending *endings) {
    if (!trainers || n < 1 || !trainers[0]) {
        OCT_FAIL(INVALID, "running needs trainers");
    }
    struct oct__group *group = trainers[0]->group;
    if (!are_all_of(group, trainers, n)) {
        OCT_FAIL(INVALID, "these are not the %d trainers that were made together, in their order",
                 group->n);
    }
    OCT_TRY(oct__trainer_rests(trainers[0], "running"));
    if (n == 1) {
        oct_status status = oct_trainer_run(trainers[0]);
        if (endings) {
            endings[0].status = status;
            snprintf(endings[0].reason, sizeof endings[0].reason, "%s",
                     status == OCT_OK ? "" : oct_last_error());
        }
        return status;
    }
    for (int i = 0; i < n; i++) {
        oct__trainer_begin(trainers[i]);
    }
    run_all(group);
    int first = n;
    for (int i = n - 1; i >= 0; i--) {
        const struct oct_trainer *run = trainers[i];
        first = run->status == OCT_OK ? first : i;
        if (endings) {
            endings[i].status = run->status;
            snprintf(endings[i].reason, sizeof endings[i].reason, "%s",
                     run->status == OCT_OK ? "" : run->reason);
        }
    }
    return first == n ? OCT_OK : oct__trainer_ending(trainers[first]);
}
