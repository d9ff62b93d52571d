/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - src/train/safetensors.c: what is written can be read, and nothing else. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "nn/layer.h"
#include "scratch.h"
#include "support/check.h"
#include "train/safetensors.h"

static struct oct_graph graph;
static const struct oct__row *row;
static char folder[SCRATCH_PATH];
static float *values, *loaded;

static int set_up(void **state) {
    (void)state;
    if (oct__graph_init(&graph, 6, 6, 3, 4, oct__norm_find("groupnorm")) != OCT_OK ||
        !scratch_make(folder)) {
        return -1;
    }
    int x = oct_graph_conv(&graph, "conv", oct_graph_input(&graph),
                           (struct oct_conv){.channels = 5, .kernel = 3, .bias = 1});
    x = oct_graph_global_pool(&graph, "pool", oct_graph_norm(&graph, "norm", x));
    oct_graph_output(&graph, oct_graph_linear(&graph, "head", x, 4));
    row = &graph.params;
    values = calloc(row->n_elements, sizeof *values);
    loaded = calloc(row->n_elements, sizeof *loaded);
    if (!values || !loaded) {
        return -1;
    }
    oct__row_init(row, 3, values);
    return oct__graph_check(&graph) == OCT_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    free(values);
    free(loaded);
    oct__graph_fini(&graph);
    scratch_remove(folder);
    return 0;
}

static uint8_t *read_whole(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *n = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    bytes[*n] = 0;
    fclose(file);
    return bytes;
}

static uint8_t *saved(size_t *n) {
    const char *path = scratch_at(folder, "saved");
    EXPECT_OK(oct__safetensors_save(path, row, values));
    return read_whole(path, n);
}

static const float marker = -77.25F;

static oct_status parse(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < row->n_elements; i++) {
        loaded[i] = marker;
    }
    oct_status status = oct__safetensors_parse("file", bytes, n, row, loaded);
    for (size_t i = 0; status != OCT_OK && i < row->n_elements; i++) {
        if (memcmp(&loaded[i], &marker, sizeof marker) != 0) {
            fail_msg("refused (%s), yet element %zu was written", oct_last_error(), i);
        }
    }
    return status;
}

/* A file of a header and `n_data` bytes of numbers; the caller frees it. */
static uint8_t *assemble(const char *header, size_t n_data, size_t *n) {
    size_t n_header = strlen(header);
    uint8_t *bytes = malloc(8 + n_header + n_data);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)n_header >> (8 * i));
    }
    memcpy(bytes + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) {
        bytes[8 + n_header + i] = (uint8_t)(i * 7);
    }
    *n = 8 + n_header + n_data;
    return bytes;
}

static void expect_header(const char *header, size_t n_data, oct_status expected,
                          const char *piece) {
    size_t n;
    uint8_t *bytes = assemble(header, n_data, &n);
    oct_status status = parse(bytes, n);
    print_message("%.70s: %s: %s\n", header, oct_status_name(status),
                  status == OCT_OK ? "" : oct_last_error());
    free(bytes);
    assert_int_equal(status, expected);
    if (expected != OCT_OK && !strstr(oct_last_error(), piece)) {
        fail_msg("'%s' is not in '%s'", piece, oct_last_error());
    }
}

/* --- what is right --------------------------------------------------------------------------- */

static void round_trip(void **state) {
    (void)state;
    static const uint32_t odd[] = {0x80000000, 0x7fc12345, 0xff800000, 0x00000001, 0x7f7fffff};
    for (size_t i = 0; i < OCT_COUNT_OF(odd); i++) { /* -0, a NaN, -inf, a denormal, the largest */
        memcpy(&values[row->items[0].offset + i], &odd[i], sizeof odd[i]);
    }
    const char *path = scratch_at(folder, "model.safetensors");
    EXPECT_OK(oct__safetensors_save(path, row, values));
    memset(loaded, 0xFF, row->n_elements * sizeof *loaded);
    EXPECT_OK(oct__safetensors_load(path, row, loaded));
    assert_memory_equal(loaded, values, row->n_elements * sizeof *values); /* gaps are 0 again */
    assert_int_equal(scratch_count(folder), 1);                            /* and no .partial */
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    print_message("%zu parameters in %lld bytes\n", oct__row_count(row), (long long)info.st_size);
    oct__row_init(row, 3, values);
}

