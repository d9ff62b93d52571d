/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - memory of a GPU, and what goes there and comes from there without a wait.
 *
 * A device copies in its own time only to and from pages that the system does not move. So small
 * writes are put on such a page first and are done for the caller; and what is fetched goes to
 * another page, to be handed over when it has arrived, while the device is at work on what was
 * launched after it. That is how a step's losses are read without the device ever being idle.
 *
 *     outgoing  | picks of step 7 | weights | picks of step 8 | …       from the start again, after a
 *     incoming  | losses | hits |                                       wait, when the page is full
 *
 * The page for what comes grows to what it has to hold: places that sparse messages keep are
 * megabytes.
 */
#include "engine/cuda.h"

#ifdef OCT_HAVE_CUDA

#include <cuda_runtime_api.h>
#include <string.h>

enum { PAGE = 1 << 20, SMALL = PAGE / 4, PAGE_MOST = 1 << 27, APART = 64 };

static size_t rounded(size_t bytes) {
    return (bytes + APART - 1) / APART * APART;
}

static struct oct__cuda_engine *cuda_of(struct oct__engine *engine) {
    return (struct oct__cuda_engine *)engine;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* What a run's kernels found wrong until now, which is forgotten once it is told. */
static oct_status tell_of(struct oct__cuda_engine *cuda, int run) {
    struct oct__cuda_fault *fault = &cuda->faults[run];
    if (fault->wrong == OCT_CUDA_WRONG_NOTHING) {
        return OCT_OK;
    }
    (void)cudaStreamSynchronize(cuda->stream); /* whoever reports it has said all of it by then */
    const struct oct__cuda_fault found = *fault;
    fault->wrong = OCT_CUDA_WRONG_NOTHING;
    float peak;
    memcpy(&peak, &found.values[2], sizeof peak);
    switch (found.wrong) {
    case OCT_CUDA_WRONG_SAMPLE:
        OCT_FAIL(INVALID, "batch: sample %d of a dataset of %d", found.values[0], found.values[1]);
    case OCT_CUDA_WRONG_LABEL:
        OCT_FAIL(INVALID, "loss: label %d with %d classes", found.values[0], found.values[1]);
    case OCT_CUDA_WRONG_BF16:
        OCT_FAIL(NOT_FINITE, "pack: tensor %d of node %d's row holds %g, too large for bf16",
                 found.values[0], found.values[1], (double)peak);
    default:
        OCT_FAIL(NOT_FINITE, "pack: tensor %d of node %d's row holds a NaN or an infinity",
                 found.values[0], found.values[1]);
    }
}

/* Of launches for all runs, or the only one. */
static oct_status tell(struct oct__cuda_engine *cuda) {
    return tell_of(cuda, 0);
}

static oct_status cuda_verdict(struct oct__engine *engine, int *run) {
    oct_status status = OCT_OK;
    for (*run = 1; *run <= OCT_RUNS_MOST; ++*run) {
        status = tell_of(cuda_of(engine), *run);
        if (status != OCT_OK) {
            break;
        }
    }
    return status;
}

/* Hands over what has arrived. */
static void deliver(struct oct__cuda_engine *cuda) {
    for (int i = 0; i < cuda->n_fetches; i++) {
        const struct oct__cuda_fetch *fetch = &cuda->fetches[i];
        memcpy(fetch->host, cuda->incoming + fetch->at, fetch->bytes);
    }
    cuda->n_fetches = 0;
    cuda->n_incoming = 0;
}

static oct_status finish(struct oct__cuda_engine *cuda, cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(cuda->stream);
    }
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, what);
    }
    cuda->n_outgoing = 0;
    deliver(cuda);
    return tell(cuda);
}

static oct_status cuda_finish(struct oct__engine *engine) {
    return finish(cuda_of(engine), cudaSuccess, "waiting");
}

static oct_status cuda_await(struct oct__engine *engine) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    if (cuda->n_fetches == 0) {
        return OCT_OK;
    }
    const cudaError_t error = cudaEventSynchronize(cuda->arrived);
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, "waiting");
    }
    deliver(cuda);
    return tell(cuda);
}

