/* SPDX-License-Identifier: Apache-2.0 */
/* man.c - octet.1 in mdoc, written from the same tables as the help. */
#include "cli.h"

#include <string.h>

#include <octet/octet.h>

/* When the words below last changed; the rest of the page is as new as the program. */
#define PAGE_DATE "November 15, 2026"

/* A word in which nothing is taken for roff; a '.' or '\'' that begins a line would be a request.
 */
static void put_word(FILE *out, const char *word, size_t length, int begins_line) {
    if (begins_line && (*word == '.' || *word == '\'')) {
        fputs("\\&", out);
    }
    for (; length > 0; length--, word++) {
        if (*word == '\\') {
            fputs("\\e", out);
        } else if (*word == '-') {
            fputs("\\-", out);
        } else {
            fputc(*word, out);
        }
    }
}

/* Text inside a line. */
static void put_text(FILE *out, const char *text) {
    put_word(out, text, strlen(text), 0);
}

/* Text as lines of its own: short ones, a sentence beginning a new one, as mdoc wants its input. */
static void put_lines(FILE *out, const char *text) {
    size_t at = 0;
    int ended = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (at > 0 && (ended || at + 1 + 2 * length > 78)) {
            fputc('\n', out);
            at = 0;
        } else if (at > 0) {
            fputc(' ', out);
            at++;
        }
        put_word(out, text, length, at == 0);
        for (size_t i = 0; i < length; i++) {
            at += text[i] == '-' || text[i] == '\\' ? 2 : 1;
        }
        ended = length > 1 && text[length - 1] == '.';
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* A summary as a sentence: a capital first, `end` last. */
static void put_sentence(FILE *out, const char *summary, const char *end) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", summary, end);
    text[0] = text[0] >= 'a' && text[0] <= 'z' ? (char)(text[0] - 'a' + 'A') : text[0];
    put_lines(out, text);
}

static void put_range(FILE *out, const struct oct_option *option) {
    if (option->type == OCT_OPTION_INT) {
        fprintf(out, "A whole number from %.0f to %.0f.\n", option->least, option->most);
    } else if (option->type == OCT_OPTION_REAL) {
        fprintf(out, "A number from %.15g to %.15g.\n", option->least, option->most);
    }
}

static void put_choices(FILE *out, const struct oct_option *option) {
    const struct oct_plugin *plugin;
    const char *choice;
    if (option->type != OCT_OPTION_CHOICE) {
        return;
    }
    fputs("One of:\n.Bl -tag -width 14n -compact\n", out);
    for (int i = 0; (choice = cli_choice_at(option, i, &plugin)) != NULL; i++) {
        fputs(".It Cm ", out);
        put_text(out, choice);
        fputc('\n', out);
        if (plugin) {
            char text[1024];
            snprintf(text, sizeof text, "%s%s%s%s%s%s", plugin->summary,
                     plugin->options ? "; options after a colon: " : "",
                     plugin->options ? plugin->options : "",
                     plugin->unavailable ? " (unavailable: " : "",
                     plugin->unavailable ? plugin->unavailable : "",
                     plugin->unavailable ? ")" : "");
            put_lines(out, text);
        }
    }
    fputs(".El\n", out);
}

static void put_option(FILE *out, const struct cli_command *command,
                       const struct oct_option *option) {
    fputs(".It Fl Fl ", out);
    put_text(out, option->name);
    if (option->placeholder) {
        fputs(" Ar ", out);
        put_text(out, option->placeholder);
    }
    fputs("\n", out);
    put_sentence(out, option->summary, ".");
    put_range(out, option);
    put_choices(out, option);
    const char *fallback = cli_option_default(command, option);
    if (*fallback) {
        fputs("Default:\n.Cm ", out);
        put_text(out, fallback);
        fputs(" .\n", out);
    }
}

static void put_command(FILE *out, const struct cli_command *command) {
    const struct oct_option *option;
    fputs(".Ss octet ", out);
    put_text(out, command->name);
    fputc('\n', out);
    put_lines(out, command->about);
    /* --seed and --threads are with the common ones, unless the command takes the whole table. */
    int n = 0;
    for (int i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        int common = command->options &&
                     (strcmp(option->name, "seed") == 0 || strcmp(option->name, "threads") == 0);
        if (!common) {
            fputs(n++ ? "" : ".Bl -tag -width Ds\n", out);
            put_option(out, command, option);
        }
    }
    fputs(n ? ".El\n" : "", out);
    fputs(".Pp\nJSON keys:\n", out);
    char keys[2048];
    snprintf(keys, sizeof keys, "%s.", command->json);
    put_lines(out, keys);
}

