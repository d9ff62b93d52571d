/* SPDX-License-Identifier: Apache-2.0 */
/* test_partition.c - who holds what: every sample once, nobody with none, the shares as asked for.
 *
 * What must hold for every partition goes over the registry; then the two kinds in detail, against
 * counts worked out by hand or by the definition.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/partition.h"
#include "data/sampler.h"
#include "support/check.h"

/* --- datasets --------------------------------------------------------------------------------- */

struct labels {
    int64_t n;
    int n_classes;
    int (*label)(int64_t index);
};

static int get_sample(void *context, int64_t index, uint8_t *image, int *label) {
    const struct labels *labels = context;
    *image = 0;
    *label = labels->label(index);
    return 0;
}

static struct oct_dataset *dataset_of(const struct labels *labels) {
    struct labels copy = *labels;
    struct oct_dataset_custom custom = {.name = "dots",
                                        .n_samples = labels->n,
                                        .height = 1,
                                        .width = 1,
                                        .channels = 1,
                                        .n_classes = labels->n_classes,
                                        .get = get_sample,
                                        .context = &copy};
    struct oct_dataset *dataset = NULL;
    EXPECT_OK(oct_dataset_create(&custom, &dataset));
    return dataset;
}

/* Ten classes in turn: 0, 3, 6, 9, 2, … */
static int in_turn(int64_t index) {
    return (int)(index * 3 % 10);
}

/* Of unequal size, and class 4 of 7 has no sample at all. */
static int uneven(int64_t index) {
    static const int pattern[] = {0, 1, 1, 2, 2, 2, 3, 6, 6, 5};
    return pattern[(index * index + index / 3) % 10];
}

/* Of two, the second of which has none. */
static int alone(int64_t index) {
    (void)index;
    return 0;
}

/* Class 0 has 100 samples, class 1 has 7, class 2 has 50. */
static int three(int64_t index) {
    return index < 100 ? 0 : index < 107 ? 1 : 2;
}

static struct oct_partition *deal(const struct oct_dataset *dataset, const char *name, int n_nodes,
                                  int64_t n_samples, uint64_t seed) {
    struct oct_partition_options options = {
        .name = name, .n_nodes = n_nodes, .n_samples = n_samples, .seed = seed};
    struct oct_partition *partition = NULL;
    EXPECT_OK(oct_partition_create(dataset, &options, &partition));
    return partition;
}

/* counts[node][class] */
static uint32_t *histogram(const struct oct_dataset *dataset,
                           const struct oct_partition *partition) {
    uint32_t *counts =
        calloc((size_t)partition->n_nodes * (size_t)dataset->n_classes, sizeof *counts);
    assert_non_null(counts);
    for (int node = 0; node < partition->n_nodes; node++) {
        const uint32_t *rows = oct_partition_rows(partition, node);
        for (int64_t i = 0; i < oct_partition_size(partition, node); i++) {
            counts[node * dataset->n_classes + oct_dataset_label(dataset, rows[i])]++;
        }
    }
    return counts;
}

/* --- what holds for all ------------------------------------------------------------------------ */

/* Every used sample exactly once, ascending in its node; no node empty; nothing but what
 * oct__subset keeps. */
static void check_whole(const struct oct_dataset *dataset, const struct oct_partition *partition,
                        const char *name, int64_t n_samples, uint64_t seed) {
    const uint32_t n = (uint32_t)dataset->n_samples;
    const uint32_t n_used = (uint32_t)(n_samples ? n_samples : dataset->n_samples);
    uint32_t *expected = calloc(n_used, sizeof *expected);
    uint8_t *seen = calloc(n, 1);
    assert_true(expected && seen);
    EXPECT_OK(oct__subset(seed, n, n_used, expected));
    int64_t total = 0;
    for (int node = 0; node < partition->n_nodes; node++) {
        int64_t size = oct_partition_size(partition, node);
        const uint32_t *rows = oct_partition_rows(partition, node);
        if (size < 1) {
            fail_msg("%s: node %d of %d has %lld samples", name, node, partition->n_nodes,
                     (long long)size);
        }
        for (int64_t i = 0; i < size; i++) {
            if (rows[i] >= n || (i > 0 && rows[i] <= rows[i - 1])) {
                fail_msg("%s: node %d has row %u at %lld, behind %u", name, node, rows[i],
                         (long long)i, i ? rows[i - 1] : 0);
            }
            seen[rows[i]]++;
        }
        total += size;
    }
    assert_int_equal(total, n_used);
    for (uint32_t i = 0; i < n_used; i++) {
        if (seen[expected[i]] != 1) {
            fail_msg("%s: row %u lies on %d nodes", name, expected[i], seen[expected[i]]);
        }
    }
    free(expected);
    free(seen);
}

