/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - a run goes into the database: begin, an epoch, the end; and out of it again.
 *
 * An epoch that cannot be written, because the file is locked or the disk is full, is put into tables
 * in memory and goes with the next one, or with the end: the trainer's figures have gone on by then,
 * so they could not be asked again.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include "store/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <octet/octet.h>

#include "base/parallel.h"

#define EPOCH_COLUMNS                                                                              \
    "run, epoch, step, seconds, train_loss, train_accuracy, loss, accuracy, consensus_distance,"   \
    " learning_rate, samples_per_s, bytes_sent, clipped, zero"
#define NODE_EPOCH_COLUMNS                                                                         \
    "run, epoch, node, train_loss, train_accuracy, consensus_distance, bytes_sent"
#define EDGE_COLUMNS "run, epoch, sender, receiver, bytes, messages"

/* Tables in memory, of this connection alone. */
static oct_status make_kept_tables(struct oct_runs *runs) {
    if (!runs->has_kept) {
        OCT_TRY(oct__runs_script(
            runs, "CREATE TEMP TABLE IF NOT EXISTS kept_epochs (" EPOCH_COLUMNS ");"
                  "CREATE TEMP TABLE IF NOT EXISTS kept_nodes (" NODE_EPOCH_COLUMNS ");"
                  "CREATE TEMP TABLE IF NOT EXISTS kept_edges (" EDGE_COLUMNS ");"));
        runs->has_kept = 1;
    }
    return OCT_OK;
}

/* --- begin ----------------------------------------------------------------------------------- */

static int64_t threads_of(const struct oct_config *config) {
    const char *text = oct_config_get(config, "threads");
    const int64_t wanted = strtoll(text ? text : "0", NULL, 10);
    const int64_t n = wanted > 0 ? wanted : oct__parallel_width();
    return n < OCT_PARALLEL_MOST ? n : OCT_PARALLEL_MOST;
}

static oct_status insert_options(struct oct_runs *runs, int64_t run,
                                 const struct oct_config *config) {
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        OCT_TRY(oct__runs_execute(runs, NULL,
                                  "INSERT INTO options (run, position, name, value, is_set)"
                                  " VALUES (?, ?, ?, ?, ?)",
                                  "iitti", run, (int64_t)i, option->name,
                                  oct_config_get(config, option->name),
                                  (int64_t)oct_config_is_set(config, option->name)));
    }
    return OCT_OK;
}

/* As they are in force: a gamma that was left to the rule is what the rule gave. */
static oct_status insert_gamma(struct oct_runs *runs, int64_t run,
                               const struct oct_config *config) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", oct_config_gamma(config));
    text[strcspn(text, ",")] =
        text[strcspn(text, ",")] ? '.' : '\0'; /* whatever the locale writes */
    return oct__runs_execute(runs, NULL,
                             "UPDATE options SET value = ?, is_set = 0"
                             " WHERE run = ? AND name = 'gamma' AND value + 0 = 0",
                             "ti", text, run);
}

/* Who holds what. Classes that a node has none of have no row. */
static oct_status insert_nodes(struct oct_runs *runs, int64_t run,
                               const struct oct_trainer *trainer) {
    struct oct_node node;
    int64_t count;
    if (oct_trainer_node(trainer, OCT_RUNS_NODES, &node) == OCT_OK) {
        return OCT_OK; /* too many */
    }
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        OCT_TRY(oct__runs_execute(runs, NULL,
                                  "INSERT INTO nodes (run, node, n_samples) VALUES (?, ?, ?)",
                                  "iii", run, (int64_t)i, node.n_samples));
        for (int label = 0; (count = oct_trainer_holding(trainer, i, label)) >= 0; label++) {
            if (count > 0) {
                OCT_TRY(oct__runs_execute(runs, NULL,
                                          "INSERT INTO classes (run, node, label, n_samples)"
                                          " VALUES (?, ?, ?, ?)",
                                          "iiii", run, (int64_t)i, (int64_t)label, count));
            }
        }
    }
    int64_t n_classes = 0;
    while (oct_trainer_holding(trainer, 0, (int)n_classes) >= 0) {
        n_classes++;
    }
    return oct__runs_execute(runs, NULL, "UPDATE runs SET n_classes = ? WHERE number = ?", "ii",
                             n_classes, run);
}

