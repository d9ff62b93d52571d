/* SPDX-License-Identifier: Apache-2.0 */
/* test_side_by_side.c - runs side by side: each is the run that it is alone, on every engine.
 *
 * On a wide engine (cuda, on an emulated GPU: tests/cuda; and a CPU that is told to be wide)
 * launches go over the nodes of all runs, elsewhere one run's nodes come after another's. Either
 * way a run has its bits, messages and figures; one that fails leaves the others alone; and all
 * stop after the same step and go on from there.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "engine/engine.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/trainer.h"

enum { RUNS = 3 };

/* Options as "name=value" texts; NULL ends them. */
struct options {
    const char *texts[12];
};

/* Runs that go together: what all have, and what each has for itself. */
struct company {
    const char *name;
    struct options all, own[RUNS];
};

static const struct company companies[] = {
    {"doubly stochastic, fp32",
     {{"precision=fp32", "momentum=local", "final-gossip=2"}},
     {{{"seed=1", "partition=skew:0", "algorithm=choco", "compress=none"}},
      {{"seed=2", "partition=skew:0.8", "algorithm=choco", "compress=topk:0.9,values=int8"}},
      {{"seed=9", "partition=skew:1", "algorithm=deepsqueeze", "compress=randk:0.5",
        "topology=ring"}}}},
    {"doubly stochastic, int8",
     {{"precision=int8", "momentum=local", "activation-rounding=stochastic"}},
     {{{"seed=1", "partition=skew:0", "algorithm=dpsgd", "compress=none"}},
      {{"seed=5", "partition=skew:0.8", "algorithm=choco", "compress=int8", "final-gossip=3"}},
      {{"seed=5", "partition=dirichlet:0.3", "algorithm=choco", "compress=topk:0.8",
        "gamma=0.1"}}}},
    {"push-sum, int8, quasi-global momentum",
     {{"precision=int8", "momentum=qgm", "final-gossip=2"}},
     {{{"seed=3", "algorithm=sgp", "topology=one-peer-exponential", "compress=qsgd:4"}},
      {{"seed=3", "algorithm=quant-sgp", "topology=exponential", "compress=sign"}},
      {{"seed=4", "algorithm=sparse-push", "topology=star", "compress=topk:0.5,values=int8"}}}},
    {"rare rounds, slow momentum, clipped",
     {{"precision=int8", "momentum=local", "gossip-every=2", "slow-momentum=0.9", "clip-gradient=1",
       "precision-recipe=paper:eps=0.0032,reach=24"}},
     {{{"seed=1", "algorithm=sgp", "compress=int8"}},
      {{"seed=2", "algorithm=sgp", "compress=int8", "topology=complete"}},
      {{"seed=3", "algorithm=sgp", "compress=none"}}}},
    {"dropout, faults",
     {{"precision=fp32", "momentum=local", "model=vgg11:width=4", "norm=groupnorm",
       "test-every=2"}},
     {{{"seed=1", "algorithm=choco", "fault=drop:p=0.2"}},
      {{"seed=2", "algorithm=choco", "fault=crash:node=1,step=2,back=4"}},
      {{"seed=3", "algorithm=choco"}}}},
};

/* --- making them ------------------------------------------------------------------------------ */

static void set_all(struct oct_config *config, const struct options *options) {
    for (size_t i = 0; i < OCT_COUNT_OF(options->texts) && options->texts[i]; i++) {
        char name[64];
        const char *value = strchr(options->texts[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(value - options->texts[i]), options->texts[i]);
        EXPECT_OK(oct_config_set(config, name, value + 1));
    }
}

static struct oct_config *configure(const struct company *company, int run, const char *engine) {
    static const struct options base = {{"model=resnet20:width=8,blocks=1",
                                         "data=synthetic:samples=60,size=8", "nodes=4", "batch=5",
                                         "epochs=2", "lr=0.05", "threads=2"}};
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    set_all(config, &base);
    EXPECT_OK(oct_config_set(config, "engine", strcmp(engine, "wide") == 0 ? "cpu" : engine));
    set_all(config, &company->all);
    set_all(config, &company->own[run]);
    return config;
}

/* Everything about a run that does not measure time, as text: structures have bytes that mean nothing. */
struct outcome {
    struct oct_result result;
    char text[2048];
};

static struct outcome outcome_of(struct oct_trainer *trainer) {
    struct outcome out;
    size_t n = 0;
    EXPECT_OK(oct_trainer_result(trainer, &out.result));
    const struct oct_result *r = &out.result;
    const struct oct_fault_counts *f = &r->faults;
#define TELL(...) n += (size_t)snprintf(out.text + n, sizeof out.text - n, __VA_ARGS__)
    TELL("%s %a %a %a %a of %d, loss %a, %a, distance %a, epochs %d, state %" PRIu64 "\n",
         r->model_sha256, r->accuracy, r->accuracy_nodes, r->accuracy_least, r->accuracy_most,
         r->nodes_tested, r->loss, r->train_loss, r->consensus_distance, r->epochs, r->state_bytes);
    TELL("bytes %" PRIu64 " %" PRIu64 " %" PRIu64 ", %" PRIu64 " messages, %" PRId64
         " parameters\n",
         r->bytes_sent, r->bytes_final, r->bytes_dense, r->messages, r->n_parameters);
    TELL("faults %d: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
         " %" PRIu64 "\n",
         r->has_faults, f->absent, f->dropped, f->late, f->overtaken, f->doubled, f->repairs,
         f->repair_bytes);
    struct oct_node node;
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        TELL("node %d: %a %a %a %a %" PRIu64 " %" PRId64 "\n", i, node.loss, node.accuracy,
             node.consensus_distance, node.test_accuracy, node.bytes_sent, node.n_samples);
    }
    struct oct_traffic edge;
    for (int i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        TELL("%d-%d %" PRIu64 " %" PRIu64 "\n", edge.from, edge.to, edge.bytes, edge.messages);
    }
#undef TELL
    assert_true(n < sizeof out.text);
    return out;
}

