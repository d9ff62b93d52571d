/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - octet train: one run, watched, stopped cleanly, and summed up; or two side by side.
 *
 * With --compare the same run is done again in another precision. The first run is what the command
 * is about: it is the one that is saved and traced, and whatever happens to the second, the first is
 * reported.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct oct_option own[] = {
    {.name = "compare",
     .placeholder = "PRECISION",
     .summary = "then train again in this precision and print both",
     .group = "Output",
     .type = OCT_OPTION_CHOICE},
    {.name = "trace-quant",
     .summary = "list the 8-bit quantizers: clipped, zero, scale",
     .group = "Output"},
    {.name = "save",
     .placeholder = "FILE",
     .summary = "write the trained parameters (safetensors)",
     .group = "Output"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"train", "ResNet-20 on Fashion-MNIST, in 8 bits"},
    {"train --samples 10000 --epochs 2 --compare fp32", "8 bits beside floats"},
    {"train --data cifar10 --epochs 5 --batch 128 --save resnet20.safetensors",
     "another dataset, and keep the model"},
    {"train --data synthetic:samples=512 --epochs 1 --json", "a result for a program to read"},
    {NULL, NULL},
};

/* --- a run ---------------------------------------------------------------------------------- */

struct run {
    const struct oct_config *config;
    struct oct_result result;
    struct cli_quantizers quantizers; /* of a run that is traced */
    int stopped;                      /* by Ctrl-C, before its end */
};

/* What the callback needs to know: Ctrl-C counts while training, not while the result of what was
 * learned is being evaluated. */
struct watch {
    const struct oct_trainer *trainer;
    struct cli_quantizers *quantizers; /* NULL: not traced */
    int may_stop;
    int said;
};

static int watch_progress(const struct oct_progress *progress, void *context) {
    struct watch *watch = context;
    if (cli_interrupted() && watch->may_stop) {
        if (!watch->said) {
            cli_progress_say("stopping after this step; once more ends it at once");
            watch->said = 1;
        }
        return 1;
    }
    if (watch->quantizers && progress->phase == OCT_PHASE_EPOCH_END) {
        cli_quantizers_read(watch->quantizers, watch->trainer);
    }
    cli_progress_train(progress, watch->quantizers);
    return 0;
}

/* Trains and evaluates; an interrupted run is evaluated as it is, and is no failure. */
static oct_status train_once(struct run *run, int traced, const char *save) {
    struct watch watch = {.quantizers = traced ? &run->quantizers : NULL, .may_stop = 1};
    struct oct_hooks hooks = {.progress = watch_progress, .progress_context = &watch};
    struct oct_trainer *trainer = NULL;
    cli_progress_note("reading %s", oct_config_get(run->config, "data"));
    oct_status status = oct_trainer_create(run->config, &hooks, &trainer);
    if (status != OCT_OK) {
        return status;
    }
    watch.trainer = trainer;
    if (traced) {
        oct_trainer_watch(trainer);
    }
    status = oct_trainer_run(trainer);
    run->stopped = status == OCT_STATUS_CANCELLED;
    if (status == OCT_OK || run->stopped) {
        watch.may_stop = 0;
        cli_progress_note("evaluating");
        status = oct_trainer_result(trainer, &run->result);
    }
    if (status == OCT_OK && save) {
        status = oct_trainer_save(trainer, save);
    }
    cli_progress_clear();
    oct_trainer_destroy(trainer);
    return status;
}

/* --- what is printed ------------------------------------------------------------------------ */

/* All that the command found out. */
struct report {
    struct run first, second;
    const char *compare; /* the second's precision; NULL: there is none */
    oct_status failure;  /* of the second */
    const char *saved;
    int traced, stopped; /* stopped: either of them, or between them */
};

static int has_second(const struct report *report) {
    return report->compare && report->failure == OCT_OK;
}

static const char *setting(const struct run *run, const char *name) {
    return oct_config_get(run->config, name);
}

