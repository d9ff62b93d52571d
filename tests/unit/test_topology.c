/* SPDX-License-Identifier: Apache-2.0 */
/* test_topology.c - weights worked out by hand, spectral gaps with known formulas, exact averages
 * within a period, and edge lists with every mistake at its line. */
#include <math.h>
#include <stdlib.h>

#include "support/check.h"
#include "support/folder.h"
#include "topology/topology.h"

static struct folder folder;

static oct_status create(const char *name, int n, const char *weights, struct oct_topology **out) {
    const struct oct_topology_options options = {.name = name, .weights = weights, .n_nodes = n};
    return oct_topology_create(&options, out);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* A row of W: W[to][from], the diagonal among them. */
static void expect_matrix(const char *name, const char *weights, int n, uint32_t step,
                          const double *expected) {
    struct oct_topology *topology = NULL;
    EXPECT_OK(create(name, n, weights, &topology));
    double *w = calloc((size_t)n * (size_t)n, sizeof *w);
    struct oct_edge edge;
    for (int e = 0; oct_topology_edge(topology, step, e, &edge); e++) {
        w[edge.to * n + edge.from] = edge.weight;
    }
    for (int i = 0; i < n; i++) {
        w[i * n + i] = oct_topology_self_weight(topology, step, i);
    }
    for (int p = 0; p < n * n; p++) {
        if (fabs(w[p] - expected[p]) > 1e-15) {
            fail_msg("%s, step %u: W[%d][%d] is %.17g, expected %.17g", name, step, p / n, p % n,
                     w[p], expected[p]);
        }
    }
    print_message("%s %s, step %u: all %d weights as expected\n", name, weights ? weights : "",
                  step, n * n);
    free(w);
    oct_topology_destroy(topology);
}

#define MATRIX(...) ((const double[]){__VA_ARGS__})

static void weights_by_hand(void **state) {
    (void)state;
    const double t = 1.0 / 3, f = 1.0 / 5;
    expect_matrix("directed-ring", NULL, 1, 0, MATRIX(1));
    expect_matrix("directed-ring", NULL, 2, 0, MATRIX(.5, .5, .5, .5));
    expect_matrix("directed-ring", "out-degree", 3, 0, MATRIX(.5, 0, .5, .5, .5, 0, 0, .5, .5));
    expect_matrix("ring", NULL, 2, 0, MATRIX(.5, .5, .5, .5));
    expect_matrix("ring", "", 4, 0, MATRIX(t, t, 0, t, t, t, t, 0, 0, t, t, t, t, 0, t, t));
    expect_matrix("star", NULL, 3, 0, MATRIX(t, .5, .5, t, .5, 0, t, 0, .5));
    expect_matrix("star", "metropolis", 3, 0, MATRIX(t, t, t, t, 2 * t, 0, t, 0, 2 * t));
    expect_matrix("chain", NULL, 3, 0, MATRIX(.5, t, 0, .5, t, .5, 0, t, .5));
    expect_matrix("chain", "metropolis", 3, 0, MATRIX(2 * t, t, 0, t, t, t, 0, t, 2 * t));
    expect_matrix("complete", "metropolis", 3, 0, MATRIX(t, t, t, t, t, t, t, t, t));
    expect_matrix("exponential", NULL, 4, 0,
                  MATRIX(t, 0, t, t, t, t, 0, t, t, t, t, 0, 0, t, t, t));
    const double *hop_1 = MATRIX(.5, 0, 0, .5, .5, .5, 0, 0, 0, .5, .5, 0, 0, 0, .5, .5);
    const double *hop_2 = MATRIX(.5, 0, .5, 0, 0, .5, 0, .5, .5, 0, .5, 0, 0, .5, 0, .5);
    expect_matrix("one-peer-exponential", NULL, 4, 0, hop_1);
    expect_matrix("one-peer-exponential", NULL, 4, 1, hop_2);
    expect_matrix("one-peer-exponential", NULL, 4, 6, hop_1);
    /* Two rows: up and down are one node with both weights, by either rule. */
    const double *grid =
        MATRIX(f, 2 * f, 2 * f, 0, 2 * f, f, 0, 2 * f, 2 * f, 0, f, 2 * f, 0, 2 * f, 2 * f, f);
    expect_matrix("torus", NULL, 4, 0, grid);
    expect_matrix("torus:rows=2", "metropolis", 4, 0, grid);
}

/* Node 0 of 2x4: right 1, left 3, and 4 twice. */
static void torus_of_two_rows(void **state) {
    (void)state;
    struct oct_topology *topology = NULL;
    EXPECT_OK(create("torus", 8, NULL, &topology));
    const struct oct__mix *mix;
    EXPECT_OK(oct__topology_mix(topology, 0, &mix));
    for (int j = 0; j < 8; j++) {
        assert_int_equal(mix->out_start[j + 1] - mix->out_start[j], 3);
        assert_true(fabs(mix->self[j] - 0.2) < 1e-15);
    }
    assert_int_equal(mix->to[0], 1);
    assert_int_equal(mix->to[1], 3);
    assert_int_equal(mix->to[2], 4);
    assert_true(mix->weight[mix->out_edge[0]] == 0.2);
    assert_true(mix->weight[mix->out_edge[1]] == 0.2);
    assert_true(mix->weight[mix->out_edge[2]] == 0.4);
    oct_topology_destroy(topology);

    static const struct {
        int n, columns;
    } grids[] = {{12, 4}, {16, 4}, {36, 6}, {10, 5}, {1024, 32}};
    for (size_t g = 0; g < OCT_COUNT_OF(grids); g++) {
        EXPECT_OK(create("torus", grids[g].n, NULL, &topology));
        EXPECT_OK(oct__topology_mix(topology, 0, &mix));
        int below = 0; /* node 0 sends to the one below it, which is `columns` further on */
        for (int o = 0; o < mix->out_start[1]; o++) {
            below |= mix->to[o] == grids[g].columns;
        }
        assert_true(below);
        oct_topology_destroy(topology);
    }
}

/* --- who is refused --------------------------------------------------------------------------- */

static void refusals(void **state) {
    (void)state;
    struct oct_topology *t = NULL;
    EXPECT_FAILURE(create("rinng", 8, NULL, &t), OCT_STATUS_NOT_FOUND, "directed-ring, ring");
    EXPECT_FAILURE(create("", 8, NULL, &t), OCT_STATUS_INVALID, "topology");
    EXPECT_FAILURE(create("ring", 0, NULL, &t), OCT_STATUS_INVALID, "0 nodes");
    EXPECT_FAILURE(create("ring", -3, NULL, &t), OCT_STATUS_INVALID, "-3 nodes");
    EXPECT_FAILURE(create("ring", 8, "degree", &t), OCT_STATUS_INVALID, "'degree'");
    EXPECT_FAILURE(create("directed-ring", 8, "metropolis", &t), OCT_STATUS_INVALID, "is directed");
    EXPECT_FAILURE(create("base-k", 8, "out-degree", &t), OCT_STATUS_INVALID, "of its own");
    EXPECT_FAILURE(create("torus", 7, NULL, &t), OCT_STATUS_INVALID, "7 nodes make no grid");
    EXPECT_FAILURE(create("torus:rows=3", 8, NULL, &t), OCT_STATUS_INVALID,
                   "3 rows with two columns or more; rows=2 would do");
    EXPECT_FAILURE(create("torus:rows=3", 7, NULL, &t), OCT_STATUS_INVALID, "use ring");
    EXPECT_FAILURE(create("torus:rows=1", 8, NULL, &t), OCT_STATUS_INVALID, "rows is '1'");
    EXPECT_FAILURE(create("torus:rows=8", 8, NULL, &t), OCT_STATUS_INVALID, "8 rows");
    EXPECT_FAILURE(create("random-regular:degree=3", 7, NULL, &t), OCT_STATUS_INVALID,
                   "7*3 is odd");
    EXPECT_FAILURE(create("random-regular:degree=8", 8, NULL, &t), OCT_STATUS_INVALID,
                   "needs at least 9 nodes");
    EXPECT_FAILURE(create("random-regular:degree=1", 8, NULL, &t), OCT_STATUS_INVALID, "pairs");
    EXPECT_FAILURE(create("erdos-renyi:p=0.001", 64, NULL, &t), OCT_STATUS_INVALID, "p=0.001");
    EXPECT_FAILURE(create("erdos-renyi:p=0,change=yes", 5, NULL, &t), OCT_STATUS_INVALID,
                   "over its first 64 graphs");
    EXPECT_FAILURE(create("erdos-renyi:p=1.5", 5, NULL, &t), OCT_STATUS_INVALID, "p is '1.5'");
    EXPECT_FAILURE(create("complete", 100000, NULL, &t), OCT_STATUS_INVALID, "edges");
    EXPECT_FAILURE(create("random-regular:degree=600", 100000, NULL, &t), OCT_STATUS_INVALID,
                   "edges");
    EXPECT_FAILURE(oct_topology_create(NULL, &t), OCT_STATUS_INVALID, "NULL");
    EXPECT_FAILURE(create(NULL, 8, NULL, &t), OCT_STATUS_INVALID, "NULL");
    const struct oct_topology_options held = {.name = "ring", .n_nodes = 4, .hold = -1};
    EXPECT_FAILURE(oct_topology_create(&held, &t), OCT_STATUS_INVALID, "hold is -1");
    assert_null(t);
    oct_topology_destroy(NULL);
}

/* --- random graphs ---------------------------------------------------------------------------- */

static void random_degrees(void **state) {
    (void)state;
    for (int n = 3; n <= 40; n++) {
        for (int degree = 2; degree < n; degree++) {
            char name[64];
            struct oct_topology *topology = NULL;
            snprintf(name, sizeof name, "random-regular:degree=%d", degree);
            if (n % 2 && degree % 2) {
                continue;
            }
            EXPECT_OK(create(name, n, NULL, &topology));
            assert_int_equal(topology->info.least_degree, degree);
            assert_int_equal(topology->info.most_degree, degree);
            assert_int_equal(topology->info.n_edges, n * degree);
            oct_topology_destroy(topology);
        }
    }
    static const int by_itself[][2] = {{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}, {6, 3}, {9, 4}};
    for (size_t i = 0; i < OCT_COUNT_OF(by_itself); i++) {
        struct oct_topology *topology = NULL;
        EXPECT_OK(create("random-regular", by_itself[i][0], NULL, &topology));
        assert_int_equal(topology->info.most_degree, by_itself[i][1]);
        oct_topology_destroy(topology);
    }
}

/* The share of connected pairs is p: 100 graphs of 40 nodes, five standard deviations. */
static void random_density(void **state) {
    (void)state;
    struct oct_topology *topology = NULL;
    EXPECT_OK(create("erdos-renyi:p=0.3,change=yes", 40, NULL, &topology));
    const double n_pairs = 100 * 40 * 39 / 2.0;
    double n_connected = 0;
    for (uint32_t r = 0; r < 100; r++) {
        const struct oct__mix *mix;
        EXPECT_OK(oct__topology_mix(topology, r, &mix));
        n_connected += mix->n_edges / 2;
    }
    print_message("%g of %g pairs connected\n", n_connected, n_pairs);
    assert_true(fabs(n_connected - 0.3 * n_pairs) < 5 * sqrt(n_pairs * 0.3 * 0.7));
    oct_topology_destroy(topology);
}

/* --- finite-time averaging -------------------------------------------------------------------- */

/* Applies one period to the unit vectors: every result must be 1/n. Returns the largest error. */
static double period_error(const char *name, int n, int *period, int *most_degree) {
    struct oct_topology *topology = NULL;
    EXPECT_OK(create(name, n, NULL, &topology));
    double *x = calloc((size_t)n * (size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
    for (int i = 0; i < n; i++) {
        x[i * n + i] = 1;
    }
    for (int g = 0; g < topology->info.period; g++) {
        const struct oct__mix *mix;
        EXPECT_OK(oct__topology_mix(topology, (uint32_t)g, &mix));
        for (int c = 0; c < n; c++) {
            for (int i = 0; i < n; i++) {
                y[i] = mix->self[i] * x[c * n + i];
                for (int e = mix->in_start[i]; e < mix->in_start[i + 1]; e++) {
                    y[i] += mix->weight[e] * x[c * n + mix->from[e]];
                }
            }
            memcpy(x + c * n, y, (size_t)n * sizeof *y);
        }
    }
    double worst = 0;
    for (int p = 0; p < n * n; p++) {
        double error = fabs(x[p] - 1.0 / n);
        worst = error > worst ? error : worst;
    }
    *period = topology->info.period;
    *most_degree = topology->info.most_degree;
    free(x);
    free(y);
    oct_topology_destroy(topology);
    return worst;
}

static void averages_in_a_period(void **state) {
    (void)state;
    int period, degree;
    for (int k = 1; k <= 9; k++) {
        char name[32];
        snprintf(name, sizeof name, "base-k:k=%d", k);
        for (int n = 2; n <= 64; n++) {
            double error = period_error(name, n, &period, &degree);
            double bound = 2 * log(n) / log(k + 1) + 2; /* the paper's theorem 1 */
            if (n % 16 == 7) {
                print_message("%s, %d nodes: period %d (at most %.1f), degree %d, error %.2g\n",
                              name, n, period, bound, degree, error);
            }
            assert_true(error < 1e-12);
            assert_true(degree <= k);
            assert_true(period <= bound);
        }
    }
    /* By hand: 5 = 4 + 1 takes 2 + 1 + 2 rounds, 6 = 2 * 3 takes 3 + 1, 7 = 2 * 3 + 1 by threes
     * takes 2 + 1 + 1. */
    static const int known[][3] = {{1, 5, 5}, {1, 6, 4},  {1, 7, 5},  {1, 8, 3},  {2, 7, 4},
                                   {2, 9, 2}, {3, 16, 2}, {4, 25, 2}, {63, 64, 1}};
    for (size_t i = 0; i < OCT_COUNT_OF(known); i++) {
        char name[32];
        snprintf(name, sizeof name, "base-k:%d", known[i][0]);
        double error = period_error(name, known[i][1], &period, &degree);
        print_message("%s, %d nodes: period %d\n", name, known[i][1], period);
        assert_int_equal(period, known[i][2]);
        assert_true(error < 1e-12);
    }
    for (int n = 2; n <= 64; n *= 2) {
        assert_true(period_error("one-peer-exponential", n, &period, &degree) < 1e-15);
        assert_int_equal(1 << period, n);
        assert_int_equal(degree, 1);
    }
    assert_true(period_error("one-peer-exponential", 6, &period, &degree) > 0.01);
}

/* --- spectral gaps ---------------------------------------------------------------------------- */

static double gap_of(const char *name, int n, const char *weights, int hold) {
    struct oct_topology *topology = NULL;
    const struct oct_topology_options options = {name, weights, n, hold, 1};
    double gap = -1;
    EXPECT_OK(oct_topology_create(&options, &topology));
    oct_status status = oct_topology_spectral_gap(topology, &gap);
    oct_topology_destroy(topology);
#ifndef OCT_HAVE_LAPACK
    if (n > 1) {
        check_failure(name, status, OCT_STATUS_UNSUPPORTED, "liblapacke-dev");
        skip();
    }
#endif
    EXPECT_OK(status);
    return gap;
}

static void expect_gap(const char *name, int n, const char *weights, double expected,
                       double error) {
    double gap = gap_of(name, n, weights, 1);
    if (!(fabs(gap - expected) <= error)) {
        fail_msg("%s, %d nodes: gap %.15g, expected %.15g", name, n, gap, expected);
    }
    if (n % 21 == 1 || n < 4) {
        print_message("%s, %d nodes: gap %.12g, expected %.12g\n", name, n, gap, expected);
    }
}

static void spectral_gaps(void **state) {
    (void)state;
    const double pi = 3.14159265358979323846;
    expect_gap("directed-ring", 1, NULL, 1, 0);
    expect_gap("directed-ring", 2, NULL, 1, 1e-9);
    for (int n = 3; n <= 64; n++) {
        expect_gap("directed-ring", n, NULL, 1 - cos(pi / n), 1e-9);
        /* The most negative eigenvalue, 1/3 + 2/3 cos, is never below -1/3. */
        double second = (1 + 2 * cos(2 * pi / n)) / 3,
               last = (1 + 2 * cos(2 * pi * (n / 2) / n)) / 3;
        expect_gap("ring", n, NULL, 1 - fmax(fabs(second), fabs(last)), 1e-9);
        expect_gap("complete", n, NULL, 1, 1e-9);
        expect_gap("base-k", n, NULL, 1, 1e-9);
        expect_gap("base-k:2", n, NULL, 1, 1e-9);
    }
    for (int n = 2; n <= 64; n *= 2) {
        expect_gap("one-peer-exponential", n, NULL, 1, 1e-9);
        int p = (int)lround(log2(n)); /* 1 - gap = (p - 1)/(p + 1) */
        expect_gap("exponential", n, NULL, 2.0 / (p + 1), 1e-9);
    }
    /* A star with metropolis weights: a leaf keeps (n-1)/n. */
    expect_gap("star", 9, "metropolis", 1.0 / 9, 1e-9);
    expect_gap("chain", 3, "metropolis", 1.0 / 3, 1e-9);
    /* 4x4: (1 + 2 cos(0) + 2 cos(pi/2)) / 5 = 3/5. */
    expect_gap("torus", 16, NULL, 0.4, 1e-9);
    /* Eigenvalues of the out-degree chain of three, [.5 1/3 0; .5 1/3 .5; 0 1/3 .5]: 1, 1/2, -1/6. */
    expect_gap("chain", 3, NULL, 0.5, 1e-9);
}

/* A graph that stays the same may be held as one likes; a held round of a changing one counts. */
static void held_gaps(void **state) {
    (void)state;
    assert_true(gap_of("directed-ring", 8, NULL, 5) == gap_of("directed-ring", 8, NULL, 1));
    double once = gap_of("one-peer-exponential", 6, NULL, 1);
    double twice = gap_of("one-peer-exponential", 6, NULL, 2);
    /* Hops commute, so W_3^2 W_2^2 W_1^2 = (W_3 W_2 W_1)^2. */
    double squared = 1 - (1 - once) * (1 - once);
    print_message("one-peer-exponential of 6: gap %.12g, held twice %.12g, expected %.12g\n", once,
                  twice, squared);
    assert_true(fabs(twice - squared) < 1e-9);
    double thousandfold = gap_of("one-peer-exponential", 6, NULL, 1000);
    assert_true(fabs(thousandfold - 1) < 1e-9);

    struct oct_topology *topology = NULL;
    double gap;
    EXPECT_OK(create("erdos-renyi:change=yes", 8, NULL, &topology));
    EXPECT_FAILURE(oct_topology_spectral_gap(topology, &gap), OCT_STATUS_UNSUPPORTED,
                   "never repeats");
    oct_topology_destroy(topology);
    EXPECT_OK(create("ring", 5000, NULL, &topology));
    EXPECT_FAILURE(oct_topology_spectral_gap(topology, &gap), OCT_STATUS_UNSUPPORTED, "5000 nodes");
    oct_topology_destroy(topology);
}

/* --- edge lists ------------------------------------------------------------------------------- */

static oct_status from_text(const char *text, size_t length, int n, const char *weights,
                            struct oct_topology **out) {
    char name[FOLDER_PATH + 8];
    file_write(folder_file(&folder, "graph.txt"), text, length);
    snprintf(name, sizeof name, "file:%s", folder.file);
    return create(name, n, weights, out);
}

static oct_status from_file(const char *text, int n, const char *weights,
                            struct oct_topology **out) {
    return from_text(text, strlen(text), n, weights, out);
}

static void reads_files(void **state) {
    (void)state;
    struct oct_topology *topology = NULL;
    const struct oct__mix *mix;
    EXPECT_OK(from_file("# a triangle\n\n0 1\n 1\t2 \r\n2 0 # last, without a newline", 3, NULL,
                        &topology));
    EXPECT_OK(oct__topology_mix(topology, 0, &mix));
    assert_int_equal(mix->n_edges, 3);
    assert_true(mix->self[1] == 0.5);
    assert_false(topology->info.is_undirected);
    assert_true(topology->info.is_doubly_stochastic);
    oct_topology_destroy(topology);

    EXPECT_OK(from_file("0 1 0.75\n1 0 1\n", 2, NULL, &topology));
    EXPECT_OK(oct__topology_mix(topology, 9, &mix));
    assert_true(mix->weight[0] == 1 && mix->weight[1] == 0.75); /* by receiver */
    assert_true(mix->self[0] == 0.25 && mix->self[1] == 0);
    assert_false(topology->info.is_doubly_stochastic);
    assert_true(topology->info.is_column_stochastic);
    oct_topology_destroy(topology);

    EXPECT_OK(from_file("0 1\n1 0\n1 2\n2 1\n", 3, "metropolis", &topology));
    assert_true(topology->info.is_doubly_stochastic && topology->info.is_undirected);
    oct_topology_destroy(topology);

    EXPECT_OK(from_file("", 1, NULL, &topology));
    oct_topology_destroy(topology);

    /* "path=", and a path with a comma, an equal sign and more than 64 characters. */
    char name[FOLDER_PATH + 16];
    const char *odd = "a,b=c-0123456789012345678901234567890123456789012345678901234567890123.txt";
    file_write(folder_file(&folder, odd), "0 1\n1 0\n", 8);
    snprintf(name, sizeof name, "file:path=%s", folder.file);
    EXPECT_OK(create(name, 2, NULL, &topology));
    oct_topology_destroy(topology);
    snprintf(name, sizeof name, "file:%s", folder.file);
    EXPECT_OK(create(name, 2, NULL, &topology));
    oct_topology_destroy(topology);
}

static void refuses_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *weights, *message;
    } wrong[] = {
        {"0 1\n1\n", NULL, "graph.txt:2: one word"},
        {"0 1\n1 0 0.5 x\n", NULL, "graph.txt:2: more than three words"},
        {"\n# x\n0 1\n1 2x\n", NULL,
         "graph.txt:4: to is '2x', expected a whole number from 0 to 2"},
        {"-1 0\n", NULL, "graph.txt:1: from is '-1'"},
        {"0 1\n1 3\n", NULL, "graph.txt:2: to is '3'"},
        {"0,1\n", NULL, "graph.txt:1: one word"},
        {"0 1\n2 2\n", NULL, "graph.txt:2: an edge from 2 to itself"},
        {"0 1\n1 2\n\n0 1\n2 0\n", NULL,
         "graph.txt:4: the edge from 0 to 1 stands already at line 1"},
        {"0 1 0.5\n1 2\n", NULL, "graph.txt:2: no weight"},
        {"0 1\n1 2 0.5\n", NULL, "graph.txt:2: a weight"},
        {"0 1 0\n", NULL, "graph.txt:1: weight is '0'"},
        {"0 1 1.5\n", NULL, "graph.txt:1: weight is '1.5'"},
        {"0 1 nan\n", NULL, "graph.txt:1: weight is 'nan'"},
        {"0 1 0,5\n", NULL, "graph.txt:1: weight is '0,5'"},
        {"0 1 0.7\n1 2 1\n0 2 0.4\n2 0 1\n", NULL, "graph.txt:3: here the weights from node 0"},
        {"0 1\n1 2\n", NULL, "node 1 cannot reach node 0"},
        {"1 0\n2 0\n0 1\n", NULL, "node 0 cannot reach node 2"},
        {"", NULL, "node 0 cannot reach node 1"},
        {"0 1\n1 2\n2 0\n", "metropolis", "there is 2 -> 0 without 0 -> 2"},
        {"0 1 1\n1 2 1\n2 0 1\n", "out-degree", "weights of its own"},
    };
    struct oct_topology *topology = NULL;
    for (size_t i = 0; i < OCT_COUNT_OF(wrong); i++) {
        oct_status status = from_file(wrong[i].text, 3, wrong[i].weights, &topology);
        check_failure("an edge list", status, OCT_STATUS_INVALID, wrong[i].message);
        assert_null(topology);
    }
    char line[400];
    memset(line, ' ', sizeof line);
    memcpy(line, "0 1\n", 4);
    check_failure("a long line", from_text(line, sizeof line, 3, NULL, &topology),
                  OCT_STATUS_INVALID, "graph.txt:2: the line has more than 255 characters");
    check_failure("a NUL", from_text("0 1\n1\0 2\n", 9, 3, NULL, &topology), OCT_STATUS_INVALID,
                  "graph.txt:2: the line");
    check_failure("a NUL", from_text("\0", 1, 3, NULL, &topology), OCT_STATUS_INVALID,
                  "graph.txt:1: the line");
    EXPECT_FAILURE(create("file", 3, NULL, &topology), OCT_STATUS_INVALID, "file:PATH");
    EXPECT_FAILURE(create("file:", 3, NULL, &topology), OCT_STATUS_INVALID, "file:PATH");
    EXPECT_FAILURE(create("file:path=", 3, NULL, &topology), OCT_STATUS_INVALID, "file:PATH");
    EXPECT_FAILURE(create("file:/no/such/file", 3, NULL, &topology), OCT_STATUS_NOT_FOUND,
                   "/no/such/file");
    EXPECT_FAILURE(create("file:/", 3, NULL, &topology), OCT_STATUS_IO, "/");
    char name[700] = "file:/";
    memset(name + 6, 'x', sizeof name - 7);
    EXPECT_FAILURE(create(name, 3, NULL, &topology), OCT_STATUS_IO, "xxx");
}

/* Damage at random: an error with file and line, or a graph; nothing else. */
static void survives_damage(void **state) {
    (void)state;
    struct dice dice = dice_of(11);
    const char *const whole = "# from to weight\n0 1 0.5\n1 2 0.25\n2 3 1\n3 0 0.125\n";
    static const char letters[] = "0123 \t\n#.-e,x\0";
    int n_read = 0, n_refused = 0;
    for (int trial = 0; trial < 500; trial++) {
        char text[64];
        size_t length = strlen(whole);
        memcpy(text, whole, length);
        for (int d = dice_below(&dice, 4); d >= 0; d--) {
            text[dice_below(&dice, (int)length)] = letters[dice_below(&dice, sizeof letters)];
        }
        length -= (size_t)dice_below(&dice, 3) * (size_t)dice_below(&dice, 16);
        struct oct_topology *topology = NULL;
        oct_status status = from_text(text, length, 4, NULL, &topology);
        if (status == OCT_OK) {
            assert_true(topology->info.is_column_stochastic);
            n_read++;
        } else {
            assert_int_equal(status, OCT_STATUS_INVALID);
            assert_non_null(strstr(oct_last_error(), "graph.txt"));
            n_refused++;
        }
        oct_topology_destroy(topology);
    }
    print_message("%d lists were read, %d refused\n", n_read, n_refused);
    assert_true(n_read > 5 && n_refused > 50);
}

/* --- many nodes ------------------------------------------------------------------------------- */

static void a_thousand_nodes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int n_edges;
    } big[] = {
        {"directed-ring", 1024}, {"torus", 4096},          {"complete", 1024 * 1023},
        {"exponential", 10240},  {"random-regular", 3072}, {"random-regular:degree=2", 2048},
        {"base-k", 10240},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(big); i++) {
        struct oct_topology *topology = NULL;
        EXPECT_OK(create(big[i].name, 1024, NULL, &topology));
        print_message("%s: %d edges\n", big[i].name, topology->info.n_edges);
        assert_int_equal(topology->info.n_edges, big[i].n_edges);
        oct_topology_destroy(topology);
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
        cmocka_unit_test(weights_by_hand), cmocka_unit_test(torus_of_two_rows),
        cmocka_unit_test(refusals),        cmocka_unit_test(random_degrees),
        cmocka_unit_test(random_density),  cmocka_unit_test(averages_in_a_period),
        cmocka_unit_test(spectral_gaps),   cmocka_unit_test(held_gaps),
        cmocka_unit_test(reads_files),     cmocka_unit_test(refuses_files),
        cmocka_unit_test(survives_damage), cmocka_unit_test(a_thousand_nodes),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
