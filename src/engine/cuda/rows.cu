/* SPDX-License-Identifier: Apache-2.0 */
/* rows.cu - the GPU's operations on whole rows of parameters: the optimizer's and gossip's.
 *
 * Each element on its own, every product and sum rounded on its own as kernels.def has them, so rows
 * are the CPU's to the bit, and CLIP's sum in the CPU's order. One launch an operation, CLIP two.
 */
#include <float.h>

#include "engine/cuda/four.cuh"

/* --- what changes from step to step ------------------------------------------------------------- */

static __global__ void set_now(struct oct__cuda_now *now, struct oct__cuda_now is) {
    *now = is;
}

static void tell(const struct oct__lane *lane, struct oct__cuda_now is) {
    struct oct__cuda_engine *cuda = (struct oct__cuda_engine *)lane->engine;
    if (is.step != cuda->now_there.step || is.rate != cuda->now_there.rate) {
        launch_kernel(set_now, dim3(1), 1, 0, stream_of(lane), cuda->now, is);
        cuda->now_there = is;
    }
}

void oct__cuda_tell_now(const struct oct__lane *lane) {
    const struct oct__cuda_now is = {lane->step, lane->learning_rate};
    tell(lane, is);
}

void oct__cuda_tell_step(const struct oct__lane *lane) {
    const struct oct__cuda_engine *cuda = (const struct oct__cuda_engine *)lane->engine;
    const struct oct__cuda_now is = {lane->step, cuda->now_there.rate};
    tell(lane, is);
}

/* --- the optimizer ---------------------------------------------------------------------------- */

static __host__ __device__ inline size_t clip_pieces(size_t n) {
    return (n + OCT_CLIP_PIECE - 1) / OCT_CLIP_PIECE;
}

extern "C" size_t oct__cuda_rows_scratch(enum oct__op op, const struct oct__lane_form *form,
                                         const struct oct__args *args) {
    const size_t n = oct__tensor_count(&args->t[0]);
    return op == OCT_OP_CLIP ? (size_t)form->n_nodes * clip_pieces(n) * sizeof(double) : 0;
}

/* A block a piece, in the order that engine.h sets for all engines. */
static __global__ void __launch_bounds__(OCT_CLIP_LANES)
    square_kernel(size_t n, nodes<const float> x, double *squares) {
    __shared__ double sums[OCT_CLIP_LANES];
    const int node = (int)blockIdx.y, lane = (int)threadIdx.x;
    const size_t first = (size_t)blockIdx.x * OCT_CLIP_PIECE;
    const size_t end = n - first < OCT_CLIP_PIECE ? n : first + OCT_CLIP_PIECE;
    const float *from = x.of(node);
    double mine = 0.0;
    for (size_t i = first + (size_t)lane; i < end; i += OCT_CLIP_LANES) {
        mine += (double)from[i] * (double)from[i];
    }
    sums[lane] = mine;
    __syncthreads();
    for (int half = OCT_CLIP_LANES / 2; half > 0; half /= 2) {
        if (lane < half) {
            sums[lane] += sums[lane + half];
        }
        __syncthreads();
    }
    if (lane == 0) {
        squares[(size_t)node * gridDim.x + blockIdx.x] = sums[0];
    }
}

/* Every block finds the norm for itself; most have no more to do. One that is not finite is left alone:
 * the step after finds, and names, what comes of it. */
static __global__ void __launch_bounds__(BLOCK)
    clip_kernel(size_t n, int wide, nodes<float> x, const double *squares, double limit) {
    __shared__ float excess;
    const int node = (int)blockIdx.y;
    const size_t n_pieces = clip_pieces(n);
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (size_t i = 0; i < n_pieces; i++) {
            sum += squares[(size_t)node * n_pieces + i];
        }
        const double norm = sqrt(sum);
        excess = norm > limit && isfinite(norm) ? (float)fmin(norm / limit, (double)FLT_MAX) : 1.0F;
    }
    __syncthreads();
    const float by = excess;
    if (by == 1.0F) {
        return;
    }
    float *at = x.of(node);
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        struct four g = load_four(at, i, n, wide);
        for (int j = 0; j < FOUR; j++) {
            g.v[j] = g.v[j] / by;
        }
        store_four(at, i, n, wide, g);
    }
}

