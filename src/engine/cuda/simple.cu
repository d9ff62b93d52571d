/* SPDX-License-Identifier: Apache-2.0 */
/* simple.cu - the GPU's input, element-wise operations, pooling, loss and search for NaN.
 *
 * One launch each and no scratch. Everything but the loss has the CPU's bits: a pool's thread walks
 * its window in the CPU's order, and gradients of pools are gathered, each element visiting the
 * windows that cover it in ascending order, where the CPU scatters window after window.
 *
 * Where the CPU refuses an operand (a sample that the dataset does not have, a label that is no
 * class), the kernel reports it and its result is NaN.
 */
#include "engine/cuda/four.cuh"

extern "C" {
#include "base/rng.h"
}

extern "C" size_t oct__cuda_simple_scratch(enum oct__op op, const struct oct__lane_form *form,
                                           const struct oct__args *args) {
    (void)op;
    (void)form;
    (void)args;
    return 0;
}

static __device__ inline float not_a_number() {
    return __int_as_float(0x7fffffff);
}

/* --- input ----------------------------------------------------------------------------------- */

/* Sizes of an image, and how many there are. */
struct images {
    int n, h, w, c;
};

enum { PICK = 5 }; /* row, dy, dx, flip, label: what data/sampler.h calls a pick */

/* Grid: elements of an image, samples, nodes. */
static __global__ void __launch_bounds__(BLOCK)
    batch_kernel(struct images all, int n, nodes<const uint8_t> images, nodes<const int32_t> picks,
                 nodes<const float> luts, nodes<float> x, nodes<int32_t> labels,
                 struct oct__cuda_fault *fault) {
    const int node = (int)blockIdx.z, count = all.h * all.w * all.c;
    const float *lut = luts.of(node);
    for (int sample = (int)blockIdx.y; sample < n; sample += (int)gridDim.y) {
        const int32_t *pick = picks.of(node) + PICK * sample;
        const int32_t row = pick[0], flip = pick[3];
        const int64_t dy = pick[1], dx = pick[2]; /* any shift: past the edge it is black */
        const int known = row >= 0 && row < all.n;
        const uint8_t *from = images.of(node) + (size_t)(known ? row : 0) * (size_t)count;
        float *to = x.of(node) + (size_t)sample * (size_t)count;
        for (int e = (int)first_element(); e < count; e += (int)element_step()) {
            const int c = e % all.c, column = e / all.c % all.w, y = e / all.c / all.w;
            const int64_t from_y = y + dy, from_x = (flip ? all.w - 1 - column : column) + dx;
            const int inside = from_y >= 0 && from_y < all.h && from_x >= 0 && from_x < all.w;
            const uint8_t byte = inside ? from[(from_y * all.w + from_x) * all.c + c] : 0;
            to[e] = known ? lut[c * 256 + byte] : not_a_number();
        }
        if (first_element() == 0) {
            labels.of(node)[sample] = pick[4];
            if (!known) {
                report(fault, OCT_CUDA_WRONG_SAMPLE, row, all.n);
            }
        }
    }
}

extern "C" oct_status oct__cuda_batch(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *from = &args->t[0], *x = &args->t[3];
    const struct images all = {from->n, x->h, x->w, x->c};
    const int count = x->h * x->w * x->c;
    const int blocks = (count + BLOCK - 1) / BLOCK;
    const dim3 grid((unsigned)blocks, (unsigned)(x->n < 65535 ? x->n : 65535),
                    (unsigned)lane->form.n_nodes);
    launch_kernel(batch_kernel, grid, BLOCK, 0, stream_of(lane), all, x->n,
                  nodes_of<const uint8_t>(from), nodes_of<const int32_t>(&args->t[1]),
                  nodes_of<const float>(&args->t[2]), nodes_of<float>(x),
                  nodes_of<int32_t>(&args->t[4]), fault_of(lane));
    return oct__cuda_launched("batch");
}

/* --- element by element ---------------------------------------------------------------------- */

struct relu {
    enum { READS_B = 0 };
    __device__ float operator()(float x, float) const {
        return x < 0.0F ? 0.0F : x;
    }
};

extern "C" oct_status oct__cuda_relu(const struct oct__lane *lane, const struct oct__args *args) {
    launch_two(lane, &args->t[0], &args->t[0], &args->t[1], relu());
    return oct__cuda_launched("relu");
}

struct relu_grad {
    enum { READS_B = 1 };
    __device__ float operator()(float y, float dy) const {
        return y > 0.0F ? dy : 0.0F;
    }
};