static const char *const names[] = {
    "skew:0",      "skew:0.1",       "skew:0.29",      "skew:0.5",          "skew:0.8",
    "skew:0.999",  "skew:1",         "skew",           "dirichlet:0.001",   "dirichlet:0.1",
    "dirichlet:1", "dirichlet:1e-6", "dirichlet:1000", "dirichlet:1000000", "dirichlet",
};

static void every_sample_once(void **state) {
    (void)state;
    static const struct labels kinds[] = {
        {1000, 10, in_turn}, {157, 3, three}, {503, 7, uneven}, {64, 2, alone}};
    static const int nodes[] = {1, 2, 3, 8, 17, 64};
    int n_checked = 0;
    for (size_t k = 0; k < OCT_COUNT_OF(kinds); k++) {
        struct oct_dataset *dataset = dataset_of(&kinds[k]);
        for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
            for (size_t j = 0; j < OCT_COUNT_OF(nodes); j++) {
                for (int part = 0; part < 2; part++) {
                    int64_t n_samples = part ? kinds[k].n - 7 : 0;
                    if (nodes[j] > (n_samples ? n_samples : kinds[k].n)) {
                        continue;
                    }
                    struct oct_partition *partition =
                        deal(dataset, names[i], nodes[j], n_samples, 11);
                    check_whole(dataset, partition, names[i], n_samples, 11);
                    oct_partition_destroy(partition);
                    n_checked++;
                }
            }
        }
        oct_dataset_close(dataset);
    }
    print_message("%d partitions\n", n_checked);
}

/* The registry's rows all appear above. */
static void every_kind_is_tested(void **state) {
    (void)state;
    const struct oct_partition_kind *kind;
    int n = 0;
    for (; (kind = oct__partition_at(n)) != NULL; n++) {
        int found = 0;
        for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
            found |= strcmp(names[i], kind->plugin.name) == 0;
        }
        print_message("%s: %s\n", kind->plugin.name, kind->plugin.summary);
        assert_true(found);
        assert_true(kind->options_bytes <= OCT_PARTITION_OPTIONS);
        assert_non_null(kind->plugin.options);
    }
    assert_int_equal(n, 2);
    assert_null(oct__partition_at(-1));
}

/* One node holds all samples in the order of the dataset, so a run of one node is what it was. */
static void one_node_has_all(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    uint32_t expected[600];
    EXPECT_OK(oct__subset(4, 1000, 600, expected));
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        struct oct_partition *partition = deal(dataset, names[i], 1, 600, 4);
        assert_int_equal(oct_partition_size(partition, 0), 600);
        assert_memory_equal(oct_partition_rows(partition, 0), expected, sizeof expected);
        oct_partition_destroy(partition);
    }
    oct_dataset_close(dataset);
}

static int same_rows(const struct oct_partition *a, const struct oct_partition *b) {
    return a->n_nodes == b->n_nodes && a->n_rows == b->n_rows &&
           memcmp(a->rows, b->rows, a->n_rows * sizeof *a->rows) == 0 &&
           memcmp(a->start, b->start, ((size_t)a->n_nodes + 1) * sizeof *a->start) == 0;
}

static void seeds_decide(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        struct oct_partition *a = deal(dataset, names[i], 8, 0, 1);
        struct oct_partition *b = deal(dataset, names[i], 8, 0, 1);
        struct oct_partition *c = deal(dataset, names[i], 8, 0, 2);
        int by_chance = strcmp(names[i], "skew:1") != 0; /* there is nothing to shuffle */
        print_message("%s: again %d, other seed %d\n", names[i], same_rows(a, b), same_rows(a, c));
        assert_true(same_rows(a, b));
        assert_int_equal(same_rows(a, c), !by_chance);
        oct_partition_destroy(a);
        oct_partition_destroy(b);
        oct_partition_destroy(c);
    }
    oct_dataset_close(dataset);
}

