/* SPDX-License-Identifier: Apache-2.0 */
/* npm.c - an archive from the package registry that this machine's npm is set up for.
 *
 * Many places let nothing through but a package registry, and npm knows its address and
 * credentials; so we run npm rather than speak to a registry ourselves. It is started without a
 * shell, told to run no scripts of the package, keeps its cache inside our own folder, and is ended
 * with all its children when the caller cancels or it takes too long.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data/fetch.h"

extern char **environ; /* handed on as it is: npm finds its own configuration through it */

static void sleep_ms(long ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* npm's own words on what went wrong: its first line that says "error", else its last line. */
static void read_complaint(const char *log, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "it said nothing");
    FILE *file = fopen(log, "re");
    if (!file) {
        return;
    }
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0') {
            snprintf(out, out_bytes, "%.*s", (int)out_bytes - 1, line);
        }
        if (strncmp(line, "npm ERR", 7) == 0 || strncmp(line, "npm error", 9) == 0) {
            break;
        }
    }
    fclose(file);
}

/* Starts npm with its own process group and its output in `log`. */
static int start_npm(const char *package, const char *folder, const char *cache, const char *log,
                     pid_t *pid) {
    const char *words[] = {"npm",
                           "pack",
                           "--ignore-scripts",
                           "--no-update-notifier",
                           "--loglevel=error",
                           "--pack-destination",
                           folder,
                           "--cache",
                           cache,
                           "--",
                           package,
                           NULL};
    char *arguments[OCT_COUNT_OF(words)]; /* posix_spawn takes them without const, unchanged */
    memcpy(arguments, words, sizeof words);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawn_file_actions_init(&files);
    if (error) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&files);
        return error;
    }
    error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    error = error ? error
                  : posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC,
                                                     0666);
    error = error ? error : posix_spawn_file_actions_adddup2(&files, 1, 2);
    error = error ? error
                  : posix_spawnattr_setflags(&attributes,
                                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    error = error ? error : posix_spawnattr_setpgroup(&attributes, 0);
    error = error ? error : posix_spawnattr_setsigmask(&attributes, &none);
    error = error ? error : posix_spawnp(pid, "npm", &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Ends the process group, politely first, and collects the child. */
static void end_npm(pid_t pid) {
    int code;
    kill(-pid, SIGTERM);
    for (int tries = 0; tries < 20; tries++) {
        if (waitpid(pid, &code, WNOHANG) != 0) {
            kill(-pid, SIGKILL); /* children that outlived it */
            return;
        }
        sleep_ms(100);
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
}

static oct_status await_npm(const struct oct__fetch *fetch, const char *package, pid_t pid,
                            int *code) {
    double start = now_s();
    for (;;) {
        pid_t done = waitpid(pid, code, WNOHANG);
        if (done == pid) {
            return OCT_OK;
        }
        if (done < 0 && errno != EINTR) {
            OCT_FAIL(IO, "npm pack %s: waiting for it: %s", package, strerror(errno));
        }
        if (fetch->progress && fetch->progress(package, 0, 0, fetch->context) != 0) {
            end_npm(pid);
            OCT_FAIL(CANCELLED, "npm pack %s: the download was cancelled", package);
        }
        if (now_s() - start > (double)fetch->npm_s) {
            end_npm(pid);
            OCT_FAIL(NETWORK, "npm pack %s: not done after %ld s, given up", package, fetch->npm_s);
        }
        sleep_ms(50);
    }
}

static oct_status find_archive(const char *package, const char *folder,
                               char archive[OCT_PATH_BYTES]) {
    DIR *listing = opendir(folder);
    if (!listing) {
        OCT_FAIL(IO, "%s: %s", oct__path_shown(folder), strerror(errno));
    }
    oct_status status = OCT_STATUS_NOT_FOUND;
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".tgz") == 0) {
            status = oct__path_join(folder, entry->d_name, "", archive);
            break;
        }
    }
    closedir(listing);
    if (status == OCT_STATUS_NOT_FOUND) {
        OCT_FAIL(NETWORK, "npm pack %s: it left no archive", package);
    }
    return status;
}

oct_status oct__fetch_npm(const struct oct__fetch *fetch, const char *package, const char *folder,
                          char archive[OCT_PATH_BYTES]) {
    char cache[OCT_PATH_BYTES], log[OCT_PATH_BYTES];
    OCT_TRY(oct__path_join(folder, "cache", "", cache));
    OCT_TRY(oct__path_join(folder, "npm.log", "", log));
    pid_t pid;
    int error = start_npm(package, folder, cache, log, &pid);
    if (error == ENOENT) {
        OCT_FAIL(UNSUPPORTED, "npm pack %s: npm is not installed", package);
    }
    if (error) {
        OCT_FAIL(IO, "npm pack %s: starting it: %s", package, strerror(error));
    }
    int code;
    OCT_TRY(await_npm(fetch, package, pid, &code));
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        char complaint[120];
        read_complaint(log, complaint, sizeof complaint);
        OCT_FAIL(NETWORK, "npm pack %s failed: %s", package, complaint);
    }
    return find_archive(package, folder, archive);
}