static struct outcome alone(const struct company *company, int run, const char *engine) {
    struct oct_config *config = configure(company, run, engine);
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    struct outcome out = outcome_of(trainer);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return out;
}

static void expect_same(const char *engine, const char *name, int run, const struct outcome *found,
                        const struct outcome *expected) {
    print_message("%s, %s, run %d: %.12s… %.6f %.2f %% %llu bytes; alone %.12s… %.6f\n", engine,
                  name, run, found->result.model_sha256, found->result.loss,
                  found->result.accuracy_nodes, (unsigned long long)found->result.bytes_sent,
                  expected->result.model_sha256, expected->result.loss);
    assert_string_equal(found->text, expected->text);
}

/* With an engine of their own, or that of that name. */
static void open_with(const struct company *company, const char *name, struct oct__engine *take,
                      const struct oct_hooks *hooks, struct oct_trainer *trainers[RUNS]) {
    struct oct_config *configs[RUNS];
    struct oct__group *group;
    for (int i = 0; i < RUNS; i++) {
        configs[i] = configure(company, i, name);
    }
    const struct oct_config *const *all = (const struct oct_config *const *)configs;
    if (take) {
        EXPECT_OK(oct__group_make(all, hooks, RUNS, take, &group));
        memcpy(trainers, group->runs, RUNS * sizeof *trainers);
    } else {
        EXPECT_OK(oct_trainers_create(all, hooks, RUNS, trainers));
    }
    for (int i = 0; i < RUNS; i++) {
        oct_config_destroy(configs[i]);
    }
}

static struct oct__engine *cpu(int is_to_be_wide) {
    struct oct__engine *engine = NULL;
    EXPECT_OK(oct__engine_open("cpu", 2, &engine));
    engine->is_wide = is_to_be_wide;
    return engine;
}

static void open_company(const struct company *company, const char *engine,
                         const struct oct_hooks *hooks, struct oct_trainer *trainers[RUNS]) {
    open_with(company, engine, strcmp(engine, "wide") == 0 ? cpu(1) : NULL, hooks, trainers);
}

static void close_company(struct oct_trainer *trainers[RUNS]) {
    static const int order[] = {1, 0, 2}; /* any will do */
    for (int i = 0; i < RUNS; i++) {
        oct_trainer_destroy(trainers[order[i]]);
    }
}

/* Engines of the registry, and then one more: a CPU whose launches are those of a wide engine. On
 * the emulated GPU that engine alone, which the others have come before. NULL past the end. */
static const char *subject(int index) {
    for (int e = 0; oct__engine_at(e); e++) {
        const struct oct_engine_kind *kind = oct__engine_at(e);
        const int counts = !kind->plugin.unavailable && !kind->is_oracle &&
                           (!IS_EMULATED || strcmp(kind->plugin.name, "cuda") == 0);
        if (counts && index-- == 0) {
            return kind->plugin.name;
        }
    }
    return index == 0 && !IS_EMULATED ? "wide" : NULL;
}

static int is_wide(const char *engine) {
    return strcmp(engine, "wide") == 0 || strcmp(engine, "cuda") == 0;
}

/* --- steps ----------------------------------------------------------------------------------- */

enum { STEPS = 5 };

