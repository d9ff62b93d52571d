/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - packets to bytes and back, as docs/formats/wire.md has them.
 *
 *     header | scales | values | places, if few are kept
 *
 * A payload is walked three ways: written, measured and read. Reading walks it twice, first without
 * writing anything, so that a message that turns out wrong at its last bit has changed nothing.
 */
#include "compress/wire.h"

#include <float.h>
#include <math.h>

#include "base/bits.h"
#include "base/crc32c.h"
#include "base/little.h"

/* Offsets of the header's fields. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_RUN = 6,
    AT_SENDER = 14,
    AT_ROUND = 18,
    AT_WEIGHT = 22,
    AT_PARTS = 30,
    AT_LENGTH = 34,
    AT_SUM = 38,
    HEADER = OCT_WIRE_HEADER,
    VERSION = 1,
};

static const uint8_t magic[4] = {'O', 'C', 'T', '8'};

#define INFINITE 0x7f800000U
#define INFINITE_BF16 0x7f80U

static int is_sparse(const struct oct__packet_form *form) {
    return form->select != OCT_SELECT_ALL;
}

static uint8_t kind_of(const struct oct__packet_form *form) {
    return (uint8_t)((unsigned)form->select | (unsigned)form->coding << 2 |
                     (unsigned)form->bits << 5);
}

/* --- what a payload consists of --------------------------------------------------------------- */

static size_t scale_bytes(const struct oct__packet_form *form) {
    return is_sparse(form) ? 2 : 4;
}

/* Bits of a value. */
static size_t value_bits(const struct oct__packet_form *form) {
    switch (form->coding) {
    case OCT_CODING_LEVELS:
        return (size_t)form->bits + 1;
    case OCT_CODING_SIGN:
        return 1;
    default:
        return 8 * oct__coding_bytes(form->coding);
    }
}

static size_t fixed_bytes(const struct oct__packet_form *form) {
    return form->n_scales * scale_bytes(form) + (form->n_kept * value_bits(form) + 7) / 8;
}

/* The bits of a gap that are written as they are: Rice's parameter for the mean gap of `keep`
 * places among `count`, (count - keep) / (keep + 1). The largest r with 2^r <= 25/26 of it is best:
 * Kiely, "Selecting the Golomb parameter in Rice coding", 2004. */
static unsigned rice(const struct oct__part *part) {
    const uint64_t spare = 25 * (uint64_t)(part->count - part->keep);
    const uint64_t least = 26 * ((uint64_t)part->keep + 1);
    unsigned r = 0;
    while (r < 31 && least << (r + 1) <= spare) {
        r++;
    }
    return r;
}

static size_t gap_bits(const struct oct__packet_form *form, const uint32_t *index) {
    size_t bits = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        const uint32_t *place = index + part->first;
        const unsigned r = rice(part);
        uint32_t ones = place[0] >> r; /* of all gaps, which are less than 2^32 together */
        for (size_t j = 1; j < part->keep; j++) { /* no turn waits for the one before: wide */
            ones += (place[j] - place[j - 1] - 1) >> r;
        }
        bits += ones + part->keep * (r + 1);
    }
    return bits;
}

static const uint32_t *index_of(const struct oct__packet_form *form, const void *packet) {
    return (const void *)((const char *)packet + form->index_at);
}

size_t oct__wire_length_of(const struct oct__packet_form *form, const uint32_t *index) {
    const size_t gaps = is_sparse(form) && index ? gap_bits(form, index) : 0;
    return HEADER + fixed_bytes(form) + (gaps + 7) / 8;
}

size_t oct__wire_length(const struct oct__packet_form *form, const void *packet) {
    return oct__wire_length_of(form, packet ? index_of(form, packet) : NULL);
}

size_t oct__wire_dense(size_t n_values) {
    return HEADER + n_values * sizeof(float);
}

