/* SPDX-License-Identifier: Apache-2.0 */
/* paper_cells.c - a cell of a table is a training run like any other: options, record, checkpoint.
 *
 * Options come from four places, what came first stays: the command line, the row and the column of
 * the table, the short form, the block's run file. In the database a cell is found again by its
 * label; it counts when it was done with the same options. A half-done one has a checkpoint in the
 * state folder, octet/paper/LABEL-HASH of its options, which is removed when the cell is done.
 */
#include "paper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- options ---------------------------------------------------------------------------------- */

/* "skew=0.8;compress=topk:0.99", what has not been set. Skew is short for the option partition. */
static oct_status apply(struct oct_config *config, const char *overrides) {
    oct_status status = OCT_OK;
    while (*overrides && status == OCT_OK) {
        char name[64], value[256];
        const size_t length = strcspn(overrides, ";"), equals = strcspn(overrides, "=");
        snprintf(name, sizeof name, "%.*s", (int)equals, overrides);
        snprintf(value, sizeof value, "%.*s", (int)(length - equals - 1), overrides + equals + 1);
        if (!oct_config_is_set(config, strcmp(name, "skew") == 0 ? "partition" : name)) {
            status = oct_config_set(config, name, value);
        }
        overrides += length + (overrides[length] == ';');
    }
    return status;
}

static oct_status read_file(struct oct_config *config, const char *name) {
    for (const struct paper_file *file = paper_files; *name && file->name; file++) {
        if (strcmp(file->name, name) == 0) {
            char shown[128];
            snprintf(shown, sizeof shown, "experiments/%s", name);
            return oct_config_parse(config, shown, (const char *)file->text, file->n_bytes);
        }
    }
    return OCT_OK;
}

static oct_status configure(const struct paper_table *table, const struct paper_row *row,
                            const char *overrides, const struct cli *cli, struct oct_config **out) {
    oct_status status = oct_config_copy(cli->config, out);
    if (status == OCT_OK) {
        status = apply(*out, row->overrides);
    }
    if (status == OCT_OK) {
        status = apply(*out, overrides);
    }
    if (status == OCT_OK && table->is_short) {
        status = read_file(*out, row->short_file);
    }
    if (status == OCT_OK) {
        status = read_file(*out, row->file);
    }
    if (status != OCT_OK) {
        return status;
    }
    /* What the command line says of 8 bits means nothing to a column in floats. */
    struct oct_config *whole = *out;
    status = oct_config_recast(whole, oct_config_get(whole, "precision"), out);
    oct_config_destroy(whole);
    if (status != OCT_OK) {
        *out = NULL;
    }
    return status;
}

oct_status paper_row_config(const struct paper_table *table, int row, const struct cli *cli,
                            struct oct_config **out) {
    return configure(table, &table->rows[row], "", cli, out);
}

/* A number for the options that were set and count (FNV-1a). Whether a checkpoint is the cell's is
 * seen by the options themselves. */
static uint32_t options_hash(const struct oct_config *config) {
    const struct oct_option *option;
    uint32_t hash = 0x811c9dc5U;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (oct_option_is_incidental(option->name) || !oct_config_is_set(config, option->name)) {
            continue;
        }
        const char *const words[] = {option->name, oct_config_get(config, option->name)};
        for (size_t w = 0; w < CLI_COUNT_OF(words); w++) {
            for (const char *c = words[w]; c == words[w] || c[-1]; c++) { /* with its end */
                hash = (hash ^ (unsigned char)*c) * 0x01000193U;
            }
        }
    }
    return hash;
}

/* Where checkpoints of the cell go; nowhere when the environment has no place for them. With other
 * options it is another run, which may be under way beside this one. */
