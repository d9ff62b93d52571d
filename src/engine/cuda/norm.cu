/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - BatchNorm, GroupNorm and EvoNorm-S0 on floats, forward and backward.
 *
 * All of them sum over rows of x[rows][c]. A block's threads stand `width` side by side over a tile
 * of channels, one or four channels each, and the rest of them are further rows:
 *
 *     thread   0  1  2  3 | 4  5  6  7 | …        width 4, four channels each: 16 channels
 *     row      0  0  0  0 | 1  1  1  1 | …
 *
 * so that a warp reads neighbouring bytes however few channels there are; sums of a column are folded
 * over a warp by shuffles, over warps through shared memory, in an order that the shape alone gives.
 *
 * BatchNorm needs sums over the whole batch: a launch leaves each block's sums in scratch, and every
 * block of the next one folds them all again before it applies them, which is cheaper than a launch
 * in between. A block takes the squares around its own mean and the fold moves them to the mean of
 * all (Chan, Golub, LeVeque 1983), so a mean far from 0 costs no digits.
 *
 * GroupNorm and EvoNorm look at one sample at a time: a block has a sample, whose passes hit the cache.
 * Gradients of the parameters are summed over samples by a second launch.
 *
 *     scratch, BatchNorm: [node][block][2][channel]; else [node][sample][gradient][channel]
 */
#include "engine/cuda/four.cuh"
#include "kernels/exp.h"

enum {
    TILE = 32 * FOUR,    /* the most channels that a block has side by side */
    GROUP_BLOCK = 512,   /* threads of a block that has a sample */
    BATCH_LEAST = 4096,  /* elements of a block of BatchNorm, at least about that many */
    BATCH_BLOCKS = 64,   /* and no more blocks than this for a node */
    SHARED_USUAL = 40000 /* bytes of shared memory, `room` apart, that need not be asked for */
};

/* --- columns ----------------------------------------------------------------------------------- */

/* V neighbouring channels of a row. */
template <int V> static __device__ inline void load(const float *from, float (&x)[V]) {
    if (V == FOUR) {
        const float4 all = *(const float4 *)from;
        x[0] = all.x, x[1 % V] = all.y, x[2 % V] = all.z, x[3 % V] = all.w;
    } else {
        x[0] = from[0];
    }
}

template <int V> static __device__ inline void store(float *to, const float (&x)[V]) {
    if (V == FOUR) {
        *(float4 *)to = make_float4(x[0], x[1 % V], x[2 % V], x[3 % V]);
    } else {
        to[0] = x[0];
    }
}

/* A thread's place in its block: its first channel inside the tile, its first row, and how many rows
 * the block takes at once. */
struct seat {
    int channel, row, step;
};

template <int V> static __device__ inline struct seat seat_of(int width) {
    const struct seat seat = {(int)threadIdx.x % width * V, (int)threadIdx.x / width,
                              (int)blockDim.x / width};
    return seat;
}

/* out[0 … width * V - 1] = sums over the block's rows of what each thread has for its channels. All
 * threads come here; `out` may be read when they return. `room`: TILE floats for each warp. */
template <int V>
static __device__ void fold_columns(const float (&mine)[V], int width, float *room, float *out) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int n_warps = (int)blockDim.x / 32, n = width * V;
    __syncthreads(); /* an earlier fold's room and results have been read */
    for (int i = 0; i < V; i++) {
        float sum = mine[i];
        for (int d = 16; d >= width; d /= 2) {
            sum += __shfl_xor_sync(0xffffffffU, sum, d);
        }
        if (lane < width) {
            room[warp * n + lane * V + i] = sum;
        }
    }
    __syncthreads();
    for (int t = (int)threadIdx.x; t < n; t += (int)blockDim.x) {
        float sum = 0.0F;
        for (int w = 0; w < n_warps; w++) {
            sum += room[w * n + t];
        }
        out[t] = sum;
    }
    __syncthreads();
}

/* Threads side by side: a power of two, as many as the channels need, at most a warp. */
static int width_of(int channels, int v) {
    int width = 1;
    while (width < 32 && width * v < channels) {
        width *= 2;
    }
    return width;
}

/* Whether threads may have four channels each. */
static int is_wide_norm(const struct oct__args *args, const int *operands, int n_operands) {
    int wide = args->t[0].c % FOUR == 0;
    for (int i = 0; i < n_operands; i++) {
        wide = wide && is_wide(&args->t[operands[i]]);
    }
    return wide;
}

/* --- BatchNorm --------------------------------------------------------------------------------- */

/* How x[rows][channels] is laid over blocks; grid: blocks of `each` rows, tiles, nodes. */
struct batch {
    int rows, channels, each, n_blocks, width;
    float m; /* rows, as a float */
};

/* Depends on the shape alone: neither on nodes nor on addresses. */
static struct batch batch_of(const struct oct__tensor *x) {
    struct batch b = {};
    b.rows = x->n * x->h * x->w;
    b.channels = x->c;
    const int across = x->c < TILE ? x->c : TILE;
    const int least = (BATCH_LEAST + across - 1) / across;
    const int most = (b.rows + BATCH_BLOCKS - 1) / BATCH_BLOCKS;
    b.each = least > most ? least : most;
    b.n_blocks = (b.rows + b.each - 1) / b.each;
    b.m = (float)x->n * (float)((size_t)x->h * (size_t)x->w);
    return b;
}

