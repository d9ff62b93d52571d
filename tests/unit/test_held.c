/* SPDX-License-Identifier: Apache-2.0 */
/* test_held.c - datasets of which some samples are held, as a rank of a run holds its nodes': every
 * dataset plug-in, against the same one held whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "data/cifar.h"
#include "data/sampler.h"
#include "scratch.h"
#include "stand_in.h"
#include "support/check.h"
#include "support/pictures.h"
#include "support/solo.h"

enum { N_OWN = 7, SIDE = 5, MOST = 64 };

static char folder[SCRATCH_PATH];

static int set_up(void **state) {
    (void)state;
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oct__alloc_fail_after(0);
    scratch_remove(folder);
    return 0;
}

/* --- every plug-in ---------------------------------------------------------------------------- */

/* What to open: a plug-in, or what stands in for it. */
struct subject {
    const struct oct_dataset_kind *kind;
    char options[2 * SCRATCH_PATH];
    struct stand_in in;
};

static oct_status open_it(const struct subject *s, enum oct_split split,
                          const struct oct__data_choice *choice, struct oct_dataset **out) {
    return s->kind->open(s->kind, s->options[0] ? s->options : NULL, folder, split, choice, out);
}

static void write_npy(const char *name, const char *shape, const uint8_t *items, size_t n) {
    uint8_t bytes[128 + MOST * SIDE * SIDE];
    memset(bytes, ' ', 128);
    memcpy(bytes, "\223NUMPY\1\0\166\0", 10);
    int wrote = snprintf((char *)bytes + 10, 118,
                         "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }", shape);
    bytes[10 + wrote] = ' ';
    bytes[127] = '\n';
    memcpy(bytes + 128, items, n);
    assert_int_equal(scratch_write(scratch_at(folder, name), bytes, 128 + n), 0);
}

static void make_npy(struct subject *s) {
    static const char *const halves[] = {"train", "test"};
    uint8_t items[N_OWN * SIDE * SIDE], labels[N_OWN];
    char name[32];
    for (int half = 0; half < 2; half++) {
        scratch_fill(items, sizeof items, (uint32_t)half + 3);
        for (int i = 0; i < N_OWN; i++) {
            labels[i] = (uint8_t)(i % 3);
        }
        snprintf(name, sizeof name, "%s_images.npy", halves[half]);
        write_npy(name, "(7, 5, 5)", items, sizeof items);
        snprintf(name, sizeof name, "%s_labels.npy", halves[half]);
        write_npy(name, "(7,)", labels, sizeof labels);
    }
    snprintf(s->options, sizeof s->options, "%s", folder);
}

static void make_npy_with_border(struct subject *s) {
    make_npy(s);
    snprintf(s->options, sizeof s->options, "%s,pad=2", folder);
}

static void make_idx(struct subject *s) {
    static const char *const names[] = {"train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte"};
    const uint32_t dims[] = {N_OWN, SIDE, SIDE, 3};
    uint8_t bytes[20 + N_OWN * SIDE * SIDE * 3];
    for (int i = 0; i < 4; i++) {
        size_t n = stand_in_idx(bytes, i % 2 ? 1 : 4, dims, (uint32_t)i);
        assert_int_equal(scratch_write(scratch_at(folder, names[i]), bytes, n), 0);
    }
    snprintf(s->options, sizeof s->options, "%s", folder);
}

static void make_synthetic(struct subject *s) {
    snprintf(s->options, sizeof s->options, "samples=23,size=6,classes=4");
}

static void make_folder(struct subject *s) {
    if (pictures_are_there()) {
        picture_tree(folder, 2, 3, 2);
    }
    snprintf(s->options, sizeof s->options, "%s,size=16", folder);
}

static void make_fashion(struct subject *s) {
    stand_in_fashion(&s->in, folder);
    s->kind = &s->in.kind;
}

static void make_cifar10(struct subject *s) {
    stand_in_cifar10(&s->in, folder);
    s->kind = &s->in.kind;
}

static void make_cifar100(struct subject *s) {
    stand_in_cifar100(&s->in, folder);
    s->kind = &s->in.kind;
}

/* NULL: its 13,394 files cannot be made here; `folder` reads pictures with the same functions. */
static const struct {
    const char *name;
    void (*make)(struct subject *s);
} subjects[] = {
    {"fashion-mnist", make_fashion},
    {"cifar10", make_cifar10},
    {"cifar100", make_cifar100},
    {"imagenette", NULL},
    {"folder", make_folder},
    {"synthetic", make_synthetic},
    {"npy", make_npy},
    {"npy", make_npy_with_border},
    {"idx", make_idx},
};

