/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4).
 *
 * Ours rather than a library's because `model_sha256` is part of what every build reports, and the
 * smallest build has a C compiler and nothing else.
 */
#ifndef OCT_BASE_SHA256_H
#define OCT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define OCT_SHA256_TEXT 65 /* 64 hexadecimal digits and a NUL */

struct oct__sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
};

void oct__sha256_init(struct oct__sha256 *sha);
void oct__sha256_add(struct oct__sha256 *sha, const void *bytes, size_t n_bytes);
void oct__sha256_text(struct oct__sha256 *sha, char out[OCT_SHA256_TEXT]);

#endif
