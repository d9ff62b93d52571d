/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - times the kernels: the best of several batches of calls.
 *
 * The best, not the mean: what disturbs a batch (another process, a page fault, a cold cache) only
 * ever makes it slower. Data is ordinary (cases.h), so no time is lost on denormals.
 */
#include "kernels/bench.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "kernels/cases.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double batch(const struct oct__case *which, const struct oct__kernels *table,
                    const struct oct__case_shape *shape, void *const *p, uint64_t calls) {
    double start = now();
    for (uint64_t i = 0; i < calls; i++) {
        which->call(table, shape, p);
    }
    return now() - start;
}

/* Batches of about 100 µs: the clock costs nothing then, and on a busy machine some are left alone.
 */
static double best_ns(const struct oct__case *which, const struct oct__kernels *table,
                      const struct oct__case_shape *shape, void *const *p, double seconds) {
    const double wanted = 100e-6;
    uint64_t calls = 1;
    double took;
    while ((took = batch(which, table, shape, p, calls)) < wanted / 2 && calls < (1U << 30)) {
        calls *= 2;
    }
    double best = took;
    double end = now() + seconds;
    for (int i = 0; i < 3 || now() < end; i++) {
        took = batch(which, table, shape, p, calls);
        best = took < best ? took : best;
    }
    return 1e9 * best / (double)calls;
}

/* As the engine calls the flat kernels. Not the others: a gradient that becomes its own input would
 * shrink call by call until it is denormal, and denormals are slow. */
static void work_in_place(const struct oct__case *which, void **p) {
    for (int out = 0; out < which->n_buffers; out++) {
        for (int in = 0; in < which->n_buffers; in++) {
            if (which->buffers[out].in_place >> in & 1U) {
                p[out] = p[in];
                break;
            }
        }
    }
}

static oct_status bench_shape(int index, const struct oct__case_shape *shape, double seconds,
                              int (*row)(const struct oct__kernel_time *, void *), void *ctx) {
    const struct oct__case *which = oct__case_at(index);
    void *memory[OCT_CASE_BUFFERS] = {NULL}, *p[OCT_CASE_BUFFERS] = {NULL};
    oct_status status = OCT_OK;
    for (int b = 0; b < which->n_buffers; b++) {
        size_t count = oct__case_count(which, shape, b);
        size_t bytes = count * oct__case_element_bytes(&which->buffers[b]);
        /* Apart in their low 12 bits: loads must not wait for stores to other arrays, or the time
         * would hang on where the allocator happened to put them. */
        size_t offset = (size_t)b * 448;
        OCT_TRY_TO(out, oct__alloc(bytes + offset + 4096, "kernel benchmark", &memory[b]));
        p[b] = (char *)memory[b] + (4096 - (uintptr_t)memory[b] % 4096) % 4096 + offset;
        struct oct__stream stream =
            oct__stream(1, OCT_PURPOSE_TEST, (uint32_t)index, 0, (uint32_t)b);
        oct__case_fill(&which->buffers[b], count, &stream, p[b]);
    }
    if (which->kind == OCT_CASE_FLAT || which->kind == OCT_CASE_PARTS) {
        work_in_place(which, p);
    }
    char text[64];
    oct__case_text(which, shape, text);
    double ref_ns = 0.0;
    for (int level = OCT_CPU_REF; level <= (int)oct_cpu_level(); level++) {
        enum oct_cpu_level at = (enum oct_cpu_level)level;
        const char *variant = oct__kernel_variant(index, at);
        if (strcmp(variant, oct_cpu_level_name(at)) != 0) {
            continue; /* this level uses a lower one's */
        }
        double ns = best_ns(which, oct__kernels_at(at), shape, p, seconds);
        if (level == OCT_CPU_REF) {
            ref_ns = ns;
        }
        struct oct__kernel_time time = {
            which->name, variant, ns, oct__case_bytes(which, shape) / ns, ref_ns / ns, text};
        if (row(&time, ctx) != 0) {
            OCT_FAIL_TO(out, CANCELLED, "kernel benchmark: stopped at %s", which->name);
        }
    }
out:
    for (int b = 0; b < which->n_buffers; b++) {
        oct__free(memory[b]);
    }
    return status;
}

oct_status oct__kernels_bench(const char *only_or_null, double seconds_each,
                              int (*row)(const struct oct__kernel_time *, void *ctx), void *ctx) {
    int found = 0;
    for (int index = 0; oct__case_at(index); index++) {
        const struct oct__case *which = oct__case_at(index);
        if (only_or_null && strcmp(only_or_null, which->name) != 0) {
            continue;
        }
        found = 1;
        for (const struct oct__case_shape *shape = which->bench; shape->rows != 0; shape++) {
            OCT_TRY(bench_shape(index, shape, seconds_each, row, ctx));
        }
    }
    if (!found) {
        OCT_FAIL(NOT_FOUND, "there is no kernel called '%s'; `octet info` lists them",
                 only_or_null ? only_or_null : "");
    }
    return OCT_OK;
}
