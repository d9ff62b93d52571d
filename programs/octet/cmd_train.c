/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - octet train: one run, watched, stopped cleanly, and summed up; or two side by side.
 *
 * Options come from the command line, then from a run file, then from a checkpoint; what came first
 * stays. With --compare the same run is done again in another precision. The first run is what the
 * command is about: it is the one that is saved, kept, recorded and traced, and whatever happens to
 * the second, the first is reported.
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
     .summary = "write the average model's parameters (safetensors)",
     .group = "Output"},
    {.name = "save-form",
     .placeholder = "FORM",
     .summary = "of that file: f32, or int8 (weights as bytes and scales, a quarter of the size)",
     .fallback = "f32",
     .group = "Output"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"train", "8 nodes on a directed ring, in 8 bits"},
    {"train --nodes 16 --topology exponential --skew 1 --compress topk:0.99",
     "another graph, own classes for each node, 1 % of each message"},
    {"train run.yaml --epochs 5 --checkpoint kept", "options from a file, and a way to go on"},
    {"train --resume kept", "go on where that was stopped, to the same bits"},
    {"train --nodes 1 --data cifar10 --epochs 5 --compare fp32", "one node; 8 bits beside floats"},
    {"train --data synthetic:samples=512 --epochs 1 --json", "a result for a program to read"},
    {NULL, NULL},
};

/* --- before: what the command line asks for --------------------------------------------------- */

/* The model's file would be made in the folder of `place`. */
static int check_save_folder(const struct cli *cli, char *place) {
    char *slash = strrchr(place, '/');
    const char *folder = slash == place ? "/" : slash ? place : ".";
    if (slash) {
        *slash = '\0';
    }
    return access(folder, W_OK) == 0
               ? CLI_DONE
               : cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--save: cannot write into '%s': %s",
                           folder, strerror(errno));
}

/* A run of hours must not end with "no such directory". A file is replaced by a new one, so both it
 * and its folder must be writable; a device or a pipe is written to directly. */
static int check_save(const struct cli *cli, const char *path) {
    char place[CLI_PLACE_BYTES];
    struct stat existing;
    int is_whole;
    if (cli_is_stdout(path)) {
        return cli_usage(cli, "--save is '-', but a model is no text for stdout; name a file: "
                              "--save model.safetensors");
    }
    const int error = cli_output_place(path, place, &is_whole);
    if (error) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--save: '%s' leads nowhere: %s", path,
                         strerror(error));
    }
    const int exists = stat(place, &existing) == 0;
    if (exists && S_ISDIR(existing.st_mode)) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--save: '%s' is a folder", path);
    }
    if (exists && access(place, W_OK) != 0) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO,
                         "--save: '%s' may not be written: %s; name another file", path,
                         strerror(errno));
    }
    return is_whole ? check_save_folder(cli, place) : CLI_DONE;
}

/* Options from the run file and from the checkpoint. */
static int complete_config(struct cli *cli) {
    if (cli->n_words > 0) {
        oct_status status = oct_config_read(cli->config, cli->words[0]);
        if (status != OCT_OK) {
            return cli_fail(cli, status);
        }
    }
    char folder[4096];
    const char *resume = oct_config_get(cli->config, "resume");
    if (*resume == '\0') {
        return CLI_DONE;
    }
    if (cli_own(cli, "compare")) {
        return cli_usage(cli, "--compare trains both runs from their start; --resume goes on with "
                              "one");
    }
    snprintf(folder, sizeof folder, "%s", resume);
    oct_status status = oct_config_resume(cli->config, folder);
    return status == OCT_OK ? CLI_DONE : cli_fail(cli, oct_config_locate(cli->config, status));
}

/* The run's options with another precision, and nothing kept. What was left to its default stays so:
 * the norm's depends on the precision. */
