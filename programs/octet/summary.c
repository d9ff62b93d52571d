/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - what a run came to: a table for people, an object for programs; one run or two.
 *
 * A run of one node has no neighbours to agree with and nothing to send, so those rows are left out;
 * the JSON object has its keys always.
 */
#include "cli.h"

#include <math.h>
#include <string.h>

static const char *setting(const struct cli_run *run, const char *name) {
    return oct_config_get(run->config, name);
}

static int has_second(const struct cli_report *report) {
    return report->compare && report->failure == OCT_OK;
}

/* --- the table ------------------------------------------------------------------------------- */

struct rows {
    struct cli_table table;
    int two;           /* values of two runs in each row */
    const char *every; /* steps from one message to the next */
};

static void add_row(struct rows *rows, const char *name, const char *value, const char *other,
                    const char *note, const char *difference) {
    cli_table_cell(&rows->table, "%s", name);
    cli_table_cell(&rows->table, "%s", value);
    if (rows->two) {
        cli_table_cell(&rows->table, "%s", other);
    }
    cli_table_cell(&rows->table, "%s", rows->two ? difference : note);
}

/* Tiny numbers: 3 digits and a power of ten. */
static struct cli_text small(double x) {
    struct cli_text out;
    if (isfinite(x)) {
        snprintf(out.text, sizeof out.text, "%.2e", x);
    } else {
        snprintf(out.text, sizeof out.text, "-");
    }
    return out;
}

static struct cli_text points(double difference) {
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "%+.2f points", difference);
    return out;
}

static void add_accuracy(struct rows *rows, const struct oct_result *a, const struct oct_result *b,
                         int n_nodes) {
    add_row(rows, "accuracy", cli_percent(a->accuracy / 100, 2).text,
            cli_percent(b->accuracy / 100, 2).text,
            n_nodes > 1 ? "of the average model on the test set" : "on the test set",
            points(a->accuracy - b->accuracy).text);
    if (n_nodes == 1) {
        return;
    }
    char spread[96], tested[32] = "";
    if (a->nodes_tested < n_nodes) {
        snprintf(tested, sizeof tested, "the first %d of ", a->nodes_tested);
    }
    snprintf(spread, sizeof spread, "mean over %s%d nodes, from %.2f to %.2f %%", tested, n_nodes,
             a->accuracy_least, a->accuracy_most);
    add_row(rows, "  of nodes", cli_percent(a->accuracy_nodes / 100, 2).text,
            cli_percent(b->accuracy_nodes / 100, 2).text, spread,
            points(a->accuracy_nodes - b->accuracy_nodes).text);
}

static uint64_t bytes_trained(const struct oct_result *result) {
    return result->bytes_sent - result->bytes_final;
}

/* "12 dropped, 3 late, 1 overtaken, 4 double": what of it there was. */
static void add_faults(struct rows *rows, const struct oct_result *a, const struct oct_result *b) {
    const struct oct_fault_counts *f = &a->faults, *other = &b->faults;
    const uint64_t lost = f->dropped + f->late + f->overtaken;
    const uint64_t lost_there = other->dropped + other->late + other->overtaken;
    char note[256];
    if (!a->has_faults) {
        return;
    }
    snprintf(note, sizeof note,
             "messages: %s dropped, %s late, %s overtaken; %s double; nodes missed %s rounds",
             cli_count((double)f->dropped).text, cli_count((double)f->late).text,
             cli_count((double)f->overtaken).text, cli_count((double)f->doubled).text,
             cli_count((double)f->absent).text);
    add_row(rows, "lost", cli_count((double)lost).text, cli_count((double)lost_there).text, note,
            "");
    if (f->repairs > 0) {
        add_row(rows, "  repairs", cli_count((double)f->repairs).text,
                cli_count((double)other->repairs).text, "whole rows, sent anew", "");
    }
}

static void add_traffic(struct rows *rows, const struct oct_result *a, const struct oct_result *b) {
    char note[128], part[64];
    add_row(rows, "consensus", small(a->consensus_distance).text, small(b->consensus_distance).text,
            "mean squared distance from the average, relative", "");
    if (a->bytes_sent == 0) {
        return;
    }
    if (a->messages > 0) {
        const double of_dense =
            cli_of_dense(a->bytes_sent, a->bytes_final, a->bytes_dense, rows->every);
        snprintf(part, sizeof part, "%s of dense fp32%s", cli_part(of_dense).text,
                 cli_every_step(rows->every));
        snprintf(note, sizeof note, "%s, which would be %s", part,
                 cli_bytes((uint64_t)((double)bytes_trained(a) / of_dense)).text);
        add_row(rows, "sent", cli_bytes(bytes_trained(a)).text, cli_bytes(bytes_trained(b)).text,
                note, part);
    }
    if (a->bytes_final > 0) {
        add_row(rows, "  at the end", cli_bytes(a->bytes_final).text,
                cli_bytes(b->bytes_final).text, "more, in uncompressed rounds without training",
                "uncompressed");
    }
    add_faults(rows, a, b);
    add_row(rows, "gossip", cli_percent(a->gossip_share, 1).text,
            cli_percent(b->gossip_share, 1).text, "of the training time", "");
}