static void name_folder(struct paper_cell *cell) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const unsigned hash = options_hash(cell->config);
    int n = 0;
    if (state && *state == '/') {
        n = snprintf(cell->folder, sizeof cell->folder, "%s/octet/paper/%s-%08x", state,
                     cell->label, hash);
    } else if (home && *home == '/') {
        n = snprintf(cell->folder, sizeof cell->folder, "%s/.local/state/octet/paper/%s-%08x", home,
                     cell->label, hash);
    }
    if (n <= 0 || (size_t)n >= sizeof cell->folder) {
        cell->folder[0] = '\0';
    }
}

/* Seed 1 goes unnamed; others have records and checkpoints beside it. */
static void name_cell(const struct paper_table *table, int r, int c, struct paper_cell *cell) {
    const long long seed = strtoll(oct_config_get(cell->config, "seed"), NULL, 10);
    cell->n_base =
        snprintf(cell->label, sizeof cell->label, "%s/%s/r%d/%s", table->name,
                 table->is_short ? "short" : "full", table->rows[r].number, table->columns[c].name);
    if (seed != 1) {
        snprintf(cell->label + cell->n_base, sizeof cell->label - (size_t)cell->n_base, "-seed%lld",
                 seed);
    }
    name_folder(cell);
}

oct_status paper_cell_configure(struct paper_table *table, int r, int c, int s,
                                const struct cli *cli) {
    struct paper_cell *cell = paper_cell_at(table, r, c, s);
    oct_status status =
        configure(table, &table->rows[r], table->columns[c].overrides, cli, &cell->config);
    if (status == OCT_OK && table->seeds) {
        char seed[32];
        snprintf(seed, sizeof seed, "%lld", table->seeds[s]);
        status = oct_config_set(cell->config, "seed", seed);
    }
    if (status == OCT_OK) {
        name_cell(table, r, c, cell);
        status = oct_config_set(cell->config, "label", cell->label);
    }
    if (status != OCT_OK) {
        return status;
    }
    const long n_epochs = strtol(oct_config_get(cell->config, "epochs"), NULL, 10);
    cell->errors = cli_alloc((size_t)(n_epochs + 1) * sizeof *cell->errors);
    for (long e = 0; e <= n_epochs; e++) {
        cell->errors[e] = NAN;
    }
    cell->n_errors = (int)n_epochs;
    cell->expected_s = paper_expected(cell->config);
    return OCT_OK;
}

oct_status paper_cells_configure(struct paper_table *table, const struct cli *cli) {
    oct_status status = OCT_OK;
    for (int i = 0; i < table->n_cells && status == OCT_OK; i++) {
        const int place = i / table->n_seeds;
        if (table->cells[i].state != PAPER_LEFT_OUT) {
            status = paper_cell_configure(table, place / table->n_columns, place % table->n_columns,
                                          i % table->n_seeds, cli);
        }
    }
    return status;
}

/* --- on record -------------------------------------------------------------------------------- */

/* Whether a gamma on record, in six digits, is what the options come to. */
static int is_gamma(const struct oct_option *option, const char *value,
                    const struct oct_config *config) {
    const double gamma = oct_config_gamma(config);
    return strcmp(option->name, "gamma") == 0 && fabs(strtod(value, NULL) - gamma) <= 1e-5 * gamma;
}

/* Whether the option, which the run's Octet did not know, says of the cell what that Octet did. What the
 * last rounds do does not count where there are none. */
static int is_before(const struct oct_option *option, const struct oct_config *config) {
    if (strcmp(option->name, "final-statistics") == 0 &&
        strcmp(oct_config_get(config, "final-gossip"), "0") == 0) {
        return 1;
    }
    const int is_set = oct_config_is_set(config, option->name);
    return strcmp(oct_option_before(option),
                  is_set ? oct_config_get(config, option->name) : option->fallback) == 0;
}

/* Whether all options that count are those of the cell. */
static int has_options(struct oct_runs *runs, int64_t number, const struct oct_config *config) {
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        const char *value;
        if (oct_option_is_incidental(option->name)) {
            continue;
        }
        oct_status status = oct_runs_option_find(runs, number, option->name, &value);
        if (status == OCT_STATUS_NOT_FOUND && is_before(option, config)) {
            continue;
        }
        if (status != OCT_OK || (strcmp(value, oct_config_get(config, option->name)) != 0 &&
                                 !is_gamma(option, value, config))) {
            return 0;
        }
    }
    return 1;
}

