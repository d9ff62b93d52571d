/* SPDX-License-Identifier: Apache-2.0 */
/* norm_group.cu - GroupNorm and EvoNorm-S0 on floats, forward and backward.
 *
 * Both look at one sample at a time: a block has a sample. Where its threads can hold it in registers
 * they do, so that it is read once, and EvoNorm's sigmoid is worked out once; a larger one is gone
 * through again for each sum. Gradients of the parameters are summed over samples by a second launch.
 */
#include "engine/cuda/norm.cuh"
#include "kernels/exp.h"

enum {
    GROUP_BLOCK = 512,   /* threads of a block, at most */
    HELD = 8,            /* rows of a thread that holds them, at most */
    SHARED_USUAL = 40000 /* bytes of shared memory, `room` apart, that need not be asked for */
};

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

/* value[g], and the same where the group's columns were. The whole warp that has the group comes here,
 * and has read them. */
static __device__ inline void tell_group(const struct sample *s, int g, float x, float *value,
                                         float *column) {
    const int wide = s->channels / s->groups;
    for (int j = (int)threadIdx.x % 32; j < wide; j += 32) {
        column[g * wide + j] = x;
    }
    if (threadIdx.x % 32 == 0) {
        value[g] = x;
    }
}

/* mean[g] from sums of columns, rstd[g] from those of squares; a warp a group. */
static __device__ void group_means(const struct sample *s, float *column, float *mean) {
    for (int g = (int)threadIdx.x / 32; g < s->groups; g += (int)blockDim.x / 32) {
        tell_group(s, g, group_sum(s, g, column, NULL) / s->m, mean, column);
    }
    __syncthreads();
}

static __device__ void group_deviations(const struct sample *s, float *column, float *rstd) {
    for (int g = (int)threadIdx.x / 32; g < s->groups; g += (int)blockDim.x / 32) {
        const float squares = group_sum(s, g, column, NULL);
        tell_group(s, g, 1.0F / sqrtf(squares / s->m + s->eps), rstd, column);
    }
    __syncthreads();
}

/* The rows of a sample that a thread holds, of four channels each. */
struct held {
    int channel, n_rows;
    uint32_t at, step; /* of its first row in the sample; from one row to the next */
};

static __device__ inline struct held held_of(const struct sample *s) {
    const struct seat seat = seat_of<FOUR>(s->width);
    const int left = s->hw - seat.row;
    const struct held h = {
        seat.channel,
        seat.channel < s->channels && left > 0 ? (left + seat.step - 1) / seat.step : 0,
        (uint32_t)seat.row * (uint32_t)s->channels + (uint32_t)seat.channel,
        (uint32_t)seat.step * (uint32_t)s->channels};
    return h;
}

static __device__ inline void load_held(const struct held *h, const float *from,
                                        float (&x)[HELD][FOUR]) {
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (u < h->n_rows) {
            load<FOUR>(from + h->at + (uint32_t)u * h->step, x[u]);
        }
    }
}

/* Threads of a block that can hold a sample, 0 if it is too large. */
static int holding_threads(const struct sample *s, int v) {
    for (int threads = 128; v == FOUR && threads <= GROUP_BLOCK; threads *= 2) {
        if (s->padded == s->width * v && s->hw <= HELD * (threads / s->width)) {
            return threads;
        }
    }
    return 0;
}

/* What GroupNorm and EvoNorm have; v is EvoNorm's alone. */
struct group_params {
    nodes<const float> gamma, beta, v;
};

template <int IS_EVO>
static __device__ inline float norm_of(float x, float mean, float rstd, float gamma, float beta,
                                       float slope) {
    if (IS_EVO) {
        return (gamma * (x * oct__sigmoid_f32(slope * x))) * rstd + beta;
    }
    return ((x - mean) * rstd) * gamma + beta;
}

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
    sum_columns<V, 0>(&s, from, mean, room, column);
    group_means(&s, column, mean);
    sum_columns<V, 1>(&s, from, mean, room, column);
    group_deviations(&s, column, rstd);
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
                v[i] = norm_of<IS_EVO>(v[i], mean[group[i]], rstd[group[i]], gamma[i], beta[i],
                                       slope[i]);
            }
            store<V>(to + at, v);
        }
    }
}

