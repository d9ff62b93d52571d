/* SPDX-License-Identifier: Apache-2.0 */
/* launch.cuh - launches on the emulator: stands for the engine's header of this name. */
#ifndef OCT_ENGINE_CUDA_LAUNCH_CUH
#define OCT_ENGINE_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

template <typename T> struct as_is { typedef T type; };

EMU_SHARED_ENDS;

template <typename Call> static void call_kernel(const void *call) {
    (*(const Call *)call)();
}

/* Arguments are copied for every thread, as on a GPU. */
template <typename... T>
static inline void launch_kernel(void (*kernel)(T...), dim3 grid, unsigned block, size_t shared,
                                 cudaStream_t stream, typename as_is<T>::type... args) {
    (void)stream;
    const auto call = [=] { kernel(args...); };
    const emu_kernel all = {(const void *)kernel, call_kernel<decltype(call)>, emu_shared_begin,
                            emu_shared_end};
    emu_launch(&all, &call, sizeof call, grid, block, shared);
}

template <typename T> static inline T *dynamic_shared() {
    return (T *)emu_dynamic_shared();
}

/* Blocks run one after another, from the last to the first. */
static inline uint32_t block_turn() {
    return gridDim.x - 1 - blockIdx.x;
}

static inline uint64_t wait_for(const uint64_t *word) {
    return emu_hear(word);
}

#endif
