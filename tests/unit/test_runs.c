/* SPDX-License-Identifier: Apache-2.0 */
/* test_runs.c - src/store/runs.c: what is recorded comes back; files that are not ours, or not
 * there, or locked, are refused in words. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <octet/octet.h>
#include <octet/runs.h>

#include "base/alloc.h"
#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"

#ifdef OCT_HAVE_SQLITE

#include <sqlite3.h>

static char folder[SCRATCH_PATH];

static struct oct_config *config_of(const char *const *pairs) {
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    for (; pairs[0]; pairs += 2) {
        EXPECT_OK(oct_config_set(config, pairs[0], pairs[1]));
    }
    return config;
}

static struct oct_runs *open_runs(const char *name) {
    struct oct_runs *runs = NULL;
    EXPECT_OK(oct_runs_open(scratch_at(folder, name), &runs));
    return runs;
}

static int64_t begin(struct oct_runs *runs, const char *const *pairs) {
    struct oct_config *config = config_of(pairs);
    int64_t run = 0;
    EXPECT_OK(oct_runs_begin(runs, config, NULL, &run));
    oct_config_destroy(config);
    return run;
}

static struct oct_progress epoch_of(int epoch) {
    return (struct oct_progress){
        .phase = OCT_PHASE_EPOCH_END,
        .epoch = epoch,
        .n_epochs = 5,
        .step = 100 * epoch,
        .loss = 2.0 / epoch,
        .accuracy = 10.0 * epoch,
        .learning_rate = 0.1,
        .samples_per_s = 1000.0 + epoch,
        .seconds = 7.0 * epoch,
        .test_loss = 3.0 / epoch,
        .test_accuracy = 11.0 * epoch,
        .consensus_distance = 1e-3 / epoch,
        .bytes_sent = 1000U * (unsigned)epoch,
    };
}

static const struct oct_result a_result = {
    .accuracy = 81.25,
    .accuracy_nodes = 80.5,
    .accuracy_least = 79.0,
    .accuracy_most = 82.0,
    .nodes_tested = 8,
    .loss = 0.5,
    .train_loss = 0.25,
    .consensus_distance = 1e-4,
    .bytes_sent = 123456789012345,
    .bytes_final = 17,
    .bytes_dense = 98765,
    .messages = 800,
    .samples_per_s = 1234.5,
    .seconds = 99.5,
    .epochs = 5,
    .n_parameters = 272474,
    .workspace_bytes = 1 << 20,
    .state_bytes = 1 << 24,
    .model_sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
};

/* --- what is recorded comes back ------------------------------------------------------------- */

