/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - opening a database of runs: the tables, and how those of older versions become today's.
 *
 *     version 1   runs, options, epochs
 *     version 2   machine, process and gossip_share of runs; clip rates of epochs;
 *                 nodes, node_epochs, edges, classes
 *
 * PRAGMA application_id says that a file is ours, PRAGMA user_version which of our versions it has.
 * Each version is a script that makes it out of the one before, and a new file goes through all of
 * them: it cannot come out otherwise than an old one that was brought up to date. They only add, so
 * a process of an older Octet that has the file open meanwhile can go on with it. Who only reads makes
 * no tables: the scripts run on a copy in memory.
 *
 * docs/howto/runs.md has the columns, for people who ask the file themselves.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include "base/folder.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define APPLICATION 0x4f637465 /* "Octe" */
#define VERSION 2

static const char *const scripts[VERSION] = {
    "CREATE TABLE runs ("
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
    " PRIMARY KEY (run, epoch)) WITHOUT ROWID;",

    "ALTER TABLE runs ADD COLUMN cpu TEXT;"
    "ALTER TABLE runs ADD COLUMN cores INTEGER;"
    "ALTER TABLE runs ADD COLUMN threads INTEGER;"
    "ALTER TABLE runs ADD COLUMN level TEXT;"
    "ALTER TABLE runs ADD COLUMN system TEXT;"
    "ALTER TABLE runs ADD COLUMN compiler TEXT;"
    "ALTER TABLE runs ADD COLUMN process TEXT;"
    "ALTER TABLE runs ADD COLUMN n_classes INTEGER;"
    "ALTER TABLE runs ADD COLUMN gossip_share REAL;"
    "ALTER TABLE epochs ADD COLUMN clipped REAL;"
    "ALTER TABLE epochs ADD COLUMN zero REAL;"
    "CREATE TABLE nodes ("
    " run INTEGER NOT NULL REFERENCES runs (number),"
    " node INTEGER NOT NULL,"
    " n_samples INTEGER NOT NULL,"
    " accuracy REAL,"
    " PRIMARY KEY (run, node)) WITHOUT ROWID;"
    "CREATE TABLE node_epochs ("
    " run INTEGER NOT NULL REFERENCES runs (number),"
    " epoch INTEGER NOT NULL,"
    " node INTEGER NOT NULL,"
    " train_loss REAL,"
    " train_accuracy REAL,"
    " consensus_distance REAL,"
    " bytes_sent INTEGER,"
    " PRIMARY KEY (run, epoch, node)) WITHOUT ROWID;"
    "CREATE TABLE edges ("
    " run INTEGER NOT NULL REFERENCES runs (number),"
    " epoch INTEGER NOT NULL,"
    " sender INTEGER NOT NULL,"
    " receiver INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " messages INTEGER NOT NULL,"
    " PRIMARY KEY (run, epoch, sender, receiver)) WITHOUT ROWID;"
    "CREATE TABLE classes ("
    " run INTEGER NOT NULL REFERENCES runs (number),"
    " node INTEGER NOT NULL,"
    " label INTEGER NOT NULL,"
    " n_samples INTEGER NOT NULL,"
    " PRIMARY KEY (run, node, label)) WITHOUT ROWID;",
};

/* Of ours no table is virtual, and no column computes its values: reading them would run what a stranger
 * has written. (In this order: to list the columns of a virtual table is to run its module.) */
static oct_status refuse_code(struct oct_runs *runs) {
    static const char *const counts[] = {
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND rootpage = 0",
        "SELECT count(*) FROM sqlite_master AS thing, pragma_table_xinfo(thing.name) AS c "
        "WHERE thing.type = 'table' AND c.hidden > 1"};
    for (int i = 0; i < 2; i++) {
        int64_t n;
        OCT_TRY(oct__runs_number(runs, &n, counts[i]));
        if (n > 0) {
            OCT_FAIL(CORRUPT,
                     "%s: is no database that Octet made (%s); use another file with --db FILE, or "
                     "none with --db none",
                     oct__runs_shown(runs),
                     i == 0 ? "a table of it is virtual" : "a column of it computes its values");
        }
    }
    return OCT_OK;
}

/* What version the file has; 0: there is nothing in it yet. Refuses what is not ours. */
static oct_status inspect(struct oct_runs *runs, int *out) {
    int64_t application, version, n_things;
    OCT_TRY(oct__runs_number(runs, &application, "PRAGMA application_id"));
    OCT_TRY(oct__runs_number(runs, &version, "PRAGMA user_version"));
    OCT_TRY(oct__runs_number(runs, &n_things, "SELECT count(*) FROM sqlite_master"));
    *out = 0;
    if (application == 0 && version == 0 && n_things == 0) {
        return OCT_OK;
    }
    if (application != APPLICATION) {
        OCT_FAIL(CORRUPT,
                 "%s: is a database of another program; use another file with --db FILE, or none "
                 "with --db none",
                 oct__runs_shown(runs));
    }
    if (version > VERSION) {
        OCT_FAIL(UNSUPPORTED,
                 "%s: a database of runs of version %lld, and this Octet knows version %d; use "
                 "another file with --db FILE, or a newer Octet",
                 oct__runs_shown(runs), (long long)version, VERSION);
    }
    if (version < 1) {
        OCT_FAIL(CORRUPT,
                 "%s: the database of runs is damaged (its version is %lld); move it away to begin "
                 "a new one, or use another with --db FILE",
                 oct__runs_shown(runs), (long long)version);
    }
    *out = (int)version;
    return refuse_code(runs);
}

