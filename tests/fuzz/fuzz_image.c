/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_image.c - picture files, both decoders.
 *
 *     byte 0        which random part of it is decoded, too
 *     the rest      the file
 *
 * A file whose check says that it is whole must give samples; one that is refused is CORRUPT, or
 * UNSUPPORTED in a build without its decoder, and leaves the reader as good as new. */
#include "fuzz.h"

#include "data/image.h"

enum { SIZE = 24 };

static int is_refusal(oct_status status) {
    return status == OCT_STATUS_CORRUPT || status == OCT_STATUS_UNSUPPORTED;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static struct oct__image_reader *reader; /* one for all inputs: nothing may stay behind */
    uint8_t middle[SIZE * SIZE * 3], again[SIZE * SIZE * 3], part[SIZE * SIZE * 3];
    if (n_bytes < 1 || (!reader && oct__image_reader_create(&reader) != OCT_OK)) {
        return 0;
    }
    const struct oct__augment augment = {.seed = bytes[0]};
    const uint8_t *file = bytes + 1;
    const size_t n = n_bytes - 1;
    const oct_status whole = oct__image_check_bytes(reader, "it", file, n);
    const oct_status first = oct__image_decode(reader, "it", file, n, SIZE, NULL, 0, middle);
    const oct_status random = oct__image_decode(reader, "it", file, n, SIZE, &augment, 0, part);
    const oct_status second = oct__image_decode(reader, "it", file, n, SIZE, NULL, 0, again);
    FUZZ_CHECK(whole == OCT_OK || is_refusal(whole));
    FUZZ_CHECK(first == OCT_OK || is_refusal(first));
    FUZZ_CHECK(whole != OCT_OK || (first == OCT_OK && random == OCT_OK));
    FUZZ_CHECK(first == second);
    for (int i = 0; first == OCT_OK && i < SIZE * SIZE * 3; i++) {
        FUZZ_CHECK(middle[i] == again[i]);
    }
    return 0;
}