static void a_run(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("new/folders/runs.db");
    struct oct_run run;
    EXPECT_FAILURE(oct_runs_at(runs, 0, &run), OCT_STATUS_NOT_FOUND, "no more than 0 runs");
    EXPECT_FAILURE(oct_runs_find(runs, 1, &run), OCT_STATUS_NOT_FOUND, "it has none yet");
    int64_t before = (int64_t)time(NULL);
    int64_t number = begin(runs, (const char *const[]){"epochs", "5", "lr", "0.5", "data-dir", "/d",
                                                       "checkpoint", "here", "seed", "3", NULL});
    assert_int_equal(number, 1);

    EXPECT_OK(oct_runs_at(runs, 0, &run));
    assert_int_equal(run.number, 1);
    assert_string_equal(run.outcome, "running");
    assert_string_equal(run.version, oct_version());
    assert_string_equal(run.options, "--data-dir /d --epochs 5 --lr 0.5 --seed 3");
    assert_true(run.started >= before && run.started <= (int64_t)time(NULL));
    assert_int_equal(run.epochs, 0);
    assert_int_equal(run.n_epochs, 5);
    assert_int_equal(run.has_result, 0);
    assert_true(isnan(run.accuracy) && isnan(run.loss) && isnan(run.seconds));
    assert_null(run.model_sha256);

    /* While it runs, its last epoch says how it stands. */
    for (int epoch = 1; epoch <= 3; epoch++) {
        struct oct_progress progress = epoch_of(epoch);
        EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    }
    EXPECT_OK(oct_runs_find(runs, 1, &run));
    print_message("run %lld: %s, %d/%d epochs, %g %%, %llu bytes\n", (long long)run.number,
                  run.outcome, run.epochs, run.n_epochs, run.accuracy,
                  (unsigned long long)run.bytes_sent);
    assert_int_equal(run.has_result, 1);
    assert_int_equal(run.epochs, 3);
    assert_true(run.accuracy == 33.0 && run.loss == 1.0 && run.seconds == 21.0);
    assert_true(isnan(run.accuracy_nodes));
    assert_int_equal(run.bytes_sent, 3000);
    assert_null(run.model_sha256);

    EXPECT_OK(oct_runs_end(runs, number, "done", &a_result, NULL));
    oct_runs_close(runs);

    runs = open_runs("new/folders/runs.db"); /* and again, from the file */
    EXPECT_OK(oct_runs_find(runs, 1, &run));
    assert_string_equal(run.outcome, "done");
    assert_int_equal(run.epochs, 5);
    assert_true(run.accuracy == 81.25 && run.accuracy_nodes == 80.5 && run.loss == 0.5);
    assert_true(run.accuracy_least == 79.0 && run.accuracy_most == 82.0);
    assert_true(run.train_loss == 0.25 && run.consensus_distance == 1e-4);
    assert_true(run.samples_per_s == 1234.5 && run.seconds == 99.5);
    assert_int_equal(run.bytes_sent, 123456789012345);
    assert_int_equal(run.bytes_final, 17);
    assert_int_equal(run.bytes_dense, 98765);
    assert_int_equal(run.n_parameters, 272474);
    assert_string_equal(run.model_sha256, a_result.model_sha256);

    struct oct_run_epoch epoch;
    for (int i = 0; i < 3; i++) {
        struct oct_progress p = epoch_of(i + 1);
        EXPECT_OK(oct_runs_epoch_at(runs, 1, i, &epoch));
        assert_int_equal(epoch.epoch, i + 1);
        assert_true(epoch.train_loss == p.loss && epoch.train_accuracy == p.accuracy);
        assert_true(epoch.loss == p.test_loss && epoch.accuracy == p.test_accuracy);
        assert_true(epoch.consensus_distance == p.consensus_distance);
        assert_true(epoch.learning_rate == p.learning_rate && epoch.seconds == p.seconds);
        assert_true(epoch.samples_per_s == p.samples_per_s);
        assert_int_equal(epoch.bytes_sent, p.bytes_sent);
    }
    EXPECT_FAILURE(oct_runs_epoch_at(runs, 1, 3, &epoch), OCT_STATUS_NOT_FOUND,
                   "no more than 3 epochs");
    EXPECT_FAILURE(oct_runs_epoch_at(runs, 1, -1, &epoch), OCT_STATUS_NOT_FOUND, "epochs");
    oct_runs_close(runs);
}

/* All options, those left to their defaults too, in the table's order. */
static void options_in_force(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("options.db");
    int64_t number =
        begin(runs, (const char *const[]){"precision", "fp32", "db", "it's a\n\"file\"", NULL});
    const char *name, *value;
    int is_set, i = 0;
    for (; oct_runs_option_at(runs, number, i, &name, &value, &is_set) == OCT_OK; i++) {
        assert_string_equal(name, oct_option_at(i)->name);
        int is_given = strcmp(name, "precision") == 0 || strcmp(name, "db") == 0;
        assert_int_equal(is_set, is_given);
        if (strcmp(name, "db") == 0) {
            assert_string_equal(value, "it's a\n\"file\"");
        } else if (strcmp(name, "norm") == 0) {
            assert_string_equal(value, "evonorm-s0"); /* what it came to */
        } else if (strcmp(name, "momentum") == 0) {
            assert_string_equal(value, "qgm"); /* likewise */
        } else if (strcmp(name, "gamma") == 0) {
            assert_string_equal(value, "1");
        } else if (!is_given) {
            assert_string_equal(value, oct_option_at(i)->fallback);
        }
    }
    print_message("%d options\n", i);
    assert_null(oct_option_at(i));
    assert_non_null(oct_option_at(i - 1));
    EXPECT_FAILURE(oct_runs_option_at(runs, number, i, &name, &value, NULL), OCT_STATUS_NOT_FOUND,
                   "options");
    EXPECT_FAILURE(oct_runs_option_at(runs, 77, 0, &name, &value, NULL), OCT_STATUS_NOT_FOUND,
                   "run 77");
    oct_runs_close(runs);
}

