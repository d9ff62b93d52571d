/* SPDX-License-Identifier: Apache-2.0 */
/* test_statistics.c - what the rounds after training do about the nodes' statistics.
 *
 * Mixed, they come to the mean of what they were, whatever the graph's weights; every round keeps their
 * mass; parameters stay, and the average model, whose statistics are the mean anyway; what this takes is
 * bytes. Left to the nodes, statistics are what training made of them.
 */
#include <math.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "base/folder.h"
#include "compress/wire.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/trainer.h"

enum { N_NODES = 5 };

struct setting {
    const char *algorithm, *topology, *precision, *recipe, *norm, *transport, *fault;
};

/* Doubly stochastic ones, and those where only columns sum to 1; graphs that stay, that come in turn,
 * and that never come back. */
static const struct setting settings[] = {
    {"choco", "directed-ring", "fp32", "octet", "batchnorm", "inproc", ""},
    {"choco", "directed-ring", "int8", "paper", "range-evonorm", "loopback", ""},
    {"dpsgd", "one-peer-exponential", "fp32", "octet", "batchnorm", "inproc", ""},
    {"deepsqueeze", "ring", "int8", "octet", "range-batchnorm", "inproc", ""},
    {"sgp", "star", "fp32", "octet", "batchnorm", "inproc", ""},
    {"sparse-push", "erdos-renyi:p=0.7", "int8", "paper", "range-evonorm", "inproc", ""},
    {"quant-sgp", "random-regular:degree=2,change=yes", "fp32", "octet", "batchnorm", "loopback",
     ""},
};

static struct oct_config *configure(const struct setting *s, const char *statistics, int n_final) {
    struct oct_config *config = NULL;
    char rounds[16];
    snprintf(rounds, sizeof rounds, "%d", n_final);
    const char *const pairs[][2] = {
        {"model", "resnet20:width=2,blocks=1"},
        {"data", IS_EMULATED ? "synthetic:samples=20,size=4,classes=4"
                             : "synthetic:samples=80,size=6,classes=4"},
        {"engine", IS_EMULATED ? "cuda" : "cpu"},
        {"partition", "skew:1"},
        {"nodes", "5"},
        {"batch", "4"},
        {"epochs", IS_EMULATED ? "1" : "2"},
        {"eval-nodes", IS_EMULATED ? "1" : "5"},
        {"momentum", "local"},
        {"threads", "2"},
        {"compress", "topk:0.5"},
        {"algorithm", s->algorithm},
        {"topology", s->topology},
        {"precision", s->precision},
        {"precision-recipe", s->recipe},
        {"norm", s->norm},
        {"transport", s->transport},
        {"fault", s->fault},
        {"final-gossip", rounds},
        {"final-statistics", statistics},
    };
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    return config;
}

/* What a run has come to; rows are [node][n]. */
struct outcome {
    struct oct_result result;
    float *rows;
    size_t n, n_values; /* of a row: elements, and those of its tensors */
    double u[N_NODES];  /* weights of the statistics */
    struct oct_node nodes[N_NODES];
    uint64_t over_edges, messages;
};

static void outcome_drop(struct outcome *outcome) {
    free(outcome->rows);
}

static void read_rows(const struct oct_trainer *trainer, struct outcome *out) {
    struct oct__engine *engine = trainer->engine;
    const size_t bytes = N_NODES * trainer->cohort->stride[OCT_HOME_STAT];
    out->n = trainer->graph.stats.n_elements;
    out->n_values = oct__row_count(&trainer->graph.stats);
    out->rows = malloc(bytes);
    assert_non_null(out->rows);
    EXPECT_OK(engine->read(engine, out->rows, trainer->cohort->state[OCT_HOME_STAT], bytes));
    for (int node = 0; node < N_NODES; node++) {
        out->u[node] = trainer->statistics ? trainer->statistics->u[node] : 1.0;
    }
}

static struct outcome take(struct oct_trainer *trainer) {
    struct outcome out = {0};
    struct oct_traffic edge;
    EXPECT_OK(oct_trainer_result(trainer, &out.result));
    read_rows(trainer, &out);
    for (int node = 0; node < N_NODES; node++) {
        EXPECT_OK(oct_trainer_node(trainer, node, &out.nodes[node]));
    }
    for (int64_t i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        out.over_edges += edge.bytes;
        out.messages += edge.messages;
    }
    return out;
}

static struct outcome run(const struct setting *setting, const char *statistics, int n_final) {
    struct oct_config *config = configure(setting, statistics, n_final);
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    const struct outcome out = take(trainer);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return out;
}

