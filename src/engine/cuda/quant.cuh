/* SPDX-License-Identifier: Apache-2.0 */
/* quant.cuh - what the kernels on bytes share: bytes and floats, chance, extremes, grids.
 *
 * A quantizer takes two passes: for extremes of samples, which are left in scratch, and for bytes.
 * Where both are one launch (quant_turns.cuh), one block folds those few numbers; where they are
 * two, every block of the second does, so that all know the grid without a third launch between.
 * One block of a node's also writes the grid down and brings the running range up to date, which
 * nobody else reads then.
 *
 * Bytes go in fours, a word of memory. They become floats and back by way of the numbers from 2^23
 * on, whose last bits are whole: a byte put there and 2^23 taken away is exact, and so is adding to
 * 1.5 * 2^23 a number that is to be rounded to the nearest whole one, ties to even.
 */
#ifndef OCT_ENGINE_CUDA_QUANT_CUH
#define OCT_ENGINE_CUDA_QUANT_CUH

#include <cuda_bf16.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/cuda/device.cuh"

extern "C" {
#include "base/rng.h"
#include "engine/grid.h"
}

#define ALL_LANES 0xffffffffU

/* Whether every node's tensor may be read `bytes` at a time. */
static inline bool is_aligned(const struct oct__tensor *t, size_t bytes) {
    return t->n == 0 || ((uintptr_t)t->at % bytes == 0 && t->stride % bytes == 0);
}

static inline uint32_t count_of(const struct oct__tensor *t) {
    return (uint32_t)oct__tensor_count(t);
}

static inline uint32_t sample_of(const struct oct__tensor *t) {
    return (uint32_t)(t->h * t->w * t->c);
}

static inline int divided_up(size_t count, size_t by) {
    return (int)((count + by - 1) / by);
}

/* A number that is divided by often: a multiplication does it, of numbers below 2^31. */
struct divider {
    uint32_t by, factor;
    int shift;

    __device__ uint32_t quotient(uint32_t n) const {
        return (__umulhi(factor, n) + n) >> shift;
    }
    __device__ uint32_t rest(uint32_t n) const {
        return n - quotient(n) * by;
    }
};

static inline divider divider_of(int by) {
    int shift = 0;
    while ((uint64_t)1 << shift < (uint64_t)by) {
        shift++;
    }
    const uint64_t over = ((uint64_t)1 << shift) - (uint64_t)by;
    const divider d = {(uint32_t)by, (uint32_t)((over << 32) / (uint64_t)by + 1), shift};
    return d;
}

/* --- bytes and floats ------------------------------------------------------------------------- */

#define WHOLE 8388608.0F  /* 2^23 */
#define ROUND 12582912.0F /* 1.5 * 2^23 */

/* x = 2^23 + byte, of four without a sign. */
static __device__ inline void lift_bytes(uint32_t word, float x[4]) {
    x[0] = __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7440));
    x[1] = __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7441));
    x[2] = __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7442));
    x[3] = __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7443));
}

/* Four integers' lowest bytes. */
static __device__ inline uint32_t join_bytes(const int q[4]) {
    const uint32_t low = __byte_perm((uint32_t)q[0], (uint32_t)q[1], 0x0040);
    const uint32_t high = __byte_perm((uint32_t)q[2], (uint32_t)q[3], 0x0040);
    return __byte_perm(low, high, 0x5410);
}

/* Their third ones. */
static __device__ inline uint32_t join_thirds(const int q[4]) {
    const uint32_t low = __byte_perm((uint32_t)q[0], (uint32_t)q[1], 0x0062);
    const uint32_t high = __byte_perm((uint32_t)q[2], (uint32_t)q[3], 0x0062);
    return __byte_perm(low, high, 0x5410);
}

static __device__ inline uint32_t load_word(const void *at) {
    return *(const uint32_t *)at;
}

