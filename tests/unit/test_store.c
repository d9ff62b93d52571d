/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - src/store: files of version 1, nodes and edges of a real run, epochs that have to
 * wait, processes that are gone, runs that are deleted. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <octet/octet.h>

#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"

#ifdef OCT_HAVE_SQLITE

#include "store/store.h"

static char folder[SCRATCH_PATH];

static struct oct_runs *open_runs(const char *name) {
    struct oct_runs *runs = NULL;
    EXPECT_OK(oct_runs_open(scratch_at(folder, name), &runs));
    return runs;
}

static void sql(const char *name, const char *text) {
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(scratch_at(folder, name), &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", text, message);
    }
    sqlite3_close(db);
}

static int64_t count(const char *name, const char *query) {
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    assert_int_equal(sqlite3_open(scratch_at(folder, name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t out = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return out;
}

/* Every column of every table; the caller frees it. */
static char *columns(const char *name) {
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    assert_int_equal(sqlite3_open(scratch_at(folder, name), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "SELECT group_concat(t || '.' || c, ' ') FROM"
                           " (SELECT m.name t, p.name || ' ' || p.type || p.pk || p.\"notnull\" c"
                           " FROM sqlite_master m, pragma_table_info(m.name) p"
                           " WHERE m.type = 'table' ORDER BY t, p.cid)",
                           -1, &row, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    char *out = strdup((const char *)sqlite3_column_text(row, 0));
    assert_non_null(out);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return out;
}

static struct oct_progress epoch_of(int epoch) {
    return (struct oct_progress){.phase = OCT_PHASE_EPOCH_END,
                                 .epoch = epoch,
                                 .step = 10 * epoch,
                                 .loss = 1.0 / epoch,
                                 .test_accuracy = 7.0 * epoch};
}

static int64_t begin(struct oct_runs *runs) {
    struct oct_config *config = NULL;
    int64_t run = 0;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(oct_runs_begin(runs, config, NULL, &run));
    oct_config_destroy(config);
    return run;
}

/* --- version 1 ------------------------------------------------------------------------------- */

/* As Octet wrote it before nodes were recorded. */
static const char version_1[] =
    "CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, started INTEGER NOT NULL,"
    " ended INTEGER, version TEXT NOT NULL, outcome TEXT NOT NULL, n_epochs INTEGER NOT NULL,"
    " has_result INTEGER NOT NULL DEFAULT 0, epochs INTEGER, seconds REAL, accuracy REAL,"
    " accuracy_nodes REAL, accuracy_least REAL, accuracy_most REAL, nodes_tested INTEGER,"
    " loss REAL, train_loss REAL, consensus_distance REAL, samples_per_s REAL,"
    " bytes_sent INTEGER, bytes_final INTEGER, bytes_dense INTEGER, messages INTEGER,"
    " n_parameters INTEGER, workspace_bytes INTEGER, state_bytes INTEGER, model_sha256 TEXT);"
    "CREATE TABLE options (run INTEGER NOT NULL REFERENCES runs (number),"
    " position INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
    " is_set INTEGER NOT NULL, PRIMARY KEY (run, position)) WITHOUT ROWID;"
    "CREATE TABLE epochs (run INTEGER NOT NULL REFERENCES runs (number),"
    " epoch INTEGER NOT NULL, step INTEGER NOT NULL, seconds REAL, train_loss REAL,"
    " train_accuracy REAL, loss REAL, accuracy REAL, consensus_distance REAL,"
    " learning_rate REAL, samples_per_s REAL, bytes_sent INTEGER,"
    " PRIMARY KEY (run, epoch)) WITHOUT ROWID;"
    "PRAGMA application_id = 1331917925; PRAGMA user_version = 1;"
    "INSERT INTO runs (started, version, outcome, n_epochs, has_result, epochs, accuracy)"
    " VALUES (1000, '0.1.0', 'done', 3, 1, 3, 81.5);"
    "INSERT INTO runs (started, version, outcome, n_epochs)"
    " VALUES (2000, '0.1.0', 'running', 3);"
    "INSERT INTO options VALUES (1, 0, 'lr', '0.5', 1);"
    "INSERT INTO epochs (run, epoch, step, accuracy) VALUES (1, 1, 10, 50.0), (1, 2, 20, 60.0);";

static void expect_old_runs(struct oct_runs *runs) {
    struct oct_run run;
    struct oct_run_epoch epoch;
    struct oct_run_node node;
    struct oct_run_edge edge;
    int64_t samples;
    EXPECT_OK(oct_runs_find(runs, 1, &run));
    assert_string_equal(run.outcome, "done");
    assert_string_equal(run.machine, "");
    assert_string_equal(run.label, "");
    assert_string_equal(run.options, "--lr 0.5");
    assert_true(run.accuracy == 81.5 && isnan(run.gossip_share));
    EXPECT_OK(oct_runs_epoch_at(runs, 1, 1, &epoch));
    assert_true(epoch.accuracy == 60.0 && isnan(epoch.clipped) && isnan(epoch.zero));
    EXPECT_OK(oct_runs_find(runs, 2, &run));
    assert_string_equal(run.outcome, "running?"); /* nobody knows */
    EXPECT_FAILURE(oct_runs_node_at(runs, 1, 0, 0, &node), OCT_STATUS_NOT_FOUND, "no node 0");
    EXPECT_FAILURE(oct_runs_edge_at(runs, 1, 0, 0, &edge), OCT_STATUS_NOT_FOUND, "edges");
    EXPECT_FAILURE(oct_runs_class_at(runs, 1, 0, 0, &samples), OCT_STATUS_NOT_FOUND, "class");
}

static void version_1_is_brought_up_to_date(void **state) {
    (void)state;
    sql("old.db", version_1);
    struct oct_runs *runs = open_runs("old.db");
    assert_int_equal(count("old.db", "PRAGMA user_version"), 2);
    expect_old_runs(runs);
    int64_t number = begin(runs);
    struct oct_progress progress = epoch_of(1);
    EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    assert_int_equal(number, 3);
    oct_runs_close(runs);
    /* It has come out as a new one does. */
    oct_runs_close(open_runs("new.db"));
    char *old = columns("old.db"), *new = columns("new.db");
    print_message("%s\n", new);
    assert_string_equal(old, new);
    free(old);
    free(new);
    /* An Octet of version 1 that still has it open can end its run. */
    sql("old.db", "UPDATE runs SET ended = 5, outcome = 'done', has_result = 1 WHERE number = 2;"
                  "INSERT INTO epochs (run, epoch, step) VALUES (2, 1, 10)");
}

/* Who only reads it has a copy that is; the file stays of version 1, to the byte. */
static void version_1_is_read(void **state) {
    (void)state;
    sql("read.db", version_1);
    size_t n, n_after;
    uint8_t *before = file_read(scratch_at(folder, "read.db"), &n);
    struct oct_runs *runs = NULL;
    EXPECT_OK(oct_runs_open_to_read(scratch_at(folder, "read.db"), &runs));
    expect_old_runs(runs);
    EXPECT_FAILURE(oct_runs_delete(runs, 1), OCT_STATUS_INVALID, "to be read");
    oct_runs_close(runs);
    uint8_t *after = file_read(scratch_at(folder, "read.db"), &n_after);
    assert_int_equal(n_after, n);
    assert_memory_equal(after, before, n);
    free(after);
    free(before);
}

/* All or nothing: what cannot be brought up to date stays as it is. */
static void version_1_that_cannot_be(void **state) {
    (void)state;
    sql("odd.db", version_1);
    sql("odd.db", "CREATE TABLE edges (mine)"); /* the last but one that is made */
    struct oct_runs *runs = NULL;
    EXPECT_FAILURE(oct_runs_open(scratch_at(folder, "odd.db"), &runs), OCT_STATUS_CORRUPT,
                   "damaged (table edges already exists)");
    assert_int_equal(count("odd.db", "PRAGMA user_version"), 1);
    assert_int_equal(count("odd.db", "SELECT count(*) FROM pragma_table_info('runs')"), 26);
    assert_int_equal(count("odd.db", "SELECT count(*) FROM sqlite_master WHERE name = 'nodes'"), 0);
}

static void version_1_where_nothing_may_be_written(void **state) {
    (void)state;
    if (geteuid() == 0) {
        print_message("root may write anywhere: a child is somebody else\n");
    }
    sql("archived.db", version_1);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(scratch_at(folder, "archived.db"), 0444), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct oct_runs *runs = NULL;
        struct oct_run run;
        struct oct_config *config = NULL;
        int64_t number;
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(9);
        }
        int bad = oct_runs_open(scratch_at(folder, "archived.db"), &runs) != OCT_OK ||
                  oct_runs_find(runs, 1, &run) != OCT_OK || run.accuracy != 81.5;
        if (bad) {
            fprintf(stderr, "reading: %s\n", oct_last_error());
        }
        bad = bad || oct_config_create(&config) != OCT_OK ||
              oct_runs_begin(runs, config, NULL, &number) != OCT_STATUS_IO ||
              !strstr(oct_last_error(), "readonly");
        fprintf(stderr, "writing: %s\n", oct_last_error());
        oct_config_destroy(config);
        oct_runs_close(runs);
        _exit(bad);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9) {
        skip(); /* cannot become somebody else */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count("archived.db", "PRAGMA user_version"), 1);
}

/* --- a real run ------------------------------------------------------------------------------ */

enum { N_NODES = 4, N_CLASSES = 5, N_EPOCHS = 3 };

struct witness {
    struct oct_runs *runs;
    int64_t number;
    const struct oct_trainer *trainer;
    struct oct_node nodes[N_EPOCHS][N_NODES];
    struct oct_traffic edges[N_EPOCHS][16];
    int n_edges[N_EPOCHS];
};

static int record(const struct oct_progress *p, void *context) {
    struct witness *w = context;
    if (p->phase != OCT_PHASE_EPOCH_END) {
        return 0;
    }
    EXPECT_OK(oct_runs_epoch(w->runs, w->number, p, w->trainer));
    for (int i = 0; i < N_NODES; i++) {
        EXPECT_OK(oct_trainer_node(w->trainer, i, &w->nodes[p->epoch - 1][i]));
    }
    int n = 0;
    while (n < 16 && oct_trainer_edge(w->trainer, n, &w->edges[p->epoch - 1][n]) == OCT_OK) {
        n++;
    }
    w->n_edges[p->epoch - 1] = n;
    return 0;
}

static struct oct_config *small(const char *precision) {
    const char *const pairs[][2] = {
        {"model", "resnet20:width=4,blocks=1"},
        {"data", "synthetic:samples=96,size=8,classes=5"},
        {"augment", "none"},
        {"batch", "4"},
        {"nodes", "4"},
        {"epochs", "3"},
        {"threads", "1"},
        {"topology", "ring"},
        {"partition", "skew:1"},
        {"compress", "topk:0.9,values=int8"},
        {"eval-nodes", "3"},
        {"label", "a name"},
        {"precision", precision},
    };
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    for (size_t i = 0; i < OCT_COUNT_OF(pairs); i++) {
        EXPECT_OK(oct_config_set(config, pairs[i][0], pairs[i][1]));
    }
    return config;
}

/* Trains, recording into `runs` (NULL: nothing is recorded, nor watched). */
static struct oct_trainer *train(const char *precision, struct witness *w, struct oct_runs *runs,
                                 struct oct_result *result) {
    struct oct_config *config = small(precision);
    struct oct_trainer *trainer = NULL;
    const struct oct_hooks hooks = {.progress = runs ? record : NULL, .progress_context = w};
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    if (runs) {
        *w = (struct witness){.runs = runs, .trainer = trainer};
        oct_trainer_watch(trainer);
        EXPECT_OK(oct_runs_begin(runs, config, trainer, &w->number));
    }
    EXPECT_OK(oct_trainer_run(trainer));
    EXPECT_OK(oct_trainer_result(trainer, result));
    if (runs) {
        EXPECT_OK(oct_runs_end(runs, w->number, "done", result, trainer));
    }
    oct_config_destroy(config);
    return trainer;
}

static void expect_nodes(struct oct_runs *runs, const struct witness *w) {
    struct oct_run_node node;
    struct oct_run_edge edge;
    for (int epoch = 1; epoch <= N_EPOCHS; epoch++) {
        for (int i = 0; i < N_NODES; i++) {
            const struct oct_node *seen = &w->nodes[epoch - 1][i];
            EXPECT_OK(oct_runs_node_at(runs, w->number, epoch, i, &node));
            assert_true(node.node == i && node.train_loss == seen->loss &&
                        node.train_accuracy == seen->accuracy &&
                        node.consensus_distance == seen->consensus_distance);
            assert_int_equal(node.bytes_sent, seen->bytes_sent);
            assert_int_equal(node.n_samples, seen->n_samples);
            assert_int_equal(isfinite(node.accuracy) != 0, epoch == N_EPOCHS && i < 3);
        }
        for (int i = 0; i < w->n_edges[epoch - 1]; i++) {
            const struct oct_traffic *seen = &w->edges[epoch - 1][i];
            EXPECT_OK(oct_runs_edge_at(runs, w->number, epoch, i, &edge));
            assert_int_equal(edge.from, seen->from);
            assert_int_equal(edge.to, seen->to);
            assert_int_equal(edge.bytes, seen->bytes);
            assert_int_equal(edge.messages, seen->messages);
        }
        EXPECT_FAILURE(oct_runs_node_at(runs, w->number, epoch, N_NODES, &node),
                       OCT_STATUS_NOT_FOUND, "no node 4");
        EXPECT_FAILURE(oct_runs_edge_at(runs, w->number, epoch, 8, &edge), OCT_STATUS_NOT_FOUND,
                       "no more than 8 edges");
    }
    EXPECT_OK(oct_runs_edge_at(runs, w->number, 0, 5, &edge)); /* out of turn */
    assert_int_equal(edge.bytes, w->edges[N_EPOCHS - 1][5].bytes);
    EXPECT_OK(oct_runs_node_at(runs, w->number, 0, 2, &node));
    assert_true(node.train_loss == w->nodes[N_EPOCHS - 1][2].loss && isfinite(node.accuracy));
    EXPECT_FAILURE(oct_runs_node_at(runs, w->number, N_EPOCHS + 1, 0, &node), OCT_STATUS_NOT_FOUND,
                   "of that epoch");
}

static void a_real_run(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("real.db");
    struct witness w;
    struct oct_result result, alone;
    struct oct_trainer *trainer = train("int8", &w, runs, &result);
    assert_int_equal(w.n_edges[0], 8); /* a ring in both directions */
    expect_nodes(runs, &w);
    int64_t total = 0, samples;
    for (int node = 0; node < N_NODES; node++) {
        for (int label = 0; label < N_CLASSES; label++) {
            EXPECT_OK(oct_runs_class_at(runs, w.number, node, label, &samples));
            assert_int_equal(samples, oct_trainer_holding(trainer, node, label));
            total += samples;
        }
        EXPECT_FAILURE(oct_runs_class_at(runs, w.number, node, N_CLASSES, &samples),
                       OCT_STATUS_NOT_FOUND, "no class 5");
    }
    assert_int_equal(total, 96);
    EXPECT_FAILURE(oct_runs_class_at(runs, w.number, N_NODES, 0, &samples), OCT_STATUS_NOT_FOUND,
                   "node 4");
    EXPECT_FAILURE(oct_runs_class_at(runs, w.number, 0, -1, &samples), OCT_STATUS_NOT_FOUND,
                   "class -1");
    struct oct_run run;
    struct oct_run_epoch epoch;
    EXPECT_OK(oct_runs_find(runs, w.number, &run));
    print_message("on %s\n", run.machine);
    assert_non_null(strstr(run.machine, oct_cpu_level_name(oct_cpu_level())));
    assert_non_null(strstr(run.machine, ", 1 thread, "));
    assert_string_equal(run.label, "a name");
    assert_null(strstr(run.options, "label"));
    assert_true(run.gossip_share == result.gossip_share);
    for (int i = 0; i < N_EPOCHS; i++) {
        EXPECT_OK(oct_runs_epoch_at(runs, w.number, i, &epoch));
        print_message("epoch %d: %.3g %% clipped, %.3g %% zero\n", epoch.epoch, 100 * epoch.clipped,
                      100 * epoch.zero);
        assert_true(epoch.clipped >= 0 && epoch.clipped < 1 && epoch.zero > 0 && epoch.zero < 1);
    }
    oct_trainer_destroy(trainer);
    /* Being recorded and watched changes nothing. */
    oct_trainer_destroy(train("int8", &w, NULL, &alone));
    print_message("recorded: %.16s…, not recorded: %.16s…\n", result.model_sha256,
                  alone.model_sha256);
    assert_string_equal(result.model_sha256, alone.model_sha256);
    assert_int_equal(result.bytes_sent, alone.bytes_sent);
    oct_trainer_destroy(train("fp32", &w, runs, &result));
    EXPECT_OK(oct_runs_epoch_at(runs, w.number, 0, &epoch));
    assert_true(isnan(epoch.clipped) && isnan(epoch.zero));
    oct_runs_close(runs);
}

/* A run that is too large has what belongs to the whole of it, and no more. */
static void large_runs(void **state) {
    (void)state;
    static const struct {
        const char *nodes, *topology;
        int64_t n_nodes, n_edges; /* on record */
    } cases[] = {{"1025", "directed-ring", 0, 0}, {"130", "complete", 130, 0}};
    struct oct_runs *runs = open_runs("large.db");
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        const char *const pairs[][2] = {{"model", "resnet20:width=1,blocks=1"},
                                        {"data", "synthetic:samples=1025,size=4,classes=2"},
                                        {"norm", "groupnorm"},
                                        {"precision", "fp32"},
                                        {"batch", "8"},
                                        {"epochs", "1"},
                                        {"momentum", "local"},
                                        {"test-samples", "8"},
                                        {"eval-nodes", "1"},
                                        {"algorithm", "sgp"},
                                        {"compress", "none"},
                                        {"augment", "none"},
                                        {"nodes", cases[i].nodes},
                                        {"topology", cases[i].topology}};
        struct oct_config *config = NULL;
        struct oct_trainer *trainer = NULL;
        struct oct_result result;
        struct oct_run_node node;
        struct oct_run_edge edge;
        int64_t number, samples, n_nodes = 0, n_edges = 0;
        EXPECT_OK(oct_config_create(&config));
        for (size_t p = 0; p < OCT_COUNT_OF(pairs); p++) {
            EXPECT_OK(oct_config_set(config, pairs[p][0], pairs[p][1]));
        }
        EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
        EXPECT_OK(oct_runs_begin(runs, config, trainer, &number));
        EXPECT_OK(oct_trainer_run(trainer));
        struct oct_progress progress = epoch_of(1);
        EXPECT_OK(oct_runs_epoch(runs, number, &progress, trainer));
        EXPECT_OK(oct_trainer_result(trainer, &result));
        EXPECT_OK(oct_runs_end(runs, number, "done", &result, trainer));
        while (oct_runs_node_at(runs, number, 0, (int)n_nodes, &node) == OCT_OK) {
            n_nodes++;
        }
        while (oct_runs_edge_at(runs, number, 0, n_edges, &edge) == OCT_OK) {
            n_edges++;
        }
        print_message("%s nodes, %s: %lld nodes and %lld edges on record, %llu bytes sent\n",
                      cases[i].nodes, cases[i].topology, (long long)n_nodes, (long long)n_edges,
                      (unsigned long long)result.bytes_sent);
        assert_true(result.bytes_sent > 0);
        assert_int_equal(n_nodes, cases[i].n_nodes);
        assert_int_equal(n_edges, cases[i].n_edges);
        assert_int_equal(oct_runs_class_at(runs, number, 0, 0, &samples) == OCT_OK, n_nodes > 0);
        oct_trainer_destroy(trainer);
        oct_config_destroy(config);
    }
    oct_runs_close(runs);
}

/* --- epochs that wait ------------------------------------------------------------------------ */

/* Another connection keeps the file locked; then it lets go. */
static void locked_epochs_wait(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("locked.db");
    struct oct_run_epoch epoch;
    struct oct_run run;
    runs->patience_ms = 50;
    int64_t number = begin(runs), other = begin(runs);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(scratch_at(folder, "locked.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 1; i <= 3; i++) { /* the very first epoch, too */
        struct oct_progress progress = epoch_of(i);
        EXPECT_FAILURE(oct_runs_epoch(runs, number, &progress, NULL), OCT_STATUS_IO, "locked");
    }
    EXPECT_FAILURE(oct_runs_end(runs, number, "done", NULL, NULL), OCT_STATUS_IO, "locked");
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_FAILURE(oct_runs_epoch_at(runs, number, 0, &epoch), OCT_STATUS_NOT_FOUND, "0 epochs");
    struct oct_progress progress = epoch_of(4);
    EXPECT_OK(oct_runs_epoch(runs, other, &progress, NULL)); /* of its own run, not those */
    EXPECT_FAILURE(oct_runs_epoch_at(runs, number, 0, &epoch), OCT_STATUS_NOT_FOUND, "0 epochs");
    EXPECT_OK(oct_runs_epoch(runs, number, &progress, NULL));
    for (int i = 1; i <= 4; i++) {
        EXPECT_OK(oct_runs_epoch_at(runs, number, i - 1, &epoch));
        assert_int_equal(epoch.epoch, i);
        assert_true(epoch.accuracy == 7.0 * i);
    }
    /* One more that only the end can write. */
    progress = epoch_of(5);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_FAILURE(oct_runs_epoch(runs, number, &progress, NULL), OCT_STATUS_IO, "locked");
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    EXPECT_OK(oct_runs_end(runs, number, "done", NULL, NULL));
    EXPECT_OK(oct_runs_epoch_at(runs, number, 4, &epoch));
    assert_true(epoch.accuracy == 35.0);
    EXPECT_OK(oct_runs_find(runs, number, &run));
    assert_string_equal(run.outcome, "done");
    assert_int_equal(run.epochs, 5);
    oct_runs_close(runs);
}

/* --- processes ------------------------------------------------------------------------------- */

static void processes(void **state) {
    (void)state;
    char self[OCT_PROCESS_BYTES], name[OCT_PROCESS_BYTES];
    oct__process_name(self);
    print_message("%s\n", self);
    if (strstr(self, " ? ")) {
        skip(); /* a system without /proc */
    }
    assert_int_equal(oct__process_find(self), OCT_PROCESS_LIVES);
    static const char *const strange[] = {"", "a", "a b c d e", "a b c 1", "? ? ? 1 0"};
    for (size_t i = 0; i < OCT_COUNT_OF(strange); i++) {
        assert_int_equal(oct__process_find(strange[i]), OCT_PROCESS_ELSEWHERE);
    }
    assert_int_equal(oct__process_find(NULL), OCT_PROCESS_ELSEWHERE);
    char host[72], boot[48], space[32];
    long pid;
    unsigned long long start;
    assert_int_equal(sscanf(self, "%71s %47s %31s %ld %llu", host, boot, space, &pid, &start), 5);
    const struct {
        const char *host, *boot, *space;
        unsigned long long start;
        enum oct__process_state expected;
    } cases[] = {
        {host, boot, space, start + 1, OCT_PROCESS_GONE}, /* its number was given again */
        {host, "earlier", space, start, OCT_PROCESS_GONE},
        {"elsewhere", "other", space, start, OCT_PROCESS_ELSEWHERE},
        {host, boot, "pid:[1]", start, OCT_PROCESS_ELSEWHERE},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        snprintf(name, sizeof name, "%s %s %s %ld %llu", cases[i].host, cases[i].boot,
                 cases[i].space, pid, cases[i].start);
        assert_int_equal(oct__process_find(name), cases[i].expected);
    }
}

static void a_killed_run_is_lost(void **state) {
    (void)state;
    char self[OCT_PROCESS_BYTES];
    oct__process_name(self);
    if (strstr(self, " ? ")) {
        skip();
    }
    const char *path = scratch_at(folder, "killed.db");
    struct oct_runs *runs = NULL;
    struct oct_run run;
    EXPECT_OK(oct_runs_open(path, &runs));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct oct_runs *own = NULL;
        struct oct_config *config = NULL;
        int64_t number;
        int bad = oct_config_create(&config) != OCT_OK || oct_runs_open(path, &own) != OCT_OK ||
                  oct_runs_begin(own, config, NULL, &number) != OCT_OK ||
                  write(ready[1], "x", 1) != 1;
        while (!bad) {
            pause();
        }
        _exit(1);
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    EXPECT_OK(oct_runs_find(runs, 1, &run));
    assert_string_equal(run.outcome, "running");
    assert_int_equal(kill(child, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    EXPECT_OK(oct_runs_find(runs, 1, &run)); /* nobody has noticed its end yet */
    assert_string_equal(run.outcome, "lost");
    assert_int_equal(waitpid(child, NULL, 0), child);
    EXPECT_OK(oct_runs_find(runs, 1, &run));
    assert_string_equal(run.outcome, "lost");
    oct_runs_close(runs);
}

/* --- deleting -------------------------------------------------------------------------------- */

static void deleting(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("delete.db");
    struct witness w;
    struct oct_result result;
    struct oct_run run;
    for (int i = 0; i < 2; i++) {
        oct_trainer_destroy(train("fp32", &w, runs, &result));
    }
    for (int i = 0; i < 5; i++) {
        begin(runs);
    }
    EXPECT_OK(oct_runs_delete(runs, 2));
    EXPECT_OK(oct_runs_delete(runs, 4));
    EXPECT_OK(oct_runs_delete(runs, 5));
    static const char *const tables[] = {"options", "epochs",  "nodes",
                                         "edges",   "classes", "node_epochs"};
    for (size_t i = 0; i < OCT_COUNT_OF(tables); i++) {
        char query[96];
        snprintf(query, sizeof query, "SELECT count(*) FROM %s WHERE run IN (2, 4, 5)", tables[i]);
        assert_int_equal(count("delete.db", query), 0);
        snprintf(query, sizeof query, "SELECT count(*) FROM %s WHERE run = 1", tables[i]);
        assert_true(count("delete.db", query) > 0);
    }
    EXPECT_FAILURE(oct_runs_delete(runs, 4), OCT_STATUS_NOT_FOUND,
                   "there is no run 4; there are runs 1, 3, 6 to 7 (octet runs lists them)");
    static const int64_t left[] = {7, 6, 3, 1};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(oct_runs_at(runs, i, &run));
        assert_int_equal(run.number, left[i]);
    }
    EXPECT_FAILURE(oct_runs_at(runs, 4, &run), OCT_STATUS_NOT_FOUND, "no more than 4 runs");
    EXPECT_OK(oct_runs_delete(runs, 7));
    assert_int_equal(begin(runs), 8); /* no number twice */
    EXPECT_FAILURE(oct_runs_delete(NULL, 1), OCT_STATUS_INVALID, "database");
    oct_runs_close(runs);
}

static void options_by_name(void **state) {
    (void)state;
    struct oct_runs *runs = open_runs("names.db");
    struct oct_config *config = small("fp32");
    const char *value;
    int64_t number;
    EXPECT_OK(oct_runs_begin(runs, config, NULL, &number));
    EXPECT_OK(oct_runs_option_find(runs, number, "topology", &value));
    assert_string_equal(value, "ring");
    EXPECT_OK(oct_runs_option_find(runs, number, "norm", &value));
    assert_string_equal(value, "evonorm-s0");
    EXPECT_FAILURE(oct_runs_option_find(runs, number, "colour", &value), OCT_STATUS_NOT_FOUND,
                   "no option colour");
    EXPECT_FAILURE(oct_runs_option_find(runs, 99, "norm", &value), OCT_STATUS_NOT_FOUND, "run 99");
    oct_config_destroy(config);
    oct_runs_close(runs);
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
        cmocka_unit_test(version_1_is_brought_up_to_date),
        cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(version_1_that_cannot_be),
        cmocka_unit_test(version_1_where_nothing_may_be_written),
        cmocka_unit_test(a_real_run),
        cmocka_unit_test(large_runs),
        cmocka_unit_test(locked_epochs_wait),
        cmocka_unit_test(processes),
        cmocka_unit_test(a_killed_run_is_lost),
        cmocka_unit_test(deleting),
        cmocka_unit_test(options_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

static void nothing_to_test(void **state) {
    (void)state;
    struct oct_runs *runs = NULL;
    EXPECT_FAILURE(oct_runs_open("x.db", &runs), OCT_STATUS_UNSUPPORTED, "libsqlite3-dev");
    EXPECT_FAILURE(oct_runs_delete(runs, 1), OCT_STATUS_UNSUPPORTED, "libsqlite3-dev");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_to_test)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
