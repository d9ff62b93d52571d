/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - octet as one of many processes (transport mpi): who speaks, and how all of them end.
 *
 * Every rank runs the same command. Rank 0 speaks for all: it prints, records and shows progress, while
 * the others are silent. What goes wrong on one of them reaches the others through the library, and rank
 * 0 says it with the rank's number. At the end all bring their exit codes, and all leave with the same.
 */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <octet/ranks.h>

static struct {
    int is_begun, has_spoken;
    oct_status status;           /* of the last failure */
    char words[OCT_RANKS_WORDS]; /* what a silent rank would have said */
} state;

/* Results, and what the library has to say, are rank 0's business. */
static void fall_silent(void) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        fflush(stdout);
        (void)!dup2(nowhere, STDOUT_FILENO);
        close(nowhere);
    }
}

oct_status cli_ranks_begin(const char *transport) {
    if (state.is_begun || strcmp(transport, "mpi") != 0) {
        return OCT_OK;
    }
    oct_status status = oct_ranks_join(transport);
    if (status != OCT_OK) {
        return status;
    }
    state.is_begun = 1;
    if (oct_ranks_here(NULL) > 0) {
        fall_silent();
    }
    return OCT_OK;
}

/* So that a mistake on the command line is told once, too. */
void cli_ranks_look(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const int is_two =
            strcmp(argv[i], "--transport") == 0 && i + 1 < argc && strcmp(argv[i + 1], "mpi") == 0;
        if (is_two || strcmp(argv[i], "--transport=mpi") == 0) {
            (void)!cli_ranks_begin("mpi"); /* what is wrong with it is said when it is used */
        }
    }
}

int cli_ranks_hush(oct_status status, const char *message) {
    state.status = status;
    snprintf(state.words, sizeof state.words, "%s", message);
    state.has_spoken = oct_ranks_here(NULL) == 0;
    return !state.has_spoken;
}

int cli_ranks_are_begun(void) {
    return state.is_begun;
}

static int number_of(const char *one, const char *other) {
    const char *text = getenv(one) ? getenv(one) : getenv(other);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* Open MPI and MPICH tell each process in its environment. */
void cli_ranks_warn(const struct cli *cli) {
    const int n = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
    if (state.is_begun || n < 2 || number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK") != 0) {
        return;
    }
    cli_progress_clear();
    fprintf(stderr,
            "octet %s: started %d times, each a run of its own; for one run over all of them: "
            "--transport mpi\n",
            cli->command->name, n);
}

/* The others exit with the code that they find for the status. */
static oct_status status_of(int code) {
    if (cli_exit_of(state.status) == (enum cli_exit)code) {
        return state.status;
    }
    return code == CLI_USAGE ? OCT_STATUS_INVALID : OCT_STATUS_IO;
}

/* The words may name somebody's files. */
static void say(int rank) {
    fprintf(stderr, "octet: rank %d: ", rank);
    cli_put(stderr, state.words);
    fputc('\n', stderr);
}

int cli_ranks_end(int code) {
    int whose, n_ranks;
    const int rank = oct_ranks_here(&n_ranks);
    if (!state.is_begun) {
        return code;
    }
    if (code != CLI_DONE && code != CLI_INTERRUPTED) {
        oct_ranks_tell(status_of(code), state.words);
    }
    fflush(stdout);
    const int end = oct_ranks_end(code, state.words, &whose);
    if (end < 0) {
        if (code == CLI_DONE) {
            snprintf(state.words, sizeof state.words, "the other ranks have not come to the end");
        }
        if (!state.has_spoken) {
            say(rank);
        }
        oct_ranks_abort(code == CLI_DONE ? CLI_FAILED : code);
        return CLI_FAILED;
    }
    if (rank == 0 && end != CLI_DONE && !state.has_spoken && state.words[0]) {
        say(whose);
    }
    return end;
}
