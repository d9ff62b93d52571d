/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the kernel checker: every variant against ref, ref against arithmetic in double.
 *
 *     check_kernels                       check all; exit 1 when anything differs
 *     check_kernels --seed 42             the same data again
 *     check_kernels --kernel add_f32      one kernel
 *     check_kernels --bench [--json]      time every variant instead
 *
 * Three parts. The tables must agree with themselves (this file); every variant the machine can run
 * must give ref's bits (variants.c); and ref, which those two only prove consistent, must agree
 * with formulas written a second time in double, gradients by finite differences (oracle.c).
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/bench.h"
#include "kernels/kernels.h"

static const size_t slots[] = {
#define OCT_KERNEL(name, parameters) offsetof(struct oct__kernels, name),
#include "kernels/kernels.def"
#undef OCT_KERNEL
};

enum { N_KERNELS = sizeof slots / sizeof slots[0] };

static int same_function(const struct oct__kernels *a, const struct oct__kernels *b, int index) {
    size_t slot = slots[index];
    return memcmp((const char *)a + slot, (const char *)b + slot, sizeof a->add_f32) == 0;
}

/* A level's function is its own exactly where oct__kernel_variant says so. */
static int check_tables(void) {
    int failures = 0;
    for (int index = 0; index < N_KERNELS; index++) {
        for (int level = OCT_CPU_REF; level < OCT_CPU_COUNT; level++) {
            enum oct_cpu_level at = (enum oct_cpu_level)level;
            const char *variant = oct__kernel_variant(index, at);
            int says_own = strcmp(variant, oct_cpu_level_name(at)) == 0;
            int is_own = level == OCT_CPU_REF ||
                         !same_function(oct__kernels_at(at),
                                        oct__kernels_at((enum oct_cpu_level)(level - 1)), index);
            if (says_own != is_own) {
                fprintf(stderr, "%s at %s: said to be the variant of %s, but the table %s\n",
                        oct__kernel_name(index), oct_cpu_level_name(at), variant,
                        is_own ? "changes here" : "does not change here");
                failures++;
            }
        }
    }
    if (oct__kernel_name(N_KERNELS) || oct__kernel_name(-1) ||
        oct__kernel_variant(N_KERNELS, OCT_CPU_REF) || oct__kernel_variant(-1, OCT_CPU_REF)) {
        fprintf(stderr, "a name or a variant beyond the end of kernels.def is not NULL\n");
        failures++;
    }
    if (oct__kernels() != oct__kernels_at(oct_cpu_level())) {
        fprintf(stderr, "oct__kernels() is not the table of the level in use\n");
        failures++;
    }
    return failures;
}

/* What each level up to the machine's uses: "ref avx2 avx512", without repetitions. */
static void print_variants(int index) {
    for (int level = OCT_CPU_REF; level <= (int)oct_cpu_machine_level(); level++) {
        const char *variant = oct__kernel_variant(index, (enum oct_cpu_level)level);
        if (strcmp(variant, oct_cpu_level_name((enum oct_cpu_level)level)) == 0) {
            printf(" %s", variant);
        }
    }
}

static int check(const char *only, uint64_t seed) {
    printf("kernel checker, seed %llu (replay with --seed %llu), machine level %s\n",
           (unsigned long long)seed, (unsigned long long)seed,
           oct_cpu_level_name(oct_cpu_machine_level()));
    int failures = check_tables();
    if (!check_variants_open()) {
        fprintf(stderr, "the checker could not map its memory\n");
        return 1;
    }
    printf("%-26s %10s  %s\n", "kernel", "compared", "variants");
    for (int index = 0; index < N_KERNELS; index++) {
        const char *name = oct__kernel_name(index);
        if (only && strcmp(only, name) != 0) {
            continue;
        }
        uint64_t n_calls = 0;
        int differed = check_variants(index, seed, &n_calls);
        printf("%-26s %10llu ", name, (unsigned long long)n_calls);
        print_variants(index);
        printf("%s\n", differed ? "  DIFFER" : "");
        failures += differed;
    }
    check_variants_close();
    failures += check_oracle(only, seed);
    printf("%s\n", failures ? "FAILED" : "all equal");
    return failures ? 1 : 0;
}

struct bench_output {
    int json, n_rows;
    char last[64];
};

static int print_time(const struct oct__kernel_time *time, void *context) {
    struct bench_output *out = context;
    if (out->json) {
        printf("%s\n  {\"name\": \"%s\", \"shape\": \"%s\", \"variant\": \"%s\", \"ns\": %.1f, "
               "\"gb_per_s\": %.2f, \"speedup\": %.2f}",
               out->n_rows ? "," : "", time->name, time->shape, time->variant, time->ns,
               time->gb_per_s, time->speedup);
    } else {
        int repeated = strcmp(out->last, time->name) == 0;
        snprintf(out->last, sizeof out->last, "%s", time->name);
        int is_ref = strcmp(time->variant, "ref") == 0;
        printf("%-26s %-14s %-8s %12.0f %8.1f", repeated ? "" : time->name,
               is_ref ? time->shape : "", time->variant, time->ns, time->gb_per_s);
        if (is_ref) {
            printf("\n");
        } else {
            printf(" %7.2fx\n", time->speedup);
        }
    }
    fflush(stdout);
    out->n_rows++;
    return 0;
}

static int bench(const char *only, int json, double seconds) {
    struct bench_output out = {.json = json};
    if (json) {
        printf("{\"schema\": 1, \"rows\": [");
    } else {
        printf("%-26s %-14s %-8s %12s %8s %8s\n", "kernel", "shape", "variant", "ns", "GB/s",
               "over ref");
    }
    oct_status status = oct__kernels_bench(only, seconds, print_time, &out);
    if (json) {
        printf("\n]}\n");
    }
    if (status != OCT_OK) {
        fprintf(stderr, "%s: %s\n", oct_status_name(status), oct_last_error());
        return 1;
    }
    return 0;
}

static int known(const char *name) {
    for (int index = 0; index < N_KERNELS; index++) {
        if (strcmp(oct__kernel_name(index), name) == 0) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was done stands above a failure, in a pipe too */
    uint64_t seed = (uint64_t)time(NULL) * 2654435761U % 1000000007U;
    const char *only = NULL;
    int timing = 0, json = 0;
    double seconds = 0.05;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--bench") == 0) {
            timing = 1;
        } else if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], &end, 10);
        } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
            seconds = strtod(argv[++i], &end);
        } else if (strcmp(argv[i], "--kernel") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            fprintf(stderr,
                    "usage: %s [--seed N] [--kernel NAME] [--bench [--seconds S] "
                    "[--json]]\n",
                    argv[0]);
            return 2;
        }
        if (end && (*end != '\0' || end == argv[i])) {
            fprintf(stderr, "%s: '%s' is not a number\n", argv[i - 1], argv[i]);
            return 2;
        }
    }
    if (only && !known(only)) {
        fprintf(stderr, "--kernel: there is no kernel called '%s'; kernels.def lists them\n", only);
        return 2;
    }
    return timing ? bench(only, json, seconds) : check(only, seed);
}
