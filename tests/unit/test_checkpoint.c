/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint.c - src/train/checkpoint.c: state that survives to the bit, crashes and damage at
 * every stage.
 *
 * The run is made up: a few nodes whose rows hold bits named by (node, row, step).
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <octet/config.h>
#include <octet/cpu.h>
#include <octet/log.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/folder.h"
#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

/* --- a run ----------------------------------------------------------------------------------- */

static struct oct__param params[] = {
    {.name = "conv.weight", .n = 2, .h = 3, .w = 3, .c = 1, .n_dims = 4, .count = 18, .offset = 0},
    {.name = "conv.bias", .n = 1, .h = 1, .w = 1, .c = 5, .n_dims = 1, .count = 5, .offset = 32},
    {.name = "head.weight", .n = 3, .h = 1, .w = 1, .c = 2, .n_dims = 2, .count = 6, .offset = 48},
};
static struct oct__param stats[] = {
    {.name = "norm.mean", .n = 1, .h = 1, .w = 1, .c = 7, .n_dims = 1, .count = 7, .offset = 0},
};
static const struct oct__row param_row = {.items = params, .n_items = 3, .n_elements = 64};
static const struct oct__row stat_row = {.items = stats, .n_items = 1, .n_elements = 16};
static const struct oct__row empty_row = {.n_items = 0};

enum { NODES = 3, SHELVES = 6, ELEMENTS = 64 };

struct run {
    struct shelf {
        char name[32];
        const struct oct__row *row;
        float values[ELEMENTS];
    } shelves[NODES][SHELVES];
    int n_shelves[NODES];
    struct oct__counter counters[NODES + 3];
    struct oct_config *config;
    uint64_t step;
    int makes_edges; /* while loading, as a run does whose graph changes */
};

static char folder[SCRATCH_PATH];

static struct shelf *add_shelf(struct run *run, int node, const char *name,
                               const struct oct__row *row) {
    struct shelf *shelf = &run->shelves[node][run->n_shelves[node]++];
    assert_true(run->n_shelves[node] <= SHELVES);
    memset(shelf, 0, sizeof *shelf);
    snprintf(shelf->name, sizeof shelf->name, "%s", name);
    shelf->row = row;
    return shelf;
}

/* Each node has its own rows; one has a replica of an edge. */
static void run_init(struct run *run) {
    memset(run, 0, sizeof *run);
    EXPECT_OK(oct_config_create(&run->config));
    for (int node = 0; node < NODES; node++) {
        add_shelf(run, node, "x", &param_row);
        add_shelf(run, node, "momentum", &param_row);
        add_shelf(run, node, "nothing", &empty_row);
        add_shelf(run, node, "statistics", &stat_row);
    }
    add_shelf(run, 1, "edge.2", &param_row);
}

static void run_fini(struct run *run) {
    oct_config_destroy(run->config);
    run->config = NULL;
}

/* Any bits: NaNs with payloads and both zeros among them. */
static void run_fill(struct run *run, uint64_t step) {
    static const uint32_t odd[] = {0x80000000, 0x7fc12345, 0xff800001, 0x00000001, 0x7f800000, 0};
    run->step = step;
    for (int node = 0; node < NODES; node++) {
        for (int s = 0; s < run->n_shelves[node]; s++) {
            struct shelf *shelf = &run->shelves[node][s];
            struct oct__stream stream =
                oct__stream(step, OCT_PURPOSE_TEST, (uint32_t)node, 0, (uint32_t)s);
            memset(shelf->values, 0, sizeof shelf->values);
            for (size_t i = 0; i < shelf->row->n_items; i++) {
                for (size_t j = 0; j < shelf->row->items[i].count; j++) {
                    uint32_t words[4];
                    oct__stream_block(&stream, (uint32_t)(100 * i + j), words);
                    memcpy(&shelf->values[shelf->row->items[i].offset + j],
                           j < OCT_COUNT_OF(odd) ? &odd[j] : &words[0], 4);
                }
            }
        }
        snprintf(run->counters[node].name, 32, "weight.%05d", node);
        run->counters[node].value = 1.0 / (3.0 + node + (double)step);
    }
    const uint64_t payload = 0x7ff8000000abcdef;
    run->counters[NODES] = (struct oct__counter){"epoch_loss", (double)step * 0.1};
    run->counters[NODES + 1] = (struct oct__counter){"minus_nothing", -0.0};
    run->counters[NODES + 2] = (struct oct__counter){.name = "a_nan"};
    memcpy(&run->counters[NODES + 2].value, &payload, sizeof payload);
}

