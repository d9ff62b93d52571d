/* SPDX-License-Identifier: Apache-2.0 */
/* range_evonorm.cuh - Range EvoNorm on a GPU, for bytes (norm_u8.cu) and floats (range.cu) alike: the
 * same sums in the same order, so that both have the same bits.
 *
 * Forward:  find_spread   a block a sample: extremes of chunks, which give the scale of each group;
 *                         for bytes also the extremes of e = x * h(v * x) in each channel
 *           write_norm    scales to used scales, then y; for bytes the grid of y before that: y
 *                         rises or falls with e, so its extremes are those of e's ends
 * Backward: range_evonorm_grad.cuh
 *
 * A thread keeps to one column of words (four channels, or one): its parameters and sums are in
 * registers. Threads of a *team* lie side by side over a row, or with few channels over the rows of
 * a warp; each team goes down its own stretch of rows, long enough to stay in a chunk for a while.
 *
 *     c = 16: a word is 4 channels, a warp 8 rows       c = 256: a team is 64 threads, one row
 *
 *     row 0   0 1 2 3                                   row 0   0 1 2 … 63
 *     row 1   4 5 6 7  …                                row 1   0 1 2 … 63
 *
 * A chunk's extremes meet in shared memory: as places in the order of floats, or where the element
 * matters with its number below, so that the first of equals wins. A NaN is passed by unless it
 * comes first in its chunk, as the CPU's comparisons do.
 *
 * With more than GROUPS_MOST groups a sample has several blocks: groups do not look at each other.
 */
#ifndef OCT_ENGINE_CUDA_RANGE_EVONORM_CUH
#define OCT_ENGINE_CUDA_RANGE_EVONORM_CUH

#include "engine/cuda/range_values.cuh"

extern "C" {
#include "kernels/chunks.h"
}

enum { NORM_BLOCK = 512, GROUPS_MOST = 32, CHUNKS_MOST = 16 };
enum { TABLE = GROUPS_MOST * CHUNKS_MOST };

#define SIXTH (1.0F / 6.0F)

struct norm_form {
    int n, hw, c, groups, width; /* width: channels of a group */
    int n_chunks, length;        /* of a group */
    int n_parts;                 /* blocks of a sample */
    float factor, eps;
    float least; /* a spread, of its group's largest magnitude: of bytes alone */
    divider by_c, by_width, by_hw, by_chunks, by_length;
};

static inline norm_form norm_form_of(const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    const int groups = args->attr.norm.groups, hw = x->h * x->w, width = x->c / groups;
    const size_t values = (size_t)hw * (size_t)width, n_chunks = oct__chunk_count(values);
    const norm_form form = {
        x->n,
        hw,
        x->c,
        groups,
        width,
        (int)n_chunks,
        (int)(values / n_chunks),
        divided_up((size_t)groups, GROUPS_MOST),
        oct__range_factor(values / n_chunks),
        args->attr.norm.eps,
        oct__spread_least(args->attr.norm.reach, oct__range_factor(values / n_chunks)),
        divider_of(x->c),
        divider_of(width),
        divider_of(hw),
        divider_of((int)n_chunks),
        divider_of((int)(values / n_chunks))};
    return form;
}

/* --- where a thread is ------------------------------------------------------------------------ */

/* The part of a sample that a block has: whole groups, `first` being the first of its channels. */
struct norm_part {
    int node, sample, group, n_groups, first, channels;
};

static __device__ inline norm_part norm_part_of(const norm_form &form) {
    norm_part part;
    part.node = (int)blockIdx.y;
    part.sample = (int)blockIdx.x / form.n_parts;
    part.group = (int)blockIdx.x % form.n_parts * GROUPS_MOST;
    part.n_groups = min((int)GROUPS_MOST, form.groups - part.group);
    part.first = part.group * form.width;
    part.channels = part.n_groups * form.width;
    return part;
}

/* A thread's place among the words of a row, from word `begin` on, and its rows. */
struct place {
    bool is_warp;   /* a team is a warp */
    bool is_active; /* has rows */
    int words;      /* of a row that the block has at a time */
    int team, n_teams;
    int word;           /* of the thread, from `begin` */
    int row, end, step; /* of the thread */
};