static dim3 batch_grid(const struct oct__lane *lane, struct batch *b, int v) {
    b->width = width_of(b->channels, v);
    const int tile = b->width * v;
    return dim3((unsigned)b->n_blocks, (unsigned)((b->channels + tile - 1) / tile),
                (unsigned)lane->form.n_nodes);
}

/* This block's rows and this thread's channels. */
struct stand {
    int first, end; /* rows of the thread, `step` apart */
    int step;
    int channel, local; /* of the first of V: among all, in the tile */
    int is_active;      /* the channel exists */
};

template <int V> static __device__ inline struct stand stand_of(const struct batch *b) {
    const struct seat seat = seat_of<V>(b->width);
    const int begin = (int)blockIdx.x * b->each, end = begin + b->each;
    const int channel = (int)blockIdx.y * b->width * V + seat.channel;
    const struct stand s = {begin + seat.row, end < b->rows ? end : b->rows, seat.step, channel,
                            seat.channel,     channel < b->channels};
    return s;
}

/* Rows of block i. */
static __device__ inline float rows_in(const struct batch *b, int i) {
    const int left = b->rows - i * b->each;
    return (float)(left < b->each ? left : b->each);
}

/* Quantity `which` of block i of the launch's node. */
static __device__ inline float *sums_at(float *sums, const struct batch *b, int i, int which) {
    const size_t row = ((size_t)blockIdx.z * (size_t)b->n_blocks + (size_t)i) * 2 + (size_t)which;
    return sums + row * (size_t)b->channels;
}

/* The block's column sums, and the squares around its own means. */
template <int V>
static __global__ void __launch_bounds__(BLOCK)
    batch_moments(struct batch b, nodes<const float> x, float *sums) {
    __shared__ float room[BLOCK / 32 * TILE], total[TILE];
    const struct stand s = stand_of<V>(&b);
    const float *from = x.of((int)blockIdx.z) + s.channel;
    float sum[V] = {}, mean[V], squares[V] = {}, v[V];
    for (int r = s.first; s.is_active && r < s.end; r += s.step) {
        load<V>(from + (size_t)r * (size_t)b.channels, v);
        for (int i = 0; i < V; i++) {
            sum[i] += v[i];
        }
    }
    fold_columns<V>(sum, b.width, room, total);
    for (int i = 0; i < V; i++) {
        sum[i] = total[s.local + i];
        mean[i] = sum[i] / rows_in(&b, (int)blockIdx.x);
    }
    for (int r = s.first; s.is_active && r < s.end; r += s.step) {
        load<V>(from + (size_t)r * (size_t)b.channels, v);
        for (int i = 0; i < V; i++) {
            const float d = v[i] - mean[i];
            squares[i] += d * d;
        }
    }
    fold_columns<V>(squares, b.width, room, total);
    if (s.is_active && threadIdx.x < (unsigned)b.width) {
        for (int i = 0; i < V; i++) {
            sums_at(sums, &b, (int)blockIdx.x, 0)[s.channel + i] = sum[i];
            sums_at(sums, &b, (int)blockIdx.x, 1)[s.channel + i] = total[s.local + i];
        }
    }
}

/* mean and squares around it, of all blocks, for the thread's channels. */
template <int V>
static __device__ void fold_moments(const struct batch *b, const struct stand *s, float *sums,
                                    float *room, float *total, float (&mean)[V],
                                    float (&squares)[V]) {
    const int row = (int)threadIdx.x / b->width;
    float mine[V] = {}, part[V], around[V];
    for (int i = row; s->is_active && i < b->n_blocks; i += s->step) {
        load<V>(sums_at(sums, b, i, 0) + s->channel, part);
        for (int j = 0; j < V; j++) {
            mine[j] += part[j];
        }
    }
    fold_columns<V>(mine, b->width, room, total);
    for (int j = 0; j < V; j++) {
        mean[j] = total[s->local + j] / b->m;
        mine[j] = 0.0F;
    }
    for (int i = row; s->is_active && i < b->n_blocks; i += s->step) {
        const float n = rows_in(b, i);
        load<V>(sums_at(sums, b, i, 0) + s->channel, part);
        load<V>(sums_at(sums, b, i, 1) + s->channel, around);
        for (int j = 0; j < V; j++) {
            const float d = part[j] / n - mean[j];
            mine[j] += around[j] + n * (d * d);
        }
    }
    fold_columns<V>(mine, b->width, room, total);
    for (int j = 0; j < V; j++) {
        squares[j] = total[s->local + j];
    }
}