static void several_runs(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("several.db");
    struct oct_run run;
    for (int i = 1; i <= 5; i++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", i);
        assert_int_equal(begin(runs, (const char *const[]){"seed", seed, NULL}), i);
    }
    EXPECT_OK(oct_runs_end(runs, 2, "stopped", &a_result, NULL));
    EXPECT_OK(oct_runs_end(runs, 3, "NOT_FINITE: step 7", NULL, NULL));
    static const char *const outcomes[] = {"running", "running", "NOT_FINITE: step 7", "stopped",
                                           "running"};
    for (int i = 0; i < 5; i++) {
        EXPECT_OK(oct_runs_at(runs, i, &run));
        print_message("%lld %s %s\n", (long long)run.number, run.outcome, run.options);
        assert_int_equal(run.number, 5 - i);
        assert_string_equal(run.outcome, outcomes[i]);
        assert_int_equal(run.has_result, run.number == 2);
    }
    EXPECT_FAILURE(oct_runs_at(runs, 5, &run), OCT_STATUS_NOT_FOUND, "runs");
    EXPECT_FAILURE(oct_runs_at(runs, -1, &run), OCT_STATUS_NOT_FOUND, "runs");
    EXPECT_FAILURE(oct_runs_find(runs, 6, &run), OCT_STATUS_NOT_FOUND,
                   "there is no run 6; there are runs 1 to 5 (octet runs lists them)");
    EXPECT_FAILURE(oct_runs_end(runs, 6, "done", NULL, NULL), OCT_STATUS_NOT_FOUND, "no run 6");
    struct oct_progress progress = epoch_of(1);
    EXPECT_FAILURE(oct_runs_epoch(runs, 6, &progress, NULL), OCT_STATUS_NOT_FOUND, "no such run");
    oct_runs_close(runs);
}

/* Numbers that SQL does not know, and numbers too large for it. */
static void odd_numbers(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("odd.db");
    int64_t number = begin(runs, (const char *const[]){NULL});
    struct oct_progress progress = epoch_of(1);
    progress.loss = INFINITY;
    progress.test_loss = NAN;
    progress.accuracy = -0.0;
    progress.bytes_sent = UINT64_MAX;
    EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    progress.test_accuracy = 55.5; /* the same epoch again takes its place */
    EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    struct oct_run_epoch epoch;
    EXPECT_OK(oct_runs_epoch_at(runs, number, 0, &epoch));
    print_message("%g %g %g %g %llu\n", epoch.train_loss, epoch.loss, epoch.train_accuracy,
                  epoch.accuracy, (unsigned long long)epoch.bytes_sent);
    assert_true(isnan(epoch.train_loss) && isnan(epoch.loss) && epoch.train_accuracy == 0);
    assert_true(epoch.accuracy == 55.5);
    assert_int_equal(epoch.bytes_sent, INT64_MAX);
    EXPECT_FAILURE(oct_runs_epoch_at(runs, number, 1, &epoch), OCT_STATUS_NOT_FOUND, "1 epochs");
    oct_runs_close(runs);
}

static void nothing_given(void **state) {
    (void)state;
    struct oct_runs *runs = NULL;
    int64_t run;
    EXPECT_FAILURE(oct_runs_open(NULL, &runs), OCT_STATUS_INVALID, "path");
    EXPECT_FAILURE(oct_runs_open("", &runs), OCT_STATUS_INVALID, "path");
    EXPECT_FAILURE(oct_runs_begin(NULL, NULL, NULL, &run), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_epoch(NULL, 1, NULL, NULL), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_end(NULL, 1, "done", NULL, NULL), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_at(NULL, 0, NULL), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_find(NULL, 0, NULL), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_epoch_at(NULL, 0, 0, NULL), OCT_STATUS_INVALID, "database");
    EXPECT_FAILURE(oct_runs_option_at(NULL, 0, 0, NULL, NULL, NULL), OCT_STATUS_INVALID,
                   "database");
    oct_runs_close(NULL);
}

/* --- several processes ----------------------------------------------------------------------- */