extern "C" oct_status oct__cuda_clip(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    const size_t n = oct__tensor_count(x);
    const dim3 pieces((unsigned)clip_pieces(n), (unsigned)lane->form.n_nodes);
    double *squares = (double *)lane->shared_scratch;
    launch_kernel(square_kernel, pieces, OCT_CLIP_LANES, 0, stream_of(lane), n,
                  nodes_of<const float>(x), squares);
    launch_kernel(clip_kernel, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n, is_wide(x),
                  nodes_of<float>(x), (const double *)squares, args->attr.clip.norm);
    return oct__cuda_launched("clip");
}

struct sgd {
    float beta, decay, own;
    int is_global;
};

static __global__ void __launch_bounds__(BLOCK)
    sgd_kernel(size_t n, int wide, nodes<float> x, nodes<float> momentum, nodes<const float> g,
               struct sgd how, const struct oct__cuda_now *now) {
    const int node = (int)blockIdx.y;
    const float rate = now->rate;
    float *at = x.of(node), *m = momentum.of(node);
    const float *gradient = g.of(node);
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        struct four p = load_four(at, i, n, wide), v = load_four(m, i, n, wide);
        const struct four from = load_four(gradient, i, n, wide);
        for (int j = 0; j < FOUR; j++) {
            const float d = from.v[j] + how.decay * p.v[j], old = how.beta * v.v[j];
            const float step = d + how.beta * (old + d);
            p.v[j] = p.v[j] - rate * step;
            v.v[j] = old + (how.is_global ? how.own * step : d);
        }
        store_four(at, i, n, wide, p);
        if (!how.is_global || how.own != 0.0F) {
            store_four(m, i, n, wide, v);
        }
    }
}

extern "C" oct_status oct__cuda_sgd(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *m = &args->t[1], *g = &args->t[2];
    const size_t n = oct__tensor_count(x);
    const struct sgd how = {args->attr.sgd.beta, args->attr.sgd.decay, args->attr.sgd.own,
                            args->attr.sgd.is_global};
    launch_kernel(sgd_kernel, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n,
                  is_wide(x) && is_wide(m) && is_wide(g), nodes_of<float>(x), nodes_of<float>(m),
                  nodes_of<const float>(g), how, now_of(lane));
    return oct__cuda_launched("sgd");
}

/* A way cannot be divided by a rate of 0: x stays. */
static __global__ void __launch_bounds__(BLOCK)
    slow_kernel(size_t n, int wide, nodes<float> x, nodes<const float> anchors,
                nodes<float> momentum, float beta, double part, const struct oct__cuda_now *now) {
    const int node = (int)blockIdx.y;
    const double rate = (double)now->rate;
    const float inverse = (float)(1.0 / rate), far = (float)(part * rate);
    const float *anchor = anchors.of(node);
    float *at = x.of(node), *m = momentum.of(node);
    if (rate == 0.0) {
        return;
    }
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        struct four p = load_four(at, i, n, wide), v = load_four(m, i, n, wide);
        const struct four from = load_four(anchor, i, n, wide);
        for (int j = 0; j < FOUR; j++) {
            const float d = inverse * (from.v[j] - p.v[j]);
            v.v[j] = beta * v.v[j] + d;
            p.v[j] = from.v[j] - far * (d + beta * v.v[j]);
        }
        store_four(m, i, n, wide, v);
        store_four(at, i, n, wide, p);
    }
}

extern "C" oct_status oct__cuda_slow(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *anchor = &args->t[1], *m = &args->t[2];
    const size_t n = oct__tensor_count(x);
    launch_kernel(slow_kernel, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n,
                  is_wide(x) && is_wide(anchor) && is_wide(m), nodes_of<float>(x),
                  nodes_of<const float>(anchor), nodes_of<float>(m), args->attr.slow.beta,
                  args->attr.slow.rate, now_of(lane));
    return oct__cuda_launched("slow");
}

/* --- gossip ------------------------------------------------------------------------------------ */

struct difference {
    enum { READS_B = 1 };
    __device__ float operator()(float a, float b) const {
        return a - b;
    }
};

