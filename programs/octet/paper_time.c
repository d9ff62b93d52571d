/* SPDX-License-Identifier: Apache-2.0 */
/* paper_time.c - how long a run will take, before anything of it has been run.
 *
 * experiments/rates.csv says how many samples a second each network trains on one machine; half a
 * second of training says how this machine compares with it. That is good for "minutes or days?";
 * once a table is under way its own cells say better.
 */
#include "paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_of(const struct oct_config *config, const char *name) {
    return strtod(oct_config_get(config, name), NULL);
}

/* Whether `spec` is the plug-in `name`, with or without options. */
static int is_named(const char *spec, const char *name) {
    const size_t length = strlen(name);
    return strncmp(spec, name, length) == 0 && (spec[length] == '\0' || spec[length] == ':');
}

/* The row of rates.csv for a configuration: of the same data where there is one, or else of the
 * same model; -1: neither. */
static int find_rate(const struct paper_csv *rates, const struct oct_config *config) {
    int found = -1;
    for (int i = rates->n_rows - 1; i >= 0; i--) {
        if (is_named(oct_config_get(config, "model"), paper_csv_at(rates, i, "model"))) {
            const int is_same =
                is_named(oct_config_get(config, "data"), paper_csv_at(rates, i, "data"));
            found = found < 0 || is_same ? i : found;
        }
    }
    return found;
}

double paper_expected(const struct oct_config *config) {
    struct paper_csv rates;
    paper_csv_open(&rates, "rates.csv");
    const int row = find_rate(&rates, config);
    double seconds = 0;
    if (row >= 0) {
        const char *precision = oct_config_get(config, "precision");
        const char *column = strcmp(precision, "fp32") == 0 ? "fp32" : "int8";
        double rate = strtod(paper_csv_at(&rates, row, column), NULL);
        const double side = strtod(paper_csv_at(&rates, row, "size"), NULL);
        const char *size = strstr(oct_config_get(config, "data"), "size=");
        if (size && strtod(size + 5, NULL) > 0) {
            rate *= pow(side / strtod(size + 5, NULL), 2);
        }
        double samples = number_of(config, "samples"), test = number_of(config, "test-samples");
        samples = samples > 0 ? samples : strtod(paper_csv_at(&rates, row, "samples"), NULL);
        test = test > 0 ? test : strtod(paper_csv_at(&rates, row, "test"), NULL);
        const double epochs = number_of(config, "epochs");
        double nodes = number_of(config, "nodes");
        nodes = nodes > 64 ? 64 : nodes;
        /* a test is a third of a step: forward alone */
        seconds = (epochs * samples + (epochs + 1 + nodes) * test / 3) / rate;
    }
    paper_csv_close(&rates);
    return seconds;
}

double paper_speed(void) {
    static const char *const options[] = {
        "data",         "synthetic:samples=1024",
        "epochs",       "1",
        "batch",        "16",
        "test-samples", "1",
        "nodes",        "8",
        "model",        "resnet20",
        "algorithm",    "none",
        "momentum",     "local",
        "precision",    "int8",
    };
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    struct oct_result result = {.samples_per_s = 0};
    struct paper_csv rates;
    double speed = 1;
    oct_status status = oct_config_create(&config);
    for (size_t i = 0; i < CLI_COUNT_OF(options) && status == OCT_OK; i += 2) {
        status = oct_config_set(config, options[i], options[i + 1]);
    }
    if (status == OCT_OK) {
        status = oct_trainer_create(config, NULL, &trainer);
    }
    if (status == OCT_OK) {
        status = oct_trainer_run(trainer);
    }
    if (status == OCT_OK) {
        status = oct_trainer_result(trainer, &result);
    }
    paper_csv_open(&rates, "rates.csv");
    if (status == OCT_OK && rates.n_rows > 0 && result.samples_per_s > 0) {
        speed = result.samples_per_s / strtod(paper_csv_at(&rates, 0, "int8"), NULL);
    }
    paper_csv_close(&rates);
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
    return speed;
}
