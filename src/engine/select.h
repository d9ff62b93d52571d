/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - the k largest of n words, in linear time and in order of place, on the CPU. */
#ifndef OCT_ENGINE_SELECT_H
#define OCT_ENGINE_SELECT_H

#include <stddef.h>
#include <stdint.h>

/* Working space that oct__select_largest needs for up to n words. */
size_t oct__select_bytes(size_t n);

/* places[0 … k - 1] = the places of the k <= n largest of `words` (32 bits each, without a sign),
 * ascending; only the bits in `mask` count, and of equal words the first are taken. */
void oct__select_largest(size_t n, const void *words, uint32_t mask, size_t k, void *work,
                         uint32_t *places);

#endif