extern "C" oct_status oct__cuda_difference(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    launch_two(lane, &args->t[0], &args->t[1], &args->t[2], difference());
    return oct__cuda_launched("difference");
}

struct axpy {
    enum { READS_B = 1 };
    float factor;
    __device__ float operator()(float a, float row) const {
        return row + factor * a;
    }
};

extern "C" oct_status oct__cuda_axpy(const struct oct__lane *lane, const struct oct__args *args) {
    const struct axpy f = {args->attr.row.factor};
    launch_two(lane, &args->t[0], &args->t[1], &args->t[1], f);
    return oct__cuda_launched("axpy");
}

static __global__ void __launch_bounds__(BLOCK)
    settle_kernel(size_t n, int wide, nodes<const float> x, nodes<const float> u, nodes<float> z,
                  nodes<float> momentum, float beta, double part, int has_momentum,
                  const struct oct__cuda_now *now) {
    const int node = (int)blockIdx.y;
    const float weight = *u.of(node), rate = now->rate;
    /* With rate 0 nothing has moved by a gradient, and the momentum has nothing to learn. */
    const int learns = has_momentum && rate != 0.0F;
    const float share = learns ? (float)(part / (double)rate) : 0.0F;
    const float *from = x.of(node);
    float *to = z.of(node);
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        struct four after = load_four(from, i, n, wide);
        for (int j = 0; j < FOUR; j++) {
            after.v[j] = after.v[j] / weight;
        }
        if (learns) {
            float *m = momentum.of(node);
            const struct four before = load_four(to, i, n, wide);
            struct four v = load_four(m, i, n, wide);
            for (int j = 0; j < FOUR; j++) {
                v.v[j] = beta * v.v[j] + share * (before.v[j] - after.v[j]);
            }
            store_four(m, i, n, wide, v);
        }
        store_four(to, i, n, wide, after);
    }
}

extern "C" oct_status oct__cuda_settle(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0], *u = &args->t[1], *z = &args->t[2], *m = &args->t[3];
    const size_t n = oct__tensor_count(x);
    launch_kernel(settle_kernel, grid_over(lane, n, FOUR), BLOCK, 0, stream_of(lane), n,
                  is_wide(x) && is_wide(z) && is_wide(m), nodes_of<const float>(x),
                  nodes_of<const float>(u), nodes_of<float>(z), nodes_of<float>(m),
                  args->attr.settle.beta, args->attr.settle.share, m->n != 0, now_of(lane));
    return oct__cuda_launched("settle");
}

struct copy {
    enum { READS_B = 0 };
    __device__ float operator()(float a, float) const {
        return a;
    }
};

extern "C" oct_status oct__cuda_copy(const struct oct__lane *lane, const struct oct__args *args) {
    launch_two(lane, &args->t[0], &args->t[1], &args->t[1], copy());
    return oct__cuda_launched("copy");
}

/* A thread has the same four elements of every node's row: the sum is in the order of nodes. */
static __global__ void __launch_bounds__(BLOCK)
    mean_kernel(size_t n, int wide, int n_nodes, nodes<float> rows) {
    for (size_t i = FOUR * first_element(); i < n; i += FOUR * element_step()) {
        double sum[FOUR] = {0.0, 0.0, 0.0, 0.0};
        for (int node = 0; node < n_nodes; node++) {
            const struct four x = load_four(rows.of(node), i, n, wide);
            for (int j = 0; j < FOUR; j++) {
                sum[j] += (double)x.v[j];
            }
        }
        struct four mean;
        for (int j = 0; j < FOUR; j++) {
            mean.v[j] = (float)(sum[j] / (double)n_nodes);
        }
        for (int node = 0; node < n_nodes; node++) {
            store_four(rows.of(node), i, n, wide, mean);
        }
    }
}

extern "C" oct_status oct__cuda_mean(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *rows = &args->t[0];
    const size_t n = oct__tensor_count(rows);
    const dim3 grid(grid_over(lane, n, FOUR).x);
    launch_kernel(mean_kernel, grid, BLOCK, 0, stream_of(lane), n, is_wide(rows),
                  lane->form.n_nodes, nodes_of<float>(rows));
    return oct__cuda_launched("mean");
}
