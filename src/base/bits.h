/* SPDX-License-Identifier: Apache-2.0 */
/* bits.h - numbers of any number of bits in a row of bytes, and bits in a word.
 *
 * A stream of bits fills each byte from its lowest bit up, and a number goes lowest bit first, so
 * that a whole byte at a byte's border is itself. What is left of the last byte is zero; a reader
 * says whether it was.
 */
#ifndef OCT_BASE_BITS_H
#define OCT_BASE_BITS_H

#include <stddef.h>
#include <stdint.h>

/* The place of the lowest bit that is set; word != 0. */
static inline unsigned oct__lowest_bit(uint32_t word) {
#if defined(__GNUC__)
    return (unsigned)__builtin_ctz(word);
#else
    unsigned place = 0;
    for (; !(word & 1U); word >>= 1) {
        place++;
    }
    return place;
#endif
}

struct oct__bit_writer {
    uint8_t *at;   /* the next byte */
    uint64_t held; /* bits that are not yet a byte, */
    unsigned n;    /* so many, fewer than 8 between calls */
};

/* `bytes` must have room for all that will be written. */
static inline void oct__bits_begin(struct oct__bit_writer *writer, uint8_t *bytes) {
    *writer = (struct oct__bit_writer){bytes, 0, 0};
}

/* The lowest `n` bits of a number that has no others; n <= 32. */
static inline void oct__bits_put(struct oct__bit_writer *writer, uint32_t value, unsigned n) {
    writer->held |= (uint64_t)value << writer->n;
    for (writer->n += n; writer->n >= 8; writer->n -= 8) {
        *writer->at++ = (uint8_t)writer->held;
        writer->held >>= 8;
    }
}

/* `n` ones, then a zero. */
void oct__bits_put_unary(struct oct__bit_writer *writer, uint32_t n);

/* Fills the last byte with zeros; returns where the next byte goes. */
uint8_t *oct__bits_end(struct oct__bit_writer *writer);

struct oct__bit_reader {
    const uint8_t *at, *end;
    uint64_t held;
    unsigned n;
    int failed; /* more was asked for than there is: what was read since is zero */
};

static inline void oct__bits_open(struct oct__bit_reader *reader, const uint8_t *bytes,
                                  size_t n_bytes) {
    *reader = (struct oct__bit_reader){bytes, bytes + n_bytes, 0, 0, 0};
}

/* n <= 32 bits as a number. */
static inline uint32_t oct__bits_get(struct oct__bit_reader *reader, unsigned n) {
    while (reader->n < n) {
        if (reader->at == reader->end) {
            reader->failed = 1;
            return 0;
        }
        reader->held |= (uint64_t)*reader->at++ << reader->n;
        reader->n += 8;
    }
    const uint32_t value = (uint32_t)(reader->held & ((UINT64_C(1) << n) - 1));
    reader->held >>= n;
    reader->n -= n;
    return value;
}

/* How many ones stand before the next zero; fails beyond `most`. */
uint32_t oct__bits_get_unary(struct oct__bit_reader *reader, uint32_t most);

/* 1 when nothing failed and what is left of the last byte is zero; *next is the byte behind it. */
int oct__bits_close(struct oct__bit_reader *reader, const uint8_t **next);

#endif
