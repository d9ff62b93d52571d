/* SPDX-License-Identifier: Apache-2.0 */
/* limits.cu - products and nothing else: how many a second the device does at most.
 *
 * The instructions are those of the kernels (mma.cuh), so what is measured is what they could reach if
 * operands cost nothing. A warp has eight sums under way, none of which waits for another; four blocks
 * of eight warps a processor are more than hide the rest. Sums begin differently, so that no compiler
 * takes them for one, and are written, so that none leaves them out.
 */
#include "engine/cuda/device.cuh"
#include "engine/cuda/mma.cuh"

enum { CHAINS = 8 };

/* An instruction, and the type and depth of its sums. */
struct of_bytes {
    typedef int32_t sum;
    enum { DEPTH = 32 };
    static __device__ void multiply(sum sums[4], const uint32_t a[4], const uint32_t b[2]) {
        mma_u8_s8(sums, a, b);
    }
};

struct of_bf16 {
    typedef float sum;
    enum { DEPTH = 16 };
    static __device__ void multiply(sum sums[4], const uint32_t a[4], const uint32_t b[2]) {
        mma_bf16(sums, a, b);
    }
};

struct of_tf32 {
    typedef float sum;
    enum { DEPTH = 8 };
    static __device__ void multiply(sum sums[4], const uint32_t a[4], const uint32_t b[2]) {
        mma_tf32(sums, a, b);
    }
};

/* `word` is a number near 1 as a float and as two of bf16: nothing overflows. */
template <typename Unit>
static __global__ void __launch_bounds__(BLOCK) keep_busy(float *sink, int rounds, uint32_t word) {
    typename Unit::sum sums[CHAINS][4];
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) {
        a[i] = word + threadIdx.x % 32 + i;
    }
    for (int i = 0; i < 2; i++) {
        b[i] = word + threadIdx.x % 16 + i;
    }
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        for (int i = 0; i < 4; i++) {
            sums[c][i] = (typename Unit::sum)(c + i);
        }
    }
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            Unit::multiply(sums[c], a, b);
        }
    }
    float all = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        for (int i = 0; i < 4; i++) {
            all += (float)sums[c][i];
        }
    }
    sink[(size_t)blockIdx.x * BLOCK + threadIdx.x] = all;
}

template <typename Unit>
static double launch(const struct oct__cuda_engine *cuda, int n_blocks, int rounds, void *sink) {
    static_assert(BLOCK * sizeof(float) <= OCT_CUDA_BUSY_BYTES, "a block's sums have room");
    launch_kernel(keep_busy<Unit>, dim3((unsigned)n_blocks), BLOCK, 0, cuda->stream, (float *)sink,
                  rounds, 0x3f803f80U);
    return 2.0 * 16 * 8 * Unit::DEPTH * CHAINS * (BLOCK / 32) * n_blocks;
}

double oct__cuda_keep_busy(const struct oct__cuda_engine *cuda, enum oct__unit unit, int n_blocks,
                           int rounds, void *sink) {
    switch (unit) {
    case OCT_UNIT_S8:
        return launch<of_bytes>(cuda, n_blocks, rounds, sink);
    case OCT_UNIT_BF16:
        return launch<of_bf16>(cuda, n_blocks, rounds, sink);
    default: /* a product of floats is three of these */
        return launch<of_tf32>(cuda, n_blocks, rounds, sink) / 3;
    }
}
