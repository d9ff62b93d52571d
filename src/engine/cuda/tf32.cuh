/* SPDX-License-Identifier: Apache-2.0 */
/* tf32.cuh - products of floats on tensor cores, and the part of an image that a block multiplies.
 *
 * A tensor core multiplies numbers of eleven bits ("tf32"). A float is the sum of two of them and a rest
 * of at most 2^-23 of it: the nearest one, and what is then missing, cut off. So
 *
 *     a b  =  high(a) high(b) + high(a) low(b) + low(a) high(b)  +  an error of at most 2^-21 |a b|
 *
 * which three instructions compute. They add up in floats but cut sums off instead of rounding them;
 * therefore only a few follow one another before what they found is added to the sum by an ordinary,
 * rounding addition: `add_products`. An infinite factor makes NaN.
 */
#ifndef OCT_ENGINE_CUDA_TF32_CUH
#define OCT_ENGINE_CUDA_TF32_CUH

#include "engine/cuda/conv.cuh"
#include "engine/cuda/mma.cuh"

/* N floats of a fragment, each in two parts. */
template <int N> struct halves { uint32_t high[N], low[N]; };

/* The nearest number of eleven bits. (The instruction for it is, on many a GPU, made of more of them, to
 * keep NaN; here `low` keeps it.) */
static __device__ inline uint32_t tf32_of(float x) {
    return (__float_as_uint(x) + 0x1000U) & 0xffffe000U;
}

template <int N> static __device__ inline halves<N> split(const uint32_t *bits) {
    halves<N> both;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float x = __uint_as_float(bits[i]);
        both.high[i] = tf32_of(x);
        both.low[i] = __float_as_uint(x - __uint_as_float(both.high[i]));
    }
    return both;
}

/* sums += a * b for a tile of M by N fragments: the small products first, and neighbours that do not wait
 * for one another. */
template <int M, int N>
static __device__ inline void multiply(float sums[M][N][4], const halves<4> a[M],
                                       const halves<2> b[N]) {
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            mma_tf32(sums[m][n], a[m].low, b[n].high);
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            mma_tf32(sums[m][n], a[m].high, b[n].low);
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            mma_tf32(sums[m][n], a[m].high, b[n].high);
        }
    }
}

template <int M, int N>
static __device__ inline void add_products(float sums[M][N][4], const float products[M][N][4]) {
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) {
        sums[i / 4 / N][i / 4 % N][i % 4] += products[i / 4 / N][i / 4 % N][i % 4];
    }
}

/* --- regions ------------------------------------------------------------------------------------ */

/* Division of small numbers (a product of both below 2^32) by one known to the host. */
struct divisor {
    uint32_t factor; /* 0: by 1 */
};

static inline divisor divisor_of(int by) {
    return {by == 1 ? 0U : (uint32_t)((UINT64_C(1) << 32) / (uint64_t)by + 1)};
}

static __device__ inline int quotient(int n, const divisor &by) {
    return by.factor ? (int)((uint64_t)by.factor * (uint32_t)n >> 32) : n;
}

/* What a block works on: `rows` rows of results of one image, or all rows of a few images, and what
 * their taps read. Backwards with a stride, results fall into classes, by what is left of their
 * coordinates divided by it: of one class, all have the same taps, and neighbours read neighbours. So a
 * block has results of one class, `apart` from one another; otherwise there is one class.
 *
 * The pixels that are read lie in shared memory, once, with zeros for those outside the image. */
struct region {
    int images, rows, row_blocks; /* of a block; blocks for an image */
    int class_h, class_w, apart;  /* results of a class, the largest */
    int step;                     /* in the region, between pixels that neighbours read */
    int grain;                    /* in the image, between neighbours of the region */
    int in_h, in_w;               /* the region's part of an image */
    divisor by_rows, by_class_w, by_in_h, by_in_w;
};

static inline __host__ __device__ int region_pixels(const region &r) {
    return r.images * r.in_h * r.in_w;
}

/* The largest region of at most `positions` results and `pixels` pixels. Returns 0 if a row is too much. */
static inline int make_region(const taps &t, int positions, int pixels, region *r) {
    const int apart = t.is_back ? t.stride : 1, stride = t.is_back ? 1 : t.stride;
    const int span = (t.kernel + apart - 1) / apart; /* taps of a class, in a line */
    r->class_h = (t.to_h + apart - 1) / apart;
    r->class_w = (t.to_w + apart - 1) / apart;
    r->apart = apart;
    r->grain = t.kernel == 1 ? stride : 1;
    r->step = stride / r->grain;
    r->in_w = (r->class_w - 1) * r->step + span;
    r->images = 1;
    for (r->rows = r->class_h; r->rows > 0; r->rows--) {
        r->in_h = (r->rows - 1) * r->step + span;
        if (r->rows * r->class_w <= positions && region_pixels(*r) <= pixels) {
            break;
        }
    }
    if (r->rows == 0) {
        return 0;
    }
    r->row_blocks = (r->class_h + r->rows - 1) / r->rows;
    r->rows = (r->class_h + r->row_blocks - 1) / r->row_blocks;
    r->in_h = (r->rows - 1) * r->step + span;
    if (r->row_blocks == 1) {
        const int by_results = positions / (r->rows * r->class_w),
                  by_pixels = pixels / region_pixels(*r);
        r->images = by_results < by_pixels ? by_results : by_pixels;
        r->images = r->images < t.n ? r->images : t.n;
    }
    r->by_rows = divisor_of(r->rows);
    r->by_class_w = divisor_of(r->class_w);
    r->by_in_h = divisor_of(r->in_h);
    r->by_in_w = divisor_of(r->in_w);
    return 1;
}

