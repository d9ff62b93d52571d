/* SPDX-License-Identifier: Apache-2.0 */
/* range_values.cuh - what the range norms' kernels read and write, behind one face: bytes on a grid
 * or floats as x, s8 with a scale or floats as dy, floats or bf16 as dx.
 *
 * A kernel takes one of these by value and asks it for the view of a node's sample. Loading is
 * apart from making values, so that a thread has several loads on their way before it needs the
 * first; words at fixed distances from one another are asked for `from` the first, which gives one
 * address. A pointer that is not aligned costs speed, never another order of sums; who knows that
 * all are aligned asks for words as a whole.
 */
#ifndef OCT_ENGINE_CUDA_RANGE_VALUES_CUH
#define OCT_ENGINE_CUDA_RANGE_VALUES_CUH

#include "engine/cuda/quant.cuh"

/* --- what is read ----------------------------------------------------------------------------- */

/* Four neighbours or one as they lie in memory, and as floats. */
template <int WIDE> struct raw_bytes;
template <> struct raw_bytes<4> { uint32_t word; };
template <> struct raw_bytes<1> { uint8_t byte; };

static __device__ inline raw_bytes<4> raw_at(const uint8_t *q, bool is_aligned, raw_bytes<4>) {
    raw_bytes<4> raw;
    raw.word = is_aligned ? load_word(q)
                          : (uint32_t)q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 |
                                (uint32_t)q[3] << 24;
    return raw;
}

static __device__ inline raw_bytes<1> raw_at(const uint8_t *q, bool, raw_bytes<1>) {
    const raw_bytes<1> raw = {*q};
    return raw;
}

static __device__ inline raw_bytes<4> raw_whole(const uint8_t *q, raw_bytes<4>) {
    const raw_bytes<4> raw = {load_word(q)};
    return raw;
}

static __device__ inline raw_bytes<1> raw_whole(const uint8_t *q, raw_bytes<1>) {
    const raw_bytes<1> raw = {*q};
    return raw;
}

static __device__ inline void lift_raw(raw_bytes<4> raw, float x[4]) {
    lift_bytes(raw.word, x);
}

static __device__ inline void lift_raw(raw_bytes<1> raw, float x[1]) {
    x[0] = WHOLE + (float)raw.byte;
}

template <int WIDE> struct raw_floats { float x[WIDE]; };

template <int WIDE>
static __device__ inline raw_floats<WIDE> raw_floats_at(const float *x, bool is_aligned) {
    raw_floats<WIDE> raw;
    if constexpr (WIDE == 4) {
        if (is_aligned) {
            load_floats(x, raw.x);
            return raw;
        }
    }
    for (int i = 0; i < WIDE; i++) {
        raw.x[i] = x[i];
    }
    return raw;
}

/* How the gradient finds the extremes of bytes and of floats: range_evonorm_grad.cuh. */
template <int WIDE> struct byte_ends;
template <int WIDE> struct float_ends;

/* x as bytes on a grid. A sample's elements are counted from 0; between raw and value an element is
 * its byte, lifted. */
struct byte_values {
    static constexpr bool has_bytes = true;
    nodes<const uint8_t> q;
    nodes<const struct oct__grid> grid;
    bool is_aligned;

    struct view {
        const uint8_t *q;
        byte_grid grid;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {q + at, grid, is_aligned};
            return further;
        }

        template <int WIDE> using raw = raw_bytes<WIDE>;
        template <int WIDE> using ends = byte_ends<WIDE>;

        template <int WIDE> __device__ raw_bytes<WIDE> load(uint32_t at) const {
            return raw_at(q + at, is_aligned, raw_bytes<WIDE>());
        }
        template <int WIDE> __device__ raw_bytes<WIDE> load_whole(uint32_t at) const {
            return raw_whole(q + at, raw_bytes<WIDE>());
        }
        template <int WIDE> __device__ void lift(raw_bytes<WIDE> raw, float x[WIDE]) const {
            lift_raw(raw, x);
        }
        __device__ float value(float lifted) const {
            return grid.lifted(lifted);
        }
        __device__ bool was_clipped(float lifted) const {
            return is_clipped(lifted, grid.below);
        }
        __device__ float lifted_at(uint32_t at) const {
            return WHOLE + (float)q[at];
        }
        /* Bytes are numbers; a grid may be none, and then everything on it is lost. */
        __device__ bool is_lost() const {
            return !(fabsf(grid.scale * 255.0F) <= FLT_MAX);
        }
        __device__ bool is_nan(uint32_t) const {
            return is_lost();
        }
        /* Bytes do not show a spread below one step. */
        __device__ float shown(float spread) const {
            return spread < grid.scale ? grid.scale : spread;
        }
    };
    __device__ view of(int node, size_t first) const {
        const view at = {q.of(node) + first, grid_bytes(grid.of(node)), is_aligned};
        return at;
    }
};

struct float_values {
    static constexpr bool has_bytes = false;
    nodes<const float> x;
    bool is_aligned;

    struct view {
        const float *x;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {x + at, is_aligned};
            return further;
        }

        template <int WIDE> using raw = raw_floats<WIDE>;
        template <int WIDE> using ends = float_ends<WIDE>;