/* Test errors of the run's epochs, where a newer run of the cell has not told them. */
static void recall_errors(struct oct_runs *runs, int64_t number, struct paper_cell *cell) {
    struct oct_run_epoch epoch;
    for (int i = 0; oct_runs_epoch_at(runs, number, i, &epoch) == OCT_OK; i++) {
        if (epoch.epoch >= 1 && epoch.epoch <= cell->n_errors &&
            isnan(cell->errors[epoch.epoch - 1])) {
            cell->errors[epoch.epoch - 1] = 100 - epoch.accuracy;
        }
    }
}

static void take_over(struct paper_cell *cell, const struct oct_run *run) {
    cell->state = PAPER_DONE;
    cell->is_taken = 1;
    cell->run = run->number;
    cell->result = (struct paper_result){
        .accuracy = run->accuracy,
        .accuracy_nodes = run->accuracy_nodes,
        .loss = run->loss,
        .consensus_distance = run->consensus_distance,
        .samples_per_s = run->samples_per_s,
        .seconds = run->seconds,
        .bytes_sent = run->bytes_sent,
        .bytes_final = run->bytes_final,
        .bytes_dense = run->bytes_dense,
        .epochs = run->epochs,
    };
}

/* Whether runs of the cell are called that. Older versions named no seeds; the options tell. */
static int is_called(const struct paper_cell *cell, const char *label) {
    return strcmp(cell->label, label) == 0 ||
           (strncmp(cell->label, label, (size_t)cell->n_base) == 0 && !label[cell->n_base]);
}

static void recall_run(struct paper_cell *cell, struct oct_runs *runs, const struct oct_run *run,
                       int is_done) {
    if (is_done && (cell->state == PAPER_WAITING || cell->state == PAPER_BUSY)) {
        take_over(cell, run);
    }
    if (cell->is_taken || !is_done) {
        recall_errors(runs, run->number, cell);
    }
}