static void refuses(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){50, 10, in_turn});
    static const struct {
        const char *name;
        int n_nodes;
        int64_t n_samples;
        oct_status status;
        const char *says;
    } cases[] = {
        {"skew:0.8", 51, 0, OCT_STATUS_INVALID,
         "nodes: 51, and only 50 samples; use at most 50 nodes, or more samples"},
        {"dirichlet:1", 21, 20, OCT_STATUS_INVALID, "nodes: 21, and only 20 samples"},
        {"skew:0.8", 8, 51, OCT_STATUS_INVALID, "samples: 51, but the training set has 50"},
        {"skew:0.8", 8, -1, OCT_STATUS_INVALID, "samples: -1"},
        {"skew:0.8", 0, 0, OCT_STATUS_INVALID, "0 nodes"},
        {"skew:1.01", 8, 0, OCT_STATUS_INVALID,
         "skew: share is '1.01', expected a number from 0 to 1"},
        {"skew:-0.1", 8, 0, OCT_STATUS_INVALID, "skew: share is '-0.1'"},
        {"skew:nan", 8, 0, OCT_STATUS_INVALID, "skew: share is 'nan'"},
        {"skew:0.8abc", 8, 0, OCT_STATUS_INVALID, "skew: share is '0.8abc'"},
        {"skew:0,8", 8, 0, OCT_STATUS_INVALID, "skew: '8' has no option name"},
        {"skew:", 8, 0, OCT_STATUS_INVALID, "skew: share has no value"},
        {"skew:alpha=1", 8, 0, OCT_STATUS_INVALID, "skew: no option 'alpha'; options: share"},
        {"dirichlet:0", 8, 0, OCT_STATUS_INVALID,
         "dirichlet: alpha is '0', expected a number from 1e-06 to 1e+06"},
        {"dirichlet:1e7", 8, 0, OCT_STATUS_INVALID, "dirichlet: alpha is '1e7'"},
        {"random", 8, 0, OCT_STATUS_NOT_FOUND,
         "partition 'random' is not known; there are skew, dirichlet"},
        {"", 8, 0, OCT_STATUS_INVALID, "partition: "},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_partition_options options = {
            .name = cases[i].name, .n_nodes = cases[i].n_nodes, .n_samples = cases[i].n_samples};
        struct oct_partition *partition = NULL;
        EXPECT_FAILURE(oct_partition_create(dataset, &options, &partition), cases[i].status,
                       cases[i].says);
        assert_null(partition);
    }
    struct oct_partition_options nameless = {.n_nodes = 1};
    struct oct_partition *partition = NULL;
    EXPECT_FAILURE(oct_partition_create(dataset, &nameless, &partition), OCT_STATUS_INVALID,
                   "the name is NULL");
    EXPECT_FAILURE(oct_partition_create(NULL, &nameless, &partition), OCT_STATUS_INVALID,
                   "the dataset is NULL");
    EXPECT_OK(oct__partition_check("skew:0.8"));
    EXPECT_OK(oct__partition_check("skew:share=1"));
    EXPECT_OK(oct__partition_check("dirichlet:0.1"));
    EXPECT_FAILURE(oct__partition_check("skew:2"), OCT_STATUS_INVALID, "from 0 to 1");
    EXPECT_FAILURE(oct__partition_check("skwe:1"), OCT_STATUS_NOT_FOUND, "skew, dirichlet");
    partition = deal(dataset, "skew:0.5", 2, 0, 1);
    assert_null(oct_partition_rows(partition, 2));
    assert_null(oct_partition_rows(partition, -1));
    assert_int_equal(oct_partition_size(partition, 2), 0);
    assert_int_equal(oct_partition_size(partition, -1), 0);
    oct_partition_destroy(partition);
    oct_partition_destroy(NULL);
    oct_dataset_close(dataset);
}

