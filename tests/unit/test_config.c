/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - src/train/config.c: the option table, setting options, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <octet/octet.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "train/config.h"

static struct oct_config *fresh(void) {
    struct oct_config *config = NULL;
    assert_int_equal(oct_config_create(&config), OCT_OK);
    assert_non_null(config);
    return config;
}

static void expect_set(struct oct_config *config, const char *name, const char *value) {
    oct_status status = oct_config_set(config, name, value);
    if (status != OCT_OK) {
        fail_msg("%s = '%s' was refused: %s", name, value, oct_last_error());
    }
}

/* Refused with that status and a message that contains `piece`, the old value kept. */
static void expect_refused(struct oct_config *config, const char *name, const char *value,
                           oct_status expected, const char *piece) {
    const char *now = oct_config_get(config, name);
    char before[256];
    snprintf(before, sizeof before, "%s", now ? now : "(no such option)");
    int was_set = oct_config_is_set(config, name);
    oct_status status = oct_config_set(config, name, value);
    print_message("%s = '%.30s': %s, %s\n", name, value, oct_status_name(status), oct_last_error());
    assert_int_equal(status, expected);
    if (!strstr(oct_last_error(), piece)) {
        fail_msg("'%s' is not in '%s'", piece, oct_last_error());
    }
    now = oct_config_get(config, name);
    assert_string_equal(now ? now : "(no such option)", before);
    assert_int_equal(oct_config_is_set(config, name), was_set);
}

static int is_number(const struct oct_option *option) {
    return option->type == OCT_OPTION_INT || option->type == OCT_OPTION_REAL;
}

/* --- the table ----------------------------------------------------------------------------- */

static void table_rows_are_complete(void **state) {
    (void)state;
    int n = 0;
    for (const struct oct_option *option; (option = oct_option_at(n)) != NULL; n++) {
        assert_true(strlen(option->name) > 0);
        assert_null(strchr(option->name, '_'));
        assert_true(strlen(option->summary) > 3);
        assert_true(strlen(option->group) > 0);
        assert_true(strlen(option->placeholder) > 0);
        assert_non_null(option->fallback);
        assert_ptr_equal(oct_option_find(option->name), option);
        if (is_number(option)) {
            assert_true(option->least < option->most);
            assert_true(option->most <= 0x1p53); /* read_number counts on it */
        }
        if (option->type == OCT_OPTION_CHOICE) {
            int fits = option->fallback[0] == '\0';         /* depends on other options */
            size_t length = strcspn(option->fallback, ":"); /* options may follow: "skew:0.8" */
            for (int i = 0; oct_option_choice(option, i); i++) {
                const char *choice = oct_option_choice(option, i);
                fits |= strlen(choice) == length && !memcmp(choice, option->fallback, length);
            }
            if (!fits) {
                fail_msg("%s: the default '%s' is no choice", option->name, option->fallback);
            }
        } else {
            assert_null(oct_option_choice(option, 0));
        }
    }
    assert_int_equal(n, OCT__OPTION_COUNT);
    assert_null(oct_option_at(-1));
    assert_null(oct_option_at(n + 1));
    assert_null(oct_option_choice(oct_option_find("norm"), -1));
    assert_null(oct_option_choice(oct_option_find("norm"), 1000));
    assert_null(oct_option_choice(oct_option_find("augment"), 1000));
    assert_null(oct_option_choice(NULL, 0));
}

static void names_take_either_dash(void **state) {
    (void)state;
    const struct oct_option *option = oct_option_find("weight-decay");
    assert_non_null(option);
    assert_string_equal(option->name, "weight-decay");
    assert_ptr_equal(oct_option_find("weight_decay"), option);
    assert_null(oct_option_find("weight decay"));
    assert_null(oct_option_find("weight"));
    assert_null(oct_option_find(""));
    assert_null(oct_option_find(NULL));
}

static oct_status look_up(void *context, int item, int worker) {
    (void)context, (void)worker;
    const struct oct_option *option = oct_option_find(item % 2 ? "data_dir" : "data-dir");
    if (!option || strcmp(option->name, "data-dir") != 0) {
        OCT_FAIL(INTERNAL, "item %d found %s", item, option ? option->name : "nothing");
    }
    return OCT_OK;
}

