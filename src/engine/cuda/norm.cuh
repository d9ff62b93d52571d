/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cuh - sums over rows of x[rows][c], which all norms on floats begin with.
 *
 * A block's threads stand `width` side by side over a tile of channels, one or four channels each, and
 * the rest of them are further rows:
 *
 *     thread   0  1  2  3 | 4  5  6  7 | …        width 4, four channels each: 16 channels
 *     row      0  0  0  0 | 1  1  1  1 | …
 *
 * so that a warp reads neighbouring bytes however few channels there are; sums of a column are folded
 * over a warp by shuffles, over warps through shared memory, in an order that the shape alone gives.
 */
#ifndef OCT_ENGINE_CUDA_NORM_CUH
#define OCT_ENGINE_CUDA_NORM_CUH

#include "engine/cuda/four.cuh"

enum { TILE = 32 * FOUR }; /* the most channels that a block has side by side */

/* V neighbouring channels of a row. */
template <int V> static __device__ inline void load(const float *from, float (&x)[V]) {
    if (V == FOUR) {
        const float4 all = *(const float4 *)from;
        x[0] = all.x, x[1 % V] = all.y, x[2 % V] = all.z, x[3 % V] = all.w;
    } else {
        x[0] = from[0];
    }
}

template <int V> static __device__ inline void store(float *to, const float (&x)[V]) {
    if (V == FOUR) {
        *(float4 *)to = make_float4(x[0], x[1 % V], x[2 % V], x[3 % V]);
    } else {
        to[0] = x[0];
    }
}

/* A thread's place in its block: its first channel inside the tile, its first row, and how many rows
 * the block takes at once. */
struct seat {
    int channel, row, step;
};

template <int V> static __device__ inline struct seat seat_of(int width) {
    const struct seat seat = {(int)threadIdx.x % width * V, (int)threadIdx.x / width,
                              (int)blockDim.x / width};
    return seat;
}

/* out[0 … width * V - 1] = sums over the block's rows of what each thread has for its channels. All
 * threads come here; `out` may be read when they return. `room`: TILE floats for each warp. */
template <int V>
static __device__ void fold_columns(const float (&mine)[V], int width, float *room, float *out) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int n_warps = (int)blockDim.x / 32, n = width * V;
    __syncthreads(); /* an earlier fold's room and results have been read */
    for (int i = 0; i < V; i++) {
        float sum = mine[i];
        for (int d = 16; d >= width; d /= 2) {
            sum += __shfl_xor_sync(0xffffffffU, sum, d);
        }
        if (lane < width) {
            room[warp * n + lane * V + i] = sum;
        }
    }
    __syncthreads();
    for (int t = (int)threadIdx.x; t < n; t += (int)blockDim.x) {
        float sum = 0.0F;
        for (int w = 0; w < n_warps; w++) {
            sum += room[w * n + t];
        }
        out[t] = sum;
    }
    __syncthreads();
}

/* Threads side by side: a power of two, as many as the channels need, at most a warp. */
static inline int width_of(int channels, int v) {
    int width = 1;
    while (width < 32 && width * v < channels) {
        width *= 2;
    }
    return width;
}

/* Whether threads may have four channels each. */
static inline int is_wide_norm(const struct oct__args *args, const int *operands, int n_operands) {
    int wide = args->t[0].c % FOUR == 0;
    for (int i = 0; i < n_operands; i++) {
        wide = wide && is_wide(&args->t[operands[i]]);
    }
    return wide;
}

#endif
