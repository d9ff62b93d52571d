/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_file.c - src/train/model.c: weights as bytes, what comes back, and what is refused. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/grid.h"
#include "kernels/kernels.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/folder.h"
#include "train/model.h"
#include "train/safetensors.h"

static struct oct_graph graph;
static const struct oct__row *row;
static struct folder folder;
static float *values, *loaded;

static oct_status build(struct oct_graph *g, const char *norm, int channels) {
    OCT_TRY(oct__graph_init(g, 6, 6, 3, 4, oct__norm_find(norm)));
    int x = oct_graph_conv(g, "conv", oct_graph_input(g),
                           (struct oct_conv){.channels = channels, .kernel = 3, .bias = 1});
    x = oct_graph_global_pool(g, "pool", oct_graph_norm(g, "norm", x));
    oct_graph_output(g, oct_graph_linear(g, "head", x, 4));
    return oct__graph_check(g);
}

static int set_up(void **state) {
    (void)state;
    folder_open(&folder);
    if (build(&graph, "groupnorm", 5) != OCT_OK) {
        return -1;
    }
    row = &graph.params;
    values = calloc(row->n_elements, sizeof *values);
    loaded = calloc(row->n_elements, sizeof *loaded);
    if (!values || !loaded) {
        return -1;
    }
    oct__row_init(row, 3, values);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(values);
    free(loaded);
    oct__graph_fini(&graph);
    folder_close(&folder);
    return 0;
}

/* The file of `values`; the caller frees it. */
static uint8_t *saved(int by_channel, size_t *n) {
    const char *path = folder_file(&folder, "model");
    EXPECT_OK(oct__model_save(path, OCT_MODEL_INT8, by_channel, "", row, values));
    assert_int_equal(folder_count(&folder), 1);
    return file_read(path, n);
}

static uint8_t *saved_as(enum oct_model_form form, size_t *n) {
    const char *path = folder_file(&folder, "model");
    EXPECT_OK(oct__model_save(path, form, 1, "", row, values));
    return file_read(path, n);
}

#define PAIR ",\"crc32c\":\""

/* The eight digits of the checksum in the header of a file. */
static char *digits_of(uint8_t *bytes, size_t n) {
    const size_t length = strlen(PAIR);
    for (size_t at = 8; at + length + 9 <= n; at++) {
        if (memcmp(bytes + at, PAIR, length) == 0) {
            return (char *)bytes + at + length;
        }
    }
    fail_msg("no " PAIR " in a file of %zu bytes", n);
    return NULL;
}

/* The file as one that has no checksum: blanks where it was. */
static void unseal(uint8_t *bytes, size_t n) {
    memset(digits_of(bytes, n) - strlen(PAIR), ' ', strlen(PAIR) + 9);
}

/* Refused: nothing of `loaded` may have changed. */
static oct_status parse(const uint8_t *bytes, size_t n) {
    static const float marker = -77.25F;
    for (size_t i = 0; i < row->n_elements; i++) {
        loaded[i] = marker;
    }
    oct_status status = oct__model_parse("file", bytes, n, row, loaded);
    for (size_t i = 0; status != OCT_OK && i < row->n_elements; i++) {
        if (memcmp(&loaded[i], &marker, sizeof marker) != 0) {
            fail_msg("refused (%s), yet element %zu was written", oct_last_error(), i);
        }
    }
    return status;
}

/* --- what comes back ------------------------------------------------------------------------- */

/* A group's bytes and scale as an engine makes them. */
static float quantize(size_t n, const float *w, int8_t *q) {
    float peak = 0;
    oct__kernels()->absmax_f32(n, w, &peak);
    const float scale = oct__symmetric_scale(peak);
    oct__kernels()->quantize_s8_f32(n, w, oct__symmetric_inverse(scale), q);
    return scale;
}

/* Weights that came back are quantized to the same bytes and the same scale, and everything else is
 * what it was. */
static void expect_same_network(int by_channel) {
    for (size_t i = 0; i < row->n_items; i++) {
        const struct oct__param *p = &row->items[i];
        const float *before = values + p->offset, *after = loaded + p->offset;
        if (p->n_dims == 1) {
            assert_memory_equal(after, before, p->count * sizeof *after);
            continue;
        }
        const size_t n_groups = by_channel ? (size_t)p->n : 1, n = p->count / n_groups;
        for (size_t g = 0; g < n_groups; g++, before += n, after += n) {
            int8_t q[2][256];
            assert_true(n <= sizeof q[0]);
            const float scale[2] = {quantize(n, before, q[0]), quantize(n, after, q[1])};
            if (memcmp(&scale[0], &scale[1], sizeof scale[0]) != 0) {
                fail_msg("%s: scale %a came back as %a", p->name, (double)scale[0],
                         (double)scale[1]);
            }
            assert_memory_equal(q[0], q[1], n);
            for (size_t j = 0; j < n; j++) {
                assert_true(fabsf(after[j] - before[j]) <= 0.5001F * scale[0] || scale[0] == 0);
            }
        }
    }
}