static int shelf_at(void *context, int node, int index, struct oct__shelf *out) {
    const struct run *run = context;
    if (index >= run->n_shelves[node]) {
        return 0;
    }
    memcpy(out->name, run->shelves[node][index].name, sizeof out->name);
    out->row = run->shelves[node][index].row;
    return 1;
}

static oct_status shelf_read(void *context, int node, int index, float *values) {
    const struct shelf *shelf = &((struct run *)context)->shelves[node][index];
    memcpy(values, shelf->values, shelf->row->n_elements * sizeof *values);
    return OCT_OK;
}

static struct shelf *shelf_find(struct run *run, int node, const char *name) {
    for (int i = 0; i < run->n_shelves[node]; i++) {
        if (strcmp(run->shelves[node][i].name, name) == 0) {
            return &run->shelves[node][i];
        }
    }
    return NULL;
}

static const struct oct__row *shelf_row(void *context, int node, const char *name) {
    struct run *run = context;
    const struct shelf *shelf = shelf_find(run, node, name);
    if (!shelf && run->makes_edges && strncmp(name, "edge.", 5) == 0) {
        return &param_row;
    }
    return shelf ? shelf->row : NULL;
}

static oct_status shelf_write(void *context, int node, const char *name, const struct oct__row *row,
                              const float *values) {
    struct run *run = context;
    struct shelf *shelf = shelf_find(run, node, name);
    if (!shelf) {
        shelf = add_shelf(run, node, name, row);
    }
    memcpy(shelf->values, values, row->n_elements * sizeof *values);
    return OCT_OK;
}

static struct oct__stock stock_of(struct run *run) {
    return (struct oct__stock){
        .config = run->config,
        .step = run->step,
        .n_nodes = NODES,
        .counters = run->counters,
        .n_counters = OCT_COUNT_OF(run->counters),
        .context = run,
        .shelf = shelf_at,
        .read = shelf_read,
        .write = shelf_write,
        .row = shelf_row,
    };
}

static oct_status save(struct run *run, uint64_t step) {
    run_fill(run, step);
    struct oct__stock stock = stock_of(run);
    return oct__checkpoint_save(folder, &stock);
}

/* Loads the newest and compares all of it with what a run has at that step. */
static uint64_t expect_state(void) {
    struct oct__manifest *manifest = NULL;
    EXPECT_OK(oct__manifest_open(folder, &manifest));
    struct run found, expected;
    run_init(&found);
    run_init(&expected);
    run_fill(&expected, manifest->step);
    for (int node = 0; node < NODES; node++) {
        for (int s = 0; s < found.n_shelves[node]; s++) {
            memset(found.shelves[node][s].values, 0xA5, sizeof found.shelves[node][s].values);
        }
    }
    struct oct__stock stock = stock_of(&found);
    EXPECT_OK(oct__checkpoint_load(manifest, &stock));
    for (int node = 0; node < NODES; node++) {
        assert_int_equal(found.n_shelves[node], expected.n_shelves[node]);
        for (int s = 0; s < found.n_shelves[node]; s++) {
            assert_memory_equal(found.shelves[node][s].values, expected.shelves[node][s].values,
                                found.shelves[node][s].row->n_elements * sizeof(float));
        }
    }
    for (size_t i = 0; i < OCT_COUNT_OF(expected.counters); i++) {
        double value = 0;
        EXPECT_OK(oct__manifest_counter(manifest, expected.counters[i].name, &value));
        assert_memory_equal(&value, &expected.counters[i].value, sizeof value);
    }
    uint64_t step = manifest->step;
    oct__manifest_close(manifest);
    run_fini(&found);
    run_fini(&expected);
    return step;
}

static const char *at_step(uint64_t step, const char *rest) {
    char name[96];
    snprintf(name, sizeof name, "step-%012llu%s", (unsigned long long)step, rest);
    return scratch_at(folder, name);
}

static int exists(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0;
}

static void start_over(void) {
    scratch_remove(folder);
    assert_non_null(scratch_make(folder));
}

/* --- what the library says ------------------------------------------------------------------- */

static char warning[512];
static int n_warnings;

static void hear(enum oct_log_level level, const char *text, void *context) {
    (void)context;
    if (level == OCT_LOG_WARNING) {
        snprintf(warning, sizeof warning, "%s", text);
        n_warnings++;
    }
}

