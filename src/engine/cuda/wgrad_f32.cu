/* SPDX-License-Identifier: Apache-2.0 */
/* wgrad_f32.cu - weight gradients of floats, on tensor cores with three products for one
 * (tf32.cuh).
 *
 * A block makes a tile of a part: 16 or 32 outputs, sixteen channels, all taps. It walks over the
 * part's regions: copies dy, and x with what surrounds it, to shared memory, and multiplies,
 * positions being what is summed over. A tap's factors are the same pixels, shifted. A warp has all
 * taps of sixteen outputs and eight channels; where there are no 32 outputs, two share the
 * positions. Sums go to memory by way of shared memory, in the order in which they lie there. A
 * pixel takes 24 or 40 floats: four pixels by eight channels, as an instruction loads them, lie in
 * different banks.
 *
 * That is for kernels of 1 and 3. For others, and for rows too long for shared memory, there are
 * the tiles of wgrad.cuh.
 */
#include "engine/cuda/tf32.cuh"
#include "engine/cuda/wgrad.cuh"

static const struct where operands = {0, -1, 1, 2, 3};

/* --- tensor cores ---------------------------------------------------------------------------- */

enum {
    CHUNK = 16,
    X_PITCH = 24,
    WARPS = 4,
    POSITIONS = 128, /* of a region, at most */
    RUN = 32,        /* positions, until sums are rounded */
    SHARED = 48 << 10,
    TILES = 64, /* of all parts of a node: with eight nodes four blocks for each multiprocessor */
};

static __host__ __device__ constexpr int g_pitch(int m) {
    return m == 1 ? 24 : 40;
}

/* How positions are cut: into regions, and those into parts. */
struct plan {
    region r;
    int n_regions, part;       /* regions; of a part */
    int x_is_wide, dy_is_wide; /* four channels may be read at once */
};

/* The region's rows of dy. A region's results are neighbours, but the last of an image or of all
 * may be missing: zeros. */
template <int EACH, int M>
static __device__ inline void copy_gradients(const taps &t, const region &r, const corner &at,
                                             const float *dy, int first_out, float *to) {
    enum { UNITS = 16 * M / EACH };
    const int rows = min(r.rows, t.to_h - at.row), images = min(r.images, t.n - at.image);
    const int n = images * rows * t.to_w, count = (region_results(r) + RUN - 1) / RUN * RUN * UNITS;
    const float *from = dy + (size_t)(at.image * t.to_h + at.row) * t.to_w * t.to_c + first_out;
    for (int e = (int)threadIdx.x; e < count; e += WARPS * 32) {
        const int position = e / UNITS, out = e % UNITS * EACH;
        const int is_there = position < n && first_out + out < t.to_c;
        const float *source = is_there ? from + (size_t)position * t.to_c + out : dy;
        if (EACH == 4) {
            copy_four(to + position * g_pitch(M) + out, source, is_there);
        } else {
            copy_one(to + position * g_pitch(M) + out, source, is_there);
        }
    }
}

/* Adds the products of RUN positions: of gradients `gs`, where the lane's first is, and of pixels
 * that begin `shifts` behind `xs` and whose lines are `line` floats apart. */
template <int KERNEL>
static __device__ inline void multiply_run(float sums[KERNEL][1][KERNEL][4], const float *gs,
                                           int g_pitch, const float *xs, const int *shifts,
                                           int line) {
    float products[KERNEL][1][KERNEL][4] = {};
#pragma unroll(2)
    for (int k = 0; k < RUN; k += 8) {
        const float *g = gs + k * g_pitch, *next = g + 4 * g_pitch;
        const uint32_t bits[4] = {__float_as_uint(g[0]), __float_as_uint(g[8]),
                                  __float_as_uint(next[0]), __float_as_uint(next[8])};
        const halves<4> a = split<4>(bits);
#pragma unroll
        for (int y = 0; y < KERNEL; y++) {
            const float *near = xs + shifts[k] + y * line, *far = xs + shifts[k + 4] + y * line;
            halves<2> b[KERNEL];
#pragma unroll
            for (int x = 0; x < KERNEL; x++) {
                const uint32_t pair[2] = {__float_as_uint(near[x * X_PITCH]),
                                          __float_as_uint(far[x * X_PITCH])};
                b[x] = split<2>(pair);
            }
            multiply<1, KERNEL>(products[y], &a, b);
        }
    }
#pragma unroll
    for (int y = 0; y < KERNEL; y++) {
        add_products<1, KERNEL>(sums[y], products[y]);
    }
}