/* y = x * scale + shift on the block's rows */
template <int V>
static __device__ inline void batch_affine(const struct batch *b, const struct stand *s,
                                           const float *from, const float (&scale)[V],
                                           const float (&shift)[V], float *to) {
    for (int r = s->first; r < s->end; r += s->step) {
        const size_t at = (size_t)r * (size_t)b->channels + (size_t)s->channel;
        float v[V];
        load<V>(from + at, v);
        for (int i = 0; i < V; i++) {
            v[i] = v[i] * scale[i] + shift[i];
        }
        store<V>(to + at, v);
    }
}

struct batch_params {
    nodes<const float> gamma, beta;
    nodes<float> run_mean, run_var, mean, rstd;
    float eps, momentum;
};

/* Running values take the unbiased variance, the normalization the biased one, as is usual. */
template <int V>
static __global__ void __launch_bounds__(BLOCK)
    batch_apply(struct batch b, nodes<const float> x, struct batch_params p, float *sums,
                nodes<float> y) {
    __shared__ float room[BLOCK / 32 * TILE], total[TILE];
    const struct stand s = stand_of<V>(&b);
    const int node = (int)blockIdx.z;
    float mean[V], squares[V], scale[V], shift[V];
    fold_moments<V>(&b, &s, sums, room, total, mean, squares);
    if (!s.is_active) {
        return;
    }
    for (int i = 0; i < V; i++) {
        const int c = s.channel + i;
        const float rstd = 1.0F / sqrtf(squares[i] / b.m + p.eps);
        scale[i] = p.gamma.of(node)[c] * rstd;
        shift[i] = p.beta.of(node)[c] - mean[i] * scale[i];
        if (blockIdx.x == 0 && threadIdx.x < (unsigned)b.width) {
            const float unbiased = squares[i] / (b.m > 1.0F ? b.m - 1.0F : 1.0F);
            float *run_mean = p.run_mean.of(node) + c, *run_var = p.run_var.of(node) + c;
            *run_mean = (1.0F - p.momentum) * *run_mean + p.momentum * mean[i];
            *run_var = (1.0F - p.momentum) * *run_var + p.momentum * unbiased;
            p.mean.of(node)[c] = mean[i];
            p.rstd.of(node)[c] = rstd;
        }
    }
    batch_affine<V>(&b, &s, x.of(node), scale, shift, y.of(node));
}

template <int V>
static void batch_norm(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    struct batch b = batch_of(&t[0]);
    const dim3 grid = batch_grid(lane, &b, V);
    const struct batch_params p = {nodes_of<const float>(&t[1]), nodes_of<const float>(&t[2]),
                                   nodes_of<float>(&t[3]),       nodes_of<float>(&t[4]),
                                   nodes_of<float>(&t[5]),       nodes_of<float>(&t[6]),
                                   args->attr.norm.eps,          args->attr.norm.momentum};
    const nodes<const float> x = nodes_of<const float>(&t[0]);
    float *sums = (float *)lane->shared_scratch;
    launch_kernel(batch_moments<V>, grid, BLOCK, 0, stream_of(lane), b, x, sums);
    launch_kernel(batch_apply<V>, grid, BLOCK, 0, stream_of(lane), b, x, p, sums,
                  nodes_of<float>(&t[7]));
}

extern "C" oct_status oct__cuda_batch_norm(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    static const int flat[] = {0, 7};
    is_wide_norm(args, flat, 2) ? batch_norm<FOUR>(lane, args) : batch_norm<1>(lane, args);
    return oct__cuda_launched("batch_norm");
}

template <int V>
static __global__ void __launch_bounds__(BLOCK)
    batch_eval(struct batch b, nodes<const float> x, nodes<const float> gamma,
               nodes<const float> beta, nodes<const float> run_mean, nodes<const float> run_var,
               float eps, nodes<float> y) {
    const struct stand s = stand_of<V>(&b);
    const int node = (int)blockIdx.z;
    float scale[V], shift[V];
    if (!s.is_active) {
        return;
    }
    for (int i = 0; i < V; i++) {
        const int c = s.channel + i;
        scale[i] = gamma.of(node)[c] * (1.0F / sqrtf(run_var.of(node)[c] + eps));
        shift[i] = beta.of(node)[c] - run_mean.of(node)[c] * scale[i];
    }
    batch_affine<V>(&b, &s, x.of(node), scale, shift, y.of(node));
}

template <int V>
static void batch_norm_eval(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    struct batch b = batch_of(&t[0]);
    b.each = (BATCH_LEAST + t[0].c - 1) / t[0].c; /* no sums to fold: as many blocks as there are */
    b.n_blocks = (b.rows + b.each - 1) / b.each;
    const dim3 grid = batch_grid(lane, &b, V);
    launch_kernel(batch_eval<V>, grid, BLOCK, 0, stream_of(lane), b, nodes_of<const float>(&t[0]),
                  nodes_of<const float>(&t[1]), nodes_of<const float>(&t[2]),
                  nodes_of<const float>(&t[3]), nodes_of<const float>(&t[4]), args->attr.norm.eps,
                  nodes_of<float>(&t[5]));
}

extern "C" oct_status oct__cuda_batch_norm_eval(const struct oct__lane *lane,
                                                const struct oct__args *args) {
    static const int flat[] = {0, 5};
    is_wide_norm(args, flat, 2) ? batch_norm_eval<FOUR>(lane, args)
                                : batch_norm_eval<1>(lane, args);
    return oct__cuda_launched("batch_norm_eval");
}