/* All that the nodes of a run have, one array after the other. */
static void expect_same_rows(const struct oct_trainer *found, const struct oct_trainer *expected) {
    for (int home = 0; home < OCT_HOME_STATES; home++) {
        const size_t bytes = 4 * expected->cohort->stride[home];
        assert_int_equal(found->cohort->stride[home], expected->cohort->stride[home]);
        if (bytes == 0) { /* runs of this form do not have it */
            continue;
        }
        char *rows[2] = {malloc(bytes), malloc(bytes)};
        EXPECT_OK(found->engine->read(found->engine, rows[0], found->cohort->state[home], bytes));
        EXPECT_OK(expected->engine->read(expected->engine, rows[1], expected->cohort->state[home],
                                         bytes));
        assert_memory_equal(rows[0], rows[1], bytes);
        free(rows[0]);
        free(rows[1]);
    }
    assert_memory_equal(found->gossip->u, expected->gossip->u, 4 * sizeof *found->gossip->u);
}

/* The run alone, after as many steps. */
static void expect_same_as_alone(const struct oct_trainer *found, const struct company *company,
                                 int run, const char *engine) {
    struct oct_config *config = configure(company, run, engine);
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    while (trainer->step < found->step) {
        EXPECT_OK(oct__trainer_step(trainer));
    }
    expect_same_rows(found, trainer);
    const struct oct__node_step *last = &found->nodes[3], *same = &trainer->nodes[3];
    assert_memory_equal(&last->loss, &same->loss, sizeof last->loss);
    assert_int_equal(last->n_hits, same->n_hits);
    print_message("%s, %s, run %d: after %d steps the loss of node 3 is %.9g\n", engine,
                  company->name, run, (int)found->step, found->nodes[3].loss);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

static void a_step_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    for (int e = 0; subject(e); e++) {
        for (size_t c = 0; c < OCT_COUNT_OF(companies); c++) {
            struct oct_trainer *trainers[RUNS];
            open_company(&companies[c], subject(e), NULL, trainers);
            for (int step = 0; step < STEPS; step++) {
                EXPECT_OK(
                    oct__trainer_step(trainers[step % RUNS])); /* whichever is asked, all do one */
            }
            for (int i = 0; i < RUNS; i++) {
                assert_int_equal(trainers[i]->step, STEPS);
                expect_same_as_alone(trainers[i], &companies[c], i, subject(e));
                assert_true(i == 0 || trainers[i]->nodes[3].loss != trainers[0]->nodes[3].loss);
            }
            close_company(trainers);
        }
    }
}

/* Writes a NaN over a number of a node of a run. */
static void spoil(struct oct_trainer *trainer, int node, enum oct__home home) {
    const struct oct__cohort *cohort = trainer->cohort;
    char *at = (char *)cohort->state[home] + (size_t)node * cohort->stride[home];
    const float value = NAN;
    EXPECT_OK(trainer->engine->write(trainer->engine, at + 8 * sizeof value, &value, sizeof value));
}

/* A loss that is not finite is seen in its step. What an update makes of a momentum is seen when
 * it is packed, on a GPU a step later. */
static void one_that_fails_leaves_the_others(void **state) {
    (void)state;
    static const struct {
        enum oct__home home;
        const char *narrow, *wide;
    } harms[] = {
        {OCT_HOME_PARAM, "node 2: parameter stem.weight", "node 2: the loss is nan"},
        {OCT_HOME_MOMENTUM, "pack: tensor 0 of node 2's row", "pack: tensor 0 of node 2's row"},
    };
    for (int e = 0; subject(e); e++) {
        for (size_t h = 0; h < OCT_COUNT_OF(harms); h++) {
            const struct company *company = &companies[h]; /* fp32, int8 */
            struct oct_trainer *trainers[RUNS];
            open_company(company, subject(e), NULL, trainers);
            spoil(trainers[1], 2, harms[h].home);
            for (int step = 0; step < STEPS; step++) {
                EXPECT_OK(oct__trainer_step(trainers[0]));
            }
            EXPECT_FAILURE(oct__trainer_step(trainers[1]), OCT_STATUS_NOT_FINITE,
                           is_wide(subject(e)) ? harms[h].wide : harms[h].narrow);
            assert_true(trainers[1]->step < 2);
            for (int i = 0; i < RUNS; i += 2) {
                assert_int_equal(trainers[i]->step, STEPS);
                expect_same_as_alone(trainers[i], company, i, subject(e));
            }
            close_company(trainers);
        }
    }
}

/* --- runs ------------------------------------------------------------------------------------ */

