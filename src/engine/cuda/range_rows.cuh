/* SPDX-License-Identifier: Apache-2.0 */
/* range_rows.cuh - Range EvoNorm's passes over samples for the shapes that networks usually have: a
 * row of channels is a power of two up to 128, and a chunk lies in one channel.
 *
 * Then a warp can have whole rows, `rows` of them that belong to the same chunk of each channel,
 * and nobody has to find out where a chunk ends:
 *
 *     c = 16, 32 x 32: a chunk is 128 rows of a channel, a warp has 64 rows, a block of 16 warps
 *     the sample       lane 0 1 2 3 | 4 5 6 7 | …   four channels each, eight rows at a time
 *
 * What warps find meets in shared memory, [warp][channel], in an order that the shape alone gives.
 * Shapes that are not like this go through range_evonorm.cuh.
 *
 * Loops over a block's columns and chunks have a turn or two: unrolled, they would count them
 * first.
 *
 * Bytes are compared two at a time, as halves of a register: a byte above nothing, or above the
 * number of its row. The extremes of e = x * h(v * x) need no e for every byte. With rising x it
 * falls to one valley and rises from there (with v < 0: rises to one peak), at v * x = -3/2; so its
 * extremes are at the ends of the values that occur, or at the two next to that place, which are
 * the ends of the bytes counted around from there. Between bytes e changes by more than its
 * rounding, so this gives the very extremes.
 */
#ifndef OCT_ENGINE_CUDA_RANGE_ROWS_CUH
#define OCT_ENGINE_CUDA_RANGE_ROWS_CUH

#include "engine/cuda/range_evonorm_grad.cuh"

enum { ROW_WARPS = 16, ROW_BLOCK = ROW_WARPS * 32, ROW_TABLE = 1024, ROW_CHANNELS = 128 };
/* Words of a lane, where there are warps enough, and with spreads of so many samples that twice as
 * many fill a GPU; a row's number in its warp is a byte. */
enum { LANE_WORDS = 8, MANY_WORDS = 16, MANY_SAMPLES = 512, WARP_ROWS = 256 };

/* Words that a lane loads at once, and elements from one to the next. */
enum { TURN = 4, TURN_STEP = 128 };

struct row_form {
    int n_warps, rows;          /* warps of a block, and of their rows each */
    int per_chunk, per_channel; /* warps of a chunk, chunks of a channel */
    int word_bits;              /* a row has 1 << word_bits words of four channels */
    divider by_channel;         /* by per_channel */
};

/* Each lane shall have up to `words` words. False: the shape is not like this. */
static inline bool row_form_of(const norm_form &form, int words, row_form *out) {
    bool is_found = false;
    int bits = 0;
    while (4 << bits < form.c) {
        bits++;
    }
    if (4 << bits != form.c || form.c > ROW_CHANNELS || form.hw % form.length != 0) {
        return false;
    }
    for (int k = 1; k <= form.length; k++) {
        const int rows = form.length / k, n_warps = form.hw / rows;
        if (form.length % k != 0) {
            continue;
        }
        if (n_warps > ROW_WARPS || n_warps * form.c > ROW_TABLE) {
            break;
        }
        if (rows <= WARP_ROWS) {
            const int per_channel = form.hw / form.length;
            const row_form found = {n_warps, rows, k, per_channel, bits, divider_of(per_channel)};
            *out = found;
            is_found = true;
        }
        if (rows <= words << (5 - bits)) {
            break;
        }
    }
    return is_found;
}

/* Whether every lane of a warp has the same number of whole turns. */
static inline bool has_even_turns(const row_form &rows) {
    return rows.rows % (TURN << (5 - rows.word_bits)) == 0;
}

static inline dim3 row_grid(const struct oct__lane *lane, const norm_form &form) {
    return dim3((unsigned)form.n, (unsigned)lane->form.n_nodes);
}

/* A lane's place: its channels, its first row in the warp, and that row's place in the sample. */
struct row_place {
    int lane, warp, channel, row, step_bits;
    uint32_t at;

