/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - what every topology owes, for 1 to 17 nodes and some larger numbers: it works or
 * says why not; its graphs are sorted, without self-loops and doubles, the same by receiver and by
 * sender; every column of weights sums to 1; all nodes reach one another; what it says of itself is
 * so; the same seed gives the same graphs. Everything is counted again here, by other means than
 * the library's. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "support/check.h"
#include "support/folder.h"
#include "topology/topology.h"

static const int sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                            13, 14, 15, 16, 17, 24, 31, 32, 48, 60, 64, 100};

/* Rounds of a never-repeating topology that are looked at. */
enum { ROUNDS = 70 };

static struct folder folder;

/* Names with options that are tried beside each kind by itself. */
static const char *const variants[] = {
    "torus:rows=4",
    "random-regular:degree=2",
    "random-regular:degree=4,change=yes",
    "random-regular:change=yes",
    "erdos-renyi:p=0.6",
    "erdos-renyi:p=1",
    "erdos-renyi:p=0.15,change=yes",
    "base-k:2",
    "base-k:k=3",
    "base-k:k=7",
};

/* The file that the kind `file` reads: i -> i + 1 and back to 0 from everywhere. */
static const char *file_name(int n) {
    static char name[FOLDER_PATH + 16];
    char text[4096];
    size_t used = 0;
    for (int i = 0; i + 1 < n; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\t%d\n%d 0 # back\n", i, i + 1,
                                 i + 1);
    }
    file_write(folder_file(&folder, "graph.txt"), text, used);
    snprintf(name, sizeof name, "file:%s", folder_file(&folder, "graph.txt"));
    return name;
}

/* "base-k:2" by itself or the file of n nodes. */
static const char *full_name(const char *name, int n) {
    return strcmp(name, "file") == 0 ? file_name(n) : name;
}

static oct_status create(const char *name, int n, const char *weights, uint64_t seed, int hold,
                         struct oct_topology **out) {
    const struct oct_topology_options options = {full_name(name, n), weights, n, hold, seed};
    return oct_topology_create(&options, out);
}

/* Calls `check` with every kind of the registry and every variant. */
static void each_name(void (*check)(const char *name, int n)) {
    for (size_t s = 0; s < OCT_COUNT_OF(sizes); s++) {
        int i = 0;
        for (; oct__topology_at(i); i++) {
            check(oct__topology_at(i)->plugin.name, sizes[s]);
        }
        assert_int_equal(i, 12);
        for (size_t v = 0; v < OCT_COUNT_OF(variants); v++) {
            check(variants[v], sizes[s]);
        }
    }
    assert_null(oct__topology_at(-1));
    assert_null(oct__topology_at(1000));
}

/* Which numbers of nodes a topology may refuse, and a word of the reason. */
static const char *may_refuse(const char *name, int n) {
    int composite = 0;
    for (int d = 2; d * d <= n; d++) {
        composite |= n % d == 0;
    }
    if (strcmp(name, "torus") == 0) {
        return composite ? NULL : "use ring";
    }
    if (strcmp(name, "torus:rows=4") == 0) {
        return n % 4 == 0 && n > 4 ? NULL : composite ? "4 rows" : "use ring";
    }
    if (strcmp(name, "random-regular:degree=2") == 0) {
        return n > 2 ? NULL : "needs at least 3 nodes";
    }
    if (strcmp(name, "random-regular:degree=4,change=yes") == 0) {
        return n > 4 ? NULL : "needs at least 5 nodes";
    }
    return NULL;
}