static void each_subject(void (*look)(const struct subject *s)) {
    for (size_t i = 0; i < OCT_COUNT_OF(subjects); i++) {
        struct subject s = {.kind = oct__dataset_find(subjects[i].name)};
        assert_non_null(s.kind);
        if (subjects[i].make && !s.kind->plugin.unavailable) {
            subjects[i].make(&s);
            look(&s);
            stand_in_fini(&s.in);
        }
    }
}

static void no_plugin_is_forgotten(void **state) {
    (void)state;
    for (int n = 0; oct__dataset_at(n); n++) {
        const char *name = oct__dataset_at(n)->plugin.name;
        int is_there = 0;
        for (size_t i = 0; i < OCT_COUNT_OF(subjects); i++) {
            is_there |= strcmp(subjects[i].name, name) == 0;
        }
        if (!is_there) {
            fail_msg("dataset %s is not among these tests' subjects", name);
        }
    }
}

/* --- what is held ------------------------------------------------------------------------------ */

/* Samples whose numbers leave `rest` when divided by `step`; step 0: none. */
struct pattern {
    int step, rest;
    int n_asked;
    oct_status answer;
    const struct oct_dataset *whole;
};

static int is_marked(const struct pattern *p, int64_t row) {
    return p->step > 0 && row % p->step == p->rest;
}

static oct_status mark(void *context, const struct oct_dataset *dataset, uint8_t *keep) {
    struct pattern *p = context;
    p->n_asked++;
    if (p->whole) { /* labels are all there */
        assert_int_equal(dataset->n_classes, p->whole->n_classes);
        assert_memory_equal(dataset->labels, p->whole->labels,
                            (size_t)p->whole->n_samples * sizeof *dataset->labels);
    }
    for (int64_t row = 0; row < dataset->n_samples; row++) {
        assert_int_equal(keep[row], 0);
        assert_null(oct_dataset_image(dataset, row));
        keep[row] = (uint8_t)is_marked(p, row);
    }
    if (p->answer != OCT_OK) {
        return oct__fail(p->answer, "not today");
    }
    return OCT_OK;
}

static void expect_image(const struct oct_dataset *some, const struct oct_dataset *whole,
                         int64_t row, int is_held) {
    const size_t n = oct__sample_bytes(whole);
    uint8_t *found = malloc(n), *expected = malloc(n);
    assert_non_null(found);
    assert_non_null(expected);
    EXPECT_OK(oct_dataset_read(whole, row, expected));
    if (is_held) {
        EXPECT_OK(oct_dataset_read(some, row, found));
        assert_memory_equal(found, expected, n);
    } else {
        memset(found, 0xa5, n);
        memset(expected, 0xa5, n);
        assert_null(oct_dataset_image(some, row));
        EXPECT_FAILURE(oct_dataset_read(some, row, found), OCT_STATUS_NOT_FOUND, "another rank's");
        assert_memory_equal(found, expected, n);
    }
    free(found);
    free(expected);
}

static void expect_same_facts(const struct oct_dataset *some, const struct oct_dataset *whole) {
    struct oct_dataset_info a, b;
    oct_dataset_info(some, &a);
    oct_dataset_info(whole, &b);
    assert_int_equal(a.n_samples, b.n_samples);
    assert_int_equal(a.n_classes, b.n_classes);
    assert_int_equal(a.height, b.height);
    assert_int_equal(a.width, b.width);
    assert_int_equal(a.channels, b.channels);
    assert_memory_equal(some->labels, whole->labels,
                        (size_t)whole->n_samples * sizeof *whole->labels);
    assert_memory_equal(some->mean, whole->mean, sizeof whole->mean);
    assert_memory_equal(some->deviation, whole->deviation, sizeof whole->deviation);
}

static void expect_pattern(const struct subject *s, enum oct_split split, int step, int rest) {
    struct oct_dataset *whole = NULL, *some = NULL;
    EXPECT_OK(open_it(s, split, NULL, &whole));
    struct pattern p = {.step = step, .rest = rest, .whole = whole};
    const struct oct__data_choice choice = {mark, &p};
    EXPECT_OK(open_it(s, split, &choice, &some));
    const int is_streamed = whole->streamed != NULL;
    int64_t n_marked = 0;
    for (int64_t row = 0; row < whole->n_samples; row++) {
        n_marked += !is_streamed && is_marked(&p, row);
        expect_image(some, whole, row, is_streamed || is_marked(&p, row));
    }
    print_message("%s: %lld of %lld held, asked %d times\n", s->kind->plugin.name,
                  (long long)some->n_held, (long long)some->n_samples, p.n_asked);
    assert_int_equal(p.n_asked, !is_streamed);
    assert_int_equal(some->n_held, n_marked);
    assert_int_equal(whole->n_held, is_streamed ? 0 : whole->n_samples);
    assert_int_equal(some->images == NULL, is_streamed);
    expect_same_facts(some, whole);
    oct_dataset_close(some);
    oct_dataset_close(whole);
}

