/* SPDX-License-Identifier: Apache-2.0 */
/* variants.h - prototypes of every variant a kernel may have: oct_<op>__<isa>.
 *
 * Declared for all rows and levels alike; which exist is what overrides.def says, and a row there
 * without its function does not link.
 */
#ifndef OCT_KERNELS_VARIANTS_H
#define OCT_KERNELS_VARIANTS_H

#include <stddef.h>
#include <stdint.h>

struct oct__stream; /* base/rng.h */
struct oct__outer;  /* kernels/outer.h */

#define OCT_KERNEL(name, parameters)                                                               \
    void oct_##name##__ref parameters;                                                             \
    void oct_##name##__avx2 parameters;                                                            \
    void oct_##name##__avx512 parameters;                                                          \
    void oct_##name##__avx512bf16 parameters;
#include "kernels/kernels.def"
#undef OCT_KERNEL

#endif
