/* SPDX-License-Identifier: Apache-2.0 */
/* test_gossip_rounds.c - how every algorithm's round goes about its work.
 *
 *   - replicas are the same at both ends of an edge, and their sums are kept up;
 *   - dense rounds are the same for all and touch no memory; the controls do what they say;
 *   - bits do not depend on threads or engines; sums are in node order, random choices have names;
 *   - what is merged is what has arrived; rounds ask for no memory.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "conformance/gossip_model.h"
#include "support/engines.h"

/* A float's rounding. */
#define UNIT 0x1p-24

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    EXPECT_OK(oct__engine_open("cpu", 3, &engine));
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

/* --- replicas --------------------------------------------------------------------------------- */

/* Each end has a row of its own, and they stay the same to the bit. */
static void replicas_are_the_same_at_both_ends(void **state) {
    (void)state;
    static const char *const graphs[] = {"one-peer-exponential", "random-regular:change=yes"};
    static float ours[ROW], theirs[ROW];
    const struct oct_algorithm_kind *kind;
    long n_compared = 0;
    EACH_GOSSIP(kind, a) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs) && kind->has_edge_replicas; g++) {
            for (int c = 0; gossip_compressor_at(c); c++) {
                const struct gossip_form form = {.algorithm = kind->plugin.name,
                                                 .topology = graphs[g],
                                                 .compress = gossip_compressor_at(c),
                                                 .n_nodes = 8,
                                                 .has_two_ends = 1};
                struct gossip_form shared = form;
                struct gossip_rig two, one;
                shared.has_two_ends = 0;
                gossip_rig_open(&two, engine, &form);
                gossip_rig_open(&one, engine, &shared);
                gossip_fill(two.host, 8, 0.5, 16);
                gossip_rig_write(&two, two.x, two.host);
                gossip_rig_write(&one, one.x, two.host);
                for (uint32_t round = 0; round < 8; round++) {
                    gossip_wander(&two, round);
                    gossip_wander(&one, round);
                    gossip_rig_round(&two, round, 0);
                    gossip_rig_round(&one, round, 0);
                    for (int i = 0; i < two.gossip->n_replicas; i++) {
                        const struct oct__edge_replica *replica = &two.gossip->replicas[i];
                        assert_ptr_not_equal(replica->own, replica->theirs);
                        EXPECT_OK(engine->read(engine, ours, replica->own, sizeof ours));
                        EXPECT_OK(engine->read(engine, theirs, replica->theirs, sizeof theirs));
                        if (memcmp(ours, theirs, sizeof ours) != 0) {
                            fail_msg("%s on %s, %s, round %u: the replicas of %d -> %d differ",
                                     kind->plugin.name, graphs[g], form.compress, round,
                                     replica->from, replica->to);
                        }
                        n_compared++;
                    }
                }
                gossip_rig_read(&two, two.x, two.host);
                gossip_rig_read(&one, one.x, one.host);
                assert_memory_equal(two.host, one.host, 8 * ROW * sizeof(float));
                assert_true(two.gossip->state_bytes == 2 * one.gossip->state_bytes);
                gossip_rig_close(&two);
                gossip_rig_close(&one);
            }
        }
    }
    print_message("%ld pairs of replicas\n", n_compared);
    assert_true(n_compared > 1000);
}

