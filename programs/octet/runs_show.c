/* SPDX-License-Identifier: Apache-2.0 */
/* runs_show.c - one run in full: its result, epochs, nodes, edges, options, and the command again. */
#include "runs_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nodes that are listed; a run of a thousand is for --json, or for SQL. */
#define NODES_SHOWN 64

/* --- texts ---------------------------------------------------------------------------------- */

uint64_t runs_sent(const struct oct_run *run) {
    return run->bytes_sent > run->bytes_final ? run->bytes_sent - run->bytes_final : 0;
}

struct cli_text runs_date(int64_t seconds, const char *format, int is_utc) {
    struct cli_text out = {"-"};
    time_t when = (time_t)seconds;
    struct tm parts;
    if (is_utc ? gmtime_r(&when, &parts) : localtime_r(&when, &parts)) {
        strftime(out.text, sizeof out.text, format, &parts);
    }
    return out;
}

struct cli_text runs_percent(double value, int digits) {
    return isfinite(value) ? cli_percent(value / 100, digits) : (struct cli_text){"-"};
}

struct cli_text runs_number(double value) {
    struct cli_text out = {"-"};
    if (isfinite(value)) {
        snprintf(out.text, sizeof out.text, "%.3g", value);
    }
    return out;
}

struct cli_text runs_outcome(const char *outcome) {
    struct cli_text out;
    snprintf(out.text, sizeof out.text, "%.*s", (int)strcspn(outcome, ":"), outcome);
    return out;
}

int runs_is_keeping(const char *name) {
    const struct oct_option *option = oct_option_find(name);
    return option && strcmp(option->group, "Keeping") == 0;
}

static oct_status print_command(struct oct_runs *runs, int64_t number, FILE *out) {
    const char *name, *value;
    int is_set;
    oct_status status;
    fputs("octet train", out);
    for (int i = 0;
         (status = oct_runs_option_at(runs, number, i, &name, &value, &is_set)) == OCT_OK; i++) {
        if (is_set && !runs_is_keeping(name)) {
            /* what looks like an option is taken for a value only behind '=' */
            fprintf(out, " --%s%s", name, strncmp(value, "--", 2) == 0 ? "=" : " ");
            cli_quote(out, value);
        }
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

oct_status runs_command(struct oct_runs *runs, int64_t number, char **out) {
    size_t length = 0;
    FILE *stream = open_memstream(out, &length);
    oct_status status = stream ? print_command(runs, number, stream) : OCT_OK;
    if (!stream || fclose(stream) != 0) {
        fputs("octet: memory ran out\n", stderr);
        exit(CLI_FAILED);
    }
    return status;
}

/* --- as JSON -------------------------------------------------------------------------------- */

struct cli_json *runs_json(const struct oct_run *run) {
    struct cli_json *object = cli_json_object();
    cli_json_int(object, "number", run->number);
    cli_json_text(object, "label", run->label[0] ? run->label : NULL);
    cli_json_text(object, "started", runs_date(run->started, "%Y-%m-%dT%H:%M:%SZ", 1).text);
    cli_json_text(object, "outcome", run->outcome);
    cli_json_text(object, "version", run->version);
    cli_json_text(object, "machine", run->machine[0] ? run->machine : NULL);
    cli_json_int(object, "epochs", run->epochs);
    cli_json_int(object, "n_epochs", run->n_epochs);
    cli_json_real(object, "accuracy", run->accuracy);
    cli_json_real(object, "accuracy_nodes", run->accuracy_nodes);
    cli_json_real(object, "loss", run->loss);
    cli_json_real(object, "train_loss", run->train_loss);
    cli_json_real(object, "consensus_distance", run->consensus_distance);
    cli_json_int(object, "bytes_sent", (int64_t)run->bytes_sent);
    cli_json_real(object, "samples_per_s", run->samples_per_s);
    cli_json_real(object, "seconds", run->seconds);
    cli_json_text(object, "model_sha256", run->model_sha256);
    cli_json_text(object, "options", run->options);
    return object;
}

static struct cli_json *config_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *object = cli_json_object();
    const char *name, *value;
    for (int i = 0; oct_runs_option_at(runs, number, i, &name, &value, NULL) == OCT_OK; i++) {
        cli_json_option(object, name, value);
    }
    return object;
}

static struct cli_json *epochs_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *list = cli_json_array();
    struct oct_run_epoch epoch;
    for (int i = 0; oct_runs_epoch_at(runs, number, i, &epoch) == OCT_OK; i++) {
        struct cli_json *object = cli_json_object();
        cli_json_int(object, "epoch", epoch.epoch);
        cli_json_real(object, "accuracy", epoch.accuracy);
        cli_json_real(object, "loss", epoch.loss);
        cli_json_real(object, "train_accuracy", epoch.train_accuracy);
        cli_json_real(object, "train_loss", epoch.train_loss);
        cli_json_real(object, "consensus_distance", epoch.consensus_distance);
        cli_json_real(object, "learning_rate", epoch.learning_rate);
        cli_json_int(object, "bytes_sent", (int64_t)epoch.bytes_sent);
        cli_json_real(object, "samples_per_s", epoch.samples_per_s);
        cli_json_real(object, "seconds", epoch.seconds);
        cli_json_real(object, "clipped", epoch.clipped);
        cli_json_real(object, "zero", epoch.zero);
        cli_json_add(list, object);
    }
    return list;
}

