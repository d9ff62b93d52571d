/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c - the database of runs, in SQLite.
 *
 *     runs     number, started, outcome, … and, once it has ended, its result
 *     options  of each run, all of them as they were in force, in the table's order
 *     epochs   of each run
 *
 * PRAGMA application_id says that a file is ours, PRAGMA user_version which of our schemas it has.
 * docs/howto/runs.md has the columns, for people who ask the file themselves.
 *
 * Every call is one transaction. The journal is the rollback journal, not the write-ahead log: a
 * row an epoch needs no speed, and so the database is one file that can be copied, that works in a
 * home folder on a network, and that can be read where nothing may be written. Writers from other
 * processes wait for one another up to ten seconds.
 *
 * SQLite keeps NaN as NULL but knows infinity; both are kept as NULL here, and come back as NaN.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "base/text.h"

#define APPLICATION 0x4f637465 /* "Octe" */
#define VERSION 1
#define PATIENCE_MS 10000

static const char schema[] = "CREATE TABLE runs ("
                             " number INTEGER PRIMARY KEY AUTOINCREMENT,"
                             " started INTEGER NOT NULL," /* seconds since 1970 */
                             " ended INTEGER,"
                             " version TEXT NOT NULL,"
                             " outcome TEXT NOT NULL,"
                             " n_epochs INTEGER NOT NULL,"
                             " has_result INTEGER NOT NULL DEFAULT 0,"
                             " epochs INTEGER,"
                             " seconds REAL,"
                             " accuracy REAL,"
                             " accuracy_nodes REAL,"
                             " accuracy_least REAL,"
                             " accuracy_most REAL,"
                             " nodes_tested INTEGER,"
                             " loss REAL,"
                             " train_loss REAL,"
                             " consensus_distance REAL,"
                             " samples_per_s REAL,"
                             " bytes_sent INTEGER,"
                             " bytes_final INTEGER,"
                             " bytes_dense INTEGER,"
                             " messages INTEGER,"
                             " n_parameters INTEGER,"
                             " workspace_bytes INTEGER,"
                             " state_bytes INTEGER,"
                             " model_sha256 TEXT);"
                             "CREATE TABLE options ("
                             " run INTEGER NOT NULL REFERENCES runs (number),"
                             " position INTEGER NOT NULL,"
                             " name TEXT NOT NULL,"
                             " value TEXT NOT NULL,"
                             " is_set INTEGER NOT NULL,"
                             " PRIMARY KEY (run, position)) WITHOUT ROWID;"
                             "CREATE TABLE epochs ("
                             " run INTEGER NOT NULL REFERENCES runs (number),"
                             " epoch INTEGER NOT NULL,"
                             " step INTEGER NOT NULL,"
                             " seconds REAL,"
                             " train_loss REAL,"
                             " train_accuracy REAL,"
                             " loss REAL,"
                             " accuracy REAL,"
                             " consensus_distance REAL,"
                             " learning_rate REAL,"
                             " samples_per_s REAL,"
                             " bytes_sent INTEGER,"
                             " PRIMARY KEY (run, epoch)) WITHOUT ROWID;";

struct oct_runs {
    sqlite3 *db;
    char *path;
    struct oct__text outcome, version, options, sum, name, value; /* what was handed out last */
};

/* --- SQLite ---------------------------------------------------------------------------------- */

static const char *shown(const struct oct_runs *runs) {
    enum { MOST = 200 };
    size_t length = strlen(runs->path);
    return length > MOST ? runs->path + (length - MOST) : runs->path;
}

