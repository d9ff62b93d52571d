/* SPDX-License-Identifier: Apache-2.0 */
/* test_gossip.c - parts of gossip: shares, replicas, memory that is asked for, what is refused; and
 * the operations that train around it. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "gossip/gossip.h"
#include "support/check.h"

enum { ROW = 96, N_NODES = 6 };

static const struct oct__span spans[] = {{0, 40}, {48, 48}};

static struct oct__engine *engine;
static void *x;

static int open_engine(void **state) {
    (void)state;
    EXPECT_OK(oct__engine_open("portable", 1, &engine));
    EXPECT_OK(engine->alloc(engine, N_NODES * ROW * sizeof(float), "x", &x));
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    engine->free(engine, x);
    oct__engine_close(engine);
    return 0;
}

static struct oct_topology *topology_of(const char *name, int n_nodes) {
    const struct oct_topology_options options = {.name = name, .n_nodes = n_nodes, .seed = 1};
    struct oct_topology *topology = NULL;
    EXPECT_OK(oct_topology_create(&options, &topology));
    return topology;
}

static struct oct__gossip_config config_of(const char *algorithm, const char *compress,
                                           struct oct_topology *topology) {
    struct oct__gossip_config config = {
        .engine = engine,
        .topology = topology,
        .spans = spans,
        .n_spans = OCT_COUNT_OF(spans),
        .n_elements = ROW,
        .n_nodes = N_NODES,
        .n_threads = 2,
        .x = x,
    };
    EXPECT_OK(oct__algorithm_find(algorithm, &config.algorithm));
    EXPECT_OK(oct__compression_read(compress, &config.compression));
    return config;
}

/* --- shares ----------------------------------------------------------------------------------- */

/* Whatever the factor: near factor * W, and a sender's shares sum to exactly 0 with its own. */
static void shares_add_up(void **state) {
    (void)state;
    static const char *const graphs[] = {"star", "complete", "ring", "erdos-renyi:p=0.6",
                                         "one-peer-exponential"};
    static const double factors[] = {1.0, 0.7, 0.5, 1.0 / 3.0, 0.02, 1e-3, 3.7e-5, 2.5};
    double worst = 0.0;
    for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
        struct oct_topology *topology = topology_of(graphs[g], N_NODES);
        const struct oct__gossip_config config = config_of("sgp", "none", topology);
        struct oct__gossip *gossip;
        EXPECT_OK(oct__gossip_create(&config, &gossip));
        EXPECT_OK(oct__gossip_begin(gossip, 0, 0, 0));
        const struct oct__mix *mix = gossip->mix;
        for (size_t f = 0; f < OCT_COUNT_OF(factors); f++) {
            for (int j = 0; j < N_NODES; j++) {
                float sum = oct__gossip_self_share(gossip, j, factors[f]);
                assert_true(fabs((double)sum - factors[f] * (mix->self[j] - 1.0)) <=
                            N_NODES * 0x1p-23 * factors[f]);
                for (int e = mix->out_start[j]; e < mix->out_start[j + 1]; e++) {
                    const float share = oct__gossip_share(gossip, mix->out_edge[e], factors[f]);
                    const double wanted = factors[f] * mix->weight[mix->out_edge[e]];
                    worst = fmax(worst, fabs((double)share - wanted) / factors[f]);
                    sum += share;
                }
                if (sum != 0.0F) {
                    fail_msg("%s, factor %g: shares of node %d sum to %g", graphs[g], factors[f], j,
                             (double)sum);
                }
            }
        }
        oct__gossip_destroy(gossip);
        oct_topology_destroy(topology);
    }
    print_message("shares at most %.2e of the factor away\n", worst);
    assert_true(worst <= 0x1p-23);
}

/* --- what is made, and what is refused -------------------------------------------------------- */

