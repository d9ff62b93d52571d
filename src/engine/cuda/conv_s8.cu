/* SPDX-License-Identifier: Apache-2.0 */
/* conv_s8.cu - convolutions in 8-bit integers on tensor cores; sums are exact.
 *
 * Weights are brought into rows that a product can read, [result channel][tap, channel], a call's
 * first kernel; the second makes tiles of 128 positions by 16, 32 or 64 channels, 64 bytes of depth
 * a step, and each of its four warps multiplies 32 positions.
 *
 * Forward, x is u8 with a zero in the middle: outside the image x counts as zero, so the gathered
 * byte there is the zero itself, and
 *
 *     sum of (x - zero) * w  =  sum of x * w  -  zero * (sum of w)
 *
 * with the sums of w from the first kernel. Backward, dy is in excess 128: turning its top bit makes
 * it s8, and nothing is to be corrected.
 */
#include "engine/cuda/conv.cuh"
#include "engine/cuda/mma.cuh"

enum { ROWS = 128, DEPTH = 64, PITCH = DEPTH + 16, THREADS = 128 };

struct operands {
    nodes<const uint8_t> from;
    nodes<const int8_t> weights;
    nodes<const struct oct__grid> grid; /* forward only */
    nodes<int32_t> to;
    int8_t *packed;      /* [node][to_c][depth], depth a multiple of DEPTH */
    int32_t *weight_sum; /* [node][to_c] */
    int depth;
};

static int depth_of(const taps &t) {
    return (taps_count(t) * t.from_c + DEPTH - 1) / DEPTH * DEPTH;
}

/* --- weights ------------------------------------------------------------------------------------ */

/* A block for each result channel. */
static __global__ void __launch_bounds__(THREADS) pack_kernel(const taps t, const operands all) {
    __shared__ int32_t room[THREADS / 32];
    const int node = (int)blockIdx.y, column = (int)blockIdx.x;
    const int8_t *weights = all.weights.of(node);
    const size_t row = (size_t)node * (size_t)t.to_c + (size_t)column;
    const int depth = taps_count(t) * t.from_c;
    int32_t sum = 0;
    for (int k = (int)threadIdx.x; k < all.depth; k += THREADS) {
        int8_t w = 0;
        if (k < depth) {
            const int tap = k / t.from_c;
            w = weights[weight_at(t, 0, k - tap * t.from_c, column, tap)];
        }
        all.packed[row * (size_t)all.depth + (size_t)k] = w;
        sum += w;
    }
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, d);
    }
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        all.weight_sum[row] = room[0] + room[1] + room[2] + room[3];
    }
}

/* --- the product -------------------------------------------------------------------------------- */

/* Sixteen bytes of depth at position `at`, beginning with byte k; `outside` four times the byte that
 * stands for 0. */
template <int WIDE>
static __device__ uint4 gather(const taps &t, const uint8_t *from, const place &at, int k,
                               uint32_t outside) {
    const int depth = taps_count(t) * t.from_c;
    uint4 bytes = make_uint4(outside, outside, outside, outside);
    if constexpr (WIDE) { /* all of one tap */
        const int tap = k / t.from_c;
        const int pixel = k < depth ? pixel_of(t, at, tap / t.kernel, tap % t.kernel) : -1;
        if (pixel >= 0) {
            bytes = *(const uint4 *)(from + (size_t)pixel * t.from_c + (k - tap * t.from_c));
        }
    } else {
        uint32_t word[4] = {};
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int tap = (k + i) / t.from_c, channel = (k + i) - tap * t.from_c;
            const int pixel = k + i < depth ? pixel_of(t, at, tap / t.kernel, tap % t.kernel) : -1;
            const uint32_t byte =
                pixel < 0 ? outside & 255U : from[(size_t)pixel * t.from_c + channel];
            word[i / 4] |= byte << (i % 4 * 8);
        }
        bytes = make_uint4(word[0], word[1], word[2], word[3]);
    }
    return bytes;
}

