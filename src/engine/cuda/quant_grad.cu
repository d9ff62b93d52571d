/* SPDX-License-Identifier: Apache-2.0 */
/* quant_grad.cu - gradients of an int8 step on a GPU: sums of parts, s8 rounded by chance.
 *
 * All kernels here go through a gradient in the same way, the one that rounding by chance suggests:
 * a Philox block gives two random halves to each of four pairs that lie 32 elements apart
 * (kernels.def), so a thread takes two neighbouring blocks and with them four runs of four elements
 *
 *     element   128 tile + 32 w + 4 lane + i,      w, i = 0 … 3,  lane = 0 … 7
 *
 * Eight threads have a tile of 128 elements, and read 32 neighbours at a time. Types of parts are
 * looked at where a thread's four runs are loaded: one branch, the same for the whole launch. The
 * sums that nearly all of a network's gradients are have kernels of their own, without it.
 *
 * A scale for the tensor takes two passes in one launch (quant_turns.cuh): blocks find peaks, the
 * last of a node's tells by what to multiply, blocks write bytes. With a scale for each sample a
 * block has one to itself and does both.
 */
#include "engine/cuda/quant_turns.cuh"

/* Operands of GRAD_JOIN and GRAD_QUANTIZE; those from the scale of w on are GRAD_QUANTIZE's. */
enum { PART_A, SCALE_A, PART_B, SCALE_B, BYTES, GRID, SCALE_W, Q, SCALE_Q };
enum { SUM = 6 }; /* what GRAD_JOIN writes */

enum { TILE = 128, TILE_THREADS = 8, RUN = 4, RUNS = 4, RUN_STEP = 32 };

/* --- parts ------------------------------------------------------------------------------------ */

struct part {
    nodes<const char> at;
    nodes<const float> scale;
    enum oct__dtype dtype;
    bool is_per_sample;
};

/* What is summed, and which elements a thread or block has of it. */
struct parts {
    part a, b;
    nodes<const uint8_t> bytes;
    nodes<const struct oct__grid> grid;
    uint32_t count, sample;
    bool has_b, has_mask, is_wide; /* is_wide: every run may be read as a whole */
};

struct run_set {
    float x[RUNS][RUN];
};

/* The elements of a node that count: a run reaches over the borders only where it is not wide. */
struct span {
    uint32_t begin, end;

    __device__ bool holds(size_t e) const {
        return e >= begin && e < end;
    }
};

static __device__ inline float part_scale(const part &p, int node, uint32_t e, uint32_t sample) {
    return p.scale.of(node)[p.is_per_sample ? e / sample : 0U];
}

static __device__ float part_one(const part &p, int node, uint32_t e, uint32_t sample) {
    const char *at = p.at.of(node);
    switch (p.dtype) {
    case OCT_DTYPE_S8:
        return part_scale(p, node, e, sample) * (float)((const int8_t *)at)[e];
    case OCT_DTYPE_S32:
        return part_scale(p, node, e, sample) * (float)((const int32_t *)at)[e];
    case OCT_DTYPE_BF16:
        return widen_half(((const uint16_t *)at)[e]);
    default:
        return ((const float *)at)[e];
    }
}

/* Run w of a thread whose first element is e. Of 64 bits, so that four runs have one address. */
static __device__ inline size_t run_at(uint32_t e, int w) {
    return (size_t)e + (size_t)w * RUN_STEP;
}

/* The whole runs from element e on: all are loaded before the first is used. ONE: the tensor has
 * one scale. INSIDE: all of them count. */