static void any_thread_may_be_first(void **state) {
    (void)state;
    assert_int_equal(oct__parallel(4, 64, look_up, NULL), OCT_OK);
}

static void choices_are_the_registries(void **state) {
    (void)state;
    static const struct {
        const char *option;
        enum oct_plugin_kind kind;
    } pairs[] = {
        {"model", OCT_PLUGIN_MODEL},       {"norm", OCT_PLUGIN_NORM},
        {"data", OCT_PLUGIN_DATASET},      {"engine", OCT_PLUGIN_ENGINE},
        {"schedule", OCT_PLUGIN_SCHEDULE},
    };
    struct oct_config *config = fresh();
    for (size_t p = 0; p < OCT_COUNT_OF(pairs); p++) {
        const struct oct_option *option = oct_option_find(pairs[p].option);
        const struct oct_plugin *plugin;
        int n = 0;
        for (; (plugin = oct_plugin_at(pairs[p].kind, n)) != NULL; n++) {
            assert_string_equal(oct_option_choice(option, n), plugin->name);
            if (plugin->unavailable) {
                expect_refused(config, option->name, plugin->name, OCT_STATUS_UNSUPPORTED,
                               plugin->unavailable);
            } else {
                expect_set(config, option->name, plugin->name);
                assert_string_equal(oct_config_get(config, option->name), plugin->name);
            }
        }
        assert_true(n > 0);
        assert_null(oct_option_choice(option, n));
    }
    oct_config_destroy(config);
}

/* --- values -------------------------------------------------------------------------------- */

static void defaults_are_the_tables(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (option->fallback[0]) {
            assert_string_equal(oct_config_get(config, option->name), option->fallback);
        }
        assert_int_equal(oct_config_is_set(config, option->name), 0);
    }
    assert_string_equal(config->model, "resnet20");
    assert_string_equal(config->data_dir, "");
    assert_int_equal(config->batch, 32);
    assert_int_equal(config->seed, 1);
    assert_true(config->lr == 0.02);
    assert_true(config->weight_decay == 1e-4);
    oct_config_destroy(config);
    oct_config_destroy(NULL);
}

static void text_and_field_change_together(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    expect_set(config, "batch", "128");
    expect_set(config, "lr", "2.5e-2");
    expect_set(config, "weight_decay", ".5");
    expect_set(config, "data-dir", "/srv/data sets");
    expect_set(config, "augment", "none");
    expect_set(config, "seed", "9007199254740992");
    assert_int_equal(config->batch, 128);
    assert_string_equal(oct_config_get(config, "batch"), "128");
    assert_true(config->lr == 2.5e-2);
    assert_string_equal(oct_config_get(config, "lr"), "2.5e-2");
    assert_true(config->weight_decay == 0.5);
    assert_string_equal(config->data_dir, "/srv/data sets");
    assert_ptr_equal(config->data_dir, oct_config_get(config, "data_dir"));
    assert_string_equal(config->augment, "none");
    assert_true(config->seed == INT64_C(9007199254740992));
    assert_int_equal(oct_config_is_set(config, "weight-decay"), 1);
    assert_int_equal(oct_config_is_set(config, "beta"), 0);
    expect_set(config, "data-dir", "");
    assert_string_equal(config->data_dir, "");
    assert_null(oct_config_get(config, "nodess"));
    assert_null(oct_config_get(NULL, "batch"));
    assert_int_equal(oct_config_is_set(config, "nodess"), 0);
    oct_config_destroy(config);
}

