/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - what a run ran on, and whether its process still lives.
 *
 * A run that was killed cannot say so. So its process is recorded by what no other process has: the
 * machine's name, the boot, the namespace that its number counts in, the number, and when it
 * started. Somebody who reads the database on the same machine sees whether it is still there;
 * somebody elsewhere cannot know.
 */
#include <octet/runs.h>

#ifdef OCT_HAVE_SQLITE

#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <octet/cpu.h>

#include "base/parallel.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

void oct__machine_read(struct oct__machine *out) {
    struct utsname names;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    memset(out, 0, sizeof *out);
    snprintf(out->cpu, sizeof out->cpu, "%s", oct_cpu_brand());
    out->cores = online > 0 ? (int)online : oct__parallel_width();
    out->level = oct_cpu_level_name(oct_cpu_level());
    if (uname(&names) == 0) {
        snprintf(out->system, sizeof out->system, "%.40s %.60s %.20s", names.sysname, names.release,
                 names.machine);
    } else {
        snprintf(out->system, sizeof out->system, "unknown");
    }
    out->compiler = COMPILER;
}

/* --- processes ------------------------------------------------------------------------------- */

/* Where there is none (other systems than Linux) parts are "?", and nothing can be told. */
struct process {
    char host[72], boot[48], space[32];
    long pid;
    unsigned long long start; /* clock ticks from boot; 0: no such process */
};

/* The first word of a file. */
static void read_word(const char *path, char *out, size_t bytes) {
    FILE *file = fopen(path, "re");
    snprintf(out, bytes, "?");
    if (file) {
        char line[128];
        if (fgets(line, sizeof line, file)) {
            line[strcspn(line, " \n")] = '\0';
            snprintf(out, bytes, "%.*s", (int)bytes - 1, line[0] ? line : "?");
        }
        fclose(file);
    }
}

/* Field 22 of /proc/PID/stat; the name in field 2 may have blanks and brackets in it. A process that
 * has ended and waits to be noticed (Z) is gone. */
static unsigned long long start_of(long pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') {
        return 0;
    }
    at += 2;
    for (int field = 3; field < 22 && at; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

static void read_self(struct process *out) {
    struct utsname names;
    memset(out, 0, sizeof *out);
    snprintf(out->host, sizeof out->host, "%.70s", uname(&names) == 0 ? names.nodename : "?");
    for (char *c = out->host; *c; c++) {
        *c = *c == ' ' ? '_' : *c;
    }
    read_word("/proc/sys/kernel/random/boot_id", out->boot, sizeof out->boot);
    ssize_t n = readlink("/proc/self/ns/pid", out->space, sizeof out->space - 1);
    if (n <= 0) {
        snprintf(out->space, sizeof out->space, "?");
    }
    out->pid = (long)getpid();
    out->start = start_of(out->pid);
}

void oct__process_name(char out[OCT_PROCESS_BYTES]) {
    struct process self;
    read_self(&self);
    snprintf(out, OCT_PROCESS_BYTES, "%s %s %s %ld %llu", self.host[0] ? self.host : "?", self.boot,
             self.space, self.pid, self.start);
}

/* The next word of *at, moving behind it; zero when there is none, or it is too long. */
static int next_word(const char **at, char *out, size_t bytes) {
    const size_t length = strcspn(*at, " ");
    if (length == 0 || length >= bytes) {
        return 0;
    }
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length + ((*at)[length] == ' ');
    return 1;
}

/* What oct__process_name has written; zero when it is something else. */
static int read_name(const char *name, struct process *out) {
    char pid[24], start[24], *pid_end, *start_end;
    memset(out, 0, sizeof *out);
    if (!name || !next_word(&name, out->host, sizeof out->host) ||
        !next_word(&name, out->boot, sizeof out->boot) ||
        !next_word(&name, out->space, sizeof out->space) || !next_word(&name, pid, sizeof pid) ||
        !next_word(&name, start, sizeof start) || *name) {
        return 0;
    }
    out->pid = strtol(pid, &pid_end, 10);
    out->start = strtoull(start, &start_end, 10);
    return *pid_end == '\0' && *start_end == '\0' && out->pid > 0;
}

enum oct__process_state oct__process_find(const char *name) {
    struct process self, other;
    if (!read_name(name, &other)) {
        return OCT_PROCESS_ELSEWHERE;
    }
    read_self(&self);
    if (other.start == 0 || strcmp(other.boot, "?") == 0 || strcmp(self.boot, "?") == 0) {
        return OCT_PROCESS_ELSEWHERE;
    }
    if (strcmp(self.boot, other.boot) != 0) { /* before this machine started anew, or on another */
        return strcmp(self.host, other.host) == 0 ? OCT_PROCESS_GONE : OCT_PROCESS_ELSEWHERE;
    }
    if (strcmp(self.space, other.space) != 0) { /* another container: numbers mean nothing here */
        return OCT_PROCESS_ELSEWHERE;
    }
    return start_of(other.pid) == other.start ? OCT_PROCESS_LIVES : OCT_PROCESS_GONE;
}

#endif