static void a_run_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    for (int e = 0; subject(e); e++) {
        for (size_t c = 0; c < OCT_COUNT_OF(companies); c++) {
            struct oct_trainer *trainers[RUNS];
            struct oct_ending endings[RUNS];
            open_company(&companies[c], subject(e), NULL, trainers);
            EXPECT_OK(oct_trainers_run(trainers, RUNS, endings));
            for (int i = 0; i < RUNS; i++) {
                assert_int_equal(endings[i].status, OCT_OK);
                assert_string_equal(endings[i].reason, "");
                const struct outcome found = outcome_of(trainers[i]);
                const struct outcome expected = alone(&companies[c], i, subject(e));
                expect_same(subject(e), companies[c].name, i, &found, &expected);
                assert_true(i == 0 || strcmp(found.result.model_sha256,
                                             outcome_of(trainers[0]).result.model_sha256) != 0);
            }
            close_company(trainers);
        }
    }
}

/* Others come to their end, and how each ended is told. */
static void one_that_fails_is_told(void **state) {
    (void)state;
    struct oct_trainer *trainers[RUNS];
    struct oct_ending endings[RUNS];
    open_company(&companies[1], "cpu", NULL, trainers);
    spoil(trainers[1], 2, OCT_HOME_MOMENTUM);
    EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, endings), OCT_STATUS_NOT_FINITE, "node 2");
    for (int i = 0; i < RUNS; i += 2) {
        const struct outcome found = outcome_of(trainers[i]);
        const struct outcome expected = alone(&companies[1], i, "cpu");
        assert_int_equal(endings[i].status, OCT_OK);
        expect_same("cpu", companies[1].name, i, &found, &expected);
    }
    assert_int_equal(endings[1].status, OCT_STATUS_NOT_FINITE);
    assert_non_null(strstr(endings[1].reason, "node 2"));
    EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, NULL), OCT_STATUS_NOT_FINITE,
                   "node 2"); /* still */
    close_company(trainers);
}

/* Asks to stop when it hears something for the `at`-th time. */
struct stopper {
    int at, heard;
};

static int stop(const struct oct_progress *progress, void *context) {
    struct stopper *stopper = context;
    (void)progress;
    return ++stopper->heard == stopper->at;
}

/* The same, counting steps alone; 0: never. */
static int stop_steps(const struct oct_progress *progress, void *context) {
    return progress->phase == OCT_PHASE_TRAIN && stop(progress, context);
}

/* Wherever one of them stops, at a step, in a test, in a round after training: all have stopped
 * after the same step, and come to the same end. */
static void all_stop_together(void **state) {
    (void)state;
    const struct company *company = &companies[2]; /* which settles */
    for (int e = 0; subject(e); e++) {
        struct outcome expected[RUNS];
        int has_stopped = 1;
        for (int i = 0; i < RUNS; i++) {
            expected[i] = alone(company, i, subject(e));
        }
        for (int at = 1; has_stopped; at++) {
            struct stopper stopper = {at, 0};
            struct oct_hooks hooks[RUNS] = {{0}};
            struct oct_trainer *trainers[RUNS];
            struct oct_ending endings[RUNS];
            hooks[1] = (struct oct_hooks){.progress = stop, .progress_context = &stopper};
            open_company(company, subject(e), hooks, trainers);
            oct_status status = oct_trainers_run(trainers, RUNS, endings);
            has_stopped = stopper.heard >= at;
            int n_stopped = 0;
            for (int i = 0; i < RUNS; i++) {
                n_stopped += endings[i].status == OCT_STATUS_CANCELLED;
                assert_int_equal(trainers[i]->step, trainers[0]->step);
            }
            assert_int_equal(status, has_stopped && n_stopped > 0 ? OCT_STATUS_CANCELLED : OCT_OK);
            assert_true(has_stopped || n_stopped == 0);
            if (n_stopped > 0) {
                EXPECT_OK(oct_trainers_run(trainers, RUNS, NULL));
            }
            for (int i = 0; i < RUNS; i++) {
                const struct outcome found = outcome_of(trainers[i]);
                assert_string_equal(found.text, expected[i].text);
            }
            close_company(trainers);
        }
        print_message("%s: stopped wherever one can\n", subject(e));
    }
}

/* --- what is found late, and what fails after a step --------------------------------------------
 */

/* An operation of one run in one step finds something wrong: that is told later, or at once. */
static struct {
    oct__op_fn *pack, *settle;
    int run, is_found;
    uint64_t seed;
    uint32_t step;
} trap;

static oct_status pack_and_find(const struct oct__lane *lane, const struct oct__args *args) {
    trap.is_found |= lane->run == trap.run && lane->step == trap.step;
    return trap.pack(lane, args);
}

static oct_status tell_late(struct oct__engine *engine, int *run) {
    (void)engine;
    if (!trap.is_found) {
        return OCT_OK;
    }
    trap.is_found = 0;
    *run = trap.run;
    OCT_FAIL(NOT_FINITE, "pack: found late");
}

static oct_status fail_to_settle(const struct oct__lane *lane, const struct oct__args *args) {
    if (lane->seed == trap.seed && lane->step == trap.step) {
        OCT_FAIL(INTERNAL, "settle: broken on purpose");
    }
    return trap.settle(lane, args);
}