static void writers_at_once(void **state) {
    (void)state;
    enum { WRITERS = 4, RUNS = 6 };
    const char *path = scratch_at(folder, "shared/runs.db");
    fflush(NULL);
    for (int w = 0; w < WRITERS; w++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child > 0) {
            continue;
        }
        struct oct_runs *runs = NULL;
        struct oct_config *config = NULL;
        int bad = oct_config_create(&config) != OCT_OK || oct_runs_open(path, &runs) != OCT_OK;
        for (int i = 0; i < RUNS && !bad; i++) {
            int64_t run;
            struct oct_progress progress = epoch_of(1);
            progress.test_accuracy = w;
            bad = oct_runs_begin(runs, config, NULL, &run) != OCT_OK;
            for (int e = 1; e <= 3 && !bad; e++) {
                progress.epoch = e;
                bad = oct_runs_epoch(runs, run, &progress, NULL) != OCT_OK;
            }
            bad = bad || oct_runs_end(runs, run, "done", &a_result, NULL) != OCT_OK;
        }
        if (bad) {
            fprintf(stderr, "writer %d: %s\n", w, oct_last_error());
        }
        oct_runs_close(runs);
        oct_config_destroy(config);
        _exit(bad);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    struct oct_runs *runs = NULL;
    struct oct_run run;
    struct oct_run_epoch epoch;
    EXPECT_OK(oct_runs_open(path, &runs));
    int n = 0;
    for (; oct_runs_at(runs, n, &run) == OCT_OK; n++) {
        assert_string_equal(run.outcome, "done");
        double writer = -1;
        for (int e = 0; e < 3; e++) { /* all of a run's epochs are from one writer */
            EXPECT_OK(oct_runs_epoch_at(runs, run.number, e, &epoch));
            assert_true(e == 0 || epoch.accuracy == writer);
            writer = epoch.accuracy;
        }
    }
    print_message("%d runs by %d writers\n", n, WRITERS);
    assert_int_equal(n, WRITERS * RUNS);
    oct_runs_close(runs);
}

/* --- files that are not what they should be -------------------------------------------------- */

static void expect_refused(const char *name, oct_status expected, const char *piece) {
    struct oct_runs *runs = NULL;
    EXPECT_FAILURE(oct_runs_open(scratch_at(folder, name), &runs), expected, piece);
    assert_null(runs);
}

static void expect_nothing_to_read(const char *name, const char *piece) {
    struct oct_runs *runs = NULL;
    EXPECT_FAILURE(oct_runs_open_to_read(scratch_at(folder, name), &runs), OCT_STATUS_NOT_FOUND,
                   piece);
    assert_null(runs);
}

/* What is there is read, and stays as it is; what is not there is not made. */
static void only_read(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("read.db");
    struct oct_run run;
    int64_t number = begin(runs, (const char *const[]){"seed", "3", NULL});
    oct_runs_close(runs);
    size_t n, n_after;
    uint8_t *before = file_read(scratch_at(folder, "read.db"), &n);
    EXPECT_OK(oct_runs_open_to_read(scratch_at(folder, "read.db"), &runs));
    EXPECT_OK(oct_runs_find(runs, number, &run));
    assert_string_equal(run.options, "--seed 3");
    struct oct_config *config = config_of((const char *const[]){NULL});
    EXPECT_FAILURE(oct_runs_begin(runs, config, NULL, &number), OCT_STATUS_INVALID, "to be read");
    EXPECT_FAILURE(oct_runs_delete(runs, run.number), OCT_STATUS_INVALID, "to be read");
    oct_config_destroy(config);
    oct_runs_close(runs);
    uint8_t *after = file_read(scratch_at(folder, "read.db"), &n_after);
    assert_int_equal(n_after, n);
    assert_memory_equal(after, before, n);
    free(after);
    free(before);

    runs = NULL;
    expect_nothing_to_read("not-there/runs.db", "no such database of runs");
    expect_nothing_to_read("read.db/runs.db", "no such database of runs");
    assert_int_not_equal(access(scratch_at(folder, "not-there"), F_OK), 0);
    EXPECT_FAILURE(oct_runs_open_to_read("", &runs), OCT_STATUS_INVALID, "path");
    EXPECT_FAILURE(oct_runs_open_to_read(folder, &runs), OCT_STATUS_IO, "cannot be used");
}