/* On a graph that stays: sum_j (W_ij - I_ij) replica_j, of what the replicas are. */
static void check_sum(struct gossip_rig *rig, uint32_t round, double *worst) {
    static float replica[MOST_NODES * ROW], sum[MOST_NODES * ROW];
    double w[MOST_NODES * MOST_NODES];
    const int n = rig->form.n_nodes;
    model_matrix(rig->gossip->mix, w);
    gossip_rig_read(rig, rig->gossip->memory[OCT_MEMORY_REPLICA], replica);
    gossip_rig_read(rig, rig->gossip->memory[OCT_MEMORY_SUM], sum);
    const double most = gossip_largest(replica, n);
    for (int i = 0; i < n * ROW; i++) {
        double wanted = 0.0;
        for (int j = 0; j < n; j++) {
            wanted += (w[i / ROW * n + j] - (j == i / ROW)) * (double)replica[j * ROW + i % ROW];
        }
        const double error = fabs((double)sum[i] - wanted);
        if (!(error <= (round + 1.0) * 4.0 * (n + 2) * UNIT * most)) {
            fail_msg("%s on %s, %s, round %u: the sum of node %d, element %d is %.9g, of its "
                     "replicas %.9g",
                     rig->form.algorithm, rig->form.topology, rig->form.compress, round, i / ROW,
                     i % ROW, (double)sum[i], wanted);
        }
        *worst = fmax(*worst, error);
    }
}

static void sums_of_replicas(void **state) {
    (void)state;
    static const struct {
        const char *topology, *weights;
    } graphs[] = {{"star", "metropolis"}, {"directed-ring", NULL}, {"star", NULL}};
    const struct oct_algorithm_kind *kind;
    double worst = 0.0;
    int n_cases = 0;
    EACH_GOSSIP(kind, a) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs) && kind->has_edge_replicas; g++) {
            for (int c = 0; gossip_compressor_at(c); c++) {
                const struct gossip_form form = {.algorithm = kind->plugin.name,
                                                 .topology = graphs[g].topology,
                                                 .weights = graphs[g].weights,
                                                 .compress = gossip_compressor_at(c),
                                                 .n_nodes = 5};
                struct gossip_rig rig;
                if (!gossip_rig_opens(&rig, engine, &form)) {
                    continue;
                }
                gossip_fill(rig.host, 5, 0.5, 17);
                gossip_rig_write(&rig, rig.x, rig.host);
                for (uint32_t round = 0; round < 10; round++) {
                    gossip_wander(&rig, round);
                    gossip_rig_round(&rig, round, 0);
                    check_sum(&rig, round, &worst);
                }
                n_cases++;
                gossip_rig_close(&rig);
            }
        }
    }
    print_message("%d cases, at most %.1e away\n", n_cases, worst);
    assert_true(n_cases > 20);
}

/* --- dense rounds, controls ------------------------------------------------------------------- */

/* A dense round is dpsgd's or sgp's without compression, and leaves every memory as it was. */
static void dense_rounds(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "one-peer-exponential"};
    static float memory[OCT_MEMORY_COUNT][8 * ROW], now[8 * ROW];
    const struct oct_algorithm_kind *kind;
    EACH_GOSSIP(kind, a) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g],
                                             .compress = "topk:0.9",
                                             .n_nodes = 8,
                                             .has_dense_rounds = 1};
            const struct gossip_form plain = {
                .algorithm = "sgp", .topology = graphs[g], .compress = "none", .n_nodes = 8};
            struct gossip_rig rig, other;
            gossip_rig_open(&rig, engine, &form);
            gossip_rig_open(&other, engine, &plain);
            gossip_fill(rig.host, 8, 0.5, 18);
            gossip_rig_write(&rig, rig.x, rig.host);
            gossip_rig_round(&rig, 0, 0);
            gossip_rig_read(&rig, rig.x, rig.host);
            gossip_rig_write(&other, other.x, rig.host);
            memcpy(other.gossip->u, rig.gossip->u, 8 * sizeof(double));
            for (int m = 0; m < OCT_MEMORY_COUNT; m++) {
                if (rig.gossip->memory[m]) {
                    gossip_rig_read(&rig, rig.gossip->memory[m], memory[m]);
                }
            }
            const int n_replicas = rig.gossip->n_replicas;
            const int is_per_edge = oct__gossip_sends_by_edge(rig.gossip);
            assert_int_equal(is_per_edge, kind->has_edge_replicas && g == 1);
            for (uint32_t round = 1; round < 4; round++) {
                gossip_rig_round(&rig, round, 1);
                gossip_rig_round(&other, round, 0);
                assert_int_equal(oct__gossip_sends_by_edge(rig.gossip), 0);
                assert_int_equal(oct__gossip_form(rig.gossip)->n_bytes,
                                 oct__gossip_form(other.gossip)->n_bytes);
            }
            gossip_rig_read(&rig, rig.x, rig.host);
            gossip_rig_read(&other, other.x, other.host);
            assert_memory_equal(rig.host, other.host, 8 * ROW * sizeof(float));
            for (int m = 0; m < OCT_MEMORY_COUNT; m++) {
                if (rig.gossip->memory[m]) {
                    gossip_rig_read(&rig, rig.gossip->memory[m], now);
                    assert_memory_equal(now, memory[m], sizeof now);
                }
            }
            assert_int_equal(rig.gossip->n_replicas, n_replicas);
            gossip_rig_close(&rig);
            gossip_rig_close(&other);
        }
    }
}

