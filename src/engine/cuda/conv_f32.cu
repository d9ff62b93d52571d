/* SPDX-License-Identifier: Apache-2.0 */
/* conv_f32.cu - convolutions in floats, on tensor cores with three products for one (tf32.cuh): each
 * product is within 2^-21 of the true one, relative to it, and sums are of floats.
 *
 * A block makes the results of some rows of an image, or of a few small images, in 16 or 32 channels. It
 * copies what they read, eight channels of each pixel, and the weights between them to shared memory, and
 * multiplies while the next eight channels are on their way: a tap's factors are the same pixels,
 * shifted, so that nothing is gathered twice. A pixel takes 12 floats there, and eight of them in a row,
 * as an instruction loads them, lie in different banks. Backwards it is the same with taps in reverse;
 * with a stride, too (regions' classes).
 *
 * That is for kernels of 1 and 3. For others, and for rows too long for shared memory, there is a
 * kernel that gathers, in true f32: a block makes a tile of ROWS positions by COLUMNS channels. It walks
 * over taps and channels in steps of DEPTH: gathers its positions' values and the weights into shared
 * memory while the last step's are multiplied out of it, eight positions by a few channels a thread. Sums
 * run in ascending order of (tap, channel).
 */
#include "engine/cuda/tf32.cuh"

struct operands {
    nodes<const float> from, weights, bias;
    nodes<float> to;
    int has_bias;
};

/* --- tensor cores ------------------------------------------------------------------------------- */

enum { CHUNK = 8, PITCH = 12, WARPS = 4, SHARED = 48 << 10 };

/* Floats of one tap's weights: [result's channel][channel]. The rest spreads taps over banks. */
static __host__ __device__ constexpr int tap_pitch(int n) {
    return n * 8 * PITCH + 4;
}

/* How one launch does it. */
struct plan {
    region r;
    int n_buffers;          /* of CHUNK channels: 1 or 2 */
    int is_wide, is_paired; /* four channels may be read, two be written at once */
};

/* Weights between channels `channel` … + CHUNK - 1 and results' channels `first` … + 8 N - 1. They lie in
 * the order [o][c][tap], of which o or c is the results', and are read in that order: neighbours are
 * taps first. */
template <int KERNEL, int N>
static __device__ inline void copy_weights(const taps &t, const float *weights, int first,
                                           int channel, float *to) {
    enum { TAPS = KERNEL * KERNEL, SLOTS = WARPS * 32 / TAPS, OUTS = 8 * N };
    const int tap = (int)threadIdx.x % TAPS, slot = (int)threadIdx.x / TAPS;
    const int n_inner = t.is_back ? 8 * N : (int)CHUNK,
              line = (t.is_back ? t.to_c : t.from_c) * TAPS;
    const int inner_step = t.is_back ? PITCH : 1, outer_step = t.is_back ? 1 : PITCH;
    const int inner_left = t.is_back ? t.to_c - first : t.from_c - channel;
    const int outer_left = t.is_back ? t.from_c - channel : t.to_c - first;
    weights += weight_at(t, 0, channel, first, tap);
    to += tap * tap_pitch(N);
    for (int i = slot; i < CHUNK * OUTS && slot < SLOTS; i += SLOTS) {
        const int inner = i & (n_inner - 1), outer = t.is_back ? i / OUTS : i / CHUNK;
        const int is_there = inner < inner_left && outer < outer_left;
        copy_one(to + inner * inner_step + outer * outer_step,
                 weights + (is_there ? (size_t)outer * line + inner * TAPS : 0), is_there);
    }
}

template <int KERNEL, int N>
static __device__ inline void copy_chunk(const taps &t, const plan &p, const corner &at,
                                         const float *from, const float *weights, int first,
                                         int channel, float *to) {
    if (p.is_wide) {
        copy_region<4, PITCH>(t, p.r, at, from, channel, 1, to);
    } else {
        copy_region<1, PITCH>(t, p.r, at, from, channel, 3, to);
    }
    copy_weights<KERNEL, N>(t, weights, first, channel, to + region_pixels(p.r) * PITCH);
}

