/* SPDX-License-Identifier: Apache-2.0 */
/* params.cu - parameters to bytes, and to the 256 steps that vectors have, on a GPU.
 *
 * A model has some eighty tensors of parameters, most of them tiny: one launch each would take longer
 * than a convolution. So all that a step needs are done at once, a block or more for each tensor and
 * node, from a list that is the kernel's argument; a single tensor is a list of one.
 *
 *     blocks (x)   | tensor 0, scale 0 | tensor 0, scale 1 | tensor 1 | …        nodes (y)
 *
 * A block finds the scale of its weights and writes them. Where it would have too many, they are cut
 * into pieces whose peaks a launch of its own finds before:
 *
 *     scratch: [node][scale][piece] magnitudes
 */
#include "engine/cuda/quant.cuh"

enum { LISTED = 48 }; /* tensors of a launch: what a kernel's argument has room for */

/* --- vectors ---------------------------------------------------------------------------------- */

struct vector {
    nodes<const float> from;
    nodes<float> to;
    int n;
};

struct vectors {
    struct vector of[LISTED];
};

static __global__ void __launch_bounds__(BLOCK)
    move_vectors(__grid_constant__ const struct vectors all) {
    __shared__ extremes room[32];
    const int node = (int)blockIdx.y;
    const struct vector &own = all.of[blockIdx.x];
    const float *x = own.from.of(node);
    float *y = own.to.of(node);
    const vector_steps steps = vector_steps_of(own.n, x, room);
    for (int i = (int)threadIdx.x; i < own.n; i += BLOCK) {
        y[i] = steps.at(x[i]);
    }
}

oct_status oct__cuda_vector_quantize_many(const struct oct__lane *lane,
                                          const struct oct__args *const *args, int n) {
    for (int first = 0; first < n; first += LISTED) {
        const int count = n - first < LISTED ? n - first : (int)LISTED;
        struct vectors all = {};
        for (int i = 0; i < count; i++) {
            const struct oct__tensor *t = args[first + i]->t;
            const struct vector own = {nodes_of<const float>(&t[0]), nodes_of<float>(&t[1]),
                                       (int)oct__tensor_count(&t[0])};
            all.of[i] = own;
        }
        launch_kernel(move_vectors, dim3((unsigned)count, (unsigned)lane->form.n_nodes), BLOCK, 0,
                      stream_of(lane), all);
    }
    return oct__cuda_launched("vector_quantize");
}

oct_status oct__cuda_vector_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__cuda_vector_quantize_many(lane, &args, 1);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* A tensor of weights: `count` share a scale, cut into pieces of `each`. */
struct weight_cut {
    uint32_t count, each;
    int n_scales, pieces;
    bool is_wide;
};

struct weights {
    nodes<const float> from;
    nodes<int8_t> to;
    nodes<float> scales;
    weight_cut cut;
    int blocks_end; /* blocks of the list's tensors up to and with this one */
};

struct weight_list {
    struct weights of[LISTED];
};

/* So many a single block finds the scale of and writes: two launches would take longer. */
enum { WEIGHTS_ALONE = 65536, WEIGHT_PIECE = 16384, WEIGHT_BLOCK = 1024 };

static weight_cut weight_cut_of(const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const uint32_t n_scales = count_of(&t[2]), count = count_of(&t[0]) / n_scales;
    weight_cut all = {count, count, (int)n_scales, 1, false};
    if (count > WEIGHTS_ALONE) {
        const int wanted = divided_up(count, WEIGHT_PIECE);
        all.each = (uint32_t)divided_up(count, (size_t)(wanted < 256 ? wanted : 256));
        all.each = (all.each + 3) / 4 * 4;
        all.pieces = divided_up(count, all.each);
    }
    all.is_wide = count % 4 == 0 && is_aligned(&t[0], 16) && is_aligned(&t[1], 4);
    return all;
}

/* The largest magnitude of w[first … end - 1], by the whole block. */
static __device__ inline uint32_t weight_peak(const float *w, uint32_t first, uint32_t end,
                                              bool is_wide, uint32_t room[32]) {
    uint32_t peak = 0;
    if (is_wide) {
#pragma unroll 4
        for (uint32_t e = first + 4 * threadIdx.x; e < end; e += 4 * blockDim.x) {
            float x[4];
            load_floats(w + e, x);
            peak = max(max(max(peak, magnitude(x[0])), max(magnitude(x[1]), magnitude(x[2]))),
                       magnitude(x[3]));
        }
    } else {
        for (uint32_t e = first + threadIdx.x; e < end; e += blockDim.x) {
            peak = max(peak, magnitude(w[e]));
        }
    }
    return block_max(peak, room);
}

static __device__ inline void weight_bytes(const float *w, uint32_t first, uint32_t end,
                                           bool is_wide, float inverse, int8_t *q) {
    if (is_wide) {
#pragma unroll 4
        for (uint32_t e = first + 4 * threadIdx.x; e < end; e += 4 * blockDim.x) {
            float x[4];
            int bytes[4];
            load_floats(w + e, x);
            for (int i = 0; i < 4; i++) {
                bytes[i] = nearest(held(x[i] * inverse, -127.0F, 127.0F));
            }
            *(uint32_t *)(q + e) = join_bytes(bytes);
        }
    } else {
        for (uint32_t e = first + threadIdx.x; e < end; e += blockDim.x) {
            q[e] = (int8_t)nearest(held(w[e] * inverse, -127.0F, 127.0F));
        }
    }
}