/* A failure of SQLite's in our words. */
static oct_status refuse(const struct oct_runs *runs, int code) {
    const char *detail = runs->db ? sqlite3_errmsg(runs->db) : sqlite3_errstr(code);
    const char *file = shown(runs);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        OCT_FAIL(NO_MEMORY, "%s: no memory for the database of runs", file);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        OCT_FAIL(IO,
                 "%s: another process has kept the database of runs locked for %d s; try again "
                 "when it is done, or use another with --db FILE",
                 file, PATIENCE_MS / 1000);
    case SQLITE_NOTADB:
        OCT_FAIL(CORRUPT,
                 "%s: is no database of runs; use another file with --db FILE, or none with "
                 "--db none",
                 file);
    case SQLITE_CORRUPT:
    case SQLITE_ERROR: /* a table or a column is missing: somebody changed it */
    case SQLITE_MISMATCH:
        OCT_FAIL(
            CORRUPT,
            "%s: the database of runs is damaged (%.200s); move it away to begin a new one, or "
            "use another with --db FILE",
            file, detail);
    case SQLITE_CONSTRAINT:
        OCT_FAIL(NOT_FOUND, "%s: there is no such run", file);
    default:
        OCT_FAIL(IO,
                 "%s: the database of runs cannot be used: %.200s; use another with --db FILE, or "
                 "none with --db none",
                 file, detail);
    }
}

/* Prepares a statement and binds what follows: 'i' an int64_t, 'u' a uint64_t, 'r' a double, 't' a
 * text or NULL. */
static oct_status prepare(struct oct_runs *runs, sqlite3_stmt **out, const char *sql,
                          const char *format, va_list values) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(runs->db, sql, -1, &statement, NULL);
    for (int i = 0; code == SQLITE_OK && format[i]; i++) {
        if (format[i] == 'i') {
            code = sqlite3_bind_int64(statement, i + 1, va_arg(values, int64_t));
        } else if (format[i] == 'u') {
            uint64_t number = va_arg(values, uint64_t);
            code = sqlite3_bind_int64(statement, i + 1,
                                      number > INT64_MAX ? INT64_MAX : (int64_t)number);
        } else if (format[i] == 'r') {
            double number = va_arg(values, double);
            code = isfinite(number) ? sqlite3_bind_double(statement, i + 1, number)
                                    : sqlite3_bind_null(statement, i + 1);
        } else {
            code = sqlite3_bind_text(statement, i + 1, va_arg(values, const char *), -1,
                                     SQLITE_TRANSIENT);
        }
    }
    if (code != SQLITE_OK) {
        oct_status status = refuse(runs, code);
        sqlite3_finalize(statement);
        return status;
    }
    *out = statement;
    return OCT_OK;
}

/* Runs a statement that gives no rows; *n_changed (may be NULL) tells how many it changed. */
static oct_status execute(struct oct_runs *runs, int *n_changed, const char *sql,
                          const char *format, ...) {
    sqlite3_stmt *statement = NULL;
    va_list values;
    va_start(values, format);
    oct_status status = prepare(runs, &statement, sql, format, values);
    va_end(values);
    OCT_TRY(status);
    int code = sqlite3_step(statement);
    if (code != SQLITE_DONE && code != SQLITE_ROW) {
        status = refuse(runs, code);
    } else if (n_changed) {
        *n_changed = sqlite3_changes(runs->db);
    }
    sqlite3_finalize(statement);
    return status;
}

/* The first row of a query, or NULL when it has none; to be finalized. */
static oct_status first_row(struct oct_runs *runs, sqlite3_stmt **out, const char *sql,
                            const char *format, ...) {
    sqlite3_stmt *statement = NULL;
    va_list values;
    va_start(values, format);
    oct_status status = prepare(runs, &statement, sql, format, values);
    va_end(values);
    OCT_TRY(status);
    int code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? statement : NULL;
    if (code != SQLITE_ROW) {
        status = code == SQLITE_DONE ? OCT_OK : refuse(runs, code);
        sqlite3_finalize(statement);
    }
    return status;
}