extern "C" oct_status oct__cuda_relu_grad(const struct oct__lane *lane,
                                          const struct oct__args *args) {
    launch_two(lane, &args->t[0], &args->t[1], &args->t[2], relu_grad());
    return oct__cuda_launched("relu_grad");
}

struct sum {
    enum { READS_B = 1 };
    __device__ float operator()(float a, float b) const {
        return a + b;
    }
};

extern "C" oct_status oct__cuda_add(const struct oct__lane *lane, const struct oct__args *args) {
    launch_two(lane, &args->t[0], &args->t[1], &args->t[2], sum());
    return oct__cuda_launched("add");
}

/* Element e is kept when word e of the layer's stream is at least the rate; four of them are one
 * block. */
static __global__ void __launch_bounds__(BLOCK)
    dropout_kernel(size_t n, int wide, nodes<const float> x, nodes<float> y, float rate,
                   struct chance chance) {
    const int node = (int)blockIdx.y;
    const float scale = 1.0F / (1.0F - rate);
    const struct oct__stream stream = chance.of(node);
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        struct four v = load_four(x.of(node), i, n, wide);
        uint32_t words[4];
        oct__philox(&stream, OCT_PHILOX_ROUNDS, (uint32_t)(i / 4), words);
        for (int j = 0; j < FOUR; j++) {
            v.v[j] = oct__unit_float(words[j]) >= rate ? v.v[j] * scale : 0.0F;
        }
        store_four(y.of(node), i, n, wide, v);
    }
}

extern "C" oct_status oct__cuda_dropout(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *y = &args->t[1];
    const size_t n = oct__tensor_count(x);
    launch_kernel(dropout_kernel, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n,
                  is_wide(x) && is_wide(y), nodes_of<const float>(x), nodes_of<float>(y),
                  args->attr.dropout.rate,
                  chance_of(lane, OCT_PURPOSE_DROPOUT, (uint32_t)args->layer));
    return oct__cuda_launched("dropout");
}

/* --- pooling --------------------------------------------------------------------------------- */

/* The map that windows slide over, and how many windows there are. */
struct pool {
    oct__attr::oct__pool_attr attr;
    int n, h, w, c; /* the map */
    int rows, columns;
};

static struct pool pool_of(const struct oct__args *args, const struct oct__tensor *map,
                           const struct oct__tensor *windows) {
    const struct pool pool = {args->attr.pool, map->n,     map->h,    map->w,
                              map->c,          windows->h, windows->w};
    return pool;
}

/* The part of a window that lies inside the map. */
struct window {
    int top, bottom, left, right; /* bottom and right excluded */
};

static __device__ inline struct window window_at(const struct pool *p, int row, int column) {
    const int top = row * p->attr.stride - p->attr.pad;
    const int left = column * p->attr.stride - p->attr.pad;
    const int bottom = top + p->attr.kernel_h, right = left + p->attr.kernel_w;
    const struct window w = {top < 0 ? 0 : top, bottom > p->h ? p->h : bottom, left < 0 ? 0 : left,
                             right > p->w ? p->w : right};
    return w;
}

static __device__ inline int area_of(const struct window *w) {
    return (w->bottom - w->top) * (w->right - w->left);
}

/* Where element e of [n][rows][columns][c] is. */
struct place {
    int sample, row, column, c;
};

static __device__ inline struct place place_of(unsigned e, int rows, int columns, int c) {
    const unsigned pixel = e / (unsigned)c, line = pixel / (unsigned)columns;
    const struct place p = {(int)(line / (unsigned)rows), (int)(line % (unsigned)rows),
                            (int)(pixel % (unsigned)columns), (int)(e % (unsigned)c)};
    return p;
}

/* Which of `count` windows cover position i of the map: first … last. */
struct covering {
    int first, last;
};

static __device__ inline struct covering covering(int i, int kernel, const struct pool *p,
                                                  int count) {
    const int least = i + p->attr.pad - kernel + 1, last = (i + p->attr.pad) / p->attr.stride;
    const struct covering all = {least <= 0 ? 0 : (least + p->attr.stride - 1) / p->attr.stride,
                                 last < count ? last : count - 1};
    return all;
}

static __device__ inline size_t element_at(int sample, int h, int w, int c, int row, int column,
                                           int channel) {
    return (((size_t)sample * (size_t)h + (size_t)row) * (size_t)w + (size_t)column) * (size_t)c +
           (size_t)channel;
}

