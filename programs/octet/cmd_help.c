/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - octet help: every text is made from the tables that also do the work.
 *
 * Options, defaults and choices come from the option table and the registries, commands and
 * examples from their rows; nothing is written down twice, so nothing can disagree.
 */
#include "cli.h"

#include <string.h>

#include <octet/octet.h>

enum { LEFT = 24 }; /* column where descriptions begin */

/* Whether the option's choices are the plug-ins of that kind, all of them in their order. */
static int chooses_from(const struct oct_option *option, enum oct_plugin_kind kind) {
    for (int i = 0;; i++) {
        const char *choice = oct_option_choice(option, i);
        const struct oct_plugin *plugin = oct_plugin_at(kind, i);
        if (!choice || !plugin) {
            return i > 0 && !choice && !plugin;
        }
        if (strcmp(choice, plugin->name) != 0) {
            return 0;
        }
    }
}

/* The row of the table whose choices an option takes: that of its name, or of its placeholder. */
static const struct oct_option *row_of_choices(const struct oct_option *option) {
    const struct oct_option *row = oct_option_find(option->name);
    if (row || !option->placeholder) {
        return row;
    }
    char name[32];
    size_t n = 0;
    for (; option->placeholder[n] && n + 1 < sizeof name; n++) {
        char c = option->placeholder[n];
        name[n] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name[n] = '\0';
    return oct_option_find(name);
}

const char *cli_choice_at(const struct oct_option *option, int index,
                          const struct oct_plugin **plugin) {
    *plugin = NULL;
    option = row_of_choices(option);
    if (!option) {
        return NULL;
    }
    for (int kind = 0; kind < OCT_PLUGIN_KIND_COUNT; kind++) {
        if (chooses_from(option, (enum oct_plugin_kind)kind)) {
            *plugin = oct_plugin_at((enum oct_plugin_kind)kind, index);
        }
    }
    return oct_option_choice(option, index);
}

static int help_width(void) {
    int width = cli_width(stdout, 80);
    return width < 100 ? (width > 40 ? width : 40) : 100;
}

static void heading(const char *text) {
    printf("\n%s%s%s\n", cli_style(stdout, CLI_BOLD), text, cli_style(stdout, CLI_PLAIN));
}

/* "--lr X    learning rate at its highest [0.1]" */
static void print_option(const struct cli_command *command, const struct oct_option *option,
                         int width) {
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", option->summary);
    const struct oct_plugin *plugin;
    const char *choice;
    for (int i = 0; option->type == OCT_OPTION_CHOICE &&
                    (choice = cli_choice_at(option, i, &plugin)) != NULL && used < sizeof text;
         i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", i ? ", " : " {",
                                 choice, plugin && plugin->options ? "[:...]" : "",
                                 plugin && plugin->unavailable ? " (unavailable)" : "");
    }
    if (text[0] && option->type == OCT_OPTION_CHOICE && used < sizeof text) {
        used += (size_t)snprintf(text + used, sizeof text - used, "}");
    }
    const char *fallback = cli_option_default(command, option);
    if (*fallback && used < sizeof text) {
        snprintf(text + used, sizeof text - used, " [%s]", fallback);
    }
    int at = printf("  --%s%s%s", option->name, option->placeholder ? " " : "",
                    option->placeholder ? option->placeholder : "");
    if (at + 2 > LEFT) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", LEFT - at, "");
    cli_wrap(stdout, text, LEFT, LEFT, width);
}

/* The command's options under their headings, in the order headings first appear. A command that
 * takes the whole table shows that first and its own few options last. */
static void print_options(const struct cli_command *command, int width) {
    const char *groups[16];
    int n_groups = 0;
    const struct oct_option *option;
    for (int i = 0; !command->options && (option = oct_option_at(i)) != NULL; i++) {
        if (n_groups < 16 && (n_groups == 0 || strcmp(groups[n_groups - 1], option->group) != 0)) {
            groups[n_groups++] = option->group;
        }
    }
    for (int i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
        int known = 0;
        for (int g = 0; g < n_groups; g++) {
            known |= strcmp(groups[g], option->group) == 0;
        }
        if (!known && n_groups < 16) {
            groups[n_groups++] = option->group;
        }
    }
    for (int g = 0; g < n_groups; g++) {
        heading(groups[g]);
        for (int i = 0; (option = cli_option_at(command, i)) != NULL; i++) {
            if (strcmp(groups[g], option->group) == 0) {
                print_option(command, option, width);
            }
        }
    }
    heading("Common ('octet help' explains)");
    for (int i = 0; cli_common[i].name; i++) {
        printf("%s--%s", i ? " " : "  ", cli_common[i].name);
    }
    putchar('\n');
}

static void print_examples(const struct cli_command *command) {
    if (!command->examples) {
        return;
    }
    heading("Examples");
    for (int i = 0; command->examples[i].line; i++) {
        printf("  # %s\n  octet %s\n", command->examples[i].what, command->examples[i].line);
    }
}

static void print_command(const struct cli_command *command) {
    int width = help_width();
    printf("%soctet %s%s%s%s [--key value]...\n", cli_style(stdout, CLI_BOLD), command->name,
           cli_style(stdout, CLI_PLAIN), command->arguments ? " " : "",
           command->arguments ? command->arguments : "");
    cli_wrap(stdout, command->about, 0, 0, width);
    print_options(command, width);
    print_examples(command);
    putchar('\n');
    cli_wrap(
        stdout,
        "[x] is the default, {x, y} are the choices, and 'octet info' lists the options that one "
        "with [:...] takes. --key=value works too.",
        0, 0, width);
}

static void print_overview(void) {
    const struct cli_command *command;
    printf("%soctet %s%s: 8-bit decentralized neural-network training\n\n",
           cli_style(stdout, CLI_BOLD), oct_version(), cli_style(stdout, CLI_PLAIN));
    printf("Usage: octet COMMAND [--key value]...\n");
    heading("Commands");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        int at = printf("  %s%s%s", command->name, command->arguments ? " " : "",
                        command->arguments ? command->arguments : "");
        printf("%*s", LEFT - at, "");
        cli_wrap(stdout, command->summary, LEFT, LEFT, help_width());
    }
    heading("Every command takes");
    for (int i = 0; cli_common[i].name; i++) {
        print_option(&cli_help, &cli_common[i], help_width());
    }
    print_option(&cli_help, oct_option_find("seed"), help_width());
    print_option(&cli_help, oct_option_find("threads"), help_width());
    heading("Examples");
    const char *last = "";
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        const size_t head = strcspn(command->name, " "); /* one of "bench step", "bench kernels" */
        if (command->examples && strncmp(last, command->name, head) != 0) {
            int at = printf("  octet %s", command->examples[0].line);
            at += printf("%*s# ", at < LEFT + 2 ? LEFT + 2 - at : 1, "");
            cli_wrap(stdout, command->examples[0].what, at, LEFT + 4, help_width());
            last = command->name;
        }
    }
    printf("\n'octet COMMAND --help' says more; 'octet help --man' prints the manual.\n");
}

