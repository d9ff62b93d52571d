/* SPDX-License-Identifier: Apache-2.0 */
/* test_manifest.c - src/train/manifest.c and resume.c: the text of a checkpoint, strictly read, and
 * the options of a run that goes on.
 */
#include <stdlib.h>

#include <octet/config.h>

#include "scratch.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/checkpoint.h"

static char folder[SCRATCH_PATH];

/* --- manifests by hand ----------------------------------------------------------------------- */

static oct_status parse_sealed(const char *body, struct oct__manifest **out) {
    char text[4096], sum[OCT_SHA256_TEXT];
    scratch_sha256(body, strlen(body), sum);
    int n = snprintf(text, sizeof text, "%send %s\n", body, sum);
    assert_true(n > 0 && (size_t)n < sizeof text);
    /* On the heap and exactly as long, so that a sanitizer sees any step too far. */
    uint8_t *copy = malloc((size_t)n);
    assert_non_null(copy);
    memcpy(copy, text, (size_t)n);
    oct_status status = oct__manifest_parse("manifest", copy, (size_t)n, out);
    free(copy);
    return status;
}

#define SUM "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define BEGIN "octet checkpoint 1\nstep 5\nnodes 1\n"
#define FILE0 "file 12 " SUM " node-00000.safetensors\n"

static void manifests_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *body;
        oct_status status;
        const char *piece;
    } cases[] = {
        {BEGIN FILE0, OCT_OK, ""},
        {BEGIN "set data-dir a b%25%0A%7F\xc3\xa9\ndefault lr 0.02\nset db \n"
               "counter a 7ff80000000000ff\ncounter b.00001 3ff0000000000000\n" FILE0,
         OCT_OK, ""},
        {"octet checkpoint 1\nstep 18446744073709551615\nnodes 1\n" FILE0, OCT_OK, ""},
        {"octet checkpoint 2\nstep 5\nnodes 1\n" FILE0, OCT_STATUS_UNSUPPORTED, "another version"},
        {"octet checkpoint 1.5\n" FILE0, OCT_STATUS_UNSUPPORTED, "another version"},
        {"octet checkpoin\n", OCT_STATUS_CORRUPT, "line 1: 'octet checkpoint '"},
        {"octet checkpoint 1\nstep 05\nnodes 1\n" FILE0, OCT_STATUS_CORRUPT, "a whole number"},
        {"octet checkpoint 1\nstep \nnodes 1\n" FILE0, OCT_STATUS_CORRUPT, "a whole number"},
        {"octet checkpoint 1\nstep -5\nnodes 1\n" FILE0, OCT_STATUS_CORRUPT, "a whole number"},
        {"octet checkpoint 1\nstep 5 \nnodes 1\n" FILE0, OCT_STATUS_CORRUPT, "end of line"},
        {"octet checkpoint 1\nstep 18446744073709551616\nnodes 1\n" FILE0, OCT_STATUS_CORRUPT,
         "line 2: a smaller number"},
        {"octet checkpoint 1\nnodes 1\nstep 5\n" FILE0, OCT_STATUS_CORRUPT, "'step '"},
        {"octet checkpoint 1\nstep 5\nnodes 0\n", OCT_STATUS_CORRUPT, "at least one node"},
        {"octet checkpoint 1\nstep 5\nnodes 65537\n" FILE0, OCT_STATUS_CORRUPT, "a smaller number"},
        {"octet checkpoint 1\nstep 5\nnodes 2\n" FILE0, OCT_STATUS_CORRUPT,
         "too short for the files"},
        {"octet checkpoint 1\nstep 5\nnodes 65536\n" FILE0, OCT_STATUS_CORRUPT,
         "too short for the files of 65536 nodes"},
        {BEGIN, OCT_STATUS_CORRUPT, "too short for the files"},
        {BEGIN FILE0 FILE0, OCT_STATUS_CORRUPT, "line 5: the last line expected"},
        {BEGIN FILE0 "\n", OCT_STATUS_CORRUPT, "the last line"},
        {BEGIN "file 12 " SUM " node-00001.safetensors\n", OCT_STATUS_CORRUPT, "node-00000"},
        {BEGIN "file 12 " SUM " ../../../../../../etc/passwd\n", OCT_STATUS_CORRUPT, "node-00000"},
        {BEGIN "file 9223372036854775808 " SUM " node-00000.safetensors\n", OCT_STATUS_CORRUPT,
         "a smaller number"},
        {BEGIN "file 12 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"
               " node-00000.safetensors\n",
         OCT_STATUS_CORRUPT, "lower case"},
        {BEGIN "set lr\n" FILE0, OCT_STATUS_CORRUPT, "line 4: a name and a blank"},
        {BEGIN "set  lr\n" FILE0, OCT_STATUS_CORRUPT, "a name and a blank"},
        {BEGIN "set lr 1\ndefault lr 2\n" FILE0, OCT_STATUS_CORRUPT,
         "line 5: option lr stands twice"},
        {BEGIN "set lr 1%\n" FILE0, OCT_STATUS_CORRUPT, "%XX"},
        {BEGIN "set lr 1%4\n" FILE0, OCT_STATUS_CORRUPT, "%XX"},
        {BEGIN "set lr 1%00\n" FILE0, OCT_STATUS_CORRUPT, "%XX"},
        {BEGIN "set lr 1%41\n" FILE0, OCT_STATUS_CORRUPT, "%XX of a character that needs it"},
        {BEGIN "set lr 1%0a\n" FILE0, OCT_STATUS_CORRUPT, "%XX"},
        {BEGIN "set lr 1\t\n" FILE0, OCT_STATUS_CORRUPT, "control character"},
        {BEGIN "set lr 1\r\n" FILE0, OCT_STATUS_CORRUPT, "control character"},
        {BEGIN "counter b 3ff0000000000000\ncounter a 3ff0000000000000\n" FILE0, OCT_STATUS_CORRUPT,
         "behind that of the counter before it"},
        {BEGIN "counter a 3ff0000000000000\ncounter a 3ff0000000000000\n" FILE0, OCT_STATUS_CORRUPT,
         "behind that"},
        {BEGIN "counter a 3ff000000000000\n" FILE0, OCT_STATUS_CORRUPT, "hexadecimal digit"},
        {BEGIN "counter a 3ff00000000000000\n" FILE0, OCT_STATUS_CORRUPT, "end of line"},
        {BEGIN "counter a/b 3ff0000000000000\n" FILE0, OCT_STATUS_CORRUPT, "letters, digits"},
        {BEGIN "counter aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 3ff0000000000000\n" FILE0,
         OCT_STATUS_CORRUPT, "a name"},
        {BEGIN "counter a 3ff0000000000000\nset lr 1\n" FILE0, OCT_STATUS_CORRUPT, "'file '"},
        {"", OCT_STATUS_CORRUPT, "last line is missing"},
        {"\n", OCT_STATUS_CORRUPT, "'octet checkpoint '"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct__manifest *manifest = NULL;
        oct_status status = parse_sealed(cases[i].body, &manifest);
        print_message("%zu: %s: %s\n", i, oct_status_name(status),
                      status == OCT_OK ? "" : oct_last_error());
        assert_int_equal(status, cases[i].status);
        if (status != OCT_OK) {
            assert_null(manifest);
            assert_non_null(strstr(oct_last_error(), cases[i].piece));
            continue;
        }
        /* There is one text for it. */
        struct oct__text text = {0};
        EXPECT_OK(oct__manifest_write(manifest, &text));
        assert_memory_equal(text.at, cases[i].body, strlen(cases[i].body));
        oct__text_fini(&text);
        oct__manifest_close(manifest);
    }
    struct oct__manifest *manifest = NULL;
    EXPECT_OK(parse_sealed(cases[1].body, &manifest));
    assert_string_equal(manifest->options[0].value, "a b%\n\x7f\xc3\xa9");
    assert_string_equal(manifest->options[2].value, "");
    oct__manifest_close(manifest);
}