static __device__ inline void load_floats(const float *at, float x[4]) {
    const float4 four = *(const float4 *)at;
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

static __device__ inline void store_floats(float *at, const float x[4]) {
    *(float4 *)at = make_float4(x[0], x[1], x[2], x[3]);
}

static __device__ inline float widen_half(uint32_t half) {
    return __uint_as_float(half << 16);
}

static __device__ inline float widen_high(uint32_t halves) {
    return __uint_as_float(halves & 0xffff0000U);
}

/* The nearest bf16, ties to even; a NaN stays one, whatever its other bits were. */
static __device__ inline uint16_t round_half(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

static __device__ inline uint32_t round_halves(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

static __device__ inline void store_halves(uint16_t *at, const float x[4]) {
    *(uint2 *)at = make_uint2(round_halves(x[0], x[1]), round_halves(x[2], x[3]));
}

/* Bytes on a grid, real = scale * (byte - zero); zero is whole, so that 2^23 + zero is exact. */
struct byte_grid {
    float scale, below;

    __device__ float lifted(float x) const {
        return scale * (x - below);
    }
    __device__ float real(uint8_t byte) const {
        return lifted(WHOLE + (float)byte);
    }
};

static __device__ inline byte_grid grid_bytes(const struct oct__grid *grid) {
    const byte_grid bytes = {grid->scale, WHOLE + grid->zero};
    return bytes;
}

/* Whether a byte, lifted, was clipped; `below` as its grid has it. */
static __device__ inline bool is_clipped(float lifted, float below) {
    return lifted == WHOLE + 255.0F || (lifted == WHOLE && below > WHOLE);
}

/* t held to the borders; a NaN is held to the lower one. */
static __device__ inline float held(float t, float low, float high) {
    return fminf(fmaxf(t, low), high);
}

/* The borders of a grid, and its zero as a number to add. */
struct borders {
    float low, high;
    int zero;
};

static __device__ inline borders borders_of(float zero) {
    const borders all = {-zero, 255.0F - zero, (int)zero};
    return all;
}

/* t rounded to the nearest, its lowest byte alone being of use. */
static __device__ inline int nearest(float t) {
    return __float_as_int(t + ROUND);
}

/* The same, counted from `zero`, a byte; two sums, for a tie goes to the even one of t alone. */
static __device__ inline int nearest_from(float t, float zero) {
    return __float_as_int((t + ROUND) + zero);
}

/* --- chance ----------------------------------------------------------------------------------- */

/* Up or down by 16 random bits k: floor((rint(t * 2^16) + k) / 2^16). */
static __device__ inline int by_chance(float t, uint32_t k) {
    return (__float2int_rn(t * 65536.0F) + (int)k) >> 16;
}

static __device__ inline uint32_t pick_word(const uint32_t word[4], uint32_t w) {
    const uint32_t low = w & 1U ? word[1] : word[0], high = w & 1U ? word[3] : word[2];
    return w & 2U ? high : low;
}

/* The random bits of one element: kernels.def, "rounded by chance". */
static __device__ inline uint32_t draw_one(const struct oct__stream &stream, uint32_t e) {
    const uint32_t j = e % 128U;
    uint32_t word[4];
    oct__philox(&stream, OCT_PHILOX_FEW_ROUNDS, e / 128U * 16U + j % 32U / 2U, word);
    return pick_word(word, j / 32U) >> (j % 2U * 16U) & 0xffffU;
}

/* Of elements e … e + 3, e being a multiple of 4. */
static __device__ inline void draw_four(const struct oct__stream &stream, uint32_t e,
                                        uint32_t k[4]) {
    const uint32_t j = e % 128U, block = e / 128U * 16U + j % 32U / 2U;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word[4];
        oct__philox(&stream, OCT_PHILOX_FEW_ROUNDS, block + i, word);
        const uint32_t picked = pick_word(word, j / 32U);
        k[2 * i] = picked & 0xffffU;
        k[2 * i + 1] = picked >> 16;
    }
}

/* --- extremes --------------------------------------------------------------------------------- */

static __device__ inline float float_at(int order) {
    return __int_as_float(order < 0 ? order ^ INT32_MAX : order);
}

/* Extremes by their places in the order of floats (grid.h). */
struct extremes {
    int lo, hi;

    __device__ void add(float x) {
        const int place = oct__float_order(x);
        lo = min(lo, place);
        hi = max(hi, place);
    }
    __device__ void add(extremes other) {
        lo = min(lo, other.lo);
        hi = max(hi, other.hi);
    }
};

static __device__ inline extremes no_extremes() {
    const extremes none = {INT_MAX, INT_MIN};
    return none;
}

/* Over a warp, all of whose lanes are here; every lane gets them. */
static __device__ inline extremes warp_extremes(extremes e) {
    const extremes all = {__reduce_min_sync(ALL_LANES, e.lo), __reduce_max_sync(ALL_LANES, e.hi)};
    return all;
}

/* Over a block of at most 1024 threads, a multiple of 32; every thread gets them. The room may be
 * used again after the next barrier. */
static __device__ inline extremes block_extremes(extremes e, extremes room[32]) {
    e = warp_extremes(e);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = e;
    }
    __syncthreads();
    e = room[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) {
        e.add(room[w]);
    }
    return e;
}

/* The same of a block of BLOCK threads, for its first warp alone: one barrier, and less to read. */
static __device__ inline extremes first_warp_extremes(extremes e, extremes room[BLOCK / 32]) {
    e = warp_extremes(e);
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = e;
    }
    __syncthreads();
    return threadIdx.x < 32 ? warp_extremes(room[threadIdx.x % (BLOCK / 32)]) : e;
}