template <int COLUMNS, int BACK, int WIDE>
static __global__ void __launch_bounds__(THREADS) conv_kernel(const taps t, const operands all) {
    enum { N_FROM = ROWS * DEPTH / 16 / THREADS, N_WEIGHTS = COLUMNS * DEPTH / 16 };
    enum { EACH = (N_WEIGHTS + THREADS - 1) / THREADS };
    __shared__ __align__(16) uint8_t values[ROWS][PITCH], weights[COLUMNS][PITCH];
    const int node = (int)blockIdx.z, first = (int)blockIdx.y * COLUMNS;
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const uint8_t *from = all.from.of(node);
    const int8_t *packed = all.packed + (size_t)node * (size_t)t.to_c * (size_t)all.depth;
    const int zero = BACK ? 0 : (int)all.grid.of(node)->zero;
    const uint32_t outside = BACK ? 0x80808080U : 0x01010101U * (uint32_t)zero;
    place at[N_FROM]; /* thread's rows: thread / 4 + 32 i, its 16 bytes of depth: thread % 4 */
#pragma unroll
    for (int i = 0; i < N_FROM; i++) {
        at[i] = place_of(t, (int)blockIdx.x * ROWS + thread / 4 + i * 32);
    }
    int32_t sums[2][COLUMNS / 8][4] = {};
    uint4 next_from[N_FROM], next_weights[EACH];
    for (int k = -DEPTH; k < all.depth; k += DEPTH) {
        if (k >= 0) {
#pragma unroll
            for (int i = 0; i < N_FROM; i++) {
                uint4 v = next_from[i];
                if (BACK) {
                    v.x ^= 0x80808080U;
                    v.y ^= 0x80808080U;
                    v.z ^= 0x80808080U;
                    v.w ^= 0x80808080U;
                }
                *(uint4 *)&values[thread / 4 + i * 32][thread % 4 * 16] = v;
            }
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int e = thread + i * THREADS;
                if (e < N_WEIGHTS) {
                    *(uint4 *)&weights[e / 4][e % 4 * 16] = next_weights[i];
                }
            }
        }
        __syncthreads();
        if (k + DEPTH < all.depth) {
#pragma unroll
            for (int i = 0; i < N_FROM; i++) {
                next_from[i] = gather<WIDE>(t, from, at[i], k + DEPTH + thread % 4 * 16, outside);
            }
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int e = thread + i * THREADS, column = first + e / 4;
                next_weights[i] = e < N_WEIGHTS && column < t.to_c
                                      ? *(const uint4 *)(packed + (size_t)column * all.depth + k +
                                                         DEPTH + e % 4 * 16)
                                      : make_uint4(0, 0, 0, 0);
            }
        }
        if (k >= 0) {
#pragma unroll
            for (int d = 0; d < DEPTH; d += 32) {
                uint32_t a[2][4];
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const uint8_t *row = &values[warp * 32 + r * 16 + lane / 4][d + lane % 4 * 4];
                    a[r][0] = *(const uint32_t *)row;
                    a[r][1] = *(const uint32_t *)(row + 8 * PITCH);
                    a[r][2] = *(const uint32_t *)(row + 16);
                    a[r][3] = *(const uint32_t *)(row + 8 * PITCH + 16);
                }
#pragma unroll
                for (int c = 0; c < COLUMNS / 8; c++) {
                    const uint8_t *row = &weights[c * 8 + lane / 4][d + lane % 4 * 4];
                    const uint32_t b[2] = {*(const uint32_t *)row, *(const uint32_t *)(row + 16)};
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        if (BACK) {
                            mma_s8_s8(sums[r][c], a[r], b);
                        } else {
                            mma_u8_s8(sums[r][c], a[r], b);
                        }
                    }
                }
            }
        }
        __syncthreads();
    }
    int32_t *to = all.to.of(node);
    const int32_t *weight_sum = all.weight_sum + (size_t)node * (size_t)t.to_c;
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
        for (int c = 0; c < COLUMNS / 8; c++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int m = (int)blockIdx.x * ROWS + warp * 32 + r * 16 + lane / 4 + i / 2 * 8;
                const int column = first + c * 8 + lane % 4 * 2 + i % 2;
                if (m < taps_results(t) && column < t.to_c) {
                    to[(size_t)m * t.to_c + column] =
                        sums[r][c][i] - (BACK ? 0 : zero * weight_sum[column]);
                }
            }
        }
    }
}