    /* Words that it still has of its warp's rows when those of `turn` turns are done. */
    __device__ int left(const row_form &rows, int turn) const {
        const int left = rows.rows - row - (turn * TURN << step_bits);
        return left > 0 ? ((left - 1) >> step_bits) + 1 : 0;
    }
};

static __device__ inline row_place row_place_of(const norm_form &form, const row_form &rows) {
    row_place p;
    p.lane = (int)threadIdx.x % 32;
    p.warp = (int)threadIdx.x / 32;
    p.channel = (p.lane & ((1 << rows.word_bits) - 1)) * 4;
    p.row = p.lane >> rows.word_bits;
    p.step_bits = 5 - rows.word_bits;
    p.at = (uint32_t)(p.warp * rows.rows + p.row) * (uint32_t)form.c + (uint32_t)p.channel;
    return p;
}

/* A lane's words of a turn, those that it has. */
template <bool ALIGNED, typename View, typename Raw>
static __device__ inline void load_turn(const View &x, uint32_t at, int left, Raw raw[TURN]) {
    const View here = ALIGNED ? x.from(at) : x;
#pragma unroll
    for (int u = 0; u < TURN; u++) {
        if (u < left) {
            if constexpr (ALIGNED) {
                raw[u] = here.template load_whole<4>((uint32_t)u * TURN_STEP);
            } else {
                raw[u] = here.template load<4>(at + (uint32_t)u * TURN_STEP);
            }
        }
    }
}

/* Extremes of halves: of channels 0 and 2 of a word, and of 1 and 3. */
struct half_ends {
    uint32_t low[2], high[2];

    __device__ void begin() {
        low[0] = low[1] = UINT32_MAX;
        high[0] = high[1] = 0;
    }
    /* Over the lanes of a warp that have the same channels. */
    __device__ void meet(int words) {
        for (int d = words; d < 32; d *= 2) {
            for (int i = 0; i < 2; i++) {
                low[i] = __vminu2(low[i], __shfl_xor_sync(ALL_LANES, low[i], d));
                high[i] = __vmaxu2(high[i], __shfl_xor_sync(ALL_LANES, high[i], d));
            }
        }
    }
    __device__ uint32_t low_of(int i) const {
        return low[i % 2] >> i / 2 * 16 & 0xffffU;
    }
    __device__ uint32_t high_of(int i) const {
        return high[i % 2] >> i / 2 * 16 & 0xffffU;
    }
};

/* --- the spread of chunks of bytes ----------------------------------------------------------- */

/* What a warp found in a channel, four bytes: the ends of the bytes and of the bytes counted
 * around. */
struct byte_range {
    uint32_t low, high, low_turned, high_turned;

    __device__ void add(uint32_t packed) {
        low = min(low, packed & 255U);
        high = max(high, packed >> 8 & 255U);
        low_turned = min(low_turned, packed >> 16 & 255U);
        high_turned = max(high_turned, packed >> 24);
    }
};

/* The byte from which channel's bytes are counted around: the first beyond the valley of e; 0 where
 * that is not among them. It may be off by a part of a step. */
static __device__ inline uint32_t turning_byte(const byte_grid &grid, float v) {
    const float beyond = (grid.below - WHOLE) - 1.5F / (v * grid.scale) + 1.0F;
    return beyond > 0.0F && beyond < 256.0F ? (uint32_t)beyond : 0U;
}

/* e of a byte. */
static __device__ inline float e_of(const byte_grid &grid, float v, uint32_t byte) {
    const float x = grid.lifted(WHOLE + (float)byte);
    return x * gate((v * x) * SIXTH + 0.5F);
}

