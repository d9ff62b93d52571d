/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_clock.c - time by a GPU's own clock, and what the GPU does at most.
 *
 * The host launches about as fast as the device works, and waiting for each launch costs more than most
 * of them take: only the device knows how long they took. Events that it passes between launches say
 * so, also in pieces that are replayed, where no host is in the way.
 *
 * What it does at most is measured, not read from a table: a copy of more than caches hold, and products
 * of the kinds that the kernels use with nothing else to do (cuda/limits.cu). Products of floats are
 * three of tf32, so a third of those is what counts.
 */
#include "engine/cuda.h"

#ifdef OCT_HAVE_CUDA

#include <cuda_runtime_api.h>

#include "base/alloc.h"

static struct oct__cuda_engine *cuda_of(struct oct__engine *engine) {
    return (struct oct__cuda_engine *)engine;
}

/* --- stamps ---------------------------------------------------------------------------------- */

static oct_status make_stamps(struct oct__cuda_engine *cuda, size_t n) {
    void *list = cuda->stamps;
    OCT_TRY(
        oct__alloc_grow(&list, &cuda->stamp_capacity, n, sizeof(struct CUevent_st *), "stamps"));
    cuda->stamps = list;
    while (cuda->n_stamps < n) {
        const cudaError_t error =
            cudaEventCreateWithFlags(&cuda->stamps[cuda->n_stamps], cudaEventDefault);
        if (error != cudaSuccess) {
            return oct__cuda_failed((int)error, "a stamp");
        }
        cuda->n_stamps++;
    }
    return OCT_OK;
}

static oct_status cuda_stamp(struct oct__engine *engine, size_t index) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (index >= cuda->n_stamps) {
        OCT_TRY(make_stamps(cuda, index + 1));
    }
    cudaError_t error = cudaStreamIsCapturing(cuda->stream, &capture);
    if (error == cudaSuccess) {
        /* without the flag, what is recorded would only know an order of launches */
        error = cudaEventRecordWithFlags(cuda->stamps[index], cuda->stream,
                                         capture == cudaStreamCaptureStatusActive
                                             ? cudaEventRecordExternal
                                             : cudaEventRecordDefault);
    }
    return error == cudaSuccess ? OCT_OK : oct__cuda_failed((int)error, "a stamp");
}

static oct_status cuda_stamped(struct oct__engine *engine, size_t from, size_t to,
                               double *seconds) {
    const struct oct__cuda_engine *cuda = cuda_of(engine);
    float ms = 0;
    if (from >= cuda->n_stamps || to >= cuda->n_stamps) {
        OCT_FAIL(INTERNAL, "engine cuda: stamps %zu and %zu of %zu", from, to, cuda->n_stamps);
    }
    const cudaError_t error = cudaEventElapsedTime(&ms, cuda->stamps[from], cuda->stamps[to]);
    *seconds = 1e-3 * (double)ms;
    return error == cudaSuccess ? OCT_OK : oct__cuda_failed((int)error, "reading a stamp");
}

/* --- limits ---------------------------------------------------------------------------------- */

enum {
    TRIES = 5, /* of which the fastest counts */
    COPY_MOST = 1 << 28,
    COPY_SHARE = 64, /* of the memory that is left, at most */
    BLOCKS_EACH = 4, /* on each processor at once */
    ROUNDS_FIRST = 8,
    ROUNDS_MOST = 1 << 20,
};

/* A measurement takes at least so long, so that its begin and end do not count. */
#define LEAST_SECONDS 5e-4

/* Between stamps 0 and 1, which are the last. */
static oct_status read_clock(struct oct__engine *engine, double *seconds) {
    OCT_TRY(cuda_stamp(engine, 1));
    OCT_TRY(engine->finish(engine));
    return cuda_stamped(engine, 0, 1, seconds);
}

static oct_status time_copy(struct oct__cuda_engine *cuda, char *memory, size_t bytes,
                            double *seconds) {
    OCT_TRY(cuda_stamp(&cuda->engine, 0));
    const cudaError_t error =
        cudaMemcpyAsync(memory, memory + bytes, bytes, cudaMemcpyDeviceToDevice, cuda->stream);
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, "a copy on the device");
    }
    return read_clock(&cuda->engine, seconds);
}