static void forget_warnings(void) {
    warning[0] = '\0';
    n_warnings = 0;
}

/* --- what is right --------------------------------------------------------------------------- */

static void round_trip(void **state) {
    (void)state;
    struct run run;
    start_over();
    forget_warnings();
    run_init(&run);
    EXPECT_OK(oct_config_set(run.config, "seed", "7"));
    EXPECT_OK(save(&run, 1234));
    assert_int_equal(expect_state(), 1234);
    assert_int_equal(n_warnings, 0);
    assert_int_equal(scratch_count(folder), 1 + 1 + NODES); /* nothing else is left lying about */

    struct oct__manifest *manifest = NULL;
    double value;
    EXPECT_OK(oct__manifest_open(folder, &manifest));
    assert_string_equal(manifest->path, at_step(1234, ""));
    assert_int_equal(manifest->n_nodes, NODES);
    EXPECT_FAILURE(oct__manifest_counter(manifest, "no_such", &value), OCT_STATUS_NOT_FOUND,
                   "no_such");
    int n_set = 0;
    for (size_t i = 0; i < manifest->n_options; i++) {
        const struct oct__manifest_option *option = &manifest->options[i];
        n_set += option->is_set;
        assert_int_equal(option->is_set, strcmp(option->name, "seed") == 0);
        assert_string_equal(option->value,
                            option->is_set ? "7" : oct_option_find(option->name)->fallback);
    }
    print_message("%zu options, %d set; %zu counters\n", manifest->n_options, n_set,
                  manifest->n_counters);
    assert_int_equal(n_set, 1);
    oct__manifest_close(manifest);
    run_fini(&run);
}

/* A node's file is one that other tools read: SHELF/TENSOR with their shapes. */
static void the_file_itself(void **state) {
    (void)state;
    struct run run;
    start_over();
    run_init(&run);
    EXPECT_OK(save(&run, 5));
    size_t n;
    uint8_t *bytes = file_read(at_step(5, "/node-00001.safetensors"), &n);
    size_t n_header = bytes[0] | (size_t)bytes[1] << 8;
    print_message("%.*s\n", (int)n_header, (char *)bytes + 8);
    static struct oct__param all[] = {
        {.name = "x/conv.weight", .n = 2, .h = 3, .w = 3, .c = 1, .n_dims = 4, .count = 18},
        {.name = "x/conv.bias", .n = 1, .c = 5, .n_dims = 1, .count = 5, .offset = 18},
        {.name = "x/head.weight", .n = 3, .c = 2, .n_dims = 2, .count = 6, .offset = 23},
        {.name = "momentum/conv.weight",
         .n = 2,
         .h = 3,
         .w = 3,
         .c = 1,
         .n_dims = 4,
         .count = 18,
         .offset = 29},
        {.name = "momentum/conv.bias", .n = 1, .c = 5, .n_dims = 1, .count = 5, .offset = 47},
        {.name = "momentum/head.weight", .n = 3, .c = 2, .n_dims = 2, .count = 6, .offset = 52},
        {.name = "statistics/norm.mean", .c = 7, .n_dims = 1, .count = 7, .offset = 58},
        {.name = "edge.2/conv.weight",
         .n = 2,
         .h = 3,
         .w = 3,
         .c = 1,
         .n_dims = 4,
         .count = 18,
         .offset = 65},
        {.name = "edge.2/conv.bias", .n = 1, .c = 5, .n_dims = 1, .count = 5, .offset = 83},
        {.name = "edge.2/head.weight", .n = 3, .c = 2, .n_dims = 2, .count = 6, .offset = 88},
    };
    const struct oct__row row = {.items = all, .n_items = OCT_COUNT_OF(all), .n_elements = 94};
    float values[94];
    EXPECT_OK(oct__safetensors_parse("file", bytes, n, &row, values));
    assert_memory_equal(values + 58, run.shelves[1][3].values, 7 * sizeof(float));
    free(bytes);
    run_fini(&run);
}

static void two_are_kept(void **state) {
    (void)state;
    struct run run;
    start_over();
    run_init(&run);
    for (uint64_t step = 0; step <= 50; step += 10) {
        EXPECT_OK(save(&run, step));
        assert_int_equal(expect_state(), step);
    }
    assert_true(exists(at_step(50, "")) && exists(at_step(40, "")));
    assert_int_equal(scratch_count(folder), 2 * (1 + 1 + NODES));
    EXPECT_OK(save(&run, 1000000000000));
    EXPECT_OK(save(&run, 18446744073709551615U));
    assert_int_equal(expect_state(), 18446744073709551615U);
    assert_int_equal(scratch_count(folder), 2 * (1 + 1 + NODES));
    run_fini(&run);
}