/* Its extremes in a channel, from what its warps found. */
static __device__ inline float2 e_ends(const byte_grid &grid, const row_form &rows, float v,
                                       uint32_t turn, const uint32_t *found, int c) {
    byte_range all = {255U, 0, 255U, 0};
#pragma unroll 4
    for (int w = 0; w < rows.n_warps; w++) {
        all.add(found[w * c]);
    }
    extremes ends = no_extremes();
    ends.add(e_of(grid, v, all.low));
    ends.add(e_of(grid, v, all.high));
    ends.add(e_of(grid, v, (all.low_turned + turn) & 255U));
    ends.add(e_of(grid, v, (all.high_turned + turn) & 255U));
    return make_float2(float_at(ends.lo), float_at(ends.hi));
}

/* Extremes of a turn's words. Bytes lie in the upper parts of halves, above nothing, so that
 * counting them around is a sum that may run over: what it leaves in the next half is below its
 * byte. */
template <bool PEAKS>
static __device__ inline void add_turn(const raw_bytes<4> raw[TURN], int left, const uint32_t by[2],
                                       half_ends &plain, half_ends &turned) {
#pragma unroll
    for (int u = 0; u < TURN; u++) {
        if (u >= left) {
            break;
        }
        const uint32_t two[2] = {__byte_perm(raw[u].word, 0, 0x2404U), raw[u].word & 0xff00ff00U};
        for (int i = 0; i < 2; i++) {
            plain.low[i] = __vminu2(plain.low[i], two[i]);
            plain.high[i] = __vmaxu2(plain.high[i], two[i]);
            if constexpr (PEAKS) {
                turned.low[i] = __vminu2(turned.low[i], two[i] + by[i]);
                turned.high[i] = __vmaxu2(turned.high[i], two[i] + by[i]);
            }
        }
    }
}

/* The warp's rows: into found[channel]. `turns`: of each channel, 256 less its turning byte; `raw`:
 * the first turn's words. A turn's words are on their way while those before it are compared. */
template <bool PEAKS, bool EVEN, typename View>
static __device__ inline void
sweep_bytes(const View &x, const norm_form &form, const row_form &rows, const row_place &p,
            const uint32_t *turns, raw_bytes<4> raw[TURN], uint32_t *found) {
    raw_bytes<4> next[TURN];
    half_ends plain, turned;
    uint32_t by[2] = {0, 0};
    plain.begin();
    turned.begin();
    if constexpr (PEAKS) {
        by[0] = (turns[p.channel] & 255U) << 8 | turns[p.channel + 2] << 24;
        by[1] = (turns[p.channel + 1] & 255U) << 8 | turns[p.channel + 3] << 24;
    }
    for (int turn = 0;; turn++) {
        const bool is_last = (turn + 1) * TURN << p.step_bits >= rows.rows;
        if (!is_last) {
            load_turn<true>(x, p.at + (uint32_t)(turn + 1) * TURN * TURN_STEP,
                            EVEN ? (int)TURN : p.left(rows, turn + 1), next);
        }
        add_turn<PEAKS>(raw, EVEN ? (int)TURN : p.left(rows, turn), by, plain, turned);
        if (is_last) {
            break;
        }
#pragma unroll
        for (int u = 0; u < TURN; u++) {
            raw[u] = next[u];
        }
    }
    __syncwarp();
    plain.meet(1 << rows.word_bits);
    if constexpr (PEAKS) {
        turned.meet(1 << rows.word_bits);
    }
    if (p.row == 0) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            found[p.warp * form.c + p.channel + i] =
                plain.low_of(i) >> 8 | (plain.high_of(i) & 0xff00U) |
                (turned.low_of(i) & 0xff00U) << 8 | (turned.high_of(i) & 0xff00U) << 16;
        }
    }
}

/* Chunks' extremes, [group][chunk], which is [channel][chunk of it]. */
static __device__ inline void chunk_ends(const byte_grid &grid, bool is_lost, const norm_form &form,
                                         const row_form &rows, const uint32_t *found, float *low,
                                         float *high) {
    const int n_chunks = form.c * rows.per_channel;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < n_chunks; i += (int)blockDim.x) {
        const int channel = (int)rows.by_channel.quotient((uint32_t)i);
        const int chunk = i - channel * rows.per_channel;
        byte_range all = {255U, 0, 255U, 0};
#pragma unroll 1
        for (int k = 0; k < rows.per_chunk; k++) {
            all.add(found[(chunk * rows.per_chunk + k) * form.c + channel]);
        }
        low[i] = is_lost ? NAN : grid.lifted(WHOLE + (float)all.low);
        high[i] = is_lost ? NAN : grid.lifted(WHOLE + (float)all.high);
    }
}