template <int DTYPE, bool ONE, bool INSIDE>
static __device__ inline void load_typed(const part &p, int node, uint32_t e, uint32_t sample,
                                         span within, run_set &y) {
    const char *at = p.at.of(node);
#pragma unroll
    for (int w = 0; w < RUNS; w++) {
        const size_t run = run_at(e, w);
        if (!INSIDE && !within.holds(run)) {
            continue;
        }
        if constexpr (DTYPE == OCT_DTYPE_S8) {
            lift_bytes(load_word(at + run) ^ 0x80808080U, y.x[w]);
            const float scale =
                ONE ? *p.scale.of(node) : part_scale(p, node, (uint32_t)run, sample);
            for (int i = 0; i < RUN; i++) {
                y.x[w][i] = scale * (y.x[w][i] - (WHOLE + 128.0F));
            }
        } else if constexpr (DTYPE == OCT_DTYPE_S32) {
            const int4 sums = *(const int4 *)(at + run * sizeof(int32_t));
            const float scale =
                ONE ? *p.scale.of(node) : part_scale(p, node, (uint32_t)run, sample);
            y.x[w][0] = scale * (float)sums.x, y.x[w][1] = scale * (float)sums.y;
            y.x[w][2] = scale * (float)sums.z, y.x[w][3] = scale * (float)sums.w;
        } else if constexpr (DTYPE == OCT_DTYPE_BF16) {
            const uint2 halves = *(const uint2 *)(at + run * sizeof(uint16_t));
            y.x[w][0] = widen_half(halves.x), y.x[w][1] = widen_high(halves.x);
            y.x[w][2] = widen_half(halves.y), y.x[w][3] = widen_high(halves.y);
        } else {
            load_floats((const float *)at + run, y.x[w]);
        }
    }
}

static __device__ inline void load_runs(const part &p, int node, uint32_t e, uint32_t sample,
                                        span within, run_set &y) {
    switch (p.dtype) {
    case OCT_DTYPE_S8:
        load_typed<OCT_DTYPE_S8, false, false>(p, node, e, sample, within, y);
        break;
    case OCT_DTYPE_S32:
        load_typed<OCT_DTYPE_S32, false, false>(p, node, e, sample, within, y);
        break;
    case OCT_DTYPE_BF16:
        load_typed<OCT_DTYPE_BF16, false, false>(p, node, e, sample, within, y);
        break;
    default:
        load_typed<OCT_DTYPE_F32, false, false>(p, node, e, sample, within, y);
        break;
    }
}

static __device__ inline void mask_runs(const parts &all, int node, uint32_t e, span within,
                                        run_set &y) {
    const uint8_t *bytes = all.bytes.of(node);
    const float below = WHOLE + all.grid.of(node)->zero;
#pragma unroll
    for (int w = 0; w < RUNS; w++) {
        const size_t run = run_at(e, w);
        if (within.holds(run)) {
            float lifted[RUN];
            lift_bytes(load_word(bytes + run), lifted);
            for (int i = 0; i < RUN; i++) {
                y.x[w][i] = is_clipped(lifted[i], below) ? 0.0F : y.x[w][i];
            }
        }
    }
}

static __device__ inline float joined_one(const parts &all, int node, uint32_t e) {
    float x = part_one(all.a, node, e, all.sample);
    if (all.has_b) {
        x = x + part_one(all.b, node, e, all.sample);
    }
    if (all.has_mask) {
        const float lifted = WHOLE + (float)all.bytes.of(node)[e];
        x = is_clipped(lifted, WHOLE + all.grid.of(node)->zero) ? 0.0F : x;
    }
    return x;
}

static __device__ inline void clear_runs(run_set &y) {
#pragma unroll
    for (int j = 0; j < RUNS * RUN; j++) {
        y.x[j / RUN][j % RUN] = 0.0F;
    }
}

static __device__ inline void add_runs(run_set &y, const run_set &other) {
#pragma unroll
    for (int j = 0; j < RUNS * RUN; j++) {
        y.x[j / RUN][j % RUN] = y.x[j / RUN][j % RUN] + other.x[j / RUN][j % RUN];
    }
}

