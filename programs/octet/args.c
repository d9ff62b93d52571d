/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - the command line: --key value, --key=value, words.
 *
 * Everything is checked before a command runs. Values of the option table are checked by
 * oct_config_set; the program's own few are checked here and refused in the same words.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct oct_option cli_common[] = {
    {.name = "json", .summary = "one JSON object on stdout instead of text"},
    {.name = "quiet", .summary = "no progress on stderr"},
    {.name = "verbose", .summary = "also say what the library chooses, and why"},
    {.name = "help", .summary = "this help"},
    {.name = NULL},
};

/* Options that are short for a row of the table, which oct_config_set knows by their own name; whoever
 * takes the row takes them too. */
static const struct {
    const char *row;
    struct oct_option option;
} short_forms[] = {
    {"partition",
     {.name = "skew",
      .placeholder = "S",
      .summary = "short for --partition skew:S, from 0 (all nodes alike) to 1 (own classes each)",
      .group = "Data",
      .type = OCT_OPTION_REAL,
      .least = 0,
      .most = 1}},
};

static char plain(char c) {
    return c == '_' ? '-' : c;
}

static int same_name(const char *a, const char *b) {
    while (*a && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static int least_of(int a, int b) {
    return a < b ? a : b;
}

/* Letters that must be inserted, left out, replaced or swapped with a neighbour. */
static int distance(const char *a, size_t n, const char *b, size_t m) {
    enum { LONGEST = 40 };
    int d[LONGEST + 1][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) {
        return LONGEST;
    }
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            d[i][j] = least_of(d[i - 1][j - 1] + (plain(a[i - 1]) != plain(b[j - 1])),
                               1 + least_of(d[i - 1][j], d[i][j - 1]));
            d[i][j] = swapped ? least_of(d[i][j], d[i - 2][j - 2] + 1) : d[i][j];
        }
    }
    return d[n][m];
}

void cli_guess_from(struct cli_guess *guess, const char *candidate) {
    size_t n = strlen(guess->given), m = strlen(candidate);
    int far = distance(guess->given, n, candidate, m);
    int begins = n >= 2 && strncmp(guess->given, candidate, n) == 0;
    if (far > 1 + (int)n / 4 || far >= (int)m) {
        far = begins ? 40 : -1; /* "--weight" means --weight-decay, though much is missing */
    }
    if (far >= 0 && (!guess->name || far < guess->distance)) {
        guess->name = candidate;
        guess->distance = far;
    }
}

static int is_own(const struct cli_command *command, const char *name) {
    for (int i = 0; command->own && command->own[i].name; i++) {
        if (same_name(command->own[i].name, name)) {
            return 1;
        }
    }
    return 0;
}

static int takes_from_table(const struct cli_command *command, const char *name) {
    if (is_own(command, name)) {
        return 0;
    }
    if (!command->options || same_name(name, "seed") || same_name(name, "threads")) {
        return 1;
    }
    for (int i = 0; command->options[i]; i++) {
        if (same_name(command->options[i], name)) {
            return 1;
        }
    }
    return 0;
}

const struct oct_option *cli_option_at(const struct cli_command *command, int index) {
    for (int i = 0; command->own && command->own[i].name; i++) {
        if (index-- == 0) {
            return &command->own[i];
        }
    }
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (!takes_from_table(command, option->name)) {
            continue;
        }
        if (index-- == 0) {
            return option;
        }
        for (size_t j = 0; j < CLI_COUNT_OF(short_forms); j++) {
            const struct oct_option *form = &short_forms[j].option;
            if (same_name(short_forms[j].row, option->name) && !is_own(command, form->name) &&
                index-- == 0) {
                return form;
            }
        }
    }
    return NULL;
}

const char *cli_option_default(const struct cli_command *command, const struct oct_option *option) {
    for (int i = 0; command->defaults && command->defaults[i]; i += 2) {
        if (same_name(command->defaults[i], option->name)) {
            return command->defaults[i + 1];
        }
    }
    if (command->has_settings && !is_own(command, option->name) &&
        strcmp(option->group, "Machine") != 0) {
        return "";
    }
    return option->fallback ? option->fallback : "";
}

/* The option of that name, among the command's and the common ones. */
static const struct oct_option *find(const struct cli_command *command, const char *name) {
    const struct oct_option *option;
    for (int i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        if (same_name(name, option->name)) {
            return option;
        }
    }
    for (int i = 0; cli_common[i].name; i++) {
        if (same_name(name, cli_common[i].name)) {
            return &cli_common[i];
        }
    }
    return NULL;
}

