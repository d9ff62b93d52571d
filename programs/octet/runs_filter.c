/* SPDX-License-Identifier: Apache-2.0 */
/* runs_filter.c - octet runs --where KEY=PATTERN: which runs are meant.
 *
 * Several tests come as several --where, or as one with commas. Values have commas of their own
 * ("topk:0.99,values=int8"), so a piece that does not begin with a key that is known belongs to the
 * pattern before it, where that one looks as if it could have more.
 */
#include "runs_view.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Keys that are no training options; skew is short for one. */
static const char *const facts[] = {"outcome", "version", "machine", "skew"};

/* The name of the key as it is known; NULL: it is not. */
static const char *known_key(const char *key, size_t length) {
    char name[64];
    if (length == 0 || length >= sizeof name) {
        return NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, key);
    for (size_t i = 0; i < CLI_COUNT_OF(facts); i++) {
        if (strcmp(name, facts[i]) == 0) {
            return facts[i];
        }
    }
    const struct oct_option *option = oct_option_find(name);
    return option ? option->name : NULL;
}

/* The key that a piece begins with, and where its pattern begins. */
static const char *key_of(const char *piece, const char **pattern, int *is_not) {
    const size_t length = strcspn(piece, "=,");
    if (piece[length] != '=') {
        return NULL;
    }
    *is_not = length > 0 && piece[length - 1] == '!';
    *pattern = piece + length + 1;
    return known_key(piece, length - (size_t)*is_not);
}

static int no_such_key(const struct cli *cli, const char *piece) {
    char name[64];
    struct cli_guess guess = {.given = name};
    const size_t length = strcspn(piece, "=!,");
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), piece);
    if (piece[length] != '=' && piece[length] != '!') {
        return cli_usage(cli,
                         "--where is '%.60s', expected KEY=PATTERN, as in --where "
                         "algorithm=choco,label='table2/*'",
                         piece);
    }
    for (size_t i = 0; i < CLI_COUNT_OF(facts); i++) {
        cli_guess_from(&guess, facts[i]);
    }
    for (int i = 0; oct_option_at(i); i++) {
        cli_guess_from(&guess, oct_option_at(i)->name);
    }
    return guess.name
               ? cli_usage(cli, "--where: a run has no '%s'; did you mean %s?", name, guess.name)
               : cli_usage(cli,
                           "--where: a run has no '%s'; expected an option of octet train, "
                           "outcome, version or machine",
                           name);
}

/* "topk:0.99" may, and so may "topk*"; "4" has said all. */
static int may_go_on(const char *pattern, const char *end) {
    const size_t length = strcspn(pattern, ":*?[");
    return pattern + length < end;
}

int runs_filter_read(struct runs_filter *filter, const struct cli *cli, const char *text) {
    memset(filter, 0, sizeof *filter);
    if (!text) {
        return CLI_DONE;
    }
    const size_t bytes = strlen(text) + 1;
    filter->text = cli_alloc(bytes);
    memcpy(filter->text, text, bytes);
    for (char *piece = filter->text; piece;) {
        const char *pattern;
        int is_not = 0;
        const char *key = key_of(piece, &pattern, &is_not);
        if (!key && (filter->n == 0 || !may_go_on(filter->tests[filter->n - 1].pattern, piece))) {
            return no_such_key(cli, piece);
        }
        if (key && filter->n == (int)CLI_COUNT_OF(filter->tests)) {
            return cli_usage(cli, "--where: more than %d tests", filter->n);
        }
        if (key) {
            if (piece != filter->text) {
                piece[-1] = '\0'; /* the comma before it ends the last pattern */
            }
            filter->tests[filter->n++] = (struct runs_test){key, pattern, is_not};
        }
        char *comma = strchr(piece, ',');
        piece = comma ? comma + 1 : NULL;
    }
    return CLI_DONE;
}

void runs_filter_fini(struct runs_filter *filter) {
    free(filter->text);
    memset(filter, 0, sizeof *filter);
}

/* 0.1 is 1e-1. */
static int same_number(const char *a, const char *b) {
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return *a && *b && *end_a == '\0' && *end_b == '\0' && x == y;
}

static int matches(const char *pattern, const char *value) {
    return fnmatch(pattern, value, 0) == 0 || same_number(pattern, value);
}

static int is_skew(const char *key) {
    return strcmp(key, "skew") == 0;
}

static int is_fact(const char *key) {
    return !oct_option_find(key) && !is_skew(key);
}

oct_status runs_filter_match(const struct runs_filter *filter, struct oct_runs *runs,
                             const struct oct_run *run, int *out) {
    const int64_t number = run->number;
    *out = 1;
    for (int i = 0; i < filter->n && *out; i++) { /* first what the run itself says */
        const struct runs_test *test = &filter->tests[i];
        if (is_fact(test->key)) {
            const char *value = test->key[0] == 'o'   ? run->outcome
                                : test->key[0] == 'v' ? run->version
                                                      : run->machine;
            int holds =
                matches(test->pattern, value) ||
                (test->key[0] == 'o' && matches(test->pattern, runs_outcome(run->outcome).text));
            *out = holds != test->is_not;
        }
    }
    for (int i = 0; i < filter->n && *out; i++) {
        const struct runs_test *test = &filter->tests[i];
        const char *value = "";
        if (is_fact(test->key)) {
            continue;
        }
        oct_status status = oct_runs_option_find(
            runs, number, is_skew(test->key) ? "partition" : test->key, &value);
        if (status == OCT_STATUS_NOT_FOUND) {
            value = ""; /* its Octet had no such option */
        } else if (status != OCT_OK) {
            return status;
        }
        if (is_skew(test->key)) {
            value = strncmp(value, "skew:", 5) == 0 ? value + 5 : "";
        }
        *out = matches(test->pattern, value) != test->is_not;
    }
    return OCT_OK;
}
