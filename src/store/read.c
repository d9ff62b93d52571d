/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - what the database knows: runs, epochs, options, nodes, edges, classes.
 *
 * Things are handed out one by one, by index, and mostly in order. So the next run is found by the
 * number of the last one, not by counting from the start; and of nodes, edges and classes, which may
 * be thousands, asking for the first reads all of them.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include "store/store.h"

#include <string.h>

/* --- runs ------------------------------------------------------------------------------------ */

/* What a run ended with, the options that were set (where it is kept says nothing about it), its last
 * epoch, and the last that was tested. */
#define SELECT_RUN                                                                                 \
    "SELECT r.number, r.started, r.version, r.outcome, r.n_epochs, r.has_result,"                  \
    " r.epochs, r.seconds, r.accuracy, r.accuracy_nodes, r.accuracy_least, r.accuracy_most,"       \
    " r.loss, r.train_loss, r.consensus_distance, r.samples_per_s, r.bytes_sent, r.bytes_final,"   \
    " r.bytes_dense, r.n_parameters, r.model_sha256, r.gossip_share, r.process, r.cpu, r.cores,"   \
    " r.threads, r.level, r.system, r.compiler,"                                                   \
    " (SELECT group_concat('--' || name || ' ' || value, ' ') FROM"                                \
    "  (SELECT name, value FROM options WHERE run = r.number AND is_set AND name NOT IN"           \
    "   ('checkpoint', 'every', 'resume', 'db', 'record', 'label') ORDER BY position)),"           \
    " (SELECT value FROM options WHERE run = r.number AND name = 'label'),"                        \
    " e.epoch, e.seconds, t.accuracy, t.loss, e.train_loss, t.consensus_distance,"                 \
    " e.samples_per_s, e.bytes_sent"                                                               \
    " FROM runs r LEFT JOIN epochs e ON e.run = r.number"                                          \
    " AND e.epoch = (SELECT max(epoch) FROM epochs WHERE run = r.number)"                          \
    " LEFT JOIN epochs t ON t.run = r.number"                                                      \
    " AND t.epoch = (SELECT max(epoch) FROM epochs WHERE run = r.number AND accuracy IS NOT "      \
    "NULL) "

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
    GOSSIP_SHARE,
    PROCESS,
    CPU,
    CORES,
    THREADS,
    LEVEL,
    SYSTEM,
    COMPILER,
    OPTIONS,
    LABEL,
    LAST_EPOCH,
    LAST_SECONDS,
    LAST_ACCURACY,
    LAST_LOSS,
    LAST_TRAIN_LOSS,
    LAST_DISTANCE,
    LAST_SPEED,
    LAST_BYTES_SENT,
};

static const char *column_text(sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    return text ? (const char *)text : "";
}

/* "Xeon, 2 cores, 2 threads, avx512vnni, Linux 6.1 x86_64, gcc 12.2.0" */
static oct_status read_machine(struct oct_runs *runs, sqlite3_stmt *row) {
    oct__text_clear(&runs->machine);
    if (sqlite3_column_type(row, CPU) == SQLITE_NULL) { /* a run of version 1 */
        return oct__text_add(&runs->machine, "%s", "");
    }
    const int cores = oct__runs_int_at(row, CORES), threads = oct__runs_int_at(row, THREADS);
    OCT_TRY(oct__text_add(&runs->machine, "%s, %d core%s, %d thread%s", column_text(row, CPU),
                          cores, cores == 1 ? "" : "s", threads, threads == 1 ? "" : "s"));
    for (int column = LEVEL; column <= COMPILER; column++) {
        OCT_TRY(oct__text_add(&runs->machine, ", %s", column_text(row, column)));
    }
    return OCT_OK;
}

/* A run that has not ended is running, if its process is. */
static oct_status read_outcome(struct oct_runs *runs, sqlite3_stmt *row) {
    OCT_TRY(oct__runs_text_at(row, OUTCOME, &runs->outcome));
    if (strcmp(runs->outcome.at, "running") != 0) {
        return OCT_OK;
    }
    enum oct__process_state state =
        oct__process_find((const char *)sqlite3_column_text(row, PROCESS));
    oct__text_clear(&runs->outcome);
    return oct__text_add(&runs->outcome, "%s",
                         state == OCT_PROCESS_LIVES  ? "running"
                         : state == OCT_PROCESS_GONE ? "lost"
                                                     : "running?");
}

