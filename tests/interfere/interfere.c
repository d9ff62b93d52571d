/* SPDX-License-Identifier: Apache-2.0 */
/* interfere.c - runs a command and, at its n-th change to a file, kills it or lets the change fail.
 *
 *     interfere --under DIR [--only CALL,CALL…] [--list FILE] [--kill N | --fail N ERROR |
 *               --fail-from N ERROR | --short N | --term N] -- COMMAND…
 *
 * The kernel asks this program before every call of the command that would change something below DIR
 * (seccomp's user notification), whoever makes it: the library, stdio, SQLite. Nothing of the command
 * is replaced, so sanitizers work in it, and what it does in between is not slowed down.
 *
 * Calls are numbered from 1 and written to FILE, one a line: "N CALL PATH". With --kill the command is
 * gone before call N happens: going through all N leaves a file in every state there is. --fail answers
 * call N with an error (ENOSPC, EIO …), --fail-from all from N on, as a disk does that stays full; with
 * --short call N writes half of what it was asked to, and a second line, "N half PATH", says that it did:
 * where the kernel does not let this program write in the command's place, call N is left alone. --term
 * lets call N be and sends SIGTERM.
 *
 * The status is the command's, 137 when it was killed, 125 when this program itself failed, 77 where the
 * kernel has no such notification.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

enum { FAILED = 125, NOT_HERE = 77, ROOM = 2 * PATH_MAX + 1 };

/* --- which calls ------------------------------------------------------------------------------ */

/* Where the file of a call is named: a descriptor, a path, or a path below a descriptor. */
enum place { AT_FD, AT_PATH, AT_FD_PATH };

struct call {
    const char *name;
    int number;
    enum place place;
    int argument; /* index of the first that names it */
    int flags; /* index of open's flags: counts only when it makes or cuts the file; -1: always */
};

static const struct call calls[] = {
    {"write", SYS_write, AT_FD, 0, -1},
    {"write", SYS_pwrite64, AT_FD, 0, -1},
    {"write", SYS_writev, AT_FD, 0, -1},
    {"fsync", SYS_fsync, AT_FD, 0, -1},
    {"fsync", SYS_fdatasync, AT_FD, 0, -1},
    {"truncate", SYS_ftruncate, AT_FD, 0, -1},
    {"close", SYS_close, AT_FD, 0, -1},
    {"open", SYS_openat, AT_FD_PATH, 0, 2},
    {"rename", SYS_renameat2, AT_FD_PATH, 0, -1},
    {"mkdir", SYS_mkdirat, AT_FD_PATH, 0, -1},
    {"unlink", SYS_unlinkat, AT_FD_PATH, 0, -1},
#ifdef SYS_renameat
    {"rename", SYS_renameat, AT_FD_PATH, 0, -1},
#endif
#ifdef SYS_open
    {"open", SYS_open, AT_PATH, 0, 1},
    {"rename", SYS_rename, AT_PATH, 0, -1},
    {"mkdir", SYS_mkdir, AT_PATH, 0, -1},
    {"unlink", SYS_unlink, AT_PATH, 0, -1},
    {"unlink", SYS_rmdir, AT_PATH, 0, -1},
#endif
};

enum { N_CALLS = sizeof calls / sizeof calls[0] };

static const struct call *call_of(int number) {
    for (int i = 0; i < N_CALLS; i++) {
        if (calls[i].number == number) {
            return &calls[i];
        }
    }
    return NULL;
}

/* --- what is asked for ------------------------------------------------------------------------ */

enum action { WATCH, KILL, FAIL, FAIL_FROM, SHORT, TERM };

static struct {
    char under[PATH_MAX];
    const char *only, *list;
    enum action action;
    long at;
    int error;
    char **command;
} order;

static void die(const char *what) {
    fprintf(stderr, "interfere: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(FAILED);
}

static int error_of(const char *name) {
    static const struct {
        const char *name;
        int number;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT},
                  {"EROFS", EROFS},   {"EACCES", EACCES}, {"EMFILE", EMFILE}};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (strcmp(name, errors[i].name) == 0) {
            return errors[i].number;
        }
    }
    errno = 0;
    die("the error is none of ENOSPC, EIO, EDQUOT, EROFS, EACCES, EMFILE");
    return 0;
}

