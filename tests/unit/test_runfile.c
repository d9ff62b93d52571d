/* SPDX-License-Identifier: Apache-2.0 */
/* test_runfile.c - run files: what is taken, and each mistake at its own line with nothing changed. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "scratch.h"
#include "support/check.h"
#include "train/runfile.h"

static oct_status parse(struct oct_config *config, const char *text) {
    return oct__runfile_parse("run.yaml", text, strlen(text), config);
}

#ifdef OCT_HAVE_YAML

static struct oct_config *fresh(void) {
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    return config;
}

/* Every option of both, and whether it was set. */
static int same_config(const struct oct_config *a, const struct oct_config *b) {
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (strcmp(oct_config_get(a, option->name), oct_config_get(b, option->name)) != 0 ||
            oct_config_is_set(a, option->name) != oct_config_is_set(b, option->name)) {
            print_message("%s: '%s' (%d) and '%s' (%d)\n", option->name,
                          oct_config_get(a, option->name), oct_config_is_set(a, option->name),
                          oct_config_get(b, option->name), oct_config_is_set(b, option->name));
            return 0;
        }
    }
    return 1;
}

static void takes(void **state) {
    (void)state;
    static const struct {
        const char *text, *name, *value;
    } cases[] = {
        {"nodes: 8\n", "nodes", "8"},
        {"nodes: 8", "nodes", "8"},
        {"nodes:   8   # as in the paper\n", "nodes", "8"},
        {"nodes: '16'\n", "nodes", "16"},
        {"nodes: \"16\"\n", "nodes", "16"},
        {"'nodes': 16\n", "nodes", "16"},
        {"nodes:\n  16\n", "nodes", "16"},
        {"# a comment\n\n---\nnodes: 16\n...\n", "nodes", "16"},
        {"%YAML 1.1\n---\nnodes: 16\n", "nodes", "16"},
        {"\xef\xbb\xbfnodes: 16\n", "nodes", "16"},
        {"epochs: 3\r\nnodes: 16\r\n", "nodes", "16"},
        {"{nodes: 16, lr: 0.1}\n", "nodes", "16"},
        {"{\"nodes\": 16, \"lr\": 0.1}\n", "lr", "0.1"},
        {"weight-decay: 5e-4\n", "weight-decay", "5e-4"},
        {"weight_decay: 5e-4\n", "weight-decay", "5e-4"},
        {"data: synthetic:samples=64,classes=4\n", "data", "synthetic:samples=64,classes=4"},
        {"data: \"synthetic:samples=64\"\n", "data", "synthetic:samples=64"},
        {"partition: dirichlet:0.1\n", "partition", "dirichlet:0.1"},
        {"partition: skew:0.5\n", "partition", "skew:0.5"},
        {"skew: 0.25\n", "partition", "skew:0.25"},
        {"skew: 1\n", "partition", "skew:1"},
        {"checkpoint: some where/on disk\n", "checkpoint", "some where/on disk"},
        {"checkpoint: \"a: b\"\n", "checkpoint", "a: b"},
        {"checkpoint: na\xc3\xafve\n", "checkpoint", "na\xc3\xafve"},
        {"resume: here\n", "resume", "here"},
        {"db: none\n", "db", "none"},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = fresh();
        print_message("%s", cases[i].text);
        EXPECT_OK(parse(config, cases[i].text));
        assert_string_equal(oct_config_get(config, cases[i].name), cases[i].value);
        assert_true(oct_config_is_set(config, cases[i].name));
        assert_false(oct_config_is_set(config, "batch"));
        oct_config_destroy(config);
    }
}

/* The typed fields, which the trainer reads, come along with the texts. */
static void fields_follow(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    EXPECT_OK(oct_config_set(config, "epochs", "77"));
    EXPECT_OK(parse(config, "nodes: 16\nlr: 0.125\nprecision: fp32\nsamples: 100\n"));
    assert_int_equal(config->nodes, 16);
    assert_int_equal(config->samples, 100);
    assert_int_equal(config->epochs, 77);
    assert_true(config->lr == 0.125);
    assert_string_equal(config->precision, "fp32");
    oct_config_destroy(config);
}