static oct_status recall_runs(struct paper_table *table, struct oct_runs *runs) {
    struct oct_run run;
    oct_status status = OCT_OK;
    for (int64_t i = 0; (status = oct_runs_at(runs, i, &run)) == OCT_OK; i++) {
        char label[sizeof table->cells->label]; /* the run's texts go with the next call */
        const int is_done = strcmp(run.outcome, "done") == 0;
        snprintf(label, sizeof label, "%s", run.label);
        for (int k = 0; k < table->n_cells; k++) {
            struct paper_cell *cell = &table->cells[k];
            if (cell->state != PAPER_LEFT_OUT && is_called(cell, label) &&
                has_options(runs, run.number, cell->config)) {
                recall_run(cell, runs, &run, is_done);
            }
        }
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

/* Nonzero when both say the same about everything that counts. */
static int same_options(const struct oct_config *a, const struct oct_config *b) {
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (!oct_option_is_incidental(option->name) &&
            strcmp(oct_config_get(a, option->name), oct_config_get(b, option->name)) != 0) {
            return 0;
        }
    }
    return 1;
}

/* Whether the cell's folder has a checkpoint of exactly this cell. */
static int has_checkpoint(const struct paper_cell *cell) {
    struct oct_config *trial = NULL;
    struct stat facts;
    int has = 0;
    if (!cell->folder[0] || stat(cell->folder, &facts) != 0) {
        return 0;
    }
    if (oct_config_copy(cell->config, &trial) == OCT_OK) {
        has = oct_config_resume(trial, cell->folder) == OCT_OK && same_options(trial, cell->config);
    }
    oct_config_destroy(trial);
    return has;
}

oct_status paper_cells_recall(struct paper_table *table, const struct cli *cli, int again) {
    struct cli_database database;
    struct stat facts;
    oct_status status = OCT_OK;
    if (cli_database(cli->config, &database) && oct_runs_available() &&
        stat(database.path, &facts) == 0) {
        struct oct_runs *runs = NULL;
        status = oct_runs_open_to_read(database.path, &runs);
        if (status == OCT_OK && !again) { /* of cells that begin anew nothing is of interest */
            status = recall_runs(table, runs);
        }
        oct_runs_close(runs);
        if (status == OCT_STATUS_NOT_FOUND) {
            status = OCT_OK; /* it is empty: the first run makes the tables */
        }
        if (status != OCT_OK && strcmp(oct_config_get(cli->config, "record"), "try") == 0) {
            status = OCT_OK; /* nothing is taken over; every run will say that it is not recorded */
        }
    }
    for (int i = 0; i < table->n_cells; i++) {
        struct paper_cell *cell = &table->cells[i];
        cell->is_begun = cell->state == PAPER_WAITING && !again && has_checkpoint(cell);
    }
    return status;
}

void paper_cells_check(struct paper_table *table) {
    for (int i = 0; i < table->n_cells; i++) {
        struct paper_cell *cell = &table->cells[i];
        if (cell->state == PAPER_WAITING && oct_config_check(cell->config) != OCT_OK) {
            cell->state = PAPER_FAILED;
            snprintf(cell->reason, sizeof cell->reason, "%s", oct_last_error());
        }
    }
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* Removes a folder with all that is in it: checkpoints of ours, two levels deep. */
static void remove_folder(const char *path, int depth) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        char inside[4608];
        struct stat facts;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (size_t)snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) >=
                sizeof inside ||
            lstat(inside, &facts) != 0) {
            continue;
        }
        if (S_ISDIR(facts.st_mode) && depth > 0) {
            remove_folder(inside, depth - 1);
        } else {
            unlink(inside);
        }
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(path);
}

/* The folders above the cell's that have nothing else: its row's, its scale's, its table's. */
static void remove_empty(const struct paper_cell *cell) {
    char path[4096];
    snprintf(path, sizeof path, "%s", cell->folder);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
}

/* The name of the file that says whose the folder is. */
static int lock_path(const struct paper_cell *cell, char *out, size_t bytes) {
    return (size_t)snprintf(out, bytes, "%s.lock", cell->folder) < bytes;
}

/* Opens the file, with the folders that it lies in; -1 with errno. */
static int open_lock(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777); /* one that is there is as good */
        *slash = '/';
    }
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

/* Whether the open file is still the one of that name: who had it before removes it when done. */
static int is_there(int descriptor, const char *path) {
    struct stat mine, now;
    return fstat(descriptor, &mine) == 0 && stat(path, &now) == 0 && mine.st_dev == now.st_dev &&
           mine.st_ino == now.st_ino;
}

int paper_cell_take(struct paper_cell *cell) {
    enum { TRIES = 100 };
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[4352];
    cell->key = -1;
    if (!cell->folder[0] || !lock_path(cell, path, sizeof path)) {
        return 1;
    }
    for (int i = 0; i < TRIES; i++) {
        const int descriptor = open_lock(path);
        if (descriptor < 0 && errno == ENOENT) {
            continue; /* somebody who is done has just removed the folder */
        }
        if (descriptor < 0) {
            return 1; /* the run will say that the place cannot be written to */
        }
        if (fcntl(descriptor, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN)) {
            close(descriptor);
            return 0;
        }
        if (is_there(descriptor, path)) {
            cell->key = descriptor;
            return 1;
        }
        close(descriptor);
    }
    return 1;
}

void paper_cell_leave(struct paper_cell *cell) {
    char path[4352];
    if (cell->key >= 0) {
        if (lock_path(cell, path, sizeof path)) {
            unlink(path);
        }
        close(cell->key);
        cell->key = -1;
    }
    if (cell->folder[0]) {
        remove_empty(cell);
    }
}

/* --- the run ---------------------------------------------------------------------------------- */