static void memory_of_algorithms(void **state) {
    (void)state;
    static const struct {
        const char *algorithm, *topology;
        int n_rows; /* of state, for each node */
    } cases[] = {
        {"sgp", "directed-ring", 0},
        {"sparse-push", "directed-ring", 1},
        {"quant-sgp", "directed-ring", 2},
        {"sparse-push", "one-peer-exponential", 1},
        {"quant-sgp", "one-peer-exponential", 0},
    };
    const uint64_t rows = N_NODES * ROW * sizeof(float);
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_topology *topology = topology_of(cases[i].topology, N_NODES);
        struct oct__gossip_config config = config_of(cases[i].algorithm, "topk:0.9", topology);
        struct oct__gossip *gossip;
        config.gamma = i == 0 ? 0.25 : 0.0;
        EXPECT_OK(oct__gossip_create(&config, &gossip));
        print_message("%s on %s: state %llu bytes, workspace %llu, gamma %g\n", cases[i].algorithm,
                      cases[i].topology, (unsigned long long)gossip->state_bytes,
                      (unsigned long long)gossip->workspace_bytes, gossip->gamma);
        assert_true(gossip->state_bytes == (uint64_t)cases[i].n_rows * rows);
        assert_true(gossip->workspace_bytes > 0);
        assert_int_equal(gossip->n_lanes, 2);
        assert_true(gossip->gamma ==
                    (i == 0 ? 0.25 : config.algorithm->gamma(&config.compression)));
        assert_ptr_not_equal(gossip->config.spans, spans);
        assert_memory_equal(gossip->config.spans, spans, sizeof spans);
        for (int node = 0; node < N_NODES; node++) {
            assert_true(gossip->u[node] == 1.0);
        }
        oct__gossip_destroy(gossip);
        oct_topology_destroy(topology);
    }
    assert_string_equal(oct__memory_name[OCT_MEMORY_ERROR], "error");
    assert_string_equal(oct__memory_name[OCT_MEMORY_REPLICA], "replica");
    assert_string_equal(oct__memory_name[OCT_MEMORY_SUM], "sum");
}

static void refusals(void **state) {
    (void)state;
    struct oct_topology *topology = topology_of("directed-ring", N_NODES);
    struct oct__gossip_config config = config_of("sgp", "none", NULL);
    struct oct__gossip *gossip;
    EXPECT_FAILURE(oct__gossip_create(&config, &gossip), OCT_STATUS_INVALID, "needs a topology");
    config.topology = topology;
    config.n_nodes = 4;
    EXPECT_FAILURE(oct__gossip_create(&config, &gossip), OCT_STATUS_INVALID,
                   "topology has 6 nodes, the run 4");
    config.n_nodes = N_NODES;
    EXPECT_OK(oct__gossip_create(&config, &gossip));
    EXPECT_FAILURE(oct__gossip_begin(gossip, 7, 7, 1), OCT_STATUS_INTERNAL, "round 7 is dense");

    /* A row that is not finite: the message names the node, the lowest of those. */
    float rows[N_NODES * ROW] = {0};
    rows[3 * ROW + 50] = NAN;
    rows[4 * ROW + 2] = INFINITY;
    EXPECT_OK(engine->write(engine, x, rows, sizeof rows));
    EXPECT_OK(oct__gossip_begin(gossip, 0, 0, 0));
    EXPECT_FAILURE(oct__gossip_send(gossip), OCT_STATUS_NOT_FINITE, "node 3's row");
    memset(rows, 0, sizeof rows);
    EXPECT_OK(engine->write(engine, x, rows, sizeof rows));
    oct__gossip_destroy(gossip);
    oct__gossip_destroy(NULL);
    oct_topology_destroy(topology);
}

