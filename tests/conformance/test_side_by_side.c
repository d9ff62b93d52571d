/* SPDX-License-Identifier: Apache-2.0 */
/* test_side_by_side.c - runs side by side: each is the run that it is alone, on every engine.
 *
 * On a wide engine (cuda, on an emulated GPU: tests/cuda) launches go over the nodes of all runs, elsewhere
 * one run's nodes come after another's. Either way a run has its bits, messages and figures; one that fails
 * leaves the others alone; and all stop after the same step and go on from there.
 */
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
    EXPECT_OK(oct_config_set(config, "engine", engine));
    set_all(config, &company->all);
    set_all(config, &company->own[run]);
    return config;
}

/* Everything about a run that does not measure time. */
struct outcome {
    struct oct_result result;
    struct oct_node nodes[4];
    struct oct_traffic last_edge;
};

static struct outcome outcome_of(struct oct_trainer *trainer) {
    struct outcome out;
    memset(&out, 0, sizeof out);
    EXPECT_OK(oct_trainer_result(trainer, &out.result));
    out.result.seconds = out.result.samples_per_s = out.result.gossip_share = 0;
    out.result.checkpoint_seconds = 0;
    out.result.workspace_bytes = 0; /* what works is shared */
    for (int node = 0; node < 4; node++) {
        EXPECT_OK(oct_trainer_node(trainer, node, &out.nodes[node]));
    }
    for (int i = 0; oct_trainer_edge(trainer, i, &out.last_edge) == OCT_OK; i++) {
    }
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
    assert_string_equal(found->result.model_sha256, expected->result.model_sha256);
    assert_memory_equal(&found->result, &expected->result, sizeof found->result);
    assert_memory_equal(found->nodes, expected->nodes, sizeof found->nodes);
    assert_memory_equal(&found->last_edge, &expected->last_edge, sizeof found->last_edge);
}

static void open_company(const struct company *company, const char *engine,
                         const struct oct_hooks *hooks, struct oct_trainer *trainers[RUNS]) {
    struct oct_config *configs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        configs[i] = configure(company, i, engine);
    }
    EXPECT_OK(
        oct_trainers_create((const struct oct_config *const *)configs, hooks, RUNS, trainers));
    for (int i = 0; i < RUNS; i++) {
        oct_config_destroy(configs[i]);
    }
}

static void close_company(struct oct_trainer *trainers[RUNS]) {
    static const int order[] = {1, 0, 2}; /* any will do */
    for (int i = 0; i < RUNS; i++) {
        oct_trainer_destroy(trainers[order[i]]);
    }
}

/* On the emulated GPU that engine alone, which the others have come before. */
static int is_subject(int engine) {
    const struct oct_engine_kind *kind = oct__engine_at(engine);
    return !kind->plugin.unavailable && !kind->is_oracle &&
           (!IS_EMULATED || strcmp(kind->plugin.name, "cuda") == 0);
}