        template <int WIDE> __device__ raw_floats<WIDE> load(uint32_t at) const {
            return raw_floats_at<WIDE>(x + at, is_aligned);
        }
        template <int WIDE> __device__ raw_floats<WIDE> load_whole(uint32_t at) const {
            return raw_floats_at<WIDE>(x + at, true);
        }
        template <int WIDE> __device__ void lift(raw_floats<WIDE> raw, float to[WIDE]) const {
            for (int i = 0; i < WIDE; i++) {
                to[i] = raw.x[i];
            }
        }
        __device__ float value(float lifted) const {
            return lifted;
        }
        __device__ bool was_clipped(float) const {
            return false;
        }
        __device__ float lifted_at(uint32_t at) const {
            return x[at];
        }
        __device__ bool is_lost() const {
            return false;
        }
        __device__ bool is_nan(uint32_t at) const {
            return isnan(x[at]);
        }
        __device__ float shown(float spread) const {
            return spread;
        }
    };
    __device__ view of(int node, size_t first) const {
        const view at = {x.of(node) + first, is_aligned};
        return at;
    }
};

/* dy as s8 with a scale, or as floats. */
struct byte_grads {
    nodes<const uint8_t> q;
    nodes<const float> scale;
    bool is_per_sample, is_aligned;

    struct view {
        const uint8_t *q;
        float scale;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {q + at, scale, is_aligned};
            return further;
        }

        template <int WIDE> using raw = raw_bytes<WIDE>;

        template <int WIDE> __device__ raw_bytes<WIDE> load(uint32_t at) const {
            return raw_at(q + at, is_aligned, raw_bytes<WIDE>());
        }
        template <int WIDE> __device__ raw_bytes<WIDE> load_whole(uint32_t at) const {
            return raw_whole(q + at, raw_bytes<WIDE>());
        }
        __device__ void values(raw_bytes<4> raw, float dy[4]) const {
            lift_bytes(raw.word ^ 0x80808080U, dy);
            for (int i = 0; i < 4; i++) {
                dy[i] = scale * (dy[i] - (WHOLE + 128.0F));
            }
        }
        __device__ void values(raw_bytes<1> raw, float dy[1]) const {
            dy[0] = scale * (float)(int8_t)raw.byte;
        }
        __device__ float one(uint32_t at) const {
            return scale * (float)(int8_t)q[at];
        }
    };
    __device__ view of(int node, int sample, size_t first) const {
        const view at = {q.of(node) + first, scale.of(node)[is_per_sample ? sample : 0],
                         is_aligned};
        return at;
    }
};

struct float_grads {
    nodes<const float> dy;
    bool is_aligned;

    struct view {
        const float *dy;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {dy + at, is_aligned};
            return further;
        }

        template <int WIDE> using raw = raw_floats<WIDE>;

        template <int WIDE> __device__ raw_floats<WIDE> load(uint32_t at) const {
            return raw_floats_at<WIDE>(dy + at, is_aligned);
        }
        template <int WIDE> __device__ raw_floats<WIDE> load_whole(uint32_t at) const {
            return raw_floats_at<WIDE>(dy + at, true);
        }
        template <int WIDE> __device__ void values(raw_floats<WIDE> raw, float to[WIDE]) const {
            for (int i = 0; i < WIDE; i++) {
                to[i] = raw.x[i];
            }
        }
        __device__ float one(uint32_t at) const {
            return dy[at];
        }
    };
    __device__ view of(int node, int, size_t first) const {
        const view at = {dy.of(node) + first, is_aligned};
        return at;
    }
};

/* --- what is written -------------------------------------------------------------------------- */

struct float_sink {
    nodes<float> to;
    bool is_aligned;

    struct view {
        float *to;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {to + at, is_aligned};
            return further;
        }

        template <int WIDE> __device__ void put(uint32_t at, const float x[WIDE]) const {
            if constexpr (WIDE == 4) {
                if (is_aligned) {
                    store_floats(to + at, x);
                    return;
                }
            }
            for (int i = 0; i < WIDE; i++) {
                to[at + (uint32_t)i] = x[i];
            }
        }
        template <int WIDE> __device__ void put_whole(uint32_t at, const float x[WIDE]) const {
            if constexpr (WIDE == 4) {
                store_floats(to + at, x);
            } else {
                to[at] = x[0];
            }
        }
        __device__ void add(uint32_t at, float x) const {
            to[at] = to[at] + x;
        }
    };
    __device__ view of(int node, size_t first) const {
        const view at = {to.of(node) + first, is_aligned};
        return at;
    }
};

struct half_sink {
    nodes<uint16_t> to;
    bool is_aligned;

    struct view {
        uint16_t *to;
        bool is_aligned;

        __device__ view from(uint32_t at) const {
            const view further = {to + at, is_aligned};
            return further;
        }

        template <int WIDE> __device__ void put(uint32_t at, const float x[WIDE]) const {
            if constexpr (WIDE == 4) {
                if (is_aligned) {
                    store_halves(to + at, x);
                    return;
                }
            }
            for (int i = 0; i < WIDE; i++) {
                to[at + (uint32_t)i] = round_half(x[i]);
            }
        }
        template <int WIDE> __device__ void put_whole(uint32_t at, const float x[WIDE]) const {
            if constexpr (WIDE == 4) {
                store_halves(to + at, x);
            } else {
                to[at] = round_half(x[0]);
            }
        }
    };
    __device__ view of(int node, size_t first) const {
        const view at = {to.of(node) + first, is_aligned};
        return at;
    }
};

#endif