/* A wide engine whose packing in run 1 at step `step` is found wrong when somebody asks. */
static struct oct__engine *late_engine(uint32_t step) {
    struct oct__engine *engine = cpu(1);
    trap.pack = engine->run[OCT_OP_PACK];
    trap.run = 2;
    trap.step = step;
    trap.is_found = 0;
    engine->run[OCT_OP_PACK] = pack_and_find;
    engine->verdict = tell_late;
    return engine;
}

/* In any step, in that after which others stop, and in the last one, whose model is not tested
 * then. */
static void what_is_found_late_is_not_lost(void **state) {
    (void)state;
    for (uint32_t step = 0; step < 6; step++) {
        for (int stops = 0; stops < 2; stops++) {
            struct stopper stopper = {.at = stops ? (int)step + 1 : 0};
            struct oct_hooks hooks[RUNS] = {{0}};
            struct oct_trainer *trainers[RUNS];
            struct oct_ending endings[RUNS];
            char prefix[32];
            hooks[0] = (struct oct_hooks){.progress = stop_steps, .progress_context = &stopper};
            open_with(&companies[1], "cpu", late_engine(step), hooks, trainers);
            const oct_status status = oct_trainers_run(trainers, RUNS, endings);
            snprintf(prefix, sizeof prefix, "step %u: pack: found late", step);
            print_message("%s: %s, %s: %s\n", prefix, oct_status_name(status),
                          oct_status_name(endings[1].status), endings[1].reason);
            assert_int_equal(endings[1].status, OCT_STATUS_NOT_FINITE);
            assert_string_equal(endings[1].reason, prefix);
            assert_true(trainers[1]->epochs_done <= (int)(step / 3));
            for (int i = 0; i < RUNS; i += 2) {
                assert_int_equal(endings[i].status, stops ? OCT_STATUS_CANCELLED : OCT_OK);
            }
            EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, endings), OCT_STATUS_NOT_FINITE,
                           "found late");
            for (int i = 0; i < RUNS; i += 2) {
                const struct outcome found = outcome_of(trainers[i]);
                const struct outcome expected = alone(&companies[1], i, "cpu");
                assert_int_equal(endings[i].status, OCT_OK);
                expect_same("late", companies[1].name, i, &found, &expected);
            }
            close_company(trainers);
        }
    }
}

/* In a step (step 6 is that of the rounds after training): the run has failed, and its step is not
 * done. */
static void settling_may_fail(void **state) {
    (void)state;
    const struct company *company = &companies[2];
    for (uint32_t step = 3; step <= 6; step++) {
        struct oct_trainer *trainers[RUNS];
        struct oct_ending endings[RUNS];
        struct oct__engine *engine = cpu(0);
        trap.settle = engine->run[OCT_OP_SETTLE];
        trap.seed = 4; /* that of the last run */
        trap.step = step;
        engine->run[OCT_OP_SETTLE] = fail_to_settle;
        open_with(company, "cpu", engine, NULL, trainers);
        EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, endings), OCT_STATUS_INTERNAL,
                       "broken on purpose");
        assert_int_equal(endings[2].status, OCT_STATUS_INTERNAL);
        assert_int_equal(trainers[2]->step, step);
        assert_int_equal(trainers[2]->epochs_done, 1);
        for (int i = 0; i < 2; i++) {
            const struct outcome found = outcome_of(trainers[i]),
                                 expected = alone(company, i, "cpu");
            assert_int_equal(endings[i].status, OCT_OK);
            expect_same("settling", company->name, i, &found, &expected);
        }
        close_company(trainers);
    }
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static struct oct_trainer *trainers_of(struct oct_trainer *trainers[RUNS],
                                       const char *const folders[RUNS], int goes_on,
                                       const struct oct_hooks *hooks) {
    struct oct_config *configs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        configs[i] = configure(&companies[2], i, "cpu");
        EXPECT_OK(oct_config_set(configs[i], "checkpoint", folders[i]));
        if (goes_on) {
            EXPECT_OK(oct_config_set(configs[i], "resume", folders[i]));
        }
    }
    EXPECT_OK(
        oct_trainers_create((const struct oct_config *const *)configs, hooks, RUNS, trainers));
    for (int i = 0; i < RUNS; i++) {
        oct_config_destroy(configs[i]);
    }
    return trainers[0];
}

/* Stopped, kept and made anew they go on, side by side or each alone; not those that are not after
 * the same step. */