/* --- options of a run that goes on ----------------------------------------------------------- */

static struct oct_config *config_of(const char *const *pairs) {
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    for (; pairs[0]; pairs += 2) {
        EXPECT_OK(oct_config_set(config, pairs[0], pairs[1]));
    }
    return config;
}

/* A run without any state to speak of. */
static struct oct__param one = {.name = "w", .c = 1, .n_dims = 1, .count = 1};
static const struct oct__row row = {.items = &one, .n_items = 1, .n_elements = 16};

static int shelf_at(void *context, int node, int index, struct oct__shelf *out) {
    (void)context, (void)node;
    *out = (struct oct__shelf){"x", &row};
    return index == 0;
}

static oct_status shelf_read(void *context, int node, int index, float *values) {
    (void)context, (void)node, (void)index;
    memset(values, 0, row.n_elements * sizeof *values);
    return OCT_OK;
}

static void save_with(const char *const *pairs) {
    struct oct_config *config = config_of(pairs);
    const struct oct__stock stock = {
        .config = config, .step = 7, .n_nodes = 1, .shelf = shelf_at, .read = shelf_read};
    scratch_remove(folder);
    assert_non_null(scratch_make(folder));
    EXPECT_OK(oct__checkpoint_save(folder, &stock));
    oct_config_destroy(config);
}

static void options_come_back(void **state) {
    (void)state;
    const char *const saved[] = {"lr",           "0.5",       "epochs",     "12",
                                 "weight-decay", "1e-3",      "checkpoint", "old",
                                 "threads",      "2",         "every",      "3",
                                 "resume",       "old",       "data",       "synthetic:samples=512",
                                 "db",           "a b%\n.db", NULL};
    save_with(saved);
    struct oct_config *config = config_of((const char *const[]){
        "lr", "5e-1", "threads", "7", "data-dir", "/elsewhere", "every", "9", NULL});
    EXPECT_OK(oct_config_resume(config, folder));
    const char *const expected[] = {"lr",
                                    "5e-1",
                                    "epochs",
                                    "12",
                                    "weight-decay",
                                    "1e-3",
                                    "threads",
                                    "7",
                                    "every",
                                    "9",
                                    "db",
                                    "a b%\n.db",
                                    "data-dir",
                                    "/elsewhere",
                                    "resume",
                                    folder,
                                    "checkpoint",
                                    folder,
                                    "batch",
                                    "32",
                                    "data",
                                    "synthetic:samples=512",
                                    NULL};
    for (const char *const *pair = expected; *pair; pair += 2) {
        print_message("%s %s\n", pair[0], oct_config_get(config, pair[0]));
        assert_string_equal(oct_config_get(config, pair[0]), pair[1]);
        assert_int_equal(oct_config_is_set(config, pair[0]), strcmp(pair[0], "batch") != 0);
    }
    oct_config_destroy(config);
}

