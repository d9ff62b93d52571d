/* SPDX-License-Identifier: Apache-2.0 */
/* range_spans.cuh - Range EvoNorm's y of bytes for the shapes that networks usually have: a row of
 * channels is a power of two, and a group has an even number of them.
 *
 * Nobody knows y's grid before all of a node's spreads are known, and every block of write_norm
 * finds it anew from the extremes that find_spread left: n samples times c channels of them, which
 * took as long as the block's own bytes did. So a block here has a *span*: several samples where
 * the launch has many, and a piece of one only where it has few. A launch then has about as many
 * blocks as a GPU takes at a time, and each finds the grid once.
 *
 * The numbers of threads and channels being powers of two, a thread has the same four channels in
 * all of its rows, and the same two in all of the extremes that it folds.
 */
#ifndef OCT_ENGINE_CUDA_RANGE_SPANS_CUH
#define OCT_ENGINE_CUDA_RANGE_SPANS_CUH

#include "engine/cuda/range_evonorm.cuh"

/* Blocks of a launch: a block's share of the extremes is small beside its bytes with the former,
 * the latter are as many as a GPU of 132 processors takes at a time. */
enum { SPAN_BLOCKS = 256, SPAN_BLOCKS_MOST = 512 };
/* Words that a thread loads at once, elements from one to the next, and elements of all threads. */
enum { SPAN_TURN = 4, SPAN_STEP = BLOCK * 4, SPAN_ELEMENTS = SPAN_TURN * SPAN_STEP };
/* Scales of a block's samples: one a thread. */
enum { SPAN_SCALES = BLOCK };

struct span_form {
    int samples, pieces; /* of a block, of a sample; one of them is 1 */
    int parts;           /* of a node's samples */
    uint32_t length;     /* elements of a piece */
};

/* False: the shape is not like this. */
static inline bool span_form_of(const norm_form &form, int n_nodes, span_form *out) {
    const int size = form.hw * form.c, units = n_nodes * form.n;
    if (form.c < 4 || form.c > 2 * BLOCK || (form.c & (form.c - 1)) != 0 || form.width % 2 != 0) {
        return false;
    }
    const int most = form.groups < SPAN_SCALES ? SPAN_SCALES / form.groups : 1;
    const int wanted = divided_up((size_t)units, SPAN_BLOCKS_MOST);
    const int samples = wanted < most ? wanted : most;
    const int turns = divided_up((size_t)size, SPAN_ELEMENTS);
    const int enough = units < SPAN_BLOCKS ? SPAN_BLOCKS / units : 1;
    const int each = divided_up((size_t)turns, (size_t)(enough < turns ? enough : turns));
    const span_form span = {samples, divided_up((size_t)turns, (size_t)each),
                            divided_up((size_t)form.n, (size_t)samples),
                            (uint32_t)each * SPAN_ELEMENTS};
    *out = span;
    return true;
}

/* --- the grid --------------------------------------------------------------------------------- */

/* Two neighbouring channels' part in the extremes of y. */
struct channel_pair {
    float gamma[2], beta[2];

    __device__ void add(float4 e, float used, extremes &ends) const {
        ends.add(norm_of(gamma[0], e.x, used, beta[0]));
        ends.add(norm_of(gamma[0], e.y, used, beta[0]));
        ends.add(norm_of(gamma[1], e.z, used, beta[1]));
        ends.add(norm_of(gamma[1], e.w, used, beta[1]));
    }
};

/* What a thread folds: pairs of channels of a node's samples, BLOCK apart. The first it asks for
 * before it needs them. */
enum { EARLY_PAIRS = 4 };

struct pair_fold {
    const float4 *e;    /* from the thread's first pair on */
    const float *scale; /* of the pair's group in its sample */
    int scale_step, left;
    channel_pair pair;
    float4 early[EARLY_PAIRS];
    float early_scale[EARLY_PAIRS];