static double real_at(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

static uint64_t count_at(sqlite3_stmt *row, int column) {
    int64_t number = sqlite3_column_int64(row, column);
    return number > 0 ? (uint64_t)number : 0;
}

static int int_at(sqlite3_stmt *row, int column) {
    int64_t number = sqlite3_column_int64(row, column);
    return number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : (int)number;
}

/* Keeps a column's text beyond its row. */
static oct_status text_at(sqlite3_stmt *row, int column, struct oct__text *out) {
    const unsigned char *text = sqlite3_column_text(row, column);
    oct__text_clear(out);
    return oct__text_add(out, "%s", text ? (const char *)text : "");
}

/* One number that a query or a pragma gives. */
static oct_status number_of(struct oct_runs *runs, const char *sql, int64_t *out) {
    sqlite3_stmt *row;
    OCT_TRY(first_row(runs, &row, sql, ""));
    *out = row ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_finalize(row);
    return OCT_OK;
}

/* --- opening --------------------------------------------------------------------------------- */

/* Whether the file is ours; *is_new: it has nothing in it yet. */
static oct_status inspect(struct oct_runs *runs, int *is_new) {
    int64_t application, version, n_things;
    OCT_TRY(number_of(runs, "PRAGMA application_id", &application));
    OCT_TRY(number_of(runs, "PRAGMA user_version", &version));
    OCT_TRY(number_of(runs, "SELECT count(*) FROM sqlite_master", &n_things));
    *is_new = application == 0 && version == 0 && n_things == 0;
    if (*is_new) {
        return OCT_OK;
    }
    if (application != APPLICATION) {
        OCT_FAIL(CORRUPT,
                 "%s: is a database of another program; use another file with --db FILE, or none "
                 "with --db none",
                 shown(runs));
    }
    if (version > VERSION) {
        OCT_FAIL(UNSUPPORTED,
                 "%s: a database of runs of version %lld, and this Octet knows version %d; use "
                 "another file with --db FILE, or a newer Octet",
                 shown(runs), (long long)version, VERSION);
    }
    return OCT_OK;
}

/* In one transaction, so that a process that makes the tables just now is seen before or after it
 * has, and never half-way. */
static oct_status look(struct oct_runs *runs, int *is_new) {
    OCT_TRY(execute(runs, NULL, "BEGIN", ""));
    oct_status status = inspect(runs, is_new);
    sqlite3_exec(runs->db, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return status;
}

/* Several processes may find the file empty; the first makes the tables, the others see them. */
static oct_status create_tables(struct oct_runs *runs) {
    int is_new = 0;
    OCT_TRY(execute(runs, NULL, "BEGIN IMMEDIATE", ""));
    oct_status status = inspect(runs, &is_new);
    if (status == OCT_OK && is_new) {
        char pragmas[96];
        snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
                 APPLICATION, VERSION);
        int code = sqlite3_exec(runs->db, schema, NULL, NULL, NULL);
        code = code == SQLITE_OK ? sqlite3_exec(runs->db, pragmas, NULL, NULL, NULL) : code;
        status = code == SQLITE_OK ? OCT_OK : refuse(runs, code);
    }
    if (status == OCT_OK) {
        status = execute(runs, NULL, "COMMIT", "");
    }
    if (status != OCT_OK) {
        sqlite3_exec(runs->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

static oct_status connect(struct oct_runs *runs) {
    int code =
        sqlite3_open_v2(runs->path, &runs->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) {
        return refuse(runs, code);
    }
    sqlite3_busy_timeout(runs->db, PATIENCE_MS);
    /* What a file's schema says is not run: it may come from anybody. */
    sqlite3_db_config(runs->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(runs->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(runs->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(runs->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    int is_new = 0;
    OCT_TRY(look(runs, &is_new));
    return is_new ? create_tables(runs) : OCT_OK;
}

int oct_runs_available(void) {
    return 1;
}

oct_status oct_runs_open(const char *path, struct oct_runs **out) {
    if (!path || !path[0] || !out) {
        OCT_FAIL(INVALID, "opening a database of runs needs the path of its file");
    }
    OCT_TRY(oct__folder_make_above(path));
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_runs), "a database of runs", &memory));
    struct oct_runs *runs = memory;
    oct_status status = oct__alloc_text(path, "a path", &runs->path);
    if (status == OCT_OK) {
        status = connect(runs);
    }
    if (status != OCT_OK) {
        oct_runs_close(runs);
        return status;
    }
    *out = runs;
    return OCT_OK;
}

void oct_runs_close(struct oct_runs *runs) {
    if (!runs) {
        return;
    }
    sqlite3_close(runs->db);
    struct oct__text *texts[] = {&runs->outcome, &runs->version, &runs->options,
                                 &runs->sum,     &runs->name,    &runs->value};
    for (size_t i = 0; i < OCT_COUNT_OF(texts); i++) {
        oct__text_fini(texts[i]);
    }
    oct__free(runs->path);
    oct__free(runs);
}

/* --- writing --------------------------------------------------------------------------------- */

static oct_status insert_run(struct oct_runs *runs, const struct oct_config *config) {
    const struct oct_option *option;
    const char *epochs = oct_config_get(config, "epochs");
    OCT_TRY(execute(runs, NULL,
                    "INSERT INTO runs (started, version, outcome, n_epochs)"
                    " VALUES (?, ?, 'running', ?)",
                    "iti", (int64_t)time(NULL), oct_version(),
                    (int64_t)strtoll(epochs ? epochs : "0", NULL, 10)));
    int64_t run = sqlite3_last_insert_rowid(runs->db);
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        OCT_TRY(execute(runs, NULL,
                        "INSERT INTO options (run, position, name, value, is_set)"
                        " VALUES (?, ?, ?, ?, ?)",
                        "iitti", run, (int64_t)i, option->name,
                        oct_config_get(config, option->name),
                        (int64_t)oct_config_is_set(config, option->name)));
    }
    return OCT_OK;
}

oct_status oct_runs_begin(struct oct_runs *runs, const struct oct_config *config, int64_t *run) {
    if (!runs || !config || !run) {
        OCT_FAIL(INVALID, "beginning a run needs a database, a configuration and a place");
    }
    OCT_TRY(execute(runs, NULL, "BEGIN IMMEDIATE", ""));
    oct_status status = insert_run(runs, config);
    int64_t number = 0;
    if (status == OCT_OK) {
        status = number_of(runs, "SELECT max(number) FROM runs", &number);
    }
    if (status == OCT_OK) {
        status = execute(runs, NULL, "COMMIT", "");
    }
    if (status != OCT_OK) {
        sqlite3_exec(runs->db, "ROLLBACK", NULL, NULL, NULL);
        return status;
    }
    *run = number;
    return OCT_OK;
}

oct_status oct_runs_epoch(struct oct_runs *runs, int64_t run, const struct oct_progress *p) {
    if (!runs || !p) {
        OCT_FAIL(INVALID, "noting an epoch needs a database and the epoch's progress");
    }
    return execute(runs, NULL,
                   "INSERT OR REPLACE INTO epochs (run, epoch, step, seconds, train_loss,"
                   " train_accuracy, loss, accuracy, consensus_distance, learning_rate,"
                   " samples_per_s, bytes_sent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   "iiirrrrrrrru", run, (int64_t)p->epoch, p->step, p->seconds, p->loss,
                   p->accuracy, p->test_loss, p->test_accuracy, p->consensus_distance,
                   p->learning_rate, p->samples_per_s, p->bytes_sent);
}

static oct_status update_run(struct oct_runs *runs, int64_t run, const char *outcome,
                             const struct oct_result *r, int *n_changed) {
    if (!r) {
        return execute(runs, n_changed, "UPDATE runs SET ended = ?, outcome = ? WHERE number = ?",
                       "iti", (int64_t)time(NULL), outcome, run);
    }
    return execute(runs, n_changed,
                   "UPDATE runs SET ended = ?, outcome = ?, has_result = 1, epochs = ?,"
                   " seconds = ?, accuracy = ?, accuracy_nodes = ?, accuracy_least = ?,"
                   " accuracy_most = ?, nodes_tested = ?, loss = ?, train_loss = ?,"
                   " consensus_distance = ?, samples_per_s = ?, bytes_sent = ?, bytes_final = ?,"
                   " bytes_dense = ?, messages = ?, n_parameters = ?, workspace_bytes = ?,"
                   " state_bytes = ?, model_sha256 = ? WHERE number = ?",
                   "itirrrrrirrrruuuuiuuti", (int64_t)time(NULL), outcome, (int64_t)r->epochs,
                   r->seconds, r->accuracy, r->accuracy_nodes, r->accuracy_least, r->accuracy_most,
                   (int64_t)r->nodes_tested, r->loss, r->train_loss, r->consensus_distance,
                   r->samples_per_s, r->bytes_sent, r->bytes_final, r->bytes_dense, r->messages,
                   r->n_parameters, r->workspace_bytes, r->state_bytes, r->model_sha256, run);
}

static oct_status no_such_run(struct oct_runs *runs, int64_t number) {
    int64_t first, last;
    OCT_TRY(number_of(runs, "SELECT min(number) FROM runs", &first));
    OCT_TRY(number_of(runs, "SELECT max(number) FROM runs", &last));
    if (last == 0) {
        OCT_FAIL(NOT_FOUND, "%s: there is no run %lld: it has none yet", shown(runs),
                 (long long)number);
    }
    OCT_FAIL(NOT_FOUND, "%s: there is no run %lld; its runs have the numbers %lld to %lld",
             shown(runs), (long long)number, (long long)first, (long long)last);
}

oct_status oct_runs_end(struct oct_runs *runs, int64_t run, const char *outcome,
                        const struct oct_result *result) {
    if (!runs || !outcome) {
        OCT_FAIL(INVALID, "ending a run needs a database and the outcome");
    }
    int n_changed = 0;
    OCT_TRY(update_run(runs, run, outcome, result, &n_changed));
    return n_changed > 0 ? OCT_OK : no_such_run(runs, run);
}

/* --- reading --------------------------------------------------------------------------------- */

/* What a run ended with and, beside it, its last epoch. */
#define SELECT_RUN                                                                                 \
    "SELECT r.number, r.started, r.version, r.outcome, r.n_epochs, r.has_result,"                  \
    " r.epochs, r.seconds, r.accuracy, r.accuracy_nodes, r.accuracy_least, r.accuracy_most,"       \
    " r.loss, r.train_loss, r.consensus_distance, r.samples_per_s, r.bytes_sent, r.bytes_final,"   \
    " r.bytes_dense, r.n_parameters, r.model_sha256,"                                              \
    " e.epoch, e.seconds, e.accuracy, e.loss, e.train_loss, e.consensus_distance,"                 \
    " e.samples_per_s, e.bytes_sent"                                                               \
    " FROM runs r LEFT JOIN epochs e ON e.run = r.number"                                          \
    " AND e.epoch = (SELECT max(epoch) FROM epochs WHERE run = r.number) "

enum column {
    NUMBER,
    STARTED,
    RUN_VERSION,
    OUTCOME,
    N_EPOCHS,
    HAS_RESULT,
    EPOCHS,
    SECONDS,
    ACCURACY,
    ACCURACY_NODES,
    ACCURACY_LEAST,
    ACCURACY_MOST,
    LOSS,
    TRAIN_LOSS,
    DISTANCE,
    SPEED,
    BYTES_SENT,
    BYTES_FINAL,
    BYTES_DENSE,
    N_PARAMETERS,
    SUM,
    LAST_EPOCH,
    LAST_SECONDS,
    LAST_ACCURACY,
    LAST_LOSS,
    LAST_TRAIN_LOSS,
    LAST_DISTANCE,
    LAST_SPEED,
    LAST_BYTES_SENT,
};

/* Where a run is kept says nothing about the run. */
static oct_status read_options(struct oct_runs *runs, int64_t number) {
    sqlite3_stmt *row;
    oct__text_clear(&runs->options);
    OCT_TRY(oct__text_add(&runs->options, "%s", ""));
    OCT_TRY(first_row(runs, &row,
                      "SELECT name, value FROM options WHERE run = ? AND is_set AND name NOT IN"
                      " ('checkpoint', 'every', 'resume', 'db') ORDER BY position",
                      "i", number));
    oct_status status = OCT_OK;
    int code = row ? SQLITE_ROW : SQLITE_DONE;
    while (code == SQLITE_ROW && status == OCT_OK) {
        const char *name = (const char *)sqlite3_column_text(row, 0);
        const char *value = (const char *)sqlite3_column_text(row, 1);
        status = oct__text_add(&runs->options, "%s--%s %s", runs->options.n_bytes ? " " : "",
                               name ? name : "", value ? value : "");
        code = sqlite3_step(row);
    }
    if (status == OCT_OK && code != SQLITE_ROW && code != SQLITE_DONE) {
        status = refuse(runs, code);
    }
    sqlite3_finalize(row);
    return status;
}

static oct_status read_run(struct oct_runs *runs, sqlite3_stmt *row, struct oct_run *out) {
    const int ended = sqlite3_column_int64(row, HAS_RESULT) != 0;
    const int has_epoch = sqlite3_column_type(row, LAST_EPOCH) != SQLITE_NULL;
    const int has_sum = sqlite3_column_type(row, SUM) == SQLITE_TEXT;
    OCT_TRY(text_at(row, OUTCOME, &runs->outcome));
    OCT_TRY(text_at(row, RUN_VERSION, &runs->version));
    OCT_TRY(text_at(row, SUM, &runs->sum));
    struct oct_run run = {
        .number = sqlite3_column_int64(row, NUMBER),
        .started = sqlite3_column_int64(row, STARTED),
        .seconds = real_at(row, ended ? SECONDS : LAST_SECONDS),
        .outcome = runs->outcome.at,
        .version = runs->version.at,
        .epochs = int_at(row, ended ? EPOCHS : LAST_EPOCH),
        .n_epochs = int_at(row, N_EPOCHS),
        .has_result = ended || has_epoch,
        .accuracy = real_at(row, ended ? ACCURACY : LAST_ACCURACY),
        .accuracy_nodes = real_at(row, ACCURACY_NODES),
        .accuracy_least = real_at(row, ACCURACY_LEAST),
        .accuracy_most = real_at(row, ACCURACY_MOST),
        .loss = real_at(row, ended ? LOSS : LAST_LOSS),
        .train_loss = real_at(row, ended ? TRAIN_LOSS : LAST_TRAIN_LOSS),
        .consensus_distance = real_at(row, ended ? DISTANCE : LAST_DISTANCE),
        .samples_per_s = real_at(row, ended ? SPEED : LAST_SPEED),
        .bytes_sent = count_at(row, ended ? BYTES_SENT : LAST_BYTES_SENT),
        .bytes_final = count_at(row, BYTES_FINAL),
        .bytes_dense = count_at(row, BYTES_DENSE),
        .n_parameters = sqlite3_column_int64(row, N_PARAMETERS),
        .model_sha256 = has_sum ? runs->sum.at : NULL,
    };
    OCT_TRY(read_options(runs, run.number));
    run.options = runs->options.at;
    *out = run;
    return OCT_OK;
}

oct_status oct_runs_at(struct oct_runs *runs, int64_t index, struct oct_run *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading a run needs a database and a place");
    }
    sqlite3_stmt *row = NULL;
    if (index >= 0) {
        OCT_TRY(first_row(runs, &row, SELECT_RUN "ORDER BY r.number DESC LIMIT 1 OFFSET ?", "i",
                          index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: it has no more than %lld runs", shown(runs), (long long)index);
    }
    oct_status status = read_run(runs, row, out);
    sqlite3_finalize(row);
    return status;
}

oct_status oct_runs_find(struct oct_runs *runs, int64_t number, struct oct_run *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading a run needs a database and a place");
    }
    sqlite3_stmt *row;
    OCT_TRY(first_row(runs, &row, SELECT_RUN "WHERE r.number = ?", "i", number));
    if (!row) {
        return no_such_run(runs, number);
    }
    oct_status status = read_run(runs, row, out);
    sqlite3_finalize(row);
    return status;
}

oct_status oct_runs_epoch_at(struct oct_runs *runs, int64_t number, int index,
                             struct oct_run_epoch *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading an epoch needs a database and a place");
    }
    sqlite3_stmt *row = NULL;
    if (index >= 0) {
        OCT_TRY(first_row(runs, &row,
                          "SELECT epoch, train_loss, train_accuracy, loss, accuracy,"
                          " consensus_distance, learning_rate, samples_per_s, seconds, bytes_sent"
                          " FROM epochs WHERE run = ? ORDER BY epoch LIMIT 1 OFFSET ?",
                          "ii", number, (int64_t)index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no more than %d epochs", shown(runs),
                 (long long)number, index);
    }
    *out = (struct oct_run_epoch){
        .epoch = int_at(row, 0),
        .train_loss = real_at(row, 1),
        .train_accuracy = real_at(row, 2),
        .loss = real_at(row, 3),
        .accuracy = real_at(row, 4),
        .consensus_distance = real_at(row, 5),
        .learning_rate = real_at(row, 6),
        .samples_per_s = real_at(row, 7),
        .seconds = real_at(row, 8),
        .bytes_sent = count_at(row, 9),
    };
    sqlite3_finalize(row);
    return OCT_OK;
}

oct_status oct_runs_option_at(struct oct_runs *runs, int64_t number, int index, const char **name,
                              const char **value, int *is_set) {
    if (!runs || !name || !value) {
        OCT_FAIL(INVALID, "reading an option needs a database and places");
    }
    sqlite3_stmt *row = NULL;
    if (index >= 0) {
        OCT_TRY(first_row(runs, &row,
                          "SELECT name, value, is_set FROM options WHERE run = ?"
                          " ORDER BY position LIMIT 1 OFFSET ?",
                          "ii", number, (int64_t)index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no more than %d options", shown(runs),
                 (long long)number, index);
    }
    oct_status status = text_at(row, 0, &runs->name);
    if (status == OCT_OK) {
        status = text_at(row, 1, &runs->value);
    }
    if (status == OCT_OK) {
        *name = runs->name.at;
        *value = runs->value.at;
        if (is_set) {
            *is_set = sqlite3_column_int64(row, 2) != 0;
        }
    }
    sqlite3_finalize(row);
    return status;
}

#else

#include "base/fail.h"

static oct_status unavailable(void) {
    OCT_FAIL(UNSUPPORTED, "this build keeps no database of runs: it was built without SQLite "
                          "(Debian's libsqlite3-dev)");
}

int oct_runs_available(void) {
    return 0;
}

oct_status oct_runs_open(const char *path, struct oct_runs **out) {
    (void)path, (void)out;
    return unavailable();
}

void oct_runs_close(struct oct_runs *runs) {
    (void)runs;
}

oct_status oct_runs_begin(struct oct_runs *runs, const struct oct_config *config, int64_t *run) {
    (void)runs, (void)config, (void)run;
    return unavailable();
}

oct_status oct_runs_epoch(struct oct_runs *runs, int64_t run, const struct oct_progress *progress) {
    (void)runs, (void)run, (void)progress;
    return unavailable();
}

oct_status oct_runs_end(struct oct_runs *runs, int64_t run, const char *outcome,
                        const struct oct_result *result) {
    (void)runs, (void)run, (void)outcome, (void)result;
    return unavailable();
}

oct_status oct_runs_at(struct oct_runs *runs, int64_t index, struct oct_run *out) {
    (void)runs, (void)index, (void)out;
    return unavailable();
}

oct_status oct_runs_find(struct oct_runs *runs, int64_t number, struct oct_run *out) {
    (void)runs, (void)number, (void)out;
    return unavailable();
}

oct_status oct_runs_epoch_at(struct oct_runs *runs, int64_t number, int index,
                             struct oct_run_epoch *out) {
    (void)runs, (void)number, (void)index, (void)out;
    return unavailable();
}

oct_status oct_runs_option_at(struct oct_runs *runs, int64_t number, int index, const char **name,
                              const char **value, int *is_set) {
    (void)runs, (void)number, (void)index, (void)name, (void)value, (void)is_set;
    return unavailable();
}

#endif