static void weights_come_back_to_the_same_bytes(void **state) {
    (void)state;
    struct dice dice = dice_of(5);
    for (int round = 0; round < 100; round++) {
        const int by_channel = round % 2;
        /* from where scales vanish to where they nearly overflow */
        const float size = ldexpf(1.0F, round % 7 == 0 ? dice_below(&dice, 250) - 125 : -3);
        for (size_t i = 0; i < row->n_items; i++) {
            for (size_t j = 0; j < row->items[i].count; j++) {
                values[row->items[i].offset + j] = size * (float)dice_normal(&dice);
            }
        }
        if (round == 1) { /* a group of zeros, one of denormals, the largest float */
            memset(values, 0, 27 * sizeof *values);
            for (int j = 27; j < 54; j++) {
                values[j] = 1e-42F * (float)(j % 5);
            }
            values[60] = -FLT_MAX;
        }
        size_t n;
        uint8_t *bytes = saved(by_channel, &n);
        EXPECT_OK(parse(bytes, n));
        expect_same_network(by_channel);
        /* and what came back is saved as the same file */
        const char *path = folder_file(&folder, "model");
        EXPECT_OK(oct__model_save(path, OCT_MODEL_INT8, by_channel, "", row, loaded));
        size_t n_again;
        uint8_t *again = file_read(path, &n_again);
        assert_int_equal(n_again, n);
        assert_memory_equal(again, bytes, n);
        free(again);
        free(bytes);
    }
}