struct rows {
    struct cli_table table;
    int two; /* values of two runs in each row */
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

static void add_results(struct rows *rows, const struct oct_result *a, const struct oct_result *b) {
    char points[48];
    snprintf(points, sizeof points, "%+.2f points", a->accuracy - b->accuracy);
    double speed = a->samples_per_s / b->samples_per_s;
    double memory = (double)a->workspace_bytes / (double)b->workspace_bytes;
    add_row(rows, "accuracy", cli_percent(a->accuracy / 100, 2).text,
            cli_percent(b->accuracy / 100, 2).text, "on the test set", points);
    add_row(rows, "loss", cli_decimals(a->loss, 4).text, cli_decimals(b->loss, 4).text,
            "on the test set", "");
    add_row(rows, "train loss", cli_decimals(a->train_loss, 4).text,
            cli_decimals(b->train_loss, 4).text, "last epoch", "");
    add_row(rows, "samples/s", cli_count(a->samples_per_s).text, cli_count(b->samples_per_s).text,
            "training", cli_times(speed).text);
    add_row(rows, "time", cli_time(a->seconds).text, cli_time(b->seconds).text, "with evaluation",
            "");
    add_row(rows, "parameters", cli_count((double)a->n_parameters).text,
            cli_count((double)b->n_parameters).text, "", "");
    add_row(rows, "workspace", cli_bytes(a->workspace_bytes).text,
            cli_bytes(b->workspace_bytes).text, "activations and gradients", cli_part(memory).text);
    add_row(rows, "state", cli_bytes(a->state_bytes).text, cli_bytes(b->state_bytes).text,
            "parameters, momentum, statistics", "");
    if (a->bytes_sent > 0) {
        char distances[2][32];
        snprintf(distances[0], sizeof distances[0], "%.3g", a->consensus_distance);
        snprintf(distances[1], sizeof distances[1], "%.3g", b->consensus_distance);
        add_row(rows, "sent", cli_bytes(a->bytes_sent).text, cli_bytes(b->bytes_sent).text,
                "over all edges", "");
        add_row(rows, "consensus", distances[0], distances[1],
                "distance of the nodes from their mean", "");
    }
    char sums[2][16];
    snprintf(sums[0], sizeof sums[0], "%.12s", a->model_sha256);
    snprintf(sums[1], sizeof sums[1], "%.12s", b->model_sha256);
    add_row(rows, "model", sums[0], sums[1], "begin of its sha256", "");
}

static void print_title(const struct report *report) {
    const struct run *first = &report->first;
    printf("%s", cli_width(stdout, 0) > 0 ? "\n" : ""); /* apart from the rows of epochs */
    printf("%s%s on %s%s: ", cli_style(stdout, CLI_BOLD), setting(first, "model"),
           setting(first, "data"), cli_style(stdout, CLI_PLAIN));
    if (!has_second(report)) {
        printf("%s, ", setting(first, "norm"));
    }
    printf("%s%s%s, %d epoch%s%s\n", setting(first, "precision"),
           has_second(report) ? " beside " : "", has_second(report) ? report->compare : "",
           first->result.epochs, first->result.epochs == 1 ? "" : "s",
           first->stopped ? ", interrupted" : "");
}

static void print_table(const struct report *report) {
    const struct run *first = &report->first, *second = &report->second;
    struct rows rows = {.two = has_second(report)};
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
        add_results(&rows, &first->result, &second->result);
    } else {
        add_results(&rows, &first->result, &first->result);
    }
    if (report->saved) {
        add_row(&rows, "saved", "", "", report->saved, report->saved);
    }
    cli_table_print(&rows.table, stdout);
    cli_table_fini(&rows.table);
    if (report->traced && first->quantizers.n > 0) {
        putchar('\n');
        cli_quantizers_print(&first->quantizers, stdout);
    } else if (report->traced) {
        printf("\nno quantizers: the last step of an epoch is looked at, and there was none\n");
    }
}

static struct cli_json *compare_json(const struct report *report) {
    const struct oct_result *r = &report->second.result;
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "precision", report->compare);
    cli_json_text(object, "norm", setting(&report->second, "norm"));
    if (report->failure != OCT_OK) {
        struct cli_json *error = cli_json_object();
        cli_json_text(error, "status", oct_status_name(report->failure));
        cli_json_text(error, "message", oct_last_error());
        cli_json_put(object, "error", error);
        return object;
    }
    cli_json_real(object, "accuracy", r->accuracy);
    cli_json_real(object, "loss", r->loss);
    cli_json_real(object, "train_loss", r->train_loss);
    cli_json_real(object, "samples_per_s", r->samples_per_s);
    cli_json_real(object, "seconds", r->seconds);
    cli_json_int(object, "epochs", r->epochs);
    cli_json_int(object, "workspace_bytes", (int64_t)r->workspace_bytes);
    cli_json_int(object, "state_bytes", (int64_t)r->state_bytes);
    cli_json_text(object, "model_sha256", r->model_sha256);
    cli_json_flag(object, "interrupted", report->second.stopped);
    return object;
}