static void checkpoints_go_on(void **state) {
    (void)state;
    struct folder folder;
    char places[RUNS][FOLDER_PATH];
    const char *folders[RUNS];
    folder_open(&folder);
    for (int i = 0; i < RUNS; i++) {
        const char name[] = {'r', (char)('0' + i), '\0'};
        snprintf(places[i], sizeof places[i], "%s", folder_file(&folder, name));
        folders[i] = places[i];
    }
    struct stopper stopper = {.at = 2};
    struct oct_hooks hooks[RUNS] = {{0}};
    struct oct_trainer *trainers[RUNS], *single = NULL;
    hooks[2] = (struct oct_hooks){.progress = stop, .progress_context = &stopper};
    trainers_of(trainers, folders, 0, hooks);
    EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, NULL), OCT_STATUS_CANCELLED,
                   "stopped after step 2 of 6");
    close_company(trainers);
    stopper.at = 0;
    trainers_of(trainers, folders, 1, hooks);
    assert_int_equal(trainers[1]->step, 2);
    EXPECT_OK(oct_trainers_run(trainers, RUNS, NULL));
    for (int i = 0; i < RUNS; i++) {
        const struct outcome found = outcome_of(trainers[i]),
                             expected = alone(&companies[2], i, "cpu");
        expect_same("cpu", "from checkpoints", i, &found, &expected);
    }
    close_company(trainers);

    struct oct_config *config = configure(&companies[2], 0, "cpu");
    struct oct_config *other = configure(&companies[2], 1, "cpu");
    const struct oct_config *const pair[] = {config, other};
    EXPECT_OK(oct_config_set(config, "resume", folders[0])); /* at its end */
    EXPECT_FAILURE(oct_trainers_create(pair, NULL, 2, trainers), OCT_STATUS_INVALID,
                   "after steps 6 and 0: let each go on by itself");
    EXPECT_OK(oct_trainer_create(config, NULL, &single));
    oct_trainer_destroy(single);
    oct_config_destroy(config);
    oct_config_destroy(other);
    folder_close(&folder);
}

/* A run that goes on has its checkpoint's options, whatever was left unsaid: they must fit, too. */
static void options_of_checkpoints_count(void **state) {
    (void)state;
    static const char *const rates[] = {"0.05", "0.2"};
    struct folder folder;
    char places[2][FOLDER_PATH];
    struct oct_config *going[2];
    struct oct_trainer *trainers[2] = {NULL, NULL};
    folder_open(&folder);
    for (int i = 0; i < 2; i++) {
        struct oct_config *config = configure(&companies[0], i, "cpu");
        struct oct_trainer *trainer = NULL;
        const char name[] = {'r', (char)('0' + i), '\0'};
        snprintf(places[i], sizeof places[i], "%s", folder_file(&folder, name));
        EXPECT_OK(oct_config_set(config, "lr", rates[i]));
        EXPECT_OK(oct_config_set(config, "checkpoint", places[i]));
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        EXPECT_OK(oct_trainer_run(trainer));
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
        EXPECT_OK(oct_config_create(&going[i]));
        EXPECT_OK(oct_config_set(going[i], "resume", places[i]));
    }
    const struct oct_config *const pair[] = {going[0], going[1]}, *const twice[] = {going[0],
                                                                                    going[0]};
    EXPECT_FAILURE(oct_trainers_create(pair, NULL, 2, trainers), OCT_STATUS_INVALID,
                   "lr is '0.05' in one run and '0.2' in the other");
    EXPECT_FAILURE(oct_trainers_create(twice, NULL, 2, trainers), OCT_STATUS_INVALID,
                   "each keeps its own in a folder of its own");
    assert_null(trainers[0]);
    oct_config_destroy(going[0]);
    oct_config_destroy(going[1]);
    folder_close(&folder);
}

/* Writes as often as asked for, whichever of the runs has a folder. */
static void one_may_keep_what_others_do_not(void **state) {
    (void)state;
    struct folder folder;
    struct oct_config *configs[RUNS], *going = NULL;
    struct oct_trainer *trainers[RUNS], *alone_again = NULL;
    struct stopper stopper = {.at = 4}; /* a step after the first epoch */
    struct oct_hooks hooks[RUNS] = {{0}};
    folder_open(&folder);
    hooks[0] = (struct oct_hooks){.progress = stop_steps, .progress_context = &stopper};
    for (int i = 0; i < RUNS; i++) {
        configs[i] = configure(&companies[0], i, "cpu");
    }
    EXPECT_OK(oct_config_set(configs[1], "checkpoint", folder_file(&folder, "kept")));
    EXPECT_OK(
        oct_trainers_create((const struct oct_config *const *)configs, hooks, RUNS, trainers));
    EXPECT_FAILURE(oct_trainers_run(trainers, RUNS, NULL), OCT_STATUS_CANCELLED, "step 4");
    close_company(trainers);
    EXPECT_OK(oct_config_create(&going));
    EXPECT_OK(oct_config_set(going, "resume", folder_file(&folder, "kept")));
    EXPECT_OK(oct_trainer_create(going, NULL, &alone_again));
    assert_int_equal(alone_again->step, 4);
    EXPECT_OK(oct_trainer_run(alone_again));
    const struct outcome found = outcome_of(alone_again), expected = alone(&companies[0], 1, "cpu");
    expect_same("cpu", "kept by one", 1, &found, &expected);
    oct_trainer_destroy(alone_again);
    oct_config_destroy(going);
    for (int i = 0; i < RUNS; i++) {
        oct_config_destroy(configs[i]);
    }
    folder_close(&folder);
}

