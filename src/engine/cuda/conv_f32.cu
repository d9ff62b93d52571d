/* SPDX-License-Identifier: Apache-2.0 */
/* conv_f32.cu - convolutions in floats: true f32, no tensor cores, so that fp32 means what it says.
 *
 * A block makes a tile of ROWS positions by COLUMNS channels. It walks over taps and channels in
 * steps of DEPTH: gathers its positions' values and the weights into shared memory while the last
 * step's are multiplied out of it, eight positions by a few channels a thread. Sums run in ascending
 * order of (tap, channel).
 */
#include "engine/cuda/conv.cuh"

enum { ROWS = 128, DEPTH = 16, THREADS = 128, PER_THREAD = 8 };

struct operands {
    nodes<const float> from, weights, bias;
    nodes<float> to;
    int has_bias;
};

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
    } else if (t.to_c <= 16) {
        launch<16, 2>(lane, t, all);
    } else if (t.to_c <= 32) {
        launch<32, 4>(lane, t, all);
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