/* The same step again: another state (rounds after the last epoch do that), the newer one counts. */
static void the_same_step_again(void **state) {
    (void)state;
    struct run run;
    start_over();
    run_init(&run);
    EXPECT_OK(save(&run, 10));
    EXPECT_OK(save(&run, 20));
    run_fill(&run, 20);
    run.shelves[2][0].values[3] = 77.0F;
    struct oct__stock stock = stock_of(&run);
    EXPECT_OK(oct__checkpoint_save(folder, &stock));
    struct oct__manifest *manifest = NULL;
    EXPECT_OK(oct__manifest_open(folder, &manifest));
    memset(run.shelves[2][0].values, 0, sizeof run.shelves[2][0].values);
    EXPECT_OK(oct__checkpoint_load(manifest, &stock));
    oct__manifest_close(manifest);
    print_message("found %g\n", (double)run.shelves[2][0].values[3]);
    assert_true(run.shelves[2][0].values[3] == 77.0F);
    assert_true(exists(at_step(10, "")));
    assert_int_equal(scratch_count(folder), 2 * (1 + 1 + NODES));
    run_fini(&run);
}

/* Replicas of edges that the new run has not made yet are made by its owner. */
static void rows_that_are_made(void **state) {
    (void)state;
    struct run run;
    start_over();
    run_init(&run);
    EXPECT_OK(save(&run, 3));
    struct oct__manifest *manifest = NULL;
    EXPECT_OK(oct__manifest_open(folder, &manifest));
    struct run other;
    run_init(&other);
    other.n_shelves[1] = 4;
    struct oct__stock stock = stock_of(&other);
    EXPECT_FAILURE(oct__checkpoint_load(manifest, &stock), OCT_STATUS_SHAPE,
                   "row edge.2 is not part of this run");
    other.makes_edges = 1;
    EXPECT_OK(oct__checkpoint_load(manifest, &stock));
    assert_int_equal(other.n_shelves[1], 5);
    assert_memory_equal(other.shelves[1][4].values, run.shelves[1][4].values,
                        sizeof run.shelves[1][4].values);
    oct__manifest_close(manifest);
    run_fini(&run);
    run_fini(&other);
}

/* --- damage ---------------------------------------------------------------------------------- */

static void two_checkpoints(struct run *run) {
    start_over();
    forget_warnings();
    run_init(run);
    EXPECT_OK(save(run, 10));
    EXPECT_OK(save(run, 20));
}

/* The newest is damaged: the one before it is used, and somebody is told. */
static void expect_fallback(const char *what, const char *piece) {
    forget_warnings();
    assert_int_equal(expect_state(), 10);
    print_message("%s: %s\n", what, n_warnings ? warning : "(nothing said)");
    assert_int_equal(n_warnings, 1);
    if (!strstr(warning, piece) || !strstr(warning, "going back to step 10")) {
        fail_msg("'%s' is not in '%s'", piece, warning);
    }
}

/* Where a kill can leave things. */
static void every_stage(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    char aside[2 * SCRATCH_PATH];
    snprintf(aside, sizeof aside, "%s", at_step(20, ".partial"));

    /* While it was written: whatever there is has the partial name. */
    assert_int_equal(rename(at_step(20, ""), aside), 0);
    forget_warnings();
    assert_int_equal(expect_state(), 10);
    assert_int_equal(n_warnings, 0);
    /* Its successor clears that away. */
    EXPECT_OK(save(&run, 15));
    assert_false(exists(aside));
    assert_int_equal(expect_state(), 15);

    /* Between the two renames of a replacement. */
    EXPECT_OK(save(&run, 20));
    assert_int_equal(rename(at_step(20, ""), at_step(20, ".old")), 0);
    assert_int_equal(mkdir(aside, 0777), 0);
    assert_int_equal(expect_state(), 20);
    EXPECT_OK(save(&run, 20));
    assert_int_equal(expect_state(), 20);
    assert_false(exists(at_step(20, ".old")) || exists(aside));

    /* Copied by hand, and not to the end: no manifest yet. */
    assert_int_equal(unlink(at_step(20, "/manifest")), 0);
    forget_warnings();
    assert_int_equal(expect_state(), 15);
    assert_int_equal(n_warnings, 0);
    EXPECT_OK(save(&run, 30));
    assert_false(exists(at_step(20, "")));
    assert_true(exists(at_step(15, "")));
    run_fini(&run);
}