static oct_status insert_run(struct oct_runs *runs, const struct oct_config *config,
                             const struct oct_trainer *trainer, int64_t *run) {
    const char *epochs = oct_config_get(config, "epochs");
    struct oct__machine machine;
    char process[OCT_PROCESS_BYTES];
    oct__machine_read(&machine);
    oct__process_name(process);
    OCT_TRY(oct__runs_execute(runs, NULL,
                              "INSERT INTO runs (started, version, outcome, n_epochs, cpu, cores,"
                              " threads, level, system, compiler, process)"
                              " VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?)",
                              "ititiitttt", (int64_t)time(NULL), oct_version(),
                              (int64_t)strtoll(epochs ? epochs : "0", NULL, 10), machine.cpu,
                              (int64_t)machine.cores, threads_of(config), machine.level,
                              machine.system, machine.compiler, process));
    *run = sqlite3_last_insert_rowid(runs->db);
    OCT_TRY(insert_options(runs, *run, config));
    OCT_TRY(insert_gamma(runs, *run, config));
    return trainer ? insert_nodes(runs, *run, trainer) : OCT_OK;
}

oct_status oct_runs_begin(struct oct_runs *runs, const struct oct_config *config,
                          const struct oct_trainer *trainer, int64_t *run) {
    if (!runs || !config || !run) {
        OCT_FAIL(INVALID, "beginning a run needs a database, a configuration and a place");
    }
    int64_t number = 0;
    OCT_TRY(make_kept_tables(runs)); /* now, while the file can be read */
    OCT_TRY(oct__runs_begin_write(runs));
    OCT_TRY(oct__runs_end_write(runs, insert_run(runs, config, trainer, &number)));
    *run = number;
    return OCT_OK;
}

/* --- an epoch -------------------------------------------------------------------------------- */

/* What the quantizers of a watched epoch did, in two numbers: the mean share of values that were
 * clipped, and of gradients that became 0. */
static void read_clips(const struct oct_trainer *trainer, double *clipped, double *zero) {
    struct oct_quantizer quantizer;
    double sums[2] = {0, 0};
    int n[2] = {0, 0};
    for (int i = 0; trainer && oct_trainer_quantizer(trainer, i, &quantizer) == OCT_OK; i++) {
        const int is_gradient = quantizer.is_gradient != 0;
        sums[is_gradient] += is_gradient ? quantizer.zero : quantizer.clipped;
        n[is_gradient]++;
    }
    *clipped = n[0] > 0 ? sums[0] / n[0] : (double)NAN;
    *zero = n[1] > 0 ? sums[1] / n[1] : (double)NAN;
}

/* Where an epoch's rows go: into the file, or into the tables that wait. */
struct target {
    const char *epochs, *nodes, *edges;
};

#define INTO(verb, table, columns, values) verb " INTO " table " (" columns ") VALUES (" values ")"
#define EPOCH_VALUES "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
#define NODE_EPOCH_VALUES "?, ?, ?, ?, ?, ?, ?"
#define EDGE_VALUES "?, ?, ?, ?, ?, ?"

static const struct target file = {
    INTO("INSERT OR REPLACE", "main.epochs", EPOCH_COLUMNS, EPOCH_VALUES),
    INTO("INSERT OR REPLACE", "main.node_epochs", NODE_EPOCH_COLUMNS, NODE_EPOCH_VALUES),
    INTO("INSERT OR REPLACE", "main.edges", EDGE_COLUMNS, EDGE_VALUES),
};
static const struct target memory = {
    INTO("INSERT", "temp.kept_epochs", EPOCH_COLUMNS, EPOCH_VALUES),
    INTO("INSERT", "temp.kept_nodes", NODE_EPOCH_COLUMNS, NODE_EPOCH_VALUES),
    INTO("INSERT", "temp.kept_edges", EDGE_COLUMNS, EDGE_VALUES),
};

static oct_status insert_edges(struct oct_runs *runs, const struct target *to, int64_t run,
                               int64_t epoch, const struct oct_trainer *trainer) {
    struct oct_traffic edge;
    if (oct_trainer_edge(trainer, OCT_RUNS_EDGES, &edge) == OCT_OK) {
        return OCT_OK; /* too many */
    }
    for (int64_t i = 0; oct_trainer_edge(trainer, i, &edge) == OCT_OK; i++) {
        OCT_TRY(oct__runs_execute(runs, NULL, to->edges, "iiiiuu", run, epoch, (int64_t)edge.from,
                                  (int64_t)edge.to, edge.bytes, edge.messages));
    }
    return OCT_OK;
}

