/* SPDX-License-Identifier: Apache-2.0 */
/* test_image_tree.c - folders of pictures as a dataset: which files are its samples, what is refused
 * with which sentence, what is left out; Imagenette's own checks; trees out of archives. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <octet/octet.h>

#include "base/folder.h"
#include "data/get.h"
#include "scratch.h"
#include "support/check.h"
#include "support/pictures.h"

static char folder[SCRATCH_PATH], spec[SCRATCH_PATH + 32];

/* --- the log ---------------------------------------------------------------------------------- */

static char heard[8192];
static int n_warnings;

static void listen_to(enum oct_log_level level, const char *text, void *context) {
    (void)context;
    const size_t used = strlen(heard);
    n_warnings += level == OCT_LOG_WARNING;
    snprintf(heard + used, sizeof heard - used, "%s\n", text);
}

static void forget(void) {
    heard[0] = '\0';
    n_warnings = 0;
}

static void expect_heard(const char *piece) {
    if (!strstr(heard, piece)) {
        fail_msg("'%s' is not in '%s'", piece, heard);
    }
}

/* --- a folder for each test --------------------------------------------------------------------- */

static int set_up(void **state) {
    (void)state;
    assert_non_null(scratch_make(folder));
    snprintf(spec, sizeof spec, "folder:%s,size=16", folder);
    forget();
    oct_log_set(listen_to, NULL, OCT_LOG_INFO);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    oct_log_set(NULL, NULL, OCT_LOG_ERROR);
    scratch_remove(folder);
    return 0;
}

static void need_pictures(void) {
    if (!pictures_are_there()) {
        print_message("this build reads no pictures\n");
        skip();
    }
}

/* A picture that this build reads. */
static uint8_t *some_picture(size_t *n) {
    static uint8_t pixels[24 * 24 * 3];
    const struct picture_form form = {.width = 24, .height = 24, .channels = 3};
    picture_gradient(24, 24, pixels);
    uint8_t *bytes = picture_encode(PICTURE_JPEG, &form, pixels, n);
    return bytes ? bytes : picture_encode(PICTURE_PNG, &form, pixels, n);
}

/* A picture, or the first part of one. */
static void put_part(const char *name, size_t parts) {
    size_t n;
    uint8_t *bytes = some_picture(&n);
    EXPECT_OK(oct__folder_make_above(scratch_at(folder, name)));
    assert_int_equal(scratch_write(scratch_at(folder, name), bytes, n / parts), 0);
    free(bytes);
}

static void put(const char *name) {
    put_part(name, 1);
}

static void put_half(const char *name) {
    put_part(name, 2);
}

static struct oct_dataset *open_half(enum oct_split split) {
    struct oct_dataset *dataset = NULL;
    EXPECT_OK(oct_dataset_open(spec, NULL, split, &dataset));
    return dataset;
}

static void expect_refused(enum oct_split split, oct_status expected, const char *piece) {
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(oct_dataset_open(spec, NULL, split, &dataset), expected, piece);
    assert_null(dataset);
}

/* --- what belongs to it ------------------------------------------------------------------------- */