static void every_cut_of_the_manifest(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    size_t n;
    uint8_t *bytes = file_read(at_step(20, "/manifest"), &n);
    for (size_t cut = 0; cut<n; cut += cut> 100 && cut + 100 < n ? 97 : 1) {
        file_write(at_step(20, "/manifest"), bytes, cut);
        forget_warnings();
        assert_int_equal(expect_state(), 10);
        assert_int_equal(n_warnings, 1);
        assert_non_null(strstr(warning, "step-000000000020/manifest"));
    }
    print_message("%zu bytes: %s\n", n, warning);
    bytes[n] = '\n';
    file_write(at_step(20, "/manifest"), bytes, n + 1);
    expect_fallback("one byte more", "manifest");
    file_write(at_step(20, "/manifest"), bytes, n);
    assert_int_equal(expect_state(), 20);
    free(bytes);
    run_fini(&run);
}

/* A bit of any file. */
static void every_file_altered(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    for (int f = 0; f <= NODES; f++) {
        char rest[64];
        snprintf(rest, sizeof rest, f < NODES ? "/node-%05d.safetensors" : "/manifest", f);
        size_t n;
        uint8_t *bytes = file_read(at_step(20, rest), &n);
        for (size_t bit = 3; bit < 8 * n; bit += 8 * n / 61) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            file_write(at_step(20, rest), bytes, n);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            forget_warnings();
            assert_int_equal(expect_state(), 10);
            assert_int_equal(n_warnings, 1);
            assert_non_null(strstr(warning, rest));
        }
        print_message("%s: %s\n", rest, warning);
        file_write(at_step(20, rest), bytes, n - 1);
        expect_fallback("a byte less", f < NODES ? "truncated or altered" : "last line is missing");
        file_write(at_step(20, rest), bytes, 0);
        expect_fallback("nothing left", rest);
        file_write(at_step(20, rest), bytes, n);
        assert_int_equal(expect_state(), 20);
        free(bytes);
    }
    run_fini(&run);
}

static void missing_swapped_and_extra(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    char zero[2 * SCRATCH_PATH], one[2 * SCRATCH_PATH], spare[2 * SCRATCH_PATH];
    snprintf(zero, sizeof zero, "%s", at_step(20, "/node-00000.safetensors"));
    snprintf(one, sizeof one, "%s", at_step(20, "/node-00001.safetensors"));
    snprintf(spare, sizeof spare, "%s", at_step(20, "/spare"));
    assert_int_equal(rename(zero, spare), 0);
    expect_fallback("a node missing", "node-00000.safetensors: is missing");
    assert_int_equal(mkdir(zero, 0777), 0);
    expect_fallback("a folder instead", "node-00000.safetensors: is no file");
    assert_int_equal(rmdir(zero), 0);
    assert_int_equal(mkfifo(zero, 0666), 0);
    expect_fallback("a pipe instead", "node-00000.safetensors: is no file");
    assert_int_equal(unlink(zero), 0);
    assert_int_equal(rename(one, zero), 0);
    assert_int_equal(rename(spare, one), 0);
    expect_fallback("nodes swapped", "node-0000");
    assert_int_equal(rename(zero, spare), 0);
    assert_int_equal(rename(one, zero), 0);
    assert_int_equal(rename(spare, one), 0);
    assert_int_equal(expect_state(), 20);

    /* What others put there is left alone. */
    assert_int_equal(scratch_write(at_step(20, "/notes"), "mine", 4), 0);
    assert_int_equal(scratch_write(scratch_at(folder, "step-7"), "mine", 4), 0);
    assert_int_equal(
        scratch_write(scratch_at(folder, "step-0000000000000000000000000000020"), "", 0), 0);
    forget_warnings();
    assert_int_equal(expect_state(), 20);
    assert_int_equal(n_warnings, 0);

    /* Another step's manifest, though all its sums are right. */
    assert_int_equal(rename(at_step(20, ""), at_step(21, "")), 0);
    expect_fallback("renamed", "it is of step 20");
    EXPECT_OK(save(&run, 30)); /* removes it, and keeps 10 */
    assert_true(exists(at_step(10, "")) && !exists(at_step(21, "")));
    run_fini(&run);
}