/* What a warp does: eight channels, sixteen outputs, and every GROUPS-th RUN of positions. */
template <int M> struct duty {
    enum { GROUPS = 2 / M };
    int channel, out, group;
};

template <int M> static __device__ inline duty<M> duty_of(int warp) {
    return {warp % 2 * 8, M == 2 ? warp / 2 * 16 : 0, M == 2 ? 0 : warp / 2};
}

/* Warps' sums to `room`, [output][channel][tap], one group after the other. */
template <int KERNEL, int M>
static __device__ inline void gather_sums(const float sums[KERNEL][1][KERNEL][4], const duty<M> &my,
                                          float *room) {
    enum { TAPS = KERNEL * KERNEL };
    const int lane = (int)threadIdx.x % 32;
    for (int group = 0; group < duty<M>::GROUPS; group++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TAPS * 4 && my.group == group; i++) {
            const int tap = i / 4, out = my.out + lane / 4 + i % 4 / 2 * 8;
            const int channel = my.channel + lane % 4 * 2 + i % 2;
            float *sum = room + (out * CHUNK + channel) * TAPS + tap;
            *sum = sums[tap / KERNEL][0][tap % KERNEL][i % 4] + (group > 0 ? *sum : 0.0F);
        }
    }
    __syncthreads();
}

template <int KERNEL, int M>
static __global__ void __launch_bounds__(WARPS * 32, 4)
    tensor_kernel(const taps t, const plan p, const sources s) {
    enum { TAPS = KERNEL * KERNEL, G_PITCH = g_pitch(M) };
    __shared__ int shifts[POSITIONS];
    float *pixels = dynamic_shared<float>();
    float *gradients = pixels + region_pixels(p.r) * X_PITCH;
    const int node = (int)blockIdx.x / s.n_parts, part = (int)blockIdx.x % s.n_parts;
    const int first_out = (int)blockIdx.y * 16 * M, channel = (int)blockIdx.z * CHUNK;
    const int thread = (int)threadIdx.x, lane = thread % 32;
    const int is_half = t.from_c - channel <= 8;
    const duty<M> my = duty_of<M>(thread / 32);
    const float *x = (const float *)((const char *)s.x + node * s.x_stride);
    const float *dy = (const float *)((const char *)s.dy + node * s.dy_stride);
    const int results = is_half && my.channel > 0 ? 0 : region_results(p.r);
    for (int i = thread; i < POSITIONS; i += WARPS * 32) {
        /* Beyond the last position dy is 0, and any pixel will do. */
        const spot at = spot_of(p.r, i < region_results(p.r) ? i : 0);
        shifts[i] = first_pixel(p.r, at) * X_PITCH;
    }
    float sums[KERNEL][1][KERNEL][4] = {};
    const int end = min((part + 1) * p.part, p.n_regions);
    for (int i = part * p.part; i < end; i++) {
        const corner at = corner_of(t, p.r, i);
        __syncthreads();
        if (p.x_is_wide) {
            copy_region<4, X_PITCH>(t, p.r, at, x, channel, is_half ? 1 : 2, pixels);
        } else {
            copy_region<1, X_PITCH>(t, p.r, at, x, channel, is_half ? 3 : 4, pixels);
        }
        if (p.dy_is_wide) {
            copy_gradients<4, M>(t, p.r, at, dy, first_out, gradients);
        } else {
            copy_gradients<1, M>(t, p.r, at, dy, first_out, gradients);
        }
        await_copies();
        __syncthreads();
        for (int k = my.group * RUN; k < results; k += duty<M>::GROUPS * RUN) {
            multiply_run<KERNEL>(sums, gradients + (k + lane % 4) * G_PITCH + my.out + lane / 4,
                                 G_PITCH, pixels + my.channel + lane / 4, shifts + k + lane % 4,
                                 p.r.in_w * X_PITCH);
        }
    }
    gather_sums<KERNEL, M>(sums, my, pixels);
    float *to = part_of(t, s, node, part);
    const float scale = part_scale(s, node);
    for (int e = thread; e < 16 * M * CHUNK * TAPS; e += WARPS * 32) {
        const int out = first_out + e / (CHUNK * TAPS), rest = e % (CHUNK * TAPS);
        if (out < t.to_c && channel + rest / TAPS < t.from_c) {
            to[((size_t)out * t.from_c + channel) * TAPS + rest] = scaled(pixels[e], scale);
        }
    }
}

