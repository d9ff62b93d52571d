/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_plan.c - the option fault: what is taken and refused, the schedule it makes, and graphs that
 * close over nodes which are away. */
#include <math.h>

#include "support/check.h"
#include "topology/topology.h"
#include "train/fault.h"

static void reads(void **state) {
    (void)state;
    struct oct__fault_plan plan;
    EXPECT_OK(oct__fault_read("", &plan));
    assert_int_equal(oct__fault_is_any(&plan), 0);
    EXPECT_OK(oct__fault_read("drop:p=0", &plan));
    assert_int_equal(oct__fault_is_any(&plan), 0);
    EXPECT_OK(
        oct__fault_read("drop:0.25+delay:p=0.5,rounds=7+duplicate:p=1+reorder:p=1e-3+crash:node=3,"
                        "step=100,back=150+crash:node=1,step=5+crash:3,step=200,back=201,memory="
                        "lost",
                        &plan));
    assert_int_equal(oct__fault_is_any(&plan), 1);
    assert_true(plan.drop == 0.25 && plan.delay == 0.5 && plan.delay_rounds == 7);
    assert_true(plan.duplicate == 1.0 && plan.reorder == 1e-3);
    assert_int_equal(plan.n_crashes, 3); /* by step */
    static const struct oct__crash wanted[] = {
        {1, 5, INT64_MAX, 0}, {3, 100, 150, 0}, {3, 200, 201, 1}};
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&plan.crashes[i].node, &wanted[i].node, 3 * sizeof(int64_t));
        assert_int_equal(plan.crashes[i].forgets, wanted[i].forgets);
    }
    EXPECT_OK(oct__fault_check(&plan, 4, 1000));
    EXPECT_FAILURE(oct__fault_check(&plan, 3, 0), OCT_STATUS_INVALID, "nodes 0 to 2");
    EXPECT_FAILURE(oct__fault_check(&plan, 4, 150), OCT_STATUS_INVALID, "steps 0 to 149");
    /* node 3 is away in 100 … 149 and 200 */
    assert_int_equal(oct__fault_is_away(&plan, 3, 99), 0);
    assert_int_equal(oct__fault_is_away(&plan, 3, 100), 1);
    assert_int_equal(oct__fault_is_away(&plan, 3, 149), 1);
    assert_int_equal(oct__fault_is_away(&plan, 3, 150), 0);
    assert_int_equal(oct__fault_is_away(&plan, 1, 1000000), 1);
    assert_int_equal(oct__fault_steps_away(&plan, 3, 0, 1000), 51);
    assert_int_equal(oct__fault_steps_away(&plan, 3, 120, 140), 20);
    assert_int_equal(oct__fault_steps_away(&plan, 1, 0, 10), 5);
    oct__fault_fini(&plan);
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *piece;
    } cases[] = {
        {"lose:p=0.1", "'lose' is none; there are drop, delay"},
        {"drop", "drop: how often? drop:p=0.01"},
        {"drop:", "fault: "},
        {"drop:p=1.5", "p is '1.5'"},
        {"drop:p=-0.1", "p is '-0.1'"},
        {"drop:p=0.1x", "p is '0.1x'"},
        {"drop:q=0.1", "no option 'q'"},
        {"drop:p=0.1+", "fault: "},
        {"drop:p=0.1+drop:p=0.2", "drop is given twice"},
        {"delay:p=0.1,rounds=0", "rounds is '0'"},
        {"delay:p=0.1,rounds=1001", "rounds is '1001', expected a whole number from 1 to 1000"},
        {"duplicate:p=0.1,rounds=2", "no option 'rounds'"},
        {"crash:step=5", "which node"},
        {"crash:node=5", "from which step"},
        {"crash:node=1,step=5,back=5", "back is 5, expected a step after step 5"},
        {"crash:node=1,step=5,memory=lost", "give back, too"},
        {"crash:node=1,step=5,back=7,memory=gone", "memory is 'gone'"},
        {"crash:node=1,step=5+crash:node=1,step=9", "crash at step 9, when it is away"},
        {"crash:node=1,step=5,back=9+crash:node=1,step=9", "crash at step 9, when it comes back"},
        {"crash:node=1,step=9,back=12+crash:node=1,step=5,back=9,memory=lost",
         "when it comes back"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct__fault_plan plan;
        EXPECT_FAILURE(oct__fault_read(cases[i].text, &plan), OCT_STATUS_INVALID, cases[i].piece);
        oct__fault_fini(&plan);
    }
    struct oct__fault_plan plan;
    EXPECT_OK(oct__fault_read("crash:node=0,step=2,back=9+crash:node=1,step=4", &plan));
    EXPECT_OK(oct__fault_check(&plan, 3, 0));
    EXPECT_FAILURE(oct__fault_check(&plan, 2, 0), OCT_STATUS_INVALID, "at step 4 nobody");
    oct__fault_fini(&plan);
    EXPECT_OK(oct__fault_read("crash:node=1,step=5,back=9+crash:node=1,step=10", &plan));
    oct__fault_fini(&plan);
}

