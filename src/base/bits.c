/* SPDX-License-Identifier: Apache-2.0 */
/* bits.c - the less simple half of reading and writing bits. */
#include "base/bits.h"

void oct__bits_put_unary(struct oct__bit_writer *writer, uint32_t n) {
    for (; n >= 32; n -= 32) {
        oct__bits_put(writer, UINT32_MAX, 32);
    }
    oct__bits_put(writer, (uint32_t)((UINT64_C(1) << n) - 1), n + 1);
}

uint8_t *oct__bits_end(struct oct__bit_writer *writer) {
    if (writer->n > 0) {
        *writer->at++ = (uint8_t)writer->held;
    }
    writer->held = 0;
    writer->n = 0;
    return writer->at;
}

uint32_t oct__bits_get_unary(struct oct__bit_reader *reader, uint32_t most) {
    uint32_t ones = 0;
    while (oct__bits_get(reader, 1) && !reader->failed) {
        if (ones == most) {
            reader->failed = 1;
            return 0;
        }
        ones++;
    }
    return ones;
}

int oct__bits_close(struct oct__bit_reader *reader, const uint8_t **next) {
    *next = reader->at;
    return !reader->failed && reader->n < 8 && reader->held == 0;
}