static oct_status read_run(struct oct_runs *runs, sqlite3_stmt *row, struct oct_run *out) {
    const int ended = sqlite3_column_int64(row, HAS_RESULT) != 0;
    const int has_epoch = sqlite3_column_type(row, LAST_EPOCH) != SQLITE_NULL;
    const int has_sum = sqlite3_column_type(row, SUM) == SQLITE_TEXT;
    OCT_TRY(read_outcome(runs, row));
    OCT_TRY(read_machine(runs, row));
    OCT_TRY(oct__runs_text_at(row, RUN_VERSION, &runs->version));
    OCT_TRY(oct__runs_text_at(row, SUM, &runs->sum));
    OCT_TRY(oct__runs_text_at(row, OPTIONS, &runs->options));
    OCT_TRY(oct__runs_text_at(row, LABEL, &runs->label));
    struct oct_run run = {
        .number = sqlite3_column_int64(row, NUMBER),
        .started = sqlite3_column_int64(row, STARTED),
        .seconds = oct__runs_real_at(row, ended ? SECONDS : LAST_SECONDS),
        .outcome = runs->outcome.at,
        .version = runs->version.at,
        .machine = runs->machine.at,
        .label = runs->label.at,
        .options = runs->options.at,
        .epochs = oct__runs_int_at(row, ended ? EPOCHS : LAST_EPOCH),
        .n_epochs = oct__runs_int_at(row, N_EPOCHS),
        .has_result = ended || has_epoch,
        .accuracy = oct__runs_real_at(row, ended ? ACCURACY : LAST_ACCURACY),
        .accuracy_nodes = oct__runs_real_at(row, ACCURACY_NODES),
        .accuracy_least = oct__runs_real_at(row, ACCURACY_LEAST),
        .accuracy_most = oct__runs_real_at(row, ACCURACY_MOST),
        .loss = oct__runs_real_at(row, ended ? LOSS : LAST_LOSS),
        .train_loss = oct__runs_real_at(row, ended ? TRAIN_LOSS : LAST_TRAIN_LOSS),
        .consensus_distance = oct__runs_real_at(row, ended ? DISTANCE : LAST_DISTANCE),
        .samples_per_s = oct__runs_real_at(row, ended ? SPEED : LAST_SPEED),
        .gossip_share = oct__runs_real_at(row, GOSSIP_SHARE),
        .bytes_sent = oct__runs_count_at(row, ended ? BYTES_SENT : LAST_BYTES_SENT),
        .bytes_final = oct__runs_count_at(row, BYTES_FINAL),
        .bytes_dense = oct__runs_count_at(row, BYTES_DENSE),
        .n_parameters = sqlite3_column_int64(row, N_PARAMETERS),
        .model_sha256 = has_sum ? runs->sum.at : NULL,
    };
    *out = run;
    return OCT_OK;
}

oct_status oct_runs_at(struct oct_runs *runs, int64_t index, struct oct_run *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading a run needs a database and a place");
    }
    sqlite3_stmt *row = NULL;
    if (index > 0 && runs->run_at.number > 0 && index == runs->run_at.index + 1) {
        OCT_TRY(oct__runs_row(runs, &row,
                              SELECT_RUN "WHERE r.number < ? ORDER BY r.number DESC LIMIT 1", "i",
                              runs->run_at.number));
    } else if (index >= 0) {
        OCT_TRY(oct__runs_row(runs, &row,
                              SELECT_RUN
                              "WHERE r.number ="
                              " (SELECT number FROM runs ORDER BY number DESC LIMIT 1 OFFSET ?)",
                              "i", index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: it has no more than %lld runs", oct__runs_shown(runs),
                 (long long)index);
    }
    oct_status status = read_run(runs, row, out);
    oct__runs_done(row);
    if (status == OCT_OK) {
        runs->run_at.index = index;
        runs->run_at.number = out->number;
    }
    return status;
}

oct_status oct_runs_find(struct oct_runs *runs, int64_t number, struct oct_run *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading a run needs a database and a place");
    }
    sqlite3_stmt *row;
    OCT_TRY(oct__runs_row(runs, &row, SELECT_RUN "WHERE r.number = ?", "i", number));
    if (!row) {
        return oct__runs_no_such_run(runs, number);
    }
    oct_status status = read_run(runs, row, out);
    oct__runs_done(row);
    return status;
}

/* --- epochs and options ---------------------------------------------------------------------- */

