/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c - headers of .npy files, and the labels behind them: the input is the file. */
#include "fuzz.h"

#include <string.h>

#include "data/npy.h"

/* Every label by hand, against what the reader makes of it. */
static void check_labels(const struct oct__array *array, const uint8_t *items, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint16_t label = 0;
        bool is_class = oct__array_label(array, items, (size_t)i, &label);
        const uint8_t *bytes = items + i * array->item_bytes;
        const size_t last = array->item_bytes - 1;
        const uint8_t low = bytes[array->is_big_endian ? last : 0];
        const uint8_t high =
            array->item_bytes == 1 ? 0 : bytes[array->is_big_endian ? last - 1 : 1];
        bool rest_is_zero = true;
        for (size_t b = 2; b < array->item_bytes; b++) {
            rest_is_zero = rest_is_zero && bytes[array->is_big_endian ? last - b : b] == 0;
        }
        const uint8_t top = bytes[array->is_big_endian ? 0 : last];
        FUZZ_CHECK(is_class == (rest_is_zero && !(array->is_signed && top & 0x80)));
        FUZZ_CHECK(!is_class || label == (uint16_t)(low | high << 8));
    }
}

static void use_as(const struct oct__npy *npy, enum oct__array_role role, const uint8_t *items,
                   size_t n_items_bytes) {
    struct oct__array array;
    if (oct__npy_array("file", npy, role, &array) != OCT_OK) {
        return;
    }
    FUZZ_CHECK(array.n_dims >= 1 && array.n_dims <= OCT_ARRAY_DIMS && array.dims[0] > 0);
    FUZZ_CHECK(role == OCT_ARRAY_LABELS || (array.item_bytes == 1 && !npy->is_fortran));
    uint64_t n_bytes = 0;
    if (!oct__array_bytes(&array, &n_bytes)) {
        return;
    }
    FUZZ_CHECK(n_bytes > 0 && n_bytes % array.item_bytes == 0);
    if (role == OCT_ARRAY_LABELS && n_bytes <= n_items_bytes) {
        check_labels(&array, items, array.dims[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    size_t n_length, n_text;
    if (n_bytes < OCT_NPY_BEGIN || oct__npy_begin("file", bytes, &n_length) != OCT_OK ||
        n_bytes - OCT_NPY_BEGIN < n_length ||
        oct__npy_length("file", bytes + OCT_NPY_BEGIN, n_length, &n_text) != OCT_OK) {
        return 0;
    }
    size_t at = OCT_NPY_BEGIN + n_length;
    n_text = n_text < n_bytes - at ? n_text : n_bytes - at;
    /* In memory of its own, so that a sanitizer sees a read behind its end. */
    char *text = malloc(n_text ? n_text : 1);
    if (!text) {
        return 0;
    }
    memcpy(text, bytes + at, n_text);
    struct oct__npy npy;
    if (oct__npy_text("file", text, n_text, at, &npy) == OCT_OK) {
        FUZZ_CHECK(strlen(npy.descr) < OCT_NPY_DESCR);
        FUZZ_CHECK(npy.descr_at > at && npy.order_at > at && npy.shape_at > at);
        FUZZ_CHECK(npy.shape_at < at + n_text && text[npy.shape_at - at] == '(');
        use_as(&npy, OCT_ARRAY_IMAGES, bytes + at + n_text, n_bytes - at - n_text);
        use_as(&npy, OCT_ARRAY_LABELS, bytes + at + n_text, n_bytes - at - n_text);
    }
    free(text);
    return 0;
}
