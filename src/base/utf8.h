/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - texts that people write: run files, labels. */
#ifndef OCT_BASE_UTF8_H
#define OCT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Reads one character of at least one byte; its length, or 0 when these bytes are none. */
size_t oct__utf8_read(const unsigned char *at, size_t left, uint32_t *out);

/* Characters that a text for people does not hold. Among them are all line ends that only some
 * programs count: with "\n" and "\r\n" alone, a line has one number everywhere. */
int oct__utf8_is_strange(uint32_t code);

#endif
