/* SPDX-License-Identifier: Apache-2.0 */
/* test_whole_run.c - memory runs out anywhere in a whole run: reading a run file and data, training
 * with gossip, recording, writing checkpoints, going on from one.
 *
 * Each attempt ends with NO_MEMORY and a sentence, or with the result. Afterwards what lies on the
 * disk is whole: with memory again, the run goes on from it to the same model.
 */
#include <stdlib.h>
#include <unistd.h>

#include <octet/octet.h>
#include <octet/runs.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "once.h"
#include "support/folder.h"
#include "support/pictures.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

static struct folder folder;

/* Nobody pulls a plug here, and waiting for the disk would be most of the time. */
__attribute__((visibility("default"))) int fsync(int fd) {
    (void)fd;
    return 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd) {
    (void)fd;
    return 0;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* One for each thing that gossip remembers, with all sorts of data and graphs between them. */
static const struct scene {
    const char *precision, *algorithm, *compress, *topology, *data, *partition;
} scenes[] = {
    {"int8", "choco", "topk:0.5,values=int8", "ring", "synthetic:samples=12,size=6,classes=3",
     "skew:0.5"},
    {"fp32", "deepsqueeze", "sign", "one-peer-exponential", "npy:@/arrays", "dirichlet:1"},
    {"fp32", "dpsgd", "none", "file:@/edges", "folder:@/pictures,size=8", "skew:0"},
    {"int8", "quant-sgp", "qsgd:4", "random-regular:2,change=yes",
     "synthetic:samples=12,size=6,classes=3", "skew:1"},
    {"int8", "sparse-push", "randk:0.5", "directed-ring", "npy:@/arrays", "skew:0.5"},
    {"fp32", "sc-sparse-push", "topk:0.5", "star", "synthetic:samples=12,size=6,classes=3",
     "skew:0"},
    {"fp32", "allreduce", "none:values=bf16", "complete", "synthetic:samples=12,size=6,classes=3",
     "dirichlet:1"},
};

static const struct scene *scene;

static void expand(const char *text, char out[2 * FOLDER_PATH]) {
    const char *at = strchr(text, '@');
    snprintf(out, 2 * FOLDER_PATH, at ? "%.*s%s%s" : "%.*s", at ? (int)(at - text) : FOLDER_PATH,
             text, folder.path, at ? at + 1 : "");
}

static const char *place(const char *name) {
    static char text[2][2 * FOLDER_PATH];
    static int next;
    char *out = text[next++ % 2];
    snprintf(out, sizeof text[0], "%s/%s", folder.path, name);
    return out;
}

/* The run's options: from a run file where this build can read one. */
static const char *const names[] = {"precision", "algorithm", "compress",
                                    "topology",  "data",      "partition"};

static oct_status set(const char *name, const char *value, struct oct_config *config, FILE *file) {
    if (file) {
        fprintf(file, "%s: '%s'\n", name, value);
        return OCT_OK;
    }
    return oct_config_set(config, name, value);
}

static oct_status describe(struct oct_config *config, FILE *file) {
    const char *const values[] = {scene->precision, scene->algorithm, scene->compress,
                                  scene->topology,  scene->data,      scene->partition};
    for (size_t i = 0; i < OCT_COUNT_OF(names); i++) {
        char value[2 * FOLDER_PATH];
        expand(values[i], value);
        OCT_TRY(set(names[i], value, config, file));
    }
    if (strcmp(scene->algorithm, "sc-sparse-push") == 0) { /* by themselves they need LAPACK */
        OCT_TRY(set("compensation-rounds", "2", config, file));
    }
    OCT_TRY(set("model", "resnet20:width=2,blocks=1", config, file));
    OCT_TRY(set("checkpoint", place("kept"), config, file));
    OCT_TRY(set("momentum", "local", config, file));
    OCT_TRY(set("nodes", "4", config, file));
    OCT_TRY(set("batch", "3", config, file));
    OCT_TRY(set("epochs", "3", config, file));
    OCT_TRY(set("threads", "2", config, file));
    return set("augment", "none", config, file);
}

static int has_run_files;

static void write_run_file(void) {
    FILE *file = fopen(place("run.yaml"), "w");
    assert_non_null(file);
    assert_int_equal(describe(NULL, file), OCT_OK);
    assert_int_equal(fclose(file), 0);
}

/* --- attempts --------------------------------------------------------------------------------- */

struct attempt {
    struct oct_config *config;
    struct oct_trainer *trainer;
    struct oct_runs *runs;
    int64_t number;
    int stops_after; /* epochs; 0: never */
    oct_status recorded;
    struct oct_result result;
    const char *stage;
};

static int watch(const struct oct_progress *progress, void *context) {
    struct attempt *a = context;
    if (progress->phase != OCT_PHASE_EPOCH_END) {
        return 0;
    }
    if (a->runs) { /* a record that must wait is no failure of the run */
        a->recorded = oct_runs_epoch(a->runs, a->number, progress, a->trainer);
    }
    return progress->epoch == a->stops_after;
}

static oct_status begin(struct attempt *a) {
    const struct oct_hooks hooks = {.progress = watch, .progress_context = a};
    a->stage = "create";
    OCT_TRY(oct_trainer_create(a->config, &hooks, &a->trainer));
    if (!oct_runs_available()) {
        return OCT_OK;
    }
    a->stage = "record";
    OCT_TRY(oct_runs_open(place("runs.db"), &a->runs));
    return oct_runs_begin(a->runs, a->config, a->trainer, &a->number);
}

static oct_status end(struct attempt *a, const char *outcome) {
    a->stage = "result";
    OCT_TRY(oct_trainer_result(a->trainer, &a->result));
    if (a->runs) {
        a->stage = "end of the record";
        OCT_TRY(oct_runs_end(a->runs, a->number, outcome, &a->result, a->trainer));
    }
    return OCT_OK;
}

static void clean_up(struct attempt *a) {
    oct_runs_close(a->runs);
    oct_trainer_destroy(a->trainer);
    oct_config_destroy(a->config);
    a->runs = NULL;
    a->trainer = NULL;
    a->config = NULL;
}

/* Until the first epoch is over. */
static oct_status first_part(struct attempt *a) {
    a->stage = "configure";
    OCT_TRY(oct_config_create(&a->config));
    OCT_TRY(has_run_files ? oct_config_read(a->config, place("run.yaml"))
                          : describe(a->config, NULL));
    OCT_TRY(begin(a));
    a->stage = "first part";
    a->stops_after = 1;
    oct_status status = oct_trainer_run(a->trainer);
    if (status != OCT_STATUS_CANCELLED) {
        return status == OCT_OK ? OCT_STATUS_INVALID : status;
    }
    return end(a, "stopped");
}

/* From the newest checkpoint to the end. */
static oct_status second_part(struct attempt *a) {
    a->stage = "resume";
    OCT_TRY(oct_config_create(&a->config));
    OCT_TRY(oct_config_resume(a->config, place("kept")));
    OCT_TRY(begin(a));
    a->stage = "second part";
    OCT_TRY(oct_trainer_run(a->trainer));
    OCT_TRY(end(a, "done"));
    a->stage = "save";
    return oct_trainer_save_as(a->trainer, place("model"),
                               strcmp(scene->precision, "int8") == 0 ? OCT_MODEL_INT8
                                                                     : OCT_MODEL_F32);
}

static oct_status go(struct attempt *a) {
    OCT_TRY(first_part(a));
    clean_up(a);
    memset(a, 0, sizeof *a);
    return second_part(a);
}

static void start_over(void) {
    (void)oct__folder_remove(place("kept"));
    (void)remove(place("runs.db"));
    (void)remove(place("model"));
}

/* Steps whose checkpoints are there and right, the newest; -1: none. */
static long newest(void) {
    struct oct__manifest *manifest = NULL;
    oct_status status = oct__manifest_open(place("kept"), &manifest);
    const long step = status == OCT_OK ? (long)manifest->step : -1;
    if (status != OCT_OK && status != OCT_STATUS_NOT_FOUND) {
        fail_msg("%s: %s", oct_status_name(status), oct_last_error());
    }
    oct__manifest_close(manifest);
    return step;
}

/* What an attempt left behind is good: the run goes on, or begins anew where nothing was kept. */
static void expect_usable(const char *sha256) {
    struct attempt a = {0};
    EXPECT_OK(newest() < 0 ? go(&a) : second_part(&a));
    assert_string_equal(a.result.model_sha256, sha256);
    clean_up(&a);
}

static void every_request(void (*arm)(uint64_t n), uint64_t n_attempts, uint64_t offset) {
    struct attempt expected = {0};
    start_over();
    if (has_run_files) {
        write_run_file();
    }
    const uint64_t before = oct__alloc_count();
    EXPECT_OK(go(&expected));
    const uint64_t n_requests = oct__alloc_count() - before;
    char sha256[65];
    snprintf(sha256, sizeof sha256, "%s", expected.result.model_sha256);
    const long last = newest();
    clean_up(&expected);
    const uint64_t stride = 1 + n_requests / n_attempts;
    int n_failed = 0, n_went_on = 0;
    const char *stage = "";
    for (uint64_t n = 1 + offset % stride; n <= n_requests; n += stride) {
        struct attempt a = {0};
        start_over();
        arm(n);
        oct_status status = go(&a);
        char detail[256];
        snprintf(detail, sizeof detail, "%s", oct_last_error());
        clean_up(&a); /* while nothing can be had */
        arm(0);
        if (status == OCT_OK) { /* it could do without */
            n_went_on++;
            assert_string_equal(a.result.model_sha256, sha256);
            assert_int_equal(newest(), last);
            assert_int_equal(oct__folder_remove(place("kept/step-000000000003")), 0);
            if (newest() != 2) {
                fail_msg("request %llu: the checkpoint before the last is gone",
                         (unsigned long long)n);
            }
            continue;
        }
        n_failed++;
        if (status != OCT_STATUS_NO_MEMORY || strlen(detail) < 10) {
            fail_msg("request %llu of %llu, in %s: %s: %s", (unsigned long long)n,
                     (unsigned long long)n_requests, a.stage, oct_status_name(status), detail);
        }
        if (strcmp(stage, a.stage) != 0) {
            print_message("  request %llu, in %s: %s\n", (unsigned long long)n, a.stage, detail);
            stage = a.stage;
        }
        if (n_failed % 4 == 0) {
            expect_usable(sha256);
        }
    }
    print_message("%s, %s: %llu requests, %d attempts failed, %d went on; last step %ld\n",
                  scene->precision, scene->algorithm, (unsigned long long)n_requests, n_failed,
                  n_went_on, last);
    assert_true(n_failed > 10);
}

static void from_the_nth_on(void **state) {
    (void)state;
    for (size_t i = 0; i < OCT_COUNT_OF(scenes); i++) {
        scene = &scenes[i];
        if (strncmp(scene->data, "folder:", 7) == 0 && !pictures_are_there()) {
            continue;
        }
        every_request(oct__alloc_fail_after, 25, i);
    }
}

static void the_nth_alone(void **state) {
    (void)state;
    if (!CAN_FAIL_ONCE) {
        skip();
    }
    for (size_t i = 0; i < OCT_COUNT_OF(scenes); i++) {
        scene = &scenes[i];
        if (strncmp(scene->data, "folder:", 7) == 0 && !pictures_are_there()) {
            continue;
        }
        every_request(fail_once, 25, 3 + i);
    }
}

/* Another run's later checkpoint is in the way, also when there is no memory to look at it. */
static void a_later_checkpoint(void **state) {
    (void)state;
    struct attempt a = {0};
    scene = &scenes[0];
    start_over();
    write_run_file();
    EXPECT_OK(go(&a));
    clean_up(&a);
    if (!CAN_FAIL_ONCE) {
        skip();
    }
    int n = 0;
    oct_status status;
    do {
        fail_once((uint64_t)++n);
        status = oct__checkpoint_prepare(place("kept"), 2);
        fail_once(0);
        print_message("request %d: %s: %s\n", n, oct_status_name(status), oct_last_error());
        assert_true(status == OCT_STATUS_NO_MEMORY || status == OCT_STATUS_INVALID);
    } while (status == OCT_STATUS_NO_MEMORY);
    assert_true(n > 3);
}

/* --- what the runs read ----------------------------------------------------------------------- */

static void write_array(const char *name, const char *description, const void *items, size_t n) {
    uint8_t bytes[4096] = "\x93NUMPY\x01";
    bytes[8] = 118; /* so that the items begin at byte 128 */
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, description, strlen(description));
    bytes[127] = '\n';
    memcpy(bytes + 128, items, n);
    file_write(place(name), bytes, 128 + n);
}