static __device__ inline place place_of(int begin, int all_words, int hw) {
    const int thread = (int)threadIdx.x;
    place p;
    p.words = min(all_words - begin, (int)NORM_BLOCK);
    p.is_warp = p.words <= 32 && 32 % p.words == 0;
    const int size = p.is_warp ? 32 : p.words;
    p.step = size / p.words;
    p.team = thread / size;
    p.n_teams = NORM_BLOCK / size;
    p.word = thread % size % p.words;
    const int each = ((hw + p.n_teams - 1) / p.n_teams + p.step - 1) / p.step * p.step;
    p.row = p.team * each + thread % size / p.words;
    p.end = min(hw, p.team * each + each);
    p.is_active = p.team < p.n_teams && p.row < p.end;
    return p;
}

/* The same number, but one that the compiler cannot work out beforehand: what is needed once a
 * chunk must not hold registers through the rows. */
static __device__ inline int later(int number) {
    asm volatile("" : "+r"(number));
    return number;
}

static __device__ inline int group_of(const norm_form &form, int channel) {
    return (int)form.by_width.quotient((uint32_t)channel);
}

/* A channel's values in its group are numbered from here, row by row. */
static __device__ inline int channel_base(const norm_form &form, int channel) {
    return (int)form.by_width.rest((uint32_t)channel) * form.hw;
}

/* Which chunk of its group a row of the channel is in, and the row where that ends. */
static __device__ inline int chunk_of(const norm_form &form, int channel, int row) {
    return (int)form.by_length.quotient((uint32_t)(channel_base(form, channel) + row));
}

static __device__ inline int chunk_end(const norm_form &form, int channel, int row) {
    return (chunk_of(form, channel, row) + 1) * form.length - channel_base(form, channel);
}

/* Its place in the block's table. */
static __device__ inline int chunk_at(const norm_form &form, int channel, int row) {
    return group_of(form, channel) * form.n_chunks + chunk_of(form, channel, row);
}

/* The element of a sample that is value `value` of a group. */
static __device__ inline uint32_t element_of(const norm_form &form, int group, uint32_t value) {
    const uint32_t channel = form.by_hw.quotient(value), row = value - channel * form.by_hw.by;
    return row * (uint32_t)form.c + (uint32_t)(group * form.width) + channel;
}

static __device__ inline uint32_t element_at(const norm_form &form, int row, uint32_t channel) {
    return (uint32_t)row * (uint32_t)form.c + channel;
}

/* The first row after `row` at which one of a thread's chunks ends. */
template <int WIDE>
static __device__ inline int stretch_end(const norm_form &form, int channel, int row, int end) {
    for (int i = 0; i < WIDE; i++) {
        end = min(end, chunk_end(form, channel + i, row));
    }
    return end;
}

/* Whether all lanes of a team that is a warp are in the same chunks with their last rows, those
 * without rows apart: then they can meet before shared memory. All of the block's lanes are
 * here. */
template <int WIDE>
static __device__ inline bool in_step(const norm_form &form, const place &p, int channel, int row) {
    bool same = p.is_warp;
    if (p.is_warp) {
        for (int i = 0; i < WIDE; i++) {
            const int chunk = chunk_of(form, channel + i, row);
            const int first = __shfl_sync(ALL_LANES, chunk, p.word);
            same = same && (!p.is_active || chunk == first);
        }
        same = __all_sync(ALL_LANES, same);
    }
    return same;
}

/* t held to [0, 1], for t = (v * x) / 6 + 1/2; a NaN gives 0. */
static __device__ inline float gate(float t) {
    return __saturatef(t);
}

/* --- the spread of chunks --------------------------------------------------------------------- */

struct spread_room {
    int low[TABLE], high[TABLE]; /* places in the order of floats */
};

/* Extremes of e in the columns of a row's words. */
template <int COLUMNS> struct peak_room { extremes column[COLUMNS]; };

