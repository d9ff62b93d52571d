/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_runs.c - whole runs under faults, every algorithm under every fault.
 *
 *   - the same model and the same books by reference, over a transport that carries bytes, on other numbers
 *     of threads, and stopped and resumed;
 *   - nodes that are away stand still, and are left out of averages; those that come back go on;
 *   - a hundredth of the messages lost costs less than two points of accuracy.
 */
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>
#include <octet/trainer.h>

#include "base/folder.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/config.h"
#include "train/trainer.h"

static const char *const faults[] = {
    "drop:p=0.2",
    "delay:p=0.2,rounds=2",
    "duplicate:p=0.3",
    "reorder:p=0.2",
    "crash:node=2,step=3,back=8",
    "crash:node=1,step=4,back=9,memory=lost",
    "drop:p=0.1+crash:node=0,step=2,back=5,memory=lost+crash:node=3,step=6",
};

struct options {
    const char *algorithm, *compress, *topology, *momentum, *transport, *fault, *norm, *precision;
    int n_threads;
    const char *checkpoint, *resume;
};

static struct oct_config *configure(const struct options *o) {
    struct oct_config *config = NULL;
    char threads[16];
    snprintf(threads, sizeof threads, "%d", o->n_threads);
    const char *const pairs[][2] = {
        {"model", "resnet20:width=2,blocks=1"},
        {"data", "synthetic:samples=40,size=6,classes=4"},
        {"test-samples", "10"},
        {"batch", "2"},
        {"epochs", "3"},
        {"lr", "0.02"},
        {"nodes", "5"},
        {"augment", "none"},
        {"norm", o->norm},
        {"precision", o->precision},
        {"compensation-rounds", strcmp(o->algorithm, "sc-sparse-push") == 0 ? "3" : "0"},
        {"final-gossip", "2"},
        {"algorithm", o->algorithm},
        {"compress", o->compress},
        {"topology", o->topology},
        {"momentum", o->momentum},
        {"transport", o->transport},
        {"fault", o->fault},
        {"threads", threads},
    };
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    if (o->checkpoint) {
        EXPECT_OK(oct_config_set(config, "checkpoint", o->checkpoint));
        EXPECT_OK(oct_config_set(config, "every", "1000"));
    }
    if (o->resume) {
        EXPECT_OK(oct_config_set(config, "resume", o->resume));
    }
    return config;
}

struct stop {
    int after; /* reports */
};

static int stop_at(const struct oct_progress *progress, void *context) {
    struct stop *stop = context;
    (void)progress;
    return --stop->after <= 0;
}

