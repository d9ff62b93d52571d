/* SPDX-License-Identifier: Apache-2.0 */
/* test_determinism.c - a run's bits are a function of its options: not of threads, not of luck.
 *
 * The same seed gives the same model on 1, 2 and 3 threads, with one node, whose batch threads
 * share in fixed shards, and with several, which threads take whole; on every engine, with every
 * norm and model. Another seed gives another model. Batches end with a short shard and epochs with a batch
 * that is filled from the next permutation.
 */
#include <pthread.h>
#include <stdlib.h>

#include <octet/octet.h>

#include "base/parallel.h"
#include "engine/engine.h"
#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/narrow.h"
#include "support/solo.h"
#include "train/trainer.h"

struct options {
    const char *engine, *norm, *precision, *batch, *seed, *model, *augment;
    int n_nodes, n_threads;
};

static const struct options plain = {
    .precision = "fp32",
    .batch = "20",
    .seed = "1",
    .model = "resnet20:width=8,blocks=1",
    .augment = "crop-flip",
    .n_nodes = 1,
    .n_threads = 1,
};

static struct oct_trainer *make(const struct options *o, struct oct_config **config) {
    struct oct_trainer *trainer = NULL;
    char threads[16];
    snprintf(threads, sizeof threads, "%d", o->n_threads);
    EXPECT_OK(oct_config_create(config));
    EXPECT_OK(oct_config_set(*config, "model", o->model));
    EXPECT_OK(oct_config_set(*config, "data", "synthetic:samples=50,size=8"));
    EXPECT_OK(oct_config_set(*config, "epochs", "2"));
    EXPECT_OK(oct_config_set(*config, "batch", o->batch));
    EXPECT_OK(oct_config_set(*config, "seed", o->seed));
    EXPECT_OK(oct_config_set(*config, "engine", o->engine));
    EXPECT_OK(oct_config_set(*config, "norm", o->norm));
    EXPECT_OK(oct_config_set(*config, "precision", o->precision));
    EXPECT_OK(oct_config_set(*config, "augment", o->augment));
    EXPECT_OK(oct_config_set(*config, "threads", threads));
    EXPECT_OK(solo(*config, o->n_nodes));
    EXPECT_OK(oct_trainer_create(*config, NULL, &trainer));
    return trainer;
}

static struct oct_result train(const struct options *o) {
    struct oct_config *config = NULL;
    struct oct_result result;
    struct oct_trainer *trainer = make(o, &config);
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    assert_int_equal(strlen(result.model_sha256), 64);
    assert_int_equal(result.epochs, 2);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

/* Everything that does not measure time. */
static void expect_same(const struct oct_result *a, const struct oct_result *b) {
    assert_string_equal(a->model_sha256, b->model_sha256);
    assert_memory_equal(&a->accuracy, &b->accuracy, sizeof a->accuracy);
    assert_memory_equal(&a->accuracy_nodes, &b->accuracy_nodes, sizeof a->accuracy_nodes);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->train_loss, &b->train_loss, sizeof a->train_loss);
    assert_memory_equal(&a->consensus_distance, &b->consensus_distance,
                        sizeof a->consensus_distance);
    assert_int_equal(a->n_parameters, b->n_parameters);
    assert_int_equal(a->state_bytes, b->state_bytes);
}

static void expect_same_on_threads(struct options o) {
    struct oct_result first = train(&o);
    print_message("%s, %s, %s, %s, %d nodes: loss %.6f, distance %.2e, %.16s…\n", o.engine, o.model,
                  o.precision, o.norm, o.n_nodes, first.loss, first.consensus_distance,
                  first.model_sha256);
    assert_int_equal(first.consensus_distance > 0, o.n_nodes > 1);
    for (o.n_threads = 2; o.n_threads <= 3; o.n_threads++) {
        struct oct_result other = train(&o);
        expect_same(&first, &other);
    }
}

/* Engines that train; the oracle is too slow for this, operation by operation it is held to the same in
 * test_engine.c. */
static int is_subject(int engine) {
    return !oct__engine_at(engine)->plugin.unavailable && !oct__engine_at(engine)->is_oracle;
}

