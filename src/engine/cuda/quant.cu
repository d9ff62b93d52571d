/* SPDX-License-Identifier: Apache-2.0 */
/* quant.cu - values to bytes and back on a GPU: quantizers, sums of products and of values.
 *
 * A quantizer's kernels are written once, for values of any source: floats, a product's sums, two
 * tensors of bytes. Each source is read twice, for the extremes and for the bytes; what a launch
 * reads again lies in the second-level cache.
 *
 *     scratch: [node][sample][piece] extremes
 *
 * A thread reads four neighbours at a time where tensors are aligned and channels are a multiple of
 * four, else one.
 */
#include "engine/cuda/quant.cuh"

/* Units (four elements, or one) of a thread of the kernels that go through a tensor once. */
enum { UNITS = 4 };

/* --- sources ---------------------------------------------------------------------------------- */

struct float_source {
    static constexpr bool has_integers = false;
    nodes<const float> x;

    struct view {
        const float *x;

        __device__ float one(uint32_t e) const {
            return x[e];
        }
        __device__ void four(uint32_t e, float y[4]) const {
            load_floats(x + e, y);
        }
    };
    __device__ view of(int node) const {
        const view at = {x.of(node)};
        return at;
    }
};

struct byte_source {
    static constexpr bool has_integers = false;
    nodes<const uint8_t> q;
    nodes<const struct oct__grid> grid;

    struct view {
        const uint8_t *q;
        byte_grid grid;

        __device__ float one(uint32_t e) const {
            return grid.real(q[e]);
        }
        __device__ void four(uint32_t e, float y[4]) const {
            lift_bytes(load_word(q + e), y);
            for (int i = 0; i < 4; i++) {
                y[i] = grid.lifted(y[i]);
            }
        }
    };
    __device__ view of(int node) const {
        const view at = {q.of(node), grid_bytes(grid.of(node))};
        return at;
    }
};

/* a + b */
struct pair_source {
    static constexpr bool has_integers = false;
    byte_source a, b;

    struct view {
        byte_source::view a, b;

        __device__ float one(uint32_t e) const {
            return a.one(e) + b.one(e);
        }
        __device__ void four(uint32_t e, float y[4]) const {
            float other[4];
            a.four(e, y);
            b.four(e, other);
            for (int i = 0; i < 4; i++) {
                y[i] = y[i] + other[i];
            }
        }
    };
    __device__ view of(int node) const {
        const view at = {a.of(node), b.of(node)};
        return at;
    }
};

/* m * sum with one m for all channels; it grows with the sum, and so the sum's extremes will do. */
struct sum_source {
    static constexpr bool has_integers = true;
    nodes<const int32_t> sums;
    nodes<const struct oct__grid> grid;
    nodes<const float> scale;

    struct view {
        const int32_t *sums;
        float m;

        __device__ float one(uint32_t e) const {
            return m * (float)sums[e];
        }
        template <int WIDE> __device__ void add_integers(uint32_t e, extremes &ends) const {
            if constexpr (WIDE == 4) {
                const int4 s = *(const int4 *)(sums + e);
                ends.lo = min(min(ends.lo, s.x), min(min(s.y, s.z), s.w));
                ends.hi = max(max(ends.hi, s.x), max(max(s.y, s.z), s.w));
            } else {
                ends.lo = min(ends.lo, sums[e]);
                ends.hi = max(ends.hi, sums[e]);
            }
        }
        __device__ extremes of_integers(extremes ends) const {
            const extremes reals = {oct__float_order(m * (float)ends.lo),
                                    oct__float_order(m * (float)ends.hi)};
            return reals;
        }
        __device__ void four(uint32_t e, float y[4]) const {
            const int4 s = *(const int4 *)(sums + e);
            y[0] = m * (float)s.x, y[1] = m * (float)s.y;
            y[2] = m * (float)s.z, y[3] = m * (float)s.w;
        }
    };
    __device__ view of(int node) const {
        const view at = {sums.of(node), grid.of(node)->scale * *scale.of(node)};
        return at;
    }
};

