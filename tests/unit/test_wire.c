/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - messages: what is decoded is what was encoded, nothing else is accepted, and they are
 * as small as promised. Below that, the bits and sums they are made of. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/crc32c.h"
#include "base/little.h"
#include "compress/wire.h"
#include "support/packets.h"

enum { HEADER = OCT_WIRE_HEADER, AT_SUM = 38, MOST = 1 << 21 };

static const struct oct__wire_header header = {
    .run = UINT64_C(0x1122334455667788), .sender = 7, .round = 4000000000U, .weight = 0.75};

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    return oct__engine_open("portable", 1, &engine) == OCT_OK ? 0 : -1;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

/* --- sums and bits ---------------------------------------------------------------------------- */

/* The definition, a bit at a time. */
static uint32_t slow_sum(const uint8_t *bytes, size_t n) {
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ (sum & 1U ? 0x82f63b78U : 0U);
        }
    }
    return ~sum;
}

static void sums(void **state) {
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], rising[32], any[300];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        rising[i] = (uint8_t)i;
    }
    const struct {
        const void *bytes;
        size_t n;
        uint32_t sum;
    } known[] = {
        /* RFC 3720, B.4, and the usual nine digits */
        {zeros, 32, 0x8a9136aaU},
        {ones, 32, 0x62a8ab43U},
        {rising, 32, 0x46dd794eU},
        {"123456789", 9, 0xe3069283U},
        {"", 0, 0},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(known); i++) {
        const uint32_t sum = oct__crc32c(0, known[i].bytes, known[i].n);
        print_message("%zu bytes: %08x, expected %08x\n", known[i].n, sum, known[i].sum);
        assert_int_equal(sum, known[i].sum);
    }
    struct dice dice = dice_of(1);
    for (size_t i = 0; i < sizeof any; i++) {
        any[i] = (uint8_t)dice_below(&dice, 256);
    }
    for (size_t n = 0; n <= sizeof any; n++) {
        const size_t cut = (size_t)dice_below(&dice, (int)n + 1);
        const uint32_t first = oct__crc32c(0, any, cut);
        assert_int_equal(oct__crc32c(first, any + cut, n - cut), slow_sum(any, n));
    }
}

static void bits(void **state) {
    (void)state;
    enum { N = 500 };
    static uint32_t values[N];
    static unsigned widths[N];
    static uint8_t bytes[8 * N];
    struct dice dice = dice_of(2);
    struct oct__bit_writer writer;
    size_t n_bits = 0;
    oct__bits_begin(&writer, bytes);
    for (int i = 0; i < N; i++) {
        widths[i] = (unsigned)dice_below(&dice, 35);
        if (widths[i] <= 32) {
            values[i] = (uint32_t)dice_below(&dice, INT32_MAX) * 2U + 1U;
            values[i] &= (uint32_t)((UINT64_C(1) << widths[i]) - 1);
            oct__bits_put(&writer, values[i], widths[i]);
            n_bits += widths[i];
        } else {
            values[i] = (uint32_t)dice_below(&dice, 100);
            oct__bits_put_unary(&writer, values[i]);
            n_bits += values[i] + 1;
        }
    }
    const unsigned extra = n_bits % 8 == 0; /* so that something is left of the last byte */
    oct__bits_put(&writer, 0, extra);
    n_bits += extra;
    uint8_t *end = oct__bits_end(&writer);
    const size_t n_bytes = (size_t)(end - bytes);
    print_message("%zu bits in %zu bytes\n", n_bits, n_bytes);
    assert_int_equal(n_bytes, (n_bits + 7) / 8);
    /* Whole, with a bit behind the end, and one byte short. */
    for (int kind = 0; kind < 3; kind++) {
        struct oct__bit_reader reader;
        const uint8_t *next;
        if (kind == 1) {
            end[-1] |= 0x80;
        }
        oct__bits_open(&reader, bytes, n_bytes - (kind == 2));
        for (int i = 0; i < N; i++) {
            const uint32_t read = widths[i] <= 32 ? oct__bits_get(&reader, widths[i])
                                                  : oct__bits_get_unary(&reader, 99);
            if (kind == 0) {
                assert_int_equal(read, values[i]);
            }
        }
        oct__bits_get(&reader, extra);
        assert_int_equal(oct__bits_close(&reader, &next), kind == 0);
        assert_int_equal(reader.failed, kind == 2);
        if (kind == 0) {
            assert_ptr_equal(next, end);
        }
    }
    /* More ones than allowed. */
    static const uint8_t ones[4] = {0xff, 0xff, 0x03, 0};
    struct oct__bit_reader reader;
    oct__bits_open(&reader, ones, sizeof ones);
    assert_int_equal(oct__bits_get_unary(&reader, 18), 18);
    assert_false(reader.failed);
    oct__bits_open(&reader, ones, sizeof ones);
    oct__bits_get_unary(&reader, 17);
    assert_true(reader.failed);
}