/* The sum of the parts, 0 where the value was clipped and where an element does not count. */
static __device__ inline void join_runs(const parts &all, int node, uint32_t e, span within,
                                        run_set &y) {
    clear_runs(y);
    if (!all.is_wide) { /* rare, so one copy of it: sixteen would take minutes to compile */
        float narrow[RUNS * RUN];
#pragma unroll 1
        for (int j = 0; j < RUNS * RUN; j++) {
            const uint32_t at = e + (uint32_t)(j / RUN * RUN_STEP + j % RUN);
            narrow[j] = within.holds(at) ? joined_one(all, node, at) : 0.0F;
        }
#pragma unroll
        for (int j = 0; j < RUNS * RUN; j++) {
            y.x[j / RUN][j % RUN] = narrow[j];
        }
        return;
    }
    load_runs(all.a, node, e, all.sample, within, y);
    if (all.has_b) {
        run_set other = {};
        load_runs(all.b, node, e, all.sample, within, other);
        add_runs(y, other);
    }
    if (all.has_mask) {
        mask_runs(all, node, e, within, y);
    }
}

/* What is summed, where that is known to the compiler: in whole runs, without a mask, with one
 * scale for each tensor and one or none of w. */
enum joining { ANY, HALVES, SUMS, SUMS_AND_BYTES, SUMS_AND_SUMS };

template <int HOW, bool INSIDE>
static __device__ inline void join_typed(const parts &all, int node, uint32_t e, span within,
                                         run_set &y) {
    if constexpr (HOW == ANY) {
        join_runs(all, node, e, within, y);
        return;
    }
    constexpr int first = HOW == HALVES ? OCT_DTYPE_BF16 : OCT_DTYPE_S32;
    if (!INSIDE) {
        clear_runs(y);
    }
    load_typed<first, true, INSIDE>(all.a, node, e, all.sample, within, y);
    if constexpr (HOW == SUMS_AND_BYTES || HOW == SUMS_AND_SUMS) {
        constexpr int second = HOW == SUMS_AND_BYTES ? OCT_DTYPE_S8 : OCT_DTYPE_S32;
        run_set other;
        if (!INSIDE) {
            clear_runs(other);
        }
        load_typed<second, true, INSIDE>(all.b, node, e, all.sample, within, other);
        add_runs(y, other);
    }
}

/* Both in either order: a sum of two has the same bits. */
static enum joining joining_of(parts *all, int n_scales) {
    const bool is_plain = all->is_wide && !all->has_mask && n_scales <= 1;
    if (!is_plain || all->a.is_per_sample || (all->has_b && all->b.is_per_sample)) {
        return ANY;
    }
    if (!all->has_b) {
        return all->a.dtype == OCT_DTYPE_BF16 ? HALVES : all->a.dtype == OCT_DTYPE_S32 ? SUMS : ANY;
    }
    if (all->b.dtype == OCT_DTYPE_S32) {
        const part a = all->a;
        all->a = all->b;
        all->b = a;
    }
    if (all->a.dtype != OCT_DTYPE_S32) {
        return ANY;
    }
    return all->b.dtype == OCT_DTYPE_S32  ? SUMS_AND_SUMS
           : all->b.dtype == OCT_DTYPE_S8 ? SUMS_AND_BYTES
                                          : ANY;
}

/* A thread's first element in the tile that it and seven others have, of those the block begins
 * at. */
static __device__ inline uint32_t first_run(uint32_t tile) {
    return (tile + threadIdx.x / TILE_THREADS) * TILE + threadIdx.x % TILE_THREADS * RUN;
}

static part part_of(const struct oct__tensor *t, int operand) {
    const part p = {nodes_of<const char>(&t[operand]), nodes_of<const float>(&t[operand + 1]),
                    t[operand].dtype, oct__tensor_count(&t[operand + 1]) > 1};
    return p;
}

static bool reads_runs(const struct oct__tensor *t) {
    return is_aligned(t, RUN * oct__dtype_bytes(t->dtype));
}

static parts parts_of(const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const parts all = {
        part_of(t, PART_A),
        part_of(t, PART_B),
        nodes_of<const uint8_t>(&t[BYTES]),
        nodes_of<const struct oct__grid>(&t[GRID]),
        count_of(&t[PART_A]),
        sample_of(&t[PART_A]),
        t[PART_B].n != 0,
        t[BYTES].n != 0,
        sample_of(&t[PART_A]) % RUN == 0 && reads_runs(&t[PART_A]) && reads_runs(&t[PART_B]) &&
            reads_runs(&t[BYTES]),
    };
    return all;
}