/* In one transaction, so that a process that makes the tables just now is seen before or after it
 * has, and never half-way. */
static oct_status look(struct oct_runs *runs, int *version) {
    OCT_TRY(oct__runs_execute(runs, NULL, "BEGIN", ""));
    oct_status status = inspect(runs, version);
    sqlite3_exec(runs->db, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return status;
}

static oct_status run_scripts(struct oct_runs *runs) {
    int version;
    OCT_TRY(inspect(runs, &version)); /* another process may have been here first */
    while (version < VERSION) {
        char pragmas[96];
        OCT_TRY(oct__runs_script(runs, scripts[version++]));
        snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
                 APPLICATION, version);
        OCT_TRY(oct__runs_script(runs, pragmas));
    }
    return OCT_OK;
}

/* All versions up to today's, in one transaction. */
static oct_status bring_up_to_date(struct oct_runs *runs) {
    OCT_TRY(oct__runs_begin_write(runs));
    return oct__runs_end_write(runs, run_scripts(runs));
}

static void configure(struct oct_runs *runs) {
    sqlite3 *db = runs->db;
    runs->patience_ms = OCT_RUNS_PATIENCE_MS;
    sqlite3_busy_timeout(db, runs->patience_ms);
    /* What a file's schema says is not run: it may come from anybody. */
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    sqlite3_exec(db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
}

/* An archive of an older version that cannot be written, or is only to be read, is read from a copy in
 * memory, which is brought up to date instead. */
static oct_status copy_to_memory(struct oct_runs *runs) {
    sqlite3 *memory = NULL;
    int code = sqlite3_open_v2(":memory:", &memory, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK) {
        sqlite3_backup *backup = sqlite3_backup_init(memory, "main", runs->db, "main");
        code = backup ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(memory);
        code = code == SQLITE_DONE ? SQLITE_OK : code;
        int ending = sqlite3_backup_finish(backup);
        code = code == SQLITE_OK ? ending : code;
    }
    if (code != SQLITE_OK) {
        sqlite3_close(memory);
        return oct__runs_refuse(runs, code);
    }
    oct__runs_forget(runs);
    sqlite3_close(runs->db);
    runs->db = memory;
    configure(runs);
    OCT_TRY(bring_up_to_date(runs));
    runs->is_copy = 1;
    return OCT_OK;
}

/* Also a reader opens it to be written, so that SQLite can take back what a writer left half done. */
static oct_status connect(struct oct_runs *runs, int flags, int *version) {
    int code = sqlite3_open_v2(runs->path, &runs->db, SQLITE_OPEN_READWRITE | flags, NULL);
    if (code != SQLITE_OK) {
        return oct__runs_refuse(runs, code);
    }
    configure(runs);
    return look(runs, version);
}

static oct_status open_to_write(struct oct_runs *runs) {
    int version = 0;
    OCT_TRY(oct__folder_make_above(runs->path));
    OCT_TRY(connect(runs, SQLITE_OPEN_CREATE, &version));
    if (version == VERSION) {
        return OCT_OK;
    }
    oct_status status = bring_up_to_date(runs);
    if (status == OCT_STATUS_IO && version > 0 &&
        (runs->last_code == SQLITE_READONLY || runs->last_code == SQLITE_CANTOPEN)) {
        status = copy_to_memory(runs);
    }
    return status;
}

static oct_status open_to_read(struct oct_runs *runs) {
    int version = 0;
    struct stat facts;
    if (stat(runs->path, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        OCT_FAIL(NOT_FOUND, "%s: no such database of runs", oct__runs_shown(runs));
    }
    OCT_TRY(connect(runs, 0, &version));
    if (version == 0) {
        OCT_FAIL(NOT_FOUND, "%s: is empty, and no database of runs yet", oct__runs_shown(runs));
    }
    if (version < VERSION) {
        OCT_TRY(copy_to_memory(runs));
    }
    runs->is_to_read = 1;
    return OCT_OK;
}

int oct_runs_available(void) {
    return 1;
}

static oct_status open_with(oct_status (*how)(struct oct_runs *runs), const char *path,
                            struct oct_runs **out) {
    if (!path || !path[0] || !out) {
        OCT_FAIL(INVALID, "opening a database of runs needs the path of its file");
    }
    void *memory;
    OCT_TRY(oct__alloc(sizeof(struct oct_runs), "a database of runs", &memory));
    struct oct_runs *runs = memory;
    oct_status status = oct__alloc_text(path, "a path", &runs->path);
    if (status == OCT_OK) {
        status = how(runs);
    }
    if (status != OCT_OK) {
        oct_runs_close(runs);
        return status;
    }
    *out = runs;
    return OCT_OK;
}

oct_status oct_runs_open(const char *path, struct oct_runs **out) {
    return open_with(open_to_write, path, out);
}

oct_status oct_runs_open_to_read(const char *path, struct oct_runs **out) {
    return open_with(open_to_read, path, out);
}

void oct_runs_close(struct oct_runs *runs) {
    if (!runs) {
        return;
    }
    oct__runs_forget(runs);
    sqlite3_close(runs->db);
    struct oct__text *texts[] = {&runs->outcome, &runs->version, &runs->options, &runs->sum,
                                 &runs->name,    &runs->value,   &runs->machine, &runs->label};
    for (size_t i = 0; i < OCT_COUNT_OF(texts); i++) {
        oct__text_fini(texts[i]);
    }
    oct__free(runs->nodes.items);
    oct__free(runs->edges.items);
    oct__free(runs->classes.items);
    oct__free(runs->path);
    oct__free(runs);
}

#endif