/* The form that other tools read: length, JSON, numbers from a multiple of eight bytes on. */
static void the_file_itself(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(&n);
    size_t n_header = bytes[0] | (size_t)bytes[1] << 8;
    char *header = (char *)bytes + 8;
    assert_int_equal(n_header % 8, 0);
    assert_int_equal(n, 8 + n_header + oct__row_count(row) * 4);
    const uint8_t *data = bytes + 8 + n_header;
    char kept = header[n_header];
    header[n_header] = 0;
    print_message("%s\n", header);
    assert_non_null(
        strstr(header,
               "\"conv.weight\":{\"dtype\":\"F32\",\"shape\":[5,3,3,3],\"data_offsets\":[0,540]}"));
    assert_non_null(strstr(
        header, "\"conv.bias\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[540,560]}"));
    assert_non_null(strstr(
        header, "\"head.weight\":{\"dtype\":\"F32\",\"shape\":[4,5],\"data_offsets\":[600,680]}"));
    char sum[24];
    header[n_header] = kept;
    snprintf(sum, sizeof sum, "\"crc32c\":\"%08x\"", oct__crc32c(0, data, n - 8 - n_header));
    header[n_header] = 0;
    print_message("expected %s\n", sum);
    assert_non_null(strstr(header, sum));
    header[n_header] = kept;
    uint32_t bits;
    memcpy(&bits, &values[row->items[0].offset + 1], sizeof bits);
    assert_int_equal(bits, data[4] | (uint32_t)data[5] << 8 | (uint32_t)data[6] << 16 |
                               (uint32_t)data[7] << 24);
    free(bytes);
}

static void save_replaces(void **state) {
    (void)state;
    const char *path = scratch_at(folder, "again");
    assert_int_equal(scratch_write(path, "older", 5), 0);
    EXPECT_OK(oct__safetensors_save(path, row, values));
    EXPECT_OK(oct__safetensors_load(path, row, loaded));
    assert_memory_equal(loaded, values, row->n_elements * sizeof *values);
}

/* Of others, a file with the name that is written to stays as it is. */
static void files_of_others_stay(void **state) {
    (void)state;
    char own[SCRATCH_PATH];
    size_t n;
    assert_non_null(scratch_make(own));
    static const char *const theirs[] = {"model.partial", "model.partial-2"};
    for (size_t i = 0; i < OCT_COUNT_OF(theirs); i++) {
        assert_int_equal(scratch_write(scratch_at(own, theirs[i]), "theirs", 6), 0);
        EXPECT_OK(oct__safetensors_save(scratch_at(own, "model"), row, values));
        print_message("%zu of theirs, %d files\n", i + 1, scratch_count(own));
        assert_int_equal(scratch_count(own), i + 2);
        for (size_t j = 0; j <= i; j++) {
            uint8_t *bytes = read_whole(scratch_at(own, theirs[j]), &n);
            assert_string_equal((char *)bytes, "theirs");
            free(bytes);
        }
    }
    scratch_remove(own);
}

static void expect_link(const char *path, const char *target) {
    char text[SCRATCH_PATH] = "";
    assert_true(readlink(path, text, sizeof text - 1) > 0);
    assert_string_equal(text, target);
}