/* Blocks that go through a node's elements once, BLOCK / TILE_THREADS tiles each. */
enum { BLOCK_TILES = BLOCK / TILE_THREADS, BLOCK_ELEMENTS = BLOCK_TILES * TILE };

/* --- floats ----------------------------------------------------------------------------------- */

template <bool IS_HALF>
static __global__ void __launch_bounds__(BLOCK, 4) write_sum(parts all, nodes<char> to) {
    const int node = (int)blockIdx.y;
    const uint32_t e = first_run(blockIdx.x * BLOCK_TILES);
    const span within = {0, all.count};
    float *floats = (float *)to.of(node);
    uint16_t *halves = (uint16_t *)to.of(node);
    run_set sum;
    join_runs(all, node, e, within, sum);
#pragma unroll
    for (int w = 0; w < RUNS; w++) {
        const size_t run = run_at(e, w);
        if (all.is_wide && within.holds(run)) {
            if constexpr (IS_HALF) {
                store_halves(halves + run, sum.x[w]);
            } else {
                store_floats(floats + run, sum.x[w]);
            }
        }
        for (int i = 0; i < RUN && !all.is_wide; i++) {
            if (within.holds(run + (size_t)i)) {
                if constexpr (IS_HALF) {
                    halves[run + (size_t)i] = round_half(sum.x[w][i]);
                } else {
                    floats[run + (size_t)i] = sum.x[w][i];
                }
            }
        }
    }
}

oct_status oct__cuda_grad_join(const struct oct__lane *lane, const struct oct__args *args) {
    parts all = parts_of(args);
    const dim3 grid((unsigned)divided_up(all.count, BLOCK_ELEMENTS), (unsigned)lane->form.n_nodes);
    const nodes<char> to = nodes_of<char>(&args->t[SUM]);
    all.is_wide = all.is_wide && reads_runs(&args->t[SUM]);
    if (args->t[SUM].dtype == OCT_DTYPE_BF16) {
        launch_kernel(write_sum<true>, grid, BLOCK, 0, stream_of(lane), all, to);
    } else {
        launch_kernel(write_sum<false>, grid, BLOCK, 0, stream_of(lane), all, to);
    }
    return oct__cuda_launched("grad_join");
}

/* --- s8 --------------------------------------------------------------------------------------- */

/* The scale of the weights that the gradient will be multiplied with. */
struct weight_scale {
    nodes<const float> at;
    uint32_t c;   /* channels */
    int n_scales; /* 0: none; 1; or c */
};

/* Each times its channel's scale, where channels have their own, itself times `factor`. */
static __device__ inline void scale_channels(const weight_scale &w, int node, uint32_t e,
                                             float factor, run_set &y) {
    const float *scale = w.at.of(node);
#pragma unroll
    for (int r = 0; r < RUNS; r++) {
        uint32_t j = (uint32_t)run_at(e, r) % w.c;
        for (int i = 0; i < RUN; i++) {
            y.x[r][i] = y.x[r][i] * (scale[j] * factor);
            j = j + 1 == w.c ? 0 : j + 1;
        }
    }
}

static __device__ inline uint32_t run_peak(const run_set &y) {
    uint32_t peak = 0;
#pragma unroll
    for (int j = 0; j < RUNS * RUN; j++) {
        peak = max(peak, magnitude(y.x[j / RUN][j % RUN]));
    }
    return peak;
}

/* The scale of a gradient with this peak; one scale of w for all may be multiplied last. */
static __device__ inline float gradient_scale(const weight_scale &w, int node, uint32_t peak) {
    const float size = __uint_as_float(peak);
    return oct__symmetric_scale(w.n_scales == 1 ? size * *w.at.of(node) : size);
}

/* What a gradient of this scale is multiplied with; where channels have scales of their own, what
 * those are multiplied with. */
static __device__ inline float gradient_factor(const weight_scale &w, int node, float scale) {
    const float inverse = oct__symmetric_inverse(scale);
    return w.n_scales == 1 ? *w.at.of(node) * inverse : inverse;
}

/* How values become bytes. Multiplying by 2^16 before is the same as after, where nothing
 * overflows. */
