/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - BatchNorm on floats, forward and backward.
 *
 * It needs sums over the whole batch: a launch leaves each block's sums in scratch, and every block of
 * the next one folds them all again before it applies them, which is cheaper than a launch in between.
 * A block takes the squares around its own mean and the fold moves them to the mean of all (Chan,
 * Golub, LeVeque 1983), so a mean far from 0 costs no digits.
 *
 *     scratch, BatchNorm: [node][block][2][channel]; norm_group.cu's: [node][sample][gradient][channel]
 */
#include "engine/cuda/norm.cuh"

enum {
    BATCH_LEAST = 4096, /* elements of a block, at least about that many */
    BATCH_BLOCKS = 64   /* and no more blocks than this for a node */
};

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