/* Sorted, found again, zero at the start. */
static void replicas(void **state) {
    (void)state;
    static const int edges[][2] = {{3, 1}, {0, 5}, {5, 0}, {3, 0}, {0, 1}, {3, 1}, {0, 5}};
    struct oct_topology *topology = topology_of("one-peer-exponential", N_NODES);
    const struct oct__gossip_config config = config_of("quant-sgp", "none", topology);
    struct oct__gossip *gossip;
    struct oct__edge_replica *replica;
    float row[ROW];
    EXPECT_OK(oct__gossip_create(&config, &gossip));
    for (size_t i = 0; i < OCT_COUNT_OF(edges); i++) {
        EXPECT_OK(oct__gossip_replica(gossip, edges[i][0], edges[i][1], &replica));
        assert_true(replica->from == edges[i][0] && replica->to == edges[i][1]);
        assert_ptr_equal(replica->own, replica->theirs);
        EXPECT_OK(engine->read(engine, row, replica->own, sizeof row));
        if (i < 5) {
            for (int k = 0; k < ROW; k++) {
                assert_true(row[k] == 0.0F);
                row[k] = (float)i;
            }
            EXPECT_OK(engine->write(engine, replica->own, row, sizeof row));
        } else {
            assert_true(row[0] == (float)(i - 5));
        }
    }
    assert_int_equal(gossip->n_replicas, 5);
    assert_true(gossip->state_bytes == 5 * sizeof row);
    for (int i = 1; i < gossip->n_replicas; i++) {
        const struct oct__edge_replica *a = &gossip->replicas[i - 1], *b = &gossip->replicas[i];
        assert_true(a->from < b->from || (a->from == b->from && a->to < b->to));
    }
    EXPECT_FAILURE(oct__gossip_replica(gossip, 2, 2, &replica), OCT_STATUS_INVALID, "2 -> 2");
    EXPECT_FAILURE(oct__gossip_replica(gossip, 0, 6, &replica), OCT_STATUS_INVALID, "0 -> 6");
    EXPECT_FAILURE(oct__gossip_replica(gossip, -1, 2, &replica), OCT_STATUS_INVALID, "-1 -> 2");
    oct__gossip_destroy(gossip);
    oct_topology_destroy(topology);
}

/* Each request for memory fails once: the failure arrives, and nothing is left behind (the
 * sanitizers' builds see leaks). */
static void requests_that_fail(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "one-peer-exponential"};
    for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
        struct oct_topology *topology = topology_of(graphs[g], N_NODES);
        struct oct__gossip_config config = config_of("quant-sgp", "topk:0.9", topology);
        config.has_dense_rounds = config.has_two_ends = 1;
        for (uint64_t n = 1;; n++) {
            struct oct__gossip *gossip = NULL;
            oct__alloc_fail_after(n);
            oct_status status = oct__gossip_create(&config, &gossip);
            if (status == OCT_OK) {
                status = oct__gossip_begin(gossip, 0, 0, 0);
            }
            oct__alloc_fail_after(0);
            const int is_done = status == OCT_OK;
            if (!is_done) {
                assert_int_equal(status, OCT_STATUS_NO_MEMORY);
            }
            oct__gossip_destroy(gossip);
            if (is_done) {
                print_message("%s: %llu requests\n", graphs[g], (unsigned long long)n - 1);
                assert_true(n > 10);
                break;
            }
        }
        oct_topology_destroy(topology);
    }
}

/* --- operations of training ------------------------------------------------------------------- */

static void run(enum oct__op op, struct oct__args *args, int n, float rate, float *const *rows) {
    const char *operands = oct__op_info[op].operands;
    struct oct__lane lane = {.engine = engine,
                             .form = {.n_nodes = 1, .n_threads = 1, .shard = 1},
                             .learning_rate = rate};
    struct oct__plan plan;
    for (int i = 0; operands[i]; i++) {
        const int count = op == OCT_OP_SETTLE && i == 1 ? 1 : n;
        args->t[i] = (struct oct__tensor){.at = rows[i],
                                          .dtype = OCT_DTYPE_F32,
                                          .n = rows[i] != NULL,
                                          .h = 1,
                                          .w = 1,
                                          .c = count};
    }
    EXPECT_OK(oct__engine_prepare(engine, op, &lane.form, args, &plan));
    args->handle = plan.handle;
    lane.shared_scratch = malloc(plan.shared_bytes + 1);
    assert_non_null(lane.shared_scratch);
    EXPECT_OK(oct__engine_run(&lane, op, args));
    free(lane.shared_scratch);
    oct__engine_release(engine, op, plan.handle);
}