static void controls(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n += 7) {
        struct gossip_form form = {
            .algorithm = "allreduce", .compress = "none", .n_nodes = n, .n_threads = 3};
        struct gossip_rig rig;
        static float before[8 * ROW];
        static double sums[ROW];
        gossip_rig_open(&rig, engine, &form);
        gossip_fill(rig.host, n, 0.5, 19);
        memcpy(before, rig.host, (size_t)n * ROW * sizeof *before);
        gossip_sum(rig.host, n, sums);
        gossip_rig_write(&rig, rig.x, rig.host);
        gossip_rig_round(&rig, 0, 0);
        gossip_rig_read(&rig, rig.x, rig.host);
        for (int i = 0; i < n * ROW; i++) {
            if (rig.host[i] != (float)(sums[i % ROW] / n)) {
                fail_msg("allreduce, %d nodes: element %d is %.9g, the mean %.9g", n, i,
                         (double)rig.host[i], sums[i % ROW] / n);
            }
        }
        gossip_rig_close(&rig);

        form.algorithm = "none";
        gossip_rig_open(&rig, engine, &form);
        gossip_rig_write(&rig, rig.x, before);
        gossip_rig_round(&rig, 0, 0);
        gossip_rig_read(&rig, rig.x, rig.host);
        assert_memory_equal(rig.host, before, (size_t)n * ROW * sizeof *before);
        assert_true(rig.gossip->state_bytes == 0 && rig.gossip->workspace_bytes == 0);
        gossip_rig_close(&rig);
    }
}

/* --- threads, engines, memory ----------------------------------------------------------------- */

static void run_on(struct oct__engine *on, const struct gossip_form *form, float *x, double *u) {
    struct gossip_rig rig;
    gossip_rig_open(&rig, on, form);
    gossip_fill(rig.host, form->n_nodes, 0.5, 20);
    gossip_rig_write(&rig, rig.x, rig.host);
    for (uint32_t round = 0; round < 5; round++) {
        gossip_rig_round(&rig, round, round == 3);
    }
    gossip_rig_read(&rig, rig.x, x);
    memcpy(u, rig.gossip->u, (size_t)form->n_nodes * sizeof *u);
    gossip_rig_close(&rig);
}