/* --- launches -------------------------------------------------------------------------------- */

static int outs_of(const taps &t) {
    return t.to_c <= 16 ? 16 : 32;
}

static size_t shared_bytes(const taps &t, const region &r) {
    const int results = (r.images * r.rows * r.class_w + RUN - 1) / RUN * RUN;
    const int pitch = g_pitch(outs_of(t) / 16);
    const int room = outs_of(t) * CHUNK * taps_count(t);
    const int copied = region_pixels(r) * X_PITCH + results * pitch;
    return (size_t)(copied > room ? copied : room) * sizeof(float);
}

/* Returns the number of parts; 0: no region fits. Depends on shapes alone, not on the number of
 * nodes. */
static int make_plan(const taps &t, struct plan *p) {
    const int pitch = g_pitch(outs_of(t) / 16), room = (SHARED - POSITIONS * 4) / 4;
    int fits = 0, used = 0;
    if (t.groups > 1 || (t.kernel != 1 && t.kernel != 3)) {
        return 0;
    }
    /* Fewer positions, where a stride makes regions large, or where there are few. */
    for (int most = POSITIONS; most >= RUN && used * 2 <= most; most /= 2) {
        fits = make_region(t, most, (room - most * pitch) / X_PITCH, &p->r);
        used = fits ? p->r.images * p->r.rows * p->r.class_w : 0;
    }
    if (!fits) {
        return 0;
    }
    const int tiles = (t.to_c + outs_of(t) - 1) / outs_of(t) * ((t.from_c + CHUNK - 1) / CHUNK);
    int n = TILES / tiles > 1 ? TILES / tiles : 1;
    p->n_regions = region_blocks(t, p->r);
    n = n < p->n_regions ? n : p->n_regions;
    p->part = (p->n_regions + n - 1) / n;
    return (p->n_regions + p->part - 1) / p->part;
}

static taps taps_of_args(const struct oct__args *args) {
    return taps_of(args, &args->t[operands.x], &args->t[operands.dy], 0);
}

static int cut_positions(const struct oct__args *args, int *part) {
    return parts_of(&args->t[operands.dy], tiles(args, operands, float_outs(args, operands)), part);
}

extern "C" size_t oct__cuda_wgrad_f32_scratch(enum oct__op op, const struct oct__lane_form *form,
                                              const struct oct__args *args) {
    if (op != OCT_OP_CONV_WGRAD) {
        return 0;
    }
    struct plan p;
    int part, n = make_plan(taps_of_args(args), &p);
    n = n > 0 ? n : cut_positions(args, &part);
    return parts_bytes(form, &args->t[operands.dw], n);
}

static void launch_tensors(const struct oct__lane *lane, const taps &t, struct plan &p,
                           const sources &s) {
    const int outs = outs_of(t);
    const dim3 grid((unsigned)(s.n_parts * lane->form.n_nodes),
                    (unsigned)((t.to_c + outs - 1) / outs),
                    (unsigned)((t.from_c + CHUNK - 1) / CHUNK));
    const size_t shared = shared_bytes(t, p.r);
    p.x_is_wide = t.from_c % 4 == 0 && (uintptr_t)s.x % 16 == 0 && s.x_stride % 16 == 0;
    p.dy_is_wide = t.to_c % 4 == 0 && (uintptr_t)s.dy % 16 == 0 && s.dy_stride % 16 == 0;
    const auto kernel = t.kernel == 3 ? outs == 16 ? tensor_kernel<3, 1> : tensor_kernel<3, 2>
                        : outs == 16 ? tensor_kernel<1, 1>
                                      : tensor_kernel<1, 2>;
    launch_kernel(kernel, grid, WARPS * 32, shared, stream_of(lane), t, p, s);
}

extern "C" oct_status oct__cuda_conv_wgrad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    const taps t = taps_of_args(args);
    struct plan p;
    int part = 0, n_parts = make_plan(t, &p);
    const int is_cut = n_parts == 0;
    if (is_cut) {
        n_parts = cut_positions(args, &part);
    }
    const struct sources s = sources_of(lane, args, operands, n_parts, part);
    if (is_cut) {
        launch_floats<float, float>(lane, args, operands, t, s);
    } else {
        launch_tensors(lane, t, p, s);
    }
    launch_folds<float>(lane, args, operands, t, s);
    return oct__cuda_launched(oct__op_info[OCT_OP_CONV_WGRAD].name);
}