static int set_up(void **state) {
    (void)state;
    folder_open(&folder);
    uint8_t pixels[12 * 36];
    uint8_t labels[12];
    for (int i = 0; i < 12; i++) {
        labels[i] = (uint8_t)(i % 3);
        memset(pixels + 36 * i, 60 * (i % 3) + i, 36);
    }
    EXPECT_OK(oct__folder_make(place("arrays")));
    for (int half = 0; half < 2; half++) {
        write_array(half ? "arrays/test_images.npy" : "arrays/train_images.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (12, 6, 6), }", pixels,
                    sizeof pixels);
        write_array(half ? "arrays/test_labels.npy" : "arrays/train_labels.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (12,), }", labels,
                    sizeof labels);
    }
    file_write(place("edges"), "0 1\n1 2\n2 3\n3 0\n", 16);
    if (pictures_are_there()) {
        EXPECT_OK(oct__folder_make(place("pictures")));
        picture_tree(place("pictures"), 3, 4, 4);
    }
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    file_write(place("run.yaml"), "nodes: 4\n", 9);
    has_run_files = oct_config_read(config, place("run.yaml")) == OCT_OK;
    oct_config_destroy(config);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    oct__alloc_fail_after(0);
    folder_close(&folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_nth_on),
        cmocka_unit_test(the_nth_alone),
        cmocka_unit_test(a_later_checkpoint),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