static const char *name_of(int engine) {
    return oct__engine_at(engine)->plugin.name;
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
    assert_memory_equal(&found->nodes[3], &trainer->nodes[3], sizeof *found->nodes);
    print_message("%s, %s, run %d: after %d steps the loss of node 3 is %.9g\n", engine,
                  company->name, run, (int)found->step, found->nodes[3].loss);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

static void a_step_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    for (int e = 0; oct__engine_at(e); e++) {
        for (size_t c = 0; is_subject(e) && c < OCT_COUNT_OF(companies); c++) {
            struct oct_trainer *trainers[RUNS];
            open_company(&companies[c], name_of(e), NULL, trainers);
            for (int step = 0; step < STEPS; step++) {
                EXPECT_OK(
                    oct__trainer_step(trainers[step % RUNS])); /* whichever is asked, all do one */
            }
            for (int i = 0; i < RUNS; i++) {
                assert_int_equal(trainers[i]->step, STEPS);
                expect_same_as_alone(trainers[i], &companies[c], i, name_of(e));
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

/* A loss that is not finite is seen in its step. What an update makes of a momentum is seen when it is packed, on a
 * GPU a step later. */
static void one_that_fails_leaves_the_others(void **state) {
    (void)state;
    static const struct {
        enum oct__home home;
        const char *cpu, *cuda;
    } harms[] = {
        {OCT_HOME_PARAM, "node 2: parameter stem.weight", "node 2: the loss is nan"},
        {OCT_HOME_MOMENTUM, "pack: tensor 0 of node 2's row", "pack: tensor 0 of node 2's row"},
    };
    for (int e = 0; oct__engine_at(e); e++) {
        for (size_t h = 0; is_subject(e) && h < OCT_COUNT_OF(harms); h++) {
            const struct company *company = &companies[h]; /* fp32, int8 */
            struct oct_trainer *trainers[RUNS];
            open_company(company, name_of(e), NULL, trainers);
            spoil(trainers[1], 2, harms[h].home);
            for (int step = 0; step < STEPS; step++) {
                EXPECT_OK(oct__trainer_step(trainers[0]));
            }
            EXPECT_FAILURE(oct__trainer_step(trainers[1]), OCT_STATUS_NOT_FINITE,
                           IS_EMULATED ? harms[h].cuda : harms[h].cpu);
            assert_true(trainers[1]->step < 2);
            for (int i = 0; i < RUNS; i += 2) {
                assert_int_equal(trainers[i]->step, STEPS);
                expect_same_as_alone(trainers[i], company, i, name_of(e));
            }
            close_company(trainers);
        }
    }
}

/* --- runs ------------------------------------------------------------------------------------ */

static void a_run_has_the_bits_that_it_has_alone(void **state) {
    (void)state;
    for (int e = 0; oct__engine_at(e); e++) {
        for (size_t c = 0; is_subject(e) && c < OCT_COUNT_OF(companies); c++) {
            struct oct_trainer *trainers[RUNS];
            struct oct_ending endings[RUNS];
            open_company(&companies[c], name_of(e), NULL, trainers);
            EXPECT_OK(oct_trainers_run(trainers, RUNS, endings));
            for (int i = 0; i < RUNS; i++) {
                assert_int_equal(endings[i].status, OCT_OK);
                assert_string_equal(endings[i].reason, "");
                const struct outcome found = outcome_of(trainers[i]);
                const struct outcome expected = alone(&companies[c], i, name_of(e));
                expect_same(name_of(e), companies[c].name, i, &found, &expected);
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

/* Wherever one of them stops, at a step, in a test, in a round after training: all have stopped after the same step,
 * and come to the same end. */
static void all_stop_together(void **state) {
    (void)state;
    const struct company *company = &companies[0];
    for (int e = 0; oct__engine_at(e); e++) {
        struct outcome expected[RUNS];
        int has_stopped = 1;
        for (int i = 0; is_subject(e) && i < RUNS; i++) {
            expected[i] = alone(company, i, name_of(e));
        }
        for (int at = 1; is_subject(e) && has_stopped; at++) {
            struct stopper stopper = {at, 0};
            struct oct_hooks hooks[RUNS] = {{0}};
            struct oct_trainer *trainers[RUNS];
            struct oct_ending endings[RUNS];
            hooks[1] = (struct oct_hooks){.progress = stop, .progress_context = &stopper};
            open_company(company, name_of(e), hooks, trainers);
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
                assert_memory_equal(&found, &expected[i], sizeof found);
            }
            close_company(trainers);
        }
        if (is_subject(e)) {
            print_message("%s: stopped wherever one can\n", name_of(e));
        }
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

/* Stopped, kept and made anew they go on, side by side or each alone; not those that are not after the same
 * step. */
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
    for (size_t i = 0; i < OCT_COUNT_OF(free); i++) {
        struct oct_config *b = configure(&companies[0], 0, "cpu");
        EXPECT_OK(oct_config_set(b, free[i][0], free[i][1]));
        EXPECT_OK(oct_config_fits(a, b));
        EXPECT_OK(oct_config_fits(b, a));
        oct_config_destroy(b);
    }
    oct_config_destroy(a);
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
        cmocka_unit_test(checkpoints_go_on),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(what_fits_is_told),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(one_is_as_good_as_alone),
    };
    const int n_failed = cmocka_run_group_tests(steps, NULL, NULL);
    return IS_EMULATED ? n_failed : n_failed + cmocka_run_group_tests(runs, NULL, NULL);
}
