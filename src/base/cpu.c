/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - what the processor can do, asked once. */
#include <octet/cpu.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct {
    const char *name, *meaning;
} levels[] = {
#define X(name, text, meaning) {text, meaning},
    OCT_CPU_LIST(X)
#undef X
};

static atomic_int limit = OCT_CPU_COUNT - 1;

#if defined(__x86_64__)

/* The operating system must save the registers too; XCR0 says which it does. AMX's tiles also need
 * a permission asked of Linux, which oneDNN asks for itself. */
static uint64_t saved_registers(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) {
        return 0;
    }
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static enum oct_cpu_level detect(void) {
    unsigned a, b, c, d, a7, b7, c7, d7, a71 = 0, b71, c71, d71;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) {
        return OCT_CPU_REF;
    }
    (void)__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
    uint64_t saved = saved_registers();
    int fma = c >> 12 & 1, f16c = c >> 29 & 1, avx2 = b7 >> 5 & 1;
    if (!((saved & 0x6) == 0x6 && fma && f16c && avx2)) {
        return OCT_CPU_REF;
    }
    int f = b7 >> 16 & 1, dq = b7 >> 17 & 1, bw = b7 >> 30 & 1, vl = b7 >> 31 & 1;
    if (!((saved & 0xe6) == 0xe6 && f && dq && bw && vl)) {
        return OCT_CPU_AVX2;
    }
    if (!(c7 >> 11 & 1)) {
        return OCT_CPU_AVX512;
    }
    if (!(a71 >> 5 & 1)) {
        return OCT_CPU_AVX512VNNI;
    }
    int amx_bf16 = d7 >> 22 & 1, amx_tile = d7 >> 24 & 1, amx_int8 = d7 >> 25 & 1;
    if (!((saved & 0x60000) == 0x60000 && amx_bf16 && amx_tile && amx_int8)) {
        return OCT_CPU_AVX512BF16;
    }
    return OCT_CPU_AMX;
}

static void read_brand(char brand[64]) {
    unsigned words[12];
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000000U, &a, &b, &c, &d) || a < 0x80000004U) {
        snprintf(brand, 64, "unknown");
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        __get_cpuid(0x80000002U + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]);
    }
    char text[sizeof words + 1] = {0};
    memcpy(text, words, sizeof words);
    const char *start = text + strspn(text, " ");
    size_t length = strlen(start);
    while (length > 0 && start[length - 1] == ' ') {
        length--;
    }
    snprintf(brand, 64, "%.*s", length ? (int)length : 7, length ? start : "unknown");
}

#else

static enum oct_cpu_level detect(void) {
    return OCT_CPU_REF;
}

static void read_brand(char brand[64]) {
    snprintf(brand, 64, "unknown");
}

#endif

enum oct_cpu_level oct_cpu_machine_level(void) {
    static atomic_int found = -1; /* two threads may both detect; they find the same */
    int level = atomic_load(&found);
    if (level < 0) {
        level = (int)detect();
        atomic_store(&found, level);
    }
    return (enum oct_cpu_level)level;
}

enum oct_cpu_level oct_cpu_level(void) {
    int machine = (int)oct_cpu_machine_level(), most = atomic_load(&limit);
    return (enum oct_cpu_level)(machine < most ? machine : most);
}

const char *oct_cpu_level_name(enum oct_cpu_level level) {
    return (unsigned)level < OCT_CPU_COUNT ? levels[level].name : NULL;
}

const char *oct_cpu_level_meaning(enum oct_cpu_level level) {
    return (unsigned)level < OCT_CPU_COUNT ? levels[level].meaning : NULL;
}

oct_status oct_cpu_limit(const char *name) {
    for (int level = 0; level < OCT_CPU_COUNT; level++) {
        if (name && strcmp(name, levels[level].name) == 0) {
            if (level > (int)oct_cpu_machine_level()) {
                OCT_FAIL(UNSUPPORTED, "CPU level %s: this machine has no more than %s", name,
                         levels[oct_cpu_machine_level()].name);
            }
            atomic_store(&limit, level);
            return OCT_OK;
        }
    }
    char known[128] = "";
    for (int level = 0; level < OCT_CPU_COUNT; level++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", level ? ", " : "", levels[level].name);
    }
    OCT_FAIL(INVALID, "CPU level '%s' is not known; the levels are %s", name ? name : "", known);
}

const char *oct_cpu_brand(void) {
    static _Thread_local char brand[64];
    if (!brand[0]) {
        read_brand(brand);
    }
    return brand;
}