static int unknown_option(const struct cli *cli, const char *name) {
    const struct oct_option *option;
    struct cli_guess guess = {.given = name};
    for (int i = 0; (option = cli_option_at(cli->command, i)) != NULL; i++) {
        cli_guess_from(&guess, option->name);
    }
    for (int i = 0; cli_common[i].name; i++) {
        cli_guess_from(&guess, cli_common[i].name);
    }
    if (guess.name) {
        return cli_usage(cli, "--%.40s is no option; did you mean --%s?", name, guess.name);
    }
    const struct cli_command *command;
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (find(command, name)) {
            return cli_usage(cli, "--%.40s is an option of 'octet %s', not of 'octet %s'", name,
                             command->name, cli->command->name);
        }
    }
    return cli_usage(cli, "--%.40s is no option", name);
}

/* What an option's value must be: "a whole number from 1 to 8", "one of: a, b". */
static void describe(const struct oct_option *option, char *out, size_t bytes) {
    const struct oct_plugin *plugin;
    if (option->type == OCT_OPTION_INT) {
        snprintf(out, bytes, "a whole number from %.0f to %.0f", option->least, option->most);
    } else if (option->type == OCT_OPTION_REAL) {
        snprintf(out, bytes, "a number from %g to %g", option->least, option->most);
    } else if (option->type == OCT_OPTION_CHOICE) {
        size_t used = (size_t)snprintf(out, bytes, "one of: ");
        const char *choice;
        for (int i = 0; (choice = cli_choice_at(option, i, &plugin)) != NULL && used < bytes; i++) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", choice);
        }
    } else {
        snprintf(out, bytes, "as in --%s %s", option->name, option->placeholder);
    }
}

static int missing_value(const struct cli *cli, const struct oct_option *option) {
    char expected[256];
    describe(option, expected, sizeof expected);
    return cli_usage(cli, "--%s needs a value, %s", option->name, expected);
}

/* "--strict" alone is "--strict yes", where yes is one of two choices. */
static int means_yes(const struct oct_option *option, const char *next) {
    const struct oct_plugin *plugin;
    const char *no = cli_choice_at(option, 0, &plugin), *yes = cli_choice_at(option, 1, &plugin);
    return no && yes && strcmp(no, "no") == 0 && strcmp(yes, "yes") == 0 &&
           !(next && (strcmp(next, no) == 0 || strcmp(next, yes) == 0));
}

/* All of the text is a number in the option's range. The program keeps C's decimal point. */
static int is_number(const struct oct_option *option, const char *text) {
    const char *letters = option->type == OCT_OPTION_INT ? "0123456789-" : "0123456789-+.eE";
    char *end;
    double number = strtod(text, &end);
    return *text && *text != '+' && text[strspn(text, letters)] == '\0' && *end == '\0' &&
           number >= option->least && number <= option->most;
}

static int set_flag(struct cli *cli, const struct oct_option *option) {
    if (option == &cli_common[0]) {
        cli->json = 1;
    } else if (option == &cli_common[1]) {
        cli->quiet = 1;
    } else if (option == &cli_common[2]) {
        cli->verbose = 1;
    } else if (option == &cli_common[3]) {
        cli->help = 1;
    } else {
        cli->own[option - cli->command->own] = "1";
    }
    return CLI_DONE;
}

/* A failed check as a usage error: the library's sentence begins with the option's name. */
static int refused(const struct cli *cli, oct_status status) {
    if (status == OCT_STATUS_INVALID || status == OCT_STATUS_NOT_FOUND) {
        return cli_usage(cli, "--%s", oct_last_error());
    }
    return cli_error(cli, CLI_FAILED, status, "--%s", oct_last_error());
}

