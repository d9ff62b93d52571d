/* SPDX-License-Identifier: Apache-2.0 */
/* conv.cuh - a convolution seen as a product of matrices whose left one is gathered from an image.
 *
 * Forward, a result is a position of y and a channel o; backward, a position of x and a channel c.
 * Both are sums over taps (places of the kernel) and the channels of the other side:
 *
 *     y (i, o) = sum over t, c of  x(place of tap t at i, c) * w(o, c, t)
 *     dx(i, c) = sum over t, o of dy(place of tap t at i, o) * w(o, c, t)
 *
 * so one kernel serves both, given where a tap lies: a struct taps.
 */
#ifndef OCT_ENGINE_CUDA_CONV_CUH
#define OCT_ENGINE_CUDA_CONV_CUH

#include "engine/cuda/device.cuh"

/* Of one node. `from` is what is gathered, `to` what results. */
struct taps {
    int n, from_h, from_w, from_c, to_h, to_w, to_c;
    int kernel, stride, pad, groups;
    int is_back;
};

static inline struct taps taps_of(const struct oct__args *args, const struct oct__tensor *from,
                                  const struct oct__tensor *to, int is_back) {
    const auto *a = &args->attr.conv;
    const struct taps taps = {from->n, from->h,   from->w,   from->c, to->h,     to->w,
                              to->c,   a->kernel, a->stride, a->pad,  a->groups, is_back};
    return taps;
}

static inline __host__ __device__ int taps_count(const struct taps &t) {
    return t.kernel * t.kernel;
}

static inline __host__ __device__ int taps_results(const struct taps &t) {
    return t.n * t.to_h * t.to_w;
}

/* A result's position: its image, and what a tap's row and column are added to. */
struct place {
    int image, y, x; /* image -1: beyond the last */
};

static __device__ inline place place_of(const taps &t, int position) {
    if (position >= taps_results(t)) {
        return {-1, 0, 0};
    }
    const int x = position % t.to_w, rest = position / t.to_w, y = rest % t.to_h;
    const int scale = t.is_back ? 1 : t.stride, shift = t.is_back ? t.pad : -t.pad;
    return {rest / t.to_h, y * scale + shift, x * scale + shift};
}

/* The pixel of `from` that tap (row, column) reads at a place; -1: none is there. */
static __device__ inline int pixel_of(const taps &t, const place &at, int row, int column) {
    int y, x;
    if (t.is_back) {
        y = at.y - row;
        x = at.x - column;
        if ((y | x) < 0 || y % t.stride || x % t.stride) {
            return -1;
        }
        y /= t.stride;
        x /= t.stride;
    } else {
        y = at.y + row;
        x = at.x + column;
    }
    if (at.image < 0 || y < 0 || y >= t.from_h || x < 0 || x >= t.from_w) {
        return -1;
    }
    return (at.image * t.from_h + y) * t.from_w + x;
}

/* Weights are [out][in / groups][tap]: the place of the one between channel `from` of its group on
 * the gathered side and channel `to` on the other, both counted inside their group. */
static __device__ inline size_t weight_at(const taps &t, int group, int from, int to, int tap) {
    const int from_c = t.from_c / t.groups, to_c = t.to_c / t.groups, n_taps = taps_count(t);
    return t.is_back ? ((size_t)(group * from_c + from) * to_c + to) * n_taps + tap
                     : ((size_t)(group * to_c + to) * from_c + from) * n_taps + tap;
}

#endif