/* What a thread has found in its channels. */
template <int WIDE> struct found_spread {
    float low[WIDE], high[WIDE];

    __device__ void begin(int i) {
        low[i] = INFINITY;
        high[i] = -INFINITY;
    }
    __device__ void leave(int i, int at, spread_room &room) const {
        atomicMin(&room.low[at], oct__float_order(low[i]));
        atomicMax(&room.high[at], oct__float_order(high[i]));
    }
    __device__ void leave_all(const norm_form &form, const place &p, int channel, int row,
                              spread_room &room) {
        const bool together = in_step<WIDE>(form, p, channel, row);
        for (int d = p.words; together && d < 32; d *= 2) {
            for (int i = 0; i < WIDE; i++) {
                low[i] = fminf(low[i], __shfl_xor_sync(ALL_LANES, low[i], d));
                high[i] = fmaxf(high[i], __shfl_xor_sync(ALL_LANES, high[i], d));
            }
        }
        if (p.is_active && (!together || (int)threadIdx.x % 32 < p.words)) {
            for (int i = 0; i < WIDE; i++) {
                leave(i, chunk_at(form, channel + i, row), room);
            }
        }
    }
};

/* Of e, over the block's rows. */
template <int WIDE>
static __device__ inline void leave_peaks(const place &p, float low[WIDE], float high[WIDE],
                                          extremes *column) {
    for (int d = p.words; p.is_warp && d < 32; d *= 2) {
        for (int i = 0; i < WIDE; i++) {
            low[i] = fminf(low[i], __shfl_xor_sync(ALL_LANES, low[i], d));
            high[i] = fmaxf(high[i], __shfl_xor_sync(ALL_LANES, high[i], d));
        }
    }
    if (p.is_active && (!p.is_warp || (int)threadIdx.x % 32 < p.words)) {
        for (int i = 0; i < WIDE; i++) {
            atomicMin(&column[p.word * WIDE + i].lo, oct__float_order(low[i]));
            atomicMax(&column[p.word * WIDE + i].hi, oct__float_order(high[i]));
        }
    }
}

enum { ROWS = 4 }; /* loaded before the first is used */

/* A thread's rows of its word, which begins at channel `channel` of the block's part; `first` is
 * that channel's place in the sample. */
template <int WIDE, bool PEAKS, typename View>
static __device__ inline void sweep_spread(const View &x, const norm_form &form, const place &p,
                                           int channel, uint32_t first, const float v[WIDE],
                                           spread_room &room, extremes *column) {
    found_spread<WIDE> found;
    float e_low[WIDE], e_high[WIDE];
    for (int i = 0; i < WIDE; i++) {
        found.begin(i);
        e_low[i] = INFINITY;
        e_high[i] = -INFINITY;
    }
    const int end = p.is_active ? p.end : 0;
    int from = p.row; /* of a stretch of rows in which no chunk ends */
    for (int row = from; row < end;) {
        const int until = stretch_end<WIDE>(form, later(channel), row, end);
        from = row;
        while (row < until) {
            typename View::template raw<WIDE> raw[ROWS];
#pragma unroll
            for (int u = 0; u < ROWS; u++) {
                if (row + u * p.step < until) {
                    raw[u] = x.template load_whole<WIDE>(element_at(form, row + u * p.step, first));
                }
            }
#pragma unroll
            for (int u = 0; u < ROWS && row < until; u++, row += p.step) {
                float lifted[WIDE];
                x.template lift<WIDE>(raw[u], lifted);
                for (int i = 0; i < WIDE; i++) {
                    const float value = x.value(lifted[i]);
                    found.low[i] = fminf(found.low[i], value);
                    found.high[i] = fmaxf(found.high[i], value);
                    if constexpr (PEAKS) {
                        const float e = value * gate((v[i] * value) * SIXTH + 0.5F);
                        e_low[i] = fminf(e_low[i], e);
                        e_high[i] = fmaxf(e_high[i], e);
                    }
                }
            }
        }
        for (int i = 0; i < WIDE && row < end; i++) {
            const int own = later(channel + i);
            if (row >= chunk_end(form, own, from)) {
                found.leave(i, chunk_at(form, own, from), room);
                found.begin(i);
            }
        }
    }
    __syncwarp();
    found.leave_all(form, p, later(channel), from, room);
    if constexpr (PEAKS) {
        leave_peaks<WIDE>(p, e_low, e_high, column);
    }
}

