/* SPDX-License-Identifier: Apache-2.0 */
/* test_gossip_quadratics.c - every algorithm minimizes the average of quadratics that disagree.
 *
 * Distances are relative to where all nodes start. A node that follows its own quadratic alone ends
 * about as far from the common minimum as it began. With gossip, gamma at its default, the mean of
 * the nodes comes near it with every algorithm; the nodes themselves do where messages are whole or
 * differences, while error feedback and dpsgd's and sgp's messages leave a noise between them that
 * dense rounds remove.
 */
#include <math.h>

#include "conformance/gossip_descent.h"

enum { STEPS = 300, N_NODES = 5, RING = 8 };

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    EXPECT_OK(oct__engine_open("cpu", 1, &engine));
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

static const float origin[MOST_NODES * ROW];

/* A tenth of the rate from the middle on, a hundredth for the last quarter. */
static double rate_at(int step) {
    return 0.05 * (step < STEPS / 2 ? 1.0 : step < STEPS * 3 / 4 ? 0.1 : 0.01);
}

static void descend(struct descent *d) {
    descent_start(d, origin);
    for (int step = 0; step < STEPS; step++) {
        descent_step(d, rate_at(step), 0, 0);
    }
}

static int accepts(const struct oct_algorithm_kind *kind, const char *topology) {
    return kind->is_push_sum || strcmp(topology, "star") != 0;
}

struct bounds {
    double mean, nodes;
};

static void check_distances(const struct descent *d, const char *what, struct bounds bounds) {
    double mean, nodes;
    descent_distances(d, &mean, &nodes);
    print_message("%-14s %-22s %-9s gamma %.3f %s: mean %.4f (%.3f), nodes %.4f (%.3f)\n",
                  d->rig.form.algorithm, d->rig.form.topology, d->rig.form.compress,
                  d->rig.gossip->gamma, what, mean, bounds.mean, nodes, bounds.nodes);
    if (!(mean <= bounds.mean) || !(nodes <= bounds.nodes)) {
        fail_msg("%s on %s, %s, %s: mean %.4f, at most %.3f; nodes %.4f, at most %.3f",
                 d->rig.form.algorithm, d->rig.form.topology, d->rig.form.compress, what, mean,
                 bounds.mean, nodes, bounds.nodes);
    }
}

/* Alone, nodes go elsewhere; with the exact average they go where they should. */
static void controls(void **state) {
    (void)state;
    struct descent d;
    double mean, nodes;
    struct gossip_form form = {.algorithm = "none", .compress = "none", .n_nodes = N_NODES};
    descent_open(&d, engine, &form, 0, 1.0);
    descend(&d);
    descent_distances(&d, &mean, &nodes);
    print_message("none: mean %.4f, nodes %.4f\n", mean, nodes);
    assert_true(nodes > 0.7 && mean > 0.08);
    descent_close(&d);
    for (int is_global = 0; is_global < 2; is_global++) {
        form.algorithm = "allreduce";
        descent_open(&d, engine, &form, is_global, 1.0);
        descend(&d);
        descent_distances(&d, &mean, &nodes);
        print_message("allreduce, %s: mean %.2e, nodes %.2e\n", is_global ? "qgm" : "local", mean,
                      nodes);
        assert_true(mean < 1e-3 && nodes < 1e-3);
        descent_close(&d);
    }
}

/* What each way of making messages reaches. Nodes on their own: 0.10 and 0.81. */
static struct bounds bounds_of(const struct oct_algorithm_kind *kind, const char *compress) {
    const int is_whole = strcmp(compress, "none") == 0 || strcmp(compress, "int8") == 0;
    if (is_whole) {
        return (struct bounds){0.006, 0.02};
    }
    return (struct bounds){0.055, kind->has_edge_replicas ? 0.11 : 0.45};
}

static void every_algorithm(void **state) {
    (void)state;
    static const char *const graphs[] = {"ring", "directed-ring", "star", "one-peer-exponential"};
    static const char *const compressors[] = {"none", "int8", "topk:0.9", "qsgd:7", "sign"};
    const struct oct_algorithm_kind *kind;
    int n_cases = 0;
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; kind->mixing == OCT_MIXING_GOSSIP && g < OCT_COUNT_OF(graphs); g++) {
            for (size_t c = 0; accepts(kind, graphs[g]) && c < OCT_COUNT_OF(compressors); c++) {
                if (c > 1 && kind->memory == 0) {
                    continue; /* what is lost is not made up for: not meant for it */
                }
                const struct gossip_form form = {.algorithm = kind->plugin.name,
                                                 .topology = graphs[g],
                                                 .compress = compressors[c],
                                                 .n_nodes = N_NODES,
                                                 .has_dense_rounds = 1};
                struct descent d;
                struct bounds bounds = bounds_of(kind, compressors[c]);
                descent_open(&d, engine, &form, 0, 1.0);
                descend(&d);
                check_distances(&d, "local", bounds);
                for (int round = 0; round < 40; round++) {
                    descent_step(&d, 0.0, 1, 1);
                }
                bounds.nodes = bounds.mean;
                check_distances(&d, "averaged", bounds);
                n_cases++;
                descent_close(&d);
            }
        }
    }
    assert_true(n_cases >= 80);
}