static inline size_t row_spread_shared(const norm_form &form, const row_form &rows) {
    const size_t table = (size_t)rows.n_warps * (size_t)form.c;
    return table * sizeof(uint32_t) + 2 * table * sizeof(float);
}

/* PEAKS: the extremes of e go to peaks, [node][sample][channel]. EVEN: every lane has whole turns.
 * Every address is aligned. */
template <bool PEAKS, bool EVEN>
static __global__ void __launch_bounds__(ROW_BLOCK, 2)
    find_row_spread(byte_values values, norm_form form, row_form rows, nodes<const float> slopes,
                    nodes<float> scales, float2 *peaks) {
    __shared__ uint32_t turns[ROW_CHANNELS];
    __shared__ float v[ROW_CHANNELS];
    uint32_t *found = dynamic_shared<uint32_t>();
    float *low = (float *)(found + rows.n_warps * form.c), *high = low + rows.n_warps * form.c;
    const int node = (int)blockIdx.y, sample = (int)blockIdx.x, thread = (int)threadIdx.x;
    /* All that the block has to wait for is asked for at once. */
    const float own_v = PEAKS && thread < form.c ? slopes.of(node)[thread] : 0.0F;
    const auto x = values.of(node, (size_t)sample * (size_t)form.hw * (size_t)form.c);
    const row_place p = row_place_of(form, rows);
    raw_bytes<4> raw[TURN];
    load_turn<true>(x, p.at, EVEN ? (int)TURN : p.left(rows, 0), raw);
#pragma unroll 1
    for (int j = thread; PEAKS && j < form.c; j += (int)blockDim.x) {
        v[j] = j == thread ? own_v : slopes.of(node)[j];
        turns[j] = 256U - turning_byte(x.grid, v[j]);
    }
    if constexpr (PEAKS) {
        __syncthreads();
    }
    sweep_bytes<PEAKS, EVEN>(x, form, rows, p, turns, raw, found);
    __syncthreads();
    chunk_ends(x.grid, x.is_lost(), form, rows, found, low, high);
    /* From the last thread on: other warps than those that have the groups. */
#pragma unroll 1
    for (int j = (int)(blockDim.x - 1 - threadIdx.x); PEAKS && j < form.c; j += (int)blockDim.x) {
        const size_t row = (size_t)node * (size_t)form.n + (size_t)sample;
        peaks[row * (size_t)form.c + (size_t)j] =
            x.is_lost() ? make_float2(NAN, NAN)
                        : e_ends(x.grid, rows, v[j], 256U - turns[j], found + j, form.c);
    }
    __syncthreads();
#pragma unroll 1
    for (int g = (int)threadIdx.x; g < form.groups; g += (int)blockDim.x) {
        chunk_sums sums = {0.0F, 0.0F, 0.0F};
#pragma unroll 4
        for (int k = 0; k < form.n_chunks; k++) {
            sums.add(low[g * form.n_chunks + k], high[g * form.n_chunks + k]);
        }
        const float spread = x.shown(sums.spread(form));
        scales.of(node)[sample * form.groups + g] = 1.0F / (spread * form.factor + form.eps);
    }
}

/* --- the gradient ---------------------------------------------------------------------------- */

/* Where a lane's extremes are. A key has the value above and the row below, turned around for the
 * largest: the first of equals wins. */
template <bool BYTES> struct row_ends;