static void read_order(char **argument) {
    errno = 0;
    for (argument++; *argument && strcmp(*argument, "--") != 0; argument++) {
        const char *name = *argument;
        if (!argument[1]) {
            die("an option without its value");
        } else if (strcmp(name, "--under") == 0) {
            if (!realpath(*++argument, order.under)) {
                die(*argument);
            }
        } else if (strcmp(name, "--only") == 0) {
            order.only = *++argument;
        } else if (strcmp(name, "--list") == 0) {
            order.list = *++argument;
        } else {
            order.action = strcmp(name, "--kill") == 0        ? KILL
                           : strcmp(name, "--short") == 0     ? SHORT
                           : strcmp(name, "--term") == 0      ? TERM
                           : strcmp(name, "--fail") == 0      ? FAIL
                           : strcmp(name, "--fail-from") == 0 ? FAIL_FROM
                                                              : WATCH;
            order.at = strtol(*++argument, NULL, 10);
            if (order.action == WATCH || order.at < 1) {
                die("no such option, or no number behind it");
            }
            if (order.action == FAIL || order.action == FAIL_FROM) {
                order.error = argument[1] ? error_of(*++argument) : 0;
            }
        }
    }
    if (!*argument || !argument[1] || !order.under[0]) {
        die("--under DIR … -- COMMAND is needed");
    }
    order.command = argument + 1;
}

/* --- the command ------------------------------------------------------------------------------ */

/* The kernel asks about the calls above and lets the others be. */
static int filter_calls(void) {
    struct sock_filter filter[2 * N_CALLS + 2];
    unsigned short n = 0;
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                   (unsigned)calls[i].number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

union passenger {
    struct cmsghdr head; /* aligns it */
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* Hands a descriptor through a socket; without one, only a byte. */
static void send_fd(int socket, int fd) {
    char byte = 0;
    struct iovec text = {&byte, 1};
    union passenger passenger = {{0}};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &passenger;
        message.msg_controllen = sizeof passenger;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    if (sendmsg(socket, &message, 0) != 1) {
        _exit(FAILED);
    }
}

static int receive_fd(int socket) {
    char byte;
    int fd = -1;
    struct iovec text = {&byte, 1};
    union passenger passenger;
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = &passenger,
                             .msg_controllen = sizeof passenger};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) {
        die("the command did not begin");
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS) {
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    }
    return fd;
}

static pid_t start(int *listener) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("socketpair");
    }
    pid_t child = fork();
    if (child < 0) {
        die("fork");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int fd = filter_calls();
        send_fd(pair[1], fd); /* all of these end with exec */
        if (fd < 0) {
            _exit(NOT_HERE);
        }
        execvp(order.command[0], order.command);
        _exit(FAILED);
    }
    *listener = receive_fd(pair[0]);
    return child;
}

/* --- answering -------------------------------------------------------------------------------- */

static void fd_path(pid_t pid, int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d", (int)pid, fd);
    const ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = '\0';
}

/* A path in the memory of the command, which may end right behind it. */
static void read_path(pid_t pid, unsigned long long at, char path[PATH_MAX]) {
    size_t n = 0;
    while (n < PATH_MAX - 1) {
        size_t take = 64 - (size_t)((at + n) % 64);
        take = take < PATH_MAX - 1 - n ? take : PATH_MAX - 1 - n;
        struct iovec to = {path + n, take}, from = {(void *)(size_t)(at + n), take};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)take) {
            break;
        }
        if (memchr(path + n, '\0', take)) {
            return;
        }
        n += take;
    }
    path[n] = '\0';
}

static void path_of(const struct seccomp_notif *question, const struct call *call,
                    char path[ROOM]) {
    const unsigned long long *arguments = (const unsigned long long *)question->data.args;
    const pid_t pid = (pid_t)question->pid;
    if (call->place == AT_FD) {
        fd_path(pid, (int)arguments[call->argument], path);
        return;
    }
    char name[PATH_MAX], folder[PATH_MAX];
    const int below = call->place == AT_FD_PATH;
    read_path(pid, arguments[call->argument + below], name);
    if (name[0] == '/') {
        memcpy(path, name, sizeof name);
        return;
    }
    fd_path(pid, below ? (int)arguments[call->argument] : AT_FDCWD, folder);
    snprintf(path, ROOM, "%s/%s", folder, name);
}