/* What the cell's folder has goes on, or else it begins anew and writes there. */
static oct_status prepare(struct paper_cell *cell) {
    if (!cell->folder[0]) {
        return OCT_OK;
    }
    if (!cell->is_begun) {
        remove_folder(cell->folder, 1);
    }
    oct_status status = oct_config_set(cell->config, "checkpoint", cell->folder);
    const int has_gone_on = *oct_config_get(cell->config, "resume") != '\0';
    if (status == OCT_OK && (cell->is_begun || has_gone_on)) {
        status = oct_config_set(cell->config, "resume", cell->is_begun ? cell->folder : "");
    }
    return status;
}

static void keep_result(struct paper_cell *cell, const struct oct_result *result) {
    cell->result = (struct paper_result){
        .accuracy = result->accuracy,
        .accuracy_nodes = result->accuracy_nodes,
        .loss = result->loss,
        .consensus_distance = result->consensus_distance,
        .samples_per_s = result->samples_per_s,
        .seconds = result->seconds,
        .bytes_sent = result->bytes_sent,
        .bytes_final = result->bytes_final,
        .bytes_dense = result->bytes_dense,
        .epochs = result->epochs,
    };
}

/* What the run came to, as the cell's state, and what its folder keeps. */
static void end_cell(struct paper_cell *cell, const struct cli *cli, const struct cli_run *run) {
    const struct cli_record *record = run->record;
    const oct_status status = run->status;
    cell->run = record->number;
    if (status != OCT_OK) {
        cell->state = PAPER_FAILED;
        snprintf(cell->reason, sizeof cell->reason, "%s: %.460s", oct_status_name(status),
                 run->reason);
    } else if (run->stopped) {
        cell->state = PAPER_STOPPED;
    } else {
        cell->state = PAPER_DONE;
        keep_result(cell, &run->result);
    }
    cell->is_unrecorded = cli_record_check(record, cli, CLI_DONE) != CLI_DONE;
    /* What failed would fail again, but for want of room; and what is not on record can be brought
     * there out of its checkpoint. */
    const int has_ended =
        cell->state == PAPER_DONE ||
        (cell->state == PAPER_FAILED && status != OCT_STATUS_IO && status != OCT_STATUS_NO_MEMORY);
    if (cell->folder[0] && has_ended && record->failure == OCT_OK) {
        remove_folder(cell->folder, 1);
    }
}

static oct_status prepare_all(const struct paper_group *group) {
    oct_status status = OCT_OK;
    for (int i = 0; i < group->n && status == OCT_OK; i++) {
        status = prepare(group->running[i].cell);
    }
    return status;
}

int paper_cells_run(struct paper_group *group, const struct cli *cli, const struct cli_data *data,
                    oct_status *apart) {
    const size_t n = (size_t)group->n;
    struct cli_run *runs = cli_alloc(n * sizeof *runs);
    struct cli_record *records = cli_alloc(n * sizeof *records);
    struct cli_training training = {
        .cli = cli, .data = data, .show = paper_screen_show, .is_brief = 1};
    memset(records, 0, n * sizeof *records);
    for (size_t i = 0; i < n; i++) {
        runs[i] = (struct cli_run){.config = group->running[i].cell->config,
                                   .record = &records[i],
                                   .show_context = &group->running[i]};
    }
    oct_status status = prepare_all(group);
    if (status != OCT_OK) {
        runs->status = status;
        snprintf(runs->reason, sizeof runs->reason, "%s", oct_last_error());
    } else {
        status = cli_training_run(&training, runs, group->n);
    }
    *apart = n > 1 ? status : OCT_OK;
    for (size_t i = 0; i < n; i++) {
        if (training.refused != CLI_DONE || *apart != OCT_OK) {
            group->running[i].cell->state = PAPER_WAITING;
        } else {
            end_cell(group->running[i].cell, cli, &runs[i]);
        }
    }
    free(records);
    free(runs);
    return training.refused;
}
