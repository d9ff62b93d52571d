/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - a run goes into the database of runs while it happens.
 *
 * A record is a convenience, a run may be hours: a default database that cannot be used costs a
 * warning, and the run goes on without. One that was named with --db is wanted, so what is wrong with
 * it is said before training begins; once the run is under way, it is worth more than its record.
 */
#include "cli.h"

#include <string.h>

static void give_up(struct cli_record *record) {
    cli_progress_clear();
    fprintf(stderr, "octet: warning: %s; the run is not recorded%s\n", oct_last_error(),
            record->number > 0 ? " any further" : "");
    oct_runs_close(record->runs);
    record->runs = NULL;
}

int cli_record_begin(struct cli_record *record, const struct cli *cli,
                     const struct oct_config *config, struct oct_trainer *trainer) {
    memset(record, 0, sizeof *record);
    record->trainer = trainer;
    struct cli_database *database = &record->database;
    if (!cli_database(config, database) || (!oct_runs_available() && !database->is_named)) {
        return CLI_DONE; /* --db none, nowhere to put one, or a build that never has one */
    }
    oct_status status = oct_runs_open(database->path, &record->runs);
    if (status == OCT_OK) {
        status = oct_runs_begin(record->runs, config, trainer, &record->number);
    }
    if (status == OCT_OK) {
        oct_trainer_watch(trainer); /* clip rates of the epochs */
        return CLI_DONE;
    }
    if (!database->is_named) {
        give_up(record);
        return CLI_DONE;
    }
    int code = cli_error(cli, CLI_FAILED, status, "--db: %s", oct_last_error());
    oct_runs_close(record->runs);
    record->runs = NULL;
    return code;
}

void cli_record_epoch(struct cli_record *record, const struct oct_progress *progress) {
    if (record->runs && progress->phase == OCT_PHASE_EPOCH_END &&
        oct_runs_epoch(record->runs, record->number, progress, record->trainer) != OCT_OK) {
        give_up(record);
    }
}

void cli_record_end(struct cli_record *record, oct_status status, int stopped,
                    const struct oct_result *result) {
    if (!record->runs) {
        return;
    }
    char outcome[640];
    if (status == OCT_OK) {
        snprintf(outcome, sizeof outcome, "%s", stopped ? "stopped" : "done");
    } else {
        snprintf(outcome, sizeof outcome, "%s: %s", oct_status_name(status), oct_last_error());
    }
    if (oct_runs_end(record->runs, record->number, outcome, status == OCT_OK ? result : NULL,
                     record->trainer) != OCT_OK) {
        give_up(record);
        return;
    }
    oct_runs_close(record->runs);
    record->runs = NULL;
}