static void add_results(struct rows *rows, const struct oct_result *a, const struct oct_result *b,
                        int n_nodes) {
    const double speed = a->samples_per_s / b->samples_per_s;
    const double memory = (double)a->workspace_bytes / (double)b->workspace_bytes;
    add_accuracy(rows, a, b, n_nodes);
    add_row(rows, "loss", cli_decimals(a->loss, 4).text, cli_decimals(b->loss, 4).text,
            "on the test set", "");
    if (!isnan(a->train_loss)) {
        add_row(rows, "train loss", cli_decimals(a->train_loss, 4).text,
                cli_decimals(b->train_loss, 4).text, "last epoch", "");
    }
    if (n_nodes > 1) {
        add_traffic(rows, a, b);
    }
    if (!isnan(a->samples_per_s)) {
        add_row(rows, "samples/s", cli_count(a->samples_per_s).text,
                cli_count(b->samples_per_s).text,
                n_nodes > 1 ? "training, all nodes together" : "training", cli_times(speed).text);
    }
    add_row(rows, "time", cli_time(a->seconds).text, cli_time(b->seconds).text, "with evaluation",
            "");
    if (a->checkpoint_seconds > 0) {
        char here[32], there[32];
        snprintf(here, sizeof here, "%.2f s", a->checkpoint_seconds);
        snprintf(there, sizeof there, "%.2f s", b->checkpoint_seconds);
        add_row(rows, "  checkpoints", here, there, "of it, writing them", "");
    }
    add_row(rows, "parameters", cli_count((double)a->n_parameters).text,
            cli_count((double)b->n_parameters).text, n_nodes > 1 ? "of each node" : "", "");
    add_row(rows, "workspace", cli_bytes(a->workspace_bytes).text,
            cli_bytes(b->workspace_bytes).text, "activations and gradients", cli_part(memory).text);
    add_row(rows, "state", cli_bytes(a->state_bytes).text, cli_bytes(b->state_bytes).text,
            n_nodes > 1 ? "parameters, momentum, statistics, gossip's memory"
                        : "parameters, momentum, statistics",
            "");
    char sums[2][16];
    snprintf(sums[0], sizeof sums[0], "%.12s", a->model_sha256);
    snprintf(sums[1], sizeof sums[1], "%.12s", b->model_sha256);
    add_row(rows, "model", sums[0], sums[1], "begin of its sha256", "");
}

static void add_places(struct rows *rows, const struct cli_report *report) {
    if (report->saved) {
        add_row(rows, "saved", "", "", report->saved, report->saved);
    }
    if (report->checkpoint) {
        add_row(rows, "checkpoint", "", "", report->checkpoint, report->checkpoint);
    }
    if (report->database) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)report->number);
        add_row(rows, "run", number, "", report->database, report->database);
    }
}

static void print_title(const struct cli_report *report) {
    const struct cli_run *first = &report->first;
    const int n_nodes = cli_nodes(first->config);
    printf("%s", cli_width(stdout, 0) > 0 ? "\n" : ""); /* apart from the rows of epochs */
    printf("%s%s on %s%s: ", cli_style(stdout, CLI_BOLD), setting(first, "model"),
           setting(first, "data"), cli_style(stdout, CLI_PLAIN));
    if (n_nodes > 1) {
        printf("%d nodes, %s, ", n_nodes, setting(first, "algorithm"));
    }
    if (!has_second(report)) {
        printf("%s, ", setting(first, "norm"));
    }
    printf("%s%s%s, %d epoch%s%s\n", setting(first, "precision"),
           has_second(report) ? " beside " : "", has_second(report) ? report->compare : "",
           first->result.epochs, first->result.epochs == 1 ? "" : "s",
           first->stopped ? ", interrupted" : "");
}