/* The form of one graph. */
static void check_mix(const char *name, const struct oct__mix *mix) {
    const int n = mix->n_nodes;
    char *has = calloc((size_t)n * (size_t)n, 1);
    assert_non_null(has);
    assert_int_equal(mix->in_start[0], 0);
    assert_int_equal(mix->out_start[0], 0);
    assert_int_equal(mix->in_start[n], mix->n_edges);
    assert_int_equal(mix->out_start[n], mix->n_edges);
    for (int i = 0; i < n; i++) {
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            int j = mix->from[e];
            assert_true(j >= 0 && j < n && j != i);
            assert_true(e == mix->in_start[i] || mix->from[e - 1] < j);
            assert_true(mix->weight[e] > 0 && mix->weight[e] <= 1);
            has[j * n + i] = 1;
        }
    }
    for (int j = 0; j < n; j++) {
        double sum = mix->self[j];
        assert_true(mix->self[j] >= 0 && mix->self[j] <= 1);
        for (int o = mix->out_start[j]; o < mix->out_start[j + 1]; o++) {
            int i = mix->to[o], e = mix->out_edge[o];
            assert_true(i >= 0 && i < n && has[j * n + i] == 1);
            assert_true(o == mix->out_start[j] || mix->to[o - 1] < i);
            assert_true(e >= mix->in_start[i] && e < mix->in_start[i + 1]);
            assert_int_equal(mix->from[e], j);
            has[j * n + i] = 2; /* and no other has this edge */
            sum += mix->weight[e];
        }
        if (!(fabs(sum - 1) < 1e-12)) {
            fail_msg("%s, %d nodes: node %d's weights sum to %.17g", name, n, j, sum);
        }
    }
    for (int p = 0; p < n * n; p++) {
        assert_int_not_equal(has[p], 1);
    }
    free(has);
}

static int rows_sum_to_1(const struct oct__mix *mix) {
    for (int i = 0; i < mix->n_nodes; i++) {
        double sum = mix->self[i];
        for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
            sum += mix->weight[e];
        }
        if (!(fabs(sum - 1) < 1e-12)) {
            return 0;
        }
    }
    return 1;
}

/* Transitive closure over the graphs of `rounds` rounds, by Warshall's algorithm on bytes. */
static void check_reach(const char *name, struct oct_topology *topology, int rounds) {
    const int n = topology->info.n_nodes;
    char *reach = calloc((size_t)n * (size_t)n, 1);
    assert_non_null(reach);
    for (int r = 0; r < rounds; r++) {
        struct oct_edge edge;
        for (int e = 0; oct_topology_edge(topology, (uint32_t)r, e, &edge); e++) {
            reach[edge.from * n + edge.to] = 1;
        }
    }
    for (int k = 0; k < n; k++) {
        for (int a = 0; a < n; a++) {
            for (int b = 0; reach[a * n + k] && b < n; b++) {
                reach[a * n + b] |= reach[k * n + b];
            }
        }
    }
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) {
            if (a != b && !reach[a * n + b]) {
                fail_msg("%s, %d nodes: %d does not reach %d in %d rounds", name, n, a, b, rounds);
            }
        }
    }
    free(reach);
}