/* The same of a sample that is held, in the same room. */
template <int IS_EVO>
static __global__ void __launch_bounds__(GROUP_BLOCK, 2)
    held_forward(struct sample s, nodes<const float> x, struct group_params p, nodes<float> means,
                 nodes<float> rstds, nodes<float> y) {
    float *memory = dynamic_shared<float>();
    __shared__ float room[GROUP_BLOCK / 32 * TILE];
    const int node = (int)blockIdx.y;
    const struct held h = held_of(&s);
    float *column = memory, *mean = column + s.padded, *rstd = mean + s.groups;
    float v[HELD][FOUR], sum[FOUR] = {}, middle[FOUR];
    load_held(&h, x.of(node) + sample_at(&s), v);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        for (int i = 0; i < FOUR && u < h.n_rows; i++) {
            sum[i] += v[u][i];
        }
    }
    fold_columns<FOUR>(sum, s.width, room, column);
    group_means(&s, column, mean);
    for (int i = 0; i < FOUR; i++) {
        middle[i] = column[h.channel + i]; /* beyond the channels it is of no use */
        sum[i] = 0.0F;
    }
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        for (int i = 0; i < FOUR && u < h.n_rows; i++) {
            const float d = v[u][i] - middle[i];
            sum[i] += d * d;
        }
    }
    fold_columns<FOUR>(sum, s.width, room, column);
    group_deviations(&s, column, rstd);
    for (int g = (int)threadIdx.x; g < s.groups; g += (int)blockDim.x) {
        means.of(node)[groups_at(&s) + (size_t)g] = mean[g];
        rstds.of(node)[groups_at(&s) + (size_t)g] = rstd[g];
    }
    if (h.n_rows == 0) {
        return;
    }
    float *to = y.of(node) + sample_at(&s) + h.at;
    float gamma[FOUR], beta[FOUR], slope[FOUR], factor[FOUR];
    for (int i = 0; i < FOUR; i++) {
        gamma[i] = p.gamma.of(node)[h.channel + i];
        beta[i] = p.beta.of(node)[h.channel + i];
        slope[i] = IS_EVO ? p.v.of(node)[h.channel + i] : 0.0F;
        factor[i] = column[h.channel + i];
    }
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (u >= h.n_rows) {
            break;
        }
        for (int i = 0; i < FOUR; i++) {
            v[u][i] = norm_of<IS_EVO>(v[u][i], middle[i], factor[i], gamma[i], beta[i], slope[i]);
        }
        store<FOUR>(to + (uint32_t)u * h.step, v[u]);
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
    const int threads = holding_threads(&s, V);
    const auto kernel = threads ? held_forward<IS_EVO> : group_forward<V, IS_EVO>;
    allow_shared((const void *)kernel, shared);
    launch_kernel(kernel, grid, threads ? (unsigned)threads : GROUP_BLOCK, shared, stream_of(lane),
                  s, nodes_of<const float>(&t[0]), p, nodes_of<float>(&t[first]),
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

/* Shared memory of the gradient: columns' sums p, q and with EvoNorm u [padded], then a and with
 * GroupNorm b [groups]. */
struct grad_columns {
    float *p, *q, *u, *a, *b;
};

template <int IS_EVO>
static __device__ inline struct grad_columns grad_columns_of(const struct sample *s) {
    struct grad_columns of;
    of.p = dynamic_shared<float>();
    of.q = of.p + s->padded;
    of.u = of.q + s->padded;
    of.a = IS_EVO ? of.u + s->padded : of.u;
    of.b = of.a + s->groups;
    return of;
}

/* The groups' totals; what the sample adds to dgamma, dbeta and dv goes to sums [gradient][channel]. */
template <int IS_EVO>
static __device__ void fold_groups(const struct sample *s, const struct group_back *in,
                                   const struct grad_columns *of, float *sums) {
    const int node = (int)blockIdx.y, n_gradients = IS_EVO ? 3 : 2;
    const float *gamma = in->gamma.of(node), *rstd = in->rstd.of(node) + groups_at(s);
    for (int g = (int)threadIdx.x / 32; g < s->groups; g += (int)blockDim.x / 32) {
        const float total = group_sum(s, g, IS_EVO ? of->q : of->p, gamma);
        const float other = IS_EVO ? 0.0F : group_sum(s, g, of->q, gamma);
        if (threadIdx.x % 32 == 0 && IS_EVO) {
            of->a[g] = (total * ((rstd[g] * rstd[g]) * rstd[g])) / s->m;
        } else if (threadIdx.x % 32 == 0) {
            of->a[g] = total / s->m;
            of->b[g] = other / s->m;
        }
    }
    float *to =
        sums + ((size_t)node * gridDim.x + blockIdx.x) * (size_t)(n_gradients * s->channels);
    for (int c = (int)threadIdx.x; c < s->channels; c += (int)blockDim.x) {
        const float r = rstd[c / (s->channels / s->groups)];
        to[c] = IS_EVO ? of->q[c] * r : of->q[c];
        to[s->channels + c] = of->p[c];
        if (IS_EVO) {
            to[2 * s->channels + c] = (gamma[c] * r) * of->u[c];
        }
    }
    __syncthreads();
}

template <int V, int IS_EVO>
static __global__ void __launch_bounds__(GROUP_BLOCK)
    group_backward(struct sample s, struct group_back in, float *sums, nodes<float> dx) {
    __shared__ float room[GROUP_BLOCK / 32 * TILE];
    const struct grad_columns of = grad_columns_of<IS_EVO>(&s);
    group_grad_columns<V, IS_EVO>(&s, &in, room, of.p, of.q, of.u);
    fold_groups<IS_EVO>(&s, &in, &of, sums);
    group_grad_apply<V, IS_EVO>(&s, &in, of.a, of.b, dx.of((int)blockIdx.y) + sample_at(&s));
}

/* The same of a sample that is held. Once an element's part in the sums is known, d becomes what
 * the totals are taken from: EvoNorm's direct part of dx, GroupNorm's gamma * dy. */
template <int IS_EVO>
static __global__ void __launch_bounds__(GROUP_BLOCK, 1)
    held_backward(struct sample s, struct group_back in, float *sums, nodes<float> dx) {
    __shared__ float room[GROUP_BLOCK / 32 * TILE];
    const struct grad_columns of = grad_columns_of<IS_EVO>(&s);
    const int node = (int)blockIdx.y;
    const struct held h = held_of(&s);
    float x[HELD][FOUR], d[HELD][FOUR];
    load_held(&h, in.x.of(node) + sample_at(&s), x);
    load_held(&h, in.dy.of(node) + sample_at(&s), d);
    int group[FOUR];
    float mean[FOUR], rstd[FOUR], gamma[FOUR], slope[FOUR];
    float p[FOUR] = {}, q[FOUR] = {}, u[FOUR] = {};
    groups_of<FOUR>(&s, h.channel, group);
    for (int i = 0; i < FOUR; i++) {
        const int c = h.n_rows > 0 ? h.channel + i : 0;
        mean[i] = in.mean.of(node)[groups_at(&s) + (size_t)group[i]];
        rstd[i] = in.rstd.of(node)[groups_at(&s) + (size_t)group[i]];
        gamma[i] = in.gamma.of(node)[c];
        slope[i] = IS_EVO ? in.v.of(node)[c] : 0.0F;
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        if (r >= h.n_rows) {
            break;
        }
        for (int i = 0; i < FOUR; i++) {
            p[i] += d[r][i];
            if (IS_EVO) {
                const float vx = slope[i] * x[r][i], sigmoid = oct__sigmoid_f32(vx);
                const float w = sigmoid * (1.0F - sigmoid);
                q[i] += d[r][i] * (x[r][i] * sigmoid);
                u[i] += (d[r][i] * (x[r][i] * x[r][i])) * w;
                d[r][i] = ((gamma[i] * rstd[i]) * d[r][i]) * (sigmoid + vx * w);
            } else {
                q[i] += d[r][i] * ((x[r][i] - mean[i]) * rstd[i]);
                d[r][i] = gamma[i] * d[r][i];
            }
        }
    }
    fold_columns<FOUR>(p, s.width, room, of.p);
    fold_columns<FOUR>(q, s.width, room, of.q);
    if (IS_EVO) {
        fold_columns<FOUR>(u, s.width, room, of.u);
    }
    fold_groups<IS_EVO>(&s, &in, &of, sums);
    float *to = dx.of(node) + sample_at(&s) + h.at, a[FOUR], b[FOUR];
    for (int i = 0; i < FOUR; i++) {
        a[i] = of.a[group[i]];
        b[i] = IS_EVO ? 0.0F : of.b[group[i]];
    }
#pragma unroll
    for (int r = 0; r < HELD; r++) {
        if (r >= h.n_rows) {
            break;
        }
        for (int i = 0; i < FOUR; i++) {
            const float away = x[r][i] - mean[i];
            d[r][i] = IS_EVO ? d[r][i] - a[i] * away
                             : rstd[i] * ((d[r][i] - a[i]) - (away * rstd[i]) * b[i]);
        }
        store<FOUR>(to + (uint32_t)r * h.step, d[r]);
    }
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
    const int threads = holding_threads(&s, V);
    const auto kernel = threads ? held_backward<IS_EVO> : group_backward<V, IS_EVO>;
    allow_shared((const void *)kernel, shared);
    launch_kernel(kernel, dim3((unsigned)t[0].n, (unsigned)n_nodes),
                  threads ? (unsigned)threads : GROUP_BLOCK, shared, stream_of(lane), s, in, sums,
                  nodes_of<float>(&t[first + 3]));
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