static void nothing_is_all_defaults(void **state) {
    (void)state;
    static const char *const texts[] = {"",           "\n",   "# only words\n", "---\n",
                                        "---\n...\n", "{}\n", "\xef\xbb\xbf"};
    struct oct_config *plain = fresh();
    for (size_t i = 0; i < OCT_COUNT_OF(texts); i++) {
        struct oct_config *config = fresh();
        EXPECT_OK(parse(config, texts[i]));
        assert_true(same_config(config, plain));
        oct_config_destroy(config);
    }
    oct_config_destroy(plain);
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        /* the five that must be caught wherever they stand */
        {"lr: 0.1\nnodes: 8x\nseed: 1\n",
         "run.yaml:2: nodes is '8x', expected a whole number from 1 to 65536"},
        {"lr: 0.1\n\nskew: 0.8abc\n",
         "run.yaml:3: skew is '0.8abc', expected a number from 0 to 1"},
        {"skew: 0,8\nlr: 0.1\n", "run.yaml:1: skew is '0,8', expected a number from 0 to 1"},
        {"lr: 0.1\n# words\nskew: nan\n", "run.yaml:3: skew is 'nan'"},
        {"lr: 0.1\nnodes: 8\nepoch: 3\n",
         "run.yaml:3: 'epoch' is no option; did you mean 'epochs'?"},
        /* numbers and choices */
        {"skew: 1.5\n", "run.yaml:1: skew is '1.5', expected a number from 0 to 1"},
        {"skew: -0.1\n", "run.yaml:1: skew is '-0.1'"},
        {"skew: .nan\n", "run.yaml:1: skew is '.nan'"},
        {"partition: skew:7\n",
         "run.yaml:1: partition skew: share is '7', expected a number from 0 to 1"},
        {"nodes: 0\n", "run.yaml:1: nodes is '0'"},
        {"nodes: 0x10\n", "run.yaml:1: nodes is '0x10'"},
        {"nodes: 1_000\n", "run.yaml:1: nodes is '1_000'"},
        {"nodes: 8.0\n", "run.yaml:1: nodes is '8.0'"},
        {"nodes: true\n", "run.yaml:1: nodes is 'true'"},
        {"nodes: '8 '\n", "run.yaml:1: nodes is '8 '"},
        {"nodes: ''\n", "run.yaml:1: nodes is ''"},
        {"lr: .inf\n", "run.yaml:1: lr is '.inf'"},
        {"precision: int9\n", "run.yaml:1: precision is 'int9', expected one of: int8, fp32"},
        {"data: synthetc\n", "did you mean 'synthetic'?"},
        {"model:\n  # in between\n\n  resnet2\n", "run.yaml:4: model is 'resnet2'"},
        /* nothing where something should be */
        {"epochs: 1\nlr:\nnodes: 8\n", "run.yaml:2: lr has no value"},
        {"lr: ~\n", "run.yaml:1: lr has no value"},
        {"lr: null\n", "run.yaml:1: lr has no value"},
        {"db: Null\n", "run.yaml:1: db has no value"},
        {"nodes: 8\nlr:", "run.yaml:2: lr has no value"},
        {"nodes: 8\n? lr\n", "run.yaml:2: lr has no value"},
        {": 8\n", "run.yaml:1: did not find expected key"},
        {"'': 8\n", "run.yaml:1: '' is no option"},
        /* twice */
        {"lr: 0.1\nnodes: 8\nlr: 0.1\n", "run.yaml:3: lr is given twice, first in line 1"},
        {"weight-decay: 0\nweight_decay: 0\n",
         "run.yaml:2: weight_decay is given twice, first in line 1"},
        {"skew: 0.1\nskew: 0.1\n", "run.yaml:2: skew is given twice, first in line 1"},
        {"nodes: 8\npartition: skew:1\nskew: 0.1\n",
         "run.yaml:3: skew sets the same as partition in line 2"},
        {"skew: 0.1\npartition: skew:0.1\n",
         "run.yaml:2: partition sets the same as skew in line 1"},
        /* forms that a run file has not */
        {"8\n", "run.yaml:1: a single value where lines such as 'nodes: 8' were expected"},
        {"nodes\n", "run.yaml:1: a single value"},
        {"\n- nodes: 8\n", "run.yaml:2: a list where lines"},
        {"nodes: 8\nlr: [0.1]\n", "run.yaml:2: lr is a list, expected one value"},
        {"lr:\n  - 0.1\n", "run.yaml:2: lr is a list"},
        {"lr:\n  first: 0.1\n", "run.yaml:2: lr is a mapping, expected one value"},
        {"train:\n  lr: 0.1\n", "run.yaml:1: 'train' is no option"},
        {"lr: {a: 1}\n", "run.yaml:1: lr is a mapping"},
        {"? [a, b]\n: 1\n", "run.yaml:1: an option's name was expected, not a list"},
        {"? {a: b}\n: 1\n", "run.yaml:1: an option's name was expected, not a mapping"},
        {"nodes: &n 8\nepochs: *n\n", "run.yaml:1: run files have no anchors"},
        {"nodes: 8\nepochs: *n\n", "run.yaml:2: run files have no aliases"},
        {"nodes: 8\n<<: *n\n", "run.yaml:2: "},
        {"&top\nnodes: 8\n", "run.yaml:1: run files have no anchors"},
        {"nodes: !!int 8\n", "run.yaml:1: run files have no tags"},
        {"nodes: ! 8\n", "run.yaml:1: run files have no tags"},
        {"!run\nnodes: 8\n", "run.yaml:1: run files have no tags"},
        {"nodes: 8\nlr: !x {a: 1}\n", "run.yaml:2: run files have no tags"},
        {"nodes: 8\n---\nnodes: 9\n", "run.yaml:2: a second document; a run file has one"},
        {"---\n---\n", "run.yaml:2: a second document"},
        {"db: |\n  one\n  two\n", "run.yaml:1: db has a value of several lines"},
        {"db: >\n  one\n", "run.yaml:1: db has a value of several lines"},
        {"db: one\n  two\n", "run.yaml:1: db has a value of several lines"},
        {"db: \"one\n  two\"\n", "run.yaml:1: db has a value of several lines"},
        {"nodes: 8\ndb: \"a\\0b\"\n", "run.yaml:2: db has a control character"},
        {"db: \"a\\nb\"\n", "run.yaml:1: db has a control character"},
        {"db: \"\\e[31m\"\n", "run.yaml:1: db has a control character"},
        {"\"no\\0des\": 8\n", "run.yaml:1: a name of 6 characters"},
        /* what is no YAML */
        {"nodes: 8\nepochs 3\nlr: 0.1\n", "run.yaml:2: could not find expected ':'"},
        {"nodes: 8\nepochs 3\n", "run.yaml:2: could not find expected ':'"},
        {"nodes: 8\n  epochs: 3\n", "run.yaml:1: nodes has a value of several lines"},
        {"nodes: 8\n\tepochs: 3\n", "run.yaml:2: "},
        {"nodes: 8\ndb: \"abc\nlr: 0.1\n", "run.yaml:2: "},
        {"nodes: 8\nlr: [0.1\n", "run.yaml:2: lr is a list"},
        {"nodes: 8\n}\n", "run.yaml:2: "},
        {"{nodes: 8,\n# words\nlr: 1", "run.yaml:3: did not find expected ',' or '}'"},
        {"{nodes: 8,\n# words\nlr: 1\n", "run.yaml:3: did not find expected ',' or '}'"},
        {"nodes: 8\ndb: @x\n", "run.yaml:2: "},
        {"%YAML 3.0\n---\nnodes: 8\n", "run.yaml:1: "},
        /* bytes */
        {"nodes: 8\ndb: \xff\n", "run.yaml:2: byte 0xff is not UTF-8"},
        {"nodes: 8\n\ndb: \xc3\n", "run.yaml:3: byte 0xc3 is not UTF-8"},
        {"db: \xe2\x82", "run.yaml:1: byte 0xe2 is not UTF-8"},
        {"db: \xc0\xaf\n", "run.yaml:1: byte 0xc0 is not UTF-8"},
        {"db: \xed\xa0\x80\n", "run.yaml:1: byte 0xed is not UTF-8"},
        {"db: \xf5\x80\x80\x80\n", "run.yaml:1: byte 0xf5 is not UTF-8"},
        {"\xff\xfen\n", "run.yaml:1: byte 0xff is not UTF-8"},
        {"nodes: 8\ndb: a\x1b[31m\n", "run.yaml:2: character U+001B has no place"},
        {"nodes: 8\rlr: 0.1\r", "run.yaml:1: character U+000D has no place"},
        {"db: a\xc2\x85z\n", "run.yaml:1: character U+0085 has no place"},
        {"nodes: 8\n\xef\xbb\xbflr: 1\n", "run.yaml:2: character U+FEFF has no place"},
        {"db: a\xe2\x80\xa8z\n", "run.yaml:1: character U+2028 has no place"},
    };
    struct oct_config *before = fresh();
    EXPECT_OK(oct_config_set(before, "batch", "77"));
    for (size_t i = 0; i < OCT_COUNT_OF(cases); i++) {
        struct oct_config *config = NULL;
        EXPECT_OK(oct_config_copy(before, &config));
        EXPECT_FAILURE(parse(config, cases[i].text), OCT_STATUS_INVALID, cases[i].says);
        assert_int_equal(strncmp(oct_last_error(), "run.yaml:", 9), 0);
        assert_true(same_config(config, before));
        oct_config_destroy(config);
    }
    oct_config_destroy(before);
}

