/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - a run goes into the database of runs while it happens.
 *
 * A record that is wanted and cannot be made is found out before training, not after: a database that
 * is locked, damaged or not ours stops the run, and --record try goes on without it. Only where there
 * is no place for the default one (a home that cannot be written) a warning is enough: nobody asked.
 * Who sets --record must has.
 *
 * Once the run is under way it is worth more than its record. An epoch that cannot be written waits
 * in the library's memory and goes with the next one, or with the end. What is missing then is said
 * after the results.
 */
#include "cli.h"

#include <string.h>
#include <unistd.h>

static void warn(const char *what, const char *end) {
    cli_progress_clear();
    fputs("octet: warning: ", stderr);
    cli_put(stderr, what);
    fprintf(stderr, "; %s\n", end);
}

/* Whether the file is there and may be written, so that something is wrong with itself. */
static int is_there(const char *path) {
    return access(path, R_OK | W_OK) == 0;
}

static void let_go(struct cli_record *record) {
    oct_runs_close(record->runs);
    record->runs = NULL;
}

static int no_place(const struct cli *cli, const struct oct_config *config,
                    const struct cli_database *database, int is_asked) {
    static const char what[] =
        "there is no place for a database of runs (neither XDG_STATE_HOME nor HOME says where)";
    if (database->is_named) {
        return strcmp(oct_config_get(config, "db"), "none") == 0
                   ? CLI_DONE
                   : cli_usage(cli, "--db: the path is too long");
    }
    if (is_asked) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_IO,
                         "%s; --db FILE names one, --record try trains without a record", what);
    }
    warn(what, "the run is not recorded; --db FILE names one");
    return CLI_DONE;
}

int cli_record_begin(struct cli_record *record, const struct cli *cli,
                     const struct oct_config *config, struct oct_trainer *trainer) {
    memset(record, 0, sizeof *record);
    record->trainer = trainer;
    record->may_fail = strcmp(oct_config_get(config, "record"), "try") == 0;
    struct cli_database *database = &record->database;
    const int has_place = cli_database(config, database);
    const int is_asked =
        database->is_named || (!record->may_fail && oct_config_is_set(config, "record"));
    if (!is_asked && !oct_runs_available()) {
        return CLI_DONE; /* a build that never has one */
    }
    if (!has_place) {
        return no_place(cli, config, database, is_asked);
    }
    oct_status status = oct_runs_open(database->path, &record->runs);
    if (status == OCT_OK) {
        status = oct_runs_begin(record->runs, config, trainer, &record->number);
    }
    if (status == OCT_OK) {
        oct_trainer_watch(trainer); /* clip rates of the epochs */
        return CLI_DONE;
    }
    let_go(record);
    record->number = 0;
    if (record->may_fail || (!is_asked && status == OCT_STATUS_IO && !is_there(database->path))) {
        warn(oct_last_error(), "the run is not recorded");
        return CLI_DONE;
    }
    return cli_error(cli, CLI_FAILED, status, "%s%s; --record try trains without a record",
                     database->is_named ? "--db: " : "", oct_last_error());
}

void cli_record_epoch(struct cli_record *record, const struct oct_progress *progress) {
    if (!record->runs || progress->phase != OCT_PHASE_EPOCH_END) {
        return;
    }
    if (oct_runs_epoch(record->runs, record->number, progress, record->trainer) == OCT_OK) {
        if (record->n_waiting > 0) {
            cli_progress_say("the record is complete again");
        }
        record->n_waiting = 0;
    } else if (record->n_waiting++ == 0) {
        char what[640];
        snprintf(what, sizeof what, "epoch %d is not on record yet: %.500s", progress->epoch,
                 oct_last_error());
        warn(what, "the run goes on, and tries again after each epoch");
    }
}

void cli_record_end(struct cli_record *record, const struct cli_run *run,
                    const struct oct_result *result) {
    if (!record->runs) {
        return;
    }
    char outcome[640];
    if (run->status == OCT_OK) {
        snprintf(outcome, sizeof outcome, "%s", run->stopped ? "stopped" : "done");
    } else {
        snprintf(outcome, sizeof outcome, "%s: %s", oct_status_name(run->status), run->reason);
    }
    record->failure = oct_runs_end(record->runs, record->number, outcome,
                                   run->status == OCT_OK ? result : NULL, record->trainer);
    if (record->failure != OCT_OK) {
        snprintf(record->reason, sizeof record->reason, "%s", oct_last_error());
    }
    record->trainer = NULL;
    let_go(record);
}

int cli_record_check(const struct cli_record *record, const struct cli *cli, int code) {
    if (record->failure == OCT_OK) {
        return code;
    }
    char what[640];
    fflush(stdout);
    snprintf(what, sizeof what, "the record of run %lld is incomplete: %.500s",
             (long long)record->number, record->reason);
    if (record->may_fail) {
        warn(what, "as --record try allows");
        return code;
    }
    struct cli plain = *cli; /* the object, if any, is printed already */
    plain.json = 0;
    cli_error(&plain, CLI_FAILED, record->failure, "%s", what);
    return code == CLI_DONE ? CLI_FAILED : code;
}