/* Adds the products of COUNT neighbouring taps: of the lane's rows of pixels, which begin `rows` behind
 * `pixels`, and of its row of weights, which for the next tap is `tap_step` further. */
template <int COUNT, int M, int N>
static __device__ inline void multiply_taps(float products[M][N][4], const float *pixels,
                                            const int rows[M], const float *weights, int tap_step) {
    enum { EACH = M < 2 ? M : 2 };
#pragma unroll
    for (int x = 0; x < COUNT; x++) {
        halves<4> a[EACH];
        halves<2> b[N];
        uint32_t bits[4];
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            load_rows(bits, weights + x * tap_step + n * 8 * PITCH);
            b[n] = split<2>(bits);
            b[n + 1] = split<2>(bits + 2);
        }
#pragma unroll
        for (int m = 0; m < M; m += EACH) {
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                load_rows(bits, pixels + rows[m + i] + x * PITCH);
                a[i] = split<4>(bits);
            }
            multiply<EACH, N>(products + m, a, b);
        }
    }
}

/* Writes one result's two neighbouring channels from `c` on. */
static __device__ inline void store_pair(const taps &t, const plan &p, const operands &all,
                                         int node, int result, int c, float left, float right) {
    float *to = all.to.of(node) + (size_t)result * t.to_c + c;
    const int has_right = c + 1 < t.to_c;
    if (all.has_bias) {
        const float *bias = all.bias.of(node) + c;
        left += bias[0];
        right += has_right ? bias[1] : 0.0F;
    }
    if (p.is_paired) {
        *(float2 *)to = make_float2(left, right);
    } else {
        to[0] = left;
        if (has_right) {
            to[1] = right;
        }
    }
}

/* M fragments of sixteen results by N of eight channels for each warp. */
template <int KERNEL, int M, int N>
static __global__ void __launch_bounds__(WARPS * 32, 4)
    tensor_kernel(const taps t, const plan p, const operands all) {
    float *shared = dynamic_shared<float>();
    const int n_pixels = region_pixels(p.r) * PITCH;
    const int buffer = n_pixels + KERNEL * KERNEL * tap_pitch(N);
    const int node = (int)blockIdx.z, first = (int)blockIdx.y * 8 * N;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float *from = all.from.of(node), *w = all.weights.of(node);
    __shared__ corner at; /* there, for registers are scarce */
    const int column = n_pixels + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 4;
    int rows[M];
#pragma unroll
    for (int m = 0; m < M; m++) { /* beyond the last result: the first one's, for nothing */
        const int position = (warp * M + m) * 16 + lane % 16;
        const spot s = spot_of(p.r, position < region_results(p.r) ? position : 0);
        rows[m] = first_pixel(p.r, s) * PITCH + lane / 16 * 4;
    }
    if (threadIdx.x == 0) {
        at = corner_of(t, p.r, (int)blockIdx.x);
    }
    __syncthreads();
    float sums[M][N][4] = {};
    int here = 0;
    copy_chunk<KERNEL, N>(t, p, at, from, w, first, 0, shared);
    for (int channel = 0; channel < t.from_c; channel += CHUNK) {
        const int next = channel + CHUNK, there = p.n_buffers == 2 ? buffer - here : here;
        await_copies();
        __syncthreads();
        if (p.n_buffers == 2 && next < t.from_c) {
            copy_chunk<KERNEL, N>(t, p, at, from, w, first, next, shared + there);
        }
        for (int y = 0; y < at.y.n; y++) {
            const int tap = (at.y.tap + y * at.y.tap_step) * KERNEL + at.x.tap;
            const float *pixels = shared + here + y * p.r.in_w * PITCH;
            const float *weights = shared + here + column + tap * tap_pitch(N);
            const int tap_step = at.x.tap_step * tap_pitch(N);
            float products[M][N][4] = {};
            if (at.x.n == KERNEL) {
                multiply_taps<KERNEL, M, N>(products, pixels, rows, weights, tap_step);
            } else {
                for (int x = 0; x < at.x.n; x++) {
                    multiply_taps<1, M, N>(products, pixels + x * PITCH, rows,
                                           weights + x * tap_step, tap_step);
                }
            }
            add_products<M, N>(sums, products);
        }
        if (p.n_buffers == 1 && next < t.from_c) {
            __syncthreads();
            copy_chunk<KERNEL, N>(t, p, at, from, w, first, next, shared);
        }
        here = there;
    }
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        const int position = warp * M * 16 + i * 8 + lane / 4;
        const int result = result_of(t, p.r, at, spot_of(p.r, position));
#pragma unroll
        for (int n = 0; n < N; n++) {
            const int c = first + n * 8 + lane % 4 * 2;
            const float *pair = &sums[i / 2][n][i % 2 * 2];
            if (result >= 0 && c < t.to_c) {
                store_pair(t, p, all, node, result, c, pair[0], pair[1]);
            }
        }
    }
}