struct steps {
    float factor, border; /* 127, or that times 2^16 if the factor is */
    bool is_near;         /* no value lies so far beyond the border that its byte would */

    __device__ bool has_lift() const {
        return border > 127.0F;
    }
};

static __device__ inline steps plain_steps(float factor) {
    const steps s = {factor, 127.0F, false};
    return s;
}

static __device__ inline steps lifted_steps(float lifted) {
    const steps s = {lifted, 127.0F * 65536.0F, true};
    return s;
}

/* Where bytes go, and what names their random bits. `turn`: 128 for excess 128, 0 for s8. */
struct byte_sink {
    nodes<uint8_t> q;
    struct chance chance;
    uint32_t turn;
};

/* The random bits of a thread's runs. */
struct draws {
    uint32_t low[RUNS], high[RUNS];
};

static __device__ inline draws draw_runs(const struct oct__stream &stream, uint32_t e) {
    const uint32_t block = e / TILE * 16U + e % RUN_STEP / 2U;
    draws k;
    oct__philox(&stream, OCT_PHILOX_FEW_ROUNDS, block, k.low);
    oct__philox(&stream, OCT_PHILOX_FEW_ROUNDS, block + 1, k.high);
    return k;
}

/* A run's four bytes. IS_NEAR: what the steps say. */
template <bool IS_NEAR>
static __device__ inline uint32_t run_bytes(const float x[RUN], const steps &s, uint32_t low,
                                            uint32_t high) {
    const uint32_t k[RUN] = {low & 0xffffU, low >> 16, high & 0xffffU, high >> 16};
    int sums[RUN]; /* a byte above 16 bits that do not count any more */
    for (int i = 0; i < RUN; i++) {
        const float t = x[i] * s.factor;
        if constexpr (IS_NEAR) {
            sums[i] = __float2int_rn(t) + (int)k[i];
        } else {
            const float inside = held(t, -s.border, s.border);
            sums[i] = __float2int_rn(s.has_lift() ? inside : inside * 65536.0F) + (int)k[i];
        }
    }
    return join_thirds(sums);
}

/* q: the node's. */
template <int HOW, bool INSIDE>
static __device__ inline void write_runs(uint8_t *q, uint32_t turn, const draws &k, uint32_t e,
                                         span within, bool is_wide, const steps &s,
                                         const run_set &y) {
#pragma unroll
    for (int r = 0; r < RUNS; r++) {
        const size_t run = run_at(e, r);
        const uint32_t bytes =
            run_bytes<INSIDE>(y.x[r], s, k.low[r], k.high[r]) ^ turn * 0x01010101U;
        if (INSIDE || ((HOW != ANY || is_wide) && within.holds(run))) {
            *(uint32_t *)(q + run) = bytes;
        }
        for (int i = 0; i < RUN && HOW == ANY && !is_wide; i++) {
            if (within.holds(run + (size_t)i)) {
                q[run + (size_t)i] = (uint8_t)(bytes >> 8 * i);
            }
        }
    }
}

/* The largest magnitude of a thread's runs, in a form in which maxima can be taken: of sums alone
 * the largest integer, of halves two of them; settle_peak() makes the bits of a float of it. */
template <int HOW, bool INSIDE>
static __device__ inline uint32_t typed_peak(const parts &all, const weight_scale &w, int node,
                                             uint32_t e, span within) {
    const char *at = all.a.at.of(node);
    uint32_t peak = 0;
    if constexpr (HOW == SUMS) {
        int4 sums[RUNS];
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            sums[r] = INSIDE || within.holds(run_at(e, r)) ? ((const int4 *)at)[run_at(e, r) / RUN]
                                                           : int4{};
        }
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            peak = max(max(peak, size_of(sums[r].x)), max(size_of(sums[r].y), size_of(sums[r].z)));
            peak = max(peak, size_of(sums[r].w));
        }
    } else if constexpr (HOW == HALVES) {
        uint2 halves[RUNS];
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            halves[r] = INSIDE || within.holds(run_at(e, r))
                            ? ((const uint2 *)at)[run_at(e, r) / RUN]
                            : uint2{};
        }