    __device__ void begin(const norm_form &form, const norm_params &of, const norm_bytes &bytes,
                          int node) {
        const int thread = (int)threadIdx.x, pairs = form.c / 2;
        const int channel = (thread & (pairs - 1)) * 2;
        const int down = (int)form.by_c.quotient(threadIdx.x * 2U);
        const size_t before = (size_t)node * (size_t)form.n * (size_t)form.c;
        e = (const float4 *)(bytes.peaks + before) + thread;
        scale = of.scale.of(node) + down * form.groups + group_of(form, channel);
        scale_step = (int)form.by_c.quotient(2U * BLOCK) * form.groups;
        left = thread < form.n * pairs ? (form.n * pairs - thread - 1) / BLOCK + 1 : 0;
        for (int i = 0; i < 2; i++) {
            pair.gamma[i] = of.gamma.of(node)[channel + i];
            pair.beta[i] = of.beta.of(node)[channel + i];
        }
#pragma unroll
        for (int i = 0; i < EARLY_PAIRS; i++) {
            if (i < left) {
                early[i] = e[i * BLOCK];
                early_scale[i] = scale[i * scale_step];
            }
        }
    }
    __device__ extremes all(const vector_steps &steps) const {
        extremes ends = no_extremes();
#pragma unroll
        for (int i = 0; i < EARLY_PAIRS; i++) {
            if (i < left) {
                pair.add(early[i], steps.at(early_scale[i]), ends);
            }
        }
#pragma unroll 4
        for (int i = EARLY_PAIRS; i < left; i++) {
            pair.add(e[i * BLOCK], steps.at(scale[i * scale_step]), ends);
        }
        return ends;
    }
};

/* What scale_steps finds, by a block whose size is known. */
static __device__ inline vector_steps span_steps(const norm_form &form, const norm_params &of,
                                                 int node, extremes room[32]) {
    const vector_steps same = {0.0F, 0.0F, 0.0F, 0.0F};
    const float *scale = of.scale.of(node);
    extremes ends = no_extremes();
#pragma unroll 4
    for (int i = (int)threadIdx.x; of.moves_scale && i < form.n * form.groups; i += BLOCK) {
        ends.add(scale[i]);
    }
    return of.moves_scale ? steps_between(block_extremes(ends, room)) : same;
}

static __device__ inline struct oct__grid span_grid(const norm_form &form, const norm_params &of,
                                                    const vector_steps &steps,
                                                    const norm_bytes &bytes, int node,
                                                    bool is_first, const pair_fold &pairs,
                                                    fold_room &room) {
    const extremes *found = bytes.found + (size_t)node * (size_t)form.n;
    return choose_grid(
        bytes.rule, node, is_first,
        [&](int first, int count, extremes *sample) {
            leave_samples(form, of, steps, bytes, node, first, count, sample);
        },
        [&]() {
            if (bytes.found == NULL) {
                return pairs.all(steps);
            }
            extremes own = no_extremes();
            for (int i = (int)threadIdx.x; i < form.n; i += BLOCK) {
                own.add(found[i]);
            }
            return own;
        },
        room);
}

/* --- y ---------------------------------------------------------------------------------------- */

/* A thread's words of a turn, which begins at element `at`; those before `end`. */
template <typename View>
static __device__ inline void load_span(const View &x, uint32_t at, uint32_t end,
                                        raw_bytes<4> raw[SPAN_TURN]) {
    const View here = x.from(at);
    const int left = (int)(end - at);
#pragma unroll
    for (int u = 0; u < SPAN_TURN; u++) {
        if (u * SPAN_STEP < left) {
            raw[u] = here.template load_whole<4>((uint32_t)u * SPAN_STEP);
        }
    }
}

/* Every address is aligned. The next turn's words are on their way while those of a turn are
 * made. */