/* What cannot be opened now may be whole: nobody goes back for it, writes before it or removes it. */
static void not_to_be_opened(void **state) {
    (void)state;
    static const char *const names[] = {"manifest", "node-00001.safetensors"};
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        struct run run;
        struct oct__manifest *manifest = NULL;
        char file[2 * SCRATCH_PATH], spare[2 * SCRATCH_PATH], end[64];
        two_checkpoints(&run);
        snprintf(end, sizeof end, "/%s", names[i]);
        snprintf(file, sizeof file, "%s", at_step(20, end));
        snprintf(spare, sizeof spare, "%s", at_step(20, "/spare"));
        assert_int_equal(rename(file, spare), 0);
        assert_int_equal(symlink(file, file), 0); /* open says ELOOP, also to root */
        EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_IO, names[i]);
        EXPECT_FAILURE(oct__checkpoint_prepare(folder, 10), OCT_STATUS_IO, names[i]);
        EXPECT_OK(save(&run, 30)); /* keeps it rather than 10 */
        assert_true(exists(at_step(20, "")) && !exists(at_step(10, "")));
        assert_int_equal(unlink(file), 0);
        assert_int_equal(rename(spare, file), 0);
        assert_int_equal(oct__folder_remove(at_step(30, "")), 0);
        forget_warnings();
        assert_int_equal(expect_state(), 20);
        assert_int_equal(n_warnings, 0);
        run_fini(&run);
    }
}

static void nothing_usable(void **state) {
    (void)state;
    struct run run;
    struct oct__manifest *manifest = NULL;
    two_checkpoints(&run);
    for (uint64_t step = 10; step <= 20; step += 10) {
        assert_int_equal(truncate(at_step(step, "/manifest"), 40), 0);
    }
    EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_CORRUPT,
                   "step-000000000020/manifest: its last line is missing");
    EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_CORRUPT, "start the run anew");
    start_over();
    EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_NOT_FOUND, "it is empty");
    assert_int_equal(mkdir(at_step(5, ".partial"), 0777), 0);
    EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_NOT_FOUND,
                   "of 1 checkpoint none was finished");
    assert_int_equal(rmdir(at_step(5, ".partial")), 0);
    assert_int_equal(scratch_write(scratch_at(folder, "letter"), "", 0), 0);
    EXPECT_FAILURE(oct__manifest_open(folder, &manifest), OCT_STATUS_NOT_FOUND,
                   "though other files are");
    EXPECT_FAILURE(oct__manifest_open(scratch_at(folder, "letter"), &manifest),
                   OCT_STATUS_NOT_FOUND, "no such folder");
    EXPECT_FAILURE(oct__manifest_open(scratch_at(folder, "elsewhere"), &manifest),
                   OCT_STATUS_NOT_FOUND, "option checkpoint");
    run_fini(&run);
}

/* Killed at any moment, many times over. */
static void killed(void **state) {
    (void)state;
    struct run run;
    start_over();
    run_init(&run);
    double seconds = oct__seconds();
    EXPECT_OK(save(&run, 1));
    seconds = oct__seconds() - seconds; /* disks differ: a few times as long as one takes */
    struct dice dice = dice_of(11);
    uint64_t step = 1;
    int n_further = 0;
    for (int round = 0; round < 20; round++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            uint64_t next = step + 1;
            while (save(&run, next) == OCT_OK) {
                next++;
            }
            _exit(1);
        }
        const double wait_s = seconds * 4e-4 * dice_below(&dice, 10000);
        const struct timespec wait = {(time_t)wait_s, (long)(1e9 * (wait_s - floor(wait_s)))};
        nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        forget_warnings();
        uint64_t found = expect_state();
        assert_int_equal(n_warnings, 0); /* nothing half-written has a finished one's name */
        assert_true(found >= step);
        n_further += found > step;
        seconds *= found > step ? 1.0 : 1.25; /* … or busier than they were */
        step = found;
    }
    print_message("20 kills: %d left a newer checkpoint, the last is of step %llu\n", n_further,
                  (unsigned long long)step);
    assert_true(n_further > 0);
    EXPECT_OK(save(&run, step + 1));
    assert_true(scratch_count(folder) <= 2 * (1 + 1 + NODES));
    run_fini(&run);
}

/* --- writing that fails ---------------------------------------------------------------------- */

