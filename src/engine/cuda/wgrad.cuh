/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad.cuh - weight gradients: sums over all positions of dy(position, o) * x(tap's pixel, c).
 *
 * As a product of matrices it is few rows (o), few columns (tap and channel), and a very long sum:
 * so the positions are cut into parts, a block makes a tile of 144 columns of one part (nine taps
 * of sixteen channels: no column is wasted), and a second kernel folds the parts.
 *
 *     dy  [position][o]            tile 16, 32 or 64 wide
 *     x   [position][tap, c]       gathered, 144 wide          dw[o][c][tap] = fold over parts
 *
 * A layer with many weights has enough tiles without parts: its one part is dw itself, and nothing
 * is folded.
 *
 * Here is what floats (wgrad_f32.cu) and bytes (wgrad_u8.cu) share: kernels for any shape, the
 * fold, and how positions are cut.
 */
#ifndef OCT_ENGINE_CUDA_WGRAD_CUH
#define OCT_ENGINE_CUDA_WGRAD_CUH

#include <cuda_bf16.h>

#include "engine/cuda/conv.cuh"
#include "engine/cuda/four.cuh"

enum { COLUMNS = 144, LEAST_PART = 64 };

struct sources {
    const void *x, *dy;
    size_t x_stride, dy_stride;
    const struct oct__grid *grid; /* NULL: x is floats */
    size_t grid_stride;
    float *parts;        /* [node][part][weights] */
    size_t parts_stride; /* floats from a node's to the next node's */
    int n_parts, part;   /* positions of a part */
    int is_final;        /* the parts are dw */
};

static __device__ inline size_t weights_of(const taps &t) {
    return (size_t)t.to_c * (size_t)(t.from_c / t.groups) * (size_t)taps_count(t);
}

static __device__ inline float *part_of(const taps &t, const sources &s, int node, int part) {
    return s.parts + (size_t)node * s.parts_stride + (size_t)part * weights_of(t);
}

static __device__ inline float scale_of(const sources &s, int node) {
    return s.grid ? ((const struct oct__grid *)((const char *)s.grid + node * s.grid_stride))->scale
                  : 1.0F;
}

/* What the sums of a part are multiplied with before they are written. */
static __device__ inline float part_scale(const sources &s, int node) {
    return s.is_final ? scale_of(s, node) : 1.0F;
}

/* As a fold of one part has it: never -0. */
static __device__ inline float scaled(float sum, float scale) {
    return (sum + 0.0F) * scale;
}

static __device__ inline float zero_of(const sources &s, int node) {
    return s.grid ? ((const struct oct__grid *)((const char *)s.grid + node * s.grid_stride))->zero
                  : 0.0F;
}

static __device__ inline float value_at(const float *x, size_t at, float) {
    return x[at];
}

static __device__ inline float value_at(const uint8_t *x, size_t at, float zero) {
    return (float)x[at] - zero;
}

static __device__ inline float gradient_at(const float *dy, size_t at) {
    return dy[at];
}

static __device__ inline float gradient_at(const __nv_bfloat16 *dy, size_t at) {
    return __bfloat162float(dy[at]);
}

/* --- tiles in floats ------------------------------------------------------------------------- */

enum { DEPTH = 16, ACROSS = COLUMNS / 4 }; /* ACROSS x 4 threads, each 4 columns */

template <int EACH, typename X, typename G>
static __global__ void __launch_bounds__(COLUMNS) float_kernel(const taps t, const sources s) {
    enum { OUTS = 4 * EACH, GRADIENTS = (DEPTH * OUTS + COLUMNS - 1) / COLUMNS };
    __shared__ __align__(16) float xs[DEPTH][COLUMNS], gs[DEPTH][OUTS];
    __shared__ place places[DEPTH];
    const int node = (int)blockIdx.x / s.n_parts, part = (int)blockIdx.x % s.n_parts;
    const int thread = (int)threadIdx.x, first_out = (int)blockIdx.y * OUTS;
    const int column = (int)blockIdx.z * COLUMNS + thread;
    const int tap = column / t.from_c, channel = column % t.from_c;
    const int is_column = tap < taps_count(t);
    const X *x = (const X *)((const char *)s.x + node * s.x_stride);
    const G *dy = (const G *)((const char *)s.dy + node * s.dy_stride);
    const float zero = zero_of(s, node);
    const int begin = part * s.part, all = taps_results(t);
    const int end = begin + s.part < all ? begin + s.part : all;
    float sums[EACH][4] = {}, next_x[DEPTH], next_g[GRADIENTS];
    for (int k = begin - DEPTH; k < end; k += DEPTH) {
        if (k >= begin) {
#pragma unroll
            for (int i = 0; i < DEPTH; i++) {
                xs[i][thread] = next_x[i];
            }
#pragma unroll
            for (int i = 0; i < GRADIENTS; i++) {
                const int e = thread + i * COLUMNS;
                if (e < DEPTH * OUTS) {
                    gs[e / OUTS][e % OUTS] = next_g[i];
                }
            }
        }
        if (thread < DEPTH) {
            const int position = k + DEPTH + thread;
            places[thread] = place_of(t, position < end ? position : all);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            const int pixel =
                is_column ? pixel_of(t, places[i], tap / t.kernel, tap % t.kernel) : -1;
            next_x[i] = pixel < 0 ? 0.0F : value_at(x, (size_t)pixel * t.from_c + channel, zero);
        }
#pragma unroll
        for (int i = 0; i < GRADIENTS; i++) {
            const int e = thread + i * COLUMNS, position = k + DEPTH + e / OUTS;
            const int out = first_out + e % OUTS;
            next_g[i] = e < DEPTH * OUTS && position < end && out < t.to_c
                            ? gradient_at(dy, (size_t)position * t.to_c + out)
                            : 0.0F;
        }
        if (k >= begin) {
#pragma unroll
            for (int i = 0; i < DEPTH; i++) {
#pragma unroll
                for (int o = 0; o < EACH; o++) {
                    const float g = gs[i][thread / ACROSS * EACH + o];
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        sums[o][c] = fmaf(g, xs[i][thread % ACROSS * 4 + c], sums[o][c]);
                    }
                }
            }
        }
        __syncthreads();
    }
    float *to = part_of(t, s, node, part);
    const float scale = part_scale(s, node);
    for (int o = 0; o < EACH; o++) {
        for (int c = 0; c < 4; c++) {
            const int at = (int)blockIdx.z * COLUMNS + thread % ACROSS * 4 + c;
            const int out = first_out + thread / ACROSS * EACH + o;
            if (at < taps_count(t) * t.from_c && out < t.to_c) {
                to[weight_at(t, 0, at % t.from_c, out, at / t.from_c)] = scaled(sums[o][c], scale);
            }
        }
    }
}