static void same_bits(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "one-peer-exponential"};
    static const char *const compressors[] = {"none", "int8", "topk:0.9,values=int8", "randk:0.8"};
    static float expected[8 * ROW], found[8 * ROW];
    double expected_u[8], found_u[8];
    struct oct__engine *fence, *hollow;
    const struct oct_algorithm_kind *kind;
    EXPECT_OK(fence_open(&fence));
    EXPECT_OK(hollow_open(2, &hollow));
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            for (size_t c = 0; c < OCT_COUNT_OF(compressors); c++) {
                struct gossip_form form = {.algorithm = kind->plugin.name,
                                           .topology = graphs[g],
                                           .compress = compressors[c],
                                           .n_nodes = 8,
                                           .n_threads = 1,
                                           .has_dense_rounds = 1};
                run_on(engine, &form, expected, expected_u);
                for (int variant = 0; variant < 4; variant++) {
                    static const int threads[] = {2, 3, 1, 2};
                    struct oct__engine *const on[] = {engine, engine, fence, hollow};
                    form.n_threads = threads[variant];
                    if (variant == 3 && g + c > 0) {
                        continue; /* a portable engine is opened for each of its operations */
                    }
                    run_on(on[variant], &form, found, found_u);
                    if (memcmp(found, expected, sizeof found) != 0 ||
                        memcmp(found_u, expected_u, sizeof found_u) != 0) {
                        fail_msg("%s on %s, %s: other bits on %s, %d threads", form.algorithm,
                                 form.topology, form.compress, on[variant]->kind->plugin.name,
                                 form.n_threads);
                    }
                }
            }
        }
    }
    assert_true(fence_operations(fence) > 1000);
    oct__engine_close(fence);
    oct__engine_close(hollow);
}

/* A gossip that has forgotten goes on like a new one. */
static void forgets(void **state) {
    (void)state;
    static const char *const graphs[] = {"star", "one-peer-exponential"};
    static float start[5 * ROW], first[5 * ROW];
    double u[5];
    const struct oct_algorithm_kind *kind;
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g],
                                             .compress = "topk:0.8",
                                             .n_nodes = 5};
            struct gossip_rig rig;
            if (!gossip_rig_opens(&rig, engine, &form)) {
                continue;
            }
            gossip_fill(start, 5, 0.5, 25);
            uint64_t state_bytes = 0;
            for (int run = 0; run < 2; run++) {
                gossip_rig_write(&rig, rig.x, start);
                for (uint32_t round = 0; round < 4; round++) {
                    gossip_rig_round(&rig, round, 0);
                }
                gossip_rig_read(&rig, rig.x, rig.host);
                if (run == 0) {
                    memcpy(first, rig.host, sizeof first);
                    memcpy(u, rig.gossip->u, sizeof u);
                    state_bytes = rig.gossip->state_bytes;
                    EXPECT_OK(oct__gossip_forget(rig.gossip));
                    assert_true(rig.gossip->u[0] == 1.0 && rig.gossip->n_replicas == 0);
                }
            }
            assert_memory_equal(rig.host, first, sizeof first);
            assert_memory_equal(rig.gossip->u, u, sizeof u);
            assert_true(rig.gossip->state_bytes == state_bytes);
            gossip_rig_close(&rig);
        }
    }
}

/* What arrives is what is merged: messages that a transport brought in memory of its own give the
 * same bits, altered ones others; the senders' weights come with them. */
