/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - octet as one of many processes (transport mpi): who speaks, and how all of them end.
 *
 * Every rank runs the same command. Rank 0 speaks for all: it prints, records and shows progress, while
 * the others are silent. What goes wrong on one of them reaches the others through the library, and rank
 * 0 says it with the rank's number. At the end all bring their exit codes, and all leave with the same.
 */
#include "cli.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <octet/ranks.h>

static struct {
    int is_begun, has_spoken;
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

int cli_ranks_hush(const char *message) {
    if (oct_ranks_here(NULL) == 0) {
        state.has_spoken = 1;
        return 0;
    }
    snprintf(state.words, sizeof state.words, "%s", message);
    return 1;
}

int cli_ranks_end(int code) {
    int whose, n_ranks;
    const int rank = oct_ranks_here(&n_ranks);
    if (!state.is_begun) {
        return code;
    }
    if (code != CLI_DONE && code != CLI_INTERRUPTED) {
        oct_ranks_tell(state.words);
    }
    fflush(stdout);
    const int end = oct_ranks_end(code, state.words, &whose);
    if (end < 0) {
        if (code == CLI_DONE) {
            snprintf(state.words, sizeof state.words,
                     "the other ranks have not come to the end within %d s", OCT_RANKS_PATIENCE);
        }
        if (!state.has_spoken) {
            fprintf(stderr, "octet: rank %d: %s\n", rank, state.words);
        }
        oct_ranks_abort(code == CLI_DONE ? CLI_FAILED : code);
        return CLI_FAILED;
    }
    if (rank == 0 && end != CLI_DONE && !state.has_spoken && state.words[0]) {
        fprintf(stderr, "octet: rank %d: %s\n", whose, state.words);
    }
    return end;
}