/* Whether v, at this place of its window, takes over from the best before it: the first of the
 * largest does; a NaN wins, so that it is not hidden. */
static __device__ inline int is_better(float v, float best, int place) {
    return place == 0 || v > best || (v != v && best == best);
}

/* Windows of 2 x 2 that fill the map side by side, as most networks have them: an element is in one
 * window. A thread has four channels of one, so that memory sees 16 bytes at a time and a place is
 * worked out once for sixteen elements. */
enum { TILE = 2 };

/* Four channels of a window, counted in fours: its first row begins at `at`, the second one a
 * `line` later, the next column `fours` later. */
struct tile {
    size_t at, line;
};

static int is_tiled(const struct pool *p, const struct oct__tensor *map,
                    const struct oct__tensor *windows, const struct oct__tensor *which) {
    return p->attr.kernel_h == TILE && p->attr.kernel_w == TILE && p->attr.stride == TILE &&
           p->attr.pad == 0 && p->h == TILE * p->rows && p->w == TILE * p->columns &&
           p->c % FOUR == 0 && is_wide(map) && is_wide(windows) &&
           ((uintptr_t)which->at | which->stride) % sizeof(uint32_t) == 0;
}

/* The i-th four of all windows. */
static __device__ inline struct tile tile_of(unsigned i, unsigned columns, unsigned fours) {
    const unsigned pixel = i / fours, line = pixel / columns;
    const size_t first = TILE * ((size_t)pixel + (size_t)columns * line);
    const struct tile tile = {first * fours + (i - pixel * fours), (size_t)TILE * columns * fours};
    return tile;
}

static __device__ inline struct four four_at(const float *from, size_t i) {
    return load_four(from, FOUR * i, FOUR * i + FOUR, 1);
}