static oct_status insert_node_epochs(struct oct_runs *runs, const struct target *to, int64_t run,
                                     int64_t epoch, const struct oct_trainer *trainer) {
    struct oct_node node;
    if (oct_trainer_node(trainer, OCT_RUNS_NODES, &node) == OCT_OK) {
        return OCT_OK; /* too many */
    }
    for (int i = 0; oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        OCT_TRY(oct__runs_execute(runs, NULL, to->nodes, "iiirrru", run, epoch, (int64_t)i,
                                  node.loss, node.accuracy, node.consensus_distance,
                                  node.bytes_sent));
    }
    return OCT_OK;
}

static oct_status insert_epoch(struct oct_runs *runs, const struct target *to, int64_t run,
                               const struct oct_progress *p, const struct oct_trainer *trainer) {
    double clipped, zero;
    read_clips(trainer, &clipped, &zero);
    OCT_TRY(oct__runs_execute(runs, NULL, to->epochs, "iiirrrrrrrrurr", run, (int64_t)p->epoch,
                              p->step, p->seconds, p->loss, p->accuracy, p->test_loss,
                              p->test_accuracy, p->consensus_distance, p->learning_rate,
                              p->samples_per_s, p->bytes_sent, clipped, zero));
    if (trainer) {
        OCT_TRY(insert_node_epochs(runs, to, run, p->epoch, trainer));
        OCT_TRY(insert_edges(runs, to, run, p->epoch, trainer));
    }
    return OCT_OK;
}

/* Moves a run's epochs from memory into the file; part of a transaction. */
static oct_status move_kept(struct oct_runs *runs, int64_t run) {
    OCT_TRY(oct__runs_execute(runs, NULL,
                              "INSERT OR REPLACE INTO main.epochs (" EPOCH_COLUMNS
                              ") SELECT " EPOCH_COLUMNS " FROM temp.kept_epochs WHERE run = ?",
                              "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL,
                              "INSERT OR REPLACE INTO main.node_epochs (" NODE_EPOCH_COLUMNS
                              ") SELECT " NODE_EPOCH_COLUMNS " FROM temp.kept_nodes WHERE run = ?",
                              "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL,
                              "INSERT OR REPLACE INTO main.edges (" EDGE_COLUMNS
                              ") SELECT " EDGE_COLUMNS " FROM temp.kept_edges WHERE run = ?",
                              "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM temp.kept_epochs WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM temp.kept_nodes WHERE run = ?", "i", run));
    return oct__runs_execute(runs, NULL, "DELETE FROM temp.kept_edges WHERE run = ?", "i", run);
}

/* Those that wait, and this one, into the file. */
static oct_status write_epoch(struct oct_runs *runs, int64_t run,
                              const struct oct_progress *progress,
                              const struct oct_trainer *trainer) {
    OCT_TRY(oct__runs_begin_write(runs));
    oct_status status = runs->has_kept ? move_kept(runs, run) : OCT_OK;
    if (status == OCT_OK) {
        status = insert_epoch(runs, &file, run, progress, trainer);
    }
    return oct__runs_end_write(runs, status);
}

/* This one into memory, whole or not at all. */
static oct_status keep_epoch(struct oct_runs *runs, int64_t run,
                             const struct oct_progress *progress,
                             const struct oct_trainer *trainer) {
    OCT_TRY(make_kept_tables(runs));
    OCT_TRY(oct__runs_execute(runs, NULL, "SAVEPOINT keeping", ""));
    oct_status status = insert_epoch(runs, &memory, run, progress, trainer);
    if (status != OCT_OK) {
        sqlite3_exec(runs->db, "ROLLBACK TO keeping", NULL, NULL, NULL);
    }
    sqlite3_exec(runs->db, "RELEASE keeping", NULL, NULL, NULL);
    return status;
}

oct_status oct_runs_epoch(struct oct_runs *runs, int64_t run, const struct oct_progress *progress,
                          const struct oct_trainer *trainer) {
    if (!runs || !progress) {
        OCT_FAIL(INVALID, "noting an epoch needs a database and the epoch's progress");
    }
    sqlite3_busy_timeout(runs->db, runs->n_waiting ? OCT_RUNS_IMPATIENCE_MS : runs->patience_ms);
    oct_status status = write_epoch(runs, run, progress, trainer);
    sqlite3_busy_timeout(runs->db, runs->patience_ms);
    if (status == OCT_OK) {
        runs->n_waiting = 0;
        return OCT_OK;
    }
    char why[OCT_DETAIL_BYTES];
    oct__detail_take(why);
    OCT_TRY(keep_epoch(runs, run, progress, trainer));
    runs->n_waiting++;
    oct__detail_give(why);
    return status;
}

