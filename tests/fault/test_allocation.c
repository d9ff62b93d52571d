/* SPDX-License-Identifier: Apache-2.0 */
/* test_allocation.c - memory runs out: at the first request, at the second, … until there is
 * enough.
 *
 * Everything from an empty configuration to a loaded model, on every engine. Each failure is
 * NO_MEMORY, cleans up while memory is still short (the address sanitizer watches for leaks), and
 * leaves nothing behind that would disturb the next attempt.
 */
#include <stdlib.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "nn/layer.h"
#include "once.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/folder.h"
#include "support/solo.h"
#include "train/inference.h"
#include "train/trainer.h"

static struct folder folder;

/* --- attempts --------------------------------------------------------------------------------- */

static oct_status tiny_model(struct oct_graph *g, void *context) {
    (void)context;
    int x = oct_graph_conv(g, "stem", oct_graph_input(g),
                           (struct oct_conv){.channels = 8, .kernel = 3, .pad = 1, .bias = 1});
    x = oct_graph_norm(g, "norm", x);
    x = oct_graph_activation(g, "act", x);
    x = oct_graph_add(g, "sum", x, oct_graph_dropout(g, "drop", x, 0.25));
    x = oct_graph_max_pool(g, "max", x, (struct oct_pool){.kernel = 2});
    x = oct_graph_global_pool(g, "pool", x);
    oct_graph_output(g, oct_graph_linear(g, "head", x, oct_graph_classes(g)));
    return OCT_OK;
}

/* Two hundred layers make lists grow. */
static oct_status deep_model(struct oct_graph *g, void *context) {
    (void)context;
    int x = oct_graph_input(g);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", i);
        x = i % 2 ? oct_graph_relu(g, name, x) : oct_graph_dropout(g, name, x, 0);
    }
    x = oct_graph_global_pool(g, "pool", x);
    oct_graph_output(g, oct_graph_linear(g, "head", x, oct_graph_classes(g)));
    return OCT_OK;
}

struct attempt {
    const char *engine, *norm;
    oct_graph_build_fn *model;
    struct oct_config *config;
    struct oct_trainer *trainer;
    struct oct__inference *inference;
    struct oct_result result;
    const char *stage; /* how far it came */
};

/* How the nodes of an attempt talk; NULL: there is one alone. */
static const struct network { const char *algorithm, *topology, *transport, *fault; } * network;

static oct_status configure(struct attempt *a) {
    OCT_TRY(oct_config_create(&a->config));
    if (network) {
        OCT_TRY(oct_config_set(a->config, "nodes", "3"));
        OCT_TRY(oct_config_set(a->config, "algorithm", network->algorithm));
        OCT_TRY(oct_config_set(a->config, "topology", network->topology));
        OCT_TRY(oct_config_set(a->config, "transport", network->transport));
        OCT_TRY(oct_config_set(a->config, "compress", "topk:0.5,values=int8"));
        OCT_TRY(oct_config_set(a->config, "fault", network->fault));
    } else {
        OCT_TRY(solo(a->config, 1));
    }
    OCT_TRY(oct_config_set(a->config, "engine", a->engine));
    OCT_TRY(oct_config_set(a->config, "norm", a->norm));
    OCT_TRY(oct_config_set(a->config, "data", "synthetic:samples=9,size=6,classes=3"));
    OCT_TRY(oct_config_set(a->config, "batch", "5"));
    OCT_TRY(oct_config_set(a->config, "threads", "2"));
    return oct_config_set(a->config, "epochs", "1");
}

