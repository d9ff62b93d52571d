/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - model files and a disk that is full, a folder that is not there, a file that is
 * not what it was; and a run that is cancelled.
 *
 * A save that fails leaves the older file as it was and nothing beside it; a load that fails leaves
 * the trainer's parameters as they were.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <octet/octet.h>

#include "support/check.h"
#include "support/folder.h"
#include "support/solo.h"
#include "train/trainer.h"

static struct folder folder;

static struct oct_trainer *create(const char *model, const char *norm, const char *data,
                                  const char *seed, const struct oct_hooks *hooks) {
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 1));
    EXPECT_OK(oct_config_set(config, "model", model));
    EXPECT_OK(oct_config_set(config, "data", data));
    EXPECT_OK(oct_config_set(config, "batch", "8"));
    EXPECT_OK(oct_config_set(config, "epochs", "3"));
    EXPECT_OK(oct_config_set(config, "norm", norm));
    EXPECT_OK(oct_config_set(config, "seed", seed));
    EXPECT_OK(oct_config_set(config, "threads", "1"));
    EXPECT_OK(oct_trainer_create(config, hooks, &trainer));
    oct_config_destroy(config);
    return trainer;
}

#define MODEL "resnet20:width=4,blocks=1"
#define DATA "synthetic:samples=24,size=8"

static struct oct_trainer *plain(void) {
    return create(MODEL, "batchnorm", DATA, "1", NULL);
}

static void sha_of(struct oct_trainer *trainer, char sha[65]) {
    struct oct_result result;
    EXPECT_OK(oct_trainer_result(trainer, &result));
    memcpy(sha, result.model_sha256, sizeof result.model_sha256);
}

/* --- saving ----------------------------------------------------------------------------------- */

static void a_full_device(void **state) {
    (void)state;
    struct stat info;
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) {
        skip();
    }
    struct oct_trainer *trainer = plain();
    EXPECT_FAILURE(oct_trainer_save(trainer, "/dev/full"), OCT_STATUS_IO,
                   "/dev/full: writing failed: No space left on device");
    assert_int_equal(stat("/dev/full.partial", &info), -1);
    EXPECT_OK(oct_trainer_save(trainer, "/dev/null")); /* a device that has room */
    EXPECT_OK(oct_trainer_save(trainer, folder_file(&folder, "after")));
    assert_int_equal(unlink(folder.file), 0);
    oct_trainer_destroy(trainer);
}

/* Exit codes of the child below. */
enum { DONE, NO_LIMIT, WRONG_STATUS, WRONG_SENTENCE };

/* In a process of its own: files end after `most` bytes, as they do on a disk that runs full. */
static int save_within(struct oct_trainer *trainer, const char *path, rlim_t most) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {most, most};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(NO_LIMIT);
        }
        oct_status status = oct_trainer_save(trainer, path);
        if (status != OCT_STATUS_IO) {
            _exit(WRONG_STATUS);
        }
        _exit(strstr(oct_last_error(), "writing failed: File too large") ? DONE : WRONG_SENTENCE);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_disk_that_runs_full(void **state) {
    (void)state;
    struct oct_trainer *trainer = plain();
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s", folder_file(&folder, "model"));
    EXPECT_OK(oct_trainer_save(trainer, path));
    size_t n_before, n_after;
    uint8_t *before = file_read(path, &n_before);
    EXPECT_OK(oct__trainer_step(trainer)); /* so that another save would differ */
    const size_t limits[] = {0, 1, 7, 8, 9, 1000, 4096, n_before / 2, n_before - 1};
    for (size_t i = 0; i < OCT_COUNT_OF(limits); i++) {
        int code = save_within(trainer, path, (rlim_t)limits[i]);
        uint8_t *after = file_read(path, &n_after);
        print_message("room for %zu of %zu bytes: child said %d, %d files, %zu bytes\n", limits[i],
                      n_before, code, folder_count(&folder), n_after);
        assert_int_equal(code, DONE);
        assert_int_equal(folder_count(&folder), 1);
        assert_int_equal(n_after, n_before);
        assert_memory_equal(after, before, n_before);
        free(after);
    }
    EXPECT_OK(oct_trainer_save(trainer, path)); /* with room again */
    uint8_t *after = file_read(path, &n_after);
    assert_int_equal(n_after, n_before);
    assert_memory_not_equal(after, before, n_before);
    free(after);
    free(before);
    assert_int_equal(unlink(path), 0);
    oct_trainer_destroy(trainer);
}