/* Whether the call changes something that is watched; its path goes to `path`. */
static int counts(const struct seccomp_notif *question, const struct call *call, char path[ROOM]) {
    const size_t n_under = strlen(order.under), n_name = strlen(call->name);
    if (call->flags >= 0 && !(question->data.args[call->flags] & (O_CREAT | O_TRUNC))) {
        return 0;
    }
    path_of(question, call, path);
    if (strncmp(path, order.under, n_under) != 0 ||
        (path[n_under] != '/' && path[n_under] != '\0')) {
        return 0;
    }
    for (const char *at = order.only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, call->name, n_name) == 0 && (at[n_name] == ',' || at[n_name] == '\0')) {
            return 1;
        }
    }
    return !order.only;
}

/* Writes the first half in the command's place; the file's position is shared. */
static long write_half(const struct seccomp_notif *question) {
    char bytes[65536];
    const pid_t pid = (pid_t)question->pid;
    size_t n = (size_t)question->data.args[2] / 2;
    n = n < sizeof bytes ? n : sizeof bytes;
    struct iovec to = {bytes, n}, from = {(void *)(size_t)question->data.args[1], n};
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    const int fd = (int)syscall(SYS_pidfd_getfd, process, (int)question->data.args[0], 0);
    long written = -1;
    if (process >= 0 && fd >= 0 && n > 0 &&
        process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)n) {
        written = question->data.nr == SYS_write
                      ? write(fd, bytes, n)
                      : pwrite(fd, bytes, n, (off_t)question->data.args[3]);
    }
    close(fd);
    close(process);
    return written;
}

static void note(FILE *list, long number, const char *name, const char *path) {
    if (list) {
        fprintf(list, "%ld %s %s\n", number, name, path);
        fflush(list);
    }
}

static void decide(const struct seccomp_notif *question, struct seccomp_notif_resp *answer,
                   pid_t child, FILE *list) {
    static long n_counted;
    char path[ROOM];
    const struct call *call = call_of(question->data.nr);
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (!call || !counts(question, call, path)) {
        return;
    }
    n_counted++;
    note(list, n_counted, call->name, path);
    if (order.action == KILL && n_counted == order.at) {
        kill(child, SIGKILL);
        answer->flags = 0;
        answer->error = -EINTR; /* it will not see this */
    } else if (order.action == TERM && n_counted == order.at) {
        kill(child, SIGTERM);
    } else if ((order.action == FAIL && n_counted == order.at) ||
               (order.action == FAIL_FROM && n_counted >= order.at)) {
        answer->flags = 0;
        answer->error = -order.error;
    } else if (order.action == SHORT && n_counted == order.at && call->number != SYS_writev &&
               strcmp(call->name, "write") == 0) {
        const long written = write_half(question);
        if (written > 0) {
            answer->flags = 0;
            answer->val = written;
            note(list, n_counted, "half", path);
        }
    }
}

static int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Older kernels do not say when nobody is left who could ask: a look at the command now and then does. */
static int watch(int listener, pid_t child, FILE *list) {
    int status = 0;
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        const int n = poll(&ready, 1, 100);
        if (n < 0 && errno != EINTR) {
            die("poll");
        }
        if (n == 0 && waitpid(child, &status, WNOHANG) == child) {
            return code_of(status);
        }
        if (n <= 0) {
            continue;
        }
        if (ready.revents & (POLLHUP | POLLERR)) {
            break; /* nobody is left who could ask */
        }
        struct seccomp_notif question = {0};
        if (!(ready.revents & POLLIN) ||
            ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) {
            continue;
        }
        struct seccomp_notif_resp answer = {.id = question.id};
        decide(&question, &answer, child, list);
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* fails when it died meanwhile */
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return code_of(status);
}

int main(int n_arguments, char **arguments) {
    (void)n_arguments;
    read_order(arguments);
    FILE *list = order.list ? fopen(order.list, "we") : NULL;
    if (order.list && !list) {
        die(order.list);
    }
    int listener = -1;
    const pid_t child = start(&listener);
    if (listener < 0) {
        fputs("interfere: this kernel has no seccomp user notification\n", stderr);
        return NOT_HERE;
    }
    const int code = watch(listener, child, list);
    return list && fclose(list) != 0 ? FAILED : code;
}