static void clip(void **state) {
    (void)state;
    float gradient[2] = {3.0F, -4.0F}, row[40000];
    struct oct__args args = {.attr.clip = {.norm = 5.0}};
    run(OCT_OP_CLIP, &args, 2, 0.0F, (float *[]){gradient});
    assert_true(gradient[0] == 3.0F && gradient[1] == -4.0F);
    args.attr.clip.norm = 2.5;
    run(OCT_OP_CLIP, &args, 2, 0.0F, (float *[]){gradient});
    assert_true(gradient[0] == 1.5F && gradient[1] == -2.0F);

    /* a row of several pieces has one norm: 200 */
    for (size_t i = 0; i < OCT_COUNT_OF(row); i++) {
        row[i] = i % 2 ? 1.0F : -1.0F;
    }
    args.attr.clip.norm = 50.0;
    run(OCT_OP_CLIP, &args, 40000, 0.0F, (float *[]){row});
    for (size_t i = 0; i < OCT_COUNT_OF(row); i++) {
        assert_true(row[i] == (i % 2 ? 0.25F : -0.25F));
    }

    /* Squares beyond what floats hold are no trouble; what has no norm stays for the search. */
    float large[2] = {0x1p100F, 0.0F}, broken[3] = {1.0F, INFINITY, 2.0F}, worse[2] = {NAN, 1e9F};
    run(OCT_OP_CLIP, &args, 2, 0.0F, (float *[]){large});
    assert_true(large[0] == 50.0F && large[1] == 0.0F);
    run(OCT_OP_CLIP, &args, 3, 0.0F, (float *[]){broken});
    assert_true(broken[0] == 1.0F && isinf(broken[1]) && broken[2] == 2.0F);
    run(OCT_OP_CLIP, &args, 2, 0.0F, (float *[]){worse});
    assert_true(isnan(worse[0]) && worse[1] == 1e9F);
}

/* m = beta * mhat + g;  d = g + beta * m;  x -= rate * d, with g + decay * x for g; mhat stays. */
static void global_step(void **state) {
    (void)state;
    float at[2] = {2.0F, -1.0F}, momentum[2] = {1.0F, 0.5F}, gradient[2] = {0.25F, 0.0F};
    struct oct__args args = {.attr.sgd = {.beta = 0.5F, .decay = 0.125F, .is_global = 1}};
    run(OCT_OP_SGD, &args, 2, 0.5F, (float *[]){at, momentum, gradient});
    print_message("x %g %g, momentum %g %g\n", (double)at[0], (double)at[1], (double)momentum[0],
                  (double)momentum[1]);
    assert_true(at[0] == 1.5F);      /* g 0.5, m 1.0, d 1.0 */
    assert_true(at[1] == -0.96875F); /* g -0.125, m 0.125, d -0.0625 */
    assert_true(momentum[0] == 1.0F && momentum[1] == 0.5F);

    /* An own part of the same step goes into it, beside what it keeps. */
    float there[2] = {2.0F, -1.0F}, owned[2] = {1.0F, 0.5F};
    args.attr.sgd.own = 0.25F;
    run(OCT_OP_SGD, &args, 2, 0.5F, (float *[]){there, owned, gradient});
    assert_memory_equal(there, at, sizeof at);
    assert_true(owned[0] == 0.75F);     /* 0.5 * 1 + 0.25 * 1 */
    assert_true(owned[1] == 0.234375F); /* 0.5 * 0.5 - 0.25 * 0.0625 */

    /* Without is_global the same step leaves its momentum behind. */
    float again[2] = {2.0F, -1.0F};
    args.attr.sgd.is_global = 0;
    run(OCT_OP_SGD, &args, 2, 0.5F, (float *[]){again, momentum, gradient});
    assert_memory_equal(again, at, sizeof at);
    assert_true(momentum[0] == 1.0F && momentum[1] == 0.125F);
}

