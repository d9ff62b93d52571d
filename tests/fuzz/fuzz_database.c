/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_database.c - databases of runs that somebody else has written to.
 *
 *     'S' and SQL     a database of ours after these statements, whatever they do to it
 *     'P' and PATCHES the same with bytes of the file changed: 3 bytes of position, 1 of value, each
 *     'F' and BYTES   the file itself; so is what is behind any other first byte
 *
 * Everything in it is then read. What comes out has its texts, and every list comes to an end.
 */
#include "fuzz.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <octet/runs.h>

#include "scratch.h"

#ifdef OCT_HAVE_SQLITE
#include <sqlite3.h>

enum { A_FEW_STEPS = 100, MOST_STEPS = 200000, MOST_ROWS = 300, MOST_SQL = 4000 };
#define MOST_TICKS (2 * CLOCKS_PER_SEC)

/* --- a database ------------------------------------------------------------------------------- */

/* One with a run of two epochs, made once; its bytes. */
static uint8_t *plain;
static size_t n_plain;

static void make_plain(void) {
    struct oct_runs *runs = NULL;
    struct oct_config *config = NULL;
    int64_t number;
    const char *path = fuzz_path("plain.db");
    FUZZ_CHECK(oct_config_create(&config) == OCT_OK);
    FUZZ_CHECK(oct_config_set(config, "label", "plain") == OCT_OK);
    FUZZ_CHECK(oct_runs_open(path, &runs) == OCT_OK);
    FUZZ_CHECK(oct_runs_begin(runs, config, NULL, &number) == OCT_OK);
    for (int epoch = 1; epoch <= 2; epoch++) {
        const struct oct_progress progress = {.phase = OCT_PHASE_EPOCH_END,
                                              .epoch = epoch,
                                              .n_epochs = 2,
                                              .loss = 1.5 / epoch,
                                              .test_accuracy = 50};
        FUZZ_CHECK(oct_runs_epoch(runs, number, &progress, NULL) == OCT_OK);
    }
    const struct oct_result result = {.accuracy = 50, .epochs = 2};
    FUZZ_CHECK(oct_runs_end(runs, number, "done", &result, NULL) == OCT_OK);
    oct_runs_close(runs);
    oct_config_destroy(config);
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file && fseek(file, 0, SEEK_END) == 0);
    n_plain = (size_t)ftell(file);
    rewind(file);
    plain = malloc(n_plain);
    FUZZ_CHECK(plain && fread(plain, 1, n_plain, file) == n_plain && fclose(file) == 0);
}

/* The statements make a file for us to read; how long they take tells nothing about reading it. All of
 * them together have MOST_STEPS, and MOST_TICKS where steps are slow. */
struct work {
    int n_steps;
    clock_t began;
};

static int is_enough(void *context) {
    struct work *work = context;
    work->n_steps += A_FEW_STEPS;
    return work->n_steps > MOST_STEPS || clock() - work->began > MOST_TICKS;
}

/* A function is one step however long it takes, and these take long: '%.*c' counts to two thousand
 * million by ones and only then sees that this is too much; trim looks through one text at every
 * place of another. So does replace, but the schema cannot be changed without it: texts are short. */
static int is_slow(const char *function) {
    static const char *const slow[] = {"printf", "format", "trim", "ltrim", "rtrim"};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++) {
        if (!sqlite3_stricmp(function, slow[i])) {
            return 1;
        }
    }
    return 0;
}

static int is_allowed(void *context, int action, const char *unused, const char *function,
                      const char *database, const char *inside) {
    (void)context, (void)unused, (void)database, (void)inside;
    return action == SQLITE_FUNCTION && function && is_slow(function) ? SQLITE_DENY : SQLITE_OK;
}

