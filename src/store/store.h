/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - inside of the database of runs.
 *
 *     statements.c   SQLite in our words: values in, values out, failures as statuses
 *     schema.c       opening: the tables, and how those of older versions become today's
 *     machine.c      what a run ran on, and whether its process still lives
 *     write.c        begin, epoch, end, delete
 *     read.c         runs, epochs, options, nodes, edges, classes
 *     absent.c       all of it in a build without SQLite
 *
 * Every call is one transaction. The journal is the rollback journal, not the write-ahead log: a few
 * rows an epoch need no speed, and so the database is one file that can be copied, that works in a
 * home folder on a network, and that can be read where nothing may be written. Writers from other
 * processes wait for one another up to ten seconds.
 *
 * SQLite keeps NaN as NULL but knows infinity; both are kept as NULL here, and come back as NaN.
 */
#ifndef OCT_STORE_STORE_H
#define OCT_STORE_STORE_H

#include <octet/runs.h>
#include <sqlite3.h>

#include "base/alloc.h"
#include "base/text.h"

/* How long another process may keep the file; and, after an epoch could not be written, how long
 * the next ones wait: training goes on meanwhile. */
#define OCT_RUNS_PATIENCE_MS 10000
#define OCT_RUNS_IMPATIENCE_MS 500

/* A run of more nodes has no rows of nodes and classes, one of more edges none of edges. */
#define OCT_RUNS_NODES 1024
#define OCT_RUNS_EDGES 16384

/* Statements that are kept ready: more than there are. */
#define OCT_RUNS_STATEMENTS 64

struct oct_runs {
    sqlite3 *db;
    char *path;
    int is_to_read; /* nothing is to be written */
    int is_copy;   /* in memory, of a file of an older version that cannot or must not be written */
    int last_code; /* SQLite's, of the last failure */
    int patience_ms;
    int n_waiting; /* epochs that could not be written so far */
    struct oct__runs_statement {
        const char *sql; /* by address: texts are literals */
        sqlite3_stmt *statement;
    } ready[OCT_RUNS_STATEMENTS];
    int n_ready;
    int has_kept; /* the tables of epochs that wait to be written are there */

    /* where oct_runs_at stands, so that the next run need not be counted to */
    struct {
        int64_t index, number;
    } run_at;

    /* nodes and edges of an epoch, classes of a node: read all at once when the first is asked for,
     * because a query costs more in locks than in rows */
    struct oct__runs_list {
        int64_t number; /* of the run; 0: nothing is here */
        int epoch;      /* as it was asked for; of classes: the node */
        void *items;
        size_t n, capacity;
    } nodes, edges, classes;

    struct oct__text outcome, version, options, sum, name, value, machine, label; /* handed out */
};

/* --- statements.c ----------------------------------------------------------------------------- */

/* The path's end, for messages. */
const char *oct__runs_shown(const struct oct_runs *runs);

/* A failure of SQLite's in our words. */
oct_status oct__runs_refuse(struct oct_runs *runs, int code);

/* Runs a statement that gives no rows; *n_changed (may be NULL) tells how many it changed. `sql` must
 * be a literal. Values follow by `format`: 'i' an int64_t, 'u' a uint64_t, 'r' a double, 't' a text
 * or NULL. */
OCT_MUST_CHECK oct_status oct__runs_execute(struct oct_runs *runs, int *n_changed, const char *sql,
                                            const char *format, ...);

/* The first row of a query, or NULL when it has none; give it back with oct__runs_done. */
OCT_MUST_CHECK oct_status oct__runs_row(struct oct_runs *runs, sqlite3_stmt **out, const char *sql,
                                        const char *format, ...);
void oct__runs_done(sqlite3_stmt *row);

/* One number that a query or a pragma gives; 0 without any. */
OCT_MUST_CHECK oct_status oct__runs_number(struct oct_runs *runs, int64_t *out, const char *sql);

/* Several statements at once, without values. */
OCT_MUST_CHECK oct_status oct__runs_script(struct oct_runs *runs, const char *sql);

/* What all transactions that write have in common: `status` is what the work between came to; COMMIT,
 * or ROLLBACK. */
OCT_MUST_CHECK oct_status oct__runs_begin_write(struct oct_runs *runs);
OCT_MUST_CHECK oct_status oct__runs_end_write(struct oct_runs *runs, oct_status status);

/* Frees the statements. */
void oct__runs_forget(struct oct_runs *runs);

/* Columns: NULL is NaN, or 0. */
double oct__runs_real_at(sqlite3_stmt *row, int column);
uint64_t oct__runs_count_at(sqlite3_stmt *row, int column);
int oct__runs_int_at(sqlite3_stmt *row, int column);
/* Keeps a column's text beyond its row. */
OCT_MUST_CHECK oct_status oct__runs_text_at(sqlite3_stmt *row, int column, struct oct__text *out);

/* NOT_FOUND, with the numbers that there are. */
oct_status oct__runs_no_such_run(struct oct_runs *runs, int64_t number);

/* --- machine.c -------------------------------------------------------------------------------- */

struct oct__machine {
    char cpu[64];
    int cores;
    const char *level;
    char system[128];
    const char *compiler;
};

void oct__machine_read(struct oct__machine *out);

/* This process in a text that no other process has: "HOST BOOT NAMESPACE PID START". */
#define OCT_PROCESS_BYTES 256
void oct__process_name(char out[OCT_PROCESS_BYTES]);

enum oct__process_state {
    OCT_PROCESS_LIVES,
    OCT_PROCESS_GONE,
    OCT_PROCESS_ELSEWHERE, /* on another machine, or nothing is known of it */
};

enum oct__process_state oct__process_find(const char *name);

#endif