static void settle(void **state) {
    (void)state;
    float at[2] = {3.0F, -1.0F}, u[1] = {2.0F}, z[2] = {2.0F, -1.5F}, momentum[2] = {4.0F, 0.0F};
    struct oct__args args = {.attr.settle = {.beta = 0.5F, .share = 0.5}};
    run(OCT_OP_SETTLE, &args, 2, 0.25F, (float *[]){at, u, z, momentum});
    print_message("z %g %g, momentum %g %g\n", (double)z[0], (double)z[1], (double)momentum[0],
                  (double)momentum[1]);
    assert_true(z[0] == 1.5F && z[1] == -0.5F);
    assert_true(momentum[0] == 3.0F);  /* 0.5 * 4 + 0.5 * (2 - 1.5) / 0.25 */
    assert_true(momentum[1] == -2.0F); /* 0.5 * (-1.5 + 0.5) / 0.25 */

    /* Rate 0: only z. */
    z[0] = 9.0F;
    run(OCT_OP_SETTLE, &args, 2, 0.0F, (float *[]){at, u, z, momentum});
    assert_true(z[0] == 1.5F && momentum[0] == 3.0F && momentum[1] == -2.0F);

    /* No momentum, and u = 1: z is x to the bit. */
    float exact[2] = {1.2345678F, -0x1.fffffep-100F}, one[1] = {1.0F};
    run(OCT_OP_SETTLE, &args, 2, 0.25F, (float *[]){exact, one, z, NULL});
    assert_memory_equal(z, exact, sizeof z);
}

/* d = (anchor - x) / rate; m = beta * m + d; x = anchor - part * rate * (d + beta * m). */
static void slow(void **state) {
    (void)state;
    float at[2] = {1.0F, 3.0F}, anchor[2] = {2.0F, 3.0F}, momentum[2] = {4.0F, 8.0F};
    struct oct__args args = {.attr.slow = {.beta = 0.5F, .rate = 0.5}};
    run(OCT_OP_SLOW, &args, 2, 0.25F, (float *[]){at, anchor, momentum});
    print_message("x %g %g, momentum %g %g\n", (double)at[0], (double)at[1], (double)momentum[0],
                  (double)momentum[1]);
    assert_true(momentum[0] == 6.0F && momentum[1] == 4.0F); /* 2 + 4, 4 + 0 */
    assert_true(at[0] == 1.125F);                            /* 2 - 0.125 * (4 + 3) */
    assert_true(at[1] == 2.75F); /* it goes on where nothing has moved: 3 - 0.125 * (0 + 2) */
    assert_true(anchor[0] == 2.0F && anchor[1] == 3.0F);

    /* A whole round's way and no momentum: x stays where it is. */
    float here[2] = {0.75F, -3.0F}, none[2] = {0.0F, 0.0F};
    args.attr.slow.beta = 0.0F;
    args.attr.slow.rate = 1.0;
    run(OCT_OP_SLOW, &args, 2, 0.5F, (float *[]){here, anchor, none});
    assert_true(here[0] == 0.75F && here[1] == -3.0F && none[0] == 2.5F && none[1] == 12.0F);

    /* Rate 0: nothing. */
    run(OCT_OP_SLOW, &args, 2, 0.0F, (float *[]){at, anchor, momentum});
    assert_true(at[0] == 1.125F && at[1] == 2.75F && momentum[0] == 6.0F);

    run(OCT_OP_COPY, &args, 2, 0.0F, (float *[]){at, anchor});
    assert_memory_equal(anchor, at, sizeof at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(memory_of_algorithms),
        cmocka_unit_test(refusals),
        cmocka_unit_test(replicas),
        cmocka_unit_test(requests_that_fail),
        cmocka_unit_test(clip),
        cmocka_unit_test(global_step),
        cmocka_unit_test(settle),
        cmocka_unit_test(slow),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
