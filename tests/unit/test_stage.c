/* SPDX-License-Identifier: Apache-2.0 */
/* test_stage.c - src/data/stage.c and get.c where the system says no: each write, fsync, close and
 * rename of a download fails in its turn.
 *
 * The functions are replaced in this program; the library is linked into it as it is. After every
 * failure the folder is as it was: the older file, and nothing beside it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/folder.h"
#include "data/cifar.h"
#include "data/get.h"
#include "data/stage.h"
#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"

/* --- the system's calls ----------------------------------------------------------------------- */

static struct {
    int is_counting, n, at, error; /* call `at` fails with `error`; 0: none does */
    int halves;                    /* writes take half of what they are given */
    char failed[16];               /* the call that did */
} calls;

static int fails(const char *name) {
    if (!calls.is_counting || ++calls.n != calls.at) {
        return 0;
    }
    snprintf(calls.failed, sizeof calls.failed, "%s", name);
    errno = calls.error;
    return 1;
}

long syscall(long number, ...);

#define REPLACED __attribute__((visibility("default")))

REPLACED ssize_t write(int fd, const void *bytes, size_t n) {
    if (fails("write")) {
        return -1;
    }
    return syscall(SYS_write, fd, bytes, calls.is_counting && calls.halves && n > 1 ? n / 2 : n);
}

REPLACED int fsync(int fd) {
    return fails("fsync") ? -1 : (int)syscall(SYS_fsync, fd);
}

REPLACED int close(int fd) {
    const int failed = fails("close"); /* which closes it all the same */
    const int error = errno, result = (int)syscall(SYS_close, fd);
    errno = failed ? error : errno;
    return failed ? -1 : result;
}

REPLACED int rename(const char *from, const char *to) {
    return fails("rename") ? -1 : (int)syscall(SYS_renameat, -100 /* AT_FDCWD */, from, -100, to);
}

static void arm(int at, int error) {
    memset(&calls, 0, sizeof calls);
    calls.at = at;
    calls.error = error;
    calls.is_counting = 1;
}

static int disarm(void) {
    calls.is_counting = 0;
    return calls.n;
}

/* --- a dataset -------------------------------------------------------------------------------- */

enum { RECORD = 1 + OCT_CIFAR_BYTES, TRAIN_BYTES = 20 * RECORD, TEST_BYTES = 2 * RECORD };

static uint8_t train_bytes[TRAIN_BYTES], test_bytes[TEST_BYTES];
static uint8_t archive[2 * TRAIN_BYTES], packed[2 * TRAIN_BYTES + 256];
static size_t n_packed;
static char train_sum[OCT_SHA256_TEXT], test_sum[OCT_SHA256_TEXT];
static struct oct__data_file files[] = {
    {"train.bin", train_sum, TRAIN_BYTES, OCT_SPLIT_TRAIN},
    {"test.bin", test_sum, TEST_BYTES, OCT_SPLIT_TEST},
    {NULL, NULL, 0, OCT_SPLIT_TRAIN},
};
static struct oct_dataset_kind kind;
static char folder[SCRATCH_PATH], from[SCRATCH_PATH + 8];
static const char older[] = "the older file, which is wrong but must not be lost";

static void make_dataset(void) {
    scratch_fill(train_bytes, sizeof train_bytes, 1);
    scratch_fill(test_bytes, sizeof test_bytes, 2);
    for (int r = 0; r < 20; r++) {
        train_bytes[r * RECORD] %= 10;
        test_bytes[r % 2 * RECORD] %= 10;
    }
    scratch_sha256(train_bytes, sizeof train_bytes, train_sum);
    scratch_sha256(test_bytes, sizeof test_bytes, test_sum);
    size_t n = scratch_tar("small/train.bin", '0', train_bytes, TRAIN_BYTES, archive);
    n += scratch_tar("small/test.bin", '0', test_bytes, TEST_BYTES, archive + n);
    n += scratch_tar_end(archive + n);
    n_packed = scratch_gzip(archive, n, packed);
    kind = oct_dataset_cifar10;
    kind.plugin.name = "small";
    kind.files = files;
    kind.folder = "small";
    kind.package_folder = NULL;
    kind.sources = NULL;
}

static void put_older(void) {
    assert_int_equal(scratch_write(scratch_at(folder, "small/train.bin"), older, sizeof older), 0);
}

static int is_older(const char *path) {
    size_t n = 0;
    uint8_t *bytes = file_read(path, &n);
    const int same = n == sizeof older && memcmp(bytes, older, n) == 0;
    free(bytes);
    return same;
}

static const struct oct__fetch fetch = {.connect_ms = 1000, .stall_s = 1, .npm_s = 1};