/* The largest region for which there is room, with one buffer where two would halve it or are of no use.
 * Returns how many results it has. */
static int make_plan(const taps &t, int positions, int weights, struct plan *p) {
    int used = 0;
    for (p->n_buffers = t.from_c > CHUNK ? 2 : 1;; p->n_buffers--) {
        const int room =
            (SHARED - (int)sizeof(corner)) / (int)sizeof(float) / p->n_buffers - weights;
        used = make_region(t, positions, room / PITCH, &p->r)
                   ? p->r.images * p->r.rows * p->r.class_w
                   : 0;
        if (used * 2 > positions || p->n_buffers == 1) {
            return used;
        }
    }
}

template <int KERNEL, int M, int N>
static int launch_tensors(const struct oct__lane *lane, const taps &t, const operands &all) {
    const int weights = KERNEL * KERNEL * tap_pitch(N), positions = WARPS * M * 16;
    struct plan p;
    const int used = t.kernel == KERNEL ? make_plan(t, positions, weights, &p) : 0;
    if (used == 0 || (M > 1 && used * 2 <= positions)) {
        return 0;
    }
    p.is_wide = t.from_c % 4 == 0 && (uintptr_t)all.from.at % 16 == 0 && all.from.stride % 16 == 0;
    p.is_paired = t.to_c % 2 == 0 && (uintptr_t)all.to.at % 8 == 0 && all.to.stride % 8 == 0;
    const dim3 grid((unsigned)region_blocks(t, p.r), (unsigned)((t.to_c + 8 * N - 1) / (8 * N)),
                    (unsigned)lane->form.n_nodes);
    const size_t floats = (size_t)p.n_buffers * (size_t)(region_pixels(p.r) * PITCH + weights);
    launch_kernel(tensor_kernel<KERNEL, M, N>, grid, WARPS * 32, floats * sizeof(float),
                  stream_of(lane), t, p, all);
    return 1;
}

/* As many results as a block can have, then half of that: where a stride makes regions large, or where
 * there are few. Returns 0 if no region fits. */
template <int KERNEL>
static int try_tensors(const struct oct__lane *lane, const taps &t, const operands &all) {
    return t.to_c <= 16 ? launch_tensors<KERNEL, 4, 2>(lane, t, all) ||
                              launch_tensors<KERNEL, 2, 2>(lane, t, all) ||
                              launch_tensors<KERNEL, 1, 2>(lane, t, all)
                        : launch_tensors<KERNEL, 2, 4>(lane, t, all) ||
                              launch_tensors<KERNEL, 1, 4>(lane, t, all);
}

/* --- gathering ---------------------------------------------------------------------------------- */

enum { ROWS = 128, DEPTH = 16, THREADS = 128, PER_THREAD = 8 };

/* What a thread brings for the next step: a position's DEPTH values, and its part of the weights. */
template <int COLUMNS> struct fetched {
    float values[DEPTH];
    float weights[DEPTH * COLUMNS / THREADS];
};

/* Channels side by side, for gathered channels that are a multiple of DEPTH: a step has one tap. */
static __device__ void fetch_values_wide(const taps &t, const float *from, const place &at, int k,
                                         float *values) {
    const int tap = k / t.from_c, channel = k - tap * t.from_c;
    const int pixel = pixel_of(t, at, tap / t.kernel, tap % t.kernel);
    const float4 *source = (const float4 *)(from + (size_t)pixel * t.from_c + channel);
#pragma unroll
    for (int i = 0; i < DEPTH / 4; i++) {
        const float4 four = pixel < 0 ? make_float4(0.0F, 0.0F, 0.0F, 0.0F) : source[i];
        values[4 * i] = four.x;
        values[4 * i + 1] = four.y;
        values[4 * i + 2] = four.z;
        values[4 * i + 3] = four.w;
    }
}