/* --- memory ---------------------------------------------------------------------------------- */

static oct_status cuda_alloc(struct oct__engine *engine, size_t bytes, const char *what,
                             void **at) {
    void *memory = NULL;
    const size_t wanted = bytes > 0 ? bytes : 1;
    cudaError_t error = cudaMalloc(&memory, wanted);
    if (error == cudaErrorMemoryAllocation) {
        size_t left = 0, all = 0;
        (void)cudaGetLastError(); /* the failure is told here, not by the next launch */
        (void)cudaMemGetInfo(&left, &all);
        OCT_FAIL(
            NO_MEMORY,
            "the GPU has %.1f of %.1f GiB left and %s takes %.1f: train fewer nodes, a smaller "
            "batch or a smaller model",
            (double)left / 0x1p30, (double)all / 0x1p30, what, (double)bytes / 0x1p30);
    }
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(memory, 0, wanted, cuda_of(engine)->stream);
    }
    if (error != cudaSuccess) {
        (void)cudaFree(memory);
        return oct__cuda_failed((int)error, "allocation");
    }
    *at = memory;
    return OCT_OK;
}

static void cuda_free(struct oct__engine *engine, void *at) {
    (void)engine;
    (void)cudaFree(at);
}

/* --- copies ---------------------------------------------------------------------------------- */

static oct_status cuda_write_rows(struct oct__engine *engine, void *at, size_t stride,
                                  const void *host, size_t bytes, int rows) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    const size_t all = bytes * (size_t)rows;
    const int is_small = all <= SMALL;
    if (is_small && cuda->n_outgoing + all > PAGE) {
        OCT_TRY(cuda_finish(engine));
    }
    if (is_small) {
        host = memcpy(cuda->outgoing + cuda->n_outgoing, host, all);
        cuda->n_outgoing += rounded(all);
    }
    /* rows have a largest pitch, 2 GiB; a dataset in one piece has none */
    const cudaError_t error =
        rows == 1 ? cudaMemcpyAsync(at, host, all, cudaMemcpyHostToDevice, cuda->stream)
                  : cudaMemcpy2DAsync(at, stride, host, bytes, bytes, (size_t)rows,
                                      cudaMemcpyHostToDevice, cuda->stream);
    return is_small && error == cudaSuccess ? OCT_OK : finish(cuda, error, "writing to the device");
}

static oct_status cuda_write(struct oct__engine *engine, void *at, const void *host, size_t bytes) {
    return bytes > 0 ? cuda_write_rows(engine, at, bytes, host, bytes, 1) : OCT_OK;
}

static oct_status cuda_read(struct oct__engine *engine, void *host, const void *at, size_t bytes) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    return finish(cuda, cudaMemcpyAsync(host, at, bytes, cudaMemcpyDeviceToHost, cuda->stream),
                  "reading from the device");
}

static oct_status cuda_read_rows(struct oct__engine *engine, void *host, const void *at,
                                 size_t stride, size_t bytes, int rows) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    return finish(cuda,
                  cudaMemcpy2DAsync(host, bytes, at, stride, bytes, (size_t)rows,
                                    cudaMemcpyDeviceToHost, cuda->stream),
                  "reading from the device");
}

/* Whether there is room for so many bytes more. A page that is too small makes way for one with a
 * PAGE to spare, so that what is fetched next, step after step, need not wait for this: it happens
 * in the first rounds and not again. Where the system has none that large, the old one stays for
 * good. */
static oct_status incoming_room(struct oct__cuda_engine *cuda, size_t bytes, int *fits) {
    const size_t wanted = cuda->n_incoming + rounded(bytes);
    const size_t most = cuda->incoming_most, larger = wanted + PAGE < most ? wanted + PAGE : most;
    void *page = NULL;
    *fits = rounded(bytes) <= most;
    if (!*fits || (wanted <= cuda->incoming_bytes && cuda->n_fetches < OCT_CUDA_FETCHES)) {
        return OCT_OK;
    }
    OCT_TRY(cuda_await(&cuda->engine));
    if (wanted <= cuda->incoming_bytes || larger <= cuda->incoming_bytes) {
        return OCT_OK;
    }
    if (cudaMallocHost(&page, larger) != cudaSuccess) {
        (void)cudaGetLastError(); /* or the next launch would be told */
        cuda->incoming_most = cuda->incoming_bytes;
        *fits = rounded(bytes) <= cuda->incoming_bytes;
        return OCT_OK;
    }
    (void)cudaFreeHost(cuda->incoming);
    cuda->incoming = page;
    cuda->incoming_bytes = larger;
    return OCT_OK;
}