/* --- groups ---------------------------------------------------------------------------------- */

/* A warp's lanes are neighbouring outputs, a block's eight warps take turns at positions. */
template <typename X, typename G>
static __global__ void __launch_bounds__(BLOCK) grouped_kernel(const taps t, const sources s) {
    __shared__ float room[8][33];
    const int node = (int)blockIdx.x / s.n_parts, part = (int)blockIdx.x % s.n_parts;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int out = (int)blockIdx.z * 32 + lane;
    const int from_c = t.from_c / t.groups, to_c = t.to_c / t.groups;
    const int tap = (int)blockIdx.y % taps_count(t), in = (int)blockIdx.y / taps_count(t);
    const X *x = (const X *)((const char *)s.x + node * s.x_stride);
    const G *dy = (const G *)((const char *)s.dy + node * s.dy_stride);
    const float zero = zero_of(s, node);
    const int begin = part * s.part, all = taps_results(t);
    const int end = begin + s.part < all ? begin + s.part : all;
    float sum = 0.0F;
    for (int k = begin + warp; k < end && out < t.to_c; k += 8) {
        const int pixel = pixel_of(t, place_of(t, k), tap / t.kernel, tap % t.kernel);
        if (pixel >= 0) {
            const int channel = out / to_c * from_c + in;
            sum = fmaf(gradient_at(dy, (size_t)k * t.to_c + out),
                       value_at(x, (size_t)pixel * t.from_c + channel, zero), sum);
        }
    }
    room[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && out < t.to_c) {
        float total = 0.0F;
        for (int w = 0; w < 8; w++) {
            total += room[w][lane];
        }
        part_of(t, s, node, part)[((size_t)out * from_c + in) * taps_count(t) + tap] =
            scaled(total, part_scale(s, node));
    }
}