#pragma unroll
        for (int r = 0; r < RUNS; r++) {
            peak = __vmaxu2(peak, __vmaxu2(halves[r].x & 0x7fff7fffU, halves[r].y & 0x7fff7fffU));
        }
    } else {
        run_set y;
        join_typed<HOW, INSIDE>(all, node, e, within, y);
        if (HOW == ANY && w.n_scales > 1) {
            scale_channels(w, node, e, 1.0F, y);
        }
        peak = run_peak(y);
    }
    return peak;
}

template <int HOW>
static __device__ inline uint32_t settle_peak(const parts &all, int node, uint32_t peak) {
    if constexpr (HOW == SUMS) { /* of all that grow with the integer the product is the last */
        return magnitude(*all.a.scale.of(node) * (float)peak);
    } else if constexpr (HOW == HALVES) {
        return max(peak << 16, peak & 0xffff0000U);
    } else {
        return peak;
    }
}

/* Whether all runs of a block's tiles count. Kernels for ANY sum look at each. */
template <int HOW> static __device__ inline bool is_inside(const parts &all, uint32_t tile) {
    return HOW != ANY && (tile + BLOCK_TILES) * TILE <= all.count;
}

/* How a tensor with this peak is written: values near the border need not be held to it. One step
 * of 2^-17 beyond is rounded to the border, for ties go to the even one. */
static __device__ inline void tell_steps(const turn &t, const weight_scale &w, uint32_t peak,
                                         float factor) {
    const float far = fabsf(__uint_as_float(peak) * factor), lifted = factor * 65536.0F;
    const bool is_near = w.n_scales <= 1 && far <= 127.0F + 0x1p-17F && fabsf(lifted) < INFINITY;
    tell(t, __float_as_uint(is_near ? lifted : factor), is_near ? 2 : 1);
}

/* The larger of two peaks in that form. */
template <int HOW> static __device__ inline uint32_t higher(uint32_t a, uint32_t b) {
    return HOW == HALVES ? __vmaxu2(a, b) : max(a, b);
}

/* The largest magnitude of a block's tiles, and of a node's when it is the last. */
template <int HOW>
static __device__ inline void find_peak(const parts &all, const weight_scale &w, const turns &order,
                                        const turn &t, const nodes<float> &scales) {
    __shared__ uint32_t room[BLOCK / 32];
    const span within = {0, all.count};
    uint32_t peak = 0;
    const uint32_t step = order.parts * BLOCK_TILES;
    uint32_t tile = t.part * BLOCK_TILES;
#pragma unroll 1
    for (; is_inside<HOW>(all, tile + step);
         tile += 2 * step) { /* two at a time: more on the way */
        const uint32_t first = first_run(tile), second = first_run(tile + step);
        peak = higher<HOW>(peak, typed_peak<HOW, HOW != ANY>(all, w, t.node, first, within));
        peak = higher<HOW>(peak, typed_peak<HOW, HOW != ANY>(all, w, t.node, second, within));
    }
#pragma unroll 1
    for (; tile * TILE < all.count; tile += step) {
        peak = higher<HOW>(peak, typed_peak<HOW, false>(all, w, t.node, first_run(tile), within));
    }
    peak = first_warp_max(settle_peak<HOW>(all, t.node, peak), room);
    if (threadIdx.x == 0) {
        atomicMax(&t.meet->peak, peak);
        if (is_last_to_find(order, t)) {
            peak = *(volatile uint32_t *)&t.meet->peak;
            const float scale = gradient_scale(w, t.node, peak);
            *scales.of(t.node) = scale;
            tell_steps(t, w, peak, gradient_factor(w, t.node, scale));
        }
    }
}