static int set_value(struct cli *cli, const struct oct_option *option, const char *value) {
    const int is_dealing =
        !is_own(cli->command, option->name) &&
        (same_name(option->name, "skew") || same_name(option->name, "partition"));
    if (is_dealing && cli->dealing && cli->dealing != option) {
        return cli_usage(cli, "--%s and --%s both say how samples are dealt out; keep one of them",
                         cli->dealing->name, option->name);
    }
    cli->dealing = is_dealing ? option : cli->dealing;
    const int is_path =
        strcmp(option->placeholder, "DIR") == 0 || strcmp(option->placeholder, "FILE") == 0;
    if (is_path && *value == '\0') { /* "$FOLDER", and nobody has set it */
        return missing_value(cli, option);
    }
    if (!is_own(cli->command, option->name)) {
        oct_status status = oct_config_set(cli->config, option->name, value);
        return status == OCT_OK ? CLI_DONE : refused(cli, status);
    }
    if (option->type == OCT_OPTION_INT || option->type == OCT_OPTION_REAL) {
        if (!is_number(option, value)) {
            char expected[256];
            describe(option, expected, sizeof expected);
            return cli_usage(cli, "--%s is '%.40s', expected %s", option->name, value, expected);
        }
    } else if (*value == '\0') {
        return missing_value(cli, option);
    }
    const char **own = &cli->own[option - cli->command->own];
    if (*own && cli->command->repeats && same_name(cli->command->repeats, option->name)) {
        const size_t bytes = strlen(*own) + strlen(value) + 2;
        char *joined = cli_alloc(bytes);
        snprintf(joined, bytes, "%s%c%s", *own, CLI_JOINT, value);
        free(cli->joined);
        value = cli->joined = joined;
    }
    *own = value;
    return CLI_DONE;
}

static int take_word(struct cli *cli, const char *word) {
    const struct cli_command *command = cli->command;
    if (cli->n_words < command->most_words) {
        cli->words[cli->n_words++] = word;
        return CLI_DONE;
    }
    if (command->most_words == 0) {
        return cli_usage(cli, "'%.40s' is unexpected: 'octet %s' takes options only (--key value)",
                         word, command->name);
    }
    return cli_usage(cli, "'%.40s' is one word too many; expected: octet %s %s", word,
                     command->name, command->arguments);
}

int cli_parse(struct cli *cli, int argc, char **argv) {
    const struct cli_command *command = cli->command;
    for (int i = 0; command->defaults && command->defaults[i]; i += 2) {
        oct_status status =
            oct_config_set(cli->config, command->defaults[i], command->defaults[i + 1]);
        if (status != OCT_OK) {
            return refused(cli, status);
        }
    }
    int only_words = 0;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        int code = CLI_DONE;
        if (only_words || text[0] != '-' || text[1] == '\0') {
            code = take_word(cli, text);
        } else if (strcmp(text, "--") == 0) {
            only_words = 1;
        } else if (strcmp(text, "-h") == 0) {
            cli->help = 1;
        } else if (text[1] != '-') {
            const struct oct_option *meant = find(command, text + 1);
            code =
                meant ? cli_usage(cli, "'%.40s' has one dash; expected --%s", text, meant->name)
                      : cli_usage(cli, "'%.40s' is no option; options look like --key value", text);
        } else {
            char name[64];
            size_t length = strcspn(text + 2, "=");
            snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), text + 2);
            const char *value = text[2 + length] ? text + 2 + length + 1 : NULL;
            const struct oct_option *option = length < 63 ? find(command, name) : NULL;
            if (!option) {
                code = unknown_option(cli, name);
            } else if (!option->placeholder) {
                code = value ? cli_usage(cli, "--%s takes no value, '%.40s' was given",
                                         option->name, value)
                             : set_flag(cli, option);
            } else {
                /* What looks like an option is not taken for a value; "--key=--x" says it is. */
                if (!value && means_yes(option, i + 1 < argc ? argv[i + 1] : NULL)) {
                    value = "yes";
                } else if (!value && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) {
                    value = argv[++i];
                }
                code = value ? set_value(cli, option, value) : missing_value(cli, option);
            }
        }
        if (code != CLI_DONE) {
            return code;
        }
    }
    if (!cli->help && cli->n_words < command->least_words) {
        return cli_usage(cli, "a word is missing; expected: octet %s %s", command->name,
                         command->arguments);
    }
    return CLI_DONE;
}

const char *cli_own(const struct cli *cli, const char *name) {
    const struct oct_option *own = cli->command->own;
    for (int i = 0; own && own[i].name; i++) {
        if (same_name(own[i].name, name)) {
            return cli->own[i] ? cli->own[i] : own[i].fallback;
        }
    }
    return NULL;
}

double cli_own_number(const struct cli *cli, const char *name) {
    const char *text = cli_own(cli, name);
    return text ? strtod(text, NULL) : 0;
}