void cli_report_print(const struct cli_report *report) {
    const struct cli_run *first = &report->first, *second = &report->second;
    const int n_nodes = cli_nodes(first->config);
    struct rows rows = {.two = has_second(report), .every = setting(first, "gossip-every")};
    char heads[128] = "result|>value|~";
    if (rows.two) {
        snprintf(heads, sizeof heads, "result|>%s|>%s%s|~%s against %s",
                 setting(first, "precision"), report->compare, second->stopped ? ", stopped" : "",
                 setting(first, "precision"), report->compare);
    }
    print_title(report);
    cli_table_init(&rows.table, heads);
    if (rows.two) {
        char epochs[2][32];
        snprintf(epochs[0], sizeof epochs[0], "%d", first->result.epochs);
        snprintf(epochs[1], sizeof epochs[1], "%d", second->result.epochs);
        add_row(&rows, "norm", setting(first, "norm"), setting(second, "norm"), "", "");
        if (second->stopped) {
            add_row(&rows, "epochs", epochs[0], epochs[1], "", "");
        }
        add_results(&rows, &first->result, &second->result, n_nodes);
    } else {
        add_results(&rows, &first->result, &first->result, n_nodes);
    }
    add_places(&rows, report);
    cli_table_print(&rows.table, stdout);
    cli_table_fini(&rows.table);
    if (report->traced && first->quantizers.n > 0) {
        putchar('\n');
        cli_quantizers_print(&first->quantizers, stdout);
    } else if (report->traced) {
        printf("\nno quantizers: the last step of an epoch is looked at, and there was none\n");
    }
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* What both runs have. */
static void put_result(struct cli_json *object, const struct cli_run *run) {
    const struct oct_result *r = &run->result;
    cli_json_real(object, "accuracy", r->accuracy);
    cli_json_real(object, "accuracy_nodes", r->accuracy_nodes);
    cli_json_real(object, "accuracy_least", r->accuracy_least);
    cli_json_real(object, "accuracy_most", r->accuracy_most);
    cli_json_int(object, "nodes_tested", r->nodes_tested);
    cli_json_real(object, "loss", r->loss);
    cli_json_real(object, "train_loss", r->train_loss);
    cli_json_real(object, "consensus_distance", r->consensus_distance);
    cli_json_int(object, "bytes_sent", (int64_t)r->bytes_sent);
    cli_json_int(object, "bytes_final", (int64_t)r->bytes_final);
    cli_json_int(object, "bytes_dense", (int64_t)r->bytes_dense);
    cli_json_real(
        object, "sent_of_dense",
        cli_of_dense(r->bytes_sent, r->bytes_final, r->bytes_dense, setting(run, "gossip-every")));
    cli_json_int(object, "messages", (int64_t)r->messages);
    cli_json_real(object, "gossip_share", r->gossip_share);
    cli_json_real(object, "samples_per_s", r->samples_per_s);
    cli_json_real(object, "seconds", r->seconds);
    cli_json_real(object, "checkpoint_seconds", r->checkpoint_seconds);
    cli_json_int(object, "epochs", r->epochs);
    cli_json_int(object, "n_parameters", r->n_parameters);
    cli_json_int(object, "workspace_bytes", (int64_t)r->workspace_bytes);
    cli_json_int(object, "state_bytes", (int64_t)r->state_bytes);
    cli_json_text(object, "model_sha256", r->model_sha256);
    if (r->has_faults) {
        struct cli_json *faults = cli_json_object();
        cli_json_int(faults, "absent", (int64_t)r->faults.absent);
        cli_json_int(faults, "dropped", (int64_t)r->faults.dropped);
        cli_json_int(faults, "late", (int64_t)r->faults.late);
        cli_json_int(faults, "overtaken", (int64_t)r->faults.overtaken);
        cli_json_int(faults, "double", (int64_t)r->faults.doubled);
        cli_json_int(faults, "repairs", (int64_t)r->faults.repairs);
        cli_json_int(faults, "repair_bytes", (int64_t)r->faults.repair_bytes);
        cli_json_put(object, "faults", faults);
    }
}

static struct cli_json *compare_json(const struct cli_report *report) {
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "precision", report->compare);
    cli_json_text(object, "norm", setting(&report->second, "norm"));
    if (report->failure != OCT_OK) {
        struct cli_json *error = cli_json_object();
        cli_json_text(error, "status", oct_status_name(report->failure));
        cli_json_text(error, "message", report->second.reason);
        cli_json_put(object, "error", error);
        return object;
    }
    put_result(object, &report->second);
    cli_json_flag(object, "interrupted", report->second.stopped);
    return object;
}

int cli_report_json(const struct cli_report *report) {
    struct cli_json *root = cli_json_object();
    put_result(root, &report->first);
    cli_json_flag(root, "interrupted", report->stopped);
    cli_json_text(root, "saved", report->saved);
    cli_json_text(root, "checkpoint", report->checkpoint);
    cli_json_text(root, "db", report->database);
    if (report->database) {
        cli_json_int(root, "run", report->number);
    } else {
        cli_json_text(root, "run", NULL);
    }
    if (report->compare) {
        cli_json_put(root, "compare", compare_json(report));
    } else {
        cli_json_text(root, "compare", NULL);
    }
    if (report->traced) {
        struct cli_json *quantizers = cli_json_array();
        cli_quantizers_json(&report->first.quantizers, NULL, quantizers);
        cli_json_put(root, "quantizers", quantizers);
    } else {
        cli_json_text(root, "quantizers", NULL);
    }
    cli_json_put(root, "config", cli_json_config(report->first.config));
    return cli_json_print(root);
}