/* --- folding --------------------------------------------------------------------------------- */

/* Of weights i … i + 3, the sum of every LANES-th part: four are on their way at a time. */
template <int LANES>
static __device__ inline four sum_parts(const float *parts, size_t count, int n_parts, size_t i,
                                        int wide) {
    four sum = {};
#pragma unroll 1
    for (int first = 0; first < n_parts; first += 4 * LANES) {
        four next[4] = {};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int p = first + k * LANES;
            if (p < n_parts) {
                next[k] = load_four(parts + (size_t)p * count, i, count, wide);
            }
        }
#pragma unroll
        for (int k = 0; k < 4 * FOUR; k++) {
            sum.v[k % FOUR] += next[k / FOUR].v[k % FOUR];
        }
    }
    return sum;
}

/* LANES neighbouring threads take turns at the parts of four neighbouring weights. */
template <int LANES>
static __global__ void __launch_bounds__(BLOCK)
    fold_kernel(const taps t, const sources s, nodes<float> dw, int wide) {
    const int node = (int)blockIdx.y, lane = (int)threadIdx.x % LANES;
    const size_t count = weights_of(t), each = BLOCK / LANES * FOUR;
    const float *parts = part_of(t, s, node, lane);
    const float scale = scale_of(s, node);
    for (size_t first = blockIdx.x * each; first < count; first += gridDim.x * each) {
        const size_t i = first + threadIdx.x / LANES * FOUR;
        four sum = wide && i + FOUR <= count
                       ? sum_parts<LANES>(parts, count, s.n_parts - lane, i, 1)
                       : sum_parts<LANES>(parts, count, s.n_parts - lane, i, 0);
        for (int d = LANES / 2; d > 0; d /= 2) {
            for (int j = 0; j < FOUR; j++) {
                sum.v[j] += __shfl_xor_sync(0xffffffffU, sum.v[j], d);
            }
        }
        for (int j = 0; j < FOUR; j++) {
            sum.v[j] *= scale;
        }
        if (lane == 0) {
            store_four(dw.of(node), i, count, wide, sum);
        }
    }
}

template <typename G>
static __global__ void __launch_bounds__(BLOCK)
    bias_kernel(const taps t, const sources s, nodes<float> db) {
    __shared__ float room[BLOCK / 32];
    const int node = (int)blockIdx.y, out = (int)blockIdx.x;
    const G *dy = (const G *)((const char *)s.dy + node * s.dy_stride);
    float sum = 0.0F;
    for (int k = (int)threadIdx.x; k < taps_results(t); k += BLOCK) {
        sum += gradient_at(dy, (size_t)k * t.to_c + out);
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0) {
        db.of(node)[out] = sum;
    }
}

/* --- launches -------------------------------------------------------------------------------- */

/* Where a weight gradient's operands are; no grid: -1. */
struct where {
    int x, grid, dy, dw, db;
};

/* Blocks over outputs and columns. */
static inline dim3 tiles(const struct oct__args *args, const struct where &at, int outs) {
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy];
    const int n_taps = args->attr.conv.kernel * args->attr.conv.kernel;
    if (args->attr.conv.groups > 1) {
        return dim3((unsigned)(dy->c + 31) / 32,
                    (unsigned)(x->c / args->attr.conv.groups * n_taps));
    }
    return dim3((unsigned)(n_taps * x->c + COLUMNS - 1) / COLUMNS,
                (unsigned)(dy->c + outs - 1) / (unsigned)outs);
}