/* Nodes that come back empty need one who has a model. */
static void wants_a_model(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t n_steps, at; /* where nobody has one; -1: fine */
    } cases[] = {
        {"crash:node=0,step=2,back=5,memory=lost+crash:node=1,step=5,back=9", 0, 5},
        {"crash:node=0,step=2,back=5,memory=lost+crash:node=1,step=5,back=9", 20, 5},
        {"crash:node=0,step=2,back=5,memory=lost+crash:node=1,step=3,back=9", 0, 3},
        {"crash:node=0,step=2,back=5,memory=lost+crash:node=1,step=6,back=9", 0, -1},
        {"crash:node=0,step=2,back=5+crash:node=1,step=5,back=9,memory=lost", 0, -1},
        {"crash:node=0,step=2,back=5,memory=lost", 5, -1},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct__fault_plan plan;
        char piece[64];
        snprintf(piece, sizeof piece, "at step %lld nobody would be left who has a model",
                 (long long)cases[i].at);
        EXPECT_OK(oct__fault_read(cases[i].text, &plan));
        if (cases[i].at < 0) {
            EXPECT_OK(oct__fault_check(&plan, 2, cases[i].n_steps));
        } else {
            EXPECT_FAILURE(oct__fault_check(&plan, 2, cases[i].n_steps), OCT_STATUS_INVALID, piece);
        }
        oct__fault_fini(&plan);
    }
    /* two that come back at once, when the third goes */
    static const char *const text =
        "crash:node=0,step=1,back=8,memory=lost+crash:node=1,step=2,back=8,memory=lost+"
        "crash:node=2,step=8";
    struct oct__fault_plan plan;
    EXPECT_OK(oct__fault_read(text, &plan));
    EXPECT_FAILURE(oct__fault_check(&plan, 3, 9), OCT_STATUS_INVALID, "at step 8 nobody");
    EXPECT_OK(oct__fault_check(&plan, 4, 9));
    oct__fault_fini(&plan);
}

/* As often as they should be, each kind on its own, and another run has others. */
static void schedules(void **state) {
    (void)state;
    enum { ROUNDS = 500, N = 8 };
    const struct oct__fault_plan one = {.drop = 0.1};
    const struct oct__fault_plan all = {
        .drop = 0.1, .delay = 0.2, .duplicate = 0.5, .reorder = 0.25, .delay_rounds = 1};
    int counts[OCT_FATE_TWICE + 1] = {0}, n_same = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int from = 0; from < N; from++) {
            for (int to = 0; to < N; to++) {
                const enum oct__fate fate = oct__fault_fate(&all, 1, from, to, round);
                const int is_dropped =
                    oct__fault_fate(&one, 1, from, to, round) == OCT_FATE_DROPPED;
                counts[fate]++;
                assert_int_equal(is_dropped, fate == OCT_FATE_DROPPED);
                assert_int_equal(fate, oct__fault_fate(&all, 1, from, to, round));
                n_same += fate == oct__fault_fate(&all, 2, from, to, round);
            }
        }
    }
    const double n = (double)ROUNDS * N * N;
    const double wanted[] = {0.9 * 0.8 * 0.75 * 0.5, 0, 0.1, 0.9 * 0.2, 0.9 * 0.8 * 0.25,
                             0.9 * 0.8 * 0.75 * 0.5};
    for (int f = 0; f <= OCT_FATE_TWICE; f++) {
        print_message("fate %d: %.4f of the messages, expected %.4f\n", f, counts[f] / n,
                      wanted[f]);
        assert_true(fabs(counts[f] / n - wanted[f]) < 0.012);
    }
    assert_true(n_same < 0.4 * n);
    const struct oct__fault_plan always = {.drop = 1.0}, never = {.drop = 0.0};
    for (uint32_t round = 0; round < 1000; round++) {
        assert_int_equal(oct__fault_fate(&always, 1, 0, 1, round), OCT_FATE_DROPPED);
        assert_int_equal(oct__fault_fate(&never, 1, 0, 1, round), OCT_FATE_ARRIVES);
    }
}