static void threads_do_not_matter(const char *precision) {
    if (!oct__parallel_available()) {
        print_message("built without threads: every count is one\n");
    }
    for (int e = 0; oct__engine_at(e); e++) {
        for (int i = 0; is_subject(e) && oct__norm_at(i); i++) {
            static const int node_counts[] = {1, 2, 4};
            for (size_t n = 0; n < OCT_COUNT_OF(node_counts); n++) {
                struct options o = plain;
                o.precision = precision;
                o.engine = oct__engine_at(e)->plugin.name;
                o.norm = oct__norm_at(i)->plugin.name;
                o.n_nodes = node_counts[n];
                expect_same_on_threads(o);
            }
        }
    }
}

/* Every model, one node shared by threads and several of them; a norm that sees the whole batch. */
static void threads_do_not_matter_to_models(void **state) {
    (void)state;
    for (int e = 0; oct__engine_at(e); e++) {
        for (int i = 0; is_subject(e) && oct__model_at(i); i++) {
            struct options o = plain;
            o.engine = oct__engine_at(e)->plugin.name;
            o.model = narrow_model(oct__model_at(i)->plugin.name);
            o.norm = "batchnorm";
            o.precision = strcmp(o.engine, "portable") == 0 ? "int8" : "fp32";
            expect_same_on_threads(o);
            o.norm = "range-evonorm";
            o.precision = "int8";
            o.n_nodes = 2;
            expect_same_on_threads(o);
        }
    }
}

static void threads_do_not_matter_in_fp32(void **state) {
    (void)state;
    threads_do_not_matter("fp32");
}

static void threads_do_not_matter_in_int8(void **state) {
    (void)state;
    threads_do_not_matter("int8");
}

/* Each thing that should change the model does, and twice the same does not. */
static void what_matters(void **state) {
    (void)state;
    struct options o = plain;
    o.engine = "portable";
    o.norm = "evonorm-s0";
    struct oct_result first = train(&o), again = train(&o);
    expect_same(&first, &again);
    struct options others[] = {o, o, o, o, o, o};
    others[0].seed = "2";
    others[1].batch = "21";
    others[2].norm = "groupnorm";
    others[3].augment = "none";
    others[4].n_nodes = 2;
    others[5].precision = "int8";
    static const char *const names[] = {"seed", "batch", "norm", "augment", "nodes", "precision"};
    for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
        struct oct_result other = train(&others[i]);
        print_message("another %s: %.16s… and %.16s…\n", names[i], first.model_sha256,
                      other.model_sha256);
        assert_string_not_equal(first.model_sha256, other.model_sha256);
    }
}

/* A large seed is not cut: its upper half names other numbers too. */
static void seeds_have_more_than_32_bits(void **state) {
    (void)state;
    struct options a = plain, b = plain;
    a.engine = b.engine = "portable";
    a.norm = b.norm = "evonorm-s0";
    a.seed = "1";
    b.seed = "4294967297";
    struct oct_result first = train(&a), other = train(&b);
    print_message("seeds 1 and 2^32 + 1: %.16s… and %.16s…\n", first.model_sha256,
                  other.model_sha256);
    assert_string_not_equal(first.model_sha256, other.model_sha256);
}

/* Nodes that do not talk: a node's own results do not depend on what its neighbours hold. */
static void nodes_are_isolated(void **state) {
    (void)state;
    struct options o = plain;
    o.engine = "portable";
    o.norm = "groupnorm";
    o.n_nodes = 3;
    struct oct_config *config = NULL;
    struct oct_trainer *a = make(&o, &config);
    oct_config_destroy(config);
    struct oct_trainer *b = make(&o, &config);
    oct_config_destroy(config);
    /* Node 2 of the second starts elsewhere; nodes 0 and 1 must not notice. */
    const size_t n = a->graph.params.n_elements;
    float *row = calloc(n, sizeof *row);
    assert_non_null(row);
    oct__row_init(&b->graph.params, 99, row);
    char *third = (char *)b->cohort->state[OCT_HOME_PARAM] + 2 * b->cohort->stride[OCT_HOME_PARAM];
    EXPECT_OK(b->engine->write(b->engine, third, row, n * sizeof *row));
    free(row);
    for (int step = 0; step < 3; step++) {
        EXPECT_OK(oct__trainer_step(a));
        EXPECT_OK(oct__trainer_step(b));
        print_message("step %d: losses %.6f %.6f %.6f and %.6f %.6f %.6f\n", step, a->nodes[0].loss,
                      a->nodes[1].loss, a->nodes[2].loss, b->nodes[0].loss, b->nodes[1].loss,
                      b->nodes[2].loss);
        assert_memory_equal(&a->nodes[0].loss, &b->nodes[0].loss, sizeof a->nodes[0].loss);
        assert_memory_equal(&a->nodes[1].loss, &b->nodes[1].loss, sizeof a->nodes[1].loss);
        assert_true(a->nodes[2].loss != b->nodes[2].loss);
        assert_true(a->nodes[0].loss != a->nodes[1].loss);
    }
    oct_trainer_destroy(a);
    oct_trainer_destroy(b);
}