static void look_at_patterns(const struct subject *s) {
    static const int patterns[][2] = {{1, 0}, {2, 1}, {3, 0}, {5, 4}, {0, 0}};
    for (size_t i = 0; i < OCT_COUNT_OF(patterns); i++) {
        expect_pattern(s, OCT_SPLIT_TRAIN, patterns[i][0], patterns[i][1]);
        expect_pattern(s, OCT_SPLIT_TEST, patterns[i][0], patterns[i][1]);
    }
}

static void held_samples_are_those_of_the_whole(void **state) {
    (void)state;
    each_subject(look_at_patterns);
}

static void look_at_failures(const struct subject *s) {
    struct oct_dataset *dataset = NULL;
    struct pattern p = {.step = 2, .answer = OCT_STATUS_CANCELLED};
    const struct oct__data_choice choice = {mark, &p};
    oct_status status = open_it(s, OCT_SPLIT_TRAIN, &choice, &dataset);
    if (status == OCT_OK) { /* streamed: nobody is asked */
        assert_non_null(dataset->streamed);
        oct_dataset_close(dataset);
        return;
    }
    EXPECT_FAILURE(status, OCT_STATUS_CANCELLED, "not today");
    assert_null(dataset);
    p.answer = OCT_OK;
    for (uint64_t n = 1; !dataset; n++) { /* the n-th request for memory fails, and all behind it */
        assert_in_range(n, 1, 100);
        oct__alloc_fail_after(n);
        status = open_it(s, OCT_SPLIT_TRAIN, &choice, &dataset);
        oct__alloc_fail_after(0);
        assert_int_equal(status, dataset ? OCT_OK : OCT_STATUS_NO_MEMORY);
    }
    oct_dataset_close(dataset);
}

static void failures_leave_nothing(void **state) {
    (void)state;
    each_subject(look_at_failures);
}

/* --- files that change between the readings ---------------------------------------------------- */

struct meddler {
    const char *path;
    const uint8_t *bytes;
    size_t n;
};

static oct_status meddle(void *context, const struct oct_dataset *dataset, uint8_t *keep) {
    const struct meddler *m = context;
    memset(keep, 1, (size_t)dataset->n_samples);
    assert_int_equal(scratch_write(m->path, m->bytes, m->n), 0);
    return OCT_OK;
}

/* What is handed out has been checked, and its labels are those that the choice was made by. */
static void cifar_files_that_change_meanwhile(void **state) {
    (void)state;
    struct stand_in in;
    struct oct_dataset *dataset = NULL;
    stand_in_cifar10(&in, folder);
    char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s",
             scratch_at(scratch_at(folder, "cifar10"), "data_batch_2.bin"));
    struct meddler m = {path, in.bytes[1], (size_t)in.files[1].n_bytes};
    const struct oct__data_choice choice = {meddle, &m};
    in.bytes[1][7] ^= 1; /* a pixel */
    EXPECT_FAILURE(in.kind.open(&in.kind, NULL, folder, OCT_SPLIT_TRAIN, &choice, &dataset),
                   OCT_STATUS_CORRUPT, "altered");
    stand_in_fini(&in);

    stand_in_cifar10(&in, folder);
    in.files[1].sha256 = NULL;
    m.bytes = in.bytes[1];
    in.bytes[1][0] = (uint8_t)((in.bytes[1][0] + 1) % 10); /* the first label */
    EXPECT_FAILURE(in.kind.open(&in.kind, NULL, folder, OCT_SPLIT_TRAIN, &choice, &dataset),
                   OCT_STATUS_CORRUPT, "changed meanwhile");
    assert_null(dataset);
    stand_in_fini(&in);
}

/* --- whoever trains on them --------------------------------------------------------------------- */

#define SPEC "synthetic:samples=40,size=8,classes=4"

static struct oct_dataset *open_some(enum oct_split split, int step, int rest) {
    struct oct_dataset *dataset = NULL;
    struct pattern p = {.step = step, .rest = rest};
    const struct oct__data_choice choice = {mark, &p};
    EXPECT_OK(oct__dataset_open_some(SPEC, NULL, split, &choice, &dataset));
    return dataset;
}