static void holds_together(const char *name, int n) {
    struct oct_topology *topology = NULL;
    const char *reason = may_refuse(name, n);
    oct_status status = create(name, n, NULL, 5, 0, &topology);
    if (status != OCT_OK) {
        if (!reason || status != OCT_STATUS_INVALID || !strstr(oct_last_error(), reason)) {
            fail_msg("%s, %d nodes: %s: %s", name, n, oct_status_name(status), oct_last_error());
        }
        assert_null(topology);
        return;
    }
    assert_null(reason);
    struct oct_topology_info info;
    oct_topology_info(topology, &info);
    const struct oct_topology_kind *kind = topology->kind;
    const int rounds = info.period > 0 ? info.period : ROUNDS;
    int doubly = 1, undirected = 1, least = n, most = 0;
    char *seen = calloc((size_t)n * (size_t)n, 1);
    assert_non_null(seen);
    int distinct = 0;
    for (int r = 0; r < rounds; r++) {
        const struct oct__mix *mix = NULL;
        EXPECT_OK(oct__topology_mix(topology, (uint32_t)r, &mix));
        assert_int_equal(mix->n_nodes, n);
        check_mix(name, mix);
        doubly &= rows_sum_to_1(mix);
        for (int e = 0; e < mix->n_edges; e++) {
            struct oct_edge edge;
            assert_int_equal(oct_topology_edge(topology, (uint32_t)r, e, &edge), 1);
            assert_int_equal(edge.from, mix->from[e]);
            assert_true(edge.weight == mix->weight[e]);
            assert_true(e >= mix->in_start[edge.to] && e < mix->in_start[edge.to + 1]);
            int has_back = 0;
            for (int b = mix->in_start[edge.from]; b < mix->in_start[edge.from + 1]; b++) {
                has_back |= mix->from[b] == edge.to;
            }
            undirected &= has_back;
            distinct += !seen[edge.from * n + edge.to];
            seen[edge.from * n + edge.to] = 1;
        }
        struct oct_edge past;
        assert_int_equal(oct_topology_edge(topology, (uint32_t)r, mix->n_edges, &past), 0);
        assert_int_equal(oct_topology_edge(topology, (uint32_t)r, -1, &past), 0);
        for (int j = 0; j < n && (r == 0 || info.period > 0); j++) {
            int degree = mix->out_start[j + 1] - mix->out_start[j];
            least = degree < least ? degree : least;
            most = degree > most ? degree : most;
            assert_true(oct_topology_self_weight(topology, (uint32_t)r, j) == mix->self[j]);
        }
    }
    free(seen);
    print_message("%s, %d nodes: period %d, %d edges, degree %d to %d, %s%s\n", name, n,
                  info.period, info.n_edges, info.least_degree, info.most_degree,
                  info.is_undirected ? "undirected" : "directed",
                  info.is_doubly_stochastic ? ", doubly stochastic" : "");
    check_reach(name, topology, rounds);
    assert_int_equal(info.n_nodes, n);
    assert_true(info.is_column_stochastic);
    assert_true(info.is_strongly_connected);
    assert_int_equal(info.hold, 1);
    assert_int_equal(info.least_degree, least);
    assert_int_equal(info.most_degree, most);
    if (info.period > 0) {
        assert_int_equal(info.n_edges, distinct);
        assert_int_equal(info.is_doubly_stochastic, doubly);
        assert_int_equal(info.is_undirected, undirected);
    }
    /* What is claimed holds; kinds that promise something keep it. */
    assert_true(!info.is_doubly_stochastic || doubly);
    assert_true(!info.is_undirected || undirected);
    assert_true(!kind->is_undirected || undirected);
    assert_true(!(kind->is_regular || kind->has_own_weights) || info.is_doubly_stochastic);
    assert_true(isnan(oct_topology_self_weight(topology, 0, n)));
    assert_true(isnan(oct_topology_self_weight(topology, 0, -1)));
    oct_topology_destroy(topology);
}

static void every_graph(void **state) {
    (void)state;
    each_name(holds_together);
}

/* Metropolis weights make every undirected graph doubly stochastic, and are refused elsewhere. */
static void metropolis_on(const char *name, int n) {
    struct oct_topology *topology = NULL;
    const struct oct_topology_kind *kind = NULL;
    const char *options;
    EXPECT_OK(oct__topology_choose(name, &kind, &options));
    oct_status status = create(name, n, "metropolis", 5, 0, &topology);
    if (kind->has_own_weights) {
        check_failure(name, status, OCT_STATUS_INVALID, "weights of its own");
        return;
    }
    if (!kind->is_undirected && !(kind->reads_text && n < 3)) {
        check_failure(name, status, OCT_STATUS_INVALID, "out-degree");
        return;
    }
    if (may_refuse(name, n)) {
        assert_int_equal(status, OCT_STATUS_INVALID);
        return;
    }
    EXPECT_OK(status);
    struct oct_topology_info info;
    oct_topology_info(topology, &info);
    assert_true(info.is_doubly_stochastic);
    for (int r = 0; r < (info.period > 0 ? info.period : ROUNDS); r++) {
        const struct oct__mix *mix = NULL;
        EXPECT_OK(oct__topology_mix(topology, (uint32_t)r, &mix));
        check_mix(name, mix);
        assert_true(rows_sum_to_1(mix));
    }
    oct_topology_destroy(topology);
}

static void metropolis(void **state) {
    (void)state;
    each_name(metropolis_on);
}

static int same_mix(const struct oct__mix *a, const struct oct__mix *b) {
    return a->n_edges == b->n_edges &&
           memcmp(a->self, b->self, (size_t)a->n_nodes * sizeof *a->self) == 0 &&
           memcmp(a->from, b->from, (size_t)a->n_edges * sizeof *a->from) == 0 &&
           memcmp(a->weight, b->weight, (size_t)a->n_edges * sizeof *a->weight) == 0 &&
           memcmp(a->in_start, b->in_start, ((size_t)a->n_nodes + 1) * sizeof(int)) == 0;
}

/* The same seed gives the same graphs in any order of asking, with and without holding; another
 * seed gives other random ones. */