/* --- what is refused ------------------------------------------------------------------------- */

static void refuse(const char *name, const char *value, const char *piece) {
    struct oct_config *configs[2];
    struct oct_trainer *trainers[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        configs[i] = configure(&companies[0], i, "cpu");
    }
    EXPECT_OK(oct_config_set(configs[1], name, value));
    EXPECT_FAILURE(oct_config_fits(configs[0], configs[1]), OCT_STATUS_INVALID, piece);
    EXPECT_FAILURE(
        oct_trainers_create((const struct oct_config *const *)configs, NULL, 2, trainers),
        OCT_STATUS_INVALID, piece);
    assert_null(trainers[0]);
    for (int i = 0; i < 2; i++) {
        oct_config_destroy(configs[i]);
    }
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    refuse("lr", "0.1", "lr is '0.05' in one run and '0.1' in the other");
    refuse("nodes", "5", "nodes is '4'");
    refuse("precision", "int8", "precision is 'fp32'");
    refuse("norm", "batchnorm", "norm is 'evonorm-s0' in one run and 'batchnorm'");
    refuse("momentum", "qgm", "momentum is 'local'");
    refuse("algorithm", "sgp", "push-sum");
    refuse("threads", "1", "threads is '2'");
    refuse("epochs", "3", "epochs is '2'");
    refuse("samples", "30", "samples is '0'");
    refuse("data-dir", "elsewhere", "data-dir is ''");
}

/* What may differ does, one by one. */
static void what_fits_is_told(void **state) {
    (void)state;
    static const char *const free[][2] = {
        {"seed", "7"},
        {"partition", "skew:1"},
        {"topology", "complete"},
        {"weights", "metropolis"},
        {"graph-hold", "3"},
        {"algorithm", "dpsgd"},
        {"compress", "sign"},
        {"gamma", "0.5"},
        {"final-gossip", "9"},
        {"final-statistics", "own"},
        {"label", "x"},
        {"checkpoint", "y"},
        {"compensation-rounds", "4"},
        {"fault", "drop:p=0.1"},
        {"eval-nodes", "2"},
        {"db", "none"},
    };
    struct oct_config *a = configure(&companies[0], 0, "cpu");
    struct oct_config *global[2] = {configure(&companies[2], 0, "cpu"),
                                    configure(&companies[2], 1, "cpu")};
    EXPECT_OK(oct_config_set(global[1], "algorithm", "choco")); /* beside sgp: both settle */
    EXPECT_OK(oct_config_fits(global[0], global[1]));
    EXPECT_OK(oct_config_set(global[1], "lr", "5e-2")); /* 0.05 */
    EXPECT_OK(oct_config_fits(global[0], global[1]));
    oct_config_destroy(global[0]);
    oct_config_destroy(global[1]);
    for (size_t i = 0; i < OCT_COUNT_OF(free); i++) {
        struct oct_config *b = configure(&companies[0], 0, "cpu");
        EXPECT_OK(oct_config_set(b, free[i][0], free[i][1]));
        EXPECT_OK(oct_config_fits(a, b));
        EXPECT_OK(oct_config_fits(b, a));
        oct_config_destroy(b);
    }
    oct_config_destroy(a);
}

