/* SPDX-License-Identifier: Apache-2.0 */
/* test_spec.c - "name:options" texts: what is taken, what is refused, and what the refusal says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/spec.h"

struct values {
    int64_t count;
    double rate;
    int kind;
};

static const char *const kinds[] = {"f32", "bf16", "int8", NULL};

static const struct oct__spec_option table[] = {
    {"count", OCT_SPEC_INT, offsetof(struct values, count), 1, 100, NULL},
    {"drop-rate", OCT_SPEC_REAL, offsetof(struct values, rate), 0, 1, NULL},
    {"values", OCT_SPEC_CHOICE, offsetof(struct values, kind), 0, 0, kinds},
    {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
};

static const struct values defaults = {.count = 7, .rate = 0.5, .kind = 1};

static void reads_options(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct values expected;
    } cases[] = {
        {NULL, {7, 0.5, 1}},
        {"3", {3, 0.5, 1}},
        {"count=3", {3, 0.5, 1}},
        {"3,values=int8", {3, 0.5, 2}},
        {"values=f32,drop-rate=.25,count=100", {100, 0.25, 0}},
        {"drop_rate=1e-2", {7, 0.01, 1}},
        {"drop-rate=1.", {7, 1, 1}},
        {"drop-rate=0", {7, 0, 1}},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct values values = defaults;
        oct_status status = oct__spec_read("it", cases[i].text, table, &values);
        print_message("'%s': %s count %lld rate %g kind %d\n", cases[i].text ? cases[i].text : "",
                      oct_status_name(status), (long long)values.count, values.rate, values.kind);
        assert_int_equal(status, OCT_OK);
        assert_int_equal(values.count, cases[i].expected.count);
        assert_true(values.rate == cases[i].expected.rate);
        assert_int_equal(values.kind, cases[i].expected.kind);
    }
}

static void refuses_options(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "count has no value"},
        {"8x", "count is '8x', expected a whole number from 1 to 100"},
        {" 8", "count is ' 8'"},
        {"8 ", "count is '8 '"},
        {"+8", "count is '+8'"},
        {"0", "count is '0'"},
        {"101", "count is '101'"},
        {"-3", "count is '-3'"},
        {"1e1", "count is '1e1'"},
        {"0x10", "count is '0x10'"},
        {"9223372036854775808", "count is '9223372036854775808'"},
        {"99999999999999999999999999", "count is '99999999999999999999999999'"},
        {"drop-rate=nan", "drop-rate is 'nan', expected a number from 0 to 1"},
        {"drop-rate=inf", "drop-rate is 'inf'"},
        {"drop-rate=0x1p-1", "drop-rate is '0x1p-1'"},
        {"drop-rate=1e999", "drop-rate is '1e999'"},
        {"drop-rate=.", "drop-rate is '.'"},
        {"drop-rate=1e", "drop-rate is '1e'"},
        {"drop-rate=0.8abc", "drop-rate is '0.8abc'"},
        {"drop-rate=0,8", "'8' has no option name"},
        {"drop-rate=", "drop-rate has no value"},
        {"values=int9", "values is 'int9', expected one of: f32, bf16, int8"},
        {"values=int", "values is 'int'"},
        {"size=3", "no option 'size'; options: count, drop-rate, values"},
        {"coun=3", "no option 'coun'"},
        {"counts=3", "no option 'counts'"},
        {"=3", "no option ''"},
        {"3,count=4", "count is given twice"},
        {"3,", "'' has no option name"},
        {",", "count has no value"},
        {"drop-rate=0.1,values=int8,count=x", "count is 'x'"},
        {"count=1111111111111111111111111111111111111111111111111111111111111111111111",
         "count has too long a value"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct values values = defaults;
        oct_status status = oct__spec_read("it", cases[i].text, table, &values);
        print_message("'%s': %s\n", cases[i].text, oct_last_error());
        assert_int_equal(status, OCT_STATUS_INVALID);
        assert_non_null(strstr(oct_last_error(), cases[i].says));
        assert_int_equal(strncmp(oct_last_error(), "it: ", 4), 0);
        assert_int_equal(values.count, defaults.count);
        assert_true(values.rate == defaults.rate);
        assert_int_equal(values.kind, defaults.kind);
    }
}

/* A text may be as long as a path; nothing but a comma ends it. */
static void reads_texts(void **state) {
    (void)state;
    static const struct oct__spec_option texts[] = {
        {"path", OCT_SPEC_TEXT, 0, 0, 0, NULL},
        {NULL, OCT_SPEC_INT, 0, 0, 0, NULL},
    };
    char path[OCT_SPEC_TEXT_MOST] = "unset", longest[OCT_SPEC_TEXT_MOST + 8];
    assert_int_equal(oct__spec_read("it", "/a b/ü:1", texts, path), OCT_OK);
    assert_string_equal(path, "/a b/ü:1");
    assert_int_equal(oct__spec_read("it", "path=/x=y", texts, path), OCT_OK);
    assert_string_equal(path, "/x=y");
    assert_int_equal(oct__spec_read("it", "/runs/lr=0.1/x", texts, path), OCT_OK);
    assert_string_equal(path, "/runs/lr=0.1/x");
    assert_int_equal(oct__spec_read("it", "paths=/x", texts, path), OCT_STATUS_INVALID);
    assert_int_equal(oct__spec_read("it", "path=", texts, path), OCT_STATUS_INVALID);
    assert_int_equal(oct__spec_read("it", "/a,b", texts, path), OCT_STATUS_INVALID);
    print_message("%s\n", oct_last_error());
    assert_non_null(strstr(oct_last_error(), "a path cannot have a comma in it"));
    memset(longest, 'p', sizeof longest);
    longest[OCT_SPEC_TEXT_MOST - 1] = '\0';
    assert_int_equal(oct__spec_read("it", longest, texts, path), OCT_OK);
    assert_string_equal(path, longest);
    longest[OCT_SPEC_TEXT_MOST - 1] = 'p';
    longest[OCT_SPEC_TEXT_MOST] = '\0';
    assert_int_equal(oct__spec_read("it", longest, texts, path), OCT_STATUS_INVALID);
}