static void refuses_strange_bytes(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    EXPECT_FAILURE(oct__runfile_parse("run.yaml", "nodes: 8\nlr:\0 1\n", 16, config),
                   OCT_STATUS_INVALID, "run.yaml:2: character U+0000 has no place");
    /* Nothing is read behind the end. */
    EXPECT_OK(oct__runfile_parse("run.yaml", "nodes: 16", 8, config));
    assert_string_equal(oct_config_get(config, "nodes"), "1");
    size_t most = OCT_RUNFILE_MOST_BYTES;
    char *large = malloc(most + 2);
    assert_non_null(large);
    memset(large, '#', most + 2);
    EXPECT_OK(oct__runfile_parse("run.yaml", large, most, config));
    EXPECT_FAILURE(oct__runfile_parse("run.yaml", large, most + 1, config), OCT_STATUS_INVALID,
                   "more than 1048576 bytes");
    /* A name or value as long as a file may be. */
    memset(large, 'a', most);
    memcpy(large, "db: ", 4);
    EXPECT_OK(oct__runfile_parse("run.yaml", large, most, config));
    memset(large, 'a', most);
    memcpy(large, "? ", 2);
    EXPECT_FAILURE(oct__runfile_parse("run.yaml", large, most, config), OCT_STATUS_INVALID,
                   "run.yaml:1: a name of ");
    /* As deep as it can be. */
    memset(large, '[', most);
    EXPECT_FAILURE(oct__runfile_parse("run.yaml", large, most, config), OCT_STATUS_INVALID,
                   "run.yaml:1: a list");
    memset(large, '{', most);
    EXPECT_FAILURE(oct__runfile_parse("run.yaml", large, most, config), OCT_STATUS_INVALID,
                   "run.yaml:1: ");
    free(large);
    oct_config_destroy(config);
}