size_t oct__wire_most(const struct oct__packet_form *form) {
    size_t bits = 0;
    for (size_t i = 0; is_sparse(form) && i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        const unsigned r = rice(part);
        bits += ((part->count - part->keep) >> r) + part->keep * (r + 1);
    }
    return HEADER + fixed_bytes(form) + (bits + 7) / 8;
}

/* --- what is allowed -------------------------------------------------------------------------- */

/* A scale: not negative, not -0, finite, not subnormal. */
static int is_scale(float scale) {
    const uint32_t bits = oct__float_bits(scale);
    return bits == 0 || (scale >= FLT_MIN && bits < INFINITE);
}

static int is_weight(double weight) {
    return isfinite(weight) && !signbit(weight);
}

static int most_code(const struct oct__packet_form *form) {
    return form->coding == OCT_CODING_LEVELS ? (1 << form->bits) - 1 : 127;
}

static oct_status check_scales(const struct oct__packet_form *form, const float *scales) {
    for (size_t i = 0; i < form->n_scales; i++) {
        const int fits = !is_sparse(form) || (oct__float_bits(scales[i]) & 0xffffU) == 0;
        if (!is_scale(scales[i]) || !fits) {
            OCT_FAIL(INVALID, "message: scale %zu of the packet is %g", i, (double)scales[i]);
        }
    }
    return OCT_OK;
}

/* Whole arrays without a way out in between, which compilers make wide. */
static oct_status check_values(const struct oct__packet_form *form, const void *values) {
    const float *floats = values;
    const uint16_t *halves = values;
    const int8_t *codes = values;
    const int most = most_code(form);
    int bad = 0;
    switch (form->coding) {
    case OCT_CODING_F32:
        for (size_t i = 0; i < form->n_kept; i++) {
            bad |= (oct__float_bits(floats[i]) & INT32_MAX) >= INFINITE;
        }
        break;
    case OCT_CODING_BF16:
        for (size_t i = 0; i < form->n_kept; i++) {
            bad |= (halves[i] & INT16_MAX) >= INFINITE_BF16;
        }
        break;
    case OCT_CODING_SIGN:
        for (size_t i = 0; i < form->n_kept; i++) {
            bad |= codes[i] != 1 && codes[i] != -1;
        }
        break;
    default:
        for (size_t i = 0; i < form->n_kept; i++) {
            bad |= codes[i] < -most || codes[i] > most;
        }
        break;
    }
    if (bad) {
        OCT_FAIL(INVALID, "message: a value of the packet is none that its form has");
    }
    return OCT_OK;
}

static oct_status check_index(const struct oct__packet_form *form, const uint32_t *index) {
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        uint64_t next = 0;
        for (size_t j = part->first; j < part->first + part->keep; j++) {
            if (index[j] < next || index[j] >= part->count) {
                OCT_FAIL(INVALID, "message: tensor %zu of the packet has place %u of %zu after %lu",
                         i, (unsigned)index[j], part->count, (unsigned long)next);
            }
            next = (uint64_t)index[j] + 1;
        }
    }
    return OCT_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static uint8_t *put_scales(const struct oct__packet_form *form, const float *scales, uint8_t *to) {
    const size_t bytes = scale_bytes(form);
    for (size_t i = 0; i < form->n_scales; i++, to += bytes) {
        oct__put_little(to, oct__float_bits(scales[i]) >> 8 * (4 - bytes), bytes);
    }
    return to;
}

static uint8_t *put_values(const struct oct__packet_form *form, const void *values, uint8_t *to) {
    const float *floats = values;
    const uint16_t *halves = values;
    const int8_t *codes = values;
    const unsigned bits = (unsigned)value_bits(form);
    const int most = most_code(form);
    struct oct__bit_writer writer;
    switch (form->coding) {
    case OCT_CODING_F32:
        for (size_t i = 0; i < form->n_kept; i++, to += 4) {
            oct__put_little(to, oct__float_bits(floats[i]), 4);
        }
        return to;
    case OCT_CODING_BF16:
        for (size_t i = 0; i < form->n_kept; i++, to += 2) {
            oct__put_little(to, halves[i], 2);
        }
        return to;
    case OCT_CODING_S8:
        memcpy(to, codes, form->n_kept);
        return to + form->n_kept;
    default:
        oct__bits_begin(&writer, to);
        for (size_t i = 0; i < form->n_kept; i++) {
            oct__bits_put(
                &writer,
                form->coding == OCT_CODING_SIGN ? codes[i] < 0 : (uint32_t)(codes[i] + most), bits);
        }
        return oct__bits_end(&writer);
    }
}