template <> struct row_ends<true> {
    typedef uint32_t key;
    static constexpr uint32_t LAST = 0xffffffU;
    half_ends ends;

    __device__ void begin(int) {
        ends.begin();
    }
    __device__ void add(const raw_bytes<4> &raw, const float *, int row) {
        const uint32_t first = (uint32_t)row, last = 255U - (uint32_t)row;
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t which = 0x2404U + i * 0x1010U;
            ends.low[i] = __vminu2(ends.low[i], __byte_perm(raw.word, first, which));
            ends.high[i] = __vmaxu2(ends.high[i], __byte_perm(raw.word, last, which));
        }
    }
    __device__ void meet(int words, bool) {
        ends.meet(words);
    }
    __device__ key low_key(int i, int before) const {
        const uint32_t half = ends.low_of(i);
        return half >> 8 << 24 | ((uint32_t)before + (half & 255U));
    }
    __device__ key high_key(int i, int before) const {
        const uint32_t half = ends.high_of(i);
        return half >> 8 << 24 | (LAST - ((uint32_t)before + (255U - (half & 255U))));
    }
    static __device__ int low_row(key k) {
        return (int)(k & LAST);
    }
    static __device__ int high_row(key k) {
        return (int)(LAST - (k & LAST));
    }
};

template <> struct row_ends<false> {
    typedef unsigned long long key;
    float_ends<4> ends;

    __device__ void begin(int row) {
        for (int i = 0; i < 4; i++) {
            ends.begin(i, row);
        }
    }
    __device__ void add(const raw_floats<4> &raw, const float *x, int row) {
        for (int i = 0; i < 4; i++) {
            ends.add(i, raw, x[i], row);
        }
    }
    __device__ void meet(int words, bool is_active) {
        place p = {};
        p.words = words;
        p.is_active = is_active;
        for (int i = 0; i < 4; i++) {
            ends.meet(i, p);
        }
    }
    __device__ key low_key(int i, int before) const {
        return ends.low_key(i, (uint32_t)before);
    }
    __device__ key high_key(int i, int before) const {
        return ends.high_key(i, (uint32_t)before);
    }
    static __device__ int low_row(key k) {
        return (int)(uint32_t)k;
    }
    static __device__ int high_row(key k) {
        return (int)(UINT32_MAX - (uint32_t)k);
    }
};

/* What a block's warps found, [warp][channel] each; then gamma * Q of each channel. */
template <typename Key> struct row_room {
    Key *low, *high;
    float *sums[N_SUMS]; /* Q, P, U */
    float *scaled;
};

template <typename Key>
static __device__ inline row_room<Key> row_room_of(const norm_form &form, const row_form &rows) {
    const int table = rows.n_warps * form.c;
    row_room<Key> room;
    room.low = dynamic_shared<Key>();
    room.high = room.low + table;
    room.sums[0] = (float *)(room.high + table);
    room.sums[1] = room.sums[0] + table;
    room.sums[2] = room.sums[1] + table;
    room.scaled = room.sums[2] + table;
    return room;
}

template <typename Key>
static inline size_t row_gradient_shared(const norm_form &form, const row_form &rows) {
    const size_t table = (size_t)rows.n_warps * (size_t)form.c;
    return table * (2 * sizeof(Key) + N_SUMS * sizeof(float)) + (size_t)form.c * sizeof(float);
}

/* dx of an element without a share; the column's sums are Q, P and U without its sixth. What is
 * flat has 0 times the sixth, for an infinity must show. */
static __device__ inline float add_grad(float x, float dy, float v, float scaled_gamma, float &p,
                                        float &q, float &u) {
    const float sixth = (v * x) * SIXTH, t = sixth + 0.5F, h = gate(t), product = dy * x;
    const bool is_sloped = t == h; /* t is in [0, 1] */
    p += dy;
    q = fmaf(product, h, q);
    u = is_sloped ? fmaf(product, x, u) : u;
    return (scaled_gamma * dy) * fmaf(sixth, is_sloped ? 1.0F : 0.0F, h);
}

