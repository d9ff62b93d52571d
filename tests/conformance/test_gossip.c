/* SPDX-License-Identifier: Apache-2.0 */
/* test_gossip.c - a round of gossip has the same bits on every engine: one that packs and merges all
 * nodes in a launch, and one that takes them one by one. Rows are added and multiplied element by
 * element in node order everywhere, so nothing may differ. */
#include <stdlib.h>

#include "gossip/gossip.h"
#include "support/check.h"
#include "support/rig.h"

enum { ROW = 3200, N_NODES = 6, N_ROUNDS = 4, N_VALUES = N_NODES * ROW };

/* Gaps between tensors, as rows have them; a tensor of one element; one that is cut into pieces. */
static const struct oct__span spans[] = {{0, 40}, {48, 48}, {112, 1}, {128, 3000}};

/* The last rounds of a run may be dense. */
static const int is_dense[N_ROUNDS] = {0, 0, 0, 1};

static void fill(float *rows) {
    unsigned state = 7;
    for (int i = 0; i < N_VALUES; i++) {
        state = state * 1664525U + 1013904223U;
        rows[i] = ((float)(state >> 8) / 8388608.0F - 1.0F) * (float)(1 + i % 5);
    }
}

/* Rounds with a little drift between them, as training would give; what x is in the end. */
static void run(struct oct__engine *engine, const char *algorithm, const char *compress,
                const char *graph, float *out, double u[N_NODES]) {
    const struct oct_topology_options options = {.name = graph, .n_nodes = N_NODES, .seed = 1};
    struct oct_topology *topology;
    struct oct__gossip *gossip;
    struct oct__gossip_config config = {.engine = engine,
                                        .spans = spans,
                                        .n_spans = OCT_COUNT_OF(spans),
                                        .n_elements = ROW,
                                        .n_nodes = N_NODES,
                                        .n_threads = 2,
                                        .seed = 3,
                                        .has_dense_rounds = 1};
    EXPECT_OK(oct_topology_create(&options, &topology));
    config.topology = topology;
    EXPECT_OK(oct__algorithm_find(algorithm, &config.algorithm));
    EXPECT_OK(oct__compression_read(compress, &config.compression));
    EXPECT_OK(engine->alloc(engine, N_VALUES * sizeof *out, "x", &config.x));
    EXPECT_OK(oct__gossip_create(&config, &gossip));
    fill(out);
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N_VALUES; i++) {
            out[i] += 0.01F * (float)(i % (3 + round));
        }
        EXPECT_OK(engine->write(engine, config.x, out, N_VALUES * sizeof *out));
        EXPECT_OK(oct__gossip_begin(gossip, (uint32_t)round, (uint32_t)round * 2, is_dense[round]));
        EXPECT_OK(oct__gossip_send(gossip));
        EXPECT_OK(oct__gossip_merge(gossip));
        EXPECT_OK(engine->read(engine, out, config.x, N_VALUES * sizeof *out));
    }
    memcpy(u, gossip->u, N_NODES * sizeof *u);
    oct__gossip_destroy(gossip);
    oct_topology_destroy(topology);
    engine->free(engine, config.x);
}

/* The first place at which two runs differ; -1: none. */
static int difference(const float *a, const float *b) {
    for (int i = 0; i < N_VALUES; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) {
            return i;
        }
    }
    return -1;
}

static void same_bits(void **state) {
    (void)state;
    static const char *const compress[] = {"none", "int8", "topk:0.9", "topk:0.99,values=int8",
                                           "randk:0.9,values=bf16"};
    /* of one degree; of many, whose W is column-stochastic at best; that changes */
    static const char *const graphs[] = {"directed-ring", "ring", "star", "one-peer-exponential"};
    static float wanted[N_VALUES], got[N_VALUES];
    int n_compared = 0;
    struct oct__engine *portable;
    EXPECT_OK(oct__engine_open("portable", 1, &portable));
    for (int a = 0; oct__algorithm_at(a); a++) {
        const struct oct_algorithm_kind *kind = oct__algorithm_at(a);
        for (size_t c = 0; c < OCT_COUNT_OF(compress); c++) {
            for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
                double u[N_NODES], own_u[N_NODES];
                const char *name = kind->plugin.name;
                if (kind->mixing != OCT_MIXING_GOSSIP || (!kind->is_push_sum && g == 2)) {
                    continue;
                }
                run(portable, name, compress[c], graphs[g], wanted, u);
                struct oct__engine *engine;
                for (int e = 0; (engine = rig_engine_at(e, 2)); e++) {
                    if (!engine->kind->is_oracle) {
                        run(engine, name, compress[c], graphs[g], got, own_u);
                        const int at = difference(wanted, got);
                        if (at >= 0) {
                            fail_msg("%s, %s, %s on engine %s: element %d of node %d is %.9g, "
                                     "%.9g on portable",
                                     name, compress[c], graphs[g], engine->kind->plugin.name,
                                     at % ROW, at / ROW, (double)got[at], (double)wanted[at]);
                        }
                        assert_memory_equal(u, own_u, sizeof u);
                        n_compared++;
                    }
                    oct__engine_close(engine);
                }
            }
        }
    }
    oct__engine_close(portable);
    print_message("%d runs compared\n", n_compared);
    assert_true(n_compared > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