/* Groups: a thread makes a result. */
template <int BACK>
static __global__ void __launch_bounds__(BLOCK) grouped_kernel(const taps t, const operands all) {
    const int node = (int)blockIdx.y, from_c = t.from_c / t.groups, to_c = t.to_c / t.groups;
    const uint8_t *from = all.from.of(node);
    const int8_t *w = all.weights.of(node);
    const int zero = BACK ? OCT_EXCESS : (int)all.grid.of(node)->zero;
    const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
    for (size_t e = first_element(); e < count; e += element_step()) {
        const int channel = (int)(e % (size_t)t.to_c), group = channel / to_c;
        const place at = place_of(t, (int)(e / (size_t)t.to_c));
        int32_t sum = 0;
        for (int tap = 0; tap < taps_count(t); tap++) {
            const int pixel = pixel_of(t, at, tap / t.kernel, tap % t.kernel);
            for (int i = 0; pixel >= 0 && i < from_c; i++) {
                sum += ((int)from[(size_t)pixel * t.from_c + group * from_c + i] - zero) *
                       w[weight_at(t, group, i, channel - group * to_c, tap)];
            }
        }
        all.to.of(node)[e] = sum;
    }
}

/* --- launches ----------------------------------------------------------------------------------- */

template <int COLUMNS, int BACK>
static void launch(const struct oct__lane *lane, const taps &t, const operands &all) {
    const dim3 grid((unsigned)((taps_results(t) + ROWS - 1) / ROWS),
                    (unsigned)((t.to_c + COLUMNS - 1) / COLUMNS), (unsigned)lane->form.n_nodes);
    const int is_wide =
        t.from_c % 16 == 0 && (uintptr_t)all.from.at % 16 == 0 && all.from.stride % 16 == 0;
    if (is_wide) {
        launch_kernel(conv_kernel<COLUMNS, BACK, 1>, grid, THREADS, 0, stream_of(lane), t, all);
    } else {
        launch_kernel(conv_kernel<COLUMNS, BACK, 0>, grid, THREADS, 0, stream_of(lane), t, all);
    }
}

template <int BACK> static void run(const struct oct__lane *lane, const taps &t, operands all) {
    if (t.groups > 1) {
        const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
        launch_kernel(grouped_kernel<BACK>, grid_over(lane, count, 1), BLOCK, 0, stream_of(lane), t,
                      all);
        return;
    }
    all.depth = depth_of(t);
    all.packed = (int8_t *)lane->shared_scratch;
    all.weight_sum =
        (int32_t *)(all.packed + (size_t)lane->form.n_nodes * (size_t)t.to_c * (size_t)all.depth);
    const dim3 rows((unsigned)t.to_c, (unsigned)lane->form.n_nodes);
    launch_kernel(pack_kernel, rows, THREADS, 0, stream_of(lane), t, all);
    if (t.to_c <= 16) {
        launch<16, BACK>(lane, t, all);
    } else if (t.to_c <= 32) {
        launch<32, BACK>(lane, t, all);
    } else {
        launch<64, BACK>(lane, t, all);
    }
}

extern "C" size_t oct__cuda_conv_s8_scratch(enum oct__op op, const struct oct__lane_form *form,
                                            const struct oct__args *args) {
    if ((op != OCT_OP_CONV_U8 && op != OCT_OP_CONV_S8_DGRAD) || args->attr.conv.groups > 1) {
        return 0;
    }
    const int is_back = op == OCT_OP_CONV_S8_DGRAD;
    const taps t = taps_of(args, &args->t[0], &args->t[is_back ? 2 : 3], is_back);
    return (size_t)form->n_nodes * (size_t)t.to_c * ((size_t)depth_of(t) + sizeof(int32_t));
}

extern "C" oct_status oct__cuda_conv_u8(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    operands all = {};
    all.from = nodes_of<const uint8_t>(&args->t[0]);
    all.grid = nodes_of<const struct oct__grid>(&args->t[1]);
    all.weights = nodes_of<const int8_t>(&args->t[2]);
    all.to = nodes_of<int32_t>(&args->t[3]);
    run<0>(lane, taps_of(args, &args->t[0], &args->t[3], 0), all);
    return oct__cuda_launched("conv_u8");
}

extern "C" oct_status oct__cuda_conv_s8_dgrad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    operands all = {};
    all.from = nodes_of<const uint8_t>(&args->t[0]);
    all.weights = nodes_of<const int8_t>(&args->t[1]);
    all.to = nodes_of<int32_t>(&args->t[2]);
    run<1>(lane, taps_of(args, &args->t[0], &args->t[2], 1), all);
    return oct__cuda_launched("conv_s8_dgrad");
}
