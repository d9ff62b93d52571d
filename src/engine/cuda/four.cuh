/* SPDX-License-Identifier: Apache-2.0 */
/* four.cuh - four neighbouring floats a thread: flat arrays at the speed of memory.
 *
 * A thread that moves 16 bytes at once keeps enough of them in flight. Addresses that do not allow
 * it, and the last elements of an array whose count is no multiple of four, are moved one by one, so
 * that an operation is written once.
 */
#ifndef OCT_ENGINE_CUDA_FOUR_CUH
#define OCT_ENGINE_CUDA_FOUR_CUH

#include <stdint.h>

#include "engine/cuda/device.cuh"

enum { FOUR = 4 };

struct four {
    float v[FOUR];
};

/* Whether every node's tensor begins at a multiple of 16 bytes; an absent one is in nobody's way. */
static inline int is_wide(const struct oct__tensor *t) {
    return t->n == 0 || ((uintptr_t)t->at | t->stride) % sizeof(float4) == 0;
}

/* Elements i … i + 3 of n; what lies beyond counts as 0. i is a multiple of four. */
static __device__ inline struct four load_four(const float *from, size_t i, size_t n, int wide) {
    struct four x;
    if (wide && i + FOUR <= n) {
        const float4 all = *(const float4 *)(from + i);
        x.v[0] = all.x, x.v[1] = all.y, x.v[2] = all.z, x.v[3] = all.w;
    } else {
        for (int j = 0; j < FOUR; j++) {
            x.v[j] = i + (size_t)j < n ? from[i + (size_t)j] : 0.0F;
        }
    }
    return x;
}

static __device__ inline void store_four(float *to, size_t i, size_t n, int wide, struct four x) {
    if (wide && i + FOUR <= n) {
        *(float4 *)(to + i) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    } else {
        for (int j = 0; j < FOUR && i + (size_t)j < n; j++) {
            to[i + (size_t)j] = x.v[j];
        }
    }
}

/* y = f(a, b), element by element; y may be a or b. F::READS_B 0: b is not read. */
template <typename F>
static __global__ void __launch_bounds__(BLOCK)
    map_two(size_t n, int wide, nodes<const float> a, nodes<const float> b, nodes<float> y, F f) {
    const int node = (int)blockIdx.y;
    const float *from_a = a.of(node), *from_b = b.of(node);
    float *to = y.of(node);
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        const struct four p = load_four(from_a, i, n, wide);
        const struct four q = F::READS_B ? load_four(from_b, i, n, wide) : p;
        struct four r;
        for (int j = 0; j < FOUR; j++) {
            r.v[j] = f(p.v[j], q.v[j]);
        }
        store_four(to, i, n, wide, r);
    }
}

template <typename F>
static void launch_two(const struct oct__lane *lane, const struct oct__tensor *a,
                       const struct oct__tensor *b, const struct oct__tensor *y, F f) {
    const size_t n = oct__tensor_count(y);
    const int wide = is_wide(a) && is_wide(b) && is_wide(y);
    launch_kernel(map_two<F>, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n, wide,
                  nodes_of<const float>(a), nodes_of<const float>(b), nodes_of<float>(y), f);
}

#endif
