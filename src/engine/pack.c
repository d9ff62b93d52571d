/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - weights of bytes in the order in which VNNI multiplies them.
 *
 *     [16 outputs][16 inputs][tap][4 of the inputs][output][input of the 4], zeros where there is none,
 *     and behind all of them for each output minus the sum of its weights (s32), which puts right what
 *     the zero point of x adds
 *
 * A library that reads this order has a way to make it, which visits the weights one by one; a network
 * with many weights and small images spends more time there than on its products. Here four inputs
 * are one store, and a block of 16 x 16 stays in the L1.
 */
#include <string.h>

#include "engine/cpu.h"

/* One weight, 0 outside. */
static int weight_at(const struct oct__pack *p, const int8_t *w, int o, int i, int tap) {
    return o < p->out && i < p->in
               ? w[(size_t)o * p->out_step + (size_t)i * p->in_step + (size_t)tap]
               : 0;
}

static void put(int8_t *to, uint32_t word) {
    memcpy(to, &word, sizeof word);
}

static uint32_t four(int a, int b, int c, int d) {
    return (uint32_t)(uint8_t)a | (uint32_t)(uint8_t)b << 8 | (uint32_t)(uint8_t)c << 16 |
           (uint32_t)(uint8_t)d << 24;
}

enum { TAP_BYTES = OCT_PACK_SIDE * OCT_PACK_SIDE }; /* of a block */

/* Sixteen outputs and inputs from (o, i) on, of which there may be fewer; subtracts from their sums. */
static void pack_border(const struct oct__pack *p, const int8_t *w, int o, int i, int8_t *block,
                        int32_t *sums) {
    for (int n = 0; n < OCT_PACK_SIDE; n++) {
        for (int m = 0; m < OCT_PACK_SIDE; m += 4) {
            for (int tap = 0; tap < p->taps; tap++) {
                int v[4];
                for (int j = 0; j < 4; j++) {
                    v[j] = weight_at(p, w, o + n, i + m + j, tap);
                    sums[n] -= v[j];
                }
                put(block + tap * TAP_BYTES + m * OCT_PACK_SIDE + n * 4,
                    four(v[0], v[1], v[2], v[3]));
            }
        }
    }
}

#define EVEN 0x00ff00ff00ff00ffULL  /* bytes */
#define LOWER 0x0000ffff0000ffffULL /* halves of words */

static uint64_t eight(const int8_t *from) {
    uint64_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Eight taps of four inputs: two words at a time in a register, of taps t and t + 4. Returns the sum of
 * all weights. */
static int32_t pack_eight(const int8_t *const *w, int8_t *to) {
    const uint64_t a = eight(w[0]), b = eight(w[1]), c = eight(w[2]), d = eight(w[3]);
    const uint64_t ab0 = (a & EVEN) | (b & EVEN) << 8, ab1 = (a >> 8 & EVEN) | (b & ~EVEN);
    const uint64_t cd0 = (c & EVEN) | (d & EVEN) << 8, cd1 = (c >> 8 & EVEN) | (d & ~EVEN);
    const uint64_t taps[4] = {
        (ab0 & LOWER) | (cd0 & LOWER) << 16, (ab1 & LOWER) | (cd1 & LOWER) << 16,
        (ab0 >> 16 & LOWER) | (cd0 & ~LOWER), (ab1 >> 16 & LOWER) | (cd1 & ~LOWER)};
    for (int t = 0; t < 4; t++) {
        put(to + t * TAP_BYTES, (uint32_t)taps[t]);
        put(to + (t + 4) * TAP_BYTES, (uint32_t)(taps[t] >> 32));
    }
    /* Bytes with 128 added are not negative: four sums of eight of them, then one of those. */
    const uint64_t flip = 0x8080808080808080ULL;
    uint64_t sums = 0;
    const uint64_t all[4] = {a ^ flip, b ^ flip, c ^ flip, d ^ flip};
    for (int j = 0; j < 4; j++) {
        sums += (all[j] & EVEN) + (all[j] >> 8 & EVEN);
    }
    return (int32_t)(sums * 0x0001000100010001ULL >> 48) - 4 * 8 * 128;
}

/* The same where all are there. */
static void pack_block(const struct oct__pack *p, const int8_t *w, int8_t *block, int32_t *sums) {
    for (int n = 0; n < OCT_PACK_SIDE; n++, w += p->out_step) {
        int32_t sum = 0;
        for (int m = 0; m < OCT_PACK_SIDE; m += 4) {
            const int8_t *from[4];
            int8_t *to = block + m * OCT_PACK_SIDE + n * 4;
            int tap = 0;
            for (int j = 0; j < 4; j++) {
                from[j] = w + (size_t)(m + j) * p->in_step;
            }
            for (; tap + 8 <= p->taps; tap += 8, to += 8 * TAP_BYTES) {
                sum += pack_eight(from, to);
                for (int j = 0; j < 4; j++) {
                    from[j] += 8;
                }
            }
            for (int j = 0; tap + j < p->taps; j++, to += TAP_BYTES) {
                put(to, four(from[0][j], from[1][j], from[2][j], from[3][j]));
                sum += from[0][j] + from[1][j] + from[2][j] + from[3][j];
            }
        }
        sums[n] -= sum;
    }
}

void oct__pack_s8(const struct oct__pack *p, const int8_t *w, void *to) {
    const int out = (p->out + OCT_PACK_SIDE - 1) / OCT_PACK_SIDE * OCT_PACK_SIDE;
    const int in = (p->in + OCT_PACK_SIDE - 1) / OCT_PACK_SIDE * OCT_PACK_SIDE;
    const size_t block_bytes = (size_t)p->taps * OCT_PACK_SIDE * OCT_PACK_SIDE;
    int8_t *block = to;
    int32_t *sums = (int32_t *)(void *)(block + (size_t)out * (size_t)in * (size_t)p->taps);
    memset(sums, 0, (size_t)out * sizeof *sums);
    for (int o = 0; o < out; o += OCT_PACK_SIDE) {
        for (int i = 0; i < in; i += OCT_PACK_SIDE, block += block_bytes) {
            if (o + OCT_PACK_SIDE <= p->out && i + OCT_PACK_SIDE <= p->in) {
                pack_block(p, w + (size_t)o * p->out_step + (size_t)i * p->in_step, block,
                           sums + o);
            } else {
                pack_border(p, w, o, i, block, sums + o);
            }
        }
    }
}