/* m[c] * sum + bias[c] */
struct column_source {
    static constexpr bool has_integers = false;
    nodes<const int32_t> sums;
    nodes<const struct oct__grid> grid;
    nodes<const float> scale, bias;
    uint32_t c;
    int scale_step; /* 0: one scale for all channels */
    bool has_bias;

    struct view {
        const int32_t *sums;
        const float *scale, *bias; /* bias: NULL, none */
        float of_x;
        uint32_t c;
        int scale_step;

        __device__ float value(int32_t sum, uint32_t j) const {
            const float m = of_x * scale[j * (uint32_t)scale_step];
            return m * (float)sum + (bias ? bias[j] : 0.0F);
        }
        __device__ float one(uint32_t e) const {
            return value(sums[e], e % c);
        }
        __device__ void four(uint32_t e, float y[4]) const {
            const int4 s = *(const int4 *)(sums + e);
            const uint32_t j = e % c;
            y[0] = value(s.x, j), y[1] = value(s.y, j + 1);
            y[2] = value(s.z, j + 2), y[3] = value(s.w, j + 3);
        }
    };
    __device__ view of(int node) const {
        const view at = {
            sums.of(node), scale.of(node), has_bias ? bias.of(node) : NULL, grid.of(node)->scale, c,
            scale_step};
        return at;
    }
};

template <int WIDE, typename View>
static __device__ inline void load(const View &view, uint32_t e, float x[WIDE]) {
    if constexpr (WIDE == 4) {
        view.four(e, x);
    } else {
        x[0] = view.one(e);
    }
}

/* --- quantizers ------------------------------------------------------------------------------- */

/* How a node's batch is cut: samples into pieces of `each` elements, the last one shorter. */
struct cut {
    uint32_t count, sample, each;
    int pieces;
};

enum { PIECE = 4096, FOLDED_MOST = 1024 };

/* Pieces give a launch enough blocks; but each block of the next one folds all of a node's. */
static cut cut_of(const struct oct__tensor *x) {
    cut all = {count_of(x), sample_of(x), 0, 1};
    const int most = FOLDED_MOST / x->n > 1 ? FOLDED_MOST / x->n : 1;
    const int wanted = divided_up(all.sample, PIECE);
    all.each = (uint32_t)divided_up(all.sample, (size_t)(wanted < most ? wanted : most));
    all.each = (all.each + 3) / 4 * 4;
    all.pieces = divided_up(all.sample, all.each);
    return all;
}

template <typename Source, int WIDE>
static __global__ void __launch_bounds__(BLOCK)
    find_extremes(Source source, cut all, extremes *found) {
    __shared__ extremes room[32];
    const int node = (int)blockIdx.y;
    const uint32_t sample = blockIdx.x / (uint32_t)all.pieces;
    const uint32_t first = blockIdx.x % (uint32_t)all.pieces * all.each;
    const uint32_t base = sample * all.sample, end = base + min(first + all.each, all.sample);
    const auto view = source.of(node);
    extremes ends = no_extremes();
#pragma unroll 4
    for (uint32_t e = base + first + threadIdx.x * WIDE; e < end; e += BLOCK * WIDE) {
        if constexpr (Source::has_integers) {
            view.template add_integers<WIDE>(e, ends);
        } else {
            float x[WIDE];
            load<WIDE>(view, e, x);
            for (int i = 0; i < WIDE; i++) {
                ends.add(x[i]);
            }
        }
    }
    ends = block_extremes(ends, room);
    if constexpr (Source::has_integers) {
        ends = view.of_integers(ends);
    }
    if (threadIdx.x == 0) {
        found[(size_t)node * gridDim.x + blockIdx.x] = ends;
    }
}

/* Samples' extremes from those of their pieces: eight lanes a sample. */
static __device__ inline void fold_pieces(const extremes *found, int pieces, int first, int count,
                                          extremes *sample) {
    const int lane = (int)threadIdx.x % 8;
    for (int begin = 0; begin < count; begin += BLOCK / 8) {
        const int i = begin + (int)threadIdx.x / 8;
        extremes ends = no_extremes();
        for (int p = lane; i < count && p < pieces; p += 8) {
            ends.add(found[(size_t)(first + i) * (size_t)pieces + (size_t)p]);
        }
        for (int d = 4; d > 0; d /= 2) {
            const extremes other = {__shfl_xor_sync(ALL_LANES, ends.lo, d),
                                    __shfl_xor_sync(ALL_LANES, ends.hi, d)};
            ends.add(other);
        }
        if (lane == 0 && i < count) {
            sample[i] = ends;
        }
    }
}