/* Momentum that follows the nodes' mean instead of each node's own gradients brings them closer. */
static void quasi_global_momentum(void **state) {
    (void)state;
    static const char *const graphs[] = {"ring", "star", "one-peer-exponential"};
    static const char *const compressors[] = {"none", "int8"};
    const struct oct_algorithm_kind *kind;
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; kind->mixing == OCT_MIXING_GOSSIP && g < OCT_COUNT_OF(graphs); g++) {
            for (size_t c = 0; accepts(kind, graphs[g]) && c < OCT_COUNT_OF(compressors); c++) {
                const struct gossip_form form = {.algorithm = kind->plugin.name,
                                                 .topology = graphs[g],
                                                 .compress = compressors[c],
                                                 .n_nodes = N_NODES};
                const int is_exact = c == 0 || kind->has_edge_replicas;
                struct descent d;
                descent_open(&d, engine, &form, 1, 1.0);
                descend(&d);
                /* The noise of messages of x goes into the momentum, divided by the rate. */
                check_distances(&d, "qgm",
                                is_exact ? (struct bounds){0.0035, 0.0035}
                                         : (struct bounds){0.015, 0.025});
                descent_close(&d);
            }
        }
    }
}

/* Nodes that agree and have no gradients have no momentum either, and stay where they are: also
 * where x itself flows from node to node, as on a star. */
static void quasi_global_momentum_at_rest(void **state) {
    (void)state;
    static const char *const graphs[] = {"star", "chain", "directed-ring", "one-peer-exponential"};
    static float x0[N_NODES * ROW];
    const struct oct_algorithm_kind *kind;
    double worst = 0.0;
    gossip_fill(x0, 1, 1.0, 41);
    for (int node = 1; node < N_NODES; node++) {
        memcpy(x0 + node * ROW, x0, ROW * sizeof *x0);
    }
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; kind->is_push_sum && g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g],
                                             .compress = "none",
                                             .n_nodes = N_NODES};
            struct descent d;
            double moved = 0.0;
            descent_open(&d, engine, &form, 1, 1.0);
            descent_start(&d, x0);
            for (int step = 0; step < 60; step++) {
                descent_step(&d, 0.05, 1, 0);
            }
            gossip_rig_read(&d.rig, d.z, d.host_z);
            gossip_rig_read(&d.rig, d.rig.x, d.host_gradient);
            for (int i = 0; i < N_NODES * ROW; i++) {
                const double error = fabs((double)d.host_z[i] - (double)x0[i]);
                moved = fmax(moved, fabs((double)d.host_gradient[i] - (double)x0[i]));
                worst = fmax(worst, error);
                if (!(error <= 2e-5)) {
                    fail_msg("%s on %s: z of node %d, element %d went from %.9g to %.9g",
                             kind->plugin.name, graphs[g], i / ROW, i % ROW, (double)x0[i],
                             (double)d.host_z[i]);
                }
            }
            /* The test means something where x did move. */
            assert_true(g > 1 || moved > 0.5);
            descent_close(&d);
        }
    }
    print_message("at most %.1e away\n", worst);
}

/* The mean square of how far nodes are from their mean, after `steps` rounds without gradients, of
 * quasi-global momentum with `keep` left of it a round; 0: local momentum. */
static double disagreement_of(const char *compress, double gamma, double keep, int steps) {
    static float x0[MOST_NODES * ROW];
    const struct gossip_form form = {.algorithm = "choco",
                                     .topology = "directed-ring",
                                     .compress = compress,
                                     .n_nodes = RING,
                                     .gamma = gamma};
    struct descent d;
    double sum = 0.0;
    descent_open(&d, engine, &form, keep > 0.0, 1.0);
    if (keep > 0.0) {
        descent_keep(&d, keep);
    }
    gossip_fill(x0, RING, 1.0, 43);
    descent_start(&d, x0);
    for (int step = 0; step < steps; step++) {
        descent_step(&d, 0.05, 1, 0);
    }
    gossip_rig_read(&d.rig, d.z, d.host_z);
    for (int i = 0; i < ROW; i++) {
        double mean = 0.0;
        for (int node = 0; node < RING; node++) {
            mean += (double)d.host_z[node * ROW + i] / RING;
        }
        for (int node = 0; node < RING; node++) {
            const double off = (double)d.host_z[node * ROW + i] - mean;
            sum += off * off / (RING * ROW);
        }
    }
    descent_close(&d);
    return sum;
}

static double disagreement_left(const char *compress, double gamma, int is_global, int steps) {
    return disagreement_of(compress, gamma, is_global ? 0.9 : 0.0, steps);
}

/* The momentum repeats what gossip did, 1 / (1 - beta^2) times in the long run. So a gamma that suits
 * sparse messages lets differences grow on a directed ring, and half of 1 - beta^2 of it does not. */