/* Blocks for one node. */
static inline int region_blocks(const taps &t, const region &r) {
    return (t.n + r.images - 1) / r.images * r.row_blocks * r.apart * r.apart;
}

/* One coordinate of a class: the region's line i is line first + i * grain of the image behind that of
 * the block's first result, and offset i there belongs to tap `tap` + i * `tap_step`, of `n` taps. */
struct axis {
    int first, n, tap, tap_step;
};

static __device__ inline axis axis_of(const taps &t, int rest) {
    if (!t.is_back) {
        return {-t.pad, t.kernel, 0, 1};
    }
    const int least = (rest + t.pad) % t.stride; /* tap */
    const int n = least < t.kernel ? (t.kernel - 1 - least) / t.stride + 1 : 0;
    return {(rest + t.pad - least) / t.stride - n + 1, n, least + (n - 1) * t.stride, -t.stride};
}

/* A block's place. */
struct corner {
    int image, row; /* first ones; a row of the class */
    int rest_y, rest_x;
    axis y, x;
};

static __device__ inline corner corner_of(const taps &t, const region &r, int block) {
    const int n_classes = r.apart * r.apart, which = block % n_classes, rest = block / n_classes;
    const int rest_y = which / r.apart, rest_x = which % r.apart;
    return {rest / r.row_blocks * r.images,
            rest % r.row_blocks * r.rows,
            rest_y,
            rest_x,
            axis_of(t, rest_y),
            axis_of(t, rest_x)};
}

/* A result's place in its block. */
struct spot {
    int image, row, column;
};

static __device__ inline spot spot_of(const region &r, int position) {
    const int line = quotient(position, r.by_class_w), image = quotient(line, r.by_rows);
    return {image, line - image * r.rows, position - line * r.class_w};
}

static __device__ inline int region_results(const region &r) {
    return r.images * r.rows * r.class_w;
}

/* The pixel of the region that offset (0, 0) reads for a result. */
static __device__ inline int first_pixel(const region &r, const spot &at) {
    return (at.image * r.in_h + at.row * r.step) * r.in_w + at.column * r.step;
}

/* The number of a result among all of its node's; -1: there is none. */
static __device__ inline int result_of(const taps &t, const region &r, const corner &from,
                                       const spot &at) {
    const int image = from.image + at.image;
    const int y = (from.row + at.row) * r.apart + from.rest_y;
    const int x = at.column * r.apart + from.rest_x;
    return at.image < r.images && image < t.n && y < t.to_h && x < t.to_w
               ? (image * t.to_h + y) * t.to_w + x
               : -1;
}

/* Copies channels `channel` … `channel` + `n_units` * EACH - 1 of the region, of which `PITCH` floats are
 * a pixel's: EACH, 1 or 4, at a time. Those beyond the last are 0. n_units is 1 << shift. */
template <int EACH, int PITCH>
static __device__ inline void copy_region(const taps &t, const region &r, const corner &from,
                                          const float *image, int channel, int shift, float *to) {
    const int row_step = t.is_back ? 1 : t.stride, count = region_pixels(r) << shift;
    for (int e = (int)threadIdx.x; e < count; e += (int)blockDim.x) {
        const int unit = e & ((1 << shift) - 1), pixel = e >> shift;
        const int line = quotient(pixel, r.by_in_w), n = quotient(line, r.by_in_h);
        const int y = from.row * row_step + from.y.first + (line - n * r.in_h) * r.grain;
        const int x = from.x.first + (pixel - line * r.in_w) * r.grain;
        const int c = channel + unit * EACH;
        const int is_there = from.image + n < t.n && y >= 0 && y < t.from_h && x >= 0 &&
                             x < t.from_w && c < t.from_c;
        const size_t at =
            is_there ? ((size_t)((from.image + n) * t.from_h + y) * t.from_w + x) * t.from_c + c
                     : 0;
        if (EACH == 4) {
            copy_four(to + pixel * PITCH + unit * 4, image + at, is_there);
        } else {
            copy_one(to + pixel * PITCH + unit, image + at, is_there);
        }
    }
}

#endif
