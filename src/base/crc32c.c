/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.c - CRC-32C, polynomial 0x1edc6f41 reflected, eight bytes a step.
 *
 * Kounavis, Berry, "A systematic approach to building high performance software-based CRC
 * generators", ISCC 2005: the sum is linear, so the contributions of eight bytes are looked up in a
 * table each and added. For the same reason a table follows from the entries of 1, 2, 4, … 128, and
 * the preprocessor writes it: nothing has to be initialized, and by nobody first.
 */
#include "base/crc32c.h"

#include "base/little.h"

/* Every sum of the eight, in the order of the byte whose bits say which.
 */
#define TABLE_1(s, a) (s), (s) ^ (a)
#define TABLE_2(s, a, b) TABLE_1(s, a), TABLE_1((s) ^ (b), a)
#define TABLE_3(s, a, b, c) TABLE_2(s, a, b), TABLE_2((s) ^ (c), a, b)
#define TABLE_4(s, a, b, c, d) TABLE_3(s, a, b, c), TABLE_3((s) ^ (d), a, b, c)
#define TABLE_5(s, a, b, c, d, e) TABLE_4(s, a, b, c, d), TABLE_4((s) ^ (e), a, b, c, d)
#define TABLE_6(s, a, b, c, d, e, f) TABLE_5(s, a, b, c, d, e), TABLE_5((s) ^ (f), a, b, c, d, e)
#define TABLE_7(s, a, b, c, d, e, f, g)                                                            \
    TABLE_6(s, a, b, c, d, e, f), TABLE_6((s) ^ (g), a, b, c, d, e, f)
#define TABLE(a, b, c, d, e, f, g, h)                                                              \
    TABLE_7(0x00000000, a, b, c, d, e, f, g), TABLE_7(h, a, b, c, d, e, f, g)

/* tables[k][byte]: the sum of the byte and k zeros behind it. */
static const uint32_t tables[8][256] = {
    {TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc,
           0x82f63b78)},
    {TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604,
           0xfbc3faf9)},
    {TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9,
           0x8b277743)},
    {TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7,
           0x52a0c93f)},
    {TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae,
           0x6ea2d55c)},
    {TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb,
           0x1c08b7d6)},
    {TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a,
           0xf56e0ef4)},
    {TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32,
           0x34019664)},
};

uint32_t oct__crc32c(uint32_t before, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint32_t sum = ~before;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = sum ^ oct__get_little_32(p), high = oct__get_little_32(p + 4);
        sum = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
              tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
    }
    for (; n > 0; n--, p++) {
        sum = tables[0][(sum ^ *p) & 255] ^ sum >> 8;
    }
    return ~sum;
}