/* To the end, or until `stop`: then epochs is -1. */
static struct oct_result run(const struct options *o, struct stop *stop) {
    struct oct_config *config = configure(o);
    struct oct_trainer *trainer = NULL;
    struct oct_result result = {0};
    const struct oct_hooks hooks = {.progress = stop ? stop_at : NULL, .progress_context = stop};
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    oct_status status = oct_trainer_run(trainer);
    if (stop && status == OCT_STATUS_CANCELLED) {
        result.epochs = -1;
    } else {
        EXPECT_OK(status);
        EXPECT_OK(oct_trainer_result(trainer, &result));
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void expect_same(const char *what, const struct options *o, const struct oct_result *a,
                        const struct oct_result *b) {
    if (strcmp(a->model_sha256, b->model_sha256) != 0 || a->bytes_sent != b->bytes_sent ||
        a->messages != b->messages || a->nodes_tested != b->nodes_tested ||
        memcmp(&a->faults, &b->faults, sizeof a->faults) != 0 ||
        memcmp(&a->train_loss, &b->train_loss, sizeof a->train_loss) != 0 ||
        memcmp(&a->consensus_distance, &b->consensus_distance, sizeof a->consensus_distance) != 0 ||
        memcmp(&a->accuracy_nodes, &b->accuracy_nodes, sizeof a->accuracy_nodes) != 0) {
        fail_msg("%s: %s %s %s %s: %.8s… and %.8s…, %llu and %llu bytes, loss %.9g and %.9g", what,
                 o->algorithm, o->compress, o->topology, o->fault, a->model_sha256, b->model_sha256,
                 (unsigned long long)a->bytes_sent, (unsigned long long)b->bytes_sent,
                 a->train_loss, b->train_loss);
    }
}

typedef void case_fn(const struct options *options);

/* Every algorithm x fault x {dense, top-k} x {a graph that stays, one that changes}. */
static int each_case(case_fn *task) {
    static const char *const compressors[] = {"none", "topk:0.9,values=int8"};
    static const char *const topologies[] = {"directed-ring", "one-peer-exponential"};
    int n = 0;
    for (int a = 0; oct__algorithm_at(a); a++) {
        for (int i = 0; i < (int)OCT_COUNT_OF(faults) * 4; i++, n++) {
            if (IS_SANITIZED && n % 9) {
                continue; /* some of each: they take ten times as long */
            }
            const struct options options = {
                .algorithm = oct__algorithm_at(a)->plugin.name,
                .compress = compressors[i % 2],
                .topology = topologies[i / 2 % 2],
                .fault = faults[i / 4],
                .momentum = n % 3 ? "qgm" : "local",
                .norm = n % 4 == 1 ? "range-batchnorm" : "groupnorm",
                .precision = n % 5 == 2 ? "int8" : "fp32",
                .transport = "inproc",
                .n_threads = 1,
            };
            task(&options);
        }
    }
    return n;
}

static uint64_t n_lost, n_repairs;

static void other_ways(const struct options *options) {
    struct options other = *options;
    const struct oct_result one = run(options, NULL);
    const int talks = strcmp(options->algorithm, "none") != 0;
    assert_int_equal(one.has_faults, 1);
    assert_true(isfinite(one.loss) && isfinite(one.train_loss));
    static int number;
    other.n_threads = number % 3 ? 1 : 2;
    other.transport = "loopback";
    const struct oct_result two = run(&other, NULL);
    expect_same("loopback", options, &one, &two);
    if (number++ % 15 == 0) { /* more threads than nodes: they are computed in one launch */
        other.n_threads = 6;
        other.transport = "inproc";
        const struct oct_result many = run(&other, NULL);
        expect_same("6 threads", options, &one, &many);
    }
    if (talks && strstr(options->fault, "memory=lost")) {
        assert_true(one.faults.repairs > 0 && one.faults.repair_bytes > 0);
    }
    n_lost += one.faults.dropped + one.faults.late + one.faults.overtaken;
    n_repairs += one.faults.repairs;
}

static void same_bits_however_run(void **state) {
    (void)state;
    n_lost = n_repairs = 0;
    const int n = each_case(other_ways);
    print_message("%d cases, %llu messages lost, %llu repairs\n", n, (unsigned long long)n_lost,
                  (unsigned long long)n_repairs);
    assert_true(n >= 9 * 28);
    assert_true(n_lost > (IS_SANITIZED ? 100 : 500) && n_repairs > (IS_SANITIZED ? 10 : 100));
}

static struct folder scratch;
static int n_stops;

static void stop_and_go(const struct options *options) {
    static int number;
    struct options piece = *options;
    struct dice dice = dice_of((uint32_t)number);
    char path[FOLDER_PATH];
    if (number++ % 5 != 0) {
        return; /* a fifth of them, which has some of each kind */
    }
    const struct oct_result whole = run(options, NULL);
    struct oct_result result;
    snprintf(path, sizeof path, "%s", folder_file(&scratch, "run"));
    piece.checkpoint = path;
    for (;;) {
        struct stop stop = {1 + dice_below(&dice, 7)};
        piece.n_threads = 1 + dice_below(&dice, 2);
        piece.transport = dice_below(&dice, 2) ? "inproc" : "loopback";
        result = run(&piece, &stop);
        if (result.epochs >= 0) {
            break;
        }
        n_stops++;
        piece.resume = path;
    }
    assert_int_equal(oct__folder_remove(path), 0);
    expect_same("resumed", options, &whole, &result);
}

static void same_bits_stopped_and_resumed(void **state) {
    (void)state;
    folder_open(&scratch);
    (void)each_case(stop_and_go);
    folder_close(&scratch);
    print_message("stopped %d times\n", n_stops);
    assert_true(n_stops > 80 || IS_SANITIZED);
}

/* --- nodes that are away ---------------------------------------------------------------------- */

static void read_rows(struct oct_trainer *trainer, int home, float *out) {
    struct oct__cohort *cohort = trainer->cohort;
    EXPECT_OK(trainer->engine->read(trainer->engine, out, cohort->state[home],
                                    (size_t)trainer->n_nodes * cohort->stride[home]));
}

/* What a step changes of a node. */
static const struct {
    int home;
    const char *name;
} homes[] = {{OCT_HOME_PARAM, "parameters"}, {OCT_HOME_MOMENTUM, "momentum"},
             {OCT_HOME_STAT, "statistics"},  {OCT_HOME_NUMERATOR, "numerators"},
             {OCT_HOME_ANCHOR, "anchors"},   {OCT_HOME_SLOW, "slow momentum"}};

enum { N_HOMES = OCT_COUNT_OF(homes) };

struct rows {
    float *before, *now; /* of all nodes */
    size_t bytes;        /* of one */
};

/* Node 2 is away from step 2 on; everybody else moves. */
static void expect_still(const char *what, const struct rows *rows, int64_t step) {
    for (int node = 0; node < 5; node++) {
        const size_t at = (size_t)node * rows->bytes / sizeof(float);
        const int is_still = memcmp(rows->before + at, rows->now + at, rows->bytes) == 0;
        if (is_still != (node == 2 && step >= 2)) {
            fail_msg("step %lld: the %s of node %d %s", (long long)step, what, node,
                     is_still ? "stood still" : "changed");
        }
    }
}

/* Rows of node 2 while it is away, and how it comes back. */
static void crash(const char *memory) {
    char fault[80];
    snprintf(fault, sizeof fault, "crash:node=2,step=2,back=5%s", memory);
    struct options options = {.algorithm = "quant-sgp",
                              .compress = "topk:0.9",
                              .topology = "directed-ring",
                              .momentum = "local",
                              .norm = "range-batchnorm",
                              .precision = "fp32",
                              .transport = "inproc",
                              .fault = fault,
                              .n_threads = 2};
    struct oct_config *config = configure(&options);
    struct oct_trainer *trainer = NULL;
    struct rows rows[N_HOMES];
    EXPECT_OK(oct_config_set(config, "slow-momentum", "0.5"));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    for (int h = 0; h < N_HOMES; h++) {
        const size_t bytes = trainer->cohort->stride[homes[h].home];
        assert_true(bytes > 0);
        rows[h] = (struct rows){calloc(5, bytes), calloc(5, bytes), bytes};
        assert_true(rows[h].before && rows[h].now);
    }
    for (int64_t step = 0; step < 5; step++) {
        double u[5];
        for (int h = 0; h < N_HOMES; h++) {
            read_rows(trainer, homes[h].home, rows[h].before);
        }
        memcpy(u, trainer->gossip->u, sizeof u);
        EXPECT_OK(oct__trainer_step(trainer));
        for (int h = 0; h < N_HOMES; h++) {
            read_rows(trainer, homes[h].home, rows[h].now);
            expect_still(homes[h].name, &rows[h], step);
        }
        if (step >= 2) {
            assert_true(u[2] == trainer->gossip->u[2]);
        }
    }
    const size_t n = rows[0].bytes / sizeof(float);
    float *before = rows[0].before, *now = rows[0].now;
    /* it is back: with what it had, or with the z of the lowest in-neighbour, weight 1 */
    read_rows(trainer, OCT_HOME_PARAM, before);
    EXPECT_OK(oct__absence_begin(trainer));
    read_rows(trainer, OCT_HOME_PARAM, now);
    const int giver = memory[0] ? 1 : 2;
    assert_memory_equal(now + 2 * n, before + (size_t)giver * n, n * sizeof *now);
    read_rows(trainer, OCT_HOME_NUMERATOR, now);
    if (memory[0]) {
        assert_memory_equal(now + 2 * n, before + n, n * sizeof *now);
        read_rows(trainer, OCT_HOME_ANCHOR, now);
        assert_memory_equal(now + 2 * n, before + n, n * sizeof *now);
        read_rows(trainer, OCT_HOME_SLOW, now);
        for (size_t i = 0; i < n; i++) {
            assert_true(now[2 * n + i] == 0.0F);
        }
        assert_true(trainer->gossip->u[2] == 1.0);
        assert_int_equal(trainer->exchange->faults->counts.repairs, 1 + 1); /* 1 -> 3 was new */
    }
    for (int h = 0; h < N_HOMES; h++) {
        free(rows[h].before);
        free(rows[h].now);
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

static void nodes_stand_still(void **state) {
    (void)state;
    crash("");
    crash(",memory=lost");
}

/* Quantizers are watched in the last step of an epoch, here the fourth, in which node 1 is away; it is
 * back when they are asked for. */
static void quantizers_of_those_there(void **state) {
    (void)state;
    const struct options options = {.algorithm = "sgp",
                                    .compress = "none",
                                    .topology = "ring",
                                    .momentum = "local",
                                    .norm = "groupnorm",
                                    .precision = "int8",
                                    .transport = "inproc",
                                    .fault = "crash:node=1,step=1,back=4",
                                    .n_threads = 1};
    struct oct_config *config = configure(&options);
    struct oct_trainer *trainer = NULL;
    struct oct_quantizer got;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    assert_int_equal(trainer->epoch_steps, 4);
    oct_trainer_watch(trainer);
    for (int step = 0; step < 6; step++) {
        EXPECT_OK(oct__trainer_step(trainer));
    }
    const size_t n = trainer->cohort->crew->step_program->n_watches;
    int n_told_apart = 0;
    for (int index = 0; index < (int)n; index++) {
        double there = 0.0, all = 0.0;
        for (int node = 0; node < 5; node++) {
            const double scale =
                (double)trainer->cohort->watched[((size_t)node * n + (size_t)index) * 4 + 2];
            there += node == 1 ? 0.0 : scale / 4;
            all += scale / 5;
        }
        EXPECT_OK(oct_trainer_quantizer(trainer, index, &got));
        if (!(fabs(got.scale - there) <= 1e-12 * fabs(there))) {
            fail_msg("quantizer %d: scale %.9g, those there have %.9g, all %.9g", index, got.scale,
                     there, all);
        }
        n_told_apart += fabs(all - there) > 1e-6 * fabs(there);
    }
    print_message("%d of %zu quantizers would differ\n", n_told_apart, n);
    assert_true(n_told_apart > 0);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

/* A node that is gone for good is no part of the average, nor of what is tested. */
static void gone_for_good(void **state) {
    (void)state;
    const struct options options = {.algorithm = "sgp",
                                    .compress = "none",
                                    .topology = "ring",
                                    .momentum = "local",
                                    .norm = "groupnorm",
                                    .precision = "fp32",
                                    .transport = "inproc",
                                    .fault = "crash:node=1,step=2",
                                    .n_threads = 1};
    struct oct_config *config = configure(&options);
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    struct oct_node node;
    EXPECT_OK(oct_config_set(config, "final-gossip", "60"));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    print_message("%d of 5 nodes tested, consensus %.2g, %llu samples\n", result.nodes_tested,
                  result.consensus_distance, (unsigned long long)trainer->samples_seen);
    assert_int_equal(result.nodes_tested, 4);
    assert_true(result.consensus_distance < 1e-10); /* those that are left agree */
    EXPECT_OK(oct_trainer_node(trainer, 1, &node));
    assert_true(node.consensus_distance > 1e-6 && isnan(node.test_accuracy) && isnan(node.loss));
    /* 12 steps of 5 nodes and 2 samples, less 10 of node 1 */
    assert_int_equal(trainer->samples_seen, 2 * (12 * 5 - 10));
    assert_int_equal(result.faults.absent, 10 + 60);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

/* --- accuracy --------------------------------------------------------------------------------- */

static double train(const char *algorithm, const char *compress, const char *fault,
                    uint64_t *dropped) {
    const char *const pairs[][2] = {
        {"model", "resnet20:width=4,blocks=1"},
        {"data", "synthetic:samples=512,size=6,classes=2,noise=0"},
        {"batch", "4"},
        {"epochs", "16"},
        {"lr", "0.05"},
        {"nodes", "8"},
        {"augment", "none"},
        {"partition", "skew:0.5"},
        {"precision", "fp32"},
        {"momentum", "local"},
        {"eval-nodes", "1"},
        {"final-gossip", "10"},
        {"compensation-rounds", strcmp(algorithm, "sc-sparse-push") == 0 ? "10" : "0"},
        {"algorithm", algorithm},
        {"compress", compress},
        {"fault", fault},
        {"threads", "1"},
    };
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    *dropped = result.faults.dropped;
    return result.accuracy;
}

static void a_hundredth_lost(void **state) {
    (void)state;
    static const char *const compressors[] = {"none", "topk:0.9"};
    for (int a = 0; oct__algorithm_at(a); a++) {
        const struct oct_algorithm_kind *kind = oct__algorithm_at(a);
        for (size_t c = 0; c < OCT_COUNT_OF(compressors) - (kind->memory == 0); c++) {
            if (IS_SANITIZED && a % 4) {
                continue;
            }
            uint64_t none, dropped;
            const char *name = kind->plugin.name;
            const double fair = train(name, compressors[c], "", &none);
            const double lossy = train(name, compressors[c], "drop:p=0.01", &dropped);
            print_message("%-14s %-8s %.2f %%, with %llu messages lost %.2f %%\n", name,
                          compressors[c], fair, (unsigned long long)dropped, lossy);
            assert_true(kind->mixing == OCT_MIXING_NONE ? dropped == 0 : dropped > 5);
            assert_true(kind->mixing == OCT_MIXING_NONE || fair > 90.0);
            assert_true(lossy >= fair - 2.0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_run), cmocka_unit_test(same_bits_stopped_and_resumed),
        cmocka_unit_test(nodes_stand_still),     cmocka_unit_test(gone_for_good),
        cmocka_unit_test(a_hundredth_lost),      cmocka_unit_test(quantizers_of_those_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