/* The command line wins, but a wrong value in the file is still wrong. */
static void what_was_set_stays(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    EXPECT_OK(oct_config_set(config, "nodes", "4"));
    EXPECT_OK(oct_config_set(config, "partition", "dirichlet:1"));
    EXPECT_OK(parse(config, "nodes: 16\nepochs: 3\nskew: 0.1\n"));
    assert_string_equal(oct_config_get(config, "nodes"), "4");
    assert_string_equal(oct_config_get(config, "epochs"), "3");
    assert_string_equal(oct_config_get(config, "partition"), "dirichlet:1");
    EXPECT_FAILURE(parse(config, "epochs: 5\nnodes: 16x\n"), OCT_STATUS_INVALID,
                   "run.yaml:2: nodes is '16x'");
    assert_string_equal(oct_config_get(config, "nodes"), "4");
    assert_string_equal(oct_config_get(config, "epochs"), "3");
    oct_config_destroy(config);
}

/* Every option's own default, written into a file, is accepted and is the default. */
static void every_option_can_be_written(void **state) {
    (void)state;
    char text[8192];
    size_t used = 0;
    int n = 0;
    const struct oct_option *option;
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        if (option->fallback[0]) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s: %s\n", option->name,
                                     option->fallback);
            n++;
        }
    }
    assert_true(used < sizeof text && n > 20);
    struct oct_config *config = fresh(), *plain = fresh();
    EXPECT_OK(parse(config, text));
    for (int i = 0; (option = oct_option_at(i)) != NULL; i++) {
        assert_string_equal(oct_config_get(config, option->name),
                            oct_config_get(plain, option->name));
        assert_int_equal(oct_config_is_set(config, option->name), option->fallback[0] != '\0');
    }
    print_message("%d options\n", n);
    oct_config_destroy(config);
    oct_config_destroy(plain);
}