static __device__ void fetch_values(const taps &t, const float *from, const place &at, int k,
                                    float *values) {
    const int depth = taps_count(t) * t.from_c;
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        float value = 0.0F;
        if (k + i < depth) {
            const int tap = (k + i) / t.from_c, channel = (k + i) - tap * t.from_c;
            const int pixel = pixel_of(t, at, tap / t.kernel, tap % t.kernel);
            value = pixel < 0 ? 0.0F : from[(size_t)pixel * t.from_c + channel];
        }
        values[i] = value;
    }
}

template <int COLUMNS>
static __device__ void fetch_weights(const taps &t, const float *weights, int first, int k,
                                     float *out) {
    const int depth = taps_count(t) * t.from_c;
#pragma unroll
    for (int i = 0; i < DEPTH * COLUMNS / THREADS; i++) {
        const int e = (int)threadIdx.x + i * THREADS, column = first + e % COLUMNS;
        const int at = k + e / COLUMNS;
        const int tap = at / t.from_c, channel = at - tap * t.from_c;
        out[i] =
            at < depth && column < t.to_c ? weights[weight_at(t, 0, channel, column, tap)] : 0.0F;
    }
}

template <int COLUMNS, int WIDE>
static __device__ void fetch(const taps &t, const float *from, const float *weights,
                             const place &at, int first, int k, fetched<COLUMNS> &next) {
    if (WIDE) {
        fetch_values_wide(t, from, at, k, next.values);
    } else {
        fetch_values(t, from, at, k, next.values);
    }
    fetch_weights<COLUMNS>(t, weights, first, k, next.weights);
}

/* COLUMNS / EACH threads side by side, each EACH channels of PER_THREAD positions. */
template <int COLUMNS, int EACH, int WIDE>
static __global__ void __launch_bounds__(THREADS) conv_kernel(const taps t, const operands all) {
    static_assert(ROWS / PER_THREAD * (COLUMNS / EACH) == THREADS, "a thread for each piece");
    __shared__ __align__(16) float values[DEPTH][ROWS];
    __shared__ __align__(16) float weights[DEPTH][COLUMNS];
    const int node = (int)blockIdx.z, first = (int)blockIdx.y * COLUMNS;
    const float *from = all.from.of(node), *w = all.weights.of(node);
    const int position = (int)blockIdx.x * ROWS + (int)threadIdx.x;
    const place at = place_of(t, position);
    const int depth = taps_count(t) * t.from_c;
    const int row = (int)threadIdx.x / (COLUMNS / EACH) * PER_THREAD;
    const int column = (int)threadIdx.x % (COLUMNS / EACH) * EACH;
    float sums[PER_THREAD][EACH] = {};
    fetched<COLUMNS> next;
    fetch<COLUMNS, WIDE>(t, from, w, at, first, 0, next);
    for (int k = 0; k < depth; k += DEPTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            values[i][threadIdx.x] = next.values[i];
        }
#pragma unroll
        for (int i = 0; i < DEPTH * COLUMNS / THREADS; i++) {
            const int e = (int)threadIdx.x + i * THREADS;
            weights[e / COLUMNS][e % COLUMNS] = next.weights[i];
        }
        __syncthreads();
        if (k + DEPTH < depth) {
            fetch<COLUMNS, WIDE>(t, from, w, at, first, k + DEPTH, next);
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            float a[PER_THREAD], b[EACH];
#pragma unroll
            for (int r = 0; r < PER_THREAD; r++) {
                a[r] = values[i][row + r];
            }
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                b[c] = weights[i][column + c];
            }
#pragma unroll
            for (int r = 0; r < PER_THREAD; r++) {
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    sums[r][c] = fmaf(a[r], b[c], sums[r][c]);
                }
            }
        }
    }
    float *to = all.to.of(node);
    const float *bias = all.bias.of(node);
