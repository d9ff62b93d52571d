/* SPDX-License-Identifier: Apache-2.0 */
/* range_evonorm_grad.cuh - Range EvoNorm's gradient on a GPU, with the threads of range_evonorm.cuh.
 *
 *           find_gradient a block a sample: dx, sums over rows, then what chunks' extremes get
 *           fold_sums     the samples' sums
 */
#ifndef OCT_ENGINE_CUDA_RANGE_EVONORM_GRAD_CUH
#define OCT_ENGINE_CUDA_RANGE_EVONORM_GRAD_CUH

#include "engine/cuda/range_evonorm.cuh"

/* Sums of a sample, [node][sample][quantity][channel]: what it adds to dgamma, dbeta, dv. */
enum { N_SUMS = 3 };

struct grad_params {
    nodes<const float> gamma, v, scale, used;
    bool has_mask;
};

typedef unsigned long long key; /* a float's place above, its value's number below */

struct grad_room {
    key low[TABLE], high[TABLE];
    float total[GROUPS_MOST]; /* D of kernels.def */
};

/* What a thread has found in its channels: the extremes and their rows. Of bytes a number holds
 * both, the byte above and the row, turned around for the largest, in 24 bits below. */
template <int WIDE> struct byte_ends {
    uint32_t low[WIDE], high[WIDE];

    __device__ void begin(int i, int) {
        low[i] = UINT32_MAX;
        high[i] = 0;
    }
    static __device__ uint32_t above(raw_bytes<4> raw, int i, uint32_t row) {
        return __byte_perm(raw.word, row, 0x0654U | (uint32_t)i << 12);
    }
    static __device__ uint32_t above(raw_bytes<1> raw, int, uint32_t row) {
        return (uint32_t)raw.byte << 24 | (row & 0xffffffU);
    }
    __device__ void add(int i, raw_bytes<WIDE> raw, float, int row) {
        low[i] = min(low[i], above(raw, i, (uint32_t)row));
        high[i] = max(high[i], above(raw, i, ~(uint32_t)row));
    }
    /* Over a warp's lanes that have the same channels. */
    __device__ void meet(int i, const place &p) {
        for (int d = p.words; d < 32; d *= 2) {
            low[i] = min(low[i], __shfl_xor_sync(ALL_LANES, low[i], d));
            high[i] = max(high[i], __shfl_xor_sync(ALL_LANES, high[i], d));
        }
    }
    __device__ key low_key(int i, uint32_t base) const {
        return (key)(low[i] >> 24) << 32 | (base + (low[i] & 0xffffffU));
    }
    __device__ key high_key(int i, uint32_t base) const {
        return (key)(high[i] >> 24) << 32 | (UINT32_MAX - (base + (~high[i] & 0xffffffU)));
    }
};

/* A number that grows with a float; both zeros are the same. */
static __device__ inline uint32_t rank_of(float x) {
    return (uint32_t)oct__float_order(x + 0.0F) ^ 0x80000000U;
}

/* The first row of the lanes that have the extreme. */
static __device__ inline int first_row(const place &p, bool has_it, int row) {
    row = has_it ? row : INT_MAX;
    for (int d = p.words; d < 32; d *= 2) {
        row = min(row, __shfl_xor_sync(ALL_LANES, row, d));
    }
    return row;
}

template <int WIDE> struct float_ends {
    float low[WIDE], high[WIDE];
    int low_row[WIDE], high_row[WIDE];

    __device__ void begin(int i, int row) {
        low[i] = INFINITY;
        high[i] = -INFINITY;
        low_row[i] = high_row[i] = row;
    }
    __device__ void add(int i, raw_floats<WIDE>, float x, int row) {
        if (x > high[i]) {
            high[i] = x;
            high_row[i] = row;
        }
        if (x < low[i]) {
            low[i] = x;
            low_row[i] = row;
        }
    }
    __device__ void meet(int i, const place &p) {
        float least = low[i], largest = high[i];
        for (int d = p.words; d < 32; d *= 2) {
            least = fminf(least, __shfl_xor_sync(ALL_LANES, least, d));
            largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, d));
        }
        low_row[i] = first_row(p, p.is_active && low[i] == least, low_row[i]);
        high_row[i] = first_row(p, p.is_active && high[i] == largest, high_row[i]);
        low[i] = least;
        high[i] = largest;
    }
    __device__ key low_key(int i, uint32_t base) const {
        return (key)rank_of(low[i]) << 32 | (base + (uint32_t)low_row[i]);
    }
    __device__ key high_key(int i, uint32_t base) const {
        return (key)rank_of(high[i]) << 32 | (UINT32_MAX - (base + (uint32_t)high_row[i]));
    }
};

