/* SPDX-License-Identifier: Apache-2.0 */
/* launch.cuh - how a kernel is launched, and where its dynamic shared memory lies.
 *
 * CUDA's own words for the two are no C++. Kernel files use these functions instead and so remain
 * C++ that any compiler reads: tests/cuda has a header of this name, found before this one, with
 * which the kernels run on a CPU.
 */
#ifndef OCT_ENGINE_CUDA_LAUNCH_CUH
#define OCT_ENGINE_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* T, where it shall not be deduced: arguments are converted to what the kernel asks for. */
template <typename T> struct as_is { typedef T type; };

template <typename... T>
static inline void launch_kernel(void (*kernel)(T...), dim3 grid, unsigned block, size_t shared,
                                 cudaStream_t stream, typename as_is<T>::type... args) {
    kernel<<<grid, block, shared, stream>>>(args...);
}

/* The `shared` bytes of the launch. */
template <typename T> static __device__ inline T *dynamic_shared() {
    extern __shared__ __align__(16) unsigned char dynamic_bytes[];
    return (T *)dynamic_bytes;
}

/* The block's place in the order in which blocks of a grid of one dimension begin. */
static __device__ inline uint32_t block_turn() {
    return blockIdx.x;
}

/* What the word becomes, once a block that began earlier has written it: something else than 0. */
static __device__ inline uint64_t wait_for(const uint64_t *word) {
    uint64_t told;
    do {
        told = *(const volatile uint64_t *)word;
    } while (told == 0);
    return told;
}

#endif