static void numbers_are_read_strictly(void **state) {
    (void)state;
    static const char *const never[] = {
        "",   " ",    " 8", "8 ",  "8x",    "x8",    "0,8", "nan", "-nan", "inf", "-inf", "1e",
        "e1", "0x10", "+8", "--8", "1e999", "1_000", "8\n", "\t8", "-",    ".",   "8;",   "1.2.3"};
    struct oct_config *config = fresh();
    for (size_t i = 0; i < OCT_COUNT_OF(never); i++) {
        expect_refused(config, "batch", never[i], OCT_STATUS_INVALID,
                       "expected a whole number from 1 to 65536");
        expect_refused(config, "beta", never[i], OCT_STATUS_INVALID,
                       "expected a number from 0 to 0.9999");
    }
    expect_refused(config, "batch", "2.5", OCT_STATUS_INVALID, "batch is '2.5'");
    expect_refused(config, "batch", "1e3", OCT_STATUS_INVALID, "batch is '1e3'");
    expect_refused(config, "batch", "99999999999999999999999999", OCT_STATUS_INVALID, "65536");
    oct_config_destroy(config);
}

static void ranges_hold_at_both_ends(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (!is_number(option)) {
            continue;
        }
        char text[64];
        int whole = option->type == OCT_OPTION_INT;
        snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", option->least);
        expect_set(config, option->name, text);
        snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", option->most);
        expect_set(config, option->name, text);
        snprintf(text, sizeof text, whole ? "%.0f" : "%.17g",
                 whole ? option->least - 1 : option->least - 0.001);
        expect_refused(config, option->name, text, OCT_STATUS_INVALID, "expected");
        snprintf(text, sizeof text, whole ? "%.0f" : "%.17g",
                 whole ? option->most + (option->most > 1e15 ? 2 : 1)
                       : option->most * 1.001 + 0.001);
        expect_refused(config, option->name, text, OCT_STATUS_INVALID, "expected");
    }
    oct_config_destroy(config);
}

static void choices_say_what_was_expected(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    expect_refused(config, "norm", "batchnrm", OCT_STATUS_INVALID, "did you mean 'batchnorm'?");
    expect_refused(config, "norm", "layernorm9000", OCT_STATUS_INVALID, "evonorm-s0");
    expect_refused(config, "norm", "", OCT_STATUS_INVALID, "expected one of: ");
    expect_refused(config, "norm", "Batchnorm", OCT_STATUS_INVALID, "did you mean 'batchnorm'?");
    expect_refused(config, "augment", "flip", OCT_STATUS_INVALID, "crop-flip, none");
    expect_refused(config, "precision", "fp31", OCT_STATUS_INVALID, "did you mean 'fp32'?");
    expect_refused(config, "precision", "fp32:x", OCT_STATUS_INVALID, "precision is 'fp32:x'");
    expect_refused(config, "data", "cifar", OCT_STATUS_INVALID, "did you mean 'cifar10'?");
    char endless[2000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    expect_refused(config, "model", endless, OCT_STATUS_INVALID, "xxx...'");
    expect_refused(config, "model", "\033[2Jresnet", OCT_STATUS_INVALID, "'?[2Jresnet'");
    oct_config_destroy(config);
}

static void choices_carry_options(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    expect_set(config, "data", "synthetic:samples=512,classes=4");
    assert_string_equal(config->data, "synthetic:samples=512,classes=4");
    expect_refused(config, "data", "syntetic:samples=512", OCT_STATUS_INVALID,
                   "did you mean 'synthetic'?");
    expect_refused(config, "schedule", "step:3", OCT_STATUS_INVALID, "it takes no options");
    oct_config_destroy(config);
}

static void unknown_names_get_a_suggestion(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    expect_refused(config, "epoch", "3", OCT_STATUS_NOT_FOUND, "did you mean 'epochs'?");
    expect_refused(config, "weihgt_decay", "3", OCT_STATUS_NOT_FOUND,
                   "did you mean 'weight-decay'?");
    expect_refused(config, "weight", "3", OCT_STATUS_NOT_FOUND, "did you mean 'weights'?");
    expect_refused(config, "sample", "3", OCT_STATUS_NOT_FOUND, "did you mean 'samples'?");
    expect_refused(config, "frobnicate", "3", OCT_STATUS_NOT_FOUND, "'frobnicate' is no option");
    assert_null(strstr(oct_last_error(), "did you mean"));
    expect_refused(config, "", "3", OCT_STATUS_NOT_FOUND, "is no option");
    assert_int_equal(oct_config_set(NULL, "batch", "3"), OCT_STATUS_INVALID);
    assert_int_equal(oct_config_set(config, NULL, "3"), OCT_STATUS_INVALID);
    assert_int_equal(oct_config_set(config, "batch", NULL), OCT_STATUS_INVALID);
    oct_config_destroy(config);
}

static void slips_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *given, *meant;
    } rows[] = {
        {"epochz", "epochs"}, {"eopchs", "epochs"}, {"epoochs", "epochs"}, {"thread", "threads"},
        {"date", "data"},     {"dir", NULL},        {"we", "weights"},     {"lrr", "lr"},
        {"xyz", NULL},        {"modelnorm", NULL},
    };
    struct oct_config *config = fresh();
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        char piece[64] = "is no option";
        if (rows[i].meant) {
            snprintf(piece, sizeof piece, "did you mean '%s'?", rows[i].meant);
        }
        expect_refused(config, rows[i].given, "1", OCT_STATUS_NOT_FOUND, piece);
        assert_int_equal(strstr(oct_last_error(), "did you mean") != NULL, rows[i].meant != NULL);
    }
    char endless[300];
    memset(endless, 'e', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    expect_refused(config, endless, "1", OCT_STATUS_NOT_FOUND, "eee...' is no option");
    oct_config_destroy(config);
}