/* The mean over nodes of element i, and how large the nodes' are. */
static double mean_of(const struct outcome *outcome, size_t i, const unsigned char *away,
                      double *size) {
    double sum = 0.0;
    int n = 0;
    *size = 0.0;
    for (int node = 0; node < N_NODES; node++) {
        const double value = (double)outcome->rows[(size_t)node * outcome->n + i];
        if (!away || !away[node]) {
            sum += value;
            *size = fmax(*size, fabs(value));
            n++;
        }
    }
    return sum / n;
}

/* How far the nodes of `after` are from the mean of `before`, as a part of what they were, at most. */
static double apart(const struct outcome *before, const struct outcome *after,
                    const unsigned char *away) {
    double most = 0.0, size;
    for (size_t i = 0; i < before->n; i++) {
        const double mean = mean_of(before, i, away, &size);
        for (int node = 0; node < N_NODES; node++) {
            const double value = (double)after->rows[(size_t)node * after->n + i];
            if (size > 0.0 && (!away || !away[node])) {
                most = fmax(most, fabs(value - mean) / size);
            }
        }
    }
    return most;
}

/* --- the mean --------------------------------------------------------------------------------- */

static void every_node_has_the_mean(void **state) {
    (void)state;
    for (size_t i = 0; i < OCT_COUNT_OF(settings); i += IS_EMULATED ? 4 : 1) {
        struct outcome own = run(&settings[i], "own", 100), mixed = run(&settings[i], "mix", 100);
        const double before = apart(&own, &own, NULL), after = apart(&own, &mixed, NULL);
        print_message("%s on %s, %s %s: %zu statistics, from %.3g to %.3g of the mean\n",
                      settings[i].algorithm, settings[i].topology, settings[i].precision,
                      settings[i].norm, own.n_values, before, after);
        assert_true(own.n_values > 0 && before > 0.01);
        assert_true(after < 3e-6);
        outcome_drop(&own);
        outcome_drop(&mixed);
    }
}

/* sum u z is what sum x was, after any number of rounds; u is 1 where there is no push-sum. */
static void mass_is_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < OCT_COUNT_OF(settings); i++) {
        for (int n_final = 1; n_final <= 7; n_final += 2) {
            struct outcome own = run(&settings[i], "own", n_final);
            struct outcome mixed = run(&settings[i], "mix", n_final);
            double most = 0.0, moved = 0.0, size;
            for (size_t k = 0; k < own.n; k++) {
                const double mean = mean_of(&own, k, NULL, &size);
                double sum = 0.0;
                for (int node = 0; node < N_NODES; node++) {
                    const size_t at = (size_t)node * own.n + k;
                    sum += mixed.u[node] * (double)mixed.rows[at];
                    moved += own.rows[at] != mixed.rows[at];
                }
                if (size > 0.0) {
                    most = fmax(most, fabs(sum / N_NODES - mean) / size);
                }
            }
            print_message("%s on %s, %d rounds: the mass is %.3g off, %g numbers have changed\n",
                          settings[i].algorithm, settings[i].topology, n_final, most, moved);
            assert_true(moved > 0 && most < 1e-6);
            outcome_drop(&own);
            outcome_drop(&mixed);
        }
    }
}

/* --- what it costs, and what stays ------------------------------------------------------------ */

static void nothing_else_changes(void **state) {
    (void)state;
    enum { ROUNDS = 6 };
    for (size_t i = 0; i < OCT_COUNT_OF(settings); i++) {
        struct outcome own = run(&settings[i], "own", ROUNDS),
                       mixed = run(&settings[i], "mix", ROUNDS);
        struct outcome plain = run(&settings[i], "own", 0);
        const struct oct_result *a = &own.result, *b = &mixed.result;
        const uint64_t n_more = mixed.messages - own.messages;
        uint64_t sent = 0;
        for (int node = 0; node < N_NODES; node++) {
            sent += mixed.nodes[node].bytes_sent;
        }
        print_message("%s on %s: %llu messages of %zu numbers more, %llu and %llu bytes, by node "
                      "%llu, by edge %llu\n",
                      settings[i].algorithm, settings[i].topology, (unsigned long long)n_more,
                      own.n_values, (unsigned long long)a->bytes_sent,
                      (unsigned long long)b->bytes_sent, (unsigned long long)sent,
                      (unsigned long long)mixed.over_edges);
        assert_string_equal(a->model_sha256, b->model_sha256);
        assert_true(a->consensus_distance == b->consensus_distance);
        /* with push-sum the mean of z comes to that of x by and by */
        const int is_plain = strcmp(settings[i].algorithm, "choco") == 0 ||
                             strcmp(settings[i].algorithm, "dpsgd") == 0 ||
                             strcmp(settings[i].algorithm, "deepsqueeze") == 0;
        assert_true(!is_plain || fabs(a->loss - b->loss) <= 1e-3 * fabs(a->loss));
        assert_int_equal(a->bytes_dense, b->bytes_dense);
        assert_int_equal(a->messages, b->messages);
        assert_int_equal(a->state_bytes, b->state_bytes);
        /* as many messages as the rounds of parameters have, of another length */
        assert_int_equal(n_more, own.messages - plain.messages);
        assert_true(n_more >= ROUNDS);
        assert_int_equal(b->bytes_sent - a->bytes_sent, n_more * oct__wire_dense(own.n_values));
        assert_int_equal(b->bytes_final - a->bytes_final, n_more * oct__wire_dense(own.n_values));
        assert_int_equal(sent, b->bytes_sent);
        assert_int_equal(mixed.over_edges, b->bytes_sent);
        /* training's own statistics are what it made of them */
        assert_memory_equal(own.rows, plain.rows, N_NODES * own.n * sizeof *own.rows);
        outcome_drop(&own);
        outcome_drop(&mixed);
        outcome_drop(&plain);
    }
}