/* The values are loaded before the extremes are folded: one wait for memory, not two. */
template <typename Source, int WIDE, bool CHANCE>
static __global__ void __launch_bounds__(BLOCK, CHANCE ? 3 : 4)
    write_bytes(Source source, cut all, const extremes *found, grid_rule rule, nodes<uint8_t> to,
                struct chance chance) {
    __shared__ fold_room room;
    const int node = (int)blockIdx.y;
    const uint32_t base = (blockIdx.x * (BLOCK * UNITS) + threadIdx.x) * WIDE;
    const auto view = source.of(node);
    float x[UNITS][WIDE];
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const uint32_t e = base + (uint32_t)u * (BLOCK * WIDE);
        if (e < all.count) {
            load<WIDE>(view, e, x[u]);
        }
    }
    const extremes *of_node = found + (size_t)node * (size_t)rule.n * (size_t)all.pieces;
    const struct oct__grid grid = choose_grid(
        rule, node, blockIdx.x == 0,
        [=](int first, int count, extremes *sample) {
            fold_pieces(of_node, all.pieces, first, count, sample);
        },
        [=]() {
            extremes own = no_extremes();
#pragma unroll 2
            for (int i = (int)threadIdx.x; i < rule.n * all.pieces; i += BLOCK) {
                own.add(of_node[i]);
            }
            return own;
        },
        room);
    const borders b = borders_of(grid.zero);
    const struct oct__stream stream = chance.of(node);
    uint8_t *q = to.of(node);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const uint32_t e = base + (uint32_t)u * (BLOCK * WIDE);
        if (e >= all.count) {
            break;
        }
        uint32_t k[4];
        if constexpr (CHANCE && WIDE == 4) {
            draw_four(stream, e, k);
        } else if constexpr (CHANCE) {
            k[0] = draw_one(stream, e);
        }
        int bytes[WIDE];
        for (int i = 0; i < WIDE; i++) {
            const float t = held(x[u][i] * grid.inverse, b.low, b.high);
            bytes[i] = CHANCE ? by_chance(t, k[i]) + b.zero : nearest_from(t, grid.zero);
        }
        if constexpr (WIDE == 4) {
            *(uint32_t *)(q + e) = join_bytes(bytes);
        } else {
            q[e] = (uint8_t)bytes[0];
        }
    }
}

/* Operands of a quantizer: the first is what is cut. */
struct quantizer {
    const struct oct__lane *lane;
    const struct oct__args *args;
    int running, q, grid;
    bool is_wide; /* four at a time */
};

template <typename Source, int WIDE>
static void launch_quantizer(const quantizer &z, const Source &source) {
    const struct oct__tensor *t = z.args->t;
    const struct oct__quant_attr *attr = &z.args->attr.quant;
    const cut all = cut_of(&t[0]);
    const unsigned n_nodes = (unsigned)z.lane->form.n_nodes;
    const cudaStream_t stream = stream_of(z.lane);
    const grid_rule rule = grid_rule_of(attr, t[0].n, &t[z.running], &t[z.grid]);
    const struct chance chance =
        chance_of(z.lane, OCT_PURPOSE_ROUND_VALUE, (uint32_t)z.args->layer);
    const nodes<uint8_t> q = nodes_of<uint8_t>(&t[z.q]);
    const dim3 grid((unsigned)divided_up(all.count, BLOCK * UNITS * WIDE), n_nodes);
    extremes *found = (extremes *)z.lane->shared_scratch;
    if (attr->range != OCT_RANGE_RUNNING) {
        launch_kernel(find_extremes<Source, WIDE>, dim3((unsigned)(t[0].n * all.pieces), n_nodes),
                      BLOCK, 0, stream, source, all, found);
    }
    if (attr->stochastic && attr->range != OCT_RANGE_RUNNING) {
        launch_kernel(write_bytes<Source, WIDE, true>, grid, BLOCK, 0, stream, source, all, found,
                      rule, q, chance);
    } else {
        launch_kernel(write_bytes<Source, WIDE, false>, grid, BLOCK, 0, stream, source, all, found,
                      rule, q, chance);
    }
}