/* --- graphs that close ------------------------------------------------------------------------ */

/* What was column-stochastic, doubly stochastic, undirected and connected still is. */
static void closes(void **state) {
    (void)state;
    static const struct {
        const char *name, *weights;
    } graphs[] = {{"ring", NULL},           {"directed-ring", NULL}, {"star", NULL},
                  {"star", "metropolis"},   {"complete", NULL},      {"exponential", NULL},
                  {"chain", "metropolis"},  {"torus", NULL},         {"one-peer-exponential", NULL},
                  {"random-regular", NULL}, {"base-k", NULL}};
    static const unsigned char absences[][8] = {
        {0, 0, 1}, {1}, {0, 0, 1, 1}, {1, 0, 1, 0, 1, 0, 1}, {1, 1, 1, 1, 1, 1, 1, 0}};
    int n = 0;
    for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
        const struct oct_topology_options options = {
            .name = graphs[g].name, .weights = graphs[g].weights, .n_nodes = 8, .seed = 3};
        struct oct_topology *topology;
        EXPECT_OK(oct_topology_create(&options, &topology));
        struct oct_topology_info info;
        oct_topology_info(topology, &info);
        for (size_t a = 0; a < OCT_COUNT_OF(absences); a++, n++) {
            const struct oct__mix *mix;
            struct oct__mix closed;
            EXPECT_OK(oct__topology_mix(topology, 0, &mix));
            EXPECT_OK(oct__mix_close(mix, absences[a], &closed));
            assert_true(oct__mix_is_column_stochastic(&closed));
            if (oct__mix_is_doubly_stochastic(mix)) {
                assert_true(oct__mix_is_doubly_stochastic(&closed));
            }
            if (oct__mix_is_undirected(mix)) {
                assert_true(oct__mix_is_undirected(&closed));
            }
            int n_left = 0;
            for (int node = 0; node < 8; node++) {
                n_left += !absences[a][node];
                if (absences[a][node]) {
                    assert_int_equal(closed.in_start[node], closed.in_start[node + 1]);
                    assert_int_equal(closed.out_start[node], closed.out_start[node + 1]);
                }
            }
            if (n_left > 1 && info.period == 1) { /* nobody who is there is cut off */
                for (int node = 0; node < 8; node++) {
                    assert_true(absences[a][node] ||
                                closed.in_start[node] < closed.in_start[node + 1]);
                }
            }
            oct__mix_fini(&closed);
        }
        oct_topology_destroy(topology);
    }
    print_message("%d graphs\n", n);
}

/* A directed ring of eight without its third node is one of seven. */
static void closes_a_ring(void **state) {
    (void)state;
    const struct oct_topology_options options = {.name = "directed-ring", .n_nodes = 8};
    static const unsigned char away[8] = {0, 0, 1};
    struct oct_topology *topology;
    const struct oct__mix *mix;
    struct oct__mix closed;
    EXPECT_OK(oct_topology_create(&options, &topology));
    EXPECT_OK(oct__topology_mix(topology, 0, &mix));
    EXPECT_OK(oct__mix_close(mix, away, &closed));
    assert_int_equal(closed.n_edges, 7);
    for (int e = 0; e < 7; e++) {
        assert_true(closed.weight[e] == 0.5);
    }
    assert_int_equal(closed.from[closed.in_start[3]], 1);
    assert_true(closed.self[2] == 1.0 && closed.self[1] == 0.5);
    oct__mix_fini(&closed);
    oct_topology_destroy(topology);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),  cmocka_unit_test(refuses),       cmocka_unit_test(schedules),
        cmocka_unit_test(closes), cmocka_unit_test(closes_a_ring), cmocka_unit_test(wants_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
