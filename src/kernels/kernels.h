/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the CPU's element-wise kernels as a table of functions, chosen by CPU level.
 *
 * kernels.def says what each one computes. Callers fetch the table once and call through it:
 *
 *     const struct oct__kernels *k = oct__kernels();
 *     k->add_f32(n, a, b, y);
 */
#ifndef OCT_KERNELS_KERNELS_H
#define OCT_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <octet/cpu.h>

struct oct__stream; /* base/rng.h */
struct oct__outer;  /* kernels/outer.h */

struct oct__kernels {
#define OCT_KERNEL(name, parameters) void(*name) parameters;
#include "kernels/kernels.def"
#undef OCT_KERNEL
};

/* The table for the level in use (oct_cpu_level). */
const struct oct__kernels *oct__kernels(void);

/* The table for a level the machine may or may not have: for the checker. Variants above the
 * machine's level must not be called. */
const struct oct__kernels *oct__kernels_at(enum oct_cpu_level level);

/* Row `index` of kernels.def: its name, and the level of the variant that `level` uses ("avx2");
 * NULL past the end. For `octet info`. */
const char *oct__kernel_name(int index);
const char *oct__kernel_variant(int index, enum oct_cpu_level level);

#endif