static void repeats_on(const char *name, int n) {
    struct oct_topology *a = NULL, *b = NULL, *other = NULL, *held = NULL;
    if (n < 8 || may_refuse(name, n)) {
        return;
    }
    EXPECT_OK(create(name, n, NULL, 7, 0, &a));
    EXPECT_OK(create(name, n, NULL, 7, 0, &b));
    EXPECT_OK(create(name, n, NULL, 8, 0, &other));
    EXPECT_OK(create(name, n, NULL, 7, 3, &held));
    int differs = 0, changes = 0;
    for (uint32_t r = 0; r < 12; r++) {
        const struct oct__mix *of_a, *of_b, *of_other, *of_held, *next;
        EXPECT_OK(oct__topology_mix(a, r, &of_a));
        EXPECT_OK(oct__topology_mix(b, 11 - r, &of_b)); /* elsewhere first */
        EXPECT_OK(oct__topology_mix(b, r, &of_b));
        EXPECT_OK(oct__topology_mix(other, r, &of_other));
        assert_true(same_mix(of_a, of_b));
        differs |= !same_mix(of_a, of_other);
        for (uint32_t h = 0; h < 3; h++) {
            EXPECT_OK(oct__topology_mix(held, 3 * r + h, &of_held));
            assert_true(same_mix(of_a, of_held));
        }
        EXPECT_OK(oct__topology_mix(b, r + 1, &next));
        changes |= !same_mix(of_a, next);
    }
    const int is_random = strncmp(name, "random-regular", 14) == 0 ||
                          (strncmp(name, "erdos-renyi", 11) == 0 && strcmp(name + 11, ":p=1") != 0);
    print_message("%s, %d nodes: another seed differs: %d, changes: %d\n", name, n, differs,
                  changes);
    assert_int_equal(differs, is_random);
    assert_int_equal(changes, a->info.period != 1);
    oct_topology_destroy(a);
    oct_topology_destroy(b);
    oct_topology_destroy(other);
    oct_topology_destroy(held);
}

static void repeats(void **state) {
    (void)state;
    each_name(repeats_on);
}

/* Memory that runs out at the n-th request leaves no trace and no topology. */
static void memory_on(const char *name, int n) {
    if (n != 12) {
        return;
    }
    uint64_t request = 0;
    oct_status status;
    do {
        struct oct_topology *topology = NULL;
        double gap;
        oct__alloc_fail_after(++request);
        status = create(name, n, NULL, 3, 0, &topology);
        if (status == OCT_OK) {
            status = oct_topology_spectral_gap(topology, &gap);
            status = status == OCT_STATUS_UNSUPPORTED ? OCT_OK : status;
        }
        oct__alloc_fail_after(0);
        if (status != OCT_OK && status != OCT_STATUS_NO_MEMORY) {
            fail_msg("%s: request %d: %s: %s", name, (int)request, oct_status_name(status),
                     oct_last_error());
        }
        oct_topology_destroy(topology);
    } while (status != OCT_OK);
    print_message("%s: %d requests failed in turn\n", name, (int)request - 1);
    assert_true(request > 4);
}

static void memory_runs_out(void **state) {
    (void)state;
    each_name(memory_on);
}

static void impossible_options(void **state) {
    (void)state;
    static const char *const wrong[] = {"nonsense=1", "=", ",", "1x", "k=nan"};
    for (int i = 0; oct__topology_at(i); i++) {
        const struct oct_topology_kind *kind = oct__topology_at(i);
        for (size_t w = 0; w < OCT_COUNT_OF(wrong) && !kind->reads_text; w++) {
            struct oct_topology *topology = NULL;
            char name[96];
            snprintf(name, sizeof name, "%s:%s", kind->plugin.name, wrong[w]);
            oct_status status = create(name, 12, NULL, 0, 0, &topology);
            print_message("%s: %s: %s\n", name, oct_status_name(status), oct_last_error());
            assert_int_equal(status, OCT_STATUS_INVALID);
            assert_null(topology);
        }
        assert_true(strlen(kind->plugin.summary) > 3);
    }
}

static int open_folder(void **state) {
    (void)state;
    folder_open(&folder);
    return 0;
}

static int close_folder(void **state) {
    (void)state;
    folder_close(&folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_graph),
        cmocka_unit_test(metropolis),
        cmocka_unit_test(repeats),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(impossible_options),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