/* The same pictures, crops and classes in the same order, wherever they lie. */
static void a_sampler_finds_them(void **state) {
    (void)state;
    enum { N = 10, BATCH = 4, STEPS = 9 };
    uint32_t rows[N];
    for (uint32_t i = 0; i < N; i++) {
        rows[i] = 4 * i + 1;
    }
    struct oct_dataset *whole = NULL, *some = open_some(OCT_SPLIT_TRAIN, 4, 1);
    EXPECT_OK(oct_dataset_open(SPEC, NULL, OCT_SPLIT_TRAIN, &whole));
    struct oct__sampler samplers[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(oct__sampler_init(&samplers[i], 5, 2, rows, N));
    }
    const size_t bytes = oct__sample_bytes(whole);
    for (uint32_t step = 0; step < STEPS; step++) {
        struct oct__pick a[BATCH], b[BATCH];
        oct__sampler_batch(&samplers[0], whole, step, BATCH, 4, a);
        oct__sampler_batch(&samplers[1], some, step, BATCH, 4, b);
        for (int i = 0; i < BATCH; i++) {
            assert_int_equal(a[i].row, 4 * b[i].row + 1);
            assert_in_range(b[i].row, 0, some->n_held - 1);
            assert_memory_equal(whole->images + (size_t)a[i].row * bytes,
                                some->images + (size_t)b[i].row * bytes, bytes);
            assert_int_equal(a[i].label, b[i].label);
            assert_int_equal(a[i].dy, b[i].dy);
            assert_int_equal(a[i].dx, b[i].dx);
            assert_int_equal(a[i].flip, b[i].flip);
        }
    }
    oct__sampler_fini(&samplers[0]);
    oct__sampler_fini(&samplers[1]);
    oct_dataset_close(some);
    oct_dataset_close(whole);
}

/* A trainer that would need others refuses, before its first step. */
static void a_trainer_needs_its_own(void **state) {
    (void)state;
    struct oct_dataset *sets[2][2] = {
        {open_some(OCT_SPLIT_TRAIN, 2, 0), open_some(OCT_SPLIT_TEST, 2, 0)},
        {open_some(OCT_SPLIT_TRAIN, 1, 0), open_some(OCT_SPLIT_TEST, 1, 0)}};
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 2));
    EXPECT_OK(oct_config_set(config, "model", "resnet20:width=8,blocks=1"));
    EXPECT_OK(oct_config_set(config, "batch", "4"));
    const struct oct_hooks lacks_train = {.train = sets[0][0], .test = sets[1][1]};
    EXPECT_FAILURE(oct_trainer_create(config, &lacks_train, &trainer), OCT_STATUS_INVALID,
                   "which is not in this process's memory");
    const struct oct_hooks lacks_test = {.train = sets[1][0], .test = sets[0][1]};
    EXPECT_FAILURE(oct_trainer_create(config, &lacks_test, &trainer), OCT_STATUS_INVALID,
                   "5 of 10 test samples");
    assert_null(trainer);
    assert_null(oct_trainer_data(NULL, OCT_SPLIT_TRAIN));
    oct_config_destroy(config);
    for (int i = 0; i < 4; i++) {
        oct_dataset_close(sets[i / 2][i % 2]);
    }
}

/* Where a program keeps its data is no option of the run. */
static void a_trainer_looks_into_the_programs_folder(void **state) {
    (void)state;
    struct oct_config *config = NULL;
    struct oct_trainer *trainer = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_OK(solo(config, 1));
    EXPECT_OK(oct_config_set(config, "data", "cifar10"));
    const struct oct_hooks hooks = {.data_folder = folder};
    EXPECT_FAILURE(oct_trainer_create(config, &hooks, &trainer), OCT_STATUS_NOT_FOUND, folder);
    EXPECT_OK(oct_config_set(config, "data", SPEC));
    EXPECT_OK(oct_trainer_create(config, &hooks, &trainer));
    assert_int_equal(oct_trainer_data(trainer, OCT_SPLIT_TRAIN)->n_held, 40);
    assert_int_equal(oct_trainer_data(trainer, OCT_SPLIT_TEST)->n_samples, 10);
    assert_string_equal(oct_config_get(config, "data-dir"), "");
    oct_trainer_destroy(trainer);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plugin_is_forgotten),
        cmocka_unit_test_setup_teardown(held_samples_are_those_of_the_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cifar_files_that_change_meanwhile, set_up, tear_down),
        cmocka_unit_test(a_sampler_finds_them),
        cmocka_unit_test(a_trainer_needs_its_own),
        cmocka_unit_test_setup_teardown(a_trainer_looks_into_the_programs_folder, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