template <typename Ends>
static __device__ inline void leave_ends(const norm_form &form, int i, int channel, int row,
                                         const Ends &found, grad_room &room) {
    const int at = chunk_at(form, channel, row);
    const uint32_t base = (uint32_t)channel_base(form, channel);
    atomicMin(&room.low[at], found.low_key(i, base));
    atomicMax(&room.high[at], found.high_key(i, base));
}

template <int WIDE, typename Ends>
static __device__ inline void leave_all_ends(const norm_form &form, const place &p, int channel,
                                             int row, Ends &found, grad_room &room) {
    const bool together = in_step<WIDE>(form, p, channel, row);
    for (int i = 0; together && i < WIDE; i++) {
        found.meet(i, p);
    }
    if (p.is_active && (!together || (int)threadIdx.x % 32 < p.words)) {
        for (int i = 0; i < WIDE; i++) {
            leave_ends(form, i, channel + i, row, found, room);
        }
    }
}

/* An element's part in everything: the column's sums, and dx without a share. */
struct element_grad {
    float dx, q, u;
};

static __device__ inline element_grad grad_of(float x, float dy, float v, float scaled_gamma) {
    const float a = v * x, t = a * SIXTH + 0.5F, h = gate(t);
    const float slope = t == h ? SIXTH : 0.0F; /* t is in [0, 1] */
    const element_grad g = {(scaled_gamma * dy) * (h + a * slope), dy * (x * h),
                            (dy * x) * (x * slope)};
    return g;
}

/* Sums of P, Q and U over a thread's rows; see kernels.def. */
template <int WIDE> struct found_sums { float p[WIDE], q[WIDE], u[WIDE]; };

enum { GRAD_ROWS = 2 };

template <int WIDE, typename View, typename Grads, typename Sink>
static __device__ inline void sweep_gradient(const View &x, const Grads &dy, const Sink &dx,
                                             const norm_form &form, int begin, int words,
                                             int channel, uint32_t first, const float v[WIDE],
                                             const float scaled_gamma[WIDE], bool has_mask,
                                             found_sums<WIDE> &sums, grad_room &room) {
    const place p = place_of(begin, words, form.hw);
    typename View::template ends<WIDE> found;
    for (int i = 0; i < WIDE; i++) {
        found.begin(i, p.row);
        sums.p[i] = sums.q[i] = sums.u[i] = 0.0F;
    }
    const int end = p.is_active ? p.end : 0;
    int from = p.row; /* of a stretch of rows in which no chunk ends */
    for (int row = from; row < end;) {
        const int until = stretch_end<WIDE>(form, later(channel), row, end);
        from = row;
        while (row < until) {
            typename View::template raw<WIDE> raw_x[GRAD_ROWS];
            typename Grads::template raw<WIDE> raw_dy[GRAD_ROWS];
#pragma unroll
            for (int r = 0; r < GRAD_ROWS; r++) {
                if (row + r * p.step < until) {
                    const uint32_t at = element_at(form, row + r * p.step, first);
                    raw_x[r] = x.template load<WIDE>(at);
                    raw_dy[r] = dy.template load<WIDE>(at);
                }
            }
#pragma unroll
            for (int r = 0; r < GRAD_ROWS && row < until; r++, row += p.step) {
                float lifted[WIDE], d[WIDE];
                x.template lift<WIDE>(raw_x[r], lifted);
                dy.values(raw_dy[r], d);
                for (int i = 0; i < WIDE; i++) {
                    const float value = x.value(lifted[i]);
                    const element_grad g = grad_of(value, d[i], v[i], scaled_gamma[i]);
                    found.add(i, raw_x[r], value, row);
                    sums.p[i] += d[i];
                    sums.q[i] += g.q;
                    sums.u[i] += g.u;
                    d[i] = has_mask && x.was_clipped(lifted[i]) ? 0.0F : g.dx;
                }
                dx.template put<WIDE>(element_at(form, row, first), d);
            }
        }
        for (int i = 0; i < WIDE && row < end; i++) {
            const int own = later(channel + i);
            if (row >= chunk_end(form, own, from)) {
                leave_ends(form, i, own, from, found, room);
                found.begin(i, row);
            }
        }
    }
    __syncwarp();
    leave_all_ends<WIDE>(form, place_of(later(begin), words, form.hw), later(channel), from, found,
                         room);
}