static __global__ void __launch_bounds__(BLOCK)
    max_pool_tiles_kernel(unsigned n, unsigned columns, unsigned fours, nodes<const float> x,
                          nodes<float> y, nodes<uint8_t> which) {
    const int node = (int)blockIdx.y;
    const float *from = x.of(node);
    for (size_t i = first_element(); i < n; i += element_step()) {
        const struct tile tile = tile_of((unsigned)i, columns, fours);
        const struct four v[TILE * TILE] = {four_at(from, tile.at), four_at(from, tile.at + fours),
                                            four_at(from, tile.at + tile.line),
                                            four_at(from, tile.at + tile.line + fours)};
        struct four best;
        uint32_t places = 0; /* a byte each */
        for (int j = 0; j < FOUR; j++) {
            int best_place = 0;
            best.v[j] = 0.0F;
            for (int place = 0; place < TILE * TILE; place++) {
                if (is_better(v[place].v[j], best.v[j], place)) {
                    best.v[j] = v[place].v[j];
                    best_place = place;
                }
            }
            places |= (uint32_t)best_place << 8 * j;
        }
        store_four(y.of(node), FOUR * i, FOUR * i + FOUR, 1, best);
        ((uint32_t *)which.of(node))[i] = places;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    max_pool_kernel(unsigned n, struct pool p, nodes<const float> x, nodes<float> y,
                    nodes<uint8_t> which) {
    const int node = (int)blockIdx.y;
    const float *from = x.of(node);
    for (size_t e = first_element(); e < n; e += element_step()) {
        const struct place at = place_of((unsigned)e, p.rows, p.columns, p.c);
        const struct window w = window_at(&p, at.row, at.column);
        float best = 0.0F;
        int place = 0, best_place = 0;
        for (int r = w.top; r < w.bottom; r++) {
            for (int q = w.left; q < w.right; q++, place++) {
                const float v = from[element_at(at.sample, p.h, p.w, p.c, r, q, at.c)];
                if (is_better(v, best, place)) {
                    best = v;
                    best_place = place;
                }
            }
        }
        y.of(node)[e] = best;
        which.of(node)[e] = (uint8_t)best_place;
    }
}

extern "C" oct_status oct__cuda_max_pool(const struct oct__lane *lane,
                                         const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *y = &args->t[1], *which = &args->t[2];
    const size_t n = oct__tensor_count(y);
    const struct pool p = pool_of(args, x, y);
    if (is_tiled(&p, x, y, which)) {
        launch_kernel(max_pool_tiles_kernel, grid_over(lane, n / FOUR, 1), BLOCK, 0,
                      stream_of(lane), (unsigned)(n / FOUR), (unsigned)p.columns,
                      (unsigned)(p.c / FOUR), nodes_of<const float>(x), nodes_of<float>(y),
                      nodes_of<uint8_t>(which));
        return oct__cuda_launched("max_pool");
    }
    launch_kernel(max_pool_kernel, grid_over(lane, n, 1), BLOCK, 0, stream_of(lane), (unsigned)n, p,
                  nodes_of<const float>(x), nodes_of<float>(y), nodes_of<uint8_t>(which));
    return oct__cuda_launched("max_pool");
}

/* As the general kernel adds to 0, so does this: what arrives as -0 leaves as +0. */
static __global__ void __launch_bounds__(BLOCK)
    max_pool_tiles_grad_kernel(unsigned n, unsigned columns, unsigned fours,
                               nodes<const uint8_t> which, nodes<const float> dy, nodes<float> dx) {
    const int node = (int)blockIdx.y;
    float *to = dx.of(node);
    for (size_t i = first_element(); i < n; i += element_step()) {
        const struct tile tile = tile_of((unsigned)i, columns, fours);
        const uint32_t places = ((const uint32_t *)which.of(node))[i];
        const struct four v = four_at(dy.of(node), i);
        for (uint32_t place = 0; place < TILE * TILE; place++) {
            const size_t at = tile.at + place / TILE * tile.line + place % TILE * fours;
            struct four all;
            for (int j = 0; j < FOUR; j++) {
                all.v[j] = (places >> 8 * j & 0xffU) == place ? 0.0F + v.v[j] : 0.0F;
            }
            store_four(to, FOUR * at, FOUR * at + FOUR, 1, all);
        }
    }
}

static __global__ void __launch_bounds__(BLOCK)
    max_pool_grad_kernel(unsigned n, struct pool p, nodes<const uint8_t> which,
                         nodes<const float> dy, nodes<float> dx) {
    const int node = (int)blockIdx.y;
    for (size_t e = first_element(); e < n; e += element_step()) {
        const struct place at = place_of((unsigned)e, p.h, p.w, p.c);
        const struct covering rows = covering(at.row, p.attr.kernel_h, &p, p.rows);
        const struct covering columns = covering(at.column, p.attr.kernel_w, &p, p.columns);
        float sum = 0.0F;
        for (int row = rows.first; row <= rows.last; row++) {
            for (int column = columns.first; column <= columns.last; column++) {
                const struct window w = window_at(&p, row, column);
                const int place = (at.row - w.top) * (w.right - w.left) + at.column - w.left;
                const size_t from =
                    element_at(at.sample, p.rows, p.columns, p.c, row, column, at.c);
                if (which.of(node)[from] == (uint8_t)place) {
                    sum = sum + dy.of(node)[from];
                }
            }
        }
        dx.of(node)[e] = sum;
    }
}

extern "C" oct_status oct__cuda_max_pool_grad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    const struct oct__tensor *which = &args->t[0], *dy = &args->t[1], *dx = &args->t[2];
    const size_t n = oct__tensor_count(dx), n_tiles = oct__tensor_count(dy) / FOUR;
    const struct pool p = pool_of(args, dx, dy);
    if (is_tiled(&p, dx, dy, which)) {
        launch_kernel(max_pool_tiles_grad_kernel, grid_over(lane, n_tiles, 1), BLOCK, 0,
                      stream_of(lane), (unsigned)n_tiles, (unsigned)p.columns,
                      (unsigned)(p.c / FOUR), nodes_of<const uint8_t>(which),
                      nodes_of<const float>(dy), nodes_of<float>(dx));
        return oct__cuda_launched("max_pool_grad");
    }
    launch_kernel(max_pool_grad_kernel, grid_over(lane, n, 1), BLOCK, 0, stream_of(lane),
                  (unsigned)n, p, nodes_of<const uint8_t>(which), nodes_of<const float>(dy),
                  nodes_of<float>(dx));
    return oct__cuda_launched("max_pool_grad");
}

static __global__ void __launch_bounds__(BLOCK)
    avg_pool_kernel(unsigned n, struct pool p, nodes<const float> x, nodes<float> y) {
    const int node = (int)blockIdx.y;
    const float *from = x.of(node);
    for (size_t e = first_element(); e < n; e += element_step()) {
        const struct place at = place_of((unsigned)e, p.rows, p.columns, p.c);
        const struct window w = window_at(&p, at.row, at.column);
        float sum = 0.0F;
        for (int r = w.top; r < w.bottom; r++) {
            const float *line = from + element_at(at.sample, p.h, p.w, p.c, r, 0, at.c);
#pragma unroll 8
            for (int q = w.left; q < w.right; q++) {
                sum += line[(size_t)q * (size_t)p.c];
            }
        }
        y.of(node)[e] = sum / (float)area_of(&w);
    }
}

extern "C" oct_status oct__cuda_avg_pool(const struct oct__lane *lane,
                                         const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *y = &args->t[1];
    const size_t n = oct__tensor_count(y);
    launch_kernel(avg_pool_kernel, grid_over(lane, n, 1), BLOCK, 0, stream_of(lane), (unsigned)n,
                  pool_of(args, x, y), nodes_of<const float>(x), nodes_of<float>(y));
    return oct__cuda_launched("avg_pool");
}

static __global__ void __launch_bounds__(BLOCK)
    avg_pool_grad_kernel(unsigned n, struct pool p, nodes<const float> dy, nodes<float> dx) {
    const int node = (int)blockIdx.y;
    for (size_t e = first_element(); e < n; e += element_step()) {
        const struct place at = place_of((unsigned)e, p.h, p.w, p.c);
        const struct covering rows = covering(at.row, p.attr.kernel_h, &p, p.rows);
        const struct covering columns = covering(at.column, p.attr.kernel_w, &p, p.columns);
        float sum = 0.0F;
        for (int row = rows.first; row <= rows.last; row++) {
            for (int column = columns.first; column <= columns.last; column++) {
                const struct window w = window_at(&p, row, column);
                const size_t from =
                    element_at(at.sample, p.rows, p.columns, p.c, row, column, at.c);
                sum += dy.of(node)[from] / (float)area_of(&w);
            }
        }
        dx.of(node)[e] = sum;
    }
}

/* Where one window is the whole map; a block has `BLOCK` of a sample's elements at a time, of whole
 * rows of channels: a thread keeps its channel. */
static __global__ void __launch_bounds__(BLOCK)
    avg_pool_spread_kernel(int positions, int c, nodes<const float> dy, nodes<float> dx) {
    const int node = (int)blockIdx.z, n = positions * c;
    const size_t sample = blockIdx.x;
    const float from = dy.of(node)[sample * (size_t)c + threadIdx.x % (unsigned)c];
    const float share = 0.0F + from / (float)positions;
    float *to = dx.of(node) + sample * (size_t)n;
#pragma unroll 4
    for (int e = (int)(blockIdx.y * BLOCK + threadIdx.x); e < n; e += (int)gridDim.y * BLOCK) {
        to[e] = share;
    }
}

extern "C" oct_status oct__cuda_avg_pool_grad(const struct oct__lane *lane,
                                              const struct oct__args *args) {
    const struct oct__tensor *dy = &args->t[0], *dx = &args->t[1];
    const size_t n = oct__tensor_count(dx);
    const struct pool p = pool_of(args, dx, dy);
    if (dy->h == 1 && dy->w == 1 && p.attr.pad == 0 && p.attr.kernel_h == dx->h &&
        p.attr.kernel_w == dx->w && BLOCK % dx->c == 0) {
        const int positions = dx->h * dx->w;
        const int blocks = (positions * dx->c + 8 * BLOCK - 1) / (8 * BLOCK);
        launch_kernel(avg_pool_spread_kernel,
                      dim3((unsigned)dx->n, (unsigned)(blocks < 65535 ? blocks : 65535),
                           (unsigned)lane->form.n_nodes),
                      BLOCK, 0, stream_of(lane), positions, dx->c, nodes_of<const float>(dy),
                      nodes_of<float>(dx));
        return oct__cuda_launched("avg_pool_grad");
    }
    launch_kernel(avg_pool_grad_kernel, grid_over(lane, n, 1), BLOCK, 0, stream_of(lane),
                  (unsigned)n, p, nodes_of<const float>(dy), nodes_of<float>(dx));
    return oct__cuda_launched("avg_pool_grad");
}

/* --- the loss -------------------------------------------------------------------------------- */

enum { LOSS_BLOCK = 128, LOSS_SAMPLES = LOSS_BLOCK / 32 };

/* The class with the largest logit, of equal ones the first, as a scan from class 0 on finds it: a
 * NaN never is larger than what was found, and nothing is larger than one in class 0. */
static __device__ inline int best_class(int n_classes, const float *z) {
    int best = -1;
    float top = 0.0F;
    for (int c = (int)threadIdx.x % 32; c < n_classes; c += 32) {
        const float v = z[c];
        if (v == v && (best < 0 || v > top)) {
            best = c;
            top = v;
        }
    }
    for (int d = 16; d > 0; d /= 2) {
        const int other = __shfl_xor_sync(0xffffffffU, best, d);
        const float v = __shfl_xor_sync(0xffffffffU, top, d);
        if (other >= 0 && (best < 0 || v > top || (v == top && other < best))) {
            best = other;
            top = v;
        }
    }
    return best < 0 || z[0] != z[0] ? 0 : best;
}

/* A warp a sample; exp and log in double, as on the CPU. */
static __global__ void __launch_bounds__(LOSS_BLOCK)
    loss_kernel(int n, int n_classes, nodes<const float> logits, nodes<const int32_t> labels,
                nodes<float> loss, nodes<float> hit, nodes<float> dlogits, int has_gradient,
                struct oct__cuda_fault *fault) {
    const int node = (int)blockIdx.y, lane = (int)threadIdx.x % 32;
    const int sample = (int)blockIdx.x * LOSS_SAMPLES + (int)threadIdx.x / 32;
    if (sample >= n) {
        return;
    }
    const float *z = logits.of(node) + (size_t)sample * (size_t)n_classes;
    const int label = labels.of(node)[sample], is_known = label >= -1 && label < n_classes;
    const int best = best_class(n_classes, z);
    const double top = (double)z[best];
    double sum = 0.0;
    for (int c = lane; c < n_classes; c += 32) {
        sum += exp((double)z[c] - top);
    }
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, d);
    }
    if (lane == 0) {
        const int is_class = is_known && label >= 0;
        loss.of(node)[sample] = is_class   ? (float)(log(sum) - ((double)z[label] - top))
                                : is_known ? 0.0F
                                           : not_a_number();
        hit.of(node)[sample] = is_class && best == label ? 1.0F : 0.0F;
        if (!is_known) {
            report(fault, OCT_CUDA_WRONG_LABEL, label, n_classes);
        }
    }
    if (!has_gradient) {
        return;
    }
    float *dz = dlogits.of(node) + (size_t)sample * (size_t)n_classes;
    for (int c = lane; c < n_classes; c += 32) {
        const double p = exp((double)z[c] - top) / sum, target = c == label ? 1.0 : 0.0;
        dz[c] = !is_known ? not_a_number() : label < 0 ? 0.0F : (float)((p - target) / (double)n);
    }
}