/* Each request for memory fails once, the next attempt succeeds. */
static void memory_runs_out(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){503, 7, uneven});
    static const char *const kinds[] = {"skew:0.5", "dirichlet:0.001"};
    for (size_t i = 0; i < OCT_COUNT_OF(kinds); i++) {
        int n_failed = 0;
        for (uint64_t n = 1;; n++) {
            struct oct_partition_options options = {.name = kinds[i], .n_nodes = 32, .seed = 1};
            struct oct_partition *partition = NULL;
            oct__alloc_fail_after(n);
            oct_status status = oct_partition_create(dataset, &options, &partition);
            oct__alloc_fail_after(0);
            if (status == OCT_OK) {
                oct_partition_destroy(partition);
                break;
            }
            assert_int_equal(status, OCT_STATUS_NO_MEMORY);
            assert_null(partition);
            n_failed++;
        }
        print_message("%s: %d requests\n", kinds[i], n_failed);
        assert_true(n_failed >= 10);
    }
    oct_dataset_close(dataset);
}

/* --- skew ---------------------------------------------------------------------------------------- */

/* floor(share * n) means the share that was typed, not the nearest double. */
static void shares_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t n;
        uint32_t n_sorted; /* floor(share * n), as a person would work it out */
    } cases[] = {
        {"skew:0.29", 100, 29},    {"skew:0.57", 100, 57},    {"skew:0.58", 100, 58},
        {"skew:0.1", 10, 1},       {"skew:0.7", 10, 7},       {"skew:0.3", 1000, 300},
        {"skew:0.299", 1000, 299}, {"skew:0.995", 1000, 995}, {"skew:0.9", 5000, 4500},
        {"skew:0.55", 20, 11},     {"skew:0.549", 20, 10},    {"skew:0.35", 20, 7},
        {"skew:0.15", 20, 3},      {"skew:1", 77, 77},        {"skew:0", 77, 0},
        {"skew:0.8", 6000, 4800},  {"skew:1e-9", 1000, 0},    {"skew:0.9979999999", 1000, 997},
        {"skew:0.07", 100, 7},     {"skew:0.14", 100, 14},    {"skew:0.28", 100, 28},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        /* As many nodes as samples: node k has one, of the sorted list while k < n_sorted. Behind it a
         * shuffled one may follow in order by chance, but not for every seed. */
        int64_t n = cases[i].n;
        struct oct_dataset *dataset = dataset_of(&(struct labels){n, 2, alone});
        uint32_t least = (uint32_t)n;
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct oct_partition *partition = deal(dataset, cases[i].name, (int)n, 0, seed);
            uint32_t in_order = 0;
            while (in_order < n && oct_partition_rows(partition, (int)in_order)[0] == in_order) {
                in_order++;
            }
            least = in_order < least ? in_order : least;
            oct_partition_destroy(partition);
        }
        print_message("%s of %lld: %u in order, expected %u\n", cases[i].name, (long long)n, least,
                      cases[i].n_sorted);
        assert_int_equal(least, cases[i].n_sorted);
        oct_dataset_close(dataset);
    }
}

static void print_counts(const char *name, const uint32_t *counts, int n_nodes, int n_classes) {
    print_message("%s\n", name);
    for (int node = 0; node < n_nodes; node++) {
        for (int c = 0; c < n_classes; c++) {
            print_message("%6u", counts[node * n_classes + c]);
        }
        print_message("\n");
    }
}

/* 10 classes of 100 on 5 nodes at 1: two whole classes each. */
static void own_classes_at_one(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    struct oct_partition *partition = deal(dataset, "skew:1", 5, 0, 1);
    uint32_t *counts = histogram(dataset, partition);
    print_counts("skew:1", counts, 5, 10);
    for (int node = 0; node < 5; node++) {
        for (int c = 0; c < 10; c++) {
            assert_int_equal(counts[node * 10 + c], c / 2 == node ? 100 : 0);
        }
    }
    free(counts);
    oct_partition_destroy(partition);
    /* The order within a class is the dataset's: with 20 nodes each class is cut in the middle. */
    partition = deal(dataset, "skew:1", 20, 0, 1);
    for (int node = 0; node < 20; node += 2) {
        const uint32_t *low = oct_partition_rows(partition, node);
        const uint32_t *high = oct_partition_rows(partition, node + 1);
        assert_int_equal(oct_partition_size(partition, node), 50);
        assert_int_equal(oct_dataset_label(dataset, low[0]), node / 2);
        assert_int_equal(oct_dataset_label(dataset, high[0]), node / 2);
        assert_true(low[49] < high[0]);
    }
    oct_partition_destroy(partition);
    oct_dataset_close(dataset);
}