/* Each team's sums, [quantity][team][column]. */
template <int WIDE>
static __device__ inline void leave_sums(const place &p, found_sums<WIDE> &sums,
                                         float (*team)[WIDE * NORM_BLOCK]) {
    for (int d = p.words; p.is_warp && d < 32; d *= 2) {
        for (int i = 0; i < WIDE; i++) {
            sums.p[i] += __shfl_xor_sync(ALL_LANES, sums.p[i], d);
            sums.q[i] += __shfl_xor_sync(ALL_LANES, sums.q[i], d);
            sums.u[i] += __shfl_xor_sync(ALL_LANES, sums.u[i], d);
        }
    }
    const bool is_first = !p.is_warp || (int)threadIdx.x % 32 < p.words;
    for (int i = 0; p.team < p.n_teams && is_first && i < WIDE; i++) {
        const int at = (p.team * p.words + p.word) * WIDE + i;
        team[0][at] = sums.q[i];
        team[1][at] = sums.p[i];
        team[2][at] = sums.u[i];
    }
}

/* The columns' sums go to `sums`, gamma * Q of each to where the first team's Q was. */
template <int WIDE>
static __device__ inline void fold_teams(const norm_form &form, const norm_part &part,
                                         const grad_params &of, const place &p, int begin,
                                         float (*team)[WIDE * NORM_BLOCK], float *found) {
    const size_t row = (size_t)part.node * (size_t)form.n + (size_t)part.sample;
    float *sums = found + row * N_SUMS * (size_t)form.c;
    const float *used = of.used.of(part.node) + part.sample * form.groups;
    for (int j = (int)threadIdx.x; j < p.words * WIDE; j += NORM_BLOCK) {
        const int channel = part.first + begin * WIDE + j;
        float sum[N_SUMS] = {0.0F, 0.0F, 0.0F};
        for (int t = 0; t < p.n_teams; t++) {
            for (int i = 0; i < N_SUMS; i++) {
                sum[i] += team[i][t * p.words * WIDE + j];
            }
        }
        const float gamma = of.gamma.of(part.node)[channel], u = used[group_of(form, channel)];
        sums[channel] = sum[0] * u;
        sums[form.c + channel] = sum[1];
        sums[2 * form.c + channel] = (gamma * u) * sum[2];
        team[0][j] = gamma * sum[0];
    }
}

/* Adds the groups' columns to their totals: a warp a group. */
static __device__ inline void add_totals(const norm_form &form, const norm_part &part, int begin,
                                         int columns, const float *column, grad_room &room) {
    for (int g = (int)threadIdx.x / 32; g < part.n_groups; g += NORM_BLOCK / 32) {
        const int first = max(g * form.width - begin, 0);
        const int end = min((g + 1) * form.width - begin, columns);
        float sum = 0.0F;
        for (int j = first + (int)threadIdx.x % 32; j < end; j += 32) {
            sum += column[j];
        }
        for (int d = 16; d > 0; d /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, d);
        }
        if (threadIdx.x % 32 == 0) {
            room.total[g] += sum;
        }
    }
}

/* dx at an element that gets a share: floats have it already; bytes make it anew, for what was
 * rounded to bf16 cannot be added to. */
template <typename Values, typename View, typename Grads, typename Sink>
static __device__ inline void give_share(const norm_form &form, const norm_part &part,
                                         const grad_params &of, const View &x, const Grads &dy,
                                         const Sink &dx, uint32_t at, float share) {
    if constexpr (Values::has_bytes) {
        const int channel = (int)form.by_c.rest(at);
        const float lifted = x.lifted_at(at);
        const float used =
            of.used.of(part.node)[part.sample * form.groups + group_of(form, channel)];
        const element_grad g = grad_of(x.value(lifted), dy.one(at), of.v.of(part.node)[channel],
                                       of.gamma.of(part.node)[channel] * used);
        const float sum = of.has_mask && x.was_clipped(lifted) ? 0.0F : g.dx + share;
        dx.template put<1>(at, &sum);
    } else {
        dx.add(at, share);
    }
}

/* Every chunk's first largest value gets its group's share, its first smallest gives it. */
template <typename Values, typename View, typename Grads, typename Sink>
static __device__ inline void give_shares(const norm_form &form, const norm_part &part,
                                          const grad_params &of, const View &x, const Grads &dy,
                                          const Sink &dx, const grad_room &room) {
    const float *scale = of.scale.of(part.node) + part.sample * form.groups;
    for (int i = (int)threadIdx.x; i < part.n_groups * form.n_chunks; i += NORM_BLOCK) {
        const int group = (int)form.by_chunks.quotient((uint32_t)i);
        const uint32_t first = (uint32_t)((i - group * form.n_chunks) * form.length);
        const uint32_t low = (uint32_t)room.low[i], high = UINT32_MAX - (uint32_t)room.high[i];
        if (low == high || x.is_nan(element_of(form, part.group + group, first))) {
            continue;
        }
        const float s = scale[part.group + group];
        const float share = -((room.total[group] * (s * s)) * form.factor) / (float)form.n_chunks;
        give_share<Values>(form, part, of, x, dy, dx, element_of(form, part.group + group, high),
                           share);
        give_share<Values>(form, part, of, x, dy, dx, element_of(form, part.group + group, low),
                           -share);
    }
}