/* Gets it again and again, each time with the next call failing. */
static void each_call_fails(const char *source) {
    char path[OCT_PATH_BYTES];
    int n_stopped[4] = {0}, n_harmless = 0;
    for (int n = 1;; n++) {
        const int error = n % 2 ? ENOSPC : EIO;
        scratch_remove(scratch_at(folder, "small"));
        put_older();
        arm(n, error);
        oct_status status = oct__get(&kind, folder, source, &fetch);
        const int n_calls = disarm();
        if (status == OCT_STATUS_UNSUPPORTED) {
            skip();
        }
        if (status == OCT_OK) {
            EXPECT_OK(oct__verify(&kind, folder, path));
            assert_int_equal(scratch_count(scratch_at(folder, "small")), 2);
            if (n_calls < n) {
                break;
            }
            n_harmless++; /* a file that was only read is closed */
            continue;
        }
        const char *said = oct_last_error();
        if (status != OCT_STATUS_IO || !strstr(said, strerror(error)) || !strstr(said, folder)) {
            fail_msg("call %d, %s: %s: %s", n, calls.failed, oct_status_name(status), said);
        }
        /* A file that was moved in before the failure stays; it was whole and right. */
        const char *name = scratch_at(folder, "small/train.bin");
        size_t n_bytes = 0;
        free(file_read(name, &n_bytes));
        const int count = scratch_count(scratch_at(folder, "small"));
        if ((!is_older(name) && n_bytes != TRAIN_BYTES) || count > 2) {
            fail_msg("call %d, %s: %zu bytes, %d entries", n, calls.failed, n_bytes, count);
        }
        static const char *const names[] = {"write", "fsync", "close", "rename"};
        for (int i = 0; i < 4; i++) {
            n_stopped[i] += strcmp(calls.failed, names[i]) == 0;
        }
    }
    print_message("%s: %d writes, %d fsyncs, %d closes, %d renames stopped it; %d did not matter\n",
                  source, n_stopped[0], n_stopped[1], n_stopped[2], n_stopped[3], n_harmless);
    assert_true(n_stopped[0] >= 2 && n_stopped[1] >= 2 && n_stopped[2] >= 2 && n_stopped[3] >= 2);

    /* Writes that take less than they are given are no failures. */
    scratch_remove(scratch_at(folder, "small"));
    arm(0, 0);
    calls.halves = 1;
    EXPECT_OK(oct__get(&kind, folder, source, &fetch));
    print_message("in halves: %d calls\n", disarm());
    EXPECT_OK(oct__verify(&kind, folder, path));
}

static void from_a_folder(void **state) {
    (void)state;
    assert_int_equal(scratch_write(scratch_at(from, "train.bin"), train_bytes, TRAIN_BYTES), 0);
    assert_int_equal(scratch_write(scratch_at(from, "test.bin"), test_bytes, TEST_BYTES), 0);
    each_call_fails(from);
}

static void from_an_archive(void **state) {
    (void)state;
    char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", scratch_at(from, "small.tar.gz"));
    assert_int_equal(scratch_write(path, packed, n_packed), 0);
    each_call_fails(path);
}

/* A folder of pictures takes an older one's place; when that fails, the older one is there again. */
static void a_folder_in_place_of_another(void **state) {
    (void)state;
    char dir[SCRATCH_PATH + 8], stage[OCT_PATH_BYTES];
    snprintf(dir, sizeof dir, "%s/tree", folder);
    for (int n = 1;; n++) {
        scratch_remove(dir);
        EXPECT_OK(oct__folder_make(scratch_at(dir, "train")));
        assert_int_equal(scratch_write(scratch_at(dir, "train/a/1.png"), older, sizeof older), 0);
        EXPECT_OK(oct__stage_open(dir, stage));
        EXPECT_OK(oct__folder_make(scratch_at(stage, "train")));
        assert_int_equal(scratch_write(scratch_at(stage, "train/a/2.png"), "new", 3), 0);
        arm(n, EIO);
        oct_status status = oct__stage_install(stage, dir, "train");
        const int n_calls = disarm();
        assert_int_equal(oct__folder_remove(stage), 0);
        const int has_older = access(scratch_at(dir, "train/a/1.png"), F_OK) == 0;
        const int has_newer = access(scratch_at(dir, "train/a/2.png"), F_OK) == 0;
        print_message("call %d, %s: %s, older %d, newer %d\n", n, calls.failed,
                      oct_status_name(status), has_older, has_newer);
        assert_true(has_older != has_newer);
        if (n_calls < n) {
            assert_int_equal(status, OCT_OK);
            assert_true(has_newer && n > 3);
            break;
        }
    }
}

/* So does one that only a link leads to; and it can be put back. */
static void a_folder_in_place_of_a_link(void **state) {
    (void)state;
    char dir[SCRATCH_PATH + 8], stage[OCT_PATH_BYTES], far[2 * SCRATCH_PATH],
        link[2 * SCRATCH_PATH];
    snprintf(dir, sizeof dir, "%s/linked", folder);
    snprintf(far, sizeof far, "%s/elsewhere", folder);
    EXPECT_OK(oct__folder_make(dir));
    snprintf(link, sizeof link, "%s", scratch_at(dir, "train"));
    assert_int_equal(scratch_write(scratch_at(far, "1.png"), older, sizeof older), 0);
    assert_int_equal(symlink(far, link), 0);
    EXPECT_OK(oct__stage_open(dir, stage));
    assert_int_equal(scratch_write(scratch_at(stage, "train/2.png"), "new", 3), 0);
    EXPECT_OK(oct__stage_install(stage, dir, "train"));
    assert_int_equal(access(scratch_at(dir, "train/2.png"), F_OK), 0);
    oct__stage_put_back(stage, dir, "train");
    assert_int_equal(access(scratch_at(dir, "train/1.png"), F_OK), 0);
    assert_int_equal(access(scratch_at(stage, "train/2.png"), F_OK), 0);
    assert_int_equal(oct__folder_remove(stage), 0);
    assert_int_equal(access(scratch_at(far, "1.png"), F_OK), 0); /* what it led to is as it was */
}

static int set_up(void **state) {
    (void)state;
    make_dataset();
    if (!scratch_make(folder)) {
        return -1;
    }
    snprintf(from, sizeof from, "%s/from", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_a_folder),
        cmocka_unit_test(from_an_archive),
        cmocka_unit_test(a_folder_in_place_of_another),
        cmocka_unit_test(a_folder_in_place_of_a_link),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