/* What both launches of the gradient read. */
struct batch_back {
    nodes<const float> x, gamma, mean, rstd, dy;
};

/* The block's sums of dy * xhat and of dy. */
template <int V>
static __global__ void __launch_bounds__(BLOCK)
    batch_grad_sums(struct batch b, struct batch_back in, float *sums) {
    __shared__ float room[BLOCK / 32 * TILE], total[TILE];
    const struct stand s = stand_of<V>(&b);
    const int node = (int)blockIdx.z;
    const float *x = in.x.of(node) + s.channel, *dy = in.dy.of(node) + s.channel;
    float mean[V] = {}, rstd[V] = {}, p[V] = {}, q[V] = {}, v[V], d[V];
    for (int i = 0; s.is_active && i < V; i++) {
        mean[i] = in.mean.of(node)[s.channel + i];
        rstd[i] = in.rstd.of(node)[s.channel + i];
    }
    for (int r = s.first; s.is_active && r < s.end; r += s.step) {
        const size_t at = (size_t)r * (size_t)b.channels;
        load<V>(x + at, v);
        load<V>(dy + at, d);
        for (int i = 0; i < V; i++) {
            const float xhat = (v[i] - mean[i]) * rstd[i];
            p[i] += d[i];
            q[i] += d[i] * xhat;
        }
    }
    const int is_writer = s.is_active && threadIdx.x < (unsigned)b.width;
    fold_columns<V>(q, b.width, room, total);
    for (int i = 0; is_writer && i < V; i++) {
        sums_at(sums, &b, (int)blockIdx.x, 0)[s.channel + i] = total[s.local + i];
    }
    fold_columns<V>(p, b.width, room, total);
    for (int i = 0; is_writer && i < V; i++) {
        sums_at(sums, &b, (int)blockIdx.x, 1)[s.channel + i] = total[s.local + i];
    }
}

/* Quantity `which` summed over all blocks, for the thread's channels. */
template <int V>
static __device__ void fold_blocks(const struct batch *b, const struct stand *s, float *sums,
                                   int which, float *room, float *total, float (&out)[V]) {
    float mine[V] = {}, part[V];
    for (int i = (int)threadIdx.x / b->width; s->is_active && i < b->n_blocks; i += s->step) {
        load<V>(sums_at(sums, b, i, which) + s->channel, part);
        for (int j = 0; j < V; j++) {
            mine[j] += part[j];
        }
    }
    fold_columns<V>(mine, b->width, room, total);
    for (int j = 0; j < V; j++) {
        out[j] = total[s->local + j];
    }
}

/* dx = gamma * rstd * (dy - dbeta / m - xhat * dgamma / m) */
template <int V>
static __global__ void __launch_bounds__(BLOCK)
    batch_grad_apply(struct batch b, struct batch_back in, float *sums, nodes<float> dx,
                     nodes<float> dgamma, nodes<float> dbeta) {
    __shared__ float room[BLOCK / 32 * TILE], total[TILE];
    const struct stand s = stand_of<V>(&b);
    const int node = (int)blockIdx.z;
    float scale[V], shift[V], mean[V], rstd[V], k[V], v[V], d[V];
    fold_blocks<V>(&b, &s, sums, 0, room, total, scale);
    fold_blocks<V>(&b, &s, sums, 1, room, total, shift);
    if (!s.is_active) {
        return;
    }
    for (int i = 0; i < V; i++) {
        const int c = s.channel + i;
        mean[i] = in.mean.of(node)[c];
        rstd[i] = in.rstd.of(node)[c];
        k[i] = in.gamma.of(node)[c] * rstd[i];
        if (blockIdx.x == 0 && threadIdx.x < (unsigned)b.width) {
            dgamma.of(node)[c] = scale[i];
            dbeta.of(node)[c] = shift[i];
        }
        scale[i] = scale[i] / b.m;
        shift[i] = shift[i] / b.m;
    }
    for (int r = s.first; r < s.end; r += s.step) {
        const size_t at = (size_t)r * (size_t)b.channels + (size_t)s.channel;
        load<V>(in.x.of(node) + at, v);
        load<V>(in.dy.of(node) + at, d);
        for (int i = 0; i < V; i++) {
            const float xhat = (v[i] - mean[i]) * rstd[i];
            d[i] = k[i] * ((d[i] - shift[i]) - xhat * scale[i]);
        }
        store<V>(dx.of(node) + at, d);
    }
}

template <int V>
static void batch_norm_grad(const struct oct__lane *lane, const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    struct batch b = batch_of(&t[0]);
    const dim3 grid = batch_grid(lane, &b, V);
    const struct batch_back in = {nodes_of<const float>(&t[0]), nodes_of<const float>(&t[1]),
                                  nodes_of<const float>(&t[2]), nodes_of<const float>(&t[3]),
                                  nodes_of<const float>(&t[4])};
    float *sums = (float *)lane->shared_scratch;
    launch_kernel(batch_grad_sums<V>, grid, BLOCK, 0, stream_of(lane), b, in, sums);
    launch_kernel(batch_grad_apply<V>, grid, BLOCK, 0, stream_of(lane), b, in, sums,
                  nodes_of<float>(&t[5]), nodes_of<float>(&t[6]), nodes_of<float>(&t[7]));
}