/* A lane's words of x and of dy. */
template <typename View, typename Grads> struct row_turn {
    typename View::template raw<4> x[TURN];
    typename Grads::template raw<4> dy[TURN];

    template <bool ALIGNED, bool EVEN>
    __device__ void load(const View &from_x, const Grads &from_dy, const row_form &rows,
                         const row_place &p, int turn) {
        const uint32_t at = p.at + (uint32_t)turn * TURN * TURN_STEP;
        const int left = EVEN ? (int)TURN : p.left(rows, turn);
        load_turn<ALIGNED>(from_x, at, left, x);
        load_turn<ALIGNED>(from_dy, at, left, dy);
    }
};

/* `raw`: the words of the first turn, which were asked for before anything else. */
template <bool ALIGNED, bool EVEN, typename View, typename Grads, typename Sink, typename Ends>
static __device__ inline void
sweep_rows(const View &x, const Grads &dy, const Sink &dx, const row_form &rows, const row_place &p,
           row_turn<View, Grads> &raw, const float v[4], const float scaled_gamma[4], bool has_mask,
           found_sums<4> &sums, Ends &ends) {
    for (int i = 0; i < 4; i++) {
        sums.p[i] = sums.q[i] = sums.u[i] = 0.0F;
    }
    ends.begin(p.row);
    for (int turn = 0;;) {
        const uint32_t at = p.at + (uint32_t)turn * TURN * TURN_STEP;
        const Sink here = ALIGNED ? dx.from(at) : dx;
        const int left = EVEN ? (int)TURN : p.left(rows, turn);
        const int row = p.row + (turn * TURN << p.step_bits);
#pragma unroll
        for (int u = 0; u < TURN; u++) {
            if (u >= left) {
                break;
            }
            float lifted[4], value[4], d[4];
            x.template lift<4>(raw.x[u], lifted);
            dy.values(raw.dy[u], d);
            for (int i = 0; i < 4; i++) {
                value[i] = x.value(lifted[i]);
                d[i] = add_grad(value[i], d[i], v[i], scaled_gamma[i], sums.p[i], sums.q[i],
                                sums.u[i]);
            }
            ends.add(raw.x[u], value, row + (u << p.step_bits));
            if (has_mask) {
                for (int i = 0; i < 4; i++) {
                    d[i] = x.was_clipped(lifted[i]) ? 0.0F : d[i];
                }
            }
            if constexpr (ALIGNED) {
                here.template put_whole<4>((uint32_t)u * TURN_STEP, d);
            } else {
                here.template put<4>(at + (uint32_t)u * TURN_STEP, d);
            }
        }
        turn++;
        if (turn * TURN << p.step_bits >= rows.rows) {
            break;
        }
        raw.template load<ALIGNED, EVEN>(x, dy, rows, p, turn);
    }
}

template <typename Ends>
static __device__ inline void leave_rows(const norm_form &form, const row_form &rows,
                                         const row_place &p, found_sums<4> &sums, Ends &ends,
                                         const row_room<typename Ends::key> &room) {
    const int words = 1 << rows.word_bits;
    ends.meet(words, p.row < rows.rows);
    for (int d = words; d < 32; d *= 2) {
        for (int i = 0; i < 4; i++) {
            sums.q[i] += __shfl_xor_sync(ALL_LANES, sums.q[i], d);
            sums.p[i] += __shfl_xor_sync(ALL_LANES, sums.p[i], d);
            sums.u[i] += __shfl_xor_sync(ALL_LANES, sums.u[i], d);
        }
    }
#pragma unroll
    for (int i = 0; i < 4 && p.row == 0; i++) {
        const int at = p.warp * form.c + p.channel + i;
        room.low[at] = ends.low_key(i, p.warp * rows.rows);
        room.high[at] = ends.high_key(i, p.warp * rows.rows);
        room.sums[0][at] = sums.q[i];
        room.sums[1][at] = sums.p[i];
        room.sums[2][at] = sums.u[i];
    }
}

