/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli): finds damage in messages and files. Not a defence against
 * somebody who wants to do damage. */
#ifndef OCT_BASE_CRC32C_H
#define OCT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The sum of what came before (0: nothing) and `n` more bytes. */
uint32_t oct__crc32c(uint32_t before, const void *bytes, size_t n);

#endif
