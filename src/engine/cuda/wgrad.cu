/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad.cu - weight gradients: sums over all positions of dy(position, o) * x(tap's pixel, c).
 *
 * As a product of matrices it is few rows (o), few columns (tap and channel), and a very long sum: so
 * the positions are cut into parts, a block makes a tile of 144 columns of one part (nine taps of
 * sixteen channels: no column is wasted), and a second kernel folds the parts in ascending order.
 *
 *     dy  [position][o]            tile 16, 32 or 64 wide
 *     x   [position][tap, c]       gathered, 144 wide          dw[o][c][tap] = fold over parts
 *
 * Two kernels make tiles. Floats are multiplied as floats. Bytes with gradients in bf16 go to tensor
 * cores: q - zero is a whole number below 256 and exact in bf16, products are exact in f32, and only
 * their sums round; x's scale waits until the parts are folded.
 */
#include <cuda_bf16.h>

#include "engine/cuda/conv.cuh"
#include "engine/cuda/mma.cuh"

enum { COLUMNS = 144, LEAST_PART = 64 };

struct sources {
    const void *x, *dy;
    size_t x_stride, dy_stride;
    const struct oct__grid *grid; /* NULL: x is floats */
    size_t grid_stride;
    float *parts;      /* [node][part][weights] */
    int n_parts, part; /* positions of a part */
};

static __device__ inline size_t weights_of(const taps &t) {
    return (size_t)t.to_c * (size_t)(t.from_c / t.groups) * (size_t)taps_count(t);
}

static __device__ inline float *part_of(const taps &t, const sources &s, int node, int part) {
    return s.parts + ((size_t)node * (size_t)s.n_parts + (size_t)part) * weights_of(t);
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

/* --- tiles in floats --------------------------------------------------------------------------- */

enum { DEPTH = 16, ACROSS = COLUMNS / 4 }; /* ACROSS x 4 threads, each 4 columns */

template <int EACH, typename X, typename G>
static __global__ void __launch_bounds__(COLUMNS) float_kernel(const taps t, const sources s) {
    enum { OUTS = 4 * EACH, GRADIENTS = (DEPTH * OUTS + COLUMNS - 1) / COLUMNS };
    __shared__ __align__(16) float xs[DEPTH][COLUMNS], gs[DEPTH][OUTS];
    __shared__ place places[DEPTH];
    const int node = (int)blockIdx.z / s.n_parts, part = (int)blockIdx.z % s.n_parts;
    const int thread = (int)threadIdx.x, first_out = (int)blockIdx.y * OUTS;
    const int column = (int)blockIdx.x * COLUMNS + thread;
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
    for (int o = 0; o < EACH; o++) {
        for (int c = 0; c < 4; c++) {
            const int at = (int)blockIdx.x * COLUMNS + thread % ACROSS * 4 + c;
            const int out = first_out + thread / ACROSS * EACH + o;
            if (at < taps_count(t) * t.from_c && out < t.to_c) {
                to[weight_at(t, 0, at % t.from_c, out, at / t.from_c)] = sums[o][c];
            }
        }
    }
}

/* --- tiles in tensor cores ---------------------------------------------------------------------- */

enum {
    STEP = 32,             /* positions */
    WARPS = 3,             /* each 48 columns */
    UNITS = COLUMNS / 16,  /* of 16 channels of one tap: what a thread gathers at once */
    X_PITCH = COLUMNS + 8, /* so that eight rows lie in different banks */
};

/* Sixteen bytes less zero, as bf16: two words of two bytes each at a time. */
static __device__ inline void widen(const uint4 bytes, float zero, uint4 out[2]) {
    const uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    uint32_t pair[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t w = word[i / 2] >> (i % 2 * 16);
        const __nv_bfloat162 two =
            __floats2bfloat162_rn((float)(w & 255U) - zero, (float)(w >> 8 & 255U) - zero);
        pair[i] = *(const uint32_t *)&two;
    }
    out[0] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    out[1] = make_uint4(pair[4], pair[5], pair[6], pair[7]);
}

/* ROWS16 times sixteen outputs by 144 columns. */
template <int ROWS16>
static __global__ void __launch_bounds__(WARPS * 32) tensor_kernel(const taps t, const sources s) {
    enum {
        OUTS = 16 * ROWS16,
        G_PITCH = OUTS + 8,
        N_X = STEP * UNITS / (WARPS * 32),
        N_G = (STEP * OUTS / 8 + WARPS * 32 - 1) / (WARPS * 32)
    };
    __shared__ __align__(16) uint16_t xs[STEP][X_PITCH], gs[STEP][G_PITCH];
    __shared__ place places[STEP];
    const int node = (int)blockIdx.z / s.n_parts, part = (int)blockIdx.z % s.n_parts;
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int first_out = (int)blockIdx.y * OUTS, first_unit = (int)blockIdx.x * UNITS;
    const int units_of_tap = t.from_c / 16, n_units = taps_count(t) * units_of_tap;
    const uint8_t *x = (const uint8_t *)s.x + node * s.x_stride;
    const uint16_t *dy = (const uint16_t *)((const char *)s.dy + node * s.dy_stride);
    const float zero = zero_of(s, node);
    const int begin = part * s.part, all = taps_results(t);
    const int end = begin + s.part < all ? begin + s.part : all;
    float sums[ROWS16][6][4] = {};
    uint4 next_x[N_X], next_g[N_G];
    uint32_t is_inside = 0; /* of next_x: outside the image x is 0, which no byte need be */
    for (int k = begin - STEP; k < end; k += STEP) {
        if (k >= begin) {
#pragma unroll
            for (int i = 0; i < N_X; i++) {
                const int e = thread + i * WARPS * 32, row = e / UNITS, unit = e % UNITS;
                uint4 wide[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
                if (is_inside >> i & 1U) {
                    widen(next_x[i], zero, wide);
                }
                *(uint4 *)&xs[row][unit * 16] = wide[0];
                *(uint4 *)&xs[row][unit * 16 + 8] = wide[1];
            }
#pragma unroll
            for (int i = 0; i < N_G; i++) {
                const int e = thread + i * WARPS * 32;
                if (e < STEP * OUTS / 8) {
                    *(uint4 *)&gs[e / (OUTS / 8)][e % (OUTS / 8) * 8] = next_g[i];
                }
            }
        }
        if (thread < STEP) {
            const int position = k + STEP + thread;
            places[thread] = place_of(t, position < end ? position : all);
        }
        __syncthreads();
        is_inside = 0;
#pragma unroll
        for (int i = 0; i < N_X; i++) {
            const int e = thread + i * WARPS * 32, unit = first_unit + e % UNITS;
            const int tap = unit / units_of_tap;
            const int pixel = unit < n_units
                                  ? pixel_of(t, places[e / UNITS], tap / t.kernel, tap % t.kernel)
                                  : -1;
            if (pixel >= 0) {
                is_inside |= 1U << i;
                next_x[i] = *(const uint4 *)(x + (size_t)pixel * t.from_c +
                                             (unit - tap * units_of_tap) * 16);
            }
        }
#pragma unroll
        for (int i = 0; i < N_G; i++) {
            const int e = thread + i * WARPS * 32, position = k + STEP + e / (OUTS / 8);
            const int out = first_out + e % (OUTS / 8) * 8;
            next_g[i] = e < STEP * OUTS / 8 && position < end && out < t.to_c
                            ? *(const uint4 *)(dy + (size_t)position * t.to_c + out)
                            : make_uint4(0, 0, 0, 0);
        }
        if (k >= begin) {
#pragma unroll
            for (int d = 0; d < STEP; d += 16) {
                uint32_t a[ROWS16][4];
#pragma unroll
                for (int r = 0; r < ROWS16; r++) {
                    load_turned(a[r], &gs[d + lane / 16 * 8 + lane % 8][16 * r + lane / 8 % 2 * 8]);
                }
#pragma unroll
                for (int c = 0; c < 3; c++) {
                    uint32_t b[4];
                    load_turned(
                        b,
                        &xs[d + lane / 8 % 2 * 8 + lane % 8][warp * 48 + c * 16 + lane / 16 * 8]);
#pragma unroll
                    for (int r = 0; r < ROWS16; r++) {
                        mma_bf16(sums[r][2 * c], a[r], &b[0]);
                        mma_bf16(sums[r][2 * c + 1], a[r], &b[2]);
                    }
                }
            }
        }
        __syncthreads();
    }
    float *to = part_of(t, s, node, part);
#pragma unroll
    for (int r = 0; r < ROWS16; r++) {
#pragma unroll
        for (int c = 0; c < 6; c++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int out = first_out + 16 * r + lane / 4 + i / 2 * 8;
                const int at = (int)blockIdx.x * COLUMNS + warp * 48 + c * 8 + lane % 4 * 2 + i % 2;
                if (out < t.to_c && at < taps_count(t) * t.from_c) {
                    to[weight_at(t, 0, at % t.from_c, out, at / t.from_c)] = sums[r][c][i];
                }
            }
        }
    }
}

/* --- groups ------------------------------------------------------------------------------------- */

/* A warp's lanes are neighbouring outputs, a block's eight warps take turns at positions. */
template <typename X, typename G>
static __global__ void __launch_bounds__(BLOCK) grouped_kernel(const taps t, const sources s) {
    __shared__ float room[8][33];
    const int node = (int)blockIdx.z / s.n_parts, part = (int)blockIdx.z % s.n_parts;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int out = (int)blockIdx.x * 32 + lane;
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
        part_of(t, s, node, part)[((size_t)out * from_c + in) * taps_count(t) + tap] = total;
    }
}

/* --- folding ------------------------------------------------------------------------------------ */

static __global__ void __launch_bounds__(BLOCK)
    fold_kernel(const taps t, const sources s, nodes<float> dw) {
    const int node = (int)blockIdx.y;
    const size_t count = weights_of(t);
    const float scale =
        s.grid ? ((const struct oct__grid *)((const char *)s.grid + node * s.grid_stride))->scale
               : 1.0F;
    for (size_t e = first_element(); e < count; e += element_step()) {
        float sum = 0.0F;
        for (int p = 0; p < s.n_parts; p++) {
            sum += part_of(t, s, node, p)[e];
        }
        dw.of(node)[e] = sum * scale;
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

/* --- launches ----------------------------------------------------------------------------------- */

/* Where a weight gradient's operands are. */
struct where {
    int x, grid, dy, dw, db;
};

static struct where where_of(enum oct__op op) {
    const struct where floats = {0, -1, 1, 2, 3}, bytes = {0, 1, 2, 3, 4};
    return op == OCT_OP_CONV_U8_WGRAD ? bytes : floats;
}

static int suits_tensors(const struct oct__args *args, const struct where &at) {
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy];
    return at.grid >= 0 && dy->dtype == OCT_DTYPE_BF16 && x->c % 16 == 0 && dy->c % 8 == 0 &&
           args->attr.conv.groups == 1;
}

/* Blocks over outputs and columns. */
static dim3 tiles(const struct oct__args *args, const struct where &at, int outs) {
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy];
    const int n_taps = args->attr.conv.kernel * args->attr.conv.kernel;
    if (args->attr.conv.groups > 1) {
        return dim3((unsigned)(dy->c + 31) / 32,
                    (unsigned)(x->c / args->attr.conv.groups * n_taps));
    }
    return dim3((unsigned)(n_taps * x->c + COLUMNS - 1) / COLUMNS,
                (unsigned)(dy->c + outs - 1) / (unsigned)outs);
}

static int outs_of(const struct oct__args *args, const struct where &at) {
    const int c = args->t[at.dy].c;
    return c <= 16 ? 16 : c <= 32 || !suits_tensors(args, at) ? 32 : 64;
}

/* Parts: as many as fill a GPU, but none of a few positions only. It depends on shapes alone, so that
 * the order of sums does not depend on the GPU. */
static int parts_of(const struct oct__lane_form *form, const struct oct__args *args,
                    const struct where &at, int *part) {
    const struct oct__tensor *dy = &args->t[at.dy];
    const dim3 tile = tiles(args, at, outs_of(args, at));
    const int positions = dy->n * dy->h * dy->w;
    const int blocks = (int)(tile.x * tile.y) * 8; /* a cohort of eight */
    int n = (1056 + blocks - 1) / blocks;
    const int most = (positions + LEAST_PART - 1) / LEAST_PART;
    (void)form;
    n = n < most ? n : most;
    *part = ((positions + n - 1) / n + 31) / 32 * 32;
    return (positions + *part - 1) / *part;
}

extern "C" size_t oct__cuda_wgrad_scratch(enum oct__op op, const struct oct__lane_form *form,
                                          const struct oct__args *args) {
    if (op != OCT_OP_CONV_WGRAD && op != OCT_OP_CONV_U8_WGRAD) {
        return 0;
    }
    const struct where at = where_of(op);
    int part;
    const size_t n_parts = (size_t)parts_of(form, args, at, &part);
    return (size_t)form->n_nodes * n_parts * oct__tensor_count(&args->t[at.dw]) * sizeof(float);
}

template <typename X, typename G>
static void launch_floats(dim3 grid, int outs, cudaStream_t stream, const taps &t,
                          const sources &s) {
    if (t.groups > 1) {
        launch_kernel(grouped_kernel<X, G>, grid, BLOCK, 0, stream, t, s);
    } else if (outs == 16) {
        launch_kernel(float_kernel<4, X, G>, grid, COLUMNS, 0, stream, t, s);
    } else {
        launch_kernel(float_kernel<8, X, G>, grid, COLUMNS, 0, stream, t, s);
    }
}

static void launch_tensors(dim3 grid, int outs, cudaStream_t stream, const taps &t,
                           const sources &s) {
    if (outs == 16) {
        launch_kernel(tensor_kernel<1>, grid, WARPS * 32, 0, stream, t, s);
    } else if (outs == 32) {
        launch_kernel(tensor_kernel<2>, grid, WARPS * 32, 0, stream, t, s);
    } else {
        launch_kernel(tensor_kernel<4>, grid, WARPS * 32, 0, stream, t, s);
    }
}

static oct_status run(const struct oct__lane *lane, const struct oct__args *args, enum oct__op op) {
    const struct where at = where_of(op);
    const struct oct__tensor *x = &args->t[at.x], *dy = &args->t[at.dy];
    const taps t = taps_of(args, x, dy, 0);
    const cudaStream_t stream = stream_of(lane);
    const int is_bf16 = dy->dtype == OCT_DTYPE_BF16, outs = outs_of(args, at);
    struct sources s = {x->at, dy->at, x->stride, dy->stride, NULL, 0, NULL, 0, 0};
    if (at.grid >= 0) {
        s.grid = (const struct oct__grid *)args->t[at.grid].at;
        s.grid_stride = args->t[at.grid].stride;
    }
    s.parts = (float *)lane->shared_scratch;
    s.n_parts = parts_of(&lane->form, args, at, &s.part);
    dim3 grid = tiles(args, at, outs);
    grid.z = (unsigned)(s.n_parts * lane->form.n_nodes);
    if (suits_tensors(args, at)) {
        launch_tensors(grid, outs, stream, t, s);
    } else if (!s.grid) {
        launch_floats<float, float>(grid, outs, stream, t, s);
    } else if (is_bf16) {
        launch_floats<uint8_t, __nv_bfloat16>(grid, outs, stream, t, s);
    } else {
        launch_floats<uint8_t, float>(grid, outs, stream, t, s);
    }
    const struct oct__tensor *dw = &args->t[at.dw], *db = &args->t[at.db];
    launch_kernel(fold_kernel, grid_over(lane, oct__tensor_count(dw), 1), BLOCK, 0, stream, t, s,
                  nodes_of<float>(dw));
    if (db->n > 0) {
        const dim3 channels((unsigned)dy->c, (unsigned)lane->form.n_nodes);
        if (is_bf16) {
            launch_kernel(bias_kernel<__nv_bfloat16>, channels, BLOCK, 0, stream, t, s,
                          nodes_of<float>(db));
        } else {
            launch_kernel(bias_kernel<float>, channels, BLOCK, 0, stream, t, s,
                          nodes_of<float>(db));
        }
    }
    return oct__cuda_launched(oct__op_info[op].name);
}

extern "C" oct_status oct__cuda_conv_wgrad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    return run(lane, args, OCT_OP_CONV_WGRAD);
}

extern "C" oct_status oct__cuda_conv_u8_wgrad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    return run(lane, args, OCT_OP_CONV_U8_WGRAD);
}