template <typename Source> static void quantize(const quantizer &z, const Source &source) {
    if (z.is_wide) {
        launch_quantizer<Source, 4>(z, source);
    } else {
        launch_quantizer<Source, 1>(z, source);
    }
}

/* Whether samples are whole words, and so are channels where they count. */
static bool is_wide(const struct oct__tensor *x, bool by_channel) {
    return (by_channel ? x->c : (int)(sample_of(x) % 4)) % 4 == 0;
}

oct_status oct__cuda_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const float_source source = {nodes_of<const float>(&t[0])};
    const quantizer z = {
        lane, args, 1,
        2,    3,    is_wide(&t[0], false) && is_aligned(&t[0], 16) && is_aligned(&t[2], 4)};
    quantize(z, source);
    return oct__cuda_launched("quantize");
}

static byte_source bytes_of(const struct oct__args *args, int operand) {
    const byte_source source = {nodes_of<const uint8_t>(&args->t[operand]),
                                nodes_of<const struct oct__grid>(&args->t[operand + 1])};
    return source;
}

oct_status oct__cuda_add_u8(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const pair_source source = {bytes_of(args, 0), bytes_of(args, 2)};
    const quantizer z = {lane,
                         args,
                         4,
                         5,
                         6,
                         is_wide(&t[0], false) && is_aligned(&t[0], 4) && is_aligned(&t[2], 4) &&
                             is_aligned(&t[5], 4)};
    quantize(z, source);
    return oct__cuda_launched("add_u8");
}

static bool has_one_factor(const struct oct__args *args) {
    return oct__tensor_count(&args->t[2]) == 1 && args->t[3].n == 0;
}

static sum_source sums_of(const struct oct__args *args) {
    const sum_source source = {nodes_of<const int32_t>(&args->t[0]),
                               nodes_of<const struct oct__grid>(&args->t[1]),
                               nodes_of<const float>(&args->t[2])};
    return source;
}

static column_source columns_of(const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const column_source source = {
        nodes_of<const int32_t>(&t[0]),
        nodes_of<const struct oct__grid>(&t[1]),
        nodes_of<const float>(&t[2]),
        nodes_of<const float>(&t[3]),
        (uint32_t)t[0].c,
        oct__tensor_count(&t[2]) > 1,
        t[3].n != 0,
    };
    return source;
}

oct_status oct__cuda_sums_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const bool one = has_one_factor(args);
    const quantizer z = {
        lane, args, 4, 5, 6, is_wide(&t[0], !one) && is_aligned(&t[0], 16) && is_aligned(&t[5], 4)};
    if (one) {
        quantize(z, sums_of(args));
    } else {
        quantize(z, columns_of(args));
    }
    return oct__cuda_launched("sums_quantize");
}

/* --- floats ----------------------------------------------------------------------------------- */

template <typename Source, int WIDE>
static __global__ void __launch_bounds__(BLOCK)
    write_floats(Source source, uint32_t count, nodes<float> to) {
    const int node = (int)blockIdx.y;
    const uint32_t base = (blockIdx.x * (BLOCK * UNITS) + threadIdx.x) * WIDE;
    const auto view = source.of(node);
    float *y = to.of(node);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        const uint32_t e = base + (uint32_t)u * (BLOCK * WIDE);
        if (e < count) {
            float x[WIDE];
            load<WIDE>(view, e, x);
            if constexpr (WIDE == 4) {
                store_floats(y + e, x);
            } else {
                y[e] = x[0];
            }
        }
    }
}

/* `is_wide` says it of the source; `to` is the operand that is written. */
template <typename Source>
static void floats_from(const struct oct__lane *lane, const struct oct__args *args,
                        const Source &source, bool is_wide, int to) {
    const uint32_t count = count_of(&args->t[0]);
    const nodes<float> y = nodes_of<float>(&args->t[to]);
    const bool wide = is_wide && count % 4 == 0 && is_aligned(&args->t[to], 16);
    const dim3 grid((unsigned)divided_up(count, BLOCK * UNITS * (wide ? 4 : 1)),
                    (unsigned)lane->form.n_nodes);
    if (wide) {
        launch_kernel(write_floats<Source, 4>, grid, BLOCK, 0, stream_of(lane), source, count, y);
    } else {
        launch_kernel(write_floats<Source, 1>, grid, BLOCK, 0, stream_of(lane), source, count, y);
    }
}