/* At 0 each node's count of a class is about size / 10: 8 nodes of 1,250 samples have 125 with a
 * deviation of 10 (hypergeometric); 5 of those are never seen by chance. */
static void all_alike_at_zero(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){10000, 10, in_turn});
    struct oct_partition *partition = deal(dataset, "skew:0", 8, 0, 1);
    uint32_t *counts = histogram(dataset, partition);
    print_counts("skew:0", counts, 8, 10);
    double chi_square = 0;
    for (int i = 0; i < 80; i++) {
        assert_in_range(counts[i], 75, 175);
        chi_square += (counts[i] - 125.0) * (counts[i] - 125.0) / 125.0;
    }
    print_message("chi square %.1f, expected about 63\n", chi_square);
    assert_true(chi_square > 25 && chi_square < 120); /* 63 degrees of freedom */
    free(counts);
    oct_partition_destroy(partition);
    oct_dataset_close(dataset);
}

/* 0.8 on 8 nodes, 10 classes of 100: of the sorted list of 800 node i has 100 … 100 i + 99, that is
 * of classes of 80 each; the other 200 are mixed, 25 a node. */
static void sorted_part_as_defined(void **state) {
    (void)state;
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    struct oct_partition *partition = deal(dataset, "skew:0.8", 8, 0, 1);
    uint32_t *counts = histogram(dataset, partition);
    print_counts("skew:0.8", counts, 8, 10);
    for (int node = 0; node < 8; node++) {
        uint32_t at_least[10] = {0}, mixed = 0;
        for (int i = 100 * node; i < 100 * node + 100; i++) {
            at_least[i / 80]++;
        }
        for (int c = 0; c < 10; c++) {
            assert_true(counts[node * 10 + c] >= at_least[c]);
            mixed += counts[node * 10 + c] - at_least[c];
        }
        assert_int_equal(mixed, 25);
    }
    free(counts);
    oct_partition_destroy(partition);
    oct_dataset_close(dataset);
}

/* Whatever does not divide evenly: sizes differ by one at most, the larger ones first. */
static void sizes_are_even(void **state) {
    (void)state;
    struct dice dice = dice_of(1);
    for (int trial = 0; trial < 300; trial++) {
        int n = 1 + dice_below(&dice, 400), n_nodes = 1 + dice_below(&dice, n);
        char name[32];
        snprintf(name, sizeof name, "skew:0.%03d", dice_below(&dice, 1000));
        struct oct_dataset *dataset = dataset_of(&(struct labels){n, 10, in_turn});
        struct oct_partition *partition = deal(dataset, name, n_nodes, 0, (uint64_t)trial);
        for (int node = 0; node < n_nodes; node++) {
            int64_t expected = n / n_nodes + (node < n % n_nodes);
            if (oct_partition_size(partition, node) != expected) {
                fail_msg("%s, %d samples, node %d of %d: %lld, expected %lld", name, n, node,
                         n_nodes, (long long)oct_partition_size(partition, node),
                         (long long)expected);
            }
        }
        check_whole(dataset, partition, name, 0, (uint64_t)trial);
        oct_partition_destroy(partition);
        oct_dataset_close(dataset);
    }
}

/* --- Dirichlet ------------------------------------------------------------------------------------ */

/* The variance of a class's share on a node is p (1 - p) / (n alpha + 1), p = 1/n. Each row has
 * thousands of shares, so its estimate is good to a few per cent; heavy tails at small alpha are
 * why 15 are allowed. */