/* Another network each time that it is asked. */
static oct_status build(struct oct_graph *graph, void *context) {
    int *width = context;
    int x = oct_graph_global_pool(graph, "pool", oct_graph_input(graph));
    x = oct_graph_linear(graph, "hidden", x, (*width)++);
    oct_graph_output(graph, oct_graph_linear(graph, "classifier", x, oct_graph_classes(graph)));
    return OCT_OK;
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    struct oct_trainer *trainers[RUNS], *swapped[RUNS];
    struct oct_config *mpi = configure(&companies[0], 0, "cpu");
    const struct oct_config *const pair[] = {mpi, mpi}, *const holes[] = {mpi, NULL};
    EXPECT_FAILURE(oct_trainers_create(NULL, NULL, 1, trainers), OCT_STATUS_INVALID,
                   "configurations");
    EXPECT_FAILURE(oct_trainers_create(pair, NULL, 0, trainers), OCT_STATUS_INVALID, "1 to 256");
    EXPECT_FAILURE(oct_trainers_create(pair, NULL, 257, trainers), OCT_STATUS_INVALID, "1 to 256");
    EXPECT_FAILURE(oct_trainers_create(holes, NULL, 2, trainers), OCT_STATUS_INVALID,
                   "configuration 1 is NULL");
    EXPECT_FAILURE(oct_config_fits(NULL, mpi), OCT_STATUS_INVALID, "NULL");
    struct oct_dataset *train = NULL, *test = NULL;
    EXPECT_OK(oct_dataset_open("synthetic:samples=60,size=8", NULL, OCT_SPLIT_TRAIN, &train));
    EXPECT_OK(oct_dataset_open("synthetic:samples=60,size=8", NULL, OCT_SPLIT_TEST, &test));
    const struct oct_hooks hooks[2] = {{.train = train, .test = test},
                                       {.train = test, .test = train}};
    EXPECT_FAILURE(oct_trainers_create(pair, hooks, 2, trainers), OCT_STATUS_INVALID,
                   "your own data");
    oct_dataset_close(train);
    oct_dataset_close(test);
    int widths[2] = {4, 8};
    const struct oct_hooks other[2] = {{.model = build, .model_context = &widths[0]},
                                       {.model = build, .model_context = &widths[1]}};
    EXPECT_FAILURE(oct_trainers_create(pair, other, 2, trainers), OCT_STATUS_INVALID,
                   "your own model");
    const struct oct_hooks grows[2] = {{.model = build, .model_context = widths},
                                       {.model = build, .model_context = widths}};
    EXPECT_FAILURE(oct_trainers_create(pair, grows, 2, trainers), OCT_STATUS_INVALID,
                   "your own model");
    oct_status status = oct_config_set(mpi, "transport", "mpi");
    if (status == OCT_OK) {
        EXPECT_FAILURE(oct_trainers_create(pair, NULL, 2, trainers), OCT_STATUS_INVALID,
                       "one process");
    } else { /* a build without it refuses the name */
        assert_int_equal(status, OCT_STATUS_UNSUPPORTED);
    }
    oct_config_destroy(mpi);

    open_company(&companies[0], "cpu", NULL, trainers);
    EXPECT_FAILURE(oct_trainer_run(trainers[1]), OCT_STATUS_INVALID, "side by side with 2 others");
    EXPECT_FAILURE(oct_trainers_run(trainers, 2, NULL), OCT_STATUS_INVALID, "not the 3 trainers");
    memcpy(swapped, trainers, sizeof swapped);
    swapped[0] = trainers[1];
    swapped[1] = trainers[0];
    EXPECT_FAILURE(oct_trainers_run(swapped, RUNS, NULL), OCT_STATUS_INVALID, "in their order");
    EXPECT_FAILURE(oct_trainers_run(NULL, RUNS, NULL), OCT_STATUS_INVALID, "trainers");
    EXPECT_OK(oct_trainers_run(trainers, RUNS, NULL));
    close_company(trainers);
}

/* One by itself is a run as any other. */
static void one_is_as_good_as_alone(void **state) {
    (void)state;
    struct oct_config *config = configure(&companies[1], 1, "cpu");
    const struct oct_config *const only = config;
    struct oct_trainer *trainer = NULL;
    struct oct_ending ending;
    EXPECT_OK(oct_trainers_create(&only, NULL, 1, &trainer));
    EXPECT_OK(oct_trainers_run(&trainer, 1, &ending));
    assert_int_equal(ending.status, OCT_OK);
    const struct outcome found = outcome_of(trainer), expected = alone(&companies[1], 1, "cpu");
    expect_same("cpu", "one", 1, &found, &expected);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest steps[] = {
        cmocka_unit_test(a_step_has_the_bits_that_it_has_alone),
        cmocka_unit_test(one_that_fails_leaves_the_others),
    };
    const struct CMUnitTest runs[] = {
        cmocka_unit_test(a_run_has_the_bits_that_it_has_alone),
        cmocka_unit_test(one_that_fails_is_told),
        cmocka_unit_test(all_stop_together),
        cmocka_unit_test(what_is_found_late_is_not_lost),
        cmocka_unit_test(settling_may_fail),
        cmocka_unit_test(checkpoints_go_on),
        cmocka_unit_test(options_of_checkpoints_count),
        cmocka_unit_test(one_may_keep_what_others_do_not),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(what_fits_is_told),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(one_is_as_good_as_alone),
    };
    const int n_failed = cmocka_run_group_tests(steps, NULL, NULL);
    return IS_EMULATED ? n_failed : n_failed + cmocka_run_group_tests(runs, NULL, NULL);
}