static void places_that_are_not_there(void **state) {
    (void)state;
    struct oct_trainer *trainer = plain();
    EXPECT_FAILURE(oct_trainer_save(trainer, folder_file(&folder, "missing/model")), OCT_STATUS_IO,
                   "No such file or directory");
    assert_non_null(strstr(oct_last_error(), "missing/model"));
    EXPECT_FAILURE(oct_trainer_save(trainer, folder.path), OCT_STATUS_IO, folder.path);
    EXPECT_FAILURE(oct_trainer_save(trainer, ""), OCT_STATUS_IO, "");
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(chmod(folder.path, 0500), 0);
        EXPECT_FAILURE(oct_trainer_save(trainer, folder_file(&folder, "model")), OCT_STATUS_IO,
                       "Permission denied");
        assert_int_equal(chmod(folder.path, 0700), 0);
    }
    assert_int_equal(folder_count(&folder), 0);
    struct stat info;
    assert_int_equal(stat(".partial", &info), -1);
    oct_trainer_destroy(trainer);
}

/* --- loading ---------------------------------------------------------------------------------- */

/* Refused, and the trainer is what it was. */
static void expect_refused(struct oct_trainer *trainer, const char *path, oct_status expected,
                           const char *piece) {
    char before[65], after[65];
    sha_of(trainer, before);
    EXPECT_FAILURE(oct_trainer_load(trainer, path), expected, piece);
    assert_non_null(strstr(oct_last_error(), path)); /* which file */
    trainer->is_evaluated = 0;
    sha_of(trainer, after);
    assert_string_equal(after, before);
}

struct range {
    size_t from, to;
};

/* Where the header says of what network the file is; what is wrong there, unit/test_trained.c has. */
static struct range about_in(const uint8_t *bytes, size_t n) {
    static const char first[] = "\"input\"", last[] = "\"}";
    struct range range = {8, 0};
    while (range.from < n && memcmp(bytes + range.from, first, sizeof first - 1) != 0) {
        range.from++;
    }
    range.to = range.from;
    while (range.to < n && memcmp(bytes + range.to, last, sizeof last - 1) != 0) {
        range.to++;
    }
    assert_true(range.to < n);
    return range;
}