/* Values are loaded and bits drawn before the factor is waited for. */
template <int HOW>
static __global__ void __launch_bounds__(BLOCK, HOW == ANY ? 3 : 4)
    quantize_gradient(parts all, weight_scale w, turns order, byte_sink to, nodes<float> scales) {
    __shared__ uint64_t told;
    heard h = {};
    const turn t = order.at(block_turn());
    if (t.is_find) {
        find_peak<HOW>(all, w, order, t, scales);
        return;
    }
    const struct oct__stream stream = to.chance.of(t.node);
    const span within = {0, all.count};
    uint8_t *q = to.q.of(t.node);
    steps s = plain_steps(0.0F);
    bool has_heard = false;
#pragma unroll 1
    for (uint32_t tile = t.part * BLOCK_TILES; tile * TILE < all.count;
         tile += order.parts * BLOCK_TILES) {
        const uint32_t e = first_run(tile);
        const bool inside = is_inside<HOW>(all, tile);
        run_set y;
        if (inside) {
            join_typed<HOW, HOW != ANY>(all, t.node, e, within, y);
        } else {
            join_typed<HOW, false>(all, t.node, e, within, y);
        }
        const draws k = draw_runs(stream, e);
        if (!has_heard) {
            if (threadIdx.x == 0) {
                h = hear(order, t);
                told = h.told;
            }
            __syncthreads();
            const float factor = __uint_as_float((uint32_t)told);
            s = told >> 32 == 2 ? lifted_steps(factor) : plain_steps(factor);
            has_heard = true;
        }
        if (HOW == ANY && w.n_scales > 1) {
            scale_channels(w, t.node, e, s.factor, y);
            write_runs<HOW, false>(q, to.turn, k, e, within, all.is_wide, plain_steps(1.0F), y);
        } else if (inside && s.is_near) {
            write_runs<HOW, HOW != ANY>(q, to.turn, k, e, within, all.is_wide, s, y);
        } else {
            write_runs<HOW, false>(q, to.turn, k, e, within, all.is_wide, s, y);
        }
    }
    if (threadIdx.x == 0) {
        leave(order, t, h);
    }
}

/* A block a sample: its tiles twice, the second time from the cache. */
enum { SAMPLE_BLOCK = 512, SAMPLE_TILES = SAMPLE_BLOCK / TILE_THREADS };

static __global__ void __launch_bounds__(SAMPLE_BLOCK)
    write_sample_gradient(parts all, weight_scale w, byte_sink to, nodes<float> scales) {
    __shared__ uint32_t room[32];
    const int node = (int)blockIdx.y;
    const span within = {blockIdx.x * all.sample, (blockIdx.x + 1) * all.sample};
    const uint32_t first = within.begin / TILE;
    uint32_t peak = 0;
    for (uint32_t tile = first; tile * TILE < within.end; tile += SAMPLE_TILES) {
        peak = max(peak, typed_peak<ANY, false>(all, w, node, first_run(tile), within));
    }
    const float scale = gradient_scale(w, node, block_max(peak, room));
    if (threadIdx.x == 0) {
        scales.of(node)[blockIdx.x] = scale;
    }
    const float factor = gradient_factor(w, node, scale);
    for (uint32_t tile = first; tile * TILE < within.end; tile += SAMPLE_TILES) {
        const uint32_t e = first_run(tile);
        run_set y;
        join_runs(all, node, e, within, y);
        if (w.n_scales > 1) {
            scale_channels(w, node, e, factor, y);
        }
        write_runs<ANY, false>(to.q.of(node), to.turn, draw_runs(to.chance.of(node), e), e, within,
                               all.is_wide, plain_steps(w.n_scales > 1 ? 1.0F : factor), y);
    }
}

/* Blocks of a pass over a node. */
static int blocks_of(const struct oct__lane *lane, const parts &all) {
    const size_t bytes = oct__dtype_bytes(all.a.dtype) +
                         (all.has_b ? oct__dtype_bytes(all.b.dtype) : 0) + (all.has_mask ? 1 : 0);
    const int rounds = rounds_of(lane, all.count, BLOCK_ELEMENTS, bytes);
    const int blocks = divided_up(all.count, (size_t)rounds * BLOCK_ELEMENTS);
    return blocks < 1024 ? blocks : 1024;
}

template <int HOW>
static void launch_quantizer(const struct oct__lane *lane, const parts &all, const weight_scale &w,
                             const byte_sink &to, const nodes<float> &scales) {
    in_turns(lane, blocks_of(lane, all), [&](const turns &order, unsigned n_blocks) {
        launch_kernel(quantize_gradient<HOW>, n_blocks, BLOCK, 0, stream_of(lane), all, w, order,
                      to, scales);
    });
}