/* --- two at once ------------------------------------------------------------------------------ */

/* A whole run without assertions: these belong to the main thread. */
struct side_run {
    const char *seed, *engine;
    oct_status status;
    char detail[256];
    struct oct_result result;
};

static oct_status run_aside(struct side_run *side) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    oct_status status = OCT_OK;
    OCT_TRY_TO(out, oct_config_create(&config));
    OCT_TRY_TO(out, solo(config, 1));
    OCT_TRY_TO(out, oct_config_set(config, "model", plain.model));
    OCT_TRY_TO(out, oct_config_set(config, "data", "synthetic:samples=50,size=8"));
    OCT_TRY_TO(out, oct_config_set(config, "epochs", "3"));
    OCT_TRY_TO(out, oct_config_set(config, "batch", plain.batch));
    OCT_TRY_TO(out, oct_config_set(config, "engine", side->engine));
    OCT_TRY_TO(out, oct_config_set(config, "seed", side->seed));
    OCT_TRY_TO(out, oct_config_set(config, "threads", "2"));
    OCT_TRY_TO(out, oct_trainer_create(config, NULL, &trainer));
    OCT_TRY_TO(out, oct_trainer_run(trainer));
    OCT_TRY_TO(out, oct_trainer_result(trainer, &side->result));
out:
    snprintf(side->detail, sizeof side->detail, "%s", oct_last_error());
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return status;
}

static void *run_on_a_thread(void *context) {
    struct side_run *side = context;
    side->status = run_aside(side);
    return NULL;
}

/* Trainers on different threads, as the API allows, give what each gives alone. */
static void trainers_side_by_side(void **state) {
    (void)state;
    static const char *const seeds[] = {"11", "12", "13"};
    for (int e = 0; oct__engine_at(e); e++) {
        if (oct__engine_at(e)->plugin.unavailable || oct__engine_at(e)->is_oracle) {
            continue;
        }
        struct side_run together[3], alone;
        pthread_t threads[3];
        memset(together, 0, sizeof together);
        for (int i = 0; i < 3; i++) {
            together[i].seed = seeds[i];
            together[i].engine = oct__engine_at(e)->plugin.name;
            assert_int_equal(pthread_create(&threads[i], NULL, run_on_a_thread, &together[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (int i = 0; i < 3; i++) {
            alone = (struct side_run){.seed = seeds[i], .engine = together[i].engine};
            run_on_a_thread(&alone);
            print_message("%s, seed %s: %.16s… among others, %.16s… alone\n", alone.engine,
                          alone.seed, together[i].result.model_sha256, alone.result.model_sha256);
            if (together[i].status != OCT_OK || alone.status != OCT_OK) {
                fail_msg("among others: %s: %s; alone: %s: %s", oct_status_name(together[i].status),
                         together[i].detail, oct_status_name(alone.status), alone.detail);
            }
            expect_same(&together[i].result, &alone.result);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter_in_fp32),
        cmocka_unit_test(threads_do_not_matter_in_int8),
        cmocka_unit_test(threads_do_not_matter_to_models),
        cmocka_unit_test(what_matters),
        cmocka_unit_test(seeds_have_more_than_32_bits),
        cmocka_unit_test(nodes_are_isolated),
        cmocka_unit_test(trainers_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