/* --- memory -------------------------------------------------------------------------------- */

static void failed_allocation_is_reported(void **state) {
    (void)state;
    uint64_t before = oct__alloc_count();
    struct oct_config *config = fresh();
    uint64_t n_requests = oct__alloc_count() - before;
    print_message("a configuration takes %llu requests\n", (unsigned long long)n_requests);
    assert_true(n_requests > 0);
    expect_set(config, "data-dir", "/old");
    oct__alloc_fail_after(1);
    oct_status status = oct_config_set(config, "data-dir", "/new");
    oct__alloc_fail_after(0);
    assert_int_equal(status, OCT_STATUS_NO_MEMORY);
    assert_string_equal(config->data_dir, "/old");
    oct_config_destroy(config);
    for (uint64_t n = 1; n <= n_requests; n++) {
        struct oct_config *none = NULL;
        oct__alloc_fail_after(n);
        status = oct_config_create(&none);
        oct__alloc_fail_after(0);
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_null(none);
    }
}

/* A copy has what was set, and derives the rest anew. */
static void copies(void **state) {
    (void)state;
    struct oct_config *config = fresh(), *copy = NULL;
    assert_int_equal(oct_config_set(config, "batch", "7"), OCT_OK);
    assert_int_equal(oct_config_set(config, "data", "synthetic:samples=12"), OCT_OK);
    assert_int_equal(oct_config_copy(config, &copy), OCT_OK);
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        assert_string_equal(oct_config_get(copy, option->name),
                            oct_config_get(config, option->name));
        assert_int_equal(oct_config_is_set(copy, option->name),
                         oct_config_is_set(config, option->name));
    }
    assert_int_equal(oct_config_set(copy, "precision", "fp32"), OCT_OK);
    assert_string_equal(oct_config_get(copy, "norm"), "evonorm-s0");
    assert_string_equal(oct_config_get(config, "norm"), "range-evonorm");
    assert_int_equal(oct_config_set(config, "batch", "9"), OCT_OK);
    assert_int_equal(copy->batch, 7);
    assert_int_equal(oct_config_copy(NULL, &copy), OCT_STATUS_INVALID);
    oct_config_destroy(copy);
    oct_config_destroy(config);
}

/* A text stays where it is while others change, whoever changes them. */
static void texts_stay(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    expect_set(config, "label", "mine");
    const char *label = oct_config_get(config, "label"), *model = oct_config_get(config, "model");
    oct_status status = oct_config_parse(config, "run.yaml", "lr: 0.5\nnodes: 3\n", 17);
    if (status != OCT_STATUS_UNSUPPORTED) {
        assert_int_equal(status, OCT_OK);
        assert_int_equal(config->nodes, 3);
        assert_true(config->lr == 0.5);
    }
    assert_ptr_equal(oct_config_get(config, "label"), label);
    assert_ptr_equal(oct_config_get(config, "model"), model);
    assert_string_equal(label, "mine");
    assert_ptr_equal(config->label, label);
    oct_config_destroy(config);
    assert_int_equal(oct_config_create(NULL), OCT_STATUS_INVALID);
}