template <typename Values, typename Grads, typename Sink, int WIDE>
static __global__ void __launch_bounds__(NORM_BLOCK, Values::has_bytes ? 2 : 1)
    find_gradient(Values values, Grads grads, Sink sink, norm_form form, grad_params of,
                  float *found) {
    __shared__ grad_room room;
    __shared__ float team[N_SUMS][WIDE * NORM_BLOCK];
    const norm_part part = norm_part_of(form);
    const size_t sample = (size_t)part.sample * (size_t)form.hw * (size_t)form.c;
    const auto x = values.of(part.node, sample);
    const auto dy = grads.of(part.node, part.sample, sample);
    const auto dx = sink.of(part.node, sample);
    const float *used = of.used.of(part.node) + part.sample * form.groups;
    const int words = part.channels / WIDE;
    for (int i = (int)threadIdx.x; i < part.n_groups * form.n_chunks; i += NORM_BLOCK) {
        room.low[i] = ~(key)0;
        room.high[i] = 0;
    }
    for (int g = (int)threadIdx.x; g < part.n_groups; g += NORM_BLOCK) {
        room.total[g] = 0.0F;
    }
    for (int begin = 0; begin < words; begin += NORM_BLOCK) {
        const int channel = (begin + place_of(begin, words, form.hw).word) * WIDE;
        float v[WIDE], scaled_gamma[WIDE];
        found_sums<WIDE> own;
        for (int i = 0; i < WIDE; i++) {
            const int at = part.first + channel + i;
            v[i] = of.v.of(part.node)[at];
            scaled_gamma[i] = of.gamma.of(part.node)[at] * used[group_of(form, at)];
        }
        __syncthreads();
        sweep_gradient<WIDE>(x, dy, dx, form, begin, words, channel,
                             (uint32_t)(part.first + channel), v, scaled_gamma, of.has_mask, own,
                             room);
        const place p = place_of(later(begin), words, form.hw);
        leave_sums<WIDE>(p, own, team);
        __syncthreads();
        fold_teams<WIDE>(form, part, of, p, begin, team, found);
        __syncthreads();
        add_totals(form, part, begin * WIDE, p.words * WIDE, team[0], room);
    }
    __syncthreads();
    give_shares<Values>(form, part, of, x, dy, dx, room);
}

/* The sums of a node's samples: 32 columns a block, samples in eight strands. */
struct sums_out {
    nodes<float> to[N_SUMS];
};

static __global__ void __launch_bounds__(BLOCK)
    fold_sums(const float *found, int n, int c, sums_out out) {
    __shared__ float strand[BLOCK / 32][32];
    const int node = (int)blockIdx.y, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int column = (int)blockIdx.x * 32 + lane, columns = N_SUMS * c;
    const float *from = found + (size_t)node * (size_t)n * (size_t)columns + column;
    float sum = 0.0F;
#pragma unroll 4
    for (int s = warp; s < n && column < columns; s += BLOCK / 32) {
        sum += from[(size_t)s * (size_t)columns];
    }
    strand[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        sum = strand[0][lane];
        for (int w = 1; w < BLOCK / 32; w++) {
            sum += strand[w][lane];
        }
        const int which = column / c;
        const nodes<float> to = which == 0 ? out.to[0] : which == 1 ? out.to[1] : out.to[2];
        to.of(node)[column % c] = sum;
    }
}

static inline void launch_fold_sums(const struct oct__lane *lane, const struct oct__args *args,
                                    int first_operand) {
    const struct oct__tensor *x = &args->t[0];
    sums_out out;
    for (int i = 0; i < N_SUMS; i++) {
        out.to[i] = nodes_of<float>(&args->t[first_operand + i]);
    }
    const dim3 grid((unsigned)divided_up((size_t)(N_SUMS * x->c), 32),
                    (unsigned)lane->form.n_nodes);
    launch_kernel(fold_sums, grid, BLOCK, 0, stream_of(lane), (const float *)lane->shared_scratch,
                  x->n, x->c, out);
}

static inline size_t sums_bytes(const struct oct__lane_form *form, const struct oct__tensor *x) {
    return (size_t)form->n_nodes * (size_t)x->n * N_SUMS * (size_t)x->c * sizeof(float);
}

#endif