oct_status oct__cuda_grad_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    parts all = parts_of(args);
    const weight_scale w = {nodes_of<const float>(&t[SCALE_W]), (uint32_t)t[PART_A].c,
                            (int)oct__tensor_count(&t[SCALE_W])};
    const byte_sink to = {nodes_of<uint8_t>(&t[Q]),
                          chance_of(lane, OCT_PURPOSE_ROUND_GRADIENT, (uint32_t)args->layer),
                          t[Q].dtype == OCT_DTYPE_E8 ? (uint32_t)OCT_EXCESS : 0U};
    const nodes<float> scales = nodes_of<float>(&t[SCALE_Q]);
    all.is_wide = all.is_wide && reads_runs(&t[Q]);
    if (oct__tensor_count(&t[SCALE_Q]) > 1) {
        launch_kernel(write_sample_gradient,
                      dim3((unsigned)t[PART_A].n, (unsigned)lane->form.n_nodes), SAMPLE_BLOCK, 0,
                      stream_of(lane), all, w, to, scales);
        return oct__cuda_launched("grad_quantize");
    }
    static void (*const launch[])(const struct oct__lane *, const parts &, const weight_scale &,
                                  const byte_sink &, const nodes<float> &) = {
        launch_quantizer<ANY>, launch_quantizer<HALVES>, launch_quantizer<SUMS>,
        launch_quantizer<SUMS_AND_BYTES>, launch_quantizer<SUMS_AND_SUMS>};
    const enum joining how = joining_of(&all, w.n_scales);
    launch[how](lane, all, w, to, scales);
    return oct__cuda_launched("grad_quantize");
}

/* --- masks ------------------------------------------------------------------------------------ */

/* Four bytes a thread and turn, or one. */
template <int WIDE>
static __global__ void __launch_bounds__(BLOCK)
    mask_bytes(nodes<const int8_t> from, nodes<const uint8_t> values,
               nodes<const struct oct__grid> grid, uint32_t count, nodes<int8_t> to) {
    const int node = (int)blockIdx.y;
    const float below = WHOLE + grid.of(node)->zero;
    const int8_t *x = from.of(node);
    const uint8_t *bytes = values.of(node);
    int8_t *y = to.of(node);
    for (size_t e = first_element() * WIDE; e < count; e += element_step() * WIDE) {
        if constexpr (WIDE == 4) {
            float lifted[4];
            uint32_t kept = 0;
            lift_bytes(load_word(bytes + e), lifted);
            for (int i = 0; i < 4; i++) {
                kept |= is_clipped(lifted[i], below) ? 0U : 0xffU << 8 * i;
            }
            *(uint32_t *)(y + e) = load_word(x + e) & kept;
        } else {
            y[e] = is_clipped(WHOLE + (float)bytes[e], below) ? (int8_t)0 : x[e];
        }
    }
}

oct_status oct__cuda_grad_mask(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const uint32_t count = count_of(&t[0]);
    const bool is_wide =
        count % 4 == 0 && is_aligned(&t[0], 4) && is_aligned(&t[1], 4) && is_aligned(&t[3], 4);
    const nodes<const int8_t> x = nodes_of<const int8_t>(&t[0]);
    const nodes<const uint8_t> bytes = nodes_of<const uint8_t>(&t[1]);
    const nodes<const struct oct__grid> grid = nodes_of<const struct oct__grid>(&t[2]);
    const nodes<int8_t> y = nodes_of<int8_t>(&t[3]);
    if (is_wide) {
        launch_kernel(mask_bytes<4>, grid_over(lane, count, 4), BLOCK, 0, stream_of(lane), x, bytes,
                      grid, count, y);
    } else {
        launch_kernel(mask_bytes<1>, grid_over(lane, count, 1), BLOCK, 0, stream_of(lane), x, bytes,
                      grid, count, y);
    }
    return oct__cuda_launched("grad_mask");
}