static void merges_what_arrives(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "one-peer-exponential"};
    static float expected[8 * ROW], found[3][8 * ROW];
    double expected_u[8];
    const struct oct_algorithm_kind *kind;
    EACH_GOSSIP(kind, a) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g],
                                             .compress = "int8",
                                             .n_nodes = 8,
                                             .has_two_ends = 1};
            for (int variant = 0; variant < 3; variant++) { /* as it is, carried, altered */
                struct gossip_rig rig;
                gossip_rig_open(&rig, engine, &form);
                gossip_fill(rig.host, 8, 0.5, 21);
                gossip_rig_write(&rig, rig.x, rig.host);
                EXPECT_OK(oct__gossip_begin(rig.gossip, 0, 0, 0));
                EXPECT_OK(oct__gossip_send(rig.gossip));
                const int n_edges = rig.gossip->mix->n_edges;
                const size_t bytes = oct__gossip_form(rig.gossip)->n_bytes;
                void *carried;
                uint8_t *here = malloc(bytes);
                assert_non_null(here);
                EXPECT_OK(engine->alloc(engine, (size_t)n_edges * bytes, "carried", &carried));
                for (int e = 0; e < n_edges && variant > 0; e++) {
                    void *to = (char *)carried + (size_t)e * bytes;
                    assert_ptr_equal(rig.gossip->inbox[e].packet,
                                     oct__gossip_packet(rig.gossip, e));
                    assert_true(rig.gossip->inbox[e].weight == 1.0);
                    EXPECT_OK(engine->read(engine, here, oct__gossip_packet(rig.gossip, e), bytes));
                    if (variant == 2 && e == 3) {
                        here[oct__gossip_form(rig.gossip)->values_at] ^= 64;
                        rig.gossip->inbox[e].weight = 3.0;
                    }
                    EXPECT_OK(engine->write(engine, to, here, bytes));
                    rig.gossip->inbox[e].packet = to;
                }
                EXPECT_OK(oct__gossip_merge(rig.gossip));
                gossip_rig_read(&rig, rig.x, found[variant]);
                if (variant == 0) {
                    memcpy(expected_u, rig.gossip->u, sizeof expected_u);
                } else if (variant == 1) {
                    assert_memory_equal(rig.gossip->u, expected_u, sizeof expected_u);
                } else {
                    int n_other = 0;
                    for (int i = 0; i < 8; i++) {
                        n_other += rig.gossip->u[i] != expected_u[i];
                    }
                    assert_int_equal(n_other, kind->is_push_sum);
                }
                engine->free(engine, carried);
                free(here);
                gossip_rig_close(&rig);
            }
            memcpy(expected, found[0], sizeof expected);
            assert_memory_equal(found[1], expected, sizeof expected);
            int n_other = 0;
            for (int i = 0; i < 8 * ROW; i++) {
                n_other += found[2][i] != expected[i];
            }
            assert_int_equal(n_other, 1); /* one value, at one receiver */
        }
    }
}

/* The packet of an edge, with x the same at every node. */
static void packet_at(const struct gossip_form *form, uint32_t step, int from, int to,
                      uint8_t *packet) {
    struct gossip_rig rig;
    gossip_rig_open(&rig, engine, form);
    gossip_fill(rig.host, 1, 1.0, 23);
    for (int i = 1; i < form->n_nodes; i++) {
        memcpy(rig.host + i * ROW, rig.host, ROW * sizeof(float));
    }
    gossip_rig_write(&rig, rig.x, rig.host);
    EXPECT_OK(oct__gossip_begin(rig.gossip, 0, step, 0));
    EXPECT_OK(oct__gossip_send(rig.gossip));
    const struct oct__mix *mix = rig.gossip->mix;
    int e = mix->in_start[to];
    while (e < mix->in_start[to + 1] && mix->from[e] != from) {
        e++;
    }
    assert_true(e < mix->in_start[to + 1]);
    memset(packet, 0, ROW * sizeof(float) * 2);
    EXPECT_OK(engine->read(engine, packet, oct__gossip_packet(rig.gossip, e),
                           oct__gossip_form(rig.gossip)->n_bytes));
    gossip_rig_close(&rig);
}

/* Random choices are those of the node, the step and, where messages are an edge's, the receiver. */
static void chance_is_named(void **state) {
    (void)state;
    const struct oct_algorithm_kind *kind;
    enum { BYTES = ROW * sizeof(float) * 2 };
    static uint8_t first[BYTES], other[BYTES];
    EACH_GOSSIP(kind, a) {
        for (int is_changing = 0; is_changing < 2; is_changing++) {
            const struct gossip_form form = {
                .algorithm = kind->plugin.name,
                .topology = is_changing ? "random-regular:degree=4,change=yes" : "complete",
                .compress = "randk:0.8",
                .n_nodes = 5};
            packet_at(&form, 1, 0, 1, first);
            packet_at(&form, 1, 0, 1, other);
            assert_memory_equal(first, other, BYTES);
            packet_at(&form, 2, 0, 1, other);
            assert_memory_not_equal(first, other, BYTES);
            packet_at(&form, 1, 2, 1, other);
            assert_memory_not_equal(first, other, BYTES);
            packet_at(&form, 1, 0, 2, other);
            if (is_changing && kind->has_edge_replicas) {
                assert_memory_not_equal(first, other, BYTES);
            } else {
                assert_memory_equal(first, other, BYTES);
            }
        }
    }
}