static void put_index(const struct oct__packet_form *form, const uint32_t *index, uint8_t *to) {
    struct oct__bit_writer writer;
    oct__bits_begin(&writer, to);
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        const unsigned r = rice(part);
        uint32_t next = 0;
        for (size_t j = part->first; j < part->first + part->keep; j++) {
            const uint32_t gap = index[j] - next;
            oct__bits_put_unary(&writer, gap >> r);
            oct__bits_put(&writer, gap & ((1U << r) - 1U), r);
            next = index[j] + 1;
        }
    }
    oct__bits_end(&writer);
}

/* The sum over the header, its own four bytes counting as zero, and the payload. */
static uint32_t sum_of(const uint8_t *bytes, size_t length) {
    static const uint8_t zeros[HEADER - AT_SUM] = {0};
    uint32_t sum = oct__crc32c(0, bytes, AT_SUM);
    sum = oct__crc32c(sum, zeros, sizeof zeros);
    return oct__crc32c(sum, bytes + HEADER, length - HEADER);
}

oct_status oct__wire_encode(const struct oct__packet_form *form,
                            const struct oct__wire_header *header, const void *packet,
                            uint8_t *bytes, size_t capacity, size_t *length) {
    const float *scales = packet;
    const uint32_t *index = index_of(form, packet);
    const void *values = (const char *)packet + form->values_at;
    OCT_TRY(check_scales(form, scales));
    OCT_TRY(check_values(form, values));
    if (is_sparse(form)) {
        OCT_TRY(check_index(form, index));
    }
    if (!is_weight(header->weight)) {
        OCT_FAIL(INVALID, "message: a weight of %g", header->weight);
    }
    const size_t all = oct__wire_length(form, packet);
    if (all > capacity || all - HEADER > UINT32_MAX) {
        OCT_FAIL(INVALID, "message: %zu bytes do not fit in %zu", all, capacity);
    }
    uint64_t weight;
    memcpy(&weight, &header->weight, sizeof weight);
    memcpy(bytes + AT_MAGIC, magic, sizeof magic);
    bytes[AT_VERSION] = VERSION;
    bytes[AT_KIND] = kind_of(form);
    oct__put_little(bytes + AT_RUN, header->run, 8);
    oct__put_little(bytes + AT_SENDER, header->sender, 4);
    oct__put_little(bytes + AT_ROUND, header->round, 4);
    oct__put_little(bytes + AT_WEIGHT, weight, 8);
    oct__put_little(bytes + AT_PARTS, form->n_parts, 4);
    oct__put_little(bytes + AT_LENGTH, all - HEADER, 4);
    uint8_t *to = put_scales(form, scales, bytes + HEADER);
    to = put_values(form, values, to);
    if (is_sparse(form)) {
        put_index(form, index, to);
    }
    oct__put_little(bytes + AT_SUM, sum_of(bytes, all), 4);
    *length = all;
    return OCT_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* In all of these a packet of NULL means: look, do not write. */

static oct_status get_scales(const struct oct__packet_form *form, const uint8_t *from,
                             float *scales) {
    const size_t bytes = scale_bytes(form);
    for (size_t i = 0; i < form->n_scales; i++, from += bytes) {
        const uint32_t bits = (uint32_t)oct__get_little(from, bytes) << 8 * (4 - bytes);
        const float scale = oct__bits_float(bits);
        if (!is_scale(scale)) {
            OCT_FAIL(CORRUPT, "message: scale %zu is %g", i, (double)scale);
        }
        if (scales) {
            scales[i] = scale;
        }
    }
    return OCT_OK;
}

static oct_status get_bits(const struct oct__packet_form *form, const uint8_t *from,
                           int8_t *codes) {
    const unsigned bits = (unsigned)value_bits(form);
    const int most = most_code(form), is_sign = form->coding == OCT_CODING_SIGN;
    struct oct__bit_reader reader;
    oct__bits_open(&reader, from, (form->n_kept * bits + 7) / 8);
    for (size_t i = 0; i < form->n_kept; i++) {
        const int read = (int)oct__bits_get(&reader, bits);
        const int code = is_sign ? 1 - 2 * read : read - most;
        if (code > most) {
            OCT_FAIL(CORRUPT, "message: value %zu is at level %d of %d", i, code, most);
        }
        if (codes) {
            codes[i] = (int8_t)code;
        }
    }
    const uint8_t *next;
    if (!oct__bits_close(&reader, &next)) {
        OCT_FAIL(CORRUPT, "message: bits behind the last value");
    }
    return OCT_OK;
}

static oct_status get_values(const struct oct__packet_form *form, const uint8_t *from,
                             void *values) {
    float *floats = values;
    uint16_t *halves = values;
    switch (form->coding) {
    case OCT_CODING_F32:
        for (size_t i = 0; i < form->n_kept; i++) {
            const uint32_t bits = oct__get_little_32(from + 4 * i);
            if ((bits & INT32_MAX) >= INFINITE) {
                OCT_FAIL(CORRUPT, "message: value %zu is not finite", i);
            }
            if (values) {
                floats[i] = oct__bits_float(bits);
            }
        }
        return OCT_OK;
    case OCT_CODING_BF16:
        for (size_t i = 0; i < form->n_kept; i++) {
            const uint32_t bits = (uint32_t)oct__get_little(from + 2 * i, 2);
            if ((bits & INT16_MAX) >= INFINITE_BF16) {
                OCT_FAIL(CORRUPT, "message: value %zu is not finite", i);
            }
            if (values) {
                halves[i] = (uint16_t)bits;
            }
        }
        return OCT_OK;
    case OCT_CODING_S8:
        if (memchr(from, 0x80, form->n_kept)) {
            OCT_FAIL(CORRUPT, "message: a value is -128");
        }
        if (values) {
            memcpy(values, from, form->n_kept);
        }
        return OCT_OK;
    default:
        return get_bits(form, from, values);
    }
}

static oct_status get_index(const struct oct__packet_form *form, const uint8_t *from,
                            const uint8_t *end, uint32_t *index) {
    struct oct__bit_reader reader;
    oct__bits_open(&reader, from, (size_t)(end - from));
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct oct__part *part = &form->parts[i];
        const unsigned r = rice(part);
        uint64_t next = 0;
        for (size_t j = part->first; j < part->first + part->keep; j++) {
            const uint32_t most = (uint32_t)((part->count - next) >> r);
            const uint64_t upper = oct__bits_get_unary(&reader, most);
            const uint64_t place = next + (upper << r | oct__bits_get(&reader, r));
            if (reader.failed || place >= part->count) {
                OCT_FAIL(CORRUPT, "message: a place beyond tensor %zu, or beyond the end", i);
            }
            if (index) {
                index[j] = (uint32_t)place;
            }
            next = place + 1;
        }
    }
    const uint8_t *next;
    if (!oct__bits_close(&reader, &next) || next != end) {
        OCT_FAIL(CORRUPT, "message: %zu bytes, or bits, behind the last place",
                 (size_t)(end - next));
    }
    return OCT_OK;
}