/* Chunks' extremes as floats, those of a chunk that begins with a NaN being NaN. */
template <typename View>
static __device__ inline void settle_chunks(const View &x, const norm_form &form,
                                            const norm_part &part, spread_room &room) {
    for (int i = (int)threadIdx.x; i < part.n_groups * form.n_chunks; i += NORM_BLOCK) {
        const int group = (int)form.by_chunks.quotient((uint32_t)i);
        const uint32_t value = (uint32_t)((i - group * form.n_chunks) * form.length);
        const bool is_nan = x.is_nan(element_of(form, part.group + group, value));
        room.low[i] = __float_as_int(is_nan ? NAN : float_at(room.low[i]));
        room.high[i] = __float_as_int(is_nan ? NAN : float_at(room.high[i]));
    }
}

/* What chunks' extremes add up to. */
struct chunk_sums {
    float high, low, far; /* far: the largest magnitude */

    __device__ void add(float chunk_low, float chunk_high) {
        high += chunk_high;
        low += chunk_low;
        far = chunk_high > far ? chunk_high : far;
        far = -chunk_low > far ? -chunk_low : far;
    }
    __device__ float spread(const norm_form &form) const {
        const float mean = high / (float)form.n_chunks - low / (float)form.n_chunks;
        return form.least * far > mean ? form.least * far : mean;
    }
};

static __device__ inline float spread_of(const norm_form &form, const spread_room &room,
                                         int group) {
    chunk_sums sums = {0.0F, 0.0F, 0.0F};
    for (int k = 0; k < form.n_chunks; k++) {
        sums.add(__int_as_float(room.low[group * form.n_chunks + k]),
                 __int_as_float(room.high[group * form.n_chunks + k]));
    }
    return sums.spread(form);
}

/* PEAKS: the extremes of e go to peaks, [node][sample][channel]. */
template <typename Values, int WIDE, bool PEAKS>
static __global__ void __launch_bounds__(NORM_BLOCK, Values::has_bytes ? 2 : 1)
    find_spread(Values values, norm_form form, nodes<const float> slopes, nodes<float> scales,
                float2 *peaks) {
    __shared__ spread_room room;
    __shared__ peak_room<PEAKS ? WIDE * NORM_BLOCK : 1> peak;
    const norm_part part = norm_part_of(form);
    const size_t sample = (size_t)part.sample * (size_t)form.hw * (size_t)form.c;
    const auto x = values.of(part.node, sample);
    const int words = part.channels / WIDE;
    for (int i = (int)threadIdx.x; i < part.n_groups * form.n_chunks; i += NORM_BLOCK) {
        room.low[i] = INT_MAX;
        room.high[i] = INT_MIN;
    }
    for (int begin = 0; begin < words; begin += NORM_BLOCK) {
        const place p = place_of(begin, words, form.hw);
        const int channel = (begin + p.word) * WIDE;
        float v[WIDE];
        for (int i = 0; i < WIDE; i++) {
            v[i] = PEAKS ? slopes.of(part.node)[part.first + channel + i] : 0.0F;
        }
        for (int j = (int)threadIdx.x; PEAKS && j < p.words * WIDE; j += NORM_BLOCK) {
            peak.column[j] = no_extremes();
        }
        __syncthreads();
        sweep_spread<WIDE, PEAKS>(x, form, p, channel, (uint32_t)(part.first + channel), v, room,
                                  peak.column);
        __syncthreads();
        for (int j = (int)threadIdx.x; PEAKS && j < p.words * WIDE; j += NORM_BLOCK) {
            const extremes e = peak.column[j];
            const size_t row = (size_t)part.node * (size_t)form.n + (size_t)part.sample;
            peaks[row * (size_t)form.c + (size_t)(part.first + begin * WIDE + j)] =
                x.is_lost() ? make_float2(NAN, NAN) : make_float2(float_at(e.lo), float_at(e.hi));
        }
    }
    settle_chunks(x, form, part, room);
    __syncthreads();
    const int group = (int)threadIdx.x;
    if (group < part.n_groups) {
        const float spread = x.shown(spread_of(form, room, group));
        scales.of(part.node)[part.sample * form.groups + part.group + group] =
            1.0F / (spread * form.factor + form.eps);
    }
}

