/* SPDX-License-Identifier: Apache-2.0 */
/* runs_select.c - which runs are meant: numbers and ranges of them, or those that pass a filter. */
#include "runs_view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *copy_to(char **end, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *at = *end;
    memcpy(at, text, bytes);
    *end += bytes;
    return at;
}

static void add_run(struct runs_listing *list, const struct oct_run *run, double key) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct runs_listed *at = cli_alloc(capacity * sizeof *at);
        if (list->n > 0) {
            memcpy(at, list->at, list->n * sizeof *at);
        }
        free(list->at);
        list->at = at;
        list->capacity = capacity;
    }
    const char *sum = run->model_sha256 ? run->model_sha256 : "";
    struct runs_listed *item = &list->at[list->n++];
    char *end = cli_alloc(strlen(run->outcome) + strlen(run->version) + strlen(run->machine) +
                          strlen(run->label) + strlen(run->options) + strlen(sum) + 6);
    *item = (struct runs_listed){.run = *run, .key = key, .texts = end};
    item->run.outcome = copy_to(&end, run->outcome);
    item->run.version = copy_to(&end, run->version);
    item->run.machine = copy_to(&end, run->machine);
    item->run.label = copy_to(&end, run->label);
    item->run.options = copy_to(&end, run->options);
    item->run.model_sha256 = run->model_sha256 ? copy_to(&end, sum) : NULL;
}

void runs_listing_cut(struct runs_listing *list, size_t limit) {
    while (list->n > limit) {
        free(list->at[--list->n].texts);
    }
}

void runs_listing_fini(struct runs_listing *list) {
    runs_listing_cut(list, 0);
    free(list->at);
    memset(list, 0, sizeof *list);
}

/* The best first: the key is what grows towards worse. What is not known comes last. */
static const char *const sort_names[] = {"number", "accuracy", "nodes",     "loss",
                                         "sent",   "time",     "samples/s", "consensus"};

static double sort_key(int sort, const struct oct_run *run) {
    const double keys[] = {-(double)run->number,
                           -run->accuracy,
                           -run->accuracy_nodes,
                           run->loss,
                           run->has_result ? (double)runs_sent(run) : (double)NAN,
                           run->seconds,
                           -run->samples_per_s,
                           run->consensus_distance};
    return isfinite(keys[sort]) ? keys[sort] : (double)INFINITY;
}

/* Equal ones stay as they were, the newer first. */
static int compare_listed(const void *a, const void *b) {
    const struct runs_listed *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->run.number > y->run.number ? -1 : x->run.number < y->run.number;
}

int runs_find_sort(const struct cli *cli, int *out) {
    const char *name = cli_own(cli, "sort");
    char list[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < CLI_COUNT_OF(sort_names); i++) {
        if (strcmp(name, sort_names[i]) == 0) {
            *out = (int)i;
            return CLI_DONE;
        }
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", sort_names[i]);
    }
    return cli_usage(cli, "--sort is '%.40s', expected one of: %s", name, list);
}

oct_status runs_select(struct oct_runs *runs, const struct runs_filter *filter, int sort,
                       size_t limit, struct runs_listing *out) {
    struct oct_run run;
    oct_status status = OCT_OK;
    const size_t enough = sort == 0 ? limit : SIZE_MAX;
    for (int64_t i = 0; out->n < enough && (status = oct_runs_at(runs, i, &run)) == OCT_OK; i++) {
        int passes;
        add_run(out, &run, sort_key(sort, &run));
        status = runs_filter_match(filter, runs, &out->at[out->n - 1].run, &passes);
        if (status != OCT_OK) {
            return status;
        }
        if (!passes) {
            runs_listing_cut(out, out->n - 1);
        }
    }
    if (sort != 0 && out->n > 1) {
        qsort(out->at, out->n, sizeof *out->at, compare_listed);
        runs_listing_cut(out, limit);
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

/* "12", or "3-9"; zero when it is neither. */
static int read_range(const char *word, int64_t *first, int64_t *last) {
    char *end;
    if (strlen(word) > 38 || *word < '1' || *word > '9') {
        return 0;
    }
    errno = 0;
    *first = *last = strtoll(word, &end, 10);
    if (*end == '-' && end[1] >= '1' && end[1] <= '9') {
        *last = strtoll(end + 1, &end, 10);
    }
    return *end == '\0' && errno == 0 && *last >= *first;
}

int runs_read_words(const struct cli *cli, struct oct_runs *runs, struct runs_listing *out) {
    for (int i = 0; i < cli->n_words; i++) {
        int64_t first = 0, last = 0;
        struct oct_run run;
        const size_t before = out->n;
        oct_status status = OCT_OK;
        (void)read_range(cli->words[i], &first, &last); /* runs_check_words has */
        for (int64_t j = 0;
             first < last && (status = oct_runs_at(runs, j, &run)) == OCT_OK && run.number >= first;
             j++) {
            if (run.number <= last) {
                add_run(out, &run, (double)run.number);
            }
        }
        if (out->n > before) {
            qsort(out->at + before, out->n - before, sizeof *out->at, compare_listed);
        } else if (status == OCT_OK || status == OCT_STATUS_NOT_FOUND) { /* says which there are */
            status = oct_runs_find(runs, first, &run);
            if (status == OCT_OK) {
                add_run(out, &run, 0);
            }
        }
        if (status != OCT_OK && !(status == OCT_STATUS_NOT_FOUND && out->n > before)) {
            return cli_fail(cli, status);
        }
    }
    return CLI_DONE;
}

int runs_check_words(const struct cli *cli) {
    int64_t first, last;
    for (int i = 0; i < cli->n_words; i++) {
        if (!read_range(cli->words[i], &first, &last)) {
            return cli_usage(cli,
                             "'%.40s' is no run; expected a number, as octet runs lists them, or "
                             "a range of them such as 3-9",
                             cli->words[i]);
        }
    }
    return CLI_DONE;
}