static void samples_are_the_files_in_order(void **state) {
    (void)state;
    need_pictures();
    put("train/cat/b.jpg");
    put("train/cat/a.JPEG");
    put("train/Zebra/1.jpeg");
    put("train/dog/2.JPG");
    put("train/dog/10.Png");
    put("val/dog/x.jpg");
    put("val/cat/y.jpg");
    put("train/dog/notes.txt");
    put("train/dog/.hidden.jpg");
    put("train/README.jpg");
    put("train/.git/a.jpg");
    put("train/dog/deeper/b.jpg");
    put("elsewhere/linked.jpg");
    assert_int_equal(symlink("../../elsewhere/linked.jpg", scratch_at(folder, "train/cat/c.jpg")),
                     0);
    struct oct_dataset *train = open_half(OCT_SPLIT_TRAIN), *test = open_half(OCT_SPLIT_TEST);
    struct oct_dataset_info info;
    static const int labels[] = {0, 1, 1, 1, 2, 2};
    oct_dataset_info(train, &info);
    assert_int_equal(info.n_samples, 6);
    assert_int_equal(info.n_classes, 3);
    assert_int_equal(info.height, 16);
    assert_int_equal(info.width, 16);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.n_skipped, 0);
    assert_string_equal(oct_dataset_class_name(train, 0), "Zebra"); /* by bytes */
    assert_string_equal(oct_dataset_class_name(train, 1), "cat");
    assert_string_equal(oct_dataset_class_name(train, 2), "dog");
    assert_null(oct_dataset_class_name(train, 3));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(oct_dataset_label(train, i), labels[i]);
    }
    assert_int_equal(oct_dataset_label(test, 0), 1);
    assert_int_equal(oct_dataset_label(test, 1), 2);
    assert_null(oct_dataset_image(train, 0)); /* not in memory */
    uint8_t image[16 * 16 * 3];
    EXPECT_OK(oct_dataset_read(train, 5, image));
    print_message("middle of the gradient: %d %d %d\n", image[8 * 48 + 24], image[8 * 48 + 25],
                  image[8 * 48 + 26]);
    assert_in_range(image[8 * 48 + 24], 100, 145);
    EXPECT_FAILURE(oct_dataset_read(train, 6, image), OCT_STATUS_INVALID, "expected 0 to 5");
    expect_heard("3 files in"); /* notes.txt, deeper, README.jpg */
    oct_dataset_close(train);
    oct_dataset_close(test);
}

static void test_wins_over_val(void **state) {
    (void)state;
    need_pictures();
    put("train/a/1.jpg");
    put("train/b/1.jpg");
    put("val/a/1.jpg");
    put("test/a/1.jpg");
    put("test/a/2.jpg");
    struct oct_dataset *test = open_half(OCT_SPLIT_TEST);
    assert_int_equal(test->n_samples, 2);
    expect_heard("has both test and val; test is used");
    oct_dataset_close(test);
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    need_pictures();
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_NOT_FOUND,
                   "has no folder 'train'; expected are train/CLASS/*.jpg and test/CLASS/*.jpg");
    put("train/a/1.jpg");
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_INVALID,
                   "are of one class, 'a'; expected a folder for each of 2 or more");
    expect_refused(OCT_SPLIT_TEST, OCT_STATUS_NOT_FOUND, "has no folder 'test'");
    put("val/b/1.jpg");
    expect_refused(OCT_SPLIT_TEST, OCT_STATUS_SHAPE,
                   "val has a class 'b' that the training half has not");
    assert_int_equal(mkdir(scratch_at(folder, "train/b"), 0777), 0);
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_NOT_FOUND, "train/b: no picture in it");
    put("train/b/letter.txt");
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_NOT_FOUND, "train/b: no picture in it");
    put("train/b/1.jpg");
    oct_dataset_close(open_half(OCT_SPLIT_TRAIN));
    oct_dataset_close(open_half(OCT_SPLIT_TEST)); /* a class that is never tested is fine */
    assert_int_equal(symlink("nowhere", scratch_at(folder, "train/b/2.jpg")), 0);
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_IO, "train/b/2.jpg: No such file");
    scratch_remove(scratch_at(folder, "val"));
    assert_int_equal(mkdir(scratch_at(folder, "val"), 0777), 0);
    expect_refused(OCT_SPLIT_TEST, OCT_STATUS_NOT_FOUND, "val: no class in it");
}