/* --- the end --------------------------------------------------------------------------------- */

static oct_status update_run(struct oct_runs *runs, int64_t run, const char *outcome,
                             const struct oct_result *r, int *n_changed) {
    if (!r) {
        return oct__runs_execute(runs, n_changed,
                                 "UPDATE runs SET ended = ?, outcome = ? WHERE number = ?", "iti",
                                 (int64_t)time(NULL), outcome, run);
    }
    return oct__runs_execute(
        runs, n_changed,
        "UPDATE runs SET ended = ?, outcome = ?, has_result = 1, epochs = ?,"
        " seconds = ?, accuracy = ?, accuracy_nodes = ?, accuracy_least = ?,"
        " accuracy_most = ?, nodes_tested = ?, loss = ?, train_loss = ?,"
        " consensus_distance = ?, samples_per_s = ?, bytes_sent = ?, bytes_final = ?,"
        " bytes_dense = ?, messages = ?, gossip_share = ?, n_parameters = ?,"
        " workspace_bytes = ?, state_bytes = ?, model_sha256 = ? WHERE number = ?",
        "itirrrrrirrrruuuuriuuti", (int64_t)time(NULL), outcome, (int64_t)r->epochs, r->seconds,
        r->accuracy, r->accuracy_nodes, r->accuracy_least, r->accuracy_most,
        (int64_t)r->nodes_tested, r->loss, r->train_loss, r->consensus_distance, r->samples_per_s,
        r->bytes_sent, r->bytes_final, r->bytes_dense, r->messages, r->gossip_share,
        r->n_parameters, r->workspace_bytes, r->state_bytes, r->model_sha256, run);
}

static oct_status update_nodes(struct oct_runs *runs, int64_t run,
                               const struct oct_trainer *trainer) {
    struct oct_node node;
    for (int i = 0; i < OCT_RUNS_NODES && oct_trainer_node(trainer, i, &node) == OCT_OK; i++) {
        OCT_TRY(oct__runs_execute(runs, NULL,
                                  "UPDATE nodes SET accuracy = ? WHERE run = ? AND node = ?", "rii",
                                  node.test_accuracy, run, (int64_t)i));
    }
    return OCT_OK;
}

static oct_status end_run(struct oct_runs *runs, int64_t run, const char *outcome,
                          const struct oct_result *result, const struct oct_trainer *trainer) {
    int n_changed = 0;
    if (runs->has_kept) {
        OCT_TRY(move_kept(runs, run));
    }
    OCT_TRY(update_run(runs, run, outcome, result, &n_changed));
    if (n_changed == 0) {
        return oct__runs_no_such_run(runs, run);
    }
    return result && trainer ? update_nodes(runs, run, trainer) : OCT_OK;
}

oct_status oct_runs_end(struct oct_runs *runs, int64_t run, const char *outcome,
                        const struct oct_result *result, const struct oct_trainer *trainer) {
    if (!runs || !outcome) {
        OCT_FAIL(INVALID, "ending a run needs a database and the outcome");
    }
    runs->n_waiting = 0; /* the last try is a patient one */
    OCT_TRY(oct__runs_begin_write(runs));
    return oct__runs_end_write(runs, end_run(runs, run, outcome, result, trainer));
}

/* --- out of it again ------------------------------------------------------------------------- */

static oct_status delete_run(struct oct_runs *runs, int64_t run) {
    int n_changed = 0;
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM options WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM epochs WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM nodes WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM node_epochs WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM edges WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, NULL, "DELETE FROM classes WHERE run = ?", "i", run));
    OCT_TRY(oct__runs_execute(runs, &n_changed, "DELETE FROM runs WHERE number = ?", "i", run));
    return n_changed > 0 ? OCT_OK : oct__runs_no_such_run(runs, run);
}

oct_status oct_runs_delete(struct oct_runs *runs, int64_t number) {
    if (!runs) {
        OCT_FAIL(INVALID, "deleting a run needs a database");
    }
    runs->run_at.number = 0;
    runs->nodes.number = runs->edges.number = runs->classes.number = 0;
    OCT_TRY(oct__runs_begin_write(runs));
    return oct__runs_end_write(runs, delete_run(runs, number));
}

#endif
