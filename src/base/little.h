/* SPDX-License-Identifier: Apache-2.0 */
/* little.h - numbers as bytes, the lowest first, whatever the machine's own order is. */
#ifndef OCT_BASE_LITTLE_H
#define OCT_BASE_LITTLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The lowest `n` bytes of a number. */
static inline void oct__put_little(uint8_t *bytes, uint64_t value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(value >> 8 * i);
    }
}

static inline uint64_t oct__get_little(const uint8_t *bytes, size_t n) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value |= (uint64_t)bytes[i] << 8 * i;
    }
    return value;
}

static inline uint32_t oct__get_little_32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* The bits of a float, and the float of bits. */
static inline uint32_t oct__float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float oct__bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
