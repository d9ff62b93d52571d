/* SPDX-License-Identifier: Apache-2.0 */
/* quant.cu - values to bytes and back on a GPU: quantizers, sums of products and of values.
 *
 * A quantizer's kernels are written once, for values of any source: floats, a product's sums, two
 * tensors of bytes. Each source is read twice, for the extremes and for the bytes, by blocks of one
 * launch (quant_turns.cuh); a running range needs the second pass alone.
 *
 *     scratch: [node][sample][piece] extremes
 *
 * A thread reads 16 bytes at a time where tensors are aligned and samples long enough: four
 * neighbours, or sixteen of bytes. Else it reads four bytes, or one element.
 */
#include "engine/cuda/quant_turns.cuh"

/* Units of a thread of the kernels that go through a tensor once: four of up to four elements, or
 * one of sixteen. */
enum { UNITS = 4 };

static __host__ __device__ constexpr int units_of(int wide) {
    return wide > 4 ? 1 : (int)UNITS;
}

/* --- sources ---------------------------------------------------------------------------------- */

struct float_source {
    static constexpr bool has_integers = false;
    static constexpr bool may_be_tame = false;
    static constexpr size_t bytes = 4;
    nodes<const float> x;

    struct view {
        const float *x;

        __device__ float one(size_t e) const {
            return x[e];
        }
        __device__ void four(size_t e, float y[4]) const {
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
    static constexpr bool may_be_tame = false;
    static constexpr size_t bytes = 1;
    nodes<const uint8_t> q;
    nodes<const struct oct__grid> grid;

    struct view {
        const uint8_t *q;
        byte_grid grid;

        __device__ float one(size_t e) const {
            return grid.real(q[e]);
        }
        __device__ void four(size_t e, float y[4]) const {
            of_word(load_word(q + e), y);
        }
        __device__ void of_word(uint32_t word, float y[4]) const {
            lift_bytes(word, y);
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
    static constexpr bool may_be_tame = true;
    static constexpr size_t bytes = 2;
    byte_source a, b;

    struct view {
        byte_source::view a, b;

        __device__ float one(size_t e) const {
            return a.one(e) + b.one(e);
        }
        __device__ void four(size_t e, float y[4]) const {
            float other[4];
            a.four(e, y);
            b.four(e, other);
            for (int i = 0; i < 4; i++) {
                y[i] = y[i] + other[i];
            }
        }
        __device__ void sixteen(size_t e, float y[16]) const {
            const uint4 x = *(const uint4 *)(a.q + e), z = *(const uint4 *)(b.q + e);
            const uint32_t of_a[4] = {x.x, x.y, x.z, x.w}, of_b[4] = {z.x, z.y, z.z, z.w};
#pragma unroll
            for (int w = 0; w < 4; w++) {
                float other[4];
                a.of_word(of_a[w], y + 4 * w);
                b.of_word(of_b[w], other);
                for (int i = 0; i < 4; i++) {
                    y[4 * w + i] = y[4 * w + i] + other[i];
                }
            }
        }
        /* Whether no value can be a NaN: 255 times these is far from infinity. */
        __device__ bool is_tame() const {
            return fabsf(a.grid.scale) < 1e30F && fabsf(b.grid.scale) < 1e30F;
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
    static constexpr bool may_be_tame = false;
    static constexpr size_t bytes = 4;
    nodes<const int32_t> sums;
    nodes<const struct oct__grid> grid;
    nodes<const float> scale;

    struct view {
        const int32_t *sums;
        float m;

        __device__ float one(size_t e) const {
            return m * (float)sums[e];
        }
        template <int WIDE> __device__ void load_integers(size_t e, int s[WIDE]) const {
            if constexpr (WIDE == 4) {
                const int4 four = *(const int4 *)(sums + e);
                s[0] = four.x, s[1] = four.y, s[2] = four.z, s[3] = four.w;
            } else {
                s[0] = sums[e];
            }
        }
        __device__ extremes of_integers(extremes ends) const {
            const extremes reals = {oct__float_order(m * (float)ends.lo),
                                    oct__float_order(m * (float)ends.hi)};
            return reals;
        }
        __device__ void four(size_t e, float y[4]) const {
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
    static constexpr bool may_be_tame = false;
    static constexpr size_t bytes = 4;
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
        __device__ float one(size_t e) const {
            return value(sums[e], (uint32_t)e % c);
        }
        __device__ void four(size_t e, float y[4]) const {
            const int4 s = *(const int4 *)(sums + e);
            const uint32_t j = (uint32_t)e % c;
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
static __device__ inline void load(const View &view, size_t e, float x[WIDE]) {
    if constexpr (WIDE == 16) {
        view.sixteen(e, x);
    } else if constexpr (WIDE == 4) {
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
    divider by_pieces;
};

/* The elements of a piece. */
struct piece {
    uint32_t begin, end;
};

enum { PIECE = 4096, FOLDED_MOST = 1024 };

/* Pieces of so many rounds at most give a launch enough blocks; but one folds all of a node's. */
static cut cut_of(const struct oct__tensor *x, int rounds) {
    cut all = {count_of(x), sample_of(x), 0, 1, {}};
    const int most = FOLDED_MOST / x->n > 1 ? FOLDED_MOST / x->n : 1;
    const int wanted = divided_up(all.sample, (size_t)rounds * PIECE);
    all.each = (uint32_t)divided_up(all.sample, (size_t)(wanted < most ? wanted : most));
    all.each = (all.each + 15) / 16 * 16;
    all.pieces = divided_up(all.sample, all.each);
    all.by_pieces = divider_of(all.pieces);
    return all;
}

static __device__ inline piece piece_of(const cut &all, uint32_t number) {
    const uint32_t sample = all.by_pieces.quotient(number);
    const uint32_t first = all.by_pieces.rest(number) * all.each, base = sample * all.sample;
    const piece p = {base + first, base + min(first + all.each, all.sample)};
    return p;
}

/* Extremes of values, and in floats where none of those can be a NaN. */
struct ends_of_values {
    extremes ends;
    float lo, hi;
    bool is_tame;
};

/* A thread's COUNT units from element `base` on, which is before the end; INSIDE: and so are all.
 * They are loaded before the first is looked at; what is beyond the end is the first once more. */
template <typename Source, int WIDE, int COUNT, bool INSIDE, typename View>
static __device__ inline void add_units(const View &view, uint32_t base, uint32_t end,
                                        ends_of_values &all) {
    size_t at[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        at[u] = (size_t)base + (size_t)u * (BLOCK * WIDE);
        at[u] = INSIDE || at[u] < end ? at[u] : base;
    }
    if constexpr (Source::has_integers) {
        int s[COUNT][WIDE];
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            view.template load_integers<WIDE>(at[u], s[u]);
        }
#pragma unroll
        for (int i = 0; i < COUNT * WIDE; i++) {
            all.ends.lo = min(all.ends.lo, s[i / WIDE][i % WIDE]);
            all.ends.hi = max(all.ends.hi, s[i / WIDE][i % WIDE]);
        }
    } else {
        float x[COUNT][WIDE];
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            load<WIDE>(view, at[u], x[u]);
        }
#pragma unroll
        for (int i = 0; i < COUNT * WIDE; i++) {
            if (all.is_tame) {
                all.lo = fminf(all.lo, x[i / WIDE][i % WIDE]);
                all.hi = fmaxf(all.hi, x[i / WIDE][i % WIDE]);
            } else {
                all.ends.add(x[i / WIDE][i % WIDE]);
            }
        }
    }
}

/* A thread's part of a piece's extremes: two rounds at a time, so that more is on the way. */
template <typename Source, int WIDE, typename View>
static __device__ inline extremes extremes_of(const View &view, piece p) {
    constexpr int units = units_of(WIDE), round = BLOCK * WIDE * units;
    ends_of_values all = {no_extremes(), INFINITY, -INFINITY, false};
    if constexpr (Source::may_be_tame) {
        all.is_tame = view.is_tame();
    }
    uint32_t first = p.begin;
#pragma unroll 1
    for (; first + 2 * round <= p.end; first += 2 * round) {
        add_units<Source, WIDE, 2 * units, true>(view, first + threadIdx.x * WIDE, p.end, all);
    }
#pragma unroll 1
    for (uint32_t base = first + threadIdx.x * WIDE; base < p.end; base += round) {
        add_units<Source, WIDE, units, false>(view, base, p.end, all);
    }
    if (all.is_tame) {
        all.ends.lo = oct__float_order(all.lo);
        all.ends.hi = oct__float_order(all.hi);
    }
    return all.ends;
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

/* What a quantizer that knows its grid needs of it. */
struct steps {
    float inverse;
    borders b;
    float zero;
};

static __device__ inline steps steps_of(float inverse, float zero) {
    const steps all = {inverse, borders_of(zero), zero};
    return all;
}

/* A thread's values from element e on to bytes. */
template <int WIDE, bool CHANCE>
static __device__ inline void write_values(const float x[WIDE], const steps &grid,
                                           const struct oct__stream &stream, size_t at,
                                           uint8_t *q) {
    const uint32_t e = (uint32_t)at;
    uint32_t k[WIDE], words[(WIDE + 3) / 4];
    int bytes[WIDE];
    if constexpr (CHANCE && WIDE == 1) {
        k[0] = draw_one(stream, e);
    } else if constexpr (CHANCE) {
#pragma unroll
        for (int i = 0; i < WIDE; i += 4) {
            draw_four(stream, e + (uint32_t)i, k + i);
        }
    }
#pragma unroll
    for (int i = 0; i < WIDE; i++) {
        const float t = held(x[i] * grid.inverse, grid.b.low, grid.b.high);
        bytes[i] = CHANCE ? by_chance(t, k[i]) + grid.b.zero : nearest_from(t, grid.zero);
    }
    if constexpr (WIDE == 1) {
        q[at] = (uint8_t)bytes[0];
    } else {
#pragma unroll
        for (int i = 0; i < WIDE; i += 4) {
            words[i / 4] = join_bytes(bytes + i);
        }
        if constexpr (WIDE == 16) {
            *(uint4 *)(q + at) = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
            *(uint32_t *)(q + at) = words[0];
        }
    }
}

/* Over the running range. */
template <typename Source, int WIDE>
static __global__ void __launch_bounds__(BLOCK)
    write_by_running(Source source, uint32_t count, grid_rule rule, nodes<uint8_t> to) {
    constexpr int units = units_of(WIDE);
    const int node = (int)blockIdx.y;
    const uint32_t base = (blockIdx.x * (BLOCK * units) + threadIdx.x) * WIDE;
    const auto view = source.of(node);
    float range[2] = {rule.running.of(node)[0], rule.running.of(node)[1]};
    oct__range_widen(range);
    const struct oct__grid grid = oct__grid_over(range);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *rule.grid.of(node) = grid;
    }
    const steps all = steps_of(grid.inverse, grid.zero);
    const struct oct__stream none = {};
#pragma unroll
    for (int u = 0; u < units; u++) {
        const uint32_t e = base + (uint32_t)u * (BLOCK * WIDE);
        if (e < count) {
            float x[WIDE];
            load<WIDE>(view, e, x);
            write_values<WIDE, false>(x, all, none, e, to.of(node));
        }
    }
}

/* The extremes of a block's piece, and the grid of a node when it is the last. */
template <typename Source, int WIDE>
static __device__ inline void find_grid(const Source &source, const cut &all, const turns &order,
                                        const turn &t, extremes *found, const grid_rule &rule) {
    __shared__ fold_room room;
    __shared__ bool is_last;
    const auto view = source.of(t.node);
    extremes *of_node = found + (size_t)(t.node - order.first_node) * order.parts;
    extremes ends = extremes_of<Source, WIDE>(view, piece_of(all, t.part));
    ends = first_warp_extremes(ends, room.sample);
    if (threadIdx.x == 0) {
        if constexpr (Source::has_integers) {
            ends = view.of_integers(ends);
        }
        of_node[t.part] = ends;
        is_last = is_last_to_find(order, t);
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
    __threadfence();
    const struct oct__grid grid = choose_grid(
        rule, t.node, true,
        [=](int first, int count, extremes *sample) {
            fold_pieces(of_node, all.pieces, first, count, sample);
        },
        [=]() {
            extremes own = no_extremes();
#pragma unroll 2
            for (uint32_t i = threadIdx.x; i < order.parts; i += BLOCK) {
                own.add(of_node[i]);
            }
            return own;
        },
        room);
    if (threadIdx.x == 0) {
        tell(t, __float_as_uint(grid.inverse), 1U + (uint32_t)grid.zero);
    }
}

/* The values of a block's piece to bytes; the first are loaded before the grid is waited for. */
template <typename Source, int WIDE, bool CHANCE>
static __device__ inline void write_piece(const Source &source, const cut &all, const turns &order,
                                          const turn &t, uint8_t *q,
                                          const struct oct__stream &stream) {
    constexpr int units = units_of(WIDE);
    __shared__ uint64_t told;
    const auto view = source.of(t.node);
    const piece p = piece_of(all, t.part);
    heard h = {};
    steps grid = {};
    bool has_heard = false;
#pragma unroll 1
    for (uint32_t first = p.begin; first < p.end; first += BLOCK * WIDE * units) {
        const uint32_t base = first + threadIdx.x * WIDE;
        const bool is_inside = first + BLOCK * WIDE * units <= p.end;
        float x[units][WIDE];
        if (is_inside) {
#pragma unroll
            for (int u = 0; u < units; u++) {
                load<WIDE>(view, (size_t)base + (size_t)u * (BLOCK * WIDE), x[u]);
            }
        } else {
#pragma unroll
            for (int u = 0; u < units; u++) {
                const uint32_t e = base + (uint32_t)u * (BLOCK * WIDE);
                load<WIDE>(view, e < p.end ? e : p.begin, x[u]);
            }
        }
        if (!has_heard) {
            if (threadIdx.x == 0) {
                h = hear(order, t);
                told = h.told;
            }
            __syncthreads();
            grid = steps_of(__uint_as_float((uint32_t)told), (float)((uint32_t)(told >> 32) - 1U));
            has_heard = true;
        }
#pragma unroll
        for (int u = 0; u < units; u++) {
            const size_t e = (size_t)base + (size_t)u * (BLOCK * WIDE);
            if (is_inside || e < p.end) {
                write_values<WIDE, CHANCE>(x[u], grid, stream, e, q);
            }
        }
    }
    if (threadIdx.x == 0) {
        leave(order, t, h);
    }
}

template <typename Source, int WIDE, bool CHANCE>
static __global__ void __launch_bounds__(BLOCK, 4)
    quantize_values(Source source, cut all, turns order, extremes *found, grid_rule rule,
                    nodes<uint8_t> to, struct chance chance) {
    const turn t = order.at(block_turn());
    if (t.is_find) {
        find_grid<Source, WIDE>(source, all, order, t, found, rule);
    } else {
        write_piece<Source, WIDE, CHANCE>(source, all, order, t, to.of(t.node), chance.of(t.node));
    }
}

/* Operands of a quantizer: the first is what is cut. */
struct quantizer {
    const struct oct__lane *lane;
    const struct oct__args *args;
    int running, q, grid;
};

template <typename Source, int WIDE>
static void quantize(const quantizer &z, const Source &source) {
    const struct oct__tensor *t = z.args->t;
    const struct oct__quant_attr *attr = &z.args->attr.quant;
    const cut all =
        cut_of(&t[0], rounds_of(z.lane, oct__tensor_count(&t[0]), PIECE, Source::bytes));
    const cudaStream_t stream = stream_of(z.lane);
    const grid_rule rule = grid_rule_of(attr, t[0].n, &t[z.running], &t[z.grid]);
    const struct chance chance =
        chance_of(z.lane, OCT_PURPOSE_ROUND_VALUE, (uint32_t)z.args->layer);
    const nodes<uint8_t> q = nodes_of<uint8_t>(&t[z.q]);
    extremes *found = (extremes *)z.lane->shared_scratch;
    if (attr->range == OCT_RANGE_RUNNING) {
        const dim3 grid((unsigned)divided_up(all.count, BLOCK * units_of(WIDE) * WIDE),
                        (unsigned)z.lane->form.n_nodes);
        launch_kernel(write_by_running<Source, WIDE>, grid, BLOCK, 0, stream, source, all.count,
                      rule, q);
        return;
    }
    in_turns(z.lane, t[0].n * all.pieces, [&](const turns &order, unsigned n_blocks) {
        launch_kernel(attr->stochastic ? quantize_values<Source, WIDE, true>
                                       : quantize_values<Source, WIDE, false>,
                      n_blocks, BLOCK, 0, stream, source, all, order, found, rule, q, chance);
    });
}

/* Whether samples are whole words, and so are channels where they count. */
static bool is_wide(const struct oct__tensor *x, bool by_channel) {
    return (by_channel ? x->c : (int)(sample_of(x) % 4)) % 4 == 0;
}

oct_status oct__cuda_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const float_source source = {nodes_of<const float>(&t[0])};
    const quantizer z = {lane, args, 1, 2, 3};
    if (is_wide(&t[0], false) && is_aligned(&t[0], 16) && is_aligned(&t[2], 4)) {
        quantize<float_source, 4>(z, source);
    } else {
        quantize<float_source, 1>(z, source);
    }
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
    const quantizer z = {lane, args, 4, 5, 6};
    const size_t tensors[] = {0, 2, 5};
    size_t wide = sample_of(&t[0]) % 16 == 0 ? 16 : sample_of(&t[0]) % 4 == 0 ? 4 : 1;
    for (size_t i : tensors) {
        wide = is_aligned(&t[i], wide) ? wide : is_aligned(&t[i], 4) && wide > 1 ? 4 : 1;
    }
    if (wide == 16) {
        quantize<pair_source, 16>(z, source);
    } else if (wide == 4) {
        quantize<pair_source, 4>(z, source);
    } else {
        quantize<pair_source, 1>(z, source);
    }
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
    const bool wide = is_wide(&t[0], !one) && is_aligned(&t[0], 16) && is_aligned(&t[5], 4);
    const quantizer z = {lane, args, 4, 5, 6};
    if (one && wide) {
        quantize<sum_source, 4>(z, sums_of(args));
    } else if (one) {
        quantize<sum_source, 1>(z, sums_of(args));
    } else if (wide) {
        quantize<column_source, 4>(z, columns_of(args));
    } else {
        quantize<column_source, 1>(z, columns_of(args));
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
        return n_nodes * (size_t)args->t[0].n * (size_t)cut_of(&args->t[0], 1).pieces *
               sizeof(extremes);
    default:
        return 0;
    }
}
