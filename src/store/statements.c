/* SPDX-License-Identifier: Apache-2.0 */
/* statements.c - SQLite in our words: values in, values out, failures as statuses.
 *
 * Statements are prepared once and kept: preparing costs more than running one, and a list of a
 * thousand runs, or an epoch of a thousand nodes, runs the same few thousands of times.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include "store/store.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *oct__runs_shown(const struct oct_runs *runs) {
    enum { MOST = 200 };
    size_t length = strlen(runs->path);
    return length > MOST ? runs->path + (length - MOST) : runs->path;
}

oct_status oct__runs_refuse(struct oct_runs *runs, int code) {
    const char *detail = runs->db ? sqlite3_errmsg(runs->db) : sqlite3_errstr(code);
    const char *file = oct__runs_shown(runs);
    runs->last_code = code & 0xff;
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        OCT_FAIL(NO_MEMORY, "%s: no memory for the database of runs", file);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        OCT_FAIL(IO,
                 "%s: the database of runs is locked: another process has kept it for %g s; try "
                 "again when it is done, or use another with --db FILE",
                 file, (runs->n_waiting ? OCT_RUNS_IMPATIENCE_MS : runs->patience_ms) / 1000.0);
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

/* --- statements ------------------------------------------------------------------------------ */

void oct__runs_forget(struct oct_runs *runs) {
    for (int i = 0; i < runs->n_ready; i++) {
        sqlite3_finalize(runs->ready[i].statement);
    }
    runs->n_ready = 0;
}

/* The statement of a literal, ready to be bound; prepared where it is new. */
static int find(struct oct_runs *runs, const char *sql, sqlite3_stmt **out) {
    for (int i = 0; i < runs->n_ready; i++) {
        if (runs->ready[i].sql == sql) {
            *out = runs->ready[i].statement;
            return SQLITE_OK;
        }
    }
    if (runs->n_ready == OCT_RUNS_STATEMENTS) { /* the oldest makes room; none of it is in use */
        sqlite3_finalize(runs->ready[0].statement);
        memmove(runs->ready, runs->ready + 1, (OCT_RUNS_STATEMENTS - 1) * sizeof runs->ready[0]);
        runs->n_ready--;
    }
    int code = sqlite3_prepare_v3(runs->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    if (code == SQLITE_OK) {
        runs->ready[runs->n_ready++] = (struct oct__runs_statement){sql, *out};
    }
    return code;
}

void oct__runs_done(sqlite3_stmt *row) {
    if (row) {
        sqlite3_reset(row);
        sqlite3_clear_bindings(row);
    }
}

static oct_status prepare(struct oct_runs *runs, sqlite3_stmt **out, const char *sql,
                          const char *format, va_list values) {
    sqlite3_stmt *statement = NULL;
    int code = find(runs, sql, &statement);
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
        oct_status status = oct__runs_refuse(runs, code);
        oct__runs_done(statement);
        return status;
    }
    *out = statement;
    return OCT_OK;
}

oct_status oct__runs_execute(struct oct_runs *runs, int *n_changed, const char *sql,
                             const char *format, ...) {
    sqlite3_stmt *statement = NULL;
    va_list values;
    va_start(values, format);
    oct_status status = prepare(runs, &statement, sql, format, values);
    va_end(values);
    OCT_TRY(status);
    int code = sqlite3_step(statement);
    if (code != SQLITE_DONE && code != SQLITE_ROW) {
        status = oct__runs_refuse(runs, code);
    } else if (n_changed) {
        *n_changed = sqlite3_changes(runs->db);
    }
    oct__runs_done(statement);
    return status;
}

oct_status oct__runs_row(struct oct_runs *runs, sqlite3_stmt **out, const char *sql,
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
        status = code == SQLITE_DONE ? OCT_OK : oct__runs_refuse(runs, code);
        oct__runs_done(statement);
    }
    return status;
}