static const struct {
    const char *name, *text;
} environment[] = {
    {"OCT_CPU", "The highest level of instructions to use, as named by octet info."},
    {"OCTET_DATA", "Where downloaded datasets are, when --data-dir does not say. Without it, "
                   "octet in XDG_DATA_HOME, or .local/share/octet in HOME."},
    {"XDG_STATE_HOME",
     "Where octet/runs.db is, the database of runs, when --db does not say. Without "
     "it, .local/state/octet/runs.db in HOME."},
    {"NO_COLOR", "When set and not empty, no colours."},
    {"COLUMNS", "Width of a terminal that does not tell it."},
};

static const struct {
    int code;
    const char *text;
} exits[] = {
    {CLI_DONE, "Done."},
    {CLI_FAILED, "It failed; the reason is on standard error."},
    {CLI_USAGE, "Wrong usage."},
    {CLI_INTERRUPTED, "Interrupted by SIGINT or SIGTERM; octet train has printed the result of "
                      "what was learned and, with --checkpoint, written a checkpoint."},
};

void cli_man_print(FILE *out) {
    const struct cli_command *command;
    fprintf(
        out,
        ".\\\" SPDX-License-Identifier: Apache-2.0\n"
        ".\\\" Written by 'octet help --man' of version %s.\n"
        ".Dd " PAGE_DATE "\n.Dt OCTET 1\n.Os\n"
        ".Sh NAME\n.Nm octet\n.Nd 8\\-bit decentralized neural\\-network training\n.Sh SYNOPSIS\n",
        oct_version());
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        fprintf(out, ".Nm\n.Cm %s\n", command->name);
        if (command->arguments) {
            int optional = command->arguments[0] == '[';
            fprintf(out, "%s %.*s\n", optional ? ".Op Ar" : ".Ar",
                    (int)strcspn(command->arguments + optional, "]"),
                    command->arguments + optional);
        }
        fputs(".Op Fl Fl Ns Ar key value ...\n", out);
    }
    fputs(".Sh DESCRIPTION\n"
          ".Nm\n"
          "trains neural networks on many nodes, each with its own data, that talk only\n"
          "to their neighbours; it shows their graphs and their shares of the data, and\n"
          "measures how fast all of that is.\n"
          "Results go to standard output, progress to standard error.\n"
          ".Pp\n"
          "An option is written\n.Fl Fl Ns Ar key value\nor\n.Fl Fl Ns Ar key Ns = Ns Ar value ;\n"
          "in its name\n.Sq \\-\nand\n.Sq _\nare equal.\n"
          "Every command takes:\n"
          ".Bl -tag -width Ds\n",
          out);
    for (int i = 0; cli_common[i].name; i++) {
        put_option(out, &cli_help, &cli_common[i]);
    }
    put_option(out, &cli_help, oct_option_find("seed"));
    put_option(out, &cli_help, oct_option_find("threads"));
    fputs(".El\n.Pp\n"
          "A JSON object has the key\n.Cm schema ,\nwhich is 1.\n"
          "When the command fails, it has the key\n.Cm error\n"
          "with\n.Cm status\nand\n.Cm message .\n"
          "A number that is not finite is written as null.\n"
          ".Sh COMMANDS\n",
          out);
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        put_command(out, command);
    }
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width XDG_DATA_HOME\n", out);
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        fprintf(out, ".It Ev %s\n", environment[i].name);
        put_lines(out, environment[i].text);
    }
    fputs(".El\n.Sh EXIT STATUS\n.Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++) {
        fprintf(out, ".It %d\n", exits[i].code);
        put_lines(out, exits[i].text);
    }
    fputs(".El\n.Sh EXAMPLES\n", out);
    int n = 0;
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        for (int j = 0; command->examples && command->examples[j].line; j++) {
            fputs(n++ ? ".Pp\n" : "", out);
            put_sentence(out, command->examples[j].what, ":");
            fputs(".Pp\n.Dl octet ", out);
            put_text(out, command->examples[j].line);
            fputc('\n', out);
        }
    }
}