static void other_files(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    assert_int_equal(scratch_write(scratch_at(folder, "letter"), text, sizeof text), 0);
    expect_refused("letter", OCT_STATUS_CORRUPT, "letter: is no database of runs");
    expect_refused("letter", OCT_STATUS_CORRUPT, "--db none");
    size_t n;
    uint8_t *after = file_read(scratch_at(folder, "letter"), &n);
    assert_int_equal(n, sizeof text);
    assert_memory_equal(after, text, sizeof text); /* as it was */
    free(after);

    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(scratch_at(folder, "other.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE runs (a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    expect_refused("other.db", OCT_STATUS_CORRUPT, "a database of another program");

    oct_runs_close(open_runs("newer.db"));
    assert_int_equal(sqlite3_open(scratch_at(folder, "newer.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 3", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    expect_refused("newer.db", OCT_STATUS_UNSUPPORTED, "version 3");

    /* A column that computes: its expression would run whenever it is read. */
    oct_runs_close(open_runs("computes.db"));
    assert_int_equal(sqlite3_open(scratch_at(folder, "computes.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "ALTER TABLE runs DROP COLUMN loss; ALTER TABLE runs ADD COLUMN "
                                  "loss AS (length(zeroblob(1000000)))",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    expect_refused("computes.db", OCT_STATUS_CORRUPT, "a column of it computes");

    /* A table of a module, which would run as soon as anybody asks for its columns. */
    oct_runs_close(open_runs("virtual.db"));
    assert_int_equal(sqlite3_open(scratch_at(folder, "virtual.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE VIRTUAL TABLE words USING fts5(a)", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    expect_refused("virtual.db", OCT_STATUS_CORRUPT, "a table of it is virtual");

    /* Somebody changed its tables. */
    struct oct_runs *runs = open_runs("changed.db");
    struct oct_run run;
    assert_int_equal(sqlite3_open(scratch_at(folder, "changed.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "ALTER TABLE runs DROP COLUMN loss", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    EXPECT_FAILURE(oct_runs_at(runs, 0, &run), OCT_STATUS_CORRUPT, "damaged");
    oct_runs_close(runs);

    /* An empty file is a database that has nothing in it yet: nothing to be read. */
    assert_int_equal(scratch_write(scratch_at(folder, "nothing.db"), "", 0), 0);
    expect_nothing_to_read("nothing.db", "nothing.db: is empty, and no database of runs yet");
    free(file_read(scratch_at(folder, "nothing.db"), &n));
    assert_int_equal(n, 0);
    runs = open_runs("nothing.db");
    assert_int_equal(begin(runs, (const char *const[]){NULL}), 1);
    oct_runs_close(runs);

    assert_int_equal(mkdir(scratch_at(folder, "a-folder"), 0777), 0);
    expect_refused("a-folder", OCT_STATUS_IO, "cannot be used");
    expect_refused("letter/below/runs.db", OCT_STATUS_IO, "making the folder");
    struct oct_runs *none = NULL;
    EXPECT_FAILURE(oct_runs_open("/proc/octet/runs.db", &none), OCT_STATUS_IO, "/proc/octet");
}

/* Cut anywhere, or with bytes altered: a status, and never a crash. */
static void damaged_files(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("whole.db");
    for (int i = 0; i < 20; i++) {
        int64_t number = begin(runs, (const char *const[]){"seed", "3", NULL});
        struct oct_progress progress = epoch_of(1 + i % 5);
        EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    }
    oct_runs_close(runs);
    size_t n;
    uint8_t *bytes = file_read(scratch_at(folder, "whole.db"), &n);
    struct dice dice = dice_of(5);
    int n_refused = 0, n_read = 0;
    runs = NULL;
    for (int trial = 0; trial < 120; trial++) {
        uint8_t *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, bytes, n);
        size_t length = n;
        if (trial % 3 == 0) {
            length = (size_t)dice_below(&dice, (int)n);
        } else {
            for (int i = 0; i < 40; i++) {
                copy[dice_below(&dice, (int)n)] = (uint8_t)dice_below(&dice, 256);
            }
        }
        file_write(scratch_at(folder, "bad.db"), copy, length);
        free(copy);
        const char *path = scratch_at(folder, "bad.db");
        oct_status status =
            trial % 2 ? oct_runs_open(path, &runs) : oct_runs_open_to_read(path, &runs);
        for (int i = 0; status == OCT_OK && i < 20; i++) {
            struct oct_run run;
            struct oct_run_epoch epoch;
            const char *name, *value;
            status = oct_runs_at(runs, i, &run);
            if (status == OCT_OK) {
                status = oct_runs_option_at(runs, run.number, i, &name, &value, NULL);
            }
            if (status == OCT_OK) {
                status = oct_runs_epoch_at(runs, run.number, 0, &epoch);
            }
            n_read += status == OCT_OK;
            struct oct_run_node node;
            struct oct_run_edge edge;
            int64_t count;
            if (status == OCT_OK) { /* there are none; what matters is that it ends well */
                status = oct_runs_node_at(runs, run.number, 0, 0, &node);
                status = status == OCT_STATUS_NOT_FOUND
                             ? oct_runs_edge_at(runs, run.number, 0, 0, &edge)
                             : status;
                status = status == OCT_STATUS_NOT_FOUND
                             ? oct_runs_class_at(runs, run.number, 0, 0, &count)
                             : status;
                status = status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
            }
        }
        if (status != OCT_OK) {
            n_refused++;
            assert_true(status == OCT_STATUS_CORRUPT || status == OCT_STATUS_NOT_FOUND ||
                        status == OCT_STATUS_UNSUPPORTED || status == OCT_STATUS_IO);
        }
        oct_runs_close(runs);
        runs = NULL;
        unlink(scratch_at(folder, "bad.db"));
    }
    print_message("120 damaged files: %d refused (the last: %s), %d runs read\n", n_refused,
                  oct_last_error(), n_read);
    assert_true(n_refused > 20);
    free(bytes);
}

static void read_only(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("archive/runs.db");
    begin(runs, (const char *const[]){NULL});
    oct_runs_close(runs);
    assert_int_equal(chmod(scratch_at(folder, "archive/runs.db"), 0444), 0);
    assert_int_equal(chmod(scratch_at(folder, "archive"), 0555), 0);
    if (geteuid() != 0) { /* root may write anywhere */
        struct oct_config *config = config_of((const char *const[]){NULL});
        struct oct_run run;
        int64_t number;
        runs = open_runs("archive/runs.db");
        EXPECT_OK(oct_runs_at(runs, 0, &run));
        EXPECT_FAILURE(oct_runs_begin(runs, config, NULL, &number), OCT_STATUS_IO, "readonly");
        oct_runs_close(runs);
        oct_config_destroy(config);
        expect_refused("archive/another.db", OCT_STATUS_IO, "cannot be used");
    }
    assert_int_equal(chmod(scratch_at(folder, "archive"), 0755), 0);
}

/* Each request of ours for memory fails in its turn. */
static void no_memory(void **state) {
    (void)state;
    struct oct_config *config = config_of((const char *const[]){"seed", "2", NULL});
    int n = 1;
    for (;; n++) {
        struct oct_runs *runs = NULL;
        struct oct_run run;
        int64_t number;
        oct__alloc_fail_after((uint64_t)n);
        oct_status status = oct_runs_open(scratch_at(folder, "memory.db"), &runs);
        if (status == OCT_OK) {
            status = oct_runs_begin(runs, config, NULL, &number);
        }
        if (status == OCT_OK) {
            status = oct_runs_at(runs, 0, &run);
        }
        oct__alloc_fail_after(0);
        oct_runs_close(runs);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
    }
    print_message("%d requests\n", n);
    assert_true(n > 4);
    oct_config_destroy(config);
}

static int set_up(void **state) {
    (void)state;
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run),         cmocka_unit_test(options_in_force),
        cmocka_unit_test(several_runs),  cmocka_unit_test(odd_numbers),
        cmocka_unit_test(nothing_given), cmocka_unit_test(writers_at_once),
        cmocka_unit_test(other_files),   cmocka_unit_test(damaged_files),
        cmocka_unit_test(read_only),     cmocka_unit_test(only_read),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

static void says_what_is_missing(void **state) {
    (void)state;
    struct oct_runs *runs = NULL;
    assert_int_equal(oct_runs_available(), 0);
    EXPECT_FAILURE(oct_runs_open("runs.db", &runs), OCT_STATUS_UNSUPPORTED, "libsqlite3-dev");
    EXPECT_FAILURE(oct_runs_open_to_read("runs.db", &runs), OCT_STATUS_UNSUPPORTED,
                   "libsqlite3-dev");
    assert_null(runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