extern "C" oct_status oct__cuda_batch_norm_grad(const struct oct__lane *lane,
                                                const struct oct__args *args) {
    static const int flat[] = {0, 4, 5};
    is_wide_norm(args, flat, 3) ? batch_norm_grad<FOUR>(lane, args)
                                : batch_norm_grad<1>(lane, args);
    return oct__cuda_launched("batch_norm_grad");
}

/* --- GroupNorm and EvoNorm --------------------------------------------------------------------- */

/* A sample, of which a block has one; grid: samples, nodes. */
struct sample {
    int hw, channels, groups, width;
    int padded; /* channels of whole tiles */
    float m;    /* elements of a group */
    float eps;
};

static struct sample sample_of(const struct oct__args *args, int v) {
    const struct oct__tensor *x = &args->t[0];
    struct sample s = {};
    s.hw = x->h * x->w;
    s.channels = x->c;
    s.groups = args->attr.norm.groups;
    s.width = width_of(x->c, v);
    s.padded = (x->c + s.width * v - 1) / (s.width * v) * (s.width * v);
    s.m = (float)((size_t)s.hw * (size_t)(x->c / s.groups));
    s.eps = args->attr.norm.eps;
    return s;
}

/* Lets a kernel have more shared memory than usual, if it needs it. A failure shows at the launch. */
static void allow_shared(const void *kernel, size_t bytes) {
    if (bytes > SHARED_USUAL) {
        (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    }
}

/* This block's sample in a tensor of whole samples, and in one of statistics. */
static __device__ inline size_t sample_at(const struct sample *s) {
    return (size_t)blockIdx.x * (size_t)s->hw * (size_t)s->channels;
}

static __device__ inline size_t groups_at(const struct sample *s) {
    return (size_t)blockIdx.x * (size_t)s->groups;
}

/* The groups of channels channel … channel + V - 1; those that do not exist count as the last. */
template <int V>
static __device__ inline void groups_of(const struct sample *s, int channel, int (&group)[V]) {
    for (int i = 0; i < V; i++) {
        const int g = (channel + i) / (s->channels / s->groups);
        group[i] = g < s->groups ? g : s->groups - 1;
    }
}

/* The sum over group g's columns, times `weight` where there is one. A whole warp comes here and gets
 * it. */
static __device__ inline float group_sum(const struct sample *s, int g, const float *column,
                                         const float *weight) {
    const int wide = s->channels / s->groups;
    float sum = 0.0F;
    for (int j = (int)threadIdx.x % 32; j < wide; j += 32) {
        const int c = g * wide + j;
        sum += weight ? weight[c] * column[c] : column[c];
    }
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, d);
    }
    return sum;
}

/* column[c] = sum over the sample's rows of (x - mean of its group), or of its square. */
template <int V, int SQUARE>
static __device__ void sum_columns(const struct sample *s, const float *x, const float *mean,
                                   float *room, float *column) {
    const struct seat seat = seat_of<V>(s->width);
    for (int tile = 0; tile < s->padded; tile += s->width * V) {
        const int channel = tile + seat.channel, is_active = channel < s->channels;
        int group[V];
        float sum[V] = {}, middle[V] = {}, v[V];
        groups_of<V>(s, channel, group);
        for (int i = 0; SQUARE && i < V; i++) {
            middle[i] = mean[group[i]];
        }
        for (int r = seat.row; is_active && r < s->hw; r += seat.step) {
            load<V>(x + (size_t)r * (size_t)s->channels + channel, v);
            for (int i = 0; i < V; i++) {
                const float d = SQUARE ? v[i] - middle[i] : v[i];
                sum[i] += SQUARE ? d * d : d;
            }
        }
        fold_columns<V>(sum, s->width, room, column + tile);
    }
}

/* mean[g], rstd[g] of the block's sample, in shared memory. */
template <int V>
static __device__ void group_statistics(const struct sample *s, const float *x, float *room,
                                        float *column, float *mean, float *rstd) {
    const int warp = (int)threadIdx.x / 32, n_warps = (int)blockDim.x / 32;
    sum_columns<V, 0>(s, x, mean, room, column);
    for (int g = warp; g < s->groups; g += n_warps) {
        const float total = group_sum(s, g, column, NULL);
        if (threadIdx.x % 32 == 0) {
            mean[g] = total / s->m;
        }
    }
    __syncthreads();
    sum_columns<V, 1>(s, x, mean, room, column);
    for (int g = warp; g < s->groups; g += n_warps) {
        const float squares = group_sum(s, g, column, NULL);
        if (threadIdx.x % 32 == 0) {
            rstd[g] = 1.0F / sqrtf(squares / s->m + s->eps);
        }
    }
    __syncthreads();
}