/* The commands that begin with `word`, for "octet help bench"; how many there are. */
static int print_group(const char *word) {
    const struct cli_command *command;
    size_t length = strlen(word);
    int n = 0;
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (strncmp(command->name, word, length) == 0 && command->name[length] == ' ') {
            if (n++) {
                printf("\n\n");
            }
            print_command(command);
        }
    }
    return n;
}

static struct cli_json *option_json(const struct cli_command *command,
                                    const struct oct_option *option) {
    static const char *const types[] = {"text", "int", "real", "choice"};
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "name", option->name);
    cli_json_text(object, "summary", option->summary);
    cli_json_text(object, "type", option->placeholder ? types[option->type] : "flag");
    if (!option->placeholder) {
        return object;
    }
    cli_json_text(object, "placeholder", option->placeholder);
    cli_json_text(object, "default", cli_option_default(command, option));
    if (option->type == OCT_OPTION_INT || option->type == OCT_OPTION_REAL) {
        cli_json_real(object, "least", option->least);
        cli_json_real(object, "most", option->most);
    }
    if (option->type == OCT_OPTION_CHOICE) {
        struct cli_json *choices = cli_json_array();
        const struct oct_plugin *plugin;
        const char *choice;
        for (int i = 0; (choice = cli_choice_at(option, i, &plugin)) != NULL; i++) {
            cli_json_add_text(choices, choice);
        }
        cli_json_put(object, "choices", choices);
    }
    return object;
}

static int print_json(const struct cli_command *only) {
    struct cli_json *root = cli_json_object(), *list = cli_json_array(), *common = cli_json_array();
    const struct cli_command *command;
    cli_json_text(root, "version", oct_version());
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        if (only && command != only) {
            continue;
        }
        struct cli_json *object = cli_json_object(), *options = cli_json_array();
        cli_json_text(object, "name", command->name);
        cli_json_text(object, "summary", command->summary);
        const struct oct_option *option;
        for (int j = 0; (option = cli_option_at(command, j)) != NULL; j++) {
            cli_json_add(options, option_json(command, option));
        }
        cli_json_put(object, "options", options);
        cli_json_add(list, object);
    }
    for (int i = 0; cli_common[i].name; i++) {
        cli_json_add(common, option_json(&cli_help, &cli_common[i]));
    }
    cli_json_put(root, "commands", list);
    cli_json_put(root, "common", common);
    return cli_json_print(root);
}

int cli_help_print(const struct cli *cli, const struct cli_command *command) {
    if (cli->json) {
        return print_json(command);
    }
    if (command == &cli_help) {
        print_overview();
    } else {
        print_command(command);
    }
    return CLI_DONE;
}

static int help(struct cli *cli) {
    if (cli_own(cli, "man")) {
        if (cli->json) {
            return cli_usage(cli, "--man prints roff, not JSON");
        }
        cli_man_print(stdout);
        return CLI_DONE;
    }
    if (cli->n_words == 0) {
        return cli->json ? print_json(NULL) : cli_help_print(cli, &cli_help);
    }
    int n_used = 0;
    const struct cli_command *command = cli_command_find(cli->words, cli->n_words, &n_used);
    if (command && n_used == cli->n_words) {
        return cli_help_print(cli, command);
    }
    if (!command && cli->n_words == 1 && !cli->json && print_group(cli->words[0]) > 0) {
        return CLI_DONE;
    }
    return cli_usage(cli, "'%.40s%s%.40s' is no command", cli->words[0],
                     cli->n_words > 1 ? " " : "", cli->n_words > 1 ? cli->words[1] : "");
}

static const struct oct_option own[] = {
    {.name = "man", .summary = "print the man page octet.1 (roff)", .group = "Output"},
    {.name = NULL},
};

static const char *const no_options[] = {NULL};

static const struct cli_example examples[] = {
    {"help train", "all options of octet train"},
    {"help --man | man -l -", "the manual"},
    {NULL, NULL},
};

const struct cli_command cli_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .most_words = 2,
    .summary = "this overview, or the help of a command",
    .about = "Prints an overview, or what 'octet COMMAND --help' prints.",
    .own = own,
    .options = no_options,
    .examples = examples,
    .json = "version, commands (name, summary, options), common",
    .run = help,
};