static int print_json(const struct report *report) {
    const struct oct_result *r = &report->first.result;
    struct cli_json *root = cli_json_object();
    cli_json_real(root, "accuracy", r->accuracy);
    cli_json_real(root, "accuracy_nodes", r->accuracy_nodes);
    cli_json_real(root, "loss", r->loss);
    cli_json_real(root, "train_loss", r->train_loss);
    cli_json_real(root, "consensus_distance", r->consensus_distance);
    cli_json_int(root, "bytes_sent", (int64_t)r->bytes_sent);
    cli_json_real(root, "samples_per_s", r->samples_per_s);
    cli_json_real(root, "seconds", r->seconds);
    cli_json_int(root, "epochs", r->epochs);
    cli_json_int(root, "n_parameters", r->n_parameters);
    cli_json_int(root, "workspace_bytes", (int64_t)r->workspace_bytes);
    cli_json_int(root, "state_bytes", (int64_t)r->state_bytes);
    cli_json_text(root, "model_sha256", r->model_sha256);
    cli_json_flag(root, "interrupted", report->stopped);
    cli_json_text(root, "saved", report->saved);
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

/* --- the command ---------------------------------------------------------------------------- */

/* A run of hours must not end with "no such directory". A file is replaced by a new one, so its
 * folder must be writable; a device or a pipe is written to directly. */
static int check_save(const struct cli *cli, const char *path) {
    struct stat existing;
    int exists = stat(path, &existing) == 0;
    if (exists && S_ISDIR(existing.st_mode)) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--save: '%s' is a folder", path);
    }
    char place[4096] = ".";
    const char *slash = strrchr(path, '/');
    if (exists && !S_ISREG(existing.st_mode)) {
        snprintf(place, sizeof place, "%s", path);
    } else if (slash) {
        snprintf(place, sizeof place, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    }
    if (access(place, W_OK) != 0) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--save: cannot write into '%s': %s",
                         place, strerror(errno));
    }
    return CLI_DONE;
}

/* The run's options with another precision. What was left to its default stays so: the norm's
 * depends on the precision. */
static int other_config(const struct cli *cli, const char *precision, struct oct_config **out) {
    oct_status status = oct_config_copy(cli->config, out);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    status = oct_config_set(*out, "precision", precision);
    if (status == OCT_STATUS_INVALID) { /* "precision is 'fp31', expected …" */
        return cli_usage(cli, "--compare%s", oct_last_error() + strlen("precision"));
    }
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    if (strcmp(precision, oct_config_get(cli->config, "precision")) == 0) {
        return cli_usage(
            cli, "--compare is '%s', the precision of the run itself; expected another", precision);
    }
    return CLI_DONE;
}

static int is_fp32(const struct oct_config *config) {
    return strcmp(oct_config_get(config, "precision"), "fp32") == 0;
}

/* Both runs and their report. */
static int train_and_report(struct cli *cli, struct report *report) {
    if (report->compare) {
        cli_progress_heading("run 1 of 2: %s, %s", setting(&report->first, "precision"),
                             setting(&report->first, "norm"));
    }
    oct_status status = train_once(&report->first, report->traced, report->saved);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    report->stopped = report->first.stopped;
    if (report->compare && cli_interrupted()) { /* also while the first was being evaluated */
        report->compare = NULL;
        report->stopped = 1;
    } else if (report->compare) {
        cli_progress_heading("run 2 of 2: %s, %s", report->compare,
                             setting(&report->second, "norm"));
        report->failure = train_once(&report->second, 0, NULL);
        report->stopped = report->second.stopped;
    }
    int code = CLI_DONE;
    if (cli->json) {
        code = print_json(report);
    } else {
        print_table(report);
    }
    if (report->failure != OCT_OK) {
        struct cli plain = *cli; /* the object is printed already */
        plain.json = 0;
        fflush(stdout);
        return cli_error(&plain, CLI_FAILED, report->failure, "--compare %s: %s", report->compare,
                         oct_last_error());
    }
    return report->stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

static int train(struct cli *cli) {
    struct report report = {
        .first.config = cli->config,
        .compare = cli_own(cli, "compare"),
        .saved = cli_own(cli, "save"),
        .traced = cli_own(cli, "trace-quant") != NULL,
    };
    struct oct_config *other = NULL;
    int code = CLI_DONE;
    if (report.traced && is_fp32(cli->config)) {
        code = cli_usage(cli, "--trace-quant looks at the quantizers of a run in 8 bits; "
                              "--precision is 'fp32'");
    }
    if (code == CLI_DONE && report.compare) {
        code = other_config(cli, report.compare, &other);
        report.second.config = other;
    }
    if (code == CLI_DONE && report.saved) {
        code = check_save(cli, report.saved);
    }
    if (code == CLI_DONE) {
        cli_interrupt_catch();
        code = train_and_report(cli, &report);
    }
    cli_quantizers_fini(&report.first.quantizers);
    oct_config_destroy(other);
    return code;
}

const struct cli_command cli_train = {
    .name = "train",
    .summary = "train a network and evaluate it",
    .about =
        "Trains one network and evaluates it after every epoch. The same options and seed give "
        "the same model, bit for bit, whatever the number of threads. Ctrl-C stops after the "
        "step and reports what was learned; a second one ends the program at once.",
    .own = own,
    .examples = examples,
    .json = "accuracy, accuracy_nodes, loss, train_loss, consensus_distance, bytes_sent, "
            "samples_per_s, seconds, epochs, n_parameters, workspace_bytes, state_bytes, "
            "model_sha256, interrupted, saved, compare (precision, norm, accuracy, loss, "
            "train_loss, samples_per_s, seconds, epochs, workspace_bytes, state_bytes, "
            "model_sha256, interrupted; or error), quantizers (layer, kind, clipped, zero, "
            "scale), config",
    .run = train,
};