static oct_status time_products(struct oct__cuda_engine *cuda, enum oct__unit unit, int n_blocks,
                                int rounds, void *sink, double *rate, double *seconds) {
    OCT_TRY(cuda_stamp(&cuda->engine, 0));
    const double each = oct__cuda_keep_busy(cuda, unit, n_blocks, rounds, sink);
    OCT_TRY(oct__cuda_launched("products of a measurement"));
    OCT_TRY(read_clock(&cuda->engine, seconds));
    *rate = *seconds > 0 ? each * rounds / *seconds : 0.0;
    return OCT_OK;
}

/* A launch of nothing behind one that takes a while: the device, not the host, is what it waits for. */
static oct_status time_launch(struct oct__cuda_engine *cuda, int n_blocks, int rounds, void *sink,
                              double *seconds) {
    (void)oct__cuda_keep_busy(cuda, OCT_UNIT_S8, n_blocks, rounds, sink);
    OCT_TRY(cuda_stamp(&cuda->engine, 0));
    (void)oct__cuda_keep_busy(cuda, OCT_UNIT_S8, 1, 0, sink);
    OCT_TRY(oct__cuda_launched("an empty launch"));
    return read_clock(&cuda->engine, seconds);
}

static void keep_least(double *least, double found) {
    *least = *least > 0 && *least < found ? *least : found;
}

static oct_status measure(struct oct__cuda_engine *cuda, char *memory, size_t bytes, int n_blocks,
                          struct oct__ceilings *out) {
    double seconds = 0.0, least = 0.0;
    for (int i = 0; i < TRIES; i++) {
        OCT_TRY(time_copy(cuda, memory, bytes, &seconds));
        keep_least(&least, seconds);
    }
    out->bytes_per_s = least > 0 ? 2.0 * (double)bytes / least : 0.0;
    for (int unit = 0; unit < OCT_UNIT_COUNT; unit++) {
        int rounds = ROUNDS_FIRST / 2;
        double rate, *most = &out->operations_per_s[unit];
        do {
            rounds *= 2;
            OCT_TRY(time_products(cuda, (enum oct__unit)unit, n_blocks, rounds, memory, &rate,
                                  &seconds));
        } while (seconds < LEAST_SECONDS && rounds < ROUNDS_MOST);
        *most = rate;
        for (int i = 1; i < TRIES; i++) {
            OCT_TRY(time_products(cuda, (enum oct__unit)unit, n_blocks, rounds, memory, &rate,
                                  &seconds));
            *most = rate > *most ? rate : *most;
        }
        for (int i = 0; i < TRIES && unit == OCT_UNIT_S8; i++) {
            OCT_TRY(time_launch(cuda, n_blocks, rounds, memory, &seconds));
            keep_least(&out->launch_s, seconds);
        }
    }
    return OCT_OK;
}

static oct_status cuda_ceilings(struct oct__engine *engine, struct oct__ceilings *out) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    size_t left = 0, all = 0;
    int n_processors = 0;
    *out = (struct oct__ceilings){0};
    cudaError_t error = cudaMemGetInfo(&left, &all);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, 0);
    }
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, "asking the device");
    }
    const int n_blocks = n_processors * BLOCKS_EACH;
    const size_t need = (size_t)n_blocks * OCT_CUDA_BUSY_BYTES;
    size_t bytes = left / COPY_SHARE < COPY_MOST ? left / COPY_SHARE : COPY_MOST;
    bytes = (bytes > need ? bytes : need) & ~(size_t)255;
    void *memory;
    OCT_TRY(engine->alloc(engine, 2 * bytes, "measuring the device", &memory));
    const oct_status status = measure(cuda, memory, bytes, n_blocks, out);
    engine->free(engine, memory);
    return status;
}

/* --- opening --------------------------------------------------------------------------------- */

void oct__cuda_clock_open(struct oct__cuda_engine *cuda) {
    cuda->engine.stamp = cuda_stamp;
    cuda->engine.stamped = cuda_stamped;
    cuda->engine.ceilings = cuda_ceilings;
}

void oct__cuda_clock_close(struct oct__cuda_engine *cuda) {
    for (size_t i = 0; i < cuda->n_stamps; i++) {
        (void)cudaEventDestroy(cuda->stamps[i]);
    }
    oct__free(cuda->stamps);
}

#endif