/* Nobody mixes where nobody would: one node, no final rounds, a model without statistics, no gossip. */
static void nothing_to_mix(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
    } cases[] = {{"nodes", "1"},
                 {"final-gossip", "0"},
                 {"norm", "groupnorm"},
                 {"algorithm", "allreduce"},
                 {"algorithm", "none"}};
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = configure(&settings[0], "mix", 3);
        struct oct_trainer *trainer = NULL;
        EXPECT_OK(oct_config_set(config, cases[i].name, cases[i].value));
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        print_message("%s %s: %s\n", cases[i].name, cases[i].value,
                      trainer->statistics ? "mixes" : "mixes nothing");
        assert_null(trainer->statistics);
        EXPECT_OK(oct_trainer_run(trainer));
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
}

/* --- one model -------------------------------------------------------------------------------- */

/* A run that learns something, on data of which each node has mostly one class. */
static struct oct_result learn(const char *precision, const char *norm, const char *statistics,
                               struct oct_node nodes[N_NODES]) {
    struct oct_config *config = configure(&settings[0], statistics, 100);
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=4,blocks=1"));
    EXPECT_OK(oct_config_set(config, "data", "synthetic:samples=512,size=6,classes=4,noise=0"));
    EXPECT_OK(oct_config_set(config, "partition", "skew:0.9"));
    EXPECT_OK(oct_config_set(config, "compress", "int8"));
    EXPECT_OK(oct_config_set(config, "epochs", "12"));
    EXPECT_OK(oct_config_set(config, "lr", "0.05"));
    EXPECT_OK(oct_config_set(config, "augment", "none"));
    EXPECT_OK(oct_config_set(config, "precision", precision));
    EXPECT_OK(oct_config_set(config, "norm", norm));
    if (strcmp(precision, "int8") == 0) {
        EXPECT_OK(oct_config_set(config, "precision-recipe", "paper"));
    }
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    for (int node = 0; node < N_NODES; node++) {
        EXPECT_OK(oct_trainer_node(trainer, node, &nodes[node]));
    }
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void nodes_are_as_good_as_the_average(void **state) {
    (void)state;
    static const char *const kinds[][2] = {{"fp32", "batchnorm"}, {"int8", "range-batchnorm"}};
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        struct oct_node nodes[N_NODES];
        const struct oct_result own = learn(kinds[i][0], kinds[i][1], "own", nodes);
        const struct oct_result mixed = learn(kinds[i][0], kinds[i][1], "mix", nodes);
        print_message("%s %s: average model %.2f %%; nodes by themselves %.2f to %.2f %%; mixed "
                      "%.2f %%, %.2f to %.2f %%\n",
                      kinds[i][0], kinds[i][1], own.accuracy, own.accuracy_least, own.accuracy_most,
                      mixed.accuracy, mixed.accuracy_least, mixed.accuracy_most);
        assert_string_equal(own.model_sha256, mixed.model_sha256);
        assert_true(own.accuracy_most - own.accuracy_least > 5.0);
        assert_true(mixed.accuracy_least == mixed.accuracy_most);
        assert_true(mixed.accuracy_nodes == mixed.accuracy);
        for (int node = 0; node < N_NODES; node++) {
            assert_true(nodes[node].test_accuracy == mixed.accuracy);
        }
    }
}

/* --- nodes that are away ---------------------------------------------------------------------- */

