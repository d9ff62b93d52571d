/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.cpp - what the engine calls of CUDA's runtime: one device, on which everything is done when
 * it is asked for. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator.h"

static cudaError_t last_error = cudaSuccess;

static cudaError_t told(cudaError_t error) {
    last_error = error == cudaSuccess ? last_error : error;
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "an error of the emulator's";
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    default:
        return "unknown";
    }
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

/* --- memory ------------------------------------------------------------------------------------ */

cudaError_t cudaMalloc(void **at, size_t bytes) {
    *at = emu_alloc(bytes);
    return told(*at ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *at) {
    emu_free(at);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **at, size_t bytes) {
    return cudaMalloc(at, bytes);
}

cudaError_t cudaFreeHost(void *at) {
    return cudaFree(at);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    *left = *all = (size_t)1 << 30;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t stream) {
    (void)stream;
    emu_record_none("cudaMemsetAsync");
    memset(at, byte, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    (void)stream;
    emu_record_none("cudaMemcpyAsync");
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
    if (bytes > to_pitch || bytes > from_pitch) {
        return told(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < rows; i++) {
        (void)cudaMemcpyAsync((char *)to + i * to_pitch, (const char *)from + i * from_pitch, bytes,
                              kind, stream);
    }
    return cudaSuccess;
}

/* --- streams and the device -------------------------------------------------------------------- */

struct CUstream_st {
    int unused;
};

static struct CUstream_st only_stream;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    *stream = &only_stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return told(stream == &only_stream ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return cudaStreamSynchronize(stream);
}

/* --- events ------------------------------------------------------------------------------------ */

struct CUevent_st {
    unsigned flags;
    double seconds; /* when it was last passed; 0: never */
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    *event = (cudaEvent_t)calloc(1, sizeof **event);
    (*event)->flags = flags;
    return cudaSuccess;
}

/* Later than any event before it, however coarse the clock. */
static void pass(void *what) {
    static double last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    last = seconds > last + 1e-6 ? seconds : last + 1e-6;
    ((cudaEvent_t)what)->seconds = last;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    if ((flags == cudaEventRecordExternal) != emu_is_recording()) {
        return told(cudaErrorInvalidValue);
    }
    emu_do(pass, event);
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = (float)(1e3 * (to->seconds - from->seconds));
    return told(!(from->flags & cudaEventDisableTiming) && !(to->flags & cudaEventDisableTiming) &&
                        from->seconds > 0 && to->seconds > 0
                    ? cudaSuccess
                    : cudaErrorInvalidValue);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}

/* A graph and what is made ready of it are the same list here, which has two owners. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)mode;
    emu_record_begin();
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    *status = emu_is_recording() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = (cudaGraph_t)emu_record_end();
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph,
                                 unsigned long long flags) {
    (void)flags;
    *ready = (cudaGraphExec_t)emu_record_share((struct emu_record *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
    emu_replay((const struct emu_record *)ready);
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    emu_record_drop((struct emu_record *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
    emu_record_drop((struct emu_record *)ready);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n) {
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    *value = attribute == cudaDevAttrMultiProcessorCount ? 1 : 9;
    return told(device == 0 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    (void)attribute;
    return told(value >= 0 && emu_allow_shared(kernel, (size_t)value) == 0 ? cudaSuccess
                                                                           : cudaErrorInvalidValue);
}