/* A magnitude's bits, of which the largest is the largest magnitude, NaN above infinity. */
static __device__ inline uint32_t magnitude(float x) {
    return __float_as_uint(x) & 0x7fffffffU;
}

/* The size of an integer. */
static __device__ inline uint32_t size_of(int x) {
    return x < 0 ? 0U - (uint32_t)x : (uint32_t)x;
}

/* The largest of a block of BLOCK threads, for its first warp alone. */
static __device__ inline uint32_t first_warp_max(uint32_t value, uint32_t room[BLOCK / 32]) {
    value = __reduce_max_sync(ALL_LANES, value);
    if (threadIdx.x % 32 == 0) {
        room[threadIdx.x / 32] = value;
    }
    __syncthreads();
    return threadIdx.x < 32 ? __reduce_max_sync(ALL_LANES, room[threadIdx.x % (BLOCK / 32)])
                            : value;
}

/* --- vectors ---------------------------------------------------------------------------------- */

/* The 256 values between a vector's extremes, as oct__vector_quantize has them. */
struct vector_steps {
    float lo, span, scale, inverse;

    __device__ float at(float x) const {
        return span == 0.0F ? x : lo + scale * rintf((x - lo) * inverse);
    }
};

static __device__ inline vector_steps steps_between(extremes ends) {
    const float lo = float_at(ends.lo), span = float_at(ends.hi) - lo;
    const float scale = oct__span_scale(span);
    const vector_steps steps = {lo, span, scale, 1.0F / scale};
    return steps;
}

/* Of n floats, found by the whole block. */
static __device__ inline vector_steps vector_steps_of(int n, const float *x, extremes room[32]) {
    extremes ends = no_extremes();
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        ends.add(x[i]);
    }
    return steps_between(block_extremes(ends, room));
}

/* --- grids ------------------------------------------------------------------------------------ */

/* Samples whose extremes a block holds at a time. */
enum { FOLDED = 256 };

struct fold_room {
    extremes sample[FOLDED];
    float range[2];
};

/* The mean range of a node's samples, as oct__range_of_batch has it: sums in double, sample by
 * sample. fill(first, count, room) is called by the whole block, with a barrier before and after
 * it, and leaves the extremes of samples first … first + count - 1 in room[0 … count - 1]. */
template <typename Fill>
static __device__ inline void mean_range(int n, const Fill &fill, fold_room &room, float range[2]) {
    const int lane = (int)threadIdx.x; /* 0 has the lower ends, 1 the upper */
    double sum = 0.0;
    for (int first = 0; first < n; first += FOLDED) {
        const int count = min(n - first, (int)FOLDED);
        __syncthreads();
        fill(first, count, room.sample);
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < count && lane < 2; i++) {
            sum += (double)float_at(lane == 0 ? room.sample[i].lo : room.sample[i].hi);
        }
    }
    if (lane < 2) {
        room.range[lane] = (float)(sum / (double)n);
    }
    __syncthreads();
    range[0] = room.range[0];
    range[1] = room.range[1];
}

/* Where a quantizer's range comes from, and where its grid goes. */
struct grid_rule {
    enum oct__range how;
    int n; /* samples */
    nodes<float> running;
    nodes<struct oct__grid> grid;
};

static inline grid_rule grid_rule_of(const struct oct__quant_attr *attr, int n,
                                     const struct oct__tensor *running,
                                     const struct oct__tensor *grid) {
    const grid_rule rule = {attr->range, n, nodes_of<float>(running),
                            nodes_of<struct oct__grid>(grid)};
    return rule;
}

/* The grid of a node's batch, known to the whole block; the node's first block also leaves it, and
 * what the running range becomes. Of a mean range fill() gives the samples' extremes, as above; of
 * a full one own() gives a thread's part of them all. */
template <typename Fill, typename Own>
static __device__ inline struct oct__grid choose_grid(const grid_rule &rule, int node,
                                                      bool is_first, const Fill &fill,
                                                      const Own &own, fold_room &room) {
    float range[2], *running = rule.running.of(node);
    if (rule.how == OCT_RANGE_RUNNING) {
        range[0] = running[0];
        range[1] = running[1];
    } else if (rule.how == OCT_RANGE_MEAN) {
        mean_range(rule.n, fill, room, range);
    } else {
        const extremes all = block_extremes(own(), room.sample);
        range[0] = float_at(all.lo);
        range[1] = float_at(all.hi);
    }
    oct__range_widen(range);
    const struct oct__grid grid = oct__grid_over(range);
    if (is_first && threadIdx.x == 0) {
        *rule.grid.of(node) = grid;
        if (rule.how != OCT_RANGE_RUNNING) {
            oct__range_observe(running, range);
        }
    }
    return grid;
}

#endif