oct_status oct__cuda_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    floats_from(lane, args, bytes_of(args, 0), is_aligned(&args->t[0], 4), 2);
    return oct__cuda_launched("dequantize");
}

oct_status oct__cuda_sums_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    const bool wide = is_aligned(&args->t[0], 16);
    if (has_one_factor(args)) {
        floats_from(lane, args, sums_of(args), wide, 4);
    } else {
        floats_from(lane, args, columns_of(args), wide && args->t[0].c % 4 == 0, 4);
    }
    return oct__cuda_launched("sums_dequantize");
}

oct_status oct__cuda_add_dequantize(const struct oct__lane *lane, const struct oct__args *args) {
    const pair_source source = {bytes_of(args, 0), bytes_of(args, 2)};
    floats_from(lane, args, source, is_aligned(&args->t[0], 4) && is_aligned(&args->t[2], 4), 4);
    return oct__cuda_launched("add_dequantize");
}

/* --- looking at a quantizer ------------------------------------------------------------------- */

enum { COUNT_BLOCK = 1024 };

/* A block a node: asked a few times an epoch. */
static __global__ void __launch_bounds__(COUNT_BLOCK)
    count_bytes(nodes<const uint8_t> q, uint32_t n, enum oct__dtype dtype,
                nodes<const float> scales, int n_scales, nodes<float> to) {
    __shared__ int room[32];
    const int node = (int)blockIdx.x;
    const uint8_t *bytes = q.of(node);
    const float *scale = scales.of(node);
    const bool is_value = dtype == OCT_DTYPE_U8;
    const float of_value = is_value ? ((const struct oct__grid *)scale)->zero : 0.0F;
    const int zero = is_value ? (int)of_value : dtype == OCT_DTYPE_E8 ? OCT_EXCESS : 0;
    const int high = is_value ? 255 : (uint8_t)(zero + 127);
    const int low = !is_value ? (uint8_t)(zero - 127) : of_value > 0.0F ? 0 : -1; /* -1: none */
    int clipped = 0, zeros = 0;
    for (uint32_t e = threadIdx.x; e < n; e += COUNT_BLOCK) {
        const int byte = bytes[e];
        clipped += (byte == high) + (byte == low);
        zeros += byte == zero;
    }
    clipped = block_sum(clipped, room);
    zeros = block_sum(zeros, room);
    if (threadIdx.x == 0) {
        double mean = 0.0;
        for (int i = 0; i < n_scales && !is_value; i++) {
            mean += (double)scale[i];
        }
        float *counts = to.of(node);
        counts[0] = (float)((double)clipped / (double)n);
        counts[1] = (float)((double)zeros / (double)n);
        counts[2] = is_value ? scale[0] : (float)(mean / (double)n_scales);
        counts[3] = 0.0F;
    }
}

oct_status oct__cuda_quant_count(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    launch_kernel(count_bytes, (unsigned)lane->form.n_nodes, COUNT_BLOCK, 0, stream_of(lane),
                  nodes_of<const uint8_t>(&t[0]), count_of(&t[0]), t[0].dtype,
                  nodes_of<const float>(&t[1]), (int)oct__tensor_count(&t[1]),
                  nodes_of<float>(&t[2]));
    return oct__cuda_launched("quant_count");
}

/* --- scratch ---------------------------------------------------------------------------------- */

size_t oct__cuda_quant_scratch(enum oct__op op, const struct oct__lane_form *form,
                               const struct oct__args *args) {
    const size_t n_nodes = (size_t)form->n_nodes;
    switch (op) {
    case OCT_OP_QUANTIZE:
    case OCT_OP_SUMS_QUANTIZE:
    case OCT_OP_ADD_U8:
        return n_nodes * (size_t)args->t[0].n * (size_t)cut_of(&args->t[0]).pieces *
               sizeof(extremes);
    default:
        return 0;
    }
}