static void quasi_global_momentum_with_sparse_messages(void **state) {
    (void)state;
    static const double rule = 0.0125, share = (1.0 - 0.9 * 0.9) / 2.0;
    const double local = disagreement_left("topk:0.99", rule, 0, 1000);
    const double same = disagreement_left("topk:0.99", rule, 1, 1000);
    const double less = disagreement_left("topk:0.99", rule * share, 1, 1000);
    print_message("directed ring of %d, topk:0.99, 1000 rounds: local at %g leaves %.3g of 1, qgm "
                  "%.3g, qgm at %.4f %.3g\n",
                  RING, rule, local, same, rule * share, less);
    assert_true(local < 0.1);
    assert_true(same > 100.0);
    assert_true(less < 0.7);
}

/* One that follows more slowly holds at the rule's gamma. */
static void a_slower_quasi_global_momentum(void **state) {
    (void)state;
    static const struct {
        const char *compress;
        int steps;
        double gamma, keep, too_quick; /* 0: not looked at */
    } rows[] = {
        {"none", 1000, 0.2, 0.98, 0},
        {"topk:0.9", 8000, 0.125, 0.99, 0.98},
        {"topk:0.99", 12000, 0.0125, 0.999, 0.998},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        const int steps = rows[i].steps, few = steps / 4;
        const double before = disagreement_of(rows[i].compress, rows[i].gamma, 0.9, few);
        const double left = disagreement_of(rows[i].compress, rows[i].gamma, rows[i].keep, steps);
        print_message("directed ring of %d, %s, gamma %g: as published %.3g of 1 after %d rounds, "
                      "%.3g after %d where each leaves %g\n",
                      RING, rows[i].compress, rows[i].gamma, before, few, left, steps,
                      rows[i].keep);
        assert_true(before > 10.0 && left < 0.01);
        if (rows[i].too_quick > 0.0) { /* which the formula alone calls stable */
            const double quick =
                disagreement_of(rows[i].compress, rows[i].gamma, rows[i].too_quick, steps);
            print_message("%.3g where each leaves %g\n", quick, rows[i].too_quick);
            assert_true(quick > 10.0);
        }
    }
}

/* How far nodes with different minima stay from their common one in the end, with whole messages. */
static double distance_at_the_end(int is_global, double own, double keep) {
    const struct gossip_form form = {
        .algorithm = "choco", .topology = "directed-ring", .compress = "none", .n_nodes = RING};
    struct descent d;
    double mean, nodes;
    descent_open(&d, engine, &form, is_global, 1.0);
    descent_own(&d, own);
    if (keep > 0.0) {
        descent_keep(&d, keep);
    }
    for (int step = 0; step < 6000; step++) {
        descent_step(&d, 0.002, 0, 0);
    }
    descent_distances(&d, &mean, &nodes);
    descent_close(&d);
    return nodes;
}

/* The price of a part of its own: nodes stay further apart than as published, and closer than with local
 * momentum. What is bought with it is in unit/growth. */
static void an_own_part_of_quasi_global_momentum(void **state) {
    (void)state;
    const double local = distance_at_the_end(0, 0.0, 0.0);
    const double published = distance_at_the_end(1, 0.0, 0.0);
    const double both = distance_at_the_end(1, 0.6, 0.0);
    const double slower = distance_at_the_end(1, 0.0, 0.98);
    print_message("nodes at the end: local %.3g, qgm %.3g, with 0.6 of its own %.3g, slower %.3g\n",
                  local, published, both, slower);
    assert_true(published < both && both < 0.6 * local);
    /* which has no such price */
    assert_true(fabs(slower - published) < 0.05 * published);
}

/* What grows by a thousandth a round passes every short test and ruins a run of 40,000 rounds. The
 * rule's gamma must shrink a disagreement in the long run too; three times as much and more must not,
 * or this test would not see it. */
static void disagreements_die_out_in_the_long_run(void **state) {
    (void)state;
    static const struct {
        const char *compress;
        int is_global, steps;
        double gamma, too_much;
    } rows[] = {
        {"topk:0.9", 0, 6000, 0.125, 0.4},
        {"topk:0.99", 0, 12000, 0.0125, 0.1},
        {"topk:0.99", 1, 12000, 0.0125 * 0.095, 0.0038},
        {"topk:0.97", 1, 12000, 0.0375 * 0.095, 0.0114},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        const int is_global = rows[i].is_global, steps = rows[i].steps;
        const double left = disagreement_left(rows[i].compress, rows[i].gamma, is_global, steps);
        const double grown =
            disagreement_left(rows[i].compress, rows[i].too_much, is_global, steps);
        print_message("%s, %s: %d rounds at %g leave %.3g of 1, at %g %.3g\n", rows[i].compress,
                      is_global ? "qgm" : "local", steps, rows[i].gamma, left, rows[i].too_much,
                      grown);
        assert_true(left < 1e-3);
        assert_true(grown > 10.0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls),
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(quasi_global_momentum),
        cmocka_unit_test(quasi_global_momentum_at_rest),
        cmocka_unit_test(quasi_global_momentum_with_sparse_messages),
        cmocka_unit_test(a_slower_quasi_global_momentum),
        cmocka_unit_test(disagreements_die_out_in_the_long_run),
        cmocka_unit_test(an_own_part_of_quasi_global_momentum),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