oct_status oct_runs_epoch_at(struct oct_runs *runs, int64_t number, int index,
                             struct oct_run_epoch *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading an epoch needs a database and a place");
    }
    sqlite3_stmt *row = NULL;
    if (index >= 0) {
        OCT_TRY(oct__runs_row(runs, &row,
                              "SELECT epoch, train_loss, train_accuracy, loss, accuracy,"
                              " consensus_distance, learning_rate, samples_per_s, seconds,"
                              " bytes_sent, clipped, zero"
                              " FROM epochs WHERE run = ? ORDER BY epoch LIMIT 1 OFFSET ?",
                              "ii", number, (int64_t)index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no more than %d epochs", oct__runs_shown(runs),
                 (long long)number, index);
    }
    *out = (struct oct_run_epoch){
        .epoch = oct__runs_int_at(row, 0),
        .train_loss = oct__runs_real_at(row, 1),
        .train_accuracy = oct__runs_real_at(row, 2),
        .loss = oct__runs_real_at(row, 3),
        .accuracy = oct__runs_real_at(row, 4),
        .consensus_distance = oct__runs_real_at(row, 5),
        .learning_rate = oct__runs_real_at(row, 6),
        .samples_per_s = oct__runs_real_at(row, 7),
        .seconds = oct__runs_real_at(row, 8),
        .bytes_sent = oct__runs_count_at(row, 9),
        .clipped = oct__runs_real_at(row, 10),
        .zero = oct__runs_real_at(row, 11),
    };
    oct__runs_done(row);
    return OCT_OK;
}

oct_status oct_runs_option_at(struct oct_runs *runs, int64_t number, int index, const char **name,
                              const char **value, int *is_set) {
    if (!runs || !name || !value) {
        OCT_FAIL(INVALID, "reading an option needs a database and places");
    }
    sqlite3_stmt *row = NULL;
    if (index >= 0) {
        OCT_TRY(oct__runs_row(runs, &row,
                              "SELECT name, value, is_set FROM options WHERE run = ?"
                              " ORDER BY position LIMIT 1 OFFSET ?",
                              "ii", number, (int64_t)index));
    }
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no more than %d options", oct__runs_shown(runs),
                 (long long)number, index);
    }
    oct_status status = oct__runs_text_at(row, 0, &runs->name);
    if (status == OCT_OK) {
        status = oct__runs_text_at(row, 1, &runs->value);
    }
    if (status == OCT_OK) {
        *name = runs->name.at;
        *value = runs->value.at;
        if (is_set) {
            *is_set = sqlite3_column_int64(row, 2) != 0;
        }
    }
    oct__runs_done(row);
    return status;
}

oct_status oct_runs_option_find(struct oct_runs *runs, int64_t number, const char *name,
                                const char **value) {
    if (!runs || !name || !value) {
        OCT_FAIL(INVALID, "reading an option needs a database, a name and a place");
    }
    sqlite3_stmt *row;
    OCT_TRY(oct__runs_row(runs, &row, "SELECT value FROM options WHERE run = ? AND name = ?", "it",
                          number, name));
    if (!row) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no option %.60s", oct__runs_shown(runs),
                 (long long)number, name);
    }
    oct_status status = oct__runs_text_at(row, 0, &runs->value);
    oct__runs_done(row);
    *value = status == OCT_OK ? runs->value.at : NULL;
    return status;
}

/* --- nodes, edges, classes ------------------------------------------------------------------- */

/* One more item at the list's end. */
static oct_status add_item(struct oct__runs_list *list, size_t bytes, void **out) {
    OCT_TRY(oct__alloc_grow(&list->items, &list->capacity, list->n + 1, bytes, "a list"));
    *out = (char *)list->items + list->n++ * bytes;
    return OCT_OK;
}

typedef oct_status read_row_fn(sqlite3_stmt *row, struct oct__runs_list *list);

/* All rows of a query about a run and an epoch (or a node) as a list, unless it is that list already:
 * for its first item it is always read anew. */
static oct_status read_list(struct oct_runs *runs, struct oct__runs_list *list, int64_t number,
                            int epoch, int64_t index, const char *sql, read_row_fn *read) {
    if (index > 0 && number > 0 && list->number == number && list->epoch == epoch) {
        return OCT_OK;
    }
    sqlite3_stmt *row;
    list->number = 0;
    list->n = 0;
    OCT_TRY(oct__runs_row(runs, &row, sql, "ii", number, (int64_t)epoch));
    oct_status status = OCT_OK;
    int code = row ? SQLITE_ROW : SQLITE_DONE;
    while (status == OCT_OK && code == SQLITE_ROW) {
        status = read(row, list);
        code = status == OCT_OK ? sqlite3_step(row) : code;
    }
    if (status == OCT_OK && code != SQLITE_DONE) {
        status = oct__runs_refuse(runs, code);
    }
    oct__runs_done(row);
    if (status == OCT_OK) {
        list->number = number;
        list->epoch = epoch;
    }
    return status;
}

/* With epoch 0, which is the last, nodes are there even when no epoch is. */
static const char select_nodes[] =
    "WITH asked AS (SELECT max(epoch) AS last,"
    " CASE WHEN ?2 > 0 THEN ?2 ELSE max(epoch) END AS epoch"
    " FROM epochs WHERE run = ?1)"
    " SELECT n.node, n.n_samples,"
    " CASE WHEN a.last IS a.epoch THEN n.accuracy END,"
    " e.train_loss, e.train_accuracy, e.consensus_distance, e.bytes_sent"
    " FROM asked a, nodes n LEFT JOIN node_epochs e"
    " ON e.run = n.run AND e.epoch = a.epoch AND e.node = n.node"
    " WHERE n.run = ?1 AND (?2 = 0 OR e.node IS NOT NULL) ORDER BY n.node";