static void options_are_read(void **state) {
    (void)state;
    need_pictures();
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(oct_dataset_open("folder", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "no path; expected folder:/path");
    EXPECT_FAILURE(oct_dataset_open("folder:/nowhere,size=4", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "size");
    EXPECT_FAILURE(oct_dataset_open("folder:/nowhere,sides=4", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "sides");
    EXPECT_FAILURE(oct_dataset_open("folder:/nowhere", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "folder: /nowhere: No such file");
    EXPECT_FAILURE(oct_dataset_open("folder:~/pictures", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "nobody expands ~ here");
    EXPECT_FAILURE(oct_dataset_open("folder:/dev/null", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "/dev/null is no folder");
    EXPECT_FAILURE(oct_dataset_open("imagenette:size=63", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_INVALID, "size");
}

/* Only where we are not allowed to read everything. */
static void unreadable_files_are_refused(void **state) {
    (void)state;
    need_pictures();
    put("train/a/1.jpg");
    put("train/b/1.jpg");
    assert_int_equal(chmod(scratch_at(folder, "train/a/1.jpg"), 0), 0);
    if (access(scratch_at(folder, "train/a/1.jpg"), R_OK) == 0) {
        print_message("root reads everything\n");
        skip();
    }
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_IO, "train/a/1.jpg: Permission denied");
}

/* --- what is damaged ---------------------------------------------------------------------------- */

static void damaged_files_are_left_out(void **state) {
    (void)state;
    need_pictures();
    for (int i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "train/%s/%02d.jpg", i < 20 ? "a" : "b", i);
        (i % 3 == 1 ? put_half : put)(name);
    }
    struct oct_dataset *dataset = open_half(OCT_SPLIT_TRAIN);
    print_message("%s", heard);
    assert_int_equal(dataset->n_skipped, 13);
    assert_int_equal(dataset->n_samples, 27);
    assert_int_equal(n_warnings, 11); /* ten of them, and how many there are */
    expect_heard("train/a/01.jpg: not a whole ");
    expect_heard("train/b/28.jpg: not a whole ");
    expect_heard("folder: 13 of 40 pictures in ");
    assert_null(strstr(heard, "b/31.jpg"));
    assert_non_null(strstr(dataset->skipped, "train/a/01.jpg"));
    int64_t n_first = 0;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        uint8_t image[16 * 16 * 3];
        n_first += oct_dataset_label(dataset, i) == 0;
        EXPECT_OK(oct_dataset_read(dataset, i, image));
    }
    assert_int_equal(n_first, 13);
    oct_dataset_close(dataset);
}

/* Both halves, and what to do once. */
static void verifying_reads_both_halves(void **state) {
    (void)state;
    need_pictures();
    put("train/a/1.jpg");
    put("train/b/1.jpg");
    put("val/a/1.jpg");
    put("val/b/1.jpg");
    EXPECT_OK(oct_dataset_verify(spec, NULL, NULL, 0));
    put_half("val/b/bad.jpg");
    EXPECT_FAILURE(oct_dataset_verify(spec, NULL, NULL, 0), OCT_STATUS_CORRUPT,
                   "1 of its test pictures is damaged: ");
    put_half("train/a/bad.jpg");
    put_half("train/a/worse.jpg");
    EXPECT_FAILURE(oct_dataset_verify(spec, NULL, NULL, 0), OCT_STATUS_CORRUPT,
                   "2 of its training pictures are damaged: ");
    print_message("%s\n", oct_last_error());
    assert_non_null(strstr(oct_last_error(), "train/a/bad.jpg: not a whole "));
    assert_non_null(strstr(oct_last_error(), "; 1 of its test pictures is damaged: "));
    assert_non_null(strstr(oct_last_error(), "val/b/bad.jpg: not a whole "));
    scratch_remove(scratch_at(folder, "train"));
    EXPECT_FAILURE(oct_dataset_verify(spec, NULL, NULL, 0), OCT_STATUS_NOT_FOUND,
                   "has no folder 'train'"); /* which concerns both, and is said once */
    assert_null(strstr(strstr(oct_last_error(), "no folder 'train'") + 1, "no folder 'train'"));
}

static void a_class_cannot_be_all_damaged(void **state) {
    (void)state;
    need_pictures();
    put("train/a/1.jpg");
    put_half("train/b/1.jpg");
    put_half("train/b/2.jpg");
    expect_refused(OCT_SPLIT_TRAIN, OCT_STATUS_CORRUPT, "all 2 pictures of class 'b' are damaged");
}

static void strict_runs_refuse_damage(void **state) {
    (void)state;
    need_pictures();
    put("train/a/1.jpg");
    put("train/b/1.jpg");
    put("val/a/1.jpg");
    put("val/b/1.jpg");
    put_half("val/b/2.jpg");
    put_half("val/b/3.jpg");
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    static const char *const values[][2] = {{"model", "resnet20:width=8,blocks=1"},
                                            {"nodes", "1"},
                                            {"algorithm", "none"},
                                            {"batch", "2"},
                                            {"partition", "skew:0"},
                                            {"epochs", "1"}};
    for (size_t i = 0; i < OCT_COUNT_OF(values); i++) {
        EXPECT_OK(oct_config_set(config, values[i][0], values[i][1]));
    }
    EXPECT_OK(oct_config_set(config, "data", spec));
    EXPECT_OK(oct_trainer_create(config, NULL, &trainer));
    EXPECT_OK(oct_trainer_run(trainer));
    oct_trainer_destroy(trainer);
    EXPECT_OK(oct_config_set(config, "strict", "yes"));
    EXPECT_FAILURE(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_CORRUPT,
                   "strict: 2 pictures are damaged: ");
    assert_non_null(strstr(oct_last_error(), "val/b/2.jpg"));
    EXPECT_FAILURE(oct_config_set(config, "strict", "maybe"), OCT_STATUS_INVALID, "no, yes");
    oct_config_destroy(config);
}

/* --- Imagenette ------------------------------------------------------------------------------- */

static const char *const classes[] = {"n01440764", "n02102040", "n02979186", "n03000684",
                                      "n03028079", "n03394916", "n03417042", "n03425413",
                                      "n03445777", "n03888257"};
static const int counts[2][10] = {{963, 955, 993, 858, 941, 956, 961, 931, 951, 960},
                                  {387, 395, 357, 386, 409, 394, 389, 419, 399, 390}};

/* As many links to one picture as the dataset has files. */
static void link_imagenette(const char *root) {
    char path[2 * SCRATCH_PATH], target[SCRATCH_PATH + 16];
    put("one.jpg");
    snprintf(target, sizeof target, "%s/one.jpg", folder);
    for (int half = 0; half < 2; half++) {
        for (int label = 0; label < 10; label++) {
            char place[64];
            snprintf(place, sizeof place, "%s/%s/%s/x", root, half ? "val" : "train",
                     classes[label]);
            put(place); /* makes the folders */
            for (int i = 0; i < counts[half][label]; i++) {
                snprintf(path, sizeof path, "%s/%.*s%d.JPEG", folder, (int)strlen(place) - 1, place,
                         i);
                assert_int_equal(symlink(target, path), 0);
            }
        }
    }
}

static void imagenette_counts_its_files(void **state) {
    (void)state;
#ifndef OCT_HAVE_JPEG
    skip();
#endif
    struct oct_dataset *dataset = NULL;
    EXPECT_FAILURE(oct_dataset_open("imagenette", folder, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "octet data get imagenette");
    EXPECT_FAILURE(oct_dataset_open("imagenette", NULL, OCT_SPLIT_TRAIN, &dataset),
                   OCT_STATUS_NOT_FOUND, "octet data get imagenette");
    link_imagenette("imagenette2-320"); /* as somebody unpacked it beside its own folder */
    EXPECT_OK(oct_dataset_open("imagenette:size=64", folder, OCT_SPLIT_TEST, &dataset));
    assert_int_equal(dataset->n_samples, 3925);
    assert_int_equal(dataset->height, 64);
    assert_string_equal(oct_dataset_class_name(dataset, 0), "tench");
    assert_string_equal(oct_dataset_class_name(dataset, 9), "parachute");
    oct_dataset_close(dataset);
    char found[1024];
    EXPECT_OK(oct_dataset_verify("imagenette", folder, found, sizeof found));
    print_message("%s\n", found);
    assert_string_equal(found, scratch_at(folder, "imagenette2-320"));
    static const struct oct__data_source nobody[] = {
        {OCT_SOURCE_ARCHIVE, "http://127.0.0.1:1/it.tgz", NULL, NULL, 1}, {.where = NULL}};
    const struct oct__fetch how = {.connect_ms = 1000, .stall_s = 1};
    struct oct_dataset_kind kind = oct_dataset_imagenette;
    kind.sources = nobody;
    EXPECT_OK(oct__get(&kind, folder, NULL, &how)); /* there is nothing to get */
    expect_heard("imagenette is complete and right in ");
    assert_int_equal(unlink(scratch_at(folder, "imagenette2-320/train/n03000684/857.JPEG")), 0);
    EXPECT_FAILURE(oct_dataset_verify("imagenette", folder, NULL, 0), OCT_STATUS_CORRUPT,
                   "n03000684: 857 pictures, expected 858");
    put("imagenette2-320/train/n03999999/1.JPEG");
    EXPECT_FAILURE(oct_dataset_verify("imagenette", folder, NULL, 0), OCT_STATUS_CORRUPT,
                   "has 11 classes");
    scratch_remove(scratch_at(folder, "imagenette2-320/train/n03999999"));
    scratch_remove(scratch_at(folder, "imagenette2-320/train/n03888257"));
    EXPECT_FAILURE(oct_dataset_verify("imagenette", folder, NULL, 0), OCT_STATUS_CORRUPT,
                   "has 9 classes");
}

/* --- trees out of archives ----------------------------------------------------------------------- */

static oct_status locate(const struct oct_dataset_kind *kind, const char *where, char *out,
                         size_t out_bytes) {
    snprintf(out, out_bytes, "%s/%s", where, kind->folder);
    if (access(out, F_OK) != 0) {
        OCT_FAIL(NOT_FOUND, "%s: not there", out);
    }
    return OCT_OK;
}

static oct_status open_tree(const struct oct_dataset_kind *kind, const char *options,
                            const char *where, enum oct_split split,
                            const struct oct__data_choice *choice, struct oct_dataset **out) {
    char text[2 * SCRATCH_PATH];
    (void)options;
    snprintf(text, sizeof text, "folder:%s/%s,size=16", where, kind->folder);
    return oct__dataset_open_some(text, NULL, split, choice, out);
}

static const struct oct__data_tree tree = {{"train", "val"}, 4, locate};
static const struct oct__data_source tree_sources[] = {
    {OCT_SOURCE_ARCHIVE, "http://localhost:9/none.tgz", NULL, NULL, 1 << 20},
    {OCT_SOURCE_FILES, NULL, NULL, NULL, 0}};
static const struct oct_dataset_kind tree_kind = {.plugin = {.name = "small"},
                                                  .tree = &tree,
                                                  .folder = "small",
                                                  .remedy = "get it",
                                                  .sources = tree_sources,
                                                  .open = open_tree};

struct member {
    const char *name;
    char type;
    int is_half;
};

static void put_archive(const struct member *members, size_t n_members) {
    static uint8_t bytes[1 << 18];
    size_t used = 0, n;
    uint8_t *picture = some_picture(&n);
    for (size_t i = 0; i < n_members; i++) {
        const size_t length = members[i].type != '0' ? 0 : members[i].is_half ? n / 2 : n;
        used += scratch_tar(members[i].name, members[i].type, picture, length, bytes + used);
        assert_true(used < sizeof bytes - 65536);
    }
    used += scratch_tar_end(bytes + used);
    assert_int_equal(scratch_write(scratch_at(folder, "it.tar"), bytes, used), 0);
    free(picture);
}

static void expect_archive_refused(const struct member *members, size_t n_members,
                                   const char *piece) {
    const struct oct__fetch how = {.connect_ms = 100, .stall_s = 1};
    put_archive(members, n_members);
    const int before = scratch_count(folder);
    EXPECT_FAILURE(oct__get(&tree_kind, folder, scratch_at(folder, "it.tar"), &how),
                   OCT_STATUS_CORRUPT, piece);
    assert_int_equal(scratch_count(folder), before);
}

static void trees_come_out_of_archives(void **state) {
    (void)state;
    need_pictures();
#ifndef OCT_HAVE_ARCHIVE
    skip();
#endif
    const struct oct__fetch how = {.connect_ms = 100, .stall_s = 1};
    const struct member good[] = {{"top2/", '5', 0},
                                  {"top2/train/a/1.jpg", '0', 0},
                                  {"top2/README", '0', 0},
                                  {"top2/train/b/1.jpg", '0', 0},
                                  {"top2/train/b/2.jpg", '0', 0},
                                  {"./top2/val/a/1.jpg", '0', 0},
                                  /* None of these is a file of the tree. */
                                  {"top2/train/a/.hidden.jpg", '0', 0},
                                  {"top2/train/../evil.jpg", '0', 0},
                                  {"top2/train/a/link.jpg", '2', 0},
                                  {"train.jpg", '0', 0},
                                  {"top2/other/a/1.jpg", '0', 0},
                                  {"top2/train/a/b/c.jpg", '0', 0}};
    put_archive(good, OCT_COUNT_OF(good));
    EXPECT_OK(oct__get(&tree_kind, folder, scratch_at(folder, "it.tar"), &how));
    /* it.tar, small, train with a, b and three files, val with a and its file */
    assert_int_equal(scratch_count(folder), 2 + 6 + 3);
    assert_int_equal(access(scratch_at(folder, "small/val/a/1.jpg"), F_OK), 0);
    /* Again, over the older one, of which nothing stays. */
    put("small/train/a/older.jpg");
    EXPECT_OK(oct__get(&tree_kind, folder, scratch_at(folder, "it.tar"), &how));
    assert_int_equal(scratch_count(folder), 2 + 6 + 3);
    /* Refused, the older one stays. */
    expect_archive_refused(good, 4,
                           "holds 2 files train/CLASS/NAME and val/CLASS/NAME, expected 4");
    const struct member twice[] = {{"train/a/1.jpg", '0', 0}, {"train/a/1.jpg", '0', 0}};
    expect_archive_refused(twice, 2, "holds train/a/1.jpg twice");
    const struct member many[] = {{"train/a/1.jpg", '0', 0},
                                  {"train/a/2.jpg", '0', 0},
                                  {"train/b/3.jpg", '0', 0},
                                  {"val/a/3.jpg", '0', 0},
                                  {"val/b/3.jpg", '0', 0}};
    expect_archive_refused(many, 5, "holds more than the 4 files");
    const struct member half[] = {{"train/a/1.jpg", '0', 1},
                                  {"train/a/2.jpg", '0', 0},
                                  {"train/b/2.jpg", '0', 0},
                                  {"val/a/3.jpg", '0', 0}};
    expect_archive_refused(half, 4, "1 of its training pictures is damaged: ");
    assert_int_equal(access(scratch_at(folder, "small/val/a/1.jpg"), F_OK), 0);
    EXPECT_FAILURE(oct__get(&tree_kind, folder, folder, &how), OCT_STATUS_INVALID,
                   "is no archive, expected a .tar");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(samples_are_the_files_in_order), TEST(test_wins_over_val),
        TEST(what_is_missing_is_said),        TEST(options_are_read),
        TEST(unreadable_files_are_refused),   TEST(damaged_files_are_left_out),
        TEST(a_class_cannot_be_all_damaged),  TEST(strict_runs_refuse_damage),
        TEST(imagenette_counts_its_files),    TEST(trees_come_out_of_archives),
        TEST(verifying_reads_both_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
