/* SPDX-License-Identifier: Apache-2.0 */
/* device.cuh - what every kernel file shares: a tensor's node on the device, launches, reductions. */
#ifndef OCT_ENGINE_CUDA_DEVICE_CUH
#define OCT_ENGINE_CUDA_DEVICE_CUH

#include <cuda_runtime.h>

extern "C" {
#include "base/rng.h"
#include "engine/cuda.h"
}
#include "engine/cuda/launch.cuh"

/* The tensor of one operand over the launch's nodes. Passed to kernels by value. */
template <typename T> struct nodes {
    T *at;
    size_t stride; /* bytes */

    __device__ T *of(int node) const {
        return (T *)((char *)at + (size_t)node * stride);
    }
};

template <typename T> static inline nodes<T> nodes_of(const struct oct__tensor *t) {
    nodes<T> all = {(T *)t->at, t->stride};
    return all;
}

static inline cudaStream_t stream_of(const struct oct__lane *lane) {
    return ((const struct oct__cuda_engine *)lane->engine)->stream;
}

static inline struct oct__cuda_fault *fault_of(const struct oct__lane *lane) {
    return ((const struct oct__cuda_engine *)lane->engine)->faults + lane->run;
}

/* Where kernels find the step and the learning rate, which are there for the launches that follow. */
static inline const struct oct__cuda_now *now_of(const struct oct__lane *lane) {
    oct__cuda_tell_now(lane);
    return ((const struct oct__cuda_engine *)lane->engine)->now;
}

/* A stream of random numbers of the launch's nodes in any step. */
struct chance {
    struct oct__stream first; /* of its first node; the others' differ in the node alone, */
    const uint64_t *seeds;    /* … or, with runs side by side, in the seed; NULL: there is one run */
    int n_each;
    const struct oct__cuda_now *now;

    __device__ struct oct__stream of(int node) const {
        struct oct__stream stream = first;
        if (seeds) {
            const uint64_t seed = seeds[node / n_each];
            stream.key[0] = (uint32_t)seed;
            stream.key[1] = (uint32_t)(seed >> 32);
            node %= n_each;
        }
        stream.counter[1] = now->step;
        stream.counter[2] += (uint32_t)node;
        return stream;
    }
};

static inline struct chance chance_of(const struct oct__lane *lane, enum oct__purpose purpose,
                                      uint32_t layer) {
    oct__cuda_tell_step(lane);
    const struct chance all = {
        oct__stream(lane->seed, purpose, (uint32_t)lane->first_node, 0, layer), lane->seeds_there,
        lane->n_each,
        ((const struct oct__cuda_engine *)lane->engine)->now};
    return all;
}

static __device__ inline void report(struct oct__cuda_fault *fault, enum oct__cuda_wrong wrong,
                                     int first, int second, int third = 0) {
    if (atomicCAS(&fault->wrong, OCT_CUDA_WRONG_NOTHING, wrong) == OCT_CUDA_WRONG_NOTHING) {
        fault->values[0] = first;
        fault->values[1] = second;
        fault->values[2] = third;
    }
}

enum { BLOCK = 256 };

/* A grid for `count` elements of each node, `each` of them a thread: x covers elements, y nodes.
 * Kernels stride over x, so that a grid need not cover everything. */
static inline dim3 grid_over(const struct oct__lane *lane, size_t count, int each) {
    size_t blocks = (count + (size_t)BLOCK * (size_t)each - 1) / ((size_t)BLOCK * (size_t)each);
    blocks = blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks;
    return dim3((unsigned)blocks, (unsigned)lane->form.n_nodes);
}

static __device__ inline size_t first_element() {
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline size_t element_step() {
    return (size_t)gridDim.x * blockDim.x;
}

/* The sum over a block in an order that depends on its size alone; every thread gets it. `room`: one
 * value for each warp, which may be used again after the next barrier. */
template <typename T> static __device__ inline T block_sum(T value, T *room) {
    for (int d = 16; d > 0; d /= 2) {
        value += __shfl_xor_sync(0xffffffffU, value, d);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = value;
    }
    __syncthreads();
    T sum = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        sum += room[w];
    }
    return sum;
}

/* The largest of a block's values, with a room as block_sum's; every thread gets it. */
static __device__ inline uint32_t block_max(uint32_t value, uint32_t *room) {
    value = __reduce_max_sync(0xffffffffU, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = room[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) {
        value = max(value, room[w]);
    }
    return value;
}

#endif