/* The columns' sums go to `to`, [quantity][channel]. */
template <typename Key>
static __device__ inline void fold_rows(const norm_form &form, const row_form &rows,
                                        const float *gamma, const float *used,
                                        const row_room<Key> &room, float *to) {
    /* From the last thread on: other warps than those that have most of the shares. */
#pragma unroll 1
    for (int i = (int)(blockDim.x - 1 - threadIdx.x); i < N_SUMS * form.c; i += (int)blockDim.x) {
        const int which = i >> (rows.word_bits + 2), channel = i & (form.c - 1);
        const float *from = room.sums[0] + which * rows.n_warps * form.c + channel;
        const float u = used[group_of(form, channel)], scale = gamma[channel];
        float sum = 0.0F;
#pragma unroll 4
        for (int w = 0; w < rows.n_warps; w++) {
            sum += from[w * form.c];
        }
        if (which == 0) {
            room.scaled[channel] = scale * sum;
        }
        to[i] = which == 0 ? sum * u : which == 1 ? sum : (scale * u) * (sum * SIXTH);
    }
}

/* A chunk's end that gets a share: its first largest value, or its opposite for the first smallest.
 * What it is made of is known before the columns' sums are. */
struct row_share {
    bool is_given, is_low;
    int group;
    uint32_t at;
    float lifted, dy, v, gamma, used, scale;
};

/* Number `e` of the block's: two a chunk. */
template <typename Ends, typename View, typename Grads>
static __device__ inline row_share row_share_of(const norm_form &form, const row_form &rows,
                                                const norm_part &part, const grad_params &of,
                                                const View &x, const Grads &dy,
                                                const row_room<typename Ends::key> &room, int e) {
    row_share s = {};
    if (e >= 2 * form.c * rows.per_channel) {
        return s;
    }
    const int channel = (int)rows.by_channel.quotient((uint32_t)e / 2U);
    const int chunk = e / 2 - channel * rows.per_channel;
    int at = chunk * rows.per_chunk * form.c + channel;
    typename Ends::key low = room.low[at], high = room.high[at];
    s.group = group_of(form, channel);
    s.v = of.v.of(part.node)[channel];
    s.gamma = of.gamma.of(part.node)[channel];
    s.used = of.used.of(part.node)[part.sample * form.groups + s.group];
    s.scale = of.scale.of(part.node)[part.sample * form.groups + s.group];
#pragma unroll 1
    for (int k = 1; k < rows.per_chunk; k++) {
        at += form.c;
        low = min(low, room.low[at]);
        high = max(high, room.high[at]);
    }
    const int low_row = Ends::low_row(low), high_row = Ends::high_row(high);
    s.is_low = e % 2 != 0;
    s.at = (uint32_t)((s.is_low ? low_row : high_row) * form.c + channel);
    s.is_given =
        low_row != high_row && !x.is_nan((uint32_t)(chunk * form.length * form.c + channel));
    if (s.is_given) {
        s.lifted = x.lifted_at(s.at);
        s.dy = dy.one(s.at);
    }
    return s;
}

/* Floats have dx without the share already; bytes make it anew, as give_share does. */
template <typename Values, typename Key, typename View, typename Sink>
static __device__ inline void give_row_share(const norm_form &form, const grad_params &of,
                                             const View &x, const Sink &dx,
                                             const row_room<Key> &room, const row_share &s) {
    if (!s.is_given) {
        return;
    }
    float total = 0.0F;
#pragma unroll 2
    for (int j = 0; j < form.width; j++) {
        total += room.scaled[s.group * form.width + j];
    }
    float share = -((total * (s.scale * s.scale)) * form.factor) / (float)form.n_chunks;
    share = s.is_low ? -share : share;
    if constexpr (Values::has_bytes) {
        const element_grad g = grad_of(x.value(s.lifted), s.dy, s.v, s.gamma * s.used);
        const float sum = of.has_mask && x.was_clipped(s.lifted) ? 0.0F : g.dx + share;
        dx.template put<1>(s.at, &sum);
    } else {
        dx.add(s.at, share);
    }
}

