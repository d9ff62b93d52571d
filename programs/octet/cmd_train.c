/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - octet train: one run, watched, stopped cleanly, and summed up. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct oct_option own[] = {
    {.name = "save",
     .placeholder = "FILE",
     .summary = "write the trained parameters (safetensors)",
     .group = "Output"},
    {.name = NULL},
};

static const struct cli_example examples[] = {
    {"train", "ResNet-20 on Fashion-MNIST"},
    {"train --data cifar10 --epochs 5 --batch 128 --save resnet20.safetensors",
     "another dataset, and keep the model"},
    {"train --data synthetic:samples=512 --epochs 1 --json", "a result for a program to read"},
    {NULL, NULL},
};

/* What the callback needs to know: Ctrl-C counts while training, not while the result of what was
 * learned is being evaluated. */
struct watch {
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
    cli_progress_train(progress);
    return 0;
}

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

static void print_table(const struct cli *cli, const struct oct_result *r, const char *saved,
                        int stopped) {
    const struct oct_config *config = cli->config;
    printf("%s", cli_width(stdout, 0) > 0 ? "\n" : ""); /* apart from the rows of epochs */
    printf("%s%s on %s%s: %s, %s, %d epoch%s%s\n", cli_style(stdout, CLI_BOLD),
           oct_config_get(config, "model"), oct_config_get(config, "data"),
           cli_style(stdout, CLI_PLAIN), oct_config_get(config, "norm"),
           oct_config_get(config, "precision"), r->epochs, r->epochs == 1 ? "" : "s",
           stopped ? ", interrupted" : "");
    struct cli_table table;
    cli_table_init(&table, "result|>value|~");
#define ROW(name, value, note)                                                                     \
    do {                                                                                           \
        cli_table_cell(&table, "%s", name);                                                        \
        cli_table_cell(&table, "%s", value);                                                       \
        cli_table_cell(&table, "%s", note);                                                        \
    } while (0)
    char percent[48];
    snprintf(percent, sizeof percent, "%s %%", cli_decimals(r->accuracy, 2).text);
    ROW("accuracy", percent, "on the test set");
    ROW("loss", cli_decimals(r->loss, 4).text, "on the test set");
    ROW("train loss", cli_decimals(r->train_loss, 4).text, "last epoch");
    ROW("samples/s", cli_count(r->samples_per_s).text, "training");
    ROW("time", cli_time(r->seconds).text, "with evaluation");
    ROW("parameters", cli_count((double)r->n_parameters).text, "");
    ROW("workspace", cli_bytes(r->workspace_bytes).text, "activations and gradients");
    ROW("state", cli_bytes(r->state_bytes).text, "parameters, momentum, statistics");
    if (r->bytes_sent > 0) {
        char distance[32];
        snprintf(distance, sizeof distance, "%.3g", r->consensus_distance);
        ROW("sent", cli_bytes(r->bytes_sent).text, "over all edges");
        ROW("consensus", distance, "distance of the nodes from their mean");
    }
    char sum[16];
    snprintf(sum, sizeof sum, "%.12s", r->model_sha256);
    ROW("model", sum, "begin of its sha256");
    if (saved) {
        ROW("saved", "", saved);
    }
#undef ROW
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static int print_json(const struct cli *cli, const struct oct_result *r, const char *saved,
                      int stopped) {
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
    cli_json_flag(root, "interrupted", stopped);
    cli_json_text(root, "saved", saved);
    cli_json_put(root, "config", cli_json_config(cli->config));
    return cli_json_print(root);
}

static int train(struct cli *cli) {
    const char *save = cli_own(cli, "save");
    int code = save ? check_save(cli, save) : CLI_DONE;
    if (code != CLI_DONE) {
        return code;
    }
    cli_interrupt_catch();
    struct watch watch = {.may_stop = 1};
    struct oct_hooks hooks = {.progress = watch_progress, .progress_context = &watch};
    struct oct_trainer *trainer = NULL;
    struct oct_result result;
    cli_progress_note("reading %s", oct_config_get(cli->config, "data"));
    oct_status status = oct_trainer_create(cli->config, &hooks, &trainer);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    status = oct_trainer_run(trainer);
    int stopped = status == OCT_STATUS_CANCELLED;
    if (status == OCT_OK || stopped) {
        watch.may_stop = 0;
        cli_progress_note("evaluating");
        status = oct_trainer_result(trainer, &result);
    }
    if (status == OCT_OK && save) {
        status = oct_trainer_save(trainer, save);
    }
    cli_progress_clear();
    if (status != OCT_OK) {
        code = cli_fail(cli, status);
    } else {
        if (cli->json) {
            code = print_json(cli, &result, save, stopped);
        } else {
            print_table(cli, &result, save, stopped);
        }
        code = stopped ? CLI_INTERRUPTED : code;
    }
    oct_trainer_destroy(trainer);
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
            "model_sha256, interrupted, saved, config",
    .run = train,
};
