/* SPDX-License-Identifier: Apache-2.0 */
/* training.c - training runs as the commands do them: data, trainer, record, progress, result.
 *
 * octet train does one, or two in turn; octet paper many, of which some go side by side. What is
 * shown while they run and what is said about them afterwards is theirs.
 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
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
        oct_status status = oct_config_locate(config, check_topology(config));
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
    if (status == OCT_OK) {
        status = oct_dataset_open(name, folder, OCT_SPLIT_TEST, &data->test);
    }
    return oct_config_locate(config, status);
}

void cli_data_close(struct cli_data *data) {
    oct_dataset_close(data->train);
    oct_dataset_close(data->test);
    data->train = data->test = NULL;
}

/* --- during ---------------------------------------------------------------------------------- */

/* What the callback of a run needs to know: Ctrl-C counts while training, not while the result of
 * what was learned is being evaluated. */
struct watch {
    const struct cli_training *training;
    struct cli_run *run;
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
        (void)training->show(progress, watch->run->show_context);
    } else if (!stops || ended) {
        cli_progress_train(progress, watch->quantizers);
    }
    if (watch->run->record) {
        cli_record_epoch(watch->run->record, progress);
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

static void end_run(struct cli_run *run, oct_status status, const char *reason) {
    run->status = status;
    snprintf(run->reason, sizeof run->reason, "%s", status == OCT_OK ? "" : reason);
}

/* --- runs side by side ------------------------------------------------------------------------ */

/* As the library takes them; each array has `n`. */
struct side_by_side {
    struct cli_run *runs;
    struct watch *watches;
    const struct oct_config **configs;
    struct oct_hooks *hooks;
    struct oct_trainer **trainers;
    struct oct_ending *endings;
    int n;
};

static void open_sides(struct side_by_side *sides, const struct cli_training *training,
                       struct cli_run *runs, int n) {
    const size_t count = (size_t)n;
    *sides = (struct side_by_side){
        .runs = runs,
        .watches = cli_alloc(count * sizeof *sides->watches),
        .configs = cli_alloc(count * sizeof(const struct oct_config *)),
        .hooks = cli_alloc(count * sizeof *sides->hooks),
        .trainers = cli_alloc(count * sizeof(struct oct_trainer *)),
        .endings = cli_alloc(count * sizeof *sides->endings),
        .n = n,
    };
    for (int i = 0; i < n; i++) {
        sides->watches[i] =
            (struct watch){.training = training,
                           .run = &runs[i],
                           .quantizers = training->traced ? &runs[i].quantizers : NULL};
        sides->configs[i] = runs[i].config;
        sides->hooks[i] = (struct oct_hooks){.progress = watch_progress,
                                             .progress_context = &sides->watches[i],
                                             .train = training->data->train,
                                             .test = training->data->test,
                                             .data_folder = training->data->folder};
    }
}

static void close_sides(struct side_by_side *sides) {
    free(sides->watches);
    free(sides->configs);
    free(sides->hooks);
    free(sides->trainers);
    free(sides->endings);
}

/* All are put on record, or none is trained. */
static int begin_records(const struct side_by_side *sides, const struct cli *cli) {
    const struct cli_run nothing_done = {.stopped = 1};
    int code = CLI_DONE;
    for (int i = 0; i < sides->n && code == CLI_DONE; i++) {
        struct cli_run *run = &sides->runs[i];
        code = run->record ? cli_record_begin(run->record, cli, run->config, sides->trainers[i])
                           : CLI_DONE;
        for (int k = 0; code != CLI_DONE && k < i; k++) {
            cli_record_end(sides->runs[k].record, &nothing_done, NULL);
        }
    }
    return code;
}

static void let_stop(const struct side_by_side *sides, int may_stop) {
    for (int i = 0; i < sides->n; i++) {
        sides->watches[i].may_stop = may_stop;
    }
}

static void train(const struct side_by_side *sides, const struct cli_training *training) {
    cli_progress_nodes(cli_nodes(sides->configs[0]));
    for (int i = 0; i < sides->n; i++) {
        sides->watches[i].trainer = sides->trainers[i];
        if (training->traced) {
            oct_trainer_watch(sides->trainers[i]);
        }
    }
    let_stop(sides, 1);
    oct_status status = oct_trainers_run(sides->trainers, sides->n, sides->endings);
    let_stop(sides, 0);
    (void)status; /* the first of the endings that is not OK */
}

/* What a run that was trained came to. An interrupted one is evaluated as it is: no failure. */
static void evaluate(const struct cli_training *training, struct cli_run *run,
                     struct oct_trainer *trainer, const struct oct_ending *ending) {
    run->stopped = ending->status == OCT_STATUS_CANCELLED;
    end_run(run, run->stopped ? OCT_OK : ending->status, ending->reason);
    const int has_result = run->status == OCT_OK && !(run->stopped && training->is_brief);
    if (has_result) {
        note(training, "evaluating");
        oct_status status = oct_trainer_result(trainer, &run->result);
        end_run(run, status, oct_last_error());
        if (status == OCT_OK && training->save) {
            run->saving = oct_trainer_save_as(trainer, training->save, training->form);
            snprintf(run->unsaved, sizeof run->unsaved, "%s",
                     run->saving == OCT_OK ? "" : oct_last_error());
        }
    }
    if (run->record) {
        cli_record_end(run->record, run, has_result ? &run->result : NULL);
    }
    note(training, NULL);
}

oct_status cli_training_run(struct cli_training *training, struct cli_run *runs, int n) {
    struct side_by_side sides;
    training->refused = CLI_DONE;
    open_sides(&sides, training, runs, n);
    oct_status status = oct_trainers_create(sides.configs, sides.hooks, n, sides.trainers);
    for (int i = 0; i < n; i++) {
        end_run(&runs[i], status, oct_last_error());
    }
    if (status == OCT_OK) {
        training->refused = begin_records(&sides, training->cli);
    }
    if (status == OCT_OK && training->refused == CLI_DONE) {
        note(training, NULL);
        if (training->opens) {
            cli_opening_print(runs->config, oct_trainer_data(sides.trainers[0], OCT_SPLIT_TRAIN));
        }
        train(&sides, training);
        for (int i = 0; i < n; i++) {
            evaluate(training, &runs[i], sides.trainers[i], &sides.endings[i]);
        }
    }
    for (int i = 0; i < n && status == OCT_OK; i++) {
        oct_trainer_destroy(sides.trainers[i]);
    }
    close_sides(&sides);
    return status;
}