static void proportions_have_the_right_spread(void **state) {
    (void)state;
    enum { NODES = 8, CLASSES = 10, SEEDS = 60, SIZE = 1000 };
    static const struct {
        const char *name;
        double alpha;
    } cases[] = {{"dirichlet:0.1", 0.1}, {"dirichlet:0.5", 0.5}, {"dirichlet:1", 1},
                 {"dirichlet:3", 3},     {"dirichlet:100", 100}, {"dirichlet:0.01", 0.01}};
    struct oct_dataset *dataset = dataset_of(&(struct labels){CLASSES * SIZE, CLASSES, in_turn});
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        double sum = 0, squares = 0;
        int n = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct oct_partition *partition = deal(dataset, cases[i].name, NODES, 0, seed);
            uint32_t *counts = histogram(dataset, partition);
            for (int j = 0; j < NODES * CLASSES; j++, n++) {
                double share = counts[j] / (double)SIZE;
                sum += share;
                squares += share * share;
            }
            free(counts);
            oct_partition_destroy(partition);
        }
        double mean = sum / n, variance = squares / n - mean * mean;
        double expected = (1.0 / NODES) * (1 - 1.0 / NODES) / (NODES * cases[i].alpha + 1);
        print_message("%s: mean %.4f, variance %.6f, expected %.6f (%d shares)\n", cases[i].name,
                      mean, variance, expected, n);
        assert_true(fabs(mean - 1.0 / NODES) < 1e-9);
        assert_true(fabs(variance / expected - 1) < 0.15);
    }
    oct_dataset_close(dataset);
}

/* No node is preferred: over many seeds each has its 1/n. A test of the Gamma values being
 * independent of the node's number. */
static void nodes_are_equal_on_average(void **state) {
    (void)state;
    enum { NODES = 5, SEEDS = 400 };
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    double share[NODES] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct oct_partition *partition = deal(dataset, "dirichlet:1", NODES, 0, seed);
        for (int node = 0; node < NODES; node++) {
            share[node] += (double)oct_partition_size(partition, node) / (1000.0 * SEEDS);
        }
        oct_partition_destroy(partition);
    }
    for (int node = 0; node < NODES; node++) {
        print_message("node %d: %.4f of all samples\n", node, share[node]);
        /* deviation of one share 0.163, of the mean of 4,000: 0.0026 */
        assert_true(fabs(share[node] - 1.0 / NODES) < 0.013);
    }
    oct_dataset_close(dataset);
}

/* At 1e-6 a class lies on one node; nearly all nodes would be empty and each receives one sample
 * from whoever has most. */
static void empty_nodes_receive_one(void **state) {
    (void)state;
    enum { NODES = 50 };
    struct oct_dataset *dataset = dataset_of(&(struct labels){1000, 10, in_turn});
    struct oct_partition *partition = deal(dataset, "dirichlet:1e-6", NODES, 0, 5);
    check_whole(dataset, partition, "dirichlet:1e-6", 0, 5);
    int n_single = 0;
    int64_t largest = 0, smallest_large = 1000;
    for (int node = 0; node < NODES; node++) {
        int64_t size = oct_partition_size(partition, node);
        n_single += size == 1;
        largest = size > largest ? size : largest;
        smallest_large = size > 1 && size < smallest_large ? size : smallest_large;
    }
    print_message("%d nodes have one sample, the others %lld to %lld\n", n_single,
                  (long long)smallest_large, (long long)largest);
    assert_true(n_single >= NODES - 10 && n_single < NODES);
    oct_partition_destroy(partition);
    /* As many nodes as samples: one each, whatever was drawn. */
    partition = deal(dataset, "dirichlet:0.1", 1000, 0, 5);
    check_whole(dataset, partition, "dirichlet:0.1", 0, 5);
    for (int node = 0; node < 1000; node++) {
        assert_int_equal(oct_partition_size(partition, node), 1);
    }
    oct_partition_destroy(partition);
    oct_dataset_close(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_tested),
        cmocka_unit_test(every_sample_once),
        cmocka_unit_test(one_node_has_all),
        cmocka_unit_test(seeds_decide),
        cmocka_unit_test(refuses),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(shares_are_exact),
        cmocka_unit_test(own_classes_at_one),
        cmocka_unit_test(all_alike_at_zero),
        cmocka_unit_test(sorted_part_as_defined),
        cmocka_unit_test(sizes_are_even),
        cmocka_unit_test(proportions_have_the_right_spread),
        cmocka_unit_test(nodes_are_equal_on_average),
        cmocka_unit_test(empty_nodes_receive_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
