/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad_u8.cu - weight gradients of bytes.
 *
 * With gradients in bf16 they go to tensor cores: q - zero is a whole number below 256 and exact in
 * bf16, products are exact in f32, and only their sums round; x's scale waits until the parts are
 * folded. Shapes that do not suit tensor cores are multiplied as floats (wgrad.cuh).
 */
#include "engine/cuda/mma.cuh"
#include "engine/cuda/wgrad.cuh"

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

/* --- launches ----------------------------------------------------------------------------------- */

static const struct where operands = {0, 1, 2, 3, 4};

static int suits_tensors(const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[operands.x], *dy = &args->t[operands.dy];
    return dy->dtype == OCT_DTYPE_BF16 && x->c % 16 == 0 && dy->c % 8 == 0 &&
           args->attr.conv.groups == 1;
}

static int outs_of(const struct oct__args *args) {
    const int c = args->t[operands.dy].c;
    return !suits_tensors(args) ? float_outs(args, operands) : c <= 16 ? 16 : c <= 32 ? 32 : 64;
}

static int cut_positions(const struct oct__args *args, int *part) {
    return parts_of(&args->t[operands.dy], tiles(args, operands, outs_of(args)), part);
}

extern "C" size_t oct__cuda_wgrad_u8_scratch(enum oct__op op, const struct oct__lane_form *form,
                                             const struct oct__args *args) {
    int part;
    return op == OCT_OP_CONV_U8_WGRAD
               ? parts_bytes(form, &args->t[operands.dw], cut_positions(args, &part))
               : 0;
}

static void launch_tensors(const struct oct__lane *lane, const struct oct__args *args,
                           const taps &t, const sources &s) {
    const int outs = outs_of(args);
    dim3 grid = tiles(args, operands, outs);
    grid.z = (unsigned)(s.n_parts * lane->form.n_nodes);
    if (outs == 16) {
        launch_kernel(tensor_kernel<1>, grid, WARPS * 32, 0, stream_of(lane), t, s);
    } else if (outs == 32) {
        launch_kernel(tensor_kernel<2>, grid, WARPS * 32, 0, stream_of(lane), t, s);
    } else {
        launch_kernel(tensor_kernel<4>, grid, WARPS * 32, 0, stream_of(lane), t, s);
    }
}

extern "C" oct_status oct__cuda_conv_u8_wgrad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    const taps t = taps_of(args, &args->t[operands.x], &args->t[operands.dy], 0);
    const int is_bf16 = args->t[operands.dy].dtype == OCT_DTYPE_BF16;
    struct sources s = sources_of(lane, args, operands);
    s.n_parts = cut_positions(args, &s.part);
    if (suits_tensors(args)) {
        launch_tensors(lane, args, t, s);
    } else if (is_bf16) {
        launch_floats<uint8_t, __nv_bfloat16>(lane, args, operands, t, s);
    } else {
        launch_floats<uint8_t, float>(lane, args, operands, t, s);
    }
    if (is_bf16) {
        launch_folds<__nv_bfloat16>(lane, args, operands, t, s);
    } else {
        launch_folds<float>(lane, args, operands, t, s);
    }
    return oct__cuda_launched(oct__op_info[OCT_OP_CONV_U8_WGRAD].name);
}