/* Outputs of a tile of floats. */
static inline int float_outs(const struct oct__args *args, const struct where &at) {
    return args->t[at.dy].c <= 16 ? 16 : 32;
}

/* Parts: as many as fill a GPU, but none of a few positions only. It depends on shapes alone, so
 * that the order of sums does not depend on the GPU. */
static inline int parts_of(const struct oct__tensor *dy, dim3 tile, int *part) {
    const int positions = dy->n * dy->h * dy->w;
    const int blocks = (int)(tile.x * tile.y) * 8; /* a cohort of eight */
    int n = (1056 + blocks - 1) / blocks;
    const int most = (positions + LEAST_PART - 1) / LEAST_PART;
    n = n < most ? n : most;
    *part = ((positions + n - 1) / n + 31) / 32 * 32;
    return (positions + *part - 1) / *part;
}

/* Bytes of that many parts of all nodes, but for a single one, which is dw. */
static inline size_t parts_bytes(const struct oct__lane_form *form, const struct oct__tensor *dw,
                                 int n_parts) {
    return n_parts == 1
               ? 0
               : (size_t)form->n_nodes * (size_t)n_parts * oct__tensor_count(dw) * sizeof(float);
}

/* With positions cut into `n_parts` of `part`. */
static inline sources sources_of(const struct oct__lane *lane, const struct oct__args *args,
                                 const struct where &at, int n_parts, int part) {
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy], *dw = &args->t[at.dw];
    struct sources s = {x->at, dy->at, x->stride, dy->stride, NULL, 0, NULL, 0, n_parts, part, 0};
    if (at.grid >= 0) {
        s.grid = (const struct oct__grid *)args->t[at.grid].at;
        s.grid_stride = args->t[at.grid].stride;
    }
    s.is_final = n_parts == 1;
    s.parts = s.is_final ? (float *)dw->at : (float *)lane->shared_scratch;
    s.parts_stride =
        s.is_final ? dw->stride / sizeof(float) : (size_t)n_parts * oct__tensor_count(dw);
    return s;
}

template <typename X, typename G>
static void launch_floats(const struct oct__lane *lane, const struct oct__args *args,
                          const struct where &at, const taps &t, const sources &s) {
    const int outs = float_outs(args, at);
    const dim3 tile = tiles(args, at, outs);
    /* Nodes lie in x, which has no limit that a cohort meets. */
    const dim3 grid((unsigned)(s.n_parts * lane->form.n_nodes), tile.y, tile.x);
    if (t.groups > 1) {
        launch_kernel(grouped_kernel<X, G>, grid, BLOCK, 0, stream_of(lane), t, s);
    } else if (outs == 16) {
        launch_kernel(float_kernel<4, X, G>, grid, COLUMNS, 0, stream_of(lane), t, s);
    } else {
        launch_kernel(float_kernel<8, X, G>, grid, COLUMNS, 0, stream_of(lane), t, s);
    }
}

/* The weights' gradient out of its parts, if it has several; the bias's, if there is one, out of
 * dy. */
template <typename G>
static void launch_folds(const struct oct__lane *lane, const struct oct__args *args,
                         const struct where &at, const taps &t, const sources &s) {
    const struct oct__tensor *dw = &args->t[at.dw], *db = &args->t[at.db];
    const size_t count = oct__tensor_count(dw);
    const int wide = is_wide(dw) && count % FOUR == 0;
    if (s.n_parts > 16) {
        launch_kernel(fold_kernel<8>, grid_over(lane, 8 * count, FOUR), BLOCK, 0, stream_of(lane),
                      t, s, nodes_of<float>(dw), wide);
    } else if (!s.is_final) {
        launch_kernel(fold_kernel<4>, grid_over(lane, 4 * count, FOUR), BLOCK, 0, stream_of(lane),
                      t, s, nodes_of<float>(dw), wide);
    }
    if (db->n > 0) {
        const dim3 channels((unsigned)t.to_c, (unsigned)lane->form.n_nodes);
        launch_kernel(bias_kernel<G>, channels, BLOCK, 0, stream_of(lane), t, s,
                      nodes_of<float>(db));
    }
}

#endif
