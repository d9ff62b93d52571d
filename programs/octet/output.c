/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - files that are complete or not there: a reader never sees half of one, and a report that
 * fails leaves the one before it. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as many as the kernel follows */

/* What a new file's permissions would be, which mkstemp does not ask. */
static mode_t usual_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int cli_is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

int cli_output_check(const struct cli *cli, const char *const *options, int *n_files) {
    const char *on_stdout = cli->json ? "json" : NULL;
    *n_files = 0;
    for (int i = 0; options[i]; i++) {
        const char *path = cli_own(cli, options[i]);
        if (!path) {
            continue;
        }
        ++*n_files;
        for (int j = 0; j < i && !cli_is_stdout(path); j++) {
            const char *other = cli_own(cli, options[j]);
            if (other && strcmp(other, path) == 0) {
                return cli_usage(cli, "--%s and --%s both go to %s", options[j], options[i], path);
            }
        }
        if (cli_is_stdout(path) && on_stdout) {
            return cli_usage(cli, "--%s - and --%s%s cannot both go to stdout", options[i],
                             on_stdout, cli->json ? "" : " -");
        }
        on_stdout = cli_is_stdout(path) ? options[i] : on_stdout;
    }
    return CLI_DONE;
}

/* The place that a link leads to: its text, which is seen from where it lies. 0, or errno. */
static int follow_link(char place[CLI_PLACE_BYTES]) {
    char text[CLI_PLACE_BYTES];
    const ssize_t n = readlink(place, text, sizeof text);
    if (n < 0) {
        return errno;
    }
    const char *slash = strrchr(place, '/');
    const size_t n_above = text[0] == '/' || !slash ? 0 : (size_t)(slash + 1 - place);
    if (n_above + (size_t)n >= CLI_PLACE_BYTES) {
        return ENAMETOOLONG;
    }
    memcpy(place + n_above, text, (size_t)n);
    place[n_above + (size_t)n] = '\0';
    return 0;
}

/* "/proc/self/fd/1": a link whose text may lead elsewhere, or nowhere. */
static int is_open_file(const char *link) {
    return strncmp(link, "/proc/", 6) == 0 || strncmp(link, "/dev/fd/", 8) == 0;
}

int cli_output_place(const char *path, char place[CLI_PLACE_BYTES], int *is_whole) {
    struct stat facts;
    if (strlen(path) >= CLI_PLACE_BYTES) {
        return ENAMETOOLONG;
    }
    strcpy(place, path);
    *is_whole = stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
    for (int i = 0; *is_whole && lstat(place, &facts) == 0 && S_ISLNK(facts.st_mode); i++) {
        if (is_open_file(place)) {
            strcpy(place, path);
            *is_whole = 0;
            break;
        }
        const int error = i < MOST_LINKS ? follow_link(place) : ELOOP;
        if (error) {
            return error;
        }
    }
    return 0;
}

int cli_output_open(struct cli_output *output, const char *path) {
    char place[CLI_PLACE_BYTES];
    struct stat facts;
    int is_whole;
    memset(output, 0, sizeof *output);
    output->path = path;
    errno = 0;
    if (cli_is_stdout(path)) {
        output->file = stdout;
        return 0;
    }
    const int lost = cli_output_place(path, place, &is_whole);
    if (lost) {
        return lost;
    }
    if (!is_whole) {
        output->file = fopen(place, "w");
        return output->file ? 0 : errno;
    }
    const int is_there = stat(place, &facts) == 0;
    if (is_there && access(place, W_OK) != 0) {
        return errno; /* it could be replaced, but was not meant to be */
    }
    const size_t bytes = strlen(place) + sizeof ".XXXXXX";
    output->beside = cli_alloc(bytes);
    snprintf(output->beside, bytes, "%s.XXXXXX", place);
    const int descriptor = mkstemp(output->beside);
    output->file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!output->file) {
        const int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
            unlink(output->beside);
        }
        free(output->beside);
        output->beside = NULL;
        return error;
    }
    (void)fchmod(descriptor, is_there ? facts.st_mode & 07777 : usual_mode());
    return 0;
}

/* The place again: what it is written to, without the letters at its end. */
static int put_in_place(const char *beside) {
    char *place = cli_alloc(strlen(beside) + 1);
    strcpy(place, beside);
    place[strlen(place) - strlen(".XXXXXX")] = '\0';
    const int error = rename(beside, place) == 0 ? 0 : errno;
    free(place);
    return error;
}

int cli_output_close(struct cli_output *output, int is_good) {
    int error = 0;
    errno = 0;
    if (fflush(output->file) != 0 || ferror(output->file)) {
        error = errno ? errno : EIO;
    }
    if (output->beside && !error && is_good && fsync(fileno(output->file)) != 0) {
        error = errno;
    }
    if (output->file != stdout && fclose(output->file) != 0 && !error) {
        error = errno;
    }
    if (output->beside) {
        if (!error && is_good) {
            error = put_in_place(output->beside);
        }
        if (error || !is_good) {
            unlink(output->beside);
        }
        free(output->beside);
    }
    *output = (struct cli_output){.path = output->path};
    return error;
}

int cli_output_say(const struct cli *cli, const char *path, int error) {
    return error ? cli_error(cli, CLI_FAILED, OCT_STATUS_IO, "%s cannot be written: %s",
                             cli_is_stdout(path) ? "stdout" : path, strerror(error))
                 : CLI_DONE;
}

void cli_csv_text(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"" : "", out);
        fputc(*text, out);
    }
    fputc('"', out);
}