/* What they lead to is replaced, keeping its permissions; the links stay. */
static void links_are_followed(void **state) {
    (void)state;
    struct stat info;
    const char *target = scratch_at(folder, "deep/target"), *far = scratch_at(folder, "far");
    const char *near = scratch_at(folder, "near"), *loop = scratch_at(folder, "loop");
    assert_int_equal(scratch_write(target, "older", 5), 0);
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink(target, scratch_at(folder, "deep/hop")), 0);
    assert_int_equal(symlink("deep/hop", far), 0);
    EXPECT_OK(oct__safetensors_save(far, row, values));
    expect_link(far, "deep/hop");
    EXPECT_OK(oct__safetensors_load(target, row, loaded));
    assert_memory_equal(loaded, values, row->n_elements * sizeof *values);
    assert_int_equal(stat(target, &info), 0);
    print_message("permissions %o\n", (unsigned)info.st_mode & 07777U);
    assert_int_equal(info.st_mode & 07777, 0640);

    assert_int_equal(symlink("deep/made", near), 0); /* which is not there yet */
    EXPECT_OK(oct__safetensors_save(near, row, values));
    expect_link(near, "deep/made");
    EXPECT_OK(oct__safetensors_load(scratch_at(folder, "deep/made"), row, loaded));

    assert_int_equal(symlink("loop", loop), 0);
    EXPECT_FAILURE(oct__safetensors_save(loop, row, values), OCT_STATUS_IO,
                   "loop: cannot be written: Too many levels of symbolic links");
    expect_link(loop, "loop");
    assert_int_equal(scratch_count(scratch_at(folder, "deep")), 3);
}