static void splits_names(void **state) {
    (void)state;
    char name[OCT_SPEC_NAME];
    const char *options;
    assert_int_equal(oct__spec_split("fashion-mnist", name, &options), OCT_OK);
    assert_string_equal(name, "fashion-mnist");
    assert_null(options);
    assert_int_equal(oct__spec_split("topk:0.99,values=int8", name, &options), OCT_OK);
    assert_string_equal(name, "topk");
    assert_string_equal(options, "0.99,values=int8");
    assert_int_equal(oct__spec_split("topk:", name, &options), OCT_OK);
    assert_string_equal(options, "");
    static const char *const bad[] = {
        "",
        ":3",
        "a b",
        "../x",
        "name,x",
        "a=b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < OCT_COUNT_OF(bad); i++) {
        oct_status status = oct__spec_split(bad[i], name, &options);
        print_message("'%s': %s %s\n", bad[i], oct_status_name(status), oct_last_error());
        assert_int_equal(status, OCT_STATUS_INVALID);
    }
}

static void reads_extreme_integers(void **state) {
    (void)state;
    int64_t value = 0;
    assert_int_equal(oct__spec_int("n", "9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(oct__spec_int("n", "-9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == -INT64_MAX);
    assert_int_equal(oct__spec_int("n", "-0", 0, 1, &value), OCT_OK);
    assert_true(value == 0);
}

/* A program in a German locale must read 0.8 as 0.8, and not take 0,8 for it. */
static void numbers_ignore_the_locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    const char *chosen = NULL;
    for (size_t i = 0; i < OCT_COUNT_OF(names) && !chosen; i++) {
        chosen = setlocale(LC_ALL, names[i]);
    }
    print_message("locale %s\n", chosen ? chosen : "C");
    double value = 0;
    oct_status status = oct__spec_real("x", "0.8", 0, 1, &value);
    oct_status comma = oct__spec_real("x", "0,8", 0, 1, &value);
    setlocale(LC_ALL, "C");
    assert_int_equal(status, OCT_OK);
    assert_true(value == 0.8);
    assert_int_equal(comma, OCT_STATUS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_options),
        cmocka_unit_test(refuses_options),
        cmocka_unit_test(reads_texts),
        cmocka_unit_test(splits_names),
        cmocka_unit_test(reads_extreme_integers),
        cmocka_unit_test(numbers_ignore_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
