/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `octet`: environment, dispatch, errors, signals.
 *
 * The library reads no environment; here is where OCT_CPU, OCTET_DATA and the rest enter.
 */
#include "cli.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <octet/cpu.h>
#include <octet/log.h>

static const struct cli_command *const commands[] = {
    &cli_train,
    &cli_test,
    &cli_paper,
    &cli_bench_step,
    &cli_bench_kernels,
    &cli_bench_codec,
    &cli_bench_infer,
    &cli_bench_gradients,
    &cli_data_list,
    &cli_data_get,
    &cli_data_verify,
    &cli_partition,
    &cli_topology_command,
    &cli_runs,
    &cli_runs_delete,
    &cli_report_command,
    &cli_info,
    &cli_help,
    &cli_version,
};

const struct cli_command *cli_command_at(int index) {
    return index >= 0 && (size_t)index < CLI_COUNT_OF(commands) ? commands[index] : NULL;
}

/* "runs delete" is a command, and "runs" is one: two words go before one. */
const struct cli_command *cli_command_find(const char *const *words, int n_words, int *n_used) {
    const struct cli_command *found = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) {
        const char *name = commands[i]->name;
        const char *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);
        if (n_words < 1 || strlen(words[0]) != first || memcmp(words[0], name, first) != 0) {
            continue;
        }
        if (!space || (n_words > 1 && strcmp(words[1], space + 1) == 0)) {
            if (!found || space) {
                found = commands[i];
                *n_used = space ? 2 : 1;
            }
        }
    }
    return found;
}

/* --- errors --------------------------------------------------------------------------------- */

static void print_error(const struct cli *cli, oct_status status, const char *message) {
    if (cli_ranks_hush(status, message)) {
        return;
    }
    cli_progress_clear();
    fprintf(stderr, "octet%s%s: ", cli->command ? " " : "", cli->command ? cli->command->name : "");
    cli_put(stderr, message); /* it may name somebody's files */
    fputc('\n', stderr);
    if (cli->json && cli_json_available()) {
        struct cli_json *root = cli_json_object(), *error = cli_json_object();
        cli_json_text(error, "status", oct_status_name(status));
        cli_json_text(error, "message", message);
        cli_json_put(root, "error", error);
        cli_json_print(root);
    }
}

int cli_error(const struct cli *cli, enum cli_exit code, oct_status status, const char *format,
              ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_error(cli, status, message);
    return (int)code;
}

enum cli_exit cli_exit_of(oct_status status) {
    switch (status) {
    case OCT_OK:
        return CLI_DONE;
    case OCT_STATUS_INVALID:
        return CLI_USAGE;
    case OCT_STATUS_CANCELLED:
        return CLI_INTERRUPTED;
    default:
        return CLI_FAILED;
    }
}

int cli_fail(const struct cli *cli, oct_status status) {
    return cli_error(cli, cli_exit_of(status), status, "%s", oct_last_error());
}

int cli_usage(const struct cli *cli, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_error(cli, OCT_STATUS_INVALID, message);
    if (oct_ranks_here(NULL) > 0) {
        return CLI_USAGE;
    }
    fprintf(stderr, "Try 'octet %s%s'.\n", cli->command ? cli->command->name : "help",
            cli->command ? " --help" : "");
    return CLI_USAGE;
}

void *cli_alloc(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fputs("octet: memory ran out\n", stderr);
        exit(CLI_FAILED);
    }
    return memory;
}

/* --- signals -------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

/* A terminal that closes may tell so twice: that is no wish to end at once. */
static void note_hangup(int number) {
    (void)number;
    interrupted = 1;
}

static void note_signal(int number) {
    interrupted = 1;
    signal(number, SIG_DFL); /* SA_RESETHAND for the other of the two as well */
    signal(number == SIGINT ? SIGTERM : SIGINT, SIG_DFL);
}

static void leave_at_once(int number) {
    (void)number;
    _exit(CLI_INTERRUPTED);
}

/* Until further notice, where signal() would do it once. */
static void on_signal(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void on_signals(void (*handler)(int)) {
    on_signal(SIGINT, handler);
    on_signal(SIGTERM, handler);
}

/* mpirun forwards SIGUSR1 to its ranks; SIGINT and SIGTERM it answers by ending them a second later.
 * What was learned is worth more than somebody who reads along: a terminal that closes stops the run as
 * Ctrl-C does (not with nohup), and a pipe that closes takes no more lines. */
void cli_interrupt_catch(void) {
    struct sigaction now;
    on_signals(note_signal);
    signal(SIGPIPE, SIG_IGN);
    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        on_signal(SIGHUP, note_hangup);
    }
    if (cli_ranks_are_begun()) {
        signal(SIGUSR1, note_signal);
    }
}

int cli_interrupted(void) {
    return interrupted;
}

/* --- start ---------------------------------------------------------------------------------- */

static void print_log(enum oct_log_level level, const char *text, void *context) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const struct cli *cli = context;
    if (oct_ranks_here(NULL) > 0 && level != OCT_LOG_ERROR && !cli->verbose) {
        return;
    }
    cli_progress_clear();
    fprintf(stderr, "octet: %s: ", (unsigned)level < 4 ? names[level] : "note");
    cli_put(stderr, text);
    fputc('\n', stderr);
}

/* Where downloads live, unless --data-dir says otherwise. Without a folder only what the system's
 * packages hold will be found. */