/* --- there and back --------------------------------------------------------------------------- */

static uint8_t message[MOST], again[MOST];

/* A packet of the form, as the engine makes it, of a row of normal numbers. */
static void *make_packet(const struct oct__packet_form *form, const struct layout *layout,
                         uint32_t seed) {
    struct dice dice = dice_of(seed);
    struct oct__tensor row = row_new(layout), packet = packet_new(form);
    fill_normal(row, &dice, 0.1);
    LAUNCH(engine, PACK, pack_attr(form, 0), launch_plain, row, absent, packet);
    return packet.at;
}

static size_t encode(const struct oct__packet_form *form, const void *packet, uint8_t *bytes) {
    size_t length = 0;
    EXPECT_OK(oct__wire_encode(form, &header, packet, bytes, MOST, &length));
    return length;
}

/* Decodes to the same packet and header, which then encode to the same bytes. */
static void expect_round_trip(const char *who, const struct oct__packet_form *form,
                              const void *packet) {
    struct oct__wire_header found = {0};
    struct oct__tensor decoded = packet_new(form);
    memset(decoded.at, 0x5a, form->n_bytes);
    const size_t length = encode(form, packet, message);
    if (length != oct__wire_length(form, packet) || length > oct__wire_most(form)) {
        fail_msg("%s: %zu bytes, expected %zu, at most %zu", who, length,
                 oct__wire_length(form, packet), oct__wire_most(form));
    }
    EXPECT_OK(oct__wire_decode(form, message, length, &found, decoded.at));
    if (memcmp(decoded.at, packet, form->n_bytes) != 0) {
        fail_msg("%s: the packet that was decoded is another one", who);
    }
    assert_memory_equal(&found, &header, sizeof found);
}

static const size_t sizes[] = {1, 3, 17, 40, 1023, 1024, 1100, 5000, 16};

