/* SPDX-License-Identifier: Apache-2.0 */
/* conv_f32.cu - convolutions in floats, on tensor cores with three products for one (tf32.cuh): each
 * product is within 2^-21 of the true one, relative to it, and sums are of floats.
 *
 * A block makes the results of some rows of an image, or of a few small images, in 16 or 32 channels. It
 * copies what they read, sixteen channels of each pixel, and the weights between them to shared memory,
 * and multiplies: a tap's factors are the same pixels, shifted, so that nothing is gathered twice. A
 * pixel takes 20 floats there, and eight of them in a row, as an instruction loads them, lie in
 * different banks. Backwards it is the same with taps in reverse; with a stride, too (regions' classes).
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

enum { CHUNK = 16, PITCH = 20, WARPS = 4, SHARED = 48 << 10 };

/* Floats of one tap's weights: [result's channel][channel]. The rest spreads taps over banks. */
static __host__ __device__ constexpr int tap_pitch(int n) {
    return n * 8 * PITCH + 4;
}

/* How one launch does it. */
struct plan {
    region r;
    int is_wide, is_paired; /* four channels may be read, two be written at once */
};

/* Weights between channels `channel` … + CHUNK - 1 and results' channels `first` … + 8 N - 1, in the
 * order in which they lie there: [o][c][tap]. */
template <int KERNEL, int N>
static __device__ inline void copy_weights(const taps &t, const float *weights, int first,
                                           int channel, float *to) {
    enum { TAPS = KERNEL * KERNEL, COUNT = 8 * N * CHUNK * TAPS };
    for (int e = (int)threadIdx.x; e < COUNT; e += WARPS * 32) {
        const int tap = e % TAPS, rest = e / TAPS;
        const int column = t.is_back ? rest % (8 * N) : rest / CHUNK;
        const int c = t.is_back ? rest / (8 * N) : rest % CHUNK;
        const int is_there = first + column < t.to_c && channel + c < t.from_c;
        const size_t at = is_there ? weight_at(t, 0, channel + c, first + column, tap) : 0;
        copy_one(to + tap * tap_pitch(N) + column * PITCH + c, weights + at, is_there);
    }
}

/* M fragments of sixteen results by N of eight channels for each warp. */
template <int KERNEL, int M, int N>
static __global__ void __launch_bounds__(WARPS * 32, 4)
    tensor_kernel(const taps t, const plan p, const operands all) {
    float *pixels = dynamic_shared<float>();
    float *weights = pixels + region_pixels(p.r) * PITCH;
    const int node = (int)blockIdx.z, first = (int)blockIdx.y * 8 * N;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float *from = all.from.of(node), *w = all.weights.of(node);
    const corner at = corner_of(t, p.r, (int)blockIdx.x);
    const float *row[M], *column = weights + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 4;
#pragma unroll
    for (int m = 0; m < M; m++) { /* beyond the last result: the first one's, for nothing */
        const int position = (warp * M + m) * 16 + lane % 16;
        const spot s = spot_of(p.r, position < region_results(p.r) ? position : 0);
        row[m] = pixels + first_pixel(p.r, s) * PITCH + lane / 16 * 4;
    }
    float sums[M][N][4] = {};
    for (int channel = 0; channel < t.from_c; channel += CHUNK) {
        const int is_half = t.from_c - channel <= 8;
        __syncthreads();
        if (p.is_wide) {
            copy_region<4, PITCH>(t, p.r, at, from, channel, is_half ? 1 : 2, pixels);
        } else {
            copy_region<1, PITCH>(t, p.r, at, from, channel, is_half ? 3 : 4, pixels);
        }
        copy_weights<KERNEL, N>(t, w, first, channel, weights);
        await_copies();
        __syncthreads();
        for (int y = 0; y < at.y.n; y++) {
            for (int x = 0; x < at.x.n; x++) {
                const int tap =
                    (at.y.tap + y * at.y.tap_step) * KERNEL + at.x.tap + x * at.x.tap_step;
                const int shift = (y * p.r.in_w + x) * PITCH;
                float products[M][N][4] = {};
#pragma unroll
                for (int k = 0; k < CHUNK; k += 8) {
                    halves<4> a[M];
                    halves<2> b[N];
                    uint32_t bits[4];
                    if (k > 0 && is_half) {
                        break;
                    }
#pragma unroll
                    for (int n = 0; n < N / 2; n++) {
                        load_rows(bits, column + tap * tap_pitch(N) + n * 16 * PITCH + k);
                        b[2 * n] = split<2>(bits);
                        b[2 * n + 1] = split<2>(bits + 2);
                    }
#pragma unroll
                    for (int m = 0; m < M; m++) {
                        load_rows(bits, row[m] + shift + k);
                        a[m] = split<4>(bits);
                    }
                    multiply<M, N>(products, a, b);
                }
                add_products<M, N>(sums, products);
            }
        }
    }
    float *to = all.to.of(node);
    const float *bias = all.bias.of(node);
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int position = (warp * M + m) * 16 + half * 8 + lane / 4;
            const int result = result_of(t, p.r, at, spot_of(p.r, position));
#pragma unroll
            for (int n = 0; n < N; n++) {
                const int c = first + n * 8 + lane % 4 * 2;
                if (result < 0 || c >= t.to_c) {
                    continue;
                }
                float *pair = to + (size_t)result * t.to_c + c;
                const float left = sums[m][n][half * 2] + (all.has_bias ? bias[c] : 0.0F);
                if (p.is_paired) {
                    const float right =
                        sums[m][n][half * 2 + 1] + (all.has_bias ? bias[c + 1] : 0.0F);
                    *(float2 *)pair = make_float2(left, right);
                } else {
                    pair[0] = left;
                    if (c + 1 < t.to_c) {
                        pair[1] = sums[m][n][half * 2 + 1] + (all.has_bias ? bias[c + 1] : 0.0F);
                    }
                }
            }
        }
    }
}

template <int KERNEL, int M, int N>
static int launch_tensors(const struct oct__lane *lane, const taps &t, const operands &all) {
    const int weights = KERNEL * KERNEL * tap_pitch(N) * (int)sizeof(float);
    const int most = (SHARED - weights) / (PITCH * (int)sizeof(float));
    struct plan p;
    if (t.kernel != KERNEL || !make_region(t, WARPS * M * 16, most, &p.r)) {
        return 0;
    }
    if (M > 1 && p.r.images * p.r.rows * p.r.class_w * 2 <= WARPS * M * 16) {
        return 0;
    }
    p.is_wide = t.from_c % 4 == 0 && (uintptr_t)all.from.at % 16 == 0 && all.from.stride % 16 == 0;
    p.is_paired = t.to_c % 2 == 0 && (uintptr_t)all.to.at % 8 == 0 && all.to.stride % 8 == 0;
    const dim3 grid((unsigned)region_blocks(t, p.r), (unsigned)((t.to_c + 8 * N - 1) / (8 * N)),
                    (unsigned)lane->form.n_nodes);
    const size_t shared = (size_t)weights + (size_t)region_pixels(p.r) * PITCH * sizeof(float);
    launch_kernel(tensor_kernel<KERNEL, M, N>, grid, WARPS * 32, shared, stream_of(lane), t, p,
                  all);
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