#pragma unroll
    for (int r = 0; r < PER_THREAD; r++) {
        const int m = (int)blockIdx.x * ROWS + row + r;
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            const int channel = first + column + c;
            if (m < taps_results(t) && channel < t.to_c) {
                to[(size_t)m * t.to_c + channel] =
                    sums[r][c] + (all.has_bias ? bias[channel] : 0.0F);
            }
        }
    }
}

/* --- groups ------------------------------------------------------------------------------------- */

/* Groups, depth-wise ones above all: hardly any sum to share, so a thread makes a result. */
static __global__ void __launch_bounds__(BLOCK) grouped_kernel(const taps t, const operands all) {
    const int node = (int)blockIdx.y, from_c = t.from_c / t.groups, to_c = t.to_c / t.groups;
    const float *from = all.from.of(node), *w = all.weights.of(node), *bias = all.bias.of(node);
    const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
    for (size_t e = first_element(); e < count; e += element_step()) {
        const int position = (int)(e / (size_t)t.to_c), channel = (int)(e % (size_t)t.to_c);
        const int group = channel / to_c;
        const place at = place_of(t, position);
        float sum = all.has_bias ? bias[channel] : 0.0F;
        for (int tap = 0; tap < taps_count(t); tap++) {
            const int pixel = pixel_of(t, at, tap / t.kernel, tap % t.kernel);
            for (int i = 0; pixel >= 0 && i < from_c; i++) {
                sum = fmaf(from[(size_t)pixel * t.from_c + group * from_c + i],
                           w[weight_at(t, group, i, channel - group * to_c, tap)], sum);
            }
        }
        all.to.of(node)[e] = sum;
    }
}

/* --- launches ----------------------------------------------------------------------------------- */

template <int COLUMNS, int EACH>
static void launch(const struct oct__lane *lane, const taps &t, const operands &all) {
    const dim3 grid((unsigned)((taps_results(t) + ROWS - 1) / ROWS),
                    (unsigned)((t.to_c + COLUMNS - 1) / COLUMNS), (unsigned)lane->form.n_nodes);
    const int is_wide =
        t.from_c % DEPTH == 0 && (uintptr_t)all.from.at % 16 == 0 && all.from.stride % 16 == 0;
    if (is_wide) {
        launch_kernel(conv_kernel<COLUMNS, EACH, 1>, grid, THREADS, 0, stream_of(lane), t, all);
    } else {
        launch_kernel(conv_kernel<COLUMNS, EACH, 0>, grid, THREADS, 0, stream_of(lane), t, all);
    }
}

static void run(const struct oct__lane *lane, const taps &t, const operands &all) {
    if (t.groups > 1) {
        const size_t count = (size_t)taps_results(t) * (size_t)t.to_c;
        launch_kernel(grouped_kernel, grid_over(lane, count, 1), BLOCK, 0, stream_of(lane), t, all);
    } else if (try_tensors<1>(lane, t, all) || try_tensors<3>(lane, t, all)) {
        return;
    } else if (t.to_c <= 16) {
        launch<16, 2>(lane, t, all);
    } else {
        launch<64, 8>(lane, t, all);
    }
}

extern "C" oct_status oct__cuda_conv(const struct oct__lane *lane, const struct oct__args *args) {
    const operands all = {nodes_of<const float>(&args->t[0]), nodes_of<const float>(&args->t[1]),
                          nodes_of<const float>(&args->t[2]), nodes_of<float>(&args->t[3]),
                          args->t[2].n > 0};
    run(lane, taps_of(args, &args->t[0], &args->t[3], 0), all);
    return oct__cuda_launched("conv");
}

extern "C" oct_status oct__cuda_conv_dgrad(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    const operands all = {nodes_of<const float>(&args->t[0]),
                          nodes_of<const float>(&args->t[1]),
                          {NULL, 0},
                          nodes_of<float>(&args->t[2]),
                          0};
    run(lane, taps_of(args, &args->t[0], &args->t[2], 1), all);
    return oct__cuda_launched("conv_dgrad");
}
