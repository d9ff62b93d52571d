/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - which instruction sets are used, and how to use fewer.
 *
 * Levels are ordered; each contains those before it. The library finds the highest the machine has;
 * `oct_cpu_limit` lowers it, for tests and for comparisons (the command `octet` does so when the
 * environment variable OCT_CPU is set). Call it before anything else: libraries underneath can be
 * limited only before their first use.
 */
#ifndef OCTET_CPU_H
#define OCTET_CPU_H

#include <octet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCT_CPU_LIST(X)                                                                            \
    X(REF, "ref", "portable C, no vector instructions asked for")                                  \
    X(AVX2, "avx2", "AVX2 and FMA")                                                                \
    X(AVX512, "avx512", "AVX-512 F, BW, DQ, VL")                                                   \
    X(AVX512VNNI, "avx512vnni", "AVX-512 with 8-bit dot products")                                 \
    X(AVX512BF16, "avx512bf16", "AVX-512 with bf16 dot products")                                  \
    X(AMX, "amx", "tile products of int8 and bf16")

enum oct_cpu_level {
#define OCT_CPU_ROW(name, text, meaning) OCT_CPU_##name,
    OCT_CPU_LIST(OCT_CPU_ROW)
#undef OCT_CPU_ROW
        OCT_CPU_COUNT
};

/* The level in use: what the machine has, or less after oct_cpu_limit. */
OCT_API enum oct_cpu_level oct_cpu_level(void);

/* What the machine has. */
OCT_API enum oct_cpu_level oct_cpu_machine_level(void);

/* "avx512vnni"; NULL for a number that is no level. */
OCT_API const char *oct_cpu_level_name(enum oct_cpu_level level);
OCT_API const char *oct_cpu_level_meaning(enum oct_cpu_level level);

/* Use no more than the level called `name`. INVALID names the levels there are; UNSUPPORTED when
 * the machine has less. */
OCT_API OCT_MUST_CHECK oct_status oct_cpu_limit(const char *name);

/* The machine's own name for its processor, "unknown" where it has none; valid as long as the
 * calling thread lives. */
OCT_API const char *oct_cpu_brand(void);

#ifdef __cplusplus
}
#endif

#endif