static void files_that_are_not_what_they_were(void **state) {
    (void)state;
    struct oct_trainer *writer = plain(), *reader = create(MODEL, "batchnorm", DATA, "2", NULL);
    char good[FOLDER_PATH], bad[FOLDER_PATH];
    snprintf(good, sizeof good, "%s", folder_file(&folder, "good"));
    snprintf(bad, sizeof bad, "%s", folder_file(&folder, "bad"));
    EXPECT_OK(oct__trainer_step(writer));
    EXPECT_OK(oct_trainer_save(writer, good));
    size_t n;
    uint8_t *bytes = file_read(good, &n);
    const size_t n_header = bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16;

    expect_refused(reader, folder_file(&folder, "none"), OCT_STATUS_NOT_FOUND, "cannot be read");
    expect_refused(reader, folder.path, OCT_STATUS_IO, "is a folder");
    const struct {
        size_t bytes;
        const char *piece;
    } cuts[] = {{0, "0 bytes: too short"},
                {7, "7 bytes: too short"},
                {8 + n_header / 2, "truncated"},
                {n / 2, "outside the file"},
                {n - 1, "outside the file"}};
    for (size_t i = 0; i < OCT_COUNT_OF(cuts); i++) {
        file_write(bad, bytes, cuts[i].bytes);
        expect_refused(reader, bad, OCT_STATUS_CORRUPT, cuts[i].piece);
    }
    file_write(bad, "PK\3\4 this is something else entirely", 36);
    expect_refused(reader, bad, OCT_STATUS_CORRUPT, "truncated, or no safetensors file");

    /* Bits of the header, all through it. */
    int n_corrupt = 0, n_shape = 0, n_same = 0;
    char expected[65], found[65];
    sha_of(writer, expected);
    const struct range about = about_in(bytes, 8 + n_header);
    for (size_t bit = 0; bit < 8 * (8 + n_header); bit += 41) {
        if (bit / 8 >= about.from && bit / 8 < about.to) {
            continue; /* who loads knows the network */
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        file_write(bad, bytes, n);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        oct_status status = oct_trainer_load(reader, bad);
        n_corrupt += status == OCT_STATUS_CORRUPT;
        n_shape += status == OCT_STATUS_SHAPE;
        n_same += status == OCT_OK;
        assert_true(status == OCT_OK || status == OCT_STATUS_CORRUPT || status == OCT_STATUS_SHAPE);
    }
    print_message("bits of the header: %d corrupt, %d of another shape, %d without meaning\n",
                  n_corrupt, n_shape, n_same);
    assert_true(n_corrupt > 0 && n_shape > 0 && n_same < 20);

    /* Bits of the numbers, here and there; all of a small file's are in unit/test_model_file.c. */
    const size_t steps = (n - 8 - n_header) / 5;
    for (size_t at = 8 + n_header; at < n; at += steps) {
        bytes[at] ^= 1;
        file_write(bad, bytes, n);
        bytes[at] ^= 1;
        expect_refused(reader, bad, OCT_STATUS_CORRUPT, "altered: the CRC-32C of its tensors is");
    }

    EXPECT_OK(oct_trainer_load(reader, good));
    sha_of(reader, found);
    assert_string_equal(found, expected);
    free(bytes);
    assert_int_equal(unlink(good), 0);
    assert_int_equal(unlink(bad), 0);
    oct_trainer_destroy(writer);
    oct_trainer_destroy(reader);
}

static void models_that_do_not_fit(void **state) {
    (void)state;
    struct oct_trainer *writer = plain();
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s", folder_file(&folder, "model"));
    EXPECT_OK(oct_trainer_save(writer, path));
    static const struct {
        const char *model, *norm, *data, *piece;
    } others[] = {
        {"resnet20:width=8,blocks=1", "batchnorm", DATA, "stem.weight is not F32 with the shape"},
        {"resnet20:width=4,blocks=2", "batchnorm", DATA, "stage1.block1.conv1.weight is missing"},
        {MODEL, "evonorm-s0", DATA, "stem_norm.running_mean is not part of this model"},
        {MODEL, "batchnorm", "synthetic:samples=24,size=8,classes=7", "classifier.weight is not"},
        {MODEL, "batchnorm", "synthetic:samples=24,size=8,channels=1", "stem.weight is not"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
        struct oct_trainer *reader =
            create(others[i].model, others[i].norm, others[i].data, "1", NULL);
        expect_refused(reader, path, OCT_STATUS_SHAPE, others[i].piece);
        oct_trainer_destroy(reader);
    }
    /* The other way: more tensors than the model has. */
    struct oct_trainer *larger = create(MODEL, "evonorm-s0", DATA, "1", NULL);
    EXPECT_OK(oct_trainer_save(larger, path));
    expect_refused(writer, path, OCT_STATUS_SHAPE, "stem_norm.v is not part of this model");
    oct_trainer_destroy(larger);
    oct_trainer_destroy(writer);
    assert_int_equal(unlink(path), 0);
}

/* --- cancelling ------------------------------------------------------------------------------- */

struct stop {
    enum oct_phase phase;
    int after; /* calls in that phase */
};

static int stop_here(const struct oct_progress *progress, void *context) {
    struct stop *stop = context;
    return progress->phase == stop->phase && --stop->after < 0;
}

static void a_cancelled_run(void **state) {
    (void)state;
    static const struct stop stops[] = {{OCT_PHASE_TRAIN, 0},
                                        {OCT_PHASE_TRAIN, 4},
                                        {OCT_PHASE_EVALUATE, 0},
                                        {OCT_PHASE_EVALUATE, 1},
                                        {OCT_PHASE_EPOCH_END, 0}};
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s", folder_file(&folder, "stopped"));
    for (size_t i = 0; i < OCT_COUNT_OF(stops); i++) {
        struct stop stop = stops[i];
        const struct oct_hooks hooks = {.progress = stop_here, .progress_context = &stop};
        struct oct_trainer *trainer = create(MODEL, "batchnorm", DATA, "1", &hooks);
        struct oct_result result;
        char loaded[65];
        EXPECT_FAILURE(oct_trainer_run(trainer), OCT_STATUS_CANCELLED, "stopped");
        EXPECT_OK(oct_trainer_result(trainer, &result));
        print_message("phase %d: after %lld steps and %d epochs, accuracy %.1f %%\n",
                      (int)stops[i].phase, (long long)trainer->step, result.epochs,
                      result.accuracy);
        assert_true(trainer->step >= 1 && trainer->step < 9);
        EXPECT_OK(oct_trainer_save(trainer, path));
        struct oct_trainer *reader = create(MODEL, "batchnorm", DATA, "5", NULL);
        EXPECT_OK(oct_trainer_load(reader, path));
        sha_of(reader, loaded);
        assert_string_equal(loaded, result.model_sha256);
        oct_trainer_destroy(reader);
        oct_trainer_destroy(trainer);
    }
    assert_int_equal(unlink(path), 0);
}

static int set_up(void **state) {
    (void)state;
    folder_open(&folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    folder_close(&folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_device),
        cmocka_unit_test(a_disk_that_runs_full),
        cmocka_unit_test(places_that_are_not_there),
        cmocka_unit_test(files_that_are_not_what_they_were),
        cmocka_unit_test(models_that_do_not_fit),
        cmocka_unit_test(a_cancelled_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