/* In a process of its own: files end after `most` bytes, as on a disk that runs full. */
static int save_within(struct run *run, rlim_t most) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {most, most};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(2);
        }
        oct_status status = save(run, 30);
        _exit(status == OCT_STATUS_IO && strstr(oct_last_error(), "File too large") &&
                      strstr(oct_last_error(), "make room")
                  ? 0
                  : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_disk_that_runs_full(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    size_t n_node, n_manifest;
    free(file_read(at_step(20, "/node-00001.safetensors"), &n_node));
    free(file_read(at_step(20, "/manifest"), &n_manifest));
    const size_t limits[] = {0, 1, 8, 500, n_node - 1, n_node, n_manifest - 1};
    for (size_t i = 0; i < OCT_COUNT_OF(limits); i++) {
        if (limits[i] >= n_node && limits[i] >= n_manifest) {
            continue; /* enough for all of it */
        }
        int code = save_within(&run, (rlim_t)limits[i]);
        print_message("room for %zu bytes a file: %d, %d entries\n", limits[i], code,
                      scratch_count(folder));
        assert_int_equal(code, 0);
        assert_int_equal(scratch_count(folder), 2 * (1 + 1 + NODES));
        assert_int_equal(expect_state(), 20);
    }
    EXPECT_OK(save(&run, 30));
    assert_int_equal(expect_state(), 30);
    run_fini(&run);
}

static void things_in_the_way(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    assert_int_equal(scratch_write(at_step(30, ""), "a file", 6), 0);
    EXPECT_FAILURE(save(&run, 30), OCT_STATUS_IO, "is in the way of a checkpoint");
    assert_int_equal(expect_state(), 20);
    assert_true(exists(at_step(30, "")));
    assert_int_equal(unlink(at_step(30, "")), 0);

    const struct oct__stock stock = stock_of(&run);
    assert_int_equal(scratch_write(scratch_at(folder, "file"), "", 0), 0);
    EXPECT_FAILURE(oct__checkpoint_save(scratch_at(folder, "file"), &stock), OCT_STATUS_IO,
                   "making the folder");
    EXPECT_FAILURE(oct__checkpoint_save(scratch_at(folder, "file/below"), &stock), OCT_STATUS_IO,
                   "making the folder");
    EXPECT_FAILURE(oct__checkpoint_save("/proc/octet", &stock), OCT_STATUS_IO,
                   "/proc/octet: making the folder");
    EXPECT_FAILURE(oct__checkpoint_save("", &stock), OCT_STATUS_INVALID, "empty");
    EXPECT_OK(oct__checkpoint_save(scratch_at(folder, "new/and/deep"), &stock));
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(chmod(folder, 0555), 0);
        EXPECT_FAILURE(save(&run, 30), OCT_STATUS_IO, "cannot be written");
        assert_int_equal(chmod(folder, 0755), 0);
    }
    assert_int_equal(expect_state(), 20);
    run_fini(&run);
}

/* A later checkpoint is another run's; one that nobody can use is not in the way. */
static void a_later_one(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    EXPECT_FAILURE(oct__checkpoint_prepare(folder, 0), OCT_STATUS_INVALID,
                   "has a checkpoint of step 20, and this run is at step 0");
    EXPECT_FAILURE(save(&run, 19), OCT_STATUS_INVALID, "--resume");
    assert_int_equal(expect_state(), 20);
    EXPECT_OK(oct__checkpoint_prepare(folder, 20));
    assert_int_equal(truncate(at_step(20, "/node-00002.safetensors"), 9), 0);
    EXPECT_OK(oct__checkpoint_prepare(folder, 10));
    EXPECT_OK(save(&run, 12));
    expect_state();
    EXPECT_OK(save(&run, 20)); /* in its place */
    forget_warnings();
    assert_int_equal(expect_state(), 20);
    assert_int_equal(n_warnings, 0);
    run_fini(&run);
}

/* Each request for memory fails in its turn. */
static void no_memory(void **state) {
    (void)state;
    struct run run;
    two_checkpoints(&run);
    run_fill(&run, 30);
    struct oct__stock stock = stock_of(&run);
    int n = 1;
    for (;; n++) {
        oct__alloc_fail_after((uint64_t)n);
        oct_status status = oct__checkpoint_save(folder, &stock);
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_int_equal(scratch_count(folder), 2 * (1 + 1 + NODES));
        assert_int_equal(expect_state(), 20);
    }
    print_message("%d requests while saving\n", n);
    assert_true(n > 8);
    assert_int_equal(expect_state(), 30);
    for (n = 1;; n++) {
        struct oct__manifest *manifest = NULL;
        oct__alloc_fail_after((uint64_t)n);
        oct_status status = oct__manifest_open(folder, &manifest);
        if (status == OCT_OK) {
            status = oct__checkpoint_load(manifest, &stock);
        }
        oct__alloc_fail_after(0);
        oct__manifest_close(manifest);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
    }
    print_message("%d requests while loading\n", n);
    assert_true(n > 8);
    run_fini(&run);
}