static oct_status set_data_folder(struct cli *cli) {
    const char *chosen = getenv("OCTET_DATA"), *data = getenv("XDG_DATA_HOME"),
               *home = getenv("HOME");
    int n = 0;
    if (chosen && *chosen) {
        n = snprintf(cli->data_folder, sizeof cli->data_folder, "%s", chosen);
    } else if (data && *data == '/') {
        n = snprintf(cli->data_folder, sizeof cli->data_folder, "%s/octet", data);
    } else if (home && *home == '/') {
        n = snprintf(cli->data_folder, sizeof cli->data_folder, "%s/.local/share/octet", home);
    }
    if (n <= 0 || (size_t)n >= sizeof cli->data_folder) {
        cli->data_folder[0] = '\0';
    }
    return cli->data_folder[0] && !cli->command->keeps_config
               ? oct_config_set(cli->config, "data-dir", cli->data_folder)
               : OCT_OK;
}

const char *cli_data_folder(const struct cli *cli) {
    const char *chosen = oct_config_get(cli->config, "data-dir");
    if (chosen && *chosen) {
        return chosen;
    }
    return cli->data_folder[0] ? cli->data_folder : NULL;
}

static int unknown_command(const struct cli *cli, const char *const *words, int n_words) {
    char inner[128] = "", heads[CLI_COUNT_OF(commands)][32]; /* "bench" of "bench step" */
    struct cli_guess guess = {.given = words[0]};
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) {
        const char *space = strchr(commands[i]->name, ' ');
        size_t first = space ? (size_t)(space - commands[i]->name) : strlen(commands[i]->name);
        if (space && strlen(words[0]) == first && memcmp(words[0], commands[i]->name, first) == 0) {
            size_t used = strlen(inner);
            snprintf(inner + used, sizeof inner - used, "%s%s", used ? ", " : "", space + 1);
        }
        snprintf(heads[i], sizeof heads[i], "%.*s", (int)first, commands[i]->name);
        cli_guess_from(&guess, heads[i]);
    }
    if (inner[0] && n_words > 1) {
        return cli_usage(cli, "'%.40s' is no part of 'octet %s'; expected one of: %s", words[1],
                         words[0], inner);
    }
    if (inner[0]) {
        return cli_usage(cli, "'octet %s' needs one more word, one of: %s", words[0], inner);
    }
    if (guess.name) {
        return cli_usage(cli, "'%.40s' is no command; did you mean 'octet %s'?", words[0],
                         guess.name);
    }
    return cli_usage(cli, "'%.40s' is no command", words[0]);
}

/* Finds the command; returns how many of argv it used, or -1 after saying what is wrong. */
static int find_command(struct cli *cli, int argc, char **argv) {
    if (argc < 2) {
        cli->command = &cli_help;
        return 1;
    }
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        cli->command = &cli_help;
        return 2;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        cli->command = &cli_version;
        return 2;
    }
    if (first[0] == '-') {
        cli_usage(cli, "'%.40s' comes before the command; expected: octet COMMAND %.40s", first,
                  first);
        return -1;
    }
    const char *words[2] = {first, argc > 2 && argv[2][0] != '-' ? argv[2] : NULL};
    int n_words = words[1] ? 2 : 1, n_used = 0;
    cli->command = cli_command_find(words, n_words, &n_used);
    if (!cli->command && argc > 2 &&
        (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        cli->command = &cli_help; /* "octet bench --help" is "octet help bench" */
        cli->words[cli->n_words++] = first;
        return 3;
    }
    if (!cli->command) {
        unknown_command(cli, words, n_words);
        return -1;
    }
    return 1 + n_used;
}

static int run(struct cli *cli, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        cli->json |= strcmp(argv[i], "--json") == 0; /* so that even a wrong usage is an object */
    }
    if (cli->json && !cli_json_available()) {
        return cli_error(cli, CLI_FAILED, OCT_STATUS_UNSUPPORTED,
                         "--json: this octet was built without JSON (jansson)");
    }
    int used = find_command(cli, argc, argv);
    if (used < 0) {
        return CLI_USAGE;
    }
    const char *level = getenv("OCT_CPU");
    oct_status status = level && *level ? oct_cpu_limit(level) : OCT_OK;
    if (status != OCT_OK) {
        return cli_error(cli, status == OCT_STATUS_INVALID ? CLI_USAGE : CLI_FAILED, status,
                         "OCT_CPU: %s", oct_last_error());
    }
    status = oct_config_create(&cli->config);
    if (status == OCT_OK) {
        status = set_data_folder(cli);
    }
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    int code = cli_parse(cli, argc - used, argv + used);
    if (code != CLI_DONE) {
        return code;
    }
    int n_ranks;
    cli->quiet |= oct_ranks_here(&n_ranks) > 0;
    if (n_ranks > 1 && cli->command != &cli_train) {
        return cli_usage(cli, "transport mpi with several ranks is for octet train");
    }
    oct_log_set(print_log, cli, cli->verbose ? OCT_LOG_DEBUG : OCT_LOG_WARNING);
    cli_progress_begin(cli);
    code = cli->help ? cli_help_print(cli, cli->command) : cli->command->run(cli);
    cli_progress_clear();
    return code;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, ""); /* for the terminal's encoding; numbers stay as in C */
    on_signals(leave_at_once);
    struct cli cli;
    memset(&cli, 0, sizeof cli);
    cli_ranks_look(argc, argv);
    int code = run(&cli, argc, argv);
    oct_config_destroy(cli.config);
    free(cli.joined);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_DONE) {
        fprintf(stderr, "octet: cannot write to stdout: %s\n", strerror(errno));
        code = CLI_FAILED;
    }
    return cli_ranks_end(code);
}
