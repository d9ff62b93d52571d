/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c - runs as the database has them, in memory for all forms of a report.
 *
 * Of the nodes' rows only the last epoch's are kept; of the others their spread. So a run of 1,024
 * nodes and 300 epochs takes kilobytes, and is gone through once.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- lists and texts -------------------------------------------------------------------------- */

static char *copy(const char *text) {
    size_t length = strlen(text ? text : "") + 1;
    char *out = cli_alloc(length);
    memcpy(out, text ? text : "", length);
    return out;
}

/* Room for one more element. */
static void *grown(void *list, int n, size_t size) {
    if (n & (n - 1)) { /* room is made at 0, 1, 2, 4, 8, … */
        return list;
    }
    void *larger = cli_alloc((n ? 2 * (size_t)n : 1) * size);
    if (n > 0) {
        memcpy(larger, list, (size_t)n * size);
    }
    free(list);
    return larger;
}

#define APPEND(list, n, value)                                                                     \
    ((list) = grown((list), (n), sizeof *(list)), (list)[(n)++] = (value))

static int is_end(oct_status status) {
    return status == OCT_STATUS_NOT_FOUND;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void spread_add(struct report_spread *spread, double value, int *n) {
    if (isfinite(value)) {
        spread->least = *n == 0 || value < spread->least ? value : spread->least;
        spread->most = *n == 0 || value > spread->most ? value : spread->most;
        spread->mean = ((*n ? spread->mean * *n : 0) + value) / (*n + 1);
        (*n)++;
    }
}

/* The nodes' rows of an epoch: their spread and, of the last one, themselves. */
static oct_status read_nodes(struct oct_runs *runs, struct report_run *run,
                             struct report_epoch *epoch, int is_last) {
    const struct report_spread none = {NAN, NAN, NAN};
    struct oct_run_node node;
    oct_status status;
    int n_loss = 0, n_accuracy = 0;
    epoch->loss = epoch->accuracy = none;
    for (int i = 0;
         (status = oct_runs_node_at(runs, run->facts.number, epoch->row.epoch, i, &node)) == OCT_OK;
         i++) {
        spread_add(&epoch->loss, node.train_loss, &n_loss);
        spread_add(&epoch->accuracy, node.train_accuracy, &n_accuracy);
        if (is_last) {
            APPEND(run->nodes, run->n_nodes, node);
        }
    }
    return is_end(status) ? OCT_OK : status;
}

static oct_status read_epochs(struct oct_runs *runs, struct report_run *run) {
    struct report_epoch epoch;
    oct_status status;
    memset(&epoch, 0, sizeof epoch);
    while ((status = oct_runs_epoch_at(runs, run->facts.number, run->n_epochs, &epoch.row)) ==
           OCT_OK) {
        APPEND(run->epochs, run->n_epochs, epoch);
    }
    status = is_end(status) ? OCT_OK : status;
    for (int i = 0; i < run->n_epochs && status == OCT_OK; i++) {
        status = read_nodes(runs, run, &run->epochs[i], i == run->n_epochs - 1);
    }
    return status;
}

static oct_status read_edges(struct oct_runs *runs, struct report_run *run) {
    struct oct_run_edge edge;
    oct_status status;
    while ((status = oct_runs_edge_at(runs, run->facts.number, 0, run->n_edges, &edge)) == OCT_OK) {
        APPEND(run->edges, run->n_edges, edge);
    }
    return is_end(status) ? OCT_OK : status;
}

static oct_status read_classes(struct oct_runs *runs, struct report_run *run) {
    const int64_t number = run->facts.number;
    int64_t count;
    oct_status status;
    int n = 0, n_counts = 0;
    while ((status = oct_runs_class_at(runs, number, 0, n, &count)) == OCT_OK) {
        n++;
    }
    for (int node = 0; n > 0 && is_end(status); node++) {
        for (int label = 0; label < n; label++) {
            status = oct_runs_class_at(runs, number, node, label, &count);
            if (status != OCT_OK) {
                return is_end(status) ? OCT_OK : status;
            }
            APPEND(run->counts, n_counts, (uint32_t)(count < UINT32_MAX ? count : UINT32_MAX));
        }
        run->n_counted = node + 1;
        run->n_classes = n;
        status = OCT_STATUS_NOT_FOUND;
    }
    return is_end(status) ? OCT_OK : status;
}

static oct_status read_options(struct oct_runs *runs, struct report_run *run) {
    const char *name, *value;
    oct_status status;
    int is_set;
    while ((status = oct_runs_option_at(runs, run->facts.number, run->n_options, &name, &value,
                                        &is_set)) == OCT_OK) {
        const struct report_option option = {copy(name), copy(value), is_set};
        APPEND(run->options, run->n_options, option);
    }
    return is_end(status) ? OCT_OK : status;
}

static void copy_texts(struct oct_run *facts) {
    facts->outcome = copy(facts->outcome);
    facts->version = copy(facts->version);
    facts->options = copy(facts->options);
    facts->machine = copy(facts->machine);
    facts->label = copy(facts->label);
    facts->model_sha256 = facts->model_sha256 ? copy(facts->model_sha256) : NULL;
}

typedef oct_status (*reader)(struct oct_runs *runs, struct report_run *run);

static oct_status read_run(struct oct_runs *runs, int64_t number, struct report_run *run) {
    oct_status status = oct_runs_find(runs, number, &run->facts);
    if (status != OCT_OK) {
        memset(&run->facts, 0, sizeof run->facts);
        return status;
    }
    copy_texts(&run->facts);
    snprintf(run->name, sizeof run->name, "run %lld", (long long)number);
    run->title = copy(*run->facts.label ? run->facts.label : run->name);
    static const reader parts[] = {read_options, read_epochs, read_edges, read_classes};
    for (size_t i = 0; i < CLI_COUNT_OF(parts) && status == OCT_OK; i++) {
        status = parts[i](runs, run);
    }
    return status == OCT_OK ? runs_command(runs, number, &run->command) : status;
}

/* --- several runs beside each other ------------------------------------------------------------ */

const char *report_option(const struct report_run *run, const char *name) {
    for (int i = 0; i < run->n_options; i++) {
        if (strcmp(run->options[i].name, name) == 0) {
            return run->options[i].value;
        }
    }
    return "";
}

int report_differs(const struct report *report, int index) {
    const struct report_option *option = &report->runs[0].options[index];
    if (runs_is_keeping(option->name)) {
        return 0;
    }
    for (int r = 1; r < report->n_runs; r++) {
        if (strcmp(option->value, report_option(&report->runs[r], option->name)) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Whether anybody set it; what only follows from other differences says nothing more. */
static int was_set(const struct report *report, const char *name) {
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        for (int i = 0; i < run->n_options; i++) {
            if (run->options[i].is_set && strcmp(run->options[i].name, name) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

/* How many values an option has over the runs. */
static int n_values(const struct report *report, const char *name) {
    int n = 0;
    for (int r = 0; r < report->n_runs; r++) {
        const char *value = report_option(&report->runs[r], name);
        int is_new = 1;
        for (int before = 0; before < r && is_new; before++) {
            is_new = strcmp(value, report_option(&report->runs[before], name)) != 0;
        }
        n += is_new;
    }
    return n;
}

/* Options in which runs differ, those that tell most of them apart first; the caller frees the list. */
static const char **find_differences(const struct report *report, int *n) {
    const struct report_run *first = &report->runs[0];
    const char **names = cli_alloc((size_t)(first->n_options + 1) * sizeof *names);
    *n = 0;
    for (int i = 0; report->n_runs > 1 && i < first->n_options; i++) {
        const char *name = first->options[i].name;
        if (!report_differs(report, i) || !was_set(report, name)) {
            continue;
        }
        int at = (*n)++;
        for (; at > 0 && n_values(report, names[at - 1]) < n_values(report, name); at--) {
            names[at] = names[at - 1];
        }
        names[at] = name;
    }
    return names;
}

static void describe_difference(struct report_run *run, const char *const *names, int n) {
    enum { LENGTH = 90 };
    char text[LENGTH + 80] = "";
    for (int i = 0; i < n; i++) {
        const char *value = report_option(run, names[i]);
        const size_t used = strlen(text);
        if (used + strlen(names[i]) + strlen(value) > LENGTH) {
            snprintf(text + used, sizeof text - used, "%s", used ? ", ..." : "...");
            break;
        }
        snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "", names[i],
                 *value ? value : "-");
    }
    run->difference = copy(text);
}

oct_status report_read(struct oct_runs *runs, const int64_t *numbers, int n,
                       struct report *report) {
    oct_status status = OCT_OK;
    report->runs = cli_alloc((size_t)n * sizeof *report->runs);
    memset(report->runs, 0, (size_t)n * sizeof *report->runs);
    report->n_runs = 0;
    while (report->n_runs < n && status == OCT_OK) {
        struct report_run *run = &report->runs[report->n_runs];
        status = read_run(runs, numbers[report->n_runs++], run);
    }
    if (status != OCT_OK) {
        report_fini(report);
        return status;
    }
    int n_differences;
    const char **names = find_differences(report, &n_differences);
    for (int i = 0; i < report->n_runs; i++) {
        describe_difference(&report->runs[i], names, n_differences);
    }
    free(names);
    return status;
}

/* Texts of `facts` are copies, whatever their type says. */
static void free_text(const char *text) {
    free((void *)(uintptr_t)text);
}

void report_fini(struct report *report) {
    for (int r = 0; r < report->n_runs; r++) {
        struct report_run *run = &report->runs[r];
        free_text(run->facts.outcome);
        free_text(run->facts.version);
        free_text(run->facts.options);
        free_text(run->facts.machine);
        free_text(run->facts.label);
        free_text(run->facts.model_sha256);
        free(run->title);
        free(run->difference);
        free(run->command);
        free(run->epochs);
        free(run->nodes);
        free(run->edges);
        free(run->counts);
        for (int i = 0; i < run->n_options; i++) {
            free(run->options[i].name);
            free(run->options[i].value);
        }
        free(run->options);
    }
    free(report->runs);
    report->runs = NULL;
    report->n_runs = 0;
}

/* --- facts ------------------------------------------------------------------------------------ */

double report_dense_ratio(const struct report_run *run) {
    const struct oct_run *facts = &run->facts;
    return cli_of_dense(facts->bytes_sent, facts->bytes_final, facts->bytes_dense,
                        report_option(run, "gossip-every"));
}

int report_has_nodes(const struct report_run *run) {
    return run->n_nodes > 1 || strtol(report_option(run, "nodes"), NULL, 10) > 1;
}

struct report_spread report_node_accuracy(const struct report_run *run) {
    struct report_spread spread = {NAN, NAN, NAN};
    int n = 0;
    for (int i = 0; i < run->n_nodes; i++) {
        spread_add(&spread, run->nodes[i].accuracy, &n);
    }
    if (n == 0) {
        spread = (struct report_spread){run->facts.accuracy_least, run->facts.accuracy_nodes,
                                        run->facts.accuracy_most};
    }
    return spread;
}

struct cli_text report_bytes(const struct report_run *run) {
    return run->facts.has_result ? cli_bytes(runs_sent(&run->facts)) : (struct cli_text){"-"};
}