static int other_config(const struct cli *cli, const char *precision, struct oct_config **out) {
    oct_status status = oct_config_recast(cli->config, precision, out);
    if (status == OCT_STATUS_INVALID) { /* "precision is 'fp31', expected …" */
        return cli_usage(cli, "--compare%s", oct_last_error() + strlen("precision"));
    }
    if (status == OCT_OK) {
        status = oct_config_set(*out, "checkpoint", "");
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

/* The form of the model file: int8 is for runs that compute with bytes. */
static int read_form(const struct cli *cli, enum oct_model_form *out) {
    const char *form = cli_own(cli, "save-form");
    *out = strcmp(form, "int8") == 0 ? OCT_MODEL_INT8 : OCT_MODEL_F32;
    if (*out == OCT_MODEL_F32 && strcmp(form, "f32") != 0) {
        return cli_usage(cli, "--save-form is '%.40s', expected f32 or int8", form);
    }
    if (*out == OCT_MODEL_INT8 && !cli_own(cli, "save")) {
        return cli_usage(cli,
                         "--save-form says how the file of --save is written; give --save FILE");
    }
    if (*out == OCT_MODEL_INT8 && strcmp(oct_config_get(cli->config, "precision"), "fp32") == 0) {
        return cli_usage(cli, "--save-form int8 is the weights of a run in 8 bits; precision is "
                              "'fp32'");
    }
    return CLI_DONE;
}

/* One of many processes: rank 0 speaks and keeps the record. */
static int join_ranks(struct cli *cli, const struct cli_report *report) {
    int n_ranks;
    oct_status status = cli_ranks_begin(oct_config_get(cli->config, "transport"));
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    cli_ranks_warn(cli);
    const int rank = oct_ranks_here(&n_ranks);
    if (n_ranks > 1 && report->compare) {
        return cli_usage(cli, "--compare trains two runs in one process; with several ranks, train "
                              "them one after the other");
    }
    if (rank > 0) {
        cli->quiet = 1;
        cli->json = 0;
        cli_progress_begin(cli);
        status = oct_config_set(cli->config, "db", "none");
    }
    return status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
}

/* Everything that can be wrong before the first sample is read. */
static int prepare(struct cli *cli, struct cli_report *report, struct oct_config **other) {
    int code = complete_config(cli);
    if (code == CLI_DONE) {
        code = join_ranks(cli, report);
    }
    if (code == CLI_DONE && report->traced &&
        strcmp(oct_config_get(cli->config, "precision"), "fp32") == 0) {
        code = cli_usage(cli, "--trace-quant looks at the quantizers of a run in 8 bits; "
                              "precision is 'fp32'");
    }
    if (code == CLI_DONE && report->compare) {
        code = other_config(cli, report->compare, other);
        report->second.config = *other;
    }
    if (code == CLI_DONE) {
        code = read_form(cli, &report->form);
    }
    if (code == CLI_DONE && report->saved && oct_ranks_here(NULL) == 0) {
        code = check_save(cli, report->saved);
    }
    return code == CLI_DONE ? cli_training_check(cli, cli->config) : code;
}

/* --- the command ---------------------------------------------------------------------------- */

/* The run that the command is about, recorded; what goes wrong is reported. */
static int run_first(struct cli *cli, struct cli_report *report, const struct cli_data *data,
                     struct cli_record *record) {
    struct cli_run *run = &report->first;
    struct cli_training training = {
        .cli = cli,
        .data = data,
        .save = report->saved,
        .form = report->form,
        .traced = report->traced,
        .opens = !cli->quiet,
    };
    run->record = record;
    (void)cli_training_run(&training, run, 1); /* which run->status says, too */
    const char *folder = oct_config_get(run->config, "checkpoint");
    report->checkpoint = *folder && (run->stopped || run->result.epochs > 0) ? folder : NULL;
    report->number = record->number;
    report->database = record->number > 0 ? record->database.path : NULL;
    report->stopped = run->stopped;
    report->saved = run->saving == OCT_OK ? report->saved : NULL;
    if (training.refused != CLI_DONE || run->status == OCT_OK) {
        return training.refused;
    }
    return cli_error(cli, cli_exit_of(run->status), run->status, "%s", run->reason);
}

/* The one it is compared with; a failure is kept for the report. */
static void run_second(const struct cli *cli, struct cli_report *report,
                       const struct cli_data *data) {
    struct cli_training training = {.cli = cli, .data = data};
    (void)cli_training_run(&training, &report->second, 1);
    report->failure = report->second.status;
    report->stopped = report->second.stopped;
}

static int run_both(struct cli *cli, struct cli_report *report, const struct cli_data *data,
                    struct cli_record *record) {
    if (report->compare) {
        cli_progress_heading("run 1 of 2: %s, %s", oct_config_get(cli->config, "precision"),
                             oct_config_get(cli->config, "norm"));
    }
    int code = run_first(cli, report, data, record);
    if (code != CLI_DONE || !report->compare) {
        return code;
    }
    if (cli_interrupted()) { /* also while the first was being evaluated */
        report->compare = NULL;
        report->stopped = 1;
        return CLI_DONE;
    }
    cli_progress_heading("run 2 of 2: %s, %s", report->compare,
                         oct_config_get(report->second.config, "norm"));
    run_second(cli, report, data);
    return CLI_DONE;
}

/* What was wanted besides the result, and failed; the result is printed already. */
static int say_failed(const struct cli *cli, oct_status status, const char *prefix,
                      const char *reason) {
    struct cli plain = *cli;
    plain.json = 0;
    fflush(stdout);
    return cli_error(&plain, CLI_FAILED, status, "%s%s", prefix, reason);
}

/* A run that was stopped: how it goes on. */
static void say_how_to_go_on(const struct cli *cli, const struct cli_report *report) {
    if (cli->quiet || !report->first.stopped) {
        return;
    }
    fflush(stdout);
    if (!report->checkpoint) {
        fputs("not kept: with --checkpoint DIR it could go on from here\n", stderr);
        return;
    }
    fprintf(stderr, "checkpoint in %s; to go on: octet train --resume ", report->checkpoint);
    cli_quote(stderr, report->checkpoint);
    fputc('\n', stderr);
}

static int train_and_report(struct cli *cli, struct cli_report *report, struct cli_record *record) {
    struct cli_data data = {NULL, NULL, NULL};
    oct_status status = cli_data_open(&data, cli, cli->config);
    int code = status == OCT_OK ? run_both(cli, report, &data, record) : cli_fail(cli, status);
    cli_data_close(&data);
    if (code != CLI_DONE) {
        return code;
    }
    if (cli->json) {
        code = cli_report_json(report);
    } else {
        cli_report_print(report);
    }
    say_how_to_go_on(cli, report);
    if (report->first.saving != OCT_OK) {
        code = say_failed(cli, report->first.saving, "--save: ", report->first.unsaved);
    }
    if (report->failure != OCT_OK) {
        char compare[64];
        snprintf(compare, sizeof compare, "--compare %s: ", report->compare);
        code = say_failed(cli, report->failure, compare, report->second.reason);
    }
    return report->stopped && code == CLI_DONE ? CLI_INTERRUPTED : code;
}

static int train(struct cli *cli) {
    struct cli_report report = {
        .first.config = cli->config,
        .compare = cli_own(cli, "compare"),
        .saved = cli_own(cli, "save"),
        .traced = cli_own(cli, "trace-quant") != NULL,
    };
    struct cli_record record = {.runs = NULL};
    struct oct_config *other = NULL;
    int code = prepare(cli, &report, &other);
    if (code == CLI_DONE) {
        cli_interrupt_catch();
        code = cli_record_check(&record, cli, train_and_report(cli, &report, &record));
    }
    cli_quantizers_fini(&report.first.quantizers);
    oct_config_destroy(other);
    return code;
}

const struct cli_command cli_train = {
    .name = "train",
    .arguments = "[RUN.yaml]",
    .most_words = 1,
    .summary = "train a network on nodes that talk only to neighbours",
    .about =
        "Trains one network on many nodes, each with its own samples, that talk only to their "
        "neighbours, and evaluates the average of their models after every epoch. Options come "
        "from the command line, and from a run file with the same names, which the command line "
        "overrides. The same options and seed give the same model, bit for bit, whatever the "
        "number of threads. Ctrl-C or SIGTERM stops after the step, writes a checkpoint when "
        "--checkpoint is given, and reports what was learned; a second one ends the program at "
        "once.",
    .own = own,
    .examples = examples,
    .json = "accuracy (of the average model, per cent), accuracy_nodes (mean over nodes), "
            "accuracy_least, accuracy_most, nodes_tested, loss, train_loss, consensus_distance, "
            "bytes_sent, bytes_final, bytes_dense, sent_of_dense (while training, of plain floats "
            "after every step), messages, gossip_share, samples_per_s, seconds, "
            "checkpoint_seconds, epochs, n_parameters, workspace_bytes, state_bytes, model_sha256, "
            "faults (with --fault: "
            "absent, dropped, late, overtaken, double, repairs, repair_bytes), interrupted, saved, "
            "checkpoint, db, run, compare (precision, norm, the keys above to faults, "
            "interrupted; or error), quantizers (layer, kind, clipped, zero, scale), config",
    .keeps_config = 1,
    .run = train,
};