extern "C" oct_status oct__cuda_loss(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *logits = &args->t[0];
    const dim3 grid((unsigned)((logits->n + LOSS_SAMPLES - 1) / LOSS_SAMPLES),
                    (unsigned)lane->form.n_nodes);
    launch_kernel(loss_kernel, grid, LOSS_BLOCK, 0, stream_of(lane), logits->n, logits->c,
                  nodes_of<const float>(logits), nodes_of<const int32_t>(&args->t[1]),
                  nodes_of<float>(&args->t[2]), nodes_of<float>(&args->t[3]),
                  nodes_of<float>(&args->t[4]), args->t[4].n != 0, fault_of(lane));
    return oct__cuda_launched("loss");
}

/* --- looking for trouble --------------------------------------------------------------------- */

enum { SEARCH_BLOCK = 1024 };

/* One block a node: this runs when something has gone wrong already. */
static __global__ void __launch_bounds__(SEARCH_BLOCK)
    nonfinite_kernel(size_t n, nodes<const float> x, nodes<int32_t> count) {
    __shared__ unsigned long long found;
    const int node = (int)blockIdx.y;
    const float *from = x.of(node);
    unsigned long long mine = 0;
    if (threadIdx.x == 0) {
        found = 0;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        mine += (__float_as_uint(from[i]) & 0x7f800000U) == 0x7f800000U;
    }
    if (mine > 0) {
        atomicAdd(&found, mine);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *count.of(node) = found > INT32_MAX ? INT32_MAX : (int32_t)found;
    }
}

extern "C" oct_status oct__cuda_nonfinite(const struct oct__lane *lane,
                                          const struct oct__args *args) {
    const dim3 grid(1, (unsigned)lane->form.n_nodes);
    launch_kernel(nonfinite_kernel, grid, SEARCH_BLOCK, 0, stream_of(lane),
                  oct__tensor_count(&args->t[0]), nodes_of<const float>(&args->t[0]),
                  nodes_of<int32_t>(&args->t[1]));
    return oct__cuda_launched("nonfinite");
}