/* The message that comes of one about `config`. */
static const char *located(const struct oct_config *config, const char *message) {
    oct_status status = oct__fail(OCT_STATUS_INVALID, "%s", message);
    assert_int_equal(oct_config_locate(config, status), OCT_STATUS_INVALID);
    print_message("%s\n", oct_last_error());
    return oct_last_error();
}

static void says_where(void **state) {
    (void)state;
    static const char text[] =
        "nodes: 7\n\ntopology: torus:rows=4\nskew: 0.5\nslow_momentum: 0.5\n";
    static const char grid[] = "torus: 7 nodes make no grid", slow[] = "slow-momentum goes with …";
    struct oct_config *config = fresh(), *other = NULL;
    EXPECT_OK(parse(config, text));
    assert_string_equal(located(config, grid), "run.yaml:3: torus: 7 nodes make no grid");
    assert_string_equal(located(config, slow), "run.yaml:5: slow-momentum goes with …");
    assert_string_equal(located(config, "run.yaml:5: slow-momentum …"),
                        "run.yaml:5: slow-momentum …");
    assert_string_equal(located(config, "skew is off"), "run.yaml:4: skew is off");
    assert_string_equal(located(config, "partition is off"), "run.yaml:4: partition is off");
    assert_string_equal(located(config, "algorithm x, and this topology's is not"),
                        "run.yaml:3: algorithm x, and this topology's is not");
    assert_string_equal(located(config, "weights metropolis (--slow-momentum)"),
                        "run.yaml:5: weights metropolis (--slow-momentum)");
    /* no options: a word, paths, the name of a plug-in that is not the first word, nothing */
    static const char *const others[] = {"8 nodes",
                                         "nodes/ring.txt:2: no edge",
                                         "file: topology.txt",
                                         "no torus: here",
                                         "torus of 7",
                                         "",
                                         "—"};
    for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
        assert_string_equal(located(config, others[i]), others[i]);
    }
    /* nor other failures, nor what was set anew, by hand */
    oct_status status = oct__fail(OCT_STATUS_IO, "%s", slow);
    assert_int_equal(oct_config_locate(config, status), OCT_STATUS_IO);
    assert_string_equal(oct_last_error(), slow);
    assert_int_equal(oct_config_locate(config, OCT_OK), OCT_OK);
    assert_int_equal(oct_config_locate(NULL, OCT_STATUS_INVALID), OCT_STATUS_INVALID);
    EXPECT_OK(oct_config_set(config, "slow-momentum", "0.6"));
    assert_string_equal(located(config, slow), slow);
    /* copies know it, too */
    EXPECT_OK(oct_config_recast(config, "fp32", &other));
    assert_string_equal(located(other, slow), slow);
    assert_string_equal(located(other, grid), "run.yaml:3: torus: 7 nodes make no grid");
    oct_config_destroy(other);
    /* what was set before the file stays, with no place in it */
    EXPECT_OK(oct_config_create(&other));
    EXPECT_OK(oct_config_set(other, "topology", "ring"));
    EXPECT_OK(parse(other, text));
    assert_string_equal(located(other, grid), grid);
    assert_string_equal(located(other, slow), "run.yaml:5: slow-momentum goes with …");
    oct_config_destroy(other);
    oct_config_destroy(config);
}