/* What GroupNorm and EvoNorm have; v is EvoNorm's alone. */
struct group_params {
    nodes<const float> gamma, beta, v;
};

/* Shared memory: column [padded], mean [groups], rstd [groups]. */
template <int V, int IS_EVO>
static __global__ void __launch_bounds__(GROUP_BLOCK)
    group_forward(struct sample s, nodes<const float> x, struct group_params p, nodes<float> means,
                  nodes<float> rstds, nodes<float> y) {
    float *memory = dynamic_shared<float>();
    __shared__ float room[GROUP_BLOCK / 32 * TILE];
    const int node = (int)blockIdx.y;
    const struct seat seat = seat_of<V>(s.width);
    const float *from = x.of(node) + sample_at(&s);
    float *column = memory, *mean = column + s.padded, *rstd = mean + s.groups;
    float *to = y.of(node) + sample_at(&s);
    group_statistics<V>(&s, from, room, column, mean, rstd);
    for (int g = (int)threadIdx.x; g < s.groups; g += (int)blockDim.x) {
        means.of(node)[groups_at(&s) + (size_t)g] = mean[g];
        rstds.of(node)[groups_at(&s) + (size_t)g] = rstd[g];
    }
    for (int channel = seat.channel; channel < s.channels; channel += s.width * V) {
        int group[V];
        float gamma[V], beta[V], slope[V] = {}, v[V];
        groups_of<V>(&s, channel, group);
        for (int i = 0; i < V; i++) {
            gamma[i] = p.gamma.of(node)[channel + i];
            beta[i] = p.beta.of(node)[channel + i];
            slope[i] = IS_EVO ? p.v.of(node)[channel + i] : 0.0F;
        }
        for (int r = seat.row; r < s.hw; r += seat.step) {
            const size_t at = (size_t)r * (size_t)s.channels + (size_t)channel;
            load<V>(from + at, v);
            for (int i = 0; i < V; i++) {
                const int g = group[i];
                if (IS_EVO) {
                    const float e = v[i] * oct__sigmoid_f32(slope[i] * v[i]);
                    v[i] = (gamma[i] * e) * rstd[g] + beta[i];
                } else {
                    v[i] = ((v[i] - mean[g]) * rstd[g]) * gamma[i] + beta[i];
                }
            }
            store<V>(to + at, v);
        }
    }
}

/* `first`: the operand that mean is; rstd and y follow it. */
template <int V, int IS_EVO>
static void group_norm(const struct oct__lane *lane, const struct oct__args *args, int first) {
    const struct oct__tensor *t = args->t;
    const struct sample s = sample_of(args, V);
    const struct group_params p = {nodes_of<const float>(&t[1]), nodes_of<const float>(&t[2]),
                                   nodes_of<const float>(&t[3])};
    const size_t shared = (size_t)(s.padded + 2 * s.groups) * sizeof(float);
    const dim3 grid((unsigned)t[0].n, (unsigned)lane->form.n_nodes);
    allow_shared((const void *)group_forward<V, IS_EVO>, shared);
    launch_kernel(group_forward<V, IS_EVO>, grid, GROUP_BLOCK, shared, stream_of(lane), s,
                  nodes_of<const float>(&t[0]), p, nodes_of<float>(&t[first]),
                  nodes_of<float>(&t[first + 1]), nodes_of<float>(&t[first + 2]));
}

extern "C" oct_status oct__cuda_group_norm(const struct oct__lane *lane,
                                           const struct oct__args *args) {
    static const int flat[] = {0, 5};
    is_wide_norm(args, flat, 2) ? group_norm<FOUR, 0>(lane, args, 3)
                                : group_norm<1, 0>(lane, args, 3);
    return oct__cuda_launched("group_norm");
}

extern "C" oct_status oct__cuda_evonorm(const struct oct__lane *lane,
                                        const struct oct__args *args) {
    static const int flat[] = {0, 6};
    is_wide_norm(args, flat, 2) ? group_norm<FOUR, 1>(lane, args, 4)
                                : group_norm<1, 1>(lane, args, 4);
    return oct__cuda_launched("evonorm");
}

/* --- their gradients --------------------------------------------------------------------------- */

struct group_back {
    nodes<const float> x, gamma, v, mean, rstd, dy;
};

/* Column sums of the block's sample: p of dy; q of dy * xhat, or dy * (x * s); EvoNorm's u of
 * (dy * (x * x)) * w. */