template <bool CHANCE>
static __global__ void __launch_bounds__(BLOCK, CHANCE ? 3 : 4)
    write_spans(byte_values values, norm_form form, span_form span, norm_params of,
                norm_bytes bytes) {
    __shared__ extremes room[32];
    __shared__ fold_room fold;
    __shared__ float used[SPAN_SCALES];
    const int node = (int)blockIdx.z, sample = (int)blockIdx.x * span.samples;
    const int last = min(form.n, sample + span.samples), thread = (int)threadIdx.x;
    const uint32_t size = (uint32_t)form.hw * (uint32_t)form.c;
    const uint32_t first = (uint32_t)sample * size + blockIdx.y * span.length;
    const int channel = thread * 4 & (form.c - 1);
    const auto x = values.of(node, 0);
    uint32_t at = first + (uint32_t)thread * 4U, end = (uint32_t)(sample + 1) * size;
    if (span.pieces > 1) {
        end = min(end, first + span.length);
    }
    raw_bytes<4> raw[SPAN_TURN], next[SPAN_TURN];
    load_span(x, at, end, raw);

    pair_fold pairs;
    pairs.left = 0;
    if (bytes.rule.how == OCT_RANGE_FULL && bytes.found == NULL) {
        pairs.begin(form, of, bytes, node);
    }
    const int n_scales = (last - sample) * form.groups, scale_at = sample * form.groups + thread;
    float own_scale = thread < n_scales ? of.scale.of(node)[scale_at] : 0.0F;
    float gamma[4], beta[4], v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = of.v.of(node)[channel + i];
    }
    const vector_steps steps = span_steps(form, of, node, room);
    if (thread < n_scales) {
        own_scale = steps.at(own_scale);
        used[thread] = own_scale;
        if (blockIdx.y == 0) {
            of.used.of(node)[scale_at] = own_scale;
        }
    }
    const bool is_first = blockIdx.y == 0 && blockIdx.x == 0;
    const struct oct__grid grid = span_grid(form, of, steps, bytes, node, is_first, pairs, fold);
    for (int i = 0; i < 4; i++) { /* the first level of cache has them */
        gamma[i] = of.gamma.of(node)[channel + i];
        beta[i] = of.beta.of(node)[channel + i];
    }
    __syncthreads();

    const float *scale = used + group_of(form, channel);
    const int beside = group_of(form, channel + 2) - group_of(form, channel);
    for (int left = last - sample;;) {
        uint32_t then = at + SPAN_ELEMENTS, then_end = end;
        const bool is_sample_done = then - (uint32_t)thread * 4U >= end;
        if (is_sample_done) {
            left--;
            then = end + (uint32_t)thread * 4U;
            then_end = end + size;
        }
        if (left > 0) {
            load_span(x, then, then_end, next);
        }
        const float factor[2] = {scale[0], scale[beside]};
        uint8_t *to = bytes.q.of(node) + at;
        const int elements = (int)(end - at);
#pragma unroll
        for (int u = 0; u < SPAN_TURN; u++) {
            if (u * SPAN_STEP >= elements) {
                break;
            }
            float y[4];
            x.lift<4>(raw[u], y);
            for (int i = 0; i < 4; i++) {
                const float value = x.value(y[i]);
                const float e = value * gate((v[i] * value) * SIXTH + 0.5F);
                y[i] = norm_of(gamma[i], e, factor[i / 2], beta[i]);
            }
            put_bytes<4, CHANCE>(bytes, node, at + (uint32_t)u * SPAN_STEP, grid, y,
                                 to + u * SPAN_STEP);
        }
        if (left == 0) {
            break;
        }
#pragma unroll
        for (int u = 0; u < SPAN_TURN; u++) {
            raw[u] = next[u];
        }
        scale += is_sample_done ? form.groups : 0;
        at = then;
        end = then_end;
    }
}

static inline void launch_spans(const struct oct__lane *lane, const norm_form &form,
                                const span_form &span, const byte_values &x, const norm_params &of,
                                const norm_bytes &bytes, bool by_chance) {
    const dim3 grid((unsigned)span.parts, (unsigned)span.pieces, (unsigned)lane->form.n_nodes);
    launch_kernel(by_chance ? write_spans<true> : write_spans<false>, grid, BLOCK, 0,
                  stream_of(lane), x, form, span, of, bytes);
}

#endif