/* --- y ---------------------------------------------------------------------------------------- */

/* What y = (gamma * e) * used + beta is made of besides x. */
struct norm_params {
    nodes<const float> gamma, beta, v;
    nodes<const float> scale;
    nodes<float> used;
    bool moves_scale; /* used: one of 256 steps, not scale itself */
};

static __device__ inline float norm_of(float gamma, float e, float used, float beta) {
    return (gamma * e) * used + beta;
}

/* From scales to used scales: all of a node's, found by the whole block. */
static __device__ inline vector_steps scale_steps(const norm_form &form, const norm_params &of,
                                                  int node, extremes room[32]) {
    const vector_steps same = {0.0F, 0.0F, 0.0F, 0.0F};
    return of.moves_scale ? vector_steps_of(form.n * form.groups, of.scale.of(node), room) : same;
}

/* What the extremes of y are made of in a channel of a sample: those of e among it. */
struct channel_ends {
    float2 e;
    float scale, gamma, beta;

    __device__ extremes of_y(const vector_steps &steps) const {
        const float used = steps.at(scale);
        extremes ends = no_extremes();
        ends.add(norm_of(gamma, e.x, used, beta));
        ends.add(norm_of(gamma, e.y, used, beta));
        return ends;
    }
};

/* Number `at` of the node's, [sample][channel]. */
static __device__ inline channel_ends ends_at(const norm_form &form, const norm_params &of,
                                              int node, const float2 *peaks, int at) {
    const int sample = (int)form.by_c.quotient((uint32_t)at), channel = at - sample * form.c;
    const size_t before = (size_t)node * (size_t)form.n * (size_t)form.c;
    const channel_ends ends = {
        peaks[before + (size_t)at],
        of.scale.of(node)[sample * form.groups + group_of(form, channel)],
        of.gamma.of(node)[channel],
        of.beta.of(node)[channel],
    };
    return ends;
}

/* Of samples first … first + count - 1. Neighbouring lanes that have the same sample meet before
 * shared memory: as many as the power of two in the number of channels. */
static __device__ inline void fill_samples(const norm_form &form, const norm_params &of,
                                           const vector_steps &steps, int node, const float2 *peaks,
                                           int first, int count, extremes *sample) {
    const int thread = (int)threadIdx.x, threads = (int)blockDim.x, all = count * form.c;
    const int together = min(form.c & -form.c, 32);
    for (int i = thread; i < count; i += threads) {
        sample[i] = no_extremes();
    }
    __syncthreads();
    for (int begin = 0; begin < all; begin += threads) {
        const int at = begin + thread;
        extremes ends = no_extremes();
        if (at < all) {
            ends = ends_at(form, of, node, peaks, first * form.c + at).of_y(steps);
        }
        for (int d = together / 2; d > 0; d /= 2) {
            const extremes other = {__shfl_xor_sync(ALL_LANES, ends.lo, d),
                                    __shfl_xor_sync(ALL_LANES, ends.hi, d)};
            ends.add(other);
        }
        if (at < all && thread % together == 0) {
            const int s = (int)form.by_c.quotient((uint32_t)at);
            atomicMin(&sample[s].lo, ends.lo);
            atomicMax(&sample[s].hi, ends.hi);
        }
    }
}

/* What write_norm leaves: floats, bytes rounded to the nearest, bytes rounded by chance. */
enum norm_out { OUT_FLOATS, OUT_NEAREST, OUT_CHANCE };

/* What it needs for bytes: the extremes of e, or where `found` is not NULL those of samples. */
struct norm_bytes {
    const float2 *peaks;
    const extremes *found;
    grid_rule rule;
    nodes<uint8_t> q;
    struct chance chance;
};