static void floats_are_as_before(void **state) {
    (void)state;
    size_t n[3];
    uint8_t *bytes[3];
    EXPECT_OK(oct__model_save(folder_file(&folder, "model"), OCT_MODEL_F32, 0, "", row, values));
    bytes[0] = file_read(folder.file, &n[0]);
    EXPECT_OK(oct__safetensors_save(folder.file, row, values));
    bytes[1] = file_read(folder.file, &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    EXPECT_OK(oct__model_load(folder.file, row, loaded));
    assert_memory_equal(loaded, values, row->n_elements * sizeof *values);
    bytes[2] = saved(0, &n[2]);
    print_message("%zu parameters: %zu bytes as floats, %zu as bytes\n", oct__row_count(row), n[0],
                  n[2]);
    /* 135 + 20 weights of a byte, 2 scales, 5 + 5 + 5 + 4 floats, and what lies before them */
    size_t n_header = 0;
    EXPECT_OK(oct__safetensors_length("file", bytes[2], n[2], &n_header));
    assert_int_equal(n[2], 8 + n_header + 135 + 20 + 4 * (2 + 19));
    /* A reader of plain files does not take one for the other. */
    EXPECT_FAILURE(oct__safetensors_parse("file", bytes[2], n[2], row, loaded), OCT_STATUS_SHAPE,
                   "octet.vectors is not part of this model");
    for (int i = 0; i < 3; i++) {
        free(bytes[i]);
    }
}

/* --- what is refused ------------------------------------------------------------------------- */

static void other_networks(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(0, &n);
    static const struct {
        const char *norm;
        int channels;
    } others[] = {{"batchnorm", 5}, {"evonorm-s0", 5}, {"groupnorm", 6}};
    for (size_t i = 0; i < OCT_COUNT_OF(others); i++) {
        struct oct_graph other;
        EXPECT_OK(build(&other, others[i].norm, others[i].channels));
        float *there = calloc(other.params.n_elements, sizeof *there);
        assert_non_null(there);
        oct_status status = oct__model_parse("file", bytes, n, &other.params, there);
        print_message("%s, %d channels: %s: %s\n", others[i].norm, others[i].channels,
                      oct_status_name(status), status == OCT_OK ? "" : oct_last_error());
        /* batchnorm's parameters are groupnorm's, name for name; its statistics are another row */
        assert_int_equal(status, i == 0 ? OCT_OK : OCT_STATUS_SHAPE);
        free(there);
        oct__graph_fini(&other);
    }
    free(bytes);
}

/* `from` replaced by `to`, of the same length, in the header. */
static void expect_changed(const char *from, const char *to, oct_status expected,
                           const char *piece) {
    size_t n;
    uint8_t *bytes = saved(1, &n);
    const size_t length = strlen(from);
    assert_int_equal(length, strlen(to));
    size_t at = 8;
    while (at + length < n && memcmp(bytes + at, from, length) != 0) {
        at++;
    }
    assert_true(at + length < n);
    memcpy(bytes + at, to, length);
    EXPECT_FAILURE(parse(bytes, n), expected, piece);
    free(bytes);
}

static void altered_headers(void **state) {
    (void)state;
    expect_changed("\"int8\"", "\"int4\"", OCT_STATUS_UNSUPPORTED, "a file of the form 'int4'");
    expect_changed("\"channel\"", "\"chann3l\"", OCT_STATUS_CORRUPT, "scales are 'chann3l'");
    expect_changed("\"channel\"", "\"tensor\" ", OCT_STATUS_SHAPE, "octet.vectors");
    expect_changed("\"layout\"", "\"layouT\"", OCT_STATUS_SHAPE, "the layout ''");
    expect_changed("\"I8\"", "\"U8\"", OCT_STATUS_SHAPE, "conv.weight is not I8");
    expect_changed("\"F32\"", "\"F16\"", OCT_STATUS_SHAPE, "octet.vectors is not F32");
    expect_changed("head.weight", "head.weighs", OCT_STATUS_SHAPE, "head.weighs is not part");
    expect_changed("\"form\"", "\"norm\"", OCT_STATUS_SHAPE, "octet.vectors is not part");
}

/* --- damage ---------------------------------------------------------------------------------- */

static void expect_damaged(const uint8_t *bytes, size_t n, const char *what, size_t at) {
    oct_status status = parse(bytes, n);
    if (status != OCT_STATUS_CORRUPT || !strstr(oct_last_error(), "file: altered: the CRC-32C")) {
        fail_msg("%s at byte %zu: %s: %s", what, at, oct_status_name(status),
                 status == OCT_OK ? "" : oct_last_error());
    }
}

/* Every bit of the numbers, every byte, and stretches of them. */
static void altered_numbers(void **state) {
    (void)state;
    struct dice dice = dice_of(11);
    for (int form = 0; form < 2; form++) {
        size_t n, n_header = 0;
        uint8_t *bytes = saved_as(form ? OCT_MODEL_INT8 : OCT_MODEL_F32, &n);
        EXPECT_OK(oct__safetensors_length("file", bytes, n, &n_header));
        const size_t first = 8 + n_header;
        uint8_t *whole = malloc(n);
        assert_non_null(whole);
        memcpy(whole, bytes, n);
        for (size_t at = first; at < n; at++) {
            for (int bit = 0; bit < 8; bit++) {
                bytes[at] ^= (uint8_t)(1 << bit);
                expect_damaged(bytes, n, "a bit", at);
                bytes[at] = whole[at];
            }
            bytes[at] = (uint8_t)~bytes[at];
            expect_damaged(bytes, n, "a byte", at);
            bytes[at] = whole[at];
        }
        int n_stretches = 0;
        for (int round = 0; round < 500; round++) {
            const size_t begin = first + (size_t)dice_below(&dice, (int)(n - first));
            const size_t end = begin + 1 + (size_t)dice_below(&dice, (int)(n - begin));
            for (size_t at = begin; at < end; at++) {
                bytes[at] = round % 2 ? 0 : (uint8_t)dice_below(&dice, 256);
            }
            if (memcmp(bytes, whole, n) != 0) {
                expect_damaged(bytes, n, "a stretch", begin);
                n_stretches++;
            }
            memcpy(bytes, whole, n);
        }
        print_message("%s: %zu bytes of numbers, %d stretches; the last: %s\n",
                      form ? "int8" : "f32", n - first, n_stretches, oct_last_error());
        assert_in_range(n_stretches, 300, 500);
        EXPECT_OK(parse(bytes, n));
        free(whole);
        free(bytes);
    }
}

/* What an older Octet wrote is read as ever, and damage to it is not noticed. */
static void files_without_a_checksum(void **state) {
    (void)state;
    for (int form = 0; form < 2; form++) {
        size_t n;
        uint8_t *bytes = saved_as(form ? OCT_MODEL_INT8 : OCT_MODEL_F32, &n);
        float *expected = calloc(row->n_elements, sizeof *expected);
        assert_non_null(expected);
        EXPECT_OK(parse(bytes, n));
        memcpy(expected, loaded, row->n_elements * sizeof *expected);
        unseal(bytes, n);
        EXPECT_OK(parse(bytes, n));
        assert_memory_equal(loaded, expected, row->n_elements * sizeof *expected);
        bytes[n - 1] ^= 1;
        EXPECT_OK(parse(bytes, n));
        assert_memory_not_equal(loaded, expected, row->n_elements * sizeof *expected);
        free(expected);
        free(bytes);
    }
}

static void altered_checksums(void **state) {
    (void)state;
    static const char *const odd[] = {"0000000g", "        ", "-0000001",  "+0000001",
                                      "0x000001", "1.000000", "\\n000000", "ABCDEFAB"};
    for (int form = 0; form < 2; form++) {
        size_t n;
        uint8_t *bytes = saved_as(form ? OCT_MODEL_INT8 : OCT_MODEL_F32, &n);
        char *digits = digits_of(bytes, n), right[8];
        memcpy(right, digits, 8);
        for (size_t i = 0; i < OCT_COUNT_OF(odd); i++) {
            memcpy(digits, odd[i], 8);
            EXPECT_FAILURE(parse(bytes, n), OCT_STATUS_CORRUPT, "eight hexadecimal digits");
        }
        for (int i = 0; i < 8; i++) {
            memcpy(digits, right, 8);
            digits[i] = digits[i] == '0' ? '1' : '0';
            EXPECT_FAILURE(parse(bytes, n), OCT_STATUS_CORRUPT, "altered: the CRC-32C");
        }
        memcpy(digits, right, 8);
        EXPECT_OK(parse(bytes, n));
        free(bytes);
    }
}

static void impossible_scales(void **state) {
    (void)state;
    static const uint32_t odd[] = {
        0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0xbf800000,
        0x00000001, 0x007fffff, 0x7f7fffff, /* the largest float, 127 times which is none */
    };
    size_t n, n_header = 0;
    uint8_t *bytes = saved(0, &n);
    unseal(bytes, n); /* a file that was made so, not one that was damaged */
    EXPECT_OK(oct__safetensors_length("file", bytes, n, &n_header));
    for (size_t i = 0; i < OCT_COUNT_OF(odd); i++) {
        memcpy(bytes + 8 + n_header + 4, &odd[i], 4); /* of the second weight tensor */
        EXPECT_FAILURE(parse(bytes, n), OCT_STATUS_CORRUPT, "a scale of head.weight");
    }
    memset(bytes + 8 + n_header + 4, 0, 4);
    EXPECT_OK(parse(bytes, n));
    const uint8_t before = bytes[n - 1];
    bytes[n - 1] = 0x80;
    EXPECT_FAILURE(parse(bytes, n), OCT_STATUS_CORRUPT, "head.weight is -128");
    bytes[n - 1] = before;
    EXPECT_OK(parse(bytes, n));
    for (size_t j = 0; j < row->items[row->n_items - 2].count; j++) {
        assert_true(loaded[row->items[row->n_items - 2].offset + j] == 0.0F);
    }
    free(bytes);
}

static void every_length(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(0, &n);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc(cut + 1); /* on the heap: a read too far is noticed */
        assert_non_null(copy);
        memcpy(copy + 1, bytes, cut);
        assert_int_equal(parse(copy + 1, cut), OCT_STATUS_CORRUPT);
        free(copy);
    }
    uint8_t *longer = calloc(n + 1, 1);
    assert_non_null(longer);
    memcpy(longer, bytes, n);
    assert_int_equal(parse(longer, n + 1), OCT_STATUS_CORRUPT);
    free(longer);
    free(bytes);
}