/* In another precision: what means nothing there is as if it had never been given. */
static void recasts(void **state) {
    (void)state;
    static const struct {
        const char *from, *option, *value, *to, *expected;
    } cases[] = {
        {"int8", "precision-recipe", "paper", "fp32", "octet"},
        {"int8", "precision-recipe", "octet:range=mean", "int8-sim", "octet:range=mean"},
        {"int8", "activation-rounding", "stochastic", "fp32", "nearest"},
        {"int8", "engine", "portable", "int8-sim", "cpu"},
        {"int8", "engine", "portable", "fp32", "portable"},
        {"int8-sim", "engine", "sim", "int8-sim", "sim"},
        {"fp32", "norm", "batchnorm", "int8", "batchnorm"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = fresh(), *copy = NULL;
        assert_int_equal(oct_config_set(config, "precision", cases[i].from), OCT_OK);
        assert_int_equal(oct_config_set(config, cases[i].option, cases[i].value), OCT_OK);
        assert_int_equal(oct__config_check_precision(config), OCT_OK);
        assert_int_equal(oct_config_recast(config, cases[i].to, &copy), OCT_OK);
        print_message("%s in %s: %s %s\n", cases[i].from, cases[i].to, cases[i].option,
                      oct_config_get(copy, cases[i].option));
        assert_string_equal(oct_config_get(copy, "precision"), cases[i].to);
        assert_string_equal(oct_config_get(copy, cases[i].option), cases[i].expected);
        assert_int_equal(oct_config_is_set(copy, cases[i].option),
                         strcmp(cases[i].value, cases[i].expected) == 0);
        assert_int_equal(oct__config_check_precision(copy), OCT_OK);
        assert_string_equal(oct_config_get(config, cases[i].option), cases[i].value);
        oct_config_destroy(copy);
        /* Said of one configuration, it is refused. */
        if (strcmp(cases[i].value, cases[i].expected) != 0) {
            struct oct_trainer *trainer = NULL;
            assert_int_equal(oct_config_set(config, "precision", cases[i].to), OCT_OK);
            assert_int_equal(oct_config_set(config, "data", "synthetic:samples=8,size=8"), OCT_OK);
            assert_int_equal(oct_trainer_create(config, NULL, &trainer), OCT_STATUS_INVALID);
            print_message("%s\n", oct_last_error());
            assert_memory_equal(oct_last_error(), cases[i].option, strlen(cases[i].option));
            assert_non_null(strstr(oct_last_error(), cases[i].to));
            assert_non_null(strstr(oct_last_error(), "leave one of them out"));
        }
        oct_config_destroy(config);
    }
    struct oct_config *config = fresh(), *copy = NULL;
    assert_int_equal(oct_config_recast(config, "fp31", &copy), OCT_STATUS_INVALID);
    assert_null(copy);
    assert_int_equal(oct_config_set(config, "precision-recipe", "paper"), OCT_OK);
    for (uint64_t n = 1;; n++) { /* every request for memory fails once */
        oct__alloc_fail_after(n);
        oct_status status = oct_config_recast(config, "fp32", &copy);
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            assert_true(n > 30);
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_null(copy);
    }
    oct_config_destroy(copy);
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(texts_stay),
        cmocka_unit_test(recasts),
        cmocka_unit_test(any_thread_may_be_first),
        cmocka_unit_test(table_rows_are_complete),
        cmocka_unit_test(names_take_either_dash),
        cmocka_unit_test(choices_are_the_registries),
        cmocka_unit_test(defaults_are_the_tables),
        cmocka_unit_test(text_and_field_change_together),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(ranges_hold_at_both_ends),
        cmocka_unit_test(choices_say_what_was_expected),
        cmocka_unit_test(choices_carry_options),
        cmocka_unit_test(unknown_names_get_a_suggestion),
        cmocka_unit_test(slips_are_counted),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
