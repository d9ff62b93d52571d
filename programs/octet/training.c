/* SPDX-License-Identifier: Apache-2.0 */
/* training.c - one training run as the commands do it: data, trainer, record, progress, result.
 *
 * octet train does one or two of these, octet paper many. What is shown while it runs and what is
 * said about it afterwards is theirs.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <octet/topology.h>

/* --- before ---------------------------------------------------------------------------------- */

/* A run of hours must not end with "no such directory". A folder of checkpoints is made when it is
 * not there, so the nearest one above it that is there counts. */
static int check_checkpoint(const struct cli *cli, const char *folder) {
    char place[4096];
    struct stat existing;
    snprintf(place, sizeof place, "%s", folder);
    while (stat(place, &existing) != 0 && errno == ENOENT) {
        char *slash = strrchr(place, '/');
        if (!slash || slash == place) {
            snprintf(place, sizeof place, "%s", slash ? "/" : ".");
            break;
        }
        *slash = '\0';
    }
    if (stat(place, &existing) == 0 && !S_ISDIR(existing.st_mode)) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--checkpoint: '%s' is not a folder",
                         place);
    }
    if (access(place, W_OK | X_OK) != 0) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "--checkpoint: cannot write into '%s': %s",
                         place, strerror(errno));
    }
    return CLI_DONE;
}

/* A graph that cannot be is found out before any data is read. */
static oct_status check_topology(const struct oct_config *config) {
    if (!cli_talks(config)) {
        return OCT_OK;
    }
    struct oct_topology *topology;
    oct_status status = cli_topology(config, &topology);
    if (status == OCT_OK) {
        oct_topology_destroy(topology);
    }
    return status;
}

int cli_training_check(const struct cli *cli, const struct oct_config *config) {
    const char *folder = oct_config_get(config, "checkpoint");
    int code = *folder ? check_checkpoint(cli, folder) : CLI_DONE;
    if (code == CLI_DONE) {
        oct_status status = check_topology(config);
        code = status == OCT_OK ? CLI_DONE : cli_fail(cli, status);
    }
    return code;
}

oct_status cli_data_open(struct cli_data *data, const struct cli *cli,
                         const struct oct_config *config) {
    const char *name = oct_config_get(config, "data"), *folder = cli_data_folder(cli);
    int n_ranks;
    data->train = data->test = NULL;
    data->folder = folder;
    cli_progress_note("reading %s", name);
    (void)oct_ranks_here(&n_ranks);
    if (n_ranks > 1) { /* the trainer knows which samples are this rank's */
        return OCT_OK;
    }
    oct_status status = oct_dataset_open(name, folder, OCT_SPLIT_TRAIN, &data->train);
    return status == OCT_OK ? oct_dataset_open(name, folder, OCT_SPLIT_TEST, &data->test) : status;
}

void cli_data_close(struct cli_data *data) {
    oct_dataset_close(data->train);
    oct_dataset_close(data->test);
    data->train = data->test = NULL;
}

/* --- during ---------------------------------------------------------------------------------- */

/* What the callback needs to know: Ctrl-C counts while training, not while the result of what was
 * learned is being evaluated. */
struct watch {
    const struct cli_training *training;
    const struct oct_trainer *trainer;
    struct cli_quantizers *quantizers; /* NULL: not traced */
    int may_stop;
    int said;
};

static int watch_progress(const struct oct_progress *progress, void *context) {
    struct watch *watch = context;
    const struct cli_training *training = watch->training;
    const int ended = progress->phase == OCT_PHASE_EPOCH_END;
    const int stops = cli_interrupted() && watch->may_stop;
    if (watch->quantizers && ended) {
        cli_quantizers_read(watch->quantizers, watch->trainer);
    }
    if (training->show) {
        (void)training->show(progress, training->show_context);
    } else if (!stops || ended) {
        cli_progress_train(progress, watch->quantizers);
    }
    if (training->record) {
        cli_record_epoch(training->record, progress);
    }
    if (stops && !watch->said && !training->is_brief) {
        cli_progress_say("stopping after this step; once more ends it at once");
        watch->said = 1;
    }
    return stops;
}

/* Until the next, where nobody else draws; NULL: nothing any more. */
static void note(const struct cli_training *training, const char *text) {
    if (!training->show && text) {
        cli_progress_note("%s", text);
    } else if (!training->show) {
        cli_progress_clear();
    }
}

/* Trains and evaluates; an interrupted run is evaluated as it is, and is no failure. */
static oct_status train_once(struct cli_run *run, struct oct_trainer *trainer,
                             struct watch *watch) {
    const struct cli_training *training = watch->training;
    cli_progress_nodes(cli_nodes(run->config));
    if (watch->quantizers) {
        oct_trainer_watch(trainer);
    }
    watch->may_stop = 1;
    oct_status status = oct_trainer_run(trainer);
    watch->may_stop = 0;
    run->stopped = status == OCT_STATUS_CANCELLED;
    if (run->stopped && training->is_brief) {
        return OCT_OK;
    }
    if (status == OCT_OK || run->stopped) {
        note(training, "evaluating");
        status = oct_trainer_result(trainer, &run->result);
    }
    if (status == OCT_OK && training->save) {
        status = oct_trainer_save_as(trainer, training->save, training->form);
    }
    note(training, NULL);
    return status;
}

static oct_status note_failure(struct cli_run *run, oct_status status) {
    if (status != OCT_OK) {
        snprintf(run->reason, sizeof run->reason, "%s", oct_last_error());
    }
    return status;
}

oct_status cli_training_run(struct cli_training *training, struct cli_run *run) {
    struct watch watch = {.training = training,
                          .quantizers = training->traced ? &run->quantizers : NULL};
    const struct oct_hooks hooks = {.progress = watch_progress,
                                    .progress_context = &watch,
                                    .train = training->data->train,
                                    .test = training->data->test,
                                    .data_folder = training->data->folder};
    struct oct_trainer *trainer;
    training->refused = CLI_DONE;
    oct_status status = note_failure(run, oct_trainer_create(run->config, &hooks, &trainer));
    if (status != OCT_OK) {
        return status;
    }
    watch.trainer = trainer;
    if (training->record) {
        training->refused = cli_record_begin(training->record, training->cli, run->config, trainer);
    }
    if (training->refused == CLI_DONE) {
        note(training, NULL);
        if (training->opens) {
            cli_opening_print(run->config, oct_trainer_data(trainer, OCT_SPLIT_TRAIN));
        }
        status = note_failure(run, train_once(run, trainer, &watch));
        if (training->record) {
            const int has_result = !(run->stopped && training->is_brief);
            cli_record_end(training->record, status, run->stopped,
                           has_result ? &run->result : NULL);
        }
    }
    oct_trainer_destroy(trainer);
    return status;
}