static oct_status get_payload(const struct oct__packet_form *form, const uint8_t *from,
                              const uint8_t *end, char *packet) {
    const size_t values = form->n_scales * scale_bytes(form);
    OCT_TRY(get_scales(form, from, packet ? (void *)packet : NULL));
    OCT_TRY(get_values(form, from + values, packet ? packet + form->values_at : NULL));
    if (is_sparse(form)) {
        OCT_TRY(get_index(form, from + fixed_bytes(form), end,
                          packet ? (void *)(packet + form->index_at) : NULL));
    }
    if (packet) {
        const size_t used = form->values_at + form->n_kept * oct__coding_bytes(form->coding);
        memset(packet + used, 0, form->n_bytes - used);
    }
    return OCT_OK;
}

/* What holds for a message of any form. */
static oct_status check_frame(const uint8_t *bytes, size_t length) {
    if (length < HEADER) {
        OCT_FAIL(CORRUPT, "message: %zu bytes, the header alone has %d", length, HEADER);
    }
    if (memcmp(bytes + AT_MAGIC, magic, sizeof magic) != 0) {
        OCT_FAIL(CORRUPT, "message: does not begin with OCT8");
    }
    if (bytes[AT_VERSION] != VERSION) {
        OCT_FAIL(CORRUPT, "message: version %d, this is %d; run the same Octet everywhere",
                 bytes[AT_VERSION], VERSION);
    }
    const uint32_t payload = oct__get_little_32(bytes + AT_LENGTH);
    if (payload != length - HEADER) {
        OCT_FAIL(CORRUPT, "message: %zu bytes behind the header, which says %u", length - HEADER,
                 (unsigned)payload);
    }
    const uint32_t said = oct__get_little_32(bytes + AT_SUM), found = sum_of(bytes, length);
    if (said != found) {
        OCT_FAIL(CORRUPT, "message: CRC-32C is %08x, the header says %08x: altered on its way",
                 (unsigned)found, (unsigned)said);
    }
    return OCT_OK;
}