template <int V, int IS_EVO>
static __device__ void group_grad_columns(const struct sample *s, const struct group_back *in,
                                          float *room, float *p, float *q, float *u) {
    const struct seat seat = seat_of<V>(s->width);
    const int node = (int)blockIdx.y;
    const float *x = in->x.of(node) + sample_at(s), *dy = in->dy.of(node) + sample_at(s);
    const float *mean = in->mean.of(node) + groups_at(s), *rstd = in->rstd.of(node) + groups_at(s);
    for (int tile = 0; tile < s->padded; tile += s->width * V) {
        const int channel = tile + seat.channel, is_active = channel < s->channels;
        int group[V];
        float middle[V], factor[V], a[V], d[V], sum_p[V] = {}, sum_q[V] = {}, sum_u[V] = {};
        groups_of<V>(s, channel, group);
        for (int i = 0; i < V; i++) { /* EvoNorm needs v here, GroupNorm mean and rstd */
            middle[i] = IS_EVO ? 0.0F : mean[group[i]];
            factor[i] = !IS_EVO ? rstd[group[i]] : is_active ? in->v.of(node)[channel + i] : 0.0F;
        }
        for (int r = seat.row; is_active && r < s->hw; r += seat.step) {
            const size_t at = (size_t)r * (size_t)s->channels + (size_t)channel;
            load<V>(x + at, a);
            load<V>(dy + at, d);
            for (int i = 0; i < V; i++) {
                sum_p[i] += d[i];
                if (IS_EVO) {
                    const float sigmoid = oct__sigmoid_f32(factor[i] * a[i]);
                    const float w = sigmoid * (1.0F - sigmoid);
                    sum_q[i] += d[i] * (a[i] * sigmoid);
                    sum_u[i] += (d[i] * (a[i] * a[i])) * w;
                } else {
                    sum_q[i] += d[i] * ((a[i] - middle[i]) * factor[i]);
                }
            }
        }
        fold_columns<V>(sum_p, s->width, room, p + tile);
        fold_columns<V>(sum_q, s->width, room, q + tile);
        if (IS_EVO) {
            fold_columns<V>(sum_u, s->width, room, u + tile);
        }
    }
}

/* dx of the block's sample. GroupNorm: a and b are the groups' means of gamma * dy and of
 * gamma * dy * xhat; EvoNorm: a is k of kernels.def. */
template <int V, int IS_EVO>
static __device__ void group_grad_apply(const struct sample *s, const struct group_back *in,
                                        const float *a, const float *b, float *dx) {
    const struct seat seat = seat_of<V>(s->width);
    const int node = (int)blockIdx.y;
    const float *x = in->x.of(node) + sample_at(s), *dy = in->dy.of(node) + sample_at(s);
    for (int channel = seat.channel; channel < s->channels; channel += s->width * V) {
        int group[V];
        float mean[V], rstd[V], gamma[V], slope[V], v[V], d[V];
        groups_of<V>(s, channel, group);
        for (int i = 0; i < V; i++) {
            mean[i] = in->mean.of(node)[groups_at(s) + (size_t)group[i]];
            rstd[i] = in->rstd.of(node)[groups_at(s) + (size_t)group[i]];
            gamma[i] = in->gamma.of(node)[channel + i];
            slope[i] = IS_EVO ? in->v.of(node)[channel + i] : 0.0F;
        }
        for (int r = seat.row; r < s->hw; r += seat.step) {
            const size_t at = (size_t)r * (size_t)s->channels + (size_t)channel;
            load<V>(x + at, v);
            load<V>(dy + at, d);
            for (int i = 0; i < V; i++) {
                const int g = group[i];
                if (IS_EVO) {
                    const float vx = slope[i] * v[i], sigmoid = oct__sigmoid_f32(vx);
                    const float w = sigmoid * (1.0F - sigmoid);
                    const float direct = ((gamma[i] * rstd[i]) * d[i]) * (sigmoid + vx * w);
                    d[i] = direct - a[g] * (v[i] - mean[i]);
                } else {
                    const float xhat = (v[i] - mean[i]) * rstd[i];
                    d[i] = rstd[i] * ((gamma[i] * d[i] - a[g]) - xhat * b[g]);
                }
            }
            store<V>(dx + at, d);
        }
    }
}

/* What the sample adds to dgamma, dbeta and dv goes to sums [gradient][channel]. Shared memory: p, q
 * and with EvoNorm u [padded], a and with GroupNorm b [groups]. */
template <int V, int IS_EVO>
static __global__ void __launch_bounds__(GROUP_BLOCK)
    group_backward(struct sample s, struct group_back in, float *sums, nodes<float> dx) {
    float *memory = dynamic_shared<float>();
    __shared__ float room[GROUP_BLOCK / 32 * TILE];
    const int node = (int)blockIdx.y, n_gradients = IS_EVO ? 3 : 2;
    float *p = memory, *q = p + s.padded, *u = q + s.padded, *a = IS_EVO ? u + s.padded : u;
    float *b = a + s.groups;
    const float *gamma = in.gamma.of(node), *rstd = in.rstd.of(node) + groups_at(&s);
    group_grad_columns<V, IS_EVO>(&s, &in, room, p, q, u);
    for (int g = (int)threadIdx.x / 32; g < s.groups; g += (int)blockDim.x / 32) {
        const float total = group_sum(&s, g, IS_EVO ? q : p, gamma);
        const float other = IS_EVO ? 0.0F : group_sum(&s, g, q, gamma);
        if (threadIdx.x % 32 == 0 && IS_EVO) {
            a[g] = (total * ((rstd[g] * rstd[g]) * rstd[g])) / s.m;
        } else if (threadIdx.x % 32 == 0) {
            a[g] = total / s.m;
            b[g] = other / s.m;
        }
    }
    float *to = sums + ((size_t)node * gridDim.x + blockIdx.x) * (size_t)(n_gradients * s.channels);
    for (int c = (int)threadIdx.x; c < s.channels; c += (int)blockDim.x) {
        const float r = rstd[c / (s.channels / s.groups)];
        to[c] = IS_EVO ? q[c] * r : q[c];
        to[s.channels + c] = p[c];
        if (IS_EVO) {
            to[2 * s.channels + c] = (gamma[c] * r) * u[c];
        }
    }
    __syncthreads();
    group_grad_apply<V, IS_EVO>(&s, &in, a, b, dx.of(node) + sample_at(&s));
}