/* Neither written, in any form, nor taken. */
static void numbers_that_are_none(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    const char *path = folder_file(&folder, "model");
    for (size_t i = 0; i < OCT_COUNT_OF(odd); i++) {
        values[7] = odd[i];
        for (int form = OCT_MODEL_F32; form <= OCT_MODEL_INT8; form++) {
            EXPECT_FAILURE(oct__model_save(path, (enum oct_model_form)form, 0, "", row, values),
                           OCT_STATUS_NOT_FINITE, "conv.weight has an element that is");
        }
        assert_int_equal(folder_count(&folder), 0);
        EXPECT_OK(oct__safetensors_save(path, row, values));
        EXPECT_FAILURE(oct__model_load(path, row, values), OCT_STATUS_NOT_FINITE,
                       "conv.weight has an element that is");
        assert_int_equal(unlink(path), 0);
    }
}

static void failing_memory(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(0, &n);
    for (int save = 0; save < 2; save++) {
        uint64_t n_failed = 0;
        for (;; n_failed++) {
            assert_in_range(n_failed, 0, 100);
            oct__alloc_fail_after(n_failed + 1);
            oct_status status = save ? oct__model_save(folder_file(&folder, "again"),
                                                       OCT_MODEL_INT8, 0, "", row, values)
                                     : parse(bytes, n);
            oct__alloc_fail_after(0);
            if (status == OCT_OK) {
                break;
            }
            assert_int_equal(status, OCT_STATUS_NO_MEMORY);
        }
        print_message("%s after %d failures\n", save ? "saved" : "read", (int)n_failed);
        assert_true(n_failed >= 4);
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(weights_come_back_to_the_same_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(floats_are_as_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_networks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(altered_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(altered_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_without_a_checksum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(altered_checksums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_scales, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_that_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