static oct_status cuda_fetch_rows(struct oct__engine *engine, void *host, const void *at,
                                  size_t stride, size_t bytes, int rows) {
    struct oct__cuda_engine *cuda = cuda_of(engine);
    const size_t all = bytes * (size_t)rows;
    int fits;
    OCT_TRY(incoming_room(cuda, all, &fits));
    if (!fits) {
        return cuda_read_rows(engine, host, at, stride, bytes, rows);
    }
    cuda->fetches[cuda->n_fetches] = (struct oct__cuda_fetch){host, cuda->n_incoming, all};
    cudaError_t error =
        cudaMemcpy2DAsync(cuda->incoming + cuda->n_incoming, bytes, at, stride, bytes, (size_t)rows,
                          cudaMemcpyDeviceToHost, cuda->stream);
    if (error == cudaSuccess) {
        error = cudaEventRecord(cuda->arrived, cuda->stream);
    }
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, "reading from the device");
    }
    cuda->n_fetches++;
    cuda->n_incoming += rounded(all);
    return OCT_OK;
}

/* --- opening --------------------------------------------------------------------------------- */

oct_status oct__cuda_memory_open(struct oct__cuda_engine *cuda) {
    struct oct__engine *engine = &cuda->engine;
    const size_t faults = (OCT_RUNS_MOST + 1) * sizeof *cuda->faults;
    cudaError_t error = cudaMallocHost((void **)&cuda->faults, faults);
    if (error == cudaSuccess) {
        memset(cuda->faults, 0, faults);
        error = cudaMallocHost((void **)&cuda->outgoing, PAGE);
    }
    if (error == cudaSuccess) {
        error = cudaMallocHost((void **)&cuda->incoming, PAGE);
        cuda->incoming_bytes = PAGE;
        cuda->incoming_most = PAGE_MOST;
    }
    if (error == cudaSuccess) {
        error = cudaMalloc((void **)&cuda->now, sizeof *cuda->now);
    }
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(cuda->now, 0, sizeof *cuda->now, cuda->stream);
    }
    const size_t meetings = OCT_CUDA_MEETINGS * sizeof *cuda->meetings;
    if (error == cudaSuccess) {
        error = cudaMalloc((void **)&cuda->meetings, meetings);
    }
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(cuda->meetings, 0, meetings, cuda->stream);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&cuda->n_processors, cudaDevAttrMultiProcessorCount, 0);
    }
    if (error == cudaSuccess) {
        error = cudaEventCreateWithFlags(&cuda->arrived, cudaEventDisableTiming);
    }
    if (error != cudaSuccess) {
        return oct__cuda_failed((int)error, "opening the device");
    }
    engine->alloc = cuda_alloc;
    engine->free = cuda_free;
    engine->write = cuda_write;
    engine->read = cuda_read;
    engine->write_rows = cuda_write_rows;
    engine->read_rows = cuda_read_rows;
    engine->fetch_rows = cuda_fetch_rows;
    engine->await = cuda_await;
    engine->finish = cuda_finish;
    engine->verdict = cuda_verdict;
    return OCT_OK;
}

void oct__cuda_memory_close(struct oct__cuda_engine *cuda) {
    (void)cudaFree(cuda->now);
    (void)cudaFree(cuda->meetings);
    (void)cudaFreeHost(cuda->faults);
    (void)cudaFreeHost(cuda->outgoing);
    (void)cudaFreeHost(cuda->incoming);
    if (cuda->arrived) {
        (void)cudaEventDestroy(cuda->arrived);
    }
}

#endif