/* In a process that is not root, who may write anywhere: its exit code, 0 when the save was refused. */
static int refused_to_nobody(const char *path) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) {
            _exit(3);
        }
        oct_status status = oct__safetensors_save(path, row, values);
        _exit(status != OCT_STATUS_IO                                  ? 1
              : strstr(oct_last_error(), "written: Permission denied") ? 0
                                                                       : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void read_only_files_stay(void **state) {
    (void)state;
    size_t n;
    char own[SCRATCH_PATH];
    assert_non_null(scratch_make(own));
    assert_int_equal(chmod(own, 0777), 0); /* so that it could be replaced */
    const char *path = scratch_at(own, "finished");
    assert_int_equal(scratch_write(path, "finished", 8), 0);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(refused_to_nobody(path), 0);
    uint8_t *bytes = read_whole(path, &n);
    assert_string_equal((char *)bytes, "finished");
    free(bytes);
    assert_int_equal(scratch_count(own), 1);
    scratch_remove(own);
}

/* An open file has a name that is a link to no file. */
static void open_files_are_written_to(void **state) {
    (void)state;
    char name[64];
    const char *path = scratch_at(folder, "opened");
    FILE *file = fopen(path, "wb+");
    assert_non_null(file);
    assert_int_equal(unlink(path), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", fileno(file));
    struct stat before, after;
    if (stat(name, &before) != 0) {
        fclose(file);
        skip();
    }
    EXPECT_OK(oct__safetensors_save(name, row, values));
    assert_int_equal(fstat(fileno(file), &after), 0);
    print_message("%s: %lld bytes\n", name, (long long)after.st_size);
    assert_true(before.st_size == 0 && after.st_size > 0);
    fclose(file);
}

/* Another tool may write tensors in any order, with blanks, and its own metadata. */
static const char *const other_order =
    " { \"head.bias\" : { \"shape\" : [ 4 ] , \"data_offsets\":[0,16],\"dtype\":\"F32\"},\n"
    "\"__metadata__\":{\"format\":\"pt\",\"a\\\"b\":\"c\"},\t"
    "\"norm.beta\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[16,36]},\r\n"
    "\"conv.weight\":{\"dtype\":\"F32\",\"shape\":[5,3,3,3],\"data_offsets\":[36,576]},"
    "\"conv.bias\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[576,596]},"
    "\"norm.gamma\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[596,616]},"
    "\"head.weight\":{\"dtype\":\"F32\",\"shape\":[4,5],\"data_offsets\":[616,696]}}   ";

enum { N_DATA = 696 };

static void any_order(void **state) {
    (void)state;
    size_t n;
    assert_int_equal(oct__row_count(row) * 4, N_DATA);
    uint8_t *bytes = assemble(other_order, N_DATA, &n);
    EXPECT_OK(parse(bytes, n));
    const uint8_t *data = bytes + 8 + strlen(other_order);
    for (size_t i = 0; i < row->n_items; i++) {
        static const size_t places[] = {36, 576, 596, 16, 616, 0};
        float first;
        memcpy(&first, data + places[i], sizeof first);
        assert_memory_equal(&loaded[row->items[i].offset], &first, sizeof first);
    }
    free(bytes);
}

/* --- what is refused ------------------------------------------------------------------------- */

/* Cut anywhere, or with bytes after the end. */
static void every_truncation(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(&n);
    for (size_t cut = 0; cut < n; cut++) {
        /* On the heap and exactly as long, so that a sanitizer sees any step too far. */
        uint8_t *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        oct_status status = parse(copy, cut);
        free(copy);
        if (status != OCT_STATUS_CORRUPT) {
            fail_msg("cut to %zu of %zu bytes: %s", cut, n, oct_status_name(status));
        }
    }
    print_message("%zu truncations refused; the last: %s\n", n, oct_last_error());
    uint8_t *longer = calloc(n + 4, 1);
    assert_non_null(longer);
    memcpy(longer, bytes, n);
    EXPECT_OK(parse(longer, n));
    EXPECT_FAILURE(parse(longer, n + 1), OCT_STATUS_CORRUPT, "bytes of tensors");
    EXPECT_FAILURE(parse(longer, n + 4), OCT_STATUS_CORRUPT, "bytes of tensors");
    free(longer);
    free(bytes);
}

/* Any bit of the header flipped: refused, or read as what was saved (a letter of the metadata). */
static void every_bit_of_the_header(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = saved(&n);
    size_t n_header = bytes[0] | (size_t)bytes[1] << 8;
    int n_refused = 0, n_same = 0;
    for (size_t bit = 0; bit < 8 * (8 + n_header); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        oct_status status = parse(bytes, n);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (status == OCT_OK) {
            n_same++;
            if (memcmp(loaded, values, row->n_elements * sizeof *values) != 0) {
                fail_msg("bit %zu flipped: other numbers were read", bit);
            }
        } else {
            n_refused++;
            assert_true(status == OCT_STATUS_CORRUPT || status == OCT_STATUS_SHAPE);
        }
    }
    print_message("%d bits refused, %d make no difference\n", n_refused, n_same);
    assert_true(n_same < 300);
    free(bytes);
}

/* The header `other_order` with one text replaced by another. */
static void expect_replaced(const char *from, const char *to, oct_status expected,
                            const char *piece) {
    char header[2048];
    const char *at = strstr(other_order, from);
    assert_non_null(at);
    snprintf(header, sizeof header, "%.*s%s%s", (int)(at - other_order), other_order, to,
             at + strlen(from));
    print_message("%s -> %s\n", from, to);
    expect_header(header, N_DATA, expected, piece);
}

static void hostile_tensors(void **state) {
    (void)state;
    expect_replaced("[36,576]", "[36,577]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[576,36]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[18446744073709551615,0]", OCT_STATUS_CORRUPT, "smaller number");
    expect_replaced("[36,576]", "[18446744073709551000,540]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[18446744073709550000,18446744073709550540]", OCT_STATUS_CORRUPT,
                    "conv.weight");
    expect_replaced("[36,576]", "[160,700]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[36]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[36,576,0]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[36,576]", "[-36,576]", OCT_STATUS_CORRUPT, "a whole number");
    expect_replaced("[36,576]", "[3.6e1,576]", OCT_STATUS_CORRUPT, "expected");
    expect_replaced("[36,576]", "[99999999999999999999,576]", OCT_STATUS_CORRUPT,
                    "a smaller number");
    expect_replaced("[36,576]", "[0,540]", OCT_STATUS_CORRUPT, "conv.weight");
    expect_replaced("[5,3,3,3]", "[5,3,9]", OCT_STATUS_SHAPE, "conv.weight");
    expect_replaced("[5,3,3,3]", "[3,5,3,3]", OCT_STATUS_SHAPE, "conv.weight");
    expect_replaced("[5,3,3,3]", "[135]", OCT_STATUS_SHAPE, "conv.weight");
    expect_replaced("[5,3,3,3]", "[5,3,3,3,1]", OCT_STATUS_CORRUPT, "at most four");
    expect_replaced("[5,3,3,3]", "[4294967301,3,3,3]", OCT_STATUS_SHAPE, "conv.weight");
    expect_replaced("[5,3,3,3]", "[]", OCT_STATUS_SHAPE, "conv.weight");
    expect_replaced("\"dtype\":\"F32\"},\n", "\"dtype\":\"F16\"},\n", OCT_STATUS_SHAPE,
                    "head.bias");
    expect_replaced(",\"dtype\":\"F32\"},\n", "},\n", OCT_STATUS_SHAPE, "head.bias");
    expect_replaced("\"norm.beta\"", "\"norm.gamma\"", OCT_STATUS_CORRUPT,
                    "norm.gamma occurs twice");
    expect_replaced("\"norm.beta\"", "\"norm.v\"", OCT_STATUS_SHAPE,
                    "norm.v is not part of this model");
    expect_replaced("\"norm.beta\"", "\"norm\\u002ebeta\"", OCT_STATUS_SHAPE, "not part of");
    expect_replaced("\"norm.beta\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[16,36]},", "",
                    OCT_STATUS_SHAPE, "norm.beta is missing");
    expect_replaced("\"shape\" : [ 4 ]", "\"size\" : [ 4 ]", OCT_STATUS_CORRUPT,
                    "dtype, shape or data_offsets");
}

static void hostile_headers(void **state) {
    (void)state;
    static const char *const headers[] = {
        "",
        " ",
        "null",
        "[]",
        "\"",
        "{",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":{",
        "{\"a\":{\"dtype\"",
        "{\"a\":{\"dtype\":\"F32\"",
        "{\"a\":{\"shape\":[",
        "{\"a\":{\"shape\":[1",
        "{\"a\":{\"shape\":[1,",
        "{\"a\":{\"shape\":[1,]",
        "{\"a\":{\"shape\":[,1]",
        "{\"a\\",
        "{\"a\\\"",
        "{,}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":{\"a\":{}}}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{}",
    };
    for (size_t i = 0; i < OCT_COUNT_OF(headers); i++) {
        expect_header(headers[i], 0, OCT_STATUS_CORRUPT, "file: ");
    }
    expect_header("{}", 0, OCT_STATUS_SHAPE, "conv.weight is missing");
    expect_header("{\"__metadata__\":{}}", 0, OCT_STATUS_SHAPE, "conv.weight is missing");
    expect_replaced("]}}   ", "]}} x ", OCT_STATUS_CORRUPT, "the end of the header");
    expect_replaced("]}}   ", "]}}}  ", OCT_STATUS_CORRUPT, "the end of the header");
    expect_replaced("[4,5]", "[4 5]", OCT_STATUS_CORRUPT, "','");
    char name[1200];
    memset(name, 'n', sizeof name);
    memcpy(name, "{\"", 2);
    name[sizeof name - 1] = 0;
    expect_header(name, 0, OCT_STATUS_CORRUPT, "at most 255 bytes");
    char control[] = "{\"a\1b\":{}}";
    expect_header(control, 0, OCT_STATUS_CORRUPT, "a string");
}

/* The header `other_order` with these pairs in its metadata. */
static void expect_pairs(const char *pairs, oct_status expected, const char *piece) {
    char to[512];
    snprintf(to, sizeof to, "\"format\":\"pt\",%s", pairs);
    expect_replaced("\"format\":\"pt\"", to, expected, piece);
}

static void checksums(void **state) {
    (void)state;
    char sum[9], pair[64], long_one[400];
    size_t n;
    uint8_t *bytes = assemble("", N_DATA, &n);
    snprintf(sum, sizeof sum, "%08x", oct__crc32c(0, bytes + 8, N_DATA));
    free(bytes);
    snprintf(pair, sizeof pair, "\"crc32c\":\"%s\"", sum);
    expect_pairs(pair, OCT_OK, "");
    snprintf(pair, sizeof pair, " \"crc32c\"\t: \"%s\"\n", sum);
    expect_pairs(pair, OCT_OK, "");
    snprintf(pair, sizeof pair, "\"crc\":\"1\",\"CRC32C\":\"%s\"", "00000000"); /* another's */
    expect_pairs(pair, OCT_OK, "");
    snprintf(pair, sizeof pair, "\"crc32c\":\"%s\",\"crc32c\":\"%s\"", sum, sum);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "crc32c stands twice");
    snprintf(pair, sizeof pair, "\"crc32c\":\"%s\"},\"__metadata__\":{\"crc32c\":\"\"", sum);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "crc32c stands twice");

    snprintf(pair, sizeof pair, "\"crc32c\":\"%08x\"", 0x5EED);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "its header says 00005eed");
    snprintf(pair, sizeof pair, "\"crc32c\":\"%s0\"", sum);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "eight hexadecimal digits");
    snprintf(pair, sizeof pair, "\"crc32c\":\"%.7s\"", sum);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "eight hexadecimal digits");
    snprintf(pair, sizeof pair, "\"crc32c\":\" %s\"", sum);
    expect_pairs(pair, OCT_STATUS_CORRUPT, "eight hexadecimal digits");
    expect_pairs("\"crc32c\":\"\"", OCT_STATUS_CORRUPT, "eight hexadecimal digits");
    /* too long for what oct__safetensors_metadata hands out, and yet not overlooked */
    snprintf(long_one, sizeof long_one, "\"crc32c\":\"%0200d\"", 0);
    expect_pairs(long_one, OCT_STATUS_CORRUPT, "eight hexadecimal digits");
    expect_pairs("\"crc32c\":12345678", OCT_STATUS_CORRUPT, "'\"' expected");
    expect_pairs("\"crc32c\":null", OCT_STATUS_CORRUPT, "'\"' expected");
}