/* The extremes of samples first … first + count - 1, from one or the other. */
static __device__ inline void leave_samples(const norm_form &form, const norm_params &of,
                                            const vector_steps &steps, const norm_bytes &bytes,
                                            int node, int first, int count, extremes *sample) {
    const extremes *found = bytes.found + (size_t)node * (size_t)form.n + first;
    if (bytes.found == NULL) {
        fill_samples(form, of, steps, node, bytes.peaks, first, count, sample);
        return;
    }
    for (int i = (int)threadIdx.x; i < count; i += BLOCK) {
        sample[i] = found[i];
    }
}

/* A thread's first ends, which it has asked for before it needs them. */
enum { EARLY = 2 };

static __device__ inline void load_early(const norm_form &form, const norm_params &of,
                                         const norm_bytes &bytes, int node,
                                         channel_ends early[EARLY]) {
#pragma unroll
    for (int i = 0; i < EARLY; i++) {
        const int at = (int)threadIdx.x + i * BLOCK;
        if (bytes.rule.how == OCT_RANGE_FULL && bytes.found == NULL && at < form.n * form.c) {
            early[i] = ends_at(form, of, node, bytes.peaks, at);
        }
    }
}

static __device__ inline struct oct__grid
norm_grid(const norm_form &form, const norm_params &of, const vector_steps &steps,
          const norm_bytes &bytes, int node, const channel_ends early[EARLY], fold_room &room) {
    const extremes *found = bytes.found + (size_t)node * (size_t)form.n;
    return choose_grid(
        bytes.rule, node, blockIdx.x == 0 && blockIdx.y == 0,
        [&](int first, int count, extremes *sample) {
            leave_samples(form, of, steps, bytes, node, first, count, sample);
        },
        [&]() {
            extremes own = no_extremes();
            if (bytes.found != NULL) {
                for (int i = (int)threadIdx.x; i < form.n; i += BLOCK) {
                    own.add(found[i]);
                }
                return own;
            }
#pragma unroll
            for (int i = 0; i < EARLY; i++) {
                if ((int)threadIdx.x + i * BLOCK < form.n * form.c) {
                    own.add(early[i].of_y(steps));
                }
            }
#pragma unroll 2
            for (int at = (int)threadIdx.x + EARLY * BLOCK; at < form.n * form.c; at += BLOCK) {
                own.add(ends_at(form, of, node, bytes.peaks, at).of_y(steps));
            }
            return own;
        },
        room);
}

/* Element `at` of the node's and those after it, to q, which is aligned for four. */
template <int WIDE, bool CHANCE>
static __device__ inline void put_bytes(const norm_bytes &bytes, int node, uint32_t at,
                                        const struct oct__grid &grid, const float y[WIDE],
                                        uint8_t *q) {
    const borders b = borders_of(grid.zero);
    uint32_t k[4];
    int byte[WIDE];
    if constexpr (CHANCE) {
        const struct oct__stream stream = bytes.chance.of(node);
        if constexpr (WIDE == 4) {
            draw_four(stream, at, k);
        } else {
            k[0] = draw_one(stream, at);
        }
    }
    for (int i = 0; i < WIDE; i++) {
        const float t = held(y[i] * grid.inverse, b.low, b.high);
        byte[i] = CHANCE ? by_chance(t, k[i]) + b.zero : nearest_from(t, grid.zero);
    }
    if constexpr (WIDE == 4) {
        *(uint32_t *)q = join_bytes(byte);
    } else {
        q[0] = (uint8_t)byte[0];
    }
}

/* A block has `rows` rows of a sample, and a thread no more than NORM_ROWS of them. */
enum { NORM_ROWS = 8 };

static inline int norm_rows(const norm_form &form, int wide) {
    const int words = form.c / wide;
    return NORM_ROWS * (words < BLOCK ? BLOCK / words : 1);
}

static inline dim3 norm_grid_of(const struct oct__lane *lane, const norm_form &form, int rows) {
    return dim3((unsigned)form.n, (unsigned)divided_up((size_t)form.hw, (size_t)rows),
                (unsigned)lane->form.n_nodes);
}

