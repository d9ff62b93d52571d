/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_checkpoint.c - what a checkpoint consists of: manifests, and files of a node's rows.
 *
 * Every input is read three ways: as a manifest; as one whose last line is added here, since no
 * fuzzer finds a SHA-256; and as a node's file. A manifest that is accepted must be written again to
 * the same bytes. Sections of a file must lie inside it, one behind the other, up to its end.
 */
#include "fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

static void try_manifest(const uint8_t *bytes, size_t n_bytes) {
    struct oct__manifest *manifest = NULL;
    if (oct__manifest_parse("manifest", bytes, n_bytes, &manifest) != OCT_OK) {
        FUZZ_CHECK(!manifest);
        return;
    }
    struct oct__text text = {0};
    FUZZ_CHECK(oct__manifest_write(manifest, &text) == OCT_OK);
    FUZZ_CHECK(text.n_bytes == n_bytes && memcmp(text.at, bytes, n_bytes) == 0);
    FUZZ_CHECK(manifest->n_nodes >= 1);
    for (size_t i = 0; i < manifest->n_counters; i++) {
        double value;
        uint64_t found, expected;
        FUZZ_CHECK(oct__manifest_counter(manifest, manifest->counters[i].name, &value) == OCT_OK);
        memcpy(&found, &value, sizeof found);
        memcpy(&expected, &manifest->counters[i].value, sizeof expected);
        FUZZ_CHECK(found == expected);
    }
    oct__text_fini(&text);
    oct__manifest_close(manifest);
}

static void try_sealed(const uint8_t *bytes, size_t n_bytes) {
    struct oct__sha256 sha;
    char sum[OCT_SHA256_TEXT];
    oct__sha256_init(&sha);
    oct__sha256_add(&sha, bytes, n_bytes);
    oct__sha256_text(&sha, sum);
    char *sealed = malloc(n_bytes + 70);
    FUZZ_CHECK(sealed);
    memcpy(sealed, bytes, n_bytes);
    snprintf(sealed + n_bytes, 70, "end %s\n", sum);
    try_manifest((const uint8_t *)sealed, n_bytes + 69);
    free(sealed);
}

static struct oct__param params[] = {
    {.name = "a.weight", .n = 2, .h = 1, .w = 2, .c = 1, .n_dims = 4, .count = 4, .offset = 0},
    {.name = "a.bias", .n = 1, .h = 1, .w = 1, .c = 3, .n_dims = 1, .count = 3, .offset = 16},
};
static struct oct__param stats[] = {{.name = "mean", .c = 2, .n_dims = 1, .count = 2}};
static const struct oct__row param_row = {.items = params, .n_items = 2, .n_elements = 32};
static const struct oct__row stat_row = {.items = stats, .n_items = 1, .n_elements = 16};

struct walk {
    const uint8_t *data;
    uint64_t n_data, next;
};

static const struct oct__row *row_of(void *context, const char *section) {
    (void)context;
    FUZZ_CHECK(strlen(section) < OCT_SECTION_NAME && !strchr(section, '/'));
    if (strcmp(section, "stats") == 0) {
        return &stat_row;
    }
    return section[0] == 'x' ? &param_row : NULL;
}

static oct_status read_section(void *context, const char *section, const struct oct__row *row,
                               uint64_t offset) {
    struct walk *walk = context;
    size_t n = oct__row_count(row) * sizeof(float);
    float values[32];
    uint8_t again[64];
    FUZZ_CHECK(section[0] && offset == walk->next && n <= sizeof again);
    FUZZ_CHECK(offset <= walk->n_data && n <= walk->n_data - offset);
    oct__section_unpack(row, walk->data + offset, values);
    oct__section_pack(row, values, again);
    FUZZ_CHECK(memcmp(again, walk->data + offset, n) == 0);
    walk->next += n;
    return OCT_OK;
}

static void try_node(const uint8_t *bytes, size_t n_bytes) {
    size_t n_header;
    if (n_bytes < 8 || oct__safetensors_length("node", bytes, n_bytes, &n_header) != OCT_OK) {
        return;
    }
    struct walk walk = {.data = bytes + 8 + n_header, .n_data = n_bytes - 8 - n_header};
    const struct oct__section_reader reader = {&walk, row_of, read_section};
    if (oct__sections_walk("node", bytes + 8, n_header, walk.n_data, &reader) == OCT_OK) {
        FUZZ_CHECK(walk.next == walk.n_data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    try_manifest(bytes, n_bytes);
    try_sealed(bytes, n_bytes);
    try_node(bytes, n_bytes);
    return 0;
}