oct_status oct__runs_number(struct oct_runs *runs, int64_t *out, const char *sql) {
    sqlite3_stmt *row;
    OCT_TRY(oct__runs_row(runs, &row, sql, ""));
    *out = row ? sqlite3_column_int64(row, 0) : 0;
    oct__runs_done(row);
    return OCT_OK;
}

oct_status oct__runs_script(struct oct_runs *runs, const char *sql) {
    int code = sqlite3_exec(runs->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? OCT_OK : oct__runs_refuse(runs, code);
}

oct_status oct__runs_begin_write(struct oct_runs *runs) {
    if (runs->is_to_read) {
        OCT_FAIL(INVALID,
                 "%s: the database of runs was opened to be read; oct_runs_open opens it to "
                 "be written",
                 oct__runs_shown(runs));
    }
    if (runs->is_copy) {
        OCT_FAIL(IO,
                 "%s: the database of runs is of an older version and readonly, so nothing can be "
                 "added; use another with --db FILE, or none with --db none",
                 oct__runs_shown(runs));
    }
    return oct__runs_execute(runs, NULL, "BEGIN IMMEDIATE", "");
}

oct_status oct__runs_end_write(struct oct_runs *runs, oct_status status) {
    if (status == OCT_OK) {
        status = oct__runs_execute(runs, NULL, "COMMIT", "");
    }
    if (status != OCT_OK) {
        sqlite3_exec(runs->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

/* --- columns --------------------------------------------------------------------------------- */

double oct__runs_real_at(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

uint64_t oct__runs_count_at(sqlite3_stmt *row, int column) {
    int64_t number = sqlite3_column_int64(row, column);
    return number > 0 ? (uint64_t)number : 0;
}

int oct__runs_int_at(sqlite3_stmt *row, int column) {
    int64_t number = sqlite3_column_int64(row, column);
    return number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : (int)number;
}

oct_status oct__runs_text_at(sqlite3_stmt *row, int column, struct oct__text *out) {
    const unsigned char *text = sqlite3_column_text(row, column);
    oct__text_clear(out);
    return oct__text_add(out, "%s", text ? (const char *)text : "");
}

/* --- which runs there are -------------------------------------------------------------------- */

/* "1 to 3, 7, 9 to 12": the first few pieces, and how it goes on. */
static oct_status list_numbers(struct oct_runs *runs, char *out, size_t bytes) {
    enum { PIECES = 6 };
    sqlite3_stmt *row;
    size_t used = 0;
    int n_pieces = 0, code = SQLITE_ROW;
    OCT_TRY(oct__runs_row(runs, &row, "SELECT number FROM runs ORDER BY number", ""));
    out[0] = '\0';
    while (row && code == SQLITE_ROW && n_pieces < PIECES) {
        int64_t first = sqlite3_column_int64(row, 0), last = first;
        while ((code = sqlite3_step(row)) == SQLITE_ROW &&
               sqlite3_column_int64(row, 0) == last + 1) {
            last++;
        }
        int n = first == last ? snprintf(out + used, bytes - used, "%s%lld", used ? ", " : "",
                                         (long long)first)
                              : snprintf(out + used, bytes - used, "%s%lld to %lld",
                                         used ? ", " : "", (long long)first, (long long)last);
        used += n > 0 && (size_t)n < bytes - used ? (size_t)n : 0;
        n_pieces++;
    }
    if (row && code == SQLITE_ROW) {
        snprintf(out + used, bytes - used, " and more");
    }
    oct__runs_done(row);
    return OCT_OK;
}

oct_status oct__runs_no_such_run(struct oct_runs *runs, int64_t number) {
    char there[200];
    OCT_TRY(list_numbers(runs, there, sizeof there));
    if (!there[0]) {
        OCT_FAIL(NOT_FOUND, "%s: there is no run %lld: it has none yet", oct__runs_shown(runs),
                 (long long)number);
    }
    OCT_FAIL(NOT_FOUND, "%s: there is no run %lld; there are runs %s (octet runs lists them)",
             oct__runs_shown(runs), (long long)number, there);
}

#endif