/* Lengths that no file has. */
static void hostile_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {9,
                                       100,
                                       1 << 20,
                                       (uint64_t)1 << 31,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 63,
                                       UINT64_MAX - 7,
                                       UINT64_MAX};
    for (size_t i = 0; i < OCT_COUNT_OF(lengths); i++) {
        uint8_t bytes[16] = {0};
        for (int j = 0; j < 8; j++) {
            bytes[j] = (uint8_t)(lengths[i] >> (8 * j));
        }
        EXPECT_FAILURE(parse(bytes, sizeof bytes), OCT_STATUS_CORRUPT, "in a file of 16");
    }
}

static void files_that_are_none(void **state) {
    (void)state;
    EXPECT_FAILURE(oct__safetensors_load(scratch_at(folder, "missing"), row, loaded),
                   OCT_STATUS_NOT_FOUND, "missing: cannot be read");
    EXPECT_FAILURE(oct__safetensors_load(folder, row, loaded), OCT_STATUS_IO, folder);
    EXPECT_FAILURE(oct__safetensors_load("/dev/null", row, loaded), OCT_STATUS_CORRUPT,
                   "too short");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(the_file_itself),
        cmocka_unit_test(save_replaces),
        cmocka_unit_test(any_order),
        cmocka_unit_test(files_of_others_stay),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(read_only_files_stay),
        cmocka_unit_test(open_files_are_written_to),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(every_bit_of_the_header),
        cmocka_unit_test(hostile_tensors),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(checksums),
        cmocka_unit_test(hostile_lengths),
        cmocka_unit_test(files_that_are_none),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