static void options_that_disagree(void **state) {
    (void)state;
    save_with((const char *const[]){"lr", "0.5", "seed", "3", NULL});
    static const struct {
        const char *name, *value, *piece;
    } cases[] = {
        {"lr", "0.25", "lr is '0.25', but the run in"},
        {"lr", "0.25", "has '0.5'; leave the option out"},
        {"batch", "64", "has '32'"},
        {"seed", "4", "has '3'"},
        {"precision", "fp32", "precision is 'fp32'"},
        {"final-statistics", "own", "has 'mix'"},
        {"norm", "groupnorm", "left it to its default"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config =
            config_of((const char *const[]){"epochs", "10", cases[i].name, cases[i].value, NULL});
        EXPECT_FAILURE(oct_config_resume(config, folder), OCT_STATUS_INVALID, cases[i].piece);
        /* As it was. */
        assert_string_equal(oct_config_get(config, cases[i].name), cases[i].value);
        assert_string_equal(oct_config_get(config, "resume"), "");
        assert_int_equal(oct_config_is_set(config, "seed"), strcmp(cases[i].name, "seed") == 0);
        oct_config_destroy(config);
    }
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_FAILURE(oct_config_resume(config, scratch_at(folder, "none")), OCT_STATUS_NOT_FOUND,
                   "no such folder");
    EXPECT_FAILURE(oct_config_resume(config, ""), OCT_STATUS_INVALID, "folder");
    EXPECT_FAILURE(oct_config_resume(NULL, folder), OCT_STATUS_INVALID, "configuration");
    oct_config_destroy(config);
}

/* A checkpoint of another version of Octet: a default that has changed, an option that is not known,
 * one that was not known yet. */
static void options_of_another_version(void **state) {
    (void)state;
    save_with((const char *const[]){"seed", "3", NULL});
    size_t n;
    char *text = (char *)file_read(scratch_at(folder, "step-000000000007/manifest"), &n);
    text[n] = '\0';
    static const struct {
        const char *from, *to, *name, *value;
        oct_status status;
    } cases[] = {
        {"default lr 0.02\n", "default lr 0.125\n", "lr", "0.125", OCT_OK},
        {"default lr 0.02\n", "", "lr", "0.02", OCT_OK},
        {"default final-statistics mix\n", "", "final-statistics", "own", OCT_OK}, /* as it was */
        {"default final-statistics mix\n", "default final-statistics mix\n", "final-statistics",
         "mix", OCT_OK},
        {"default lr 0.02\n", "default lr 0.02\nset warp 9\n", NULL, "option warp",
         OCT_STATUS_UNSUPPORTED},
        {"default lr 0.02\n", "set lr fast\n", NULL, "lr is 'fast'", OCT_STATUS_INVALID},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        char body[8192], sum[OCT_SHA256_TEXT];
        const char *at = strstr(text, cases[i].from), *end = strstr(text, "\nend ");
        assert_true(at && end);
        int used = snprintf(body, sizeof body - 80, "%.*s%s%.*s", (int)(at - text), text,
                            cases[i].to, (int)(end + 1 - at - (ptrdiff_t)strlen(cases[i].from)),
                            at + strlen(cases[i].from));
        assert_true(used > 0 && (size_t)used < sizeof body - 80);
        scratch_sha256(body, (size_t)used, sum);
        used += snprintf(body + used, 80, "end %s\n", sum);
        file_write(scratch_at(folder, "step-000000000007/manifest"), body, (size_t)used);
        struct oct_config *config = NULL;
        EXPECT_OK(oct_config_create(&config));
        oct_status status = oct_config_resume(config, folder);
        print_message("%s -> %s: %s %s\n", cases[i].from, cases[i].to, oct_status_name(status),
                      status == OCT_OK ? "" : oct_last_error());
        assert_int_equal(status, cases[i].status);
        if (status == OCT_OK) {
            assert_string_equal(oct_config_get(config, cases[i].name), cases[i].value);
            assert_string_equal(oct_config_get(config, "seed"), "3");
        } else {
            assert_non_null(strstr(oct_last_error(), cases[i].value));
            assert_int_equal(oct_config_is_set(config, "seed"), 0);
        }
        oct_config_destroy(config);
    }
    free(text);
}

static int set_up(void **state) {
    (void)state;
    return scratch_make(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifests_by_hand),
        cmocka_unit_test(options_come_back),
        cmocka_unit_test(options_that_disagree),
        cmocka_unit_test(options_of_another_version),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