static oct_status classify(struct attempt *a) {
    static const uint32_t rows[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    float logits[9 * 3];
    const struct oct__inference_config config = {
        .engine = a->trainer->engine,
        .graph = &a->trainer->graph,
        .data = &a->trainer->cohort->crew->train,
        .batch = 9,
        .n_threads = a->trainer->n_threads,
    };
    OCT_TRY(oct__inference_create(&config, &a->inference));
    OCT_TRY(oct__inference_set(a->inference, a->trainer->cohort->state[OCT_HOME_PARAM],
                               a->trainer->cohort->state[OCT_HOME_STAT]));
    return oct__inference_run(a->inference, rows, logits);
}

static oct_status go(struct attempt *a) {
    const struct oct_hooks hooks = {.model = a->model};
    a->stage = "configure";
    OCT_TRY(configure(a));
    a->stage = "create";
    OCT_TRY(oct_trainer_create(a->config, &hooks, &a->trainer));
    a->stage = "step";
    OCT_TRY(oct__trainer_step(a->trainer));
    a->stage = "result";
    OCT_TRY(oct_trainer_result(a->trainer, &a->result));
    a->stage = "infer";
    OCT_TRY(classify(a));
    a->stage = "save";
    OCT_TRY(oct_trainer_save(a->trainer, folder.file));
    a->stage = "load";
    return oct_trainer_load(a->trainer, folder.file);
}

static void clean_up(struct attempt *a) {
    oct__inference_destroy(a->inference);
    oct_trainer_destroy(a->trainer);
    oct_config_destroy(a->config);
    a->inference = NULL;
    a->trainer = NULL;
    a->config = NULL;
}

/* `arm` makes requests fail from the n-th on, or the n-th alone. */
static void every_request_fails(const char *engine, const char *norm, oct_graph_build_fn *model,
                                void (*arm)(uint64_t n)) {
    struct attempt expected = {.engine = engine, .norm = norm, .model = model};
    folder_file(&folder, "model.safetensors");
    const uint64_t before = oct__alloc_count();
    EXPECT_OK(go(&expected));
    const uint64_t n_requests = oct__alloc_count() - before;
    clean_up(&expected);
    print_message("%s, %s: %llu requests\n", engine, norm, (unsigned long long)n_requests);
    assert_true(n_requests > 30);
    const char *stage = "";
    for (uint64_t n = 1;; n++) {
        struct attempt a = {.engine = engine, .norm = norm, .model = model};
        arm(n);
        oct_status status = go(&a);
        char detail[256];
        snprintf(detail, sizeof detail, "%s", oct_last_error());
        if (status != OCT_OK) {
            clean_up(&a); /* while nothing can be had */
        }
        arm(0);
        if (status == OCT_OK) {
            assert_int_equal(n, n_requests + 1); /* every one was made to fail */
            assert_string_equal(a.result.model_sha256, expected.result.model_sha256);
            clean_up(&a);
            break;
        }
        if (strcmp(stage, a.stage) != 0) {
            print_message("  from request %llu on, in %s: %s: %s\n", (unsigned long long)n, a.stage,
                          oct_status_name(status), detail);
            stage = a.stage;
        }
        if (status != OCT_STATUS_NO_MEMORY) {
            fail_msg("request %llu of %llu, in %s: %s: %s", (unsigned long long)n,
                     (unsigned long long)n_requests, a.stage, oct_status_name(status), detail);
        }
        assert_true(strlen(detail) > 10);
    }
    /* The file of the good attempt is whole, and no half-written one lies beside it. */
    assert_int_equal(folder_count(&folder), 1);
    assert_string_equal(stage, "load");
}

static void on_every_engine(void **state) {
    (void)state;
    for (int i = 0; oct__engine_at(i); i++) {
        if (!oct__engine_at(i)->plugin.unavailable) {
            every_request_fails(oct__engine_at(i)->plugin.name, "batchnorm", tiny_model,
                                oct__alloc_fail_after);
        }
    }
}

static void with_every_norm(void **state) {
    (void)state;
    for (int i = 0; oct__norm_at(i); i++) {
        every_request_fails("portable", oct__norm_at(i)->plugin.name, tiny_model,
                            oct__alloc_fail_after);
    }
}

/* Rows and replicas of gossip, packets, messages on their way, and what finds the momentum. */
static void while_nodes_talk(void **state) {
    (void)state;
    static const struct network networks[] = {
        {"choco", "ring", "inproc", ""},
        {"choco", "one-peer-exponential", "loopback", ""},
        {"sparse-push", "star", "loopback", ""},
        {"allreduce", "ring", "inproc", ""},
        {"quant-sgp", "ring", "loopback", "delay:p=1+crash:node=1,step=0"},
        {"allreduce", "ring", "inproc", "drop:p=1"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(networks); i++) {
        network = &networks[i];
        print_message("%s, %s, %s\n", network->algorithm, network->topology, network->transport);
        every_request_fails("portable", "groupnorm", tiny_model, oct__alloc_fail_after);
    }
    network = NULL;
}

static void while_lists_grow(void **state) {
    (void)state;
    every_request_fails("portable", "groupnorm", deep_model, oct__alloc_fail_after);
}

static void one_alone(void **state) {
    (void)state;
    if (!CAN_FAIL_ONCE) {
        skip();
    }
    every_request_fails("cpu", "batchnorm", tiny_model, fail_once);
    every_request_fails("portable", "evonorm-s0", tiny_model, fail_once);
    every_request_fails("portable", "groupnorm", deep_model, fail_once);
}

/* A step that allocates, on the engine that has only memory: every failure inside it comes back
 * from its threads, and the cohort can still be stepped afterwards. */
static void inside_a_step(void **state) {
    (void)state;
    struct oct_dataset *train = NULL, *test = NULL;
    struct oct_graph g;
    struct oct__engine *hollow = NULL;
    struct oct__cohort *cohort = NULL;
    struct oct__node_step nodes[2];
    struct oct_partition *partition = NULL;
    const struct oct_partition_options deal = {.name = "skew:0", .n_nodes = 2};
    EXPECT_OK(
        oct_dataset_open("synthetic:samples=9,size=6,classes=3", NULL, OCT_SPLIT_TRAIN, &train));
    EXPECT_OK(
        oct_dataset_open("synthetic:samples=9,size=6,classes=3", NULL, OCT_SPLIT_TEST, &test));
    EXPECT_OK(oct__graph_init(&g, 6, 6, 3, 3, oct__norm_find("groupnorm")));
    EXPECT_OK(tiny_model(&g, NULL));
    EXPECT_OK(oct__graph_check(&g));
    EXPECT_OK(hollow_open(2, &hollow));
    EXPECT_OK(oct_partition_create(train, &deal, &partition));
    const struct oct__cohort_config config = {.engine = hollow,
                                              .graph = &g,
                                              .train = train,
                                              .test = test,
                                              .n_nodes = 2,
                                              .n_threads = 2,
                                              .batch = 5,
                                              .seed = 1,
                                              .partition = partition};
    EXPECT_OK(oct__cohort_create(&config, &cohort));
    const uint64_t before = oct__alloc_count();
    EXPECT_OK(oct__cohort_step(cohort, &(struct oct__step){0, 0.1F, 0, 0, 0}, nodes));
    const uint64_t n_requests = oct__alloc_count() - before;
    print_message("a step by the fallback: %llu requests\n", (unsigned long long)n_requests);
    assert_true(n_requests > 20);
    for (uint64_t n = 1; n <= n_requests; n++) {
        oct__alloc_fail_after(n);
        oct_status status = oct__cohort_step(cohort, &(struct oct__step){1, 0.1F, 0, 0, 0}, nodes);
        oct__alloc_fail_after(0);
        if (status != OCT_STATUS_NO_MEMORY || !strstr(oct_last_error(), "fallback staging") ||
            strncmp(oct_last_error(), "step 1: ", 8) != 0) {
            fail_msg("request %llu: %s: %s", (unsigned long long)n, oct_status_name(status),
                     oct_last_error());
        }
    }
    EXPECT_OK(oct__cohort_step(cohort, &(struct oct__step){2, 0.1F, 0, 0, 0}, nodes));
    oct__cohort_destroy(cohort);
    oct_partition_destroy(partition);
    oct__engine_close(hollow);
    oct__graph_fini(&g);
    oct_dataset_close(train);
    oct_dataset_close(test);
}

/* Made and after a step, or the status of the first that is not. */
static oct_status go_side_by_side(const struct oct_config *const *configs, int n,
                                  struct oct_trainer **trainers) {
    OCT_TRY(oct_trainers_create(configs, NULL, n, trainers));
    for (int i = 0; i < n; i++) {
        OCT_TRY(i == 0 ? oct__trainer_step(trainers[i]) : oct__trainer_ending(trainers[i]));
    }
    return OCT_OK;
}

/* Whichever run a request is for, and however many are made by then. */
static void side_by_side(void **state) {
    (void)state;
    static const struct network talking = {"choco", "directed-ring", "inproc", "drop:p=0.1"};
    struct attempt attempts[3] = {{.engine = "cpu", .norm = "groupnorm"},
                                  {.engine = "cpu", .norm = "groupnorm"},
                                  {.engine = "cpu", .norm = "groupnorm"}};
    struct oct_config *configs[3];
    uint64_t n_requests = 0;
    network = &talking;
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(configure(&attempts[i]));
        configs[i] = attempts[i].config;
    }
    network = NULL;
    for (uint64_t n = 0; n <= n_requests; n++) { /* 0: none fails */
        struct oct_trainer *trainers[3] = {NULL, NULL, NULL};
        const uint64_t before = oct__alloc_count();
        oct__alloc_fail_after(n);
        oct_status status = go_side_by_side((const struct oct_config *const *)configs, 3, trainers);
        oct__alloc_fail_after(0);
        n_requests = n == 0 ? oct__alloc_count() - before : n_requests;
        assert_int_equal(status, n == 0 ? OCT_OK : OCT_STATUS_NO_MEMORY);
        for (int i = 0; i < 3; i++) {
            oct_trainer_destroy(trainers[i]);
        }
    }
    print_message("%llu requests\n", (unsigned long long)n_requests);
    assert_true(n_requests > 300);
    for (int i = 0; i < 3; i++) {
        clean_up(&attempts[i]);
    }
}

static int set_up(void **state) {
    (void)state;
    folder_open(&folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    folder_close(&folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_every_engine),  cmocka_unit_test(with_every_norm),
        cmocka_unit_test(while_nodes_talk), cmocka_unit_test(while_lists_grow),
        cmocka_unit_test(one_alone),        cmocka_unit_test(inside_a_step),
        cmocka_unit_test(side_by_side),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