/* Nodes as the last epoch left them. */
static struct cli_json *nodes_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *list = cli_json_array();
    struct oct_run_node node;
    for (int i = 0; oct_runs_node_at(runs, number, 0, i, &node) == OCT_OK; i++) {
        struct cli_json *object = cli_json_object(), *classes = cli_json_array();
        int64_t count;
        for (int label = 0; oct_runs_class_at(runs, number, i, label, &count) == OCT_OK; label++) {
            cli_json_add_int(classes, count);
        }
        cli_json_int(object, "node", node.node);
        cli_json_int(object, "n_samples", node.n_samples);
        cli_json_real(object, "accuracy", node.accuracy);
        cli_json_real(object, "train_accuracy", node.train_accuracy);
        cli_json_real(object, "train_loss", node.train_loss);
        cli_json_real(object, "consensus_distance", node.consensus_distance);
        cli_json_int(object, "bytes_sent", (int64_t)node.bytes_sent);
        cli_json_put(object, "classes", classes);
        cli_json_add(list, object);
    }
    return list;
}

static struct cli_json *edges_json(struct oct_runs *runs, int64_t number) {
    struct cli_json *list = cli_json_array();
    struct oct_run_edge edge;
    for (int64_t i = 0; oct_runs_edge_at(runs, number, 0, i, &edge) == OCT_OK; i++) {
        struct cli_json *object = cli_json_object();
        cli_json_int(object, "from", edge.from);
        cli_json_int(object, "to", edge.to);
        cli_json_int(object, "bytes", (int64_t)edge.bytes);
        cli_json_int(object, "messages", (int64_t)edge.messages);
        cli_json_add(list, object);
    }
    return list;
}

/* Steps from one message to the next; it says 1 where the record does not. */
static struct cli_text gossip_every(struct oct_runs *runs, int64_t number) {
    const char *value;
    struct cli_text every = {"1"};
    if (oct_runs_option_find(runs, number, "gossip-every", &value) == OCT_OK) {
        snprintf(every.text, sizeof every.text, "%s", value);
    }
    return every;
}

struct cli_json *runs_json_all(struct oct_runs *runs, const struct oct_run *run,
                               const char *command) {
    const int64_t number = run->number;
    struct cli_json *root = runs_json(run);
    cli_json_real(root, "accuracy_least", run->accuracy_least);
    cli_json_real(root, "accuracy_most", run->accuracy_most);
    cli_json_int(root, "bytes_final", (int64_t)run->bytes_final);
    cli_json_int(root, "bytes_dense", (int64_t)run->bytes_dense);
    cli_json_real(root, "sent_of_dense",
                  cli_of_dense(run->bytes_sent, run->bytes_final, run->bytes_dense,
                               gossip_every(runs, number).text));
    cli_json_real(root, "gossip_share", run->gossip_share);
    cli_json_int(root, "n_parameters", run->n_parameters);
    cli_json_text(root, "command", command);
    cli_json_put(root, "rows", epochs_json(runs, number));
    cli_json_put(root, "nodes", nodes_json(runs, number));
    cli_json_put(root, "edges", edges_json(runs, number));
    cli_json_put(root, "config", config_json(runs, number));
    return root;
}

/* --- in words ------------------------------------------------------------------------------- */

static void add_line(struct cli_table *table, const char *name, const char *value,
                     const char *note) {
    cli_table_cell(table, "%s", name);
    cli_table_cell(table, "%s", value);
    cli_table_cell(table, "%s", note);
}