static void round_trip(const char *variant) {
    const struct layout layout = layout_of(sizes, OCT_COUNT_OF(sizes));
    struct oct__packet_form *form = form_of(variant, &layout);
    for (uint32_t seed = 0; seed < 5; seed++) {
        expect_round_trip(variant, form, make_packet(form, &layout, seed));
    }
    /* A packet of zeros: every index at its lowest. */
    struct oct__tensor zeros = packet_new(form);
    uint32_t *index = (void *)((char *)zeros.at + form->index_at);
    int8_t *codes = (int8_t *)zeros.at + form->values_at;
    for (int last = 0; last < 2; last++) {
        for (size_t p = 0; p < form->n_parts; p++) {
            const struct oct__part *part = &form->parts[p];
            for (size_t i = 0; i < part->keep; i++) {
                const size_t place = i + (last ? part->count - part->keep : 0);
                if (form->select != OCT_SELECT_ALL) {
                    index[part->first + i] = (uint32_t)place;
                }
                if (form->coding == OCT_CODING_SIGN) {
                    codes[part->first + i] = last ? -1 : 1;
                }
            }
        }
        expect_round_trip(variant, form, zeros.at);
    }
    /* With every index at its highest, gaps take the most room that they can. */
    assert_int_equal(oct__wire_length(form, zeros.at), oct__wire_most(form));
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void what_is_encoded_is_decoded(void **state) {
    (void)state;
    each_compressor(round_trip);
}

/* The format, byte by byte: docs/formats/wire.md explains this message. */
static void the_format(void **state) {
    (void)state;
    static const size_t counts[] = {16, 1024};
    static const uint8_t wanted[] = {
        'O',  'C',  'T',  '8',  0x01, 0x09, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
        0x22, 0x11, 0x07, 0x00, 0x00, 0x00, 0x00, 0x28, 0x6b, 0xee, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0xe8, 0x3f, 0x02, 0x00, 0x00, 0x00, 0x0b, 0x00,
        0x00, 0x00, 0x57, 0x26, 0x94, 0x2e, 0x80, 0x3f, 0x00, 0x3e, /* scales 1 and 0.125 */
        0x7f, 0xff, 0x02,                                           /* codes 127, -1, 2 */
        0x15, 0xcb, 0xa4, 0x01 /* gaps 5 (r = 2), 300 and 722 (r = 8) */
    };
    const struct layout layout = layout_of(counts, 2);
    struct oct__packet_form *form = form_of("topk:0.998,values=int8", &layout);
    assert_int_equal(form->n_kept, 3);
    struct oct__tensor packet = packet_new(form);
    float *scales = packet.at;
    uint32_t *index = (void *)((char *)packet.at + form->index_at);
    int8_t *codes = (int8_t *)packet.at + form->values_at;
    scales[0] = 1.0F;   /* of the large tensor */
    scales[1] = 0.125F; /* of the small one */
    index[0] = 5;
    index[1] = 300;
    index[2] = 1023;
    codes[0] = 127;
    codes[1] = -1;
    codes[2] = 2;
    const size_t length = encode(form, packet.at, message);
    char text[256] = "";
    for (size_t i = HEADER; i < length && i < HEADER + 40; i++) {
        snprintf(text + 3 * (i - HEADER), 4, " %02x", message[i]);
    }
    print_message("%zu bytes, sum %02x %02x %02x %02x, payload%s\n", length, message[AT_SUM],
                  message[AT_SUM + 1], message[AT_SUM + 2], message[AT_SUM + 3], text);
    assert_int_equal(length, sizeof wanted);
    assert_memory_equal(message, wanted, sizeof wanted);
    const uint32_t sum = oct__get_little_32(message + AT_SUM);
    memset(message + AT_SUM, 0, 4);
    assert_int_equal(sum, slow_sum(message, length));
    oct__packet_form_destroy(form);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void fix_sum(uint8_t *bytes, size_t length) {
    memset(bytes + AT_SUM, 0, 4);
    oct__put_little(bytes + AT_SUM, oct__crc32c(0, bytes, length), 4);
}

/* CORRUPT, and neither header nor packet touched. */
static void expect_refused(const char *who, const char *what, size_t where,
                           const struct oct__packet_form *form, const uint8_t *bytes,
                           size_t length) {
    static uint8_t packet[1 << 16], before[sizeof packet];
    struct oct__wire_header found = {1, 2, 3, 4.0};
    const struct oct__wire_header kept = found;
    assert_true(form->n_bytes <= sizeof packet);
    memset(packet, 0x5a, form->n_bytes);
    memset(before, 0x5a, form->n_bytes);
    const oct_status status = oct__wire_decode(form, bytes, length, &found, packet);
    if (status != OCT_STATUS_CORRUPT || strncmp(oct_last_error(), "message: ", 9) != 0) {
        fail_msg("%s, %s at %zu: %s: %s", who, what, where, oct_status_name(status),
                 status == OCT_OK ? "" : oct_last_error());
    }
    assert_memory_equal(&found, &kept, sizeof found);
    assert_memory_equal(packet, before, form->n_bytes);
}

static const size_t few[] = {3, 40, 1100, 16};

static void damage(const char *variant) {
    const struct layout layout = layout_of(few, OCT_COUNT_OF(few));
    struct oct__packet_form *form = form_of(variant, &layout);
    const size_t length = encode(form, make_packet(form, &layout, 6), message);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
        expect_refused(variant, "a flipped bit", bit, form, message, length);
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        /* From memory of its own, so that a sanitizer sees a step behind the end; as it is, and
         * with a header that knows of the cut. */
        uint8_t *part = malloc(cut ? cut : 1);
        assert_non_null(part);
        memcpy(part, message, cut);
        expect_refused(variant, "the end", cut, form, part, cut);
        if (cut >= HEADER) {
            oct__put_little(part + 34, cut - HEADER, 4);
            fix_sum(part, cut);
            expect_refused(variant, "the end, put right", cut, form, part, cut);
        }
        free(part);
    }
    message[length] = 0;
    expect_refused(variant, "a byte more", length, form, message, length + 1);
    oct__put_little(message + 34, length + 1 - HEADER, 4);
    fix_sum(message, length + 1);
    expect_refused(variant, "a byte more, put right", length, form, message, length + 1);
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void damage_is_seen(void **state) {
    (void)state;
    each_compressor(damage);
}

/* Whoever makes the sum right gets through only with what encode would have written. */
static void forge(const char *variant) {
    const struct layout layout = layout_of(few, OCT_COUNT_OF(few));
    struct oct__packet_form *form = form_of(variant, &layout);
    struct dice dice = dice_of(8);
    struct oct__tensor packet = packet_new(form);
    const size_t length = encode(form, make_packet(form, &layout, 7), message);
    int accepted = 0, refused = 0;
    static uint8_t forged[MOST];
    for (int trial = 0; trial < 6000; trial++) {
        memcpy(forged, message, length);
        const int n_changes = 1 + dice_below(&dice, 3);
        for (int i = 0; i < n_changes; i++) {
            const size_t where = trial % 3 == 0 ? (size_t)dice_below(&dice, HEADER)
                                                : (size_t)dice_below(&dice, (int)length);
            forged[where] = trial % 2 ? (uint8_t)dice_below(&dice, 256)
                                      : forged[where] ^ (uint8_t)(1 << dice_below(&dice, 8));
        }
        fix_sum(forged, length);
        struct oct__wire_header found;
        if (oct__wire_decode(form, forged, length, &found, packet.at) == OCT_OK) {
            size_t n = 0;
            EXPECT_OK(oct__wire_encode(form, &found, packet.at, again, MOST, &n));
            assert_int_equal(n, length);
            if (memcmp(again, forged, length) != 0) {
                fail_msg("%s: a message was accepted that encodes differently", variant);
            }
            accepted++;
        } else {
            refused++;
        }
    }
    print_message("%s: %d accepted, all of them the one encoding; %d refused\n", variant, accepted,
                  refused);
    assert_true(accepted > 0 && refused > 0);
    oct__packet_form_destroy(form);
    tensors_free(NULL);
}

static void there_is_one_encoding(void **state) {
    (void)state;
    each_compressor(forge);
}

/* Each rule on its own, the sum being right. */
static void every_rule(void **state) {
    (void)state;
    static const size_t counts[] = {16, 1024};
    static const struct {
        const char *variant, *what;
        size_t at, n_bytes;
        uint64_t value;
    } rules[] = {
        {"int8", "magic", 0, 1, 'o'},
        {"int8", "version", 4, 1, 2},
        {"int8", "kind", 5, 1, 0},
        {"int8", "tensors", 30, 4, 3},
        {"int8", "length", 34, 4, 0},
        {"int8", "weight NaN", 22, 8, UINT64_C(0x7ff8000000000000)},
        {"int8", "weight infinite", 22, 8, UINT64_C(0x7ff0000000000000)},
        {"int8", "weight negative", 22, 8, UINT64_C(0xbff0000000000000)},
        {"int8", "weight -0", 22, 8, UINT64_C(0x8000000000000000)},
        {"int8", "scale NaN", 42, 4, 0x7fc00000},
        {"int8", "scale infinite", 42, 4, 0x7f800000},
        {"int8", "scale negative", 42, 4, 0xbf800000},
        {"int8", "scale -0", 42, 4, 0x80000000},
        {"int8", "scale subnormal", 42, 4, 0x00000001},
        {"int8", "code -128", 60, 1, 0x80},
        {"none", "value NaN", 50, 4, 0x7fc00000},
        {"none", "value infinite", 50, 4, 0xff800000},
        {"none:values=bf16", "value NaN", 50, 2, 0x7fc0},
        {"none:values=bf16", "value infinite", 50, 2, 0xff80},
        {"topk:0.99,values=int8", "scale NaN", 42, 2, 0x7fc0},
        {"topk:0.99,values=int8", "scale infinite", 44, 2, 0x7f80},
        {"topk:0.99,values=int8", "scale negative", 44, 2, 0xbf80},
        {"topk:0.99,values=int8", "scale subnormal", 42, 2, 0x0001},
        {"topk:0.99,values=int8", "code -128", 46, 1, 0x80},
        {"topk:0.99,values=int8", "a gap without an end", 57, 4, 0xffffffff},
        {"qsgd:2", "level 4 of 3", 50, 1, 0x07},
        {"qsgd:7", "level 128 of 127", 50, 1, 0xff},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rules); i++) {
        const struct layout layout = layout_of(counts, 2);
        struct oct__packet_form *form = form_of(rules[i].variant, &layout);
        const size_t length = encode(form, make_packet(form, &layout, 9), message);
        oct__put_little(message + rules[i].at, rules[i].value, rules[i].n_bytes);
        fix_sum(message, length);
        expect_refused(rules[i].variant, rules[i].what, rules[i].at, form, message, length);
        print_message("%s, %s: %s\n", rules[i].variant, rules[i].what, oct_last_error());
        oct__packet_form_destroy(form);
    }
    /* Bits behind the last: five elements of a bit, or of three. */
    static const char *const padded[] = {"sign", "qsgd:2", "topk:0.9"};
    static const size_t five[] = {5};
    for (size_t i = 0; i < OCT_COUNT_OF(padded); i++) {
        const struct layout layout = layout_of(five, 1);
        struct oct__packet_form *form = form_of(padded[i], &layout);
        const size_t length = encode(form, make_packet(form, &layout, 9), message);
        assert_int_equal(message[length - 1] & 0x80, 0);
        message[length - 1] |= 0x80;
        fix_sum(message, length);
        expect_refused(padded[i], "padding", length - 1, form, message, length);
        print_message("%s: %s\n", padded[i], oct_last_error());
        oct__packet_form_destroy(form);
    }
}

/* A message of one form is none of another. */
static void other_forms(void **state) {
    (void)state;
    static const char *const texts[] = {"none",  "none:values=bf16",     "int8",   "topk:0.9",
                                        "sign",  "topk:0.9,values=int8", "qsgd:3", "randk:0.9",
                                        "qsgd:4"};
    const struct layout layout = layout_of(few, OCT_COUNT_OF(few));
    const struct layout shorter = layout_of(few, OCT_COUNT_OF(few) - 1);
    for (size_t i = 0; i < OCT_COUNT_OF(texts); i++) {
        struct oct__packet_form *form = form_of(texts[i], &layout);
        struct oct__packet_form *fewer = form_of(texts[i], &shorter);
        const size_t length = encode(form, make_packet(form, &layout, 10), message);
        expect_refused(texts[i], "fewer tensors", 0, fewer, message, length);
        for (size_t j = 0; j < OCT_COUNT_OF(texts); j++) {
            struct oct__packet_form *other = form_of(texts[j], &layout);
            if (j != i) {
                expect_refused(texts[i], texts[j], 0, other, message, length);
            }
            oct__packet_form_destroy(other);
        }
        oct__packet_form_destroy(form);
        oct__packet_form_destroy(fewer);
    }
}

/* Packets that no engine makes are not sent. */
static void wrong_packets(void **state) {
    (void)state;
    static const size_t counts[] = {16, 1024};
    static const struct {
        const char *variant;
        size_t place; /* 0: a scale; 1: an index; 2: a value */
        uint32_t value;
        size_t n_bytes;
    } rows[] = {
        {"int8", 0, 0x7fc00000, 4},
        {"int8", 0, 0xbf800000, 4},
        {"int8", 2, 0x80, 1},
        {"topk:0.99,values=int8", 0, 0x3f800001, 4},
        {"topk:0.99", 1, 16, 4},
        {"topk:0.9,values=int8", 2, 0x80, 1},
        {"none", 2, 0x7f800000, 4},
        {"none:values=bf16", 2, 0x7f80, 2},
        {"sign", 2, 0, 1},
        {"sign", 2, 3, 1},
        {"qsgd:3", 2, 8, 1},
        {"qsgd:3", 2, 0xf8, 1},
        {"topk:0.9", 1, UINT32_MAX, 4},
        {"randk:0", 1, 1, 4},
    };
    for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
        const struct layout layout = layout_of(counts, 2);
        struct oct__packet_form *form = form_of(rows[i].variant, &layout);
        char *packet = make_packet(form, &layout, 11);
        const size_t places[] = {0, form->index_at, form->values_at};
        size_t length = 77;
        memcpy(packet + places[rows[i].place], &rows[i].value, rows[i].n_bytes);
        EXPECT_FAILURE(oct__wire_encode(form, &header, packet, message, MOST, &length),
                       OCT_STATUS_INVALID, "of the packet");
        assert_int_equal(length, 77);
        oct__packet_form_destroy(form);
    }
    const struct layout layout = layout_of(counts, 2);
    struct oct__packet_form *form = form_of("int8", &layout);
    const void *packet = make_packet(form, &layout, 12);
    const size_t needed = oct__wire_length(form, packet);
    size_t length = 77;
    EXPECT_FAILURE(oct__wire_encode(form, &header, packet, message, needed - 1, &length),
                   OCT_STATUS_INVALID, "do not fit");
    EXPECT_OK(oct__wire_encode(form, &header, packet, message, needed, &length));
    struct oct__wire_header wrong = header;
    wrong.weight = (double)NAN;
    EXPECT_FAILURE(oct__wire_encode(form, &wrong, packet, message, MOST, &length),
                   OCT_STATUS_INVALID, "weight");
    oct__packet_form_destroy(form);
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* ResNet-20 as the paper trains it: bytes of a message against the dense one in floats. */
static void resnet20_is_small(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double least; /* times smaller */
    } rows[] = {
        {"none", 1},     {"none:values=bf16", 1.99},      {"int8", 3.9},
        {"qsgd:3", 7.9}, {"topk:0.99,values=int8", 180},  {"topk:0.99", 70},
        {"sign", 31},    {"randk:0.99,values=int8", 180}, {"topk:0.99,values=bf16", 120},
        {"topk:0.9", 7}, {"topk:0.997,values=int8", 466}, {"topk:0.999,values=int8", 1000},
    };
    static const char *const norms[] = {"evonorm-s0", "range-evonorm", "batchnorm"};
    for (size_t k = 0; k < OCT_COUNT_OF(norms); k++) {
        const struct layout layout = layout_of_model("resnet20", norms[k]);
        print_message("%s: %zu tensors, %zu parameters\n", norms[k], layout.n_spans,
                      layout.n_params);
        const double dense = (double)HEADER + 4.0 * (double)layout.n_params;
        for (size_t i = 0; i < OCT_COUNT_OF(rows); i++) {
            struct oct__packet_form *form = form_of(rows[i].text, &layout);
            const void *packet = make_packet(form, &layout, 13);
            const size_t length = oct__wire_length(form, packet);
            const double ratio = dense / (double)length;
            print_message("  %-24s %8zu bytes, %.1f times smaller, at least %g\n", rows[i].text,
                          length, ratio, rows[i].least);
            assert_true(ratio >= rows[i].least);
            expect_round_trip(rows[i].text, form, packet);
            oct__packet_form_destroy(form);
            tensors_free(NULL);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(bits),
        cmocka_unit_test_teardown(what_is_encoded_is_decoded, tensors_free),
        cmocka_unit_test_teardown(the_format, tensors_free),
        cmocka_unit_test_teardown(damage_is_seen, tensors_free),
        cmocka_unit_test_teardown(there_is_one_encoding, tensors_free),
        cmocka_unit_test_teardown(every_rule, tensors_free),
        cmocka_unit_test_teardown(other_forms, tensors_free),
        cmocka_unit_test_teardown(wrong_packets, tensors_free),
        cmocka_unit_test_teardown(resnet20_is_small, tensors_free),
    };
    return cmocka_run_group_tests_name("wire", tests, open_engine, close_engine);
}