struct gradients {
    nodes<float> at[3];
};

/* Grid: channels, gradients, nodes; 32 channels side by side, samples in eight rows. */
static __global__ void __launch_bounds__(BLOCK)
    fold_samples(int n, int channels, const float *sums,
                 __grid_constant__ const struct gradients out) {
    __shared__ float room[BLOCK];
    const int c = (int)blockIdx.x * 32 + (int)threadIdx.x % 32, n_rows = BLOCK / 32;
    const size_t step = (size_t)gridDim.y * (size_t)channels;
    const float *from =
        sums + (size_t)blockIdx.z * (size_t)n * step + (size_t)blockIdx.y * (size_t)channels;
    float sum = 0.0F;
    for (int i = (int)threadIdx.x / 32; c < channels && i < n; i += n_rows) {
        sum += from[(size_t)i * step + (size_t)c];
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 32 && c < channels) {
        float total = 0.0F;
        for (int row = 0; row < n_rows; row++) {
            total += room[row * 32 + (int)threadIdx.x];
        }
        out.at[blockIdx.y].of((int)blockIdx.z)[c] = total;
    }
}

/* `first`: the operand that mean is; rstd, dy, dx and the parameters' gradients follow it. */
template <int V, int IS_EVO>
static void group_norm_grad(const struct oct__lane *lane, const struct oct__args *args, int first) {
    const struct oct__tensor *t = args->t, *out = &t[first + 4];
    const struct sample s = sample_of(args, V);
    const struct group_back in = {
        nodes_of<const float>(&t[0]),         nodes_of<const float>(&t[1]),
        nodes_of<const float>(&t[2]),         nodes_of<const float>(&t[first]),
        nodes_of<const float>(&t[first + 1]), nodes_of<const float>(&t[first + 2])};
    const struct gradients gradients = {{nodes_of<float>(&out[0]), nodes_of<float>(&out[1]),
                                         nodes_of<float>(&out[IS_EVO ? 2 : 1])}};
    const int n_gradients = IS_EVO ? 3 : 2, n_nodes = lane->form.n_nodes;
    const size_t shared =
        (size_t)(n_gradients * s.padded + (IS_EVO ? 1 : 2) * s.groups) * sizeof(float);
    float *sums = (float *)lane->shared_scratch;
    allow_shared((const void *)group_backward<V, IS_EVO>, shared);
    launch_kernel(group_backward<V, IS_EVO>, dim3((unsigned)t[0].n, (unsigned)n_nodes), GROUP_BLOCK,
                  shared, stream_of(lane), s, in, sums, nodes_of<float>(&t[first + 3]));
    const dim3 grid((unsigned)((s.channels + 31) / 32), (unsigned)n_gradients, (unsigned)n_nodes);
    launch_kernel(fold_samples, grid, BLOCK, 0, stream_of(lane), t[0].n, s.channels, sums,
                  gradients);
}

extern "C" oct_status oct__cuda_group_norm_grad(const struct oct__lane *lane,
                                                const struct oct__args *args) {
    static const int flat[] = {0, 4, 5};
    is_wide_norm(args, flat, 3) ? group_norm_grad<FOUR, 0>(lane, args, 2)
                                : group_norm_grad<1, 0>(lane, args, 2);
    return oct__cuda_launched("group_norm_grad");
}

extern "C" oct_status oct__cuda_evonorm_grad(const struct oct__lane *lane,
                                             const struct oct__args *args) {
    static const int flat[] = {0, 5, 6};
    is_wide_norm(args, flat, 3) ? group_norm_grad<FOUR, 1>(lane, args, 3)
                                : group_norm_grad<1, 1>(lane, args, 3);
    return oct__cuda_launched("evonorm_grad");
}

/* --- scratch ----------------------------------------------------------------------------------- */

extern "C" size_t oct__cuda_norm_scratch(enum oct__op op, const struct oct__lane_form *form,
                                         const struct oct__args *args) {
    const struct oct__tensor *x = &args->t[0];
    const size_t row = (size_t)form->n_nodes * (size_t)x->c * sizeof(float);
    switch (op) {
    case OCT_OP_BATCH_NORM:
    case OCT_OP_BATCH_NORM_GRAD:
        return row * 2 * (size_t)batch_of(x).n_blocks;
    case OCT_OP_GROUP_NORM_GRAD:
        return row * 2 * (size_t)x->n;
    case OCT_OP_EVONORM_GRAD:
        return row * 3 * (size_t)x->n;
    default:
        return 0;
    }
}