static void run_sql(const char *path, const uint8_t *bytes, size_t n) {
    char sql[MOST_SQL + 1];
    sqlite3 *db = NULL;
    n = n < MOST_SQL ? n : MOST_SQL;
    memcpy(sql, bytes, n);
    sql[n] = '\0';
    FUZZ_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    struct work work = {0, clock()};
    sqlite3_progress_handler(db, A_FEW_STEPS, is_enough, &work);
    sqlite3_set_authorizer(db, is_allowed, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);     /* no other files */
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 16); /* nor endless texts */
    sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 20);
    (void)sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
}

/* --- reading it all --------------------------------------------------------------------------- */

static int is_answer(oct_status status) {
    FUZZ_CHECK(status == OCT_OK || oct_last_error()[0]);
    return status == OCT_OK;
}

static void read_run(struct oct_runs *runs, int64_t number) {
    struct oct_run run;
    struct oct_run_epoch epoch;
    struct oct_run_node node;
    struct oct_run_edge edge;
    const char *name = NULL, *value = NULL;
    int64_t count;
    int is_set;
    (void)is_answer(oct_runs_find(runs, number, &run));
    for (int i = 0; i < MOST_ROWS && is_answer(oct_runs_epoch_at(runs, number, i, &epoch)); i++) {
    }
    for (int i = 0;
         i < MOST_ROWS && is_answer(oct_runs_option_at(runs, number, i, &name, &value, &is_set));
         i++) {
        FUZZ_CHECK(name && value);
    }
    for (int i = 0; i < MOST_ROWS && is_answer(oct_runs_node_at(runs, number, 0, i, &node)); i++) {
    }
    for (int i = 0; i < MOST_ROWS && is_answer(oct_runs_edge_at(runs, number, 0, i, &edge)); i++) {
    }
    for (int i = 0; i < MOST_ROWS && is_answer(oct_runs_class_at(runs, number, 0, i, &count));
         i++) {
    }
    if (is_answer(oct_runs_option_find(runs, number, "nodes", &value))) {
        FUZZ_CHECK(value);
    }
}

static void read_all(const char *path, oct_status (*how)(const char *path, struct oct_runs **out)) {
    struct oct_runs *runs = NULL;
    struct oct_run run;
    if (!is_answer(how(path, &runs))) {
        FUZZ_CHECK(!runs);
        return;
    }
    for (int i = 0; i < 20 && is_answer(oct_runs_at(runs, i, &run)); i++) {
        FUZZ_CHECK(run.outcome && run.version && run.machine && run.label && run.options);
        FUZZ_CHECK(strlen(run.outcome) + strlen(run.version) + strlen(run.machine) < SIZE_MAX);
        read_run(runs, run.number);
    }
    oct_runs_close(runs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (!plain) {
        make_plain();
    }
    if (n_bytes < 1) {
        return 0;
    }
    const char *path = fuzz_path("runs.db");
    (void)unlink(fuzz_path("runs.db-journal"));
    if (bytes[0] == 'S') {
        (void)fuzz_put("runs.db", plain, n_plain);
        run_sql(path, bytes + 1, n_bytes - 1);
    } else if (bytes[0] == 'P') {
        uint8_t *patched = malloc(n_plain);
        FUZZ_CHECK(patched);
        memcpy(patched, plain, n_plain);
        for (size_t i = 1; i + 4 <= n_bytes; i += 4) {
            const size_t at = bytes[i] | (size_t)bytes[i + 1] << 8 | (size_t)bytes[i + 2] << 16;
            patched[at % n_plain] = bytes[i + 3];
        }
        (void)fuzz_put("runs.db", patched, n_plain);
        free(patched);
    } else {
        (void)fuzz_put("runs.db", bytes + 1, n_bytes - 1);
    }
    read_all(path, oct_runs_open_to_read);
    read_all(path, oct_runs_open);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct oct_runs *runs = NULL;
    const char *path = fuzz_put("runs.db", bytes, n_bytes);
    FUZZ_CHECK(oct_runs_open(path, &runs) == OCT_STATUS_UNSUPPORTED);
    return 0;
}

#endif