/* x is loaded before the scales and extremes are folded, which takes as long. WIDE == 4: every
 * address is aligned. */
template <typename Values, int WIDE, int OUT>
static __global__ void __launch_bounds__(BLOCK, !Values::has_bytes  ? 2
                                                : OUT == OUT_CHANCE ? 3
                                                                    : 4)
    write_norm(Values values, norm_form form, norm_params of, norm_bytes bytes, float_sink floats,
               int rows) {
    __shared__ extremes room[32];
    __shared__ fold_room fold;
    const int node = (int)blockIdx.z, sample = (int)blockIdx.x;
    const int piece = (int)blockIdx.y, end = min(form.hw, (piece + 1) * rows);
    const uint32_t before = (uint32_t)sample * (uint32_t)form.hw * (uint32_t)form.c;
    const int words = form.c / WIDE;
    const auto x = values.of(node, before);
    const float *scale = of.scale.of(node) + sample * form.groups;
    vector_steps steps = {};
    struct oct__grid grid = {};
    for (int begin = 0; begin < words; begin += BLOCK) {
        const int here = min(words - begin, (int)BLOCK), thread = (int)threadIdx.x;
        const bool is_all = here == words; /* else one row, and a last part may be narrow */
        const int step = is_all ? (int)form.by_c.quotient(BLOCK * WIDE) : 1;
        const int down = is_all ? (int)form.by_c.quotient(threadIdx.x * WIDE) : thread >= here;
        const int channel = (begin + (is_all || down == 0 ? thread - down * here : 0)) * WIDE;
        const int row = down < step ? piece * rows + down : end;
        typename decltype(x)::template raw<WIDE> raw[NORM_ROWS];
#pragma unroll
        for (int u = 0; u < NORM_ROWS; u++) {
            if (row + u * step < end) {
                raw[u] = x.template load_whole<WIDE>((uint32_t)(row + u * step) * (uint32_t)form.c +
                                                     (uint32_t)channel);
            }
        }
        float gamma[WIDE], beta[WIDE], v[WIDE], used[WIDE];
        for (int i = 0; i < WIDE; i++) {
            v[i] = of.v.of(node)[channel + i];
            used[i] = scale[group_of(form, channel + i)];
        }
        if (begin == 0) {
            channel_ends early[EARLY];
            if constexpr (OUT != OUT_FLOATS) {
                load_early(form, of, bytes, node, early);
            }
            steps = scale_steps(form, of, node, room);
            if constexpr (OUT != OUT_FLOATS) {
                grid = norm_grid(form, of, steps, bytes, node, early, fold);
            }
        }
        for (int i = 0; i < WIDE; i++) {
            gamma[i] = of.gamma.of(node)[channel + i];
            beta[i] = of.beta.of(node)[channel + i];
            used[i] = steps.at(used[i]);
        }
#pragma unroll
        for (int u = 0; u < NORM_ROWS; u++) {
            if (row + u * step >= end) {
                break;
            }
            const uint32_t at =
                before + (uint32_t)(row + u * step) * (uint32_t)form.c + (uint32_t)channel;
            float y[WIDE];
            x.template lift<WIDE>(raw[u], y);
            for (int i = 0; i < WIDE; i++) {
                const float value = x.value(y[i]);
                const float e = value * gate((v[i] * value) * SIXTH + 0.5F);
                y[i] = norm_of(gamma[i], e, used[i], beta[i]);
            }
            if constexpr (OUT == OUT_FLOATS) {
                floats.of(node, 0).template put_whole<WIDE>(at, y);
            } else {
                put_bytes<WIDE, OUT == OUT_CHANCE>(bytes, node, at, grid, y, bytes.q.of(node) + at);
            }
        }
    }
    for (int g = (int)threadIdx.x; piece == 0 && g < form.groups; g += BLOCK) {
        of.used.of(node)[sample * form.groups + g] = steps.at(scale[g]);
    }
}

static inline dim3 sample_grid(const struct oct__lane *lane, const norm_form &form) {
    return dim3((unsigned)(form.n * form.n_parts), (unsigned)lane->form.n_nodes);
}

#endif