static struct weights weights_of(const struct oct__args *args) {
    const struct oct__tensor *t = args->t;
    const struct weights own = {nodes_of<const float>(&t[0]), nodes_of<int8_t>(&t[1]),
                                nodes_of<float>(&t[2]), weight_cut_of(args), 0};
    return own;
}

static __global__ void __launch_bounds__(WEIGHT_BLOCK)
    find_weight_peaks(nodes<const float> weights, weight_cut all, uint32_t *found) {
    __shared__ uint32_t room[32];
    const int node = (int)blockIdx.z;
    const float *w = weights.of(node) + (size_t)blockIdx.y * all.count;
    const uint32_t first = blockIdx.x * all.each, end = min(first + all.each, all.count);
    const uint32_t peak = weight_peak(w, first, end, all.is_wide, room);
    if (threadIdx.x == 0) {
        found[((size_t)node * gridDim.y + blockIdx.y) * (size_t)all.pieces + blockIdx.x] = peak;
    }
}

/* Tensors of one piece: no launch before it, and `found` is not read. Else it is one tensor alone,
 * whose peaks were found before. */
static __global__ void __launch_bounds__(WEIGHT_BLOCK)
    write_weights(__grid_constant__ const struct weight_list list, const uint32_t *found) {
    __shared__ uint32_t room[32];
    const int node = (int)blockIdx.y;
    int tensor = 0;
    while (list.of[tensor].blocks_end <= (int)blockIdx.x) {
        tensor++;
    }
    const struct weights &own = list.of[tensor];
    const weight_cut &cut = own.cut;
    const int block = (int)blockIdx.x - (tensor > 0 ? list.of[tensor - 1].blocks_end : 0);
    const int number = block / cut.pieces, piece = block % cut.pieces; /* its scale, its piece */
    const size_t from = (size_t)number * cut.count;
    const float *w = own.from.of(node) + from;
    const uint32_t first = (uint32_t)piece * cut.each, end = min(first + cut.each, cut.count);
    uint32_t peak = 0;
    if (cut.pieces == 1) {
        peak = weight_peak(w, first, end, cut.is_wide, room);
    } else {
        const size_t row = (size_t)node * (size_t)cut.n_scales + (size_t)number;
        if ((int)threadIdx.x < cut.pieces) {
            peak = found[row * (size_t)cut.pieces + threadIdx.x];
        }
        peak = block_max(peak, room);
    }
    const float scale = oct__symmetric_scale(__uint_as_float(peak));
    if (piece == 0 && threadIdx.x == 0) {
        own.scales.of(node)[number] = scale;
    }
    weight_bytes(w, first, end, cut.is_wide, oct__symmetric_inverse(scale), own.to.of(node) + from);
}

static unsigned threads_for(const weight_cut &cut) {
    return cut.count > 8192 ? WEIGHT_BLOCK : cut.count > 1024 ? 512 : 128;
}

static void launch_list(const struct oct__lane *lane, struct weight_list *list, int count) {
    unsigned threads = 0;
    int blocks = 0;
    for (int i = 0; i < count; i++) {
        const weight_cut &cut = list->of[i].cut;
        blocks += cut.n_scales * cut.pieces;
        list->of[i].blocks_end = blocks;
        threads = threads_for(cut) > threads ? threads_for(cut) : threads;
    }
    if (count > 0) {
        launch_kernel(write_weights, dim3((unsigned)blocks, (unsigned)lane->form.n_nodes), threads,
                      0, stream_of(lane), *list, (const uint32_t *)lane->shared_scratch);
    }
}

oct_status oct__cuda_weight_quantize_many(const struct oct__lane *lane,
                                          const struct oct__args *const *args, int n) {
    struct weight_list list = {};
    int count = 0;
    for (int i = 0; i < n; i++) {
        const struct weights own = weights_of(args[i]);
        if (own.cut.pieces > 1) {
            struct weight_list alone = {{own}};
            const dim3 grid((unsigned)own.cut.pieces, (unsigned)own.cut.n_scales,
                            (unsigned)lane->form.n_nodes);
            launch_kernel(find_weight_peaks, grid, threads_for(own.cut), 0, stream_of(lane),
                          own.from, own.cut, (uint32_t *)lane->shared_scratch);
            launch_list(lane, &alone, 1);
            continue;
        }
        list.of[count++] = own;
        if (count == LISTED) {
            launch_list(lane, &list, count);
            count = 0;
        }
    }
    launch_list(lane, &list, count);
    return oct__cuda_launched("weight_quantize");
}

oct_status oct__cuda_weight_quantize(const struct oct__lane *lane, const struct oct__args *args) {
    return oct__cuda_weight_quantize_many(lane, &args, 1);
}

size_t oct__cuda_params_scratch(enum oct__op op, const struct oct__lane_form *form,
                                const struct oct__args *args) {
    if (op != OCT_OP_WEIGHT_QUANTIZE) {
        return 0;
    }
    const weight_cut all = weight_cut_of(args);
    return (size_t)form->n_nodes * (size_t)all.n_scales * (size_t)all.pieces * sizeof(uint32_t);
}
