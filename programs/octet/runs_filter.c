/* SPDX-License-Identifier: Apache-2.0 */
/* runs_filter.c - octet runs --where KEY=PATTERN: which runs are meant.
 *
 * Several tests come as several --where, or as one with commas. Values have commas of their own
 * ("topk:0.99,values=int8"), so a piece that does not begin with a key that is known belongs to the
 * pattern before it, where that one looks as if it could have more. So does one whose key is an option
 * of the plug-in that the pattern names: of "data=synthetic:size=8,samples=256" the samples are the
 * plug-in's, though a run has an option of that name, too. Another --where is always another test.
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

/* "samples=N (2048), classes=N (10)": whether one of them has that name. */
static int is_among(const char *options, const char *name, size_t length) {
    for (const char *at = options; at && *at; at += strspn(at, " ")) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            return 1;
        }
        at += strcspn(at, " ");
    }
    return 0;
}

/* "samples=256" behind "synthetic:size=8": an option of the plug-in, or of one that "syn*:size=8" may
 * mean. */
static int is_of_plugin(const struct runs_test *test, const char *piece) {
    char name[64];
    const size_t head = strcspn(test->pattern, ":,"), length = strcspn(piece, "=,");
    const struct oct_option *option = oct_option_find(test->key);
    const struct oct_plugin *plugin;
    if (!option || head >= sizeof name || test->pattern[head] != ':') {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)head, test->pattern);
    for (int i = 0; cli_choice_at(option, i, &plugin); i++) {
        if (plugin && fnmatch(name, plugin->name, 0) == 0 &&
            is_among(plugin->options, piece, length)) {
            return 1;
        }
    }
    return 0;
}

/* "topk:0.99" may, and so may "topk*"; "4" has said all. */
static int may_go_on(const char *pattern, const char *end) {
    const size_t length = strcspn(pattern, ":*?[");
    return pattern + length < end;
}

/* The tests of one --where. */
static int read_tests(struct runs_filter *filter, const struct cli *cli, char *text) {
    const struct runs_test *last = NULL;
    for (char *piece = text; piece;) {
        const char *pattern;
        int is_not = 0;
        const char *key = key_of(piece, &pattern, &is_not);
        if (last && is_of_plugin(last, piece)) {
            key = NULL;
        }
        if (!key && !(last && may_go_on(last->pattern, piece))) {
            return no_such_key(cli, piece);
        }
        if (key && filter->n == (int)CLI_COUNT_OF(filter->tests)) {
            return cli_usage(cli, "--where: more than %d tests", filter->n);
        }
        if (key) {
            if (last) {
                piece[-1] = '\0'; /* the comma before it ends the last pattern */
            }
            filter->tests[filter->n] = (struct runs_test){key, pattern, is_not};
            last = &filter->tests[filter->n++];
        }
        char *comma = strchr(piece, ',');
        piece = comma ? comma + 1 : NULL;
    }
    return CLI_DONE;
}

int runs_filter_read(struct runs_filter *filter, const struct cli *cli, const char *text) {
    int code = CLI_DONE;
    memset(filter, 0, sizeof *filter);
    if (!text) {
        return CLI_DONE;
    }
    const size_t bytes = strlen(text) + 1;
    filter->text = cli_alloc(bytes);
    memcpy(filter->text, text, bytes);
    for (char *one = filter->text, *next; one && code == CLI_DONE; one = next) {
        next = strchr(one, CLI_JOINT);
        if (next) {
            *next++ = '\0';
        }
        code = read_tests(filter, cli, one);
    }
    return code;
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