static oct_status check_header(const struct oct__packet_form *form, const uint8_t *bytes,
                               size_t length) {
    OCT_TRY(check_frame(bytes, length));
    const uint32_t payload = (uint32_t)(length - HEADER);
    if (bytes[AT_KIND] != kind_of(form) || oct__get_little_32(bytes + AT_PARTS) != form->n_parts) {
        OCT_FAIL(CORRUPT, "message: kind %02x of %u tensors, expected %02x of %zu", bytes[AT_KIND],
                 (unsigned)oct__get_little_32(bytes + AT_PARTS), kind_of(form), form->n_parts);
    }
    const size_t fixed = fixed_bytes(form);
    if (payload < fixed || (!is_sparse(form) && payload > fixed)) {
        OCT_FAIL(CORRUPT, "message: %u bytes behind the header, scales and values alone have %zu",
                 (unsigned)payload, fixed);
    }
    return OCT_OK;
}

static oct_status get_header(const uint8_t *bytes, struct oct__wire_header *header) {
    const uint64_t weight_bits = oct__get_little(bytes + AT_WEIGHT, 8);
    double weight;
    memcpy(&weight, &weight_bits, sizeof weight);
    if (!is_weight(weight)) {
        OCT_FAIL(CORRUPT, "message: a weight of %g", weight);
    }
    *header = (struct oct__wire_header){
        .run = oct__get_little(bytes + AT_RUN, 8),
        .sender = oct__get_little_32(bytes + AT_SENDER),
        .round = oct__get_little_32(bytes + AT_ROUND),
        .weight = weight,
    };
    return OCT_OK;
}

oct_status oct__wire_peek(const uint8_t *bytes, size_t length, struct oct__wire_header *header) {
    OCT_TRY(check_frame(bytes, length));
    return get_header(bytes, header);
}

oct_status oct__wire_decode(const struct oct__packet_form *form, const uint8_t *bytes,
                            size_t length, struct oct__wire_header *header, void *packet) {
    struct oct__wire_header found;
    OCT_TRY(check_header(form, bytes, length));
    OCT_TRY(get_header(bytes, &found));
    OCT_TRY(get_payload(form, bytes + HEADER, bytes + length, NULL));
    OCT_TRY(get_payload(form, bytes + HEADER, bytes + length, packet));
    *header = found;
    return OCT_OK;
}