/* Who is gone for good keeps what it had, and the others come to their own mean, whatever is lost. */
static void those_who_are_there(void **state) {
    (void)state;
    static const struct setting broken[] = {
        {"choco", "ring", "fp32", "octet", "batchnorm", "inproc", "crash:node=1,step=2"},
        {"sgp", "star", "int8", "paper", "range-evonorm", "loopback",
         "drop:p=0.3+delay:p=0.3,rounds=2+crash:node=1,step=3"},
        {"sparse-push", "directed-ring", "fp32", "octet", "batchnorm", "loopback",
         "duplicate:p=0.3+reorder:p=0.3+crash:node=1,step=3"},
    };
    const unsigned char away[N_NODES] = {0, 1, 0, 0, 0};
    for (size_t i = 0; i < OCT_COUNT_OF(broken); i++) {
        struct outcome own = run(&broken[i], "own", 100), mixed = run(&broken[i], "mix", 100);
        const double after = apart(&own, &mixed, away);
        const struct oct_fault_counts *a = &own.result.faults, *b = &mixed.result.faults;
        print_message("%s on %s, %s: %.3g of the mean of those who are there; %llu and %llu lost\n",
                      broken[i].algorithm, broken[i].topology, broken[i].fault, after,
                      (unsigned long long)a->dropped, (unsigned long long)b->dropped);
        assert_true(apart(&own, &own, away) > 0.01);
        assert_true(after < 3e-6);
        assert_memory_equal(own.rows + own.n, mixed.rows + own.n, own.n * sizeof *own.rows);
        assert_memory_equal(a, b, sizeof *a);
        assert_string_equal(own.result.model_sha256, mixed.result.model_sha256);
        assert_int_equal(mixed.over_edges, mixed.result.bytes_sent);
        outcome_drop(&own);
        outcome_drop(&mixed);
    }
}

/* --- stopped and resumed ---------------------------------------------------------------------- */

struct stop {
    int after; /* rounds without training */
};

static int stop_between_rounds(const struct oct_progress *progress, void *context) {
    const struct stop *stop = context;
    return progress->phase == OCT_PHASE_GOSSIP && progress->epoch_step == stop->after;
}

static void keep_stopped(struct oct_config *config, struct stop *stop) {
    const struct oct_hooks hooks = {.progress = stop_between_rounds, .progress_context = stop};
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    assert_int_equal(oct_trainer_run(trainer), OCT_STATUS_CANCELLED);
    oct_trainer_destroy(trainer);
}

/* A checkpoint has none of the statistics' rounds, or after the last round all of them. */
static void the_same_when_resumed(void **state) {
    (void)state;
    enum { ROUNDS = 4 };
    struct folder scratch;
    folder_open(&scratch);
    for (size_t i = 0; i < OCT_COUNT_OF(settings); i++) {
        struct outcome whole = run(&settings[i], "mix", ROUNDS);
        for (struct stop stop = {1}; stop.after <= ROUNDS; stop.after++) {
            struct oct_config *config = configure(&settings[i], "mix", ROUNDS);
            struct oct_trainer *trainer = NULL;
            char path[FOLDER_PATH];
            snprintf(path, sizeof path, "%s", folder_file(&scratch, "run"));
            EXPECT_OK(oct_config_set(config, "checkpoint", path));
            keep_stopped(config, &stop);
            EXPECT_OK(oct_config_set(config, "resume", path));
            EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
            EXPECT_OK(oct_trainer_run(trainer));
            struct outcome pieces = take(trainer);
            print_message("%s on %s, stopped after round %d of %d: %.8s…, %llu bytes\n",
                          settings[i].algorithm, settings[i].topology, stop.after, ROUNDS,
                          pieces.result.model_sha256, (unsigned long long)pieces.result.bytes_sent);
            assert_memory_equal(whole.rows, pieces.rows, N_NODES * whole.n * sizeof *whole.rows);
            assert_string_equal(whole.result.model_sha256, pieces.result.model_sha256);
            assert_int_equal(whole.result.bytes_sent, pieces.result.bytes_sent);
            assert_int_equal(whole.result.bytes_final, pieces.result.bytes_final);
            assert_int_equal(whole.over_edges, pieces.over_edges);
            outcome_drop(&pieces);
            oct_trainer_destroy(trainer);
            oct_config_destroy(config);
            assert_int_equal(oct__folder_remove(path), 0);
        }
        outcome_drop(&whole);
    }
    folder_close(&scratch);
}

int main(void) {
    if (IS_EMULATED) { /* an engine that is wide and has memory of its own */
        const struct CMUnitTest one[] = {cmocka_unit_test(every_node_has_the_mean)};
        return cmocka_run_group_tests(one, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_has_the_mean),
        cmocka_unit_test(mass_is_kept),
        cmocka_unit_test(nothing_else_changes),
        cmocka_unit_test(nothing_to_mix),
        cmocka_unit_test(nodes_are_as_good_as_the_average),
        cmocka_unit_test(those_who_are_there),
        cmocka_unit_test(the_same_when_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