template <typename Values, typename Grads, typename Sink, bool ALIGNED, bool EVEN>
static __global__ void __launch_bounds__(ROW_BLOCK, Values::has_bytes ? 2 : 1)
    find_row_gradient(Values values, Grads grads, Sink sink, norm_form form, row_form rows,
                      grad_params of, float *found) {
    typedef row_ends<Values::has_bytes> ends_type;
    const row_room<typename ends_type::key> room = row_room_of<typename ends_type::key>(form, rows);
    const norm_part part = {(int)blockIdx.y, (int)blockIdx.x, 0, form.groups, 0, form.c};
    const size_t sample = (size_t)part.sample * (size_t)form.hw * (size_t)form.c;
    const typename Values::view x = values.of(part.node, sample);
    const typename Grads::view dy = grads.of(part.node, part.sample, sample);
    const auto dx = sink.of(part.node, sample);
    const float *used = of.used.of(part.node) + part.sample * form.groups;
    const float *gamma = of.gamma.of(part.node);
    const row_place p = row_place_of(form, rows);
    row_turn<typename Values::view, typename Grads::view> raw;
    raw.template load<ALIGNED, EVEN>(x, dy, rows, p, 0);
    __syncwarp(); /* the compiler shall not put them off until the parameters are there */
    float v[4], scaled_gamma[4];
    for (int i = 0; i < 4; i++) {
        v[i] = of.v.of(part.node)[p.channel + i];
        scaled_gamma[i] = gamma[p.channel + i] * used[group_of(form, p.channel + i)];
    }
    found_sums<4> sums;
    ends_type ends;
    sweep_rows<ALIGNED, EVEN>(x, dy, dx, rows, p, raw, v, scaled_gamma, of.has_mask, sums, ends);
    __syncwarp();
    leave_rows(form, rows, p, sums, ends, room);
    __syncthreads();
    const size_t row = (size_t)part.node * (size_t)form.n + (size_t)part.sample;
    const row_share own =
        row_share_of<ends_type>(form, rows, part, of, x, dy, room, (int)threadIdx.x);
    fold_rows(form, rows, gamma, used, room, found + row * N_SUMS * (size_t)form.c);
    __syncthreads();
    give_row_share<Values>(form, of, x, dx, room, own);
    const int n_ends = 2 * form.c * rows.per_channel;
#pragma unroll 1
    for (int e = (int)(threadIdx.x + blockDim.x); e < n_ends; e += (int)blockDim.x) {
        const row_share s = row_share_of<ends_type>(form, rows, part, of, x, dy, room, e);
        give_row_share<Values>(form, of, x, dx, room, s);
    }
}

/* Whichever of both ways the shape suits; `is_whole`: every address is aligned. */
template <typename Values, typename Grads, typename Sink>
static void launch_gradient(const struct oct__lane *lane, const norm_form &form,
                            const grad_params &of, const Values &x, const Grads &dy, const Sink &dx,
                            bool is_whole) {
    float *found = (float *)lane->shared_scratch;
    row_form rows = {};
    if (!row_form_of(form, LANE_WORDS, &rows)) {
        const auto kernel = form.c % 4 == 0 ? find_gradient<Values, Grads, Sink, 4>
                                            : find_gradient<Values, Grads, Sink, 1>;
        launch_kernel(kernel, sample_grid(lane, form), NORM_BLOCK, 0, stream_of(lane), x, dy, dx,
                      form, of, found);
        return;
    }
    const auto kernel = !is_whole ? find_row_gradient<Values, Grads, Sink, false, false>
                        : has_even_turns(rows)
                            ? find_row_gradient<Values, Grads, Sink, true, true>
                            : find_row_gradient<Values, Grads, Sink, true, false>;
    launch_kernel(kernel, row_grid(lane, form), (unsigned)(rows.n_warps * 32),
                  row_gradient_shared<typename row_ends<Values::has_bytes>::key>(form, rows),
                  stream_of(lane), x, dy, dx, form, rows, of, found);
}

#endif