/* x_i in floats, its terms in node order: what a simulation and many machines must agree on. */
static void terms_are_in_node_order(void **state) {
    (void)state;
    static float before[5 * ROW], wanted[ROW];
    for (int is_changing = 0; is_changing < 2; is_changing++) {
        const struct gossip_form form = {
            .algorithm = is_changing ? "choco" : "dpsgd",
            .topology = is_changing ? "random-regular:degree=4,change=yes" : "complete",
            .compress = "none",
            .n_nodes = 5,
            .gamma = 0.7};
        struct gossip_rig rig;
        gossip_rig_open(&rig, engine, &form);
        gossip_fill(before, 5, 0.5, 24);
        gossip_rig_write(&rig, rig.x, before);
        gossip_rig_round(&rig, 0, 0);
        gossip_rig_read(&rig, rig.x, rig.host);
        const struct oct__mix *mix = rig.gossip->mix;
        for (int i = 0; i < 5; i++) {
            float shares[5];
            for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
                shares[mix->from[e]] = oct__gossip_share(rig.gossip, e, 0.7);
            }
            shares[i] = oct__gossip_self_share(rig.gossip, i, 0.7);
            memcpy(wanted, before + i * ROW, sizeof wanted);
            for (int k = 0; k < ROW; k++) {
                for (int j = 0; j < 5; j++) { /* replicas are x itself in the first round */
                    if (!is_changing || j != i) {
                        wanted[k] += shares[j] * before[j * ROW + k];
                    }
                }
                for (int e = mix->out_start[i]; is_changing && e < mix->out_start[i + 1]; e++) {
                    const float share = oct__gossip_share(rig.gossip, mix->out_edge[e], 0.7);
                    wanted[k] += -share * before[i * ROW + k];
                }
            }
            assert_memory_equal(rig.host + i * ROW, wanted, sizeof wanted);
        }
        gossip_rig_close(&rig);
    }
}

/* Once every graph of the period was there, rounds ask for no memory. */
static void rounds_allocate_nothing(void **state) {
    (void)state;
    static const char *const graphs[] = {"directed-ring", "one-peer-exponential"};
    const struct oct_algorithm_kind *kind;
    for (int a = 0; (kind = oct__algorithm_at(a)); a++) {
        for (size_t g = 0; g < OCT_COUNT_OF(graphs); g++) {
            const struct gossip_form form = {.algorithm = kind->plugin.name,
                                             .topology = graphs[g],
                                             .compress = "topk:0.9,values=int8",
                                             .n_nodes = 8,
                                             .has_dense_rounds = 1};
            struct gossip_rig rig;
            gossip_rig_open(&rig, engine, &form);
            gossip_fill(rig.host, 8, 0.5, 22);
            gossip_rig_write(&rig, rig.x, rig.host);
            for (uint32_t round = 0; round < 3; round++) {
                gossip_rig_round(&rig, round, 0);
            }
            const uint64_t before = oct__alloc_count();
            for (uint32_t round = 3; round < 12; round++) {
                gossip_rig_round(&rig, round, round > 9);
            }
            const uint64_t n_requests = oct__alloc_count() - before;
            if (n_requests != 0) {
                fail_msg("%s on %s: %llu requests for memory in 9 rounds", kind->plugin.name,
                         graphs[g], (unsigned long long)n_requests);
            }
            gossip_rig_close(&rig);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_the_same_at_both_ends),
        cmocka_unit_test(sums_of_replicas),
        cmocka_unit_test(dense_rounds),
        cmocka_unit_test(controls),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(forgets),
        cmocka_unit_test(merges_what_arrives),
        cmocka_unit_test(chance_is_named),
        cmocka_unit_test(terms_are_in_node_order),
        cmocka_unit_test(rounds_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