/* Memory runs out at every request: nothing of the file has been set. */
static void memory_runs_out(void **state) {
    (void)state;
    struct oct_config *config = fresh(), *plain = fresh();
    uint64_t n = 1;
    for (;; n++) {
        oct__alloc_fail_after(n);
        oct_status status = parse(config, "nodes: 16\nskew: 0.5\nlr: 0.5\n");
        oct__alloc_fail_after(0);
        if (status == OCT_OK) {
            break;
        }
        assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        assert_true(same_config(config, plain));
    }
    print_message("%llu requests\n", (unsigned long long)n - 1);
    assert_true(n > 30);
    assert_string_equal(oct_config_get(config, "nodes"), "16");
    oct_config_destroy(config);
    oct_config_destroy(plain);
}

static void reads_files(void **state) {
    (void)state;
    char folder[SCRATCH_PATH];
    assert_non_null(scratch_make(folder));
    struct oct_config *config = fresh();
    const char *path = scratch_at(folder, "good.yaml");
    static const char good[] = "nodes: 16\n", bad[] = "nodes: 16\nnoodles: 3\n";
    assert_int_equal(scratch_write(path, good, sizeof good - 1), 0);
    EXPECT_OK(oct_config_read(config, path));
    assert_string_equal(oct_config_get(config, "nodes"), "16");
    path = scratch_at(folder, "bad.yaml");
    assert_int_equal(scratch_write(path, bad, sizeof bad - 1), 0);
    EXPECT_FAILURE(oct_config_read(config, path), OCT_STATUS_INVALID,
                   "bad.yaml:2: 'noodles' is no option");
    assert_int_equal(strncmp(oct_last_error(), path, strlen(path)), 0);
    EXPECT_FAILURE(oct_config_read(config, scratch_at(folder, "none.yaml")), OCT_STATUS_NOT_FOUND,
                   "none.yaml: no such run file");
    EXPECT_FAILURE(oct_config_read(config, folder), OCT_STATUS_IO, "Is a directory");
    EXPECT_FAILURE(oct_config_read(config, NULL), OCT_STATUS_INVALID, "the path is NULL");
    EXPECT_FAILURE(oct_config_read(NULL, path), OCT_STATUS_INVALID, "the configuration is NULL");
    /* Without end, and yet refused at once. */
    EXPECT_FAILURE(oct_config_read(config, "/dev/zero"), OCT_STATUS_INVALID,
                   "/dev/zero:1: more than 1048576 bytes");
    /* A long path keeps its end, and the line. */
    char name[300] = "";
    memset(name, 'd', 250);
    path = scratch_at(folder, name);
    assert_int_equal(scratch_write(path, bad, sizeof bad - 1), 0);
    EXPECT_FAILURE(oct_config_read(config, path), OCT_STATUS_INVALID, "dddd:2: 'noodles'");
    oct_config_destroy(config);
    scratch_remove(folder);
}

static void the_example_is_right(void **state) {
    (void)state;
    struct oct_config *config = fresh();
    EXPECT_OK(oct_config_read(config, OCT_TEST_FOLDER "/../../examples/run.yaml"));
    assert_true(oct_config_is_set(config, "nodes") && oct_config_is_set(config, "partition"));
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes),
        cmocka_unit_test(fields_follow),
        cmocka_unit_test(nothing_is_all_defaults),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_strange_bytes),
        cmocka_unit_test(what_was_set_stays),
        cmocka_unit_test(every_option_can_be_written),
        cmocka_unit_test(says_where),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(the_example_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void says_what_is_missing(void **state) {
    (void)state;
    struct oct_config *config = NULL;
    EXPECT_OK(oct_config_create(&config));
    EXPECT_FAILURE(parse(config, "nodes: 8\n"), OCT_STATUS_UNSUPPORTED, "install libyaml-dev");
    EXPECT_FAILURE(oct_config_read(config, OCT_TEST_FOLDER "/../../examples/run.yaml"),
                   OCT_STATUS_UNSUPPORTED, "libyaml-dev");
    assert_false(oct_config_is_set(config, "nodes"));
    oct_config_destroy(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
