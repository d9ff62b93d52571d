/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - the tables of kernels, one per CPU level that has variants of its own.
 *
 * All of it is constant data put together by the preprocessor from kernels.def and overrides.def,
 * so there is nothing to initialize and nothing to lock. A level's table is the specification's
 * functions, overwritten by the overrides of every level up to it.
 */
#include "kernels/kernels.h"

#include "kernels/variants.h"

#if defined(__x86_64__) && !defined(OCT_NO_X86)
#define OCT_HAVE_X86 1
#else
#define OCT_HAVE_X86 0
#endif

enum kernel {
#define OCT_KERNEL(name, parameters) KERNEL_##name,
#include "kernels/kernels.def"
#undef OCT_KERNEL
    KERNEL_COUNT
};

static const char *const names[KERNEL_COUNT] = {
#define OCT_KERNEL(name, parameters) [KERNEL_##name] = #name,
#include "kernels/kernels.def"
#undef OCT_KERNEL
};

/* own[kernel][level]: the level brings a variant of this kernel. */
static const unsigned char own[KERNEL_COUNT][OCT_CPU_COUNT] = {
#if OCT_HAVE_X86
#define OCT_OVERRIDE(level, name) [KERNEL_##name][OCT_CPU_##level] = 1,
#include "kernels/overrides.def"
#undef OCT_OVERRIDE
#else
    {0}
#endif
};

/* In these initializers a later override is meant to replace an earlier row. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

#define OCT_KERNEL(name, parameters) .name = oct_##name##__ref,

static const struct oct__kernels table_ref = {
#include "kernels/kernels.def"
};

#if OCT_HAVE_X86

#define OCT_OVERRIDE(level, name) OVERRIDE_##level(name)

#define OVERRIDE_AVX2(name) .name = oct_##name##__avx2,
#define OVERRIDE_AVX512(name)
#define OVERRIDE_AVX512BF16(name)

static const struct oct__kernels table_avx2 = {
#include "kernels/kernels.def"

#include "kernels/overrides.def"
};

#undef OVERRIDE_AVX512
#define OVERRIDE_AVX512(name) .name = oct_##name##__avx512,

static const struct oct__kernels table_avx512 = {
#include "kernels/kernels.def"

#include "kernels/overrides.def"
};

#undef OVERRIDE_AVX512BF16
#define OVERRIDE_AVX512BF16(name) .name = oct_##name##__avx512bf16,

static const struct oct__kernels table_avx512bf16 = {
#include "kernels/kernels.def"

#include "kernels/overrides.def"
};

#endif

#undef OCT_KERNEL

const struct oct__kernels *oct__kernels_at(enum oct_cpu_level level) {
#if OCT_HAVE_X86
    if (level >= OCT_CPU_AVX512BF16) {
        return &table_avx512bf16;
    }
    if (level >= OCT_CPU_AVX512) {
        return &table_avx512;
    }
    if (level >= OCT_CPU_AVX2) {
        return &table_avx2;
    }
#else
    (void)level;
#endif
    return &table_ref;
}

const struct oct__kernels *oct__kernels(void) {
    return oct__kernels_at(oct_cpu_level());
}

const char *oct__kernel_name(int index) {
    return index >= 0 && index < KERNEL_COUNT ? names[index] : NULL;
}

const char *oct__kernel_variant(int index, enum oct_cpu_level level) {
    if (index < 0 || index >= KERNEL_COUNT || (unsigned)level >= OCT_CPU_COUNT) {
        return NULL;
    }
    int found = OCT_CPU_REF;
    for (int lower = OCT_CPU_REF + 1; lower <= (int)level; lower++) {
        found = own[index][lower] ? lower : found;
    }
    return oct_cpu_level_name((enum oct_cpu_level)found);
}
