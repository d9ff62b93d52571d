/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_message.c - messages from a neighbour: refused, or the one encoding of what they say.
 *
 * The first byte chooses a form, the rest is the message. As arbitrary bytes never have the right
 * CRC-32C, or length, they are also tried with both put right.
 */
#include "fuzz.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/little.h"
#include "compress/compress.h"
#include "compress/wire.h"

enum { AT_LENGTH = 34, AT_SUM = 38 };

static const char *const compressors[] = {"none",
                                          "none:values=bf16",
                                          "int8",
                                          "topk:0.9",
                                          "topk:0.9,values=bf16",
                                          "topk:0.98,values=int8",
                                          "randk:0",
                                          "topk:1,values=int8",
                                          "qsgd:1",
                                          "qsgd:4",
                                          "qsgd:7",
                                          "sign"};

static const struct oct__span spans[] = {{0, 5}, {16, 30}, {48, 1030}, {1088, 1}};

enum { N_ELEMENTS = 1104, N_FORMS = sizeof compressors / sizeof compressors[0] };

static struct oct__packet_form *form_at(size_t i) {
    static struct oct__packet_form *forms[N_FORMS];
    if (!forms[i]) {
        struct oct__compression compression;
        FUZZ_CHECK(oct__compression_read(compressors[i], &compression) == OCT_OK);
        FUZZ_CHECK(oct__packet_form_create(&compression, spans, OCT_COUNT_OF(spans), N_ELEMENTS,
                                           &forms[i]) == OCT_OK);
    }
    return forms[i];
}

static void try_message(const struct oct__packet_form *form, const uint8_t *bytes, size_t n) {
    static uint32_t packet[4096], kept[4096]; /* aligned for floats */
    struct oct__wire_header header = {1, 2, 3, 4.0};
    FUZZ_CHECK(form->n_bytes <= sizeof packet);
    memset(packet, 0x5a, sizeof packet);
    memset(kept, 0x5a, sizeof kept);
    if (oct__wire_decode(form, bytes, n, &header, packet) != OCT_OK) {
        FUZZ_CHECK(memcmp(packet, kept, sizeof packet) == 0);
        FUZZ_CHECK(header.run == 1 && header.sender == 2 && header.round == 3);
        FUZZ_CHECK(strncmp(oct_last_error(), "message: ", 9) == 0);
        return;
    }
    struct oct__wire_header seen;
    FUZZ_CHECK(oct__wire_peek(bytes, n, &seen) == OCT_OK);
    FUZZ_CHECK(memcmp(&seen, &header, sizeof seen) == 0);
    FUZZ_CHECK(n <= oct__wire_most(form) && n == oct__wire_length(form, packet));
    const size_t behind = sizeof packet - form->n_bytes;
    FUZZ_CHECK(memcmp((char *)packet + form->n_bytes, kept, behind) == 0);
    size_t length = 0;
    uint8_t *again = malloc(n);
    FUZZ_CHECK(again);
    FUZZ_CHECK(oct__wire_encode(form, &header, packet, again, n, &length) == OCT_OK);
    FUZZ_CHECK(length == n && memcmp(again, bytes, n) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes < 1) {
        return 0;
    }
    const struct oct__packet_form *form = form_at(bytes[0] % N_FORMS);
    const size_t n = n_bytes - 1;
    uint8_t *message = malloc(n ? n : 1);
    if (!message) {
        return 0;
    }
    memcpy(message, bytes + 1, n);
    try_message(form, message, n);
    if (n >= OCT_WIRE_HEADER) {
        oct__put_little(message + AT_LENGTH, n - OCT_WIRE_HEADER, 4);
        memset(message + AT_SUM, 0, 4);
        oct__put_little(message + AT_SUM, oct__crc32c(0, message, n), 4);
        try_message(form, message, n);
    }
    free(message);
    return 0;
}