static oct_status read_node(sqlite3_stmt *row, struct oct__runs_list *list) {
    void *item;
    OCT_TRY(add_item(list, sizeof(struct oct_run_node), &item));
    *(struct oct_run_node *)item = (struct oct_run_node){
        .node = oct__runs_int_at(row, 0),
        .n_samples = sqlite3_column_int64(row, 1),
        .accuracy = oct__runs_real_at(row, 2),
        .train_loss = oct__runs_real_at(row, 3),
        .train_accuracy = oct__runs_real_at(row, 4),
        .consensus_distance = oct__runs_real_at(row, 5),
        .bytes_sent = oct__runs_count_at(row, 6),
    };
    return OCT_OK;
}

oct_status oct_runs_node_at(struct oct_runs *runs, int64_t number, int epoch, int node,
                            struct oct_run_node *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading a node needs a database and a place");
    }
    OCT_TRY(read_list(runs, &runs->nodes, number, epoch, node, select_nodes, read_node));
    if (node < 0 || (size_t)node >= runs->nodes.n) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no node %d%s on record", oct__runs_shown(runs),
                 (long long)number, node, epoch > 0 ? " of that epoch" : "");
    }
    *out = ((const struct oct_run_node *)runs->nodes.items)[node];
    return OCT_OK;
}

static const char select_edges[] =
    "SELECT sender, receiver, bytes, messages FROM edges WHERE run = ?1"
    " AND epoch = CASE WHEN ?2 > 0 THEN ?2 ELSE"
    " (SELECT max(epoch) FROM epochs WHERE run = ?1) END"
    " ORDER BY sender, receiver";

static oct_status read_edge(sqlite3_stmt *row, struct oct__runs_list *list) {
    void *item;
    OCT_TRY(add_item(list, sizeof(struct oct_run_edge), &item));
    *(struct oct_run_edge *)item = (struct oct_run_edge){
        .from = oct__runs_int_at(row, 0),
        .to = oct__runs_int_at(row, 1),
        .bytes = oct__runs_count_at(row, 2),
        .messages = oct__runs_count_at(row, 3),
    };
    return OCT_OK;
}

oct_status oct_runs_edge_at(struct oct_runs *runs, int64_t number, int epoch, int64_t index,
                            struct oct_run_edge *out) {
    if (!runs || !out) {
        OCT_FAIL(INVALID, "reading an edge needs a database and a place");
    }
    OCT_TRY(read_list(runs, &runs->edges, number, epoch, index, select_edges, read_edge));
    if (index < 0 || (uint64_t)index >= runs->edges.n) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no more than %zu edges on record",
                 oct__runs_shown(runs), (long long)number, runs->edges.n);
    }
    *out = ((const struct oct_run_edge *)runs->edges.items)[index];
    return OCT_OK;
}

static const char select_classes[] =
    "SELECT coalesce(c.label, -1), c.n_samples, min(r.n_classes, 1000000)"
    " FROM runs r JOIN nodes n ON n.run = r.number AND n.node = ?2"
    " LEFT JOIN classes c ON c.run = n.run AND c.node = n.node"
    " WHERE r.number = ?1 ORDER BY c.label";

/* The row of a class that the node has some of; those between have none. */
static oct_status read_class(sqlite3_stmt *row, struct oct__runs_list *list) {
    const int64_t label = sqlite3_column_int64(row, 0), n_classes = sqlite3_column_int64(row, 2);
    void *item;
    while ((int64_t)list->n < n_classes) { /* with the first row */
        OCT_TRY(add_item(list, sizeof(int64_t), &item));
        *(int64_t *)item = 0;
    }
    if (label >= 0 && label < (int64_t)list->n) {
        ((int64_t *)list->items)[label] = sqlite3_column_int64(row, 1);
    }
    return OCT_OK;
}

oct_status oct_runs_class_at(struct oct_runs *runs, int64_t number, int node, int label,
                             int64_t *count) {
    if (!runs || !count) {
        OCT_FAIL(INVALID, "reading a class needs a database and a place");
    }
    OCT_TRY(read_list(runs, &runs->classes, number, node, label, select_classes, read_class));
    if (label < 0 || (size_t)label >= runs->classes.n) {
        OCT_FAIL(NOT_FOUND, "%s: run %lld has no class %d of node %d on record",
                 oct__runs_shown(runs), (long long)number, label, node);
    }
    *count = ((const int64_t *)runs->classes.items)[label];
    return OCT_OK;
}

#endif
