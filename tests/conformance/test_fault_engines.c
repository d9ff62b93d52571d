/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault_engines.c - faults on every engine: also where all nodes are one launch, and memory is not the
 * host's, messages are lost, nodes stand still and replicas are repaired as on the others. */
#include <math.h>

#include "conformance/gossip_rig.h"
#include "engine/engine.h"

#include <octet/octet.h>

static const char fault[] =
    "drop:p=0.2+delay:p=0.1+duplicate:p=0.1+reorder:p=0.1+crash:node=2,step=2,back=4";

/* Rounds of gossip: what engines pack is the same to the bit, what they fold to a rounding. */
static void rounds(struct oct__engine *engine, const struct gossip_form *form, float *x,
                   struct oct_fault_counts *counts) {
    struct gossip_rig rig;
    gossip_rig_open(&rig, engine, form);
    gossip_fill(rig.host, form->n_nodes, 0.5, 70);
    gossip_rig_write(&rig, rig.x, rig.host);
    for (uint32_t round = 0; round < 6; round++) {
        if (round == 4) {
            EXPECT_OK(oct__gossip_forget_node(rig.gossip, 0));
        }
        gossip_rig_round(&rig, round, round == 5);
    }
    gossip_rig_read(&rig, rig.x, x);
    *counts = rig.exchange->faults->counts;
    gossip_rig_close(&rig);
}

static void gossip_under_faults(void **state) {
    (void)state;
    static float expected[MOST_NODES * ROW], found[MOST_NODES * ROW];
    const struct oct_algorithm_kind *kind;
    struct oct__engine *reference;
    EXPECT_OK(oct__engine_open("cpu", 1, &reference));
    for (int e = 0; oct__engine_at(e); e++) {
        const struct oct_engine_kind *engine_kind = oct__engine_at(e);
        struct oct__engine *engine;
        double worst = 0.0;
        if (engine_kind->plugin.unavailable || engine_kind->is_oracle) {
            continue;
        }
        EXPECT_OK(oct__engine_open(engine_kind->plugin.name, 1, &engine));
        for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = a / 2 % 2 ? "ring" : "directed-ring",
                                             .compress = "topk:0.8",
                                             .n_nodes = 4,
                                             .has_dense_rounds = 1,
                                             .fault = fault,
                                             .transport = a % 3 ? "inproc" : "loopback"};
            struct oct_fault_counts wanted, got;
            if (IS_EMULATED && a % 2) {
                continue; /* the push-sum form of the one before */
            }
            rounds(reference, &form, expected, &wanted);
            rounds(engine, &form, found, &got);
            assert_memory_equal(&wanted, &got, sizeof got);
            for (int i = 0; i < 4 * ROW; i++) {
                const double error = fabs((double)found[i] - (double)expected[i]);
                worst = fmax(worst, error);
                if (!(error <= 1e-5)) {
                    fail_msg("%s, %s: element %d is %.9g, on cpu %.9g", engine_kind->plugin.name,
                             kind->plugin.name, i, (double)found[i], (double)expected[i]);
                }
            }
        }
        print_message("%s: at most %.1e from cpu\n", engine_kind->plugin.name, worst);
        oct__engine_close(engine);
    }
    oct__engine_close(reference);
}

static struct oct_result run(const char *engine) {
    static const char *const pairs[][2] = {
        {"model", "resnet20:width=4,blocks=1"},
        {"data", "synthetic:samples=48,size=8,classes=4"},
        {"nodes", "4"},
        {"batch", "2"},
        {"epochs", "1"},
        {"threads", "1"},
        {"algorithm", "quant-sgp"},
        {"compress", "topk:0.9"},
        {"topology", "random-regular:degree=2,change=yes"},
        {"lr", "0.01"},
        {"precision", "fp32"},
        {"augment", "none"},
        {"momentum", "local"},
        {"fault", "drop:p=0.1+crash:node=1,step=2,back=4,memory=lost+crash:node=3,step=4"}};
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    EXPECT_OK(oct_config_set(config, "engine", engine));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, &result));
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return result;
}

static void runs_under_faults(void **state) {
    (void)state;
    const struct oct_result wanted = run("portable");
    assert_true(wanted.faults.repairs > 1 && wanted.faults.dropped > 0);
    assert_int_equal(wanted.nodes_tested, 3);
    for (int e = 0; oct__engine_at(e); e++) {
        const struct oct_engine_kind *kind = oct__engine_at(e);
        if (kind->plugin.unavailable || kind->is_oracle) {
            continue;
        }
        const struct oct_result got = run(kind->plugin.name);
        print_message("%s: loss %.6f, %llu messages, %llu repairs\n", kind->plugin.name, got.loss,
                      (unsigned long long)got.messages, (unsigned long long)got.faults.repairs);
        assert_memory_equal(&got.faults, &wanted.faults, sizeof got.faults);
        assert_int_equal(got.messages, wanted.messages);
        assert_int_equal(got.nodes_tested, 3);
        assert_true(fabs(got.loss - wanted.loss) < 0.01);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gossip_under_faults),
                                       cmocka_unit_test(runs_under_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