/* --- files of another run -------------------------------------------------------------------- */

static void another_model(void **state) {
    (void)state;
    struct run run, other;
    start_over();
    run_init(&run);
    EXPECT_OK(save(&run, 3));
    struct oct__manifest *manifest = NULL;
    EXPECT_OK(oct__manifest_open(folder, &manifest));
    run_init(&other);
    struct oct__stock stock = stock_of(&other);
    stock.n_nodes = 2;
    EXPECT_FAILURE(oct__checkpoint_load(manifest, &stock), OCT_STATUS_INVALID, "it has 3 nodes");
    stock.n_nodes = NODES;
    add_shelf(&other, 2, "error", &param_row);
    EXPECT_FAILURE(oct__checkpoint_load(manifest, &stock), OCT_STATUS_SHAPE,
                   "node-00002.safetensors: row error is missing");
    other.n_shelves[2]--;
    other.shelves[0][1].row = &stat_row;
    EXPECT_FAILURE(oct__checkpoint_load(manifest, &stock), OCT_STATUS_SHAPE,
                   "tensor momentum/conv.weight where momentum/norm.mean belongs");
    other.shelves[0][1].row = &param_row;
    struct oct__param wider[3];
    memcpy(wider, params, sizeof wider);
    wider[1].c = wider[1].count = 6;
    const struct oct__row wider_row = {.items = wider, .n_items = 3, .n_elements = 64};
    other.shelves[1][0].row = &wider_row;
    EXPECT_FAILURE(oct__checkpoint_load(manifest, &stock), OCT_STATUS_SHAPE,
                   "tensor x/conv.bias is not F32 with the shape");
    other.shelves[1][0].row = &param_row;
    EXPECT_OK(oct__checkpoint_load(manifest, &stock));
    oct__manifest_close(manifest);
    run_fini(&run);
    run_fini(&other);
}

/* --- sums ------------------------------------------------------------------------------------ */

/* The processor's own instructions and plain C agree, whole blocks and pieces of them. */
static void sums_at_every_level(void **state) {
    (void)state;
    static uint8_t bytes[5000];
    char fast[OCT_SHA256_TEXT], plain[OCT_SHA256_TEXT];
    const char *level = oct_cpu_level_name(oct_cpu_level());
    struct dice dice = dice_of(3);
    scratch_fill(bytes, sizeof bytes, 9);
    for (int i = 0; i < 300; i++) {
        size_t begin = (size_t)dice_below(&dice, 70), n = (size_t)dice_below(&dice, 4900);
        EXPECT_OK(oct_cpu_limit(level));
        struct oct__sha256 sha;
        oct__sha256_init(&sha);
        for (size_t at = 0; at < n;) {
            size_t take = (size_t)dice_below(&dice, 400);
            take = take < n - at ? take : n - at;
            oct__sha256_add(&sha, bytes + begin + at, take);
            at += take;
        }
        oct__sha256_text(&sha, fast);
        EXPECT_OK(oct_cpu_limit("ref"));
        scratch_sha256(bytes + begin, n, plain);
        assert_string_equal(fast, plain);
    }
    EXPECT_OK(oct_cpu_limit(level));
    print_message("300 sums at level %s are those of plain C; the last is %s\n", level, plain);
}

static int set_up(void **state) {
    (void)state;
    oct_log_set(hear, NULL, OCT_LOG_WARNING);
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct_log_set(NULL, NULL, OCT_LOG_WARNING);
    scratch_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(the_file_itself),
        cmocka_unit_test(two_are_kept),
        cmocka_unit_test(the_same_step_again),
        cmocka_unit_test(rows_that_are_made),
        cmocka_unit_test(every_stage),
        cmocka_unit_test(every_cut_of_the_manifest),
        cmocka_unit_test(every_file_altered),
        cmocka_unit_test(missing_swapped_and_extra),
        cmocka_unit_test(not_to_be_opened),
        cmocka_unit_test(nothing_usable),
        cmocka_unit_test(killed),
        cmocka_unit_test(a_disk_that_runs_full),
        cmocka_unit_test(things_in_the_way),
        cmocka_unit_test(a_later_one),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(another_model),
        cmocka_unit_test(sums_at_every_level),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