/* `every`: steps from one message to the next. */
static void print_result(const struct oct_run *run, const char *every) {
    struct cli_table table;
    char spread[96], sum[16], epochs[32], dense[96] = "over all edges";
    snprintf(epochs, sizeof epochs, "%d of %d", run->epochs, run->n_epochs);
    cli_table_init(&table, "result|>value|~");
    add_line(&table, "epochs", epochs, "");
    if (run->has_result) {
        add_line(&table, "accuracy", runs_percent(run->accuracy, 2).text, "of the average model");
        if (isfinite(run->accuracy_nodes)) {
            snprintf(spread, sizeof spread, "mean over the nodes, from %s to %s",
                     runs_percent(run->accuracy_least, 2).text,
                     runs_percent(run->accuracy_most, 2).text);
            add_line(&table, "nodes", runs_percent(run->accuracy_nodes, 2).text, spread);
        }
        add_line(&table, "loss", cli_decimals(run->loss, 4).text, "on the test set");
        add_line(&table, "train loss", cli_decimals(run->train_loss, 4).text, "last epoch");
        add_line(&table, "consensus", runs_number(run->consensus_distance).text,
                 "distance of the nodes from their mean");
        const double of_dense =
            cli_of_dense(run->bytes_sent, run->bytes_final, run->bytes_dense, every);
        if (isfinite(of_dense)) {
            snprintf(dense, sizeof dense, "over all edges; %s of plain floats%s",
                     cli_part(of_dense).text, cli_every_step(every));
        }
        add_line(&table, "sent", cli_bytes(runs_sent(run)).text, dense);
        if (run->bytes_final > 0) {
            add_line(&table, "  at the end", cli_bytes(run->bytes_final).text, RUNS_FINAL_NOTE);
        }
        if (isfinite(run->gossip_share) && run->bytes_sent > 0) {
            add_line(&table, "gossip", cli_percent(run->gossip_share, 1).text,
                     "of the training time");
        }
        add_line(&table, "samples/s", cli_count(run->samples_per_s).text, "training");
        add_line(&table, "time", cli_time(run->seconds).text, "with evaluation");
    }
    if (run->model_sha256) {
        snprintf(sum, sizeof sum, "%.12s", run->model_sha256);
        add_line(&table, "model", sum, "begin of its sha256");
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

/* Clip rates have columns where some epoch has any. */
static int has_clips(struct oct_runs *runs, int64_t number) {
    struct oct_run_epoch epoch;
    int found = 0;
    for (int i = 0; !found && oct_runs_epoch_at(runs, number, i, &epoch) == OCT_OK; i++) {
        found = isfinite(epoch.clipped) || isfinite(epoch.zero);
    }
    return found;
}

/* Figures that a narrow terminal has no room for: speed, time and learning rate. */
static void add_epoch(struct cli_table *table, const struct oct_run_epoch *epoch, int is_wide,
                      int clips) {
    cli_table_cell(table, "%d", epoch->epoch);
    cli_table_cell(table, "%s", runs_percent(epoch->accuracy, 2).text);
    cli_table_cell(table, "%s", cli_decimals(epoch->loss, 4).text);
    cli_table_cell(table, "%s", runs_percent(epoch->train_accuracy, 2).text);
    cli_table_cell(table, "%s", cli_decimals(epoch->train_loss, 4).text);
    cli_table_cell(table, "%s", runs_number(epoch->consensus_distance).text);
    cli_table_cell(table, "%s", cli_bytes(epoch->bytes_sent).text);
    if (is_wide) {
        cli_table_cell(table, "%s", cli_count(epoch->samples_per_s).text);
        cli_table_cell(table, "%s", cli_time(epoch->seconds).text);
        cli_table_cell(table, "%s", runs_number(epoch->learning_rate).text);
    }
    if (clips) {
        cli_table_cell(table, "%s", runs_percent(100 * epoch->clipped, 1 + is_wide).text);
        cli_table_cell(table, "%s", runs_percent(100 * epoch->zero, 1 + is_wide).text);
    }
}

static void print_epochs(struct oct_runs *runs, int64_t number) {
    struct cli_table table;
    struct oct_run_epoch epoch;
    const int width = cli_width(stdout, 0), is_wide = width == 0 || width >= 110;
    const int clips = has_clips(runs, number);
    char heads[160];
    int n = 0;
    snprintf(heads, sizeof heads, ">epoch|>test acc|>loss|>train acc|>loss|>consensus|>sent%s%s",
             is_wide ? "|>samples/s|>time|>rate" : "", clips ? "|>clipped|>zero" : "");
    cli_table_init(&table, heads);
    for (; oct_runs_epoch_at(runs, number, n, &epoch) == OCT_OK; n++) {
        add_epoch(&table, &epoch, is_wide, clips);
    }
    if (n > 0) {
        putchar('\n');
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
}

static int classes_held(struct oct_runs *runs, int64_t number, int node) {
    int64_t count;
    int n = 0;
    for (int label = 0; oct_runs_class_at(runs, number, node, label, &count) == OCT_OK; label++) {
        n += count > 0;
    }
    return n;
}

static void print_nodes(struct oct_runs *runs, int64_t number) {
    struct cli_table table;
    struct oct_run_node node;
    int n = 0;
    cli_table_init(&table, ">node|>samples|>classes|>train acc|>train loss|>own test acc|"
                           ">consensus|>sent");
    for (; n < NODES_SHOWN && oct_runs_node_at(runs, number, 0, n, &node) == OCT_OK; n++) {
        cli_table_cell(&table, "%d", node.node);
        cli_table_cell(&table, "%s", cli_count((double)node.n_samples).text);
        cli_table_cell(&table, "%d", classes_held(runs, number, n));
        cli_table_cell(&table, "%s", runs_percent(node.train_accuracy, 2).text);
        cli_table_cell(&table, "%s", cli_decimals(node.train_loss, 4).text);
        cli_table_cell(&table, "%s", runs_percent(node.accuracy, 2).text);
        cli_table_cell(&table, "%s", runs_number(node.consensus_distance).text);
        cli_table_cell(&table, "%s", cli_bytes(node.bytes_sent).text);
    }
    if (n > 1) { /* one is the run itself */
        putchar('\n');
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
    if (n == NODES_SHOWN && oct_runs_node_at(runs, number, 0, n, &node) == OCT_OK) {
        printf("and more; --json has all of them\n");
    }
}

/* "16 edges carried 12,288 messages, from 1.2 MiB (3 to 4) to 1.3 MiB (0 to 1) each" */
static void print_edges(struct oct_runs *runs, int64_t number) {
    struct oct_run_edge edge, least = {.bytes = UINT64_MAX}, most = {.bytes = 0};
    uint64_t messages = 0;
    int64_t n = 0;
    for (; oct_runs_edge_at(runs, number, 0, n, &edge) == OCT_OK; n++) {
        messages += edge.messages;
        least = edge.bytes < least.bytes ? edge : least;
        most = edge.bytes > most.bytes ? edge : most;
    }
    if (n == 0) {
        return;
    }
    printf("\n%s edges carried %s messages, ", cli_count((double)n).text,
           cli_count((double)messages).text);
    if (strcmp(cli_bytes(least.bytes).text, cli_bytes(most.bytes).text) == 0) {
        printf("%s each\n", cli_bytes(most.bytes).text);
    } else {
        printf("from %s (%d to %d) to %s (%d to %d) each\n", cli_bytes(least.bytes).text,
               least.from, least.to, cli_bytes(most.bytes).text, most.from, most.to);
    }
}

static void print_options(struct oct_runs *runs, int64_t number) {
    struct cli_table table;
    const char *name, *value;
    int is_set;
    cli_table_init(&table, "option|value|");
    for (int i = 0; oct_runs_option_at(runs, number, i, &name, &value, &is_set) == OCT_OK; i++) {
        if (is_set || *value) { /* what follows from the rest and came to nothing is left out */
            add_line(&table, name, value, is_set ? "set" : "");
        }
    }
    putchar('\n');
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_run(struct oct_runs *runs, const struct oct_run *run, const char *command,
                      const char *every) {
    const int64_t number = run->number; /* its texts go with the next call */
    const int width = cli_width(stdout, 100);
    printf("%srun %lld%s of %s: ", cli_style(stdout, CLI_BOLD), (long long)number,
           cli_style(stdout, CLI_PLAIN), runs_date(run->started, "%Y-%m-%d %H:%M:%S", 0).text);
    cli_put(stdout, run->outcome);
    fputs(" (octet ", stdout);
    cli_put(stdout, run->version);
    fputs(")\n", stdout);
    if (run->label[0]) {
        cli_put(stdout, run->label);
        putchar('\n');
    }
    if (run->machine[0]) {
        fputs("on ", stdout);
        cli_wrap(stdout, run->machine, 3, 3, width);
    }
    putchar('\n');
    print_result(run, every);
    print_epochs(runs, number);
    print_nodes(runs, number);
    print_edges(runs, number);
    print_options(runs, number);
    printf("\nagain: %s\n", command);
}

int runs_show(const struct cli *cli, struct oct_runs *runs, const char *path, int64_t number) {
    char *command = NULL;
    struct oct_run run;
    const struct cli_text every = gossip_every(runs, number);
    oct_status status = runs_command(runs, number, &command);
    if (status == OCT_OK) {
        status = oct_runs_find(runs, number, &run);
    }
    int code = CLI_DONE;
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else if (cli->json) {
        struct cli_json *root = runs_json_all(runs, &run, command);
        cli_json_text(root, "db", path);
        code = cli_json_print(root);
    } else {
        print_run(runs, &run, command, every.text);
    }
    free(command);
    return code;
}
